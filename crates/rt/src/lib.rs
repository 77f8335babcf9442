//! The recorder runtime as bytes, its wire format, and the reader of what it wrote.
//!
//! [`SHARED`] and [`OBJECT`] are built by `build.rs` from `runtime/`; they are never linked into tussle itself, because
//! their `malloc` and `pthread_create` would take over. [`convert()`] turns the raw files of a session into evidence.

pub mod convert;
mod earlier;
mod family;
mod held;
mod lines;
mod mutexes;
mod objects;
mod operations;
mod packed;
pub mod raw;
mod shared;
mod shifts;
pub mod sites;
mod told;
mod windows;
mod words;

/// Layout of raw files, shared with the runtime.
#[allow(missing_docs)]
pub mod wire {
    include!("../core/wire.rs");
}

/// Encoding of earlier runs, shared with the runtime.
#[allow(missing_docs, dead_code)]
mod pieces {
    include!("../core/pieces.rs");
}

/// Which parts of virtual time a sample is made of, shared with the runtime.
mod stretches {
    include!("../core/stretches.rs");
}

/// Who else writes to memory, shared with the runtime.
mod foreign {
    include!("../core/foreign.rs");
}

/// What functions do that the recorder in an emulator watches, by number.
#[allow(missing_docs)]
pub mod watched {
    include!("../emulated/kinds.rs");
}

pub use convert::{Converted, convert};
pub use packed::Packed;
pub use raw::{RawError, RawFile};

/// The runtime as a shared library with the soname `libtsan.so.2`; empty where recording is not supported.
pub static SHARED: Packed = Packed(include_bytes!(concat!(env!("OUT_DIR"), "/libtsan.so.2.z")));

/// The runtime as an object file for the linker; empty where recording is not supported.
pub static OBJECT: Packed = Packed(include_bytes!(concat!(env!("OUT_DIR"), "/tussle-rt.o.z")));

/// `tussle.h`, by which programs tell the recorder what matters in them.
pub static HEADER: &str = include_str!("../include/tussle.h");

/// The recorder inside of an emulator as an object file for its plugin; empty where recording is not supported.
pub static EMULATED: Packed = Packed(include_bytes!(concat!(env!("OUT_DIR"), "/tussle-emulated.o.z")));

/// Name of the environment variable that tells the runtime the session folder.
pub const SESSION_VARIABLE: &str = "TUSSLE_SESSION";

/// Name of the environment variable with the cap on a process's recording, bytes in decimal.
pub const MEM_MAX_VARIABLE: &str = "TUSSLE_MEM_MAX";

/// Name of the environment variable that switches the sampling of critical sections off when it is `0`.
pub const OPERATIONS_VARIABLE: &str = "TUSSLE_OPERATIONS";

/// Cap on a process's recording when nothing else is said, bytes.
pub const MEM_MAX_DEFAULT: u64 = 1 << 30;
