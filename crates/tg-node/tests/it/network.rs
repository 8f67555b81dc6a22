//! Four validators over loopback TCP.

use std::time::Duration;

use tg_node::{OpenError, SubmitError, spawn_validators};
use tg_types::{Amount, Transaction};

use crate::support::{Network, assert_agree, wait_for};

#[tokio::test]
async fn transfers_become_final_on_all_four() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let mut blocks = validators.handle(0).subscribe();
    for nonce in 0..100 {
        let handle = validators.handle(usize::try_from(nonce % 4).unwrap());
        handle.submit(network.transfer(0, nonce)).await.unwrap();
    }
    for handle in validators.handles() {
        wait_for(handle, "100 transfers", |state| {
            network.nonce(state, 0) == 100
        })
        .await;
        assert_eq!(handle.status().peers, 3);
    }
    let mut transactions = 0;
    let mut height = 0;
    while transactions < 100 {
        let final_block = blocks.recv().await.unwrap();
        height += 1;
        assert_eq!(final_block.block.header.height.get(), height);
        assert_eq!(final_block.state.head().block, final_block.id);
        transactions += final_block.block.transactions.len();
        assert_eq!(
            final_block.events.is_empty(),
            final_block.block.transactions.is_empty()
        );
    }
    assert_eq!(transactions, 100);
    let common = assert_agree(validators.handles());
    assert!(common >= 1);
    let (certified, bytes) = validators.handle(1).certificate(1).unwrap().unwrap();
    assert!(certified >= 1 && !bytes.is_empty());
    validators.shutdown();
}

#[tokio::test]
async fn one_of_four_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let mut validators = network.start(folder.path());
    validators
        .handle(3)
        .submit(network.transfer(0, 0))
        .await
        .unwrap();
    wait_for(validators.handle(3), "the first transfer", |state| {
        network.nonce(state, 0) == 1
    })
    .await;
    validators.stop(3);
    let stopped = validators.handle(3).clone();
    assert!(!stopped.status().running);
    assert_eq!(
        stopped.submit(network.transfer(0, 1)).await,
        Err(SubmitError::Stopped)
    );
    let height = stopped.status().height;
    for nonce in 1..10 {
        let handle = validators.handle(usize::try_from(nonce % 3).unwrap());
        handle.submit(network.transfer(0, nonce)).await.unwrap();
        wait_for(handle, "a transfer among three", |state| {
            network.nonce(state, 0) == nonce + 1
        })
        .await;
    }
    let running: Vec<_> = validators.handles().take(3).collect();
    for handle in &running {
        wait_for(handle, "the last transfer", |state| {
            network.nonce(state, 0) == 10 && state.head().height.get() >= height + 9
        })
        .await;
        assert_eq!(
            handle
                .snapshot()
                .state
                .balance(&network.wallets[1].address()),
            Amount::from_tgrid(1_000)
                .checked_add(Amount::new(10))
                .unwrap()
        );
    }
    assert_agree(running);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(validators.handle(0).status().peers, 2);
}

#[tokio::test]
async fn submit_answers_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    let validators = network.start(folder.path());
    let handle = validators.handle(0);
    let good = network.transfer(0, 0);
    let mut forged = good.clone();
    forged.nonce = 1;
    let error = handle.submit(forged).await.unwrap_err();
    assert_eq!(error.code(), "TG-LED-001", "{error}");
    let rich = Transaction::Transfer {
        to: network.wallets[1].address(),
        amount: Amount::from_tgrid(5_000),
    };
    let rich = network.wallets[0].sign(rich, 0, &network.genesis.domain);
    let error = handle.submit(rich).await.unwrap_err();
    assert!(matches!(error, SubmitError::Refused(_)), "{error}");
    let far = handle.submit(network.transfer(0, 900)).await.unwrap_err();
    assert_eq!(far.code(), "TG-NODE-045", "{far}");
    let id = handle.submit(good.clone()).await.unwrap();
    assert_eq!(id, good.id(&network.genesis.domain));
    // A gap waits until it is filled.
    handle.submit(network.transfer(0, 2)).await.unwrap();
    handle.submit(network.transfer(0, 2)).await.unwrap();
    handle.submit(network.transfer(0, 1)).await.unwrap();
    wait_for(handle, "three transfers", |state| {
        network.nonce(state, 0) == 3
    })
    .await;
    let used = handle.submit(good).await.unwrap_err();
    assert_eq!(used.code(), "TG-LED-002", "{used}");
}

#[tokio::test]
async fn a_directory_of_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    let validators = network.start(folder.path());
    let error = spawn_validators(network.config(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(validators);
    let mut other = network.clone();
    other.genesis.parameters.base_fee_min = Amount::new(7);
    let error = spawn_validators(other.config(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::OtherGenesis { .. }), "{error}");
    let mut stranger = network.clone();
    stranger.keys = vec![tg_node::ValidatorKey::from_seed(99)];
    let error = spawn_validators(stranger.config(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::OtherValidator { .. }), "{error}");
    let elsewhere = folder.path().join("elsewhere");
    let error = spawn_validators(stranger.config(&elsewhere)).unwrap_err();
    assert!(matches!(error, OpenError::NotAValidator { .. }), "{error}");
    drop(network.start(folder.path()));
}
