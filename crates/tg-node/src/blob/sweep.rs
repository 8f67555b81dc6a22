//! Which blobs go: those that no record names and whose time or money is over.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{MutexGuard, PoisonError};

use tg_types::{Address, Digest, TimestampMs};

use super::error::BlobError;
use super::pending::{
    Allowance, CHARGED_MIN, Entry, FOLDERS, PENDING_SHARE, PENDING_TIME, Pending, PendingBlob,
};
use super::store::BlobStore;

impl BlobStore {
    /// Counts a blob that is about to be stored against its owner, until [`Self::end_pending`]. One that is pending
    /// already stays longer, and counts against whoever can pay for it and came last: nobody's blob goes because the
    /// one who stored it first has spent its money. Who cannot pay may store what another one pays for, or what is
    /// held already, and does not make it stay longer.
    ///
    /// # Errors
    /// [`BlobError::AllowanceUsed`] if the owner has too much pending, [`BlobError::PendingFull`] if all have.
    pub fn put_pending(&self, blob: &PendingBlob, allowance: Allowance) -> Result<(), BlobError> {
        let mut pending = self.pending();
        let capacity = self.capacity / PENDING_SHARE;
        let held = self.size(&blob.digest);
        let known = pending.blobs.get(&blob.digest);
        let known = known.map(|it| (it.owner, it.charged));
        let counted = known.map_or(0, |(_, charged)| charged);
        // Stops: large blobs that count as the small ones that somebody said they are.
        let size = blob.size.max(held.unwrap_or(0));
        let is_covered = counted >= size.max(CHARGED_MIN);
        let is_own = known.is_some_and(|(owner, _)| owner == blob.owner);
        let mut expires = blob.expires;
        if !(is_own && is_covered) {
            // Other uploads of it may have said more, and their room is taken.
            let size = size.max(counted);
            let charged = pending.charge(&PendingBlob { size, ..*blob }, allowance, capacity);
            if let Err(error) = charged {
                // A record may name it, for which nothing counts after the next sweep.
                let is_held = known.is_some() && held.is_some_and(|held| blob.size <= held);
                if !is_covered && !is_held {
                    return Err(error);
                }
                // Stops: what nobody pays for and no record names any more, which stays for as long as somebody asks.
                expires = TimestampMs::ZERO;
            }
        }
        if let Some(entry) = pending.blobs.get_mut(&blob.digest) {
            entry.expires = entry.expires.max(expires);
            entry.writers = entry.writers.saturating_add(1);
        }
        Ok(())
    }

    /// Has a blob that is about to be stored count against nobody, as a record of its owner names it, until [`Self::end_pending`]. What counts
    /// for it already stays.
    pub fn put_pending_named(&self, blob: &PendingBlob) {
        let mut pending = self.pending();
        let entry = pending.blobs.entry(blob.digest).or_insert(Entry {
            owner: blob.owner,
            charged: 0,
            expires: blob.expires,
            writers: 0,
        });
        if entry.charged == 0 {
            entry.owner = blob.owner;
        }
        entry.expires = entry.expires.max(blob.expires);
        entry.writers = entry.writers.saturating_add(1);
    }

    /// Ends an upload that [`Self::put_pending`] began: if nothing is held in the end, nothing counts, else what is held.
    pub fn end_pending(&self, digest: &Digest) {
        let mut pending = self.pending();
        let Some(entry) = pending.blobs.get_mut(digest) else {
            return;
        };
        entry.writers = entry.writers.saturating_sub(1);
        if entry.writers > 0 {
            return;
        }
        match self.size(digest) {
            Some(size) => pending.lower(digest, size.max(CHARGED_MIN)),
            None => pending.remove(digest),
        }
    }

    /// Has a blob that came bit by bit stay until then, whether a record names it by now or not.
    pub(super) fn extend_pending(&self, digest: &Digest, expires: TimestampMs) {
        let mut pending = self.pending();
        if let Some(entry) = pending.blobs.get_mut(digest) {
            entry.expires = entry.expires.max(expires);
        }
    }

    /// Bytes that count against an account.
    #[cfg(test)]
    pub(crate) fn pending_of(&self, owner: &Address) -> u64 {
        self.pending()
            .owners
            .get(owner)
            .copied()
            .unwrap_or_default()
    }

