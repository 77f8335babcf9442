//! Why a build did not use the compilers that stand first in `PATH`: its description names one by an absolute path, or
//! has a `PATH` of its own.

use std::fs;
use std::path::{Path, PathBuf};

use super::scratch::is_build_output;
use super::wrapper::language_of;

/// Descriptions above this are not read, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Places that are shown.
const PLACES_MAX: usize = 3;

/// A line that describes the build of a folder and does not leave the compiler to `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    file: PathBuf,
    line: usize,
    what: String,
}

impl Named {
    /// In a file that cmake reads.
    fn is_of_cmake(&self) -> bool {
        self.file.ends_with("CMakeLists.txt") || self.file.extension().is_some_and(|e| e == "cmake")
    }

    /// cmake wrote down what it took.
    fn is_by_cmake(&self) -> bool {
        self.is_of_cmake() && self.file.components().any(|c| c.as_os_str() == "CMakeFiles")
    }
}

impl std::fmt::Display for Named {
    /// `Makefile:3 names /usr/bin/gcc`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} {}", self.file.display(), self.line, self.what)
    }
}

/// The first such lines. Compilers below `ours` are those that stand first in `PATH`: cmake writes down where it found
/// them. What a build has written counts only where nobody else names a compiler that it took.
pub fn compilers_named(dir: &Path, ours: &Path) -> Vec<Named> {
    let look = |made| {
        let mut look = Look { dir, ours: &ours.to_string_lossy(), made, out: Vec::new() };
        look.folder(Path::new(""), 4);
        look.out
    };
    let (mut own, mut all) = (look(false), look(true));
    let taken: Vec<&Named> = all.iter().filter(|n| n.is_by_cmake()).collect();
    // A file for another machine may lie in the folder, too.
    let counts = |n: &Named| n.what.contains('$') || taken.iter().any(|t| t.what == n.what);
    own.retain(|n| taken.is_empty() || !n.is_of_cmake() || counts(n));
    all.retain(|n| own.is_empty() && (n.is_by_cmake() || !n.is_of_cmake()));
    own.extend(all);
    own.truncate(PLACES_MAX);
    own
}

/// What to do about the first of them.
pub fn remedy(named: &[Named]) -> &'static str {
    let Some(first) = named.first() else { return "" };
    let name = first.file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if first.is_by_cmake() {
        return "give cmake the compiler's bare name, as in --build 'cmake -DCMAKE_C_COMPILER=cc -S . -B b && cmake \
                --build b' (C++: CMAKE_CXX_COMPILER=c++)";
    }
    if first.is_of_cmake() {
        return "write the bare name there, as in set(CMAKE_C_COMPILER gcc), or take the line out: it overrules \
                -DCMAKE_C_COMPILER";
    }
    if name.contains("makefile") || name.ends_with(".mk") || name.ends_with(".mak") {
        return match first.what.contains("PATH") {
            true => "take that line out, or have it begin with the $(PATH) that was there",
            false => "say --build with the compiler's bare name, as in --build 'make CC=cc'",
        };
    }
    "write the compiler's bare name there (cc), and leave PATH as it is"
}

struct Look<'a> {
    dir: &'a Path,
    ours: &'a str,
    /// What a build made is looked at, too.
    made: bool,
    out: Vec<Named>,
}

impl Look<'_> {
    fn folder(&mut self, relative: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(self.dir.join(relative)) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(|e| e.file_name());
        for entry in entries {
            let path = relative.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth > 0 && (self.made || !is_build_output(&entry.path())) {
                self.folder(&path, depth - 1);
            } else if kind.is_file() && describes_a_build(&path) {
                self.file(path, &entry);
            }
        }
    }

    fn file(&mut self, path: PathBuf, entry: &fs::DirEntry) {
        let small = entry.metadata().is_ok_and(|m| m.len() <= BYTES_MAX);
        let text = if small { fs::read_to_string(entry.path()).unwrap_or_default() } else { String::new() };
        // autoconf's scripts turn PATH about for questions of their own.
        let own = !path.ends_with("configure");
        let found = named(&text, own, self.ours).into_iter();
        self.out.extend(found.map(|(line, what)| Named { file: path.clone(), line, what }));
    }
}

fn describes_a_build(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known =
        ["Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "meson.build", "build.sh", "configure"];
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    known.contains(&&*name) || ["mk", "mak", "ninja", "cmake"].contains(&&*extension)
}

/// Lines with an absolute path of a compiler that is not below `ours`, or, where the text is somebody's `own`, that
/// turn `PATH` away.
fn named(text: &str, own: bool, ours: &str) -> Vec<(usize, String)> {
    let separates = |c: char| c.is_whitespace() || "\"'=:;,()`$".contains(c);
    // `${TOOLS}/gcc` stays one word behind its dollar.
    let is_path = |word: &str| word.starts_with('/') || (word.starts_with('{') && word.contains("}/"));
    let is_compiler = |word: &&str| {
        let compiles = word.rsplit('/').next().is_some_and(|n| language_of(n).is_some());
        is_path(word) && compiles && !Path::new(word).starts_with(ours)
    };
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with('#'));
    let compiler =
        |l: &str| Some(format!("names {}", with_variable(l, l.split(separates).find(is_compiler)?)));
    lines.filter_map(|(n, l)| Some((n + 1, compiler(l).or_else(|| path(l).filter(|_| own))?))).collect()
}

