//! Disputes that end at one tile: of models that are too much for every validator to run again.

use tg_ledger::{
    DisputeFiles, DisputeStep, DisputeTurn, Event, Evidence, EvidenceTask, JobState, LeaseEnd,
    ModelFacts, Outcome, Prepaid, SyncStage, TileDispute, TransactionError, VerdictError,
};
use tg_types::{
    Amount, Digest, DurationMs, JobId, LeaseId, OfferTerms, Tier, Transaction, VerificationMode,
    Vote,
};

use crate::optimistic::{
    CHALLENGE, RIGHT, opened, reveal, seal, spent_on_gas, stake, vote, watched_in, watcher,
};
use crate::sync::{SIGNATURE, VALIDATORS, deal, seed_task, stage, together};
use crate::world::{
    MODEL, TICK, World, address, commit, evidence, facts, genesis, receipt, rejected, terms, tgrid,
};

const CLAIM: Digest = Digest::new([0x61; 32]);
const ANSWER: Digest = Digest::new([0x62; 32]);

/// How long a side has to hand in its file, in milliseconds.
const ARGUE: u64 = 30_000;

/// A model that validators do not repeat, because of its memory.
fn large() -> ModelFacts {
    ModelFacts {
        memory: (4 << 30) + 1,
        ..facts()
    }
}

fn with_offers(facts: ModelFacts) -> World {
    let mut genesis = genesis();
    genesis.parameters.leader_timeout = DurationMs::new(1_500);
    genesis.parameters.auction_slot = DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = DurationMs::from_secs(9);
    genesis.parameters.verification_timeout = DurationMs::new(ARGUE);
    let mut world = World::with(&genesis);
    world.activate_model(facts);
    for (name, price) in [("cheap", 20), ("middle", 25)] {
        let terms = OfferTerms {
            memory_bytes: 8 << 30,
            collateral_per_lease: tgrid(STAKE),
            ..terms(price)
        };
        world.post(name, terms);
    }
    deal(&mut world, 0);
    world
}

fn watched() -> (World, JobId, LeaseId, &'static str) {
    watched_in(with_offers(large()), Tier::Tgx1, 0)
}

fn argue(lease: LeaseId, file: Digest) -> Transaction {
    Transaction::ArgueResult {
        lease,
        file,
        size: 1_000,
    }
}

fn challenge(lease: LeaseId) -> Transaction {
    Transaction::ChallengeResult { lease }
}

fn dispute(world: &World, lease: LeaseId) -> TileDispute {
    stage(world, lease).tile_dispute().unwrap().clone()
}

fn accuser(world: &World, lease: LeaseId) -> tg_types::Address {
    match stage(world, lease) {
        SyncStage::Disputed { accuser, .. } => accuser,
        other => panic!("{other:?}"),
    }
}

/// What each offer puts up: the fees of as many as may challenge.
const STAKE: u64 = 9 * CHALLENGE;

/// What of the fee of a challenge comes out of the collateral if it is right: half is held.
const RETURNED: u64 = CHALLENGE / 2;

/// What validators have to decide.
fn task(world: &World, lease: LeaseId) -> Option<EvidenceTask> {
    let mut tasks = world.state.pending_evidence();
    tasks.find(|task| {
        matches!(task, EvidenceTask::Accusation { vote: Vote::WrongRun, sample }
            if sample.lease == lease && sample.dispute.is_some())
    })
}

/// Both sides hand in their files: now validators decide.
fn argued(world: &mut World, lease: LeaseId, accuser: &str, provider: &str) -> EvidenceTask {
    assert_eq!(dispute(world, lease).step, DisputeStep::Claiming);
    assert_eq!(task(world, lease), None);
    world.send(accuser, argue(lease, CLAIM));
    assert_eq!(dispute(world, lease).step.turn(), DisputeTurn::Provider);
    assert_eq!(task(world, lease), None);
    world.send(provider, argue(lease, ANSWER));
    task(world, lease).unwrap()
}

/// Of a pool that holds one transaction of each kind and subject: what an accuser leaves there must not keep out what its provider owes.
#[test]
fn an_accuser_holds_no_place_of_the_provider() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, Vote::WrongRun);
    let accusers = Prepaid::of(&world.sign(watcher, argue(lease, CLAIM))).unwrap();
    world.send(watcher, argue(lease, CLAIM));
    let providers = Prepaid::of(&world.sign(provider, argue(lease, ANSWER))).unwrap();
    assert_ne!(accusers, providers);
    assert!(world.state.is_owed(&providers));
}