    /// Removes what is over at `now`: named by no record, and expired or no longer backed by its owner. What a record
    /// names, as a blob of no more than the bytes that `longest` gives, counts against nobody and stays. Returns how many
    /// blobs went.
    pub fn sweep(
        &self,
        now: TimestampMs,
        longest: impl Fn(&Digest) -> Option<u64>,
        allowance: impl Fn(&Address) -> Allowance,
    ) -> usize {
        self.find_strays(now);
        self.end_uploads(now, &allowance);
        let mut pending = self.pending();
        let named = pending.blobs.iter().filter(|(digest, it)| {
            // Of one that is not here yet what is counted is what was said of it.
            let size = || self.size(digest).unwrap_or(it.charged);
            longest(digest).is_some_and(|longest| size() <= longest)
        });
        let named: Vec<Digest> = named.map(|(digest, _)| *digest).collect();
        for digest in &named {
            pending.discharge(digest);
            if let Some(entry) = pending.blobs.get_mut(digest) {
                entry.expires = now.saturating_add(PENDING_TIME);
            }
        }
        let expired = pending.blobs.iter();
        let expired = expired.filter(|(_, it)| it.expires <= now && it.writers == 0);
        let mut over: Vec<Digest> = expired.map(|(digest, _)| *digest).collect();
        over.extend(unbacked(&pending, &allowance));
        for digest in &over {
            pending.remove(digest);
        }
        drop(pending);
        over.iter().for_each(|digest| self.discard(digest));
        over.len()
    }

    /// Gives blobs of the next folder that have no end yet one: those of an earlier process, or from other validators.
    fn find_strays(&self, now: TimestampMs) {
        let mut pending = self.pending();
        let number = pending.next_folder;
        pending.next_folder = (number + 1) % FOLDERS;
        // A folder that is not there yet holds nothing.
        let Ok(files) = fs::read_dir(self.root.join(format!("{number:02x}"))) else {
            return;
        };
        for file in files.flatten() {
            let name = file.file_name();
            let Some(digest) = name.to_str().and_then(Digest::from_hex) else {
                continue;
            };
            pending.blobs.entry(digest).or_insert(Entry {
                owner: Address::default(),
                charged: 0,
                expires: now.saturating_add(PENDING_TIME),
                writers: 0,
            });
        }
    }

    /// The account that a blob with an end counts against, and by how many bytes: none if a record named it.
    #[must_use]
    pub fn charged_to(&self, digest: &Digest) -> Option<(Address, u64)> {
        let pending = self.pending();
        let entry = pending.blobs.get(digest)?;
        Some((entry.owner, entry.charged))
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blobs of owners whose money went elsewhere, the soonest to expire first, until the rest is backed again.
fn unbacked(pending: &Pending, allowance: &impl Fn(&Address) -> Allowance) -> Vec<Digest> {
    let mut excess = BTreeMap::new();
    for (owner, bytes) in &pending.owners {
        let Allowance { balance, leases } = allowance(owner);
        let above = bytes.saturating_sub(balance.saturating_add(leases));
        if above > 0 {
            excess.insert(*owner, above);
        }
    }
    if excess.is_empty() {
        return Vec::new();
    }
    let charged = pending.blobs.iter();
    let charged = charged.filter(|(_, it)| it.charged > 0 && it.writers == 0);
    let mut charged: Vec<_> = charged.collect();
    charged.sort_by_key(|(digest, it)| (it.expires, **digest));
    let mut over = Vec::new();
    for (digest, entry) in charged {
        if let Some(above) = excess.get_mut(&entry.owner)
            && *above > 0
        {
            *above = above.saturating_sub(entry.charged);
            over.push(*digest);
        }
    }
    over
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const NOW: TimestampMs = TimestampMs::new(1_000_000);
    const LATER: TimestampMs = NOW.saturating_add(PENDING_TIME);
    const ALICE: Address = Address::new([1; 20]);
    const BOB: Address = Address::new([2; 20]);

    fn store(capacity: u64) -> (tempfile::TempDir, BlobStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), capacity).unwrap();
        (folder, store)
    }

    fn balance(bytes: u64) -> Allowance {
        Allowance {
            balance: bytes,
            leases: 0,
        }
    }

    fn put(
        store: &BlobStore,
        owner: Address,
        bytes: &[u8],
        allowance: Allowance,
    ) -> Result<Digest, BlobError> {
        let digest = Digest::of_blob(bytes);
        let size = bytes.len() as u64;
        let expires = LATER;
        store.put_pending(
            &PendingBlob {
                digest,
                size,
                owner,
                expires,
            },
            allowance,
        )?;
        let stored = store.put(bytes, u64::MAX);
        store.end_pending(&digest);
        stored
    }

