//! Members of structs, unions and classes as DWARF writes them.

use gimli::{AttributeValue, Operation, UnitOffset, constants as dw};
use tussle_model::{Member, MemberRole};

use super::context::Context;
use super::die::{self, Die, Value, target};
use super::units::DieRef;

/// A member before its type is resolved.
#[derive(Clone, Copy)]
pub(super) struct RawMember<'f> {
    pub name: Option<Value<'f>>,
    pub ty: Option<DieRef>,
    pub offset_bits: u64,
    pub bit_size: Option<u32>,
    /// Offset of a bit-field within its storage unit, counted from the most significant bit (DWARF 2 and 3), and the
    /// unit's size in bytes if written here; `offset_bits` is then that of the storage unit.
    pub old_bits: Option<(u64, Option<u64>)>,
    pub align: Option<u64>,
    pub line: u32,
    pub role: MemberRole,
    /// How many bytes in front of the vtable the offset of a virtual base is written.
    pub vtable_distance: Option<u64>,
    /// Its offset is an expression over the program's state: it lies behind an array of variable length.
    pub computed: bool,
}

/// Variant parts nest only in hostile files.
const VARIANT_DEPTH_MAX: usize = 8;

/// Calls `visit` for each member in order.
pub(super) fn members<'f>(
    ctx: &Context<'f>,
    aggregate: &Die<'f>,
    visit: &mut dyn FnMut(RawMember<'f>),
) -> gimli::Result<()> {
    die::children(ctx, aggregate, |child| match child.tag {
        dw::DW_TAG_member | dw::DW_TAG_variable => {
            visit(field(ctx, child, aggregate));
            Ok(())
        }
        dw::DW_TAG_inheritance => {
            visit(base(ctx, child));
            Ok(())
        }
        dw::DW_TAG_variant_part => variants(ctx, child, 0, visit),
        _ => Ok(()),
    })
}

fn plain<'f>(ctx: &Context<'f>, die: &Die<'f>) -> RawMember<'f> {
    let at = die.location.map(|v| offset(ctx, &v));
    RawMember {
        name: die.name,
        ty: die.ty.and_then(|v| target(ctx, &v)),
        offset_bits: at.flatten().unwrap_or(0).wrapping_mul(8),
        bit_size: None,
        old_bits: None,
        align: die.alignment,
        line: die.decl_line,
        role: MemberRole::Field,
        vtable_distance: None,
        computed: at == Some(None),
    }
}

fn field<'f>(ctx: &Context<'f>, die: &Die<'f>, aggregate: &Die<'f>) -> RawMember<'f> {
    let mut member = plain(ctx, die);
    // a line counts in the aggregate's file: members may come from a file that is included into the body
    if die.decl_file.is_some_and(|f| aggregate.decl_file.is_some_and(|a| a != f)) {
        member.line = 0;
    }
    let is_static = die.tag == dw::DW_TAG_variable
        || ((die.external || die.declaration) && die.location.is_none() && die.data_bit_offset.is_none());
    if is_static {
        member.role = MemberRole::Static;
    } else if is_vptr(ctx, die) {
        member.role = MemberRole::Vptr;
    }
    let Some(bits) = die.bit_size.and_then(|b| u32::try_from(b).ok()) else { return member };
    member.bit_size = Some(bits);
    if let Some(at) = die.data_bit_offset {
        member.offset_bits = at;
    } else if let Some(from_top) = die.bit_offset {
        member.old_bits = Some((from_top, die.byte_size));
    } else if aggregate.tag != dw::DW_TAG_union_type && !ctx.little_endian() {
        member.old_bits = Some((0, die.byte_size));
    }
    member
}

/// gcc calls it `_vptr.Foo`, clang `_vptr$Foo`.
fn is_vptr<'f>(ctx: &Context<'f>, die: &Die<'f>) -> bool {
    let name = |v| ctx.dwarf().attr_string(&ctx.unit, v).map_or(&[][..], |s| s.slice());
    die.name.map(name).is_some_and(|n| n.starts_with(b"_vptr.") || n.starts_with(b"_vptr$"))
}

