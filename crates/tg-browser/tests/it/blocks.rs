//! Blocks as a page sees them.

use serde_json::Value;
use tg_browser::session::{PageInput, VerifySession, VerifyStep};
use tg_types::chain::{BlockBytes, BlockHeader, ChainPage, FinalityProof, Reserved};
use tg_types::{
    Address, Amount, BlockId, ChainDomain, Digest, Domain, Encode as _, Fees, Height,
    SessionWallet, StateRoot, TimestampMs, Transaction, Wallet, Writer, keccak256_of,
};

use super::Verifies as _;

const DOMAIN: ChainDomain = ChainDomain {
    chain_id: 31_337,
    verifying_contract: Address::new([7; 20]),
    salt: [9; 32],
};

fn block(height: u64, parent: BlockId) -> (BlockHeader, Vec<u8>) {
    let wallet = Wallet::from_seed(&[3; 32]);
    let transfer = Transaction::Transfer {
        to: Address::new([4; 20]),
        amount: Amount::new(5),
    };
    let signed = wallet.sign_with_fees(transfer, height, Fees::NONE, &DOMAIN);
    let mut writer = Writer::new();
    writer.seq(&[signed]);
    writer.count(0);
    let body = writer.into_bytes();
    let header = BlockHeader {
        version: 11,
        height: Height::new(height),
        parent,
        timestamp: TimestampMs::new(1_000 * height),
        time: TimestampMs::new(1_000 * height),
        epoch: 0,
        base_fee: Amount::ZERO,
        proposer: Address::new([1; 20]),
        seats: Digest::default(),
        next_seats: Digest::default(),
        body: Digest::new(keccak256_of(Domain::BlockBody, &body)),
        state_root: StateRoot::new([2; 32]),
        reserved: Reserved::default(),
    };
    let bytes = [header.to_bytes(), body].concat();
    (header, bytes)
}

fn page_of(blocks: &[&[u8]]) -> ChainPage {
    ChainPage {
        blocks: blocks.iter().map(|it| BlockBytes(it.to_vec())).collect(),
        ..ChainPage::empty(9)
    }
}

fn shown(blocks: &[&[u8]], domain: &str) -> (bool, Value) {
    let mut session = VerifySession::default();
    assert!(session.write(PageInput::Blocks, &page_of(blocks).to_bytes()));
    assert!(session.write(PageInput::Domain, domain.as_bytes()));
    session.take(VerifyStep::Blocks)
}

fn named() -> String {
    let ChainDomain {
        chain_id,
        verifying_contract,
        salt,
    } = DOMAIN;
    format!(
        "chain {chain_id}\nrollup {verifying_contract}\nsalt {}",
        Digest::new(salt)
    )
}

#[test]
fn blocks_have_their_ids_and_transactions() {
    let (first, bytes) = block(1, BlockId::new([0; 32]));
    let (second, next) = block(2, first.id());
    let (is_right, page) = shown(&[&bytes, &next], &named());
    assert!(is_right, "{page}");
    assert_eq!(page["tip"], 9);
    assert_eq!(page["blocks"][0]["id"], first.id().to_string());
    assert_eq!(page["blocks"][1]["id"], second.id().to_string());
    assert_eq!(page["blocks"][1]["linked"], true);
    assert_eq!(page["blocks"][1]["transactions"][0]["kind"], "Transfer");
}

#[test]
fn a_block_whose_parent_or_body_is_another_is_not_linked() {
    let (_, bytes) = block(1, BlockId::new([0; 32]));
    let (_, stray) = block(2, BlockId::new([5; 32]));
    let (_, page) = shown(&[&bytes, &stray], &named());
    assert_eq!(page["blocks"][1]["linked"], false);
    let mut changed = bytes;
    // A byte of the transfer's amount.
    changed[BlockHeader::BYTES + 4 + 1 + 20] ^= 1;
    let (is_right, page) = shown(&[&changed], &named());
    assert!(!is_right || page["blocks"][0]["linked"] == false, "{page}");
}

