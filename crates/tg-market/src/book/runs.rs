//! Sorted maps in short runs, which copies share until they are written to.
//!
//! A version of the ledger's state copies the book and changes some hundred entries. A `BTreeMap` of 65,000 entries is
//! copied whole for that, and freed whole with the version before: most of what a block cost. Here a copy takes a pointer for
//! each run, and a change copies one run.

use std::ops::Bound;
use std::sync::Arc;

/// Most entries of a run; a longer one is cut in two.
const RUN_MAX: usize = 64;

/// Entries in the order of keys, each key once.
type Run<K, V> = Vec<(K, V)>;

/// A sorted map. Maps with the same entries are equal, wherever their runs end.
#[derive(Debug, Clone)]
pub(crate) struct Runs<K, V> {
    /// None of them empty.
    runs: Vec<Arc<Run<K, V>>>,
    len: usize,
}

impl<K, V> Default for Runs<K, V> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
        }
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Runs<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for Runs<K, V> {}

impl<K, V> Runs<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries in the order of keys.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let entries = self.runs.iter().flat_map(|run| run.iter());
        entries.map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        let (key, value) = self.runs.first()?.first()?;
        Some((key, value))
    }

    pub(crate) fn last(&self) -> Option<(&K, &V)> {
        let (key, value) = self.runs.last()?.last()?;
        Some((key, value))
    }
}

#[cfg(test)]
impl<K, V> Runs<K, V> {
    /// How many runs another one does not share.
    pub(crate) fn own_runs(&self, other: &Self) -> usize {
        let is_shared = |run: &Arc<Run<K, V>>| other.runs.iter().any(|it| Arc::ptr_eq(it, run));
        self.runs.iter().filter(|run| !is_shared(run)).count()
    }
}

impl<K: Ord, V> Runs<K, V> {
    /// The entries from `bound` on.
    pub(crate) fn range_from<'a>(
        &'a self,
        bound: Bound<&K>,
    ) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
        let is_before = |key: &K| match bound {
            Bound::Included(first) => key < first,
            Bound::Excluded(last) => key <= last,
            Bound::Unbounded => false,
        };
        let ends_before = |run: &Arc<Run<K, V>>| run.last().is_some_and(|(key, _)| is_before(key));
        let at = self.runs.partition_point(ends_before);
        let skipped = self
            .runs
            .get(at)
            .map_or(0, |run| run.partition_point(|(key, _)| is_before(key)));
        let entries = self.runs[at..].iter().flat_map(|run| run.iter());
        entries.skip(skipped).map(|(key, value)| (key, value))
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (run, at) = self.find(key).ok()?;
        Some(&self.runs[run][at].1)
    }

    /// Where a key is: its run and its place there; or where it belongs.
    fn find(&self, key: &K) -> Result<(usize, usize), (usize, usize)> {
        let ends_before = |run: &Arc<Run<K, V>>| run.last().is_some_and(|(last, _)| last < key);
        let run = self.runs.partition_point(ends_before);
        // Beyond the last key it belongs to the end of the last run.
        let run = run.min(self.runs.len().saturating_sub(1));
        let Some(entries) = self.runs.get(run) else {
            return Err((0, 0));
        };
        match entries.binary_search_by(|(it, _)| it.cmp(key)) {
            Ok(at) => Ok((run, at)),
            Err(at) => Err((run, at)),
        }
    }
}

/// Finds keys that rise: where most keys of a map are asked for, in the time of going through it.
pub(crate) struct Finder<'a, K, V> {
    map: &'a Runs<K, V>,
    run: usize,
    at: usize,
}

impl<'a, K: Ord, V> Finder<'a, K, V> {
    pub(crate) const fn new(map: &'a Runs<K, V>) -> Self {
        Self { map, run: 0, at: 0 }
    }

    /// The value of `key`, which must not be less than the one that was asked for before.
    pub(crate) fn find(&mut self, key: &K) -> Option<&'a V> {
        let runs = &self.map.runs;
        let is_past = |run: &Arc<Run<K, V>>| run.last().is_some_and(|(last, _)| last < key);
        if is_past(runs.get(self.run)?) {
            self.run += 1;
            self.at = 0;
            if is_past(runs.get(self.run)?) {
                self.run += runs[self.run..].partition_point(is_past);
            }
        }
        let entries = runs.get(self.run)?;
        if entries.get(self.at).is_some_and(|(it, _)| it < key) {
            self.at += 1;
            if entries.get(self.at).is_some_and(|(it, _)| it < key) {
                self.at += entries[self.at..].partition_point(|(it, _)| it < key);
            }
        }
        let (found, value) = entries.get(self.at)?;
        (found == key).then_some(value)
    }
}

