//! What recordings of small programs with known sharing must say.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, accesses, even, observed, share_of, total_e};

const ONE_CPU: How = How { one_cpu: true, mem_max_bytes: None, no_operations: false };

/// E of all contended lines of a program.
fn e_of(lab: &Lab, name: &str, flags: &[&str], args: &[&str]) -> f64 {
    let exe = lab.build(name, flags);
    let ran = lab.run(&exe, args, How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{name}");
    total_e(&observed(&ran.evidence), true)
}

/// The buggy program has `min..max` expected invalidations, its fixed twin at least `factor` times fewer.
fn check_twins(name: &str, args: &[&str], range: std::ops::Range<f64>, factor: f64) {
    let Some(lab) = Lab::new() else { return };
    let buggy = e_of(&lab, name, &[], args);
    let fixed = e_of(&lab, name, &["-DFIXED"], args);
    assert!(range.contains(&buggy), "{name}: E {buggy}, expected {range:?}");
    assert!(buggy >= factor * fixed, "{name}: E {buggy} against {fixed} when fixed");
}

#[test]
fn a_private_word_is_not_reported() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(e_of(&lab, "private", &[], &["100000"]), 0.0);
}

#[test]
fn two_threads_on_one_line() {
    // Two equal shares of 400,000 accesses, half of them writes: E = 200,000 · 1/2.
    check_twins("line", &["100000"], 99_000.0..101_000.0, 1000.0);
}

#[test]
fn elements_per_thread() {
    check_twins("elements", &["100000"], 310_000.0..325_000.0, 1000.0);
}

#[test]
fn a_lock_beside_data() {
    check_twins("lock", &["50000"], 50_000.0..70_000.0, 1000.0);
}

#[test]
fn counters_side_by_side() {
    // Three threads, RMWs only: E = 300,000 · 2/3.
    check_twins("counters", &["100000"], 198_000.0..202_000.0, 1000.0);
}

/// Threads that nobody joins. One that is created after its creator slept meets none that had ended by then.
#[test]
fn a_thread_for_each_connection_meets_those_of_its_time() {
    let Some(lab) = Lab::new() else { return };
    let stores = |width: f64| 20.0 * 200_000.0 * width;
    for how in ["-DDETACHED", "-DBY_ATTRIBUTE"] {
        let one = e_of(&lab, "connections", &["-DWIDTH=1", how], &[]);
        // On a busy machine a thread may take longer to end.
        assert!(one < 0.15 * stores(1.0), "{how}: one at a time, E {one}");
        // Half of the stores, where a busy machine lets the two run at once: one of three runs must tell.
        let two = (0..3).map(|_| e_of(&lab, "connections", &[how], &[]) / stores(2.0)).fold(0.0, f64::max);
        assert!((0.1..0.6).contains(&two), "{how}: two at a time, E {two} of the stores");
    }
    let awake = e_of(&lab, "connections", &["-DWIDTH=1", "-DAWAKE"], &[]);
    assert!(awake > 0.5 * stores(1.0), "nobody slept between them: E {awake}");
}

#[test]
fn blocked_matrices() {
    check_twins("matrix", &["2"], 10_000.0..1e7, 5.0);
}

#[test]
fn hand_offs_are_not_contention() {
    let Some(lab) = Lab::new() else { return };
    for flags in [&[][..], &["-DCOND"]] {
        let exe = lab.build("barrier", flags);
        let ran = lab.run(&exe, &["5000", "100"], How::default());
        let c = observed(&ran.evidence);
        // Without windows: two threads with equal shares of 500,000 writes each make 250,000.
        assert!(total_e(&c, true) < 2500.0, "{flags:?}: {}", total_e(&c, true));
        // A thousandth of the accesses: what a table entry does not know about times.
        let told = c.lines.iter().map(|l| l.cost.now.stores).fold(0.0, f64::max);
        assert!(told < 2000.0, "{flags:?}: {told} of 2,000,000 accesses");
    }
}

#[test]
fn short_threads_of_many_generations_keep_their_counts() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("threads", &[]);
    for how in [How::default(), ONE_CPU] {
        let ran = lab.run(&exe, &["40", "1000"], how);
        // 40 generations of 8 threads with 1,000 writes each: E = 320,000 · 7/8.
        let e = total_e(&observed(&ran.evidence), true);
        assert!((277_000.0..283_000.0).contains(&e), "E {e}");
        assert_eq!(ran.evidence.actors.len(), 321);
    }
}

