//! What the scheduler knows beside prices: partitions, the work to come, how fast GPUs are, who is reliable, and which
//! running job had better be elsewhere. [`World::block`] counts money and machines after every block.

use tg_ledger::limits::{EPOCH_BLOCKS, MOVE_LEASE_MS};
use tg_ledger::{Decision, JobState, LeaseEnd, Outcome, State};
use tg_market::cluster::Sharing;
use tg_market::mig::{MigModel, MigProfile};
use tg_market::reputation::TOP_BONUS_PPM;
use tg_market::throughput::{GpuClass, ThroughputMatrix, WorkKind};
use tg_market::view::{held_milli, node_spec};
use tg_market::{Constraint, Stock};
use tg_types::{
    Amount, CapacityTier, Decode, Encode, GpuModel, JobId, JobNeeds, LeaseId, OfferId, OfferTerms,
    SharingMode, SharingSet, TimestampMs, Transaction,
};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{TICK, World, address, commit, evidence, tgrid};

fn cut_terms(gpus: u8, milli: u64) -> OfferTerms {
    let mut terms = gpu_terms(GpuModel::A100M80, gpus, milli);
    terms.machine.sharing = SharingSet::of(&[SharingMode::Mig]);
    terms.machine.gpu_memory_mib = 81_920;
    terms
}

fn share(milli: u16, mib: u32) -> JobNeeds {
    JobNeeds {
        gpu_milli: milli,
        gpu_memory_mib: mib,
        isolation: SharingMode::Mig,
        ..gpu_needs(1, 60)
    }
}

#[test]
fn shares_of_a_gpu_that_is_cut_are_partitions_where_they_do_least_harm() {
    let mut world = World::new();
    world.post("cheap", cut_terms(1, 10));
    // (share, memory) -> (profile, first memory slice)
    let cases = [
        (400, 0, MigProfile::G3, 4),
        (140, 0, MigProfile::G1, 3),
        (250, 18_000, MigProfile::G2, 0),
    ];
    let mut held = Vec::new();
    for (milli, mib, profile, start) in cases {
        let job = world.submit("alice", world.order_for(share(milli, mib)));
        let lease = world.live(job);
        let partition = lease.grant.partition.unwrap();
        assert_eq!(
            (partition.profile, partition.start),
            (profile, start),
            "{milli}"
        );
        assert_eq!(lease.grant.sharing, SharingMode::Mig);
        assert_eq!(lease.grant.gpu_milli, profile.compute_milli());
        let memory = MigModel::A100M80.memory_mib(profile);
        assert_eq!(lease.grant.gpu_memory_mib, memory);
        held.push((job, partition.mask()));
    }
    let masks = held.iter().map(|(_, mask)| mask);
    assert_eq!(masks.clone().fold(0, |all, it| all | it).count_ones(), 7);
    // A whole GPU is not left, nor another large partition; a small one is.
    for (needs, expected) in [
        (gpu_needs(1, 60), JobState::Queued),
        (share(500, 0), JobState::Queued),
        (share(100, 0), JobState::Leased),
    ] {
        let job = world.submit("bob", world.order_for(needs));
        assert_eq!(world.job(job).state(), expected, "{needs:?}");
    }
    // The partitions are where they were in a state that is read back, which nothing else would tell.
    let again = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(again.stock(), world.state.stock());
}

#[test]
fn a_partition_is_charged_for_what_it_holds_and_works_with_it() {
    let machine = cut_terms(1, 10).machine;
    assert_eq!(
        node_spec(&machine).gpu.sharing,
        Sharing::Mig(MigModel::A100M80)
    );
    // Half a GPU is four sevenths.
    assert_eq!(held_milli(&machine, &share(500, 0)), 571);
    assert_eq!(held_milli(&machine, &gpu_needs(1, 60)), 1_000);
    let mps = gpu_terms(GpuModel::A100M80, 1, 10).machine;
    assert_eq!(held_milli(&mps, &share(500, 0)), 500);
    let mut world = World::new();
    world.post("cheap", cut_terms(1, 10));
    // 60 s of a T4 are 12.5 s of an A100; the part of it that works takes longer, and costs the same.
    let whole = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    let price = world.live(whole).price;
    world.finish(whole);
    let part = world.submit("alice", world.order_for(share(500, 0)));
    let difference = world.live(part).price.get().abs_diff(price.get());
    assert!(difference < price.get() / 1_000, "{difference} of {price}");
}

