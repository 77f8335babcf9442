//! Where memory was asked for: the instrumented code behind `operator new` and library containers, whoever's they are.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, run_tool};
use std::path::Path;
use std::process::Command;
use tussle_evidence::{Evidence, ObjectKind};

/// The address range of a function.
fn function(exe: &Path, name: &str) -> (u64, u64) {
    let out = Command::new("nm").args(["-S", "-C"]).arg(exe).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|l| l.ends_with(name)).unwrap();
    let mut words = line.split(' ').map(|w| u64::from_str_radix(w, 16));
    let (start, size) = (words.next().unwrap().unwrap(), words.next().unwrap().unwrap());
    (start, start + size)
}

/// Addresses (in the file) of the code that allocated, innermost first, and the allocators' names.
fn allocations(e: &Evidence, exe: &Path) -> Vec<(Vec<u64>, String)> {
    let heap = e.objects.iter().filter(|o| o.kind == ObjectKind::Heap);
    let address = |id: u32| {
        let c = &e.code[id as usize];
        let m = c.module.map(|m| &e.modules[m as usize]);
        m.filter(|m| Path::new(&m.path) == exe).map(|m| c.address - m.bias)
    };
    let chain = |id: u32| {
        let all = std::iter::once(id).chain(e.code[id as usize].chain.iter().copied());
        all.map(|c| address(c).unwrap_or(0)).collect()
    };
    heap.map(|o| (chain(o.alloc_code.unwrap()), o.allocator.clone().unwrap())).collect()
}

/// Builds with `flags`; the elements' and the text's site must be in the functions that made them.
fn check(compile: &[&str], link: &[&str], allocator: &str, depth: usize) {
    let Some(lab) = Lab::new() else { return };
    if !tussle_testkit::need("g++") {
        return;
    }
    let (object, exe) = (lab.path().join("fought.o"), lab.path().join("fought"));
    let mut c = Command::new("g++");
    c.args(["-g", "-O1", "-std=c++20", "-w", "-fsanitize=thread", "-c"]).args(compile);
    run_tool(c.arg(common::programs().join("kinds/fought.cc")).arg("-o").arg(&object));
    let mut c = Command::new("g++");
    c.arg(&object).arg(lab.runtime()).args(["-pthread", "-ldl", "-o"]).arg(&exe);
    run_tool(c.args(link));
    let ran = lab.run(&exe, &["fought"], How::default());
    assert_eq!(ran.status, 0);
    let found = allocations(&ran.evidence, &exe);
    let (from, to) = function(&exe, "make_counters()");
    let elements = found.iter().find(|(c, _)| c.get(depth).is_some_and(|a| (from..to).contains(a)));
    assert_eq!(elements.map(|(_, name)| name.as_str()), Some(allocator), "{found:x?}");
    let (from, to) = function(&exe, "make_text()");
    assert!(found.iter().any(|(c, _)| (from..to).contains(&c[0])), "text: {found:x?}");
}

#[test]
fn the_librarys_operator_is_passed() {
    check(&[], &[], "operator new", 0);
    check(&["-O0"], &[], "operator new", 0);
}

#[test]
fn an_operator_linked_in_is_passed() {
    check(&[], &["-static-libstdc++", "-static-libgcc"], "operator new", 0);
}

#[test]
fn an_operator_of_the_program_is_one_of_the_callers() {
    check(&["-DOWN"], &[], "malloc", 1);
}
