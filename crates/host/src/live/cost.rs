//! What a sample and a debug register's hit cost the watched thread, measured on this thread before watching.

use super::arming;
use super::breakpoint::{self, watching};
use super::event::{Attr, CPU_CLOCK, Event, Ring, SOFTWARE, flag, now_ns, thread_ns};
use super::pieces::Done;
use super::pmu::Precise;
use crate::threads::bind_to;
use std::hint::black_box;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use tussle_live::decode;
use tussle_perf::attr::bit;

/// Assumed where it cannot be measured, and the least that is believed: nanoseconds.
const SAMPLE_MIN_NS: u64 = 1_000;
const TRAP_MIN_NS: u64 = 2_000;
const ARMING_MIN_NS: u64 = 2_000;
/// Assumed where it cannot be measured.
const SWITCH_NS: u64 = 2_000;

/// Nanoseconds of the watched thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Of one sample of the clock.
    pub sample_ns: u64,
    /// Of one hit of a debug register.
    pub trap_ns: u64,
    /// Of arming and disarming a word, whether or not something hits.
    pub arming_ns: u64,
    /// Of taking a thread's clock down and setting it up again, each time that the thread sleeps and wakes.
    pub switch_ns: u64,
    /// The same of four armed words.
    pub armed_switch_ns: u64,
}

/// Assumed of a precise event where none came.
const PRECISE_NS: u64 = 5_000;

/// What is to be sampled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    Program,
    Precise(&'a [Precise]),
    Kernel,
}

/// Measures all of them, for a clock of the period that goes with the cost of a sample; takes some tenths of a second.
pub(super) fn measure(of: Of, period_ns: impl Fn(u64) -> u64) -> Cost {
    let trap_ns = trap().unwrap_or(0).max(TRAP_MIN_NS);
    let arming_ns = arming::per_word().unwrap_or(0).max(ARMING_MIN_NS);
    let sample_ns = match of {
        Of::Precise(events) => precise(events).unwrap_or(PRECISE_NS),
        _ => sample(of).unwrap_or(0),
    };
    let sample_ns = sample_ns.max(SAMPLE_MIN_NS);
    let switch_ns = match of {
        // Of several events it is taken to cost as much for each.
        Of::Precise(events) => switch(1_000_000_000) * events.len() as u64,
        Of::Program => switch(period_ns(sample_ns)),
        // Those clocks are of the CPU, whatever it runs.
        Of::Kernel => 0,
    };
    let armed_switch_ns = match of {
        Of::Kernel => 0,
        _ => per_switch(&breakpoint::untouched().map(at_once)).unwrap_or(SWITCH_NS),
    };
    Cost { sample_ns, trap_ns, arming_ns, switch_ns, armed_switch_ns }
}

fn spin() -> u64 {
    let begin = thread_ns();
    let mut sum = 0u64;
    for n in 0..3_000_000u64 {
        sum = black_box(sum.wrapping_add(n));
    }
    thread_ns() - begin
}

/// Memory that a piece of work goes over: as real work does, it takes the caches from the kernel's code in between.
const WORK_BYTES: usize = 1 << 20;
/// Of the clock whose samples are measured. At 20 kHz they cost half as much: what they need stays in the caches.
const MEASURED_PERIOD_NS: u64 = 250_000;

/// The clock is on and off for so long, in turns.
const SAMPLED_TURN_NS: u64 = 5_000_000;
const SAMPLED_TURNS: usize = 64;

/// A program whose work is less even than this loses as much again: its caches are filled anew afterwards. Redis lost
/// 51 µs for each sample where 25 were measured (docs/live.md).
const AFTERWARDS: u64 = 2;

/// The same work with and without a clock of 4 kHz, in turns; what a sample costs on average.
fn sample(of: Of) -> Option<u64> {
    let (layout, flags) = match of {
        Of::Program | Of::Precise(_) => (decode::attr(), flag::EXCLUDE_KERNEL),
        Of::Kernel => (decode::kernel_attr(), flag::EXCLUDE_USER | flag::EXCLUDE_CALLCHAIN_USER),
    };
    let attr = Attr {
        kind: SOFTWARE,
        config: CPU_CLOCK,
        sample_period: MEASURED_PERIOD_NS,
        sample_type: layout.sample_type,
        sample_regs_user: layout.sample_regs_user,
        sample_regs_intr: layout.sample_regs_intr,
        flags: flags | flag::EXCLUDE_HV | flag::DISABLED,
        ..Attr::default()
    };
    let event = Event::open(&attr, 0, -1).ok()?;
    let ring = Ring::new(&event, 16).ok()?;
    let (mut buffer, mut records) = (vec![1u8; WORK_BYTES], Vec::new());
    // In the kernel: it fills memory with zeros.
    let mut zeros = std::fs::File::open("/dev/zero").ok().filter(|_| matches!(of, Of::Kernel));
    let mut piece = || match &mut zeros {
        Some(zeros) => _ = zeros.read(&mut buffer),
        None => black_box(&mut buffer).iter_mut().step_by(8).for_each(|b| *b = b.wrapping_add(1)),
    };
    let mut done = [Done::default(); 2];
    for turn in 0..SAMPLED_TURNS {
        let on = turn % 2 == 1;
        if on { event.enable() } else { event.disable() }.ok()?;
        let until = now_ns() + SAMPLED_TURN_NS;
        while now_ns() < until {
            done[usize::from(on)].add(&mut piece);
        }
        ring.drain(&mut records);
        records.clear();
    }
    let [free, sampled] = done;
    Some(AFTERWARDS * sampled.lost_ns(free)? * MEASURED_PERIOD_NS / sampled.ns.max(1))
}

