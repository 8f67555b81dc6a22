#![allow(clippy::unwrap_used, reason = "tests")]

//! Cluster, filters and baselines against models written the slow and obvious way.

use proptest::prelude::*;

use tg_lab::baseline::{BaselineScheduler, Policy};
use tg_lab::synthetic::{Draws, sharing_node, sharing_request};
use tg_market::cluster::{
    Allocation, Cluster, GPUS_PER_NODE_MAX, Interconnect, Isolation, Needs, NodeIndex, NodeSpec,
    Request, Sharing, WHOLE_GPU,
};
use tg_market::mig::{ALL_FREE, MigProfile};

/// What one machine has left, kept as lists of who holds what.
#[derive(Debug, Clone)]
struct Model {
    spec: NodeSpec,
    held: Vec<Allocation>,
}

impl Model {
    fn on_device(&self, device: usize) -> impl Iterator<Item = &Allocation> {
        let held = self.held.iter();
        held.filter(move |it| it.devices().any(|own| own == device))
    }

    fn milli_left(&self, device: usize) -> u32 {
        let used: u32 = self
            .on_device(device)
            .map(|it| u32::from(it.gpu_milli()))
            .sum();
        u32::from(WHOLE_GPU) - used
    }

    fn memory_left(&self, device: usize) -> u32 {
        let used: u32 = self.on_device(device).map(Allocation::gpu_memory_mib).sum();
        self.spec.gpu.memory_mib - used
    }

    /// Whether `device` could take the part of `request`, by trying every place of a partition.
    fn device_fits(&self, device: usize, request: &Request) -> bool {
        if device >= usize::from(self.spec.gpu_count) {
            return false;
        }
        if !request.is_fraction() {
            return self.on_device(device).count() == 0
                && request.gpu_memory_mib() <= self.spec.gpu.memory_mib;
        }
        let share = u64::from(request.gpu_milli());
        let Sharing::Mig(model) = self.spec.gpu.sharing else {
            let memory = match request.gpu_memory_mib() {
                0 => (u64::from(self.spec.gpu.memory_mib) * share / 1_000) as u32,
                stated => stated,
            };
            return self.milli_left(device) >= share as u32 && self.memory_left(device) >= memory;
        };
        if self.on_device(device).any(|it| it.mig().is_none()) {
            return false;
        }
        let covered = self.on_device(device).filter_map(Allocation::mig);
        let free = covered.fold(ALL_FREE, |free, it| free & !it.mask());
        // The first profile that is enough; larger ones are not tried.
        let enough = |profile: &MigProfile| {
            u64::from(profile.compute_slices()) * 1_000 >= share * 7
                && model.memory_mib(*profile) >= request.gpu_memory_mib()
        };
        MigProfile::ALL
            .into_iter()
            .find(enough)
            .is_some_and(|profile| {
                let starts = profile.starts().iter();
                self.memory_left(device) >= model.memory_mib(profile)
                    && starts.copied().any(|start| profile.fits_at(free, start))
            })
    }

    fn serves(&self, needs: &Needs, request: &Request) -> bool {
        let (spec, gpu) = (&self.spec, &self.spec.gpu);
        let apart = match gpu.sharing {
            Sharing::WholeOnly => None,
            Sharing::TimeSlice => Some(Isolation::TimeSlice),
            Sharing::Mps => Some(Isolation::Mps),
            Sharing::Mig(_) => Some(Isolation::Hardware),
        };
        needs.region.is_none_or(|region| region == spec.region)
            && (request.gpus() == 0
                || needs.models.contains(gpu.model)
                    && gpu.capability >= needs.capability_min
                    && (gpu.tensor_cores || !needs.tensor_cores)
                    && gpu.interconnect >= needs.interconnect_min
                    && (!request.is_fraction() || apart >= Some(needs.isolation)))
    }

