//! Cases that this run's addresses or this machine's lines hid.

use crate::line::Context;
use crate::{fact, invalidations, names};
use tussle_contention::analysis::{HiddenBy, Latent};
use tussle_contention::fields::Namer;
use tussle_contention::group::{Group, groups};
use tussle_evidence::*;
use tussle_render::{Bytes, Cell, Column, Node, Phase, Span, Tone};

/// A latent case with its fields.
pub struct Hidden<'a> {
    /// Its line, or its equal lines.
    pub group: Group<'a>,
    /// Why it did not show.
    pub by: &'a HiddenBy,
}

impl Hidden<'_> {
    /// Its objects lie where they lay.
    pub(crate) fn is_here(&self) -> bool {
        *self.by == HiddenBy::LineSize
    }

    /// The allocator decides anew in every run whether it fights, or the linker in every build.
    pub fn by_luck(&self, e: &Evidence) -> bool {
        tussle_advise::class::is_luck(e, self.by)
    }
}

/// Names latent lines; those hidden by the line size are grouped like others.
pub fn hidden<'a>(e: &Evidence, namer: &Namer, latent: &'a [Latent]) -> Vec<Hidden<'a>> {
    let mut out = Vec::new();
    for l in latent.iter().filter(|l| l.hidden_by != HiddenBy::LineSize) {
        let group = groups(e, namer, std::iter::once(&l.line)).pop();
        out.extend(group.map(|group| Hidden { group, by: &l.hidden_by }));
    }
    let wide = latent.iter().filter(|l| l.hidden_by == HiddenBy::LineSize).map(|l| &l.line);
    // What another phase shows already needs no second telling.
    let told: Vec<u32> = out.iter().flat_map(|h: &Hidden| h.group.objects()).collect();
    let titles: Vec<String> = out.iter().map(|h: &Hidden| h.group.title()).collect();
    let new = |g: &Group| g.objects().iter().any(|o| !told.contains(o)) && !titles.contains(&g.title());
    let wide = groups(e, namer, wide).into_iter().filter(new);
    out.extend(wide.map(|group| Hidden { group, by: &HiddenBy::LineSize }));
    out
}

/// Latent cases shown in full.
const DETAILS_MAX: usize = 8;

pub(super) fn nodes(context: &Context, hidden: &[Hidden]) -> Vec<Node> {
    let columns = vec![
        Column::number("expected_invalidations", "E there"),
        Column::text("where", "latent: would fight"),
        Column::text("fields", "fields"),
    ];
    let row = |h: &Hidden| {
        vec![
            invalidations(h.group.e.e).tone(Tone::Warn),
            Cell::text(place(h.by)),
            Cell::text(h.group.title()).tone(Tone::Name),
        ]
    };
    let table = Node::Table { key: "latent".into(), columns, rows: hidden.iter().map(row).collect() };
    let items = hidden.iter().take(DETAILS_MAX).map(|h| section(context, h)).collect();
    vec![table, Node::List { key: "latent_details".into(), items }]
}

fn place(by: &HiddenBy) -> String {
    let all = by.elsewhere();
    let fights = all.iter().filter(|p| p.1 >= tussle_contention::analysis::LATENT_E_MIN).count();
    let of = all.len();
    match by {
        HiddenBy::LineSize => "with 128-byte lines or line pairs".into(),
        HiddenBy::Phase { observed, worst, .. } => {
            format!("at phase {worst}, not {observed} as here ({fights} of {of} phases)")
        }
        HiddenBy::Link { .. } => format!("where the linker puts them on one line ({fights} of {of} places)"),
        HiddenBy::Stack { .. } => format!("where the stack begins elsewhere ({fights} of {of} places)"),
    }
}

/// The object where it would fight, with E at every place that its allocator may choose.
fn drawing(context: &Context, h: &Hidden, worst: u64, phases: &[(u64, f64)]) -> Option<Node> {
    let drawn = context.drawing(&h.group, Some(worst))?;
    let phase = |&(bytes, e): &(u64, f64)| Phase {
        bytes: bytes as u32,
        expected_invalidations: Some(e.round().max(0.0) as u64),
    };
    Some(Node::Bytes(Box::new(Bytes { phases: phases.iter().map(phase).collect(), ..drawn })))
}

/// E at each place; `key` is what a place is called in JSON.
fn by_place(key: &str, places: &[(u64, f64)]) -> Cell {
    let value = |(at, e): &(u64, f64)| serde_json::json!({ key: at, "expected_invalidations": e.round() });
    let words = |(at, e): &(u64, f64)| format!("{at}: {}", invalidations(*e).text);
    let list: Vec<serde_json::Value> = places.iter().map(value).collect();
    Cell::value(list, places.iter().map(words).collect::<Vec<_>>().join("   "))
}

fn section(context: &Context, h: &Hidden) -> Node {
    let Node::Section { key, title, mut nodes } = context.section(&h.group, 0) else {
        return Node::Facts(Vec::new());
    };
    match h.by {
        HiddenBy::Phase { observed, worst, phases, .. } => {
            let why = format!(
                "The object began {observed} bytes into a line; its alignment allows {} phases. Numbers below are \
                 for phase {worst}.",
                phases.len()
            );
            if let Some(at) = nodes.iter().position(|n| matches!(n, Node::Bytes(_))) {
                nodes.splice(at..=at, drawing(context, h, *worst, phases));
            }
            nodes.insert(0, Node::Text(vec![Span { text: why, tone: Tone::Warn }]));
            nodes.insert(
                1,
                Node::Facts(vec![
                    fact("worst_phase_bytes", "", Cell::value(*worst, "")),
                    fact("phases", "E by phase", by_place("phase_bytes", phases)),
                ]),
            );
        }
        HiddenBy::Link { phases, .. } | HiddenBy::Stack { phases, .. } => {
            let why = match h.by {
                HiddenBy::Stack { .. } => {
                    "Variables on the main thread's stack that this run had on two lines. The system puts that stack \
                     elsewhere in every run, in steps of 16 bytes: numbers below are for where they share one."
                }
                _ => {
                    "Neighbouring variables that this build has on two lines. The program's own build, or the next \
                     one, may have them on one: numbers below are for it."
                }
            };
            nodes.retain(|n| !matches!(n, Node::Bytes(_)));
            nodes.insert(0, Node::Text(vec![Span { text: why.into(), tone: Tone::Warn }]));
            let places = fact("places", "E by bytes moved", by_place("moved_bytes", phases));
            nodes.insert(1, Node::Facts(vec![places]));
        }
        HiddenBy::LineSize => {
            let why = "Two 64-byte lines that machines with 128-byte lines, or adjacent-line prefetch, move as one.";
            nodes.insert(0, Node::Text(vec![Span { text: why.into(), tone: Tone::Warn }]));
            nodes.extend(context.on_lines(&h.group).map(|f| Node::Facts(vec![f])));
        }
    }
    let share = names::percent(h.group.false_share());
    nodes.push(Node::Facts(vec![fact("false_share", "", Cell::value(h.group.false_share(), share))]));
    Node::Section { key, title: format!("latent  {title}"), nodes }
}
