//! perf.data to evidence: samples summed by place, code and actor.

use crate::attr::Attr;
use crate::c2c::Totals;
use crate::data_src::{DataSrc, op};
use crate::error::{Error, Problem};
use crate::file::{PerfFile, Visitor};
use crate::record::Mmap;
use crate::sample::Sample;
use crate::tables::Tables;
use std::collections::HashMap;
use tussle_evidence::{Evidence, Loss, Sampled};

/// Addresses from here on are the kernel's (x86-64, arm64, riscv64).
pub(crate) const KERNEL_START: u64 = 1 << 63;

/// What came out of a file.
#[derive(Debug)]
pub struct Imported {
    /// The evidence; names still missing.
    pub evidence: Evidence,
    /// Totals as `perf c2c report --stats` counts them.
    pub totals: Totals,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// Reads a whole perf.data file.
///
/// # Errors
/// Those of [`PerfFile::open`]; damage behind the header is a problem, not an error.
pub fn perf_data(data: &[u8]) -> Result<Imported, Error> {
    let mut file = PerfFile::open(data)?;
    let mut sums = Sums::default();
    file.visit(&mut sums);
    let problems = std::mem::take(&mut file.problems);
    let totals = sums.totals.clone();
    let evidence = sums.evidence(&file, problems.is_empty());
    Ok(Imported { evidence, totals, problems })
}

/// One place, code address and actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    address: u64,
    ip: u64,
    pid: u32,
    tid: u32,
}

/// Samples of one [`Key`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    totals: Totals,
    latency: u64,
    /// CPUs that took part, as bits; those above 127 share the last bit's word, which only makes the count a bound.
    cpus: u128,
}

#[derive(Default)]
struct Sums {
    totals: Totals,
    rows: HashMap<Key, Sum>,
    chains: HashMap<(u32, u64), Vec<u64>>,
    maps: Maps,
    names: HashMap<u32, String>,
    parents: HashMap<u32, u32>,
    lost: u64,
    /// Samples without an address or a data source: nothing to attribute.
    without_place: u64,
}

/// What is mapped where, by process.
#[derive(Default)]
pub(crate) struct Maps {
    by_pid: HashMap<u32, Vec<Mmap>>,
}

impl Maps {
    /// Pid of the kernel's mappings.
    pub(crate) const KERNEL: u32 = u32::MAX;

    fn add(&mut self, map: Mmap) {
        let pid = if map.kernel || map.start >= KERNEL_START { Maps::KERNEL } else { map.pid };
        self.by_pid.entry(pid).or_default().push(map);
    }

    fn sort(&mut self) {
        // Later mappings replace earlier ones at the same address: a stable sort keeps them behind.
        self.by_pid.values_mut().for_each(|list| list.sort_by_key(|m| m.start));
    }

    /// All mappings of a process, by address.
    pub(crate) fn of(&self, pid: u32) -> &[Mmap] {
        self.by_pid.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The mapping that holds an address.
    fn find(&self, pid: u32, address: u64) -> Option<&Mmap> {
        let list = self.of(if address >= KERNEL_START { Maps::KERNEL } else { pid });
        let end = list.partition_point(|m| m.start <= address);
        // Mappings may overlap when memory was mapped anew; a short look back is enough.
        list[..end].iter().rev().take(8).find(|m| address - m.start < m.len)
    }
}

impl Visitor for Sums {
    fn mmap(&mut self, map: Mmap) {
        self.maps.add(map);
    }

    fn comm(&mut self, _pid: u32, tid: u32, name: String) {
        self.names.insert(tid, name);
    }

    fn fork(&mut self, pid: u32, parent: u32) {
        if pid != parent {
            self.parents.entry(pid).or_insert(parent);
        }
    }

    fn mapped(&mut self) {
        self.maps.sort();
    }

    fn sample(&mut self, _event: usize, _attr: &Attr, s: &Sample, _misc: u16) {
        let (address, ip) = (s.addr.unwrap_or(0), s.ip.unwrap_or(0));
        let source = s.data_src.unwrap_or_default();
        let pid = self.owner_of_maps(s.pid.unwrap_or(0));
        let mapped = self.maps.find(pid, address).is_some() && self.maps.find(pid, ip).is_some();
        self.totals.count(source, address, mapped);
        if address == 0 || source.op() & (op::LOAD | op::STORE) == 0 {
            self.without_place += 1;
            return;
        }
        let key = Key { address, ip, pid: s.pid.unwrap_or(0), tid: s.tid.unwrap_or(0) };
        self.rows.entry(key).or_default().add(source, s);
        if !s.chain.is_empty() {
            self.chains.entry((key.pid, ip)).or_insert_with(|| s.chain.clone());
        }
    }

