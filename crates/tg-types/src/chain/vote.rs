//! Votes of seats: what is signed, and how a signature is checked.

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;
use sha2::{Digest as _, Sha512};

use crate::{BlockId, Domain, fields, tags};

/// What a vote says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum VoteKind {
    /// The block is valid.
    Notarize = 0,
    /// The view is skipped.
    Nullify = 1,
    /// The block is final.
    Finalize = 2,
}

tags! { VoteKind: "kind of vote" { Notarize = 0, Nullify = 1, Finalize = 2 } }

impl VoteKind {
    const fn suffix(self) -> &'static [u8] {
        match self {
            Self::Notarize => b"_NOTARIZE",
            Self::Nullify => b"_NULLIFY",
            Self::Finalize => b"_FINALIZE",
        }
    }
}

/// A vote with its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedVote {
    /// What it says.
    pub kind: VoteKind,
    /// The consensus epoch.
    pub epoch: u64,
    /// The view.
    pub view: u64,
    /// The view of the block's parent; 0 of a nullify.
    pub parent_view: u64,
    /// The block; zeros of a nullify.
    pub block: BlockId,
    /// The seat's signature.
    pub signature: [u8; 64],
}

fields! { SignedVote { kind, epoch, view, parent_view, block, signature } }

impl SignedVote {
    /// Whether no honest seat signs both, in either order: two blocks of one view, each to be valid or each to be final, or a block that is
    /// final in a view that is skipped. Signatures are not looked at.
    ///
    /// A seat of commonware's simplex may skip the view of a block that it held for valid, and may finalise another block of
    /// the view than that one, once a quorum held it for valid. It does not finalise in a view that it voted to skip, nor vote to skip
    /// one in which it finalised.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        if (self.epoch, self.view) != (other.epoch, other.view) {
            return false;
        }
        match (self.kind, other.kind) {
            (VoteKind::Notarize, VoteKind::Notarize) | (VoteKind::Finalize, VoteKind::Finalize) => {
                (self.parent_view, self.block) != (other.parent_view, other.block)
            }
            (VoteKind::Nullify, VoteKind::Finalize) | (VoteKind::Finalize, VoteKind::Nullify) => {
                true
            }
            (VoteKind::Nullify, VoteKind::Nullify)
            | (VoteKind::Notarize, VoteKind::Nullify | VoteKind::Finalize)
            | (VoteKind::Nullify | VoteKind::Finalize, VoteKind::Notarize) => false,
        }
    }
}

/// What a seat signs for a vote in the network of a genesis; the vote's signature is no part of it.
pub(super) fn signed_vote(genesis: &BlockId, vote: &SignedVote) -> Vec<u8> {
    let purpose = Domain::Vote.as_str().as_bytes();
    let namespace = [purpose, genesis.as_bytes(), vote.kind.suffix()].concat();
    let mut bytes = Vec::new();
    write_number(namespace.len() as u64, &mut bytes);
    bytes.extend(namespace);
    write_number(vote.epoch, &mut bytes);
    write_number(vote.view, &mut bytes);
    if vote.kind != VoteKind::Nullify {
        write_number(vote.parent_view, &mut bytes);
        bytes.extend(vote.block.as_bytes());
    }
    bytes
}

pub(super) fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Whether an ed25519 signature holds under ZIP 215: s is below the group's order, key and R are points in any encoding, and
/// `[8] (s B - k A - R)` is zero for `k = SHA-512(R, A, message)`.
pub(crate) fn is_signature(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> bool {
    let (first, second) = signature.split_at(32);
    let point = |bytes: &[u8]| CompressedEdwardsY::from_slice(bytes).ok()?.decompress();
    let Some(s) = <[u8; 32]>::try_from(second)
        .ok()
        .and_then(|bytes| Option::<Scalar>::from(Scalar::from_canonical_bytes(bytes)))
    else {
        return false;
    };
    let (Some(key_point), Some(r)) = (point(key), point(first)) else {
        return false;
    };
    let mut hash = Sha512::new();
    hash.update(first);
    hash.update(key);
    hash.update(message);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-key_point, &s);
    (expected - r).mul_by_cofactor().is_identity()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The twelve cases of "Taming the many EdDSAs" (IACR ePrint 2020/1244), `cases.txt` of its authors' repository.
    const SPECCHECK: &str = include_str!("../../tests/data/speccheck.txt");

    fn bytes(text: &str) -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// RFC 8032, section 7.1, tests 1 to 3.
    #[test]
    fn signatures_of_the_standard_hold() {
        for [key, message, signature] in [
            [
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ],
            [
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ],
            [
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ],
        ] {
            let key = <[u8; 32]>::try_from(bytes(key)).unwrap();
            let mut signature = <[u8; 64]>::try_from(bytes(signature)).unwrap();
            assert!(is_signature(&key, &signature, &bytes(message)));
            assert!(!is_signature(&key, &signature, b"another message"));
            signature[40] ^= 1;
            assert!(!is_signature(&key, &signature, &bytes(message)));
        }
    }

    /// A key and R of small order, with s = 0: ZIP 215 takes them with and without a canonical encoding (its own test cases).
    #[test]
    fn points_of_small_order_count_as_zip_215_says() {
        let mut identity = [0; 32];
        identity[0] = 1;
        let mut again = [0xff; 32];
        (again[0], again[31]) = (0xee, 0x7f);
        for key in [identity, again] {
            for r in [identity, again] {
                let mut signature = [0; 64];
                signature[..32].copy_from_slice(&r);
                assert!(is_signature(&key, &signature, b"Zcash"));
                // s = the group's order is zero too, but no canonical number.
                signature[32..].copy_from_slice(&[
                    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde,
                    0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
                ]);
                assert!(!is_signature(&key, &signature, b"Zcash"));
            }
        }
    }

    /// Which of the twelve hold is the line of Zebra, which follows ZIP 215, in the results that the authors published: 4 and 5 hold
    /// because of the cofactor alone, 8 and 9 differ in whether k is of R as it is encoded.
    #[test]
    fn signatures_with_torsion_count_as_zip_215_says() {
        let holds = [
            true, true, true, true, true, true, false, false, false, true, true, true,
        ];
        let field = |name: &str| -> Vec<Vec<u8>> {
            let lines = SPECCHECK.lines();
            let values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            values.map(bytes).collect()
        };
        let (messages, keys, signatures) = (field("msg"), field("pbk"), field("sig"));
        assert_eq!(messages.len(), holds.len());
        for (case, holds) in holds.into_iter().enumerate() {
            let key = <[u8; 32]>::try_from(keys[case].as_slice()).unwrap();
            let signature = <[u8; 64]>::try_from(signatures[case].as_slice()).unwrap();
            let got = is_signature(&key, &signature, &messages[case]);
            assert_eq!(got, holds, "case {case}");
        }
    }
}
