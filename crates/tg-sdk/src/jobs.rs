//! One job from order to checked result, as a client that trusts nobody sees it: the input is quantised here, the order is
//! signed here, and the proof that comes back is verified here, against a model that was checked here.

use std::time::{Duration, Instant};

use tg_ir::tensor::top_class;
use tg_types::sealing::SEALED_ANSWER_OVERHEAD;
use tg_types::{
    Address, Amount, Digest, JobId, JobOrder, LeaseId, ModelId, SignedTransaction, Transaction,
    VerificationMode, Wallet, signed,
};

use crate::client::{Client, a_while};
use crate::dto::{
    DisputeTurnDto, DryRunDto, JobDto, JobReceiptDto, JobStateDto, JobWhyDto, LeaseDto, ModeDto,
    ModePriceDto, ModelDto, ModelStateDto, QuoteDto,
};
use crate::error::ClientError;
use crate::job_error::Doing;
pub use crate::job_error::JobError;
use crate::placed::placed;
use crate::retry::{NONCES_MAX, Retry, account_may_sign, retry_of};
use crate::signer::{AccountKeys, Signer};
use crate::verify::{CheckedModel, Expected, OrderTerms, PUBLIC_MODEL_BYTES_MAX, RankedScore};

/// Largest output that is fetched, in bytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// How often the job's state is asked.
const POLL: Duration = Duration::from_millis(150);

/// How long the grid may be away while a job is followed.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// How long a transaction is signed again because another one of the account was faster, or the grid is busy.
const SIGN_MAX: Duration = Duration::from_secs(60);

/// How long a call is repeated that a busy grid refused.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// How often it is asked why a job waits.
const WHY: Duration = Duration::from_secs(2);

/// A result that was checked here.
#[derive(Debug)]
pub struct Inference {
    /// What stands behind it.
    pub receipt: JobReceiptDto,
    /// The integers of the outputs in storage order, one output after the other.
    pub values: Vec<i32>,
    /// How many of them are the first output's.
    pub first: usize,
    /// The proof; present for mode proof alone.
    pub proof: Option<CheckedProof>,
}

impl Inference {
    /// Index of the greatest integer of the first output, the lowest of equal ones.
    #[must_use]
    pub fn greatest(&self) -> usize {
        let first = self.values.get(..self.first).unwrap_or(&self.values);
        top_class(first).unwrap_or(0)
    }
}

/// A proof that was verified here.
#[derive(Debug)]
pub struct CheckedProof {
    /// The proof file.
    pub file: Vec<u8>,
    /// How long verifying took here.
    pub verify_ms: f64,
    /// Whether it is in zero knowledge.
    pub zk: bool,
}

/// What was ordered, as its requestor signed it: what a result is checked against, whatever the grid tells of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedJob {
    /// The job that the order became.
    pub job: JobId,
    /// The model.
    pub model: ModelId,
    /// The digest of the input.
    pub input: Digest,
    /// How the result is checked.
    pub mode: ModeDto,
}

impl OrderedJob {
    /// The order of an input for a model.
    #[must_use]
    pub fn new(job: JobId, model: ModelId, input: &[u8], mode: ModeDto) -> Self {
        Self {
            job,
            model,
            input: Digest::of_blob(input),
            mode,
        }
    }

    /// What a signed or a proved order says.
    #[must_use]
    pub fn of_order(job: JobId, order: &JobOrder) -> Self {
        Self {
            job,
            model: order.model,
            input: order.input,
            mode: order.mode.into(),
        }
    }

    /// What the API tells of a job that was not ordered here: its word alone, but for the job's id.
    #[must_use]
    pub const fn as_told(job: &JobDto) -> Self {
        Self {
            job: job.id,
            model: job.model,
            input: job.input,
            mode: job.mode,
        }
    }

    /// Whether what the grid tells is about this order.
    ///
    /// # Errors
    /// [`JobError::OtherJob`] with what differs.
    pub fn check(&self, job: &JobDto) -> Result<(), JobError> {
        let Self {
            job: id,
            model,
            input,
            mode,
        } = self;
        self.same("id", (id, &job.id))?;
        self.same("model", (model, &job.model))?;
        self.same("input", (input, &job.input))?;
        self.same("mode", (mode, &job.mode))
    }

