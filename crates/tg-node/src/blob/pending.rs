//! Blobs that nothing names yet: whose they are, and until when they stay.
//!
//! A blob belongs to a record of the ledger that names its digest: an order, a lease, a model. One that is stored
//! before its record is *pending*: it counts against what its owner holds (so many bytes per TGRID), and it goes when
//! its time is over and no record names it, or when its owner's money is gone. [`BlobStore::sweep`](super::BlobStore::sweep) looks through all of
//! them, and one by one through the folders of the store, so that what a record named once goes, too, when the last
//! one of them has left the ledger.
//!
//! Whoever keeps a quarter of the store pending has to keep the money that backs it, all of the time; named blobs and
//! the evidence of live leases have the rest.

use std::collections::BTreeMap;

use tg_types::{Address, Digest, DurationMs, TimestampMs};

use super::error::BlobError;

/// How long a blob stays without a record that names it: the time to order, to be matched or to open a sealed bid.
pub const PENDING_TIME: DurationMs = DurationMs::new(10 * 60 * 1_000);

/// What the smallest blob counts: its place in the file system.
pub(super) const CHARGED_MIN: u64 = 4_096;

/// The part of the store's capacity that blobs backed by balances may take.
pub(super) const PENDING_SHARE: u64 = 4;

/// Folders of the store.
pub(super) const FOLDERS: u16 = 256;

/// What an account may keep pending, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// For its balance; all accounts together get a quarter of the store.
    pub balance: u64,
    /// For its live leases, whose evidence and output it must deliver.
    pub leases: u64,
}

/// A blob that will be pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingBlob {
    /// The blob.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Who answers for it.
    pub owner: Address,
    /// When it goes unless a record names it.
    pub expires: TimestampMs,
}

/// A blob with an end.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) owner: Address,
    /// Bytes that count against the owner: none once a record names the blob.
    pub(super) charged: u64,
    pub(super) expires: TimestampMs,
    /// Uploads under way, which keep the entry.
    pub(super) writers: u32,
}

/// Blobs with an end.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) blobs: BTreeMap<Digest, Entry>,
    pub(super) owners: BTreeMap<Address, u64>,
    pub(super) total: u64,
    pub(super) next_folder: u16,
}

impl Pending {
    /// Counts a blob against its owner, in the place of what counted for it before.
    pub(super) fn charge(
        &mut self,
        blob: &PendingBlob,
        allowance: Allowance,
        capacity: u64,
    ) -> Result<(), BlobError> {
        let charged = blob.size.max(CHARGED_MIN);
        let known = self.blobs.get(&blob.digest);
        let before = known.map_or(0, |it| it.charged);
        let of_own = known
            .filter(|it| it.owner == blob.owner)
            .map_or(0, |it| it.charged);
        let own = self.owners.get(&blob.owner).copied().unwrap_or_default();
        let own = own.saturating_sub(of_own);
        let total = self.total.saturating_sub(before);
        let after = own.saturating_add(charged);
        let limit = allowance.balance.saturating_add(allowance.leases);
        if after > limit {
            return Err(BlobError::AllowanceUsed {
                bytes: blob.size,
                pending: own,
                limit,
            });
        }
        if after > allowance.leases && total.saturating_add(charged) > capacity {
            return Err(BlobError::PendingFull { capacity });
        }
        self.discharge(&blob.digest);
        self.owners.insert(blob.owner, after);
        self.total = self.total.saturating_add(charged);
        let entry = self.blobs.entry(blob.digest).or_insert(Entry {
            owner: blob.owner,
            charged,
            expires: blob.expires,
            writers: 0,
        });
        (entry.owner, entry.charged) = (blob.owner, charged);
        Ok(())
    }

    /// Counts nothing for a blob any more.
    pub(super) fn discharge(&mut self, digest: &Digest) {
        self.lower(digest, 0);
    }

    /// Counts no more than so many bytes for a blob.
    pub(super) fn lower(&mut self, digest: &Digest, most: u64) {
        let Some(entry) = self.blobs.get_mut(digest) else {
            return;
        };
        let above = entry.charged.saturating_sub(most);
        entry.charged = entry.charged.min(most);
        self.total = self.total.saturating_sub(above);
        if let Some(bytes) = self.owners.get_mut(&entry.owner) {
            *bytes = bytes.saturating_sub(above);
            if *bytes == 0 {
                self.owners.remove(&entry.owner);
            }
        }
    }

    pub(super) fn remove(&mut self, digest: &Digest) {
        self.discharge(digest);
        self.blobs.remove(digest);
    }
}
