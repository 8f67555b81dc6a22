//! The life of jobs and leases: their transitions, their ends, and the settlement.
//!
//! | end of a lease | collateral | provider | job |
//! |---|---|---|---|
//! | `Fulfilled` | returned | paid; one accepted result more | `Paid` |
//! | `Rejected` | burned | suspended, excluded from the job | `Queued`, or `Refunded` without attempts left |
//! | `Late`, `Abandoned` after the start | what was at risk is burned | suspended for less, excluded from the job | likewise |
//! | `Abandoned` before the start, `Declined` | a penalty is burned ([`decline`](super::decline)) | likewise | `Queued` |
//! | `Preempted` | returned | paid for its work so far, if the preempting job is paid or cancelled | likewise |
//! | `Released` | returned | paid for its work so far, out of what the guilty members forfeit, at most their prices | likewise |
//! | `Cancelled` | returned | gas before the start, its time after it, at most its price | `Cancelled` |
//! | `Unavailable` | returned | nothing | `Submitted` |
//!
//! What a provider loses is burned, so that nobody gains by causing a failure. Three things are paid out of it: other members
//! of a gang for work that became useless, the fee of a challenger that was right, and the run by validators where replicas
//! differed.

use tg_market::reputation::{LeaseOutcome, TOP_BONUS_PPM};
use tg_market::throughput::Correction;
use tg_market::view::{gpu_class, gpu_time, held_milli, work_kind};
use tg_types::{Address, Amount, DurationMs, JobId, LeaseId, OfferId, VerificationMode};

use super::Execution;
use super::decline::{CollateralLost, Settled};
use super::lanes::{loss_of, loss_since};
use super::sync::right_votes;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::{BurnedBecause, Event};
use crate::limits::{DECLINES_MAX, GANG_DECLINES_MAX, OWED_MAX};
use crate::record::{
    EndReason, Job, JobPhase, JobState, LatePhase, Lease, LeaseEnd, OpenStage, Owed, Provider,
    Record, Settlement, Step, SyncCheck, Unpaid,
};
use crate::state::Schedule;

type Done = Result<(), InvariantError>;

impl Execution {
    /// A copy of a job.
    pub(super) fn job(&self, id: &JobId) -> Result<Job, InvariantError> {
        let missing = InvariantError::Missing { table: Job::NAME };
        self.state.job(id).cloned().ok_or(missing)
    }

    /// A copy of a lease.
    pub(super) fn lease(&self, id: &LeaseId) -> Result<Lease, InvariantError> {
        let missing = InvariantError::Missing { table: Lease::NAME };
        self.state.lease(id).cloned().ok_or(missing)
    }

    /// Moves an open job to the stage `to`.
    pub(crate) fn step(&mut self, job: &mut Job, to: OpenStage) -> Done {
        self.note_step(job, to.state())?;
        job.set_stage(to);
        Ok(())
    }

    /// Records the next state of a job in its history.
    pub(super) fn note_step(&mut self, job: &mut Job, to: JobState) -> Done {
        let from = job.history.last().map_or(to, |it| it.state);
        if !from.may_become(to) {
            return Err(InvariantError::BadStep { from, to });
        }
        if repeats_dispute(&job.history, to) {
            job.history.truncate(job.history.len() - 2);
        }
        job.history.push(Step {
            state: to,
            height: self.height,
            at: self.now,
            timestamp: self.timestamp,
        });
        self.events.push(Event::JobChanged {
            job: job.id,
            requestor: job.requestor,
            state: to,
        });
        Ok(())
    }

    /// Stores a job and puts it in the queue that its state belongs to.
    pub(super) fn save_job(&mut self, job: Job) {
        let state = &mut self.state;
        let is_submitted = job.state() == JobState::Submitted;
        let is_queued = job.state() == JobState::Queued;
        let is_live = job.live_lease().is_some();
        let queues = [
            (&mut state.submitted, is_submitted),
            (&mut state.queued, is_queued),
            (&mut state.live, is_live),
        ];
        for (queue, belongs) in queues {
            match (belongs, queue.contains_key(&job.sequence)) {
                (true, false) => {
                    queue.insert(job.sequence, job.id);
                }
                (false, true) => {
                    queue.remove(&job.sequence);
                }
                (true, true) | (false, false) => {}
            }
        }
        if job.state().is_final() {
            // The height of its last step, as in the queues that are rebuilt from the records.
            let ended = job.history.last().map_or(0, |step| step.height.get());
            let key = (ended, job.sequence);
            state.ended.insert(key, job.id);
        }
        state.put_job(job);
    }

