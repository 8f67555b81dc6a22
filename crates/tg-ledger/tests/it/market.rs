//! Matching inside the ledger: order of the queue, slots, funds, and why a job waits.

use tg_ledger::JobState;
use tg_market::Constraint;
use tg_types::{Amount, DurationMs, Transaction, TransactionKind};

use crate::world::{World, address, fee, terms, tgrid};

#[test]
fn jobs_of_one_block_fill_the_cheapest_slots_in_their_order() {
    let mut world = World::with_offers();
    let order = world.order();
    let nonce = world.state.nonce(&address("alice"));
    let alice = crate::world::wallet("alice");
    let signed: Vec<_> = (0..7)
        .map(|index| {
            let order = order.clone();
            let submit = Transaction::SubmitJob { order };
            alice.sign(submit, nonce + index, world.state.domain())
        })
        .collect();
    let jobs: Vec<_> = signed
        .iter()
        .map(|it| tg_types::job_id(it.id(world.state.domain())))
        .collect();
    let proposed = world.block(signed, vec![]);
    assert_eq!(proposed.refused, []);
    let holders: Vec<_> = jobs[..6].iter().map(|job| world.holder(*job)).collect();
    assert_eq!(
        holders,
        ["cheap", "cheap", "middle", "middle", "dear", "dear"]
    );
    assert_eq!(world.job(jobs[6]).state(), JobState::Queued);
    let why = world.state.why_waiting(&jobs[6]).unwrap();
    assert_eq!(why.placement.chosen, None);
    assert_eq!(
        why.placement.rejections.iter().collect::<Vec<_>>(),
        [(Constraint::Slots, 3)]
    );
    assert_eq!(why.assessments.len(), 3);
    // A slot that becomes free goes to the job that waits.
    let task = world.work(jobs[4]);
    world.decide(&task, tg_ledger::Outcome::LeaseAccepted);
    assert_eq!(world.holder(jobs[6]), "dear");
    assert_eq!(world.state.why_waiting(&jobs[6]), None);
}

#[test]
fn a_waiting_job_is_told_every_reason() {
    let mut world = World::with_offers();
    let mut order = world.order();
    order.max_price = tgrid(29);
    let job = world.submit("alice", order);
    let mut slow = terms(10);
    slow.latency_base_ms = DurationMs::from_secs(100_000);
    world.post("mallory", slow);
    let why = world.state.why_waiting(&job).unwrap();
    assert_eq!(
        why.placement.rejections.iter().collect::<Vec<_>>(),
        [(Constraint::Price, 3), (Constraint::Deadline, 1)]
    );
    assert_eq!(why.placement.considered, 4);
    // An offer that fits ends the wait.
    world.post("bob", terms(20));
    assert_eq!(world.holder(job), "bob");
}

#[test]
fn an_order_can_be_assessed_before_it_is_signed() {
    let world = World::with_offers();
    let assessments = world.state.assess_order(&world.order()).unwrap();
    let prices: Vec<_> = assessments
        .iter()
        .map(|it| it.quote.unwrap().price)
        .collect();
    assert_eq!(prices, [tgrid(30), tgrid(40), tgrid(50)]);
    let mut unknown = world.order();
    unknown.model = tg_types::ModelId::new([0; 32]);
    assert_eq!(world.state.assess_order(&unknown), None);
}

#[test]
fn a_provider_is_never_given_more_than_it_can_lock() {
    let mut world = World::new();
    let mut wide = terms(30);
    wide.slots = 10;
    // 100 TGRID, less the fee of the offer: two leases of 40 and their fees, not three.
    wide.collateral_per_lease = Amount::from_tgrid(40);
    world.post("cheap", wide);
    let jobs: Vec<_> = (0..3)
        .map(|_| world.submit("alice", world.order()))
        .collect();
    let states: Vec<_> = jobs.iter().map(|job| world.job(*job).state()).collect();
    assert_eq!(
        states,
        [JobState::Leased, JobState::Leased, JobState::Queued]
    );
    let why = world.state.why_waiting(&jobs[2]).unwrap();
    assert_eq!(why.placement.rejections.count(Constraint::Funds), 1);
}

#[test]
fn a_provider_keeps_what_it_needs_to_hand_in() {
    let mut world = World::new();
    let mut all_in = terms(30);
    // Everything it will have after the fee of posting the offer, so nothing would be left for the gas of the lease.
    all_in.collateral_per_lease =
        Amount::from_tgrid(100).saturating_sub(fee(TransactionKind::PostOffer));
    world.post("cheap", all_in);
    let job = world.submit("alice", world.order());
    assert_eq!(world.job(job).state(), JobState::Queued);
}