#[test]
fn the_same_program_gives_the_same_numbers() {
    let Some(lab) = Lab::new() else { return };
    for (name, args) in [("line", "200000"), ("elements", "100000"), ("counters", "50000"), ("lock", "50000")]
    {
        let exe = lab.build(name, &[]);
        let runs = [How::default(), How::default(), How::default(), ONE_CPU, ONE_CPU];
        let es = runs.map(|how| total_e(&observed(&lab.run(&exe, &[args], how).evidence), false));
        let (low, high) = es.iter().fold((f64::MAX, 0f64), |(l, h), &e| (l.min(e), h.max(e)));
        assert!(low > 0.0 && high <= 1.05 * low, "{name}: {es:?}");
    }
}

#[test]
fn work_queues_agree_at_an_even_split() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("queue", &[]);
    // A busy machine may starve a worker for a whole run, and then there is nothing to split: three tries.
    let spread = |_| {
        let runs = [How::default(), How::default(), ONE_CPU];
        let es = runs.map(|how| total_e(&even(&lab.run(&exe, &["200000"], how).evidence), false));
        let (low, high) = es.iter().fold((f64::MAX, 0f64), |(l, h), &e| (l.min(e), h.max(e)));
        assert!(low > 0.0, "{es:?}");
        high / low
    };
    assert!((0..3).map(spread).any(|s| s <= 1.05), "three runs never agreed within 5%");
}

#[test]
fn other_base_offsets_stay_predictable() {
    let Some(lab) = Lab::new() else { return };
    // Aligned elements do not meet; the rows of all four must be there all the same.
    let exe = lab.build("regression", &[]);
    let ran = lab.run(&exe, &["20000"], How::default());
    assert!(accesses(&ran.evidence) >= 4 * 200_000, "{}", accesses(&ran.evidence));
    assert_eq!(total_e(&observed(&ran.evidence), false), 0.0);
    assert!(e_of(&lab, "regression", &["-DOFFSET=24"], &["20000"]) > 10_000.0);
}

#[test]
fn heap_objects_and_chains_are_told() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("elements", &[]);
    let e = lab.run(&exe, &["50000"], How::default()).evidence;
    let o = e.objects.iter().find(|o| o.kind == tussle_evidence::ObjectKind::Heap).expect("a heap object");
    assert_eq!((o.allocator.as_deref(), o.size, o.align), (Some("aligned_alloc"), 4 * 16 + 256, 64));
    assert!(o.alloc_code.is_some() && o.alloc_actor == Some(0));
    assert!(e.actors[1..].iter().all(|a| a.creator == Some(0) && a.start.is_some()));
    assert!(!e.touches.is_empty() && e.code.iter().any(|c| !c.chain.is_empty()));
    assert!(e.modules.iter().any(|m| m.path == exe.display().to_string()));
}

/// E of `latches MODE`: 160 steps of 2,000 stores by each of four threads, or by one of them in turn.
fn e_of_steps(lab: &Lab, exe: &std::path::Path, mode: &str) -> f64 {
    let ran = lab.run(exe, &[mode], How::default());
    assert_eq!(ran.status, 0, "{mode}");
    total_e(&observed(&ran.evidence), false)
}

#[test]
fn words_counted_down_once_order_steps_however_short() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("latches", &[]);
    // Three of four stores to the line find it elsewhere, where all four have a CPU in turn.
    let together = (0..3).map(|_| e_of_steps(&lab, &exe, "together")).fold(0.0, f64::max);
    assert!((860_000.0..=1_000_000.0).contains(&together), "E {together}");
    // In turns it is one hand-off per step. Where nobody waits yet when a step ends, its successor looks concurrent.
    let turns = (0..3).map(|_| e_of_steps(&lab, &exe, "turns")).fold(f64::MAX, f64::min);
    assert!(turns < together / 100.0, "E {turns} in turns, {together} together");
    // What goes up again is no latch: threads that are let in two at a time do fight.
    // On a busy machine they may be let in one at a time for a whole run, which is a lock: six tries.
    let reused = (0..6).map(|_| e_of_steps(&lab, &exe, "reused")).fold(0.0, f64::max);
    assert!(reused > together / 4.0, "E {reused} by two at a time");
}

/// E of `turns MODE` in steps of 4,000 accesses, as a share of the stores of those who take turns.
fn share_of_turns(lab: &Lab, exe: &std::path::Path, mode: &str) -> f64 {
    share_of(320_000.0, lab, exe, &[mode, "4000"], How::default())
}

