//! Every verb ends on files that lie: within a bound on time and memory, with an answer or an error, never a panic.
//!
//! The files are sound ones with numbers replaced by those at which arithmetic breaks. Some in every run, more with
//! `TUSSLE_SLOW=hostile`; `TUSSLE_HOSTILE_SEED=N` begins elsewhere.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use tussle_evidence::sample::Sample;

/// What one verb may take: seconds of CPU time, and KiB of address space for a dozen threads' stacks and arenas.
const LIMITS: &str = "ulimit -t 20; ulimit -v 4000000; exec \"$@\"";

/// Numbers at which sizes, offsets, counts and ids break.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "3",
    "255",
    "4095",
    "65537",
    "2147483648",
    "4294967295",
    "1099511627776",
    "140737488355328",
    "72057594037927936",
    "4611686018427387904",
    "9223372036854775807",
    "18446744073709551615",
    "-1",
    "1e300",
    "null",
];

/// A small generator of numbers (Knuth's MMIX): the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Ranges of the numbers in a JSON text, those inside of strings excepted.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut start, mut quoted) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        quoted ^= c == '"';
        let digit = !quoted && (c.is_ascii_digit() || matches!(c, '.' | '-'));
        match start {
            None if digit => start = Some(at),
            Some(from) if !digit => {
                found.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// Replaces one to four numbers.
fn lie(text: &str, dice: &mut Dice) -> String {
    let mut text = text.to_string();
    // The first line or field tells format and version: a lie there ends everything at once.
    let first = text.find(['\n', '[']).unwrap_or(0);
    for _ in 0..=dice.roll(4) {
        let all: Vec<_> = numbers(&text).into_iter().filter(|r| r.start > first).collect();
        let at = all[dice.roll(all.len())].clone();
        text.replace_range(at, NUMBERS[dice.roll(NUMBERS.len())]);
    }
    text
}

/// Runs a verb under the limits; panics unless it ended by itself with an answer or an error.
fn ends(folder: &Path, arguments: &[&str]) {
    let began = Instant::now();
    let mut c = Command::new("sh");
    c.args(["-c", LIMITS, "sh", env!("CARGO_BIN_EXE_tussle")]).args(arguments).current_dir(folder);
    let out: Output = c.env("XDG_CACHE_HOME", folder.join("cache")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let fine = out.status.code().is_some_and(|c| c <= 2) && !said.contains("panicked");
    if !fine {
        let keep = std::env::temp_dir().join(format!("tussle-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&keep).unwrap();
        for file in ["x.data", "x.json"] {
            let _ = std::fs::copy(folder.join(file), keep.join(file));
        }
        panic!(
            "{arguments:?}: {:?} after {:?}, files in {}\n{said}",
            out.status,
            began.elapsed(),
            keep.display()
        );
    }
}

const EVIDENCE_VERBS: &[&[&str]] = &[
    &["report", "x.data"],
    &["report", "x.data", "--format", "json", "--phase", "8"],
    &["report", "x.data", "--split", "even", "--line", "128"],
    &["report", "x.data", "x.data"],
    &["advise", "x.data", "-C", "stats", "--moves", "2"],
    &["advise", "x.data", "-C", "counters"],
    &["fix", "x.data", "-C", "stats", "--dir", "."],
    &["fix", "x.data", "-C", "counters", "--move", "align:b=64", "--dir", "."],
    &["predict", "x.data", "--draws", "1", "--cpus", "2"],
    &["predict", "x.data", "--draws", "1", "--cpus", "2", "-C", "counters", "--move", "swap:a,la"],
    &["layout", "x.data"],
];

const LAYOUT_VERBS: &[&[&str]] = &[
    &["layout", "x.json"],
    &["layout", "x.json", "--lines", "-C", "mm_struct,s"],
    &["layout", "x.json", "-E", "-s"],
    &["diff", "x.json", "good.json"],
    &["diff", "good.json", "x.json", "-C", "mm_struct,s"],
    &["check", "--rules", "rules.toml", "x.json"],
    &["snapshot", "x.json", "-C", "mm_struct,s", "-o", "y.json"],
    &["predict", "mmap_lock", "--draws", "1", "--cpus", "2", "--set", "run_us=20", "--before", "x.json"],
    &["place", "x.json", "-C", "mm_struct", "--field", "int x"],
    &["place", "x.json", "good.json", "-C", "s", "--field", "char x"],
];

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn try_all(rounds: usize, originals: &[String], name: &str, verbs: &[&[&str]], folder: &Path) {
    let seed = std::env::var("TUSSLE_HOSTILE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let text = lie(&originals[round % originals.len()], &mut dice);
        std::fs::write(folder.join(name), text).unwrap();
        for verb in verbs {
            ends(folder, verb);
        }
    }
}

fn rounds(few: usize) -> usize {
    if tussle_testkit::slow("hostile") { 100 * few } else { few }
}

fn written(sample: Sample) -> String {
    let mut bytes = Vec::new();
    tussle_evidence::file::write_jsonl(&sample.evidence(), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A folder with the sources that the evidence speaks of, so that `fix` has something to patch.
fn program() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = "struct stats { long hits; long misses; } s;\nint main(void) { return (int)s.hits; }\n";
    std::fs::write(folder.path().join("server.c"), text.replace("; ", ";\n\t")).unwrap();
    folder
}

#[test]
fn every_verb_ends_on_a_hostile_evidence() {
    let folder = program();
    let read = |path: &str| std::fs::read_to_string(repository(path)).unwrap();
    let originals = [
        written(Sample::two_counters()),
        read("crates/scenarios/tests/data/two-locks.evidence"),
        read("crates/scenarios/tests/data/one-lock.evidence"),
    ];
    try_all(rounds(9), &originals, "x.data", EVIDENCE_VERBS, folder.path());
}

#[test]
fn every_verb_ends_on_a_hostile_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let good = repository("crates/layout/tests/data/snapshots/6.1-amd64.json");
    std::fs::copy(&good, folder.path().join("good.json")).unwrap();
    std::fs::copy(repository("rules/linux-mm.toml"), folder.path().join("rules.toml")).unwrap();
    let small = repository("fuzz/corpus/snapshot/all.json");
    let originals = [good, small].map(|p| std::fs::read_to_string(p).unwrap());
    try_all(rounds(8), &originals, "x.json", LAYOUT_VERBS, folder.path());
}

/// Devices never end, or wait for a terminal.
#[test]
fn devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["/dev/full", "/dev/zero", "/dev/urandom"] {
        for verb in ["report", "layout", "predict", "import"] {
            let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
            let out = c.args([verb, device]).current_dir(folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(
                !out.status.success() && said.contains("it is a device, not a file"),
                "{verb} {device}: {said}"
            );
        }
    }
}

/// A pipe that never ends is given up, and what it said so far is not taken for all of it.
#[test]
fn endless_mails_are_refused() {
    let line = "yes 'a line of a mail' | (ulimit -v 1000000; \"$0\" triage -)";
    let out = Command::new("sh").args(["-c", line, env!("CARGO_BIN_EXE_tussle")]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("more than 64 MiB"), "{said}");
}

/// The file that made `advise` allocate for ever: one type of 2^63 - 1 bytes.
#[test]
fn a_type_as_large_as_the_numbers_go() {
    let folder = program();
    for size in ["9223372036854775807", "18446744073709551615", "140737488355328"] {
        let text = written(Sample::two_counters())
            .replace(r#""size":8,"encoding""#, &format!(r#""size":{size},"encoding""#));
        assert!(text.contains(size));
        std::fs::write(folder.path().join("x.data"), text).unwrap();
        for verb in EVIDENCE_VERBS {
            ends(folder.path(), verb);
        }
    }
}
