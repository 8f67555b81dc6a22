//! The random oracle's bytes, and a search for proofs of work that finds the same nonce on any number of threads.

use blake3::{Hasher, OUT_LEN};
use p3_blake3::Blake3;
use p3_challenger::{ByteGrindingChallenger, CanObserve, CanSample, HashChallenger};

/// Candidates that are tried at a time.
const BLOCK: u64 = 1 << 13;
/// Observed bytes that are kept before they are hashed: enough for BLAKE3 to hash chunks side by side.
const PENDING_MAX: usize = 1 << 16;

/// BLAKE3 over everything observed.
///
/// It draws the bytes of [`HashChallenger`] over [`Blake3`], but hashes what it observes as it comes: an opening of many
/// tables observes all their shapes once per claim, which together are a hundred megabytes.
#[derive(Debug, Clone)]
pub struct ByteOracle {
    /// What was observed since the last draw and is hashed already, if that is anything.
    hashed: Option<Box<Hasher>>,
    /// What was observed after that.
    pending: Vec<u8>,
    /// The last digest, and how many of its bytes are not drawn yet: the first ones.
    digest: [u8; OUT_LEN],
    left: usize,
}

impl ByteOracle {
    /// An oracle that has observed some bytes.
    #[must_use]
    pub const fn new(observed: Vec<u8>) -> Self {
        Self {
            hashed: None,
            pending: observed,
            digest: [0; OUT_LEN],
            left: 0,
        }
    }

    /// Ends the message; its digest is drawn from, and begins the next one.
    fn flush(&mut self) {
        let mut hasher = self.hashed.take().unwrap_or_default();
        self.digest = hasher.update(&self.pending).finalize().into();
        self.left = OUT_LEN;
        self.pending.clear();
        self.pending.extend_from_slice(&self.digest);
    }
}

impl CanObserve<u8> for ByteOracle {
    fn observe(&mut self, value: u8) {
        self.observe_slice(&[value]);
    }

    #[inline]
    fn observe_slice(&mut self, values: &[u8]) {
        if values.is_empty() {
            return;
        }
        self.left = 0;
        self.pending.extend_from_slice(values);
        if self.pending.len() >= PENDING_MAX {
            let hasher = self.hashed.get_or_insert_default();
            hasher.update(&self.pending);
            self.pending.clear();
        }
    }
}

impl CanSample<u8> for ByteOracle {
    fn sample(&mut self) -> u8 {
        if self.left == 0 {
            self.flush();
        }
        self.left -= 1;
        self.digest[self.left]
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
        // A search begins with a draw, so that little is observed; else candidates are tried one by one.
        if self.hashed.is_some() || W == 0 {
            return (0..num_candidates).find(|&candidate| {
                let mut copy = self.clone();
                copy.observe_slice(&encode(candidate));
                accepts(copy.sample_array())
            });
        }
        let observed = HashChallenger::new(self.pending.clone(), Blake3);
        let mut start = 0;
        while start < num_candidates {
            let mut length = BLOCK.min(num_candidates - start);
            let mut found = None;
            while let Some(offset) =
                observed.find_witness(length, |candidate| encode(start + candidate), &accepts)
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
    use proptest::prelude::*;

    proptest! {
        /// What is drawn after any observations is what the library's challenger draws: proofs stay what they were.
        #[test]
        fn draws_are_those_of_the_library(
            steps in prop::collection::vec((0usize..3 * PENDING_MAX, 0usize..100), 1..8),
            start in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut own = ByteOracle::new(start.clone());
            let mut other = HashChallenger::new(start, Blake3);
            for (observed, drawn) in steps {
                let bytes: Vec<u8> = (0..observed).map(|at| (at % 251) as u8).collect();
                let (first, rest) = bytes.split_at(observed / 3);
                own.observe_slice(first);
                own.observe_slice(rest);
                other.observe_slice(&bytes);
                prop_assert!(own.pending.len() < PENDING_MAX + OUT_LEN);
                prop_assert_eq!(own.sample_vec(drawn), other.sample_vec(drawn));
                own.observe(7);
                other.observe(7);
            }
            prop_assert_eq!(own.sample(), other.sample());
        }
    }

    #[test]
    fn the_least_candidate_is_found() {
        for seed in 0..20u8 {
            let mut oracle = ByteOracle::new(vec![seed; 40]);
            if seed > 17 {
                // Long messages are searched in another way.
                oracle.observe_slice(&vec![seed; PENDING_MAX]);
            }
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
