//! A program under `tussle record` is started with what tussle itself was given: descriptors, signals, process group.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};

/// Prints what it was given, or how often each signal came that it sent to its process group.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile long pair[2];
static volatile int came[65];
static void *fight(void *p) { for (int i = 0; i < 5000; i++) pair[(long)p]++; return 0; }
static void on(int s) { came[s]++; }
int main(int argc, char **argv) {
    int given[3];
    for (int i = 0; i < 3; i++) given[i] = fcntl(i, F_GETFD) < 0 ? errno : 0;
    pthread_t t;
    pthread_create(&t, 0, fight, (void *)1), fight(0), pthread_join(t, 0);
    FILE *out = fopen(argv[1], "w");
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
        // What the program sends to its group comes once, and ends neither it nor tussle.
        ("setsid -w", "out group"),
    ];
    for (before, behind) in ways {
        let [native, recorded] = ["./native", &tussle].map(|p| seen(dir.path(), before, p, behind));
        assert!(native.ends_with("status 7\n"), "{native}");
        assert_eq!(native, recorded, "{before} {behind}");
    }
}
