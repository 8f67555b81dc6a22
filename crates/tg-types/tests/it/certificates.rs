//! Two certificates that contradict each other, taken apart into what convicts each seat in both.

use std::collections::BTreeSet;

use tg_types::BlockId;
use tg_types::chain::{Equivocation, FinalityCertificate, TrustRoot, VoteCertificate, VoteKind};

use crate::voter::{Voter, certificate_of};

const SEATS: u8 = 7;

const VIEW: u8 = 9;

/// A network of seven, of which every five are a quorum.
struct Court {
    voters: Vec<Voter>,
    root: TrustRoot,
}

impl Court {
    fn new() -> Self {
        let voters: Vec<Voter> = (0..SEATS).map(Voter::new).collect();
        let keys = voters.iter().map(|voter| voter.public).collect();
        let root = TrustRoot::new(BlockId::new([9; 32]), keys).unwrap();
        Self { voters, root }
    }

    /// The bytes of a certificate that the voters of some numbers signed.
    fn bytes(&self, signers: std::ops::Range<usize>, what: (VoteKind, u8, u8)) -> Vec<u8> {
        let (kind, view, block) = what;
        let what = (kind, view, BlockId::new([block; 32]));
        certificate_of(&self.root, &self.voters[signers], what)
    }

    fn certificate(
        &self,
        signers: std::ops::Range<usize>,
        what: (VoteKind, u8, u8),
    ) -> VoteCertificate {
        VoteCertificate::read(what.0, &self.bytes(signers, what)).unwrap()
    }

    fn keys(&self, numbers: impl IntoIterator<Item = usize>) -> BTreeSet<[u8; 32]> {
        let keys = numbers.into_iter().map(|it| self.voters[it].public);
        keys.collect()
    }

    /// Whom two certificates convict; each proof convicts by itself, and no seat twice.
    fn convicted(&self, first: &VoteCertificate, second: &VoteCertificate) -> BTreeSet<[u8; 32]> {
        let proofs = self.root.equivocations(first, second);
        for proof in &proofs {
            assert_eq!(proof.check(&self.root.genesis()), Ok(()));
        }
        let seats: BTreeSet<_> = proofs.iter().map(|it| it.seat).collect();
        assert_eq!(seats.len(), proofs.len());
        seats
    }
}

/// What a certificate is of: the kind of its votes, the view, and the block.
type Voted = (VoteKind, u8, u8);

/// Pairs of certificates of one view that no honest seat is in both of.
const CONTRADICTIONS: [(Voted, Voted); 4] = [
    ((VoteKind::Notarize, VIEW, 1), (VoteKind::Notarize, VIEW, 2)),
    ((VoteKind::Finalize, VIEW, 1), (VoteKind::Finalize, VIEW, 2)),
    ((VoteKind::Finalize, VIEW, 1), (VoteKind::Nullify, VIEW, 0)),
    ((VoteKind::Nullify, VIEW, 0), (VoteKind::Finalize, VIEW, 1)),
];

#[test]
fn exactly_the_seats_in_both_certificates_are_convicted() {
    let court = Court::new();
    for (first, second) in CONTRADICTIONS {
        let one = court.certificate(0..5, first);
        let other = court.certificate(2..7, second);
        assert!(one.contradicts(&other) && other.contradicts(&one));
        let both = court.keys(2..5);
        assert_eq!(court.convicted(&one, &other), both, "{first:?} {second:?}");
        assert_eq!(court.convicted(&other, &one), both, "{first:?} {second:?}");
        // Fewer than a quorum convict too.
        let few = court.certificate(4..6, second);
        assert_eq!(court.convicted(&one, &few), court.keys([4]));
        let others = court.certificate(5..7, second);
        assert_eq!(court.convicted(&one, &others), BTreeSet::new());
    }
}

#[test]
fn a_final_block_in_a_skipped_view_is_a_pair_of_votes_in_the_order_of_evidence() {
    let court = Court::new();
    let finalization = court.certificate(0..5, (VoteKind::Finalize, VIEW, 1));
    let nullification = court.certificate(0..5, (VoteKind::Nullify, VIEW, 0));
    let proofs = court.root.equivocations(&finalization, &nullification);
    assert_eq!(proofs.len(), 5);
    for Equivocation { first, second, .. } in proofs {
        assert_eq!(
            (first.kind, second.kind),
            (VoteKind::Nullify, VoteKind::Finalize)
        );
        assert_eq!((second.view, second.block), (9, BlockId::new([1; 32])));
    }
}

