//! The lease logic, step by step.

use tg_cuda::ExecutedOn;
use tg_sdk::dto::{CheckDto, DisputeDto, LeaseEndDto, SealingDto};
use tg_types::sealing::SEALING_KEY_BYTES;
use tg_types::{
    Address, Amount, DeclineReason, JobId, LeaseId, ModelId, OfferId, ProgramId, Receipt,
    SealingPublicKey, Tier,
};

use super::*;

const LATE: u64 = 100_000;

fn lease(state: JobStateDto) -> LeaseDto {
    LeaseDto {
        id: LeaseId::new([1; 32]),
        job: JobId::new([2; 32]),
        offer: OfferId::new([3; 32]),
        provider: Address::new([4; 20]),
        price: Amount::from_tgrid(1),
        collateral: Amount::from_tgrid(2),
        state,
        matched_ms: 1,
        begins_ms: 0,
        devices: vec![],
        gpu_milli: 0,
        lead: None,
        members: 0,
        started: state != JobStateDto::Leased,
        start_by_ms: 5_000,
        finish_by_ms: LATE,
        sealed: false,
        replicas: None,
        receipt: None,
        evidence: None,
        run_whole: false,
        meter: None,
        sealing: None,
        end: None,
        end_text: None,
        rejection: None,
        check: None,
    }
}

fn execution() -> Execution {
    Execution {
        receipt: Receipt {
            program: ProgramId::new([5; 32]),
            model: ModelId::new([6; 32]),
            input: Digest::new([7; 32]),
            output: Digest::new([8; 32]),
            trace: Digest::new([9; 32]),
            tier: Tier::Tgx1,
        },
        output: vec![1, 2, 3],
        on: ExecutedOn::Cpu,
    }
}

const EVIDENCE: Evidence = Evidence {
    digest: Digest::new([10; 32]),
    size: 99,
};

/// A lease whose model and input are pulled.
fn task(mode: ModeDto) -> LeaseTask {
    let mut task = LeaseTask::new(lease(JobStateDto::Leased), mode, 0);
    task.pulled();
    task
}

fn step(task: &LeaseTask, now: u64) -> Step {
    task.next(now, false)
}

fn execute(task: &mut LeaseTask, now: u64) {
    assert_eq!(step(task, now), Step::Begin(Stage::Execute));
    task.begun(Stage::Execute, now);
    assert_eq!(step(task, now), Step::Wait(u64::MAX));
    task.executed(execution(), 0);
}

/// Found by `tensorgrid sim --seed 62`: a claim of an endpoint that ended meanwhile was dropped, and the start that was sent
/// after it stood behind its place.
#[test]
fn what_is_lost_or_stands_behind_a_gap_is_sent_again_at_once() {
    let mut task = task(ModeDto::Proof);
    let at = 10_000;
    task.submitted(Message::Start, 7, at);
    assert!(task.waits_for_effect(at + 1));
    // It waits, and nothing before it is missing.
    task.told_nonce(8);
    assert_eq!(step(&task, at + 10), Step::Wait(at + RESEND_MS));
    for next in [6, 7] {
        task.submitted(Message::Start, 7, at + 20);
        task.told_nonce(next);
        assert!(!task.waits_for_effect(at + 30));
        assert_eq!(step(&task, at + 30), Step::Submit(Message::Start));
    }
    // Once: what is not taken again waits its time.
    task.refused(Message::Start, at + 40);
    task.told_nonce(6);
    assert_eq!(step(&task, at + 50), Step::Wait(at + 40 + RETRY_MS));
}

#[test]
fn a_proved_job_goes_through_every_step() {
    let mut task = task(ModeDto::Proof);
    assert_eq!(step(&task, 0), Step::Submit(Message::Start));
    task.submitted(Message::Start, 0, 0);
    assert_eq!(step(&task, 1), Step::Wait(RESEND_MS));
    task.seen(lease(JobStateDto::Running));
    execute(&mut task, 2);
    assert_eq!(step(&task, 3), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 3);
    assert_eq!(step(&task, 4), Step::Begin(Stage::Prove));
    task.begun(Stage::Prove, 4);
    task.seen(lease(JobStateDto::Committed));
    assert_eq!(step(&task, 5), Step::Wait(u64::MAX));
    task.proved(EVIDENCE, 5);
    assert_eq!(task.evidence(), Some(EVIDENCE));
    assert_eq!(step(&task, 6), Step::Submit(Message::Evidence));
    task.submitted(Message::Evidence, 0, 6);
    task.seen(lease(JobStateDto::Verifying));
    assert_eq!(step(&task, 7), Step::Wait(5 + STORE_AGAIN_MS));
    let ended = LeaseDto {
        end: Some(LeaseEndDto::Fulfilled),
        ..lease(JobStateDto::Paid)
    };
    task.seen(ended);
    assert_eq!(step(&task, 8), Step::Forget(StopReason::Ended));
}

