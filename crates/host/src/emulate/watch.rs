//! What the plugin watches: functions that allocate, lock or switch stacks, by their symbols in the program and its
//! libraries, and code that stands between the program and its allocator.

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind, elf};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tussle_debuginfo::Elf;
use tussle_debuginfo::golang::GoTable;
use tussle_rt::watched::*;

/// Symbols and what they do.
const FUNCTIONS: [(&str, u32); 86] = [
    ("malloc", MALLOC),
    ("calloc", CALLOC),
    ("realloc", REALLOC),
    ("reallocarray", REALLOCARRAY),
    ("aligned_alloc", ALIGNED_ALLOC),
    ("memalign", MEMALIGN),
    ("posix_memalign", POSIX_MEMALIGN),
    ("valloc", VALLOC),
    ("free", FREE),
    ("pthread_mutex_lock", MUTEX_LOCK),
    ("pthread_mutex_timedlock", MUTEX_LOCK),
    ("pthread_mutex_clocklock", MUTEX_LOCK),
    ("pthread_mutex_trylock", MUTEX_TRY),
    ("pthread_mutex_unlock", MUTEX_UNLOCK),
    ("pthread_mutex_destroy", FORGET),
    ("pthread_rwlock_rdlock", RW_READ),
    ("pthread_rwlock_tryrdlock", RW_READ),
    ("pthread_rwlock_timedrdlock", RW_READ),
    ("pthread_rwlock_clockrdlock", RW_READ),
    ("pthread_rwlock_wrlock", RW_WRITE),
    ("pthread_rwlock_timedwrlock", RW_WRITE),
    ("pthread_rwlock_clockwrlock", RW_WRITE),
    ("pthread_rwlock_trywrlock", MUTEX_TRY),
    ("pthread_rwlock_unlock", RW_UNLOCK),
    ("pthread_spin_lock", SPIN_LOCK),
    ("pthread_spin_trylock", MUTEX_TRY),
    ("pthread_spin_unlock", SPIN_UNLOCK),
    ("pthread_cond_wait", COND_WAIT),
    ("pthread_cond_timedwait", COND_WAIT),
    ("pthread_cond_clockwait", COND_WAIT),
    ("pthread_cond_signal", COND_SIGNAL),
    ("pthread_cond_broadcast", COND_BROADCAST),
    ("pthread_barrier_init", BARRIER_INIT),
    ("pthread_barrier_wait", BARRIER_WAIT),
    ("sem_wait", SEM_WAIT),
    ("sem_trywait", SEM_TRY),
    ("sem_timedwait", SEM_WAIT),
    ("sem_clockwait", SEM_WAIT),
    ("sem_post", SEM_POST),
    ("pthread_create", CREATE),
    ("__pthread_create", CREATE),
    ("pthread_join", JOIN),
    ("pthread_timedjoin_np", JOIN),
    ("pthread_clockjoin_np", JOIN),
    ("pthread_tryjoin_np", JOIN),
    ("thrd_join", JOIN),
    ("pthread_once", ONCE),
    ("__pthread_once", ONCE),
    ("call_once", ONCE),
    ("__cxa_guard_acquire", GUARD_ACQUIRE),
    ("__cxa_guard_release", GUARD_RELEASE),
    ("mtx_lock", MUTEX_LOCK),
    ("mtx_unlock", MUTEX_UNLOCK),
    // Where the linker took only these of a static glibc.
    ("__libc_malloc", MALLOC),
    ("__libc_calloc", CALLOC),
    ("__libc_realloc", REALLOC),
    ("__libc_memalign", MEMALIGN),
    ("__libc_free", FREE),
    ("__pthread_mutex_lock", MUTEX_LOCK),
    ("__pthread_mutex_trylock", MUTEX_TRY),
    ("__pthread_mutex_unlock", MUTEX_UNLOCK),
    ("__pthread_rwlock_rdlock", RW_READ),
    ("__pthread_rwlock_wrlock", RW_WRITE),
    ("__pthread_rwlock_unlock", RW_UNLOCK),
    ("__pthread_cond_wait", COND_WAIT),
    ("__pthread_cond_signal", COND_SIGNAL),
    ("__pthread_cond_broadcast", COND_BROADCAST),
    ("__pthread_barrier_wait", BARRIER_WAIT),
    ("__pthread_join", JOIN),
    ("GOMP_critical_start", OMP_CRITICAL),
    ("GOMP_critical_end", OMP_CRITICAL_END),
    ("GOMP_ordered_start", OMP_ORDERED),
    ("GOMP_ordered_end", OMP_ORDERED_END),
    ("GOMP_critical_name_start", OMP_LOCK),
    ("GOMP_critical_name_end", OMP_UNLOCK),
    ("omp_set_lock", OMP_LOCK),
    ("omp_unset_lock", OMP_UNLOCK),
    ("omp_set_nest_lock", OMP_LOCK),
    ("omp_unset_nest_lock", OMP_UNLOCK),
    ("GOMP_barrier", OMP_BARRIER),
    ("GOMP_loop_end", OMP_BARRIER),
    ("GOMP_sections_end", OMP_BARRIER),
    ("runtime.mallocgc", GO_MALLOC),
    ("runtime.runqput", GO_READY),
    ("runtime.execute", GO_RUN),
    ("runtime.gogo", GO_SWITCH),
];
/// Symbols as they begin, of functions of gcc's OpenMP that there are for each schedule of a loop.
const FAMILIES: [(&str, u32); 3] =
    [("GOMP_parallel", OMP_PARALLEL), ("GOMP_loop_ordered_", OMP_NEXT), ("GOMP_loop_ull_ordered_", OMP_NEXT)];

