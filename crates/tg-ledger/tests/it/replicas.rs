//! Mode `replicate`: members that are drawn, seal what they found, open it, and are compared.

use tg_ledger::{
    AbandonedBecause, Event, EvidenceTask, JobState, LatePhase, Lease, LeaseEnd, ModelFacts,
    NeedsProblem, Outcome, ReplicaStage, Subject, TransactionError, VerdictError,
};
use tg_types::transaction::result_seal;
use tg_types::{
    Amount, Digest, JobId, JobNeeds, JobOrder, LeaseId, Receipt, RunCommitment, Tier, Transaction,
    VerificationMode,
};

use crate::sync::{SIGNATURE, deal, seed_task, together};
use crate::world::{
    PEOPLE, TICK, World, address, commit, facts, genesis, part, receipt, rejected, terms, tgrid,
};

const SALT: Digest = Digest::new([0x66; 32]);
const ANSWER: Digest = Digest::new([0x34; 32]);
const CHECKSUM: u64 = 41;
/// What a run takes: half of the model's limit.
const WORK: u64 = 210_000;

/// A network with offers of five owners, whose validators have dealt a key.
fn world_of(facts: ModelFacts) -> World {
    let mut genesis = genesis();
    genesis.parameters.leader_timeout = tg_types::DurationMs::new(1_500);
    genesis.parameters.auction_slot = tg_types::DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = tg_types::DurationMs::from_secs(9);
    let mut world = World::with(&genesis);
    world.activate_model(facts);
    for (name, price) in [
        ("cheap", 20),
        ("middle", 22),
        ("dear", 24),
        ("bob", 26),
        ("mallory", 28),
    ] {
        world.post(name, terms(price));
    }
    deal(&mut world, 0);
    world
}

fn order_of(world: &World, members: u16) -> JobOrder {
    JobOrder {
        mode: VerificationMode::Replicate,
        needs: JobNeeds {
            gang: members,
            ..JobNeeds::ANY_MACHINE
        },
        ..world.order()
    }
}

fn sign_seed(world: &mut World) {
    let height = *world.state.seeds_wanted().first().unwrap();
    let task = seed_task(world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
}

/// A job whose members are drawn.
fn drawn(world: &mut World, members: u16) -> JobId {
    let order = order_of(world, members);
    let job = world.submit("alice", order);
    sign_seed(world);
    assert_eq!(world.job(job).state(), JobState::Leased);
    job
}

fn gang(world: &World, job: JobId) -> Vec<Lease> {
    world.state.gang_of(world.lease(job)).cloned().collect()
}

fn name_of(lease: &Lease) -> &'static str {
    let mut all = PEOPLE.into_iter();
    all.find(|name| address(name) == lease.provider).unwrap()
}

/// What a run gives.
fn right(job: JobId, tier: Tier) -> Receipt {
    Receipt {
        tier,
        output: ANSWER,
        trace: RunCommitment::of_replica(&job, CHECKSUM, WORK).digest(),
        ..receipt()
    }
}

fn lie(of: &Receipt, byte: u8) -> Receipt {
    Receipt {
        output: Digest::new([byte; 32]),
        ..of.clone()
    }
}

fn seal(lease: LeaseId, receipt: &Receipt) -> Transaction {
    Transaction::SealResult {
        lease,
        seal: result_seal(&lease, receipt, &SALT),
    }
}

fn open(lease: LeaseId, receipt: &Receipt) -> Transaction {
    Transaction::OpenResult {
        lease,
        receipt: receipt.clone(),
        salt: SALT,
    }
}

/// Every member starts and seals what `found` says of its index.
fn sealed(world: &mut World, job: JobId, found: &dyn Fn(usize) -> Receipt) {
    for lease in gang(world, job) {
        world.send(name_of(&lease), Transaction::StartLease { lease: lease.id });
    }
    assert_eq!(world.job(job).state(), JobState::Running);
    for (index, lease) in gang(world, job).iter().enumerate() {
        world.send(name_of(lease), seal(lease.id, &found(index)));
    }
    assert_eq!(world.job(job).state(), JobState::Committed);
}

