//! Answers that nobody checks, of jobs of mode `none`: paid once enough validators state that they hold them, and not before.

use tg_ledger::{
    AbandonedBecause, AnswerLength, Event, Genesis, JobState, LeaseEnd, LeasePhase, LeaseProgress,
    ModelFacts, Parameters, State, StorageRule, StoredFile, TransactionError,
};
use tg_types::{
    Amount, Decode as _, Digest, DurationMs, Encode as _, JobId, Label, ModelId, StorageSubject,
    Tier, Transaction, TransactionKind, VerificationMode,
};

use crate::fault::hold;
use crate::seats::Village;
use crate::world::{
    INPUT, MODEL, TICK, World, address, commit, evidence, facts, fee, genesis, lease_fee, part,
    receipt, terms, tgrid,
};

fn stated() -> Parameters {
    Parameters {
        storage: StorageRule::Stated,
        ..genesis().parameters
    }
}

fn world_of(facts: ModelFacts) -> World {
    let mut world = World::with(&Genesis {
        parameters: stated(),
        ..genesis()
    });
    world.activate_model(facts);
    for (name, price) in [("cheap", 30), ("middle", 40), ("dear", 50)] {
        world.post(name, terms(price));
    }
    hold(&mut world, 0..4, MODEL);
    world
}

/// A job of mode `none` whose input is held, with the order's changes.
fn ordered(world: &mut World, change: impl FnOnce(&mut tg_types::JobOrder)) -> JobId {
    let mut order = world.order();
    order.mode = VerificationMode::None;
    change(&mut order);
    let job = world.submit("alice", order);
    hold(world, 0..3, job);
    job
}

/// Commits to the result of a job that is leased; the subject of what validators state then.
fn committed(world: &mut World, job: JobId) -> StorageSubject {
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    StorageSubject::Lease(lease)
}

fn tasks_of(state: &State, validator: &str) -> Vec<StorageSubject> {
    let tasks = state.storage_tasks(&address(validator));
    tasks.into_iter().map(|it| it.subject).collect()
}

/// What a validator stated it does not state again.
fn assert_states_once(world: &mut World, validator: &str, subject: StorageSubject) {
    let again = Transaction::ReportStorage {
        held: vec![subject],
        missing: vec![],
    };
    assert_eq!(
        world.refusal(validator, again),
        TransactionError::BadStatement { subject }
    );
}

#[test]
fn validators_are_asked_for_the_bytes_that_the_receipt_names() {
    let mut world = world_of(facts());
    let job = ordered(&mut world, |_| {});
    let subject = committed(&mut world, job);
    let task = world.state.storage_tasks(&address("validator 3"));
    let answer = StoredFile::Answer {
        digest: receipt().output,
        length: AnswerLength::OfModel {
            output: 10,
            public: world.state.model(&MODEL).unwrap().public_blob,
            input: INPUT,
            input_len: 784,
        },
    };
    let of_it = task.iter().find(|it| it.subject == subject).unwrap();
    assert_eq!(of_it.files, [answer]);
    assert!(!of_it.is_recheck);
    // A stored state goes on alike.
    let stored = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(stored.root(), world.state.root());
    assert_eq!(
        tasks_of(&stored, "validator 3"),
        tasks_of(&world.state, "validator 3")
    );
}

#[test]
fn an_answer_is_paid_when_enough_validators_hold_it() {
    let mut world = world_of(facts());
    let job = ordered(&mut world, |_| {});
    let provider = world.balance("cheap");
    let subject = committed(&mut world, job);
    assert_eq!(world.job(job).state(), JobState::Delivering);
    let locked = world.balance("cheap");
    assert_eq!(locked, provider, "nobody is paid for a commitment");
    let offer = world.lease(job).offer;
    assert_eq!(world.state.offer(&offer).unwrap().slots_taken, 0);
    // f statements are nothing, and neither are 2f.
    hold(&mut world, 0..1, subject);
    hold(&mut world, 1..2, subject);
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Delivering);
    assert_eq!(world.balance("cheap"), locked);
    // One that stated it does not state it again.
    assert_states_once(&mut world, "validator 0", subject);
    hold(&mut world, 2..3, subject);
    assert_eq!(world.job(job).state(), JobState::Paid);
    let states = world.states(job);
    let path = [
        JobState::Committed,
        JobState::Delivering,
        JobState::Accepted,
        JobState::Paid,
    ];
    assert_eq!(states[states.len() - 4..], path);
    assert_eq!(world.job(job).settlement().unwrap().refund, tgrid(70));
    assert_eq!(world.lease(job).end(), Some(&LeaseEnd::Fulfilled));
    // One that was late states it all the same, once: what it sent before it knew must not spoil what else it stated.
    let balance = world.balance("cheap");
    hold(&mut world, 3..4, subject);
    assert_states_once(&mut world, "validator 3", subject);
    assert_eq!(world.lease(job).delivered().unwrap().held.len(), 4);
    assert_eq!(world.balance("cheap"), balance);
    // Nobody is asked for it any more, and nothing is left of the lease.
    assert!(!tasks_of(&world.state, "validator 3").contains(&subject));
    let spent = [TransactionKind::StartLease, TransactionKind::CommitReceipt];
    let spent = spent
        .map(fee)
        .into_iter()
        .fold(Amount::ZERO, Amount::saturating_add);
    let earned = tgrid(30).checked_sub(spent).unwrap();
    assert_eq!(
        world.balance("cheap"),
        provider
            .saturating_add(tgrid(500))
            .saturating_add(lease_fee())
            .saturating_add(earned)
    );
    assert_eq!(world.state.offer(&offer).unwrap().slots_taken, 0);
}

