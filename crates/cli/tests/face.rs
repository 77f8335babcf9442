//! What people and programs get to see when names are hostile, terminals are narrow and readers leave early.

#![allow(clippy::unwrap_used)]

mod schema;

use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tussle_evidence::TouchKind;
use tussle_evidence::sample::Sample;

/// Names that a page, a terminal, a tracker or a runner might obey: markup, quotes, escape sequences, the direction of
/// writing, line feeds, commands of runners, placeholders, and nothing at all.
const NAMES: [&str; 16] = [
    "</script><img src=x onerror=alert(1)>",
    "\"quoted\" and 'quoted'",
    "\x1b]0;owned\x07\x1b[2J",
    "\u{202e}gnp.exe\u{2066}",
    "line\nfeed\r\nand\ttab",
    "::error file=x::injected",
    "| table | cell |",
    "`code` **bold** [link](javascript:alert(1))",
    "größe_名前_עברית",
    "e\u{301}\u{1f469}\u{200d}\u{1f4bb}",
    "&lt;already&gt; &amp;",
    "%s %n {0} $(id) ${HOME}",
    "../../etc/passwd",
    "",
    " blank ",
    "a::b<c::d<(e, f)>, g>::operator()",
];

/// Two threads fight for two members, everything in it has this name.
fn evidence(name: &str, path: &Path) {
    let mut s = Sample::new(1000);
    let main = s.thread(name, None);
    let start = s.code(name, name, 40, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    let site = s.code(name, name, 12, &[]);
    let ty = s.structure(name, 16, &[(name, long, 0), ("other", long, 8)]);
    let o = s.heap(0x1000, 16, Some(ty), 1, 16, Some(site));
    s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
    s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
    s.touch(o, 0, 8, start, one, TouchKind::Write);
    let e = s.tables();
    e.run.command = vec![name.into(), name.into()];
    write(path, &s.evidence());
}

fn write(path: &Path, e: &tussle_evidence::Evidence) {
    let mut bytes = Vec::new();
    tussle_evidence::file::write_jsonl(e, &mut bytes).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn tussle(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "TUSSLE_PAGER", "PAGER"] {
        c.env_remove(variable);
    }
    c
}

/// Standard output of a verb that ended by itself with 0 or 1.
#[track_caller]
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let out = tussle(folder, arguments);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(matches!(out.status.code(), Some(0 | 1)), "{arguments:?}: {:?} {said}", out.status);
    assert!(!said.contains('\x1b') && !said.contains('\u{202e}'), "{said:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Nothing that a terminal obeys.
#[track_caller]
fn harmless(text: &str, what: &str) {
    let obeyed = |c: &char| c.is_control() && !"\n\t".contains(*c) || ('\u{202a}'..='\u{202e}').contains(c);
    assert_eq!(text.chars().find(obeyed), None, "{what}: {text:?}");
}

#[test]
fn names_stay_text_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        evidence(name, &folder.path().join("x.data"));
        let said = |format: &str| printed(folder.path(), &["report", "x.data", "--format", format]);
        for format in ["text", "md", "github", "html", "folded"] {
            harmless(&said(format), &format!("{format} of {name:?}"));
            assert!(!said(format).lines().any(|l| l.starts_with("feed")), "{format} of {name:?}");
        }
        let html = said("html");
        let outside = html.split("<script").next().unwrap();
        assert!(!outside.contains("<img") && !html.contains("</script><img"), "{name:?}");
        for line in said("github").lines() {
            let command = ["::error ", "::warning ", "::notice "].iter().any(|c| line.starts_with(c));
            assert!(command && line.matches("::").count() >= 2, "{name:?}: {line}");
            assert!(!line[2..].split("::").next().unwrap().contains("injected"), "{name:?}: {line}");
        }
        let report: Value = serde_json::from_str(&said("json")).unwrap();
        schema::keeps_to("report", &report);
        let sarif: Value = serde_json::from_str(&said("sarif")).unwrap();
        assert_eq!(sarif["version"], "2.1.0");
        let profile: Value =
            serde_json::from_str(&printed(folder.path(), &["export", "--firefox", "x.data"])).unwrap();
        assert!(!profile["counters"].as_array().unwrap().is_empty());
        // It asks for the type by its name, which a name that begins with a blank is not.
        let advice = tussle(folder.path(), &["advise", "x.data", "--format", "html"]);
        assert!(advice.status.code().is_some_and(|c| c <= 2), "{name:?}");
        let advice = String::from_utf8(advice.stdout).unwrap();
        assert!(!advice.split("<script").next().unwrap().contains("<img"), "{name:?}");
        // A folded stack is one line with one number at its end.
        for line in said("folded").lines() {
            assert!(line.rsplit(' ').next().unwrap().parse::<u64>().is_ok(), "{name:?}: {line}");
        }
    }
}

