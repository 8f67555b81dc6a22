//! Golden vectors: encodings, ids and roots must never change by accident.
//!
//! `tests/data/ledger.txt` is written by this test when the variable `TENSORGRID_REGENERATE` is set: doing so changes
//! the protocol. Long encodings are named by their Keccak-256.

use std::fmt::Write as _;

use tg_ledger::tree::{LeafKey, StateProof, free_leaf, kind};
use tg_ledger::{Outcome, State, Subject, Verdict};
use tg_types::digest::hex;
use tg_types::{Address, Decode, Digest, Encode, Label, LeaseId, ModelId, keccak256};

use crate::world::{MODEL, World, address, facts, genesis, rejected};

/// A fixed scenario in which every kind of record and every end of a lease appears.
pub(crate) fn scenario() -> World {
    let mut world = World::with_offers();
    let paid = world.submit("alice", world.order());
    let task = world.work(paid);
    world.decide(&task, Outcome::LeaseAccepted);
    let lied = world.submit("alice", world.order());
    let task = world.work(lied);
    world.decide(&task, rejected());
    let start_by = world.lease(lied).start_by.get();
    world.wait_until(start_by + 1);
    world
}

/// Proofs that a leaf is there and that none is, and the values of free places.
fn proof_lines(state: &State, line: &mut dyn FnMut(&str, &[u8])) {
    // For each proof the key, the value of the leaf and the whole proof; the roots are those of the states above.
    let alice = LeafKey::of(kind::ACCOUNT, address("alice").as_ref());
    let nobody = LeafKey::of(kind::ACCOUNT, &[0; 20]);
    let proofs = [
        ("present", alice, state.prove_account(&address("alice"))),
        ("absent", nobody, state.prove_account(&Address::default())),
    ];
    for (name, key, proof) in proofs {
        let leaf = match &proof {
            StateProof::Present {
                path,
                head,
                content,
            } => path.link.leaf(&head.body(content)),
            StateProof::Absent { path, body } => path.link.leaf(body),
        };
        line(&format!("proof.{name}.key"), key.as_bytes());
        line(&format!("proof.{name}.leaf"), &leaf);
        line(&format!("proof.{name}.bytes"), &proof.to_bytes());
    }
    line("leaf.free.0", &free_leaf(0));
    line("leaf.free.7", &free_leaf(7));
}

fn lines() -> String {
    let mut text = "# Written by golden.rs; see there how.\n".to_owned();
    let mut line = |name: &str, value: &[u8]| writeln!(text, "{name} = {}", hex(value)).unwrap();
    line("genesis.bytes", &genesis().to_bytes());
    line("genesis.id", genesis().id().as_bytes());
    let state = State::genesis(&genesis()).unwrap();
    line("genesis.state.bytes", &state.to_bytes());
    line("genesis.state.root", state.root().as_bytes());
    let lease = Verdict {
        subject: Subject::Lease(LeaseId::new([0x33; 32])),
        evidence: Digest::new([0x36; 32]),
        outcome: Outcome::LeaseAccepted,
    };
    line("verdict.lease_accepted", &lease.to_bytes());
    let outcome = Outcome::Rejected {
        code: 513,
        check: Label::lossy("opening"),
    };
    line("verdict.rejected", &Verdict { outcome, ..lease }.to_bytes());
    let model = Verdict {
        subject: Subject::Model(ModelId::new([0x11; 32])),
        evidence: Digest::new([0x12; 32]),
        outcome: Outcome::ModelAccepted(facts()),
    };
    line("verdict.model_accepted", &model.to_bytes());
    let world = scenario();
    for block in &world.blocks {
        let height = block.header.height;
        line(&format!("block.{height}.header"), &block.header.to_bytes());
        line(&format!("block.{height}.id"), block.id().as_bytes());
        line(
            &format!("block.{height}.keccak256"),
            &keccak256(&block.to_bytes()),
        );
    }
    let state = &world.state;
    line("state.keccak256", &keccak256(&state.to_bytes()));
    line("state.root", state.root().as_bytes());
    let model = state.model(&MODEL).unwrap();
    line("record.model", &model.to_bytes());
    let provider = state.provider(&address("cheap")).unwrap();
    line("record.provider", &provider.to_bytes());
    let account = state.account(&address("alice")).unwrap();
    line("record.account", &account.to_bytes());
    for offer in state.offers().iter() {
        line("record.offer", &offer.to_bytes());
    }
    for job in state.jobs().iter() {
        line("record.job", &job.to_bytes());
    }
    for lease in state.leases().iter() {
        line("record.lease", &lease.to_bytes());
    }
    proof_lines(state, &mut line);
    text
}

#[test]
fn ledger_vectors_are_pinned() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ledger.txt");
    let ours = lines();
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(path, &ours).unwrap();
    }
    let pinned = std::fs::read_to_string(path).unwrap();
    for (ours, pinned) in ours.lines().zip(pinned.lines()) {
        assert_eq!(ours, pinned);
    }
    assert_eq!(ours, pinned);
}

#[test]
fn the_pinned_genesis_state_is_read_back() {
    // Read when it runs: a regenerated file is looked at in the same run.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ledger.txt");
    let pinned = std::fs::read_to_string(path).unwrap();
    let value = |name: &str| {
        let line = pinned.lines().find(|line| line.starts_with(name)).unwrap();
        let digits = line.rsplit_once(" = ").unwrap().1;
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        pairs.map(|pair| byte(pair).unwrap()).collect::<Vec<u8>>()
    };
    let state = State::from_bytes(&value("genesis.state.bytes")).unwrap();
    assert_eq!(state.root().as_bytes()[..], value("genesis.state.root"));
}
