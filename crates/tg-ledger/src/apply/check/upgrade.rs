//! Checks of a validator's statement that it can execute the next version of the protocol.

use tg_types::Address;

use super::market::check_validator;
use super::outcome::Check;
use crate::error::TransactionError;
use crate::state::State;

/// Whether the version is the next one, and the validator did not say so before.
pub(super) fn check_ready(state: &State, sender: Address, version: u16) -> Check {
    check_validator(state, sender)?;
    let now = state.head.protocol;
    if now.checked_add(1) != Some(version) {
        return Err(TransactionError::NotNextProtocol { got: version, now });
    }
    match state.is_ready_for_next(&sender) {
        true => Err(TransactionError::ReadyAlready { version }),
        false => Ok(()),
    }
}