#[test]
fn certificates_that_honest_seats_sign_both_of_convict_nobody() {
    let court = Court::new();
    let honest = [
        // One vote twice, and one block held for valid and final.
        ((VoteKind::Finalize, VIEW, 1), (VoteKind::Finalize, VIEW, 1)),
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Finalize, VIEW, 1)),
        ((VoteKind::Nullify, VIEW, 0), (VoteKind::Nullify, VIEW, 0)),
        // A view is skipped after a vote for its block, or another block of it is finalised.
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Nullify, VIEW, 0)),
        ((VoteKind::Notarize, VIEW, 1), (VoteKind::Finalize, VIEW, 2)),
        // Two views.
        (
            (VoteKind::Finalize, VIEW, 1),
            (VoteKind::Finalize, VIEW + 1, 2),
        ),
        (
            (VoteKind::Nullify, VIEW, 0),
            (VoteKind::Finalize, VIEW + 1, 1),
        ),
    ];
    for (first, second) in honest {
        let (one, other) = (
            court.certificate(0..7, first),
            court.certificate(0..7, second),
        );
        assert!(!one.contradicts(&other), "{first:?} {second:?}");
        assert_eq!(court.root.equivocations(&one, &other), []);
        assert_eq!(court.root.equivocations(&other, &one), []);
    }
}

#[test]
fn a_seat_whose_signature_does_not_hold_is_not_convicted() {
    let court = Court::new();
    let (first, second) = CONTRADICTIONS[1];
    let one = court.certificate(0..5, first);
    let good = court.bytes(0..5, second);
    let begin = good.len() - 5 * 64;
    let mut in_order: Vec<[u8; 32]> = court.keys(0..5).into_iter().collect();
    in_order.sort_unstable();
    for (place, forged) in in_order.iter().enumerate() {
        let mut bytes = good.clone();
        bytes[begin + place * 64 + 40] ^= 1;
        let other = VoteCertificate::read(second.0, &bytes).unwrap();
        let mut expected = court.keys(0..5);
        expected.remove(forged);
        assert_eq!(court.convicted(&one, &other), expected);
    }
    // Read as votes of another kind no signature holds, and those of another network convict nobody.
    let finalization = court.bytes(0..5, second);
    let as_notarization = VoteCertificate::read(VoteKind::Notarize, &finalization).unwrap();
    let notarization = court.certificate(0..5, CONTRADICTIONS[0].0);
    assert!(notarization.contradicts(&as_notarization));
    assert_eq!(
        court.convicted(&notarization, &as_notarization),
        BTreeSet::new()
    );
    let other = court.certificate(0..5, second);
    let network = TrustRoot::new(BlockId::new([8; 32]), court.root.seats().to_vec()).unwrap();
    assert_eq!(network.equivocations(&one, &other), []);
    let fewer = TrustRoot::new(court.root.genesis(), court.root.seats()[1..].to_vec()).unwrap();
    assert_eq!(fewer.equivocations(&one, &other), []);
}

#[test]
fn certificates_have_one_encoding() {
    let court = Court::new();
    let finalization = court.bytes(0..5, (VoteKind::Finalize, VIEW, 1));
    let nullification = court.bytes(0..5, (VoteKind::Nullify, VIEW, 0));
    let read = FinalityCertificate::read(&finalization).unwrap().finality;
    let same = VoteCertificate::read(VoteKind::Finalize, &finalization).unwrap();
    assert_eq!(same.round(), (read.epoch, read.view));
    assert_eq!(same.kind(), VoteKind::Finalize);
    for (kind, bytes) in [
        (VoteKind::Finalize, finalization),
        (VoteKind::Nullify, nullification),
    ] {
        assert_eq!(
            VoteCertificate::read(kind, &bytes).unwrap().votes().count(),
            5
        );
        for end in 0..bytes.len() {
            VoteCertificate::read(kind, &bytes[..end]).unwrap_err();
        }
        assert_eq!(VoteCertificate::round_in(&bytes), Ok((1, u64::from(VIEW))));
        let longer = [bytes.as_slice(), &[0]].concat();
        VoteCertificate::read(kind, &longer).unwrap_err();
    }
}
