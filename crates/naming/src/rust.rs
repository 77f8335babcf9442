//! What is Rust's own: frames of its library, element types of its containers, closures of its threads.
//!
//! Rust's containers say what they hold in the template parameters of their functions. Its sources are not read for
//! expressions: what stands there follows other rules than C's.

mod blocks;

use std::collections::HashMap;

use tussle_evidence::{ActorKind, Basis, Code, Evidence, Frame, ObjectKind};
use tussle_model::TypeId;

use crate::alloc::{Candidate, Fit, fit};
use crate::image::{ImageId, Images};
use crate::nest;
use crate::operators::with_callers;
use crate::site::Site;

pub(crate) use blocks::part;

/// Frames of an allocation that are looked at: one call of a container is a dozen inlined ones.
const FRAMES_MAX: usize = 64;

/// Parts of the paths of its sources.
const LIBRARY: [&str; 3] = ["/library/core/src/", "/library/alloc/src/", "/library/std/src/"];

/// A source of Rust.
pub(crate) fn is_rust(file: &str) -> bool {
    file.ends_with(".rs")
}

/// A source of Rust's own library.
fn is_library(frame: &Frame) -> bool {
    let f = &frame.file;
    let own = f.starts_with("/rustc/") || f.contains("/rustlib/src/rust/");
    (own && LIBRARY.iter().any(|l| f.contains(l))) || is_hashbrown(f)
}

/// The hash map behind std's, whether std's copy or the program's.
fn is_hashbrown(file: &str) -> bool {
    file.contains("/hashbrown-")
}

/// Code of the program: not of Rust's library, and not libc's, which begins every stack.
fn is_users(frame: &Frame) -> bool {
    let libc =
        frame.function.starts_with("__libc_start") || matches!(&*frame.function, "start_thread" | "clone3");
    frame.line > 0 && !is_library(frame) && !libc
}

/// A function of the program's own global allocator, or what calls it: who wanted the memory is behind these.
fn is_allocator(frame: &Frame) -> bool {
    let f = &frame.function;
    f.contains(" as core::alloc::global::GlobalAlloc>::") || ASKS.iter().any(|a| f.ends_with(a))
}

/// What the compiler puts between the library and the program's allocator.
const ASKS: [&str; 4] = ["__rust_alloc", "__rust_alloc_zeroed", "__rust_realloc", "__rg_alloc"];

/// The frames of an allocation without those of a global allocator of the program's own.
pub(crate) fn past_allocator(frames: &[Site]) -> &[Site] {
    let last = frames.iter().take(FRAMES_MAX).rposition(|f| is_allocator(&f.frame));
    last.map_or(frames, |n| &frames[n + 1..])
}

/// The allocation is the library's.
pub(crate) fn allocates(frames: &[Site]) -> bool {
    frames.first().is_some_and(|f| is_library(&f.frame))
}

/// The type parameter of the innermost container whose size divides the allocation (`ArcInner<T>` for an `Arc<T>`, `T`
/// for a `Vec<T>` or a `Box<[T]>`), up to the first frame that is not the library's.
pub(crate) fn candidates(images: &Images, frames: &[Site], bytes: u64) -> Vec<Candidate> {
    // Beside its elements such a block has counts or control bytes: `blocks::part` parts them.
    if blocks::shape(frames).is_some() {
        return Vec::new();
    }
    let fits = |(image, ty): &(ImageId, TypeId)| {
        let table = &images.get(*image).types;
        matches!(fit(table, *ty, bytes), Fit::Elements(_)) && nest::structured(table, *ty)
    };
    let why = "element type of the container that allocates".to_string();
    let found = elements(images, frames).find(fits);
    let candidate =
        |(image, ty)| Candidate { image, ty, prior: 0.9, basis: Basis::Allocation, why, leads: false };
    found.map(candidate).into_iter().collect()
}

/// The type parameters `T` of the library's functions, the innermost first, up to the first frame that is not the
/// library's, or wants memory for itself.
fn elements<'a>(images: &'a Images, frames: &'a [Site]) -> impl Iterator<Item = (ImageId, TypeId)> + 'a {
    let end = frames.iter().position(|f| !is_library(&f.frame)).map_or(frames.len(), |n| n + 1);
    let near = frames.iter().take(end.min(FRAMES_MAX)).take_while(|f| !is_for_itself(f));
    near.flat_map(move |site| {
        let types = site.scope.templates.iter().filter(|(name, _)| name == "T");
        let image = images.get(site.image);
        types.filter_map(move |(_, die)| Some((site.image, image.ty(*die)?)))
    })
}

/// A function of std that knows what it allocates: no parameter of its callers is its element's type. What alloc and
/// core do is on behalf of others, and so is std's default allocator.
fn is_for_itself(site: &Site) -> bool {
    is_std_s(&site.frame) && site.scope.templates.is_empty()
}

/// A function of std, but for its default allocator.
fn is_std_s(frame: &Frame) -> bool {
    is_library(frame) && frame.file.contains(LIBRARY[2]) && !frame.file.contains("/alloc")
}

