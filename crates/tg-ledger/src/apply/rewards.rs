//! The end of a block: fees go to the validators, tips to the proposer, and old jobs are removed from the state.

use std::sync::Arc;

use tg_types::{Address, Amount};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{MISSED_VOTES_UNPAID, PRUNED_PER_BLOCK_MAX};
use crate::record::{SeatRecord, Validator};
use crate::rent::RentCategory;

impl Execution {
    /// Splits the block's fees evenly among the validators that have a stake, or all if none has, but for those that miss the votes of
    /// committees or make no blocks, if not all do; what cannot be split goes to the proposer, and so do the tips.
    pub(super) fn pay_validators(&mut self, proposer: Address) -> Result<(), InvariantError> {
        let fees = std::mem::replace(&mut self.fees, Amount::ZERO);
        let validators = Arc::clone(&self.state.validators);
        let seats = Arc::clone(&self.state.seats);
        let sitting = || validators.iter().zip(&seats.seats);
        let has_stake = |it: &Validator| !it.stake.is_zero();
        let nobody = !validators.iter().any(has_stake);
        let height = self.height;
        let is_present =
            |seat: &SeatRecord| seat.silences() < MISSED_VOTES_UNPAID && !seat.is_silent_at(height);
        let all_absent = !sitting().any(|(it, seat)| (nobody || has_stake(it)) && is_present(seat));
        let has_share = |it: &Validator, seat: &SeatRecord| {
            (nobody || has_stake(it)) && (all_absent || is_present(seat))
        };
        let count = sitting().filter(|(it, seat)| has_share(it, seat)).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some((share, rest)) = fees.split(count) else {
            return Ok(());
        };
        let tips = std::mem::replace(&mut self.tips, Amount::ZERO);
        for (validator, seat) in sitting() {
            let share = match has_share(validator, seat) {
                true => share,
                false => Amount::ZERO,
            };
            let amount = match validator.address == proposer {
                true => share.saturating_add(rest).saturating_add(tips),
                false => share,
            };
            if amount.is_zero() {
                continue;
            }
            self.credit(validator.address, amount)?;
            self.events.push(Event::Rewarded {
                validator: validator.address,
                amount,
            });
        }
        Ok(())
    }

    /// Takes ended jobs beyond `bound` out of the state, with their leases: first those whose rent ends first.
    pub(crate) fn prune(&mut self, bound: usize) -> Result<(), InvariantError> {
        let excess = self.state.ended.len().saturating_sub(bound);
        if excess == 0 {
            return Ok(());
        }
        for _ in 0..excess.min(PRUNED_PER_BLOCK_MAX) {
            let by_rent = self.state.jobs.first_due(RentCategory::EndedJobs);
            let oldest = || self.state.ended.values().next().copied();
            let Some(id) = by_rent.map(|(_, id)| id).or_else(oldest) else {
                break;
            };
            let job = self.job(&id)?;
            self.forget_job(&job)?;
        }
        Ok(())
    }
}
