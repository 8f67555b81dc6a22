//! Vouchers: a signed request to an endpoint, with what the requestor owes for the answers so far. Who signs them is described
//! in [`endpoint`](crate::endpoint).

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::fields;
use crate::id::LeaseId;
use crate::signature::Signature;
use crate::signed_struct::signed_struct;

signed_struct! {
    /// What is owed for the answers of a lease so far, all of them together, and what is asked next. A later voucher takes the
    /// place of an earlier one, so that only the last has to be claimed. It says nothing about time, which the ledger counts by
    /// itself.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    Voucher [] {
        /// The lease.
        lease: LeaseId => "bytes32 lease",
        /// How many requests were answered, by the requestor's count: shown, and not paid by.
        answered: u64 => "uint64 answered",
        /// What is owed for them.
        amount: Amount => "uint128 amount",
        /// [`asked_digest`] of the request that it comes with; zero if it comes with none.
        asks: Digest => "bytes32 asks",
    }
}

impl Voucher {
    /// That nothing is owed and nothing asked: what a lease begins with.
    #[must_use]
    pub const fn first(lease: LeaseId) -> Self {
        Self {
            lease,
            answered: 0,
            amount: Amount::ZERO,
            asks: Digest::new([0; 32]),
        }
    }

    /// The voucher after one more answer for `price`; `None` if the sum cannot be written.
    #[must_use]
    pub fn after(&self, price: Amount) -> Option<Self> {
        Some(Self {
            answered: self.answered.checked_add(1)?,
            amount: self.amount.checked_add(price)?,
            ..*self
        })
    }

    /// Whether it takes the place of one that said `amount`: it says more. How many requests were answered is not compared, since the
    /// ledger pays by the amount alone. Whoever takes a voucher as payment asks this, and nothing else.
    ///
    /// ```
    /// use tg_types::{Amount, LeaseId, Voucher};
    ///
    /// let voucher = Voucher { amount: Amount::new(5), ..Voucher::first(LeaseId::new([1; 32])) };
    /// assert!(voucher.is_later_than(Amount::new(4)));
    /// assert!(!voucher.is_later_than(Amount::new(5)));
    /// ```
    #[must_use]
    pub const fn is_later_than(&self, amount: Amount) -> bool {
        self.amount.get() > amount.get()
    }

    /// The same, with a request.
    #[must_use]
    pub const fn asking(self, asks: Digest) -> Self {
        Self { asks, ..self }
    }
}

/// A voucher as it travels: 153 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedVoucher {
    /// What is owed.
    pub voucher: Voucher,
    /// The requestor's signature.
    pub signature: Signature,
}

fields! { SignedVoucher { voucher, signature } }
