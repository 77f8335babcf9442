//! What arming words costs a thread that runs on another CPU meanwhile: the kernel interrupts that CPU each time that
//! it opens, reads or closes one.

use super::breakpoint;
use super::pieces::Done;
use crate::threads::{bind_to, usable};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Words are armed for so long, and left alone, in turns.
const TURN: Duration = Duration::from_millis(10);
const TURNS: usize = 32;
/// How long each time; the shortest of what is used.
const WINDOW: Duration = Duration::from_micros(500);

/// What the thread and the one that arms tell each other.
#[derive(Default)]
struct State {
    tid: AtomicU32,
    arming: AtomicBool,
    end: AtomicBool,
}

/// Nanoseconds of the thread's time per word; `None` where the kernel refuses, or where there is one CPU only.
pub(super) fn per_word() -> Option<u64> {
    let state = State::default();
    let [here, there, ..] = usable()[..] else { return None };
    let (done, words) = std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            bind_to(there);
            work(&state)
        });
        let arming = scope.spawn(|| {
            bind_to(here);
            let words = arm_in_turns(&state);
            state.end.store(true, Relaxed);
            words
        });
        (working.join().ok(), arming.join().ok().flatten())
    });
    let [free, armed] = done?;
    // Where others run on its CPU, words are armed while the thread does not run: that costs it nothing.
    let ran = armed.ns as f64 / (TURNS / 2) as f64 / TURN.as_nanos() as f64;
    let words = words? as f64 * ran.min(1.0);
    (words >= 1.0).then_some((armed.lost_ns(free)? as f64 / words) as u64)
}

/// Words that were armed.
fn arm_in_turns(state: &State) -> Option<u64> {
    while state.tid.load(Relaxed) == 0 {
        std::thread::sleep(TURN / 10);
    }
    let mut words = 0;
    for turn in 0..TURNS {
        let until = Instant::now() + TURN;
        let arming = turn % 2 == 1;
        state.arming.store(arming, Relaxed);
        while Instant::now() < until {
            match arming {
                true => words += arm(state.tid.load(Relaxed))?,
                false => std::thread::sleep(WINDOW),
            }
        }
    }
    Some(words)
}

/// Words that nobody touches, once.
fn arm(tid: u32) -> Option<u64> {
    let armed = breakpoint::arm(breakpoint::untouched().into_iter(), tid, -1).ok()?;
    std::thread::sleep(WINDOW);
    armed.events.iter().for_each(|e| _ = e.count());
    Some(armed.events.len() as u64)
}

/// Works in pieces until the end; what it did while nothing was armed, and while something was.
fn work(state: &State) -> [Done; 2] {
    let mut done = [Done::default(); 2];
    // SAFETY: takes nothing.
    state.tid.store(unsafe { libc::syscall(libc::SYS_gettid) } as u32, Relaxed);
    while !state.end.load(Relaxed) {
        let (arming, mut piece) = (state.arming.load(Relaxed), Done::default());
        piece.add(|| (0..50_000u64).for_each(|n| _ = black_box(n)));
        if state.arming.load(Relaxed) == arming {
            done[usize::from(arming)].join(piece);
        }
    }
    done
}