/// Folders and sources whose names end lines, call runners and clear screens, as debug information has them.
#[test]
fn paths_of_debug_information_stay_text() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("d\n::error file=x::injected \u{1b}[2J");
    std::fs::create_dir(&hostile).unwrap();
    let source = "s\ninjected **b** <img src=x onerror=alert(1)> |\u{1b}[31m.c";
    let text = "struct stats { long a; long b; } all;\nint main(void) { return all.a + all.b; }\n";
    std::fs::write(hostile.join(source), text).unwrap();
    let mut cc = Command::new("gcc");
    let built = cc.args(["-g", source, "-o", "../p"]).current_dir(&hostile).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let rules = "[[rule]]\ntype = \"struct stats\"\nseparate = [\"a\", \"b\"]\n";
    std::fs::write(folder.path().join("r.toml"), rules).unwrap();
    let inside = hostile.to_str().unwrap();
    let verbs: [&[&str]; 6] = [
        &["layout", "-C", "stats", "p"],
        &["layout", "--lines", "-C", "stats", "p", "p"],
        &["check", "--rules", "r.toml", "p"],
        &["diff", "p", "p"],
        &["lint", "--experimental", "p"],
        &["fix", "-C", "struct stats", "--move", "align:b=64", "--dir", inside, "--build", "true"],
    ];
    let injected = |l: &&str| l.starts_with("injected") || l.starts_with("::error file=x");
    for verb in verbs {
        for format in ["text", "md", "html", "github"] {
            let out = tussle(folder.path(), &[verb, &["--format", format]].concat());
            let (said, heard) =
                (String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr));
            harmless(&said, &format!("{verb:?} {format}"));
            harmless(&heard, &format!("{verb:?} {format}"));
            assert_eq!(said.lines().chain(heard.lines()).find(injected), None, "{verb:?} {format}");
            let bare = said.split("<script").next().unwrap().replace("\\<img", "");
            assert!(
                format == "text" || format == "github" || !bare.contains("<img"),
                "{verb:?} {format}: {said}"
            );
        }
    }
}

