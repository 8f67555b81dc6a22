//! Pulling models and inputs by their content hash, within limits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tg_sdk::{Client, ClientError};
use tg_types::Digest;
use tokio::sync::Mutex;

/// Model files kept in memory: the ones used last.
const MODELS_KEPT: usize = 4;

/// How long a pull may take at most.
const PULL_LIMIT: Duration = Duration::from_secs(600);

/// Model files in the order of their last use.
type Kept = VecDeque<(Digest, Arc<[u8]>)>;

/// Fetches blobs, and keeps the models used last.
#[derive(Debug, Clone)]
pub(crate) struct Puller {
    client: Client,
    model_bytes_max: usize,
    kept: Arc<Mutex<Kept>>,
}

impl Puller {
    pub(crate) fn new(client: Client, model_bytes_max: usize) -> Self {
        Self {
            client: client.with_time_limit(PULL_LIMIT),
            model_bytes_max,
            kept: Arc::default(),
        }
    }

    /// A model's file. Concurrent calls for one model fetch it once.
    pub(crate) async fn model(&self, digest: Digest) -> Result<Arc<[u8]>, ClientError> {
        let mut kept = self.kept.lock().await;
        if let Some(index) = kept.iter().position(|(name, _)| *name == digest)
            && let Some(entry) = kept.remove(index)
        {
            let file = Arc::clone(&entry.1);
            kept.push_back(entry);
            return Ok(file);
        }
        let file: Arc<[u8]> = self.client.blob(digest, self.model_bytes_max).await?.into();
        if kept.len() >= MODELS_KEPT {
            kept.pop_front();
        }
        kept.push_back((digest, Arc::clone(&file)));
        Ok(file)
    }

    /// An input of exactly `length` bytes.
    pub(crate) async fn input(
        &self,
        digest: Digest,
        length: u32,
    ) -> Result<Arc<[u8]>, ClientError> {
        let limit = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(self.client.blob(digest, limit).await?.into())
    }
}
