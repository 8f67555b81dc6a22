//! Disputes about runs that count their work, over real validators: each ends at one part, a node of a float model or a call of a program. What is
//! common to both.

use tg_ledger::{LeaseEnd, State, SyncStage};
use tg_node::NodeHandle;
use tg_types::{
    Amount, Digest, JobId, JobOrder, LeaseId, Receipt, TraceForm, Transaction, VerificationMode,
    Wallet, stated_trace,
};

use crate::committee::{offer_milli, perform_all, seed_of};
use crate::dispute::{argue, claimed};
use crate::programs::{paid, price};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, order_job, send};

/// A network, and the node of it that is asked.
pub(crate) type Site<'a> = (&'a Network, &'a NodeHandle);

/// A run that is disputed, and what its sides hand in.
pub(crate) trait DisputedRun {
    fn input(&self) -> &[u8];
    fn order(&self, state: &State) -> JobOrder;
    /// What an honest provider says of its run in mode `recompute`, the bytes of the answer, and the work.
    fn honest(&self) -> (Receipt, Vec<u8>, u64);
    /// Another answer than the right one.
    fn lie(&self) -> Vec<u8>;
    /// What a right run gives.
    fn claim(&self) -> Vec<u8>;
    /// A claim that is wrong in the bill.
    fn false_claim(&self) -> Vec<u8>;
    /// What shows that this claim is wrong, of a result with this receipt: a part of the run.
    fn fault(&self, claim: &[u8], result: (&LeaseId, &Receipt, &[u8])) -> Vec<u8>;
    /// What a liar shows: that a part is too large to be shown.
    fn evasion(&self) -> Vec<u8>;
}

/// What a provider of mode `optimistic` commits to that answers this. Whoever lies may say what it likes of the run.
fn watched(run: &impl DisputedRun, lease: &LeaseId, answer: &[u8]) -> Receipt {
    let (honest, _, work) = run.honest();
    let output = Digest::of_blob(answer);
    let trace = match output == honest.output {
        true => honest.trace,
        false => Digest::new([5; 32]),
    };
    let names = (&JobId::default(), lease);
    Receipt {
        output,
        trace: stated_trace(TraceForm::Run, names, trace, work),
        ..honest
    }
}

/// Serves a lease with this answer.
pub(crate) async fn serve_watched(
    (network, handle): Site<'_>,
    provider: &Wallet,
    lease: LeaseId,
    (receipt, answer): (Receipt, &[u8]),
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let evidence = handle.blobs().put(answer, 1 << 20).unwrap();
    let size = u32::try_from(answer.len()).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size,
    };
    send(network, handle, provider, show).await;
}

/// Waits until a result may be challenged.
pub(crate) async fn contestable(handle: &NodeHandle, lease: &LeaseId) {
    wait_for(handle, "the watcher", |state| {
        let check = state.lease(lease).and_then(|it| it.check.as_ref());
        check.is_some_and(|it| matches!(it.stage, SyncStage::Contestable { .. }))
    })
    .await;
}

async fn order(site: Site<'_>, run: &impl DisputedRun) -> JobId {
    let state = site.1.snapshot().state.clone();
    let order = JobOrder {
        mode: VerificationMode::Optimistic,
        ..run.order(&state)
    };
    order_job(site, run.input(), order).await
}

/// A watcher finds the lie of the first run, whose right one is then accused falsely, as the second one is.
pub(crate) async fn one_part_decides<R: DisputedRun>(
    runs: [R; 2],
    registered: impl AsyncFn(&Network, &NodeHandle),
) {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    // The sample counts as too much for all to run again.
    network.genesis.parameters.repeated_macs_max = 0;
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let site = (&network, handle);
    registered(&network, handle).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let [first, second] = runs;
    let job = order(site, &first).await;
    a_liar_loses_to_its_watcher(site, liar, &first, job).await;
    offer_milli(&network, handle, honest, 20).await;
    a_false_claim_falls(site, honest, &first, job).await;
    let job = order(site, &second).await;
    a_false_claim_falls(site, honest, &second, job).await;
    for node in validators.handles() {
        wait_for(node, "the payment", |state| {
            state.job(&job).is_some_and(|it| it.state().is_final())
        })
        .await;
    }
    assert_agree(validators.handles());
}

/// The watcher accuses by itself, and nothing that the liar hands in shows a wrong part of a right run.
async fn a_liar_loses_to_its_watcher(
    site: Site<'_>,
    liar: &Wallet,
    run: &impl DisputedRun,
    job: JobId,
) {
    let (network, handle) = site;
    let lease = lease_of(handle, &job, liar.address()).await;
    let lie = run.lie();
    let receipt = watched(run, &lease, &lie);
    serve_watched(site, liar, lease, (receipt, &lie)).await;
    assert_eq!(claimed(handle, &lease).await, run.claim());
    argue(network, handle, liar, (lease, &run.evasion())).await;
    let end_of = |state: &State| state.lease(&lease)?.end().cloned();
    wait_for(handle, "the rejection", |state| end_of(state).is_some()).await;
    let state = handle.snapshot().state.clone();
    let end = end_of(&state);
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
}

/// A stranger claims something else of a right run: the provider shows the part of which that is wrong, and is paid for its work.
async fn a_false_claim_falls(site: Site<'_>, honest: &Wallet, run: &impl DisputedRun, job: JobId) {
    let (network, handle) = site;
    let lease = lease_of(handle, &job, honest.address()).await;
    let answer = run.honest().1;
    let receipt = watched(run, &lease, &answer);
    serve_watched(site, honest, lease, (receipt.clone(), &answer)).await;
    contestable(handle, &lease).await;
    let stranger = &network.wallets[0];
    let challenge = Transaction::ChallengeResult { lease };
    send(network, handle, stranger, challenge).await;
    let claim = run.false_claim();
    argue(network, handle, stranger, (lease, &claim)).await;
    assert_eq!(claimed(handle, &lease).await, claim);
    let fault = run.fault(&claim, (&lease, &receipt, &answer));
    argue(network, handle, honest, (lease, &fault)).await;
    paid(handle, &job).await;
    assert!(price(handle, &job) > Amount::ZERO);
}
