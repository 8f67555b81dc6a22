//! What a node that follows the chain downloads: a page of final blocks, or a snapshot to start from.

use super::answer::{CERTIFICATE_BYTES_MAX, shown_final};
use super::{AnswerError, BlockHeader, HEADERS_MAX, TrustRoot};
use crate::fields;
use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// Most blocks of a page.
pub const PAGE_BLOCKS_MAX: usize = 64;

/// Most bytes of the blocks of a page.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Most bytes of a block.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// What shows that a block is final: a certificate, and headers from its block down to the one in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalityProof {
    /// The certificate that makes the first of the headers final.
    pub certificate: Vec<u8>,
    /// Headers from the certificate's block down, each the parent of the one before; at most [`HEADERS_MAX`].
    pub headers: Vec<BlockHeader>,
}

impl FinalityProof {
    /// The header that is shown to be final, to somebody who trusts `root`.
    ///
    /// # Errors
    /// [`AnswerError`] if nothing is shown.
    pub fn check(&self, root: &TrustRoot) -> Result<BlockHeader, AnswerError> {
        shown_final(root, &self.certificate, &self.headers)
    }
}

impl Encode for FinalityProof {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            certificate,
            headers,
        } = self;
        writer.bytes(certificate);
        writer.seq(headers);
    }
}

impl Decode for FinalityProof {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            certificate: reader.bytes("certificate", CERTIFICATE_BYTES_MAX)?.to_vec(),
            headers: reader.seq("headers", HEADERS_MAX, BlockHeader::BYTES)?,
        })
    }
}

/// A block's bytes. Their owner decodes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBytes(pub Vec<u8>);

impl Encode for BlockBytes {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl Decode for BlockBytes {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.bytes("block", BLOCK_BYTES_MAX)?.to_vec()))
    }
}

/// Consecutive final blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPage {
    /// The height of the sender's newest final block. Nothing shows it.
    pub tip: u64,
    /// The blocks, ascending; at most [`PAGE_BLOCKS_MAX`].
    pub blocks: Vec<BlockBytes>,
    /// What shows that the last of them is final; one without blocks shows nothing.
    pub proof: FinalityProof,
}

fields! { ChainPage { tip, blocks: seq("blocks", PAGE_BLOCKS_MAX, 4), proof } }

impl ChainPage {
    /// A page of a sender that has no block to give.
    #[must_use]
    pub const fn empty(tip: u64) -> Self {
        let proof = FinalityProof {
            certificate: Vec::new(),
            headers: Vec::new(),
        };
        Self {
            tip,
            blocks: Vec::new(),
            proof,
        }
    }
}

/// A state to begin at, with its block. The state's bytes follow it on their way, and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The block whose state it is.
    pub block: BlockBytes,
    /// What shows that it is final.
    pub proof: FinalityProof,
}

fields! { SnapshotHead { block, proof } }

/// Most bytes of a [`SnapshotHead`].
pub const SNAPSHOT_HEAD_BYTES_MAX: usize = BLOCK_BYTES_MAX + (1 << 20);