    /// Accepts the result of a lease and settles its job in the same block.
    pub(super) fn accept(&mut self, mut job: Job, lease: Lease) -> Done {
        self.note_step(&mut job, JobState::Accepted)?;
        self.begin_retention(&mut job, &lease)?;
        let out_of_range = InvariantError::AmountOutOfRange {
            account: lease.provider,
        };
        let members = self.pay_members(&lease, &job)?;
        let compensation = self.compensate_displaced(&job)?;
        let spent = lease
            .price
            .checked_add(job.verification_fee)
            .and_then(|it| it.checked_add(members))
            .and_then(|it| it.checked_add(compensation))
            .ok_or(out_of_range)?;
        let bonus = self.bonus(&lease, &job);
        let burned = self.verification_burn(&job);
        let rest = job.verification_fee.saturating_sub(bonus);
        let settlement = Settlement {
            price: lease.price,
            members,
            verification_fee: rest.saturating_sub(burned),
            refund: job.escrow().checked_sub(spent).ok_or(out_of_range)?,
            burned,
            bonus,
            compensation,
        };
        let earned = lease.price.checked_add(bonus).ok_or(out_of_range)?;
        let paid = earned.checked_add(lease.locked()).ok_or(out_of_range)?;
        self.credit(lease.provider, paid)?;
        self.credit(job.requestor, settlement.refund)?;
        if is_armed(LedgerCanary::RefundAndPay) {
            self.credit(job.requestor, lease.price)?;
        }
        self.burn(burned);
        self.note_accepted(&lease, &job, earned)?;
        self.spend_credit(&lease, burned, bonus)?;
        self.note_paid_owner(&job, &lease);
        self.learn_throughput(&job, &lease)?;
        let (id, provider) = (lease.id, lease.provider);
        let members = right_votes(&lease);
        self.close_lease(lease, LeaseEnd::Fulfilled)?;
        self.note_step(&mut job, JobState::Paid)?;
        job.phase = JobPhase::Paid {
            lease: id,
            settlement,
            stars: None,
        };
        self.close_job(job, Some(provider), EndReason::Fulfilled, settlement)?;
        let rest = self.pay_committee(members, settlement.verification_fee)?;
        self.fees = self.fees.saturating_add(rest);
        Ok(())
    }

    /// Pays the providers whose leases made room for a job whose result was accepted. Returns the sum.
    fn compensate_displaced(&mut self, job: &Job) -> Result<Amount, InvariantError> {
        for owed in &job.owed {
            self.compensate(job.id, owed)?;
        }
        Ok(job.owed_sum())
    }

    fn compensate(&mut self, job: JobId, owed: &Owed) -> Done {
        self.credit(owed.provider, owed.amount)?;
        self.events.push(Event::Compensated {
            lease: owed.lease,
            job,
            provider: owed.provider,
            amount: owed.amount,
        });
        Ok(())
    }

    /// The bonus that a top provider gets beside its price: at most half of the requestor's verification fee, and in total
    /// never more than was burned for its verified work, so that nobody gains by ordering from itself.
    fn bonus(&self, lease: &Lease, job: &Job) -> Amount {
        let (class, for_one) = (
            job.order.needs.class,
            self.state.parameters.reputation_stake,
        );
        let epoch = self.state.schedule.epoch;
        let provider = self.state.provider(&lease.provider);
        let provider = provider.map(|it| it.at_epoch(epoch));
        let Some(provider) = provider.filter(|it| it.is_top(class, lease.collateral, for_one))
        else {
            return Amount::ZERO;
        };
        let half = Amount::new(job.verification_fee.get() / 2);
        let bonus = lease.price.ppm_ceil(TOP_BONUS_PPM);
        bonus.min(half).min(provider.credit)
    }

    /// The part of a job's verification fee that is burned, so that reputation has a price.
    fn verification_burn(&self, job: &Job) -> Amount {
        let tenth = Amount::new(job.verification_fee.get() / 10);
        tenth.min(job.verification_fee)
    }

    /// Subtracts a bonus from what was burned for a provider's work, and adds what this job burned.
    fn spend_credit(&mut self, lease: &Lease, burned: Amount, bonus: Amount) -> Done {
        self.update_provider(lease, |provider| {
            let left = provider.credit.saturating_sub(bonus);
            provider.credit = left.saturating_add(burned);
        })
    }