fn slashed(events: &[Event]) -> Option<Amount> {
    events.iter().find_map(|event| match event {
        Event::Slashed { amount, .. } => Some(*amount),
        _ => None,
    })
}

#[test]
fn what_validators_do_not_repeat_is_ordered_if_one_tile_decides() {
    let recompute = |world: &mut World| {
        let mut order = world.order();
        order.mode = VerificationMode::Recompute;
        world.refusal("alice", Transaction::SubmitJob { order })
    };
    let optimistic = |world: &mut World| {
        let mut order = world.order();
        order.mode = VerificationMode::Optimistic;
        Transaction::SubmitJob { order }
    };
    let mut world = with_offers(large());
    let refused = TransactionError::ModelNotRecomputable { model: MODEL };
    assert_eq!(recompute(&mut world), refused);
    let order = optimistic(&mut world);
    world.send("alice", order);
    for facts in [
        ModelFacts {
            macs: (1 << 38) + 1,
            ..large()
        },
        ModelFacts {
            trace_bytes: (440 << 20) + 1,
            ..large()
        },
        ModelFacts {
            trace_bytes: 0,
            ..large()
        },
        ModelFacts {
            read_bytes: (14 << 20) + 1,
            ..large()
        },
    ] {
        let mut world = with_offers(facts);
        let order = optimistic(&mut world);
        let refused = TransactionError::ModelNotWatched { model: MODEL };
        assert_eq!(world.refusal("alice", order), refused);
    }
}

#[test]
fn a_provider_that_shows_nothing_against_its_watcher_loses_its_collateral() {
    let (mut world, job, lease, watcher) = watched();
    let (before, provider) = (stake(&world, watcher), world.holder(job));
    vote(&mut world, lease, watcher, Vote::WrongRun);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    // Only whoever's turn it is hands anything in.
    let not_asked = TransactionError::NotAsked { lease };
    for name in ["alice", provider, "bob"] {
        assert_eq!(world.refusal(name, argue(lease, CLAIM)), not_asked);
    }
    assert_eq!(world.state.claim_tasks(&address(watcher)).len(), 1);
    assert_eq!(world.state.claim_tasks(&address("bob")), []);
    world.send(watcher, argue(lease, CLAIM));
    assert_eq!(world.state.claim_tasks(&address(watcher)), []);
    assert_eq!(world.refusal(watcher, argue(lease, CLAIM)), not_asked);
    let until = dispute(&world, lease).until.get();
    world.wait_until(until);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    let events = world.wait_until(until + 2 * TICK);
    assert_eq!(slashed(&events), Some(tgrid(STAKE)));
    let ended = world.state.lease(&lease).unwrap();
    let end = ended.end().unwrap();
    assert!(matches!(end, LeaseEnd::Rejected { code: 98, .. }), "{end}");
    assert_eq!(stake(&world, watcher), before);
    assert_ne!(world.lease(job).id, lease);
}

