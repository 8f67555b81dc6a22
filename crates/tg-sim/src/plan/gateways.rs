//! Gateways: nodes without a vote that follow the chain, each on a disk of its own, and lose power once.

use crate::draw::SeedStream;

/// How many of 1,000 seeds have gateways. They are drawn apart, so that the other parts of a seed stay as they were.
const SEEDS_PERMILLE: u64 = 333;

/// A gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayPlan {
    /// The honest validator beside which it stands: what cuts that one off cuts off the gateway too.
    pub beside: usize,
    /// When it starts with an empty disk, in milliseconds of the run.
    pub at_ms: u64,
    /// Whether it begins at a snapshot when its disk is empty, if there is one.
    pub snapshot: bool,
    /// When it loses power, and for how long.
    pub power_cut: (u64, u64),
    /// Whether its chain is lost then, and not only what was not synced.
    pub loses_chain: bool,
}

/// What a seed draws, if these validators are honest.
pub(super) fn drawn(seed: u64, honest: &[usize]) -> Vec<Option<GatewayPlan>> {
    let mut draw = SeedStream::new(seed, "gateways");
    if !draw.chance(SEEDS_PERMILLE) {
        return Vec::new();
    }
    let gateways = (0..draw.between(1, 2)).map(|_| {
        Some(GatewayPlan {
            beside: draw.pick(honest),
            at_ms: draw.between(0, 5_000),
            snapshot: draw.chance(500),
            power_cut: (draw.between(6_000, 24_000), draw.between(20, 4_000)),
            loses_chain: draw.chance(300),
        })
    });
    gateways.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_third_of_the_seeds_have_gateways_and_all_are_on_again_when_faults_end() {
        let mut seeds = 0;
        for seed in 0..3_000 {
            let gateways = drawn(seed, &[0, 2, 3]);
            seeds += usize::from(!gateways.is_empty());
            assert!(gateways.len() <= 2, "{seed}");
            for gateway in gateways.iter().flatten() {
                let (at_ms, for_ms) = gateway.power_cut;
                assert!(gateway.at_ms < at_ms && at_ms + for_ms < 30_000, "{seed}");
                assert_ne!(gateway.beside, 1, "{seed}: it stands beside an honest one");
            }
        }
        assert!((900..1_100).contains(&seeds), "{seeds}");
    }
}
