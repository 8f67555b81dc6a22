//! Endpoints: paid for time by the ledger's clock and for answers by the requestor's vouchers, as long as there is money.

use tg_ledger::{
    EndReason, EndpointProblem, Event, JobState, LeaseEnd, ModelFacts, Schedule, TransactionError,
    VoucherProblem,
};
use tg_types::{
    Amount, BASE_PRICES_PER_MINUTE, Digest, DurationMs, JobId, JobOrder, LeaseId, OfferTerms,
    SignedVoucher, Tier, TimestampMs, Transaction, TransactionKind, VerificationMode, Voucher,
};

use crate::due::next_timeout;
use crate::world::{TICK, World, address, commit, facts, fee, terms, tgrid, wallet};

/// What a minute of `cheap` costs, in thousandths of a TGRID.
const MINUTE: u64 = 120;

/// What an answer costs: 420,000 multiply-accumulates begin one million.
const RUN: u64 = 2;

fn offer(minute: u64) -> OfferTerms {
    OfferTerms {
        price_per_mmac: tgrid(RUN),
        ..terms(minute / BASE_PRICES_PER_MINUTE)
    }
}

fn order(world: &World, money: u64, time: u64) -> JobOrder {
    JobOrder {
        mode: VerificationMode::Endpoint,
        input: Digest::default(),
        input_len: 0,
        max_price: tgrid(money),
        deadline: TimestampMs::new(world.time + time),
        ..world.order()
    }
}

/// A network with one offer of `cheap` and one of `dear`, and an endpoint of `alice` with so much money and time.
fn ordered(money: u64, time: u64) -> (World, JobId) {
    let mut world = World::new();
    world.post("cheap", offer(MINUTE));
    world.post("dear", offer(2 * MINUTE));
    let order = order(&world, money, time);
    let job = world.submit("alice", order);
    (world, job)
}

/// The same, started by `cheap`; with its lease.
fn serving(money: u64, time: u64) -> (World, JobId, LeaseId) {
    let (mut world, job) = ordered(money, time);
    assert_eq!(world.holder(job), "cheap");
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    (world, job, lease)
}

fn voucher(world: &World, lease: LeaseId, answered: u64) -> SignedVoucher {
    let voucher = Voucher {
        lease,
        answered,
        amount: tgrid(RUN * answered),
        asks: Digest::new([7; 32]),
    };
    voucher.sign(&wallet("alice"), world.state.domain())
}

fn claim(lease: LeaseId, voucher: Option<SignedVoucher>, ends: bool) -> Transaction {
    Transaction::SettleEndpoint {
        lease,
        voucher,
        ends,
    }
}

fn paid(events: &[Event]) -> Amount {
    let amounts = events.iter().filter_map(|event| match event {
        Event::EndpointPaid { amount, .. } => Some(*amount),
        _ => None,
    });
    amounts.fold(Amount::ZERO, Amount::saturating_add)
}

/// What `ticks` blocks of serving cost.
fn time(ticks: u64) -> Amount {
    Amount::new(tgrid(MINUTE).get() * u128::from(ticks * TICK) / 60_000)
}

#[test]
fn time_is_paid_by_the_clock_and_answers_by_vouchers() {
    let (mut world, job, lease) = serving(1_000, 600_000);
    assert_eq!(world.lease(job).price, tgrid(RUN));
    assert_eq!(world.lease(job).meter.unwrap().minute, tgrid(MINUTE));
    assert_eq!(world.job(job).escrow(), tgrid(1_000));
    let before = world.balance("cheap");
    let events = world.send("cheap", claim(lease, None, false));
    assert_eq!(paid(&events), time(1));
    for _ in 0..9 {
        world.idle();
    }
    let first = voucher(&world, lease, 20);
    let events = world.send("cheap", claim(lease, Some(first), false));
    assert_eq!(paid(&events), time(10).saturating_add(tgrid(20 * RUN)));
    // Only what came since is paid by the next one.
    let second = voucher(&world, lease, 21);
    let events = world.send("cheap", claim(lease, Some(second), false));
    assert_eq!(paid(&events), time(1).saturating_add(tgrid(RUN)));
    let earned = time(12).saturating_add(tgrid(21 * RUN));
    assert_eq!(world.job(job).served, earned);
    assert_eq!(
        world.job(job).escrow(),
        tgrid(1_000).checked_sub(earned).unwrap()
    );
    let gas = fee(TransactionKind::SettleEndpoint).saturating_mul(3);
    let after = before.saturating_add(earned).checked_sub(gas).unwrap();
    assert_eq!(world.balance("cheap"), after);
    assert_eq!(world.job(job).state(), JobState::Running);
}

