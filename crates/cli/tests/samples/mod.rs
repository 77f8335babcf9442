//! What the tests of verbs about samples share: the table of `perf c2c` of a mail, the layouts before and after its
//! patch, and the binary, run in a folder.

#[path = "../schema/mod.rs"]
mod schema;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../perf/tests/data/i_mmap-c2c.txt");
pub const BEFORE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../perf/tests/data/address_space-6.4-before.json");
pub const AFTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../perf/tests/data/address_space-6.4-after.json");

pub fn tussle(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tussle")).current_dir(folder).args(arguments).output().unwrap()
}

pub fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

pub fn json(folder: &Path, schema: &str, arguments: &[&str]) -> Value {
    let out = tussle(folder, &[arguments, &["--format", "json"]].concat());
    let document: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out)));
    schema::keeps_to(schema, &document);
    document
}
