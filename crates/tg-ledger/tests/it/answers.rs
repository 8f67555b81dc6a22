//! What the market answers is true: the price of an order that names none, why a gang waits, and an order that is raised.

use tg_ledger::{EndReason, JobState, TransactionError};
use tg_market::Constraint;
use tg_types::limits::{ATTEMPTS_MAX, ATTEMPTS_USUAL};
use tg_types::{
    Amount, GpuModel, JobClass, JobId, JobNeeds, JobOrder, Transaction, TransactionKind,
    VerificationMode,
};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{World, address, commit, fee, terms, tgrid};

/// An order whose maximum price is the usual one.
fn unpriced(world: &World) -> JobOrder {
    let mut order = JobOrder {
        mode: VerificationMode::None,
        max_price: Amount::ZERO,
        max_attempts: ATTEMPTS_USUAL,
        ..world.order()
    };
    order.max_price = world.state.usual_max_price(&order).unwrap();
    order
}

fn raise(job: JobId, max_price: Amount, max_attempts: u8) -> Transaction {
    Transaction::RaiseJob {
        job,
        max_price,
        max_attempts,
    }
}

#[test]
fn a_dead_underbidder_costs_one_start_timeout_and_no_second_order() {
    let mut world = World::new();
    // It asks a three hundredth of what the others ask, and never starts.
    let mut bait = terms(0);
    bait.price_base = Amount::new(100_000_000_000_000);
    world.post("mallory", bait);
    for (name, price) in [("bob", 31), ("cheap", 30), ("middle", 40), ("dear", 50)] {
        world.post(name, terms(price));
    }
    let order = unpriced(&world);
    assert_eq!(
        order.max_price,
        tgrid(62),
        "twice the third cheapest owner's ask"
    );
    let ordered = world.time;
    let job = world.submit("alice", order);
    assert_eq!(world.holder(job), "mallory");
    let start_by = world.lease(job).start_by.get();
    world.wait_until(start_by + 1);
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(world.holder(job), "cheap");
    let lost = world.lease(job).matched_at.get() - ordered;
    let timeout = world.state.parameters().start_timeout.get();
    assert!(lost <= timeout + 2 * crate::world::TICK, "{lost} ms");
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    assert_eq!(world.job(job).state(), JobState::Paid);
}

#[test]
fn many_offers_of_one_owner_move_the_usual_price_as_one_does() {
    let mut world = World::with_offers();
    let before = unpriced(&world).max_price;
    assert_eq!(before, tgrid(100), "twice the dearest of three");
    for _ in 0..5 {
        world.post("mallory", terms(1));
    }
    assert_eq!(unpriced(&world).max_price, tgrid(80));
    // Nobody moves it up either: what is dearer than three owners does not count.
    world.post("bob", terms(9_000));
    assert_eq!(unpriced(&world).max_price, tgrid(80));
}

#[test]
fn an_order_that_finds_every_slot_taken_has_a_price_and_waits_for_the_next() {
    let mut world = World::new();
    world.post("cheap", terms(30));
    let first: Vec<JobId> = (0..2)
        .map(|_| {
            let order = unpriced(&world);
            world.submit("alice", order)
        })
        .collect();
    let order = unpriced(&world);
    assert_eq!(order.max_price, tgrid(60), "a taken slot is free again");
    let third = world.submit("alice", order);
    assert_eq!(world.job(third).state(), JobState::Queued);
    let why = world.state.why_waiting(&third).unwrap();
    assert!(why.is_occupied() && !why.is_suited());
    let lease = world.lease(first[0]).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.send("cheap", commit(lease));
    assert_eq!(world.job(third).state(), JobState::Leased);
}

