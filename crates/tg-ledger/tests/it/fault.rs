//! Who bears a failure: inputs that are withheld, leases that are declined, validators that pause, unknown models.
//!
//! Each test plays an attacker of a review against the rule that stops it.

use tg_ledger::{
    AbandonedBecause, EndReason, Event, Genesis, JobState, LatePhase, LeaseEnd, Outcome,
    Parameters, StorageRule, TransactionError,
};
use tg_types::{
    Amount, DeclineReason, DurationMs, JobId, OfferTerms, StorageSubject, TimestampMs, Transaction,
    TransactionKind, VerificationMode,
};

use crate::lanes::gpu_needs;
use crate::world::{
    MODEL, TICK, World, address, commit, evidence, facts, fee, genesis, lease_fee, part, terms,
    tgrid,
};

/// A network in which validators state what they hold.
fn stated() -> World {
    with(Parameters {
        storage: StorageRule::Stated,
        ..genesis().parameters
    })
}

fn with(parameters: Parameters) -> World {
    let mut world = World::with(&Genesis {
        parameters,
        ..genesis()
    });
    world.activate_model(facts());
    for (name, price) in [("cheap", 30), ("middle", 40), ("dear", 50)] {
        world.post(name, terms(price));
    }
    world
}

/// What of the gas of a declined lease comes back.
fn unused() -> Amount {
    lease_fee().saturating_sub(fee(TransactionKind::DeclineLease))
}

pub(crate) fn hold(
    world: &mut World,
    validators: std::ops::Range<u8>,
    subject: impl Into<StorageSubject>,
) {
    let subject = subject.into();
    for index in validators {
        let report = Transaction::ReportStorage {
            held: vec![subject],
            missing: vec![],
        };
        world.send(&format!("validator {index}"), report);
    }
}

fn miss(world: &mut World, validators: std::ops::Range<u8>, subject: impl Into<StorageSubject>) {
    let subject = subject.into();
    for index in validators {
        let report = Transaction::ReportStorage {
            held: vec![],
            missing: vec![subject],
        };
        world.send(&format!("validator {index}"), report);
    }
}

fn sorted(jobs: &[JobId]) -> Vec<StorageSubject> {
    let mut subjects: Vec<StorageSubject> = jobs.iter().map(|it| (*it).into()).collect();
    subjects.sort();
    subjects
}

/// A job whose input and model are held.
fn ready(world: &mut World) -> JobId {
    if !world
        .state
        .is_held(&world.state.model(&MODEL).unwrap().storage)
    {
        hold(world, 0..3, MODEL);
    }
    let job = world.submit("alice", world.order());
    hold(world, 0..3, job);
    job
}

#[test]
fn an_input_that_nobody_has_costs_no_provider_anything() {
    let mut world = stated();
    hold(&mut world, 0..3, MODEL);
    let job = world.submit("mallory", world.order());
    // Two of four are too few: the requestor may give it to f of them and to nobody else.
    hold(&mut world, 0..2, job);
    for _ in 0..20 {
        world.idle();
    }
    assert_eq!(world.job(job).state(), JobState::Submitted);
    assert!(world.job(job).leases().is_empty());
    hold(&mut world, 2..3, job);
    assert_eq!(world.job(job).state(), JobState::Leased);
}

#[test]
fn a_model_whose_files_nobody_has_takes_no_orders() {
    let mut world = stated();
    let order = world.order();
    assert_eq!(
        world.refusal("alice", Transaction::SubmitJob { order }),
        TransactionError::ModelNotHeld {
            model: MODEL,
            held: 0,
            needed: 3
        }
    );
    hold(&mut world, 0..3, MODEL);
    world.submit("alice", world.order());
}

