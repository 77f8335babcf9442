//! One file per verb: parse, call, print.

pub mod advise;
pub mod bench;
pub mod bisect;
pub mod calibrate;
pub mod cc;
pub mod check;
pub mod checkouts;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod export;
pub mod fix;
pub mod golden;
pub mod history;
pub mod hunt;
pub mod import;
pub mod layout;
pub mod place;
pub mod predict;
pub mod record;
pub mod record_kernel;
pub mod report;
pub mod scenario;
pub mod snapshot;
pub mod source;
pub mod workload;
