//! Proof of Sync among more validators than a committee has seats.

use tg_ledger::limits::COMMITTEE_SEATS;
use tg_ledger::{
    AbandonedBecause, ConsensusKey, EvidenceTask, JobState, LeaseEnd, Outcome, Parameters,
    SEED_KEY_BYTES, State, StorageRule, TransactionError, Validator, VoteRound,
    WHOLE_RUN_MACS_USUAL,
};
use tg_types::{
    Address, Amount, DealingLog, Decode as _, Digest, DurationMs, Encode as _, JobId, LeaseId,
    OpenedVote, Receipt, RunCommitment, StorageSubject, Transaction, VerificationMode, Vote,
};

use crate::sync::{SIGNATURE, seed_task, stage, together};
use crate::world::{
    MODEL, World, address, commit, evidence, facts, genesis, receipt, terms, tgrid,
};

const RIGHT: Vote = Vote::Right { checksum: 41 };

/// What a member has of the fee of 0.01, less a tenth that burns, among sixteen.
fn share() -> Amount {
    Amount::new(tgrid(9).get() / 16)
}

/// More than two thirds of 16.
const ENOUGH: usize = 11;

/// The names of so many validators.
fn names(seats: u8) -> Vec<String> {
    (0..seats).map(|it| format!("validator {it}")).collect()
}

/// A network of so many validators, which have dealt a key, with offers.
fn network_of(seats: u8, change: impl FnOnce(&mut Parameters)) -> World {
    let names = names(seats);
    let mut genesis = genesis();
    change(&mut genesis.parameters);
    let seat = |(name, index): (&String, u8)| Validator {
        address: address(name),
        key: ConsensusKey::new([index; 32]),
        stake: Amount::from_tgrid(1_000),
    };
    genesis.validators = names.iter().zip(0..seats).map(seat).collect();
    genesis.validators.sort_by_key(|it| it.address);
    genesis.parameters.leader_timeout = DurationMs::new(200);
    genesis.parameters = genesis.parameters.wide_enough_for(usize::from(seats));
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    for (name, price) in [("cheap", 20), ("middle", 25)] {
        world.post(name, terms(price));
    }
    for some in names.chunks(10) {
        let dealing = Transaction::PostDealing {
            round: 0,
            log: DealingLog::new(vec![7; 100]).unwrap(),
        };
        let dealt = some.iter().map(|it| (it.as_str(), dealing.clone()));
        together(&mut world, dealt.collect());
    }
    let mut tasks = world.state.pending_evidence();
    let is_key = |it: &EvidenceTask| matches!(it, EvidenceTask::SeedKey { .. });
    let task = tasks.find(is_key).unwrap();
    drop(tasks);
    world.decide(&task, Outcome::SeedKey([7; SEED_KEY_BYTES]));
    world
}

/// Starts a job, once it is leased.
fn started(world: &mut World, job: JobId) -> (&'static str, LeaseId) {
    // A slot of the auction may be longer than a block.
    while world.job(job).state() != JobState::Leased {
        world.idle();
    }
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    (name, lease)
}

