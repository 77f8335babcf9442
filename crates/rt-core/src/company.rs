//! Whether threads use a line at the same time. Objects go from thread to thread in more ways than the recorder
//! understands (queues, pools, messages), and whoever has one has its bytes for himself.
//!
//! A thread counts the windows in which another user of the line ran: those in which that one touched the line, and
//! those in which it did not. A window goes on until a counter of the line is full or the line leaves the table.
//! Who did not run at the same time, on another processor, tells nothing: so threads that share one, or that came late,
//! look no more like taking turns than others. What follows from the counts is decided when the recording is read
//! (`rt/src/shifts.rs`).

use crate::arch::processor;
use crate::arena::{at, reference};
use crate::idle::in_line;
use crate::mem;
use crate::runs::more;
use crate::thread::now;
use crate::wire::*;
use crate::{processes, record, sampling, standing};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Visits of a line with fewer accesses are not worth a look.
pub(crate) const VISIT_MIN: u32 = 32;

/// A window that took more than 3/2 of the clock per access of the one before holds a pause: the line may have gone to
/// and fro meanwhile.
const PAUSE: (u64, u64) = (2, 3);

/// After so many windows one in [`SELDOM`] is looked at: what they say is known by then.
const ENOUGH: u16 = 1024;
const SELDOM: u32 = 8;

/// Lines of which the latest user is known at the same time.
const LINES: usize = 1 << 16;
/// Bits of a thread's index; with more threads some are taken for one.
const INDEX_BITS: u32 = 22;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// The latest thread that counted much on a line: number of the line, and behind it the thread's index.
static USERS: [AtomicU64; LINES] = [const { AtomicU64::new(0) }; LINES];

fn slot(line: u64) -> &'static AtomicU64 {
    &USERS[mem::hash(line >> 6, LINES.ilog2()) % LINES]
}

/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn watched(t: *mut Live, line: u64) -> *mut Watched {
    // SAFETY: the index is below WATCHED.
    unsafe { (&raw mut (*t).watched[0]).add((line >> 6 ^ line >> 12) as usize % WATCHED) }
}

/// A line has come into the thread's table.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn comes(t: *mut Live, line: u64) {
    // SAFETY: the caller's promise; what is watched has its counts.
    unsafe {
        let w = watched(t, line);
        if (*w).line == line {
            begins(t, (*w).company as *mut Company, line, true);
        }
    }
}

/// So many accesses of a line were counted, whose record that is: a counter is full, or the line left the table
/// (`stays` false).
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn after(t: *mut Live, (line, r): (u64, *mut Record), n: u64, stays: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let me = (line >> 6) << INDEX_BITS | index(t) as u64;
        let latest = slot(line).load(Relaxed);
        if latest != me || (*watched(t, line)).line == line {
            looks(t, (line, r), n, (me, latest, stays));
        }
    }
}

/// # Safety
/// As [`after`].
#[inline(never)]
unsafe fn looks(t: *mut Live, (line, r): (u64, *mut Record), n: u64, (me, latest, stays): (u64, u64, bool)) {
    // SAFETY: the caller's promise; what is watched has its counts.
    unsafe {
        if (*t).standing == 0 || sampling::sampled() {
            return;
        }
        let w = watched(t, line);
        if (*w).line == line {
            ends(t, (*w).company as *mut Company, line, n, latest != me);
        }
        if latest != me {
            slot(line).store(me, Relaxed);
            if latest >> INDEX_BITS == me >> INDEX_BITS {
                follows(t, (line, r), latest as u32 & INDEX);
            }
        }
        if stays && (*w).line == line {
            begins(t, (*w).company as *mut Company, line, false);
        }
    }
}

/// The thread has taken a lock, or is about to give one back: what it used may be another's from now on, so its visits
/// end here.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn leaves(t: *mut Live) {
    // SAFETY: the caller's promise; the index is below ENTRIES, and an entry of that line is in use.
    unsafe {
        for k in 0..core::mem::take(&mut (*t).stays_count) as usize {
            let line = (*t).stays[k];
            let i = record::index(line);
            let e = (&raw mut (*t).entries[0]).add(i);
            if (*e).key & !HIDDEN == line {
                record::empty(t, e, i);
            }
        }
    }
}

/// Somebody else, who has that index, used the line since the thread did.
///
/// # Safety
/// As [`after`].
unsafe fn follows(t: *mut Live, (line, r): (u64, *mut Record), before: u32) {
    // SAFETY: the caller's promise; `take` gives zeroed room that this record alone refers to.
    unsafe {
        // What threads of other processes do is not seen.
        let m = if processes::slot(line).is_some() { core::ptr::null_mut() } else { more(t, r) };
        if m.is_null() {
            return;
        }
        if (*m).company == 0 {
            let p = mem::take(t, size_of::<Company>() as u64);
            if p == 0 {
                return;
            }
            (*m).company = reference(p);
        }
        let c = at::<Company>((*m).company);
        (*c).turns = (*c).turns.saturating_add(1);
        if (*c).other == 0 || (*c).before != before {
            // One that has ended comes no more.
            let other = standing::find(|live| index(live) == before).map_or(0, |live| live as u64);
            ((*c).other, (*c).theirs, (*c).before) = (other, 0, before);
        }
        let w = watched(t, line);
        ((*w).line, (*w).company) = (line, c as u64);
    }
}

