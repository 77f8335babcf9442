//! What each thread of the process is at: at work, or waiting.
//!
//! When a thread changes something that others may wait for while all others wait, all that it did until then comes
//! before all that anybody does from then on, whatever the word is: a barrier's, a semaphore's, a turn's.
//! It is the program that keeps the others waiting, not the scheduler, so that this holds for steps however short
//! ([`STEP_MIN`] keeps those that cost a transfer per few accesses). The moment is a border between phases: see
//! [`border`]. A thread that has work left may be late for reasons of the scheduler: then nothing is known.
//!
//! A waiting thread has done nothing: it looks at one word again and again, or is in a call that waits. One that polls
//! a word between pieces of work does not wait ([`is_idle`]). When the word changes that a thread waits for, it may
//! have been let go, and counts as at work; unless those who wait there mostly wait again after a change, since it was
//! for somebody else.

use crate::arrivals::{self, Arrivals};
use crate::channels;
use crate::idle::*;
use crate::processes::{self, is_key};
use crate::sync;
use crate::thread::{Entered, now, round};
use crate::turns;
use crate::waits;
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Threads of which it is known at the same time; with more, nobody knows what all do.
const THREADS: usize = 128;

/// A step has at least so many accesses. A program that hands a line on more often spends time on that: shorter
/// steps stay in one window, where their hand-offs count.
const STEP_MIN: u64 = WINDOW_VT / 64;

/// Who has done nothing yet after so many changes is late, and may have to do what others do at once.
const NEW_MAX: u64 = 8;

/// Who has waited counts itself out, and in again before it waits once more. More exchanges are work.
const ASIDES_MAX: u64 = 2;

/// Who has sent so often and waited for nothing has work left.
const SENDS_MAX: u64 = 2;

/// At work.
const WORKS: u64 = 0;
/// Waits for what is at an address.
const WAITS: u64 = 1;
/// What it waited for has changed; it has not looked since.
const LET_GO: u64 = 2;
/// It stored to a word, and has done nothing since: until anything else changes, it does not matter whether it waits.
const CHANGED: u64 = 3;
/// The same by a call (a post, a broadcast), and it has waited before: until that changes for which it did.
const POSTED: u64 = 5;
/// It began, created a thread or left a barrier, and has done nothing since; what it will do comes after the latest
/// border.
const NEW: u64 = 4;

/// How something changes.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// A plain store.
    Store,
    /// The same, by who gives back what it took: it waits for nobody's answer.
    Return,
    /// An instruction that reads what it changes.
    Exchange,
    /// A function of libc.
    Call,
}

struct Standing {
    /// Address of the thread's [`Live`], 0 if the place is free.
    live: AtomicU64,
    state: AtomicU64,
    /// Address of what it waits for, waited for, or changed.
    at: AtomicU64,
    /// Its clock when it began to wait, or looked at something after that and had done nothing else.
    vt: AtomicU64,
    /// Its clock when it was let go, or changed something; and the number of that change, or of the latest one then.
    mark: AtomicU64,
    change: AtomicU64,
    /// Where it waited before it went on, 0 once it is known whether that was in vain; and its clock then, with what
    /// was in its table.
    went_on: AtomicU64,
    went_on_vt: AtomicU64,
    /// 1 once it went on though nothing had changed: its looking is work, not waiting.
    looks_only: AtomicU64,
    /// 1 while it waits in a function that returns when it has not to wait any more.
    calls: AtomicU64,
    /// How often it went on and had nothing to do, or had.
    in_vain: AtomicU64,
    with_success: AtomicU64,
    /// Its accesses before it began to wait, or changed something, since the latest border.
    done: AtomicU64,
    /// The signals that it waits for (bit 0 for signal 1).
    signals: AtomicU64,
    /// How often it sent something before it ever waited.
    sent: AtomicU64,
    /// Whose change let it go last: the address of that thread's [`Live`].
    let_go_by: AtomicU64,
    /// How often that thread changed the same again before it went on.
    again: AtomicU64,
    /// Number of the change that it saw when it went on, see `turns`.
    saw: AtomicU64,
    /// Exchanges of other words since it began to wait.
    asides: AtomicU64,
    arrivals: Arrivals,
}

