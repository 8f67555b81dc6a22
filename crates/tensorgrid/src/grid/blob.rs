//! A validator's blob store as the API sees it, and the task that removes what no record names.

use std::sync::Arc;
use std::time::Duration;

use tg_api::{
    BlobSink, BlobSource, ChunkOutcome, PortError, PortFuture, Upload, UploadAllowance, UploadEnd,
    allowance, named_blobs,
};
use tg_node::limits::MODEL_BYTES_MAX;
use tg_node::{
    Allowance, BlobError, BlobReader, BlobStore, BlobWriter, NodeHandle, PENDING_TIME, PendingBlob,
    Stored, UploadProgress,
};
use tg_types::chunks::ChunkTree;
use tg_types::{Address, Digest, Fault, with_sources};

use crate::network::uplinks::HandOnFor;

/// How often blobs are looked through that no record may name any more.
const SWEEP: Duration = Duration::from_secs(10);

/// Opens a blob for reading, from the first store that has it: one that is missing beside this API may be beside another
/// validator.
pub(super) fn open(
    stores: Vec<Arc<BlobStore>>,
    digest: Digest,
) -> PortFuture<'static, Option<Box<dyn BlobSource>>> {
    Box::pin(async move {
        let opened = tokio::task::spawn_blocking(move || {
            let mut opened = Ok(None);
            for store in &stores {
                opened = store.reader(&digest, MODEL_BYTES_MAX);
                if matches!(opened, Ok(Some(_))) {
                    break;
                }
            }
            opened
        });
        let reader = opened.await.map_err(|error| stopped(&error))?;
        let reader = reader.map_err(|error| refused(&error))?;
        Ok(reader.map(|reader| Box::new(Source(reader)) as Box<dyn BlobSource>))
    })
}

/// The chunks of a blob, from the first store that has it; nothing if none does, or if it has too many.
pub(super) async fn chunk_tree(
    stores: Vec<Arc<BlobStore>>,
    digest: Digest,
) -> Result<Option<ChunkTree>, PortError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut tree = Ok(None);
        for store in &stores {
            tree = store.chunk_tree(&digest, MODEL_BYTES_MAX);
            if matches!(tree, Ok(Some(_))) {
                break;
            }
        }
        tree
    });
    let tree = read.await.map_err(|error| stopped(&error))?;
    tree.map_err(|error| refused(&error))
}

/// One chunk of a blob, from the first store that has it.
pub(super) fn chunk(
    stores: Vec<Arc<BlobStore>>,
    digest: Digest,
    index: u64,
) -> PortFuture<'static, Option<Vec<u8>>> {
    Box::pin(async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut stores = stores.iter().filter(|store| store.contains(&digest));
            stores.next().map(|store| store.chunk(&digest, index))
        });
        let chunk = read.await.map_err(|error| stopped(&error))?;
        chunk
            .transpose()
            .map(Option::flatten)
            .map_err(|error| refused(&error))
    })
}

/// What a blob is stored for.
#[derive(Debug, Clone, Copy)]
enum UploadBacking {
    /// Its owner's money, against which it counts.
    Money,
    /// A record of its owner that names it.
    Record,
}

/// Counts a blob against its owner and makes room for it. `is_named`, whether a record of its owner names it, is asked if it cannot pay.
pub(super) async fn store(
    store: Arc<BlobStore>,
    upload: Upload,
    is_named: impl Future<Output = bool>,
) -> Result<Box<dyn BlobSink>, PortError> {
    let mut sink = begun_sink(Arc::clone(&store), upload, UploadBacking::Money).await?;
    let is_refused = sink.as_ref().is_err_and(is_unpaid);
    if is_refused && is_named.await {
        sink = begun_sink(store, upload, UploadBacking::Record).await?;
    }
    let sink = sink.map_err(|error| refused(&error))?;
    Ok(Box::new(sink))
}

async fn begun_sink(
    store: Arc<BlobStore>,
    upload: Upload,
    backing: UploadBacking,
) -> Result<Result<Sink, BlobError>, PortError> {
    let begun = tokio::task::spawn_blocking(move || begin(&store, &upload, backing));
    begun.await.map_err(|error| stopped(&error))
}