/// The same, and every member opens it.
fn opened(world: &mut World, job: JobId, found: &dyn Fn(usize) -> Receipt) {
    sealed(world, job, found);
    for (index, lease) in gang(world, job).iter().enumerate() {
        world.send(name_of(lease), open(lease.id, &found(index)));
    }
}

fn deliver(world: &mut World, job: JobId) -> EvidenceTask {
    let lead = world.lease(job).clone();
    let evidence = Transaction::SubmitEvidence {
        lease: lead.id,
        evidence: ANSWER,
        size: 10,
    };
    world.send(name_of(&lead), evidence);
    world.task(lead.id)
}

fn run_of(receipt: &Receipt) -> Outcome {
    Outcome::ReplicasRun {
        output: receipt.output,
        trace: receipt.trace,
    }
}

fn end(world: &World, lease: &Lease) -> Option<LeaseEnd> {
    world.state.lease(&lease.id).unwrap().end().cloned()
}

fn is_slashed(events: &[Event], lease: &Lease) -> bool {
    events
        .iter()
        .any(|it| matches!(it, Event::Slashed { lease: id, .. } if *id == lease.id))
}

#[test]
fn members_are_drawn_by_a_seed_that_comes_after_the_order_and_found_the_same_are_all_paid() {
    let mut world = world_of(ModelFacts {
        tier: Tier::Wasm1,
        ..facts()
    });
    let order = order_of(&world, 3);
    let job = world.submit("alice", order);
    let height = world.state.head().height;
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert_eq!(world.state.seeds_wanted(), [height]);
    // Without the seed it waits, however many offers fit.
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Queued);
    sign_seed(&mut world);
    let members = gang(&world, job);
    let mut owners: Vec<_> = members.iter().map(|it| it.provider).collect();
    owners.sort_unstable();
    owners.dedup();
    assert_eq!((members.len(), owners.len()), (3, 3));

    let found = right(job, Tier::Wasm1);
    opened(&mut world, job, &|_| found.clone());
    let lead = world.lease(job).clone();
    assert!(matches!(lead.replicas, Some(ReplicaStage::Agreed { .. })));
    // Nothing but the answer is evidence.
    let wrong = Transaction::SubmitEvidence {
        lease: lead.id,
        evidence: Digest::new([0x35; 32]),
        size: 10,
    };
    let refused = world.refusal(name_of(&lead), wrong);
    let expected = TransactionError::NotTheAnswer {
        lease: lead.id,
        expected: ANSWER,
    };
    assert_eq!(refused, expected);
    let task = deliver(&mut world, job);
    let before: Vec<Amount> = members
        .iter()
        .map(|it| world.balance(name_of(it)))
        .collect();
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
    // Half of the limit was taken, so half of each price is paid.
    let half = |lease: &Lease| Amount::new(lease.price.get() / 2);
    let settlement = *world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, half(&members[0]));
    let others = half(&members[1]).checked_add(half(&members[2])).unwrap();
    assert_eq!(settlement.members, others);
    for (lease, before) in members.iter().zip(before) {
        assert_eq!(end(&world, lease), Some(LeaseEnd::Fulfilled));
        let paid = before.checked_add(half(lease)).unwrap();
        assert!(world.balance(name_of(lease)) >= paid.checked_add(lease.collateral).unwrap());
    }
}

