//! `cargo bench -p tussle-perf`: one generated file, imported by us and reported by `perf c2c report --stdio`, each in
//! a process of its own, in the same run. Prints times, peak memory and their ratios.
//!
//! `TUSSLE_PERF_BENCH_MB` (default 500) sets the size of the file, `TUSSLE_PERF_BENCH_RUNS` (default 3) how often each
//! side runs (the fastest counts), `TUSSLE_PERF_BENCH_DIR` where the file lies, `TUSSLE_BIN` a tussle binary to be
//! measured instead of the library.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use support::{Big, write_big};
use tussle_perf::Input;
use tussle_perf::import::{Recording, recordings};

const CHILD: &str = "TUSSLE_PERF_BENCH_CHILD";

struct Opened(std::fs::File);

impl Input for Opened {
    fn size(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Seconds and peak resident bytes of a command.
fn measure(command: &mut Command) -> Option<(f64, u64)> {
    let start = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let (mut status, mut usage) = (0, unsafe { std::mem::zeroed::<libc::rusage>() });
    // SAFETY: the child is ours and is waited for once; both pointers are to locals.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert!(waited > 0 && status == 0, "{command:?} failed: {status}");
    Some((start.elapsed().as_secs_f64(), usage.ru_maxrss as u64 * 1024))
}

fn best(mut of: impl FnMut() -> Option<(f64, u64)>, runs: u64) -> Option<(f64, u64)> {
    let mut all = Vec::new();
    for _ in 0..runs {
        all.push(of()?);
    }
    all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
}

/// What `tussle import` does with it: read, sum, write the evidence.
fn import(path: &Path) {
    let file = Opened(std::fs::File::open(path).unwrap());
    let got = recordings(&[Recording { main: &file, more: Vec::new() }]).unwrap();
    assert_eq!(got.problems, []);
    let mut out = BufWriter::new(std::fs::File::create("/dev/null").unwrap());
    tussle_evidence::file::write(&got.evidence, &mut out).unwrap();
    out.flush().unwrap();
}

fn ours(path: &Path) -> Command {
    if let Some(bin) = std::env::var_os("TUSSLE_BIN") {
        let mut c = Command::new(bin);
        c.args(["import", "-q", "-o", "/dev/null"]).arg(path);
        return c;
    }
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.env(CHILD, path);
    c
}

fn main() {
    if let Some(path) = std::env::var_os(CHILD) {
        return import(Path::new(&path));
    }
    let (megabytes, runs) = (number("TUSSLE_PERF_BENCH_MB", 500), number("TUSSLE_PERF_BENCH_RUNS", 3));
    let folder = std::env::var_os("TUSSLE_PERF_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("tussle-perf-bench-{}.data", std::process::id()));
    let samples = write_big(&path, megabytes << 20, Big::default());
    println!("file: {megabytes} MB, {samples} samples");
    let mine = best(|| measure(&mut ours(&path)), runs).unwrap();
    println!("tussle import           {:8.2} s  {:8.1} MB", mine.0, mine.1 as f64 / 1e6);
    let report = |path: &Path| {
        let mut c = Command::new("perf");
        // Looking up source lines starts addr2line for each address, which would only make perf slower.
        c.args(["c2c", "report", "--stdio", "--no-source", "-i"]).arg(path);
        c
    };
    match best(|| measure(&mut report(&path)), runs) {
        None => println!("skipped: perf is not installed"),
        Some(perf) => {
            println!("perf c2c report --stdio {:8.2} s  {:8.1} MB", perf.0, perf.1 as f64 / 1e6);
            println!(
                "ratio: {:.1} times faster, {:.3} of its memory",
                perf.0 / mine.0,
                mine.1 as f64 / perf.1 as f64
            );
        }
    }
    let _ = std::fs::remove_file(path);
}
