//! What an import says: the lines, the candidates for their objects, and phases.

use crate::cmd::source::Source;
use std::path::Path;
use tussle_evidence::Evidence;
use tussle_model::{LineSize, TypeTable};
use tussle_perf::guess::Candidate;
use tussle_perf::joint::{Named, Primitive};
use tussle_perf::objects;
use tussle_perf::phases::{all_phases, pairs};
use tussle_perf::text::TextLine;
use tussle_render::{Cell, Column, Node, Span, Tone, View, shell, thousands};
use tussle_report::pmu;

/// Lines whose candidates are printed.
const LINES_MAX: usize = 10;

/// Candidates below this confidence are shown, but name nothing.
pub const DECIDED: f64 = 0.8;

/// Candidates for the lines of a text.
#[derive(Default)]
pub struct Naming {
    /// Names of the builds.
    pub builds: Vec<String>,
    /// What each line can be.
    pub lines: Vec<Named>,
    /// Locks and trees whose place is sure.
    pub primitives: Vec<Primitive>,
    /// Totals of a recording under perf's labels, samples; empty for texts.
    pub totals: Vec<(&'static str, u64)>,
    /// Statements about objects that moved between tables.
    moves: Vec<String>,
}

impl Naming {
    /// Compares the worst lines of neighbouring tables of one text.
    pub fn add_moves(
        &mut self,
        tables: &[&[TextLine]],
        chosen: usize,
        types: &[&TypeTable],
        guess: &dyn Fn(&TextLine) -> Vec<Candidate>,
    ) {
        for i in chosen.saturating_sub(1)..=chosen {
            let (Some(Some(a)), Some(Some(b))) =
                (tables.get(i).map(|t| t.first()), tables.get(i + 1).map(|t| t.first()))
            else {
                continue;
            };
            let (a, b) = (guess(a), guess(b));
            let found = pairs(&a, &b, types);
            let builds = &self.builds;
            let name = |c: &Candidate| builds.get(c.build).cloned().unwrap_or_default();
            let say = found.iter().map(|p| {
                format!(
                    "Between tables {} and {} the phase of {} differs by {}: {} -> {} ({} -> {}).",
                    i + 1,
                    i + 2,
                    p.before.type_name,
                    p.moved(64),
                    p.before.phase,
                    p.after.phase,
                    name(p.before),
                    name(p.after)
                )
            });
            let said: Vec<String> = say.collect();
            self.moves.extend(said);
        }
    }

    /// Gives the lines' memory the best candidate's type.
    pub fn apply(&self, builds: &[Source], e: &mut Evidence) {
        for named in &self.lines {
            // Several answers that fit as well are no answer: all are printed, none is written down.
            let best = named.candidates.first().filter(|c| c.confidence >= DECIDED);
            let Some((best, build)) = best.and_then(|b| Some((b, builds.get(b.build)?))) else { continue };
            let lines = named.fitted.len();
            let together = if lines > 1 { format!(", on {lines} lines together") } else { String::new() };
            let why = format!(
                "functions fit its fields at phase {} ({:.0}% of the best possible{together}), without debug \
                 information of that build",
                best.phase,
                100.0 * best.fit
            );
            objects::place(e, best.base, &build.table, best.ty, best.confidence as f32, &why);
        }
    }

    /// What each line can be.
    pub fn candidates(&self) -> Node {
        let columns = vec![
            Column::text("line", "line"),
            Column::number("confidence", "confidence"),
            Column::number("fit", "fit"),
            Column::text("type", "type"),
            Column::number("phase", "phase"),
            Column::text("build", "build"),
            Column::text("fields", "fields by offset in the line"),
        ];
        let mut rows = Vec::new();
        for Named { address, candidates, .. } in self.lines.iter().take(LINES_MAX) {
            for c in candidates.iter().take(4) {
                let fields: Vec<String> = c.fields.iter().map(|f| format!("{} {}", f.0, f.2)).collect();
                rows.push(vec![
                    Cell::value(*address, format!("0x{address:x}")),
                    Cell::number(c.confidence, format!("{:.2}", c.confidence)),
                    Cell::number(c.fit, format!("{:.2}", c.fit)),
                    Cell::text(&c.type_name).tone(Tone::Name),
                    Cell::count(c.phase),
                    Cell::text(self.builds.get(c.build).cloned().unwrap_or_default()),
                    Cell::text(fields.join(", ")),
                ]);
            }
        }
        Node::Table { key: "candidates".into(), columns, rows }
    }

