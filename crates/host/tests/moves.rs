//! Random moves in source trees, compiled and compared.
//!
//! `TUSSLE_SLOW=patches TUSSLE_TEST_TREES=leveldb:redis TUSSLE_TEST_MOVES=100 cargo test -p tussle-host --test moves --
//! --nocapture`. A tree with a `compile_commands.json` is compiled by it, another file by file; what does not compile
//! unchanged is counted, not judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tussle_advise::Edit;
use tussle_advise::patch::body::{Source, bodies, statements};
use tussle_advise::patch::member::declared;
use tussle_host::fix::{self, Build, FixError, Request};
use tussle_testkit::{Random, given, slow};

/// A struct of a tree.
struct Candidate {
    name: String,
    members: Vec<String>,
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

fn candidates(tree: &Path) -> Vec<Candidate> {
    let mut files = Vec::new();
    sources(tree, &mut files);
    files.sort();
    let mut out = Vec::new();
    for text in files.iter().filter_map(|f| std::fs::read_to_string(f).ok()) {
        let source = Source::new(&text);
        for body in bodies(&source) {
            let alias = body.aliases.first().filter(|_| body.typedef).cloned();
            let (Some(name), Ok(list)) = (body.tag.clone().or(alias), statements(&source, &body)) else {
                continue;
            };
            let member = |s| Some(declared(&source, s)).filter(|d| d.declarators > 0 && !d.macro_made);
            let members: Vec<String> = list.iter().filter_map(member).flat_map(|d| d.names).collect();
            if members.len() >= 3 && source.at(body.keyword) != "union" {
                out.push(Candidate { name: scoped(&text, &name), members });
            }
        }
    }
    out
}

/// The name within the first namespace of the file: debug information has full names.
fn scoped(text: &str, name: &str) -> String {
    let space = text.lines().find_map(|l| l.strip_prefix("namespace ")?.strip_suffix('{'));
    space.map(str::trim).filter(|s| !s.is_empty()).map_or(name.to_string(), |s| format!("{s}::{name}"))
}

fn random_edit(c: &Candidate, random: &mut Random) -> String {
    let a = &c.members[random.below(c.members.len())];
    let b = &c.members[random.below(c.members.len())];
    match random.below(8) {
        0 => format!("align:{a}=64"),
        1 => format!("{a}:first"),
        2 | 3 => format!("swap:{a},{b}"),
        4 => format!("{a}:before:{b}"),
        _ => format!("{a}:after:{b}"),
    }
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

#[test]
fn random_moves_get_the_predicted_offsets() {
    if !slow("patches") {
        return;
    }
    let Some(trees) = given("TUSSLE_TEST_TREES") else { return };
    let moves: usize = std::env::var("TUSSLE_TEST_MOVES").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let trees: Vec<(PathBuf, Vec<Candidate>)> = std::env::split_paths(&trees)
        .map(|t| (t.clone(), candidates(&t)))
        .filter(|t| !t.1.is_empty())
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for n in 0..moves {
        let (dir, list) = &trees[n % trees.len()];
        let c = &list[random.below(list.len())];
        let Ok(edit) = random_edit(c, &mut random).parse::<Edit>() else { continue };
        let edits = [edit];
        let database = dir.join("compile_commands.json");
        let build = if database.is_file() { Build::Compdb(database) } else { Build::Plain };
        let type_name = c.name.as_str();
        let request =
            Request { dir, type_name, decl: None, edits: &edits, build: &build, abi_ok: true, sites: &[] };
        let (kind, text) = verdict(fix::patch_tree(&request, &mut |_| {}));
        println!("{kind}: {type_name} {}: {}", edits[0], text.lines().next().unwrap_or(""));
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(counts.get("compiled as predicted").is_some_and(|n| *n > 0), "{counts:?}");
    assert_eq!(counts.get("WRONG"), None, "{counts:?}");
}
