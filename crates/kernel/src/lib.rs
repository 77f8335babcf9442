//! What an emulated kernel did, as evidence.
//!
//! The emulator's plugin writes a stream of accesses, guest memory stays behind as bytes; [`convert::evidence`] makes
//! of both, with the kernel's debug information, the same tables that every other source fills. No I/O here.

mod bits;
pub mod convert;
pub mod hooks;
pub mod image;
pub mod lives;
pub mod memory;
pub mod orc;
pub mod place;
pub mod slab;
pub mod stream;
pub mod typed;
pub mod wish;
