//! The table of rows: open addressing over a dense list, asked for many keys at once.
//!
//! A big recording touches more places than the caches hold, so a lookup is a cache miss or two. Looking up a batch
//! stage by stage (all slots, then all rows) lets the CPU have those misses at the same time.

use crate::sums::{Key, Row};
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Slots at the start, a power of two.
const SLOTS_MIN: usize = 1 << 12;

/// Rows by key.
pub(crate) struct Rows {
    /// Row number plus one in the low half, upper bits of the hash in the high half; 0 is empty.
    slots: Vec<u64>,
    pub rows: Vec<Row>,
    seeds: [u64; 2],
}

impl Default for Rows {
    fn default() -> Self {
        // Seeds that nobody can know: made-up files cannot aim at one slot.
        let seed = |n: u32| RandomState::default().hash_one(n) | 1;
        Rows { slots: vec![0; SLOTS_MIN], rows: Vec::new(), seeds: [seed(1), seed(2)] }
    }
}

/// Both halves of a product, folded: the mixing step of wyhash and foldhash.
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

impl Rows {
    pub fn hash(&self, k: &Key) -> u64 {
        let thread = u64::from(k.pid) << 32 | u64::from(k.tid);
        let first = fold(k.address ^ self.seeds[0], k.ip ^ self.seeds[1]);
        fold(first ^ thread, self.seeds[0] ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The slot in which a search begins; reading it early warms the cache.
    pub fn slot(&self, hash: u64) -> u64 {
        self.slots[hash as usize & (self.slots.len() - 1)]
    }

    /// First byte of the row that a slot speaks of, for the same purpose.
    pub fn touch(&self, slot: u64) -> u64 {
        let row = (slot as u32 as usize).wrapping_sub(1);
        self.rows.get(row).map_or(0, |r| r.key.address ^ u64::from(r.counts[0]))
    }

    /// Row of a key, and whether it is new.
    pub fn find(&mut self, hash: u64, key: &Key) -> (u32, bool) {
        if self.rows.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                let id = self.rows.len() as u32;
                self.slots[at] = hash & TAG | u64::from(id + 1);
                self.rows.push(Row::new(*key));
                return (id, true);
            }
            let id = slot as u32 - 1;
            if slot & TAG == hash & TAG && self.rows[id as usize].key == *key {
                return (id, false);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        let mut slots = vec![0u64; mask + 1];
        for (id, row) in self.rows.iter().enumerate() {
            let hash = self.hash(&row.key);
            let mut at = hash as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = hash & TAG | (id as u64 + 1);
        }
        self.slots = slots;
    }
}

/// Part of a slot that is hash.
const TAG: u64 = !0 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again_whatever_the_size() {
        let mut t = Rows::default();
        let key = |i: u64| Key { address: i % 97 * 64, ip: i / 97, pid: 1, tid: (i % 3) as u32 };
        for round in 0..2 {
            for i in 0..20_000 {
                let k = key(i);
                let (id, new) = t.find(t.hash(&k), &k);
                assert_eq!((t.rows[id as usize].key, new), (k, round == 0), "{i}");
            }
        }
        assert_eq!(t.rows.len(), 20_000);
    }
}
