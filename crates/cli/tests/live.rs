//! `tussle live` from outside: control groups, namespaces of processes, the kernel, and what happens to its targets.

#![allow(clippy::unwrap_used)]

#[path = "live/faults.rs"]
mod faults;
#[path = "live/wakeups.rs"]
mod wakeups;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tussle_testkit::{need, skip};

/// Two threads store to neighbours; ends after some seconds, or when `stdin` is closed.
const PROGRAM: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    struct pair { volatile long left, right; } pair __attribute__((aligned(64)));
    static void *left(void *at) { for (;;) pair.left++; return at; }
    static void *right(void *at) { for (;;) pair.right++; return at; }
    int main(void) {
        pthread_t a, b;
        char c;
        alarm(60);
        pthread_create(&a, 0, left, 0);
        pthread_create(&b, 0, right, 0);
        while (read(0, &c, 1) > 0) {}
        return 0;
    }"#;

struct Lab {
    folder: tempfile::TempDir,
}

/// A program that is killed with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lab {
    /// `None` where programs cannot be built or watched.
    #[track_caller]
    fn new() -> Option<Lab> {
        if !need("cc") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.c"), PROGRAM).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread", "-o", "p", "p.c"]).current_dir(&folder);
        assert!(cc.status().unwrap().success());
        let lab = Lab { folder };
        let tried = lab.tussle(&["live", "--duration", "50ms", "--", "true"]);
        if !tried.status.success() {
            skip(&format!("perf events: {}", said(&tried)));
            return None;
        }
        Some(lab)
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn tussle(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tussle")).args(words).current_dir(self.at()).output().unwrap()
    }

    /// The program, behind these words.
    fn start(&self, words: &[&str]) -> Running {
        let all = [words, &["./p"]].concat();
        let child = Command::new(all[0]).args(&all[1..]).current_dir(self.at()).stdin(Stdio::piped()).spawn();
        Running(child.unwrap())
    }
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

fn is_root() -> bool {
    // SAFETY: a system call that only answers.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skip("only for root");
    }
    root
}

#[track_caller]
fn finds_the_fight(out: &Output) {
    let said = said(out);
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("pair.left") && said.contains("pair.right") && said.contains("a layout helps"),
        "{said}"
    );
}

#[test]
fn a_control_group_is_the_processes_in_it() {
    let Some(lab) = Lab::new() else { return };
    let mounted = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer"].map(Path::new);
    let name = format!("tussle-test-{}", std::process::id());
    let made = mounted.into_iter().map(|m| m.join(&name)).find(|g| {
        // In a file system that is none, a folder stays empty.
        std::fs::create_dir(g).is_ok()
            && (g.join("cgroup.procs").is_file() || std::fs::remove_dir(g).is_err())
    });
    let Some(group) = made else { return skip("no control group can be made") };
    let inner = group.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let empty = lab.tussle(&["live", "--duration", "50ms", "--cgroup", group.to_str().unwrap()]);
    let run = lab.start(&[]);
    std::fs::write(inner.join("cgroup.procs"), run.0.id().to_string()).unwrap();
    let out = lab.tussle(&["live", "--duration", "3s", "--cgroup", &format!("/{name}")]);
    drop(run);
    let none = lab.tussle(&["live", "--cgroup", "/no/such/group"]);
    std::fs::remove_dir(&inner).and_then(|()| std::fs::remove_dir(&group)).unwrap();
    finds_the_fight(&out);
    assert!(
        !empty.status.success() && said(&empty).contains("no process of this control group"),
        "{}",
        said(&empty)
    );
    assert!(!none.status.success() && said(&none).contains("no control group"), "{}", said(&none));
}

/// The process has number 1 or 2 there, and another one here.
#[test]
fn a_process_of_another_namespace_is_called_by_its_number_here() {
    let Some(lab) = Lab::new() else { return };
    if !need("user namespaces") {
        return;
    }
    let run = lab.start(&["unshare", "-rpf", "--mount-proc"]);
    let children = format!("/proc/{0}/task/{0}/children", run.0.id());
    let mut inside = String::new();
    while inside.is_empty() {
        inside = std::fs::read_to_string(&children).unwrap().trim().to_string();
    }
    let out = lab.tussle(&["live", "--duration", "3s", "-p", &inside]);
    finds_the_fight(&out);
}

/// Events of perf that a process has open are one for each of the program's three threads and each CPU.
fn wait_until_it_watches(pid: u32) {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let events = || {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let of_perf = open.filter_map(|f| std::fs::read_link(f.path()).ok());
        of_perf.filter(|to| to.to_string_lossy().contains("perf_event")).count()
    };
    while events() < 3 * cpus {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_was_seen_before_a_signal_is_kept() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let mut live = Command::new(env!("CARGO_BIN_EXE_tussle"));
    live.args(["live", "--duration", "50s", "-o", "kept.data", "-p", &run.0.id().to_string()])
        .current_dir(lab.at());
    let live = live.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_it_watches(live.id());
    std::thread::sleep(std::time::Duration::from_secs(3));
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(live.id() as i32, libc::SIGTERM) };
    finds_the_fight(&live.wait_with_output().unwrap());
    assert_eq!(lab.tussle(&["report", "kept.data"]).status.code(), Some(1));
}