    fn fits(&self, request: &Request) -> bool {
        let sum =
            |of: fn(&Request) -> u32| self.held.iter().map(|it| of(it.request())).sum::<u32>();
        let devices = (0..GPUS_PER_NODE_MAX).filter(|it| self.device_fits(*it, request));
        self.serves(request.needs(), request)
            && self.spec.cpu_milli - sum(Request::cpu_milli) >= request.cpu_milli()
            && self.spec.memory_mib - sum(Request::memory_mib) >= request.memory_mib()
            && self.spec.disk_gib - sum(Request::disk_gib) >= request.disk_gib()
            && devices.count() >= usize::from(request.gpus())
    }
}

/// A request with any mode, and needs of every kind.
fn any_request(draws: &mut Draws) -> Request {
    let request = sharing_request(draws);
    let needs = Needs {
        capability_min: [0, 0, 0, 75, 90][draws.below(5) as usize],
        tensor_cores: draws.below(6) == 0,
        interconnect_min: *draws.pick(&[
            Interconnect::Pcie,
            Interconnect::Pcie,
            Interconnect::Nvlink,
        ]),
        region: (draws.below(6) == 0).then(|| draws.below(5) as u16),
        ..*request.needs()
    };
    request.with_needs(needs).with_disk(draws.below(400) as u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cluster_fits_what_its_model_fits(seed: u64, nodes in 1_u64..8) {
        let mut draws = Draws::new(seed);
        let specs: Vec<NodeSpec> = (0..nodes).map(|_| sharing_node(&mut draws)).collect();
        let mut cluster = Cluster::new(specs.clone());
        let mut models: Vec<Model> =
            specs.iter().map(|spec| Model { spec: *spec, held: Vec::new() }).collect();
        for _ in 0..80 {
            let request = any_request(&mut draws);
            for node in cluster.nodes() {
                let model = &models[node.0 as usize];
                prop_assert_eq!(cluster.fits(node, &request), model.fits(&request), "{:?} {:?}", request, model);
                for device in 0..GPUS_PER_NODE_MAX {
                    if request.gpus() > 0 && device < usize::from(model.spec.gpu_count) {
                        let serves = cluster.device_serves(node, device, &request);
                        prop_assert_eq!(serves, model.device_fits(device, &request));
                    }
                }
            }
            let at = draws.below(nodes) as usize;
            let node = NodeIndex(at as u32);
            if draws.below(4) == 0 && !models[at].held.is_empty() {
                let gone = draws.below(models[at].held.len() as u64) as usize;
                let allocation = models[at].held.swap_remove(gone);
                cluster.release(&allocation);
            } else if models[at].fits(&request) {
                let devices = cluster.devices_for(node, &request, None).unwrap();
                models[at].held.push(cluster.allocate(node, devices, &request).unwrap());
            }
        }
    }

    #[test]
    fn baselines_take_a_machine_that_fits_if_any_does(seed: u64, nodes in 1_u64..8) {
        let mut draws = Draws::new(seed);
        let specs: Vec<NodeSpec> = (0..nodes).map(|_| sharing_node(&mut draws)).collect();
        let work: Vec<Request> = (0..40).map(|_| any_request(&mut draws)).collect();
        for policy in Policy::ALL.into_iter().skip(1) {
            let mut cluster = Cluster::new(specs.clone());
            let order = (0..nodes as u32).collect();
            let mut rule = BaselineScheduler::new(&cluster, policy, seed, order, &work);
            for request in &work {
                let fitting: Vec<NodeIndex> =
                    cluster.nodes().filter(|node| cluster.fits(*node, request)).collect();
                let Some((node, devices)) = rule.best(&cluster, request) else {
                    prop_assert!(fitting.is_empty(), "{:?} refused needlessly", policy);
                    continue;
                };
                prop_assert!(fitting.contains(&node));
                if policy == Policy::Fifo {
                    prop_assert_eq!(node, fitting[0]);
                }
                prop_assert!(cluster.allocate(node, devices, request).is_ok(), "{:?}", policy);
                rule.node_changed(node);
            }
        }
    }

}