/// Else a watcher that finds other evidence wrong could claim nothing that the receipt does not say.
#[test]
fn the_evidence_is_the_answer_that_the_receipt_names() {
    let mut world = with_offers(large());
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    let height = world.state.head().height;
    let task = seed_task(&world, height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    let expected = receipt().output;
    let refused = TransactionError::NotTheAnswer { lease, expected };
    assert_eq!(world.refusal(name, evidence(lease)), refused);
    let right = Transaction::SubmitEvidence {
        lease,
        evidence: expected,
        size: 10,
    };
    world.send(name, right);
    assert_eq!(world.job(job).state(), JobState::Verifying);
}

#[test]
fn validators_decide_by_both_files_and_by_nothing_else() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, Vote::WrongRun);
    let task = argued(&mut world, lease, watcher, provider);
    let EvidenceTask::Accusation { sample, .. } = &task else {
        panic!("an accusation");
    };
    let files = sample.dispute.unwrap();
    assert_eq!((files.claim.digest, files.answer.digest), (CLAIM, ANSWER));
    // Of other claims with the same answer nothing is decided: a provider could answer any claim as it answered one that was made to lose.
    let other = DisputeFiles {
        claim: Evidence {
            digest: ANSWER,
            ..files.claim
        },
        ..files
    };
    assert_eq!(task.evidence(), files.name());
    assert_ne!(other.name(), files.name());
    let mut verdict = task.verdict(Outcome::Refuted);
    for name in [ANSWER, other.name()] {
        verdict.evidence = name;
        let proposed = world.block(vec![], vec![verdict.clone()]);
        let (_, refused) = &proposed.refused_verdicts[0];
        assert!(matches!(refused, VerdictError::WrongEvidence { .. }));
    }
    // Nobody ran it again, so nobody says that it is right.
    for outcome in [
        Outcome::LeaseAccepted,
        Outcome::ProgramAccepted { macs: 420_000 },
    ] {
        let proposed = world.block(vec![], vec![task.verdict(outcome)]);
        let (_, refused) = &proposed.refused_verdicts[0];
        assert!(matches!(refused, VerdictError::WrongOutcome { .. }));
    }
    // Time is nobody's enemy now.
    world.wait_until(world.time + 2 * ARGUE);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    let events = world.decide(&task, rejected());
    assert_eq!(slashed(&events), Some(tgrid(STAKE)));
    assert_ne!(world.lease(job).id, lease);
}

#[test]
fn a_watcher_whose_claim_is_wrong_loses_a_bond_and_another_one_looks() {
    let (mut world, job, lease, first) = watched();
    let (before, provider) = (stake(&world, first), world.holder(job));
    vote(&mut world, lease, first, Vote::WrongRun);
    let task = argued(&mut world, lease, first, provider);
    world.decide(&task, Outcome::Refuted);
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, first), before.checked_sub(bond).unwrap());
    // It was not looked at as a whole: others watch, and it may be challenged.
    assert_eq!(world.job(job).state(), JobState::Verifying);
    let second = watcher(&world, lease);
    vote(&mut world, lease, second, RIGHT);
    assert!(matches!(
        stage(&world, lease),
        SyncStage::Contestable { .. }
    ));
    world.wait_until(world.time + 10_000 + 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn an_accuser_that_claims_nothing_has_accused_falsely() {
    let (mut world, job, lease, first) = watched();
    let before = stake(&world, first);
    vote(&mut world, lease, first, Vote::WrongRun);
    world.wait_until(dispute(&world, lease).until.get() + 2 * TICK);
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, first), before.checked_sub(bond).unwrap());
    assert!(matches!(stage(&world, lease), SyncStage::Voting { .. }));
    assert_eq!(world.job(job).state(), JobState::Verifying);
}

#[test]
fn a_challenge_that_fails_is_paid_for_and_opens_a_whole_window_again() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, RIGHT);
    let before = stake(&world, watcher);
    let events = world.send("bob", challenge(lease));
    assert_eq!(dispute(&world, lease).held, tgrid(CHALLENGE / 2));
    let own = world.balance(provider);
    let (gas, paid) = (spent_on_gas(&events, "bob"), world.balance("bob"));
    assert!(gas > Amount::ZERO);
    let task = argued(&mut world, lease, "bob", provider);
    world.decide(&task, Outcome::Refuted);
    assert_eq!(world.balance("bob"), paid);
    assert_eq!(stake(&world, watcher), before);
    // Half is for showing that the result is right.
    let got = world.balance(provider).checked_sub(own).unwrap();
    assert_eq!(got, tgrid(CHALLENGE / 2));
    // A provider that has itself challenged wrongly is not paid for that: somebody else still may.
    let SyncStage::Contestable { until, .. } = stage(&world, lease) else {
        panic!("contestable");
    };
    assert!(until.get() > world.time + 10_000 - 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    world.send("alice", challenge(lease));
    world.send("alice", argue(lease, CLAIM));
    let until = dispute(&world, lease).until.get();
    let events = world.wait_until(until + 2 * TICK);
    let left = STAKE - RETURNED;
    assert_eq!(slashed(&events), Some(tgrid(left)));
}

