//! What the ledger names.

use std::collections::BTreeMap;

use tg_ledger::{EvidenceTask, ModelState, RevealedKey, SampleTask, State, StoredFile};
use tg_types::{Address, Digest};

use crate::limits::{
    EVIDENCE_BYTES_MAX, MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX,
};

/// Files that are kept and looked for at one time.
const KEPT_AT_ONCE: usize = 1_024;

/// After so many blocks others are.
const KEPT_TURN_BLOCKS: u64 = 64;

/// What a blob is needed for: who waits for it, and what it costs them if it comes late. The most urgent stands first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NeededFor {
    /// Results: evidence, openings and answers, whose providers lose collateral if validators do not get them.
    Results,
    /// Models, which many jobs wait for.
    Models,
    /// Inputs, of which anybody may name as many as it pays orders for.
    Inputs,
    /// What was paid long ago and is kept.
    Kept,
}

/// A blob that is needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Its name.
    pub(crate) digest: Digest,
    /// The most bytes that it may have.
    pub(crate) limit: u64,
    /// Its bytes, where the ledger says them.
    pub(crate) exact: Option<u64>,
    /// What for.
    pub(crate) used_for: NeededFor,
}

impl Need {
    /// An opening of drawn tiles.
    fn opening(digest: Digest, size: u32) -> Self {
        Self {
            digest,
            limit: TRACE_EVIDENCE_BYTES_MAX,
            exact: Some(u64::from(size)),
            used_for: NeededFor::Results,
        }
    }

    /// The input of a sealed job whose key was shown.
    fn revealed(revealed: &RevealedKey) -> Self {
        Self {
            digest: revealed.input,
            limit: u64::from(revealed.input_len),
            exact: Some(u64::from(revealed.input_len)),
            used_for: NeededFor::Results,
        }
    }

    /// A file of which a statement is asked.
    fn stored(file: StoredFile) -> Self {
        match file {
            StoredFile::Input { digest, length, .. } => Self {
                digest,
                limit: u64::from(length),
                exact: Some(u64::from(length)),
                used_for: NeededFor::Inputs,
            },
            StoredFile::Opening { digest, length } => Self::opening(digest, length),
            StoredFile::Answer { digest, length } => Self {
                digest,
                limit: u64::from(length.longest()),
                exact: None,
                used_for: NeededFor::Results,
            },
            StoredFile::PublicModel { digest } => Self {
                digest,
                limit: PUBLIC_MODEL_BYTES_MAX,
                exact: None,
                used_for: NeededFor::Models,
            },
            StoredFile::Weights { digest } => Self {
                digest,
                limit: MODEL_BYTES_MAX,
                exact: None,
                used_for: NeededFor::Models,
            },
        }
    }

    /// Makes this the need of both. Stops: an order that names another's input with a wrong length, so that the right bytes
    /// would be taken for a lie.
    pub(super) fn widen(&mut self, other: &Self) {
        self.limit = self.limit.max(other.limit);
        self.used_for = self.used_for.min(other.used_for);
        if self.exact != other.exact {
            self.exact = None;
        }
    }
}

/// What is shown of a result: nothing where all of a run is repeated, as whoever does so finds the answer.
fn opening_of(sample: &SampleTask) -> Option<Need> {
    (!sample.is_repeated).then(|| Need::opening(sample.evidence, sample.size))
}

