//! The texts of one request for a completion: each is an order of its own, with a seed of its own.
//!
//! All are at work at once. If one fails the others are paid all the same and the request fails; a retry of it takes the jobs that were
//! ordered, by the record of the request, and orders the rest.

use std::sync::Arc;

use tg_api::openai::on_blocking_thread;
use tg_api::{
    AnsweringEndpoint, Completion, CompletionChoice, CompletionOrder, OpenAiError, PieceSender,
    Requester, TextLogprobs, TextPiece,
};
use tg_ir::GenerationRequest;
use tg_sdk::dto::{ModeDto, ModelDto};
use tg_sdk::endpoint::session::EndpointSession;
use tg_sdk::jobs;
use tg_types::Amount;
use tokio::task::JoinSet;

use super::completion::{self, AskedText, LiveText};
use super::known::{KnownModel, TextCoding};
use super::logprobs;
use super::paying::{OrderPart, Paying};
use super::refusal;
use super::served::ServedEndpoints;

/// What the choices of one request share.
#[derive(Clone)]
pub(super) struct TextRun {
    pub(super) paying: Paying,
    pub(super) endpoints: Arc<ServedEndpoints>,
    pub(super) model: (ModelDto, Arc<KnownModel>),
    pub(super) coding: Arc<TextCoding>,
    /// What the first choice asks.
    pub(super) request: Arc<GenerationRequest>,
    pub(super) order: Arc<CompletionOrder>,
    pub(super) pieces: Option<PieceSender>,
}

/// A text, and how many tokens were computed for it.
struct WrittenChoice {
    choice: CompletionChoice,
    tokens: u32,
}

