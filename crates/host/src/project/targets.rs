//! The programs that a build left: as its own description names them, else executables that were not there before.

use super::described::{Described, by_cmake, by_meson, json};
use super::{BUILD_FOLDER, BuildError, System};
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
            System::CMake => by_cmake(&build),
            System::Meson => by_meson(&build),
            _ => None,
        };
        // What a description leaves to builds of its own (`ExternalProject_Add`) it does not name.
        let described = described.filter(|d| !d.programs.is_empty());
        let only = described.as_ref().and_then(Described::only);
        let (found, helpers) = match described {
            Some(d) => (d.programs, d.helpers),
            None => {
                let made = Described::by_make(copy, Programs::made(copy, before));
                (made.programs, made.helpers)
            }
        };
        let tests = tests_of(system, &build);
        let mut out = Programs::default();
        for path in own_files(&found) {
            let relative = path.strip_prefix(copy).unwrap_or(path).to_path_buf();
            let example = system.of_examples() && is_example(&relative);
            let aside = tests.contains(path) || helpers.contains(path) || is_aside(&relative) && !example;
            let one = only.as_deref() == Some(path);
            if aside && !one { &mut out.others } else { &mut out.candidates }.push(relative);
        }
        out.as_cargo_runs(system, copy);
        out
    }

    /// Executables that are new or other than before.
    fn made(copy: &Path, before: &Before) -> Vec<PathBuf> {
        let now = Programs::before(copy).0.into_iter();
        now.filter(|(p, time)| before.0.get(p) != Some(time)).map(|(p, _)| copy.join(p)).collect()
    }

    /// Of several programs of a package `default-run` is the one that `cargo run` means.
    fn as_cargo_runs(&mut self, system: &System, copy: &Path) {
        let package = match system {
            System::Cargo(_) => copy.to_path_buf(),
            System::Member(at, _) => copy.join(at),
            _ => return,
        };
        let Some(name) = super::workspace::default_run(&package) else { return };
        let is_it = |p: &PathBuf| p.file_name().is_some_and(|n| n == name.as_str());
        if self.candidates.iter().any(is_it) {
            let (one, rest) = self.candidates.drain(..).partition(is_it);
            self.candidates = one;
            self.others.splice(0..0, rest);
        }
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

/// Programs among the paths, each file once: of `ln gzip gunzip` the shorter name, of what `install` has copied the
/// first.
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
    let mut seen = BTreeSet::new();
    // An installed copy may have another RPATH, in as many bytes.
    out.retain(|p| {
        let len = fs::metadata(p).map_or(0, |m| m.len());
        seen.insert((p.file_name(), len))
    });
    out
}

