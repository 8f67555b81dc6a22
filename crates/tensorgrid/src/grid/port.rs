//! A node as the API sees it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tg_api::{
    BlobNames, BlobSink, BlobSource, ChunkOutcome, DevelopmentPort, FinalizedEvents, GridPort,
    OpenAiPort, PortError, PortFuture, ShownState, TransactionFate, Upload,
};
use tg_ledger::State;
use tg_node::{BlobStore, NodeHandle, StoreError, SubmitError, TransactionStatus};
use tg_sdk::Client;
use tg_sdk::dto::{
    DevelopmentAccountDto, DevelopmentEndpointDto, DevelopmentInferDto, FaucetRequestDto,
    InferenceDto, JobDto,
};
use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::chunks::ChunkTree;
use tg_types::{
    Amount, Digest, Fault, Fees, Heartbeat, JobId, NonceLane, SignedTransaction, Transaction,
    TransactionId, with_sources,
};
use tokio::sync::{broadcast, mpsc};

use super::blob;
use super::development;
use super::named::LatestNames;
use crate::network::uplinks::Uplinks;
use tg_console::accounts;
use tg_console::outcome::Failure;
use tg_openai::OpenAiOrders;

/// Chunk trees that are kept, of at most half a MiB each.
const TREES_MAX: usize = 64;

/// Blocks that an event stream may lag behind.
const LAG_MAX: usize = 256;

/// How long a blob is looked for at the other validators.
const SEARCH: Duration = Duration::from_secs(5);

/// How often it looks whether it came.
const SEARCH_POLL: Duration = Duration::from_millis(50);

/// Validators of this process, behind the API's port.
pub(crate) struct NodePort {
    nodes: Vec<NodeHandle>,
    network: String,
    /// Names of the funded accounts of a development network; `None` on another.
    funded: Option<Vec<String>>,
    /// Among which blobs are looked for at other validators, and which are taken of whoever has no money for them.
    names: LatestNames<BlobNames>,
    /// The faucet's transactions go one after the other, so that their nonces do.
    faucet: tokio::sync::Mutex<()>,
    /// The chunks of blobs that were asked for lately: their nodes take a whole read of the blob.
    trees: Mutex<VecDeque<(Digest, Arc<ChunkTree>)>>,
    /// Where what clients store goes on to, if this is a gateway.
    uplinks: Option<Arc<Uplinks>>,
    /// The API's own address, for inferences that it runs on behalf of clients.
    client: OnceLock<Client>,
    /// Who orders for the callers of the OpenAI routes.
    orders: OnceLock<Arc<OpenAiOrders>>,
}

impl NodePort {
    /// A port on a development network whose funded accounts have these names, with all its validators.
    pub(crate) fn development(nodes: Vec<NodeHandle>, funded: Vec<String>) -> Self {
        Self::new(nodes, "development".to_owned(), Some(funded))
    }

    /// A port of one validator of a network, whose others run elsewhere.
    pub(crate) fn alone(node: NodeHandle, network: String) -> Self {
        Self::new(vec![node], network, None)
    }

    /// A port of a gateway, which hands on what clients store.
    pub(crate) fn gateway(node: NodeHandle, network: String, uplinks: Arc<Uplinks>) -> Self {
        Self {
            uplinks: Some(uplinks),
            ..Self::alone(node, network)
        }
    }

    fn new(nodes: Vec<NodeHandle>, network: String, funded: Option<Vec<String>>) -> Self {
        Self {
            nodes,
            network,
            funded,
            names: LatestNames::default(),
            faucet: tokio::sync::Mutex::default(),
            trees: Mutex::default(),
            uplinks: None,
            client: OnceLock::new(),
            orders: OnceLock::new(),
        }
    }

    /// Says who orders for the callers of the OpenAI routes.
    pub(crate) fn set_orders(&self, orders: Arc<OpenAiOrders>) {
        // It is said once, at the start.
        let _ = self.orders.set(orders);
    }

