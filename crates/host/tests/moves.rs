//! Random moves in source trees, compiled and compared: no field may lie elsewhere than predicted.
//!
//! `TUSSLE_SLOW=moves cargo test -p tussle-host --test moves -- --nocapture`. Without `TUSSLE_TEST_TREES` (folders
//! between colons) the sources of five Debian packages are fetched with `apt-get source`. `TUSSLE_TEST_MOVES` says how
//! many (500), `TUSSLE_TEST_SEED` where to begin. What does not compile unchanged is counted, not judged; refusals are
//! counted by their reasons and printed, to be looked at by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tussle_advise::Edit;
use tussle_advise::patch::body::{Source, Statement, bodies, statements};
use tussle_advise::patch::member::declared;
use tussle_host::fix::{self, Build, FixError, Request};
use tussle_model::SourceLoc;
use tussle_testkit::{Random, slow, wish};

/// A struct of a tree.
struct Candidate {
    name: String,
    members: Vec<String>,
    decl: SourceLoc,
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if path.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
            sources(&path, out);
        } else if matches!(extension, "c" | "h" | "cc" | "cpp" | "hpp") {
            out.push(path);
        }
    }
}

/// Part of what is built by [`database`], as far as a path tells.
fn is_product(path: &Path) -> bool {
    let text = path.to_string_lossy().to_lowercase();
    !["test", "bench", "fuzz", "example", "windows", "win32", "deps/", "doc/"]
        .iter()
        .any(|w| text.contains(w))
}

fn candidates(tree: &Path) -> Vec<Candidate> {
    let mut files = Vec::new();
    sources(tree, &mut files);
    files.sort();
    let mut out = Vec::new();
    files.retain(|f| f.strip_prefix(tree).is_ok_and(is_product));
    for (file, text) in files.iter().filter_map(|f| Some((f, std::fs::read_to_string(f).ok()?))) {
        let source = Source::new(&text);
        for body in bodies(&source) {
            let alias = body.aliases.first().filter(|_| body.typedef).cloned();
            let (Some(name), Ok(list)) = (body.tag.clone().or(alias), statements(&source, &body)) else {
                continue;
            };
            let member = |s: &Statement| {
                // `class Iterator;`, `friend class Table;`
                let named = (s.first..s.last).filter(|&t| source.tokens[t].is_code()).count() < 2;
                let type_alone = matches!(source.at(s.first), "friend" | "using" | "template" | "static")
                    || (named && matches!(source.at(s.first), "class" | "struct" | "enum"));
                Some(declared(&source, s)).filter(|d| !type_alone && d.declarators > 0 && !d.macro_made)
            };
            let members: Vec<String> = list.iter().filter_map(member).flat_map(|d| d.names).collect();
            if members.len() >= 3 && source.at(body.keyword) != "union" {
                let line = source.tokens[body.keyword].line;
                let decl = SourceLoc { file: file.display().to_string(), line };
                out.push(Candidate { name: scoped(&text, &name), members, decl });
            }
        }
    }
    out
}

/// The name within the namespace of the file: debug information has full names. With several, the name alone is found
/// where it is the only one.
fn scoped(text: &str, name: &str) -> String {
    let mut spaces = text.lines().filter_map(|l| l.strip_prefix("namespace ")?.strip_suffix('{'));
    let space = spaces.next().filter(|_| spaces.next().is_none());
    space.map(str::trim).filter(|s| !s.is_empty()).map_or(name.to_string(), |s| format!("{s}::{name}"))
}

fn random_edit(c: &Candidate, random: &mut Random) -> String {
    let a = &c.members[random.below(c.members.len())];
    let b = &c.members[random.below(c.members.len())];
    match random.below(9) {
        0 => format!("align:{a}=64"),
        8 => format!("gap:{a}=64"),
        1 => format!("{a}:first"),
        2 | 3 => format!("swap:{a},{b}"),
        4 => format!("{a}:before:{b}"),
        _ => format!("{a}:after:{b}"),
    }
}

/// A file is drawn, then one of its structs: headers that every unit sees would be most of the work else. `starts` are
/// the places in the list where files begin.
fn candidate<'c>(list: &'c [Candidate], starts: &[usize], random: &mut Random) -> &'c Candidate {
    let file = random.below(starts.len());
    let end = starts.get(file + 1).copied().unwrap_or(list.len());
    &list[starts[file] + random.below(end - starts[file])]
}

/// What became of one move.
fn verdict(result: Result<fix::Patched, FixError>) -> (&'static str, String) {
    match result {
        Ok(p) => ("compiled as predicted", format!("{} bytes -> {}", p.size_before, p.size_after)),
        Err(e @ FixError::Mismatch { .. }) => ("WRONG", e.to_string()),
        Err(e @ (FixError::BuildFailed { patched: false, .. } | FixError::NoLayout { .. })) => {
            ("not built", e.to_string())
        }
        Err(e @ (FixError::Compdb { .. } | FixError::ManySources { .. })) => ("not built", e.to_string()),
        Err(e @ FixError::Nothing(_)) => ("changes nothing", e.to_string()),
        Err(e) => ("refused", e.to_string()),
    }
}

/// Debian packages whose sources are moved about in.
const PACKAGES: [&str; 5] = ["leveldb", "abseil", "fmtlib", "redis", "memcached"];

