//! The last moment in a gang: who starts or hands in its part so late that another member cannot finish has nothing of what that one loses.

use tg_ledger::{EndReason, Event, JobState, LatePhase, Lease, LeaseEnd, TransactionError};
use tg_types::{
    Amount, DeclineReason, JobId, JobOrder, TimestampMs, Transaction, VerificationMode,
};

use crate::world::{PEOPLE, TICK, World, address, commit, facts, genesis, lease_fee, part, terms};

fn with_two_offers() -> World {
    let mut world = World::new();
    for (name, price) in [("cheap", 30), ("middle", 40)] {
        world.post(name, terms(price));
    }
    world
}

fn of_two(world: &World) -> JobOrder {
    let mut order = world.order();
    order.mode = VerificationMode::None;
    order.needs.gang = 2;
    order
}

fn name_of(lease: &Lease) -> &'static str {
    let mut all = PEOPLE.into_iter();
    all.find(|name| address(name) == lease.provider).unwrap()
}

fn gang(world: &World, job: JobId) -> (Lease, Lease) {
    let lead = world.live(job);
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    (lead, member)
}

/// A gang of which all have started.
fn running() -> (World, JobId, Lease, Lease) {
    let mut world = with_two_offers();
    let order = of_two(&world);
    let job = world.submit("alice", order);
    let (lead, member) = gang(&world, job);
    world.start_all(&lead);
    assert_eq!(world.job(job).state(), JobState::Running);
    (world, job, lead, member)
}

fn least(world: &World) -> u64 {
    let validators = world.state.validators().len();
    world.state.parameters().least_window(validators).get()
}

/// The time that each of the offers declares.
fn declared() -> u64 {
    terms(0).duration(facts().macs).get()
}

fn ended(world: &World, lease: &Lease) -> Option<LeaseEnd> {
    world.state.lease(&lease.id).unwrap().end().cloned()
}

#[test]
fn a_part_that_leaves_the_lead_no_time_is_refused_and_its_member_is_the_late_one() {
    let (mut world, _, lead, member) = running();
    let leads = name_of(&lead);
    let before = world.balance(leads);
    world.wait_until(lead.deadline.get() - least(&world) + 1);
    let late = TransactionError::PartTooLate { lease: member.id };
    assert_eq!(world.refusal(name_of(&member), part(member.id)), late);
    let events = world.wait_until(lead.deadline.get() + 1);
    assert_eq!(
        ended(&world, &member),
        Some(LeaseEnd::Late(LatePhase::Running))
    );
    assert_eq!(ended(&world, &lead), Some(LeaseEnd::Released));
    assert!(world.balance(leads) >= before.saturating_add(lead.collateral));
    // The dearest leads, and nearly all of its time is over. Others have at most what the one that was late was to be paid.
    assert!(lead.price.saturating_mul(9) > member.price.saturating_mul(10));
    let paid = events.iter().find_map(|event| match event {
        Event::Compensated { lease, amount, .. } if *lease == lead.id => Some(*amount),
        _ => None,
    });
    let paid = paid.unwrap();
    assert!(paid > Amount::ZERO && paid <= member.price);
}

#[test]
fn a_part_of_the_last_moment_that_is_in_time_leaves_the_lead_a_window() {
    let (mut world, job, lead, member) = running();
    world.time = lead.deadline.get() - least(&world) - TICK;
    world.send(name_of(&member), part(member.id));
    world.send(name_of(&lead), commit(lead.id));
    assert_eq!(world.job(job).state(), JobState::Paid);
    assert_eq!(ended(&world, &lead), Some(LeaseEnd::Fulfilled));
}

#[test]
fn a_lease_of_a_gang_has_time_for_the_start_of_the_others_and_for_their_parts() {
    let (mut world, job, lead, member) = running();
    let parameters = world.state.parameters();
    let expected = declared() * u64::from(parameters.duration_factor)
        + parameters.lease_grace.get()
        + parameters.start_timeout.get()
        + least(&world);
    for lease in [&lead, &member] {
        let longest = lease.deadline.saturating_since(lease.grant.from).get();
        assert_eq!(longest, expected);
    }
    // Which is no time that an offer declared: both worked for longer than that, and are paid whole.
    let events = world.send("alice", Transaction::CancelJob { job });
    for lease in [&lead, &member] {
        let paid = events.iter().find_map(|event| match event {
            Event::HolderPaid {
                lease: of, amount, ..
            } if *of == lease.id => Some(*amount),
            _ => None,
        });
        assert_eq!(paid, Some(lease.price));
    }
}

/// Stops: a requestor whose deadline leaves a member nothing once another one has started at the last moment.
#[test]
fn a_gang_risks_little_unless_its_deadline_leaves_time_for_the_last_start_and_part() {
    let little = lease_fee().saturating_mul(10);
    let start = with_two_offers().state.parameters().start_timeout.get();
    let window = least(&with_two_offers());
    let enough = declared() + start + 2 * window;
    for (left, is_little) in [
        (declared() + window, true),
        (enough - 1, true),
        (enough, false),
    ] {
        let mut world = with_two_offers();
        let mut order = of_two(&world);
        order.deadline = TimestampMs::new(world.time + TICK + left);
        let job = world.submit("alice", order);
        let (lead, member) = gang(&world, job);
        for lease in [lead, member] {
            let expected = match is_little {
                true => little,
                false => lease.collateral,
            };
            assert_eq!(lease.at_risk, expected, "{left} ms");
        }
    }
}

/// Stops: members that decline one lease after the other, each of which is a record for every member that nobody paid rent for.
#[test]
fn a_gang_that_is_declined_again_and_again_has_eight_leases_beside_its_attempts() {
    let names: Vec<String> = (0..10).map(|number| format!("member {number}")).collect();
    let mut genesis = genesis();
    let accounts = names
        .iter()
        .map(|name| (address(name), Amount::from_tgrid(100)));
    genesis.accounts.extend(accounts);
    genesis.accounts.sort();
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    for name in &names {
        world.post(name, terms(30));
    }
    let mut order = of_two(&world);
    order.max_attempts = 1;
    let job = world.submit("alice", order);
    for _ in 0..9 {
        assert_eq!(world.job(job).state(), JobState::Leased);
        let lead = world.live(job);
        let mut all = names.iter();
        let leads = all.find(|name| address(name) == lead.provider).unwrap();
        let decline = Transaction::DeclineLease {
            lease: lead.id,
            reason: DeclineReason::Unwilling,
        };
        world.send(leads, decline);
    }
    assert_eq!(world.job(job).end(), Some(EndReason::AttemptsExhausted));
}
