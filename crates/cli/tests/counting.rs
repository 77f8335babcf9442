//! Parts of a run that are counted: samples, whose error is stated and holds, and what signals and times say.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tussle_evidence::Evidence;
use tussle_testkit::need;

/// Two threads store to one line, always or in every other stretch of 400,000 stores, N thousand times each.
const PAIR: &str = include_str!("counting/pair.c");
/// Two threads store to words of three lines in turn as the main thread says, and announce when they are there.
const PHASES: &str = include_str!("counting/phases.c");

struct Lab(tempfile::TempDir);

impl Lab {
    #[track_caller]
    fn new(source: &str) -> Option<Lab> {
        if !need("gcc") {
            return None;
        }
        let lab = Lab(tempfile::tempdir().unwrap());
        std::fs::write(lab.0.path().join("p.c"), source).unwrap();
        let built = lab.tussle(&["cc", "-O1", "p.c", "-o", "p", "-lpthread"]).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(lab)
    }

    fn tussle(&self, arguments: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
        c.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        c
    }

    fn evidence(&self) -> Evidence {
        let bytes = std::fs::read(self.0.path().join("tussle.data")).unwrap();
        tussle_evidence::file::read(&bytes).unwrap().0
    }

    #[track_caller]
    fn record(&self, arguments: &[&str]) -> (Evidence, Output) {
        let out = self.tussle(&[&["record"], arguments].concat()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        (self.evidence(), out)
    }
}

#[test]
fn a_sample_states_its_error_and_holds_it() {
    let Some(lab) = Lab::new(PAIR) else { return };
    const TRUTH: [(&str, f64); 2] = [("always", 60e6), ("by turns", 30e6)];
    for (kind, truth) in TRUTH {
        for every in ["1/4", "1/10"] {
            let (e, out) = lab.record(&["--sample", every, "./p", "60000", kind]);
            let found = tussle_contention::sampling::sampled(&e).unwrap();
            let error = found.error.unwrap();
            assert!((found.e - truth).abs() <= error, "{kind} {every}: {found:?}");
            assert!(error <= 0.6 * truth, "{kind} {every}: {found:?}");
            // Found as large as it is, so that one stretch in so many was counted. The views find the same, and
            // all that was passed over is known.
            let c = tussle_contention::analysis::contention(
                &e,
                &tussle_contention::analysis::Question::observed(),
            );
            let seen: f64 = c.lines.iter().map(|l| l.e.e).sum();
            assert!((seen / found.e - 1.0).abs() < 0.05, "{seen} {found:?}");
            let all = e.run.accesses.unwrap() as f64;
            assert!((all / 120e6 - 1.0).abs() < 0.001, "{all}");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(said.contains("95% interval of E over all lines \u{b1}"), "{said}");
        }
    }
}

#[test]
fn a_run_that_is_too_short_to_sample_says_so() {
    let Some(lab) = Lab::new(PAIR) else { return };
    let (e, out) = lab.record(&["--sample", "1/10", "./p", "100", "always"]);
    assert_eq!(tussle_contention::sampling::sampled(&e).unwrap().error, None);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("unknown: too few stretches"), "{said}");
}

/// Waits until the program says that it has come to phase `n`.
fn wait_for(lab: &Lab, n: usize) {
    let there = lab.0.path().join(format!("phase-{n}"));
    let begin = std::time::Instant::now();
    while !there.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "phase {n}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Stores to the words of each phase.
fn stores(e: &Evidence) -> [u64; 3] {
    let words = e.objects.iter().position(|o| o.name.as_deref() == Some("words"));
    std::array::from_fn(|k| {
        let of = |a: &&tussle_evidence::Access| Some(a.object as usize) == words && a.offset / 64 == k as u64;
        e.accesses.iter().filter(of).map(|a| a.writes).sum()
    })
}

#[test]
fn a_signal_lets_counting_begin_and_end_and_does_not_reach_the_program() {
    let Some(lab) = Lab::new(PHASES) else { return };
    let mut tussle = lab.tussle(&["record", "--stopped", "--toggle", "USR2", "./p"]);
    let child = tussle.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for n in 0..3 {
        wait_for(&lab, n);
        if n > 0 {
            // SAFETY: a signal to a child that was not waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR2) };
            // The signal has come when the next access has: the threads go on a while before they store.
            std::thread::sleep(Duration::from_millis(300));
        }
        std::fs::write(lab.0.path().join(format!("go-{n}")), "").unwrap();
    }
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "signals 0\n");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let e = lab.evidence();
    let [before, within, after] = stores(&e);
    assert_eq!((before, within), (0, 2_000_000));
    assert!(after < 20_000, "{after}");
    assert_eq!(e.stretches.as_ref().map(Vec::len), Some(1));
    assert!(e.losses.iter().any(|l| l.what == "not counted" && l.count == 1), "{:?}", e.losses);
}

#[test]
fn counting_ends_after_a_time_and_the_program_goes_on() {
    let Some(lab) = Lab::new(PAIR) else { return };
    let (e, out) = lab.record(&["--count-for", "10ms", "./p", "60000", "always"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "done\n");
    let counted = e.run.accesses.unwrap();
    assert!((1..119_000_000).contains(&counted), "{counted}");
    let (e, _) = lab.record(&["--count-after", "1h", "./p", "100", "always"]);
    assert_eq!(e.run.accesses, Some(0));
}

#[test]
fn shares_and_signals_that_are_none_are_refused() {
    let lab = Lab(tempfile::tempdir().unwrap());
    for wrong in [["--sample", "10"], ["--sample", "1/1"], ["--toggle", "KILL"], ["--sample", "1/x"]] {
        let out = lab.tussle(&["record", wrong[0], wrong[1], "true"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
    }
}
