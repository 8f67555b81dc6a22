//! Orders for the callers of the OpenAI routes, each by the account that its key is bound to.
//!
//! - `tokenizers`: which this node holds; `known`: the models, and what tokens are to them;
//! - `paying`: one order, from the key's limit to what it cost;
//! - `served`: what goes to an endpoint of the caller;
//! - `directory`, `leases`, `asking`, `served_text`: models that a provider has a server of its own for;
//! - `completion`, `embedding`: what is ordered, and what a caller reads of the result; `choices`: several texts of one request; `logprobs`: how
//!   likely their tokens were; `refusal`: failures in OpenAI's words.

pub mod api_keys;
mod asking;
mod choices;
mod completion;
mod directory;
mod embedding;
mod known;
mod leases;
mod logprobs;
mod paying;
mod refusal;
mod served;
mod served_text;
mod tokenizers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tg_api::openai::on_blocking_thread;
use tg_api::{
    ChoiceSender, Completion, CompletionOrder, EmbeddingOrder, Embeddings, OpenAiError,
    OpenAiFuture, OpenAiPort, PieceSender, Requester, ServedName, ServedOrder, ServedReply,
};
use tg_ir::{Generator, Program};
use tg_proof::PublicModel;
use tg_sdk::dto::{ModelDto, ModelStateDto};
use tg_sdk::verify::PUBLIC_MODEL_BYTES_MAX;
use tg_sdk::{Client, jobs};
use tg_types::{Amount, JobId, ModelId, ServedCall};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use api_keys::ApiKeys;
use asking::ServedModels;
use choices::TextRun;
use directory::NameKind;
use embedding::{TextInput, VectorRule};
use known::{KnownModel, KnownModels};
use paying::{OrderPart, OrderTerm, Paying};
use served::ServedEndpoints;
use tokenizers::Tokenizers;

/// Orders of one request for embeddings that run at once.
const ORDERS_AT_ONCE: usize = 8;

/// How often it is looked whether there are new models: which calls they answer, and whether their tokenizers are on the grid. An
/// upload that no record names is kept for ten minutes.
const LOOK: Duration = Duration::from_secs(5);

