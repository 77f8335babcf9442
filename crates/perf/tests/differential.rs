//! Totals against perf's own on generated files.

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use support::{Rng, file, kernel_plan, machine_plan, random_plan};
use tussle_evidence::Sampled;
use tussle_model::LineSize;
use tussle_perf::c2c::Totals;
use tussle_perf::record::Mmap;
use tussle_perf::{Attr, PerfFile, Sample, Visitor, import, script, text};
use tussle_report::pmu;

#[derive(Default)]
struct Count {
    totals: Totals,
    maps: Vec<Mmap>,
}

impl Visitor for Count {
    fn mmap(&mut self, map: Mmap) {
        self.maps.push(map);
    }
    fn sample(&mut self, _event: usize, _attr: &Attr, s: &Sample<'_>, _misc: u16) {
        let address = s.addr.unwrap_or(0);
        let inside = |at: u64| self.maps.iter().any(|m| at >= m.start && at - m.start < m.len);
        let mapped = inside(address) && s.ip.is_some_and(inside);
        self.totals.count(s.data_src.unwrap_or_default(), address, mapped);
    }
}

fn ours(data: &[u8]) -> Totals {
    let mut count = Count::default();
    PerfFile::open(&data).unwrap().visit(&[], &mut count);
    count.totals
}

/// `perf c2c report --stats` as label → number; `None` when perf is not installed.
fn theirs(path: &std::path::Path) -> BTreeMap<String, u64> {
    let out = Command::new("perf")
        .args(["c2c", "report", "--stdio", "--stats", "--no-source", "-i"])
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        if let Some((label, value)) = line.split_once(" : ")
            && let Ok(n) = value.trim().parse()
        {
            rows.entry(label.trim().to_string()).or_insert(n);
        }
    }
    assert!(!rows.is_empty(), "perf printed no totals: {}", String::from_utf8_lossy(&out.stderr));
    rows
}

/// 12 files by default; TUSSLE_PERF_FILES=200 for the long form.
#[test]
fn totals_equal_those_of_perf_c2c() {
    if !tussle_testkit::need("perf") {
        return;
    }
    let files: u64 = std::env::var("TUSSLE_PERF_FILES").ok().and_then(|v| v.parse().ok()).unwrap_or(12);
    let path = std::env::temp_dir().join(format!("tussle-perf-{}.data", std::process::id()));
    for seed in 0..files {
        let data = file(&random_plan(seed, 50 + Rng(seed).below(2000) as usize));
        std::fs::write(&path, &data).unwrap();
        let theirs = theirs(&path);
        for totals in [ours(&data), import::perf_data(&data).unwrap().totals] {
            for (label, value) in totals.labelled() {
                assert_eq!(theirs.get(label), Some(&value), "seed {seed}: {label}");
            }
        }
    }
    let _ = std::fs::remove_file(path);
}

/// Kernel, modules, forks, programs that start others, guests: also the rejects are perf's.
#[test]
fn machines_equal_those_of_perf_c2c() {
    if !tussle_testkit::need("perf") {
        return;
    }
    let files: u64 = std::env::var("TUSSLE_PERF_FILES").ok().and_then(|v| v.parse().ok()).unwrap_or(12);
    let path = std::env::temp_dir().join(format!("tussle-perf-machine-{}.data", std::process::id()));
    for seed in 0..files {
        let data = file(&machine_plan(seed, 200 + Rng(seed).below(2000) as usize));
        std::fs::write(&path, &data).unwrap();
        let theirs = theirs(&path);
        let got = import::perf_data(&data).unwrap();
        assert_eq!(got.problems, []);
        let wrong: Vec<_> = got
            .totals
            .labelled()
            .into_iter()
            .filter(|(label, value)| theirs.get(*label) != Some(value))
            .map(|(label, value)| format!("{label}: ours {value}, perf's {:?}", theirs.get(label)))
            .collect();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        let e = &got.evidence;
        let function = |c: &tussle_evidence::Code| c.frames.first().map(|f| f.function.clone());
        assert!(e.code.iter().any(|c| function(c).as_deref() == Some("bpf_prog_made")));
        assert!(e.modules.iter().any(|m| m.path == "[nf_conntrack]"));
        let ours = e.modules.iter().find(|m| m.path == "/nowhere/other").unwrap();
        assert_eq!(ours.build_id.as_deref(), Some("07".repeat(20).as_str()));
        assert!(e.samples.iter().flatten().any(|s| s.phys_addr.is_some() && s.period > Some(0)));
        assert!(e.losses.iter().any(|l| l.what == "samples of guests" && l.count > 0));
    }
    let _ = std::fs::remove_file(path);
}

/// Writes a file of kernel samples to TUSSLE_PERF_FILE: TUSSLE_PERF_PLACES is `IP:ADDR,...` in hex, the kernel's text
/// begins at TUSSLE_PERF_TEXT. For trials with real kernels.
#[test]
#[ignore = "writes a file for trials"]
fn write_a_kernel_file() {
    let var = |n: &str| std::env::var(n).ok();
    let hex = |w: &str| u64::from_str_radix(w, 16).unwrap();
    let (Some(path), Some(places), Some(text)) =
        (var("TUSSLE_PERF_FILE"), var("TUSSLE_PERF_PLACES"), var("TUSSLE_PERF_TEXT"))
    else {
        return;
    };
    let one = |p: &str| p.split_once(':').map(|(ip, at)| (hex(ip), hex(at))).unwrap();
    let places: Vec<(u64, u64)> = places.split(',').map(one).collect();
    std::fs::write(path, file(&kernel_plan(hex(&text), 0x182_6634, &places))).unwrap();
}

