//! The life of a job, with every coin followed.

use tg_ledger::{
    EndReason, Event, JobState, LeaseEnd, ModelState, Outcome, RefusedBecause, Settlement,
    TransactionError, VerdictError,
};
use tg_types::{Amount, Transaction, TransactionKind, VerificationMode};

use crate::world::{
    MODEL, World, address, commit, facts, fee, lease_fee, register, rejected, rejected_end, tgrid,
};

#[test]
fn a_job_is_paid_and_every_coin_is_accounted_for() {
    let mut world = World::with_offers();
    let (alice, cheap) = (world.balance("alice"), world.balance("cheap"));
    let burned = world.state.totals().burned;
    let validator = world.state.validators()[0].address;
    let reward = world.state.balance(&validator);

    let job = world.submit("alice", world.order());
    // Escrow is the maximum price and the verification fee; the collateral is locked in the same block.
    assert_eq!(world.job(job).escrow(), tgrid(110));
    let ordering = fee(TransactionKind::SubmitJob);
    let paid = |amount: Amount| Some(amount.saturating_add(ordering));
    assert_eq!(alice.checked_sub(world.balance("alice")), paid(tgrid(110)));
    // And the gas of the lease is paid.
    assert_eq!(
        cheap.checked_sub(world.balance("cheap")),
        tgrid(500).checked_add(lease_fee())
    );
    assert_eq!(world.holder(job), "cheap");
    assert_eq!(world.lease(job).price, tgrid(30));

    let task = world.work(job);
    let events = world.decide(&task, Outcome::LeaseAccepted);
    use JobState::{Accepted, Committed, Leased, Paid, Queued, Running, Verifying};
    assert_eq!(
        world.states(job),
        [
            Queued, Leased, Running, Committed, Verifying, Accepted, Paid
        ]
    );
    let settlement = Settlement {
        price: tgrid(30),
        members: Amount::ZERO,
        verification_fee: tgrid(9),
        refund: tgrid(70),
        burned: tgrid(1),
        ..Settlement::default()
    };
    assert_eq!(world.job(job).settlement(), Some(&settlement));
    assert_eq!(world.job(job).end(), Some(EndReason::Fulfilled));
    assert_eq!(world.lease(job).end(), Some(&LeaseEnd::Fulfilled));
    assert!(events.contains(&Event::JobEnded {
        job,
        requestor: address("alice"),
        provider: Some(address("cheap")),
        reason: EndReason::Fulfilled,
        settlement,
    }));
    // Alice paid the price, the verification and one fee; the provider earned the price and paid for three transactions.
    assert_eq!(alice.checked_sub(world.balance("alice")), paid(tgrid(40)));
    assert_eq!(
        world.balance("cheap").checked_sub(cheap),
        tgrid(30).checked_sub(lease_fee())
    );
    let validators = world.state.validators().len() as u64;
    assert_eq!(
        world.state.balance(&validator).checked_sub(reward),
        Some(Amount::new(tgrid(9).get() / u128::from(validators)))
    );
    assert_eq!(
        world.state.totals().burned.checked_sub(burned),
        // A tenth of the verification fee, too.
        ordering.saturating_add(lease_fee()).checked_add(tgrid(1))
    );
    let provider = world.state.provider(&address("cheap")).unwrap();
    assert_eq!(provider.record.accepted, 1);
    assert_eq!(provider.earned, tgrid(30));
    assert_eq!(
        world.lease(job).receipt().as_ref(),
        Some(&&crate::world::receipt())
    );
}

#[test]
fn accepted_and_paid_are_one_block() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    let steps = &world.job(job).history;
    let [.., accepted, paid] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(
        (accepted.state, paid.state),
        (JobState::Accepted, JobState::Paid)
    );
    assert_eq!(accepted.height, paid.height);
}

#[test]
fn a_rejected_result_is_slashed_once_and_the_job_goes_on_with_its_escrow() {
    let mut world = World::with_offers();
    let cheap = world.balance("cheap");
    let job = world.submit("alice", world.order());
    let escrow = world.job(job).escrow();
    let task = world.work(job);
    let burned = world.state.totals().burned;
    let verdict = task.verdict(rejected());
    // A verdict that comes twice in one block counts once.
    let proposed = world.block(vec![], vec![verdict.clone(), verdict.clone()]);
    assert_eq!(proposed.block.verdicts.len(), 1);
    let subject = task.subject();
    assert_eq!(
        proposed.refused_verdicts,
        [(verdict.clone(), VerdictError::NotPending { subject })]
    );
    let slashes = |events: &[Event]| {
        let slashed = |event: &&Event| matches!(event, Event::Slashed { .. });
        events.iter().filter(slashed).count()
    };
    assert_eq!(slashes(&proposed.events), 1);
    assert_eq!(
        world.state.totals().burned.checked_sub(burned),
        tgrid(500).checked_add(lease_fee())
    );
    // And in a later block it does not count again.
    let again = world.block(vec![], vec![verdict]);
    assert_eq!(again.refused_verdicts.len(), 1);
    assert_eq!(slashes(&again.events), 0);

    let first = world.job(job).leases()[0];
    let lease = world.state.lease(&first).unwrap();
    assert_eq!(lease.end(), Some(&rejected_end()));
    assert_eq!(
        cheap.checked_sub(world.balance("cheap")),
        tgrid(500).checked_add(lease_fee())
    );
    let provider = world.state.provider(&address("cheap")).unwrap();
    assert_eq!((provider.record.rejected, provider.lost), (1, tgrid(500)));
    // The next cheapest has it, with the same escrow; the liar is excluded from it.
    assert_eq!(world.job(job).escrow(), escrow);
    assert_eq!(world.job(job).excluded, [address("cheap")]);
    assert_eq!(world.holder(job), "middle");
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(job).state(), JobState::Paid);
    let settlement = world.job(job).settlement().unwrap();
    // Slashed collateral is burned: the finisher gets its price and nothing of it.
    assert_eq!(settlement.price, tgrid(40));
}

