//! Sealed jobs: the key, from its grant to the end of the lease ([ADR 43]).
//!
//! The requestor grants the key of its job to the provider of the lease, which opens the input with it before it starts. The
//! answer is sealed too. So nobody else can check anything unless the requestor reveals the key, which it alone decides:
//! - if the provider says that the key does not open the input, it costs nothing: validators repeat the grant bit by bit and
//!   open the input;
//! - if the requestor says that the answer is wrong, it costs the fee of a challenge: validators run the model and seal the
//!   result.
//!
//! *Who gains by failing on purpose.* A requestor that grants no key burns the price of the time for which it held the
//! provider; one that grants a key that opens nothing burns the penalty of a declined lease. Nobody gets either. A provider
//! that wrongly denies a key has its own penalty burned if the requestor reveals the key; it could have published the input
//! itself. A provider whose answer is wrong, or opens to nothing, loses its collateral as soon as its requestor doubts it. If
//! a requestor reveals a key that does not open its own input, the result is accepted, whatever it is.
//!
//! [ADR 43]: https://github.com/tensorgrid/tensorgrid/blob/main/docs/adr/0043-sealed-jobs.md

use tg_types::{
    Address, Amount, DeclineReason, Digest, KeyGrant, LeaseId, SealingPublicKey, VerificationMode,
    Vote,
};

use tg_market::Quote;

use super::Execution;
use super::dispute::Accusation;
use crate::error::InvariantError;
use crate::event::{BurnedBecause, Event, KeyStep};
use crate::record::{
    Evidence, Job, Lease, LeaseEnd, OpenStage, Provider, Record, Sealing, SealingStage, SyncCheck,
    SyncStage, Unpaid, VoteRound,
};
use crate::rent::{RentCategory, SEALING_KEY_BYTES_CHARGED, name_of_address};

type Done = Result<(), InvariantError>;

impl Execution {
    /// Registers a provider's sealing key; the record's rent rises with the first one.
    pub(super) fn register_sealing_key(&mut self, sender: Address, key: SealingPublicKey) -> Done {
        let category = RentCategory::Providers;
        // At the price that was checked, before there is a record more.
        let charge = self.state.charge(category, SEALING_KEY_BYTES_CHARGED);
        self.ensure_provider(sender)?;
        let missing = InvariantError::Missing {
            table: Provider::NAME,
        };
        let mut provider = self.state.provider(&sender).ok_or(missing)?.clone();
        if provider.sealing.is_none() {
            let name = name_of_address(&sender);
            let before = provider.rent;
            let mut rent = self.settle_rent((category, before), before.deposit, name)?;
            let more = self.pay_charge(charge, sender, name)?;
            rent.deposit = rent.deposit.saturating_add(more);
            rent.bytes = rent.bytes.saturating_add(charge.bytes);
            if before.bytes == 0 {
                rent.payer = sender;
            }
            provider.rent = rent;
        }
        provider.sealing = Some(key);
        self.state.put_provider(provider);
        Ok(())
    }

    /// What a new lease of a job needs to have the job's key granted, if the job is sealed.
    pub(super) fn sealing_of(
        &self,
        job: &Job,
        quote: &Quote,
    ) -> Result<Option<Box<Sealing>>, InvariantError> {
        if job.order.mode != VerificationMode::Sealed {
            return Ok(None);
        }
        let key = self
            .state
            .provider(&quote.provider)
            .and_then(|it| it.sealing.clone());
        let missing = InvariantError::Missing {
            table: "sealing keys",
        };
        Ok(Some(Box::new(Sealing {
            key: key.ok_or(missing)?,
            declared: quote.duration,
            stage: SealingStage::AwaitsKey,
        })))
    }

    /// Takes the grant of a key: from now on the provider has the time to start.
    pub(super) fn grant_key(&mut self, id: &LeaseId, grant: KeyGrant) -> Done {
        let mut lease = self.lease(id)?;
        let start = self.state.parameters.start_timeout;
        let at = self.now;
        lease.start_by = at.saturating_add(start).min(lease.deadline);
        self.step_key(lease, SealingStage::Granted { grant, at }, KeyStep::Granted);
        Ok(())
    }

    /// The provider says that the key that was granted does not open the input.
    pub(super) fn question_key(&mut self, lease: Lease) -> Done {
        let window = self.state.parameters.verification_timeout;
        let until = self.now.saturating_add(window);
        let Some((grant, at)) = lease.granted() else {
            return Ok(());
        };
        let grant = grant.clone();
        let stage = SealingStage::Questioned { grant, at, until };
        self.step_key(lease, stage, KeyStep::Questioned);
        Ok(())
    }

    fn step_key(&mut self, mut lease: Lease, stage: SealingStage, step: KeyStep) {
        if let Some(sealing) = &mut lease.sealing {
            sealing.stage = stage;
        }
        self.events.push(Event::KeyChanged {
            lease: lease.id,
            job: lease.job,
            provider: lease.provider,
            step,
        });
        self.state.put_lease(lease);
    }