#[test]
fn an_unverified_job_ends_with_the_commitment() {
    let mut task = task(ModeDto::None);
    task.seen(lease(JobStateDto::Running));
    execute(&mut task, 1);
    assert_eq!(step(&task, 2), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 2);
    assert_eq!(step(&task, 3), Step::Wait(2 + RESEND_MS));
    task.seen(lease(JobStateDto::Committed));
    assert_eq!(step(&task, 4), Step::Wait(u64::MAX));
}

#[test]
fn a_lost_transaction_is_sent_again() {
    let mut task = task(ModeDto::Proof);
    task.submitted(Message::Start, 0, 10);
    assert_eq!(step(&task, 9 + RESEND_MS), Step::Wait(10 + RESEND_MS));
    assert_eq!(step(&task, 10 + RESEND_MS), Step::Submit(Message::Start));
}

#[test]
fn a_refused_transaction_is_tried_again_soon() {
    let mut task = task(ModeDto::Proof);
    task.refused(Message::Start, 10_000);
    assert_eq!(step(&task, 10_000), Step::Wait(10_000 + RETRY_MS));
    assert_eq!(step(&task, 10_000 + RETRY_MS), Step::Submit(Message::Start));
}

#[test]
fn a_commitment_on_its_way_does_not_hold_the_next_message() {
    let mut task = task(ModeDto::Proof);
    task.seen(lease(JobStateDto::Running));
    execute(&mut task, 0);
    task.submitted(Message::Commit, 0, 1);
    task.begun(Stage::Prove, 1);
    task.proved(EVIDENCE, 5);
    assert_eq!(step(&task, 2), Step::Wait(1 + RESEND_MS));
    task.seen(lease(JobStateDto::Committed));
    assert_eq!(step(&task, 3), Step::Submit(Message::Evidence));
}

#[test]
fn failed_work_is_tried_again_with_growing_waits_and_then_left() {
    let mut task = task(ModeDto::Proof);
    task.seen(lease(JobStateDto::Running));
    let mut now = 0;
    for failures in 0..TRIES_MAX {
        assert_eq!(task.failures(), failures);
        assert_eq!(step(&task, now), Step::Begin(Stage::Execute));
        task.begun(Stage::Execute, now);
        task.failed(now, None);
        let wait = RETRY_MS << failures;
        if failures + 1 < TRIES_MAX {
            assert_eq!(step(&task, now), Step::Wait(now + wait));
        }
        now += wait;
    }
    assert_eq!(step(&task, now), Step::Forget(StopReason::Failed));
}

/// Stops: a provider that is started again loses all that it put up, as its gateway lacks the input for longer than it tries.
#[test]
fn what_is_committed_to_is_not_left_however_often_it_fails() {
    let sealed = LeaseDto {
        sealed: true,
        replicas: Some(ReplicasDto::Opening),
        ..lease(JobStateDto::Committed)
    };
    let sealed_early = LeaseDto {
        sealed: true,
        ..lease(JobStateDto::Running)
    };
    for (mode, owed) in [
        (ModeDto::Sync, sampled(JobStateDto::Committed, 0)),
        (ModeDto::Optimistic, sampled(JobStateDto::Committed, 0)),
        (ModeDto::Sync, sampled(JobStateDto::Verifying, 0)),
        (ModeDto::Replicate, sealed),
        (ModeDto::None, lease(JobStateDto::Delivering)),
        (ModeDto::Proof, lease(JobStateDto::Verifying)),
    ] {
        // After a restart.
        let mut task = LeaseTask::new(owed, mode, 0);
        let mut now = LATE;
        for _ in 0..3 * TRIES_MAX {
            assert_eq!(step(&task, now), Step::Begin(Stage::Execute), "{mode:?}");
            task.begun(Stage::Execute, now);
            task.failed(now, None);
            assert!(!task.gives_up());
            now += RETRY_MS << TRIES_MAX;
        }
    }
    // The others of the job have yet to seal, and its time is not over.
    let mut task = LeaseTask::new(sealed_early, ModeDto::Replicate, 0);
    for _ in 0..TRIES_MAX {
        task.failed(0, None);
    }
    assert!(!task.gives_up());
    assert!(matches!(step(&task, 1), Step::Wait(_)));
}