#[test]
fn statements_come_from_validators_once_and_about_what_was_asked() {
    let mut world = stated();
    let subject: StorageSubject = MODEL.into();
    let report = |held: Vec<StorageSubject>, missing| Transaction::ReportStorage { held, missing };
    let sender = address("mallory");
    assert_eq!(
        world.refusal("mallory", report(vec![subject], vec![])),
        TransactionError::NotValidator { sender }
    );
    assert_eq!(
        world.refusal("validator 0", report(vec![], vec![])),
        TransactionError::EmptyReport
    );
    let bad = TransactionError::BadStatement { subject };
    // Nobody asked whether it is missing.
    assert_eq!(
        world.refusal("validator 0", report(vec![], vec![subject])),
        bad
    );
    assert_eq!(
        world.refusal("validator 0", report(vec![subject, subject], vec![])),
        bad
    );
    hold(&mut world, 0..1, MODEL);
    assert_eq!(
        world.refusal("validator 0", report(vec![subject], vec![])),
        bad
    );
    let tasks = |index: u8| {
        let validator = address(&format!("validator {index}"));
        world.state.storage_tasks(&validator).len()
    };
    assert_eq!((tasks(0), tasks(1)), (0, 1));
}

#[test]
fn whoever_lets_others_fail_gains_nothing_by_finishing_the_job() {
    // The requestor's own machine is matched last and finishes: it gets its price, and what the others lost is burned.
    let mut world = World::with_offers();
    let before = world.state.totals().burned;
    let job = world.submit("mallory", world.order());
    for name in ["cheap", "middle"] {
        let lease = world.lease(job).clone();
        world.send(name, Transaction::StartLease { lease: lease.id });
        world.wait_until(lease.deadline.get() + 1);
        let end = LeaseEnd::Late(LatePhase::Running);
        assert_eq!(world.state.lease(&lease.id).unwrap().end(), Some(&end));
    }
    assert_eq!(world.holder(job), "dear");
    let dear = world.balance("dear");
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    // Its collateral and price; the gas of the lease was prepaid before.
    assert_eq!(
        world.balance("dear").checked_sub(dear),
        Some(tgrid(500 + 50))
    );
    let lost = world.state.totals().burned.checked_sub(before).unwrap();
    assert!(lost >= tgrid(1_000));
}

#[test]
fn a_decline_costs_its_time_and_twice_as_much_each_time() {
    let mut world = stated();
    let mut lost = Vec::new();
    for round in 0..3 {
        let job = ready(&mut world);
        let lease = world.lease(job).clone();
        assert_eq!(world.holder(job), "cheap", "round {round}");
        let before = world.balance("cheap");
        let reason = DeclineReason::Unwilling;
        let decline = Transaction::DeclineLease {
            lease: lease.id,
            reason,
        };
        world.send("cheap", decline);
        assert_eq!(
            world.state.lease(&lease.id).unwrap().end(),
            Some(&LeaseEnd::Declined(reason))
        );
        let back = world.balance("cheap").checked_sub(before).unwrap();
        // The gas that it did not use comes back beside.
        let whole = lease.collateral.saturating_add(unused());
        lost.push(whole.checked_sub(back).unwrap().get());
        assert_eq!(world.job(job).excluded, [address("cheap")]);
        assert_eq!(world.attempts_failed(job), 0);
        assert_eq!(world.holder(job), "middle");
        world.send("alice", Transaction::CancelJob { job });
        // Out of the market for a second, two, four.
        let until = world.state.provider(&address("cheap")).unwrap();
        world.wait_until(until.suspended_until.get());
    }
    assert_eq!(lost[1], 2 * lost[0]);
    assert_eq!(lost[2], 4 * lost[0]);
    // A second of the ten in which it had to start, of the maximum price.
    assert_eq!(Amount::new(lost[0]), tgrid(10));
}