static ALL: [Standing; THREADS] = [const {
    Standing {
        live: AtomicU64::new(0),
        state: AtomicU64::new(0),
        at: AtomicU64::new(0),
        vt: AtomicU64::new(0),
        mark: AtomicU64::new(0),
        change: AtomicU64::new(0),
        went_on: AtomicU64::new(0),
        went_on_vt: AtomicU64::new(0),
        looks_only: AtomicU64::new(0),
        calls: AtomicU64::new(0),
        in_vain: AtomicU64::new(0),
        with_success: AtomicU64::new(0),
        done: AtomicU64::new(0),
        signals: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        let_go_by: AtomicU64::new(0),
        again: AtomicU64::new(0),
        saw: AtomicU64::new(0),
        asides: AtomicU64::new(0),
        arrivals: Arrivals::new(),
    }
}; THREADS];
/// Places ever used.
static PLACES: AtomicU32 = AtomicU32::new(0);
/// Threads that found no place.
static WITHOUT: AtomicU32 = AtomicU32::new(0);
/// Threads that were created and have not begun.
static UNBORN: AtomicU32 = AtomicU32::new(0);
/// Changes of what threads wait for, so far.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// Clock of the latest border: whatever is done now comes after it.
static BORDER: AtomicU64 = AtomicU64::new(0);

impl Standing {
    /// The thread's state, which it may give back at any moment: to be asked once per use. States stay in the mapping.
    fn thread(&self) -> Option<*mut Live> {
        match self.live.load(Acquire) {
            0 => None,
            live => Some(live as *mut Live),
        }
    }
}

fn places() -> &'static [Standing] {
    ALL.get(..PLACES.load(Acquire) as usize).unwrap_or(&ALL)
}

/// # Safety
/// `t` is the calling thread's.
unsafe fn own(t: *mut Live) -> Option<&'static Standing> {
    // SAFETY: the thread's own cell.
    let place = unsafe { (*t).standing };
    ALL.get((place as usize).checked_sub(1)?)
}

/// The state of a thread that has a place.
pub(crate) fn find(wanted: impl Fn(*mut Live) -> bool) -> Option<*mut Live> {
    places().iter().filter_map(Standing::thread).find(|live| wanted(*live))
}

/// A thread begins.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn begin(t: *mut Live) {
    // SAFETY: the thread's own cells.
    unsafe {
        ((*t).standing, (*t).step_vt, (*t).fresh) = (0, now(t), 1);
        for (k, s) in ALL.iter().enumerate() {
            if s.live.compare_exchange(0, t as u64, AcqRel, Relaxed).is_ok() {
                s.vt.store(now(t), Relaxed);
                let counts = [&s.in_vain, &s.with_success, &s.sent, &s.done, &s.again];
                counts.iter().chain(&[&s.at, &s.went_on, &s.looks_only]).for_each(|x| x.store(0, Relaxed));
                s.arrivals.reset();
                (*t).standing = k as u32 + 1;
                // Who was just created has done nothing.
                creates(t);
                PLACES.fetch_max(k as u32 + 1, AcqRel);
                return;
            }
        }
    }
    WITHOUT.fetch_add(1, Relaxed);
}

/// A thread was created, or (`by` -1) has begun, or was not created after all.
pub fn unborn(by: i32) {
    let _ = UNBORN.fetch_update(AcqRel, Relaxed, |n| Some(n.saturating_add_signed(by)));
}

/// The calling thread creates another one, or leaves a barrier.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn creates(t: *mut Live) {
    // SAFETY: the caller's promise.
    if let Some(s) = unsafe { own(t) } {
        s.mark.store(unsafe { now(t) }, Relaxed);
        s.change.store(CHANGES.load(Relaxed), Relaxed);
        s.state.store(NEW, Release);
        // SAFETY: as above.
        unsafe { (*t).fresh = 1 };
    }
}