/// Whatever this machine lets be read of its kernel: what is not known is said, and is never "nothing".
#[test]
fn the_kernel_is_watched_or_what_is_missing_is_named() {
    let Some(lab) = Lab::new() else { return };
    if !is_root() {
        return;
    }
    let wrong = lab.tussle(&["live", "-k", "--vmlinux", "p.c", "--duration", "50ms"]);
    assert!(!wrong.status.success() && said(&wrong).contains("--vmlinux p.c"), "{}", said(&wrong));
    let busy = Command::new("sh").args(["-c", "while :; do (true); done"]).spawn();
    let busy = Running(busy.unwrap());
    let out = lab.tussle(&["live", "-k", "--duration", "2s", "-o", "kernel.data"]);
    drop(busy);
    let words = said(&out);
    if words.contains("hides its addresses") {
        return skip("kernel.kptr_restrict");
    }
    assert!(out.status.success() && words.contains("cannot be seen: interrupts off up to"), "{words}");
    if words.contains("addresses cannot be told") {
        assert!(
            words.contains("Nothing can be said") && words.contains("address cannot be told: code in"),
            "{words}"
        );
        assert_eq!(lab.tussle(&["report", "kernel.data"]).status.code(), Some(2));
    }
}

/// First process of a guest: two threads map and unmap memory, and meanwhile tussle watches the kernel.
const INIT: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <sys/mount.h>
    #include <sys/reboot.h>
    #include <sys/stat.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void *work(void *cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((long)cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
        for (;;) munmap(mmap(0, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536);
    }
    int main(void) {
        pthread_t t;
        const char *folders[] = { "/proc", "proc", "/sys", "sysfs", "/tmp", "tmpfs" };
        for (int n = 0; n < 6; n += 2) {
            mkdir(folders[n], 0755);
            mount("none", folders[n], folders[n + 1], 0, 0);
        }
        // What Debian's kernels are set to: perf events are for root alone.
        FILE *paranoid = fopen("/proc/sys/kernel/perf_event_paranoid", "w");
        fputs("3", paranoid);
        fclose(paranoid);
        pid_t nobody = fork();
        if (!nobody) {
            chdir("/tmp");
            setgid(65534);
            setuid(65534);
            execl("/tussle", "tussle", "live", "--duration", "50ms", "--", "/tussle", "--version", (char *)0);
            _exit(1);
        }
        waitpid(nobody, 0, 0);
        pid_t workers = fork();
        if (!workers) {
            pthread_create(&t, 0, work, (void *)0);
            work((void *)1);
        }
        pid_t child = fork();
        if (!child) {
            chdir("/tmp");
            execl("/tussle", "tussle", "live", "-k", "--duration", "15s", "--rate", "500", "--overhead", "20%",
                  (char *)0);
            _exit(1);
        }
        waitpid(child, 0, 0);
        fflush(stdout);
        sleep(1);
        reboot(RB_POWER_OFF);
    }"#;

/// A guest lets its memory be read: the line of `mmap_lock` comes out, with what the debug registers of its CPUs say.
#[test]
fn a_guests_kernel_is_watched_from_inside() {
    use tussle_host::emulator::newc::{Entry, archive};
    let Some(kernel) = tussle_testkit::given("TUSSLE_TEST_VMLINUX") else { return };
    if !need("qemu-system-x86_64") || !need("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("init.c"), INIT).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-static", "-pthread", "-o", "init", "init.c"]).current_dir(&folder);
    assert!(cc.status().unwrap().success());
    let tussle = std::env::var_os("TUSSLE_TEST_BINARY").unwrap_or(env!("CARGO_BIN_EXE_tussle").into());
    let read = |path: &Path| Entry::File(std::fs::read(path).unwrap());
    let mut entries = vec![
        ("dev/console".to_string(), Entry::Device(5, 1)),
        ("init".to_string(), read(&folder.path().join("init"))),
    ];
    let files = tussle_host::emulator::with_libraries(Path::new(&tussle), "tussle").unwrap();
    entries.extend(files.iter().map(|(name, path)| (name.clone(), read(path))));
    std::fs::write(folder.path().join("initrd"), archive(&entries).unwrap()).unwrap();
    let words = "-accel tcg,thread=multi -cpu max,la57=off -machine pc,usb=off -smp 2 -m 1024 -nodefaults \
                 -no-user-config -display none -no-reboot -serial stdio -initrd initrd";
    // `timeout` ends a guest that hangs.
    let guest = Command::new("timeout")
        .args(["300", "qemu-system-x86_64"])
        .args(words.split_whitespace())
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-kernel")
        .arg(kernel)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = said(&guest);
    assert!(said.contains("kernel.perf_event_paranoid is 3. Change it"), "{said}");
    for wanted in
        ["hits of debug registers", "rwsem_", "cannot be seen: interrupts off up to", "no --vmlinux FILE"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let row = said.lines().find(|l| l.starts_with("1 ")).unwrap_or_default();
    // By the functions in which it was sampled the lock is named as the owner's field, or as itself only.
    let named = ["struct mm_struct.mmap_lock", "struct rw_semaphore."].iter().any(|name| row.contains(name));
    assert!(row.contains("yes") && row.contains("CPU 0") && named, "{said}");
}

#[test]
fn what_is_sampled_can_be_chosen() {
    let Some(lab) = Lab::new() else { return };
    let run = lab.start(&[]);
    let pid = run.0.id().to_string();
    let watch = |clock: &str| lab.tussle(&["live", "--duration", "2s", "--clock", clock, "-p", &pid]);
    let software = watch("software");
    finds_the_fight(&software);
    assert!(said(&software).contains("clock=cpu-clock") && said(&software).contains("clock samples"));
    let pmu = watch("pmu");
    match pmu.status.success() {
        true => assert!(said(&pmu).contains("samples of precise loads and stores"), "{}", said(&pmu)),
        false => assert!(said(&pmu).contains("--clock pmu: ") && said(&pmu).contains("--clock software")),
    }
    let kernel = lab.tussle(&["live", "-k", "--clock", "pmu"]);
    assert!(!kernel.status.success());
}
