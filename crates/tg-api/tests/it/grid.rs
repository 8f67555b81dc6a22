//! A grid of one process: the real ledger behind the port, a block for every submission and every tick. Verdicts on
//! evidence are the test's word: verifying is the node's business, not the API's.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tg_api::{
    ApiConfig, ApiListener, ApiServer, BlobSink, BlobSource, ChunkOutcome, Completion,
    CompletionOrder, DevelopmentPort, EmbeddingOrder, Embeddings, FinalizedEvents, GridPort,
    OpenAiError, OpenAiFuture, OpenAiPort, PieceSender, PortError, PortFuture, Requester,
    ShownState, TransactionFate, Upload, UploadEnd,
};
use tg_ledger::{
    ConsensusKey, EvidenceTask, Genesis, ModelFacts, Outcome, Parameters, Proposal, State,
    StorageRule, Validator, check_transaction, development_domain, propose,
};
use tg_sdk::Client;
use tg_sdk::dto::{
    DevelopmentAccountDto, DevelopmentEndpointDto, DevelopmentInferDto, FaucetRequestDto,
    InferenceDto, JobDto,
};
use tg_types::CheckedSignatures;
use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::chunks::{CHUNK_BYTES, ChunkTree, ChunkTreeBuilder};
use tg_types::{
    Address, Amount, Digest, Fault, Heartbeat, JobId, Label, NonceLane, ProgramId,
    SignedTransaction, TimestampMs, TransactionId, Wallet,
};
use tokio::sync::mpsc;

/// What the test's validator says about every lease's evidence.
pub(crate) type Judge = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What the test's validator finds in every model.
pub(crate) const FACTS: ModelFacts = ModelFacts {
    program: ProgramId::new([3; 32]),
    tier: tg_types::Tier::Tgx1,
    macs: 2_500_000,
    input_len: 4,
    output_len: 2,
    provable: true,
    proof_bytes: 40_000,
    work: 2_500_000,
    memory: 6,
    trace_bytes: 4_096,
    read_bytes: 4_096,
    looks: 0,
};

type Blobs = Mutex<HashMap<Digest, Arc<Vec<u8>>>>;

/// Bytes of a piece of a blob.
const PIECE: usize = 128 << 10;

/// A blob on its way out of memory.
struct Source(Arc<Vec<u8>>, usize);

impl BlobSource for Source {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn next_piece(&mut self) -> Result<Vec<u8>, PortError> {
        let end = (self.1 + PIECE).min(self.0.len());
        let piece = self.0[self.1..end].to_vec();
        self.1 = end;
        Ok(piece)
    }
}

/// A blob on its way into memory.
struct Sink(Arc<Blobs>, Digest, Vec<u8>);

impl BlobSink for Sink {
    fn write(&mut self, piece: &[u8]) -> Result<(), PortError> {
        self.2.extend_from_slice(piece);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<UploadEnd, PortError> {
        let Self(blobs, digest, bytes) = *self;
        let got = Digest::of_blob(&bytes);
        if got != digest {
            return Ok(UploadEnd::Refused(got));
        }
        let held = blobs.lock().unwrap().insert(digest, Arc::new(bytes));
        Ok(held.map_or(UploadEnd::New, |_| UploadEnd::Held))
    }
}

/// A blob that is not here and is found when it is looked for.
pub(crate) const ELSEWHERE: &[u8] = b"elsewhere";

/// A blob that nobody has, as whoever looks for it learns after seconds.
pub(crate) const LOST: &[u8] = b"lost";

/// Uploads in chunks that one account may have open.
pub(crate) const UPLOADS_MAX: usize = 2;

/// An upload in chunks: whose it is, its chunks, and what came.
struct ArrivingBlob(Address, ChunkTree, Vec<u8>);

/// The grid.
pub(crate) struct Grid {
    validator: Address,
    state: Mutex<Arc<State>>,
    blobs: Arc<Blobs>,
    uploads: Mutex<HashMap<Digest, ArrivingBlob>>,
    transactions: Mutex<HashMap<TransactionId, u64>>,
    listeners: Mutex<Vec<mpsc::Sender<FinalizedEvents>>>,
    /// Providers that asked for their leases.
    pub(crate) heard: Mutex<HashSet<Address>>,
    judge: Judge,
    facts: ModelFacts,
    development: bool,
    orders: Option<NoOrders>,
}

/// Knows one key, `k`, and orders nothing.
struct NoOrders(std::path::PathBuf);

impl OpenAiPort for NoOrders {
    fn caller(&self, key: &str) -> Option<String> {
        (key == "k").then(|| "caller".to_owned())
    }

    fn complete(
        &self,
        _by: Requester,
        _order: CompletionOrder,
        _pieces: Option<PieceSender>,
    ) -> OpenAiFuture<'_, Completion> {
        Box::pin(async { Err(OpenAiError::model("m")) })
    }

