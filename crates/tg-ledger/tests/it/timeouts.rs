//! What the passing of time does.

use tg_ledger::{
    AbandonedBecause, EndReason, Event, JobState, LatePhase, LeaseEnd, ModelState, Outcome,
    RefusedBecause, TransactionError,
};
use tg_types::{Amount, JobOrder, TimestampMs, Transaction, TransactionKind, VerificationMode};

use crate::due::next_timeout;
use crate::world::{
    MODEL, TICK, World, address, commit, evidence, fee, lease_fee, register, tgrid,
};

#[test]
fn a_job_without_a_provider_expires_and_its_escrow_goes_back() {
    let mut world = World::new();
    let alice = world.balance("alice");
    let job = world.submit("alice", world.order());
    let deadline = world.job(job).order.deadline.get();
    assert_eq!(
        next_timeout(&world.state),
        Some(TimestampMs::new(deadline + 1))
    );
    world.wait_until(deadline);
    assert_eq!(world.job(job).state(), JobState::Queued);
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Expired);
    assert_eq!(world.job(job).end(), Some(EndReason::NoProviderInTime));
    assert_eq!(
        alice.checked_sub(world.balance("alice")),
        Some(fee(TransactionKind::SubmitJob))
    );
    assert_eq!(next_timeout(&world.state), None);
}

#[test]
fn a_lease_that_is_never_started_burns_what_its_time_was_worth() {
    let mut world = World::with_offers();
    let cheap = world.balance("cheap");
    let job = world.submit("alice", world.order());
    let first = world.lease(job).clone();
    world.wait_until(first.start_by.get());
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(
        next_timeout(&world.state),
        Some(TimestampMs::new(first.start_by.get() + 1))
    );
    let events = world.idle();
    let end = LeaseEnd::Abandoned(AbandonedBecause::NotStarted);
    assert_eq!(world.state.lease(&first.id).unwrap().end(), Some(&end));
    let amount = world.penalty(&first);
    assert_eq!(amount, world.job(job).order.max_price);
    assert!(events.contains(&Event::Forfeited {
        lease: first.id,
        job,
        provider: address("cheap"),
        amount,
    }));
    // The next provider has the job in the same block, and gains nothing by that.
    assert_eq!(world.holder(job), "middle");
    let middle = world.balance("middle");
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, tgrid(40));
    // Price and its own collateral; the gas of the lease was prepaid before.
    assert_eq!(
        world.balance("middle").checked_sub(middle),
        Some(tgrid(540))
    );
    // What it prepaid is lost too, though it used nothing of it.
    assert_eq!(
        cheap.checked_sub(world.balance("cheap")),
        amount.checked_add(lease_fee())
    );
    let cheap = world.state.provider(&address("cheap")).unwrap();
    assert_eq!(cheap.record.abandoned, 1);
}

#[test]
fn leases_are_late_without_receipt_and_without_evidence() {
    for phase in [LatePhase::Running, LatePhase::Committed] {
        let mut world = World::with_offers();
        let job = world.submit("alice", world.order());
        let lease = world.lease(job).clone();
        world.send("cheap", Transaction::StartLease { lease: lease.id });
        if phase == LatePhase::Committed {
            world.send("cheap", commit(lease.id));
        }
        // Three times 501 ms, and twenty seconds.
        assert_eq!(
            lease.deadline.saturating_since(lease.matched_at).get(),
            3 * 501 + 20_000
        );
        let burned = world.state.totals().burned;
        world.wait_until(lease.deadline.get() + 1);
        let ended = world.state.lease(&lease.id).unwrap();
        assert_eq!(ended.end(), Some(&LeaseEnd::Late(phase)));
        let lost = world.state.totals().burned.checked_sub(burned);
        assert_eq!(lost, tgrid(500).checked_add(lease_fee()));
        assert_eq!(world.holder(job), "middle");
        let late = world.state.provider(&address("cheap")).unwrap();
        assert_eq!(late.record.late, 1);
        // What comes now comes too late.
        assert_eq!(
            world.refusal("cheap", commit(lease.id)),
            TransactionError::LeaseEnded {
                lease: lease.id,
                end: "Late"
            }
        );
    }
}

#[test]
fn evidence_that_is_not_delivered_ends_the_lease() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    let lease = world.lease(job).clone();
    // The lease's own deadline does not count any more once the evidence is named.
    let due = lease.verify_by().unwrap().get();
    assert!(due > lease.deadline.get());
    world.wait_until(due);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    let burned = world.state.totals().burned;
    world.idle();
    let end = LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered);
    assert_eq!(world.state.lease(&lease.id).unwrap().end(), Some(&end));
    let lost = world.state.totals().burned.checked_sub(burned);
    assert_eq!(lost, tgrid(500).checked_add(lease_fee()));
    let proposed = world.block(vec![], vec![task.verdict(Outcome::LeaseAccepted)]);
    assert_eq!(proposed.refused_verdicts.len(), 1);
}

