//! Words for threads, code and memory.

use std::collections::BTreeMap;
use tussle_evidence::*;

/// Kinds of threads that are told one by one.
const KINDS_MAX: usize = 12;

/// `4 × worker()`, `worker() T7`, `main thread`, `CPU 3`: actors by what they run, most first. `T7` is the actor's id.
pub fn threads(e: &Evidence, actors: &[u32]) -> String {
    let mut kinds: BTreeMap<String, (u32, usize)> = BTreeMap::new();
    for (i, &a) in actors.iter().enumerate() {
        kinds.entry(thread(e, a)).or_insert((0, i)).0 += 1;
    }
    let mut list: Vec<(String, (u32, usize))> = kinds.into_iter().collect();
    list.sort_unstable_by_key(|(_, (n, first))| (std::cmp::Reverse(*n), *first));
    let text = |(label, (n, first)): (String, (u32, usize))| match n {
        1 if label.ends_with(')') || label.starts_with("lambda ") => format!("{label} T{}", actors[first]),
        // Names of running threads are often all the same.
        1 if e.run.unit.by_share() && label.starts_with("thread ") => {
            // One without a name is called by its number already.
            let named = e.actors.get(actors[first] as usize).filter(|a| a.name.is_some());
            named.map_or(label.clone(), |a| format!("{label} {}", a.number))
        }
        1 => label,
        n => format!("{n} \u{d7} {label}"),
    };
    let more: u32 = list.iter().skip(KINDS_MAX).map(|k| k.1.0).sum();
    let shown = list.into_iter().take(KINDS_MAX).map(text);
    let others = (more > 0).then(|| format!("{more} others"));
    shown.chain(others).collect::<Vec<_>>().join(", ")
}

/// What one actor is called.
fn thread(e: &Evidence, actor: u32) -> String {
    let Some(a) = e.actors.get(actor as usize) else { return "unknown".into() };
    let start = a.start.and_then(|c| e.code.get(c as usize)).and_then(|c| c.frames.first());
    match (a.kind, start, &a.name) {
        (ActorKind::Cpu, _, _) => format!("CPU {}", a.number),
        // C++ functions come with their parameters, lambdas with their place.
        (_, Some(f), _) if f.function.contains(['(', ' ']) => f.function.clone(),
        (_, Some(f), _) => format!("{}()", f.function),
        (ActorKind::Thread, None, _) if a.creator.is_none() && !is_other(e, a) => "main thread".into(),
        (_, None, Some(name)) => format!("thread {name}"),
        (ActorKind::Thread, None, None) => format!("thread {}", a.number),
        (ActorKind::Unknown, None, None) => "unknown".into(),
    }
}

/// A source that does not see who starts threads: the main one has its process's number.
fn is_other(e: &Evidence, a: &Actor) -> bool {
    let pid = a.process.and_then(|p| e.processes.get(p as usize)).map(|p| p.pid);
    e.run.unit.by_share() && pid != Some(a.number)
}

/// Functions from the innermost outwards: inlined frames, then the callers. Those of system headers only where there
/// are no others.
pub(super) fn stack(e: &Evidence, code: u32) -> Vec<String> {
    let Some(c) = e.code.get(code as usize) else { return Vec::new() };
    let mut rows: Vec<&Code> = outwards(e, c).collect();
    let users = rows.iter().flat_map(|c| &c.frames).any(is_users);
    if users {
        rows.retain(|c| c.frames.is_empty() || c.frames.iter().any(|f| !f.is_of_system_header()));
    }
    rows.into_iter().flat_map(|c| frames(c, users)).collect()
}

/// The program's own, with a line.
fn is_users(f: &Frame) -> bool {
    f.line > 0 && !f.is_of_system_header() && !is_scaffold(f)
}

/// The first frame outside of system headers, of the code or its callers, where the code itself is of one.
fn user_frame<'a>(e: &'a Evidence, c: &'a Code) -> Option<&'a Frame> {
    c.frames.first().filter(|f| f.is_of_system_header())?;
    outwards(e, c).flat_map(|c| &c.frames).find(|f| is_users(f))
}

/// The code and its callers, from the innermost outwards.
fn outwards<'a>(e: &'a Evidence, c: &'a Code) -> impl Iterator<Item = &'a Code> {
    std::iter::once(c).chain(c.chain.iter().take(8).filter_map(|c| e.code.get(*c as usize)))
}