/// The same work with and without precise events, in turns; the median difference per sample that came.
fn precise(events: &[Precise]) -> Option<u64> {
    const PER_SECOND: u64 = 10_000;
    let (layout, mut found) = (decode::precise_attr(), Vec::new());
    for _ in 0..7 {
        let free = spin();
        let (mut open, mut rings, mut leaders) = (Vec::new(), Vec::new(), Vec::new());
        for e in events {
            let attr = Attr { sample_period: PER_SECOND, flags: e.attr.flags | flag::FREQUENCY, ..e.attr };
            leaders.push(e.leader.as_ref().map(|l| Event::open(l, 0, -1)).transpose().ok()?);
            let leader = leaders.last().and_then(Option::as_ref);
            let event = Event::in_group(&attr, 0, -1, leader).ok()?;
            rings.push(Ring::new(&event, 64).ok()?);
            open.push(event);
        }
        let took = spin().saturating_sub(free);
        let mut bytes = Vec::new();
        rings.iter().for_each(|r| r.drain(&mut bytes));
        let records = decode::events(&bytes, &layout);
        let samples = records.iter().filter(|r| matches!(r, decode::Event::Sample(_))).count() as u64;
        found.extend(took.checked_div(samples));
    }
    found.sort_unstable();
    found.get(found.len() / 2).copied()
}

/// Of a clock with this period. The shorter it is, the more often it is the next thing that the CPU's timer must wait
/// for, and setting that up costs most: 1 µs for 1 s and 12 µs for 2 ms in a virtual machine. The few samples that are
/// taken meanwhile are in it.
pub(super) fn switch(period_ns: u64) -> u64 {
    let attr = Attr { kind: SOFTWARE, config: CPU_CLOCK, sample_period: period_ns, ..Attr::default() };
    let attr = Attr { sample_type: bit::IP, flags: flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV, ..attr };
    per_switch(&[attr]).unwrap_or(SWITCH_NS)
}

/// Two threads on one CPU that wake each other, with and without events on both; the median difference per change.
fn per_switch(events: &[Attr]) -> Option<u64> {
    let mut found: Vec<u64> = Vec::new();
    for _ in 0..5 {
        let free = ping_pong(&[])?;
        found.push(ping_pong(events)?.saturating_sub(free));
    }
    found.sort_unstable();
    Some(found[found.len() / 2])
}

/// CPU time per change between two threads, nanoseconds.
fn ping_pong(events: &[Attr]) -> Option<u64> {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    const TURNS: u64 = 200;
    // SAFETY: cannot fail.
    let cpu = unsafe { libc::sched_getcpu() };
    let bind = || bind_to(usize::try_from(cpu).unwrap_or(0));
    let open = || events.iter().map(|e| Event::open(e, 0, cpu)).collect::<Result<Vec<_>, _>>().ok();
    let (mut ours, mut theirs) = UnixStream::pair().ok()?;
    let (other, own) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            bind();
            let _events = open()?;
            let begin = thread_ns();
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && byte[0] == 0 && theirs.write_all(&byte).is_ok() {}
            Some(thread_ns() - begin)
        });
        let own = scope.spawn(move || {
            bind();
            let _events = open()?;
            let begin = thread_ns();
            let mut byte = [0];
            for _ in 0..TURNS {
                ours.write_all(&byte).and_then(|()| ours.read_exact(&mut byte)).ok()?;
            }
            ours.write_all(&[1]).ok()?;
            Some(thread_ns() - begin)
        });
        let own = own.join().ok().flatten();
        (other.join().ok().flatten(), own)
    });
    Some((other? + own?) / (2 * TURNS))
}

/// Armed from its opening on.
fn at_once(attr: Attr) -> Attr {
    Attr { flags: attr.flags & !flag::DISABLED, ..attr }
}

/// A hit of a register that stays armed.
fn trap() -> Option<u64> {
    static WORD: AtomicU64 = AtomicU64::new(0);
    const HITS: u64 = 100;
    let attr = watching(WORD.as_ptr() as u64, false);
    let event = Event::open(&at_once(attr), 0, -1).ok()?;
    let ring = Ring::new(&event, 8).ok()?;
    let begin = thread_ns();
    for _ in 0..HITS {
        WORD.store(1, Ordering::Relaxed);
    }
    let trap_ns = (thread_ns() - begin) / HITS;
    drop((ring, event));
    Some(trap_ns)
}
