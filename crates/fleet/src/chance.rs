//! Numbers that look like chance and are always the same: for waits that differ, and for simulations.

/// One step of `SplitMix64`: every bit of the result depends on every bit of `seed`.
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A source of such numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance(u64);

impl Chance {
    /// One for each seed and each place.
    pub(crate) fn new(seed: u64, place: u64) -> Self {
        Self(mix(seed) ^ mix(place.wrapping_mul(0x2545_f491_4f6c_dd1d)))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Whether something happens that does so many times of a million.
    pub(crate) fn happens(&mut self, of_a_million: u32) -> bool {
        self.next() % 1_000_000 < u64::from(of_a_million)
    }
}
