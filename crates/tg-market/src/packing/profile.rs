//! What kinds of work the market sees, and how often.
//!
//! Nobody knows the work to come. [`Learner`] takes it to be like the work that came, and before much came, like what
//! somebody would expect who sees the machines only ([`WorkloadProfile::prior`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{ModelSet, Needs, NodeSpec, Request, WHOLE_GPU};
use crate::packing::table::cpu_units_ceil;

/// Work that takes the same GPUs under the same needs, and about the same CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkClass {
    /// Number of GPUs, at least 1.
    pub gpus: u8,
    /// Share of each, in thousandths.
    pub gpu_milli: u16,
    /// What it needs of the machine.
    pub needs: Needs,
    /// CPU in units of the tables, rounded up.
    pub cpu_units: u16,
}

/// How often each class of work comes. Jobs without a GPU are not counted: they compete for CPU only, and what
/// they take of it is priced by the GPU work it starves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadProfile {
    counts: BTreeMap<WorkClass, u64>,
}

/// Most classes that are told apart; the rarest beyond it are left out, gangs last.
pub const WORK_CLASSES_MAX: usize = 4_096;

impl WorkloadProfile {
    /// No work seen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The profile of `requests`.
    #[must_use]
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Self {
        let mut profile = Self::new();
        for request in requests {
            profile.observe(request);
        }
        profile
    }

    /// What the machines let expect: for each model and number of GPUs a machine has, `jobs` jobs of one GPU that need
    /// this model and half of their share of the CPU. So a model is worth keeping for those who need it before the
    /// first of them came.
    #[must_use]
    pub fn prior(nodes: &[NodeSpec], jobs: u64) -> Self {
        let mut profile = Self::new();
        for (model, gpus, cpu_milli) in machine_kinds(nodes) {
            let needs = Needs {
                models: ModelSet::NONE.with(model),
                ..Needs::NONE
            };
            if let Ok(single) = Request::new(cpu_milli / u32::from(gpus) / 2, 0, 1, WHOLE_GPU) {
                profile.observe_worth(&single.with_needs(needs), jobs);
            }
        }
        profile
    }

    /// As [`Self::prior`], and for each model and number of GPUs also jobs that take all GPUs of a machine of any model,
    /// which weigh as much as `jobs` for each GPU: for markets where a job that came too early cannot be moved and would
    /// keep a whole machine from the first who needs one.
    #[must_use]
    pub fn prior_with_gangs(nodes: &[NodeSpec], jobs: u64) -> Self {
        let mut profile = Self::prior(nodes, jobs);
        for (_, gpus, cpu_milli) in machine_kinds(nodes) {
            if let Ok(whole) = Request::new(cpu_milli / 2, 0, gpus, WHOLE_GPU) {
                profile.observe_worth(&whole, jobs.saturating_mul(u64::from(gpus)));
            }
        }
        profile
    }

    /// Counts one more job.
    pub fn observe(&mut self, request: &Request) {
        self.observe_worth(request, 1);
    }

    /// Counts one more job that weighs as much as `worth` jobs: say, its GPUs.
    pub fn observe_worth(&mut self, request: &Request, worth: u64) {
        if request.gpus() == 0 {
            return;
        }
        let count = self
            .counts
            .entry(WorkClass {
                gpus: request.gpus(),
                gpu_milli: request.gpu_milli(),
                needs: *request.needs(),
                cpu_units: cpu_units_ceil(request.cpu_milli()),
            })
            .or_default();
        *count = count.saturating_add(worth);
    }

    /// Halves every count, so that later work weighs more; classes that fall to nothing are forgotten.
    pub fn decay(&mut self) {
        for count in self.counts.values_mut() {
            *count /= 2;
        }
        self.counts.retain(|_, count| *count > 0);
    }

    /// Whether no GPU work was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The classes with their weights: parts of 2^16, at least 1. Where there are more than [`WORK_CLASSES_MAX`],
    /// those with the most GPUs and then the most frequent are kept.
    #[must_use]
    pub fn weights(&self) -> Vec<(WorkClass, u32)> {
        let mut kept: Vec<(WorkClass, u64)> = self.counts.iter().map(|(k, v)| (*k, *v)).collect();
        if kept.len() > WORK_CLASSES_MAX {
            kept.sort_by_key(|(class, count)| {
                (
                    std::cmp::Reverse(class.gpus),
                    std::cmp::Reverse(*count),
                    *class,
                )
            });
            kept.truncate(WORK_CLASSES_MAX);
            kept.sort_unstable();
        }
        let total: u128 = kept.iter().map(|(_, count)| u128::from(*count)).sum();
        kept.into_iter()
            .map(|(class, count)| {
                let weight = (u128::from(count) << 16) / total.max(1);
                (class, weight.max(1) as u32)
            })
            .collect()
    }
}

impl WorkClass {
    /// GPU compute of one job, in thousandths of a GPU.
    #[must_use]
    pub const fn gpu_milli_total(&self) -> u32 {
        self.gpus as u32 * self.gpu_milli as u32
    }

    /// A request of this class, for asking which machines it can use.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        let milli = self.gpu_milli.min(WHOLE_GPU);
        Request::new(0, 0, self.gpus, milli)
            .ok()
            .map(|request| request.with_needs(self.needs))
    }
}

/// Model, number of GPUs and CPU of the machines with GPUs; of machines that differ in CPU only, the least.
fn machine_kinds(nodes: &[NodeSpec]) -> impl Iterator<Item = (u8, u8, u32)> {
    let kinds: BTreeSet<(u8, u8, u32)> = nodes
        .iter()
        .filter(|node| node.gpu_count > 0)
        .map(|node| (node.gpu.model, node.gpu_count, node.cpu_milli))
        .collect();
    let mut last = None;
    kinds
        .into_iter()
        .filter(move |(model, gpus, _)| last.replace((*model, *gpus)) != Some((*model, *gpus)))
}

/// Jobs that [`WorkloadProfile::prior`] stands for in simulations. On the trace 1 to 10 made no difference above 0.1
/// points of the allocated share, 100 cost half a point where jobs need models.
pub const PRIOR_JOBS: u64 = 2;

/// As [`PRIOR_JOBS`], where jobs depart. On the trace more of them earn more and let more single jobs be late.
pub const PRIOR_JOBS_WITH_GANGS: u64 = 4;

/// Learns the work to come from the work that came, at first after 8 jobs, then whenever a quarter more came.
#[derive(Debug, Clone)]
pub struct Learner {
    profile: WorkloadProfile,
    seen: u64,
    next: u64,
}

impl Learner {
    /// Expects `prior`.
    #[must_use]
    pub const fn new(prior: WorkloadProfile) -> Self {
        Self {
            profile: prior,
            seen: 0,
            next: 8,
        }
    }

    /// What is expected now.
    #[must_use]
    pub const fn profile(&self) -> &WorkloadProfile {
        &self.profile
    }

    /// Takes note of a job.
    pub fn observe(&mut self, request: &Request) {
        self.profile.observe(request);
        self.seen = self.seen.saturating_add(1);
    }

    /// Whether so much came that the scheduler should [learn](crate::packing::PackingScheduler::learn) it; once each
    /// time.
    pub const fn due(&mut self) -> bool {
        let due = self.seen >= self.next;
        if due {
            self.next = self.seen.saturating_add(self.seen / 4 + 1);
        }
        due
    }
}
