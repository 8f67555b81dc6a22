//! Session keys: their registration, what they have cost, and their revocation.
//!
//! A key is revoked at the place of the revocation in its block: transactions that it signed and that come later are
//! invalid. Leases that it serves continue, signed by the account's own key or another session key.

use tg_types::{
    Address, Amount, NonceLane, SessionScope, TimestampMs, Transaction, VerifiedTransaction,
};

use super::Execution;
use super::check::lease_at_risk;
use crate::error::InvariantError;
use crate::record::{Account, Lease, Session, SessionRisk};

type Done = Result<(), InvariantError>;

impl Execution {
    /// Registers a key. Its nonces begin above all that a key of these bytes used before.
    pub(super) fn register_session(
        &mut self,
        sender: Address,
        key: [u8; 32],
        (scope, cap, expires): (SessionScope, Amount, TimestampMs),
    ) -> Done {
        let charge = self.state.session_charge();
        self.burn_rent(sender, None, charge)?;
        let nonce = Account::first_nonce(self.height);
        let now = self.now;
        self.update_account(sender, |account| {
            account.sessions.retain(|it| !it.is_over(now));
            account.sessions.push(Session {
                key,
                scope,
                cap,
                spent: Amount::ZERO,
                at_risk: Amount::ZERO,
                expires,
                first: nonce,
                nonce,
            });
            account.sessions.sort_unstable_by_key(|it| it.key);
        })
    }

    /// Takes a key back.
    pub(super) fn revoke_session(&mut self, sender: Address, key: &[u8; 32]) -> Done {
        self.update_account(sender, |account| {
            account.sessions.retain(|it| it.key != *key);
        })
    }

    /// Counts a transaction that holds in its lane: its number, and what it costs if a session key signed it. What it locks or pays
    /// beside the fee is `spent`.
    pub(super) fn count_in_lane(
        &mut self,
        transaction: &VerifiedTransaction,
        spent: Amount,
    ) -> Done {
        let NonceLane::Session(sender, key) = *transaction.lane() else {
            let sender = transaction.sender();
            return self.update_account(sender, |account| account.nonce += 1);
        };
        let risk = self.begin_risk(sender, key, transaction.transaction())?;
        self.update_account(sender, |account| {
            if let Some(session) = account.sessions.iter_mut().find(|it| it.key == key) {
                session.nonce += 1;
                session.spent = session.spent.saturating_add(spent);
                session.at_risk = session.at_risk.saturating_add(risk);
            }
        })
    }

    /// Notes that a key answers for the lease that a transaction begins to serve, and the one that did no longer. Gives its collateral.
    fn begin_risk(
        &mut self,
        sender: Address,
        key: [u8; 32],
        transaction: &Transaction,
    ) -> Result<Amount, InvariantError> {
        let account = self.state.account(&sender);
        let Some(session) = account.and_then(|it| it.session(&key)).cloned() else {
            return Ok(Amount::ZERO);
        };
        let found = lease_at_risk(&self.state, (sender, &session), transaction);
        let Some((id, amount)) = found else {
            return Ok(Amount::ZERO);
        };
        if let Some(mut lease) = self.state.lease(&id).cloned() {
            if let Some(before) = lease.session {
                self.update_session(sender, &before, |it| {
                    it.at_risk = it.at_risk.saturating_sub(before.amount);
                })?;
            }
            lease.session = Some(SessionRisk {
                key,
                first: session.first,
                amount,
            });
            self.state.put_lease(lease);
        }
        Ok(amount)
    }

    /// Counts the end of a lease for the session key that served it: its collateral is at risk no longer, and what does not come back of it
    /// counts for good, whatever it was lost for. Stops: a stolen key that loses much by an end that counts little.
    pub(super) fn end_risk(&mut self, lease: &Lease, lost: Amount) -> Done {
        let Some(risk) = lease.session else {
            return Ok(());
        };
        // What challengers and runs had of it before.
        let before = risk.amount.saturating_sub(lease.collateral);
        let lost = lost.saturating_add(before);
        self.update_session(lease.provider, &risk, |session| {
            session.at_risk = session.at_risk.saturating_sub(risk.amount);
            session.spent = session.spent.saturating_add(lost);
        })
    }

    /// Changes a session key, unless it was taken back.
    fn update_session(
        &mut self,
        account: Address,
        risk: &SessionRisk,
        change: impl FnOnce(&mut Session),
    ) -> Done {
        if self.state.account(&account).is_none() {
            return Ok(());
        }
        self.update_account(account, |account| {
            if let Some(session) = account.sessions.iter_mut().find(|it| it.is_one(risk)) {
                change(session);
            }
        })
    }
}
