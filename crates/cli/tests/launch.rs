//! A program under `tussle record` is started with what tussle itself was given: descriptors, signals, process group.

#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Prints what it was given, or how often each signal came that it sent to its process group.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static volatile long pair[2];
static volatile int came[65];
static void *fight(void *p) { for (int i = 0; i < 5000; i++) pair[(long)p]++; return 0; }
static int told;
static void on(int s) { came[s]++; if (told) write(told, "x", 1); }
/* Counts signals until a file is there; each that comes makes another one longer. */
static int counts(FILE *out) {
    int all[] = {SIGUSR1, SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGCONT, SIGALRM, SIGRTMIN + 3};
    int n = sizeof all / sizeof all[0];
    for (int i = 0; i < n; i++) signal(all[i], on);
    told = open("came", O_CREAT | O_WRONLY | O_APPEND, 0600);
    while (access("enough", F_OK)) usleep(5000);
    for (int i = 0; i < n; i++) fprintf(out, "%d came %d times\n", all[i], came[all[i]]);
    return 7;
}
extern char **environ;
/* Starts the rest of its arguments in an environment that no shell makes. */
static int starts(char **argv) {
    char *odd[] = {"B=1", "A=1", "NOEQ", "A=2", "=x", "PATH=/usr/bin:/bin", "A_A=3", "EMPTY=", 0};
    execve(argv[0], argv, odd);
    return 127;
}
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "odd")) return starts(argv + 2);
    int given[3];
    for (int i = 0; i < 3; i++) given[i] = fcntl(i, F_GETFD) < 0 ? errno : 0;
    pthread_t t;
    pthread_create(&t, 0, fight, (void *)1), fight(0), pthread_join(t, 0);
    FILE *out = fopen(argv[1], "w");
    if (argc > 2 && !strcmp(argv[2], "outside")) return counts(out);
    if (argc > 2) {
        int all[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGCONT, SIGQUIT,
            SIGALRM, SIGPROF, SIGIO, SIGRTMIN + 3};
        int n = sizeof all / sizeof all[0];
        for (int i = 0; i < n; i++) signal(all[i], on);
        for (int i = 0; i < n; i++) kill(0, all[i]), usleep(20000);
        usleep(200000);
        for (int i = 0; i < n; i++) fprintf(out, "%d came %d times\n", all[i], came[all[i]]);
        return 7;
    }
    fprintf(out, "standard %d %d %d\n", given[0], given[1], given[2]);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "TUSSLE_", 7)) fprintf(out, "%s\n", *e);
    struct rlimit r;
    for (int i = 0; i < RLIM_NLIMITS; i++)
        if (!getrlimit(i, &r)) fprintf(out, "limit %d %lld %lld\n", i, (long long)r.rlim_cur, (long long)r.rlim_max);
    for (int i = 0; i < 256; i++)
        if (i != fileno(out) && fcntl(i, F_GETFD) >= 0) fprintf(out, "%d is open\n", i);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, 0, &blocked);
    for (int i = 1; i < 65; i++) {
        struct sigaction a;
        if (sigaction(i, 0, &a) == 0)
            fprintf(out, "%d %s %d\n", i, a.sa_handler == SIG_IGN ? "ignored" : "default", sigismember(&blocked, i));
    }
    return 7;
}
"#;

