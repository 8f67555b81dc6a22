//! Programs as jobs: an honest provider is paid for what its run burned, one that answers wrongly loses its collateral, and a
//! program that loops ends with a reason and a bill.

use std::path::Path;

use tg_ledger::{
    EvidenceTask, JobState, LeaseEnd, LeasePhase, ModelFacts, ModelState, Outcome, State, SyncStage,
};
use tg_node::{BlobStore, EvidenceChecker, NodeHandle, ProofChecker};
use tg_proof::trace::challenge;
use tg_types::limits::{EVIDENCE_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};
use tg_types::{
    Address, Amount, Digest, Encode as _, JobId, JobNeeds, JobOrder, Label, LeaseId, ModelId,
    Receipt, RunCommitment, Tier, TimestampMs, Transaction, VerificationMode, Wallet,
};
use tg_wasm::trace::ProgramTrace;
use tg_wasm::{ProgramAnswer, ProgramEnd, ProgramFile, ProgramInput, RunLimits, WasmProgram};

use crate::committee::{offer_milli, perform_all, seed_of};
use crate::support::{Network, assert_agree, wait_for};
use crate::work::{lease_of, offer, order_job, send};

pub(crate) const FUEL: u64 = 4_000_000;

/// A program with an input.
pub(crate) struct Program {
    pub(crate) file: Vec<u8>,
    pub(crate) program: WasmProgram,
    pub(crate) input: Vec<u8>,
}

impl Program {
    fn of(module: Vec<u8>, input: &ProgramInput) -> Self {
        let limits = RunLimits {
            fuel: FUEL,
            ..RunLimits::default()
        };
        let file = ProgramFile::new(module, limits).encode();
        Self {
            program: WasmProgram::read(&file).unwrap(),
            file,
            input: input.encode(),
        }
    }

    /// The module of pi.
    pub(crate) fn module() -> Vec<u8> {
        let path = "../../examples/programs/pi.wasm";
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    }

    /// What validators find of a file.
    pub(crate) fn facts(file: &[u8]) -> ModelFacts {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
        let task = EvidenceTask::Model {
            model: WasmProgram::read(file).unwrap().model_id(),
            public_blob: blobs.put(file, 1 << 20).unwrap(),
        };
        match ProofChecker::default().check(&task, &blobs).unwrap() {
            Outcome::ModelAccepted(facts) => facts,
            other => panic!("{other:?}"),
        }
    }

    /// 20,000 points of pi, in two chunks: less than half of its fuel.
    pub(crate) fn pi() -> Self {
        let module = Self::module();
        let chunk = |seed: u64| [seed, 10_000].map(u64::to_le_bytes).concat();
        Self::of(module, &ProgramInput::steps(vec![chunk(1), chunk(2)]))
    }

    /// The same program, asked for as few points in each of ten chunks: a run of eleven sections.
    pub(crate) fn chunked() -> Self {
        let chunk = |seed: u64| [seed, 100].map(u64::to_le_bytes).concat();
        let input = ProgramInput::steps((0..10).map(chunk).collect()).encode();
        Self {
            input,
            ..Self::pi()
        }
    }

    /// The same program, asked for more points than it has fuel for.
    pub(crate) fn endless() -> Self {
        let more = [1, u64::MAX].map(u64::to_le_bytes).concat();
        let input = ProgramInput::steps(vec![more]).encode();
        Self {
            input,
            ..Self::pi()
        }
    }

    pub(crate) fn honest(&self) -> (Receipt, Vec<u8>) {
        let run = self.program.run(&self.input);
        let answer = run.answer.encode();
        let receipt = Receipt {
            program: self.program.id(),
            model: self.program.model_id(),
            input: Digest::of_blob(&self.input),
            output: Digest::of_blob(&answer),
            trace: run.trace,
            tier: Tier::Wasm1,
        };
        (receipt, answer)
    }

    /// What one gives who changes an answer and goes on as if it had not.
    pub(crate) fn lie(&self, change: impl FnOnce(&mut ProgramAnswer)) -> (Receipt, Vec<u8>) {
        let (receipt, answer) = self.honest();
        let mut answer = ProgramAnswer::decode(&answer).unwrap();
        change(&mut answer);
        let answer = answer.encode();
        let output = Digest::of_blob(&answer);
        (Receipt { output, ..receipt }, answer)
    }
}

