//! perf.data, `perf script` and `perf c2c` text to evidence.
//!
//! Samples are decoded here, not by a crate: the layout of a sample depends on its event's `sample_type`, and the
//! fields that matter for contention (data source, weight, physical address) come last, behind all others. No I/O:
//! the caller maps the file. Sources of all formats: `include/uapi/linux/perf_event.h` and
//! `tools/perf/Documentation/perf.data-file-format.txt` of the Linux kernel.

pub mod attr;
pub mod bytes;
pub mod c2c;
pub mod data_src;
pub mod error;
mod families;
pub mod file;
pub mod guess;
pub mod import;
pub mod import_text;
pub mod input;
pub mod joint;
pub mod mail;
mod maps;
pub mod mem_report;
pub mod modules;
pub mod objects;
pub mod phases;
pub mod record;
pub mod sample;
pub mod script;
pub mod stream;
mod sums;
mod table;
mod tables;
pub mod text;
mod unpack;

pub use attr::Attr;
pub use data_src::DataSrc;
pub use error::{Error, Skipped};
pub use file::{PerfFile, Visitor};
pub use input::Input;
pub use sample::Sample;
