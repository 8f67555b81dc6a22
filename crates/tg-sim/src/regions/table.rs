//! Round trips between ten regions of a cloud, as published. Numbers only: nothing here was measured by us.

/// Where the table is from.
pub const SOURCE: &str = "cloudping.co, medians of a year between regions of AWS, as commonware-estimator carries them \
                          (github.com/commonwarexyz/monorepo, examples/estimator/src/p50.json at 4622dfb1)";

/// What others computed over the same table, and where they say so.
pub const ANCHOR: &str = "289 ms for simplex: median over all seats and proposers of commonware-estimator's simplex.lazy, 3 peers in each of \
                          the 10 regions (github.com/erenyegit/commonware-consensus-showdown, simplex_10region_alto)";

/// The regions, in the order of the table.
pub const REGIONS: [&str; 10] = [
    "us-west-1",
    "us-east-1",
    "eu-west-1",
    "ap-northeast-1",
    "eu-north-1",
    "ap-south-1",
    "sa-east-1",
    "eu-central-1",
    "ap-northeast-2",
    "ap-southeast-2",
];

/// Microseconds from a region (row) to a region (column) and back. Both directions were measured, so the table is not symmetric.
pub const ROUND_TRIPS_US: [[u64; 10]; 10] = [
    [
        2_817, 63_944, 129_934, 108_256, 172_856, 232_000, 174_762, 153_252, 133_536, 139_126,
    ],
    [
        64_160, 5_506, 69_622, 149_684, 112_794, 192_506, 115_310, 93_160, 179_824, 199_812,
    ],
    [
        130_108, 69_736, 3_178, 202_282, 40_878, 125_890, 178_206, 27_456, 232_626, 255_742,
    ],
    [
        108_744, 149_537, 202_468, 2_750, 247_227, 134_328, 258_343, 227_580, 36_343, 106_936,
    ],
    [
        172_498, 112_202, 39_718, 246_670, 3_332, 148_877, 222_980, 22_980, 250_092, 271_220,
    ],
    [
        231_589, 189_670, 125_389, 133_254, 148_430, 3_167, 301_022, 128_968, 134_488, 154_675,
    ],
    [
        175_308, 115_378, 178_588, 258_918, 223_336, 301_760, 3_318, 205_014, 289_659, 312_424,
    ],
    [
        153_012, 92_650, 26_988, 226_991, 22_938, 129_262, 204_017, 4_042, 230_834, 251_345,
    ],
    [
        133_928, 179_504, 233_225, 36_369, 250_374, 135_238, 289_366, 231_554, 4_020, 145_232,
    ],
    [
        139_250, 199_676, 255_590, 105_814, 271_595, 154_862, 312_056, 251_648, 146_134, 4_096,
    ],
];

/// Half a round trip between the regions of two seats, which go round: microseconds one way.
#[must_use]
pub const fn one_way_us(from: usize, to: usize) -> u64 {
    ROUND_TRIPS_US[from % REGIONS.len()][to % REGIONS.len()] / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Median over proposers and seats of the time to finality if nothing were computed: a proposal, then votes of a quorum twice.
    fn bound_us(seats: usize) -> u64 {
        let one_way = |from: usize, to: usize| match from == to {
            true => 0,
            false => one_way_us(from, to),
        };
        let quorum = seats - (seats - 1) / 3;
        let after_votes = |sent: &[u64]| -> Vec<u64> {
            let hear = |seat| {
                let mut heard = sent.to_vec();
                for (from, at) in heard.iter_mut().enumerate() {
                    *at += one_way(from, seat);
                }
                heard.sort_unstable();
                heard[quorum - 1]
            };
            (0..seats).map(hear).collect()
        };
        let mut all: Vec<u64> = (0..seats)
            .flat_map(|proposer| {
                let heard: Vec<u64> = (0..seats).map(|seat| one_way(proposer, seat)).collect();
                after_votes(&after_votes(&heard))
            })
            .collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    /// The anchor's 289 ms have some 4 ms of work in them: another table, or a wrong number in this one, would give another bound.
    #[test]
    fn the_table_is_that_of_the_anchor() {
        let bound = bound_us(30);
        assert!((283_000..=287_000).contains(&bound), "{bound}");
    }
}
