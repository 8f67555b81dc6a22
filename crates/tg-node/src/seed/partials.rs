//! Partial signatures over wanted heights, and the seeds that they make.

use std::collections::{BTreeMap, BTreeSet};

use commonware_codec::{DecodeFixed as _, Encode as _};
use commonware_cryptography::bls12381::primitives::group::{G1, Share};
use commonware_cryptography::bls12381::primitives::ops::{self, threshold};
use commonware_cryptography::bls12381::primitives::sharing::Sharing;
use commonware_cryptography::bls12381::primitives::variant::{MinSig, PartialSignature};
use commonware_parallel::Sequential;
use commonware_utils::Participant;
use tg_types::TimestampMs;

use crate::limits::span;

use super::dealer::SEND_AGAIN;
use super::signature::SeedScope;

/// Heights worked on at once, the lowest wanted ones: with [`SEND_AGAIN`] a peer is sent as many messages per second at most.
pub(super) const WANTED_MAX: usize = 64;

/// The partial signatures of wanted heights.
///
/// One is not checked when it arrives, but the seed that n - f of them give is, against the key: one pairing check for the
/// height in place of one for each. If the seed is wrong each is checked, and whoever sent a wrong one is checked at once
/// from then on, so that f liars cost f such searches in a round and one check per height each.
pub(super) struct Partials {
    scope: SeedScope,
    sharing: Sharing<MinSig>,
    share: Option<Share>,
    heights: BTreeMap<u64, HeightPartials>,
    suspects: BTreeSet<Participant>,
}

/// What is there for one height.
struct HeightPartials {
    message: Vec<u8>,
    own: Option<[u8; 48]>,
    again: TimestampMs,
    held: BTreeMap<Participant, HeldPartial>,
    /// Who sent a wrong one for this height.
    refused: BTreeSet<Participant>,
    seed: Option<[u8; 48]>,
}

#[derive(Clone, Copy)]
struct HeldPartial {
    value: G1,
    is_checked: bool,
}

impl Partials {
    pub(super) const fn new(
        scope: SeedScope,
        sharing: Sharing<MinSig>,
        share: Option<Share>,
    ) -> Self {
        Self {
            scope,
            sharing,
            share,
            heights: BTreeMap::new(),
            suspects: BTreeSet::new(),
        }
    }

    /// Works on these heights and no others; signs those that are new, and says which they are.
    pub(super) fn want(&mut self, wanted: &[u64], now: TimestampMs) -> Vec<u64> {
        let wanted: BTreeSet<u64> = wanted.iter().copied().collect();
        let wanted: BTreeSet<u64> = wanted.into_iter().take(WANTED_MAX).collect();
        self.heights.retain(|height, _| wanted.contains(height));
        let new: Vec<u64> = wanted
            .into_iter()
            .filter(|height| !self.heights.contains_key(height))
            .collect();
        for height in &new {
            let mut collected = HeightPartials::new(self.scope.message(*height), now);
            if let Some(share) = &self.share {
                collected.sign(share, &self.scope);
            }
            // A network of one needs nobody else.
            collected.recover(&self.scope, &self.sharing);
            self.heights.insert(*height, collected);
        }
        new
    }

    /// Whether a height is worked on.
    pub(super) fn wants(&self, height: u64) -> bool {
        self.heights.contains_key(&height)
    }

    /// A partial signature of a participant. Returns whose signatures of the height turned out to be wrong.
    pub(super) fn take(
        &mut self,
        from: Participant,
        height: u64,
        signature: &[u8; 48],
    ) -> Vec<Participant> {
        let Some(collected) = self.heights.get_mut(&height) else {
            return Vec::new();
        };
        let is_settled = collected.seed.is_some()
            || collected.held.contains_key(&from)
            || collected.refused.contains(&from);
        if is_settled {
            return Vec::new();
        }
        let held = G1::decode_fixed(*signature).ok().map(|value| HeldPartial {
            value,
            is_checked: self.suspects.contains(&from),
        });
        let held = held.filter(|held| {
            !held.is_checked || is_valid(&self.scope, &self.sharing, &collected.message, from, held)
        });
        let Some(held) = held else {
            collected.refused.insert(from);
            self.suspects.insert(from);
            return vec![from];
        };
        collected.held.insert(from, held);
        let liars = collected.recover(&self.scope, &self.sharing);
        self.suspects.extend(&liars);
        liars
    }

