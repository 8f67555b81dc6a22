//! What a node has to offer, for the API to serve it. The composition root implements it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tg_ledger::{Event, State};
use tg_sdk::dto::{
    DevelopmentAccountDto, DevelopmentEndpointDto, DevelopmentInferDto, FaucetRequestDto,
    InferenceDto, JobDto,
};
use tg_types::chain::{ChainPage, CheckpointBlock, FinalityProof, SeatChanges, SnapshotHead};
use tg_types::chunks::ChunkTree;
use tg_types::{
    Address, Amount, Digest, Fault, Heartbeat, JobId, NonceLane, SignedTransaction, SignedUpload,
    TimestampMs, TransactionId,
};
use tokio::sync::mpsc;

use crate::openai::port::OpenAiPort;

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

/// What an account may have stored that no record of the ledger names, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UploadAllowance {
    /// For its balance.
    pub balance: u64,
    /// For its live leases: the evidence and output that it owes.
    pub leases: u64,
}

/// A final state with what shows that it is final.
#[derive(Debug, Clone)]
pub struct ShownState {
    /// The state.
    pub state: Arc<State>,
    /// What shows that the block whose state it is is final.
    pub proof: FinalityProof,
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

/// A blob on its way out. Its methods read from a disk: the API calls them beside its event loop.
pub trait BlobSource: Send + 'static {
    /// Size of the whole in bytes.
    fn size(&self) -> u64;

    /// The next piece, empty after the last one. A damaged blob fails before its last piece, and is missing then.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    fn next_piece(&mut self) -> Result<Vec<u8>, PortError>;
}

/// A blob on its way in. Its methods write to a disk: the API calls them beside its event loop. Dropping it forgets
/// what came.
pub trait BlobSink: Send + 'static {
    /// Takes the next piece.
    ///
    /// # Errors
    /// If more comes than was announced, or it cannot be written.
    fn write(&mut self, piece: &[u8]) -> Result<(), PortError>;

    /// Holds the blob if it has its name. Damaged bytes of that name are replaced.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    fn finish(self: Box<Self>) -> Result<UploadEnd, PortError>;
}

/// What became of a blob that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadEnd {
    /// It is new, or replaced a damaged one.
    New,
    /// It was held already.
    Held,
    /// Its bytes have this digest, which is not its name: nothing was stored.
    Refused(Digest),
}

/// Where an upload in chunks stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkOutcome {
    /// The chunk with this number is missing next.
    Missing(u64),
    /// All chunks are here, and the blob is stored.
    New,
    /// It was held already.
    Held,
    /// The bytes are not the chunk: nothing of them was kept.
    Wrong,
    /// No upload of the blob is open.
    NotOpen,
}

/// A blob that an account wants stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    /// The blob.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The account that signed for it.
    pub owner: Address,
    /// What the account may have stored that no record of the ledger names.
    pub allowance: UploadAllowance,
    /// The time of the ledger.
    pub now: TimestampMs,
    /// What the account signed.
    pub permit: SignedUpload,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionFate {
    /// It waits for a block.
    Pending,
    /// It is in a final block of this height.
    Final(u64),
    /// It left the pool without a block, and why.
    Dropped(String),
}

