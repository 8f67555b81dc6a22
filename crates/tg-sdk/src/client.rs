//! The typed client: one method per endpoint.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hyper::Method;
use tg_types::chain::{
    ChainPage, CheckpointBlock, PAGE_BYTES_MAX, SNAPSHOT_HEAD_BYTES_MAX, SeatChanges, SnapshotHead,
};
use tg_types::chunks::{CHUNK_BYTES, CHUNKS_MAX, ChunkTree};
use tg_types::{
    Address, Amount, BidId, ChainDomain, Decode as _, Digest, Encode, Fees, Heartbeat, JobId,
    JobOrder, LeaseId, ModelId, NonceLane, OfferId, Reader, SignedTransaction, Transaction,
    TransactionId, Wallet,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::answer::JsonAnswer;
use crate::dto::{
    AccountDto, BidDto, CloudPricesDto, DevelopmentAccountDto, DryRunDto, FaucetRequestDto, JobDto,
    JobEventsDto, JobPageDto, JobReceiptDto, JobWhyDto, LeaseDto, ModeDto, ModePriceDto, ModelDto,
    ModelPageDto, OfferDto, OfferPageDto, Paged, ProviderDto, QuoteDto, QuotePageDto, RentDto,
    SeatsDto, StateAnswerDto, StateRecordDto, StatusDto, SubmittedDto, TransactionStatusDto,
};
use crate::endpoint::wire::{ENDPOINT_BYTES_MAX, SERVE_BYTES_MAX, ServeAnswer, ServeCall};
use crate::error::ClientError;
use crate::events::EventStream;
use crate::signer::Signer;
use crate::tls::{self, TlsRoots};
use crate::transport::{Call, JSON_BYTES_MAX, Payload, Transport};
use crate::turn::{SigningTurn, locked};

/// Bytes of a page of blocks that are read: its blocks, and what shows them.
const PAGE_LIMIT: usize = PAGE_BYTES_MAX + (1 << 20);

/// Bytes of requests that a provider reads at once.
const SERVE_LIMIT: usize = SERVE_BYTES_MAX + ENDPOINT_BYTES_MAX + (1 << 16);

/// How often a chunk, or the tree of them, is asked for again.
const CHUNK_TRIES: u32 = 5;

/// How long to wait before, times the tries so far.
const CHUNK_PAUSE: Duration = Duration::from_millis(300);

/// Items of a page that is asked for: the most that a server gives.
const PAGE_ITEMS: usize = 200;

/// Items of a list that a client reads: more than any table of the ledger holds.
const LIST_ITEMS_MAX: usize = 1 << 17;

/// Quotes that are read: the first ones are the ones that an order would take.
const QUOTES_READ: usize = 200;

/// Jobs that are listed unless the caller says otherwise.
const JOBS_LISTED: usize = 50;

/// A client of one grid's HTTP API. Cloning is cheap and shares connections.
///
/// ```no_run
/// # async fn f() -> Result<(), tg_sdk::ClientError> {
/// let client = tg_sdk::Client::new("http://127.0.0.1:7070")?;
/// println!("height {}", client.status().await?.height);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
    uploader: Option<Wallet>,
    trust: Arc<ApiTrust>,
}

/// What is believed of an API, for all clones of a client.
#[derive(Debug, Default)]
struct ApiTrust {
    /// What is signed for. Without one that the caller knows it is what the API first said.
    domain: OnceLock<ChainDomain>,
    /// Whether the API is of the caller's own node.
    is_own: AtomicBool,
    /// Held from asking for a nonce until what is signed with it was sent, so that what one process signs at once has nonces of its own.
    signing: AsyncMutex<()>,
    /// What is locked while something is signed, if other processes have the same key.
    turn: OnceLock<PathBuf>,
}

/// Which jobs to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Only this requestor's.
    pub requestor: Option<Address>,
    /// Only those of which this provider has or had a lease.
    pub provider: Option<Address>,
    /// Only those whose results are checked so.
    pub mode: Option<ModeDto>,
    /// At most so many, newest first; 50 if absent.
    pub limit: Option<u32>,
}

