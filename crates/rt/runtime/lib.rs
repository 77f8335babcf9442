//! The recorder runtime: the names that it exports inside the recorded program. What they write down is in the crate
//! `tussle-rt-core`.
//!
//! Built by `build.rs` on its own (no std, no allocation, no panics), linked into executables by `tussle cc` or loaded
//! in the place of `libtsan.so.2`; never linked into tussle, whose malloc it would take over. It must never change what
//! the program does: no errno, no file descriptor kept, no lock held while the program's code runs, no dependence on
//! the program's heap. See `docs/recorder.md`.
#![no_std]
#![allow(non_upper_case_globals)]

mod alloc;
mod arch;
mod asleep;
mod atomics;
mod c11;
mod caller;
mod channels;
mod children;
mod contexts;
mod events;
mod exec;
mod hooks;
mod interpose;
mod keys;
mod libc_calls;
mod loaded;
mod locks;
mod marks;
mod memory;
mod omp;
mod ompt;
mod once;
mod sandbox;
mod signals;
mod sys;
mod thread;
mod vectors;

use events::{heap, record, sections, sync, waits};
use tussle_rt_core::{arena, wire};

/// Reached only by a bug in the runtime: stopping is better than corrupting the program.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::die()
}
