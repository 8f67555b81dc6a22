//! Transactions that wait for a block: a pure data structure, no clock and no network.
//!
//! One sender's transactions are taken in the order of their nonces without gaps; between senders the earlier
//! arrival goes first. A sender keeps at most [`MEMPOOL_SENDER_MAX`] of them here, the pool
//! [`MEMPOOL_TRANSACTIONS_MAX`]. There is no replacement: the first transaction of a nonce stays until it is final,
//! refused by a block, or too old.

use std::collections::{BTreeMap, BTreeSet};

use tg_types::{Address, Encode as _, SignedTransaction, TimestampMs, TransactionId};

use crate::limits::{MEMPOOL_AGE_MAX, MEMPOOL_SENDER_MAX, MEMPOOL_TRANSACTIONS_MAX};

/// Why the pool did not take a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MempoolError {
    /// The pool is full; try again when blocks have made room.
    #[error("{limit} transactions are waiting already")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The sender has too many transactions waiting.
    #[error("{limit} transactions of {sender} are waiting already")]
    SenderFull {
        /// The sender.
        sender: Address,
        /// The limit.
        limit: usize,
    },
    /// The nonce was used by a final transaction.
    #[error("nonce {nonce} of {sender} is used, the next one is {next}")]
    NonceUsed {
        /// The sender.
        sender: Address,
        /// The nonce given.
        nonce: u64,
        /// The next free nonce.
        next: u64,
    },
    /// The nonce is further ahead than the pool keeps.
    #[error("nonce {nonce} of {sender} is more than {limit} ahead of the next one, {next}")]
    NonceTooFar {
        /// The sender.
        sender: Address,
        /// The nonce given.
        nonce: u64,
        /// The next free nonce.
        next: u64,
        /// How far ahead a nonce may be.
        limit: usize,
    },
    /// Another transaction with this nonce is waiting.
    #[error("another transaction of {sender} with nonce {nonce} is waiting")]
    NonceTaken {
        /// The sender.
        sender: Address,
        /// The nonce given.
        nonce: u64,
    },
}

/// Where a transaction came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Submitted to this validator, which keeps telling the others about it.
    Local,
    /// Told by another validator.
    Peer,
}

/// What became of an accepted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new.
    New,
    /// It was here already.
    Known,
}

#[derive(Debug, Clone)]
struct Entry {
    id: TransactionId,
    signed: SignedTransaction,
    bytes: usize,
    arrival: u64,
    arrived_at: TimestampMs,
    origin: Origin,
}

/// The pool.
#[derive(Debug, Default)]
pub(crate) struct Mempool {
    senders: BTreeMap<Address, BTreeMap<u64, Entry>>,
    count: usize,
    arrivals: u64,
}

impl Mempool {
    /// Transactions waiting.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Adds a transaction whose signature was checked; `next` is the sender's next free nonce.
    pub(crate) fn insert(
        &mut self,
        id: TransactionId,
        signed: SignedTransaction,
        next: u64,
        now: TimestampMs,
        origin: Origin,
    ) -> Result<Admission, MempoolError> {
        let (sender, nonce) = (signed.sender, signed.nonce);
        if let Some(entry) = self.senders.get(&sender).and_then(|all| all.get(&nonce)) {
            return if entry.id == id {
                Ok(Admission::Known)
            } else {
                Err(MempoolError::NonceTaken { sender, nonce })
            };
        }
        self.admit(sender, nonce, next)?;
        let entry = Entry {
            id,
            bytes: signed.to_bytes().len(),
            signed,
            arrival: self.arrivals,
            arrived_at: now,
            origin,
        };
        self.arrivals += 1;
        self.count += 1;
        self.senders.entry(sender).or_default().insert(nonce, entry);
        Ok(Admission::New)
    }

    fn admit(&self, sender: Address, nonce: u64, next: u64) -> Result<(), MempoolError> {
        if nonce < next {
            return Err(MempoolError::NonceUsed {
                sender,
                nonce,
                next,
            });
        }
        if nonce - next >= MEMPOOL_SENDER_MAX as u64 {
            return Err(MempoolError::NonceTooFar {
                sender,
                nonce,
                next,
                limit: MEMPOOL_SENDER_MAX,
            });
        }
        let of_sender = self.senders.get(&sender).map_or(0, BTreeMap::len);
        if of_sender >= MEMPOOL_SENDER_MAX {
            return Err(MempoolError::SenderFull {
                sender,
                limit: MEMPOOL_SENDER_MAX,
            });
        }
        if self.count >= MEMPOOL_TRANSACTIONS_MAX {
            return Err(MempoolError::Full {
                limit: MEMPOOL_TRANSACTIONS_MAX,
            });
        }
        Ok(())
    }

