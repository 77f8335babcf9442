//! The same small program in C, C++ and Rust from every build system: found, named, patched, and the folder as it was.
//! All of it with `TUSSLE_SLOW=builds`, which prints the table of docs/validation/builds.md; without, a part.

#![allow(clippy::unwrap_used)]

mod builds {
    pub mod folders;
}

use builds::folders::{self, Folder};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tussle_testkit::{need, slow};

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.args(arguments).current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache")).env("NO_COLOR", "1");
    c.env_remove("CARGO_TARGET_DIR").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Hunts in `folder`; the view, and what was said.
fn hunt(folder: &Folder, at: &Path, more: &[&str]) -> (Value, String) {
    let mut arguments = vec!["hunt", folder.argument, "--no-bench", "--format", "json"];
    arguments.extend(more);
    let out = tussle(at, &arguments);
    let said = text(&out.stderr);
    assert!(out.status.code().is_some_and(|c| c < 2), "{}: {said}", folder.name);
    (serde_json::from_slice(&out.stdout).unwrap(), said)
}

/// Each of the three structs in the view: named in a line, and repaired, by a patch of it or of a type inside of it.
fn found(view: &Value, structs: &[&str; 3]) -> [(bool, bool); 3] {
    let list = |key: &str| view[key].as_array().cloned().unwrap_or_default();
    let names = |row: &Value, what: &str, name: &str| row[what].as_str().is_some_and(|t| t.contains(name));
    structs.map(|s| {
        let of_it = list("patches").iter().any(|p| names(p, "type", s));
        let case = |f: &Value| names(f, "message", s);
        let findings = list("findings");
        let ended = |f: &Value| names(f, "message", "; repaired by the patch");
        let repaired = of_it || findings.iter().any(case) && findings.iter().filter(|f| case(f)).all(ended);
        (repaired || list("lines").iter().any(|l| names(l, "fields", s)), repaired)
    })
}

/// Hunts there may be of one program. On a busy machine threads may take turns: a case is not seen then, or not again,
/// or nothing can be said of a patch, and hunt says so.
const HUNTS_MAX: usize = 3;

fn is_undecided(view: &Value) -> bool {
    let passed = view["passed_over"].as_array().cloned().unwrap_or_default();
    let unsaid = |row: &Value| row["reason"].as_str().is_some_and(|r| r.starts_with("cannot say"));
    !view["vanished"].is_null() || passed.iter().any(unsaid)
}

/// The struct's fields are named and it is patched; the folder is as it was. One row of the table.
fn check(folder: &Folder) -> Option<String> {
    if !folder.needs.iter().all(|n| need(n)) {
        return None;
    }
    let lab = tempfile::tempdir().unwrap();
    folder.write(lab.path());
    let before = folders::stamps(lab.path());
    let mut hunted = hunt(folder, lab.path(), &[]);
    for _ in 1..HUNTS_MAX {
        let all = found(&hunted.0, &folder.structs()).iter().all(|(named, patched)| *named && *patched);
        if all && !is_undecided(&hunted.0) {
            break;
        }
        hunted = hunt(folder, lab.path(), &[]);
    }
    let (view, said) = hunted;
    let after: Vec<_> = folders::stamps(lab.path());
    assert_eq!(before, after, "{}: the folder was changed", folder.name);
    let result = found(&view, &folder.structs());
    for (name, (named, patched)) in folder.structs().iter().zip(result) {
        assert!(named, "{}: {name} is not named: {view:#}\n{said}", folder.name);
        assert!(patched, "{}: {name} is not patched: {view:#}\n{said}", folder.name);
    }
    let word = |(n, p): (bool, bool)| {
        if p {
            "patched"
        } else if n {
            "named"
        } else {
            "-"
        }
    };
    let cells: Vec<&str> = result.into_iter().map(word).collect();
    Some(format!("| {} | {} |", folder.name, cells.join(" | ")))
}

