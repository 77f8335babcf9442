//! perf.data to evidence: samples summed by place, code and actor.

use crate::c2c::Totals;
use crate::error::{Error, Skipped};
use crate::file::PerfFile;
use crate::input::Input;
use crate::maps::Maps;
use crate::record::Mmap;
use crate::sums::{Row, Sums, counter};
use crate::tables::Tables;
use tussle_evidence::{Evidence, Loss, Sampled, Unit};

pub use crate::sums::RegisterValues;

/// What came out of a file.
#[derive(Debug)]
pub struct Imported {
    /// The evidence; names still missing.
    pub evidence: Evidence,
    /// Totals as `perf c2c report --stats` counts them.
    pub totals: Totals,
    /// What could not be read.
    pub problems: Vec<Skipped>,
    /// Registers of a row of the samples table, from its first sample: (row, values).
    pub registers: Vec<(u32, RegisterValues)>,
}

/// One recording: a file, or the `data` file of a folder with the `data.N` files beside it.
#[derive(Clone)]
pub struct Recording<'a> {
    /// The file with the header.
    pub main: &'a dyn Input,
    /// Files without header that hold further records.
    pub more: Vec<&'a dyn Input>,
}

/// Reads a whole perf.data file from memory.
///
/// # Errors
/// Those of [`PerfFile::open`]; damage behind the header is a problem, not an error.
pub fn perf_data(data: &[u8]) -> Result<Imported, Error> {
    recordings(&[Recording { main: &data, more: Vec::new() }])
}

/// Reads one recording, or several (of `perf record --switch-output`) as if they were one.
///
/// # Errors
/// Those of [`PerfFile::open`]; damage behind the header is a problem, not an error.
pub fn recordings(all: &[Recording<'_>]) -> Result<Imported, Error> {
    let mut sums = Sums::default();
    let (mut problems, mut first) = (Vec::new(), None);
    for r in all {
        let mut file = PerfFile::open(r.main)?;
        file.visit(&r.more, &mut sums);
        problems.append(&mut file.problems);
        sums.build_ids.append(&mut file.build_ids);
        first.get_or_insert(file);
    }
    let Some(file) = first else { return Err(Error::NoAttributes) };
    sums.finish();
    sums.maps.sort();
    let totals = sums.totals();
    let (evidence, registers) = Build { sums, totals: &totals }.evidence(&file, problems.is_empty());
    Ok(Imported { evidence, totals, problems, registers })
}

/// Memory right behind a file's mapping may be its zero-initialised data.
const BSS_MAX: u64 = 64 << 20;

struct Build<'t> {
    sums: Sums,
    totals: &'t Totals,
}

impl Build<'_> {
    fn evidence(mut self, file: &PerfFile<'_>, complete: bool) -> (Evidence, Vec<(u32, RegisterValues)>) {
        let arm = file.arch.as_deref().is_some_and(|a| a.starts_with("aarch64") || a.starts_with("arm"));
        let stores = self.totals.store > 0;
        let hitm = !arm || self.totals.hitm() > 0;
        let mut tables = Tables::new();
        tables.build_ids = self.sums.build_ids.iter().cloned().collect();
        tables.modules_of(&self.sums.maps);
        let mut registers = Vec::new();
        let order = self.sums.sorted();
        tables.reserve(order.len());
        for (n, id) in order.into_iter().enumerate() {
            let mut row = sampled(self.sums.row(id), stores, hitm, arm);
            self.place(&mut tables, id, &mut row);
            tables.sample(row);
            if let Some(values) = self.sums.registers.remove(&id) {
                registers.push((n as u32, values));
            }
        }
        let mut evidence = tables.finish();
        evidence.losses = self.losses(stores, hitm);
        let run = &mut evidence.run;
        run.command = file.command.clone();
        run.arch = file.arch.clone().unwrap_or_default();
        run.cpu_model = file.cpu_model.clone().unwrap_or_else(|| "unknown CPU".into());
        run.cpus = file.cpus.unwrap_or(0);
        run.unit = if hitm { Unit::HitmSamples } else { Unit::PeerSamples };
        (run.sees.writes, run.complete) = (stores, complete);
        run.sees.chains = !self.sums.chains.is_empty();
        (evidence, registers)
    }

    /// Object, code and actor of a row.
    fn place(&self, tables: &mut Tables, id: u32, row: &mut Sampled) {
        let (maps, sums) = (&self.sums.maps, self.sums.row(id));
        let (key, time) = (sums.key, sums.time_ns);
        let actor = tables.thread(key.pid, key.tid, self.sums.names.get(&key.tid));
        let chain = self.sums.chains.get(&(key.pid, key.ip)).map_or(&[][..], Vec::as_slice);
        let code = tables.code(key.pid, key.ip, chain, time, maps);
        let (object, offset) = tables.place(key.pid, key.address);
        if let Some(m) = file_of(maps, key.pid, key.address, time) {
            tables.module_of(key.pid, m);
        }
        (row.object, row.offset) = (object, offset);
        (row.code, row.actor) = (Some(code), Some(actor));
    }

    fn losses(&self, stores: bool, hitm: bool) -> Vec<Loss> {
        let t = self.totals;
        let mut all = vec![
            loss(
                "records lost by perf",
                self.sums.lost,
                "the ring buffer was full; shares stay, totals are too low",
            ),
            loss("unparsed data sources", t.unparsed, "neither load nor store: not attributed to any field"),
            loss("samples without an address", t.load_no_address + t.store_no_address, "not attributed"),
            loss(
                "samples outside of any mapping",
                t.no_map,
                "counted here, but left out of perf's own line table",
            ),
            loss(
                "samples of guests",
                self.sums.guests,
                "counted, but a guest's memory and code have no names",
            ),
        ];
        all.retain(|l| l.count > 0);
        all.extend(blind(t, stores, hitm));
        all
    }
}

