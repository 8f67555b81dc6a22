//! Mode `sealed`: the key of a job, from its grant to the end of the lease.

use tg_ledger::{
    EndReason, Event, EvidenceTask, JobState, KeyStep, LeaseEnd, ModelFacts, Outcome, SealingStage,
    StorageRule, Subject, SyncStage, TransactionError, Verdict, VerdictError,
};
use tg_types::sealing::{KEY_GRANT_BYTES, SEALED_INPUT_OVERHEAD, SEALING_KEY_BYTES};
use tg_types::{
    Amount, CapacityTier, DeclineReason, Digest, DurationMs, JobId, JobNeeds, JobOrder, KeyGrant,
    LeaseId, ModeSet, OfferTerms, Receipt, SealingPublicKey, SessionScope, StorageSubject, Tier,
    Transaction, TransactionKind, VerificationMode, Vote, job_id,
};

use crate::sessions;
use crate::world::{
    TICK, World, address, commit, facts, fee, genesis, lease_fee, receipt, rejected, rejected_end,
    terms, tgrid,
};

/// The secret that opens everything, as its requestor shows it.
const SECRET: [u8; 32] = [0x43; 32];

/// What a challenge costs.
const CHALLENGE: u64 = 100;

/// How long a requestor has to grant a key, and to doubt a result, in milliseconds.
const GRANT: u64 = 30_000;
const DOUBT: u64 = 10_000;

fn key(byte: u8) -> SealingPublicKey {
    SealingPublicKey::new(&[byte; SEALING_KEY_BYTES]).unwrap()
}

fn sealing_terms(price: u64) -> OfferTerms {
    OfferTerms {
        modes: ModeSet::ALL,
        ..terms(price)
    }
}

fn with_keys(mut world: World, facts: ModelFacts) -> World {
    world.activate_model(facts);
    for (name, price) in [("cheap", 30), ("middle", 40)] {
        let register = Transaction::RegisterSealingKey { key: key(1) };
        world.send(name, register);
        world.post(name, sealing_terms(price));
    }
    world
}

fn world() -> World {
    with_keys(World::bare(), facts())
}

fn order(world: &World) -> JobOrder {
    JobOrder {
        mode: VerificationMode::Sealed,
        input_len: 784 + SEALED_INPUT_OVERHEAD,
        ..world.order()
    }
}

/// A sealed job that `cheap` has and that waits for its key.
fn leased() -> (World, JobId, LeaseId) {
    let mut world = world();
    let order = order(&world);
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    assert_eq!(world.holder(job), "cheap");
    (world, job, lease)
}

const fn show(lease: LeaseId) -> Transaction {
    Transaction::RevealKey { lease, key: SECRET }
}

fn granting(lease: LeaseId) -> Transaction {
    Transaction::GrantKey {
        lease,
        grant: KeyGrant::new([0x42; KEY_GRANT_BYTES]),
    }
}

const fn decline(lease: LeaseId) -> Transaction {
    Transaction::DeclineLease {
        lease,
        reason: DeclineReason::Key,
    }
}

/// One whose key was granted.
fn granted() -> (World, JobId, LeaseId) {
    let (mut world, job, lease) = leased();
    world.send("alice", granting(lease));
    (world, job, lease)
}

/// One whose provider says that the key opens nothing.
fn questioned() -> (World, JobId, LeaseId) {
    let (mut world, job, lease) = granted();
    world.send("cheap", decline(lease));
    (world, job, lease)
}

/// One whose result may be doubted.
fn delivered() -> (World, JobId, LeaseId) {
    let (mut world, job, lease) = granted();
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    (world, job, lease)
}

fn stage(world: &World, job: JobId) -> SealingStage {
    world.lease(job).sealing.as_ref().unwrap().stage.clone()
}

fn pending(world: &World) -> EvidenceTask {
    let mut tasks = world.state.pending_evidence();
    tasks
        .find(|it| matches!(it, EvidenceTask::Grant(_) | EvidenceTask::Accusation { .. }))
        .unwrap()
}

fn burned_of_escrow(events: &[Event]) -> Amount {
    let burned = events.iter().filter_map(|it| match it {
        Event::EscrowBurned { amount, .. } => Some(*amount),
        _ => None,
    });
    burned.fold(Amount::ZERO, Amount::saturating_add)
}

