//! The differences of two whole files on one screen: new sharing of what is hot by kind first, then one row per cause.

use super::kinds::{Kind, Known, kind};
use super::view::sentence;
use super::{Pair, Side, TypeDiff};
use foldhash::{HashMap, HashMapExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use tussle_model::TypeId;
use tussle_render::{Cell, Column, Fact, Node, Span, Tone};

/// Rows of the first table on one screen, and of the second.
const HOT_SHOWN: usize = 8;
const CAUSES_SHOWN: usize = 16;

/// Types that a row names as examples.
const EXAMPLES: usize = 3;

/// Two fields that many CPUs write, in one line now and not before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HotPair {
    kinds: (Kind, Kind),
    ty: String,
    a: String,
    b: String,
    phases: (usize, usize),
}

impl HotPair {
    /// Locks before counters, then those that share in the larger part of the phases, then by name.
    pub fn rank(&self) -> (Kind, Kind, u64, String, String, String) {
        let (some, all) = (self.phases.0 as u64, self.phases.1.max(1) as u64);
        let apart = 1000 - some.saturating_mul(1000) / all;
        (self.kinds.0, self.kinds.1, apart, self.ty.clone(), self.a.clone(), self.b.clone())
    }
}

/// Pairs of locks, reference counts and atomics of different members that began to share a line.
pub fn hot_pairs(new: Side<'_>, id: TypeId, d: &TypeDiff) -> Vec<HotPair> {
    let mut known = Known::new();
    let mut of = |path| kind(new.table, id, path, &mut known);
    let outer = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_string();
    let mut out = Vec::new();
    for p in d.now_share.iter().filter(|p| outer(&p.a) != outer(&p.b)) {
        if let (Some(x), Some(y)) = (of(p.a.as_str()), of(p.b.as_str())) {
            let (ty, a, b) = (d.name.clone(), outer(&p.a), outer(&p.b));
            out.push(HotPair {
                kinds: (x.min(y), x.max(y)),
                ty,
                a,
                b,
                phases: (p.phases.len(), d.phases.len()),
            });
        }
    }
    out.sort_unstable();
    out.dedup_by(|x, y| (&x.ty, &x.a, &x.b) == (&y.ty, &y.a, &y.b));
    out
}

/// Two fields in one line now that an evidence saw in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The type.
    pub ty: String,
    /// The fields.
    pub pair: Pair,
    /// Phases that were asked about.
    pub phases: usize,
}

/// What was recorded stands before all that is only known by its kind.
pub fn recorded_view(seen: &[Recorded]) -> Option<Node> {
    let columns = vec![
        Column::text("type", "recorded, and now in one line in"),
        Column::text("field", "field"),
        Column::text("other", "with"),
        Column::text("phases", "phases"),
    ];
    let row = |r: &Recorded| {
        let (some, all) = (r.pair.phases.len(), r.phases);
        vec![
            Cell::text(&r.ty).tone(Tone::Name),
            Cell::text(&r.pair.a).tone(Tone::Bad),
            Cell::text(&r.pair.b).tone(Tone::Bad),
            Cell::value(json!([some, all]), format!("{some} of {all}")),
        ]
    };
    let rows: Vec<_> = seen.iter().map(row).collect();
    (!rows.is_empty()).then(|| Node::Table { key: "recorded".into(), columns, rows })
}

/// Types that changed for one reason.
struct Group<'a> {
    root: &'a str,
    types: Vec<&'a TypeDiff>,
}

impl Group<'_> {
    fn pairs(&self) -> usize {
        self.types.iter().map(|d| d.now_share.len()).sum()
    }
}

/// `diffs` are all types that changed; those whose sharing did not only explain others. `whole`: all rows and, in
/// text, every type.
pub fn summary_view(diffs: &[TypeDiff], hot: &[HotPair], whole: bool) -> Vec<Node> {
    let shared: Vec<&TypeDiff> = diffs.iter().filter(|d| d.sharing_changed()).collect();
    let groups = groups(&shared);
    let fact = |key: &str, label: &str, n: usize| Fact {
        key: key.into(),
        label: label.into(),
        cell: Cell::count(n as u64),
    };
    let mut nodes = vec![Node::Facts(vec![
        fact("types_changed", "types whose layout changed", diffs.len()),
        fact("types_sharing_changed", "types whose sharing changed", shared.len()),
        fact("causes_count", "causes", groups.len()),
    ])];
    let shown = |most: usize| if whole { usize::MAX } else { most };
    if !hot.is_empty() {
        nodes.push(hot_view(hot, shown(HOT_SHOWN)));
        more(&mut nodes, hot.len(), shown(HOT_SHOWN), "new pairs of locks and counters");
    }
    nodes.push(causes_view(&groups, diffs, shown(CAUSES_SHOWN)));
    more(&mut nodes, groups.len(), shown(CAUSES_SHOWN), "causes");
    let others = diffs.len() - shared.len();
    if !whole && others > 0 {
        let text = format!("changed without a change of sharing: {others}; --all lists them");
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Dim }]));
    }
    nodes.push(types_view(&diffs.iter().collect::<Vec<_>>(), whole));
    nodes
}