    /// Whether a transaction could go into a block on a state with these next nonces.
    pub(crate) fn has_ready(&self, next_nonce: impl Fn(&Address) -> u64) -> bool {
        self.senders
            .iter()
            .any(|(sender, waiting)| waiting.contains_key(&next_nonce(sender)))
    }

    /// Transactions for a block on a state with these next nonces, earliest arrivals first.
    pub(crate) fn candidates(
        &self,
        next_nonce: impl Fn(&Address) -> u64,
        count_max: usize,
        bytes_max: usize,
    ) -> Vec<SignedTransaction> {
        let mut heads: BTreeSet<(u64, Address, u64)> = self
            .senders
            .iter()
            .filter_map(|(sender, waiting)| {
                let nonce = next_nonce(sender);
                Some((waiting.get(&nonce)?.arrival, *sender, nonce))
            })
            .collect();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some((_, sender, nonce)) = heads.pop_first() {
            let Some(entry) = self.entry(&sender, nonce) else {
                continue;
            };
            if taken.len() == count_max || bytes + entry.bytes > bytes_max {
                break;
            }
            bytes += entry.bytes;
            taken.push(entry.signed.clone());
            if let Some(next) = self.entry(&sender, nonce + 1) {
                heads.insert((next.arrival, sender, nonce + 1));
            }
        }
        taken
    }

    /// Whether a transaction of this sender and nonce waits here.
    pub(crate) fn waits(&self, sender: &Address, nonce: u64) -> bool {
        self.entry(sender, nonce).is_some()
    }

    /// Forgets a transaction that no block can hold.
    pub(crate) fn remove(&mut self, sender: &Address, nonce: u64) {
        if let Some(waiting) = self.senders.get_mut(sender) {
            if waiting.remove(&nonce).is_some() {
                self.count -= 1;
            }
            if waiting.is_empty() {
                self.senders.remove(sender);
            }
        }
    }

    /// Forgets transactions whose nonce is used on the final state, and those that waited too long.
    pub(crate) fn prune(&mut self, next_nonce: impl Fn(&Address) -> u64, now: TimestampMs) {
        let age_max = u64::try_from(MEMPOOL_AGE_MAX.as_millis()).unwrap_or(u64::MAX);
        let mut kept = 0;
        self.senders.retain(|sender, waiting| {
            let next = next_nonce(sender);
            waiting.retain(|nonce, entry| {
                *nonce >= next && now.saturating_since(entry.arrived_at).get() <= age_max
            });
            kept += waiting.len();
            !waiting.is_empty()
        });
        self.count = kept;
    }

    /// Encodings of at most `limit` waiting transactions that were submitted to this validator.
    pub(crate) fn local(&self, limit: usize) -> Vec<Vec<u8>> {
        self.senders
            .values()
            .flat_map(BTreeMap::values)
            .filter(|entry| entry.origin == Origin::Local)
            .take(limit)
            .map(|entry| entry.signed.to_bytes())
            .collect()
    }

