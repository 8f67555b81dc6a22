//! Other nodes as a gateway reaches them, over their APIs: where it hears of the chain, and where what clients send goes on to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tg_api::{BlobSink, PortError, UploadEnd};
use tg_node::limits::MODEL_BYTES_MAX;
use tg_node::{BlobReader, BlobStore, ChainSource, PENDING_TIME, SourceError, SourceFuture};
use tg_sdk::{Client, ClientError, ONE_CALL_BYTES};
use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::chunks::ChunkTree;
use tg_types::{Digest, Fault, Heartbeat, SignedTransaction, SignedUpload, with_sources};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinSet;

/// Most bytes of a snapshot that is taken.
const SNAPSHOT_BYTES_MAX: usize = 2 << 30;

/// How long a blob may take to a node in one call.
const UPLOAD_MAX: Duration = Duration::from_secs(600);

/// How long a node may take for a small blob before another one is handed it too.
const STALLED: Duration = Duration::from_secs(2);

/// What each MiB adds: 4 MiB a second.
const SLOWEST_MIB: Duration = Duration::from_millis(250);

/// Chunks of a blob that are asked for at once. On a machine with other work one at a time is half as fast: each waits for the
/// processor some times on its way.
const CHUNKS_AHEAD: u64 = 3;

/// Pieces of a blob that are read ahead.
const PIECES_AHEAD: usize = 4;

/// A node behind its API.
#[derive(Debug)]
pub(crate) struct HttpSource {
    client: Client,
}

