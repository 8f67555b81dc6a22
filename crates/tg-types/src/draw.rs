//! Pseudorandom numbers from a seed, for draws that every run repeats; never for secrets.

/// What a state of [`SplitMix64`] is advanced by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator `SplitMix64`: the same seed gives the same numbers.
///
/// ```
/// use tg_types::draw::SplitMix64;
///
/// let mut draw = SplitMix64::new(0);
/// assert_eq!(draw.next(), 0xe220_a839_7b1d_cdaf);
/// ```
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// The next number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A bijection of 64 bits that scatters its input: the first number of [`SplitMix64`] from it.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(STEP);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    /// The first numbers of the reference implementation (Vigna, `splitmix64.c`) from 1234567.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut draw = SplitMix64::new(1_234_567);
        let numbers = [(); 5].map(|()| draw.next());
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, expected);
    }
}
