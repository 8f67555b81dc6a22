//! Each validator has a store of its own, and gets what it lacks from the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_ledger::{JobState, ModelState, StorageRule};
use tg_node::limits::PUBLIC_MODEL_BYTES_MAX;
use tg_node::{EvidenceChecker, ProofChecker, perform_duties, steady_now};
use tg_types::{Digest, Wallet};

use crate::support::{Network, wait_for};
use crate::work::{input_bytes, one_paid_job, order, public_bytes, register};

#[tokio::test]
async fn an_input_given_to_two_of_four_comes_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    // The public part of the model lies beside one validator, and all of them judge it.
    let model = register(&network, validators.handle(1)).await;
    let public = Digest::of_blob(&public_bytes());
    for handle in validators.handles() {
        wait_for(handle, "the model's verification", |state| {
            let model = state.model(&model);
            model.is_some_and(|it| matches!(it.state, ModelState::Active(_)))
        })
        .await;
        // One that was not asked for its vote may get the file a little later than the verdict.
        let start = Instant::now();
        let held = loop {
            let held = handle.blobs().get(&public, PUBLIC_MODEL_BYTES_MAX).unwrap();
            if held.is_some() || start.elapsed() > Duration::from_secs(30) {
                break held;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(held, Some(public_bytes()));
    }
    // No provider is there: the job waits, and its input is wanted.
    let input = Digest::of_blob(&input_bytes());
    for index in [0, 3] {
        let blobs = validators.handle(index).blobs();
        assert_eq!(blobs.put(&input_bytes(), 1 << 20).unwrap(), input);
    }
    order(&network, validators.handle(2), &network.wallets[1]).await;
    let start = Instant::now();
    while !validators.handles().all(|it| it.blobs().contains(&input)) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the input does not come"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for handle in validators.handles() {
        let held = handle.blobs().verified_size(&input).unwrap();
        assert_eq!(held, Some(input_bytes().len() as u64));
    }
}

#[tokio::test]
async fn evidence_shown_to_one_validator_is_judged_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    // Everything is given to validator 2 alone; a block with a verdict needs three of four.
    let job = one_paid_job(&network, validators.handle(2)).await;
    for handle in validators.handles() {
        wait_for(handle, "the payment", |state| {
            state
                .job(&job)
                .is_some_and(|job| job.settlement().is_some())
        })
        .await;
    }
    let state = validators.handle(2).snapshot().state.clone();
    let lease = state.job(&job).unwrap().leases()[0];
    let evidence = state.lease(&lease).unwrap().evidence().unwrap().digest;
    let held = validators
        .handles()
        .filter(|it| it.blobs().contains(&evidence));
    assert!(held.count() >= 3);
}

#[tokio::test]
async fn a_job_waits_until_a_quorum_states_that_it_holds_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.storage = StorageRule::Stated;
    let validators = network.start_checking(folder.path());
    for (handle, key) in validators.handles().zip(&network.keys) {
        let account = Wallet::from_seed(&key.public());
        let checker: Arc<dyn EvidenceChecker> = Arc::new(ProofChecker::default());
        tokio::spawn(perform_duties(handle.clone(), account, checker, steady_now));
    }
    let handle = validators.handle(2);
    register(&network, validators.handle(1)).await;
    wait_for(handle, "statements about the model", |state| {
        let mut models = state.models().iter();
        models.all(|it| state.is_held(&it.storage))
    })
    .await;
    let job = order(&network, handle, &network.wallets[1]).await;
    // Nobody has the input.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let state = |handle: &tg_node::NodeHandle| handle.snapshot().state.job(&job).unwrap().state();
    assert_eq!(state(handle), JobState::Submitted);
    for index in [0, 3] {
        let blobs = validators.handle(index).blobs();
        blobs.put(&input_bytes(), 1 << 20).unwrap();
    }
    wait_for(handle, "statements of a quorum", |state| {
        state.job(&job).unwrap().state() == JobState::Queued
    })
    .await;
}