#[test]
fn leases_that_never_started_are_no_attempts_of_the_job() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.max_attempts = 1;
    let alice = world.balance("alice");
    let job = world.submit("alice", order);
    world.wait_until(world.lease(job).start_by.get() + 1);
    assert_eq!(
        (world.job(job).state(), world.job(job).declined),
        (JobState::Leased, 1)
    );
    // An attempt that began counts.
    let lease = world.lease(job).clone();
    world.send("middle", Transaction::StartLease { lease: lease.id });
    world.wait_until(lease.deadline.get() + 1);
    assert_eq!(world.job(job).state(), JobState::Refunded);
    assert_eq!(world.job(job).end(), Some(EndReason::AttemptsExhausted));
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.refund, tgrid(110));
    assert_eq!(
        alice.checked_sub(world.balance("alice")),
        Some(fee(TransactionKind::SubmitJob))
    );
}

#[test]
fn the_deadline_ends_a_job_after_a_failed_attempt() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.deadline = TimestampMs::new(world.time + 5_000);
    let job = world.submit("alice", order);
    assert_eq!(world.holder(job), "cheap");
    let deadline = world.job(job).order.deadline.get();
    // A lease never outlives its job.
    assert_eq!(world.lease(job).deadline.get(), deadline);
    assert_eq!(world.lease(job).start_by.get(), deadline);
    world.wait_until(deadline + 1);
    assert_eq!(world.job(job).state(), JobState::Refunded);
    assert_eq!(world.job(job).end(), Some(EndReason::DeadlinePassed));
}

#[test]
fn a_queued_job_with_a_failed_attempt_is_refunded_at_its_deadline() {
    let mut world = World::new();
    world.post("cheap", crate::world::terms(30));
    let job = world.submit("alice", world.order());
    let start_by = world.lease(job).start_by.get();
    world.wait_until(start_by + 1);
    assert_eq!(world.job(job).state(), JobState::Queued);
    let deadline = world.job(job).order.deadline.get();
    world.wait_until(deadline + 1);
    assert_eq!(world.job(job).end(), Some(EndReason::DeadlinePassed));
    assert_eq!(world.job(job).settlement().unwrap().burned, Amount::ZERO);
}

#[test]
fn evidence_named_in_time_is_judged_after_the_deadline() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.deadline = TimestampMs::new(world.time + 5_500);
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    world.send("cheap", evidence(lease));
    let task = world.task(lease);
    world.wait_until(world.job(job).order.deadline.get() + 2_000);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn a_rejection_after_the_deadline_refunds_in_the_same_block() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.deadline = TimestampMs::new(world.time + 5_500);
    let job = world.submit("alice", order);
    let task = world.work(job);
    world.wait_until(world.job(job).order.deadline.get() + 2_000);
    world.decide(&task, crate::world::rejected());
    assert_eq!(world.job(job).end(), Some(EndReason::DeadlinePassed));
    assert_eq!(world.states(job).last(), Some(&JobState::Refunded));
    assert_eq!(world.job(job).leases().len(), 1);
}

#[test]
fn a_model_that_is_not_delivered_is_refused() {
    let mut world = World::bare();
    world.send("bob", register());
    let due = next_timeout(&world.state).unwrap();
    world.wait_until(due.get());
    assert_eq!(
        world.state.model(&MODEL).unwrap().state,
        ModelState::Refused(RefusedBecause::NotDelivered)
    );
    assert_eq!(world.state.pending_evidence().count(), 0);
}

#[test]
fn lapses_suspend_for_less_than_lies() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).clone();
    world.send("cheap", Transaction::StartLease { lease: lease.id });
    world.wait_until(lease.deadline.get() + 1);
    let parameters = *world.state.parameters();
    let cheap = world.state.provider(&address("cheap")).unwrap();
    let until = world.now().saturating_add(parameters.suspension_lapsed);
    assert_eq!(cheap.suspended_until, until);
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    world.wait_until(until.get());
    let second = world.submit("alice", world.order());
    // Back in the market, but the lapse weighs: 30 + 0.4 * 100 against 40 + 0.2 * 100.
    assert_eq!(world.holder(second), "middle");
}

/// Validators that have many programs to run again need longer for one than its window: that is no fault of its provider's.
#[test]
fn a_program_that_waits_to_be_run_again_does_not_lapse() {
    let mut world = World::with_offers();
    let order = JobOrder {
        mode: VerificationMode::Recompute,
        ..world.order()
    };
    let job = world.submit("alice", order);
    let task = world.work(job);
    let lease = world.lease(job).clone();
    let due = lease.verify_by().unwrap().max(lease.deadline);
    world.wait_until(due.get() + 10 * TICK);
    assert_eq!(world.job(job).state(), JobState::Verifying);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
}