/// Begins an upload in chunks, or tells where it stands. `is_named`, whether a record of its owner names it, is asked if it cannot pay.
pub(super) async fn begin_upload(
    store: Arc<BlobStore>,
    upload: Upload,
    tree: ChunkTree,
    is_named: impl Future<Output = bool>,
) -> Result<ChunkOutcome, PortError> {
    let money = UploadBacking::Money;
    let mut begun = begun_upload(Arc::clone(&store), upload, tree.clone(), money).await?;
    let is_refused = begun.as_ref().is_err_and(is_unpaid);
    if is_refused && is_named.await {
        begun = begun_upload(store, upload, tree, UploadBacking::Record).await?;
    }
    outcome(begun)
}

async fn begun_upload(
    store: Arc<BlobStore>,
    upload: Upload,
    tree: ChunkTree,
    backing: UploadBacking,
) -> Result<Result<UploadProgress, BlobError>, PortError> {
    let (blob, allowance) = (pending(&upload), in_node(upload.allowance));
    let begun = tokio::task::spawn_blocking(move || match backing {
        UploadBacking::Money => store.begin_upload(&blob, allowance, tree, MODEL_BYTES_MAX),
        UploadBacking::Record => store.begin_named_upload(&blob, tree, MODEL_BYTES_MAX),
    });
    begun.await.map_err(|error| stopped(&error))
}

/// Whether a blob was refused because nobody's money lies still for it.
const fn is_unpaid(error: &BlobError) -> bool {
    matches!(
        error,
        BlobError::AllowanceUsed { .. } | BlobError::PendingFull { .. }
    )
}

/// Takes a chunk of one.
pub(super) async fn put_chunk(
    store: Arc<BlobStore>,
    upload: Upload,
    index: u64,
    bytes: Vec<u8>,
) -> Result<ChunkOutcome, PortError> {
    let PendingBlob {
        digest, expires, ..
    } = pending(&upload);
    let put = tokio::task::spawn_blocking(move || {
        store.put_upload_chunk(&digest, index, &bytes, expires)
    });
    outcome(put.await.map_err(|error| stopped(&error))?)
}

/// For whom a blob that comes in chunks is handed on to other nodes, if it is whole. `is_named`, whether a record of who sends it names it, is
/// asked if nothing counts for what is held.
pub(super) async fn goes_on_for(
    store: Arc<BlobStore>,
    upload: &Upload,
    outcome: ChunkOutcome,
    is_named: impl Future<Output = bool>,
) -> Result<Option<HandOnFor>, PortError> {
    match outcome {
        ChunkOutcome::New => return Ok(Some(HandOnFor::Sender)),
        ChunkOutcome::Missing(_) | ChunkOutcome::Wrong | ChunkOutcome::NotOpen => return Ok(None),
        ChunkOutcome::Held => {}
    }
    // Stops: a client that has what is here sent on, in a call of a kilobyte for which it pays nothing.
    if is_counted(store, upload).await? {
        return Ok(Some(HandOnFor::Sender));
    }
    // What failed must go on for whoever has ordered it meanwhile, and may have nothing left.
    Ok(is_named.await.then_some(HandOnFor::Record))
}

/// Whether a blob that is held counts against whoever sent it last.
async fn is_counted(store: Arc<BlobStore>, upload: &Upload) -> Result<bool, PortError> {
    let Upload { digest, owner, .. } = *upload;
    let found = tokio::task::spawn_blocking(move || store.charged_to(&digest));
    let charged = found.await.map_err(|error| stopped(&error))?;
    Ok(charged.is_some_and(|(account, bytes)| account == owner && bytes > 0))
}

