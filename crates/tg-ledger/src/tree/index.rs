//! The place of each key's leaf, and the free places; derived from the records and stored with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use imbl::{OrdMap, Vector};
use tg_types::DecodeError;
use tg_types::chain::{Leaf, LeafKey, Link, free_leaf};

/// The first place of a record; leaf 0 holds the numbers that belong to none.
pub(crate) const FIRST_RECORD_INDEX: u32 = 1;

/// The hash of a leaf's head and content.
pub(crate) type Body = [u8; 32];

/// New bodies by key; `None` takes the leaf away.
pub(crate) type BodyChanges = BTreeMap<LeafKey, Option<Body>>;

#[derive(Debug, Clone, Copy)]
struct Entry {
    index: u32,
    body: Body,
}

/// The leaves in the order of keys, and the free places. Copies share their nodes.
#[derive(Debug, Clone)]
pub(crate) struct Leaves {
    entries: OrdMap<LeafKey, Entry>,
    /// Free places; the last one is taken first.
    free: Vector<u32>,
    /// The first place that was never used.
    unused: u32,
}

impl Default for Leaves {
    fn default() -> Self {
        Self {
            entries: OrdMap::new(),
            free: Vector::new(),
            unused: FIRST_RECORD_INDEX,
        }
    }
}

impl Leaves {
    /// The first place that was never used.
    pub(crate) const fn unused(&self) -> u32 {
        self.unused
    }

    /// The free places, the next one to be taken last.
    pub(crate) const fn free(&self) -> &Vector<u32> {
        &self.free
    }

    /// The places of all leaves, in the order of keys.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        self.entries.values().map(|entry| entry.index)
    }

    /// How many leaves there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where a leaf stands, and its body.
    pub(crate) fn get(&self, key: &LeafKey) -> Option<(u32, Body)> {
        let entry = self.entries.get(key)?;
        Some((entry.index, entry.body))
    }

    /// The key with the greatest place in the order below `key`, with its place and body.
    pub(crate) fn before(&self, key: &LeafKey) -> Option<(LeafKey, u32, Body)> {
        let (key, entry) = self.entries.range(..*key).next_back()?;
        Some((*key, entry.index, entry.body))
    }

    /// The link of a leaf.
    pub(crate) fn link(&self, key: &LeafKey) -> Link {
        let above = (Bound::Excluded(*key), Bound::Unbounded);
        let next = self.entries.range(above).next();
        Link {
            key: *key,
            next_key: next.map_or(LeafKey::FIRST, |(key, _)| *key),
            next_index: next.map_or(0, |(_, entry)| entry.index),
        }
    }

    /// Takes leaves away, changes them and adds new ones; the value of every place that this changes, without leaf 0.
    ///
    /// First leaves are taken away in the order of keys, then new ones get places in the order of keys: those that
    /// became free last are taken first, and unused ones when none is free.
    pub(crate) fn apply(&mut self, changes: BodyChanges) -> BTreeMap<u32, Leaf> {
        let free_before = self.free.len();
        let mut touched = BTreeSet::new();
        let (gone, kept): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(_, body)| body.is_none());
        for (key, _) in gone {
            self.remove(&key, &mut touched);
        }
        for (key, body) in kept {
            if let Some(body) = body {
                self.put(key, body, &mut touched);
            }
        }
        let mut values = BTreeMap::new();
        for key in touched {
            if let Some((index, body)) = self.get(&key) {
                values.insert(index, self.link(&key).leaf(&body));
            }
        }
        for at in free_before.min(self.free.len())..self.free.len() {
            values.insert(self.free[at], self.free_value(at));
        }
        values
    }

    /// The value of every place that was ever used, without leaf 0.
    pub(crate) fn values(&self) -> BTreeMap<u32, Leaf> {
        let leaves = self
            .entries
            .iter()
            .map(|(key, entry)| (entry.index, self.link(key).leaf(&entry.body)));
        let free = (0..self.free.len()).map(|at| (self.free[at], self.free_value(at)));
        leaves.chain(free).collect()
    }

    fn free_value(&self, at: usize) -> Leaf {
        free_leaf(at.checked_sub(1).map_or(0, |below| self.free[below]))
    }

    fn remove(&mut self, key: &LeafKey, touched: &mut BTreeSet<LeafKey>) {
        let Some((index, _)) = self.get(key) else {
            return;
        };
        self.entries.remove(key);
        self.free.push_back(index);
        touched.extend(self.before(key).map(|(low, _, _)| low));
    }

    fn put(&mut self, key: LeafKey, body: Body, touched: &mut BTreeSet<LeafKey>) {
        let index = match self.get(&key) {
            Some((_, before)) if before == body => return,
            Some((index, _)) => index,
            None => {
                touched.extend(self.before(&key).map(|(low, _, _)| low));
                self.take_place()
            }
        };
        self.entries.insert(key, Entry { index, body });
        touched.insert(key);
    }

    fn take_place(&mut self) -> u32 {
        if let Some(index) = self.free.pop_back() {
            return index;
        }
        let index = self.unused;
        self.unused = index.saturating_add(1);
        index
    }

    /// The leaves of a state that is read back: `indices` are the places of `bodies`, both in the order of keys.
    ///
    /// # Errors
    /// If not every place below `unused` is either one leaf's or free, once.
    pub(crate) fn restored(
        bodies: BodyChanges,
        indices: &[u32],
        free: Vec<u32>,
        unused: u32,
    ) -> Result<Self, DecodeError> {
        let invalid = |field, value: u32| DecodeError::Invalid {
            field,
            value: u64::from(value),
        };
        let places = usize::try_from(unused.saturating_sub(FIRST_RECORD_INDEX)).unwrap_or(0);
        if bodies.len() != indices.len() || indices.len() + free.len() != places {
            return Err(invalid("leaf count", unused));
        }
        let mut seen = vec![false; places];
        for index in indices.iter().chain(&free) {
            let place = index.checked_sub(FIRST_RECORD_INDEX).map(|it| it as usize);
            match place.and_then(|place| seen.get_mut(place)) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(invalid("leaf index", *index)),
            }
        }
        let mut leaves = Self {
            free: Vector::from(free),
            unused,
            ..Self::default()
        };
        for ((key, body), index) in bodies.into_iter().zip(indices) {
            let body = body.ok_or_else(|| invalid("leaf count", unused))?;
            let entry = Entry {
                index: *index,
                body,
            };
            leaves.entries.insert(key, entry);
        }
        Ok(leaves)
    }
}
