//! One program built twice, native and with the runtime inside, and run twice: what can be seen of it must be equal.

use super::Kind;
use crate::common::{programs, read, run_tool};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tussle_rt::convert::Keep;

/// A program that runs longer hangs.
const HANG: Duration = Duration::from_secs(120);

/// A compiler and its optimisation.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    clang: bool,
    optimised: &'static str,
}

impl Build {
    /// What every test run does.
    pub fn usual() -> Vec<Build> {
        vec![Build { clang: false, optimised: "-O1" }]
    }

    /// What a slow run does.
    pub fn all() -> Vec<Build> {
        let of = |clang| ["-O0", "-O2"].map(|optimised| Build { clang, optimised });
        [of(false), of(true)].concat()
    }

    fn compiler(&self, source: &str) -> &'static str {
        match (self.clang, source.ends_with("cc")) {
            (false, false) => "gcc",
            (false, true) => "g++",
            (true, false) => "clang",
            (true, true) => "clang++",
        }
    }
}

/// What can be seen of a run.
#[derive(PartialEq, Debug)]
struct Seen {
    /// As a shell shows it; -1: it hung.
    status: i32,
    stdout: String,
    stderr: String,
    /// Files left in its folder.
    files: BTreeMap<String, Vec<u8>>,
}

/// Builds and runs both.
pub struct Twin {
    build: Build,
    dir: tempfile::TempDir,
    runtime: PathBuf,
    built: HashMap<String, (PathBuf, PathBuf)>,
}