#[test]
fn more_memory_than_any_partition_has_is_explained() {
    let mut world = World::new();
    world.post("cheap", cut_terms(2, 10));
    let job = world.submit("alice", world.order_for(share(100, 80_000)));
    let why = world.state.why_waiting(&job).unwrap();
    let broken: Vec<_> = why.placement.rejections.iter().collect();
    assert_eq!(broken, [(Constraint::GpuMemory, 1)]);
}

#[test]
fn a_live_share_keeps_its_machine_from_being_cut() {
    let mut world = World::new();
    let mut terms = cut_terms(1, 10);
    terms.machine.sharing = SharingSet::of(&[SharingMode::Mps]);
    let offer = world.post("cheap", terms);
    let needs = JobNeeds {
        isolation: SharingMode::Mps,
        ..share(300, 8_000)
    };
    let job = world.submit("alice", world.order_for(needs));
    world.wait_until(world.time + 5_000);
    let update = Transaction::UpdateOffer {
        offer,
        terms: cut_terms(1, 10),
    };
    assert_eq!(world.job(job).state(), JobState::Leased);
    assert_eq!(world.refusal("cheap", update).code(), "TG-LED-060");
}

/// Two offers at one price: one machine with two GPUs, one with eight.
fn two_sizes() -> (World, OfferId, OfferId) {
    let mut world = World::new();
    let small = world.post("cheap", gpu_terms(GpuModel::T4, 2, 10));
    let large = world.post("dear", gpu_terms(GpuModel::T4, 8, 10));
    (world, small, large)
}

#[test]
fn at_one_price_large_machines_are_kept_for_those_who_need_them() {
    let (mut world, small, large) = two_sizes();
    let jobs: Vec<JobId> = (0..2)
        .map(|_| world.submit("alice", world.order_for(gpu_needs(1, 60))))
        .collect();
    for job in jobs {
        assert_eq!(world.live(job).offer, small);
    }
    let wide = world.submit("bob", world.order_for(gpu_needs(8, 60)));
    assert_eq!(world.live(wide).offer, large);
}

#[test]
fn a_clear_difference_in_price_beats_the_work_to_come() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 2, 100));
    let large = world.post("dear", gpu_terms(GpuModel::T4, 8, 10));
    let mut order = world.order_for(gpu_needs(1, 60));
    order.max_price = Amount::from_tgrid(90);
    let job = world.submit("alice", order);
    assert_eq!(world.live(job).offer, large);
    // What others lose is no part of the price.
    assert_eq!(world.live(job).price, tgrid(600));
}

#[test]
fn shares_fill_the_gpu_that_is_begun() {
    let (mut world, small, _) = two_sizes();
    let half = JobNeeds {
        gpu_milli: 500,
        ..gpu_needs(1, 60)
    };
    let first = world.submit("alice", world.order_for(half));
    let second = world.submit("alice", world.order_for(half));
    let (first, second) = (world.live(first), world.live(second));
    assert_eq!((first.offer, second.offer), (small, small));
    assert_eq!(first.grant.devices, second.grant.devices);
}

#[test]
fn what_came_is_expected_and_part_of_the_state() {
    let (mut world, ..) = two_sizes();
    let expected = |world: &World| world.state.schedule().work.expected().total();
    assert_eq!(expected(&world), 0);
    for index in 0..12 {
        let job = world.submit("alice", world.order_for(gpu_needs(1, 60)));
        if world.job(job).state() == JobState::Leased {
            world.finish(job);
        }
        // The first eight, then a quarter more each time.
        let known = [0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 11, 11][index];
        assert_eq!(expected(&world), known, "after {index}");
    }
    let again = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(again.schedule(), world.state.schedule());
    assert_eq!(again.root(), world.state.root());
    assert_eq!(again.stock(), world.state.stock());
}

