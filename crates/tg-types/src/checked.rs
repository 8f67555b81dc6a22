//! A cache of verified signatures. A node meets a transaction when it arrives, while it waits and in a block; with this
//! cache it recovers the signer only once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::id::Address;
use crate::session::Authorization;

/// Sender, digest and signature: the whole input of a check, so that no hash collision matters.
type Key = (Address, [u8; 32], Authorization);

/// The signatures that one node has verified.
///
/// An entry is the whole input of a check that succeeded, so a signature that is found here is valid whoever inserted it. Invalid
/// signatures are not stored. With capacity `n` the latest `n` to `2 n` are kept, at 149 bytes each.
#[derive(Debug)]
pub struct CheckedSignatures {
    room: usize,
    kept: Mutex<Kept>,
}

/// The last ones, and those before.
#[derive(Debug)]
struct Kept {
    young: BTreeSet<Key>,
    old: BTreeSet<Key>,
}

impl CheckedSignatures {
    /// None yet, and room for `room`.
    #[must_use]
    pub const fn new(room: usize) -> Self {
        Self {
            room,
            kept: Mutex::new(Kept {
                young: BTreeSet::new(),
                old: BTreeSet::new(),
            }),
        }
    }

    /// Without room: every signature is looked at.
    #[must_use]
    pub const fn none() -> Self {
        Self::new(0)
    }

    /// How many are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.young.len() + kept.old.len()
    }

    /// Whether this signature was checked and held.
    pub(crate) fn has(
        &self,
        sender: Address,
        digest: &[u8; 32],
        authorization: Authorization,
    ) -> bool {
        if self.room == 0 {
            return false;
        }
        let key = (sender, *digest, authorization);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.young.contains(&key) || kept.old.contains(&key)
    }

    /// Keeps a signature that was checked and held.
    pub(crate) fn keep(&self, sender: Address, digest: &[u8; 32], authorization: Authorization) {
        if self.room == 0 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.young.len() >= self.room {
            kept.old = std::mem::take(&mut kept.young);
        }
        kept.young.insert((sender, *digest, authorization));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionSignature;

    fn signature(number: u8) -> Authorization {
        Authorization::Session(SessionSignature {
            key: [number; 32],
            signature: [1; 64],
        })
    }

    #[test]
    fn the_last_ones_are_kept_and_no_more_than_twice_the_room() {
        let checked = CheckedSignatures::new(4);
        let sender = Address::new([7; 20]);
        for number in 0..20 {
            checked.keep(sender, &[2; 32], signature(number));
            assert!(checked.has(sender, &[2; 32], signature(number)));
            assert!(checked.count() <= 8);
        }
        assert!(checked.has(sender, &[2; 32], signature(16)));
        assert!(!checked.has(sender, &[2; 32], signature(8)));
    }

    #[test]
    fn another_sender_digest_or_signature_is_another_one() {
        let checked = CheckedSignatures::new(4);
        let sender = Address::new([7; 20]);
        checked.keep(sender, &[2; 32], signature(1));
        assert!(!checked.has(Address::new([8; 20]), &[2; 32], signature(1)));
        assert!(!checked.has(sender, &[3; 32], signature(1)));
        assert!(!checked.has(sender, &[2; 32], signature(2)));
        let odd = Authorization::Session(SessionSignature {
            key: [1; 32],
            signature: [2; 64],
        });
        assert!(!checked.has(sender, &[2; 32], odd));
        let none = CheckedSignatures::none();
        none.keep(sender, &[2; 32], signature(1));
        assert!(!none.has(sender, &[2; 32], signature(1)));
    }
}