/// The process has created a thread.
static CREATED: AtomicU32 = AtomicU32::new(0);

/// The calling thread is about to create the first thread beside it: what it did so far comes before all that follows,
/// and is no phase that a change by the new one might end.
///
/// # Safety
/// `t` is the calling thread's, whose table is empty.
pub unsafe fn creates_first(t: *mut Live) {
    if CREATED.swap(1, Relaxed) != 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*t).step_vt = now(t);
        own(t).into_iter().for_each(|s| s.done.store(0, Relaxed));
    }
}

/// The calling thread does something, perhaps the first time.
///
/// # Safety
/// `t` is the calling thread's, whose table is empty if it has done nothing yet.
#[inline(always)]
pub unsafe fn begins(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).fresh != 0 {
            first(t);
        }
    }
}

/// The calling thread begins to do something, after the latest border.
///
/// # Safety
/// `t` is the calling thread's, whose table is empty.
#[cold]
unsafe fn first(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).fresh = 0;
        if let Some(s) = own(t)
            && s.state.compare_exchange(NEW, WORKS, AcqRel, Relaxed).is_ok()
        {
            sync::advance(t, BORDER.load(Acquire));
            s.mark.store(now(t), Relaxed);
        }
    }
}

/// A thread ends.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn end(t: *mut Live) {
    // SAFETY: the caller's promise.
    match unsafe { own(t) } {
        Some(s) => s.live.store(0, Release),
        None => _ = WITHOUT.fetch_sub(1, Relaxed),
    }
}

/// In a forked child: it has one thread.
pub fn reset_after_fork() {
    ALL.iter().for_each(|s| s.live.store(0, Relaxed));
    PLACES.store(0, Relaxed);
    WITHOUT.store(0, Relaxed);
    UNBORN.store(0, Relaxed);
    CREATED.store(0, Relaxed);
}

/// The calling thread waits for what is at an address: it saw the same again.
pub fn waits(entered: &Entered, addr: u64) {
    wait(entered, addr, false, 0);
}

/// The same by a call, so that nobody has to guess.
pub fn waits_in_call(entered: &Entered, addr: u64) {
    wait(entered, addr, true, 0);
}

/// The same for the first of several signals.
pub fn waits_for_signals(entered: &Entered, addr: u64, mask: u64) {
    wait(entered, addr, true, mask);
}

/// The calling thread waits for what nobody of the program sends: it counts as at work.
pub fn waits_for_others(entered: &Entered) {
    // SAFETY: the thread's own state.
    unsafe { own(entered.live()).into_iter().for_each(|s| s.state.store(WORKS, Release)) }
}

/// The calling thread has received something that it did not have to wait for.
pub fn received(entered: &Entered, addr: u64) {
    // SAFETY: the thread's own state.
    if let Some(s) = unsafe { own(entered.live()) } {
        let _ = s.at.compare_exchange(0, addr, Relaxed, Relaxed);
    }
}

/// What some thread waited for last came through a channel.
pub fn is_any_at_channel() -> bool {
    places().iter().any(|s| is_key(s.at.load(Relaxed)))
}

/// A thread waits at an address.
pub fn is_any_at(addr: u64) -> bool {
    places().iter().any(|s| is_at(s, WAITS, addr))
}

/// Where a thread that is meant waits for a signal, or did last.
pub(crate) fn waits_for(signal: u32, meant: &dyn Fn(&ThreadInfo) -> bool) -> Option<u64> {
    let wanted = |s: &&Standing| {
        let waits = is_key(s.at.load(Relaxed)) && s.signals.load(Relaxed) >> (signal - 1) & 1 != 0;
        // SAFETY: states and what describes threads stay in the mapping.
        waits && s.thread().is_some_and(|t| meant(unsafe { &*((*t).info_at as *const ThreadInfo) }))
    };
    let all = || places().iter().filter(wanted);
    let now = all().find(|s| s.state.load(Acquire) == WAITS);
    now.or_else(|| all().next()).map(|s| s.at.load(Relaxed))
}

