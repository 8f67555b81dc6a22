//! A certificate and an answer that commonware's consensus made, checked without it.

use tg_types::chain::{FinalityCertificate, LeafKey, StateAnswer, TrustRoot};
use tg_types::{BlockId, Decode};

/// Written by the test `light` of `tg-node` with `TENSORGRID_FINALITY_VECTOR=FILE`, from a running network of four.
const VECTOR: &str = include_str!("../data/finality.txt");

fn bytes(name: &str) -> Vec<Vec<u8>> {
    let line = VECTOR
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    let digits = |word: &str| {
        let pairs = word
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    };
    line.unwrap().split(' ').map(digits).collect()
}

fn array(name: &str) -> [u8; 32] {
    bytes(name)[0].as_slice().try_into().unwrap()
}

#[test]
fn what_consensus_signed_is_checked_without_it() {
    let seats = bytes("seats")
        .into_iter()
        .map(|seat| seat.try_into().unwrap());
    let root = TrustRoot::new(BlockId::new(array("genesis")), seats.collect()).unwrap();
    assert_eq!(root.quorum(), 3);
    let answer = StateAnswer::from_bytes(&bytes("answer")[0]).unwrap();
    let certificate = FinalityCertificate::read(&answer.certificate).unwrap();
    assert_eq!(certificate.finality.block, answer.headers[0].id());
    let key = LeafKey::new(array("key"));
    let shown = answer.check(&root, &key).unwrap();
    assert!(shown.found.is_some() && shown.header.height.get() > 0);
    // Another network's votes, and another account's leaf.
    let other = TrustRoot::new(BlockId::new([1; 32]), root.seats().to_vec()).unwrap();
    assert!(answer.check(&other, &key).is_err());
    assert!(answer.check(&root, &LeafKey::new([5; 32])).is_err());
}

#[test]
fn seats_are_several_and_different() {
    let root = |seats| TrustRoot::new(BlockId::default(), seats);
    assert!(root(Vec::new()).is_err());
    assert!(root(vec![[1; 32], [1; 32]]).is_err());
    assert!(root(vec![[1; 32]; tg_types::chain::SEATS_MAX + 1]).is_err());
    let quorum = |seats: u8| {
        root((0..seats).map(|seat| [seat; 32]).collect())
            .unwrap()
            .quorum()
    };
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7, 10].map(quorum),
        [1, 2, 3, 3, 4, 5, 5, 7]
    );
}
