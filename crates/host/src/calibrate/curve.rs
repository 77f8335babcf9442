//! What a processor hides of a line's way: every pattern of operations behind every kind and length of work, with
//! another CPU on the same line and without.

use super::{Word, burst, median};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tussle_sim::{Curve, Pattern};

/// Lengths of work, ns.
const WORK_NS: [f64; 12] = [0.0, 5.0, 10.0, 20.0, 35.0, 50.0, 70.0, 105.0, 140.0, 175.0, 250.0, 350.0];
/// Length of a burst, ns: some thousand operations.
const BURST_NS: f64 = 1_000_000.0;
/// What an operation takes about, ns: only for the length of a burst.
const OPERATION_NS: f64 = 50.0;
/// Bursts of which all but one have to agree, and after how many they do not.
const BURSTS: (usize, usize) = (3, 9);
/// So far from their median, as a share and in ns.
const AGREE: (f64, f64) = (0.1, 4.0);
/// Share of the bursts that may stay unsteady: who comes first when two CPUs hammer a line is chance.
const UNSTEADY_MAX: f64 = 0.1;

/// Kinds of work.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Dependent,
    Independent,
}

/// One setting.
#[derive(Clone, Copy)]
struct Setting {
    pattern: Pattern,
    kind: Kind,
    /// Rounds of work before an operation.
    rounds: u32,
    /// Operations of a burst.
    operations: u64,
    contended: bool,
}

/// Hides a value from the optimiser and leaves it in its register.
#[inline(always)]
fn opaque(x: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        let mut x = x;
        // SAFETY: no instruction at all.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(pure, nomem, nostack, preserves_flags)) };
        x
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    black_box(x)
}

/// One chain: every step waits for the one before it.
#[inline(always)]
fn chain(mut x: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        x = opaque(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    }
    x
}

/// Eight chains that wait for nothing but themselves and begin anew every time.
#[inline(always)]
fn apart(rounds: u32) {
    let mut all = [1u64, 2, 3, 4, 5, 6, 7, 8];
    for _ in 0..rounds {
        all = all.map(|a| opaque(a.wrapping_mul(3)));
    }
    black_box(all);
}

/// The operation on `word`; `own` is a word that nobody else touches. What a chain waits for.
#[inline(always)]
fn operate(pattern: Pattern, word: &AtomicU64, own: &AtomicU64) -> u64 {
    let inner = match pattern {
        Pattern::LockedRmw => Pattern::Rmw,
        Pattern::LockedMutex => Pattern::Mutex,
        Pattern::LockedStore => Pattern::Store,
        Pattern::LockedIncrement => Pattern::Increment,
        Pattern::LockedLoad => Pattern::Load,
        Pattern::LockedLoadChain => Pattern::LoadChain,
        other => return plain(other, word),
    };
    own.fetch_add(1, Ordering::AcqRel);
    let got = plain(inner, word);
    own.fetch_add(1, Ordering::AcqRel);
    got
}

#[inline(always)]
fn plain(pattern: Pattern, word: &AtomicU64) -> u64 {
    let increment = || word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    match pattern {
        Pattern::TwoRmw => {
            word.fetch_add(1, Ordering::AcqRel);
            word.fetch_add(1, Ordering::AcqRel);
        }
        Pattern::Mutex => {
            word.fetch_add(1, Ordering::AcqRel);
            increment();
            word.fetch_add(1, Ordering::AcqRel);
        }
        Pattern::Store => word.store(1, Ordering::Relaxed),
        Pattern::Increment => increment(),
        Pattern::Load => drop(black_box(word.load(Ordering::Relaxed))),
        Pattern::LoadChain => return word.load(Ordering::Relaxed),
        _ => drop(word.fetch_add(1, Ordering::AcqRel)),
    }
    0
}

/// What disturbs: the same, or stores where it is a load.
fn other(pattern: Pattern) -> Pattern {
    match pattern {
        Pattern::Load | Pattern::LoadChain | Pattern::LockedLoad | Pattern::LockedLoadChain => Pattern::Store,
        same => same,
    }
}

#[inline(never)]
fn work_and_operate(s: &Setting, pattern: Pattern, x: u64, words: (&AtomicU64, &AtomicU64)) -> u64 {
    match s.kind {
        Kind::Dependent => {
            let x = chain(x, s.rounds);
            x ^ operate(pattern, words.0, words.1)
        }
        Kind::Independent => {
            apart(s.rounds);
            x ^ operate(pattern, words.0, words.1)
        }
    }
}

