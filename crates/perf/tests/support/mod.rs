//! Writes valid perf.data files: there is no PMU where these tests run. Checked by perf itself reading them.
#![allow(dead_code)]

use tussle_perf::attr::bit;

/// What to write.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One per event.
    pub sample_types: Vec<u64>,
    pub samples: Vec<Planned>,
    /// `(pid, start, len, path)`.
    pub maps: Vec<(u32, u64, u64, &'static str)>,
    pub cpus: u32,
    /// Further records and their times: kind, `misc`, body without the identifying fields.
    pub more: Vec<(u64, u32, u16, Vec<u8>)>,
}

/// One sample.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    pub event: usize,
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub addr: u64,
    pub cpu: u32,
    pub period: u64,
    pub weight: u64,
    pub data_src: u64,
    pub phys: u64,
    pub chain: Vec<u64>,
    /// In a guest.
    pub guest: bool,
}

/// What `perf c2c record` asks for on Intel.
pub const INTEL: u64 = bit::IP
    | bit::TID
    | bit::TIME
    | bit::ADDR
    | bit::CPU
    | bit::PERIOD
    | bit::WEIGHT
    | bit::DATA_SRC
    | bit::IDENTIFIER
    | bit::PHYS_ADDR;

#[derive(Default)]
pub struct Out(pub Vec<u8>);

impl Out {
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    /// Text with its padded length in front, as features have it.
    pub fn text(&mut self, s: &str) -> &mut Self {
        let len = (s.len() + 1).div_ceil(64) * 64;
        self.u32(len as u32);
        self.0.extend(s.as_bytes());
        self.0.resize(self.0.len() + len - s.len(), 0);
        self
    }
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let padded = body.len().div_ceil(8) * 8;
        self.u32(kind).u16(misc).u16((8 + padded) as u16);
        self.0.extend(body);
        self.0.resize(self.0.len() + padded - body.len(), 0);
    }
}

/// Id of an event in samples.
fn id(event: usize) -> u64 {
    100 + event as u64
}

pub fn attr(sample_type: u64, config: u64) -> Vec<u8> {
    let mut o = Out::default();
    // type PERF_TYPE_RAW, size 128; period 1; read_format ID; sample_id_all, mmap, comm, task, precise
    o.u32(4).u32(128).u64(config).u64(1).u64(sample_type).u64(4);
    o.u64((1 << 18) | (1 << 8) | (1 << 9) | (1 << 13));
    o.u32(0)
        .u32(0)
        .u64(0)
        .u64(0)
        .u64(0)
        .u64(0)
        .u32(0)
        .u32(0)
        .u64(0)
        .u32(0)
        .u16(0)
        .u16(0)
        .u32(0)
        .u32(0)
        .u64(0);
    o.0.resize(128, 0);
    o.0
}

pub fn sample_body(p: &Planned, sample_type: u64) -> Vec<u8> {
    let has = |b: u64| sample_type & b != 0;
    let mut o = Out::default();
    if has(bit::IDENTIFIER) {
        o.u64(id(p.event));
    }
    if has(bit::IP) {
        o.u64(p.ip);
    }
    if has(bit::TID) {
        o.u32(p.pid).u32(p.tid);
    }
    if has(bit::TIME) {
        o.u64(p.time);
    }
    if has(bit::ADDR) {
        o.u64(p.addr);
    }
    if has(bit::ID) {
        o.u64(id(p.event));
    }
    if has(bit::STREAM_ID) {
        o.u64(7);
    }
    if has(bit::CPU) {
        o.u32(p.cpu).u32(0);
    }
    if has(bit::PERIOD) {
        o.u64(p.period);
    }
    if has(bit::READ) {
        // A running counter: perf drops samples whose counter did not move.
        o.u64(10 * p.time).u64(id(p.event));
    }
    if has(bit::CALLCHAIN) {
        o.u64(p.chain.len() as u64);
        p.chain.iter().for_each(|a| {
            o.u64(*a);
        });
    }
    if has(bit::RAW) {
        o.u32(12).u32(1).u32(2).u32(3);
    }
    if has(bit::BRANCH_STACK) {
        o.u64(1).u64(1).u64(2).u64(3);
    }
    if has(bit::WEIGHT) || has(bit::WEIGHT_STRUCT) {
        o.u64(p.weight);
    }
    if has(bit::DATA_SRC) {
        o.u64(p.data_src);
    }
    if has(bit::TRANSACTION) {
        o.u64(0);
    }
    if has(bit::PHYS_ADDR) {
        o.u64(p.phys);
    }
    if has(bit::DATA_PAGE_SIZE) {
        o.u64(4096);
    }
    o.0
}

