//! Equivocations: two votes of one seat that no honest seat signs, as evidence that anybody can check and send to the ledger.
//!
//! For each view an honest seat signs at most one `notarize`, and either one `finalize` or a `nullify`, never both. The
//! votes are those of commonware's simplex. A seat signs LEB128(length of the namespace), the namespace (`TG/node/vote/v1`,
//! the id of genesis, `_NOTARIZE`, `_NULLIFY` or `_FINALIZE`) and the vote: epoch, view and, except in a nullify, the
//! parent's view as LEB128 numbers and the block's id. Signatures are checked by ZIP 215, the rule that consensus uses, so
//! that any signature that counts as a vote there also convicts here.

use super::vote::{SignedVote, VoteKind, is_signature, signed_vote};
use crate::{BlockId, fields};

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
    /// Two votes of a seat as evidence, in the order that it has; nothing if an honest seat may sign both. No signature is
    /// checked.
    #[must_use]
    pub fn of(seat: [u8; 32], votes: [SignedVote; 2]) -> Option<Self> {
        let [first, second] = votes;
        let (first, second) = match first.kind > second.kind {
            true => (second, first),
            false => (first, second),
        };
        first.contradicts(&second).then_some(Self {
            seat,
            first,
            second,
        })
    }

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
        // One fault has one order of its votes.
        if first.kind > second.kind || !first.contradicts(second) {
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
