//! Whether statements about storage hold.

use std::collections::BTreeSet;

use tg_types::{Address, StorageSubject};

use super::outcome::Check;
use crate::error::TransactionError;
use crate::state::{State, Statement};

/// Whether a validator may state this: each subject once, in order, and something that it was asked and did not say. What is not asked
/// any more beside it is passed over: of several reports that are sent in one moment, the first quorum is asked nothing about a file any more
/// when the others come.
pub(super) fn check_storage_report(
    state: &State,
    sender: Address,
    held: &[StorageSubject],
    missing: &[StorageSubject],
) -> Check {
    let seat = state
        .seat_of(&sender)
        .ok_or(TransactionError::NotValidator { sender })?;
    if held.is_empty() && missing.is_empty() {
        return Err(TransactionError::EmptyReport);
    }
    let (mut named, mut is_asked) = (BTreeSet::new(), false);
    for (list, statement) in [(held, Statement::Held), (missing, Statement::Missing)] {
        for (at, subject) in list.iter().enumerate() {
            let sorted = at == 0 || list[at - 1] < *subject;
            if !sorted || !named.insert(*subject) {
                return Err(TransactionError::BadStatement { subject: *subject });
            }
            is_asked |= state.is_asked(seat, (subject, statement));
        }
    }
    match named.first() {
        Some(subject) if !is_asked => Err(TransactionError::BadStatement { subject: *subject }),
        _ => Ok(()),
    }
}
