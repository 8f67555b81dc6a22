//! Float models as jobs: an honest provider is paid for the work of its run, one that answers wrongly loses its collateral, a
//! model that takes more work than it declared ends with a reason and a bill, and hostile models are not registered.

use tg_float::job::trace::FloatTrace;
use tg_float::job::{FloatAnswer, FloatEnd, FloatLimits, FloatModel, FloatModelFile, NamedTensors};
use tg_float::{DType, Dim, FloatTensor, Graph, Input, Node};
use tg_ledger::{
    EvidenceTask, JobState, LeaseEnd, LeasePhase, ModelFacts, ModelState, Outcome, State, SyncStage,
};
use tg_node::{BlobStore, EvidenceChecker, NodeHandle, ProofChecker, storage};
use tg_proof::trace::challenge;
use tg_types::limits::{EVIDENCE_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};
use tg_types::{
    Address, Amount, Decode as _, Digest, Encode as _, JobId, JobNeeds, JobOrder, Label, LeaseId,
    ModelId, Receipt, RunCommitment, Tier, TimestampMs, Transaction, VerificationMode, Wallet,
};

use crate::committee::{offer_milli, perform_all, seed_of};
use crate::programs::{answer, code, paid, price};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, offer, order_job, send};

/// Units of work that a run may take.
const WORK: u64 = 400_000;

/// A float model with an input.
pub(crate) struct Float {
    files: FloatModelFile,
    pub(crate) model: FloatModel,
    pub(crate) input: Vec<u8>,
}

/// `softmax(x w)` of any number of rows.
fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.opsets.insert(String::new(), 13);
    let x = graph.fresh("x");
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![Dim::Named("rows".to_owned()), Dim::Known(16)]),
    });
    let weights = (0..160u16).map(|k| f32::from(k) * 0.01 - 0.8).collect();
    let w = graph.constant("w", FloatTensor::of(vec![16, 10], weights).unwrap());
    let (product, y) = (graph.fresh("product"), graph.fresh("y"));
    graph.append(Node::new(
        "multiply",
        "MatMul",
        13,
        vec![x, w],
        vec![product],
    ));
    graph.append(Node::new(
        "normalise",
        "Softmax",
        13,
        vec![product],
        vec![y],
    ));
    graph.outputs.push(y);
    graph
}

/// The same, normalised again and again: a run of more sections than are drawn.
fn deep_graph() -> Graph {
    let mut graph = graph();
    for number in 0..8 {
        let last = graph.outputs[0];
        let name = format!("again {number}");
        let next = graph.fresh(name.clone());
        graph.append(Node::new(&name, "Softmax", 13, vec![last], vec![next]));
        graph.outputs[0] = next;
    }
    graph
}

impl Float {
    fn of(graph: &Graph, rows: usize) -> Self {
        let limits = FloatLimits {
            work: WORK,
            ..FloatLimits::default()
        };
        let files = FloatModelFile::new(graph, limits).unwrap();
        let values = (0..16 * rows).map(|k| f32::from(u16::try_from(k % 97).unwrap()));
        let x = FloatTensor::of(vec![rows, 16], values.collect()).unwrap();
        Self {
            model: FloatModel::read(&files.file).unwrap(),
            files,
            input: NamedTensors(vec![("x".to_owned(), x)]).to_bytes(),
        }
    }

    /// A run within its work.
    pub(crate) fn small() -> Self {
        Self::of(&graph(), 20)
    }

    /// The same model, asked for more rows than it has work for.
    pub(crate) fn large() -> Self {
        Self::of(&graph(), 2_000)
    }

    pub(crate) fn honest(&self) -> (Receipt, Vec<u8>) {
        let run = self.model.run(&self.input);
        let answer = run.answer.to_bytes();
        let receipt = Receipt {
            program: self.model.id(),
            model: self.model.model_id(),
            input: Digest::of_blob(&self.input),
            output: Digest::of_blob(&answer),
            trace: run.trace,
            tier: Tier::Tgf1,
        };
        (receipt, answer)
    }

    /// What one gives who changes an answer and goes on as if it had not.
    pub(crate) fn lie(&self, change: impl FnOnce(&mut FloatAnswer)) -> (Receipt, Vec<u8>) {
        let (receipt, answer) = self.honest();
        let mut answer = FloatAnswer::from_bytes(&answer).unwrap();
        change(&mut answer);
        let answer = answer.to_bytes();
        let output = Digest::of_blob(&answer);
        (Receipt { output, ..receipt }, answer)
    }

