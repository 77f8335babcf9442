//! Waiting without libc: words that one thread polls and another one writes. Barriers, latches, flags and locks made of
//! atomics are such, whatever they are called; with futexes, too: who sleeps looks before and after.
//!
//! A word becomes *watched* when a thread sees the same value in it twice in a row, or changes it and brings it back.
//! All that follows costs only those who use watched words.
//!
//! - A watched word that changes rarely (on average, and since its last change, a quarter window) separates phases like
//!   a barrier, when one who changes it or waits for it has worked for as long since its clock was last set: who
//!   changes it, and everybody who sees the change, go on at the window boundary after the latest of those who wait.
//!   Words that change more often order nothing here: on few CPUs the order would be the scheduler's.
//! - A watched word that one thread changes from one value to something else, and the same thread brings back, time and
//!   again, and nobody else meanwhile, is a lock: what happens between is a critical section. When others change it
//!   meanwhile by as much as the first one, these are readers, who are counted; and so is who adds and subtracts,
//!   whatever is there, also while nobody else does. A bit that others add while one has it says that they wait; it
//!   may stay when the lock is given back. More kinds are in `guards`.

use crate::company;
use crate::early;
use crate::guards;
use crate::latches;
use crate::locks;
use crate::processes::{self, WATCHED};
use crate::readers;
use crate::sections;
use crate::sleepers;
use crate::standing::{self, By};
use crate::sync::{self, Slot, thread_number};
use crate::takes::{brings_back, take_vt};
use crate::thread::{Entered, now, round};
use crate::wire::*;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// One byte per hash of an address: 0, or why such a word is watched.
static TABLE: [AtomicU8; WATCHED] = [const { AtomicU8::new(0) }; WATCHED];

const GIVEN_BACK: u8 = 1;
const POLLED: u8 = 2;
/// Changed by somebody who had worked for long; nobody has waited for it.
const TOLD: u8 = 3;

/// A word that changes again within so much is no border between phases.
const RARE: u64 = WINDOW_VT / 4;
/// Times that a word must have been taken and given back to count as a lock.
pub(crate) const LOCKED_MIN: u64 = 2;

/// What the latest look at a word showed: nothing to compare with, the same value again (or so often), another one. Or
/// the thread has stored to it since: to see that once is no waiting.
const FIRST: u64 = 0;
const AGAIN: u64 = 1;
const OTHER: u64 = u64::MAX;
const STORED: u64 = u64::MAX - 1;

/// Meaning of the ring's cells in slots of words.
const PUBLISHED: usize = 0;
const HOLDER: usize = 1;
const RELEASES: usize = 2;
const NO_LOCK: usize = 3;
const CHANGED: usize = 4;
const CHANGES: usize = 5;
const FIRST_CHANGE: usize = 6;
const TAKEN_TO: usize = 7;

#[inline(always)]
fn cell(addr: u64) -> &'static AtomicU8 {
    if let Some(shared) = processes::watched(addr) {
        return shared;
    }
    // SAFETY: below the table's size.
    unsafe { TABLE.get_unchecked((addr >> 2 ^ addr >> 14) as usize % WATCHED) }
}

/// Somebody polls this word, or one with its hash.
#[inline(always)]
pub fn watched(addr: u64) -> bool {
    [GIVEN_BACK, POLLED].contains(&cell(addr).load(Relaxed))
}

/// Something is known of this very word.
pub fn is_known(addr: u64) -> bool {
    sync::known(addr).is_some()
}

/// The thread has worked for so long that a change of this word may be news to others. A word that it changes all the
/// time is none: a counter of its own, which somebody reads now and then.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn may_tell(t: *mut Live, addr: u64) -> bool {
    // SAFETY: the thread's own cells.
    unsafe {
        let told = last_told(t, addr);
        let is_news = worked(t) && !((*told).addr == addr && now(t) < (*told).vt + RARE);
        if !is_news && (*told).addr == addr {
            (*told).vt = now(t);
        }
        is_news
    }
}

