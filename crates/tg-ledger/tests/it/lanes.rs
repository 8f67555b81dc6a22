//! The lanes of the market inside blocks. [`World::block`] counts money and machines after every block.

use tg_ledger::{
    AbandonedBecause, Decision, EndReason, Event, Genesis, JobState, LatePhase, Lease, LeaseEnd,
    Outcome, Parameters, Schedule, State,
};
use tg_market::OfferFacts;
use tg_market::placement::ask;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Amount, BidId, CapacityTier, Decode, Digest, DurationMs, Encode, GpuModel, GpuModelSet,
    JobClass, JobId, JobNeeds, JobOrder, Machine, OfferTerms, Pricing, SharingMode, SharingSet,
    TierSet, TimestampMs, Transaction, TransactionKind, VerificationMode, bid_id, job_id,
};

use crate::due::next_timeout;
use crate::world::{
    PEOPLE, TICK, World, address, commit, facts, fee, genesis, lease_fee, part, terms, tgrid,
    wallet,
};

/// A machine with `gpus` of `model`, 16 GiB each.
pub(crate) fn machine(model: GpuModel, gpus: u8) -> Machine {
    Machine {
        gpu_count: gpus,
        gpu: model,
        gpu_memory_mib: 16_384,
        capability: 80,
        tensor_cores: true,
        sharing: SharingSet::of(&[SharingMode::TimeSlice, SharingMode::Mps]),
        cpu_milli: 64_000,
        memory_mib: 262_144,
        disk_gib: 1_000,
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    }
}

/// An offer of such a machine that asks `milli` thousandths of a TGRID for a second of one GPU, and nothing else.
pub(crate) fn gpu_terms(model: GpuModel, gpus: u8, milli: u64) -> OfferTerms {
    OfferTerms {
        machine: machine(model, gpus),
        price_per_gpu_second: tgrid(milli),
        latency_base_ms: DurationMs::ZERO,
        slots: 64,
        ..terms(0)
    }
}

/// A job of `seconds` on `gpus` whole T4.
pub(crate) fn gpu_needs(gpus: u8, seconds: u64) -> JobNeeds {
    JobNeeds {
        gpus,
        gpu_milli: 1_000,
        reference: DurationMs::from_secs(seconds),
        ..JobNeeds::ANY_MACHINE
    }
}

impl World {
    pub(crate) fn order_for(&self, needs: JobNeeds) -> JobOrder {
        JobOrder {
            mode: VerificationMode::None,
            max_price: Amount::from_tgrid(10),
            needs,
            ..self.order()
        }
    }

    pub(crate) fn live(&self, job: JobId) -> Lease {
        assert_eq!(self.job(job).end(), None);
        self.lease(job).clone()
    }

    /// Every member starts, then the lead hands in the result of a job of mode `none` after the time that its offer
    /// declares, so that nothing is learned about its GPUs.
    pub(crate) fn finish(&mut self, job: JobId) {
        let lead = self.live(job);
        let offer = self.state.offer(&lead.offer).unwrap().terms.clone();
        let (macs, needs) = (self.job(job).macs, self.job(job).order.needs);
        let declared = ask(&offer, &OfferFacts::default(), macs, &needs).1;
        self.finish_in(job, declared.get());
    }

    /// As [`Self::finish`], `took` milliseconds after the start.
    pub(crate) fn finish_in(&mut self, job: JobId, took: u64) {
        let lead = self.live(job);
        self.start_all(&lead);
        let started = self.state.lease(&lead.id).unwrap().started_at().unwrap();
        self.time = self.time.max((started.get() + took).saturating_sub(TICK));
        for lease in lead.members() {
            let provider = self.state.lease(lease).unwrap().provider;
            let name = PEOPLE.into_iter().find(|it| address(it) == provider);
            self.send(name.unwrap(), part(*lease));
        }
        self.send(self.holder(job), commit(lead.id));
        assert_eq!(self.job(job).state(), JobState::Paid);
    }

    pub(crate) fn start_all(&mut self, lead: &Lease) {
        let leases: Vec<Lease> = self.state.gang_of(lead).cloned().collect();
        for lease in leases.into_iter().filter(|it| it.started_at().is_none()) {
            let name = PEOPLE.into_iter().find(|it| address(it) == lease.provider);
            self.send(name.unwrap(), Transaction::StartLease { lease: lease.id });
        }
    }

    pub(crate) fn bid(
        &mut self,
        name: &str,
        salt: u8,
        needs: JobNeeds,
        price: Amount,
    ) -> (BidId, JobOrder, Digest) {
        let order = JobOrder {
            max_price: price,
            ..self.order_for(JobNeeds {
                class: JobClass::Batch,
                ..needs
            })
        };
        let salt = Digest::new([salt; 32]);
        let transaction = Transaction::CommitBid {
            commitment: bid_commitment(&order, &salt, &address(name)),
            deposit: tgrid(20),
        };
        let signed = self.sign(name, transaction);
        let id = bid_id(signed.id(self.state.domain()));
        assert_eq!(self.block(vec![signed], vec![]).refused, []);
        (id, order, salt)
    }

