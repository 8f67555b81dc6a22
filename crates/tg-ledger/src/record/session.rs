//! Session keys of an account: what each may sign, and what it has cost so far.

use tg_types::{Amount, SessionScope, TimestampMs, fields};

/// A session key that an account registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The public key.
    pub key: [u8; 32],
    /// What it may sign.
    pub scope: SessionScope,
    /// What it may cost in all.
    pub cap: Amount,
    /// What it has cost: fees, what its orders locked, deposits, and what was lost of collateral. It never falls.
    pub spent: Amount,
    /// Collateral of the leases that it serves.
    pub at_risk: Amount,
    /// The last ledger time at which it signs.
    pub expires: TimestampMs,
    /// The nonce of its first transaction: which of several registrations of one key it is.
    pub first: u64,
    /// The nonce of its next transaction.
    pub nonce: u64,
}

fields! { Session { key, scope, cap, spent, at_risk, expires, first, nonce } }

/// The session key that answers for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRisk {
    /// The key.
    pub key: [u8; 32],
    /// [`Session::first`] of it.
    pub first: u64,
    /// What is counted with it: the collateral when it began to serve.
    pub amount: Amount,
}

fields! { SessionRisk { key, first, amount } }

impl Session {
    /// Bytes of its encoding.
    pub(crate) const BYTES: usize = 32 + 1 + 3 * 16 + 3 * 8;

    /// Whether it is what answers for a lease.
    pub(crate) fn is_one(&self, risk: &SessionRisk) -> bool {
        self.key == risk.key && self.first == risk.first
    }

    /// What it may still cost.
    #[must_use]
    pub const fn left(&self) -> Amount {
        let used = self.spent.saturating_add(self.at_risk);
        self.cap.saturating_sub(used)
    }

    /// Whether nothing refers to it any more: it signs no longer, and none of its leases lasts.
    pub(crate) const fn is_over(&self, now: TimestampMs) -> bool {
        self.expires.get() < now.get() && self.at_risk.is_zero()
    }
}
