//! Samples to structs by code. The truth comes from valgrind: lackey prints every instruction and the addresses that
//! it accesses, the program prints where its objects lie.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use tussle_debuginfo::NoCompanions;
use tussle_debuginfo::dwarf::Want;
use tussle_evidence::*;
use tussle_model::TypeTable;
use tussle_model::leaf::{Arrays, leaf_at, leaves};

use super::support::{Program, compile};

const SOURCE: &str = include_str!("sampled.c");

/// An object: type, address, bytes.
type Known = (String, u64, u64);

/// Runs under valgrind: objects, and (instruction, address) of all accesses to them by the program's own code.
fn trace(p: &Program) -> (Vec<Known>, Vec<(u64, u64)>) {
    let log = p.exe().with_extension("trace");
    let out = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(p.exe())
        .output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let number = |w: &str| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let objects: Vec<Known> = text
        .lines()
        .filter_map(|l| {
            let mut w = l.split(' ');
            Some((w.next()?.to_string(), number(w.next()?)?, w.next()?.parse().ok()?))
        })
        .collect();
    let (mut ip, mut accesses) = (0, Vec::new());
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let Some((kind, rest)) = line.trim_start().split_once(' ') else { continue };
        let Some(at) = rest.trim().split(',').next().and_then(number) else { continue };
        match kind {
            "I" => ip = at,
            "L" | "S" | "M" if (0x40_0000..0x50_0000).contains(&ip) => {
                if objects.iter().any(|o| at >= o.1 && at - o.1 < o.2) {
                    accesses.push((ip, at));
                }
            }
            _ => {}
        }
    }
    accesses.sort_unstable();
    accesses.dedup();
    (objects, accesses)
}

/// Path of the field at an address by what the program printed.
fn truth(table: &TypeTable, objects: &[Known], at: u64) -> Option<String> {
    let (name, base, _) = objects.iter().find(|o| at >= o.1 && at - o.1 < o.2)?;
    let ty = table.find(&format!("struct {name}"))?;
    let inside = (at - base) % table.size(ty)?;
    leaf_at(&leaves(table, ty, Arrays::Whole), inside).map(|l| l.path.clone())
}

/// Rows of samples as an import makes them: pages of unknown memory.
fn fill(p: &mut Program, accesses: &[(u64, u64)]) {
    p.evidence.modules[0].bias = 0;
    let (mut pages, mut codes) = (BTreeMap::new(), HashMap::new());
    p.evidence.samples = Some(Vec::new());
    for (ip, at) in accesses {
        let base = at / 4096 * 4096;
        let object = *pages.entry(base).or_insert_with(|| p.object(ObjectKind::Unknown, base, 4096, None));
        let code = *codes.entry(*ip).or_insert_with(|| p.row(*ip, &[]));
        let offset = at - base;
        p.touch(object, offset, 1, code, TouchKind::Read);
        let row = Sampled { object, offset, size: 1, code: Some(code), records: 1, ..Sampled::default() };
        p.evidence.samples.as_mut().unwrap().push(row);
    }
}

/// Returns (named, all); panics at the first wrong name.
fn check(compiler: &str, flags: &[&str]) -> Option<(usize, usize)> {
    let all: Vec<&str> = flags.iter().copied().chain(["-no-pie", "-fno-pic"]).collect();
    let mut p = compile(compiler, &all, SOURCE)?;
    let (objects, accesses) = trace(&p);
    let bytes = std::fs::read(p.exe()).unwrap();
    let table = tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).unwrap().0;
    fill(&mut p, &accesses);
    p.name();
    let namer = tussle_contention::fields::Namer::new(&p.evidence);
    let mut named = 0;
    for (s, (ip, at)) in p.evidence.samples.iter().flatten().zip(&accesses) {
        let o = &p.evidence.objects[s.object as usize];
        assert_eq!(o.base + s.offset, *at, "rows keep their addresses");
        let Some(ty) = o.ty else {
            if std::env::var_os("TUSSLE_SHOW_UNNAMED").is_some() {
                println!("unnamed 0x{ip:x} {:?}", p.evidence.code[s.code.unwrap() as usize].frames.first());
            }
            continue;
        };
        let ours = leaf_at(&leaves(&p.evidence.types, ty, Arrays::Whole), s.offset).unwrap().path.clone();
        let right = truth(&table, &objects, *at).unwrap_or_default();
        let four = right == "port" || right == "addr" || right == "zero" || right == "family";
        let same = right == ours || right.ends_with(&format!(".{ours}"));
        // What one piece of code sees as bytes is a field to another: both are right.
        let view = four && (ours == "family" || ours == "data");
        assert!(
            same || view,
            "{compiler} {flags:?}: 0x{ip:x} accesses {right}, named {} {ours} ({}), {:?}",
            p.evidence.types.name(ty),
            o.why,
            namer.name(s.object, s.offset, 1)
        );
        named += 1;
    }
    // Touches and accesses moved along.
    for (s, t) in p.evidence.samples.iter().flatten().zip(&p.evidence.touches) {
        assert_eq!((s.object, s.offset), (t.object, t.offset));
    }
    println!("{compiler} {flags:?}: {named} of {} named", accesses.len());
    Some((named, accesses.len()))
}

#[test]
fn every_name_is_right() {
    if !tussle_testkit::need("valgrind") {
        return;
    }
    for compiler in ["gcc", "clang"] {
        for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"], &["-Os"], &["-O2", "-fno-inline"]] {
            if let Some((named, all)) = check(compiler, flags) {
                assert!(all > 100 && 2 * named > all, "{compiler} {flags:?}: {named} of {all}");
            }
        }
    }
}
