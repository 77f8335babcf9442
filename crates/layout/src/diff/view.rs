//! A difference as a view.

use super::{Cause, Change, Moved, Pair, TypeDiff, Width};
use crate::phases::list;
use serde_json::json;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, offset};

/// Rows that text shows of each list of pairs; JSON has them all.
const PAIRS_SHOWN: usize = 40;

/// One type's difference in full.
pub fn type_view(d: &TypeDiff) -> Node {
    let mut nodes = vec![Node::Facts(vec![
        fact("name", "type", Cell::text(&d.name).tone(Tone::Name)),
        fact("size_bytes", "size", change(d.size)),
        fact("lines", "lines", change(d.lines)),
        fact("phases", "answer for", Cell::value(json!(d.phases), list(&d.phases, d.phases.len()))),
    ])];
    if let Some(cause) = &d.cause {
        nodes.push(cause_view(cause));
    }
    nodes.extend(pairs("now_share", "share a line now", &d.now_share, d.phases.len(), Tone::Bad));
    nodes.extend(pairs("now_apart", "no longer share a line", &d.now_apart, d.phases.len(), Tone::Good));
    if d.pairs_left_out > 0 {
        let cell = Cell::count(d.pairs_left_out).tone(Tone::Warn);
        nodes.push(Node::Facts(vec![fact("pairs_left_out", "pairs left out", cell)]));
    }
    nodes.push(members(d));
    Node::Section { key: "type".into(), title: d.name.clone(), nodes }
}

/// One row per type, for whole files.
pub(super) fn table(diffs: &[&TypeDiff]) -> Node {
    let columns = vec![
        Column::text("name", "type"),
        Column::text("size_bytes", "size"),
        Column::text("lines", "lines"),
        Column::number("pairs_now_share", "now share"),
        Column::number("pairs_now_apart", "now apart"),
        Column::text("cause", "cause"),
    ];
    let rows = diffs
        .iter()
        .map(|d| {
            vec![
                Cell::text(&d.name).tone(Tone::Name),
                change(d.size),
                change(d.lines),
                Cell::count(d.now_share.len() as u64),
                Cell::count(d.now_apart.len() as u64),
                d.cause.as_ref().map_or_else(Cell::unknown, |c| Cell::text(sentence(c))),
            ]
        })
        .collect();
    Node::Table { key: "types".into(), columns, rows }
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn change((old, new): (u64, u64)) -> Cell {
    let text = if old == new { new.to_string() } else { format!("{old} -> {new}") };
    Cell::value(json!({"old": old, "new": new}), text)
}

/// The cause in one sentence.
pub fn sentence(c: &Cause) -> String {
    let place = match c.after.as_str() {
        "" => String::from("at the start"),
        after => format!("after {after}"),
    };
    let what = match &c.change {
        Change::Inserted => format!("{} inserted {place}", c.member),
        Change::Resized(old, new) => format!("{} {} from {old} to {new} bytes", c.member, verb(*old, *new)),
        Change::Rewidened(old, new) => {
            format!("{} {} from {old} to {new} bits", c.member, verb(u64::from(*old), u64::from(*new)))
        }
        Change::Removed => format!("{} removed {place}", c.member),
        Change::Reordered => format!("{} now stands {place}", c.member),
        Change::Realigned => format!("{} is aligned differently {place}", c.member),
        Change::Recast(old, new) => format!("it was a {old} and is a {new}"),
        Change::Several(told, count) => {
            let more =
                if *count > told.len() { format!(" and {} more", count - told.len()) } else { String::new() };
            format!("several changes ({}{more})", told.join(", "))
        }
    };
    match &c.first_moved {
        Some(first) if c.shift != 0 && !matches!(c.change, Change::Reordered | Change::Realigned) => {
            format!("{what}: {first} moves by {:+}", c.shift)
        }
        _ => what,
    }
}

fn verb(old: u64, new: u64) -> &'static str {
    if new > old { "grew" } else { "shrank" }
}

