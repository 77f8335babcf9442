//! What a library made: structs whose fields no source of the program moves. A program chooses what it puts into a
//! library's generic struct, and may align that; it does not choose what the struct keeps beside it. Elements of a
//! container are the program's where its own code uses them, whoever allocated them.

use std::cell::OnceCell;
use std::collections::HashSet;

use tussle_contention::group::{FieldUse, Group};
use tussle_evidence::library::is_go_runtime_s;
use tussle_evidence::tables::is_of_library;
use tussle_evidence::{Evidence, Object, ObjectKind, Touch};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::types::Language;
use tussle_model::{Aggregate, AggregateKind, Type, TypeId, TypeTable};

use crate::class::UNDECIDED_SHARE_MIN;
use crate::relayout::member_at;

/// Of the stores that take a line from users of other bytes, this share at most is between what the program can part.
const OWN_SHARE_MAX: f64 = 0.5;

/// Types looked at inside of one.
const TYPES_MAX: usize = 256;

/// What fights is a library's: of what a layout removes the program's sources can have so little that it would not be
/// called a help.
pub(crate) fn is_a_library_s(e: &Evidence, group: &Group) -> bool {
    if group.fields.iter().any(|f| is_guessed(e, f)) {
        return false;
    }
    let sides: Vec<Side> = group.fields.iter().map(|f| Side::of(e, f)).collect();
    let (mut all, mut own) = (0.0, 0.0);
    for pair in group.pairs.iter().filter(|p| !p.same_bytes) {
        let (a, b) = (&sides[pair.stored], &sides[pair.lost]);
        all += pair.e;
        if a.own || b.own {
            own += if a.kept && b.kept { 0.0 } else { pair.across_e };
        }
        // Inside of one struct of a library's it is that which moves what the program does not use in place.
        let inside = a.moved && b.moved && are_of_one(a, b);
        if (a.own || b.own) && !inside && fields_part(&e.types, a, b) {
            own += pair.e - pair.across_e;
        }
    }
    let share = own / all;
    all > 0.0 && share <= OWN_SHARE_MAX && share * group.cost.removable_share() < UNDECIDED_SHARE_MIN
}

/// The type of its object is a guess: it says nothing of whose that is.
fn is_guessed(e: &Evidence, field: &FieldUse) -> bool {
    const SURE_MIN: f32 = 0.8;
    e.objects.get(field.object as usize).is_some_and(|o| o.ty.is_some() && o.confidence < SURE_MIN)
}

/// One of two fields that fight.
struct Side {
    /// The program allocates its object, or uses it in place.
    own: bool,
    /// It lies in one struct of a library's, and the program does not use it in place (a message, a link).
    moved: bool,
    /// It lies in an array that a library's struct keeps: its elements do not part.
    kept: bool,
    /// The variable that it lies in, by its object.
    variable: Option<u32>,
    ty: Option<TypeId>,
    offset: u64,
}

impl Side {
    fn of(e: &Evidence, field: &FieldUse) -> Side {
        let object = e.objects.get(field.object as usize);
        let ty = object.and_then(|o| o.ty);
        // Asks all touches: only where it decides.
        let known = OnceCell::new();
        let used = || *known.get_or_init(|| is_used_by_the_program(e, field));
        // Control bytes of a hash table: nothing says whose they are but who touches them.
        let left =
            |o: &Object| o.kind == ObjectKind::Heap && o.ty.is_none() && is_left_to_a_library(e, field);
        let theirs = |o: &Object| is_library_s(e, o) && !is_in_a_vector(e, o) || left(o);
        Side {
            own: object.is_none_or(|o| !theirs(o)) || used(),
            moved: object.is_some_and(|o| is_one_struct_of_library(e, o)) && !used(),
            kept: ty.is_some_and(|ty| is_kept(&e.types, ty, field.offset, &used)),
            variable: object.filter(|o| o.kind == ObjectKind::Global).map(|_| field.object),
            ty,
            offset: field.offset,
        }
    }
}

/// Code of the program's own touches these bytes at least as often as a library's does. What only passes on what its
/// caller wants (atomics, loops over what is given) counts as its caller's.
fn is_used_by_the_program(e: &Evidence, field: &FieldUse) -> bool {
    let (own, all) = touched(e, field);
    own > 0 && 2 * own >= all
}

