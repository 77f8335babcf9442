//! The one screen that a hunt ends in.

use super::fate::{self, Fate};
use super::gate::{Case, Repairs, cases};
use super::shipped::{self, Gone};
use std::collections::BTreeSet;
use std::path::Path;
use tussle_advise::class::{self, Class, Judged};
use tussle_advise::hidden::by_fields;
use tussle_bench::{Criterion, Outcome, Paired, verdict};
use tussle_contention::analysis::Contention;
use tussle_contention::fields::Namer;
use tussle_contention::group::Group;
use tussle_contention::objective::LineCost;
use tussle_evidence::{Access, Evidence};
use tussle_render::{Cell, Column, Fact, Finding, Node, Span, Tone, View, shell, thousands};

/// Version of the `hunt` document.
const SCHEMA_VERSION: u32 = 2;

/// Code lines shown per field.
const CODE_MAX: usize = 2;

/// What a hunt found and did.
pub struct Story<'a> {
    /// What was recorded.
    pub evidence: &'a Evidence,
    seen: &'a Contention,
    evidence_file: String,
    judged: Vec<Judged<'a>>,
    cases: Vec<Case>,
    /// Cases whose stores the program as built for use does not make.
    pub gone: Vec<Gone>,
    /// Patches that survived, and what did not.
    pub repairs: Option<Repairs>,
    /// One patch of all of them.
    pub diff: String,
    /// Where it was put.
    pub patch_file: Option<String>,
    /// A file of that name which this hunt did not write.
    pub other_patch: Option<String>,
    /// What a replay said before.
    pub predicted: Option<tussle_scenarios::recorded::measured::Replayed>,
    /// Runs of both versions.
    pub measured: Option<Paired>,
    /// Steps that failed after the patch was made.
    pub failures: Vec<String>,
    /// Cases that cost at most so much do not make the exit status 1.
    pub transfers_max: Option<f64>,
}

