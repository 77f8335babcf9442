//! Samples of precise loads and stores: the processor itself tells the address, and where the line was found.
//!
//! Intel's PEBS and AMD's IBS write both into the sample; `tussle-perf` decodes them. The code at the sampled address
//! says how many bytes were touched, and whether what was sampled as a load or a store was both.

use crate::address::{self, Access, How};
use crate::code::Site;
use crate::session::{KERNEL_START, Session, Target};
use iced_x86::Instruction;
use tussle_evidence::TouchKind;
use tussle_perf::c2c::Totals;
use tussle_perf::data_src::{LOCKED, op, tlb};
use tussle_perf::{DataSrc, Sample};

/// What the processor told of all samples of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Loads.
    pub loads: u32,
    /// Of them: the line was modified in another cache of the same node.
    pub hitm_local: u32,
    /// Of them: in another node.
    pub hitm_remote: u32,
    /// Of them: a peer cache served them.
    pub peer: u32,
    /// Stores that hit the first level.
    pub store_l1_hit: u32,
    /// Stores that missed it.
    pub store_l1_miss: u32,
    /// Stores of which the level is not told.
    pub store_no_level: u32,
    /// Of locked instructions.
    pub locked: u32,
    /// Missed the TLB.
    pub tlb_miss: u32,
    /// Latencies of the HITM and peer samples, cycles.
    pub latency_cycles: u64,
    /// Events that the samples stand for.
    pub period: u64,
}

impl Told {
    /// Of one sample.
    fn of(source: DataSrc, s: &Sample) -> Told {
        let mut t = Totals::default();
        t.count(source, 1, true);
        let contended = t.hitm() + t.local_peer + t.remote_peer > 0;
        Told {
            loads: t.load as u32,
            hitm_local: t.local_hitm as u32,
            hitm_remote: t.remote_hitm as u32,
            peer: (t.local_peer + t.remote_peer) as u32,
            store_l1_hit: t.store_l1_hit as u32,
            store_l1_miss: t.store_l1_miss as u32,
            store_no_level: t.store_no_level as u32,
            locked: u32::from(source.lock() & LOCKED != 0),
            tlb_miss: u32::from(source.tlb() & tlb::MISS != 0),
            latency_cycles: if contended { u64::from(s.weight.unwrap_or(0)) } else { 0 },
            period: s.period.unwrap_or(0),
        }
    }

    /// Adds those of another row.
    pub fn add(&mut self, other: &Told) {
        let parts = [
            (&mut self.loads, other.loads),
            (&mut self.hitm_local, other.hitm_local),
            (&mut self.hitm_remote, other.hitm_remote),
            (&mut self.peer, other.peer),
            (&mut self.store_l1_hit, other.store_l1_hit),
            (&mut self.store_l1_miss, other.store_l1_miss),
            (&mut self.store_no_level, other.store_no_level),
            (&mut self.locked, other.locked),
            (&mut self.tlb_miss, other.tlb_miss),
        ];
        parts.into_iter().for_each(|(sum, n)| *sum = sum.saturating_add(n));
        self.latency_cycles = self.latency_cycles.saturating_add(other.latency_cycles);
        self.period = self.period.saturating_add(other.period);
    }
}

impl Session {
    /// Takes a sample of a precise load or store.
    pub(crate) fn precise(&mut self, s: &Sample, source: DataSrc, target: &mut dyn Target) {
        let (Some(pid), Some(tid), Some(ip)) = (s.pid, s.tid, s.ip) else { return };
        if ip >= KERNEL_START {
            // Some processors cannot leave the kernel's own code out.
            self.counts.kernels += 1;
            return;
        }
        self.counts.samples += 1;
        let thread = self.thread(pid, tid, target);
        self.threads[thread as usize].samples += 1;
        let kind = match source.op() {
            o if o & op::LOAD != 0 => TouchKind::Read,
            o if o & op::STORE != 0 => TouchKind::Write,
            _ => {
                self.counts.no_memory += 1;
                return;
            }
        };
        let Some(at) = s.addr.filter(|a| *a != 0) else {
            self.counts.unknown += 1;
            return;
        };
        self.counts.exact += 1;
        if at < KERNEL_START {
            let process = self.threads[thread as usize].process;
            let site = self.site(process, ip, target);
            let access = access(&site, at, kind, source);
            self.touched(thread, ip, &access, Told::of(source, s), target);
        }
    }

    fn touched(&mut self, thread: u32, ip: u64, access: &Access, told: Told, target: &mut dyn Target) {
        let process = self.threads[thread as usize].process;
        let place = self.place(process, access.address, target);
        if let Some(code) = self.code(process, ip) {
            self.lines.add_told(place, access, thread, code, told);
        }
    }
}

/// What the instruction there does with that address; one byte of it where the code cannot be read, or does not fit.
fn access(site: &Site, address: u64, kind: TouchKind, source: DataSrc) -> Access {
    let locked = source.lock() & LOCKED != 0;
    let alone = Access { address, size: 1, kind, locked, how: How::Told, operand: [None; 2] };
    site.at.as_ref().and_then(|i| of_instruction(i, &alone)).unwrap_or(alone)
}

/// The only operand in memory that may be what was sampled.
fn of_instruction(i: &Instruction, sampled: &Access) -> Option<Access> {
    let operands = address::operands(i);
    let mut fits = operands.iter().filter(|o| o.kind == TouchKind::Rmw || o.kind == sampled.kind);
    let (only, other) = (fits.next()?, fits.next());
    let base =
        only.base.map(|(register, displacement)| (register, sampled.address.wrapping_sub(displacement)));
    let locked = sampled.locked || only.locked;
    let found = Access { size: only.size, kind: only.kind, locked, operand: [base, None], ..*sampled };
    other.is_none().then_some(found)
}
