//! Signatures with torsion and points in other encodings: what consensus counts as a vote is what the ledger convicts by, and
//! both follow ZIP 215.

use commonware_codec::{Copying, Decode as _, DecodeExt as _, ReadExt as _};
use commonware_consensus::simplex::types::{
    Finalization, Finalize, Notarization, Notarize, Nullification, Nullify,
};
use commonware_cryptography::certificate::Verifier as _;
use commonware_cryptography::sha256;
use commonware_parallel::Sequential;
use commonware_runtime::{Runner as _, deterministic};
use commonware_utils::ordered::Set;
use tg_node::{Peer, Scheme};
use tg_types::chain::{
    Equivocation, EquivocationError, SignedVote, TrustRoot, VoteCertificate, VoteKind,
};
use tg_types::{BlockId, Domain};

use crate::simulation::Context;

/// Its first lines say what it has and how it was made.
const VECTORS: &str = include_str!("../../../tg-types/tests/data/torsion.txt");

/// The network of the vectors.
const GENESIS: [u8; 32] = [9; 32];

/// The block of their votes.
const BLOCK: [u8; 32] = [3; 32];

const KINDS: [VoteKind; 3] = [VoteKind::Notarize, VoteKind::Nullify, VoteKind::Finalize];

fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let pairs = text.as_bytes().chunks(2);
    let bytes: Vec<u8> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    bytes.try_into().unwrap()
}

/// A vote of a seat, as somebody signed it.
#[derive(Debug, Clone, Copy)]
struct Cast {
    kind: VoteKind,
    seat: [u8; 32],
    signature: [u8; 64],
}

impl Cast {
    /// What is signed, as consensus encodes it.
    fn subject(&self) -> Vec<u8> {
        match self.kind {
            VoteKind::Nullify => vec![1, 9],
            VoteKind::Notarize | VoteKind::Finalize => [&[1, 9, 8][..], &BLOCK].concat(),
        }
    }

    fn vote(&self) -> SignedVote {
        let (parent_view, block) = match self.kind {
            VoteKind::Nullify => (0, BlockId::default()),
            VoteKind::Notarize | VoteKind::Finalize => (8, BlockId::new(BLOCK)),
        };
        SignedVote {
            kind: self.kind,
            epoch: 1,
            view: 9,
            parent_view,
            block,
            signature: self.signature,
        }
    }

    /// The certificate of a network that has this seat alone.
    fn certificate(&self) -> Vec<u8> {
        let seats = 1u64.to_be_bytes();
        [self.subject().as_slice(), &seats, &[1, 1], &self.signature].concat()
    }

    /// Whether consensus takes the vote, and the certificate.
    fn consensus(&self, rng: &mut Context) -> [bool; 2] {
        let namespace = [Domain::Vote.as_str().as_bytes(), &GENESIS].concat();
        // Every key of the vectors is a point: else no validator could have it.
        let peer = Peer::decode(self.seat.to_vec()).unwrap();
        let scheme = Scheme::verifier(&namespace, Set::from_iter_dedup([peer]));
        let limit = scheme.certificate_codec_config();
        let vote = [self.subject().as_slice(), &[0], &self.signature].concat();
        let (mut vote, certificate) = (Copying(&vote), self.certificate());
        match self.kind {
            VoteKind::Notarize => {
                let vote = Notarize::<Scheme, sha256::Digest>::read(&mut vote).unwrap();
                let certificate =
                    Notarization::<Scheme, sha256::Digest>::decode_cfg(certificate, &limit);
                [
                    vote.verify(rng, &scheme, &Sequential),
                    certificate.unwrap().verify(rng, &scheme, &Sequential),
                ]
            }
            VoteKind::Nullify => {
                let vote = Nullify::<Scheme>::read(&mut vote).unwrap();
                let certificate = Nullification::<Scheme>::decode_cfg(certificate, &limit).unwrap();
                [
                    vote.verify::<_, sha256::Digest>(rng, &scheme, &Sequential),
                    certificate.verify::<_, sha256::Digest>(rng, &scheme, &Sequential),
                ]
            }
            VoteKind::Finalize => {
                let vote = Finalize::<Scheme, sha256::Digest>::read(&mut vote).unwrap();
                let certificate =
                    Finalization::<Scheme, sha256::Digest>::decode_cfg(certificate, &limit);
                [
                    vote.verify(rng, &scheme, &Sequential),
                    certificate.unwrap().verify(rng, &scheme, &Sequential),
                ]
            }
        }
    }