/// Code was seen to touch these bytes, and none of it is the program's own.
fn is_left_to_a_library(e: &Evidence, field: &FieldUse) -> bool {
    let (own, all) = touched(e, field);
    all > 0 && own == 0
}

/// Samples of the program's own code on these bytes, and of all code.
fn touched(e: &Evidence, field: &FieldUse) -> (u64, u64) {
    let end = field.offset + field.size;
    let meets = |t: &&Touch| {
        t.object == field.object && t.offset < end && field.offset < t.offset + u64::from(t.size)
    };
    let (mut own, mut all) = (0, 0);
    for touch in e.touches.iter().filter(meets) {
        let Some(code) = e.code.get(touch.code as usize).filter(|c| !c.frames.is_empty()) else { continue };
        let user = code.frames.iter().find(|f| !passes_on(&f.file));
        all += touch.samples;
        own += if user.is_none_or(|f| !is_of_library(&f.file)) { touch.samples } else { 0 };
    }
    (own, all)
}

fn passes_on(file: &str) -> bool {
    const HEADERS: [&str; 5] = ["atomic", "stl_algo", "stl_numeric", "ranges_algo", "stdatomic"];
    const RUST: [&str; 6] = ["sync/atomic.rs", "cell.rs", "/slice/", "/iter/", "/mem/", "/ptr/"];
    let (in_rust, name) = (file.contains("library/core/src/"), file.rsplit('/').next().unwrap_or(file));
    match in_rust {
        true => RUST.iter().any(|p| file.contains(p)) || file.contains("/intrinsics/"),
        false => is_of_library(file) && HEADERS.iter().any(|h| name.starts_with(h)),
    }
}

/// The two lie in one object, or in two that are alike as a group has them: not in two variables.
fn are_of_one(a: &Side, b: &Side) -> bool {
    a.variable == b.variable && a.ty == b.ty
}

/// Fields of one type are those of one object: a group holds several that are alike, and names the first one seen.
fn fields_part(types: &TypeTable, a: &Side, b: &Side) -> bool {
    match (a.ty, b.ty) {
        (Some(ty), Some(other)) if ty == other => parts(types, ty, a.offset, b.offset),
        _ => true,
    }
}

/// The byte lies in an array that a library's struct has as a member, of elements that the program did not write down
/// (`std::array<std::atomic<long>, 8>`) and has no type in that it uses there.
fn is_kept(table: &TypeTable, ty: TypeId, mut at: u64, used: &dyn Fn() -> bool) -> bool {
    let mut id = table.strip(ty);
    let mut written: Option<&str> = None;
    for _ in 0..DEPTH_MAX {
        match table.get(id) {
            // The bytes of a `sem_t` are no elements either: a union says how large it is.
            Type::Aggregate(body) if is_room(body) || body.kind == AggregateKind::Union => return false,
            Type::Array { elem, .. } => {
                let Some(size) = table.size(*elem).filter(|s| *s > 0) else { return false };
                if let Some(written) = written {
                    let name = table.name(*elem);
                    return !(has_own(table, *elem) && used())
                        && !written.contains(name.trim_start_matches("struct "));
                }
                (at, id) = (at % size, table.strip(*elem));
            }
            Type::Aggregate(body) => {
                let name = body.name.as_deref().unwrap_or_default();
                written = if is_own(body) { None } else { written.or(Some(name)) };
                let size = table.size(id).filter(|s| *s > 0).unwrap_or(u64::MAX);
                at %= size;
                let Some(member) = member_at(table, body, at).map(|m| &body.members[m]) else { return false };
                (at, id) = (at - member.offset().min(at), table.strip(member.ty));
            }
            _ => return false,
        }
    }
    false
}

/// Code of a library allocated it, std for itself for instance, or it is a variable of Go's runtime.
fn is_library_s(e: &Evidence, o: &Object) -> bool {
    if o.kind == ObjectKind::Global && o.name.as_deref().is_some_and(is_go_runtime_s) {
        return true;
    }
    let asks = o.alloc_code.and_then(|c| e.code.get(c as usize)).and_then(|c| c.frames.first());
    let of_std = o.allocator.as_deref().is_some_and(|a| ["std::", "<std::"].iter().any(|s| a.starts_with(s)));
    of_std || asks.is_some_and(|f| is_of_library(&f.file))
}

