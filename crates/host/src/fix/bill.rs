//! A verified patch with its bill, as a view tree.

use tussle_advise::Advice;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, View, offset, plural};

use super::{FieldMove, Patched};

/// Version of the JSON document of `fix`.
pub const SCHEMA_VERSION: u32 = 1;

/// Moved fields that are listed; JSON has them all.
const ROWS_MAX: usize = 24;

/// What `tussle fix` prints: the bill first and the diff last, so that the whole output can be given to `patch`.
pub fn view(patched: &Patched, bill: Option<&Advice>) -> View {
    let mut nodes = vec![Node::Facts(facts(patched, bill))];
    let moved: Vec<&FieldMove> = patched.fields.iter().filter(|f| f.before != f.after).collect();
    if !moved.is_empty() {
        nodes.push(Node::Table {
            key: "moved".into(),
            columns: vec![
                Column::text("field", "Field"),
                Column::number("before_bytes", "Offset before"),
                Column::number("after_bytes", "after"),
                Column::number("size_bytes", "Size"),
            ],
            rows: moved.iter().take(ROWS_MAX).map(|f| row(f)).collect(),
        });
    }
    if moved.len() > ROWS_MAX {
        nodes.push(Node::Text(vec![Span::plain(format!("... and {} more fields", moved.len() - ROWS_MAX))]));
    }
    let notes: Vec<&String> = patched.notes.iter().chain(bill.iter().flat_map(|b| &b.notes)).collect();
    for note in &notes {
        nodes.push(Node::Text(vec![Span { text: format!("note: {note}"), tone: Tone::Warn }]));
    }
    for (a, b) in bill.iter().flat_map(|b| &b.new_sharing) {
        nodes.push(Node::Text(vec![Span {
            text: format!("note: new in one line: {a} and {b}"),
            tone: Tone::Warn,
        }]));
    }
    if let Some(bill) = bill {
        nodes.push(data("new_sharing", serde_json::json!(bill.new_sharing)));
        nodes.push(data("lines_per_actor_before", serde_json::json!(bill.before.lines_per_actor)));
        nodes.push(data("transfers_before", serde_json::json!(bill.before.mean)));
        nodes.push(data("phases", serde_json::json!(bill.after.phases)));
    }
    nodes.push(data("notes", serde_json::json!(notes)));
    nodes.push(Node::Block { key: "diff".into(), language: "diff", text: patched.diff.clone() });
    View { kind: "fix", schema_version: SCHEMA_VERSION, nodes }
}

fn data(key: &str, value: serde_json::Value) -> Node {
    Node::Data { key: key.into(), value }
}

fn row(f: &FieldMove) -> Vec<Cell> {
    let at = |n: u64| Cell::value(n, offset(n));
    vec![Cell::text(&f.path).tone(Tone::Name), at(f.before), at(f.after), Cell::count(f.size)]
}

fn facts(patched: &Patched, bill: Option<&Advice>) -> Vec<Fact> {
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let (before, after) = (patched.size_before, patched.size_after);
    let size = Cell::value(after, format!("{before} -> {after} bytes"));
    let mut out = vec![
        fact("type", "Struct", Cell::text(&patched.type_name).tone(Tone::Name)),
        fact("size_bytes", "Size", size),
    ];
    match bill {
        Some(b) => {
            let e = |n: f64| tussle_render::thousands(n.max(0.0).round() as u64);
            let phases = plural(b.after.phases as usize, "phase", "phases");
            let text = format!("{} -> {} (mean over {phases})", e(b.before.mean), e(b.after.mean));
            out.push(fact(
                "expected_invalidations",
                "Stores elsewhere and copies lost",
                Cell::number(b.after.mean, text),
            ));
            let here = format!("{} -> {}", e(b.before.observed), e(b.after.observed));
            out.push(fact(
                "expected_here",
                "at the recorded addresses",
                Cell::number(b.after.observed, here),
            ));
            let lines = format!("{:.1} -> {:.1}", b.before.lines_per_actor, b.after.lines_per_actor);
            let lines = Cell::number(b.after.lines_per_actor, lines);
            out.push(fact("lines_per_actor", "Lines per thread (cost without contention)", lines));
            let live = Cell::value(b.live_bytes, format!("{:+}", b.live_bytes));
            out.push(fact("live_bytes_added", "Bytes over all live objects", live));
        }
        None => out.push(fact("expected_invalidations", "Stores elsewhere and copies lost", Cell::unknown())),
    }
    let checked = format!("{} offsets equal the compiler's", patched.fields.len());
    out.push(fact("offsets_verified", "Verified", Cell::value(patched.fields.len() as u64, checked)));
    out
}
