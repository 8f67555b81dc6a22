//! Checks of session keys: whether one may sign a transaction, and whether one may be registered or revoked.

use tg_types::session::is_session_key;
use tg_types::{
    Address, Amount, LeaseId, SessionScope, TimestampMs, Transaction, VerifiedTransaction,
};

use super::outcome::{Check, Spent};
use crate::error::TransactionError;
use crate::limits::{SESSION_TIME_MAX, SESSIONS_PER_ACCOUNT_MAX};
use crate::record::{Account, Job, Session};
use crate::rent::{RentCategory, SESSION_BYTES};
use crate::state::State;

/// The session of a key, if it may sign a transaction now.
pub(super) fn check_session<'a>(
    account: &'a Account,
    key: &[u8; 32],
    now: TimestampMs,
    transaction: &Transaction,
) -> Result<&'a Session, TransactionError> {
    let session = account.session(key);
    let session = session.ok_or(TransactionError::NoSession { key: *key })?;
    if session.expires < now {
        return Err(TransactionError::SessionExpired {
            expires: session.expires,
            now,
        });
    }
    // Stops: a stolen key that moves money, makes keys, votes, or serves where it should order.
    let kind = transaction.kind();
    if kind.session_scope() != Some(session.scope) {
        return Err(TransactionError::NotOfSession {
            kind,
            scope: session.scope,
        });
    }
    Ok(session)
}

/// What a transaction of a session key counts against its cap for good: its fee and what it locks or pays. The collateral of a lease
/// that it begins to serve must fit beside it.
pub(super) fn check_cap(
    state: &State,
    session: &Session,
    transaction: &VerifiedTransaction,
    spent: Amount,
) -> Check {
    let sender = transaction.sender();
    check_own(state, session, transaction)?;
    let risk = lease_at_risk(state, (sender, session), transaction.transaction());
    let needed = spent.saturating_add(risk.map_or(Amount::ZERO, |(_, collateral)| collateral));
    let left = session.left();
    match needed > left {
        true => Err(TransactionError::OverSessionCap { needed, left }),
        false => Ok(()),
    }
}

/// What costs the account something that no cap counts is signed by its own key, or by the one that ordered what it is about.
/// Stops: a stolen key that accuses in the account's place and shows nothing, so that its bond or fee is lost, or takes back what others ordered;
/// that grants a key which opens nothing, so that a sealed job ends, or shows one, so that its wrong answer is paid; that rates for others.
fn check_own(state: &State, session: &Session, transaction: &VerifiedTransaction) -> Check {
    let is_of = |job: Option<&Job>| job.is_none_or(|it| it.session == Some(session.key));
    let is_own = match transaction.transaction() {
        Transaction::ArgueResult { lease, .. } => {
            let lease = state.lease(lease);
            lease.is_none_or(|it| it.provider == transaction.sender())
        }
        Transaction::CancelJob { job } | Transaction::RateJob { job, .. } => is_of(state.job(job)),
        Transaction::GrantKey { lease, .. } | Transaction::RevealKey { lease, .. } => {
            is_of(state.lease(lease).and_then(|it| state.job(&it.job)))
        }
        _ => true,
    };
    match is_own {
        true => Ok(()),
        false => Err(TransactionError::NotOfSession {
            kind: transaction.transaction().kind(),
            scope: session.scope,
        }),
    }
}

/// The lease that a transaction begins to serve for a session key of the sender, with its collateral; nothing if it serves none of the sender's, or
/// the key answers for it already. One for which another key answers becomes this one's.
pub(crate) fn lease_at_risk(
    state: &State,
    (sender, session): (Address, &Session),
    transaction: &Transaction,
) -> Option<(LeaseId, Amount)> {
    let (Transaction::StartLease { lease: id }
    | Transaction::DeclineLease { lease: id, .. }
    | Transaction::CommitReceipt { lease: id, .. }
    | Transaction::CommitPart { lease: id, .. }
    | Transaction::SealResult { lease: id, .. }
    | Transaction::OpenResult { lease: id, .. }
    | Transaction::SubmitEvidence { lease: id, .. }
    | Transaction::ArgueResult { lease: id, .. }
    | Transaction::SettleEndpoint { lease: id, .. }) = transaction
    else {
        return None;
    };
    let lease = state.lease(id)?;
    let is_known = lease.session.is_some_and(|it| session.is_one(&it));
    let is_new = lease.provider == sender && !is_known && lease.end().is_none();
    is_new.then_some((lease.id, lease.collateral))
}

/// Whether an account may register a key.
pub(super) fn check_register(
    state: &State,
    now: TimestampMs,
    account: &Account,
    (key, expires): (&[u8; 32], TimestampMs),
) -> Spent {
    // Stops: a key for which anybody signs.
    if !is_session_key(key) {
        return Err(TransactionError::BadSessionKey { key: *key });
    }
    if account.session(key).is_some() {
        return Err(TransactionError::SessionExists { key: *key });
    }
    let live = account.sessions.iter().filter(|it| !it.is_over(now));
    if live.count() >= SESSIONS_PER_ACCOUNT_MAX {
        return Err(TransactionError::TooManySessions {
            limit: SESSIONS_PER_ACCOUNT_MAX,
        });
    }
    let latest = now.saturating_add(SESSION_TIME_MAX);
    if expires <= now || expires > latest {
        return Err(TransactionError::BadSessionTime {
            expires,
            now,
            latest,
        });
    }
    Ok(state.session_charge())
}

/// Whether an account has a key.
pub(super) fn check_revoke(account: &Account, key: &[u8; 32]) -> Check {
    match account.session(key) {
        Some(_) => Ok(()),
        None => Err(TransactionError::NoSession { key: *key }),
    }
}

impl State {
    /// What is burned for a session key: the rent of its bytes for thirty days, which is as long as it may sign.
    #[must_use]
    pub fn session_charge(&self) -> Amount {
        self.charge(RentCategory::Accounts, SESSION_BYTES).entry
    }
}

const _: () = assert!(SessionScope::ALL.len() == 2, "each scope has kinds");
