//! Locks made of atomics that are not one word which goes from free to taken and back (those are in `waits`). Each is
//! told by what only a lock of its kind does, and is dropped when two threads have it at once:
//!
//! - ticket locks: a thread adds to one word (or to the upper half of a word), and polls another one (the lower half)
//!   until it shows what that word was; then it alone changes it, to the next number. A count of threads (of those who
//!   wait, say) may show such a number, too, but comes to another one, or by somebody else;
//! - queue locks (MCS, CLH): a thread exchanges the address of a node of its own into the queue's tail, waits for a
//!   word in its node or in that of the one before to become 0, or something else than 0, and gives the lock on through
//!   the next one's node, its own or the tail. While nobody queues the tail looks like a lock of one word, see `waits`;
//! - sequence locks: a word that writers make odd, and the same thread even again, while somebody polls it. Or nobody
//!   does, but they compare when they make it odd, and do not when they make it even: so nobody counts;
//! - arrays of flags (Anderson's): a thread adds one to a word, waits for a flag of its own, takes it down, and gives
//!   the lock on by putting up another one. A thread that takes a second ticket before it has done so has none.
//!
//! What a thread waits for and has is in its own [`Guard`]; who has a lock is in a slot beside the word's own: that of
//! the byte after it.

use crate::early;
use crate::sections;
use crate::sync::{self, Slot};
use crate::thread::{Entered, now};
use crate::waits::{self, How};
use crate::wire::*;
use core::sync::atomic::Ordering::*;

/// Addresses, as far as locks go: no number that a program counts.
const ADDRESS_MIN: u64 = 1 << 16;
const ADDRESS_MAX: u64 = 1 << 47;
/// Bytes of a node in which its words lie.
const NODE: u64 = 192;
/// Kinds of [`Guard`]s.
const NOTHING: u64 = 0;
const TICKET: u64 = 1;
const QUEUE: u64 = 2;
const SEQUENCE: u64 = 3;
/// A [`QUEUE`] whose threads wait until a word is not 0.
const QUEUE_UP: u64 = 4;
const ARRAY: u64 = 5;
/// What a thread that took a ticket is at when it has taken down the flag at which it looked.
const FLAG_DOWN: u64 = 6;
/// What a thread has left that brought a word from even to odd before anybody polled it.
const WAS_ODD: u64 = 7;
/// It compared, and made a word even as it had made it odd: a count.
const COUNTED: u64 = 8;
/// Bytes in which the flags of a lock lie.
const FLAGS: u64 = 16 << 10;
/// In `Guard::next` of a thread that has just queued: it got through the time before without seeing a 0.
const THROUGH: u64 = 1;

impl Guard {
    /// No lock.
    pub(crate) const NONE: Guard =
        Guard { kind: 0, wait: 0, word: 0, ticket: 0, node: 0, before: 0, next: 0, gave: 0 };
}

/// The value may be an address.
pub fn is_address(value: u64) -> bool {
    (ADDRESS_MIN..ADDRESS_MAX).contains(&value)
}

fn within(addr: u64, node: u64) -> bool {
    node != 0 && (node..node + NODE).contains(&addr)
}

fn is_queue(kind: u64) -> bool {
    kind == QUEUE || kind == QUEUE_UP
}

/// Whether a word's value is what threads of such a queue wait for.
fn lets_go(kind: u64, value: u64) -> bool {
    (value != 0) == (kind == QUEUE_UP)
}

/// The thread, which seemed to have the lock, looks again and again at what it waited for: it still waits, for another
/// value. Once it may do so though it has the lock: under an emulator the value comes a moment late.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn still_waits(t: *mut Live, g: &Guard, addr: u64, value: u64) -> bool {
    const AGAIN: u64 = 2;
    // SAFETY: the caller's promise.
    let again = || unsafe { waits::times_again(t, addr) >= AGAIN };
    is_queue(g.kind) && addr == g.ticket && lets_go(g.kind, value) && again()
}

