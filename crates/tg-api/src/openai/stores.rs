//! What is kept on the disk for callers, opened when it is first needed.

use std::sync::{Arc, Mutex, PoisonError};

use super::access;
use super::batch_store::BatchStore;
use super::disk;
use super::error::OpenAiError;
use super::file_store::FileStore;
use crate::port::GridPort;

/// Files and batches.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(super) files: FileStore,
    pub(super) batches: BatchStore,
}

/// The stores of this node, once they are open.
#[derive(Debug, Default)]
pub(crate) struct OpenStores(Mutex<Option<Arc<Stores>>>);

impl OpenStores {
    /// The stores, which are opened if they are not yet.
    pub(super) fn get(&self, port: &dyn GridPort) -> Result<Arc<Stores>, OpenAiError> {
        let folder = access::orders(port)?.folder();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stores) = &*open {
            return Ok(Arc::clone(stores));
        }
        let opened = disk::make_folder(folder)
            .and_then(|()| FileStore::open(folder.join("files")))
            .and_then(|files| Ok((files, BatchStore::open(folder.join("batches"))?)));
        let (files, batches) = opened.map_err(|error| {
            OpenAiError::unavailable(format!("open {}: {error}", folder.display()))
        })?;
        let stores = Arc::new(Stores { files, batches });
        *open = Some(Arc::clone(&stores));
        Ok(stores)
    }
}

/// Does what waits for a disk, or computes for long, on a thread of its own, so that the event loop goes on.
///
/// # Errors
/// That of the work, or that it panicked.
pub async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenAiError> + Send + 'static,
) -> Result<T, OpenAiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(OpenAiError::unavailable(error.to_string())))
}
