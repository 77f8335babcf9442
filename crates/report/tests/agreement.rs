//! On generated evidences, what report, advise and fix say never contradicts: one classifier, one unit.

use proptest::prelude::*;
use tussle_advise::advice::{Options, advise, best, evaluate};
use tussle_advise::class::{Class, judge};
use tussle_contention::analysis::{Question, contention};
use tussle_contention::fields::Namer;
use tussle_evidence::Evidence;
use tussle_evidence::sample::Sample;

const MEMBERS: usize = 8;

/// One thread's use of one member: reads, writes, RMWs per thousand of virtual time, when, and under which lock (0:
/// none) in how many sections.
type Use = (usize, usize, [u64; 3], u64, (u64, u64));

/// A struct of longs in one line, threads that use its members as drawn.
fn evidence(threads: usize, uses: &[Use]) -> Evidence {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers: Vec<u32> = (0..threads).map(|_| s.worker(main, start)).collect();
    let long = s.long();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let members: Vec<_> = names.iter().zip(0u64..).map(|(n, i)| (*n, long, 8 * i)).collect();
    let ty = s.structure("s", 64, &members);
    let o = s.global("g", 0x1000, 64, Some(ty), 64);
    let locks = s.global("locks", 0x2000, 64, None, 64);
    for &(thread, member, counts, phase, (lock, sections)) in uses {
        let vt = (phase * 100_000, (phase + 1) * 100_000);
        s.access(o, 8 * member as u64, 8, workers[thread % threads], vt, counts);
        let all = counts.iter().sum::<u64>();
        let storing = sections.min(counts[1] + counts[2]);
        if let Some(row) = s.tables().accesses.last_mut().filter(|_| lock > 0 && sections <= all) {
            row.held = Some((locks, 8 * lock, sections, storing));
        }
    }
    s.evidence()
}

/// Classes and costs as report judges them.
fn reported(e: &Evidence) -> Vec<(Class, f64)> {
    let (namer, seen) = (Namer::new(e), contention(e, &Question::observed()));
    judge(e, &namer, &seen).iter().map(|j| (j.class, j.group.cost.total())).collect()
}

fn one_use() -> impl Strategy<Value = Use> {
    let count = prop_oneof![Just(0u64), 0u64..100, 0u64..40_000];
    let lock = (0u64..3, prop_oneof![0u64..10, 0u64..20_000]);
    (0usize..6, 0usize..MEMBERS, prop::array::uniform3(count), 0u64..3, lock)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn verbs_do_not_contradict_each_other(
        threads in 2usize..6,
        uses in prop::collection::vec(one_use(), 1..14),
    ) {
        let e = evidence(threads, &uses);
        let classes = reported(&e);
        let first = classes.iter().map(|c| c.0).min().unwrap_or(Class::Small);
        let report = advise(&e, "s", &Options::default()).expect("a report");
        prop_assert_eq!(report.class, first);
        let whole: f64 = classes.iter().map(|c| c.1).sum();
        let here = report.cost.observed;
        prop_assert!((here - whole).abs() <= 1e-6 * whole.max(1.0), "{} {}", here, whole);
        prop_assert!(report.advices.is_empty() || first.may_gain());
        // A layout that helps is one that advise finds.
        prop_assert!(first != Class::LayoutHelps || !report.advices.is_empty(), "{:?} {:?}", classes, uses);
        prop_assert_eq!(best(&e, &Options::default()).is_empty(), report.advices.is_empty());
        for a in &report.advices {
            let bill = evaluate(&e, "s", &a.edits, &Options::default()).expect("a bill");
            // Sums of the same numbers in another order.
            prop_assert!((bill.gain() - a.gain()).abs() <= 1e-9 * a.gain().abs(), "{} {}", bill.gain(), a.gain());
        }
        let shown = tussle_report::report(&e, &[], &tussle_report::Options::default());
        prop_assert_eq!(shown.outcome.helps, first == Class::LayoutHelps);
    }
}
