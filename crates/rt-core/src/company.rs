//! Whether threads use a line at the same time. Objects go from thread to thread in more ways than the recorder
//! understands (queues, pools, messages), and whoever has one has its bytes for himself.
//!
//! A thread's visit of a line goes on until it gives anything away: it unlocks, sends, or stores in a way that orders
//! what came before. Whatever it hands on it hands on there. It came behind another one's visit if that was over, and
//! the thread has learned so since ([`order`]): then the two take turns, whoever ran when. Else, or when another visit
//! ended meanwhile, they are there at the same time.
//!
//! Where threads order nothing that is seen, windows tell: a thread counts those in which another user of the line
//! ran, and touched it or did not. A window goes on until a counter of the line is full or the visit ends. Who did not
//! run at the same time, on another processor, tells nothing: so threads that share one, or that came late, look no
//! more like taking turns than others. What follows from the counts is decided when the recording is read
//! (`rt/src/shifts.rs`).

use crate::arch::processor;
use crate::arena::{at, reference};
use crate::idle::in_line;
use crate::mem;
use crate::order::Came;
use crate::runs::more;
use crate::thread::{Entered, now};
use crate::wire::*;
use crate::{order, processes, record, sampling, standing};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Visits of a line with fewer accesses are not worth a look.
pub(crate) const VISIT_MIN: u32 = 32;

/// A window that took more than 3/2 of the clock per access of the one before holds a pause: the line may have gone to
/// and fro meanwhile.
const PAUSE: (u64, u64) = (2, 3);

/// After so many visits one in [`SELDOM`] is looked at: what they say is known by then. One in [`HARDLY`], if most of
/// them were too short to say anything.
const ENOUGH: u32 = 1024;
const SELDOM: u32 = 8;
const HARDLY: u32 = 64;

/// Lines of one object that are looked at when it is new, and when it is freed.
const NEW_LINES_MAX: u64 = 4;
const FREED_LINES_MAX: u64 = 16;

/// Lines of which the latest user is known at the same time.
const LINES: usize = 1 << 15;
/// Bits of a thread's index; with more threads some are taken for one.
const INDEX_BITS: u32 = 22;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// The latest thread that counted much on a line: number of the line, and behind it the thread's index.
static USERS: [AtomicU64; LINES] = [const { AtomicU64::new(0) }; LINES];

/// Lines on which objects lie, or lay, whose way is looked at from their birth on; by hash, and for good.
static BORN: [AtomicU8; LINES] = [const { AtomicU8::new(0) }; LINES];

fn born(line: u64) -> &'static AtomicU8 {
    &BORN[mem::hash(line >> 6, LINES.ilog2()) % LINES]
}

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
        let known = (*w).line == line && (*w).company != (*t).nobody;
        if !known && order::watching() && born(line).load(Relaxed) != 0 && order::is_others(t, line) {
            meets(t, line);
        }
        if (*w).line == line {
            visits(t, *w);
        }
    }
}

/// The line is one of an object that another thread watches.
///
/// # Safety
/// As [`comes`].
#[cold]
unsafe fn meets(t: *mut Live, line: u64) {
    // SAFETY: the caller's promise; the line's entry is in use and has a record.
    unsafe {
        let e = (&raw mut (*t).entries[0]).add(record::index(line));
        let c = counts(t, (line, at::<Record>((*e).rec & !RMW_FLAG)));
        if !c.is_null() {
            *watched(t, line) = Watched { line, company: c as u64 };
        }
    }
}

