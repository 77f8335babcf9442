//! The recorder runtime: what runs inside the recorded program.
//!
//! Built by `build.rs` on its own (no std, no allocation, no panics), linked into executables by `tussle cc` or loaded
//! in the place of `libtsan.so.2`. It must never change what the program does: no errno, no file descriptor kept, no
//! lock held while the program's code runs, no dependence on the program's heap. See `docs/recorder.md`.
#![no_std]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::upper_case_acronyms)]
#![allow(static_mut_refs, non_upper_case_globals)]

#[allow(dead_code)]
mod wire {
    include!("../wire.rs");
}

mod alloc;
mod arena;
mod atomics;
mod code;
mod heap;
mod hooks;
mod interpose;
mod libc_calls;
mod locks;
mod mem;
mod memory;
mod record;
mod sections;
mod sync;
mod sys;
mod thread;

/// Reached only by a bug in the runtime: stopping is better than corrupting the program.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::die()
}
