//! Requests of served models: which provider is asked, what it may cost, and what becomes of it if it fails.
//!
//! The cheapest is asked. One that fails is not paid, and the next one is asked while the caller has seen nothing of an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tg_api::{ChoiceSender, OpenAiError, Requester, ServedName, ServedOrder, ServedReply};
use tg_sdk::endpoint::served::{SERVED_BODY_BYTES_MAX, ServedAnswer, ServedRequest};
use tg_sdk::endpoint::session::{EndpointAnswer, EndpointError, EndpointSession};
use tg_sdk::endpoint::wire::EndpointRefusal;
use tg_sdk::{Client, Wallet};
use tg_types::{Amount, Decode as _, Encode as _, ModelId, TokenUsage};

use super::directory::{AttemptEnd, ServedDirectory, ServedListing};
use super::leases::{LeaseError, ServedLeases};
use super::refusal::of_reserve;
use crate::api_keys::ApiKeys;
use tg_console::outcome::say;

/// Providers that are asked for one request, at most.
const PROVIDERS_MAX: usize = 4;

/// How long a provider may be silent: one that works says so every two seconds.
const GONE_AFTER: Duration = Duration::from_secs(9);

/// How long one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(960);

/// How long after an answer it is paid for, if no other request does so before.
const PAY_AFTER: Duration = Duration::from_secs(1);

/// How often a provider is asked again that wants more money locked, or what it is owed, before it answers.
const ASKED_AGAIN_MAX: u32 = 5;

/// How long before it is asked again: it looks at what is locked every two seconds.
const AGAIN: Duration = Duration::from_millis(1_200);

/// Tokens that an answer is taken to have when prices are compared and the request names no limit.
const USUAL_TOKENS: u32 = 500;

/// Asks for callers.
#[derive(Debug)]
pub(super) struct ServedModels {
    keys: Arc<ApiKeys>,
    pub(super) directory: ServedDirectory,
    leases: Arc<ServedLeases>,
}

/// Why a provider gave no answer.
enum AttemptError {
    /// Nothing that another provider would do better.
    Callers(OpenAiError),
    /// The provider failed.
    Providers(String),
}

/// What a caller sees of an answer on its way, and when something came of it.
struct Watched {
    began: Instant,
    pieces: Option<ChoiceSender>,
    /// Milliseconds from the beginning to the last and to the first that came.
    heard: AtomicU64,
    first: AtomicU64,
    was_shown: AtomicBool,
}