/// The thread has got memory for an object whose way is looked at: what it does with it until it hands it on is a
/// visit, though nobody else was there so far.
///
/// # Safety
/// As [`comes`].
pub(crate) unsafe fn gets(t: *mut Live, base: u64, size: u64) {
    if size == 0 || !order::watching() {
        return;
    }
    // SAFETY: the caller's promise; `take` gives zeroed room, which is the thread's own.
    unsafe {
        if (*t).nobody == 0 {
            (*t).nobody = mem::take(t, size_of::<Company>() as u64);
        }
        if (*t).nobody == 0 {
            return;
        }
        (*((*t).nobody as *mut Company)).visits = 0;
        for line in lines(base, size, NEW_LINES_MAX) {
            born(line).store(1, Relaxed);
            let w = watched(t, line);
            if (*w).line != line {
                *w = Watched { line, company: (*t).nobody };
            }
            visits(t, *w);
        }
    }
}

/// A visit of a watched line begins, or goes on.
///
/// # Safety
/// As [`comes`].
unsafe fn visits(t: *mut Live, w: Watched) {
    // SAFETY: the caller's promise; the count of stays is below STAYS where one is added.
    unsafe {
        let (c, n) = (w.company as *mut Company, (*t).stays_count as usize);
        let goes_on = (0..n).any(|k| (*t).stays[k].line == w.line);
        (*c).visits = (*c).visits.saturating_add(!goes_on as u32);
        if (*c).visits <= ENOUGH {
            (*c).first_turns = (*c).turns;
        }
        if is_known(t, c) {
            return;
        }
        begins(t, c, w.line);
        if goes_on || n == STAYS {
            return;
        }
        ((*c).latest, (*c).length) = (order::latest(w.line), 0);
        (*c).came = order::comes(t, w.line, (*c).latest) as u16;
        (*t).stays[n] = w;
        (*t).stays_count += 1;
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
            ends(t, (*w).company as *mut Company, line, n);
        }
        if latest != me {
            slot(line).store(me, Relaxed);
            if latest >> INDEX_BITS == me >> INDEX_BITS {
                follows(t, (line, r), latest as u32 & INDEX);
            }
        }
        if stays && (*w).line == line {
            visits(t, *w);
        }
    }
}

/// What an atomic operation orders, of what the thread itself does.
#[derive(Clone, Copy)]
pub struct Orders {
    /// What came before it: *release*.
    pub before: bool,
    /// What comes after it: *acquire*.
    pub after: bool,
}

/// The calling thread is about to change a word.
///
/// # Safety
/// `t` is the calling thread's, or that of threads that are not recorded.
#[inline(always)]
pub unsafe fn releases(t: *mut Live, enter: impl FnOnce() -> Option<Entered>, word: u64, orders: Orders) {
    // SAFETY: the caller's promise; inside of the recorder the state is the thread's own.
    unsafe {
        if order::watching()
            && (orders.before || (*t).order.fenced != 0)
            && ((*t).stays_count != 0 || order::has_to_give(t, word))
            && let Some(entered) = enter()
        {
            leaves(t);
            order::gives(entered.live(), word, orders.after || (*t).order.fenced != 0);
        }
    }
}

/// It has looked at a word, or taken what is there.
///
/// # Safety
/// `t` is the calling thread's, or that of threads that are not recorded.
#[inline(always)]
pub unsafe fn acquires(t: *mut Live, enter: impl FnOnce() -> Option<Entered>, word: u64, orders: Orders) {
    // SAFETY: the caller's promise; inside of the recorder the state is the thread's own.
    unsafe {
        if order::watching()
            && (orders.after || (*t).order.fenced != 0)
            && order::is_news(t, word)
            && let Some(entered) = enter()
        {
            order::takes(entered.live(), word);
        }
    }
}

/// The thread is about to give away what it has used so far, at a word or something else with a number.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn gives(t: *mut Live, place: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        leaves(t);
        if order::watching() {
            order::gives(t, place, false);
        }
    }
}

/// It goes on behind whoever gave something away there.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn takes(t: *mut Live, place: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if order::watching() {
            order::takes(t, place);
        }
    }
}

/// A fence: whatever the thread does atomically from now on may order what came before, and what comes after.
///
/// # Safety
/// `t` is the calling thread's, or that of threads that are not recorded.
pub unsafe fn fences(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe { (*t).order.fenced = 1 }
}