    /// This validator's partial signatures that are due to be sent, by height; and when the next is.
    pub(super) fn due(&mut self, now: TimestampMs) -> (Vec<(u64, [u8; 48])>, Option<TimestampMs>) {
        let mut due = Vec::new();
        let mut next: Option<TimestampMs> = None;
        for (height, collected) in &mut self.heights {
            let Some(own) = collected.own else {
                continue;
            };
            if collected.again <= now {
                due.push((*height, own));
                collected.again = now.saturating_add(span(SEND_AGAIN));
            }
            next = Some(next.map_or(collected.again, |next| next.min(collected.again)));
        }
        (due, next)
    }

    /// The seeds of wanted heights.
    pub(super) fn seeds(&self) -> Vec<(u64, [u8; 48])> {
        self.heights
            .iter()
            .filter_map(|(height, collected)| Some((*height, collected.seed?)))
            .collect()
    }
}

impl HeightPartials {
    const fn new(message: Vec<u8>, now: TimestampMs) -> Self {
        Self {
            message,
            own: None,
            again: now,
            held: BTreeMap::new(),
            refused: BTreeSet::new(),
            seed: None,
        }
    }

    fn sign(&mut self, share: &Share, scope: &SeedScope) {
        let partial = threshold::sign_message::<MinSig>(share, &scope.namespace, &self.message);
        self.own = Some(signature_bytes(&partial.value));
        let held = HeldPartial {
            value: partial.value,
            is_checked: true,
        };
        self.held.insert(partial.index, held);
    }

    /// Makes the seed if enough is there; else, or if some of it is wrong, says whose.
    fn recover(&mut self, scope: &SeedScope, sharing: &Sharing<MinSig>) -> Vec<Participant> {
        if self.held.len() < sharing.required() as usize {
            return Vec::new();
        }
        self.seed = self.interpolate(scope, sharing);
        if self.seed.is_some() {
            return Vec::new();
        }
        let mut liars = Vec::new();
        for (participant, held) in &mut self.held {
            held.is_checked =
                held.is_checked || is_valid(scope, sharing, &self.message, *participant, held);
            if !held.is_checked {
                liars.push(*participant);
            }
        }
        self.held.retain(|_, held| held.is_checked);
        self.refused.extend(&liars);
        if self.held.len() >= sharing.required() as usize {
            self.seed = self.interpolate(scope, sharing);
            debug_assert!(
                self.seed.is_some(),
                "valid partial signatures make the seed"
            );
        }
        liars
    }

    fn interpolate(&self, scope: &SeedScope, sharing: &Sharing<MinSig>) -> Option<[u8; 48]> {
        let partials: Vec<_> = self
            .held
            .iter()
            .map(|(index, held)| PartialSignature::<MinSig> {
                index: *index,
                value: held.value,
            })
            .collect();
        let seed = threshold::recover::<MinSig, _>(sharing, &partials, &Sequential).ok()?;
        ops::verify_message::<MinSig>(sharing.public(), &scope.namespace, &self.message, &seed)
            .ok()?;
        Some(signature_bytes(&seed))
    }
}

fn is_valid(
    scope: &SeedScope,
    sharing: &Sharing<MinSig>,
    message: &[u8],
    index: Participant,
    held: &HeldPartial,
) -> bool {
    let partial = PartialSignature {
        index,
        value: held.value,
    };
    threshold::verify_message(sharing, &scope.namespace, message, &partial).is_ok()
}

fn signature_bytes(point: &G1) -> [u8; 48] {
    point
        .encode()
        .as_ref()
        .try_into()
        .expect("a point of G1 has 48 bytes")
}
