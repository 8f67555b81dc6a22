//! Mode `replicate` over real validators: drawn members agree and are paid, or differ and every validator runs the program.

use tg_ledger::{JobState, Lease, LeaseEnd, ReplicaStage, State};
use tg_node::NodeHandle;
use tg_types::transaction::result_seal;
use tg_types::{
    Amount, Digest, JobId, JobNeeds, JobOrder, Receipt, TraceForm, Transaction, VerificationMode,
    Wallet, job_id, stated_trace,
};
use tg_wasm::ProgramAnswer;

use crate::committee::{offer_milli, perform_all};
use crate::programs::{Program, order_of, register};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::send;

const SALT: Digest = Digest::new([7; 32]);

async fn order(network: &Network, handle: &NodeHandle, program: &Program) -> JobId {
    let wallet = &network.wallets[1];
    let state = handle.snapshot().state.clone();
    handle.blobs().put(&program.input, 1 << 20).unwrap();
    let order = JobOrder {
        mode: VerificationMode::Replicate,
        needs: JobNeeds {
            gang: 2,
            ..JobNeeds::ANY_MACHINE
        },
        ..order_of(program, &state)
    };
    let transaction = Transaction::SubmitJob { order };
    let nonce = state.nonce(&wallet.address());
    let signed = wallet.sign(transaction.clone(), nonce, &network.genesis.domain);
    let job = job_id(signed.id(&network.genesis.domain));
    send(network, handle, wallet, transaction).await;
    job
}

fn gang(state: &State, job: &JobId) -> Vec<Lease> {
    let lead = state.job(job).and_then(|it| it.live_lease());
    let lead = lead.and_then(|it| state.lease(&it));
    lead.map_or_else(Vec::new, |it| state.gang_of(it).cloned().collect())
}

fn stage(state: &State, job: &JobId) -> Option<ReplicaStage> {
    gang(state, job).first()?.replicas
}

/// The receipt of a member that found this.
fn found(program: &Program, job: &JobId, (receipt, bytes): (Receipt, Vec<u8>)) -> Receipt {
    let run = program.program.run(&program.input);
    let fuel = ProgramAnswer::decode(&bytes).unwrap().fuel;
    let names = (job, &Default::default());
    let trace = stated_trace(TraceForm::Replica, names, run.trace, fuel);
    Receipt { trace, ..receipt }
}

/// The members start, seal and open what `answer_of` says of their wallets.
async fn serve(
    network: &Network,
    handle: &NodeHandle,
    (job, members): (&JobId, [&Wallet; 2]),
    answer_of: &dyn Fn(&Wallet) -> Receipt,
) {
    wait_for(handle, "the drawing", |state| gang(state, job).len() == 2).await;
    let leases = gang(&handle.snapshot().state, job);
    let holder = |lease: &Lease| {
        let mut all = members.into_iter();
        all.find(|it| it.address() == lease.provider).unwrap()
    };
    for lease in &leases {
        let start = Transaction::StartLease { lease: lease.id };
        send(network, handle, holder(lease), start).await;
    }
    for lease in &leases {
        let receipt = answer_of(holder(lease));
        let seal = Transaction::SealResult {
            lease: lease.id,
            seal: result_seal(&lease.id, &receipt, &SALT),
        };
        send(network, handle, holder(lease), seal).await;
    }
    wait_for(handle, "all seals", |state| stage(state, job).is_some()).await;
    for lease in &leases {
        let open = Transaction::OpenResult {
            lease: lease.id,
            receipt: answer_of(holder(lease)),
            salt: SALT,
        };
        send(network, handle, holder(lease), open).await;
    }
}

/// The member that leads names the answer.
async fn deliver(
    network: &Network,
    handle: &NodeHandle,
    (job, members): (&JobId, [&Wallet; 2]),
    answer: &[u8],
) {
    let lead = gang(&handle.snapshot().state, job)[0].clone();
    let evidence = handle.blobs().put(answer, 1 << 20).unwrap();
    let leading = members.into_iter().find(|it| it.address() == lead.provider);
    let show = Transaction::SubmitEvidence {
        lease: lead.id,
        evidence,
        size: u32::try_from(answer.len()).unwrap(),
    };
    send(network, handle, leading.unwrap(), show).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_agree_and_are_paid_and_where_they_differ_a_run_of_all_decides() {
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
    let members @ [honest, liar] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, honest, 20).await;
    offer_milli(&network, handle, liar, 20).await;

    // Both find the same: the one that leads delivers the answer.
    let job = order(&network, handle, &program).await;
    let answer = program.honest();
    let right = found(&program, &job, answer.clone());
    serve(&network, handle, (&job, members), &|_| right.clone()).await;
    wait_for(handle, "the comparison", |state| {
        matches!(stage(state, &job), Some(ReplicaStage::Agreed { .. }))
    })
    .await;
    deliver(&network, handle, (&job, members), &answer.1).await;
    let is_paid = |job: JobId| {
        move |state: &State| {
            state
                .job(&job)
                .is_some_and(|it| it.state() == JobState::Paid)
        }
    };
    wait_for(handle, "the payment", is_paid(job)).await;
    let state = handle.snapshot().state.clone();
    let settlement = *state.job(&job).unwrap().settlement().unwrap();
    assert!(!settlement.price.is_zero());
    assert_eq!(settlement.price, settlement.members);

    // One lies: what every validator finds is paid and delivered, and it pays for their run.
    let job = order(&network, handle, &program).await;
    let right = found(&program, &job, program.honest());
    let wrong = found(&program, &job, program.lie(|answer| answer.output[0] ^= 1));
    serve(
        &network,
        handle,
        (&job, members),
        &|it| match it.address() == liar.address() {
            true => wrong.clone(),
            false => right.clone(),
        },
    )
    .await;
    wait_for(handle, "the payment after a run", is_paid(job)).await;
    let state = handle.snapshot().state.clone();
    let record = state.job(&job).unwrap();
    assert_eq!(record.settlement().unwrap().members, Amount::ZERO);
    let leases = state.leases().iter().filter(|it| it.job == job);
    for lease in leases {
        let is_liar = lease.provider == liar.address();
        let end = lease.end().unwrap();
        assert_eq!(matches!(end, LeaseEnd::Rejected { code: 97, .. }), is_liar);
        assert_eq!(*end == LeaseEnd::Fulfilled, !is_liar);
    }
    for seat in 0..4 {
        let held = validators.handle(seat).blobs().get(&right.output, 1 << 20);
        assert!(held.unwrap().is_some(), "validator {seat} has the answer");
    }
    assert_agree(validators.handles());
}