fn wait(entered: &Entered, addr: u64, calls: bool, signals: u64) {
    // SAFETY: the thread's own state.
    unsafe {
        let t = entered.live();
        (*t).waited = (*t).waited.wrapping_add(1);
        let Some(s) = own(t) else { return };
        s.calls.store(calls as u64, Relaxed);
        s.signals.store(signals, Relaxed);
        s.asides.store(0, Relaxed);
        if s.state.load(Relaxed) == WAITS {
            s.at.store(addr, Relaxed);
            return;
        }
        learn(entered, s, addr);
        s.arrivals.goes_on(|| count_of_many(t), true);
        s.done.fetch_max(done(t), Relaxed);
        s.vt.store(sync::settle(entered), Relaxed);
        s.at.store(addr, Relaxed);
        s.state.store(WAITS, Release);
    }
}

/// What the calling thread waited for has come, or it was woken.
pub fn goes_on(entered: &Entered, addr: u64) {
    // SAFETY: the thread's own clock and state.
    let (t, Some(s)) = (entered.live(), unsafe { own(entered.live()) }) else { return };
    // SAFETY: as above.
    let count_now = unsafe { count(t) };
    let since = count_now.saturating_sub(s.vt.load(Relaxed));
    let waited = s.state.load(Relaxed) == WAITS;
    if waited || (s.state.load(Relaxed) == LET_GO && since <= IDLE_MAX) {
        // To look again and again is no work; what came after that is.
        s.vt.store(count_now, Relaxed);
        // SAFETY: as above.
        unsafe { (*t).step_vt += since };
    }
    // SAFETY: as above.
    if unsafe { now(t) } < BORDER.load(Acquire) {
        sync::join(entered, BORDER.load(Acquire));
    }
    if s.state.load(Relaxed) == WAITS {
        if s.at.load(Relaxed) == addr {
            // Somebody else was thought to be the one who is woken.
            let other = places().iter().find(|o| is_at(o, LET_GO, addr));
            other.inspect(|o| change(o, LET_GO, WAITS));
        }
        s.state.store(LET_GO, Release);
    }
    if s.state.load(Relaxed) == LET_GO {
        // SAFETY: the thread's own state.
        let count = unsafe { count(t) };
        s.mark.store(unsafe { now(t) }, Relaxed);
        if s.went_on.load(Relaxed) == 0 || count > s.went_on_vt.load(Relaxed) + IDLE_MAX {
            s.went_on_vt.store(count, Relaxed);
            s.went_on.store(addr, Relaxed);
            s.saw.store(turns::latest(addr), Relaxed);
        }
    }
}

/// The calling thread, which went on some time ago, waits at an address, or changes what is there: whether it went on
/// in vain. Not if it is for another word, after no work: a lock may have to be taken to look whose turn it is.
fn learn(entered: &Entered, s: &Standing, addr: u64) {
    let from = s.went_on.load(Relaxed);
    if from == 0 {
        return;
    }
    // SAFETY: the thread's own state.
    let done = unsafe { count(entered.live()) }.saturating_sub(s.went_on_vt.load(Relaxed));
    if done > IDLE_MAX {
        s.with_success.fetch_add(1, Relaxed);
    } else if from == addr {
        s.in_vain.fetch_add(1, Relaxed);
    } else {
        return;
    }
    s.went_on.store(0, Relaxed);
}

/// The clock of the calling thread was set forward: it did nothing in that time.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn jumped(t: *mut Live, by: u64) {
    // SAFETY: the caller's promise.
    if let Some(s) = unsafe { own(t) } {
        s.went_on_vt.fetch_add(by, Relaxed);
        s.mark.fetch_add(by, Relaxed);
        s.arrivals.jumped(by);
    }
}

