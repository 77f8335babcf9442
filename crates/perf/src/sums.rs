//! Samples summed by place, code and thread while a file is read: one pass, one table.
//!
//! What a data source word counts as is worked out once per distinct word ([`Class`]); a sample then adds a handful
//! of zeros and ones to its row.

use crate::attr::Attr;
use crate::c2c::Totals;
use crate::data_src::{DataSrc, op, tlb};
use crate::file::Visitor;
use crate::maps::Maps;
use crate::record::{Comm, Fork, Ksymbol, Mmap, mode};
use crate::sample::Sample;
use crate::table::Rows;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

/// Keys come from the file: the hash is fast and seeded at random.
pub(crate) type Fast<K, V> = HashMap<K, V, RandomState>;

/// Registers of a sample: number in the architecture's list, value.
pub type RegisterValues = Vec<(u32, u64)>;

/// One place, code address and thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub address: u64,
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
}

/// Counters of a row.
#[allow(missing_docs)]
pub(crate) mod counter {
    pub const LOADS: usize = 0;
    pub const HITM_LOCAL: usize = 1;
    pub const HITM_REMOTE: usize = 2;
    pub const PEER: usize = 3;
    pub const STORE_L1_HIT: usize = 4;
    pub const STORE_L1_MISS: usize = 5;
    pub const STORE_NO_LEVEL: usize = 6;
    pub const LOCKED: usize = 7;
    pub const BLOCKED_DATA: usize = 8;
    pub const BLOCKED_ADDRESS: usize = 9;
    pub const TLB_MISS: usize = 10;
    pub const RECORDS: usize = 11;
    pub const COUNT: usize = 12;
}

/// Samples of one [`Key`]: two cache lines.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Row {
    pub key: Key,
    /// Weights of the HITM and peer samples.
    pub latency: u64,
    /// Events that the samples stand for.
    pub period: u64,
    /// CPUs below 128 that took part, as bits; the others are in [`Sums::far_cpus`].
    cpus: [u64; 2],
    /// Physical address: 0 when unknown, [`SEVERAL`] when samples disagree.
    phys: u64,
    pub counts: [u32; counter::COUNT],
    /// Time of the first sample, for its mapping.
    pub time_ns: u64,
    /// Size of the data page, bytes; saturates.
    page_bytes: u32,
    /// Taking part, of the CPUs from 128 on.
    far_cpus: u32,
}

/// Mark of a value that differs between samples.
const SEVERAL: u64 = u64::MAX;

/// Slots of the cache of code whose callers are known; the shift in [`Sums::chain_of`] leaves as many.
const CHAINED: usize = 1 << 14;

/// Samples that are looked up together.
const BATCH: usize = 32;

/// What is kept of a sample until its batch is full.
#[derive(Clone, Copy, Default)]
struct Item {
    key: Key,
    hash: u64,
    class: u32,
    weight: u32,
    period: u64,
    phys: u64,
    time_ns: u64,
    cpu: Option<u32>,
    page_bytes: u32,
    times: u32,
}

/// What one data source word counts as.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    source: DataSrc,
    counts: [u32; counter::COUNT],
    /// Load or store: has a place.
    placed: bool,
    contended: bool,
    /// Samples with and without a data address.
    seen: [u64; 2],
}

impl Class {
    fn new(source: DataSrc) -> Class {
        let mut t = Totals::default();
        t.count(source, 1, true);
        let mut counts = [0u32; counter::COUNT];
        let set = [
            (counter::LOADS, t.load),
            (counter::HITM_LOCAL, t.local_hitm),
            (counter::HITM_REMOTE, t.remote_hitm),
            (counter::PEER, t.local_peer + t.remote_peer),
            (counter::STORE_L1_HIT, t.store_l1_hit),
            (counter::STORE_L1_MISS, t.store_l1_miss),
            (counter::STORE_NO_LEVEL, t.store_no_level),
            (counter::LOCKED, t.locks),
            (counter::BLOCKED_DATA, t.blocked_data),
            (counter::BLOCKED_ADDRESS, t.blocked_address),
            (counter::TLB_MISS, u64::from(source.tlb() & tlb::MISS != 0)),
            (counter::RECORDS, 1),
        ];
        set.iter().for_each(|(i, n)| counts[*i] = *n as u32);
        let contended = t.hitm() + t.local_peer + t.remote_peer > 0;
        let placed = source.op() & (op::LOAD | op::STORE) != 0;
        Class { source, counts, placed, contended, seen: [0; 2] }
    }
}

