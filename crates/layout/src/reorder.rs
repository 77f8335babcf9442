//! A smaller order of a struct's members, by size alone.
//!
//! What is fought over is not asked: that takes evidence (`tussle advise`). The compiler's rules are replayed, so the
//! size is what it will give; that nothing depends on the order is not known.

use crate::bounds::object_align;
use serde_json::json;
use tussle_model::{Aggregate, AggregateKind, Language, MemberRole, TypeId, TypeTable};
use tussle_render::{Cell, Column, Fact, Node, Tone};

/// Blocks beyond which moves are not searched.
const BLOCKS_MAX: usize = 400;

/// Moves that are proposed at most.
const MOVES_MAX: usize = 32;

/// Members that move together: one, or adjacent bit-fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    name: String,
    parts: Vec<Part>,
    /// Stays where it is: bases, vtable pointers, flexible arrays.
    fixed: bool,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    bits: u64,
    /// Of the type, bytes.
    align: u64,
    /// A bit-field: it lies in one storage unit of so many bits.
    unit: Option<u64>,
    /// Where it lies now, in bits.
    first_bit: u64,
}

/// A member that moves, and the one that it stands behind then; `None`: it comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Field, or the first of the bit-fields that move together.
    pub field: String,
    /// In front of it.
    pub behind: Option<String>,
}

/// A smaller order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Bytes before.
    pub before: u64,
    /// Bytes after all moves.
    pub after: u64,
    /// In the order in which they are made; few, the one that saves most first.
    pub moves: Vec<Move>,
}

/// The advice, or why there is none.
///
/// # Errors
/// What makes the order not ours to change, or not understood.
pub fn advise(table: &TypeTable, id: TypeId) -> Result<Advice, &'static str> {
    let a = table.aggregate(id).ok_or("it is no struct")?;
    let (mut blocks, align) = blocks(table, a)?;
    let size = |blocks: &[Block]| total(blocks, align);
    if size(&blocks) != a.size || laid_out(&blocks).any(|(at, part)| at != part.first_bit) {
        return Err(
            "its members do not lie where the compiler's rules put them (packed, aligned or padded by hand)",
        );
    }
    let mut moves = Vec::new();
    while moves.len() < MOVES_MAX {
        let Some((from, to)) = best(&blocks, align) else { break };
        let moved = blocks.remove(from);
        let field = moved.name.clone();
        blocks.insert(to, moved);
        moves.push(Move { field, behind: to.checked_sub(1).map(|i| blocks[i].name.clone()) });
    }
    Ok(Advice { before: a.size, after: size(&blocks), moves })
}

fn blocks(table: &TypeTable, a: &Aggregate) -> Result<(Vec<Block>, u64), &'static str> {
    if a.kind == AggregateKind::Union {
        return Err("members of a union all begin at the start");
    }
    if a.language == Language::Rust {
        return Err("the compiler orders it already, or repr(C) fixes it");
    }
    let mut out: Vec<Block> = Vec::new();
    for m in a.members.iter().filter(|m| m.role != MemberRole::Static) {
        if m.role == MemberRole::VirtualBase {
            return Err("it has virtual bases");
        }
        let bytes = table.size(m.ty).unwrap_or(0);
        let part = Part {
            bits: m.bit_size.map_or(bytes.saturating_mul(8), u64::from),
            align: m.align.unwrap_or(1).max(object_align(table, m.ty, false)),
            unit: m.bit_size.map(|_| bytes.saturating_mul(8).max(8)),
            first_bit: m.offset_bits,
        };
        match out.last_mut() {
            Some(run) if part.unit.is_some() && run.parts.iter().all(|p| p.unit.is_some()) => {
                run.parts.push(part)
            }
            _ => {
                let fixed = m.role != MemberRole::Field || part.bits == 0;
                let name = m.name.clone().unwrap_or_else(|| table.name(m.ty));
                out.push(Block { name, parts: vec![part], fixed });
            }
        }
    }
    let declared = a.align.map_or(1, |x| x.bytes);
    let align = out.iter().flat_map(|b| &b.parts).map(|p| p.align).fold(declared, u64::max);
    if out.len() > BLOCKS_MAX { Err("it has too many members") } else { Ok((out, align)) }
}

/// The first bit of every part under the System V rules: a bit-field goes on in its storage unit while it fits.
fn laid_out(blocks: &[Block]) -> impl Iterator<Item = (u64, &Part)> {
    let mut at = 0u64;
    let up = |at: u64, to: u64| at.checked_next_multiple_of(to.max(1)).unwrap_or(u64::MAX);
    blocks.iter().flat_map(|b| &b.parts).map(move |p| {
        let start = match p.unit {
            Some(unit) if at / unit == at.saturating_add(p.bits.max(1) - 1) / unit => at,
            Some(unit) => up(at, unit),
            None => up(at, p.align.saturating_mul(8)),
        };
        at = start.saturating_add(p.bits);
        (start, p)
    })
}

fn total(blocks: &[Block], align: u64) -> u64 {
    let end = laid_out(blocks).map(|(at, p)| at.saturating_add(p.bits).div_ceil(8)).max().unwrap_or(0);
    end.checked_next_multiple_of(align).unwrap_or(u64::MAX)
}

/// The one move that saves most; among equals the shortest, then the first. Two moves that save only together are not
/// found.
fn best(blocks: &[Block], align: u64) -> Option<(usize, usize)> {
    let now = total(blocks, align);
    let first = blocks.iter().take_while(|b| b.fixed).count();
    let last = blocks.iter().rposition(|b| !b.fixed)? + 1;
    let mut found: Option<(u64, usize, usize, usize)> = None;
    for from in (first..last).filter(|&i| !blocks[i].fixed) {
        let mut rest = blocks.to_vec();
        let moved = rest.remove(from);
        for to in first..last {
            rest.insert(to, moved.clone());
            let key = (total(&rest, align), from.abs_diff(to), from, to);
            rest.remove(to);
            if key.0 < now && found.is_none_or(|f| key < f) {
                found = Some(key);
            }
        }
    }
    found.map(|(_, _, from, to)| (from, to))
}

/// The answer of `tussle layout -R` for one type. Without moves, no single one makes it smaller.
pub fn view(table: &TypeTable, id: TypeId, line: u64) -> Node {
    let name = table.name(id);
    let mut facts = vec![fact("name", "type", Cell::text(&name))];
    let mut nodes = Vec::new();
    match advise(table, id) {
        Err(why) => facts.push(fact("left_because", "left as it is", Cell::text(why))),
        Ok(a) => {
            let size = |bytes: u64| {
                let lines = bytes.div_ceil(line.max(1));
                Cell::value(bytes, format!("{bytes} bytes, {lines} lines"))
            };
            facts.push(fact("before_bytes", "size", size(a.before)));
            facts.push(fact("after_bytes", "then", size(a.after)));
            nodes.push(moves(&a));
        }
    }
    nodes.insert(0, Node::Facts(facts));
    Node::Section { key: "type".into(), title: name, nodes }
}

fn fact(key: &str, label: &str, cell: Cell) -> Fact {
    Fact { key: key.into(), label: label.into(), cell }
}

fn moves(a: &Advice) -> Node {
    let row = |m: &Move| {
        let place = m.behind.as_ref().map_or("to the start".into(), |b| format!("behind {b}"));
        vec![Cell::text(&m.field).tone(Tone::Name), Cell::value(json!(m.behind), place)]
    };
    Node::Table {
        key: "moves".into(),
        columns: vec![Column::text("field", "move"), Column::text("behind", "to")],
        rows: a.moves.iter().map(row).collect(),
    }
}
