//! Hard filters by bitset: which kinds of machine satisfy a request's fixed needs.
//!
//! Machines with the same fixed attributes are one *kind*. For every attribute value there is a bitset over the
//! kinds that have it; a request's kinds are the intersection, so a filter costs a few words however many machines
//! there are. Kinds are numbered in the order of their attributes, not of arrival: the numbering is a function of
//! the set of machines.

use std::collections::{BTreeMap, BTreeSet};

use super::spec::{Gpu, Interconnect, Needs, NodeSpec, Request, Sharing};

/// A set of kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct KindSet {
    words: Vec<u64>,
}

impl KindSet {
    /// The empty set over `kinds` kinds.
    #[must_use]
    pub fn empty(kinds: usize) -> Self {
        Self {
            words: vec![0; kinds.div_ceil(64)],
        }
    }

    /// The full set over `kinds` kinds.
    #[must_use]
    pub fn full(kinds: usize) -> Self {
        let mut words = vec![u64::MAX; kinds.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !kinds.is_multiple_of(64)) {
            *last = (1 << (kinds % 64)) - 1;
        }
        Self { words }
    }

    /// Adds `kind`; nothing happens if it is out of range.
    pub fn insert(&mut self, kind: usize) {
        if let Some(word) = self.words.get_mut(kind / 64) {
            *word |= 1 << (kind % 64);
        }
    }

    /// Whether `kind` is in the set.
    #[must_use]
    pub fn contains(&self, kind: usize) -> bool {
        self.words
            .get(kind / 64)
            .is_some_and(|word| word >> (kind % 64) & 1 == 1)
    }

    /// Keeps what is also in `other`.
    pub fn intersect(&mut self, other: &Self) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The kinds in it, rising.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < u64::BITS).then_some(at * 64 + bit as usize)
            })
        })
    }

    /// How many kinds are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }
}

/// The fixed attributes of a machine.
pub(crate) type Kind = (Gpu, u16);

/// The kinds of a set of machines, with one bitset for each attribute value.
#[derive(Debug, Clone, Default)]
pub struct KindIndex {
    kinds: Vec<Kind>,
    by_model: BTreeMap<u8, KindSet>,
    /// Kinds by their capability, rising: there may be as many capabilities as kinds, so they have no sets.
    by_capability: Vec<(u16, u16)>,
    by_interconnect: BTreeMap<Interconnect, KindSet>,
    by_region: BTreeMap<u16, KindSet>,
    by_sharing: BTreeMap<Sharing, KindSet>,
    tensor: KindSet,
}

impl KindIndex {
    /// The kinds of `nodes`.
    #[must_use]
    pub fn new(nodes: &[NodeSpec]) -> Self {
        let kinds: BTreeSet<Kind> = nodes.iter().map(|node| (node.gpu, node.region)).collect();
        Self::of_kinds(kinds.into_iter().collect())
    }

    /// The index of `kinds`, which rise.
    pub(crate) fn of_kinds(kinds: Vec<Kind>) -> Self {
        let count = kinds.len();
        let mut index = Self {
            tensor: KindSet::empty(count),
            ..Self::default()
        };
        let empty = || KindSet::empty(count);
        for (kind, (gpu, region)) in kinds.iter().enumerate() {
            index
                .by_model
                .entry(gpu.model)
                .or_insert_with(empty)
                .insert(kind);
            index.by_capability.push((gpu.capability, kind as u16));
            let interconnect = index
                .by_interconnect
                .entry(gpu.interconnect)
                .or_insert_with(empty);
            interconnect.insert(kind);
            index
                .by_region
                .entry(*region)
                .or_insert_with(empty)
                .insert(kind);
            index
                .by_sharing
                .entry(gpu.sharing)
                .or_insert_with(empty)
                .insert(kind);
            if gpu.tensor_cores {
                index.tensor.insert(kind);
            }
        }
        index.by_capability.sort_unstable();
        index.kinds = kinds;
        index
    }

    /// How many kinds there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The kind of `node`, if it is one of the machines this index was made of or like one of them.
    #[must_use]
    pub fn kind_of(&self, node: &NodeSpec) -> Option<usize> {
        self.kinds.binary_search(&(node.gpu, node.region)).ok()
    }