/// It is elements of a container of C++'s library that keeps nothing beside them, whatever their type is: the program
/// said which.
fn is_in_a_vector(e: &Evidence, o: &Object) -> bool {
    const FILES: [&str; 5] = ["stl_vector.h", "vector.tcc", "stl_deque.h", "deque.tcc", "unique_ptr.h"];
    let Some(code) = o.alloc_code.and_then(|c| e.code.get(c as usize)) else { return false };
    let callers = code.chain.iter().filter_map(|c| e.code.get(*c as usize));
    let frames = code.frames.iter().chain(callers.flat_map(|c| &c.frames));
    let mut through = frames.take_while(|f| is_of_library(&f.file));
    o.count > 1 && through.any(|f| FILES.iter().any(|name| f.file.ends_with(name)))
}

fn is_one_struct_of_library(e: &Evidence, o: &Object) -> bool {
    let body = o.ty.and_then(|ty| e.types.aggregate(e.types.strip(ty)));
    o.count <= 1 && body.is_some_and(|a| !is_own(a))
}

fn has_own(table: &TypeTable, ty: TypeId) -> bool {
    first_own(table, ty).is_some()
}

/// The program's type in a library's struct, or in the elements of an array of such.
pub(crate) fn own_in_library_s(table: &TypeTable, ty: TypeId) -> Option<TypeId> {
    let id = table.element(ty);
    let Type::Aggregate(a) = table.get(id) else { return None };
    if is_own(a) { None } else { first_own(table, id) }
}

/// The first type of the program's in a type, itself included.
fn first_own(table: &TypeTable, ty: TypeId) -> Option<TypeId> {
    let (mut todo, mut seen) = (vec![table.strip(ty)], HashSet::new());
    while let Some(id) = todo.pop().filter(|_| seen.len() < TYPES_MAX) {
        if !seen.insert(id) {
            continue;
        }
        match table.get(id) {
            Type::Array { elem, .. } => todo.push(table.strip(*elem)),
            Type::Aggregate(a) if is_own(a) && !is_the_compiler_s(a) => return Some(id),
            Type::Aggregate(a) => todo.extend(a.members.iter().rev().map(|m| table.strip(m.ty))),
            _ => {}
        }
    }
    None
}

/// Declared in the program's own sources, as far as is known.
pub(crate) fn is_own(a: &Aggregate) -> bool {
    match &a.decl {
        Some(d) => !is_of_library(&d.file),
        None => !a.name.as_deref().is_some_and(|n| is_go_runtime_s(n) || is_rust_s(a.language, n)),
    }
}

/// A type of Rust's own libraries: the compiler does not say where types are declared.
fn is_rust_s(language: Language, name: &str) -> bool {
    language == Language::Rust
        && ["std::", "core::", "alloc::", "hashbrown::"].iter().any(|c| name.starts_with(c))
}

/// The bytes in which C++ keeps what is made there later.
fn is_room(a: &Aggregate) -> bool {
    a.name.as_deref().is_some_and(|n| n.starts_with("__gnu_cxx::__aligned_"))
}

/// Tuples and wide pointers of Rust's, which nobody declares.
fn is_the_compiler_s(a: &Aggregate) -> bool {
    let name = a.name.as_deref().unwrap_or_default();
    a.decl.is_none() && ["(", "*", "&", "alloc::boxed::Box<"].iter().any(|n| name.starts_with(n))
}

/// Whether the sources of a program can part these two bytes of a type: elements of an array, members of a struct of
/// its own, or a library's struct and what the program put into it.
fn parts(table: &TypeTable, ty: TypeId, a: u64, b: u64) -> bool {
    let (mut id, mut at) = (table.strip(ty), [a, b]);
    // The library's struct that the program wrote down: its name has all that the program gave.
    let mut written: Option<&str> = None;
    for depth in 0..DEPTH_MAX {
        match table.get(id) {
            Type::Aggregate(body) if is_room(body) => return true,
            Type::Array { elem, .. } => {
                let Some(size) = table.size(*elem).filter(|s| *s > 0) else { return true };
                if at[0] / size != at[1] / size {
                    return !is_kept(table, ty, a, &|| true);
                }
                at = at.map(|at| at % size);
                id = table.strip(*elem);
            }
            Type::Aggregate(body) => {
                if depth == 0 {
                    // An object may be several of these.
                    let size = table.size(id).filter(|s| *s > 0).unwrap_or(u64::MAX);
                    at = at.map(|at| at % size);
                }
                let name = body.name.as_deref().unwrap_or_default();
                written = if is_own(body) { None } else { written.or(Some(name)) };
                let [m, n] = at.map(|at| member_at(table, body, at));
                let Some(member) = m.filter(|_| m == n).map(|m| &body.members[m]) else {
                    let whole = written.unwrap_or(name);
                    return is_own(body) || at.iter().any(|at| is_put_in(table, (body, whole), *at));
                };
                at = at.map(|at| at - member.offset().min(at));
                id = table.strip(member.ty);
            }
            // One word of several.
            _ => return true,
        }
    }
    true
}

