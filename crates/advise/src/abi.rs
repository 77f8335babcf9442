//! Offsets as the C ABI assigns them: System V x86-64, the rules that gcc and clang share on every 64-bit ELF target.
//!
//! [`place`] computes a layout from sizes and alignments; [`Shape`] recovers those inputs from debug information and
//! proves itself by reproducing the offsets it was read from. What cannot be reproduced is refused, never guessed.

use std::cell::RefCell;
use std::collections::HashMap;

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, Language, MemberRole, Type, TypeId, TypeTable};

/// Alignments above this are not inferred: a page is the largest that real structs ask for.
const ALIGN_INFERRED_MAX: u64 = 4096;

/// One member as the layout rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Bytes of its type (for bit-fields of the declared type); 0 for flexible arrays.
    pub size: u64,
    /// Alignment of its type in bytes, a power of two.
    pub align: u64,
    /// `_Alignas` or `aligned` on the member itself, bytes. Raises, never lowers.
    pub declared: Option<u64>,
    /// Bits of a bit-field.
    pub width: Option<u32>,
    /// Unnamed bits before it: debug information leaves unnamed bit-fields out.
    pub gap_bits: u64,
    /// Offset that the compiler chose by other rules (bases, virtual table pointers), bits.
    pub fixed_bits: Option<u64>,
    /// An array without a length, or of length 0: as the last member it holds what is allocated behind the object.
    pub flexible: bool,
    /// Elements of an array, of its first dimension.
    pub elements: Option<u64>,
}

impl Slot {
    /// An ordinary member of `size` bytes aligned to `align`.
    pub fn plain(size: u64, align: u64) -> Slot {
        Slot {
            size,
            align: align.max(1),
            declared: None,
            width: None,
            gap_bits: 0,
            fixed_bits: None,
            flexible: false,
            elements: None,
        }
    }

    /// A bit-field of `width` bits of a type with `size` bytes.
    pub fn bits(size: u64, width: u32) -> Slot {
        Slot { width: Some(width), ..Slot::plain(size, size) }
    }

    fn effective_align(&self, pack: Option<u64>) -> u64 {
        let natural = pack.map_or(self.align, |p| self.align.min(p));
        natural.max(self.declared.unwrap_or(1)).max(1)
    }
}

/// What holds for the whole aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `packed` (1) or `#pragma pack(n)`.
    pub pack: Option<u64>,
    /// Alignment written on the aggregate, bytes; 1 when none.
    pub align: u64,
    /// All members at offset 0.
    pub union: bool,
}

impl Rules {
    /// A struct without attributes.
    pub const PLAIN: Rules = Rules { pack: None, align: 1, union: false };
}

/// A computed layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// First bit of every slot.
    pub offsets_bits: Vec<u64>,
    /// Bytes, tail padding included.
    pub size: u64,
    /// Bytes.
    pub align: u64,
    /// One past the last byte that a member uses.
    pub data_end: u64,
}

fn round_up(n: u64, to: u64) -> u64 {
    let to = to.max(1);
    n.div_ceil(to).saturating_mul(to)
}

/// Assigns offsets in the order given.
pub fn place(slots: &[Slot], rules: Rules) -> Placed {
    let mut cursor = 0u64;
    let mut end_bits = 0u64;
    let mut align = rules.align.max(1);
    let mut offsets_bits = Vec::with_capacity(slots.len());
    for slot in slots {
        let start = if rules.union { 0 } else { cursor };
        let at = position(slot, start, rules.pack);
        let bits = slot.width.map_or(slot.size.saturating_mul(8), u64::from);
        cursor = at.saturating_add(bits);
        end_bits = end_bits.max(cursor);
        align = align.max(slot.effective_align(rules.pack));
        offsets_bits.push(at);
    }
    let data_end = end_bits.div_ceil(8);
    Placed { offsets_bits, size: round_up(data_end, align), align, data_end }
}

/// First bit of `slot` when the bits before `cursor` are taken.
fn position(slot: &Slot, cursor: u64, pack: Option<u64>) -> u64 {
    if let Some(at) = slot.fixed_bits {
        return at;
    }
    let cursor = cursor.saturating_add(slot.gap_bits);
    let Some(width) = slot.width else {
        return round_up(cursor, slot.effective_align(pack).saturating_mul(8));
    };
    let cursor = round_up(cursor, slot.declared.unwrap_or(0).saturating_mul(8).max(1));
    let unit = slot.align.saturating_mul(8).max(8);
    let crosses = cursor.saturating_add(u64::from(width)).div_ceil(unit) - cursor / unit
        > slot.size.saturating_mul(8) / unit;
    if crosses && pack.is_none() { round_up(cursor, unit) } else { cursor }
}