    #[test]
    fn an_upload_that_no_record_names_expires_and_a_named_one_stays() {
        let (_folder, store) = store(1 << 20);
        let named = put(&store, ALICE, b"an input", balance(1 << 20)).unwrap();
        let alone = put(&store, ALICE, b"nobody's", balance(1 << 20)).unwrap();
        assert_eq!(store.pending_of(&ALICE), 2 * CHARGED_MIN);
        let longest = |digest: &Digest| (*digest == named).then_some(8);
        let all = |_: &Address| balance(1 << 20);
        assert_eq!(store.sweep(NOW, longest, all), 0);
        assert_eq!(store.pending_of(&ALICE), CHARGED_MIN);
        assert_eq!(store.sweep(LATER, longest, all), 1);
        assert!(store.contains(&named) && !store.contains(&alone));
        assert_eq!((store.pending_of(&ALICE), store.used_bytes()), (0, 8));
        // The record left the ledger.
        assert_eq!(store.sweep(LATER, |_| None, all), 0);
        assert_eq!(
            store.sweep(LATER.saturating_add(PENDING_TIME), |_| None, all),
            1
        );
        assert!(!store.contains(&named));
    }

    #[test]
    fn filling_the_store_takes_money_that_stays() {
        let (_folder, store) = store(8 * CHARGED_MIN);
        let error = put(&store, ALICE, b"a", balance(CHARGED_MIN - 1)).unwrap_err();
        assert!(
            matches!(error, BlobError::AllowanceUsed { pending: 0, .. }),
            "{error}"
        );
        put(&store, ALICE, b"a", balance(CHARGED_MIN)).unwrap();
        let error = put(&store, ALICE, b"b", balance(CHARGED_MIN)).unwrap_err();
        assert!(matches!(
            error,
            BlobError::AllowanceUsed {
                pending: CHARGED_MIN,
                ..
            }
        ));
        put(&store, BOB, b"b", balance(CHARGED_MIN)).unwrap();
        // A quarter of the store is pending: no balance buys more, and a lease does.
        let error = put(&store, BOB, b"c", balance(1 << 20)).unwrap_err();
        assert!(matches!(error, BlobError::PendingFull { .. }), "{error}");
        let lease = Allowance {
            balance: 0,
            leases: 2 * CHARGED_MIN,
        };
        put(&store, BOB, b"c", lease).unwrap();
        // Alice's money goes to another account: her blob goes, and the next account does not start on top of it.
        let moved = |owner: &Address| match *owner {
            ALICE => balance(0),
            _ => lease,
        };
        assert_eq!(store.sweep(NOW, |_| None, moved), 1);
        assert_eq!(
            (store.pending_of(&ALICE), store.pending_of(&BOB)),
            (0, 2 * CHARGED_MIN)
        );
    }

    #[test]
    fn an_upload_that_failed_counts_for_nobody() {
        let (_folder, store) = store(1 << 20);
        let blob = PendingBlob {
            digest: Digest::of_blob(b"x"),
            size: 1,
            owner: ALICE,
            expires: LATER,
        };
        store.put_pending(&blob, balance(CHARGED_MIN)).unwrap();
        // Another upload of the same blob that ends first takes nothing away.
        store
            .put_pending(&PendingBlob { owner: BOB, ..blob }, balance(0))
            .unwrap();
        store.end_pending(&blob.digest);
        assert_eq!(store.pending_of(&ALICE), CHARGED_MIN);
        store.end_pending(&blob.digest);
        assert_eq!(store.pending_of(&ALICE), 0);
    }

    #[test]
    fn a_blob_that_another_account_stored_first_does_not_go_with_its_money() {
        let (_folder, store) = store(1 << 20);
        let digest = put(&store, ALICE, b"bob's input", balance(CHARGED_MIN)).unwrap();
        put(&store, BOB, b"bob's input", balance(CHARGED_MIN)).unwrap();
        assert_eq!(
            (store.pending_of(&ALICE), store.pending_of(&BOB)),
            (0, CHARGED_MIN)
        );
        let bobs = |owner: &Address| match *owner {
            BOB => balance(CHARGED_MIN),
            _ => balance(0),
        };
        assert_eq!(store.sweep(NOW, |_| None, bobs), 0);
        assert!(store.contains(&digest));
    }