#[test]
fn a_decline_is_free_only_if_validators_do_not_hold_what_was_promised() {
    for (missing, is_free) in [(3, true), (2, false)] {
        let mut world = stated();
        let job = ready(&mut world);
        let lease = world.lease(job).clone();
        let before = world.balance("cheap");
        let decline = Transaction::DeclineLease {
            lease: lease.id,
            reason: DeclineReason::InputMissing,
        };
        world.send("cheap", decline);
        // The penalty waits for an answer; the job does not.
        assert_eq!(world.state.lease(&lease.id).unwrap().locked(), tgrid(10));
        assert_eq!(world.holder(job), "middle");
        miss(&mut world, 0..missing, job);
        if !is_free {
            let until = world.job(job).storage.recheck.as_ref().unwrap().until;
            let second = world.lease(job).id;
            world.send("middle", Transaction::StartLease { lease: second });
            world.wait_until(until.get() + 1);
        }
        assert_eq!(world.state.lease(&lease.id).unwrap().locked(), Amount::ZERO);
        let kept = match is_free {
            true => Amount::ZERO,
            false => tgrid(10),
        };
        assert_eq!(
            world.balance("cheap").checked_sub(before),
            lease.collateral.saturating_add(unused()).checked_sub(kept)
        );
        if is_free {
            // The order is suspended, and whoever had it meanwhile is let go.
            assert_eq!(world.job(job).state(), JobState::Submitted);
            let second = world.job(job).leases()[1];
            let second = world.state.lease(&second).unwrap();
            assert_eq!(second.end(), Some(&LeaseEnd::Unavailable));
            hold(&mut world, 0..3, job);
            assert_eq!(world.job(job).state(), JobState::Leased);
        }
    }
}

#[test]
fn false_claims_that_a_model_is_missing_suspend_nobody_else() {
    let mut world = stated();
    let job = ready(&mut world);
    let lease = world.lease(job).id;
    let decline = Transaction::DeclineLease {
        lease,
        reason: DeclineReason::ModelMissing,
    };
    world.send("cheap", decline);
    assert_eq!(world.holder(job), "middle");
    // Orders of the model are taken while validators look again.
    let second = ready(&mut world);
    assert_eq!(world.job(second).state(), JobState::Leased);
    // Two that still hold it are enough: one of four may lie.
    hold(&mut world, 0..2, MODEL);
    assert_eq!(world.state.model(&MODEL).unwrap().storage.recheck, None);
    assert_eq!(world.state.lease(&lease).unwrap().locked(), Amount::ZERO);
}

#[test]
fn files_that_validators_lose_cost_none_of_the_providers_that_need_them() {
    let mut world = with(Parameters {
        storage: StorageRule::Stated,
        start_timeout: DurationMs::from_secs(60),
        ..genesis().parameters
    });
    let before = world.balance("cheap");
    let many = OfferTerms {
        slots: 24,
        collateral_per_lease: tgrid(20),
        ..terms(20)
    };
    world.post("cheap", many);
    let gas = before.checked_sub(world.balance("cheap")).unwrap();
    hold(&mut world, 0..3, MODEL);
    let jobs: Vec<JobId> = (0..20)
        .map(|_| world.submit("alice", world.order()))
        .collect();
    for index in 0..3 {
        let report = Transaction::ReportStorage {
            held: sorted(&jobs),
            missing: vec![],
        };
        world.send(&format!("validator {index}"), report);
    }
    let leases: Vec<_> = jobs.iter().map(|job| world.lease(*job).id).collect();
    for lease in leases {
        let reason = DeclineReason::ModelMissing;
        world.send("cheap", Transaction::DeclineLease { lease, reason });
        let lease = world.state.lease(&lease).unwrap();
        assert!(lease.locked() > Amount::ZERO, "its penalty waits");
    }
    miss(&mut world, 0..3, MODEL);
    let spent = gas.get() + 20 * fee(TransactionKind::DeclineLease).get();
    let lost = before.checked_sub(world.balance("cheap")).unwrap();
    assert_eq!(lost.get(), spent, "gas, and nothing else");
    let provider = world.state.provider(&address("cheap")).unwrap();
    assert_eq!((provider.unstarted, provider.lost), (0, Amount::ZERO));
}

#[test]
fn a_requestor_that_ends_its_job_returns_the_penalty_that_waits() {
    let mut world = stated();
    let job = ready(&mut world);
    let lease = world.lease(job).id;
    let before = world.balance("cheap");
    let decline = Transaction::DeclineLease {
        lease,
        reason: DeclineReason::InputMissing,
    };
    world.send("cheap", decline);
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(
        world.balance("cheap").checked_sub(before),
        tgrid(500).checked_add(unused())
    );
}

