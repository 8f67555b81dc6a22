//! Disputes about runs of float models, over real validators: each ends at one node.

use tg_float::job::FloatAnswer;
use tg_float::job::trace::{ExpectedFloatClaim, FloatFault};
use tg_ledger::{LeaseEnd, State, SyncStage};
use tg_node::NodeHandle;
use tg_types::{
    Decode as _, Digest, Encode as _, JobId, LeaseId, Receipt, Transaction, VerificationMode,
    Wallet, stated_trace,
};

use crate::committee::{offer_milli, perform_all, seed_of};
use crate::dispute::{argue, claimed};
use crate::floats::{Float, order_in, register};
use crate::programs::{paid, price};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, send};

/// What a provider commits to that answers this.
fn watched(float: &Float, lease: &LeaseId, answer: &FloatAnswer) -> Receipt {
    let (honest, _) = float.honest();
    // Whoever lies may say what it likes of the run.
    let trace = match Digest::of_blob(&answer.to_bytes()) == honest.output {
        true => honest.trace,
        false => Digest::new([5; 32]),
    };
    let names = (&JobId::default(), lease);
    Receipt {
        output: Digest::of_blob(&answer.to_bytes()),
        trace: stated_trace(VerificationMode::Optimistic, names, trace, answer.work),
        ..honest
    }
}

/// Serves a lease with this answer.
async fn serve(
    (network, handle): (&Network, &NodeHandle),
    provider: &Wallet,
    float: &Float,
    (lease, answer): (LeaseId, &FloatAnswer),
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let receipt = watched(float, &lease, answer);
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let answer = answer.to_bytes();
    let evidence = handle.blobs().put(&answer, 1 << 20).unwrap();
    let size = u32::try_from(answer.len()).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size,
    };
    send(network, handle, provider, show).await;
}

/// Waits until a result may be challenged, and does.
async fn challenge(network: &Network, handle: &NodeHandle, wallet: &Wallet, lease: LeaseId) {
    wait_for(handle, "the watcher", |state| {
        let check = state.lease(&lease).and_then(|it| it.check.as_ref());
        check.is_some_and(|it| matches!(it.stage, SyncStage::Contestable { .. }))
    })
    .await;
    let challenge = Transaction::ChallengeResult { lease };
    send(network, handle, wallet, challenge).await;
}

fn end_of(state: &State, lease: &LeaseId) -> Option<LeaseEnd> {
    state.lease(lease)?.end().cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_decides_between_a_watcher_and_a_liar_and_between_a_provider_and_a_false_claim() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    // The sample counts as too much for all to run again.
    network.genesis.parameters.repeated_macs_max = 0;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let site = (&network, handle);
    for float in [Float::small(), Float::large()] {
        if handle
            .snapshot()
            .state
            .model(&float.model.model_id())
            .is_none()
        {
            register(&network, handle, &float).await;
        }
    }
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    // Of the second the run ends at a node that has not enough work.
    let mut runs = [Float::small(), Float::large()].into_iter();
    let mut next = || runs.next().unwrap();
    let float = next();
    let job = order_in(&network, handle, &float, VerificationMode::Optimistic).await;

    // The watcher accuses by itself, and nothing that the liar hands in shows a wrong node of a right run.
    let lease = lease_of(handle, &job, liar.address()).await;
    let right = float.model.claim(&float.input);
    let mut lie = right.answer.clone();
    *lie.output.last_mut().unwrap() ^= 1;
    serve(site, liar, &float, (lease, &lie)).await;
    assert_eq!(claimed(handle, &lease).await, right.to_bytes());
    let fault = FloatFault::LargeNode { node: 1 }.to_bytes();
    argue(&network, handle, liar, (lease, &fault)).await;
    wait_for(handle, "the rejection", |state| {
        end_of(state, &lease).is_some()
    })
    .await;
    let state = handle.snapshot().state.clone();
    let end = end_of(&state, &lease);
    assert!(
        matches!(end, Some(LeaseEnd::Rejected { code: 99, .. })),
        "{end:?}"
    );
    let now = state.validators().iter();
    let mut both = now.zip(&network.genesis.validators);
    assert!(
        both.all(|(now, then)| now.stake == then.stake),
        "no validator lost anything"
    );

    offer_milli(&network, handle, honest, 20).await;
    a_false_claim_falls(site, honest, &float, job).await;
    let float = next();
    let job = order_in(&network, handle, &float, VerificationMode::Optimistic).await;
    a_false_claim_falls(site, honest, &float, job).await;
    for node in validators.handles() {
        wait_for(node, "the payment", |state| {
            state.job(&job).is_some_and(|it| it.state().is_final())
        })
        .await;
    }
    assert_agree(validators.handles());
}

/// A stranger claims something else of a right run: the provider shows the node of which that is wrong, and is paid for its work.
async fn a_false_claim_falls(
    (network, handle): (&Network, &NodeHandle),
    honest: &Wallet,
    float: &Float,
    job: JobId,
) {
    let lease = lease_of(handle, &job, honest.address()).await;
    let right = float.model.claim(&float.input);
    serve((network, handle), honest, float, (lease, &right.answer)).await;
    challenge(network, handle, &network.wallets[0], lease).await;
    let mut claim = right.clone();
    claim.answer.work -= 1;
    if let Some(last) = claim.record.0.last_mut() {
        last.work -= 1;
    }
    let claim = claim.to_bytes();
    argue(network, handle, &network.wallets[0], (lease, &claim)).await;
    assert_eq!(claimed(handle, &lease).await, claim);
    let receipt = watched(float, &lease, &right.answer);
    let expected = ExpectedFloatClaim {
        lease: &lease,
        input: &float.input,
        receipt: &receipt,
        delivered: &right.answer.to_bytes(),
    };
    let fault = float.model.fault_of(&claim, expected).unwrap();
    assert!(matches!(fault, FloatFault::Node { .. }), "{fault:?}");
    let bytes = fault.to_bytes();
    assert_eq!(FloatFault::from_bytes(&bytes), Ok(fault));
    argue(network, handle, honest, (lease, &bytes)).await;
    paid(handle, &job).await;
    assert!(price(handle, &job) > tg_types::Amount::ZERO);
}
