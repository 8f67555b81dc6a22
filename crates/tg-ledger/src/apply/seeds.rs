//! The key that signs seeds: its generation, and what a seed does.
//!
//! Validators generate the key together: each posts its signed log ([`tg_types::DealingLog`]), and the ledger keeps the logs
//! in the order in which they come. The list is closed once all have dealt, or n - f have and the window is over. The key is a
//! pure function of the logs, which every validator computes; those that found the same key vote for the block that names it.
//! A change of the set ends the round: the new set deals again, and results wait for a seed of its key. A round also ends if
//! it gives no key, if fewer than n - f have dealt after [`ROUND_PATIENCE`], or if its key signs nothing for [`SEED_PATIENCE`].
//!
//! *Who gains by failing on purpose.* Nobody knows the key as long as fewer than n - f validators combine their shares, so no
//! seed is known before n - f validators, of which n - 2f are honest, have released theirs for a final block. A validator that
//! deals nonsense, or nothing, is left out; withheld shares delay nothing while n - f are released. A proposer can choose
//! which logs come in time, but it chooses among keys that it does not know.

use std::sync::Arc;

use tg_types::{Address, DealingLog, Digest, DurationMs, Height, JobId, LeaseId, TimestampMs};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::EPOCH_BLOCKS;
use crate::record::{
    Dealing, ReplicaDraw, SEED_KEY_BYTES, SEED_SIGNATURE_BYTES, SeedBook, SeedKeyPhase, SyncStage,
};
use crate::state::SignedSeed;
use crate::verdict::{EvidenceTask, seed_of};

type Done = Result<(), InvariantError>;

/// How long a round waits for those who have not dealt, once n - f have.
const DEALING_WINDOW: DurationMs = DurationMs::from_secs(10);

/// How long a round waits for n - f dealings before all deal anew. A validator that has lost what it dealt, or that came to the set
/// when others had dealt, deals in the next round only: with one that never deals beside it, a round would have no end. It ends with the
/// first block of an epoch, since the set changes at the end of one only if a round is old ([`super::seats`]).
const ROUND_PATIENCE: DurationMs = DurationMs::from_secs(60);

/// Runs for which whoever opens a result has time beside `verification_timeout`: it runs the program again for the record, once more
/// for the drawn parts, and looks at what it opens as members do.
const OPENING_RUNS: u64 = 3;

/// How long a result waits for its seed before the validators deal a new key. Blocks are made by n - f validators, whose parts would
/// be enough: if none comes of them for so long, more than f have lost their shares.
const SEED_PATIENCE: DurationMs = DurationMs::from_secs(15);

impl Execution {
    /// Takes what a validator dealt.
    pub(super) fn post_dealing(&mut self, dealer: Address, log: &DealingLog) {
        let seeds = Arc::make_mut(&mut self.state.seeds);
        seeds.dealings.push(Dealing {
            dealer,
            log: log.clone(),
        });
    }

    /// The end of a block: closes the list of dealings, or begins a new round, if it is time.
    pub(super) fn turn_seeds(&mut self) {
        let (now, quorum, all) = (self.now, self.state.quorum(), self.state.validators.len());
        let seeds = &self.state.seeds;
        match seeds.phase {
            SeedKeyPhase::Dealing => {
                let dealt = seeds.dealings.len();
                let waited = |time| now > seeds.since.saturating_add(time);
                if dealt > 0 && (dealt == all || dealt >= quorum && waited(DEALING_WINDOW)) {
                    Arc::make_mut(&mut self.state.seeds).phase = SeedKeyPhase::Closed;
                } else if dealt < quorum && waited(ROUND_PATIENCE) && self.begins_epoch() {
                    self.begin_round();
                }
            }
            SeedKeyPhase::Closed => {}
            SeedKeyPhase::Ready { since, .. } => {
                if self.seed_is_missed(since) {
                    self.begin_round();
                }
            }
        }
    }

    /// Whether the block is the first one of an epoch.
    const fn begins_epoch(&self) -> bool {
        self.height.get() % EPOCH_BLOCKS == 1
    }

    /// Whether a result has waited too long for a seed by a key that is known since then.
    fn seed_is_missed(&self, since: TimestampMs) -> bool {
        let waits = self.state.checked_leases().filter_map(|(_, lease)| {
            let check = lease.check.as_ref()?;
            (check.stage == SyncStage::AwaitsSeed).then_some(check.since.max(since))
        });
        let draws = self.state.draws_without_seed();
        let draws = draws.map(|(_, draw)| draw.since.max(since));
        let oldest = waits.chain(draws).min();
        oldest.is_some_and(|oldest| self.now > oldest.saturating_add(SEED_PATIENCE))
    }

    /// The validators deal a new key.
    pub(super) fn begin_round(&mut self) {
        let next = self.state.seeds.next(self.now);
        self.events.push(Event::SeedRound { round: next.round });
        self.state.seeds = Arc::new(next);
    }

