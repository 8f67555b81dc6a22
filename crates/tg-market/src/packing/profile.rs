//! What kinds of work the market sees, and how often.
//!
//! Nobody knows the work to come. [`Learner`] takes it to be like the work that came, and before much came, like what
//! somebody would expect who sees the machines only ([`WorkloadProfile::prior`]).

use std::collections::BTreeMap;

use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

use crate::cluster::{Interconnect, Isolation, ModelSet, Needs, Request, WHOLE_GPU};
use crate::packing::units::{CPU_UNITS_MAX, cpu_units_ceil};

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

    /// What machines with these models, numbers of GPUs and CPU (which rise) let expect: for each model and number of GPUs
    /// [`PRIOR_SINGLES`] jobs of one GPU that need this model, so that it is worth keeping for those who need it before the
    /// first of them came; and a job that takes all GPUs of such a machine of any model, which weighs [`PRIOR_WHOLE`] for each GPU,
    /// as a job that came too early cannot be moved and would keep a whole machine from the first who needs one. They take half
    /// of their share of the CPU of the least machine.
    ///
    /// Of the jobs that need a model fewer are expected the more `seen` ones need none: [`PRIOR_FADES_AFTER`] of them halve
    /// it, as long as not one in [`PRIOR_NAMED`] needs one. All count [`JOB_PARTS`], to be joined to as much for each job seen.
    #[must_use]
    pub fn prior(sizes: impl Iterator<Item = (u8, u8, u32)>, seen: &Self) -> Self {
        let mut profile = Self::new();
        let (jobs, named) = (seen.total(), seen.naming_models());
        let parts = PRIOR_FADES_AFTER.saturating_add(PRIOR_NAMED.saturating_mul(named));
        let of = PRIOR_FADES_AFTER.saturating_add(jobs).max(1);
        let singles = PRIOR_SINGLES * JOB_PARTS * parts.min(of) / of;
        let mut last = None;
        let is_least = |it: &(u8, u8, u32)| last.replace((it.0, it.1)) != Some((it.0, it.1));
        for (model, gpus, cpu_milli) in sizes.filter(is_least) {
            let needs = Needs {
                models: ModelSet::NONE.with(model),
                ..Needs::NONE
            };
            let share = cpu_milli / u32::from(gpus.max(1)) / 2;
            if let Ok(single) = Request::new(share, 0, 1, WHOLE_GPU) {
                profile.observe_worth(&single.with_needs(needs), singles);
            }
            if let Ok(whole) = Request::new(cpu_milli / 2, 0, gpus, WHOLE_GPU) {
                profile.observe_worth(&whole, PRIOR_WHOLE * JOB_PARTS * u64::from(gpus));
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

    /// Counts all of `other` too, each [`JOB_PARTS`] times.
    pub fn join_seen(&mut self, other: &Self) {
        for (class, more) in &other.counts {
            let count = self.counts.entry(*class).or_default();
            *count = count.saturating_add(more.saturating_mul(JOB_PARTS));
        }
    }

    /// Jobs counted that need one of some models.
    #[must_use]
    pub fn naming_models(&self) -> u64 {
        let named = |it: &(&WorkClass, &u64)| it.0.needs.models != ModelSet::ANY;
        let named = self.counts.iter().filter(named);
        named.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Halves every count, so that later work weighs more; classes that fall to nothing are forgotten.
    pub fn decay(&mut self) {
        for count in self.counts.values_mut() {
            *count /= 2;
        }
        self.counts.retain(|_, count| *count > 0);
    }

    /// Forgets the rarest classes beyond `classes` of them; of equals the first.
    pub fn keep_at_most(&mut self, classes: usize) {
        while self.counts.len() > classes {
            let rarest = self.counts.iter().min_by_key(|(_, count)| **count);
            let Some(class) = rarest.map(|(class, _)| *class) else {
                return;
            };
            self.counts.remove(&class);
        }
    }

    /// Jobs counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum, it| sum.saturating_add(*it))
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

/// Jobs of one GPU in [`WorkloadProfile::prior`] for each model and number of GPUs. On the trace 1 to 10 make no difference
/// above 0.1 points of the allocated share, 100 cost half a point where jobs need models.
pub const PRIOR_SINGLES: u64 = 4;

/// After how many jobs of which none names a model half as many of [`PRIOR_SINGLES`] are expected. Less places more where half of
/// the jobs want 2 to 8 GPUs and none names a model (at 95 % of what is asked for 0.1 points at 4,096, 0.4 at 256), and serves worse
/// where jobs come and go (`docs/MARKET.md`).
pub const PRIOR_FADES_AFTER: u64 = 1 << 12;

/// Where one job in so many names a model the whole of [`PRIOR_SINGLES`] stays expected: without it 0.6 points less are placed of
/// gpuspec33, of whose jobs a third do.
pub const PRIOR_NAMED: u64 = 3;

/// What one job counts in [`WorkloadProfile::prior`], so that parts of a job can be expected.
pub const JOB_PARTS: u64 = 1 << 10;

/// What a job for a whole machine weighs for each GPU in [`WorkloadProfile::prior`]. On the trace more of it earns more, lets
/// more single jobs be late, and spends models on jobs that need none of them: at 4, of the jobs of gpuspec33 that come until all
/// is asked for, 90.6 % of the compute is placed, at 1 93.8, at 0 94.8; at 0 a third of the compute is idle while jobs wait, a
/// quarter at 1 and 4.
pub const PRIOR_WHOLE: u64 = 1;

/// Learns the work to come from the work that came, at first after 8 jobs, then whenever a quarter more came.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// A learner that keeps at most `classes` classes and `jobs` jobs: beyond, the rarest classes are forgotten, and
    /// all count half.
    pub fn bound(&mut self, classes: usize, jobs: u64) {
        self.profile.keep_at_most(classes);
        if self.profile.total() > jobs {
            self.profile.decay();
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

    /// Whether so much came that the scheduler should learn it; once each time.
    pub const fn due(&mut self) -> bool {
        let due = self.seen >= self.next;
        if due {
            self.next = self.seen.saturating_add(self.seen / 4 + 1);
        }
        due
    }
}

/// Most classes of work that [`ExpectedWork`] tells apart.
pub const EXPECTED_CLASSES_MAX: usize = 128;

/// Jobs by which [`ExpectedWork`] learns; beyond, the older ones count half.
pub const EXPECTED_JOBS_MAX: u64 = 1 << 16;

/// The work that came, and the work that is therefore expected: what the ledger prices placements by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedWork {
    learner: Learner,
    expected: WorkloadProfile,
}

impl Default for ExpectedWork {
    fn default() -> Self {
        Self {
            learner: Learner::new(WorkloadProfile::new()),
            expected: WorkloadProfile::new(),
        }
    }
}

impl ExpectedWork {
    /// What placements are priced by.
    #[must_use]
    pub const fn expected(&self) -> &WorkloadProfile {
        &self.expected
    }

    /// Takes note of an order for so many `members`, each of which takes `request`.
    pub fn observe(&mut self, request: &Request, members: u16) {
        for _ in 0..members {
            self.learner.observe(request);
        }
        self.learner.bound(EXPECTED_CLASSES_MAX, EXPECTED_JOBS_MAX);
    }

    /// Expects what came, whenever a quarter more came; true if it did.
    pub fn learn(&mut self) -> bool {
        let due = self.learner.due();
        if due {
            self.expected = self.learner.profile().clone();
        }
        due
    }
}

impl Encode for ExpectedWork {
    fn encode(&self, writer: &mut Writer) {
        let Self { learner, expected } = self;
        learner.encode(writer);
        expected.encode(writer);
    }
}

impl Decode for ExpectedWork {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            learner: Learner::decode(reader)?,
            expected: WorkloadProfile::decode(reader)?,
        })
    }
}

impl Encode for WorkClass {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            gpus,
            gpu_milli,
            needs,
            cpu_units,
        } = self;
        let Needs {
            models,
            capability_min,
            tensor_cores,
            interconnect_min,
            region,
            isolation,
        } = needs;
        writer.u8(*gpus);
        writer.u16(*gpu_milli);
        writer.u64(models.bits());
        writer.u16(*capability_min);
        writer.u8(u8::from(*tensor_cores));
        writer.u8(*interconnect_min as u8);
        // No region is one more than the last.
        writer.u32(region.map_or(NO_REGION, u32::from));
        writer.u8(*isolation as u8);
        writer.u16(*cpu_units);
    }
}

