//! Keys of sealed jobs in the ledger: the public key with which a provider receives keys, and the grants of keys.
//!
//! What is sealed with them, and how, is defined in `tg_privacy::job`; who may reveal what to whom in
//! `docs/adr/0043-sealed-jobs.md`.

use std::sync::Arc;

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::hex;
use crate::id::hex_array;

/// Bytes of a provider's public sealing key: X-Wing, that is ML-KEM-768 and X25519.
pub const SEALING_KEY_BYTES: usize = 1_216;

/// Bytes of a grant: what X-Wing encapsulates, the key of the job and its tag.
pub const KEY_GRANT_BYTES: usize = 1_120 + 32 + 16;

/// Bytes by which a sealed input is longer than the input: version, salt, commitment to the key, and the cipher's tag.
pub const SEALED_INPUT_OVERHEAD: u32 = 1 + 32 + 32 + 16;

/// Bytes by which a sealed answer is longer than the answer: the cipher's tag.
pub const SEALED_ANSWER_OVERHEAD: u32 = 16;

/// The bytes of a sealing key that hold coefficients of ML-KEM-768, 12 bits each.
const COEFFICIENT_BYTES: usize = 3 * 384;

/// What every coefficient is below.
const MODULUS: u16 = 3_329;

/// The public key by which keys of jobs are granted to a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingPublicKey(Arc<[u8; SEALING_KEY_BYTES]>);

impl SealingPublicKey {
    /// The key of these bytes; `None` if a coefficient is out of its range, so that nothing could be encapsulated to it.
    /// Stops: providers to which no requestor can grant anything.
    #[must_use]
    pub fn new(bytes: &[u8; SEALING_KEY_BYTES]) -> Option<Self> {
        let (triples, _) = bytes[..COEFFICIENT_BYTES].as_chunks::<3>();
        let is_reduced = triples.iter().all(|[low, middle, high]| {
            let first = u16::from(*low) | (u16::from(*middle) & 0x0f) << 8;
            let second = u16::from(*middle) >> 4 | u16::from(*high) << 4;
            first < MODULUS && second < MODULUS
        });
        is_reduced.then(|| Self(Arc::new(*bytes)))
    }

    /// Reads its hexadecimal digits, with or without `0x`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::new(&hex_array(text)?)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; SEALING_KEY_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for SealingPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SealingPublicKey({})",
            crate::Digest::of_blob(&self.0[..])
        )
    }
}

impl std::fmt::Display for SealingPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{}", hex(&self.0[..]))
    }
}

impl Encode for SealingPublicKey {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0[..]);
    }
}

impl Decode for SealingPublicKey {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::new(&reader.array()?).ok_or(DecodeError::Invalid {
            field: "sealing key",
            value: u64::from(MODULUS),
        })
    }
}

/// The key of a job, encapsulated to its provider's sealing key for one lease.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyGrant(Arc<[u8; KEY_GRANT_BYTES]>);

impl KeyGrant {
    /// A grant of these bytes; any are one.
    #[must_use]
    pub fn new(bytes: [u8; KEY_GRANT_BYTES]) -> Self {
        Self(Arc::new(bytes))
    }

    /// Reads its hexadecimal digits, with or without `0x`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        hex_array(text).map(Self::new)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_GRANT_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for KeyGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyGrant({})", crate::Digest::of_blob(&self.0[..]))
    }
}

impl std::fmt::Display for KeyGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{}", hex(&self.0[..]))
    }
}

impl Encode for KeyGrant {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0[..]);
    }
}

impl Decode for KeyGrant {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(reader.array()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_key_has_reduced_coefficients_and_its_length() {
        let mut bytes = [0; SEALING_KEY_BYTES];
        // 3,328 in both halves of three bytes is the most.
        bytes[..3].copy_from_slice(&[0x00, 0x0d, 0xd0]);
        let key = SealingPublicKey::new(&bytes).unwrap();
        assert_eq!(
            SealingPublicKey::from_bytes(&key.to_bytes()),
            Ok(key.clone())
        );
        assert_eq!(SealingPublicKey::from_hex(&key.to_string()), Some(key));
        for (at, value) in [
            (0, 0x01),
            (1, 0x0e),
            (2, 0xd1),
            (COEFFICIENT_BYTES - 1, 0xff),
        ] {
            let mut other = bytes;
            other[at] = value;
            let error = SealingPublicKey::from_bytes(&other).unwrap_err();
            assert!(
                matches!(
                    error,
                    DecodeError::Invalid {
                        field: "sealing key",
                        ..
                    }
                ),
                "{at}: {error}"
            );
        }
        // What is behind the coefficients may be anything.
        bytes[COEFFICIENT_BYTES..].fill(0xff);
        assert!(SealingPublicKey::new(&bytes).is_some());
        for length in [0, 1, SEALING_KEY_BYTES - 1, SEALING_KEY_BYTES + 1] {
            assert!(SealingPublicKey::from_bytes(&vec![0; length]).is_err());
        }
        for length in [0, 1, KEY_GRANT_BYTES - 1, KEY_GRANT_BYTES + 1] {
            assert!(KeyGrant::from_bytes(&vec![0; length]).is_err());
        }
    }
}
