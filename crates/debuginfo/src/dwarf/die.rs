//! One debugging information entry, with the attributes that matter for types.

use gimli::{AttributeValue, DwTag, EntriesRaw, UnitOffset, constants as dw};

use super::context::Context;
use super::files::Slice;
use super::units::DieRef;

pub(super) type Value<'f> = AttributeValue<Slice<'f>>;

/// The attributes of a type, member or namespace.
#[derive(Clone, Copy)]
pub(super) struct Die<'f> {
    pub tag: DwTag,
    pub children: bool,
    pub offset: u32,
    /// Offset of what follows: the first child or the next sibling.
    pub next: u32,
    pub sibling: Option<u32>,
    pub name: Option<Value<'f>>,
    pub ty: Option<Value<'f>>,
    pub specification: Option<Value<'f>>,
    pub origin: Option<Value<'f>>,
    pub signature: Option<Value<'f>>,
    pub byte_size: Option<u64>,
    pub bit_size: Option<u64>,
    pub data_bit_offset: Option<u64>,
    pub bit_offset: Option<u64>,
    pub location: Option<Value<'f>>,
    pub decl_file: Option<u64>,
    pub decl_line: u32,
    pub alignment: Option<u64>,
    pub encoding: u64,
    pub count: Option<u64>,
    pub upper_bound: Option<u64>,
    /// The upper bound is -1: GNU's empty array.
    pub empty: bool,
    pub lower_bound: Option<i64>,
    pub const_value: Option<Value<'f>>,
    pub discr: Option<Value<'f>>,
    pub declaration: bool,
    pub external: bool,
    pub artificial: bool,
    pub virtuality: bool,
    /// GNU's mark on arrays that are vectors.
    pub vector: bool,
}

/// Reads the next entry; `None` for the end of a list of siblings.
pub(super) fn read<'f>(raw: &mut EntriesRaw<'_, Slice<'f>>) -> gimli::Result<Option<Die<'f>>> {
    let offset = raw.next_offset().0 as u32;
    let Some(abbrev) = raw.read_abbreviation()? else { return Ok(None) };
    let mut die = Die::new(abbrev.tag(), abbrev.has_children(), offset);
    for &spec in abbrev.attributes() {
        let value = raw.read_attribute_inline(spec)?.raw_value();
        die.set(spec.name(), value);
    }
    die.next = raw.next_offset().0 as u32;
    Ok(Some(die))
}

impl<'f> Die<'f> {
    fn new(tag: DwTag, children: bool, offset: u32) -> Die<'f> {
        Die {
            tag,
            children,
            offset,
            next: 0,
            sibling: None,
            name: None,
            ty: None,
            specification: None,
            origin: None,
            signature: None,
            byte_size: None,
            bit_size: None,
            data_bit_offset: None,
            bit_offset: None,
            location: None,
            decl_file: None,
            decl_line: 0,
            alignment: None,
            encoding: 0,
            count: None,
            upper_bound: None,
            empty: false,
            lower_bound: None,
            const_value: None,
            discr: None,
            declaration: false,
            external: false,
            artificial: false,
            virtuality: false,
            vector: false,
        }
    }

    #[inline]
    fn set(&mut self, at: gimli::DwAt, value: Value<'f>) {
        match at {
            dw::DW_AT_name => self.name = Some(value),
            dw::DW_AT_type => self.ty = Some(value),
            dw::DW_AT_data_member_location => self.location = Some(value),
            dw::DW_AT_decl_line => self.decl_line = value.udata_value().map_or(0, |l| l as u32),
            dw::DW_AT_decl_file => self.decl_file = value.udata_value(),
            dw::DW_AT_byte_size => self.byte_size = value.udata_value(),
            dw::DW_AT_sibling => {
                if let AttributeValue::UnitRef(UnitOffset(at)) = value {
                    self.sibling = u32::try_from(at).ok();
                }
            }
            dw::DW_AT_bit_size => self.bit_size = value.udata_value(),
            dw::DW_AT_data_bit_offset => self.data_bit_offset = value.udata_value(),
            dw::DW_AT_bit_offset => {
                // Negative where a packed field crosses its storage unit (gcc, DWARF 4): the arithmetic on it wraps.
                self.bit_offset = value.udata_value().or_else(|| value.sdata_value().map(|n| n as u64));
            }
            dw::DW_AT_encoding => self.encoding = value.udata_value().unwrap_or(0),
            dw::DW_AT_count => self.count = value.udata_value(),
            dw::DW_AT_upper_bound => {
                self.empty = is_minus_one(&value);
                self.upper_bound = value.udata_value().filter(|_| !self.empty);
            }
            dw::DW_AT_lower_bound => self.lower_bound = value.sdata_value(),
            dw::DW_AT_const_value => self.const_value = Some(value),
            dw::DW_AT_alignment => self.alignment = value.udata_value(),
            dw::DW_AT_declaration => self.declaration = flag(&value),
            dw::DW_AT_external => self.external = flag(&value),
            dw::DW_AT_artificial => self.artificial = flag(&value),
            dw::DW_AT_virtuality => self.virtuality = value.udata_value().is_some_and(|v| v != 0),
            dw::DW_AT_GNU_vector => self.vector = flag(&value),
            dw::DW_AT_specification => self.specification = Some(value),
            dw::DW_AT_abstract_origin => self.origin = Some(value),
            dw::DW_AT_signature => self.signature = Some(value),
            dw::DW_AT_discr => self.discr = Some(value),
            _ => {}
        }
    }

    /// Struct, union or class.
    pub fn is_aggregate(&self) -> bool {
        is_aggregate(self.tag)
    }
}