/// An example that cargo has built.
fn is_example(relative: &Path) -> bool {
    relative.parent().is_some_and(|p| p.ends_with("examples"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_probes_are_no_candidates() {
        let aside = |p: &str| is_aside(Path::new(p));
        for p in ["CMakeFiles/3.25/CompilerIdC/a.out", "conftest", "tests/t", "src/queue_test", "test_it"] {
            assert!(aside(p), "{p}");
        }
        assert!(aside("release/examples/busy") && is_example(Path::new("release/examples/busy")));
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

    /// A build folder with these programs and files in it; what is a candidate and what is not.
    fn programs(system: &System, programs: &[&str], files: &[(&str, String)]) -> [Vec<String>; 2] {
        let dir = tempfile::tempdir().unwrap();
        let build = dir.path().join(BUILD_FOLDER);
        let put = |name: &str, bytes: &[u8]| {
            fs::create_dir_all(build.join(name).parent().unwrap()).unwrap();
            fs::write(build.join(name), bytes).unwrap();
        };
        for (n, name) in programs.iter().enumerate() {
            // Those of one name are copies of each other.
            let same = |p: &&str| Path::new(p).file_name() == Path::new(name).file_name();
            let size = if programs[..n].iter().any(same) { 0 } else { n };
            put(name, &[b"\x7fELF".as_slice(), &[0; 12], &[2; 4], &vec![0; size]].concat());
            fs::set_permissions(build.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (name, text) in files {
            put(name, text.replace("BUILD", &build.to_string_lossy()).as_bytes());
        }
        let after = Programs::after(system, dir.path(), &Before::default());
        let names = |list: &[PathBuf]| {
            list.iter().map(|p| p.strip_prefix(BUILD_FOLDER).unwrap_or(p).display().to_string()).collect()
        };
        [names(&after.candidates), names(&after.others)]
    }

    fn target(name: &str, kind: &str, needs: &[&str]) -> (String, String) {
        let needs: Vec<_> = needs.iter().map(|n| serde_json::json!({ "id": n })).collect();
        let v = serde_json::json!({
            "id": name, "type": kind, "artifacts": [{ "path": name }], "dependencies": needs,
        });
        (format!(".cmake/api/v1/reply/target-{name}.json"), v.to_string())
    }

    fn cmake(programs_of: &[&str], targets: &[(String, String)], tests: &str) -> [Vec<String>; 2] {
        let mut files: Vec<(&str, String)> = targets.iter().map(|(n, t)| (n.as_str(), t.clone())).collect();
        files.push(("CTestTestfile.cmake", tests.into()));
        programs(&System::CMake, programs_of, &files)
    }

    #[test]
    fn programs_of_builds_within_the_build_are_found_and_installed_copies_are_one() {
        let [found, _] = cmake(
            &["engine/app", "stage/bin/app", "engine/CMakeFiles/a.out"],
            &[target("engine", "UTILITY", &[])],
            "",
        );
        assert_eq!(found, ["engine/app"]);
    }

    #[test]
    fn the_only_program_is_run_also_where_it_is_a_test() {
        let [found, _] =
            cmake(&["jobs"], &[target("jobs", "EXECUTABLE", &[])], "add_test(runs \"BUILD/jobs\")\n");
        assert_eq!(found, ["jobs"]);
    }

    #[test]
    fn what_the_build_runs_is_no_candidate_where_there_is_another() {
        let tool = target("mk", "EXECUTABLE", &[]);
        let app = target("app", "EXECUTABLE", &["mk"]);
        let all = target("everything", "UTILITY", &["app"]);
        let plugin = target("plugin", "MODULE_LIBRARY", &["app"]);
        let [found, aside] = cmake(&["mk", "app"], &[tool.clone(), app, all, plugin], "");
        assert_eq!((found, aside), (vec!["app".into()], vec!["mk".to_string()]));
        let library = target("lib", "STATIC_LIBRARY", &["mk"]);
        assert_eq!(cmake(&["mk"], &[tool, library], "")[0], ["mk"]);
        let meson = |custom: &str| {
            let text = serde_json::json!([
                { "name": "mk", "type": "executable", "filename": ["BUILD/mk"], "subproject": null },
                { "name": "app", "type": "executable", "filename": ["BUILD/app"], "subproject": null },
                { "name": "h", "type": "custom", "target_sources": [{ "compiler": [custom] }] },
            ]);
            let file = ("meson-info/intro-targets.json", text.to_string());
            programs(&System::Meson, &["mk", "app"], &[file])[0].clone()
        };
        assert_eq!(meson("mk"), ["app"]);
        assert_eq!(meson("BUILD/mk"), ["app"]);
        assert_eq!(meson("python3"), ["app", "mk"]);
    }

    #[test]
    fn of_a_package_the_program_that_cargo_runs_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Cargo.toml"), "[package]\ndefault-run = 'serve'\n").unwrap();
        let all =
            || Programs { candidates: vec!["release/admin".into(), "release/serve".into()], others: vec![] };
        let mut of_cargo = all();
        of_cargo.as_cargo_runs(&System::Cargo(Default::default()), dir.path());
        assert_eq!(of_cargo.candidates, [Path::new("release/serve")]);
        assert_eq!(of_cargo.others, [Path::new("release/admin")]);
        let mut of_make = all();
        of_make.as_cargo_runs(&System::Make, dir.path());
        assert_eq!(of_make, all());
    }
}
