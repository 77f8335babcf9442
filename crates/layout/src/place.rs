//! Where a new field fits in every build given, as a view.

use crate::phases::{Where, list, span};
use crate::slots::{NewField, Slot, slots};
use serde_json::json;
use std::collections::BTreeMap;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, LineSize, TypeId, TypeTable, fields};
use tussle_render::{Cell, Column, Fact, Node, Span, Tone, offset};

/// One build of the type.
pub struct Build<'a> {
    /// File, as the user named it.
    pub name: String,
    /// Its types.
    pub table: &'a TypeTable,
    /// The type.
    pub id: TypeId,
    /// It comes from BTF.
    pub btf: bool,
}

/// A position that some build has, with what happens there in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Member in front; empty at the start.
    pub after: String,
    /// Per build, in order: what happens, or `None` where the build has no such position.
    pub slots: Vec<Option<Slot>>,
}

impl Position {
    /// Free in every build.
    pub fn is_free(&self) -> bool {
        self.slots.iter().all(|s| s.as_ref().is_some_and(Slot::is_free))
    }

    /// Members that move somewhere, and growth: smaller is better.
    fn disturbance(&self) -> (u64, usize, usize) {
        let all = || self.slots.iter().flatten();
        let growth = all().map(|s| s.growth).max().unwrap_or(u64::MAX);
        let missing = self.slots.iter().filter(|s| s.is_none()).count();
        (growth, missing, all().map(|s| s.moves.len()).max().unwrap_or(usize::MAX))
    }
}

/// More moved members than this disqualify a position from being listed.
const MOVES_MAX: usize = 4;