/// Everything that the samples of a file, or of several, add up to.
#[derive(Default)]
pub(crate) struct Sums {
    rows: Rows,
    batch: Vec<Item>,
    far_cpus: HashSet<(u32, u32), RandomState>,
    classes: Fast<u64, u32>,
    known: Vec<Class>,
    last_class: usize,
    /// Callers by process and code address, of the first sample that had some.
    pub chains: Fast<(u32, u64), Vec<u64>>,
    chained: Vec<(u32, u64)>,
    /// Registers by row, of its first sample.
    pub registers: Fast<u32, RegisterValues>,
    pub maps: Maps,
    pub names: HashMap<u32, String>,
    pub build_ids: Vec<(String, Vec<u8>)>,
    pub lost: u64,
    pub guests: u64,
}

impl Visitor for Sums {
    fn mmap(&mut self, map: Mmap) {
        self.maps.add(map);
    }

    fn comm(&mut self, comm: Comm) {
        self.maps.exec(&comm);
        self.names.insert(comm.tid, comm.name);
    }

    fn fork(&mut self, fork: Fork) {
        self.maps.fork(fork);
    }

    fn ksymbol(&mut self, symbol: Ksymbol) {
        self.maps.ksymbol(symbol);
    }

    fn build_id(&mut self, path: String, id: Vec<u8>) {
        self.build_ids.push((path, id));
    }

    #[inline]
    fn sample(&mut self, _event: usize, _attr: &Attr, s: &Sample<'_>, misc: u16) {
        self.add(s, misc);
    }

    fn lost(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
    }
}

impl Sums {
    fn class(&mut self, source: DataSrc) -> usize {
        if let Some(c) = self.known.get(self.last_class).filter(|c| c.source == source) {
            debug_assert_eq!(c.source, source);
            return self.last_class;
        }
        let known = &mut self.known;
        let id = *self.classes.entry(source.0).or_insert_with(|| {
            known.push(Class::new(source));
            known.len() as u32 - 1
        });
        self.last_class = id as usize;
        self.last_class
    }

    /// Adds a sample; text readers too give what they found as a [`Sample`]. Call [`Sums::finish`] after the last.
    pub fn add(&mut self, s: &Sample<'_>, misc: u16) {
        self.add_times(s, misc, 1);
    }

    /// Adds several samples that are all alike.
    pub fn add_times(&mut self, s: &Sample<'_>, misc: u16, times: u32) {
        let address = s.addr.unwrap_or(0);
        let class = self.class(s.data_src.unwrap_or_default());
        self.known[class].seen[usize::from(address == 0)] += u64::from(times);
        if address == 0 || !self.known[class].placed {
            return;
        }
        let guest = matches!(misc & mode::MASK, mode::GUEST_KERNEL | mode::GUEST_USER);
        self.guests += u64::from(guest) * u64::from(times);
        let pid = if guest { Maps::GUEST } else { s.pid.unwrap_or(0) };
        let key = Key { address, ip: s.ip.unwrap_or(0), pid, tid: s.tid.unwrap_or(0) };
        let item = Item {
            key,
            hash: self.rows.hash(&key),
            class: class as u32,
            weight: s.weight.unwrap_or(0),
            period: s.period.unwrap_or(0),
            phys: s.phys_addr.unwrap_or(0),
            time_ns: s.time_ns.unwrap_or(u64::MAX),
            cpu: s.cpu,
            times,
            page_bytes: s.data_page_size.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        };
        self.batch.push(item);
        if !s.chain.is_empty() {
            self.chain_of(s, &key);
        }
        if s.regs_intr.mask != 0 || s.regs_user.mask != 0 {
            self.registers_of(s, &key);
        }
        if self.batch.len() >= BATCH {
            self.finish();
        }
    }

    /// Adds what is still in the batch.
    pub fn finish(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut slots = [0u64; BATCH];
        for (slot, item) in slots.iter_mut().zip(&batch) {
            *slot = self.rows.slot(item.hash);
        }
        let warmed = slots.iter().fold(0, |all, slot| all ^ self.rows.touch(*slot));
        std::hint::black_box(warmed);
        for item in &batch {
            let (id, new) = self.rows.find(item.hash, &item.key);
            if new {
                self.first(id, item);
            }
            if let Some(far) = item.cpu.filter(|c| *c >= 128)
                && self.far_cpus.insert((id, far))
            {
                self.rows.rows[id as usize].far_cpus += 1;
            }
            self.rows.rows[id as usize].add(&self.known[item.class as usize], item);
        }
        self.batch = batch;
        self.batch.clear();
    }

