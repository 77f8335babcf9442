//! The program of `suite/reach` in a folder for each build system.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
    Rust,
}

impl Language {
    fn source(self) -> &'static str {
        match self {
            Language::C => "c/jobs.c",
            Language::Cxx => "cxx/jobs.cc",
            Language::Rust => "rust/jobs.rs",
        }
    }
}

/// One folder to hunt in.
pub struct Folder {
    pub name: &'static str,
    pub language: Language,
    /// What hunt is pointed at.
    pub argument: &'static str,
    /// Tools.
    pub needs: &'static [&'static str],
    /// Files beside the source: path and text.
    files: &'static [(&'static str, &'static str)],
    /// Where the source goes.
    source: &'static str,
}

impl Folder {
    /// Counters, lock and data, queue.
    pub fn structs(&self) -> [&'static str; 3] {
        match self.language {
            Language::C => ["counter", "table", "queue"],
            _ => ["Counter", "Table", "Queue"],
        }
    }

    /// Writes it below `lab`.
    pub fn write(&self, lab: &Path) {
        let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suite/reach");
        let put = |path: &str, text: &str| {
            let at = lab.join("jobs").join(path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        put(self.source, &std::fs::read_to_string(suite.join(self.language.source())).unwrap());
        let root = lab.join("jobs").canonicalize().unwrap();
        self.files
            .iter()
            .for_each(|(path, text)| put(path, &text.replace("@ROOT@", &root.to_string_lossy())));
    }
}

/// Path, inode, size and time of every file that hunt must leave alone.
pub fn stamps(lab: &Path) -> Vec<(PathBuf, u64, u64, i64, i64)> {
    let (mut out, mut todo) = (Vec::new(), vec![lab.join("jobs")]);
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let (m, path) = (entry.metadata().unwrap(), entry.path());
            if m.is_dir() {
                todo.push(path.clone());
            }
            let (inode, size) = if m.is_dir() { (m.ino(), 0) } else { (m.ino(), m.size()) };
            out.push((path, inode, size, m.mtime(), m.mtime_nsec()));
        }
    }
    out.sort();
    out
}

const CMAKE_C: &str = "cmake_minimum_required(VERSION 3.16)
project(jobs C)
find_package(Threads REQUIRED)
add_executable(jobs jobs.c)
target_link_libraries(jobs Threads::Threads)
enable_testing()
add_executable(check jobs.c)
target_link_libraries(check Threads::Threads)
add_test(NAME check COMMAND check)
";
const CMAKE_CXX: &str = "cmake_minimum_required(VERSION 3.16)
project(jobs CXX)
find_package(Threads REQUIRED)
add_executable(jobs jobs.cc)
target_link_libraries(jobs Threads::Threads)
";
const MESON_C: &str = "project('jobs', 'c')
jobs = executable('jobs', 'jobs.c', dependencies: dependency('threads'))
check = executable('check', 'jobs.c', dependencies: dependency('threads'))
test('check', check)
";
const MESON_CXX: &str = "project('jobs', 'cpp')
executable('jobs', 'jobs.cc', dependencies: dependency('threads'))
";
const CONFIGURE_C: &str = "AC_INIT([jobs], [1])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
";
const CONFIGURE_CXX: &str = "AC_INIT([jobs], [1])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CXX
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
";
const AUTOMAKE_C: &str = "bin_PROGRAMS = jobs\njobs_SOURCES = jobs.c\njobs_LDFLAGS = -pthread\n";
const AUTOMAKE_CXX: &str = "bin_PROGRAMS = jobs\njobs_SOURCES = jobs.cc\njobs_LDFLAGS = -pthread\n";
const NINJA: &str = "rule cc
  command = cc -O2 -g -pthread -o $out $in
build jobs: cc jobs.c
";
const DATABASE: &str = r#"[{"directory": "@ROOT@", "file": "jobs.c",
  "command": "/usr/bin/cc -O2 -g -pthread -o jobs.o -c jobs.c"}]
"#;
const CARGO: &str = "[package]
name = \"jobs\"
version = \"1.0.0\"
edition = \"2021\"
build = \"build.rs\"
";
/// A build script that is not to be instrumented: it must find the compiler that it is.
const BUILD_SCRIPT: &str = "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }\n";

macro_rules! folder {
    ($name:expr, $language:ident, $argument:expr, $needs:expr, $source:expr, $files:expr) => {
        Folder {
            name: $name,
            language: Language::$language,
            argument: $argument,
            needs: &$needs,
            source: $source,
            files: &$files,
        }
    };
}

/// All of them.
pub fn all() -> Vec<Folder> {
    [c(), cxx(), rust()].into_iter().flatten().collect()
}

const AUTO: [&str; 3] = ["automake", "autoreconf", "make"];

fn c() -> Vec<Folder> {
    vec![
        folder!(
            "C, make",
            C,
            "jobs",
            ["gcc", "make"],
            "jobs.c",
            [("Makefile", "jobs: jobs.c\n\t$(CC) -O2 -g -pthread -o $@ $<\n")]
        ),
        folder!("C, cmake", C, "jobs", ["gcc", "cmake", "make"], "jobs.c", [("CMakeLists.txt", CMAKE_C)]),
        folder!("C, meson", C, "jobs", ["gcc", "meson", "ninja"], "jobs.c", [("meson.build", MESON_C)]),
        folder!(
            "C, autotools",
            C,
            "jobs",
            AUTO,
            "jobs.c",
            [("configure.ac", CONFIGURE_C), ("Makefile.am", AUTOMAKE_C)]
        ),
        folder!("C, ninja", C, "jobs", ["gcc", "ninja"], "jobs.c", [("build.ninja", NINJA)]),
        folder!(
            "C, compile_commands.json",
            C,
            "jobs",
            ["gcc"],
            "jobs.c",
            [("compile_commands.json", DATABASE)]
        ),
        folder!("C, single file", C, "jobs/jobs.c", ["gcc"], "jobs.c", []),
    ]
}

fn cxx() -> Vec<Folder> {
    vec![
        folder!(
            "C++, make",
            Cxx,
            "jobs",
            ["g++", "make"],
            "jobs.cc",
            [("Makefile", "jobs: jobs.cc\n\t$(CXX) -O2 -g -pthread -o $@ $<\n")]
        ),
        folder!(
            "C++, cmake",
            Cxx,
            "jobs",
            ["g++", "cmake", "make"],
            "jobs.cc",
            [("CMakeLists.txt", CMAKE_CXX)]
        ),
        folder!(
            "C++, meson",
            Cxx,
            "jobs",
            ["g++", "meson", "ninja"],
            "jobs.cc",
            [("meson.build", MESON_CXX)]
        ),
        folder!(
            "C++, autotools",
            Cxx,
            "jobs",
            AUTO,
            "jobs.cc",
            [("configure.ac", CONFIGURE_CXX), ("Makefile.am", AUTOMAKE_CXX)]
        ),
        folder!("C++, single file", Cxx, "jobs/jobs.cc", ["g++"], "jobs.cc", []),
    ]
}

fn rust() -> Vec<Folder> {
    vec![
        folder!(
            "Rust, cargo",
            Rust,
            "jobs",
            ["cargo", "gcc"],
            "src/main.rs",
            [("Cargo.toml", CARGO), ("build.rs", BUILD_SCRIPT)]
        ),
        folder!("Rust, single file", Rust, "jobs/jobs.rs", ["rustc", "gcc"], "jobs.rs", []),
    ]
}
