//! The random oracle's bytes, and a search for proofs of work that finds the same nonce on any number of threads.

use p3_blake3::Blake3;
use p3_challenger::{ByteGrindingChallenger, CanObserve, CanSample, HashChallenger};

/// Candidates that are tried at a time.
const BLOCK: u64 = 1 << 13;

/// BLAKE3 over everything observed.
#[derive(Debug, Clone)]
pub struct ByteOracle(HashChallenger<u8, Blake3, 32>);

impl ByteOracle {
    /// An oracle that has observed some bytes.
    #[must_use]
    pub const fn new(observed: Vec<u8>) -> Self {
        Self(HashChallenger::new(observed, Blake3))
    }
}

impl CanObserve<u8> for ByteOracle {
    fn observe(&mut self, value: u8) {
        self.0.observe(value);
    }

    fn observe_slice(&mut self, values: &[u8]) {
        self.0.observe_slice(values);
    }
}

impl CanSample<u8> for ByteOracle {
    fn sample(&mut self) -> u8 {
        self.0.sample()
    }

    fn sample_into_slice(&mut self, values: &mut [u8]) {
        self.0.sample_into_slice(values);
    }

    fn sample_vec(&mut self, count: usize) -> Vec<u8> {
        self.0.sample_vec(count)
    }
}

impl ByteGrindingChallenger for ByteOracle {
    /// The least candidate that passes. The library's search stops at any: a block is searched again below what it
    /// found until nothing is left there.
    fn find_witness<const W: usize, const S: usize>(
        &self,
        num_candidates: u64,
        encode: impl Fn(u64) -> [u8; W] + Sync,
        accepts: impl Fn([u8; S]) -> bool + Sync,
    ) -> Option<u64> {
        let mut start = 0;
        while start < num_candidates {
            let mut length = BLOCK.min(num_candidates - start);
            let mut found = None;
            while let Some(offset) =
                self.0
                    .find_witness(length, |candidate| encode(start + candidate), &accepts)
            {
                found = Some(start + offset);
                length = offset;
            }
            if found.is_some() {
                return found;
            }
            start += BLOCK;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_candidate_is_found() {
        for seed in 0..20u8 {
            let oracle = ByteOracle::new(vec![seed; 40]);
            let encode = |candidate: u64| candidate.to_le_bytes();
            let accepts = |bytes: [u8; 2]| u16::from_le_bytes(bytes) & 0xfff == 0;
            let least = (0..1 << 20).find(|&candidate| {
                let mut copy = oracle.clone();
                copy.observe_slice(&encode(candidate));
                accepts(copy.sample_array())
            });
            assert_eq!(oracle.find_witness(1 << 20, encode, accepts), least);
            let below = least.unwrap_or_default();
            assert_eq!(oracle.find_witness(below, encode, accepts), None);
        }
    }
}
