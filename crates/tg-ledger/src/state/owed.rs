//! Whether a prepaid transaction is still of use.

use tg_types::{BidId, LeaseId, StorageSubject, TransactionKind};

use crate::gas::Prepaid;
use crate::state::State;

impl State {
    /// Whether what a prepaid transaction serves still waits for it.
    #[must_use]
    pub fn is_owed(&self, prepaid: &Prepaid) -> bool {
        let Prepaid {
            kind,
            sender,
            key: _,
            subject,
        } = *prepaid;
        let lease = self.lease(&LeaseId::new(subject));
        let lease = lease.filter(|it| it.end().is_none());
        match kind {
            TransactionKind::RevealBid => self.bid(&BidId::new(subject)).is_some(),
            TransactionKind::ReportLiveness
            | TransactionKind::PostDealing
            | TransactionKind::ReadyForProtocol => true,
            TransactionKind::ReportStorage => {
                let asked = self.storage_of(&StorageSubject::new(subject));
                let seat = self.seat_of(&sender);
                asked.is_some_and(|it| seat.is_some_and(|seat| it.waits_for(seat)))
            }
            TransactionKind::CommitVotes | TransactionKind::RevealVotes => {
                let check = lease.and_then(|it| it.check.as_ref());
                let round = check.and_then(|it| it.stage.round());
                round.is_some_and(|it| it.vote(&sender).is_some())
            }
            _ => lease.is_some(),
        }
    }
}