#[test]
fn a_pause_of_all_validators_ends_no_lease() {
    let mut world = with(Parameters {
        time_step_max: DurationMs::from_secs(1),
        outage_min: DurationMs::from_secs(10),
        ..genesis().parameters
    });
    let jobs: Vec<JobId> = (0..6)
        .map(|_| world.submit("alice", world.order()))
        .collect();
    let started = world.lease(jobs[0]).clone();
    let holder = world.holder(jobs[0]);
    world.send(holder, Transaction::StartLease { lease: started.id });
    let before = world.state.totals().burned;
    let fees = world.state.head().height.get();
    world.time += 60_000;
    // The first block after a minute in which none came.
    world.idle();
    assert_eq!(
        world.state.head().outage.unwrap().height,
        world.state.head().height
    );
    assert_eq!(world.state.totals().burned, before, "after {fees} blocks");
    for job in &jobs {
        assert!(matches!(
            world.job(*job).state(),
            JobState::Leased | JobState::Running
        ));
    }
    // What waited for a block is still in time.
    for job in jobs {
        let lease = world.lease(job).clone();
        let name = world.holder(job);
        if lease.started_at().is_none() {
            world.send(name, Transaction::StartLease { lease: lease.id });
        }
        world.send(name, commit(lease.id));
        world.send(name, evidence(lease.id));
        let task = world.task(lease.id);
        world.decide(&task, Outcome::LeaseAccepted);
        assert_eq!(world.job(job).state(), JobState::Paid);
    }
}

#[test]
fn faulty_leaders_cannot_stop_the_clock_of_leases() {
    let mut world = with(Parameters {
        time_step_max: DurationMs::from_secs(1),
        outage_min: DurationMs::from_secs(10),
        ..genesis().parameters
    });
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).clone();
    // A pause of three seconds in every fourth block is what one of four can cause; windows end all the same.
    for round in 0..40 {
        if round % 4 == 0 {
            world.time += 3_000;
        }
        world.idle();
    }
    let end = LeaseEnd::Abandoned(AbandonedBecause::NotStarted);
    assert_eq!(world.state.lease(&lease.id).unwrap().end(), Some(&end));
}

#[test]
fn what_comes_in_the_block_in_which_a_window_ends_is_in_time() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).clone();
    world.time = lease.start_by.get();
    world.send("cheap", Transaction::StartLease { lease: lease.id });
    assert_eq!(world.job(job).state(), JobState::Running);
}

#[test]
fn a_model_that_cannot_be_served_ruins_nobody() {
    let mut world = with(Parameters {
        owners_paid_min: 3,
        ..genesis().parameters
    });
    let job = world.submit("mallory", world.order());
    let lease = world.lease(job).clone();
    let at_risk = lease_fee().saturating_mul(10);
    assert_eq!((lease.collateral, lease.at_risk), (tgrid(500), at_risk));
    let before = world.balance("cheap");
    world.send("cheap", Transaction::StartLease { lease: lease.id });
    world.wait_until(lease.deadline.get() + 1);
    assert_eq!(
        world.balance("cheap").checked_sub(before),
        tgrid(500).checked_sub(at_risk)
    );
    // What nobody checked says nothing of the model: three of the attacker's own would be paid for any bytes.
    let mut order = world.order();
    order.mode = VerificationMode::None;
    let unchecked = world.submit("alice", order);
    let (name, own) = (world.holder(unchecked), world.lease(unchecked).id);
    world.send(name, Transaction::StartLease { lease: own });
    world.send(name, commit(own));
    assert_eq!(world.job(unchecked).state(), JobState::Paid);
    assert!(world.state.model(&MODEL).unwrap().owners_paid.is_empty());
    // Three owners that were paid make it known; one of them three times does not.
    for _ in 0..3 {
        let mut order = world.order();
        order.mode = VerificationMode::Proof;
        let job = world.submit("alice", order);
        let task = world.work(job);
        world.decide(&task, Outcome::LeaseAccepted);
    }
    let paid = &world.state.model(&MODEL).unwrap().owners_paid;
    assert!(!paid.is_empty() && paid.len() < 3, "{paid:?}");
}

#[test]
fn a_wrong_result_loses_everything_on_any_model() {
    let mut world = with(Parameters {
        owners_paid_min: 3,
        ..genesis().parameters
    });
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    let burned = world.state.totals().burned;
    world.decide(&task, crate::world::rejected());
    let lost = world.state.totals().burned.checked_sub(burned);
    // And what it prepaid for gas.
    assert_eq!(lost, tgrid(500).checked_add(lease_fee()));
}

