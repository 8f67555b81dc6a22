//! Dry runs: what an order would get if it were submitted now.

use tg_types::{Address, JobId, JobOrder, TimestampMs};

use super::Execution;
use crate::error::TransactionError;
use crate::record::{EndReason, JobState, Lease, ModelState};
use crate::state::{State, WhyWaiting};

/// What an order would get if it were in the next block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// Where the job would stand.
    pub state: JobState,
    /// Why it would have ended, if it would.
    pub end: Option<EndReason>,
    /// Its leases: the one that leads first.
    pub leases: Vec<Lease>,
    /// Why it would wait, if it would.
    pub why: Option<WhyWaiting>,
}

impl State {
    /// What `order` would get if `requestor` had it in the next block, at `time`, alone. The members of mode `replicate` are
    /// an example: nobody knows before who is drawn.
    ///
    /// # Errors
    /// If the order would be refused.
    pub fn dry_run(
        &self,
        requestor: Address,
        order: &JobOrder,
        time: TimestampMs,
    ) -> Result<DryRun, TransactionError> {
        let (after, id) = self.after_dry_run(requestor, order, time)?;
        let job = after.job(&id).cloned().ok_or(Self::refusal(order))?;
        let lead = job.live_lease().and_then(|lease| after.lease(&lease));
        Ok(DryRun {
            state: job.state(),
            end: job.end(),
            leases: lead.map_or_else(Vec::new, |lead| after.gang_of(lead).cloned().collect()),
            why: after.why_waiting(&id),
        })
    }

    /// The state in which [`Self::dry_run`] looks: after the next block with nothing in it but this order, and the
    /// job's id there. It has no root and nothing follows from it.
    ///
    /// # Errors
    /// If the order would be refused.
    pub fn after_dry_run(
        &self,
        requestor: Address,
        order: &JobOrder,
        time: TimestampMs,
    ) -> Result<(Self, JobId), TransactionError> {
        let refused = Self::refusal(order);
        let mut execution = Execution::begin(self, time);
        execution.check_order(requestor, order)?;
        let id = JobId::default();
        execution
            .submit_as(id, requestor, order)
            .and_then(|()| execution.draw_as_example(&id))
            .and_then(|()| execution.run_timeouts())
            .and_then(|()| execution.run_matching())
            .map_err(|_| refused)?;
        // As the next block leaves it.
        let now = execution.now;
        let mut after = execution.state;
        after.head.timestamp = time;
        after.head.time = now;
        after.head.height = after.head.height.next();
        Ok((after, id))
    }

    /// What an order is refused with whose block cannot be executed.
    fn refusal(order: &JobOrder) -> TransactionError {
        TransactionError::ModelNotActive {
            model: order.model,
            state: ModelState::Pending.as_str(),
        }
    }
}
