//! What kinds of work the market sees, and how often.

use std::collections::BTreeMap;

use crate::cluster::{Needs, Request, WHOLE_GPU};
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

    /// Counts one more job.
    pub fn observe(&mut self, request: &Request) {
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
        *count = count.saturating_add(1);
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
