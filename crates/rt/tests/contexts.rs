//! Programs that switch stacks by themselves: the callers of each context are its own.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tussle_evidence::Evidence;

/// The functions of a file, by their addresses in it.
fn functions(exe: &Path) -> Vec<(u64, u64, String)> {
    let out = Command::new("nm").arg("-S").arg(exe).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let row = |l: &str| {
        let mut words = l.split_whitespace();
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((start, start + size, words.nth(1)?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Names of code that touched something, innermost first, as `inner < middle < outer`.
fn chains(e: &Evidence, exe: &Path) -> BTreeSet<String> {
    let all = functions(exe);
    let name = |id: u32| {
        let c = &e.code[id as usize];
        let module = &e.modules[c.module? as usize];
        let at = c.address - module.bias;
        let found = all.iter().find(|f| (f.0..f.1).contains(&at) && Path::new(&module.path) == exe);
        found.map(|f| f.2.clone())
    };
    let chain = |id: u32| {
        let ids = std::iter::once(id).chain(e.code[id as usize].chain.iter().copied());
        ids.map_while(name).collect::<Vec<_>>().join(" < ")
    };
    e.touches.iter().map(|t| chain(t.code)).collect()
}

#[test]
fn callers_are_back_when_a_context_goes_on() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("contexts", &["-fno-optimize-sibling-calls"]);
    let ran = lab.run(&exe, &[], How::default());
    assert_eq!(ran.status, 0);
    let found = chains(&ran.evidence, &exe);
    for known in ["inner < middle < outer < run", "middle < outer < run", "outer < run"] {
        assert!(found.contains(known), "{known}: {found:?}");
    }
    // A generator was called by nobody, least of all by who switched to it.
    assert!(found.contains("generator_step < generator"), "{found:?}");
    let wrong = |c: &&String| c.starts_with("inner") && *c != "inner < middle < outer < run";
    assert!(!found.iter().any(|c| wrong(&c)), "{found:?}");
}