/// The first frame in the program's own sources, of the code or its callers.
pub(crate) fn own_frame(e: &Evidence, code: u32) -> Option<&Frame> {
    let c = e.code.get(code as usize)?;
    let mut all = outwards(e, c).flat_map(|c| &c.frames);
    all.find(|f| is_users(f) && tussle_advise::advice::is_own_source(&f.file))
}

/// Functions that start programs and threads, and the recorder's own: in every chain, and nobody's cause.
const SCAFFOLD: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "call_init",
    "__run_exit_handlers",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
];

/// The same of Rust, by parts of their names.
const SCAFFOLD_RUST: &[&str] = &[
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::thread::lifecycle::spawn_unchecked",
    "std::thread::Builder>::spawn_unchecked",
    "std::thread::Builder::spawn_unchecked",
    "std::panicking::",
    "std::panic::catch_unwind",
    "core::panic::unwind_safe::AssertUnwindSafe<",
    "core::ops::function::FnOnce<",
    "Thread::new::thread_start",
    "std::rt::lang_start",
];

fn is_scaffold(f: &Frame) -> bool {
    let bare = f.function.split('@').next().unwrap_or("");
    let rust = bare.contains("::") && SCAFFOLD_RUST.iter().any(|s| bare.contains(s));
    let rust = rust || bare.starts_with("__rust_try");
    rust || SCAFFOLD.contains(&bare)
        || bare.starts_with("tussle_runtime::")
        || bare.starts_with("__libc_start_main")
}

/// Functions of one address, with or without those of system headers.
fn frames(c: &Code, without_headers: bool) -> Vec<String> {
    let interesting = |f: &&Frame| !is_scaffold(f) && !(without_headers && f.is_of_system_header());
    match c.frames.is_empty() {
        true => vec![format!("{:#x}", c.address)],
        false => c.frames.iter().filter(interesting).map(|f| f.function.clone()).collect(),
    }
}

/// The program's line of a place in the code: of system headers the one that called for it.
pub fn frame(e: &Evidence, code: u32) -> Option<&Frame> {
    let c = e.code.get(code as usize)?;
    user_frame(e, c).or(c.frames.first())
}

/// `server.c:21`, or the address. Of code in system headers the program's line that called for it.
pub fn place(e: &Evidence, code: u32) -> String {
    let Some(c) = e.code.get(code as usize) else { return "unknown".into() };
    match frame(e, code) {
        Some(f) if f.line > 0 => format!("{}:{}", f.file, f.line),
        Some(f) if !f.file.is_empty() => f.file.clone(),
        _ => format!("{:#x}", c.address),
    }
}

/// The last two parts of an absolute or long path: enough to find it, short enough for a table.
pub(super) fn short_path(path: &str) -> &str {
    match path.rmatch_indices('/').nth(1) {
        Some((at, _)) if path.starts_with('/') || path.len() > 40 => &path[at + 1..],
        _ => path,
    }
}

/// `malloc in make_stats (server.c:12) ← main`, `global variable`, `stack of thread 7`.
pub(super) fn origin(e: &Evidence, o: &Object) -> String {
    let site = o.alloc_code.map(|c| {
        let callers = stack(e, c);
        let mut text =
            format!("{} ({})", callers.first().cloned().unwrap_or_default(), short_path(&place(e, c)));
        for caller in callers.iter().skip(1).take(3) {
            text.push_str(&format!(" \u{2190} {caller}"));
        }
        text
    });
    match (o.kind, site) {
        (ObjectKind::Heap | ObjectKind::Mapped | ObjectKind::Slab, Some(site)) => {
            format!("{} in {site}", o.allocator.as_deref().unwrap_or("allocated"))
        }
        (kind, _) => match kind {
            ObjectKind::Heap => "heap, allocation site unknown".into(),
            ObjectKind::Global => "global variable".into(),
            ObjectKind::Tls => "thread-local variable".into(),
            ObjectKind::Stack => "thread's stack".into(),
            ObjectKind::Mapped => "mapped memory".into(),
            ObjectKind::Slab => "slab object".into(),
            ObjectKind::PerCpu => "per-CPU variable".into(),
            ObjectKind::Unknown => "memory of unknown origin".into(),
        },
    }
}

/// `64%`, `0.4%`, `<0.01%`.
pub(super) fn percent(share: f64) -> String {
    let p = 100.0 * share;
    match p {
        0.0 => "0%".into(),
        p if p < 0.01 => "<0.01%".into(),
        p if p < 1.0 => format!("{p:.2}%"),
        p if p < 10.0 => format!("{p:.1}%"),
        p => format!("{p:.0}%"),
    }
}
