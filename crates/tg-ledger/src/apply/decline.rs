//! Leases that were matched and never started.
//!
//! Before it starts a lease, a provider checks what the lease needs, and may decline. It pays for what that costs others:
//! for the time for which it held the job, and twice as much for each further decline in a window. The penalty
//! `max(gas, maximum price x time held / time) x 2^k` is burned out of its collateral, and it gets no leases for 2^k seconds,
//! unless validators state that what it was promised is not there. A lease that is not started in time counts as declined.
//! The time is the declared one, at least the start timeout, so that the first missed start costs the maximum price at most.
//! The requestor's maximum price counts, and not the provider's own: a provider that wants to delay orders would ask next to
//! nothing. But the requestor has it back, so that it could choose what others lose: it counts up to ten times the provider's
//! price, or up to the least collateral if that is more. And who never starts loses at most what it would lose after the start.
//!
//! If the provider says that the input or the model is missing, the penalty stays locked and the validators are asked again.
//! It is returned if n - f of them state that they do not hold the file, and the job or the model is then suspended too. It
//! is burned once more than f of them state that they hold it, or when the time to answer is over. One answer decides all
//! declines that wait for it: files that validators lose fail every lease that needs them, and no provider pays for that.

use tg_market::reputation::LeaseOutcome;
use tg_types::{Amount, DeclineReason, DurationMs, LeaseId, ModelId, StorageSubject};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::DECLINE_DOUBLINGS_MAX;
use crate::parameters::StorageRule;
use crate::record::{
    AbandonedBecause, Job, JobPhase, Lease, LeaseEnd, LeasePhase, Model, OpenStage, Recheck,
    Record, Storage,
};
use crate::state::Schedule;

type Done = Result<(), InvariantError>;

/// How long a provider gets no leases after the first one that it did not start.
const PAUSE: DurationMs = DurationMs::from_secs(1);

/// Leases that were not started within this time count together.
const WINDOW: DurationMs = DurationMs::from_secs(3_600);

/// Up to how many times the price of a lease the maximum price of its order counts for what not starting it costs.
const PRICES_COUNTED: u64 = 10;

/// What becomes of the penalties that wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// What was promised was there.
    Burned,
    /// It was not, or nobody can tell.
    Returned,
}

/// What does not come back of a lease's collateral at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CollateralLost {
    /// All comes back, or was credited before.
    Nothing,
    /// This is burned, or pays members of its gang.
    Forfeited(Amount),
    /// This stays locked until validators answered whether the provider is to blame.
    Held(Amount),
}

impl CollateralLost {
    /// How much it is.
    pub(super) const fn amount(self) -> Amount {
        match self {
            Self::Nothing => Amount::ZERO,
            Self::Forfeited(amount) | Self::Held(amount) => amount,
        }
    }

    /// What stays locked.
    pub(super) const fn held(self) -> Amount {
        match self {
            Self::Nothing | Self::Forfeited(_) => Amount::ZERO,
            Self::Held(amount) => amount,
        }
    }
}

impl Execution {
    /// Ends a lease that its provider declines.
    pub(super) fn decline(&mut self, id: &LeaseId, reason: DeclineReason) -> Done {
        let lease = self.lease(id)?;
        if reason == DeclineReason::Key {
            return self.question_key(lease);
        }
        let job = self.job(&lease.job)?;
        let lead = self.lease(&lease.lead().unwrap_or(lease.id))?;
        self.fail_gang(job, &lead, &[*id], &LeaseEnd::Declined(reason))
    }

    /// Ends a lease that was not started; what of its collateral is to be burned now.
    pub(super) fn punish_unstarted(
        &mut self,
        job: &mut Job,
        lease: Lease,
        end: LeaseEnd,
    ) -> Result<Amount, InvariantError> {
        let penalty = self.penalty(job, &lease).min(lease.locked());
        let back = lease.locked().saturating_sub(penalty);
        self.credit(lease.provider, back)?;
        let waits = match end {
            LeaseEnd::Declined(reason) => self.ask_again(job, reason)?,
            _ => false,
        };
        self.count_unstarted(&lease, job, &end, penalty)?;
        let (id, provider) = (lease.id, lease.provider);
        if waits {
            self.events.push(Event::PenaltyHeld {
                lease: id,
                provider,
                amount: penalty,
            });
            self.close_lease_but(lease, end, CollateralLost::Held(penalty))?;
            return Ok(Amount::ZERO);
        }
        self.events.push(Event::Forfeited {
            lease: id,
            job: job.id,
            provider,
            amount: penalty,
        });
        self.close_lease_but(lease, end, CollateralLost::Forfeited(penalty))?;
        Ok(penalty)
    }