/// What was learned about T4 with integer inference, in thousandths of the table.
fn learned(state: &State) -> u32 {
    let throughput = &state.schedule().throughput;
    throughput
        .correction(GpuClass::T4, WorkKind::IntegerInference)
        .milli()
}

#[test]
fn durations_of_accepted_receipts_correct_the_table() {
    // (time it took of 60 s, whether the rate falls, stays or rises)
    let cases = [
        (60_000, std::cmp::Ordering::Equal),
        (90_000, std::cmp::Ordering::Less),
        (30_000, std::cmp::Ordering::Greater),
    ];
    for (took, expected) in cases {
        let mut world = World::new();
        world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
        let root = world.state.root();
        finish_checked(&mut world, took);
        assert_eq!(learned(&world.state).cmp(&1_000), expected, "{took}");
        assert_ne!(world.state.root(), root);
        let again = State::from_bytes(&world.state.to_bytes()).unwrap();
        assert_eq!(learned(&again), learned(&world.state));
        // The next quote goes by it, in time and in price.
        let next = world.submit("alice", world.order_for(gpu_needs(1, 60)));
        assert_eq!(world.live(next).price.cmp(&tgrid(600)), expected.reverse());
    }
}

/// Stops: somebody that orders from itself, until the honest machines of a GPU model are all too slow.
#[test]
fn a_provider_teaches_once_in_an_epoch_by_what_was_checked_on_terms_that_stood() {
    let mut world = World::new();
    let offer = world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let job = world.submit("alice", world.order_for(gpu_needs(1, 60)));
    world.finish_in(job, 10_000);
    assert_eq!(learned(&world.state), 1_000, "nobody checked it");
    finish_checked(&mut world, 30_000);
    let once = learned(&world.state);
    assert!(once > 1_000);
    finish_checked(&mut world, 30_000);
    assert_eq!(learned(&world.state), once, "in the same epoch");
    while !world.state.head().height.get().is_multiple_of(EPOCH_BLOCKS) {
        world.idle();
    }
    let job = checked(&mut world);
    let mut terms = gpu_terms(GpuModel::T4, 1, 10);
    terms.latency_base_ms = tg_types::DurationMs::new(1);
    world.send("cheap", Transaction::UpdateOffer { offer, terms });
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    assert_eq!(learned(&world.state), once, "other terms");
    finish_checked(&mut world, 30_000);
    assert!(learned(&world.state) > once);
}

fn checked(world: &mut World) -> JobId {
    let mut order = world.order_for(gpu_needs(1, 60));
    order.mode = tg_types::VerificationMode::Proof;
    world.submit("alice", order)
}

/// A job whose result is checked, and took so long beside what the offer declares for everything but the GPU.
fn finish_checked(world: &mut World, took: u64) {
    let job = checked(world);
    let (holder, lease) = (world.holder(job), world.live(job));
    let base = world.state.offer(&lease.offer).unwrap();
    let base = base.terms.duration(world.job(job).macs).get();
    let lease = lease.id;
    world.send(holder, Transaction::StartLease { lease });
    let started = world.state.lease(&lease).unwrap().started_at().unwrap();
    world.time = started.get() + took + base - TICK;
    world.send(holder, commit(lease));
    world.send(holder, evidence(lease));
    let task = world.task(lease);
    world.decide(&task, Outcome::LeaseAccepted);
}

#[test]
fn jobs_without_gpu_time_teach_nothing() {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 1, 10));
    let job = world.submit("alice", world.order_for(JobNeeds::ANY_MACHINE));
    world.finish_in(job, 5_000);
    assert_eq!(
        world.state.schedule().throughput,
        ThroughputMatrix::default()
    );
}