/// Names, as they begin, of code between the program and its allocator: operators of C++, Go's runtime, what Rust's
/// compiler makes for its allocator, Rust's own libraries (crates `alloc`, `core`, `std`, `hashbrown`).
const BETWEEN: [&str; 14] = [
    "_Znw",
    "_Zna",
    "runtime.",
    "__rust_",
    "__rdl_",
    "__rg_",
    "_ZN5alloc",
    "_ZN4core",
    "_ZN3std",
    "_ZN9hashbrown",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
];
/// Crates of Rust's own.
const RUST_CRATES: [&str; 5] = ["alloc", "core", "std", "hashbrown", "__rustc"];
/// Libraries, as their names begin, all of which stands between.
const BETWEEN_LIBRARIES: [&str; 6] =
    ["libc.so", "libstdc++.so", "libc++.so", "ld-linux", "libgcc_s.so", "libpthread.so"];

/// Libraries that are looked at, at most.
const LIBRARIES_MAX: usize = 256;
/// Ranges of code between which no more than this lies are one.
const GAP_BYTES: u64 = 64;

/// The text that the plugin reads for `program`, whose libraries lie in `folders`.
pub(super) fn text(program: &Path, bytes: &[u8], folders: &[PathBuf]) -> String {
    let mut out = format!("program {}\n", program.display());
    let mut seen = BTreeSet::from([program.to_path_buf()]);
    let mut left = library(&mut out, program, bytes);
    let own = program.parent().map(Path::to_path_buf).unwrap_or_default();
    while let Some(name) = left.pop() {
        let places = std::iter::once(&own).chain(folders).map(|f| f.join(&name));
        let Some((at, bytes)) =
            places.into_iter().find_map(|p| Some((std::fs::canonicalize(&p).ok()?, std::fs::read(&p).ok()?)))
        else {
            continue;
        };
        if seen.len() < LIBRARIES_MAX && seen.insert(at.clone()) {
            left.extend(library(&mut out, &at, &bytes));
        }
    }
    out
}

/// Adds what one file has, and returns the libraries that it needs.
fn library(out: &mut String, path: &Path, bytes: &[u8]) -> Vec<String> {
    let (Ok(file), Some(segments)) = (object::File::parse(bytes), segments(bytes)) else { return Vec::new() };
    let place = |address: u64| {
        segments
            .iter()
            .find(|s| (s.address..s.address + s.bytes).contains(&address))
            .map(|s| s.place(address))
    };
    let mut at: BTreeMap<u64, u32> = BTreeMap::new();
    let mut between: Vec<(u64, u64)> = Vec::new();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if BETWEEN_LIBRARIES.iter().any(|l| name.starts_with(l)) {
        between.extend(segments.iter().filter(|s| s.code).map(|s| (s.offset, s.bytes)));
    }
    for (name, address, size) in functions(&file, bytes) {
        let (name, Some(place)) = (&*name, place(address)) else { continue };
        // Go 1.26 says of functions in assembly how they are called.
        let plain = name.strip_suffix(".abi0").unwrap_or(name);
        let family = || FAMILIES.iter().find(|f| plain.starts_with(f.0));
        if let Some(f) = FUNCTIONS.iter().find(|f| f.0 == plain).or_else(family) {
            at.insert(place, f.1);
        }
        if is_between(name) {
            between.push((place, size));
        }
    }
    // Writing to text cannot fail.
    let _ = writeln!(out, "library {}", path.display());
    for (place, kind) in at {
        let _ = writeln!(out, "at {place:x} {kind}");
    }
    for (from, bytes) in merged(between) {
        let _ = writeln!(out, "between {from:x} {bytes:x}");
    }
    needed(&file, bytes)
}