    /// What not starting a lease costs now: twice as much for each one of its provider before.
    fn penalty(&self, job: &Job, lease: &Lease) -> Amount {
        let provider = self.state.provider(&lease.provider);
        let doublings = provider.map_or(0, |it| it.unstarted_at(self.now, WINDOW));
        let factor = 1 << doublings.min(DECLINE_DOUBLINGS_MAX);
        let base = self.base_penalty(job, lease);
        let all = base.checked_mul_div_ceil(factor, 1);
        // Stops: a model that is slow to pull, as declining it costs more than to start and to do nothing.
        all.unwrap_or(Amount::MAX).min(lease.at_risk)
    }

    /// What the time costs for which a lease was held and not started, whoever holds it.
    pub(super) fn base_penalty(&self, job: &Job, lease: &Lease) -> Amount {
        // The wait for a key is not its fault.
        let since = lease.granted().map_or(lease.matched_at, |(_, at)| at);
        let held = self.now.saturating_since(since).get();
        let start = self.state.parameters.start_timeout.get();
        let sealing = lease.sealing.as_ref();
        let declared = sealing.map_or_else(|| self.declared_time(lease), |it| it.declared.get());
        let whole = declared.max(start).max(1);
        // Stops: an order that costs all who decline it their collateral, as its requestor names a maximum price that it has back.
        let counted = lease.price.saturating_mul(PRICES_COUNTED);
        let counted = counted.max(self.state.parameters.collateral_min);
        let most = job.order.max_price.min(counted);
        let time = most.checked_mul_div_ceil(held.min(whole), whole);
        time.unwrap_or(most).max(self.state.lease_fees())
    }

    fn count_unstarted(&mut self, lease: &Lease, job: &Job, end: &LeaseEnd, lost: Amount) -> Done {
        let (now, epoch) = (self.now, Schedule::epoch(self.height));
        let class = job.order.needs.class;
        let is_lost = matches!(
            end,
            LeaseEnd::Abandoned(AbandonedBecause::NotStarted | AbandonedBecause::ProviderLost)
        );
        self.update_provider(lease, |provider| {
            let before = provider
                .unstarted_at(now, WINDOW)
                .min(DECLINE_DOUBLINGS_MAX);
            if before == 0 {
                provider.unstarted_since = now;
            }
            provider.unstarted = before + 1;
            let pause = DurationMs::new(PAUSE.get() << before);
            let until = now.saturating_add(pause);
            provider.suspended_until = provider.suspended_until.max(until);
            provider.lost = provider.lost.saturating_add(lost);
            if is_lost {
                provider.record.abandoned = provider.record.abandoned.saturating_add(1);
                provider.observe(class, LeaseOutcome::Lost, epoch);
            }
        })
    }

    /// Asks the validators again whether they hold what a provider could not get; whether its penalty waits for that.
    fn ask_again(&mut self, job: &mut Job, reason: DeclineReason) -> Result<bool, InvariantError> {
        if self.state.parameters.storage == StorageRule::Assumed {
            return Ok(false);
        }
        let until = self
            .now
            .saturating_add(self.state.parameters.verification_timeout);
        match reason {
            // Of a key validators have said before that it was right.
            DeclineReason::Unwilling | DeclineReason::Key => Ok(false),
            // There is none.
            DeclineReason::InputMissing if job.is_endpoint() => Ok(false),
            DeclineReason::InputMissing => {
                ask(&mut job.storage, until);
                Ok(true)
            }
            DeclineReason::ModelMissing => {
                let mut model = self.model(&job.order.model)?;
                ask(&mut model.storage, until);
                self.state.put_model(model);
                Ok(true)
            }
        }
    }

    pub(super) fn model(&self, id: &ModelId) -> Result<Model, InvariantError> {
        let missing = InvariantError::Missing { table: Model::NAME };
        self.state.model(id).cloned().ok_or(missing)
    }

    /// What the answers about a job's input so far decide.
    pub(super) fn judge_input(&mut self, mut job: Job) -> Done {
        match self.answer(&job.storage) {
            None => {
                self.save_job(job);
                Ok(())
            }
            Some(Settled::Burned) => {
                let id = job.id;
                job.storage.recheck = None;
                self.save_job(job);
                self.settle_declined(id, Settled::Burned)
            }
            Some(Settled::Returned) => {
                job.storage = Storage::default();
                self.settle_declined(job.id, Settled::Returned)?;
                self.suspend(job)
            }
        }
    }