/// Accepted results until the provider is among the top; how many it took.
fn make_top(world: &mut World, name: &'static str) -> u32 {
    for count in 1..400 {
        let mut order = world.order_for(JobNeeds::ANY_MACHINE);
        order.mode = tg_types::VerificationMode::Proof;
        let job = world.submit("alice", order);
        let task = world.work(job);
        world.decide(&task, Outcome::LeaseAccepted);
        let bonus = world.job(job).settlement().unwrap().bonus;
        if world.holder(job) == name && !bonus.is_zero() {
            return count;
        }
    }
    unreachable!("a provider without failures comes to the top")
}

#[test]
fn the_top_gets_a_bonus_out_of_the_verification_fee_and_goes_first_among_equals() {
    let mut world = World::new();
    let mut terms = crate::world::terms(50);
    terms.collateral_per_lease = Amount::from_tgrid(16);
    world.post("cheap", terms);
    assert!(make_top(&mut world, "cheap") > 10, "nobody starts there");
    let mut order = world.order_for(JobNeeds::ANY_MACHINE);
    order.mode = tg_types::VerificationMode::Proof;
    let job = world.submit("alice", order);
    let price = world.live(job).price;
    let credit = world.state.provider(&address("cheap")).unwrap().credit;
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    let settlement = world.job(job).settlement().unwrap();
    let fee = world.state.parameters().verification_fee_zk;
    let half = Amount::new(fee.get() / 2);
    assert!(
        settlement.bonus <= credit,
        "no more than was burned for its work"
    );
    let most = half.min(credit);
    assert_eq!(settlement.bonus, price.ppm_ceil(TOP_BONUS_PPM).min(most));
    assert!(!settlement.bonus.is_zero());
    let both = settlement.verification_fee.checked_add(settlement.bonus);
    assert_eq!(both, fee.checked_sub(settlement.burned));
    assert_eq!(settlement.burned.get(), fee.get() / 10);
}

/// Two machines with two GPUs each.
fn two_pairs() -> World {
    let mut world = World::new();
    for name in ["cheap", "dear"] {
        let mut terms = gpu_terms(GpuModel::T4, 2, 1);
        terms.price_per_gpu_second = Amount::new(tgrid(1).get() / 100);
        world.post(name, terms);
    }
    world
}

/// Three spot jobs of five days that run: a machine and a half.
fn three_spots(world: &mut World) -> Vec<JobId> {
    const DAY: u64 = 24 * 3_600;
    let spot = JobNeeds {
        preemptible: true,
        tier: CapacityTier::Spot,
        ..gpu_needs(1, 5 * DAY)
    };
    let jobs: Vec<JobId> = (0..3)
        .map(|_| {
            let mut order = world.order_for(spot);
            order.max_price = Amount::from_tgrid(20);
            order.deadline = TimestampMs::new(world.time + 1_000 * 6 * DAY);
            world.submit("alice", order)
        })
        .collect();
    for job in &jobs {
        let lead = world.live(*job);
        world.start_all(&lead);
    }
    jobs
}

/// Ends one of two neighbours, so that two machines are half full; the two that are left.
fn spread(world: &mut World, jobs: &[JobId]) -> Vec<JobId> {
    let offers: Vec<OfferId> = jobs.iter().map(|job| world.live(*job).offer).collect();
    let has_neighbour = |at: &usize| offers.iter().filter(|it| **it == offers[*at]).count() == 2;
    let pair = (0..3).find(has_neighbour).unwrap();
    world.finish_in(jobs[pair], 1_000);
    let left = jobs.iter().filter(|job| **job != jobs[pair]);
    left.copied().collect()
}

/// The leases that were told to end in an epoch's blocks.
fn told_in_an_epoch(world: &mut World) -> Vec<LeaseId> {
    let mut told = Vec::new();
    for _ in 0..=tg_ledger::limits::EPOCH_BLOCKS {
        for decision in World::decisions(&world.idle()) {
            if let Decision::Preempted { lease, .. } = decision {
                told.push(lease);
            }
        }
    }
    told
}

