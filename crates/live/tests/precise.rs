//! Samples of precise loads and stores, as processors write them, through the same session as samples of a clock.

#![allow(clippy::unwrap_used)]

#[path = "../../perf/tests/support/mod.rs"]
#[allow(unused)]
mod support;

use std::collections::BTreeSet;
use support::{INTEL, Plan, Planned, file, random_plan};
use tussle_debuginfo::Bytes;
use tussle_evidence::{Evidence, ObjectKind, Sampled, TouchKind, Unit};
use tussle_live::convert::{About, evidence};
use tussle_live::decode;
use tussle_live::maps::Mapping;
use tussle_live::session::{Program, Session, Target};
use tussle_perf::{PerfFile, import};

/// A process of one mapping without a file, whose code is these bytes.
#[derive(Default)]
struct Code {
    at: u64,
    bytes: Vec<u8>,
    now_ns: u64,
    more: String,
}

impl Target for Code {
    fn maps(&mut self, _: u32) -> Option<String> {
        Some(format!("{:x}-{:x} r-xp 00000000 00:00 0\n{}", self.at, self.at + 0x1000, self.more))
    }
    fn program(&mut self, _: u32) -> Option<Program> {
        None
    }
    fn thread_name(&mut self, _: u32, _: u32) -> Option<String> {
        None
    }
    fn file(&mut self, _: u32, _: &Mapping) -> Option<Bytes> {
        None
    }
    fn memory(&mut self, _: u32, address: u64, buffer: &mut [u8]) -> usize {
        let Some(from) = address.checked_sub(self.at) else { return 0 };
        let rest = self.bytes.get(from as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        n
    }
    fn jit_names(&mut self, _: u32) -> Option<String> {
        None
    }
    fn jit_dump(&mut self, _: u32, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn now_ns(&mut self) -> u64 {
        self.now_ns += 1_000_000;
        self.now_ns
    }
}

/// The records of a perf.data file, which are those of rings, through a session.
fn watch(data: &[u8], target: &mut Code) -> Session {
    let attr = PerfFile::open(&data).unwrap().attrs[0].clone();
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (word(40), word(48));
    let mut session = Session::default();
    session.unit = Unit::PreciseSamples;
    for event in decode::events(&data[start..start + length], &attr) {
        session.take(&event, target);
    }
    session
}

fn made(mut session: Session, target: &mut Code) -> Evidence {
    evidence(&mut session, &About::default(), target).0
}

fn sum(rows: &[Sampled], of: impl Fn(&Sampled) -> Option<u64>) -> u64 {
    rows.iter().filter_map(of).sum()
}

/// Loads and stores of user code by what the processor told of them, summed over all lines.
fn totals(session: &Session) -> [u64; 7] {
    let mut out = [0; 7];
    for row in session.lines.all().flat_map(|l| &l.1.rows) {
        let t = &row.told;
        let all =
            [t.loads, t.hitm_local, t.hitm_remote, t.peer, t.store_l1_hit, t.store_l1_miss, t.store_no_level];
        out.iter_mut().zip(all).for_each(|(sum, n)| *sum += u64::from(n));
    }
    out
}

/// The same by the importer of perf.data.
fn imported(data: &[u8]) -> [u64; 7] {
    let e = import::perf_data(data).unwrap().evidence;
    let user = |s: &&Sampled| {
        let below = |a: u64| a < 1 << 63;
        let base = e.objects[s.object as usize].base;
        below(base.wrapping_add(s.offset)) && s.code.is_some_and(|c| below(e.code[c as usize].address))
    };
    let rows: Vec<Sampled> = e.samples.iter().flatten().filter(user).cloned().collect();
    [
        sum(&rows, |s| s.loads),
        sum(&rows, |s| s.hitm_local),
        sum(&rows, |s| s.hitm_remote),
        sum(&rows, |s| s.peer),
        sum(&rows, |s| s.store_l1_hit),
        sum(&rows, |s| s.store_l1_miss),
        sum(&rows, |s| s.store_no_level),
    ]
}

fn plan(seed: u64) -> Plan {
    Plan { sample_types: vec![INTEL], ..random_plan(seed, 500) }
}

/// Live and from a file the same samples say the same.
#[test]
fn what_is_watched_adds_up_to_what_is_imported() {
    for seed in 1..20 {
        let mut plan = plan(seed);
        plan.samples.iter_mut().for_each(|s| s.event = 0);
        let data = file(&plan);
        let session = watch(&data, &mut Code::default());
        assert_eq!(session.lines.rows_lost, 0);
        assert_eq!(totals(&session), imported(&data), "seed {seed}");
        assert!(totals(&session)[1] > 0 && session.counts.no_memory > 0 && session.counts.unknown > 0);
        let c = session.counts;
        assert_eq!(c.samples, c.exact + c.no_memory + c.unknown);
    }
}

/// `TUSSLE_PERF_RECORDED=FILE`: a recording of `perf c2c` from a machine with a PMU.
#[test]
fn a_recording_says_the_same_live() {
    let Some(path) = tussle_testkit::given("TUSSLE_PERF_RECORDED") else { return };
    let data = std::fs::read(path).unwrap();
    let mut code = Code::default();
    let session = watch(&data, &mut code);
    println!("{:?}, {:?}", session.counts, totals(&session));
    assert_eq!(totals(&session), imported(&data));
}

/// `op | level << 5 | snoop << 19 | lock << 24`, bits of `perf_mem_data_src`.
const LOAD_HITM: u64 = 2 | (0x2 | 0x40) << 5 | 0x10 << 19 | 1 << 24 | 1 << 26;
const LOAD_L1: u64 = 2 | (0x2 | 0x8) << 5 | 0x2 << 19 | 1 << 24 | 1 << 26;
const STORE: u64 = 4 | (0x4 | 0x8) << 5 | 0x1 << 19 | 1 << 24 | 1 << 26;
const NOTHING: u64 = 1 | 1 << 5 | 1 << 19 | 1 << 24 | 1 << 26;

/// Three instructions, a kernel's, one that is none.
const TEXT: u64 = 0x40_0000;
const LINE: u64 = 0x7f00_0000_1000;

fn code() -> Code {
    // lock add qword [rbx+8], 1; mov ecx, [rdi]; movsq; hlt
    let bytes = [&[0xf0, 0x48, 0x83, 0x43, 0x08, 0x01][..], &[0x8b, 0x0f], &[0x48, 0xa5], &[0xf4]].concat();
    Code { at: TEXT, bytes, ..Code::default() }
}

fn sample(tid: u32, ip: u64, addr: u64, data_src: u64) -> Planned {
    Planned { ip, pid: 500, tid, addr, data_src, weight: 300, period: 7, time: 1000, ..Planned::default() }
}

fn samples() -> Vec<Planned> {
    let mut out = Vec::new();
    for _ in 0..100 {
        out.push(sample(501, TEXT, LINE + 8, LOAD_HITM));
        out.push(sample(501, TEXT, LINE + 8, STORE));
        out.push(sample(502, TEXT + 6, LINE + 32, LOAD_HITM));
        // Of two operands only one is loaded.
        out.push(sample(502, TEXT + 8, LINE + 40, LOAD_L1));
        out.push(sample(502, TEXT + 10, LINE + 48, LOAD_L1));
    }
    out.push(sample(501, TEXT, 0, LOAD_L1));
    out.push(sample(501, TEXT, 0, NOTHING));
    out.push(sample(501, 0xffff_ffff_8100_0000, LINE, LOAD_L1));
    out.push(sample(501, TEXT, 0xffff_8880_0000_1000, LOAD_L1));
    out
}

#[test]
fn code_says_how_many_bytes_and_whether_a_load_is_a_store_as_well() {
    let plan =
        Plan { sample_types: vec![INTEL], samples: samples(), maps: Vec::new(), cpus: 2, more: Vec::new() };
    let mut code = code();
    let session = watch(&file(&plan), &mut code);
    let c = session.counts;
    assert_eq!((c.samples, c.exact, c.unknown, c.no_memory, c.kernels), (503, 501, 1, 1, 1));
    let ranked: Vec<_> = session.lines.ranked().collect();
    assert_eq!(ranked.len(), 1);
    let seen: BTreeSet<(u8, u8, &str)> =
        ranked[0].1.rows.iter().map(|r| (r.offset, r.size, word(r.kind))).collect();
    let wanted = [(8, 8, "rmw"), (32, 4, "read"), (40, 8, "read"), (48, 1, "read")];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), wanted);
    // The register that points to the object holds the address less what the instruction adds.
    let first = ranked[0].1.rows.iter().find(|r| r.offset == 8).unwrap();
    assert!(first.locked && first.operand == [Some((1, LINE)), None]);
    let e = made(session, &mut code);
    assert_eq!(e.run.unit, Unit::PreciseSamples);
    let rows = e.samples.unwrap();
    assert_eq!(sum(&rows, |s| Some(s.records)), 500);
    assert_eq!([sum(&rows, |s| s.hitm_local), sum(&rows, |s| s.loads)], [200, 400]);
    assert_eq!([sum(&rows, |s| s.store_l1_miss), sum(&rows, |s| s.store_no_level)], [100, 0]);
    // Latencies are those of HITM samples, events stand for all.
    assert_eq!([sum(&rows, |s| s.latency_cycles), sum(&rows, |s| s.period)], [200 * 300, 500 * 7]);
    let lost = |what: &str| e.losses.iter().filter(|l| l.what.contains(what)).map(|l| l.count).sum::<u64>();
    assert_eq!(
        (lost("elsewhere"), lost("neither"), lost("kernel's own"), lost("cannot be told")),
        (1, 1, 1, 1)
    );
}