/// The identifying fields behind other records (`sample_id_all`).
fn sample_id(sample_type: u64, pid: u32, time: u64) -> Vec<u8> {
    let has = |b: u64| sample_type & b != 0;
    let mut o = Out::default();
    if has(bit::TID) {
        o.u32(pid).u32(pid);
    }
    if has(bit::TIME) {
        o.u64(time);
    }
    if has(bit::ID) {
        o.u64(id(0));
    }
    if has(bit::STREAM_ID) {
        o.u64(7);
    }
    if has(bit::CPU) {
        o.u32(0).u32(0);
    }
    if has(bit::IDENTIFIER) {
        o.u64(id(0));
    }
    o.0
}

/// Body of MMAP.
pub fn mmap_body(pid: u32, start: u64, len: u64, path: &str) -> Vec<u8> {
    let mut b = Out::default();
    b.u32(pid).u32(pid).u64(start).u64(len).u64(0);
    text(&mut b, path);
    b.0
}

/// Body of MMAP2 with a build-id (misc bit 14).
pub fn mmap2_body(pid: u32, start: u64, len: u64, path: &str, id: [u8; 20]) -> Vec<u8> {
    let mut b = Out::default();
    b.u32(pid).u32(pid).u64(start).u64(len).u64(0).u32(20);
    b.0.extend(id);
    b.u32(5).u32(2);
    text(&mut b, path);
    b.0
}

/// Body of COMM.
pub fn comm_body(pid: u32, name: &str) -> Vec<u8> {
    let mut b = Out::default();
    b.u32(pid).u32(pid);
    text(&mut b, name);
    b.0
}

/// Body of FORK.
pub fn fork_body(pid: u32, parent: u32, time: u64) -> Vec<u8> {
    let mut b = Out::default();
    b.u32(pid).u32(parent).u32(pid).u32(parent).u64(time);
    b.0
}

/// Body of KSYMBOL.
pub fn ksymbol_body(start: u64, len: u32, name: &str) -> Vec<u8> {
    let mut b = Out::default();
    b.u64(start).u32(len).u16(1).u16(0);
    text(&mut b, name);
    b.0
}

/// Text with at least one NUL, padded to 8 bytes.
fn text(b: &mut Out, s: &str) {
    b.0.extend(s.as_bytes());
    b.0.resize(b.0.len() + 8 - s.len() % 8, 0);
}

fn records(plan: &Plan) -> Vec<u8> {
    let mut o = Out::default();
    let sample_type = plan.sample_types[0];
    for (pid, start, len, path) in &plan.maps {
        let kernel = *start >= 1 << 63;
        let mut b = Out(mmap_body(*pid, *start, *len, path));
        b.0.extend(sample_id(sample_type, *pid, 1));
        o.record(1, if kernel { 1 } else { 2 }, &b.0);
    }
    let mut more: Vec<_> = plan.more.iter().collect();
    more.sort_by_key(|m| m.0);
    let mut more = more.into_iter().peekable();
    let mut put = |o: &mut Out, until: u64| {
        while let Some((time, kind, misc, body)) = more.next_if(|m| m.0 <= until) {
            let mut b = body.clone();
            b.extend(sample_id(sample_type, 0, *time));
            o.record(*kind, *misc, &b);
        }
    };
    for s in &plan.samples {
        put(&mut o, s.time);
        let mode = match (s.ip >= 1 << 63, s.guest) {
            (true, false) => 1,
            (false, false) => 2,
            (true, true) => 4,
            (false, true) => 5,
        };
        o.record(9, mode, &sample_body(s, plan.sample_types[s.event]));
    }
    put(&mut o, u64::MAX);
    o.0
}

