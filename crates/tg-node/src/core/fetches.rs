//! Bodies that are missing and asked for, and how often a peer is answered.

use std::collections::BTreeMap;

use tg_types::{BlockId, TimestampMs};

/// Fetches of one peer that are answered per second: enough to catch up, too few to keep a disk busy.
const ANSWERS_PER_SECOND: u32 = 50;

/// A body that is asked for.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) next_try: TimestampMs,
    pub(super) attempts: usize,
    pub(super) wanted: bool,
}

/// Bodies that are missing.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    pub(super) missing: BTreeMap<BlockId, Fetch>,
    pub(super) answers: BTreeMap<[u8; 32], (TimestampMs, u32)>,
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
        let (since, count) = self.answers.entry(peer).or_insert((now, 0));
        if now.saturating_since(*since).get() >= 1_000 {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= ANSWERS_PER_SECOND
    }
}