/// Stops: one sum that stands behind many names, and is at whichever of them the seed chose when it is wanted.
#[test]
fn who_gets_what_it_puts_up_when_the_seed_is_known_takes_no_part() {
    let mut world = world_of(facts());
    let names = ["cheap", "middle", "dear", "bob", "mallory"];
    let own = world.balance("mallory");
    let to = address("alice");
    let fee = crate::world::fee(tg_types::TransactionKind::Transfer);
    let amount = own.checked_sub(fee).unwrap();
    world.send("mallory", Transaction::Transfer { to, amount });
    for (at, name) in names.into_iter().enumerate().take(4) {
        assert!(world.balance(name) > tgrid(1), "{at}");
    }
    // All five are asked for: without the money of the fifth, and with what it gets later, there are too few.
    let mut order = order_of(&world, 5);
    order.max_price = tgrid(1_000);
    let job = world.submit("alice", order);
    let (to, amount) = (address("mallory"), tgrid(100_000));
    world.send("alice", Transaction::Transfer { to, amount });
    sign_seed(&mut world);
    assert_eq!(world.job(job).state(), JobState::Queued);
    // It takes part in the next drawing.
    world.wait_until(world.time + 6_000);
    sign_seed(&mut world);
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Leased);
}

#[test]
fn where_members_differ_every_validator_runs_it_and_who_is_wrong_pays_for_that() {
    for liar in 0..3 {
        let mut world = world_of(facts());
        let job = drawn(&mut world, 3);
        let members = gang(&world, job);
        let found = right(job, Tier::Tgx1);
        let wrong = lie(&found, 9);
        opened(&mut world, job, &|index| match index == liar {
            true => wrong.clone(),
            false => found.clone(),
        });
        assert_eq!(world.job(job).state(), JobState::Disputed);
        let task = world.task(members[0].id);
        assert!(matches!(task, EvidenceTask::Replicas { .. }));
        // It is for a run to say, and not for the evidence.
        let refused = world.block(vec![], vec![task.verdict(Outcome::LeaseAccepted)]);
        let subject = Subject::Lease(members[0].id);
        assert_eq!(
            refused.refused_verdicts.first().map(|it| &it.1),
            Some(&VerdictError::WrongOutcome { subject })
        );
        let events = world.decide(&task, run_of(&found));
        assert_eq!(world.job(job).state(), JobState::Paid);
        let receipt = world.lease(job).receipt().unwrap();
        assert_eq!(receipt.output, ANSWER);
        for (index, lease) in members.iter().enumerate() {
            let is_liar = index == liar;
            assert_eq!(is_slashed(&events, lease), is_liar);
            assert_eq!(end(&world, lease) == Some(LeaseEnd::Fulfilled), !is_liar);
        }
        // The run costs ten times what a proof's check does.
        let charged = |it: &Event| matches!(it, Event::RunCharged { lease, amount, .. } if *lease == members[liar].id && *amount == tgrid(100));
        assert!(events.iter().any(charged));
        let provider = world.state.provider(&members[liar].provider).unwrap();
        assert_eq!(provider.record.rejected, 1);
    }
}

#[test]
fn where_nobody_is_right_all_pay_and_others_are_drawn() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    let found = right(job, Tier::Tgx1);
    opened(&mut world, job, &|index| lie(&found, 7 + index as u8));
    let task = world.task(members[0].id);
    let events = world.decide(&task, run_of(&found));
    assert!(members.iter().all(|it| is_slashed(&events, it)));
    // The next two in the order of the same seed.
    assert_eq!(world.state.seeds_wanted(), []);
    world.idle();
    let again = gang(&world, job);
    let were = |lease: &Lease| members.iter().any(|it| it.provider == lease.provider);
    assert_eq!(again.len(), 2);
    assert!(!again.iter().any(were));
}

#[test]
fn where_no_run_decides_nobody_is_paid_and_nobody_loses() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    let found = right(job, Tier::Tgx1);
    opened(&mut world, job, &|index| lie(&found, index as u8));
    let task = world.task(members[0].id);
    let events = world.decide(&task, rejected());
    assert!(!members.iter().any(|it| is_slashed(&events, it)));
    for lease in &members {
        assert_eq!(end(&world, lease), Some(LeaseEnd::Released));
    }
    assert_eq!(world.attempts_failed(job), 1);
}

