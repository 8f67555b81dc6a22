//! How much GPU compute a machine still offers to each class of work, by table look-ups.
//!
//! For a machine with `c` units of free CPU, and a class that takes `n` GPUs with `s` thousandths each and `k` units
//! of CPU, let `u` be the free compute of the devices with at least `s` free. If fewer than `n` devices have that,
//! or `c < k`, the machine offers the class nothing; else it offers `min(u, c * n * s / k)`. Classes that differ in
//! `k` only form a *group*, and the sum over a group is two prefix sums: classes with `k <= c * n * s / u` are
//! offered `u`, those between that and `c` what the CPU can feed.
//!
//! On GPUs that are cut into partitions `u` is `s` times the number of jobs that still fit beside each other by the
//! geometry of the partitions, so a placement that breaks up a place that many jobs want costs what it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{GPUS_PER_NODE_MAX, KindIndex, KindSet, Needs, Request, WHOLE_GPU};
use crate::mig::{ALL_FREE, MigModel};
use crate::packing::price::PRICE_BITS;
use crate::packing::profile::{WorkClass, WorkloadProfile};
use crate::packing::shape::Shape;
use crate::packing::units::cpu_units_floor;
use tg_types::draw::mix;

/// Classes that differ in CPU only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// GPUs of a job.
    pub gpus: u8,
    /// Share of each.
    pub gpu_milli: u16,
    /// What a job needs of the machine.
    pub needs: Needs,
    /// Sum of the weights of its classes, in parts of 2^16 of all jobs of the profile.
    pub weight: u64,
    /// How many classes.
    classes: i64,
    /// For each CPU limit: weight of the classes within it, and weight times compute per CPU unit.
    prefix: Vec<[i64; 2]>,
}

/// The usable compute of machines, before prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    groups: Vec<Group>,
    served: Arc<Served>,
    cpu_units_max: u16,
    work: u64,
}

/// Which groups machines may serve: kinds that may serve the same have one list.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    /// Groups, in the order of [`Tables::groups`].
    lists: Vec<Vec<u16>>,
    /// The first kind that has each list.
    first_kinds: Vec<u16>,
    /// The list of each kind.
    of_kind: Vec<u16>,
}

impl Served {
    /// It takes time for each group and list, and for each kind and each need that tells kinds apart.
    fn new(groups: &[Group], kinds: &KindIndex) -> Self {
        // Most groups have their needs in common with others.
        let mut sets: BTreeMap<(Needs, bool), Option<KindSet>> = BTreeMap::new();
        let key = |group: &Group| (group.needs, group.gpu_milli < WHOLE_GPU);
        for group in groups {
            let kinds_of = || group.request().map(|request| kinds.filter(&request));
            sets.entry(key(group)).or_insert_with(kinds_of);
        }
        let mut of_kind = vec![0; kinds.len()];
        let mut first_kinds = Vec::from_iter((!of_kind.is_empty()).then_some(0));
        for set in sets.values().flatten() {
            split(&mut of_kind, &mut first_kinds, set);
        }
        let list = |kind: &u16| {
            let serves = |group: &Group| {
                let set = sets.get(&key(group)).and_then(Option::as_ref);
                set.is_some_and(|it| it.contains(usize::from(*kind)))
            };
            let served = (0..).zip(groups).filter(|(_, group)| serves(group));
            served.map(|(index, _)| index).collect()
        };
        Self {
            lists: first_kinds.iter().map(list).collect(),
            first_kinds,
            of_kind,
        }
    }

    fn by(&self, kind: usize) -> Option<&Vec<u16>> {
        self.lists.get(usize::from(*self.of_kind.get(kind)?))
    }
}

/// Tells kinds in `set` from those that are not; classes are numbered in the order of their first kinds.
fn split(of_kind: &mut [u16], first_kinds: &mut Vec<u16>, set: &KindSet) {
    let count = set.len();
    if count == 0 || count == of_kind.len() {
        return;
    }
    let mut numbers: Vec<Option<u16>> = vec![None; 2 * first_kinds.len()];
    first_kinds.clear();
    for (kind, class) in of_kind.iter_mut().enumerate() {
        let number = &mut numbers[2 * usize::from(*class) + usize::from(set.contains(kind))];
        *class = *number.get_or_insert_with(|| {
            first_kinds.push(kind as u16);
            (first_kinds.len() - 1) as u16
        });
    }
}