/// What the thread waits for or has.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn guard<'a>(t: *mut Live) -> &'a mut Guard {
    // SAFETY: only the thread itself uses it.
    unsafe { &mut (*t).guard }
}

/// The calling thread has such a lock, or may have one of flags: what it changes may give it away.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn may_give(t: *mut Live, addr: u64) -> bool {
    // SAFETY: the caller's promise.
    let g = unsafe { guard(t) };
    match g.wait {
        TICKET => addr == g.next || g.kind != NOTHING,
        FLAG_DOWN => addr.abs_diff(g.node) < FLAGS || g.kind != NOTHING,
        _ => g.kind != NOTHING,
    }
}

/// Whether seeing `value` may end a wait, so that [`seen`] is to be told.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn may_begin(t: *mut Live, addr: u64, value: u64) -> bool {
    // SAFETY: the caller's promise.
    let (g, still) = unsafe { (guard(t), still_waits(t, guard(t), addr, value)) };
    match g.wait {
        NOTHING => still || is_next(g, addr, value),
        TICKET => {
            if g.next == 0 && addr != g.word {
                g.next = addr;
            }
            value == g.ticket && addr != g.word
        }
        ARRAY => value == g.ticket && is_flag(g, addr),
        kind if lets_go(kind, value) => within(addr, g.before) || within(addr, g.node),
        kind => {
            if is_queue(kind) && within(addr, g.before) {
                g.ticket = addr;
            }
            false
        }
    }
}

/// To see `value` ends the calling thread's wait for a lock that another one seems to have: where stores are told after
/// they ran, that one has yet to tell how it gave the lock away.
pub fn seems_held(entered: &Entered, addr: u64, value: u64) -> bool {
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let g = unsafe { guard(entered.live()) };
    let word = match g.wait {
        TICKET if value == g.ticket && addr != g.word => addr,
        ARRAY if value == g.ticket && is_flag(g, addr) => g.word,
        kind if is_queue(kind)
            && lets_go(kind, value)
            && (within(addr, g.before) || within(addr, g.node)) =>
        {
            g.word
        }
        _ => return false,
    };
    let holder = sync::known(word + 1).map_or(0, |s| waits::holder(s).load(Relaxed));
    ![0, sync::thread_number(entered)].contains(&holder)
}

/// The thread saw `value`: the end of a wait, or who is the next one of a queue.
pub fn seen(entered: &Entered, addr: u64, value: u64) {
    let t = entered.live();
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let (g, still) = unsafe { (guard(t), still_waits(t, guard(t), addr, value)) };
    match g.wait {
        NOTHING if still => wait_on(entered),
        NOTHING if is_next(g, addr, value) => g.next = value,
        NOTHING => {}
        TICKET if value == g.ticket && addr != g.word && may_be(TICKET, addr) => begin(entered, TICKET, addr),
        ARRAY => {
            g.node = addr;
            begin(entered, ARRAY, g.word)
        }
        kind if is_queue(kind) && lets_go(kind, value) => {
            g.ticket = addr;
            // Who waits in a queue does not wait for its tail.
            waits::no_lock(sync::slot(entered, g.word));
            begin(entered, kind, g.word)
        }
        _ => {}
    }
}

/// The word tells of the next one in the queue.
fn is_next(g: &Guard, addr: u64, value: u64) -> bool {
    is_queue(g.kind) && within(addr, g.node) && is_address(value)
}

/// What the thread took for the end of its wait is what it waits to end.
fn wait_on(entered: &Entered) {
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let (g, me) = (unsafe { guard(entered.live()) }, sync::thread_number(entered));
    let s = slot(entered, g.word);
    sections::given_up(entered, g.word);
    let _ = waits::holder(s).compare_exchange(me, 0, Relaxed, Relaxed);
    waits::releases(s).store(0, Relaxed);
    let kind = if g.kind == QUEUE { QUEUE_UP } else { QUEUE };
    s.second.store(kind, Relaxed);
    (g.kind, g.wait, g.ticket) = (NOTHING, kind, 0);
}