/// What lies at a byte of a library's struct is the program's: its type, or what it gave as a parameter. A parameter
/// that does not stand in what the program wrote is the library's own.
fn is_put_in(table: &TypeTable, (holder, written): (&Aggregate, &str), at: u64) -> bool {
    let mut given = arguments(holder.name.as_deref().unwrap_or_default());
    given.retain(|g| written.contains(g));
    let (mut body, mut at) = (holder, at);
    for depth in 0..DEPTH_MAX {
        let Some(member) = member_at(table, body, at).map(|m| &body.members[m]) else { return false };
        at -= member.offset().min(at);
        let mut id = table.strip(member.ty);
        while let Type::Array { elem, .. } = table.get(id) {
            at %= table.size(*elem).unwrap_or(1).max(1);
            id = table.strip(*elem);
        }
        match table.get(id) {
            Type::Aggregate(inner) => {
                let name = inner.name.as_deref().unwrap_or_default();
                if (is_own(inner) && !is_the_compiler_s(inner)) || is_room(inner) || given.contains(&name) {
                    return true;
                }
                body = inner;
            }
            // A length of Rust's may be of the same type as the elements.
            Type::Base(base) => {
                return depth == 0 && holder.language == Language::Cpp && given.contains(&&*base.name);
            }
            _ => return false,
        }
    }
    false
}

