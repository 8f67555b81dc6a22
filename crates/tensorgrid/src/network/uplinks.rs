//! Other nodes as a gateway reaches them, over their APIs: where it hears of the chain, and where what clients send goes on to.

use std::sync::Arc;
use std::time::Duration;

use tg_api::{BlobSink, PortError, UploadEnd};
use tg_node::limits::MODEL_BYTES_MAX;
use tg_node::{BlobReader, BlobStore, ChainSource, SourceError, SourceFuture};
use tg_sdk::{Client, ClientError};
use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::{Digest, Fault, Heartbeat, SignedTransaction, SignedUpload};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::grid::blob::chain;

/// Most bytes of a snapshot that is taken.
const SNAPSHOT_BYTES_MAX: usize = 2 << 30;

/// How long a blob may take to a node.
const UPLOAD_MAX: Duration = Duration::from_secs(600);

/// Pieces of a blob that are read ahead.
const PIECES_AHEAD: usize = 4;

/// A node behind its API.
#[derive(Debug)]
pub(crate) struct HttpSource {
    client: Client,
}

impl HttpSource {
    /// The node at `url`. Nothing is sent yet.
    pub(super) fn new(url: &str) -> Result<Self, ClientError> {
        let client = Client::new(url)?;
        Ok(Self { client })
    }
}

fn source_error(error: &ClientError) -> SourceError {
    match error {
        ClientError::Refused { body, .. } => SourceError::Refused {
            code: body.code.clone(),
            message: body.message.clone(),
        },
        error => SourceError::Unreachable(chain(error)),
    }
}

impl ChainSource for HttpSource {
    fn name(&self) -> &str {
        self.client.url()
    }

    fn page(&self, from: u64, wait: Duration) -> SourceFuture<'_, ChainPage> {
        Box::pin(async move {
            let page = self.client.chain_page(from, wait).await;
            page.map_err(|error| source_error(&error))
        })
    }

    fn snapshot(&self) -> SourceFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
        Box::pin(async move {
            match self.client.chain_snapshot(SNAPSHOT_BYTES_MAX).await {
                Ok(snapshot) => Ok(Some(snapshot)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(source_error(&error)),
            }
        })
    }

    fn seat_changes(&self, above: u64) -> SourceFuture<'_, SeatChanges> {
        Box::pin(async move {
            let changes = self.client.seat_changes(above).await;
            changes.map_err(|error| source_error(&error))
        })
    }

    fn checkpoint(&self, height: u64) -> SourceFuture<'_, Option<CheckpointBlock>> {
        Box::pin(async move {
            match self.client.checkpoint_block(Some(height)).await {
                Ok(block) => Ok(Some(block)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(source_error(&error)),
            }
        })
    }

    fn submit(&self, signed: SignedTransaction) -> SourceFuture<'_, ()> {
        Box::pin(async move {
            let submitted = self.client.submit(&signed).await;
            submitted.map(drop).map_err(|error| source_error(&error))
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> SourceFuture<'_, ()> {
        Box::pin(async move {
            let told = self.client.heartbeat(&heartbeat).await;
            told.map_err(|error| source_error(&error))
        })
    }

    fn blob(&self, digest: Digest, limit: u64, store: Arc<BlobStore>) -> SourceFuture<'_, bool> {
        Box::pin(async move {
            let tree = match self.client.chunk_tree(digest).await {
                Ok(tree) => tree,
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(source_error(&error)),
            };
            let local = |error: &dyn std::error::Error| SourceError::Unreachable(chain(error));
            // It reads what came before.
            let begun = tokio::task::spawn_blocking(move || store.resume(&digest, tree, limit));
            let begun = begun.await.map_err(|error| local(&error))?;
            let mut partial = begun.map_err(|error| local(&error))?;
            while let Some(index) = partial.next() {
                let chunk = self.client.chunk(digest, index).await;
                let chunk = chunk.map_err(|error| source_error(&error))?;
                if !partial.put(&chunk).map_err(|error| local(&error))? {
                    let text = format!("chunk {index} of {digest} is not the one of its name");
                    return Err(SourceError::Unreachable(text));
                }
            }
            // It waits for the disk.
            let finished = tokio::task::spawn_blocking(move || partial.finish()).await;
            let finished = finished.map_err(|error| local(&error))?;
            finished.map(|_| true).map_err(|error| local(&error))
        })
    }
}

