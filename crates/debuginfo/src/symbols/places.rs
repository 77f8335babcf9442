//! Where variables live at a code address: the location descriptions of DWARF, as far as they are simple.

use std::ops::Range;

use gimli::{AttributeValue, Expression, Operation};
use gimli::{DW_AT_abstract_origin, DW_AT_frame_base, DW_AT_location, DW_AT_name, DW_AT_type, UnitRef};

use super::Reader;
use super::variables::reference;

type Entry = gimli::DebuggingInformationEntry<Reader>;

/// Location list entries read of one unit at most.
const PLACES_MAX: usize = 1 << 20;

/// Origins are followed this far.
const ORIGINS_MAX: usize = 8;

/// Where the value of a variable is. Registers have DWARF's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a register.
    Register(u16),
    /// It is a register plus a constant, and lives nowhere.
    Sum(u16, i64),
    /// In memory at a register plus a constant.
    Memory(u16, i64),
    /// In memory, so far from the canonical frame address: the stack pointer before the call.
    Frame(i64),
    /// In memory at a fixed address.
    Static(u64),
}

/// A variable or parameter and the place of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Name in the source.
    pub name: String,
    /// Entry of its type in `.debug_info`.
    pub ty: Option<usize>,
    /// Where it is.
    pub place: Location,
}

/// One variable in one stretch of code.
#[derive(Debug)]
struct Row {
    range: Range<u64>,
    entry: usize,
    place: Location,
}

/// A function with its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Type of the returned value, as an entry in `.debug_info`.
    pub ret: Option<usize>,
}

/// All variables with places of one unit.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// In order of `range.start`.
    rows: Vec<Row>,
    /// Longest row, bytes: how far a search has to look back.
    longest: u64,
    /// In order of address.
    pub functions: Vec<Function>,
    /// Name, type and origin by entry.
    names: std::collections::HashMap<usize, Named>,
}

/// Name, type and origin of an entry.
type Named = (Option<String>, Option<usize>, Option<usize>);

/// What surrounds an entry while the tree is walked.
struct Around {
    depth: isize,
    ranges: Vec<Range<u64>>,
    frame: Option<Location>,
}

impl Places {
    pub(super) fn read(unit: &UnitRef<'_, Reader>) -> Places {
        let mut out = Places::default();
        let mut open: Vec<Around> = Vec::new();
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            while open.last().is_some_and(|a| a.depth >= entry.depth()) {
                open.pop();
            }
            match entry.tag() {
                gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine | gimli::DW_TAG_lexical_block => {
                    let ranges = ranges(unit, entry);
                    if entry.tag() == gimli::DW_TAG_subprogram {
                        out.function(unit, entry, &ranges);
                    }
                    let frame = entry.attr_value(DW_AT_frame_base).and_then(|v| frame_base(unit, v));
                    let frame = frame.or(open.last().and_then(|a| a.frame));
                    open.push(Around { depth: entry.depth(), ranges, frame });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    out.variable(unit, entry, open.last());
                }
                _ => {}
            }
        }
        out.rows.sort_by_key(|r| r.range.start);
        out.functions.sort_by_key(|f| f.start);
        out.longest = out.rows.iter().map(|r| r.range.end - r.range.start).max().unwrap_or(0);
        out
    }

    fn function(&mut self, unit: &UnitRef<'_, Reader>, entry: &Entry, ranges: &[Range<u64>]) {
        let die = entry.offset().to_debug_info_offset(&unit.header).map_or(0, |o| o.0);
        let (ret, origin) = (reference(unit, entry, DW_AT_type), origin_of(unit, entry));
        self.names.insert(die, (None, ret, origin));
        let ret = self.resolve(die).1;
        self.functions.extend(ranges.iter().map(|r| Function { start: r.start, end: r.end, ret }));
    }

    fn variable(&mut self, unit: &UnitRef<'_, Reader>, entry: &Entry, around: Option<&Around>) {
        let Some(die) = entry.offset().to_debug_info_offset(&unit.header).map(|o| o.0) else { return };
        let name = entry.attr_value(DW_AT_name).and_then(|v| unit.attr_string(v).ok());
        let name =
            name.and_then(|n| Some(String::from_utf8_lossy(&gimli::Reader::to_slice(&n).ok()?).into_owned()));
        self.names.insert(die, (name, reference(unit, entry, DW_AT_type), origin_of(unit, entry)));
        let (Some(around), Some(value)) = (around, entry.attr_value(DW_AT_location)) else { return };
        if let AttributeValue::Exprloc(expression) = value {
            if let Some(place) = place(unit, expression, around.frame) {
                let rows = around.ranges.iter().map(|r| Row { range: r.clone(), entry: die, place });
                self.rows.extend(rows.take(PLACES_MAX));
            }
            return;
        }
        let Ok(Some(mut list)) = unit.attr_locations(value) else { return };
        while let Ok(Some(item)) = list.next() {
            if self.rows.len() >= PLACES_MAX {
                return;
            }
            if item.range.begin < item.range.end
                && let Some(place) = place(unit, item.data, around.frame)
            {
                let range = item.range.begin..item.range.end;
                self.rows.push(Row { range, entry: die, place });
            }
        }
    }

    /// Name and type, from the origin where the entry itself has none.
    fn resolve(&self, entry: usize) -> (Option<String>, Option<usize>) {
        let (mut name, mut ty, mut at) = (None, None, Some(entry));
        for _ in 0..ORIGINS_MAX {
            let Some((n, t, origin)) = at.and_then(|a| self.names.get(&a)) else { break };
            name = name.or_else(|| n.clone());
            ty = ty.or(*t);
            at = *origin;
        }
        (name, ty)
    }

    /// Variables with a place at an address.
    pub(super) fn at(&self, svma: u64) -> Vec<Placed> {
        let end = self.rows.partition_point(|r| r.range.start <= svma);
        let first = self.rows.partition_point(|r| r.range.start < svma.saturating_sub(self.longest));
        let here = self.rows[first..end].iter().filter(|r| r.range.contains(&svma));
        here.map(|r| {
            let (name, ty) = self.resolve(r.entry);
            Placed { name: name.unwrap_or_default(), ty, place: r.place }
        })
        .collect()
    }
}