/// It was left after [`TRIES_MAX`] tries, which a gateway that is started again outlasts, and its collateral was lost.
#[test]
fn work_that_cannot_reach_the_grid_is_tried_as_long_as_there_is_time() {
    let mut task = task(ModeDto::Proof);
    task.seen(lease(JobStateDto::Running));
    let mut now = 0;
    for _ in 0..5 * TRIES_MAX {
        assert_eq!(step(&task, now), Step::Begin(Stage::Execute));
        task.begun(Stage::Execute, now);
        task.unreachable(now);
        assert_eq!(step(&task, now), Step::Wait(now + REACH_AGAIN_MS));
        assert_eq!(task.failures(), 0);
        now += REACH_AGAIN_MS;
        if now >= LATE {
            break;
        }
    }
    assert_eq!(step(&task, LATE), Step::Forget(StopReason::Late));
}

#[test]
fn an_agent_that_lost_its_memory_works_again() {
    let committed = lease(JobStateDto::Committed);
    let mut task = LeaseTask::new(committed, ModeDto::Proof, 0);
    execute(&mut task, 0);
    assert_eq!(step(&task, 1), Step::Begin(Stage::Prove));
}

#[test]
fn a_late_lease_is_left() {
    let mut task = task(ModeDto::Proof);
    assert_eq!(step(&task, LATE), Step::Forget(StopReason::Late));
    task.seen(lease(JobStateDto::Running));
    assert_eq!(step(&task, LATE), Step::Forget(StopReason::Late));
}

#[test]
fn a_closing_agent_starts_nothing_and_finishes_what_it_started() {
    let mut task = task(ModeDto::Proof);
    let decline = Message::Decline(DeclineReason::Unwilling);
    assert_eq!(task.next(0, true), Step::Submit(decline));
    let mut declined = task.clone();
    declined.submitted(decline, 0, 0);
    assert_eq!(declined.next(1, true), Step::Forget(StopReason::Declined));
    task.submitted(Message::Start, 0, 0);
    assert_eq!(task.next(0, true), Step::Wait(RESEND_MS));
    task.seen(lease(JobStateDto::Running));
    assert_eq!(task.next(0, true), Step::Begin(Stage::Execute));
}

#[test]
fn a_throttle_holds_the_last_message_back() {
    let mut task = LeaseTask::new(lease(JobStateDto::Running), ModeDto::Proof, 900);
    execute(&mut task, 100);
    assert_eq!(step(&task, 101), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 101);
    task.begun(Stage::Prove, 102);
    task.proved(EVIDENCE, 103);
    task.seen(lease(JobStateDto::Committed));
    assert_eq!(step(&task, 200), Step::Wait(1_000));
    assert_eq!(step(&task, 1_000), Step::Submit(Message::Evidence));

    let mut task = LeaseTask::new(lease(JobStateDto::Running), ModeDto::None, 900);
    execute(&mut task, 100);
    assert_eq!(step(&task, 101), Step::Wait(1_000));
    assert_eq!(step(&task, 1_000), Step::Submit(Message::Commit));
}

#[test]
fn what_cannot_be_pulled_is_declined_by_name_before_the_start() {
    let leased = LeaseDto {
        start_by_ms: 8_000,
        ..lease(JobStateDto::Leased)
    };
    let mut task = LeaseTask::new(leased, ModeDto::Proof, 0);
    let mut now = 0;
    for failures in 0..TRIES_MAX {
        assert_eq!(step(&task, now), Step::Begin(Stage::Pull));
        task.begun(Stage::Pull, now);
        task.failed(now, Some(DeclineReason::InputMissing));
        now += RETRY_MS << failures;
    }
    assert_eq!(step(&task, now), Step::Begin(Stage::Pull));
    now = 8_000 - DECLINE_BEFORE_MS;
    let decline = Message::Decline(DeclineReason::InputMissing);
    assert_eq!(step(&task, now), Step::Submit(decline));
    task.submitted(decline, 0, now);
    assert_eq!(step(&task, now), Step::Forget(StopReason::Declined));
}

/// Stops: a lease whose files come slowly is never started, which costs more than to say so.
#[test]
fn what_comes_too_slowly_is_declined_before_the_start_is_due() {
    let leased = LeaseDto {
        start_by_ms: 20_000,
        ..lease(JobStateDto::Leased)
    };
    let last = 20_000 - DECLINE_BEFORE_MS;
    let unwilling = Message::Decline(DeclineReason::Unwilling);
    let mut task = LeaseTask::new(leased.clone(), ModeDto::Proof, 0);
    task.begun(Stage::Pull, 10_000);
    assert_eq!(step(&task, 10_001), Step::Wait(last));
    assert_eq!(step(&task, last - 1), Step::Wait(last));
    assert_eq!(step(&task, last), Step::Submit(unwilling));
    // It came just in time.
    let mut pulled = task.clone();
    pulled.pulled();
    assert_eq!(step(&pulled, last), Step::Submit(Message::Start));
    // It could not be reached all the time, which is no failure.
    let mut away = LeaseTask::new(leased.clone(), ModeDto::Proof, 0);
    away.begun(Stage::Pull, 10_000);
    away.unreachable(last - 10);
    assert_eq!(step(&away, last - 5), Step::Wait(last));
    assert_eq!(step(&away, last), Step::Submit(unwilling));
    // It was not found before: the name of that is kept.
    let mut missing = LeaseTask::new(leased.clone(), ModeDto::Proof, 0);
    missing.begun(Stage::Pull, 10_000);
    missing.failed(10_100, Some(DeclineReason::ModelMissing));
    missing.begun(Stage::Pull, 10_400);
    let decline = Message::Decline(DeclineReason::ModelMissing);
    assert_eq!(step(&missing, last), Step::Submit(decline));
    // An agent that was started again just before looks for a while.
    let mut again = LeaseTask::new(leased, ModeDto::Proof, 0);
    assert_eq!(step(&again, 18_000), Step::Begin(Stage::Pull));
    again.begun(Stage::Pull, 18_000);
    assert_eq!(step(&again, 18_001), Step::Wait(19_000));
    assert_eq!(step(&again, 19_000), Step::Submit(unwilling));
}