#[test]
fn a_voucher_of_anybody_else_or_of_before_does_not_count() {
    let (mut world, _, lease) = serving(1_000, 600_000);
    let good = voucher(&world, lease, 5);
    let bad = |voucher: Voucher, signer: &str| voucher.sign(&wallet(signer), world.state.domain());
    let said = good.voucher;
    let other = Voucher {
        lease: LeaseId::new([9; 32]),
        ..said
    };
    let more = Voucher {
        amount: tgrid(900),
        ..said
    };
    let forged = SignedVoucher {
        voucher: more,
        ..good
    };
    let cases = [
        (bad(said, "cheap"), VoucherProblem::Signature),
        (bad(other, "alice"), VoucherProblem::Lease),
        (forged, VoucherProblem::Signature),
    ];
    for (voucher, problem) in cases {
        let refused = world.refusal("cheap", claim(lease, Some(voucher), false));
        assert_eq!(refused, TransactionError::BadVoucher { lease, problem });
    }
    let stranger = world.refusal("mallory", claim(lease, Some(good), false));
    assert_eq!(
        stranger,
        TransactionError::NotLeaseHolder {
            lease,
            provider: address("cheap")
        }
    );
    world.send("cheap", claim(lease, Some(good), false));
    let problem = VoucherProblem::Old;
    for answered in [4, 5] {
        let old = voucher(&world, lease, answered);
        let refused = world.refusal("cheap", claim(lease, Some(old), false));
        assert_eq!(refused, TransactionError::BadVoucher { lease, problem });
    }
    // There is nothing to commit to.
    let refused = world.refusal("cheap", commit(lease));
    assert_eq!(refused, TransactionError::EndpointHasNoReceipt { lease });
}

/// A requestor that signed vouchers which rise in the amount alone would have had its answers for nothing: its provider took them as
/// payment, and could not claim them.
#[test]
fn a_voucher_is_later_than_another_by_its_amount_alone() {
    let (mut world, _, lease) = serving(1_000, 600_000);
    let said = |world: &World, answered, amount| {
        let voucher = Voucher {
            answered,
            amount: tgrid(amount),
            ..voucher(world, lease, 0).voucher
        };
        voucher.sign(&wallet("alice"), world.state.domain())
    };
    for (answered, amount) in [(0, 10), (u64::MAX, 20), (u64::MAX, 30), (0, 40)] {
        let later = said(&world, answered, amount);
        let events = world.send("cheap", claim(lease, Some(later), false));
        assert_eq!(paid(&events), time(1).saturating_add(tgrid(10)));
    }
    let old = said(&world, u64::MAX, 40);
    let refused = world.refusal("cheap", claim(lease, Some(old), false));
    let problem = VoucherProblem::Old;
    assert_eq!(refused, TransactionError::BadVoucher { lease, problem });
}

#[test]
fn a_requestor_that_ends_it_pays_for_its_time_and_for_the_last_voucher() {
    let (mut world, job, lease) = serving(1_000, 600_000);
    for _ in 0..3 {
        world.idle();
    }
    world.send("alice", Transaction::CancelJob { job });
    let again = world.refusal("alice", Transaction::CancelJob { job });
    assert_eq!(again, TransactionError::EndpointEnds { job });
    for _ in 0..3 {
        world.idle();
    }
    let before = world.balance("alice");
    let last = voucher(&world, lease, 3);
    let events = world.send("cheap", claim(lease, Some(last), true));
    // Three blocks before it was taken back, and the one in which it was.
    let earned = time(4).saturating_add(tgrid(3 * RUN));
    assert_eq!(paid(&events), earned);
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(world.job(job).end(), Some(EndReason::Fulfilled));
    let settlement = *world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, earned);
    let back = tgrid(1_000).checked_sub(earned).unwrap();
    assert_eq!(world.balance("alice"), before.saturating_add(back));
    let lease = world.state.lease(&lease).unwrap();
    assert_eq!(lease.end(), Some(&LeaseEnd::Fulfilled));
    assert_eq!(lease.locked(), Amount::ZERO);
}