/// Struct, union or class.
pub(super) fn is_aggregate(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_structure_type | dw::DW_TAG_union_type | dw::DW_TAG_class_type)
}

fn flag(value: &Value<'_>) -> bool {
    matches!(value, AttributeValue::Flag(true)) || value.udata_value().is_some_and(|v| v != 0)
}

/// Older gcc writes the upper bound of `[0]` as -1 in the width of an address. In 4 bytes that is also the bound of an
/// array of 2^32 elements, on 64-bit machines.
fn is_minus_one(value: &Value<'_>) -> bool {
    matches!(value, AttributeValue::Sdata(-1) | AttributeValue::Data8(u64::MAX))
}

/// An enumerator's value. Fixed-width forms are unsigned: gcc and clang write negative values as `sdata`, those of more
/// than 64 bits as 16 bytes, in DWARF 4 as a block of them.
pub(super) fn constant(ctx: &Context<'_>, die: &Die<'_>) -> i128 {
    let block = |bytes: &[u8]| {
        let mut sixteen = [0; 16];
        let n = bytes.len().min(16);
        match ctx.little_endian() {
            true => sixteen[..n].copy_from_slice(&bytes[..n]),
            false => sixteen[16 - n..].copy_from_slice(&bytes[..n]),
        }
        if ctx.little_endian() { i128::from_le_bytes(sixteen) } else { i128::from_be_bytes(sixteen) }
    };
    match die.const_value {
        Some(AttributeValue::Sdata(n)) => i128::from(n),
        Some(AttributeValue::Data16(n)) => n as i128,
        Some(AttributeValue::Block(bytes)) => block(bytes.slice()),
        // as ever, u64 values above `i64::MAX` keep their bits
        Some(value) => i128::from(value.udata_value().unwrap_or(0) as i64),
        None => 0,
    }
}

/// Calls `visit` for every direct child of `die`. Grandchildren are skipped.
pub(super) fn children<'f>(
    ctx: &Context<'f>,
    die: &Die<'f>,
    mut visit: impl FnMut(&Die<'f>) -> gimli::Result<()>,
) -> gimli::Result<()> {
    if !die.children {
        return Ok(());
    }
    let mut raw = ctx.unit.entries_raw(Some(UnitOffset(die.next as usize)))?;
    while !raw.is_empty() {
        let Some(child) = read(&mut raw)? else { return Ok(()) };
        if !ctx.budget.step(1) {
            return Ok(());
        }
        visit(&child)?;
        if child.children {
            skip(ctx, &child, &mut raw)?;
        }
    }
    Ok(())
}

/// Moves `raw` behind the children of `die`.
pub(super) fn skip<'a, 'f>(
    ctx: &'a Context<'f>,
    die: &Die<'f>,
    raw: &mut EntriesRaw<'a, Slice<'f>>,
) -> gimli::Result<()> {
    if let Some(sibling) = die.sibling.filter(|&s| s > die.offset) {
        *raw = ctx.unit.entries_raw(Some(UnitOffset(sibling as usize)))?;
        return Ok(());
    }
    let mut depth = 1u64;
    while depth > 0 && !raw.is_empty() && ctx.budget.step(1) {
        match raw.read_abbreviation()? {
            None => depth -= 1,
            Some(abbrev) => {
                raw.skip_attributes(abbrev.attributes())?;
                depth += u64::from(abbrev.has_children());
            }
        }
    }
    Ok(())
}

/// Follows a reference from `from` to the entry it names.
pub(super) fn target(ctx: &Context<'_>, value: &Value<'_>) -> Option<DieRef> {
    match *value {
        AttributeValue::UnitRef(UnitOffset(at)) => {
            Some(DieRef { unit: ctx.id, offset: u32::try_from(at).ok()? })
        }
        AttributeValue::DebugInfoRef(at) => ctx.units.at(ctx.dwarf_index, at),
        AttributeValue::DebugInfoRefSup(at) => ctx.units.at(ctx.units.sup()?, at),
        AttributeValue::DebugTypesRef(signature) => ctx.units.signature(signature.0),
        _ => None,
    }
}
