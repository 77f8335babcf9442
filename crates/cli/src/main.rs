//! The `tussle` binary: parses arguments, calls, prints.

fn main() {}