    /// Counts one more owner that was paid for a result of a model which somebody checked. Stops: an attacker that gets arbitrary bytes paid
    /// three times, for a model that nobody can prove, so that honest providers risk all of their collateral on it.
    fn note_paid_owner(&mut self, job: &Job, lease: &Lease) {
        if !job.order.mode.is_checked() {
            return;
        }
        let needed = usize::from(self.state.parameters.owners_paid_min);
        let model = self.state.model(&job.order.model);
        let Some(model) = model.filter(|it| it.owners_paid.len() < needed) else {
            return;
        };
        if model.owners_paid.contains(&lease.provider) {
            return;
        }
        let mut model = model.clone();
        model.owners_paid.push(lease.provider);
        self.state.put_model(model);
    }

    /// Learns the speed of a machine's GPUs from an accepted result, of jobs whose GPU time is at least four times the time that
    /// the offer declares for everything else, which is subtracted.
    ///
    /// One result of a provider counts per epoch, if somebody checked it and the terms are those under which the lease was made.
    /// Stops: orders from oneself that make the honest machines of a GPU model seem too slow, or have them paid less.
    fn learn_throughput(&mut self, job: &Job, lease: &Lease) -> Done {
        let needs = &job.order.needs;
        let Some(offer) = self.state.offer(&lease.offer) else {
            return Ok(());
        };
        let epoch = Schedule::epoch(self.height);
        let teaches = self
            .state
            .provider(&lease.provider)
            .is_some_and(|it| it.next_lesson <= epoch);
        if !teaches || !job.order.mode.is_checked() || offer.updated_at > lease.matched_at {
            return Ok(());
        }
        let (machine, base) = (offer.terms.machine, offer.terms.duration(job.macs));
        let milli = u64::from(held_milli(&machine, needs));
        let table = gpu_time(&machine, needs, &Correction::default());
        let committed = job.history.iter().rev();
        let committed = committed
            .filter(|it| it.state == JobState::Committed)
            .map(|it| it.at)
            .next();
        let (Some(gpu), Some(started), Some(committed)) =
            (gpu_class(machine.gpu), lease.started_at(), committed)
        else {
            return Ok(());
        };
        if table == DurationMs::ZERO || table.get() / 4 < base.get() {
            return Ok(());
        }
        let took = committed.saturating_since(started).get();
        let alone = took.saturating_sub(base.get()).max(took / 4);
        // What a whole GPU would have taken.
        let whole = DurationMs::new(alone.saturating_mul(milli) / 1_000);
        let kind = work_kind(needs.class);
        let throughput = &mut self.state.schedule.throughput;
        throughput.learn(gpu, kind, needs.reference, whole);
        self.update_provider(lease, |provider| provider.next_lesson = epoch + 1)
    }

    /// Pays the members of a gang other than its lead. Returns the sum.
    fn pay_members(&mut self, lead: &Lease, job: &Job) -> Result<Amount, InvariantError> {
        let mut sum = Amount::ZERO;
        for id in lead.members() {
            let member = self.lease(id)?;
            // A member of mode replicate whose result was wrong.
            if member.end().is_some() {
                continue;
            }
            // The result is committed after all parts are; a share without a part would go back to the requestor.
            if member.receipt().is_none() {
                self.let_go(member, LeaseEnd::Released)?;
                continue;
            }
            let out_of_range = InvariantError::AmountOutOfRange {
                account: member.provider,
            };
            let paid = member.price.checked_add(member.locked());
            self.credit(member.provider, paid.ok_or(out_of_range)?)?;
            sum = sum.checked_add(member.price).ok_or(out_of_range)?;
            self.note_accepted(&member, job, member.price)?;
            self.events.push(Event::MemberPaid {
                lease: member.id,
                job: member.job,
                provider: member.provider,
                amount: member.price,
            });
            self.close_lease(member, LeaseEnd::Fulfilled)?;
        }
        Ok(sum)
    }

    /// Records an accepted result. Only results that somebody checked count for reputation.
    fn note_accepted(&mut self, lease: &Lease, job: &Job, earned: Amount) -> Done {
        let epoch = Schedule::epoch(self.height);
        let (class, is_checked) = (job.order.needs.class, job.order.mode.is_checked());
        self.update_provider(lease, |provider| {
            provider.record.accepted = provider.record.accepted.saturating_add(1);
            provider.earned = provider.earned.saturating_add(earned);
            if is_checked {
                provider.observe(class, LeaseOutcome::Accepted, epoch);
            }
        })
    }