/// A node, as the API sees it.
pub trait GridPort: Send + Sync + 'static {
    /// Name of the network.
    fn network(&self) -> &str;

    /// The ledger after the last finalised block.
    fn state(&self) -> Arc<State>;

    /// The newest state that can be shown to be final; nothing before the first block.
    fn shown_state(&self) -> PortFuture<'_, Option<ShownState>>;

    /// Final blocks from a height on, with what shows them; with none there, it waits for one for `wait` at most and then gives a
    /// page without blocks. Nothing if this node does not have what shows them.
    fn chain_page(&self, from: u64, wait: Duration) -> PortFuture<'_, Option<ChainPage>>;

    /// Where validators are reached, by consensus key, as far as this node's own settings or the ledger say.
    fn seat_endpoints(&self) -> BTreeMap<[u8; 32], String> {
        BTreeMap::new()
    }

    /// Changes of the set of validators above a height, ascending, with what shows them; as many as fit an answer.
    fn seat_changes(&self, above: u64) -> PortFuture<'_, SeatChanges>;

    /// The final block of a height, or the newest, with the validators after it; nothing if one of the two is not here.
    fn checkpoint(&self, height: Option<u64>) -> PortFuture<'_, Option<CheckpointBlock>>;

    /// The certificate by which a view of a consensus epoch was skipped; nothing if it was not, or this node has no such.
    fn skipped_view(&self, _round: (u64, u64)) -> PortFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(None) })
    }

    /// A state for a follower to begin at, with its bytes; nothing before the first one.
    fn chain_snapshot(&self) -> PortFuture<'_, Option<(SnapshotHead, Vec<u8>)>>;

    /// The nonce of the next transaction of an account or a session key, those that wait in the pool counted.
    fn next_nonce(&self, lane: &NonceLane) -> u64;

    /// Notes that a provider is there, and tells the validators. One that is not newer than the last does nothing.
    ///
    /// # Errors
    /// [`PortError`] says why it is not taken.
    fn heartbeat(&self, heartbeat: Heartbeat) -> Result<(), PortError>;

    /// Takes a transaction into the pool. Taking the same one again succeeds.
    fn submit(&self, transaction: SignedTransaction) -> PortFuture<'_, TransactionId>;

    /// Events of finalised blocks from now on. The channel is closed when the listener lags too far or the node
    /// stops.
    fn subscribe(&self) -> mpsc::Receiver<FinalizedEvents>;

    /// What became of a transaction that this node saw lately; nothing if it remembers none of that id.
    fn transaction(&self, id: TransactionId) -> Option<TransactionFate>;

    /// Makes room for a blob that arrives. Storing the same one again succeeds.
    fn store_blob(&self, upload: Upload) -> PortFuture<'_, Box<dyn BlobSink>>;

    /// Begins an upload in chunks, or tells where it stands. The tree is the blob's, and its size the upload's.
    fn begin_upload(&self, upload: Upload, tree: ChunkTree) -> PortFuture<'_, ChunkOutcome>;

    /// Takes a chunk of an upload that was begun. One that is not missing next is not looked at.
    fn put_chunk(&self, upload: Upload, index: u64, bytes: Vec<u8>)
    -> PortFuture<'_, ChunkOutcome>;

    /// A blob, or nothing if it is not held.
    fn blob(&self, digest: Digest) -> PortFuture<'_, Option<Box<dyn BlobSource>>>;

    /// Looks for a blob that is not held, for some seconds; whether it is held then.
    fn find_blob(&self, digest: Digest) -> PortFuture<'_, bool>;

    /// The chunks of a blob, or nothing if it is not held.
    fn chunk_tree(&self, digest: Digest) -> PortFuture<'_, Option<Arc<ChunkTree>>>;

    /// The bytes of one chunk, which whoever asked checks; nothing if the blob is not held or has no such chunk.
    fn chunk(&self, digest: Digest, index: u64) -> PortFuture<'_, Option<Vec<u8>>>;

    /// Sixteen bytes that nobody can guess.
    ///
    /// # Errors
    /// If the system gives none.
    fn random(&self) -> Result<[u8; 16], PortError>;

    /// What only a development network offers.
    fn development(&self) -> Option<&dyn DevelopmentPort>;

    /// Who orders for the callers of the OpenAI routes; nothing if this node orders for nobody.
    fn openai(&self) -> Option<&dyn OpenAiPort> {
        None
    }
}

/// What only a network labelled development offers: play money, and signing on behalf of clients.
pub trait DevelopmentPort: Send + Sync {
    /// The funded accounts, whose keys follow from their names.
    fn accounts(&self) -> Vec<DevelopmentAccountDto>;

    /// Sends play money from the faucet's account.
    fn faucet(&self, request: FaucetRequestDto) -> PortFuture<'_, TransactionId>;

    /// Runs an inference paid by a development account and waits for its end.
    fn infer(&self, request: DevelopmentInferDto) -> PortFuture<'_, InferenceDto>;

    /// Orders an endpoint paid by a development account, and waits until a block has the order.
    fn open_endpoint(&self, request: DevelopmentEndpointDto) -> PortFuture<'_, JobDto>;

    /// Locks more money for an endpoint of a development account, and waits until a block has it.
    fn top_up_endpoint(&self, job: JobId, money: Amount) -> PortFuture<'_, JobDto>;

    /// Ends an endpoint of a development account, and waits until a block has that.
    fn close_endpoint(&self, job: JobId) -> PortFuture<'_, JobDto>;
}