fn base<'f>(ctx: &Context<'f>, die: &Die<'f>) -> RawMember<'f> {
    let mut member = plain(ctx, die);
    member.name = None;
    member.role = if die.virtuality { MemberRole::VirtualBase } else { MemberRole::Base };
    member.computed = false;
    if die.virtuality {
        member.offset_bits = Member::UNPLACED;
        member.vtable_distance = die.location.and_then(|v| vtable_distance(ctx, &v));
    }
    member
}

/// The variant part of a Rust enum: its discriminant, then the contents of each variant.
fn variants<'f>(
    ctx: &Context<'f>,
    part: &Die<'f>,
    depth: usize,
    visit: &mut dyn FnMut(RawMember<'f>),
) -> gimli::Result<()> {
    if depth > VARIANT_DEPTH_MAX {
        return Ok(());
    }
    die::children(ctx, part, |child| match child.tag {
        dw::DW_TAG_member => {
            visit(RawMember { role: MemberRole::Discriminant, ..plain(ctx, child) });
            Ok(())
        }
        dw::DW_TAG_variant => die::children(ctx, child, |inner| match inner.tag {
            dw::DW_TAG_member => {
                visit(RawMember { role: MemberRole::Variant, ..plain(ctx, inner) });
                Ok(())
            }
            dw::DW_TAG_variant_part => variants(ctx, inner, depth + 1, visit),
            _ => Ok(()),
        }),
        _ => Ok(()),
    })
}

/// The byte offset of a member: a constant, or the expression that adds one (DWARF 2). What is looked up at run time
/// (virtual bases) is `None`.
fn offset(ctx: &Context<'_>, value: &Value<'_>) -> Option<u64> {
    let expression = match value {
        AttributeValue::Exprloc(e) => *e,
        AttributeValue::Block(b) => gimli::Expression(*b),
        other => return other.udata_value(),
    };
    let mut operations = expression.operations(ctx.unit.encoding());
    let value = match operations.next().ok()?? {
        Operation::PlusConstant { value } => value,
        Operation::UnsignedConstant { value } => value,
        _ => return None,
    };
    match operations.next().ok()? {
        None => Some(value),
        Some(Operation::PlusConstant { .. }) => None,
        Some(_) => None,
    }
}

/// N of `*(*object - N) + object`, which is how compilers say where a virtual base lies.
fn vtable_distance(ctx: &Context<'_>, value: &Value<'_>) -> Option<u64> {
    let expression = match value {
        AttributeValue::Exprloc(e) => *e,
        AttributeValue::Block(b) => gimli::Expression(*b),
        _ => return None,
    };
    let mut operations = expression.operations(ctx.unit.encoding());
    let mut next = || operations.next().ok().flatten();
    let Operation::Pick { index: 0 } = next()? else { return None };
    let Operation::Deref { space: false, .. } = next()? else { return None };
    let Operation::UnsignedConstant { value: distance } = next()? else { return None };
    let rest = (next()?, next()?, next()?, next());
    matches!(rest, (Operation::Minus, Operation::Deref { space: false, .. }, Operation::Plus, None))
        .then_some(distance)
}

/// Bit offset from the start of the aggregate of an old-style bit-field in `storage` bytes.
pub(super) fn old_bit_offset(
    start_bits: u64,
    from_top: u64,
    bits: u32,
    storage: u64,
    little_endian: bool,
) -> u64 {
    if !little_endian {
        return start_bits.wrapping_add(from_top);
    }
    start_bits.wrapping_add(storage.wrapping_mul(8)).wrapping_sub(from_top).wrapping_sub(u64::from(bits))
}

/// Bytes of the scalar behind typedefs and qualifiers, for the storage unit of an old-style bit-field.
pub(super) fn scalar_size(ctx: &Context<'_>, mut at: DieRef) -> Option<u64> {
    for _ in 0..64 {
        if at.unit != ctx.id {
            return None;
        }
        let mut raw = ctx.unit.entries_raw(Some(UnitOffset(at.offset as usize))).ok()?;
        let die = die::read(&mut raw).ok()??;
        if let Some(size) = die.byte_size {
            return Some(size);
        }
        at = target(ctx, &die.ty?)?;
    }
    None
}
