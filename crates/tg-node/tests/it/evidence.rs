//! Real proofs through four validators: each checks for itself, and the ledger settles.

use tg_ledger::{JobState, LeaseEnd};
use tg_types::Amount;

use crate::support::{Network, assert_agree, wait_for};
use crate::work::{Work, lease_of, offer, order, register, serve};

#[tokio::test]
async fn a_forged_proof_is_slashed_and_an_honest_one_paid() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let handle = validators.handle(0);
    register(&network, handle).await;
    let (requestor, cheat, honest) = (
        &network.wallets[1],
        &network.wallets[2],
        &network.wallets[3],
    );
    offer(&network, handle, cheat, Amount::from_tgrid(1)).await;
    offer(&network, handle, honest, Amount::from_tgrid(2)).await;
    let job = order(&network, handle, requestor).await;
    let lease = lease_of(handle, &job, cheat.address()).await;
    serve(&network, handle, cheat, (job, lease), Work::Forged).await;
    let second = lease_of(handle, &job, honest.address()).await;
    let state = handle.snapshot().state.clone();
    assert!(
        matches!(
            state.lease(&lease).unwrap().end(),
            Some(LeaseEnd::Rejected { .. })
        ),
        "{:?}",
        state.lease(&lease)
    );
    // All of its collateral.
    assert_eq!(
        state.provider(&cheat.address()).unwrap().lost,
        state.lease(&lease).unwrap().collateral
    );
    assert!(state.totals().burned >= Amount::from_tgrid(1));
    serve(&network, handle, honest, (job, second), Work::Honest).await;
    for handle in validators.handles() {
        wait_for(handle, "the payment", |state| {
            state.job(&job).unwrap().state() == JobState::Paid
        })
        .await;
        let state = &handle.snapshot().state;
        let job = state.job(&job).unwrap();
        assert_eq!(job.settlement().unwrap().price, Amount::from_tgrid(2));
        assert_eq!(job.excluded, [cheat.address()]);
    }
    assert_agree(validators.handles());
}