fn provider_record(world: &World, name: &str) -> tg_ledger::Provider {
    world.state.provider(&address(name)).unwrap().clone()
}

#[test]
fn a_sealed_job_waits_for_its_key_and_is_paid_after_the_window() {
    let (mut world, job, lease) = leased();
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(stage(&world, job), SealingStage::AwaitsKey);
    let started = Transaction::StartLease { lease };
    assert!(matches!(
        world.refusal("cheap", started.clone()),
        TransactionError::KeyNotGranted { .. }
    ));
    assert!(matches!(
        world.refusal("mallory", granting(lease)),
        TransactionError::NotRequestor { .. }
    ));
    let events = world.send("alice", granting(lease));
    assert!(events.iter().any(|it| matches!(
        it,
        Event::KeyChanged { step: KeyStep::Granted, lease: of, .. } if *of == lease
    )));
    assert!(matches!(
        world.refusal("alice", granting(lease)),
        TransactionError::KeyNotAwaited { .. }
    ));
    let start_by = world.lease(job).start_by;
    let start = world.state.parameters().start_timeout;
    assert_eq!(
        start_by,
        world.lease(job).granted().unwrap().1.saturating_add(start)
    );
    world.send("cheap", started);
    let escrow = world.balance("alice");
    let before = world.balance("cheap");
    let accepted = provider_record(&world, "cheap").record.accepted;
    world.send("cheap", commit(lease));
    assert_eq!(world.job(job).state(), JobState::Verifying);
    let check = world.lease(job).check.clone().unwrap();
    assert!(matches!(check.stage, SyncStage::Contestable { .. }));
    // Nobody votes on it, and nothing is looked at.
    assert_eq!(world.state.pending_evidence().count(), 0);
    for name in ["validator 0", "validator 1", "validator 2", "validator 3"] {
        assert_eq!(world.state.vote_tasks(&address(name)), []);
    }
    let until = world.time + DOUBT;
    while world.time + TICK <= until {
        world.idle();
        assert_eq!(world.job(job).state(), JobState::Verifying);
    }
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Paid);
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, tgrid(30));
    assert_eq!(settlement.verification_fee, Amount::ZERO);
    assert_eq!(world.balance("alice"), escrow.saturating_add(tgrid(70)));
    // Collateral, price, and what of the gas was not used.
    assert!(world.balance("cheap") > before.saturating_add(tgrid(530)));
    let after = provider_record(&world, "cheap");
    assert_eq!(after.record.accepted, accepted + 1);
    // Nobody checked it, so it speaks for nobody.
    let new = tg_ledger::Provider::new(address("cheap"));
    assert_eq!(after.reputation, new.reputation);
    assert_eq!(world.lease(job).sealing, None);
}

#[test]
fn a_provider_of_a_float_model_has_its_whole_price_whatever_its_receipt_says() {
    let model = ModelFacts {
        tier: Tier::Tgf1,
        ..facts()
    };
    let mut world = with_keys(World::bare(), model);
    let order = order(&world);
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    world.send("alice", granting(lease));
    world.send("cheap", Transaction::StartLease { lease });
    let receipt = Receipt {
        tier: Tier::Tgf1,
        trace: Digest::default(),
        ..receipt()
    };
    world.send("cheap", Transaction::CommitReceipt { lease, receipt });
    world.wait_until(world.time + DOUBT + 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(30));
}