    pub(crate) fn order(&self, state: &State) -> JobOrder {
        JobOrder {
            model: self.model.model_id(),
            input: Digest::of_blob(&self.input),
            input_len: u32::try_from(self.input.len()).unwrap(),
            mode: VerificationMode::Recompute,
            max_price: Amount::from_tgrid(10),
            deadline: TimestampMs::new(state.head().time.get() + 600_000),
            max_attempts: 3,
            retention: tg_types::DurationMs::ZERO,
            needs: JobNeeds::ANY_MACHINE,
        }
    }
}

pub(crate) async fn register(network: &Network, handle: &NodeHandle, float: &Float) -> ModelFacts {
    let [public_blob, weights_blob] = [&float.files.public, &float.files.file]
        .map(|bytes| handle.blobs().put(bytes, 1 << 20).unwrap());
    let model = float.model.model_id();
    let registration = Transaction::RegisterModel {
        model,
        public_blob,
        weights_blob,
        name: Label::new("classifier").unwrap(),
    };
    send(network, handle, &network.wallets[0], registration).await;
    let facts = |state: &State| match state.model(&model)?.state {
        ModelState::Active(facts) => Some(facts),
        _ => None,
    };
    wait_for(handle, "the model's check", |state| facts(state).is_some()).await;
    facts(&handle.snapshot().state).unwrap()
}

async fn order(network: &Network, handle: &NodeHandle, float: &Float) -> JobId {
    order_in(network, handle, float, VerificationMode::Recompute).await
}

async fn order_in(
    network: &Network,
    handle: &NodeHandle,
    float: &Float,
    mode: VerificationMode,
) -> JobId {
    let state = handle.snapshot().state.clone();
    let order = JobOrder {
        mode,
        ..float.order(&state)
    };
    order_job((network, handle), &float.input, order).await
}

/// The part of two TGRID, the price of the honest offer, for this much work.
fn bill(work: u64) -> Amount {
    let whole = Amount::from_tgrid(2);
    whole
        .checked_mul_div_ceil(work.max(WORK / 4), WORK)
        .unwrap()
}

#[tokio::test]
async fn a_float_model_is_paid_for_its_work_and_a_wrong_answer_costs_the_collateral() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let handle = validators.handle(0);
    let float = Float::small();
    let facts = register(&network, handle, &float).await;
    assert_eq!(
        (facts.tier, facts.macs, facts.provable),
        (Tier::Tgf1, WORK, false)
    );

    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer(&network, handle, liar, Amount::from_tgrid(1)).await;
    let job = order(&network, handle, &float).await;
    let first = lease_of(handle, &job, liar.address()).await;
    // One bit of one float.
    let lie = float.lie(|answer| *answer.output.last_mut().unwrap() ^= 1);
    answer(&network, handle, liar, first, lie).await;
    wait_for(handle, "the rejection", |state| {
        state.job(&job).unwrap().state() == JobState::Queued
    })
    .await;
    let state = handle.snapshot().state.clone();
    let phase = &state.lease(&first).unwrap().phase;
    let is_rejected = matches!(
        phase,
        LeasePhase::Ended {
            end: LeaseEnd::Rejected { code: 91, .. },
            ..
        }
    );
    assert!(is_rejected, "{phase:?}");
    let lost = Amount::from_tgrid(1_000).checked_sub(state.balance(&liar.address()));
    assert!(
        lost.unwrap() >= Amount::from_tgrid(1),
        "its collateral is burned: {lost:?}"
    );

    offer(&network, handle, honest, Amount::from_tgrid(2)).await;
    let second = lease_of(handle, &job, honest.address()).await;
    let right = float.honest();
    let output = right.0.output;
    let answered = FloatAnswer::from_bytes(&right.1).unwrap();
    assert_eq!(answered.end, FloatEnd::Finished);
    answer(&network, handle, honest, second, right).await;
    paid(handle, &job).await;
    assert_eq!(price(handle, &job), bill(answered.work));
    assert!(bill(answered.work) < Amount::from_tgrid(2));

    // Out of work: an answer like any other, with the whole of the bill.
    let large = Float::large();
    assert_eq!(large.model.model_id(), float.model.model_id());
    let job = order(&network, handle, &large).await;
    let third = lease_of(handle, &job, honest.address()).await;
    let right = large.honest();
    let answered = FloatAnswer::from_bytes(&right.1).unwrap();
    assert_eq!(answered.end, FloatEnd::OutOfWork("multiply".to_owned()));
    answer(&network, handle, honest, third, right).await;
    paid(handle, &job).await;
    assert_eq!((price(handle, &job), answered.work), (bill(WORK), WORK));

    // Nobody was given the answer; every validator has it, because it came to it itself.
    for handle in validators.handles() {
        wait_for(handle, "both jobs", |state| {
            state
                .job(&job)
                .is_some_and(|job| job.state() == JobState::Paid)
        })
        .await;
        let held = handle.blobs().get(&output, u64::from(EVIDENCE_BYTES_MAX));
        assert!(held.unwrap().is_some());
    }
    assert_agree(validators.handles());
}

