//! Alignment of objects: what is certain, what is possible, and the best guess.
//!
//! Debug information says little of it. DWARF states what the source asked for, gcc and rustc also what came of it;
//! `packed` is never told. BTF states nothing. Where an alignment can only be inferred there is a range.

use crate::align::{inferred, natural, takes_room};
use crate::holes::Extent;
use foldhash::{HashMap, HashMapExt};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{
    Aggregate, AggregateKind, AlignmentSource, LineSize, Member, MemberRole, Type, TypeId, TypeTable,
};

/// No object is aligned to more than this, bytes.
const ALIGN_MAX: u64 = 1 << 30;

/// Nor is one whose alignment is only inferred: a page.
const INFERRED_MAX: u64 = 4096;

/// `_Atomic` objects of up to this many bytes are aligned to their size.
const ATOMIC_MAX: u64 = 16;

/// Alignment of all objects of a type, bytes; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least this for certain, as far as no struct is packed without a trace.
    pub least: u64,
    /// The best guess.
    pub likely: u64,
    /// At most this.
    pub most: u64,
}

impl Bounds {
    fn exactly(bytes: u64) -> Bounds {
        Bounds { least: bytes, likely: bytes, most: bytes }
    }

    /// Nothing is left to guess.
    pub fn is_certain(self) -> bool {
        self.least == self.most
    }

    /// The stricter of two needs.
    fn and(self, other: Bounds) -> Bounds {
        Bounds {
            least: self.least.max(other.least),
            likely: self.likely.max(other.likely),
            most: self.most.max(other.most),
        }
    }

    fn map(self, f: impl Fn(u64) -> u64) -> Bounds {
        Bounds { least: f(self.least), likely: f(self.likely), most: f(self.most) }
    }
}

/// What is known of the alignment of every object of type `id`. `btf`: the types come from BTF, which keeps no
/// `aligned`: what gaps betray is the best guess then, and what the size allows is possible.
pub fn bounds(table: &TypeTable, id: TypeId, btf: bool) -> Bounds {
    let found = Aligner { table, btf, known: HashMap::new() }.of(id, 0);
    found.map(|n| n.clamp(1, ALIGN_MAX))
}

/// The best guess at the alignment of every object of type `id`, bytes: the strictest of what its members need and
/// what the source declared. A struct in which a member lies off its alignment is packed: only what was declared
/// counts.
pub fn object_align(table: &TypeTable, id: TypeId, btf: bool) -> u64 {
    bounds(table, id, btf).likely
}

/// Looks at every type once; a type that contains itself counts as 1 inside.
struct Aligner<'a> {
    table: &'a TypeTable,
    btf: bool,
    known: HashMap<TypeId, Bounds>,
}

