//! Holes, bit holes and padding of one struct.

use crate::align::takes_room;
use tussle_model::{Aggregate, AggregateKind, Language, Member, TypeTable};

/// Where a member lies, with bit-fields put into their storage unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte in which the member, or the storage unit of a bit-field, starts.
    pub offset: u64,
    /// Bytes of the member's type.
    pub size: u64,
    /// For bit-fields: first bit inside the storage unit and width in bits.
    pub bits: Option<(u64, u32)>,
    /// First bit from the start of the aggregate.
    pub first_bit: u64,
}

impl Extent {
    /// Where `m` lies. Members of unknown size have size 0.
    pub fn of(table: &TypeTable, m: &Member) -> Extent {
        let size = table.size(m.ty).unwrap_or(0);
        let first_bit = m.offset_bits;
        let Some(width) = m.bit_size else {
            return Extent { offset: first_bit / 8, size, bits: None, first_bit };
        };
        let unit_bits = size.saturating_mul(8);
        let offset = first_bit.checked_div(unit_bits).map_or(first_bit / 8, |unit| unit * unit_bits / 8);
        Extent { offset, size, bits: Some((first_bit - (offset * 8).min(first_bit), width)), first_bit }
    }

    /// One past the last bit.
    pub fn end_bit(&self) -> u64 {
        let width = self.bits.map_or(self.size.saturating_mul(8), |(_, w)| u64::from(w));
        self.first_bit.saturating_add(width)
    }
}

/// Unused room between two members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Whole bytes.
    pub bytes: u64,
    /// Bits left over in a bit-field's storage unit.
    pub bits: u64,
}

/// Members in the order in which they are shown: that of declaration, except in Rust, which lays them out as it likes.
pub fn order(a: &Aggregate) -> Vec<usize> {
    let mut order: Vec<usize> = (0..a.members.len()).collect();
    if a.language == Language::Rust {
        order.sort_by_key(|&i| a.members[i].offset_bits);
    }
    order
}

/// Unused room of a struct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// Gap in front of the first member.
    pub before: Gap,
    /// Gap after each member, by its index; always zero after the last one and after members without room.
    pub after: Vec<Gap>,
    /// Number of gaps with bytes.
    pub count: u64,
    /// Number of gaps with bits.
    pub bit_count: u64,
    /// Bytes at the end.
    pub padding: u64,
    /// Unused bits of a bit-field at the end.
    pub bit_padding: u64,
}

impl Holes {
    /// Holes of `a`. Unions have none.
    pub fn of(table: &TypeTable, a: &Aggregate) -> Holes {
        let mut holes = Holes { after: vec![Gap::default(); a.members.len()], ..Holes::default() };
        if a.kind == AggregateKind::Union {
            return holes;
        }
        let mut scan = Scan { seen: 0, unit: None };
        let mut last: Option<usize> = None;
        for i in order(a).into_iter().filter(|&i| takes_room(a.members[i].role)) {
            let m = &a.members[i];
            let before = scan.seen;
            let gap = scan.step(Extent::of(table, m));
            if a.language == Language::Rust {
                // Variants of an enum overlap: what is covered stays covered.
                scan.seen = scan.seen.max(before);
            }
            holes.count += u64::from(gap.bytes > 0);
            holes.bit_count += u64::from(gap.bits > 0);
            match last {
                Some(before) => holes.after[before] = gap,
                None => holes.before = gap,
            }
            last = Some(i);
        }
        (holes.padding, holes.bit_padding) = scan.finish(a.size);
        holes
    }

    /// Sum of all holes in bytes, padding excluded.
    pub fn sum_bytes(&self) -> u64 {
        self.after.iter().fold(self.before.bytes, |n, g| n.saturating_add(g.bytes))
    }
}

/// Sweeps over the bits of a struct. Bit-fields reserve a whole storage unit, whose unused bits are a bit hole, and
/// whatever lies between a unit's end and the next member is a byte hole.
struct Scan {
    /// One past the last bit that was accounted for.
    seen: u64,
    /// In a run of bit-fields: one past the last bit of its storage unit, and the unit's width in bits.
    unit: Option<(u64, u64)>,
}

impl Scan {
    fn step(&mut self, p: Extent) -> Gap {
        let mut gap = Gap::default();
        if let Some((unit_end, _)) = self.unit {
            let end = unit_end.min(p.first_bit);
            gap.bits = end.saturating_sub(self.seen);
            self.seen = end;
        }
        match p.bits {
            Some(_) => {
                let unit_start = p.offset.saturating_mul(8);
                if self.seen < unit_start && unit_start <= p.first_bit {
                    gap.bytes = p.offset - self.seen / 8;
                    self.seen = unit_start;
                }
                gap.bits += p.first_bit.saturating_sub(self.seen);
                self.enter_unit(p);
            }
            None => {
                gap.bytes = (p.first_bit / 8).saturating_sub(self.seen / 8);
                self.unit = None;
            }
        }
        self.seen = p.end_bit();
        gap
    }

    /// A bit-field opens a new unit when it does not fit into the current one or has a wider type.
    fn enter_unit(&mut self, p: Extent) {
        let width = p.size.saturating_mul(8);
        let end = p.end_bit();
        if self.unit.is_some_and(|(unit_end, unit_width)| end <= unit_end && width <= unit_width) {
            return;
        }
        let mut unit_end = p.offset.saturating_mul(8).saturating_add(width);
        if end > unit_end {
            unit_end = unit_end.saturating_add(width);
        }
        self.unit = Some((unit_end, width));
    }

    /// Padding in bytes and in bits.
    fn finish(mut self, size: u64) -> (u64, u64) {
        let mut bits = 0;
        if let Some((unit_end, _)) = self.unit {
            let end = unit_end.min(size.saturating_mul(8));
            bits = end.saturating_sub(self.seen);
            self.seen = end.max(self.seen);
        }
        (size.saturating_sub(self.seen / 8), bits)
    }
}
