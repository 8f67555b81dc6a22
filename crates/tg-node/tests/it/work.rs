//! A model, its proofs, and the steps of a job: what a provider and a requestor do, on public interfaces.

use std::sync::LazyLock;

use tg_exec::IntTensor;
use tg_exec::sample::random_model;
use tg_ledger::{JobState, ModelState, State};
use tg_node::NodeHandle;
use tg_node::limits::{EVIDENCE_BYTES_MAX, MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use tg_proof::PublicModel;
use tg_prover::{ProveRequest, ProvingModel, prove};
use tg_types::{
    Address, Amount, Digest, DurationMs, Encode as _, JobId, JobNeeds, JobOrder, Label, LeaseId,
    Machine, ModeSet, ModelId, OfferTerms, Pricing, Receipt, Tier, TimestampMs, Transaction,
    VerificationMode, Wallet, job_id,
};

use crate::support::{Network, wait_for};

/// A small model that can be proved, with an input. Made once: preparing it takes a moment.
pub(crate) struct Sample {
    model: ProvingModel,
    public: PublicModel,
    input: Vec<i8>,
    weights: Vec<u8>,
}

pub(crate) static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let (model, input, weights) = (0..)
        .find_map(|seed| {
            let (compiled, input) = random_model(seed);
            let weights = compiled.to_bytes();
            Some((ProvingModel::new(compiled).ok()?, input, weights))
        })
        .unwrap();
    let public = model.register().unwrap();
    Sample {
        model,
        public,
        input,
        weights,
    }
});

/// The sample's public part.
pub(crate) fn public_bytes() -> Vec<u8> {
    SAMPLE.public.encode()
}

/// The sample's input.
pub(crate) fn input_bytes() -> Vec<u8> {
    SAMPLE.input.iter().map(|x| x.cast_unsigned()).collect()
}

/// The sample with its weights, as a file.
pub(crate) fn model_bytes() -> Vec<u8> {
    SAMPLE.weights.clone()
}

/// The sample's name.
pub(crate) fn model_id() -> ModelId {
    SAMPLE.public.id()
}

/// What a provider hands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A right proof.
    Honest,
    /// A right proof with one bit changed.
    Forged,
}

/// Orders a run on an input that this node has then.
pub(crate) async fn order_job(
    (network, handle): (&Network, &NodeHandle),
    input: &[u8],
    order: JobOrder,
) -> JobId {
    let wallet = &network.wallets[1];
    handle.blobs().put(input, 1 << 20).unwrap();
    let transaction = Transaction::SubmitJob { order };
    let nonce = handle.snapshot().state.nonce(&wallet.address());
    let signed = wallet.sign(transaction.clone(), nonce, &network.genesis.domain);
    let job = job_id(signed.id(&network.genesis.domain));
    send(network, handle, wallet, transaction).await;
    job
}

/// Sends a transaction of a wallet with its next nonce and waits until it is final.
pub(crate) async fn send(
    network: &Network,
    handle: &NodeHandle,
    wallet: &Wallet,
    what: Transaction,
) {
    let nonce = handle.snapshot().state.nonce(&wallet.address());
    let signed = wallet.sign(what, nonce, &network.genesis.domain);
    handle.submit(signed).await.unwrap();
    wait_for(handle, "a transaction", |state| {
        state.nonce(&wallet.address()) > nonce
    })
    .await;
}

/// The registration of the sample model.
pub(crate) fn registration() -> Transaction {
    Transaction::RegisterModel {
        model: SAMPLE.public.id(),
        public_blob: Digest::of_blob(&public_bytes()),
        weights_blob: Digest::of_blob(&SAMPLE.weights),
        name: Label::new("sample").unwrap(),
    }
}

