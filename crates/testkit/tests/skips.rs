//! A skipped test is seen, and fails where tools are promised: this program runs its own ignored tests.

use std::process::{Command, Output};
use tussle_testkit::{STRICT, given, need, slow};

#[test]
#[ignore = "run by the tests below"]
fn asks_for_no_such_tool() {
    assert!(!need("no-such-tool"));
}

#[test]
#[ignore = "run by the tests below"]
fn asks_for_flags_that_do_not_link() {
    assert!(need("gcc"));
    assert!(need("gcc -c -fsyntax-only"));
    assert!(!need("gcc -lno_such_library"));
}

#[test]
#[ignore = "run by the tests below"]
fn asks_for_slow_things() {
    assert!(!slow("recorder") && slow("suite") && given("TUSSLE_TEST_NOTHING").is_none());
}

fn run(test: &str, strict: &str) -> Output {
    let mut c = Command::new(std::env::current_exe().expect("this program"));
    c.args(["--ignored", "--exact", test]).env(STRICT, strict).env("TUSSLE_SLOW", "suite");
    c.output().expect("this program runs")
}

#[track_caller]
fn check(test: &str, strict: &str, passes: bool, says: &[&str]) {
    let out = run(test, strict);
    let (text, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.success(), passes, "{text}{told}");
    assert!(text.contains("running 1 test"), "{text}");
    for word in says {
        assert!(told.contains(word) || (!passes && text.contains(word)), "no `{word}` in {told}{text}");
    }
}

#[test]
fn a_skip_is_seen_in_a_test_that_passes() {
    let name = "skipped: asks_for_no_such_tool (crates/testkit/tests/skips.rs:";
    check("asks_for_no_such_tool", "", true, &[name, "no-such-tool: "]);
    check("asks_for_no_such_tool", "0", true, &[name]);
}

#[test]
fn a_missing_tool_fails_where_tools_are_promised() {
    check("asks_for_no_such_tool", "1", false, &["no-such-tool is missing"]);
}

#[test]
fn a_compiler_must_do_what_its_flags_say() {
    let gcc = Command::new("gcc").arg("--version").output().is_ok();
    if gcc {
        check("asks_for_flags_that_do_not_link", "", true, &["gcc -lno_such_library: ", "no_such_library"]);
    }
}

#[test]
fn slow_tests_say_how_to_run_them() {
    let says = ["TUSSLE_SLOW=recorder runs it", "TUSSLE_TEST_NOTHING is not set"];
    check("asks_for_slow_things", "1", true, &says);
}
