//! Downloads of models and inputs by their content hash, within limits.
//!
//! Each file is downloaded once for all leases that wait for it, at the same time as other files, and returned at once if it
//! is cached. A download ends when no lease waits for it any more. Stops: an order of a large model that is cancelled at
//! once, whose download continues and delays leases of other models until it is too late to start them.
//!
//! The chunks of a large model stay on disk (`parts`), so that a provider that is killed, or whose leases all ended, continues
//! the download later.
//!
//! Each lease waits for at most one model, so there are no more downloads than leases.

mod parts;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tg_sdk::{Client, ClientError};
use tg_types::Digest;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::parts::PartsFolder;

/// Model files kept in memory: the ones used last.
const MODELS_KEPT: usize = 4;

/// How long a pull may take at most.
const PULL_LIMIT: Duration = Duration::from_secs(600);

/// A file, or why it did not come; all who wait for it are given the same.
type Pulled = Result<Arc<[u8]>, Arc<ClientError>>;

/// Fetches blobs, and keeps the models used last.
#[derive(Debug, Clone)]
pub(crate) struct Puller {
    client: Client,
    model_bytes_max: usize,
    parts: Option<PartsFolder>,
    files: Arc<Mutex<PulledFiles>>,
}

impl Puller {
    pub(crate) fn new(client: Client, model_bytes_max: usize, parts: Option<PathBuf>) -> Self {
        Self {
            client: client.with_time_limit(PULL_LIMIT),
            model_bytes_max,
            parts: parts.map(PartsFolder::new),
            files: Arc::default(),
        }
    }

    /// A model's file. Concurrent calls for one model fetch it once.
    pub(crate) async fn model(&self, digest: Digest) -> Pulled {
        let download = match self.find(digest) {
            PullFound::Kept(file) => return Ok(file),
            PullFound::Coming(download) => download,
        };
        let mut pulled = download.pulled.clone();
        match pulled.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().expect("it was waited for"),
            // The task of the download panicked: it is tried again.
            Err(error) => Err(Arc::new(ClientError::Unreachable {
                url: self.client.url().to_owned(),
                source: error.into(),
            })),
        }
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

    /// Where a model's file is; its download begins if it is nowhere.
    fn find(&self, digest: Digest) -> PullFound {
        let mut files = locked(&self.files);
        if let Some(file) = files.used(digest) {
            return PullFound::Kept(file);
        }
        if let Some(download) = files.coming(digest) {
            return PullFound::Coming(download);
        }
        let (sender, pulled) = watch::channel(None);
        let (client, limit) = (self.client.clone(), self.model_bytes_max);
        let (kept, parts) = (Arc::clone(&self.files), self.parts.clone());
        let task = OwnedTask::spawn(async move {
            let pulled: Pulled = match parts::pull(&client, digest, limit, parts.as_ref()).await {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(Arc::new(error)),
            };
            if let Ok(file) = &pulled {
                locked(&kept).keep(digest, Arc::clone(file));
            }
            sender.send_replace(Some(pulled));
        });
        let download = Arc::new(Download {
            pulled,
            _task: task,
        });
        files.downloads.insert(digest, Arc::downgrade(&download));
        PullFound::Coming(download)
    }
}

/// Where a model's file is.
#[derive(Debug)]
enum PullFound {
    /// In memory.
    Kept(Arc<[u8]>),
    /// On its way.
    Coming(Arc<Download>),
}

/// A download that goes on as long as somebody holds this.
#[derive(Debug)]
struct Download {
    pulled: watch::Receiver<Option<Pulled>>,
    _task: OwnedTask,
}

/// The models at hand, and those on their way.
#[derive(Debug, Default)]
struct PulledFiles {
    /// In the order of their last use.
    kept: VecDeque<(Digest, Arc<[u8]>)>,
    downloads: BTreeMap<Digest, Weak<Download>>,
}

impl PulledFiles {
    /// A file that is kept; it is now the one used last.
    fn used(&mut self, digest: Digest) -> Option<Arc<[u8]>> {
        let index = self.kept.iter().position(|(name, _)| *name == digest)?;
        let entry = self.kept.remove(index)?;
        let file = Arc::clone(&entry.1);
        self.kept.push_back(entry);
        Some(file)
    }

    fn keep(&mut self, digest: Digest, file: Arc<[u8]>) {
        if self.used(digest).is_some() {
            return;
        }
        if self.kept.len() >= MODELS_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((digest, file));
    }

    /// A download that goes on. Those that nobody waits for any more, or that failed, are forgotten: the next one asks again.
    fn coming(&mut self, digest: Digest) -> Option<Arc<Download>> {
        self.downloads.retain(|_, it| it.strong_count() > 0);
        let download = self.downloads.get(&digest)?.upgrade()?;
        let has_failed = matches!(&*download.pulled.borrow(), Some(Err(_)));
        (!has_failed).then_some(download)
    }
}

/// The files. A panic of another thread leaves them whole: they are only moved and pushed.
fn locked(files: &Mutex<PulledFiles>) -> MutexGuard<'_, PulledFiles> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// Begins a task.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
