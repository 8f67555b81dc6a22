//! Whether statements about storage hold.

use std::collections::BTreeSet;

use tg_types::{Address, StorageSubject};

use super::outcome::Check;
use crate::error::TransactionError;
use crate::state::State;

/// Whether a validator may state this: each subject once, in order, and only what it was asked and did not say.
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
    let mut named = BTreeSet::new();
    for (list, is_missing) in [(held, false), (missing, true)] {
        for (at, subject) in list.iter().enumerate() {
            let sorted = at == 0 || list[at - 1] < *subject;
            let asked = state.storage_of(subject).is_some_and(|it| {
                let again = it.recheck.as_ref();
                it.waits_for(seat)
                    && (!is_missing || again.is_some_and(|it| !it.missing.contains(seat)))
            });
            if !sorted || !asked || !named.insert(*subject) {
                return Err(TransactionError::BadStatement { subject: *subject });
            }
        }
    }
    Ok(())
}
