//! The totals of `perf c2c`, by the rules of perf 6.1 (`c2c_decode_stats` in tools/perf/util/mem-events.c), so that
//! numbers can be compared with it.

use crate::data_src::{BLOCKED_ADDR, BLOCKED_DATA, DataSrc, LOCKED, level, op, snoop, snoopx};

/// Counters of one line or of a whole file, in samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Totals {
    pub records: u64,
    pub locks: u64,
    pub store: u64,
    pub store_uncached: u64,
    pub store_no_address: u64,
    pub store_l1_hit: u64,
    pub store_l1_miss: u64,
    pub store_no_level: u64,
    pub load: u64,
    pub load_uncached: u64,
    pub load_io: u64,
    pub load_miss: u64,
    pub load_no_address: u64,
    pub load_fill_buffer: u64,
    pub load_l1: u64,
    pub load_l2: u64,
    pub load_llc: u64,
    pub local_hitm: u64,
    pub remote_hitm: u64,
    pub local_peer: u64,
    pub remote_peer: u64,
    pub remote_hit: u64,
    pub local_dram: u64,
    pub remote_dram: u64,
    pub exclusive: u64,
    pub shared: u64,
    pub blocked_data: u64,
    pub blocked_address: u64,
    pub no_map: u64,
    pub unparsed: u64,
}