/// Stands for [`Needs::region`] without a region.
const NO_REGION: u32 = 1 << 16;

impl Decode for WorkClass {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let invalid = |value: u64| DecodeError::Invalid {
            field: "class of work",
            value,
        };
        let (gpus, gpu_milli) = (reader.u8()?, reader.u16()?);
        let models = ModelSet::from_bits(reader.u64()?);
        let capability_min = reader.u16()?;
        let tensor_cores = match reader.u8()? {
            0 => false,
            1 => true,
            tag => return Err(invalid(u64::from(tag))),
        };
        let interconnect_min = match reader.u8()? {
            0 => Interconnect::Pcie,
            1 => Interconnect::Nvlink,
            2 => Interconnect::Nvswitch,
            tag => return Err(invalid(u64::from(tag))),
        };
        let region = match reader.u32()? {
            NO_REGION => None,
            region => Some(u16::try_from(region).map_err(|_| invalid(u64::from(region)))?),
        };
        let isolation = match reader.u8()? {
            0 => Isolation::TimeSlice,
            1 => Isolation::Mps,
            2 => Isolation::Hardware,
            tag => return Err(invalid(u64::from(tag))),
        };
        let class = Self {
            gpus,
            gpu_milli,
            needs: Needs {
                models,
                capability_min,
                tensor_cores,
                interconnect_min,
                region,
                isolation,
            },
            cpu_units: reader.u16()?,
        };
        // What no request can be is no class either.
        let is_one = gpus > 0 && class.request().is_some() && gpu_milli <= WHOLE_GPU;
        let has_units = class.cpu_units <= CPU_UNITS_MAX;
        (is_one && has_units)
            .then_some(class)
            .ok_or_else(|| invalid(u64::from(gpus)))
    }
}

