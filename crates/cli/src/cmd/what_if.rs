//! `tussle report --what-if` and `--layout`: where the bytes of objects would lie.

use crate::cmd::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::collections::HashMap;
use std::path::Path;
use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::relayout::Relayout;
use tussle_evidence::report::Options;
use tussle_evidence::report::what_if::{Question, what_if};
use tussle_evidence::{Evidence, Object};
use tussle_model::leaf::{Arrays, DEPTH_MAX, Leaf, leaf_at, leaves};
use tussle_model::{Type, TypeId, TypeTable};
use tussle_render::View;

/// Elements of an array that are looked through for a struct.
const ELEMENTS_MAX: u64 = 1024;

/// What a user asks: `TYPE: MOVE; MOVE`.
#[derive(Clone, Debug)]
pub struct Change {
    type_name: String,
    edits: Vec<Edit>,
    /// Fields and the bytes with which they change places.
    exchanges: Vec<(String, u64)>,
}

impl std::str::FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let how = "write `TYPE: MOVE; MOVE`, a MOVE as of `tussle fix --move`, or FIELD@BYTE";
        let (name, moves) = text.split_once(": ").ok_or(how)?;
        let mut out = Change { type_name: name.trim().into(), edits: Vec::new(), exchanges: Vec::new() };
        for one in moves.split(';').map(str::trim).filter(|m| !m.is_empty()) {
            match one.split_once('@') {
                Some((field, at)) => {
                    let at = at.parse().map_err(|_| format!("`{one}`: {how}"))?;
                    out.exchanges.push((field.trim().into(), at));
                }
                None => out.edits.push(one.parse().map_err(|e| format!("{e}, or FIELD@BYTE"))?),
            }
        }
        match (out.edits.is_empty(), out.exchanges.is_empty()) {
            (true, true) => Err(how.into()),
            (false, false) => Err("FIELD@BYTE does not go together with other moves".into()),
            _ => Ok(out),
        }
    }
}

fn answer(e: &Evidence, options: &Options, question: &Question) -> anyhow::Result<View> {
    what_if(e, options, question).context(
        "this evidence holds no ordered log of accesses: `tussle record-kernel` writes one (unless --ops made it too \
         long)",
    )
}

/// The report of a change.
///
/// # Errors
/// The type or a field is not there, or the change cannot be followed.
pub fn of_change(e: &Evidence, options: &Options, change: &Change) -> anyhow::Result<View> {
    let target = e
        .types
        .find(&change.type_name)
        .with_context(|| format!("no recorded object has or holds the type `{}`", change.type_name))?;
    let shapes = Shapes::new(&e.types);
    let relayout = Relayout::new(&shapes, target, &change.edits)?;
    let swaps = swaps(&e.types, target, &change.exchanges)?;
    let inside: HashMap<TypeId, Vec<u64>> = e
        .objects
        .iter()
        .filter_map(|o| o.ty)
        .map(|ty| (ty, occurrences(&e.types, ty, target, 0)))
        .filter(|(_, at)| !at.is_empty())
        .collect();
    let size = e.types.size(target).unwrap_or(0);
    let address = |id: u32, offset: u64| {
        let o = e.objects.get(id as usize)?;
        let Some(places) = o.ty.and_then(|t| inside.get(&t)) else { return o.base.checked_add(offset) };
        let ty = o.ty?;
        let stride = e.types.size(ty).filter(|s| *s > 0)?;
        let (element, at) = if o.count > 1 { (offset / stride, offset % stride) } else { (0, offset) };
        let new_stride = relayout.size(ty).ok().flatten().unwrap_or(stride);
        let moved = match places.iter().find(|p| (**p..*p + size).contains(&at)) {
            Some(place) => place + swapped(&swaps, at - place),
            None => at,
        };
        let moved = relayout.translate(ty, moved).ok()?;
        base(o, stride == new_stride).checked_add(element.checked_mul(new_stride)?)?.checked_add(moved)
    };
    let mut words: Vec<String> = change.edits.iter().map(Edit::sentence).collect();
    words.extend(
        change.exchanges.iter().map(|(f, at)| format!("{f} changes places with the bytes from {at}")),
    );
    let change = format!("{}: {}", e.types.name(target), words.join("; "));
    let reaches = |o: &Object| o.ty.is_some_and(|t| inside.contains_key(&t));
    answer(e, options, &Question { change, address: &address, reaches: &reaches })
}

/// The report with the layouts of another file.
///
/// # Errors
/// The file cannot be read, or has none of the types.
pub fn of_file(e: &Evidence, options: &Options, path: &Path, global: &Global) -> anyhow::Result<View> {
    let mut types: Vec<TypeId> = e.objects.iter().filter_map(|o| o.ty).collect();
    types.sort_unstable_by_key(|t| t.0);
    types.dedup();
    let bare = |ty: TypeId| e.types.aggregate(ty).and_then(|a| a.name.clone());
    let names: Vec<String> = types.iter().filter_map(|t| bare(*t)).collect();
    let other = Source::open(path, &names, global)?;
    let mut maps: HashMap<TypeId, Mapped> = HashMap::new();
    for &ty in &types {
        if let Some(new) = bare(ty).and_then(|n| other.table.find(&n)) {
            maps.insert(ty, Mapped::new(&e.types, ty, &other.table, new));
        }
    }
    if maps.is_empty() {
        bail!("{}: none of the recorded types is in there", path.display());
    }
    let address = |id: u32, offset: u64| {
        let o = e.objects.get(id as usize)?;
        match o.ty.and_then(|t| maps.get(&t)).filter(|_| o.count <= 1) {
            Some(m) => base(o, m.same_size).checked_add(m.at(offset)?),
            None => o.base.checked_add(offset),
        }
    };
    let changed = maps.values().filter(|m| m.differs).count();
    let change = format!("layouts of {}: {changed} of {} recorded types differ", path.display(), maps.len());
    let reaches = |o: &Object| o.ty.and_then(|t| maps.get(&t)).is_some_and(|m| m.differs);
    answer(e, options, &Question { change, address: &address, reaches: &reaches })
}

