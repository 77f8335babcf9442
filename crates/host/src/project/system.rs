//! Which build system a folder has, and the command that builds a copy of it.

use super::scratch::BUILD_FOLDER;
use super::workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// What builds a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum System {
    /// A shell command from the command line.
    Shell(String),
    /// Cargo, release profile, for the host given with `--target`: build scripts stay as they are.
    Cargo(Package),
    /// One package of a cargo workspace. Its path relative to the workspace.
    Member(PathBuf, Package),
    /// Meson, outside of the sources.
    Meson,
    /// CMake, outside of the sources.
    CMake,
    /// A `configure` script (made by autoreconf if it is not there), then make, in the copy.
    Autotools {
        /// `configure` has to be made.
        make_configure: bool,
    },
    /// `make`, because there is a makefile.
    Make,
    /// A `build.ninja` that somebody wrote by hand.
    Ninja,
    /// A compilation database: every file compiled, all objects linked to one program. Relative path.
    Database(PathBuf),
    /// One C, C++ or Rust source file. Relative path.
    Single(PathBuf),
}

/// What of a cargo package is a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Package {
    /// Its programs.
    #[default]
    Programs,
    /// Its examples: it is a library.
    Examples,
}

/// Standard of optimisation for what is compiled by a command of ours.
const PLAIN_FLAGS: &str = "-O2 -g -pthread";

/// Where a makefile may lie.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// Extensions of single programs.
const C: [&str; 1] = ["c"];
const CXX: [&str; 4] = ["cc", "cpp", "cxx", "C"];

impl System {
    /// Everything that the folder could be built with, the likeliest first: what describes the program itself before a
    /// makefile, which is often there for convenience; files that another system has generated do not count.
    pub fn all_of(dir: &Path) -> Vec<System> {
        let has = |name: &str| dir.join(name).is_file();
        let mut out = Vec::new();
        let mut add = |there: bool, system: System| out.extend(there.then_some(system));
        add(has("Cargo.toml"), System::Cargo(workspace::programs(dir)));
        add(has("meson.build"), System::Meson);
        add(has("CMakeLists.txt"), System::CMake);
        let configure_in = has("configure.ac") || has("configure.in");
        add(has("configure") || configure_in, System::Autotools { make_configure: !has("configure") });
        add(MAKEFILES.iter().any(|n| has(n) && !is_generated(dir, n)), System::Make);
        add(has("build.ninja") && !is_generated(dir, "build.ninja"), System::Ninja);
        let databases = ["compile_commands.json", "build/compile_commands.json"].map(PathBuf::from);
        let database = databases.into_iter().find(|d| dir.join(d).is_file());
        out.extend(database.map(System::Database));
        if out.is_empty() {
            out.extend(only_source(dir).map(System::Single));
        }
        out
    }

    /// One source file, named on the command line.
    pub fn of_file(file: &Path) -> Option<System> {
        let name = PathBuf::from(file.file_name()?);
        language(&name).map(|_| System::Single(name))
    }

    /// The shell command that builds a copy, run in it; this is what is printed.
    pub fn command(&self) -> String {
        let b = BUILD_FOLDER;
        match self {
            System::Shell(c) => c.clone(),
            System::Cargo(package) => cargo(*package),
            System::Member(at, package) => {
                let manifest = at.join("Cargo.toml");
                format!("{} --manifest-path {}", cargo(*package), quoted(&manifest.to_string_lossy()))
            }
            System::Meson => {
                format!("meson setup --buildtype=debugoptimized {b} . && meson compile -C {b}")
            }
            System::CMake => {
                format!("cmake -S . -B {b} -DCMAKE_BUILD_TYPE=RelWithDebInfo && cmake --build {b} -j2")
            }
            System::Autotools { make_configure: true } => "autoreconf -fi && ./configure && make -j2".into(),
            System::Autotools { .. } => "./configure && make -j2".into(),
            // Objects left from an earlier build are not instrumented.
            System::Make => "make -B".into(),
            System::Ninja => "ninja -t clean && ninja".into(),
            System::Database(_) => format!("sh {b}/{SCRIPT}"),
            System::Single(file) => single(file),
        }
    }

    /// The command for a copy that [`System::command`] has built before: it builds what has changed since.
    pub fn again(&self) -> String {
        match self {
            System::Autotools { .. } => "make -j2".into(),
            System::Make => "make".into(),
            System::Ninja => "ninja".into(),
            other => other.command(),
        }
    }

    /// What has to be there before the command runs.
    pub(crate) fn prepare(&self, copy: &Path) -> std::io::Result<()> {
        let query = copy.join(BUILD_FOLDER).join(".cmake/api/v1/query");
        match self {
            System::CMake => {
                fs::create_dir_all(&query)?;
                fs::write(query.join("codemodel-v2"), "")
            }
            System::Single(_) => fs::create_dir_all(copy.join(BUILD_FOLDER)),
            _ => Ok(()),
        }
    }

