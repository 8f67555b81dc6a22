//! Orders for the callers of the OpenAI routes, each by the account that its key is bound to.
//!
//! - `tokenizers`: which this node holds; `known`: the models, and what tokens are to them;
//! - `paying`: one order, from the key's limit to what it cost;
//! - `served`: what goes to an endpoint of the caller;
//! - `directory`, `leases`, `asking`, `served_text`: models that a provider has a server of its own for;
//! - `completion`, `embedding`: what is ordered, and what a caller reads of the result; `refusal`: failures in OpenAI's words.

pub mod api_keys;
mod asking;
mod completion;
mod directory;
mod embedding;
mod known;
mod leases;
mod paying;
mod refusal;
mod served;
mod served_text;
mod tokenizers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tg_api::{
    ChoiceSender, Completion, CompletionOrder, EmbeddingOrder, Embeddings, OpenAiError,
    OpenAiFuture, OpenAiPort, PieceSender, Requester, ServedName, ServedOrder, ServedReply,
};
use tg_proof::PublicModel;
use tg_sdk::dto::{ModeDto, ModelDto, ModelStateDto};
use tg_sdk::verify::PUBLIC_MODEL_BYTES_MAX;
use tg_sdk::{Client, jobs};
use tg_types::{Amount, JobId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use api_keys::ApiKeys;
use asking::ServedModels;
use completion::{AskedText, LiveText};
use embedding::{TextInput, VectorRule};
use known::{KnownModel, KnownModels};
use paying::{OrderPart, OrderTerm, Paying};
use served::ServedEndpoints;
use tokenizers::Tokenizers;

/// Orders of one request for embeddings that run at once.
const ORDERS_AT_ONCE: usize = 8;

/// How often it is looked whether there are new models, whose tokenizers may be on the grid. An upload that no record names is
/// kept for ten minutes.
const LOOK: Duration = Duration::from_secs(20);

/// Where an [`OpenAiOrders`] keeps and finds its files.
#[derive(Debug, Clone)]
pub struct OpenAiFolders {
    /// Its own: tokenizers of the grid, files and batches of callers.
    pub own: PathBuf,
    /// The operator's tokenizers.
    pub tokenizers: Option<PathBuf>,
}

/// Orders for callers over the API of this process.
#[derive(Debug)]
pub struct OpenAiOrders {
    paying: Paying,
    known: KnownModels,
    tokenizers: Arc<Tokenizers>,
    folder: PathBuf,
    at_once: Arc<Semaphore>,
    served: ServedEndpoints,
    upstream: ServedModels,
}

impl OpenAiPort for OpenAiOrders {
    fn caller(&self, key: &str) -> Option<String> {
        self.paying.keys.caller(key)
    }

    fn complete(
        &self,
        by: Requester,
        order: CompletionOrder,
        pieces: Option<PieceSender>,
    ) -> OpenAiFuture<'_, Completion> {
        Box::pin(self.completed(by, order, pieces))
    }

    fn embed(&self, by: Requester, order: EmbeddingOrder) -> OpenAiFuture<'_, Embeddings> {
        Box::pin(self.embedded(by, order))
    }

    fn is_served<'a>(&'a self, model: &'a str) -> OpenAiFuture<'a, bool> {
        Box::pin(async { Ok(self.upstream.directory.has(model).await) })
    }

    fn served_names(&self) -> OpenAiFuture<'_, Vec<ServedName>> {
        Box::pin(async { Ok(self.upstream.names().await) })
    }

    fn serve(
        &self,
        by: Requester,
        order: ServedOrder,
        pieces: Option<ChoiceSender>,
    ) -> OpenAiFuture<'_, ServedReply> {
        Box::pin(async move { self.upstream.serve(&by, order, pieces).await })
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl OpenAiOrders {
    /// Orders at a grid by keys, with files in folders.
    pub fn new(client: Client, keys: ApiKeys, folders: OpenAiFolders) -> Self {
        let OpenAiFolders { own, tokenizers } = folders;
        let taken = own.join("tokenizers");
        let tokenizers = Arc::new(Tokenizers::new(client.clone(), tokenizers, taken));
        let keys = Arc::new(keys);
        Self {
            upstream: ServedModels::new(client.clone(), Arc::clone(&keys)),
            paying: Paying {
                client: client.clone(),
                keys,
            },
            served: ServedEndpoints::new(client.clone()),
            known: KnownModels::new(client, Arc::clone(&tokenizers)),
            tokenizers,
            folder: own,
            at_once: Arc::new(Semaphore::new(ORDERS_AT_ONCE)),
        }
    }

    async fn completed(
        &self,
        by: Requester,
        order: CompletionOrder,
        pieces: Option<PieceSender>,
    ) -> Result<Completion, OpenAiError> {
        if self.upstream.directory.has(&order.model).await {
            let served = served_text::order_of(&order, pieces.is_some())?;
            let choices = pieces.map(served_text::texts);
            let reply = self.upstream.serve(&by, served, choices).await?;
            return Ok(served_text::completion_of(&reply));
        }
        let (listed, known) = self.known.find(&order.model).await?;
        let coding = self.known.coding(&known).await;
        let asked = (order.clone(), Arc::clone(&known), Arc::clone(&coding));
        let request = refusal::beside(move || {
            let (order, known, coding) = asked;
            let generator = known.generator.as_ref().ok_or_else(|| {
                let text = format!("`{}` does not write text", order.model);
                OpenAiError::invalid("model", text)
            })?;
            completion::request(&order, generator, &coding)
        });
        let request = request.await?;
        let input = known.model.request(&request);
        let input = input.map_err(|error| refusal::too_long("messages", &error.to_string()))?;
        let of = OrderPart { by, part: 0 };
        let text = AskedText {
            order: &order,
            request: &request,
            coding: &coding,
        };
        if let Some(completion) = self
            .answered(&of, &listed, (&known, &input), text, pieces)
            .await?
        {
            return Ok(completion);
        }
        let term = self.paying.terms(&listed, (order.mode, order.max_price));
        let ended = self.paying.job(&of, &listed, (input, term.await?)).await?;
        let written = jobs::collect_written(&self.paying.client, &known.model, &ended.job).await;
        let (written, price) = self
            .paying
            .settle(&of, ended, written, |written| &written.receipt)?;
        let (pieces, stopped) = completion::shown(&order, &request, (&coding, &written.tokens))?;
        let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
        Ok(Completion {
            pieces,
            prompt_tokens: count(request.prompt.len()),
            written_tokens: count(written.tokens.len()),
            stopped,
            job: written.receipt.job.id,
            model: listed.id,
            price,
            mode: order.mode,
            proof_bytes: written.proof.map(|proof| proof.file.len() as u64),
            unchecked: None,
        })
    }

    /// What the caller's endpoint of the model answers; nothing if it has none, or the answer is to be checked. If the endpoint fails before
    /// anything was sent, it is ordered as a job.
    async fn answered(
        &self,
        of: &OrderPart,
        listed: &ModelDto,
        (known, input): (&KnownModel, &[u8]),
        text: AskedText<'_>,
        pieces: Option<PieceSender>,
    ) -> Result<Option<Completion>, OpenAiError> {
        let wallet = self.paying.keys.wallet(&of.by.caller);
        let wallet = wallet.filter(|_| text.order.mode == ModeDto::None);
        let Some(wallet) = wallet else {
            return Ok(None);
        };
        let Some(session) = self.served.session(wallet, listed.id).await else {
            return Ok(None);
        };
        let most = session.run();
        let reserved = self.paying.keys.reserve(&of.by.caller, most);
        reserved.map_err(|error| refusal::of_reserve(&error))?;
        let mut live = LiveText::new(text, pieces);
        let mut piece = |bytes: &[u8]| live.take(bytes);
        let answer = self.served.ask(&session, input.to_vec(), &mut piece);
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                self.paying.keys.release(&of.by.caller, most);
                return match live.is_silent() {
                    true => Ok(None),
                    false => Err(OpenAiError::unavailable(error.to_string())),
                };
            }
        };
        let rest = most.saturating_sub(answer.price);
        self.paying.keys.release(&of.by.caller, rest);
        let tokens = known.model.written(&answer.output);
        let tokens = tokens.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
        let shown = (text.coding, tokens.as_slice());
        let (pieces, stopped) = completion::shown(text.order, text.request, shown)?;
        let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
        Ok(Some(Completion {
            pieces,
            prompt_tokens: count(text.request.prompt.len()),
            written_tokens: count(tokens.len()),
            stopped,
            job: session.job(),
            model: listed.id,
            price: answer.price,
            mode: ModeDto::Endpoint,
            proof_bytes: None,
            unchecked: None,
        }))
    }

    /// All inputs are read before the first is ordered. If one order fails the others are paid all the same.
    async fn embedded(
        &self,
        by: Requester,
        order: EmbeddingOrder,
    ) -> Result<Embeddings, OpenAiError> {
        let (listed, known) = self.known.find(&order.model).await?;
        let rule = VectorRule::of(&known, &order.model)?;
        let coding = self.known.coding(&known).await;
        let (texts, of) = (order.inputs, Arc::clone(&known));
        let inputs = refusal::beside(move || {
            let input = |text| rule.input(&of, (&coding, text));
            texts.iter().map(input).collect::<Result<_, _>>()
        });
        let inputs: Vec<TextInput> = inputs.await?;
        let tokens = inputs.iter().map(TextInput::tokens).sum();
        let term = self.paying.terms(&listed, (order.mode, order.max_price));
        let term = term.await?;
        self.paying.allows(&by, (&term, inputs.len()))?;
        let run = VectorRun {
            paying: self.paying.clone(),
            at_once: Arc::clone(&self.at_once),
            model: (listed.clone(), known),
            rule,
            term,
        };
        let mut tasks = JoinSet::new();
        for (input, part) in inputs.into_iter().zip(0..) {
            let (run, by) = (run.clone(), by.clone());
            tasks.spawn(async move { (part, run.vector(OrderPart { by, part }, input).await) });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
            all.push(ended);
        }
        all.sort_by_key(|(part, _)| *part);
        let mut embeddings = Embeddings {
            vectors: Vec::new(),
            tokens,
            jobs: Vec::new(),
            model: listed.id,
            price: Amount::ZERO,
            mode: order.mode,
        };
        for (_, ended) in all {
            let (vector, job, price) = ended?;
            embeddings.vectors.push(vector);
            embeddings.jobs.push(job);
            embeddings.price = embeddings.price.saturating_add(price);
        }
        Ok(embeddings)
    }

    /// Takes the tokenizers of new models from the grid while they are there, until nobody orders by this any more.
    pub fn watch_models(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            while let Some(this) = this.upgrade() {
                // A grid that is away is asked again.
                for model in this.paying.client.models().await.unwrap_or_default() {
                    if model.state == ModelStateDto::Active && seen.insert(model.id) {
                        this.look_at(&model).await;
                    }
                }
                this.upstream.give_back_idle().await;
                drop(this);
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    async fn look_at(&self, model: &ModelDto) {
        let client = &self.paying.client;
        let public = client.blob(model.public_blob, PUBLIC_MODEL_BYTES_MAX).await;
        let Ok(public) = public else {
            return;
        };
        // What is no public model is a graph of floats or a program, which names no tokenizer.
        let named = refusal::beside(move || {
            let public = PublicModel::decode(&public).ok();
            Ok(public.and_then(|public| public.program().tokenizer))
        });
        if let Ok(Some(digest)) = named.await {
            self.tokenizers.prepare(digest).await;
        }
    }
}

/// What the orders of one request for embeddings share.
#[derive(Clone)]
struct VectorRun {
    paying: Paying,
    at_once: Arc<Semaphore>,
    model: (ModelDto, Arc<KnownModel>),
    rule: VectorRule,
    term: OrderTerm,
}

impl VectorRun {
    async fn vector(
        &self,
        of: OrderPart,
        input: TextInput,
    ) -> Result<(Vec<f32>, JobId, Amount), OpenAiError> {
        let (listed, known) = &self.model;
        let _place = self.at_once.acquire().await;
        let order = (input.bytes.clone(), self.term.clone());
        let ended = self.paying.job(&of, listed, order).await?;
        let result = jobs::collect(&self.paying.client, &known.model, &ended.job).await;
        let settled = self
            .paying
            .settle(&of, ended, result, |result| &result.receipt);
        let (result, price) = settled?;
        let reals = known.model.answer(&result.values).reals();
        let vector = self.rule.vector(&reals, &input)?;
        Ok((vector, result.receipt.job.id, price))
    }
}
