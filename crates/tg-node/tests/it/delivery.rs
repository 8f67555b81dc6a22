//! Answers that nobody checks, over real validators: paid when a quorum holds them, and not for a commitment.

use tg_ledger::{AbandonedBecause, JobState, LeaseEnd, State, StorageRule};
use tg_node::NodeHandle;
use tg_types::{Digest, DurationMs, LeaseId, Receipt, Transaction, VerificationMode, Wallet};

use crate::committee::{offer_milli, perform_all};
use crate::programs::{Program, order_in, paid, register};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, send};

async fn commit(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    lease: LeaseId,
    receipt: Receipt,
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
}

/// Waits until a lease ends; it must end as one whose answer nobody could get.
async fn ends_undelivered(handle: &NodeHandle, lease: &LeaseId) {
    let end = |state: &State| state.lease(lease).and_then(|it| it.end().cloned());
    wait_for(handle, "the end of the lease", |state| end(state).is_some()).await;
    let expected = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    assert_eq!(end(&handle.snapshot().state), Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_commits_and_delivers_nothing_is_not_paid() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.storage = StorageRule::Stated;
    network.genesis.parameters.verification_timeout = DurationMs::from_secs(9);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let program = Program::pi();
    let facts = register(&network, handle, &program).await;
    wait_for(handle, "statements about the program", |state| {
        state.models().iter().all(|it| state.is_held(&it.storage))
    })
    .await;

    // The cheapest commits to the right answer, and keeps it.
    let [silent, longer, honest] = [2, 3, 0].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, silent, 10).await;
    let job = order_in(&network, handle, &program, VerificationMode::None).await;
    let (receipt, answer) = program.honest();
    let lease = lease_of(handle, &job, silent.address()).await;
    commit(&network, handle, silent, lease, receipt.clone()).await;
    let balance = handle.snapshot().state.balance(&silent.address());
    assert_eq!(
        handle.snapshot().state.job(&job).unwrap().state(),
        JobState::Delivering
    );
    offer_milli(&network, handle, longer, 20).await;
    ends_undelivered(handle, &lease).await;
    let state = handle.snapshot().state.clone();
    assert_eq!(state.balance(&silent.address()), balance);

    // The next one delivers what is longer than the program may answer, to all of them.
    let bytes = vec![7; facts.output_len as usize + 1];
    for other in validators.handles() {
        other.blobs().put(&bytes, 4 << 20).unwrap();
    }
    let lease = lease_of(handle, &job, longer.address()).await;
    let output = Digest::of_blob(&bytes);
    let too_long = Receipt {
        output,
        ..receipt.clone()
    };
    commit(&network, handle, longer, lease, too_long).await;
    offer_milli(&network, handle, honest, 30).await;
    ends_undelivered(handle, &lease).await;

    // The third gives it to one validator, some time after it committed to it.
    let lease = lease_of(handle, &job, honest.address()).await;
    commit(&network, handle, honest, lease, receipt).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        handle.snapshot().state.job(&job).unwrap().state(),
        JobState::Delivering
    );
    let output = validators.handle(3).blobs().put(&answer, 1 << 20).unwrap();
    paid(handle, &job).await;
    let holders = validators.handles();
    let holders = holders.filter(|it| it.blobs().contains(&output)).count();
    assert!(holders >= 3, "{holders}");
    let state = handle.snapshot().state.clone();
    let settled = state.job(&job).unwrap().settlement().copied().unwrap();
    assert_eq!(settled.price, tg_types::Amount::new(30_000_000_000_000_000));
    assert_agree(validators.handles());
}
