//! The one screen that a hunt ends in.

use super::steps::{Fix, e_false_in, edits};
use std::collections::BTreeSet;
use std::path::Path;
use tussle_bench::{Outcome, Paired, Question, verdict};
use tussle_contention::analysis::{Contention, latent};
use tussle_contention::fields::Namer;
use tussle_contention::group::{Group, groups};
use tussle_evidence::Evidence;
use tussle_render::{Cell, Column, Fact, Finding, Level, Node, Span, Tone, View, offset, thousands};

/// Version of the `hunt` document.
const SCHEMA_VERSION: u32 = 1;

/// Fields shown with their offsets.
const OFFSETS_MAX: usize = 12;

/// Code lines shown per field.
const CODE_MAX: usize = 2;

/// What a hunt found and did.
pub struct Story<'a> {
    evidence: &'a Evidence,
    seen: &'a Contention,
    evidence_file: String,
    /// The verified patch.
    pub fix: Option<Fix>,
    /// Where the patch was put.
    pub patch_file: Option<String>,
    /// Expected invalidations (false and mixed) of the struct after the patch.
    pub after: Option<f64>,
    /// Runs of both versions.
    pub measured: Option<Paired>,
    /// Steps that failed after the patch was made.
    pub failures: Vec<String>,
    /// Advices that could not be written, with the reason.
    pub refused: Vec<(String, String)>,
}