/// Notes that one instruction brought a word of so many bytes from `from` to `to`, which may be the first step to such
/// a lock; true if [`stepped`] is to be told. Without entering the recorder, as [`waits::look`].
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn stepping(t: *mut Live, addr: u64, bytes: u64, (from, to): (u64, u64), how: How) -> bool {
    // SAFETY: the caller's promise.
    let g = unsafe { guard(t) };
    let step = to.wrapping_sub(from);
    if g.kind == ARRAY && addr == g.word {
        return true;
    }
    if g.kind != NOTHING {
        return g.kind == TICKET && is_forgotten(g);
    }
    if core::mem::take(&mut g.gave) == addr {
        let counts = step == 1 && from & 1 == 1 && how == How::Compares && !waits::is_polled(addr);
        if counts {
            (g.wait, g.word) = (COUNTED, addr);
        }
        return counts;
    }
    // From 0 to 1 goes what is a lock of one word, too.
    let compares = || how == How::Compares && from != 0 && may_be(SEQUENCE, addr);
    if step == 1 && from & 1 == 0 && (waits::is_polled(addr) || compares()) {
        *g = Guard { wait: SEQUENCE, word: addr, ticket: to, ..Guard::NONE };
        return true;
    }
    if step == 1
        && from & 1 == 1
        && g.wait == TICKET
        && (g.word, g.ticket.wrapping_add(1)) == (addr, from)
        && waits::is_polled(addr)
    {
        g.wait = WAS_ODD;
        return true;
    }
    if step == 1 || step == 1 << (bytes * 4) {
        let (ticket, serving) = (from >> step.trailing_zeros(), from & (step - 1));
        // SAFETY: the caller's promise.
        let (word, node) = if step == 1 { (addr, unsafe { now(t) }) } else { (0, addr) };
        *g = Guard { wait: TICKET, word, ticket, node, before: served(bytes, step), ..Guard::NONE };
        return if step > 1 { serving == ticket } else { waits::watched(addr) };
    }
    if bytes == 8 && is_address(to) && (from == 0 || is_address(from)) {
        // It looked at the node before, and queues again: what it saw was no reason to wait.
        let through = g.wait == QUEUE && g.word == addr && g.ticket != 0;
        *g = Guard { wait: QUEUE, word: addr, node: to, before: from, ..Guard::NONE };
        g.next = if through { THROUGH } else { 0 };
        return true;
    }
    false
}

/// What [`stepping`] noted is the beginning, or that of a wait.
pub fn stepped(entered: &Entered) {
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let g = unsafe { guard(entered.live()) };
    match g.wait {
        QUEUE if g.before != 0 => {
            let s = slot(entered, g.word);
            if core::mem::take(&mut g.next) == THROUGH {
                s.second.store(QUEUE_UP, Relaxed);
            }
            if s.second.load(Relaxed) == QUEUE_UP {
                g.wait = QUEUE_UP;
            }
            waiting(entered, g.word)
        }
        // When it took the word is in its node.
        WAS_ODD => {
            let (word, since) = (g.word, g.node);
            *g = Guard::NONE;
            early::ends(entered, slot(entered, word), since);
        }
        COUNTED => {
            waits::no_lock_as(slot(entered, g.word), SEQUENCE);
            *g = Guard::NONE;
        }
        TICKET if g.word == 0 => begin(entered, TICKET, g.node),
        TICKET => arrays_ticket(entered, g),
        NOTHING => {
            // Another ticket while it has the lock, or too much else.
            waits::no_lock(slot(entered, g.word));
            *g = Guard::NONE;
        }
        kind => begin(entered, kind, g.word),
    }
}

