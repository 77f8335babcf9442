//! Whether this machine can do something, by doing it once per process.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// `Err` says what went wrong, in one line.
type Answer = Result<(), String>;

static ANSWERS: Mutex<Option<HashMap<String, Answer>>> = Mutex::new(None);

/// Properties of the machine, not of what is installed.
const MACHINE: &[&str] = &["perf record", "two CPUs", "user namespaces", "kernel types"];

pub fn is_machine(what: &str) -> bool {
    MACHINE.contains(&what)
}

pub fn ask(what: &str) -> Answer {
    let known = |m: &mut Option<HashMap<String, Answer>>| m.get_or_insert_default().get(what).cloned();
    // A test that panicked under the lock leaves a whole table.
    let lock = || ANSWERS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(answer) = known(&mut lock()) {
        return answer;
    }
    let answer = probe(what);
    lock().get_or_insert_default().insert(what.to_string(), answer.clone());
    answer
}

fn probe(what: &str) -> Answer {
    let words: Vec<&str> = what.split_whitespace().collect();
    match what {
        "perf record" => perf_record(),
        "two CPUs" => two_cpus(),
        "user namespaces" => run(Command::new("unshare").args(["-rm", "true"])),
        "kernel types" => std::fs::File::open("/sys/kernel/btf/vmlinux").map(drop).map_err(|e| e.to_string()),
        "pahole 1.24" => pahole("v1.24"),
        "valgrind" => run(Command::new("valgrind").args(["--tool=lackey", "true"])),
        _ if is_compiler(words.first().copied().unwrap_or_default()) => compiler(&words),
        "go" => run(Command::new("go").arg("version")),
        _ => run(Command::new(what).arg("--version")),
    }
}

/// `gcc`, `clang++`, `arm-linux-gnueabihf-gcc`, `clang-14`.
fn is_compiler(program: &str) -> bool {
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let last = name.rsplit('-').next().unwrap_or_default();
    ["gcc", "g++", "clang", "clang++", "cc", "c++"].contains(&last)
}

/// Compiles a small program, and links it unless a flag says otherwise.
fn compiler(words: &[&str]) -> Answer {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (name, text) = source(words[0].ends_with("++"), words.contains(&"-c"));
    std::fs::write(dir.path().join(name), text).map_err(|e| e.to_string())?;
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args([name, "-o", "probe.out"]).current_dir(dir.path());
    run(&mut command)
}

/// With headers, as links need a library; an object for another machine may have none.
fn source(cpp: bool, object: bool) -> (&'static str, &'static str) {
    match (cpp, object) {
        (true, true) => ("probe.cc", "struct s { int a; } s;\n"),
        (true, false) => (
            "probe.cc",
            "#include <string>\nint main(int n, char **) { return std::string(n, 'x').size() > 9; }\n",
        ),
        (false, true) => ("probe.c", "struct s { int a; } s;\n"),
        (false, false) => {
            ("probe.c", "#include <stdio.h>\nint main(int n, char **v) { return printf(\"%s\", *v) > n; }\n")
        }
    }
}

fn perf_record() -> Answer {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let out = dir.path().join("perf.data");
    run(Command::new("perf").args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&out).args(["--", "true"]))?;
    if has_bytes(&out) { Ok(()) } else { Err("nothing was recorded".into()) }
}

fn has_bytes(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|m| m.len() > 0)
}

fn two_cpus() -> Answer {
    match std::thread::available_parallelism() {
        Ok(n) if n.get() >= 2 => Ok(()),
        _ => Err("this process may use one CPU only".into()),
    }
}

fn pahole(version: &str) -> Answer {
    let out = Command::new("pahole").arg("--version").output().map_err(|e| e.to_string())?;
    let found = String::from_utf8_lossy(&out.stdout).trim().to_string();
    if found == version { Ok(()) } else { Err(format!("found {found}")) }
}

/// Runs to a good end; otherwise the last line that it wrote, which names the cause more often than the first.
fn run(command: &mut Command) -> Answer {
    let out = command.output().map_err(|e| e.to_string())?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let line = text.lines().find(|l| l.contains("error") || l.contains("cannot")).or(text.lines().last());
    Err(line.unwrap_or("failed without a word").trim().to_string())
}