/// The nodes to which a gateway hands on what its clients store.
#[derive(Debug)]
pub(crate) struct Uplinks {
    clients: Vec<Client>,
    /// How many must take a blob, so that one of them is honest: one more than may fail, or all if there are fewer.
    enough: usize,
}

impl Uplinks {
    /// Those sources, in a network of so many validators.
    pub(super) fn new(sources: &[HttpSource], validators: usize) -> Self {
        let clients = sources.iter();
        let clients = clients.map(|it| it.client.clone().with_time_limit(UPLOAD_MAX));
        Self {
            clients: clients.collect(),
            enough: ((validators.max(1) - 1) / 3 + 1).min(sources.len()),
        }
    }

    /// A sink that hands a blob on when it is whole.
    pub(crate) fn forwarding(
        self: &Arc<Self>,
        sink: Box<dyn BlobSink>,
        store: Arc<BlobStore>,
        permit: SignedUpload,
    ) -> Box<dyn BlobSink> {
        Box::new(ForwardingSink {
            uplinks: Arc::clone(self),
            sink,
            store,
            permit,
        })
    }

    /// Hands a stored blob to as many nodes as it takes. Called beside the event loop.
    fn forward(&self, store: &Arc<BlobStore>, permit: &SignedUpload) -> Result<(), PortError> {
        let mut taken = 0;
        let mut reasons = Vec::new();
        for client in &self.clients {
            if taken == self.enough {
                break;
            }
            match forward_to(client, store, permit) {
                Ok(()) => taken += 1,
                Err(reason) => reasons.push(format!("{}: {reason}", client.url())),
            }
        }
        if taken == self.enough {
            return Ok(());
        }
        Err(PortError {
            fault: Fault::Environment,
            code: "TG-GATE-001".to_owned(),
            message: format!(
                "{taken} of {} nodes that must hold the blob took it: {}",
                self.enough,
                reasons.join("; ")
            ),
            hint: "try again; the gateway's sources may be away".to_owned(),
        })
    }
}

fn forward_to(
    client: &Client,
    store: &Arc<BlobStore>,
    permit: &SignedUpload,
) -> Result<(), String> {
    let reader = store.reader(&permit.permit.digest, MODEL_BYTES_MAX);
    let reader = reader.map_err(|error| chain(&error))?;
    let mut reader: BlobReader = reader.ok_or("it is gone")?;
    let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
    let (client, permit) = (client.clone(), *permit);
    let call = Handle::current().spawn(async move { client.put_permitted(&permit, pieces).await });
    loop {
        let piece = reader.next_piece().map_err(|error| chain(&error))?;
        // A call that ended takes nothing more, and says why below.
        if piece.is_empty() || sender.blocking_send(piece).is_err() {
            break;
        }
    }
    drop(sender);
    let ended = Handle::current().block_on(call);
    let stored = ended.map_err(|error| chain(&error))?;
    stored.map(drop).map_err(|error| chain(&error))
}

/// Keeps a blob here, then hands it on.
struct ForwardingSink {
    uplinks: Arc<Uplinks>,
    sink: Box<dyn BlobSink>,
    store: Arc<BlobStore>,
    permit: SignedUpload,
}

impl BlobSink for ForwardingSink {
    fn write(&mut self, piece: &[u8]) -> Result<(), PortError> {
        self.sink.write(piece)
    }

    fn finish(self: Box<Self>) -> Result<UploadEnd, PortError> {
        let Self {
            uplinks,
            sink,
            store,
            permit,
        } = *self;
        let end = sink.finish()?;
        if matches!(end, UploadEnd::New | UploadEnd::Held) {
            uplinks.forward(&store, &permit)?;
        }
        Ok(end)
    }
}
