//! Uploads that arrive chunk by chunk from clients, each chunk checked when it comes, and go on where they broke off.
//!
//! Nobody has paid for a blob that is not whole yet, so an open upload costs what a stored one does: the *whole* size counts against what
//! its account may have stored without a record that names it ([`super::pending`]) and is taken from the store's room from the first chunk
//! on. A TGRID thus holds 16 MiB of open and stored blobs together, whichever they are, and all accounts a quarter of the store. Besides:
//! - At most 64 are open, and 8 of one account.
//! - One to which no chunk came for [`PENDING_TIME`], or whose account's money went elsewhere, ends at the next sweep with all that came;
//!   so does one that is not whole after [`PENDING_TIME`] and as long as it takes at 64 KiB a second, whatever comes. One that is whole
//!   then has [`PENDING_TIME`] from its last chunk on until a record must name it.
//! - A chunk that is not the one of its place is refused at once, and nothing of it is kept.
//! - A tree may say a size that is wrong, and several chunks as one: it goes by the tree of whoever asked last. The chunks that are here
//!   were checked and stay, and a tree that does not have them is refused.
//! - What a process left open stays in `<root>/uploads/`, counts as held, and goes after [`PENDING_TIME`] unless somebody goes on with it,
//!   for whom it counts then. Its chunks are hashed again, once.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, MutexGuard, PoisonError};

use tg_types::chunks::ChunkTree;
use tg_types::{Address, Digest, TimestampMs};

use super::error::BlobError;
use super::open_uploads::{LeftUpload, OpenUpload, UPLOADS, Uploads};
use super::partial::{PartialBlob, name};
use super::pending::{Allowance, PENDING_TIME, PendingBlob};
use super::store::BlobStore;
use super::writer::Stored;

/// Where an upload in chunks stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadProgress {
    /// The chunk with this number is missing next.
    Missing(u64),
    /// All chunks are here, and the blob is held.
    Whole(Stored),
}

impl BlobStore {
    /// Begins an upload in chunks, or tells where it stands. `tree` is what the sender says that the blob's chunks are; it is checked.
    /// Of a blob that is held already, damaged or not, nothing is read.
    ///
    /// # Errors
    /// [`BlobError::WrongTree`]; those of [`Self::put_pending`]; [`BlobError::TooManyUploads`]; [`BlobError::Busy`] while a chunk of it is
    /// being written; above the limit or the capacity, or when the file system fails.
    pub fn begin_upload(
        self: &Arc<Self>,
        blob: &PendingBlob,
        allowance: Allowance,
        tree: ChunkTree,
        limit: u64,
    ) -> Result<UploadProgress, BlobError> {
        self.begin_counted(blob, tree, limit, || self.put_pending(blob, allowance))
    }

    /// The same for a blob that a record of its owner names, so that it counts against nobody: whoever has ordered goes on though its money
    /// went into the order.
    ///
    /// # Errors
    /// Those of [`Self::begin_upload`] but those of [`Self::put_pending`].
    pub fn begin_named_upload(
        self: &Arc<Self>,
        blob: &PendingBlob,
        tree: ChunkTree,
        limit: u64,
    ) -> Result<UploadProgress, BlobError> {
        self.begin_counted(blob, tree, limit, || {
            self.put_pending_named(blob);
            Ok(())
        })
    }

    fn begin_counted(
        self: &Arc<Self>,
        blob: &PendingBlob,
        tree: ChunkTree,
        limit: u64,
        count: impl FnOnce() -> Result<(), BlobError>,
    ) -> Result<UploadProgress, BlobError> {
        let digest = &blob.digest;
        if blob.size > limit {
            return Err(BlobError::TooLarge {
                bytes: blob.size,
                limit,
            });
        }
        // Stops: chunks of the sender's choice, and a size that is not the one that is counted.
        if tree.size() != blob.size || !tree.is_of(digest) {
            return Err(BlobError::WrongTree { digest: *digest });
        }
        count()?;
        // From here on the blob counts, until this upload's end.
        if self.contains(digest) {
            self.end_upload(digest);
            self.end_pending(digest);
            return Ok(UploadProgress::Whole(Stored::Held));
        }
        match self.open_or_known(blob, &tree) {
            Ok(None) => {}
            known => {
                self.end_pending(digest);
                return known.map(|it| UploadProgress::Missing(it.unwrap_or(0)));
            }
        }
        match self.resume_in(UPLOADS, digest, tree) {
            Ok(partial) => self.settle(partial, digest, blob.expires),
            Err(error) => {
                self.abandon(digest);
                Err(error)
            }
        }
    }

