//! Where recorded fields lie: as recorded, in another layout, or each on a line of its own.

use super::fields::element;
use super::lock::{Lock, words};
use super::{CELLS_MAX, RecordedError, Recording};
use crate::nodes::Nodes;
use crate::stories::Setup;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tussle_model::leaf::{Arrays, Leaf, leaf_at, leaves};
use tussle_model::{Type, TypeId, TypeTable};
use tussle_sim::{Cell, LayoutError, MemoryMap, Shape};

/// Bytes of a pair of lines, the largest unit of sharing.
const BLOCK: u64 = 128;

/// An object grows or moves by no more than this many bytes.
const GROWTH_MAX: i64 = 1 << 40;

/// Another layout of recorded types.
#[derive(Clone, Debug, PartialEq)]
pub struct Relocation {
    /// What to call it.
    pub label: String,
    types: HashMap<TypeId, Moved>,
}

/// One type in its other layout.
#[derive(Clone, Debug, PartialEq)]
struct Moved {
    size: u64,
    align: u64,
    to: HashMap<u64, u64>,
}

impl Relocation {
    /// Nothing moved yet.
    pub fn new(label: &str) -> Relocation {
        Relocation { label: label.into(), types: HashMap::new() }
    }

    /// Bytes of type `ty` now lie elsewhere: pairs of old and new offset within one element, which takes `size` bytes
    /// and begins on multiples of `align`.
    pub fn add(&mut self, ty: TypeId, size: u64, align: u64, to: impl IntoIterator<Item = (u64, u64)>) {
        let moved = Moved { size: size.max(1), align: align.max(1), to: to.into_iter().collect() };
        self.types.insert(ty, moved);
    }

    /// No type has moved.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The recorded types as `other` lays them out, fields found by their paths. Types that `other` does not have
    /// stay.
    ///
    /// # Errors
    /// No recorded type is there, or a recorded field is not.
    pub fn of_types(
        recording: &Recording,
        recorded: &TypeTable,
        other: &TypeTable,
        label: &str,
    ) -> Result<Relocation, RecordedError> {
        let mut out = Relocation::new(label);
        let wanted = recording.wanted();
        for (&ty, offsets) in &wanted {
            // A variable's type may be an array: its elements are what the other build has.
            let (one, count) = element_type(recorded, ty);
            let name = recorded.name(one);
            let Some(id) = other.find(&name) else { continue };
            let (Some(size), Some(other_size)) = (recorded.size(one).filter(|s| *s > 0), other.size(id))
            else {
                continue;
            };
            let (old, new) = (leaves(recorded, one, Arrays::Elements), leaves(other, id, Arrays::Elements));
            let follow = |at: u64| {
                let index = (at / size).min(count - 1);
                Ok((at, index * other_size + follow(&name, &old, &new, at - index * size)?))
            };
            let to = offsets.iter().map(|&at| follow(at)).collect::<Result<Vec<_>, LayoutError>>();
            let to = to.map_err(|error| RecordedError::Layout { label: label.into(), error })?;
            out.add(ty, other_size.saturating_mul(count), declared_align(other, id), to);
        }
        if out.is_empty() {
            let types: BTreeSet<String> = wanted.keys().map(|t| recorded.name(*t)).take(8).collect();
            let types = types.into_iter().collect::<Vec<_>>().join(", ");
            return Err(RecordedError::NoType { label: label.into(), types });
        }
        Ok(out)
    }
}

/// The innermost element of an array of structs, and how many there are; a type that is no array is its own element.
fn element_type(table: &TypeTable, ty: TypeId) -> (TypeId, u64) {
    let (mut one, whole) = (ty, table.size(ty).unwrap_or(0));
    while let Type::Array { elem, .. } = table.get(table.strip(one)) {
        one = *elem;
    }
    let size = table.size(one).unwrap_or(0);
    match (table.aggregate(one), whole.checked_div(size)) {
        (Some(_), Some(count)) if count > 1 => (one, count),
        _ => (ty, 1),
    }
}

/// The alignment that a type's or a member's declaration asks for; 1 where nothing is told.
fn declared_align(table: &TypeTable, id: TypeId) -> u64 {
    let Some(a) = table.aggregate(id) else { return 1 };
    let members = a.members.iter().filter_map(|m| m.align).max().unwrap_or(1);
    a.align.map_or(1, |x| x.bytes).max(members)
}

