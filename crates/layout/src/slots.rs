//! Where a new field fits: the compiler's layout is replayed with the field put between any two members.

use crate::align::takes_room;
use crate::holes::Extent;
use crate::phases::object_align;
use std::collections::HashMap;
use tussle_model::{Aggregate, AggregateKind, Member, Type, TypeId, TypeTable};

/// A field that is to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewField {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
}

/// What happens when the field is put behind one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Path of the member in front of it; empty at the very start.
    pub after: String,
    /// Path of the member behind it; empty at the end of a (nested) struct.
    pub before: String,
    /// Where the new field comes to lie, bytes.
    pub offset: u64,
    /// Members that move, with old and new offset.
    pub moves: Vec<(String, u64, u64)>,
    /// Bytes by which the type grows.
    pub growth: u64,
}

impl Slot {
    /// No other field moves and nothing grows.
    pub fn is_free(&self) -> bool {
        self.moves.is_empty() && self.growth == 0
    }
}

/// One member of a scope, or a run of bit-fields that cannot be parted.
struct Item {
    path: String,
    offset: u64,
    end: u64,
    align: u64,
}

/// Positions looked at; hostile files nest unnamed structs without end.
const SLOTS_MAX: usize = 10_000;

/// Every position in `id` and its unnamed structs, in order of declaration. Unions are not entered: a new member
/// there would overlap the others. Moves inside a position are cut after `moves_max`.
pub fn slots(table: &TypeTable, id: TypeId, field: &NewField, btf: bool, moves_max: usize) -> Vec<Slot> {
    let mut out = Vec::new();
    scope(table, table.strip(id), 0, field, btf, moves_max, 0, &mut out);
    out
}

#[allow(clippy::too_many_arguments)]
fn scope(
    table: &TypeTable,
    id: TypeId,
    base: u64,
    field: &NewField,
    btf: bool,
    moves_max: usize,
    depth: usize,
    out: &mut Vec<Slot>,
) {
    let Type::Aggregate(a) = table.get(id) else { return };
    if a.kind == AggregateKind::Union || depth > 16 || out.len() >= SLOTS_MAX {
        return;
    }
    let (items, align) = (items(table, id, btf), object_align(table, id, btf));
    let nested = nested(table, a);
    for i in 0..=items.len() {
        if let Some((at, ty)) = i.checked_sub(1).and_then(|k| nested.get_key_value(&items[k].offset)) {
            scope(table, *ty, base.saturating_add(*at), field, btf, moves_max, depth + 1, out);
        }
        out.push(insert(&items, i, a.size, align, base, field, moves_max));
    }
}

/// The unnamed structs inside, by their offsets.
fn nested(table: &TypeTable, a: &Aggregate) -> HashMap<u64, TypeId> {
    let mut found = HashMap::new();
    for m in a.members.iter().filter(|m| m.name.is_none() && m.bit_size.is_none()) {
        found.entry(m.offset()).or_insert_with(|| table.strip(m.ty));
    }
    found.retain(|_, ty| matches!(table.get(*ty), Type::Aggregate(x) if x.kind == AggregateKind::Struct));
    found
}

fn items(table: &TypeTable, id: TypeId, btf: bool) -> Vec<Item> {
    let Type::Aggregate(a) = table.get(id) else { return Vec::new() };
    let mut items: Vec<Item> = Vec::new();
    let mut bits = false;
    for m in a.members.iter().filter(|m| takes_room(m.role)) {
        let p = Extent::of(table, m);
        let end = if p.bits.is_some() { p.end_bit().div_ceil(8) } else { p.offset.saturating_add(p.size) };
        let path = label(table, m);
        match items.last_mut() {
            // Consecutive bit-fields stay together: a member between them would start a new unit.
            Some(last) if bits && p.bits.is_some() => {
                last.end = last.end.max(end);
                last.path = path;
            }
            _ => {
                let align = object_align(table, m.ty, btf).max(m.align.unwrap_or(1));
                let align = if p.offset.is_multiple_of(align) { align } else { 1 };
                items.push(Item { path, offset: p.offset, end, align });
            }
        }
        bits = p.bits.is_some();
    }
    items
}

