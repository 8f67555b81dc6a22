//! Two votes of one seat that no honest seat signs: evidence that anybody may check and show the ledger.
//!
//! An honest seat signs for each view at most one `notarize`, and either one `finalize` or a `nullify`, never both. The votes are
//! those of commonware's simplex; what each signs is LEB128(length of the namespace), the namespace (`TG/node/vote/v1`, the id of genesis,
//! `_NOTARIZE`, `_NULLIFY` or `_FINALIZE`) and the vote: epoch, view and, but for a nullify, the parent's view as LEB128 numbers and the
//! block's id. Signatures hold by ZIP 215, as consensus takes them: a signature that counts as a vote there convicts here.

use super::finality::{is_signature, signed_vote};
use crate::{BlockId, fields, tags};

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
    pub(super) const fn suffix(self) -> &'static [u8] {
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

/// Two votes of one seat that contradict each other: 306 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Equivocation {
    /// The consensus key of the seat.
    pub seat: [u8; 32],
    /// One vote; the one of the lower kind, if they differ in that.
    pub first: SignedVote,
    /// The other.
    pub second: SignedVote,
}

fields! { Equivocation { seat, first, second } }

/// Why two votes convict nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EquivocationError {
    /// They are of two views, so both may be honest.
    #[error("the votes are of different views")]
    Views,
    /// An honest seat may sign both.
    #[error("the votes do not contradict each other")]
    NoContradiction,
    /// A nullify that names a block: no such vote is signed.
    #[error("a vote to skip a view names a block")]
    NullifyNamesBlock,
    /// A signature is not the seat's.
    #[error("the signature of vote {place} does not hold")]
    Signature {
        /// Which vote, from 0 on.
        place: usize,
    },
}

impl Equivocation {
    /// Checks that the seat signed both votes in the network of a genesis, and that no honest seat does. Takes two checks of
    /// ed25519 signatures, about 0.1 ms.
    ///
    /// # Errors
    /// [`EquivocationError`] if it convicts nobody.
    pub fn check(&self, genesis: &BlockId) -> Result<(), EquivocationError> {
        let Self {
            seat,
            first,
            second,
        } = self;
        if (first.epoch, first.view) != (second.epoch, second.view) {
            return Err(EquivocationError::Views);
        }
        for vote in [first, second] {
            let names = vote.parent_view != 0 || vote.block != BlockId::default();
            if vote.kind == VoteKind::Nullify && names {
                return Err(EquivocationError::NullifyNamesBlock);
            }
        }
        let differ = (first.parent_view, first.block) != (second.parent_view, second.block);
        let contradict = match (first.kind, second.kind) {
            (VoteKind::Notarize, VoteKind::Notarize) | (VoteKind::Finalize, VoteKind::Finalize) => {
                differ
            }
            (VoteKind::Nullify, VoteKind::Finalize) => true,
            // A seat that voted for a block may skip its view, and may finalise another block that others notarised.
            _ => false,
        };
        if !contradict {
            return Err(EquivocationError::NoContradiction);
        }
        for (place, vote) in [first, second].into_iter().enumerate() {
            // Stops: votes that the seat never cast, or cast in another network.
            if !is_signature(seat, &vote.signature, &signed_vote(genesis, vote)) {
                return Err(EquivocationError::Signature { place });
            }
        }
        Ok(())
    }
}
