//! The status of transactions: those that wait, and the latest ones that ended.

use std::collections::{BTreeMap, VecDeque};

use tg_ledger::TransactionError;
use tg_types::TransactionId;

use crate::limits::TRANSACTIONS_REMEMBERED_MAX;

/// Why a transaction that was taken into the pool left it without a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// Another one with its nonce paid more.
    #[error("replaced by another transaction with its nonce")]
    Replaced,
    /// The pool was full, and others pay more.
    #[error("made room for transactions that pay more")]
    Evicted,
    /// Its sender cannot pay for all that it has waiting.
    #[error("its sender cannot pay for all that it has waiting")]
    Unfunded,
    /// Another transaction with its nonce is final.
    #[error("another transaction with its nonce is final")]
    NonceUsed,
    /// The lease, bid or epoch that it was for is over.
    #[error("what it was for is over")]
    Lapsed,
    /// It waited too long.
    #[error("waited too long")]
    TooOld,
    /// When its turn came, it did not hold.
    #[error("does not hold any more")]
    Refused(#[source] TransactionError),
}

impl DropReason {
    /// The stable code; of the ledger where the ledger refused.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Replaced => "TG-NODE-051",
            Self::Evicted => "TG-NODE-052",
            Self::Unfunded => "TG-NODE-053",
            Self::NonceUsed => "TG-NODE-054",
            Self::TooOld => "TG-NODE-055",
            Self::Lapsed => "TG-NODE-056",
            Self::Refused(error) => error.code(),
        }
    }
}

/// Where a transaction stands, as one validator knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// It waits for a block.
    Waiting,
    /// It is in a final block.
    Final {
        /// The block's height.
        height: u64,
    },
    /// It left the pool without a block; its sender may send it again.
    Dropped(DropReason),
}

/// The waiting transactions, and the latest [`TRANSACTIONS_REMEMBERED_MAX`] that ended.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    known: BTreeMap<TransactionId, (TransactionStatus, u64)>,
    ended: VecDeque<(TransactionId, u64)>,
    /// How often a status was set.
    count: u64,
}

impl Statuses {
    pub(crate) fn get(&self, id: &TransactionId) -> Option<TransactionStatus> {
        self.known.get(id).map(|(status, _)| *status)
    }

    pub(crate) fn set(&mut self, id: TransactionId, status: TransactionStatus) {
        self.count += 1;
        self.known.insert(id, (status, self.count));
        if status == TransactionStatus::Waiting {
            return;
        }
        self.ended.push_back((id, self.count));
        if self.ended.len() > TRANSACTIONS_REMEMBERED_MAX
            && let Some((oldest, count)) = self.ended.pop_front()
            // One that was sent again waits once more, or ended again since.
            && self.known.get(&oldest).is_some_and(|(_, last)| *last == count)
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> TransactionId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        TransactionId::new(bytes)
    }

    #[test]
    fn the_latest_ends_are_remembered_and_what_waits_always_is() {
        let mut statuses = Statuses::default();
        let dropped = TransactionStatus::Dropped(DropReason::Evicted);
        statuses.set(id(0), TransactionStatus::Waiting);
        statuses.set(id(1), dropped);
        statuses.set(id(1), TransactionStatus::Waiting);
        for number in 2..2 + TRANSACTIONS_REMEMBERED_MAX {
            statuses.set(id(number), TransactionStatus::Final { height: 3 });
        }
        assert_eq!(statuses.get(&id(0)), Some(TransactionStatus::Waiting));
        assert_eq!(statuses.get(&id(1)), Some(TransactionStatus::Waiting));
        assert_eq!(
            statuses.get(&id(2)),
            Some(TransactionStatus::Final { height: 3 })
        );
        statuses.set(id(1), dropped);
        assert_eq!(statuses.get(&id(2)), None);
        assert_eq!(statuses.get(&id(1)), Some(dropped));
        assert!(statuses.known.len() <= TRANSACTIONS_REMEMBERED_MAX + 2);
    }
}
