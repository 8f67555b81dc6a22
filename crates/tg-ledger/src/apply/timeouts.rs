//! Timeouts. A time limit includes its last millisecond and the whole block in which it ends, since the transactions of a
//! block are executed before its timeouts. After an outage no window ends for some blocks and some time, so that nobody pays
//! for a pause of the validators.

use tg_types::{JobId, LeaseId, TimestampMs, VerificationMode};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    AbandonedBecause, Bid, Job, JobPhase, JobState, LatePhase, Lease, LeaseEnd, Model, ModelState,
    OpenStage, RefusedBecause, ReplicaStage, SealingStage, SyncStage, Unpaid,
};

impl Execution {
    /// Ends everything whose time is over: registrations, leases, then waiting jobs.
    pub(crate) fn run_timeouts(&mut self) -> Result<(), InvariantError> {
        if !self.state.windows_may_end(self.height, self.now) {
            return Ok(());
        }
        self.refuse_undelivered_models()?;
        self.close_rechecks()?;
        self.forfeit_bids()?;
        self.run_votes()?;
        self.run_retention()?;
        self.end_endpoints()?;
        // Nobody else comes to be due by what is done for these.
        let is_due = |(job, lease): &(&Job, &Lease)| {
            self.lapse(job, lease).is_some()
                || !self.is_room_wanted(job, lease)
                || is_preempted(job, lease, self.now)
        };
        let due = self.state.live_leases().filter(is_due);
        let due: Vec<JobId> = due.map(|(job, _)| job.id).collect();
        for id in due {
            let job = self.job(&id)?;
            let Some(lease) = job.live_lease() else {
                continue;
            };
            let lease = self.lease(&lease)?;
            if let Some(end) = self.lapse(&job, &lease) {
                if end == LeaseEnd::Ungranted {
                    self.end_without_key(job, &lease)?;
                    continue;
                }
                let guilty = self.absent(&job, &lease);
                self.fail_gang(job, &lease, &guilty, &end)?;
            } else if !self.is_room_wanted(&job, &lease) {
                self.state.put_lease(Lease {
                    preemption: None,
                    ..lease
                });
            } else if is_preempted(&job, &lease, self.now) {
                self.preempt(job, &lease)?;
            }
        }
        let late: Vec<JobId> = self
            .state
            .submitted_jobs()
            .chain(self.state.queued_jobs())
            .filter(|job| job.order.deadline < self.now)
            .map(|job| job.id)
            .collect();
        for id in late {
            let job = self.job(&id)?;
            self.end_unpaid(job, Unpaid::Deadline)?;
        }
        Ok(())
    }

    /// Whether the job for which a lease was told to make room still waits for it, if it was told. Else ordering and
    /// taking back would end the work of others for the price of gas. A job that moves makes room for itself.
    fn is_room_wanted(&self, job: &Job, lease: &Lease) -> bool {
        let Some(by) = lease.preemption.map(|it| it.by) else {
            return true;
        };
        let newcomer = self.state.job(&by);
        by == job.id || newcomer.is_some_and(|it| it.state() == JobState::Queued)
    }

    /// Whose fault it is that a lease ran out of time: of a gang that never started those who did not, of one that
    /// committed to nothing those who did not commit to their parts, of replicas those who sealed or opened nothing, else
    /// the lead's.
    fn absent(&self, job: &Job, lead: &Lease) -> Vec<LeaseId> {
        let members = self.state.gang_of(lead);
        let is_replicated = job.order.mode == VerificationMode::Replicate;
        let absent: Vec<LeaseId> = match job.state() {
            JobState::Running | JobState::Committed if is_replicated => {
                self.state.absent_replicas(lead, job.state())
            }
            JobState::Leased => members
                .filter(|member| member.started_at().is_none())
                .map(|member| member.id)
                .collect(),
            JobState::Running => members
                .filter(|member| member.lead().is_some() && member.receipt().is_none())
                .map(|member| member.id)
                .collect(),
            _ => Vec::new(),
        };
        match absent.is_empty() {
            true => vec![lead.id],
            false => absent,
        }
    }

