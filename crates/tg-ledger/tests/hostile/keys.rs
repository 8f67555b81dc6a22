//! Keys of sealed jobs: what a requestor grants and shows, and what is true about it. Simulated: nothing is encrypted.

use tg_ledger::{GrantTask, Lease, Outcome, SealingStage, SyncStage};
use tg_types::sealing::{KEY_GRANT_BYTES, SEALING_KEY_BYTES};
use tg_types::{KeyGrant, Label, LeaseId, SealingPublicKey, Transaction};

/// The secret that opens every sealed input.
const SECRET: [u8; 32] = [0x43; 32];

/// The bytes of a grant that gives it to whom it is for.
const RIGHT: u8 = 0x42;

/// Registers a sealing key.
pub(crate) fn register() -> Transaction {
    let key = SealingPublicKey::new(&[1; SEALING_KEY_BYTES]).unwrap();
    Transaction::RegisterSealingKey { key }
}

/// Grants the key, or what opens nothing.
pub(crate) fn grant(lease: LeaseId, is_right: bool) -> Transaction {
    let byte = if is_right { RIGHT } else { 0 };
    let grant = KeyGrant::new([byte; KEY_GRANT_BYTES]);
    Transaction::GrantKey { lease, grant }
}

/// Shows the key, or another one.
pub(crate) const fn show(lease: LeaseId, is_right: bool) -> Transaction {
    let key = if is_right { SECRET } else { [0; 32] };
    Transaction::RevealKey { lease, key }
}

/// Whether what was granted opens the input.
pub(crate) fn opens(grant: &KeyGrant) -> bool {
    grant.as_bytes()[0] == RIGHT
}

/// Whether this is the key.
pub(crate) fn is_key(secret: &[u8; 32]) -> bool {
    *secret == SECRET
}

/// What validators find out about a key that was shown.
pub(crate) fn judge(task: &GrantTask) -> Outcome {
    match opens(&task.grant) && is_key(&task.revealed.secret) {
        true => Outcome::Refuted,
        false => Outcome::Rejected {
            code: 9,
            check: Label::lossy("the key that was shown"),
        },
    }
}

/// What a lease of a sealed job waits for from its requestor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The key.
    Grant,
    /// That the key is shown, as its provider says that it opens nothing.
    Proof,
    /// A look at the answer.
    Look,
}

impl Awaited {
    /// What a lease waits for now.
    pub(crate) fn of(lease: &Lease) -> Option<Self> {
        let check = lease.check.as_ref().map(|it| &it.stage);
        match (&lease.sealing.as_ref()?.stage, check) {
            (SealingStage::AwaitsKey, _) => Some(Self::Grant),
            (SealingStage::Questioned { .. }, _) => Some(Self::Proof),
            (_, Some(SyncStage::Contestable { .. })) => Some(Self::Look),
            _ => None,
        }
    }
}