    pub(crate) fn reveal(
        &mut self,
        name: &str,
        (bid, order, salt): (BidId, JobOrder, Digest),
    ) -> JobId {
        let signed = self.sign(name, Transaction::RevealBid { bid, salt, order });
        let id = job_id(signed.id(self.state.domain()));
        assert_eq!(self.block(vec![signed], vec![]).refused, []);
        id
    }

    /// A bid that was sealed in one slot and opened in the next.
    pub(crate) fn open_bid(&mut self, name: &str, needs: JobNeeds, price: Amount) -> JobId {
        let sealed = self.bid(name, 7, needs, price);
        self.next_slot();
        self.reveal(name, sealed)
    }

    /// Lets the slot end in which `time` lies.
    pub(crate) fn next_slot(&mut self) {
        let parameters = *self.state.parameters();
        let slot = parameters.slot(self.now());
        self.wait_until(parameters.slot_begins(slot + 1).get());
    }

    pub(crate) fn decisions(events: &[Event]) -> Vec<Decision> {
        let scheduled = events.iter().filter_map(|event| match event {
            Event::Scheduled { decisions, .. } => Some(decisions.clone()),
            _ => None,
        });
        scheduled.flatten().collect()
    }
}

#[test]
fn gpu_time_is_paid_by_what_it_takes_on_the_machine() {
    let mut world = World::new();
    // An A10 does integer inference at 2500/1300 of a T4, so a T4's 130 s are 67.6 s there.
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.post("dear", gpu_terms(GpuModel::A10, 2, 15));
    let job = world.submit("alice", world.order_for(gpu_needs(1, 130)));
    assert_eq!(world.holder(job), "dear");
    let lease = world.live(job);
    assert!(lease.price < tgrid(1_300) && lease.price > tgrid(1_000));
    assert_eq!((lease.grant.gpus(), lease.grant.gpu_milli), (1, 1_000));
    assert_eq!(lease.grant.gpu_memory_mib, 16_384);
    assert_eq!(lease.grant.sharing, SharingMode::Whole);
    world.finish(job);
}

#[test]
fn shares_of_a_gpu_fill_it_and_no_more() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let share = |milli, mib, isolation| JobNeeds {
        gpu_milli: milli,
        gpu_memory_mib: mib,
        isolation,
        ..gpu_needs(1, 60)
    };
    let first = world.submit(
        "alice",
        world.order_for(share(500, 8_000, SharingMode::Mps)),
    );
    assert_eq!(world.live(first).grant.sharing, SharingMode::Mps);
    // There is compute for another half, but not the memory.
    let second = world.submit(
        "alice",
        world.order_for(share(500, 9_000, SharingMode::TimeSlice)),
    );
    assert_eq!(world.job(second).state(), JobState::Queued);
    let third = world.submit(
        "alice",
        world.order_for(share(250, 7_000, SharingMode::TimeSlice)),
    );
    assert_eq!(world.job(third).state(), JobState::Leased);
    // Nobody shares hardware on this machine.
    let fourth = world.submit("alice", world.order_for(share(250, 10, SharingMode::Mig)));
    let why = world.state.why_waiting(&fourth).unwrap();
    let broken: Vec<_> = why.placement.rejections.iter().collect();
    assert_eq!(broken, [(tg_market::Constraint::Isolation, 1)]);
    world.finish_in(first, 1_000);
    assert_eq!(world.job(second).state(), JobState::Leased);
}

#[test]
fn a_machine_is_free_again_while_validators_verify() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let mut order = world.order_for(gpu_needs(1, 60));
    order.mode = VerificationMode::Proof;
    let first = world.submit("alice", order.clone());
    let second = world.submit("alice", order);
    assert_eq!(world.job(second).state(), JobState::Queued);
    let task = world.work(first);
    assert_eq!(world.job(first).state(), JobState::Verifying);
    assert_eq!(world.job(second).state(), JobState::Leased);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.job(first).state(), JobState::Paid);
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.post("middle", gpu_terms(GpuModel::T4, 1, 12));
    let gang = |members| JobNeeds {
        gang: members,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    // Three GPUs, but two machines: each member has one of its own.
    let too_many = world.submit("alice", world.order_for(gang(3)));
    assert_eq!(world.job(too_many).state(), JobState::Queued);
    let mut far = gpu_terms(GpuModel::T4, 2, 10);
    far.machine.coordinate_us = [50_000, 0];
    world.post("dear", far);
    // Three machines now, but not near each other.
    world.idle();
    assert_eq!(world.job(too_many).state(), JobState::Queued);
    let three = world.submit("alice", world.order_for(gang(2)));
    let lead = world.live(three);
    assert_eq!(lead.members().len(), 1);
    let leases: Vec<Lease> = world.state.gang_of(&lead).cloned().collect();
    let cheap = leases.iter().filter(|it| it.provider == address("cheap"));
    assert_eq!(cheap.count(), 1);
    let before = [world.balance("cheap"), world.balance("middle")];
    world.finish(three);
    let paid = leases
        .iter()
        .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.price));
    assert!(world.balance("cheap") > before[0] && world.balance("middle") > before[1]);
    let settlement = world.job(three).settlement().unwrap();
    assert_eq!(settlement.price.saturating_add(settlement.members), paid);
}