/// Most models that are read: those that come after them are ordered all the same, and the list does not say their calls.
const READ_MAX: usize = 10_000;

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
    /// The calls that each model answers which was read.
    calls: Mutex<BTreeMap<ModelId, Vec<ServedCall>>>,
    folder: PathBuf,
    at_once: Arc<Semaphore>,
    served: Arc<ServedEndpoints>,
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

    fn is_served<'a>(&'a self, model: &'a str, call: ServedCall) -> OpenAiFuture<'a, bool> {
        Box::pin(async move { Ok(self.means_served(model, call).await) })
    }

    fn calls_of(&self, program: ModelId) -> Option<Vec<ServedCall>> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(&program).cloned()
    }

    fn served_names(&self) -> OpenAiFuture<'_, Vec<ServedName>> {
        Box::pin(async {
            let mut names = Vec::new();
            for served in self.upstream.names().await {
                let mut calls = ServedCall::ALL.into_iter();
                let call = calls.find(|call| served.card.serves(*call));
                if self
                    .means_served(&served.name, call.unwrap_or(ServedCall::Chat))
                    .await
                {
                    names.push(served);
                }
            }
            Ok(names)
        })
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
            served: Arc::new(ServedEndpoints::new(client.clone())),
            known: KnownModels::new(client, Arc::clone(&tokenizers)),
            tokenizers,
            calls: Mutex::default(),
            folder: own,
            at_once: Arc::new(Semaphore::new(ORDERS_AT_ONCE)),
        }
    }

    /// Whether a name or an id means served models for a call. A name that a program had before them is the program's where it is of use: one that
    /// writes no text does not take requests for text.
    async fn means_served(&self, name: &str, call: ServedCall) -> bool {
        match self.upstream.directory.kind(name).await {
            Some(NameKind::Served) => true,
            Some(NameKind::Contested(program)) => !self.gives(program, call).await,
            Some(NameKind::Checked) | None => false,
        }
    }

    /// Whether a program is of use for a call. One that cannot be had now is: it is not for others to answer in its place.
    async fn gives(&self, program: ModelId, call: ServedCall) -> bool {
        match (self.known.find(&program.to_string()).await, call) {
            (Ok((_, known)), ServedCall::Chat | ServedCall::Completion) => {
                known.generator.is_some()
            }
            (Ok((listed, known)), ServedCall::Embedding) => {
                VectorRule::of(&known, &listed.name).is_ok()
            }
            (Err(error), _) => error.status >= 500,
        }
    }

    async fn completed(
        &self,
        by: Requester,
        order: CompletionOrder,
        pieces: Option<PieceSender>,
    ) -> Result<Completion, OpenAiError> {
        if self.means_served(&order.model, ServedCall::Chat).await {
            let served = served_text::order_of(&order, pieces.is_some())?;
            let choices = pieces.map(served_text::texts);
            let reply = self.upstream.serve(&by, served, choices).await?;
            return Ok(served_text::completion_of(&reply));
        }
        let (listed, known) = self.known.find(&order.model).await?;
        logprobs::refuse_unproved(&order)?;
        let coding = self.known.coding(&known).await;
        let asked = (order.clone(), Arc::clone(&known), Arc::clone(&coding));
        let request = on_blocking_thread(move || {
            let (order, known, coding) = asked;
            let generator = known.generator.as_ref().ok_or_else(|| {
                let text = format!("`{}` does not write text", order.model);
                OpenAiError::invalid("model", text)
            })?;
            completion::request(&order, generator, &coding)
        });
        let run = TextRun {
            paying: self.paying.clone(),
            endpoints: Arc::clone(&self.served),
            model: (listed, known),
            coding,
            request: Arc::new(request.await?),
            order: Arc::new(order),
            pieces,
        };
        run.all(by).await
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
        let inputs = on_blocking_thread(move || {
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

    /// Reads new models: which calls they answer, and their tokenizers while they are on the grid; until nobody orders by this any
    /// more.
    pub fn watch_models(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(this) = this.upgrade() {
                // A grid that is away is asked again, and so is one that has not the files of a model.
                for model in this.paying.client.models().await.unwrap_or_default() {
                    if model.state == ModelStateDto::Active && this.is_to_read(model.id) {
                        this.read(&model).await;
                    }
                }
                this.upstream.give_back_idle().await;
                let paying = &this.paying;
                paying.keys.tend_sessions(&paying.client).await;
                drop(this);
                tokio::time::sleep(LOOK).await;
            }
        });
    }

    fn is_to_read(&self, model: ModelId) -> bool {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.len() < READ_MAX && !calls.contains_key(&model)
    }

    async fn read(&self, model: &ModelDto) {
        let client = &self.paying.client;
        let public = client.blob(model.public_blob, PUBLIC_MODEL_BYTES_MAX).await;
        let Ok(public) = public else {
            return;
        };
        // What is no public model is a graph of floats or a program, which names no tokenizer and answers no call.
        let read = on_blocking_thread(move || {
            let public = PublicModel::decode(&public).ok();
            let program = public.as_ref().map(PublicModel::program);
            let named = program.and_then(|program| program.tokenizer);
            Ok((program.map_or_else(Vec::new, calls_of), named))
        });
        let Ok((calls, named)) = read.await else {
            return;
        };
        if let Some(digest) = named {
            self.tokenizers.prepare(digest, model.owner).await;
        }
        let mut all = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(model.id, calls);
    }
}

/// The calls that a program answers.
fn calls_of(program: &Program) -> Vec<ServedCall> {
    match (Generator::of(program), VectorRule::of_program(program)) {
        (Ok(_), _) => vec![ServedCall::Chat, ServedCall::Completion],
        (Err(_), Ok(_)) => vec![ServedCall::Embedding],
        (Err(_), Err(_)) => Vec::new(),
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
        let (client, model) = (self.paying.client.clone(), Arc::clone(known));
        let (order, job) = (ended.ordered(), ended.job.clone());
        let result = refusal::waiting_beside(async move {
            jobs::collect(&client, &model.model, (&order, &job)).await
        });
        let result = result.await?;
        let (result, price) = self.paying.settle(&of, &ended, result)?;
        let reals = known.model.answer(&result.values).reals();
        let vector = self.rule.vector(&reals, &input)?;
        Ok((vector, result.receipt.job.id, price))
    }
}
