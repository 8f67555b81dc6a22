//! Short runs of mode `sync`, which a committee repeats whole: nothing is shown, and votes open what the receipt commits to.

use tg_ledger::{
    Event, EvidenceTask, JobState, LeaseEnd, ModelFacts, Outcome, Subject, SyncStage,
    TransactionError, VerdictError, VoteTask, WHOLE_RUN_MACS_USUAL,
};
use tg_types::{
    Amount, Digest, DurationMs, JobId, LeaseId, Receipt, RunCommitment, StorageSubject, Tier,
    TileName, Transaction, VerificationMode, Vote,
};

use crate::optimistic::{RIGHT, opened, reveal, stake};
use crate::sync::{SIGNATURE, VALIDATORS, deal, seed_task, stage, together};
use crate::world::{World, address, evidence, facts, genesis, receipt, rejected, terms, tgrid};

/// What a run takes: half of the model's limit.
const WORK: u64 = 210_000;

const WRONG_TILE: Vote = Vote::WrongTile(TileName { node: 0, leaf: 0 });

/// What the receipt says that the answer is.
const ANSWER: Digest = Digest::new([0x41; 32]);

fn with_offers(facts: ModelFacts) -> World {
    let mut genesis = genesis();
    genesis.parameters.whole_run_macs_max = WHOLE_RUN_MACS_USUAL;
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

/// A job whose provider has committed to a run that took `work`.
fn committed_in(mut world: World, tier: Tier, work: u64) -> (World, JobId, LeaseId) {
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    let receipt = Receipt {
        tier,
        output: ANSWER,
        trace: RunCommitment::of(&lease, RIGHT.checksum(), work).digest(),
        ..receipt()
    };
    world.send(name, Transaction::CommitReceipt { lease, receipt });
    (world, job, lease)
}

/// The same of a program, whose bill is half of its price.
fn committed() -> (World, JobId, LeaseId) {
    let program = ModelFacts {
        tier: Tier::Wasm1,
        ..facts()
    };
    committed_in(with_offers(program), Tier::Wasm1, WORK)
}

fn draw(world: &mut World) {
    let [height] = world.state.seeds_wanted()[..] else {
        panic!("one seed is wanted");
    };
    let task = seed_task(world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
}

fn voting() -> (World, JobId, LeaseId) {
    let (mut world, job, lease) = committed();
    draw(&mut world);
    (world, job, lease)
}

fn sealed(lease: LeaseId, name: &'static str, vote: Vote) -> (&'static str, Transaction) {
    let votes = vec![opened(lease, vote).sealed(&address(name))];
    (name, Transaction::CommitVotes { votes })
}

/// All seal what they found, the last one something else.
fn seal_all(world: &mut World, lease: LeaseId, last: Vote) {
    let [first @ .., accuser] = VALIDATORS;
    let mut votes = first.map(|it| sealed(lease, it, RIGHT)).to_vec();
    votes.push(sealed(lease, accuser, last));
    together(world, votes);
}

fn accusation(world: &World, lease: LeaseId) -> EvidenceTask {
    let subject = Subject::Accusation(lease, Vote::WrongRun);
    let mut tasks = world.state.pending_evidence();
    tasks.find(|it| it.subject() == subject).unwrap()
}

#[test]
fn a_receipt_is_all_that_is_handed_in_and_the_seed_draws_the_committee() {
    let (mut world, job, lease) = committed();
    assert_eq!(world.job(job).state(), JobState::Verifying);
    assert_eq!(stage(&world, lease), SyncStage::AwaitsSeed);
    let found = world.state.lease(&lease).unwrap();
    assert_eq!(found.evidence().unwrap().digest, ANSWER);
    // Nobody states anything, nobody votes yet, and the provider has nothing to say.
    for name in VALIDATORS {
        let asked = world.state.storage_tasks(&address(name)).into_iter();
        let about = StorageSubject::Lease(lease);
        assert_eq!(asked.filter(|it| it.subject == about).count(), 0);
        assert_eq!(world.state.vote_tasks(&address(name)), []);
    }
    let name = world.holder(job);
    let early = world.refusal(name, evidence(lease));
    assert!(
        matches!(early, TransactionError::WrongJobState { .. }),
        "{early:?}"
    );
    draw(&mut world);
    let round = stage(&world, lease).round().unwrap().clone();
    assert_eq!(round.votes.len(), VALIDATORS.len());
    let tasks = world.state.vote_tasks(&address(VALIDATORS[0]));
    assert!(matches!(&tasks[..], [VoteTask { sample, .. }]
        if sample.is_repeated && sample.mode == VerificationMode::Sync && sample.evidence == ANSWER));

    let before: Vec<Amount> = VALIDATORS.map(|it| world.balance(it)).to_vec();
    seal_all(&mut world, lease, RIGHT);
    let all = VALIDATORS.map(|it| (it, reveal(lease, RIGHT)));
    let events = together(&mut world, all.to_vec());
    assert_eq!(world.job(job).state(), JobState::Paid);
    // Half of the work was done; the fee of 0.01 is in four, less a tenth that burns.
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, tgrid(10));
    assert_eq!(settlement.verification_fee, tgrid(9));
    let share = Amount::new(tgrid(9).get() / 4);
    for (name, before) in VALIDATORS.into_iter().zip(before) {
        assert!(world.balance(name) >= before.checked_add(share).unwrap());
    }
    // Of what was prepaid for gas the part of a message that never came goes back.
    let returned = events.iter().find_map(|it| match it {
        Event::GasSettled { returned, .. } => Some(*returned),
        _ => None,
    });
    assert!(returned.unwrap() > Amount::ZERO);
}

#[test]
fn while_the_seed_is_missing_nobody_is_late() {
    let (mut world, job, lease) = committed();
    world.wait_until(world.time + 100_000);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    assert_eq!(stage(&world, lease), SyncStage::AwaitsSeed);
}

#[test]
fn a_model_of_integers_has_no_bill_but_the_price() {
    let (mut world, job, lease) = committed_in(with_offers(facts()), Tier::Tgx1, 0);
    draw(&mut world);
    seal_all(&mut world, lease, RIGHT);
    for name in &VALIDATORS[..3] {
        world.send(name, reveal(lease, RIGHT));
    }
    world.wait_until(world.time + 3_000);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(20));
}

