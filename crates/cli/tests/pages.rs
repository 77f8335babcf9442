//! Every kind of page in a real browser, light and dark: nothing wrong on its console, nothing asked of anybody, names
//! that stay text, and everything that can be clicked, dragged or typed does what it says. With `TUSSLE_AXE=FILE`
//! (`axe.min.js` of the package `axe-core`) also what a screen reader needs.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tussle_evidence::TouchKind;
use tussle_evidence::sample::Sample;

/// Own script and style of a page, and a page of 10,000 lines, bytes.
const OWN_MAX: u64 = 300_000;
const PAGE_MAX: u64 = 5_000_000;
const EVIL: &str = "</script><img src=x onerror=\"document.body.dataset.evil=1\">";

fn browser() -> bool {
    tussle_testkit::wish("chromium") && tussle_testkit::wish("node")
}

/// What a verb prints as a page, as a file.
#[track_caller]
fn page(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.args(arguments).args(["--quiet", "--format", "html"]).current_dir(folder);
    // Not in the folder: a hunt watches that nothing appears there.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages-cache");
    let out = c.env("XDG_CACHE_HOME", cache).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{arguments:?}: {:?} {said}", out.status);
    let at = folder.join(format!("{name}.html"));
    std::fs::write(&at, out.stdout).unwrap();
    at
}

/// What the browser saw of each page, light and dark.
#[track_caller]
fn driven(pages: &[PathBuf]) -> Vec<Value> {
    let mut node = Command::new("node");
    node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/drive.mjs"));
    if let Some(axe) = tussle_testkit::given("TUSSLE_AXE") {
        node.arg("--axe").arg(axe);
    }
    if let Some(folder) = std::env::var_os("TUSSLE_PICTURES") {
        node.arg("--pictures").arg(folder);
    }
    let out = node.args(pages).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8(out.stdout).unwrap();
    let seen: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(seen.len(), 2 * pages.len());
    seen
}

/// What must hold of every page.
#[track_caller]
fn sound(seen: &Value) {
    let none = |key: &str| assert_eq!(seen[key], serde_json::json!([]), "{key}: {seen:#}");
    for key in ["errors", "violations", "foreign"] {
        none(key);
    }
    assert_eq!((&seen["ready"], &seen["evil"]), (&true.into(), &false.into()), "{seen:#}");
    assert!(seen["own_bytes"].as_u64().is_some_and(|n| n <= OWN_MAX), "{seen:#}");
    assert_eq!((&seen["cells"], &seen["tables"]), (&seen["said"], &seen["sorted"]), "{seen:#}");
    assert_eq!((&seen["sliders"], &seen["places"]), (&seen["redrawn"], &seen["told"]), "{seen:#}");
    assert_eq!((&seen["focusesFilter"], &seen["filtered"]), (&true.into(), &0.into()), "{seen:#}");
    assert!(seen["restored"] == true && seen["linked"] != false, "{seen:#}");
    assert!(seen["wide"].as_i64().is_some_and(|n| n <= 0), "wider than the screen: {seen:#}");
}

fn count(seen: &Value, key: &str) -> u64 {
    seen[key].as_u64().unwrap()
}

/// The guide's program, recording and rule, and what else the verbs ask for.
fn material() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.in");
    for file in ["hits.c", "hits.json", "rules.toml", "tussle.data"] {
        std::fs::copy(guide.join(file), folder.path().join(file)).unwrap();
    }
    let old = std::fs::read_to_string(folder.path().join("hits.json")).unwrap();
    let new = old.replace("\"limit\"", "\"bound\"");
    assert_ne!(old, new);
    std::fs::write(folder.path().join("new.json"), new).unwrap();
    for arguments in ["init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m one"] {
        let done =
            Command::new("git").args(arguments.split(' ')).current_dir(folder.path()).status().unwrap();
        assert!(done.success());
    }
    folder
}