#[test]
fn who_opens_nothing_loses_all_and_pays_the_others() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    let found = right(job, Tier::Tgx1);
    sealed(&mut world, job, &|_| found.clone());
    world.send(name_of(&members[0]), open(members[0].id, &found));
    let events = world.wait_until(world.time + 60_000);
    let late = Some(LeaseEnd::Late(LatePhase::Sealed));
    assert_eq!(end(&world, &members[1]), late);
    assert_eq!(end(&world, &members[0]), Some(LeaseEnd::Released));
    let is_all = |it: &Event| matches!(it, Event::Forfeited { lease, amount, .. } if *lease == members[1].id && *amount == members[1].collateral);
    assert!(events.iter().any(is_all));
    let is_paid =
        |it: &Event| matches!(it, Event::Compensated { lease, .. } if *lease == members[0].id);
    assert!(events.iter().any(is_paid));
}

#[test]
fn who_never_starts_or_seals_is_late_and_the_others_are_let_go() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    world.send(
        name_of(&members[1]),
        Transaction::StartLease {
            lease: members[1].id,
        },
    );
    world.wait_until(world.time + 60_000);
    let never = LeaseEnd::Abandoned(AbandonedBecause::NotStarted);
    assert_eq!(end(&world, &members[0]), Some(never));
    assert_eq!(end(&world, &members[1]), Some(LeaseEnd::Released));

    // Who let its lease fall is replaced; the other one is drawn again, so that nobody gains a drawing by it.
    let before = members;
    let members = gang(&world, job);
    let is_again = |of: &Lease| members.iter().any(|it| it.provider == of.provider);
    assert!(!is_again(&before[0]) && is_again(&before[1]));
    for lease in &members {
        world.send(name_of(lease), Transaction::StartLease { lease: lease.id });
    }
    let found = right(job, Tier::Tgx1);
    world.send(name_of(&members[0]), seal(members[0].id, &found));
    world.wait_until(world.time + 120_000);
    let late = LeaseEnd::Late(LatePhase::Running);
    assert_eq!(end(&world, &members[1]), Some(late));
    assert_eq!(end(&world, &members[0]), Some(LeaseEnd::Released));
}

#[test]
fn who_leads_and_delivers_nothing_is_late() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    let found = right(job, Tier::Tgx1);
    opened(&mut world, job, &|_| found.clone());
    world.wait_until(world.time + 120_000);
    let late = LeaseEnd::Late(LatePhase::Committed);
    assert_eq!(end(&world, &members[0]), Some(late));
    assert_eq!(end(&world, &members[1]), Some(LeaseEnd::Released));
}

#[test]
fn results_are_sealed_first_and_nobody_opens_anothers() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 2);
    let members = gang(&world, job);
    let (first, second) = (&members[0], &members[1]);
    for lease in &members {
        world.send(name_of(lease), Transaction::StartLease { lease: lease.id });
    }
    let found = right(job, Tier::Tgx1);
    let refusal =
        |world: &mut World, lease: &Lease, sent: Transaction| world.refusal(name_of(lease), sent);
    let in_the_open = |lease| TransactionError::ResultIsSealed { lease };
    assert_eq!(
        refusal(&mut world, first, commit(first.id)),
        in_the_open(first.id)
    );
    assert_eq!(
        refusal(&mut world, second, part(second.id)),
        in_the_open(second.id)
    );
    // Too early, and not by another.
    let early = refusal(&mut world, first, open(first.id, &found));
    assert!(matches!(early, TransactionError::WrongJobState { .. }));
    let foreign = refusal(&mut world, second, seal(first.id, &found));
    assert!(matches!(foreign, TransactionError::NotLeaseHolder { .. }));
    world.send(name_of(first), seal(first.id, &found));
    let again = refusal(&mut world, first, seal(first.id, &found));
    assert_eq!(again, TransactionError::NotSealable { lease: first.id });
    world.send(name_of(second), seal(second.id, &lie(&found, 1)));
    world.send(name_of(first), open(first.id, &found));
    let copied = refusal(&mut world, second, open(second.id, &found));
    assert_eq!(copied, TransactionError::WrongSeal { lease: second.id });
    let twice = refusal(&mut world, first, open(first.id, &found));
    assert_eq!(twice, TransactionError::NotSealable { lease: first.id });
    // What is sealed must be about the job, or it is not opened.
    let other = Receipt {
        input: Digest::new([1; 32]),
        ..found
    };
    let wrong = refusal(&mut world, second, open(second.id, &other));
    assert_eq!(wrong, TransactionError::WrongSeal { lease: second.id });
    // Jobs of other modes seal nothing.
    let order = JobOrder {
        mode: VerificationMode::Recompute,
        ..world.order()
    };
    let plain = world.submit("alice", order);
    let (name, lease) = (world.holder(plain), world.lease(plain).id);
    world.send(name, Transaction::StartLease { lease });
    let refused = world.refusal(name, seal(lease, &found));
    assert_eq!(refused, TransactionError::NoSealedResult { lease });
}