#[test]
fn nothing_starts_before_model_and_input_are_at_hand() {
    let mut task = LeaseTask::new(lease(JobStateDto::Leased), ModeDto::Proof, 0);
    assert_eq!(step(&task, 0), Step::Begin(Stage::Pull));
    task.begun(Stage::Pull, 0);
    assert_eq!(step(&task, 1), Step::Wait(PULL_LEAST_MS));
    task.pulled();
    assert_eq!(step(&task, 2), Step::Submit(Message::Start));
}

#[test]
fn a_member_of_a_gang_commits_to_its_part_and_proves_nothing() {
    let member = |state| LeaseDto {
        lead: Some(LeaseId::new([11; 32])),
        ..lease(state)
    };
    let mut task = LeaseTask::new(member(JobStateDto::Running), ModeDto::Proof, 0);
    execute(&mut task, 1);
    assert_eq!(step(&task, 2), Step::Submit(Message::Part));
    task.submitted(Message::Part, 0, 2);
    let committed = LeaseDto {
        receipt: Some((&execution().receipt).into()),
        ..member(JobStateDto::Running)
    };
    task.seen(committed);
    assert_eq!(step(&task, 3), Step::Wait(u64::MAX));
}

/// Found by `tensorgrid sim --seed 5`: the validator that the agent asked was cut off from the others for three seconds, the
/// agent declined after two, and paid for it, as the others held the input.
#[test]
fn what_is_missing_for_a_while_is_waited_for_as_long_as_there_is_time_to_start() {
    let leased = LeaseDto {
        start_by_ms: 20_000,
        ..lease(JobStateDto::Leased)
    };
    let mut task = LeaseTask::new(leased, ModeDto::Proof, 0);
    let missing = Some(DeclineReason::InputMissing);
    let mut now = 0;
    let mut tries = 0;
    while now < 10_000 {
        match step(&task, now) {
            Step::Begin(Stage::Pull) => {
                task.begun(Stage::Pull, now);
                task.failed(now, missing);
                tries += 1;
            }
            Step::Wait(until) => now = until,
            other => panic!("{other:?} at {now} ms, after {tries} tries"),
        }
    }
    assert!((TRIES_MAX + 2..=40).contains(&tries), "{tries} tries");
    // Now it is there.
    let mut served = task.clone();
    served.begun(Stage::Pull, now);
    served.pulled();
    assert_eq!(step(&served, now), Step::Submit(Message::Start));
    // It never comes.
    let last = 20_000 - DECLINE_BEFORE_MS;
    let decline = Message::Decline(DeclineReason::InputMissing);
    assert_eq!(step(&task, last), Step::Submit(decline));
}

#[test]
fn a_proof_is_stored_again_until_it_is_judged() {
    let mut task = LeaseTask::new(lease(JobStateDto::Committed), ModeDto::Proof, 0);
    execute(&mut task, 0);
    task.begun(Stage::Prove, 1);
    task.proved(EVIDENCE, 2);
    task.seen(lease(JobStateDto::Verifying));
    assert_eq!(step(&task, 3), Step::Wait(2 + STORE_AGAIN_MS));
    let again = 2 + STORE_AGAIN_MS;
    assert_eq!(step(&task, again), Step::Begin(Stage::Prove));
    task.begun(Stage::Prove, again);
    task.stored(again);
    assert_eq!(step(&task, again), Step::Wait(again + STORE_AGAIN_MS));
    // After a restart it is made again, and stored if it has the name that validators look for.
    let named = |byte| LeaseDto {
        evidence: Some(Digest::new([byte; 32])),
        ..lease(JobStateDto::Verifying)
    };
    for (mode, byte) in [
        (ModeDto::Proof, 10),
        (ModeDto::Proof, 11),
        (ModeDto::Replicate, 10),
    ] {
        let mut task = LeaseTask::new(named(byte), mode, 0);
        execute(&mut task, 0);
        assert_eq!(step(&task, 1), Step::Begin(Stage::Prove));
        task.begun(Stage::Prove, 1);
        task.proved(EVIDENCE, 2);
        let until = match byte {
            10 => 2 + STORE_AGAIN_MS,
            _ => u64::MAX,
        };
        assert_eq!(step(&task, 3), Step::Wait(until));
    }
    // What is executed by every validator has no evidence that could be lost.
    let mut task = LeaseTask::new(lease(JobStateDto::Committed), ModeDto::Recompute, 0);
    execute(&mut task, 0);
    task.seen(lease(JobStateDto::Verifying));
    assert_eq!(step(&task, LATE), Step::Wait(u64::MAX));
}