/// Reports of all validators that `name` is lost.
fn lose(world: &mut World, name: &str) {
    for index in 0..3 {
        let report = Transaction::ReportLiveness {
            epoch: Schedule::epoch(world.state.head().height.next()),
            lost: vec![address(name)],
            back: vec![],
        };
        world.send(&format!("validator {index}"), report);
    }
}

/// The session of a requestor returns when it is taken back: what was served after that would be paid unseen.
#[test]
fn an_endpoint_that_was_taken_back_ends_when_its_provider_is_lost() {
    let (mut world, job, _) = serving(1_000, 600_000);
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(world.job(job).state(), JobState::Running);
    let before = world.balance("alice");
    lose(&mut world, "cheap");
    assert_eq!(world.job(job).state(), JobState::Cancelled);
    assert_eq!(world.job(job).settlement().unwrap().refund, tgrid(1_000));
    assert!(world.balance("alice") >= before.saturating_add(tgrid(1_000)));
    // One that was not goes on with another provider.
    let (mut world, job, _) = serving(1_000, 600_000);
    lose(&mut world, "cheap");
    assert_eq!(world.holder(job), "dear");
}

#[test]
fn a_provider_that_does_not_claim_is_paid_its_time_when_the_window_is_over() {
    let (mut world, job, lease) = serving(1_000, 20_000);
    let deadline = world.job(job).order.deadline;
    assert_eq!(world.lease(job).deadline, deadline);
    let wait = world.state.parameters().verification_timeout;
    let due = deadline.get() + wait.get();
    assert_eq!(next_timeout(&world.state).unwrap().get(), due + 1);
    let events = world.wait_until(due);
    assert_eq!(world.job(job).state(), JobState::Running, "{events:?}");
    let events = world.idle();
    let started = world.state.lease(&lease).unwrap().started_at().unwrap();
    let served = deadline.saturating_since(started).get();
    assert_eq!(paid(&events), time(served / TICK));
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn without_money_it_waits_for_more_and_goes_on() {
    // Enough for the price of a run and for 70 s.
    let (mut world, job, lease) = serving(140, 600_000);
    let start = world.time;
    let due = next_timeout(&world.state).unwrap().get();
    assert!((start + 69_000..=start + 70_002).contains(&due), "{due}");
    world.wait_until(start + 69_000);
    assert_eq!(world.job(job).state(), JobState::Running);
    let events = world.idle();
    assert_eq!(paid(&events), tgrid(140));
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert_eq!(world.job(job).escrow(), Amount::ZERO);
    let ended = world.state.lease(&lease).unwrap();
    assert_eq!(ended.end(), Some(&LeaseEnd::Fulfilled));
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Queued);
    let raise = Transaction::RaiseJob {
        job,
        max_price: tgrid(280),
        max_attempts: 3,
    };
    world.send("alice", raise);
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(world.holder(job), "cheap");
    assert_eq!(world.attempts_failed(job), 0);
    // Taken back before it is started: what was served stays paid.
    let before = world.balance("alice");
    let events = world.send("alice", Transaction::CancelJob { job });
    let settlement = *world.job(job).settlement().unwrap();
    assert_eq!(settlement.price, tgrid(140));
    assert_eq!(world.job(job).state(), JobState::Cancelled);
    assert!(settlement.refund < tgrid(140), "the holder is paid its gas");
    assert!(world.balance("alice") > before, "{events:?}");
}

