//! Replays the corpora of the fuzz targets `perf_data` and `perf_text`, whole, cut at every length and damaged.

mod support;

use std::path::PathBuf;
use support::{Rng, file, random_plan};
use tussle_evidence::{Evidence, Problem};
use tussle_perf::{import, import_text, mem_report, script, text};

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let read = |p: PathBuf| (p.clone(), std::fs::read(p).unwrap());
    paths.into_iter().map(read).collect()
}

/// What is imported adds up, and can be written and read again; rows that count what no run can (a damaged period) are
/// dropped then, and that is said.
fn sound(e: &Evidence, placed: u64) {
    let rows = e.samples.iter().flatten().map(|s| s.records).fold(0, u64::saturating_add);
    assert!(rows <= placed, "{rows} samples in rows, {placed} placed");
    let (again, problems) = again(e);
    let (kept, all) = (again.samples.as_deref().unwrap_or(&[]), e.samples.as_deref().unwrap_or(&[]));
    assert!(kept.iter().all(|row| all.contains(row)));
    assert_eq!(problems.is_empty(), kept.len() == all.len(), "{problems:?}");
}

/// Written and read.
fn again(e: &Evidence) -> (Evidence, Vec<Problem>) {
    let mut out = Vec::new();
    tussle_evidence::file::write(e, &mut out).unwrap();
    tussle_evidence::file::read(&out).unwrap()
}

fn perf_data(bytes: &[u8]) -> Option<import::Imported> {
    let got = import::perf_data(bytes).ok()?;
    sound(&got.evidence, got.totals.load + got.totals.store);
    Some(got)
}

fn perf_text(bytes: &[u8]) {
    let words = String::from_utf8_lossy(bytes);
    let read = text::read(&words);
    for table in import_text::split(&read) {
        import_text::c2c_text(&read, table);
    }
    if mem_report::is_mem_report(&words) {
        sound(&script::read_mem_report(&words).evidence, u64::MAX);
    }
    if script::is_script(&words) {
        let got = script::read(&words);
        sound(&got.evidence, got.totals.load + got.totals.store);
    }
}

#[test]
fn recordings_whole_cut_and_damaged() {
    let mut rng = Rng(3);
    for (path, bytes) in corpus("perf_data") {
        let whole = perf_data(&bytes).unwrap_or_else(|| panic!("{}", path.display()));
        assert!(again(&whole.evidence).1.is_empty(), "{}: rows of a sound file are dropped", path.display());
        let step = bytes.len() / 400 + 1;
        for end in (0..bytes.len()).step_by(step) {
            let Some(cut) = perf_data(&bytes[..end]) else { continue };
            assert!(cut.totals.records <= whole.totals.records, "{} at {end}", path.display());
            // A pipe has no length: an end between two records is an end.
            let said = !cut.problems.is_empty() && !cut.evidence.run.complete;
            assert!(said || path.ends_with("pipe"), "{} cut at {end}: nothing is said", path.display());
        }
        for _ in 0..300 {
            let mut bad = bytes.clone();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(bad.len() as u64) as usize;
                bad[at] = rng.next() as u8;
            }
            perf_data(&bad);
        }
    }
}

#[test]
fn texts_whole_cut_and_damaged() {
    let mut rng = Rng(4);
    for (_, bytes) in corpus("perf_text") {
        perf_text(&bytes);
        for end in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
            perf_text(&bytes[..end]);
        }
        for _ in 0..100 {
            let mut bad = bytes.clone();
            let at = rng.below(bad.len() as u64) as usize;
            bad[at] = rng.next() as u8;
            perf_text(&bad);
        }
    }
}

/// Small inputs for the fuzzer, one of each kind that perf can write here.
#[test]
#[ignore = "writes into fuzz/corpus"]
fn write_the_corpus() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for seed in 0..6 {
        std::fs::write(root.join(format!("perf_data/generated{seed}")), file(&random_plan(seed, 12)))
            .unwrap();
    }
    let folder = std::env::temp_dir();
    let load = ["--", "sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"];
    for (name, options) in [
        ("packed", &["-z", "-F", "200", "-e", "cpu-clock"][..]),
        ("registers", &["-e", "page-faults", "-c", "40", "-d", "--intr-regs", "-g", "-W"]),
        ("ids", &["-e", "page-faults", "-c", "40", "--buildid-mmap", "-d"]),
    ] {
        let path = folder.join(format!("tussle-corpus-{name}"));
        let mut perf = std::process::Command::new("perf");
        let perf = perf.args(["record", "-q"]).args(options).arg("-o").arg(&path).args(load);
        assert!(perf.output().unwrap().status.success());
        std::fs::copy(&path, root.join("perf_data").join(name)).unwrap();
    }
    let perf = std::process::Command::new("perf")
        .args(["record", "-q", "-e", "page-faults", "-c", "40", "-d", "-o", "-"])
        .args(load)
        .output()
        .unwrap();
    std::fs::write(root.join("perf_data/pipe"), perf.stdout).unwrap();
}