    /// The same for what stands behind a result.
    fn check_receipt(&self, receipt: &JobReceiptDto) -> Result<(), JobError> {
        self.check(&receipt.job)?;
        self.same("lease's job", (&self.job, &receipt.lease.job))?;
        self.same("result's model", (&self.model, &receipt.receipt.model))?;
        self.same("result's input", (&self.input, &receipt.receipt.input))
    }

    // Stops: an old result of another job or input that is shown as the answer.
    fn same<T: PartialEq + std::fmt::Display>(
        &self,
        what: &'static str,
        (signed, told): (&T, &T),
    ) -> Result<(), JobError> {
        if signed == told {
            return Ok(());
        }
        Err(JobError::OtherJob {
            job: self.job,
            what,
            signed: signed.to_string(),
            told: told.to_string(),
        })
    }
}

/// The model of an id, the beginning of an id (6 digits or more), or a name. Of several active ones of a name the oldest is
/// taken, as the grid tells it: whoever asked by a name has to be shown the id.
///
/// # Errors
/// [`JobError::NoModel`], [`JobError::SeveralModels`], and those of any call.
pub async fn find_model(client: &Client, name: &str) -> Result<ModelDto, JobError> {
    if let Some(id) = tg_types::ModelId::from_hex(name) {
        return client.model(id).await.doing("find the model");
    }
    let models = client.models().await.doing("list the models")?;
    let begins = |model: &&ModelDto| name.len() >= 6 && model.id.to_string().starts_with(name);
    let by_id: Vec<&ModelDto> = models.iter().filter(begins).collect();
    if let [_, _, ..] = by_id[..] {
        return Err(JobError::SeveralModels {
            name: name.to_owned(),
            ids: by_id.iter().map(|model| model.id.to_string()).collect(),
        });
    }
    let named = |model: &&ModelDto| model.name == name || begins(model);
    let active = |model: &&ModelDto| named(model) && model.state == ModelStateDto::Active;
    let found = models.iter().find(active);
    let found = found.or_else(|| models.iter().find(named)).cloned();
    found.ok_or_else(|| JobError::NoModel {
        name: name.to_owned(),
        known: models.into_iter().map(|model| model.name).collect(),
    })
}

/// Fetches a model's public part and checks that it is that model's, with its registration proof.
///
/// # Errors
/// If the model is not active, or its public part is not what it should be; those of any call.
pub async fn public_model(client: &Client, model: &ModelDto) -> Result<CheckedModel, JobError> {
    if model.state != ModelStateDto::Active {
        let why = model.refusal.as_deref();
        let why = why.unwrap_or("validators still check it, or too few hold its files yet");
        return Err(JobError::NotActive {
            name: model.name.clone(),
            state: model.state,
            why: why.to_owned(),
        });
    }
    let bytes = client
        .blob(model.public_blob, PUBLIC_MODEL_BYTES_MAX)
        .await
        .doing("fetch the public model")?;
    Ok(CheckedModel::read(&bytes, model.id)?)
}

/// The maximum price of an order that names none, as the grid works it out for its quotes; `None` if no offer could
/// ever serve the order.
#[must_use]
pub fn usual_max_price(quotes: &[QuoteDto]) -> Option<Amount> {
    let serving = quotes.iter().find(|quote| quote.serves);
    serving.map(|quote| quote.max_price)
}

/// How a result is checked whose order does not say so: by a committee where an offer has the stake for it, which costs least;
/// else by a proof; else by validators that run it again; by a watcher where the model is too large for all of these. `None` if nobody serves
/// the model in any of these ways.
#[must_use]
pub fn usual_mode(prices: &[ModePriceDto]) -> Option<ModeDto> {
    let preferred = [ModeDto::Sync, ModeDto::Proof, ModeDto::Recompute];
    let of_mode = |mode: ModeDto| prices.iter().filter(move |price| price.mode == mode);
    let is_served =
        |mode: ModeDto| of_mode(mode).any(|price| price.refused.is_none() && price.offers > 0);
    if let Some(mode) = preferred.into_iter().find(|it| is_served(*it)) {
        return Some(mode);
    }
    let mut all = preferred.into_iter().flat_map(of_mode);
    let is_refused = all.all(|price| price.refused.is_some());
    (is_refused && is_served(ModeDto::Optimistic)).then_some(ModeDto::Optimistic)
}