#[test]
fn who_did_not_run_it_has_no_vote_and_others_are_asked() {
    let (mut world, job, lease) = voting();
    let guess = Vote::Right { checksum: 7 };
    together(
        &mut world,
        VALIDATORS.map(|it| sealed(lease, it, guess)).to_vec(),
    );
    for name in VALIDATORS {
        let refused = world.refusal(name, reveal(lease, guess));
        assert_eq!(refused, TransactionError::WrongVote { lease });
    }
    let round = |world: &World| stage(world, lease).round().unwrap().number;
    assert_eq!(round(&world), 0);
    world.wait_until(world.time + 10_000);
    assert_eq!(round(&world), 1);
    let found = [Vote::WrongForm, WRONG_TILE, RIGHT, RIGHT];
    let votes = VALIDATORS.into_iter().zip(found);
    let votes = votes.map(|(name, vote)| sealed(lease, name, vote));
    together(&mut world, votes.collect());
    // Votes on drawn parts are none either.
    for (name, vote) in VALIDATORS.into_iter().zip(found).take(2) {
        let refused = world.refusal(name, reveal(lease, vote));
        assert_eq!(refused, TransactionError::WrongVote { lease });
    }
    // Two of four are not enough, and the next committee answers.
    for name in &VALIDATORS[2..] {
        world.send(name, reveal(lease, RIGHT));
    }
    world.wait_until(world.time + 10_000);
    assert_eq!(round(&world), 2);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    seal_all(&mut world, lease, RIGHT);
    together(
        &mut world,
        VALIDATORS.map(|it| (it, reveal(lease, RIGHT))).to_vec(),
    );
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn one_member_that_finds_another_run_is_enough_and_who_agreed_loses_a_bond() {
    let (mut world, job, lease) = voting();
    let [lazy, .., accuser] = VALIDATORS;
    seal_all(&mut world, lease, Vote::WrongRun);
    world.send(lazy, reveal(lease, RIGHT));
    let before = [lazy, accuser].map(|it| stake(&world, it));
    let holder = world.holder(job);
    world.send(accuser, reveal(lease, Vote::WrongRun));
    assert_eq!(world.job(job).state(), JobState::Disputed);
    // Nobody pays for a look that comes anyway.
    let challenged = world.refusal("bob", Transaction::ChallengeResult { lease });
    assert_eq!(challenged, TransactionError::NotContestable { lease });
    // Whoever looked at all of it says what that came to, within the limit.
    let task = accusation(&world, lease);
    let above = Outcome::ProgramAccepted { macs: 420_001 };
    for outcome in [Outcome::Refuted, Outcome::LeaseAccepted, above] {
        let proposed = world.block(vec![], vec![task.verdict(outcome)]);
        let (_, refused) = &proposed.refused_verdicts[0];
        assert!(matches!(refused, VerdictError::WrongOutcome { .. }));
    }
    let burned = world.state.totals().burned;
    world.decide(&task, rejected());
    let ended = world.state.lease(&lease).unwrap();
    assert!(matches!(ended.end(), Some(LeaseEnd::Rejected { .. })));
    assert!(world.state.totals().burned >= burned.saturating_add(tgrid(500)));
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, lazy), before[0].checked_sub(bond).unwrap());
    assert_eq!(stake(&world, accuser), before[1]);
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_ne!(world.holder(job), holder);
}

