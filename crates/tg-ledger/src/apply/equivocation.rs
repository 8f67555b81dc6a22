//! A validator that signed votes which contradict each other loses its stake.
//!
//! Whoever reports it gets twice the gas of the report, at most a twentieth of the stake; the rest is burned. So a report
//! repays its cost and hardly more, and a validator that reports itself loses at least nineteen twentieths. The seat
//! stays until the end of an epoch in which it may be vacated ([`super::seats`]), without stake and share of fees. A seat
//! that has ended loses the bond that was to be returned.

use std::sync::Arc;

use tg_types::chain::Equivocation;
use tg_types::{Address, Amount, TransactionKind};

use super::execution::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::gas::gas_of;
use crate::record::{Unbonding, Validator};

/// The reporter gets at most the stake divided by this.
const REWARD_SHARE: u128 = 20;

impl Execution {
    /// Takes the stake of the validator that the votes convict.
    pub(super) fn slash_validator(
        &mut self,
        reporter: Address,
        proof: &Equivocation,
    ) -> Result<(), InvariantError> {
        let gas = gas_of(TransactionKind::ReportEquivocation);
        let cost = self.state.base_fee().saturating_mul(gas);
        let (validator, stake) = self.take_stake(&proof.seat)?;
        let most = Amount::new(stake.get() / REWARD_SHARE);
        let reward = cost.saturating_add(cost).min(most);
        let burned = stake.saturating_sub(reward);
        self.burn(burned);
        self.credit(reporter, reward)?;
        self.events.push(Event::ValidatorSlashed {
            validator,
            burned,
            reporter,
            reward,
        });
        Ok(())
    }

    /// Takes what a key has at stake: the stake of a validator, or a bond that is not returned yet.
    fn take_stake(&mut self, key: &[u8; 32]) -> Result<(Address, Amount), InvariantError> {
        let is_its = |it: &Validator| it.key.as_bytes() == key;
        let validators = Arc::make_mut(&mut self.state.validators);
        if let Some(validator) = validators.iter_mut().find(|it| is_its(it)) {
            let stake = std::mem::replace(&mut validator.stake, Amount::ZERO);
            return Ok((validator.address, stake));
        }
        let book = Arc::make_mut(&mut self.state.seats);
        let left = book.unbonding.iter().position(|it| is_its(&it.validator));
        let left = left.ok_or(InvariantError::Missing {
            table: "validators",
        })?;
        let Unbonding { validator, .. } = book.unbonding.remove(left);
        Ok((validator.address, validator.stake))
    }
}
