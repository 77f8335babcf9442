//! Accesses in which a field's bytes were no field: the slab allocator's free list, zeroing on allocation, RCU heads.
//!
//! A wrong word here would hide a real field, so each needs two independent signs: the code (inline chain, or every
//! sampled caller) and the place (the cache's own offset, a member of the right type).

use std::collections::{BTreeMap, BTreeSet};

use tussle_evidence::{Code, Evidence, Object, ObjectKind, Role, TouchKind};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Type, TypeId, TypeTable};

/// Bytes of a pointer.
const WORD: u32 = 8;

/// Samples of callers that must agree.
const AGREE_MIN: u32 = 3;

/// Functions of mm/slub.c whose access at a cache's `offset` is to the link.
const FREELIST_CODE: &[&str] = &[
    "get_freepointer",
    "get_freepointer_safe",
    "set_freepointer",
    "freelist_dereference",
    "maybe_wipe_obj_freeptr",
];

/// Functions of kernel/rcu/ that handle one callback at a time.
const RCU_CODE: &[&str] = &[
    "call_rcu",
    "__call_rcu_common",
    "rcu_do_batch",
    "rcu_cblist_enqueue",
    "rcu_cblist_dequeue",
    "rcu_segcblist_enqueue",
];

/// Functions that clear memory.
const CLEARING: &[&str] = &[
    "memset",
    "__memset",
    "memset_orig",
    "memset_erms",
    "clear_page_orig",
    "clear_page_rep",
    "clear_page_erms",
];

/// Parts of the allocators that clear what they are about to hand out.
const CLEARING_FOR: &[&str] = &["slab_post_alloc_hook", "kernel_init_pages", "post_alloc_hook"];

/// Return addresses of callers, nearest first, and how often they were sampled; by code row.
pub(super) type Chains = BTreeMap<u32, BTreeMap<Vec<u64>, u32>>;

/// Code rows that clear memory and of which every sampled caller was an allocator.
pub(super) fn clearing(
    code: &[Code],
    chains: &Chains,
    functions: &dyn Fn(u64) -> Vec<String>,
) -> BTreeSet<u32> {
    let allocates = |chain: &Vec<u64>| {
        let frames = chain.first().map(|back| functions(back.wrapping_sub(1))).unwrap_or_default();
        frames.iter().any(|f| CLEARING_FOR.contains(&f.as_str()))
    };
    let all = |(row, chains): (&u32, &BTreeMap<Vec<u64>, u32>)| {
        let clears = code.get(*row as usize).and_then(innermost).is_some_and(|f| CLEARING.contains(&f));
        let agree = clears && chains.values().sum::<u32>() >= AGREE_MIN && chains.keys().all(allocates);
        agree.then_some(*row)
    };
    chains.iter().filter_map(all).collect()
}

/// Writes the roles. `free_pointers` is by object, `clearing` from [`clearing`].
pub(super) fn name(evidence: &mut Evidence, free_pointers: &[Option<u64>], clearing: &BTreeSet<u32>) {
    for t in evidence.touches.iter_mut().filter(|t| t.field.is_none() && t.role.is_none()) {
        let (Some(o), Some(c)) =
            (evidence.objects.get(t.object as usize), evidence.code.get(t.code as usize))
        else {
            continue;
        };
        let free_pointer = free_pointers.get(t.object as usize).copied().flatten();
        let at_link = t.size == WORD && free_pointer == Some(t.offset);
        let role = if at_link && c.frames.iter().any(|f| FREELIST_CODE.contains(&f.function.as_str())) {
            Role::FreelistWord
        } else if clearing.contains(&t.code) && t.kind == TouchKind::Write && is_allocated(o) {
            Role::ZeroedOnAllocation
        } else if t.size == WORD && is_rcu_head(&evidence.types, o, c, t.offset) {
            Role::RcuHead
        } else {
            continue;
        };
        t.role = Some(role);
    }
}

/// What an allocator may clear: its own memory, never a variable.
fn is_allocated(o: &Object) -> bool {
    matches!(o.kind, ObjectKind::Slab | ObjectKind::Mapped)
}

fn innermost(c: &Code) -> Option<&str> {
    c.frames.first().map(|f| f.function.as_str())
}

/// The code handles callbacks, and the object has one there.
fn is_rcu_head(types: &TypeTable, o: &Object, c: &Code, offset: u64) -> bool {
    let handles = innermost(c).is_some_and(|f| RCU_CODE.contains(&f));
    handles && o.kind == ObjectKind::Slab && o.ty.is_some_and(|ty| has_callback(types, ty, offset, 0))
}