fn origin_of(unit: &UnitRef<'_, Reader>, entry: &Entry) -> Option<usize> {
    reference(unit, entry, DW_AT_abstract_origin)
        .or_else(|| reference(unit, entry, gimli::DW_AT_specification))
}

fn ranges(unit: &UnitRef<'_, Reader>, entry: &Entry) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    if let Ok(mut iter) = unit.die_ranges(entry) {
        while let Ok(Some(r)) = iter.next() {
            if r.begin < r.end {
                out.push(r.begin..r.end);
            }
        }
    }
    out
}

fn frame_base(unit: &UnitRef<'_, Reader>, value: AttributeValue<Reader>) -> Option<Location> {
    let AttributeValue::Exprloc(expression) = value else { return None };
    match operations(unit, expression)?.as_slice() {
        [Operation::CallFrameCFA] => Some(Location::Frame(0)),
        [Operation::Register { register }] => Some(Location::Memory(register.0, 0)),
        _ => None,
    }
}

fn operations(unit: &UnitRef<'_, Reader>, expression: Expression<Reader>) -> Option<Vec<Operation<Reader>>> {
    let mut out = Vec::new();
    let mut all = expression.operations(unit.encoding());
    while let Some(op) = all.next().ok()? {
        out.push(op);
        if out.len() > 2 {
            return None;
        }
    }
    Some(out)
}

/// Anything but the simplest places is no place: a wrong one is worse than none.
fn place(unit: &UnitRef<'_, Reader>, e: Expression<Reader>, frame: Option<Location>) -> Option<Location> {
    match operations(unit, e)?.as_slice() {
        [Operation::Register { register }] => Some(Location::Register(register.0)),
        [Operation::RegisterOffset { register, offset, .. }] => Some(Location::Memory(register.0, *offset)),
        [Operation::RegisterOffset { register, offset, .. }, Operation::StackValue] => {
            Some(Location::Sum(register.0, *offset))
        }
        [Operation::FrameOffset { offset }] => match frame? {
            Location::Frame(base) => Some(Location::Frame(base.checked_add(*offset)?)),
            Location::Memory(register, base) => Some(Location::Memory(register, base.checked_add(*offset)?)),
            _ => None,
        },
        [Operation::Address { address }] => Some(Location::Static(*address)),
        _ => None,
    }
}