impl Watched {
    fn new(pieces: Option<ChoiceSender>) -> Self {
        Self {
            began: Instant::now(),
            pieces,
            heard: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            was_shown: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a piece: the choices of a part of a stream, or nothing but that the answer is being made.
    fn take(&self, piece: &[u8]) {
        let now = self.now();
        self.heard.store(now, Ordering::Relaxed);
        if piece.is_empty() {
            return;
        }
        self.first.fetch_min(now, Ordering::Relaxed);
        let Some(pieces) = &self.pieces else {
            return;
        };
        if let Ok(choices) = serde_json::from_slice::<Value>(piece) {
            self.was_shown.store(true, Ordering::Relaxed);
            // Nobody may read any more.
            let _gone = pieces.send(choices);
        }
    }

    fn is_silent_for(&self, time: Duration) -> bool {
        let since = self
            .now()
            .saturating_sub(self.heard.load(Ordering::Relaxed));
        Duration::from_millis(since) > time
    }
}

impl ServedModels {
    pub(super) fn new(client: Client, keys: Arc<ApiKeys>) -> Self {
        Self {
            keys,
            directory: ServedDirectory::new(client.clone()),
            leases: Arc::new(ServedLeases::new(client)),
        }
    }

    /// The served models that can be asked now.
    pub(super) async fn names(&self) -> Vec<ServedName> {
        let usage = TokenUsage {
            prompt: USUAL_TOKENS,
            completion: USUAL_TOKENS,
        };
        let all = self.directory.all().await;
        let named = all.into_iter().filter_map(|(name, listings)| {
            let cheapest = listings.iter().min_by_key(|it| it.card.price(usage))?;
            Some(ServedName {
                name,
                card: cheapest.card.clone(),
                providers: listings.len(),
            })
        });
        named.collect()
    }

    /// Gives back leases by which nothing was asked for long.
    pub(super) async fn give_back_idle(&self) {
        self.leases.give_back_idle().await;
    }

    /// Has a provider answer.
    pub(super) async fn serve(
        &self,
        by: &Requester,
        order: ServedOrder,
        pieces: Option<ChoiceSender>,
    ) -> Result<ServedReply, OpenAiError> {
        let mut listings = self.directory.named(&order.model).await;
        let wanted = &order.providers;
        listings.retain(|it| wanted.is_empty() || wanted.contains(&it.card.provider));
        let wallet = self.keys.wallet(&by.caller).ok_or_else(OpenAiError::key)?;
        let request = request_of(&order)?;
        let mut watched = Watched::new(pieces);
        let (mut tried, mut failed) = (Vec::new(), Vec::new());
        while tried.len() < PROVIDERS_MAX {
            let usage = expected(&request, &listings)?;
            let chosen = ServedDirectory::choose(&listings, (order.call, usage), &tried);
            let Some(listing) = chosen else {
                break;
            };
            tried.push(listing.model);
            watched.began = Instant::now();
            watched.heard.store(0, Ordering::Relaxed);
            let attempt = ProviderAttempt {
                models: self,
                by,
                wallet,
                listing: &listing,
                request: &request,
                watched: &watched,
            };
            match attempt.run(order.max_price).await {
                Ok(reply) => return Ok(ServedReply { failed, ..reply }),
                Err(AttemptError::Callers(error)) => return Err(error),
                Err(AttemptError::Providers(why)) => {
                    let text = format!("{}: {why}", listing.card.provider);
                    say(format_args!(
                        "a request of `{}` was not answered by {text}",
                        order.model
                    ));
                    failed.push(text);
                }
            }
            if watched.was_shown.load(Ordering::Relaxed) {
                failed.push("a part of the answer was sent, so nobody else was asked".to_owned());
                break;
            }
        }
        Err(nobody(&order, &listings, &failed))
    }
}

/// That nobody gave an answer.
fn nobody(order: &ServedOrder, listings: &[Arc<ServedListing>], failed: &[String]) -> OpenAiError {
    let (model, call) = (&order.model, order.call.as_str());
    if !failed.is_empty() {
        let text = format!(
            "no provider of `{model}` gave an answer, and none was paid: {}",
            failed.join("; ")
        );
        return OpenAiError::unavailable(text);
    }
    if listings.is_empty() {
        let who = match order.providers.as_slice() {
            [] => "no provider serves",
            _ => "none of the named providers serves",
        };
        return OpenAiError::unavailable(format!("{who} `{model}` now"));
    }
    OpenAiError::invalid("model", format!("`{model}` does not serve {call}"))
}

/// The request as it travels.
fn request_of(order: &ServedOrder) -> Result<ServedRequest, OpenAiError> {
    let body = serde_json::to_vec(&order.body);
    let body = body.map_err(|error| OpenAiError::invalid("body", error.to_string()))?;
    if body.len() > SERVED_BODY_BYTES_MAX {
        let text = format!(
            "the body has {} bytes, a served model takes {SERVED_BODY_BYTES_MAX}",
            body.len()
        );
        return Err(OpenAiError {
            status: 413,
            ..OpenAiError::invalid("body", text)
        });
    }
    Ok(ServedRequest {
        call: order.call,
        stream: order.stream,
        body,
    })
}

/// What prices are compared by: about as many tokens as texts have, and no more than were asked for.
fn expected(
    request: &ServedRequest,
    listings: &[Arc<ServedListing>],
) -> Result<TokenUsage, OpenAiError> {
    let Some(first) = listings.first() else {
        return Ok(TokenUsage::default());
    };
    let bound = request.bound(&first.card).ok_or_else(|| {
        OpenAiError::invalid(
            "body",
            "`n` and `best_of` are whole numbers, and not too large",
        )
    })?;
    Ok(TokenUsage {
        prompt: bound.prompt / 4 + 1,
        completion: bound.completion.min(USUAL_TOKENS),
    })
}

/// One provider that is asked for one request.
struct ProviderAttempt<'a> {
    models: &'a ServedModels,
    by: &'a Requester,
    wallet: &'a Wallet,
    listing: &'a Arc<ServedListing>,
    request: &'a ServedRequest,
    watched: &'a Watched,
}

impl ProviderAttempt<'_> {
    /// Asks, with what it may cost held of the key's limit meanwhile.
    async fn run(&self, max_price: Option<Amount>) -> Result<ServedReply, AttemptError> {
        let card = &self.listing.card;
        let most = self.request.most(card).unwrap_or(Amount::MAX);
        if let Some(max_price) = max_price.filter(|it| *it < most) {
            let text = format!(
                "the request may cost {most} TGRID, more than `max_price`, {max_price}; a smaller `max_tokens` makes it cheaper"
            );
            let error = OpenAiError::invalid("tensorgrid.max_price", text);
            return Err(AttemptError::Callers(error));
        }
        let keys = &self.models.keys;
        let reserved = keys.reserve(&self.by.caller, most);
        reserved.map_err(|error| AttemptError::Callers(of_reserve(&error)))?;
        self.listing.begin();
        let asked = self.asked(most).await;
        let (price, end) = match &asked {
            Ok((_, answer)) => {
                let first = self.watched.first.load(Ordering::Relaxed);
                let after = first.min(self.watched.now());
                (
                    answer.price,
                    AttemptEnd::Answered(Duration::from_millis(after)),
                )
            }
            Err(LeaseError::Endpoint(EndpointError::Overcharged(_))) => {
                (Amount::ZERO, AttemptEnd::Lied)
            }
            Err(error) if error.is_accounts() => (Amount::ZERO, AttemptEnd::NotAsked),
            Err(_) => (Amount::ZERO, AttemptEnd::Failed),
        };
        self.listing.end(end);
        keys.release(&self.by.caller, most.saturating_sub(price));
        match asked {
            Ok((session, answer)) => self.reply(&session, &answer),
            Err(error) if error.is_accounts() => {
                Err(AttemptError::Callers(OpenAiError::quota(chain(&error))))
            }
            Err(error) => Err(AttemptError::Providers(chain(&error))),
        }
    }