/// Why a type's layout cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Not a struct, class or union with a body.
    #[error("{0} has no members to lay out")]
    NotAggregate(String),
    /// The rules do not reproduce the compiler's own offsets.
    #[error("the layout of {ty} follows rules that tussle cannot reproduce (at {member})")]
    Irreproducible {
        /// Name of the type.
        ty: String,
        /// Member at which the computed offset differs, or `its size`.
        member: String,
    },
    /// A virtual base class moves at run time.
    #[error("{0} has virtual base classes, whose offsets are chosen at run time")]
    VirtualBase(String),
    /// Nested deeper than real code.
    #[error("types are nested too deeply")]
    TooDeep,
}

/// The inputs of [`place`] for one aggregate of debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// One slot per data member, in declaration order; of Rust in the order of their offsets.
    pub slots: Vec<Slot>,
    /// Index into [`Aggregate::members`] of every slot (static members take no slot).
    pub members: Vec<usize>,
    /// Rules for the whole.
    pub rules: Rules,
    /// The layout they give; equal to that of the debug information.
    pub placed: Placed,
}

/// Shapes of the types of one table, computed once each.
pub struct Shapes<'a> {
    table: &'a TypeTable,
    cache: RefCell<HashMap<TypeId, Result<Shape, ShapeError>>>,
}

impl<'a> Shapes<'a> {
    /// Nothing is computed yet.
    pub fn new(table: &'a TypeTable) -> Self {
        Shapes { table, cache: RefCell::default() }
    }

