//! Content digests: BLAKE3 over bytes, or over a domain and bytes.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::domain::Domain;

/// A 32-byte BLAKE3 digest. Blobs (models, inputs, outputs, proofs) are named by [`Digest::of_blob`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The name of a blob: plain BLAKE3 of its bytes, so that any BLAKE3 tool can recompute it.
    #[must_use]
    pub fn of_blob(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// BLAKE3 in key-derivation mode: digests of different domains never coincide.
    #[must_use]
    pub fn of(domain: Domain, bytes: &[u8]) -> Self {
        Self(blake3::derive_key(domain.as_str(), bytes))
    }

    /// [`Digest::of`], and the 32 bytes that follow it in BLAKE3's output: who knows the digest alone does not know them.
    #[must_use]
    pub fn of_shown(domain: Domain, bytes: &[u8]) -> (Self, [u8; 32]) {
        let mut hasher = blake3::Hasher::new_derive_key(domain.as_str());
        hasher.update(bytes);
        let (mut digest, mut beyond) = ([0; 32], [0; 32]);
        let mut output = hasher.finalize_xof();
        output.fill(&mut digest);
        output.fill(&mut beyond);
        (Self(digest), beyond)
    }

    /// Its first 8 bytes as a number, little-endian.
    #[must_use]
    pub fn first_word(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }

    /// Reads 64 hexadecimal digits, with or without `0x`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        crate::id::hex_array(text).map(Self)
    }
}

/// Lower-case hexadecimal digits, without `0x`.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// [`Digest::of_blob`] over pieces, for blobs that are never held in memory.
#[derive(Debug, Clone, Default)]
pub struct BlobHasher(blake3::Hasher);

impl BlobHasher {
    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest, and the next 32 bytes of BLAKE3's output: who knows the digest alone does not know them. Both are of one block of it.
    #[must_use]
    pub fn shown(&self) -> (Digest, [u8; 32]) {
        let mut both = [[0; 32]; 2];
        self.0
            .finalize_xof()
            .fill(both.as_mut_slice().as_flattened_mut());
        (Digest(both[0]), both[1])
    }

    /// The digest of all pieces so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        crate::id::write_hex(f, &self.0)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Encode for Digest {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }
}

impl Decode for Digest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}
