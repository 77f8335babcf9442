//! The recorder inside of an emulator: what QEMU's plugin (`qemu/emulate/`) calls. What it writes down is in the crate
//! `tussle-rt-core`, as for programs that carry the recorder themselves.
//!
//! Built by `build.rs` on its own (no std, no allocation, no panics) as one object, which the plugin is linked with.
//! Each thread of the program is a thread of the emulator with a number of its own, which every call names. The
//! program's signal handlers run between two instructions of the program, never inside a call: nothing is deferred.
//! Addresses are the emulator's own: the program's plus where the program's memory begins.
#![no_std]

mod calls;
mod cpu;
mod functions;
mod memory;
mod openmp;
mod system;
mod words;

/// Reached only by a bug in the recorder: stopping is better than corrupting the program.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    tussle_rt_core::sys::die()
}
