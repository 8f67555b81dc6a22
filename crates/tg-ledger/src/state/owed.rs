//! Whether a prepaid transaction still has an effect.

use tg_types::TransactionKind;

use crate::gas::{Prepaid, PrepaidSubject};
use crate::state::{State, Statement};

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
        let lease = match subject {
            PrepaidSubject::Sender => return true,
            PrepaidSubject::Bid(bid) => return self.bid(&bid).is_some(),
            PrepaidSubject::Stored(subject) => {
                let either = [Statement::Held, Statement::Missing];
                return self.seat_of(&sender).is_some_and(|seat| {
                    either
                        .into_iter()
                        .any(|it| self.is_asked(seat, (&subject, it)))
                });
            }
            PrepaidSubject::Lease(lease) => self.lease(&lease),
        };
        let lease = lease.filter(|it| it.end().is_none());
        match kind {
            TransactionKind::CommitVotes | TransactionKind::RevealVotes => {
                let check = lease.and_then(|it| it.check.as_ref());
                let round = check.and_then(|it| it.stage.round());
                round.is_some_and(|it| it.vote(&sender).is_some())
            }
            _ => lease.is_some(),
        }
    }
}
