//! Each transaction of the market with one thing wrong at a time: it is refused for exactly that.

use tg_ledger::{MachineProblem, NeedsProblem, Schedule, TransactionError};
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, Amount, BidId, CapacityTier, Digest, DurationMs, GpuModel, GpuModelSet, JobClass,
    JobNeeds, JobOrder, Machine, OfferId, RegionSet, TierSet, Transaction, bid_id,
};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{TICK, World, address, terms, tgrid, wallet};

#[test]
fn needs_that_no_machine_can_meet() {
    let mut world = World::with_offers();
    type Spoil = fn(&mut JobNeeds);
    let cases: [(NeedsProblem, Spoil); 16] = [
        (NeedsProblem::Gpus, |it| it.gpus = 9),
        (NeedsProblem::Share, |it| it.gpu_milli = 0),
        (NeedsProblem::Share, |it| it.gpu_milli = 1_001),
        (NeedsProblem::Share, |it| (it.gpus, it.gpu_milli) = (2, 500)),
        (NeedsProblem::Share, |it| it.gpus = 0),
        (NeedsProblem::Nothing, |it| it.regions = RegionSet::NONE),
        (NeedsProblem::Nothing, |it| it.models = GpuModelSet::NONE),
        (NeedsProblem::Gang, |it| it.gang = 0),
        (NeedsProblem::Gang, |it| it.gang = 33),
        (NeedsProblem::Priority, |it| it.priority = 0),
        (NeedsProblem::Priority, |it| it.priority = 9),
        (NeedsProblem::Reference, |it| {
            (it.gpus, it.gpu_milli) = (0, 0)
        }),
        (NeedsProblem::Tier, |it| it.preemptible = true),
        (NeedsProblem::Tier, |it| it.tier = CapacityTier::Spot),
        (NeedsProblem::Tier, |it| it.guaranteed = true),
        (NeedsProblem::Tier, |it| it.tier = CapacityTier::Reserved),
    ];
    for (problem, spoil) in cases {
        let mut needs = gpu_needs(1, 1);
        spoil(&mut needs);
        let order = world.order_for(needs);
        let got = world.refusal("alice", Transaction::SubmitJob { order });
        assert_eq!(got, TransactionError::BadNeeds { problem }, "{needs:?}");
    }
    // More GPU time than the network's horizon of a week.
    let order = world.order_for(gpu_needs(1, 8 * 24 * 3_600));
    let got = world.refusal("alice", Transaction::SubmitJob { order });
    let problem = NeedsProblem::Reference;
    assert_eq!(got, TransactionError::BadNeeds { problem });
    let batch = JobNeeds {
        class: JobClass::Batch,
        ..gpu_needs(1, 1)
    };
    let order = world.order_for(batch);
    let got = world.refusal("alice", Transaction::SubmitJob { order });
    assert_eq!(got, TransactionError::BidNeeded);
}

#[test]
fn machines_that_cannot_be() {
    let mut world = World::new();
    type Spoil = fn(&mut Machine);
    let cases: [(MachineProblem, Spoil); 3] = [
        (MachineProblem::Gpus, |it| it.gpu_count = 9),
        (MachineProblem::Region, |it| it.region = 64),
        (MachineProblem::Tiers, |it| it.tiers = TierSet::NONE),
    ];
    let offer = world.post("dear", terms(50));
    world.wait_until(world.time + 10_000);
    for (problem, spoil) in cases {
        let mut terms = gpu_terms(GpuModel::T4, 1, 10);
        spoil(&mut terms.machine);
        let expected = TransactionError::MachineInvalid { problem };
        let post = Transaction::PostOffer {
            terms: terms.clone(),
        };
        assert_eq!(world.refusal("cheap", post), expected);
        let update = Transaction::UpdateOffer { offer, terms };
        assert_eq!(world.refusal("dear", update), expected);
    }
}