    /// It was looked up by its name alone, so that 4 KiB were counted for any size.
    #[test]
    fn an_upload_counts_its_size_whatever_was_said_of_the_blob_before() {
        const WHOLE: u64 = 16 << 20;
        let (_folder, store) = store(1 << 30);
        let small = PendingBlob {
            digest: Digest::of_blob(b"x"),
            size: 1,
            owner: ALICE,
            expires: LATER,
        };
        let whole = PendingBlob {
            size: WHOLE,
            ..small
        };
        let of_bob = PendingBlob {
            owner: BOB,
            ..small
        };
        let counted = || (store.pending_of(&ALICE), store.pending_of(&BOB));
        store.put_pending(&small, balance(WHOLE)).unwrap();
        assert_eq!(counted(), (CHARGED_MIN, 0));
        let error = store.put_pending(&whole, balance(WHOLE - 1)).unwrap_err();
        assert!(
            matches!(error, BlobError::AllowanceUsed { pending: 0, .. }),
            "{error}"
        );
        let others = PendingBlob {
            owner: BOB,
            ..whole
        };
        let error = store.put_pending(&others, balance(0)).unwrap_err();
        assert!(matches!(error, BlobError::AllowanceUsed { .. }), "{error}");
        assert_eq!(counted(), (CHARGED_MIN, 0));
        store.put_pending(&whole, balance(WHOLE)).unwrap();
        assert_eq!(counted(), (WHOLE, 0));
        // Nobody takes it over for the size that it says itself.
        store.put_pending(&of_bob, balance(CHARGED_MIN)).unwrap();
        assert_eq!(counted(), (WHOLE, 0));
        store.put_pending(&of_bob, balance(WHOLE)).unwrap();
        assert_eq!(counted(), (0, WHOLE));
        // In the end what is held counts.
        store.put(b"x", 1).unwrap();
        for _ in 0..3 {
            store.end_pending(&small.digest);
            assert_eq!(counted(), (0, WHOLE));
        }
        store.end_pending(&small.digest);
        assert_eq!(counted(), (0, CHARGED_MIN));
    }

    /// A call of some hundred bytes, which counted nothing, had it stay for ten minutes more.
    #[test]
    fn what_a_record_named_once_counts_again_for_whoever_has_it_stay() {
        const SIZE: u64 = 3 * CHARGED_MIN;
        let (_folder, store) = store(1 << 20);
        let bytes = |byte| vec![byte; usize::try_from(SIZE).unwrap()];
        let all = |_: &Address| balance(1 << 20);
        let kept = put(&store, ALICE, &bytes(1), balance(1 << 20)).unwrap();
        let lost = put(&store, ALICE, &bytes(2), balance(1 << 20)).unwrap();
        store.sweep(NOW, |_| Some(u64::MAX), all);
        assert_eq!(store.pending_of(&ALICE), 0);
        let again = |digest, size, allowance| {
            let blob = PendingBlob {
                digest,
                size,
                owner: BOB,
                expires: LATER.saturating_add(PENDING_TIME),
            };
            let begun = store.put_pending(&blob, allowance);
            if begun.is_ok() {
                store.end_pending(&digest);
            }
            begun.map(|()| store.pending_of(&BOB))
        };
        // Storing what is held is no error, whatever money there is.
        assert_eq!(again(lost, SIZE, balance(CHARGED_MIN)).unwrap(), 0);
        let error = again(lost, SIZE + 1, balance(CHARGED_MIN)).unwrap_err();
        assert!(matches!(error, BlobError::AllowanceUsed { .. }), "{error}");
        // It counts what it has, and not what is said.
        assert_eq!(again(kept, 1, balance(SIZE)).unwrap(), SIZE);
        assert_eq!(store.sweep(LATER, |_| None, all), 1);
        assert!(store.contains(&kept) && !store.contains(&lost));
        // If a record names it, that is over at the next look.
        store.sweep(LATER, |_| Some(u64::MAX), all);
        assert_eq!(store.pending_of(&BOB), 0);
    }

    /// An order that says one byte kept whatever has its input's name.
    #[test]
    fn what_is_longer_than_its_record_says_is_not_named() {
        let (_folder, store) = store(1 << 20);
        let digest = put(&store, ALICE, &[1; 5_000], balance(1 << 20)).unwrap();
        let all = |_: &Address| balance(1 << 20);
        assert_eq!(store.sweep(NOW, |_| Some(4_999), all), 0);
        assert_eq!(store.pending_of(&ALICE), 5_000);
        assert_eq!(store.sweep(LATER, |_| Some(5_000), all), 0);
        assert_eq!(store.pending_of(&ALICE), 0);
        let later = LATER.saturating_add(PENDING_TIME);
        assert_eq!(store.sweep(later, |_| Some(4_999), all), 1);
        assert!(!store.contains(&digest));
        // One that is still coming counts as what was said of it.
        let coming = PendingBlob {
            digest,
            size: 6_000,
            owner: ALICE,
            expires: later,
        };
        store.put_pending(&coming, balance(6_000)).unwrap();
        store.sweep(later, |_| Some(5_999), all);
        assert_eq!(store.pending_of(&ALICE), 6_000);
        store.sweep(later, |_| Some(6_000), all);
        assert_eq!(store.pending_of(&ALICE), 0);
    }

    #[test]
    fn blobs_of_an_earlier_process_get_an_end() {
        let (_folder, store) = store(1 << 20);
        let digest = store.put(b"from another validator", 100).unwrap();
        let none = |_: &Address| balance(0);
        for _ in 0..FOLDERS {
            assert_eq!(store.sweep(NOW, |_| None, none), 0);
        }
        assert_eq!(store.sweep(LATER, |_| None, none), 1);
        assert!(!store.contains(&digest));
    }
}