#[test]
fn who_does_not_join_its_gang_pays_and_the_others_do_not() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    world.post("middle", gpu_terms(GpuModel::T4, 1, 12));
    let needs = JobNeeds {
        gang: 2,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    let job = world.submit("alice", world.order_for(needs));
    let lead = world.live(job);
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    let leader = world.holder(job);
    world.send(leader, Transaction::StartLease { lease: lead.id });
    assert_eq!(world.job(job).state(), JobState::Leased);
    let events = world.wait_until(lead.start_by.get() + 1);
    let ended = |id| world.state.lease(&id).unwrap().end();
    assert_eq!(ended(lead.id), Some(&LeaseEnd::Released));
    let absent = LeaseEnd::Abandoned(AbandonedBecause::NotStarted);
    assert_eq!(ended(member.id), Some(&absent));
    assert_eq!(world.job(job).excluded, [member.provider]);
    // Who was there is paid for the time it waited, out of what the other one forfeited.
    let waited = lead.start_by.get() + 1
        - world
            .state
            .lease(&lead.id)
            .unwrap()
            .started_at()
            .unwrap()
            .get();
    let whole = lead.deadline.saturating_since(lead.grant.from).get();
    let due = lead.price.checked_mul_div_ceil(waited, whole).unwrap();
    let paid = events.iter().find_map(|event| match event {
        Event::Compensated { lease, amount, .. } if *lease == lead.id => Some(*amount),
        _ => None,
    });
    let forfeited = events.iter().find_map(|event| match event {
        Event::Forfeited { lease, amount, .. } if *lease == member.id => Some(*amount),
        _ => None,
    });
    // At most what the other one forfeited.
    assert!(paid > Some(Amount::ZERO) && paid <= Some(due) && paid <= forfeited);
}

#[test]
fn a_guaranteed_deadline_is_reserved_or_refused_at_once() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let runs = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let ends = world.live(runs).deadline;
    let guaranteed = JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    };
    let alice = world.balance("alice");
    let mut tight = world.order_for(guaranteed);
    tight.deadline = TimestampMs::new(ends.get() + 59_000);
    let refused = world.submit("alice", tight);
    assert_eq!(world.job(refused).end(), Some(EndReason::NotAdmitted));
    // All it cost was the fee.
    let ordering = fee(TransactionKind::SubmitJob);
    assert_eq!(alice.checked_sub(world.balance("alice")), Some(ordering));
    let admitted = world.submit("alice", world.order_for(guaranteed));
    let booked = world.live(admitted);
    assert_eq!(booked.grant.from, TimestampMs::new(ends.get() + 1));
    assert_eq!(world.state.stock().bookings(&booked.offer).count(), 1);
    let lease = booked.id;
    let early = world.refusal("cheap", Transaction::StartLease { lease });
    assert_eq!(early.code(), "TG-LED-068");
    // What is free until then goes to nobody who might still run when it begins.
    world.finish(runs);
    let other = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    assert_eq!(world.job(other).state(), JobState::Queued);
    world.wait_until(booked.grant.from.get());
    world.finish(admitted);
    let first = world.job(admitted).history.last().unwrap().at;
    assert!(first <= world.job(admitted).order.deadline);
    assert_eq!(world.job(other).state(), JobState::Leased);
}

/// Stops: machines of others kept free, for the gas of a lease, until just before what was reserved begins.
#[test]
fn who_takes_a_reservation_back_pays_for_the_part_of_its_wait_that_is_over() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let runs = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    world.start_all(&world.live(runs));
    let guaranteed = JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    };
    let mut paid = Vec::new();
    for share in [1, 2, 4] {
        let job = world.submit("bob", world.order_for(guaranteed));
        let lease = world.live(job);
        let wait = lease.grant.from.get() - lease.matched_at.get();
        assert!(wait > 60_000, "longer than it takes");
        world.time = lease.matched_at.get() + wait * share / 5 - TICK;
        let before = world.balance("cheap");
        world.send("bob", Transaction::CancelJob { job });
        let got = world.balance("cheap").checked_sub(before).unwrap();
        let got = got.checked_sub(lease.locked()).unwrap();
        let due = lease.price.checked_mul_div_ceil(wait * share / 5, wait);
        assert_eq!(got, due.unwrap().max(lease.gas), "{share} fifths");
        paid.push(got);
    }
    assert!(paid.is_sorted());
}

