//! What lies outside of this workspace has one command of its own.

use std::process::Command;

#[test]
fn python_datasets_queries_and_sweeps() {
    if !tussle_testkit::slow("fleet") || !tussle_testkit::need("python3") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fleet/test.sh");
    // Its errors are held against those of this program.
    let done = Command::new("bash").arg(script).env("TUSSLE", env!("CARGO_BIN_EXE_tussle")).status();
    assert!(done.unwrap().success());
}

/// Everything after the verb goes to `tussle-fleet`; where that is not, tussle says what it is.
#[test]
fn verbs_of_fleets_are_handed_over() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let tussle = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
        let out = command.args(words).env("PATH", folder.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (status, _, said) = tussle(&["fleet", "top"]);
    assert!(status == Some(2) && said.contains("tussle-fleet") && said.contains("cargo install"), "{said}");
    let program = folder.path().join("tussle-fleet");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for words in [
        &["fleet", "new", "--since", "2026-11-22", "--format", "json"][..],
        &["sweep", "PLAN.toml", "--jobs", "1..2"],
        &["export", "a.data", "--parquet", "--to", "set"],
        &["fleet", "--help"],
    ] {
        assert_eq!(tussle(words), (Some(1), words.join(" ") + "\n", String::new()));
    }
    assert_eq!(tussle(&["-q", "fleet"]).1, "fleet -q\n");
    let (status, _, said) = tussle(&["export", "nothing.data", "--jsonl"]);
    assert!(status == Some(2) && said.contains("nothing.data"), "{said}");
}