    /// The next chunk of an upload that is open; nothing if it has to be begun, for which there is a place from now on.
    fn open_or_known(
        &self,
        blob: &PendingBlob,
        tree: &ChunkTree,
    ) -> Result<Option<u64>, BlobError> {
        let PendingBlob {
            digest, expires, ..
        } = *blob;
        // It counts against whoever came last and can pay for it.
        let owner = self.charged_to(&digest).map_or(blob.owner, |(it, _)| it);
        let mut uploads = self.uploads();
        if let Some(open) = uploads.open.get_mut(&digest) {
            let Some(paused) = &mut open.paused else {
                return Err(BlobError::Busy { digest });
            };
            // Stops: somebody who begins the upload of another one's blob with a wrong size, of which no bytes are the last chunk.
            if paused.tree != *tree {
                if !tree.begins_like(&paused.tree, paused.chunks) {
                    return Err(BlobError::WrongTree { digest });
                }
                self.reserve_instead(paused.given_back, tree.size())?;
                paused.given_back = tree.size();
                paused.tree = tree.clone();
            }
            let next = paused.chunks;
            open.owner = owner;
            open.set_size(tree.size());
            open.stay_until(expires);
            return Ok(Some(next));
        }
        uploads.has_room(&owner, &digest)?;
        if let Some(left) = uploads.left.remove(&digest) {
            self.release(left.bytes);
        }
        let open = OpenUpload::new(owner, tree.size(), expires);
        uploads.open.insert(digest, open);
        Ok(None)
    }

    /// Takes a chunk of an upload that [`Self::begin_upload`] began. One that is not missing next is not looked at: the answer says
    /// which is. `expires` is when the upload ends unless another chunk comes.
    ///
    /// # Errors
    /// [`BlobError::NotOpen`]; [`BlobError::WrongChunk`], and nothing of it is kept; [`BlobError::Busy`] while another chunk is being
    /// written. If the file system fails the upload ends.
    pub fn put_upload_chunk(
        self: &Arc<Self>,
        digest: &Digest,
        chunk: u64,
        bytes: &[u8],
        expires: TimestampMs,
    ) -> Result<UploadProgress, BlobError> {
        let paused = {
            let mut uploads = self.uploads();
            let Some(open) = uploads.open.get_mut(digest) else {
                return match self.contains(digest) {
                    true => Ok(UploadProgress::Whole(Stored::Held)),
                    false => Err(BlobError::NotOpen { digest: *digest }),
                };
            };
            if let Some(paused) = &open.paused
                && paused.chunks != chunk
            {
                return Ok(UploadProgress::Missing(paused.chunks));
            }
            open.paused.take()
        };
        let paused = paused.ok_or(BlobError::Busy { digest: *digest })?;
        let put = self.reopen(paused).and_then(|mut partial| {
            // After a reading anew it may be another one that is missing.
            let is_kept = partial.next() != Some(chunk) || partial.put(bytes)?;
            Ok((partial, is_kept))
        });
        match put {
            Ok((partial, true)) => self.settle(partial, digest, expires),
            Ok((partial, false)) => {
                // Wrong bytes do not keep it open.
                self.settle(partial, digest, TimestampMs::ZERO)?;
                Err(BlobError::WrongChunk {
                    digest: *digest,
                    chunk,
                })
            }
            Err(error) => {
                self.abandon(digest);
                Err(error)
            }
        }
    }