pub(crate) async fn register(
    network: &Network,
    handle: &NodeHandle,
    program: &Program,
) -> ModelFacts {
    let blob = handle.blobs().put(&program.file, 1 << 20).unwrap();
    let model = program.program.model_id();
    let registration = Transaction::RegisterModel {
        model,
        public_blob: blob,
        weights_blob: blob,
        name: Label::new("pi").unwrap(),
    };
    send(network, handle, &network.wallets[0], registration).await;
    let facts = |state: &State| match state.model(&model)?.state {
        ModelState::Active(facts) => Some(facts),
        _ => None,
    };
    wait_for(handle, "the program's check", |state| {
        facts(state).is_some()
    })
    .await;
    facts(&handle.snapshot().state).unwrap()
}

pub(crate) fn order_of(program: &Program, state: &State) -> JobOrder {
    JobOrder {
        model: program.program.model_id(),
        input: Digest::of_blob(&program.input),
        input_len: u32::try_from(program.input.len()).unwrap(),
        mode: VerificationMode::Recompute,
        max_price: Amount::from_tgrid(10),
        deadline: TimestampMs::new(state.head().time.get() + 600_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    }
}

async fn order(network: &Network, handle: &NodeHandle, program: &Program) -> JobId {
    order_in(network, handle, program, VerificationMode::Recompute).await
}

pub(crate) async fn order_in(
    network: &Network,
    handle: &NodeHandle,
    program: &Program,
    mode: VerificationMode,
) -> JobId {
    let state = handle.snapshot().state.clone();
    let order = JobOrder {
        mode,
        ..order_of(program, &state)
    };
    order_job((network, handle), &program.input, order).await
}

/// Serves a lease with this answer, whose bytes it gives to nobody.
pub(crate) async fn answer(
    network: &Network,
    handle: &NodeHandle,
    provider: &Wallet,
    lease: LeaseId,
    (receipt, bytes): (Receipt, Vec<u8>),
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let evidence = receipt.output;
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    let show = Transaction::SubmitEvidence {
        lease,
        evidence,
        size: u32::try_from(bytes.len()).unwrap(),
    };
    send(network, handle, provider, show).await;
}

pub(crate) async fn paid(handle: &NodeHandle, job: &JobId) {
    wait_for(handle, "the payment", |state| {
        state.job(job).unwrap().state() == JobState::Paid
    })
    .await;
}

/// What the provider of a paid job got for it.
pub(crate) fn price(handle: &NodeHandle, job: &JobId) -> Amount {
    let state = &handle.snapshot().state;
    state.job(job).unwrap().settlement().unwrap().price
}

/// The part of two TGRID, the price of the honest offer, for this much fuel.
fn bill(fuel: u64) -> Amount {
    let whole = Amount::from_tgrid(2);
    whole
        .checked_mul_div_ceil(fuel.max(FUEL / 4), FUEL)
        .unwrap()
}

#[tokio::test]
async fn a_program_is_paid_for_what_it_burned_and_a_wrong_answer_costs_the_collateral() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let handle = validators.handle(0);
    let program = Program::pi();
    let facts = register(&network, handle, &program).await;
    assert_eq!(
        (facts.tier, facts.macs, facts.provable),
        (Tier::Wasm1, FUEL, false)
    );

    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer(&network, handle, liar, Amount::from_tgrid(1)).await;
    let job = order(&network, handle, &program).await;
    let first = lease_of(handle, &job, liar.address()).await;
    let lie = program.lie(|answer| answer.output[0] ^= 1);
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
    let lost = Amount::from_tgrid(1_000)
        .checked_sub(state.balance(&liar.address()))
        .unwrap();
    assert!(
        lost >= Amount::from_tgrid(1),
        "its collateral is burned: {lost}"
    );

    offer(&network, handle, honest, Amount::from_tgrid(2)).await;
    let second = lease_of(handle, &job, honest.address()).await;
    let right = program.honest();
    let output = right.0.output;
    let answered = ProgramAnswer::decode(&right.1).unwrap();
    assert_eq!(answered.end, ProgramEnd::Finished);
    answer(&network, handle, honest, second, right).await;
    paid(handle, &job).await;
    assert_eq!(price(handle, &job), bill(answered.fuel));
    assert!(bill(answered.fuel) < Amount::from_tgrid(2));

    // Out of fuel: an answer like any other, with the whole of the bill.
    let endless = Program::endless();
    let job = order(&network, handle, &endless).await;
    let third = lease_of(handle, &job, honest.address()).await;
    let right = endless.honest();
    let answered = ProgramAnswer::decode(&right.1).unwrap();
    assert_eq!(answered.end, ProgramEnd::OutOfFuel);
    answer(&network, handle, honest, third, right).await;
    paid(handle, &job).await;
    assert_eq!(price(handle, &job), bill(answered.fuel));
    assert!(answered.fuel > FUEL * 99 / 100);

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

/// What the ledger refuses: a program cannot be proved, a model is not run again, and an input has a most.
#[tokio::test]
async fn an_order_asks_of_a_program_what_a_program_can() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    let validators = network.start_checking(folder.path());
    let handle = validators.handle(0);
    let program = Program::pi();
    register(&network, handle, &program).await;
    let state = handle.snapshot().state.clone();
    let good = order_of(&program, &state);
    let refused: [(JobOrder, &str); 3] = [
        (
            JobOrder {
                mode: VerificationMode::Proof,
                ..good.clone()
            },
            "TG-LED-022",
        ),
        (
            JobOrder {
                input_len: 0,
                ..good.clone()
            },
            "TG-LED-024",
        ),
        (
            JobOrder {
                input_len: (1 << 20) + 1,
                ..good
            },
            "TG-LED-024",
        ),
    ];
    let wallet = &network.wallets[1];
    for (order, code) in refused {
        let nonce = state.nonce(&wallet.address());
        let signed = wallet.sign(
            Transaction::SubmitJob { order },
            nonce,
            &network.genesis.domain,
        );
        let error = handle.submit(signed).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

/// The code of a rejection.
pub(crate) fn code(outcome: Outcome) -> u16 {
    match outcome {
        Outcome::Rejected { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

/// Evidence of a program, and everything near it that is refused.
#[test]
fn only_the_answer_of_a_run_is_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let program = Program::pi();
    let public_blob = blobs.put(&program.file, 1 << 20).unwrap();
    let checker = ProofChecker::default();
    let task = |receipt: &Receipt, evidence: Digest| EvidenceTask::Lease {
        lease: LeaseId::new([1; 32]),
        job: JobId::new([7; 32]),
        provider: Address::new([9; 20]),
        model: program.program.model_id(),
        mode: VerificationMode::Recompute,
        public_blob,
        weights_blob: public_blob,
        program: program.program.id(),
        receipt: Box::new(receipt.clone()),
        evidence,
        size: 1,
    };
    let (honest, bytes) = program.honest();
    let missing = checker
        .check(&task(&honest, honest.output), &blobs)
        .unwrap_err();
    let is_missing =
        matches!(missing, tg_node::CheckError::Missing { digest } if digest == honest.input);
    assert!(is_missing, "the input: {missing:?}");
    blobs.put(&program.input, 1 << 20).unwrap();
    let check = |receipt: &Receipt, evidence: Digest| {
        checker.check(&task(receipt, evidence), &blobs).unwrap()
    };
    let fuel = ProgramAnswer::decode(&bytes).unwrap().fuel;
    assert_eq!(
        check(&honest, honest.output),
        Outcome::ProgramAccepted { macs: fuel }
    );
    let lies: [fn(&mut ProgramAnswer); 5] = [
        |answer| answer.output[0] ^= 1,
        |answer| answer.output.push(0),
        |answer| answer.fuel += 1,
        |answer| answer.calls -= 1,
        |answer| answer.end = ProgramEnd::OutOfFuel,
    ];
    for lie in lies {
        let (receipt, _) = program.lie(lie);
        assert_eq!(code(check(&receipt, receipt.output)), 91);
    }
    let strange = Digest::new([5; 32]);
    assert_eq!(code(check(&honest, strange)), 90);
    let trace = Receipt {
        trace: strange,
        ..honest
    };
    assert_eq!(code(check(&trace, trace.output)), 91);
    for receipt in [
        Receipt {
            program: tg_types::ProgramId::new([5; 32]),
            ..honest
        },
        Receipt {
            model: ModelId::new([5; 32]),
            ..honest
        },
    ] {
        assert_eq!(code(check(&receipt, receipt.output)), 85);
    }
}

/// What the registration of a program is checked for.
#[test]
fn a_program_is_registered_under_its_own_id_and_only_if_the_profile_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let program = Program::pi();
    let public_blob = blobs.put(&program.file, 1 << 20).unwrap();
    let checker = ProofChecker::default();
    let task = |model, public_blob| EvidenceTask::Model { model, public_blob };
    let registered = |model, blob| checker.check(&task(model, blob), &blobs).unwrap();
    let model = program.program.model_id();
    assert!(matches!(
        registered(model, public_blob),
        Outcome::ModelAccepted(_)
    ));
    assert_eq!(code(registered(ModelId::new([5; 32]), public_blob)), 84);
    let bad = ProgramFile::new(b"\0asm\x01\0\0\0".to_vec(), RunLimits::default()).encode();
    let bad = blobs.put(&bad, 1 << 20).unwrap();
    assert_eq!(code(registered(model, bad)), 89);
}

/// Serves a lease of mode `sync`: commits to a run, waits for the seed and opens what it draws. With `more` it bills a unit more for each call.
async fn serve_calls(
    (network, handle): (&Network, &NodeHandle),
    provider: &Wallet,
    program: &Program,
    (lease, more): (LeaseId, bool),
) {
    send(network, handle, provider, Transaction::StartLease { lease }).await;
    let ProgramTrace {
        mut answer,
        mut record,
        ..
    } = program.program.trace(&program.input).unwrap();
    if more {
        for (call, record) in (1..).zip(&mut record.0) {
            record.fuel += call;
            answer.fuel += 1;
        }
    }
    let (honest, _) = program.honest();
    let committed = record.commitment(&program.input, &answer);
    let committed = RunCommitment::read(&committed).for_lease(&lease);
    let receipt = Receipt {
        output: Digest::of_blob(&answer.encode()),
        trace: committed.digest(),
        ..honest
    };
    let commit = Transaction::CommitReceipt { lease, receipt };
    send(network, handle, provider, commit).await;
    wait_for(handle, "the seed", |state| seed_of(state, &lease).is_some()).await;
    let seed = seed_of(&handle.snapshot().state, &lease).unwrap();
    let challenge = challenge(&seed, &lease);
    let mut file = program.program.open(&program.input, &challenge).unwrap();
    file.answer = answer.encode();
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
async fn a_committee_runs_drawn_sections_of_a_program_again() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start_checking(folder.path());
    let _duties = perform_all(&network, &validators);
    let handle = validators.handle(0);
    let program = Program::chunked();
    register(&network, handle, &program).await;
    wait_for(handle, "the key of seeds", |state| {
        state.seeds().key().is_some()
    })
    .await;

    // The liar underbids, is caught at a call that it lied about, and the job goes to the honest one.
    let [liar, honest] = [2, 3].map(|index: usize| &network.wallets[index]);
    offer_milli(&network, handle, liar, 10).await;
    let sync = VerificationMode::Sync;
    let job = order_in(&network, handle, &program, sync).await;
    let lease = lease_of(handle, &job, liar.address()).await;
    let site = (&network, handle);
    serve_calls(site, liar, &program, (lease, true)).await;
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
    serve_calls(site, honest, &program, (lease, false)).await;
    paid(handle, &job).await;
    // It is paid for what the run burned, as its receipt says.
    let milli = Amount::new(20 * 1_000_000_000_000_000);
    let billed = |fuel: u64| milli.checked_mul_div_ceil(fuel.max(FUEL / 4), FUEL);
    let burned = program.program.run(&program.input).answer.fuel;
    assert_eq!(Some(price(handle, &job)), billed(burned));
    let state = handle.snapshot().state.clone();
    let check = state.lease(&lease).unwrap().check.clone().unwrap();
    let SyncStage::Voting { round, .. } = check.stage else {
        unreachable!("{check:?}");
    };
    assert!(round.is_enough(round.right().len()), "{round:?}");

    // A run of few calls, and one that does not finish, are shown whole, and their committees repeat them.
    for whole in [Program::pi(), Program::endless()] {
        let job = order_in(&network, handle, &whole, sync).await;
        let lease = lease_of(handle, &job, honest.address()).await;
        serve_calls(site, honest, &whole, (lease, false)).await;
        paid(handle, &job).await;
        let burned = whole.program.run(&whole.input).answer.fuel;
        assert_eq!(Some(price(handle, &job)), billed(burned));
        // Nobody was given the answer by itself; every validator has it, because it was in what it looked at.
        let (receipt, _) = whole.honest();
        for other in validators.handles() {
            wait_for(other, "the job", |state| {
                state
                    .job(&job)
                    .is_some_and(|job| job.state() == JobState::Paid)
            })
            .await;
            let limit = u64::from(EVIDENCE_BYTES_MAX);
            assert!(other.blobs().get(&receipt.output, limit).unwrap().is_some());
        }
    }
    assert_agree(validators.handles());
}
