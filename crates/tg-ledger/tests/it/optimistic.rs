//! Mode `optimistic`: a watcher that runs the program again, and challenges.

use tg_ledger::{
    Event, EvidenceTask, JobState, LeaseEnd, ModelFacts, Outcome, SyncStage, TransactionError,
    VerdictError, VoteState, VoteTask,
};
use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, LeaseId, OpenedVote, Receipt, RunCommitment, Tier,
    Transaction, VerificationMode, Vote,
};

use crate::sync::{SIGNATURE, VALIDATORS, deal, seed_task, stage, together};
use crate::world::{
    TICK, World, address, evidence, facts, genesis, receipt, rejected, terms, tgrid,
};

/// What a run gives, which nobody knows who did not run it.
const CHECKSUM: u64 = 0x0123_4567_89ab_cdef;
pub(crate) const RIGHT: Vote = Vote::Right { checksum: CHECKSUM };

/// What it takes: half of the model's limit.
const WORK: u64 = 210_000;

/// How long a result may be challenged, in milliseconds.
const WINDOW: u64 = 10_000;

/// What a challenge costs, in thousandths of a TGRID.
pub(crate) const CHALLENGE: u64 = 100;

fn with_offers(facts: ModelFacts) -> World {
    let mut genesis = genesis();
    // Windows in which several blocks of a second fit.
    genesis.parameters.leader_timeout = DurationMs::new(1_500);
    genesis.parameters.auction_slot = DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = DurationMs::from_secs(9);
    let mut world = World::with(&genesis);
    world.activate_model(facts);
    for (name, price) in [("cheap", 20), ("middle", 25)] {
        world.post(name, terms(price));
    }
    deal(&mut world, 0);
    world
}

fn of_tier(tier: Tier) -> ModelFacts {
    ModelFacts { tier, ..facts() }
}

/// A job whose result has a watcher; its model is of a tier that counts work.
fn watched() -> (World, JobId, LeaseId, &'static str) {
    watched_in(with_offers(of_tier(Tier::Wasm1)), Tier::Wasm1, WORK)
}

pub(crate) fn watched_in(
    mut world: World,
    tier: Tier,
    work: u64,
) -> (World, JobId, LeaseId, &'static str) {
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    let receipt = Receipt {
        tier,
        output: Digest::new([0x36; 32]),
        trace: RunCommitment::of(&lease, CHECKSUM, work).digest(),
        ..receipt()
    };
    world.send(name, Transaction::CommitReceipt { lease, receipt });
    let height = world.state.head().height;
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    world.send(name, evidence(lease));
    let watcher = watcher(&world, lease);
    (world, job, lease, watcher)
}

/// The only member of the committee.
pub(crate) fn watcher(world: &World, lease: LeaseId) -> &'static str {
    let stage = stage(world, lease);
    let [vote] = &stage.round().unwrap().votes[..] else {
        panic!("one watcher");
    };
    named(&vote.member)
}

fn named(validator: &Address) -> &'static str {
    let mut all = VALIDATORS.into_iter();
    all.find(|name| address(name) == *validator).unwrap()
}

pub(crate) fn opened(lease: LeaseId, vote: Vote) -> OpenedVote {
    OpenedVote {
        lease,
        vote,
        salt: Digest::new([0x55; 32]),
    }
}

pub(crate) fn reveal(lease: LeaseId, vote: Vote) -> Transaction {
    Transaction::RevealVotes {
        votes: vec![opened(lease, vote)],
    }
}

/// A member seals a vote and opens it.
pub(crate) fn vote(world: &mut World, lease: LeaseId, name: &str, vote: Vote) -> Vec<Event> {
    seal(world, lease, name, vote);
    world.send(name, reveal(lease, vote))
}

pub(crate) fn seal(world: &mut World, lease: LeaseId, name: &str, vote: Vote) {
    let votes = vec![opened(lease, vote).sealed(&address(name))];
    world.send(name, Transaction::CommitVotes { votes });
}

fn dispute(world: &World, lease: LeaseId) -> EvidenceTask {
    let mut tasks = world.state.pending_evidence();
    let is_it = |task: &EvidenceTask| {
        matches!(task, EvidenceTask::Accusation { vote: Vote::WrongRun, sample }
            if sample.lease == lease && sample.mode == VerificationMode::Optimistic)
    };
    tasks.find(is_it).unwrap()
}

pub(crate) fn stake(world: &World, name: &str) -> Amount {
    let mut all = world.state.validators().iter();
    all.find(|it| it.address == address(name)).unwrap().stake
}

const fn accepted(macs: u64) -> Outcome {
    Outcome::ProgramAccepted { macs }
}

