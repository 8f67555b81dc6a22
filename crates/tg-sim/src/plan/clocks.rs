//! The wall clocks of honest validators.
//!
//! Two of them differ by a second at most, half of what voters allow ([`tg_node::limits::CLOCK_SKEW_MAX`]): a block that takes a leader's
//! time on its way is not too old for the clock that is ahead, and none is too new for the one that is behind. Ledger time is the sum of
//! the steps of block time, so it goes as clocks do, whoever proposes.

use crate::draw::SeedStream;

/// How far the clocks of a seed are off at most, in milliseconds: in one seed of three all are exact. They are drawn apart, so that the other
/// parts of a seed stay as they were.
const OFF_MAX_MS: [u64; 3] = [0, 100, 500];

/// How far so many clocks are ahead, in milliseconds.
pub(super) fn drawn(seed: u64, clocks: usize) -> Vec<i64> {
    let mut draw = SeedStream::new(seed, "clocks");
    let most = draw.pick(&OFF_MAX_MS);
    let clocks = (0..clocks).map(|_| draw.between(0, 2 * most).cast_signed() - most.cast_signed());
    clocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_off_both_ways_and_two_of_them_by_half_of_what_voters_allow() {
        let allowed = tg_node::limits::CLOCK_SKEW_MAX.as_millis();
        let (mut exact, mut least, mut most) = (0, 0_i64, 0_i64);
        for seed in 0..600 {
            let clocks = drawn(seed, 7);
            assert_eq!(clocks.len(), 7);
            exact += usize::from(clocks.iter().all(|it| *it == 0));
            least = clocks.iter().copied().fold(least, i64::min);
            most = clocks.iter().copied().fold(most, i64::max);
        }
        assert!((150..250).contains(&exact), "{exact}");
        assert!(least < -450 && most > 450, "{least} to {most}");
        assert!(u128::from(most.abs_diff(least)) <= allowed / 2);
    }
}