impl HttpSource {
    /// The node at `url`. Nothing is sent yet.
    pub(crate) fn new(url: &str) -> Result<Self, ClientError> {
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
        error => SourceError::Unreachable(with_sources(error)),
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
            let chunks = tree.chunks();
            let local =
                |error: &dyn std::error::Error| SourceError::Unreachable(with_sources(error));
            // It reads what came before.
            let begun = tokio::task::spawn_blocking(move || store.resume(&digest, tree, limit));
            let begun = begun.await.map_err(|error| local(&error))?;
            let mut partial = begun.map_err(|error| local(&error))?;
            // Some chunks come while one is checked and written. Dropped, the calls are given up.
            let mut coming = JoinSet::new();
            let mut early = BTreeMap::new();
            let mut wanted = partial.next().unwrap_or(chunks);
            while let Some(index) = partial.next() {
                while wanted < chunks && wanted - index < CHUNKS_AHEAD {
                    let (client, next) = (self.client.clone(), wanted);
                    coming.spawn(async move { (next, client.chunk(digest, next).await) });
                    wanted += 1;
                }
                let Some(chunk) = early.remove(&index) else {
                    let came = coming.join_next().await;
                    let came = came.expect("the chunk is here or asked for");
                    let (came, chunk) = came.map_err(|error| local(&error))?;
                    early.insert(came, chunk.map_err(|error| source_error(&error))?);
                    continue;
                };
                let put = tokio::task::spawn_blocking(move || {
                    let is_kept = partial.put(&chunk);
                    (partial, is_kept)
                });
                let is_kept;
                (partial, is_kept) = put.await.map_err(|error| local(&error))?;
                if !is_kept.map_err(|error| local(&error))? {
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

/// How long a blob that came in chunks and was handed on is not handed on again: below the time for which nodes keep one that nothing
/// names.
const HANDED_FOR: Duration = Duration::from_secs(300);

/// Blobs of which that is known. More are handed on in that time only at 14 MiB a second.
const HANDED_MAX: usize = 4_096;

/// How long one that only a record asks for is not handed on again: for as long as nodes keep one that nothing names.
const NAMED_FOR: Duration = Duration::from_millis(PENDING_TIME.get());

/// How long it is not after too few nodes took it.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// For whom a blob is handed on that came in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOnFor {
    /// Whoever sent its bytes, or has money that lies still for it.
    Sender,
    /// Whoever has a record that names it, and pays nothing for the call.
    Record,
}

/// What became of a blob that was to be handed on.
#[derive(Debug, Clone, Copy, Default)]
enum HandOnEnd {
    /// It was not, or that is forgotten.
    #[default]
    Unknown,
    /// Enough nodes took it.
    Taken(Instant),
    /// Too few did.
    Failed(Instant),
}

impl HandOnEnd {
    /// Whether it is handed on now.
    fn is_due(self, whose: HandOnFor) -> Result<bool, PortError> {
        match (self, whose) {
            (Self::Taken(at), HandOnFor::Sender) => Ok(at.elapsed() >= HANDED_FOR),
            // Nodes keep it for so long whether a record names it or not, and for longer if it was named by then.
            (Self::Taken(at), HandOnFor::Record) => Ok(at.elapsed() >= NAMED_FOR),
            // Stops: whoever has what no node takes sent to them again and again, in calls of a kilobyte.
            (Self::Failed(at), HandOnFor::Record) if at.elapsed() < FAILED_FOR => {
                let seconds = at.elapsed().as_secs();
                Err(too_few(format!(
                    "too few nodes took the blob {seconds} s ago"
                )))
            }
            (Self::Unknown | Self::Failed(_), _) => Ok(true),
        }
    }
}

/// The refusal of a blob that too few nodes took.
fn too_few(message: String) -> PortError {
    PortError {
        fault: Fault::Environment,
        code: "TG-GATE-001".to_owned(),
        message,
        hint: "try again; the gateway's sources may be away".to_owned(),
    }
}

/// What became of a blob; held locked while it is handed on.
type HandedOn = Arc<AsyncMutex<HandOnEnd>>;

/// The nodes to which a gateway hands on what its clients store.
#[derive(Debug)]
pub(crate) struct Uplinks {
    clients: Vec<Client>,
    /// Blobs that came in chunks and were handed on lately.
    handed: Mutex<BTreeMap<Digest, HandedOn>>,
    /// How many must take a blob, so that one of them is honest: one more than may fail, or all if there are fewer.
    enough: usize,
}

impl Uplinks {
    /// Those sources, in a network of so many validators.
    pub(super) fn new(sources: &[HttpSource], validators: usize) -> Self {
        Self {
            clients: sources.iter().map(|it| it.client.clone()).collect(),
            handed: Mutex::default(),
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

    /// Hands a stored blob that came in chunks to as many nodes as it takes, unless that was done lately or is being done; what only a record
    /// asks for less often, and not a moment after it failed.
    ///
    /// Stops: a client that has this gateway send a large blob as often as it says, in a call of some kilobytes, that it has its chunks.
    pub(crate) async fn hand_on(
        &self,
        store: &Arc<BlobStore>,
        permit: &SignedUpload,
        whose: HandOnFor,
    ) -> Result<(), PortError> {
        let turn = self.handed_on(permit.permit.digest);
        let mut end = turn.lock().await;
        if !end.is_due(whose)? {
            return Ok(());
        }
        let spread = self.spread_to_enough(store, permit).await;
        *end = match spread {
            Ok(()) => HandOnEnd::Taken(Instant::now()),
            Err(_) => HandOnEnd::Failed(Instant::now()),
        };
        spread
    }

    fn handed_on(&self, digest: Digest) -> HandedOn {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are being handed on stay: as many as the server takes uploads.
        let is_going = |it: &HandedOn| Arc::strong_count(it) > 1;
        if handed.len() >= HANDED_MAX {
            // Stops: whoever has one blob more sent on than are known, so that all others are sent again.
            handed.retain(|_, it| is_going(it) || was_handed_on(it));
        }
        if handed.len() >= HANDED_MAX {
            handed.retain(|_, it| is_going(it));
        }
        Arc::clone(handed.entry(digest).or_default())
    }

    /// Hands a stored blob to as many nodes as it takes. Called beside the event loop.
    fn forward(&self, store: &Arc<BlobStore>, permit: &SignedUpload) -> Result<(), PortError> {
        Handle::current().block_on(self.spread_to_enough(store, permit))
    }

    async fn spread_to_enough(
        &self,
        store: &Arc<BlobStore>,
        permit: &SignedUpload,
    ) -> Result<(), PortError> {
        let (taken, reasons) = self.spread(store, permit).await;
        if taken == self.enough {
            return Ok(());
        }
        Err(too_few(format!(
            "{taken} of {} nodes that must hold the blob took it: {}",
            self.enough,
            reasons.join("; ")
        )))
    }

    /// Hands a blob to the first nodes, and to the next one for each that refuses it or takes too long: a node that is cut off
    /// says nothing, and whoever waits for it loses what a late result costs. Gives how many took it, and why others did not.
    async fn spread(&self, store: &Arc<BlobStore>, permit: &SignedUpload) -> (usize, Vec<String>) {
        let blob = match ForwardedBlob::of(store, permit).await {
            Ok(blob) => blob,
            Err(reason) => return (0, vec![reason]),
        };
        let patience =
            STALLED + SLOWEST_MIB * u32::try_from(permit.permit.length >> 20).unwrap_or(u32::MAX);
        let mut rest = self.clients.iter();
        // Those that are left in the end are given up.
        let mut calls = JoinSet::new();
        let start = |calls: &mut JoinSet<_>, client: &Client| {
            calls.spawn(forward_to(client.clone(), blob.clone()));
        };
        let (mut taken, mut reasons) = (0, Vec::new());
        for client in rest.by_ref().take(self.enough) {
            start(&mut calls, client);
        }
        while taken < self.enough {
            match tokio::time::timeout(patience, calls.join_next()).await {
                Ok(None) => break,
                Ok(Some(Ok(Ok(())))) => {
                    taken += 1;
                    continue;
                }
                Ok(Some(Ok(Err(reason)))) => reasons.push(reason),
                Ok(Some(Err(error))) => reasons.push(with_sources(&error)),
                Err(_) if rest.len() == 0 && calls.is_empty() => break,
                Err(_) => {}
            }
            if let Some(client) = rest.next() {
                start(&mut calls, client);
            }
        }
        (taken, reasons)
    }
}

/// Whether a blob was handed on lately, or is being now.
fn was_handed_on(turn: &HandedOn) -> bool {
    let Ok(end) = turn.try_lock() else {
        return true;
    };
    matches!(*end, HandOnEnd::Taken(at) if at.elapsed() < HANDED_FOR)
}

/// A stored blob on its way to other nodes.
#[derive(Debug, Clone)]
struct ForwardedBlob {
    store: Arc<BlobStore>,
    permit: SignedUpload,
    /// Its chunks; nothing if it goes in one call.
    tree: Option<ChunkTree>,
}

impl ForwardedBlob {
    /// The blob of a permit. Of a large one the whole is read and hashed once, for all nodes that it goes to.
    async fn of(store: &Arc<BlobStore>, permit: &SignedUpload) -> Result<Self, String> {
        let mut tree = None;
        if permit.permit.length > ONE_CALL_BYTES {
            let (store, digest) = (Arc::clone(store), permit.permit.digest);
            let read =
                tokio::task::spawn_blocking(move || store.chunk_tree(&digest, MODEL_BYTES_MAX));
            let read = read.await.map_err(|error| with_sources(&error))?;
            let read = read.map_err(|error| with_sources(&error))?;
            tree = Some(read.ok_or("it is gone")?);
        }
        Ok(Self {
            store: Arc::clone(store),
            permit: *permit,
            tree,
        })
    }
}

/// Hands a blob to one node: a large one in chunks, of which the node checks each and says which is missing next. A link that breaks, or
/// either node that starts again, costs no chunk that the node took before; for how long it keeps them is [`tg_node::PENDING_TIME`].
async fn forward_to(client: Client, blob: ForwardedBlob) -> Result<(), String> {
    let ForwardedBlob {
        store,
        permit,
        tree,
    } = blob;
    let told = |reason: String| format!("{}: {reason}", client.url());
    if let Some(tree) = tree {
        let digest = permit.permit.digest;
        let chunk = |index| chunk_of(Arc::clone(&store), digest, index);
        let sent = client.put_permitted_chunks(&permit, tree, chunk).await;
        if sent.map_err(|error| told(with_sources(&error)))? {
            return Ok(());
        }
    }
    let whole = forward_whole(client.clone().with_time_limit(UPLOAD_MAX), store, permit);
    whole.await.map_err(told)
}

/// Reads a chunk beside the event loop.
async fn chunk_of(
    store: Arc<BlobStore>,
    digest: Digest,
    index: u64,
) -> Result<Vec<u8>, ClientError> {
    let failed = move |source| ClientError::ChunkNotRead {
        digest,
        index,
        source,
    };
    let read = tokio::task::spawn_blocking(move || store.chunk(&digest, index));
    let read = read.await.map_err(|error| failed(error.into()))?;
    let chunk = read.map_err(|error| failed(error.into()))?;
    chunk.ok_or_else(|| failed("the blob is gone".into()))
}

/// Hands a blob to one node in one call.
async fn forward_whole(
    client: Client,
    store: Arc<BlobStore>,
    permit: SignedUpload,
) -> Result<(), String> {
    let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
    let read = tokio::task::spawn_blocking(move || {
        let reader = store.reader(&permit.permit.digest, MODEL_BYTES_MAX);
        let reader = reader.map_err(|error| with_sources(&error))?;
        let mut reader: BlobReader = reader.ok_or("it is gone")?;
        loop {
            let piece = reader.next_piece().map_err(|error| with_sources(&error))?;
            // A call that ended takes nothing more, and says why itself.
            if piece.is_empty() || sender.blocking_send(piece).is_err() {
                return Ok(());
            }
        }
    });
    let stored = client.put_permitted(&permit, pieces).await;
    // Why it could not be read says more than that too little came.
    let read: Result<(), String> = read.await.map_err(|error| with_sources(&error))?;
    read?;
    stored.map(drop).map_err(|error| with_sources(&error))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::VecDeque;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::PathBuf;

    use tg_ledger::development_domain;
    use tg_node::{Allowance, PendingBlob, UploadProgress};
    use tg_types::chunks::CHUNK_BYTES;
    use tg_types::{Address, Decode as _, TimestampMs, UploadPermit, Wallet};

    use super::*;

    /// What is done to a call that brings a chunk.
    #[derive(Debug, Clone, Copy)]
    enum LinkFault {
        /// It does not come.
        Cut,
        /// It does not come, and the node starts again.
        Restarted,
        /// A bit of it is another one.
        Flipped,
        /// The node refuses it, for good.
        Refused,
        /// Its permit has ended when it comes.
        PermitEnded,
    }

    /// A node that takes blobs in chunks.
    struct ChunkNode {
        folder: PathBuf,
        store: Arc<BlobStore>,
        /// What is done to which chunks, one after the other.
        faults: VecDeque<(u64, LinkFault)>,
        /// The chunks that were sent to it.
        sent: Vec<u64>,
        /// The time of its ledger.
        now: TimestampMs,
    }

    fn opened(folder: &std::path::Path) -> Arc<BlobStore> {
        Arc::new(BlobStore::open(folder, 64 << 20).unwrap())
    }

    impl ChunkNode {
        /// Answers a call with a status and a text, or breaks it off.
        fn answer(
            &mut self,
            permit: UploadPermit,
            path: &str,
            mut body: Vec<u8>,
        ) -> Option<(u16, String)> {
            if permit.expires < self.now {
                return Some((401, refusal("TG-API-009")));
            }
            let blob = PendingBlob {
                digest: permit.digest,
                size: permit.length,
                owner: Address::new([1; 20]),
                expires: permit.expires,
            };
            let progress = match path.rsplit_once("/chunks/") {
                Some((_, index)) => {
                    let index = index.parse().unwrap();
                    self.sent.push(index);
                    match self.faults.pop_front_if(|(chunk, _)| *chunk == index) {
                        Some((_, LinkFault::Cut)) => return None,
                        Some((_, LinkFault::Restarted)) => {
                            self.store = opened(&self.folder);
                            return None;
                        }
                        Some((_, LinkFault::Flipped)) => body[9] ^= 1,
                        Some((_, LinkFault::Refused)) => return Some((422, refusal("TEST-1"))),
                        Some((_, LinkFault::PermitEnded)) => {
                            self.now = TimestampMs::new(permit.expires.get() + 1);
                            return Some((401, refusal("TG-API-009")));
                        }
                        None => {}
                    }
                    let store = &self.store;
                    store.put_upload_chunk(&blob.digest, index, &body, blob.expires)
                }
                None => {
                    assert!(path.ends_with("/chunks"), "{path}: the whole is not sent");
                    let tree = ChunkTree::from_bytes(&body).unwrap();
                    let allowance = Allowance {
                        balance: 64 << 20,
                        leases: 0,
                    };
                    self.store
                        .begin_upload(&blob, allowance, tree, MODEL_BYTES_MAX)
                }
            };
            let PendingBlob { digest, size, .. } = blob;
            Some(match progress {
                Ok(UploadProgress::Missing(next)) => {
                    let text = format!(r#"{{"digest":"{digest}","size":{size},"next":{next}}}"#);
                    (200, text)
                }
                Ok(UploadProgress::Whole(_)) => {
                    (201, format!(r#"{{"digest":"{digest}","size":{size}}}"#))
                }
                Err(error) if error.code() == "TG-NODE-032" => (404, refusal(error.code())),
                Err(error) => (400, refusal(error.code())),
            })
        }
    }

    fn refusal(code: &str) -> String {
        format!(r#"{{"code":"{code}","message":"it is not taken"}}"#)
    }

    /// A call that stores a blob.
    struct HeardUpload {
        path: String,
        permit: UploadPermit,
        body: Vec<u8>,
    }

    /// A call; nothing of a connection without one.
    fn heard(stream: &mut TcpStream) -> Option<HeardUpload> {
        let mut heard: Vec<u8> = Vec::new();
        let mut buffer = [0; 4096];
        let end = loop {
            let end = heard.windows(4).position(|it| it == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
            let count = stream.read(&mut buffer).unwrap();
            if count == 0 {
                return None;
            }
            heard.extend_from_slice(&buffer[..count]);
        };
        let mut body = heard.split_off(end);
        let head = String::from_utf8(heard).unwrap();
        let header = |name: &str| head.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        let came = body.len();
        body.resize(header("content-length: ").parse().unwrap(), 0);
        stream.read_exact(&mut body[came..]).unwrap();
        let signed = SignedUpload::from_hex(header("tg-upload: ")).unwrap();
        Some(HeardUpload {
            path: head.split(' ').nth(1).unwrap().to_owned(),
            permit: signed.permit,
            body,
        })
    }

    fn said(stream: &mut TcpStream, status: u16, body: &str) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\n");
        let kind = "content-type: application/json\r\nconnection: close\r\n\r\n";
        stream
            .write_all([&head, kind, body].concat().as_bytes())
            .unwrap();
    }

    /// The address of a node that takes blobs in chunks.
    fn chunk_node(node: &Arc<Mutex<ChunkNode>>) -> HttpSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let node = Arc::clone(node);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(HeardUpload { path, permit, body }) = heard(&mut stream) else {
                    continue;
                };
                let answer = node.lock().unwrap().answer(permit, &path, body);
                if let Some((status, text)) = answer {
                    said(&mut stream, status, &text);
                }
            }
        });
        HttpSource::new(&url).unwrap()
    }

    /// A blob of six chunks, the last of some bytes.
    fn large_blob() -> Vec<u8> {
        let size = 5 * usize::try_from(CHUNK_BYTES).unwrap() + 9;
        (0..size).map(|at| (at / 7 % 253) as u8).collect()
    }

    /// A gateway's store with a large blob, its permit, and a node with those faults, whose folder is beside it.
    struct Hop {
        folder: tempfile::TempDir,
        store: Arc<BlobStore>,
        permit: SignedUpload,
        node: Arc<Mutex<ChunkNode>>,
    }

    impl Hop {
        fn new(faults: &[(u64, LinkFault)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = opened(&folder.path().join("gateway"));
            let bytes = large_blob();
            let digest = store.put(&bytes, MODEL_BYTES_MAX).unwrap();
            let other = folder.path().join("node");
            let node = ChunkNode {
                store: opened(&other),
                folder: other,
                faults: faults.iter().copied().collect(),
                sent: Vec::new(),
                now: TimestampMs::ZERO,
            };
            Self {
                folder,
                store,
                permit: permit(digest, bytes.len()),
                node: Arc::new(Mutex::new(node)),
            }
        }

        /// Starts the gateway again.
        fn restart(&mut self) {
            self.store = opened(&self.folder.path().join("gateway"));
        }

        /// Hands the blob on as a gateway does that has just started.
        async fn hand_on(&self) -> Result<(), PortError> {
            let node = chunk_node(&self.node);
            let uplinks = Uplinks::new(&[node], 1);
            let sender = HandOnFor::Sender;
            uplinks.hand_on(&self.store, &self.permit, sender).await
        }

        /// The chunks that were sent, once all of the blob is there.
        fn sent(&self) -> Vec<u64> {
            let node = self.node.lock().unwrap();
            let digest = self.permit.permit.digest;
            let held = node.store.get(&digest, MODEL_BYTES_MAX).unwrap();
            assert!(held.unwrap() == large_blob());
            assert!(node.faults.is_empty(), "{:?}", node.faults);
            node.sent.clone()
        }
    }

    /// A link that was cut in the middle of a blob had the whole of it sent again.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_blob_goes_on_after_a_cut_and_after_a_restart_of_either_node() {
        let mut hop = Hop::new(&[
            (2, LinkFault::Cut),
            (3, LinkFault::Refused),
            (4, LinkFault::Restarted),
        ]);
        let error = hop.hand_on().await.unwrap_err();
        assert!(error.message.contains("TEST-1"), "{error}");
        hop.restart();
        hop.hand_on().await.unwrap();
        // None that the node took was sent again.
        assert_eq!(hop.sent(), [0, 1, 2, 2, 3, 3, 4, 4, 5]);
    }

    /// A gateway cannot sign another one; the next call of its client brings it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_permit_that_ends_on_the_way_costs_no_chunk_that_was_taken() {
        let mut hop = Hop::new(&[(3, LinkFault::PermitEnded)]);
        for _ in 0..2 {
            let error = hop.hand_on().await.unwrap_err();
            assert!(error.message.contains("TG-API-009"), "{error}");
        }
        let digest = hop.permit.permit.digest;
        hop.permit = permit_until(digest, large_blob().len(), TimestampMs::new(9));
        hop.hand_on().await.unwrap();
        assert_eq!(hop.sent(), [0, 1, 2, 3, 3, 4, 5]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_flipped_bit_is_refused_at_its_chunk() {
        let hop = Hop::new(&[(2, LinkFault::Flipped)]);
        let error = hop.hand_on().await.unwrap_err();
        assert!(error.message.contains("TG-NODE-031"), "{error}");
        hop.hand_on().await.unwrap();
        assert_eq!(hop.sent(), [0, 1, 2, 2, 3, 4, 5]);
    }

    /// The address of a node that takes a blob in one call, or of one that hears and says nothing.
    fn node(permit: &SignedUpload, answers: bool) -> HttpSource {
        let UploadPermit { digest, length, .. } = permit.permit;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if !answers {
                    held.push(stream);
                } else if heard(&mut stream).is_some() {
                    let body = format!(r#"{{"digest":"{digest}","size":{length}}}"#);
                    said(&mut stream, 200, &body);
                }
            }
        });
        HttpSource::new(&url).unwrap()
    }

    /// A client's permit for a blob.
    fn permit(digest: Digest, length: usize) -> SignedUpload {
        permit_until(digest, length, TimestampMs::new(1))
    }

    fn permit_until(digest: Digest, length: usize, expires: TimestampMs) -> SignedUpload {
        let permit = UploadPermit {
            digest,
            length: length as u64,
            expires,
        };
        let wallet = Wallet::from_seed(b"a client");
        SignedUpload::new(permit, &wallet, &development_domain())
    }

    /// A gateway's store with a small blob, and its permit.
    fn small_blob() -> (tempfile::TempDir, Arc<BlobStore>, SignedUpload) {
        let folder = tempfile::tempdir().unwrap();
        let store = opened(folder.path());
        let bytes = b"a proof";
        let digest = store.put(bytes, 100).unwrap();
        (folder, store, permit(digest, bytes.len()))
    }

    /// It was handed to one node after the other, each with ten minutes.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_node_that_says_nothing_does_not_hold_up_a_blob() {
        let (_folder, store, permit) = small_blob();
        let spread = |answering: &[bool]| {
            let nodes: Vec<HttpSource> = answering.iter().map(|it| node(&permit, *it)).collect();
            let uplinks = Uplinks::new(&nodes, 4);
            let store = Arc::clone(&store);
            async move { uplinks.spread(&store, &permit).await.0 }
        };
        let since = Instant::now();
        assert_eq!(spread(&[true, false, true, true]).await, 2);
        assert_eq!(spread(&[false, false, true, true]).await, 2);
        assert!(since.elapsed() < 10 * STALLED, "{:?}", since.elapsed());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_blob_in_chunks_is_handed_on_once() {
        let (_folder, store, permit) = small_blob();
        let uplinks = Uplinks::new(&[node(&permit, true)], 1);
        let sender = HandOnFor::Sender;
        for _ in 0..2 {
            uplinks.hand_on(&store, &permit, sender).await.unwrap();
        }
        // From a store that does not have it, it cannot be sent again.
        let empty = tempfile::tempdir().unwrap();
        let empty = opened(empty.path());
        uplinks.hand_on(&empty, &permit, sender).await.unwrap();
        // One that failed is tried again.
        let nobody = Uplinks::new(&[HttpSource::new("http://127.0.0.1:1").unwrap()], 1);
        for _ in 0..2 {
            let error = nobody.hand_on(&store, &permit, sender).await.unwrap_err();
            assert_eq!(error.code, "TG-GATE-001");
        }
    }

    /// Once a record named what had failed, and nothing counted for it, it was handed on for nobody.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_failed_is_handed_on_for_a_record_in_its_time_and_what_was_taken_is_not() {
        let (_folder, store, permit) = small_blob();
        let uplinks = Uplinks::new(&[node(&permit, true)], 1);
        let end = uplinks.handed_on(permit.permit.digest);
        let ago = |span: Duration| Instant::now().checked_sub(span).unwrap();
        let record = HandOnFor::Record;
        let sender = HandOnFor::Sender;
        *end.lock().await = HandOnEnd::Failed(Instant::now());
        let error = uplinks.hand_on(&store, &permit, record).await.unwrap_err();
        assert_eq!(error.code, "TG-GATE-001");
        // Who pays for it does not wait.
        uplinks.hand_on(&store, &permit, sender).await.unwrap();
        *end.lock().await = HandOnEnd::Failed(ago(FAILED_FOR));
        uplinks.hand_on(&store, &permit, record).await.unwrap();
        let is_taken = matches!(*end.lock().await, HandOnEnd::Taken(_));
        assert!(is_taken);
        for (span, whose) in [(HANDED_FOR, sender), (NAMED_FOR, record)] {
            let taken = |span| HandOnEnd::Taken(ago(span)).is_due(whose).unwrap();
            assert!(taken(span) && !taken(span / 2), "{whose:?}");
        }
    }

    /// One more than are known had all of them forgotten.
    #[tokio::test]
    async fn what_was_handed_on_lately_is_not_forgotten_for_another_one() {
        let uplinks = Uplinks::new(&[], 1);
        let name = |number: usize| Digest::of_blob(&number.to_le_bytes());
        for number in 0..HANDED_MAX {
            // The last of them failed.
            let end = match number + 1 < HANDED_MAX {
                true => HandOnEnd::Taken(Instant::now()),
                false => HandOnEnd::Failed(Instant::now()),
            };
            *uplinks.handed_on(name(number)).lock().await = end;
        }
        drop(uplinks.handed_on(name(HANDED_MAX)));
        let known = |number| uplinks.handed.lock().unwrap().contains_key(&name(number));
        assert!((0..HANDED_MAX - 1).all(known));
        assert!(!known(HANDED_MAX - 1));
        // There is an end to it.
        let taken = HandOnEnd::Taken(Instant::now());
        *uplinks.handed_on(name(HANDED_MAX)).lock().await = taken;
        drop(uplinks.handed_on(name(HANDED_MAX + 1)));
        assert_eq!(uplinks.handed.lock().unwrap().len(), 1);
    }
}