/// After an outage leases have more time than was promised to whoever reserved their machine: both cannot hold it, and a block
/// that finds no way out would be the last one.
#[test]
fn a_reservation_waits_for_a_lease_that_an_outage_keeps_on_its_machine() {
    let outage = DurationMs::from_secs(50);
    let mut world = World::with(&Genesis {
        parameters: Parameters {
            outage_min: outage,
            ..genesis().parameters
        },
        ..genesis()
    });
    world.activate_model(facts());
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let runs = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let first = world.live(runs);
    world.start_all(&first);
    let guaranteed = JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    };
    let reserved = world.submit("alice", world.order_for(guaranteed));
    let second = world.live(reserved);
    assert_eq!(second.grant.from.get(), first.deadline.get() + 1);
    while world.time + outage.get() / 2 < first.deadline.get() {
        world.wait_until(world.time + outage.get() / 2);
    }
    world.wait_until(first.deadline.get() + outage.get());
    let head = world.state.head();
    assert_eq!(head.outage.map(|it| it.height), Some(head.height));
    assert_eq!(world.job(runs).state(), JobState::Running);
    assert_eq!(world.state.stock().bookings(&second.offer).count(), 1);
    // Nobody else gets the machine meanwhile, and whoever reads the state back knows as much.
    let other = world.submit("bob", world.order_for(gpu_needs(1, 60)));
    assert_eq!(world.job(other).state(), JobState::Queued);
    let read = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(read.root(), world.state.root());
    assert_eq!(read.stock(), world.state.stock());
    // What was late because of the outage is handed in, and the reservation has its machine.
    world.send("cheap", commit(first.id));
    assert_eq!(world.job(runs).state(), JobState::Paid);
    assert_eq!(world.state.stock().bookings(&second.offer).count(), 0);
    world.finish(reserved);
}

#[test]
fn a_reservation_costs_more_on_a_machine_that_is_reserved() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 4, 10));
    let needs = JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    };
    let prices: Vec<Amount> = (0..4)
        .map(|_| {
            let job = world.submit("alice", world.order_for(needs));
            world.live(job).price
        })
        .collect();
    assert!(
        prices.is_sorted_by(|left, right| left < right),
        "{prices:?}"
    );
    // Seven tenths of 60 s at 0.01.
    assert_eq!(prices[0], tgrid(420));
    assert!(prices[3] <= tgrid(420 * 4));
}

#[test]
fn sealed_bids_clear_at_one_price_and_unopened_ones_are_lost() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.next_slot();
    world.time += 100;
    let needs = gpu_needs(1, 100);
    // A second of a T4 is worth 0.05, 0.04 and 0.03 to them; two can be served.
    let bids: Vec<_> = [("alice", 5u64), ("bob", 4), ("mallory", 3)]
        .into_iter()
        .map(|(name, tgrid)| {
            world.time -= 900;
            let price = Amount::from_tgrid(tgrid);
            (name, world.bid(name, 7, needs, price))
        })
        .collect();
    world.time -= 900;
    let secret = world.bid("alice", 9, needs, Amount::from_tgrid(9));
    let sealed = world.state.bids().len();
    assert_eq!(sealed, 4);
    world.next_slot();
    let jobs: Vec<JobId> = bids
        .into_iter()
        .map(|(name, bid)| {
            world.time -= 900;
            world.reveal(name, bid)
        })
        .collect();
    assert!(
        jobs.iter()
            .all(|job| world.job(*job).state() == JobState::Queued)
    );
    let burned = world.state.totals().burned;
    world.next_slot();
    let states: Vec<_> = jobs.iter().map(|job| world.job(*job).state()).collect();
    assert_eq!(
        states,
        [JobState::Leased, JobState::Leased, JobState::Queued]
    );
    // One price, between what the seller asks and what the last buyer bid.
    let prices: Vec<Amount> = jobs[..2]
        .iter()
        .map(|job| world.lease(*job).price)
        .collect();
    assert_eq!(prices[0], prices[1]);
    assert!(prices[0] >= Amount::from_tgrid(1) && prices[0] <= Amount::from_tgrid(4));
    // The bid that stayed sealed lost its deposit, and cannot be opened any more.
    assert_eq!(world.state.bids().len(), 0);
    let lost = world.state.totals().burned.checked_sub(burned).unwrap();
    assert_eq!(lost, tgrid(20));
    let (bid, order, salt) = secret;
    let late = world.refusal("alice", Transaction::RevealBid { bid, salt, order });
    assert_eq!(late.code(), "TG-LED-036");
}