/// Features that `perf c2c report` insists on: number of CPUs, NUMA nodes.
fn features(plan: &Plan) -> Vec<(u32, Vec<u8>)> {
    let mut arch = Out::default();
    arch.text("x86_64");
    let mut cpus = Out::default();
    cpus.u32(plan.cpus).u32(plan.cpus);
    let mut numa = Out::default();
    numa.u32(1).u32(0).u64(1 << 20).u64(1 << 19).text(&format!("0-{}", plan.cpus - 1));
    // Memory blocks of 128 MiB: version, block size, one node with 64 blocks as a bitmap.
    let mut memory = Out::default();
    memory.u64(1).u64(128 << 20).u64(1).u64(0).u64(64).u64(64).u64(u64::MAX);
    vec![(6, arch.0), (7, cpus.0), (14, numa.0), (22, memory.0)]
}

/// A whole file.
pub fn file(plan: &Plan) -> Vec<u8> {
    let (mut head, tail) = halves(plan, records(plan).len() as u64);
    head.extend(tail);
    head
}

/// The header with the records of the plan, and what comes behind a data section of `data_len` bytes.
fn halves(plan: &Plan, data_len: u64) -> (Vec<u8>, Vec<u8>) {
    let n = plan.sample_types.len() as u64;
    let (header, entry) = (104u64, 128u64 + 16);
    let ids_at = header;
    let attrs_at = ids_at + 8 * n;
    let data_at = attrs_at + entry * n;
    let features = features(plan);
    let mut bits = [0u64; 4];
    for (f, _) in &features {
        bits[*f as usize / 64] |= 1 << (f % 64);
    }
    let mut o = Out(b"PERFILE2".to_vec());
    o.u64(header).u64(entry).u64(attrs_at).u64(entry * n).u64(data_at).u64(data_len).u64(0).u64(0);
    bits.iter().for_each(|b| {
        o.u64(*b);
    });
    assert_eq!(o.0.len() as u64, header);
    (0..n as usize).for_each(|e| {
        o.u64(id(e));
    });
    for (e, t) in plan.sample_types.iter().enumerate() {
        // 0x1cd: load latency, 0x2cd: precise stores
        o.0.extend(attr(*t, 0x1cd + 0x100 * e as u64));
        o.u64(ids_at + 8 * e as u64).u64(8);
    }
    o.0.extend(records(plan));
    let mut tail = Out::default();
    let mut at = data_at + data_len + 16 * features.len() as u64;
    for (_, body) in &features {
        tail.u64(at).u64(body.len() as u64);
        at += body.len() as u64;
    }
    features.iter().for_each(|(_, body)| tail.0.extend(body));
    (o.0, tail.0)
}

/// A small random generator (splitmix64), so that every run writes the same files.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Loads and stores of a few threads on a few lines, with data sources as Intel, AMD and Arm report them.
pub fn random_plan(seed: u64, samples: usize) -> Plan {
    let mut r = Rng(seed);
    let extra = [0, bit::CALLCHAIN, bit::RAW, bit::BRANCH_STACK, bit::READ, bit::STREAM_ID, bit::TRANSACTION];
    let mut sample_type = INTEL | r.pick(&extra) | r.pick(&extra);
    if r.below(2) == 0 {
        sample_type = sample_type & !bit::WEIGHT | bit::WEIGHT_STRUCT;
    }
    let sample_types = if r.below(2) == 0 { vec![sample_type] } else { vec![sample_type, sample_type] };
    let sources = sources();
    let planned = (0..samples).map(|i| {
        let line = 0x7f00_0000_0000 + 64 * r.below(6);
        let data_src = if r.below(20) == 0 { r.next() & 0xf_ffff_ffff } else { r.pick(&sources) };
        Planned {
            event: r.below(sample_types.len() as u64) as usize,
            ip: 0x40_0000 + 4 * r.below(64),
            pid: 500,
            tid: 500 + r.below(4) as u32,
            time: 1000 + i as u64,
            addr: if r.below(40) == 0 { 0 } else { line + 8 * r.below(8) },
            cpu: r.below(4) as u32,
            period: 1 + r.below(1000),
            weight: 30 + r.below(500),
            data_src,
            phys: 0x1_0000 + line % 4096,
            chain: vec![0xffff_ffff_ffff_fe00, 0x40_0000, 0x40_0100],
            guest: false,
        }
    });
    let samples = planned.collect();
    let maps = vec![(500, 0x40_0000, 0x1_0000, "/nowhere/prog"), (500, 0x7f00_0000_0000, 0x2_0000, "//anon")];
    Plan { sample_types, samples, maps, cpus: 4, more: Vec::new() }
}

