//! Proof of Sync over real validators: they deal the key of seeds by themselves, sign the seed of a receipt's block, and vote on
//! what the provider opens.

use std::sync::Arc;

use tg_exec::{IntTensor, Trace, execute_tensor};
use tg_ir::{CompiledModel, ExecutableModel, TensorId, tiles};
use tg_ledger::{JobState, LeaseEnd, State, SyncStage};
use tg_node::limits::TRACE_EVIDENCE_BYTES_MAX;
use tg_node::{EvidenceChecker, NodeHandle, ProofChecker, Validators, perform_duties, steady_now};
use tg_proof::TraceFile;
use tg_proof::trace::challenge;
use tg_types::{
    Digest, Encode as _, JobId, JobOrder, LeaseId, Receipt, Tier, Transaction, VerificationMode,
    Wallet,
};
use tokio::task::JoinSet;

use crate::support::{Network, assert_agree, wait_for};
use crate::work::{
    input_bytes, lease_of, model_bytes, model_id, offer, order_job, register, sample_order, send,
};

/// The sample model as a provider runs it.
pub(crate) fn model() -> ExecutableModel {
    CompiledModel::read(&model_bytes()).unwrap()
}

pub(crate) fn honest_trace(model: &ExecutableModel) -> Trace {
    let kind = model.program.input.element_type();
    let input = IntTensor::from_bytes(kind, &input_bytes()).unwrap();
    execute_tensor(model, input).unwrap()
}

/// The tensors of an execution, the last element of the answer moved by one.
pub(crate) fn moved(model: &ExecutableModel) -> Vec<IntTensor> {
    let mut tensors = honest_trace(model).tensors().to_vec();
    let output = &mut tensors[model.program.output().index()];
    let kind = output.element_type();
    let mut bytes = output.to_bytes();
    let last = bytes.len() - kind.bytes();
    bytes[last] ^= 1;
    *output = IntTensor::from_bytes(kind, &bytes).unwrap();
    tensors
}

/// What a provider with these tensors commits to.
pub(crate) fn receipt_of(model: &ExecutableModel, tensors: &[IntTensor]) -> Receipt {
    let outputs = model.program.outputs().into_iter();
    let output: Vec<u8> = outputs
        .flat_map(|it: TensorId| tensors[it.index()].to_bytes())
        .collect();
    let nodes: Vec<Digest> = tensors[1..]
        .iter()
        .map(|it| Digest::of_blob(&it.to_bytes()))
        .collect();
    Receipt {
        program: model.program.id(),
        model: model_id(),
        input: Digest::of_blob(&input_bytes()),
        output: Digest::of_blob(&output),
        trace: tiles::root(&nodes),
        tier: Tier::Tgx1,
    }
}

async fn order(network: &Network, handle: &NodeHandle) -> JobId {
    order_in(network, handle, VerificationMode::Sync).await
}

/// Orders the sample with this way of checking.
pub(crate) async fn order_in(
    network: &Network,
    handle: &NodeHandle,
    mode: VerificationMode,
) -> JobId {
    let state = handle.snapshot().state.clone();
    let order = JobOrder {
        mode,
        max_price: tg_types::Amount::from_tgrid(1),
        ..sample_order(&state)
    };
    order_job((network, handle), &input_bytes(), order).await
}

pub(crate) fn seed_of(state: &State, lease: &LeaseId) -> Option<Digest> {
    state.lease(lease)?.check.as_ref()?.stage.seed()
}

/// Serves a lease with these tensors: commits to them, waits for the seed and opens what it draws.
async fn serve(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    (lease, tensors): (LeaseId, &[IntTensor]),
) {
    let model = model();
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let receipt = receipt_of(&model, tensors);
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let seed = seed_of(&handle.snapshot().state, &lease).unwrap();
    let file = TraceFile::of(&model, tensors, None, &challenge(&seed, &lease)).to_bytes();
    let evidence = handle.blobs().put(&file, TRACE_EVIDENCE_BYTES_MAX).unwrap();
    let size = u32::try_from(file.len()).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size,
    };
    send(network, handle, provider, show).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committee_pays_what_is_right_and_burns_the_collateral_of_a_lie() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    register(&network, handle).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let model = model();
    assert!(tiles::count(&model.program) <= 64, "all tiles are drawn");

    // The liar underbids, is caught, and the job goes to the honest one.
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let job = order(&network, handle).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    serve(&network, handle, liar, (lease, &moved(&model))).await;
    wait_for(handle, "the rejection", |state| {
        state.lease(&lease).is_some_and(|it| it.end().is_some())
    })
    .await;
    let state = handle.snapshot().state.clone();
    let end = state.lease(&lease).unwrap().end();
    assert!(
        matches!(end, Some(LeaseEnd::Rejected { code: 110, .. })),
        "{end:?}"
    );
    let has_all_stake = state
        .validators()
        .iter()
        .zip(&network.genesis.validators)
        .all(|(now, then)| now.stake == then.stake);
    assert!(has_all_stake, "no validator lost anything");

    offer_milli(&network, handle, honest, 20).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    let tensors = honest_trace(&model).tensors().to_vec();
    serve(&network, handle, honest, (lease, &tensors)).await;
    wait_for(handle, "the payment", |state| {
        state.job(&job).unwrap().state() == JobState::Paid
    })
    .await;
    let state = handle.snapshot().state.clone();
    let check = state.lease(&lease).unwrap().check.clone().unwrap();
    let SyncStage::Voting { round, .. } = check.stage else {
        panic!("{check:?}");
    };
    assert!(round.is_enough(round.right().len()), "{round:?}");
    // Whoever found it right has the answer, which nobody gave it.
    let output = receipt_of(&model, &tensors).output;
    let holders = validators
        .handles()
        .filter(|it| it.blobs().contains(&output))
        .count();
    assert!(holders >= 3, "{holders}");
    for other in validators.handles() {
        wait_for(other, "the payment", |state| {
            state
                .job(&job)
                .is_some_and(|it| it.state() == JobState::Paid)
        })
        .await;
    }
    assert_agree(validators.handles());
}

/// What validators send by themselves, until it is dropped.
pub(crate) fn perform_all(network: &Network, validators: &Validators) -> JoinSet<()> {
    let checker: Arc<dyn EvidenceChecker> = Arc::new(ProofChecker::default());
    let mut duties = JoinSet::new();
    for (handle, account) in validators.handles().zip(network.validator_wallets()) {
        let checker = Arc::clone(&checker);
        duties.spawn(perform_duties(handle.clone(), account, checker, steady_now));
    }
    duties
}

/// Posts an offer of so many thousandths of a TGRID, with a collateral of one.
pub(crate) async fn offer_milli(
    network: &Network,
    handle: &NodeHandle,
    wallet: &Wallet,
    milli: u64,
) {
    offer(
        network,
        handle,
        wallet,
        tg_types::Amount::new(u128::from(milli) * 1_000_000_000_000_000),
    )
    .await;
}
