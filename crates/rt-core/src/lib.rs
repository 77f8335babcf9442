//! The core of the recorder runtime: the table of recently used lines, the clocks, the heap, the arena that all of it
//! lies in.
//!
//! It exports no C symbol and has no thread-local storage: whoever uses it keeps one [`wire::Live`] per thread and
//! hands it in as an [`thread::Entered`]. `crates/rt/build.rs` links it with the exported hooks; here it is a crate
//! like any other, so that the compiler, clippy and tests see it. No allocation, no panics, no libc. See
//! `docs/recorder.md`.
#![no_std]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, missing_docs)]

/// What `lockfree` is made of: here the machine's own, in its model test loom's.
mod atomic {
    pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

pub mod arch;
pub mod arena;
pub mod callers;
pub mod code;
pub mod heap;
mod lockfree;
pub mod mem;
pub mod record;
pub mod sections;
pub mod sync;
pub mod sys;
pub mod thread;
pub mod unwind;
#[allow(missing_docs)]
pub mod wire;
