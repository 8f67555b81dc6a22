//! Ended jobs beyond the bound leave the state, oldest first, with their leases and leaves.

use tg_types::{
    Amount, Digest, DurationMs, Encode, JobNeeds, JobOrder, Label, ModelId, ProgramId, TimestampMs,
    Transaction, VerificationMode, Wallet,
};

use crate::apply::Execution;
use crate::{
    ConsensusKey, Genesis, JobState, Model, ModelFacts, ModelState, OpenStage, Parameters,
    Proposal, State, Validator, development_domain, propose,
};

/// Longer than any step of a test's clock.
const LEAP: DurationMs = DurationMs::from_secs(365 * 24 * 3600);

pub(super) const MODEL: ModelId = ModelId::new([1; 32]);

pub(super) fn network() -> State {
    let genesis = Genesis {
        domain: development_domain(),
        // Tests leap in time, and rent has its own.
        parameters: Parameters {
            time_step_max: LEAP,
            outage_min: LEAP,
            rent_full_hour: Amount::ZERO,
            ..Parameters::development()
        },
        timestamp: TimestampMs::new(1_000),
        accounts: vec![(
            Wallet::from_seed(b"alice").address(),
            Amount::from_tgrid(10),
        )],
        validators: vec![Validator {
            address: Wallet::from_seed(b"validator").address(),
            key: ConsensusKey::new([0; 32]),
            stake: Amount::ZERO,
        }],
    };
    let mut state = State::genesis(&genesis).unwrap();
    state.put_model(Model {
        id: MODEL,
        owner: Wallet::from_seed(b"alice").address(),
        public_blob: Digest::default(),
        weights_blob: Digest::default(),
        name: Label::default(),
        registered_at: TimestampMs::ZERO,
        registered_height: tg_types::Height::ZERO,
        state: ModelState::Active(ModelFacts {
            program: ProgramId::default(),
            tier: tg_types::Tier::Tgx1,
            macs: 1,
            input_len: 1,
            output_len: 1,
            provable: true,
            proof_bytes: 1,
            work: 1,
            memory: 1,
            trace_bytes: 1,
            read_bytes: 1,
            looks: 0,
        }),
        storage: crate::Storage::default(),
        owners_paid: Vec::new(),
        jobs: 0,
        rent: crate::Rent::default(),
    });
    state.seal();
    state
}

/// `count` jobs that were ordered and cancelled, one after the other.
pub(super) fn with_cancelled_jobs(count: u64) -> State {
    let mut state = network();
    let alice = Wallet::from_seed(b"alice");
    for index in 0..count {
        let order = JobOrder {
            model: MODEL,
            input: Digest::default(),
            input_len: 1,
            mode: VerificationMode::None,
            max_price: Amount::from_tgrid(1),
            deadline: TimestampMs::new(100_000),
            max_attempts: 1,
            retention: tg_types::DurationMs::ZERO,
            needs: JobNeeds::ANY_MACHINE,
        };
        let submit = alice.sign(Transaction::SubmitJob { order }, 2 * index, state.domain());
        let job = tg_types::job_id(submit.id(state.domain()));
        let cancel = alice.sign(
            Transaction::CancelJob { job },
            2 * index + 1,
            state.domain(),
        );
        let mut proposal = Proposal::empty(
            state.validators()[0].address,
            TimestampMs::new(2_000 + index),
        );
        proposal.transactions = vec![submit, cancel];
        let proposed = propose(&state, proposal).unwrap();
        assert_eq!(proposed.refused, []);
        state = proposed.state;
    }
    state
}

#[test]
fn the_oldest_leave_first() {
    let state = with_cancelled_jobs(5);
    let sequences =
        |state: &State| -> Vec<u64> { state.ended_jobs().map(|job| job.sequence).collect() };
    assert_eq!(sequences(&state), [4, 3, 2, 1, 0]);
    let mut execution = Execution::begin(&state, TimestampMs::new(50_000));
    execution.prune(5).unwrap();
    assert_eq!(sequences(&execution.state), [4, 3, 2, 1, 0]);
    execution.prune(2).unwrap();
    let mut pruned = execution.state;
    assert_eq!(sequences(&pruned), [4, 3]);
    assert_eq!(pruned.jobs().len(), 2);
    assert!(
        pruned
            .jobs()
            .iter()
            .all(|job| job.state() == JobState::Cancelled)
    );
    assert!(pruned.money().is_conserved());
    pruned.seal();
    assert_ne!(pruned.root(), state.root());
    // The tree of the pruned state is the one that its own records make.
    let restored: State = tg_types::Decode::from_bytes(&pruned.to_bytes()).unwrap();
    assert_eq!(restored.root(), pruned.root());
}

#[test]
fn broken_money_stops_the_block() {
    let state = network();
    let mut execution = Execution::begin(&state, TimestampMs::new(50_000));
    execution.state.totals.burned = Amount::new(1);
    let proposer = state.validators()[0].address;
    assert!(matches!(
        execution.finish(proposer),
        Err(crate::InvariantError::MoneyNotConserved { .. })
    ));
}

#[test]
fn a_step_that_the_state_machine_does_not_have_is_refused() {
    let state = with_cancelled_jobs(1);
    let mut execution = Execution::begin(&state, TimestampMs::new(50_000));
    let mut job = execution.state.ended_jobs().next().unwrap().clone();
    assert_eq!(
        execution.step(&mut job, OpenStage::Queued),
        Err(crate::InvariantError::BadStep {
            from: JobState::Cancelled,
            to: JobState::Queued
        })
    );
}