#[test]
fn a_program_is_repaired_whatever_builds_it() {
    for name in ["C, cmake", "Rust, cargo"] {
        check(folders::all().iter().find(|f| f.name == name).unwrap());
    }
}

#[test]
fn every_language_from_every_build_system() {
    if !slow("builds") {
        return;
    }
    println!("| program | counters | lock and data | queue |\n|---|---|---|---|");
    for folder in folders::all() {
        if let Some(row) = check(&folder) {
            println!("{row}");
        }
    }
}

/// An older build in the folder, in which cmake has the folder's absolute path written down, stays as it is.
#[test]
fn an_older_build_in_the_folder_stays_as_it_is() {
    if !need("cmake") || !need("make") {
        return;
    }
    let all = folders::all();
    let folder = all.iter().find(|f| f.name == "C, cmake").unwrap();
    let lab = tempfile::tempdir().unwrap();
    folder.write(lab.path());
    let dir = lab.path().join(folder.argument);
    let cmake = |args: &[&str]| {
        assert!(Command::new("cmake").args(args).current_dir(&dir).output().unwrap().status.success())
    };
    cmake(&["-S", ".", "-B", "build"]);
    cmake(&["--build", "build"]);
    std::fs::write(dir.join("Makefile"), "all:\n\t$(MAKE) -C build\n").unwrap();
    let before = folders::stamps(lab.path());
    let out = tussle(lab.path(), &["hunt", folder.argument, "--no-bench", "--build", "make"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("left out of the copy as output of a build: build"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(before, folders::stamps(lab.path()));
}

#[test]
fn a_build_that_writes_into_the_folder_is_stopped() {
    let lab = tempfile::tempdir().unwrap();
    let dir = lab.path().join("p");
    std::fs::create_dir(&dir).unwrap();
    let build = format!("touch {}/written", dir.canonicalize().unwrap().display());
    let out = tussle(lab.path(), &["hunt", "p", "--build", &build]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("written appeared while"), "{}", text(&out.stderr));
}

/// What the program itself writes into the folder is no build's doing: it is told, and the hunt goes on.
#[test]
fn a_program_that_writes_into_the_folder_is_told_of() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let main = "#include <stdio.h>\nint main(int n, char **v) {\n  FILE *f = fopen(v[n - 1], \"a\");\n  \
                return !f || fputs(\"/**/\", f) < 0 || fclose(f);\n}\n";
    let files = [("p/main.c", main), ("p/Makefile", RULE), ("p/log.txt", "x\n")];
    put(lab.path(), &files);
    let run = |file: &str| {
        let at = lab.path().canonicalize().unwrap().join("p").join(file);
        text(&tussle(lab.path(), &["hunt", "p", "--run", &format!("./app {}", at.display())]).stderr)
    };
    let said = run("log.txt");
    assert!(said.contains("log.txt was written to while `./app "), "{said}");
    assert!(!said.contains("make -B` built") && !said.contains("a source"), "{said}");
    let said = run("main.c");
    assert!(said.contains("main.c was written to while `./app ") && said.contains("a source"), "{said}");
}

#[test]
fn an_absolute_compiler_is_named_as_the_reason() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let at = |n: &str| lab.path().join("p").join(n);
    std::fs::create_dir(lab.path().join("p")).unwrap();
    let gcc = text(&Command::new("sh").args(["-c", "command -v gcc"]).output().unwrap().stdout);
    std::fs::write(at("a.c"), "int main(void) { return 0; }\n").unwrap();
    std::fs::write(at("Makefile"), format!("CC = {}\na: a.c\n\t$(CC) -o a a.c\n", gcc.trim())).unwrap();
    let out = tussle(lab.path(), &["hunt", "p"]);
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    assert!(said.contains(&format!("Makefile:1 names {}", gcc.trim())) && said.contains("--build"), "{said}");
}

/// What cmake is told on its command line does not overrule what its files say.
#[test]
fn of_cmake_the_line_is_named_that_has_an_absolute_compiler() {
    if !need("cmake") || !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let gcc = text(&Command::new("sh").args(["-c", "command -v gcc"]).output().unwrap().stdout);
    let list = |compiler: &str| {
        format!(
            "cmake_minimum_required(VERSION 3.16)\nset(CMAKE_C_COMPILER {compiler})\nproject(p C)\n\
             add_executable(p a.c)\n"
        )
    };
    put(lab.path(), &[("p/a.c", "int main(void) { return 0; }\n"), ("p/CMakeLists.txt", &list(gcc.trim()))]);
    let out = tussle(lab.path(), &["hunt", "p"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    let place = format!("PATH: CMakeLists.txt:2 names {}; write the bare name there", gcc.trim());
    assert!(said.contains(&place) && !said.contains("--build 'make"), "{said}");
    put(lab.path(), &[("p/CMakeLists.txt", &list("gcc"))]);
    let said = text(&tussle(lab.path(), &["hunt", "p"]).stderr);
    assert!(!said.contains("does not take its compiler"), "{said}");
}

#[test]
fn several_programs_are_listed_and_one_is_found_by_its_name() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let at = |n: &str| lab.path().join("p").join(n);
    std::fs::create_dir(lab.path().join("p")).unwrap();
    std::fs::write(at("a.c"), "int main(void) { return 0; }\n").unwrap();
    let rules =
        "all:\n\tmkdir -p bin\n\t$(CC) -o bin/one a.c\n\t$(CC) -o bin/two a.c\n\t$(CC) -o bin/test_it a.c\n";
    std::fs::write(at("Makefile"), rules).unwrap();
    let out = tussle(lab.path(), &["hunt", "p"]);
    let said = text(&out.stderr);
    assert!(said.contains("--run ./bin/one") && said.contains("--run ./bin/two"), "{said}");
    assert!(!said.contains("test_it"), "{said}");
    let out = tussle(lab.path(), &["hunt", "p", "--run", "./two"]);
    assert!(text(&out.stderr).contains("recording ./bin/two"), "{}", text(&out.stderr));
}

/// `record --project` needs nothing but the folder, and `check` reads its rules there and runs nothing.
#[test]
fn a_project_file_says_what_to_record_and_to_check() {
    if !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let at = |n: &str| lab.path().join("p p").join(n);
    std::fs::create_dir(lab.path().join("p p")).unwrap();
    std::fs::write(at("a.c"), "struct s { int a, b; } x;\nint main(int n, char **v) { return n - 2; }\n")
        .unwrap();
    let rules = "[[rule]]\ntype = \"struct s\"\nmax_size = 4\n";
    std::fs::write(at("layout.toml"), rules).unwrap();
    let project =
        "build = \"cc -g -o out a.c\"\nrun = \"./out 1\"\nrules = [\"layout.toml\"]\ncheck = [\"out\"]\n";
    std::fs::write(at("tussle.toml"), project).unwrap();
    let out = tussle(lab.path(), &["record", "--project", "p p"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("cc -g -o out a.c") && said.contains("recording ./out 1"), "{said}");
    assert!(lab.path().join("tussle.data").is_file() && !at("out").exists());
    let out = tussle(&lab.path().join("p p"), &["check"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("tussle: out: No such file") && !at("out").exists(),
        "{}",
        text(&out.stderr)
    );
}

/// A folder's files, each with its folders.
fn put(lab: &Path, files: &[(&str, &str)]) {
    for (at, text) in files {
        let at = lab.join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }
}

const RULE: &str = "app: main.c\n\t$(CC) -g -o app main.c\n";

#[test]
fn links_out_of_the_folder_and_back_are_followed() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let main = "#include \"common/a.h\"\n#include \"again/b.h\"\nint main(void) { return A + B; }\n";
    let files = [("common/a.h", "#define A 0\n"), ("p/own/b.h", "#define B 0\n"), ("p/Makefile", RULE)];
    put(lab.path(), &files);
    put(lab.path(), &[("p/main.c", main)]);
    std::os::unix::fs::symlink("../common", lab.path().join("p/common")).unwrap();
    std::os::unix::fs::symlink("../p/own", lab.path().join("p/again")).unwrap();
    let said = text(&tussle(lab.path(), &["hunt", "p"]).stderr);
    assert!(said.contains("recording ./app"), "{said}");
}

#[test]
fn what_a_build_wants_from_outside_of_the_folder_is_named() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let with = |line: &str| format!("{line}\n{RULE}");
    put(lab.path(), &[("common.mk", "X = 1\n"), ("p/main.c", "int main(void) { return 0; }\n")]);
    let check = |rules: &str, words: &[&str]| {
        put(lab.path(), &[("p/Makefile", rules)]);
        let out = tussle(lab.path(), &["hunt", "p"]);
        let said = text(&out.stderr);
        assert!(out.status.code() == Some(2) && words.iter().all(|w| said.contains(w)), "{said}");
    };
    check(&with("include ../common.mk"), &["../common.mk outside of it", "--build 'make -C p'"]);
    check(
        &with("$(if $(shell git describe --always),,$(error none))"),
        &["version control data are not copied"],
    );
    let wiped = "all:\n\tenv -i PATH=/usr/bin:/bin cc -g -o app main.c\n";
    check(wiped, &["Makefile:2 empties the environment"]);
    let two = r#"[{"directory": "@", "file": "main.c", "command": "cc -c main.c"},
        {"directory": "@", "file": "b.c", "command": "cc -c b.c"}]"#;
    std::fs::remove_file(lab.path().join("p/Makefile")).unwrap();
    let at = lab.path().join("p").canonicalize().unwrap();
    let two = two.replace('@', &at.to_string_lossy());
    put(lab.path(), &[("p/b.c", "int main(void) { return 0; }\n"), ("p/compile_commands.json", &two)]);
    let said = text(&tussle(lab.path(), &["hunt", "p"]).stderr);
    assert!(said.contains("several programs"), "{said}");
}

/// A checkout was moved or copied with its database: the sources of the folder are built, and never others.
#[test]
fn a_database_of_another_place_builds_the_folders_own_sources() {
    if !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let row = r#"[{"directory": "@", "file": "main.c", "command": "cc -g -I@ -c main.c"}]"#;
    let row = row.replace('@', &lab.path().canonicalize().unwrap().join("old").to_string_lossy());
    let says =
        |what: &str| format!("#include <stdio.h>\nint main(void) {{ return puts(\"{what}\") < 0; }}\n");
    put(lab.path(), &[("p/compile_commands.json", &row), ("p/main.c", &says("ours"))]);
    put(lab.path(), &[("old/main.c", "#error another folder's\n")]);
    let hunt = || tussle(lab.path(), &["hunt", "p", "--no-bench"]);
    let said = text(&hunt().stderr);
    assert!(said.contains("recording ./.tussle-build/p"), "{said}");
    std::fs::rename(lab.path().join("p/main.c"), lab.path().join("p/other.c")).unwrap();
    let out = hunt();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    let words = ["compile_commands.json: it was made for", "/old and names no file of", "--build"];
    assert!(words.iter().all(|w| said.contains(w)), "{said}");
    assert_eq!(std::fs::read_dir(lab.path().join("old")).unwrap().count(), 1);
}

/// A package takes its version, its dependencies and its lock file from a workspace above it.
#[test]
fn a_member_of_a_workspace_is_built_there() {
    if !need("cargo") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let package = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion.workspace = true\nedition.workspace = true\n")
    };
    let workspace = "[workspace]\nmembers = [\"app\", \"core\", \"tool\"]\nresolver = \"2\"\n\
                     [workspace.package]\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let app = package("app") + "[dependencies]\ncore-counts = { path = \"../core\" }\n";
    let main = "fn main() { assert!(core_counts::one() == 1) }\n";
    put(lab.path(), &[("p/Cargo.toml", workspace), ("p/app/Cargo.toml", &app), ("p/app/src/main.rs", main)]);
    put(
        lab.path(),
        &[("p/core/Cargo.toml", &package("core-counts")), ("p/tool/src/main.rs", "fn main() {}\n")],
    );
    put(
        lab.path(),
        &[("p/core/src/lib.rs", "pub fn one() -> u8 { 1 }\n"), ("p/tool/Cargo.toml", &package("tool"))],
    );
    let said = text(&tussle(lab.path(), &["hunt", "p/app"]).stderr);
    assert!(said.contains("app is built in its workspace"), "{said}");
    assert!(said.contains("/release/app"), "{said}");
    let said = text(&tussle(lab.path(), &["hunt", "p"]).stderr);
    assert!(said.contains("release/app") && said.contains("release/tool"), "{said}");
    assert!(!lab.path().join("p/Cargo.lock").exists() && !lab.path().join("p/target").exists());
    // What cargo itself is told stays where its workspace is, whatever the current folder.
    let built = tussle(&lab.path().join("p/app"), &["cargo", "build", "--release"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    assert!(lab.path().join("p/target/tussle").is_dir() && !lab.path().join("p/app/target").exists());
}

/// A `--build` that calls cargo is instrumented like the default one, also behind other words, and a program that asks
/// for features is named with them.
#[test]
fn a_command_that_calls_cargo_is_instrumented() {
    if !need("cargo") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let package = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[features]\nextra = []\n\
                   [[bin]]\nname = \"app\"\npath = \"main.rs\"\nrequired-features = [\"extra\"]\n\
                   [lib]\npath = \"lib.rs\"\n";
    let main = "fn main() { std::thread::spawn(app::one).join().unwrap(); }\n";
    let files = [("p/Cargo.toml", package), ("p/main.rs", main), ("p/lib.rs", "pub fn one() {}\n")];
    put(lab.path(), &files);
    // Whoever has one folder for all that cargo builds has it for copies, too.
    let said = |more: &[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(["hunt", "p"])
            .args(more)
            .current_dir(lab.path())
            .env("XDG_CACHE_HOME", lab.path().join("cache"));
        text(&c.env("CARGO_TARGET_DIR", lab.path().join("target")).output().unwrap().stderr)
    };
    let default = said(&[]);
    assert!(
        default.contains("program app has required-features; name them, as in --build 'cargo"),
        "{default}"
    );
    for line in ["cargo build --features extra", "cd . && env A=1 cargo build --release --features extra"] {
        let said = said(&["--build", line]);
        assert!(said.contains("recording ./target/tussle/") && !said.contains("instrumented:"), "{said}");
    }
    assert!(!lab.path().join("p/target").exists() && !lab.path().join("target").exists());
}

/// What the program puts into a library's elements parts these; what the library keeps in them is its own.
#[test]
fn the_programs_struct_in_a_library_s_elements_is_aligned() {
    if !need("cargo") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let main = "use std::sync::{mpsc, Arc, Mutex};
#[derive(Default)]
struct Seat {
    sold: u64,
}
fn main() {
    let seats: Arc<Vec<Mutex<Seat>>> = Arc::new((0..2).map(|_| Mutex::default()).collect());
    let (tell, told) = mpsc::sync_channel(4);
    let sell = |i: usize| {
        let (seats, tell) = (seats.clone(), tell.clone());
        move || for k in 0..60_000u64 {
            seats[i].lock().unwrap().sold += k;
            if k % 1000 == 0 { tell.send(k).unwrap(); }
        }
    };
    let (a, b) = (std::thread::spawn(sell(0)), std::thread::spawn(sell(1)));
    drop(tell);
    let sum: u64 = told.iter().sum();
    a.join().unwrap();
    b.join().unwrap();
    println!(\"{sum}\");
}
";
    let package = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    put(lab.path(), &[("p/Cargo.toml", package), ("p/src/main.rs", main)]);
    let hunt = tussle(lab.path(), &["hunt", "p", "--no-bench"]);
    let said = text(&hunt.stdout);
    assert!(said.contains("+#[repr(align(64))]\n struct Seat {"), "{said}\n{}", text(&hunt.stderr));
    assert_eq!(hunt.status.code(), Some(0), "{said}");
}

/// What only the tests of a library use is fixed by a build of the tests, by itself or on demand.
#[test]
fn a_struct_that_only_tests_use_is_fixed() {
    if !need("cargo") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let source = "use std::sync::atomic::*;\npub struct Ends { pub head: AtomicU32, pub tail: AtomicU32 }\n\
                  #[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn both() {\n        \
                  let ends = Box::new(Ends { head: 1.into(), tail: 1.into() });\n        \
                  assert_eq!(ends.head.load(Ordering::SeqCst), ends.tail.load(Ordering::SeqCst));\n    }\n}\n";
    put(lab.path(), &[("p/Cargo.toml", "[package]\nname = \"ends\"\nedition = \"2021\"\n")]);
    put(lab.path(), &[("p/src/lib.rs", source)]);
    let fix = |more: &[&str]| {
        let arguments = [&["fix", "-C", "Ends", "--move", "align:head=64", "--dir", "p"], more].concat();
        let out = tussle(lab.path(), &arguments);
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    for more in [&[][..], &["--build", "cargo test --no-run"]] {
        let (status, diff, said) = fix(more);
        assert!(status == Some(0) && diff.contains("+pub struct Ends { pub head: CacheLine64"), "{said}");
    }
    let (status, _, said) = fix(&["--build", "cargo build"]);
    assert!(status == Some(2) && said.contains("--build 'cargo test --no-run'"), "{said}");
    let bench = "fn main() { let e = ends::Ends { head: 1.into(), tail: 1.into() }; e.head.into_inner(); }\n";
    put(lab.path(), &[("p/benches/b.rs", bench)]);
    let (status, _, said) = fix(&[]);
    assert!(status == Some(2) && said.contains("src/lib.rs: the patch changes what makes"), "{said}");
}

/// Evidence and patch may have any name in the folder itself.
#[test]
fn files_of_its_own_in_the_folder_do_not_stop_a_hunt() {
    if !need("make") || !need("gcc") {
        return;
    }
    let all = folders::all();
    let folder = all.iter().find(|f| f.name == "C, make").unwrap();
    let lab = tempfile::tempdir().unwrap();
    folder.write(lab.path());
    let at = lab.path().join(folder.argument);
    let files = ["-o", "jobs/mine.data", "--patch", "jobs/mine.patch"];
    let out = tussle(lab.path(), &[&["hunt", folder.argument, "--no-bench"], &files[..]].concat());
    let said = text(&out.stderr);
    assert!(out.status.code().is_some_and(|c| c < 2), "{said}");
    assert!(!said.contains("appeared") && at.join("mine.patch").is_file(), "{said}{}", text(&out.stdout));
}

#[test]
fn a_module_for_cmake_makes_programs_that_can_be_recorded() {
    if !need("cmake") || !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tussle.cmake");
    let list = "cmake_minimum_required(VERSION 3.21)\nproject(p C)\nlist(APPEND CMAKE_MODULE_PATH \
                ${CMAKE_SOURCE_DIR})\ninclude(tussle)\nadd_executable(p main.c)\n";
    put(lab.path(), &[("CMakeLists.txt", list), ("main.c", "int x;\nint main(void) { return x++; }\n")]);
    std::fs::copy(module, lab.path().join("tussle.cmake")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_tussle")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = |line: &str| {
        let mut c = Command::new("sh");
        c.args(["-ec", line]).current_dir(lab.path()).env("PATH", &path).env("XDG_CACHE_HOME", lab.path());
        c.output().unwrap()
    };
    for (on, status) in [("ON", 0), ("OFF", 125)] {
        let built = run(&format!("cmake -S . -B {on} -DTUSSLE={on} && cmake --build {on}"));
        assert!(built.status.success(), "{}", text(&built.stderr));
        let out = run(&format!("tussle record -- {on}/p"));
        assert_eq!(out.status.code(), Some(status), "{on}: {}", text(&out.stderr));
    }
}

/// Two elements side by side, each written by its own thread.
const LANES: &str = "#include <pthread.h>
#include \"../include/lane.h\"
static struct lane lanes[4];
static void *run(void *p) { struct lane *l = p; for (int i = 0; i < 300000; i++) l->n++; return p; }
int main(void) {
	pthread_t t[2];
	for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, run, &lanes[i]);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	return 0;
}
";

/// A header beside the folder in which the compilers stand, and beside the one in which the source lies.
#[test]
fn relative_folders_of_a_database_lead_into_the_copy() {
    if !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let here = lab.path().join("p/build").display().to_string();
    for include in ["\"../include/lane.h\"", "<lane.h>"] {
        let main = LANES.replace("\"../include/lane.h\"", include);
        let database = serde_json::json!([{ "directory": here, "file": "../src/main.c",
            "arguments": ["cc", "-g", "-pthread", "-I../include", "-c", "../src/main.c"] }]);
        let files = [("p/include/lane.h", "struct lane { volatile long n; };\n"), ("p/src/main.c", &main)];
        put(lab.path(), &files);
        put(lab.path(), &[("p/build/compile_commands.json", &database.to_string())]);
        let out = tussle(lab.path(), &["hunt", "p", "--no-bench"]);
        assert_eq!(out.status.code(), Some(0), "{} {}", text(&out.stdout), text(&out.stderr));
    }
}

#[test]
fn a_program_that_is_not_there_is_no_fault_of_the_compilers() {
    if !need("make") || !need("gcc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    put(lab.path(), &[("p/main.c", "int main(void) { return 0; }\n"), ("p/Makefile", RULE)]);
    let out = tussle(lab.path(), &["hunt", "p", "--run", "sh -c ./nope"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("`sh -c ./nope` ended with 127") && said.contains("the build made app"), "{said}");
}

/// A field that is a number to its users cannot have a type around it; its neighbour can.
#[test]
fn what_does_not_compile_gives_way_to_the_next_proposal() {
    if !need("rustc") {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let main = "use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
struct Pair { left: u64, right: AtomicU64 }
fn main() {
    let mut p = Box::new(Pair { left: 0, right: AtomicU64::new(0) });
    let Pair { left, right } = &mut *p;
    std::thread::scope(|s| {
        s.spawn(|| for k in 0..300_000u64 { *left = std::hint::black_box(*left + k); });
        s.spawn(|| for _ in 0..300_000 { right.fetch_add(1, Relaxed); });
    });
    println!(\"{} {}\", p.left, p.right.load(Relaxed));
}
";
    put(lab.path(), &[("p/main.rs", main)]);
    let out = tussle(lab.path(), &["hunt", "p", "--no-bench", "--format", "json"]);
    let (shown, said) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{shown} {said}");
    let view: Value = serde_json::from_str(&shown).unwrap();
    let patched = view["patches"][0]["edit"].as_str().unwrap_or_default();
    assert_eq!(patched, "align right to 64 bytes", "{shown}");
    let why = view["passed_over"][0]["reason"].as_str().unwrap_or_default();
    assert!(why.contains("cannot add") && !why.contains(['\n', '\u{fffd}']), "{why}");
}