    /// Says where the API listens.
    pub(crate) fn set_client(&self, client: Client) {
        // A second address would be the same API's.
        let _ = self.client.set(client);
    }

    /// The API's own address, once it listens.
    fn own_client(&self) -> Result<&Client, PortError> {
        self.client.get().ok_or_else(|| PortError {
            fault: Fault::Environment,
            code: "TG-DEV-002".to_owned(),
            message: "the grid is still starting".to_owned(),
            hint: "try again in a moment".to_owned(),
        })
    }

    /// A validator that runs, or the first if none does.
    fn node(&self) -> &NodeHandle {
        let running = self.nodes.iter().find(|node| node.status().running);
        running.unwrap_or(&self.nodes[0])
    }

    /// The validators' stores, the one that this API writes to first.
    fn stores(&self) -> Vec<Arc<BlobStore>> {
        let first = Arc::clone(self.node().blobs());
        let others = self.nodes.iter().map(|node| Arc::clone(node.blobs()));
        std::iter::once(first).chain(others).collect()
    }

    /// Whether a record of whoever sends a blob names it.
    async fn is_named(&self, upload: Upload) -> bool {
        self.names(|names| names.is_of_sender(&upload)).await
    }

    /// Looks at what records name by now.
    async fn names<T>(&self, look: impl FnOnce(&BlobNames) -> T) -> T {
        let tip = self.node().snapshot();
        let (height, state) = (tip.block.header.height.get(), Arc::clone(&tip.state));
        let walk = move || BlobNames::of(&state);
        self.names.look(height, walk, look).await
    }

    /// Hands a blob that came in chunks on to other nodes, if it is whole and this is a gateway.
    async fn hand_on(
        &self,
        store: Arc<BlobStore>,
        upload: Upload,
        outcome: ChunkOutcome,
    ) -> Result<ChunkOutcome, PortError> {
        let Some(uplinks) = &self.uplinks else {
            return Ok(outcome);
        };
        let is_named = self.is_named(upload);
        let whose = blob::goes_on_for(Arc::clone(&store), &upload, outcome, is_named).await?;
        if let Some(whose) = whose {
            let uplinks = Arc::clone(uplinks);
            // It goes on if the client does not wait for it.
            let handed =
                tokio::spawn(async move { uplinks.hand_on(&store, &upload.permit, whose).await });
            handed.await.map_err(|error| blob::stopped(&error))??;
        }
        Ok(outcome)
    }

    /// The chunks of a blob that was asked for lately and is still held.
    fn known_tree(&self, digest: &Digest) -> Option<Arc<ChunkTree>> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        let found = trees.iter().find(|(name, _)| name == digest)?.1.clone();
        drop(trees);
        self.stores()
            .iter()
            .any(|it| it.contains(digest))
            .then_some(found)
    }
}