#[test]
fn a_result_that_its_watcher_finds_right_is_paid_after_the_window_for_what_it_took() {
    let (mut world, job, lease, watcher) = watched();
    let tasks = world.state.vote_tasks(&address(watcher));
    assert!(matches!(&tasks[..], [VoteTask { sample, .. }]
        if sample.mode == VerificationMode::Optimistic));
    for name in VALIDATORS.into_iter().filter(|name| *name != watcher) {
        assert_eq!(world.state.vote_tasks(&address(name)), []);
    }
    vote(&mut world, lease, watcher, RIGHT);
    let until = world.time + WINDOW;
    assert!(matches!(
        stage(&world, lease),
        SyncStage::Contestable { .. }
    ));
    while world.time + TICK <= until {
        world.idle();
        assert_eq!(world.job(job).state(), JobState::Verifying);
    }
    let before = world.balance(watcher);
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Paid);
    // Half of the work was done, and the verification fee is three times that of a proof; a tenth of it is burned.
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, tgrid(10));
    assert_eq!(settlement.verification_fee, tgrid(27));
    assert!(world.balance(watcher) >= before.checked_add(tgrid(27)).unwrap());
}

#[test]
fn a_model_of_integers_has_no_bill_but_the_price() {
    let world = with_offers(facts());
    let (mut world, job, lease, watcher) = watched_in(world, Tier::Tgx1, 0);
    vote(&mut world, lease, watcher, RIGHT);
    world.wait_until(world.time + WINDOW + 2 * TICK);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(20));
}

#[test]
fn a_bill_above_the_limit_is_the_price() {
    let world = with_offers(of_tier(Tier::Tgf1));
    let (mut world, job, lease, watcher) = watched_in(world, Tier::Tgf1, u64::MAX);
    vote(&mut world, lease, watcher, RIGHT);
    world.wait_until(world.time + WINDOW + 2 * TICK);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(20));
}

#[test]
fn a_vote_that_opens_nothing_is_none_and_others_are_asked() {
    let (mut world, job, lease, first) = watched();
    let guess = Vote::Right { checksum: 7 };
    seal(&mut world, lease, first, guess);
    let refused = world.refusal(first, reveal(lease, guess));
    assert_eq!(refused, TransactionError::WrongVote { lease });
    // Nor are votes of the other mode.
    let round = |world: &World| stage(world, lease).round().unwrap().number;
    assert_eq!(round(&world), 0);
    world.wait_until(world.time + 10_000);
    assert_eq!(round(&world), 1);
    let second = watcher(&world, lease);
    seal(&mut world, lease, second, Vote::WrongForm);
    let refused = world.refusal(second, reveal(lease, Vote::WrongForm));
    assert_eq!(refused, TransactionError::WrongVote { lease });
    // Then all are, and more than two thirds must have run it.
    world.wait_until(world.time + 10_000);
    assert_eq!(stage(&world, lease).round().unwrap().votes.len(), 4);
    for name in &VALIDATORS[..3] {
        seal(&mut world, lease, name, RIGHT);
    }
    world.wait_until(world.time + 3_000);
    for name in &VALIDATORS[..2] {
        world.send(name, reveal(lease, RIGHT));
    }
    world.wait_until(world.time + 2_500);
    assert!(matches!(stage(&world, lease), SyncStage::Voting { .. }));
    world.send(VALIDATORS[2], reveal(lease, RIGHT));
    assert!(matches!(
        stage(&world, lease),
        SyncStage::Contestable { .. }
    ));
    world.wait_until(world.time + WINDOW + 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn a_watcher_that_is_right_about_a_lie_ends_it_without_pay() {
    let (mut world, job, lease, watcher) = watched();
    let before = stake(&world, watcher);
    vote(&mut world, lease, watcher, Vote::WrongRun);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    let task = dispute(&world, lease);
    // Whoever looked at all of it says what that came to.
    for outcome in [Outcome::Refuted, Outcome::LeaseAccepted, accepted(420_001)] {
        let proposed = world.block(vec![], vec![task.verdict(outcome)]);
        let (_, refused) = &proposed.refused_verdicts[0];
        assert!(matches!(refused, VerdictError::WrongOutcome { .. }));
    }
    let events = world.decide(&task, rejected());
    let slashed = events.iter().find_map(|event| match event {
        Event::Slashed { amount, .. } => Some(*amount),
        _ => None,
    });
    assert_eq!(slashed, Some(tgrid(500)));
    assert_eq!(stake(&world, watcher), before);
    let lease = world.state.lease(&lease).unwrap();
    assert!(matches!(lease.end(), Some(LeaseEnd::Rejected { .. })));
    assert_ne!(world.lease(job).id, lease.id);
}

#[test]
fn a_watcher_that_accuses_falsely_loses_a_bond_and_the_result_is_paid_at_once() {
    let (mut world, job, lease, watcher) = watched();
    let before = stake(&world, watcher);
    vote(&mut world, lease, watcher, Vote::WrongRun);
    world.decide(&dispute(&world, lease), accepted(WORK));
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(10));
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, watcher), before.checked_sub(bond).unwrap());
}