/// The blobs that `state` names and that `is_held` does not know, the most urgent first: evidence, what checks it, what the
/// validator `me` has not stated yet, inputs of open jobs, weights, answers that are kept. Models that were refused name nothing.
pub(crate) fn needs(state: &State, me: &Address, is_held: impl Fn(&Digest) -> bool) -> Vec<Need> {
    let evidence = state.pending_evidence().flat_map(|task| match task {
        EvidenceTask::Lease { evidence, size, .. } => vec![Need {
            digest: evidence,
            limit: EVIDENCE_BYTES_MAX,
            exact: Some(u64::from(size)),
            used_for: NeededFor::Results,
        }],
        EvidenceTask::Accusation { sample, .. } => match &sample.dispute {
            // What was delivered too: of floats it may show that a claim is wrong.
            Some(files) => [
                (files.claim.digest, files.claim.size),
                (files.answer.digest, files.answer.size),
                (sample.evidence, sample.size),
            ]
            .map(|(digest, size)| Need::opening(digest, size))
            .to_vec(),
            None => {
                let revealed = sample.revealed.as_deref().map(Need::revealed);
                opening_of(&sample).into_iter().chain(revealed).collect()
            }
        },
        EvidenceTask::Grant(task) => vec![Need::revealed(&task.revealed)],
        // Of replicas that differ every validator makes the answer itself.
        EvidenceTask::Model { .. }
        | EvidenceTask::Replicas { .. }
        | EvidenceTask::SeedKey { .. }
        | EvidenceTask::Seed { .. } => Vec::new(),
    });
    // What a committee looks at, also here if this validator stated before that it holds it.
    let voted = state.vote_tasks(me).into_iter().map(|it| it.sample);
    let voted = voted.filter_map(|sample| opening_of(&sample));
    // What a provider asks this validator for, which has to answer it.
    let argued = state.checked_leases().filter_map(|(_, lease)| {
        let dispute = lease.check.as_ref()?.stage.tile_dispute()?;
        let claim = dispute.step.claim()?;
        Some(Need::opening(claim.digest, claim.size))
    });
    let models = || {
        let all = state.models().iter();
        all.filter(|model| !matches!(model.state, ModelState::Refused(_)))
    };
    let public = models().map(|model| Need {
        digest: model.public_blob,
        limit: PUBLIC_MODEL_BYTES_MAX,
        exact: None,
        used_for: NeededFor::Models,
    });
    let asked = state.storage_tasks(me).into_iter();
    let asked = asked.flat_map(|task| task.files).map(Need::stored);
    let leased = state.live_leases().map(|(job, _)| job);
    let inputs = state.queued_jobs().chain(leased).map(|job| Need {
        digest: job.order.input,
        limit: u64::from(job.order.input_len),
        exact: Some(u64::from(job.order.input_len)),
        used_for: NeededFor::Inputs,
    });
    let weights = models().map(|model| Need {
        digest: model.weights_blob,
        limit: MODEL_BYTES_MAX,
        exact: None,
        used_for: NeededFor::Models,
    });
    let kept = kept(state, &is_held);
    let all = evidence
        .chain(voted)
        .chain(argued)
        .chain(public)
        .chain(asked)
        .chain(inputs)
        .chain(weights)
        .chain(kept);
    merged(all.filter(|need| !is_held(&need.digest)))
}

/// What is kept and not here: what this validator stated to keep too, should its disk have lost it.
fn kept(state: &State, is_held: impl Fn(&Digest) -> bool) -> Vec<Need> {
    let files = state.retained().iter().map(|file| Need {
        digest: file.digest,
        limit: u64::from(file.longest()),
        exact: None,
        used_for: NeededFor::Kept,
    });
    let lacking = files.filter(|need| !is_held(&need.digest)).collect();
    some_of(lacking, state.head().height.get())
}

/// Some of what is kept, others every few blocks: a validator that is new lacks a hundred thousand files, and those that nobody has must not
/// stand before the rest for good.
fn some_of(mut kept: Vec<Need>, height: u64) -> Vec<Need> {
    let turn = height / KEPT_TURN_BLOCKS * KEPT_AT_ONCE as u64;
    if let Some(first) = turn.checked_rem(kept.len() as u64) {
        kept.rotate_left(usize::try_from(first).unwrap_or(0));
    }
    kept.truncate(KEPT_AT_ONCE);
    kept
}

/// Each blob once, where it stands first, with what all say of it.
fn merged(all: impl Iterator<Item = Need>) -> Vec<Need> {
    let mut found: Vec<Need> = Vec::new();
    let mut places = BTreeMap::new();
    for need in all {
        let place = *places.entry(need.digest).or_insert(found.len());
        match found.get_mut(place) {
            Some(first) => first.widen(&need),
            None => found.push(need),
        }
    }
    found
}
