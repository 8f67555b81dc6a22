//! The requestor's side of an endpoint.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt as _;
use hyper::Method;
use tg_ir::GenerationRequest;
use tg_ir::request::answered_share;
use tg_privacy::{SealError, SealedChannel};
use tg_proof::PublicModel;
use tg_types::served::CARD_BYTES_MAX;
use tg_types::{
    Address, Amount, BASE_PRICES_PER_MINUTE, CardError, ChainDomain, Decode as _, Digest,
    Encode as _, JobId, LeaseId, ModelId, ServedCard, Signature, SignedVoucher, Voucher, Wallet,
    asked_digest,
};
use tokio::sync::OnceCell;

use super::served::{ChargeError, check_charge};
use super::wire::{
    AnswerPart, AskedFor, AskedInput, ENDPOINT_BYTES_MAX, EndpointRefusal, EndpointRequest,
    GivenOutput, SealedInput, answer_signer,
};
use crate::client::Client;
use crate::dto::{JobDto, JobStateDto, LeaseDto, ModeDto};
use crate::error::ClientError;
use crate::transport::Payload;
use crate::verify::{CheckError, CheckedModel, Expected, PUBLIC_MODEL_BYTES_MAX};

/// How long a request waits for its turn where more answers of this session are unpaid than its provider gives (longer while others are being answered, which
/// pay for those before), and how often it is asked again.
const PAID_MAX: Duration = Duration::from_secs(2);
const PAID_POLL: Duration = Duration::from_millis(50);

/// Bytes of one part of an answer: the largest answer, and what stands around it.
const PART_BYTES_MAX: usize = ENDPOINT_BYTES_MAX + 1_024;

/// Longest wait for the next part of an answer: a run of a large model takes some seconds, and what is written comes token by token.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// The API's code for an endpoint whose provider does not fetch requests.
const NOT_HERE: &str = "TG-API-012";

/// How long a session waits for a provider that does not fetch requests yet, and how often it asks.
const COMES: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(200);

/// Bytes of all pieces of an answer: the largest answer, written four bytes at a time and each sealed.
const PIECES_BYTES_MAX: usize = 5 * ENDPOINT_BYTES_MAX;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The grid did not answer, or refused.
    #[error("ask the grid")]
    Client(#[from] ClientError),
    /// The job is no endpoint.
    #[error("job {job} is no endpoint")]
    NoEndpoint {
        /// The job.
        job: JobId,
    },
    /// Nobody serves it now.
    #[error("nobody serves endpoint {job} now: it is {state}")]
    NotServed {
        /// The job.
        job: JobId,
        /// Where it stands.
        state: JobStateDto,
    },
    /// The provider refused.
    #[error("the provider does not answer: {} ({detail})", because.as_str())]
    Refused {
        /// Why.
        because: EndpointRefusal,
        /// More about it.
        detail: String,
    },
    /// What came is none of the provider's answers.
    #[error("the answer is not the provider's: {what}")]
    NotTheirs {
        /// What is wrong.
        what: &'static str,
    },
    /// A request cannot be sealed, or an answer not be opened.
    #[error("seal what is asked, or open the answer")]
    Seal(#[from] SealError),
    /// The proof that was asked for does not show the answer. Nothing is owed for it.
    #[error("check the proof of an answer")]
    Unproved(#[from] CheckError),
    /// What the provider proved of an input is not what it had answered before: the answer was wrong, and the provider signed it.
    #[error(
        "answer {number} of the provider was wrong: asked for a proof afterwards, it proved another output (answer {proved})"
    )]
    Lied {
        /// The number of the answer that was wrong.
        number: u64,
        /// That of the proved one.
        proved: u64,
    },
    /// More is asked for an answer of a served model than it can cost. Nothing is owed for it.
    #[error("check what is charged for an answer")]
    Overcharged(#[from] ChargeError),
    /// Its model is served, and its card cannot be read.
    #[error("read the card of the endpoint's model")]
    Card(#[from] CardError),
    /// Nothing came for long.
    #[error("nothing came from the provider for {seconds} s")]
    Silent {
        /// For how long.
        seconds: u64,
    },
    /// The answer ended in the middle: its provider is away from the gateway, or was started again.
    #[error("the answer ended in the middle: its provider is not at the gateway any more")]
    CutOff,
    /// The replica of a group that was asked was given up, and the request is asked of another one.
    #[error("the replica that was asked was given up")]
    GivenUp,
    /// The grid tells something else of the lease than a final state has.
    #[error(
        "the grid tells of endpoint {job} that its {what} is {told}; a final state has {proved}"
    )]
    OtherLease {
        /// The job.
        job: JobId,
        /// What differs.
        what: &'static str,
        /// What a final state has.
        proved: String,
        /// What the grid tells.
        told: String,
    },
    /// The model is served by another than who offers it.
    #[error("lease {lease} is of {told}, and the card of its model is of {card}")]
    OtherServer {
        /// The lease.
        lease: LeaseId,
        /// Who serves it, as the grid tells.
        told: Address,
        /// Whose card it is.
        card: Address,
    },
    /// The sum that is owed cannot be written.
    #[error("more is owed than can be written")]
    Overflow,
}

