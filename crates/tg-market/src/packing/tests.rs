#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use crate::cluster::{Allocation, Cluster, Grant, Isolation, Needs, NodeSpec, Request, WHOLE_GPU};
use crate::packing::scheduler::PackingScheduler;
use crate::packing::shape::Shape;
use crate::packing::table::{CPU_UNIT_MILLI, Tables};
use crate::packing::{WorkloadProfile, scan};
use crate::synthetic::{
    Draws, sharing_node, sharing_request, synthetic_node, synthetic_request, synthetic_trace,
};

/// What machines and jobs are drawn from: GPUs shared by MPS only, or in every way.
#[derive(Debug, Clone, Copy)]
enum Modes {
    Plain,
    All,
}

impl Modes {
    fn node(self, draws: &mut Draws) -> NodeSpec {
        match self {
            Self::Plain => synthetic_node(draws),
            Self::All => sharing_node(draws),
        }
    }

    fn request(self, draws: &mut Draws) -> Request {
        match self {
            Self::Plain => synthetic_request(draws),
            Self::All => sharing_request(draws),
        }
    }
}

fn modes() -> impl Strategy<Value = Modes> {
    prop_oneof![Just(Modes::Plain), Just(Modes::All)]
}

/// A market of a few machines and the work it expects.
fn market(modes: Modes, seed: u64, nodes: u64) -> (Vec<NodeSpec>, WorkloadProfile, Draws) {
    let mut draws = Draws::new(seed);
    let specs = (0..nodes).map(|_| modes.node(&mut draws)).collect();
    let work: Vec<Request> = (0..200).map(|_| modes.request(&mut draws)).collect();
    (specs, WorkloadProfile::of(&work), draws)
}