/// The program ends: the calling thread's visits do.
pub fn ends_all(entered: &Entered) {
    // SAFETY: the thread is inside the recorder.
    unsafe { leaves(entered.live()) }
}

/// The thread's visits are over.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn leaves(t: *mut Live) {
    // SAFETY: the caller's promise; the index is below ENTRIES, and an entry of that line is in use.
    unsafe {
        let n = core::mem::take(&mut (*t).stays_count) as usize;
        for k in 0..n {
            let Watched { line, company } = (*t).stays[k];
            let i = record::index(line);
            let e = (&raw mut (*t).entries[0]).add(i);
            let c = company as *mut Company;
            if (*e).key & !HIDDEN == line {
                let n = record::empty(t, e, i);
                // More is known already, see [`ends`].
                (*c).length += if n < VISIT_MIN { n } else { 0 };
            }
            left(t, c, line);
        }
    }
}

/// The thread gives these bytes back: its visits there are over, and whoever gets them next is behind all who had them.
///
/// # Safety
/// As [`leaves`].
pub(crate) unsafe fn frees(t: *mut Live, base: u64, size: u64) {
    if size == 0 || !order::watching() {
        return;
    }
    let lines = lines(base, size, FREED_LINES_MAX);
    // SAFETY: the caller's promise; fewer stays are kept than there are.
    unsafe {
        lines.clone().for_each(|line| first(t, line));
        let mut kept = 0;
        for k in 0..(*t).stays_count as usize {
            let stay = (*t).stays[k];
            if lines.clone().any(|line| line == stay.line) {
                left(t, stay.company as *mut Company, stay.line);
            } else {
                (*t).stays[kept] = stay;
                kept += 1;
            }
        }
        (*t).stays_count = kept as u32;
    }
    lines.for_each(order::forget);
}

/// Whoever frees a message may have had it once: its visit was its first one, of which nothing was noted before.
///
/// # Safety
/// As [`leaves`].
unsafe fn first(t: *mut Live, line: u64) {
    // SAFETY: the index is below ENTRIES, and an entry of that line is in use; what is watched has its counts.
    unsafe {
        let (i, was_watched) = (record::index(line), (*watched(t, line)).line == line);
        let e = (&raw mut (*t).entries[0]).add(i);
        let n = if (*e).key & !HIDDEN == line { record::empty(t, e, i) } else { 0 };
        let w = *watched(t, line);
        if was_watched || w.line != line || n < VISIT_MIN {
            return;
        }
        let c = w.company as *mut Company;
        adds(c, order::came(t, line, (*c).before) as u16, (1, n.into()));
    }
}

/// The lines of some bytes, at most so many.
fn lines(base: u64, size: u64, most: u64) -> impl Iterator<Item = u64> + Clone {
    let first = base & !(LINE - 1);
    let count = (base - first).saturating_add(size).div_ceil(LINE).min(most);
    (0..count).map(move |k| first.wrapping_add(k * LINE))
}

/// A visit is over: who came meanwhile was there at the same time. Short ones count together, until somebody else
/// comes: of those who come after every access nothing is known.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder, and `c` its counts of the line.
unsafe fn left(t: *mut Live, c: *mut Company, line: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if !order::watching() {
            return;
        }
        let came = match order::latest(line) {
            same if same == (*c).latest => (*c).came,
            other if order::is_of(other, line) => Came::Beside as u16,
            _ => Came::Unknown as u16,
        };
        order::used(t, line);
        let again = came == Came::Again as u16;
        if !again {
            ((*c).run, (*c).run_came, (*c).counted) = (0, came, 0);
        }
        (*c).run = (*c).run.saturating_add((*c).length);
        let long = (*c).run >= VISIT_MIN && (*c).counted == 0;
        (*c).counted |= long as u16;
        let returns = again && (*c).length >= VISIT_MIN;
        (*c).first_short += (again && !returns && (*c).visits <= ENOUGH) as u32;
        (*c).again = (*c).again.saturating_add(returns as u16);
        if (*c).counted != 0 {
            let accesses = if long { (*c).run } else { (*c).length };
            adds(c, (*c).run_came, ((long && !returns) as u16, accesses.into()));
        }
    }
}

