//! Seats whose keys the tests know, and the certificates that they sign.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest as _, Sha512};
use tg_types::chain::{TrustRoot, VoteKind};
use tg_types::{BlockId, Domain};

/// A seat: ed25519 by RFC 8032, section 5.1.6.
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
}

/// A certificate of the set of `root` for a block, signed by those of its seats whose keys are in `voters`: epoch 1, view 2.
pub(crate) fn certificate(root: &TrustRoot, voters: &[Voter], block: BlockId) -> Vec<u8> {
    certificate_of(root, voters, (VoteKind::Finalize, 2, block))
}

/// A certificate of a kind, likewise, of epoch 1 and a view above 0; the block of a nullification is left out.
pub(crate) fn certificate_of(
    root: &TrustRoot,
    voters: &[Voter],
    (kind, view, block): (VoteKind, u8, BlockId),
) -> Vec<u8> {
    let (suffix, names_block): (&[u8], bool) = match kind {
        VoteKind::Notarize => (b"_NOTARIZE", true),
        VoteKind::Nullify => (b"_NULLIFY", false),
        VoteKind::Finalize => (b"_FINALIZE", true),
    };
    let mut subject = vec![1, view];
    if names_block {
        subject.push(view - 1);
        subject.extend(block.as_bytes());
    }
    let genesis = root.genesis();
    let purpose = Domain::Vote.as_str().as_bytes();
    let namespace = [purpose, genesis.as_bytes(), suffix].concat();
    let message = [
        [u8::try_from(namespace.len()).unwrap()].as_slice(),
        &namespace,
        &subject,
    ]
    .concat();
    let (mut bits, mut signatures) = (vec![0; root.seats().len().div_ceil(8)], Vec::new());
    for (seat, key) in root.seats().iter().enumerate() {
        if let Some(voter) = voters.iter().find(|voter| voter.public == *key) {
            bits[seat / 8] |= 1 << (seat % 8);
            signatures.push(voter.sign(&message));
        }
    }
    let mut bytes = subject;
    bytes.extend((root.seats().len() as u64).to_be_bytes());
    bytes.extend(bits);
    bytes.push(u8::try_from(signatures.len()).unwrap());
    bytes.extend(signatures.concat());
    bytes
}