impl GridPort for NodePort {
    fn network(&self) -> &str {
        &self.network
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.node().snapshot().state)
    }

    fn shown_state(&self) -> PortFuture<'_, Option<ShownState>> {
        let node = self.node().clone();
        Box::pin(async move {
            on_disk(move || {
                let tip = node.snapshot();
                let shown = node.shown_final(tip.block.header.height.get())?;
                Ok(shown.map(|shown| ShownState {
                    state: Arc::clone(&tip.state),
                    proof: shown,
                }))
            })
            .await
        })
    }

    fn chain_page(&self, from: u64, wait: Duration) -> PortFuture<'_, Option<ChainPage>> {
        let node = self.node().clone();
        Box::pin(async move {
            await_height(&node, from, wait).await;
            on_disk(move || node.chain_page(from)).await
        })
    }

    fn seat_endpoints(&self) -> BTreeMap<[u8; 32], String> {
        self.node().seat_endpoints()
    }

    fn seat_changes(&self, above: u64) -> PortFuture<'_, SeatChanges> {
        let node = self.node().clone();
        Box::pin(on_disk(move || node.seat_changes(above)))
    }

    fn checkpoint(&self, height: Option<u64>) -> PortFuture<'_, Option<CheckpointBlock>> {
        let node = self.node().clone();
        Box::pin(on_disk(move || node.checkpoint(height)))
    }

    fn skipped_view(&self, round: (u64, u64)) -> PortFuture<'_, Option<Vec<u8>>> {
        let node = self.node().clone();
        Box::pin(on_disk(move || node.skipped_view(round)))
    }

    fn chain_snapshot(&self) -> PortFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
        let node = self.node().clone();
        Box::pin(on_disk(move || node.chain_snapshot()))
    }

    fn next_nonce(&self, lane: &NonceLane) -> u64 {
        self.node().next_nonce_in(lane)
    }

    fn random(&self) -> Result<[u8; 16], PortError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| PortError {
            fault: Fault::Environment,
            code: "TG-API-010".to_owned(),
            message: format!("draw a token: {error}"),
            hint: "the system gives no randomness".to_owned(),
        })?;
        Ok(bytes)
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> Result<(), PortError> {
        let noted = self.node().heartbeat(heartbeat);
        noted.map_err(|error| PortError {
            fault: Fault::Client,
            code: error.code().to_owned(),
            message: with_sources(&error),
            hint: String::new(),
        })
    }

    fn submit(&self, transaction: SignedTransaction) -> PortFuture<'_, TransactionId> {
        Box::pin(async move {
            let id = self.node().submit(transaction).await;
            id.map_err(|error| submit_error(&error))
        })
    }

    fn subscribe(&self) -> mpsc::Receiver<FinalizedEvents> {
        let mut blocks = self.node().subscribe();
        let (sender, receiver) = mpsc::channel(LAG_MAX);
        tokio::spawn(async move {
            loop {
                let block = match blocks.recv().await {
                    Ok(block) => block,
                    Err(
                        broadcast::error::RecvError::Lagged(_)
                        | broadcast::error::RecvError::Closed,
                    ) => {
                        return;
                    }
                };
                let events = FinalizedEvents {
                    height: block.block.header.height.get(),
                    timestamp_ms: block.block.header.timestamp.get(),
                    events: Arc::clone(&block.events),
                };
                if sender.try_send(events).is_err() {
                    return;
                }
            }
        });
        receiver
    }

    fn transaction(&self, id: TransactionId) -> Option<TransactionFate> {
        self.node().transaction_status(&id).map(|it| match it {
            TransactionStatus::Waiting => TransactionFate::Pending,
            TransactionStatus::Final { height } => TransactionFate::Final(height),
            TransactionStatus::Dropped(reason) => {
                TransactionFate::Dropped(format!("{}: {}", reason.code(), with_sources(&reason)))
            }
        })
    }

    fn store_blob(&self, upload: Upload) -> PortFuture<'_, Box<dyn BlobSink>> {
        let store = Arc::clone(self.node().blobs());
        Box::pin(async move {
            let is_named = self.is_named(upload);
            let sink = blob::store(Arc::clone(&store), upload, is_named).await?;
            Ok(match &self.uplinks {
                None => sink,
                Some(uplinks) => uplinks.forwarding(sink, store, upload.permit),
            })
        })
    }

    fn begin_upload(&self, upload: Upload, tree: ChunkTree) -> PortFuture<'_, ChunkOutcome> {
        let store = Arc::clone(self.node().blobs());
        Box::pin(async move {
            let is_named = self.is_named(upload);
            let outcome = blob::begin_upload(Arc::clone(&store), upload, tree, is_named).await?;
            self.hand_on(store, upload, outcome).await
        })
    }

    fn put_chunk(
        &self,
        upload: Upload,
        index: u64,
        bytes: Vec<u8>,
    ) -> PortFuture<'_, ChunkOutcome> {
        let store = Arc::clone(self.node().blobs());
        Box::pin(async move {
            let outcome = blob::put_chunk(Arc::clone(&store), upload, index, bytes).await?;
            self.hand_on(store, upload, outcome).await
        })
    }

    fn blob(&self, digest: Digest) -> PortFuture<'_, Option<Box<dyn BlobSource>>> {
        blob::open(self.stores(), digest)
    }

    /// What no record names is not asked of the other validators, so that whoever asks this one for nonsense gives them no work.
    fn find_blob(&self, digest: Digest) -> PortFuture<'_, bool> {
        Box::pin(async move {
            if !self.names(|names| names.contains(&digest)).await {
                return Ok(false);
            }
            let node = self.node();
            node.needs_blob(digest);
            let since = Instant::now();
            while since.elapsed() < SEARCH && !node.blobs().contains(&digest) {
                tokio::time::sleep(SEARCH_POLL).await;
            }
            Ok(node.blobs().contains(&digest))
        })
    }

    fn chunk_tree(&self, digest: Digest) -> PortFuture<'_, Option<Arc<ChunkTree>>> {
        Box::pin(async move {
            if let Some(tree) = self.known_tree(&digest) {
                return Ok(Some(tree));
            }
            let tree = blob::chunk_tree(self.stores(), digest).await?.map(Arc::new);
            if let Some(tree) = &tree {
                let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
                if trees.len() >= TREES_MAX {
                    trees.pop_front();
                }
                trees.push_back((digest, Arc::clone(tree)));
            }
            Ok(tree)
        })
    }

    fn chunk(&self, digest: Digest, index: u64) -> PortFuture<'_, Option<Vec<u8>>> {
        blob::chunk(self.stores(), digest, index)
    }

    fn openai(&self) -> Option<&dyn OpenAiPort> {
        self.orders
            .get()
            .map(|orders| orders.as_ref() as &dyn OpenAiPort)
    }

    fn development(&self) -> Option<&dyn DevelopmentPort> {
        self.funded
            .is_some()
            .then_some(self as &dyn DevelopmentPort)
    }
}

