//! Contradicting votes, converted from the form of consensus to that of the ledger; and contradicting certificates, which
//! consensus does not compare itself.

use std::collections::BTreeMap;

use commonware_codec::{Copying, Encode as _, ReadExt as _};
use commonware_consensus::simplex::types::{Activity, Finalize, Notarize, Nullify, Proposal};
use commonware_consensus::types::{Participant, Round};
use commonware_cryptography::certificate::Attestation;
use commonware_cryptography::sha256;
use tg_types::BlockId;
use tg_types::chain::{SignedVote, VoteCertificate, VoteKind};

use crate::peers::Scheme;
use crate::store::skipped::SkippedLimits;
use crate::store::{Store, StoreError};

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

/// A new certificate whose signatures hold, behind the one on disk that contradicts it; a nullification is kept there first. Finds what
/// [`CertifiedViews`] does not have: views before a restart, and those that are long past.
pub(crate) fn on_disk(
    store: &Store,
    limits: SkippedLimits,
    (kind, bytes): (VoteKind, &[u8]),
) -> Result<Option<[VoteCertificate; 2]>, StoreError> {
    let Ok(new) = VoteCertificate::read(kind, bytes) else {
        return Ok(None);
    };
    let (kind, old) = match kind {
        VoteKind::Nullify => {
            store.keep_skipped(new.round(), bytes, limits)?;
            (VoteKind::Finalize, store.finalization_of(new.round())?)
        }
        VoteKind::Finalize => (VoteKind::Nullify, store.skipped(new.round())?),
        // What is valid may be skipped.
        VoteKind::Notarize => return Ok(None),
    };
    let old = old.and_then(|bytes| VoteCertificate::read(kind, &bytes).ok());
    let old = old.filter(|old| old.contradicts(&new));
    Ok(old.map(|old| [old, new]))
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

    use std::collections::BTreeSet;

    use commonware_cryptography::Signer as _;
    use tg_types::chain::TrustRoot;
    use tg_types::{Domain, DurationMs, TimestampMs};

    use super::*;
    use crate::key::ValidatorKey;
    use crate::store::{FinalBlock, Location};

    const GENESIS: [u8; 32] = [1; 32];

    /// A certificate in view 9 of epoch 1 that some of the seats of a set signed.
    fn signed(keys: &[ValidatorKey], root: &TrustRoot, kind: VoteKind) -> Vec<u8> {
        let proposal = [&[8u8][..], &[3; 32]].concat();
        let (suffix, proposal): (&[u8], Vec<u8>) = match kind {
            VoteKind::Nullify => (b"_NULLIFY", Vec::new()),
            VoteKind::Finalize => (b"_FINALIZE", proposal),
            VoteKind::Notarize => (b"_NOTARIZE", proposal),
        };
        let subject = [&[1u8, 9][..], &proposal].concat();
        let namespace = [Domain::Vote.as_str().as_bytes(), &GENESIS, suffix].concat();
        let (mut bits, mut signatures) = (0u8, Vec::new());
        for (seat, public) in root.seats().iter().enumerate() {
            if let Some(key) = keys.iter().find(|key| key.public() == *public) {
                bits |= 1 << seat;
                signatures.push(key.private().sign(&namespace, &subject).encode().to_vec());
            }
        }
        let seats = (root.seats().len() as u64).to_be_bytes();
        let count = u8::try_from(signatures.len()).unwrap();
        [&subject[..], &seats, &[bits, count], &signatures.concat()].concat()
    }

    /// Stops: a view whose nullification is forgotten, in which two thirds of the seats sign a block afterwards and lose nothing.
    #[test]
    fn certificates_that_contradict_each_other_over_a_restart_convict() {
        let keys: Vec<ValidatorKey> = (0..4).map(ValidatorKey::from_seed).collect();
        let publics = keys.iter().map(ValidatorKey::public).collect();
        let root = TrustRoot::new(BlockId::new(GENESIS), publics).unwrap();
        let limits = SkippedLimits {
            now: TimestampMs::new(5),
            kept_for: DurationMs::new(100),
            bytes_max: 1_000_000,
        };
        let nullification = signed(&keys[..3], &root, VoteKind::Nullify);
        let finalization = signed(&keys[1..], &root, VoteKind::Finalize);
        let both: BTreeSet<[u8; 32]> = keys[1..3].iter().map(ValidatorKey::public).collect();
        for skipped_first in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("chain.redb");
            let open = || Store::open(Location::File(&path), &GENESIS, &[2; 32]).unwrap();
            let store = open();
            if skipped_first {
                let first = on_disk(&store, limits, (VoteKind::Nullify, &nullification));
                assert_eq!(first.unwrap(), None);
            } else {
                let block = FinalBlock {
                    height: 4,
                    id: [3; 32],
                    bytes: vec![1],
                    certificate: Some(finalization.clone()),
                };
                store.finalise(&[block], None).unwrap();
            }
            drop(store);
            let store = open();
            let second = match skipped_first {
                true => (VoteKind::Finalize, finalization.as_slice()),
                false => (VoteKind::Nullify, nullification.as_slice()),
            };
            let notarization = signed(&keys, &root, VoteKind::Notarize);
            let valid = on_disk(&store, limits, (VoteKind::Notarize, &notarization));
            assert_eq!(valid.unwrap(), None);
            let [old, new] = on_disk(&store, limits, second).unwrap().unwrap();
            let proofs = root.equivocations(&old, &new);
            let convicted: BTreeSet<_> = proofs.iter().map(|it| it.seat).collect();
            assert_eq!(convicted, both);
        }
    }

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
