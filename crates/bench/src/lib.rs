//! Paired benchmarks: design, analysis, readers of foreign result formats. No I/O: running the commands is the host's.
//!
//! A benchmark has *arms* (commands to compare) and *pairs* (rounds in which every arm runs once, in an order drawn at
//! random). [`design`] draws the order, [`sample`] is what one run leaves behind, [`verdict()`] is the answer.

pub mod aa;
pub mod audit;
pub mod audit_view;
pub mod bisect;
pub mod design;
pub mod family;
pub mod history;
pub mod metric;
pub mod paired;
pub mod read;
pub mod sample;
pub mod scaling;
pub mod sessions;
pub mod style;
pub mod verdict;
pub mod view;

pub use metric::{Extract, Metric, MetricKind};
pub use paired::{Paired, PairedError};
pub use sample::{Header, Sample, Status};
pub use verdict::{Criterion, Outcome, Verdict, verdict, verdict_of};