#[test]
fn a_false_accusation_costs_a_bond_and_the_result_is_paid_at_once() {
    let (mut world, job, lease) = voting();
    let accuser = VALIDATORS[3];
    seal_all(&mut world, lease, Vote::WrongRun);
    let before = stake(&world, accuser);
    world.send(accuser, reveal(lease, Vote::WrongRun));
    let accepted = Outcome::ProgramAccepted { macs: WORK };
    world.decide(&accusation(&world, lease), accepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(10));
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, accuser), before.checked_sub(bond).unwrap());
}

/// A run that is too long for it is checked by drawn parts, and its members name those.
#[test]
fn a_longer_run_is_not_repeated() {
    let long = ModelFacts {
        macs: WHOLE_RUN_MACS_USUAL + 1,
        ..facts()
    };
    let (mut world, job, lease) = committed_in(with_offers(long), Tier::Tgx1, 0);
    assert_eq!(world.job(job).state(), JobState::Committed);
    draw(&mut world);
    assert!(matches!(stage(&world, lease), SyncStage::Challenged { .. }));
    let name = world.holder(job);
    world.send(name, evidence(lease));
    let votes = VALIDATORS.map(|it| sealed(lease, it, Vote::WrongRun));
    together(&mut world, votes.to_vec());
    let refused = world.refusal(VALIDATORS[0], reveal(lease, Vote::WrongRun));
    assert_eq!(refused, TransactionError::WrongVote { lease });
}

/// Nothing is opened of a run that is repeated whole, so its trace may be longer than an opening.
#[test]
fn a_trace_that_is_too_long_to_be_opened_is_no_obstacle() {
    let long = ModelFacts {
        trace_bytes: 16 << 20,
        ..facts()
    };
    let (mut world, job, lease) = committed_in(with_offers(long), Tier::Tgx1, 0);
    draw(&mut world);
    seal_all(&mut world, lease, RIGHT);
    let all = VALIDATORS.map(|it| (it, reveal(lease, RIGHT)));
    together(&mut world, all.to_vec());
    assert_eq!(world.job(job).state(), JobState::Paid);
    let mut order = world.order();
    order.mode = VerificationMode::Sync;
    let mut parts = genesis();
    parts.parameters.whole_run_macs_max = 0;
    let mut world = World::with(&parts);
    world.activate_model(long);
    let model = order.model;
    let refused = world.refusal("alice", Transaction::SubmitJob { order });
    assert_eq!(refused, TransactionError::ModelNotSampled { model });
}

#[test]
fn what_is_run_whole_takes_some_milliseconds() {
    let most = WHOLE_RUN_MACS_USUAL;
    let of = |tier, macs, looks| ModelFacts {
        tier,
        macs,
        looks,
        ..facts()
    };
    for (tier, largest) in [
        (Tier::Tgx1, most),
        (Tier::Tgf1, 1 << 29),
        (Tier::Wasm1, 1 << 20),
    ] {
        assert!(of(tier, largest, 0).is_run_whole(most), "{tier:?}");
        assert!(!of(tier, largest + 1, 0).is_run_whole(most), "{tier:?}");
        assert!(!of(tier, 1, 0).is_run_whole(0), "{tier:?}");
    }
    assert!(!of(Tier::Served, 0, 0).is_run_whole(most));
    // What multiplies nothing takes its time too, and so does the hash of what nodes give, which may be more than could be opened.
    assert!(of(Tier::Tgx1, 0, most / 8).is_run_whole(most));
    assert!(!of(Tier::Tgx1, 0, most / 8 + 1).is_run_whole(most));
    let of_trace = |trace_bytes| ModelFacts {
        trace_bytes,
        ..facts()
    };
    let large = of_trace(most / 64);
    assert!(large.is_run_whole(most) && !large.is_sampled());
    assert!(!of_trace(most / 64 + 1).is_run_whole(most));
    // However high the bound of the chain is, a committee takes no more than it may have to anyway.
    for (tier, macs) in [(Tier::Tgf1, 1 << 33), (Tier::Wasm1, 1 << 27)] {
        assert!(of(tier, macs, 0).is_run_whole(u64::MAX));
        assert!(!of(tier, macs + 1, 0).is_run_whole(u64::MAX));
    }
    assert!(!of(Tier::Tgx1, (1 << 34) + 1, 0).is_run_whole(u64::MAX));
}
