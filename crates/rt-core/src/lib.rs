//! The core of the recorder runtime: the table of recently used lines, the clocks, the heap, the arena that all of it
//! lies in.
//!
//! It exports no C symbol and has no thread-local storage: whoever uses it keeps one [`wire::Live`] per thread and
//! hands it in as an [`thread::Entered`]. `crates/rt/build.rs` links it with the exported hooks; here it is a crate
//! like any other, so that the compiler, clippy and tests see it. No allocation, no panics, no libc. See
//! `docs/recorder.md`.
//!
//! # What unsafe code relies on
//!
//! - The mapping of the process's file is never taken away while it records; what is handed out of it is handed out
//!   once, zeroed, and never given back. References in it are written by this process only.
//! - A thread's structures (its `Live`, its description, and all that hangs on them) are written by that thread only,
//!   while it is inside ([`thread::Entered`]): no handler of its own comes between. What others read of them is atomic.
//! - Addresses of the program are numbers: none is followed.
#![cfg_attr(not(test), no_std)]
#![warn(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

/// What `lockfree` is made of: here the machine's own, in its model test loom's.
mod atomic {
    pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

pub mod arch;
pub mod arena;
mod arrivals;
mod borders;
pub mod callers;
pub mod channels;
pub mod code;
pub mod company;
pub mod counting;
pub mod descriptors;
pub mod detached;
mod early;
#[allow(missing_docs)]
pub mod foreign;
pub mod guards;
pub mod heap;
mod idle;
pub mod latches;
mod lockfree;
mod locks;
pub mod marks;
pub mod mem;
pub mod monitors;
pub mod once;
pub mod order;
mod permits;
#[allow(missing_docs)]
pub mod pieces;
pub mod polled;
pub mod probe;
pub mod processes;
pub mod quick;
mod readers;
pub mod record;
pub mod rings;
mod runs;
pub mod sampling;
pub mod sections;
pub mod sleepers;
pub mod standing;
mod stream;
#[allow(missing_docs)]
pub mod stretches;
pub mod sync;
pub mod sys;
pub mod takes;
pub mod thread;
mod turns;
pub mod unwind;
pub mod waits;
#[cfg(target_arch = "x86_64")]
pub mod wide;
#[allow(missing_docs)]
pub mod wire;
