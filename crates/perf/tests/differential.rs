//! Totals against perf's own on generated files.

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use support::{Rng, file, random_plan};
use tussle_perf::c2c::Totals;
use tussle_perf::record::Mmap;
use tussle_perf::{Attr, PerfFile, Sample, Visitor};

#[derive(Default)]
struct Count {
    totals: Totals,
    maps: Vec<Mmap>,
}

impl Visitor for Count {
    fn mmap(&mut self, map: Mmap) {
        self.maps.push(map);
    }
    fn sample(&mut self, _event: usize, _attr: &Attr, s: &Sample, _misc: u16) {
        let address = s.addr.unwrap_or(0);
        let inside = |at: u64| self.maps.iter().any(|m| at >= m.start && at - m.start < m.len);
        let mapped = inside(address) && s.ip.is_some_and(inside);
        self.totals.count(s.data_src.unwrap_or_default(), address, mapped);
    }
}

fn ours(data: &[u8]) -> Totals {
    let mut count = Count::default();
    PerfFile::open(data).unwrap().visit(&mut count);
    count.totals
}

/// `perf c2c report --stats` as label → number; `None` when perf is not installed.
fn theirs(path: &std::path::Path) -> Option<BTreeMap<String, u64>> {
    let out = Command::new("perf")
        .args(["c2c", "report", "--stdio", "--stats", "--no-source", "-i"])
        .arg(path)
        .output()
        .ok()?;
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
    Some(rows)
}

fn labelled(t: &Totals) -> Vec<(&'static str, u64)> {
    vec![
        ("Total records", t.records),
        ("Locked Load/Store Operations", t.locks),
        ("Load Operations", t.load),
        ("Loads - uncacheable", t.load_uncached),
        ("Loads - IO", t.load_io),
        ("Loads - Miss", t.load_miss),
        ("Loads - no mapping", t.load_no_address),
        ("Load Fill Buffer Hit", t.load_fill_buffer),
        ("Load L1D hit", t.load_l1),
        ("Load L2D hit", t.load_l2),
        ("Load LLC hit", t.load_llc + t.local_hitm),
        ("Load Local HITM", t.local_hitm),
        ("Load Remote HITM", t.remote_hitm),
        ("Load Remote HIT", t.remote_hit),
        ("Load Local DRAM", t.local_dram),
        ("Load Remote DRAM", t.remote_dram),
        ("Load MESI State Exclusive", t.exclusive),
        ("Load MESI State Shared", t.shared),
        ("Load access blocked by data", t.blocked_data),
        ("Load access blocked by address", t.blocked_address),
        ("Load HIT Local Peer", t.local_peer),
        ("Load HIT Remote Peer", t.remote_peer),
        ("Store Operations", t.store),
        ("Store - uncacheable", t.store_uncached),
        ("Store - no mapping", t.store_no_address),
        ("Store L1D Hit", t.store_l1_hit),
        ("Store L1D Miss", t.store_l1_miss),
        ("Store No available memory level", t.store_no_level),
        ("No Page Map Rejects", t.no_map),
        ("Unable to parse data source", t.unparsed),
    ]
}

/// 12 files by default; TUSSLE_PERF_FILES=200 for the long form.
#[test]
fn totals_equal_those_of_perf_c2c() {
    let files: u64 = std::env::var("TUSSLE_PERF_FILES").ok().and_then(|v| v.parse().ok()).unwrap_or(12);
    let path = std::env::temp_dir().join(format!("tussle-perf-{}.data", std::process::id()));
    for seed in 0..files {
        let data = file(&random_plan(seed, 50 + Rng(seed).below(2000) as usize));
        std::fs::write(&path, &data).unwrap();
        let Some(theirs) = theirs(&path) else {
            eprintln!("skipped: perf is not installed");
            return;
        };
        for (label, value) in labelled(&ours(&data)) {
            assert_eq!(theirs.get(label), Some(&value), "seed {seed}: {label}");
        }
    }
    let _ = std::fs::remove_file(path);
}

#[test]
fn any_truncation_gives_what_was_readable() {
    let data = file(&random_plan(7, 40));
    let whole = ours(&data).records;
    for end in 0..data.len() {
        if let Ok(mut f) = PerfFile::open(&data[..end]) {
            let mut count = Count::default();
            f.visit(&mut count);
            assert!(count.totals.records <= whole);
        }
    }
}
