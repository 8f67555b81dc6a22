#![allow(clippy::unwrap_used, reason = "tests")]

use tg_types::{Amount, DurationMs};

use crate::cluster::{
    AllocateError, Cluster, Gpu, Interconnect, Isolation, ModelSet, Needs, NodeIndex, NodeSpec,
    Request, RequestError, Sharing, WHOLE_GPU,
};
use crate::pricing::{DynamicPrice, Load, TARGET_PPM};
use crate::reputation::{LeaseOutcome, Reputation, ReputationLevel};
use crate::throughput::{Correction, GpuClass, WorkKind};

const GPU: Gpu = Gpu {
    model: 3,
    memory_mib: 24_576,
    capability: 86,
    tensor_cores: true,
    interconnect: Interconnect::Nvlink,
    sharing: Sharing::Mps,
};

const NODE: NodeSpec = NodeSpec {
    cpu_milli: 32_000,
    memory_mib: 65_536,
    disk_gib: 100,
    gpu_count: 4,
    gpu: GPU,
    region: 2,
    coordinate: [0, 0],
};

fn request(cpu: u32, gpus: u8, milli: u16) -> Request {
    Request::new(cpu, 1_024, gpus, milli).unwrap()
}

#[test]
fn requests_are_checked() {
    let check = |gpus, milli, expected: Result<(), RequestError>| {
        assert_eq!(Request::new(1, 1, gpus, milli).map(|_| ()), expected);
    };
    check(0, 0, Ok(()));
    check(1, 1, Ok(()));
    check(8, WHOLE_GPU, Ok(()));
    check(9, WHOLE_GPU, Err(RequestError::TooManyGpus { got: 9 }));
    check(0, 1, Err(RequestError::BadShare { got: 1, gpus: 0 }));
    check(1, 0, Err(RequestError::BadShare { got: 0, gpus: 1 }));
    check(
        1,
        1_001,
        Err(RequestError::BadShare {
            got: 1_001,
            gpus: 1,
        }),
    );
    check(2, 500, Err(RequestError::BadShare { got: 500, gpus: 2 }));
}

#[test]
fn memory_of_a_gpu_is_never_promised_twice() {
    let mut cluster = Cluster::new(vec![NODE]);
    let node = NodeIndex(0);
    let big = request(1_000, 1, 100).with_gpu_memory(20_000);
    assert!(cluster.allocate(node, 1, &big).is_ok());
    assert_eq!(
        cluster.allocate(node, 1, &big),
        Err(AllocateError::Gpu { device: 0 })
    );
    // Without a stated cap a share of the compute takes the same share of the memory.
    let half = request(1_000, 1, 500);
    assert_eq!(
        cluster.allocate(node, 1, &half),
        Err(AllocateError::Gpu { device: 0 })
    );
    assert!(cluster.allocate(node, 2, &half).is_ok());
    assert_eq!(cluster.free(node).gpu_memory_mib[1], 12_288);
    let too_big = request(1_000, 1, WHOLE_GPU).with_gpu_memory(30_000);
    assert_eq!(
        cluster.allocate(node, 4, &too_big),
        Err(AllocateError::Gpu { device: 2 })
    );
}

#[test]
fn wrong_allocations_are_refused_and_take_nothing() {
    let mut cluster = Cluster::new(vec![NODE]);
    let before = cluster.clone();
    let two = request(1_000, 2, WHOLE_GPU);
    let mut check = |node, devices, request: &Request, expected| {
        assert_eq!(
            cluster.allocate(NodeIndex(node), devices, request),
            Err(expected)
        );
    };
    check(7, 3, &two, AllocateError::UnknownNode(7));
    check(0, 1, &two, AllocateError::Devices);
    check(0, 0b11_0000, &two, AllocateError::Devices);
    check(0, 3, &request(64_000, 2, WHOLE_GPU), AllocateError::Host);
    assert!(cluster == before);
}

/// Whether each of two machines that differ in everything may serve a share under `needs`.
fn check_filter(needs: Needs, share: u16, expected: [bool; 2]) {
    let other = NodeSpec {
        gpu: Gpu {
            model: 4,
            capability: 70,
            tensor_cores: false,
            interconnect: Interconnect::Pcie,
            sharing: Sharing::TimeSlice,
            ..GPU
        },
        region: 1,
        ..NODE
    };
    let cluster = Cluster::new(vec![NODE, other]);
    let kinds = cluster
        .kinds()
        .filter(&request(1, 1, share).with_needs(needs));
    let found = [0, 1].map(|node| kinds.contains(cluster.kind(NodeIndex(node))));
    assert_eq!(found, expected, "{needs:?}");
}

#[test]
fn filters_know_every_attribute() {
    let check = |change: &dyn Fn(&mut Needs), expected| {
        let mut needs = Needs::NONE;
        change(&mut needs);
        check_filter(needs, 500, expected);
    };
    check(&|_| (), [true, true]);
    check(&|it| it.models = ModelSet::NONE.with(4), [false, true]);
    check(&|it| it.models = ModelSet::NONE, [false, false]);
    check(&|it| it.capability_min = 80, [true, false]);
    check(&|it| it.tensor_cores = true, [true, false]);
    check(
        &|it| it.interconnect_min = Interconnect::Nvlink,
        [true, false],
    );
    check(&|it| it.region = Some(1), [false, true]);
    check(&|it| it.region = Some(9), [false, false]);
    check(&|it| it.isolation = Isolation::Mps, [true, false]);
    check(&|it| it.isolation = Isolation::Hardware, [false, false]);
    let mut alone = Needs::NONE;
    alone.isolation = Isolation::Hardware;
    check_filter(alone, WHOLE_GPU, [true, true]);
}