    /// Bids that were not revealed in their slot lose their deposit.
    fn forfeit_bids(&mut self) -> Result<(), InvariantError> {
        let slot = self.state.parameters.slot(self.now);
        let bids = self.state.bids.iter();
        let lapsed: Vec<Bid> = bids
            .filter(|bid| bid.slot.saturating_add(1) < slot)
            .cloned()
            .collect();
        for bid in lapsed {
            self.state.bids.remove(&bid.id);
            self.burn(bid.deposit);
            self.update_account(bid.bidder, |account| {
                account.bids = account.bids.saturating_sub(1);
            })?;
            self.events.push(Event::BidForfeited {
                bid: bid.id,
                bidder: bid.bidder,
                amount: bid.deposit,
            });
        }
        Ok(())
    }

    /// How a lease ends by time, if it does.
    fn lapse(&self, job: &Job, lease: &Lease) -> Option<LeaseEnd> {
        let JobPhase::Open { stage, .. } = &job.phase else {
            return None;
        };
        let (due, end) = match stage {
            OpenStage::Submitted | OpenStage::Queued => return None,
            OpenStage::Leased(_) => match lease.sealing.as_ref().map(|it| &it.stage) {
                None | Some(SealingStage::Granted { .. }) => (
                    lease.start_by,
                    LeaseEnd::Abandoned(AbandonedBecause::NotStarted),
                ),
                Some(SealingStage::AwaitsKey) => (lease.start_by, LeaseEnd::Ungranted),
                Some(SealingStage::Questioned { until, .. }) => (*until, LeaseEnd::Ungranted),
                // It is the validators' to come to a verdict.
                Some(SealingStage::Revealed { .. }) => return None,
            },
            // It ends by what it counts.
            OpenStage::Running(_) if lease.meter.is_some() => return None,
            OpenStage::Running(_) => (lease.deadline, LeaseEnd::Late(LatePhase::Running)),
            OpenStage::Committed(_) => {
                match lease.replicas {
                    Some(ReplicaStage::Opening { open_by }) => {
                        let end = LeaseEnd::Late(LatePhase::Sealed);
                        return (open_by < self.now).then_some(end);
                    }
                    Some(ReplicaStage::Agreed { deliver_by }) => {
                        let end = LeaseEnd::Late(LatePhase::Committed);
                        return (deliver_by < self.now).then_some(end);
                    }
                    Some(ReplicaStage::Differ) | None => {}
                }
                let due = match lease.check.as_ref().map(|it| &it.stage) {
                    None => lease.deadline,
                    Some(SyncStage::Challenged { answer_by, .. }) => *answer_by,
                    // The seed is the validators' to sign.
                    Some(_) => return None,
                };
                (due, LeaseEnd::Late(LatePhase::Committed))
            }
            OpenStage::Disputed(_) => return None,
            OpenStage::Delivering(_) => (
                lease.delivery()?.0,
                LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered),
            ),
            // A committee that is asked is asked until it answers, and the seed that draws it is the validators' to sign.
            OpenStage::Verifying(_)
                if lease.check.as_ref().is_some_and(|it| {
                    it.stage == SyncStage::AwaitsSeed || it.stage.round().is_some()
                }) =>
            {
                return None;
            }
            // Validators need nothing for it that they have not stated to hold: it is theirs to come to a verdict, however many
            // programs they have to run before, and no fault of the provider's.
            OpenStage::Verifying(_) if job.order.mode == VerificationMode::Recompute => {
                return None;
            }
            OpenStage::Verifying(_) => (
                lease.verify_by()?,
                LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered),
            ),
        };
        (due < self.now).then_some(end)
    }

    fn refuse_undelivered_models(&mut self) -> Result<(), InvariantError> {
        let wait = self.state.parameters.verification_timeout;
        let late: Vec<Model> = self
            .state
            .models
            .iter()
            .filter(|model| model.state == ModelState::Pending)
            .filter(|model| model.registered_at.saturating_add(wait) < self.now)
            .cloned()
            .collect();
        for mut model in late {
            model.state = ModelState::Refused(RefusedBecause::NotDelivered);
            self.settle_refused(&mut model)?;
            self.events.push(Event::ModelChanged {
                model: model.id,
                state: model.state.clone(),
            });
            self.state.put_model(model);
        }
        Ok(())
    }
}

/// Whether a lease was told to make room, and its grace is over.
fn is_preempted(job: &Job, lease: &Lease, now: TimestampMs) -> bool {
    let waits = matches!(job.state(), JobState::Leased | JobState::Running);
    waits && lease.preemption.is_some_and(|it| it.at < now)
}