/// Signs and submits a transaction; sends it again while the grid is full, and signs it again with the same nonce when its fee was
/// overtaken. Under another nonce only what has no effect twice is signed again, or on the word of one's own node ([`crate::retry`]). Where
/// no answer came, nobody knows, and nothing is signed again.
///
/// # Errors
/// Those of [`Client::sign_and_submit`]; [`JobError::NonceTaken`].
pub async fn submit(
    client: &Client,
    signer: impl Into<Signer<'_>>,
    transaction: &Transaction,
    doing: &'static str,
) -> Result<SignedTransaction, JobError> {
    submit_kept(client, signer.into(), transaction, doing, &mut |_| Ok(())).await
}

/// The same with the session key of an account where it has one, and with the account's own key where the ledger refuses that one
/// ([`crate::retry::account_may_sign`]). The transaction is one that keys of scope `order` sign.
///
/// # Errors
/// Those of [`submit`].
pub async fn submit_by(
    client: &Client,
    keys: AccountKeys<'_>,
    transaction: &Transaction,
    doing: &'static str,
) -> Result<SignedTransaction, JobError> {
    submit_by_kept(client, keys, transaction, doing, &mut |_| Ok(())).await
}

/// The same for a caller that keeps each transaction before it is sent, as [`submit_kept`].
async fn submit_by_kept(
    client: &Client,
    keys: AccountKeys<'_>,
    transaction: &Transaction,
    doing: &'static str,
    keep: &mut KeepSigned<'_>,
) -> Result<SignedTransaction, JobError> {
    if let Some(session) = keys.session {
        let sent = submit_kept(client, session.into(), transaction, doing, keep).await;
        let is_own = client.is_own_node();
        let refusal = sent.as_ref().err().and_then(JobError::call);
        if !refusal.is_some_and(|error| account_may_sign(error, transaction, is_own)) {
            return sent;
        }
    }
    submit_kept(client, keys.wallet.into(), transaction, doing, keep).await
}

/// What is told of a transaction that was signed, before it is sent.
pub type KeepSigned<'a> = dyn FnMut(&SignedTransaction) -> std::io::Result<()> + Send + 'a;

/// The same for a caller that keeps each transaction before it is sent: after a restart the last one that was kept may have
/// been taken, those before it were refused.
///
/// # Errors
/// Those of [`submit`], and if one cannot be kept.
async fn submit_kept(
    client: &Client,
    signer: Signer<'_>,
    transaction: &Transaction,
    doing: &'static str,
    keep: &mut KeepSigned<'_>,
) -> Result<SignedTransaction, JobError> {
    let started = Instant::now();
    let is_own = client.is_own_node();
    // What this process signs at once has nonces of its own.
    let _turn = match is_own {
        true => None,
        false => Some(client.signing().await),
    };
    let mut nonces = 1;
    let mut signed = client.signed(signer, transaction.clone()).await;
    loop {
        let sent = signed.doing(doing)?;
        keep(&sent).map_err(JobError::NotKept)?;
        let error = match sent_patiently(client, &sent, started).await {
            Ok(()) => return Ok(sent),
            Err(error) => error,
        };
        let retry = retry_of(&error, transaction, is_own);
        let is_last = started.elapsed() > SIGN_MAX || (!is_own && nonces >= NONCES_MAX);
        signed = match retry {
            Retry::SameNonce if started.elapsed() <= SIGN_MAX => {
                tokio::time::sleep(a_while()).await;
                client
                    .signed_at(signer, transaction.clone(), sent.nonce)
                    .await
            }
            Retry::NextNonce if !is_last => {
                tokio::time::sleep(a_while()).await;
                nonces += 1;
                client.signed(signer, transaction.clone()).await
            }
            Retry::NonceTaken => {
                return Err(JobError::NonceTaken {
                    doing,
                    account: signer.account(),
                    nonce: sent.nonce,
                    source: Box::new(error),
                });
            }
            Retry::Stop | Retry::SameBytes | Retry::SameNonce | Retry::NextNonce => {
                return Err(error).doing(doing);
            }
        };
    }
}