/// A ticket of a lock that is known to wait at flags.
fn arrays_ticket(entered: &Entered, g: &mut Guard) {
    if let Some(s) = sync::known(g.word + 1)
        && s.kind.load(Relaxed) == ARRAY
    {
        let (flag, go) = (s.free.load(Relaxed), s.second.load(Relaxed));
        *g = Guard { wait: ARRAY, word: g.word, ticket: go, before: flag, ..Guard::NONE };
        waiting(entered, g.word);
    }
}

fn is_flag(g: &Guard, addr: u64) -> bool {
    addr != g.word && addr.abs_diff(g.before) < FLAGS
}

/// A thread that took a ticket stores `to`: it takes down the flag at which it looked, or puts up another one, which is
/// how a lock of flags is given on.
fn learn(entered: &Entered, g: &mut Guard, addr: u64, to: u64) {
    match g.wait {
        TICKET if addr == g.next => {
            // SAFETY: the state is the calling thread's.
            let go = unsafe { waits::last_seen(entered.live(), addr) };
            if let Some(go) = go.filter(|go| *go != to) {
                (g.wait, g.node, g.ticket) = (FLAG_DOWN, addr, go);
            }
        }
        FLAG_DOWN if to == g.ticket && addr != g.node && addr.abs_diff(g.node) < FLAGS => {
            let s = slot(entered, g.word);
            s.free.store(addr, Relaxed);
            if s.kind.swap(ARRAY, Relaxed) != ARRAY {
                s.second.store(to, Relaxed);
                waits::watch(g.word);
            }
            *g = Guard::NONE;
        }
        _ => {}
    }
}

fn slot(entered: &Entered, word: u64) -> &'static Slot {
    sync::slot(entered, word + 1)
}

/// It is not known that the word is none of such a lock.
fn may_be(kind: u64, word: u64) -> bool {
    sync::known(word + 1).is_none_or(|s| waits::may_be_lock_as(s, kind))
}

/// The thread has done something to words again and again, and never passed its turn on: what showed its ticket was a
/// flag, or another number, and what it does meanwhile should not be lost. One that is known to be a lock may be held
/// for so long.
fn is_forgotten(g: &mut Guard) -> bool {
    const STEPS_MAX: u64 = 8;
    g.node += 1;
    g.node > STEPS_MAX && !sync::known(g.word + 1).is_some_and(is_lock)
}

fn is_lock(s: &'static Slot) -> bool {
    waits::is_lock(s)
}

fn waiting(entered: &Entered, word: u64) {
    if is_lock(slot(entered, word)) {
        sync::tried(entered, word);
    }
}

/// The thread has the lock.
fn begin(entered: &Entered, kind: u64, word: u64) {
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let (g, me) = (unsafe { guard(entered.live()) }, sync::thread_number(entered));
    let s = slot(entered, word);
    let was = s.kind.load(Relaxed);
    if was != kind && !(is_queue(was) && is_queue(kind)) {
        if was != NOTHING && is_lock(s) {
            // What looks like another kind of lock is the number of something else.
            *g = Guard::NONE;
            return;
        }
        // What it seemed to be before says nothing of this.
        waits::holder(s).store(0, Relaxed);
        waits::releases(s).store(0, Relaxed);
    }
    (g.kind, g.wait, g.word, g.next) = (kind, NOTHING, word, 0);
    waits::watch(word);
    s.kind.store(kind, Relaxed);
    // Numbers come once and in order; smaller ones are those of another lock, or of none.
    let again = kind == TICKET && is_behind(g.ticket, s.free.load(Relaxed), g.before);
    if kind == TICKET {
        s.second.store(g.before, Relaxed);
        g.node = 0;
    }
    // Who has a lock of flags goes on at the one that the last one put up.
    let stranger = kind == ARRAY && g.node != s.free.load(Relaxed);
    if waits::holder(s).swap(me, AcqRel) != 0 || again || stranger {
        // Somebody has it, or its end was not seen: begin to trust anew.
        waits::releases(s).store(0, Relaxed);
    }
    early::after(entered, s);
    if is_lock(s) {
        early::proven(entered, s, word);
        sync::locked_by_try(entered, word);
    } else {
        // SAFETY: the state is the calling thread's.
        s.a.store(unsafe { now(entered.live()) }, Relaxed);
    }
}

