//! Builds the test programs with the runtime inside, runs them, and reads what they recorded.

#![allow(dead_code, clippy::unwrap_used)]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};
use tussle_contention::analysis::{Contention, Question, Split, contention};
use tussle_evidence::Evidence;
use tussle_rt::RawFile;
use tussle_rt::convert::{Keep, convert_telling};

/// Who has a CPU when decides what locks and turns show: while a program of this test process runs, no other one does,
/// and nothing is compiled.
static MACHINE: RwLock<()> = RwLock::new(());

/// One folder for the binaries of a test process.
pub struct Lab {
    dir: tempfile::TempDir,
    runtime: PathBuf,
}

/// What a run left behind.
pub struct Ran {
    pub status: i32,
    pub evidence: Evidence,
    /// Files that could not be used.
    pub unusable: Vec<String>,
    pub stdout: String,
}

/// How to run.
#[derive(Clone, Copy, Default)]
pub struct How {
    pub one_cpu: bool,
    pub mem_max_bytes: Option<u64>,
    /// Critical sections are not sampled.
    pub no_operations: bool,
}

impl Lab {
    /// `None` without a C compiler for this machine.
    #[track_caller]
    pub fn new() -> Option<Lab> {
        if tussle_rt::OBJECT.is_empty() {
            tussle_testkit::skip("this tussle has no runtime for the machine");
            return None;
        }
        if !tussle_testkit::need("gcc") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("runtime.o");
        std::fs::write(&runtime, tussle_rt::OBJECT.bytes()).unwrap();
        Some(Lab { dir, runtime })
    }

    /// The runtime as an object file.
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Builds `tests/programs/NAME.c` instrumented, with `flags`, as `tussle cc` does: hooks are jumped to.
    pub fn build(&self, name: &str, flags: &[&str]) -> PathBuf {
        self.build_with(name, flags, true)
    }

    /// Builds with hooks that are jumped to or called.
    pub fn build_with(&self, name: &str, flags: &[&str], jumps: bool) -> PathBuf {
        let kind = if jumps { "" } else { "-calls" };
        let name_of = format!("{name}{}{kind}", flags.concat()).replace([' ', '=', '/'], "_");
        let exe = self.dir.path().join(name_of);
        let (assembly, object) = (exe.with_extension("s"), exe.with_extension("o"));
        let source = programs().join(format!("{name}.c"));
        let common = ["-g", "-O1", "-w", "-fsanitize=thread", "-U__SANITIZE_THREAD__", "-S"];
        run_tool(Command::new("gcc").args(common).args(flags).arg(source).arg("-o").arg(&assembly));
        if jumps {
            let text = tussle_rt::sites::rewrite(&std::fs::read(&assembly).unwrap()).unwrap();
            std::fs::write(&assembly, text).unwrap();
        }
        run_tool(Command::new("gcc").arg("-c").arg(&assembly).arg("-o").arg(&object));
        run_tool(
            Command::new("gcc")
                .arg(&object)
                .arg(&self.runtime)
                .arg("-o")
                .arg(&exe)
                .args(["-lpthread", "-ldl"]),
        );
        exe
    }

    /// The same built by clang, with hooks that are called; `None` without one. Its sanitizer runtime is not needed.
    pub fn build_by_clang(&self, name: &str) -> Option<PathBuf> {
        if !tussle_testkit::need("clang") {
            return None;
        }
        let exe = self.dir.path().join(format!("{name}-clang"));
        let object = exe.with_extension("o");
        let mut compile = Command::new("clang");
        compile.args(["-g", "-O1", "-w", "-fsanitize=thread", "-U__SANITIZE_THREAD__", "-c"]);
        compile.arg(programs().join(format!("{name}.c"))).arg("-o").arg(&object);
        run_tool(&mut compile);
        let mut link = Command::new("clang");
        link.arg(&object).arg(&self.runtime).arg("-o").arg(&exe).args(["-lpthread", "-ldl"]);
        run_tool(&mut link);
        Some(exe)
    }

    /// Runs and reads.
    pub fn run(&self, exe: &Path, args: &[&str], how: How) -> Ran {
        let memory = Path::new("/dev/shm");
        let session =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        self.run_in(session.path(), exe, args, how)
    }

    /// Runs with that session folder and reads.
    pub fn run_in(&self, session: &Path, exe: &Path, args: &[&str], how: How) -> Ran {
        let mut c = Command::new(exe);
        c.args(args).env(tussle_rt::SESSION_VARIABLE, session);
        if let Some(m) = how.mem_max_bytes {
            c.env(tussle_rt::MEM_MAX_VARIABLE, m.to_string());
        }
        if how.no_operations {
            c.env(tussle_rt::OPERATIONS_VARIABLE, "0");
        }
        // SAFETY: two system calls.
        unsafe {
            c.pre_exec(move || {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                if how.one_cpu {
                    let mut set: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(0, &mut set);
                    libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
                }
                Ok(())
            });
        }
        let alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        let out = c.output().unwrap();
        drop(alone);
        let status = out.status.code().unwrap_or_else(|| 128 + out.status.signal().unwrap_or(0));
        let (evidence, unusable) = read(session, Keep::Shared);
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        Ran { status, evidence, unusable, stdout }
    }
}

pub fn run_tool(c: &mut Command) {
    let _busy = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let out = c.output().unwrap();
    assert!(out.status.success(), "{c:?}:\n{}", String::from_utf8_lossy(&out.stderr));
}

/// Folder of the test programs.
pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Evidence of a session folder, and the files that could not be used.
pub fn read(session: &Path, keep: Keep) -> (Evidence, Vec<String>) {
    let mut maps = Vec::new();
    for e in std::fs::read_dir(session).unwrap() {
        let path = e.unwrap().path();
        if path.extension().is_none_or(|e| e != "raw") {
            continue;
        }
        let file = std::fs::File::open(&path).unwrap();
        // SAFETY: a private folder.
        let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
        maps.push((path.display().to_string(), map));
    }
    let mut unusable = Vec::new();
    let mut files = Vec::new();
    for (name, map) in &maps {
        match RawFile::new(name.clone(), map) {
            Ok(f) => files.push(f),
            Err(e) => unusable.push(e.to_string()),
        }
    }
    let mut told = vec![0.0];
    let converted = convert_telling(&files, keep, &mut |share| told.push(share));
    assert!(told.is_sorted() && told.iter().all(|s| (0.0..=1.0).contains(s)), "{told:?}");
    (converted.evidence, unusable)
}

/// Contention as observed.
pub fn observed(e: &Evidence) -> Contention {
    contention(e, &Question::observed())
}

/// Contention at an even split of the work.
pub fn even(e: &Evidence) -> Contention {
    contention(e, &Question { split: Split::Even, ..Question::observed() })
}

/// E of all findings, or of everything if `all`.
pub fn total_e(c: &Contention, all: bool) -> f64 {
    c.lines.iter().filter(|l| all || l.cost.removable() >= 1000.0).map(|l| l.ranked_e()).sum()
}

/// E of a run that ends well, as a share of so many stores.
pub fn share_of(stores: f64, lab: &Lab, exe: &Path, args: &[&str], how: How) -> f64 {
    let ran = lab.run(exe, args, how);
    assert_eq!(ran.status, 0, "{args:?}");
    let share = total_e(&observed(&ran.evidence), false) / stores;
    eprintln!("{args:?}: {:.1}% of the stores", 100.0 * share);
    share
}

/// Total accesses in the kept lines.
pub fn accesses(e: &Evidence) -> u64 {
    e.accesses.iter().map(|a| a.reads + a.writes + a.rmws).sum()
}
