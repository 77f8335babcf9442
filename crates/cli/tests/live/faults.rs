//! What can go wrong with a target or a machine: each says what to change, and keeps what was seen until then.

use super::{Lab, Running, finds_the_fight, is_root, said, wait_until_it_watches};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tussle_testkit::{need, skip};

/// The fight of the other tests for some seconds; then the process becomes a program that only sleeps.
const BECOMES: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    struct pair { volatile long left, right; } pair __attribute__((aligned(64)));
    static void *left(void *at) { for (;;) pair.left++; return at; }
    static void *right(void *at) { for (;;) pair.right++; return at; }
    int main(void) {
        pthread_t a, b;
        pthread_create(&a, 0, left, 0);
        pthread_create(&b, 0, right, 0);
        sleep(3);
        execlp("sleep", "sleep", "3", (char *)0);
        return 1;
    }"#;

/// The fight, while a third thread starts and joins others as fast as it can.
const STORM: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    struct pair { volatile long left, right; } pair __attribute__((aligned(64)));
    static void *left(void *at) { for (;;) pair.left++; return at; }
    static void *right(void *at) { for (;;) pair.right++; return at; }
    static void *nothing(void *at) { return at; }
    int main(void) {
        pthread_t a, b, some[16];
        alarm(60);
        pthread_create(&a, 0, left, 0);
        pthread_create(&b, 0, right, 0);
        for (;;) {
            for (int n = 0; n < 16; n++) pthread_create(&some[n], 0, nothing, 0);
            for (int n = 0; n < 16; n++) pthread_join(some[n], 0);
        }
    }"#;