/// Both builds of the program in a folder; `None` without a compiler.
fn lab() -> Option<tempfile::TempDir> {
    if !tussle_testkit::need("gcc") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.c"), PROGRAM).unwrap();
    let run = |c: &mut Command| {
        let out = c.current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    run(Command::new("gcc").args(["-w", "-O1", "p.c", "-o", "native", "-lpthread"]));
    run(Command::new(env!("CARGO_BIN_EXE_tussle")).args([
        "cc",
        "-w",
        "-O1",
        "p.c",
        "-o",
        "recorded",
        "-lpthread",
    ]));
    Some(dir)
}

/// Runs a line of the shell in a session of its own; what the program wrote, and its status.
fn seen(folder: &Path, before: &str, program: &str, behind: &str) -> String {
    let line = format!("{before} {program} {behind}\necho status $? >>out");
    let mut c = Command::new("setsid");
    c.args(["-w", "sh", "-c", &line]).current_dir(folder).stdin(Stdio::null());
    c.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    std::fs::read_to_string(folder.join("out")).unwrap_or_default()
}

#[test]
fn the_program_gets_what_tussle_was_given() {
    let Some(dir) = lab() else { return };
    let tussle = format!("{} record --no-names -- ./recorded", env!("CARGO_BIN_EXE_tussle"));
    let ways = [
        ("", "out"),
        ("", "out <&-"),
        ("", "out >&- 2>&-"),
        ("", "out 7</dev/null"),
        ("trap '' PIPE; trap '' HUP;", "out"),
        ("trap '' CHLD; trap '' XFSZ;", "out"),
        ("./native odd", "out"),
        ("ulimit -S -s 64;", "out"),
        ("ulimit -S -v 100000;", "out"),
        // What the program sends to its group comes once, and ends neither it nor tussle.
        ("setsid -w", "out group"),
    ];
    for (before, behind) in ways {
        let [native, recorded] = ["./native", &tussle].map(|p| seen(dir.path(), before, p, behind));
        assert!(native.ends_with("status 7\n"), "{native}");
        assert_eq!(native, recorded, "{before} {behind}");
    }
}

/// What nothing can be recorded under is said before the program runs.
#[test]
fn limits_that_leave_no_room_are_told() {
    let Some(dir) = lab() else { return };
    for (limit, word) in [("-f 8", "ulimit -f"), ("-v 90000", "ulimit -v")] {
        let line = format!(
            "ulimit {limit}; exec {} record --no-names -- ./recorded out",
            env!("CARGO_BIN_EXE_tussle")
        );
        // SAFETY: a system call that only answers.
        let root = unsafe { libc::geteuid() } == 0;
        // Without the right to raise what is given.
        let mut c = Command::new(if root { "setpriv" } else { "env" });
        c.args(root.then_some(["--bounding-set", "-sys_resource", "--inh-caps", "-all"]).iter().flatten());
        c.args(["sh", "-c", &line]);
        let out = c.current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(125) && said.contains(word), "{limit}: {said}");
        assert!(!dir.path().join("out").exists());
    }
}

/// Whether a process has no signal that waits, and is in no handler that blocks others: one that it is sent now does
/// not become one with another.
fn has_handled(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut sets = status.lines().filter(|l| l.starts_with("ShdPnd:") || l.starts_with("SigBlk:"));
    sets.all(|l| l.ends_with("\t0000000000000000"))
}

/// What others send: to the process that they see, and to its group.
fn sent_from_outside(folder: &Path, program: &[&str]) -> String {
    let files = ["out", "came", "enough"].map(|f| folder.join(f));
    for f in &files {
        let _ = std::fs::remove_file(f);
    }
    let [out, came, enough] = &files;
    let mut c = Command::new(program[0]);
    c.args(&program[1..]).args(["out", "outside"]).current_dir(folder).process_group(0);
    // Who starts the tests may ignore signals, as shells do in the background, and tussle would leave it at that.
    let heed = || {
        for n in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: sets a disposition in the child, which is about to be another program.
            unsafe { libc::signal(n, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: it only makes system calls.
    unsafe { c.pre_exec(heed) };
    let mut child = c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let process = child.id() as i32;
    let length = || came.metadata().map(|m| m.len()).ok();
    let until = |enough: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !enough() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    until(&|| length().is_some());
    let signals = [libc::SIGUSR1, libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGWINCH, libc::SIGCONT];
    for signal in signals.into_iter().chain([libc::SIGALRM, libc::SIGRTMIN() + 3]) {
        for to in [-process, process, -process, process] {
            let before = length().unwrap();
            // SAFETY: a process, and a group, of ours that nobody has waited for.
            assert_eq!(unsafe { libc::kill(to, signal) }, 0);
            until(&|| length().unwrap() > before && has_handled(process));
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(enough, "").unwrap();
    let status = child.wait().unwrap();
    std::fs::read_to_string(out).unwrap_or_default() + &status.to_string()
}

#[test]
fn signals_from_outside_come_once() {
    let Some(dir) = lab() else { return };
    let native = sent_from_outside(dir.path(), &["./native"]);
    assert_eq!((native.matches("came 4 times").count(), native.contains("status: 7")), (8, true), "{native}");
    let tussle = [env!("CARGO_BIN_EXE_tussle"), "record", "--no-names", "--", "./recorded"];
    assert_eq!(sent_from_outside(dir.path(), &tussle), native);
}