    /// The table it reads.
    pub fn table(&self) -> &'a TypeTable {
        self.table
    }

    /// Recovers sizes, alignments and rules of `id` (behind typedefs and qualifiers).
    pub fn shape(&self, id: TypeId) -> Result<Shape, ShapeError> {
        self.shape_at(id, 0)
    }

    /// Alignment of a type in bytes.
    pub fn align(&self, id: TypeId) -> Result<u64, ShapeError> {
        self.align_at(id, 0)
    }

    fn shape_at(&self, id: TypeId, depth: usize) -> Result<Shape, ShapeError> {
        let id = self.table.strip(id);
        if let Some(known) = self.cache.borrow().get(&id) {
            return known.clone();
        }
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep);
        }
        let shape = match self.table.get(id) {
            Type::Aggregate(a) if !a.declaration => self.recover(a, depth),
            _ => Err(ShapeError::NotAggregate(self.table.name(id))),
        };
        self.cache.borrow_mut().insert(id, shape.clone());
        shape
    }

    fn align_at(&self, id: TypeId, depth: usize) -> Result<u64, ShapeError> {
        if depth > DEPTH_MAX {
            return Err(ShapeError::TooDeep);
        }
        let mut id = id;
        let mut atomic = 0;
        for _ in 0..64 {
            match self.table.get(id) {
                Type::Typedef { to, .. } | Type::Const(to) | Type::Volatile(to) | Type::Restrict(to) => {
                    id = *to
                }
                // gcc and clang raise lock-free sized atomics to their size.
                Type::Atomic(to) => {
                    atomic = self.table.size(*to).filter(|s| s.is_power_of_two() && *s <= 16).unwrap_or(0);
                    id = *to;
                }
                _ => break,
            }
        }
        let align = match self.table.get(id) {
            Type::Array { elem, .. } => self.align_at(*elem, depth + 1)?,
            Type::Aggregate(_) => self.shape_at(id, depth + 1)?.placed.align,
            // A complex number is aligned like one of its two halves; a pointer to a member like a pointer.
            Type::Base(b) if b.name.contains("complex") => b.size / 2,
            Type::Other { size, .. } => (*size).min(8),
            _ => self.table.size(id).unwrap_or(1),
        };
        // A size that is no power of two, as of `long double` in some ABIs, is rounded up; beyond all sizes it stays.
        let align = align.max(atomic).max(1);
        Ok(align.checked_next_power_of_two().unwrap_or(align))
    }

    /// Alignment of a member whose own layout follows other rules (a class with bases, empty members): an unchanged
    /// type is a block of known size, aligned like its strictest part. `fit` proves the guess by the offsets.
    fn opaque_align(&self, id: TypeId, size: u64, error: ShapeError) -> Result<u64, ShapeError> {
        let strictest = self.strictest(id, 0).ok_or(error)?;
        let whole = if size == 0 { strictest } else { 1 << size.trailing_zeros().min(12) };
        Ok(strictest.min(whole))
    }

    /// Largest alignment among the parts of a type, whatever rules place them.
    fn strictest(&self, id: TypeId, depth: usize) -> Option<u64> {
        if depth > DEPTH_MAX {
            return None;
        }
        let id = self.table.strip(id);
        match self.table.get(id) {
            Type::Array { elem, .. } => self.strictest(*elem, depth + 1),
            Type::Aggregate(a) if !a.declaration => {
                let fields = a.members.iter().filter(|m| m.role != MemberRole::Static);
                let parts = fields.map(|m| Some(self.strictest(m.ty, depth + 1)?.max(m.align.unwrap_or(1))));
                let own = a.align.map_or(1, |x| x.bytes);
                parts.collect::<Option<Vec<u64>>>().map(|p| p.into_iter().fold(own, u64::max))
            }
            _ => self.align_at(id, depth + 1).ok(),
        }
    }

    fn is_flexible(&self, id: TypeId) -> bool {
        match self.table.get(self.table.strip(id)) {
            Type::Array { counts, .. } => counts.iter().any(|c| c.is_none_or(|n| n == 0)),
            _ => self.ends_open(id, 0),
        }
    }

    /// A struct that ends in `name[]`, also in its last member: what is stored there lies behind it.
    fn ends_open(&self, id: TypeId, depth: usize) -> bool {
        match self.table.get(self.table.strip(id)) {
            Type::Array { counts, .. } => depth > 0 && counts.iter().any(Option::is_none),
            Type::Aggregate(a) if depth < 8 && a.kind == AggregateKind::Struct => {
                let last = a.members.iter().rfind(|m| m.role != MemberRole::Static);
                last.is_some_and(|m| self.ends_open(m.ty, depth + 1))
            }
            _ => false,
        }
    }

    fn recover(&self, a: &Aggregate, depth: usize) -> Result<Shape, ShapeError> {
        let mut members: Vec<usize> =
            (0..a.members.len()).filter(|&i| a.members[i].role != MemberRole::Static).collect();
        if a.language == Language::Rust {
            // Declared in one order, placed in another: the compiler's.
            members.sort_by_key(|&i| a.members[i].offset_bits);
        }
        let mut slots = Vec::with_capacity(members.len());
        for (k, &i) in members.iter().enumerate() {
            let m = &a.members[i];
            if m.role == MemberRole::VirtualBase {
                return Err(ShapeError::VirtualBase(a.display_name()));
            }
            let mut size = self.table.size(m.ty).unwrap_or(0);
            let align = match m.role {
                MemberRole::Field => {
                    self.align_at(m.ty, depth + 1).or_else(|e| self.opaque_align(m.ty, size, e))?
                }
                // Bases and the like stand where they stand; their own inner rules do not matter.
                _ => self.align_at(m.ty, depth + 1).unwrap_or(1 << size.trailing_zeros().min(3)),
            };
            let fixed = !matches!(m.role, MemberRole::Field);
            if let Some(next) = members.get(k + 1).filter(|_| fixed) {
                // A base that is empty, or ends in padding, leaves its place to what follows.
                size = size.min(a.members[*next].offset_bits.saturating_sub(m.offset_bits) / 8);
            }
            slots.push(Slot {
                size,
                align,
                declared: m.align,
                width: m.bit_size,
                gap_bits: 0,
                fixed_bits: fixed.then_some(m.offset_bits),
                flexible: self.is_flexible(m.ty),
                elements: self.table.elements(m.ty),
            });
        }
        let wanted: Vec<u64> = members.iter().map(|&i| a.members[i].offset_bits).collect();
        let rules = Rules {
            pack: None,
            align: a.align.map_or(1, |x| x.bytes),
            union: a.kind == AggregateKind::Union,
        };
        fit(slots, &wanted, a.size, rules)
            .map(|(slots, rules)| {
                let placed = Placed { size: a.size, ..place(&slots, rules) };
                Shape { placed, slots, members, rules }
            })
            .map_err(|at| ShapeError::Irreproducible {
                ty: a.display_name(),
                member: at
                    .and_then(|i| a.members.get(i))
                    .map_or("its size".into(), |m| m.name.clone().unwrap_or("an unnamed member".into())),
            })
    }
}

