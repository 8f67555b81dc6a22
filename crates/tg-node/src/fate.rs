//! What became of transactions: a bounded memory of those that were taken and of those in final blocks, so that nobody
//! has to guess why an account's transaction is in no block.

use std::collections::{BTreeMap, VecDeque};

use tg_types::{Address, SignedTransaction, TransactionId};

/// Transactions whose end is remembered: a minute of full blocks, and more than wait in the pool. About 10 MB.
const REMEMBERED_MAX: usize = 32_768;

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It waits for a block.
    Pending,
    /// It is in the final block of this height.
    Final(u64),
    /// It left the pool without a block, and why.
    Dropped(String),
}

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    fates: BTreeMap<TransactionId, Fate>,
    order: VecDeque<TransactionId>,
    waiting: BTreeMap<(Address, u64), TransactionId>,
}

impl Fates {
    /// What became of a transaction, if it is remembered.
    pub(crate) fn get(&self, id: &TransactionId) -> Option<Fate> {
        self.fates.get(id).cloned()
    }

    /// A transaction was taken into the pool.
    pub(crate) fn taken(&mut self, id: TransactionId, sender: Address, nonce: u64) {
        if let Some(replaced) = self.waiting.insert((sender, nonce), id)
            && replaced != id
        {
            let reason = format!("{id} took its place");
            self.remember(replaced, Fate::Dropped(reason));
        }
        self.remember(id, Fate::Pending);
    }

    /// A transaction is in a final block.
    pub(crate) fn is_final(&mut self, id: TransactionId, signed: &SignedTransaction, height: u64) {
        let (sender, nonce) = (signed.sender, signed.nonce);
        if let Some(waited) = self.waiting.remove(&(sender, nonce))
            && waited != id
        {
            let reason = format!("nonce {nonce} was used by {id} in block {height}");
            self.remember(waited, Fate::Dropped(reason));
        }
        self.remember(id, Fate::Final(height));
    }

    /// A transaction left the pool.
    pub(crate) fn dropped(&mut self, sender: Address, nonce: u64, reason: impl FnOnce() -> String) {
        if let Some(id) = self.waiting.remove(&(sender, nonce)) {
            self.remember(id, Fate::Dropped(reason()));
        }
    }

    /// Finds those that left the pool without a word, given how many wait there and which.
    pub(crate) fn compare(&mut self, pool: usize, waits: impl Fn(&Address, u64) -> bool) {
        if self.waiting.len() <= pool {
            return;
        }
        let gone: Vec<(Address, u64)> = self
            .waiting
            .keys()
            .filter(|(sender, nonce)| !waits(sender, *nonce))
            .copied()
            .collect();
        for (sender, nonce) in gone {
            self.dropped(sender, nonce, || {
                "it waited too long, or transactions that pay more took its place".to_owned()
            });
        }
    }

    fn remember(&mut self, id: TransactionId, fate: Fate) {
        if self.fates.insert(id, fate).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.fates.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tg_types::{Amount, Signature, Transaction};

    use super::*;

    const ALICE: Address = Address::new([1; 20]);

    fn id(number: u64) -> TransactionId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        TransactionId::new(bytes)
    }

    fn signed(nonce: u64) -> SignedTransaction {
        SignedTransaction {
            transaction: Transaction::Transfer {
                to: ALICE,
                amount: Amount::ZERO,
            },
            nonce,
            sender: ALICE,
            signature: Signature {
                r: [1; 32],
                s: [1; 32],
                y_parity: 0,
            },
        }
    }

    #[test]
    fn every_transaction_that_was_taken_has_an_end() {
        let mut fates = Fates::default();
        for nonce in 0..4 {
            fates.taken(id(nonce), ALICE, nonce);
        }
        assert_eq!(fates.get(&id(0)), Some(Fate::Pending));
        fates.is_final(id(0), &signed(0), 7);
        assert_eq!(fates.get(&id(0)), Some(Fate::Final(7)));
        // Another transaction with its nonce is in a block.
        fates.is_final(id(9), &signed(1), 8);
        assert!(matches!(fates.get(&id(1)), Some(Fate::Dropped(why)) if why.contains("block 8")));
        fates.dropped(ALICE, 2, || "no money".to_owned());
        assert_eq!(
            fates.get(&id(2)),
            Some(Fate::Dropped("no money".to_owned()))
        );
        fates.compare(1, |_, _| false);
        assert_eq!(fates.get(&id(3)), Some(Fate::Pending));
        fates.compare(0, |_, _| false);
        assert!(matches!(fates.get(&id(3)), Some(Fate::Dropped(_))));
        assert_eq!(fates.get(&id(100)), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut fates = Fates::default();
        let count = REMEMBERED_MAX as u64 + 5;
        for number in 0..count {
            fates.is_final(id(number), &signed(number), number);
        }
        assert_eq!(fates.fates.len(), REMEMBERED_MAX);
        assert_eq!(fates.get(&id(4)), None);
        assert_eq!(fates.get(&id(5)), Some(Fate::Final(5)));
    }
}
