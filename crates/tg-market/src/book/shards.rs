//! Sorted maps in parts that copies share until they are written to.

use std::sync::Arc;

/// How many parts: one for each value of a key's first twelve bits. The changes of a block, some hundred, then copy a
/// small part of a large map.
const SHARDS: usize = 1 << 12;

/// A sorted map of few entries, one after the other: to copy it is to copy their bytes. To insert moves what lies behind, at
/// most some microseconds for the 10,000 keys that somebody with as many open jobs could make begin alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sorted<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<K, V> Sorted<K, V> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }
}

impl<K: Ord, V> Sorted<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(it, _)| it.cmp(key))
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let at = self.find(key).ok()?;
        Some(&self.entries[at].1)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        Some(self.entries.remove(at).1)
    }
}

/// A sorted map in parts by the first bits of the key; iteration is in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shards<K, V> {
    shards: Vec<Arc<Sorted<K, V>>>,
    len: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        // All empty parts are one allocation until they are written to.
        let empty = Arc::new(Sorted::default());
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

    fn shard_mut(&mut self, key: &K) -> &mut Sorted<K, V> {
        Arc::make_mut(&mut self.shards[shard_of(key)])
    }
}

impl<K: Ord + Clone + AsRef<[u8]>, V: Clone + Default> Shards<K, V> {
    pub(crate) fn entry_or_default(&mut self, key: K) -> &mut V {
        let shard = Arc::make_mut(&mut self.shards[shard_of(&key)]);
        let at = match shard.find(&key) {
            Ok(at) => at,
            Err(at) => {
                self.len += 1;
                shard.entries.insert(at, (key, V::default()));
                at
            }
        };
        &mut shard.entries[at].1
    }
}

fn shard_of(key: &impl AsRef<[u8]>) -> usize {
    let byte = |at: usize| key.as_ref().get(at).copied().map_or(0, usize::from);
    byte(0) << 4 | byte(1) >> 4
}