#[test]
fn a_sealed_answer_is_doubted_only_once_validators_hold_it() {
    let mut genesis = genesis();
    genesis.parameters.storage = StorageRule::Stated;
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    let validators = ["validator 0", "validator 1", "validator 2"];
    let hold = |world: &mut World, subject: StorageSubject| {
        for name in validators {
            let report = Transaction::ReportStorage {
                held: vec![subject],
                missing: vec![],
            };
            world.send(name, report);
        }
    };
    hold(&mut world, StorageSubject::Model(crate::world::MODEL));
    world.send("cheap", Transaction::RegisterSealingKey { key: key(2) });
    world.post("cheap", sealing_terms(30));
    let order = order(&world);
    let job = world.submit("alice", order);
    hold(&mut world, StorageSubject::Job(job));
    let lease = world.lease(job).id;
    world.send("alice", granting(lease));
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    let check = |world: &World| world.lease(job).check.clone().unwrap().stage;
    assert!(matches!(check(&world), SyncStage::Opened { .. }));
    // Its requestor cannot doubt what nobody holds.
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::RevealNotAwaited { .. }
    ));
    let tasks = world.state.storage_tasks(&address("validator 3"));
    let longest = 784 + 16;
    let is_answer = |file: &tg_ledger::StoredFile| {
        matches!(file, tg_ledger::StoredFile::Answer { digest, length: tg_ledger::AnswerLength::AtMost(most) }
            if *digest == receipt().output && *most == longest)
    };
    assert!(tasks.iter().flat_map(|it| &it.files).any(is_answer));
    hold(&mut world, StorageSubject::Lease(lease));
    assert!(matches!(check(&world), SyncStage::Contestable { .. }));
    world.wait_until(world.time + DOUBT + 2 * TICK);
    assert_eq!(world.job(job).state(), JobState::Paid);

    // One that validators cannot get is not paid, and costs its provider everything.
    let order = self::order(&world);
    let job = world.submit("alice", order);
    hold(&mut world, StorageSubject::Job(job));
    let lease = world.lease(job).id;
    world.send("alice", granting(lease));
    world.send("cheap", Transaction::StartLease { lease });
    let receipt = Receipt {
        output: Digest::new([0x77; 32]),
        ..receipt()
    };
    world.send("cheap", Transaction::CommitReceipt { lease, receipt });
    let events = world.wait_until(world.time + 32_000);
    assert!(events.iter().any(|it| matches!(
        it,
        Event::Forfeited { amount, .. } if *amount == tgrid(500)
    )));
}

#[test]
fn without_a_key_in_time_the_job_ends_and_the_price_burns() {
    let (mut world, job, lease) = leased();
    let before = provider_record(&world, "cheap");
    let (alice, cheap) = (world.balance("alice"), world.balance("cheap"));
    let until = world.time + GRANT;
    while world.time + TICK <= until {
        world.idle();
        assert_eq!(world.job(job).state(), JobState::Leased);
    }
    let events = world.idle();
    assert_eq!(world.job(job).state(), JobState::Refunded);
    assert_eq!(world.job(job).end().unwrap(), EndReason::NoKey);
    assert_eq!(world.lease(job).end(), Some(&LeaseEnd::Ungranted));
    assert_eq!(burned_of_escrow(&events), tgrid(30));
    // The gas of the lease is the requestor's; the collateral and what was prepaid is back.
    let gas = lease_fee();
    let back = tgrid(70).checked_sub(gas).unwrap();
    assert_eq!(world.balance("alice"), alice.saturating_add(back));
    assert_eq!(
        world.balance("cheap"),
        cheap.saturating_add(tgrid(500)).saturating_add(gas)
    );
    let after = provider_record(&world, "cheap");
    assert_eq!(after.record, before.record);
    assert_eq!(after.reputation, before.reputation);
    assert_eq!(after.unstarted, before.unstarted);
    assert_eq!(after.suspended_until, before.suspended_until);
    assert!(matches!(
        world.refusal("alice", granting(lease)),
        TransactionError::LeaseEnded { .. }
    ));
}

#[test]
fn taking_it_back_while_its_provider_waits_costs_that_time() {
    let (mut world, job, _) = leased();
    world.wait_until(world.time + 10_000);
    let events = world.send("alice", Transaction::CancelJob { job });
    assert_eq!(burned_of_escrow(&events), tgrid(30));
    assert_eq!(world.job(job).state(), JobState::Cancelled);
    // After the grant it costs the wait for that: a key that comes as the job is taken back holds nobody for nothing.
    let (mut world, job, _) = granted();
    let wait = price_of_wait(&world, job);
    assert!(wait > Amount::ZERO);
    world.wait_until(world.time + 5_000);
    let events = world.send("alice", Transaction::CancelJob { job });
    assert_eq!(burned_of_escrow(&events), wait);
}

/// What the wait for the key that was granted costs, of the price of 30 TGRID.
fn price_of_wait(world: &World, job: JobId) -> Amount {
    let lease = world.lease(job);
    let wait = lease
        .granted()
        .unwrap()
        .1
        .saturating_since(lease.matched_at);
    let declared = lease.sealing.as_ref().unwrap().declared;
    tgrid(30)
        .checked_mul_div_ceil(wait.get().min(declared.get()), declared.get())
        .unwrap()
}

