//! Kinds of programs, each run native and recorded: output, exit status and files must be the same.
//!
//! One build each here (gcc -O1); gcc and clang at -O0 and -O2 with `TUSSLE_SLOW=recorder`.
//! `docs/recorder.md` lists them.

#![allow(clippy::unwrap_used)]

mod common;
mod kinds_table;

use kinds_table::twin::{Build, Twin};
use kinds_table::{KINDS, Kind};

/// All kinds of one source file, in one build.
fn check(file: &str) {
    let builds = if tussle_testkit::slow("recorder") { Build::all() } else { Build::usual() };
    let mut wrong = Vec::new();
    for build in builds {
        let Some(mut twin) = Twin::new(build, file) else { continue };
        let kinds: Vec<&Kind> = KINDS.iter().filter(|k| k.file == file).collect();
        assert!(!kinds.is_empty(), "{file}");
        for k in kinds {
            wrong.extend(twin.check(k).map(|why| format!("{file} {} ({build:?}): {why}", k.name)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A test per file, and a test that no file of the table is left out.
macro_rules! files {
    ($($name:ident = $file:literal;)+) => {
        $( #[test] fn $name() { check($file) } )+
        #[test]
        fn every_file_has_a_test() {
            let tested = [$($file),+];
            assert!(KINDS.iter().all(|k| tested.contains(&k.file)));
        }
    };
}
files! {
    wide_atomics = "wide.c";
    life_and_death = "life.c";
    surroundings = "surroundings.c";
    signals = "signals.c";
    threads_and_locks = "threads.c";
    memory_and_limits = "memory.c";
    input_and_output = "input_output.c";
    contexts_and_clocks = "context.c";
    sandboxes = "sandbox.c";
    corners = "corners.c";
    odd_processes = "odd.c";
    odd_cxx = "odd.cc";
    servers_and_libraries = "servers.c";
    write_barriers = "barriers.c";
    denied_code = "denied.c";
    names_of_the_program = "names.c";
    plugins = "plugins.cc";
    an_allocator_inside = "own_malloc.c";
    an_allocator_beside = "replaced.c";
    modern_cxx = "modern.cc";
    news = "news.cc";
    replaced_operators = "operators.cc";
    operators_of_a_library = "over_library.cc";
    libraries_in_between = "preloads.c";
    loaded_libraries = "loads.cc";
    openmp = "parallel.c";
}
