//! Proof of Sync among more validators than a committee has seats.

use tg_ledger::limits::COMMITTEE_SEATS;
use tg_ledger::{
    ConsensusKey, EvidenceTask, JobState, Outcome, SEED_KEY_BYTES, TransactionError, Validator,
    VoteRound,
};
use tg_types::{
    Address, Amount, DealingLog, Digest, DurationMs, JobId, LeaseId, OpenedVote, Transaction,
    VerificationMode, Vote,
};

use crate::sync::{SIGNATURE, seed_task, stage, together};
use crate::world::{World, address, commit, evidence, facts, genesis, terms, tgrid};

const RIGHT: Vote = Vote::Right { checksum: 41 };

/// More than two thirds of 16.
const ENOUGH: usize = 11;

/// The names of so many validators.
fn names(seats: u8) -> Vec<String> {
    (0..seats).map(|it| format!("validator {it}")).collect()
}

/// A result that a committee of so many validators votes on.
fn voting_among(seats: u8) -> (World, JobId, LeaseId) {
    let names = names(seats);
    let mut genesis = genesis();
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

    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    // A slot of the auction may be longer than a block.
    while world.job(job).state() != JobState::Leased {
        world.idle();
    }
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    let task = seed_task(&world, world.state.head().height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    world.send(name, evidence(lease));
    (world, job, lease)
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
    // The fee of 0.01, less a tenth that burns, in sixteen.
    let share = Amount::new(tgrid(9).get() / 16);
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
