//! Orders for the callers of the OpenAI routes, each by the account that its key is bound to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tg_api::{
    Completion, CompletionOrder, CompletionPrompt, OpenAiError, OpenAiFuture, OpenAiPort,
};
use tg_ir::{GenerationRequest, Generator};
use tg_sdk::dto::ModelDto;
use tg_sdk::jobs::{self, JobError};
use tg_sdk::{CheckedModel, Client, ModelId, OrderTerms};
use tg_types::{Amount, Digest};
use tokio::sync::Mutex;

use super::keys;
use super::openai_keys::{ApiKeys, ReserveError};
use crate::offline::generate::{sampling, takes_bytes};

/// How long a job may take before its money comes back.
const DEADLINE: Duration = Duration::from_secs(300);

/// Models that are kept checked.
const MODELS_KEPT: usize = 16;

/// A model that was checked once.
#[derive(Debug)]
struct CheckedWriter {
    model: CheckedModel,
    generator: Generator,
}

/// Orders for callers over the API of this process.
#[derive(Debug)]
pub(crate) struct OpenAiOrders {
    client: Client,
    keys: ApiKeys,
    known: Mutex<BTreeMap<ModelId, Arc<CheckedWriter>>>,
}

impl OpenAiPort for OpenAiOrders {
    fn caller(&self, key: &str) -> Option<String> {
        self.keys.caller(key)
    }

    fn complete(&self, caller: String, order: CompletionOrder) -> OpenAiFuture<'_, Completion> {
        Box::pin(self.completed(caller, order))
    }
}

impl OpenAiOrders {
    pub(crate) fn new(client: Client, keys: ApiKeys) -> Self {
        Self {
            client,
            keys,
            known: Mutex::default(),
        }
    }

    async fn completed(
        &self,
        caller: String,
        order: CompletionOrder,
    ) -> Result<Completion, OpenAiError> {
        let listed = jobs::find_model(&self.client, &order.model).await;
        let listed = listed.map_err(|error| of_job(&error, &order.model))?;
        let known = self.known(&listed, &order.model).await?;
        let request = request(&order, &known)?;
        let input = known.model.request(&request);
        let input = input.map_err(|error| too_long(&error.to_string()))?;
        let (terms, most) = self.terms(&listed, &order).await?;
        self.keys
            .reserve(&caller, most)
            .map_err(|error| of_reserve(&error))?;
        let ended = self.ordered(&caller, &known.model, input, terms).await;
        let written = match ended {
            Ok(written) => written,
            Err(NotCharged::Refunded(error)) => {
                self.keys.release(&caller, most);
                return Err(of_job(&error, &order.model));
            }
            // Nobody knows what it costs: it counts as spent.
            Err(NotCharged::Unknown(error)) => return Err(of_job(&error, &order.model)),
        };
        let settled = &written.receipt.settlement;
        let price = settled.price.saturating_add(settled.verification_fee);
        if let Some(rest) = most.checked_sub(price) {
            self.keys.release(&caller, rest);
        }
        let stop = request.stop;
        let stopped = stop.is_some() && written.tokens.last().copied() == stop;
        let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
        let shown = written.tokens.len() - usize::from(stopped);
        Ok(Completion {
            pieces: pieces(&written.tokens[..shown], &known),
            prompt_tokens: count(request.prompt.len()),
            written_tokens: count(written.tokens.len()),
            stopped,
            job: written.receipt.job.id,
            model: listed.id,
            price,
            mode: order.mode,
            proof_bytes: written.proof.map(|proof| proof.file.len() as u64),
        })
    }

    /// A model, checked when it is first asked for.
    async fn known(
        &self,
        listed: &ModelDto,
        name: &str,
    ) -> Result<Arc<CheckedWriter>, OpenAiError> {
        let mut kept = self.known.lock().await;
        if let Some(known) = kept.get(&listed.id) {
            return Ok(Arc::clone(known));
        }
        let model = jobs::public_model(&self.client, listed).await;
        let model = model.map_err(|error| of_job(&error, name))?;
        let generator = model.generator();
        let generator = generator
            .map_err(|_| OpenAiError::invalid("model", format!("`{name}` does not write text")))?;
        let known = Arc::new(CheckedWriter { model, generator });
        if kept.len() >= MODELS_KEPT {
            kept.pop_first();
        }
        kept.insert(listed.id, Arc::clone(&known));
        Ok(known)
    }

    /// The terms of an order, and the most that it costs with verification.
    async fn terms(
        &self,
        listed: &ModelDto,
        order: &CompletionOrder,
    ) -> Result<(OrderTerms, Amount), OpenAiError> {
        let quotes = jobs::patiently(|| self.client.quotes(listed.id, order.mode)).await;
        let quotes = quotes.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
        let usual = jobs::usual_max_price(&quotes);
        let nobody = || {
            let text = "no provider offers to run this model now";
            OpenAiError::unavailable(text.to_owned())
        };
        let max_price = order.max_price.or(usual).ok_or_else(nobody)?;
        let fees = quotes.iter().map(|quote| quote.verification_fee);
        let fee = fees.max().unwrap_or(Amount::ZERO);
        let terms = OrderTerms {
            mode: order.mode.into(),
            deadline: DEADLINE,
            ..OrderTerms::new(max_price)
        };
        Ok((terms, max_price.saturating_add(fee)))
    }