impl Aligner<'_> {
    fn of(&mut self, id: TypeId, depth: usize) -> Bounds {
        if self.table.told_align(id).is_none() && is_scalar(self.table.get(id)) {
            return Bounds::exactly(self.table.scalar_align(id));
        }
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        if depth > 4 * DEPTH_MAX {
            return Bounds::exactly(1);
        }
        self.known.insert(id, Bounds::exactly(1));
        let found = match (self.table.told_align(id), self.table.get(id)) {
            (Some((least, most)), _) => Bounds { least, likely: least, most },
            (
                _,
                Type::Typedef { to, .. }
                | Type::Const(to)
                | Type::Volatile(to)
                | Type::Restrict(to)
                | Type::Array { elem: to, .. },
            ) => self.of(*to, depth + 1),
            (_, Type::Atomic(to)) => self.atomic(*to, depth),
            (_, Type::Aggregate(a)) => self.aggregate(id, a, depth),
            _ => Bounds::exactly(self.table.scalar_align(id)),
        };
        self.known.insert(id, found);
        found
    }

    /// Aligned to its size if that is a power of two; clang also makes other small sizes one.
    fn atomic(&mut self, to: TypeId, depth: usize) -> Bounds {
        let plain = self.of(to, depth + 1);
        match self.table.size(to).filter(|n| (1..=ATOMIC_MAX).contains(n)) {
            Some(size) if size.is_power_of_two() => plain.map(|n| n.max(size)),
            Some(size) => Bounds { most: plain.most.max(size.next_power_of_two()), ..plain },
            None => plain,
        }
    }

    fn aggregate(&mut self, id: TypeId, a: &Aggregate, depth: usize) -> Bounds {
        let stated = a.align.filter(|x| x.source == AlignmentSource::Declared);
        let mut declared = stated.map_or(1, |x| x.bytes).max(1);
        let mut needs = Bounds { likely: a.align.map_or(1, |x| x.bytes), ..Bounds::exactly(1) };
        let mut packed = false;
        for m in a.members.iter().filter(|m| m.role != MemberRole::Static) {
            let offset = Extent::of(self.table, m).offset;
            let own = self.member(m, offset, depth);
            if m.role != MemberRole::VirtualBase {
                declared = declared.max(m.align.unwrap_or(1));
            }
            // in BTF the member's own alignment may be a wrong guess: it then says nothing about the whole
            match self.lies_well(m, offset, own.likely) {
                true => needs = needs.and(own),
                false => packed = true,
            }
        }
        let guess = Bounds::exactly(declared).and(needs);
        match self.btf {
            true => self.from_btf(id, a, guess, packed),
            false => self.from_dwarf(a, guess, declared, packed),
        }
    }

    /// An alignment that does not divide the size cannot be true: such a struct is packed.
    fn from_dwarf(&mut self, a: &Aggregate, guess: Bounds, declared: u64, packed: bool) -> Bounds {
        if !packed && a.size.is_multiple_of(guess.likely) {
            // clang states what the source asks for, which may be less than the members need, and packed or not
            let asked = a.align.map_or(guess.least, |x| x.bytes.min(guess.least));
            let most = guess.most.min(divides(a.size)).max(guess.likely);
            // what is asked for and less than the members need only has a meaning with `packed`
            let likely = if declared > 1 { declared.min(guess.likely) } else { guess.likely };
            return Bounds { least: asked, likely, most };
        }
        let declared = if a.size.is_multiple_of(declared) { declared } else { 1 };
        // without `aligned` this may be `packed`, or `#pragma pack` of any width that the offsets allow
        let most = if a.align.is_some() { declared } else { self.packed_most(a).max(declared) };
        Bounds { least: declared, likely: declared, most }
    }

    /// The largest width of `#pragma pack` with which the members would lie where they do.
    fn packed_most(&mut self, a: &Aggregate) -> u64 {
        let mut most = 1 << a.size.trailing_zeros().min(4);
        for m in a.members.iter().filter(|m| takes_room(m.role) && m.bit_size.is_none()) {
            let own = self.of(m.ty, 1).likely;
            if !m.offset().is_multiple_of(own) {
                most = most.min(1 << m.offset().trailing_zeros());
            }
        }
        if a.members.iter().any(|m| m.bit_size.is_some()) { 1 } else { most }
    }

    fn from_btf(&mut self, id: TypeId, a: &Aggregate, mut guess: Bounds, packed: bool) -> Bounds {
        if a.kind != AggregateKind::Union {
            guess.likely = self.gaps(id, a, guess.likely);
        }
        // `aligned` may be whatever divides the size
        let most = divides(a.size).min(INFERRED_MAX);
        let likely = if a.size.is_multiple_of(guess.likely) { guess.likely } else { most };
        let least = if packed { 1 } else { guess.least.min(likely) };
        Bounds { least, likely, most: most.max(likely) }
    }

    /// What gaps betray.
    fn gaps(&self, id: TypeId, a: &Aggregate, least: u64) -> u64 {
        let line = LineSize::L64.bytes();
        let (mut align, mut end) = (least, 0u64);
        for m in a.members.iter().filter(|m| takes_room(m.role)) {
            let p = Extent::of(self.table, m);
            if p.size != 0 {
                align = align.max(inferred(p.offset, end, natural(self.table, m.ty), line).unwrap_or(1));
                end = p.offset.saturating_add(p.size);
            }
        }
        align.max(inferred(a.size, end, natural(self.table, id), line).unwrap_or(1))
    }

    /// What a member needs. On 32-bit x86 scalars of 8 bytes need 4 in structs, on other 32-bit machines 8.
    fn member(&mut self, m: &Member, offset: u64, depth: usize) -> Bounds {
        if self.table.aggregate(m.ty).is_some_and(|a| a.declaration) {
            // classes whose vtable is elsewhere are only declared: they may need anything that the place allows
            let likely = divides(offset).min(u64::from(self.table.pointer_size));
            return Bounds { least: 1, likely, most: divides(offset).min(INFERRED_MAX) };
        }
        let own = self.of(m.ty, depth + 1).and(self.too_wide(m));
        let own = match m.align {
            // a typedef of less, which not every compiler writes as such
            Some(asked) if !offset.is_multiple_of(own.likely) => Bounds::exactly(asked.min(own.likely)),
            asked => own.map(|n| n.max(asked.unwrap_or(1))),
        };
        let halved = self.table.pointer_size == 4 && own.likely == 8 && m.align.is_none();
        if halved && !offset.is_multiple_of(8) { Bounds::exactly(4) } else { own }
    }

    /// C++ lets a bit-field be wider than its type: it is then aligned as the widest integer that it has bits for
    /// (Itanium C++ ABI 2.4.II.1).
    fn too_wide(&self, m: &Member) -> Bounds {
        let of_type = self.table.size(m.ty).unwrap_or(0).saturating_mul(8);
        let bits = m.bit_size.map_or(0, u64::from);
        if bits <= of_type {
            return Bounds::exactly(1);
        }
        let likely = (1 << (bits / 8).max(1).ilog2()).min(u64::from(self.table.pointer_size));
        let fits = m.offset_bits.is_multiple_of(8 * likely);
        if fits { Bounds { least: 1, likely, most: ATOMIC_MAX } } else { Bounds::exactly(1) }
    }

    /// It lies where its alignment puts it. Bases with virtual bases of their own leave those, and what they need, to
    /// the whole.
    fn lies_well(&self, m: &Member, offset: u64, own: u64) -> bool {
        let anywhere = match m.role {
            MemberRole::VirtualBase => true,
            MemberRole::Base => self.table.aggregate(m.ty).is_some_and(|b| has_virtual(self.table, b, 0)),
            _ => false,
        };
        anywhere || (offset.is_multiple_of(own) && !self.crosses(m, own))
    }

    /// A bit-field reaches over a boundary of its type, which only packed ones do.
    fn crosses(&self, m: &Member, own: u64) -> bool {
        let (unit, Some(bits)) = (own.saturating_mul(8), m.bit_size) else { return false };
        let wide = self.table.pointer_size == 4 && own > 4;
        let too_wide = u64::from(bits) > self.table.size(m.ty).unwrap_or(0).saturating_mul(8);
        !wide && !too_wide && m.align.is_none() && unit > 0 && m.offset_bits % unit + u64::from(bits) > unit
    }
}

/// The largest power of two that divides a size or an offset.
fn divides(bytes: u64) -> u64 {
    1 << bytes.trailing_zeros().min(63)
}

/// Types without parts: cheaper found again than remembered.
fn is_scalar(ty: &Type) -> bool {
    matches!(ty, Type::Base(_) | Type::Pointer { .. } | Type::Reference { .. } | Type::Enum(_))
}

fn has_virtual(table: &TypeTable, a: &Aggregate, depth: usize) -> bool {
    depth > DEPTH_MAX
        || a.members.iter().any(|m| match m.role {
            MemberRole::VirtualBase => true,
            MemberRole::Base => table.aggregate(m.ty).is_some_and(|b| has_virtual(table, b, depth + 1)),
            _ => false,
        })
}
