//! Answers that are kept after they were paid, and validators that are asked for what they keep.

use tg_ledger::{
    AnswerLength, EndReason, EndpointProblem, Event, Genesis, JobState, KeptStage, Outcome,
    Parameters, QuestionEnd, RentCategory, RetainedFile, State, StorageRule, StoredFile,
    StoredQuestion, TransactionError,
};
use tg_types::limits::{RETENTION_MAX, RETENTION_MIN};
use tg_types::{
    Address, Amount, Decode as _, Digest, DurationMs, Encode as _, JobId, JobOrder, StorageSubject,
    Tier, Transaction, TransactionKind, VerificationMode,
};

use crate::due::next_timeout;
use crate::fault::hold;
use crate::seats::Village;
use crate::world::{
    MODEL, TICK, World, address, commit, facts, fee, genesis, receipt, terms, tgrid,
};

/// Twice what most tests need, of ledger time.
const TIME: DurationMs = DurationMs::from_secs(24 * 3_600);

fn stated() -> Parameters {
    Parameters {
        storage: StorageRule::Stated,
        ..genesis().parameters
    }
}

fn with(parameters: Parameters) -> World {
    let mut world = World::with(&Genesis {
        parameters,
        ..genesis()
    });
    begin(&mut world);
    world
}

/// A model that is held, and offers for it.
fn begin(world: &mut World) {
    world.activate_model(facts());
    for (name, price) in [("cheap", 30), ("middle", 40)] {
        world.post(name, terms(price));
    }
    hold(world, 0..4, MODEL);
}

fn world() -> World {
    with(stated())
}

/// An order of mode `none` whose answer is to be kept.
fn order(world: &World) -> JobOrder {
    JobOrder {
        mode: VerificationMode::None,
        retention: TIME,
        ..world.order()
    }
}

/// A job that is paid, whose answer these validators said that they hold when it was.
fn paid(world: &mut World, order: JobOrder, holders: std::ops::Range<u8>) -> JobId {
    let job = world.submit("alice", order);
    hold(world, 0..3, job);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    hold(world, holders, StorageSubject::Lease(lease));
    assert_eq!(world.job(job).state(), JobState::Paid);
    job
}

/// A job whose answer all four validators keep.
fn kept(world: &mut World) -> JobId {
    let order = order(world);
    let job = paid(world, order, 0..3);
    let lease = world.lease(job).id;
    hold(world, 3..4, StorageSubject::Lease(lease));
    job
}

fn file(world: &World, job: JobId) -> &RetainedFile {
    world.state.retained_of(&job).unwrap()
}

fn seat(index: u8) -> Address {
    address(&format!("validator {index}"))
}

fn stake(state: &State, index: u8) -> Amount {
    let found = state
        .validators()
        .iter()
        .find(|it| it.address == seat(index));
    found.unwrap().stake
}

fn ask(job: JobId, index: u8) -> Transaction {
    Transaction::AskStored {
        job,
        seat: seat(index),
    }
}

/// Asks a validator; the question.
fn asked(world: &mut World, job: JobId, index: u8) -> StoredQuestion {
    world.send("bob", ask(job, index));
    let of_it = |it: &&StoredQuestion| it.seat == seat(index) && it.job == job;
    world.state.questions().iter().find(of_it).unwrap().clone()
}

fn says(held: &[StorageSubject], missing: &[StorageSubject]) -> Transaction {
    Transaction::ReportStorage {
        held: held.to_vec(),
        missing: missing.to_vec(),
    }
}

/// Validators state that they did not get what was asked for; the events of the last.
fn deny(world: &mut World, validators: &[u8], question: &StoredQuestion) -> Vec<Event> {
    let mut events = Vec::new();
    for index in validators {
        let says = says(&[], &[question.id.into()]);
        events = world.send(&format!("validator {index}"), says);
    }
    events
}

fn ended(events: &[Event]) -> Option<QuestionEnd> {
    events.iter().find_map(|event| match event {
        Event::AnswerQuestionEnded { end, .. } => Some(*end),
        _ => None,
    })
}