    /// The requestor shows the key: validators look at the grant, or for the fee of a challenge at the result.
    pub(super) fn reveal_key(&mut self, sender: Address, id: &LeaseId, secret: [u8; 32]) -> Done {
        let lease = self.lease(id)?;
        let Some((grant, at)) = lease.granted() else {
            return Ok(());
        };
        let grant = grant.clone();
        let stage = SealingStage::Revealed { grant, at, secret };
        let is_started = lease.started_at().is_some();
        self.step_key(lease, stage, KeyStep::Revealed);
        match is_started {
            true => self.dispute_sealed(sender, id),
            false => Ok(()),
        }
    }

    /// Every validator runs the model of a result that its requestor doubts.
    fn dispute_sealed(&mut self, requestor: Address, id: &LeaseId) -> Done {
        let mut lease = self.lease(id)?;
        self.pay_for_challenge(requestor, false)?;
        self.dispute(&lease, requestor, Vote::WrongRun)?;
        let accusation = Accusation {
            seed: Digest::default(),
            round: self.nobody(),
            accuser: requestor,
            vote: Vote::WrongRun,
        };
        if let Some(check) = &mut lease.check {
            check.stage = accusation.stage(None);
        }
        self.state.put_lease(lease);
        Ok(())
    }

    /// A committee without members: nobody votes on what is sealed.
    fn nobody(&self) -> VoteRound {
        VoteRound::new(0, Vec::new(), self.now)
    }

    /// Validators found out about a key that was shown whether it was granted and opens the input.
    pub(super) fn judge_grant(&mut self, id: &LeaseId, is_right: bool) -> Done {
        let lease = self.lease(id)?;
        let job = self.job(&lease.job)?;
        match is_right {
            true => self.fail(job, &lease, &LeaseEnd::Declined(DeclineReason::Key)),
            false => self.end_without_key(job, &lease),
        }
    }

    /// No key came in time that opens the input, or none was shown: the job ends, and the time that its provider was held is burned of its escrow; if
    /// the provider had a key, what the time since then costs. Stops: a provider that fails leases of its own first, so that this is many times
    /// as much for a requestor that does not show its input.
    pub(super) fn end_without_key(&mut self, mut job: Job, lease: &Lease) -> Done {
        if lease.granted().is_some() {
            let penalty = self.base_penalty(&job, lease).min(lease.locked());
            self.burn_of_key(&mut job, lease, penalty);
        }
        self.cancel_as(job, &LeaseEnd::Ungranted, Unpaid::NoKey)
    }

    /// Burns of the escrow of a job that ends before its provider started the part of the price that the wait for the key is of the declared time,
    /// at most the price. Stops: machines of others held for keys that never come, or come as the job is taken back. It is nobody's: a provider
    /// that could keep a requestor from granting would else be paid for that.
    pub(super) fn burn_wait(&mut self, job: &mut Job, lease: &Lease) {
        let Some(sealing) = lease
            .sealing
            .as_ref()
            .filter(|_| lease.started_at().is_none())
        else {
            return;
        };
        let declared = sealing.declared.get().max(1);
        let until = lease.granted().map_or(self.now, |(_, at)| at);
        let held = until.saturating_since(lease.matched_at).get();
        let price = lease.price;
        let amount = price.checked_mul_div_ceil(held.min(declared), declared);
        self.burn_of_key(job, lease, amount.unwrap_or(price));
    }

    /// Burns of what a job has left once the gas of its lease is paid, and those who made room for it.
    fn burn_of_key(&mut self, job: &mut Job, lease: &Lease, amount: Amount) {
        let most = job.escrow().saturating_sub(lease.gas_locked());
        let most = most.saturating_sub(job.owed_sum());
        self.burn_escrow(job, amount.min(most), BurnedBecause::NoKey);
    }

    /// A sealed answer is named with its receipt: validators fetch it, and state that they hold it.
    pub(super) fn deliver_sealed(&mut self, mut job: Job, mut lease: Lease) -> Done {
        let answer = lease.receipt().map(|it| it.output).unwrap_or_default();
        let length = self.state.answer_length(&job.order);
        let evidence = Evidence {
            digest: answer,
            size: length.map_or(0, |it| it.longest()),
        };
        let wait = self.state.parameters.verification_timeout;
        lease.name_evidence(evidence, self.now.saturating_add(wait))?;
        lease.check = Some(SyncCheck {
            stage: SyncStage::Opened {
                seed: Digest::default(),
                storage: crate::record::Storage::default(),
            },
            ..self.first_check()
        });
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        self.state.release(&lease);
        self.save_job(job);
        self.go_on_if_held(lease)
    }

    /// Enough validators hold a sealed answer: its requestor has some time to look at it.
    pub(super) fn let_requestor_look(&self, lease: &mut Lease) {
        let stage = SyncStage::Contestable {
            seed: Digest::default(),
            round: self.nobody(),
            until: self
                .now
                .saturating_add(self.state.parameters.challenge_window),
        };
        if let Some(check) = &mut lease.check {
            check.stage = stage;
        }
    }
}

impl crate::state::State {
    /// Whether a lease is of a sealed job.
    #[must_use]
    pub(crate) fn is_sealed(&self, lease: &Lease) -> bool {
        let job = self.job(&lease.job);
        job.is_some_and(|it| it.order.mode == VerificationMode::Sealed)
    }
}
