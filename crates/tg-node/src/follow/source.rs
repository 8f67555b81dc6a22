//! Where a follower hears of the chain.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::{Digest, Heartbeat, SignedTransaction};

use crate::blob::BlobStore;

/// What a call of a source returns.
pub type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send + 'a>>;

/// A node that a follower asks. Nothing that it says is believed unless it is shown.
pub trait ChainSource: Debug + Send + Sync + 'static {
    /// What it is called in logs, such as its address.
    fn name(&self) -> &str;

    /// Final blocks from a height on. With none there, the source waits for one, for `wait` at most.
    fn page(&self, from: u64, wait: Duration) -> SourceFuture<'_, ChainPage>;

    /// A state to begin at, with its bytes; nothing if the source has none.
    fn snapshot(&self) -> SourceFuture<'_, Option<(SnapshotHead, Vec<u8>)>>;

    /// Changes of the set of validators above a height, ascending; as many as fit an answer.
    fn seat_changes(&self, above: u64) -> SourceFuture<'_, SeatChanges>;

    /// The final block of a height, with the validators after it; nothing if the source has it not.
    fn checkpoint(&self, height: u64) -> SourceFuture<'_, Option<CheckpointBlock>>;

    /// Hands a transaction on.
    fn submit(&self, signed: SignedTransaction) -> SourceFuture<'_, ()>;

    /// Tells that a provider is there.
    fn heartbeat(&self, heartbeat: Heartbeat) -> SourceFuture<'_, ()>;

    /// Fetches a blob of at most `limit` bytes into a store, which checks its name; false if the source lacks it.
    fn blob(&self, digest: Digest, limit: u64, store: Arc<BlobStore>) -> SourceFuture<'_, bool>;
}

/// Why a source gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not answer, or its answer is not one.
    #[error("{0}")]
    Unreachable(String),
    /// It refused, with its code and reason.
    #[error("{code}: {message}")]
    Refused {
        /// A stable code of a node, the ledger or the API.
        code: String,
        /// What it said.
        message: String,
    },
}