/// A lease of mode sync whose tiles are drawn, before a committee is or after.
fn sampled(state: JobStateDto, members: u16) -> LeaseDto {
    LeaseDto {
        check: Some(CheckDto {
            height: 7,
            seed: Some(Digest::new([11; 32])),
            stage: "the provider opens the drawn tiles".to_owned(),
            committees: u16::from(members > 0),
            members,
            seats: 4,
            sealed: 0,
            right: 0,
            dispute: None,
        }),
        ..lease(state)
    }
}

#[test]
fn an_opening_is_stored_again_until_a_committee_is_drawn() {
    let mut task = LeaseTask::new(sampled(JobStateDto::Committed, 0), ModeDto::Sync, 0);
    execute(&mut task, 0);
    assert_eq!(step(&task, 1), Step::Begin(Stage::Prove));
    task.begun(Stage::Prove, 1);
    task.proved(EVIDENCE, 2);
    assert_eq!(step(&task, 2), Step::Submit(Message::Evidence));
    task.submitted(Message::Evidence, 0, 2);
    task.seen(sampled(JobStateDto::Verifying, 0));
    // Whoever took it may have lost it, and the deadline of the job does not count any more.
    assert_eq!(step(&task, 3), Step::Wait(2 + STORE_AGAIN_MS));
    assert_eq!(step(&task, LATE), Step::Begin(Stage::Prove));
    task.begun(Stage::Prove, LATE);
    task.proved(EVIDENCE, LATE);
    assert_eq!(step(&task, LATE), Step::Wait(LATE + STORE_AGAIN_MS));
    task.seen(sampled(JobStateDto::Verifying, 4));
    assert_eq!(step(&task, 2 * LATE), Step::Wait(u64::MAX));

    // An agent that lost its memory opens the same.
    let task = LeaseTask::new(sampled(JobStateDto::Verifying, 0), ModeDto::Sync, 0);
    assert_eq!(step(&task, 1), Step::Begin(Stage::Execute));
}

#[test]
fn of_a_run_that_is_repeated_whole_the_receipt_is_all_and_waits_for_a_throttle() {
    let of = |it: LeaseDto| LeaseDto {
        run_whole: true,
        ..it
    };
    let mut task = LeaseTask::new(of(lease(JobStateDto::Running)), ModeDto::Sync, 5_000);
    task.pulled();
    execute(&mut task, 10);
    assert_eq!(step(&task, 20), Step::Wait(5_010));
    assert_eq!(step(&task, 5_010), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 5_010);
    // Before the seed, after it, and when the committee is drawn; nor has an agent to do anything that lost its memory.
    let seedless = CheckDto {
        seed: None,
        ..sampled(JobStateDto::Verifying, 0)
            .check
            .expect("a sampled result is checked")
    };
    for check in [
        Some(seedless),
        sampled(JobStateDto::Verifying, 0).check,
        sampled(JobStateDto::Verifying, 4).check,
    ] {
        let seen = of(LeaseDto {
            check,
            ..lease(JobStateDto::Verifying)
        });
        task.seen(seen.clone());
        for now in [5_020, 2 * LATE] {
            assert_eq!(step(&task, now), Step::Wait(u64::MAX));
            let fresh = LeaseTask::new(seen.clone(), ModeDto::Sync, 0);
            assert_eq!(step(&fresh, now), Step::Wait(u64::MAX));
        }
    }
    // Found right by fewer than n - f: the others must find its answer, or what is at risk is lost.
    let delivering = of(LeaseDto {
        check: sampled(JobStateDto::Verifying, 16).check,
        ..lease(JobStateDto::Delivering)
    });
    task.seen(delivering.clone());
    assert_eq!(step(&task, 2 * LATE), Step::Begin(Stage::Deliver));
    let fresh = LeaseTask::new(delivering, ModeDto::Sync, 0);
    assert_eq!(step(&fresh, 2 * LATE), Step::Begin(Stage::Execute));
}

