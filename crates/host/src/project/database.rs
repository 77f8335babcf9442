//! A compilation database as a build: every file compiled in a copy, all objects linked to one program.

use super::scratch::{BUILD_FOLDER, ScratchError};
use super::system::{SCRIPT, quoted};
use crate::fix::compdb::{self, Entry};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Moves the database of a copy to the copy's paths, and writes the script that builds it. `origin` is the user's
/// folder, `from` what was copied.
pub(super) fn prepare(origin: &Path, from: &Path, copy: &Path, file: &Path) -> Result<(), ScratchError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ScratchError::Io { path, source }
    };
    let entries =
        compdb::of_folder(&from.join(file), from).map_err(|e| ScratchError::Database(e.to_string()))?;
    let from = from.canonicalize().map_err(failed(from))?;
    let entries: Vec<Entry> = entries.iter().map(|e| e.moved(&from, copy)).collect();
    let rows = Value::Array(entries.iter().map(Entry::row).collect());
    let at = copy.join(file);
    fs::write(&at, rows.to_string()).map_err(failed(&at))?;
    let build = copy.join(BUILD_FOLDER);
    fs::create_dir_all(&build).map_err(failed(&build))?;
    // What lies elsewhere is not ours to make.
    for entry in entries.iter().filter(|e| e.directory.starts_with(copy)) {
        let _ = fs::create_dir_all(&entry.directory);
    }
    let units: Vec<Unit<'_>> =
        entries.iter().map(|e| Unit { dir: &e.directory, words: &e.arguments }).collect();
    let script = script(&units, &build, &program_name(origin));
    fs::write(build.join(SCRIPT), script).map_err(failed(&build))
}

struct Unit<'a> {
    dir: &'a Path,
    words: &'a [String],
}

fn program_name(origin: &Path) -> String {
    origin.file_name().map_or_else(|| "program".into(), |n| n.to_string_lossy().into_owned())
}

/// One line per file, then the link by the driver of the most demanding language.
fn script(units: &[Unit<'_>], build: &Path, program: &str) -> String {
    let mut out = String::from("set -e\n");
    let mut objects = Vec::new();
    for (i, u) in units.iter().enumerate() {
        let object = build.join(format!("{i}.o")).to_string_lossy().into_owned();
        let mut words: Vec<String> = u.words.iter().map(|w| quoted(w)).collect();
        if let Some(first) = words.first_mut() {
            *first = quoted(&by_name(&u.words[0]));
        }
        words.extend(["-c".into(), "-o".into(), quoted(&object)]);
        out += &format!("(cd {} && {})\n", quoted(&u.dir.to_string_lossy()), words.join(" "));
        objects.push(quoted(&object));
    }
    let cpp = |u: &Unit<'_>| {
        u.words
            .first()
            .is_some_and(|c| super::wrapper::language_of(&by_name(c)) == Some(crate::cc::Language::Cxx))
    };
    let driver =
        units.iter().find(|u| cpp(u)).or(units.first()).map_or("cc".into(), |u| by_name(&u.words[0]));
    let target = build.join(program);
    out += &format!(
        "{driver} -pthread -o {} {} -lm -ldl\n",
        quoted(&target.to_string_lossy()),
        objects.join(" ")
    );
    out
}

/// A compiler without its folder, so that `PATH` decides.
fn by_name(compiler: &str) -> String {
    let name = PathBuf::from(compiler).file_name().map(|n| n.to_string_lossy().into_owned());
    name.filter(|n| super::wrapper::language_of(n).is_some()).unwrap_or_else(|| compiler.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_compiled_by_name_and_all_are_linked() {
        let words = |t: &str| t.split(' ').map(String::from).collect::<Vec<_>>();
        let (a, b) = (words("/usr/bin/cc -O2 a.c"), words("/usr/bin/c++ -DX b.cc"));
        let dir = Path::new("/s");
        let units = [Unit { dir, words: &a }, Unit { dir, words: &b }];
        let text = script(&units, Path::new("/s/b"), "p");
        assert!(text.contains("(cd /s && cc -O2 a.c -c -o /s/b/0.o)\n"), "{text}");
        assert!(text.ends_with("c++ -pthread -o /s/b/p /s/b/0.o /s/b/1.o -lm -ldl\n"), "{text}");
    }
}