    /// Its programs are the examples of a library.
    pub(super) fn of_examples(&self) -> bool {
        matches!(self, System::Cargo(Package::Examples) | System::Member(_, Package::Examples))
    }

    /// The program is Rust's.
    pub fn is_rust(&self) -> bool {
        match self {
            System::Cargo(_) | System::Member(..) => true,
            System::Single(file) => language(file) == Some(Language::Rust),
            _ => false,
        }
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            System::Shell(_) => "--build",
            System::Cargo(_) | System::Member(..) => "cargo",
            System::Meson => "meson",
            System::CMake => "cmake",
            System::Autotools { .. } => "configure",
            System::Make => "make",
            System::Ninja => "ninja",
            System::Database(_) => "compile_commands.json",
            System::Single(_) => "a single file",
        })
    }
}

/// Name of the script that a compilation database becomes.
pub(super) const SCRIPT: &str = "build.sh";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
    Rust,
}

fn language(file: &Path) -> Option<Language> {
    let extension = file.extension()?.to_str()?;
    match extension {
        e if C.contains(&e) => Some(Language::C),
        e if CXX.contains(&e) => Some(Language::Cxx),
        "rs" => Some(Language::Rust),
        _ => None,
    }
}

fn cargo(package: Package) -> String {
    let of_library = if package == Package::Examples { " --examples" } else { "" };
    format!("cargo build --release{of_library} --target {} --target-dir {BUILD_FOLDER}", host_triple())
}

fn single(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let (source, out) = (quoted(&file.to_string_lossy()), quoted(&format!("{BUILD_FOLDER}/{stem}")));
    match language(file) {
        Some(Language::Rust) => {
            format!("$RUSTC_WRAPPER rustc --edition 2021 -O -g --target {} -o {out} {source}", host_triple())
        }
        Some(Language::Cxx) => format!("c++ {PLAIN_FLAGS} -o {out} {source} -lm"),
        _ => format!("cc {PLAIN_FLAGS} -o {out} {source} -lm"),
    }
}

/// The target that recorded Rust programs are built for: the one that the recorder is for.
pub fn host_triple() -> &'static str {
    "x86_64-unknown-linux-gnu"
}

/// A word for the shell.
pub(super) fn quoted(word: &str) -> String {
    tussle_render::shell::word(word)
}

/// The folder's one source file of a program.
fn only_source(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let files = entries.filter(|e| e.path().is_file()).map(|e| PathBuf::from(e.file_name()));
    let mut sources = files.filter(|f| language(f).is_some());
    let first = sources.next()?;
    sources.next().is_none().then_some(first)
}

/// The first lines say which system wrote the file.
pub(super) fn is_generated(dir: &Path, name: &str) -> bool {
    const MARKS: [&str; 6] = [
        "CMAKE generated file",
        "generated by automake",
        "Generated automatically from",
        "This file was generated by configure",
        "This is the build file for project",
        "Generated from",
    ];
    use std::io::Read;
    let mut head = Vec::new();
    let read = fs::File::open(dir.join(name)).and_then(|f| f.take(4096).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head);
    read.is_ok() && MARKS.iter().any(|m| head.contains(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[System]) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        assert_eq!(System::all_of(dir.path()), expect, "{files:?}");
    }

    #[test]
    fn a_folder_tells_what_builds_it() {
        let configure = |make_configure| System::Autotools { make_configure };
        check(&[], &[]);
        check(&[("Makefile", "all:\n"), ("a.c", "")], &[System::Make]);
        check(
            &[("Makefile", "# CMAKE generated file: DO NOT EDIT!\n"), ("CMakeLists.txt", "")],
            &[System::CMake],
        );
        check(&[("Makefile", "all:\n"), ("CMakeLists.txt", "")], &[System::CMake, System::Make]);
        check(
            &[("Cargo.toml", ""), ("Makefile", "all:\n")],
            &[System::Cargo(Package::Programs), System::Make],
        );
        let library =
            [("Cargo.toml", "[package]\nname = \"a\"\n"), ("src/lib.rs", ""), ("examples/b.rs", "")];
        check(&library, &[System::Cargo(Package::Examples)]);
        check(&[&library[..], &[("src/main.rs", "")]].concat(), &[System::Cargo(Package::Programs)]);
        check(&library[..2], &[System::Cargo(Package::Programs)]);
        check(&[("meson.build", "")], &[System::Meson]);
        check(&[("configure.ac", ""), ("Makefile.am", "")], &[configure(true)]);
        check(&[("configure", ""), ("configure.ac", "")], &[configure(false)]);
        check(&[("build.ninja", "rule cc\n")], &[System::Ninja]);
        check(&[("compile_commands.json", "[]")], &[System::Database("compile_commands.json".into())]);
        check(&[("one.cpp", ""), ("one.h", "")], &[System::Single("one.cpp".into())]);
        check(&[("one.c", ""), ("two.c", "")], &[]);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("a/b-c.o"), "a/b-c.o");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
