//! Tables of records: sorted, cheap to copy, with the sum of the money in them.
//!
//! A table is a B-tree whose nodes are shared by all states in which they are equal (`imbl`): copying it costs nothing, and a
//! block copies only the nodes on the paths to the records that it changes. Iteration is in the order of keys, whatever the
//! order of insertion was.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use tg_types::Amount;

use crate::record::Record;
use crate::rent::{Due, RentCategory};
use crate::tree::{BodyChanges, LeafKey, content_digest};

/// The content of a leaf that says all in its head.
pub(crate) const NO_CONTENT: [u8; 32] = [0; 32];

/// Records of one kind by key.
#[derive(Debug, Clone)]
pub struct Table<R: Record> {
    records: OrdMap<R::Key, Arc<R>>,
    /// The records that may leave, in the order in which they do.
    due: OrdSet<(Due, R::Key)>,
    money: Amount,
    deposits: Amount,
    /// Keys whose record came, changed or went since the tree was brought up to date.
    changed: BTreeSet<R::Key>,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        Self {
            records: OrdMap::new(),
            due: OrdSet::new(),
            money: Amount::ZERO,
            deposits: Amount::ZERO,
            changed: BTreeSet::new(),
        }
    }
}

impl<R: Record> Table<R> {
    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
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
        self.records.get(key).map(|record| &**record)
    }

    /// The records in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.records.values().map(|record| &**record)
    }

    /// The record of a category that leaves first for want of rent, and at which reading of the category's meter.
    pub(crate) fn first_due(&self, category: RentCategory) -> Option<(u128, R::Key)> {
        let start = Due {
            category,
            ends_at: 0,
            order: 0,
        };
        let (due, key) = self.due.range((start, R::Key::default())..).next()?;
        (due.category == category).then_some((due.ends_at, *key))
    }

    /// Adds a record, or replaces the one of the same key.
    pub(crate) fn put(&mut self, record: R) {
        let key = record.key();
        self.money = self.money.saturating_add(record.money());
        self.deposits = self.deposits.saturating_add(record.deposit());
        let due = record.due();
        let old = self.records.insert(key, Arc::new(record));
        let before = old.as_ref().and_then(|old| old.due());
        if before != due {
            before.map(|before| self.due.remove(&(before, key)));
            due.map(|due| self.due.insert((due, key)));
        }
        if let Some(old) = old {
            self.forget(&old);
        }
        self.changed.insert(key);
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.records.remove(key) {
            old.due().map(|due| self.due.remove(&(due, *key)));
            self.forget(&old);
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
}
