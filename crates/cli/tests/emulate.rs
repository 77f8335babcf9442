//! `tussle record --emulate` on programs as their compilers left them: the line that two threads fight over is found,
//! and the program's own result stays.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use tussle_testkit::{need, wish};

/// Two threads, two words; the line is fought over unless `APART` is defined.
const C: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef APART
struct counts { volatile long hits; char gap[256]; volatile long misses; };
#else
struct counts { volatile long hits; volatile long misses; };
#endif
static struct counts *counts;
static void *hit(void *p) { for (long i = 0; i < 200000; i++) counts->hits++; return p; }
static void *miss(void *p) { for (long i = 0; i < 200000; i++) counts->misses++; return p; }
int main(void) {
    pthread_t a, b;
    counts = calloc(1, sizeof *counts);
    pthread_create(&a, 0, hit, 0);
    pthread_create(&b, 0, miss, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%ld %ld\n", counts->hits, counts->misses);
    return 3;
}
"#;

/// Each goroutine keeps a thread and waits for the other before each round: on a busy machine Go may run both on one
/// thread, or one after the other, and then they fight for nothing.
const GO: &str = r#"package main
import ("fmt"; "runtime"; "sync"; "sync/atomic")
type Counts struct { Hits uint64; Misses uint64 }
var arrived [64]uint64
func add(n *uint64, done *sync.WaitGroup) {
	runtime.LockOSThread()
	for round := uint64(1); round <= 20; round++ {
		for atomic.AddUint64(&arrived[32], 1); atomic.LoadUint64(&arrived[32]) < 2 * round; {}
		for i := 0; i < 10000; i++ { atomic.AddUint64(n, 1) }
	}
	done.Done()
}
func main() {
	counts := new(Counts)
	var done sync.WaitGroup
	done.Add(2)
	go add(&counts.Hits, &done)
	go add(&counts.Misses, &done)
	done.Wait()
	fmt.Println(counts.Hits, counts.Misses)
}
"#;

const RUST: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
struct Counts { hits: AtomicU64, misses: AtomicU64 }
fn main() {
    let counts = std::sync::Arc::new(Counts { hits: AtomicU64::new(0), misses: AtomicU64::new(0) });
    let other = counts.clone();
    let thread = std::thread::spawn(move || for _ in 0..200_000 { other.misses.fetch_add(1, Relaxed); });
    for _ in 0..200_000 { counts.hits.fetch_add(1, Relaxed); }
    thread.join().unwrap();
    println!("{} {}", counts.hits.load(Relaxed), counts.misses.load(Relaxed));
}
"#;

struct Lab(tempfile::TempDir);

impl Lab {
    /// `None` without an emulator.
    #[track_caller]
    fn new(emulator: &str) -> Option<Lab> {
        need(emulator).then(|| Lab(tempfile::tempdir().unwrap()))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn make(&self, source: (&str, &str), words: &[&str]) {
        std::fs::write(self.path().join(source.0), source.1).unwrap();
        let out = Command::new(words[0]).args(&words[1..]).current_dir(self.path()).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    fn tussle(&self, words: &[&str]) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(words).current_dir(self.path()).stdin(Stdio::null()).output().unwrap()
    }

    /// Records the program, which ends with `status` and prints both counts, and says what `report` does.
    #[track_caller]
    fn recorded(&self, program: &str, status: i32) -> String {
        let out = self.tussle(&["record", "--emulate", "--", program]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(status), "{said}");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "200000 200000\n", "{said}");
        let report = self.tussle(&["report"]);
        String::from_utf8_lossy(&report.stdout).into_owned()
    }
}

/// The most expected invalidations of the report's first row, which has to be there.
#[track_caller]
fn expected(report: &str) -> u64 {
    let row =
        report.lines().find(|l| l.starts_with("1  ")).unwrap_or_else(|| panic!("nothing found:\n{report}"));
    row.split_whitespace().nth(1).unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn c_is_found_by_field_dynamic_and_static_and_its_twin_is_not_accused() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let words = [&["gcc", "-O2", "-g", "-pthread", "p.c", "-o", "p"], flags].concat();
        lab.make(("p.c", C), &words);
        let report = lab.recorded("./p", 3);
        assert!(
            report.contains("`struct counts.hits` and `struct counts.misses` share a 64-byte line"),
            "{report}"
        );
        // As the recorder inside of programs has it: half of 400,000 stores find the line elsewhere.
        assert!((190_000..=210_000).contains(&expected(&report)), "{report}");
        lab.make(("p.c", C), &[&words[..], &["-DAPART"]].concat());
        let report = lab.recorded("./p", 3);
        assert!(report.starts_with("Nothing that a layout helps"), "{report}");
    }
}