/// A member's name; of an unnamed one that of its last named member, which is what its closing brace follows.
fn label(table: &TypeTable, m: &Member) -> String {
    let mut m = m;
    for _ in 0..16 {
        if let Some(name) = &m.name {
            return name.clone();
        }
        match table.aggregate(m.ty).and_then(|a| a.members.last()) {
            Some(last) => m = last,
            None => break,
        }
    }
    String::from("(unnamed)")
}

/// Replays the layout with the field in front of item `at`.
fn insert(
    items: &[Item],
    at: usize,
    size: u64,
    align: u64,
    base: u64,
    field: &NewField,
    moves_max: usize,
) -> Slot {
    let start = at.checked_sub(1).map_or(0, |i| items[i].end);
    let offset = round_up(start, field.align);
    let mut end = offset.saturating_add(field.size);
    let mut moves = Vec::new();
    for item in &items[at..] {
        if round_up(end, item.align) <= item.offset || moves.len() >= moves_max {
            break;
        }
        let moved = round_up(end, item.align);
        moves.push((item.path.clone(), base.saturating_add(item.offset), base.saturating_add(moved)));
        end = moved.saturating_add(item.end - item.offset.min(item.end));
    }
    let overflows = moves.len() >= moves_max || at + moves.len() == items.len();
    let new_size = if overflows { round_up(end, align.max(field.align)) } else { size };
    Slot {
        after: at.checked_sub(1).map_or(String::new(), |i| items[i].path.clone()),
        before: items.get(at).map_or(String::new(), |i| i.path.clone()),
        offset: base.saturating_add(offset),
        moves,
        growth: new_size.saturating_sub(size),
    }
}

fn round_up(n: u64, align: u64) -> u64 {
    n.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}

/// Reads `TYPE NAME` or `TYPE NAME[N]`, with the type looked up in `table` and among C's own and the kernel's names.
pub fn parse_field(table: &TypeTable, text: &str, btf: bool) -> Option<NewField> {
    let text = text.trim().trim_end_matches(';');
    let (mut text, mut count) = (text.to_string(), 1u64);
    while let Some((head, n)) = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        count = count.checked_mul(n.trim().parse().ok()?)?;
        text = head.trim_end().to_string();
    }
    let cut = text.rfind(|c: char| c.is_whitespace() || c == '*')? + 1;
    let (ty, name) = (text[..cut].trim(), text[cut..].trim());
    if name.is_empty() {
        return None;
    }
    let (size, align) = size_of(table, ty, btf)?;
    Some(NewField { name: name.into(), size: size.checked_mul(count)?, align: align.max(1) })
}

fn size_of(table: &TypeTable, ty: &str, btf: bool) -> Option<(u64, u64)> {
    let pointer = u64::from(table.pointer_size);
    if ty.ends_with('*') {
        return Some((pointer, pointer));
    }
    let words: Vec<&str> = ty.split_whitespace().filter(|w| !["const", "volatile"].contains(w)).collect();
    let bare = words.join(" ");
    let fixed = match bare.as_str() {
        "char" | "signed char" | "unsigned char" | "bool" | "_Bool" | "u8" | "s8" | "uint8_t" | "int8_t" => 1,
        "short" | "unsigned short" | "u16" | "s16" | "uint16_t" | "int16_t" => 2,
        "int" | "unsigned" | "unsigned int" | "u32" | "s32" | "uint32_t" | "int32_t" | "float" => 4,
        "long" | "unsigned long" | "size_t" => pointer,
        "long long" | "unsigned long long" | "u64" | "s64" | "uint64_t" | "int64_t" | "double" => 8,
        _ => 0,
    };
    if fixed > 0 {
        return Some((fixed, fixed));
    }
    let id = table.find(&bare).or_else(|| {
        table.iter().find_map(|(id, t)| match t {
            Type::Typedef { name, .. } if *name == bare => Some(id),
            Type::Base(b) if b.name == bare => Some(id),
            Type::Enum(e) if bare.strip_prefix("enum ").is_some_and(|n| e.name.as_deref() == Some(n)) => {
                Some(id)
            }
            _ => None,
        })
    })?;
    Some((table.size(id)?, object_align(table, id, btf)))
}