fn outcome(progress: Result<UploadProgress, BlobError>) -> Result<ChunkOutcome, PortError> {
    match progress {
        Ok(UploadProgress::Missing(chunk)) => Ok(ChunkOutcome::Missing(chunk)),
        Ok(UploadProgress::Whole(Stored::New)) => Ok(ChunkOutcome::New),
        Ok(UploadProgress::Whole(Stored::Held)) => Ok(ChunkOutcome::Held),
        Err(BlobError::WrongChunk { .. }) => Ok(ChunkOutcome::Wrong),
        Err(BlobError::NotOpen { .. }) => Ok(ChunkOutcome::NotOpen),
        Err(error) => Err(refused(&error)),
    }
}

fn pending(upload: &Upload) -> PendingBlob {
    PendingBlob {
        digest: upload.digest,
        size: upload.size,
        owner: upload.owner,
        expires: upload.now.saturating_add(PENDING_TIME),
    }
}

fn begin(
    store: &Arc<BlobStore>,
    upload: &Upload,
    backing: UploadBacking,
) -> Result<Sink, BlobError> {
    let blob = pending(upload);
    match backing {
        UploadBacking::Money => store.put_pending(&blob, in_node(upload.allowance))?,
        UploadBacking::Record => store.put_pending_named(&blob),
    }
    let mut sink = Sink {
        store: Arc::clone(store),
        digest: upload.digest,
        writer: None,
    };
    sink.writer = Some(store.writer(&upload.digest, upload.size, MODEL_BYTES_MAX)?);
    Ok(sink)
}

const fn in_node(allowance: UploadAllowance) -> Allowance {
    let UploadAllowance { balance, leases } = allowance;
    Allowance { balance, leases }
}

/// Removes blobs that no record of the ledger names, over and over. Ends when it is aborted.
pub(crate) async fn sweep(node: NodeHandle) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let node = node.clone();
        let swept = tokio::task::spawn_blocking(move || {
            let state = &node.snapshot().state;
            let named = named_blobs(state);
            let owned = |owner: &Address| in_node(allowance(state, owner));
            let now = state.head().timestamp;
            node.blobs().sweep(now, |it| named.get(it).copied(), owned)
        });
        // The process ends.
        if swept.await.is_err() {
            return;
        }
    }
}

struct Source(BlobReader);

impl BlobSource for Source {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn next_piece(&mut self) -> Result<Vec<u8>, PortError> {
        self.0.next_piece().map_err(|error| refused(&error))
    }
}

struct Sink {
    store: Arc<BlobStore>,
    digest: Digest,
    writer: Option<BlobWriter>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The writer first: it gives its room back.
        self.writer = None;
        self.store.end_pending(&self.digest);
    }
}

