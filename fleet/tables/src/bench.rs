//! Results of `tussle bench` as rows, one per run of a command.

use crate::fields;
use crate::kind::Field;
use serde::Serialize;
use tussle_bench::sample::Results;

/// One run of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchRow {
    /// Name of the arm.
    pub arm: String,
    /// Number of the pair, from 0.
    pub pair: u64,
    /// Its place in the pair.
    pub position: u64,
    /// It counts for nothing.
    pub warmup: bool,
    /// What was measured.
    pub metric: String,
    /// More is better.
    pub higher_is_better: bool,
    /// The value; null where the run failed.
    pub value: Option<f64>,
    /// How it ended.
    pub status: String,
    /// Wall-clock seconds.
    pub wall_s: f64,
    /// CPU seconds of the run in user mode.
    pub user_s: Option<f64>,
    /// CPU seconds of the run in the kernel.
    pub system_s: Option<f64>,
    /// CPU seconds that others had meanwhile.
    pub foreign_s: Option<f64>,
}

/// Columns of [`BenchRow`].
pub const BENCH: &[Field] = fields![
    Text => arm; U64 => pair position; Bool => warmup; Text => metric; Bool => higher_is_better; F64 => value;
    Text => status; F64 => wall_s user_s system_s foreign_s
];

/// All runs of a result, in their order.
pub fn bench_rows(results: &Results) -> Vec<BenchRow> {
    let header = &results.header;
    let row = |s: &tussle_bench::sample::Sample| BenchRow {
        arm: header.arms.get(s.arm).cloned().unwrap_or_default(),
        pair: s.pair as u64,
        position: s.position as u64,
        warmup: s.warmup,
        metric: header.metric.name.clone(),
        higher_is_better: header.metric.higher_is_better(),
        value: s.value,
        status: s.status.to_string(),
        wall_s: s.wall_s,
        user_s: s.user_s,
        system_s: s.system_s,
        foreign_s: s.foreign_s,
    };
    results.samples.iter().map(row).collect()
}