/// A result that a committee of so many validators votes on.
fn voting_among(seats: u8) -> (World, JobId, LeaseId) {
    let mut world = network_of(seats, |_| {});
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    let (name, lease) = started(&mut world, job);
    world.send(name, commit(lease));
    let task = seed_task(&world, world.state.head().height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    world.send(name, evidence(lease));
    (world, job, lease)
}

/// Validators state that they hold something.
fn state_all(world: &mut World, names: &[String], subject: impl Into<StorageSubject>) {
    let held = vec![subject.into()];
    for some in names.chunks(8) {
        let missing = Vec::new();
        let report = Transaction::ReportStorage {
            held: held.clone(),
            missing,
        };
        let sent = some.iter().map(|it| (it.as_str(), report.clone()));
        together(world, sent.collect());
    }
}

/// A short run, which a committee of so many validators repeats whole; they state what they hold.
fn repeated_among(seats: u8) -> (World, JobId, LeaseId) {
    let mut world = network_of(seats, |parameters| {
        parameters.storage = StorageRule::Stated;
        parameters.whole_run_macs_max = WHOLE_RUN_MACS_USUAL;
    });
    let quorum = world.state.quorum();
    let names = names(seats);
    state_all(&mut world, &names[..quorum], MODEL);
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    order.retention = DurationMs::from_secs(24 * 3600);
    let job = world.submit("alice", order);
    state_all(&mut world, &names[..quorum], job);
    let (name, lease) = started(&mut world, job);
    let receipt = Receipt {
        trace: RunCommitment::of(&lease, RIGHT.checksum(), 0).digest(),
        ..receipt()
    };
    world.send(name, Transaction::CommitReceipt { lease, receipt });
    let task = seed_task(&world, world.state.head().height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    (world, job, lease)
}

/// All members seal that they found it right, and so many open it.
fn found_by(world: &mut World, members: &[String], count: usize, lease: LeaseId) {
    seal_all(world, members, lease);
    open_all(world, &members[..count], lease);
    let window = world.state.parameters().least_window(40).get();
    world.wait_until(world.time + window + 2_000);
}

fn round(world: &World, lease: LeaseId) -> VoteRound {
    stage(world, lease).round().unwrap().clone()
}

/// The names of those validators that are members of the present committee, and of the others.
fn sides(world: &World, lease: LeaseId, seats: u8) -> (Vec<String>, Vec<String>) {
    let round = round(world, lease);
    let members: Vec<Address> = round.votes.iter().map(|it| it.member).collect();
    let is_member = |it: &String| members.contains(&address(it));
    names(seats).into_iter().partition(is_member)
}

fn right(lease: LeaseId) -> OpenedVote {
    OpenedVote {
        lease,
        vote: RIGHT,
        salt: Digest::new([0x55; 32]),
    }
}

fn sealed(name: &str, lease: LeaseId) -> Transaction {
    Transaction::CommitVotes {
        votes: vec![right(lease).sealed(&address(name))],
    }
}

fn opened(lease: LeaseId) -> Transaction {
    Transaction::RevealVotes {
        votes: vec![right(lease)],
    }
}

fn seal_all(world: &mut World, members: &[String], lease: LeaseId) {
    let sent = members.iter().map(|it| (it.as_str(), sealed(it, lease)));
    together(world, sent.collect());
}

fn open_all(world: &mut World, members: &[String], lease: LeaseId) {
    let sent = members.iter().map(|it| (it.as_str(), opened(lease)));
    together(world, sent.collect());
}

#[test]
fn the_votes_of_the_drawn_sixteen_alone_count_and_they_alone_are_paid() {
    let (mut world, job, lease) = voting_among(40);
    let (members, others) = sides(&world, lease, 40);
    assert_eq!((members.len(), others.len()), (COMMITTEE_SEATS, 24));
    // Who was not drawn has no vote, neither sealed nor open.
    let no_vote = TransactionError::NoVote { lease };
    assert_eq!(
        world.refusal(&others[0], sealed(&others[0], lease)),
        no_vote
    );
    seal_all(&mut world, &members, lease);
    assert!(round(&world, lease).opening_since.is_some());
    assert_eq!(world.refusal(&others[0], opened(lease)), no_vote);
    assert!(world.state.vote_tasks(&address(&others[0])).is_empty());

    let balances = |world: &World, of: &[String]| -> Vec<Amount> {
        of.iter().map(|it| world.balance(it)).collect()
    };
    let before = balances(&world, &members);
    open_all(&mut world, &members, lease);
    assert_eq!(world.job(job).state(), JobState::Paid);
    let share = share();
    for ((name, before), after) in members.iter().zip(before).zip(balances(&world, &members)) {
        let gained = after.checked_sub(before).unwrap();
        assert!(gained >= share, "{name}: {gained}");
    }
    // One that was not drawn missed nothing.
    let seat = usize::from(world.state.seat_of(&address(&others[0])).unwrap());
    assert_eq!(world.state.seats().seats[seat].missed, 0);
}

#[test]
fn eleven_of_sixteen_are_enough_and_ten_are_not() {
    let (mut world, job, lease) = voting_among(17);
    let (members, _) = sides(&world, lease, 17);
    seal_all(&mut world, &members[..ENOUGH - 1], lease);
    let window = world.state.parameters().least_window(17).get();
    world.wait_until(world.time + window / 2);
    assert_eq!(round(&world, lease).opening_since, None);
    seal_all(&mut world, &members[ENOUGH - 1..ENOUGH], lease);
    world.idle();
    assert!(round(&world, lease).opening_since.is_some());
    open_all(&mut world, &members[..ENOUGH], lease);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn a_silent_committee_is_followed_by_others_and_then_by_all() {
    let (mut world, job, lease) = voting_among(40);
    let window = world.state.parameters().least_window(40).get();
    let (first, _) = sides(&world, lease, 40);
    world.wait_until(world.time + window + 2_000);
    assert_eq!(round(&world, lease).number, 1);
    let (second, _) = sides(&world, lease, 40);
    assert_eq!(second.len(), COMMITTEE_SEATS);
    assert_ne!(first, second);
    // A member of the first one alone has no vote in the second.
    let former = first.iter().find(|it| !second.contains(it)).unwrap();
    let refused = world.refusal(former, sealed(former, lease));
    assert_eq!(refused, TransactionError::NoVote { lease });
    world.wait_until(world.time + window + 2_000);
    assert_eq!(round(&world, lease).number, 2);
    let (all, none) = sides(&world, lease, 40);
    assert_eq!((all.len(), none.len()), (40, 0));
    for some in all.chunks(20) {
        seal_all(&mut world, some, lease);
    }
    // 27 of 40 are more than two thirds; the others are waited for some seconds, as they may be kept from the chain.
    for some in all[..27].chunks(20) {
        open_all(&mut world, some, lease);
    }
    world.wait_until(world.time + window + 2_000);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

/// Of 33 validators 10 may be hostile, and 16 members need 11; of 34 they are 11, who could accept alone what the others are kept from accusing.
#[test]
fn a_committee_that_may_be_hostile_waits_for_all_its_members() {
    for (seats, waits) in [(33, false), (34, true)] {
        let (mut world, job, lease) = voting_among(seats);
        let (members, _) = sides(&world, lease, seats);
        let window = world.state.parameters().least_window(usize::from(seats));
        assert!(window > DurationMs::from_secs(5));
        seal_all(&mut world, &members[..ENOUGH], lease);
        // Longer than a committee waits that cannot be hostile.
        world.wait_until(world.time + 3_000);
        let is_open = round(&world, lease).opening_since.is_some();
        assert_eq!(is_open, !waits, "{seats}");
        if waits {
            world.wait_until(world.time + window.get());
            assert!(round(&world, lease).opening_since.is_some());
        }
        open_all(&mut world, &members[..ENOUGH], lease);
        world.wait_until(world.time + window.get() + 2_000);
        assert_eq!(world.job(job).state(), JobState::Paid, "{seats}");
    }
}

/// Sixteen members that ran it have its answer, and are enough where n - f are no more.
#[test]
fn what_n_minus_f_members_have_found_is_paid_with_their_votes() {
    for seats in [17, 23] {
        let (mut world, job, lease) = repeated_among(seats);
        let (members, _) = sides(&world, lease, seats);
        assert!(world.state.quorum() <= members.len());
        seal_all(&mut world, &members, lease);
        open_all(&mut world, &members, lease);
        assert_eq!(world.job(job).state(), JobState::Paid, "{seats}");
    }
}

#[test]
fn a_run_that_sixteen_repeat_is_paid_once_n_minus_f_have_its_answer() {
    for (seats, found, more) in [(17, 11, 1), (24, 16, 1), (40, 16, 11), (40, 11, 16)] {
        let (mut world, job, lease) = repeated_among(seats);
        let (members, others) = sides(&world, lease, seats);
        let paid = world.balance(&members[0]).saturating_add(share());
        found_by(&mut world, &members, found, lease);
        assert_eq!(world.job(job).state(), JobState::Delivering, "{seats}");
        assert_eq!(world.state.answer_held_by(world.lease(job)).len(), found);
        assert!(world.balance(&members[0]) < paid, "nobody is paid yet");
        let offer = world.lease(job).offer;
        assert_eq!(world.state.offer(&offer).unwrap().slots_taken, 0);
        // A member that found it is no other, and whoever says so late has no vote.
        state_all(&mut world, &members[..2], lease);
        if let Some(late) = members.get(found) {
            let refused = world.refusal(late, opened(lease));
            assert_eq!(refused, TransactionError::NoVote { lease });
        }
        // Nobody is asked for a vote on it: one that is refused takes all others of its transaction with it.
        for member in &members {
            assert_eq!(world.state.vote_tasks(&address(member)), [], "{seats}");
        }
        state_all(&mut world, &others[..more - 1], lease);
        assert_eq!(world.job(job).state(), JobState::Delivering, "{seats}");
        // A stored state goes on alike.
        let stored = State::from_bytes(&world.state.to_bytes()).unwrap();
        assert_eq!(stored.root(), world.state.root());
        state_all(&mut world, &others[more - 1..more], lease);
        assert_eq!(world.job(job).state(), JobState::Paid, "{seats}");
        // What validators promise to keep is what they stated, not what they voted.
        let kept = world.state.retained_of(&job).unwrap();
        assert_eq!(kept.held.len(), more + 2);
        assert!(world.balance(&members[0]) >= paid);
    }
}

/// The attack: a provider and a committee that has an answer, or says so, and shows it to nobody else.
#[test]
fn an_answer_that_a_committee_keeps_to_itself_is_not_paid() {
    let (mut world, job, lease) = repeated_among(40);
    let (members, others) = sides(&world, lease, 40);
    let paid = world.balance(&members[0]).saturating_add(share());
    let escrow = world.job(job).escrow();
    found_by(&mut world, &members, COMMITTEE_SEATS, lease);
    // With all members, f others are not enough: of n - f at least f + 1 serve it whoever asks.
    state_all(&mut world, &members, lease);
    state_all(&mut world, &others[..10], lease);
    let (by, _) = world.lease(job).delivery().unwrap();
    world.wait_until(by.get());
    assert_eq!(world.job(job).state(), JobState::Delivering);
    world.wait_until(by.get() + 1);
    let ended = world.state.lease(&lease).unwrap();
    let end = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    assert_eq!(ended.end(), Some(&end));
    assert!(world.balance(&members[0]) < paid, "nobody has the fee");
    // It was found right, so it is lost as an answer that nobody checks is, and not as a lie.
    let provider = world.state.provider(&ended.provider).unwrap();
    assert_eq!(
        (provider.record.abandoned, provider.record.rejected),
        (1, 0)
    );
    let longest = world.state.parameters().suspension_lapsed;
    assert!(provider.suspended_until <= world.now().saturating_add(longest));
    // The escrow stays, and another provider has the job.
    assert_eq!(world.job(job).escrow(), escrow);
    assert!(world.job(job).excluded.contains(&ended.provider));
}