/// An answer, and what shows who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// The request's number.
    pub number: u64,
    /// The output.
    pub output: Vec<u8>,
    /// Its proof, if one was asked for: it has been checked.
    pub proof: Option<Vec<u8>>,
    /// The output as it came, sealed: what the provider signed.
    pub sealed: Vec<u8>,
    /// What is owed for it; paid by the voucher of the next request.
    pub price: Amount,
    /// The provider's signature over lease, request and sealed output ([`tg_types::answer_digest`]).
    pub signature: Signature,
}

/// On whose word it is that a provider serves an endpoint, and at which prices. What is asked is sealed to whoever that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    /// Of the API: it is of the requestor's own node, or the requestor's key is public anyway.
    AsTold,
    /// Of nobody: a final state has it, whose proof was checked.
    Proved(ProvedLease),
}

/// What a final state has of the lease of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProvedLease {
    /// The lease.
    pub lease: LeaseId,
    /// Who serves it.
    pub provider: Address,
    /// The model that was ordered.
    pub model: ModelId,
    /// What a run of the model costs.
    pub price: Amount,
    /// What a minute costs.
    pub minute: Amount,
    /// How many answers the last voucher counts that was claimed: the ledger takes none that the requestor did not sign.
    pub answered: u64,
    /// What that voucher says.
    pub vouchers: Amount,
}

impl ProvedLease {
    /// What the API tells of a lease, if it is believed.
    fn as_told(job: &JobDto, lease: &LeaseDto) -> Self {
        let meter = lease.meter.as_ref();
        Self {
            lease: lease.id,
            provider: lease.provider,
            model: job.model,
            price: lease.price,
            minute: meter.map_or(Amount::ZERO, |it| it.minute),
            answered: meter.map_or(0, |it| it.answered),
            vouchers: meter.map_or(Amount::ZERO, |it| it.vouchers),
        }
    }

    /// Whether the API tells the same of who serves what at which price.
    fn check(&self, job: &JobDto, lease: &LeaseDto) -> Result<(), EndpointError> {
        let told = Self::as_told(job, lease);
        let same = |what, proved: &dyn std::fmt::Display, told: &dyn std::fmt::Display| {
            let (proved, told) = (proved.to_string(), told.to_string());
            match proved == told {
                true => Ok(()),
                false => Err(EndpointError::OtherLease {
                    job: job.id,
                    what,
                    proved,
                    told,
                }),
            }
        };
        same("lease", &self.lease, &told.lease)?;
        same("provider", &self.provider, &told.provider)?;
        same("model", &self.model, &told.model)?;
        same("price", &self.price, &told.price)?;
        same("price of a minute", &self.minute, &told.minute)
    }
}