/// An order of a proved job of the sample.
pub(crate) fn sample_order(state: &State) -> JobOrder {
    let input = input_bytes();
    JobOrder {
        model: SAMPLE.public.id(),
        input: Digest::of_blob(&input),
        input_len: u32::try_from(input.len()).unwrap(),
        mode: VerificationMode::Proof,
        max_price: Amount::from_tgrid(10),
        deadline: TimestampMs::new(state.head().time.get() + 600_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    }
}

/// Registers the sample model; waits until the validators have verified its registration proof.
pub(crate) async fn register(network: &Network, handle: &NodeHandle) -> ModelId {
    let public = public_bytes();
    handle.blobs().put(&public, PUBLIC_MODEL_BYTES_MAX).unwrap();
    handle
        .blobs()
        .put(&SAMPLE.weights, MODEL_BYTES_MAX)
        .unwrap();
    let model = SAMPLE.public.id();
    let transaction = registration();
    send(network, handle, &network.wallets[0], transaction).await;
    wait_for(handle, "the model's verification", |state| {
        matches!(state.model(&model).unwrap().state, ModelState::Active(_))
    })
    .await;
    model
}

/// Posts an offer at a price.
pub(crate) async fn offer(
    network: &Network,
    handle: &NodeHandle,
    wallet: &Wallet,
    price_base: Amount,
) {
    let terms = OfferTerms {
        hardware: Label::new("test machine").unwrap(),
        price_base,
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::from_secs(5),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 30,
        slots: 4,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    };
    send(network, handle, wallet, Transaction::PostOffer { terms }).await;
}

/// Orders a proved job of the sample.
pub(crate) async fn order(network: &Network, handle: &NodeHandle, wallet: &Wallet) -> JobId {
    let state = handle.snapshot().state.clone();
    let order = sample_order(&state);
    let transaction = Transaction::SubmitJob { order };
    let nonce = state.nonce(&wallet.address());
    let signed = wallet.sign(transaction.clone(), nonce, &network.genesis.domain);
    let job = job_id(signed.id(&network.genesis.domain));
    send(network, handle, wallet, transaction).await;
    job
}

/// Waits for a job's lease of a provider.
pub(crate) async fn lease_of(handle: &NodeHandle, job: &JobId, provider: Address) -> LeaseId {
    let lease = |state: &State| {
        let lease = state.job(job)?.live_lease()?;
        (state.lease(&lease)?.provider == provider).then_some(lease)
    };
    wait_for(handle, "a lease", |state| lease(state).is_some()).await;
    lease(&handle.snapshot().state).unwrap()
}

/// Serves a lease: start, compute, prove, commit, show.
pub(crate) async fn serve(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    (job, lease): (JobId, LeaseId),
    work: Work,
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let input = IntTensor::I8(SAMPLE.input.clone());
    let request = ProveRequest::of(vec![input]).named(job, provider.address());
    let (mut file, _) = prove(&SAMPLE.model, request, &mut |_| {}).unwrap();
    if work == Work::Forged {
        let middle = file.proof.len() / 2;
        file.proof[middle] ^= 1;
    }
    let receipt = Receipt {
        program: SAMPLE.public.program_id(),
        model: SAMPLE.public.id(),
        input: file.statement.input,
        output: file.statement.output,
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    let bytes = file.to_bytes();
    let evidence = handle.blobs().put(&bytes, EVIDENCE_BYTES_MAX).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size: u32::try_from(bytes.len()).unwrap(),
    };
    send(network, handle, provider, show).await;
}

/// Registers the model and runs one proved job to its payment.
pub(crate) async fn one_paid_job(network: &Network, handle: &NodeHandle) -> JobId {
    register(network, handle).await;
    let provider = &network.wallets[2];
    offer(network, handle, provider, Amount::from_tgrid(2)).await;
    let job = order(network, handle, &network.wallets[1]).await;
    let lease = lease_of(handle, &job, provider.address()).await;
    serve(network, handle, provider, (job, lease), Work::Honest).await;
    wait_for(handle, "the payment", |state| {
        state.job(&job).unwrap().state() == JobState::Paid
    })
    .await;
    job
}