    /// Ends a lease without an accepted result. Its job waits again or ends; other members of a gang get their
    /// collateral back.
    pub(super) fn fail(&mut self, job: Job, lease: &Lease, end: &LeaseEnd) -> Done {
        let guilty = [lease.id];
        self.fail_gang(job, lease, &guilty, end)
    }

    /// Ends all leases of a gang: the guilty ones as `end` says, the others without a loss.
    pub(super) fn fail_gang(
        &mut self,
        mut job: Job,
        lead: &Lease,
        guilty: &[LeaseId],
        end: &LeaseEnd,
    ) -> Done {
        let mut leases: Vec<Lease> = self.state.gang_of(lead).cloned().collect();
        // The lead of a gang waits for the parts of the others: without any part, it is not known whether the lead was late itself.
        let is_nobody = leases.iter().all(|it| it.receipt().is_none());
        let is_shared = is_of_stated_time(&job, end) && is_nobody;
        if is_shared {
            let guilty = leases.iter_mut().filter(|it| guilty.contains(&it.id));
            let guilty: Vec<&mut Lease> = guilty.collect();
            self.share_stated_time(&mut job, guilty);
        }
        if leases.iter().all(|it| it.started_at().is_none()) || job.state() == JobState::Leased {
            job.declined = job.declined.saturating_add(1);
        }
        let (mut forfeited, mut prize) = (Amount::ZERO, Amount::ZERO);
        let at_fault = leases.iter().filter(|it| guilty.contains(&it.id));
        let guilty_providers: Vec<Address> = at_fault.map(|it| it.provider).collect();
        let mut released = Vec::new();
        for lease in leases {
            if guilty.contains(&lease.id) {
                let most = self.prize_of(&lease);
                let lost = self.punish(&mut job, lease, end.clone())?;
                forfeited = forfeited.saturating_add(lost);
                prize = prize.saturating_add(lost.min(most));
            } else if guilty_providers.contains(&lease.provider) {
                self.let_go(lease, LeaseEnd::Released)?;
            } else {
                // Stops: an order of too little time, whose lead is paid out of what honest members lose.
                if !is_shared {
                    released.push(Owed {
                        lease: lease.id,
                        provider: lease.provider,
                        amount: loss_of(&lease, self.now),
                    });
                }
                self.let_go(lease, LeaseEnd::Released)?;
            }
        }
        let paid = self.compensate_released(&job, &released, prize)?;
        self.burn(forfeited.saturating_sub(paid));
        if lead.is_taken_back() {
            // Stops: a job that its requestor has ended from being served and paid again.
            let left = job.escrow();
            return self.take_back(job, left, Unpaid::TakenBack);
        }
        if lead.revealed().is_some() {
            // Stops: a job that everybody can read from being served as a sealed one.
            return self.end_unpaid(job, Unpaid::KeyShown);
        }
        self.requeue(job)
    }

    /// The leases of a job ran out of the GPU time that its order states, and nobody submitted anything. An order that states too little and a
    /// provider that works too little look the same, so both lose the same, at most the price. If only the provider lost, an order that states a
    /// second for an hour of work would burn its collateral for the gas of an order; if only the requestor lost, or lost more, a provider that
    /// does nothing would burn the requestor's escrow.
    fn share_stated_time(&mut self, job: &mut Job, guilty: Vec<&mut Lease>) {
        let mut sum = Amount::ZERO;
        for lease in guilty {
            lease.at_risk = lease.at_risk.min(lease.price);
            sum = sum.saturating_add(lease.at_risk);
        }
        let amount = sum.min(job.purse());
        self.burn_escrow(job, amount, BurnedBecause::StatedTime);
    }

    /// Burns a part of a job's escrow. Returns whether there was any. The job is not stored.
    pub(super) fn burn_escrow(
        &mut self,
        job: &mut Job,
        amount: Amount,
        because: BurnedBecause,
    ) -> bool {
        let JobPhase::Open { escrow, .. } = &mut job.phase else {
            return false;
        };
        let amount = amount.min(*escrow);
        if amount.is_zero() {
            return false;
        }
        *escrow = escrow.saturating_sub(amount);
        job.escrow_burned = job.escrow_burned.saturating_add(amount);
        self.burn(amount);
        self.events.push(Event::EscrowBurned {
            job: job.id,
            requestor: job.requestor,
            because,
            amount,
        });
        true
    }

