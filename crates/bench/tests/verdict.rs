//! What stands beside a verdict: hints when raw and per-CPU figures disagree, warnings about what weakens the answer.

#![allow(clippy::unwrap_used)]

use tussle_bench::design::Order;
use tussle_bench::{Extract, Header, Metric, Paired, Sample, Status, Verdict, sample::Results, verdict};
use tussle_stats::Rng;

const PAIRS: usize = 20;

/// What one arm's runs look like.
#[derive(Clone, Copy)]
struct Arm {
    wall_s: f64,
    cpu_s: f64,
    switches: u64,
}

const PLAIN: Arm = Arm { wall_s: 1.0, cpu_s: 0.8, switches: 1000 };

/// A clean result: wall time with 0.1% of noise; `change` may spoil it.
fn judge(a: Arm, b: Arm, change: impl Fn(&mut Results)) -> Verdict {
    let header = Header { cpus: 2, ..Header::new(vec!["old".into(), "new".into()], Metric::wall()) };
    let mut rng = Rng::new(7);
    let mut samples = Vec::new();
    for pair in 0..PAIRS {
        for (arm, of) in [a, b].iter().enumerate() {
            let wall = of.wall_s * (1.0 + 0.001 * rng.normal());
            samples.push(Sample {
                value: Some(wall),
                wall_s: wall,
                user_s: Some(of.cpu_s * (1.0 + 0.001 * rng.normal())),
                system_s: Some(0.0),
                foreign_s: Some(0.0),
                steal_s: Some(0.0),
                switches_voluntary: Some(of.switches),
                switches_forced: Some(0),
                frequency_khz: Some(3_000_000),
                ..Sample::new(pair, arm, 2 * pair + arm, Status::Ok)
            });
        }
    }
    let mut results = Results { header, samples };
    change(&mut results);
    verdict(&Paired::from_results(&results, 0, 1).unwrap()).unwrap()
}

#[test]
fn where_raw_and_per_cpu_figures_disagree_time_went_to_spinning_or_sleeping() {
    let check = |b: Arm, expect: Option<&str>| {
        let hint = judge(PLAIN, b, |_| {}).hint;
        assert_eq!(hint.as_deref(), expect);
    };
    check(PLAIN, None);
    check(Arm { wall_s: 1.3, cpu_s: 1.04, ..PLAIN }, None);
    check(
        Arm { wall_s: 1.3, switches: 1446, ..PLAIN },
        Some(
            "slower, but no more CPU time per unit of work: it sleeps more (waiting for locks, I/O or a CPU); \
             context switches +44.6%",
        ),
    );
    check(
        Arm { cpu_s: 1.0, switches: 1000, ..PLAIN },
        Some(
            "as fast, but more CPU time per unit of work: it spins or does more where there was idle time; \
             context switches 0.00%",
        ),
    );
    check(
        Arm { wall_s: 0.8, cpu_s: 0.9, switches: 500 },
        Some(
            "faster, but with more CPU time per unit of work: waiting by spinning instead of sleeping; \
             context switches -50.0%",
        ),
    );
    check(
        Arm { cpu_s: 0.6, switches: 0, ..PLAIN },
        Some("as fast, with less CPU time per unit of work: it sleeps where it spun, or does less"),
    );
}

/// Where the raw figure is not decided nothing is as fast, slower or faster.
#[test]
fn what_is_not_decided_has_no_hint() {
    let noisy = |r: &mut Results| {
        for s in r.samples.iter_mut().filter(|s| s.arm == 1) {
            s.value = s.value.map(|v| if s.pair % 2 == 0 { v * 1.3 } else { v / 1.3 });
        }
    };
    let v = judge(PLAIN, Arm { cpu_s: 1.0, ..PLAIN }, noisy);
    assert_eq!((v.outcome.name(), v.hint), ("inconclusive", None));
}

/// A time that a benchmark prints may be of any number of operations: nothing follows from the CPU time of the run.
#[test]
fn a_printed_time_has_no_work_per_cpu_second() {
    let of = |from: Extract| {
        judge(PLAIN, Arm { cpu_s: 1.0, ..PLAIN }, |r| r.header.metric.from = from.clone()).per_cpu.is_some()
    };
    assert!(of(Extract::Wall) && of(Extract::Cpu));
    assert!(!of(Extract::LastNumber) && !of(Extract::Regex("x".into())));
}

#[test]
fn warnings_name_what_weakens_the_answer_and_a_clean_result_has_none() {
    let check = |change: fn(&mut Results), expect: &str| {
        let warnings = judge(PLAIN, PLAIN, change).warnings;
        match expect {
            "" => assert_eq!(warnings, Vec::<String>::new()),
            _ => assert!(warnings.len() == 1 && warnings[0].contains(expect), "{expect}: {warnings:?}"),
        }
    };
    check(|_| {}, "");
    check(|r| r.header.order = Order::Blocked, "the arms ran in blocks: drift");
    check(|r| r.header.order = Order::Unknown, "the order of runs is unknown");
    check(|r| r.samples.retain(|s| s.pair < 4), "only 4 pairs");
    check(|r| r.header.governor = Some("performance".into()), "");
    check(|r| r.header.governor = Some("schedutil".into()), "the frequency governor is schedutil");
    check(
        |r| r.samples.iter_mut().filter(|s| s.arm == 1).for_each(|s| s.frequency_khz = Some(2_400_000)),
        "3.00 GHz after runs of one arm and at 2.40 GHz",
    );
    check(
        |r| r.samples.iter_mut().for_each(|s| s.foreign_s = Some(0.3)),
        "others used 15% of this machine's CPU time",
    );
    check(|r| r.samples.iter_mut().for_each(|s| s.foreign_s = Some(0.08)), "");
    check(|r| r.samples.iter_mut().for_each(|s| s.foreign_s = None), "");
    check(
        |r| r.samples.iter_mut().for_each(|s| s.steal_s = Some(0.05)),
        "gave 3% of the CPU time to others (steal)",
    );
    check(
        |r| r.samples[1].status = Status::Exit(3),
        // A sample with a value and a failure at once cannot come from us; its failure is shown all the same.
        "new: exit status 3",
    );
    check(
        |r| {
            // The second arm drifts against the first: neighbouring differences resemble each other.
            for s in r.samples.iter_mut().filter(|s| s.arm == 1) {
                s.value = s.value.map(|v| v * (1.0 + 0.02 * (s.pair as f64 / PAIRS as f64 - 0.5)));
            }
        },
        "differences of neighbouring pairs are correlated (lag-1 +",
    );
    check(
        |r| {
            for s in r.samples.iter_mut().filter(|s| s.arm == 1 && [0, 1, 6, 7, 11, 15, 16].contains(&s.pair))
            {
                s.value = s.value.map(|v| v * 1.2);
            }
        },
        "new has two modes, around 0.99",
    );
}