#[test]
fn a_sealed_job_is_leased_only_where_time_is_left_for_its_key() {
    let mut world = world();
    let usual = order(&world);
    let declared = world.state.offers().iter().next().unwrap();
    let declared = declared.terms.duration(facts().macs).get();
    let short = |time: u64, world: &World| JobOrder {
        deadline: tg_types::TimestampMs::new(world.time + time),
        ..usual.clone()
    };
    // Matched a block later.
    let order = short(GRANT + declared, &world);
    let job = world.submit("alice", order);
    assert_eq!(world.job(job).state(), JobState::Queued);
    let order = short(GRANT + declared + 3 * TICK, &world);
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    // The last moment in which the key is awaited.
    world.wait_until(world.lease(job).start_by.get() - TICK);
    world.send("alice", granting(lease));
    assert!(matches!(stage(&world, job), SealingStage::Granted { .. }));
}

#[test]
fn an_offer_that_is_taken_back_keeps_no_key_from_being_granted() {
    let mut world = world();
    let usual = order(&world);
    let order = JobOrder {
        deadline: tg_types::TimestampMs::new(world.time + 45_000),
        ..usual
    };
    let job = world.submit("alice", order);
    let (lease, offer) = (world.lease(job).id, world.lease(job).offer);
    world.send("cheap", Transaction::WithdrawOffer { offer });
    world.wait_until(world.time + GRANT - 4 * TICK);
    world.send("alice", granting(lease));
    assert!(matches!(stage(&world, job), SealingStage::Granted { .. }));
}

#[test]
fn a_key_that_is_not_shown_costs_its_requestor_what_the_provider_would_have_lost() {
    let (mut world, job, lease) = questioned();
    assert!(matches!(
        stage(&world, job),
        SealingStage::Questioned { .. }
    ));
    for refused in [
        (Transaction::StartLease { lease }, "cheap"),
        (decline(lease), "cheap"),
        (
            Transaction::DeclineLease {
                lease,
                reason: DeclineReason::Unwilling,
            },
            "cheap",
        ),
        (Transaction::CancelJob { job }, "alice"),
    ] {
        let error = world.refusal(refused.1, refused.0);
        assert!(
            matches!(error, TransactionError::KeyInQuestion { .. }),
            "{error}"
        );
    }
    assert!(matches!(
        world.refusal("mallory", show(lease)),
        TransactionError::NotRequestor { .. }
    ));
    let before = provider_record(&world, "cheap");
    let cheap = world.balance("cheap");
    let events = world.wait_until(world.time + 31_000);
    assert_eq!(world.job(job).end().unwrap(), EndReason::NoKey);
    assert_eq!(world.lease(job).end(), Some(&LeaseEnd::Ungranted));
    // Longer than the start timeout: all of the maximum price, but for the gas of the lease.
    let gas = lease_fee();
    assert_eq!(
        burned_of_escrow(&events),
        tgrid(100).checked_sub(gas).unwrap()
    );
    assert_eq!(
        world.balance("cheap"),
        cheap.saturating_add(tgrid(500)).saturating_add(gas)
    );
    let after = provider_record(&world, "cheap");
    assert_eq!(after.record, before.record);
    assert_eq!(after.unstarted, before.unstarted);
    // A key that is shown too late changes nothing.
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::LeaseEnded { .. }
    ));
}

/// Stops: a provider that declines leases of its own first, for next to nothing, so that whoever does not show its key burns many times as much.
#[test]
fn what_burns_without_a_key_does_not_double_with_the_failures_of_its_provider() {
    let mut world = World::bare();
    world.activate_model(facts());
    let register = Transaction::RegisterSealingKey { key: key(1) };
    world.send("cheap", register);
    let slow = OfferTerms {
        latency_base_ms: DurationMs::from_secs(200),
        ..sealing_terms(30)
    };
    world.post("cheap", slow);
    for _ in 0..3 {
        let job = world.submit("mallory", world.order());
        let lease = world.lease(job).id;
        let reason = DeclineReason::Unwilling;
        world.send("cheap", Transaction::DeclineLease { lease, reason });
        world.send("mallory", Transaction::CancelJob { job });
        let suspended = provider_record(&world, "cheap").suspended_until;
        world.wait_until(suspended.get());
    }
    let asked = order(&world);
    let job = world.submit("alice", asked);
    let lease = world.lease(job).clone();
    let declared = lease.sealing.as_ref().unwrap().declared.get();
    world.send("alice", granting(lease.id));
    let granted = world.time;
    world.send("cheap", decline(lease.id));
    let events = world.wait_until(world.time + 31_000);
    assert_eq!(world.job(job).end().unwrap(), EndReason::NoKey);
    let since = tgrid(100).checked_mul_div_ceil(world.time - granted, declared);
    let waited = granted - lease.matched_at.get();
    let before = lease.price.checked_mul_div_ceil(waited, declared);
    let due = since.unwrap().saturating_add(before.unwrap());
    assert_eq!(burned_of_escrow(&events), due);
}

