//! Keeps the structure of the repository: who may depend on whom, how long files, functions and lines may be, that
//! libraries do not print, and that links in documents lead somewhere.
//!
//! The limits are a ratchet: `tests/tidy-ratchet.txt` lists today's exceptions; it may shrink, never grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARS_MAX: usize = 120;

/// Which of our crates each crate uses (development dependencies excepted): neither more nor fewer.
const USES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("render", &[]),
    ("stats", &[]),
    ("debuginfo", &["model"]),
    ("layout", &["model", "render"]),
    ("evidence", &["model"]),
    ("contention", &["model", "evidence"]),
    ("naming", &["model", "debuginfo", "evidence"]),
    ("rt-core", &[]),
    ("rt", &["evidence"]),
    ("sim", &["model", "stats"]),
    ("scenarios", &["model", "evidence", "contention", "sim", "stats", "render"]),
    ("advise", &["model", "evidence", "contention"]),
    ("report", &["model", "evidence", "contention", "advise", "render"]),
    ("bench", &["stats", "render"]),
    ("perf", &["model", "evidence"]),
    ("kernel", &["model", "debuginfo", "evidence"]),
    ("live", &["debuginfo", "evidence", "perf"]),
    ("testkit", &[]),
    (
        "host",
        &[
            "model",
            "debuginfo",
            "evidence",
            "naming",
            "rt",
            "sim",
            "scenarios",
            "advise",
            "bench",
            "render",
            "perf",
            "live",
        ],
    ),
    (
        "cli",
        &[
            "model",
            "debuginfo",
            "layout",
            "evidence",
            "contention",
            "naming",
            "perf",
            "kernel",
            "sim",
            "scenarios",
            "advise",
            "report",
            "stats",
            "bench",
            "render",
            "host",
        ],
    ),
];

/// Crates whose library may write to the terminal or touch files.
const DOES_IO: &[&str] = &["host", "cli", "testkit"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn walk(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    // A link to a folder leads to files that are walked where they are.
    entries.retain(|p| !p.is_symlink());
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, extension, out);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

fn files(under: &str, extension: &str) -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root.join(under), extension, &mut paths);
    paths
        .into_iter()
        .map(|p| {
            let shown = p.strip_prefix(&root).unwrap_or(&p).display().to_string();
            let text = String::from_utf8_lossy(&fs::read(&p).unwrap_or_default()).into_owned();
            (shown, text)
        })
        .collect()
}

/// Crates with their manifests' sections: `dependencies`, `dev-dependencies`, ... and the names in each.
fn manifests() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut out: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (path, text) in files("crates", "toml") {
        let name = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        let Some(name) = name.filter(|n| !n.contains('/')) else { continue };
        let sections = out.entry(name.into()).or_default();
        let mut section = String::new();
        for line in text.lines() {
            if let Some(s) = line.strip_prefix('[') {
                section = s.trim_end_matches(']').to_string();
                continue;
            }
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if section.ends_with("dependencies") && !used.is_empty() && !used.starts_with('#') {
                sections.entry(section.clone()).or_default().insert(used.into());
            }
        }
    }
    out
}

