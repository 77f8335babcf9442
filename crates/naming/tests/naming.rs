//! Names of real programs, compiled when the test runs.

#[path = "naming/globals.rs"]
mod globals;
#[path = "naming/support.rs"]
mod support;
