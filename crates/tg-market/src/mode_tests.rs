#![allow(clippy::unwrap_used, reason = "tests")]

//! Sharing modes: partitions, MPS, time slices and whole GPUs as one device model.

use std::collections::BTreeMap;

use crate::cluster::{
    AllocateError, Cluster, Gpu, Grant, Interconnect, Isolation, Needs, NodeIndex, NodeSpec,
    Request, Sharing, TIME_SLICE_PERIOD_US, WHOLE_GPU,
};
use crate::mig::{ALL_FREE, MigInstance, MigModel, MigProfile};

use MigProfile::{G1, G1M2, G2, G3, G4, G7};

/// A machine of `gpus` GPUs of `gpu_memory_mib` that shares them by `sharing`, with host resources to spare.
fn machine(gpus: u8, gpu_memory_mib: u32, sharing: Sharing) -> NodeSpec {
    NodeSpec {
        cpu_milli: 256_000,
        memory_mib: 1 << 20,
        disk_gib: 1_000,
        gpu_count: gpus,
        gpu: Gpu {
            model: 0,
            memory_mib: gpu_memory_mib,
            capability: 80,
            tensor_cores: true,
            interconnect: Interconnect::Nvlink,
            sharing,
        },
        region: 0,
        coordinate: [0, 0],
    }
}

fn cut(gpus: u8, model: MigModel) -> NodeSpec {
    machine(gpus, model.memory_mib(G7), Sharing::Mig(model))
}

fn share(milli: u16, isolation: Isolation) -> Request {
    Request::new(100, 100, 1, milli).unwrap().with_needs(Needs {
        isolation,
        ..Needs::NONE
    })
}

/// A request that takes exactly `profile` on GPUs of `model`.
fn partition(profile: MigProfile, model: MigModel) -> Request {
    let request = match profile {
        G7 => share(WHOLE_GPU, Isolation::Hardware),
        _ => share(profile.compute_milli(), Isolation::Hardware),
    };
    match profile {
        G1M2 => request.with_gpu_memory(model.memory_mib(G1M2)),
        _ => request,
    }
}

/// The free slices after `parts` were cut one after the other, if each fitted.
fn slices_after(parts: &[(MigProfile, u8)]) -> Option<u8> {
    parts.iter().try_fold(ALL_FREE, |free, (profile, start)| {
        profile
            .fits_at(free, *start)
            .then_some(free & !profile.mask(*start))
    })
}

#[test]
fn the_geometry_is_the_documented_one() {
    let fits = |parts: &[(MigProfile, u8)]| slices_after(parts).is_some();
    assert!(fits(&[(G3, 0), (G3, 4)]));
    assert!(fits(&[(G4, 0), (G3, 4)]));
    assert!(!fits(&[(G4, 0), (G4, 4)]));
    assert!(!fits(&[(G3, 4), (G4, 4)]));
    assert!(fits(&[(G7, 0)]) && !fits(&[(G7, 0), (G1, 6)]));
    assert!(fits(&[(G2, 0), (G2, 2), (G2, 4), (G1, 6)]));
    assert!(!fits(&[(G2, 6)]) && fits(&[(G1M2, 6)]));
    assert!(!fits(&[(G2, 1)]) && !fits(&[(G3, 2)]));
    assert!(fits(&(0..7).map(|at| (G1, at)).collect::<Vec<_>>()) && !fits(&[(G1, 7)]));
    // A small instance in the wrong place blocks a half; the best place does not.
    assert!(!fits(&[(G1, 1), (G4, 0)]));
    assert_eq!(G1.best_start(ALL_FREE), Some(6));
    assert_eq!(G3.best_start(ALL_FREE), Some(4));
}

#[test]
fn the_driver_names_say_the_slices() {
    for model in MigModel::ALL {
        for profile in MigProfile::ALL {
            let name = model.profile_name(profile);
            let (compute, memory) = name.split_once("g.").unwrap();
            assert_eq!(compute, profile.compute_slices().to_string());
            // The name rounds up to the memory of the GPU; a slice is rounded down.
            let gigabytes: u32 = memory.strip_suffix("gb").unwrap().parse().unwrap();
            let (mib, named) = (model.memory_mib(profile), gigabytes * 1_024);
            assert!(mib <= named && mib * 8 >= named * 7, "{name} {mib}");
        }
    }
}