#[test]
fn what_programs_read_hangs_on_no_locale_and_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    evidence("größe", &folder.path().join("x.data"));
    for format in ["json", "html", "md", "sarif"] {
        let arguments = ["report", "x.data", "--format", format];
        let plain = tussle(folder.path(), &arguments).stdout;
        for (name, value) in
            [("LC_ALL", "C"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1"), ("COLUMNS", "20")]
        {
            let other = command(folder.path(), &arguments).env(name, value).output().unwrap().stdout;
            assert!(plain == other, "{format} with {name}={value}");
        }
    }
    let ascii = command(folder.path(), &["report", "x.data"]).env("LC_ALL", "C").output().unwrap().stdout;
    let ascii = String::from_utf8(ascii).unwrap();
    assert!(ascii.replace("größe", "").is_ascii(), "{ascii}");
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    evidence("stats", &folder.path().join("x.data"));
    let coloured = |variables: &[(&str, &str)]| {
        let mut c = command(folder.path(), &["report", "x.data"]);
        c.envs(variables.iter().copied());
        c.output().unwrap().stdout.contains(&b'\x1b')
    };
    assert!(!coloured(&[]) && !coloured(&[("TERM", "dumb")]) && !coloured(&[("NO_COLOR", "1")]));
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn a_reader_that_leaves_ends_quietly_and_a_full_disk_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    evidence("stats", &folder.path().join("x.data"));
    for format in ["text", "json", "html"] {
        let mut c = command(folder.path(), &["report", "x.data", "--format", format]);
        let mut child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert_eq!(said, "", "{format}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut c = command(folder.path(), &["report", "x.data", "--format", format]);
        let out = c.stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{format}");
        assert!(String::from_utf8_lossy(&out.stderr).starts_with("tussle: "), "{format}");
    }
}

/// Ten thousand contended lines, in each of which two threads count.
#[test]
fn ten_thousand_lines_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let mut s = Sample::new(1000);
    let main = s.thread("server", None);
    let start = s.code("worker", "server.c", 40, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    for i in 0..10_000u64 {
        let o = s.global(&format!("counters_{i}"), 0x10_0000 + 64 * i, 16, None, 64);
        s.access(o, 0, 8, one, (0, 100_000), [0, 5_000, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 5_000, 0]);
    }
    write(&folder.path().join("x.data"), &s.evidence());
    let html = printed(folder.path(), &["report", "x.data", "--format", "html"]);
    assert!(html.len() <= 5_000_000, "{} bytes", html.len());
    assert!(html.contains("counters_9999") || html.contains("counters_0"));
    let json: Value =
        serde_json::from_str(&printed(folder.path(), &["report", "x.data", "--format", "json"])).unwrap();
    schema::keeps_to("report", &json);
    let profile: Value =
        serde_json::from_str(&printed(folder.path(), &["export", "--firefox", "x.data"])).unwrap();
    assert_eq!(profile["counters"].as_array().unwrap().len(), 40);
}

#[test]
fn what_is_mistyped_is_said() {
    if !tussle_testkit::need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (file, members) in [("old", "long open; char pad[64]; long shut;"), ("new", "long open, shut;")] {
        let source = at.join(format!("{file}.c"));
        std::fs::write(&source, format!("struct server {{ {members} }} s;\n")).unwrap();
        let built =
            Command::new("gcc").args(["-g", "-c", "-o"]).arg(at.join(file)).arg(&source).status().unwrap();
        assert!(built.success());
    }
    std::fs::write(
        at.join("r.toml"),
        "[[rule]]\ntype = \"server\"\nseparate = [\"open\", \"shut\"]\nphases = [70]\n",
    )
    .unwrap();
    let fails = |arguments: &[&str], status: i32, words: &str| {
        let out = tussle(at, arguments);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            out.status.code() == Some(status) && said.contains(words),
            "{arguments:?}: {}: {said}",
            out.status
        );
    };
    assert_eq!(tussle(at, &["diff", "--hot", "open,shut", "old", "new"]).status.code(), Some(1));
    fails(&["diff", "--hot", "opne", "old", "new"], 2, "no type has a field `opne`; close: open");
    fails(&["diff", "--hot", "server.open", "old", "new"], 2, "not with the type");
    fails(&["check", "--rules", "r.toml", "new"], 2, "70 lies beyond a line of 64 bytes");
    fails(&["record", "--outptu", "x", "true"], 125, "--outptu: no such option");
    fails(&["live", "--sconds", "3", "true"], 2, "--sconds: no such option");
    fails(&["predict", "mmap_lock", "--machine", "2s-icelake-sp-69"], 2, "close: 2s-icelake-sp-96");
    evidence("meter", &at.join("x.data"));
    fails(&["advise", "x.data", "-C", "metre"], 2, "close: meter");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut help = command(at, &["--help"]);
    assert_eq!(help.stdout(full).status().unwrap().code(), Some(2));
    let cache = command(at, &["cache", "--format", "json"]).env("XDG_CACHE_HOME", at).output().unwrap();
    schema::keeps_to("cache", &serde_json::from_slice(&cache.stdout).unwrap());
}

/// The same finding ends every form of a report alike.
#[test]
fn all_forms_of_a_report_end_alike() {
    let folder = tempfile::tempdir().unwrap();
    evidence("meter", &folder.path().join("x.data"));
    let forms = ["--format folded", "--style type", "--format json", "--format sarif", "--format text"];
    for form in forms {
        let words: Vec<&str> = ["report", "x.data"].into_iter().chain(form.split(' ')).collect();
        assert_eq!(tussle(folder.path(), &words).status.code(), Some(1), "{form}");
    }
}

/// As a shell ends where a command is not found.
#[test]
fn without_a_cargo_its_verb_ends_with_127() {
    let folder = tempfile::tempdir().unwrap();
    let out = command(folder.path(), &["cargo", "build"]).env("PATH", folder.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(127), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stderr).contains("install Rust"));
}

