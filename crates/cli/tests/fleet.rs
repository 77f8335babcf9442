//! What lies outside of this workspace has one command of its own.

use std::process::Command;

#[test]
fn python_datasets_queries_and_sweeps() {
    if !tussle_testkit::slow("fleet") || !tussle_testkit::need("python3") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fleet/test.sh");
    assert!(Command::new("bash").arg(script).status().unwrap().success());
}
