//! Proof of Sync: from the dealing of the seed's key to the votes on a result.

use tg_ledger::{
    EndReason, Event, EvidenceTask, Genesis, JobState, LeaseEnd, MemberVote, ModelFacts, Outcome,
    SEED_KEY_BYTES, SEED_SIGNATURE_BYTES, SeedKeyPhase, Subject, SyncStage, TransactionError,
    VerdictError, VoteDuty, VoteRound, VoteState, VoteTask, seed_of,
};
use tg_types::{
    Address, Amount, CapacityTier, DealingLog, Digest, DurationMs, GpuModel, Height, JobId,
    JobNeeds, LeaseId, OfferTerms, OpenedVote, Receipt, RunCommitment, StorageSubject, Tier,
    TileName, TimestampMs, Transaction, VerificationMode, Vote,
};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{
    TICK, World, address, commit, evidence, facts, genesis, receipt, rejected, terms, tgrid, wallet,
};

pub(crate) const VALIDATORS: [&str; 4] =
    ["validator 0", "validator 1", "validator 2", "validator 3"];
const KEY: [u8; SEED_KEY_BYTES] = [7; SEED_KEY_BYTES];
pub(crate) const SIGNATURE: [u8; SEED_SIGNATURE_BYTES] = [9; SEED_SIGNATURE_BYTES];
const RIGHT: Vote = Vote::Right { checksum: 41 };
const WRONG: Vote = Vote::WrongTile(TileName { node: 2, leaf: 5 });

fn dealing(round: u64, byte: u8) -> Transaction {
    Transaction::PostDealing {
        round,
        log: DealingLog::new(vec![byte; 100]).unwrap(),
    }
}

/// Several transactions in one block; all must hold.
pub(crate) fn together(world: &mut World, sent: Vec<(&str, Transaction)>) -> Vec<Event> {
    let signed = sent
        .into_iter()
        .map(|(name, transaction)| world.sign(name, transaction))
        .collect();
    let proposed = world.block(signed, vec![]);
    assert_eq!(proposed.refused, []);
    proposed.events
}

/// A network with offers that put up enough, whose validators have dealt a key.
fn with_key() -> World {
    with_key_of(genesis())
}

fn with_key_of(genesis: Genesis) -> World {
    with_key_and(genesis, facts())
}

