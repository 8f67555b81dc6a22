//! Disputes about runs that are too large for every validator to repeat: each ends at one tile ([ADR 33]).
//!
//! The accuser, a watcher or a challenger, submits a claim: the values of all tiles of a right run. The provider submits the
//! first tile of the claim that is wrong, with the values it reads. Every validator computes that tile. A side that submits
//! nothing, or a file that validators cannot get, loses. A watcher that accepted the result loses nothing when the provider
//! does so: only a tile that validators computed refutes a vote.
//!
//! A wrong claim decides nothing about the result, since the provider may have paid for it. The vote continues with a whole
//! window for the next challenge, and challenges that were made meanwhile come first. A challenge is accepted while another
//! one is being decided, so that one that was made in order to lose keeps nobody out.
//!
//! *Who gains by failing on purpose.* An accuser that is wrong has paid the fee of a run by all validators, or loses the bond
//! of an accusation; a provider that is right computes its run again, and one tile. A provider that is right and shows
//! nothing, in order to harm its watcher, loses only its own collateral; a watcher that lied together with a silent provider
//! keeps its bond, and that provider loses three times what it could win. A provider that lies and has itself accused wrongly
//! pays a fee for every accusation, and in the end has to be the only challenger for a whole window. Validators that state
//! that they do not hold a file cannot stop a side: n - f are honest.
//!
//! [ADR 33]: https://github.com/tensorgrid/tensorgrid/blob/main/docs/adr/0033-disputes-end-at-a-tile.md

use tg_types::{Address, Amount, Label, LeaseId, TimestampMs, VerificationMode, Vote};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    DisputeStep, DisputeTurn, Evidence, Lease, LeaseEnd, Storage, SyncStage, TileDispute, VoteRound,
};

type Done = Result<(), InvariantError>;

/// The code of a provider that shows nothing against an accusation in time; the checks of validators have those below.
const CODE_UNANSWERED: u16 = 98;

/// Who accuses, and what was voted before.
#[derive(Debug, Clone)]
pub(super) struct Accusation {
    pub(super) seed: tg_types::Digest,
    pub(super) round: VoteRound,
    pub(super) accuser: Address,
    pub(super) vote: Vote,
}

impl Accusation {
    /// The stage of a result that is accused.
    pub(super) fn stage(self, by_tile: Option<TileDispute>) -> SyncStage {
        let Self {
            seed,
            round,
            accuser,
            vote,
        } = self;
        SyncStage::Disputed {
            seed,
            round,
            accuser,
            vote,
            by_tile: by_tile.map(Box::new),
        }
    }
}

impl Execution {
    /// The dispute about a lease's run, if it ends at one tile.
    pub(super) fn first_step(&self, lease: &Lease) -> Option<TileDispute> {
        self.state.is_disputed_by_tile(lease).then(|| TileDispute {
            step: DisputeStep::Claiming,
            until: self.argue_by(lease),
            held: Amount::ZERO,
            waiting: Vec::new(),
        })
    }

    /// Until when whoever's turn it is has to hand in its file: the time that evidence has, and that of three runs. One may have to be begun
    /// again after a restart, and another result be disputed at the same time.
    fn argue_by(&self, lease: &Lease) -> TimestampMs {
        let window = self.state.parameters.verification_timeout;
        let run = self.state.run_window(lease);
        let runs = run.saturating_add(run).saturating_add(run);
        self.now.saturating_add(window).saturating_add(runs)
    }

    /// Takes the file of whoever's turn it is.
    pub(super) fn argue(&mut self, sender: Address, id: &LeaseId, file: Evidence) -> Done {
        let mut lease = self.lease(id)?;
        let held_by = self
            .now
            .saturating_add(self.state.parameters.verification_timeout);
        let Some(dispute) = tile_dispute_mut(&mut lease) else {
            return Ok(());
        };
        // Validators have the time of evidence to fetch it, however late it was named.
        dispute.until = dispute.until.max(held_by);
        let storage = Storage::default();
        dispute.step = match &dispute.step {
            DisputeStep::Claiming => DisputeStep::Claimed {
                claim: file,
                storage,
            },
            DisputeStep::Answering { claim } => DisputeStep::Answered {
                claim: *claim,
                answer: file,
                storage,
            },
            _ => return Ok(()),
        };
        self.events.push(Event::ResultArgued {
            lease: lease.id,
            job: lease.job,
            account: sender,
            file: file.digest,
        });
        self.advance_if_held(&mut lease);
        self.state.put_lease(lease);
        Ok(())
    }

