//! Short runs of mode `sync` over real validators: a committee runs them whole, and nobody shows anything.

use tg_ledger::{JobState, LeaseEnd, State, SyncStage, WHOLE_RUN_MACS_USUAL};
use tg_node::NodeHandle;
use tg_types::limits::EVIDENCE_BYTES_MAX;
use tg_types::{
    JobId, LeaseId, Receipt, TraceForm, Transaction, VerificationMode, Wallet, stated_trace,
};
use tg_wasm::ProgramAnswer;

use crate::committee::{honest_trace, model, moved, offer_milli, perform_all, receipt_of};
use crate::counted_dispute::Site;
use crate::programs::{FUEL, Program, paid, price};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, send};

/// Commits to a result, which is all that its provider does.
async fn commit((network, handle): Site<'_>, provider: &Wallet, lease: LeaseId, receipt: Receipt) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
}

/// A receipt that commits to a run with this trace and this bill.
fn committed(lease: &LeaseId, receipt: &Receipt, work: u64) -> Receipt {
    let names = (&JobId::default(), lease);
    let trace = stated_trace(TraceForm::Run, names, receipt.trace, work);
    Receipt {
        trace,
        ..receipt.clone()
    }
}

/// Waits until a lease ends as a run again that gives something else ends it, and sees that no validator lost anything.
async fn rejected((network, handle): Site<'_>, lease: &LeaseId, code: u16) {
    wait_for(handle, "the rejection", |state| {
        state.lease(lease).is_some_and(|it| it.end().is_some())
    })
    .await;
    let state = handle.snapshot().state.clone();
    match state.lease(lease).unwrap().end() {
        Some(LeaseEnd::Rejected { code: found, .. }) => assert_eq!(*found, code),
        other => panic!("{other:?}"),
    }
    let now = state.validators().iter().map(|it| it.stake);
    let then = network.genesis.validators.iter().map(|it| it.stake);
    assert!(now.eq(then), "no validator lost anything");
}

/// Whether the committee that found a paid result right ran it, and how many have the answer that nobody gave them.
async fn delivered(handle: &NodeHandle, others: &[&NodeHandle], (job, lease): (&JobId, &LeaseId)) {
    let state = handle.snapshot().state.clone();
    let found = state.lease(lease).unwrap();
    let check = found.check.clone().unwrap();
    let SyncStage::Voting { round, .. } = check.stage else {
        panic!("{check:?}");
    };
    assert!(round.is_enough(round.right().len()), "{round:?}");
    let answer = found.receipt().unwrap().output;
    let mut holders = 0;
    for other in others {
        wait_for(other, "the payment", |state: &State| {
            let found = state.job(job);
            found.is_some_and(|it| it.state() == JobState::Paid)
        })
        .await;
        let limit = u64::from(EVIDENCE_BYTES_MAX);
        holders += usize::from(other.blobs().get(&answer, limit).unwrap().is_some());
    }
    assert!(holders >= 3, "{holders}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_run_by_its_committee_and_paid_for_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    // Programs of as much fuel as the sample's count as short.
    network.genesis.parameters.whole_run_macs_max = FUEL << 11;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let all: Vec<&NodeHandle> = validators.handles().collect();
    let site = (&network, handle);
    let program = Program::pi();
    crate::programs::register(&network, handle, &program).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let fuel = program.program.run(&program.input).answer.fuel;

    // One lies about the answer, the next one about its bill; both underbid the honest one.
    let [liar, dear, honest] = [2, 3, 0].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let sync = VerificationMode::Sync;
    let job = crate::programs::order_in(&network, handle, &program, sync).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    let (lie, answer) = program.lie(|it| it.output[0] ^= 1);
    let said = ProgramAnswer::decode(&answer).unwrap().fuel;
    commit(site, liar, lease, committed(&lease, &lie, said)).await;
    rejected(site, &lease, 91).await;
    offer_milli(&network, handle, dear, 15).await;
    let lease = lease_of(handle, &job, dear.address()).await;
    let (right, _) = program.honest();
    let more = committed(&lease, &right, fuel + 1);
    commit(site, dear, lease, more).await;
    rejected(site, &lease, 91).await;

    // What is right is paid, though its provider stores nothing anywhere.
    offer_milli(&network, handle, honest, 20).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    commit(site, honest, lease, committed(&lease, &right, fuel)).await;
    paid(handle, &job).await;
    let milli = tg_types::Amount::new(20 * 1_000_000_000_000_000);
    let bill = milli.checked_mul_div_ceil(fuel.max(FUEL / 4), FUEL);
    assert_eq!(Some(price(handle, &job)), bill);
    delivered(handle, &all, (&job, &lease)).await;
    assert_agree(validators.handles());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_integers_is_run_by_its_committee() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.whole_run_macs_max = WHOLE_RUN_MACS_USUAL;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let all: Vec<&NodeHandle> = validators.handles().collect();
    let site = (&network, handle);
    crate::work::register(&network, handle).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let model = model();
    let run = honest_trace(&model).digest();
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let job = crate::committee::order_in(&network, handle, VerificationMode::Sync).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    // Who knows the right run and says another answer, which its committee would open the commitment for.
    let lie = Receipt {
        trace: run,
        ..receipt_of(&model, &moved(&model))
    };
    commit(site, liar, lease, committed(&lease, &lie, 0)).await;
    rejected(site, &lease, 91).await;

    offer_milli(&network, handle, honest, 20).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    let right = receipt_of(&model, honest_trace(&model).tensors());
    assert_eq!(right.trace, run);
    commit(site, honest, lease, committed(&lease, &right, 0)).await;
    paid(handle, &job).await;
    delivered(handle, &all, (&job, &lease)).await;
    assert_agree(validators.handles());
}