#[test]
fn a_stripped_program_is_found_by_address() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        lab.make(("p.c", C), &[&["gcc", "-O2", "-s", "-pthread", "p.c", "-o", "p"], flags].concat());
        let report = lab.recorded("./p", 3);
        assert!(expected(&report) > 190_000, "{report}");
    }
}

#[test]
fn rust_is_found_by_field() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("rustc") {
        return;
    }
    lab.make(("p.rs", RUST), &["rustc", "-O", "-g", "p.rs", "-o", "p"]);
    let report = lab.recorded("./p", 0);
    assert!(report.contains("data.hits") && report.contains("data.misses"), "{report}");
    assert!((90_000..=210_000).contains(&expected(&report)), "{report}");
}

#[test]
fn go_is_found_by_field() {
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !wish("go") {
        return;
    }
    std::fs::write(lab.path().join("go.mod"), "module p\n").unwrap();
    let cache = lab.path().join("cache");
    let words =
        ["env", &format!("GOCACHE={}", cache.display()), "CGO_ENABLED=0", "go", "build", "-o", "p", "."];
    lab.make(("p.go", GO), &words);
    let report = lab.recorded("./p", 0);
    // Both counters do equal work, so either may be named first.
    let line = report.lines().find(|l| l.contains("share a 64-byte line")).unwrap_or_default();
    assert!(line.contains("main.Counts.Hits`") && line.contains("main.Counts.Misses`"), "{report}");
    assert!(report.contains("the allocator was told the type"), "{report}");
}

#[test]
fn programs_of_another_machine_are_found() {
    let Some(lab) = Lab::new("qemu-aarch64") else { return };
    if !wish("aarch64-linux-gnu-gcc") {
        return;
    }
    for flags in [&[][..], &["-static"]] {
        let words = [&["aarch64-linux-gnu-gcc", "-O2", "-g", "-pthread", "p.c", "-o", "p"], flags].concat();
        lab.make(("p.c", C), &words);
        let report = lab.recorded("./p", 3);
        assert!(report.contains("aarch64") && report.contains("struct counts.hits"), "{report}");
        assert!((190_000..=210_000).contains(&expected(&report)), "{report}");
    }
}

#[test]
fn forks_exec_and_crashes_keep_the_program_s_own_result() {
    const LIFE: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int n, char **v) {
    int status;
    if (n < 2) return 9;
    if (!strcmp(v[1], "crash")) raise(SIGSEGV);
    if (!strcmp(v[1], "exec"))
        return execl("/bin/sh", "sh", "-c", "test -z \"$TUSSLE_SESSION\" && exit 5", (char *)0);
    if (fork() == 0) _exit(6);
    wait(&status);
    return WEXITSTATUS(status);
}
"#;
    let Some(lab) = Lab::new("qemu-x86_64") else { return };
    if !need("gcc") {
        return;
    }
    lab.make(("life.c", LIFE), &["gcc", "-O1", "-g", "life.c", "-o", "life"]);
    let all = [("fork", 6, "2 processes"), ("crash", 139, "1 process"), ("exec", 5, "1 process")];
    for (word, status, processes) in all {
        let out = lab.tussle(&["record", "--emulate", "--", "./life", word]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(status), "{word}: {said}");
        assert!(said.contains(&format!("tussle: {processes}, ")), "{word}: {said}");
    }
}

#[test]
fn what_cannot_be_emulated_is_refused_with_the_reason() {
    let lab = Lab(tempfile::tempdir().unwrap());
    std::fs::write(lab.path().join("s"), "#!/bin/sh\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(lab.path().join("s"), executable).unwrap();
    let out = lab.tussle(&["record", "--emulate", "--", "./s"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("script") && said.contains("/bin/sh"), "{said}");
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let c = c.args(["record", "--emulate", "--", "/bin/true"]).env("TUSSLE_QEMU_USER", "/nonexistent/qemu");
    let out = c.current_dir(lab.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("qemu-user"), "{said}");
}