fn cause_view(c: &Cause) -> Node {
    let slots: Vec<_> =
        c.free_slots.iter().map(|s| json!({"after": s.after, "offset_bytes": s.offset})).collect();
    let mut facts = vec![
        fact("sentence", "cause", Cell::text(sentence(c)).tone(Tone::Strong)),
        fact("member", "member", Cell::text(&c.member)),
        fact("offset_bytes", "at", Cell::value(c.offset, offset(c.offset))),
        fact("shift_bytes", "shift", Cell::value(c.shift, format!("{:+} bytes", c.shift))),
    ];
    if !c.root.is_empty() {
        let text = if c.why.is_empty() { c.root.clone() } else { format!("{}: {}", c.root, c.why) };
        facts.push(fact("root", "root", Cell::value(json!(c.root), text)));
    }
    let mut nodes = vec![Node::Facts(facts)];
    if !c.free_slots.is_empty() {
        let text: Vec<String> =
            c.free_slots.iter().map(|s| format!("after {} at {}", s.after, offset(s.offset))).collect();
        let cell = Cell::value(slots, text.join("; "));
        nodes.push(Node::Facts(vec![fact("free_slots", "would move nothing", cell)]));
    }
    Node::Section { key: "cause".into(), title: "cause".into(), nodes }
}

fn members(d: &TypeDiff) -> Node {
    let columns = vec![
        Column::text("field", "field"),
        Column::text("change", "change"),
        Column::text("old_bytes", "old"),
        Column::text("new_bytes", "new"),
    ];
    let none = || Cell::value(serde_json::Value::Null, "-");
    let at = |n: u64| Cell::value(n, offset(n));
    let mut rows = Vec::new();
    for (path, new) in &d.added {
        rows.push(vec![Cell::text(path), Cell::text("added"), none(), at(*new)]);
    }
    for (path, old) in &d.removed {
        rows.push(vec![Cell::text(path), Cell::text("removed"), at(*old), none()]);
    }
    for r in &d.resized {
        rows.push(vec![Cell::text(&r.path), Cell::text("resized"), width(r.old), width(r.new)]);
    }
    for m in &d.moved {
        let (old, new) = places(m);
        rows.push(vec![Cell::text(&m.path), Cell::text("moved"), old, new]);
    }
    Node::Table { key: "fields".into(), columns, rows }
}

fn width(width: Width) -> Cell {
    match width {
        Width::Bytes(n) => Cell::value(n, format!("{n} bytes")),
        Width::Bits(n) => Cell::value(json!({"bits": n}), format!("{n} bits")),
    }
}

/// Bytes; with the bit where that changed.
fn places(m: &Moved) -> (Cell, Cell) {
    let Some((old, new)) = m.bits else {
        return (Cell::value(m.old, offset(m.old)), Cell::value(m.new, offset(m.new)));
    };
    let at = |byte: u64, bit: u64| {
        Cell::value(json!({"offset_bytes": byte, "bit": bit}), format!("{} bit {bit}", offset(byte)))
    };
    (at(m.old, old), at(m.new, new))
}

fn pairs(key: &str, title: &str, pairs: &[Pair], phases: usize, tone: Tone) -> Vec<Node> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let columns =
        vec![Column::text("field", title), Column::text("other", "with"), Column::text("phases", "in")];
    let row = |p: &Pair| {
        let phases = Cell::value(json!(p.phases), list(&p.phases, phases));
        vec![Cell::text(&p.a).tone(tone), Cell::text(&p.b).tone(tone), phases]
    };
    let rows = pairs.iter().take(PAIRS_SHOWN).map(row).collect();
    let mut nodes = vec![Node::Table { key: key.into(), columns, rows }];
    if pairs.len() > PAIRS_SHOWN {
        let all: Vec<_> = pairs.iter().map(|p| json!([p.a, p.b, p.phases])).collect();
        nodes.push(Node::Data { key: format!("{key}_all"), value: json!(all) });
        let text = format!(
            "and {} more; --hot FIELD,.. narrows it, --format json has all",
            pairs.len() - PAIRS_SHOWN
        );
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Dim }]));
    }
    nodes
}