#[test]
fn a_bid_that_would_be_served_in_part_makes_room_for_the_next() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.next_slot();
    // A second of a T4 is worth 0.05, 0.04 and 0.03 to them; bob wants two machines' worth, and one is left.
    let bids = [("alice", 1, 5u64), ("bob", 2, 4), ("mallory", 1, 3)];
    let bids = bids.map(|(name, gpus, tgrid)| {
        world.time -= 900;
        let price = Amount::from_tgrid(tgrid);
        (name, world.bid(name, 7, gpu_needs(gpus, 100), price))
    });
    world.next_slot();
    let jobs = bids.map(|(name, bid)| {
        world.time -= 900;
        world.reveal(name, bid)
    });
    world.next_slot();
    let states = jobs.map(|job| world.job(job).state());
    assert_eq!(
        states,
        [JobState::Leased, JobState::Queued, JobState::Leased]
    );
}

#[test]
fn a_bid_of_just_what_a_seller_asks_is_served() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    world.next_slot();
    world.time -= 900;
    let bid = world.bid("alice", 7, gpu_needs(1, 100), Amount::from_tgrid(1));
    world.next_slot();
    world.time -= 900;
    let job = world.reveal("alice", bid);
    world.next_slot();
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(world.lease(job).price, Amount::from_tgrid(1));
}

#[test]
fn paid_priority_goes_first_and_is_paid() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let first = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let plain = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let needs = JobNeeds {
        priority: 3,
        ..gpu_needs(1, 60)
    };
    let urgent = world.submit("bob", world.order_for(needs));
    let why = world.state.why_waiting(&plain).unwrap();
    assert_eq!(why.queue_position, 1);
    assert_eq!(world.state.why_waiting(&urgent).unwrap().queue_position, 0);
    assert_eq!(why.priority_to_be_next, Some(3));
    assert_eq!(why.price_to_be_next, Some(tgrid(1_800)));
    world.finish(first);
    assert_eq!(world.job(urgent).state(), JobState::Leased);
    assert_eq!(world.live(urgent).price, tgrid(600 * 3));
    assert_eq!(world.job(plain).state(), JobState::Queued);
}

#[test]
fn spot_jobs_make_room_after_a_grace_and_nobody_is_punished() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let spot = JobNeeds {
        preemptible: true,
        tier: CapacityTier::Spot,
        ..gpu_needs(1, 500)
    };
    let cheap = world.submit("alice", world.order_for(spot));
    let lease = world.live(cheap);
    // Spot costs two fifths.
    assert_eq!(lease.price, tgrid(2_000));
    world.send("cheap", Transaction::StartLease { lease: lease.id });
    let needs = JobNeeds {
        priority: 2,
        ..gpu_needs(1, 60)
    };
    let urgent = world.submit("bob", world.order_for(needs));
    assert_eq!(world.job(urgent).state(), JobState::Queued);
    let told = world.live(cheap).preemption.unwrap();
    assert_eq!(told.by, urgent);
    let due = next_timeout(&world.state).unwrap();
    assert_eq!(due.get(), told.at.get() + 1);
    world.wait_until(due.get());
    assert_eq!(world.job(urgent).state(), JobState::Leased);
    assert_eq!(world.job(cheap).state(), JobState::Queued);
    let ended = world.state.lease(&lease.id).unwrap();
    let began = ended.started_at().unwrap();
    assert_eq!(ended.end(), Some(&LeaseEnd::Preempted));
    let record = world.state.provider(&address("cheap")).unwrap();
    assert_eq!((record.record.ended(), record.lost), (0, Amount::ZERO));
    assert!(world.job(cheap).excluded.is_empty());
    // The work that was lost is owed by the job that goes first, and paid with its result, within its maximum.
    let owed = world.job(urgent).owed.clone();
    let worked = ended.ended_at().unwrap().saturating_since(began).get();
    let whole = lease.deadline.saturating_since(lease.grant.from).get();
    let due = lease.price.checked_mul_div_ceil(worked, whole).unwrap();
    assert_eq!(owed.len(), 1);
    assert_eq!((owed[0].lease, owed[0].amount), (lease.id, due));
    let before = world.balance("cheap");
    world.finish(urgent);
    let settlement = world.job(urgent).settlement().unwrap();
    assert_eq!(settlement.compensation, due);
    assert!(world.balance("cheap") > before);
    assert_eq!(world.job(cheap).state(), JobState::Leased);
}

