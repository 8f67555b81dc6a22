//! Disputes that end at one tile, over real validators: nobody but the watcher runs the model again.

use tg_exec::{IntTensor, execute_tensor};
use tg_ir::GenerationRequest;
use tg_ledger::{DisputeTurn, JobState, LeaseEnd, State, SyncStage};
use tg_node::limits::TRACE_EVIDENCE_BYTES_MAX;
use tg_node::{NodeHandle, claim_file, runs};
use tg_proof::{
    AccuserClaim, ClaimFile, ExpectedClaim, FaultFile, claim_fails, fault_of, read_claim,
};
use tg_types::{
    Digest, Encode as _, JobId, LeaseId, Receipt, RunCommitment, TraceForm, Transaction,
    VerificationMode, Wallet, stated_trace, trace_checksum,
};

use crate::committee::{
    honest_trace, model, moved, offer_milli, order_in, perform_all, receipt_of, seed_of,
};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{input_bytes, lease_of, register, send};

/// What a provider with these tensors commits to in this mode.
fn watched(lease: &LeaseId, tensors: &[IntTensor]) -> Receipt {
    let receipt = receipt_of(&model(), tensors);
    let names = (&JobId::default(), lease);
    let trace = stated_trace(TraceForm::Run, names, receipt.trace, 0);
    Receipt { trace, ..receipt }
}

/// Serves a lease with these tensors.
async fn serve(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    (lease, tensors): (LeaseId, &[IntTensor]),
) {
    let model = model();
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let receipt = watched(&lease, tensors);
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let outputs = model.program.outputs().into_iter();
    let output: Vec<u8> = outputs
        .flat_map(|it| tensors[it.index()].to_bytes())
        .collect();
    let evidence = handle.blobs().put(&output, 1 << 20).unwrap();
    let size = u32::try_from(output.len()).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size,
    };
    send(network, handle, provider, show).await;
}

/// Hands in a file.
pub(crate) async fn argue(
    network: &Network,
    handle: &NodeHandle,
    wallet: &Wallet,
    (lease, file): (LeaseId, &[u8]),
) {
    let digest = handle.blobs().put(file, TRACE_EVIDENCE_BYTES_MAX).unwrap();
    let argue = Transaction::ArgueResult {
        lease,
        file: digest,
        size: u32::try_from(file.len()).unwrap(),
    };
    send(network, handle, wallet, argue).await;
}