#[test]
fn a_gang_member_is_paid_for_its_part_and_not_for_its_start() {
    let mut world = World::new();
    for name in ["cheap", "middle"] {
        world.post(name, terms(30));
    }
    let mut order = world.order();
    order.needs.gang = 2;
    order.mode = VerificationMode::None;
    let job = world.submit("alice", order);
    let lead = world.lease(job).clone();
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    let name = |provider| {
        ["cheap", "middle"]
            .into_iter()
            .find(|it| address(it) == provider)
    };
    let leads = name(lead.provider).unwrap();
    let follows = name(member.provider).unwrap();
    assert_eq!(
        world.refusal(follows, part(member.id)).code(),
        "TG-LED-053",
        "not before it runs"
    );
    world.send(leads, Transaction::StartLease { lease: lead.id });
    if follows != leads || member.started_at().is_none() {
        world.send(follows, Transaction::StartLease { lease: member.id });
    }
    // The lead cannot be quick and leave the member without pay.
    assert_eq!(
        world.refusal(leads, commit(lead.id)),
        TransactionError::PartMissing { member: member.id }
    );
    assert_eq!(
        world.refusal(leads, part(lead.id)),
        TransactionError::NotGangMember { lease: lead.id }
    );
    // A member that does nothing is the one that is late.
    world.wait_until(lead.deadline.get() + 1);
    let ended = |id| world.state.lease(&id).unwrap().end();
    assert_eq!(ended(member.id), Some(&LeaseEnd::Late(LatePhase::Running)));
    assert_eq!(ended(lead.id), Some(&LeaseEnd::Released));
    assert_eq!(world.job(job).end(), None::<EndReason>);
}

#[test]
fn a_provider_is_back_when_its_failures_are_forgotten_without_working() {
    let mut world = World::with_offers();
    for _ in 0..8 {
        let job = world.submit("alice", world.order());
        if world.holder(job) == "cheap" {
            let lease = world.lease(job).clone();
            world.send("cheap", Transaction::StartLease { lease: lease.id });
            world.wait_until(lease.deadline.get() + 1);
        }
        world.send("alice", Transaction::CancelJob { job });
        world.wait_until(world.time + 11_000);
    }
    let class = tg_types::JobClass::Inference;
    let stake = world.state.parameters().reputation_stake;
    let worst = world.state.provider(&address("cheap")).unwrap().clone();
    let now = worst.reputation_with(class).failure_ppm(tgrid(500), stake);
    // Nothing happens to it for many epochs.
    let later = worst.at_epoch(worst.decayed_to + 64);
    let then = later.reputation_with(class).failure_ppm(tgrid(500), stake);
    assert!(then < now, "{now} {then}");
    assert!(!later.is_removed(class, tgrid(500), stake));
}

#[test]
fn a_deadline_with_no_time_to_hand_in_costs_no_collateral() {
    // It declares 0.5 s; three transactions may wait for f + 1 leaders each, 1.8 s in this network.
    for (milliseconds, is_tight) in [(2_200, true), (2_400, false)] {
        let mut world = World::with_offers();
        let mut order = world.order();
        order.deadline = TimestampMs::new(world.time + TICK + milliseconds);
        let job = world.submit("mallory", order);
        let (name, lease) = (world.holder(job), world.lease(job).clone());
        world.send(name, Transaction::StartLease { lease: lease.id });
        let before = world.balance(name);
        // A leader of mallory's leaves the receipt out until it is too late.
        world.wait_until(lease.deadline.get() + 1);
        let ended = world.state.lease(&lease.id).unwrap();
        assert_eq!(ended.end(), Some(&LeaseEnd::Late(LatePhase::Running)));
        let back = world.balance(name).checked_sub(before).unwrap();
        let lost = lease.collateral.checked_sub(back).unwrap();
        let most = match is_tight {
            true => lease_fee().saturating_mul(10),
            false => lease.collateral,
        };
        assert_eq!(lost, most, "{milliseconds}");
    }
}