#[test]
fn one_result_is_no_replication() {
    let mut world = world_of(facts());
    let order = order_of(&world, 1);
    let refused = world.refusal("alice", Transaction::SubmitJob { order });
    let problem = NeedsProblem::Replicas;
    assert_eq!(refused, TransactionError::BadNeeds { problem });
}

#[test]
fn offers_that_came_or_changed_after_the_drawing_began_wait_for_the_next_one() {
    let mut genesis = genesis();
    genesis.parameters.leader_timeout = tg_types::DurationMs::new(1_500);
    genesis.parameters.auction_slot = tg_types::DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = tg_types::DurationMs::from_secs(9);
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    world.post("cheap", terms(20));
    deal(&mut world, 0);
    let order = order_of(&world, 2);
    let job = world.submit("alice", order);
    // Who knows the seed knows what name it would have to have.
    world.post("middle", terms(20));
    sign_seed(&mut world);
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert_eq!(world.state.seeds_wanted(), []);
    let first = world.job(job).draw.clone().unwrap();
    world.wait_until(world.time + 5 * TICK);
    world.idle();
    let second = world.job(job).draw.clone().unwrap();
    assert!(second.from > first.from && second.seed.is_none());
    sign_seed(&mut world);
    let members = gang(&world, job);
    assert_eq!(members.len(), 2);
    // Whoever took part in the first drawing keeps its place before those that came later: nobody gains another order of them by letting a
    // drawing find too few.
    assert_eq!(second.earlier.len(), 1);
    assert_eq!(world.lease(job).provider, address("cheap"));
}

#[test]
fn several_offers_of_one_owner_have_one_member() {
    let mut world = world_of(facts());
    world.post("mallory", terms(20));
    world.post("mallory", terms(20));
    for _ in 0..4 {
        let order = JobOrder {
            max_price: tgrid(1_000),
            ..order_of(&world, 5)
        };
        let job = world.submit("alice", order);
        sign_seed(&mut world);
        let members = gang(&world, job);
        let mut owners: Vec<_> = members.iter().map(|it| it.provider).collect();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), members.len());
        world.send("alice", Transaction::CancelJob { job });
    }
}

#[test]
fn several_members_act_in_one_block() {
    let mut world = world_of(facts());
    let job = drawn(&mut world, 3);
    let members = gang(&world, job);
    let found = right(job, Tier::Tgx1);
    let of = |make: &dyn Fn(&Lease) -> Transaction| -> Vec<(&'static str, Transaction)> {
        members.iter().map(|it| (name_of(it), make(it))).collect()
    };
    together(
        &mut world,
        of(&|it| Transaction::StartLease { lease: it.id }),
    );
    together(&mut world, of(&|it| seal(it.id, &found)));
    together(&mut world, of(&|it| open(it.id, &found)));
    let task = deliver(&mut world, job);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
}