/// HITM and stores by line of an imported file: local, remote, L1 hit, L1 miss, no level.
fn lines_of(data: &[u8]) -> BTreeMap<u64, [u64; 5]> {
    let e = import::perf_data(data).unwrap().evidence;
    let mut out = BTreeMap::new();
    for l in pmu::lines(&e, LineSize::L64) {
        let sum = |of: fn(&Sampled) -> Option<u64>| l.rows.iter().filter_map(|s| of(s)).sum();
        let counts = [
            sum(|s| s.hitm_local),
            sum(|s| s.hitm_remote),
            sum(|s| s.store_l1_hit),
            sum(|s| s.store_l1_miss),
            sum(|s| s.store_no_level),
        ];
        out.insert(l.address, counts);
    }
    out
}

/// Each line of the Pareto table, and the rows' sums, as perf prints them.
#[test]
fn lines_equal_those_of_perf_c2c() {
    if !tussle_testkit::need("perf") {
        return;
    }
    let files: u64 = std::env::var("TUSSLE_PERF_FILES").ok().and_then(|v| v.parse().ok()).unwrap_or(12);
    let path = std::env::temp_dir().join(format!("tussle-perf-lines-{}.data", std::process::id()));
    for seed in 0..files {
        let data = file(&random_plan(seed, 50 + Rng(seed).below(2000) as usize));
        std::fs::write(&path, &data).unwrap();
        let perf =
            Command::new("perf").args(["c2c", "report", "--stdio", "--no-source", "-i"]).arg(&path).output();
        let out = perf.unwrap();
        let read = text::read(&String::from_utf8_lossy(&out.stdout));
        assert!(!read.lines.is_empty(), "seed {seed}: no line in perf's table");
        let ours = lines_of(&data);
        assert_eq!(read.lines.len(), ours.len(), "seed {seed}");
        for l in &read.lines {
            let c = l.counts;
            let none = c.store_no_level.unwrap_or(0);
            let theirs = [c.local_hitm, c.remote_hitm, c.store_l1_hit, c.store_l1_miss, none];
            assert_eq!(ours.get(&l.address), Some(&theirs), "seed {seed}, line 0x{:x}", l.address);
        }
    }
    let _ = std::fs::remove_file(path);
}

/// The text of `perf script` gives the same lines as the file.
#[test]
fn script_text_gives_the_same_lines() {
    if !tussle_testkit::need("perf") {
        return;
    }
    let path = std::env::temp_dir().join(format!("tussle-perf-script-{}.data", std::process::id()));
    let data = file(&random_plan(5, 1500));
    std::fs::write(&path, &data).unwrap();
    let fields = "pid,tid,ip,sym,addr,data_src,weight,phys_addr";
    let perf = Command::new("perf").args(["script", "-F", fields, "-i"]).arg(&path).output();
    let out = perf.unwrap();
    let _ = std::fs::remove_file(path);
    let words = String::from_utf8_lossy(&out.stdout);
    assert!(script::is_script(&words));
    let got = script::read(&words);
    assert_eq!(got.problems, []);
    let whole = import::perf_data(&data).unwrap();
    let hitm = |e: &tussle_evidence::Evidence| -> Vec<(u64, u64)> {
        let mut all: Vec<_> = pmu::lines(e, LineSize::L64).iter().map(|l| (l.address, l.contended)).collect();
        all.sort();
        all
    };
    assert_eq!(hitm(&got.evidence), hitm(&whole.evidence));
    assert_eq!(got.totals.store, whole.totals.store);
}

/// Writes a file of TUSSLE_PERF_SAMPLES samples to TUSSLE_PERF_FILE, for measurements.
#[test]
#[ignore = "writes a file for measurements"]
fn write_a_file() {
    let (Ok(path), Ok(samples)) = (std::env::var("TUSSLE_PERF_FILE"), std::env::var("TUSSLE_PERF_SAMPLES"))
    else {
        return;
    };
    std::fs::write(path, file(&random_plan(3, samples.parse().unwrap()))).unwrap();
}

/// What is imported adds up to the totals, whatever was cut or turned over.
#[test]
fn damage_is_stated_and_never_invented() {
    let data = file(&random_plan(7, 40));
    let whole = import::perf_data(&data).unwrap();
    assert_eq!(whole.problems, []);
    assert!(whole.evidence.run.complete);
    let rows: u64 = whole.evidence.samples.iter().flatten().map(|s| s.records).sum();
    let t = &whole.totals;
    assert_eq!(rows, t.load + t.store - t.load_no_address - t.store_no_address);
    let mut rng = Rng(11);
    for i in 0..2000 {
        let mut bad = data.clone();
        if i % 2 == 0 {
            bad.truncate(rng.below(data.len() as u64) as usize);
        } else {
            for _ in 0..4 {
                let at = rng.below(bad.len() as u64) as usize;
                bad[at] = rng.next() as u8;
            }
        }
        if let Ok(got) = import::perf_data(&bad) {
            assert!(got.totals.records <= 2 * whole.totals.records);
            let (mut file, mut again) = (Vec::new(), got.evidence);
            again.run.complete = false;
            tussle_evidence::file::write(&again, &mut file).unwrap();
        }
    }
}

#[test]
fn any_truncation_gives_what_was_readable() {
    let data = file(&random_plan(7, 40));
    let whole = ours(&data).records;
    for end in 0..data.len() {
        let part = &data[..end];
        if let Ok(mut f) = PerfFile::open(&part) {
            let mut count = Count::default();
            f.visit(&[], &mut count);
            assert!(count.totals.records <= whole);
        }
    }
}
