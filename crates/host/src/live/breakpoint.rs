//! Debug registers as perf events: words that are armed once.

use super::event::{Attr, BREAKPOINT, Event, Ring, TIMES, flag};
use std::io;
use std::sync::atomic::AtomicU64;
use tussle_live::confirm::WATCHED_MAX;
use tussle_live::registers::SAMPLED;
use tussle_perf::attr::bit;

/// Armed words, and the ring that their hits are written to.
pub(super) struct Armed {
    pub ring: Ring,
    pub events: Vec<Event>,
}

/// Arms all of them until each is hit, on a thread or a CPU.
pub(super) fn arm(words: impl Iterator<Item = Attr>, thread: u32, cpu: i32) -> io::Result<Armed> {
    let mut events: Vec<Event> = Vec::new();
    let mut ring = None;
    for attr in words {
        let event = Event::open(&attr, thread, cpu)?;
        match events.first() {
            Some(first) => event.write_to(first)?,
            None => ring = Some(Ring::new(&event, 1)?),
        }
        events.push(event);
    }
    let ring = ring.ok_or_else(|| io::Error::other("no word to watch"))?;
    for event in &events {
        event.once()?;
    }
    Ok(Armed { ring, events })
}

/// As many words as can be armed, which nobody touches.
pub(super) fn untouched() -> [Attr; WATCHED_MAX] {
    static WORDS: [AtomicU64; WATCHED_MAX] = [const { AtomicU64::new(0) }; WATCHED_MAX];
    std::array::from_fn(|n| watching(WORDS[n].as_ptr() as u64, true))
}

/// What the samples of hits hold.
const HIT: u64 = bit::IP | bit::TID | bit::TIME | bit::ADDR | bit::READ | bit::REGS_USER;

/// [`watching`] memory of the kernel: what a CPU does with it.
pub(super) fn watching_kernel(address: u64, loads_too: bool) -> Attr {
    let own = watching(address, loads_too);
    Attr {
        sample_type: (HIT & !bit::REGS_USER) | bit::CPU | bit::REGS_INTR,
        sample_regs_user: 0,
        sample_regs_intr: SAMPLED,
        flags: (own.flags & !flag::EXCLUDE_KERNEL) | flag::EXCLUDE_USER,
        ..own
    }
}

/// A debug register on the eight bytes at an address.
pub(super) fn watching(address: u64, loads_too: bool) -> Attr {
    Attr {
        kind: BREAKPOINT,
        sample_period: 1,
        sample_type: HIT,
        sample_regs_user: SAMPLED,
        read_format: TIMES,
        flags: flag::DISABLED | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV | flag::USE_CLOCKID,
        wakeup_events: 1,
        // HW_BREAKPOINT_W, HW_BREAKPOINT_RW
        bp_type: if loads_too { 3 } else { 2 },
        bp_addr: address,
        bp_len: 8,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    }
}