/// Finds rules under which `slots` land on `wanted` with `size`, first by whole-struct packing, then member by member.
fn fit(
    slots: Vec<Slot>,
    wanted: &[u64],
    size: u64,
    rules: Rules,
) -> Result<(Vec<Slot>, Rules), Option<usize>> {
    for pack in [None, Some(1), Some(2), Some(4), Some(8)] {
        let rules = Rules { pack, ..rules };
        let placed = place(&slots, rules);
        if placed.offsets_bits == wanted && placed.size == size {
            return Ok((slots, rules));
        }
    }
    let mut slots = slots;
    for i in 0..slots.len() {
        fit_slot(&mut slots, i, wanted, rules)?;
    }
    let placed = place(&slots, rules);
    if placed.size == size {
        return Ok((slots, rules));
    }
    fit_tail(slots, placed, size, rules)
}

/// Makes slot `i` land where it should by a smaller (packed), larger (over-aligned typedef) alignment or a gap.
fn fit_slot(slots: &mut [Slot], i: usize, wanted: &[u64], rules: Rules) -> Result<(), Option<usize>> {
    let at = |slots: &[Slot]| place(&slots[..=i], rules).offsets_bits[i];
    if at(slots) == wanted[i] {
        return Ok(());
    }
    let before = slots[i].clone();
    if before.width.is_some() {
        let cursor =
            if i == 0 || rules.union { 0 } else { wanted[i - 1].saturating_add(bits(&slots[i - 1])) };
        slots[i].gap_bits = wanted[i].checked_sub(cursor).ok_or(Some(i))?;
        return if at(slots) == wanted[i] { Ok(()) } else { Err(Some(i)) };
    }
    let halves = |a: &u64| Some(a / 2).filter(|a| *a >= 1);
    let doubles = |a: &u64| a.checked_mul(2).filter(|a| *a <= ALIGN_INFERRED_MAX);
    let smaller = std::iter::successors(Some(before.align), halves).skip(1);
    let larger = std::iter::successors(Some(before.align.max(1)), doubles).skip(1);
    for align in smaller.chain(larger) {
        slots[i] = Slot { align, declared: None, ..before.clone() };
        if at(slots) == wanted[i] {
            return Ok(());
        }
    }
    Err(Some(i))
}

fn bits(slot: &Slot) -> u64 {
    slot.width.map_or(slot.size.saturating_mul(8), u64::from)
}

/// Explains a size that the members alone do not give: an alignment that the debug information does not tell.
fn fit_tail(
    slots: Vec<Slot>,
    placed: Placed,
    size: u64,
    rules: Rules,
) -> Result<(Vec<Slot>, Rules), Option<usize>> {
    let mut align = placed.align;
    while align <= ALIGN_INFERRED_MAX {
        if round_up(placed.data_end, align) == size {
            return Ok((slots, Rules { align, ..rules }));
        }
        align = align.saturating_mul(2);
    }
    // An empty C++ class has one byte.
    if placed.data_end == 0 && size == 1 { Ok((slots, rules)) } else { Err(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::{Base, Encoding, Member};

    /// A class with a base of so many bytes, of which some are not used, a member at `at` and a `long` behind it.
    fn derived(base_bytes: u64, at: u64) -> (TypeTable, TypeId) {
        let mut table = TypeTable::new(8);
        let base = |name: &str, size| Base { name: name.into(), size, encoding: Encoding::Signed };
        let long = table.push(Type::Base(base("long", 8)));
        let byte = table.push(Type::Base(base("char", 1)));
        let class = |name: &str, size, members| {
            let a = Aggregate::new(AggregateKind::Class, Some(name), size, members);
            Type::Aggregate(Aggregate { language: Language::Cpp, ..a })
        };
        let inner = vec![Member::field(Some("a"), long, 0), Member::field(Some("flag"), byte, 8)];
        let inner = if base_bytes == 1 { Vec::new() } else { inner };
        let base = table.push(class("Base", base_bytes, inner));
        let below = Member { role: MemberRole::Base, ..Member::field(None, base, 0) };
        let own = Member::field(Some("b"), if at % 8 == 0 { long } else { byte }, at);
        let behind = (at + 1).next_multiple_of(8);
        let last = Member::field(Some("c"), long, behind);
        let id = table.push(class("Derived", behind + 8, vec![below, own, last]));
        (table, id)
    }

    #[test]
    fn what_a_base_leaves_is_used() {
        // An empty base takes no place; the padding at the end of another one is the next member's.
        for (base_bytes, at) in [(1, 0), (16, 9)] {
            let (table, id) = derived(base_bytes, at);
            let shape = Shapes::new(&table).shape(id).unwrap();
            assert_eq!(
                shape.placed.offsets_bits,
                [0, 8 * at, 8 * (at + 1).next_multiple_of(8)],
                "{base_bytes} {at}"
            );
        }
    }
}