fn more(nodes: &mut Vec<Node>, all: usize, shown: usize, what: &str) {
    if all > shown {
        let text = format!("and {} more {what}; --all shows them, -C TYPE one type in full", all - shown);
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Dim }]));
    }
}

/// The widest first.
fn groups<'a>(shared: &[&'a TypeDiff]) -> Vec<Group<'a>> {
    let mut by_root: BTreeMap<&str, Vec<&TypeDiff>> = BTreeMap::new();
    for d in shared {
        let root = d.cause.as_ref().map(|c| c.root.as_str()).filter(|r| !r.is_empty());
        by_root.entry(root.unwrap_or(&d.name)).or_default().push(d);
    }
    let mut groups: Vec<Group<'_>> = by_root.into_iter().map(|(root, types)| Group { root, types }).collect();
    for group in &mut groups {
        group.types.sort_by_key(|d| std::cmp::Reverse(d.now_share.len()));
    }
    groups.sort_by_key(|g| (std::cmp::Reverse(g.pairs()), g.root));
    groups
}

fn hot_view(hot: &[HotPair], shown: usize) -> Node {
    let columns = vec![
        Column::text("type", "now share a line in"),
        Column::text("field", "field"),
        Column::text("other", "with"),
        Column::text("kinds", "kinds"),
        Column::text("phases", "phases"),
    ];
    let row = |p: &HotPair| {
        let kinds = [p.kinds.0.word(), p.kinds.1.word()];
        vec![
            Cell::text(&p.ty).tone(Tone::Name),
            Cell::text(&p.a).tone(Tone::Bad),
            Cell::text(&p.b),
            Cell::value(json!(kinds), kinds.join(", ")),
            Cell::value(json!([p.phases.0, p.phases.1]), format!("{} of {}", p.phases.0, p.phases.1)),
        ]
    };
    Node::Table { key: "hot".into(), columns, rows: hot.iter().take(shown).map(row).collect() }
}

fn causes_view(groups: &[Group<'_>], diffs: &[TypeDiff], shown: usize) -> Node {
    let by_name: HashMap<&str, &TypeDiff> = diffs.iter().map(|d| (d.name.as_str(), d)).collect();
    let columns = vec![
        Column::text("root", "changed"),
        Column::number("types", "types"),
        Column::number("pairs_now_share", "now share"),
        Column::text("why", "why"),
        Column::text("examples", "in"),
    ];
    let row = |g: &Group<'_>| {
        let own = by_name.get(g.root);
        let why = own.and_then(|d| d.cause.as_ref()).map(sentence);
        let size = own.map(|d| format!("size {} -> {}", d.size.0, d.size.1));
        let others = g.types.iter().map(|d| d.name.as_str()).filter(|n| *n != g.root);
        let names: Vec<&str> = others.take(EXAMPLES).collect();
        vec![
            Cell::text(g.root).tone(Tone::Name),
            Cell::count(g.types.len() as u64),
            Cell::count(g.pairs() as u64),
            why.or(size).map_or_else(Cell::unknown, Cell::text),
            Cell::value(json!(names), names.join(", ")),
        ]
    };
    Node::Table { key: "causes".into(), columns, rows: groups.iter().take(shown).map(row).collect() }
}

/// Every type, for JSON; a table where all was asked for.
fn types_view(diffs: &[&TypeDiff], whole: bool) -> Node {
    let change = |(old, new): (u64, u64)| json!({"old": old, "new": new});
    if whole {
        return super::view::table(diffs);
    }
    let row = |d: &&TypeDiff| {
        json!({
            "name": d.name, "size_bytes": change(d.size), "lines": change(d.lines),
            "pairs_now_share": d.now_share.len(), "pairs_now_apart": d.now_apart.len(),
            "cause": d.cause.as_ref().map(sentence),
        })
    };
    Node::Data { key: "types".into(), value: diffs.iter().map(row).collect() }
}