/// A word of a line with the variable before it: `$(TOOLS)/gcc`.
fn with_variable<'l>(line: &'l str, word: &'l str) -> &'l str {
    let at = word.as_ptr() as usize - line.as_ptr() as usize;
    let before = &line[..at];
    let begin = if before.ends_with(')') || word.starts_with('{') { before.rfind('$') } else { None };
    &line[begin.unwrap_or(at)..at + word.len()]
}

/// What a line does to `PATH`, by which compilers are found.
fn path(line: &str) -> Option<String> {
    let words = line.split_whitespace().map(|w| w.trim_start_matches(['@', '-', '(']));
    let mut pairs = words.clone().zip(words.clone().skip(1));
    if pairs.any(|(a, b)| a.ends_with("env") && (b == "i" || b == "ignore-environment")) {
        return Some("empties the environment (env -i)".into());
    }
    const ASSIGN: [&str; 3] = ["=", ":=", "?="];
    let begins = |w: &str| ASSIGN.iter().any(|a| w.starts_with(a));
    // `CACHE PATH` of cmake is a kind of variable.
    let sets = |(w, next): (&str, &str)| {
        w.strip_prefix("PATH").is_some_and(|rest| begins(if rest.is_empty() { next } else { rest }))
    };
    // What only adds folders behind it does no harm.
    let behind = |p: &&str| line.contains(*p) && !line.contains(&format!(":{p}"));
    let keeps = ["$PATH", "$(PATH)", "${PATH}"].iter().any(behind);
    (words.clone().zip(words.skip(1).chain([""])).any(sets) && !keeps).then(|| "sets PATH".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "/cache/cc-1";

    #[test]
    fn a_compiler_by_an_absolute_path_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("Makefile"),
            "# /usr/bin/gcc\nCC=/usr/bin/gcc-12 -O2\nall:\n\techo /usr/bin/env\n",
        )
        .unwrap();
        let ours = Path::new(OURS);
        let named = compilers_named(dir.path(), ours);
        assert_eq!(shown(&named), ["Makefile:2 names /usr/bin/gcc-12"]);
        assert!(remedy(&named).contains("make CC=cc"));
        fs::write(dir.path().join("Makefile"), "").unwrap();
        fs::write(dir.path().join("C.cmake"), "set(CMAKE_C_COMPILER \"/cache/cc-1/cc\")\n").unwrap();
        assert!(compilers_named(dir.path(), ours).is_empty());
    }

    fn shown(named: &[Named]) -> Vec<String> {
        named.iter().map(Named::to_string).collect()
    }

    #[test]
    fn what_cmake_wrote_down_is_named_only_where_nobody_else_names_a_compiler() {
        let dir = tempfile::tempdir().unwrap();
        let put = |at: &str, text: &str| {
            let at = dir.path().join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        };
        put(".tussle-build/CMakeCache.txt", "");
        put(
            ".tussle-build/CMakeFiles/3.25.1/CMakeCCompiler.cmake",
            "set(CMAKE_C_COMPILER \"/usr/bin/gcc\")\n",
        );
        let found = compilers_named(dir.path(), Path::new(OURS));
        assert!(shown(&found)[0].contains("CMakeCCompiler.cmake:1 names /usr/bin/gcc"), "{found:?}");
        assert!(remedy(&found).contains("cmake -DCMAKE_C_COMPILER=cc"));
        put("cross.cmake", "\nset(CMAKE_C_COMPILER /opt/arm-linux-gcc)\n");
        assert_eq!(compilers_named(dir.path(), Path::new(OURS)), found, "a file that was not read");
        put("tools.cmake", "\nset(CMAKE_C_COMPILER /usr/bin/gcc)\n");
        let found = compilers_named(dir.path(), Path::new(OURS));
        assert_eq!(shown(&found), ["tools.cmake:2 names /usr/bin/gcc"]);
        assert!(remedy(&found).contains("set(CMAKE_C_COMPILER gcc)"));
    }

    #[test]
    fn a_folder_in_a_variable_is_named_with_it() {
        let check = |line: &str, expect: &str| {
            assert_eq!(named(line, true, OURS).pop().map(|n| n.1).as_deref(), Some(expect), "{line}");
        };
        check("CC := $(TOOLS)/gcc -O2", "names $(TOOLS)/gcc");
        check("CC=\"${TOOLS}/bin/gcc\"", "names ${TOOLS}/bin/gcc");
        check("set(CMAKE_C_COMPILER /opt/bin/gcc)", "names /opt/bin/gcc");
        assert!(named("CC := $(CROSS)gcc", true, OURS).is_empty());
    }

    #[test]
    fn a_path_of_its_own_is_named_and_one_that_only_grows_is_not() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(named(text, true, OURS).pop().map(|n| n.1).as_deref(), expect, "{text}");
        };
        check("\t@env -i PATH=/usr/bin $(MAKE)", Some("empties the environment (env -i)"));
        check("PATH = /opt", Some("sets PATH"));
        check("export PATH := /usr/bin:/bin", Some("sets PATH"));
        check("PATH=/opt/gcc/bin:$PATH make", Some("sets PATH"));
        check("PATH=$PATH:/opt/tools make", None);
        check("\tenv A=1 make", None);
        check("VPATH = src", None);
        check("set(PREFIX /usr CACHE PATH \"where (default=/usr)\")", None);
        check("install: $(PATH)", None);
    }
}
