//! The life of jobs and leases: their steps, their ends and the settlement.
//!
//! | end of a lease | collateral | provider | job |
//! |---|---|---|---|
//! | `Fulfilled` | goes back | price and prize; one accepted result more | `Paid` |
//! | `Rejected` | burned | suspended, excluded from the job | `Queued`, or `Refunded` without attempts left |
//! | `Late`, `Abandoned` | becomes the job's prize | suspended for less, excluded from the job | likewise |
//! | `Preempted`, `Released` | goes back | nothing | likewise |
//!
//! A refunded, expired or cancelled job gives its whole escrow back and burns its prize: whoever could earn a prize
//! without a result would be paid for spoiling jobs.

use std::sync::Arc;

use tg_market::reputation::LeaseOutcome;
use tg_types::{Amount, JobClass, JobId, LeaseId};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    EndReason, Job, JobState, Lease, LeaseEnd, Provider, Record, Settlement, Step,
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
        let spent = lease
            .price
            .checked_add(job.verification_fee)
            .and_then(|it| it.checked_add(members))
            .ok_or(out_of_range)?;
        let settlement = Settlement {
            price: lease.price,
            members,
            prize: job.prize,
            verification_fee: job.verification_fee,
            refund: job.escrow.checked_sub(spent).ok_or(out_of_range)?,
            burned: Amount::ZERO,
        };
        let earned = lease.price.checked_add(job.prize).ok_or(out_of_range)?;
        let paid = earned.checked_add(lease.locked).ok_or(out_of_range)?;
        job.escrow = Amount::ZERO;
        job.prize = Amount::ZERO;
        lease.locked = Amount::ZERO;
        self.credit(lease.provider, paid)?;
        self.credit(job.requestor, settlement.refund)?;
        self.fees = self.fees.saturating_add(settlement.verification_fee);
        self.note_accepted(&lease, class, earned)?;
        let provider = lease.provider;
        self.close_lease(lease, LeaseEnd::Fulfilled);
        self.step(&mut job, JobState::Paid)?;
        self.close_job(job, Some(provider), EndReason::Fulfilled, settlement)
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
        for lease in leases {
            if guilty.contains(&lease.id) {
                self.punish(&mut job, lease, end.clone())?;
            } else {
                self.let_go(lease, LeaseEnd::Released)?;
            }
        }
        self.requeue(job)
    }

    /// Ends the leases of a job to make room for another one; nobody loses anything but time.
    pub(super) fn preempt(&mut self, mut job: Job, lead: &Lease) -> Done {
        let leases: Vec<Lease> = self.state.gang_of(lead).cloned().collect();
        for lease in leases {
            self.let_go(lease, LeaseEnd::Preempted)?;
        }
        job.preemptions = job.preemptions.saturating_add(1);
        self.requeue(job)
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
        provider: Option<tg_types::Address>,
        reason: EndReason,
        settlement: Settlement,
    ) -> Done {
        job.end = Some(reason);
        job.settlement = Some(settlement);
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
