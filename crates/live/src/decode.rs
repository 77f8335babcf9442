//! Records of perf's rings, as the kernel writes them.

use crate::maps::Mapping;
use crate::registers::SAMPLED;
use tussle_perf::attr::bit;
use tussle_perf::bytes::Bytes;
use tussle_perf::record::{self, Record, kind};
use tussle_perf::{Attr, Sample};

/// Records that perf.data files have, too, but that only matter live (`enum perf_event_type`).
const THROTTLE: u32 = 5;

/// Bit `sample_id_all` of an attribute's flags: records other than samples have their time, too.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// What the events ask the kernel to put into their samples.
pub fn attr() -> Attr {
    Attr {
        sample_type: bit::IP | bit::TID | bit::TIME | bit::REGS_USER,
        sample_regs_user: SAMPLED,
        flags: SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// What the events of precise loads and stores ask for.
pub fn precise_attr() -> Attr {
    Attr {
        sample_type: bit::IP | bit::TID | bit::TIME | bit::ADDR | bit::PERIOD | bit::WEIGHT | bit::DATA_SRC,
        flags: SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// What the events on a whole CPU's kernel code ask for.
pub fn kernel_attr() -> Attr {
    Attr {
        sample_type: bit::IP | bit::TID | bit::TIME | bit::CPU | bit::CALLCHAIN | bit::REGS_INTR,
        sample_regs_intr: SAMPLED,
        flags: SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// An interrupted thread, or one that ran into a watched word.
    Sample(Sample<'a>),
    /// A mapping of a process.
    Mapped(u32, Mapping),
    /// Name of a thread: process, thread, name, and whether the process runs another program now.
    Named(u32, u32, String, bool),
    /// A new thread: process, its parent process, thread, who made it.
    Forked(u32, u32, u32, u32),
    /// A thread has ended: process, thread.
    Ended(u32, u32),
    /// Records that the ring had no room for.
    Lost(u64),
    /// The kernel stopped sampling for a while: too many samples for its own limit.
    Throttled,
    /// Anything else.
    Other,
}

/// The records in these bytes; a cut-off one at the end is left out.
pub fn events<'a>(bytes: &'a [u8], attr: &Attr) -> Vec<Event<'a>> {
    records(bytes).iter().map(|r| event(r, attr).unwrap_or(Event::Other)).collect()
}

fn records(bytes: &[u8]) -> Vec<Record<'_>> {
    let mut out = Vec::new();
    let mut at = 0usize;
    while let Some(head) = bytes.get(at..at + 8) {
        let mut b = Bytes::new(head, false);
        let (Some(kind), Some(misc), Some(size)) = (b.u32(), b.u16(), b.u16()) else { break };
        let size = usize::from(size);
        let Some(payload) = bytes.get(at + 8..at + size).filter(|_| size >= 8) else { break };
        out.push(Record { kind, misc, payload, offset: at as u64 });
        at += size;
    }
    out
}

/// The records of several CPUs' rings in the order of their times, and those from `times.end` on as they are: another
/// ring may still get an earlier one. What is before `times.start` is left out.
pub fn in_order(bytes: &[u8], attr: &Attr, times: std::ops::Range<u64>) -> (Vec<u8>, Vec<u8>) {
    let mut all: Vec<(u64, Record)> = records(bytes).into_iter().map(|r| (time(&r, attr), r)).collect();
    all.sort_by_key(|(time, _)| *time);
    let (mut ready, mut later) = (Vec::new(), Vec::new());
    for (time, r) in all.iter().filter(|(time, _)| *time >= times.start) {
        let out = if *time < times.end { &mut ready } else { &mut later };
        let start = r.offset as usize;
        out.extend_from_slice(&bytes[start..start + 8 + r.payload.len()]);
    }
    (ready, later)
}

/// When it was written; 0 where it does not say.
fn time(r: &Record, attr: &Attr) -> u64 {
    let words = |bits: u64| 8 * (attr.sample_type & bits).count_ones() as usize;
    let at = match r.kind {
        kind::SAMPLE => Some(words(bit::IDENTIFIER | bit::IP | bit::TID)),
        _ if !attr.sample_id_all() => None,
        _ => {
            let behind = words(bit::TIME | bit::ID | bit::STREAM_ID | bit::CPU | bit::IDENTIFIER);
            r.payload.len().checked_sub(behind)
        }
    };
    let word = at.and_then(|at| r.payload.get(at..at + 8)).filter(|_| attr.sample_type & bit::TIME != 0);
    word.and_then(|w| Bytes::new(w, false).u64()).unwrap_or(0)
}

fn event<'a>(r: &Record<'a>, attr: &Attr) -> Option<Event<'a>> {
    let mut b = Bytes::new(r.payload, false);
    Some(match r.kind {
        kind::SAMPLE => Event::Sample(Sample::read(r.payload, attr, false)?),
        kind::MMAP2 => mapped(r)?,
        kind::COMM => {
            let c = record::comm(r, false)?;
            Event::Named(c.pid, c.tid, c.name, c.exec)
        }
        kind::FORK | kind::EXIT => {
            let (pid, parent, tid) = (b.u32()?, b.u32()?, b.u32()?);
            match r.kind {
                kind::FORK => Event::Forked(pid, parent, tid, b.u32()?),
                _ => Event::Ended(pid, tid),
            }
        }
        kind::LOST => {
            b.skip(8)?;
            Event::Lost(b.u64()?)
        }
        kind::LOST_SAMPLES => Event::Lost(b.u64()?),
        THROTTLE => Event::Throttled,
        _ => Event::Other,
    })
}

/// `struct { u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino, ino_generation; u32 prot, flags;
/// char filename[]; }`
fn mapped<'a>(r: &Record<'a>) -> Option<Event<'a>> {
    const SHARED: u32 = 1;
    const EXEC: u32 = 4;
    let mut b = Bytes::new(r.payload, false);
    let pid = b.u32()?;
    b.skip(4)?;
    let (start, len, offset) = (b.u64()?, b.u64()?, b.u64()?);
    let device = u64::from(b.u32()?) << 32 | u64::from(b.u32()?);
    let inode = b.u64()?;
    b.skip(8)?;
    let (protection, flags) = (b.u32()?, b.u32()?);
    let path = b.text_rest();
    // Memory without a file has a name in records, but none in /proc.
    let path = if path == "//anon" { String::new() } else { path };
    let shared = flags & SHARED != 0;
    let (code, barred) = (protection & EXEC != 0, protection == 0);
    let end = start.checked_add(len)?;
    Some(Event::Mapped(pid, Mapping { start, end, offset, device, inode, path, shared, code, barred }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64], tail: &[u8]) -> Vec<u8> {
        let mut payload: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        payload.extend(tail);
        payload.resize(payload.len().next_multiple_of(8), 0);
        let mut out = kind.to_le_bytes().to_vec();
        out.extend(0u16.to_le_bytes());
        out.extend((payload.len() as u16 + 8).to_le_bytes());
        out.extend(payload);
        out
    }

    fn two(low: u32, high: u32) -> u64 {
        u64::from(high) << 32 | u64::from(low)
    }

    #[test]
    fn what_rings_hold_is_taken_in_the_order_of_its_times() {
        let trailer = |time: u64| [two(10, 11), time];
        let sample = |time: u64| {
            let mut words = vec![0x40, two(10, 11), time, 2];
            words.extend(0..SAMPLED.count_ones() as u64);
            record(kind::SAMPLE, &words, &[])
        };
        let other =
            |kind: u32, words: &[u64], time: u64| record(kind, &[words, &trailer(time)].concat(), &[]);
        // One ring behind the other: the fork of the second comes before the sample of the first.
        let mut bytes = sample(30);
        bytes.extend(sample(50));
        bytes.extend(other(kind::FORK, &[two(10, 9), two(11, 9), 20], 20));
        bytes.extend(other(kind::EXIT, &[two(10, 9), two(11, 9), 40], 40));
        bytes.extend(other(kind::LOST, &[1, 5], 10));
        let (ready, later) = in_order(&bytes, &attr(), 15..50);
        let is = |e: &Event| matches!(e, Event::Sample(_));
        let read = events(&ready, &attr());
        assert_eq!(read.iter().map(is).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!((&read[0], &read[2]), (&Event::Forked(10, 9, 11, 9), &Event::Ended(10, 11)));
        assert_eq!(in_order(&later, &attr(), 15..51), (sample(50), Vec::new()));
        let without = Attr { flags: 0, ..attr() };
        let (ready, _) = in_order(&bytes, &without, 0..51);
        assert_eq!(
            events(&ready, &without).iter().map(is).collect::<Vec<_>>(),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn records_of_all_kinds_are_read() {
        let mut bytes = record(kind::FORK, &[two(10, 9), two(11, 9), 77], &[]);
        bytes.extend(record(kind::EXIT, &[two(10, 9), two(11, 9), 78], &[]));
        bytes.extend(record(kind::LOST, &[1, 5], &[]));
        bytes.extend(record(kind::COMM, &[two(10, 11)], b"worker\0"));
        let words = [two(10, 11), 0x1000, 0x2000, 0x3000, two(0xfe, 1), 42, 0, two(5, 2)];
        bytes.extend(record(kind::MMAP2, &words, b"/lib/x.so\0"));
        let mut sample = vec![0x40, two(10, 11), 99, 2];
        sample.extend(0..SAMPLED.count_ones() as u64);
        bytes.extend(record(kind::SAMPLE, &sample, &[]));
        bytes.extend([9, 0, 0, 0, 0, 0, 200, 0]);
        let read = events(&bytes, &attr());
        assert_eq!(read.len(), 6, "the record that is cut off is left out");
        assert_eq!(read[0], Event::Forked(10, 9, 11, 9));
        assert_eq!(read[1], Event::Ended(10, 11));
        assert_eq!(read[2], Event::Lost(5));
        assert_eq!(read[3], Event::Named(10, 11, "worker".into(), false));
        let Event::Mapped(10, m) = &read[4] else { panic!("{:?}", read[4]) };
        assert_eq!((m.start, m.end, m.offset, m.inode, m.code), (0x1000, 0x3000, 0x3000, 42, true));
        let Event::Sample(s) = &read[5] else { panic!("{:?}", read[5]) };
        assert_eq!((s.ip, s.tid, s.time_ns), (Some(0x40), Some(11), Some(99)));
        assert_eq!(s.regs_user.each().count(), 18);
    }
}