    /// The most that other members of a gang are paid out of what a guilty one forfeits: its own price, and before its start the part of
    /// that for which it kept them waiting. Stops: members that make another one late, for the collateral of that one.
    fn prize_of(&self, lease: &Lease) -> Amount {
        match lease.started_at() {
            Some(_) => lease.price,
            None => loss_since(lease, lease.grant.from, self.now),
        }
    }

    /// Pays members of a gang for their work out of `prize`, a part of what the guilty ones forfeited, in proportion if that does not suffice.
    /// Returns the sum. Nobody gets anything of what is burned for a wrong result.
    fn compensate_released(
        &mut self,
        job: &Job,
        released: &[Owed],
        prize: Amount,
    ) -> Result<Amount, InvariantError> {
        let due = released
            .iter()
            .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.amount));
        let mut paid = Amount::ZERO;
        if due.is_zero() || prize.is_zero() {
            return Ok(paid);
        }
        for owed in released {
            let amount = match due <= prize {
                true => owed.amount,
                false => share_of(owed.amount, due, prize),
            };
            let owed = Owed { amount, ..*owed };
            if !amount.is_zero() {
                paid = paid.saturating_add(amount);
                self.compensate(job.id, &owed)?;
            }
        }
        Ok(paid)
    }

    /// Preempts the leases of a job for another job, which owes them what their work was worth.
    pub(super) fn preempt(&mut self, mut job: Job, lead: &Lease) -> Done {
        let leases: Vec<Lease> = self.state.gang_of(lead).cloned().collect();
        for lease in leases {
            let owed = Owed {
                lease: lease.id,
                provider: lease.provider,
                amount: loss_of(&lease, self.now),
            };
            let by = lease.preemption.map(|it| it.by);
            self.let_go(lease, LeaseEnd::Preempted)?;
            self.owe(job.id, by, owed);
        }
        job.preemptions = job.preemptions.saturating_add(1);
        self.requeue(job)
    }

    /// Records on the preempting job what it owes to a lease; a job that moved owes nothing to itself.
    fn owe(&mut self, from: JobId, by: Option<JobId>, owed: Owed) {
        let newcomer = by.filter(|by| *by != from);
        let newcomer = newcomer.and_then(|by| self.state.job(&by)).cloned();
        let Some(mut newcomer) = newcomer else {
            return;
        };
        let room = newcomer.purse();
        let waits = newcomer.state() == JobState::Queued;
        let fits = newcomer.owed.len() < OWED_MAX && owed.amount <= room;
        if waits && fits && !owed.amount.is_zero() {
            newcomer.owed.push(owed);
            self.save_job(newcomer);
        }
    }

    /// Ends a lease whose provider failed. What it loses for a wrong result is burned here. Any other loss is returned to the
    /// caller, which burns what is left after the members of its gang were paid out of it.
    pub(super) fn punish(
        &mut self,
        job: &mut Job,
        lease: Lease,
        end: LeaseEnd,
    ) -> Result<Amount, InvariantError> {
        exclude(job, &lease);
        if lease.started_at().is_none() && !matches!(end, LeaseEnd::Rejected { .. }) {
            return self.punish_unstarted(job, lease, end);
        }
        let is_lie = matches!(end, LeaseEnd::Rejected { .. });
        // A provider that committed to a sampled result had its trace, and one that sealed a result knows it. If less were at risk, a
        // lying provider would show nothing whenever the seed draws a wrong part, or the other members found another result.
        let has_sealed = job.order.mode == VerificationMode::Replicate && lease.has_result();
        // A result that a committee accepted hides nothing, and only waits for validators to hold it.
        let check = lease.check.as_ref().filter(|_| lease.delivery().is_none());
        let lost = match is_lie || check.is_some() || has_sealed {
            true => lease.locked(),
            false => lease.at_risk.min(lease.locked()),
        };
        let back = lease.locked().saturating_sub(lost);
        self.credit(lease.provider, back)?;
        if is_lie {
            self.burn(lost);
            self.events.push(Event::Slashed {
                lease: lease.id,
                provider: lease.provider,
                amount: lost,
            });
        } else {
            self.events.push(Event::Forfeited {
                lease: lease.id,
                job: job.id,
                provider: lease.provider,
                amount: lost,
            });
        }
        // Stops: a lying provider that shows nothing once it sees the draw, if a failure were forgotten within seconds.
        let is_seen = |check: &SyncCheck| check.stage.seed().is_some();
        let hides = job.order.mode == VerificationMode::Sync && check.is_some_and(is_seen);
        let parameters = self.state.parameters;
        let until = self.now.saturating_add(match is_lie || hides {
            true => parameters.suspension_rejected,
            false => parameters.suspension_lapsed,
        });
        let (class, epoch) = (job.order.needs.class, Schedule::epoch(self.height));
        self.update_provider(&lease, |provider| {
            let record = &mut provider.record;
            let (counter, outcome) = match &end {
                LeaseEnd::Rejected { .. } => (&mut record.rejected, LeaseOutcome::Rejected),
                LeaseEnd::Late(_) if hides => (&mut record.late, LeaseOutcome::Rejected),
                LeaseEnd::Late(_) => (&mut record.late, LeaseOutcome::Late),
                LeaseEnd::Abandoned(_) if hides => (&mut record.abandoned, LeaseOutcome::Rejected),
                LeaseEnd::Abandoned(_)
                | LeaseEnd::Fulfilled
                | LeaseEnd::Preempted
                | LeaseEnd::Released
                | LeaseEnd::Declined(_)
                | LeaseEnd::Unavailable
                | LeaseEnd::Cancelled
                | LeaseEnd::Ungranted => (&mut record.abandoned, LeaseOutcome::Lost),
            };
            *counter = counter.saturating_add(1);
            provider.observe(class, outcome, epoch);
            provider.lost = provider.lost.saturating_add(lost);
            provider.suspended_until = provider.suspended_until.max(until);
        })?;
        self.close_lease_but(lease, end, CollateralLost::Forfeited(lost))?;
        Ok(match is_lie {
            true => Amount::ZERO,
            false => lost,
        })
    }

    /// Ends a lease whose provider did nothing wrong: its collateral is returned.
    pub(super) fn let_go(&mut self, lease: Lease, end: LeaseEnd) -> Done {
        self.credit(lease.provider, lease.locked())?;
        self.close_lease(lease, end)
    }

    /// Puts a job whose lease ended back into the queue, or ends it.
    pub(super) fn requeue(&mut self, mut job: Job) -> Done {
        // Stops: a member that declines again and again, so that a job which paid for its attempts has a thousand leases.
        let most = match job.order.needs.gang > 1 {
            true => GANG_DECLINES_MAX,
            false => DECLINES_MAX,
        };
        let free = usize::from(job.preemptions) + usize::from(job.declined).min(most);
        let counted = job.leases().len().saturating_sub(free);
        if counted >= usize::from(job.order.max_attempts) {
            return self.end_unpaid(job, Unpaid::Attempts);
        }
        if job.order.deadline < self.now {
            return self.end_unpaid(job, Unpaid::Deadline);
        }
        self.step(&mut job, OpenStage::Queued)?;
        if !self.is_ready(&job) {
            self.step(&mut job, OpenStage::Submitted)?;
        }
        self.save_job(job);
        Ok(())
    }

    /// Ends a job for which nobody is paid: its escrow is returned.
    pub(super) fn end_unpaid(&mut self, job: Job, because: Unpaid) -> Done {
        self.end_with(job, because, Amount::ZERO)
    }

    /// Cancels a job. The holder of its lease is paid for that: gas before the start, its time after it. So are the providers
    /// whose leases made room for it.
    pub(crate) fn cancel(&mut self, job: Job) -> Done {
        self.cancel_as(job, &LeaseEnd::Cancelled, Unpaid::TakenBack)
    }

    /// Ends a job because of its requestor, and its leases with `end`.
    pub(super) fn cancel_as(&mut self, mut job: Job, end: &LeaseEnd, because: Unpaid) -> Done {
        let mut left = job.escrow();
        if let Some(lead) = job.live_lease() {
            let lead = self.lease(&lead)?;
            self.burn_wait(&mut job, &lead);
            left = job.escrow();
            if lead.meter.is_some() && lead.started_at().is_some() {
                self.stop_endpoint(lead);
                return Ok(());
            }
            let leases: Vec<Lease> = self.state.gang_of(&lead).cloned().collect();
            for lease in leases {
                let amount = self.due_for_holding(&lease).min(left);
                left = left.saturating_sub(amount);
                self.credit(lease.provider, amount)?;
                self.events.push(Event::HolderPaid {
                    lease: lease.id,
                    job: job.id,
                    provider: lease.provider,
                    amount,
                });
                self.let_go(lease, end.clone())?;
            }
        }
        self.take_back(job, left, because)
    }

    /// Ends a job that was cancelled, or whose requestor did not do its part, with what is left of its escrow. Providers whose leases made room for
    /// it are paid.
    fn take_back(&mut self, job: Job, mut left: Amount, because: Unpaid) -> Done {
        for owed in &job.owed {
            let amount = owed.amount.min(left);
            left = left.saturating_sub(amount);
            if !amount.is_zero() {
                self.compensate(job.id, &Owed { amount, ..*owed })?;
            }
        }
        let paid = job.escrow().saturating_sub(left);
        self.end_with(job, because, paid)
    }

    /// What a requestor owes to the holder of a lease that it ends: before the start the gas of the lease; after it the price times
    /// the time so far over the declared time, at most the price. For a lease that was to begin later: the price times the wait so
    /// far over the whole wait, or over the declared time if that is longer.
    fn due_for_holding(&self, lease: &Lease) -> Amount {
        let gas = lease.gas_locked();
        if lease.sealing.is_some() && lease.started_at().is_none() {
            return gas;
        }
        let declared = self.declared_time(lease);
        let part_of_price = |time: u64, whole: u64| {
            let worth = lease.price.checked_mul_div_ceil(time.min(whole), whole);
            worth.unwrap_or(lease.price)
        };
        // Stops: machines of others that are reserved by jobs which are cancelled before they begin.
        let wait = lease.grant.from.saturating_since(lease.matched_at).get();
        let waited = self.now.saturating_since(lease.matched_at).get().min(wait);
        let due = part_of_price(waited, wait.max(declared));
        let Some(started) = lease.started_at() else {
            // A provider that does not begin a reserved job gets nothing for the wait.
            let least = self
                .state
                .parameters
                .least_window(self.state.validators.len());
            let is_idle = self.now > lease.grant.from.saturating_add(least);
            return if is_idle { gas } else { gas.max(due) };
        };
        let held = self.now.saturating_since(started).get();
        let due = due.max(part_of_price(held, declared));
        due.max(gas.min(lease.price))
    }

    /// As [`State::declared_time`](crate::state::State::declared_time).
    pub(super) fn declared_time(&self, lease: &Lease) -> u64 {
        self.state.declared_time(lease)
    }

    /// Ends a job of whose escrow `paid` went to the holders of its leases; the rest is returned.
    fn end_with(&mut self, mut job: Job, because: Unpaid, paid: Amount) -> Done {
        let settlement = Settlement {
            price: job.served,
            refund: job.escrow().saturating_sub(paid),
            compensation: paid,
            ..Settlement::default()
        };
        let reason = job.close_unpaid(because, settlement);
        let state = job.state();
        self.note_step(&mut job, state)?;
        self.credit(job.requestor, settlement.refund)?;
        self.close_job(job, None, reason, settlement)
    }

    pub(super) fn close_job(
        &mut self,
        mut job: Job,
        provider: Option<Address>,
        reason: EndReason,
        settlement: Settlement,
    ) -> Done {
        // Nobody is left to answer, and it cannot be told whether it was missing.
        if job.storage.recheck.take().is_some() {
            self.settle_declined(job.id, Settled::Returned)?;
        }
        self.return_retention(&mut job)?;
        self.settle_job_rent(&mut job)?;
        self.update_account(job.requestor, |account| {
            account.open_jobs = account.open_jobs.saturating_sub(1);
        })?;
        self.events.push(Event::JobEnded {
            job: job.id,
            requestor: job.requestor,
            provider,
            reason,
            settlement,
        });
        self.save_job(job);
        Ok(())
    }

    /// Ends a lease whose money is settled except for its gas, and frees its slot if it has one and the offer still exists. Its collateral was
    /// returned.
    pub(super) fn close_lease(&mut self, lease: Lease, end: LeaseEnd) -> Done {
        self.close_lease_but(lease, end, CollateralLost::Nothing)
    }

    /// As [`Self::close_lease`], for a lease that loses collateral, or whose collateral stays locked.
    pub(super) fn close_lease_but(
        &mut self,
        mut lease: Lease,
        end: LeaseEnd,
        lost: CollateralLost,
    ) -> Done {
        self.settle_gas(&lease, &end)?;
        self.end_risk(&lease, lost.amount())?;
        self.state.release(&lease);
        let job = self.state.job(&lease.job);
        if job.is_none_or(Job::takes_slots) {
            self.free_slot(&lease.offer);
        }
        self.events.push(Event::LeaseEnded {
            lease: lease.id,
            job: lease.job,
            provider: lease.provider,
            end: end.clone(),
        });
        lease.close(end, self.now, lost.held())?;
        self.state.put_lease(lease);
        Ok(())
    }

    /// Frees a slot of an offer, if it still exists.
    pub(super) fn free_slot(&mut self, offer: &OfferId) {
        if let Some(offer) = self.state.offer(offer) {
            let mut offer = offer.clone();
            offer.slots_taken = offer.slots_taken.saturating_sub(1);
            self.state.put_offer(offer);
        }
    }

    pub(super) fn update_provider(
        &mut self,
        lease: &Lease,
        change: impl FnOnce(&mut Provider),
    ) -> Done {
        let missing = InvariantError::Missing {
            table: Provider::NAME,
        };
        let mut provider = self.state.provider(&lease.provider).ok_or(missing)?.clone();
        change(&mut provider);
        self.state.put_provider(provider);
        Ok(())
    }
}