#[test]
fn what_is_no_page_and_no_domain_is_refused() {
    let (_, bytes) = block(1, BlockId::new([0; 32]));
    assert_eq!(shown(&[&bytes], "chain x").1["check"], "domain");
    assert_eq!(shown(&[&bytes[..200]], &named()).1["check"], "blocks");
    let mut session = VerifySession::default();
    assert!(session.write(PageInput::Domain, named().as_bytes()));
    for length in [0, 3, 12, 500] {
        assert!(session.write(PageInput::Blocks, &vec![0xff; length]));
        assert_eq!(session.take(VerifyStep::Blocks).1["check"], "blocks");
    }
}

const GENESIS: BlockId = BlockId::new([6; 32]);

/// A key of votes.
fn seat(number: u8) -> SessionWallet {
    SessionWallet::from_secret(&[number; 32], Address::new([0; 20]))
}

/// What a page is told of the network of four seats, whose set began to vote after a block.
fn named_seats(since: u64) -> String {
    let seats = (0..4).map(|number| format!("\nseat {}", Digest::new(seat(number).public())));
    let seats: String = seats.collect();
    format!("genesis {GENESIS}\nsince {since}{seats}")
}

/// The certificate of a block by some of the four seats; every number in it is below 128, so that it is one byte.
fn certificate(block: BlockId, signers: &[u8]) -> Vec<u8> {
    let mut keys: Vec<[u8; 32]> = (0..4).map(|number| seat(number).public()).collect();
    keys.sort_unstable();
    let mut signers: Vec<SessionWallet> = signers.iter().map(|&it| seat(it)).collect();
    signers.sort_unstable_by_key(SessionWallet::public);
    let proposal = [[0_u8, 5, 4].as_slice(), block.as_bytes()].concat();
    let purpose = Domain::Vote.as_str().as_bytes();
    let namespace = [purpose, GENESIS.as_bytes().as_slice(), b"_FINALIZE"].concat();
    let length = u8::try_from(namespace.len()).unwrap();
    assert!(length < 128);
    let message = [[length].as_slice(), &namespace, &proposal].concat();
    let mut bytes = proposal;
    bytes.extend_from_slice(&4_u64.to_be_bytes());
    let place = |signer: &SessionWallet| keys.iter().position(|key| *key == signer.public());
    let bits = signers.iter().map(|it| 1_u8 << place(it).unwrap_or(0));
    bytes.push(bits.sum());
    bytes.push(u8::try_from(signers.len()).unwrap());
    for signer in &signers {
        bytes.extend_from_slice(&signer.sign_message(&message));
    }
    bytes
}

/// What a page of blocks shows to somebody who is told of seats; the certificate is of the block of the first header.
fn certified(
    blocks: &[&[u8]],
    headers: &[BlockHeader],
    signers: &[u8],
    seats: &str,
) -> (bool, Value) {
    let page = ChainPage {
        proof: FinalityProof {
            certificate: certificate(headers[0].id(), signers),
            headers: headers.to_vec(),
        },
        ..page_of(blocks)
    };
    let mut session = VerifySession::default();
    assert!(session.write(PageInput::Blocks, &page.to_bytes()));
    assert!(session.write(PageInput::Domain, named().as_bytes()));
    assert!(session.write(PageInput::Seats, seats.as_bytes()));
    session.take(VerifyStep::Blocks)
}

/// Which blocks of a page are shown to be final.
fn signed(page: &Value) -> Vec<bool> {
    let blocks = page["blocks"].as_array().unwrap();
    let signed = blocks.iter().map(|it| it["signed"].as_bool().unwrap());
    signed.collect()
}

