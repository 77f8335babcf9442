//! What threads and processes hand to each other through the kernel: pipes, event counters, pairs of sockets, message
//! queues, System V semaphores, signals. Whoever receives goes on after whoever sent, in two ways:
//!
//! - After work of a quarter window, between processes, too: [`sends`] leaves the clock in the channel's slot.
//! - After steps of any length where all other threads of the process wait (`standing`). A thread counts as waiting
//!   in a channel only if threads of this process send there: what it reads may come from elsewhere, when it will.
//!
//! A channel is one direction between two ends of the same object of the kernel; all processes have one key for it.

use crate::descriptors::{Kind, kind};
use crate::processes::{self, mix, names};
use crate::standing::{self, By};
use crate::sync::{self, Slot};
use crate::thread::{ALIVE, Entered, now, round};
use crate::wire::*;
use crate::{company, lockfree, order, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What names a channel.
#[derive(Clone, Copy)]
pub enum Channel {
    /// What is read from, or written to, a descriptor.
    Descriptor(i32),
    /// A POSIX message queue.
    Queue(i32),
    /// A semaphore of a System V set: to be counted up.
    Semaphore(i32, u16),
    /// The same, to become 0.
    Zero(i32, u16),
    /// Messages of a type in a System V queue; 0 for any.
    Messages(i32, i64),
    /// A signal.
    Signal(To, u32),
}

/// Who gets a signal.
#[derive(Clone, Copy)]
pub enum To {
    /// The thread of this process with this pointer, which may not have begun yet.
    Pointer(u64),
    /// The thread with this number.
    Thread(u32),
    /// Any thread of a process.
    Process(u32),
}

impl To {
    fn number(self) -> u64 {
        match self {
            To::Pointer(pointer) => mix(pointer) ^ u64::from(sys::getpid()),
            To::Thread(id) | To::Process(id) => id.into(),
        }
    }
    /// The calling thread's state is one that this means.
    fn means(self, info: &ThreadInfo) -> bool {
        match self {
            To::Pointer(pointer) => info.tp == pointer,
            To::Thread(id) => info.tid == id,
            To::Process(id) => id == sys::getpid(),
        }
    }
}

const SEMAPHORE: u64 = 1;
const ZERO: u64 = 2;
const MESSAGES: u64 = 3;
const SIGNAL: u64 = 4;
const SIGNALS: u64 = 5;

fn key_of(kind: u64, number: u64, within: u64) -> u64 {
    names(mix(mix(mix(kind) ^ number) ^ within))
}

impl Channel {
    /// `None` for descriptors of files and all else that carries nothing to another thread.
    fn key(self, sends: bool) -> Option<u64> {
        Some(match self {
            Channel::Descriptor(fd) => match kind(fd, sends) {
                Kind::Channel(key) => key,
                _ => return None,
            },
            Channel::Queue(fd) => processes::inode(fd)?,
            Channel::Semaphore(id, number) => key_of(SEMAPHORE, id as u64, number.into()),
            Channel::Zero(id, number) => key_of(ZERO, id as u64, number.into()),
            Channel::Messages(id, kind) => key_of(MESSAGES, id as u64, kind as u64),
            Channel::Signal(to, signal) => key_of(SIGNAL, to.number(), signal.into()),
        })
    }
}

const KNOWN: usize = 512;
const PROBES: usize = 8;

/// Keys of channels that threads of this process have used in one way.
struct Used([AtomicU64; KNOWN]);

impl Used {
    const fn new() -> Used {
        Used([const { AtomicU64::new(0) }; KNOWN])
    }
    fn cell(&self, key: u64, k: usize) -> &AtomicU64 {
        // SAFETY: below their number.
        unsafe { self.0.get_unchecked((key as usize).wrapping_add(k) % KNOWN) }
    }
    fn has(&self, key: u64) -> bool {
        (0..PROBES).any(|k| self.cell(key, k).load(Acquire) == key)
    }
    fn add(&self, key: u64) {
        lockfree::claim(PROBES, |k| self.cell(key, k), key);
    }
}

static SENT: Used = Used::new();
static AWAITED: Used = Used::new();
/// Something was told through a channel.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// In a forked child: its threads have sent nothing yet.
pub(crate) fn reset_after_fork() {
    SENT.0.iter().chain(&AWAITED.0).for_each(|c| c.store(0, Relaxed));
}

/// Who waits there waits for a thread of this process.
pub(crate) fn sent(key: u64) -> bool {
    SENT.has(key)
}

fn slot(entered: &Entered, key: u64) -> &'static Slot {
    processes::slot_of(key).unwrap_or_else(|| sync::own_slot(entered, key))
}