fn word(kind: TouchKind) -> &'static str {
    match kind {
        TouchKind::Read => "read",
        TouchKind::Write => "write",
        TouchKind::Rmw => "rmw",
    }
}

/// A stack has a guard below it. Go's runtime has its heap and its stacks side by side, and no guard.
#[test]
fn memory_beside_a_stack_without_a_guard_is_not_called_one() {
    let plan =
        Plan { sample_types: vec![INTEL], samples: samples(), maps: Vec::new(), cpus: 2, more: Vec::new() };
    let kind = |guard: &str, stacks: usize| {
        let mut code = code();
        code.more = format!("{guard}{:x}-{:x} rw-p 00000000 00:00 0\n", LINE - 0x1000, LINE + 0x8000);
        let mut session = watch(&file(&plan), &mut code);
        session.threads.iter_mut().take(stacks).for_each(|t| t.stack_pointer = LINE + 0x4000);
        made(session, &mut code).objects[0].kind
    };
    let guard =
        |bytes: u64| format!("{:x}-{:x} ---p 00000000 00:00 0\n", LINE - 0x1000 - bytes, LINE - 0x1000);
    assert_eq!(kind(&guard(0x1000), 1), ObjectKind::Stack);
    assert_eq!(kind("", 1), ObjectKind::Unknown);
    assert_eq!(kind(&guard(0x1000).replace("---p", "rw-p"), 1), ObjectKind::Unknown);
    assert_eq!(kind(&guard(0x1000), 2), ObjectKind::Unknown, "of two threads");
    assert_eq!(kind(&guard(32 << 20), 1), ObjectKind::Unknown, "room to grow");
}