/// A lease of an endpoint, as its requestor uses it: from several tasks at once. A requestor has one at a time, as it counts what is owed.
#[derive(Debug)]
pub struct EndpointSession {
    client: Client,
    wallet: Wallet,
    domain: ChainDomain,
    job: JobId,
    lease: LeaseId,
    provider: Address,
    /// What a run of the model costs.
    run: Amount,
    /// What a proved answer costs.
    proved: Amount,
    /// What tokens cost, if the model is a served one.
    card: Option<ServedCard>,
    model: ModelId,
    /// Whether the model takes tokens, once that was looked up.
    takes_tokens: OnceCell<bool>,
    owed: Arc<Mutex<OwedSoFar>>,
    next: AtomicU64,
    /// Requests that wait for their answers.
    asking: AtomicUsize,
    seal: Mutex<Option<Arc<SessionSeal>>>,
}

/// What seals the requests of a session, and what its provider needs to open them.
#[derive(Debug)]
struct SessionSeal {
    channel: SealedChannel,
    encapsulated: Vec<u8>,
}

/// What is owed, and what of it the provider has in writing.
#[derive(Debug, Clone, Copy)]
struct OwedSoFar {
    voucher: Voucher,
    sent: Amount,
}

impl OwedSoFar {
    /// What was claimed of a lease is the least that is owed.
    const fn claimed(lease: &ProvedLease) -> Self {
        let mut voucher = Voucher::first(lease.lease);
        voucher.answered = lease.answered;
        voucher.amount = lease.vouchers;
        Self {
            voucher,
            sent: lease.vouchers,
        }
    }
}

/// The lease that serves an endpoint now.
///
/// # Errors
/// If the job is no endpoint, or nobody serves it.
pub fn serving_lease(job: &JobDto) -> Result<&LeaseDto, EndpointError> {
    if job.mode != ModeDto::Endpoint {
        return Err(EndpointError::NoEndpoint { job: job.id });
    }
    let live = job.leases.iter().find(|it| it.end.is_none() && it.started);
    live.filter(|_| job.state == JobStateDto::Running)
        .ok_or(EndpointError::NotServed {
            job: job.id,
            state: job.state,
        })
}