/// Words of locks that newer kernels have under another name.
const ALIASES: [(&str, &str); 2] = [("wait_list.next", "first_waiter"), ("wait_list.prev", "first_waiter")];

/// Where the field at offset `at` of the old layout lies in the new one.
fn follow(ty: &str, old: &[Leaf], new: &[Leaf], at: u64) -> Result<u64, LayoutError> {
    let Some(leaf) = leaf_at(old, at) else { return Ok(at) };
    let find = |path: &str| new.iter().find(|l| l.path == path);
    let other = |(a, b): &(&str, &str)| {
        let renamed = |from: &str, to: &str| Some(format!("{}{to}", leaf.path.strip_suffix(from)?));
        find(&renamed(a, b).or(renamed(b, a))?)
    };
    match find(&leaf.path).or(ALIASES.iter().find_map(other)) {
        Some(l) => Ok(l.offset + (at - leaf.offset).min(l.size.saturating_sub(1))),
        None => Err(LayoutError::UnknownField {
            ty: ty.into(),
            field: leaf.path.clone(),
            known: new.iter().take(12).map(|l| l.path.as_str()).collect::<Vec<_>>().join(", ") + ", ...",
        }),
    }
}

/// Which layout a replay uses.
#[derive(Clone, Copy, Debug)]
pub enum Arrangement<'a> {
    /// As recorded.
    Recorded,
    /// Every field on its own pair of lines.
    Ideal,
    /// Some types otherwise.
    Moved(&'a Relocation),
}

/// Objects of one replay: for every copy, the cells of all spots and the locks.
#[derive(Clone, Debug)]
pub struct Arranged {
    pub(super) memory: MemoryMap,
    /// By copy, then spot. Spots that are shared by all have the same cell in every copy.
    pub(super) cells: Vec<Arc<[Cell]>>,
    /// By copy, then lock.
    pub(super) locks: Vec<Vec<Lock>>,
}

/// A cell to be placed: address before compression, size, name, and for whom: spot or (lock, word).
struct Wanted {
    addr: u64,
    size: u8,
    name: String,
    label: usize,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Spot(usize),
    Word(usize, usize),
}

/// Spots and locks in one object.
type Inside = (Vec<usize>, Vec<usize>);

/// Lays a recording out for `tasks` tasks. Nothing depends on what it is compared with: before is where things were
/// recorded.
pub fn arrange(
    r: &Recording,
    how: Arrangement<'_>,
    tasks: usize,
    setup: &Setup,
) -> Result<Arranged, RecordedError> {
    let copies = tasks.div_ceil(r.actors.max(1)).max(1);
    let own = r.spots.iter().filter(|s| s.owner.is_some()).count()
        + r.locks.iter().filter(|l| l.owner.is_some()).count();
    let all = r.spots.len() + r.locks.len() + own.saturating_mul(copies);
    if all > CELLS_MAX {
        return Err(RecordedError::TooMany { cells: r.spots.len(), tasks });
    }
    let mut memory = MemoryMap::new();
    let groups = groups(r);
    let mut inside: Vec<Inside> = vec![Default::default(); r.places.len()];
    let mut note = |object: usize, spot: Option<usize>, lock: Option<usize>| {
        if let Some(i) = inside.get_mut(object) {
            i.0.extend(spot);
            i.1.extend(lock);
        }
    };
    r.spots.iter().enumerate().for_each(|(i, s)| note(s.object, Some(i), None));
    r.locks.iter().enumerate().for_each(|(i, l)| note(l.object, None, Some(i)));
    let mut spots = vec![vec![Cell::NULL; r.spots.len()]; copies];
    let mut word_cells: Vec<BTreeMap<(usize, usize), Cell>> = vec![BTreeMap::new(); copies];
    for copy in 0..copies {
        for members in groups.values() {
            let wanted = wanted(r, how, (members, &inside), copy, setup);
            for (w, cell) in
                wanted.iter().zip(put(&mut memory, r, &wanted, matches!(how, Arrangement::Ideal))?)
            {
                match w.of {
                    Of::Spot(i) => spots[copy][i] = cell,
                    Of::Word(l, i) => drop(word_cells[copy].insert((l, i), cell)),
                }
            }
        }
    }
    let queue = queue_shape();
    let nodes = Nodes::new(&mut memory, tasks)?;
    let mut locks: Vec<Vec<Lock>> = Vec::with_capacity(copies);
    for (copy, words_of) in word_cells.iter().enumerate() {
        let mut row = Vec::with_capacity(r.locks.len());
        for (i, l) in r.locks.iter().enumerate() {
            if copy > 0 && l.owner.is_none() {
                row.push(locks[0][i].clone());
                continue;
            }
            let own: Vec<Cell> =
                (0..l.found.words.len()).filter_map(|w| words_of.get(&(i, w)).copied()).collect();
            let words = words(&own, memory.object(&queue, 0)?);
            row.push(Lock::new(l.found.model, words, &nodes, setup.spin, setup.steal));
        }
        locks.push(row);
    }
    let (first, rest) = spots.split_at_mut(1);
    for (i, _) in r.spots.iter().enumerate().filter(|(_, s)| s.owner.is_none()) {
        rest.iter_mut().for_each(|copy| copy[i] = first[0][i]);
    }
    Ok(Arranged { memory, cells: spots.into_iter().map(Arc::from).collect(), locks })
}

