//! The member whose insertion, growth or removal shifted the rest: a cause only where it explains the shift.

use super::Side;
use crate::align::takes_room;
use crate::phases::object_align;
use crate::slots::{NewField, Slot, slots};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use tussle_model::{AggregateKind, Type, TypeId, TypeTable, resolve};

/// Causes are followed into the types of members this deep.
const DEPTH_MAX: usize = 16;

/// Changes that are told where there are several.
const TOLD_MAX: usize = 2;

/// What was done to the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Inserted,
    /// It has another size: old and new bytes.
    Resized(u64, u64),
    /// It is gone.
    Removed,
    /// It stood elsewhere in the order of declaration.
    Reordered,
    /// Nothing in front of it changed, but it lies elsewhere: it is aligned differently.
    Realigned,
    /// It is of another kind now: the old and the new keyword.
    Recast(&'static str, &'static str),
    /// No single change explains the shift: the changes in words, the first of them, and their number.
    Several(Vec<String>, usize),
}

/// Why fields moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The member.
    pub member: String,
    /// What happened to it.
    pub change: Change,
    /// Offset of the member, bytes: in the new build, or in the old one when it was removed.
    pub offset: u64,
    /// Member behind which it stands; empty at the start.
    pub after: String,
    /// The first member that moved because of it.
    pub first_moved: Option<String>,
    /// How far that one moved, bytes.
    pub shift: i64,
    /// For an inserted member: places in the old layout where nothing would have moved.
    pub free_slots: Vec<Slot>,
    /// The type in which it happened: that of the member whose size changed, where that is a struct that changed
    /// itself. Empty when it happened in the type itself.
    pub root: String,
}

/// A named member, unnamed structs flattened, in order of declaration.
#[derive(Clone)]
struct Flat {
    name: String,
    offset: u64,
    size: u64,
    ty: TypeId,
    /// Alignment that its declaration asks for, bytes.
    align: u64,
    bits: bool,
}

fn flat(table: &TypeTable, id: TypeId) -> Vec<Flat> {
    let mut out = Vec::new();
    flatten(table, table.strip(id), 0, 0, &mut out);
    out
}

fn flatten(table: &TypeTable, id: TypeId, base: u64, depth: usize, out: &mut Vec<Flat>) {
    let Type::Aggregate(a) = table.get(id) else { return };
    if depth > DEPTH_MAX || out.len() > 65_536 {
        return;
    }
    for m in a.members.iter().filter(|m| takes_room(m.role)) {
        let offset = base.saturating_add(m.offset());
        let (align, bits) = (m.align.unwrap_or(1), m.bit_size.is_some());
        match &m.name {
            Some(name) => {
                let size = match m.bit_size {
                    Some(bits) => u64::from(bits).div_ceil(8),
                    None => table.size(m.ty).unwrap_or(0),
                };
                out.push(Flat { name: name.clone(), offset, size, ty: m.ty, align, bits });
            }
            None => {
                let ty = table.strip(m.ty);
                let union = table.aggregate(ty).is_some_and(|x| x.kind == AggregateKind::Union);
                if union {
                    let size = table.size(ty).unwrap_or(0);
                    out.push(Flat { name: first_name(table, ty), offset, size, ty, align, bits });
                } else {
                    flatten(table, ty, offset, depth + 1, out);
                }
            }
        }
    }
}

/// An unnamed union goes by the name of its first member.
fn first_name(table: &TypeTable, mut id: TypeId) -> String {
    for _ in 0..16 {
        match table.aggregate(id).and_then(|a| a.members.first()) {
            Some(m) => match &m.name {
                Some(name) => return name.clone(),
                None => id = m.ty,
            },
            None => break,
        }
    }
    "(unnamed)".into()
}

/// The members of both builds and where the first of them moved.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    ids: (TypeId, TypeId),
    a: Vec<Flat>,
    b: Vec<Flat>,
    /// Position in `a` and `b` by name.
    at: (HashMap<String, usize>, HashMap<String, usize>),
    /// Members may be hidden in unnamed unions of the old and of the new build.
    hides: (bool, bool),
}

/// The first position of each name.
fn places(list: &[Flat]) -> HashMap<String, usize> {
    let mut at = HashMap::with_capacity(list.len());
    for (i, f) in list.iter().enumerate() {
        at.entry(f.name.clone()).or_insert(i);
    }
    at
}

/// An unnamed union stands somewhere among the members.
fn hides(table: &TypeTable, id: TypeId, depth: usize) -> bool {
    let Some(a) = table.aggregate(id).filter(|_| depth <= DEPTH_MAX) else { return false };
    let inner = |ty: TypeId| {
        table.aggregate(ty).is_some_and(|x| x.kind == AggregateKind::Union || hides(table, ty, depth + 1))
    };
    a.members.iter().any(|m| m.name.is_none() && inner(m.ty))
}