    /// Goes on once enough validators hold the file that was handed in.
    pub(super) fn advance_if_held(&mut self, lease: &mut Lease) {
        let until = self.argue_by(lease);
        let step = lease.check.as_ref().and_then(|it| it.stage.tile_dispute());
        let is_held = step
            .and_then(|it| it.step.wanted())
            .is_some_and(|(_, storage)| self.state.is_held(storage));
        if !is_held {
            return;
        }
        let Some(dispute) = tile_dispute_mut(lease) else {
            return;
        };
        match dispute.step {
            DisputeStep::Claimed { claim, .. } => {
                dispute.step = DisputeStep::Answering { claim };
                dispute.until = until;
            }
            DisputeStep::Answered { claim, answer, .. } => {
                dispute.step = DisputeStep::Judged { claim, answer };
            }
            _ => {}
        }
    }

    /// Ends the disputes in which somebody handed in nothing in time, or what validators cannot get.
    pub(super) fn lapse_disputes(&mut self) -> Done {
        let is_over = |lease: &Lease| {
            let dispute = lease.check.as_ref().and_then(|it| it.stage.tile_dispute());
            dispute.is_some_and(|it| it.until < self.now)
        };
        let over = self.state.checked_leases();
        let over = over.filter(|(_, lease)| is_over(lease));
        let over: Vec<Lease> = over.map(|(_, lease)| lease.clone()).collect();
        over.into_iter().try_for_each(|lease| {
            let dispute = lease.check.as_ref().and_then(|it| it.stage.tile_dispute());
            match dispute.map(|it| it.step.turn()) {
                Some(DisputeTurn::Accuser) => self.refute(&lease.id),
                Some(DisputeTurn::Provider) => self.reject_unanswered(lease),
                Some(DisputeTurn::Validators) | None => Ok(()),
            }
        })
    }

    /// Stops: a provider that has a right result challenged and shows nothing, so that its watcher loses its bond. No validator looked, and
    /// whoever found the result right cannot answer in the provider's place; so votes stay as they are.
    fn reject_unanswered(&mut self, lease: Lease) -> Done {
        let lease = self.side_with_accusers(lease)?;
        let job = self.job(&lease.job)?;
        let end = LeaseEnd::Rejected {
            code: CODE_UNANSWERED,
            check: Label::lossy("nothing was shown against the accusation"),
        };
        self.fail(job, &lease, &end)
    }

    /// The dispute of whoever challenged next while the last one was looked at, if somebody did.
    pub(super) fn next_dispute(&mut self, lease: &Lease) -> Option<(Address, TileDispute)> {
        let dispute = lease.check.as_ref()?.stage.tile_dispute()?;
        let (next, waiting) = dispute.waiting.split_first()?;
        let first = self.first_step(lease)?;
        self.events.push(Event::ResultDisputed {
            lease: lease.id,
            job: lease.job,
            accuser: *next,
            vote: Vote::WrongRun,
        });
        let waiting = waiting.to_vec();
        let held = dispute.held;
        Some((
            *next,
            TileDispute {
                waiting,
                held,
                ..first
            },
        ))
    }
}

impl crate::state::State {
    /// Whether a dispute about the run of a lease ends at one tile: its model is too much for every validator to run again.
    #[must_use]
    pub(crate) fn is_disputed_by_tile(&self, lease: &Lease) -> bool {
        let job = self.job(&lease.job);
        let job = job.filter(|it| it.order.mode == VerificationMode::Optimistic);
        let facts = job.and_then(|it| self.active_model(&it.order));
        facts.is_some_and(|it| it.is_disputed_by_tile(self.parameters.repeated_macs_max))
    }

    /// How long whoever has to run the model of a lease again has for that.
    pub(crate) fn run_window(&self, lease: &Lease) -> tg_types::DurationMs {
        let job = self.job(&lease.job);
        let facts = job.and_then(|it| self.active_model(&it.order));
        facts.map_or(tg_types::DurationMs::ZERO, |it| it.run_window())
    }
}

/// The dispute of a lease that ends at one tile.
pub(super) fn tile_dispute_mut(lease: &mut Lease) -> Option<&mut TileDispute> {
    match &mut lease.check.as_mut()?.stage {
        SyncStage::Disputed { by_tile, .. } => by_tile.as_deref_mut(),
        _ => None,
    }
}
