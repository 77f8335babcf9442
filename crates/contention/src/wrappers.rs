//! Types of the Rust and the C++ library around one value: atomics, cells, padding, buffers. `done` is `AtomicU64 { v:
//! UnsafeCell { value } }`; the source says `done`.

use tussle_model::{Aggregate, MemberRole, TypeTable};

/// Where such types live.
const MODULES: &[&str] = &[
    "core::cell::",
    "core::mem::",
    "core::num::",
    "core::pin::",
    "core::ptr::",
    "core::sync::",
    "alloc::boxed::",
    "std::sync::",
    "std::sys::",
    "crossbeam_utils::cache_padded::",
    "parking_lot::raw_",
    "lock_api::",
    // What `std::make_shared` allocates, around the value.
    "std::_Sp_counted_ptr_inplace",
    "__gnu_cxx::__aligned_",
];

/// What a patch of tussle puts around a field, the bytes behind it.
const OURS: &[&str] = &["CacheLine", "OwnLine", "AlignedLine"];

/// What a member that belongs to such a type is called besides, where others stand beside it: `Mutex { inner, poison,
/// data }`.
const INSIDE: &str = "inner";

/// The type is a wrapper, and the member's name is its own affair.
pub(crate) fn hides(table: &TypeTable, a: &Aggregate, member: &str) -> bool {
    let Some(name) = a.name.as_deref().filter(|n| is_wrapper(n)) else { return false };
    let fields = a.members.iter().filter(|m| m.role == MemberRole::Field && table.size(m.ty) != Some(0));
    let only = fields.count() == 1;
    only || member == INSIDE && !name.starts_with("core::")
}

fn is_wrapper(name: &str) -> bool {
    let bare = name.split('<').next().unwrap_or(name);
    let last = bare.rsplit("::").next().unwrap_or(bare);
    let ours = OURS.iter().any(|o| last.strip_prefix(o).is_some_and(|n| n.parse::<u64>().is_ok()));
    ours || bare.contains("::") && MODULES.iter().any(|m| bare.starts_with(m))
}

/// `0` of `std::_Head_base<0, long, false>`: the base of a `std::tuple` that holds an element.
pub(crate) fn tuple_element(base: &Aggregate) -> Option<&str> {
    let number = base.name.as_deref()?.strip_prefix("std::_Head_base<")?.split(',').next()?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

/// `0` of `__0`: the member of a tuple as its source has it.
pub(crate) fn tuple_member<'a>(a: &Aggregate, member: &'a str) -> Option<&'a str> {
    let rust = a.name.as_deref().is_some_and(|n| n.starts_with('(') || n.contains("::"));
    let number = member.strip_prefix("__").filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    number.filter(|_| rust)
}