    fn lost(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
    }
}

impl Sum {
    /// Adds a sample that came as text.
    pub(crate) fn add_text(&mut self, source: DataSrc, address: u64, weight: u32) {
        self.add(source, &Sample { addr: Some(address), weight: Some(weight), ..Sample::default() });
    }

    /// Some sample is a load or a store.
    pub(crate) fn placed(&self) -> bool {
        self.totals.load + self.totals.store > 0
    }

    fn add(&mut self, source: DataSrc, s: &Sample) {
        let before = self.totals.hitm() + self.totals.local_peer + self.totals.remote_peer;
        self.totals.count(source, s.addr.unwrap_or(0), true);
        if self.totals.hitm() + self.totals.local_peer + self.totals.remote_peer > before {
            self.latency = self.latency.saturating_add(u64::from(s.weight.unwrap_or(0)));
        }
        self.cpus |= s.cpu.map_or(0, |c| 1 << c.min(127));
    }
}

impl Sums {
    /// A forked process uses its parent's mappings until it maps its own.
    fn owner_of_maps(&self, mut pid: u32) -> u32 {
        for _ in 0..8 {
            if !self.maps.of(pid).is_empty() {
                break;
            }
            match self.parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => break,
            }
        }
        pid
    }

    fn evidence(self, file: &PerfFile<'_>, complete: bool) -> Evidence {
        let arm = file.arch.as_deref().is_some_and(|a| a.starts_with("aarch64") || a.starts_with("arm"));
        let stores = self.totals.store > 0;
        let hitm = !arm || self.totals.hitm() > 0;
        let mut tables = Tables::new();
        tables.modules_of(&self.maps);
        let mut keys: Vec<&Key> = self.rows.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let sum = &self.rows[key];
            let module_pid = self.owner_of_maps(key.pid);
            let actor = tables.thread(key.pid, key.tid, self.names.get(&key.tid));
            let chain = self.chains.get(&(key.pid, key.ip)).map_or(&[][..], Vec::as_slice);
            let code = tables.code(key.pid, module_pid, key.ip, chain, &self.maps);
            let (object, offset) = tables.place(key.pid, key.address);
            let mut row = sampled(sum, stores, hitm, arm);
            (row.object, row.offset) = (object, offset);
            (row.code, row.actor) = (Some(code), Some(actor));
            tables.sample(row);
        }
        let mut evidence = tables.finish();
        evidence.losses = self.losses();
        let run = &mut evidence.run;
        run.command = file.command.clone();
        run.arch = file.arch.clone().unwrap_or_default();
        run.cpu_model = file.cpu_model.clone().unwrap_or_else(|| "unknown CPU".into());
        run.cpus = file.cpus.unwrap_or(0);
        run.unit = if hitm { "HITM samples" } else { "peer samples" }.into();
        (run.sees.writes, run.complete) = (stores, complete);
        run.sees.chains = !self.chains.is_empty();
        evidence
    }

    fn losses(&self) -> Vec<Loss> {
        let loss = |what: &str, count: u64, note: &str| Loss {
            process: None,
            what: what.into(),
            count,
            note: note.into(),
        };
        let t = &self.totals;
        let all = [
            loss(
                "records lost by perf",
                self.lost,
                "the ring buffer was full; shares stay, totals are too low",
            ),
            loss("unparsed data sources", t.unparsed, "neither load nor store: not attributed to any field"),
            loss("samples without an address", t.load_no_address + t.store_no_address, "not attributed"),
            loss(
                "samples outside of any mapping",
                t.no_map,
                "counted here, but left out of perf's own line table",
            ),
        ];
        all.into_iter().filter(|l| l.count > 0).collect()
    }
}

/// Counts of one row; what this unit cannot tell is unknown.
pub(crate) fn sampled(sum: &Sum, stores: bool, hitm: bool, peer: bool) -> Sampled {
    let t = &sum.totals;
    let store = |n: u64| stores.then_some(n);
    let peers = t.local_peer + t.remote_peer;
    Sampled {
        size: 1,
        records: t.records,
        hitm_local: hitm.then_some(t.local_hitm),
        hitm_remote: hitm.then_some(t.remote_hitm),
        peer: (peer || peers > 0).then_some(peers),
        loads: Some(t.load),
        store_l1_hit: store(t.store_l1_hit),
        store_l1_miss: store(t.store_l1_miss),
        store_no_level: store(t.store_no_level),
        latency_cycles: Some(sum.latency),
        cpus: Some(sum.cpus.count_ones()),
        ..Sampled::default()
    }
}