#[test]
fn a_challenge_of_a_lie_comes_back_and_who_found_it_right_loses_a_bond() {
    let (mut world, job, lease, watcher) = watched();
    vote(&mut world, lease, watcher, RIGHT);
    let (stake_before, before) = (stake(&world, watcher), world.balance("bob"));
    let others: Vec<Amount> = VALIDATORS.map(|name| world.balance(name)).to_vec();
    let events = world.send("bob", Transaction::ChallengeResult { lease });
    let fee = spent_on_gas(&events, "bob");
    let paid = tgrid(CHALLENGE).checked_add(fee).unwrap();
    assert_eq!(world.balance("bob"), before.checked_sub(paid).unwrap());
    // It is paid to those who run it again, whatever they find.
    let gains = VALIDATORS.into_iter().zip(others);
    let gained: u128 = gains
        .map(|(name, before)| world.balance(name).get() - before.get())
        .sum();
    assert_eq!(gained, tgrid(CHALLENGE).get());
    let again = world.refusal("alice", Transaction::ChallengeResult { lease });
    assert_eq!(again, TransactionError::NotContestable { lease });

    let events = world.decide(&dispute(&world, lease), rejected());
    let slashed = events.iter().find_map(|event| match event {
        Event::Slashed { amount, .. } => Some(*amount),
        _ => None,
    });
    assert_eq!(slashed, Some(tgrid(500 - CHALLENGE)));
    assert_eq!(world.balance("bob"), before.checked_sub(fee).unwrap());
    let bond = world.state.accusation_bond();
    let left = stake_before.checked_sub(bond).unwrap();
    assert_eq!(stake(&world, watcher), left);
    assert_ne!(world.lease(job).id, lease);
}

#[test]
fn a_challenge_of_what_is_right_is_paid_for_and_ends_the_window() {
    let (mut world, job, lease, watcher) = watched();
    vote(&mut world, lease, watcher, RIGHT);
    let before = stake(&world, watcher);
    let events = world.send("bob", Transaction::ChallengeResult { lease });
    let (fee, after) = (spent_on_gas(&events, "bob"), world.balance("bob"));
    assert!(fee > Amount::ZERO);
    world.decide(&dispute(&world, lease), accepted(WORK));
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.balance("bob"), after);
    assert_eq!(stake(&world, watcher), before);
    let late = world.refusal("alice", Transaction::ChallengeResult { lease });
    assert_eq!(late, TransactionError::UnknownLease { lease });
}

#[test]
fn what_is_voted_on_may_be_challenged_and_what_is_open_may_not() {
    let mut world = with_offers(of_tier(Tier::Wasm1));
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    let early = world.refusal("bob", Transaction::ChallengeResult { lease });
    assert_eq!(early, TransactionError::NotContestable { lease });
    // A watcher that sealed nothing yet is not asked to while all run it.
    let (mut world, _, lease, watcher) = watched();
    assert_eq!(world.state.vote_tasks(&address(watcher)).len(), 1);
    world.send("bob", Transaction::ChallengeResult { lease });
    assert_eq!(world.state.vote_tasks(&address(watcher)), []);
    let (mut world, job, lease, watcher) = watched();
    seal(&mut world, lease, watcher, RIGHT);
    world.send("bob", Transaction::ChallengeResult { lease });
    // A watcher that opens in the same block is not punished for the challenge, and is not needed any more.
    world.send(watcher, reveal(lease, RIGHT));
    let round = stage(&world, lease);
    let state = round.round().unwrap().vote(&address(watcher)).copied();
    assert_eq!(state, Some(VoteState::Open(RIGHT)));
    world.decide(&dispute(&world, lease), accepted(WORK));
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn an_offer_that_puts_up_less_than_three_times_its_price_gets_no_such_job() {
    let mut world = World::new();
    let mut cheap = terms(20);
    cheap.collateral_per_lease = tgrid(59);
    world.post("cheap", cheap);
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let job = world.submit("alice", order);
    assert_eq!(world.job(job).state(), JobState::Queued);
    // Three times its price, and less than whoever challenges a lie pays for that.
    let mut middle = terms(25);
    middle.collateral_per_lease = tgrid(75);
    world.post("middle", middle.clone());
    assert_eq!(world.job(job).state(), JobState::Queued);
    middle.collateral_per_lease = tgrid(CHALLENGE);
    world.post("middle", middle);
    assert_eq!(world.holder(job), "middle");
}

/// What a transaction of an account cost it in one block.
pub(crate) fn spent_on_gas(events: &[Event], name: &str) -> Amount {
    let of = events.iter().filter_map(|event| match event {
        Event::TransactionExecuted {
            sender,
            burned,
            tip,
            ..
        } if *sender == address(name) => burned.checked_add(*tip),
        _ => None,
    });
    of.fold(Amount::ZERO, Amount::saturating_add)
}

#[test]
fn a_challenge_before_an_accusation_in_one_block_decides_how_it_is_looked_at() {
    let (mut world, job, lease, watcher) = watched();
    seal(&mut world, lease, watcher, Vote::WrongRun);
    together(
        &mut world,
        vec![
            ("bob", Transaction::ChallengeResult { lease }),
            (watcher, reveal(lease, Vote::WrongRun)),
        ],
    );
    let before = stake(&world, watcher);
    world.decide(&dispute(&world, lease), accepted(WORK));
    assert_eq!(world.job(job).state(), JobState::Paid);
    // Nobody loses a bond for what was not asked of it any more.
    assert_eq!(stake(&world, watcher), before);
}