fn loss(what: &str, count: u64, note: &str) -> Loss {
    Loss { process: None, what: what.into(), count, note: note.into() }
}

/// What this unit cannot see at all, by the number of samples that might have shown it.
pub(crate) fn blind(t: &Totals, stores: bool, hitm: bool) -> Vec<Loss> {
    let mut out = Vec::new();
    if !stores && t.records > 0 {
        out.push(loss(
            "samples, none of a store",
            t.records,
            "this unit or this recording does not sample stores: who writes is unknown, not nobody",
        ));
    }
    if !hitm && t.load > 0 {
        out.push(loss(
            "loads without HITM information",
            t.load,
            "this unit does not tell HITM: peer samples also count lines that were clean in the other cache",
        ));
    }
    out
}

/// The mapped file whose data an address can be: its own mapping, or one right before.
fn file_of(maps: &Maps, pid: u32, address: u64, time_ns: u64) -> Option<&Mmap> {
    if pid == Maps::GUEST || address >= crate::maps::KERNEL_START {
        return None;
    }
    let is_file = |m: &&Mmap| m.path.starts_with('/') && !m.path.starts_with("//");
    match maps.find(pid, address, time_ns) {
        Some(m) if is_file(&m) => Some(m),
        Some(m) if m.path.starts_with('[') => None,
        _ => {
            let list = maps.of(pid);
            let end = list.partition_point(|m| m.start <= address);
            list[..end].iter().rev().take(16).find(is_file).filter(|m| address - m.start < BSS_MAX)
        }
    }
}

/// Counts of one row; what this unit cannot tell is unknown.
pub(crate) fn sampled(row: &Row, stores: bool, hitm: bool, peer: bool) -> Sampled {
    let of = |which: usize| row.count(which);
    let store = |which: usize| stores.then_some(of(which));
    let peers = of(counter::PEER);
    Sampled {
        size: 1,
        records: of(counter::RECORDS),
        hitm_local: hitm.then_some(of(counter::HITM_LOCAL)),
        hitm_remote: hitm.then_some(of(counter::HITM_REMOTE)),
        peer: (peer || peers > 0).then_some(peers),
        loads: Some(of(counter::LOADS)),
        store_l1_hit: store(counter::STORE_L1_HIT),
        store_l1_miss: store(counter::STORE_L1_MISS),
        store_no_level: store(counter::STORE_NO_LEVEL),
        latency_cycles: Some(row.latency),
        cpus: Some(row.cpus()).filter(|n| *n > 0),
        period: Some(row.period).filter(|n| *n > 0),
        locked: Some(of(counter::LOCKED)),
        blocked_data: Some(of(counter::BLOCKED_DATA)),
        blocked_address: Some(of(counter::BLOCKED_ADDRESS)),
        tlb_miss: Some(of(counter::TLB_MISS)),
        phys_addr: row.phys(),
        page_bytes: row.page_bytes(),
        ..Sampled::default()
    }
}