#[test]
fn a_step_of_load_moves_the_price_without_oscillation() {
    // Demand falls as the price rises (elasticity 1 or 4); after 500 blocks it doubles.
    for elasticity in [1_u32, 4] {
        let start = Amount::new(1_000_000);
        let mut price = DynamicPrice::new(start, Amount::new(1_000), Amount::new(1_000_000_000));
        let mut turns = 0;
        let mut last_move = 0_i8;
        for block in 0..1_500_u32 {
            let base = if block < 500 { 85_000 } else { 170_000 };
            let mut wanted = f64::from(base);
            for _ in 0..elasticity {
                wanted *= 1_000_000.0 / price.price().get() as f64;
            }
            let wanted = wanted as u64;
            let load = Load {
                capacity: 100_000,
                used: wanted.min(100_000),
                queued: wanted.saturating_sub(100_000),
            };
            let before = price.price();
            price.step(&load);
            let moved = i8::from(price.price() > before) - i8::from(price.price() < before);
            if moved != 0 && last_move != 0 && moved != last_move {
                turns += 1;
            }
            if moved != 0 {
                last_move = moved;
            }
            let change = price.price().get().abs_diff(before.get());
            assert!(change * 50 <= before.get() + 50, "a step of more than 2 %");
        }
        assert!(turns == 0, "{turns} turns at elasticity {elasticity}");
        assert!(price.price() > start);
    }
}

#[test]
fn idleness_lowers_and_bounds_hold() {
    let mut price = DynamicPrice::new(Amount::new(500), Amount::new(400), Amount::new(600));
    let load = |used, queued| Load {
        capacity: 100,
        used,
        queued,
    };
    for _ in 0..500 {
        price.step(&load(0, 0));
    }
    assert_eq!(price.price(), Amount::new(400));
    for _ in 0..500 {
        price.step(&load(100, u64::MAX));
    }
    assert_eq!(price.price(), Amount::new(600));
    price.step(&load(TARGET_PPM / 10_000, 0));
    price.step(&Load {
        capacity: 0,
        used: 0,
        queued: 9,
    });
    assert_eq!(price.price(), Amount::new(600));
}

#[test]
fn reputation_starts_pessimistic_and_is_earned() {
    let one = Amount::from_tgrid(10);
    let fresh = Reputation::default();
    assert_eq!(fresh.failure_ppm(Amount::ZERO, one), 500_000);
    // Stake helps, up to a cap.
    let staked = fresh.failure_ppm(Amount::from_tgrid(60), one);
    assert_eq!(staked, 200_000);
    let capped = fresh.failure_ppm(Amount::MAX, one);
    assert_eq!(capped, fresh.failure_ppm(Amount::from_tgrid(160), one));
    assert!(
        fresh.standing(Amount::MAX, one) == ReputationLevel::Regular,
        "stake alone is not the top"
    );
    let mut good = fresh;
    for _ in 0..200 {
        good.observe(LeaseOutcome::Accepted);
    }
    assert_eq!(good.standing(Amount::ZERO, one), ReputationLevel::Top);
    let mut bad = fresh;
    bad.observe(LeaseOutcome::Rejected);
    assert_eq!(bad.standing(Amount::ZERO, one), ReputationLevel::Removed);
    // What is forgotten brings a provider back to the prior, not beyond it.
    for _ in 0..2_000 {
        bad.decay();
        good.decay();
    }
    assert!(bad.failure_ppm(Amount::ZERO, one) <= 510_000);
    assert!(good.failure_ppm(Amount::ZERO, one) >= 490_000);
}

#[test]
fn ratings_weigh_what_was_spent() {
    let mut reputation = Reputation::default();
    assert_eq!(reputation.rating_hundredths(), None);
    reputation.rate(5, Amount::from_tgrid(1));
    reputation.rate(1, Amount::from_tgrid(3));
    reputation.rate(0, Amount::from_tgrid(100));
    reputation.rate(6, Amount::from_tgrid(100));
    assert_eq!(reputation.rating_hundredths(), Some(200));
    for _ in 0..300 {
        reputation.rate(5, Amount::MAX);
    }
    assert!(
        reputation
            .rating_hundredths()
            .is_some_and(|it| (490..=500).contains(&it))
    );
}

#[test]
fn corrections_follow_receipts_within_bounds() {
    let mut correction = Correction::default();
    for _ in 0..200 {
        correction.learn(DurationMs::new(1_000), DurationMs::new(2_000));
    }
    assert_eq!(correction.milli(), 500);
    for _ in 0..500 {
        correction.learn(DurationMs::new(u64::MAX), DurationMs::new(0));
    }
    assert_eq!(correction.milli(), Correction::BOUNDS.1);
    for _ in 0..500 {
        correction.learn(DurationMs::new(0), DurationMs::new(u64::MAX));
    }
    assert_eq!(correction.milli(), Correction::BOUNDS.0);
    assert!(
        GpuClass::ALL
            .iter()
            .all(|gpu| gpu.relative_milli(WorkKind::Training) > 0)
    );
}
