//! Layout questions asked of tussle and of the tools that people use today, side by side in one run.
//!
//! `TUSSLE_VMLINUX=/usr/lib/debug/boot/vmlinux-... cargo bench -p tussle-cli --bench peers` (`-- ROUNDS` for more
//! than 3). `TUSSLE_VMLINUX_NEW` is the new side of the whole-kernel difference; without it the file is compared with
//! itself, which reads as much. Wall time and CPU time of all threads (medians of interleaved runs) and peak memory
//! with mapped file pages, as the kernel counts them per process; output goes to /dev/null. Questions about a whole
//! kernel are judged by CPU time, those about one struct by wall time. Peers that are not installed are left out by
//! name.

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
    /// The ratio of CPU times is what was promised, not that of wall times.
    by_cpu: bool,
    memory: Option<f64>,
}

/// What a run took.
#[derive(Clone, Copy)]
struct Took {
    wall_s: f64,
    cpu_s: f64,
    memory_mib: f64,
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
        rows.push(Row {
            what: "one struct, BTF",
            ours,
            theirs,
            time: 1.0 / 3.0,
            by_cpu: false,
            memory: None,
        });
    }
    println!(
        "{:<22} {:>8} {:>6} {:>6}  {:>8} {:>6} {:>6}  {:>6} {:>6} {:>6}  {:>6}  peer",
        "question", "tussle s", "CPU s", "MiB", "peer s", "CPU s", "MiB", "wall", "CPU", "memory", ""
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
        print(&row, median(&ours), median(&theirs));
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
        by_cpu: false,
        memory: None,
    };
    let all = |theirs: &[&str], what| Row {
        what,
        ours: words(&[TUSSLE, "layout", kernel]),
        theirs: words(&[theirs, &[kernel]].concat()),
        time: 1.0 / 8.0,
        by_cpu: true,
        memory: Some(0.1),
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
            by_cpu: true,
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

/// One run.
fn run(command: &[String]) -> Took {
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
    let wall_s = start.elapsed().as_secs_f64();
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{command:?}: status {status}");
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Took { wall_s, cpu_s, memory_mib: usage.ru_maxrss as f64 / 1024.0 }
}

fn median(runs: &[Took]) -> Took {
    let of = |f: fn(&Took) -> f64| {
        let mut v: Vec<f64> = runs.iter().map(f).collect();
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    Took { wall_s: of(|t| t.wall_s), cpu_s: of(|t| t.cpu_s), memory_mib: of(|t| t.memory_mib) }
}

fn print(row: &Row, ours: Took, theirs: Took) {
    let (wall, cpu) = (ours.wall_s / theirs.wall_s, ours.cpu_s / theirs.cpu_s);
    let memory = ours.memory_mib / theirs.memory_mib;
    let judged = if row.by_cpu { cpu } else { wall };
    let met = judged <= row.time && row.memory.is_none_or(|m| memory <= m);
    let verdict = match (row.time.is_finite(), met) {
        (false, _) => "",
        (true, true) => "met",
        (true, false) => "MISSED",
    };
    println!(
        "{:<22} {}  {}  {wall:>6.3} {cpu:>6.3} {memory:>6.3}  {verdict:>6}  {}",
        row.what,
        columns(ours),
        columns(theirs),
        row.theirs[0]
    );
}

fn columns(t: Took) -> String {
    format!("{:>8.3} {:>6.2} {:>6.0}", t.wall_s, t.cpu_s, t.memory_mib)
}
