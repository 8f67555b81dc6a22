//! Blobs that somebody asked this follower for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tg_types::Digest;
use tokio::sync::{Semaphore, mpsc};

use super::sources::SourceList;
use crate::blob::BlobStore;
use crate::fetch::Need;

/// Blobs fetched at once.
const TRANSFERS_MAX: usize = 4;

/// How long one source may take for a blob of the most bytes: ten seconds and the time of its size at 256 KiB/s, ten minutes at most. Stops: a source that gives
/// little at a time, for which the others wait.
fn transfer_max(bytes: u64) -> Duration {
    Duration::from_secs((10 + (bytes >> 18)).min(600))
}

/// Fetches what is asked for. Ends when nobody can ask any more.
pub(super) async fn fetch(
    sources: &Arc<SourceList>,
    store: Arc<BlobStore>,
    mut asked: mpsc::Receiver<Need>,
) {
    let room = Arc::new(Semaphore::new(TRANSFERS_MAX));
    let running: Arc<Mutex<BTreeSet<Digest>>> = Arc::default();
    while let Some(need) = asked.recv().await {
        if store.contains(&need.digest) {
            continue;
        }
        let is_new = running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(need.digest);
        if !is_new {
            continue;
        }
        let (sources, store) = (sources.clone(), store.clone());
        let (room, running) = (room.clone(), running.clone());
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _place = room.acquire_owned().await;
            one(&sources, &store, need).await;
            running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&need.digest);
        });
    }
}

/// Asks one source after the other.
async fn one(sources: &SourceList, store: &Arc<BlobStore>, need: Need) {
    for source in sources.in_turn() {
        let call = source.blob(need.digest, need.limit, store.clone());
        match tokio::time::timeout(transfer_max(need.limit), call).await {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::debug!(from = source.name(), digest = %need.digest, %error, "no blob");
            }
            Err(_) => sources.failed(&source, "it did not finish a blob"),
        }
    }
}