/// The thread's cell for a word of which it told others.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn last_told(t: *mut Live, addr: u64) -> *mut Told {
    // SAFETY: below their number.
    unsafe { (&raw mut (*t).told[0]).add((addr >> 2) as usize % LOOKS) }
}

/// The calling thread is about to change a word that nobody has waited for, after it worked for long: who looks at the
/// word later, for the first time or again, does so after that work. Locks are left out: to take and to give back tells
/// nothing of what lies between two sections. Who adds to 0 posts something, or counts.
pub fn tell(entered: &Entered, addr: u64, (from, to): (Option<u64>, u64), how: How) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let t = entered.live();
        let takes = from == Some(0) && how != How::Counts;
        if takes || brings_back(t, addr, from.is_some(), to) || !may_tell(t, addr) {
            return;
        }
        let vt = sync::new_run(entered);
        *last_told(t, addr) = Told { addr, vt };
        told(entered, addr, vt);
    }
}

/// Who looks at a word from now on, for the first time or again, does so after `vt`.
pub(crate) fn told(entered: &Entered, addr: u64, vt: u64) {
    sync::slot(entered, addr).seq.fetch_max(vt, AcqRel);
    let _ = cell(addr).compare_exchange(0, TOLD, Relaxed, Relaxed);
}

/// Notes that the calling thread saw `value`; true if [`seen`] is to be told. Without entering the recorder: only the
/// thread itself looks at these cells, and a handler in between costs one look.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn look(t: *mut Live, addr: u64, value: u64) -> bool {
    // SAFETY: the thread's own cells, below their number.
    unsafe {
        if crate::arena::forked() {
            return false;
        }
        let l = own(t, addr);
        (*t).looked = addr;
        if (*l).addr != addr {
            (*l).addr = addr;
            (*l).value = value;
            (*l).again = FIRST;
            return cell(addr).load(Relaxed) != 0;
        }
        let same = (*l).value == value;
        if same && (*l).again == STORED {
            (*l).again = FIRST;
            return false;
        }
        (*l).value = value;
        let times = times((*l).again);
        let news = if same { times == 0 } else { cell(addr).load(Relaxed) != 0 };
        (*l).again = if same { times + AGAIN } else { OTHER };
        news
    }
}

/// The same, for a word that nobody is known to have taken or given.
///
/// # Safety
/// As for [`look`].
unsafe fn first_back(t: *mut Live, s: &'static Slot, addr: u64, at_once: bool, to: u64) -> bool {
    // SAFETY: the caller's promise.
    let back = unsafe { brings_back(t, addr, at_once, to) };
    back && holder(s).load(Relaxed) == 0 && releases(s).load(Relaxed) == 0
}

/// Watches a word.
pub(crate) fn watch(addr: u64) {
    let c = cell(addr);
    let _ = c.compare_exchange(0, GIVEN_BACK, Relaxed, Relaxed);
    let _ = c.compare_exchange(TOLD, GIVEN_BACK, Relaxed, Relaxed);
}

/// Somebody waits for this word, or one with its hash.
pub(crate) fn is_polled(addr: u64) -> bool {
    cell(addr).load(Relaxed) == POLLED
}

/// The calling thread saw the same value again, or another one than before.
pub fn seen(entered: &Entered, addr: u64) {
    // SAFETY: the look is one of the thread's own, below LOOKS; what threads share are the slot's atomics.
    unsafe {
        let t = entered.live();
        let s = sync::slot(entered, addr);
        let (again, value) = (times((*own(t, addr)).again) != 0, (*own(t, addr)).value);
        if again {
            company::leaves(t);
            standing::waits(entered, addr);
        } else {
            standing::goes_on(entered, addr);
            if value == 0 {
                latches::zero(entered, addr);
            }
            let vt = ring(s, PUBLISHED).load(Acquire).max(round(s.seq.load(Acquire)));
            if vt > now(t) {
                return sync::join(entered, vt);
            }
            if cell(addr).load(Relaxed) == TOLD {
                return;
            }
        }
        cell(addr).store(POLLED, Relaxed);
        if again {
            if value != 0 {
                latches::waits(entered, addr);
            }
            if is_lock(s) {
                sync::tried(entered, addr);
            }
        }
        if worked(t) && now(t) >= ring(s, CHANGED).load(Relaxed) + RARE {
            s.waited.fetch_max(sync::settle(entered), AcqRel);
        }
    }
}