#[test]
fn a_key_that_opens_nothing_costs_its_requestor_the_same() {
    let (mut world, job, lease) = questioned();
    let spent = world.balance("alice");
    world.send("alice", show(lease));
    assert_eq!(
        world.balance("alice"),
        spent.checked_sub(fee(TransactionKind::RevealKey)).unwrap()
    );
    assert!(
        matches!(stage(&world, job), SealingStage::Revealed { secret, .. } if secret == SECRET)
    );
    let task = pending(&world);
    let EvidenceTask::Grant(shown) = &task else {
        panic!("validators look at the grant");
    };
    assert_eq!(task.subject(), Subject::Grant(lease));
    assert_eq!(shown.revealed.secret, SECRET);
    assert_eq!(shown.revealed.requestor, address("alice"));
    assert_eq!(shown.key, key(1));
    // Only what names this key, and only what is an answer to it.
    let wrong = Verdict {
        evidence: Digest::new([9; 32]),
        ..task.verdict(Outcome::Refuted)
    };
    for verdict in [wrong, task.verdict(Outcome::LeaseAccepted)] {
        let proposed = world.block(vec![], vec![verdict]);
        assert!(matches!(
            proposed.refused_verdicts[0].1,
            VerdictError::WrongEvidence { .. } | VerdictError::WrongOutcome { .. }
        ));
    }
    let held = world
        .now()
        .saturating_since(world.lease(job).granted().unwrap().1);
    let before = provider_record(&world, "cheap");
    let wait = price_of_wait(&world, job);
    let events = world.decide(&task, rejected());
    let whole = world.state.parameters().start_timeout.get();
    let held = held.get() + TICK;
    let penalty = tgrid(100)
        .checked_mul_div_ceil(held.min(whole), whole)
        .unwrap();
    assert_eq!(
        burned_of_escrow(&events),
        penalty.saturating_add(wait),
        "the penalty, and the wait for what was granted"
    );
    assert_eq!(world.job(job).end().unwrap(), EndReason::NoKey);
    assert_eq!(provider_record(&world, "cheap").lost, before.lost);
}

#[test]
fn a_provider_that_declines_a_right_key_has_the_penalty() {
    let (mut world, job, lease) = questioned();
    world.send("alice", show(lease));
    let alice = world.balance("alice");
    let task = pending(&world);
    let events = world.decide(&task, Outcome::Refuted);
    let forfeited = events.iter().find_map(|it| match it {
        Event::Forfeited { amount, .. } => Some(*amount),
        _ => None,
    });
    let lost = provider_record(&world, "cheap").lost;
    assert_eq!(Some(lost), forfeited);
    assert!(lost > Amount::ZERO);
    assert_eq!(burned_of_escrow(&events), Amount::ZERO);
    assert_eq!(
        world.lease(job).end(),
        Some(&LeaseEnd::Declined(DeclineReason::Key))
    );
    assert_eq!(provider_record(&world, "cheap").unstarted, 1);
    // Everybody reads it now: nobody is paid for sealing it.
    assert_eq!(world.job(job).end().unwrap(), EndReason::KeyShown);
    assert_eq!(world.balance("alice"), alice.saturating_add(tgrid(100)));
}