/// The attack: a provider that commits to anything, or with f validators at its side, and delivers nothing.
#[test]
fn an_answer_that_is_never_delivered_is_not_paid() {
    let mut world = world_of(facts());
    let job = ordered(&mut world, |_| {});
    let subject = committed(&mut world, job);
    let lease = world.lease(job).clone();
    hold(&mut world, 0..1, subject);
    let (by, _) = lease.delivery().unwrap();
    assert_eq!(
        by.get(),
        world.time - TICK + world.state.parameters().verification_timeout.get()
    );
    // It holds to its last millisecond.
    world.wait_until(by.get());
    assert_eq!(world.job(job).state(), JobState::Delivering);
    let before = world.balance("cheap");
    let events = world.wait_until(by.get() + 1);
    let end = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    let ended = world.state.lease(&lease.id).unwrap();
    assert_eq!(ended.end(), Some(&end));
    assert!(matches!(
        &ended.phase,
        LeasePhase::Ended {
            reached: LeaseProgress::Delivering { .. },
            ..
        }
    ));
    // All that is at risk burns, and so does the gas; the provider does not get this job again.
    let lost = Event::Forfeited {
        lease: lease.id,
        job,
        provider: address("cheap"),
        amount: tgrid(500),
    };
    assert!(events.contains(&lost));
    assert_eq!(world.balance("cheap"), before);
    assert!(world.job(job).excluded.contains(&address("cheap")));
    // The escrow stays, and another provider has it in that block.
    assert_eq!(world.job(job).escrow(), tgrid(100));
    assert_eq!(world.holder(job), "middle");
    // A statement about what is over holds no more.
    let late = Transaction::ReportStorage {
        held: vec![subject],
        missing: vec![],
    };
    assert_eq!(
        world.refusal("validator 1", late),
        TransactionError::BadStatement { subject }
    );
    let subject = committed(&mut world, job);
    hold(&mut world, 0..3, subject);
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(40));
}

/// The attack: a model registered under the id of a lease. Whoever registers one writes its id, and a refused one may be registered again, so that statements
/// about the lease counted for the model, and the provider was paid for nothing.
#[test]
fn a_model_of_the_same_id_takes_no_statement_about_a_lease_or_a_job() {
    let mut world = world_of(facts());
    let job = ordered(&mut world, |_| {});
    let (name, lease) = (world.holder(job), world.lease(job).id);
    for (id, label) in [(*lease.as_bytes(), "lease"), (*job.as_bytes(), "job")] {
        let registration = Transaction::RegisterModel {
            model: ModelId::new(id),
            public_blob: Digest::new([0xee; 32]),
            weights_blob: Digest::new([0xef; 32]),
            name: Label::lossy(label),
        };
        world.send("mallory", registration);
    }
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    // Validators are asked about both, and say in one report what they hold of which.
    let other = StorageSubject::Model(ModelId::new(*lease.as_bytes()));
    let asked = tasks_of(&world.state, "validator 0");
    assert!(
        asked.contains(&StorageSubject::Lease(lease)) && asked.contains(&other),
        "{asked:?}"
    );
    hold(&mut world, 0..3, other);
    assert_eq!(world.job(job).state(), JobState::Delivering);
    hold(&mut world, 0..3, StorageSubject::Lease(lease));
    assert_eq!(world.job(job).state(), JobState::Paid);
    // What is said of the model counts for no job that has ended: the state is the one that its records give.
    hold(&mut world, 0..3, ModelId::new(*job.as_bytes()));
    let again = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(again.root(), world.state.root());
    let ended = |state: &State| state.ended_jobs().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ended(&again), ended(&world.state));
}