#[test]
fn a_liar_gets_no_job_while_it_is_suspended() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    world.decide(&task, rejected());
    let until = world.state.provider(&address("cheap")).unwrap();
    let until = until.suspended_until.get();
    let second = world.submit("alice", world.order());
    assert_eq!(world.holder(second), "middle");
    for job in [job, second] {
        let task = world.work(job);
        world.decide(&task, Outcome::LeaseAccepted);
    }
    world.wait_until(until);
    // Back in the market, but the lie weighs: 30 + 0.625 * 50 against 40 + 0.167 * 50.
    let mut order = world.order();
    order.max_price = tgrid(50);
    let third = world.submit("alice", order);
    assert_eq!(world.holder(third), "middle");
}

#[test]
fn attempts_run_out_and_the_escrow_goes_back() {
    let mut world = World::with_offers();
    let alice = world.balance("alice");
    let mut order = world.order();
    order.max_attempts = 2;
    let job = world.submit("alice", order);
    for _ in 0..2 {
        let task = world.work(job);
        world.decide(&task, rejected());
    }
    assert_eq!(world.job(job).state(), JobState::Refunded);
    assert_eq!(world.job(job).end(), Some(EndReason::AttemptsExhausted));
    assert_eq!(world.attempts_failed(job), 2);
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(settlement.refund, tgrid(110));
    assert_eq!(settlement.verification_fee, Amount::ZERO);
    // Only the fee of the order is gone.
    let ordering = fee(TransactionKind::SubmitJob);
    assert_eq!(alice.checked_sub(world.balance("alice")), Some(ordering));
}

#[test]
fn mode_none_is_accepted_on_commitment() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.mode = VerificationMode::None;
    let job = world.submit("alice", order);
    // No verification fee is locked.
    assert_eq!(world.job(job).escrow(), tgrid(100));
    let (name, lease) = (world.holder(job), world.lease(job).id);
    world.send(name, Transaction::StartLease { lease });
    world.send(name, commit(lease));
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert!(!world.states(job).contains(&JobState::Verifying));
    assert_eq!(world.job(job).settlement().unwrap().refund, tgrid(70));
}

#[test]
fn a_job_can_be_taken_back_until_its_result_is_committed() {
    let mut world = World::new();
    let alice = world.balance("alice");
    let job = world.submit("alice", world.order());
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert_eq!(
        world.refusal("mallory", Transaction::CancelJob { job }),
        TransactionError::NotRequestor {
            job,
            requestor: address("alice")
        }
    );
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(world.job(job).state(), JobState::Cancelled);
    assert_eq!(world.job(job).end(), Some(EndReason::CancelledByRequestor));
    // Order and cancellation cost their two fees.
    let fees = fee(TransactionKind::SubmitJob).checked_add(fee(TransactionKind::CancelJob));
    assert_eq!(alice.checked_sub(world.balance("alice")), fees);
    assert_eq!(
        world.refusal("alice", Transaction::CancelJob { job }),
        TransactionError::JobNotCancellable {
            job,
            state: JobState::Cancelled
        }
    );
    world.post("cheap", crate::world::terms(30));
    let job = world.submit("alice", world.order());
    // Whoever holds it gets its gas before it started, its time after, and its collateral back.
    let (alice, cheap) = (world.balance("alice"), world.balance("cheap"));
    let lease = world.lease(job).clone();
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(world.lease(job).end(), Some(&LeaseEnd::Cancelled));
    let settlement = world.job(job).settlement().unwrap();
    assert_eq!(
        (settlement.compensation, settlement.refund),
        (lease_fee(), tgrid(110).saturating_sub(lease_fee()))
    );
    assert_eq!(
        world.balance("alice").checked_sub(alice),
        settlement
            .refund
            .checked_sub(fee(TransactionKind::CancelJob))
    );
    assert_eq!(
        world.balance("cheap").checked_sub(cheap),
        lease.collateral.checked_add(lease_fee())
    );
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.idle();
    world.send("alice", Transaction::CancelJob { job });
    // Two seconds of a lease that may take half a second: the whole price and nothing above it.
    assert_eq!(
        world.job(job).settlement().unwrap().compensation,
        world.lease(job).price
    );
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    assert_eq!(
        world.refusal("alice", Transaction::CancelJob { job }),
        TransactionError::JobNotCancellable {
            job,
            state: JobState::Committed
        }
    );
}