/// Where a recording's bytes lie in one piece of real memory, in one layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Native {
    /// Bytes of it.
    pub bytes: u64,
    /// Place and size (1, 2, 4 or 8) of every spot, by its number; accesses never cross their size.
    pub spots: Vec<(u64, u64)>,
    /// Place of every lock's first byte, by its number, on a multiple of 8.
    pub locks: BTreeMap<usize, u64>,
}

/// Lays a recording out in real memory: the same distances as in the simulator, with room for whole locks.
pub fn native(r: &Recording, how: Arrangement<'_>, setup: &Setup) -> Result<Native, RecordedError> {
    let mut inside: Vec<Inside> = vec![Default::default(); r.places.len()];
    r.spots
        .iter()
        .enumerate()
        .for_each(|(i, s)| inside.get_mut(s.object).into_iter().for_each(|o| o.0.push(i)));
    r.locks
        .iter()
        .enumerate()
        .for_each(|(i, l)| inside.get_mut(l.object).into_iter().for_each(|o| o.1.push(i)));
    if r.spots.len() + r.locks.len() > CELLS_MAX {
        return Err(RecordedError::TooMany { cells: r.spots.len(), tasks: r.actors });
    }
    let mut out = Native { bytes: 0, spots: vec![(0, 8); r.spots.len()], locks: BTreeMap::new() };
    for members in groups(r).values() {
        let mut wanted = wanted(r, how, (members, &inside), 0, setup);
        // Words of a lock of a program but its first are its own business.
        wanted.retain(|w| matches!(w.of, Of::Spot(_) | Of::Word(_, 0)));
        let room = |w: &Wanted| match w.of {
            Of::Spot(_) => u64::from(w.size),
            Of::Word(l, _) => r.locks.get(l).map_or(8, |l| l.found.size.max(8)),
        };
        let blocks: BTreeSet<u64> =
            wanted.iter().flat_map(|w| w.addr / BLOCK..=(w.addr + room(w) - 1) / BLOCK).collect();
        let rank: HashMap<u64, u64> = blocks.iter().enumerate().map(|(i, b)| (*b, i as u64)).collect();
        let apart = matches!(how, Arrangement::Ideal).then(|| split(r, &wanted));
        let size = apart.as_ref().map_or(blocks.len() as u64 * BLOCK, |a| a.1 + BLOCK);
        for (i, w) in wanted.iter().enumerate() {
            let near = || rank.get(&(w.addr / BLOCK)).copied().unwrap_or(0) * BLOCK + w.addr % BLOCK;
            let at = out.bytes + apart.as_ref().and_then(|a| a.0.get(i).copied()).unwrap_or_else(near);
            match w.of {
                Of::Spot(s) => {
                    let size = [8u64, 4, 2].into_iter().find(|s| *s <= u64::from(w.size)).unwrap_or(1);
                    out.spots[s] = (at / size * size, size);
                }
                Of::Word(l, _) => drop(out.locks.insert(l, at / 8 * 8)),
            }
        }
        out.bytes = (out.bytes + size).next_multiple_of(BLOCK);
    }
    Ok(out)
}

/// Waiters of a lock that has no words for them: a bucket of the kernel's, on its own lines.
fn queue_shape() -> Arc<Shape> {
    let names = crate::locks::SleepWords::FIELDS;
    let fields: Vec<(&str, u32, u8)> = names.iter().enumerate().map(|(i, n)| (*n, i as u32 * 8, 8)).collect();
    Arc::new(Shape::new("lock queue", 64, &fields))
}