#[test]
fn an_endpoint_is_served_until_its_end_and_claims_now_and_then() {
    let mut task = LeaseTask::new(lease(JobStateDto::Leased), ModeDto::Endpoint, 0);
    assert_eq!(task.next(1_000, false), Step::Begin(Stage::Pull));
    task.begun(Stage::Pull, 1_000);
    task.pulled();
    assert_eq!(task.next(1_100, false), Step::Submit(Message::Start));
    task.submitted(Message::Start, 0, 1_100);
    let mut running = lease(JobStateDto::Running);
    running.started = true;
    task.seen(running.clone());
    assert_eq!(task.next(1_500, false), Step::Begin(Stage::Serve));
    task.begun(Stage::Serve, 1_500);
    assert_eq!(task.next(2_000, false), Step::Wait(u64::MAX));
    // A claim is sent once; one that is lost is made up for by the next.
    task.claim_wanted();
    assert_eq!(task.next(2_000, false), Step::Submit(Message::Claim));
    task.submitted(Message::Claim, 0, 2_000);
    assert_eq!(task.next(2_100, false), Step::Wait(u64::MAX));
    // The last one is sent until the lease has ended, past its deadline too.
    task.served();
    let late = running.finish_by_ms + 10;
    assert_eq!(task.next(late, false), Step::Submit(Message::End));
    task.submitted(Message::End, 0, late);
    assert_eq!(task.next(late + 1, false), Step::Wait(late + RESEND_MS));
    let again = late + RESEND_MS;
    assert_eq!(task.next(again, false), Step::Submit(Message::End));
    running.end = Some(tg_sdk::dto::LeaseEndDto::Fulfilled);
    task.seen(running);
    assert_eq!(task.next(again, false), Step::Forget(StopReason::Ended));
}

#[test]
fn a_member_seals_what_it_found_and_opens_it_once_all_have() {
    let salt = Digest::new([12; 32]);
    for lead in [None, Some(LeaseId::new([11; 32]))] {
        let of = |state, sealed, replicas| LeaseDto {
            lead,
            sealed,
            replicas,
            ..lease(state)
        };
        let running = of(JobStateDto::Running, false, None);
        let mut task = LeaseTask::new(running, ModeDto::Replicate, 0);
        assert_eq!(task.sealing(Message::Seal, salt), None);
        assert_eq!(task.next(10, false), Step::Begin(Stage::Execute));
        task.begun(Stage::Execute, 10);
        task.executed(execution(), 0);
        assert_eq!(task.next(20, false), Step::Submit(Message::Seal));
        let sealed = task.sealing(Message::Seal, salt).expect("it was executed");
        task.submitted(Message::Seal, 0, 20);
        assert!(matches!(task.next(21, false), Step::Wait(_)));
        task.seen(of(JobStateDto::Running, true, None));
        assert_eq!(task.next(30, false), Step::Wait(u64::MAX));
        // Past its deadline too: the opening has a window of its own.
        task.seen(of(JobStateDto::Committed, true, Some(ReplicasDto::Opening)));
        assert_eq!(task.next(LATE + 1, false), Step::Submit(Message::Open));
        let opened = task.sealing(Message::Open, salt).expect("it was executed");
        let (Transaction::SealResult { seal, .. }, Transaction::OpenResult { receipt, .. }) =
            (sealed, opened)
        else {
            panic!("a seal and what it seals");
        };
        assert_eq!(seal, result_seal(&task.lease().id, &receipt, &salt));
        // All found the same: the one that leads delivers the answer.
        task.seen(of(
            JobStateDto::Committed,
            false,
            Some(ReplicasDto::Opening),
        ));
        assert_eq!(task.next(LATE + 2, false), Step::Wait(u64::MAX));
        task.seen(of(JobStateDto::Committed, false, Some(ReplicasDto::Agreed)));
        let next = task.next(LATE + 3, false);
        match lead {
            Some(_) => assert_eq!(next, Step::Wait(u64::MAX)),
            None => {
                assert_eq!(next, Step::Begin(Stage::Prove));
                task.begun(Stage::Prove, LATE + 3);
                task.proved(EVIDENCE, LATE + 4);
                let next = task.next(LATE + 5, false);
                assert_eq!(next, Step::Submit(Message::Evidence));
            }
        }
        // They differ: validators run it.
        task.seen(of(JobStateDto::Disputed, false, Some(ReplicasDto::Differ)));
        assert_eq!(task.next(LATE + 6, false), Step::Wait(u64::MAX));
    }
}