#[test]
fn crates_depend_downwards() {
    let table: BTreeMap<&str, &[&str]> = USES.iter().copied().collect();
    let found = manifests();
    let mut wrong = Vec::new();
    for (name, sections) in &found {
        let Some(listed) = table.get(name.as_str()) else {
            wrong.push(format!("crate {name} is not in the table of tests/tidy.rs"));
            continue;
        };
        let used: BTreeSet<&str> = ["dependencies", "build-dependencies"]
            .iter()
            .filter_map(|s| sections.get(*s))
            .flatten()
            .filter_map(|d| d.strip_prefix("tussle-"))
            .collect();
        let listed: BTreeSet<&str> = listed.iter().copied().collect();
        wrong.extend(used.difference(&listed).map(|d| format!("{name} must not depend on {d}")));
        wrong.extend(listed.difference(&used).map(|d| format!("{name} does not use {d}: shorten the table")));
    }
    let gone = table.keys().filter(|name| !found.contains_key(**name));
    wrong.extend(gone.map(|name| format!("the table of tests/tidy.rs lists {name}, which is no crate")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table goes from the bottom to the top: a crate uses only what stands above it there.
#[test]
fn the_table_has_no_circle() {
    let mut seen = BTreeSet::new();
    for (name, uses) in USES {
        let later: Vec<_> = uses.iter().filter(|u| !seen.contains(*u)).collect();
        assert!(later.is_empty(), "{name} uses {later:?}, which the table lists after it");
        seen.insert(*name);
    }
}

#[test]
fn no_dependency_is_unused() {
    let mut unused = Vec::new();
    for (name, sections) in manifests() {
        let source: String = files(&format!("crates/{name}"), "rs").into_iter().map(|f| f.1).collect();
        let shared = if name == "cli" { files("tests", "rs") } else { Vec::new() };
        let source = source + &shared.into_iter().map(|f| f.1).collect::<String>();
        for dependency in sections.values().flatten() {
            let path = dependency.replace('-', "_");
            let mentioned = [format!("{path}::"), format!("use {path}"), format!("as {path}")];
            if !mentioned.iter().any(|m| source.contains(m)) {
                unused.push(format!("{name}: {dependency}"));
            }
        }
    }
    assert!(unused.is_empty(), "dependencies that no source file names:\n{}", unused.join("\n"));
}

/// ARCHITECTURE.md's table of crates says the same as the one above.
#[test]
fn architecture_lists_the_dependencies() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.strip_suffix(" |"))
        .filter_map(|l| Some((l.split_once('`')?.0, l.rsplit_once(" | ")?.1)))
        .collect();
    let mut wrong = Vec::new();
    for (name, uses) in USES {
        let listed = match rows.get(name) {
            None => "no row",
            Some(&("all" | "–" | "the libraries")) => continue,
            Some(listed) => listed,
        };
        let listed: BTreeSet<&str> = listed.split(", ").collect();
        if listed != uses.iter().copied().collect() {
            wrong.push(format!("{name}: ARCHITECTURE.md says {listed:?}, tests/tidy.rs {uses:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn architecture_mentions_every_crate() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let missing: Vec<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| !text.contains(&format!("`{n}`")))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not mention {missing:?}");
}

/// Sources of the recorder runtime: code inside of other people's programs.
fn runtime_sources() -> impl Iterator<Item = (String, String)> {
    let folders = ["crates/rt-core/src", "crates/rt/runtime", "crates/rt/emulated"];
    folders.into_iter().flat_map(|f| files(f, "rs"))
}

/// Lines that `what` holds for and that have no `word` in the `reach` lines before them or in themselves.
fn silent(text: &str, what: fn(&str) -> bool, word: &str, reach: usize) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let said = |i: usize| lines[i.saturating_sub(reach)..=i].iter().any(|l| l.contains(word));
    (0..lines.len())
        .filter(|&i| what(lines[i]) && !lines[i].starts_with("//") && !said(i))
        .map(|i| i + 1)
        .collect()
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    let block = |l: &str| l.contains("unsafe {");
    let found: Vec<_> = ["crates", "fleet", "python"]
        .into_iter()
        .flat_map(|f| files(f, "rs"))
        .filter_map(|(path, text)| {
            Some((path, silent(&text, block, "SAFETY:", 6))).filter(|(_, l)| !l.is_empty())
        })
        .collect();
    assert!(found.is_empty(), "unsafe without a SAFETY line: {found:?}");
}

#[test]
fn unsafe_functions_of_the_runtime_have_a_contract() {
    let function = |l: &str| l.contains("unsafe fn ") || l.contains("unsafe extern \"C\" fn ");
    // Definitions, not types of functions and not what libc declares.
    let defined = |l: &str| l.ends_with('{') && !l.contains("= unsafe") && !l.contains(": unsafe");
    let found: Vec<_> = runtime_sources()
        .map(|(path, text)| {
            let lines: Vec<&str> = text.lines().collect();
            let mut missing = silent(&text, function, "# Safety", 14);
            missing.retain(|i| defined(lines[i - 1]));
            (path, missing)
        })
        .filter(|(_, l)| !l.is_empty())
        .collect();
    assert!(found.is_empty(), "unsafe functions without a `# Safety` section: {found:?}");
}

#[test]
fn machine_code_of_the_runtime_is_in_one_place() {
    let strays: Vec<_> = runtime_sources()
        .filter(|(path, _)| !path.contains("/arch/"))
        .filter(|(_, text)| text.contains("asm!("))
        .map(|(path, _)| path)
        .collect();
    assert!(strays.is_empty(), "machine code belongs in arch/x86_64.rs: {strays:?}");
}

/// `path: what` for everything over a limit.
fn over_limits() -> BTreeSet<String> {
    let mut over = BTreeSet::new();
    for (path, text) in ["crates", "fleet", "python", "tests"].into_iter().flat_map(|f| files(f, "rs")) {
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > FILE_LINES_MAX {
            over.insert(format!("{path}: file"));
        }
        if lines.iter().any(|l| l.chars().count() > LINE_CHARS_MAX) {
            over.insert(format!("{path}: line"));
        }
        for (name, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                over.insert(format!("{path}: fn {name}"));
            }
        }
    }
    over
}

/// Functions with their length in lines, relying on rustfmt: a function ends at the first `}` of its own indentation.
fn functions(lines: &[&str]) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let is_fn = !trimmed.starts_with("//")
            && trimmed.split("fn ").next().is_some_and(|before| {
                before.len() < trimmed.len()
                    && before.split_whitespace().all(|w| {
                        matches!(w, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"")
                            || w.starts_with("pub(")
                    })
            });
        if !is_fn {
            continue;
        }
        let name: String = trimmed
            .split("fn ")
            .nth(1)
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(end) = lines[i..].iter().position(|l| *l == close)
            && !line.ends_with(';')
        {
            out.push((name, end + 1));
        }
    }
    out
}