/// Objects by group.
fn groups(r: &Recording) -> BTreeMap<usize, Vec<usize>> {
    let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    r.places.iter().enumerate().for_each(|(i, p)| out.entry(p.group).or_default().push(i));
    out
}

/// Where the objects of one group begin, from the beginning of the group, by object.
///
/// As recorded they keep their places; one whose place was not recorded, and a further copy of one that the heap
/// holds, begins anywhere its alignment allows. In another layout an object that grows pushes those behind it, as an
/// allocator or a linker would, and one that its new alignment moves takes the others along.
fn starts(
    r: &Recording,
    how: Arrangement<'_>,
    members: &[usize],
    copy: usize,
    setup: &Setup,
) -> HashMap<usize, u64> {
    let mut order: Vec<(u64, usize)> =
        members.iter().filter_map(|&m| Some((r.places.get(m)?.base, m))).collect();
    order.sort_unstable();
    let base = order.first().map_or(0, |o| o.0) / BLOCK * BLOCK;
    let single = order.len() == 1;
    let mut shift = 0i64;
    let mut out = HashMap::with_capacity(order.len());
    for (at, object) in order {
        let place = &r.places[object];
        let (align, grown) =
            moved(how, place).map_or((1, 0), |(m, size)| (alignment(m), growth(m, size, place)));
        let drawn = single && (copy > 0 || !place.known || grown != 0);
        let start = match place.step.filter(|_| drawn) {
            Some(step) => {
                let step = step.max(align);
                u64::from(setup.phase_of(object as u32 + copy as u32)) / step * step
            }
            None => ((at - base) % (1 << 40)).saturating_add_signed(shift).next_multiple_of(align),
        };
        let step = place.step.unwrap_or(align).max(1) as i64;
        // What lies behind begins later by as much as the object begins and is longer.
        shift = start as i64 - ((at - base) % (1 << 40)) as i64;
        shift = (shift + (grown + step - 1).div_euclid(step) * step).clamp(-GROWTH_MAX, GROWTH_MAX);
        out.insert(object, start);
    }
    out
}

/// How a layout changes the type of an object, and the bytes of one element as recorded.
fn moved<'a>(how: Arrangement<'a>, place: &super::TouchedObject) -> Option<(&'a Moved, u64)> {
    let (Arrangement::Moved(m), Some((ty, size))) = (how, place.ty) else { return None };
    Some((m.types.get(&ty)?, size.max(1)))
}

fn alignment(m: &Moved) -> u64 {
    m.align.checked_next_power_of_two().unwrap_or(BLOCK).min(BLOCK)
}

/// Bytes by which all elements of an object grow.
fn growth(m: &Moved, size: u64, place: &super::TouchedObject) -> i64 {
    let by = m.size.min(1 << 32) as i64 - size.min(1 << 32) as i64;
    by.saturating_mul(place.count.clamp(1, 1 << 20) as i64).clamp(-GROWTH_MAX, GROWTH_MAX)
}

/// Where a byte of an object of `count` elements of `size` bytes lies in the other layout.
fn moved_to(m: &Moved, size: u64, count: u64, offset: u64) -> u64 {
    let element = element(size, count, offset);
    let at = offset - element;
    // What lies behind the struct keeps its distance from the struct's end.
    let new = match at.checked_sub(size) {
        Some(behind) => m.size.saturating_add(behind),
        None => m.to.get(&at).copied().unwrap_or(at),
    };
    (element / size).saturating_mul(m.size).saturating_add(new)
}

/// What one copy of a group has to have placed, with addresses from the beginning of the group.
fn wanted(
    r: &Recording,
    how: Arrangement<'_>,
    (members, inside): (&[usize], &[Inside]),
    copy: usize,
    setup: &Setup,
) -> Vec<Wanted> {
    let starts = starts(r, how, members, copy, setup);
    let mut out = Vec::new();
    let address = |object: usize, offset: u64| -> u64 {
        let (Some(p), Some(start)) = (r.places.get(object), starts.get(&object)) else { return offset };
        let to = moved(how, p).map(|(m, size)| moved_to(m, size, p.count, offset));
        start.saturating_add(to.unwrap_or(offset))
    };
    let mine = || members.iter().filter_map(|&m| inside.get(m));
    for (i, s) in mine().flat_map(|m| &m.0).filter_map(|&i| Some((i, r.spots.get(i)?))) {
        if copy == 0 || s.owner.is_some() {
            let name = s.name.clone();
            out.push(Wanted {
                addr: address(s.object, s.offset),
                size: s.size,
                name,
                label: s.object,
                of: Of::Spot(i),
            });
        }
    }
    for (i, l) in mine().flat_map(|m| &m.1).filter_map(|&i| Some((i, r.locks.get(i)?))) {
        if copy > 0 && l.owner.is_none() {
            continue;
        }
        for (n, &(offset, size)) in l.found.words.iter().enumerate() {
            let word = crate::locks::SleepWords::FIELDS.get(n).copied().unwrap_or("word");
            let lock = l.found.member.clone().unwrap_or_else(|| format!("lock@{}", l.found.start));
            let name = format!("{lock}.{word}");
            out.push(Wanted {
                addr: address(l.object, offset),
                size,
                name,
                label: l.object,
                of: Of::Word(i, n),
            });
        }
    }
    out
}