    /// Where locks and trees begin that lie in no object with a name.
    pub fn places(&self) -> Vec<String> {
        let decided: Vec<&Named> = self
            .lines
            .iter()
            .filter(|n| n.candidates.first().is_some_and(|c| c.confidence >= DECIDED))
            .collect();
        let known =
            |p: &&Primitive| !p.fields.iter().all(|f| decided.iter().any(|n| n.address == f.0 / 64 * 64));
        let say = |p: &Primitive| {
            let fields: Vec<String> = p.fields.iter().map(|f| format!("{} at 0x{:x}", f.1, f.0)).collect();
            format!(
                "A {} begins at 0x{:x} ({}; fit {:.2}), whatever holds it.",
                p.type_name,
                p.base,
                fields.join(", "),
                p.fit
            )
        };
        self.primitives.iter().filter(known).map(say).collect()
    }

    /// The best candidate of the worst line at all its phases.
    fn phases(&self) -> Option<Node> {
        let (address, best) = self.lines.iter().find_map(|n| Some((n.address, n.candidates.first()?)))?;
        let columns =
            vec![Column::number("phase", "phase"), Column::text("lines", "hot fields, a line each")];
        let rows = all_phases(best, address, 64).into_iter().map(|p| {
            let lines: Vec<String> = p.lines.iter().map(|l| l.join(", ")).collect();
            let tone = if p.phase == best.phase { Tone::Strong } else { Tone::Plain };
            vec![Cell::count(p.phase).tone(tone), Cell::text(lines.join(" | ")).tone(tone)]
        });
        Some(Node::Section {
            key: "phases".into(),
            title: format!("{} at its other phases", best.type_name),
            nodes: vec![Node::Table { key: "rows".into(), columns, rows: rows.collect() }],
        })
    }
}

/// The whole view.
pub fn view(e: &Evidence, naming: &Naming, output: &Path) -> View {
    let lines = pmu::lines(e, LineSize::L64);
    let total: u64 = lines.iter().map(|l| l.contended).fold(0, u64::saturating_add);
    let head = format!(
        "{} {} on {} line{} -> {}",
        thousands(total),
        e.run.unit,
        thousands(lines.len() as u64),
        if lines.len() == 1 { "" } else { "s" },
        output.display()
    );
    let mut nodes = vec![
        Node::Text(vec![Span::plain(head)]),
        Node::Data { key: "samples".into(), value: total.into() },
        Node::Data { key: "unit".into(), value: e.run.unit.to_string().into() },
    ];
    if !naming.totals.is_empty() {
        // As perf prints them, without those that are zero.
        let seen = naming.totals.iter().filter(|(_, n)| *n > 0);
        let rows = seen.map(|(label, n)| vec![Cell::text(*label), Cell::count(*n)]).collect();
        let columns = vec![Column::text("event", "event"), Column::number("samples", "samples")];
        nodes.push(Node::Table { key: "totals".into(), columns, rows });
    }
    if naming.lines.iter().any(|l| !l.candidates.is_empty()) {
        nodes.push(naming.candidates());
        let open = |l: &&Named| l.candidates.first().is_some_and(|c| c.confidence < DECIDED);
        let open = naming.lines.iter().filter(open).count();
        if open > 0 {
            nodes.push(Node::Text(vec![Span::plain(format!(
                "{open} of these lines stay without a name: no candidate is at least {DECIDED:.2} sure. --object \
                 ADDR=TYPE decides."
            ))]));
        }
    }
    nodes.extend(naming.places().into_iter().map(|words| Node::Text(vec![Span::plain(words)])));
    nodes.extend(naming.moves.iter().map(|m| Node::Text(vec![Span::plain(m.clone())])));
    nodes.push(Node::Data { key: "moves".into(), value: naming.moves.clone().into() });
    nodes.extend(naming.phases());
    nodes.push(Node::Text(vec![Span {
        text: format!("Next: tussle report {}", shell::file(&output.to_string_lossy())),
        tone: Tone::Dim,
    }]));
    View { kind: "import", schema_version: 1, nodes }
}