    /// The dealings of the round gave a key, or none.
    pub(super) fn decide_key(&mut self, key: Option<[u8; SEED_KEY_BYTES]>) {
        let Some(key) = key else {
            self.begin_round();
            return;
        };
        let since = self.now;
        let seeds = Arc::make_mut(&mut self.state.seeds);
        seeds.phase = SeedKeyPhase::Ready { key, since };
        let round = seeds.round;
        self.events.push(Event::SeedKeyMade { round });
    }

    /// The seed of a block is known: it draws the tiles of the results that were committed to in it, and the members of the
    /// jobs whose drawing began in it; and it breaks the ties of the next epoch, if none of a later block is signed in this one.
    pub(super) fn take_seed(
        &mut self,
        height: Height,
        signature: &[u8; SEED_SIGNATURE_BYTES],
    ) -> Done {
        let seed = seed_of(signature);
        self.events.push(Event::SeedSigned { height, seed });
        self.state.schedule.note_seed(SignedSeed { height, seed });
        let timeout = self.state.parameters.verification_timeout;
        for id in self.state.waits_for_seed(height) {
            let mut lease = self.lease(&id)?;
            if lease.evidence().is_some() {
                self.begin_vote(&mut lease, seed);
                self.state.put_lease(lease);
                continue;
            }
            // To open a run its provider repeats and checks it.
            let runs = self.state.run_window(&lease).saturating_mul(OPENING_RUNS);
            let answer_by = self.now.saturating_add(timeout).saturating_add(runs);
            if let Some(check) = &mut lease.check {
                check.stage = SyncStage::Challenged { seed, answer_by };
            }
            self.state.put_lease(lease);
        }
        let drawn = self.state.draws_without_seed();
        let drawn = drawn.filter(|(_, draw)| draw.from == height);
        let drawn: Vec<JobId> = drawn.map(|(job, _)| job).collect();
        for id in drawn {
            let mut job = self.job(&id)?;
            if let Some(draw) = &mut job.draw {
                draw.seed = Some(seed);
            }
            self.save_job(job);
        }
        Ok(())
    }
}

impl crate::state::State {
    /// The heights whose seeds are wanted, ascending: of blocks in which results were committed to, or drawings of members
    /// begun, that wait for one.
    #[must_use]
    pub fn seeds_wanted(&self) -> Vec<Height> {
        if self.seeds.key().is_none() {
            return Vec::new();
        }
        let checks = self.checks_without_seed().map(|(from, _)| from);
        let draws = self.draws_without_seed().map(|(_, draw)| draw.from);
        let mut wanted: Vec<Height> = checks.chain(draws).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The leases whose results wait for the seed of a height.
    fn waits_for_seed(&self, height: Height) -> Vec<LeaseId> {
        let all = self.checks_without_seed();
        all.filter(|(from, _)| *from == height)
            .map(|(_, lease)| lease)
            .collect()
    }

    fn checks_without_seed(&self) -> impl Iterator<Item = (Height, LeaseId)> {
        self.checked_leases().filter_map(|(_, lease)| {
            let check = lease.check.as_ref()?;
            (check.stage == SyncStage::AwaitsSeed).then_some((check.from, lease.id))
        })
    }

    /// Waiting jobs whose members wait to be drawn.
    fn draws_without_seed(&self) -> impl Iterator<Item = (JobId, ReplicaDraw)> {
        self.queued_jobs().filter_map(|job| {
            let draw = job.draw.as_ref().filter(|it| it.seed.is_none())?;
            Some((job.id, draw.clone()))
        })
    }

    /// What validators have to find out about seeds: the key of the dealings that are closed, and the seeds that are wanted.
    pub(crate) fn seed_evidence(&self) -> impl Iterator<Item = EvidenceTask> {
        let closed = self.closed_dealings().map(|(seeds, digest)| {
            let seats = self.validators.iter().map(|it| *it.key.as_bytes());
            EvidenceTask::SeedKey {
                network: self.genesis,
                round: seeds.round,
                seats: seats.collect(),
                dealings: seeds.dealings.clone().into(),
                digest,
            }
        });
        let (network, round, key) = (self.genesis, self.seeds.round, self.seeds.key().copied());
        let wanted = key.map(|key| (key, self.seeds_wanted()));
        let seeds = wanted.into_iter().flat_map(move |(key, wanted)| {
            wanted.into_iter().map(move |height| EvidenceTask::Seed {
                network,
                round,
                height,
                key,
            })
        });
        closed.into_iter().chain(seeds)
    }

    /// What names the list of dealings that waits for its key.
    pub(crate) fn closed_dealings(&self) -> Option<(&SeedBook, Digest)> {
        let seeds = self.seeds.as_ref();
        (seeds.phase == SeedKeyPhase::Closed).then(|| (seeds, seeds.digest()))
    }
}
