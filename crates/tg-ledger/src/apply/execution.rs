//! The execution of one block: its state so far, its time, its events.

use tg_types::{Address, Amount, Height, StateRoot, TimestampMs};

use crate::canary::{LedgerCanary, is_armed};
use crate::decision::{Decision, schedule_root};
use crate::error::InvariantError;
use crate::event::Event;
use crate::gas::BlockGas;
use crate::state::{Head, Outage, State};

/// A block being executed: a copy of the state that changes, and what happened so far.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) state: State,
    /// Ledger time of the block.
    pub(crate) now: TimestampMs,
    /// Block time of the block.
    pub(crate) timestamp: TimestampMs,
    pub(crate) height: Height,
    pub(crate) events: Vec<Event>,
    /// Fees of this block that no validator has yet.
    pub(crate) fees: Amount,
    /// Tips of this block.
    pub(crate) tips: Amount,
    /// The gas that its transactions used.
    pub(crate) gas: BlockGas,
    /// What the scheduler decided in this block.
    pub(crate) decisions: Vec<Decision>,
}

impl Execution {
    /// Starts a block: a copy of the state, at the ledger time of a block that is made at `timestamp`.
    pub(crate) fn begin(state: &State, timestamp: TimestampMs) -> Self {
        let height = state.head.height.next();
        let mut execution = Self {
            state: state.clone(),
            now: state.time_at(timestamp),
            timestamp,
            height,
            events: Vec::new(),
            fees: Amount::ZERO,
            tips: Amount::ZERO,
            gas: BlockGas::default(),
            decisions: Vec::new(),
        };
        let now = execution.now;
        if timestamp.saturating_since(state.head.timestamp) >= state.parameters.outage_min {
            execution.state.head.outage = Some(Outage { height, time: now });
        }
        execution.turn_protocol();
        let parent = state.head.block;
        execution.state.schedule.turn(parent, height);
        execution.run_meters();
        execution.charge_for_held_back();
        if is_armed(LedgerCanary::TimeoutFirst) {
            // A mistake of tests needs no error of its own.
            let _ = execution.run_timeouts();
        }
        execution
    }

    /// Names the block's decisions.
    fn seal_schedule(&mut self) {
        let decisions = std::mem::take(&mut self.decisions);
        let root = schedule_root(self.height.get(), &decisions);
        self.state.schedule.root = root;
        if !decisions.is_empty() {
            self.events.push(Event::Scheduled { root, decisions });
        }
    }

    /// Ends a block: matching, rewards, pruning, the count of money and the state root.
    pub(crate) fn finish(
        mut self,
        proposer: Address,
    ) -> Result<(State, Vec<Event>, StateRoot), InvariantError> {
        if !is_armed(LedgerCanary::TimeoutFirst) {
            self.run_timeouts()?;
        }
        self.expire_due()?;
        self.run_matching()?;
        self.seal_schedule();
        self.pay_validators(proposer)?;
        self.turn_seats(proposer)?;
        self.turn_seeds();
        self.prune(crate::limits::ENDED_JOBS_MAX)?;
        let Self {
            mut state,
            now,
            timestamp,
            height,
            events,
            fees: _,
            tips: _,
            gas,
            decisions: _,
        } = self;
        // How long the block had to fill up.
        let elapsed = now.saturating_since(state.head.time);
        let base_fee = state.fee_market.base_fee;
        let floor = state.parameters.base_fee_min;
        state.fee_market = state.fee_market.after(gas.paid, elapsed, floor);
        let report = state.money();
        if !report.is_conserved() && !is_armed(LedgerCanary::RefundAndPay) {
            return Err(InvariantError::MoneyNotConserved {
                minted: report.minted,
                found: report.found().unwrap_or(Amount::MAX),
            });
        }
        // The block's id is not known before its state root, so the root does not cover it; the header does.
        state.head = Head {
            height,
            timestamp,
            time: now,
            base_fee,
            ..state.head
        };
        state.seal();
        if state.leaves.unused() == u32::MAX {
            return Err(InvariantError::TreeFull);
        }
        let root = state.root();
        Ok((state, events, root))
    }
}
