//! Numbers that a seed decides (xorshift64*).

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// Returns true once in `n` times on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a length whose number of digits is random, so that short and long ones are as frequent.
    pub(crate) fn length(&mut self) -> usize {
        let bits = self.below(13);
        self.below(1 << bits) as usize
    }
}

/// The byte of a message or write at a place.
pub(crate) const fn pattern(number: u64, at: usize) -> u8 {
    let mixed = (number.wrapping_mul(31).wrapping_add(at as u64)).wrapping_mul(0x9e37_79b9);
    (mixed >> 13) as u8
}
