//! Mode `optimistic` over real validators: a drawn one runs a program again, and a stranger has all of them do so.

use tg_ledger::{JobState, LeaseEnd, SampleTask, State, SyncStage};
use tg_node::{BlobStore, EvidenceChecker, NodeHandle, ProofChecker};
use tg_types::{
    Amount, Digest, JobId, LeaseId, Receipt, TraceForm, Transaction, VerificationMode, Vote,
    Wallet, stated_trace, trace_checksum,
};
use tg_wasm::ProgramAnswer;

use crate::committee::{offer_milli, perform_all};
use crate::counted_dispute::{contestable, serve_watched};
use crate::programs::{FUEL, Program, order_in, paid, price, register};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, send};

/// A receipt as one of this mode has it.
fn watched(program: &Program, lease: &LeaseId, (receipt, bytes): (Receipt, Vec<u8>)) -> Receipt {
    let run = program.program.run(&program.input);
    let fuel = ProgramAnswer::decode(&bytes).unwrap().fuel;
    let trace = stated_trace(TraceForm::Run, (&JobId::default(), lease), run.trace, fuel);
    Receipt { trace, ..receipt }
}

async fn order(network: &Network, handle: &NodeHandle, program: &Program) -> JobId {
    order_in(network, handle, program, VerificationMode::Optimistic).await
}

/// Serves a lease with this answer.
async fn serve(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    (program, lease): (&Program, LeaseId),
    answer: (Receipt, Vec<u8>),
) {
    let bytes = answer.1.clone();
    let receipt = watched(program, &lease, answer);
    serve_watched((network, handle), provider, lease, (receipt, &bytes)).await;
}

/// The part of the honest offer's price for this much fuel.
fn bill(fuel: u64) -> Amount {
    let whole = Amount::new(20_000_000_000_000_000);
    whole
        .checked_mul_div_ceil(fuel.max(FUEL / 4), FUEL)
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_finds_a_lie_and_whoever_doubts_what_is_right_pays_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let program = Program::pi();
    register(&network, handle, &program).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;

    // The liar underbids, its watcher runs the program, and so do all then.
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let job = order(&network, handle, &program).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    let lie = program.lie(|answer| answer.output[0] ^= 1);
    serve(&network, handle, liar, (&program, lease), lie).await;
    wait_for(handle, "the rejection", |state| {
        state.lease(&lease).is_some_and(|it| it.end().is_some())
    })
    .await;
    let state = handle.snapshot().state.clone();
    let end = state.lease(&lease).unwrap().end();
    assert!(
        matches!(end, Some(LeaseEnd::Rejected { code: 91, .. })),
        "{end:?}"
    );

    // Nobody challenges: it is paid when the window is over, for what the run took.
    offer_milli(&network, handle, honest, 20).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    let right = program.honest();
    let fuel = ProgramAnswer::decode(&right.1).unwrap().fuel;
    serve(&network, handle, honest, (&program, lease), right).await;
    contestable(handle, &lease).await;
    assert_eq!(
        handle.snapshot().state.job(&job).unwrap().state(),
        JobState::Verifying
    );
    paid(handle, &job).await;
    let bill = bill(fuel);
    assert_eq!(price(handle, &job), bill);

    // A stranger challenges: all run it again, and it is paid at once.
    let job = order(&network, handle, &program).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    let right = program.honest();
    serve(&network, handle, honest, (&program, lease), right).await;
    contestable(handle, &lease).await;
    let stranger = &network.wallets[0];
    let before = handle.snapshot().state.balance(&stranger.address());
    let challenge = Transaction::ChallengeResult { lease };
    send(&network, handle, stranger, challenge).await;
    paid(handle, &job).await;
    let state = handle.snapshot().state.clone();
    let check = state.lease(&lease).unwrap().check.clone().unwrap();
    assert!(
        matches!(check.stage, SyncStage::Disputed { .. }),
        "{check:?}"
    );
    let spent = before.checked_sub(state.balance(&stranger.address()));
    assert!(spent.unwrap() >= state.parameters().challenge_fee());
    assert_eq!(price(handle, &job), bill);
    for other in validators.handles() {
        let is_paid = |state: &State| {
            state
                .job(&job)
                .is_some_and(|it| it.state() == JobState::Paid)
        };
        wait_for(other, "the payment", is_paid).await;
    }
    assert_agree(validators.handles());
}

/// What a watcher finds of a run, and of everything near it.
#[test]
fn a_watcher_opens_the_right_run_only() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let program = Program::pi();
    let public_blob = blobs.put(&program.file, 1 << 20).unwrap();
    blobs.put(&program.input, 1 << 20).unwrap();
    let checker = ProofChecker::default();
    let lease = LeaseId::new([1; 32]);
    let vote = |receipt: &Receipt, evidence: Digest| {
        let task = SampleTask {
            dispute: None,
            revealed: None,
            lease,
            model: program.program.model_id(),
            mode: VerificationMode::Optimistic,
            is_repeated: true,
            run: tg_types::DurationMs::ZERO,
            public_blob,
            weights_blob: public_blob,
            program: program.program.id(),
            receipt: Box::new(receipt.clone()),
            seed: Digest::new([2; 32]),
            evidence,
            size: 1,
        };
        checker.vote(&task, &blobs).unwrap()
    };
    let run = program.program.run(&program.input);
    let checksum = trace_checksum(&run.trace);
    let right = watched(&program, &lease, program.honest());
    assert_eq!(vote(&right, right.output), Vote::Right { checksum });
    // Another answer, another bill, the trace in the clear, the commitment of another lease, and evidence that is not the answer.
    let lie = watched(&program, &lease, program.lie(|it| it.output[0] ^= 1));
    assert_eq!(vote(&lie, lie.output), Vote::WrongRun);
    let fuel = run.answer.fuel;
    let form = TraceForm::Run;
    for trace in [
        stated_trace(form, (&JobId::default(), &lease), run.trace, fuel + 1),
        stated_trace(
            form,
            (&JobId::default(), &LeaseId::new([3; 32])),
            run.trace,
            fuel,
        ),
        stated_trace(
            form,
            (&JobId::default(), &lease),
            Digest::new([4; 32]),
            fuel,
        ),
        run.trace,
    ] {
        let receipt = Receipt {
            trace,
            ..right.clone()
        };
        assert_eq!(vote(&receipt, receipt.output), Vote::WrongRun, "{trace}");
    }
    assert_eq!(vote(&right, Digest::new([5; 32])), Vote::WrongRun);
}
