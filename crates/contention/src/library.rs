//! What the C library and Go's runtime keep for themselves: arenas of `malloc`, lists of threads, the scheduler's. A
//! recorder inside of programs does not see it, an emulator does. Users of them cannot change its layout.

use crate::group::Group;
use crate::lines::Range;
use std::collections::{HashMap, HashSet};
use tussle_evidence::library::is_go_runtime_s;
use tussle_evidence::*;

/// The allocator of glibc in a program that is linked with it: functions, and how parts of them begin.
const FUNCTIONS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "sysmalloc",
    "systrim",
    "unlink_chunk",
    "alloc_new_heap",
    "new_heap",
    "heap_trim",
    "detach_arena",
    "reused_arena",
    "get_free_list",
    "malloc_consolidate",
    "munmap_chunk",
];
const PARTS: &[&str] = &[
    "ptmalloc_",
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "_int_memalign",
    "_mid_memalign",
    "__libc_",
    "__malloc_",
    "tcache_",
    "arena_get",
    "__lll_lock",
];
/// Instructions that the compiler keeps as functions of their own, in the program or in a library, and what Go's
/// runtime does to memory as it is told: who calls them matters.
const OUTLINED: [&str; 6] = [
    "__aarch64_",
    "runtime.memmove",
    "runtime.memclr",
    "runtime.memequal",
    "runtime.typedmemmove",
    "runtime.duff",
];
const GO_ALLOCATOR: &str = "runtime.mallocgc";
/// Lines that others touch, too, with less than this share of a group's cost change nothing: a block of the program
/// that ends where the next one's header begins.
const OTHERS_SHARE_MAX: f64 = 0.2;

/// Who touches bytes of the library's once in so many times does not make them the program's.
const OTHERS_TOUCH_ONE_IN: u64 = 10;

/// What is fought over is the library's: memory that it mapped or its own variables, and nobody else touches it.
/// Thread-local variables of the program lie in memory that the library mapped, too, but the program's code touches
/// them.
pub fn is_the_library_s(e: &Evidence, group: &Group) -> bool {
    let ranges: Vec<&Range> = group.lines.iter().flat_map(|l| l.parts.iter().map(|p| &p.range)).collect();
    let may_be = |r: &&Range| e.objects.get(r.object as usize).is_some_and(|o| may_be_its_own(e, o));
    if !ranges.iter().any(may_be) {
        return false;
    }
    let own = touched_by_it_alone(e, &ranges);
    let is_own = |r: &Range| may_be(&r) && own.contains(r);
    let (mut all, mut others) = (0.0, 0.0);
    for line in &group.lines {
        all += line.cost.total();
        others += if line.parts.iter().all(|p| is_own(&p.range)) { 0.0 } else { line.cost.total() };
    }
    all > 0.0 && others <= OTHERS_SHARE_MAX * all
}

fn may_be_its_own(e: &Evidence, o: &Object) -> bool {
    let by_code = || o.alloc_code.is_some_and(|c| is_its_code(e, c));
    match o.kind {
        ObjectKind::Mapped => by_code(),
        ObjectKind::Global => {
            let in_it =
                |m: &Module| m.process == o.process && (m.start..m.end).contains(&o.base) && m.is_c_library();
            // Of a library that the program is linked with nobody knows the types.
            e.modules.iter().any(in_it) || o.ty.is_none()
        }
        ObjectKind::Unknown => true,
        // What the thread library keeps of a thread lies above its stack.
        ObjectKind::Tls | ObjectKind::Stack => o.ty.is_none(),
        // A channel, whose type is not known.
        ObjectKind::Heap => o.ty.is_none() && o.allocator.as_deref() == Some(GO_ALLOCATOR),
        _ => false,
    }
}

/// Those of the ranges that the library's code touches alone, but for what others (the loader, a constructor) do there
/// once. Not every place in code is kept: where none is, another one of the same object says whose it is.
fn touched_by_it_alone(e: &Evidence, ranges: &[&Range]) -> HashSet<Range> {
    let mut by_object: HashMap<u32, Vec<&Range>> = HashMap::new();
    ranges.iter().for_each(|r| by_object.entry(r.object).or_default().push(r));
    // Samples of all code, and of others'.
    let mut samples: HashMap<Range, (u64, u64)> = HashMap::new();
    let mut objects = HashSet::new();
    for t in &e.touches {
        let end = t.offset + u64::from(t.size);
        let meets = |r: &&&Range| t.offset < r.offset + u64::from(r.size) && r.offset < end;
        let mut met = by_object.get(&t.object).into_iter().flatten().filter(meets).peekable();
        if met.peek().is_some() {
            let is_its = is_its_code(e, t.code);
            objects.extend(is_its.then_some(t.object));
            for range in met {
                let sum = samples.entry(**range).or_default();
                (sum.0, sum.1) = (sum.0 + t.samples, sum.1 + if is_its { 0 } else { t.samples });
            }
        }
    }
    let is_own = |r: &&&Range| match samples.get(**r) {
        Some((all, others)) => others * OTHERS_TOUCH_ONE_IN <= *all,
        None => objects.contains(&r.object),
    };
    ranges.iter().filter(is_own).map(|r| **r).collect()
}

fn is_its_code(e: &Evidence, code: u32) -> bool {
    let Some(code) = e.code.get(code as usize) else { return false };
    let outlined = code.frames.first().is_some_and(|f| OUTLINED.iter().any(|o| f.function.starts_with(o)));
    let code = match code.chain.first().and_then(|c| e.code.get(*c as usize)) {
        Some(caller) if outlined => caller,
        _ => code,
    };
    // The library is linked without its debug information: its functions have no lines.
    let in_program = |f: &Frame| {
        // `.part.0`: cut off by the compiler.
        let name = f.function.split('.').next().unwrap_or_default();
        f.line == 0 && (FUNCTIONS.contains(&name) || PARTS.iter().any(|p| name.starts_with(p)))
    };
    let go = |f: &Frame| is_go_runtime_s(&f.function);
    e.is_c_library_s(code) || code.frames.first().is_some_and(|f| in_program(f) || go(f))
}