impl BlobSink for Sink {
    fn write(&mut self, piece: &[u8]) -> Result<(), PortError> {
        let written = self.writer.as_mut().map(|writer| writer.write(piece));
        written.transpose().map_err(|error| refused(&error))?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<UploadEnd, PortError> {
        let Some(writer) = self.writer.take() else {
            return Ok(UploadEnd::Held);
        };
        match writer.finish() {
            Ok(Stored::New) => Ok(UploadEnd::New),
            Ok(Stored::Held) => Ok(UploadEnd::Held),
            Err(BlobError::WrongDigest { got, .. }) => Ok(UploadEnd::Refused(got)),
            Err(error) => Err(refused(&error)),
        }
    }
}

pub(super) fn stopped(error: &tokio::task::JoinError) -> PortError {
    PortError {
        fault: Fault::Ours,
        code: "TG-NODE-000".to_owned(),
        message: with_sources(error),
        hint: String::new(),
    }
}

fn refused(error: &BlobError) -> PortError {
    let (fault, hint) = match error {
        BlobError::TooLarge { .. }
        | BlobError::WrongDigest { .. }
        | BlobError::WrongTree { .. } => (Fault::Client, ""),
        BlobError::TooManyUploads { .. } => (
            Fault::Environment,
            "send the blob in one call, end other uploads first, or wait until they have ended",
        ),
        BlobError::AllowanceUsed { .. } => (
            Fault::Client,
            "order, register or lease what was stored, wait until it expires, or hold more TGRID",
        ),
        _ => (Fault::Environment, ""),
    };
    PortError {
        fault,
        code: error.code().to_owned(),
        message: with_sources(error),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_ledger::development_domain;
    use tg_types::chunks::ChunkTreeBuilder;
    use tg_types::{SignedUpload, TimestampMs, UploadPermit, Wallet};

    use super::*;

    fn upload(name: &str, bytes: &[u8], balance: u64) -> Upload {
        let wallet = Wallet::from_seed(name.as_bytes());
        let permit = UploadPermit {
            digest: Digest::of_blob(bytes),
            length: bytes.len() as u64,
            expires: TimestampMs::new(2),
        };
        Upload {
            digest: permit.digest,
            size: permit.length,
            owner: wallet.address(),
            allowance: UploadAllowance { balance, leases: 0 },
            now: TimestampMs::new(1),
            permit: SignedUpload::new(permit, &wallet, &development_domain()),
        }
    }

    /// A gateway sent what it holds again and again, for anybody who said that it has it.
    #[tokio::test]
    async fn what_is_held_is_handed_on_for_whoever_it_counts_against() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(BlobStore::open(folder.path(), 1 << 30).unwrap());
        let bytes = vec![7; (1 << 20) + 1];
        store.put(&bytes, 1 << 30).unwrap();
        let mut builder = ChunkTreeBuilder::default();
        builder.update(&bytes);
        let tree = builder.finish().unwrap();
        let rich = upload("rich", &bytes, 1 << 30);
        let poor = upload("poor", &bytes, 1 << 19);
        let begin = async |upload: Upload, is_named: bool| {
            let no_record = std::future::ready(false);
            let begun = begin_upload(Arc::clone(&store), upload, tree.clone(), no_record).await;
            let outcome = begun.unwrap();
            assert_eq!(outcome, ChunkOutcome::Held);
            let is_named = std::future::ready(is_named);
            let whose = goes_on_for(Arc::clone(&store), &upload, outcome, is_named);
            whose.await.unwrap()
        };
        assert_eq!(begin(rich, false).await, Some(HandOnFor::Sender));
        assert_eq!(begin(poor, false).await, None);
        // A record names it, so that nodes have it from each other unless that failed.
        let all = |_: &Address| in_node(rich.allowance);
        store.sweep(TimestampMs::new(1), |_| Some(1 << 30), all);
        assert!(!is_counted(Arc::clone(&store), &rich).await.unwrap());
        assert_eq!(begin(poor, false).await, None);
        assert_eq!(begin(poor, true).await, Some(HandOnFor::Record));
    }

    /// Whose money went into an order could not go on with its input, or begin it.
    #[tokio::test]
    async fn who_cannot_pay_stores_what_its_own_record_names() {
        use std::future::ready;
        use std::task::Poll;

        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(BlobStore::open(folder.path(), 1 << 30).unwrap());
        let bytes = vec![7; (1 << 20) + 1];
        let mut builder = ChunkTreeBuilder::default();
        builder.update(&bytes);
        let tree = builder.finish().unwrap();
        let poor = upload("poor", &bytes, 1);
        let begin =
            |is_named| begin_upload(Arc::clone(&store), poor, tree.clone(), ready(is_named));
        let error = begin(false).await.unwrap_err();
        assert_eq!(error.code, "TG-NODE-026");
        assert_eq!(begin(true).await.unwrap(), ChunkOutcome::Missing(0));
        let whole = upload("poor", b"an input", 1);
        let store_whole = |is_named| super::store(Arc::clone(&store), whole, ready(is_named));
        let refused = store_whole(false).await;
        assert!(refused.is_err_and(|error| error.code == "TG-NODE-026"));
        let mut sink = store_whole(true).await.unwrap();
        sink.write(b"an input").unwrap();
        assert_eq!(sink.finish().unwrap(), UploadEnd::New);
        assert_eq!(store.charged_to(&whole.digest), Some((whole.owner, 0)));
        // Who can pay is not asked whose record it is.
        let rich = upload("rich", b"another", 1 << 20);
        let asked = std::future::poll_fn(|_| -> Poll<bool> { panic!("it can pay") });
        drop(super::store(Arc::clone(&store), rich, asked).await.unwrap());
    }
}
