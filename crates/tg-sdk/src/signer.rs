//! Who signs transactions: an account's own key, or a session key of it.

use tg_types::{
    Address, ChainDomain, Fees, NonceLane, SessionWallet, SignedTransaction, Transaction, Wallet,
};

/// A key that signs for an account.
#[derive(Debug, Clone, Copy)]
pub enum Signer<'a> {
    /// The account's own, which may sign everything.
    Account(&'a Wallet),
    /// A session key, which may sign what its scope says, up to its cap ([`tg_types::session`]).
    Session(&'a SessionWallet),
}

impl Signer<'_> {
    /// The account.
    #[must_use]
    pub const fn account(&self) -> Address {
        match self {
            Self::Account(wallet) => wallet.address(),
            Self::Session(wallet) => wallet.account(),
        }
    }

    /// Whose next number its transactions have.
    #[must_use]
    pub const fn lane(&self) -> NonceLane {
        match self {
            Self::Account(wallet) => NonceLane::Account(wallet.address()),
            Self::Session(wallet) => wallet.lane(),
        }
    }

    /// Signs a transaction for one network.
    #[must_use]
    pub fn sign_with_fees(
        &self,
        transaction: Transaction,
        nonce: u64,
        fees: Fees,
        domain: &ChainDomain,
    ) -> SignedTransaction {
        match self {
            Self::Account(wallet) => wallet.sign_with_fees(transaction, nonce, fees, domain),
            Self::Session(wallet) => wallet.sign_with_fees(transaction, nonce, fees, domain),
        }
    }
}

impl<'a> From<&'a Wallet> for Signer<'a> {
    fn from(wallet: &'a Wallet) -> Self {
        Self::Account(wallet)
    }
}

impl<'a> From<&'a SessionWallet> for Signer<'a> {
    fn from(wallet: &'a SessionWallet) -> Self {
        Self::Session(wallet)
    }
}

/// An account's own key, and a session key of it of scope `order`, if there is one, that signs orders in its place.
#[derive(Debug, Clone, Copy)]
pub struct AccountKeys<'a> {
    /// The account's own.
    pub wallet: &'a Wallet,
    /// What signs orders, what changes them, and what takes them back.
    pub session: Option<&'a SessionWallet>,
}

impl<'a> From<&'a Wallet> for AccountKeys<'a> {
    fn from(wallet: &'a Wallet) -> Self {
        Self {
            wallet,
            session: None,
        }
    }
}