/// The calling thread gives the CPU away: it waits for the word that it looked at last. What it has changed since it
/// does not wait for: it has what it wanted.
pub fn yielding(entered: &Entered) {
    // SAFETY: `looked` is the thread's own word, and the look one of its own.
    unsafe {
        let addr = (*entered.live()).looked;
        if (*own(entered.live(), addr)).again != STORED {
            asleep_for(entered, addr);
        }
    }
}

/// The calling thread goes to sleep until a word changes at which it has looked.
pub fn asleep_for(entered: &Entered, addr: u64) {
    // SAFETY: the look is one of the thread's own, below LOOKS.
    unsafe {
        if addr != 0 && (*own(entered.live(), addr)).addr == addr && is_unchanged(entered, addr) {
            let l = own(entered.live(), addr);
            (*l).again = times((*l).again).max(AGAIN);
            seen(entered, addr);
        }
    }
}

/// The word is, in its first byte, what the thread saw there last: it does not give the CPU away with news unseen.
///
/// # Safety
/// The thread looked at a word at that address just now.
unsafe fn is_unchanged(entered: &Entered, addr: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { AtomicU8::from_ptr(addr as *mut u8).load(Relaxed) == (*own(entered.live(), addr)).value as u8 }
}

/// Since its clock was last set the thread has worked for so long that a phase may end.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn worked(t: *mut Live) -> bool {
    // SAFETY: the thread's own clock.
    unsafe { now(t) >= (*t).sync_vt + RARE }
}

/// How often the thread has seen the same again at an address, one look after the other.
///
/// # Safety
/// `t` is a thread's; of another one than the calling, the answer may be a moment old.
pub(crate) unsafe fn times_again(t: *mut Live, addr: u64) -> u64 {
    // SAFETY: states stay in the mapping; the owner writes whole words.
    unsafe {
        let l = own(t, addr);
        let of = |cell: *mut u64| AtomicU64::from_ptr(cell).load(Relaxed);
        if of(&raw mut (*l).addr) == addr { times(of(&raw mut (*l).again)) } else { 0 }
    }
}

/// What the thread saw at an address last, if it looked at nothing else there since.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn last_seen(t: *mut Live, addr: u64) -> Option<u64> {
    // SAFETY: the thread's own cells.
    unsafe {
        let l = own(t, addr);
        ((*l).addr == addr).then_some((*l).value)
    }
}

/// How often in a row a look showed the same value again, by what it keeps of that.
#[inline(always)]
fn times(again: u64) -> u64 {
    match again {
        OTHER | STORED => 0,
        n => n,
    }
}

/// The thread's look at a word.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn own(t: *mut Live, addr: u64) -> *mut Look {
    // SAFETY: below their number.
    unsafe { (&raw mut (*t).looks[0]).add((addr >> 2) as usize % LOOKS) }
}

