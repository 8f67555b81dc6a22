//! Requests of served models: which provider is asked, what it may cost, and what becomes of it if it fails.
//!
//! The cheapest is asked. One that fails is not paid, and the next one is asked while the caller has seen nothing of an answer. Anybody can
//! register a card of any name: what is wrong with one provider, its price included, never ends a request that another one answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tg_api::{
    ChoiceSender, JsonLimit, OpenAiError, Requester, SentPiece, ServedBody, ServedName,
    ServedOrder, ServedReply, read_json,
};
use tg_sdk::endpoint::served::{
    AskedTokens, PROMPT_TOKENS_ADDED, SERVED_BODY_BYTES_MAX, ServedAnswer, ServedRequest,
};
use tg_sdk::endpoint::session::{EndpointAnswer, EndpointError, EndpointSession};
use tg_sdk::endpoint::wire::EndpointRefusal;
use tg_sdk::{Client, Wallet};
use tg_types::{
    Amount, Decode as _, Encode as _, ModelId, ServedCall, ServedCard, TokenUsage, with_sources,
};

use super::directory::{AttemptEnd, PricedListing, ServedDirectory, ServedListing};
use super::leases::{LeaseError, LeasePayer, ServedLeases};
use super::refusal::of_reserve;
use crate::api_keys::{ApiKeys, ReserveError};
use tg_console::outcome::say;

/// Providers that are asked for one request, at most.
const PROVIDERS_MAX: usize = 4;

/// How long a provider may be silent: one that works says so every two seconds.
const GONE_AFTER: Duration = Duration::from_secs(9);

/// How long one request may take, with all that are asked for it.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(960);

/// How long nothing may come of an answer, beside the time that its tokens take: a provider may wait for its turn, and read a long prompt.
const NOTHING_MAX: Duration = Duration::from_secs(60);

/// How long a token may take where the whole answer comes at once.
const TOKEN_TIME_MAX: Duration = Duration::from_millis(100);

/// How long after an answer it is paid for, if no other request does so before.
const PAY_AFTER: Duration = Duration::from_secs(1);

/// How often a provider is asked again that wants more money locked, or what it is owed, before it answers.
const ASKED_AGAIN_MAX: u32 = 5;

/// How long before it is asked again: it looks at what is locked every two seconds.
const AGAIN: Duration = Duration::from_millis(1_200);

/// Tokens that an answer is taken to have when prices are compared and the request names no limit.
const USUAL_TOKENS: u32 = 500;

/// Most tokens of an answer to a request that names no limit: what it may cost does not follow from how long a context a card names.
const TOKENS_UNASKED_MAX: u32 = 16_384;

/// Bytes that such a limit adds to a request.
const LIMIT_BYTES: usize = 64;

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
    /// Something of the caller's does not suit this provider. The caller is told of it if no other one answers.
    Unsuited(OpenAiError),
    /// The provider failed.
    Providers(String),
}

/// What a caller sees of an answer on its way, and when something came of it.
struct Watched {
    began: Instant,
    pieces: Option<ChoiceSender>,
    /// Milliseconds from the beginning to the last that was heard, to the first of the answer and to the last of it.
    heard: AtomicU64,
    first: AtomicU64,
    written: AtomicU64,
    was_shown: AtomicBool,
}

