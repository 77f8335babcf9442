//! The rows of docs/containers.md, each in namespaces made by `unshare`, under a filter of system calls of our own, or
//! without rights: the same small program is recorded in all of them, and its pair is found.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use tussle_testkit::{need, skip};

/// Two threads, two fields, one line.
const PROGRAM: &str = "
#include <pthread.h>
struct pair { long a, b; };
static struct pair pair;
static void *work(void *p) { for (long i = 0; i < 300000; i++) *(volatile long *)p += 1; return 0; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, &pair.a), pthread_create(&b, 0, work, &pair.b);
    pthread_join(a, 0), pthread_join(b, 0);
    return pair.a + pair.b == 600000 ? 0 : 1;
}
";

/// Answers EPERM to what Docker's default denies, or denies some uses of, and becomes its arguments.
const FILTER: &str = "
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int n, char **v) {
    int denied[] = {SYS_personality, SYS_perf_event_open, SYS_ptrace, SYS_process_vm_readv, SYS_bpf, SYS_userfaultfd,
        SYS_keyctl, SYS_mount, SYS_unshare, SYS_kcmp, SYS_io_uring_setup};
    int count = sizeof denied / sizeof *denied, at = 0;
    struct sock_filter code[64];
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    execvp(v[1], v + 1);
    return 78;
}
";

/// A folder that others may enter, with the program compiled for recording and the filter.
fn lab() -> Option<tempfile::TempDir> {
    if !need("gcc") {
        return None;
    }
    // Not below /tmp, which some rows hide.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).unwrap();
    std::fs::write(dir.path().join("p.c"), PROGRAM).unwrap();
    std::fs::write(dir.path().join("filter.c"), FILTER).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let out = Command::new(program).args(arguments).current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    run(env!("CARGO_BIN_EXE_tussle"), &["cc", "-g", "-O1", "-pthread", "p.c", "-o", "p"]);
    run("gcc", &["filter.c", "-o", "filter"]);
    Some(dir)
}

/// A line of the shell behind `words`, in the folder.
fn shell(at: &Path, words: &[&str], line: &str) -> Output {
    let mut all = words.to_vec();
    all.extend(["sh", "-c", line]);
    let mut c = Command::new(all[0]);
    c.args(&all[1..]).current_dir(at).stdin(Stdio::null()).env("NO_COLOR", "1").env_remove("TMPDIR");
    c.output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn record(to: &str) -> String {
    format!("{} record -o {to} -- ./p", env!("CARGO_BIN_EXE_tussle"))
}

/// Records behind `words`, after `before`, and finds the pair in what comes out; what was said. `None`: this machine
/// does not let us have the namespaces, or whatever the words ask for.
#[track_caller]
fn recorded(at: &Path, words: &[&str], before: &str) -> Option<String> {
    if !shell(at, words, &format!("{before} true")).status.success() {
        skip(&format!("not here: {words:?} {before}"));
        return None;
    }
    let to = at.join("out.data");
    let out = shell(at, words, &format!("{before} {}", record(&to.display().to_string())));
    let words = said(&out);
    assert_eq!(out.status.code(), Some(0), "{words}");
    found(at, &to);
    std::fs::remove_file(to).unwrap();
    Some(words)
}

#[track_caller]
fn found(at: &Path, evidence: &Path) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let out = c.arg("report").arg(evidence).current_dir(at).env("NO_COLOR", "1").output().unwrap();
    let report = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(1) && report.contains("pair.a"), "{report}{}", said(&out));
}

/// Some rows put another file system on /tmp. A build that lies there cannot be seen then.
fn is_hidden() -> bool {
    let hidden = ["/tmp", "/var/tmp"].iter().any(|t| Path::new(env!("CARGO_BIN_EXE_tussle")).starts_with(t));
    if hidden {
        skip("the build lies in a folder for temporary files");
    }
    hidden
}

#[test]
fn with_little_shared_memory_raw_files_go_elsewhere() {
    let Some(dir) = lab() else { return };
    let small = |size: &str| format!("mount -t tmpfs -o size={size} small /dev/shm &&");
    for size in ["64m", "64k"] {
        if let Some(told) = recorded(dir.path(), &["unshare", "-rm"], &small(size)) {
            assert!(told.contains("/dev/shm") || size == "64m", "{told}");
        }
    }
}

