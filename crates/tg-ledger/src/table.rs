//! Tables of records: sorted, cheap to copy, and aware of the money that lies in them.
//!
//! A table is 256 shards by the first byte of the key, each a shared sorted map: a block that touches a few records
//! copies a few shards. Iteration is in the order of keys, whatever the order of insertion was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_types::Amount;

use crate::record::Record;
use crate::rent::{Due, RentCategory};
use crate::tree::{BodyChanges, LeafKey, content_digest};

/// The content of a leaf that says all in its head.
pub(crate) const NO_CONTENT: [u8; 32] = [0; 32];

/// How many shards: one for each value of a key's first byte.
const SHARDS: usize = 256;

/// A part of a table, with the records that may leave in the order in which they do.
#[derive(Debug, Clone)]
struct Shard<R: Record> {
    records: BTreeMap<R::Key, Arc<R>>,
    due: BTreeSet<(Due, R::Key)>,
}

impl<R: Record> Shard<R> {
    const fn new() -> Self {
        Self {
            records: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    fn insert(&mut self, key: R::Key, record: R) -> Option<Arc<R>> {
        let due = record.due();
        let old = self.records.insert(key, Arc::new(record));
        let before = old.as_ref().and_then(|old| old.due());
        if before != due {
            before.map(|before| self.due.remove(&(before, key)));
            due.map(|due| self.due.insert((due, key)));
        }
        old
    }

    fn remove(&mut self, key: &R::Key) -> Option<Arc<R>> {
        let old = self.records.remove(key)?;
        old.due().map(|due| self.due.remove(&(due, *key)));
        Some(old)
    }
}

/// Records of one kind by key.
#[derive(Debug, Clone)]
pub struct Table<R: Record> {
    shards: Arc<Vec<Arc<Shard<R>>>>,
    len: usize,
    money: Amount,
    deposits: Amount,
    /// Keys whose record came, changed or went since the tree was brought up to date.
    changed: BTreeSet<R::Key>,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        // All empty shards are one allocation until they are written to.
        let empty = Arc::new(Shard::new());
        Self {
            shards: Arc::new(vec![empty; SHARDS]),
            len: 0,
            money: Amount::ZERO,
            deposits: Amount::ZERO,
            changed: BTreeSet::new(),
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

    /// The deposits that secure the rent of its records.
    #[must_use]
    pub const fn deposits(&self) -> Amount {
        self.deposits
    }

    /// The money that lies in the table, but for deposits.
    #[must_use]
    pub const fn money(&self) -> Amount {
        self.money
    }

    /// The record of `key`.
    #[must_use]
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        let shard = &self.shards[shard_of(key)];
        shard.records.get(key).map(|record| &**record)
    }

    /// The records in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.shards
            .iter()
            .flat_map(|shard| shard.records.values())
            .map(|record| &**record)
    }

    /// The record of a category that leaves first for want of rent, and at which reading of the category's meter.
    pub(crate) fn first_due(&self, category: RentCategory) -> Option<(u128, R::Key)> {
        let start = Due {
            category,
            ends_at: 0,
            order: 0,
        };
        let firsts = self.shards.iter().filter_map(|shard| {
            let first = shard.due.range((start, R::Key::default())..).next()?;
            (first.0.category == category).then_some(*first)
        });
        let (due, key) = firsts.min()?;
        Some((due.ends_at, key))
    }

    /// Adds a record, or replaces the one of the same key.
    pub(crate) fn put(&mut self, record: R) {
        let key = record.key();
        self.money = self.money.saturating_add(record.money());
        self.deposits = self.deposits.saturating_add(record.deposit());
        match self.shard_mut(&key).insert(key, record) {
            Some(old) => self.forget(&old),
            None => self.len += 1,
        }
        self.changed.insert(key);
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.shard_mut(key).remove(key) {
            self.forget(&old);
            self.len -= 1;
            self.changed.insert(*key);
        }
    }

    /// Takes the money of a record that was replaced or taken out from the sums.
    fn forget(&mut self, old: &R) {
        self.money = self.money.saturating_sub(old.money());
        self.deposits = self.deposits.saturating_sub(old.deposit());
    }

    /// The bodies of the leaves that changed since the last call.
    pub(crate) fn take_changes(&mut self, changes: &mut BodyChanges) {
        for key in std::mem::take(&mut self.changed) {
            let record = self.get(&key);
            let body = record.map(|it| it.head().body(&content_digest(R::KIND, it)));
            changes.insert(LeafKey::of(R::KIND, key.as_ref()), body);
            if let Some(kind) = R::MONEY_KIND {
                let head = record.and_then(Record::money_head);
                let body = head.map(|head| head.body(&NO_CONTENT));
                changes.insert(LeafKey::of(kind, key.as_ref()), body);
            }
        }
    }

    fn shard_mut(&mut self, key: &R::Key) -> &mut Shard<R> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[shard_of(key)])
    }
}
