//! Votes that contradict each other, from consensus' form to the ledger's; and certificates that do, which consensus itself does not
//! compare.

use std::collections::BTreeMap;

use commonware_codec::{Copying, Encode as _, ReadExt as _};
use commonware_consensus::simplex::types::{Activity, Finalize, Notarize, Nullify, Proposal};
use commonware_consensus::types::{Participant, Round};
use commonware_cryptography::certificate::Attestation;
use commonware_cryptography::sha256;
use tg_types::BlockId;
use tg_types::chain::{SignedVote, VoteCertificate, VoteKind};

use crate::peers::Scheme;

/// Views of which certificates are kept in memory: twice those that consensus takes certificates of below the newest final one
/// ([`crate::voting`]), for views above it. Two of 1,024 seats have 150 KB, so all have 10 MB at most.
const CERTIFIED_VIEWS_MAX: usize = 64;

/// Certificates of the newest views, by consensus epoch and view: what later ones are compared with.
///
/// Consensus takes one of each kind for a view. So the pair that a validator can meet is a final block in a skipped view; of
/// two final blocks the second one is shown to clients alone.
#[derive(Debug, Default)]
pub(crate) struct CertifiedViews(BTreeMap<(u64, u64), Vec<VoteCertificate>>);

impl CertifiedViews {
    /// Keeps a certificate whose signatures hold, and gives one that contradicts it.
    pub(crate) fn add(&mut self, new: VoteCertificate) -> Option<VoteCertificate> {
        let of_view = self.0.entry(new.round()).or_default();
        let old = of_view.iter().find(|it| it.contradicts(&new)).cloned();
        if of_view.iter().all(|it| it.kind() != new.kind()) {
            of_view.push(new);
        }
        while self.0.len() > CERTIFIED_VIEWS_MAX {
            self.0.pop_first();
        }
        old
    }
}

/// The two votes of a fault that a seat's stake answers for, and who signed them; nothing if the activity is none.
pub(crate) fn votes(
    activity: &Activity<Scheme, sha256::Digest>,
) -> Option<(Participant, [SignedVote; 2])> {
    match activity {
        Activity::ConflictingNotarize(fault) => {
            let bytes = fault.encode();
            let mut reader = Copying(bytes.as_ref());
            let first = Notarize::<Scheme, sha256::Digest>::read(&mut reader).ok()?;
            let second = Notarize::<Scheme, sha256::Digest>::read(&mut reader).ok()?;
            let kind = VoteKind::Notarize;
            let votes = [
                of_block(kind, &first.proposal, &first.attestation)?,
                of_block(kind, &second.proposal, &second.attestation)?,
            ];
            Some((first.attestation.signer, votes))
        }
        Activity::ConflictingFinalize(fault) => {
            let bytes = fault.encode();
            let mut reader = Copying(bytes.as_ref());
            let first = Finalize::<Scheme, sha256::Digest>::read(&mut reader).ok()?;
            let second = Finalize::<Scheme, sha256::Digest>::read(&mut reader).ok()?;
            let kind = VoteKind::Finalize;
            let votes = [
                of_block(kind, &first.proposal, &first.attestation)?,
                of_block(kind, &second.proposal, &second.attestation)?,
            ];
            Some((first.attestation.signer, votes))
        }
        Activity::NullifyFinalize(fault) => {
            let bytes = fault.encode();
            let mut reader = Copying(bytes.as_ref());
            let first = Nullify::<Scheme>::read(&mut reader).ok()?;
            let second = Finalize::<Scheme, sha256::Digest>::read(&mut reader).ok()?;
            let votes = [
                vote(
                    VoteKind::Nullify,
                    first.round,
                    (0, BlockId::default()),
                    &first.attestation,
                )?,
                of_block(VoteKind::Finalize, &second.proposal, &second.attestation)?,
            ];
            Some((first.attestation.signer, votes))
        }
        Activity::Notarize(_)
        | Activity::Notarization(_)
        | Activity::Certification(_)
        | Activity::Nullify(_)
        | Activity::Nullification(_)
        | Activity::Finalize(_)
        | Activity::Finalization(_) => None,
    }
}

fn of_block(
    kind: VoteKind,
    proposal: &Proposal<sha256::Digest>,
    attestation: &Attestation<Scheme>,
) -> Option<SignedVote> {
    let block = (proposal.parent.get(), BlockId::new(proposal.payload.0));
    vote(kind, proposal.round, block, attestation)
}

fn vote(
    kind: VoteKind,
    round: Round,
    (parent_view, block): (u64, BlockId),
    attestation: &Attestation<Scheme>,
) -> Option<SignedVote> {
    let signature = attestation.signature.get()?.encode();
    Some(SignedVote {
        kind,
        epoch: round.epoch().get(),
        view: round.view().get(),
        parent_view,
        block,
        signature: signature.as_ref().try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A certificate of one seat in a view of epoch 1; signatures are not looked at here.
    fn certificate(kind: VoteKind, view: u8) -> VoteCertificate {
        let proposal = match kind {
            VoteKind::Nullify => Vec::new(),
            VoteKind::Notarize | VoteKind::Finalize => [&[0][..], &[3; 32]].concat(),
        };
        let seats = 1u64.to_be_bytes();
        let bytes = [&[1, view][..], &proposal, &seats, &[1, 1], &[5; 64]].concat();
        VoteCertificate::read(kind, &bytes).unwrap()
    }

    #[test]
    fn a_final_block_in_a_skipped_view_is_found_whichever_comes_first() {
        let nullification = certificate(VoteKind::Nullify, 7);
        let finalization = certificate(VoteKind::Finalize, 7);
        for (first, second) in [
            (&nullification, &finalization),
            (&finalization, &nullification),
        ] {
            let mut views = CertifiedViews::default();
            assert_eq!(views.add(first.clone()), None);
            assert_eq!(views.add(first.clone()), None);
            assert_eq!(views.add(certificate(VoteKind::Notarize, 7)), None);
            assert_eq!(views.add(certificate(second.kind(), 8)), None);
            assert_eq!(views.add(second.clone()).as_ref(), Some(first));
        }
    }

    #[test]
    fn the_oldest_views_are_forgotten() {
        let mut views = CertifiedViews::default();
        let last = u8::try_from(CERTIFIED_VIEWS_MAX).unwrap();
        for view in 0..=last {
            assert_eq!(views.add(certificate(VoteKind::Nullify, view)), None);
        }
        assert_eq!(views.0.len(), CERTIFIED_VIEWS_MAX);
        assert!(!views.0.contains_key(&(1, 0)));
        let found = views.add(certificate(VoteKind::Finalize, last));
        assert_eq!(found, Some(certificate(VoteKind::Nullify, last)));
    }
}