impl Totals {
    /// Each counter under the label that `perf c2c report --stdio` prints it with, in its order; samples.
    pub fn labelled(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("Total records", self.records),
            ("Locked Load/Store Operations", self.locks),
            ("Load Operations", self.load),
            ("Loads - uncacheable", self.load_uncached),
            ("Loads - IO", self.load_io),
            ("Loads - Miss", self.load_miss),
            ("Loads - no mapping", self.load_no_address),
            ("Load Fill Buffer Hit", self.load_fill_buffer),
            ("Load L1D hit", self.load_l1),
            ("Load L2D hit", self.load_l2),
            ("Load LLC hit", self.load_llc + self.local_hitm),
            ("Load Local HITM", self.local_hitm),
            ("Load Remote HITM", self.remote_hitm),
            ("Load Remote HIT", self.remote_hit),
            ("Load Local DRAM", self.local_dram),
            ("Load Remote DRAM", self.remote_dram),
            ("Load MESI State Exclusive", self.exclusive),
            ("Load MESI State Shared", self.shared),
            ("Load access blocked by data", self.blocked_data),
            ("Load access blocked by address", self.blocked_address),
            ("Load HIT Local Peer", self.local_peer),
            ("Load HIT Remote Peer", self.remote_peer),
            ("Store Operations", self.store),
            ("Store - uncacheable", self.store_uncached),
            ("Store - no mapping", self.store_no_address),
            ("Store L1D Hit", self.store_l1_hit),
            ("Store L1D Miss", self.store_l1_miss),
            ("Store No available memory level", self.store_no_level),
            ("No Page Map Rejects", self.no_map),
            ("Unable to parse data source", self.unparsed),
        ]
    }

    /// Counts one sample. `mapped`: both its code and its data address lie in something mapped. True when the sample
    /// takes part in the table of lines.
    pub fn count(&mut self, source: DataSrc, address: u64, mapped: bool) -> bool {
        self.records += 1;
        self.locks += u64::from(source.lock() & LOCKED != 0);
        self.blocked_data += u64::from(source.blocked() & BLOCKED_DATA != 0);
        self.blocked_address += u64::from(source.blocked() & BLOCKED_ADDR != 0);
        if source.op() & op::LOAD != 0 {
            self.load += 1;
            if address == 0 {
                self.load_no_address += 1;
                return false;
            }
            self.count_load(source);
        } else if source.op() & op::STORE != 0 {
            self.store += 1;
            if address == 0 {
                self.store_no_address += 1;
                return false;
            }
            self.count_store(source);
        } else {
            self.unparsed += 1;
            return false;
        }
        self.no_map += u64::from(!mapped);
        mapped
    }

    /// Counts `times` samples that are all alike and mapped.
    pub fn count_times(&mut self, source: DataSrc, address: u64, times: u64) {
        let mut one = Totals::default();
        one.count(source, address, true);
        let (sums, ones) = (self.all_mut(), one.all_mut());
        sums.into_iter().zip(ones).for_each(|(sum, n)| *sum = sum.saturating_add(n.saturating_mul(times)));
    }

    fn all_mut(&mut self) -> [&mut u64; 30] {
        [
            &mut self.records,
            &mut self.locks,
            &mut self.store,
            &mut self.store_uncached,
            &mut self.store_no_address,
            &mut self.store_l1_hit,
            &mut self.store_l1_miss,
            &mut self.store_no_level,
            &mut self.load,
            &mut self.load_uncached,
            &mut self.load_io,
            &mut self.load_miss,
            &mut self.load_no_address,
            &mut self.load_fill_buffer,
            &mut self.load_l1,
            &mut self.load_l2,
            &mut self.load_llc,
            &mut self.local_hitm,
            &mut self.remote_hitm,
            &mut self.local_peer,
            &mut self.remote_peer,
            &mut self.remote_hit,
            &mut self.local_dram,
            &mut self.remote_dram,
            &mut self.exclusive,
            &mut self.shared,
            &mut self.blocked_data,
            &mut self.blocked_address,
            &mut self.no_map,
            &mut self.unparsed,
        ]
    }

    fn count_load(&mut self, source: DataSrc) {
        let (lvl, snp) = (source.level(), source.snoop());
        let peer = source.snoopx() & snoopx::PEER != 0;
        // A remote access without hops: POWER uses the bit also for another core of the same node.
        let remote = source.remote() && source.hops() == 0;
        let has = |bits: u64| lvl & bits != 0;
        if has(level::HIT) {
            self.load_uncached += u64::from(has(level::UNCACHED));
            self.load_io += u64::from(has(level::IO));
            self.load_fill_buffer += u64::from(has(level::LFB));
            self.load_l1 += u64::from(has(level::L1));
            self.load_l2 += u64::from(has(level::L2));
            self.local_peer += u64::from(has(level::L2) && peer);
            if has(level::L3) {
                let hitm = snp & snoop::HITM != 0;
                self.local_hitm += u64::from(hitm);
                self.load_llc += u64::from(!hitm);
                self.local_peer += u64::from(peer);
            }
            if has(level::LOCAL_RAM) {
                self.local_dram += 1;
                self.count_ram(snp);
            }
            if has(level::REMOTE_RAM1 | level::REMOTE_RAM2) || remote {
                self.remote_dram += 1;
                self.count_ram(snp);
            }
        }
        if has(level::REMOTE_CACHE1 | level::REMOTE_CACHE2) || remote {
            if snp & snoop::HIT != 0 {
                self.remote_hit += 1;
            } else if snp & snoop::HITM != 0 {
                self.remote_hitm += 1;
            } else if peer {
                self.remote_hit += 1;
                self.remote_peer += 1;
            }
        }
        self.load_miss += u64::from(has(level::MISS));
    }

    fn count_ram(&mut self, snp: u64) {
        if snp & snoop::HIT != 0 { self.shared += 1 } else { self.exclusive += 1 }
    }

    fn count_store(&mut self, source: DataSrc) {
        let lvl = source.level();
        let has = |bits: u64| lvl & bits != 0;
        self.store_uncached += u64::from(has(level::HIT) && has(level::UNCACHED));
        self.store_l1_hit += u64::from(has(level::HIT) && has(level::L1));
        self.store_l1_miss += u64::from(has(level::MISS) && has(level::L1));
        self.store_no_level += u64::from(has(level::NA));
    }

    /// Loads that found the line modified in another cache.
    pub fn hitm(&self) -> u64 {
        self.local_hitm + self.remote_hitm
    }
}
