//! No verb changes the folder that it is pointed at, or that it runs in: every path, inode, mode, size and time is as
//! it was, but for the one file that the verb says it writes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tussle_testkit::{need, skip};

/// Inode, mode, size, and time of the last change; of a folder no size.
type Stamp = (u64, u32, u64, i64, i64);

fn stamps(dir: &Path) -> BTreeMap<PathBuf, Stamp> {
    let (mut out, mut todo) = (BTreeMap::new(), vec![dir.to_path_buf()]);
    while let Some(at) = todo.pop() {
        let m = std::fs::symlink_metadata(&at).unwrap();
        if m.is_dir() {
            todo.extend(std::fs::read_dir(&at).unwrap().map(|e| e.unwrap().path()));
        }
        let size = if m.is_dir() { 0 } else { m.size() };
        out.insert(at, (m.ino(), m.mode(), size, m.mtime(), m.mtime_nsec()));
    }
    out
}

fn words(line: &str) -> Vec<String> {
    shell_words::split(line).unwrap()
}

/// The table of `perf c2c` of a mail.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../perf/tests/data/i_mmap-c2c.txt");

/// A folder with a program, built, and everything that a verb may be pointed at.
struct Lab {
    top: tempfile::TempDir,
}

const SOURCE: &str = r#"
#include <pthread.h>
#include <unistd.h>
struct pair { volatile long a, b; };
static struct pair pair;
static void *f(void *p) { for (int i = 0; i < 20000; i++) pair.a++; return p; }
int main(int argc, char **argv) {
	pthread_t t;
	pthread_create(&t, 0, f, 0);
	for (int i = 0; i < 20000; i++) pair.b++;
	pthread_join(t, 0);
	if (argc > 1) sleep(20);
	return argv[0] == 0;
}
"#;

impl Lab {
    fn new() -> Lab {
        let lab = Lab { top: tempfile::tempdir().unwrap() };
        let dir = lab.dir();
        std::fs::create_dir_all(dir.join("empty")).unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        put("pair.c", SOURCE);
        put("Makefile", "pair: pair.c\n\t$(CC) -g -O1 -pthread -o $@ pair.c\n");
        put("layout.toml", "[[rule]]\ntype = \"struct pair\"\nmax_size = 64\n");
        put("tussle.toml", "run = \"./pair\"\nrules = [\"layout.toml\"]\ncheck = [\"pair\"]\n");
        put("samples.txt", &std::fs::read_to_string(SAMPLES).unwrap());
        symlink("pair.c", dir.join("link.c")).unwrap();
        std::fs::set_permissions(dir.join("layout.toml"), PermissionsExt::from_mode(0o440)).unwrap();
        lab.runs("cc -g -O1 -pthread -o pair pair.c");
        lab.runs("record -- ./pair");
        lab.runs("record -o second.data -- ./pair");
        lab.runs("bench -o result.jsonl --pairs 3 a=true b=true");
        lab.runs("export -o evidence.json");
        let commit = "git init -q && git add pair.c && git -c user.name=n -c user.email=e commit -q -m one";
        assert!(Command::new("sh").args(["-c", commit]).current_dir(&dir).status().unwrap().success());
        lab
    }

    /// The folder that is to stay as it is.
    fn dir(&self) -> PathBuf {
        self.top.path().join("p")
    }

    /// A verb, in the folder.
    fn tussle(&self, arguments: &[String]) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(arguments).current_dir(self.dir()).env("NO_COLOR", "1");
        c.env("XDG_CACHE_HOME", self.top.path().join("cache"))
            .env("CARGO_TARGET_DIR", self.top.path().join("target"));
        c.output().unwrap()
    }

    #[track_caller]
    fn runs(&self, line: &str) {
        let out = self.tussle(&words(line));
        assert!(out.status.code() < Some(2), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Runs a verb; nothing in the folder but `writes` is other than before.
    #[track_caller]
    fn leaves_alone(&self, line: &str, writes: &[&str]) {
        let before = stamps(&self.dir());
        let out = self.tussle(&words(line));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() < Some(2), "{line}: {said}");
        let ours: Vec<PathBuf> = writes.iter().map(|w| self.dir().join(w)).collect();
        let rest = |all: BTreeMap<PathBuf, Stamp>| -> BTreeMap<PathBuf, Stamp> {
            // A new file changes its folder's time, and nothing else of it.
            let folder = |(p, s): (PathBuf, Stamp)| {
                let grows = !ours.is_empty() && p == self.dir();
                if grows { (p, (s.0, s.1, s.2, 0, 0)) } else { (p, s) }
            };
            all.into_iter().filter(|(p, _)| !ours.contains(p)).map(folder).collect()
        };
        assert_eq!(rest(before), rest(stamps(&self.dir())), "{line}");
        assert!(ours.iter().all(|p| p.exists()), "{line}: {writes:?} is not there: {said}");
    }
}