/// When everything else is named: threads get their closures, code the user's lines, allocations the user's calls.
pub(crate) fn settle(evidence: &mut Evidence) {
    if !evidence.code.iter().any(|c| c.frames.iter().any(is_library)) {
        return;
    }
    threads(evidence);
    makers(evidence);
    for row in &mut evidence.code {
        let first = row.frames.iter().position(is_users);
        if let Some(n) = first.filter(|_| row.frames.first().is_some_and(is_library)) {
            row.frames.drain(..n);
        }
    }
    allocations(evidence);
}

/// A thread whose start routine is the library's gets the outermost function of the program that ran in it: the
/// closure that was spawned.
fn threads(e: &mut Evidence) {
    let mut closures: HashMap<u32, Frame> = HashMap::new();
    for t in &e.touches {
        let Some(actor) = t.actor.filter(|a| starts_in_library(e, *a)) else { continue };
        if closures.contains_key(&actor) {
            continue;
        }
        let Some(row) = e.code.get(t.code as usize) else { continue };
        let callers = row.chain.iter().rev().filter_map(|c| e.code.get(*c as usize));
        let own = callers.chain([row]).filter(|c| !e.is_c_library_s(c));
        let outwards_in = own.flat_map(|c| c.frames.iter().rev());
        // Beyond the library's own frames at the bottom of the stack.
        let mut inside = outwards_in.skip_while(|f| !is_library(f));
        if let Some(frame) = inside.find(|f| is_users(f)) {
            closures.insert(actor, frame.clone());
        }
    }
    let mut rows: HashMap<(Option<u32>, String), u32> = HashMap::new();
    let mut closures: Vec<(u32, Frame)> = closures.into_iter().collect();
    closures.sort_unstable_by_key(|c| c.0);
    for (actor, frame) in closures {
        let process = e.actors[actor as usize].process;
        let next = e.code.len() as u32;
        let row = *rows.entry((process, frame.function.clone())).or_insert(next);
        if row == next {
            let start = e.actors[actor as usize].start.and_then(|s| e.code.get(s as usize));
            let Some(start) = start else { continue };
            let code = Code { frames: vec![frame], chain: Vec::new(), ..start.clone() };
            e.code.push(code);
        }
        e.actors[actor as usize].start = Some(row);
    }
}

fn starts_in_library(e: &Evidence, actor: u32) -> bool {
    let Some(a) = e.actors.get(actor as usize).filter(|a| a.kind == ActorKind::Thread) else { return false };
    let frame = a.start.and_then(|s| e.code.get(s as usize)).and_then(|c| c.frames.first());
    frame.is_some_and(|f| is_library(f) || f.function.contains("std::sys"))
}

/// What std allocates for itself names the function that does, instead of `malloc`.
fn makers(e: &mut Evidence) {
    let mut known: HashMap<u32, Option<String>> = HashMap::new();
    for i in 0..e.objects.len() {
        let o = &e.objects[i];
        let Some(code) = o.alloc_code.filter(|_| o.kind == ObjectKind::Heap && o.ty.is_none()) else {
            continue;
        };
        let maker = known.entry(code).or_insert_with(|| maker(e, code)).clone();
        if maker.is_some() {
            e.objects[i].allocator = maker;
        }
    }
}

fn maker(e: &Evidence, code: u32) -> Option<String> {
    let row = e.code.get(code as usize)?;
    let callers = row.chain.iter().filter_map(|c| e.code.get(*c as usize)).flat_map(|c| &c.frames);
    let frames = row.frames.iter().chain(callers).take(FRAMES_MAX);
    // Neither `<std::thread::Inner<T>>::new` nor `spawn::<F, T>`.
    let is_generic = |name: &str| name.contains("::<") || name.matches('<').count() > 1;
    let own = |f: &&Frame| is_std_s(f) && !is_generic(&f.function);
    frames.take_while(|f| !is_users(f)).find(own).map(|f| f.function.clone())
}

/// Allocations by the library are put down to its caller.
fn allocations(e: &mut Evidence) {
    let mut moved: HashMap<u32, Option<u32>> = HashMap::new();
    for i in 0..e.objects.len() {
        let o = &e.objects[i];
        let Some(code) = o.alloc_code.filter(|_| o.kind == ObjectKind::Heap) else { continue };
        let known = moved.get(&code).copied();
        let found = known.unwrap_or_else(|| user_of(e, code));
        moved.insert(code, found);
        if found.is_some() {
            e.objects[i].alloc_code = found;
        }
    }
}

