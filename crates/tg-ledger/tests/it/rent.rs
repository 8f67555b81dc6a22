//! Rent: what stays pays, what cannot pay leaves, and nobody but its payer gets a deposit back.

use tg_ledger::rent::{MODEL_BYTES, OFFER_BYTES, RentCategory, job_bytes, name_of_address};
use tg_ledger::{Event, Genesis, JobState, Parameters, State, StorageRule, TransactionError};
use tg_types::{
    Amount, Decode, Digest, DurationMs, Encode, TimestampMs, Transaction, TransactionKind,
};

use crate::fault::hold;
use crate::world::{
    MODEL, TICK, World, address, facts, fee, genesis, parameters, register, rejected, terms, tgrid,
};

const DAY: u64 = 24 * 3_600_000;

/// The test network with the rent of a development network.
fn with_rent() -> World {
    World::with(&Genesis {
        parameters: Parameters {
            rent_full_hour: Parameters::development().rent_full_hour,
            ..parameters()
        },
        ..genesis()
    })
}

fn after(world: &World, days: u64) -> u64 {
    world.time + days * DAY
}

fn expired(events: &[Event]) -> Vec<Digest> {
    let records = events.iter().filter_map(|event| match event {
        Event::RecordExpired { record, .. } => Some(*record),
        _ => None,
    });
    records.collect()
}

#[test]
fn an_offer_pays_what_it_used_and_its_payer_gets_the_rest() {
    let mut world = with_rent();
    let before = world.balance("cheap");
    let charge = world.state.charge(RentCategory::Offers, OFFER_BYTES);
    let record = world.state.provider_charge(&address("cheap"));
    let offer = world.post("cheap", terms(30));
    let gas = fee(TransactionKind::PostOffer);
    let paid = [gas, charge.total(), record.total()];
    let paid = paid.into_iter().fold(Amount::ZERO, Amount::saturating_add);
    assert_eq!(world.balance("cheap"), before.checked_sub(paid).unwrap());
    // Less than a thousandth of a TGRID a day, for offer and record.
    let deposits = charge.deposit.get() + record.deposit.get();
    assert!(deposits / 7 < tgrid(1).get(), "{deposits}");
    let state = &world.state;
    let proof = state.prove_offer(&offer);
    let key = tg_ledger::LeafKey::of(tg_ledger::tree::kind::OFFER, offer.as_ref());
    let (head, _) = proof.verify(&state.root(), &key).unwrap().unwrap();
    assert_eq!(
        (head.payer, head.deposit),
        (address("cheap"), charge.deposit)
    );
    world.wait_until(after(&world, 1));
    let before = world.balance("cheap");
    world.send("cheap", Transaction::WithdrawOffer { offer });
    let gas = fee(TransactionKind::WithdrawOffer);
    let back = world.balance("cheap").get() + gas.get() - before.get();
    let day = charge.deposit.get() / 7;
    let used = charge.deposit.get() - back;
    assert!(used >= day && used < day + day / 100, "{used} {day}");
}

#[test]
fn an_offer_whose_rent_is_spent_leaves_unless_anyone_pays_for_it() {
    let mut world = with_rent();
    let lapses = world.post("cheap", terms(30));
    let stays = world.post("middle", terms(40));
    let pay = |record, amount| Transaction::PayRent { record, amount };
    let name = Digest::new(*stays.as_bytes());
    world.send("mallory", pay(name, tgrid(1_000)));
    let mut events = world.wait_until(after(&world, 8));
    events.extend(world.idle());
    assert_eq!(expired(&events)[..1], [Digest::new(*lapses.as_bytes())]);
    assert!(world.state.offer(&lapses).is_none());
    assert!(world.state.offer(&stays).is_some());
    // The provider's record went with its last offer; the other's is in use.
    let cheap = name_of_address(&address("cheap"));
    assert_eq!(expired(&events)[1..], [cheap]);
    assert!(world.state.provider(&address("cheap")).is_none());
    assert!(world.state.provider(&address("middle")).is_some());
    // What mallory gave is not mallory's any more.
    let (before, gift) = (world.balance("mallory"), world.balance("middle"));
    world.send("middle", Transaction::WithdrawOffer { offer: stays });
    assert_eq!(world.balance("mallory"), before);
    assert!(world.balance("middle") > gift);
    // And the first one comes back by posting again.
    world.post("cheap", terms(30));
    let restored = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(restored.root(), world.state.root());
}

