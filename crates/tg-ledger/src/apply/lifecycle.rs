//! The life of jobs and leases: their steps, their ends and the settlement.
//!
//! | end of a lease | collateral | provider | job |
//! |---|---|---|---|
//! | `Fulfilled` | goes back | price and prize; one accepted result more | `Paid` |
//! | `Rejected` | burned | suspended, excluded from the job | `Queued`, or `Refunded` without attempts left |
//! | `Late`, `Abandoned` | becomes the job's prize | suspended for less, excluded from the job | likewise |
//! | `Preempted` | goes back | what its work was worth, if the job it made room for is paid | likewise |
//! | `Released` | goes back | what its work was worth, out of what the guilty members forfeit | likewise |
//!
//! A refunded, expired or cancelled job gives its whole escrow back and burns its prize: whoever could earn a prize
//! without a result would be paid for spoiling jobs.

use std::sync::Arc;

use tg_market::reputation::{LeaseOutcome, TOP_BONUS_PPM};
use tg_market::throughput::Correction;
use tg_market::view::{gpu_class, gpu_time, held_milli, work_kind};
use tg_types::{Address, Amount, DurationMs, JobClass, JobId, LeaseId};

use super::Execution;
use super::lanes::loss_of;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::OWED_MAX;
use crate::record::{
    EndReason, Job, JobState, Lease, LeaseEnd, Owed, Provider, Record, Settlement, Step,
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

    /// Moves a job to its next state.
    pub(crate) fn step(&mut self, job: &mut Job, to: JobState) -> Done {
        if !job.state.may_become(to) {
            return Err(InvariantError::BadStep {
                from: job.state,
                to,
            });
        }
        job.state = to;
        job.history.push(Step {
            state: to,
            height: self.height,
            at: self.now,
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
        let is_queued = job.state == JobState::Queued;
        let is_live = !is_queued && !job.state.is_final();
        for (queue, belongs) in [(&mut state.queued, is_queued), (&mut state.live, is_live)] {
            match (belongs, queue.contains_key(&job.sequence)) {
                (true, false) => {
                    Arc::make_mut(queue).insert(job.sequence, job.id);
                }
                (false, true) => {
                    Arc::make_mut(queue).remove(&job.sequence);
                }
                (true, true) | (false, false) => {}
            }
        }
        if job.state.is_final() {
            let key = (self.height.get(), job.sequence);
            Arc::make_mut(&mut state.ended).insert(key, job.id);
        }
        state.put_job(job);
    }

    /// Accepts the result of a lease and settles its job in the same block.
    pub(super) fn accept(&mut self, mut job: Job, mut lease: Lease) -> Done {
        self.step(&mut job, JobState::Accepted)?;
        let out_of_range = InvariantError::AmountOutOfRange {
            account: lease.provider,
        };
        let class = job.order.needs.class;
        let members = self.pay_members(&lease, class)?;
        let compensation = self.compensate_displaced(&job)?;
        let spent = lease
            .price
            .checked_add(job.verification_fee)
            .and_then(|it| it.checked_add(members))
            .and_then(|it| it.checked_add(compensation))
            .ok_or(out_of_range)?;
        let bonus = self.bonus(&lease, &job);
        let settlement = Settlement {
            price: lease.price,
            members,
            prize: job.prize,
            verification_fee: job.verification_fee.saturating_sub(bonus),
            refund: job.escrow.checked_sub(spent).ok_or(out_of_range)?,
            burned: Amount::ZERO,
            bonus,
            compensation,
        };
        let earned = [job.prize, bonus]
            .into_iter()
            .try_fold(lease.price, Amount::checked_add)
            .ok_or(out_of_range)?;
        let paid = earned.checked_add(lease.locked).ok_or(out_of_range)?;
        job.escrow = Amount::ZERO;
        job.prize = Amount::ZERO;
        lease.locked = Amount::ZERO;
        self.credit(lease.provider, paid)?;
        self.credit(job.requestor, settlement.refund)?;
        self.fees = self.fees.saturating_add(settlement.verification_fee);
        self.note_accepted(&lease, class, earned)?;
        self.learn_throughput(&job, &lease);
        let provider = lease.provider;
        self.close_lease(lease, LeaseEnd::Fulfilled);
        self.step(&mut job, JobState::Paid)?;
        self.close_job(job, Some(provider), EndReason::Fulfilled, settlement)
    }

    /// Pays those who made room for a job whose result was accepted; how much together.
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

    /// What a provider of the top gets on top of its price: at most half of what verifying costs the requestor, so
    /// that nobody gains by ordering from itself.
    fn bonus(&self, lease: &Lease, job: &Job) -> Amount {
        let (class, for_one) = (
            job.order.needs.class,
            self.state.parameters.reputation_stake,
        );
        let provider = self.state.provider(&lease.provider);
        if !provider.is_some_and(|it| it.is_top(class, lease.collateral, for_one)) {
            return Amount::ZERO;
        }
        let half = Amount::new(job.verification_fee.get() / 2);
        lease.price.ppm_ceil(TOP_BONUS_PPM).min(half)
    }

    /// Learns from an accepted result how fast the GPUs of its machine are: from jobs in which their time is at least
    /// four times what the offer declares for everything else, which is taken off.
    fn learn_throughput(&mut self, job: &Job, lease: &Lease) {
        let needs = &job.order.needs;
        let Some(offer) = self.state.offer(&lease.offer) else {
            return;
        };
        let (machine, base) = (offer.terms.machine, offer.terms.duration(job.macs));
        let milli = u64::from(held_milli(&machine, needs));
        let table = gpu_time(&machine, needs, &Correction::default());
        let committed = job.history.iter().rev();
        let committed = committed
            .filter(|it| it.state == JobState::Committed)
            .map(|it| it.at)
            .next();
        let (Some(gpu), Some(started), Some(committed)) =
            (gpu_class(machine.gpu), lease.started_at, committed)
        else {
            return;
        };
        if table == DurationMs::ZERO || table.get() / 4 < base.get() {
            return;
        }
        let took = committed.saturating_since(started).get();
        let alone = took.saturating_sub(base.get()).max(took / 4);
        // What a whole GPU would have taken.
        let whole = DurationMs::new(alone.saturating_mul(milli) / 1_000);
        let kind = work_kind(needs.class);
        let throughput = &mut self.state.schedule.throughput;
        throughput.learn(gpu, kind, needs.reference, whole);
    }

    /// Pays the members of a gang beside the one that leads it; how much together.
    fn pay_members(&mut self, lead: &Lease, class: JobClass) -> Result<Amount, InvariantError> {
        let mut sum = Amount::ZERO;
        for id in &lead.members {
            let mut member = self.lease(id)?;
            let out_of_range = InvariantError::AmountOutOfRange {
                account: member.provider,
            };
            let paid = member.price.checked_add(member.locked);
            member.locked = Amount::ZERO;
            self.credit(member.provider, paid.ok_or(out_of_range)?)?;
            sum = sum.checked_add(member.price).ok_or(out_of_range)?;
            self.note_accepted(&member, class, member.price)?;
            self.events.push(Event::MemberPaid {
                lease: member.id,
                job: member.job,
                provider: member.provider,
                amount: member.price,
            });
            self.close_lease(member, LeaseEnd::Fulfilled);
        }
        Ok(sum)
    }

    fn note_accepted(&mut self, lease: &Lease, class: JobClass, earned: Amount) -> Done {
        let epoch = Schedule::epoch(self.height);
        self.update_provider(lease, |provider| {
            provider.record.accepted = provider.record.accepted.saturating_add(1);
            provider.earned = provider.earned.saturating_add(earned);
            provider.observe(class, LeaseOutcome::Accepted, epoch);
        })
    }

    /// Ends a lease without an accepted result; its job waits again or ends. Other members of a gang get their
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
        let leases: Vec<Lease> = self.state.gang_of(lead).cloned().collect();
        let before = job.prize;
        let at_fault = leases.iter().filter(|it| guilty.contains(&it.id));
        let guilty_providers: Vec<Address> = at_fault.map(|it| it.provider).collect();
        let mut released = Vec::new();
        for lease in leases {
            if guilty.contains(&lease.id) {
                self.punish(&mut job, lease, end.clone())?;
            } else if guilty_providers.contains(&lease.provider) {
                self.let_go(lease, LeaseEnd::Released)?;
            } else {
                released.push(Owed {
                    lease: lease.id,
                    provider: lease.provider,
                    amount: loss_of(&lease, self.now),
                });
                self.let_go(lease, LeaseEnd::Released)?;
            }
        }
        let forfeited = job.prize.saturating_sub(before);
        self.compensate_released(&mut job, &released, forfeited)?;
        self.requeue(job)
    }

    /// Pays members of a gang for their work out of what the guilty ones forfeited; in equal parts of what each is due
    /// if it does not suffice. Of what is burned for a lie nobody gets anything.
    fn compensate_released(&mut self, job: &mut Job, released: &[Owed], forfeited: Amount) -> Done {
        let due = released
            .iter()
            .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.amount));
        if due.is_zero() || forfeited.is_zero() {
            return Ok(());
        }
        for owed in released {
            let amount = match due <= forfeited {
                true => owed.amount,
                false => share_of(owed.amount, due, forfeited),
            };
            let owed = Owed { amount, ..*owed };
            if !amount.is_zero() {
                job.prize = job.prize.saturating_sub(amount);
                self.compensate(job.id, &owed)?;
            }
        }
        Ok(())
    }

    /// Ends the leases of a job to make room for another one, which owes them what their work was worth.
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

    /// Notes on the job that pushed a lease out what it owes; a job that moved owes nothing to itself.
    fn owe(&mut self, from: JobId, by: Option<JobId>, owed: Owed) {
        let newcomer = by.filter(|by| *by != from);
        let newcomer = newcomer.and_then(|by| self.state.job(&by)).cloned();
        let Some(mut newcomer) = newcomer else {
            return;
        };
        let room = newcomer.order.max_price.saturating_sub(newcomer.owed_sum());
        let waits = newcomer.state == JobState::Queued;
        let fits = newcomer.owed.len() < OWED_MAX && owed.amount <= room;
        if waits && fits && !owed.amount.is_zero() {
            newcomer.owed.push(owed);
            self.save_job(newcomer);
        }
    }

    /// Ends a lease whose provider failed: the collateral is burned or becomes the job's prize.
    fn punish(&mut self, job: &mut Job, mut lease: Lease, end: LeaseEnd) -> Done {
        let lost = lease.locked;
        lease.locked = Amount::ZERO;
        let is_lie = matches!(end, LeaseEnd::Rejected { .. });
        if is_lie {
            self.burn(lost);
            self.events.push(Event::Slashed {
                lease: lease.id,
                provider: lease.provider,
                amount: lost,
            });
        } else {
            job.prize = job.prize.saturating_add(lost);
            self.events.push(Event::Forfeited {
                lease: lease.id,
                job: job.id,
                provider: lease.provider,
                amount: lost,
            });
        }
        let parameters = self.state.parameters;
        let until = self.now.saturating_add(match is_lie {
            true => parameters.suspension_rejected,
            false => parameters.suspension_lapsed,
        });
        let (class, epoch) = (job.order.needs.class, Schedule::epoch(self.height));
        self.update_provider(&lease, |provider| {
            let record = &mut provider.record;
            let (counter, outcome) = match &end {
                LeaseEnd::Rejected { .. } => (&mut record.rejected, LeaseOutcome::Rejected),
                LeaseEnd::Late(_) => (&mut record.late, LeaseOutcome::Late),
                LeaseEnd::Abandoned(_)
                | LeaseEnd::Fulfilled
                | LeaseEnd::Preempted
                | LeaseEnd::Released => (&mut record.abandoned, LeaseOutcome::Lost),
            };
            *counter = counter.saturating_add(1);
            provider.observe(class, outcome, epoch);
            provider.lost = provider.lost.saturating_add(lost);
            provider.suspended_until = provider.suspended_until.max(until);
        })?;
        if !job.excluded.contains(&lease.provider) {
            job.excluded.push(lease.provider);
        }
        self.close_lease(lease, end);
        Ok(())
    }

    /// Ends a lease whose provider did nothing wrong: the collateral goes back.
    fn let_go(&mut self, mut lease: Lease, end: LeaseEnd) -> Done {
        let locked = std::mem::replace(&mut lease.locked, Amount::ZERO);
        self.credit(lease.provider, locked)?;
        self.close_lease(lease, end);
        Ok(())
    }

    /// A job whose lease ended waits again, or ends.
    fn requeue(&mut self, mut job: Job) -> Done {
        let counted = job.leases.len() - usize::from(job.preemptions).min(job.leases.len());
        if counted >= usize::from(job.order.max_attempts) {
            return self.end_unpaid(job, JobState::Refunded, EndReason::AttemptsExhausted);
        }
        if job.order.deadline < self.now {
            return self.end_unpaid(job, JobState::Refunded, EndReason::DeadlinePassed);
        }
        self.step(&mut job, JobState::Queued)?;
        self.save_job(job);
        Ok(())
    }

    /// Ends a job that nobody is paid for: the escrow goes back, the prize is burned.
    pub(super) fn end_unpaid(&mut self, mut job: Job, state: JobState, reason: EndReason) -> Done {
        self.step(&mut job, state)?;
        let settlement = Settlement {
            refund: job.escrow,
            burned: job.prize,
            ..Settlement::default()
        };
        job.escrow = Amount::ZERO;
        job.prize = Amount::ZERO;
        self.credit(job.requestor, settlement.refund)?;
        self.burn(settlement.burned);
        self.close_job(job, None, reason, settlement)
    }

    fn close_job(
        &mut self,
        mut job: Job,
        provider: Option<Address>,
        reason: EndReason,
        settlement: Settlement,
    ) -> Done {
        job.end = Some(reason);
        job.settlement = Some(settlement);
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

    /// Ends a lease whose money is settled, and frees its slot if the offer still stands.
    fn close_lease(&mut self, mut lease: Lease, end: LeaseEnd) {
        self.state.release(&lease);
        if let Some(offer) = self.state.offer(&lease.offer) {
            let mut offer = offer.clone();
            offer.slots_taken = offer.slots_taken.saturating_sub(1);
            self.state.put_offer(offer);
        }
        self.events.push(Event::LeaseEnded {
            lease: lease.id,
            job: lease.job,
            provider: lease.provider,
            end: end.clone(),
        });
        lease.end = Some(end);
        lease.ended_at = Some(self.now);
        self.state.put_lease(lease);
    }

    fn update_provider(&mut self, lease: &Lease, change: impl FnOnce(&mut Provider)) -> Done {
        let missing = InvariantError::Missing {
            table: Provider::NAME,
        };
        let mut provider = self.state.provider(&lease.provider).ok_or(missing)?.clone();
        change(&mut provider);
        self.state.put_provider(provider);
        Ok(())
    }
}

/// `part` of `whole` of `sum`, rounded down so that all parts together are at most `sum`, which is at most `whole`.
const fn share_of(part: Amount, whole: Amount, sum: Amount) -> Amount {
    const STEPS: u128 = 1_000_000;
    let steps = sum.get() / (whole.get() / STEPS + 1);
    Amount::new(part.get() / STEPS * steps)
}
