//! The models that callers name, checked once, and what tokens are to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_api::{CompletionPrompt, OpenAiError};
use tg_ir::Generator;
use tg_sdk::dto::ModelDto;
use tg_sdk::jobs;
use tg_sdk::{CheckedModel, Client, ModelId};
use tg_text::{Text, TextLength};
use tokio::sync::Mutex;

use super::refusal::of_job;
use super::tokenizers::{HeldTokenizer, Tokenizers};
use crate::offline::generate::takes_bytes;

/// Models that are kept checked.
const MODELS_KEPT: usize = 16;

/// A model that was checked once.
#[derive(Debug)]
pub(super) struct KnownModel {
    pub(super) model: CheckedModel,
    /// What it can write, if it writes.
    pub(super) generator: Option<Generator>,
}

/// What tokens are to a caller.
#[derive(Debug)]
pub(super) enum TextCoding {
    /// Bytes.
    Bytes,
    /// What a tokenizer makes of a text.
    Tokenizer(Arc<HeldTokenizer>),
    /// Numbers, and why a text is refused.
    Numbers(OpenAiError),
}

/// The models.
#[derive(Debug)]
pub(super) struct KnownModels {
    client: Client,
    tokenizers: Arc<Tokenizers>,
    kept: Mutex<BTreeMap<ModelId, Arc<KnownModel>>>,
}

impl KnownModels {
    pub(super) fn new(client: Client, tokenizers: Arc<Tokenizers>) -> Self {
        Self {
            client,
            tokenizers,
            kept: Mutex::default(),
        }
    }

    /// The model of a name, checked when it is first asked for.
    pub(super) async fn find(
        &self,
        name: &str,
    ) -> Result<(ModelDto, Arc<KnownModel>), OpenAiError> {
        let listed = jobs::find_model(&self.client, name).await;
        let listed = listed.map_err(|error| of_job(&error, name))?;
        let mut kept = self.kept.lock().await;
        if let Some(known) = kept.get(&listed.id) {
            let known = Arc::clone(known);
            return Ok((listed, known));
        }
        let model = jobs::public_model(&self.client, &listed).await;
        let model = model.map_err(|error| of_job(&error, name))?;
        let generator = model.generator().ok();
        let known = Arc::new(KnownModel { model, generator });
        if kept.len() >= MODELS_KEPT {
            kept.pop_first();
        }
        kept.insert(listed.id, Arc::clone(&known));
        Ok((listed, known))
    }

    /// What a model's tokens are: its tokenizer is looked for each time that it is not held.
    pub(super) async fn coding(&self, known: &KnownModel) -> Arc<TextCoding> {
        Arc::new(self.coding_of(known).await)
    }

    async fn coding_of(&self, known: &KnownModel) -> TextCoding {
        let program = known.model.program();
        let bytes = known.generator.as_ref();
        if bytes.is_some_and(|generator| takes_bytes(program, generator)) {
            return TextCoding::Bytes;
        }
        let Some(digest) = program.tokenizer else {
            let text = "the model names no tokenizer: give tokens instead of text; whoever adds the model can compile it \
                        with --tokenizer";
            return TextCoding::Numbers(OpenAiError::invalid("model", text));
        };
        match self.tokenizers.find(digest).await {
            Ok(held) => TextCoding::Tokenizer(held),
            Err(error) => TextCoding::Numbers(error),
        }
    }
}

impl TextCoding {
    /// Tokens of what a caller gives in a field.
    pub(super) fn tokens(
        &self,
        field: &str,
        prompt: &CompletionPrompt,
        vocabulary: u32,
    ) -> Result<Vec<u32>, OpenAiError> {
        let tokens: Vec<u32> = match (prompt, self) {
            (CompletionPrompt::Tokens(tokens), _) => tokens.clone(),
            (CompletionPrompt::Text(text), _) if text.is_empty() => Vec::new(),
            (CompletionPrompt::Text(text), Self::Bytes) => text.bytes().map(u32::from).collect(),
            (CompletionPrompt::Text(text), Self::Tokenizer(held)) => {
                let tokens = held.tokenizer.encode(Text::of(text), TextLength::Own);
                let tokens = tokens.map_err(|it| OpenAiError::invalid(field, it.to_string()))?;
                tokens.ids
            }
            (CompletionPrompt::Text(_), Self::Numbers(error)) => return Err(error.clone()),
        };
        if tokens.is_empty() {
            return Err(OpenAiError::invalid(field, format!("the {field} is empty")));
        }
        if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
            let text = format!("{token} is no token of the model");
            return Err(OpenAiError::invalid(field, text));
        }
        Ok(tokens)
    }

    /// The token that ends a text.
    pub(super) fn end(&self) -> Option<u32> {
        match self {
            Self::Tokenizer(held) => held.end,
            Self::Bytes | Self::Numbers(_) => None,
        }
    }

    /// The text of tokens that were written after others. Bytes that are no UTF-8 become U+FFFD; tokens that are only numbers
    /// are written as such.
    pub(super) fn text(&self, prompt: &[u32], written: &[u32]) -> Result<String, OpenAiError> {
        match self {
            Self::Bytes => {
                let bytes: Vec<u8> = written.iter().map(|&token| token as u8).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Numbers(_) => {
                let numbers: Vec<String> = written.iter().map(u32::to_string).collect();
                Ok(numbers.join(" "))
            }
            Self::Tokenizer(held) => {
                let text = crate::offline::text::written(&held.tokenizer, prompt, written);
                // The tokens are below the model's vocabulary, of which a tokenizer may name fewer.
                text.map_err(|failure| OpenAiError::unavailable(format!("{:#}", failure.error)))
            }
        }
    }
}
