//! Certificates of votes of any kind, and the seats that two contradicting certificates convict.
//!
//! A certificate shows that a quorum voted: a *notarization* that a block is valid, a *nullification* that a view is
//! skipped, a *finalization* that a block is final (the terms are those of commonware's simplex). Two quorums of one set
//! have at least n - 2f >= f + 1 seats in common, so two certificates that contradict each other show that each of these
//! seats signed what no honest seat signs. [`TrustRoot::equivocations`] splits two such certificates into one
//! [`Equivocation`] per seat, which the ledger checks as it checks single votes.
//!
//! The encoding of a notarization and of a finalization is that of a [`super::FinalityCertificate`]; a nullification has
//! epoch and view (LEB128) in place of the proposal. The bytes do not say which kind they are.

use std::collections::BTreeMap;

use super::equivocation::Equivocation;
use super::finality::{
    FinalityError, SeatSignatures, TrustRoot, read_number, read_signatures, take,
};
use super::vote::{SignedVote, VoteKind};
use crate::BlockId;

/// Votes of one kind in one view, for one block if they are for a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteCertificate {
    /// What each of the seats signed, with no signature.
    vote: SignedVote,
    /// Of how many seats the votes are.
    seats: usize,
    signatures: SeatSignatures,
}

impl VoteCertificate {
    /// Reads a certificate of a kind; no signature is checked, and votes are not counted. Takes at most 72 bytes of memory for each of the input.
    ///
    /// # Errors
    /// [`FinalityError::Malformed`].
    pub fn read(kind: VoteKind, bytes: &[u8]) -> Result<Self, FinalityError> {
        let mut rest = bytes;
        let (epoch, view) = (read_number(&mut rest)?, read_number(&mut rest)?);
        let (parent_view, block) = match kind {
            VoteKind::Nullify => (0, BlockId::default()),
            VoteKind::Notarize | VoteKind::Finalize => {
                (read_number(&mut rest)?, BlockId::new(take(&mut rest)?))
            }
        };
        let (seats, signatures) = read_signatures(rest)?;
        let vote = SignedVote {
            kind,
            epoch,
            view,
            parent_view,
            block,
            signature: [0; 64],
        };
        Ok(Self {
            vote,
            seats,
            signatures,
        })
    }

    /// The consensus epoch and the view of a certificate of any kind; nothing else of it is read.
    ///
    /// # Errors
    /// [`FinalityError::Malformed`] if it does not begin with them.
    pub fn round_in(bytes: &[u8]) -> Result<(u64, u64), FinalityError> {
        let mut rest = bytes;
        Ok((read_number(&mut rest)?, read_number(&mut rest)?))
    }

    /// The kind of its votes.
    #[must_use]
    pub const fn kind(&self) -> VoteKind {
        self.vote.kind
    }

    /// The consensus epoch and the view of its votes.
    #[must_use]
    pub const fn round(&self) -> (u64, u64) {
        (self.vote.epoch, self.vote.view)
    }

    /// Its votes, each with the place of its seat in the order of keys, ascending.
    pub fn votes(&self) -> impl Iterator<Item = (usize, SignedVote)> + '_ {
        self.signatures.iter().map(|(seat, signature)| {
            let vote = SignedVote {
                signature: *signature,
                ..self.vote
            };
            (*seat, vote)
        })
    }

    /// Whether no honest seat is in both.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        self.vote.contradicts(&other.vote)
    }
}

impl TrustRoot {
    /// What convicts each seat of this set that signed both certificates, if they contradict each other; nothing otherwise. A seat of
    /// which a signature does not hold is left out: what is given convicts by itself ([`Equivocation::check`]), whoever made the
    /// certificates, and whether they have a quorum or not.
    ///
    /// Takes two checks of signatures for each seat in both, [`super::SEATS_MAX`] at most: 0.1 s.
    #[must_use]
    pub fn equivocations(
        &self,
        first: &VoteCertificate,
        second: &VoteCertificate,
    ) -> Vec<Equivocation> {
        let is_of_set = |it: &VoteCertificate| it.seats == self.seats().len();
        // Stops: places in another set, where they are other keys.
        if !is_of_set(first) || !is_of_set(second) || !first.contradicts(second) {
            return Vec::new();
        }
        let others: BTreeMap<usize, SignedVote> = second.votes().collect();
        let genesis = self.genesis();
        let proofs = first.votes().filter_map(|(seat, vote)| {
            let other = others.get(&seat)?;
            let proof = Equivocation::of(self.seats()[seat], [vote, *other])?;
            // Stops: a seat that somebody else put into a certificate.
            proof.check(&genesis).is_ok().then_some(proof)
        });
        proofs.collect()
    }
}