fn is_at(s: &Standing, state: u64, addr: u64) -> bool {
    s.live.load(Relaxed) != 0 && s.state.load(Acquire) == state && s.at.load(Relaxed) == addr
}

fn change(s: &Standing, from: u64, to: u64) {
    let _ = s.state.compare_exchange(from, to, AcqRel, Relaxed);
}

/// All who wait at an address, or would next, may go on. Told before and after the change:
/// who looks in between sees what was there before it.
pub fn let_go(entered: &Entered, addr: u64) {
    let by = entered.live() as u64;
    places().iter().filter(|s| is_at(s, WAITS, addr) || is_at(s, POSTED, addr)).for_each(|s| release(s, by));
}

/// The earliest clock of the threads that wait at an address and have never yet waited and gone on: they are at a gate
/// that opens once, as far as is known.
pub(crate) fn waits_since(addr: u64) -> Option<u64> {
    let first = |s: &&Standing| s.went_on.load(Relaxed) == 0 && s.with_success.load(Relaxed) == 0;
    places().iter().filter(|s| is_at(s, WAITS, addr)).filter(first).map(|s| s.vt.load(Relaxed)).min()
}

/// All who wait at an address go on for certain.
pub fn all_go_on(addr: u64) {
    places().iter().filter(|s| is_at(s, WAITS, addr)).for_each(|s| {
        let Some(live) = s.thread() else { return };
        // SAFETY: states stay in the mapping; a clock is an atomic.
        s.mark.store(unsafe { now(live) }, Relaxed);
        s.change.store(CHANGES.load(Relaxed), Relaxed);
        change(s, WAITS, NEW);
    });
}

fn release(s: &Standing, by: u64) {
    let Some(live) = s.thread() else { return };
    s.let_go_by.store(by, Relaxed);
    s.again.store(0, Relaxed);
    s.change.store(CHANGES.load(Relaxed), Relaxed);
    // SAFETY: states stay in the mapping; a clock is an atomic.
    s.mark.store(unsafe { now(live) }, Relaxed);
    change(s, WAITS, LET_GO);
    change(s, POSTED, LET_GO);
}

