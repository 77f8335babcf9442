//! Names of real programs, compiled when the test runs.
#![allow(clippy::unwrap_used)]

#[path = "naming/globals.rs"]
mod globals;
#[path = "naming/heap.rs"]
mod heap;
#[path = "naming/pointers.rs"]
mod pointers;
#[path = "naming/pools.rs"]
mod pools;
#[path = "naming/sampled.rs"]
mod sampled;
#[path = "naming/sites.rs"]
mod sites;
#[path = "naming/support.rs"]
mod support;