#[test]
fn what_keeping_costs_is_locked_and_burned_when_the_job_is_paid() {
    let mut world = with(Parameters {
        rent_full_hour: Amount::from_tgrid(1_400),
        ..stated()
    });
    let order = order(&world);
    let charge = world.state.retention_charge(&order, world.now());
    assert_eq!(charge.bytes, 64 * 1024 + 784);
    // 0.004 TGRID a MiB and day: of 1,400 an hour for 8 GiB the 1,024th part.
    let day = u128::from(charge.bytes) * 24 * 1_400_000_000_000_000_000_000 / 1_024 / (8 << 30);
    let got = charge.deposit.get();
    assert!(got <= day && got > day / 100 * 95, "{got} {day}");
    let twice = JobOrder {
        retention: DurationMs::new(2 * TIME.get()),
        ..order
    };
    let doubled = world.state.retention_charge(&twice, world.now());
    assert_eq!(doubled.deposit.get(), 2 * got);
    // Room is paid for until the deadline, at once.
    let open = order.deadline.saturating_since(world.now());
    assert_eq!(
        charge.entry.get(),
        got / u128::from(TIME.get()) * u128::from(open.get())
    );
    let burned = |world: &World| world.state.totals().burned.get();
    let before = burned(&world);
    let job = world.submit("alice", order.clone());
    assert!(burned(&world) > before);
    assert_eq!(world.job(job).retention.fee.get(), got);
    assert_eq!(world.job(job).escrow(), order.max_price);
    assert_eq!(world.state.category_len(RentCategory::Retained), 2);
    // It comes back with a job that is not paid.
    let events = world.send("alice", Transaction::CancelJob { job });
    assert_eq!(world.job(job).end(), Some(EndReason::CancelledByRequestor));
    assert!(world.job(job).retention.fee.is_zero());
    assert_eq!(world.state.category_len(RentCategory::Retained), 0);
    let settled = |job: JobId, burned: u128, returned: u128| Event::RentSettled {
        record: Digest::new(*job.as_bytes()),
        payer: address("alice"),
        burned: Amount::new(burned),
        returned: Amount::new(returned),
    };
    assert!(events.contains(&settled(job, 0, got)));
    assert!(world.state.retained_of(&job).is_none());
    // And is gone with one that is paid.
    let job = world.submit("alice", order);
    hold(&mut world, 0..3, job);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    let subject = StorageSubject::Lease(lease);
    hold(&mut world, 0..2, subject);
    let fee = world.job(job).retention.fee.get();
    let events = world.send("validator 2", says(&[subject], &[]));
    assert!(events.contains(&settled(job, fee, 0)));
    assert!(world.job(job).retention.fee.is_zero());
    assert_eq!(world.state.category_len(RentCategory::Retained), 2);
}

#[test]
fn times_have_bounds_and_endpoints_have_none() {
    let mut world = world();
    for got in [
        DurationMs::new(1),
        DurationMs::new(RETENTION_MIN.get() - 1),
        DurationMs::new(RETENTION_MAX.get() + 1),
    ] {
        let order = JobOrder {
            retention: got,
            ..order(&world)
        };
        let error = world.refusal("alice", Transaction::SubmitJob { order });
        assert_eq!(error, TransactionError::BadRetention { got });
        assert_eq!(error.code(), "TG-LED-159");
    }
    for retention in [DurationMs::ZERO, RETENTION_MIN, RETENTION_MAX] {
        let order = JobOrder {
            retention,
            ..order(&world)
        };
        world.submit("alice", order);
    }
    let endpoint = JobOrder {
        mode: VerificationMode::Endpoint,
        input: Digest::default(),
        input_len: 0,
        ..order(&world)
    };
    let error = world.refusal("alice", Transaction::SubmitJob { order: endpoint });
    let problem = EndpointProblem::Retention;
    assert_eq!(error, TransactionError::BadEndpointOrder { problem });
}

#[test]
fn who_stated_that_it_holds_an_answer_keeps_it() {
    let mut world = world();
    let order = order(&world);
    let job = paid(&mut world, order, 0..3);
    let of_it = file(&world, job);
    assert_eq!(of_it.digest, receipt().output);
    assert_eq!(of_it.until, world.now().saturating_add(TIME));
    assert_eq!(of_it.held.len(), 3);
    assert!(matches!(of_it.stage, KeptStage::Held { .. }));
    // The fourth is asked to, and may state it by either name, once.
    let tasks = world.state.storage_tasks(&seat(3));
    let task = tasks
        .iter()
        .find(|it| it.subject == StorageSubject::Answer(job))
        .unwrap();
    let answer = StoredFile::Answer {
        digest: receipt().output,
        length: AnswerLength::AtMost(784),
    };
    assert_eq!(task.files, [answer]);
    hold(&mut world, 3..4, StorageSubject::Answer(job));
    assert_eq!(file(&world, job).held.len(), 4);
    let subject = StorageSubject::Answer(job);
    assert_eq!(
        world.refusal("validator 3", says(&[subject], &[])),
        TransactionError::BadStatement { subject }
    );
    assert_eq!(
        world.refusal("validator 2", says(&[], &[subject])),
        TransactionError::BadStatement { subject }
    );
    // A stored state goes on alike.
    let stored = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(stored.root(), world.state.root());
    assert_eq!(
        stored.category_len(RentCategory::Retained),
        world.state.category_len(RentCategory::Retained)
    );
}