    /// Holds the blob if all of its chunks are here; else keeps what came for the next one.
    fn settle(
        &self,
        partial: PartialBlob,
        digest: &Digest,
        expires: TimestampMs,
    ) -> Result<UploadProgress, BlobError> {
        let Some(next) = partial.next() else {
            let stored = partial.finish();
            if stored.is_ok() {
                // Its sender has the time to order that others have, though it began long ago.
                self.extend_pending(digest, expires);
            }
            // Once it is held it counts on as one that nothing names yet.
            self.abandon(digest);
            return stored.map(UploadProgress::Whole);
        };
        let paused = partial.pause();
        let mut uploads = self.uploads();
        if let Some(open) = uploads.open.get_mut(digest) {
            open.stay_until(expires);
            open.paused = Some(paused);
        }
        drop(uploads);
        Ok(UploadProgress::Missing(next))
    }

    /// Forgets an upload whose chunks are not kept for the next one. If nothing is held, nothing counts.
    fn abandon(&self, digest: &Digest) {
        self.uploads().open.remove(digest);
        // After the blob got its name there is none.
        let _ = fs::remove_file(self.root.join(UPLOADS).join(name(digest)));
        self.end_pending(digest);
    }

    /// Ends an upload, if it is open and no chunk of it is being written.
    fn end_upload(&self, digest: &Digest) {
        let paused = {
            let mut uploads = self.uploads();
            let open = uploads.open.get_mut(digest);
            let Some(paused) = open.and_then(|it| it.paused.take()) else {
                return;
            };
            uploads.open.remove(digest);
            paused
        };
        self.release(paused.remove());
        self.end_pending(digest);
    }

    /// Ends uploads to which nothing comes any more, or whose accounts' money went elsewhere; removes what an earlier process left and
    /// nobody went on with.
    pub(super) fn end_uploads(&self, now: TimestampMs, allowance: &impl Fn(&Address) -> Allowance) {
        let unbacked: BTreeSet<Address> = self
            .pending()
            .owners
            .iter()
            .filter(|(owner, bytes)| {
                let Allowance { balance, leases } = allowance(owner);
                **bytes > balance.saturating_add(leases)
            })
            .map(|(owner, _)| *owner)
            .collect();
        let mut over = Vec::new();
        let mut left_over = Vec::new();
        let mut uploads = self.uploads();
        for (digest, open) in &uploads.open {
            let charged = self.charged_to(digest).filter(|(_, it)| *it > 0);
            let is_unbacked = charged.is_some_and(|(owner, _)| unbacked.contains(&owner));
            if open.expires <= now || is_unbacked {
                over.push(*digest);
            }
        }
        for (digest, left) in &mut uploads.left {
            let expires = left.expires.get_or_insert(now.saturating_add(PENDING_TIME));
            if *expires <= now {
                left_over.push((*digest, left.bytes));
            }
        }
        for (digest, bytes) in &left_over {
            uploads.left.remove(digest);
            // What cannot be removed is found when the store is opened again.
            let _ = fs::remove_file(self.root.join(UPLOADS).join(name(digest)));
            self.release(*bytes);
        }
        drop(uploads);
        over.iter().for_each(|digest| self.end_upload(digest));
    }

    /// Finds what an earlier process left open; what is no upload there goes. [`Self::open`] counted the bytes.
    pub(super) fn find_left_uploads(&self) {
        let Ok(files) = fs::read_dir(self.root.join(UPLOADS)) else {
            return;
        };
        let mut uploads = self.uploads();
        for file in files.flatten() {
            let bytes = file.metadata().map_or(0, |meta| meta.len());
            let digest = file.file_name().to_str().and_then(Digest::from_hex);
            if let Some(digest) = digest {
                let left = LeftUpload {
                    bytes,
                    expires: None,
                };
                uploads.left.insert(digest, left);
            } else if fs::remove_file(file.path()).is_ok() {
                self.release(bytes);
            }
        }
    }

    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