/// On a busy machine threads are late for reasons of the scheduler: one of five runs must tell.
#[test]
fn short_turns_are_no_contention_whoever_orders_them() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("turns", &[]);
    // That a number that grows says whose turn it is shows after more turns than there are threads.
    let modes = ["barrier", "dissemination", "turn", "captured", "posix_sem"].map(|mode| (mode, 0.01));
    for (mode, most) in modes.into_iter().chain([("token", 0.05)]) {
        assert!((0..5).any(|_| share_of_turns(&lab, &exe, mode) < most), "{mode}");
    }
}

/// Where other programs have a CPU, one pair may come to its end before the other one begins.
#[test]
fn who_works_at_once_takes_no_turns() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("turns", &[]);
    for mode in ["together", "farm", "posix_farm", "pairs"] {
        assert!((0..25).any(|_| share_of_turns(&lab, &exe, mode) > 0.5), "{mode}");
    }
}

/// Two threads that store 100,000 times each beside each other, whatever one CPU makes of that: where it lets one go on
/// for long, they are seen apart for a while, so that one of three recordings must tell.
#[test]
fn one_cpu_hides_no_fight() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("meanwhile", &[]);
    for (mode, least) in [("ring", 80_000.0), ("sampled", 50_000.0), ("permits", 2_000.0)] {
        for how in [ONE_CPU, How::default()] {
            let e = || {
                let ran = lab.run(&exe, &[mode], how);
                assert_eq!(ran.status, 0, "{mode}");
                total_e(&observed(&ran.evidence), false)
            };
            let seen: Vec<f64> = (0..3).map(|_| e()).collect();
            assert!(seen.iter().any(|e| *e >= least), "{mode}: E {seen:?} of 200,000 stores");
        }
    }
}

/// A word that many have at once is no lock, and sets nobody's clock forward: what they did fits between begin and end.
#[test]
fn what_many_have_at_once_loses_nothing() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("meanwhile", &[]);
    for _ in 0..3 {
        let ran = lab.run(&exe, &["bits"], How::default());
        assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]));
        let of_bits = |a: &&tussle_evidence::Access| a.rmws > 0 && a.actor != 0;
        let counted: u64 = ran.evidence.accesses.iter().filter(of_bits).map(|a| a.rmws).sum();
        assert_eq!(counted, 64 * 2 * 25_000);
        let last = ran.evidence.actors.iter().map(|a| a.vt1).max().unwrap();
        assert!(last < 1 << 40, "a clock of {last}");
    }
}

/// E of what fights on the heap, and how many lives the address with most of them had.
fn e_on_the_heap(lab: &Lab, exe: &std::path::Path, args: &[&str]) -> (f64, usize) {
    let ran = lab.run(exe, args, How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]));
    let is_heap = |o: &u32| ran.evidence.objects[*o as usize].kind == tussle_evidence::ObjectKind::Heap;
    let found = observed(&ran.evidence);
    let e = found.lines.iter().filter(|l| l.objects().iter().any(is_heap)).map(|l| l.ranked_e()).sum();
    (e, ran.stdout.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn memory_that_threads_have_one_after_another_is_not_shared() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("reuse", &[]);
    // One life each, more than are kept apart of a thread, more than are kept apart at all.
    for turns in ["1", "3", "5", "30"] {
        let lives = 4 * turns.parse::<usize>().unwrap();
        for _ in 0..2 {
            assert_eq!(e_on_the_heap(&lab, &exe, &[turns, "500"]), (0.0, lives), "{turns} turns");
        }
    }
}

#[test]
fn memory_that_was_shared_and_is_private_then_keeps_both() {
    let Some(lab) = Lab::new() else { return };
    let (reused, fresh) = (lab.build("reuse", &[]), lab.build("reuse", &["-DFRESH"]));
    // Which of several lives another thread's clock means is known about: one third of the middle one's may be missed.
    for (turns, off) in [("1", 0.01), ("3", 0.25)] {
        let args = [turns, "1000", "1"];
        let (e, same) = e_on_the_heap(&lab, &reused, &args);
        let (want, _) = e_on_the_heap(&lab, &fresh, &args);
        assert_eq!(same, 2 * turns.parse::<usize>().unwrap(), "{turns}: lives at one address");
        assert!(
            want > 0.0 && (e - want).abs() <= off * want,
            "{turns} turns: E {e}, with memory of its own {want}"
        );
    }
}