/// Reads the database, which is on disk, beside the event loop.
async fn on_disk<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, PortError> {
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.map_err(|error| store_error(&error))?;
    read.map_err(|error| store_error(&error))
}

/// Waits until a block of this height is final, for `wait` at most.
async fn await_height(node: &NodeHandle, height: u64, wait: Duration) {
    // First: a block that becomes final meanwhile is heard of.
    let mut blocks = node.subscribe();
    let is_there = || node.snapshot().block.header.height.get() >= height;
    let waiting = async {
        while !is_there() {
            // One that was missed is seen in the snapshot.
            if let Err(broadcast::error::RecvError::Closed) = blocks.recv().await {
                return;
            }
        }
    };
    // Without one in time, the caller answers that there is none.
    let _ = tokio::time::timeout(wait, waiting).await;
}

impl DevelopmentPort for NodePort {
    fn accounts(&self) -> Vec<DevelopmentAccountDto> {
        let state = self.state();
        let accounts = self.funded.iter().flatten().map(|name| {
            let address = accounts::wallet(name).address();
            DevelopmentAccountDto {
                name: name.clone(),
                address,
                balance: state.balance(&address),
            }
        });
        accounts.collect()
    }

    fn faucet(&self, request: FaucetRequestDto) -> PortFuture<'_, TransactionId> {
        Box::pin(async move {
            let FaucetRequestDto { address, amount } = request;
            if amount > accounts::FAUCET_MAX || amount == Amount::ZERO {
                return Err(PortError {
                    fault: Fault::Client,
                    code: "TG-DEV-001".to_owned(),
                    message: format!("the faucet does not give {amount} TGRID at once"),
                    hint: format!("ask for at most {}", accounts::FAUCET_MAX),
                });
            }
            let _turn = self.faucet.lock().await;
            let wallet = accounts::wallet(accounts::FAUCET);
            let nonce = self.next_nonce(&wallet.address().into());
            let transfer = Transaction::Transfer {
                to: address,
                amount,
            };
            let state = self.state();
            let fees = Fees::from_base_fee(state.base_fee());
            let signed = wallet.sign_with_fees(transfer, nonce, fees, state.domain());
            self.submit(signed).await
        })
    }

    fn infer(&self, request: DevelopmentInferDto) -> PortFuture<'_, InferenceDto> {
        Box::pin(async move {
            let inference = development::infer(self.own_client()?, request).await;
            inference.map_err(|failure| on_behalf_error(&failure))
        })
    }

    fn open_endpoint(&self, request: DevelopmentEndpointDto) -> PortFuture<'_, JobDto> {
        Box::pin(async move {
            let opened = development::open_endpoint(self.own_client()?, request).await;
            opened.map_err(|failure| on_behalf_error(&failure))
        })
    }

    fn top_up_endpoint(&self, job: JobId, money: Amount) -> PortFuture<'_, JobDto> {
        Box::pin(async move {
            let (client, funded) = (self.own_client()?, self.funded.as_deref());
            let funded = funded.unwrap_or_default();
            let raised = development::top_up_endpoint(client, (job, money), funded).await;
            raised.map_err(|failure| on_behalf_error(&failure))
        })
    }

    fn close_endpoint(&self, job: JobId) -> PortFuture<'_, JobDto> {
        Box::pin(async move {
            let (client, funded) = (self.own_client()?, self.funded.as_deref());
            let funded = funded.unwrap_or_default();
            let closed = development::close_endpoint(client, job, funded).await;
            closed.map_err(|failure| on_behalf_error(&failure))
        })
    }
}