#[test]
fn blocks_are_signed_by_a_quorum_of_the_seats_that_are_named() {
    let (first, one) = block(1, GENESIS);
    let (second, two) = block(2, first.id());
    let (third, _) = block(3, second.id());
    for signers in [&[0, 1, 2][..], &[1, 2, 3], &[0, 1, 2, 3]] {
        // The certificate of the last block, and of one that follows it.
        for headers in [&[second][..], &[third, second]] {
            let (is_right, page) = certified(&[&one, &two], headers, signers, &named_seats(0));
            assert!(is_right, "{page}");
            assert_eq!(page["finality"]["state"], "signed", "{page}");
            assert_eq!(page["finality"]["quorum"], 3);
            assert_eq!(page["finality"]["seats"], 4);
            assert_eq!(signed(&page), [true, true]);
        }
    }
    // A block that the signed one does not lead to, and one whose body is another.
    let (_, stray) = block(1, BlockId::new([5; 32]));
    let (_, page) = certified(&[&stray, &two], &[second], &[0, 1, 2], &named_seats(0));
    assert_eq!(signed(&page), [false, true]);
    let mut changed = one;
    // A byte of the address that is paid.
    changed[BlockHeader::BYTES + 4 + 1] ^= 1;
    let (_, page) = certified(&[&changed, &two], &[second], &[0, 1, 2], &named_seats(0));
    assert_eq!(signed(&page), [false, true]);
}

#[test]
fn certificates_that_do_not_hold_are_said_to() {
    let (first, one) = block(1, GENESIS);
    let (second, _) = block(2, first.id());
    let wrong = |headers: &[BlockHeader], signers: &[u8], seats: &str| {
        let (is_right, page) = certified(&[&one], headers, signers, seats);
        assert!(is_right, "the blocks are shown all the same: {page}");
        assert_eq!(page["finality"]["state"], "wrong", "{page}");
        assert_eq!(signed(&page), [false]);
        page["finality"]["reason"].as_str().unwrap().to_owned()
    };
    let few = wrong(&[first], &[0, 1], &named_seats(0));
    assert!(few.contains("2 seats signed, 3 are needed"), "{few}");
    let other = wrong(&[second], &[0, 1, 2], &named_seats(0));
    assert!(other.contains("of another block, of height 2"), "{other}");
    let network = named_seats(0).replace(&GENESIS.to_string(), &BlockId::new([7; 32]).to_string());
    let network = wrong(&[first], &[0, 1, 2], &network);
    assert!(network.contains("does not hold"), "{network}");
    let stranger = Digest::new(seat(9).public()).to_string();
    let seats = named_seats(0).replace(&Digest::new(seat(1).public()).to_string(), &stranger);
    let stranger = wrong(&[first], &[0, 1, 2], &seats);
    assert!(stranger.contains("signature of seat"), "{stranger}");
}

#[test]
fn a_certificate_of_an_older_set_is_not_checked_and_said_to_be() {
    let (first, one) = block(1, GENESIS);
    // Nobody signed; the set of now began to vote after this block.
    for (since, state) in [(1, "older"), (0, "wrong")] {
        let (is_right, page) = certified(&[&one], &[first], &[], &named_seats(since));
        assert!(is_right, "{page}");
        assert_eq!(page["finality"]["state"], state);
        assert_eq!(signed(&page), [false]);
    }
    let (_, page) = certified(&[&one], &[first], &[0, 1, 2], "");
    assert_eq!(page["finality"]["state"], "unchecked");
    assert_eq!(signed(&page), [false]);
}

#[test]
fn what_names_no_seats_is_refused() {
    let (first, one) = block(1, GENESIS);
    let again = Digest::new(seat(1).public());
    let twice = format!("{}\nseat {again}", named_seats(0));
    for seats in ["since 0", "genesis 0x00", "colour blue", "\u{7f}", &twice] {
        let (is_right, why) = certified(&[&one], &[first], &[0, 1, 2], seats);
        assert!(!is_right, "{seats:?}");
        assert_eq!(why["check"], "seats", "{why}");
    }
    let none = named_seats(0);
    let none = none.lines().take(2).collect::<Vec<_>>().join("\n");
    assert!(!certified(&[&one], &[first], &[0, 1, 2], &none).0);
}