/// What a terminal of this width shows: `script` is one, and `stty` tells its size.
fn on_a_terminal(folder: &Path, columns: usize, arguments: &[&str]) -> String {
    let words = arguments.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" ");
    let line =
        format!("stty cols {columns} rows 50; exec '{}' --no-pager {words}", env!("CARGO_BIN_EXE_tussle"));
    let mut c = Command::new("script");
    c.args(["-qec", &line, "/dev/null"]).current_dir(folder).stdin(Stdio::null()).env("NO_COLOR", "1");
    let out = c.env("TERM", "xterm").env("XDG_CACHE_HOME", folder.join("cache")).output().unwrap();
    String::from_utf8_lossy(&out.stdout).replace("\r\n", "\n")
}

/// Tables, headings and sentences of all verbs stay within 80, 120 and 200 columns; drawings are as wide as a line is.
#[test]
fn nothing_is_wider_than_the_screen() {
    if !tussle_testkit::need("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (at, here) = (folder.path(), Path::new(env!("CARGO_MANIFEST_DIR")));
    for file in ["hits.json", "rules.toml", "tussle.data"] {
        std::fs::copy(here.join("../../docs/guide.in").join(file), at.join(file)).unwrap();
    }
    let samples = here.join("../perf/tests/data/i_mmap-c2c.txt").display().to_string();
    let few = here.join("../../docs/statistics.in/few.jsonl").display().to_string();
    assert_eq!(tussle(at, &["import", "-q", &samples, "-o", "samples.data"]).status.code(), Some(0));
    evidence(
        "alloc::sync::ArcInner<meters::Meter<core::sync::atomic::AtomicU64>>.data",
        &at.join("long.data"),
    );
    let verbs: [&[&str]; 18] = [
        &["report"],
        &["report", "-v"],
        &["report", "--style", "type"],
        &["report", "tussle.data", "tussle.data"],
        &["report", "long.data"],
        &["report", "samples.data"],
        &["report", "samples.data", "--style", "c2c"],
        &["report", "samples.data", "--style", "type"],
        &["report", "samples.data", "samples.data"],
        &["advise"],
        &["advise", "-C", "hits", "-v"],
        &["check", "--rules", "rules.toml", "hits.json"],
        &["layout", "--lines", "-C", "hits", "hits.json"],
        &["diff", "hits.json", "hits.json"],
        &["compare", "-v", &few],
        &["scenario"],
        &["predict", "--list-machines"],
        &["predict", "mmap_lock", "--cpus", "2,4", "--draws", "8"],
    ];
    for (columns, verb) in [80, 120, 200].iter().flat_map(|c| verbs.iter().map(move |v| (*c, v))) {
        let shown = on_a_terminal(at, columns, verb);
        assert!(shown.lines().count() > 2, "{verb:?}: {shown}");
        // Lines of progress are overwritten.
        let last = |l: &str| l.rsplit('\r').next().unwrap_or_default().chars().count();
        let wide: Vec<&str> = shown.lines().filter(|l| last(l) > columns).collect();
        assert!(wide.is_empty(), "{verb:?} on {columns}: {wide:#?}");
    }
}