pub fn compile(lab: &Lab, name: &str, source: &str) {
    let c = format!("{name}.c");
    std::fs::write(lab.at().join(&c), source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-pthread", "-o", name, &c]).current_dir(lab.at());
    assert!(cc.status().unwrap().success());
}

/// What the evidence's table `processes` says of how they ended, in order.
pub fn ends(lab: &Lab, evidence: &str) -> Vec<String> {
    let out = lab.tussle(&["export", "--jsonl", evidence]);
    assert!(out.status.success(), "{}", said(&out));
    let text = String::from_utf8(out.stdout).unwrap();
    let mut lines = text.lines().skip_while(|l| !l.contains(r#""table":"processes""#));
    let head = lines.next().unwrap();
    assert!(head.contains(r#""pid","parent","exe","build_id","end""#), "{head}");
    let end = |l: &str| l.trim_end_matches(']').rsplit(',').next().unwrap().trim_matches('"').to_string();
    lines.take_while(|l| l.starts_with('[')).map(end).collect()
}

#[test]
fn a_target_that_ends_leaves_what_was_seen() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let pid = run.0.id().to_string();
    let live = Command::new(env!("CARGO_BIN_EXE_tussle"))
        .args(["live", "--duration", "500s", "-o", "ended.data", "-p", &pid])
        .current_dir(lab.at())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_watches(live.id());
    std::thread::sleep(Duration::from_secs(3));
    drop(run);
    // It does not wait for the rest of its time.
    finds_the_fight(&live.wait_with_output().unwrap());
    assert_eq!(ends(&lab, "ended.data"), ["exited"]);
    let gone = lab.tussle(&["live", "-p", &pid]);
    assert!(!gone.status.success() && said(&gone).contains("does not exist"), "{}", said(&gone));
}

#[test]
fn a_target_that_runs_another_program_leaves_what_was_seen() {
    let Some(lab) = Lab::new() else { return };
    compile(&lab, "becomes", BECOMES);
    let out = lab.tussle(&["live", "--duration", "60s", "-o", "exec.data", "--", "./becomes"]);
    finds_the_fight(&out);
    let ends = ends(&lab, "exec.data");
    assert!(ends.contains(&"exec".to_string()) && ends.len() >= 2, "{ends:?}");
}

/// A budget that is spent at once: the clock pauses when the other program begins, which sleeps, so that it never goes
/// on.
#[test]
fn another_program_is_noticed_while_the_clock_pauses() {
    let Some(lab) = Lab::new() else { return };
    compile(&lab, "becomes", BECOMES);
    let words = ["live", "--duration", "60s", "--overhead", "0.1%", "-o", "paused.data", "--", "./becomes"];
    let out = lab.tussle(&words);
    let ends = ends(&lab, "paused.data");
    assert!(ends.contains(&"exec".to_string()) && ends.len() >= 2, "{ends:?}: {}", said(&out));
}

/// The fight goes on after the main thread's end: `/proc` calls the process a zombie then.
#[test]
fn a_process_lives_on_without_its_main_thread() {
    let Some(lab) = Lab::new() else { return };
    let source = BECOMES.replace("sleep(3);", "alarm(60); pthread_exit(0);");
    compile(&lab, "headless", &source);
    let run = Running(Command::new("./headless").current_dir(lab.at()).spawn().unwrap());
    while !std::fs::read_to_string(format!("/proc/{}/stat", run.0.id())).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = lab.tussle(&["live", "--duration", "3s", "-o", "headless.data", "-p", &run.0.id().to_string()]);
    finds_the_fight(&out);
    assert_eq!(ends(&lab, "headless.data"), ["running"]);
}

#[test]
fn storms_of_threads_are_followed() {
    let Some(lab) = Lab::new() else { return };
    compile(&lab, "storm", STORM);
    let run = Running(Command::new("./storm").current_dir(lab.at()).spawn().unwrap());
    let watch = |duration: &str| {
        lab.tussle(&["live", "--duration", duration, "--overhead", "20%", "-p", &run.0.id().to_string()])
    };
    // Whatever the kernel has no room for is counted, and the fight is there.
    finds_the_fight(&watch("5s"));
}

#[test]
fn too_few_descriptors_are_said() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let words = format!("ulimit -n 64; exec '{}' live -p {}", env!("CARGO_BIN_EXE_tussle"), run.0.id());
    let out = Command::new("sh").args(["-c", &words]).current_dir(lab.at()).output().unwrap();
    let said = said(&out);
    assert!(
        !out.status.success() && said.contains("file descriptors") && said.contains("ulimit -n"),
        "{said}"
    );
}

#[test]
fn a_stopped_target_is_said_to_be() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(run.0.id() as i32, libc::SIGSTOP) };
    let stat = format!("/proc/{}/stat", run.0.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let out =
        lab.tussle(&["live", "--duration", "300ms", "-o", "stopped.data", "-p", &run.0.id().to_string()]);
    let words = said(&out);
    assert!(
        out.status.success() && words.contains("is stopped: nothing is sampled until it goes on"),
        "{words}"
    );
    assert!(words.contains("Nothing can be said"), "{words}");
    assert_eq!(lab.tussle(&["report", "stopped.data"]).status.code(), Some(2));
}

/// An executable of 32-bit x86 that only waits.
fn bits_32() -> Vec<u8> {
    let (base, head) = (0x0804_8000u32, 84u32);
    // push 29 (pause); pop eax; int 0x80; jmp to the begin
    let code = [0x6a, 0x1d, 0x58, 0xcd, 0x80, 0xeb, 0xf9];
    let size = head + code.len() as u32;
    let mut out = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_EXEC, EM_386
    out.extend([2, 0, 3, 0]);
    [1, base + head, 52, 0, 0].iter().for_each(|w: &u32| out.extend(w.to_le_bytes()));
    [52u16, 32, 1, 0, 0, 0].iter().for_each(|h| out.extend(h.to_le_bytes()));
    // PT_LOAD, readable and executable
    [1, 0, base, base, size, size, 5, 0x1000].iter().for_each(|w: &u32| out.extend(w.to_le_bytes()));
    out.extend(code);
    out
}

#[test]
fn a_32_bit_target_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt;
    let Some(lab) = Lab::new() else { return };
    let path = lab.at().join("old");
    std::fs::write(&path, bits_32()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let Ok(child) = Command::new(&path).spawn() else { return skip("this kernel runs no 32-bit programs") };
    let run = Running(child);
    let out = lab.tussle(&["live", "-p", &run.0.id().to_string()]);
    assert!(!out.status.success() && said(&out).contains("runs 32-bit code"), "{}", said(&out));
}

/// As a user without rights: what is his own can be watched, what is not is refused with what is missing.
#[test]
fn without_rights_only_ones_own_is_watched() {
    let Some(lab) = Lab::new() else { return };
    if !is_root() || !need("setpriv") {
        return;
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2) {
        return skip("kernel.perf_event_paranoid");
    }
    let run = lab.start(&[]);
    let (tussle, open) = for_all(&lab);
    let unprivileged = |words: &str| -> Output {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        setpriv.arg(&tussle).args(words.split_whitespace()).current_dir(&open).output().unwrap()
    };
    let foreign = unprivileged(&format!("live --duration 100ms -p {}", run.0.id()));
    let words = said(&foreign);
    assert!(!foreign.status.success(), "{words}");
    assert!(
        words.contains("belongs to another user") && words.contains("CAP_PERFMON and CAP_SYS_PTRACE"),
        "{words}"
    );
    let own = unprivileged("live --duration 100ms -- true");
    assert!(own.status.success(), "{}", said(&own));
}

/// The binary where everybody may run it, and a folder where everybody may write.
pub fn for_all(lab: &Lab) -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let (tussle, open) = (lab.at().join("tussle"), lab.at().join("open"));
    std::fs::copy(env!("CARGO_BIN_EXE_tussle"), &tussle).unwrap();
    std::fs::create_dir(&open).unwrap();
    let allow =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(lab.at(), 0o755);
    allow(&open, 0o777);
    (tussle, open)
}

/// Docker's filter lets no process open perf events.
#[test]
fn a_filter_of_system_calls_is_said() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let mut live = Command::new(env!("CARGO_BIN_EXE_tussle"));
    live.args(["live", "--duration", "100ms", "-p", &run.0.id().to_string()]).current_dir(lab.at());
    // SAFETY: only system calls between fork and exec, on memory of this function.
    unsafe { live.pre_exec(|| refuse(libc::SYS_perf_event_open as u32)) };
    let out = live.output().unwrap();
    let words = said(&out);
    assert!(
        !out.status.success() && words.contains("seccomp=unconfined") && words.contains("PERFMON"),
        "{words}"
    );
}