/// A running spot job on the only machine, and an order of bob's for which it was told to make room.
fn told_to_leave(seconds: u64) -> (World, JobId, JobId) {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let spot = JobNeeds {
        preemptible: true,
        tier: CapacityTier::Spot,
        ..gpu_needs(1, 500)
    };
    let cheap = world.submit("alice", world.order_for(spot));
    let lease = world.live(cheap).id;
    world.send("cheap", Transaction::StartLease { lease });
    let needs = JobNeeds {
        priority: 2,
        ..gpu_needs(1, 60)
    };
    let order = JobOrder {
        deadline: TimestampMs::new(world.time + seconds * 1_000),
        ..world.order_for(needs)
    };
    let urgent = world.submit("bob", order);
    assert_eq!(world.job(urgent).state(), JobState::Queued);
    (world, cheap, urgent)
}

#[test]
fn who_makes_room_has_its_grace_to_the_last_millisecond() {
    let (mut world, cheap, urgent) = told_to_leave(600);
    let told = world.live(cheap).preemption.unwrap();
    world.wait_until(told.at.get());
    assert_eq!(world.job(cheap).state(), JobState::Running);
    world.wait_until(told.at.get() + 1);
    assert_eq!(world.job(urgent).state(), JobState::Leased);
}

#[test]
fn one_machine_is_told_to_make_room_for_an_order_and_no_second_one_while_it_has_its_grace() {
    let mut world = World::new();
    let spot = JobNeeds {
        preemptible: true,
        tier: CapacityTier::Spot,
        ..gpu_needs(1, 500)
    };
    let jobs = ["cheap", "dear"].map(|name| {
        world.post(name, gpu_terms(GpuModel::T4, 1, 10));
        let job = world.submit("alice", world.order_for(spot));
        let lease = world.live(job);
        assert_eq!(lease.provider, address(name));
        world.send(name, Transaction::StartLease { lease: lease.id });
        job
    });
    let needs = JobNeeds {
        priority: 2,
        ..gpu_needs(1, 60)
    };
    let urgent = world.submit("bob", world.order_for(needs));
    let told = |world: &World| jobs.map(|job| world.live(job).preemption.is_some());
    let first = told(&world);
    assert_eq!(first.iter().filter(|it| **it).count(), 1);
    for _ in 0..3 {
        world.idle();
        assert_eq!(told(&world), first);
    }
    assert_eq!(world.job(urgent).state(), JobState::Queued);
}

#[test]
fn an_order_that_is_taken_back_pushes_nobody_out() {
    // Ordering and taking back before the grace is over costs gas alone, and would end others' work again and again.
    let (mut world, cheap, urgent) = told_to_leave(600);
    let lease = world.live(cheap);
    let told = lease.preemption.unwrap();
    assert_eq!(told.by, urgent);
    world.send("bob", Transaction::CancelJob { job: urgent });
    world.wait_until(told.at.get() + 1);
    assert_eq!(world.job(cheap).state(), JobState::Running);
    assert_eq!(world.live(cheap).id, lease.id);
    assert_eq!(world.live(cheap).preemption, None);
    assert_eq!(world.job(cheap).preemptions, 0);
    // The next one that stays gets the room.
    let needs = JobNeeds {
        priority: 2,
        ..gpu_needs(1, 60)
    };
    let order = world.order_for(needs);
    let second = world.submit("bob", order);
    let told = world.live(cheap).preemption.unwrap();
    assert_eq!(told.by, second);
    world.wait_until(told.at.get() + 1);
    assert_eq!(world.job(second).state(), JobState::Leased);
}

#[test]
fn who_pushed_others_out_and_takes_its_own_job_back_pays_for_their_work() {
    let (mut world, cheap, urgent) = told_to_leave(600);
    let told = world.live(cheap).preemption.unwrap();
    world.wait_until(told.at.get() + 1);
    assert_eq!(world.job(urgent).state(), JobState::Leased);
    let owed = world.job(urgent).owed_sum();
    assert!(!owed.is_zero());
    let before = world.balance("cheap");
    let collateral = world.live(urgent).collateral;
    world.send("bob", Transaction::CancelJob { job: urgent });
    let settlement = world.job(urgent).settlement().unwrap();
    // The gas of the lease that it ends, and the work that it ended before.
    let due = owed.saturating_add(lease_fee());
    assert_eq!(settlement.compensation, due);
    // The spot job has its machine again, and its collateral and gas are locked anew.
    assert_eq!(world.job(cheap).state(), JobState::Leased);
    let again = world.live(cheap).collateral.saturating_add(lease_fee());
    let back = collateral.saturating_add(due).saturating_sub(again);
    assert_eq!(world.balance("cheap").checked_sub(before), Some(back));
}