/// So many visits, and accesses in such, began like that.
///
/// # Safety
/// `c` is the calling thread's counts of a line.
unsafe fn adds(c: *mut Company, came: u16, (visits, accesses): (u16, u64)) {
    // SAFETY: the caller's promise.
    unsafe {
        let (count, sum) = match came {
            came if came == Came::Behind as u16 => (&raw mut (*c).in_turn, &raw mut (*c).in_turn_accesses),
            came if came == Came::Beside as u16 => (&raw mut (*c).beside, &raw mut (*c).beside_accesses),
            _ => return,
        };
        *count = (*count).saturating_add(visits);
        *sum = (*sum).saturating_add(accesses);
    }
}

/// Somebody else, who has that index, used the line since the thread did.
///
/// # Safety
/// As [`after`].
unsafe fn follows(t: *mut Live, (line, r): (u64, *mut Record), before: u32) {
    // SAFETY: the caller's promise; `take` gives zeroed room that this record alone refers to.
    unsafe {
        let c = counts(t, (line, r));
        if c.is_null() {
            return;
        }
        (*c).turns = (*c).turns.saturating_add(1);
        if (*c).other == 0 || (*c).before != before {
            // One that has ended comes no more.
            let other = standing::find(|live| index(live) == before).map_or(0, |live| live as u64);
            ((*c).other, (*c).theirs, (*c).before) = (other, 0, before);
        }
        *watched(t, line) = Watched { line, company: c as u64 };
        order::watch();
    }
}

/// The thread's counts of a line, whose record that is; null if there is no room.
///
/// # Safety
/// As [`after`].
unsafe fn counts(t: *mut Live, (line, r): (u64, *mut Record)) -> *mut Company {
    // SAFETY: the caller's promise; `take` gives zeroed room that this record alone refers to.
    unsafe {
        // What threads of other processes do is not seen.
        let m = if processes::slot(line).is_some() { core::ptr::null_mut() } else { more(t, r) };
        if m.is_null() {
            return core::ptr::null_mut();
        }
        if (*m).company == 0 {
            let p = mem::take(t, size_of::<Company>() as u64);
            if p == 0 {
                return core::ptr::null_mut();
            }
            (*m).company = reference(p);
        }
        at((*m).company)
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

/// Enough was seen at a line, but for one visit in many.
///
/// # Safety
/// `t` is the calling thread's, and `c` its counts of the line.
unsafe fn is_known(t: *mut Live, c: *mut Company) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let [alone, met, in_turn, beside] = [(*c).alone, (*c).met, (*c).in_turn, (*c).beside].map(u32::from);
        let (seen, visits) = (alone + met + in_turn + beside, (*c).visits);
        let one_in = match seen >= ENOUGH {
            true => SELDOM,
            _ if visits >= ENOUGH && seen < visits / HARDLY => HARDLY,
            _ => return false,
        };
        (visits ^ (*t).dither).wrapping_mul(record::GOLDEN) >> 16 & (one_in - 1) != 0
    }
}

/// A window begins.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder, and `c` its counts of the line.
unsafe fn begins(t: *mut Live, c: *mut Company, line: u64) {
    // SAFETY: the caller's promise; states and records stay in the mapping.
    unsafe {
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
    }
}

/// A window ends, if there is one, after `n` accesses. Of what another thread does on the same processor, or while this
/// one waits, nothing follows.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder, and `c` its counts of the line.
unsafe fn ends(t: *mut Live, c: *mut Company, line: u64, n: u64) {
    // SAFETY: the caller's promise; states and records stay in the mapping.
    unsafe {
        (*c).length = (*c).length.saturating_add(n as u32);
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
            _ => return,
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