#[test]
fn a_wrong_answer_costs_its_provider_everything_once_the_key_is_shown() {
    let (mut world, job, lease) = delivered();
    let alice = world.balance("alice");
    world.send("alice", show(lease));
    let cost = tgrid(CHALLENGE).saturating_add(fee(TransactionKind::RevealKey));
    assert_eq!(world.balance("alice"), alice.checked_sub(cost).unwrap());
    assert_eq!(world.job(job).state(), JobState::Disputed);
    let task = pending(&world);
    let EvidenceTask::Accusation { vote, sample } = &task else {
        panic!("validators look at the result");
    };
    assert_eq!(*vote, Vote::WrongRun);
    assert_eq!(sample.revealed.as_ref().unwrap().secret, SECRET);
    assert_ne!(task.evidence(), receipt().output);
    let before = world.balance("cheap");
    let events = world.decide(&task, rejected());
    assert_eq!(world.lease(job).end(), Some(&rejected_end()));
    let slashed = events.iter().find_map(|it| match it {
        Event::Slashed { amount, .. } => Some(*amount),
        _ => None,
    });
    // The fee of the challenge is paid out of it.
    assert_eq!(slashed, Some(tgrid(400)));
    assert_eq!(world.job(job).end().unwrap(), EndReason::KeyShown);
    // The escrow and the fee are back.
    let whole = alice.saturating_add(tgrid(100));
    let gas = fee(TransactionKind::RevealKey);
    assert_eq!(world.balance("alice"), whole.checked_sub(gas).unwrap());
    assert!(world.balance("cheap") <= before);
    assert_eq!(provider_record(&world, "cheap").record.rejected, 1);
}

#[test]
fn a_right_answer_is_paid_at_once_and_its_requestor_has_paid_for_the_look() {
    let (mut world, job, lease) = delivered();
    world.send("alice", show(lease));
    let alice = world.balance("alice");
    let task = pending(&world);
    // What the run took is not said of a sealed job.
    let proposed = world.block(vec![], vec![task.verdict(Outcome::Refuted)]);
    assert!(matches!(
        proposed.refused_verdicts[0].1,
        VerdictError::WrongOutcome { .. }
    ));
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(30));
    assert_eq!(world.balance("alice"), alice.saturating_add(tgrid(70)));
}

#[test]
fn a_result_is_doubted_by_its_requestor_alone_once_and_in_time() {
    let (mut world, _, lease) = delivered();
    assert!(matches!(
        world.refusal("mallory", show(lease)),
        TransactionError::NotRequestor { .. }
    ));
    assert!(matches!(
        world.refusal("mallory", Transaction::ChallengeResult { lease }),
        TransactionError::NotContestable { .. }
    ));
    world.send("alice", show(lease));
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::RevealNotAwaited { .. }
    ));
    // Too late.
    let (mut world, _, lease) = delivered();
    world.wait_until(world.time + DOUBT + 2 * TICK);
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::LeaseEnded { .. }
    ));
    // Too early.
    let (mut world, _, lease) = granted();
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::RevealNotAwaited { .. }
    ));
}

#[test]
fn a_key_is_declined_only_where_there_is_one() {
    let (mut world, _, lease) = leased();
    assert!(matches!(
        world.refusal("cheap", decline(lease)),
        TransactionError::KeyNotGranted { .. }
    ));
    let order = world.order();
    let job = world.submit("alice", order);
    let (name, lease) = (world.holder(job), world.lease(job).id);
    assert!(matches!(
        world.refusal(name, decline(lease)),
        TransactionError::NotSealed { .. }
    ));
    assert!(matches!(
        world.refusal("alice", granting(lease)),
        TransactionError::NotSealed { .. }
    ));
    assert!(matches!(
        world.refusal("alice", show(lease)),
        TransactionError::NotSealed { .. }
    ));
}

#[test]
fn only_providers_with_a_key_offer_the_mode_and_a_new_key_is_for_later_leases() {
    let mut genesis = genesis();
    genesis.parameters.rent_full_hour = Amount::from_tgrid(1_400);
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    let offer = Transaction::PostOffer {
        terms: sealing_terms(30),
    };
    assert!(matches!(
        world.refusal("cheap", offer),
        TransactionError::NoSealingKey { .. }
    ));
    // The first key makes the record that pays for it; another one in its place costs nothing but gas.
    let register = |byte| Transaction::RegisterSealingKey { key: key(byte) };
    world.send("cheap", register(1));
    let bytes = provider_record(&world, "cheap").rent.bytes;
    assert_eq!(bytes, 512 + 1_536);
    let id = world.post("cheap", sealing_terms(30));
    let order = order(&world);
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    let before = world.balance("cheap");
    world.send("cheap", register(2));
    let gas = fee(TransactionKind::RegisterSealingKey);
    assert_eq!(world.balance("cheap"), before.checked_sub(gas).unwrap());
    assert_eq!(provider_record(&world, "cheap").rent.bytes, bytes);
    assert_eq!(world.lease(job).sealing.as_ref().unwrap().key, key(1));
    world.send("alice", granting(lease));
    world.send("cheap", decline(lease));
    world.send("alice", show(lease));
    assert!(matches!(pending(&world), EvidenceTask::Grant(it) if it.key == key(1)));
    // Terms of an offer that change are looked at too.
    let middle = world.post("middle", terms(40));
    world.wait_until(world.time + 6_000);
    let update = Transaction::UpdateOffer {
        offer: middle,
        terms: sealing_terms(40),
    };
    assert!(matches!(
        world.refusal("middle", update),
        TransactionError::NoSealingKey { .. }
    ));
    assert!(world.state.offer(&id).is_some());
}