/// Places with every field on lines of its own, and the bytes that this takes. Elements of one array that the same
/// actors use stay together: to have a buffer's words far apart would be no better layout.
fn split(r: &Recording, wanted: &[Wanted]) -> (Vec<u64>, u64) {
    let family = |w: &Wanted| {
        let owner = match w.of {
            Of::Spot(i) => r.spots.get(i).map(|s| s.owner),
            Of::Word(..) => None,
        };
        let stem =
            w.name.rsplit_once('[').map_or(if w.name.starts_with('+') { "+" } else { &w.name }, |n| n.0);
        (w.label, stem.to_string(), owner)
    };
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&i| (wanted[i].label, wanted[i].addr));
    let mut places = vec![0; wanted.len()];
    let (mut start, mut base, mut next) = (0u64, 0u64, 0u64);
    let mut last: Option<(_, u64)> = None;
    for i in order {
        let (w, this) = (&wanted[i], family(&wanted[i]));
        let near = |end: u64| w.addr < end.saturating_add(BLOCK);
        let joins =
            matches!(w.of, Of::Spot(_)) && last.as_ref().is_some_and(|(f, end)| *f == this && near(*end));
        if !joins {
            (start, base) = (next, w.addr / BLOCK * BLOCK);
        }
        places[i] = start + (w.addr - base);
        next = places[i] / BLOCK * BLOCK + BLOCK;
        last = Some((this, w.addr.saturating_add(u64::from(w.size))));
    }
    (places, next)
}

/// Places cells of one group; empty pairs of lines between them are left out. With `apart`, one pair for each.
fn put(
    memory: &mut MemoryMap,
    r: &Recording,
    wanted: &[Wanted],
    apart: bool,
) -> Result<Vec<Cell>, LayoutError> {
    let blocks: BTreeSet<u64> = wanted.iter().map(|w| w.addr / BLOCK).collect();
    let rank: HashMap<u64, u64> = blocks.iter().enumerate().map(|(i, b)| (*b, i as u64)).collect();
    let split = if apart { split(r, wanted) } else { (Vec::new(), 0) };
    let at = |(i, w): (usize, &Wanted)| match split.0.get(i) {
        Some(place) => *place,
        None => rank.get(&(w.addr / BLOCK)).copied().unwrap_or(0) * BLOCK + w.addr % BLOCK,
    };
    let size = if apart { split.1 } else { blocks.len() as u64 * BLOCK };
    let size = u32::try_from(size).map_err(|_| LayoutError::TooLarge)?;
    let mut host: Option<Cell> = None;
    let mut cells = vec![Cell::NULL; wanted.len()];
    let labels: BTreeSet<usize> = wanted.iter().map(|w| w.label).collect();
    for label in labels {
        let mine: Vec<(usize, u64)> = wanted
            .iter()
            .enumerate()
            .filter(|(_, w)| w.label == label)
            .map(|(i, w)| (i, at((i, w))))
            .collect();
        let fields: Vec<(&str, u32, u8)> = mine
            .iter()
            .filter_map(|&(i, a)| Some((wanted.get(i)?.name.as_str(), a as u32, wanted[i].size)))
            .collect();
        let name = r.places.get(label).map_or("object", |p| p.label.as_str());
        let shape = Arc::new(Shape::new(name, size, &fields));
        let first = match host {
            None => memory.object(&shape, 0)?,
            Some(h) => memory.over(h, &shape)?,
        };
        host.get_or_insert(first);
        for (n, &(i, _)) in mine.iter().enumerate() {
            cells[i] = first.field(n as u32);
        }
    }
    Ok(cells)
}