/// Sends the same bytes as long as the grid says that it is full.
async fn sent_patiently(
    client: &Client,
    signed: &SignedTransaction,
    started: Instant,
) -> Result<(), ClientError> {
    loop {
        match client.submit(signed).await {
            Err(error) if error.is_full() && started.elapsed() <= SIGN_MAX => {
                tokio::time::sleep(a_while()).await;
            }
            answer => return answer.map(drop),
        }
    }
}

/// Repeats a call as long as the grid says that it is busy, up to 30 s. For calls alone that change nothing when they are
/// refused.
///
/// # Errors
/// Those of the call.
pub async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, ClientError> {
    let started = Instant::now();
    loop {
        let result = call().await;
        let status = result.as_ref().err().and_then(ClientError::status);
        if !matches!(status, Some(429 | 503)) || started.elapsed() > BUSY_MAX {
            return result;
        }
        tokio::time::sleep(a_while()).await;
    }
}

/// What an order would come to in the next block; nothing is stored or ordered.
///
/// # Errors
/// With the ledger's code if the order would be refused; those of any call.
pub async fn dry_run(
    client: &Client,
    requestor: Address,
    model: &CheckedModel,
    input: &[u8],
    terms: OrderTerms,
) -> Result<DryRunDto, JobError> {
    let status = client.status().await.doing("ask for the grid's time")?;
    let order = model.order(input, terms, status.ledger_time_ms);
    let answer = client.dry_run(requestor, &order).await;
    answer.doing("ask what the order would come to")
}

/// Stores an input, signs its order and submits it. `input` is what [`CheckedModel::input`] gave.
///
/// # Errors
/// With the ledger's code if the order is refused; those of any call.
pub async fn order(
    client: &Client,
    wallet: &Wallet,
    model: &CheckedModel,
    input: Vec<u8>,
    terms: OrderTerms,
) -> Result<JobId, JobError> {
    order_of(client, wallet, model.public().id(), input, terms).await
}

/// Orders an endpoint of a model: a provider that serves it until the deadline of the terms, paid by the minute and for each answer out of
/// their maximum price.
///
/// # Errors
/// With the ledger's code if the order is refused; those of any call.
pub async fn order_endpoint(
    client: &Client,
    keys: impl Into<AccountKeys<'_>>,
    model: ModelId,
    terms: OrderTerms,
) -> Result<JobId, JobError> {
    order_endpoint_kept(client, keys, model, terms, &mut |_| Ok(())).await
}

/// The same for a caller that goes on after a restart: `keep` is given the job's id before its order is sent, and an order that it cannot
/// keep is not sent. Of several that it is given the last one may have been taken, those before it were refused.
///
/// # Errors
/// Those of [`order_endpoint`], and if the order cannot be kept.
pub async fn order_endpoint_kept(
    client: &Client,
    keys: impl Into<AccountKeys<'_>>,
    model: ModelId,
    terms: OrderTerms,
    keep: &mut (dyn FnMut(JobId) -> std::io::Result<()> + Send),
) -> Result<JobId, JobError> {
    let keys = keys.into();
    let terms = OrderTerms {
        mode: tg_types::VerificationMode::Endpoint,
        ..terms
    };
    let status = patiently(|| client.status()).await;
    let status = status.doing("ask for the grid's time")?;
    let order = terms.order(model, &[], status.ledger_time_ms);
    let submission = Transaction::SubmitJob { order };
    let domain = status.domain.into();
    let mut keep = |signed: &SignedTransaction| keep(signed::job_id(signed.id(&domain)));
    let doing = "order the endpoint";
    let sent = submit_by_kept(client, keys, &submission, doing, &mut keep).await?;
    let id = sent.id(&domain);
    let job = signed::job_id(id);
    placed(client, &sent, (id, job)).await?;
    Ok(job)
}