impl Twin {
    /// For programs of this source file; `None`, and a word about it, without their compilers.
    #[track_caller]
    pub fn new(build: Build, source: &str) -> Option<Twin> {
        for c in [build.compiler("c"), build.compiler(source)] {
            if tussle_rt::OBJECT.is_empty() || !tussle_testkit::need(c) {
                return None;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("runtime.o");
        std::fs::write(&runtime, tussle_rt::OBJECT.bytes()).unwrap();
        Some(Twin { build, dir, runtime, built: HashMap::new() })
    }

    /// Why the recorded run differs; `None` if it does not.
    pub fn check(&mut self, k: &Kind) -> Option<String> {
        // clang comes without the library of OpenMP.
        let openmp = k.flags.iter().find(|f| **f == "-fopenmp");
        if openmp.is_some_and(|f| !tussle_testkit::wish(&format!("{} {f}", self.build.compiler(k.file)))) {
            return None;
        }
        let (native, recorded) = self.programs(k);
        let (want, _) = self.run(&native, k, None);
        if want.status == 77 {
            tussle_testkit::skip(&format!("{} {}: {}", k.file, k.name, want.stdout.trim()));
            return None;
        }
        let session = session();
        let (got, processes) = self.run(&recorded, k, Some(session.path()));
        if want != got {
            return Some(format!("native {want:?}\nrecorded {got:?}"));
        }
        (k.processes != 0 && processes != k.processes).then(|| format!("{processes} processes recorded"))
    }

    /// The native and the instrumented executable.
    fn programs(&mut self, k: &Kind) -> (PathBuf, PathBuf) {
        let key = format!("{}{}", k.file, k.flags.concat());
        if let Some(b) = self.built.get(&key) {
            return b.clone();
        }
        let place = self.dir.path().join(format!("{}", self.built.len()));
        std::fs::create_dir(&place).unwrap();
        for (source, name) in k.libraries {
            let mut c = self.command(source, k.flags);
            run_tool(c.args(["-shared", "-fPIC"]).arg(kinds().join(source)).arg("-o").arg(place.join(name)));
        }
        let both = (self.native(k, &place), self.instrumented(k, &place));
        self.built.insert(key, both.clone());
        both
    }

    fn command(&self, source: &str, flags: &[&str]) -> Command {
        let mut c = Command::new(self.build.compiler(source));
        c.args(["-g", "-w", self.build.optimised, "-pthread"]);
        let links = |f: &str| f.starts_with("-l") || f.starts_with("-static");
        let fits = |f: &str| !links(f) && (source.ends_with("cc") || !f.starts_with("-std=c++"));
        c.args(flags.iter().filter(|f| fits(f)));
        c
    }

    fn link(&self, k: &Kind, place: &Path, objects: &[&Path], exe: &Path) {
        let mut c = self.command(k.file, k.flags);
        c.args(objects).arg("-o").arg(exe);
        c.args(k.libraries.iter().map(|(_, name)| place.join(name)));
        c.arg("-Wl,-rpath,$ORIGIN")
            .args(k.flags.iter().filter(|f| f.starts_with("-l") || f.starts_with("-static")));
        run_tool(c.args(["-ldl", "-lrt"]));
    }

    fn native(&self, k: &Kind, place: &Path) -> PathBuf {
        let (object, exe) = (place.join("native.o"), place.join("native"));
        run_tool(self.command(k.file, k.flags).arg("-c").arg(kinds().join(k.file)).arg("-o").arg(&object));
        self.link(k, place, &[&object], &exe);
        exe
    }

    /// As `tussle cc` does it.
    fn instrumented(&self, k: &Kind, place: &Path) -> PathBuf {
        let (assembly, object, exe) =
            (place.join("recorded.s"), place.join("recorded.o"), place.join("recorded"));
        let mut c = self.command(k.file, k.flags);
        c.args(["-fsanitize=thread", "-U__SANITIZE_THREAD__", "-S"]);
        if self.build.clang {
            c.args(["-mllvm", "-tsan-instrument-read-before-write=1"]);
        }
        run_tool(c.arg(kinds().join(k.file)).arg("-o").arg(&assembly));
        if !self.build.clang {
            let text = tussle_rt::sites::rewrite(&std::fs::read(&assembly).unwrap()).unwrap();
            std::fs::write(&assembly, text).unwrap();
        }
        run_tool(Command::new(self.build.compiler("c")).arg("-c").arg(&assembly).arg("-o").arg(&object));
        self.link(k, place, &[&object, &self.runtime], &exe);
        exe
    }

    /// Runs in an empty folder of its own; the number of recorded processes.
    fn run(&self, exe: &Path, k: &Kind, session: Option<&Path>) -> (Seen, usize) {
        let folder = tempfile::tempdir().unwrap();
        // Both have one name, which programs may print.
        let program = exe.parent().unwrap().join("program");
        let _ = std::fs::remove_file(&program);
        std::fs::hard_link(exe, &program).unwrap();
        let mut c = Command::new(&program);
        c.arg(k.name).current_dir(folder.path()).env_remove(tussle_rt::SESSION_VARIABLE);
        if let Some(s) = session {
            c.env(tussle_rt::SESSION_VARIABLE, s);
        }
        let (status, stdout, stderr) = finish(&mut c, exe.parent().unwrap());
        let files = files(folder.path());
        let processes = session.map_or(0, |s| {
            let (evidence, unusable) = read(s, Keep::Shared);
            evidence.processes.len() * usize::from(unusable.is_empty())
        });
        (Seen { status, stdout, stderr, files }, processes)
    }
}

fn kinds() -> PathBuf {
    programs().join("kinds")
}

fn session() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Runs in a session of its own with output to files, so that what it leaves running holds nothing up.
fn finish(c: &mut Command, place: &Path) -> (i32, String, String) {
    let at = ["stdout", "stderr"].map(|n| place.join(n));
    let [out, err] = [&at[0], &at[1]].map(|p| std::fs::File::create(p).unwrap());
    c.stdin(Stdio::null()).stdout(out).stderr(err);
    // SAFETY: two system calls.
    unsafe {
        c.pre_exec(|| {
            libc::setsid();
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    let mut child = c.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(s) => break s.code().unwrap_or_else(|| 128 + s.signal().unwrap_or(0)),
            None if start.elapsed() > HANG => {
                // SAFETY: the process group that setsid made for this child.
                unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
                let _ = child.wait();
                break -1;
            }
            None => std::thread::sleep(Duration::from_millis(3)),
        }
    };
    let text = |p: &PathBuf| String::from_utf8_lossy(&std::fs::read(p).unwrap()).into_owned();
    (status, text(&at[0]), text(&at[1]))
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let named = |p: PathBuf| {
        let bytes = std::fs::read(&p).unwrap_or_default();
        let kept = bytes.len().min(4096);
        (format!("{} {}", p.file_name().unwrap().to_string_lossy(), bytes.len()), bytes[..kept].to_vec())
    };
    entries.map(named).collect()
}