impl Encode for WorkloadProfile {
    fn encode(&self, writer: &mut Writer) {
        let Self { counts } = self;
        writer.count(counts.len());
        for (class, count) in counts {
            class.encode(writer);
            writer.u64(*count);
        }
    }
}

/// Bytes of one encoded class with its count.
const CLASS_BYTES: usize = 30;

impl Decode for WorkloadProfile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count("classes of work", WORK_CLASSES_MAX, CLASS_BYTES)?;
        let mut profile = Self::new();
        for index in 0..count {
            let class = WorkClass::decode(reader)?;
            let last = profile.counts.last_key_value().map(|(last, _)| *last);
            let jobs = reader.u64()?;
            if jobs == 0 || last.is_some_and(|last| last >= class) {
                return Err(DecodeError::Invalid {
                    field: "classes of work",
                    value: index as u64,
                });
            }
            profile.counts.insert(class, jobs);
        }
        Ok(profile)
    }
}

impl Encode for Learner {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            profile,
            seen,
            next,
        } = self;
        profile.encode(writer);
        writer.u64(*seen);
        writer.u64(*next);
    }
}

impl Decode for Learner {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            profile: WorkloadProfile::decode(reader)?,
            seen: reader.u64()?,
            next: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_request_can_be_is_no_class() {
        let class = |gpus, gpu_milli, cpu_units| WorkClass {
            gpus,
            gpu_milli,
            needs: Needs::NONE,
            cpu_units,
        };
        let read = |it: WorkClass| WorkClass::from_bytes(&it.to_bytes());
        for is_one in [class(1, 1, 0), class(8, 1_000, CPU_UNITS_MAX)] {
            assert_eq!(read(is_one), Ok(is_one));
        }
        for is_none in [
            class(0, 1_000, 1),
            class(0, 0, 1),
            class(9, 1_000, 1),
            class(1, 0, 1),
            class(1, 1_001, 1),
            class(2, 500, 1),
            class(1, 500, CPU_UNITS_MAX + 1),
        ] {
            assert!(read(is_none).is_err(), "{is_none:?}");
        }
    }
}
