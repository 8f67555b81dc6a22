//! Which nonce an account uses next, as far as one validator's process can tell: what it took for it and what became of that.
//!
//! The ledger's nonce alone would be given out twice while transactions wait. Counting on from what was taken is not enough
//! either: a transaction that was dropped leaves a gap, and everything behind it would wait until its place is used. So
//! whoever takes a job back while its provider's start is on the way would keep that provider's other messages out of
//! blocks until they are late.

use std::collections::BTreeMap;

use tg_types::{Address, TimestampMs, TransactionId};

use crate::limits::MEMPOOL_SENDER_MAX;
use crate::mempool::TransactionStatus;

/// How long a nonce that was taken counts before the ledger shows it, in milliseconds.
const REMEMBERED_MS: u64 = 10_000;

/// Accounts whose nonces are remembered at once.
const ACCOUNTS_MAX: usize = 10_000;

/// Nonces of one account that are remembered: as many as the pool takes of one sender.
const NONCES_MAX: usize = MEMPOOL_SENDER_MAX;

/// The nonces of the transactions that were taken here.
#[derive(Debug, Default)]
pub struct TakenNonces {
    accounts: BTreeMap<Address, BTreeMap<u64, (TransactionId, TimestampMs)>>,
}

impl TakenNonces {
    /// Notes that a transaction was taken at `now`.
    pub fn take(&mut self, sender: Address, nonce: u64, id: TransactionId, now: TimestampMs) {
        if self.accounts.len() >= ACCOUNTS_MAX {
            self.accounts.retain(|_, taken| {
                taken.retain(|_, (_, at)| is_fresh(*at, now));
                !taken.is_empty()
            });
        }
        if self.accounts.len() < ACCOUNTS_MAX || self.accounts.contains_key(&sender) {
            let taken = self.accounts.entry(sender).or_default();
            taken.insert(nonce, (id, now));
            while taken.len() > NONCES_MAX {
                taken.pop_first();
            }
        }
    }

    /// The first nonce from `settled`, the ledger's, on of which nothing is known that waits.
    pub fn next(
        &mut self,
        sender: &Address,
        (settled, now): (u64, TimestampMs),
        status: impl Fn(&TransactionId) -> Option<TransactionStatus>,
    ) -> u64 {
        let Some(taken) = self.accounts.get_mut(sender) else {
            return settled;
        };
        taken.retain(|nonce, (_, at)| *nonce >= settled && is_fresh(*at, now));
        let mut next = settled;
        while let Some((id, _)) = taken.get(&next) {
            if matches!(status(id), Some(TransactionStatus::Dropped(_))) {
                break;
            }
            next += 1;
        }
        // What was taken by another process, or is forgotten, may stand before what is known.
        let last = taken
            .last_key_value()
            .map_or(settled, |(last, _)| *last + 1);
        if taken.contains_key(&next) {
            next
        } else {
            next.max(last)
        }
    }
}

fn is_fresh(at: TimestampMs, now: TimestampMs) -> bool {
    now.saturating_since(at).get() < REMEMBERED_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mempool::DropReason;

    const SENDER: Address = Address::new([1; 20]);

    fn id(number: u8) -> TransactionId {
        TransactionId::new([number; 32])
    }

    fn at(ms: u64) -> TimestampMs {
        TimestampMs::new(ms)
    }

    /// Found by `tensorgrid sim --seed 9`: a requestor took a job back while its provider's start was on the way; the start was
    /// dropped, all that the provider sent for other leases stood behind it, and it lost the collateral of each.
    #[test]
    fn the_place_of_a_dropped_transaction_is_given_out_again() {
        let mut nonces = TakenNonces::default();
        let waits = |_: &TransactionId| Some(TransactionStatus::Waiting);
        assert_eq!(nonces.next(&SENDER, (5, at(0)), waits), 5);
        for number in 5..9u8 {
            nonces.take(SENDER, u64::from(number), id(number), at(100));
        }
        assert_eq!(nonces.next(&SENDER, (5, at(200)), waits), 9);
        let dropped = |it: &TransactionId| {
            let status = match *it == id(6) {
                true => TransactionStatus::Dropped(DropReason::TooOld),
                false => TransactionStatus::Waiting,
            };
            Some(status)
        };
        assert_eq!(nonces.next(&SENDER, (5, at(200)), dropped), 6);
        // Another one takes the place.
        nonces.take(SENDER, 6, id(20), at(300));
        assert_eq!(nonces.next(&SENDER, (5, at(400)), dropped), 9);
        // The ledger has gone on.
        assert_eq!(nonces.next(&SENDER, (8, at(400)), dropped), 9);
        assert_eq!(nonces.next(&SENDER, (12, at(400)), dropped), 12);
        // What was taken long ago is forgotten.
        nonces.take(SENDER, 12, id(12), at(500));
        assert_eq!(nonces.next(&SENDER, (12, at(10_600)), waits), 12);
    }
}
