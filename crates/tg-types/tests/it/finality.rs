//! A certificate and an answer that commonware's consensus made, checked without it.

use tg_types::chain::{
    AnswerError, BlockBytes, ChainPage, FinalityCertificate, FinalityProof, LeafKey,
    PAGE_BLOCKS_MAX, StateAnswer, TrustRoot,
};
use tg_types::{BlockId, Decode, DecodeError, Encode};

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

#[test]
fn a_page_has_one_encoding_and_shows_its_last_block() {
    let seats = bytes("seats")
        .into_iter()
        .map(|seat| seat.try_into().unwrap());
    let root = TrustRoot::new(BlockId::new(array("genesis")), seats.collect()).unwrap();
    let answer = StateAnswer::from_bytes(&bytes("answer")[0]).unwrap();
    let page = ChainPage {
        tip: 9,
        blocks: vec![BlockBytes(vec![1, 2]), BlockBytes(Vec::new())],
        proof: FinalityProof {
            certificate: answer.certificate.clone(),
            headers: answer.headers.clone(),
        },
    };
    let encoded = page.to_bytes();
    assert_eq!(ChainPage::from_bytes(&encoded), Ok(page.clone()));
    for end in 0..encoded.len() {
        ChainPage::from_bytes(&encoded[..end]).unwrap_err();
    }
    assert_eq!(page.proof.check(&root).unwrap(), answer.headers[0]);
    let mut none = page.proof.clone();
    none.headers.clear();
    assert_eq!(none.check(&root), Err(AnswerError::Headers(0)));
    let mut other = page.proof;
    other.headers[0].timestamp = tg_types::TimestampMs::new(1);
    assert!(matches!(
        other.check(&root),
        Err(AnswerError::Header { place: 0, .. })
    ));
    let empty = ChainPage::empty(7);
    assert!(empty.proof.check(&root).is_err());
    let long = ChainPage {
        blocks: vec![BlockBytes(Vec::new()); PAGE_BLOCKS_MAX + 1],
        ..empty
    };
    assert!(matches!(
        ChainPage::from_bytes(&long.to_bytes()),
        Err(DecodeError::TooLong {
            field: "blocks",
            ..
        })
    ));
}
