//! Alignments of types that their size does not tell, by architecture and language.
//!
//! Sources: the psABIs of x86-64, i386, AArch64, AAPCS32, s390x (no type needs more than 8), the Itanium C++ ABI 2.3
//! for pointers to members; `DATA_ALIGNMENT` and `TARGET_VECTOR_ALIGNMENT` of gcc's back ends and clang's
//! `MaxVectorAlign` for vectors; `_BitInt` as clang has it.

use gimli::constants as dw;
use object::Architecture;
use tussle_model::Exact;

use super::context::Context;
use super::die::Die;

/// Strictest alignment of a scalar, bytes.
fn scalar_max(arch: Architecture) -> u64 {
    match arch {
        Architecture::Avr => 1,
        Architecture::Msp430 | Architecture::M68k => 2,
        Architecture::S390x | Architecture::Arm => 8,
        _ => 16,
    }
}

/// Least and strictest alignment of a vector of that size, bytes. On x86 gcc goes by the vector registers that its
/// options allow, on s390x every compiler does.
fn vector_align(arch: Architecture, gnu: bool, size: u64) -> (u64, u64) {
    match arch {
        Architecture::Arm => (size.min(8), size.min(8)),
        Architecture::Aarch64 | Architecture::Aarch64_Ilp32 => (size.min(16), size.min(16)),
        Architecture::I386 | Architecture::X86_64 | Architecture::X86_64_X32 if !gnu => (size, size),
        Architecture::S390x => (size.min(8), size),
        _ => (size.min(16), size),
    }
}

/// Least and strictest alignment of a `_BitInt` of that size: clang began with that of `long long` on every machine,
/// later versions follow the ABI of some.
fn bit_int_align(arch: Architecture, size: u64) -> (u64, u64) {
    let most = match arch {
        Architecture::I386 => 4,
        Architecture::X86_64 | Architecture::X86_64_X32 => 8,
        arch => scalar_max(arch),
    };
    (power_in(size).min(most).min(8), power_in(size).min(most))
}

/// Largest power of two in a number of bytes.
fn power_in(bytes: u64) -> u64 {
    1 << bytes.max(1).trailing_zeros()
}

/// What is to be remembered of a base type beyond its size.
pub(super) fn base(ctx: &Context<'_>, die: &Die<'_>, size: u64, name: &str) -> Exact {
    let arch = ctx.units.files().arch;
    let encoding = gimli::DwAte(die.encoding.min(0xff) as u8);
    let complex = encoding == dw::DW_ATE_complex_float || name.contains("complex ");
    let by_size = power_in(if complex { size / 2 } else { size }).min(scalar_max(arch));
    let whole = name.contains("_BitInt");
    let (least, most) = if whole { bit_int_align(arch, size) } else { (by_size, by_size) };
    if (least, most) == (power_in(size), power_in(size)) {
        return Exact::default();
    }
    Exact { align_most: (most > least).then_some(most), ..Exact::aligned(least) }
}

/// Size and alignment of a vector of so many bytes of elements.
pub(super) fn vector(ctx: &Context<'_>, die: &Die<'_>, elements: Option<u64>) -> Exact {
    let rounded = elements.and_then(u64::checked_next_power_of_two);
    let Some(size) = die.byte_size.or(rounded) else { return Exact::default() };
    let (least, most) = vector_align(ctx.units.files().arch, ctx.states_alignments, power_in(size));
    Exact { size: Some(size), align: Some(least), align_most: (most > least).then_some(most) }
}

/// Pointers to members are one or two words, `std::nullptr_t` is one.
pub(super) fn words(ctx: &Context<'_>) -> Exact {
    Exact::aligned(u64::from(ctx.unit.header.address_size()))
}

/// The alignment that an entry states, where its compiler means the alignment of every object: gcc and rustc do, also
/// when it is less than the parts need. clang writes what the source asks for, which may be less than the type has;
/// of typedefs that is all there is.
pub(super) fn stated(ctx: &Context<'_>, die: &Die<'_>) -> Option<u64> {
    let trusted = !die.is_aggregate() || ctx.states_alignments;
    die.alignment.filter(|n| trusted && n.is_power_of_two())
}