impl crate::state::State {
    /// The time that the offer of a lease declared, derived from the lease's deadline: milliseconds, at least one.
    pub(crate) fn declared_time(&self, lease: &Lease) -> u64 {
        let longest = lease.deadline.saturating_since(lease.grant.from).get();
        let parameters = &self.parameters;
        let grace = match lease.sealing {
            Some(_) => parameters
                .lease_grace
                .saturating_add(parameters.grant_window),
            None if lease.is_of_gang() => self.gang_grace(),
            None => parameters.lease_grace,
        };
        let without_grace = longest.saturating_sub(grace.get());
        let factor = u64::from(parameters.duration_factor.max(1));
        match without_grace / factor {
            0 => longest.max(1),
            declared => declared,
        }
    }
}

/// Whether a lease that ended with `end` may have had too little time because its order states too little.
fn is_of_stated_time(job: &Job, end: &LeaseEnd) -> bool {
    let states_time = job.order.needs.reference != DurationMs::ZERO;
    states_time && *end == LeaseEnd::Late(LatePhase::Running)
}

/// `sum * part / whole`, rounded down so that all parts together are at most `sum`, which is at most `whole`.
const fn share_of(part: Amount, whole: Amount, sum: Amount) -> Amount {
    const STEPS: u128 = 1_000_000;
    let steps = sum.get() / (whole.get() / STEPS + 1);
    Amount::new(part.get() / STEPS * steps)
}

