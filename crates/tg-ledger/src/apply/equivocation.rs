//! A validator that signed votes which contradict each other loses its stake.
//!
//! Whoever shows it gets twice the gas of the report back, at most a twentieth of the stake; the rest burns. So nobody gains from a
//! fault but what showing it cost, and a validator that shows its own loses nineteen twentieths at least. The seat itself
//! stays, with no stake and no share of fees, as the set of validators is fixed at genesis.

use std::sync::Arc;

use tg_types::chain::Equivocation;
use tg_types::{Address, Amount, TransactionKind};

use super::execution::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::gas::gas_of;

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
        let validators = Arc::make_mut(&mut self.state.validators);
        let convicted = validators
            .iter_mut()
            .find(|it| *it.key.as_bytes() == proof.seat);
        let Some(validator) = convicted else {
            return Err(InvariantError::Missing {
                table: "validators",
            });
        };
        let stake = std::mem::replace(&mut validator.stake, Amount::ZERO);
        let validator = validator.address;
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
}
