//! Why a build did not use the compilers that stand first in `PATH`: its description names one by an absolute path, or
//! has a `PATH` of its own.

use std::fs;
use std::path::Path;

use super::wrapper::language_of;

/// Descriptions above this are not read, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Places that are shown.
const PLACES_MAX: usize = 3;

/// `Makefile:3 names /usr/bin/gcc`, for the first places in files that describe the build of a folder. Compilers below
/// `ours` are those that stand first in `PATH`: cmake writes down where it found them.
pub fn compilers_named(dir: &Path, ours: &Path) -> Vec<String> {
    let mut out = Vec::new();
    look((dir, &ours.to_string_lossy()), Path::new(""), 4, &mut out);
    out
}

fn look((dir, ours): (&Path, &str), relative: &Path, depth: usize, out: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(dir.join(relative)) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let path = relative.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if out.len() >= PLACES_MAX {
            return;
        }
        if kind.is_dir() && depth > 0 {
            look((dir, ours), &path, depth - 1, out);
        } else if kind.is_file() && describes_a_build(&path) {
            let small = entry.metadata().is_ok_and(|m| m.len() <= BYTES_MAX);
            let text =
                if small { fs::read_to_string(entry.path()).unwrap_or_default() } else { String::new() };
            // autoconf's scripts turn PATH about for questions of their own.
            let own = !path.ends_with("configure");
            let found = named(&text, own, ours).into_iter();
            out.extend(found.map(|(n, what)| format!("{}:{n} {what}", path.display())));
            out.truncate(PLACES_MAX);
        }
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
        assert_eq!(compilers_named(dir.path(), ours), ["Makefile:2 names /usr/bin/gcc-12"]);
        fs::write(dir.path().join("Makefile"), "").unwrap();
        fs::write(dir.path().join("C.cmake"), "set(CMAKE_C_COMPILER \"/cache/cc-1/cc\")\n").unwrap();
        assert!(compilers_named(dir.path(), ours).is_empty());
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