/// The calling thread is about to change what is at an address, which lets go all who wait there, or one of them.
/// If that is a border between phases, the clock at which everybody goes on.
pub fn border(entered: &Entered, addr: u64, all: bool, by: By) -> Option<u64> {
    // SAFETY: the thread's own state and clock.
    unsafe {
        let t = entered.live();
        let me = own(t)?;
        went_on_unchanged(t, me);
        let waited = me.went_on.load(Relaxed) == addr;
        let late = is_late(entered, me);
        learn(entered, me, addr);
        let never_waited = is_key(addr) && me.at.load(Relaxed) == 0;
        // Who sends message after message, and has never waited for any, has work left and keeps nobody waiting.
        let eager = never_waited && me.sent.fetch_add(1, Relaxed) >= SENDS_MAX;
        let saw = if waited { me.saw.load(Relaxed) } else { 0 };
        let threads = || places().iter().filter(|s| s.live.load(Relaxed) != 0).count() as u64;
        let turn = by == By::Exchange && turns::changes(addr, saw, threads);
        let by_turn = waited && (turn || matches!(by, By::Store | By::Return));
        let latest = if eager { None } else { others_wait(me, addr, by, by_turn) };
        // Who has never waited is behind nobody: those who get it may have been told by others what these did.
        let latest = latest.map(|latest| if never_waited { 0 } else { latest });
        let own = |s: &&Standing| is_at(s, LET_GO, addr) && s.let_go_by.load(Relaxed) == t as u64;
        places().iter().filter(own).for_each(|s| _ = s.again.fetch_add(1, Relaxed));
        match all {
            true => let_go(entered, addr),
            false => _ = places().iter().find(|s| is_at(s, WAITS, addr)).inspect(|s| release(s, t as u64)),
        }
        me.done.fetch_max(done(t), Relaxed);
        let long = || places().iter().any(|s| s.done.load(Relaxed) >= STEP_MIN);
        let vt =
            latest.filter(|_| !late && long()).map(|latest| round(sync::settle(entered).max(latest) + 1));
        vt.into_iter().for_each(|vt| {
            places().iter().for_each(|s| s.done.store(0, Relaxed));
            BORDER.fetch_max(vt, AcqRel);
            sync::join_holding(entered, vt);
        });
        // Who has just waited leaves, and does not arrive.
        let leaves = [WAITS, LET_GO].contains(&me.state.load(Relaxed));
        let exchanges = by == By::Exchange && !leaves;
        // What counts those who wait, beside that for which they do, says nothing of what they will do.
        let aside = by == By::Exchange && leaves && me.at.load(Relaxed) != addr;
        let idle = aside
            && me.asides.fetch_add(1, Relaxed) < ASIDES_MAX
            && count(t).saturating_sub(me.vt.load(Relaxed)) <= IDLE_MAX;
        me.arrivals.goes_on(|| count_of_many(t), false);
        if exchanges && me.arrivals.are_usual() {
            sync::settle(entered);
        }
        if exchanges {
            me.arrivals.exchanges(count_of_many(t));
        }
        me.vt.store(now(t), Relaxed);
        me.mark.store(if eager { 0 } else { now(t) }, Relaxed);
        me.change.store(CHANGES.fetch_add(1, AcqRel) + 1, Relaxed);
        let state = match by {
            _ if eager => WORKS,
            _ if idle => LET_GO,
            By::Store => CHANGED,
            // It may have taken what it will work with.
            By::Exchange | By::Return => WORKS,
            By::Call => POSTED,
        };
        me.state.store(state, Release);
        vt
    }
}

/// The calling thread was let go, much more came before it went on, and it has hardly worked since: what others did
/// meanwhile they did because it was late, and would do at the same time as what it will do.
///
/// # Safety
/// `me` is the calling thread's.
unsafe fn is_late(entered: &Entered, me: &Standing) -> bool {
    // A queue of elements. What comes once or twice more is a step of threads in turn.
    const MORE_MIN: u64 = 8;
    // SAFETY: the caller's promise. Looks through the thread's table: only where that decides.
    let since = || unsafe { count(entered.live()) }.saturating_sub(me.went_on_vt.load(Relaxed));
    me.went_on.load(Relaxed) != 0 && me.again.load(Relaxed) >= MORE_MIN && since() < STEP_MIN
}