#[test]
fn attempts_that_are_added_pay_their_rent() {
    let mut world = with_rent();
    world.activate_model(facts());
    let mut order = world.order();
    order.max_attempts = 1;
    let max_price = order.max_price;
    let job = world.submit("alice", order);
    let (rent, balance) = (world.job(job).rent, world.balance("alice"));
    let next = TimestampMs::new(world.time + TICK);
    let charge = world.state.raise_charge(world.job(job), 10, next);
    let raise = |max_price, max_attempts| Transaction::RaiseJob {
        job,
        max_price,
        max_attempts,
    };
    world.send("alice", raise(max_price, 10));
    let raised = world.job(job);
    assert_eq!(raised.rent.bytes, job_bytes(&raised.order));
    assert_eq!(raised.rent.bytes - rent.bytes, charge.bytes);
    assert!(raised.rent.deposit > rent.deposit);
    let gas = fee(TransactionKind::RaiseJob);
    let paid = balance.checked_sub(world.balance("alice"));
    assert_eq!(paid, Some(charge.total().saturating_add(gas)));
    // A higher price takes no room.
    let (rent, balance) = (raised.rent, world.balance("alice"));
    let more = max_price.saturating_add(tgrid(1));
    world.send("alice", raise(more, 10));
    assert_eq!(world.job(job).rent, rent);
    let paid = balance.checked_sub(world.balance("alice"));
    assert_eq!(paid, Some(tgrid(1).saturating_add(gas)));
}

#[test]
fn a_job_that_ended_pays_the_rent_of_ended_jobs() {
    let mut world = with_rent();
    world.activate_model(facts());
    let order = world.order();
    let job = world.submit("alice", order);
    let name = Digest::new(*job.as_bytes());
    let category = |world: &World| world.state.rent_of(&name).unwrap().category;
    assert_eq!(category(&world), RentCategory::OpenJobs);
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(category(&world), RentCategory::EndedJobs);
}

#[test]
fn rent_of_nothing_and_for_nothing_is_refused() {
    let mut world = with_rent();
    let offer = world.post("cheap", terms(30));
    let pay = |record, amount| Transaction::PayRent { record, amount };
    for record in [Digest::new([9; 32]), name_of_address(&address("alice"))] {
        assert_eq!(
            world.refusal("alice", pay(record, tgrid(1))),
            TransactionError::NoTenant { record }
        );
    }
    let record = Digest::new(*offer.as_bytes());
    assert_eq!(
        world.refusal("alice", pay(record, Amount::ZERO)),
        TransactionError::NoRent
    );
    let error = world.refusal("alice", pay(record, Amount::from_tgrid(1_000)));
    assert_eq!(error.code(), "TG-LED-005");
    world.send("alice", pay(name_of_address(&address("cheap")), tgrid(1)));
}

#[test]
fn refused_models_leave_within_minutes() {
    let mut world = with_rent();
    let charge = world.state.charge(RentCategory::Models, MODEL_BYTES);
    assert!(charge.deposit.get() / 7 < tgrid(10).get());
    let before = world.balance("bob");
    world.send("bob", register());
    let task = world.state.pending_evidence().next().unwrap();
    world.decide(&task, rejected());
    // Nearly all of the deposit is back at once.
    let paid = before.get() - world.balance("bob").get();
    let fees = tgrid(100).saturating_add(fee(TransactionKind::RegisterModel));
    let lost = paid - fees.get();
    assert!(lost < charge.deposit.get() / 100, "{lost}");
    world.wait_until(world.time + 500_000);
    assert!(world.state.model(&MODEL).is_some());
    let events = world.wait_until(world.time + 120_000);
    assert_eq!(expired(&events), [Digest::new(*MODEL.as_bytes())]);
    assert!(world.state.model(&MODEL).is_none());
    assert_eq!(world.state.account(&address("bob")).unwrap().models, 0);
    // So does one whose public part never came.
    world.send("bob", register());
    world.wait_until(world.time + 31_000);
    world.wait_until(world.time + 620_000);
    assert!(world.state.model(&MODEL).is_none());
    // The id is free for whoever has the right parts.
    world.activate_model(facts());
    assert!(world.state.model(&MODEL).is_some());
}

#[test]
fn a_model_with_an_open_job_stays_until_the_job_ends() {
    let mut world = with_rent();
    world.activate_model(facts());
    world.wait_until(after(&world, 6));
    let mut order = world.order();
    order.deadline = tg_types::TimestampMs::new(after(&world, 4));
    let job = world.submit("alice", order);
    assert_eq!(world.state.model(&MODEL).unwrap().jobs, 1);
    world.wait_until(after(&world, 3));
    assert_eq!(world.job(job).state(), JobState::Queued);
    assert!(world.state.model(&MODEL).is_some());
    world.wait_until(after(&world, 2));
    world.idle();
    assert_eq!(world.job(job).state(), JobState::Expired);
    assert!(world.state.model(&MODEL).is_none());
    // A day later the job itself is gone.
    world.wait_until(after(&world, 2));
    assert!(world.state.job(&job).is_none());
    assert!(world.state.ended_jobs().next().is_none());
}

