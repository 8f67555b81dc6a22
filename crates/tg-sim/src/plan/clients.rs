//! Clients that believe what is shown to them and nothing else, and gateways that lie to them.

use crate::draw::SeedStream;

/// One of so many seeds has such clients.
const SEEDS_APART: u64 = 9;

/// Which of them; not drawn, so that the other runs stay as they were.
const SEED_OF: u64 = 8;

/// A client that asks gateways what the final state has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientPlan {
    /// The honest gateway that it asks first.
    pub gateway: usize,
    /// How long it waits between two questions at most, in milliseconds.
    pub pause_ms: u64,
    /// How many of a thousand answers are of a gateway that lies.
    pub lies_permille: u64,
}

/// What a seed draws, if these validators are honest.
pub(super) fn drawn(seed: u64, honest: &[usize]) -> Vec<Option<ClientPlan>> {
    if seed % SEEDS_APART != SEED_OF {
        return Vec::new();
    }
    let mut draw = SeedStream::new(seed, "clients");
    let clients = (0..draw.between(1, 3)).map(|_| {
        Some(ClientPlan {
            gateway: draw.pick(honest),
            pause_ms: draw.between(300, 1_500),
            lies_permille: draw.between(300, 900),
        })
    });
    clients.collect()
}