    fn first(&mut self, id: u32, item: &Item) {
        self.rows.rows[id as usize].time_ns = item.time_ns;
    }

    /// Keeps the callers of the first sample of some code. Most code was seen a moment ago: a small cache knows.
    fn chain_of(&mut self, s: &Sample<'_>, key: &Key) {
        let code = (key.pid, key.ip);
        self.chained.resize(CHAINED, (u32::MAX, u64::MAX));
        let slot = (key.ip ^ u64::from(key.pid)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        if self.chained[slot as usize] != code {
            self.chained[slot as usize] = code;
            self.chains.entry(code).or_insert_with(|| s.callers().collect());
        }
    }

    /// Registers at the instruction itself, if they are there; those of the process only tell where it was
    /// interrupted.
    fn registers_of(&mut self, s: &Sample<'_>, key: &Key) {
        let registers = if s.regs_intr.mask != 0 { s.regs_intr } else { s.regs_user };
        if s.regs_intr.mask != 0 || key.ip < crate::maps::KERNEL_START {
            self.finish();
            let (id, _) = self.rows.find(self.rows.hash(key), key);
            self.registers.entry(id).or_insert_with(|| registers.each().collect());
        }
    }

    /// Rows in order of their keys.
    pub fn sorted(&self) -> Vec<u32> {
        let rows = &self.rows.rows;
        let mut out: Vec<(Key, u32)> = rows.iter().zip(0..).map(|(r, id)| (r.key, id)).collect();
        out.sort_unstable();
        out.into_iter().map(|r| r.1).collect()
    }

    /// A row.
    pub fn row(&self, id: u32) -> &Row {
        &self.rows.rows[id as usize]
    }

    /// The totals by perf's rules. Call after [`Maps::sort`].
    pub fn totals(&self) -> Totals {
        let mut t = Totals::default();
        for c in &self.known {
            for (i, n) in c.seen.iter().enumerate().filter(|s| *s.1 > 0) {
                t.count_times(c.source, u64::from(i == 0), *n);
            }
        }
        let unmapped = |r: &&Row| {
            let inside = |at: u64| self.maps.mapped_by_perf(r.key.pid, at, r.time_ns);
            // perf looks for the data where the code is: a kernel that copies to a process is rejected.
            let kernel = |at: u64| at >= crate::maps::KERNEL_START;
            kernel(r.key.address) != kernel(r.key.ip) || !inside(r.key.address) || !inside(r.key.ip)
        };
        t.no_map = self.rows.rows.iter().filter(unmapped).map(|r| r.count(counter::RECORDS)).sum();
        t
    }
}

impl Row {
    pub fn new(key: Key) -> Row {
        Row { key, ..Row::default() }
    }

    fn add(&mut self, class: &Class, s: &Item) {
        for (sum, n) in self.counts.iter_mut().zip(class.counts) {
            *sum = sum.saturating_add(n.saturating_mul(s.times));
        }
        if class.contended {
            self.latency = self.latency.saturating_add(u64::from(s.weight) * u64::from(s.times));
        }
        self.period = self.period.saturating_add(s.period);
        if let Some(cpu) = s.cpu.filter(|c| *c < 128) {
            self.cpus[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        // Zero is what the kernel says when it does not tell.
        if s.phys != 0 {
            self.phys = if self.phys == 0 || self.phys == s.phys { s.phys } else { SEVERAL };
        }
        self.page_bytes = self.page_bytes.max(s.page_bytes);
    }

    /// A counter.
    pub fn count(&self, of: usize) -> u64 {
        u64::from(self.counts[of])
    }

    /// CPUs that took part; 0 when samples do not tell.
    pub fn cpus(&self) -> u32 {
        self.cpus[0].count_ones() + self.cpus[1].count_ones() + self.far_cpus
    }

    /// Physical address, if all samples have the same.
    pub fn phys(&self) -> Option<u64> {
        Some(self.phys).filter(|p| *p != 0 && *p != SEVERAL)
    }

    /// Size of the data page, if known.
    pub fn page_bytes(&self) -> Option<u64> {
        Some(u64::from(self.page_bytes)).filter(|n| *n > 0)
    }
}
