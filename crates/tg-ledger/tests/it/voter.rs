//! Votes of consensus, signed with a key that the test knows.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest as _, Sha512};
use tg_types::chain::{SignedVote, VoteKind, seat_possession};
use tg_types::{Address, BlockId, Domain};

/// A validator whose key the test knows: ed25519 by RFC 8032, section 5.1.6.
#[derive(Debug)]
pub(crate) struct Voter {
    secret: Scalar,
    prefix: [u8; 32],
    pub(crate) public: [u8; 32],
}

impl Voter {
    pub(crate) fn new(seed: u8) -> Self {
        let hash: [u8; 64] = Sha512::digest([seed; 32]).into();
        let mut secret: [u8; 32] = hash[..32].try_into().unwrap();
        secret[0] &= 248;
        secret[31] &= 127;
        secret[31] |= 64;
        let secret = Scalar::from_bytes_mod_order(secret);
        Self {
            secret,
            prefix: hash[32..].try_into().unwrap(),
            public: EdwardsPoint::mul_base(&secret).compress().to_bytes(),
        }
    }

    fn sign(&self, message: &[u8]) -> [u8; 64] {
        let hash = |parts: &[&[u8]]| {
            let mut hasher = Sha512::new();
            parts.iter().for_each(|part| hasher.update(part));
            Scalar::from_bytes_mod_order_wide(&hasher.finalize().into())
        };
        let nonce = hash(&[&self.prefix, message]);
        let r = EdwardsPoint::mul_base(&nonce).compress().to_bytes();
        let k = hash(&[&r, &self.public, message]);
        let s = nonce + k * self.secret;
        [r, s.to_bytes()].concat().try_into().unwrap()
    }

    /// That the key belongs to an account, for a seat in the network of a genesis.
    pub(crate) fn possession(&self, genesis: &BlockId, account: &Address) -> [u8; 64] {
        self.sign(&seat_possession(genesis, account))
    }

    /// A vote of epoch 1 in the network of a genesis. The numbers are below 128, so each is one byte.
    pub(crate) fn vote(
        &self,
        genesis: &BlockId,
        kind: VoteKind,
        view: u8,
        block: u8,
    ) -> SignedVote {
        let suffix: &[u8] = match kind {
            VoteKind::Notarize => b"_NOTARIZE",
            VoteKind::Nullify => b"_NULLIFY",
            VoteKind::Finalize => b"_FINALIZE",
        };
        let purpose = Domain::Vote.as_str().as_bytes();
        let namespace = [purpose, genesis.as_bytes(), suffix].concat();
        let mut message = vec![u8::try_from(namespace.len()).unwrap()];
        message.extend(namespace);
        message.extend([1, view]);
        let names_block = kind != VoteKind::Nullify;
        let block = BlockId::new([block; 32]);
        if names_block {
            message.push(view - 1);
            message.extend(block.as_bytes());
        }
        SignedVote {
            kind,
            epoch: 1,
            view: u64::from(view),
            parent_view: if names_block { u64::from(view) - 1 } else { 0 },
            block: if names_block {
                block
            } else {
                BlockId::default()
            },
            signature: self.sign(&message),
        }
    }
}