/// Stops: a validator that keeps what it never stated to hold, because it stated something else of the job too late.
#[test]
fn a_late_statement_about_an_input_is_none_about_an_answer() {
    let mut world = world();
    let order = order(&world);
    let job = paid(&mut world, order, 0..3);
    let subject = job.into();
    assert_eq!(
        world.refusal("validator 3", says(&[subject], &[])),
        TransactionError::BadStatement { subject }
    );
    assert!(
        !file(&world, job)
            .held
            .contains(world.state.seat_of(&seat(3)).unwrap())
    );
}

#[test]
fn of_results_that_are_checked_nobody_keeps_the_answer_before_it_is_stated() {
    let mut world = world();
    let order = JobOrder {
        mode: VerificationMode::Proof,
        ..order(&world)
    };
    let job = world.submit("alice", order);
    hold(&mut world, 0..3, job);
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    assert!(file(&world, job).held.is_empty());
    assert_eq!(file(&world, job).stage, KeptStage::TooFew);
    hold(&mut world, 0..2, StorageSubject::Answer(job));
    assert_eq!(file(&world, job).stage, KeptStage::TooFew);
    hold(&mut world, 2..3, StorageSubject::Answer(job));
    assert!(matches!(file(&world, job).stage, KeptStage::Held { .. }));
    // Of float graphs and programs it has what they were registered with, at most.
    let mut world = World::with(&Genesis {
        parameters: stated(),
        ..genesis()
    });
    world.activate_model(tg_ledger::ModelFacts {
        tier: Tier::Wasm1,
        ..facts()
    });
    let order = self::order(&world);
    assert_eq!(
        world.state.retention_charge(&order, world.now()).bytes,
        64 * 1024 + 10
    );
}

#[test]
fn who_serves_what_it_is_asked_for_loses_nothing() {
    let mut world = world();
    let job = kept(&mut world);
    let bob = world.balance("bob");
    let burned = world.state.totals().burned;
    let question = asked(&mut world, job, 1);
    let spent = tgrid(10).saturating_add(fee(TransactionKind::AskStored));
    assert_eq!(world.balance("bob").saturating_add(spent), bob);
    let now = world.state.totals().burned;
    assert_eq!(now, burned.saturating_add(spent));
    // The others look, and it does not.
    for (index, expected) in [(0, 1), (1, 0), (2, 1), (3, 1)] {
        let tasks = world.state.question_tasks(&seat(index));
        assert_eq!(tasks.len(), expected, "{index}");
        assert!(
            tasks
                .iter()
                .all(|it| !it.is_late && it.subject == question.id.into())
        );
    }
    let subject = StorageSubject::Question(question.id);
    for says in [says(&[subject], &[]), says(&[], &[subject])] {
        let error = world.refusal("validator 1", says);
        assert_eq!(error, TransactionError::BadStatement { subject });
    }
    // Nobody says that it did not get it before the window is over: no restart convicts anybody.
    let error = world.refusal("validator 0", says(&[], &[subject]));
    assert_eq!(error, TransactionError::BadStatement { subject });
    hold(&mut world, 0..1, subject);
    assert_eq!(world.state.questions().len(), 1);
    let error = world.refusal("validator 0", says(&[subject], &[]));
    assert_eq!(error, TransactionError::BadStatement { subject });
    let events = world.send("validator 2", says(&[subject], &[]));
    assert_eq!(ended(&events), Some(QuestionEnd::Served));
    assert!(world.state.questions().is_empty());
    assert_eq!(stake(&world.state, 1), Amount::from_tgrid(1_000));
    // It may be asked again, by anybody who pays.
    asked(&mut world, job, 1);
}

