//! The key that signs votes, and the signature scheme for each set of validators.

use commonware_utils::ordered::Set;

use crate::key::ValidatorKey;
use crate::peers::{Peer, Scheme};

/// What makes the scheme of votes of a set of validators.
#[derive(Debug, Clone)]
pub(crate) struct VoteSigner {
    /// What votes are signed for: purpose and network.
    pub(crate) namespace: Vec<u8>,
    /// The validator's key.
    pub(crate) key: ValidatorKey,
}

impl VoteSigner {
    /// The scheme with which the key signs votes of a set.
    ///
    /// # Panics
    /// If the key is none of the set.
    pub(crate) fn of(&self, participants: &Set<Peer>) -> Scheme {
        let key = self.key.private().clone();
        Scheme::signer(&self.namespace, participants.clone(), key)
            .expect("the key is one of the set: else the validator has stopped")
    }

    /// The same without the key: it checks votes and signs none.
    pub(crate) fn watcher(&self, participants: &Set<Peer>) -> Scheme {
        Scheme::verifier(&self.namespace, participants.clone())
    }
}
