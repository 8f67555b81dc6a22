//! Decoders of blocks and records keep their verdicts on damaged bytes.

use tg_ledger::tree::StateProof;
use tg_ledger::{Outcome, State, Subject as About, Verdict};
use tg_types::{Address, Digest, LeaseId, ModelId};

use crate::golden::scenario;
use crate::mutations::{Subject, compare};
use crate::world::{address, facts, genesis, rejected};

/// A verdict of every kind.
fn all_verdicts() -> Vec<Verdict> {
    let verdict = |subject, outcome| Verdict {
        subject,
        evidence: Digest::new([0x36; 32]),
        outcome,
    };
    let lease = About::Lease(LeaseId::new([0x33; 32]));
    let model = About::Model(ModelId::new([0x11; 32]));
    vec![
        verdict(lease, Outcome::LeaseAccepted),
        verdict(lease, rejected()),
        verdict(model, Outcome::ModelAccepted(facts())),
    ]
}

#[test]
fn verdicts_on_damaged_encodings_are_pinned() {
    let world = scenario();
    let state = &world.state;
    let headers: Vec<_> = world.blocks.iter().map(|block| block.header).collect();
    let blocks = world.blocks.clone();
    let proofs: Vec<StateProof> = vec![
        state.prove_account(&address("alice")),
        state.prove_account(&Address::default()),
    ];
    let genesis = genesis();
    let beginning = State::genesis(&genesis).unwrap();
    let parameters = genesis.parameters;
    let accounts: Vec<_> = state.accounts().iter().cloned().collect();
    let offers: Vec<_> = state.offers().iter().cloned().collect();
    let providers: Vec<_> = state.providers().iter().cloned().collect();
    let models: Vec<_> = state.models().iter().cloned().collect();
    let jobs: Vec<_> = state.jobs().iter().cloned().collect();
    let leases: Vec<_> = state.leases().iter().cloned().collect();
    compare(
        &[
            Subject::of("Verdict", &all_verdicts()),
            Subject::of("BlockHeader", &headers),
            Subject::of("Block", &blocks),
            Subject::of("StateProof", &proofs),
            Subject::of("Genesis", &[genesis]),
            Subject::of("Parameters", &[parameters]),
            Subject::of("Account", &accounts),
            Subject::of("Offer", &offers),
            Subject::of("Provider", &providers),
            Subject::of("Model", &models),
            Subject::of("Job", &jobs),
            Subject::of("Lease", &leases),
            Subject::of("State", &[beginning, state.clone()]).one_in(100),
        ],
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/verdicts.txt"),
    );
}