fn store_error(error: &dyn std::error::Error) -> PortError {
    PortError {
        fault: Fault::Environment,
        code: "TG-NODE-048".to_owned(),
        message: format!("read the chain's database: {error}"),
        hint: String::new(),
    }
}

fn submit_error(error: &SubmitError) -> PortError {
    PortError {
        fault: match error.fault() {
            // Whoever calls the API is the one who sent it.
            Fault::Peer => Fault::Client,
            fault => fault,
        },
        code: error.code().to_owned(),
        message: with_sources(error),
        hint: hint_of(error.code()).to_owned(),
    }
}

/// What to do about a refused transaction.
fn hint_of(code: &str) -> &'static str {
    match code {
        "TG-LED-002" | "TG-LED-003" | "TG-NODE-044" | "TG-NODE-046" | "TG-NODE-049" => {
            "another transaction of this account was faster; sign again with the account's next nonce"
        }
        "TG-LED-008" => {
            "sign again with a higher maximum fee; GET /v1/status gives the base fee, which falls when blocks are less full"
        }
        "TG-NODE-042" => "sign again with a higher tip, or try again in a few seconds",
        "TG-LED-005" | "TG-LED-009" | "TG-NODE-050" => {
            "an account needs the maximum price, the verification fee and the gas at the maximum fee; on a development \
             network POST /v1/dev/faucet gives play money"
        }
        "TG-LED-020" => "tensorgrid model list shows the models",
        "TG-LED-021" => {
            "validators are still checking the model, or refused it; tensorgrid model show says"
        }
        "TG-LED-022" => "use --verify none on a development network, or another model",
        "TG-LED-023" => {
            "say how the result is checked (--verify proof, in the OpenAI API the field tensorgrid.verify): this network was founded without \
             --allow-unverified"
        }
        "TG-LED-033" => {
            "a job that has a result is paid or refunded by itself; tensorgrid job show says where it stands"
        }
        "TG-LED-025" => "raise --max-price",
        "TG-LED-026" | "TG-LED-027" => "choose another deadline",
        "TG-LED-043" => "raise --collateral",
        _ => "",
    }
}

fn on_behalf_error(failure: &Failure) -> PortError {
    PortError {
        fault: match failure.exit {
            tg_console::outcome::Exit::Unavailable => Fault::Environment,
            tg_console::outcome::Exit::Failed => Fault::Ours,
            _ => Fault::Client,
        },
        code: "TG-DEV-003".to_owned(),
        message: format!("{:#}", failure.error),
        hint: failure.hint.clone().unwrap_or_default(),
    }
}
