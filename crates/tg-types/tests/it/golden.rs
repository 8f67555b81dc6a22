//! Golden vectors: what is signed and hashed must never change by accident.
//!
//! `tests/data/eip712.txt` is written by `tests/data/eip712.py`, which shares nothing with this code and was compared
//! with the Python library eth-account. `tests/data/encodings.txt` is written by this test when the variable
//! `TENSORGRID_REGENERATE` is set: doing so changes the protocol.

use std::fmt::Write as _;

use tg_types::digest::hex;
use tg_types::{
    Authorization, Domain, Encode, Transaction, TransactionKind, Wallet, eip712, job_id, offer_id,
};

use crate::samples::{FEES, NONCE, domain, signed, transactions, wallet};

fn eip712_lines() -> String {
    let mut text = "# Written by eip712.py; see there how.\n".to_owned();
    let mut line = |name: String, value: String| writeln!(text, "{name} = {value}").unwrap();
    line("address".to_owned(), hex(wallet().address().as_bytes()));
    line("domain.type".to_owned(), eip712::DOMAIN_TYPE.to_owned());
    line("domain.separator".to_owned(), hex(&domain().separator()));
    for transaction in transactions() {
        let kind = transaction.kind();
        let encoded_type = kind.encoded_type();
        let type_hash = tg_types::keccak256(encoded_type.as_bytes());
        let struct_hash = eip712::struct_hash(&transaction, NONCE, &FEES);
        let digest = domain().signing_digest(&transaction, NONCE, &FEES);
        let signed = signed(transaction);
        line(format!("{kind}.type"), encoded_type);
        line(format!("{kind}.type_hash"), hex(&type_hash));
        line(format!("{kind}.struct_hash"), hex(&struct_hash));
        line(format!("{kind}.digest"), hex(&digest));
        let Authorization::Account(signature) = signed.authorization else {
            panic!("a wallet signs for its account");
        };
        line(format!("{kind}.signature"), hex(&signature.to_rsv()));
    }
    text
}

#[test]
fn typed_data_is_what_an_independent_program_computes() {
    let expected = include_str!("../data/eip712.txt");
    for (ours, theirs) in eip712_lines().lines().zip(expected.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(eip712_lines(), expected);
}

fn encoding_lines() -> String {
    let mut text = "# Written by golden.rs; see there how.\n".to_owned();
    let mut line = |name: String, value: String| writeln!(text, "{name} = {value}").unwrap();
    for transaction in transactions() {
        let kind = transaction.kind();
        let signed = signed(transaction);
        let id = signed.id(&domain());
        line(format!("{kind}.bytes"), hex(&signed.to_bytes()));
        line(format!("{kind}.id"), hex(id.as_bytes()));
        match signed.transaction {
            Transaction::SubmitJob { .. } => {
                line(format!("{kind}.job"), hex(job_id(id).as_bytes()));
            }
            Transaction::PostOffer { .. } => {
                line(format!("{kind}.offer"), hex(offer_id(id).as_bytes()));
            }
            _ => {}
        }
    }
    let alice = Wallet::from_seed(b"alice");
    line("seed.alice".to_owned(), hex(alice.address().as_bytes()));
    line("chain_domain".to_owned(), hex(&domain().to_bytes()));
    for purpose in [
        Domain::Transaction,
        Domain::Job,
        Domain::Offer,
        Domain::Lease,
    ] {
        let hash = tg_types::keccak256_of(purpose, b"");
        line(format!("keccak256_of.{}", purpose.as_str()), hex(&hash));
    }
    text
}

#[test]
fn encodings_and_names_are_pinned() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/encodings.txt");
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(path, encoding_lines()).unwrap();
    }
    assert_eq!(encoding_lines(), std::fs::read_to_string(path).unwrap());
}

#[test]
fn samples_cover_every_kind() {
    let kinds: Vec<_> = transactions().iter().map(Transaction::kind).collect();
    assert_eq!(kinds, TransactionKind::ALL);
}