#[test]
fn a_member_opens_what_it_sealed_after_a_restart() {
    let opening = LeaseDto {
        sealed: true,
        replicas: Some(ReplicasDto::Opening),
        ..lease(JobStateDto::Committed)
    };
    let mut task = LeaseTask::new(opening, ModeDto::Replicate, 0);
    assert_eq!(task.next(10, false), Step::Begin(Stage::Execute));
    task.begun(Stage::Execute, 10);
    task.executed(execution(), 0);
    assert_eq!(task.next(20, false), Step::Submit(Message::Open));
}

/// A lease whose run somebody accuses: whose turn it is, and which claim is to be answered.
fn disputed(turn: DisputeTurnDto, waits_for_file: bool, claim: Option<Digest>) -> LeaseDto {
    let mut lease = sampled(JobStateDto::Disputed, 1);
    if let Some(check) = &mut lease.check {
        check.dispute = Some(DisputeDto {
            accuser: tg_types::Address::new([9; 20]),
            turn,
            waits_for_file,
            until_ms: 0,
            claim,
            answer: None,
            waiting: 0,
        });
    }
    lease
}

#[test]
fn a_claim_is_answered_and_stored_until_validators_hold_it_and_the_next_one_too() {
    let (first, second) = (Digest::new([1; 32]), Digest::new([2; 32]));
    let mut task = LeaseTask::new(sampled(JobStateDto::Committed, 0), ModeDto::Optimistic, 0);
    execute(&mut task, 0);
    task.seen(disputed(DisputeTurnDto::Accuser, true, None));
    assert_eq!(step(&task, 10), Step::Wait(u64::MAX));
    task.seen(disputed(DisputeTurnDto::Accuser, false, Some(first)));
    assert_eq!(step(&task, 20), Step::Wait(u64::MAX));
    let answer = |byte| Evidence {
        digest: Digest::new([byte; 32]),
        size: 4,
    };
    for (claim, byte) in [(first, 5), (second, 6)] {
        task.seen(disputed(DisputeTurnDto::Provider, true, Some(claim)));
        assert_eq!(step(&task, 30), Step::Begin(Stage::Refute));
        task.begun(Stage::Refute, 30);
        assert_eq!(task.claim(), Some(claim));
        assert_eq!(task.refutation(), None);
        task.refuted(claim, answer(byte), 40);
        assert_eq!(task.refutation(), Some(answer(byte)));
        assert_eq!(step(&task, 50), Step::Submit(Message::Argue));
        task.submitted(Message::Argue, 3, 50);
        // Named: until it is held it is stored again.
        task.seen(disputed(DisputeTurnDto::Provider, false, Some(claim)));
        assert_eq!(step(&task, 60), Step::Wait(40 + STORE_AGAIN_MS));
        let later = 40 + STORE_AGAIN_MS;
        assert_eq!(step(&task, later), Step::Begin(Stage::Refute));
        task.seen(disputed(DisputeTurnDto::Validators, false, Some(claim)));
        assert_eq!(step(&task, later), Step::Wait(u64::MAX));
        task.told_nonce(9);
        task.submitted(Message::Start, 4, 0);
    }
}

/// The claim may come late to whoever is asked for it.
#[test]
fn a_claim_that_is_not_there_yet_is_asked_for_until_it_is() {
    let claim = Digest::new([1; 32]);
    let mut task = LeaseTask::new(sampled(JobStateDto::Committed, 0), ModeDto::Optimistic, 0);
    execute(&mut task, 0);
    task.seen(disputed(DisputeTurnDto::Provider, true, Some(claim)));
    let mut now = 0;
    for _ in 0..3 * TRIES_MAX {
        now += RETRY_MS << TRIES_MAX;
        assert_eq!(step(&task, now), Step::Begin(Stage::Refute));
        task.begun(Stage::Refute, now);
        task.failed(now, None);
    }
}

/// After a restart it runs the model again first.
#[test]
fn a_claim_is_answered_after_a_restart() {
    let claim = Digest::new([1; 32]);
    let lease = disputed(DisputeTurnDto::Provider, true, Some(claim));
    let task = LeaseTask::new(lease, ModeDto::Optimistic, 0);
    assert_eq!(step(&task, 0), Step::Begin(Stage::Execute));
}