    fn embed(&self, _by: Requester, _order: EmbeddingOrder) -> OpenAiFuture<'_, Embeddings> {
        Box::pin(async { Err(OpenAiError::model("m")) })
    }

    fn folder(&self) -> &std::path::Path {
        &self.0
    }
}

/// A wallet with money in every test grid: alice, bob, carol and dave.
pub(crate) fn wallet(name: &str) -> Wallet {
    Wallet::from_seed(name.as_bytes())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn refused(code: &str, message: String) -> PortError {
    PortError {
        fault: Fault::Client,
        code: code.to_owned(),
        message,
        hint: String::new(),
    }
}

impl ArrivingBlob {
    /// The chunk that is missing.
    fn next(&self) -> u64 {
        (self.2.len() as u64).div_ceil(CHUNK_BYTES)
    }

    fn put(&mut self, digest: &Digest, index: u64, bytes: &[u8]) -> ChunkOutcome {
        if index != self.next() {
            return ChunkOutcome::Missing(self.next());
        }
        if !self.1.is_chunk(digest, index, bytes) {
            return ChunkOutcome::Wrong;
        }
        self.2.extend_from_slice(bytes);
        match self.next() == self.1.chunks() {
            true => ChunkOutcome::New,
            false => ChunkOutcome::Missing(self.next()),
        }
    }
}

impl Grid {
    /// A grid whose validator accepts every piece of evidence.
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Box::new(|_| true), FACTS, true)
    }

    /// A grid whose OpenAI routes know the key `k`.
    pub(crate) fn ordering() -> Arc<Self> {
        let mut grid = Self::with(Box::new(|_| true), FACTS, true);
        let orders = NoOrders(std::env::temp_dir());
        Arc::get_mut(&mut grid).unwrap().orders = Some(orders);
        grid
    }

    /// A grid with its own judge, and what it finds in every model.
    pub(crate) fn with(judge: Judge, facts: ModelFacts, development: bool) -> Arc<Self> {
        let begin = (now() - 10_000, StorageRule::Assumed);
        Self::begun(judge, facts, development, begin)
    }

    /// A grid in which a model and the input of a job count as held once the validator states it.
    pub(crate) fn stating() -> Arc<Self> {
        let begin = (now() - 10_000, StorageRule::Stated);
        Self::begun(Box::new(|_| true), FACTS, true, begin)
    }

    /// A grid that began some time ago and has made no block since.
    pub(crate) fn standing(ago_ms: u64) -> Arc<Self> {
        let begin = (now() - ago_ms, StorageRule::Assumed);
        Self::begun(Box::new(|_| true), FACTS, true, begin)
    }

    fn begun(
        judge: Judge,
        facts: ModelFacts,
        development: bool,
        (begin_ms, storage): (u64, StorageRule),
    ) -> Arc<Self> {
        let validator = wallet("validator").address();
        let mut accounts: Vec<_> = ["alice", "bob", "carol", "dave"]
            .map(|name| (wallet(name).address(), Amount::from_tgrid(1_000)))
            .to_vec();
        accounts.sort();
        let genesis = Genesis {
            domain: development_domain(),
            parameters: Parameters {
                storage,
                ..Parameters::development()
            },
            timestamp: TimestampMs::new(begin_ms),
            accounts,
            validators: vec![Validator {
                address: validator,
                key: ConsensusKey::new([1; 32]),
                stake: Amount::from_tgrid(1_000),
            }],
        };
        Arc::new(Self {
            validator,
            state: Mutex::new(Arc::new(State::genesis(&genesis).unwrap())),
            blobs: Arc::default(),
            uploads: Mutex::default(),
            transactions: Mutex::default(),
            listeners: Mutex::default(),
            heard: Mutex::default(),
            judge,
            facts,
            development,
            orders: None,
        })
    }

    /// Serves the grid on a free port, with a block every 20 ms.
    pub(crate) async fn serve(self: &Arc<Self>, config: ApiConfig) -> (ApiServer, Client) {
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = ApiConfig { listen, ..config };
        let port: Arc<dyn GridPort> = Arc::clone(self) as _;
        let listener = ApiListener::bind(listen).await.unwrap();
        // Calls in raw HTTP name it so.
        let names = vec!["x".parse().unwrap()];
        let server = listener.called(names).serve(port, config);
        let client = Client::new(&server.url()).unwrap();
        let client = client.uploading_as(&wallet("alice"));
        let grid = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(grid) = grid.upgrade() {
                grid.block(Vec::new());
                drop(grid);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        (server, client)
    }

    /// Makes a block of transactions and of verdicts on all evidence that waits.
    pub(crate) fn block(&self, transactions: Vec<SignedTransaction>) {
        let mut state = self.state.lock().unwrap();
        let verdicts = state.pending_evidence().filter_map(|task| {
            let outcome = match &task {
                EvidenceTask::SeedKey { .. }
                | EvidenceTask::Seed { .. }
                | EvidenceTask::Replicas { .. }
                | EvidenceTask::Grant(_)
                | EvidenceTask::Accusation { .. } => return None,
                EvidenceTask::Model { .. } => Outcome::ModelAccepted(self.facts),
                EvidenceTask::Lease { evidence, .. } => {
                    let blobs = self.blobs.lock().unwrap();
                    if (self.judge)(blobs.get(evidence)?) {
                        Outcome::LeaseAccepted
                    } else {
                        let check = Label::new("opening").unwrap();
                        Outcome::Rejected { code: 7, check }
                    }
                }
            };
            Some(task.verdict(outcome))
        });
        let timestamp = TimestampMs::new(now().max(state.head().timestamp.get() + 1));
        let proposal = Proposal {
            proposer: self.validator,
            timestamp,
            transactions,
            verdicts: verdicts.collect(),
        };
        let proposed = propose(&state, proposal).unwrap();
        assert!(proposed.state.money().is_conserved());
        let events = FinalizedEvents {
            height: proposed.state.head().height.get(),
            timestamp_ms: timestamp.get(),
            events: Arc::new(proposed.events),
        };
        *state = Arc::new(proposed.state);
        let mut listeners = self.listeners.lock().unwrap();
        listeners.retain(|listener| listener.try_send(events.clone()).is_ok());
    }
}