    /// Whether `node` is of `kind`.
    pub(crate) fn is_of(&self, kind: usize, node: &NodeSpec) -> bool {
        self.kinds.get(kind) == Some(&(node.gpu, node.region))
    }

    /// For each kind its number in `other`, or that of one behind it if it is not there.
    pub(crate) fn places_in(&self, other: &Self) -> Vec<u16> {
        let mut at = 0;
        let place = |kind: &Kind| {
            while other.kinds.get(at).is_some_and(|it| it < kind) {
                at += 1;
            }
            at as u16
        };
        self.kinds.iter().map(place).collect()
    }

    /// The kinds with these GPUs, one for each region that has them.
    pub fn with_gpu(&self, gpu: &Gpu) -> impl Iterator<Item = usize> + use<> {
        let first = self.kinds.partition_point(|(it, _)| it < gpu);
        let after = self.kinds.partition_point(|(it, _)| it <= gpu);
        first..after
    }

    /// The region of `kind`.
    #[must_use]
    pub fn region(&self, kind: usize) -> Option<u16> {
        self.kinds.get(kind).map(|(_, region)| *region)
    }

    /// The GPUs of `kind`.
    #[must_use]
    pub fn gpu(&self, kind: usize) -> Option<&Gpu> {
        self.kinds.get(kind).map(|(gpu, _)| gpu)
    }

    /// The kinds in regions that are `wanted`.
    #[must_use]
    pub fn in_regions(&self, wanted: impl Fn(u16) -> bool) -> KindSet {
        self.union(self.by_region.iter(), |region| wanted(*region))
    }

    /// The kinds whose attributes satisfy `request`. GPU attributes are not asked of a request without GPUs.
    #[must_use]
    pub fn filter(&self, request: &Request) -> KindSet {
        let mut set = KindSet::full(self.len());
        let Needs {
            models,
            capability_min,
            tensor_cores,
            interconnect_min,
            region,
            isolation,
        } = *request.needs();
        if let Some(region) = region {
            let none = KindSet::default();
            set.intersect(self.by_region.get(&region).unwrap_or(&none));
        }
        if request.gpus() == 0 {
            return set;
        }
        set.intersect(&self.union(self.by_model.iter(), |model| models.contains(*model)));
        if capability_min > 0 {
            let too_low = |it: &(u16, u16)| it.0 < capability_min;
            let from = self.by_capability.partition_point(too_low);
            let mut able = KindSet::empty(self.len());
            for (_, kind) in &self.by_capability[from..] {
                able.insert(usize::from(*kind));
            }
            set.intersect(&able);
        }
        set.intersect(&self.union(self.by_interconnect.iter(), |it| *it >= interconnect_min));
        if tensor_cores {
            set.intersect(&self.tensor);
        }
        if request.is_fraction() {
            let serves = |sharing: &Sharing| sharing.serves_fraction(isolation);
            set.intersect(&self.union(self.by_sharing.iter(), serves));
        }
        set
    }

    fn union<'a, K: 'a>(
        &self,
        sets: impl Iterator<Item = (&'a K, &'a KindSet)>,
        wanted: impl Fn(&K) -> bool,
    ) -> KindSet {
        let mut union = KindSet::empty(self.len());
        for (_, set) in sets.filter(|(key, _)| wanted(key)) {
            for (word, other) in union.words.iter_mut().zip(&set.words) {
                *word |= other;
            }
        }
        union
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_more_kinds_than_a_word_has_bits_gives_them_back() {
        let kinds = [0, 1, 63, 64, 65, 127, 128, 199];
        let mut set = KindSet::empty(200);
        kinds.into_iter().for_each(|kind| set.insert(kind));
        assert_eq!(set.iter().collect::<Vec<_>>(), kinds);
        assert_eq!(set.len(), kinds.len());
        assert_eq!(
            KindSet::full(200).iter().collect::<Vec<_>>(),
            (0..200).collect::<Vec<_>>()
        );
    }
}