#[test]
fn what_cannot_be_sealed_is_refused() {
    let mut world = world();
    let good = order(&world);
    for needs in [
        JobNeeds {
            gang: 2,
            ..good.needs
        },
        JobNeeds {
            tier: CapacityTier::Spot,
            preemptible: true,
            ..good.needs
        },
        JobNeeds {
            tier: CapacityTier::Reserved,
            guaranteed: true,
            ..good.needs
        },
    ] {
        let order = JobOrder {
            needs,
            ..good.clone()
        };
        let error = world.refusal("alice", Transaction::SubmitJob { order });
        assert!(
            matches!(error, TransactionError::BadNeeds { .. }),
            "{error}"
        );
    }
    // An input that is not sealed, or not of the model's length.
    for input_len in [0, 80, 784, 783 + SEALED_INPUT_OVERHEAD] {
        let order = JobOrder {
            input_len,
            ..good.clone()
        };
        let error = world.refusal("alice", Transaction::SubmitJob { order });
        assert!(
            matches!(error, TransactionError::WrongInputLength { expected, .. } if expected == 784 + SEALED_INPUT_OVERHEAD),
            "{error}"
        );
    }
    for model in [
        ModelFacts {
            tier: Tier::Wasm1,
            ..facts()
        },
        ModelFacts {
            macs: u64::MAX,
            ..facts()
        },
    ] {
        let mut world = with_keys(World::bare(), model);
        let order = order(&world);
        let error = world.refusal("alice", Transaction::SubmitJob { order });
        assert!(
            matches!(error, TransactionError::ModelNotSealed { .. }),
            "{error}"
        );
    }
}

/// Stops: a stolen key that grants what opens nothing for jobs that others of the account ordered, so that they end, or shows such a key of a job
/// that its holder serves, so that a wrong answer is paid.
#[test]
fn a_session_key_grants_and_shows_the_keys_of_what_it_ordered_alone() {
    let session = sessions::key("alice", 7);
    let registered = |world: &mut World| {
        let register = sessions::register(world, &session, SessionScope::Order, tgrid(50_000));
        world.send("alice", register);
    };
    let check_refused = |world: &mut World, asked: Transaction| {
        let refused = sessions::refusal(world, &session, asked);
        assert!(matches!(refused, TransactionError::NotOfSession { .. }));
    };
    let (mut theirs, job, lease) = leased();
    registered(&mut theirs);
    check_refused(&mut theirs, granting(lease));
    theirs.send("alice", granting(lease));
    theirs.send("cheap", decline(lease));
    check_refused(&mut theirs, show(lease));
    assert!(matches!(
        stage(&theirs, job),
        SealingStage::Questioned { .. }
    ));
    let (mut theirs, job, lease) = delivered();
    registered(&mut theirs);
    check_refused(&mut theirs, show(lease));
    assert_eq!(theirs.job(job).state(), JobState::Verifying);
    // Of its own it does both.
    let mut own = world();
    registered(&mut own);
    let order = order(&own);
    let signed = sessions::sign(&own, &session, Transaction::SubmitJob { order });
    let job = job_id(signed.id(own.state.domain()));
    assert_eq!(own.block(vec![signed], vec![]).refused, []);
    let lease = own.lease(job).id;
    sessions::send(&mut own, &session, granting(lease));
    own.send("cheap", decline(lease));
    sessions::send(&mut own, &session, show(lease));
    assert!(matches!(stage(&own, job), SealingStage::Revealed { .. }));
}
