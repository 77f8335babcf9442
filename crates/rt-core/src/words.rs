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