/// A thread's index.
///
/// # Safety
/// `t` is a thread's state.
#[inline(always)]
unsafe fn index(t: *mut Live) -> u32 {
    // SAFETY: states and what describes threads stay in the mapping.
    unsafe { (*((*t).info_at as *const ThreadInfo)).index & INDEX }
}

/// A window begins, as the line `comes` or while it stays.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder, and `c` its counts of the line.
unsafe fn begins(t: *mut Live, c: *mut Company, line: u64, comes: bool) {
    // SAFETY: the caller's promise; states and records stay in the mapping.
    unsafe {
        if (*c).alone.saturating_add((*c).met) >= ENOUGH && (*t).dither >> 16 & (SELDOM - 1) != 0 {
            return;
        }
        let other = (*c).other as *mut Live;
        if other.is_null() {
            return;
        }
        if (*c).theirs == 0 {
            (*c).theirs = mem::record_of_other(other, line);
        }
        let seen = seen(other, (*c).theirs, line);
        ((*c).count, (*c).work, (*c).from) = (seen.count, seen.work, now(t).max(1));
        ((*c).processor, (*c).waited) = (processor() as u16, (*t).waited as u16);
        (*c).came = (comes && (*t).locked != (*c).locked) as u16;
        let n = (*t).stays_count as usize;
        if n < STAYS && (0..n).all(|k| (*t).stays[k] != line) {
            (*t).stays[n] = line;
            (*t).stays_count += 1;
        }
    }
}

/// A window ends, if there is one, after `n` accesses; `turn`: somebody was there since the one before ended. Of what
/// another thread does on the same processor, or while this one waits, nothing follows, but that they come in turn.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder, and `c` its counts of the line.
unsafe fn ends(t: *mut Live, c: *mut Company, line: u64, n: u64, turn: bool) {
    // SAFETY: the caller's promise; states and records stay in the mapping.
    unsafe {
        (*c).locked = (*t).locked;
        let from = core::mem::take(&mut (*c).from);
        if from == 0 || (*c).theirs == 0 {
            return;
        }
        let seen = seen((*c).other as *mut Live, (*c).theirs, line);
        let density = (16 * now(t).saturating_sub(from) / n.max(1)).clamp(1, u16::MAX as u64) as u16;
        let before = core::mem::replace(&mut (*c).density, density) as u64;
        let here = processor() as u16;
        let stayed = here == (*c).processor && (*t).waited as u16 == (*c).waited;
        // Fewer than before: they were written down, and it goes on.
        let touched = seen.count != (*c).count;
        let within = before == 0 || PAUSE.0 * density as u64 <= PAUSE.1 * before;
        let at_once = stayed && here != 0 && seen.processor != 0 && seen.processor != here;
        let again = core::mem::replace(&mut (*c).touched, (touched && within && at_once) as u16) != 0;
        let counter = match touched {
            // Once may be that the line was handed over within the window; who is there at the same time stays.
            true if at_once && within && again => &raw mut (*c).met,
            true if at_once => &raw mut (*c).paused,
            false if at_once && seen.work != (*c).work => &raw mut (*c).alone,
            _ if (*c).came == 0 => return,
            false if turn => &raw mut (*c).in_turn,
            _ => &raw mut (*c).again,
        };
        *counter = (*counter).saturating_add(1);
    }
}

/// What is seen of another thread.
struct Seen {
    /// Its accesses of the line since its run of it began.
    count: u64,
    /// Changes when it accesses anything, mostly; not when its clock is set forward only.
    work: u64,
    /// Where it ran last.
    processor: u16,
}

/// # Safety
/// `other` is a thread's state and `r` the reference of its record of the line, or 0.
unsafe fn seen(other: *mut Live, r: u32, line: u64) -> Seen {
    // SAFETY: the caller's promise; states and what records refer to stay in the mapping.
    unsafe {
        let of = |p: *mut u64| AtomicU64::from_ptr(p).load(Relaxed);
        let (fills, latest) = (of(&raw mut (*other).fills), of(&raw mut (*other).latest));
        let count = in_line(other, line) + if r == 0 { 0 } else { in_record(at(r)) };
        let processor = number(&raw mut (*other).processor) as u16;
        Seen { count, work: fills << 32 | in_line(other, latest) & 0xffff_ffff, processor }
    }
}

/// # Safety
/// `r` is a record.
unsafe fn in_record(r: *mut Record) -> u64 {
    // SAFETY: records have 16 small counts, and refer to 16 and 8 others where that is not 0.
    unsafe {
        let small = (&raw mut (*r).small[0]).cast::<u8>();
        let mut sum: u64 = (0..16).map(|k| AtomicU8::from_ptr(small.add(k)).load(Relaxed) as u64).sum();
        let m = number(&raw mut (*r).more);
        if m != 0 {
            let m = at::<More>(m);
            for (counts, many) in [(number(&raw mut (*m).words), 16), (number(&raw mut (*m).rmw), 8)] {
                let first = at::<u32>(counts);
                let all = (0..if counts == 0 { 0 } else { many }).map(|k| number(first.add(k)) as u64);
                sum += all.sum::<u64>();
            }
        }
        sum
    }
}

/// # Safety
/// `p` is a number in the mapping.
unsafe fn number(p: *mut u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr(p).load(Relaxed) }
}