/// The trees that were named, else those of the packages, unpacked below `dir`.
fn trees(dir: &Path) -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("TUSSLE_TEST_TREES").filter(|v| !v.is_empty()) {
        return std::env::split_paths(&named).collect();
    }
    if !wish("apt-get") || !wish("dpkg-source") {
        return Vec::new();
    }
    for package in PACKAGES {
        let out = Command::new("apt-get").args(["source", package]).current_dir(dir).output();
        let fetched = out.is_ok_and(|o| o.status.success());
        if !fetched {
            println!("{package}: apt-get source fails; are there deb-src lines?");
        }
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(|p| p.is_dir()).collect()
}

/// A database that compiles the tree's units: cmake's, else every C file with all folders of headers.
fn database(tree: &Path) -> PathBuf {
    let there = tree.join("compile_commands.json");
    if there.is_file() {
        return there;
    }
    if tree.join("CMakeLists.txt").is_file() {
        let mut cmake = Command::new("cmake");
        cmake.args(["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DBUILD_TESTING=OFF", "-DFMT_TEST=OFF"]);
        cmake.args([
            "-DLEVELDB_BUILD_TESTS=OFF",
            "-DLEVELDB_BUILD_BENCHMARKS=OFF",
            "-DCMAKE_CXX_STANDARD=17",
        ]);
        cmake.args(["-S", ".", "-B", "tussle-build"]).current_dir(tree);
        let made = tree.join("tussle-build/compile_commands.json");
        if cmake.output().is_ok_and(|o| o.status.success()) && made.is_file() {
            return made;
        }
    }
    let mut files = Vec::new();
    sources(tree, &mut files);
    if tree.join("configure").is_file() {
        let _ = Command::new("./configure").current_dir(tree).output();
    }
    let foreign = |f: &Path| {
        let text = f.to_string_lossy().to_lowercase();
        ["msvc", "win32", "/test", "example"].iter().any(|w| text.contains(w))
    };
    let mut folders: Vec<String> = files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "h"))
        .filter(|f| f.strip_prefix(tree).is_ok_and(|f| !foreign(&Path::new("/").join(f))))
        .filter_map(|f| Some(format!("-I{}", f.parent()?.display())))
        .collect();
    folders.sort();
    folders.dedup();
    let entry = |file: &PathBuf| {
        let mut words = vec![
            "gcc".to_string(),
            "-D_GNU_SOURCE".into(),
            "-DHAVE_CONFIG_H".into(),
            "-c".into(),
            file.display().to_string(),
        ];
        words.extend(folders.iter().cloned());
        serde_json::json!({ "directory": tree, "file": file, "arguments": words })
    };
    let units = files.iter().filter(|f| f.extension().is_some_and(|e| e == "c"));
    let text = serde_json::Value::from(units.map(entry).collect::<Vec<_>>()).to_string();
    std::fs::write(&there, text).expect("a database");
    there
}

/// A reason without the names in it.
fn reason(text: &str) -> String {
    let words = text
        .lines()
        .next()
        .unwrap_or("")
        .split(' ')
        .filter(|w| w.chars().all(|c| c.is_ascii_lowercase() || matches!(c, ',' | ';' | '\'')));
    words.collect::<Vec<_>>().join(" ").chars().take(90).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn random_moves_get_the_predicted_offsets() {
    if !slow("moves") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let trees: Vec<(PathBuf, Vec<Candidate>)> = trees(folder.path())
        .into_iter()
        .map(|t| (t.clone(), candidates(&t)))
        .filter(|t| !t.1.is_empty())
        .collect();
    if trees.is_empty() {
        return;
    }
    let databases: Vec<PathBuf> = trees.iter().map(|t| database(&t.0)).collect();
    let by_file = |list: &[Candidate]| -> Vec<usize> {
        let starts = (0..list.len()).filter(|&i| i == 0 || list[i].decl.file != list[i - 1].decl.file);
        starts.collect()
    };
    let files: Vec<Vec<usize>> = trees.iter().map(|t| by_file(&t.1)).collect();
    let mut random = Random(number("TUSSLE_TEST_SEED", 0x9e37_79b9_7f4a_7c15));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for n in 0..number("TUSSLE_TEST_MOVES", 500) as usize {
        let (dir, list) = &trees[n % trees.len()];
        let c = candidate(list, &files[n % trees.len()], &mut random);
        let Ok(edit) = random_edit(c, &mut random).parse::<Edit>() else { continue };
        let edits = [edit];
        let build = Build::Compdb(databases[n % trees.len()].clone());
        // Half of them with layouts that leave the process.
        let (type_name, abi_ok) = (c.name.as_str(), n % 2 == 0);
        let request = Request {
            dir,
            type_name,
            decl: Some(&c.decl),
            edits: &edits,
            build: &build,
            abi_ok,
            sites: &[],
            workshop: None,
        };
        let (kind, text) = verdict(fix::patch_tree(&request, &mut |_| {}));
        println!("{n} {kind}: {type_name} {}: {}", edits[0], text.lines().next().unwrap_or(""));
        *counts.entry(kind).or_default() += 1;
        if kind == "refused" {
            *reasons.entry(reason(&text)).or_default() += 1;
        }
    }
    println!("{counts:?}\n{reasons:#?}");
    assert!(counts.get("compiled as predicted").is_some_and(|n| *n > 0), "{counts:?}");
    assert_eq!(counts.get("WRONG"), None, "{counts:?}");
}
