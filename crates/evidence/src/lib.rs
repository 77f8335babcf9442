//! The one evidence format: tables, file, validation.
//!
//! Every source (recorder, kernel recorder, perf import, simulator) fills an [`Evidence`]; report, advise, fix and
//! predict read nothing else. `docs/evidence.md` fixes the file format and all columns.

mod bounds;
mod cell;
mod columns;
pub mod file;
pub mod library;
mod lost;
mod maps;
mod named;
mod problem;
mod redact;
mod rehome;
pub mod sample;
pub mod tables;
pub mod threads;
mod typed;
mod validate;

pub use lost::{Lost, lost};
pub use maps::Mapped;
pub use named::Named;
pub use problem::Problem;
pub use redact::redact;
pub use rehome::{rehome, seen_from};
pub use tables::*;