/// The hostile network found it: a watcher that had run the program lost its bond, as its provider's answer was not held in time.
#[test]
fn what_a_provider_does_not_show_refutes_no_vote() {
    let (mut world, _, lease, watcher) = watched();
    vote(&mut world, lease, watcher, RIGHT);
    let before = (stake(&world, watcher), missed(&world, watcher));
    world.send("bob", challenge(lease));
    world.send("bob", argue(lease, CLAIM));
    let until = dispute(&world, lease).until.get();
    let events = world.wait_until(until + 2 * TICK);
    assert_eq!(slashed(&events), Some(tgrid(STAKE - RETURNED)));
    let refuted = |it: &Event| matches!(it, Event::VoteRefuted { .. });
    assert!(!events.iter().any(refuted), "{events:?}");
    let after = (stake(&world, watcher), missed(&world, watcher));
    assert_eq!(after, before);
}

#[test]
fn a_vote_for_right_is_refuted_by_a_tile_that_validators_computed() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, RIGHT);
    let before = stake(&world, watcher);
    world.send("bob", challenge(lease));
    let task = argued(&mut world, lease, "bob", provider);
    world.decide(&task, rejected());
    let bond = world.state.accusation_bond();
    assert_eq!(stake(&world, watcher), before.checked_sub(bond).unwrap());
    assert_eq!(missed(&world, watcher), 1);
}

/// Votes that a validator missed in a row.
fn missed(world: &World, name: &str) -> u16 {
    let seat = world.state.seat_of(&address(name)).unwrap();
    world.state.seats().seats[usize::from(seat)].missed
}

#[test]
fn who_challenges_meanwhile_has_its_turn_and_all_who_were_right_have_their_fee_back() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, RIGHT);
    world.send("bob", challenge(lease));
    let refused = TransactionError::NotContestable { lease };
    assert_eq!(world.refusal("bob", challenge(lease)), refused);
    let alice = world.balance("alice");
    let gas = spent_on_gas(&world.send("alice", challenge(lease)), "alice");
    assert_eq!(world.refusal("alice", challenge(lease)), refused);
    let rent = world.balance("mallory");
    let paid = spent_on_gas(&world.send("mallory", challenge(lease)), "mallory");
    assert_eq!(dispute(&world, lease).waiting.len(), 2);

    // The first one was made in order to lose.
    let first = argued(&mut world, lease, "bob", provider);
    world.decide(&first, Outcome::Refuted);
    assert_eq!(world.job(job).state(), JobState::Disputed);
    assert_eq!(accuser(&world, lease), address("alice"));
    let now = dispute(&world, lease);
    assert_eq!(
        (now.step, now.waiting),
        (DisputeStep::Claiming, vec![address("mallory")])
    );

    // The next one is right, and so was who waits behind it.
    let second = argued(&mut world, lease, "alice", provider);
    let events = world.decide(&second, rejected());
    assert_eq!(slashed(&events), Some(tgrid(STAKE - 2 * RETURNED)));
    assert_eq!(world.balance("alice"), alice.checked_sub(gas).unwrap());
    assert_eq!(world.balance("mallory"), rent.checked_sub(paid).unwrap());
    assert_ne!(world.lease(job).id, lease);
}

/// The hostile network found it: each dispute was two steps of its job for ever, until a state could not be read any more.
#[test]
fn disputes_without_end_do_not_make_a_job_longer() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    vote(&mut world, lease, watcher, RIGHT);
    let mut lengths = Vec::new();
    for _ in 0..8 {
        world.send("bob", challenge(lease));
        let task = argued(&mut world, lease, "bob", provider);
        world.decide(&task, Outcome::Refuted);
        lengths.push(world.job(job).history.len());
    }
    assert!(
        lengths[1..].iter().all(|it| *it == lengths[0]),
        "{lengths:?}"
    );
    let bytes = tg_types::Encode::to_bytes(&world.state);
    let read = <tg_ledger::State as tg_types::Decode>::from_bytes(&bytes).unwrap();
    assert_eq!(read.root(), world.state.root());
}

#[test]
fn so_many_wait_and_no_more() {
    let (mut world, _, lease, watcher) = watched();
    vote(&mut world, lease, watcher, RIGHT);
    world.send("bob", challenge(lease));
    let names: Vec<String> = (0..9).map(|number| format!("doubter {number}")).collect();
    for name in &names {
        let to = address(name);
        let amount = tgrid(5_000);
        world.send("alice", Transaction::Transfer { to, amount });
    }
    for name in &names[..8] {
        world.send(name, challenge(lease));
    }
    let refused = TransactionError::NotContestable { lease };
    assert_eq!(world.refusal(&names[8], challenge(lease)), refused);
    assert_eq!(dispute(&world, lease).waiting.len(), 8);
}