/// A report names up to 24 things: what is not asked any more when it comes is passed over, as long as something in it is asked.
#[test]
fn one_late_statement_does_not_spoil_the_others_of_its_report() {
    let mut world = world_of(facts());
    let [first, second] = [(); 2].map(|()| {
        let mut order = world.order();
        order.mode = VerificationMode::None;
        world.submit("alice", order)
    });
    hold(&mut world, 0..3, first);
    let lease = world.lease(first).id;
    let name = world.holder(first);
    world.send(name, Transaction::StartLease { lease });
    // The fourth validator said both before it saw that the first one has begun.
    let mut held: Vec<StorageSubject> = vec![first.into(), second.into()];
    held.sort_unstable();
    let late = Transaction::ReportStorage {
        held,
        missing: vec![],
    };
    world.send("validator 3", late.clone());
    let seat = world.state.seat_of(&address("validator 3")).unwrap();
    assert!(world.job(second).storage.held.contains(seat));
    assert!(!world.job(first).storage.held.contains(seat));
    assert!(matches!(
        world.refusal("validator 3", late),
        TransactionError::BadStatement { .. }
    ));
}

/// The attack: a requestor that takes back what it has, or whose order ends before the validators could fetch it.
#[test]
fn what_was_committed_in_time_is_paid_after_the_deadline_and_not_taken_back() {
    let mut world = world_of(facts());
    let deadline = world.time + 40_000;
    let job = ordered(&mut world, |order| {
        order.deadline = tg_types::TimestampMs::new(deadline);
    });
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    let last = world.lease(job).deadline.get().min(deadline);
    world.time = last - TICK;
    world.send(name, commit(lease));
    let subject = StorageSubject::Lease(lease);
    assert!(matches!(
        world.refusal("alice", Transaction::CancelJob { job }),
        TransactionError::JobNotCancellable {
            state: JobState::Delivering,
            ..
        }
    ));
    assert!(matches!(
        world.refusal(name, evidence(lease)),
        TransactionError::WrongJobState {
            state: JobState::Delivering,
            ..
        }
    ));
    assert!(matches!(
        world.refusal(name, commit(lease)),
        TransactionError::WrongJobState { .. }
    ));
    world.wait_until(last + 10_000);
    assert_eq!(world.job(job).state(), JobState::Delivering);
    hold(&mut world, 1..4, subject);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

/// Whoever is lost after it committed has delivered or has not: its lease does not end before that is known.
#[test]
fn slots_are_free_while_answers_are_fetched() {
    let mut world = world_of(facts());
    // Only one offer, of two slots.
    let jobs: Vec<JobId> = (0..3)
        .map(|_| {
            let job = ordered(&mut world, |order| order.max_price = tgrid(35));
            if world.job(job).state() == JobState::Leased {
                committed(&mut world, job);
            }
            job
        })
        .collect();
    let states: Vec<JobState> = jobs.iter().map(|it| world.job(*it).state()).collect();
    assert_eq!(states, [JobState::Delivering; 3]);
    let offer = world.lease(jobs[0]).offer;
    assert_eq!(world.state.offer(&offer).unwrap().slots_taken, 0);
    for job in jobs {
        let subject = StorageSubject::Lease(world.lease(job).id);
        hold(&mut world, 0..3, subject);
        assert_eq!(world.job(job).state(), JobState::Paid);
        assert_eq!(world.state.offer(&offer).unwrap().slots_taken, 0);
    }
}

#[test]
fn a_gang_is_paid_when_the_answer_of_the_whole_is_held() {
    let mut world = world_of(facts());
    let job = ordered(&mut world, |order| {
        order.needs.gang = 2;
        order.max_attempts = 1;
    });
    let lead = world.lease(job).clone();
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    let name = |provider| {
        ["cheap", "middle", "dear"]
            .into_iter()
            .find(|it| address(it) == provider)
    };
    let (leads, follows) = (name(lead.provider).unwrap(), name(member.provider).unwrap());
    world.send(leads, Transaction::StartLease { lease: lead.id });
    world.send(follows, Transaction::StartLease { lease: member.id });
    world.send(follows, part(member.id));
    world.send(leads, commit(lead.id));
    assert_eq!(world.job(job).state(), JobState::Delivering);
    let taken = |world: &World, lease: &tg_ledger::Lease| {
        world.state.offer(&lease.offer).unwrap().slots_taken
    };
    assert_eq!((taken(&world, &lead), taken(&world, &member)), (0, 0));
    // Nothing is stated about a part.
    let tasks = tasks_of(&world.state, "validator 0");
    assert_eq!(tasks, [StorageSubject::Lease(lead.id)]);
    // Never delivered: the lead is to blame, the member has its collateral back and what its work was worth.
    let (by, _) = world.lease(job).delivery().unwrap();
    world.wait_until(by.get() + 1);
    let end = |world: &World, lease: &tg_ledger::Lease| {
        world.state.lease(&lease.id).unwrap().end().cloned()
    };
    let not_delivered = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    assert_eq!(end(&world, &lead), Some(not_delivered));
    assert_eq!(end(&world, &member), Some(LeaseEnd::Released));
    assert_eq!((taken(&world, &lead), taken(&world, &member)), (0, 0));
}

#[test]
fn floats_and_programs_may_answer_with_less_than_their_limit() {
    for tier in [Tier::Tgf1, Tier::Wasm1] {
        let mut world = world_of(ModelFacts { tier, ..facts() });
        let job = ordered(&mut world, |_| {});
        let (name, lease) = (world.holder(job), world.lease(job).id);
        world.send(name, Transaction::StartLease { lease });
        let receipt = tg_types::Receipt { tier, ..receipt() };
        world.send(name, Transaction::CommitReceipt { lease, receipt });
        let tasks = world.state.storage_tasks(&address("validator 0"));
        let StoredFile::Answer { length, .. } = tasks[0].files[0] else {
            panic!("{tasks:?}");
        };
        assert_eq!(length, AnswerLength::AtMost(10));
        hold(&mut world, 0..3, StorageSubject::Lease(lease));
        assert_eq!(world.job(job).state(), JobState::Paid);
    }
}

/// The attack: a provider with many answers, so that validators fetch nothing else.
#[test]
fn the_first_answer_of_each_provider_comes_before_the_second_of_any() {
    let mut world = world_of(facts());
    let mut of = |price| {
        let job = ordered(&mut world, |order| order.max_price = tgrid(price));
        let subject = committed(&mut world, job);
        (world.holder(job), subject)
    };
    let first = of(35);
    let second = of(35);
    let third = of(35);
    assert_eq!([first.0, second.0, third.0], ["cheap"; 3]);
    let offer = world.state.live_leases().next().unwrap().1.offer;
    world.send("cheap", Transaction::WithdrawOffer { offer });
    let job = ordered(&mut world, |_| {});
    let other = committed(&mut world, job);
    assert_eq!(world.holder(job), "middle");
    let input = world.submit("bob", world.order());
    let order = tasks_of(&world.state, "validator 0");
    assert_eq!(order, [first.1, other, input.into(), second.1, third.1]);
    // The offer is gone, and what was committed on it is paid.
    hold(&mut world, 0..3, third.1);
    assert_eq!(
        tasks_of(&world.state, "validator 3"),
        [first.1, other, input.into(), second.1]
    );
}

/// What was stated stays the statement of who made it, while validators come and go.
#[test]
fn statements_about_an_answer_move_with_the_seats() {
    let mut village = Village::with(|genesis| {
        genesis.parameters.storage = StorageRule::Stated;
        genesis.parameters.verification_timeout = DurationMs::from_secs(500);
    });
    village.world.activate_model(facts());
    village.world.post("cheap", terms(30));
    hold(&mut village.world, 0..4, MODEL);
    let job = ordered(&mut village.world, |_| {});
    let subject = committed(&mut village.world, job);
    hold(&mut village.world, 0..2, subject);
    for (name, key) in [("bob", 22), ("mallory", 23)] {
        let join = village.join(name, key);
        village.world.send(name, join);
        village.epoch();
        village.epoch();
    }
    assert_eq!(village.count(), 6);
    assert_eq!(village.world.job(job).state(), JobState::Delivering);
    for name in ["validator 0", "validator 1"] {
        assert!(
            !tasks_of(village.state(), name).contains(&subject),
            "{name}"
        );
    }
    for name in ["validator 2", "validator 3", "bob", "mallory"] {
        assert!(tasks_of(village.state(), name).contains(&subject), "{name}");
    }
    // Five of six must hold it.
    hold(&mut village.world, 2..4, subject);
    assert_eq!(village.world.job(job).state(), JobState::Delivering);
    let report = Transaction::ReportStorage {
        held: vec![subject],
        missing: vec![],
    };
    village.world.send("bob", report);
    assert_eq!(village.world.job(job).state(), JobState::Paid);
}