#[test]
fn an_offer_may_change_when_the_interval_is_over_and_not_a_millisecond_before() {
    for (early, is_refused) in [(1, true), (0, false)] {
        let mut world = World::new();
        let offer = world.post("cheap", terms(30));
        let interval = world.state.parameters().offer_update_interval.get();
        let due = world.state.offer(&offer).unwrap().updated_at.get() + interval;
        world.wait_until(due - 2 * TICK);
        world.time = due - early - TICK;
        let terms = terms(31);
        let update = world.sign("cheap", Transaction::UpdateOffer { offer, terms });
        let proposed = world.block(vec![update], vec![]);
        let codes = proposed.refused.iter().map(|(_, error)| error.code());
        let expected = if is_refused {
            vec!["TG-LED-059"]
        } else {
            vec![]
        };
        assert_eq!(codes.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn offers_change_slowly_and_never_under_a_lease() {
    let mut world = World::new();
    let old = gpu_terms(GpuModel::T4, 2, 10);
    let offer = world.post("cheap", old.clone());
    let new = gpu_terms(GpuModel::T4, 2, 11);
    let update = |terms: &tg_types::OfferTerms| Transaction::UpdateOffer {
        offer,
        terms: terms.clone(),
    };
    let soon = world.refusal("cheap", update(&new));
    assert_eq!(soon.code(), "TG-LED-059");
    world.wait_until(world.time + 10_000);
    assert_eq!(
        world.refusal("cheap", update(&old)),
        TransactionError::OfferUnchanged { offer }
    );
    assert_eq!(world.refusal("dear", update(&new)).code(), "TG-LED-047");
    let unknown = OfferId::new([9; 32]);
    let other = Transaction::UpdateOffer {
        offer: unknown,
        terms: new.clone(),
    };
    assert_eq!(
        world.refusal("cheap", other),
        TransactionError::UnknownOffer { offer: unknown }
    );
    world.send("cheap", update(&new));
    assert_eq!(world.state.offer(&offer).unwrap().terms, new);
    let job = world.submit("alice", world.order_for(gpu_needs(2, 60)));
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    world.wait_until(world.time + 10_000);
    let smaller = gpu_terms(GpuModel::T4, 1, 11);
    assert_eq!(
        world.refusal("cheap", update(&smaller)),
        TransactionError::OfferInUse { offer }
    );
    let mut bigger = gpu_terms(GpuModel::T4, 4, 99);
    bigger.slots = 1;
    world.send("cheap", update(&bigger));
    // The lease keeps its price.
    assert_eq!(world.lease(job).price, tgrid(1_320 / 2));
}

#[test]
fn deposits_that_are_too_small_or_not_there_are_refused() {
    let mut world = World::new();
    let commitment = Digest::new([1; 32]);
    let mut refused = |deposit| {
        let bid = Transaction::CommitBid {
            commitment,
            deposit,
        };
        world.refusal("alice", bid).code()
    };
    assert_eq!(refused(Amount::new(1)), "TG-LED-061");
    assert_eq!(refused(Amount::from_tgrid(1_000)), "TG-LED-005");
}

const SALT: Digest = Digest::new([7; 32]);

/// When the slot after the one of now begins.
fn next_slot(world: &World) -> u64 {
    let parameters = world.state.parameters();
    let slot = parameters.slot(world.now());
    parameters.slot_begins(slot + 1).get()
}

/// Alice's bid on `order`, ten milliseconds after the last block.
fn bid(world: &mut World, order: &JobOrder) -> BidId {
    let transaction = Transaction::CommitBid {
        commitment: bid_commitment(order, &SALT, &address("alice")),
        deposit: tgrid(20),
    };
    let signed = world.sign("alice", transaction);
    let id = bid_id(signed.id(world.state.domain()));
    world.time -= 990;
    assert_eq!(world.block(vec![signed], vec![]).refused, []);
    id
}

fn refused(
    world: &mut World,
    name: &str,
    bid: BidId,
    order: &JobOrder,
    salt: Digest,
) -> TransactionError {
    world.time -= 990;
    let order = order.clone();
    world.refusal(name, Transaction::RevealBid { bid, salt, order })
}

#[test]
fn bids_that_are_opened_wrongly() {
    let mut world = World::new();
    let needs = JobNeeds {
        class: JobClass::Batch,
        ..gpu_needs(1, 60)
    };
    let order = world.order_for(needs);
    world.wait_until(next_slot(&world));
    let good = bid(&mut world, &order);
    let plain = world.order_for(gpu_needs(1, 60));
    let unfit = bid(&mut world, &plain);
    let urgent = world.order_for(JobNeeds {
        priority: 2,
        ..needs
    });
    let hasty = bid(&mut world, &urgent);
    let early = refused(&mut world, "alice", good, &order, SALT);
    assert_eq!(early.code(), "TG-LED-038");
    world.wait_until(next_slot(&world));
    let mut refused = |name, bid, order, salt| refused(&mut world, name, bid, order, salt);
    let unknown = BidId::new([9; 32]);
    let expected = TransactionError::UnknownBid { bid: unknown };
    assert_eq!(refused("alice", unknown, &order, SALT), expected);
    assert_eq!(refused("bob", good, &order, SALT).code(), "TG-LED-037");
    let wrong = TransactionError::WrongCommitment { bid: good };
    let other_salt = Digest::new([8; 32]);
    assert_eq!(refused("alice", good, &order, other_salt), wrong);
    let mut other = order.clone();
    other.max_attempts += 1;
    assert_eq!(refused("alice", good, &other, SALT), wrong);
    let problem = NeedsProblem::Bid;
    let expected = TransactionError::BadNeeds { problem };
    assert_eq!(refused("alice", unfit, &plain, SALT), expected);
    assert_eq!(refused("alice", hasty, &urgent, SALT), expected);
}

#[test]
fn reports_of_liveness() {
    let mut world = World::with_offers();
    let epoch = Schedule::epoch(world.state.head().height.next());
    let mut two = [address("cheap"), address("dear")];
    two.sort_unstable();
    let report = |epoch, lost: Vec<Address>, back: Vec<Address>| Transaction::ReportLiveness {
        epoch,
        lost,
        back,
    };
    let sender = address("alice");
    assert_eq!(
        world.refusal("alice", report(epoch, vec![], vec![])),
        TransactionError::NotValidator { sender }
    );
    let name = "validator 0";
    let cases = [
        (report(epoch + 1, vec![], vec![]), "TG-LED-076"),
        (report(epoch, vec![two[1], two[0]], vec![]), "TG-LED-078"),
        (report(epoch, vec![two[0], two[0]], vec![]), "TG-LED-078"),
        (report(epoch, vec![address("alice")], vec![]), "TG-LED-078"),
        (report(epoch, vec![], vec![two[0]]), "TG-LED-078"),
        (report(epoch, vec![two[0]], vec![two[0]]), "TG-LED-078"),
    ];
    for (transaction, code) in cases {
        assert_eq!(world.refusal(name, transaction).code(), code);
    }
    let before = world.state.balance(&wallet(name).address());
    world.send(name, report(epoch, two.to_vec(), vec![]));
    assert_eq!(
        world.state.balance(&wallet(name).address()),
        before,
        "it is free"
    );
    let again = world.refusal(name, report(epoch, vec![], vec![two[0]]));
    assert_eq!(again, TransactionError::ReportedBefore { epoch });
}

#[test]
fn a_lease_is_started_once_and_its_gang_is_led_by_one() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let needs = JobNeeds {
        gang: 2,
        neighbourhood_us: 10,
        ..gpu_needs(1, 60)
    };
    let job = world.submit("alice", world.order_for(needs));
    let lead = world.lease(job).clone();
    let member = lead.members()[0];
    let start = |lease| Transaction::StartLease { lease };
    world.send("cheap", start(member));
    let again = world.refusal("cheap", start(member));
    assert_eq!(again, TransactionError::LeaseStarted { lease: member });
    world.send("cheap", start(lead.id));
    let expected = TransactionError::NotGangLead {
        lease: member,
        lead: lead.id,
    };
    assert_eq!(
        world.refusal("cheap", crate::world::commit(member)),
        expected
    );
    assert!(needs.reference > DurationMs::ZERO);
}