#[test]
fn a_watcher_that_finds_a_lie_is_not_kept_out_by_a_challenge_that_was_made_to_lose() {
    let (mut world, job, lease, watcher) = watched();
    let provider = world.holder(job);
    seal(&mut world, lease, watcher, Vote::WrongRun);
    together(
        &mut world,
        vec![
            ("bob", challenge(lease)),
            (watcher, reveal(lease, Vote::WrongRun)),
        ],
    );
    assert_eq!(accuser(&world, lease), address("bob"));
    let first = argued(&mut world, lease, "bob", provider);
    world.decide(&first, Outcome::Refuted);
    assert_eq!(accuser(&world, lease), address(watcher));
    world.send(watcher, argue(lease, CLAIM));
    let until = dispute(&world, lease).until.get();
    let events = world.wait_until(until + 2 * TICK);
    assert_eq!(slashed(&events), Some(tgrid(STAKE)));
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert!(VALIDATORS.contains(&watcher));
    assert!(opened(lease, RIGHT).vote.is_right());
}

/// A program of so much fuel, as validators find it.
fn program(fuel: u64) -> ModelFacts {
    ModelFacts {
        tier: Tier::Wasm1,
        macs: fuel,
        provable: false,
        trace_bytes: 45_104,
        read_bytes: 12 << 20,
        ..facts()
    }
}

/// Above what all validators repeat a program has to have states that can be shown, and may be ordered in no other mode that runs it again.
#[test]
fn which_programs_are_disputed_by_call() {
    let (usual, most) = (1 << 34, 200_000_000);
    let is_by_call = |fuel, repeated| program(fuel).is_disputed_by_tile(repeated);
    assert!(!is_by_call(1 << 22, usual) && is_by_call((1 << 22) + 1, usual));
    assert!(!is_by_call(62, 1_000) && is_by_call(63, 1_000) && is_by_call(1, 0));
    assert!(is_by_call(1 << 31, usual) && !is_by_call((1 << 31) + 1, usual));
    for (fuel, read_bytes, holds) in [
        (most, u64::MAX, true),
        (most + 1, (12 << 20) + 1, false),
        (most + 1, 12 << 20, true),
    ] {
        let facts = ModelFacts {
            read_bytes,
            ..program(fuel)
        };
        assert_eq!(facts.is_disputed_by_tile(usual), holds, "{fuel}");
        assert_eq!(facts.is_recomputable(usual), fuel <= most);
    }
    let unrecorded = ModelFacts {
        trace_bytes: 0,
        ..program(most)
    };
    assert!(!unrecorded.is_disputed_by_tile(usual));
}

#[test]
fn a_long_program_is_ordered_where_one_runs_it_and_nowhere_else() {
    let mut world = with_offers(program(1 << 31));
    let mut order = |mode| {
        let mut order = world.order();
        order.mode = mode;
        world.refusal("alice", Transaction::SubmitJob { order })
    };
    let model = MODEL;
    let refused = TransactionError::ModelNotRecomputable { model };
    assert_eq!(order(VerificationMode::Recompute), refused);
    let refused = TransactionError::ModelNotSampled { model };
    assert_eq!(order(VerificationMode::Sync), refused);
    let large = ModelFacts {
        read_bytes: (12 << 20) + 1,
        ..program(1 << 31)
    };
    let mut world = with_offers(large);
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let refused = TransactionError::ModelNotWatched { model };
    let sent = world.refusal("alice", Transaction::SubmitJob { order });
    assert_eq!(sent, refused);
}