/// What the ledger refuses: a float model is not proved, and an input has a most.
#[tokio::test]
async fn an_order_asks_of_a_float_model_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    let validators = network.start_checking(folder.path());
    let handle = validators.handle(0);
    let float = Float::small();
    register(&network, handle, &float).await;
    let state = handle.snapshot().state.clone();
    let wallet = &network.wallets[1];
    let refused = |change: fn(&mut JobOrder)| {
        let mut order = float.order(&state);
        change(&mut order);
        let nonce = state.nonce(&wallet.address());
        let transaction = Transaction::SubmitJob { order };
        handle.submit(wallet.sign(transaction, nonce, &network.genesis.domain))
    };
    for (change, expected) in [
        (
            (|order| order.mode = VerificationMode::Proof) as fn(&mut JobOrder),
            "TG-LED-022",
        ),
        (|order| order.input_len = 0, "TG-LED-024"),
        (|order| order.input_len = (1 << 20) + 1, "TG-LED-024"),
    ] {
        let error = refused(change).await.unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
    }
}

/// What a provider says of its run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SaidOfRun {
    Right,
    /// Every second node is said to have taken more work than it took, so that all but the last one are wrong.
    Wrong,
}

/// Serves a lease of mode `sync`: commits to a run, waits for the seed and opens what it draws.
async fn serve_sections(
    (network, handle): (&Network, &NodeHandle),
    provider: &Wallet,
    float: &Float,
    (lease, said): (LeaseId, SaidOfRun),
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let FloatTrace {
        answer, mut record, ..
    } = float.model.trace(&float.input);
    if said == SaidOfRun::Wrong {
        let last = record.0.len() - 1;
        let nodes = record.0[..last].iter_mut().step_by(2);
        nodes.for_each(|node| node.work += 1);
    }
    let (honest, _) = float.honest();
    let committed = record.commitment(&float.input, &answer);
    let committed = RunCommitment::read(&committed).for_lease(&lease);
    let receipt = Receipt {
        trace: committed.digest(),
        ..honest
    };
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let seed = seed_of(&handle.snapshot().state, &lease).unwrap();
    let mut file = float.model.open(&float.input, &challenge(&seed, &lease));
    if let Some(opened) = &mut file.opened {
        opened.record = record;
    }
    let file = file.to_bytes();
    let limit = u64::from(TRACE_EVIDENCE_BYTES_MAX);
    let evidence = handle.blobs().put(&file, limit).unwrap();
    let size = u32::try_from(file.len()).unwrap();
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size,
    };
    send(network, handle, provider, show).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committee_executes_drawn_sections_of_a_float_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let float = Float::of(&deep_graph(), 20);
    register(&network, handle, &float).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;

    // The liar underbids, is caught at the node that it lied about, and the job goes to the honest one.
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let sync = VerificationMode::Sync;
    let job = order_in(&network, handle, &float, sync).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    let site = (&network, handle);
    serve_sections(site, liar, &float, (lease, SaidOfRun::Wrong)).await;
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
    let same_stake =
        |(now, then): (&tg_ledger::Validator, &tg_ledger::Validator)| now.stake == then.stake;
    let mut both = state.validators().iter().zip(&network.genesis.validators);
    assert!(both.all(same_stake), "no validator lost anything");

    offer_milli(&network, handle, honest, 20).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    serve_sections(site, honest, &float, (lease, SaidOfRun::Right)).await;
    paid(handle, &job).await;
    // It is paid for what the run took, as its receipt says.
    let work = float.model.run(&float.input).answer.work;
    let milli = Amount::new(20 * 1_000_000_000_000_000);
    let billed = milli.checked_mul_div_ceil(work.max(WORK / 4), WORK);
    assert_eq!(Some(price(handle, &job)), billed);
    let state = handle.snapshot().state.clone();
    let check = state.lease(&lease).unwrap().check.clone().unwrap();
    let SyncStage::Voting { round, .. } = check.stage else {
        unreachable!("{check:?}");
    };
    assert!(round.is_enough(round.right().len()), "{round:?}");

    // A run that does not finish is shown whole, and its committee repeats it.
    let large = Float::of(&deep_graph(), 2_000);
    let job = order_in(&network, handle, &large, sync).await;
    let lease = lease_of(handle, &job, honest.address()).await;
    serve_sections(site, honest, &large, (lease, SaidOfRun::Right)).await;
    paid(handle, &job).await;
    assert_eq!(price(handle, &job), milli);
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