/// One step of a random history: places or gives back, and checks the index against the scan.
fn step(
    modes: Modes,
    scheduler: &mut PackingScheduler,
    held: &mut Vec<Allocation>,
    draws: &mut Draws,
) {
    if !held.is_empty() && draws.below(3) == 0 {
        let at = draws.below(held.len() as u64) as usize;
        let allocation = held.swap_remove(at);
        scheduler.release(&allocation);
        return;
    }
    let request = modes.request(draws);
    let scanned = scan::best(scheduler.cluster(), scheduler.index(), &request);
    assert_eq!(scheduler.best(&request), scanned, "index and scan differ");
    let fits = {
        let cluster = scheduler.cluster();
        cluster.nodes().any(|node| cluster.fits(node, &request))
    };
    let placed = scheduler.place(&request);
    assert_eq!(placed.is_some(), fits, "refused although a machine fits");
    held.extend(placed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_index_finds_what_the_scan_finds(modes in modes(), seed: u64, nodes in 1_u64..40, steps in 1_usize..250) {
        let (specs, profile, mut draws) = market(modes, seed, nodes);
        let mut scheduler = PackingScheduler::new(Cluster::new(specs), &profile, seed);
        let mut held = Vec::new();
        for _ in 0..steps {
            step(modes, &mut scheduler, &mut held, &mut draws);
        }
    }

    #[test]
    fn an_index_rebuilt_from_state_gives_the_same_answers(modes in modes(), seed: u64, nodes in 1_u64..30) {
        let (specs, profile, mut draws) = market(modes, seed, nodes);
        let mut kept = PackingScheduler::new(Cluster::new(specs), &profile, seed);
        let mut held = Vec::new();
        for _ in 0..120 {
            step(modes, &mut kept, &mut held, &mut draws);
        }
        let anchor = kept.anchor().to_vec();
        let mut rebuilt =
            PackingScheduler::restore(kept.cluster().clone(), &profile, seed, &anchor).unwrap();
        for _ in 0..120 {
            let request = modes.request(&mut draws);
            prop_assert_eq!(kept.place(&request), rebuilt.place(&request));
            prop_assert_eq!(kept.anchor(), rebuilt.anchor());
        }
    }

    #[test]
    fn what_is_undone_never_happened(modes in modes(), seed: u64, nodes in 1_u64..30, undone in 1_usize..150) {
        let (specs, profile, mut draws) = market(modes, seed, nodes);
        let mut scheduler = PackingScheduler::new(Cluster::new(specs), &profile, seed);
        let mut held = Vec::new();
        for _ in 0..60 {
            step(modes, &mut scheduler, &mut held, &mut draws);
        }
        let before = scheduler.cluster().clone();
        let anchor = scheduler.anchor().to_vec();
        let reference = PackingScheduler::restore(before.clone(), &profile, seed, &anchor);
        let mut reference = reference.unwrap();
        let mark = scheduler.mark();
        let mut lost = held.clone();
        for _ in 0..undone {
            step(modes, &mut scheduler, &mut lost, &mut draws);
        }
        scheduler.undo_to(mark);
        prop_assert!(*scheduler.cluster() == before);
        prop_assert_eq!(scheduler.anchor(), anchor.as_slice());
        for _ in 0..60 {
            let request = modes.request(&mut draws);
            prop_assert_eq!(scheduler.place(&request), reference.place(&request));
        }
    }

    #[test]
    fn nothing_is_ever_over_capacity(modes in modes(), seed: u64, nodes in 1_u64..20) {
        let (specs, profile, mut draws) = market(modes, seed, nodes);
        let mut scheduler = PackingScheduler::new(Cluster::new(specs.clone()), &profile, seed);
        let mut held: Vec<Allocation> = Vec::new();
        for _ in 0..150 {
            step(modes, &mut scheduler, &mut held, &mut draws);
        }
        let cluster = scheduler.cluster();
        for node in cluster.nodes() {
            let spec = specs[node.0 as usize];
            let here = || held.iter().filter(|it| it.node() == node);
            let cpu: u64 = here().map(|it| u64::from(it.request().cpu_milli())).sum();
            prop_assert!(cpu <= u64::from(spec.cpu_milli));
            for device in 0..8 {
                let on_device = || here().filter(|it| it.devices().any(|d| d == device));
                let milli: u32 = on_device().map(|it| u32::from(it.gpu_milli())).sum();
                let memory: u64 = on_device().map(|it| u64::from(it.gpu_memory_mib())).sum();
                prop_assert!(milli <= u32::from(WHOLE_GPU));
                prop_assert!(memory <= u64::from(spec.gpu.memory_mib), "memory is oversubscribed");
                let mut covered = 0_u8;
                for instance in on_device().filter_map(Allocation::mig) {
                    prop_assert!(instance.profile.starts().contains(&instance.start));
                    prop_assert_eq!(covered & instance.mask(), 0, "partitions overlap");
                    covered |= instance.mask();
                }
            }
            for held in here() {
                let (request, isolation) = (held.request(), held.request().needs().isolation);
                prop_assert!(held.gpu_milli() >= request.gpu_milli());
                prop_assert!(request.gpus() == 0 || held.gpu_memory_mib() >= request.gpu_memory_mib());
                let apart = match cluster.grant(held) {
                    Grant::NoGpu | Grant::Whole | Grant::Mig { .. } => Isolation::Hardware,
                    Grant::Mps { .. } => Isolation::Mps,
                    Grant::TimeSlice { .. } => Isolation::TimeSlice,
                };
                prop_assert!(apart >= isolation, "less isolation than was asked for");
            }
        }
    }

    #[test]
    fn a_placement_never_adds_to_what_others_are_offered(modes in modes(), seed: u64) {
        // Up to the rounding that the index allows for.
        let (specs, profile, mut draws) = market(modes, seed, 10);
        let cluster = Cluster::new(specs);
        let tables = Tables::new(&profile, cluster.kinds(), 128_000);
        let prices = vec![1 << 10; tables.groups().len()];
        let priced = tables.priced(&prices);
        let all: Vec<u16> = (0..tables.groups().len() as u16).collect();
        let slack = tables.rounding_slack(&all, &prices);
        for node in cluster.nodes() {
            let mut shape = Shape::of(&cluster, node);
            for _ in 0..20 {
                let request = modes.request(&mut draws);
                let choices: Vec<u16> = shape.choices(&request).collect();
                for milli in choices {
                    let after = shape.after(&request, milli);
                    prop_assert!(priced.value(&after) <= priced.value(&shape) + slack);
                    if draws.below(3) == 0 && request.cpu_milli() <= u32::from(shape.cpu_units) * CPU_UNIT_MILLI {
                        shape = after;
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_after_is_the_shape_of_the_machine_after(modes in modes(), seed: u64) {
        let (specs, _, mut draws) = market(modes, seed, 6);
        let mut cluster = Cluster::new(specs);
        for _ in 0..60 {
            let request = modes.request(&mut draws);
            for node in cluster.nodes() {
                let shape = Shape::of(&cluster, node);
                let Some(milli) = shape.choices(&request).next() else { continue };
                let preferred = request.is_fraction().then_some(milli);
                let Some(devices) = cluster.devices_for(node, &request, preferred) else { continue };
                if cluster.allocate(node, devices, &request).is_err() { continue }
                let now = Shape::of(&cluster, node);
                let told = shape.after(&request, milli);
                prop_assert_eq!(told.gpu_milli, now.gpu_milli);
                prop_assert!(now.cpu_units >= told.cpu_units && now.cpu_units - told.cpu_units <= 1);
                break;
            }
        }
    }
}

#[test]
fn shapes_pack_into_distinct_numbers() {
    let (specs, _, mut draws) = market(Modes::All, 3, 40);
    let mut cluster = Cluster::new(specs);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let request = sharing_request(&mut draws);
        let fitting = cluster.nodes().find(|node| cluster.fits(*node, &request));
        let Some(node) = fitting else { continue };
        let devices = cluster.devices_for(node, &request, None).unwrap();
        cluster.allocate(node, devices, &request).unwrap();
        let shape = Shape::of(&cluster, node);
        for key in [shape.pack(), shape.tie(1), shape.tie(2)] {
            assert_eq!(*seen.entry(key).or_insert(shape), shape);
        }
    }
    assert!(seen.len() > 300);
}

#[test]
fn a_gang_keeps_its_machine_while_others_have_room() {
    // Two eight-GPU machines and four small ones; as many gangs are expected as single jobs.
    let mut draws = Draws::new(1);
    let mut big = synthetic_node(&mut draws);
    while big.gpu_count != 8 {
        big = synthetic_node(&mut draws);
    }
    let small = NodeSpec {
        gpu_count: 2,
        cpu_milli: big.cpu_milli / 4,
        memory_mib: big.memory_mib / 4,
        ..big
    };
    let gang = Request::new(64_000, 1_000, 8, WHOLE_GPU).unwrap();
    let single = Request::new(8_000, 1_000, 1, WHOLE_GPU).unwrap();
    let profile = WorkloadProfile::of([&gang, &single]);
    let specs = vec![big, small, small, big, small, small];
    let mut scheduler = PackingScheduler::new(Cluster::new(specs), &profile, 9);
    for _ in 0..8 {
        assert_eq!(scheduler.place(&single).unwrap().devices().count(), 1);
    }
    assert!(scheduler.place(&gang).is_some() && scheduler.place(&gang).is_some());
    assert!(scheduler.place(&gang).is_none());
}

#[test]
fn the_order_of_machines_does_not_matter_to_how_much_is_placed() {
    let trace = synthetic_trace(11, 60, 900);
    let requests = trace.requests();
    let profile = WorkloadProfile::of(&requests);
    let placed = |specs: Vec<NodeSpec>, seed: u64| {
        let mut scheduler = PackingScheduler::new(Cluster::new(specs), &profile, seed);
        let milli = |it: Allocation| u64::from(it.request().gpu_milli_total());
        requests
            .iter()
            .filter_map(|request| scheduler.place(request).map(milli))
            .sum::<u64>()
    };
    let capacity = Cluster::new(trace.specs()).gpu_milli_capacity();
    let mut shares = Vec::new();
    for seed in 0..6 {
        let mut specs = trace.specs();
        specs.rotate_left(seed as usize * 7);
        shares.push(placed(specs, seed) * 1_000 / capacity);
    }
    let (low, high) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(high - low <= 12, "{shares:?}");
}

#[test]
fn rare_and_scarce_models_are_kept_for_those_who_need_them() {
    let mut draws = Draws::new(5);
    let base = synthetic_node(&mut draws);
    let with_model = |model| NodeSpec {
        gpu_count: 4,
        cpu_milli: 64_000,
        memory_mib: 512_000,
        gpu: crate::cluster::Gpu { model, ..base.gpu },
        region: 0,
        ..base
    };
    let any = Request::new(4_000, 1_000, 1, WHOLE_GPU).unwrap();
    let bound = any.with_needs(Needs {
        models: crate::cluster::ModelSet::NONE.with(1),
        ..Needs::NONE
    });
    let profile = WorkloadProfile::of([&any, &bound]);
    let specs = vec![with_model(0), with_model(1), with_model(0), with_model(1)];
    let mut scheduler = PackingScheduler::new(Cluster::new(specs), &profile, 2);
    for _ in 0..8 {
        let node = scheduler.place(&any).unwrap().node();
        assert_eq!(scheduler.cluster().spec(node).gpu.model, 0);
    }
    assert!((0..8).all(|_| scheduler.place(&bound).is_some()));
    assert!(scheduler.place(&any).is_none());
}
