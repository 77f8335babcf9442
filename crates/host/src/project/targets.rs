//! The programs that a build left: as its own description names them, else executables that were not there before.

use super::{BUILD_FOLDER, BuildError, System};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders are looked through to this depth.
const DEPTH_MAX: usize = 16;

/// ELF executables of a folder with the time of their last change.
#[derive(Clone, Debug, Default)]
pub struct Before(BTreeMap<PathBuf, Option<SystemTime>>);

/// Programs of a built copy, relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// Those that the project is about.
    pub candidates: Vec<PathBuf>,
    /// Its tests, and what it tried while it configured itself.
    pub others: Vec<PathBuf>,
}

impl Programs {
    /// What is there before a build.
    pub fn before(copy: &Path) -> Before {
        let mut found = Before::default();
        found.collect(copy, Path::new(""), DEPTH_MAX);
        found
    }

    /// Programs and shared libraries below a folder that are not older than `since`.
    pub(super) fn linked(copy: &Path, since: SystemTime) -> Vec<PathBuf> {
        let mut found = crate::fix::elf_files(copy, since, crate::fix::DEPTH_MAX);
        found.retain(|p| is_linked(p));
        found.sort();
        found
    }

    /// What a build left.
    pub fn after(system: &System, copy: &Path, before: &Before) -> Programs {
        let build = copy.join(BUILD_FOLDER);
        let described = match system {
            System::CMake => described_by_cmake(&build),
            System::Meson => described_by_meson(&build),
            _ => None,
        };
        let tests = tests_of(system, &build);
        let found = described.unwrap_or_else(|| {
            let now = Programs::before(copy).0;
            now.into_iter()
                .filter(|(p, time)| before.0.get(p) != Some(time))
                .map(|(p, _)| copy.join(p))
                .collect()
        });
        let mut out = Programs::default();
        for path in own_files(&found) {
            let relative = path.strip_prefix(copy).unwrap_or(path).to_path_buf();
            let aside = tests.contains(path) || is_aside(&relative);
            if aside { &mut out.others } else { &mut out.candidates }.push(relative);
        }
        out
    }

    /// The one candidate.
    ///
    /// # Errors
    /// There is none, or there are several; tests are listed when there is nothing else.
    pub fn only(&self, system: &System) -> Result<PathBuf, BuildError> {
        let command = system.command();
        match (self.candidates.as_slice(), self.others.as_slice()) {
            ([one], _) => Ok(one.clone()),
            ([], []) => Err(BuildError::NoExecutable { command }),
            ([], many) | (many, _) => {
                let found = many.iter().map(|p| p.display().to_string()).collect();
                Err(BuildError::ManyExecutables { command, found })
            }
        }
    }

    /// The program that somebody asks for by a path or by its name.
    pub fn named(&self, copy: &Path, asked: &Path) -> Option<PathBuf> {
        let asked = asked.strip_prefix(".").unwrap_or(asked);
        let places = [asked.to_path_buf(), Path::new(BUILD_FOLDER).join(asked)];
        let there = places.into_iter().find(|p| copy.join(p).is_file());
        let all = || self.candidates.iter().chain(&self.others);
        there
            .or_else(|| all().find(|p| p.ends_with(asked)).cloned())
            .or_else(|| all().find(|p| p.file_name() == asked.file_name()).cloned())
    }

    /// All of them, for people.
    pub fn names(&self) -> Vec<String> {
        self.candidates.iter().chain(&self.others).map(|p| p.display().to_string()).collect()
    }
}

impl Before {
    fn collect(&mut self, dir: &Path, relative: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let relative = relative.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => self.collect(&entry.path(), &relative, depth - 1),
                Ok(kind) if kind.is_file() && is_program(&entry.path()) => {
                    let time = entry.metadata().ok().and_then(|m| m.modified().ok());
                    self.0.insert(relative, time);
                }
                _ => {}
            }
        }
    }
}

/// An executable ELF file that has an entry point: shared libraries are often marked executable too, but have none
/// that anybody starts them by.
fn is_program(path: &Path) -> bool {
    use std::io::Read;
    let runnable = fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let mut head = [0u8; 20];
    let elf = runnable
        && fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok()
        && head.starts_with(b"\x7fELF")
        && matches!(head[16], 2 | 3);
    elf && !path.file_name().is_some_and(|n| n.to_string_lossy().contains(".so"))
}

/// An ELF file of the kinds `ET_EXEC` and `ET_DYN`.
fn is_linked(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0u8; 18];
    let read = fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok();
    read && head.starts_with(b"\x7fELF") && matches!(head[16], 2 | 3)
}

/// Programs among the paths, each file once: of `ln gzip gunzip` the shorter name.
fn own_files(found: &[PathBuf]) -> Vec<&PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let mut files: BTreeMap<(u64, u64), &PathBuf> = BTreeMap::new();
    let length = |p: &Path| p.file_name().map_or(0, std::ffi::OsStr::len);
    for path in found.iter().filter(|p| is_program(p)) {
        let Ok(m) = fs::metadata(path) else { continue };
        let one = files.entry((m.dev(), m.ino())).or_insert(path);
        if length(path) < length(one) {
            *one = path;
        }
    }
    let mut out: Vec<&PathBuf> = files.into_values().collect();
    out.sort_unstable();
    out
}