    async fn ordered(
        &self,
        caller: &str,
        model: &CheckedModel,
        input: Vec<u8>,
        terms: OrderTerms,
    ) -> Result<jobs::WrittenAnswer, NotCharged> {
        let wallet = self.keys.wallet(caller).expect("its key was found");
        let id = jobs::order(&self.client, wallet, model, input, terms).await;
        let id = id.map_err(|error| match error.call() {
            // A refused order costs nothing; one without an answer may have been taken.
            Some(call) if call.status().is_some() => NotCharged::Refunded(error),
            _ => NotCharged::Unknown(error),
        })?;
        let job = jobs::follow(&self.client, id, &mut |_| {}).await;
        let job = job.map_err(NotCharged::Unknown)?;
        let written = jobs::collect_written(&self.client, model, &job).await;
        written.map_err(|error| match error {
            JobError::NotPaid { .. } => NotCharged::Refunded(error),
            error => NotCharged::Unknown(error),
        })
    }
}

/// Why an order gave nothing.
enum NotCharged {
    /// Its escrow is back, or it was never taken.
    Refunded(JobError),
    /// It may have been paid.
    Unknown(JobError),
}

/// What is asked of the model.
fn request(
    order: &CompletionOrder,
    writer: &CheckedWriter,
) -> Result<GenerationRequest, OpenAiError> {
    let generator = &writer.generator;
    let bytes = takes_bytes(writer.model.program(), generator);
    let prompt: Vec<u32> = match &order.prompt {
        CompletionPrompt::Tokens(tokens) => tokens.clone(),
        CompletionPrompt::Text(text) if bytes => text.bytes().map(u32::from).collect(),
        CompletionPrompt::Text(_) => {
            let text = "the model's tokens are not bytes: give the prompt as tokens";
            return Err(OpenAiError::invalid("prompt", text));
        }
    };
    if prompt.is_empty() {
        return Err(OpenAiError::invalid("prompt", "the prompt is empty"));
    }
    if let Some(token) = prompt.iter().find(|token| **token >= generator.vocabulary) {
        let text = format!("{token} is no token of the model");
        return Err(OpenAiError::invalid("prompt", text));
    }
    let length = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    let room = generator.window.saturating_sub(length);
    let limit = order.tokens_max.unwrap_or(room).min(room);
    if limit == 0 {
        let window = generator.window;
        return Err(too_long(&format!(
            "the model's window is {window} tokens, the prompt has {length}"
        )));
    }
    let top_k = order.top_k.map(|keep| keep.min(generator.ranks));
    let sampling = sampling(
        generator,
        (order.temperature, order.top_p, top_k),
        seed(order.seed)?,
    );
    Ok(GenerationRequest {
        prompt,
        limit,
        stop: order.stop.map(u32::from),
        sampling: sampling.map_err(|text| OpenAiError::invalid("temperature", text))?,
    })
}

/// 32 bytes of a caller's number, or drawn ones.
fn seed(given: Option<i64>) -> Result<[u8; 32], OpenAiError> {
    match given {
        Some(seed) => Ok(*Digest::of_blob(&seed.to_le_bytes()).as_bytes()),
        None => keys::draw().map_err(|failure| {
            OpenAiError::unavailable(format!("draw a seed: {:#}", failure.error))
        }),
    }
}

/// Text in pieces that are whole characters; what is no UTF-8 becomes U+FFFD. Tokens that are no bytes are written as numbers.
fn pieces(tokens: &[u32], writer: &CheckedWriter) -> Vec<String> {
    if !takes_bytes(writer.model.program(), &writer.generator) {
        let number = |(index, token): (usize, &u32)| match index {
            0 => token.to_string(),
            _ => format!(" {token}"),
        };
        return tokens.iter().enumerate().map(number).collect();
    }
    let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
    let chars = String::from_utf8_lossy(&bytes).into_owned();
    chars.chars().map(String::from).collect()
}

fn too_long(message: &str) -> OpenAiError {
    OpenAiError {
        code: "context_length_exceeded".to_owned(),
        ..OpenAiError::invalid("messages", message)
    }
}

fn of_reserve(error: &ReserveError) -> OpenAiError {
    match error {
        ReserveError::Limit { .. } => OpenAiError::quota(error.to_string()),
        ReserveError::Write(_) => OpenAiError::unavailable(error.to_string()),
    }
}

fn of_job(error: &JobError, model: &str) -> OpenAiError {
    match error {
        JobError::NoModel { .. } => OpenAiError::model(model),
        error => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(inner) = source {
                text.push_str(&format!(": {inner}"));
                source = inner.source();
            }
            OpenAiError::unavailable(text)
        }
    }
}