#[test]
fn who_does_not_have_it_loses_its_bond() {
    let mut world = world();
    let job = kept(&mut world);
    let bob = world.balance("bob");
    let question = asked(&mut world, job, 1);
    world.wait_until(question.missing_from.get());
    assert!(
        world
            .state
            .question_tasks(&seat(0))
            .iter()
            .all(|it| it.is_late)
    );
    assert_eq!(ended(&deny(&mut world, &[0, 2], &question)), None);
    let burned = world.state.totals().burned;
    let events = deny(&mut world, &[3], &question);
    let bond = tgrid(1_000);
    let end = QuestionEnd::Missing {
        burned: bond.checked_sub(tgrid(10)).unwrap(),
        returned: tgrid(10),
    };
    assert_eq!(ended(&events), Some(end));
    assert_eq!(
        stake(&world.state, 1).saturating_add(bond),
        Amount::from_tgrid(1_000)
    );
    let now = world.state.totals().burned;
    assert_eq!(
        now,
        burned.saturating_add(bond).checked_sub(tgrid(10)).unwrap()
    );
    // Whoever asked has paid the gas.
    let gas = fee(TransactionKind::AskStored);
    assert_eq!(world.balance("bob").saturating_add(gas), bob);
    // It keeps it no more, is asked to hold it again, and may state so.
    assert_eq!(file(&world, job).held.len(), 3);
    let (job_, seat_) = (job, seat(1));
    assert_eq!(
        world.refusal("bob", ask(job, 1)),
        TransactionError::NotKeeper {
            job: job_,
            seat: seat_
        }
    );
    hold(&mut world, 1..2, StorageSubject::Answer(job));
    asked(&mut world, job, 1);
}

/// The attack: f friends of a seat that has nothing, or f enemies of one that has it.
#[test]
fn f_liars_convict_nobody_and_spare_nobody_who_gives_nothing_to_the_others() {
    let mut world = world();
    let job = kept(&mut world);
    // A friend says that it got it: one honest validator more that gets it would be needed, so it is as if it had it.
    let question = asked(&mut world, job, 1);
    world.wait_until(question.missing_from.get());
    hold(&mut world, 0..1, question.id);
    assert_eq!(ended(&deny(&mut world, &[2, 3], &question)), None);
    world.wait_until(question.until.get());
    assert_eq!(world.state.questions().len(), 1);
    let events = world.wait_until(question.until.get() + 1);
    assert_eq!(ended(&events), Some(QuestionEnd::Undecided));
    assert_eq!(stake(&world.state, 1), Amount::from_tgrid(1_000));
    // An enemy says that it did not, and one honest validator had no time.
    let question = asked(&mut world, job, 2);
    world.wait_until(question.missing_from.get());
    deny(&mut world, &[0], &question);
    hold(&mut world, 1..2, question.id);
    let events = world.send("validator 3", says(&[question.id.into()], &[]));
    assert_eq!(ended(&events), Some(QuestionEnd::Served));
    assert_eq!(stake(&world.state, 2), Amount::from_tgrid(1_000));
}

#[test]
fn asking_is_refused_where_nothing_is_promised() {
    let mut world = world();
    let job = kept(&mut world);
    let unknown = JobId::new([9; 32]);
    assert_eq!(
        world.refusal("bob", ask(unknown, 1)),
        TransactionError::AnswerNotKept { job: unknown }
    );
    let without = JobOrder {
        retention: DurationMs::ZERO,
        ..order(&world)
    };
    let unkept = paid(&mut world, without, 0..3);
    let error = world.refusal("bob", ask(unkept, 1));
    assert_eq!(error, TransactionError::AnswerNotKept { job: unkept });
    assert_eq!(error.code(), "TG-LED-161");
    let nobody = Transaction::AskStored {
        job,
        seat: address("alice"),
    };
    let seat = address("alice");
    assert_eq!(
        world.refusal("bob", nobody),
        TransactionError::NotKeeper { job, seat }
    );
    // Of several seats it may be asked at the same time.
    asked(&mut world, job, 1);
    asked(&mut world, job, 2);
}