/// The nearest code with a function of the program that asks for memory: the code's own outer frames, or a caller's;
/// `None` if its first one is that.
fn user_of(e: &mut Evidence, code: u32) -> Option<u32> {
    let asks = |f: &Frame| is_users(f) && !is_allocator(f);
    let row = e.code.get(code as usize)?;
    if !row.frames.first().is_some_and(|f| is_library(f) || is_allocator(f)) {
        return None;
    }
    let user = |c: &u32| e.code.get(*c as usize).is_some_and(|c| c.frames.iter().any(asks));
    let site = match row.frames.iter().any(asks) {
        true => code,
        false => {
            let at = row.chain.iter().position(user)?;
            let (caller, rest) = (row.chain[at], row.chain[at + 1..].to_vec());
            with_callers(e, caller, rest)?
        }
    };
    let row = e.code.get(site as usize)?;
    if !row.frames.iter().any(is_allocator) {
        return (site != code).then_some(site);
    }
    let frames = row.frames.iter().skip_while(|f| !asks(f)).cloned().collect();
    let row = Code { frames, ..row.clone() };
    e.code.push(row);
    Some(e.code.len() as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::{Object, Run, Sees, Source};

    const ATOMIC: &str = "/rustc/abc/library/core/src/sync/atomic.rs";

    fn frame(function: &str, file: &str) -> Frame {
        Frame { function: function.into(), file: file.into(), line: 9, column: 1 }
    }

    fn code(address: u64, frames: &[(&str, &str)], chain: &[u32]) -> Code {
        let frames = frames.iter().map(|(f, file)| frame(f, file)).collect();
        Code { process: 0, module: None, address, frames, chain: chain.to_vec() }
    }

    #[test]
    fn behind_a_global_allocator_of_the_program_stands_who_asked() {
        const ALLOC: &str = "<app::Counting as core::alloc::global::GlobalAlloc>::alloc";
        let inner = [("alloc", "/rustc/abc/library/std/src/sys/alloc/unix.rs"), (ALLOC, "src/main.rs")];
        let new = ("new", "/rustc/abc/library/alloc/src/sync.rs");
        let user = ("app::main", "src/main.rs");
        let at = |codes: Vec<Code>| {
            let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
            e.code = codes;
            let mut o = Object::unnamed(0, ObjectKind::Heap, 4096, 64);
            o.alloc_code = Some(0);
            e.objects.push(o);
            settle(&mut e);
            e.code[e.objects[0].alloc_code.unwrap() as usize].frames[0].function.clone()
        };
        let apart =
            vec![code(1, &inner, &[1, 2]), code(2, &[("__rust_alloc", "")], &[]), code(3, &[new, user], &[])];
        assert_eq!(at(apart), "app::main");
        assert_eq!(at(vec![code(1, &[inner[0], inner[1], new, user], &[])]), "app::main");
        let half = vec![code(1, &[inner[1]], &[1]), code(2, &[("__rg_alloc", ""), new, user], &[])];
        assert_eq!(at(half), "app::main");
        // Nobody is known that asked.
        assert_eq!(at(vec![code(1, &[inner[1]], &[])]), ALLOC);
    }

    #[test]
    fn the_users_line_is_shown_and_the_users_call_allocates() {
        let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
        e.code = vec![
            code(1, &[("fetch_add", ATOMIC), ("app::work", "src/main.rs")], &[]),
            code(2, &[("alloc", "/rustc/abc/library/alloc/src/alloc.rs")], &[3, 2]),
            code(3, &[("app::main", "src/main.rs")], &[]),
            code(4, &[("from_iter", "/rustc/abc/library/alloc/src/vec/mod.rs")], &[]),
        ];
        let mut o = Object::unnamed(0, ObjectKind::Heap, 4096, 64);
        o.alloc_code = Some(1);
        e.objects.push(o);
        settle(&mut e);
        assert_eq!(e.code[0].frames.len(), 1);
        assert_eq!(e.code[0].frames[0].function, "app::work");
        let at = e.objects[0].alloc_code.unwrap() as usize;
        assert_eq!(e.code[at].frames[0].function, "app::main");
    }

    #[test]
    fn what_std_allocates_for_itself_names_who_does() {
        const CONTEXT: (&str, &str) =
            ("<std::sync::mpmc::context::Context>::new", "/rustc/1/library/std/src/sync/mpmc/context.rs");
        const SPAWN: (&str, &str) = ("std::thread::spawn::<F, T>", "/rustc/1/library/std/src/thread/mod.rs");
        const SYSTEM: (&str, &str) = ("__rdl_alloc", "/rustc/1/library/std/src/alloc.rs");
        const MAIN: (&str, &str) = ("om::main", "src/main.rs");
        for (chain, want) in [
            (vec![SYSTEM, CONTEXT, MAIN], Some(CONTEXT.0)),
            (vec![SYSTEM, SPAWN, MAIN], None),
            (vec![SYSTEM, MAIN, CONTEXT], None),
        ] {
            let mut e = Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES));
            e.code = vec![code(1, &chain, &[])];
            assert_eq!(maker(&e, 0).as_deref(), want, "{chain:?}");
        }
    }

    #[test]
    fn the_library_is_known_by_its_paths() {
        let library = |file: &str| is_library(&frame("f", file));
        assert!(library(ATOMIC));
        assert!(library("/home/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/std/src/thread/mod.rs"));
        assert!(!library("/home/u/app/library/core/src/lib.rs"));
        assert!(!library("src/main.rs"));
    }
}
