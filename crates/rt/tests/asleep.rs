//! Hooks return at once while nothing is recorded, and cost what empty ones do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab};
use std::process::Command;

const RETURN: &str = "c3";
const JUMP_BACK: &str = "41ffe3";

#[test]
fn hooks_are_returns_unless_something_is_recorded() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("asleep", &[]);
    let out = Command::new(&exe).output().unwrap();
    assert!(out.status.success());
    let silent = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<&str> = silent.lines().collect();
    assert_eq!(lines.len(), 4, "{silent}");
    assert!(lines[..3].iter().all(|l| l.starts_with(RETURN)), "{silent}");
    assert_eq!(lines[3], JUMP_BACK, "{silent}");
    let recorded = lab.run(&exe, &[], How::default());
    assert_eq!(recorded.status, 0);
    assert!(recorded.stdout.lines().all(|l| !l.starts_with(RETURN) && l != JUMP_BACK), "{}", recorded.stdout);
    assert!(!recorded.evidence.actors.is_empty());
}