/// The bits of a word that show whose turn it is: those below what a ticket adds, or all.
fn served(bytes: u64, step: u64) -> u64 {
    if step > 1 { step - 1 } else { u64::MAX >> (64 - bytes * 8) }
}

/// A number comes before another one, as far as a word's bits show both.
fn is_behind(number: u64, other: u64, bits: u64) -> bool {
    (number.wrapping_sub(other) & bits) > bits / 2
}

/// The calling thread has changed a word from `from` to `to`. Words that writers make odd and even again, and those
/// that show whose turn it is, are changed by nobody else meanwhile, or are no locks.
pub(crate) fn foreign(entered: &Entered, addr: u64, from: u64, to: u64) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    if unsafe { guard(entered.live()).gave } == addr {
        return;
    }
    let Some(s) = sync::known(addr + 1) else { return };
    let breaks = match s.kind.load(Relaxed) {
        SEQUENCE => from & 1 == 1,
        TICKET => (from ^ to) & s.second.load(Relaxed) != 0,
        _ => false,
    };
    let holder = waits::holder(s).load(Relaxed);
    if breaks && ![0, sync::thread_number(entered)].contains(&holder) {
        waits::no_lock(s);
    }
}

/// The thread is about to change a word to `to`, with an instruction that reads it, too, if `at_once`: whether that
/// gives its lock away.
pub fn changing(entered: &Entered, addr: u64, at_once: bool, to: u64) -> bool {
    // SAFETY: the guard is the calling thread's, and nobody else holds a reference to it.
    let (g, me) = (unsafe { guard(entered.live()) }, sync::thread_number(entered));
    let gives = match g.kind {
        NOTHING => false,
        TICKET => addr == g.word,
        SEQUENCE => addr == g.word && to != g.ticket,
        ARRAY => !at_once && to == g.ticket && addr != g.node && is_flag(g, addr),
        _ => addr == g.word || within(addr, g.node) || within(addr, g.next),
    };
    if !gives {
        if g.kind == NOTHING && !at_once {
            learn(entered, g, addr, to);
        }
        if !at_once
            && let Some(s) = sync::known(addr + 1)
            && s.kind.load(Relaxed) == TICKET
            && ![0, me].contains(&waits::holder(s).load(Relaxed))
        {
            waits::no_lock(s);
        }
        return false;
    }
    let (s, word) = (slot(entered, g.word), g.word);
    if g.kind == ARRAY {
        s.free.store(addr, Relaxed);
    }
    if g.kind == TICKET {
        s.free.store(g.ticket.wrapping_add(1), Relaxed);
        // The word may be another kind of lock's, whose value was by chance that of a count.
        if (to ^ g.ticket.wrapping_add(1)) & g.before != 0 {
            waits::no_lock_as(s, TICKET);
        }
    }
    // Not even again by going up: permits that are given back and taken, say.
    if g.kind == SEQUENCE && (to & 1 == 1 || (at_once && to < g.ticket)) {
        waits::no_lock_as(s, SEQUENCE);
    }
    // What gives a lock away is no step to the next one. A queue's tail may not have been given after all.
    *g = Guard { gave: if at_once && !is_queue(g.kind) { addr } else { 0 }, ..Guard::NONE };
    // As whatever kind of lock it was taken.
    sections::given_up(entered, word);
    if waits::holder(s).load(Relaxed) != me {
        waits::releases(s).store(0, Relaxed);
        return true;
    }
    if is_lock(s) {
        sync::unlocking(entered, word);
    } else {
        early::ends(entered, s, s.a.load(Relaxed));
    }
    waits::holder(s).store(0, Relaxed);
    waits::releases(s).fetch_add(1, Relaxed);
    true
}