#[test]
fn an_offer_with_a_live_lease_stays() {
    let mut world = with_rent();
    world.activate_model(facts());
    let mut slow = terms(30);
    slow.latency_base_ms = tg_types::DurationMs::from_secs(2 * 24 * 3600);
    let offer = world.post("cheap", slow);
    world.wait_until(after(&world, 6));
    let mut order = world.order();
    order.deadline = tg_types::TimestampMs::new(after(&world, 6));
    let job = world.submit("alice", order);
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.wait_until(after(&world, 3));
    assert_eq!(world.job(job).state(), JobState::Running);
    assert!(world.state.offer(&offer).is_some());
    assert!(world.state.provider(&address("cheap")).is_some());
    world.wait_until(after(&world, 4));
    world.idle();
    assert!(world.job(job).state().is_final());
    assert!(world.state.offer(&offer).is_none());
}

#[test]
fn a_provider_whose_penalty_waits_stays() {
    let mut world = World::with(&Genesis {
        parameters: Parameters {
            rent_full_hour: Parameters::development().rent_full_hour,
            storage: StorageRule::Stated,
            verification_timeout: DurationMs::from_secs(20 * 24 * 3600),
            unbonding: DurationMs::from_secs(21 * 24 * 3600),
            ..parameters()
        },
        ..genesis()
    });
    world.activate_model(facts());
    world.post("cheap", terms(30));
    hold(&mut world, 0..3, MODEL);
    // A deposit lasts for a week, which is also as far as a deadline may lie ahead.
    world.wait_until(after(&world, 2));
    let mut order = world.order();
    order.deadline = tg_types::TimestampMs::new(after(&world, 6));
    let job = world.submit("alice", order);
    hold(&mut world, 0..3, job);
    let lease = world.lease(job).id;
    let reason = tg_types::DeclineReason::InputMissing;
    world.send("cheap", Transaction::DeclineLease { lease, reason });
    let waits = world.state.lease(&lease).unwrap().locked();
    assert!(!waits.is_zero());
    // The rent of the provider's record is spent while the validators have not answered.
    world.wait_until(after(&world, 5) + DAY / 2);
    world.idle();
    assert!(world.state.provider(&address("cheap")).is_some());
    world.send("alice", Transaction::CancelJob { job });
    let released = world
        .state
        .lease(&lease)
        .is_none_or(|it| it.locked().is_zero());
    assert!(released, "the penalty goes back with the end of the job");
    // Nothing refers to the record any more.
    world.wait_until(after(&world, 1));
    world.idle();
    assert!(world.state.provider(&address("cheap")).is_none());
}

#[test]
fn accounts_of_dust_leave_and_others_pay_their_rent() {
    let mut world = with_rent();
    let opened = world.state.account_charge();
    let before = world.balance("alice");
    let pay = |to: &str, amount| Transaction::Transfer {
        to: address(to),
        amount,
    };
    let gas = fee(TransactionKind::Transfer);
    world.send("alice", pay("dust", tgrid(10).saturating_add(gas)));
    world.send("alice", pay("saver", Amount::from_tgrid(1)));
    let spent = tgrid(1_010).get() + 3 * gas.get() + 2 * opened.get();
    assert_eq!(before.get() - world.balance("alice").get(), spent);
    // All but nothing goes on, and what is left is an account of dust.
    world.send("dust", pay("alice", tgrid(10)));
    assert_eq!(world.balance("dust"), Amount::ZERO);
    let mut events = world.wait_until(after(&world, 31));
    events.extend(world.idle());
    assert_eq!(expired(&events), [name_of_address(&address("dust"))]);
    assert!(world.state.account(&address("dust")).is_none());
    let day = opened.get() / 30;
    let paid = Amount::from_tgrid(1).get() - world.balance("saver").get();
    assert!(paid >= day && paid < 2 * day, "{paid} {day}");
    // Validators own nothing here and stay.
    for validator in world.state.validators() {
        assert!(world.state.account(&validator.address).is_some());
    }
}

#[test]
fn a_job_pays_for_its_place_and_gets_the_rest_back_with_its_end() {
    let mut world = with_rent();
    world.activate_model(facts());
    world.post("cheap", terms(30));
    let before = world.balance("alice");
    let job = world.submit("alice", world.order());
    let locked = world.job(job).rent;
    assert_eq!(locked.payer, address("alice"));
    assert!(!locked.deposit.is_zero());
    let task = world.work(job);
    world.decide(&task, tg_ledger::Outcome::LeaseAccepted);
    assert!(world.job(job).rent.deposit < locked.deposit);
    // Price, verification and fee; rent of seconds and of a day afterwards is less than a ten-thousandth.
    let paid = before.get() - world.balance("alice").get();
    let gas = fee(TransactionKind::SubmitJob);
    let rent = paid - tgrid(30 + 10).saturating_add(gas).get();
    assert!(rent < tgrid(1).get() / 10, "{rent}");
}