#[test]
fn an_order_that_pushes_others_out_and_is_taken_back_pays_for_their_work() {
    for cancels_early in [true, false] {
        let mut world = World::new();
        world.post(
            "cheap",
            crate::lanes::gpu_terms(tg_types::GpuModel::T4, 1, 10),
        );
        let spot = tg_types::JobNeeds {
            preemptible: true,
            tier: tg_types::CapacityTier::Spot,
            ..crate::lanes::gpu_needs(1, 500)
        };
        let victim = world.submit("alice", world.order_for(spot));
        let lease = world.live(victim);
        world.send("cheap", Transaction::StartLease { lease: lease.id });
        world.wait_until(world.time + 200_000);
        let urgent = tg_types::JobNeeds {
            priority: 2,
            ..crate::lanes::gpu_needs(1, 60)
        };
        let job = world.submit("mallory", world.order_for(urgent));
        let told = world.live(victim).preemption.unwrap();
        let (provider, requestor) = (world.balance("cheap"), world.balance("mallory"));
        if cancels_early {
            world.send("mallory", Transaction::CancelJob { job });
            world.wait_until(told.at.get() + 1);
            // Nobody waits for its place any more: it goes on.
            assert_eq!(world.live(victim).id, lease.id);
            assert_eq!(world.live(victim).preemption, None);
            assert_eq!(world.balance("cheap"), provider);
            continue;
        }
        world.wait_until(told.at.get() + 1);
        let owed = world.job(job).owed[0].amount;
        assert!(owed > tgrid(200), "{owed}");
        world.send("mallory", Transaction::CancelJob { job });
        assert_eq!(world.job(job).settlement().unwrap().refund, {
            let escrow = tgrid(10_000);
            escrow
                .checked_sub(owed.saturating_add(lease_fee()))
                .unwrap()
        });
        let gas = fee(TransactionKind::CancelJob);
        let back = tgrid(10_000).saturating_sub(owed.saturating_add(lease_fee()));
        let expected = requestor.saturating_add(back).checked_sub(gas);
        assert_eq!(Some(world.balance("mallory")), expected);
    }
}

#[test]
fn a_bid_opens_though_validators_lost_the_files_of_its_model_meanwhile() {
    let mut world = with(Parameters {
        storage: StorageRule::Stated,
        auction_slot: DurationMs::from_secs(20),
        ..genesis().parameters
    });
    world.next_slot();
    let job = ready(&mut world);
    let lease = world.lease(job).id;
    let reason = DeclineReason::ModelMissing;
    let sealed = world.bid("alice", 1, gpu_needs(1, 10), tgrid(500));
    world.send("cheap", Transaction::DeclineLease { lease, reason });
    miss(&mut world, 0..3, MODEL);
    world.next_slot();
    let order = world.order();
    let refusal = world.refusal("alice", Transaction::SubmitJob { order });
    assert_eq!(refusal.code(), "TG-LED-095");
    let bid = sealed.0;
    let deposit = world.state.bid(&bid).unwrap().deposit;
    assert!(!deposit.is_zero());
    let opened = world.reveal("alice", sealed);
    // The deposit came back, and the job waits until the files are there again.
    assert!(world.state.bid(&bid).is_none());
    assert_eq!(world.job(opened).state(), JobState::Submitted);
    hold(&mut world, 0..3, opened);
    assert_eq!(world.job(opened).state(), JobState::Submitted);
    hold(&mut world, 0..3, MODEL);
    assert_eq!(world.job(opened).state(), JobState::Queued);
}

#[test]
fn nobody_makes_room_for_an_order_whose_deadline_passes_meanwhile() {
    let mut world = World::new();
    world.post(
        "cheap",
        crate::lanes::gpu_terms(tg_types::GpuModel::T4, 1, 10),
    );
    let spot = tg_types::JobNeeds {
        preemptible: true,
        tier: tg_types::CapacityTier::Spot,
        ..crate::lanes::gpu_needs(1, 500)
    };
    let victim = world.submit("alice", world.order_for(spot));
    let lease = world.live(victim).id;
    world.send("cheap", Transaction::StartLease { lease });
    let urgent = tg_types::JobNeeds {
        priority: 2,
        ..crate::lanes::gpu_needs(1, 60)
    };
    let mut order = world.order_for(urgent);
    // Enough for the job, and not for the grace before it.
    order.deadline = tg_types::TimestampMs::new(world.time + TICK + 63_000);
    let job = world.submit("mallory", order);
    world.wait_until(world.time + 70_000);
    assert_eq!(world.job(job).end(), Some(EndReason::NoProviderInTime));
    assert_eq!(world.live(victim).id, lease);
    assert_eq!(world.live(victim).preemption, None);
}