/// Stops: nobody is paid for an answer that the one validator lost which took it.
#[test]
fn an_answer_that_nobody_checks_is_stored_until_it_is_paid() {
    let mut task = task(ModeDto::None);
    task.seen(lease(JobStateDto::Running));
    execute(&mut task, 2);
    assert_eq!(step(&task, 3), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 3);
    task.seen(lease(JobStateDto::Delivering));
    assert_eq!(step(&task, 4), Step::Wait(STORE_AGAIN_MS));
    assert_eq!(step(&task, STORE_AGAIN_MS), Step::Begin(Stage::Deliver));
    task.begun(Stage::Deliver, STORE_AGAIN_MS);
    assert_eq!(step(&task, STORE_AGAIN_MS + 1), Step::Wait(u64::MAX));
    task.stored(STORE_AGAIN_MS + 5);
    assert_eq!(
        step(&task, STORE_AGAIN_MS + 6),
        Step::Wait(2 * STORE_AGAIN_MS + 5)
    );
    // The time of the lease is over, and that of the delivery is not.
    let late = lease(JobStateDto::Delivering).finish_by_ms;
    assert_eq!(step(&task, late), Step::Begin(Stage::Deliver));
    // After a restart the answer is made again.
    let mut again = LeaseTask::new(lease(JobStateDto::Delivering), ModeDto::None, 0);
    assert_eq!(step(&again, 7), Step::Begin(Stage::Execute));
    again.begun(Stage::Execute, 7);
    again.executed(execution(), 8);
    assert_eq!(step(&again, 9), Step::Wait(8 + STORE_AGAIN_MS));
    let ended = LeaseDto {
        end: Some(LeaseEndDto::Fulfilled),
        ..lease(JobStateDto::Paid)
    };
    again.seen(ended);
    assert_eq!(step(&again, 10), Step::Forget(StopReason::Ended));
}

/// A lease of a sealed job.
fn of_sealed(state: JobStateDto, stage: SealingStageDto, may_reveal: bool) -> LeaseDto {
    let key = SealingPublicKey::new(&[1; SEALING_KEY_BYTES]);
    LeaseDto {
        sealing: Some(SealingDto {
            key: key.expect("its coefficients are in range"),
            stage,
            grant: None,
            may_reveal,
            until_ms: None,
        }),
        ..lease(state)
    }
}

#[test]
fn a_sealed_job_is_pulled_once_its_key_is_granted() {
    use SealingStageDto::{AwaitsKey, Granted, Questioned, Revealed};
    let waits = of_sealed(JobStateDto::Leased, AwaitsKey, false);
    let mut task = LeaseTask::new(waits, ModeDto::Sealed, 0);
    assert_eq!(step(&task, 1), Step::Wait(u64::MAX));
    // Whoever stops takes on nothing, key or not.
    let unwilling = Message::Decline(DeclineReason::Unwilling);
    assert_eq!(task.next(1, true), Step::Submit(unwilling));
    task.seen(of_sealed(JobStateDto::Leased, Granted, false));
    assert_eq!(step(&task, 2), Step::Begin(Stage::Pull));
    task.begun(Stage::Pull, 2);
    task.pulled();
    assert_eq!(step(&task, 3), Step::Submit(Message::Start));

    // A key that opens nothing is declined at once, once.
    let granted = of_sealed(JobStateDto::Leased, Granted, false);
    let mut task = LeaseTask::new(granted, ModeDto::Sealed, 0);
    task.begun(Stage::Pull, 2);
    task.failed(3, Some(DeclineReason::Key));
    let decline = Message::Decline(DeclineReason::Key);
    assert_eq!(step(&task, 4), Step::Submit(decline));
    task.submitted(decline, 0, 4);
    assert_eq!(step(&task, 5), Step::Forget(StopReason::Declined));
    for stage in [Questioned, Revealed] {
        task.seen(of_sealed(JobStateDto::Leased, stage, true));
        assert_eq!(step(&task, 4 + RESEND_MS), Step::Wait(u64::MAX));
    }
}

#[test]
fn a_sealed_answer_is_stored_again_until_it_may_be_doubted() {
    use SealingStageDto::{Granted, Revealed};
    let running = of_sealed(JobStateDto::Running, Granted, false);
    let mut task = LeaseTask::new(running, ModeDto::Sealed, 0);
    task.pulled();
    execute(&mut task, 10);
    assert_eq!(step(&task, 11), Step::Submit(Message::Commit));
    task.submitted(Message::Commit, 0, 11);
    task.seen(of_sealed(JobStateDto::Verifying, Granted, false));
    assert_eq!(step(&task, 12), Step::Wait(STORE_AGAIN_MS));
    assert_eq!(step(&task, LATE), Step::Begin(Stage::Deliver));
    task.begun(Stage::Deliver, LATE);
    task.stored(LATE);
    task.seen(of_sealed(JobStateDto::Verifying, Granted, true));
    assert_eq!(step(&task, 2 * LATE), Step::Wait(u64::MAX));
    // While everybody looks there is nothing to do.
    task.seen(of_sealed(JobStateDto::Disputed, Revealed, false));
    assert_eq!(step(&task, 2 * LATE), Step::Wait(u64::MAX));

    // An agent that lost its memory makes the same answer.
    let task = LeaseTask::new(
        of_sealed(JobStateDto::Verifying, Granted, false),
        ModeDto::Sealed,
        0,
    );
    assert_eq!(step(&task, 1), Step::Begin(Stage::Execute));
}
