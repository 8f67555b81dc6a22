//! Checks of requests for a validator's seat, and of giving one up.

use tg_types::chain::{is_possession, is_seat_endpoint};
use tg_types::{Address, Label};

use super::outcome::{Check, Spent};
use crate::error::TransactionError;
use crate::limits::{APPLICANTS_MAX, NEWCOMERS_FROM};
use crate::state::State;

/// What a seat costs: the bond.
pub(super) fn check_join(
    state: &State,
    sender: Address,
    key: &[u8; 32],
    endpoint: &Label,
    possession: &[u8; 64],
) -> Spent {
    // Stops: a seat that nobody sits on, where one silent seat ends all finality.
    if state.validators.len() < NEWCOMERS_FROM {
        return Err(TransactionError::SeatsClosed {
            validators: state.validators.len(),
        });
    }
    let bonds = || state.validators.iter().chain(state.seats.bonds());
    if bonds().any(|it| it.address == sender) {
        return Err(TransactionError::HasSeat { account: sender });
    }
    if bonds().any(|it| it.key.as_bytes() == key) {
        return Err(TransactionError::KeyHasSeat { key: *key });
    }
    if state.seats.applicants.len() >= APPLICANTS_MAX {
        return Err(TransactionError::TooManyApplicants {
            limit: APPLICANTS_MAX,
        });
    }
    if !is_seat_endpoint(endpoint.as_str()) {
        return Err(TransactionError::BadEndpoint);
    }
    if !is_possession(&state.genesis, &sender, key, possession) {
        return Err(TransactionError::NoPossession { key: *key });
    }
    Ok(state.parameters.seat_bond)
}

/// Whether the sender has the seat, or waits for it, and did not give it back.
pub(super) fn check_leave(state: &State, sender: Address, key: &[u8; 32]) -> Check {
    let applicants = state.seats.applicants.iter().map(|it| &it.validator);
    let mut all = state.validators.iter().chain(applicants);
    let found = all.find(|it| it.key.as_bytes() == key && it.address == sender);
    let Some(found) = found else {
        return Err(TransactionError::NoSeat { key: *key });
    };
    let seat = state.seat_of(&found.address).map(usize::from);
    let seat = seat.and_then(|seat| state.seats.seats.get(seat));
    match seat.is_some_and(|it| it.is_leaving) {
        true => Err(TransactionError::LeavesAlready { account: sender }),
        false => Ok(()),
    }
}
