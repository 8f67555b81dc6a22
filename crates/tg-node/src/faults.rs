//! Votes that contradict each other, from consensus' form to the ledger's.

use commonware_codec::{Copying, Encode as _, ReadExt as _};
use commonware_consensus::simplex::types::{Activity, Finalize, Notarize, Nullify, Proposal};
use commonware_consensus::types::{Participant, Round};
use commonware_cryptography::certificate::Attestation;
use commonware_cryptography::sha256;
use tg_types::BlockId;
use tg_types::chain::{SignedVote, VoteKind};

use crate::peers::Scheme;

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