/// What a build tries while it configures itself, its helpers and its tests, by their names.
fn is_aside(relative: &Path) -> bool {
    let inside =
        |name: &str| relative.parent().is_some_and(|p| p.components().any(|c| c.as_os_str() == name));
    let name = relative.file_name().unwrap_or_default().to_string_lossy();
    const FOLDERS: [&str; 11] = [
        "CMakeFiles",
        "meson-private",
        "test",
        "tests",
        "testing",
        "deps",
        "build",
        "examples",
        "incremental",
        "bench",
        "benches",
    ];
    // cargo's `build` folder holds build scripts; for others `build` is where programs lie.
    let cargo = inside("release") || inside("debug");
    let folder = FOLDERS.iter().any(|f| inside(f) && (cargo || !matches!(*f, "deps" | "build" | "examples")));
    folder
        || name.starts_with("conftest")
        || name.starts_with("test_")
        || name.starts_with("test-")
        || name.ends_with("_test")
        || name.ends_with("-test")
        || name == "test"
}

/// Executables of cmake's file API (`codemodel-v2`), absolute; `None` if there is no answer.
fn described_by_cmake(build: &Path) -> Option<Vec<PathBuf>> {
    let reply = build.join(".cmake/api/v1/reply");
    let targets = fs::read_dir(&reply)
        .ok()?
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("target-"));
    let mut out = BTreeSet::new();
    for target in targets {
        let Some(v) = json(&target.path()) else { continue };
        if v["type"] == "EXECUTABLE" {
            let paths = v["artifacts"].as_array().into_iter().flatten().filter_map(|a| a["path"].as_str());
            out.extend(paths.map(|p| build.join(p)));
        }
    }
    Some(out.into_iter().collect())
}

/// Executables of `meson introspect --targets`, as the build folder keeps them; tools of subprojects only where the
/// project has no program of its own.
fn described_by_meson(build: &Path) -> Option<Vec<PathBuf>> {
    let targets = json(&build.join("meson-info/intro-targets.json"))?;
    let all: Vec<&Value> = targets.as_array()?.iter().filter(|t| t["type"] == "executable").collect();
    let own: Vec<&Value> = all.iter().copied().filter(|t| t["subproject"].is_null()).collect();
    let programs = if own.is_empty() { all } else { own };
    let files = programs.into_iter().flat_map(|t| t["filename"].as_array().into_iter().flatten());
    Some(files.filter_map(|f| f.as_str().map(PathBuf::from)).collect())
}

/// Programs that the build runs as tests.
fn tests_of(system: &System, build: &Path) -> BTreeSet<PathBuf> {
    match system {
        System::CMake => {
            let mut out = BTreeSet::new();
            ctest(build, DEPTH_MAX, &mut out);
            out
        }
        System::Meson => ["intro-tests.json", "intro-benchmarks.json"]
            .iter()
            .filter_map(|f| json(&build.join("meson-info").join(f)))
            .flat_map(|v| v.as_array().cloned().unwrap_or_default())
            .filter_map(|t| t["cmd"][0].as_str().map(PathBuf::from))
            .collect(),
        _ => BTreeSet::new(),
    }
}

/// `add_test(name "/path/of/program" ..)` in the files that ctest reads.
fn ctest(dir: &Path, depth: usize, out: &mut BTreeSet<PathBuf>) {
    let text = fs::read_to_string(dir.join("CTestTestfile.cmake")).unwrap_or_default();
    let tests = text.lines().filter(|l| l.starts_with("add_test("));
    // Old policies of cmake leave the bare name of a target.
    out.extend(tests.filter_map(|l| l.split('"').nth(1)).map(|program| dir.join(program)));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|e| depth > 0 && e.file_type().is_ok_and(|t| t.is_dir()));
    folders.for_each(|e| ctest(&e.path(), depth - 1, out));
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_probes_are_no_candidates() {
        let aside = |p: &str| is_aside(Path::new(p));
        for p in ["CMakeFiles/3.25/CompilerIdC/a.out", "conftest", "tests/t", "src/queue_test", "test_it"] {
            assert!(aside(p), "{p}");
        }
        for p in ["x86_64-unknown-linux-gnu/release/deps/p-1", "release/build/p-1/build-script-build"] {
            assert!(aside(p), "{p}");
        }
        for p in ["server", "build/server", "deps/tool", "x86_64-unknown-linux-gnu/release/server", "latest"]
        {
            assert!(!aside(p), "{p}");
        }
    }

    #[test]
    fn programs_are_found_by_path_or_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let programs = Programs { candidates: vec!["bin/server".into()], others: vec!["t/check".into()] };
        let named = |n: &str| programs.named(dir.path(), Path::new(n));
        assert_eq!(named("./server"), Some("bin/server".into()));
        assert_eq!(named("check"), Some("t/check".into()));
        assert_eq!(named("sleep"), None);
    }

    #[test]
    fn names_of_one_file_are_one_program_and_bare_names_of_tests_are_tests() {
        let dir = tempfile::tempdir().unwrap();
        let build = dir.path().join(BUILD_FOLDER);
        fs::create_dir_all(build.join("sub")).unwrap();
        let program = |name: &str| {
            fs::write(build.join(name), [b"\x7fELF".as_slice(), &[0; 12], &[2; 4]].concat()).unwrap();
            fs::set_permissions(build.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        ["gzip", "sub/Checks"].into_iter().for_each(program);
        fs::hard_link(build.join("gzip"), build.join("gunzip")).unwrap();
        fs::write(build.join("sub/CTestTestfile.cmake"), "add_test(Checks \"Checks\")\n").unwrap();
        let after = Programs::after(&System::CMake, dir.path(), &Before::default());
        let name = |n: &str| Path::new(BUILD_FOLDER).join(n);
        assert_eq!(after.candidates, [name("gzip")]);
        assert_eq!(after.others, [name("sub/Checks")]);
    }
}
