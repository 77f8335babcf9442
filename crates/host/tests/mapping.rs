//! The scanner against real headers: does every member of the debug information have one statement?

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use tussle_advise::patch::body::{Source, Statement, bodies_in, find, statements};
use tussle_advise::patch::member::{declared, statement_of};
use tussle_debuginfo::NoCompanions;
use tussle_debuginfo::dwarf::Want;
use tussle_model::{AggregateKind, Language, MemberRole};
use tussle_testkit::{given, need, skip};

/// Headers that most machines with a C compiler have; missing ones are passed over.
const HEADERS: &[&str] = &[
    "stdio.h",
    "stdlib.h",
    "pthread.h",
    "signal.h",
    "time.h",
    "dirent.h",
    "netdb.h",
    "elf.h",
    "link.h",
    "grp.h",
    "sys/stat.h",
    "sys/socket.h",
    "sys/epoll.h",
    "sys/ptrace.h",
    "sys/resource.h",
    "netinet/in.h",
    "netinet/ip.h",
    "netinet/tcp.h",
    "linux/bpf.h",
    "linux/perf_event.h",
    "linux/ethtool.h",
    "linux/fs.h",
    "linux/io_uring.h",
    "linux/kvm.h",
    "linux/nl80211.h",
    "linux/videodev2.h",
    "linux/userfaultfd.h",
    "linux/if_link.h",
    "linux/tcp.h",
    "linux/btrfs.h",
    "linux/vfio.h",
    "linux/snd_sar_tokens.h",
    "sound/asound.h",
    "drm/i915_drm.h",
    "drm/amdgpu_drm.h",
    "rdma/ib_user_verbs.h",
    "linux/cdrom.h",
    "linux/dcbnl.h",
    "linux/pkt_sched.h",
    "linux/taskstats.h",
];

#[derive(Default)]
struct Tally {
    members: u32,
    mapped: u32,
    misses: Vec<String>,
}

#[test]
fn members_of_system_headers_map_to_one_statement() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut tally = Tally::default();
    for header in HEADERS {
        let text = format!("#define _GNU_SOURCE\n#include <stddef.h>\n#include <{header}>\nint x;\n");
        std::fs::write(dir.path().join("one.c"), text).expect("a file");
        let flags = ["-g", "-w", "-fno-eliminate-unused-debug-types", "-c", "one.c", "-o", "one.o"];
        let built = Command::new("gcc").args(flags).current_dir(dir.path()).output().expect("gcc");
        if built.status.success() {
            map_all(&dir.path().join("one.o"), &mut tally);
        }
    }
    if tally.members < 500 {
        return skip(&format!("only {} members in the headers of this machine", tally.members));
    }
    println!("{} of {} members mapped", tally.mapped, tally.members);
    let share = f64::from(tally.mapped) / f64::from(tally.members.max(1));
    assert!(share >= 0.98, "{share}: {:#?}", tally.misses);
}

/// Any object or vmlinux whose sources lie where its debug information says.
#[test]
fn members_of_a_given_build_map_to_one_statement() {
    let Some(path) = given("TUSSLE_MAPPING_ELF") else { return };
    let mut tally = Tally::default();
    map_all(Path::new(&path), &mut tally);
    println!("{} of {} members mapped; {:#?}", tally.mapped, tally.members, tally.misses);
    assert!(f64::from(tally.mapped) >= 0.99 * f64::from(tally.members));
}

fn map_all(path: &Path, tally: &mut Tally) {
    let bytes = std::fs::read(path).expect("a file");
    let (table, _) = tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).expect("types");
    let mut by_file: HashMap<&str, Vec<_>> = HashMap::new();
    for (_, a) in table.aggregates().filter(|(_, a)| a.name.is_some() && a.kind == AggregateKind::Struct) {
        if let (Some(decl), Language::C) = (&a.decl, a.language) {
            by_file.entry(&decl.file).or_default().push(a);
        }
    }
    for (file, list) in by_file {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let source = Source::new(&text);
        for a in list {
            tally_struct(&source, a, tally);
        }
    }
}

fn tally_struct(source: &Source<'_>, a: &tussle_model::Aggregate, tally: &mut Tally) {
    let name = a.name.as_deref().unwrap_or("");
    let line = a.decl.as_ref().map(|d| d.line);
    let list = find(source, name, line).and_then(|body| statements(source, &body));
    for m in a.members.iter().filter(|m| m.role == MemberRole::Field) {
        let Some(field) = &m.name else { continue };
        tally.members += 1;
        let found =
            list.as_ref().map_err(Clone::clone).and_then(|list| in_list(source, list, field, m.decl_line));
        match found {
            Ok(()) => tally.mapped += 1,
            Err(e) => tally.misses.push(format!("{name}.{field}: {e}")),
        }
    }
}

/// The statement in the list, or in a nested body for members that debug information shows flat.
fn in_list(
    source: &Source<'_>,
    list: &[Statement],
    field: &str,
    line: u32,
) -> Result<(), tussle_advise::patch::Refusal> {
    let line = Some(line).filter(|l| *l > 0);
    let direct = statement_of(source, list, field, line).map(|_| ());
    if direct.is_ok() {
        return direct;
    }
    for s in list.iter().filter(|s| declared(source, s).anonymous) {
        for body in bodies_in(source, s.first, s.last) {
            let inner = statements(source, &body)?;
            if statement_of(source, &inner, field, line).is_ok() {
                return Ok(());
            }
        }
    }
    direct
}