#[test]
fn a_running_job_moves_within_the_budget_if_its_place_is_worth_more_than_its_work() {
    let mut world = two_pairs();
    let jobs = three_spots(&mut world);
    let left = spread(&mut world, &jobs);
    assert_eq!(told_in_an_epoch(&mut world), [], "there is no budget yet");
    let credit = world.state.schedule().move_credit;
    assert!(credit > 0 && credit < MOVE_LEASE_MS);
    // Fifty hours of two leases are a move, but what they worked is worth more than that a machine is whole.
    world.time += MOVE_LEASE_MS / 2;
    assert_eq!(told_in_an_epoch(&mut world), []);
    assert_eq!(world.state.schedule().move_credit, MOVE_LEASE_MS);
    for job in left {
        world.finish_in(job, 1_000);
    }
    // Those that have just begun lose nothing by going, and leave a whole machine.
    let jobs = three_spots(&mut world);
    let left = spread(&mut world, &jobs);
    let told = told_in_an_epoch(&mut world);
    assert_eq!(told.len(), 1, "{told:?}");
    let ended = world.state.lease(&told[0]).unwrap().clone();
    assert_eq!(ended.end(), Some(&LeaseEnd::Preempted));
    assert!(world.state.schedule().move_credit < MOVE_LEASE_MS);
    let job = world.job(ended.job);
    let other = left.iter().find(|it| **it != job.id).unwrap();
    let next = world.state.lease(&job.leases()[1]).unwrap();
    assert_eq!(next.offer, world.live(*other).offer, "both on one machine");
    // It owes nothing to itself.
    assert!(job.owed.is_empty() && job.preemptions == 1);
}

#[test]
fn a_stock_of_a_hundred_thousand_gpus_is_rebuilt_as_it_was() {
    use tg_market::Hold;
    use tg_market::packing::WorkloadProfile;
    use tg_market::view::request_of;
    let machine = |index: u32| match index % 3 {
        0 => cut_terms(8, 10).machine,
        1 => gpu_terms(GpuModel::T4, 4, 10).machine,
        _ => gpu_terms(GpuModel::H100, 8, 10).machine,
    };
    let id = |kind: u8, index: u32| {
        let mut bytes = [kind; 32];
        bytes[..4].copy_from_slice(&index.to_be_bytes());
        bytes
    };
    let machines: Vec<_> = (0..15_000)
        .map(|index| (OfferId::new(id(1, index)), machine(index)))
        .collect();
    let gpus: u32 = machines.iter().map(|(_, it)| u32::from(it.gpu_count)).sum();
    assert_eq!(gpus, 100_000);
    let wanted = [
        share(300, 0),
        gpu_needs(1, 60),
        gpu_needs(4, 60),
        share(500, 20_000),
    ];
    let requests = wanted.map(|needs| request_of(&needs).unwrap());
    let work = WorkloadProfile::of(&requests);
    let offers = || machines.iter().map(|(id, machine)| (*id, machine));
    let mut stock = Stock::new(offers(), &work);
    let now = TimestampMs::new(1_000);
    let until = TimestampMs::new(100_000);
    let mut holds = Vec::new();
    for index in 0..12_000_u32 {
        let (offer, _) = machines[(index as usize * 7) % machines.len()];
        let request = requests[index as usize % requests.len()];
        let room = stock.room(&offer, &request, now, (now, until), None);
        let Some(room) = room else { continue };
        let hold = Hold {
            lease: LeaseId::new(id(2, index)),
            offer,
            devices: room.devices,
            partition: room.partition,
            request,
            from: now,
            until,
        };
        if stock.take(&hold, now).is_ok() {
            holds.push(hold);
        }
        // Now and then one leaves, so that what is free is not what filling up would leave.
        if index % 5 == 4 {
            let gone = holds.swap_remove((index as usize * 31) % holds.len());
            stock.give_back(&gone.lease);
        }
    }
    assert!(holds.len() > 5_000);
    let mut again = Stock::new(offers(), &work);
    for hold in holds.iter().rev() {
        again.take(hold, now).unwrap();
    }
    assert_eq!(again, stock);
    assert_eq!(
        again.packing_prices(std::iter::empty()),
        stock.packing_prices(std::iter::empty())
    );
}
