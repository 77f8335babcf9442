//! Random numbers for tests: the same in every run.

/// Marsaglia's xorshift with 64 bits of state, which must not be zero.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}
