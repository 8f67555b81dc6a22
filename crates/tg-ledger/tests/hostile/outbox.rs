//! What the actors sign in one block.

use std::collections::BTreeMap;

use tg_ledger::State;
use tg_types::{Address, Fees, SignedTransaction, Transaction, TransactionId, Wallet};

/// Signed transactions for the next block, with each account's nonces in order.
#[derive(Debug)]
pub(crate) struct Outbox<'a> {
    pub(crate) state: &'a State,
    sent: BTreeMap<Address, u64>,
    /// By sender, in the order of nonces.
    all: BTreeMap<Address, Vec<SignedTransaction>>,
}

impl<'a> Outbox<'a> {
    pub(crate) const fn new(state: &'a State) -> Self {
        Self {
            state,
            sent: BTreeMap::new(),
            all: BTreeMap::new(),
        }
    }

    /// Signs with the account's next nonce, at the fees that wallets offer.
    pub(crate) fn send(&mut self, wallet: &Wallet, transaction: Transaction) {
        self.send_for(
            wallet,
            transaction,
            Fees::from_base_fee(self.state.base_fee()),
        );
    }

    pub(crate) fn send_for(&mut self, wallet: &Wallet, transaction: Transaction, fees: Fees) {
        let sender = wallet.address();
        let sent = self.sent.entry(sender).or_default();
        let nonce = self.state.nonce(&sender) + *sent;
        *sent += 1;
        let signed = wallet.sign_with_fees(transaction, nonce, fees, self.state.domain());
        self.all.entry(sender).or_default().push(signed);
    }

    /// As [`Self::send`], with the name of what was sent.
    pub(crate) fn send_named(
        &mut self,
        wallet: &Wallet,
        transaction: Transaction,
    ) -> TransactionId {
        self.send(wallet, transaction);
        let sent = self.all.get(&wallet.address()).and_then(|it| it.last());
        sent.expect("it was just sent").id(self.state.domain())
    }

    /// All of it, by sender.
    pub(crate) fn into_senders(self) -> Vec<Vec<SignedTransaction>> {
        self.all.into_values().collect()
    }
}