/// Where an object begins: a resized one gets room of its own, in the same phase.
fn base(o: &Object, same_size: bool) -> u64 {
    const ROOM: u64 = 1024;
    match same_size {
        true => o.base,
        false => (o.base & 0xffff_ffff_ffff) * ROOM + o.base % 64,
    }
}

/// One type in the other file.
struct Mapped {
    old: Vec<Leaf>,
    new: HashMap<String, u64>,
    same_size: bool,
    differs: bool,
}

impl Mapped {
    fn new(table: &TypeTable, ty: TypeId, other: &TypeTable, new_ty: TypeId) -> Mapped {
        let old = leaves(table, ty, Arrays::Whole);
        let new: HashMap<String, u64> =
            leaves(other, new_ty, Arrays::Whole).into_iter().map(|l| (l.path, l.offset)).collect();
        let same_size = table.size(ty) == other.size(new_ty);
        let differs = !same_size || old.iter().any(|l| new.get(&l.path) != Some(&l.offset));
        Mapped { old, new, same_size, differs }
    }

    /// The byte's new offset. Of a union's members, the first that the other file has decides.
    fn at(&self, offset: u64) -> Option<u64> {
        let known = self.old.iter().filter(|l| l.offset <= offset && offset < l.end());
        let known = known.min_by_key(|l| (!self.new.contains_key(&l.path), l.offset != offset, l.size));
        // Bytes behind a struct, and padding, stay.
        let Some(leaf) = known else { return leaf_at(&self.old, offset).is_none().then_some(offset) };
        self.new.get(&leaf.path).and_then(|at| at.checked_add(offset - leaf.offset))
    }
}

/// Ranges of equal length that change places, as (one, other, bytes).
fn swaps(
    table: &TypeTable,
    target: TypeId,
    wanted: &[(String, u64)],
) -> anyhow::Result<Vec<(u64, u64, u64)>> {
    let all = leaves(table, target, Arrays::Whole);
    let size = table.size(target).unwrap_or(0);
    let mut out: Vec<(u64, u64, u64)> = Vec::new();
    for (path, to) in wanted {
        let under = format!("{path}.");
        let of: Vec<&Leaf> = all.iter().filter(|l| l.path == *path || l.path.starts_with(&under)).collect();
        let (from, end) = (of.iter().map(|l| l.offset).min(), of.iter().map(|l| l.end()).max());
        let (Some(from), Some(end)) = (from, end) else {
            bail!("{} has no field `{path}`", table.name(target))
        };
        let bytes = end - from;
        if to.checked_add(bytes).is_none_or(|e| e > size) {
            bail!("{path} at byte {to} would reach behind the {size} bytes of {}", table.name(target));
        }
        let taken = |a: u64| {
            out.iter().flat_map(|s| [(s.0, s.2), (s.1, s.2)]).any(|(b, n)| a < b + n && b < a + bytes)
        };
        if from != *to && (from < to + bytes && *to < end) || taken(from) || taken(*to) {
            bail!("{path}: the bytes from {to} overlap what moves already");
        }
        out.push((from, *to, bytes));
    }
    Ok(out)
}

fn swapped(swaps: &[(u64, u64, u64)], offset: u64) -> u64 {
    for &(a, b, n) in swaps {
        if (a..a + n).contains(&offset) {
            return offset - a + b;
        }
        if (b..b + n).contains(&offset) {
            return offset - b + a;
        }
    }
    offset
}

/// Where objects of a type hold the target by value.
fn occurrences(table: &TypeTable, ty: TypeId, target: TypeId, depth: usize) -> Vec<u64> {
    let ty = table.strip(ty);
    if ty == table.strip(target) {
        return vec![0];
    }
    if depth > DEPTH_MAX {
        return Vec::new();
    }
    match table.get(ty) {
        Type::Aggregate(a) => a
            .members
            .iter()
            .filter(|m| m.bit_size.is_none())
            .flat_map(|m| {
                let at = m.offset();
                occurrences(table, m.ty, target, depth + 1).into_iter().map(move |o| at + o)
            })
            .collect(),
        Type::Array { elem, counts } => {
            let n = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?)).unwrap_or(0).min(ELEMENTS_MAX);
            let Some(size) = table.size(*elem) else { return Vec::new() };
            let one = occurrences(table, *elem, target, depth + 1);
            (0..n).flat_map(|i| one.iter().map(move |o| i * size + o)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_as_they_are_written() {
        let parse = |t: &str| t.parse::<Change>().map(|c| (c.type_name, c.edits.len(), c.exchanges));
        assert_eq!(parse("mm_struct: mmap_lock:first").unwrap(), ("mm_struct".into(), 1, vec![]));
        assert_eq!(
            parse("mm_struct: mmap_lock.owner@192; map_count@0").unwrap().2,
            [("mmap_lock.owner".to_string(), 192), ("map_count".into(), 0)]
        );
        for wrong in ["mm_struct", "mm_struct: ", "mm_struct: a@b", "mm_struct: what", "t: a:first; b@3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_change_places() {
        let swaps = [(0, 64, 8)];
        let moved: Vec<u64> = [0, 7, 8, 63, 64, 71, 72].iter().map(|o| swapped(&swaps, *o)).collect();
        assert_eq!(moved, [64, 71, 8, 63, 0, 7, 72]);
    }
}
