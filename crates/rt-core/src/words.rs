// What a thread knows of words that may be locks. Included by `wire`: it lies in the mapping.

/// Words per thread of which the latest look is known.
pub const LOOKS: usize = 4;

/// A lock made of several words, see `guards`.
#[repr(C)]
pub struct Guard {
    /// What the thread has, and what it waits for: 0 or one of the kinds.
    pub kind: u64,
    pub wait: u64,
    /// The word that stands for the lock; while the thread waits for its ticket, that which gave it.
    pub word: u64,
    pub ticket: u64,
    /// Nodes of a queue: the thread's, of the one before, the one behind. With a ticket, `node` counts steps since.
    pub node: u64,
    pub before: u64,
    pub next: u64,
    /// The word by which it gave the lock away just now.
    pub gave: u64,
}

/// What a thread is at with a mutex under which threads wait for conditions, see `monitors`.
#[repr(C)]
pub struct Monitor {
    /// The one that it used last, 0 if none; 1 while it has it, and once it has woken somebody under it.
    pub mutex: u64,
    pub has: u32,
    pub woke: u32,
    /// The one that it is in, 0 if none; 1 if that is a lock; where it went in and left last, its accesses until then.
    pub within: u64,
    pub locked: u64,
    pub site: u64,
    pub left_site: u64,
    pub left: u64,
}

/// What a thread saw when it looked at an atomic word.
#[repr(C)]
pub struct Look {
    pub addr: u64,
    pub value: u64,
    /// How often in a row it was the same value as at the look before, or why it was not, see `waits`.
    pub again: u64,
}

/// Words per thread that it changed last: under a lock it counts references, say, before it gives the lock back.
pub const TAKES: usize = 4;

/// A word that a thread changed with one instruction, 0 if none: from what, and when.
#[repr(C)]
pub struct Take {
    pub word: u64,
    pub from: u64,
    /// 1: it was set to 0, whatever was there.
    pub empties: u64,
    pub vt: u64,
}

/// A word to which a thread added when it compared and exchanged, 0 if none: what was found there, and what was left.
#[repr(C)]
pub struct Came {
    pub word: u64,
    pub from: u64,
    pub to: u64,
}

/// Lines per thread of which it is at hand that others use them.
pub const WATCHED: usize = 64;

/// Lines at which it is known that a stay has begun.
pub const STAYS: usize = 16;

/// Threads of which is known what they gave away.
pub const KNOWN: usize = 128;

/// What a thread gave away, and knows others to have given away, see `order`.
#[repr(C)]
pub struct Ordered {
    /// Its index, if that is below [`KNOWN`].
    pub number: u32,
    /// How often it gave away what it had used.
    pub steps: u32,
    /// How often it knows others to have done so, by their numbers, and what of that it passes on.
    pub known: [u32; KNOWN],
    pub passed: [u32; KNOWN],
    /// 1 if it used or learned anything since it last gave something away, if it passes on more than it knows, and if
    /// it ever came to a fence.
    pub has_news: u32,
    pub passes_more: u32,
    pub fenced: u32,
}

/// One of them, 0 if none, and the address of its [`Company`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Watched {
    pub line: u64,
    pub company: u64,
}

/// A thread's line that others use, too: whether they do so at the same time, see `company`.
#[repr(C, align(64))]
pub struct Company {
    /// Address of the [`Live`] of one of them, the thread's index, and a reference of its [`Record`] of the line, 0 if
    /// that is not known.
    pub other: u64,
    pub before: u32,
    pub theirs: u32,
    /// When the window began, 0 without one: the own clock; that one's accesses of the line, and a number that changes
    /// when it accesses anything, mostly; the processor that the thread ran on, and how often it had waited.
    pub from: u64,
    pub count: u64,
    pub work: u64,
    pub processor: u16,
    pub waited: u16,
    /// Of the latest window: sixteenths of a tick of the own clock per access of the line, 0 before one; 1 if the other
    /// one touched it, and the thread did not pause.
    pub density: u16,
    pub touched: u16,
    /// Windows in which the other one ran without touching the line, in which it touched it, and in which it did so,
    /// perhaps while the thread itself paused.
    pub alone: u16,
    pub met: u16,
    pub paused: u16,
    /// Visits, each from the coming to the line to the next time that the thread gave anything away: behind another
    /// one's that was over, and nobody came meanwhile; and those that fell together with another one's.
    pub in_turn: u16,
    pub beside: u16,
    /// And those before which nobody else had been there.
    pub again: u16,
    /// 1 if the present run of visits has been counted. A run is those of the thread between two of others.
    pub counted: u16,
    /// How the present visit began, as a number of `order::Came`, its accesses, and the latest visit of anybody before
    /// it.
    pub came: u16,
    /// The same of the present run.
    pub run_came: u16,
    pub length: u32,
    pub run: u32,
    pub latest: u64,
    /// How often somebody else had been there meanwhile.
    pub turns: u32,
    /// Visits so far, of whatever length; of the first ones, all of which are looked at, the turns, and short visits
    /// with nobody else since the one before.
    pub visits: u32,
    pub first_turns: u32,
    pub first_short: u32,
    /// Accesses in visits that were in turn, and in those beside another one's.
    pub in_turn_accesses: u64,
    pub beside_accesses: u64,
}