#[test]
fn verbs_that_only_read_leave_the_folder_as_it_is() {
    if !need("gcc") || !need("make") || !need("git") {
        return;
    }
    let lab = Lab::new();
    for line in [
        "report",
        "report --format html",
        "report tussle.data second.data",
        "advise",
        "advise -C pair --moves 2",
        "fix -C pair --move align:b=64",
        "fix tussle.data -C pair --dir .",
        "layout pair -C pair",
        "diff pair pair",
        "check",
        "check --rules layout.toml pair",
        "lint --experimental pair",
        "place -C pair --field 'long c' pair",
        "snapshot -C pair pair -o ../pair.json",
        "export --jsonl -o ../rows",
        "export --firefox -o ../profile",
        "compare result.jsonl",
        "predict tussle.data --machine 2s-broadwell-56 --draws 4 --cpus 2",
        "predict --list-machines",
        "cache",
        "demo --rounds 3",
        "completions bash",
        "triage samples.txt",
        "import samples.txt -o ../imported.data",
        "man --help",
    ] {
        lab.leaves_alone(line, &[]);
    }
}

#[test]
fn verbs_that_write_one_file_change_no_other() {
    if !need("gcc") || !need("make") || !need("git") {
        return;
    }
    let lab = Lab::new();
    let data = &["tussle.data", "tussle.data.old"][..];
    lab.leaves_alone("record -- ./pair", data);
    lab.leaves_alone("record -o own.data -- ./pair", &["own.data"]);
    lab.leaves_alone("record --project . -o ../out.data", &[]);
    lab.leaves_alone("hunt . --no-bench -o ../hunt.data --patch ../hunt.patch", &[]);
    lab.leaves_alone("hunt . --no-bench", &["tussle.data", "tussle.data.old", "tussle.patch"]);
    lab.leaves_alone("bench --pairs 2 a=true b=true", &["tussle-bench.jsonl"]);
    lab.leaves_alone("history --add result.jsonl --commit HEAD", &["tussle-history.jsonl"]);
    lab.leaves_alone("snapshot -C pair pair -o pair.json", &["pair.json"]);
    lab.leaves_alone("export -o again.json", &["again.json"]);
    lab.leaves_alone("import samples.txt -o mine.data", &["mine.data"]);
    lab.leaves_alone("cc -c -o ../pair.o pair.c", &[]);
}

/// A process is looked at from the folder that its program lies in.
#[test]
fn looking_at_a_process_leaves_its_folder_as_it_is() {
    if !need("gcc") || !need("git") {
        return;
    }
    let lab = Lab::new();
    let mut child = Command::new("./pair").arg("sleeps").current_dir(lab.dir()).spawn().unwrap();
    let maps = format!("/proc/{}/maps", child.id());
    let data = |maps: String| {
        let line = maps.lines().find(|l| l.contains("/pair") && l.contains(" rw-p "))?;
        Some(format!("0x{}", line.split('-').next()?))
    };
    let started = std::time::Instant::now();
    let at = loop {
        let found = data(std::fs::read_to_string(&maps).unwrap());
        if let Some(at) = found {
            break at;
        }
        assert!(started.elapsed().as_secs() < 20, "no data mapped");
    };
    lab.leaves_alone(&format!("where {} {at}", child.id()), &[]);
    let live = format!("live -p {} --duration 300ms -o ../live.data", child.id());
    match String::from_utf8_lossy(&lab.tussle(&words(&live)).stderr) {
        refused if refused.contains("perf event") || refused.contains("perf_event") => skip(&refused),
        _ => lab.leaves_alone(&live, &[]),
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// cargo keeps its lock file in the package; the rest goes where cargo builds.
#[test]
fn cargo_builds_where_it_is_told_to() {
    if !need("cargo") || !need("gcc") || !need("git") {
        return;
    }
    let lab = Lab::new();
    let package = "[package]\nname = \"one\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    std::fs::write(lab.dir().join("Cargo.toml"), package).unwrap();
    std::fs::create_dir(lab.dir().join("src")).unwrap();
    std::fs::write(lab.dir().join("src/main.rs"), "fn main() {}\n").unwrap();
    lab.leaves_alone("cargo build --release", &["Cargo.lock"]);
    lab.leaves_alone("cargo run --release", &["tussle.data", "tussle.data.old"]);
    lab.leaves_alone("cargo build --target-dir ../named", &[]);
}
