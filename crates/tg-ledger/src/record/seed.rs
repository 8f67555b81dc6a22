//! The key that signs seeds: the rounds in which validators generate it.

use tg_types::{Address, DealingLog, Digest, Encode, TimestampMs, fields, keccak256, variants};

use crate::limits::VALIDATORS_MAX;

/// Bytes of a key: a point of G2 of BLS12-381, compressed.
pub const SEED_KEY_BYTES: usize = 96;

/// Bytes of a signature: a point of G1 of BLS12-381, compressed.
pub const SEED_SIGNATURE_BYTES: usize = 48;

/// What one validator dealt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealing {
    /// Who.
    pub dealer: Address,
    /// Its signed log.
    pub log: DealingLog,
}

/// Where the making of a key stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SeedKeyPhase {
    /// Validators deal.
    #[default]
    Dealing,
    /// Enough have; every validator computes the key from what was dealt.
    Closed,
    /// The key is known.
    Ready {
        /// The key.
        key: [u8; SEED_KEY_BYTES],
        /// Since when.
        since: TimestampMs,
    },
}

/// The making of the key of one set of validators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeedBook {
    /// How many rounds there were before this one.
    pub round: u64,
    /// When it began.
    pub since: TimestampMs,
    /// Where it stands.
    pub phase: SeedKeyPhase,
    /// What was dealt, in the order of coming; at most one of each validator.
    pub dealings: Vec<Dealing>,
}

fields! { Dealing { dealer, log } }

variants! {
    SeedKeyPhase: "phase of the seed's key" {
        0 = Dealing {},
        1 = Closed {},
        2 = Ready { key, since },
    }
}

fields! {
    SeedBook {
        round,
        since,
        phase,
        dealings: seq("dealings", VALIDATORS_MAX, 24),
    }
}

impl SeedBook {
    /// The round after this one, which begins at `now`.
    pub(crate) const fn next(&self, now: TimestampMs) -> Self {
        Self {
            round: self.round.saturating_add(1),
            since: now,
            phase: SeedKeyPhase::Dealing,
            dealings: Vec::new(),
        }
    }

    /// The key, once it is known.
    #[must_use]
    pub const fn key(&self) -> Option<&[u8; SEED_KEY_BYTES]> {
        match &self.phase {
            SeedKeyPhase::Ready { key, .. } => Some(key),
            SeedKeyPhase::Dealing | SeedKeyPhase::Closed => None,
        }
    }

    /// Whether a validator has dealt in this round.
    #[must_use]
    pub fn has_dealt(&self, dealer: &Address) -> bool {
        self.dealings.iter().any(|it| it.dealer == *dealer)
    }

    /// Names all of it: what leaf 0 of the state has of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::new(keccak256(&self.to_bytes()))
    }
}