/// The attack: a friend asks a seat for a file that it dropped, and gives it to f others, so that nobody else may ask for hours.
#[test]
fn a_question_of_a_friend_keeps_nobody_from_asking() {
    let mut world = world();
    let job = kept(&mut world);
    let first = asked(&mut world, job, 1);
    hold(&mut world, 0..1, first.id);
    let before = (world.balance("alice"), world.balance("bob"));
    world.send("alice", ask(job, 1));
    let of_alice = |it: &&StoredQuestion| it.asker == address("alice");
    let second = world.state.questions().iter().find(of_alice);
    let second = second.unwrap().clone();
    assert_ne!(first.id, second.id);
    let staked = stake(&world.state, 1);
    world.wait_until(second.missing_from.get());
    let events = deny(&mut world, &[0, 2, 3], &second);
    assert!(matches!(ended(&events), Some(QuestionEnd::Missing { .. })));
    // Both end, one bond is taken, and both have their fees back.
    assert!(world.state.questions().is_empty());
    let bond = world.state.retention_bond();
    assert_eq!(stake(&world.state, 1), staked.saturating_sub(bond));
    let gas = fee(TransactionKind::AskStored);
    assert_eq!(world.balance("alice"), before.0.saturating_sub(gas));
    assert_eq!(world.balance("bob"), before.1.saturating_add(first.fee));
}

/// The attack: questions without end, to fill a seat's line, or to keep others from asking it.
#[test]
fn the_fee_doubles_with_every_eight_open_questions() {
    let mut world = world();
    let jobs: Vec<JobId> = (0..17).map(|_| kept(&mut world)).collect();
    let mut fees = Vec::new();
    for job in jobs {
        fees.push(asked(&mut world, job, 1).fee);
        assert_eq!(world.state.ask_fee(&seat(2)), tgrid(10));
    }
    let expected: Vec<Amount> = (0..17).map(|it| tgrid(10 << (it / 8))).collect();
    assert_eq!(fees, expected);
    let one = world.state.questions().iter().next().unwrap().clone();
    hold(&mut world, 2..4, one.id);
    assert_eq!(world.state.ask_fee(&seat(1)), tgrid(40));
}

#[test]
fn nobody_keeps_an_answer_after_its_time() {
    let mut world = world();
    let job = kept(&mut world);
    let until = file(&world, job).until.get();
    assert_eq!(
        next_timeout(&world.state).map(|it| it.get() > world.time),
        Some(true)
    );
    world.wait_until(until - 2 * TICK);
    // Asked in time, it has its whole window.
    let question = asked(&mut world, job, 1);
    world.wait_until(until);
    assert!(world.state.retained_of(&job).is_some());
    let events = world.wait_until(until + 1);
    assert!(events.contains(&Event::AnswerReleased { job }));
    assert!(world.state.retained_of(&job).is_none());
    assert_eq!(world.state.category_len(RentCategory::Retained), 0);
    assert_eq!(
        world.refusal("bob", ask(job, 2)),
        TransactionError::AnswerNotKept { job }
    );
    world.wait_until(question.missing_from.get());
    let events = deny(&mut world, &[0, 2, 3], &question);
    assert!(matches!(ended(&events), Some(QuestionEnd::Missing { .. })));
}

#[test]
fn no_question_ends_within_an_outage() {
    let mut world = with(Parameters {
        outage_min: DurationMs::from_secs(3_600),
        outage_grace: DurationMs::from_secs(60),
        ..stated()
    });
    let job = kept(&mut world);
    let question = asked(&mut world, job, 1);
    // Far after its end nobody was there to state anything.
    world.wait_until(question.until.get() + 10_000);
    assert_eq!(world.state.questions().len(), 1);
    world.idle();
    world.idle();
    assert_eq!(world.state.questions().len(), 1);
    let now = world.time;
    let events = world.wait_until(now + 61_000);
    assert_eq!(ended(&events), Some(QuestionEnd::Undecided));
}