/// Evidence of a run, and everything near it that is refused.
#[test]
fn only_the_answer_of_a_float_run_is_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let float = Float::small();
    let public_blob = blobs.put(&float.files.public, 1 << 20).unwrap();
    let weights_blob = blobs.put(&float.files.file, 1 << 20).unwrap();
    let checker = ProofChecker::default();
    let task = |receipt: &Receipt, evidence: Digest| EvidenceTask::Lease {
        lease: LeaseId::new([1; 32]),
        job: JobId::new([7; 32]),
        provider: Address::new([9; 20]),
        model: float.model.model_id(),
        mode: VerificationMode::Recompute,
        public_blob,
        weights_blob,
        program: float.model.id(),
        receipt: Box::new(receipt.clone()),
        evidence,
        size: 1,
    };
    let (honest, bytes) = float.honest();
    let missing = checker.check(&task(&honest, honest.output), &blobs);
    let is_missing =
        matches!(missing, Err(tg_node::CheckError::Missing { digest }) if digest == honest.input);
    assert!(is_missing, "the input: {missing:?}");
    blobs.put(&float.input, 1 << 20).unwrap();
    let check = |receipt: &Receipt, evidence: Digest| {
        checker.check(&task(receipt, evidence), &blobs).unwrap()
    };
    let work = FloatAnswer::from_bytes(&bytes).unwrap().work;
    let accepted = check(&honest, honest.output);
    assert_eq!(accepted, Outcome::ProgramAccepted { macs: work });
    let lies: [fn(&mut FloatAnswer); 4] = [
        |answer| *answer.output.last_mut().unwrap() ^= 0x80,
        |answer| answer.output.push(0),
        |answer| answer.work -= 1,
        |answer| answer.end = FloatEnd::OutOfWork("multiply".to_owned()),
    ];
    for lie in lies {
        let (receipt, _) = float.lie(lie);
        assert_eq!(code(check(&receipt, receipt.output)), 91);
    }
    let strange = Digest::new([5; 32]);
    assert_eq!(code(check(&honest, strange)), 90);
    let trace = Receipt {
        trace: strange,
        ..honest
    };
    assert_eq!(code(check(&trace, trace.output)), 91);
    let other = Receipt {
        model: ModelId::new([5; 32]),
        ..honest
    };
    assert_eq!(code(check(&other, other.output)), 85);
}

/// What the registration of a float model is checked for.
#[test]
fn hostile_float_models_are_not_registered() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let float = Float::small();
    let put = |bytes: &[u8]| blobs.put(bytes, 1 << 20).unwrap();
    let (public, file) = (put(&float.files.public), put(&float.files.file));
    let checker = ProofChecker::default();
    let registered = |model, public_blob| {
        let task = EvidenceTask::Model { model, public_blob };
        checker.check(&task, &blobs).unwrap()
    };
    let model = float.model.model_id();
    assert!(matches!(
        registered(model, public),
        Outcome::ModelAccepted(_)
    ));
    assert_eq!(code(registered(ModelId::new([5; 32]), public)), 84);
    assert_eq!(
        storage::model(&blobs, &public, &file),
        storage::Holding::Held
    );
    // An operator of no known cost, put into the public part behind the client's back.
    let bytes = &float.files.public;
    let place = bytes.windows(7).position(|it| it == b"Softmax").unwrap();
    let mut unknown = bytes.clone();
    unknown[place..place + 7].copy_from_slice(b"Unknown");
    let unknown = put(&unknown);
    assert_eq!(code(registered(model, unknown)), 94);
    let wrong = |digest| storage::Holding::Wrong(digest);
    assert_eq!(storage::model(&blobs, &unknown, &file), wrong(unknown));
    // More work than a validator does.
    let mut greedy = bytes.clone();
    greedy[6..14].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(code(registered(model, put(&greedy))), 94);
    // Other constants, and constants that are no elements of their type.
    let mut other = float.files.file.clone();
    *other.last_mut().unwrap() ^= 1;
    let other = put(&other);
    assert_eq!(storage::model(&blobs, &public, &other), wrong(other));
    assert_eq!(storage::model(&blobs, &public, &public), wrong(public));
}