impl Client {
    /// A client of the API at `url`, such as `http://127.0.0.1:7070` or `https://grid.example.org`, which is checked against
    /// the certificates that the system trusts. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::InvalidUrl`]; [`ClientError::NoRoots`] if the system trusts no certificate.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let roots = tls::roots_for(url).map_err(|source| ClientError::NoRoots {
            url: url.to_owned(),
            source,
        })?;
        Self::trusting(url, &roots)
    }

    /// A client of the API at `url`, whose certificate, if it has one, is checked against those of `roots`.
    ///
    /// # Errors
    /// [`ClientError::InvalidUrl`].
    pub fn trusting(url: &str, roots: &TlsRoots) -> Result<Self, ClientError> {
        Ok(Self {
            transport: Transport::new(url, roots)?,
            uploader: None,
            trust: Arc::default(),
        })
    }

    /// Says that the API is of the caller's own node, or that nothing is lost by its lies: what it tells of nonces and leases is then
    /// believed. It holds for all clones of this client.
    #[must_use]
    pub fn of_own_node(self) -> Self {
        self.believe();
        self
    }

    /// The same of a client that is in use.
    pub fn believe(&self) {
        self.trust.is_own.store(true, Ordering::Relaxed);
    }

    /// Whether the API is of the caller's own node.
    #[must_use]
    pub fn is_own_node(&self) -> bool {
        self.trust.is_own.load(Ordering::Relaxed)
    }

    /// Whether the API's address is of this machine (`localhost`, 127.0.0.0/8, `::1`): what answers there was started here, or is led here.
    #[must_use]
    pub const fn is_on_this_machine(&self) -> bool {
        self.transport.is_loopback()
    }

    /// Signs for the network of a domain alone, whatever the API says that it is of; for all clones of this client.
    ///
    /// # Errors
    /// [`ClientError::OtherNetwork`] if it signs for another one already.
    pub fn pin(&self, domain: ChainDomain) -> Result<(), ClientError> {
        let pinned = *self.trust.domain.get_or_init(|| domain);
        match pinned == domain {
            true => Ok(()),
            false => Err(self.other_network(&domain, &pinned)),
        }
    }

    /// Signs in turn with the other processes that use one key: each of them names the same file, which is made and held locked while a transaction
    /// is signed and sent. Without it two that sign at once have one nonce, and one of them is refused.
    pub fn sign_in_turn(&self, file: PathBuf) {
        let _named_before = self.trust.turn.set(file);
    }

    /// Held while a transaction is signed and sent: this process has one turn at a time, and so have those that use the same key, as far as the file
    /// of their turn can be locked.
    pub(crate) async fn signing(&self) -> SigningTurn<'_> {
        let own = self.trust.signing.lock().await;
        let file = match self.trust.turn.get() {
            Some(path) => locked(path).await,
            None => None,
        };
        SigningTurn::of(own, file)
    }

    /// Changes the longest wait for an answer; 30 s otherwise.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.transport.set_limit(limit);
        self
    }

    /// The same client, whose uploads are signed by `wallet`: a grid stores blobs only of accounts that have money or
    /// live leases.
    #[must_use]
    pub fn uploading_as(&self, wallet: &Wallet) -> Self {
        Self {
            transport: self.transport.clone(),
            uploader: Some(wallet.clone()),
            trust: Arc::clone(&self.trust),
        }
    }

    /// The address of the API.
    #[must_use]
    pub fn url(&self) -> &str {
        self.transport.base()
    }

    /// Who signs for uploads.
    pub(crate) const fn uploader(&self) -> Option<&Wallet> {
        self.uploader.as_ref()
    }

    /// How calls are made.
    pub(crate) const fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Brings a gateway what a provider of an endpoint answers, and gets the requests that came: waits for some as long as the call
    /// says.
    ///
    /// # Errors
    /// Those of any call; status 401 if the lease is not the caller's or the token is of before, 404 if there is no such lease.
    pub async fn serve(
        &self,
        lease: LeaseId,
        call: &ServeCall,
    ) -> Result<ServeAnswer, ClientError> {
        let path = format!("/v1/leases/{lease}/serve");
        let payload = Payload::Bytes(call.to_bytes());
        let bytes = self
            .transport
            .call(Method::POST, &path, payload, SERVE_LIMIT)
            .await?;
        ServeAnswer::from_bytes(&bytes).map_err(|source| ClientError::Malformed { path, source })
    }

    /// A sealed bid.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none, or it was opened or forfeited.
    pub async fn bid(&self, id: BidId) -> Result<BidDto, ClientError> {
        let path = format!("/v1/bids/{id}");
        let bid: BidDto = self.get(&path).await?;
        self.same(path, (id, bid.id))?;
        Ok(bid)
    }

    /// The rent of a record: an offer, a model or a job by its id, a provider by its address.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is no such record, or it pays no rent.
    pub async fn rent(&self, record: impl fmt::Display + Send) -> Result<RentDto, ClientError> {
        self.get(&format!("/v1/rent/{record}")).await
    }

    /// What clouds ask for hardware, by the table that the node was started with.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn cloud_prices(&self) -> Result<CloudPricesDto, ClientError> {
        self.get("/v1/clouds").await
    }

    /// What the grid is and where it stands.
    ///
    /// # Errors
    /// Those of any call: see [`ClientError`]; [`ClientError::OtherNetwork`] if it is not what this client signs for.
    pub async fn status(&self) -> Result<StatusDto, ClientError> {
        let status: StatusDto = self.get("/v1/status").await?;
        // Stops: a signature that the API gets for a network which the caller does not mean.
        self.pinned(status.domain.clone().into())?;
        Ok(status)
    }

    fn pinned(&self, told: ChainDomain) -> Result<(), ClientError> {
        let expected = *self.trust.domain.get_or_init(|| told);
        if expected == told {
            return Ok(());
        }
        Err(self.other_network(&expected, &told))
    }

    fn other_network(&self, expected: &ChainDomain, got: &ChainDomain) -> ClientError {
        ClientError::OtherNetwork {
            url: self.url().to_owned(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// Whether what came is what was asked for by its id.
    fn same<I: PartialEq + fmt::Display>(
        &self,
        path: String,
        (asked, got): (I, I),
    ) -> Result<(), ClientError> {
        // Stops: another model, job or price that is shown under the name of the one that was asked for.
        if asked == got {
            return Ok(());
        }
        Err(ClientError::OtherAnswer {
            url: self.url().to_owned(),
            path,
            asked: asked.to_string(),
            got: got.to_string(),
        })
    }

    /// What signatures of this grid are bound to.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn domain(&self) -> Result<ChainDomain, ClientError> {
        Ok(self.status().await?.domain.into())
    }

    /// Final blocks from a height on, with what shows them. With none there, the grid waits for one for `wait` at most, 10 s,
    /// and then gives a page without blocks. Nothing is checked.
    ///
    /// # Errors
    /// Those of any call; status 404 if this node does not have what shows them.
    pub async fn chain_page(&self, from: u64, wait: Duration) -> Result<ChainPage, ClientError> {
        let path = format!("/v1/chain/blocks?from={from}&wait_ms={}", wait.as_millis());
        let bytes = self
            .transport
            .call(Method::GET, &path, Payload::Empty, PAGE_LIMIT)
            .await?;
        ChainPage::from_bytes(&bytes).map_err(|source| ClientError::Malformed { path, source })
    }

    /// The validators, who waits for a seat, and whose bond is not returned yet.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn seats(&self) -> Result<SeatsDto, ClientError> {
        self.transport
            .json(Method::GET, "/v1/seats", Payload::Empty)
            .await
    }

    /// Changes of the set of validators above a height, ascending, 16 at most. Nothing is checked.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn seat_changes(&self, above: u64) -> Result<SeatChanges, ClientError> {
        let path = format!("/v1/chain/seats?above={above}");
        let bytes = self
            .transport
            .call(Method::GET, &path, Payload::Empty, PAGE_LIMIT)
            .await?;
        SeatChanges::from_bytes(&bytes).map_err(|source| ClientError::Malformed { path, source })
    }

    /// The final block of a height, or the newest, with the validators after it, as the grid says. Nothing is checked: a
    /// [`Checkpoint`](tg_types::chain::Checkpoint) is what it is checked against.
    ///
    /// # Errors
    /// Those of any call; status 404 if this node does not have it.
    pub async fn checkpoint_block(
        &self,
        height: Option<u64>,
    ) -> Result<CheckpointBlock, ClientError> {
        let path = match height {
            Some(height) => format!("/v1/chain/checkpoint?height={height}"),
            None => "/v1/chain/checkpoint".to_owned(),
        };
        let bytes = self
            .transport
            .call(Method::GET, &path, Payload::Empty, PAGE_LIMIT)
            .await?;
        CheckpointBlock::from_bytes(&bytes)
            .map_err(|source| ClientError::Malformed { path, source })
    }

    /// The certificate by which a view of a consensus epoch was skipped, if the node keeps it. Nothing is checked.
    ///
    /// # Errors
    /// Those of any call but that there is none.
    pub async fn skipped_view(
        &self,
        (epoch, view): (u64, u64),
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let path = format!("/v1/chain/skipped?epoch={epoch}&view={view}");
        let call = self
            .transport
            .call(Method::GET, &path, Payload::Empty, PAGE_LIMIT);
        match call.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ClientError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A state to begin at, with its bytes, of at most `limit` bytes in all. Nothing is checked.
    ///
    /// # Errors
    /// Those of any call; status 404 if the grid has none yet.
    pub async fn chain_snapshot(
        &self,
        limit: usize,
    ) -> Result<(SnapshotHead, Vec<u8>), ClientError> {
        let path = "/v1/chain/snapshot";
        let mut bytes = self
            .transport
            .call(Method::GET, path, Payload::Empty, limit)
            .await?;
        let malformed = |source| ClientError::Malformed {
            path: path.to_owned(),
            source,
        };
        let mut reader = Reader::new(&bytes);
        let head = reader.bytes("snapshot head", SNAPSHOT_HEAD_BYTES_MAX);
        let head = head.map_err(malformed)?;
        let length = 4 + head.len();
        let head = SnapshotHead::from_bytes(head).map_err(malformed)?;
        Ok((head, bytes.split_off(length)))
    }

    /// The chunks of a blob. Whoever asks checks that they are those of its name.
    ///
    /// # Errors
    /// Those of any call; status 404 if the grid does not have it.
    pub async fn chunk_tree(&self, digest: Digest) -> Result<ChunkTree, ClientError> {
        let path = format!("/v1/blobs/{digest}/chunks");
        let limit = 64 + 32 * CHUNKS_MAX;
        let bytes = self
            .transport
            .call(Method::GET, &path, Payload::Empty, limit)
            .await?;
        ChunkTree::from_bytes(&bytes).map_err(|source| ClientError::Malformed { path, source })
    }

    /// One chunk of a blob. Nothing is checked but that it is no larger than chunks are.
    ///
    /// # Errors
    /// Those of any call; status 404 if the grid does not have it.
    pub async fn chunk(&self, digest: Digest, index: u64) -> Result<Vec<u8>, ClientError> {
        let path = format!("/v1/blobs/{digest}/chunks/{index}");
        let limit = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
        self.transport
            .call(Method::GET, &path, Payload::Empty, limit)
            .await
    }

    /// Fetches a blob of at most `limit` bytes and checks its digest. If it may be larger than a MiB, its tree of chunks comes first and then
    /// chunk by chunk, each of which is checked: what breaks off is asked for again, a few times with a growing pause, and nothing
    /// that came is asked for twice. Whoever needs to go on in a later call keeps the chunks: [`Self::checked_tree`] and
    /// [`Self::checked_chunk`].
    ///
    /// # Errors
    /// Those of any call; [`ClientError::TooLarge`]; [`ClientError::WrongBlob`] if the server lies.
    pub async fn blob(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, ClientError> {
        if limit as u64 <= CHUNK_BYTES {
            return self.whole_blob(digest, limit).await;
        }
        let tree = self.checked_tree(digest, limit).await?;
        let mut blob = Vec::with_capacity(usize::try_from(tree.size()).unwrap_or(0));
        for index in 0..tree.chunks() {
            blob.extend_from_slice(&self.checked_chunk(digest, &tree, index).await?);
        }
        Ok(blob)
    }

    /// The chunks of a blob of at most `limit` bytes, after a look that they are those of its name.
    ///
    /// # Errors
    /// Those of [`Self::blob`].
    pub async fn checked_tree(
        &self,
        digest: Digest,
        limit: usize,
    ) -> Result<ChunkTree, ClientError> {
        let tree = over_cuts(|| self.chunk_tree(digest)).await?;
        if tree.size() > limit as u64 {
            return Err(ClientError::TooLarge {
                path: format!("/v1/blobs/{digest}"),
                limit,
            });
        }
        match tree.is_of(&digest) {
            true => Ok(tree),
            false => Err(wrong_blob(digest, &tree.to_bytes())),
        }
    }

    /// One chunk of a blob whose chunks these are, after a look that it is; it is asked for again if the connection breaks.
    ///
    /// # Errors
    /// Those of [`Self::blob`].
    pub async fn checked_chunk(
        &self,
        digest: Digest,
        tree: &ChunkTree,
        index: u64,
    ) -> Result<Vec<u8>, ClientError> {
        let chunk = over_cuts(|| self.chunk(digest, index)).await?;
        match tree.is_chunk(&digest, index, &chunk) {
            true => Ok(chunk),
            false => Err(wrong_blob(digest, &chunk)),
        }
    }

    /// A small blob in one answer.
    async fn whole_blob(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, ClientError> {
        let path = format!("/v1/blobs/{digest}");
        let bytes = self
            .transport
            .call(Method::GET, &path, Payload::Empty, limit)
            .await?;
        match Digest::of_blob(&bytes) == digest {
            true => Ok(bytes),
            false => Err(wrong_blob(digest, &bytes)),
        }
    }

    /// Submits a signed transaction. Submitting it again gives the same id.
    ///
    /// # Errors
    /// Those of any call; a refusal carries the ledger's code.
    pub async fn submit(&self, signed: &SignedTransaction) -> Result<TransactionId, ClientError> {
        let answer: SubmittedDto = self
            .transport
            .json(
                Method::POST,
                "/v1/transactions",
                Payload::Bytes(signed.to_bytes()),
            )
            .await?;
        Ok(answer.transaction)
    }

    /// What became of a transaction that the grid took lately.
    ///
    /// # Errors
    /// Those of any call; status 404 if the grid does not remember it.
    pub async fn transaction(
        &self,
        id: TransactionId,
    ) -> Result<TransactionStatusDto, ClientError> {
        let path = format!("/v1/transactions/{id}");
        let status: TransactionStatusDto = self.get(&path).await?;
        self.same(path, (id, status.transaction))?;
        Ok(status)
    }

    /// Signs a transaction here, with the account's next nonce and four times the base fee at most, and submits it. The key
    /// stays in this process.
    ///
    /// # Errors
    /// Those of any call. Two concurrent calls for one account may take the same nonce; the second is refused.
    pub async fn sign_and_submit(
        &self,
        wallet: &Wallet,
        transaction: Transaction,
    ) -> Result<SignedTransaction, ClientError> {
        let signed = self.signed(wallet, transaction).await?;
        self.submit(&signed).await?;
        Ok(signed)
    }

    /// Signs a transaction as [`Client::sign_and_submit`] does, and does not submit it.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn signed(
        &self,
        signer: impl Into<Signer<'_>>,
        transaction: Transaction,
    ) -> Result<SignedTransaction, ClientError> {
        let signer = signer.into();
        let nonce = self.next_nonce(&signer.lane()).await?;
        self.signed_at(signer, transaction, nonce).await
    }

    /// The same with a nonce of the caller's choice.
    ///
    /// # Errors
    /// Those of [`Client::signed`].
    pub async fn signed_at(
        &self,
        signer: impl Into<Signer<'_>>,
        transaction: Transaction,
        nonce: u64,
    ) -> Result<SignedTransaction, ClientError> {
        let signer = signer.into();
        let status = self.status().await?;
        let fees = told_apart(self.fees(status.base_fee_per_gas)?);
        Ok(signer.sign_with_fees(transaction, nonce, fees, &status.domain.into()))
    }

    /// The nonce of the next transaction of an account, or of a session key; zero for a key that the account does not have.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn next_nonce(&self, lane: &NonceLane) -> Result<u64, ClientError> {
        let account = self.account(lane.account()).await?;
        Ok(account.next_nonce(lane))
    }

    /// What is offered at the base fee that the API tells, of another's node bounded by what is offered on a stranger's word
    /// ([`Fees::from_told_base_fee`]).
    ///
    /// # Errors
    /// [`ClientError::BaseFee`] if it tells more.
    pub fn fees(&self, told: Amount) -> Result<Fees, ClientError> {
        if self.is_own_node() {
            return Ok(Fees::from_base_fee(told));
        }
        Fees::from_told_base_fee(told).map_err(|source| ClientError::BaseFee {
            url: self.url().to_owned(),
            source,
        })
    }

    /// An account; one never seen is empty.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn account(&self, address: Address) -> Result<AccountDto, ClientError> {
        let path = format!("/v1/accounts/{address}");
        let account: AccountDto = self.get(&path).await?;
        self.same(path, (address, account.address))?;
        Ok(account)
    }

    /// What the newest final state has under the bytes of an id, with what shows it. [`crate::light`] checks it.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn state_answer(
        &self,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<StateAnswerDto, ClientError> {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.get(&format!("/v1/proofs/{}/0x{id}", record.as_str()))
            .await
    }

    /// All models, oldest first.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn models(&self) -> Result<Vec<ModelDto>, ClientError> {
        let mut models = self
            .list::<ModelPageDto>("/v1/models?", LIST_ITEMS_MAX)
            .await?;
        models.sort_by_key(|model| (model.registered_ms, model.id));
        Ok(models)
    }

    /// One model.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none.
    pub async fn model(&self, id: ModelId) -> Result<ModelDto, ClientError> {
        let path = format!("/v1/models/{id}");
        let model: ModelDto = self.get(&path).await?;
        self.same(path, (id, model.id))?;
        Ok(model)
    }

    /// What each way of checking a result would come to for one usual job on a model, of which a wrong answer would cost
    /// `value_at_risk` beside the price.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is no such model.
    pub async fn mode_prices(
        &self,
        model: ModelId,
        value_at_risk: Amount,
    ) -> Result<Vec<ModePriceDto>, ClientError> {
        let path = format!("/v1/models/{model}/modes?value_at_risk={value_at_risk}");
        self.get(&path).await
    }

    /// What open offers would ask for one job on a model, in the order of the scheduler; the first 200.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is no such model.
    pub async fn quotes(
        &self,
        model: ModelId,
        mode: ModeDto,
    ) -> Result<Vec<QuoteDto>, ClientError> {
        self.quotes_at_risk(model, mode, Amount::ZERO).await
    }

    /// The same for a job of which a wrong answer would cost `value_at_risk` beside the price.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is no such model.
    pub async fn quotes_at_risk(
        &self,
        model: ModelId,
        mode: ModeDto,
        value_at_risk: Amount,
    ) -> Result<Vec<QuoteDto>, ClientError> {
        let path = format!("/v1/models/{model}/quotes?mode={mode}&value_at_risk={value_at_risk}&");
        self.list::<QuotePageDto>(&path, QUOTES_READ).await
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobDto>, ClientError> {
        let JobFilter {
            requestor,
            provider,
            mode,
            limit,
        } = filter;
        let requestor = requestor.map_or_else(String::new, |it| format!("requestor={it}&"));
        let mode = mode.map_or_else(String::new, |it| format!("mode={it}&"));
        let provider = provider.map_or_else(String::new, |it| format!("provider={it}&"));
        let query = requestor + &provider + &mode;
        let most = limit.map_or(JOBS_LISTED, |limit| {
            usize::try_from(limit).unwrap_or(LIST_ITEMS_MAX)
        });
        self.list::<JobPageDto>(&format!("/v1/jobs?{query}"), most)
            .await
    }

    /// One job.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none.
    pub async fn job(&self, id: JobId) -> Result<JobDto, ClientError> {
        let path = format!("/v1/jobs/{id}");
        let job: JobDto = self.get(&path).await?;
        self.same(path, (id, job.id))?;
        Ok(job)
    }

    /// What an order of `requestor` would come to in the next block. Nothing is ordered.
    ///
    /// # Errors
    /// Those of any call; with the ledger's code if the order would be refused.
    pub async fn dry_run(
        &self,
        requestor: Address,
        order: &JobOrder,
    ) -> Result<DryRunDto, ClientError> {
        let path = format!("/v1/jobs/dry-run?requestor={requestor}");
        self.transport
            .json(Method::POST, &path, Payload::Bytes(order.to_bytes()))
            .await
    }

    /// Why a job is where it is.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none.
    pub async fn job_why(&self, id: JobId) -> Result<JobWhyDto, ClientError> {
        let path = format!("/v1/jobs/{id}/why");
        let why: JobWhyDto = self.get(&path).await?;
        self.same(path, (id, why.job))?;
        Ok(why)
    }

    /// What blocks did with a job, as far as the node that is asked remembers.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none.
    pub async fn job_events(&self, id: JobId) -> Result<JobEventsDto, ClientError> {
        self.get(&format!("/v1/jobs/{id}/events")).await
    }

    /// The receipt of a finished job.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is no such job or it has no result.
    pub async fn job_receipt(&self, id: JobId) -> Result<JobReceiptDto, ClientError> {
        let path = format!("/v1/jobs/{id}/receipt");
        let receipt: JobReceiptDto = self.get(&path).await?;
        self.same(path.clone(), (id, receipt.job.id))?;
        self.same(path, (id, receipt.lease.job))?;
        Ok(receipt)
    }

    /// All open offers.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn offers(&self) -> Result<Vec<OfferDto>, ClientError> {
        self.list::<OfferPageDto>("/v1/offers?", LIST_ITEMS_MAX)
            .await
    }

    /// All open offers of one provider.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn offers_of(&self, provider: Address) -> Result<Vec<OfferDto>, ClientError> {
        let path = format!("/v1/offers?provider={provider}&");
        self.list::<OfferPageDto>(&path, LIST_ITEMS_MAX).await
    }

    /// One open offer.
    ///
    /// # Errors
    /// Those of any call; status 404 if there is none.
    pub async fn offer(&self, id: OfferId) -> Result<OfferDto, ClientError> {
        let path = format!("/v1/offers/{id}");
        let offer: OfferDto = self.get(&path).await?;
        self.same(path, (id, offer.id))?;
        Ok(offer)
    }

    /// A provider: its history and its open offers.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn provider(&self, address: Address) -> Result<ProviderDto, ClientError> {
        let path = format!("/v1/providers/{address}");
        let provider: ProviderDto = self.get(&path).await?;
        self.same(path, (address, provider.address))?;
        Ok(provider)
    }

    /// A provider's leases that have not ended, oldest first.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn leases(&self, provider: Address) -> Result<Vec<LeaseDto>, ClientError> {
        self.get(&format!("/v1/providers/{provider}/leases")).await
    }

    /// Tells that a provider is there.
    ///
    /// # Errors
    /// Those of any call; status 422 if it is of another time, or of no provider.
    pub async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), ClientError> {
        let payload = Payload::Bytes(heartbeat.to_bytes());
        let answer = self
            .transport
            .call(Method::POST, "/v1/heartbeats", payload, 0)
            .await;
        answer.map(drop)
    }

    /// What finalised blocks do, from now on.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn events(&self) -> Result<EventStream, ClientError> {
        EventStream::open(self.transport.clone(), None).await
    }

    /// What finalised blocks did after an event, by its id or the height of a block, as far as the node keeps it, and do from now on.
    ///
    /// # Errors
    /// Those of any call; status 400 if it is no id of an event.
    pub async fn events_after(&self, event: &str) -> Result<EventStream, ClientError> {
        EventStream::open(self.transport.clone(), Some(event)).await
    }

    /// The funded accounts of a development network.
    ///
    /// # Errors
    /// Those of any call; status 404 on any other network.
    pub async fn development_accounts(&self) -> Result<Vec<DevelopmentAccountDto>, ClientError> {
        self.get("/v1/dev/accounts").await
    }

    /// Asks the faucet of a development network for play money.
    ///
    /// # Errors
    /// Those of any call; status 404 on any other network.
    pub async fn faucet(&self, request: &FaucetRequestDto) -> Result<SubmittedDto, ClientError> {
        let path = "/v1/dev/faucet";
        let json = serde_json::to_vec(request).map_err(|source| ClientError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        self.transport
            .json(Method::POST, path, Payload::Json(json))
            .await
    }

    /// Reads the pages of a list up to `most` items. `path` ends where a query goes on.
    async fn list<P: Paged + JsonAnswer>(
        &self,
        path: &str,
        most: usize,
    ) -> Result<Vec<P::Item>, ClientError> {
        let most = most.min(LIST_ITEMS_MAX);
        let mut items = Vec::new();
        let mut after = String::new();
        while items.len() < most {
            let limit = (most - items.len()).min(PAGE_ITEMS);
            let page: P = self.get(&format!("{path}limit={limit}{after}")).await?;
            let (more, next) = page.into_parts();
            // A page without items that names a next one would go on for ever.
            let is_last = more.is_empty();
            items.extend(more);
            match next.filter(|_| !is_last) {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        items.truncate(most);
        Ok(items)
    }

    async fn get<T: JsonAnswer>(&self, path: &str) -> Result<T, ClientError> {
        let bytes = self.read(path).await?;
        T::read(path, &bytes)
    }

    /// What is read changes nothing: while the node says that it is busy it is asked again, up to [`READ_PATIENCE`].
    fn read<'a>(&'a self, path: &'a str) -> Call<'a, Vec<u8>> {
        Box::pin(async move {
            let started = Instant::now();
            loop {
                let call = self
                    .transport
                    .call(Method::GET, path, Payload::Empty, JSON_BYTES_MAX);
                let read = call.await;
                let is_busy = read.as_ref().is_err_and(ClientError::is_busy);
                if !is_busy || started.elapsed() > READ_PATIENCE {
                    return read;
                }
                tokio::time::sleep(a_while()).await;
            }
        })
    }
}

/// Bytes that are not those of a blob's name.
/// What a call gives that is made again a few times if its connection breaks or the grid is busy.
async fn over_cuts<T, F: Future<Output = Result<T, ClientError>>>(
    call: impl Fn() -> F,
) -> Result<T, ClientError> {
    let mut tries = 0;
    loop {
        match call().await {
            Err(error) if error.is_transient() && tries < CHUNK_TRIES => {
                tries += 1;
                tokio::time::sleep(CHUNK_PAUSE * tries).await;
            }
            ended => return ended,
        }
    }
}

fn wrong_blob(expected: Digest, bytes: &[u8]) -> ClientError {
    ClientError::WrongBlob {
        expected,
        got: Digest::of_blob(bytes),
    }
}

/// How long a call that reads is repeated while the node is busy.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// Between 100 and 355 ms: many who were refused together do not come again together.
pub(crate) fn a_while() -> Duration {
    let drawn = std::hash::BuildHasher::build_hasher(&std::hash::RandomState::new());
    Duration::from_millis(100 + std::hash::Hasher::finish(&drawn) % 256)
}

/// The same offer but for the last thousandth of the maximum, drawn anew: two calls that want the same thing with one nonce
/// at once are two transactions, of which one is refused and signed again, and not one that both take for theirs.
fn told_apart(fees: Fees) -> Fees {
    let drawn = std::hash::BuildHasher::build_hasher(&std::hash::RandomState::new());
    let drawn = u128::from(std::hash::Hasher::finish(&drawn));
    let most = fees.max_fee_per_gas.get() / 1_000;
    Fees {
        max_fee_per_gas: fees
            .max_fee_per_gas
            .saturating_add(Amount::new(drawn % most.max(1))),
        ..fees
    }
}