    /// What the answers about a model's files so far decide.
    pub(super) fn judge_model(&mut self, mut model: Model) -> Done {
        let Some(settled) = self.answer(&model.storage) else {
            self.state.put_model(model);
            return Ok(());
        };
        model.storage.recheck = None;
        if settled == Settled::Returned {
            model.storage = Storage::default();
        }
        let id = model.id;
        self.state.put_model(model);
        self.settle_declined(id, settled)?;
        if settled == Settled::Burned {
            return Ok(());
        }
        let waiting = self.state.open_jobs().filter(|it| it.order.model == id);
        let waiting: Vec<Job> = waiting.cloned().collect();
        waiting.into_iter().try_for_each(|job| self.suspend(job))
    }

    /// What the answers so far decide about the penalties that wait.
    fn answer(&self, storage: &Storage) -> Option<Settled> {
        let recheck = storage.recheck.as_ref()?;
        if recheck.missing.len() >= self.state.quorum() {
            Some(Settled::Returned)
        } else if recheck.held.len() > self.state.faults_max() {
            Some(Settled::Burned)
        } else {
            None
        }
    }

    /// Puts a job back that nobody started, until validators hold what it needs.
    fn suspend(&mut self, mut job: Job) -> Done {
        match job.phase {
            JobPhase::Open {
                stage: OpenStage::Queued,
                ..
            } => {}
            JobPhase::Open {
                stage: OpenStage::Leased(lead),
                ..
            } => {
                let lead = self.lease(&lead)?;
                let leases: Vec<Lease> = self.state.gang_of(&lead).cloned().collect();
                for lease in leases {
                    self.let_go(lease, LeaseEnd::Unavailable)?;
                }
                job.declined = job.declined.saturating_add(1);
                self.step(&mut job, OpenStage::Queued)?;
            }
            JobPhase::Open { .. } | JobPhase::Paid { .. } | JobPhase::Unpaid { .. } => {
                self.save_job(job);
                return Ok(());
            }
        }
        self.step(&mut job, OpenStage::Submitted)?;
        self.save_job(job);
        Ok(())
    }

    /// Burns or returns the penalties of all leases that were declined because an input or a model was missing.
    pub(super) fn settle_declined(
        &mut self,
        subject: impl Into<StorageSubject>,
        settled: Settled,
    ) -> Done {
        let declined = self.state.declined_over(&subject.into());
        self.settle_penalties(&declined, settled)
    }

    /// Burns or returns what is still locked of leases that ended.
    pub(super) fn settle_penalties(&mut self, leases: &[LeaseId], settled: Settled) -> Done {
        for id in leases {
            let mut lease = self.lease(id)?;
            let LeasePhase::Ended { penalty, .. } = &mut lease.phase else {
                continue;
            };
            let amount = std::mem::replace(penalty, Amount::ZERO);
            if amount.is_zero() {
                continue;
            }
            match settled {
                Settled::Burned => self.burn(amount),
                Settled::Returned => {
                    self.credit(lease.provider, amount)?;
                    self.update_provider(&lease, |provider| {
                        provider.unstarted = provider.unstarted.saturating_sub(1);
                        provider.lost = provider.lost.saturating_sub(amount);
                    })?;
                }
            }
            self.events.push(Event::PenaltySettled {
                lease: *id,
                provider: lease.provider,
                amount,
                is_burned: settled == Settled::Burned,
            });
            self.state.put_lease(lease);
        }
        Ok(())
    }

    /// Ends the questions that were not answered in time.
    pub(super) fn close_rechecks(&mut self) -> Done {
        let now = self.now;
        let lapsed = |it: &Storage| it.recheck.as_ref().is_some_and(|it| it.until < now);
        let jobs: Vec<Job> = self
            .state
            .open_jobs()
            .filter(|it| lapsed(&it.storage))
            .cloned()
            .collect();
        for mut job in jobs {
            let id = job.id;
            job.storage.recheck = None;
            self.save_job(job);
            self.settle_declined(id, Settled::Burned)?;
        }
        let models = self.state.models.iter().filter(|it| lapsed(&it.storage));
        let models: Vec<Model> = models.cloned().collect();
        for mut model in models {
            let id = model.id;
            model.storage.recheck = None;
            self.state.put_model(model);
            self.settle_declined(id, Settled::Burned)?;
        }
        Ok(())
    }
}

/// Opens the question, unless it is open.
fn ask(storage: &mut Storage, until: tg_types::TimestampMs) {
    storage.recheck.get_or_insert_with(|| Recheck {
        until,
        held: crate::record::SeatSet::default(),
        missing: crate::record::SeatSet::default(),
    });
}