impl Watched {
    fn new(pieces: Option<ChoiceSender>) -> Self {
        Self {
            began: Instant::now(),
            pieces,
            heard: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            written: AtomicU64::new(0),
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
        self.written.store(now, Ordering::Relaxed);
        let Some(pieces) = &self.pieces else {
            return;
        };
        // A reader that stands still does not hold up whoever writes: what finds no room comes with the whole answer.
        if pieces.send(piece.to_vec()) == SentPiece::Waits {
            self.was_shown.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the one that is asked is given up: nothing was heard of it, or for longer nothing came of an answer. That it says that it works
    /// is not enough: it may say so for ever.
    fn is_over(&self, nothing_max: Duration) -> bool {
        let now = self.now();
        let since =
            |at: &AtomicU64| Duration::from_millis(now.saturating_sub(at.load(Ordering::Relaxed)));
        since(&self.heard) > GONE_AFTER || since(&self.written) > nothing_max
    }

    /// Begins anew, with another that is asked.
    fn begin(&mut self) {
        self.began = Instant::now();
        self.heard.store(0, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
    }
}

impl ServedModels {
    pub(super) fn new(client: Client, keys: Arc<ApiKeys>) -> Self {
        Self {
            directory: ServedDirectory::new(client.clone()),
            leases: Arc::new(ServedLeases::new(client, Arc::clone(&keys))),
            keys,
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
        let (asked, bytes) = read(&order)?;
        let serving = listings.iter().filter(|it| it.card.serves(order.call));
        let priced = serving.map(|it| priced(it, asked, (order.call, bytes)));
        let priced = affordable(&self.keys, by, &order, priced.collect())?;
        let mut watched = Watched::new(pieces);
        let (mut tried, mut failed) = (Vec::new(), Vec::new());
        let mut unsuited: Vec<(Arc<ServedListing>, OpenAiError)> = Vec::new();
        let until = Instant::now() + REQUEST_TIME_MAX;
        while tried.len() < PROVIDERS_MAX && Instant::now() < until {
            let Some(chosen) = ServedDirectory::choose(&priced, order.call, &tried) else {
                break;
            };
            let request = request_of(&order, chosen.limit)?;
            let listing = &chosen.listing;
            tried.push(listing.model);
            watched.begin();
            let attempt = ProviderAttempt {
                models: self,
                by,
                wallet,
                listing,
                request: &request,
                most: chosen.most,
                watched: &watched,
                until,
                nothing_max: nothing_max(&request, asked, chosen.limit),
            };
            match attempt.run().await {
                Ok(reply) => {
                    // What one refuses that another one answers was none of the caller's.
                    unsuited.iter().for_each(|(it, _)| it.avoid());
                    return Ok(ServedReply { failed, ..reply });
                }
                Err(AttemptError::Callers(error)) => return Err(error),
                Err(AttemptError::Unsuited(error)) => unsuited.push((Arc::clone(listing), error)),
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
        let unsuited = unsuited.into_iter().map(|(_, error)| error);
        match (unsuited.into_iter().next(), failed.is_empty()) {
            (Some(error), true) => Err(error),
            _ => Err(nobody(&order, &listings, &failed)),
        }
    }
}

/// What a request says of how much is to be written, and how many bytes it has at most.
fn read(order: &ServedOrder) -> Result<(AskedTokens, usize), OpenAiError> {
    let asked = AskedTokens::of(&order.body.json()).ok_or_else(|| {
        OpenAiError::invalid(
            "body",
            "`n`, `best_of`, `max_tokens` and `max_completion_tokens` are whole numbers above 0, and the first two not too large",
        )
    })?;
    Ok((asked, order.body.len() + LIMIT_BYTES))
}

/// What a provider asks for a request. One that names no limit is given one that leaves room for the prompt.
fn priced(
    listing: &Arc<ServedListing>,
    asked: AskedTokens,
    (call, bytes): (ServedCall, usize),
) -> PricedListing {
    let card = &listing.card;
    let limit = unasked_limit(card, asked, (call, bytes));
    let limited = AskedTokens {
        each: asked.each.or(limit),
        ..asked
    };
    // The same number of tokens for all, whatever their cards say of contexts: a quarter of the bytes, and the usual answer.
    let prompt = u32::try_from(bytes).unwrap_or(u32::MAX) / 4;
    let each = asked.each.map_or(USUAL_TOKENS, |it| it.min(USUAL_TOKENS));
    let completion = each
        .saturating_mul(asked.choices)
        .saturating_mul(asked.prompts);
    let usual = TokenUsage {
        prompt,
        completion: match call {
            ServedCall::Embedding => 0,
            ServedCall::Chat | ServedCall::Completion => completion,
        },
    };
    PricedListing {
        listing: Arc::clone(listing),
        limit,
        usual: card.price(usual),
        most: card.price(limited.bound((call, bytes), card)),
    }
}

/// How long nothing may come of an answer: where pieces are wanted between two of them, else until all of it is there.
fn nothing_max(request: &ServedRequest, asked: AskedTokens, limit: Option<u32>) -> Duration {
    let is_whole = !request.stream && request.call != ServedCall::Embedding;
    let tokens = match is_whole {
        true => asked.each.or(limit).unwrap_or(u32::MAX),
        false => 0,
    };
    NOTHING_MAX.saturating_add(TOKEN_TIME_MAX.saturating_mul(tokens))
}

/// The limit of each answer for a request that names none. Servers refuse one that does not fit into the context beside the prompt: where
/// the prompt may fill it there is none, and the context is the bound.
fn unasked_limit(
    card: &ServedCard,
    asked: AskedTokens,
    (call, bytes): (ServedCall, usize),
) -> Option<u32> {
    if asked.each.is_some() || call == ServedCall::Embedding {
        return None;
    }
    let prompt = u32::try_from(bytes).unwrap_or(u32::MAX);
    let prompt = prompt.saturating_add(PROMPT_TOKENS_ADDED);
    let room = card.context.saturating_sub(prompt);
    (room > 0).then(|| room.min(TOKENS_UNASKED_MAX))
}

/// Those that may be asked for what the caller allows.
///
/// # Errors
/// What does not suffice for the cheapest, if none may.
fn affordable(
    keys: &ApiKeys,
    by: &Requester,
    order: &ServedOrder,
    priced: Vec<PricedListing>,
) -> Result<Vec<PricedListing>, OpenAiError> {
    let why = |most: Amount| -> Option<OpenAiError> {
        if let Some(max_price) = order.max_price.filter(|it| *it < most) {
            let text = format!(
                "the request may cost {most} TGRID, more than `max_price`, {max_price}; a smaller `max_tokens` makes it cheaper"
            );
            return Some(OpenAiError::invalid("tensorgrid.max_price", text));
        }
        let allowed = keys.allows(&by.caller, most);
        allowed.err().map(|error| of_reserve(&error))
    };
    let least = priced.iter().map(|it| it.most).min();
    let fit: Vec<PricedListing> = priced
        .into_iter()
        .filter(|it| why(it.most).is_none())
        .collect();
    match least.filter(|_| fit.is_empty()).and_then(why) {
        Some(error) => Err(error),
        None => Ok(fit),
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
    if listings.iter().any(|it| it.is_full()) {
        return OpenAiError::unavailable(format!(
            "all providers of `{model}` are being asked as much as they may"
        ));
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

/// The request as it travels, with a limit that it does not name.
fn request_of(order: &ServedOrder, limit: Option<u32>) -> Result<ServedRequest, OpenAiError> {
    // A limit is added where the body names none.
    let body = order.body.with(limit.map(|limit| ("max_tokens", limit)));
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

/// One provider that is asked for one request.
struct ProviderAttempt<'a> {
    models: &'a ServedModels,
    by: &'a Requester,
    wallet: &'a Wallet,
    listing: &'a Arc<ServedListing>,
    request: &'a ServedRequest,
    /// The most that it costs.
    most: Amount,
    watched: &'a Watched,
    /// When the request is over.
    until: Instant,
    /// How long nothing may come of the answer.
    nothing_max: Duration,
}

impl ProviderAttempt<'_> {
    /// Asks, with what it may cost held of the key's limit meanwhile.
    async fn run(&self) -> Result<ServedReply, AttemptError> {
        let (keys, most) = (&self.models.keys, self.most);
        let reserved = keys.reserve(&self.by.caller, most);
        reserved.map_err(|error| match &error {
            ReserveError::Limit { .. } => AttemptError::Unsuited(of_reserve(&error)),
            ReserveError::Write(_) => AttemptError::Callers(of_reserve(&error)),
        })?;
        self.listing.begin();
        let asked = self.asked().await;
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
            Err(error) if error.is_accounts() => Err(AttemptError::Unsuited(OpenAiError::quota(
                with_sources(&error),
            ))),
            Err(error) => Err(AttemptError::Providers(with_sources(&error))),
        }
    }

    /// The answer, by the account's lease.
    async fn asked(&self) -> Result<(Arc<EndpointSession>, EndpointAnswer), LeaseError> {
        let (leases, most) = (&self.models.leases, self.most);
        let (wallet, model): (&Wallet, ModelId) = (self.wallet, self.listing.model);
        let payer = LeasePayer {
            wallet,
            caller: &self.by.caller,
        };
        let _promised = leases.promise(wallet, model, most);
        let session = leases.session(payer, model, most).await?;
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
                    leases.top_up(payer, (&session, model), most).await?;
                    // The provider has to see it.
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
            leases.give_back(wallet, (model, session.job())).await;
        }
        Err(error.into())
    }

    /// Asks once. A provider that says nothing for long is not waited for.
    async fn ask(&self, session: &EndpointSession) -> Result<EndpointAnswer, EndpointError> {
        // To open a lease takes its own time.
        let now = self.watched.now();
        self.watched.heard.store(now, Ordering::Relaxed);
        self.watched.written.store(now, Ordering::Relaxed);
        let mut piece = |bytes: &[u8]| self.watched.take(bytes);
        let mut asking = std::pin::pin!(session.ask(self.request.to_bytes(), &mut piece));
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    let is_over = Instant::now() >= self.until;
                    if is_over || self.watched.is_over(self.nothing_max) {
                        return Err(EndpointError::Silent { seconds: self.nothing_max.as_secs() });
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

    /// What a caller is told of an answer; what every server refused is the caller's to mend.
    fn reply(
        &self,
        session: &EndpointSession,
        answer: &EndpointAnswer,
    ) -> Result<ServedReply, AttemptError> {
        let unreadable = || AttemptError::Providers("its answer cannot be read".to_owned());
        let said = ServedAnswer::from_bytes(&answer.output).map_err(|_| unreadable())?;
        if !said.is_success() {
            let body: Value = read_json(&said.body, &JsonLimit::PIECE).map_err(|_| unreadable())?;
            let message = body["error"]["message"].as_str();
            let message = message.unwrap_or("the model's server refused the request");
            let status = match said.status {
                status @ (400 | 413 | 422) => status,
                _ => 400,
            };
            return Err(AttemptError::Unsuited(OpenAiError {
                status,
                code: "refused_by_model".to_owned(),
                param: None,
                ..OpenAiError::invalid("body", message)
            }));
        }
        let body = ServedBody::read(&said.body).ok_or_else(unreadable)?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;
    use tg_types::{Address, Label, TimestampMs};

    fn card(provider: u8, context: u32, price: u128) -> ServedCard {
        ServedCard {
            provider: Address::new([provider; 20]),
            name: Label::lossy("popular"),
            context,
            calls: ServedCall::Chat.bit(),
            prompt_price: Amount::new(price),
            completion_price: Amount::new(price),
            issued: TimestampMs::ZERO,
        }
    }

    fn order(body: &Value, max_price: Option<&str>) -> ServedOrder {
        ServedOrder {
            model: "popular".to_owned(),
            call: ServedCall::Chat,
            stream: false,
            body: tg_api::AskedBody::of(body.as_object().unwrap().clone()),
            max_price: max_price.map(|it| it.parse().unwrap()),
            providers: Vec::new(),
        }
    }

    fn offered(
        order: &ServedOrder,
        cards: &[ServedCard],
    ) -> Result<Vec<PricedListing>, OpenAiError> {
        let keys = ApiKeys::open(None).unwrap();
        let by = Requester {
            caller: "development".to_owned(),
            record: Arc::new(tg_api::MemoryRecord::default()),
        };
        let (asked, bytes) = read(order)?;
        let priced = cards.iter().map(|card| {
            let listing = ServedListing::of_card(card.clone());
            priced(&listing, asked, (order.call, bytes))
        });
        affordable(&keys, &by, order, priced.collect())
    }

    /// A stranger registers a card of a popular name whose context is as long as may be, a unit below the cheapest.
    #[test]
    fn what_a_request_costs_at_most_does_not_follow_from_a_strangers_card() {
        let tgrid = Amount::from_tgrid(1).get();
        let (honest, stranger) = (
            card(1, 32_768, 60 * tgrid),
            card(2, 1 << 24, 60 * tgrid - 1),
        );
        let unlimited = order(&json!({"messages": []}), None);
        let all = offered(&unlimited, &[honest.clone(), stranger.clone()]).unwrap();
        assert!(all[1].most <= all[0].most, "as its price is");
        assert_eq!(all[0].limit, Some(TOKENS_UNASKED_MAX));
        let request = request_of(&unlimited, all[1].limit).unwrap();
        let bound = request.bound(&stranger).unwrap();
        assert_eq!(bound.completion, TOKENS_UNASKED_MAX);
        assert!(request.most(&stranger).unwrap() <= all[1].most);
        // A limit leaves room for the prompt; where the prompt may fill the context there is none.
        let small = offered(&unlimited, &[card(3, 1_000, 1)]).unwrap();
        assert!(small[0].limit.unwrap() < 1_000 - PROMPT_TOKENS_ADDED);
        assert_eq!(
            offered(&unlimited, &[card(3, 100, 1)]).unwrap()[0].limit,
            None
        );
        let named = order(&json!({"messages": [], "max_tokens": 9}), None);
        assert_eq!(offered(&named, &[honest]).unwrap()[0].limit, None);
    }

    /// A provider says every two seconds that it works, and that is all.
    #[test]
    fn who_only_says_that_it_works_is_given_up() {
        let order = order(&json!({"messages": [], "max_tokens": 10}), None);
        let request = request_of(&order, None).unwrap();
        let (asked, _) = read(&order).unwrap();
        let most = nothing_max(&request, asked, None);
        assert_eq!(most, NOTHING_MAX + TOKEN_TIME_MAX * 10);
        let streamed = ServedRequest {
            stream: true,
            ..request
        };
        assert_eq!(nothing_max(&streamed, asked, None), NOTHING_MAX);
        let ago = |time: Duration| Watched {
            began: Instant::now().checked_sub(time).unwrap(),
            ..Watched::new(None)
        };
        let watched = ago(most - Duration::from_secs(1));
        watched.take(&[]);
        assert!(!watched.is_over(most));
        let watched = ago(most + Duration::from_secs(1));
        watched.take(&[]);
        assert!(watched.is_over(most));
        // What is written counts.
        watched.take(b"[]");
        assert!(!watched.is_over(most));
    }

    #[test]
    fn a_provider_that_the_caller_cannot_pay_does_not_end_the_request() {
        let tgrid = Amount::from_tgrid(1).get();
        let (honest, dear) = (card(1, 32_768, tgrid), card(2, 32_768, 900_000 * tgrid));
        for max_price in [Some("1"), None] {
            let order = order(&json!({"messages": [], "max_tokens": 9_000}), max_price);
            let fit = offered(&order, &[dear.clone(), honest.clone()]).unwrap();
            assert_eq!(fit.len(), 1, "{max_price:?}");
            assert_eq!(fit[0].listing.card, honest);
            let none = offered(&order, std::slice::from_ref(&dear)).unwrap_err();
            let status = if max_price.is_some() { 400 } else { 429 };
            assert_eq!(none.status, status, "{none:?}");
        }
    }
}
