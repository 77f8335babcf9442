//! Files that perf itself writes here, with a software clock as the event: plain, compressed, through a pipe, into a
//! folder. Samples are counted by `perf script`.

use std::path::{Path, PathBuf};
use std::process::Command;
use tussle_perf::record::{Comm, Mmap};
use tussle_perf::{Attr, Input, PerfFile, Sample, Visitor};

#[derive(Default)]
struct Seen {
    /// Code address, process, thread, time of each sample.
    samples: Vec<(u64, u32, u32, u64)>,
    maps: Vec<Mmap>,
    comms: Vec<Comm>,
    registers: usize,
    ids: usize,
}

impl Visitor for Seen {
    fn mmap(&mut self, map: Mmap) {
        self.ids += usize::from(map.build_id.is_some());
        self.maps.push(map);
    }
    fn comm(&mut self, comm: Comm) {
        self.comms.push(comm);
    }
    fn build_id(&mut self, _path: String, id: Vec<u8>) {
        self.ids += usize::from(id.len() == 20);
    }
    fn sample(&mut self, _event: usize, _attr: &Attr, s: &Sample<'_>, _misc: u16) {
        let known = (s.ip.unwrap(), s.pid.unwrap(), s.tid.unwrap(), s.time_ns.unwrap());
        self.samples.push(known);
        self.registers += s.regs_intr.each().count();
    }
}

fn folder() -> PathBuf {
    let path = std::env::temp_dir().join(format!("tussle-perf-recorded-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

const LOAD: &[&str] =
    &["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls -R /usr/share >/dev/null"];

/// Records a short load; false where perf does not record, or not with these options.
#[track_caller]
fn record(out: &Path, options: &[&str]) -> bool {
    if !tussle_testkit::need("perf") || !tussle_testkit::need("perf record") {
        return false;
    }
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-d", "-F", "2000"]).args(options).arg("-o").arg(out).arg("--").args(LOAD);
    let ok = perf.output().is_ok_and(|o| o.status.success());
    if !ok {
        tussle_testkit::skip(&format!("perf record {options:?} does not work here"));
    }
    ok
}

/// `(ip, pid, tid, time)` of each sample as perf prints them, times in nanoseconds.
fn script(path: &Path) -> Vec<(u64, u32, u32, u64)> {
    let fields = "pid,tid,time,ip";
    let out = Command::new("perf").args(["script", "--ns", "-F", fields, "-i"]).arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let read = |l: &str| {
        let mut words = l.split_whitespace();
        let (pid, tid) = words.next()?.split_once('/')?;
        let (s, ns) = words.next()?.strip_suffix(':')?.split_once('.')?;
        let time = s.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        Some((u64::from_str_radix(words.next()?, 16).ok()?, pid.parse().ok()?, tid.parse().ok()?, time))
    };
    let mut all: Vec<_> = text.lines().filter_map(read).collect();
    all.sort_unstable();
    all
}

fn ours(main: &[u8], more: &[Vec<u8>]) -> Seen {
    let mut seen = Seen::default();
    let slices: Vec<&[u8]> = more.iter().map(Vec::as_slice).collect();
    let more: Vec<&dyn Input> = slices.iter().map(|s| s as &dyn Input).collect();
    let mut file = PerfFile::open(&main).unwrap();
    file.visit(&more, &mut seen);
    assert_eq!(file.problems, []);
    seen.ids += file.build_ids.len();
    seen.samples.sort_unstable();
    seen
}

#[track_caller]
fn check(name: &str, options: &[&str], registers: bool) {
    let path = folder().join(name);
    if !record(&path, options) {
        return;
    }
    let seen = ours(&std::fs::read(&path).unwrap(), &[]);
    assert!(seen.samples.len() > 20, "{name}: {} samples", seen.samples.len());
    assert_eq!(seen.samples, script(&path), "{name}");
    assert!(seen.maps.iter().any(|m| m.path.contains("libc") && m.start > 0 && m.time_ns > 0), "{name}");
    assert!(seen.maps.iter().any(|m| m.kernel), "{name}");
    assert!(seen.comms.iter().any(|c| c.name == "sh" && c.exec), "{name}");
    // perf looks for build-ids in samples, which it has packed away here.
    assert!(seen.ids > 0 || options.contains(&"-z"), "{name}: no build-ids");
    assert_eq!(seen.registers > 0, registers, "{name}");
}

#[test]
fn a_plain_file() {
    check("plain.data", &["-e", "cpu-clock"], false);
}

#[test]
fn two_events_with_registers_and_chains() {
    let options =
        ["-e", "cpu-clock", "-e", "page-faults", "-c", "1", "-g", "--intr-regs", "--user-regs=ax,bx"];
    check("two.data", &options, true);
}

/// One zstd frame without an end, cut into records.
#[test]
fn a_compressed_file() {
    check("packed.data", &["-e", "cpu-clock", "-z"], false);
}

#[test]
fn build_ids_in_mappings() {
    check("ids.data", &["-e", "cpu-clock", "--buildid-mmap"], false);
}

#[test]
fn a_pipe() {
    let path = folder().join("pipe.data");
    if !tussle_testkit::need("perf") || !tussle_testkit::need("perf record") {
        return;
    }
    let out = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "2000", "-d", "-o", "-", "--"])
        .args(LOAD)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::write(&path, &out.stdout).unwrap();
    let seen = ours(&out.stdout, &[]);
    assert!(seen.samples.len() > 20);
    assert_eq!(seen.samples, script(&path));
}

#[test]
fn a_folder() {
    let path = folder().join("folder.data");
    if !record(&path, &["-e", "cpu-clock", "--threads"]) {
        return;
    }
    let more: Vec<Vec<u8>> =
        (0..1024).map_while(|i| std::fs::read(path.join(format!("data.{i}"))).ok()).collect();
    assert!(!more.is_empty());
    let seen = ours(&std::fs::read(path.join("data")).unwrap(), &more);
    assert!(seen.samples.len() > 20);
    assert_eq!(seen.samples, script(&path));
}

/// What a compressed file loses when it is cut is said, and what is left is read.
#[test]
fn a_cut_compressed_file() {
    let path = folder().join("cut.data");
    if !record(&path, &["-e", "cpu-clock", "-z"]) {
        return;
    }
    let data = std::fs::read(&path).unwrap();
    let whole = ours(&data, &[]).samples.len();
    for part in [2, 3, 4, 5] {
        let cut = &data[..data.len() * part / 6];
        let mut file = PerfFile::open(&cut).unwrap();
        let mut seen = Seen::default();
        file.visit(&[], &mut seen);
        assert!(!file.problems.is_empty() && seen.samples.len() <= whole);
    }
}