/// The parameters that are given in a type's name.
fn arguments(name: &str) -> Vec<&str> {
    let Some((_, inside)) = name.strip_suffix('>').and_then(|n| n.split_once('<')) else { return Vec::new() };
    let (mut depth, mut from, mut out) = (0i32, 0, Vec::new());
    for (i, c) in inside.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(inside[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(inside[from..].trim());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::Member;
    use tussle_model::types::{Base, Encoding, SourceLoc};

    const STD: &str = "/rustc/5980/library/std/src/sync.rs";

    struct Types(TypeTable);

    impl Types {
        fn word(&mut self, name: &str) -> TypeId {
            self.0.push(Type::Base(Base { name: name.into(), size: 8, encoding: Encoding::Unsigned }))
        }

        /// A struct of members of 8 bytes or more, one behind the other.
        fn of(&mut self, file: &str, name: &str, members: &[TypeId]) -> TypeId {
            let mut at = 0;
            let mut place = |ty: &TypeId| {
                let m = Member::field(Some("m"), *ty, at);
                at += self.0.size(*ty).unwrap_or(0);
                m
            };
            let members: Vec<Member> = members.iter().map(&mut place).collect();
            let mut body = Aggregate::new(AggregateKind::Struct, Some(name), at, members);
            body.decl = Some(SourceLoc { file: file.into(), line: 1 });
            body.language = if file.ends_with(".rs") { Language::Rust } else { Language::Cpp };
            self.0.push(Type::Aggregate(body))
        }
    }

    #[test]
    fn the_program_parts_what_it_put_into_a_library_s_struct() {
        let mut t = Types(TypeTable::new(8));
        let word = t.word("usize");
        let atomic = t.of(STD, "core::sync::atomic::AtomicUsize", &[word]);
        let stats = t.of("src/main.rs", "om::Stats", &[atomic, atomic]);
        let vec = t.of(STD, "alloc::vec::Vec<usize>", &[word, word, word]);
        let cell = t.of(STD, "core::cell::UnsafeCell<alloc::vec::Vec<usize>>", &[vec]);
        let lock = t.of(STD, "std::sync::RwLock<alloc::vec::Vec<usize>>", &[atomic, word, cell]);
        let arc = t.of(STD, "alloc::sync::ArcInner<om::Stats>", &[atomic, atomic, stats]);
        let number =
            t.of(STD, "alloc::sync::ArcInner<core::sync::atomic::AtomicUsize>", &[word, word, atomic]);
        let pair = t.of("/usr/include/c++/12/bits/stl_pair.h", "std::pair<usize, long>", &[word, word]);
        let array = t.0.push(Type::Array { elem: vec, counts: vec![Some(4)] });
        let waker = t.of(STD, "std::sync::mpmc::waker::Waker", &[word]);
        let lock_of = t.of(STD, "std::sync::Mutex<std::sync::mpmc::waker::Waker>", &[atomic, waker]);
        let chan = t.of(STD, "std::sync::mpmc::Channel<om::Stats>", &[lock_of, word]);
        let slot = t.of(STD, "std::sync::mpmc::list::Slot<usize>", &[word, atomic]);
        let slots = t.0.push(Type::Array { elem: slot, counts: vec![Some(2)] });
        let block = t.of(STD, "std::sync::mpmc::list::Block<usize>", &[word, slots]);
        let counts = t.0.push(Type::Array { elem: atomic, counts: vec![Some(4)] });
        let shared =
            t.of(STD, "alloc::sync::ArcInner<[core::sync::atomic::AtomicUsize; 4]>", &[word, word, counts]);
        let plain = t.0.push(Type::Array { elem: word, counts: vec![Some(4)] });
        let numbers = t.of(STD, "alloc::sync::ArcInner<[usize; 4]>", &[word, word, plain]);
        let own = t.of(STD, "std::sync::mpmc::list::Slot<om::Stats>", &[stats]);
        let slots = t.0.push(Type::Array { elem: own, counts: vec![Some(2)] });
        let blocks = t.of(STD, "std::sync::mpmc::list::Block<om::Stats>", &[word, slots]);
        let mut room =
            Aggregate::new(AggregateKind::Union, None, 32, vec![Member::field(Some("size"), plain, 0)]);
        room.decl = Some(SourceLoc { file: "/usr/include/bits/semaphore.h".into(), line: 1 });
        let semaphore = t.0.push(Type::Aggregate(room));
        let semaphores = t.0.push(Type::Array { elem: semaphore, counts: vec![Some(2)] });
        for (ty, a, b, want) in [
            (semaphores, 0, 32, true),
            (stats, 0, 8, true),
            (vec, 0, 16, false),
            (lock, 0, 8, false),
            (lock, 0, 24, true),
            (lock, 24, 32, false),
            (arc, 0, 8, false),
            (arc, 0, 16, true),
            (arc, 16, 24, true),
            (number, 8, 16, true),
            (pair, 0, 8, true),
            (array, 0, 8, false),
            (array, 16, 24, true),
            (chan, 0, 8, false),
            (chan, 8, 16, false),
            (block, 8, 32, false),
            (block, 8, 24, false),
            (blocks, 8, 32, true),
            (shared, 16, 24, true),
            (numbers, 16, 24, true),
        ] {
            assert_eq!(parts(&t.0, ty, a, b), want, "{:?} {a} {b}", t.0.get(ty));
        }
    }

    #[test]
    fn parameters_are_told_from_their_own() {
        assert_eq!(arguments("a::Map<(u64, b::C<d, e>), [f; 2]>"), ["(u64, b::C<d, e>)", "[f; 2]"]);
        assert_eq!(arguments("a::Flag"), [""; 0]);
    }

    #[test]
    fn elements_of_a_library_s_are_parted_by_what_lies_in_them() {
        let mut t = Types(TypeTable::new(8));
        let word = t.word("usize");
        let slot = t.of("src/main.rs", "om::Slot", &[word]);
        let cell = t.of(STD, "core::cell::UnsafeCell<om::Slot>", &[slot]);
        let lock = t.of(STD, "std::sync::Mutex<om::Slot>", &[word, cell]);
        let array = t.0.push(Type::Array { elem: lock, counts: vec![Some(4)] });
        let own = t.of("src/main.rs", "om::Shard", &[lock]);
        let plain = t.of(STD, "std::sync::Mutex<usize>", &[word, word]);
        let found = [lock, array, own, plain].map(|ty| own_in_library_s(&t.0, ty));
        assert_eq!(found, [Some(slot), Some(slot), None, None]);
    }
}