/// Every set of instances that can be made on one GPU, by the slices they leave free, with the compute they use.
fn reachable() -> BTreeMap<u8, Vec<u8>> {
    let mut found: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut open = vec![(ALL_FREE, 0_u8)];
    while let Some((free, compute)) = open.pop() {
        let seen = found.entry(free).or_default();
        if seen.contains(&compute) {
            continue;
        }
        seen.push(compute);
        for profile in MigProfile::ALL {
            for start in profile.starts() {
                if profile.fits_at(free, *start) {
                    let used = compute + profile.compute_slices();
                    open.push((free & !profile.mask(*start), used));
                }
            }
        }
    }
    found
}

#[test]
fn what_fits_by_memory_slices_fits_by_compute_slices() {
    let reachable = reachable();
    assert!(reachable.len() > 100);
    assert!(reachable.values().flatten().all(|compute| *compute <= 7));
    // And the thousandths that are booked for partitions never exceed a GPU.
    for profile in MigProfile::ALL {
        let most = 7 / profile.compute_slices();
        assert!(u16::from(most) * profile.compute_milli() <= WHOLE_GPU);
    }
}

/// Most instances of `profile` beside each other, by trying.
fn most_beside(profile: MigProfile, free: u8) -> u8 {
    let starts = profile.starts().iter();
    let fitting = starts.filter(|start| profile.fits_at(free, **start));
    fitting
        .map(|start| 1 + most_beside(profile, free & !profile.mask(*start)))
        .max()
        .unwrap_or(0)
}

#[test]
fn the_tables_say_what_trying_says() {
    let possible = |free: u8| -> u32 {
        let all = MigProfile::ALL.into_iter();
        all.map(|profile| {
            let starts = profile.starts().iter();
            let places = starts.filter(|start| profile.fits_at(free, **start));
            places.count() as u32 * u32::from(profile.compute_slices())
        })
        .sum()
    };
    for free in reachable().into_keys() {
        for profile in MigProfile::ALL {
            assert_eq!(profile.count_in(free), most_beside(profile, free));
            let fitting = profile
                .starts()
                .iter()
                .filter(|start| profile.fits_at(free, **start));
            let best =
                fitting.max_by_key(|start| (possible(free & !profile.mask(**start)), **start));
            assert_eq!(
                profile.best_start(free),
                best.copied(),
                "{profile:?} {free:08b}"
            );
        }
    }
}

#[test]
fn profiles_are_chosen_by_compute_and_memory() {
    let check = |model: MigModel, slices, mib, expected| {
        assert_eq!(model.profile_for(slices, mib), expected);
    };
    check(MigModel::A100M40, 1, 4_000, Some(G1));
    check(MigModel::A100M40, 1, 9_000, Some(G1M2));
    check(MigModel::A100M40, 2, 4_000, Some(G2));
    check(MigModel::H100M80, 1, 30_000, Some(G3));
    check(MigModel::H200M141, 7, 0, Some(G7));
    check(MigModel::A100M40, 1, 50_000, None);
    check(MigModel::A100M40, 8, 0, None);
    let share = |milli, expected| {
        assert_eq!(MigModel::H100M80.profile_for_share(milli, 0), expected);
    };
    share(1, Some(G1));
    share(142, Some(G1));
    share(143, Some(G2));
    share(428, Some(G3));
    share(429, Some(G4));
    share(572, Some(G7));
    share(1_000, Some(G7));
    for profile in MigProfile::ALL {
        let request = partition(profile, MigModel::H100M80);
        let demand = cut(1, MigModel::H100M80).gpu.demand(&request).unwrap();
        assert_eq!(demand.milli, profile.compute_milli());
        assert_eq!(demand.profile, (profile != G7).then_some(profile));
    }
}