/// A program of 2^29 units of fuel has 16 s beside its windows, and three times that beside those of a dispute; the steps are those of a model of integers, and the bill is what the receipt states.
#[test]
fn a_dispute_about_a_program_has_the_steps_of_one_about_a_tile() {
    let mut world = with_offers(program(1 << 29));
    let fuel = (1 << 29) / 2;
    let (job, lease, first);
    (world, job, lease, first) = watched_in(world, Tier::Wasm1, fuel);
    vote(&mut world, lease, first, RIGHT);
    world.send("bob", challenge(lease));
    assert_eq!(dispute(&world, lease).held, tgrid(CHALLENGE / 2));
    let least = world.time + ARGUE + 3 * 16_000 - 2 * TICK;
    assert!(dispute(&world, lease).until.get() >= least);
    let provider = world.holder(job);
    let task = argued(&mut world, lease, "bob", provider);
    world.decide(&task, Outcome::Refuted);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    // What the claimant does not hand in, and what the provider does not show.
    world.send("bob", challenge(lease));
    world.wait_until(dispute(&world, lease).until.get() + 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    world.wait_until(world.time + 10_000 + 2 * TICK);
    let paid = world.job(job).settlement().unwrap().price;
    assert_eq!(paid.checked_mul_div_ceil(2, 1), Some(tgrid(20)));

    let (mut world, _, lease, first) = watched_in(with_offers(program(1 << 29)), Tier::Wasm1, fuel);
    vote(&mut world, lease, first, Vote::WrongRun);
    world.send(first, argue(lease, CLAIM));
    let events = world.wait_until(dispute(&world, lease).until.get() + 2 * TICK);
    assert_eq!(slashed(&events), Some(tgrid(STAKE)));
}

/// A run of 2^36 multiply-accumulates takes 16 s more of every window in which somebody runs it, and three times that of those of a dispute.
#[test]
fn windows_have_the_time_that_a_run_takes() {
    let facts = ModelFacts {
        macs: 1 << 36,
        ..facts()
    };
    let mut genesis = genesis();
    genesis.parameters.leader_timeout = DurationMs::new(1_500);
    genesis.parameters.auction_slot = DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = DurationMs::from_secs(9);
    genesis.parameters.verification_timeout = DurationMs::new(ARGUE);
    let mut world = World::with(&genesis);
    world.activate_model(facts);
    let fast = OfferTerms {
        speed_mmac_per_s: 1_000_000_000,
        ..terms(20)
    };
    world.post("cheap", fast);
    deal(&mut world, 0);
    let (mut world, job, lease, first) = watched_in(world, Tier::Tgx1, 0);
    // Nobody is drawn anew before the watcher can have run it.
    let drawn = world.time;
    world.wait_until(drawn + 9_000 + 15_000);
    assert_eq!(watcher(&world, lease), first);
    vote(&mut world, lease, first, Vote::WrongRun);
    let least = world.time + ARGUE + 3 * 16_000 - 2 * TICK;
    assert!(dispute(&world, lease).until.get() >= least);
    assert_eq!(world.job(job).state(), JobState::Disputed);
}

/// The attack: its vote would make a paid challenge an accusation, and what is held of the fee nobody's, so that no block would
/// conserve money any more.
#[test]
fn a_watcher_accuses_by_its_vote_or_challenges_but_not_both() {
    let (mut world, _, lease, watcher) = watched();
    seal(&mut world, lease, watcher, Vote::WrongRun);
    let refused = TransactionError::NotContestable { lease };
    assert_eq!(world.refusal(watcher, challenge(lease)), refused);
    // Nor does it wait behind somebody else's.
    world.send("bob", challenge(lease));
    assert_eq!(world.refusal(watcher, challenge(lease)), refused);
    world.send(watcher, reveal(lease, Vote::WrongRun));
    assert_eq!(world.refusal(watcher, challenge(lease)), refused);
    let until = dispute(&world, lease).until.get();
    world.wait_until(until + 2 * TICK);
    // Bob showed nothing: it is the watcher's turn.
    assert_eq!(accuser(&world, lease), address(watcher));
}

/// Who challenges has no vote to seal as long as the dispute goes on; afterwards it accuses as every member.
#[test]
fn a_watcher_that_challenged_seals_no_accusation_beside() {
    let (mut world, _, lease, watcher) = watched();
    let fee = Transaction::Transfer {
        to: address(watcher),
        amount: tgrid(2 * CHALLENGE),
    };
    world.send("bob", fee);
    world.send(watcher, challenge(lease));
    let votes = vec![opened(lease, Vote::WrongRun).sealed(&address(watcher))];
    assert_eq!(
        world.refusal(watcher, Transaction::CommitVotes { votes }),
        TransactionError::NoVote { lease }
    );
    let until = dispute(&world, lease).until.get();
    world.wait_until(until + 2 * TICK);
    assert!(!matches!(stage(&world, lease), SyncStage::Disputed { .. }));
    seal(&mut world, lease, watcher, Vote::WrongRun);
}