impl TextRun {
    /// Orders all choices and waits for their ends.
    pub(super) async fn all(self, by: Requester) -> Result<Completion, OpenAiError> {
        let (count, model) = (self.order.choices, self.model.0.id);
        let prompt = self.request.prompt.len();
        if count > 1 {
            self.allows(&by).await?;
        }
        let mut tasks = JoinSet::new();
        for part in 0..count {
            let (run, by) = (self.clone(), by.clone());
            tasks.spawn(async move { (part, run.one(OrderPart { by, part }).await) });
        }
        // Its pieces end when those of all choices do.
        drop(self);
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
            all.push(ended);
        }
        all.sort_by_key(|(part, _)| *part);
        let prompt_tokens = u32::try_from(prompt).unwrap_or(u32::MAX);
        let mut completion = Completion {
            choices: Vec::new(),
            prompt_tokens: prompt_tokens.saturating_mul(count),
            written_tokens: 0,
            model,
            unchecked: None,
        };
        for (_, written) in all {
            let WrittenChoice { choice, tokens } = written?;
            completion.choices.push(choice);
            completion.written_tokens = completion.written_tokens.saturating_add(tokens);
        }
        Ok(completion)
    }

    /// Whether the key's limit allows all choices together, before the first is ordered.
    async fn allows(&self, by: &Requester) -> Result<(), OpenAiError> {
        let count = self.order.choices;
        if let Some(session) = self.endpoint(by).await {
            let all = session.run().checked_mul_div_ceil(u64::from(count), 1);
            let all = all.unwrap_or(Amount::MAX);
            let allowed = self.paying.keys.allows(&by.caller, all);
            return allowed.map_err(|error| refusal::of_reserve(&error));
        }
        let asked = (self.order.mode, self.order.max_price);
        let term = self.paying.terms(&self.model.0, asked).await?;
        self.paying.allows(by, (&term, count as usize))
    }

    /// The caller's endpoint of the model, if it has one and the answer is not to be checked.
    async fn endpoint(&self, by: &Requester) -> Option<Arc<EndpointSession>> {
        let wallet = self.paying.keys.wallet(&by.caller);
        let wallet = wallet.filter(|_| self.order.mode == ModeDto::None)?;
        self.endpoints.session(wallet, self.model.0.id).await
    }

    /// Writes one choice.
    async fn one(self, of: OrderPart) -> Result<WrittenChoice, OpenAiError> {
        let request = completion::of_choice(&self.request, of.part);
        let input = self.model.1.model.request(&request);
        let input = input.map_err(|error| refusal::too_long("messages", &error.to_string()))?;
        if let Some(written) = self.answered(&of, &request, &input).await? {
            return Ok(written);
        }
        self.ordered(&of, &request, input).await
    }

    /// Writes a choice as a job.
    async fn ordered(
        &self,
        of: &OrderPart,
        request: &GenerationRequest,
        input: Vec<u8>,
    ) -> Result<WrittenChoice, OpenAiError> {
        let (listed, known) = &self.model;
        // Stops: an order that validators refuse, which would wait until its deadline for nothing.
        if !known.model.is_written_by_jobs() {
            let text = format!(
                "jobs do not write with `{}`, as validators would take too long to see that it looks at nothing ahead: open \
                 an endpoint of it (`tensorgrid endpoint open`), and leave `verify` away",
                listed.name
            );
            return Err(OpenAiError::invalid("model", text));
        }
        let asked = (self.order.mode, self.order.max_price);
        let term = self.paying.terms(listed, asked);
        let ended = self.paying.job(of, listed, (input, term.await?)).await?;
        let (client, model) = (self.paying.client.clone(), Arc::clone(known));
        let (order, job) = (ended.ordered(), ended.job.clone());
        let written = refusal::waiting_beside(async move {
            jobs::collect_written(&client, &model.model, (&order, &job)).await
        });
        let written = written.await?;
        let (written, price) = self.paying.settle(of, &ended, written)?;
        let shown = (&*self.coding, written.tokens.as_slice());
        let (pieces, stopped) = completion::shown(&self.order, request, shown)?;
        let logprobs = match (self.order.logprobs, written.scores) {
            (Some(top), Some(scores)) => {
                let text = pieces.concat();
                let listed = (written.tokens.clone(), scores, text);
                Some(self.logprobs(request, listed, top).await?)
            }
            _ => {
                self.send(of, &pieces);
                None
            }
        };
        Ok(WrittenChoice {
            tokens: count(written.tokens.len()),
            choice: CompletionChoice {
                pieces,
                stopped,
                job: written.receipt.job.id,
                price,
                mode: self.order.mode,
                proof_bytes: written.proof.map(|proof| proof.file.len() as u64),
                logprobs,
                endpoint: None,
            },
        })
    }

    /// Sends the whole text of a choice to whoever reads while others are written.
    fn send(&self, of: &OrderPart, texts: &[String]) {
        let Some(pieces) = &self.pieces else {
            return;
        };
        for text in texts {
            // Nobody may read any more.
            let _gone = pieces.send(TextPiece {
                choice: of.part as usize,
                text: text.clone(),
            });
        }
    }

    async fn logprobs(
        &self,
        request: &GenerationRequest,
        (tokens, scores, text): logprobs::ScoredText,
        top: u32,
    ) -> Result<TextLogprobs, OpenAiError> {
        let (known, coding) = (Arc::clone(&self.model.1), Arc::clone(&self.coding));
        let request = request.clone();
        on_blocking_thread(move || {
            let generator = known.generator.as_ref();
            let generator = generator.ok_or_else(|| OpenAiError::unsupported("logprobs"))?;
            let model = (generator, &*coding, &request);
            logprobs::listed(model, (tokens, scores, text), top)
        })
        .await
    }

    /// What the caller's endpoint of the model answers; nothing if it has none, or the answer is to be checked. If the endpoint fails before
    /// anything was sent, it is ordered as a job.
    async fn answered(
        &self,
        of: &OrderPart,
        request: &GenerationRequest,
        input: &[u8],
    ) -> Result<Option<WrittenChoice>, OpenAiError> {
        let Some(session) = self.endpoint(&of.by).await else {
            return Ok(None);
        };
        let keys = &self.paying.keys;
        let most = session.run();
        let reserved = keys.reserve(&of.by.caller, most);
        reserved.map_err(|error| refusal::of_reserve(&error))?;
        let text = AskedText {
            order: &self.order,
            request,
            coding: &self.coding,
        };
        let mut live = LiveText::new(text, (of.part as usize, self.pieces.clone()));
        let mut piece = |bytes: &[u8]| live.take(bytes);
        let answer = self.endpoints.ask(&session, input.to_vec(), &mut piece);
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                keys.release(&of.by.caller, most);
                return match live.is_silent() {
                    true => Ok(None),
                    false => Err(OpenAiError::unavailable(error.to_string())),
                };
            }
        };
        let rest = most.saturating_sub(answer.price);
        keys.release(&of.by.caller, rest);
        let tokens = self.model.1.model.written(&answer.output);
        let tokens = tokens.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
        let shown = (&*self.coding, tokens.as_slice());
        let (pieces, stopped) = completion::shown(&self.order, request, shown)?;
        let endpoint = AnsweringEndpoint {
            provider: session.provider(),
            lease: session.lease(),
            number: answer.number,
            signature: answer.signature,
            unclaimed: self.endpoints.unclaimed(&session).await,
        };
        Ok(Some(WrittenChoice {
            tokens: count(tokens.len()),
            choice: CompletionChoice {
                pieces,
                stopped,
                job: session.job(),
                price: answer.price,
                mode: ModeDto::Endpoint,
                proof_bytes: None,
                logprobs: None,
                endpoint: Some(endpoint),
            },
        }))
    }
}

fn count(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