#[test]
fn every_kind_of_page_is_sound() {
    if !browser() || !tussle_testkit::need("gcc") || !tussle_testkit::need("git") {
        return;
    }
    let folder = material();
    let at = folder.path();
    let bench = ["bench", "--pairs", "6", "-o", "r.jsonl", "old=sleep 0.01", "new=sleep 0.012"];
    let kinds: [(&str, &[&str]); 10] = [
        ("report", &["report"]),
        ("advise", &["advise", "-C", "hits"]),
        ("check", &["check", "--rules", "rules.toml", "hits.json"]),
        ("layout", &["layout", "--lines", "-C", "hits,server", "hits.json"]),
        ("diff", &["diff", "hits.json", "new.json"]),
        ("predict", &["predict", "mmap_lock", "--cpus", "2,4", "--draws", "8"]),
        ("bench", &bench),
        ("compare", &["compare", "r.jsonl"]),
        ("history", &["history", "--add", "r.jsonl", "--commit", "HEAD"]),
        ("hunt", &["hunt", "hits.c", "--no-bench"]),
    ];
    let pages: Vec<PathBuf> = kinds.iter().map(|(name, arguments)| page(at, name, arguments)).collect();
    let seen = driven(&pages);
    for (i, s) in seen.iter().enumerate() {
        println!("{s}");
        sound(s);
        let (name, drawn) = (kinds[i / 2].0, count(s, "drawings"));
        assert_eq!(drawn > 0, ["report", "advise", "hunt"].contains(&name), "{name}: {s:#}");
        // Curve and tornado, samples of runs, levels of commits.
        let plots = [("predict", 2), ("bench", 1), ("compare", 1), ("history", 1)];
        let plots = plots.iter().find(|p| p.0 == name).map_or(0, |p| p.1);
        assert_eq!(count(s, "plots"), plots, "{name}: {s:#}");
    }
    let light = |i: usize| &seen[2 * i];
    assert!(count(light(0), "sliders") >= 1 && count(light(0), "places") >= 4, "{:#}", seen[0]);
    assert!(count(light(1), "drawings") >= 2, "before and after: {:#}", seen[2]);
    for pair in seen.chunks(2) {
        assert_ne!(pair[0]["background"], pair[1]["background"], "light and dark");
    }
}

/// At every place of the slider all of the object's bytes on these lines are drawn, not only the recorded line's.
#[test]
fn the_slider_moves_bytes_in() {
    if !browser() {
        return;
    }
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 3, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    let ty = s.structure("wide", 256, &[("a", long, 64), ("b", long, 72), ("tail", long, 136)]);
    let o = s.heap(0x1000, 256, Some(ty), 1, 16, Some(start));
    for (offset, actor) in [(64, one), (72, two), (136, one)] {
        s.access(o, offset, 8, actor, (0, 100_000), [0, 50_000, 0]);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    tussle_evidence::file::write_jsonl(&s.evidence(), &mut bytes).unwrap();
    std::fs::write(folder.path().join("tussle.data"), bytes).unwrap();
    for seen in driven(&[page(folder.path(), "slider", &["report"])]) {
        sound(&seen);
        assert_eq!(seen["columns"], serde_json::json!([64, 128, 128, 128]), "{seen:#}");
    }
}

/// Templates have names of thousands of characters: they are broken, and widen no page.
#[test]
fn long_names_widen_no_page() {
    if !browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    tussle_evidence::file::write_jsonl(&lines(2, &"Registry_".repeat(400)), &mut bytes).unwrap();
    std::fs::write(folder.path().join("tussle.data"), bytes).unwrap();
    let verbs: [(&str, &[&str]); 2] = [("report", &["report"]), ("types", &["report", "--style", "type"])];
    let pages = verbs.map(|(name, words)| page(folder.path(), name, words));
    driven(&pages).iter().for_each(sound);
}

/// As many contended lines, each an object with two fields.
fn lines(count: u64, name: &str) -> tussle_evidence::Evidence {
    let mut s = Sample::new(1000);
    let main = s.thread(name, None);
    let start = s.code(name, name, 40, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    for i in 0..count {
        let site = s.code(&format!("{name}{i}"), name, 12 + i as u32, &[]);
        let ty = s.structure(&format!("{name}{i}"), 16, &[(name, long, 0), ("other", long, 8)]);
        let o = s.heap(0x1000 + 64 * i, 16, Some(ty), 1, 16, Some(site));
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000 + i, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        s.touch(o, 0, 8, start, one, TouchKind::Write);
    }
    s.evidence()
}

#[test]
fn ten_thousand_lines_open_at_once_and_names_stay_text() {
    if !browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, e: &tussle_evidence::Evidence| {
        let mut bytes = Vec::new();
        tussle_evidence::file::write_jsonl(e, &mut bytes).unwrap();
        std::fs::write(folder.path().join("x.data"), bytes).unwrap();
        page(folder.path(), name, &["report", "x.data"])
    };
    let (large, evil) = (made("large", &lines(10_000, "stats")), made("evil", &lines(3, EVIL)));
    assert!(std::fs::metadata(&large).unwrap().len() <= PAGE_MAX);
    let seen = driven(&[large.clone(), large.clone(), large, evil]);
    let mut opened: Vec<u64> = seen[..6].iter().map(|s| count(s, "opened_ms")).collect();
    opened.sort_unstable();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    println!("10,000 lines: painted after {opened:?} ms; load {load}");
    seen.iter().for_each(|s| sound(s));
}
