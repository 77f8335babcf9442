//! What the exported functions tell the core: each event enters the recorder, unless the calling thread is not recorded
//! or inside of it already.

/// Functions that enter the recorder, if they may, and call the core's of the same name.
macro_rules! forward {
    ($($(#[$doc:meta])* $name:ident($($a:ident: $t:ty),*) $(-> $r:ty = $none:expr)?;)+) => { $(
        $(#[$doc])*
        pub fn $name($($a: $t),*) $(-> $r)? {
            if recording() && let Some(t) = enter() {
                return core::$name(&t $(, $a)*);
            }
            $($none)?
        }
    )+ };
}

/// Accesses.
pub mod record {
    use crate::arena;
    use crate::thread::enter;
    use tussle_rt_core::counting::{counting, may_count};
    use tussle_rt_core::record as core;
    use tussle_rt_core::sampling::counts;

    /// Records an access.
    #[inline(never)]
    pub fn access(addr: u64, n: u64, kind: u32, pc: u64) {
        if may_count()
            && let Some(t) = enter()
            && counting()
            && counts(&t, 1, false)
        {
            core::note(&t, addr, n, kind, pc, false)
        }
    }

    /// Records an access that the hook has counted already if the thread's table had line and bytes.
    pub fn counted(addr: u64, n: u64, kind: u32, pc: u64) {
        if may_count()
            && let Some(t) = enter()
            && counting()
            && counts(&t, 1, true)
        {
            core::note(&t, addr, n, kind, pc, true)
        }
    }

    /// Records what a lock's function did to the lock's own words: no visit of a critical section.
    pub fn of_lock(addr: u64, n: u64, kind: u32, pc: u64) {
        if may_count()
            && let Some(t) = enter()
            && counting()
            && counts(&t, 1, false)
        {
            core::of_lock(&t, addr, n, kind, pc)
        }
    }

    /// Records `[addr, addr + len)` word by word.
    pub fn range(addr: u64, len: u64, kind: u32, pc: u64) {
        if len == 0 || !arena::recording() {
            return;
        }
        let words = (addr & 7).saturating_add(len).saturating_add(7) >> 3;
        if may_count()
            && let Some(t) = enter()
            && counting()
            && counts(&t, words, false)
        {
            core::range(&t, addr, len, kind, pc)
        }
    }
}

/// What is done once.
pub mod once {
    use crate::arch::current;
    use crate::arena::recording;
    use crate::thread::{enter, is_dummy};
    use crate::wire::Live;
    use tussle_rt_core::once as core;

    /// The calling thread's state, if it is recorded.
    pub fn recorded() -> Option<*mut Live> {
        if !recording() {
            return None;
        }
        drop(enter());
        Some(current()).filter(|t| !is_dummy(*t))
    }

    forward! {
        /// The calling thread is about to do it.
        begins(addr: u64);
        /// The calling thread has done it; nobody else knows yet.
        ends(addr: u64);
    }

    /// Somebody comes by for whom it is done.
    pub fn passes(addr: u64) {
        // SAFETY: the state is the calling thread's.
        if recording()
            && unsafe { core::is_news(current(), addr) }
            && let Some(t) = enter()
        {
            core::passes(&t, addr)
        }
    }
}

/// Critical sections.
pub mod sections {
    use crate::arena::recording;
    use crate::thread::enter;
    use tussle_rt_core::sections as core;

    forward! {
        /// The calling thread has taken `addr`, perhaps together with other readers.
        taken(addr: u64, shared: bool);
        /// The calling thread is about to release `addr`.
        releasing(addr: u64);
    }
}

/// Heap objects.
pub mod heap {
    use crate::arena::recording;
    use crate::thread::enter;
    use ::core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use tussle_rt_core::arena::snapshot_maps;
    use tussle_rt_core::{heap as core, processes};

    /// Notes an allocation.
    pub fn born(base: u64, size: u64, allocator: u16, align: u32, pc: u64) {
        if base != 0
            && recording()
            && let Some(t) = enter()
        {
            core::born(&t, base, size, allocator, align, pc)
        }
    }

    /// `[start, start + bytes)` may be mapped by other processes, too.
    pub fn shared(start: u64, bytes: u64, memory: &processes::Memory) {
        if recording()
            && let Some(_inside) = enter()
        {
            processes::mapped(start, bytes, memory);
        }
        mapped_shared();
    }

    /// The mapping that begins there is about to be taken away.
    pub fn unmapped(start: u64) {
        if recording() {
            processes::unmapped(start);
        }
        dead(start);
    }

    /// Memory maps that are written down for shared mappings, in one process at most.
    const SHARED_MAPPINGS_MAX: u32 = 64;
    static SHARED_MAPPINGS: AtomicU32 = AtomicU32::new(0);

    /// Writes down what is mapped now: other processes may map the same memory elsewhere.
    fn mapped_shared() {
        if recording()
            && let Some(_inside) = enter()
            && SHARED_MAPPINGS.fetch_add(1, Relaxed) < SHARED_MAPPINGS_MAX
        {
            // SAFETY: the header of a process that records is mapped.
            unsafe { snapshot_maps() };
        }
    }

    /// Notes that an object is about to be freed: before it is, because its address may be reused at once.
    pub fn dead(base: u64) {
        if base != 0
            && recording()
            && let Some(t) = enter()
        {
            core::dead(&t, base)
        }
    }

    /// An object that [`dead`] was told of lives on: its reallocation failed.
    pub fn revived(base: u64) {
        if base != 0
            && recording()
            && let Some(t) = enter()
        {
            core::revived(&t, base)
        }
    }
}

/// Synchronisation.
pub mod sync {
    use crate::arch::current;
    use crate::arena::recording;
    use crate::thread::enter;
    use tussle_rt_core::{monitors, sync as core};

    forward! {
        /// A thread is about to be created: the clock at which it starts.
        creation() -> u64 = crate::wire::NONE as u64;
        /// Before waiting for a thread's end.
        joining();
        /// A thread that ended at `vt` was joined.
        joined(vt: u64);
        /// Forgets an object whose address may become another one.
        forget(addr: u64);
        barrier_init(addr: u64, count: u64);
        /// For how many threads a barrier was made; 0 if it is not known.
        barrier_threads(addr: u64) -> u64 = 0;
        /// Before waiting at a barrier: the slot of this generation.
        barrier_arrive(addr: u64) -> u64 = 0;
        /// After the barrier: everybody goes on at the same clock.
        barrier_leave(addr: u64, generation: u64);
        /// Before waiting for a condition: the number of wake-ups so far.
        cond_wait_begin(addr: u64) -> u64 = 0;
        /// After waiting for a condition; `woken` is false after a timeout.
        cond_wait_end(addr: u64, seq: u64, woken: bool);
        /// Before a signal or broadcast.
        cond_wake(addr: u64, all: bool);
        /// A lock was taken; `held_before` is what [`lock_contended`] returned if it had to be waited for.
        locked(addr: u64, held_before: Option<u64>);
        /// A lock was tried in vain.
        tried(addr: u64);
        /// A lock was taken by a try.
        locked_by_try(addr: u64);
        /// A lock is about to be released.
        unlocking(addr: u64);
        /// Empties the thread's table; its clock.
        settle() -> u64 = 0;
        /// Brings the calling thread's clock to `vt` if it is behind.
        join(vt: u64);
        /// Before waiting for a semaphore that is not free: what is to be told to [`sem_wait_end`].
        sem_wait_begin(addr: u64) -> u64 = 0;
        /// After having waited for a semaphore; `more` if a permit is left.
        sem_wait_end(addr: u64, before: u64, more: bool);
        /// A semaphore was taken without waiting; `more` if a permit is left.
        sem_taken(addr: u64, more: bool);
        /// Before posting a semaphore.
        sem_post(addr: u64);
    }

    /// Before waiting for a condition with a mutex.
    pub fn waiting_with(mutex: u64) {
        if recording()
            && let Some(t) = enter()
        {
            monitors::waiting(&t, mutex)
        }
    }

    /// A mutex is about to be released at `pc`, and all is told that happened under it.
    pub fn left(mutex: u64, pc: u64) {
        // SAFETY: the state is the calling thread's.
        if recording()
            && unsafe { monitors::has(current(), mutex) }
            && let Some(t) = enter()
        {
            monitors::left(&t, mutex, pc)
        }
    }

    /// Before waiting for a lock: for how long it has been held so far, all holders together.
    pub fn lock_contended(addr: u64) -> Option<u64> {
        if !recording() {
            return None;
        }
        enter().map(|t| core::lock_contended(&t, addr))
    }
}

/// What goes through the kernel.
pub mod channels {
    use crate::arch::current;
    use crate::arena::recording;
    use crate::thread::enter;
    pub use tussle_rt_core::channels::{Channel, To};
    use tussle_rt_core::channels as core;

    /// Functions that enter the recorder only if others may wait for what the calling thread sends, or it worked long.
    macro_rules! before_sending {
        ($($(#[$doc:meta])* $name:ident($($a:ident: $t:ty),*);)+) => { $(
            $(#[$doc])*
            pub fn $name($($a: $t),*) {
                // SAFETY: the state is the calling thread's.
                if recording() && unsafe { core::may_send(current()) } && let Some(t) = enter() {
                    core::$name(&t, $($a),*)
                }
            }
        )+ };
    }
    before_sending! {
        /// Before something is sent.
        sends(channel: Channel);
        /// Before a message of a type is put into a System V queue.
        sends_message(id: i32, kind: i64);
        /// Before a signal is sent.
        signals(to: To, signal: u32);
    }

    /// Functions that enter the recorder only if there are others to wait for.
    macro_rules! before_waiting {
        ($($(#[$doc:meta])* $name:ident($($a:ident: $t:ty),*);)+) => { $(
            $(#[$doc])*
            pub fn $name($($a: $t),*) -> u64 {
                if recording() && core::may_wait() && let Some(t) = enter() {
                    return core::$name(&t, $($a),*);
                }
                0
            }
        )+ };
    }
    before_waiting! {
        /// Before waiting for what comes through a channel: what [`goes_on`] is to be told.
        waits(channel: Channel);
        /// The same before reading from a descriptor, if that waits.
        waits_at(fd: i32);
        /// The same at a message queue.
        waits_at_queue(fd: i32);
        /// The same for signals (bit 0 for signal 1).
        waits_for_signals(mask: u64);
    }

    /// After waiting: something came.
    pub fn goes_on(key: u64) {
        if key != 0 && recording() && let Some(t) = enter() {
            core::goes_on(&t, key)
        }
    }

    /// Functions that enter the recorder only if something was told through a channel.
    macro_rules! after_receiving {
        ($($(#[$doc:meta])* $name:ident($($a:ident: $t:ty),*);)+) => { $(
            $(#[$doc])*
            pub fn $name($($a: $t),*) {
                if recording() && !core::is_quiet() && let Some(t) = enter() {
                    core::$name(&t, $($a),*)
                }
            }
        )+ };
    }
    after_receiving! {
        /// Something was received.
        receives(channel: Channel);
        /// A signal was received by waiting for it.
        receives_signal(signal: u32);
        /// Something was read from a descriptor: `signal` is what the first word there says if it is one of signals.
        reads(fd: i32, signal: impl FnOnce() -> u32);
    }

    /// A descriptor was made just now.
    pub fn made(fd: i32) {
        if recording() {
            tussle_rt_core::descriptors::made(fd)
        }
    }

    /// Two sockets were made that are connected with each other.
    pub fn paired(fds: [i32; 2]) {
        if recording() && let Some(_inside) = enter() {
            tussle_rt_core::descriptors::paired(fds)
        }
    }
}

/// Words that threads poll.
pub mod waits {
    use crate::arena::recording;
    use crate::arch::current;
    use crate::thread::enter;
    use tussle_rt_core::waits::{self as words, How};
    use tussle_rt_core::company::{self, Orders};
    use tussle_rt_core::{polled as core, sleepers};

    /// The calling thread tried in vain to bring a word from `wanted` to something else: it is `value`.
    #[inline(always)]
    pub fn in_vain(addr: u64, wanted: u64, value: u64) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { core::in_vain(current(), enter, addr, wanted, value) }
        }
    }

    /// The calling thread saw `value`.
    #[inline(always)]
    pub fn looked(addr: u64, value: u64) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { core::looked(current(), enter, addr, value) }
        }
    }

    /// It is about to store `to`.
    #[inline(always)]
    pub fn storing(addr: u64, to: u64) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { core::storing(current(), addr, to) }
        }
    }

    /// It has stored to the word.
    #[inline(always)]
    pub fn stored(addr: u64) {
        if recording() {
            core::stored(enter, addr)
        }
    }

    /// It is about to change a word.
    #[inline(always)]
    pub fn releases(addr: u64, orders: Orders) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { company::releases(current(), enter, addr, orders) }
        }
    }

    /// It has looked at a word, or changed one.
    #[inline(always)]
    pub fn acquires(addr: u64, orders: Orders) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { company::acquires(current(), enter, addr, orders) }
        }
    }

    /// It comes to a fence.
    pub fn fences() {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { company::fences(current()) }
        }
    }

    /// It gives the CPU away.
    pub fn yielding() {
        if recording()
            && let Some(t) = enter()
        {
            words::yielding(&t)
        }
    }

    /// It goes to sleep until a word changes that is what it expects; to be told to [`woken`], if anything.
    pub fn sleeps(addr: u64, expected: u64) -> Option<u64> {
        let t = if recording() { enter()? } else { return None };
        if words::has_looked(&t, addr) {
            words::asleep_for(&t, addr);
            return None;
        }
        sleepers::sleeps(&t, addr, expected)
    }

    /// It goes on; `came` if another thread woke it.
    pub fn woken(addr: u64, before: u64, came: bool) {
        if recording()
            && let Some(t) = enter()
        {
            sleepers::woken(&t, addr, before, came)
        }
    }

    /// It is about to wake all who sleep at a word, or one of them.
    pub fn wakes(addr: u64, all: bool) {
        if recording()
            && let Some(t) = enter()
        {
            sleepers::wakes(&t, addr, all)
        }
    }

    /// It is about to change the word as `change` says, if it is: from what, where one instruction does both, to what.
    #[inline(always)]
    pub fn changing(addr: u64, how: How, change: impl FnOnce() -> (Option<u64>, u64)) {
        // SAFETY: the state is the calling thread's.
        if recording() && unsafe { core::may_matter(current(), addr) } {
            core::changing(enter, addr, change(), how)
        }
    }

    /// One instruction found `from` in so many bytes and left `to`.
    #[inline(always)]
    pub fn exchanged(addr: u64, bytes: u64, from: u64, to: u64, how: How) {
        if recording() {
            // SAFETY: the state is the calling thread's.
            unsafe { core::exchanged(current(), enter, addr, bytes, (from, to), how) }
        }
    }
}
