//! Whether a prepaid transaction is still of use.

use tg_types::{BidId, LeaseId, TransactionKind};

use crate::gas::Prepaid;
use crate::state::State;

impl State {
    /// Whether what a prepaid transaction serves still waits for it.
    #[must_use]
    pub fn is_owed(&self, prepaid: &Prepaid) -> bool {
        let Prepaid { kind, subject } = *prepaid;
        match kind {
            TransactionKind::RevealBid => self.bid(&BidId::new(subject)).is_some(),
            TransactionKind::ReportLiveness
            | TransactionKind::ReportStorage
            | TransactionKind::PostDealing
            | TransactionKind::ArgueResult
            | TransactionKind::CommitVotes
            | TransactionKind::RevealVotes
            | TransactionKind::ReadyForProtocol => true,
            _ => {
                let lease = self.lease(&LeaseId::new(subject));
                lease.is_some_and(|it| it.end().is_none())
            }
        }
    }
}