/// Data sources that occur: (op, level, snoop, lock, remote, snoopx, hops).
fn sources() -> Vec<u64> {
    let word = |op: u64, lvl: u64, snp: u64, lock: u64, remote: u64, snoopx: u64, hops: u64| {
        op | lvl << 5 | snp << 19 | lock << 24 | 1 << 26 | remote << 37 | snoopx << 38 | hops << 43
    };
    vec![
        word(2, 0x2 | 0x8, 2, 1, 0, 0, 0),      // L1 hit
        word(2, 0x2 | 0x10, 2, 1, 0, 0, 0),     // fill buffer
        word(2, 0x2 | 0x20, 2, 1, 0, 0, 0),     // L2 hit
        word(2, 0x2 | 0x20, 2, 1, 0, 2, 0),     // L2, peer (Arm)
        word(2, 0x2 | 0x40, 0x10, 1, 0, 0, 0),  // local HITM
        word(2, 0x2 | 0x40, 4, 2, 0, 0, 0),     // LLC hit, locked
        word(2, 0x2 | 0x400, 0x10, 1, 1, 0, 0), // remote HITM
        word(2, 0x2 | 0x400, 4, 1, 0, 0, 0),    // remote hit
        word(2, 0x2 | 0x80, 4, 1, 0, 0, 0),     // local DRAM, shared
        word(2, 0x2 | 0x100, 8, 1, 1, 0, 0),    // remote DRAM
        word(2, 0x4 | 0x40, 0x10, 1, 1, 0, 1),  // miss, one hop
        word(4, 0x2 | 0x8, 1, 1, 0, 0, 0),      // store L1 hit
        word(4, 0x4 | 0x8, 1, 2, 0, 0, 0),      // store L1 miss, locked
        word(4, 0x1, 1, 1, 0, 0, 0),            // store, level unknown
        word(4, 0x2 | 0x2000, 1, 1, 0, 0, 0),   // store, uncached
        word(1, 1, 1, 1, 0, 0, 0),              // nothing known
    ]
}

/// What a big file holds: a few hot lines, and many places that are touched now and then.
#[derive(Clone, Copy)]
pub struct Big {
    pub hot_lines: u64,
    pub cold_places: u64,
    pub cold_share: u64,
    pub threads: u64,
}

impl Default for Big {
    fn default() -> Big {
        Big { hot_lines: 64, cold_places: 200_000, cold_share: 10, threads: 16 }
    }
}

/// Writes a file of about `bytes` in pieces, so that it does not have to fit into memory; returns the samples in it.
pub fn write_big(path: &std::path::Path, bytes: u64, big: Big) -> u64 {
    use std::io::{Seek, SeekFrom, Write};
    let (mut r, sources) = (Rng(1), sources());
    let maps = vec![(500, 0x40_0000, 0x10_0000, "/nowhere/prog"), (500, 0x7f00_0000_0000, 1 << 32, "//anon")];
    let plan = Plan {
        sample_types: vec![INTEL | bit::CALLCHAIN],
        samples: Vec::new(),
        maps,
        cpus: 16,
        more: Vec::new(),
    };
    let (head, tail) = halves(&plan, 0);
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    out.write_all(&head).unwrap();
    let (mut written, mut samples) = (records(&plan).len() as u64, 0);
    while written < bytes {
        let cold = r.below(100) < big.cold_share;
        let place = if cold { 4096 + 64 * r.below(big.cold_places) } else { 64 * r.below(big.hot_lines) };
        let tid = 500 + if cold { place / 64 % big.threads } else { r.below(big.threads) };
        let word = 8 * r.below(8);
        let s = Planned {
            event: 0,
            // Code at a place is that of a few instructions, as in real programs.
            ip: 0x40_0000 + 4 * ((place / 64 * 7 + word) % 50_000 + r.below(4)),
            pid: 500,
            tid: tid as u32,
            time: 1000 + samples,
            addr: 0x7f00_0000_0000 + place + word,
            cpu: tid as u32 % 16,
            period: 1 + r.below(1000),
            weight: 30 + r.below(500),
            data_src: r.pick(&sources),
            phys: 0x1_0000_0000 + place + word,
            chain: vec![0xffff_ffff_ffff_fe00, 0x40_0000, 0x40_0100, 0x40_0200],
            guest: false,
        };
        let mut o = Out::default();
        o.record(9, 2, &sample_body(&s, plan.sample_types[0]));
        out.write_all(&o.0).unwrap();
        written += o.0.len() as u64;
        samples += 1;
    }
    let end = halves(&plan, written);
    assert_eq!(end.1.len(), tail.len());
    out.write_all(&end.1).unwrap();
    out.seek(SeekFrom::Start(0)).unwrap();
    out.write_all(&end.0).unwrap();
    out.flush().unwrap();
    samples
}