/// Waits until the provider has to answer a claim, and fetches that.
pub(crate) async fn claimed(handle: &NodeHandle, lease: &LeaseId) -> Vec<u8> {
    let claim = |state: &State| {
        let step = &state
            .lease(lease)?
            .check
            .as_ref()?
            .stage
            .tile_dispute()?
            .step;
        let is_asked = step.turn() == DisputeTurn::Provider && step.waits_for_file();
        step.claim().filter(|_| is_asked)
    };
    wait_for(handle, "a claim", |state| claim(state).is_some()).await;
    let digest = claim(&handle.snapshot().state).unwrap().digest;
    // n - f hold it; this one fetches it if it is not among them.
    for _ in 0..200 {
        if let Ok(Some(bytes)) = handle.blobs().get(&digest, TRACE_EVIDENCE_BYTES_MAX) {
            return bytes;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the claim is not here");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tile_decides_between_a_watcher_and_a_liar_and_between_a_provider_and_a_false_claim() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    // The sample counts as too much for all to run again.
    network.genesis.parameters.repeated_macs_max = 0;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    register(&network, handle).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let job = order_in(&network, handle, VerificationMode::Optimistic).await;
    a_liar_loses_to_its_watcher(&network, handle, (job, liar)).await;
    offer_milli(&network, handle, honest, 20).await;
    an_honest_provider_wins_against_a_false_claim(&network, handle, (job, honest)).await;
    let is_paid = |state: &State| {
        let job = state.job(&job);
        job.is_some_and(|it| it.state() == JobState::Paid)
    };
    for node in validators.handles() {
        wait_for(node, "the payment", is_paid).await;
    }
    assert_agree(validators.handles());
}

/// The watcher accuses by itself, and nothing that the liar hands in shows a wrong tile of a right run.
async fn a_liar_loses_to_its_watcher(
    network: &Network,
    handle: &NodeHandle,
    (job, liar): (JobId, &Wallet),
) {
    let model = model();
    let lease = lease_of(handle, &job, liar.address()).await;
    serve(network, handle, liar, (lease, &moved(&model))).await;
    let claim = claimed(handle, &lease).await;
    assert_eq!(claim_file(&model, &input_bytes()), claim);
    argue(network, handle, liar, (lease, &FaultFile::Claim.to_bytes())).await;
    wait_for(handle, "the rejection", |state| {
        state.lease(&lease).is_some_and(|it| it.end().is_some())
    })
    .await;
    let state = handle.snapshot().state.clone();
    let end = state.lease(&lease).unwrap().end();
    assert!(
        matches!(end, Some(LeaseEnd::Rejected { code: 99, .. })),
        "{end:?}"
    );
    let now = state.validators().iter();
    let has_all_stake = now
        .zip(&network.genesis.validators)
        .all(|(now, then)| now.stake == then.stake);
    assert!(has_all_stake, "no validator lost anything");
}

/// A stranger claims that the liar's run is the right one: the provider shows where that is wrong.
async fn an_honest_provider_wins_against_a_false_claim(
    network: &Network,
    handle: &NodeHandle,
    (job, honest): (JobId, &Wallet),
) {
    let model = model();
    let lease = lease_of(handle, &job, honest.address()).await;
    let right = honest_trace(&model).tensors().to_vec();
    serve(network, handle, honest, (lease, &right)).await;
    let stranger = &network.wallets[0];
    wait_for(handle, "the watcher", |state| {
        let check = state.lease(&lease).and_then(|it| it.check.as_ref());
        check.is_some_and(|it| matches!(it.stage, SyncStage::Contestable { .. }))
    })
    .await;
    let challenge = Transaction::ChallengeResult { lease };
    send(network, handle, stranger, challenge).await;
    let false_claim = ClaimFile::of(&model, &moved(&model), None);
    let false_claim = AccuserClaim::Run(false_claim).to_bytes();
    argue(network, handle, stranger, (lease, &false_claim)).await;
    let claim = claimed(handle, &lease).await;
    assert_eq!(claim, false_claim);
    let expected = ExpectedClaim {
        lease: &lease,
        input: &input_bytes(),
        receipt: &watched(&lease, &right),
    };
    let read = read_claim(&model, &claim, expected).unwrap();
    let run = execute_tensor(&model, read.input.clone()).unwrap();
    let answer = fault_of(&model, &read, run.tensors()).unwrap().to_bytes();
    assert!(answer.len() < 64 << 10, "{}", answer.len());
    argue(network, handle, honest, (lease, &answer)).await;
}

/// Every way in which a claim accuses nobody, and what decides where it does.
#[test]
fn a_claim_accuses_if_it_is_one_and_says_something_else() {
    let model = model();
    let lease = LeaseId::new([7; 32]);
    let (right, lie) = (honest_trace(&model).tensors().to_vec(), moved(&model));
    let claim =
        |tensors: &[IntTensor]| AccuserClaim::Run(ClaimFile::of(&model, tensors, None)).to_bytes();
    let (honest, liar) = (watched(&lease, &right), watched(&lease, &lie));
    let input = input_bytes();
    let nothing = FaultFile::Claim.to_bytes();
    let fails = |claim: &[u8], fault: &[u8], receipt: &Receipt| {
        let expected = ExpectedClaim {
            lease: &lease,
            input: &input,
            receipt,
        };
        claim_fails(&model, (claim, fault), expected, || runs(&model, &input))
    };
    let shown = |claimed: &[u8], own: &[IntTensor], receipt: &Receipt| {
        let expected = ExpectedClaim {
            lease: &lease,
            input: &input,
            receipt,
        };
        let read = read_claim(&model, claimed, expected).unwrap();
        fault_of(&model, &read, own).map(|it| it.to_bytes())
    };
    // The same as the receipt says, no claim, another output than its tensors end with.
    assert!(fails(&claim(&right), &nothing, &honest));
    assert!(fails(b"", &nothing, &honest) && fails(&claim(&right)[..40], &nothing, &liar));
    let other = ClaimFile {
        output: vec![0; model.program.output_bytes()],
        ..ClaimFile::of(&model, &right, None)
    };
    let other = AccuserClaim::Run(other).to_bytes();
    assert!(fails(&other, &nothing, &liar));
    // That the model does not run where it does.
    let no_run = AccuserClaim::NoRun.to_bytes();
    assert!(fails(&no_run, &nothing, &liar));
    // A right claim against a liar stands, whatever it shows: also what would be right of its own run.
    assert!(!fails(&claim(&right), &nothing, &liar));
    assert!(!fails(&claim(&right), b"", &liar));
    let tried = shown(&claim(&right), &lie, &liar).unwrap();
    assert!(!fails(&claim(&right), &tried, &liar));
    // A wrong claim against an honest one falls by one tile only.
    let fault = shown(&claim(&lie), &right, &honest).unwrap();
    assert!(fails(&claim(&lie), &fault, &honest));
    assert!(!fails(&claim(&lie), &nothing, &honest));
    for at in 0..fault.len() {
        let mut changed = fault.clone();
        changed[at] ^= 0x11;
        // Whatever is changed, it is judged, and what is right of another tile shows nothing.
        let _ = fails(&claim(&lie), &changed, &honest);
        assert!(!fails(&claim(&right), &changed, &liar), "{at}");
    }
    // A receipt that hides another trace than its run's is wrong too, with the same answer, and one that states work.
    let root = receipt_of(&model, &right).trace;
    for trace in [
        Digest::new([9; 32]),
        RunCommitment::of(&lease, trace_checksum(&root), 1).digest(),
    ] {
        let hidden = Receipt {
            trace,
            ..honest.clone()
        };
        assert!(!fails(&claim(&right), &nothing, &hidden));
    }
}

/// Whatever a watcher finds wrong it can claim: an order that the model does not take, too.
#[test]
fn what_cannot_be_run_is_claimed_as_that() {
    let model = model();
    let lease = LeaseId::new([7; 32]);
    let receipt = watched(&lease, &moved(&model));
    let good = input_bytes();
    let request = GenerationRequest::is_one(&good);
    assert!(!request && runs(&model, &good));
    for bad in [&good[1..], b"", &[&good[..], b"1"].concat()] {
        assert!(!runs(&model, bad));
        let claim = claim_file(&model, bad);
        assert_eq!(claim, AccuserClaim::NoRun.to_bytes());
        let expected = ExpectedClaim {
            lease: &lease,
            input: bad,
            receipt: &receipt,
        };
        let fails = claim_fails(&model, (&claim, b""), expected, || runs(&model, bad));
        assert!(!fails);
    }
}