#[test]
fn a_gang_that_waits_says_how_many_members_have_a_place_and_what_would_help() {
    let mut world = World::new();
    for (name, milli) in [("cheap", 10), ("middle", 12), ("bob", 14)] {
        world.post(name, gpu_terms(GpuModel::T4, 4, milli));
    }
    let mut far = gpu_terms(GpuModel::T4, 1, 10);
    far.machine.coordinate_us = [3_000, 0];
    world.post("mallory", far);
    let gang = |members| JobNeeds {
        gang: members,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    // Three machines near each other with room for twelve, and a fourth one three milliseconds away.
    let job = world.submit("alice", world.order_for(gang(4)));
    let why = world.state.why_waiting(&job).unwrap();
    let told = why.gang.unwrap();
    assert_eq!((told.members, told.placed, told.machines), (4, 3, 4));
    assert_eq!(told.neighbourhood_us, Some(4_000));
    assert!(!why.is_suited(), "it is not matched in the next block");
    assert_eq!(why.eta, None, "nothing is free later that is not free now");
    // What it says helps does.
    let wider = JobNeeds {
        neighbourhood_us: 4_000,
        ..gang(4)
    };
    let wide = world.submit("alice", world.order_for(wider));
    assert_eq!(world.job(wide).state(), JobState::Leased);
}

#[test]
fn a_gang_that_pays_too_little_is_told_the_price_of_all_members() {
    let mut world = World::new();
    for (name, milli) in [("cheap", 10), ("middle", 12), ("dear", 20)] {
        world.post(name, gpu_terms(GpuModel::T4, 1, milli));
    }
    let needs = JobNeeds {
        gang: 3,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    // 60 s at 0.02 are 1.2 for the dearest member, so 3.6 for three equal parts.
    let mut order = world.order_for(needs);
    order.max_price = tgrid(3_000);
    let job = world.submit("alice", order);
    let why = world.state.why_waiting(&job).unwrap();
    let price = why.relaxations.iter().find(|it| it.is_of_price()).unwrap();
    assert_eq!((price.members, price.value), (3, tgrid(3_600).get()));
    assert_eq!(price.constraint, Constraint::Price);
    world.send("alice", raise(job, tgrid(3_600), 3));
    assert_eq!(world.job(job).state(), JobState::Leased);
    let lead = world.live(job);
    let leases: Vec<_> = world.state.gang_of(&lead).collect();
    let mut machines: Vec<_> = leases.iter().map(|it| it.offer).collect();
    machines.dedup();
    assert_eq!(machines.len(), 3, "a machine for each member");
}

#[test]
fn a_waiting_order_is_raised_and_what_it_does_not_need_comes_back() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.mode = VerificationMode::None;
    order.max_price = tgrid(20);
    order.max_attempts = 1;
    let before = world.balance("alice");
    let job = world.submit("alice", order);
    assert_eq!(world.job(job).state(), JobState::Queued);
    world.send("alice", raise(job, tgrid(35), 2));
    assert_eq!(world.holder(job), "cheap");
    assert_eq!(world.job(job).escrow(), tgrid(35));
    // The second attempt is there too, and raised again for the provider that is left.
    world.send("alice", raise(job, tgrid(90), 2));
    let start_by = world.lease(job).start_by.get();
    world.wait_until(start_by + 1);
    assert_eq!(world.holder(job), "middle");
    let lease = world.lease(job).id;
    world.send("middle", Transaction::StartLease { lease });
    world.send("middle", commit(lease));
    // The price of 40, an order's fee and those of raising it twice.
    let spent = before.checked_sub(world.balance("alice")).unwrap();
    let fees = [
        TransactionKind::SubmitJob,
        TransactionKind::RaiseJob,
        TransactionKind::RaiseJob,
    ];
    let fees = fees
        .map(fee)
        .into_iter()
        .fold(Amount::ZERO, Amount::saturating_add);
    assert_eq!(spent, tgrid(40).saturating_add(fees));
}

#[test]
fn an_order_is_raised_by_its_requestor_alone_only_upwards_and_only_while_it_lives() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.max_price = tgrid(20);
    let job = world.submit("alice", order);
    let unchanged = TransactionError::NotRaised {
        job,
        max_price: tgrid(20),
        max_attempts: 3,
    };
    assert_eq!(world.refusal("alice", raise(job, tgrid(20), 3)), unchanged);
    assert_eq!(world.refusal("alice", raise(job, tgrid(19), 4)), unchanged);
    assert_eq!(world.refusal("alice", raise(job, tgrid(21), 2)), unchanged);
    assert_eq!(
        world.refusal("alice", raise(job, tgrid(21), ATTEMPTS_MAX + 1)),
        TransactionError::BadAttempts {
            got: ATTEMPTS_MAX + 1,
            limit: ATTEMPTS_MAX
        }
    );
    assert_eq!(
        world.refusal("mallory", raise(job, tgrid(21), 3)),
        TransactionError::NotRequestor {
            job,
            requestor: address("alice")
        }
    );
    let unknown = JobId::new([9; 32]);
    assert_eq!(
        world.refusal("alice", raise(unknown, tgrid(21), 3)),
        TransactionError::UnknownJob { job: unknown }
    );
    let rich = raise(job, Amount::from_tgrid(1_000_000), 3);
    assert_eq!(world.refusal("alice", rich).code(), "TG-LED-005");
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(world.job(job).end(), Some(EndReason::CancelledByRequestor));
    assert_eq!(
        world.refusal("alice", raise(job, tgrid(30), 3)),
        TransactionError::JobEnded {
            job,
            state: JobState::Cancelled
        }
    );
}

#[test]
fn a_sealed_bid_is_not_raised_once_the_others_are_open() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let needs = JobNeeds {
        class: JobClass::Batch,
        ..gpu_needs(1, 60)
    };
    let job = world.open_bid("alice", needs, tgrid(5));
    let refused = world.refusal("alice", raise(job, Amount::from_tgrid(9), 3));
    assert_eq!(refused, TransactionError::BidNotRaised { job });
}