/// A `struct callback_head` (`rcu_head`) covers the byte, perhaps as one member of a union.
fn has_callback(types: &TypeTable, ty: TypeId, offset: u64, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let ty = types.strip(ty);
    match types.get(ty) {
        Type::Aggregate(a) if a.name.as_deref() == Some("callback_head") => {
            types.size(ty).is_some_and(|size| offset < size)
        }
        Type::Aggregate(a) => a.members.iter().filter(|m| m.bit_size.is_none()).any(|m| {
            let inside = offset.checked_sub(m.offset());
            let size = types.size(m.ty).unwrap_or(0);
            inside.is_some_and(|at| at < size && has_callback(types, m.ty, at, depth + 1))
        }),
        Type::Array { elem, .. } => match types.size(*elem) {
            Some(size @ 1..) => has_callback(types, *elem, offset % size, depth + 1),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::Frame;
    use tussle_evidence::sample::Sample;

    const OTHER: &str = "shrink_slab";

    /// A slab object `struct node { long a; struct callback_head rcu; long b; }` whose link lies at `a`.
    fn role(functions: &[&str], offset: u64, size: u32, free: Option<u64>, clears: bool) -> Option<Role> {
        let mut s = Sample::new(1000);
        let long = s.long();
        let head = s.structure("callback_head", 16, &[("next", long, 0), ("func", long, 8)]);
        let node = s.structure("node", 32, &[("a", long, 0), ("rcu", head, 8), ("b", long, 24)]);
        let object = s.heap(0x1000, 32, Some(node), 1, 32, None);
        let actor = s.thread("CPU 0", None);
        let code = s.code("", "mm/slub.c", 1, &[]);
        s.touch(object, offset, size, code, actor, TouchKind::Write);
        let e = s.tables();
        e.objects[0].kind = ObjectKind::Slab;
        let frame =
            |f: &&str| Frame { function: f.to_string(), file: "mm/slub.c".into(), line: 1, column: 1 };
        e.code[0].frames = functions.iter().map(frame).collect();
        name(e, &[free], &clears.then_some(0).into_iter().collect());
        e.touches[0].role
    }

    #[test]
    fn both_the_code_and_the_place_must_say_so() {
        let free = &["freelist_dereference", "get_freepointer", "___slab_alloc"];
        assert_eq!(role(free, 0, 8, Some(0), false), Some(Role::FreelistWord));
        assert_eq!(role(free, 24, 8, Some(0), false), None, "not where the cache keeps its link");
        assert_eq!(role(free, 0, 4, Some(0), false), None, "not a whole pointer");
        assert_eq!(role(free, 0, 8, None, false), None, "no slab, or the cache of all caches");
        assert_eq!(role(&[OTHER], 0, 8, Some(0), false), None, "other code at the same bytes");
        let call = &["__call_rcu_common"];
        assert_eq!(role(call, 16, 8, Some(0), false), Some(Role::RcuHead));
        assert_eq!(role(call, 24, 8, Some(0), false), None, "no callback there");
        assert_eq!(role(&["list_add", "call_rcu"], 16, 8, Some(0), false), None, "called from there only");
        assert_eq!(role(&["memset"], 24, 1, Some(0), true), Some(Role::ZeroedOnAllocation));
        assert_eq!(role(&["memset"], 24, 1, Some(0), false), None, "clears for somebody else");
    }

    #[test]
    fn one_other_caller_is_enough_to_say_nothing() {
        let mut s = Sample::new(1000);
        for f in ["memset", OTHER] {
            s.code(f, "", 1, &[]);
        }
        let code = &s.tables().code;
        let functions = |at: u64| match at {
            99 => vec!["slab_post_alloc_hook".to_string(), "kmem_cache_alloc".into()],
            _ => vec!["mm_init".to_string()],
        };
        let of = |row: u32, chains: &[(u64, u32)]| {
            let chains = chains.iter().map(|(back, n)| (vec![*back], *n)).collect();
            clearing(code, &Chains::from([(row, chains)]), &functions).into_iter().collect::<Vec<u32>>()
        };
        assert_eq!(of(0, &[(100, 3)]), [0]);
        assert_eq!(of(0, &[(100, 200), (200, 1)]), [0u32; 0]);
        assert_eq!(of(0, &[(100, 2)]), [0u32; 0], "too few samples");
        assert_eq!(of(1, &[(100, 3)]), [0u32; 0], "does not clear");
    }
}