fn ring(s: &'static Slot, k: usize) -> &'static AtomicU64 {
    // SAFETY: below the ring's size.
    unsafe { s.ring.get_unchecked(k) }
}

pub(crate) fn holder(s: &'static Slot) -> &'static AtomicU64 {
    ring(s, HOLDER)
}

/// What the word became when it was taken last.
pub(crate) fn taken_to(s: &'static Slot) -> u64 {
    ring(s, TAKEN_TO).load(Relaxed)
}

pub(crate) fn releases(s: &'static Slot) -> &'static AtomicU64 {
    ring(s, RELEASES)
}

/// The word is no lock; what `guards` knows beside a word, none of the kind that it seemed to be.
pub(crate) fn no_lock(s: &'static Slot) {
    no_lock_as(s, kind_beside(s));
}

/// It is none of this kind.
pub(crate) fn no_lock_as(s: &'static Slot, kind: u64) {
    ring(s, NO_LOCK).fetch_or(1 << (kind % 64), Relaxed);
}

/// What `guards` takes the word for whose neighbour this is; 0 for a word itself.
fn kind_beside(s: &'static Slot) -> u64 {
    if s.addr.load(Relaxed) & 1 == 1 { s.kind.load(Relaxed) } else { 0 }
}

/// The word whose slot this is, or beside which it is.
pub(crate) fn word_of(s: &'static Slot) -> u64 {
    s.addr.load(Relaxed) - (kind_beside(s) != 0) as u64
}

/// It is not known that the word is no lock.
pub(crate) fn may_be_lock(s: &'static Slot) -> bool {
    may_be_lock_as(s, kind_beside(s))
}

/// It is not known that it is none of this kind.
pub(crate) fn may_be_lock_as(s: &'static Slot, kind: u64) -> bool {
    ring(s, NO_LOCK).load(Relaxed) >> (kind % 64) & 1 == 0
}

pub(crate) fn is_lock(s: &'static Slot) -> bool {
    may_be_lock(s) && ring(s, RELEASES).load(Relaxed) >= LOCKED_MIN
}

/// A lock whose word is 0 when it is free: other numbers may be permits of a semaphore.
fn is_plain_lock(s: &'static Slot) -> bool {
    is_lock(s) && s.free.load(Relaxed) == 0
}

/// The calling thread is about to change a watched word to `to`; `from` is what one instruction will find there.
pub fn changing(entered: &Entered, addr: u64, from: Option<u64>, to: u64) {
    // SAFETY: the look is one of the thread's own, below LOOKS; what threads share are the slot's atomics.
    unsafe {
        let t = entered.live();
        let s = sync::slot(entered, addr);
        // What a thread wrote itself is no news to it.
        let l = own(t, addr);
        (*l).addr = addr;
        (*l).value = to;
        (*l).again = STORED;
        if first_back(t, s, addr, from.is_some(), to) {
            s.free.store(to, Relaxed);
            ring(s, TAKEN_TO).store(from.unwrap_or(0), Relaxed);
            early::ends(entered, s, take_vt(t, addr));
        }
        latches::changing(entered, s, from, to);
        let gives = is_free(s, to);
        let gives_back = brings_back(t, addr, from.is_some(), to)
            || (gives && holder(s).load(Relaxed) == thread_number(entered));
        if readers::step(s) != 0 && from.is_none() && gives && readers::came_as_one(s) {
            readers::are_not_counted(s);
        }
        readers::leave_with_others(s, from, to);
        if readers::step(s) != 0 && from == Some(to.wrapping_add(readers::step(s))) {
            if is_lock(s) {
                sections::missed(entered, addr, true);
            }
            sections::releasing(entered, addr);
        }
        if gives {
            release(entered, s, addr, from);
        }
        // Who was let go itself hands on what came before that, to those who wait since then.
        let longest = standing::waits_since(addr).unwrap_or(u64::MAX);
        let by = match from {
            Some(_) => By::Exchange,
            None if gives_back => By::Return,
            None => By::Store,
        };
        if let Some(vt) = standing::border(entered, addr, true, by) {
            ring(s, CHANGED).fetch_max(vt, AcqRel);
            return;
        }
        let taking = from.is_some_and(|from| is_free(s, from)) && may_be_lock(s);
        if taking || is_lock(s) {
            return;
        }
        if cell(addr).load(Relaxed) != POLLED {
            // Who will look is still on the way.
            return from.map_or_else(|| tell(entered, addr, (None, to), How::Sets), |_| ());
        }
        let last = ring(s, CHANGED).fetch_max(now(t), AcqRel);
        let before = ring(s, CHANGES).fetch_add(1, Relaxed);
        if before == 0 {
            ring(s, FIRST_CHANGE).store(longest.min((*t).sync_vt), Relaxed);
        }
        let latest = now(t).max(s.waited.load(Relaxed));
        let since = latest.saturating_sub(ring(s, FIRST_CHANGE).load(Relaxed));
        let waiter_worked = s.waited.load(Relaxed) >= last + RARE;
        let matters = worked(t) || waiter_worked || now(t) >= longest.saturating_add(RARE);
        if !matters || latest < last + RARE || since < RARE.saturating_mul(before + 1) {
            return;
        }
        let vt = round(sync::settle(entered).max(s.waited.load(Acquire)) + 1);
        ring(s, PUBLISHED).fetch_max(vt, AcqRel);
        ring(s, CHANGED).fetch_max(vt, AcqRel);
        sync::join(entered, vt);
    }
}

/// What an instruction does to a word.
#[derive(Clone, Copy, PartialEq)]
pub enum How {
    /// Adds or subtracts, whatever it finds there: who does so may be in with others, as readers are.
    Counts,
    /// Compares and exchanges: it found what it wanted to find.
    Compares,
    /// Anything else.
    Sets,
}

/// The value of a lock's word without the bits that others set there while somebody has it.
pub(crate) fn unmarked(s: &'static Slot, value: u64) -> u64 {
    value & !s.marks.load(Relaxed)
}

/// The lock is free when its word has this value, whether somebody sleeps there or not.
pub(crate) fn is_free(s: &'static Slot, value: u64) -> bool {
    unmarked(s, value) == unmarked(s, s.free.load(Relaxed))
}

/// While another thread has the lock, this one adds a bit to what that one put there: it says that somebody waits, and
/// may stay when the lock is given back.
fn mark(s: &'static Slot, (from, to): (u64, u64), me: u64) {
    let (taken, marks) = (taken_to(s), from ^ to);
    let others = ![0, me].contains(&holder(s).load(Relaxed));
    let adds = to & from == from && marks & (taken | s.free.load(Relaxed)) == 0;
    // Two threads may meet before either has proven it a lock.
    if others && readers::step(s) == 0 && unmarked(s, from) == unmarked(s, taken) && adds {
        s.marks.fetch_or(marks, Relaxed);
    }
}

/// Who is in is counted from 0, or what is left down to 0. Other numbers count who waits, or refers to something.
fn may_take(from: u64, to: u64, how: How) -> bool {
    how != How::Counts || from == 0 || to == 0
}

/// A word of permits that several may have: who takes one compares and exchanges what is left, who gives one back adds.
/// While one is kept for long, what the others do looks like a lock, or, where the first one seen was given back, like
/// one that is had between two sections.
fn is_semaphore(s: &'static Slot, (from, to): (u64, u64), how: How) -> bool {
    let free = s.free.load(Relaxed);
    let counted_in = || taken_to(s) == from && s.by_count.load(Relaxed) != 0;
    match how {
        // Something was left while one was in.
        How::Counts if to == free && (1..to).contains(&from) => true,
        // There is one more than there seemed to be. Larger steps are readers' of a lock with flags beside them.
        How::Counts if from == free => from != 0 && to == from.wrapping_add(1),
        // To come in whatever is there, and to leave only if nothing has changed, is no lock's way.
        How::Compares => to == free && from > to && counted_in(),
        _ => false,
    }
}

/// The calling thread has changed a watched word with one instruction.
pub fn changed(entered: &Entered, addr: u64, (from, to): (u64, u64), how: How) {
    standing::let_go(entered, addr);
    guards::foreign(entered, addr, from, to);
    let s = sync::slot(entered, addr);
    let (me, step) = (thread_number(entered), to.wrapping_sub(from));
    if readers::learned(entered, s, addr, (from, to), how) || !may_be_lock(s) {
        return;
    }
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    let back = unsafe { first_back(entered.live(), s, addr, true, to) };
    if back {
        // It may have been too early for [`changing`], when nobody watched the word.
        s.free.store(to, Relaxed);
        ring(s, TAKEN_TO).store(from, Relaxed);
    }
    if is_semaphore(s, (from, to), how) {
        return no_lock(s);
    }
    if back {
        return;
    }
    // Others may have come in since `changing` looked.
    readers::leave_with_others(s, Some(from), to);
    if readers::was_read(s, (from, to), how) {
        return starts_anew(s, to, from);
    }
    if readers::step(s) != 0 && step == readers::step(s) {
        if is_lock(s) {
            sections::taken(entered, addr, true);
        }
    } else if is_free(s, from) {
        if is_free(s, to) || !may_take(from, to, how) {
            return;
        }
        let _ = s.second.fetch_update(Relaxed, Relaxed, |second| (second != readers::NEVER).then_some(0));
        ring(s, TAKEN_TO).store(to, Relaxed);
        // Nobody has what is free: what this thread seemed to have was none.
        sections::given_up(entered, addr);
        if how != How::Counts {
            early::after(entered, s);
        }
        // SAFETY: the state is the calling thread's, which is inside the recorder.
        let long = unsafe { worked(entered.live()) };
        s.a.store(if long { sync::settle(entered) } else { 0 }, Release);
        holder(s).store(me, Relaxed);
        sleepers::took_again(entered, addr);
        s.by_count.store((how == How::Counts) as u64, Relaxed);
        if is_lock(s) {
            early::proven(entered, s, addr);
        }
        match how {
            _ if !is_lock(s) => {}
            How::Counts => sections::taken(entered, addr, true),
            _ => {
                sync::locked_by_try(entered, addr);
                locks::taken_by_word(entered, addr);
            }
        }
    } else if s.second.load(Relaxed) != readers::NEVER && readers::joined(s, from, step, me) {
        s.second.store(step, Relaxed);
    } else if how != How::Counts {
        mark(s, (from, to), me);
    }
}

/// The word is free with this value and taken with that one, and nobody is known to have it: what was known was wrong.
pub(crate) fn starts_anew(s: &'static Slot, free: u64, taken_to: u64) {
    s.free.store(free, Relaxed);
    ring(s, TAKEN_TO).store(taken_to, Relaxed);
    holder(s).store(0, Relaxed);
    releases(s).store(0, Relaxed);
    ring(s, NO_LOCK).fetch_and(!1, Relaxed);
}

/// The calling thread has looked at the word, and at none since that takes its place.
pub fn has_looked(entered: &Entered, addr: u64) -> bool {
    // SAFETY: the thread's own cells.
    unsafe { last_seen(entered.live(), addr).is_some() }
}

/// Another thread seems to have this lock, which the calling one found free or set free: where stores are told after
/// they ran, the other one's release is still to be told, or it has taken the lock since.
pub fn seems_held(entered: &Entered, addr: u64, free: u64) -> bool {
    let s = sync::slot(entered, addr);
    let others = ![0, thread_number(entered)].contains(&holder(s).load(Relaxed));
    others && is_free(s, free) && readers::step(s) == 0 && may_be_lock(s)
}

/// The calling thread tried in vain to bring a watched word from `wanted` to something else. Who has a lock does not
/// try to take it and go on: a word for which that is the rule keeps nobody from anything (a flag that anybody sets
/// and clears). Now and then it happens to locks, too, of which a part of the changes is not seen.
pub fn in_vain(entered: &Entered, addr: u64, wanted: u64) {
    const IN_VAIN_MIN: u64 = 8;
    let Some(s) = sync::known(addr) else { return };
    let mine = holder(s).load(Relaxed) == thread_number(entered);
    if !mine || !is_free(s, wanted) || readers::step(s) != 0 || !may_be_lock(s) {
        return;
    }
    let times = s.in_vain.fetch_add(1, Relaxed) + 1;
    if times >= IN_VAIN_MIN && times > 2 * releases(s).load(Relaxed) {
        sections::given_up(entered, addr);
        no_lock(s);
    }
}

/// The word is about to be free again: if the calling thread took it, it was a lock.
fn release(entered: &Entered, s: &'static Slot, addr: u64, from: Option<u64>) {
    let holder = ring(s, HOLDER).load(Relaxed);
    if !may_be_lock(s) {
        return;
    }
    if holder == 0 && !sleepers::took_again(entered, addr) {
        if readers::is_last(s, from) {
            releases(s).fetch_add(1, Relaxed);
        // Code that is not instrumented took it: the slow path of a mutex of Rust's library, say.
        } else if is_plain_lock(s) && !from.is_some_and(|from| is_free(s, from)) {
            sections::missed(entered, addr, false);
            releases(s).fetch_add(1, Relaxed);
        }
        return;
    }
    if holder != 0 && holder != thread_number(entered) {
        return given_by_another(entered, s, addr, from);
    }
    if is_lock(s) {
        sections::given_up(entered, addr);
        if s.by_count.load(Relaxed) == 0 {
            sync::unlocking(entered, addr);
        }
    } else {
        // SAFETY: the caller is inside the recorder: the thread's structures are its own.
        early::ends(entered, s, unsafe { take_vt(entered.live(), addr) });
    }
    ring(s, HOLDER).store(0, Relaxed);
    ring(s, RELEASES).fetch_add(1, Relaxed);
}

/// One thread took a word and another one brings it back: the last one of several readers, or who takes what was posted
/// to a semaphore, after the work of who posted it. Then what was held to be taken may be free: a semaphore of one is a
/// lock. More often, without readers ever seen together, it is no lock. But a lock may be handed over now and then to
/// who waits for it, so that nobody waits for ever; the first time early, where the word shows that somebody waits.
fn given_by_another(entered: &Entered, s: &'static Slot, addr: u64, from: Option<u64>) {
    const READERS_UNSEEN_MAX: u64 = 2;
    const OWN_RELEASES_MIN: u64 = 16;
    const HANDED_EARLY_MAX: u64 = 4;
    holder(s).store(0, Relaxed);
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    let took = unsafe { brings_back(entered.live(), addr, from.is_some(), s.free.load(Relaxed)) };
    // It took the word itself, before anybody knew what it is when it is free.
    let early = took && from.is_none() && releases(s).load(Relaxed) == 0;
    if readers::step(s) != 0 || early {
        return;
    }
    let (own, handed) = (releases(s).load(Relaxed), s.c.load(Relaxed));
    if is_plain_lock(s) && own >= OWN_RELEASES_MIN * (handed + 1) {
        s.c.fetch_add(1, Relaxed);
        return sections::missed(entered, addr, false);
    }
    if s.free.load(Relaxed) == 0 && s.marks.load(Relaxed) != 0 && own != 0 && handed < HANDED_EARLY_MAX {
        s.c.fetch_add(1, Relaxed);
        return;
    }
    let taken_to = taken_to(s);
    let as_taken = from.is_some_and(|from| unmarked(s, from) == unmarked(s, taken_to));
    // What is posted goes up; what another one brings up again was one permit of several.
    let free = s.free.load(Relaxed);
    let posted = taken_to > free;
    // Nobody posts by comparing. Readers came in: one was in before the first one that was seen, or a second one.
    let together = free != 0 || ![0, readers::NEVER].contains(&s.second.load(Relaxed));
    if as_taken && posted && together && s.by_count.load(Relaxed) == 0 {
        return s.kind.store(taken_to - free, Relaxed);
    }
    if as_taken && posted && s.c.fetch_add(1, Relaxed) < READERS_UNSEEN_MAX {
        s.free.store(taken_to, Relaxed);
        ring(s, RELEASES).store(0, Relaxed);
        return sync::join(entered, round(s.a.load(Acquire)));
    }
    no_lock(s);
}