impl<K: Ord + Clone, V: Clone> Runs<K, V> {
    /// A map of entries that are in the order of keys, each key once.
    pub(crate) fn of_sorted(entries: Vec<(K, V)>) -> Self {
        debug_assert!(entries.is_sorted_by(|left, right| left.0 < right.0));
        let len = entries.len();
        let mut runs = Vec::with_capacity(len.div_ceil(RUN_MAX / 2));
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            runs.push(Arc::new(entries.by_ref().take(RUN_MAX / 2).collect()));
        }
        Self { runs, len }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (run, at) = self.find(key).ok()?;
        Some(&mut Arc::make_mut(&mut self.runs[run])[at].1)
    }

    /// The value of `key`; `first` if there is none.
    pub(crate) fn entry_or(&mut self, key: &K, first: impl FnOnce() -> V) -> &mut V {
        let (run, at) = match self.find(key) {
            Ok(found) => found,
            Err((run, at)) => self.put(run, at, (key.clone(), first())),
        };
        &mut Arc::make_mut(&mut self.runs[run])[at].1
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok((run, at)) => Arc::make_mut(&mut self.runs[run])[at].1 = value,
            Err((run, at)) => {
                self.put(run, at, (key, value));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (run, at) = self.find(key).ok()?;
        self.len -= 1;
        if self.runs[run].len() == 1 {
            let gone = self.runs.remove(run);
            return gone.first().map(|(_, value)| value.clone());
        }
        let (_, value) = Arc::make_mut(&mut self.runs[run]).remove(at);
        Some(value)
    }

    /// Changes the values that `is_wanted`; runs without any stay shared.
    pub(crate) fn change_each(
        &mut self,
        is_wanted: impl Fn(&V) -> bool,
        mut change: impl FnMut(&mut V),
    ) {
        for run in &mut self.runs {
            if run.iter().any(|(_, value)| is_wanted(value)) {
                let entries = Arc::make_mut(run).iter_mut();
                let wanted = entries.filter(|(_, value)| is_wanted(value));
                wanted.for_each(|(_, value)| change(value));
            }
        }
    }

    /// Puts an entry where it belongs; where it is then.
    fn put(&mut self, run: usize, at: usize, entry: (K, V)) -> (usize, usize) {
        self.len += 1;
        if self.runs.is_empty() {
            self.runs.push(Arc::new(vec![entry]));
            return (0, 0);
        }
        let entries = Arc::make_mut(&mut self.runs[run]);
        entries.insert(at, entry);
        if entries.len() <= RUN_MAX {
            return (run, at);
        }
        // What comes in rising order leaves full runs behind.
        let cut = match at + 1 == entries.len() {
            true => RUN_MAX,
            false => RUN_MAX / 2,
        };
        let rest = entries.split_off(cut);
        self.runs.insert(run + 1, Arc::new(rest));
        match at < cut {
            true => (run, at),
            false => (run + 1, at - cut),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn maps_are_equal_by_their_entries() {
        let map = |keys: &[u64]| Runs::of_sorted(keys.iter().map(|key| (*key, ())).collect());
        assert_eq!(map(&[1, 2]), map(&[1, 2]));
        for other in [&[][..], &[1], &[1, 3], &[1, 2, 3]] {
            assert_ne!(map(&[1, 2]), map(other), "{other:?}");
        }
    }

    #[test]
    fn runs_and_a_btree_map_hold_the_same_after_every_change() {
        let mut state = 7_u64;
        let mut draw = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        let (mut runs, mut map) = (Runs::<u64, u64>::default(), BTreeMap::new());
        let mut shared = Vec::new();
        for step in 0..20_000_u64 {
            let key = draw(600);
            match draw(5) {
                0 | 1 => {
                    runs.insert(key, step);
                    map.insert(key, step);
                }
                2 => assert_eq!(runs.remove(&key), map.remove(&key)),
                3 => {
                    *runs.entry_or(&key, || 0) += 1;
                    *map.entry(key).or_default() += 1;
                }
                _ => assert_eq!(runs.get_mut(&key), map.get_mut(&key)),
            }
            assert_eq!(runs.len(), map.len());
            assert_eq!(runs.get(&key), map.get(&key));
            if step % 97 == 0 {
                assert!(runs.iter().eq(map.iter()));
                assert_eq!(runs.first(), map.first_key_value());
                assert_eq!(runs.last(), map.last_key_value());
                for bound in [
                    Bound::Included(&key),
                    Bound::Excluded(&key),
                    Bound::Unbounded,
                ] {
                    let rest = map.range((bound, Bound::Unbounded));
                    assert!(runs.range_from(bound).eq(rest));
                }
                let mut finder = Finder::new(&runs);
                for key in (key..610).step_by(1 + (step % 5) as usize * 11) {
                    assert_eq!(finder.find(&key), map.get(&key));
                }
                assert_eq!(Runs::of_sorted(map.clone().into_iter().collect()), runs);
                shared.push((runs.clone(), map.clone()));
            }
        }
        // No copy saw what came after it.
        assert!(shared.len() > 100);
        for (runs, map) in shared {
            assert!(runs.iter().eq(map.iter()));
        }
    }
}