/// It is paid while it is served, and could have left nothing for those who made room.
#[test]
fn an_endpoint_pushes_nobody_out() {
    let (mut world, cheap, urgent) = told_to_leave(600);
    world.send("bob", Transaction::CancelJob { job: urgent });
    assert_eq!(world.live(cheap).preemption, None);
    let needs = JobNeeds {
        priority: 2,
        ..gpu_needs(1, 60)
    };
    let plain = world.order_for(needs);
    let endpoint = JobOrder {
        mode: VerificationMode::Endpoint,
        input: Digest::default(),
        input_len: 0,
        ..plain
    };
    let endpoint = world.submit("bob", endpoint);
    world.idle();
    assert_eq!(world.job(endpoint).state(), JobState::Queued);
    assert_eq!(world.live(cheap).preemption, None);
    // A job of the same needs would.
    world.submit("bob", plain);
    assert!(world.live(cheap).preemption.is_some());
}

#[test]
fn an_order_that_could_not_wait_for_the_grace_pushes_nobody_out() {
    // It takes 60 s: too late when the grace of 5 s is over and a start takes its time.
    for (seconds, is_told) in [(62, false), (70, false), (120, true)] {
        let (world, cheap, _) = told_to_leave(seconds);
        assert_eq!(world.live(cheap).preemption.is_some(), is_told, "{seconds}");
    }
}

#[test]
fn a_lost_provider_is_replaced_in_the_block_that_finds_out() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    world.post("middle", gpu_terms(GpuModel::T4, 1, 12));
    let job = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let lease = world.live(job);
    assert_eq!(world.holder(job), "cheap");
    let report = |world: &World| Transaction::ReportLiveness {
        epoch: Schedule::epoch(world.state.head().height.next()),
        lost: vec![address("cheap")],
        back: vec![],
    };
    for (index, expected) in [(0, "cheap"), (1, "cheap"), (2, "middle")] {
        let name = format!("validator {index}");
        let transaction = report(&world);
        let nonce = world.state.nonce(&address(&name));
        let signed = wallet(&name).sign(transaction, nonce, world.state.domain());
        let proposed = world.block(vec![signed], vec![]);
        assert_eq!(proposed.refused, []);
        assert_eq!(world.holder(job), expected, "after {name}");
        if index == 2 {
            let decisions = World::decisions(&proposed.events);
            assert!(decisions.contains(&Decision::Lost { lease: lease.id }));
        }
    }
    let ended = world.state.lease(&lease.id).unwrap();
    let end = LeaseEnd::Abandoned(AbandonedBecause::ProviderLost);
    assert_eq!(ended.end(), Some(&end));
    // It gets nothing until validators reach it again.
    let next = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    assert_eq!(world.job(next).state(), JobState::Queued);
}

/// Whoever orders with too little time, and leads the gang with a machine of its own, has nothing of what the others put up.
#[test]
fn members_that_ran_out_of_stated_time_lose_what_the_order_loses_and_the_lead_has_nothing_of_it() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    world.post("middle", gpu_terms(GpuModel::T4, 1, 12));
    let needs = JobNeeds {
        gang: 2,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    let job = world.submit("alice", world.order_for(needs));
    let lead = world.live(job);
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    let name = |provider| {
        ["cheap", "middle"]
            .into_iter()
            .find(|it| address(it) == provider)
    };
    for lease in [&lead, &member] {
        let provider = name(lease.provider).unwrap();
        world.send(provider, Transaction::StartLease { lease: lease.id });
    }
    let balance = |world: &World, lease: &Lease| world.balance(name(lease.provider).unwrap());
    let before = [balance(&world, &lead), balance(&world, &member)];
    let gas = |lease: &Lease| world.state.lease(&lease.id).unwrap().gas_locked();
    let gas = gas(&lead);
    let escrow_burned = world.job(job).escrow_burned;
    world.wait_until(member.deadline.get() + 1);
    let ended = |id| world.state.lease(&id).unwrap().end();
    assert_eq!(ended(member.id), Some(&LeaseEnd::Late(LatePhase::Running)));
    assert_eq!(ended(lead.id), Some(&LeaseEnd::Released));
    let risk = member.at_risk.min(member.price);
    let burned = world.job(job).escrow_burned.saturating_sub(escrow_burned);
    assert_eq!(burned, risk);
    // What was locked came back to the lead, and of the member's all but that.
    let back = |lease: &Lease, before: Amount| balance(&world, lease).saturating_sub(before);
    let back = [back(&lead, before[0]), back(&member, before[1])];
    assert!(back[0] >= lead.collateral && back[0] <= lead.collateral.saturating_add(gas));
    assert!(back[1].saturating_add(risk) >= member.collateral && back[1] < member.collateral);
}