    fn entry(&self, sender: &Address, nonce: u64) -> Option<&Entry> {
        self.senders.get(sender)?.get(&nonce)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use tg_types::{Amount, Signature, Transaction};

    use super::*;

    const NOW: TimestampMs = TimestampMs::new(1_000);

    fn transfer(sender: u8, nonce: u64, amount: u128) -> (TransactionId, SignedTransaction) {
        let signed = SignedTransaction {
            transaction: Transaction::Transfer {
                to: Address::default(),
                amount: Amount::new(amount),
            },
            nonce,
            sender: Address::new([sender; 20]),
            signature: Signature {
                r: [1; 32],
                s: [1; 32],
                y_parity: 0,
            },
        };
        let mut id = [0; 32];
        id[0] = sender;
        id[1..9].copy_from_slice(&nonce.to_le_bytes());
        id[9..25].copy_from_slice(&amount.to_le_bytes());
        (TransactionId::new(id), signed)
    }

    fn insert(
        pool: &mut Mempool,
        sender: u8,
        nonce: u64,
        next: u64,
    ) -> Result<Admission, MempoolError> {
        let (id, signed) = transfer(sender, nonce, 1);
        pool.insert(id, signed, next, NOW, Origin::Local)
    }

    fn taken(pool: &Mempool, next: u64, count: usize) -> Vec<(u8, u64)> {
        pool.candidates(|_| next, count, usize::MAX)
            .iter()
            .map(|signed| (signed.sender.as_bytes()[0], signed.nonce))
            .collect()
    }

    #[test]
    fn candidates_keep_nonce_order_and_arrival_order() {
        let mut pool = Mempool::default();
        for (sender, nonce) in [(1, 1), (2, 0), (1, 0), (3, 1), (2, 1), (1, 2)] {
            assert_eq!(insert(&mut pool, sender, nonce, 0), Ok(Admission::New));
        }
        assert_eq!(taken(&pool, 0, 9), [(2, 0), (1, 0), (1, 1), (2, 1), (1, 2)]);
        assert_eq!(taken(&pool, 0, 2), [(2, 0), (1, 0)]);
        assert_eq!(taken(&pool, 1, 9), [(1, 1), (3, 1), (2, 1), (1, 2)]);
        assert!(taken(&pool, 7, 9).is_empty());
        assert!(pool.has_ready(|_| 2) && !pool.has_ready(|_| 3));
        let one = pool.candidates(|_| 0, 9, usize::MAX)[0].to_bytes().len();
        assert_eq!(pool.candidates(|_| 0, 9, 2 * one + 1).len(), 2);
    }

    #[test]
    fn what_cannot_be_taken_is_named() {
        let mut pool = Mempool::default();
        let sender = Address::new([1; 20]);
        assert_eq!(insert(&mut pool, 1, 4, 3), Ok(Admission::New));
        assert_eq!(insert(&mut pool, 1, 4, 3), Ok(Admission::Known));
        let (id, other) = transfer(1, 4, 2);
        assert_eq!(
            pool.insert(id, other, 3, NOW, Origin::Local),
            Err(MempoolError::NonceTaken { sender, nonce: 4 })
        );
        assert_eq!(
            insert(&mut pool, 1, 2, 3),
            Err(MempoolError::NonceUsed {
                sender,
                nonce: 2,
                next: 3
            })
        );
        let limit = MEMPOOL_SENDER_MAX;
        assert_eq!(
            insert(&mut pool, 1, 3 + limit as u64, 3),
            Err(MempoolError::NonceTooFar {
                sender,
                nonce: 3 + limit as u64,
                next: 3,
                limit
            })
        );
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn the_pool_and_each_sender_are_bounded() {
        let mut pool = Mempool::default();
        for sender in 0..=u8::MAX {
            for nonce in 0..MEMPOOL_SENDER_MAX as u64 {
                let expected = if pool.len() < MEMPOOL_TRANSACTIONS_MAX {
                    Ok(Admission::New)
                } else {
                    Err(MempoolError::Full {
                        limit: MEMPOOL_TRANSACTIONS_MAX,
                    })
                };
                assert_eq!(insert(&mut pool, sender, nonce, 0), expected);
            }
        }
        assert_eq!(pool.len(), MEMPOOL_TRANSACTIONS_MAX);
        // The final nonce moved on while the old transactions are still here.
        assert_eq!(
            insert(&mut pool, 0, MEMPOOL_SENDER_MAX as u64, 1),
            Err(MempoolError::SenderFull {
                sender: Address::new([0; 20]),
                limit: MEMPOOL_SENDER_MAX
            })
        );
        pool.remove(&Address::new([0; 20]), 0);
        pool.remove(&Address::new([0; 20]), 0);
        assert_eq!(pool.len(), MEMPOOL_TRANSACTIONS_MAX - 1);
        assert_eq!(
            insert(&mut pool, 0, MEMPOOL_SENDER_MAX as u64, 1),
            Ok(Admission::New)
        );
    }

    #[test]
    fn used_and_old_transactions_leave() {
        let mut pool = Mempool::default();
        insert(&mut pool, 1, 0, 0).unwrap();
        insert(&mut pool, 1, 1, 0).unwrap();
        let (id, peer) = transfer(2, 0, 1);
        let late = TimestampMs::new(2_000);
        pool.insert(id, peer, 0, late, Origin::Peer).unwrap();
        assert_eq!(pool.local(9).len(), 2);
        assert_eq!(pool.local(1).len(), 1);
        pool.prune(|_| 1, NOW);
        assert_eq!(taken(&pool, 1, 9), [(1, 1)]);
        assert_eq!(pool.len(), 1);
        let age = u64::try_from(MEMPOOL_AGE_MAX.as_millis()).unwrap();
        pool.prune(|_| 0, TimestampMs::new(1_000 + age));
        assert_eq!(pool.len(), 1);
        pool.prune(|_| 0, TimestampMs::new(1_001 + age));
        assert_eq!(pool.len(), 0);
    }

    proptest! {
        #[test]
        fn candidates_never_skip_a_nonce(
            steps in prop::collection::vec((0u8..4, 0u64..6, 0u64..3), 0..60),
            next in 0u64..4,
        ) {
            let mut pool = Mempool::default();
            for (sender, nonce, pruned) in steps {
                let _ = insert(&mut pool, sender, nonce, 0);
                if pruned == 2 {
                    pool.remove(&Address::new([sender; 20]), nonce / 2);
                }
            }
            let mut expected: BTreeMap<u8, u64> = BTreeMap::new();
            for (sender, nonce) in taken(&pool, next, usize::MAX) {
                let counter = expected.entry(sender).or_insert(next);
                prop_assert_eq!(nonce, *counter);
                *counter += 1;
            }
            let held: usize = pool.senders.values().map(BTreeMap::len).sum();
            prop_assert_eq!(pool.len(), held);
        }
    }
}