/// Names, addresses and bytes of functions: by the symbols, without any by Go's own table.
fn functions<'a>(file: &object::File<'a>, bytes: &[u8]) -> Vec<(Cow<'a, str>, u64, u64)> {
    let is_one = |s: &object::Symbol<'a, '_>| s.kind() == SymbolKind::Text && s.is_definition();
    let all = file.symbols().chain(file.dynamic_symbols()).filter(is_one);
    let named = |s: object::Symbol<'a, '_>| Some((s.name().ok()?.into(), s.address(), s.size()));
    let mut out: Vec<_> = all.filter_map(named).collect();
    if file.symbols().next().is_none()
        && let Some(go) = Elf::parse(bytes).ok().and_then(|elf| GoTable::read(&elf))
    {
        out.extend(go.functions().map(|f| (f.name.into(), f.range.0, f.range.1 - f.range.0)));
    }
    out
}

fn is_between(symbol: &str) -> bool {
    BETWEEN.iter().any(|b| symbol.starts_with(b))
        || symbol.contains("_$LT$alloc..")
        || symbol.contains("_$LT$std..")
        || rust_crate(symbol).is_some_and(|c| RUST_CRATES.contains(&c))
}

/// The crate that a symbol of Rust's v0 mangling is of (RFC 2603): the first crate root, `Cs` HASH `_` LENGTH NAME.
fn rust_crate(symbol: &str) -> Option<&str> {
    let root = symbol.strip_prefix("_R")?.split_once("Cs")?.1.split_once('_')?.1;
    let digits = root.find(|c: char| !c.is_ascii_digit())?;
    let length: usize = root.get(..digits)?.parse().ok()?;
    root.get(digits..)?.get(..length)
}

/// A piece of a file and where it is mapped, in the file's own addresses.
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    code: bool,
}

impl Segment {
    fn place(&self, address: u64) -> u64 {
        self.offset + (address - self.address)
    }
}

fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let e = header.endian().ok()?;
    let loads = header.program_headers(e, bytes).ok()?.iter().filter(|p| p.p_type(e) == elf::PT_LOAD);
    let segment = |p: &elf::ProgramHeader64<Endianness>| {
        let (address, offset, bytes) = (p.p_vaddr(e), p.p_offset(e), p.p_filesz(e));
        address.checked_add(bytes).map(|_| Segment {
            address,
            offset,
            bytes,
            code: p.p_flags(e).0 & elf::PF_X.0 != 0,
        })
    };
    loads.map(segment).collect()
}

/// Names of needed libraries, and of the interpreter.
fn needed(file: &object::File<'_>, bytes: &[u8]) -> Vec<String> {
    let mut out = crate::elf::needed(bytes);
    let interpreter = file.section_by_name(".interp").and_then(|s| object::ObjectSection::data(&s).ok());
    let interpreter = interpreter.map(|t| String::from_utf8_lossy(t).trim_end_matches('\0').to_string());
    out.extend(interpreter.and_then(|p| Some(Path::new(&p).file_name()?.to_string_lossy().into_owned())));
    out
}

/// The same ranges in order, neighbours as one.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|r| r.1 > 0);
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, bytes) in ranges {
        let end = from.saturating_add(bytes);
        match out.last_mut().filter(|l| from <= l.0 + l.1 + GAP_BYTES) {
            Some(l) => l.1 = l.1.max(end - l.0),
            None => out.push((from, end - from)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_rust_stand_between_and_users_of_them_do_not() {
        for name in [
            "_Znwm",
            "runtime.makeslice",
            "_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$8grow_one17h0123456789abcdefE",
            "_ZN66_$LT$alloc..vec..Vec$LT$T$GT$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0E",
            "_RNvMs_NtCs1234_5alloc3vecINtB4_3VecjE4pushB6_",
        ] {
            assert!(is_between(name), "{name}");
        }
        for name in
            ["main", "main.runtime", "_ZN4mine4core3newE", "_RNvCs1234_4mine5alloc", "_ZNSt6vectorIiE4pushE"]
        {
            assert!(!is_between(name), "{name}");
        }
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(merged(vec![(300, 10), (0, 100), (110, 20), (50, 10), (9, 0)]), [(0, 130), (300, 10)]);
    }

    #[test]
    fn a_program_of_libc_has_an_allocator_in_a_library() {
        let own = std::env::current_exe().unwrap();
        let folders = super::super::folders(super::super::MACHINES[0], None);
        let text = text(&own, &std::fs::read(&own).unwrap(), &folders);
        assert!(text.starts_with(&format!("program {}\n", own.display())));
        if cfg!(target_env = "gnu") && cfg!(target_arch = "x86_64") {
            let libc = text.split("library ").find(|l| l.contains("/libc.so.6\n")).unwrap();
            assert!(
                libc.lines().any(|l| l.starts_with("at ") && l.ends_with(&format!(" {MALLOC}"))),
                "{libc}"
            );
        }
    }
}