/// Share of a GPU (falling), GPUs, needs.
type GroupKey = (std::cmp::Reverse<u16>, u8, Needs);

/// Group `index` of [`Tables::groups`] and the (weighted) compute a machine offers to it.
pub type GroupValue = (u16, i64);

impl Tables {
    /// Tables for the work of `profile` on machines of `kinds` with at most `cpu_milli_max` of CPU.
    #[must_use]
    pub fn new(profile: &WorkloadProfile, kinds: &KindIndex, cpu_milli_max: u32) -> Self {
        let cpu_units_max = cpu_units_floor(cpu_milli_max);
        let mut classes: BTreeMap<GroupKey, Vec<(u16, u32)>> = BTreeMap::new();
        for (class, weight) in profile.weights() {
            let key = (std::cmp::Reverse(class.gpu_milli), class.gpus, class.needs);
            classes
                .entry(key)
                .or_default()
                .push((class.cpu_units, weight));
        }
        let groups: Vec<Group> = classes
            .into_iter()
            .map(|((std::cmp::Reverse(gpu_milli), gpus, needs), members)| {
                Group::new(gpus, gpu_milli, needs, &members, cpu_units_max)
            })
            .collect();
        let served = Arc::new(Served::new(&groups, kinds));
        Self {
            work: name_of(&groups),
            groups,
            served,
            cpu_units_max,
        }
    }

    /// A name of the groups, with their weights and needs: tables with the same name and number of groups have prices in
    /// common.
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work
    }

    /// The groups, by falling share of a GPU.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What a machine of `shape` offers to each group that it may serve; groups offered nothing are left out.
    #[must_use]
    pub fn values(&self, shape: &Shape) -> Vec<GroupValue> {
        let mut values = Vec::new();
        let Some(served) = self.served.by(usize::from(shape.kind)) else {
            return values;
        };
        let cpu = shape.cpu_units.min(self.cpu_units_max);
        let mut walk = DeviceWalk::new(shape);
        for index in served {
            let group = &self.groups[usize::from(*index)];
            let (count, usable) = walk.at_least(group.gpu_milli);
            if count >= group.gpus {
                let value = offered(&group.prefix, group.compute(), cpu, usable);
                if value != 0 {
                    values.push((*index, value));
                }
            }
        }
        values
    }

    /// Tables with the prices multiplied in, in which groups that differ in needs only are merged for each kind.
    #[must_use]
    pub fn priced(&self, prices: &[u32]) -> PricedTables {
        let lists = &self.served.lists;
        PricedTables {
            tables: lists
                .iter()
                .map(|it| self.priced_table(it, prices))
                .collect(),
            cpu_units_max: self.cpu_units_max,
            work: self.work,
            served: Arc::clone(&self.served),
            slacks: lists
                .iter()
                .map(|it| self.rounding_slack(it, prices))
                .collect(),
            prices: prices.to_vec(),
        }
    }

    /// The first kind of machine that may serve the same groups: machines of both offer the same if they look alike.
    #[must_use]
    pub fn first_like(&self, kind: u16) -> u16 {
        let list = self.served.of_kind.get(usize::from(kind));
        let first = list.and_then(|it| self.served.first_kinds.get(usize::from(*it)));
        first.copied().unwrap_or(kind)
    }

    /// How much the difference of two values of a machine that serves `groups` may be off by rounding: one for each
    /// class and CPU unit.
    #[must_use]
    pub fn rounding_slack(&self, groups: &[u16], prices: &[u32]) -> i64 {
        let units = i64::from(self.cpu_units_max) + 1;
        let terms = groups.iter().map(|group| usize::from(*group));
        terms
            .filter_map(|group| Some((self.groups.get(group)?, *prices.get(group)?)))
            .map(|(group, price)| group.classes * units * i64::from(price))
            .sum()
    }

    fn priced_table(&self, served: &[u16], prices: &[u32]) -> Vec<PricedGroup> {
        let mut merged: Vec<PricedGroup> = Vec::new();
        for index in served {
            let group = &self.groups[usize::from(*index)];
            let price = prices
                .get(usize::from(*index))
                .copied()
                .map_or(0, i64::from);
            let last = merged
                .last_mut()
                .filter(|it| it.gpus == group.gpus && it.gpu_milli == group.gpu_milli);
            if let Some(last) = last {
                for (sum, term) in last.prefix.iter_mut().zip(&group.prefix) {
                    sum[0] += term[0] * price;
                    sum[1] += term[1] * price;
                }
            } else {
                merged.push(PricedGroup {
                    gpus: group.gpus,
                    gpu_milli: group.gpu_milli,
                    compute: group.compute(),
                    prefix: group
                        .prefix
                        .iter()
                        .map(|term| [term[0] * price, term[1] * price])
                        .collect(),
                });
            }
        }
        merged
    }
}