/// Whether the calling thread has to say before it waits what it waits for: there are others.
pub fn may_wait() -> bool {
    ALIVE.load(Relaxed) > 1
}

/// The calling thread is about to wait for what comes through a channel: its key for [`goes_on`], 0 if it is none.
pub fn waits(entered: &Entered, channel: Channel) -> u64 {
    channel.key(false).map_or(0, |key| wait(entered, key))
}

fn wait(entered: &Entered, key: u64) -> u64 {
    AWAITED.add(key);
    standing::waits_in_call(entered, key);
    key
}

/// The same at a descriptor that may be one of signals, if there is nothing to read and reading waits.
pub fn waits_at(entered: &Entered, fd: i32) -> u64 {
    const F_GETFL: usize = 3;
    const O_NONBLOCK: isize = 0o4000;
    if sys::readable(fd) {
        return 0;
    }
    // SAFETY: a system call without pointers.
    let flags = unsafe { sys::call3(sys::SYS_fcntl, fd as usize, F_GETFL, 0) };
    if flags < 0 || flags & O_NONBLOCK != 0 {
        return 0;
    }
    match kind(fd, false) {
        Kind::Channel(key) => wait(entered, key),
        Kind::Signals(mask) => waits_for_signals(entered, mask),
        Kind::Other => {
            standing::waits_for_others(entered);
            0
        }
    }
}

/// The same at a message queue.
pub fn waits_at_queue(entered: &Entered, fd: i32) -> u64 {
    if sys::readable(fd) { 0 } else { waits(entered, Channel::Queue(fd)) }
}

/// The calling thread waits for one of these signals (bit 0 for signal 1), if none has come yet.
pub fn waits_for_signals(entered: &Entered, mask: u64) -> u64 {
    if sys::pending() & mask != 0 {
        return 0;
    }
    let key = key_of(SIGNALS, sys::gettid().into(), 0);
    AWAITED.add(key);
    standing::waits_for_signals(entered, key, mask);
    key
}

/// It goes on: something came.
pub fn goes_on(entered: &Entered, key: u64) {
    if key != 0 {
        standing::goes_on(entered, key);
    }
}

/// The calling thread, which is about to send something, may let somebody go on, or has worked for long.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn may_send(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    order::watching() || unsafe { tells(t) }
}

/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn tells(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    unsafe { worked(t) || TOLD.load(Relaxed) != 0 || standing::is_any_at_channel() }
}

/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn worked(t: *mut Live) -> bool {
    // SAFETY: the thread's own clock.
    unsafe { now(t) >= (*t).sync_vt + WINDOW_VT / 4 }
}

/// Before something is sent. Who receives it goes on after the sender's work.
pub fn sends(entered: &Entered, channel: Channel) {
    // SAFETY: the thread's own state.
    unsafe {
        if may_send(entered.live())
            && let Some(key) = channel.key(true)
        {
            company::gives(entered.live(), key);
            if tells(entered.live()) {
                send(entered, key, key);
            }
        }
    }
}

/// Before a message of a type is put into a System V queue.
pub fn sends_message(entered: &Entered, id: i32, kind: i64) {
    let any = key_of(MESSAGES, id as u64, 0);
    if standing::is_any_at(any) {
        return send(entered, any, any);
    }
    sends(entered, Channel::Messages(id, kind));
    // SAFETY: the thread's own state.
    if AWAITED.has(any) && unsafe { worked(entered.live()) } {
        tell(entered, any);
    }
}

/// Before a signal is sent.
pub fn signals(entered: &Entered, to: To, signal: u32) {
    // SAFETY: the thread's own state.
    if (1..=64).contains(&signal) && unsafe { tells(entered.live()) } {
        let key = key_of(SIGNAL, to.number(), signal.into());
        let waiter = standing::waits_for(signal, &|info| to.means(info));
        send(entered, waiter.unwrap_or(key), key);
    }
}

