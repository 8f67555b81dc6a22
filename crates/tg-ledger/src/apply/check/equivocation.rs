//! Checks of reports that a validator signed contradicting votes.

use tg_types::chain::Equivocation;

use super::outcome::Check;
use crate::error::TransactionError;
use crate::state::State;

/// Whether the votes convict a validator that has something to lose.
pub(super) fn check_equivocation(state: &State, proof: &Equivocation) -> Check {
    // A bond that is not returned yet answers for the votes of its time.
    let left = state.seats.unbonding.iter().map(|it| &it.validator);
    let mut validators = state.validators.iter().chain(left);
    let validator = validators.find(|it| *it.key.as_bytes() == proof.seat);
    let Some(validator) = validator else {
        return Err(TransactionError::NoSeat { key: proof.seat });
    };
    // Stops: a second report of the same fault, which would be paid from nothing.
    if validator.stake.is_zero() {
        return Err(TransactionError::NoStake {
            validator: validator.address,
        });
    }
    proof
        .check(&state.genesis)
        .map_err(TransactionError::NoEquivocation)
}