/// A machine with a kernel, a module, processes that fork and run other programs, guests, and code made at run time.
pub fn machine_plan(seed: u64, samples: usize) -> Plan {
    let mut plan = random_plan(seed, samples);
    let mut r = Rng(seed ^ 0x5a5a);
    let (fork, exec) = (1000 + samples as u64 / 3, 1000 + samples as u64 * 2 / 3);
    plan.maps.push((u32::MAX, 0xffff_ffff_8100_0000, 0x1e0_0000, "[kernel.kallsyms]_text"));
    plan.maps.push((u32::MAX, 0xffff_ffff_c000_0000, 0x1_0000, "[nf_conntrack]"));
    let (misc_exec, misc_id) = (1 << 13 | 2, 1 << 14 | 2);
    plan.more = vec![
        (fork, 7, 0, fork_body(600, 500, fork)),
        (exec, 3, misc_exec, comm_body(600, "other")),
        (exec + 1, 10, misc_id, mmap2_body(600, 0x50_0000, 0x1_0000, "/nowhere/other", [7; 20])),
        (exec + 1, 10, 2, mmap2_body(600, 0x7f00_0000_0000, 0x80, "/nowhere/data", [0; 20])),
        (1, 17, 0, ksymbol_body(0xffff_ffff_c010_0000, 0x1000, "bpf_prog_made")),
    ];
    let kernel_data = [0xffff_8880_0000_1000, 0xffff_ffff_8200_0040, 0xffff_ffff_c000_1000];
    for s in &mut plan.samples {
        match r.below(12) {
            0 | 1 if s.time > fork => (s.pid, s.tid) = (600, 600),
            2 if s.time > exec + 1 => (s.pid, s.tid, s.ip) = (600, 600, 0x50_0000 + 4 * r.below(16)),
            3 => s.ip = 0xffff_ffff_8100_0000 + 4 * r.below(32),
            4 => {
                (s.ip, s.addr) =
                    (0xffff_ffff_8100_0000 + 4 * r.below(32), r.pick(&kernel_data) + 8 * r.below(8))
            }
            5 => s.ip = 0xffff_ffff_c000_0000 + 4 * r.below(8),
            6 => s.ip = 0xffff_ffff_c010_0000 + 4 * r.below(8),
            7 => s.addr = 0x6666_0000_0000 + 8 * r.below(8),
            8 if r.below(4) == 0 => s.guest = true,
            _ => {}
        }
    }
    plan
}

/// Samples of a kernel's code on made-up objects: (code address, data address), by a process on a CPU each.
pub fn kernel_plan(text: u64, len: u64, places: &[(u64, u64)]) -> Plan {
    let one = |(i, (ip, addr)): (usize, &(u64, u64))| Planned {
        ip: *ip,
        pid: 500,
        tid: 500 + i as u32 % 4,
        time: 1000 + i as u64,
        addr: *addr,
        cpu: i as u32 % 4,
        period: 1,
        weight: 300,
        // local HITM
        data_src: 2 | (0x2 | 0x40) << 5 | 0x10 << 19 | 1 << 24 | 1 << 26,
        ..Planned::default()
    };
    Plan {
        sample_types: vec![INTEL],
        samples: places.iter().enumerate().map(one).collect(),
        maps: vec![(u32::MAX, text, len, "[kernel.kallsyms]_text")],
        cpus: 4,
        more: Vec::new(),
    }
}