/// Whether all other threads wait, one of them perhaps for what is at the address, and the latest of their clocks when
/// they began to.
fn others_wait(me: &Standing, addr: u64, by: By, by_turn: bool) -> Option<u64> {
    // What threads of other processes do nobody knows.
    if WITHOUT.load(Relaxed) != 0 || processes::slot(addr).is_some() {
        return None;
    }
    // Who has not even begun will come after this, and perhaps for this.
    let (mut latest, mut awaited) = (0, by == By::Call && UNBORN.load(Relaxed) != 0);
    let mine = me.live.load(Relaxed) as *mut Live;
    for s in places().iter().filter(|s| !core::ptr::eq(*s, me)) {
        let Some(live) = s.thread() else { continue };
        let at = s.at.load(Relaxed);
        // SAFETY: states stay in the mapping; a clock is an atomic.
        let clock = unsafe { now(live) };
        let arrives =
            by != By::Exchange && at == addr && s.state.load(Acquire) == WORKS && s.arrivals.are_usual();
        let most =
            if arrives { (arrivals::ACCESSES_MAX, arrivals::LINES_MAX) } else { (IDLE_MAX, IDLE_LINES_MAX) };
        let still = clock <= s.mark.load(Relaxed) + most.0;
        let new = s.change.load(Relaxed) + NEW_MAX >= CHANGES.load(Relaxed);
        let may_wait = match s.state.load(Acquire) {
            WAITS => true,
            // An exchange may count who has arrived or ended: whoever is new is just late then.
            NEW => by != By::Exchange && new,
            _ if !still => false,
            // It has begun, and come to nothing yet.
            WORKS if at == 0 => by == By::Call && new,
            // On its way to wait for this.
            WORKS if arrives => true,
            // Who was let go by the change after which this thread goes on would miss it now: it waits for another one.
            LET_GO if by_turn && at == addr => true,
            // Who let it go by the same word did not have to wait for it.
            LET_GO if at == addr && s.let_go_by.load(Relaxed) == me.live.load(Relaxed) => false,
            // As for who is new: an exchange of another word may count who has ended.
            LET_GO => mostly_in_vain(s, new && (by != By::Exchange || at == addr)),
            POSTED if at != 0 => true,
            CHANGED | POSTED => s.change.load(Relaxed) == CHANGES.load(Relaxed),
            _ => false,
        };
        let looks_only = s.looks_only.load(Relaxed) != 0 && s.calls.load(Relaxed) == 0;
        // Where nobody of this process sends, what comes does so when others want.
        let foreign = is_key(at) && at != addr && !channels::sent(at) && s.state.load(Relaxed) != NEW;
        if !may_wait || looks_only || foreign || !is_idle(live, at, mine, most) {
            return None;
        }
        // Who waits for another word stays there; what the others come to wait for is not known yet.
        awaited |= s.state.load(Relaxed) != WAITS || at == addr || looks_at(live, addr);
        // Who polls goes forward meanwhile, too.
        latest = clock.max(latest);
    }
    Some(latest).filter(|_| awaited)
}

/// Who was let go mostly had nothing to do then; `unknown` is what counts while little is known of that.
fn mostly_in_vain(s: &Standing, unknown: bool) -> bool {
    const FIRST: u64 = 2;
    match (s.with_success.load(Relaxed), s.in_vain.load(Relaxed)) {
        (0, 0) => unknown,
        (success, vain) => success <= 2 * vain + if unknown { FIRST } else { 0 },
    }
}

/// Accesses since the thread's clock was last joined with another one; [`STEP_MIN`] if they are of many lines.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn done(t: *mut Live) -> u64 {
    // SAFETY: the thread's own cells.
    unsafe {
        now(t).saturating_sub((*t).step_vt) + in_table(t, LINES_MAX, &|_| What::All).unwrap_or(STEP_MIN)
    }
}

/// Since its clock was last joined with another one, the calling thread has done more than a transfer is worth.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn has_stepped(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    unsafe { done(t) >= STEP_MIN }
}

/// A counter of the calling thread's table is full: whoever counts so much on a line that it does not poll, or by
/// stores, does not wait.
///
/// # Safety
/// `t` is the calling thread's, `line` that of the counter.
pub unsafe fn counted(t: *mut Live, line: u64, stores: bool) {
    // SAFETY: the thread's own cells.
    unsafe {
        if let Some(s) = own(t)
            && s.state.load(Relaxed) != WORKS
            && (stores || !(polls(t, line) || reads_while_looking(t, s.at.load(Relaxed))))
        {
            went_on_unchanged(t, s);
            s.state.store(WORKS, Release);
        }
    }
}

/// Notes it if the thread, which does something else now, still waited as far as is known. To look a few times at what
/// it saw last is no waiting: who comes to a barrier looks at its phase before the others do.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn went_on_unchanged(t: *mut Live, s: &Standing) {
    const LOOKS_MIN: u64 = 4;
    // SAFETY: the caller's promise.
    let looked = || unsafe { waits::times_again(t, s.at.load(Relaxed)) } >= LOOKS_MIN;
    if s.state.load(Relaxed) == WAITS && looked() {
        s.looks_only.store(1, Relaxed);
    }
}
