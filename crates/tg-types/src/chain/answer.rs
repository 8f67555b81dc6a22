//! An answer about the state of the chain, with everything that proves it.

use super::{BlockHeader, FinalityError, LeafHead, LeafKey, ProofError, StateProof, TrustRoot};
use crate::{BlockId, Decode, DecodeError, Encode, Reader, Writer};

/// Most headers between the block of a certificate and the block whose state is asked.
pub const HEADERS_MAX: usize = 64;

/// Most bytes of a certificate.
pub(super) const CERTIFICATE_BYTES_MAX: usize = 128 + 66 * super::SEATS_MAX;

/// What a final state has under a key, for somebody who trusts nobody but a network's seats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateAnswer {
    /// The certificate that makes the first of the headers final.
    pub certificate: Vec<u8>,
    /// Headers from the certificate's block down to that whose state it is, each the parent of the one before.
    pub headers: Vec<BlockHeader>,
    /// What that state has.
    pub proof: StateProof,
}

/// What an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalAnswer {
    /// The block whose state it is.
    pub header: BlockHeader,
    /// What stands under the key, and the digest of its content; nothing if nothing does.
    pub found: Option<(LeafHead, [u8; 32])>,
}

/// Why an answer shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The certificate does not hold.
    #[error("the finality certificate does not hold")]
    Finality(#[from] FinalityError),
    /// There is no header, or too many.
    #[error("the answer has {0} headers")]
    Headers(usize),
    /// A header is not the certificate's, or not the parent of the one before.
    #[error("header {place} is of the block {got}, not {expected}")]
    Header {
        /// Its place in the list.
        place: usize,
        /// The block that should stand there.
        expected: BlockId,
        /// The one that does.
        got: BlockId,
    },
    /// The validators are not those that the header names.
    #[error("the validators are not those that the header names")]
    Seats,
    /// Another final block of this height is known.
    #[error(
        "block {height} is {got} here and was {known}: more than a third of the seats signed two chains"
    )]
    Fork {
        /// The height.
        height: u64,
        /// The block that is known.
        known: BlockId,
        /// The one that is shown.
        got: BlockId,
    },
    /// It is of a block before the last change of the set of validators that is known, by validators that vote no longer.
    #[error(
        "the answer is of block {height}, before the last change of validators that is known (at {changed}): the node that gave it is behind"
    )]
    Superseded {
        /// The height of the newest of its blocks.
        height: u64,
        /// That of the change.
        changed: u64,
    },
    /// A change of the set of validators is not after the one before.
    #[error("the change of validators at height {height} is not after the one before")]
    Order {
        /// Its height.
        height: u64,
    },
    /// The proof does not hold.
    #[error("the proof of state does not hold")]
    Proof(#[from] ProofError),
}

/// The last of the headers, if the certificate makes the first of them final and each is the parent of the one before.
pub(super) fn shown_final(
    root: &TrustRoot,
    certificate: &[u8],
    headers: &[BlockHeader],
) -> Result<BlockHeader, AnswerError> {
    if headers.is_empty() || headers.len() > HEADERS_MAX {
        return Err(AnswerError::Headers(headers.len()));
    }
    // Stops: a block that was never final.
    ancestor(root.check(certificate)?.block, headers)
}

/// The last of the headers, if the first is of a block and each is the parent of the one before.
fn ancestor(block: BlockId, headers: &[BlockHeader]) -> Result<BlockHeader, AnswerError> {
    let Some(last) = headers.last().filter(|_| headers.len() <= HEADERS_MAX) else {
        return Err(AnswerError::Headers(headers.len()));
    };
    let mut expected = block;
    for (place, header) in headers.iter().enumerate() {
        let got = header.id();
        // Stops: a block that is no ancestor of the final one.
        if got != expected {
            return Err(AnswerError::Header {
                place,
                expected,
                got,
            });
        }
        expected = header.parent;
    }
    Ok(*last)
}

impl StateAnswer {
    /// What the answer shows of a key to somebody who trusts `root`. How old it is the header's time says.
    ///
    /// # Errors
    /// [`AnswerError`] if it shows nothing.
    pub fn check(&self, root: &TrustRoot, key: &LeafKey) -> Result<FinalAnswer, AnswerError> {
        self.shows(shown_final(root, &self.certificate, &self.headers)?, key)
    }

    /// What the answer shows of a key if its first header is of `block`, which is known to be final.
    pub(super) fn check_below(
        &self,
        block: BlockId,
        key: &LeafKey,
    ) -> Result<FinalAnswer, AnswerError> {
        self.shows(ancestor(block, &self.headers)?, key)
    }

    fn shows(&self, header: BlockHeader, key: &LeafKey) -> Result<FinalAnswer, AnswerError> {
        // Stops: another record, another balance, a record that is said to be missing.
        let found = self.proof.verify(&header.state_root, key)?;
        Ok(FinalAnswer { header, found })
    }
}

impl Encode for StateAnswer {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            certificate,
            headers,
            proof,
        } = self;
        writer.bytes(certificate);
        writer.seq(headers);
        proof.encode(writer);
    }
}

impl Decode for StateAnswer {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            certificate: reader.bytes("certificate", CERTIFICATE_BYTES_MAX)?.to_vec(),
            headers: reader.seq("headers", HEADERS_MAX, BlockHeader::BYTES)?,
            proof: StateProof::decode(reader)?,
        })
    }
}