/// CPU 0's time of one operation with the work before it, ns; CPU 1 does the other side for as long.
fn timed(s: &Setting) -> f64 {
    let words: [Word; 4] = Default::default();
    let (done, ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let (done, ns, words) = (&done, &ns, &words);
    burst([0, 1], move |i| {
        let word = &words[if s.contended { 0 } else { i }].0;
        let own = &words[2 + i].0;
        let mut x = 1;
        if i == 1 {
            let pattern = other(s.pattern);
            while !done.load(Ordering::Relaxed) {
                x = work_and_operate(s, pattern, x, (word, own));
            }
        } else {
            let start = Instant::now();
            for _ in 0..s.operations {
                x = work_and_operate(s, s.pattern, x, (word, own));
            }
            ns.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            done.store(true, Ordering::Relaxed);
        }
        black_box(x);
    });
    ns.load(Ordering::Relaxed) as f64 / s.operations as f64
}

/// The median of bursts, and whether they agreed.
fn steady(s: &Setting) -> (f64, bool) {
    let mut all = Vec::new();
    while all.len() < BURSTS.1 {
        all.push(timed(s));
        let Some(at) = all.len().checked_sub(BURSTS.0) else { continue };
        let last: &[f64] = &all[at..];
        let middle = median(last.to_vec());
        let bound = (AGREE.0 * middle).max(AGREE.1);
        if last.iter().filter(|x| (**x - middle).abs() <= bound).count() + 1 >= BURSTS.0 {
            return (middle, true);
        }
    }
    (median(all), false)
}

/// ns of one round of a kind of work: the least of a few, as others only add to it.
fn round_ns(kind: Kind) -> f64 {
    const ROUNDS: u32 = 200_000;
    let one = |_| {
        let start = Instant::now();
        match kind {
            Kind::Dependent => drop(black_box(chain(1, ROUNDS))),
            Kind::Independent => apart(ROUNDS),
        }
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    (0..5).map(one).fold(f64::INFINITY, f64::min).max(0.05)
}

/// The table, and how many of its bursts did not settle, of how many; more than a tenth is told in `unsteady`.
pub(super) fn measure(unsteady: &mut Vec<String>) -> (Curve, (usize, usize)) {
    let (mut loose, mut all) = (0, 0);
    let mut column = |pattern, kind, round_ns: f64| {
        let one = |work: &f64| {
            let rounds = (work / round_ns).round() as u32;
            let operations = (BURST_NS / (work + OPERATION_NS)) as u64;
            let both = [true, false].map(|contended| {
                let (ns, settled) = steady(&Setting { pattern, kind, rounds, operations, contended });
                (loose, all) = (loose + usize::from(!settled), all + 1);
                ns
            });
            (both[0] - both[1]).max(0.0)
        };
        WORK_NS.iter().map(one).collect::<Vec<f64>>()
    };
    let mut table = |kind| {
        let round_ns = round_ns(kind);
        let columns = Pattern::ALL.into_iter().map(|p| (p, column(p, kind, round_ns)));
        columns.map(|(p, c)| (p, c.iter().map(|ns| (ns * 10.0).round() / 10.0).collect())).collect()
    };
    let (dependent, independent): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (table(Kind::Dependent), table(Kind::Independent));
    if loose as f64 > UNSTEADY_MAX * all as f64 {
        unsteady.push(format!("{loose} of {all} points of the table of what work hides"));
    }
    (Curve { work_ns: WORK_NS.to_vec(), dependent, independent }, (loose, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_time_that_its_rounds_say() {
        for kind in [Kind::Dependent, Kind::Independent] {
            let ns = round_ns(kind);
            assert!((0.05..1_000.0).contains(&ns), "{ns}");
        }
    }

    #[test]
    fn every_pattern_touches_its_word_and_only_those_between_locked_ones_another() {
        for pattern in Pattern::ALL {
            let (word, own) = (AtomicU64::new(7), AtomicU64::new(0));
            operate(pattern, &word, &own);
            let reads = other(pattern) != pattern;
            assert_eq!(word.load(Ordering::Relaxed) == 7, reads, "{pattern:?}");
            let between = pattern.title().starts_with("between");
            assert_eq!(own.load(Ordering::Relaxed), if between { 2 } else { 0 }, "{pattern:?}");
        }
    }
}
