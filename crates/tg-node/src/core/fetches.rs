//! Missing block bodies and the requests for them, and how often requests of a peer are answered.

use std::collections::BTreeMap;

use tg_types::{BlockId, TimestampMs};

use crate::limits::HEARTBEATS_PER_PEER_SECOND;

/// Fetches of one peer that are answered per second: enough to catch up, too few to keep a disk busy.
const ANSWERS_PER_SECOND: u32 = 50;

/// Transactions of one peer in a second that are looked at and not taken, each for up to a tenth of a millisecond; then the
/// peer's others are dropped unread until the next second. Honest peers tell what they took themselves.
const FAILED_TRANSACTIONS_PER_SECOND: u32 = 512;

/// A body that is asked for.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) next_try: TimestampMs,
    pub(super) attempts: usize,
    pub(super) wanted: bool,
    /// Whether validators have voted for it, so that its ancestors are wanted too: their names are right if its own is.
    pub(super) is_voted: bool,
}

/// Bodies that are missing.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    pub(super) missing: BTreeMap<BlockId, Fetch>,
    pub(super) answers: BTreeMap<[u8; 32], (TimestampMs, u32)>,
    pub(super) beats: BTreeMap<[u8; 32], (TimestampMs, u32)>,
    /// Transactions that were not taken.
    pub(super) failed: BTreeMap<[u8; 32], (TimestampMs, u32)>,
}

impl Fetches {
    /// Starts a turn: what nobody wants by its end is forgotten.
    pub(super) fn begin(&mut self) {
        for fetch in self.missing.values_mut() {
            fetch.wanted = false;
        }
    }

    /// Whether a peer may have one more answer in this second.
    pub(super) fn may_answer(&mut self, peer: [u8; 32], now: TimestampMs) -> bool {
        within(&mut self.answers, peer, now, ANSWERS_PER_SECOND)
    }

    /// Whether one more heartbeat of a peer is checked in this second.
    pub(super) fn may_beat(&mut self, peer: [u8; 32], now: TimestampMs) -> bool {
        within(&mut self.beats, peer, now, HEARTBEATS_PER_PEER_SECOND)
    }

    /// Whether transactions of a peer are still looked at in this second, after one more that was not taken.
    pub(super) fn may_fail(&mut self, peer: [u8; 32], now: TimestampMs) -> bool {
        within(&mut self.failed, peer, now, FAILED_TRANSACTIONS_PER_SECOND)
    }

    /// Whether transactions of a peer are still looked at in this second.
    pub(super) fn is_looked_at(&self, peer: &[u8; 32], now: TimestampMs) -> bool {
        let counted = self.failed.get(peer);
        counted.is_none_or(|(since, count)| {
            now.saturating_since(*since).get() >= 1_000 || *count <= FAILED_TRANSACTIONS_PER_SECOND
        })
    }
}

/// Counts one more of a peer in this second, and says whether it is among the first `limit`.
fn within(
    counts: &mut BTreeMap<[u8; 32], (TimestampMs, u32)>,
    peer: [u8; 32],
    now: TimestampMs,
    limit: u32,
) -> bool {
    let (since, count) = counts.entry(peer).or_insert((now, 0));
    if now.saturating_since(*since).get() >= 1_000 {
        (*since, *count) = (now, 0);
    }
    *count = count.saturating_add(1);
    *count <= limit
}
