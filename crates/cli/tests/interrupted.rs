//! A hunt that somebody ends says how far it came, keeps what it has, and leaves nothing behind.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FIGHT: &str = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    struct stats { volatile long a; volatile long b; } all;\nstatic pthread_barrier_t go;\n\
    static void *a(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 3000000; i++) all.a++; return x; }\n\
    static void *b(void *x) { pthread_barrier_wait(&go); for (int i = 0; i < 3000000; i++) all.b++; return x; }\n\
    int main(int argc, char **argv)\n{\n\tpthread_t t[2];\n\tpthread_barrier_init(&go, 0, 2);\n\
    \tpthread_create(&t[0], 0, a, 0);\n\tpthread_create(&t[1], 0, b, 0);\n\
    \tpthread_join(t[0], 0);\n\tpthread_join(t[1], 0);\n\
    \tif (argc > 1)\n\t\tsleep(atoi(argv[1]));\n\treturn all.a + all.b != 6000000;\n}\n";

struct Hunt {
    folder: tempfile::TempDir,
    child: Child,
    said: Option<BufReader<std::process::ChildStderr>>,
    heard: String,
}

impl Hunt {
    fn start(arguments: &[&str]) -> Hunt {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("it's");
        std::fs::create_dir(&sources).unwrap();
        std::fs::write(sources.join("fight.c"), FIGHT).unwrap();
        std::fs::write(
            sources.join("Makefile"),
            "fight: fight.c\n\t$(CC) -O1 -g fight.c -o fight -pthread\n",
        )
        .unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(["hunt", "it's"]).args(arguments).current_dir(folder.path());
        c.env("TMPDIR", folder.path().join("tmp")).env("XDG_CACHE_HOME", folder.path().join("cache"));
        // Signals to its group are for it alone.
        c.process_group(0);
        // Who starts tests in the background may have them ignore it, and tussle would heed that.
        // SAFETY: one system call between fork and exec.
        unsafe {
            c.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = c.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = child.stderr.take().map(BufReader::new);
        Hunt { folder, child, said, heard: String::new() }
    }

    fn until(&mut self, remark: &str) {
        loop {
            let mut line = String::new();
            assert!(
                self.said.as_mut().unwrap().read_line(&mut line).unwrap() > 0,
                "no {remark} in {}",
                self.heard
            );
            self.heard += &line;
            if line.contains(remark) {
                return;
            }
        }
    }

    /// What it says then, and the signal by which it ended.
    fn end(&mut self, signal: i32) -> (String, Option<i32>) {
        // SAFETY: our own child, which nobody has waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        let mut rest = String::new();
        self.said.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().signal())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// No temporary folder of it, and no process that works in one.
    fn nothing_is_left(&self) {
        let left: Vec<_> =
            std::fs::read_dir(self.path("tmp")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [""; 0]);
        let here = |pid: &Path| {
            let link = |what: &str| std::fs::read_link(pid.join(what)).unwrap_or_default();
            link("cwd").starts_with(self.folder.path()) || link("exe").starts_with(self.folder.path())
        };
        let alive = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.path()).filter(|p| here(p));
        assert_eq!(alive.collect::<Vec<_>>(), [PathBuf::new(); 0]);
        let sources: Vec<_> = std::fs::read_dir(self.path("it's")).unwrap().collect();
        assert_eq!(sources.len(), 2, "the folder is as it was");
    }
}

#[test]
fn a_hunt_that_is_ended_before_its_first_run_keeps_nothing_and_says_so() {
    if !tussle_testkit::need("make") {
        return;
    }
    let mut hunt = Hunt::start(&["--run", "./fight 600"]);
    hunt.until("recording");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (rest, signal) = hunt.end(libc::SIGTERM);
    assert_eq!(signal, Some(libc::SIGTERM), "{rest}");
    assert!(rest.contains("ended by SIGTERM after"), "{rest}");
    assert!(rest.contains("into this step: recording ./fight 600"), "{rest}");
    assert!(rest.contains("kept: nothing"), "{rest}");
    assert!(rest.contains(r"tussle hunt 'it'\''s' --run './fight 600'"), "{rest}");
    assert!(!rest.contains("hunt` needs a run"), "only one reason: {rest}");
    assert!(!hunt.path("tussle.data").exists() && !hunt.path("tussle.patch").exists());
    hunt.nothing_is_left();
}

#[test]
fn a_hunt_that_is_ended_while_it_measures_keeps_evidence_and_patch() {
    if !tussle_testkit::need("make") || !tussle_testkit::need("patch") {
        return;
    }
    let mut hunt = Hunt::start(&["--pairs", "100000"]);
    hunt.until("measuring old against new");
    let (rest, signal) = hunt.end(libc::SIGINT);
    assert_eq!(signal, Some(libc::SIGINT), "{rest}");
    assert!(rest.contains("ended by SIGINT after") && rest.contains("into this step: measuring"), "{rest}");
    assert!(rest.contains("tussle report tussle.data") && rest.contains("patch -p1 <tussle.patch"), "{rest}");
    hunt.nothing_is_left();
    let mut report = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let report = report.args(["report", "tussle.data"]).current_dir(hunt.folder.path()).output().unwrap();
    let text = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.status.code(), Some(1), "{text}");
    let mut patch = Command::new("patch");
    patch.args(["-p1", "-d", "it's", "-i", "../tussle.patch"]).current_dir(hunt.folder.path());
    let patch = patch.output().unwrap();
    assert!(patch.status.success(), "{}", String::from_utf8_lossy(&patch.stdout));
}

/// `tussle hunt .. 2>&1 | head -1`
#[test]
fn a_hunt_whose_reader_leaves_puts_its_folders_away() {
    if !tussle_testkit::need("make") {
        return;
    }
    let mut hunt = Hunt::start(&["--no-bench"]);
    hunt.until("recording");
    hunt.said = None;
    let status = hunt.child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGPIPE), "{status}");
    hunt.nothing_is_left();
}

/// Who sends a signal to all of its group means itself: that ends no hunt.
#[test]
fn a_signal_of_the_program_to_its_group_is_not_for_the_hunt() {
    if !tussle_testkit::need("make") {
        return;
    }
    let mut hunt = Hunt::start(&["--no-bench", "--run", "sh -c 'trap : TERM; kill 0; ./fight'"]);
    hunt.until("recording");
    let mut rest = String::new();
    hunt.said.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    let status = hunt.child.wait().unwrap();
    assert!(!rest.contains("ended by SIGTERM") && status.signal().is_none(), "{rest}");
}

/// Who asks twice waits for nothing that was started, and finds no folder of it either.
#[test]
fn a_hunt_that_is_ended_twice_at_once_leaves_no_folder() {
    if !tussle_testkit::need("make") {
        return;
    }
    let mut hunt = Hunt::start(&["--run", "./fight 600"]);
    hunt.until("recording");
    std::thread::sleep(std::time::Duration::from_millis(500));
    // SAFETY: our own child, which nobody has waited for.
    unsafe { libc::kill(hunt.child.id() as i32, libc::SIGTERM) };
    std::thread::sleep(std::time::Duration::from_millis(1));
    let (rest, signal) = hunt.end(libc::SIGTERM);
    assert_eq!(signal, Some(libc::SIGTERM), "{rest}");
    hunt.nothing_is_left();
}