/// All positions where the field disturbs little, free ones first, then by how many members move.
pub fn positions(builds: &[Build<'_>], field: &NewField) -> Vec<Position> {
    let mut by_place: BTreeMap<(usize, String), Vec<Option<Slot>>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for (n, build) in builds.iter().enumerate() {
        for slot in slots(build.table, build.id, field, build.btf, MOVES_MAX + 1) {
            let rank = order.iter().position(|x| *x == slot.after).unwrap_or_else(|| {
                order.push(slot.after.clone());
                order.len() - 1
            });
            let entry =
                by_place.entry((rank, slot.after.clone())).or_insert_with(|| vec![None; builds.len()]);
            // Of two positions behind the same name (the end of an unnamed struct) the quieter one counts.
            let better = entry[n].as_ref().is_none_or(|old| !old.is_free());
            if better {
                entry[n] = Some(slot);
            }
        }
    }
    let mut all: Vec<Position> =
        by_place.into_iter().map(|((_, after), slots)| Position { after, slots }).collect();
    all.retain(|p| p.is_free() || (p.disturbance().0 == 0 && p.disturbance().2 <= MOVES_MAX));
    all.sort_by_key(|p| (!p.is_free(), p.disturbance()));
    all
}

/// The answer of `tussle place`.
pub fn view(builds: &[Build<'_>], field: &NewField, line: LineSize) -> Vec<Node> {
    let all = positions(builds, field);
    let free = all.iter().filter(|p| p.is_free()).count();
    let mut nodes = vec![Node::Facts(vec![
        fact("field", "field", Cell::text(&field.name)),
        fact("size_bytes", "size", Cell::value(field.size, format!("{} bytes", field.size))),
        fact("align_bytes", "alignment", Cell::value(field.align, format!("{} bytes", field.align))),
        fact("builds", "builds", Cell::count(builds.len() as u64)),
        fact("free", "free in all of them", Cell::count(free as u64)),
    ])];
    if free == 0 {
        let text = "no hole takes the field in every build; below is what moves least".to_string();
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Warn }]));
    }
    let columns = vec![
        Column::text("after", "position"),
        Column::text("offset_bytes", "lands at"),
        Column::text("effect", "effect"),
        Column::text("neighbours", "shares a line with"),
    ];
    let rows = all.iter().map(|p| row(builds, p, field, line)).collect();
    nodes.push(Node::Table { key: "positions".into(), columns, rows });
    nodes
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn row(builds: &[Build<'_>], p: &Position, field: &NewField, line: LineSize) -> Vec<Cell> {
    let mut offsets: Vec<u64> = p.slots.iter().flatten().map(|s| s.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let shown: Vec<String> = offsets.iter().take(3).map(|&o| offset(o)).collect();
    let more = if offsets.len() > 3 { format!(", {} more", offsets.len() - 3) } else { String::new() };
    let place = match p.after.as_str() {
        "" => String::from("at the start"),
        after => format!("after {after}"),
    };
    let tone = if p.is_free() { Tone::Good } else { Tone::Plain };
    vec![
        Cell::value(p.after.clone(), place).tone(Tone::Name),
        Cell::value(offsets, shown.join(", ") + &more),
        Cell::value(per_build(builds, p), effect(p)).tone(tone),
        neighbours(builds, p, field, line),
    ]
}

fn per_build(builds: &[Build<'_>], p: &Position) -> serde_json::Value {
    let one = |(b, s): (&Build<'_>, &Option<Slot>)| match s {
        None => json!({"build": b.name, "exists": false}),
        Some(s) => json!({
            "build": b.name, "exists": true, "offset_bytes": s.offset, "free": s.is_free(), "growth_bytes": s.growth,
            "moves": s.moves.iter().map(|(m, old, new)| json!({"field": m, "old_bytes": old, "new_bytes": new}))
                .collect::<Vec<_>>(),
        }),
    };
    builds.iter().zip(&p.slots).map(one).collect()
}

/// `moves nothing`, or the worst that happens, with the number of builds that it happens in.
fn effect(p: &Position) -> String {
    if p.is_free() {
        return "moves nothing".into();
    }
    let missing = p.slots.iter().filter(|s| s.is_none()).count();
    let mut parts: BTreeMap<String, usize> = BTreeMap::new();
    for s in p.slots.iter().flatten() {
        let moves: Vec<String> =
            s.moves.iter().map(|(m, old, new)| format!("{m} by {}", new.saturating_sub(*old))).collect();
        let text =
            if moves.is_empty() { "moves nothing".into() } else { format!("moves {}", moves.join(", ")) };
        *parts.entry(text).or_default() += 1;
    }
    let total = p.slots.len();
    let count = |(text, n): (String, usize)| match n == total {
        true => text,
        false => format!("{text} (in {n} of {total})"),
    };
    let mut text = parts.into_iter().map(count).collect::<Vec<_>>().join("; ");
    if missing > 0 {
        text.push_str(&format!("; no such position in {missing} of {total}"));
    }
    text
}

/// Fields that share a line with the new one in some phase of some build.
fn neighbours(builds: &[Build<'_>], p: &Position, field: &NewField, line: LineSize) -> Cell {
    let mut names: Vec<String> = Vec::new();
    let mut phases_seen = 1;
    for (build, slot) in builds.iter().zip(&p.slots) {
        let Some(slot) = slot else { continue };
        let new = leaf(field, slot);
        let phases = Where::Any.phases(build.table, build.id, line, build.btf);
        phases_seen = phases_seen.max(phases.len());
        let moved = |l: &Leaf| slot.moves.iter().any(|(m, _, _)| crate::phases::is_below(&l.path, m));
        for l in fields(build.table, build.id, Arrays::Whole).iter().filter(|l| l.size > 0 && !moved(l)) {
            let meets = phases.iter().any(|&ph| span(&new, ph, line).meets(span(l, ph, line)));
            if meets && !names.contains(&l.path) {
                names.push(l.path.clone());
            }
        }
    }
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    let mut text = shown.join(", ");
    if names.len() > 8 {
        text.push_str(&format!(" and {} more", names.len() - 8));
    }
    if phases_seen > 1 {
        text.push_str(&format!(" (over {})", list(&vec![0; phases_seen], phases_seen)));
    }
    Cell::value(names, text)
}

fn leaf(field: &NewField, slot: &Slot) -> Leaf {
    Leaf {
        path: field.name.clone(),
        offset: slot.offset,
        size: field.size,
        bits: None,
        ty: TypeId::VOID,
        overlaps: false,
    }
}