/// The same for what the client knows by its id alone: a model or a program.
///
/// # Errors
/// With the ledger's code if the order is refused; those of any call.
pub async fn order_of(
    client: &Client,
    wallet: &Wallet,
    model: ModelId,
    input: Vec<u8>,
    terms: OrderTerms,
) -> Result<JobId, JobError> {
    order_kept(client, wallet, model, input, terms, &mut |_| Ok(())).await
}

/// The same for a caller that goes on after a restart: `keep` is given what was signed before it is sent, and an order that it
/// cannot keep is not sent. Once this returns the order is in a final block.
///
/// # Errors
/// Those of [`order_of`], and if the order cannot be kept, or no block takes it.
pub async fn order_kept(
    client: &Client,
    keys: impl Into<AccountKeys<'_>>,
    model: ModelId,
    input: Vec<u8>,
    terms: OrderTerms,
    keep: &mut KeepSigned<'_>,
) -> Result<JobId, JobError> {
    let keys = keys.into();
    let wallet = keys.wallet;
    if terms.mode == VerificationMode::Sealed {
        check_sealed(wallet, &input)?;
    }
    let status = patiently(|| client.status()).await;
    let status = status.doing("ask for the grid's time")?;
    let order = terms.order(model, &input, status.ledger_time_ms);
    let uploader = client.uploading_as(wallet);
    let stored = patiently(|| uploader.put_blob(input.clone())).await;
    if stored.as_ref().is_err_and(|it| it.status() == Some(401)) {
        // An account that may store nothing is told why it cannot order either.
        let asked = client.dry_run(wallet.address(), &order).await;
        asked.doing("order the job")?;
    }
    stored.doing("store the input")?;
    let transaction = Transaction::SubmitJob { order };
    let sent = submit_by_kept(client, keys, &transaction, "order the job", keep).await?;
    let id = sent.id(&status.domain.into());
    let job = signed::job_id(id);
    placed(client, &sent, (id, job)).await?;
    Ok(job)
}

/// Whether an input that is ordered as a sealed one is: one of this wallet. Stops: an input that is stored in the clear.
fn check_sealed(wallet: &Wallet, input: &[u8]) -> Result<(), JobError> {
    let doing = "order the input as a sealed one";
    let key = tg_privacy::JobKey::of_input(wallet, input);
    key.map(|_| ())
        .map_err(|source| JobError::Seal { doing, source })
}