impl Group {
    fn new(
        gpus: u8,
        gpu_milli: u16,
        needs: Needs,
        members: &[(u16, u32)],
        cpu_units_max: u16,
    ) -> Self {
        let compute = i64::from(gpus) * i64::from(gpu_milli);
        let mut prefix = vec![[0_i64; 2]; usize::from(cpu_units_max) + 1];
        let mut total = 0;
        for (cpu_units, weight) in members {
            total += u64::from(*weight);
            let weight = i64::from(*weight);
            // A class without CPU is fed by any machine: it counts as taking one unit for ever smaller limits.
            let per_unit = weight * compute / i64::from((*cpu_units).max(1));
            for entry in prefix.iter_mut().skip(usize::from(*cpu_units)) {
                entry[0] += weight;
                entry[1] += per_unit;
            }
        }
        Self {
            gpus,
            gpu_milli,
            needs,
            weight: total,
            classes: members.len() as i64,
            prefix,
        }
    }

    const fn compute(&self) -> u32 {
        self.gpus as u32 * self.gpu_milli as u32
    }

    /// What its jobs need, their CPU apart.
    fn request(&self) -> Option<Request> {
        let class = WorkClass {
            gpus: self.gpus,
            gpu_milli: self.gpu_milli,
            needs: self.needs,
            cpu_units: 0,
        };
        class.request()
    }
}

/// One group with its price multiplied in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PricedGroup {
    gpus: u8,
    gpu_milli: u16,
    compute: u32,
    prefix: Vec<[i64; 2]>,
}

/// [`Tables`] under one set of prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PricedTables {
    /// For each list of groups.
    tables: Vec<Vec<PricedGroup>>,
    cpu_units_max: u16,
    work: u64,
    served: Arc<Served>,
    /// For each list of groups, how much a difference of two values may be off by rounding.
    slacks: Vec<i64>,
    prices: Vec<u32>,
}

/// Fixed point of [`PricedTables::step_from`].
pub const STEP_BITS: u32 = 32;

impl PricedTables {
    /// Machines of kinds with the same number here are worth the same if they look alike.
    #[must_use]
    pub fn table_of(&self, kind: usize) -> Option<u16> {
        self.served.of_kind.get(kind).copied()
    }

    /// From what a machine of `kind` lost in value under the prices `before`, what it loses under these at least: so many
    /// parts of it in fixed point with [`STEP_BITS`], at most all, less the second number. `None` if other work was
    /// expected.
    #[must_use]
    pub fn step_from(&self, before: &Self, kind: usize) -> Option<(u64, i64)> {
        let served = self.served.by(kind)?;
        if self.work != before.work || before.served.by(kind) != Some(served) {
            return None;
        }
        let mut least = 1 << STEP_BITS;
        for group in served {
            let group = usize::from(*group);
            let (now, then) = (*self.prices.get(group)?, *before.prices.get(group)?);
            if then > 0 {
                least = least.min((u64::from(now) << STEP_BITS) / u64::from(then));
            }
        }
        let list = usize::from(self.table_of(kind)?);
        Some((least, *self.slacks.get(list)?))
    }

    /// The priced usable compute of a machine of `shape`, over all groups. At most
    /// 2^16 (weights) * 2^[`PRICE_BITS`] * 2^13 (thousandths of eight GPUs), so it fits 63 bits.
    #[must_use]
    pub fn value(&self, shape: &Shape) -> i64 {
        const _: () = assert!(16 + PRICE_BITS + 13 + 1 < 63);
        let Some(index) = self.served.of_kind.get(usize::from(shape.kind)) else {
            return 0;
        };
        let cpu = shape.cpu_units.min(self.cpu_units_max);
        let mut walk = DeviceWalk::new(shape);
        let mut sum = 0;
        for group in &self.tables[usize::from(*index)] {
            let (count, usable) = walk.at_least(group.gpu_milli);
            if count >= group.gpus {
                sum += offered(&group.prefix, group.compute, cpu, usable);
            }
        }
        sum
    }
}