/// The attack: a validator that states nothing, so that it is asked nothing.
#[test]
fn who_never_states_what_the_others_do_has_no_share_of_fees() {
    let mut world = world();
    let unkept = |world: &World| {
        let place = usize::from(world.state.seat_of(&seat(3)).unwrap());
        world.state.seats().seats[place].unkept
    };
    let wait = world.state.parameters().verification_timeout.get();
    for count in 1..=4 {
        let order = order(&world);
        let job = paid(&mut world, order, 0..3);
        let KeptStage::Held { state_by } = file(&world, job).stage else {
            panic!("three of four hold it");
        };
        assert_eq!(state_by.get(), world.time + wait);
        world.wait_until(state_by.get());
        assert_eq!(unkept(&world), count - 1);
        world.wait_until(state_by.get() + 1);
        assert_eq!(unkept(&world), count);
        assert_eq!(file(&world, job).stage, KeptStage::Noted);
    }
    let proof = JobOrder {
        mode: VerificationMode::Proof,
        retention: DurationMs::ZERO,
        ..order(&world)
    };
    let job = world.submit("alice", proof);
    hold(&mut world, 0..3, job);
    let task = world.work(job);
    let before = world.balance("validator 3");
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.balance("validator 3"), before);
    // Until it states again what it holds, in time.
    let job = kept(&mut world);
    let KeptStage::Held { state_by } = file(&world, job).stage else {
        panic!("all of four hold it");
    };
    world.wait_until(state_by.get() + 1);
    assert_eq!(unkept(&world), 0);
    // What too few hold nobody misses: it may be nowhere.
    let proof = JobOrder {
        mode: VerificationMode::Proof,
        ..order(&world)
    };
    let job = world.submit("alice", proof);
    hold(&mut world, 0..3, job);
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    hold(&mut world, 0..2, StorageSubject::Answer(job));
    let later = world.time + 10 * wait;
    world.wait_until(later);
    assert_eq!(
        (unkept(&world), file(&world, job).stage),
        (0, KeptStage::TooFew)
    );
}

fn village() -> (Village, JobId) {
    let mut village = Village::with(|genesis| genesis.parameters.storage = StorageRule::Stated);
    begin(&mut village.world);
    // A fifth, so that one may go.
    let join = village.join("mallory", 22);
    village.world.send("mallory", join);
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 5);
    let order = order(&village.world);
    let job = village.world.submit("alice", order);
    hold(&mut village.world, 0..4, job);
    let (name, lease) = (village.world.holder(job), village.world.lease(job).id);
    village.world.send(name, Transaction::StartLease { lease });
    village.world.send(name, commit(lease));
    let subject = StorageSubject::Lease(lease);
    hold(&mut village.world, 0..4, subject);
    village.world.send("mallory", says(&[subject], &[]));
    assert_eq!(village.world.job(job).state(), JobState::Paid);
    (village, job)
}

/// The attack: a seat that dropped what it keeps, and leaves once somebody asks for it.
#[test]
fn a_seat_is_not_given_back_while_it_is_asked() {
    let (mut village, job) = village();
    let mallory = address("mallory");
    let leave = Transaction::LeaveValidators {
        key: crate::voter::Voter::new(22).public,
    };
    let ask = Transaction::AskStored { job, seat: mallory };
    village.world.send("bob", ask.clone());
    let question = village.state().questions().iter().next().unwrap().clone();
    village.world.send("mallory", leave);
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 5);
    // Four of four others find nothing.
    let late = question.missing_from.get();
    village.world.wait_until(late);
    let events = deny(&mut village.world, &[0, 1, 2, 3], &question);
    assert!(matches!(ended(&events), Some(QuestionEnd::Missing { .. })));
    // Whoever leaves is asked nothing more, and goes.
    assert_eq!(
        village.world.refusal("bob", ask),
        TransactionError::NotKeeper { job, seat: mallory }
    );
    village.epoch();
    assert_eq!(village.count(), 4);
    assert_eq!(village.state().retained_of(&job).unwrap().held.len(), 4);
}

#[test]
fn statements_stay_those_of_who_made_them_and_a_question_ends_with_the_seat() {
    let (mut village, job) = village();
    let before = village.state().retained_of(&job).unwrap().held;
    assert_eq!(before.len(), 5);
    let question = asked(&mut village.world, job, 1);
    hold(&mut village.world, 0..1, question.id);
    let join = village.join("dear", 23);
    village.world.send("dear", join);
    village.epoch();
    village.epoch();
    assert_eq!(village.count(), 6);
    let state = village.state();
    let held = state.retained_of(&job).unwrap().held;
    assert_eq!(held.len(), 5);
    assert!(!held.contains(state.seat_of(&address("dear")).unwrap()));
    let of_it = state.questions().get(&question.id).unwrap();
    assert!(of_it.held.contains(state.seat_of(&seat(0)).unwrap()));
    // The newcomer is asked to hold it, and looks too.
    let tasks = state.storage_tasks(&address("dear"));
    assert!(
        tasks
            .iter()
            .any(|it| it.subject == StorageSubject::Answer(job))
    );
    assert_eq!(state.question_tasks(&address("dear")).len(), 1);
    village.world.send("dear", says(&[question.id.into()], &[]));
    assert!(village.state().questions().is_empty());
    let root = village.state().root();
    let stored = State::from_bytes(&village.state().to_bytes()).unwrap();
    assert_eq!(stored.root(), root);
}
