//! Virtual bases get the places that the program's vtables tell.
//!
//! Debug information says of a class's own virtual bases where in its vtable their offsets are written. Each part of
//! an object that has virtual bases points to a vtable of its own within those of the complete class (Itanium C++ ABI
//! 2.5.2), so the same numbers also tell where the bases of its bases lie.

use std::collections::HashMap;

use tussle_model::{Aggregate, Member, MemberRole, TypeId, TypeTable, virtual_bases};

use super::member::RawMember;
use super::types::Types;

/// Parts of an object that are looked at.
const PARTS_MAX: usize = 4096;

/// Where the offset of a virtual base is written.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    base: TypeId,
    /// Bytes in front of the vtable.
    distance: u64,
}

/// A part of an object.
struct Part<'a> {
    members: &'a [Member],
    slots: &'a [Slot],
    offset: u64,
}

/// What the vtables say of one base.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BaseOffset {
    At(u64),
    /// Two of them say different things.
    Disputed,
}

/// The slots of a class's own virtual bases; `raw` are its members in the same order.
pub(super) fn slots(table: &TypeTable, a: &Aggregate, raw: &[RawMember<'_>]) -> Vec<Slot> {
    let told = a.members.iter().zip(raw).filter(|(m, _)| m.role == MemberRole::VirtualBase);
    told.filter_map(|(m, raw)| Some(Slot { base: table.strip(m.ty), distance: raw.vtable_distance? }))
        .collect()
}

impl Types<'_> {
    /// Places all virtual bases as far as they are known: by the vtables, else where the rest of the object leaves
    /// one place only.
    pub(super) fn place_virtual_bases(&self, a: &mut Aggregate, slots: &[Slot]) {
        if a.members.iter().all(|m| !matches!(m.role, MemberRole::Base | MemberRole::VirtualBase)) {
            return;
        }
        let mut told = self.places(a, slots);
        for m in a.members.iter_mut().filter(|m| m.role == MemberRole::VirtualBase) {
            let place = told.remove(&self.table.strip(m.ty));
            m.offset_bits =
                place.and_then(BaseOffset::known).map_or(Member::UNPLACED, |at| at.saturating_mul(8));
        }
        a.indirect_bases = told.into_iter().filter_map(|(ty, place)| Some((ty, place.known()?))).collect();
        a.indirect_bases.sort_unstable();
        if a.members.iter().all(|m| m.role != MemberRole::VirtualBase) {
            return;
        }
        let places = virtual_bases(&self.table, a);
        for m in a.members.iter_mut().filter(|m| m.role == MemberRole::VirtualBase) {
            let ty = self.table.strip(m.ty);
            let found = places.iter().find(|p| p.ty == ty).and_then(|p| p.offset);
            m.offset_bits = found.map_or(Member::UNPLACED, |at| at.saturating_mul(8));
        }
    }

    /// What the vtables say of all virtual bases. Nothing when the class has no name, or too many parts.
    fn places(&self, a: &Aggregate, slots: &[Slot]) -> HashMap<TypeId, BaseOffset> {
        let mut places = HashMap::new();
        let Some(name) = a.name.as_deref().filter(|_| !slots.is_empty() || !self.slots.is_empty()) else {
            return places;
        };
        let mut parts = vec![Part { members: &a.members, slots, offset: 0 }];
        let mut seen = 0;
        while let Some(part) = parts.pop() {
            seen += 1;
            if seen > PARTS_MAX {
                return HashMap::new();
            }
            for slot in part.slots {
                let Some(at) = self.written(name, a.size, part.offset, slot.distance) else { continue };
                match places.get(&slot.base) {
                    Some(&old) if old != BaseOffset::At(at) => {
                        places.insert(slot.base, BaseOffset::Disputed);
                    }
                    Some(_) => {}
                    None => {
                        places.insert(slot.base, BaseOffset::At(at));
                        parts.extend(self.part(slot.base, at));
                    }
                }
            }
            let bases = part.members.iter().filter(|m| m.role == MemberRole::Base);
            parts.extend(bases.filter_map(|m| self.part(m.ty, part.offset.checked_add(m.offset())?)));
        }
        places
    }

    fn part(&self, ty: TypeId, offset: u64) -> Option<Part<'_>> {
        let ty = self.table.strip(ty);
        let slots = self.slots.get(&ty.0).map_or(&[][..], Vec::as_slice);
        Some(Part { members: &self.table.aggregate(ty)?.members, slots, offset })
    }

    /// Offset of a virtual base from the start of the object, as the vtable of the part at `part` has it.
    fn written(&self, class: &str, size: u64, part: u64, distance: u64) -> Option<u64> {
        let files = self.units.files();
        let little = files.endian == gimli::RunTimeEndian::Little;
        let from_part = files.vtables.before(class, part, distance, files.pointer_size, little)?;
        part.checked_add_signed(from_part).filter(|at| *at < size)
    }
}

impl BaseOffset {
    fn known(self) -> Option<u64> {
        match self {
            BaseOffset::At(at) => Some(at),
            BaseOffset::Disputed => None,
        }
    }
}