/// A few of genesis may have put up more than all who came later.
#[test]
fn seats_find_a_provider_lost_whatever_they_have_at_stake() {
    let mut genesis = crate::world::genesis();
    for validator in &mut genesis.validators {
        if validator.address == address("validator 0") {
            validator.stake = Amount::from_tgrid(100_000);
        }
    }
    let mut world = World::with(&genesis);
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let is_lost = |world: &World| {
        let provider = world.state.provider(&address("cheap"));
        provider.is_some_and(|it| it.is_offline)
    };
    for (index, expected) in [(0, false), (1, false), (2, true)] {
        let report = Transaction::ReportLiveness {
            epoch: Schedule::epoch(world.state.head().height.next()),
            lost: vec![address("cheap")],
            back: vec![],
        };
        world.send(&format!("validator {index}"), report);
        assert_eq!(is_lost(&world), expected, "{index}");
    }
}

#[test]
fn ratings_count_once_and_weigh_what_was_spent() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    // What nobody checked says nothing of whoever did it.
    let unchecked = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    world.finish(unchecked);
    let rate = |stars| Transaction::RateJob {
        job: unchecked,
        stars,
    };
    assert_eq!(world.refusal("alice", rate(5)).code(), "TG-LED-150");
    let order = JobOrder {
        mode: VerificationMode::Proof,
        ..world.order_for(gpu_needs(1, 60))
    };
    let job = world.submit("alice", order);
    let rate = |stars| Transaction::RateJob { job, stars };
    assert_eq!(world.refusal("alice", rate(5)).code(), "TG-LED-065");
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(world.refusal("alice", rate(0)).code(), "TG-LED-064");
    assert_eq!(world.refusal("bob", rate(5)).code(), "TG-LED-032");
    world.send("alice", rate(4));
    assert_eq!(world.refusal("alice", rate(5)).code(), "TG-LED-066");
    let provider = world.state.provider(&address("cheap")).unwrap();
    let reputation = provider.reputation_with(JobClass::Inference);
    assert_eq!(reputation.rating_hundredths(), Some(400));
}

#[test]
fn a_dynamic_price_rises_while_jobs_wait_and_is_never_charged_above_the_maximum() {
    let mut world = World::new();
    let mut terms = gpu_terms(GpuModel::T4, 1, 10);
    terms.pricing = Pricing::Dynamic;
    world.post("cheap", terms);
    let jobs: Vec<JobId> = (0..3)
        .map(|_| {
            let mut order = world.order_for(gpu_needs(1, 60));
            order.max_price = tgrid(650);
            world.submit("alice", order)
        })
        .collect();
    let first = world.live(jobs[0]).price;
    assert!(first >= tgrid(600) && first <= tgrid(650));
    for _ in 0..5 {
        world.idle();
    }
    let price = world.state.schedule().prices[usize::from(GpuModel::T4.tag())];
    assert!(price > tgrid(10) && price <= tgrid(160));
    world.finish(jobs[0]);
    // The price is above their maximum now: they wait until it falls.
    assert_eq!(world.job(jobs[1]).state(), JobState::Queued);
    let dearer = world.submit("bob", world.order_for(gpu_needs(1, 60)));
    assert!(world.live(dearer).price > tgrid(650));
}

#[test]
fn a_dry_run_answers_what_submitting_answers() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    world.post("dear", gpu_terms(GpuModel::H100, 1, 90));
    let only = |model| JobNeeds {
        models: GpuModelSet::of(&[model]),
        ..gpu_needs(1, 60)
    };
    let guaranteed = JobNeeds {
        guaranteed: true,
        tier: CapacityTier::Reserved,
        ..gpu_needs(1, 60)
    };
    let gang = JobNeeds {
        gang: 2,
        neighbourhood_us: 1_000,
        ..gpu_needs(1, 60)
    };
    world.post("middle", gpu_terms(GpuModel::T4, 1, 20));
    for needs in [
        gpu_needs(1, 60),
        only(GpuModel::H100),
        only(GpuModel::H200),
        guaranteed,
        gang,
    ] {
        let order = world.order_for(needs);
        let next = TimestampMs::new(world.time + crate::world::TICK);
        let dry = world.state.dry_run(address("alice"), &order, next).unwrap();
        let before = world.state.root();
        assert_eq!(before, world.state.root(), "a dry run changes nothing");
        let job = world.submit("alice", order);
        let submitted = world.job(job);
        assert_eq!((dry.state, dry.end), (submitted.state(), submitted.end()));
        if submitted.state() == JobState::Leased {
            let lead = world.live(job);
            let of = |it: &Lease| (it.offer, it.price, it.grant, it.deadline);
            let real: Vec<_> = world.state.gang_of(&lead).map(of).collect();
            assert_eq!(dry.leases.iter().map(of).collect::<Vec<_>>(), real);
        }
        assert_eq!(dry.why, world.state.why_waiting(&job));
    }
}