    /// Whether the ledger takes the signature of the vote, alone and out of its certificate, and whether a client takes the certificate.
    fn ledger(&self) -> [bool; 3] {
        let genesis = BlockId::new(GENESIS);
        let first_holds = |vote: SignedVote| {
            let other = SignedVote {
                kind: match self.kind {
                    VoteKind::Notarize => VoteKind::Notarize,
                    VoteKind::Nullify | VoteKind::Finalize => VoteKind::Finalize,
                },
                parent_view: 8,
                block: BlockId::new([4; 32]),
                signature: [0; 64],
                ..vote
            };
            let proof = Equivocation::of(self.seat, [vote, other]).unwrap();
            // The first signature is looked at first; whether the second one holds is another matter.
            proof.check(&genesis) != Err(EquivocationError::Signature { place: 0 })
        };
        let bytes = self.certificate();
        let certificate = VoteCertificate::read(self.kind, &bytes).unwrap();
        let (_, taken_apart) = certificate.votes().next().unwrap();
        assert_eq!(taken_apart, self.vote());
        let alone = first_holds(self.vote());
        let client = match self.kind {
            VoteKind::Finalize => {
                let root = TrustRoot::new(genesis, vec![self.seat]).unwrap();
                root.check(&bytes).is_ok()
            }
            // Clients are shown no others.
            VoteKind::Notarize | VoteKind::Nullify => alone,
        };
        [alone, first_holds(taken_apart), client]
    }

    fn check(&self, rng: &mut Context, holds: bool, name: &str) {
        let (consensus, ledger) = (self.consensus(rng), self.ledger());
        assert_eq!(consensus, [holds; 2], "consensus: {name} {self:?}");
        assert_eq!(ledger, [holds; 3], "ledger: {name} {self:?}");
    }
}

/// The rest of each line of the vectors that begins with a word.
fn lines(word: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = VECTORS.lines();
    lines.filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
}

#[test]
fn consensus_and_ledger_take_the_same_signatures_with_torsion() {
    let runner = deterministic::Runner::new(deterministic::Config::new().with_seed(1));
    runner.start(|mut rng| async move {
        let mut count = 0;
        for line in lines("vote") {
            let fields: Vec<&str> = line.split(' ').collect();
            let [name, kind, seat, signature, holds] = fields.try_into().unwrap();
            let cast = Cast {
                kind: match kind {
                    "notarize" => VoteKind::Notarize,
                    "nullify" => VoteKind::Nullify,
                    "finalize" => VoteKind::Finalize,
                    other => panic!("{other}"),
                },
                seat: bytes(seat),
                signature: bytes(signature),
            };
            cast.check(&mut rng, holds == "holds", name);
            count += 1;
        }
        assert_eq!(count, 51);
    });
}

/// The 196 pairs of "It's 255:19AM": a key and an R of small order, each in all of its encodings, and s = 0. ZIP 215 takes all of them,
/// for any message.
#[test]
fn consensus_and_ledger_take_all_points_of_small_order() {
    let runner = deterministic::Runner::new(deterministic::Config::new().with_seed(2));
    runner.start(|mut rng| async move {
        let points: Vec<[u8; 32]> = lines("point").map(bytes::<32>).collect();
        assert_eq!(points.len(), 14);
        for (place, seat) in points.iter().enumerate() {
            for (other, r) in points.iter().enumerate() {
                let mut signature = [0; 64];
                signature[..32].copy_from_slice(r);
                let cast = Cast {
                    kind: KINDS[(place + other) % KINDS.len()],
                    seat: *seat,
                    signature,
                };
                cast.check(&mut rng, true, "small order");
            }
        }
    });
}