/// The name of groups of work.
fn name_of(groups: &[Group]) -> u64 {
    let mut name = 0;
    let mut take = |value: u64| name = mix(name ^ mix(value));
    for group in groups {
        let Needs {
            models,
            capability_min,
            tensor_cores,
            interconnect_min,
            region,
            isolation,
        } = group.needs;
        take(u64::from(group.gpus) << 16 | u64::from(group.gpu_milli));
        take(models.bits());
        take(region.map_or(u64::MAX, u64::from));
        take(
            u64::from(capability_min) << 24
                | u64::from(tensor_cores) << 16
                | (interconnect_min as u64) << 8
                | isolation as u64,
        );
        for [weight, per_unit] in &group.prefix {
            take(*weight as u64);
            take(*per_unit as u64);
        }
    }
    name
}

/// Sum over a group of what a machine offers, from its prefix sums.
fn offered(prefix: &[[i64; 2]], compute: u32, cpu: u16, usable: u32) -> i64 {
    let cpu_index = usize::from(cpu);
    let within = prefix[cpu_index];
    if within[0] == 0 {
        return 0;
    }
    // `usable >= compute`, so the limit of the classes that get everything lies within the table.
    let all = (u32::from(cpu) * compute / usable.max(1)) as usize;
    let full = prefix[all.min(cpu_index)];
    i64::from(usable) * full[0] + i64::from(cpu) * (within[1] - full[1])
}

/// Devices in falling order, asked for falling shares.
struct DeviceWalk<'a> {
    devices: &'a [u16; GPUS_PER_NODE_MAX],
    mig: Option<MigModel>,
    count: usize,
    usable: u32,
}

impl<'a> DeviceWalk<'a> {
    const fn new(shape: &'a Shape) -> Self {
        Self {
            devices: &shape.gpu_milli,
            mig: shape.mig,
            count: 0,
            usable: 0,
        }
    }

    /// How many devices serve a job with `milli` of each, and how much they offer to such jobs together. `milli` must
    /// not rise between calls.
    fn at_least(&mut self, milli: u16) -> (u8, u32) {
        if let Some(model) = self.mig {
            return in_partitions(model, self.devices, milli);
        }
        while self.count < GPUS_PER_NODE_MAX && self.devices[self.count] >= milli {
            self.usable += u32::from(self.devices[self.count]);
            self.count += 1;
        }
        (self.count as u8, self.usable)
    }
}

/// [`DeviceWalk::at_least`] on GPUs that are cut: `devices` are their free memory slices.
fn in_partitions(model: MigModel, devices: &[u16; GPUS_PER_NODE_MAX], milli: u16) -> (u8, u32) {
    let profile = if milli < WHOLE_GPU {
        model.profile_for_share(milli, 0)
    } else {
        None
    };
    let (mut count, mut jobs) = (0, 0);
    for free in devices.map(|it| it as u8) {
        let fitting = match profile {
            Some(profile) => profile.count_in(free),
            None => u8::from(free == ALL_FREE),
        };
        count += u8::from(fitting > 0);
        jobs += u32::from(fitting);
    }
    (count, jobs * u32::from(milli))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cluster::{Interconnect, Isolation};

    #[test]
    fn groups_of_other_work_have_another_name() {
        let group = Group {
            gpus: 2,
            gpu_milli: 500,
            needs: Needs::NONE,
            weight: 3,
            classes: 1,
            prefix: vec![[1, 2], [3, 4]],
        };
        let mut others = vec![group.clone(); 10];
        others[1].gpus = 4;
        others[2].gpu_milli = 501;
        others[3].needs.capability_min = 80;
        others[4].needs.tensor_cores = true;
        others[5].needs.interconnect_min = Interconnect::Nvlink;
        others[6].needs.region = Some(0);
        others[7].needs.isolation = Isolation::Hardware;
        others[8].prefix[1][0] = 5;
        others[9].prefix[1][1] = 5;
        let names: BTreeSet<u64> = others
            .iter()
            .map(|it| name_of(std::slice::from_ref(it)))
            .collect();
        assert_eq!(names.len(), others.len());
        assert_eq!(name_of(&others[..1]), name_of(&[group]));
    }
}
