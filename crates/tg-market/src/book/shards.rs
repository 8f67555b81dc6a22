//! Sorted maps in parts that copies share until they are written to.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How many parts: one for each value of a key's first twelve bits. The changes of a block, some hundred, then copy a
/// small part of a large map.
const SHARDS: usize = 1 << 12;

/// A sorted map in parts by the first bits of the key; iteration is in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shards<K, V> {
    shards: Vec<Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        // All empty parts are one allocation until they are written to.
        let empty = Arc::new(BTreeMap::new());
        Self {
            shards: vec![empty; SHARDS],
            len: 0,
        }
    }
}

impl<K, V> Shards<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.shards.iter().flat_map(|shard| shard.keys())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }
}

impl<K: Ord + Clone + AsRef<[u8]>, V: Clone> Shards<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.shards[shard_of(key)].get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.shard_mut(&key).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        // Nothing is copied for a key that is not there.
        self.get(key)?;
        self.len -= 1;
        self.shard_mut(key).remove(key)
    }

    fn shard_mut(&mut self, key: &K) -> &mut BTreeMap<K, V> {
        Arc::make_mut(&mut self.shards[shard_of(key)])
    }
}

impl<K: Ord + Clone + AsRef<[u8]>, V: Clone + Default> Shards<K, V> {
    pub(crate) fn entry_or_default(&mut self, key: K) -> &mut V {
        if self.get(&key).is_none() {
            self.len += 1;
        }
        self.shard_mut(&key).entry(key).or_default()
    }
}

fn shard_of(key: &impl AsRef<[u8]>) -> usize {
    let byte = |at: usize| key.as_ref().get(at).copied().map_or(0, usize::from);
    byte(0) << 4 | byte(1) >> 4
}