impl<'a> Story<'a> {
    /// A story that begins with what was seen.
    pub fn new(evidence: &'a Evidence, seen: &'a Contention, evidence_file: &Path) -> Story<'a> {
        let evidence_file = evidence_file.display().to_string();
        Story {
            evidence,
            seen,
            evidence_file,
            judged: class::judge(evidence, &Namer::new(evidence), seen),
            cases: cases(evidence),
            gone: Vec::new(),
            repairs: None,
            diff: String::new(),
            patch_file: None,
            other_patch: None,
            predicted: None,
            measured: None,
            failures: Vec::new(),
            transfers_max: None,
        }
    }

    /// A layout helps somewhere.
    pub fn finding(&self) -> bool {
        !self.cases.is_empty()
    }

    /// The measured interval lies on the slower side.
    pub fn is_slower(&self) -> bool {
        self.measured.as_ref().and_then(verdict).is_some_and(|v| v.outcome == Outcome::Regressed)
    }

    /// 0: nothing that a layout helps, or all of it repaired and not slower. 1: something is left. 2: nothing seen.
    pub fn status(&self) -> u8 {
        if !self.finding() {
            return if class::blind(self.evidence).is_some() { 2 } else { 0 };
        }
        let open =
            |r: &Repairs| r.left.iter().chain(&r.beside).any(|c| c.cost > self.transfers_max.unwrap_or(0.0));
        let tried = |r: &Repairs| !r.list.is_empty() || self.transfers_max.is_some();
        let repaired = self.repairs.as_ref().is_some_and(|r| !open(r) && tried(r));
        u8::from(!repaired || self.is_slower())
    }

    /// The screen.
    pub fn view(&self) -> View {
        let namer = Namer::new(self.evidence);
        let all: Vec<&Judged<'_>> = self.judged.iter().filter(|j| j.class != Class::Small).collect();
        let mut nodes = vec![self.headline(), self.recorded()];
        nodes.extend(self.not_seen());
        nodes.push(self.lines(&all));
        nodes.extend(self.not_shipped());
        nodes.extend(self.evidence_of(&all, &namer));
        nodes
            .extend(self.repairs.iter().flat_map(|r| super::patches::nodes(r, &self.diff, self.is_slower())));
        nodes.extend(self.predicted.as_ref().map(super::predicted::node));
        nodes.extend(self.effect());
        nodes.extend(self.failed());
        nodes.push(self.next());
        let new = self.repairs.as_ref().map_or_else(Vec::new, |r| fate::new(&self.cases, r));
        nodes.extend(self.cases.iter().chain(&new).map(|c| self.finding_of(c)));
        View { kind: "hunt", schema_version: SCHEMA_VERSION, nodes }
    }

    fn headline(&self) -> Node {
        let (text, tone) = match (self.cases.len(), class::blind(self.evidence)) {
            (0, Some(reason)) => (format!("Cannot say: {reason}."), Tone::Warn),
            (0, None) => ("Nothing found that a layout helps.".to_string(), Tone::Good),
            (1, _) => ("One case found that a layout helps.".to_string(), Tone::Bad),
            (n, _) => (format!("{n} cases found that a layout helps."), Tone::Bad),
        };
        Node::Text(vec![Span { text, tone }])
    }

    /// The headline of a hunt that saw nothing, for other programs.
    fn not_seen(&self) -> Option<Node> {
        let why = class::blind(self.evidence).filter(|_| !self.finding())?;
        Some(Node::Facts(vec![Fact { key: "not_seen".into(), label: String::new(), cell: Cell::text(why) }]))
    }

    /// What the verdict rests on; whoever reads that nothing was found asks what was looked at.
    fn recorded(&self) -> Node {
        let e = self.evidence;
        let kept = || e.accesses.iter().map(Access::total).fold(0, u64::saturating_add);
        let accesses = e.run.accesses.unwrap_or_else(kept);
        let threads = e.actors.len();
        let lasted = e.run.duration_s.map_or(String::new(), |s| format!(" in {s:.1} s"));
        let plural = if threads == 1 { "" } else { "s" };
        let mut text = format!(
            "{}: {} accesses by {threads} thread{plural}{lasted}.",
            e.run.command.join(" "),
            thousands(accesses)
        );
        if !self.finding() {
            text += match threads {
                0 | 1 => " One thread shares with nobody: --run 'COMMAND' says how it works for its users.",
                _ => " Only what ran was seen: --run 'COMMAND' chooses more or other work.",
            };
        }
        Node::Text(vec![Span { text, tone: Tone::Dim }])
    }

    /// All contended lines in one table; the latent ones below.
    fn lines(&self, all: &[&Judged<'_>]) -> Node {
        let hidden = class::latent(self.evidence, self.seen, &self.judged);
        let columns = vec![
            Column::number("transfers", "transfers"),
            Column::text("kind", "kind"),
            Column::text("fields", "fields"),
        ];
        let mut rows: Vec<Vec<Cell>> = all.iter().map(|j| line_row(j)).collect();
        let namer = Namer::new(self.evidence);
        for h in by_fields(self.evidence, &namer, &hidden) {
            rows.push(vec![
                transfers(&h.group.cost).tone(Tone::Dim),
                Cell::text(h.words()).tone(Tone::Warn),
                Cell::text(h.group.title()).tone(Tone::Name),
            ]);
        }
        Node::Table { key: "lines".into(), columns, rows }
    }

    /// Looks at the program as it is built for use.
    pub fn look_at(&mut self, exe: &Path) {
        self.gone = shipped::gone(self.evidence, &self.judged, exe);
    }

    fn not_shipped(&self) -> Option<Node> {
        let row = |g: &Gone| vec![Cell::text(g.title.clone()).tone(Tone::Name), Cell::text(g.why.clone())];
        let columns = vec![Column::text("fields", "fields"), Column::text("why", "built for use")];
        let rows: Vec<Vec<Cell>> = self.gone.iter().map(row).collect();
        (!rows.is_empty()).then(|| Node::Table { key: "only_instrumented".into(), columns, rows })
    }

    /// Who does what to the fields of the worst case.
    fn evidence_of(&self, all: &[&Judged<'_>], namer: &Namer) -> Option<Node> {
        let patched = self.repairs.as_ref().and_then(|r| r.list.first()).map(|r| r.advice.type_name.clone());
        let holds = |g: &Group<'_>| {
            let Some(name) = &patched else { return true };
            g.objects().iter().any(|o| {
                self.evidence.objects.get(*o as usize).is_some_and(|o| namer.root(o).contains(bare(name)))
            })
        };
        let mut helped = all.iter().filter(|j| j.class == Class::LayoutHelps);
        let group = &helped.clone().find(|j| holds(&j.group)).or_else(|| helped.next())?.group;
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
            let Some(frame) = tussle_report::names::frame(self.evidence, t.code) else { continue };
            let file = Path::new(&frame.file).file_name().map(|n| n.to_string_lossy().into_owned());
            let place = format!("{} {}:{}", frame.function, file.unwrap_or_default(), frame.line);
            match places.iter_mut().find(|p| p.1 == place) {
                Some(p) => p.0 += t.samples,
                None => places.push((t.samples, place)),
            }
        }
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.into_iter().take(CODE_MAX).map(|p| p.1).collect::<Vec<_>>().join(", ")
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
        nodes.extend(tussle_bench::view::nodes(paired, &v, Criterion::default()));
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

    fn finding_of(&self, case: &Case) -> Node {
        let (repairs, slower) = (self.repairs.as_ref(), self.is_slower());
        let fate = Fate::of(case, repairs, slower, self.transfers_max);
        finding(case, fate, self.gone.iter().any(|g| g.title == case.title))
    }

    fn next(&self) -> Node {
        let mut words = vec![format!("Evidence is in {} (tussle report)", self.evidence_file)];
        if let Some(file) = &self.patch_file {
            let word = shell::file(file);
            words.push(format!("the patch in {file} (patch -p1 <{word} in the program's folder)"));
        }
        let other =
            self.other_patch.iter().map(|file| format!(" {file} was there before and is not of this hunt."));
        let text = format!("{}.{}", words.join(", "), other.collect::<String>());
        Node::Text(vec![Span { text, tone: Tone::Dim }])
    }
}

fn line_row(j: &Judged<'_>) -> Vec<Cell> {
    let tone = if j.class == Class::LayoutHelps { Tone::Bad } else { Tone::Dim };
    vec![
        transfers(&j.group.cost),
        Cell::text(j.class.words()).tone(tone),
        Cell::text(j.group.title()).tone(Tone::Name),
    ]
}

/// The one unit of a hunt: stores that find the line elsewhere and copies lost.
fn transfers(cost: &LineCost) -> Cell {
    Cell::number(cost.total().round(), whole(cost.total()))
}

fn finding(case: &Case, fate: Fate, gone: bool) -> Node {
    let hidden = match (case.latent, gone) {
        (true, _) => ", where the allocator puts it elsewhere",
        (false, true) => ", only in the instrumented build",
        (false, false) => "",
    };
    Node::Finding(Finding {
        rule: "false-sharing".into(),
        level: fate.level(),
        message: format!(
            "{}: {} stores that find the line elsewhere and copies lost{hidden}{}",
            case.title,
            whole(case.cost),
            fate.words()
        ),
        ..Finding::default()
    })
}

fn whole(e: f64) -> String {
    thousands(e.max(0.0).round() as u64)
}

fn bare(name: &str) -> &str {
    name.split_once(' ').map_or(name, |(_, rest)| rest)
}
