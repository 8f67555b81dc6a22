//! The changes of offers since the book was last updated.

use std::collections::BTreeSet;

use tg_types::{Address, OfferId};

/// What changed since the book was brought up to date.
#[derive(Debug, Clone, Default)]
pub(crate) struct BookChanges {
    pub(super) offers: BTreeSet<OfferId>,
    /// Records or balances that may be a provider's.
    pub(super) accounts: BTreeSet<Address>,
    /// Whether the book is to be built anew.
    pub(super) is_stale: bool,
}

impl BookChanges {
    /// Everything may have changed.
    pub(crate) fn everything() -> Self {
        Self {
            is_stale: true,
            ..Self::default()
        }
    }

    pub(crate) fn note_offer(&mut self, offer: OfferId) {
        self.offers.insert(offer);
    }

    pub(crate) fn note_account(&mut self, address: Address) {
        self.accounts.insert(address);
    }
}