#[test]
fn a_provider_that_leaves_hands_it_to_another_one_without_a_loss() {
    let (mut world, job, lease) = serving(1_000, 600_000);
    let offer = world.lease(job).offer;
    world.send("cheap", Transaction::WithdrawOffer { offer });
    let before = world.balance("cheap");
    world.send("cheap", claim(lease, None, true));
    let gas = fee(TransactionKind::SettleEndpoint);
    let back = tgrid(500).saturating_add(time(2));
    let after = before.saturating_add(back).checked_sub(gas).unwrap();
    assert!(
        world.balance("cheap") > after,
        "with what is left of the gas"
    );
    assert_eq!(world.holder(job), "dear");
    let next = world.lease(job).id;
    world.send("dear", Transaction::StartLease { lease: next });
    assert_eq!(world.lease(job).meter.unwrap().minute, tgrid(2 * MINUTE));
    let late = world.refusal("cheap", claim(lease, None, true));
    assert!(matches!(late, TransactionError::LeaseEnded { .. }));
}

#[test]
fn an_endpoint_has_no_input_and_is_one_machine_at_a_posted_price() {
    let mut world = World::new();
    world.post("cheap", offer(MINUTE));
    let good = order(&world, 1_000, 600_000);
    let mut with_input = good.clone();
    with_input.input_len = 784;
    let mut gang = good.clone();
    gang.needs.gang = 2;
    let mut spot = good;
    spot.needs.tier = tg_types::CapacityTier::Spot;
    spot.needs.preemptible = true;
    for (order, problem) in [
        (with_input, EndpointProblem::Input),
        (gang, EndpointProblem::Lane),
        (spot, EndpointProblem::Lane),
    ] {
        let refused = world.refusal("alice", Transaction::SubmitJob { order });
        assert_eq!(refused, TransactionError::BadEndpointOrder { problem });
    }
    let plain = world.order();
    let job = world.submit("alice", plain);
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    let refused = world.refusal("cheap", claim(lease, None, true));
    assert_eq!(refused, TransactionError::NoEndpoint { lease });
}

/// Runs of programs and float graphs may fail after all their work, and a short answer says nothing of what it took.
#[test]
fn endpoints_are_of_models_of_integers() {
    for tier in [Tier::Tgf1, Tier::Wasm1] {
        let mut world = World::bare();
        world.activate_model(ModelFacts { tier, ..facts() });
        world.post("cheap", offer(MINUTE));
        let order = order(&world, 1_000, 600_000);
        let model = order.model;
        let refused = world.refusal("alice", Transaction::SubmitJob { order });
        assert_eq!(refused, TransactionError::NotServable { model });
        assert_eq!(refused.code(), "TG-LED-170");
    }
}

#[test]
fn vouchers_never_pay_more_than_is_locked() {
    let (mut world, job, lease) = serving(100, 600_000);
    let before = world.balance("alice");
    let all = voucher(&world, lease, 1_000_000);
    let events = world.send("cheap", claim(lease, Some(all), false));
    assert_eq!(paid(&events), tgrid(100));
    assert_eq!(world.balance("alice"), before);
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert_eq!(world.job(job).escrow(), Amount::ZERO);
    // At its deadline it ends with what it paid.
    let deadline = world.job(job).order.deadline;
    world.wait_until(deadline.saturating_add(DurationMs::new(2 * TICK)).get());
    assert_eq!(world.job(job).state(), JobState::Refunded);
    assert_eq!(world.job(job).settlement().unwrap().price, tgrid(100));
}

/// An offer that takes the same endpoint again and again, starts it and leaves, would keep everybody else from serving it, for gas.
#[test]
fn who_leaves_an_endpoint_at_once_does_not_get_it_again_and_who_served_it_may() {
    let (mut world, job, lease) = serving(2_000, 600_000);
    world.send("cheap", claim(lease, None, true));
    assert_eq!(world.holder(job), "dear");
    let lease = world.lease(job).id;
    world.send("dear", Transaction::StartLease { lease });
    world.send("dear", claim(lease, None, true));
    assert_eq!(world.job(job).state(), JobState::Queued);

    let (mut world, job, lease) = serving(2_000, 600_000);
    world.wait_until(world.time + 61_000);
    world.send("cheap", claim(lease, None, true));
    assert_eq!(world.holder(job), "cheap");
    assert_ne!(world.lease(job).id, lease);
}