#[test]
fn whoever_underbids_and_declines_pays_by_the_least_collateral_and_not_by_its_price() {
    let mut world = World::with_offers();
    world.post("mallory", terms(1));
    let job = world.submit("alice", world.order());
    assert_eq!(world.holder(job), "mallory");
    let lease = world.lease(job).clone();
    let burned = world.state.totals().burned;
    world.wait_until(lease.start_by.get() + 1);
    let end = LeaseEnd::Abandoned(AbandonedBecause::NotStarted);
    assert_eq!(world.state.lease(&lease.id).unwrap().end(), Some(&end));
    // The least collateral and the gas, though its own price was a tenth of that.
    let lost = world.state.totals().burned.checked_sub(burned);
    assert_eq!(lost, tgrid(10).checked_add(lease_fee()));
}

/// Declines the last lease of a job after six seconds; what that burns.
fn declined_after_six_seconds(world: &mut World, job: JobId) -> Amount {
    let (name, lease) = (world.holder(job), world.lease(job).clone());
    world.time = lease.matched_at.get() + 6_000 - TICK;
    let decline = Transaction::DeclineLease {
        lease: lease.id,
        reason: DeclineReason::Unwilling,
    };
    let events = world.send(name, decline);
    let forfeited = events.into_iter().find_map(|event| match event {
        Event::Forfeited {
            lease: of, amount, ..
        } if of == lease.id => Some(amount),
        _ => None,
    });
    forfeited.unwrap()
}

/// Six of the ten seconds in which it had to start, of ten times what it asked and not of what its requestor has back.
#[test]
fn a_maximum_price_that_comes_back_burns_no_collateral_of_those_who_decline() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.max_price = Amount::from_tgrid(30);
    let job = world.submit("mallory", order);
    let most = world.lease(job).price.saturating_mul(6);
    assert_eq!(declined_after_six_seconds(&mut world, job), most);

    // Nor does one that was raised since.
    let mut world = World::with_offers();
    let job = world.submit("mallory", world.order());
    let most = world.lease(job).price.saturating_mul(6);
    let raise = Transaction::RaiseJob {
        job,
        max_price: Amount::from_tgrid(30),
        max_attempts: 3,
    };
    world.send("mallory", raise);
    assert_eq!(declined_after_six_seconds(&mut world, job), most);
}

/// Stops: a model which nobody pulls in time, since declining it cost more than to start and to do nothing.
#[test]
fn to_decline_an_unknown_model_costs_no_more_than_to_fail_it() {
    let mut world = with(Parameters {
        owners_paid_min: 3,
        ..genesis().parameters
    });
    let mut order = world.order();
    order.max_price = Amount::from_tgrid(30);
    let job = world.submit("mallory", order);
    let (at_risk, price) = (world.lease(job).at_risk, world.lease(job).price);
    assert_eq!(at_risk, lease_fee().saturating_mul(10));
    assert!(at_risk < price.saturating_mul(6));
    assert_eq!(declined_after_six_seconds(&mut world, job), at_risk);
}

#[test]
fn whoever_orders_much_holds_up_no_other_order_at_the_validators() {
    let mut world = stated();
    hold(&mut world, 0..4, MODEL);
    for _ in 0..30 {
        world.submit("mallory", world.order());
    }
    let first = world.submit("alice", world.order());
    let second = world.submit("alice", world.order());
    let tasks = world.state.storage_tasks(&address("validator 0"));
    let at = |job: JobId| {
        let mut subjects = tasks.iter().map(|it| it.subject);
        subjects.position(|it| it == job.into())
    };
    // After one order of mallory, and after two.
    assert_eq!((at(first), at(second)), (Some(1), Some(3)));
    assert_eq!(tasks.len(), 32);
}