impl GridPort for Grid {
    fn random(&self) -> Result<[u8; 16], PortError> {
        // No test lets a stranger guess.
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        Ok(nanos.to_le_bytes())
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Result<(), PortError> {
        let provider = heartbeat
            .account(self.state().domain())
            .map_err(|error| refused("TEST-002", error.to_string()))?;
        self.heard.lock().unwrap().insert(provider);
        Ok(())
    }

    fn network(&self) -> &str {
        "test"
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap())
    }

    /// This grid has no consensus, and so nothing to show.
    fn shown_state(&self) -> PortFuture<'_, Option<ShownState>> {
        Box::pin(async { Ok(None) })
    }

    /// There is no block, however long somebody waits for one.
    fn chain_page(&self, _: u64, wait: Duration) -> PortFuture<'_, Option<ChainPage>> {
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            Ok(Some(ChainPage::empty(0)))
        })
    }

    fn seat_changes(&self, _: u64) -> PortFuture<'_, SeatChanges> {
        Box::pin(async { Ok(SeatChanges::default()) })
    }

    fn checkpoint(&self, _: Option<u64>) -> PortFuture<'_, Option<CheckpointBlock>> {
        Box::pin(async { Ok(None) })
    }

    /// One view was skipped: 9 of epoch 1.
    fn skipped_view(&self, round: (u64, u64)) -> PortFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { Ok((round == (1, 9)).then(|| b"skipped".to_vec())) })
    }

    fn chain_snapshot(&self) -> PortFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
        Box::pin(async { Ok(None) })
    }

    fn next_nonce(&self, lane: &NonceLane) -> u64 {
        self.state().nonce_in(lane)
    }

    fn submit(&self, transaction: SignedTransaction) -> PortFuture<'_, TransactionId> {
        Box::pin(async move {
            let state = self.state();
            check_transaction(&state, &transaction, &CheckedSignatures::none())
                .map_err(|error| refused(error.code(), error.to_string()))?;
            let id = transaction.id(state.domain());
            self.block(vec![transaction]);
            let height = self.state().head().height.get();
            self.transactions.lock().unwrap().insert(id, height);
            Ok(id)
        })
    }

    fn subscribe(&self) -> mpsc::Receiver<FinalizedEvents> {
        let (sender, receiver) = mpsc::channel(1024);
        self.listeners.lock().unwrap().push(sender);
        receiver
    }

    fn transaction(&self, id: TransactionId) -> Option<TransactionFate> {
        let height = self.transactions.lock().unwrap().get(&id).copied();
        height.map(TransactionFate::Final)
    }

    fn store_blob(&self, upload: Upload) -> PortFuture<'_, Box<dyn BlobSink>> {
        let sink = Sink(Arc::clone(&self.blobs), upload.digest, Vec::new());
        Box::pin(async { Ok(Box::new(sink) as Box<dyn BlobSink>) })
    }

    fn begin_upload(&self, upload: Upload, tree: ChunkTree) -> PortFuture<'_, ChunkOutcome> {
        let Upload { digest, owner, .. } = upload;
        let mut uploads = self.uploads.lock().unwrap();
        let own = uploads.values().filter(|it| it.0 == owner).count();
        let outcome = if self.blobs.lock().unwrap().contains_key(&digest) {
            Ok(ChunkOutcome::Held)
        } else if let Some(open) = uploads.get(&digest) {
            Ok(ChunkOutcome::Missing(open.next()))
        } else if own >= UPLOADS_MAX {
            Err(PortError {
                fault: Fault::Environment,
                ..refused("TG-NODE-033", "too many uploads are open".to_owned())
            })
        } else {
            uploads.insert(digest, ArrivingBlob(owner, tree, Vec::new()));
            Ok(ChunkOutcome::Missing(0))
        };
        Box::pin(async { outcome })
    }

    fn put_chunk(
        &self,
        upload: Upload,
        index: u64,
        bytes: Vec<u8>,
    ) -> PortFuture<'_, ChunkOutcome> {
        let mut uploads = self.uploads.lock().unwrap();
        let outcome = match uploads.get_mut(&upload.digest) {
            None => ChunkOutcome::NotOpen,
            Some(open) => open.put(&upload.digest, index, &bytes),
        };
        if outcome == ChunkOutcome::New
            && let Some(open) = uploads.remove(&upload.digest)
        {
            let mut blobs = self.blobs.lock().unwrap();
            blobs.insert(upload.digest, Arc::new(open.2));
        }
        Box::pin(async move { Ok(outcome) })
    }

    fn blob(&self, digest: Digest) -> PortFuture<'_, Option<Box<dyn BlobSource>>> {
        let found = self.blobs.lock().unwrap().get(&digest).cloned();
        Box::pin(async { Ok(found.map(|it| Box::new(Source(it, 0)) as Box<dyn BlobSource>)) })
    }

    fn find_blob(&self, digest: Digest) -> PortFuture<'_, bool> {
        Box::pin(async move {
            if digest == Digest::of_blob(LOST) {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            let is_found = digest == Digest::of_blob(ELSEWHERE);
            if is_found {
                let bytes = Arc::new(ELSEWHERE.to_vec());
                self.blobs.lock().unwrap().insert(digest, bytes);
            }
            Ok(is_found)
        })
    }

    fn chunk_tree(&self, digest: Digest) -> PortFuture<'_, Option<Arc<ChunkTree>>> {
        let found = self.blobs.lock().unwrap().get(&digest).cloned();
        let tree = found.and_then(|bytes| {
            let mut builder = ChunkTreeBuilder::default();
            builder.update(&bytes);
            builder.finish().map(Arc::new)
        });
        Box::pin(async { Ok(tree) })
    }

    fn chunk(&self, digest: Digest, index: u64) -> PortFuture<'_, Option<Vec<u8>>> {
        let found = self.blobs.lock().unwrap().get(&digest).cloned();
        let chunk = found.and_then(|bytes| {
            let size = usize::try_from(CHUNK_BYTES).unwrap();
            let index = usize::try_from(index).unwrap();
            bytes.chunks(size).nth(index).map(<[u8]>::to_vec)
        });
        Box::pin(async { Ok(chunk) })
    }

    fn openai(&self) -> Option<&dyn OpenAiPort> {
        self.orders.as_ref().map(|it| it as &dyn OpenAiPort)
    }

    fn development(&self) -> Option<&dyn DevelopmentPort> {
        self.development.then_some(self as &dyn DevelopmentPort)
    }
}