/// Clocks of whole CPUs tell of everybody.
#[test]
fn of_the_whole_machine_only_known_processes_and_their_children_count() {
    use tussle_live::decode::Event;
    let (mut session, mut target) = (Session::default(), Code::default());
    session.whole_machine = true;
    session.thread(10, 10, &mut target);
    let named = |pid: u32| Event::Named(pid, pid, "somebody".into(), false);
    let steps =
        [Event::Forked(21, 20, 21, 20), named(20), named(21), Event::Forked(11, 10, 11, 10), named(11)];
    steps.iter().for_each(|e| session.take(e, &mut target));
    let pids: Vec<u32> = session.processes.iter().map(|p| p.pid).collect();
    assert_eq!(pids, [10, 11]);
    session.take(&Event::Ended(11, 11), &mut target);
    session.take(&named(11), &mut target);
    assert_eq!(session.processes.len(), 2, "the number belongs to somebody else now");
}

/// Jobs of milliseconds that one thread starts one after the other are one thread to whoever looks at a line.
#[test]
fn threads_of_one_creator_that_follow_each_other_are_one() {
    use tussle_live::decode::Event;
    let (mut session, mut target) = (Session::default(), Code::default());
    session.thread(10, 10, &mut target);
    let mut take = |session: &mut Session, e: &[Event]| e.iter().for_each(|e| session.take(e, &mut target));
    let (forked, ended) = (|tid| Event::Forked(10, 10, tid, 10), |tid| Event::Ended(10, tid));
    let named = |tid, name: &str| Event::Named(10, tid, name.into(), false);
    take(&mut session, &[forked(11), forked(12), ended(12), ended(11), forked(13), forked(14)]);
    let tids = |s: &Session| s.threads.iter().map(|t| (t.tid, t.in_turn)).collect::<Vec<_>>();
    assert_eq!(tids(&session), [(10, 0), (13, 1), (14, 1)], "the first takes the place of the first");
    // While they live, others are others.
    take(&mut session, &[forked(15), named(15, "writer"), ended(13), ended(15)]);
    // A name tells: the place of `writer` is for a writer.
    take(&mut session, &[forked(16), named(16, "writer"), forked(17), named(17, "reader")]);
    let names: Vec<_> =
        session.threads.iter().map(|t| (t.tid, t.name.as_deref().unwrap_or(""), t.in_turn)).collect();
    assert_eq!(names[3], (16, "writer", 1), "{names:?}");
    assert_eq!(names.last(), Some(&(17, "reader", 0)), "{names:?}");
}
