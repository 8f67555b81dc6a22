//! Blocks as a page sees them.

use serde_json::Value;
use tg_browser::session::{PageInput, VerifySession, VerifyStep};
use tg_types::chain::{BlockBytes, BlockHeader, ChainPage, Reserved};
use tg_types::{
    Address, Amount, BlockId, ChainDomain, Digest, Domain, Encode as _, Fees, Height, StateRoot,
    TimestampMs, Transaction, Wallet, Writer, keccak256_of,
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

fn shown(blocks: &[&[u8]], domain: &str) -> (bool, Value) {
    let page = ChainPage {
        blocks: blocks.iter().map(|it| BlockBytes(it.to_vec())).collect(),
        ..ChainPage::empty(9)
    };
    let mut session = VerifySession::default();
    assert!(session.write(PageInput::Blocks, &page.to_bytes()));
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