impl DevelopmentPort for Grid {
    fn accounts(&self) -> Vec<DevelopmentAccountDto> {
        let address = wallet("alice").address();
        vec![DevelopmentAccountDto {
            name: "alice".to_owned(),
            address,
            balance: self.state().balance(&address),
        }]
    }

    fn faucet(&self, request: FaucetRequestDto) -> PortFuture<'_, TransactionId> {
        let state = self.state();
        let dave = wallet("dave");
        let transfer = tg_types::Transaction::Transfer {
            to: request.address,
            amount: request.amount,
        };
        self.submit(dave.sign(transfer, state.nonce(&dave.address()), state.domain()))
    }

    fn infer(&self, _request: DevelopmentInferDto) -> PortFuture<'_, InferenceDto> {
        Box::pin(async { Err(refused("TEST-001", "this grid has no models".to_owned())) })
    }

    fn open_endpoint(&self, _request: DevelopmentEndpointDto) -> PortFuture<'_, JobDto> {
        Box::pin(async { Err(refused("TEST-001", "this grid has no models".to_owned())) })
    }

    fn top_up_endpoint(&self, _job: JobId, _money: Amount) -> PortFuture<'_, JobDto> {
        Box::pin(async { Err(refused("TEST-002", "this grid has no endpoints".to_owned())) })
    }

    fn close_endpoint(&self, _job: JobId) -> PortFuture<'_, JobDto> {
        Box::pin(async { Err(refused("TEST-002", "this grid has no endpoints".to_owned())) })
    }
}