#[test]
fn each_mode_grants_what_was_asked_for() {
    let half = share(500, Isolation::TimeSlice);
    let check = |spec: NodeSpec, request: &Request, expected: Grant| {
        let mut cluster = Cluster::new(vec![spec]);
        let devices = cluster.devices_for(NodeIndex(0), request, None).unwrap();
        let allocation = cluster.allocate(NodeIndex(0), devices, request).unwrap();
        assert_eq!(cluster.grant(&allocation), expected);
        cluster.release(&allocation);
        assert!(cluster == Cluster::new(vec![spec]));
    };
    let whole = share(WHOLE_GPU, Isolation::Hardware);
    let cpu = Request::new(1, 1, 0, 0).unwrap();
    let modes = [
        Sharing::WholeOnly,
        Sharing::TimeSlice,
        Sharing::Mps,
        Sharing::Mig(MigModel::A100M40),
    ];
    for sharing in modes {
        check(machine(2, 40_960, sharing), &whole, Grant::Whole);
        check(machine(2, 40_960, sharing), &cpu, Grant::NoGpu);
    }
    check(
        machine(1, 40_000, Sharing::Mps),
        &half.with_gpu_memory(3_000),
        Grant::Mps {
            share_milli: 500,
            memory_mib: 3_000,
        },
    );
    check(
        machine(1, 40_000, Sharing::TimeSlice),
        &half,
        Grant::TimeSlice {
            quantum_us: TIME_SLICE_PERIOD_US / 2,
            memory_mib: 20_000,
        },
    );
    let model = MigModel::A100M40;
    let instance = MigInstance {
        profile: G4,
        start: 0,
    };
    check(cut(1, model), &half, Grant::Mig { model, instance });
}

#[test]
fn isolation_is_part_of_the_request() {
    let try_on = |sharing, isolation| {
        let mut cluster = Cluster::new(vec![machine(1, 80_000, sharing)]);
        let request = share(300, isolation);
        let kinds = cluster.kinds().filter(&request);
        let allowed = kinds.contains(cluster.kind(NodeIndex(0)));
        let taken = cluster.allocate(NodeIndex(0), 1, &request);
        assert_eq!(allowed, taken.is_ok(), "{sharing:?} {isolation:?}");
        if !allowed {
            assert_eq!(taken, Err(AllocateError::Sharing { isolation }));
        }
        allowed
    };
    let mig = Sharing::Mig(MigModel::A100M80);
    let levels = [Isolation::TimeSlice, Isolation::Mps, Isolation::Hardware];
    let allowed = |sharing| levels.map(|isolation| try_on(sharing, isolation));
    assert_eq!(allowed(Sharing::WholeOnly), [false, false, false]);
    assert_eq!(allowed(Sharing::TimeSlice), [true, false, false]);
    assert_eq!(allowed(Sharing::Mps), [true, true, false]);
    assert_eq!(allowed(mig), [true, true, true]);
}

#[test]
fn partitions_and_whole_gpus_do_not_meet() {
    let model = MigModel::H100M80;
    let mut cluster = Cluster::new(vec![cut(2, model)]);
    let node = NodeIndex(0);
    let whole = share(WHOLE_GPU, Isolation::Hardware);
    let small = partition(G1, model);
    let first = cluster.allocate(node, 1, &small).unwrap();
    assert_eq!(cluster.devices_for(node, &whole, None), Some(2));
    assert_eq!(
        cluster.allocate(node, 1, &whole),
        Err(AllocateError::Gpu { device: 0 })
    );
    let second = cluster.allocate(node, 2, &whole).unwrap();
    assert_eq!(cluster.slot(node, 1), 0);
    assert_eq!(
        cluster.allocate(node, 2, &small),
        Err(AllocateError::Gpu { device: 1 })
    );
    assert_eq!(cluster.device_room(node, 0, &small), 6);
    assert_eq!(cluster.device_room(node, 0, &partition(G3, model)), 1);
    cluster.release(&second);
    cluster.release(&first);
    assert!(cluster == Cluster::new(vec![cut(2, model)]));
}