    /// The answer, by the account's lease.
    async fn asked(
        &self,
        most: Amount,
    ) -> Result<(Arc<EndpointSession>, EndpointAnswer), LeaseError> {
        let leases = &self.models.leases;
        let (wallet, model): (&Wallet, ModelId) = (self.wallet, self.listing.model);
        let session = leases.session(wallet, model, most).await?;
        let mut tries = 0;
        let error = loop {
            tries += 1;
            let refused = match self.ask(&session).await {
                Ok(answer) => {
                    self.pay_soon(&session);
                    return Ok((session, answer));
                }
                Err(EndpointError::Refused { because, detail }) if tries < ASKED_AGAIN_MAX => {
                    (because, detail)
                }
                Err(error) => break error,
            };
            match refused {
                (EndpointRefusal::NoMoney, _) => {
                    // Once; then the provider has to see it.
                    if tries == 1 {
                        leases.top_up(wallet, session.job(), most).await?;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                (EndpointRefusal::Unpaid, _) => {
                    session.pay().await?;
                    tokio::time::sleep(AGAIN / 4).await;
                }
                (because, detail) => break EndpointError::Refused { because, detail },
            }
        };
        leases.forget(wallet, &session, model).await;
        if let EndpointError::Overcharged(_) = error {
            // Nothing is asked of it any more: what is locked comes back.
            leases.give_back(wallet, session.job()).await;
        }
        Err(error.into())
    }

    /// Asks once. A provider that says nothing for long is not waited for.
    async fn ask(&self, session: &EndpointSession) -> Result<EndpointAnswer, EndpointError> {
        // To open a lease takes its own time.
        let now = self.watched.now();
        self.watched.heard.store(now, Ordering::Relaxed);
        let mut piece = |bytes: &[u8]| self.watched.take(bytes);
        let mut asking = std::pin::pin!(session.ask(self.request.to_bytes(), &mut piece));
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    let is_over = self.watched.began.elapsed() > REQUEST_TIME_MAX;
                    if is_over || self.watched.is_silent_for(GONE_AFTER) {
                        return Err(EndpointError::Silent);
                    }
                }
            }
        }
    }

    /// Has an answer paid for soon, whether anything else is asked or not.
    fn pay_soon(&self, session: &Arc<EndpointSession>) {
        let session = Arc::clone(session);
        let answered = session.owed().answered;
        tokio::spawn(async move {
            tokio::time::sleep(PAY_AFTER).await;
            // Whoever asked since then has it paid with the next request, or after the last one.
            if session.owed().answered == answered {
                // If it is not told now, the next request tells it.
                let _later = session.pay().await;
            }
        });
    }

    /// What a caller is told of an answer; what the server refused is the caller's to mend.
    fn reply(
        &self,
        session: &EndpointSession,
        answer: &EndpointAnswer,
    ) -> Result<ServedReply, AttemptError> {
        let unreadable = || AttemptError::Providers("its answer cannot be read".to_owned());
        let said = ServedAnswer::from_bytes(&answer.output).map_err(|_| unreadable())?;
        let body: Value = serde_json::from_slice(&said.body).map_err(|_| unreadable())?;
        if !said.is_success() {
            let message = body["error"]["message"].as_str();
            let message = message.unwrap_or("the model's server refused the request");
            let status = match said.status {
                status @ (400 | 413 | 422) => status,
                _ => 400,
            };
            return Err(AttemptError::Callers(OpenAiError {
                status,
                code: "refused_by_model".to_owned(),
                param: None,
                ..OpenAiError::invalid("body", message)
            }));
        }
        if !body.is_object() {
            return Err(unreadable());
        }
        let card = &self.listing.card;
        Ok(ServedReply {
            body,
            usage: said.usage,
            job: session.job(),
            model: self.listing.model,
            provider: card.provider,
            price: answer.price,
            prompt_price: card.prompt_price,
            completion_price: card.completion_price,
            failed: Vec::new(),
        })
    }
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
