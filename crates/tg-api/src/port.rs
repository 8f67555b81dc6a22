//! What a node has to offer, for the API to serve it. The composition root implements it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tg_ledger::{Event, State};
use tg_sdk::dto::{DevelopmentAccountDto, DevelopmentInferDto, FaucetRequestDto, InferenceDto};
use tg_types::{Address, Digest, Fault, SignedTransaction, TransactionId};
use tokio::sync::mpsc;

/// What an asynchronous method of a port returns.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PortError>> + Send + 'a>>;

/// Why a port refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// Whose fault it is; decides the HTTP status.
    pub fault: Fault,
    /// Stable code.
    pub code: String,
    /// What failed, with its causes.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

/// What one finalised block did.
#[derive(Debug, Clone)]
pub struct FinalizedEvents {
    /// Height of the block.
    pub height: u64,
    /// Time of the block.
    pub timestamp_ms: u64,
    /// What happened, in order.
    pub events: Arc<Vec<Event>>,
}

/// A node, as the API sees it.
pub trait GridPort: Send + Sync + 'static {
    /// Name of the network.
    fn network(&self) -> &str;

    /// The ledger after the last finalised block.
    fn state(&self) -> Arc<State>;

    /// The nonce of the account's next transaction, those that wait in the pool counted.
    fn next_nonce(&self, address: &Address) -> u64;

    /// Notes that a provider asked for its leases: it is there.
    fn heard_provider(&self, provider: Address);

    /// Takes a transaction into the pool. Taking the same one again succeeds.
    fn submit(&self, transaction: SignedTransaction) -> PortFuture<'_, TransactionId>;

    /// Events of finalised blocks from now on. The channel is closed when the listener lags too far or the node
    /// stops.
    fn subscribe(&self) -> mpsc::Receiver<FinalizedEvents>;

    /// Stores a blob whose digest was checked. Storing the same one again succeeds.
    fn put_blob(&self, digest: Digest, bytes: Vec<u8>) -> PortFuture<'_, ()>;

    /// A blob, or nothing if it is not held.
    fn blob(&self, digest: Digest) -> PortFuture<'_, Option<Vec<u8>>>;

    /// Size of a blob in bytes, or nothing if it is not held.
    fn blob_size(&self, digest: Digest) -> PortFuture<'_, Option<u64>>;

    /// What only a development network offers.
    fn development(&self) -> Option<&dyn DevelopmentPort>;
}

/// What only a network labelled development offers: play money, and signing on behalf of clients.
pub trait DevelopmentPort: Send + Sync {
    /// The funded accounts, whose keys follow from their names.
    fn accounts(&self) -> Vec<DevelopmentAccountDto>;

    /// Sends play money from the faucet's account.
    fn faucet(&self, request: FaucetRequestDto) -> PortFuture<'_, TransactionId>;

    /// Runs an inference paid by a development account and waits for its end.
    fn infer(&self, request: DevelopmentInferDto) -> PortFuture<'_, InferenceDto>;
}
