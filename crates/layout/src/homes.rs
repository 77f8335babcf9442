//! Where objects of a type really lie: slab caches, containers, phases and neighbours as a view.

use crate::phases::{select, span};
use crate::slab::{Cache, Home, homes};
use serde_json::json;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, LineSize, TypeId, TypeTable, fields};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone};

/// All caches whose objects are or contain `id`, with the number of slots per phase and what an object's tail shares
/// with the next one's head.
pub fn view(table: &TypeTable, id: TypeId, caches: &[Cache], line: LineSize) -> Node {
    let found = homes(table, id, caches);
    let name = table.name(id);
    let mut nodes = vec![Node::Facts(vec![
        fact("name", "type", Cell::text(&name)),
        fact("line_bytes", "line", Cell::value(line.bytes(), format!("{} bytes", line.bytes()))),
    ])];
    if found.is_empty() {
        let text = "no slab cache holds it under a name and size that fit; its phases are unknown".into();
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Warn }]));
    }
    let all = fields(table, id, Arrays::Whole);
    nodes.push(Node::Table {
        key: "homes".into(),
        columns: vec![
            Column::text("cache", "cache"),
            Column::text("container", "container"),
            Column::number("object_bytes", "object"),
            Column::number("stride_bytes", "stride"),
            Column::number("slots", "slots"),
            Column::text("phases", "phase: slots"),
            Column::text("next_object", "shares a line with the next object"),
        ],
        rows: found.iter().map(|h| row(h, &all, line)).collect(),
    });
    Node::Section { key: "type".into(), title: name, nodes }
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn row(home: &Home, all: &[Leaf], line: LineSize) -> Vec<Cell> {
    let phases = home.phases(line);
    let text: Vec<String> = phases.iter().map(|(p, n)| format!("{p}: {n}")).collect();
    let value: Vec<_> = phases.iter().map(|(p, n)| json!({"phase_bytes": p, "slots": n})).collect();
    let pairs = neighbours(home, all, line);
    let next: Vec<_> = pairs.iter().map(|(a, b, n)| json!({"tail": a, "head": b, "slots": n})).collect();
    let next_text: Vec<String> = pairs
        .iter()
        .take(3)
        .map(|(a, b, n)| format!("{a} with {b} in {n} of {}", home.cache.objs_per_slab.saturating_sub(1)))
        .collect();
    vec![
        Cell::text(&home.cache.name),
        Cell::text(home.path("")),
        Cell::count(home.cache.object_size),
        Cell::count(home.cache.slab_size),
        Cell::count(home.cache.objs_per_slab),
        Cell::value(value, text.join("  ")),
        Cell::value(next, if next_text.is_empty() { "nothing".into() } else { next_text.join("; ") }),
    ]
}

/// Pairs of a field of this object and one of the next that share a line in some slot, most frequent first. Only an
/// object that is the whole slab object has a neighbour of its own kind.
pub fn neighbours(home: &Home, all: &[Leaf], line: LineSize) -> Vec<(String, String, u64)> {
    if !home.embedding.path.is_empty() {
        return Vec::new();
    }
    let stride = home.cache.slab_size;
    let within = line.bytes();
    let tail = all.iter().filter(|l| l.size > 0 && l.end().saturating_add(within) > stride);
    let mut out = Vec::new();
    for a in tail {
        for b in all.iter().filter(|l| l.size > 0 && l.offset < within) {
            let n = home.sharing_next(a, b, line);
            if n > 0 {
                out.push((a.path.clone(), b.path.clone(), n));
            }
        }
    }
    out.sort_unstable_by(|x, y| y.2.cmp(&x.2).then(x.cmp(y)));
    out
}

/// In how many slots of a slab two fields share a line, over all parts of both; `None` when a field does not exist.
pub fn slots_sharing(home: &Home, all: &[Leaf], a: &str, b: &str, line: LineSize) -> Option<u64> {
    let (a, b) = (select(all, a), select(all, b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let meets = |at: u64| a.iter().any(|x| b.iter().any(|y| span(x, at, line).meets(span(y, at, line))));
    let at = |s: u64| s.saturating_add(home.embedding.offset);
    Some(home.cache.starts().filter(|s| meets(at(*s))).count() as u64)
}
