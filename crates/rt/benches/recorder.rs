//! What recording costs: native, empty hooks, hooks that count into one word of the thread's own, this recorder with
//! its hooks called and jumped to, and gcc's ThreadSanitizer side by side.
//!
//! The counting hooks tell the recorder's work from the program's: where two CPUs take turns at a line, the counter's
//! store waits in the store buffer behind the program's own stores to that line, whatever else a called hook does. A
//! hook that is jumped to saves the store of the return address instead (`tussle cc` makes such programs).
//!
//! `cargo bench -p tussle-rt` (`-- ROUNDS` for more than 5). CPU time of the process (user + system) as the kernel
//! counts it, medians of interleaved runs, so that other work on the machine disturbs little.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Lab, programs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Program, flags, arguments, instrumented accesses of such a run, target above empty hooks in ns per access.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], f64, Option<f64>);

const ROWS: [Row; 10] = [
    ("private", &[], &["60000000"], 1.2e8, Some(0.8)),
    ("line", &[], &["20000000"], 8e7, Some(0.8)),
    ("elements", &["-DFIXED"], &["10000000"], 8.5e7, Some(0.8)),
    ("stream", &[], &["500"], 6.55e7, Some(3.5)),
    ("matrix", &[], &["12"], 8.3e7, None),
    ("lock", &[], &["1500000"], 9e6, None),
    ("counters", &["-DFIXED"], &["4000000"], 1.2e7, None),
    ("barrier", &[], &["20000", "300"], 1.2e7, None),
    ("queue", &[], &["200000"], 2.1e7, None),
    ("threads", &[], &["200", "2000"], 6.4e6, None),
];

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse::<usize>().ok()).next().unwrap_or(5);
    let Some(lab) = Lab::new() else { return };
    println!(
        "{:<10} {:>7} {:>7} {:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9}  target",
        "program",
        "native",
        "empty",
        "count",
        "called ms",
        "ours ms",
        "TSan ms",
        "ours/TSan",
        "over cnt",
        "called ns",
        "ours ns"
    );
    let (mut cheaper, mut worst, mut worst_called) = (0, 0f64, 0f64);
    for (name, flags, args, accesses, target) in ROWS {
        let exes = variants(&lab, name, flags);
        let mut times = vec![Vec::new(); exes.len()];
        for _ in 0..rounds {
            for (k, exe) in exes.iter().enumerate() {
                times[k].push(cpu_ms(exe, args, k == 3 || k == 4));
            }
        }
        let m: Vec<f64> = times.into_iter().map(median).collect();
        let above = |k: usize, floor: usize| (m[k] - m[floor]) * 1e6 / accesses;
        let ratio = m[4] / m[5];
        cheaper += usize::from(ratio < 1.0);
        worst = worst.max(ratio);
        worst_called = worst_called.max(m[3] / m[5]);
        let met = |t: f64| if above(4, 1) <= t { "met" } else { "MISSED" };
        println!(
            "{name:<10} {:>7.0} {:>7.0} {:>7.0} {:>9.0} {:>7.0} {:>7.0} {ratio:>9.2} {:>9.2} {:>9.2} {:>9.2}  {}",
            m[0],
            m[1],
            m[2],
            m[3],
            m[4],
            m[5],
            above(4, 2),
            above(3, 1),
            above(4, 1),
            target.map_or(String::new(), |t| format!("<= {t} {}", met(t)))
        );
    }
    println!(
        "cheaper than TSan on {cheaper} of {} (target 8), at worst {worst:.2} times it, called {worst_called:.2} times \
         (target 1.5)",
        ROWS.len()
    );
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Native, empty hooks, counting hooks, ours called, ours jumped to, TSan.
fn variants(lab: &Lab, name: &str, flags: &[&str]) -> [PathBuf; 6] {
    let source = programs().join(format!("{name}.c"));
    let at = |kind: &str| lab.path().join(format!("{name}-{kind}"));
    let base = ["-O1", "-g", "-w"];
    let gcc = || {
        let mut c = Command::new("gcc");
        c.args(base).args(flags);
        c
    };
    tool(gcc().arg(&source).arg("-o").arg(at("native")).arg("-lpthread"));
    let object = at("o");
    tool(gcc().args(["-fsanitize=thread", "-c"]).arg(&source).arg("-o").arg(&object));
    for (kind, flag) in [("hooks", "-DEMPTY"), ("count", "-DCOUNT")] {
        let hooks = at("hooks.o");
        let source = programs().join("empty.c");
        tool(Command::new("gcc").args(["-O2", "-w", flag, "-c"]).arg(source).arg("-o").arg(&hooks));
        tool(Command::new("gcc").arg(&object).arg(&hooks).arg("-o").arg(at(kind)).arg("-lpthread"));
    }
    tool(gcc().arg("-fsanitize=thread").arg(&source).arg("-o").arg(at("tsan")).arg("-lpthread"));
    let (called, jumped) = (lab.build_with(name, flags, false), lab.build_with(name, flags, true));
    [at("native"), at("hooks"), at("count"), called, jumped, at("tsan")]
}

fn tool(c: &mut Command) {
    let out = c.output().expect("gcc runs");
    assert!(out.status.success(), "{c:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// CPU time of one run.
fn cpu_ms(exe: &Path, args: &[&str], record: bool) -> f64 {
    let session = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut c = Command::new("setarch");
    c.arg("-R").arg(exe).args(args).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    c.env("TSAN_OPTIONS", "report_bugs=0");
    if record {
        c.env(tussle_rt::SESSION_VARIABLE, session.path());
    }
    let before = children_ms();
    let status = c.status().expect("it starts");
    assert!(status.success(), "{}: {status}", exe.display());
    children_ms() - before
}

fn children_ms() -> f64 {
    // SAFETY: plain data that the call fills.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut u);
        u
    };
    let ms = |t: libc::timeval| t.tv_sec as f64 * 1e3 + t.tv_usec as f64 / 1e3;
    ms(u.ru_utime) + ms(u.ru_stime)
}