fn with_key_and(mut genesis: Genesis, facts: ModelFacts) -> World {
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

pub(crate) fn deal(world: &mut World, round: u64) {
    let dealt = VALIDATORS.into_iter().zip(1..);
    let sent = dealt.map(|(name, byte)| (name, dealing(round, byte)));
    together(world, sent.collect());
    let task = key_task(world);
    world.decide(&task, Outcome::SeedKey(KEY));
    assert_eq!(world.state.seeds().key(), Some(&KEY));
}

fn key_task(world: &World) -> EvidenceTask {
    let mut tasks = world.state.pending_evidence();
    tasks
        .find(|it| matches!(it, EvidenceTask::SeedKey { .. }))
        .unwrap()
}

/// A job of mode `sync` whose provider has committed to a result.
pub(crate) fn committed(world: &mut World) -> (JobId, LeaseId) {
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    (job, lease)
}

pub(crate) fn seed_task(world: &World, height: Height) -> EvidenceTask {
    let mut tasks = world.state.pending_evidence();
    tasks
        .find(|it| it.subject() == Subject::Seed(height))
        .unwrap()
}

/// The seed comes, the provider opens, and the committee is drawn (files are assumed to be held in these tests).
fn voting() -> (World, JobId, LeaseId) {
    voting_in(with_key())
}

fn voting_in(mut world: World) -> (World, JobId, LeaseId) {
    let (job, lease) = committed(&mut world);
    let height = world.state.head().height;
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    let name = world.holder(job);
    world.send(name, evidence(lease));
    (world, job, lease)
}

/// What a committee votes on, no verdict of a block decides before it is disputed.
#[test]
fn a_verdict_on_what_a_committee_votes_on_is_refused() {
    let (mut world, job, lease) = voting();
    assert_eq!(world.job(job).state(), JobState::Verifying);
    let subject = Subject::Lease(lease);
    for outcome in [rejected(), Outcome::LeaseAccepted] {
        let verdict = tg_ledger::Verdict {
            subject,
            evidence: Digest::new([0x36; 32]),
            outcome,
        };
        let proposed = world.block(vec![], vec![verdict.clone()]);
        let refused = VerdictError::NotPending { subject };
        assert_eq!(proposed.refused_verdicts, [(verdict, refused)]);
        assert_eq!(world.job(job).state(), JobState::Verifying);
    }
}

/// A program of WebAssembly is paid for the fuel that its receipt states, and members have the time beside their windows that a run of all of it
/// takes.
#[test]
fn a_program_is_paid_as_stated_and_members_have_the_time_of_a_run() {
    let fuel = 1 << 27;
    let program = ModelFacts {
        tier: Tier::Wasm1,
        macs: fuel,
        provable: false,
        ..facts()
    };
    let mut world = with_key_and(genesis(), program);
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    let receipt = Receipt {
        tier: Tier::Wasm1,
        trace: RunCommitment::of_trace(&Digest::new([3; 32]), fuel / 2).digest(),
        ..receipt()
    };
    world.send(name, Transaction::CommitReceipt { lease, receipt });
    let height = world.state.head().height;
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    world.send(name, evidence(lease));
    // Three of four; the fourth is waited for as long as it may take to run the program.
    let right = opened(lease, RIGHT);
    let three = [0, 1, 2].map(|it| VALIDATORS[it]);
    together(&mut world, three.map(|it| seal(it, right)).to_vec());
    let is_open = |world: &World| {
        let stage = stage(world, lease);
        stage.round().unwrap().opening_since.is_some()
    };
    world.wait_until(world.time + 4_000);
    assert!(!is_open(&world));
    world.wait_until(world.time + 4_000);
    assert!(is_open(&world));
    together(&mut world, three.map(|it| reveal(it, right)).to_vec());
    world.wait_until(world.time + 8_000);
    let paid = world.job(job).settlement().unwrap().price;
    assert_eq!(paid.checked_mul_div_ceil(2, 1), Some(tgrid(20)));
}

#[test]
fn what_a_committee_may_have_to_repeat_is_bounded() {
    let facts = |tier, macs| ModelFacts {
        tier,
        macs,
        ..facts()
    };
    for (tier, most) in [(Tier::Tgf1, 1 << 33), (Tier::Wasm1, 1 << 27)] {
        assert!(facts(tier, most).is_sampled());
        assert!(!facts(tier, most + 1).is_sampled());
    }
    assert!(!facts(Tier::Served, 0).is_sampled());
    let window = facts(Tier::Wasm1, 1 << 27).run_window();
    assert_eq!(window, DurationMs::from_secs(4));
}

fn opened(lease: LeaseId, vote: Vote) -> OpenedVote {
    OpenedVote {
        lease,
        vote,
        salt: Digest::new([0x55; 32]),
    }
}

fn seal(name: &'static str, opened: OpenedVote) -> (&'static str, Transaction) {
    let votes = vec![opened.sealed(&address(name))];
    (name, Transaction::CommitVotes { votes })
}

fn reveal(name: &'static str, opened: OpenedVote) -> (&'static str, Transaction) {
    (
        name,
        Transaction::RevealVotes {
            votes: vec![opened],
        },
    )
}

pub(crate) fn stage(world: &World, lease: LeaseId) -> SyncStage {
    let lease = world.state.lease(&lease).unwrap();
    lease.check.as_ref().unwrap().stage.clone()
}

fn vote(world: &World, lease: LeaseId, name: &str) -> VoteState {
    let stage = stage(world, lease);
    *stage.round().unwrap().vote(&address(name)).unwrap()
}

#[test]
fn a_result_that_all_find_right_is_paid_and_they_share_the_fee() {
    let mut world = with_key();
    let (job, lease) = committed(&mut world);
    let height = world.state.head().height;
    assert_eq!(stage(&world, lease), SyncStage::AwaitsSeed);
    assert_eq!(world.state.seeds_wanted(), [height]);
    // Nobody opens before it is known what.
    let name = world.holder(job);
    let early = world.refusal(name, evidence(lease));
    assert_eq!(early, TransactionError::NotChallenged { lease });
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    assert_eq!(stage(&world, lease).seed(), Some(seed_of(&SIGNATURE)));
    assert_eq!(world.state.seeds_wanted(), []);
    world.send(name, evidence(lease));
    assert_eq!(world.job(job).state(), JobState::Verifying);

    let before: Vec<Amount> = VALIDATORS.map(|it| world.balance(it)).to_vec();
    let right = opened(lease, RIGHT);
    let tasks = world.state.vote_tasks(&address(VALIDATORS[0]));
    assert!(
        matches!(&tasks[..], [VoteTask { step: VoteDuty::Seal, number: 0, sample }] if sample.lease == lease)
    );
    together(&mut world, VALIDATORS.map(|it| seal(it, right)).to_vec());
    let tasks = world.state.vote_tasks(&address(VALIDATORS[0]));
    assert!(matches!(
        &tasks[..],
        [VoteTask {
            step: VoteDuty::Open,
            ..
        }]
    ));
    let provider = world.balance(name);
    together(&mut world, VALIDATORS.map(|it| reveal(it, right)).to_vec());
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert!(world.balance(name) > provider);
    // The fee of 0.01, less a tenth that burns, in four.
    let gained = |at: usize| {
        let now = world.balance(VALIDATORS[at]);
        now.checked_sub(before[at]).unwrap()
    };
    let share = Amount::new(tgrid(9).get() / 4);
    for at in 0..4 {
        assert!(gained(at) >= share, "{at}: {}", gained(at));
    }
}

#[test]
fn one_member_that_finds_a_wrong_tile_is_enough() {
    let (mut world, job, lease) = voting();
    let (right, wrong) = (opened(lease, RIGHT), opened(lease, WRONG));
    let name = world.holder(job);
    let sealed = VALIDATORS[..3].iter().map(|it| seal(it, right));
    together(
        &mut world,
        sealed.chain([seal(VALIDATORS[3], wrong)]).collect(),
    );
    let events = world.send(VALIDATORS[3], reveal(VALIDATORS[3], wrong).1);
    let disputed = events.iter().any(
        |it| matches!(it, Event::ResultDisputed { accuser, vote: WRONG, .. } if *accuser == address(VALIDATORS[3])),
    );
    assert!(disputed);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    // Time does not end a dispute.
    world.wait_until(world.time + 300_000);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    let task = world
        .state
        .pending_evidence()
        .find(|it| it.subject() == Subject::Accusation(lease, WRONG))
        .unwrap();
    let burned = world.state.totals().burned;
    world.decide(&task, rejected());
    let ended = world.state.lease(&lease).unwrap();
    assert!(matches!(ended.end(), Some(LeaseEnd::Rejected { .. })));
    assert!(world.state.totals().burned >= burned.saturating_add(tgrid(500)));
    // Another provider has it in that block, and not the one that lied.
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_ne!(world.holder(job), name);
}

#[test]
fn a_false_accusation_costs_stake_and_the_result_is_paid() {
    let (mut world, job, lease) = voting();
    let (right, wrong) = (opened(lease, RIGHT), opened(lease, Vote::WrongForm));
    let honest = &VALIDATORS[..3];
    let sealed = honest.iter().map(|it| seal(it, right));
    together(
        &mut world,
        sealed.chain([seal(VALIDATORS[3], wrong)]).collect(),
    );
    let mut sent: Vec<_> = honest.iter().map(|it| reveal(it, right)).collect();
    sent.insert(0, reveal(VALIDATORS[3], wrong));
    let (first, rest) = sent.split_at(1);
    together(&mut world, first.to_vec());
    assert_eq!(world.job(job).state(), JobState::Disputed);
    // Votes are taken all the same while every validator looks.
    together(&mut world, rest[..1].to_vec());
    let stake = |world: &World| {
        let seat = world.state.seat_of(&address(VALIDATORS[3])).unwrap();
        world.state.validators()[usize::from(seat)].stake
    };
    assert_eq!(stake(&world), Amount::from_tgrid(1_000));
    let task = world
        .state
        .pending_evidence()
        .find(|it| it.subject() == Subject::Accusation(lease, Vote::WrongForm))
        .unwrap();
    world.decide(&task, Outcome::Refuted);
    assert_eq!(stake(&world), Amount::from_tgrid(999));
    assert_eq!(vote(&world, lease, VALIDATORS[3]), VoteState::Refuted);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    together(&mut world, rest[1..].to_vec());
    assert_eq!(world.job(job).state(), JobState::Paid);
}

/// What a validator has at stake, and how many votes it missed.
fn standing(world: &World, name: &str) -> (Amount, u16) {
    let seat = usize::from(world.state.seat_of(&address(name)).unwrap());
    let missed = world.state.seats().seats[seat].missed;
    (world.state.validators()[seat].stake, missed)
}

#[test]
fn who_computed_nothing_has_no_share_and_after_four_votes_none_of_the_fees_either() {
    let mut world = with_key();
    let lazy = VALIDATORS[3];
    for missed in 1..=4 {
        let (job, lease);
        (world, job, lease) = voting_in(world);
        let (right, empty) = (
            opened(lease, RIGHT),
            opened(lease, Vote::Right { checksum: 0 }),
        );
        let vote_of = |name| if name == lazy { empty } else { right };
        together(
            &mut world,
            VALIDATORS.map(|it| seal(it, vote_of(it))).to_vec(),
        );
        let before = VALIDATORS.map(|it| world.balance(it));
        together(
            &mut world,
            VALIDATORS.map(|it| reveal(it, vote_of(it))).to_vec(),
        );
        assert_eq!(world.job(job).state(), JobState::Paid);
        let gained = |at: usize| {
            world
                .balance(VALIDATORS[at])
                .checked_sub(before[at])
                .unwrap()
        };
        let share = Amount::new(tgrid(9).get() / 3);
        assert!(gained(0) >= share, "{}", gained(0));
        assert!(gained(3) < share, "{}", gained(3));
        assert_eq!(standing(&world, lazy), (Amount::from_tgrid(1_000), missed));
        assert_eq!(standing(&world, VALIDATORS[0]).1, 0);
        // The fee of a proof is everybody's.
        let order = world.order();
        let job = world.submit("alice", order);
        let (name, lease) = (world.holder(job), world.lease(job).id);
        world.send(name, Transaction::StartLease { lease });
        world.send(name, commit(lease));
        world.send(name, evidence(lease));
        let mut tasks = world.state.pending_evidence();
        let task = tasks
            .find(|it| it.subject() == Subject::Lease(lease))
            .unwrap();
        drop(tasks);
        let events = world.decide(&task, Outcome::LeaseAccepted);
        let has_fees = |name| {
            let paid = |it: &Event| matches!(it, Event::Rewarded { validator, .. } if *validator == address(name));
            events.iter().any(paid)
        };
        assert!(has_fees(VALIDATORS[1]));
        assert_eq!(has_fees(lazy), missed < 4, "vote {missed}");
    }
    // One vote that counts, and it has them again.
    let (mut world, _, lease) = voting_in(world);
    let right = opened(lease, RIGHT);
    together(&mut world, VALIDATORS.map(|it| seal(it, right)).to_vec());
    together(&mut world, VALIDATORS.map(|it| reveal(it, right)).to_vec());
    assert_eq!(standing(&world, lazy).1, 0);
}

#[test]
fn members_that_computed_different_things_are_no_majority() {
    let (mut world, job, lease) = voting();
    let votes = [1, 1, 2, 3].map(|checksum| opened(lease, Vote::Right { checksum }));
    let sealed = VALIDATORS.into_iter().zip(votes);
    together(
        &mut world,
        sealed.clone().map(|(it, vote)| seal(it, vote)).collect(),
    );
    together(
        &mut world,
        sealed.map(|(it, vote)| reveal(it, vote)).collect(),
    );
    assert_eq!(world.job(job).state(), JobState::Verifying);
    let round = stage(&world, lease).round().unwrap().clone();
    assert_eq!(round.number, 1, "others are asked");
}

#[test]
fn who_found_a_wrong_result_right_loses_stake() {
    let (mut world, job, lease) = voting();
    let (right, wrong) = (opened(lease, RIGHT), opened(lease, WRONG));
    let mut sealed: Vec<_> = VALIDATORS[..3].iter().map(|it| seal(it, right)).collect();
    sealed.push(seal(VALIDATORS[3], wrong));
    together(&mut world, sealed);
    world.send(VALIDATORS[0], reveal(VALIDATORS[0], right).1);
    world.send(VALIDATORS[3], reveal(VALIDATORS[3], wrong).1);
    // While every validator looks.
    world.send(VALIDATORS[1], reveal(VALIDATORS[1], right).1);
    let task = world
        .state
        .pending_evidence()
        .find(|it| it.subject() == Subject::Accusation(lease, WRONG))
        .unwrap();
    world.decide(&task, rejected());
    assert_ne!(world.job(job).state(), JobState::Verifying);
    let (whole, less) = (Amount::from_tgrid(1_000), Amount::from_tgrid(999));
    assert_eq!(
        VALIDATORS.map(|it| standing(&world, it)),
        [(less, 1), (less, 1), (whole, 0), (whole, 0)]
    );
}

#[test]
fn a_silent_member_is_waited_for_and_two_silent_ones_cause_new_drawings() {
    let (mut world, job, lease) = voting();
    let right = opened(lease, RIGHT);
    // One is silent: three of four are more than two thirds.
    together(
        &mut world,
        VALIDATORS[..3].iter().map(|it| seal(it, right)).collect(),
    );
    assert_eq!(stage(&world, lease).round().unwrap().opening_since, None);
    world.idle();
    assert!(
        stage(&world, lease)
            .round()
            .unwrap()
            .opening_since
            .is_some()
    );
    together(
        &mut world,
        VALIDATORS[..3].iter().map(|it| reveal(it, right)).collect(),
    );
    assert_eq!(world.job(job).state(), JobState::Paid);

    let (mut world, job, lease) = voting();
    let window = world.state.parameters().least_window(4).get();
    for number in 0..4 {
        let round = stage(&world, lease).round().unwrap().clone();
        assert_eq!(round.number, number);
        together(
            &mut world,
            VALIDATORS[..2].iter().map(|it| seal(it, right)).collect(),
        );
        let over = world.time + window + 2 * TICK;
        world.wait_until(over);
    }
    // The deadline is long past, and the provider has lost nothing: it is the validators that are late.
    world.wait_until(world.time + 3_600_000);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    together(&mut world, VALIDATORS.map(|it| seal(it, right)).to_vec());
    together(&mut world, VALIDATORS.map(|it| reveal(it, right)).to_vec());
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn a_provider_that_does_not_open_loses_its_collateral() {
    let mut genesis = genesis();
    genesis.parameters.owners_paid_min = 3;
    let mut world = with_key_of(genesis);
    let (job, lease) = committed(&mut world);
    let height = world.state.head().height;
    // Without a seed it loses nothing.
    world.wait_until(world.time + 10_000);
    assert_eq!(world.job(job).state(), JobState::Committed);
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    // All of it, although nobody was paid for this model before: else who lies in one tile would open what does not show it.
    let held = world.state.lease(&lease).unwrap();
    let collateral = held.collateral;
    assert!(held.at_risk < collateral);
    let burned = world.state.totals().burned;
    let window = world.state.parameters().verification_timeout.get();
    world.wait_until(world.time + window + 2 * TICK);
    let ended = world.state.lease(&lease).unwrap();
    assert_eq!(ended.end().unwrap().as_str(), "Late");
    assert!(world.state.totals().burned >= burned.saturating_add(collateral));
}

#[test]
fn a_seat_can_always_accuse_once() {
    let mut genesis = genesis();
    genesis.parameters.verification_fee_zk = Amount::from_tgrid(100);
    let bond = genesis.parameters.seat_bond;
    assert_eq!(World::with(&genesis).state.accusation_bond(), bond);
}

#[test]
fn who_has_no_bond_at_stake_cannot_accuse() {
    let mut genesis = genesis();
    let poor = address(VALIDATORS[3]);
    for validator in &mut genesis.validators {
        if validator.address == poor {
            validator.stake = tgrid(999);
        }
    }
    let (mut world, job, lease) = voting_in(with_key_of(genesis));
    let (right, wrong) = (opened(lease, RIGHT), opened(lease, WRONG));
    let sealed = VALIDATORS[..3].iter().map(|it| seal(it, right));
    together(
        &mut world,
        sealed.chain([seal(VALIDATORS[3], wrong)]).collect(),
    );
    let refused = world.refusal(VALIDATORS[3], reveal(VALIDATORS[3], wrong).1);
    let bond = Amount::from_tgrid(1);
    assert_eq!(refused, TransactionError::NoAccusationBond { lease, bond });
    let revealed = VALIDATORS[..3].iter().map(|it| reveal(it, right));
    together(&mut world, revealed.collect());
    world.wait_until(world.time + 3_000);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn each_accusation_of_a_transaction_has_a_bond_of_its_own() {
    let mut genesis = genesis();
    let poor = address(VALIDATORS[3]);
    for validator in &mut genesis.validators {
        if validator.address == poor {
            validator.stake = tgrid(1_500);
        }
    }
    let mut world = with_key_of(genesis);
    let both = [(); 2].map(|()| committed(&mut world));
    for (job, lease) in both {
        let since = world.state.lease(&lease).unwrap().check.clone().unwrap();
        let task = seed_task(&world, since.from);
        world.decide(&task, Outcome::Seed(SIGNATURE));
        let name = world.holder(job);
        world.send(name, evidence(lease));
    }
    let mut leases = both.map(|(_, lease)| lease);
    leases.sort_unstable();
    let votes = |vote: Vote| leases.iter().map(move |lease| opened(*lease, vote));
    let sealed = |name: &'static str, vote: Vote| {
        let votes = votes(vote).map(|it| it.sealed(&address(name))).collect();
        (name, Transaction::CommitVotes { votes })
    };
    let right = VALIDATORS[..3].iter().map(|it| sealed(it, RIGHT));
    together(
        &mut world,
        right.chain([sealed(VALIDATORS[3], WRONG)]).collect(),
    );
    let reveal_all = Transaction::RevealVotes {
        votes: votes(WRONG).collect(),
    };
    let refused = world.refusal(VALIDATORS[3], reveal_all);
    let bond = Amount::from_tgrid(2);
    let lease = leases[1];
    assert_eq!(refused, TransactionError::NoAccusationBond { lease, bond });
    // One after the other neither, while the first is not decided.
    let one = |number: usize| reveal(VALIDATORS[3], opened(leases[number], WRONG)).1;
    world.send(VALIDATORS[3], one(0));
    let refused = world.refusal(VALIDATORS[3], one(1));
    assert_eq!(refused, TransactionError::NoAccusationBond { lease, bond });
}

#[test]
fn votes_hold_only_in_their_time_as_they_were_sealed_and_from_members() {
    let (mut world, _, lease) = voting();
    let right = opened(lease, RIGHT);
    let no_vote = TransactionError::NoVote { lease };
    let refuse = |world: &mut World, (name, sent): (&str, Transaction)| world.refusal(name, sent);
    let stranger = TransactionError::NotValidator {
        sender: address("alice"),
    };
    assert_eq!(refuse(&mut world, seal("alice", right)), stranger);
    assert_eq!(refuse(&mut world, reveal(VALIDATORS[0], right)), no_vote);
    let other = opened(LeaseId::new([1; 32]), RIGHT);
    let unknown = TransactionError::NoVote { lease: other.lease };
    assert_eq!(refuse(&mut world, seal(VALIDATORS[0], other)), unknown);
    let none = Transaction::CommitVotes { votes: vec![] };
    assert_eq!(
        world.refusal(VALIDATORS[0], none),
        TransactionError::EmptyReport
    );
    let sealed = right.sealed(&address(VALIDATORS[0]));
    let twice = Transaction::CommitVotes {
        votes: vec![sealed, sealed],
    };
    assert_eq!(
        world.refusal(VALIDATORS[0], twice),
        TransactionError::VotesUnsorted
    );
    // A copy of another's sealed vote cannot be opened: it is bound to its member.
    let copy = Transaction::CommitVotes {
        votes: vec![sealed],
    };
    together(
        &mut world,
        vec![
            seal(VALIDATORS[0], right),
            (VALIDATORS[1], copy),
            seal(VALIDATORS[2], right),
            seal(VALIDATORS[3], right),
        ],
    );
    let again = refuse(&mut world, seal(VALIDATORS[0], right));
    assert_eq!(again, no_vote);
    let wrong = TransactionError::WrongVote { lease };
    assert_eq!(refuse(&mut world, reveal(VALIDATORS[1], right)), wrong);
    let changed = opened(lease, WRONG);
    assert_eq!(refuse(&mut world, reveal(VALIDATORS[0], changed)), wrong);
}

#[test]
fn dealings_hold_once_in_their_round_and_bad_ones_begin_another() {
    let mut world = World::new();
    let seeds = |world: &World| world.state.seeds().clone();
    assert_eq!(seeds(&world).phase, SeedKeyPhase::Dealing);
    let stranger = world.refusal("alice", dealing(0, 1));
    assert!(matches!(stranger, TransactionError::NotValidator { .. }));
    let other = world.refusal(VALIDATORS[0], dealing(1, 1));
    assert_eq!(other, TransactionError::NoSuchRound { got: 1, round: 0 });
    world.send(VALIDATORS[0], dealing(0, 1));
    let twice = world.refusal(VALIDATORS[0], dealing(0, 2));
    assert_eq!(twice, TransactionError::DealtBefore { round: 0 });
    world.send(VALIDATORS[1], dealing(0, 1));
    world.wait_until(world.time + 15_000);
    assert_eq!(seeds(&world).phase, SeedKeyPhase::Dealing);
    // n - f after the window are enough.
    world.send(VALIDATORS[2], dealing(0, 1));
    assert_eq!(seeds(&world).phase, SeedKeyPhase::Closed);
    let task = key_task(&world);
    let mut other = task.verdict(Outcome::SeedKey(KEY));
    other.evidence = Digest::new([0; 32]);
    let refused = world.block(vec![], vec![other]).refused_verdicts;
    assert!(matches!(refused[0].1, VerdictError::WrongEvidence { .. }));
    let wrong = world.block(vec![], vec![task.verdict(Outcome::LeaseAccepted)]);
    assert!(matches!(
        wrong.refused_verdicts[0].1,
        VerdictError::WrongOutcome { .. }
    ));
    world.decide(&task, rejected());
    assert_eq!((seeds(&world).round, seeds(&world).dealings), (1, vec![]));
    deal(&mut world, 1);
}

#[test]
fn a_round_in_which_too_few_deal_ends() {
    let mut world = World::new();
    for name in &VALIDATORS[..2] {
        world.send(name, dealing(0, 1));
    }
    let since = world.state.seeds().since.get();
    while world.state.seeds().round == 0 {
        world.wait_until(world.time + 1_000);
    }
    // With the first block of an epoch, so that a round at the end of one is old enough for the set to change.
    assert!(world.time > since + 60_000);
    assert_eq!(world.state.head().height.get() % 64, 1);
    let seeds = world.state.seeds().clone();
    assert_eq!((seeds.round, seeds.phase), (1, SeedKeyPhase::Dealing));
    assert_eq!(seeds.dealings, []);
    deal(&mut world, 1);
}

#[test]
fn a_key_that_signs_nothing_is_dealt_anew() {
    let mut world = with_key();
    let (job, lease) = committed(&mut world);
    world.wait_until(world.time + 61_000);
    assert_eq!(world.state.seeds().round, 1);
    assert_eq!(world.state.seeds_wanted(), []);
    deal(&mut world, 1);
    // The same height, under the new key.
    let wanted = world.state.seeds_wanted();
    assert_eq!(wanted.len(), 1);
    let task = seed_task(&world, wanted[0]);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    assert!(matches!(stage(&world, lease), SyncStage::Challenged { .. }));
    assert_eq!(world.job(job).state(), JobState::Committed);
}

#[test]
fn an_offer_that_puts_up_less_than_twenty_times_its_price_gets_no_such_job() {
    let mut world = World::new();
    let mut cheap = terms(20);
    cheap.collateral_per_lease = tgrid(399);
    world.post("cheap", cheap);
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    assert_eq!(world.job(job).state(), JobState::Queued);
    world.post("middle", terms(25));
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(world.holder(job), "middle");
}

#[test]
fn what_a_wrong_answer_would_cost_counts_as_the_price_does() {
    let mut world = World::new();
    let mut rich = terms(25);
    rich.collateral_per_lease = tgrid(20 * (25 + 1_000));
    world.post("cheap", terms(20));
    let mut order = world.order();
    order.needs.value_at_risk = tgrid(1_000);
    // A proof is right or not: what is at risk does not matter.
    order.mode = VerificationMode::Proof;
    let job = world.submit("alice", order.clone());
    assert_eq!(world.holder(job), "cheap");
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    assert_eq!(world.job(job).state(), JobState::Queued);
    world.post("middle", rich);
    assert_eq!(world.holder(job), "middle");
}

#[test]
fn openings_are_held_by_a_quorum_before_anybody_votes() {
    let mut genesis = genesis();
    genesis.parameters.storage = tg_ledger::StorageRule::Stated;
    let mut world = World::with(&genesis);
    world.activate_model(crate::world::facts());
    let state_held = |world: &mut World, subject: StorageSubject, count: usize| {
        let sent = VALIDATORS[..count].iter().map(|name| {
            let held = vec![subject];
            let report = Transaction::ReportStorage {
                held,
                missing: vec![],
            };
            (*name, report)
        });
        together(world, sent.collect());
    };
    state_held(&mut world, crate::world::MODEL.into(), 4);
    world.post("cheap", terms(20));
    deal(&mut world, 0);
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    state_held(&mut world, job.into(), 4);
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    let height = world.state.head().height;
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    world.send("cheap", evidence(lease));
    assert!(matches!(stage(&world, lease), SyncStage::Opened { .. }));
    let me: Address = wallet(VALIDATORS[0]).address();
    let asked = world.state.storage_tasks(&me);
    assert!(
        asked
            .iter()
            .any(|it| it.subject == StorageSubject::Lease(lease))
    );
    state_held(&mut world, lease.into(), 2);
    assert!(matches!(stage(&world, lease), SyncStage::Opened { .. }));
    let report = Transaction::ReportStorage {
        held: vec![StorageSubject::Lease(lease)],
        missing: vec![],
    };
    world.send(VALIDATORS[2], report);
    assert!(matches!(stage(&world, lease), SyncStage::Voting { .. }));
}

/// More than two thirds: of three all, of four three.
#[test]
fn a_committee_is_agreed_when_more_than_two_thirds_are() {
    let round = |size: u8| VoteRound {
        number: 0,
        since: TimestampMs::new(1),
        opening_since: None,
        votes: (0..size)
            .map(|index| MemberVote {
                member: Address::new([index; 20]),
                state: VoteState::Silent,
            })
            .collect(),
    };
    for size in 1..=40 {
        let round = round(size);
        for count in 0..=usize::from(size) {
            let more = count as f64 > f64::from(size) * 2.0 / 3.0 + 1e-9;
            assert_eq!(round.is_enough(count), more, "{count} of {size}");
        }
    }
}

/// All members are paid for what the one that leads handed in, and only that one loses its collateral if it is wrong.
#[test]
fn whoever_leads_a_gang_has_at_stake_what_all_its_members_are_paid() {
    let mut world = with_key();
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    order.needs.gang = 2;
    // What each of them puts up covers its own price, and not that of both.
    assert_eq!(world.state.usual_max_price(&order), None);
    let job = world.submit("alice", order.clone());
    assert_eq!(world.job(job).state(), JobState::Queued);
    for (name, price, collateral) in [("bob", 20, 800), ("dear", 25, 1_000)] {
        let collateral_per_lease = tgrid(collateral);
        let terms = OfferTerms {
            collateral_per_lease,
            ..terms(price)
        };
        world.post(name, terms);
    }
    world.idle();
    let lead = world.live(job);
    assert_eq!(lead.provider, address("dear"), "the dearest leads");
    let prices = world.state.gang_of(&lead).map(|it| it.price);
    let paid = prices.fold(Amount::ZERO, Amount::saturating_add);
    assert_eq!(paid, tgrid(45));
    assert!(lead.collateral >= paid.saturating_mul(20));
    // It does not go by the most that the order would pay.
    assert!(world.state.usual_max_price(&order).is_some());
}

#[test]
fn a_place_that_is_dearer_than_its_offer_asks_needs_more_at_stake() {
    let mut world = with_key();
    // Twenty times seven tenths of 60 s at 0.01.
    let terms = OfferTerms {
        collateral_per_lease: tgrid(420 * 20),
        ..gpu_terms(GpuModel::T4, 4, 10)
    };
    world.post("dear", terms);
    let mut order = world.order_for(JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    });
    order.mode = VerificationMode::Sync;
    let first = world.submit("alice", order.clone());
    assert_eq!(world.live(first).price, tgrid(420));
    // A quarter of the machine is reserved, so what is left costs more.
    let second = world.submit("alice", order);
    assert_eq!(world.job(second).end(), Some(EndReason::NotAdmitted));
}