/// What is told of a job that is followed.
#[derive(Debug)]
pub enum Followed<'a> {
    /// It changed.
    Changed(&'a JobDto),
    /// It waits, for another reason than before.
    Waits(&'a JobWhyDto),
}

/// Follows a job to its end and tells every new view of it, and why it waits.
///
/// # Errors
/// If the grid is away for 30 s; those of any call.
pub async fn follow(
    client: &Client,
    id: JobId,
    tell: &mut (dyn FnMut(Followed<'_>) + Send),
) -> Result<JobDto, JobError> {
    let ordered = Instant::now();
    let mut seen: Option<JobDto> = None;
    let mut answered = Instant::now();
    let mut asked = Instant::now();
    let mut reason = String::new();
    loop {
        match client.job(id).await {
            Ok(job) => {
                answered = Instant::now();
                if seen.as_ref() != Some(&job) {
                    tell(Followed::Changed(&job));
                }
                if job.state.is_final() {
                    return Ok(job);
                }
                let waits = job.state == JobStateDto::Queued;
                if waits && asked.elapsed() >= WHY {
                    asked = Instant::now();
                    // Nothing depends on it: who cannot say why now is asked again.
                    if let Ok(why) = client.job_why(id).await
                        && why.summary != reason
                    {
                        tell(Followed::Waits(&why));
                        reason = why.summary;
                    }
                }
                seen = Some(job);
            }
            // The order may not be in a final block yet.
            Err(error) if error.is_not_found() && ordered.elapsed() < ABSENCE_MAX => {}
            Err(error) if error.is_transient() && answered.elapsed() < ABSENCE_MAX => {}
            Err(error) => return Err(error).doing("follow the job"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether a lease waits for the claim of an account, which accuses its result.
#[must_use]
pub fn waits_for_claim(lease: &LeaseDto, accuser: &Address) -> bool {
    let dispute = lease.check.as_ref().and_then(|it| it.dispute.as_ref());
    dispute.is_some_and(|it| {
        it.accuser == *accuser && it.turn == DisputeTurnDto::Accuser && it.waits_for_file
    })
}

/// Hands in what a right run gives, in a dispute about a lease that waits for it.
///
/// # Errors
/// Those of any call.
pub async fn claim(
    client: &Client,
    wallet: &Wallet,
    lease: LeaseId,
    claim: Vec<u8>,
) -> Result<(), JobError> {
    let size = u32::try_from(claim.len()).unwrap_or(u32::MAX);
    let stored = client.uploading_as(wallet).put_blob(claim).await;
    let file = stored.doing("store what a right run gives")?.digest;
    let argue = Transaction::ArgueResult { lease, file, size };
    submit(client, wallet, &argue, "hand in what a right run gives").await?;
    Ok(())
}

/// Waits until an order that was sent is in a final block: from then on anybody who asks for the job finds it.
///
/// # Errors
/// If there is no such job after 30 s, or the grid is away that long; those of any call.
pub async fn wait_for_order(client: &Client, id: JobId) -> Result<JobDto, JobError> {
    let started = Instant::now();
    loop {
        match client.job(id).await {
            Err(error)
                if (error.is_not_found() || error.is_transient())
                    && started.elapsed() < ABSENCE_MAX => {}
            found => return found.doing("wait for the order to be final"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Fetches the output of a paid job, whose bytes are those that its receipt names. That it is about what was ordered is checked here, and
/// not whether it is right: of a program's job whoever doubts it runs the program again.
///
/// # Errors
/// If the job was not paid; those of any call.
pub async fn collect_output(
    client: &Client,
    ordered: &OrderedJob,
    job: &JobDto,
) -> Result<(JobReceiptDto, Vec<u8>), JobError> {
    let receipt = paid_receipt(client, ordered, job).await?;
    let limit = match ordered.mode {
        ModeDto::Sealed => OUTPUT_BYTES_MAX + SEALED_ANSWER_OVERHEAD as usize,
        _ => OUTPUT_BYTES_MAX,
    };
    let output = client.blob(receipt.receipt.output, limit).await;
    Ok((receipt, output.doing("fetch the output")?))
}

/// The receipt of a job that must be paid, and be what was ordered.
async fn paid_receipt(
    client: &Client,
    ordered: &OrderedJob,
    job: &JobDto,
) -> Result<JobReceiptDto, JobError> {
    ordered.check(job)?;
    if job.state != JobStateDto::Paid {
        let reason = job.reason.as_deref().unwrap_or("it has no result");
        return Err(JobError::NotPaid {
            job: job.id,
            state: job.state,
            reason: reason.to_owned(),
        });
    }
    let receipt = client.job_receipt(ordered.job).await;
    let receipt = receipt.doing("fetch the receipt")?;
    ordered.check_receipt(&receipt)?;
    Ok(receipt)
}

/// Fetches the result of a paid job and checks it against what was ordered: how it is checked, and of which job and input its proof must
/// be, `ordered` says and not the grid.
///
/// # Errors
/// If the job was not paid, is not what was ordered or its result does not hold; those of any call.
pub async fn collect(
    client: &Client,
    model: &CheckedModel,
    (ordered, job): (&OrderedJob, &JobDto),
) -> Result<Inference, JobError> {
    ordered.same("model", (&ordered.model, &model.public().id()))?;
    let receipt = paid_receipt(client, ordered, job).await?;
    let output = receipt.receipt.output;
    let (values, proof) = match (ordered.mode, receipt.evidence) {
        (ModeDto::Proof, Some(evidence)) => {
            let expected = expected(ordered, &receipt);
            let (file, started) = evidence_of(client, evidence).await?;
            let proved = model.check(&file, expected)?;
            (proved.values, Some(checked(file, started, proved.zk)))
        }
        (ModeDto::Proof, None) => return Err(JobError::NoProof),
        (ModeDto::Sealed, _) => return Err(JobError::Sealed { job: ordered.job }),
        // Validators looked at it, or nobody did: the output is shown as it is.
        (
            ModeDto::None
            | ModeDto::Recompute
            | ModeDto::Sync
            | ModeDto::Optimistic
            | ModeDto::Replicate
            | ModeDto::Endpoint,
            _,
        ) => {
            let output = client.blob(output, OUTPUT_BYTES_MAX).await;
            (model.output(&output.doing("fetch the output")?)?, None)
        }
    };
    let program = model.program();
    Ok(Inference {
        receipt,
        values,
        first: program.shape(program.output()).elements(),
        proof,
    })
}

/// What a language model wrote, checked here.
#[derive(Debug)]
pub struct WrittenAnswer {
    /// What stands behind it.
    pub receipt: JobReceiptDto,
    /// The tokens after the prompt.
    pub tokens: Vec<u32>,
    /// The scores from which each was drawn, which the proof shows; absent where nothing is proved: the output is the tokens alone.
    pub scores: Option<Vec<Vec<RankedScore>>>,
    /// The proof; present for mode proof alone.
    pub proof: Option<CheckedProof>,
}

/// Fetches what a paid job of a request to generate wrote, and checks it.
///
/// # Errors
/// As [`collect`].
pub async fn collect_written(
    client: &Client,
    model: &CheckedModel,
    (ordered, job): (&OrderedJob, &JobDto),
) -> Result<WrittenAnswer, JobError> {
    ordered.same("model", (&ordered.model, &model.public().id()))?;
    let receipt = paid_receipt(client, ordered, job).await?;
    let (tokens, scores, proof) = match (ordered.mode, receipt.evidence) {
        (ModeDto::Proof, Some(evidence)) => {
            let expected = expected(ordered, &receipt);
            let (file, started) = evidence_of(client, evidence).await?;
            let proved = model.check_sequence(&file, expected)?;
            let proof = checked(file, started, false);
            (proved.tokens, Some(proved.scores), Some(proof))
        }
        (ModeDto::Proof, None) => return Err(JobError::NoProof),
        (ModeDto::Sealed, _) => return Err(JobError::Sealed { job: ordered.job }),
        (
            ModeDto::None
            | ModeDto::Recompute
            | ModeDto::Sync
            | ModeDto::Optimistic
            | ModeDto::Replicate
            | ModeDto::Endpoint,
            _,
        ) => {
            let output = client.blob(receipt.receipt.output, OUTPUT_BYTES_MAX).await;
            let tokens = model.written(&output.doing("fetch the output")?)?;
            (tokens, None, None)
        }
    };
    Ok(WrittenAnswer {
        receipt,
        tokens,
        scores,
        proof,
    })
}

/// What the proof of a job must be about. Who made it the receipt says; its output is the one that the proof shows.
fn expected(ordered: &OrderedJob, receipt: &JobReceiptDto) -> Expected {
    Expected {
        job: ordered.job,
        provider: receipt.lease.provider,
        input: ordered.input,
        output: receipt.receipt.output,
    }
}

/// Fetches evidence; what comes is checked from then on.
async fn evidence_of(client: &Client, evidence: Digest) -> Result<(Vec<u8>, Instant), JobError> {
    let file = client
        .blob(evidence, tg_proof::sequence::SEQUENCE_FILE_MAX)
        .await;
    Ok((file.doing("fetch the proof")?, Instant::now()))
}

fn checked(file: Vec<u8>, started: Instant, zk: bool) -> CheckedProof {
    CheckedProof {
        file,
        verify_ms: started.elapsed().as_secs_f64() * 1e3,
        zk,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_not_sealed_is_not_ordered_as_if_it_were() {
        let (alice, bob) = (Wallet::from_seed(b"alice"), Wallet::from_seed(b"bob"));
        let purpose = tg_privacy::SealedFor {
            model: ModelId::new([1; 32]),
            requestor: alice.address(),
        };
        let key = tg_privacy::JobKey::of(&alice, &[7; 32]);
        let sealed = key.seal_input(&[7; 32], &purpose, b"a question").unwrap();
        assert!(check_sealed(&alice, &sealed).is_ok());
        assert!(check_sealed(&bob, &sealed).is_err());
        assert!(check_sealed(&alice, &[1; 200]).is_err());
        assert!(check_sealed(&alice, b"a question").is_err());
    }
}
