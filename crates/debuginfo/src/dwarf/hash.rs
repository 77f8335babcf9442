//! A 64-bit mixing hash for finding equal types: one wide multiplication per word, folded (the scheme of wyhash and
//! foldhash). Not for keys that an adversary must not be able to collide: a forged file can only confuse itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;

/// Mixes `value` into `hash`.
#[inline]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value ^ K0).wrapping_mul(u128::from(K1));
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hash of a byte string, its length included.
pub(crate) fn bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut h = mix(hash, bytes.len() as u64);
    for w in words {
        h = mix(h, u64::from_le_bytes(*w));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(h, u64::from_le_bytes(last))
}

/// Hasher for integer keys that are offsets, indices or already hashes.
#[derive(Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, data: &[u8]) {
        self.0 = bytes(self.0, data);
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = mix(self.0, u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0, n);
    }
}

/// Map with integer keys.
pub(crate) type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;