#[test]
fn a_withdrawn_offer_gets_no_jobs_and_its_leases_run_on() {
    let mut world = World::with_offers();
    let first = world.submit("alice", world.order());
    let offer = world.lease(first).offer;
    world.send("cheap", Transaction::WithdrawOffer { offer });
    assert_eq!(world.state.offer(&offer), None);
    let second = world.submit("alice", world.order());
    assert_eq!(world.holder(second), "middle");
    let task = world.work(first);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(first).state(), JobState::Paid);
}

#[test]
fn models_are_pending_then_active_or_refused() {
    let mut world = World::bare();
    world.send("bob", register());
    assert_eq!(
        world.state.model(&MODEL).unwrap().state,
        ModelState::Pending
    );
    let order = world.order();
    let submit = Transaction::SubmitJob { order };
    assert_eq!(
        world.refusal("alice", submit.clone()),
        TransactionError::ModelNotActive {
            model: MODEL,
            state: "Pending"
        }
    );
    assert_eq!(
        world.refusal("mallory", register()),
        TransactionError::ModelExists { model: MODEL }
    );
    let task = world.state.pending_evidence().next().unwrap();
    world.decide(&task, rejected());
    let because = RefusedBecause::Check {
        code: 7,
        check: tg_types::Label::lossy("sumcheck of layer 2"),
    };
    assert_eq!(
        world.state.model(&MODEL).unwrap().state,
        ModelState::Refused(because)
    );
    assert_eq!(
        world.refusal("alice", submit),
        TransactionError::ModelNotActive {
            model: MODEL,
            state: "Refused"
        }
    );
    // A refused id is free again, so nobody can block a model with a bad blob.
    world.send("mallory", register());
    assert_eq!(world.state.model(&MODEL).unwrap().owner, address("mallory"));
    let task = world.state.pending_evidence().next().unwrap();
    world.decide(&task, Outcome::ModelAccepted(facts()));
    assert_eq!(
        world.state.model(&MODEL).unwrap().state,
        ModelState::Active(facts())
    );
    assert_eq!(world.state.pending_evidence().count(), 0);
}

#[test]
fn registration_fees_are_shared_by_the_validators() {
    let mut world = World::bare();
    let before: Vec<_> = balances_of_validators(&world);
    world.send("bob", register());
    let after = balances_of_validators(&world);
    for (before, after) in before.iter().zip(after) {
        assert_eq!(after.checked_sub(*before), Some(tgrid(25)));
    }
}

fn balances_of_validators(world: &World) -> Vec<Amount> {
    let validators = world.state.validators().iter();
    validators
        .map(|it| world.state.balance(&it.address))
        .collect()
}

#[test]
fn what_cannot_be_split_goes_to_the_proposer() {
    let mut genesis = crate::world::genesis();
    genesis.parameters.registration_fee = Amount::new(1_000_000_000_000_000_003);
    let mut world = World::with(&genesis);
    let before = balances_of_validators(&world);
    world.send("bob", register());
    let proposer = world.blocks[0].header.proposer;
    let gains: Vec<u128> = balances_of_validators(&world)
        .into_iter()
        .zip(before)
        .map(|(after, before)| after.get() - before.get())
        .collect();
    for (validator, gain) in world.state.validators().iter().zip(gains) {
        let rest: u128 = if validator.address == proposer { 3 } else { 0 };
        assert_eq!(gain, 250_000_000_000_000_000 + rest);
    }
}

#[test]
fn transfers_reach_new_and_old_accounts_and_oneself() {
    let mut world = World::bare();
    let nobody = address("nobody yet");
    assert!(world.state.account(&nobody).is_none());
    let pay = |to, milli| Transaction::Transfer {
        to,
        amount: tgrid(milli),
    };
    world.send("alice", pay(nobody, 5_000));
    assert_eq!(world.state.balance(&nobody), tgrid(5_000));
    let before = world.balance("alice");
    world.send("alice", pay(address("alice"), 7_000));
    let each = fee(TransactionKind::Transfer);
    assert_eq!(before.checked_sub(world.balance("alice")), Some(each));
    // An account begins with the height of its first block times 2^20.
    assert_eq!(world.state.nonce(&nobody), 1 << 20);
    let rest = Transaction::Transfer {
        to: address("alice"),
        amount: tgrid(5_000).saturating_sub(each),
    };
    world.send("nobody yet", rest);
    assert_eq!(world.state.balance(&nobody), Amount::ZERO);
    assert_eq!(world.state.nonce(&nobody), (1 << 20) + 1);
}
