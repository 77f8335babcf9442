//! Layout questions asked of tussle and of the tools that people use today, side by side in one run.
//!
//! `TUSSLE_VMLINUX=/usr/lib/debug/boot/vmlinux-... cargo bench -p tussle-cli --bench peers` (`-- ROUNDS` for more
//! than 3). `TUSSLE_VMLINUX_NEW` is the new side of the whole-kernel difference; without it the file is compared with
//! itself, which reads as much. Wall time (medians of interleaved runs) and peak memory with mapped file pages, as the
//! kernel counts them per process; output goes to /dev/null. Peers that are not installed are named and left out.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

const TUSSLE: &str = env!("CARGO_BIN_EXE_tussle");

/// What is asked, our command, theirs, and the largest ratios of time and memory that were promised.
struct Row {
    what: &'static str,
    ours: Vec<String>,
    theirs: Vec<String>,
    time: f64,
    memory: Option<f64>,
}

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse::<usize>().ok()).next().unwrap_or(3);
    let btf = "/sys/kernel/btf/vmlinux";
    let mut rows = Vec::new();
    match std::env::var("TUSSLE_VMLINUX") {
        Ok(kernel) => {
            let new = std::env::var("TUSSLE_VMLINUX_NEW").unwrap_or_else(|_| kernel.clone());
            rows.extend(of_kernel(&kernel, &new));
        }
        Err(_) => println!("skipped: TUSSLE_VMLINUX is not set"),
    }
    if std::path::Path::new(btf).exists() {
        let ours = words(&[TUSSLE, "layout", "-C", "mm_struct", btf]);
        let theirs = words(&["pahole", "-C", "mm_struct", btf]);
        rows.push(Row { what: "one struct, BTF", ours, theirs, time: 1.0 / 3.0, memory: None });
    }
    println!(
        "{:<22} {:>9} {:>8} {:>10} {:>9} {:>8}  {:>6} {:>6}  peer",
        "question", "tussle s", "MiB", "peer s", "MiB", "", "time", "memory"
    );
    for row in rows {
        if !installed(&row.theirs) {
            println!("{:<22} skipped: {}", row.what, row.theirs[0]);
            continue;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(run(&row.ours));
            theirs.push(run(&row.theirs));
        }
        print(&row, median(ours), median(theirs));
    }
}

fn of_kernel(kernel: &str, new: &str) -> Vec<Row> {
    let program = "import sys,drgn\np=drgn.Program()\nm=p.extra_module(sys.argv[1],create=True)\n\
                   m=m[0] if isinstance(m,tuple) else m\nm.try_file(sys.argv[1],force=True)\n\
                   print(p.type(sys.argv[2]))";
    let one = |what: &'static str, name: &str| Row {
        what,
        ours: words(&[TUSSLE, "layout", "-C", name, kernel]),
        theirs: words(&["python3", "-c", program, kernel, &format!("struct {name}")]),
        // No slower than drgn.
        time: 1.0,
        memory: None,
    };
    let all = |theirs: &[&str], what| Row {
        what,
        ours: words(&[TUSSLE, "layout", kernel]),
        theirs: words(&[theirs, &[kernel]].concat()),
        time: 1.0 / 8.0,
        memory: Some(1.0 / 7.0),
    };
    vec![
        all(&["pahole"], "all types"),
        // The promise is about pahole's default; its two jobs are shown for what they are.
        Row { time: f64::INFINITY, memory: None, ..all(&["pahole", "-j2"], "all types, two jobs") },
        one("one struct, early", "list_head"),
        one("one struct, middle", "task_struct"),
        one("one struct, late", "tcp_sock"),
        Row {
            what: "whole-kernel difference",
            ours: words(&[TUSSLE, "diff", kernel, new]),
            theirs: words(&["codiff", kernel, new]),
            time: 0.1,
            memory: None,
        },
    ]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| w.to_string()).collect()
}

/// The tool runs, and so does what it imports.
fn installed(command: &[String]) -> bool {
    let probe = if command[0] == "python3" { ["-c", "import drgn"].as_slice() } else { &["--version"] };
    let status = Command::new(&command[0]).args(probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

/// Seconds and MiB of one run.
fn run(command: &[String]) -> (f64, f64) {
    let mut c = Command::new(&command[0]);
    c.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let start = Instant::now();
    let child = c.spawn().expect("it starts");
    let (mut status, pid) = (0, child.id() as libc::pid_t);
    // SAFETY: plain data that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        usage
    };
    let seconds = start.elapsed().as_secs_f64();
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{command:?}: status {status}");
    (seconds, usage.ru_maxrss as f64 / 1024.0)
}

fn median(runs: Vec<(f64, f64)>) -> (f64, f64) {
    let of = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    (of(runs.iter().map(|r| r.0).collect()), of(runs.iter().map(|r| r.1).collect()))
}

fn print(row: &Row, ours: (f64, f64), theirs: (f64, f64)) {
    let (time, memory) = (ours.0 / theirs.0, ours.1 / theirs.1);
    let met = time <= row.time && row.memory.is_none_or(|m| memory <= m);
    let verdict = match (row.time.is_finite(), met) {
        (false, _) => "",
        (true, true) => "met",
        (true, false) => "MISSED",
    };
    println!(
        "{:<22} {:>9.3} {:>8.0} {:>10.3} {:>9.0} {:>8}  {time:>6.3} {memory:>6.3}  {}",
        row.what, ours.0, ours.1, theirs.0, theirs.1, verdict, row.theirs[0]
    );
}