#[test]
fn nothing_grows_beyond_its_limit() {
    let ratchet = fs::read_to_string(root().join("tests/tidy-ratchet.txt")).unwrap_or_default();
    let allowed: BTreeSet<String> =
        ratchet.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(Into::into).collect();
    let over = over_limits();
    let new: Vec<_> = over.difference(&allowed).cloned().collect();
    let stale: Vec<_> = allowed.difference(&over).cloned().collect();
    assert!(
        new.is_empty(),
        "over a limit (file {FILE_LINES_MAX} lines, function {FUNCTION_LINES_MAX}, line \
        {LINE_CHARS_MAX} characters):\n{}",
        new.join("\n")
    );
    assert!(
        stale.is_empty(),
        "no longer over a limit; remove from tests/tidy-ratchet.txt:\n{}",
        stale.join("\n")
    );
}

#[test]
fn libraries_do_not_print() {
    let mut wrong = Vec::new();
    for (path, text) in files("crates", "rs") {
        let mut parts = path.split('/').skip(1);
        let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if DOES_IO.contains(&name) || folder != "src" || path.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (i, line) in code.lines().enumerate() {
            let line = line.trim_start();
            let prints =
                ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("].iter().any(|p| line.contains(p));
            let files =
                ["std::fs::", "std::process::Command", "std::env::var"].iter().any(|p| line.contains(p));
            if (prints || files) && !line.starts_with("//") {
                wrong.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "libraries neither print nor touch the machine:\n{}", wrong.join("\n"));
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in files("", "md") {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(' ') {
                continue;
            }
            let base = Path::new(&path).parent().unwrap_or(Path::new(""));
            if !root().join(base).join(file).exists() {
                dead.push(format!("{path}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

/// Files that `text` includes by a literal path.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let start = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    start.into_iter().flat_map(|s| text.split(s).skip(1)).filter_map(|rest| rest.split('"').next())
}

/// `cargo package` takes what lies in the crate's folder, links followed, and no more.
#[test]
fn packages_are_whole() {
    let mut wrong = Vec::new();
    for name in manifests().keys() {
        let folder = root().join("crates").join(name);
        let texts = ["LICENSE-MIT", "LICENSE-APACHE"].map(|l| folder.join(l));
        wrong.extend(texts.iter().filter(|l| !l.exists()).map(|l| l.display().to_string()));
        for (path, text) in files(&format!("crates/{name}"), "rs") {
            let depth = path.split('/').count() - 3; // folders between the crate's and the file
            let leaves = |p: &&str| p.split('/').take_while(|part| *part == "..").count() > depth;
            wrong.extend(included(&text).filter(leaves).map(|p| format!("{path} includes {p}")));
        }
    }
    assert!(wrong.is_empty(), "not in the package:\n{}", wrong.join("\n"));
}

/// Words of a sentence, or of a part of one between colons or semicolons: who reads a longer one begins anew.
const SENTENCE_MAX: usize = 38;

/// Paragraphs and items of a document, each in one line; no code, tables and headings.
fn passages(text: &str) -> Vec<String> {
    let (mut out, mut code) = (vec![String::new()], false);
    for line in text.lines() {
        let words = line.trim_start();
        let fence = words.starts_with("```");
        code ^= fence;
        let aside = fence || code || line.starts_with("    ") || words.starts_with(['|', '#', '!']);
        let number = words.trim_start_matches(|c: char| c.is_ascii_digit());
        let item = words.starts_with("- ") || (number.len() < words.len() && number.starts_with(". "));
        if aside || item || words.is_empty() {
            out.push(String::new());
        }
        if let Some(last) = out.last_mut().filter(|_| !aside) {
            last.extend([words, " "]);
        }
    }
    out
}

#[test]
fn sentences_of_documents_have_an_end() {
    let (mut long, mut count) = (Vec::new(), 0);
    // What changed is a list of facts, not a text.
    for (path, text) in files("", "md").into_iter().filter(|(path, _)| !path.ends_with("CHANGELOG.md")) {
        for passage in passages(&text) {
            let ends = [". ", "? ", "! ", ": ", "; ", ".** ", ".) "];
            let parts = ends.iter().fold(vec![passage.as_str()], |parts, end| {
                parts.into_iter().flat_map(|p| p.split(end)).collect()
            });
            count += parts.len();
            let too_long = parts.iter().filter(|p| p.split_whitespace().count() > SENTENCE_MAX);
            long.extend(too_long.map(|p| format!("{path}: {}", p.chars().take(80).collect::<String>())));
        }
    }
    assert!(count > 5_000, "only {count} sentences found");
    assert!(long.is_empty(), "more than {SENTENCE_MAX} words:\n{}", long.join("\n"));
}

/// Every file and folder of the repository, as a path from its root.
fn tree() -> BTreeSet<String> {
    fn enter(dir: &Path, shown: &str, out: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "target" || (name.starts_with('.') && name != ".ci") {
                continue;
            }
            let path = format!("{shown}{name}");
            if entry.path().is_dir() && !entry.path().is_symlink() {
                enter(&entry.path(), &format!("{path}/"), out);
            }
            out.insert(path);
        }
    }
    let mut out = BTreeSet::new();
    enter(&root(), "", &mut out);
    out
}

/// Words of a document that look like a path of this repository: they begin with a folder of it, or name Rust source.
/// From the first placeholder on (`*`, `<name>`, `{a,b}`, `NAME`), they are cut off.
fn paths_named<'a>(text: &'a str, folders: &BTreeSet<&str>) -> Vec<&'a str> {
    let part = |c: char| c.is_alphanumeric() || "._-/*<>{},$~:".contains(c);
    let ours =
        |w: &str| w.split_once('/').is_some_and(|(first, _)| folders.contains(first)) || w.ends_with(".rs");
    text.split(|c| !part(c))
        .map(|w| w.trim_start_matches("../").trim_end_matches([',', '.', ':']))
        .filter(|w| ours(w) && !w.contains("://"))
        .filter_map(|w| w.split(['*', '<', '{', ':']).next())
        .map(|w| w.find("/NAME").map_or(w, |at| &w[..at]).trim_end_matches('/'))
        .filter(|w| !w.is_empty())
        .collect()
}

/// A path may be given from the root, from the document's folder, or by its end (`sync/mutex.rs`).
#[test]
fn paths_in_documents_exist() {
    let tree = tree();
    let folders: BTreeSet<&str> =
        tree.iter().filter_map(|p| p.split_once('/')).map(|(first, _)| first).collect();
    let ends: BTreeSet<&str> = tree
        .iter()
        .flat_map(|p| p.match_indices('/').map(|(at, _)| &p[at + 1..]).chain([p.as_str()]))
        .collect();
    let top = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "GUIDE.md"];
    let mut documents = files("docs", "md");
    documents
        .extend(top.iter().filter_map(|f| Some((f.to_string(), fs::read_to_string(root().join(f)).ok()?))));
    let named = documents.iter().map(|(path, text)| (path, paths_named(text, &folders)));
    let (mut count, mut gone) = (0, BTreeSet::new());
    for (path, words) in named {
        count += words.len();
        gone.extend(words.into_iter().filter(|w| !ends.contains(w)).map(|w| format!("{path}: {w}")));
    }
    assert!(count > 100, "only {count} paths found in documents");
    assert!(gone.is_empty(), "paths that do not exist:\n{}", Vec::from_iter(gone).join("\n"));
}

/// What is printed changes: a picture that nobody can make anew tells of an older tussle.
#[test]
fn pictures_are_made_by_the_script() {
    let script = fs::read_to_string(root().join("scripts/screenshots.sh")).unwrap();
    let made: BTreeSet<&str> =
        script.split("\"$pictures/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let is_picture = |p: &&String| {
        [".svg", ".png", ".gif", ".jpg", ".jpeg", ".webp"].iter().any(|e| p.to_lowercase().ends_with(e))
    };
    let tree = tree();
    let kept: BTreeSet<&str> = tree.iter().filter(is_picture).map(String::as_str).collect();
    let should: BTreeSet<String> = made.iter().map(|name| format!("docs/pictures/{name}")).collect();
    assert!(!kept.is_empty());
    assert_eq!(kept, should.iter().map(String::as_str).collect(), "kept, and made by scripts/screenshots.sh");
    let documents = files("", "md");
    let unused: Vec<_> =
        kept.iter().filter(|p| !documents.iter().any(|(_, text)| text.contains(**p))).collect();
    assert!(unused.is_empty(), "no document shows {unused:?}");
}

/// Variables that are named in a text, by our prefix.
fn variables(text: &str) -> BTreeSet<&str> {
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !name(c)).filter(|w| w.starts_with("TUSSLE_") && w.len() > "TUSSLE_".len()).collect()
}

/// Variables that tussle passes to itself, or that a test invents.
const INTERNAL_VARIABLES: &[&str] = &["TUSSLE_PERF_BENCH_CHILD", "TUSSLE_TEST_NOTHING"];

#[test]
fn variables_of_tests_are_documented() {
    let page = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let documented = variables(&page);
    let of_tests = |path: &str| ["/tests/", "/benches/", "/testkit/"].iter().any(|f| path.contains(f));
    let (tests, product): (Vec<_>, Vec<_>) =
        files("crates", "rs").into_iter().partition(|(path, _)| of_tests(path) || path.ends_with("tests.rs"));
    let known: BTreeSet<&str> = product.iter().flat_map(|(_, text)| variables(text)).collect();
    let missing: BTreeSet<_> = tests
        .iter()
        .flat_map(|(path, text)| variables(text).into_iter().map(move |v| (v, path)))
        .filter(|(v, _)| !documented.contains(v) && !known.contains(v) && !INTERNAL_VARIABLES.contains(v))
        .collect();
    assert!(missing.is_empty(), "docs/testing.md does not say what these do: {missing:?}");
    let kinds = |text: &str| -> BTreeSet<String> {
        let calls = text.split("slow(\"").skip(1).filter_map(|rest| rest.split('"').next());
        calls.map(str::to_string).collect()
    };
    let mut kinds =
        tests.iter().filter(|(path, _)| !path.contains("testkit")).flat_map(|(_, text)| kinds(text));
    let unsaid: Vec<_> = kinds.by_ref().filter(|kind| !page.contains(&format!("`{kind}`"))).collect();
    assert!(unsaid.is_empty(), "docs/testing.md does not list the slow kinds {unsaid:?}");
}

#[test]
fn variables_in_documents_exist() {
    let mut code = files("crates", "rs");
    for (folder, extension) in [
        ("fleet", "rs"),
        ("fleet", "sh"),
        ("fuzz", "rs"),
        ("scripts", "sh"),
        ("examples", "sh"),
        ("qemu", "c"),
        ("crates", "h"),
    ] {
        code.extend(files(folder, extension));
    }
    let read: BTreeSet<&str> = code.iter().flat_map(|(_, text)| variables(text)).collect();
    let documents = files("", "md");
    let gone: BTreeSet<_> = documents
        .iter()
        .filter(|(path, _)| path != "CHANGELOG.md")
        .flat_map(|(path, text)| variables(text).into_iter().map(move |v| (v, path)))
        .filter(|(v, _)| !read.contains(v))
        .collect();
    assert!(gone.is_empty(), "documents name variables that nothing reads: {gone:?}");
}

#[test]
fn unfinished_places_do_not_hide() {
    let words = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME")];
    let mut found = Vec::new();
    for (path, text) in files("crates", "rs") {
        found.extend(
            text.lines()
                .enumerate()
                .filter(|(_, l)| words.iter().any(|w| l.contains(w)))
                .map(|(i, l)| format!("{path}:{}: {}", i + 1, l.trim())),
        );
    }
    assert!(found.is_empty(), "unfinished:\n{}", found.join("\n"));
}

/// What is printed as JSON has a schema; `top` is a screen.
#[test]
fn every_kind_of_document_has_a_schema() {
    let mut kinds = 0;
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("tests.rs");
    for (path, text) in files("crates", "rs").into_iter().filter(|(path, _)| !is_test(path)) {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for view in text.split("View {").skip(1) {
            let Some(rest) = view.trim_start().strip_prefix("kind: \"") else { continue };
            let kind = rest.split('"').next().unwrap_or_default();
            let schema = root().join(format!("docs/schema/{kind}.json"));
            assert!(kind == "top" || schema.is_file(), "{path}: {kind}");
            kinds += 1;
        }
    }
    assert!(kinds >= 40, "{kinds}");
}