/// Whether a result was disputed and went back to its vote twice, and does so again. The history keeps the first dispute about a result and
/// the latest, so that its length is bounded.
fn repeats_dispute(history: &[Step], to: JobState) -> bool {
    let [.., a, b, c, d] = history else {
        return false;
    };
    let disputed = [JobState::Verifying, JobState::Disputed];
    to == JobState::Verifying
        && [[a, b], [c, d]].map(|it| it.map(|step| step.state)) == [disputed; 2]
}

/// Excludes the provider of a lease from a job.
pub(super) fn exclude(job: &mut Job, lease: &Lease) {
    if !job.excluded.contains(&lease.provider) {
        job.excluded.push(lease.provider);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forfeited_is_shared_by_what_is_owed() {
        let whole = Amount::from_tgrid(6);
        for sum in [0, 1, 1_000_000, Amount::from_tgrid(3).get(), whole.get()] {
            let sum = Amount::new(sum);
            let shares = [1, 2, 3].map(|part| share_of(Amount::from_tgrid(part), whole, sum).get());
            let all: u128 = shares.iter().sum();
            assert!(all <= sum.get());
            // Rounding takes less than two millionths of the sum, and what a millionth of all that is owed does not reach.
            assert!(sum.get() - all <= sum.get() / 500_000 + whole.get() / 1_000_000);
            assert!(shares[1] >= 2 * shares[0] && shares[2] >= 3 * shares[0]);
        }
    }
}