#[test]
fn where_no_other_place_can_be_written_shared_memory_is_taken() {
    let Some(dir) = lab().filter(|_| !is_hidden()) else { return };
    let closed = "mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o ro none /var/tmp &&";
    let small = format!("mount -t tmpfs -o size=64m small /dev/shm && {closed}");
    recorded(dir.path(), &["unshare", "-rm"], &small);
}

/// As in Kubernetes: the root cannot be written, a scratch volume at /tmp, nothing is granted.
#[test]
fn with_a_root_that_cannot_be_written() {
    let Some(dir) = lab().filter(|_| !is_hidden()) else { return };
    let at = dir.path();
    let closed = "mount --make-rprivate / && mount -t tmpfs none /tmp && mount -o bind,remount,ro / &&";
    let (words, to) = (["unshare", "-rm"], "/tmp/tussle.data");
    if !shell(at, &words, &format!("{closed} ! touch here")).status.success() {
        return skip("no root that cannot be written");
    }
    let line = format!("{closed} {} && {} report {to}", record(to), env!("CARGO_BIN_EXE_tussle"));
    let out = shell(at, &words, &line);
    let report = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.code() == Some(1) && report.contains("pair.a"), "{report}{}", said(&out));
    let refused = shell(at, &words, &format!("{closed} {}", record("here.data")));
    assert!(said(&refused).contains("here.data"), "{}", said(&refused));
    assert_eq!(refused.status.code(), Some(125), "{}", said(&refused));
}

#[test]
fn without_rights_and_as_nobody() {
    let Some(dir) = lab() else { return };
    // SAFETY: a system call that only answers.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root becomes somebody else");
    }
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    let words = [nobody.as_slice(), &["--inh-caps=-all", "--no-new-privs"]].concat();
    let reached =
        Command::new(words[0]).args(&words[1..]).args(["test", "-x", env!("CARGO_BIN_EXE_tussle")]).status();
    if !reached.is_ok_and(|s| s.success()) {
        return skip("the build lies where only its owner comes");
    }
    recorded(dir.path(), &words, "");
}

#[test]
fn under_a_filter_of_system_calls() {
    let Some(dir) = lab() else { return };
    if recorded(dir.path(), &["./filter"], "").is_none() {
        return;
    }
    let out = shell(
        dir.path(),
        &["./filter"],
        &format!("{} live --duration 1s -p $$", env!("CARGO_BIN_EXE_tussle")),
    );
    assert!(out.status.code() == Some(2), "{}", said(&out));
    assert!(said(&out).contains("seccomp") || said(&out).contains("perf_event"), "{}", said(&out));
}

#[test]
fn in_namespaces_of_users_processes_and_networks() {
    let Some(dir) = lab() else { return };
    let kinds = [&["-U"][..], &["-r"], &["-rpf"], &["-rpfmn", "--mount-proc"]];
    for words in kinds.map(|k| [&["unshare"], k].concat()) {
        recorded(dir.path(), &words, "");
    }
}

/// Without a home every verb that needs the cache asks for a folder in the same words, and takes one that it is given.
#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let Some(dir) = lab() else { return };
    let at = dir.path();
    let compile = format!("{} cc -g -pthread p.c -o again", env!("CARGO_BIN_EXE_tussle"));
    std::fs::write(at.join("file"), "").unwrap();
    for line in
        ["cc p.c -o again", "cc --print-include", "hunt p.c", "cargo build", "record --children -- true"]
    {
        let line = format!("{} {line}", env!("CARGO_BIN_EXE_tussle"));
        let out = shell(at, &["env", "-u", "XDG_CACHE_HOME", "HOME=./file"], &line);
        let said = said(&out);
        let named = said.contains("file/.cache") && said.contains("XDG_CACHE_HOME=/tmp/cache");
        assert!(!out.status.success() && named, "{line}: {said}");
    }
    let cache = format!("XDG_CACHE_HOME={}", at.join("cache").display());
    let out = shell(at, &["env", &cache, "HOME=./file"], &compile);
    assert!(out.status.success(), "{}", said(&out));
}
