//! The end of a block: fees go to the validators, tips to the proposer, and old jobs leave the state.

use std::sync::Arc;

use tg_types::{Address, Amount};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::PRUNED_PER_BLOCK_MAX;
use crate::record::Validator;
use crate::rent::RentCategory;

impl Execution {
    /// Splits the block's fees evenly among the validators that have a stake, or all if none has; what cannot be split goes to the
    /// proposer, and so do the tips.
    pub(super) fn pay_validators(&mut self, proposer: Address) -> Result<(), InvariantError> {
        let fees = std::mem::replace(&mut self.fees, Amount::ZERO);
        let validators = Arc::clone(&self.state.validators);
        let nobody = validators.iter().all(|it| it.stake.is_zero());
        let has_share = |it: &Validator| nobody || !it.stake.is_zero();
        let count = validators.iter().filter(|it| has_share(it)).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some((share, rest)) = fees.split(count) else {
            return Ok(());
        };
        let tips = std::mem::replace(&mut self.tips, Amount::ZERO);
        for validator in validators.iter() {
            let share = match has_share(validator) {
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