/// From here on this system call ends with EPERM.
fn refuse(call: u32) -> std::io::Result<()> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, answer) = (libc::BPF_LD | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 1, call),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives until the kernel has copied it.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if refused == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Somebody else's breakpoints on all threads, as a debugger sets them.
fn take_debug_registers(pid: u32) -> Option<Vec<std::fs::File>> {
    let mut taken = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let tid: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        for n in 0..4u64 {
            // PERF_TYPE_BREAKPOINT on stores to memory that nobody uses; user code only.
            let mut attr = [0u64; 16];
            (attr[0], attr[5], attr[6]) = (5 | 128 << 32, 1 << 5 | 1 << 6, 2 << 32);
            (attr[7], attr[8]) = (0x1000 + 8 * n, 8);
            // SAFETY: an attribute of the stated 128 bytes.
            let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), tid, -1, -1, 8) };
            if fd < 0 {
                skip(&format!("debug registers: {}", std::io::Error::last_os_error()));
                return None;
            }
            // SAFETY: a new descriptor of ours.
            taken.push(unsafe { std::fs::File::from_raw_fd(fd as i32) });
        }
    }
    Some(taken)
}

#[test]
fn without_debug_registers_samples_go_on() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let threads = format!("/proc/{}/task", run.0.id());
    while std::fs::read_dir(&threads).unwrap().count() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let Some(taken) = take_debug_registers(run.0.id()) else { return };
    let out = lab.tussle(&["live", "--duration", "4s", "-p", &run.0.id().to_string()]);
    drop(taken);
    finds_the_fight(&out);
    let words = said(&out);
    assert!(words.contains("lines are not confirmed: the debug registers are taken"), "{words}");
    assert!(words.contains("not watched"), "{words}");
}

/// The report is there although the file is not.
#[test]
fn a_full_disk_costs_the_file_alone() {
    let Some(lab) = Lab::new() else { return };
    if !is_root() || !need("unshare") {
        return;
    }
    let run = lab.start(&[]);
    std::fs::create_dir(lab.at().join("small")).unwrap();
    let mut script = std::fs::File::create(lab.at().join("full.sh")).unwrap();
    writeln!(script, "mount -t tmpfs -o size=64k none small || exit 77").unwrap();
    writeln!(script, "cat /dev/zero >small/other 2>/dev/null").unwrap();
    writeln!(script, "exec \"$1\" live --duration 3s -o small/out.data -p \"$2\"").unwrap();
    let out = Command::new("unshare")
        .args(["-m", "sh", "full.sh", env!("CARGO_BIN_EXE_tussle"), &run.0.id().to_string()])
        .current_dir(lab.at())
        .output()
        .unwrap();
    if out.status.code() == Some(77) {
        return skip("no file system can be mounted");
    }
    let words = said(&out);
    assert!(
        !out.status.success() && words.contains("small/out.data") && words.contains("No space left"),
        "{words}"
    );
    assert!(words.contains("pair.left") && words.contains("a layout helps"), "{words}");
}