impl<'a> Story<'a> {
    /// A story that begins with what was seen.
    pub fn new(evidence: &'a Evidence, seen: &'a Contention, evidence_file: &Path) -> Story<'a> {
        let evidence_file = evidence_file.display().to_string();
        Story {
            evidence,
            seen,
            evidence_file,
            fix: None,
            patch_file: None,
            after: None,
            measured: None,
            failures: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// At least one line is a finding.
    pub fn finding(&self) -> bool {
        self.seen.lines.iter().any(|l| l.is_finding())
    }

    /// The screen.
    pub fn view(&self) -> View {
        let namer = Namer::new(self.evidence);
        let all = groups(self.evidence, &namer, self.seen.lines.iter().filter(|l| l.is_contended()));
        let mut nodes = vec![headline(&all)];
        nodes.push(self.lines(&all));
        nodes.extend(self.evidence_of(&all, &namer));
        nodes.extend(self.patch());
        nodes.extend(self.effect());
        nodes.extend(self.failed());
        nodes.push(self.next());
        nodes.extend(all.iter().filter(|g| g.is_finding()).map(finding));
        View { kind: "hunt", schema_version: SCHEMA_VERSION, nodes }
    }

    /// All contended lines in one table; the latent ones below.
    fn lines(&self, all: &[Group<'_>]) -> Node {
        let hidden = latent(self.evidence, self.seen);
        let columns = vec![
            Column::number("expected_invalidations", "expected inv."),
            Column::text("kind", "kind"),
            Column::text("fields", "fields"),
        ];
        let mut rows: Vec<Vec<Cell>> = all.iter().map(line_row).collect();
        let namer = Namer::new(self.evidence);
        let lines: Vec<_> = hidden.iter().map(|h| &h.line).collect();
        for g in groups(self.evidence, &namer, lines.into_iter()) {
            rows.push(vec![
                Cell::number(g.e, thousands(g.e.round() as u64)).tone(Tone::Dim),
                Cell::text("latent: only at other addresses or with 128-byte lines").tone(Tone::Warn),
                Cell::text(g.title()).tone(Tone::Name),
            ]);
        }
        Node::Table { key: "lines".into(), columns, rows }
    }

    /// Who does what to the fields of the struct that was patched, or of the worst finding.
    fn evidence_of(&self, all: &[Group<'_>], namer: &Namer) -> Option<Node> {
        let target = self.fix.as_ref().map(|f| f.advice.type_name.clone());
        let holds = |g: &&Group<'_>| {
            let Some(name) = &target else { return true };
            g.objects().iter().any(|o| {
                self.evidence.objects.get(*o as usize).is_some_and(|o| namer.root(o).contains(bare(name)))
            })
        };
        let mut findings = all.iter().filter(|g| g.is_finding());
        let group = findings.clone().find(holds).or_else(|| findings.next())?;
        let columns = vec![
            Column::text("field", "field"),
            Column::number("reads", "reads"),
            Column::number("writes", "writes"),
            Column::number("rmws", "atomics"),
            Column::text("code", "code"),
        ];
        let row = |f: &tussle_contention::group::FieldUse| {
            let n = |x: f64| Cell::count(x.round() as u64);
            vec![
                Cell::text(f.path.clone()).tone(Tone::Name),
                n(f.counts.reads),
                n(f.counts.writes),
                n(f.counts.rmws),
                Cell::text(self.code_of(f)),
            ]
        };
        let rows = group.fields.iter().take(8).map(row).collect();
        let threads: BTreeSet<u32> = group.fields.iter().flat_map(|f| f.actors.keys().copied()).collect();
        let title = format!("{}, {} threads", group.title(), threads.len());
        let table = Node::Table { key: "fields".into(), columns, rows };
        Some(Node::Section { key: "evidence".into(), title, nodes: vec![table] })
    }

    /// `worker.c:26 serve`, the places that touch a field most.
    fn code_of(&self, f: &tussle_contention::group::FieldUse) -> String {
        let overlaps = |t: &&tussle_evidence::Touch| {
            t.object == f.object && t.offset < f.offset + f.size && f.offset < t.offset + u64::from(t.size)
        };
        let mut places: Vec<(u64, String)> = Vec::new();
        for t in self.evidence.touches.iter().filter(overlaps) {
            let frame = self.evidence.code.get(t.code as usize).and_then(|c| c.frames.first());
            let Some(frame) = frame else { continue };
            let file = Path::new(&frame.file).file_name().map(|n| n.to_string_lossy().into_owned());
            let place = format!("{} {}:{}", frame.function, file.unwrap_or_default(), frame.line);
            match places.iter_mut().find(|p| p.1 == place) {
                Some(p) => p.0 += t.samples,
                None => places.push((t.samples, place)),
            }
        }
        places.sort_by(|a, b| b.cmp(a));
        places.into_iter().take(CODE_MAX).map(|p| p.1).collect::<Vec<_>>().join(", ")
    }

    fn patch(&self) -> Vec<Node> {
        let Some(fix) = &self.fix else { return self.no_patch() };
        let a = &fix.advice;
        let before = e_false_in(self.evidence, self.seen, &a.type_name);
        let text = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
        let mut facts = vec![
            text("edit", "edit", Cell::text(edits(a)).tone(Tone::Strong)),
            text("why", "why", Cell::text(a.why.clone())),
            text(
                "size_bytes",
                "size",
                Cell::text(format!("{} to {} bytes", fix.patched.size_before, fix.patched.size_after)),
            ),
            text(
                "live_bytes",
                "memory",
                Cell::value(a.live_bytes, format!("{:+} bytes over all live objects", a.live_bytes)),
            ),
            text("new_sharing", "new sharing", Cell::text(new_sharing(a))),
        ];
        if let Some(after) = self.after {
            let shown = format!("{} to {}, recorded again after the patch", whole(before), whole(after));
            let value = serde_json::json!({ "before": before, "after": after });
            facts.push(text(
                "expected_invalidations",
                "expected inv.",
                Cell::value(value, shown).tone(Tone::Good),
            ));
        }
        for (title, reason) in &fix.refused {
            let n = facts.len();
            let cell = Cell::text(format!("{title}: {reason}")).tone(Tone::Dim);
            facts.push(text(&format!("passed_over_{n}"), "passed over", cell));
        }
        for note in a.notes.iter().chain(&fix.patched.notes) {
            let n = facts.len();
            facts.push(text(&format!("note_{n}"), "note", Cell::text(note.clone()).tone(Tone::Warn)));
        }
        let diff = Node::Block { key: "diff".into(), language: "diff", text: fix.patched.diff.clone() };
        let title = format!("Patch of {}, offsets verified by compiling it", a.type_name);
        let nodes = vec![Node::Facts(facts), diff, offsets(fix)];
        vec![Node::Section { key: "patch".into(), title, nodes }]
    }

    fn no_patch(&self) -> Vec<Node> {
        if !self.finding() {
            return Vec::new();
        }
        let text = match self.refused.is_empty() {
            true => "No move of a field of the program's own structs would help.".to_string(),
            false => "No patch could be written:".to_string(),
        };
        let mut nodes = vec![Node::Text(vec![Span { text, tone: Tone::Warn }])];
        for (title, reason) in &self.refused {
            nodes.push(Node::Text(vec![Span::plain(format!("  {title}: {reason}"))]));
        }
        nodes
    }

    fn effect(&self) -> Option<Node> {
        let paired = self.measured.as_ref()?;
        let v = verdict(paired)?;
        let sentence = match v.outcome {
            Outcome::Equivalent => "No effect on this machine".to_string(),
            Outcome::Inconclusive => "Not decided on this machine".to_string(),
            Outcome::Improved => "Faster on this machine".to_string(),
            Outcome::Regressed => "Slower on this machine".to_string(),
        };
        let sentence = Node::Text(vec![Span { text: sentence, tone: tussle_bench::view::tone(v.outcome) }]);
        let mut nodes = vec![sentence];
        nodes.extend(tussle_bench::view::nodes(paired, &v, Question::default()));
        Some(Node::Section {
            key: "measured".into(),
            title: "Measured without instrumentation".into(),
            nodes,
        })
    }

    fn failed(&self) -> Option<Node> {
        let rows: Vec<Vec<Cell>> =
            self.failures.iter().map(|f| vec![Cell::text(f.clone()).tone(Tone::Warn)]).collect();
        let columns = vec![Column::text("failure", "failed")];
        (!rows.is_empty()).then(|| Node::Table { key: "failures".into(), columns, rows })
    }

    fn next(&self) -> Node {
        let mut words = vec![format!("Evidence is in {} (tussle report)", self.evidence_file)];
        if let Some(file) = &self.patch_file {
            words.push(format!("the patch in {file} (patch -p1 <{file} in the program's folder)"));
        }
        Node::Text(vec![Span { text: format!("{}.", words.join(", ")), tone: Tone::Dim }])
    }
}

fn headline(all: &[Group<'_>]) -> Node {
    let findings = all.iter().filter(|g| g.is_finding()).count();
    let (text, tone) = match findings {
        0 => ("No false sharing found.".to_string(), Tone::Good),
        1 => ("False sharing found in one place.".to_string(), Tone::Bad),
        n => (format!("False sharing found in {n} places."), Tone::Bad),
    };
    Node::Text(vec![Span { text, tone }])
}

fn line_row(g: &Group<'_>) -> Vec<Cell> {
    let (kind, tone) = match (g.is_finding(), g.false_share()) {
        (true, share) if share < 0.95 => ("false and true sharing", Tone::Bad),
        (true, _) => ("false sharing", Tone::Bad),
        (false, _) => ("true sharing: the same bytes, no layout helps", Tone::Dim),
    };
    vec![
        Cell::number(g.e, thousands(g.e.round() as u64)),
        Cell::text(kind).tone(tone),
        Cell::text(g.title()).tone(Tone::Name),
    ]
}

fn finding(g: &Group<'_>) -> Node {
    Node::Finding(Finding {
        rule: "false-sharing".into(),
        level: Level::Error,
        message: format!("{}: {} expected invalidations", g.title(), whole(g.e)),
        ..Finding::default()
    })
}

fn offsets(fix: &Fix) -> Node {
    let columns = vec![
        Column::text("field", "field"),
        Column::number("before_bytes", "before"),
        Column::number("after_bytes", "after"),
    ];
    let cell = |bytes: u64| Cell::value(bytes, offset(bytes));
    let changed = fix.patched.fields.iter().filter(|f| f.before != f.after);
    let rows =
        changed.take(OFFSETS_MAX).map(|f| vec![Cell::text(f.path.clone()), cell(f.before), cell(f.after)]);
    Node::Table { key: "offsets".into(), columns, rows: rows.collect() }
}

fn new_sharing(a: &tussle_advise::Advice) -> String {
    if a.new_sharing.is_empty() {
        return "none".into();
    }
    a.new_sharing.iter().map(|(x, y)| format!("{x} \u{27f7} {y}")).collect::<Vec<_>>().join(", ")
}

fn whole(e: f64) -> String {
    thousands(e.max(0.0).round() as u64)
}

fn bare(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, rest)| rest)
}