impl EndpointSession {
    /// The endpoint of a job that somebody serves, on the word of `by`. What is owed goes on from what was proved or is believed to be
    /// claimed, else from nothing; and from the last voucher that the provider shows, if this requestor signed it.
    ///
    /// # Errors
    /// If the job is no endpoint, nobody serves it, it is not what was proved, or the grid does not answer.
    pub async fn open(
        client: &Client,
        wallet: &Wallet,
        job: JobId,
        by: &ServedBy,
    ) -> Result<Self, EndpointError> {
        let job = client.job(job).await?;
        let told = serving_lease(&job)?;
        let lease = match by {
            // Stops: what is asked is sealed to whoever answers here, and paid at its price.
            ServedBy::Proved(proved) => {
                proved.check(&job, told)?;
                *proved
            }
            ServedBy::AsTold => ProvedLease::as_told(&job, told),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Larger than any number of a session before, which asked less than a million times a second.
        let first = u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or_default();
        let card = card_of(client, lease.model).await?;
        if let Some(card) = card.as_ref().filter(|it| it.provider != lease.provider) {
            return Err(EndpointError::OtherServer {
                lease: lease.lease,
                told: lease.provider,
                card: card.provider,
            });
        }
        let session = Self {
            client: client.clone(),
            wallet: wallet.clone(),
            domain: client.domain().await?,
            job: job.id,
            lease: lease.lease,
            provider: lease.provider,
            run: card.as_ref().map_or(lease.price, ServedCard::largest_price),
            card,
            model: lease.model,
            takes_tokens: OnceCell::new(),
            proved: proved_price(lease.price, lease.minute),
            owed: Arc::new(Mutex::new(OwedSoFar::claimed(&lease))),
            next: AtomicU64::new(first),
            asking: AtomicUsize::new(0),
            seal: Mutex::new(None),
        };
        let began = Instant::now();
        loop {
            match session.tell_owed().await {
                // A provider that has just begun, or is started again, comes within seconds.
                Err(EndpointError::Client(error))
                    if error.code() == Some(NOT_HERE) && began.elapsed() < COMES => {}
                told => return told.map(|()| session),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The job.
    #[must_use]
    pub const fn job(&self) -> JobId {
        self.job
    }

    /// The lease.
    #[must_use]
    pub const fn lease(&self) -> LeaseId {
        self.lease
    }

    /// Who serves it.
    #[must_use]
    pub const fn provider(&self) -> Address {
        self.provider
    }

    /// What tokens cost, if the model is a served one.
    #[must_use]
    pub const fn card(&self) -> Option<&ServedCard> {
        self.card.as_ref()
    }

    /// What a run of the model costs: the most that an answer costs.
    #[must_use]
    pub const fn run(&self) -> Amount {
        self.run
    }

    /// What is owed so far.
    #[must_use]
    pub fn owed(&self) -> Voucher {
        self.owing().voucher
    }

    /// Whether the provider does not have in writing all that is owed.
    #[must_use]
    pub fn is_owing(&self) -> bool {
        let owing = self.owing();
        owing.sent < owing.voucher.amount
    }

    /// Asks, and gives `piece` what is written as it comes. An answer that came counts as owed, and is paid with the next request.
    ///
    /// # Errors
    /// If there is no answer, or it is not the provider's.
    pub async fn ask(
        &self,
        input: Vec<u8>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<EndpointAnswer, EndpointError> {
        let wanted = AskedFor::Output;
        self.ask_for(&AskedInput { wanted, input }, None, piece)
            .await
    }

    /// Asks for an answer with a proof of it, and checks that against the model. An answer that is not proved is not owed.
    ///
    /// # Errors
    /// As [`Self::ask`]; if the proof does not show the answer.
    pub async fn ask_proved(
        &self,
        input: Vec<u8>,
        model: &CheckedModel,
    ) -> Result<EndpointAnswer, EndpointError> {
        let wanted = AskedFor::Proof;
        self.ask_for(&AskedInput { wanted, input }, Some(model), &mut |_| {})
            .await
    }

    /// Has an answer that came proved after the fact: asks for the same input with a proof, and compares. Whoever draws the
    /// answers that are checked so *after* they came, by randomness of his own, finds a provider out that gives a share `q` of
    /// wrong answers with `1 - (1 - q)^k` by `k` draws, as it did not know which ones these would be. It costs one proved answer.
    ///
    /// # Errors
    /// As [`Self::ask_proved`]; [`EndpointError::Lied`] if the output is another one.
    pub async fn prove_afterwards(
        &self,
        input: Vec<u8>,
        answer: &EndpointAnswer,
        model: &CheckedModel,
    ) -> Result<EndpointAnswer, EndpointError> {
        let proved = self.ask_proved(input, model).await?;
        // Stops: a provider that computes what it is asked to prove, and invents the rest.
        if proved.output != answer.output {
            return Err(EndpointError::Lied {
                number: answer.number,
                proved: proved.number,
            });
        }
        Ok(proved)
    }

    async fn ask_for(
        &self,
        asked: &AskedInput,
        model: Option<&CheckedModel>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<EndpointAnswer, EndpointError> {
        let began = Instant::now();
        let _asking = AskingNow::begin(&self.asking);
        let mut answered = self.ask_once(asked, model, piece).await;
        // What was asked beside this is paid for by the next request after its answer.
        while let Err(AskFailure::Failed(EndpointError::Refused {
            because: EndpointRefusal::Unpaid,
            ..
        })) = &answered
            && (began.elapsed() < PAID_MAX || self.asking.load(Ordering::Relaxed) > 1)
        {
            tokio::time::sleep(PAID_POLL).await;
            answered = self.ask_once(asked, model, piece).await;
        }
        match answered {
            // It has a later voucher than this session knows: go on from there, once.
            Err(AskFailure::Behind) => self.ask_once(asked, model, piece).await.map_err(Into::into),
            // It was started again, and has another key.
            Err(AskFailure::Failed(EndpointError::Refused {
                because: EndpointRefusal::Unsealed,
                ..
            })) => {
                self.tell_owed().await?;
                self.ask_once(asked, model, piece).await.map_err(Into::into)
            }
            other => other.map_err(Into::into),
        }
    }

    /// Whether an input that begins as a request to write is one: the model takes tokens. Looked up when the first such input is asked.
    async fn takes_tokens(&self, input: &[u8]) -> Result<bool, EndpointError> {
        if !GenerationRequest::is_one(input) {
            return Ok(false);
        }
        let read = async {
            let listed = self.client.model(self.model).await?;
            let file = self.client.blob(listed.public_blob, PUBLIC_MODEL_BYTES_MAX);
            // What is none is a graph of floats or a program: they take no tokens.
            let public = PublicModel::decode(&file.await?).ok();
            let public = public.filter(|it| it.id() == self.model);
            let program = public.as_ref().map(PublicModel::program);
            Ok::<_, EndpointError>(program.is_some_and(GenerationRequest::is_taken_by))
        };
        self.takes_tokens.get_or_try_init(|| read).await.copied()
    }

    fn sealing(&self) -> Option<Arc<SessionSeal>> {
        let seal = self.seal.lock();
        seal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks under a number of its own, as what is sealed under one number is one input.
    async fn ask_once(
        &self,
        asked: &AskedInput,
        model: Option<&CheckedModel>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<EndpointAnswer, AskFailure> {
        // Before anything is asked: what is answered is owed.
        let takes_tokens = self.card.is_none() && self.takes_tokens(&asked.input).await?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seal = self.sealing().ok_or(EndpointError::Seal(SealError::Key))?;
        let sealed = SealedInput {
            encapsulated: seal.encapsulated.clone(),
            sealed: seal
                .channel
                .seal_request(number, &asked.to_bytes())
                .map_err(EndpointError::Seal)?,
        };
        let (mut expected, channel) = (0, &seal.channel);
        let mut opened = |index: u32, sealed: &[u8]| {
            // After one that was left out what follows makes no sense; the whole answer has all of it.
            if index == expected
                && let Ok(bytes) = channel.open_piece(number, index, sealed)
            {
                expected += 1;
                piece(&bytes);
            }
        };
        let mut answer = self.try_ask(number, sealed.to_bytes(), &mut opened).await?;
        let given = channel.open_answer(number, &answer.sealed);
        let given = GivenOutput::from_bytes(&given.map_err(EndpointError::Seal)?);
        let given = given.map_err(|_| EndpointError::NotTheirs {
            what: "it cannot be read",
        })?;
        let most = match (model, &self.card) {
            (None, None) => answer_price(self.run, takes_tokens, (&asked.input, &given.output)),
            (None, Some(card)) => {
                let charged = check_charge(card, &asked.input, &given.output, answer.price);
                charged.map_err(EndpointError::Overcharged)?;
                answer.price
            }
            (Some(_), _) => self.proved,
        };
        if answer.price > most {
            let what = "it costs more than was agreed";
            return Err(EndpointError::NotTheirs { what }.into());
        }
        if let Some(model) = model {
            self.check(model, &asked.input, &given)?;
            answer.proof = Some(given.proof);
        }
        answer.output = given.output;
        let mut owing = self.owing();
        let next = owing.voucher.after(answer.price);
        owing.voucher = next.ok_or(EndpointError::Overflow)?;
        drop(owing);
        Ok(answer)
    }

    /// Checks that the proof of an answer is one of this endpoint's job by its provider, and shows the input and the output.
    fn check(
        &self,
        model: &CheckedModel,
        input: &[u8],
        given: &GivenOutput,
    ) -> Result<(), EndpointError> {
        let expected = Expected {
            job: self.job,
            provider: self.provider,
            input: Digest::of_blob(input),
            output: Digest::of_blob(&given.output),
        };
        if GenerationRequest::is_for(model.program(), input) {
            model.check_sequence(&given.proof, expected)?;
        } else {
            model.check(&given.proof, expected)?;
        }
        Ok(())
    }

    /// Gives the provider a voucher for all that is owed, if it has none.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn pay(&self) -> Result<(), EndpointError> {
        match self.is_owing() {
            true => self.tell_owed().await,
            false => Ok(()),
        }
    }

    /// Finds out whether the provider is there: as [`Self::pay`], whether anything is owed or not.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn greet(&self) -> Result<(), EndpointError> {
        self.tell_owed().await
    }

    /// Gives the provider a voucher without a request, and has its public key, if it is new. Of a voucher that it has from before, and this session does not
    /// know, it takes note.
    async fn tell_owed(&self) -> Result<(), EndpointError> {
        let next = || self.next.fetch_add(1, Ordering::Relaxed);
        let told = match self.try_ask(next(), Vec::new(), &mut |_, _| {}).await {
            Err(AskFailure::Behind) => self.try_ask(next(), Vec::new(), &mut |_, _| {}).await,
            other => other,
        };
        let key = told?.sealed;
        let (channel, encapsulated) = SealedChannel::to(&key, &self.lease)?;
        let seal = SessionSeal {
            channel,
            encapsulated,
        };
        *self.seal.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(seal));
        Ok(())
    }

    fn owing(&self) -> MutexGuard<'_, OwedSoFar> {
        // A panic of another thread leaves the sum whole.
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn try_ask(
        &self,
        number: u64,
        input: Vec<u8>,
        piece: &mut (dyn FnMut(u32, &[u8]) + Send),
    ) -> Result<EndpointAnswer, AskFailure> {
        let asked = asked_digest(number, &Digest::of_blob(&input));
        let owed = self.owed();
        let request = EndpointRequest {
            number,
            voucher: owed.asking(asked).sign(&self.wallet, &self.domain),
            input,
        };
        let path = format!("/v1/leases/{}/requests", self.lease);
        let payload = Payload::Bytes(request.to_bytes());
        let answer = self.client.transport().open(Method::POST, &path, payload);
        let mut body = answer.await?.into_body();
        let (mut bytes, mut pieces) = (Vec::new(), 0);
        loop {
            while let Some(part) = next_part(&mut bytes)? {
                match part {
                    AnswerPart::Piece { index, piece: more } => {
                        // Stops: a provider whose pieces never end.
                        pieces += more.len().max(1);
                        if pieces > PIECES_BYTES_MAX {
                            let what = "its pieces do not end";
                            return Err(EndpointError::NotTheirs { what }.into());
                        }
                        piece(index, &more);
                    }
                    AnswerPart::Whole {
                        answer,
                        price,
                        signature,
                    } => {
                        let answer = EndpointAnswer {
                            number,
                            output: Vec::new(),
                            proof: None,
                            sealed: answer,
                            price,
                            signature,
                        };
                        return self.take(&asked, answer, owed.amount);
                    }
                    AnswerPart::Refused {
                        because,
                        detail,
                        last,
                    } => {
                        let detail = detail.as_str().to_owned();
                        return Err(self.refused(because, detail, last));
                    }
                }
            }
            let frame = tokio::time::timeout(SILENCE_MAX, body.frame()).await;
            let frame = frame.map_err(|_| EndpointError::Silent {
                seconds: SILENCE_MAX.as_secs(),
            });
            let frame = frame?.transpose();
            let frame = frame.map_err(|error| self.client.transport().unreachable(error))?;
            let Some(frame) = frame else {
                return Err(EndpointError::CutOff.into());
            };
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
    }

    /// Takes an answer if it is the provider's: it has the voucher that came with the request.
    fn take(
        &self,
        asked: &Digest,
        answer: EndpointAnswer,
        sent: Amount,
    ) -> Result<EndpointAnswer, AskFailure> {
        let not_theirs = |what| AskFailure::Failed(EndpointError::NotTheirs { what });
        let named = (&self.lease, asked);
        let signer = answer_signer(&answer.signature, named, &answer.sealed, &self.domain);
        if signer != Ok(self.provider) {
            return Err(not_theirs("another account signed it"));
        }
        let mut owing = self.owing();
        owing.sent = owing.sent.max(sent);
        drop(owing);
        Ok(answer)
    }

    fn refused(
        &self,
        because: EndpointRefusal,
        detail: String,
        last: Option<SignedVoucher>,
    ) -> AskFailure {
        let own = last.filter(|it| {
            it.voucher.lease == self.lease && it.account(&self.domain) == Ok(self.wallet.address())
        });
        let mut owing = self.owing();
        if let Some(SignedVoucher { voucher, .. }) = own
            && voucher.is_later_than(owing.voucher.amount)
        {
            owing.voucher = Voucher::first(self.lease);
            owing.voucher.answered = voucher.answered;
            owing.voucher.amount = voucher.amount;
            owing.sent = voucher.amount;
            return AskFailure::Behind;
        }
        drop(owing);
        AskFailure::Failed(EndpointError::Refused { because, detail })
    }
}

/// The card of a served model; nothing of another model.
async fn card_of(client: &Client, model: ModelId) -> Result<Option<ServedCard>, EndpointError> {
    let listed = client.model(model).await?;
    if !listed.is_served() {
        return Ok(None);
    }
    let file = client.blob(listed.public_blob, CARD_BYTES_MAX).await?;
    let card = ServedCard::read(&file)?;
    // Stops: a gateway that shows other prices than the provider's.
    if card.model_id() != model {
        return Err(CardError::NoCard.into());
    }
    Ok(Some(card))
}

/// What an answer costs where a run of the model costs `run`; of a program that takes tokens the part that was written.
#[must_use]
pub fn answer_price(run: Amount, takes_tokens: bool, (input, answer): (&[u8], &[u8])) -> Amount {
    if input.is_empty() {
        return Amount::ZERO;
    }
    let (part, whole) = answered_share(takes_tokens, input, answer);
    run.checked_mul_div_ceil(part, whole).unwrap_or(run)
}

/// What a proved answer costs where a run of the model costs `run` and a minute `minute`: a run, and of a minute the part that has one
/// base price in it, with the time of GPUs in that part.
#[must_use]
pub fn proved_price(run: Amount, minute: Amount) -> Amount {
    let job = minute.checked_mul_div_ceil(1, BASE_PRICES_PER_MINUTE);
    run.saturating_add(job.unwrap_or(minute))
}

/// Counts a request for as long as it waits.
struct AskingNow<'a>(&'a AtomicUsize);

impl<'a> AskingNow<'a> {
    fn begin(asking: &'a AtomicUsize) -> Self {
        asking.fetch_add(1, Ordering::Relaxed);
        Self(asking)
    }
}

impl Drop for AskingNow<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What came of asking once.
enum AskFailure {
    /// The provider has a later voucher of this requestor than was sent; it is known now.
    Behind,
    Failed(EndpointError),
}

impl From<EndpointError> for AskFailure {
    fn from(error: EndpointError) -> Self {
        Self::Failed(error)
    }
}

impl From<ClientError> for AskFailure {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<AskFailure> for EndpointError {
    fn from(asked: AskFailure) -> Self {
        match asked {
            AskFailure::Failed(error) => error,
            AskFailure::Behind => Self::NotTheirs {
                what: "it names one later voucher after another",
            },
        }
    }
}

/// Takes the next part off what came, if all of it is there.
fn next_part(bytes: &mut Vec<u8>) -> Result<Option<AnswerPart>, EndpointError> {
    let Some((length, _)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let not_theirs = EndpointError::NotTheirs {
        what: "it cannot be read",
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > PART_BYTES_MAX {
        return Err(not_theirs);
    }
    if bytes.len() < 4 + length {
        return Ok(None);
    }
    let part = AnswerPart::from_bytes(&bytes[4..4 + length]).map_err(|_| not_theirs)?;
    bytes.drain(..4 + length);
    Ok(Some(part))
}