/// `at` is where a thread of this process waits, if one does; the clock is left at `key`.
fn send(entered: &Entered, at: u64, key: u64) {
    SENT.add(at);
    // Nobody of this process is known to receive it: others may be anywhere.
    if AWAITED.has(at)
        && let Some(vt) = standing::border(entered, at, false, By::Call)
    {
        slot(entered, key).seq.fetch_max(vt, AcqRel);
        TOLD.store(1, Relaxed);
        return;
    }
    // SAFETY: the thread's own state.
    unsafe {
        if worked(entered.live()) {
            tell(entered, key);
        } else if standing::has_stepped(entered.live()) {
            first(entered, key);
        }
    }
}

/// In a slot's `waited`: somebody has received from the channel.
const HEARD: u64 = u64::MAX;

/// After a step that is long enough, to whom nobody knows: if a thread of this process is the first that ever receives
/// from this channel, it was on its way there.
fn first(entered: &Entered, key: u64) {
    let s = slot(entered, key);
    if s.waited.load(Relaxed) == 0 {
        let _ = s.waited.compare_exchange(0, sync::settle(entered), AcqRel, Relaxed);
        TOLD.store(1, Relaxed);
    }
}

/// Leaves the clock of who worked for long at the channel.
fn tell(entered: &Entered, key: u64) {
    const LAST: usize = 1;
    let vt = sync::settle(entered);
    let s = slot(entered, key);
    let last = s.ring[LAST].fetch_max(vt, AcqRel);
    if vt >= last + WINDOW_VT / 4 {
        // Who sends goes on beside who receives it, not before.
        let vt = round(vt);
        // SAFETY: the caller is inside the recorder: the thread's structures are its own.
        unsafe { sync::advance(entered.live(), vt) };
        s.seq.fetch_max(vt, AcqRel);
        TOLD.store(1, Relaxed);
    }
}

/// Nothing has been told through any channel.
#[inline(always)]
pub fn is_quiet() -> bool {
    is_untold() && !order::watching()
}

fn is_untold() -> bool {
    TOLD.load(Relaxed) == 0 && !processes::are_common()
}

/// Something was received.
pub fn receives(entered: &Entered, channel: Channel) {
    if !is_quiet()
        && let Some(key) = channel.key(false)
    {
        hear(entered, key);
    }
}

fn hear(entered: &Entered, key: u64) {
    // SAFETY: the thread's own state.
    unsafe { company::takes(entered.live(), key) };
    if is_untold() {
        return;
    }
    let s = slot(entered, key);
    let first = Some(s.waited.swap(HEARD, AcqRel)).filter(|&vt| vt != HEARD).unwrap_or(0);
    AWAITED.add(key);
    standing::received(entered, key);
    sync::join(entered, round(s.seq.load(Acquire).max(first)));
}

/// A signal was received by waiting for it.
pub fn receives_signal(entered: &Entered, signal: u32) {
    if !is_quiet() && (1..=64).contains(&signal) {
        // SAFETY: the thread's own description.
        let pointer = unsafe { (*((*entered.live()).info_at as *const ThreadInfo)).tp };
        for to in [To::Pointer(pointer), To::Thread(sys::gettid()), To::Process(sys::getpid())] {
            hear(entered, key_of(SIGNAL, to.number(), signal.into()));
        }
    }
}

/// Something was read from a descriptor: `signal` is what the first word there says if it is one of signals.
pub fn reads(entered: &Entered, fd: i32, signal: impl FnOnce() -> u32) {
    if is_quiet() {
        return;
    }
    match kind(fd, false) {
        Kind::Channel(key) => hear(entered, key),
        Kind::Signals(_) => receives_signal(entered, signal()),
        Kind::Other => {}
    }
}

/// Before something is written to a descriptor.
pub fn sending(entered: &Entered, fd: i32) {
    sends(entered, Channel::Descriptor(fd));
}

/// Something was read from a descriptor.
pub fn received(entered: &Entered, fd: i32) {
    receives(entered, Channel::Descriptor(fd));
}
