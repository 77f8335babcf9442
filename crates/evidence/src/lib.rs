//! The one evidence format and its analysis.
//!
//! Every source (recorder, kernel recorder, perf import, simulator) fills an [`Evidence`]; report, advise, fix and
//! predict read nothing else. `docs/evidence.md` fixes the file format and all columns.

pub mod analysis;
mod columns;
mod even;
pub mod fields;
pub mod file;
pub mod lines;
mod pairs;
mod problem;
pub mod replay;
pub mod report;
pub mod sample;
pub mod tables;
mod validate;
pub mod window;

pub use problem::Problem;
pub use tables::*;
