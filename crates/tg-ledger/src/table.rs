//! Tables of records: sorted, cheap to copy, and aware of the money that lies in them.
//!
//! A table is 256 shards by the first byte of the key, each a shared sorted map: a block that touches a few records
//! copies a few shards. Iteration is in the order of keys, whatever the order of insertion was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_types::Amount;

use crate::record::Record;
use crate::tree::{EMPTY_LEAF, Leaf, leaf_of};

/// How many shards: one for each value of a key's first byte.
const SHARDS: usize = 256;

#[derive(Debug, Clone)]
struct Entry<R> {
    index: u32,
    record: Arc<R>,
}

type Shard<R> = BTreeMap<<R as Record>::Key, Entry<R>>;

/// Records of one kind by key.
#[derive(Debug, Clone)]
pub struct Table<R: Record> {
    shards: Arc<Vec<Arc<Shard<R>>>>,
    len: usize,
    money: Amount,
    changed: BTreeSet<R::Key>,
    removed: BTreeSet<u32>,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        // All empty shards are one allocation until they are written to.
        let empty = Arc::new(BTreeMap::new());
        Self {
            shards: Arc::new(vec![empty; SHARDS]),
            len: 0,
            money: Amount::ZERO,
            changed: BTreeSet::new(),
            removed: BTreeSet::new(),
        }
    }
}

fn shard_of(key: &impl AsRef<[u8]>) -> usize {
    key.as_ref().first().copied().map_or(0, usize::from)
}

impl<R: Record> Table<R> {
    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The money that lies in the table.
    #[must_use]
    pub const fn money(&self) -> Amount {
        self.money
    }

    /// The record of `key`.
    #[must_use]
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        self.entry(key).map(|entry| &*entry.record)
    }

    /// The records in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.shards
            .iter()
            .flat_map(|shard| shard.values())
            .map(|entry| &*entry.record)
    }

    /// The records with their leaf indices, in the order of their keys.
    pub(crate) fn iter_indexed(&self) -> impl Iterator<Item = (u32, &R)> {
        self.shards
            .iter()
            .flat_map(|shard| shard.values())
            .map(|entry| (entry.index, &*entry.record))
    }

    /// The leaf index of a record.
    pub(crate) fn index(&self, key: &R::Key) -> Option<u32> {
        self.entry(key).map(|entry| entry.index)
    }

    /// Adds a record, or replaces the one of the same key, which then keeps its leaf.
    pub(crate) fn put(&mut self, record: R, next_index: &mut u32) {
        let key = record.key();
        let index = self.index(&key).unwrap_or_else(|| {
            let index = *next_index;
            *next_index = index.saturating_add(1);
            index
        });
        self.put_at(record, index);
    }

    /// Adds or replaces a record at a given leaf.
    pub(crate) fn put_at(&mut self, record: R, index: u32) {
        let key = record.key();
        self.money = self.money.saturating_add(record.money());
        let entry = Entry {
            index,
            record: Arc::new(record),
        };
        match self.shard_mut(&key).insert(key, entry) {
            Some(old) => self.money = self.money.saturating_sub(old.record.money()),
            None => self.len += 1,
        }
        self.changed.insert(key);
    }

    /// Takes a record out; its leaf becomes empty and is never used again.
    pub(crate) fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.shard_mut(key).remove(key) {
            self.money = self.money.saturating_sub(old.record.money());
            self.len -= 1;
            self.changed.remove(key);
            self.removed.insert(old.index);
        }
    }

    /// The leaves that changed since the last call.
    pub(crate) fn take_changes(&mut self, changes: &mut BTreeMap<u32, Leaf>) {
        for index in std::mem::take(&mut self.removed) {
            changes.insert(index, EMPTY_LEAF);
        }
        for key in std::mem::take(&mut self.changed) {
            if let Some(entry) = self.entry(&key) {
                changes.insert(entry.index, leaf_of(R::KIND, &*entry.record));
            }
        }
    }

    fn entry(&self, key: &R::Key) -> Option<&Entry<R>> {
        self.shards[shard_of(key)].get(key)
    }

    fn shard_mut(&mut self, key: &R::Key) -> &mut Shard<R> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[shard_of(key)])
    }
}