/// One change in front of the first member that moved.
struct Step {
    member: Flat,
    change: Change,
}

/// `None` when no member that both builds have moved and nothing was inserted, removed or resized, neither here nor in
/// a member that kept its place and size.
pub(super) fn find(old: Side<'_>, old_id: TypeId, new: Side<'_>, new_id: TypeId) -> Option<Cause> {
    let pair = Pair::of(old, old_id, new, new_id);
    match pair.cause() {
        Some(mut cause) => {
            cause.root = pair.root(&cause, 0).unwrap_or_default();
            Some(cause)
        }
        None => pair.inside(&mut HashSet::new(), 0),
    }
}

impl<'a> Pair<'a> {
    fn of(old: Side<'a>, old_id: TypeId, new: Side<'a>, new_id: TypeId) -> Pair<'a> {
        let (a, b) = (flat(old.table, old_id), flat(new.table, new_id));
        let hides = (hides(old.table, old_id, 0), hides(new.table, new_id, 0));
        Pair { old, new, ids: (old_id, new_id), at: (places(&a), places(&b)), a, b, hides }
    }

    fn in_old(&self, name: &str) -> Option<&Flat> {
        self.a.get(*self.at.0.get(name)?)
    }

    fn in_new(&self, name: &str) -> Option<&Flat> {
        self.b.get(*self.at.1.get(name)?)
    }

    /// A struct that became a union, or the other way round: nothing that lies elsewhere has a cause of its own.
    fn recast(&self) -> Option<Change> {
        let kind = |side: Side<'_>, id| Some(side.table.aggregate(id)?.kind);
        let (old, new) = (kind(self.old, self.ids.0)?, kind(self.new, self.ids.1)?);
        let union = AggregateKind::Union;
        ((old == union) != (new == union)).then(|| Change::Recast(old.keyword(), new.keyword()))
    }

    /// The only member whose place in the order of declaration changed, where nothing else did.
    fn stepped_over(&self) -> Option<&Flat> {
        let same = |(x, y): (&Flat, &Flat)| x.name == y.name && x.size == y.size && x.bits == y.bits;
        let (a, b) = (&self.a, &self.b);
        let first = a.iter().zip(b).position(|pair| !same(pair)).filter(|_| a.len() == b.len())?;
        let without = |skip_old: usize, skip_new: usize| {
            let old = a.iter().enumerate().filter(|(i, _)| *i != skip_old).map(|(_, f)| f);
            let new = b.iter().enumerate().filter(|(i, _)| *i != skip_new).map(|(_, f)| f);
            same((a.get(skip_old)?, b.get(skip_new)?)).then_some(())?;
            old.zip(new).all(same).then(|| &b[skip_new])
        };
        let back = |name: &str| self.at.1.get(name).copied();
        let forth = |name: &str| self.at.0.get(name).copied();
        let earlier = forth(&b[first].name).and_then(|i| without(i, first));
        earlier.or_else(|| without(first, back(&a[first].name)?))
    }

    fn shift(&self, f: &Flat) -> Option<i64> {
        self.in_old(&f.name).map(|o| (f.offset as i64).wrapping_sub(o.offset as i64))
    }

    fn cause(&self) -> Option<Cause> {
        if let Some(change) = self.recast() {
            let (member, after) = (String::new(), String::new());
            let (first_moved, root) = (None, String::new());
            return Some(Cause {
                member,
                change,
                offset: 0,
                after,
                first_moved,
                shift: 0,
                free_slots: Vec::new(),
                root,
            });
        }
        // The first member, in the new order, that both builds have and that lies elsewhere now.
        let moved = self.b.iter().position(|f| self.shift(f).is_some_and(|s| s != 0));
        let upto = moved.unwrap_or(self.b.len());
        // What stands in front of the last member that stayed was absorbed by holes.
        let stayed =
            |f: &Flat| self.shift(f) == Some(0) && self.in_old(&f.name).is_some_and(|o| o.size == f.size);
        let from = (0..upto).rev().find(|&i| stayed(&self.b[i]));
        let steps = self.steps(from, upto);
        let first = moved.map(|i| &self.b[i]);
        let (member, change) = match (self.decide(steps, from, first)?, self.stepped_over()) {
            ((_, Change::Several(..)), Some(only)) => (only.clone(), Change::Reordered),
            (decided, _) => decided,
        };
        let list = if change == Change::Removed { &self.a } else { &self.b };
        let places = if change == Change::Removed { &self.at.0 } else { &self.at.1 };
        let position = places.get(&member.name).copied();
        let free_slots = match change {
            Change::Inserted => free(self.old, self.ids.0, self.new, &member),
            _ => Vec::new(),
        };
        let before = match position {
            Some(i) => i.checked_sub(1).and_then(|i| list.get(i)),
            // inside of an unnamed union
            None => list.iter().rfind(|f| f.offset.saturating_add(f.size) <= member.offset),
        };
        Some(Cause {
            offset: member.offset,
            after: before.map_or(String::new(), |f| f.name.clone()),
            shift: first.and_then(|f| self.shift(f)).unwrap_or(0),
            first_moved: first.map(|f| f.name.clone()),
            member: member.name,
            change,
            free_slots,
            root: String::new(),
        })
    }

    /// Changes between the last member that stayed and the first that moved: members that came, went, grew, shrank, or
    /// stood on the other side of those two.
    fn steps(&self, from: Option<usize>, upto: usize) -> Vec<Step> {
        let start = from.map_or(0, |i| i + 1);
        let new = self.b.get(start..upto).unwrap_or(&[]);
        let place = |name: &str| self.at.0.get(name).copied();
        let old_start = from.and_then(|i| place(&self.b[i].name)).map_or(0, |i| i + 1);
        let old_end = self.b.get(upto).and_then(|f| place(&f.name)).unwrap_or(self.a.len());
        let old = self.a.get(old_start..old_end.max(old_start)).unwrap_or(&[]);
        let names = |list: &'_ [Flat]| list.iter().map(|f| f.name.clone()).collect::<HashSet<String>>();
        let (among_old, among_new) = (names(old), names(new));
        let step = |f: &Flat, change| Step { member: f.clone(), change };
        let came = new.iter().filter_map(|f| match self.in_old(&f.name) {
            None if self.hidden(self.old, self.ids.0, f).is_some() => Some(step(f, Change::Reordered)),
            None => Some(step(f, Change::Inserted)),
            Some(o) if o.size != f.size => Some(step(f, Change::Resized(o.size, f.size))),
            Some(_) if !among_old.contains(&f.name) => Some(step(f, Change::Reordered)),
            Some(_) => None,
        });
        let went = old.iter().filter(|f| !among_new.contains(&f.name)).map(|f| {
            let elsewhere = self.in_new(&f.name).cloned().or_else(|| self.hidden(self.new, self.ids.1, f));
            match elsewhere {
                None => step(f, Change::Removed),
                Some(n) => step(&n, Change::Reordered),
            }
        });
        came.chain(went).collect()
    }

    /// The member in an unnamed union of that build, which goes by its first member's name.
    fn hidden(&self, side: Side<'_>, id: TypeId, f: &Flat) -> Option<Flat> {
        let of_old = id == self.ids.0 && std::ptr::eq(side.table, self.old.table);
        if !(if of_old { self.hides.0 } else { self.hides.1 }) {
            return None;
        }
        let spot = resolve(side.table, id, &f.name).into_iter().next()?;
        Some(Flat { offset: spot.offset, size: spot.size, ty: spot.declared, ..f.clone() })
    }

    /// The cause in a member that lies where it lay and has the size that it had.
    fn inside(&self, seen: &mut HashSet<(TypeId, TypeId)>, depth: usize) -> Option<Cause> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.b.iter().find_map(|f| {
            let o = self.in_old(&f.name)?;
            let (x, y) = (element(self.old.table, o.ty), element(self.new.table, f.ty));
            let named = self.new.table.aggregate(y).filter(|a| a.name.is_some());
            let (Some(a), true) = (named, seen.insert((x, y))) else { return None };
            let pair = Pair::of(self.old, x, self.new, y);
            let cause = pair.cause().map(|c| Cause { root: a.display_name(), ..c });
            let cause = cause.or_else(|| pair.inside(seen, depth + 1))?;
            Some(Cause {
                member: format!("{}.{}", f.name, cause.member),
                after: if cause.after.is_empty() {
                    f.name.clone()
                } else {
                    format!("{}.{}", f.name, cause.after)
                },
                first_moved: cause.first_moved.map(|m| format!("{}.{m}", f.name)),
                offset: cause.offset.saturating_add(f.offset),
                free_slots: Vec::new(),
                ..cause
            })
        })
    }

    /// One change that explains the shift, or all of them.
    fn decide(
        &self,
        mut steps: Vec<Step>,
        from: Option<usize>,
        first: Option<&Flat>,
    ) -> Option<(Flat, Change)> {
        let Some(first) = first else {
            // nothing moved: what came or went did so behind all that stayed, or in holes
            let step = steps.drain(..).find(|s| s.change != Change::Reordered)?;
            return Some((step.member, step.change));
        };
        let reorders = steps.iter().any(|s| s.change == Change::Reordered) || self.overtook(from, first);
        if steps.is_empty() {
            // a scalar's alignment grows with it, a struct's does not
            let scalar = self.new.table.aggregate(element(self.new.table, first.ty)).is_none();
            let before = self.in_old(&first.name).filter(|_| scalar).map(|o| o.size);
            let resized = before.filter(|size| *size != first.size);
            let change = match (reorders, resized) {
                (true, _) => Change::Reordered,
                // it no longer fits where it lay
                (false, Some(size)) => Change::Resized(size, first.size),
                (false, None) => Change::Realigned,
            };
            return Some((first.clone(), change));
        }
        let shift = self.shift(first).unwrap_or(0);
        let several = steps.len() > 1;
        let fit: Vec<usize> =
            (0..steps.len()).filter(|&i| self.explains(&steps[i], first, shift, several)).collect();
        match fit.as_slice() {
            [only] if !reorders => {
                let step = steps.swap_remove(*only);
                Some((step.member, step.change))
            }
            _ if !several && reorders => Some((steps.swap_remove(0).member, Change::Reordered)),
            _ => {
                let words = steps.iter().take(TOLD_MAX).map(told).collect();
                Some((steps.swap_remove(0).member, Change::Several(words, steps.len() + 1)))
            }
        }
    }

    /// The first member that moved stood in front of the last one that stayed.
    fn overtook(&self, from: Option<usize>, first: &Flat) -> bool {
        let place = |name: &str| self.at.0.get(name).copied();
        from.and_then(|i| place(&self.b[i].name)).is_some_and(|before| place(&first.name) < Some(before))
    }

    /// The change alone shifts what follows so far: by its own bytes, and by what alignment adds or takes. Beside other
    /// changes it has to be exact.
    fn explains(&self, step: &Step, first: &Flat, shift: i64, exact: bool) -> bool {
        let side = if step.change == Change::Removed { self.old } else { self.new };
        let own = alignment(side, &step.member);
        let behind = alignment(self.new, first);
        let slack = own.max(behind).saturating_sub(1);
        let far = shift.unsigned_abs();
        let fits = |bytes: u64| match exact {
            true => far == bytes || bytes.checked_next_multiple_of(behind) == Some(far),
            false => far <= bytes.saturating_add(slack) && bytes <= far.saturating_add(slack),
        };
        let size = if step.member.bits { 1 } else { step.member.size.max(1) };
        match step.change {
            Change::Inserted => shift > 0 && fits(size),
            Change::Removed => shift < 0 && fits(size),
            Change::Resized(old, new) => (shift > 0) == (new > old) && fits(new.abs_diff(old)),
            _ => false,
        }
    }

    /// The type in which a member's growth happened, followed from member to member.
    fn root(&self, cause: &Cause, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX || !matches!(cause.change, Change::Resized(..)) {
            return None;
        }
        let (o, n) = (self.in_old(&cause.member)?, self.in_new(&cause.member)?);
        let (old_id, new_id) = (element(self.old.table, o.ty), element(self.new.table, n.ty));
        let (x, y) = (self.old.table.aggregate(old_id)?, self.new.table.aggregate(new_id)?);
        if x.name.is_none() || x.name != y.name || x.size == y.size {
            return None;
        }
        let inner = Pair::of(self.old, old_id, self.new, new_id);
        let deeper = inner.cause().and_then(|c| inner.root(&c, depth + 1));
        Some(deeper.unwrap_or_else(|| y.display_name()))
    }
}

fn alignment(side: Side<'_>, f: &Flat) -> u64 {
    object_align(side.table, f.ty, side.btf).max(f.align)
}

/// What an array is of.
fn element(table: &TypeTable, id: TypeId) -> TypeId {
    match table.get(table.strip(id)) {
        Type::Array { elem, .. } => table.strip(*elem),
        _ => table.strip(id),
    }
}

fn told(step: &Step) -> String {
    let what = match &step.change {
        Change::Inserted => "inserted".into(),
        Change::Removed => "removed".into(),
        Change::Resized(old, new) => format!("{old} to {new} bytes"),
        _ => "elsewhere".into(),
    };
    format!("{} {what}", step.member.name)
}

fn free(old: Side<'_>, old_id: TypeId, new: Side<'_>, member: &Flat) -> Vec<Slot> {
    let field = NewField {
        name: member.name.clone(),
        size: member.size,
        align: object_align(new.table, member.ty, new.btf),
    };
    if field.size == 0 {
        return Vec::new();
    }
    slots(old.table, old_id, &field, old.btf, 8).into_iter().filter(Slot::is_free).collect()
}
