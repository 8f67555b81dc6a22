//! The models that callers name, checked once, and what tokens are to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_api::{ChatTurn, CompletionPrompt, OpenAiError, play};
use tg_ir::Generator;
use tg_sdk::dto::ModelDto;
use tg_sdk::jobs;
use tg_sdk::{CheckedModel, Client, ModelId};
use tg_text::{ChatLine, ChatTemplate, TemplateError, Text, TextLength};
use tokio::sync::Mutex;

use super::refusal::of_job;
use super::tokenizers::{HeldTokenizer, Tokenizers};
use tg_console::tokens::takes_bytes;

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

/// Tokens of a conversation in the form of its template.
fn of_template(
    held: &HeldTokenizer,
    template: &ChatTemplate,
    turns: &[ChatTurn],
) -> Result<Vec<u32>, OpenAiError> {
    let lines: Vec<ChatLine<'_>> = turns
        .iter()
        .map(|turn| ChatLine {
            // OpenAI's newer word for the same speaker: templates know the older one.
            role: match turn.role.as_str() {
                "developer" => "system",
                role => role,
            },
            name: turn.name.as_deref(),
            content: &turn.content,
        })
        .collect();
    let text = template.render(&lines);
    let text = text.map_err(|error| match error {
        TemplateError::Refused { .. } => OpenAiError::invalid("messages", error.to_string()),
        TemplateError::TooLarge { .. }
        | TemplateError::Malformed { .. }
        | TemplateError::Failed { .. } => OpenAiError::invalid("model", error.to_string()),
    })?;
    let tokens = held.tokenizer.encode_whole(&text);
    tokens.map_err(|error| OpenAiError::invalid("messages", error.to_string()))
}

impl TextCoding {
    /// Tokens of what a caller gives in a field.
    pub(super) fn tokens(
        &self,
        field: &str,
        prompt: &CompletionPrompt,
        vocabulary: u32,
    ) -> Result<Vec<u32>, OpenAiError> {
        let tokens = match prompt {
            CompletionPrompt::Tokens(tokens) => tokens.clone(),
            CompletionPrompt::Text(text) => self.of_text(field, text)?,
            CompletionPrompt::Conversation(turns) => match self.template() {
                Some((held, template)) => of_template(held, template, turns)?,
                None => self.of_text("messages", &play(turns))?,
            },
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

    fn of_text(&self, field: &str, text: &str) -> Result<Vec<u32>, OpenAiError> {
        match self {
            _ if text.is_empty() => Ok(Vec::new()),
            Self::Bytes => Ok(text.bytes().map(u32::from).collect()),
            Self::Tokenizer(held) => {
                let tokens = held.tokenizer.encode(Text::of(text), TextLength::Own);
                let tokens = tokens.map_err(|it| OpenAiError::invalid(field, it.to_string()))?;
                Ok(tokens.ids)
            }
            Self::Numbers(error) => Err(error.clone()),
        }
    }

    /// The form of conversations that the model was trained on, if its folder says it.
    fn template(&self) -> Option<(&HeldTokenizer, &ChatTemplate)> {
        match self {
            Self::Tokenizer(held) => Some((held, held.template.as_ref()?)),
            Self::Bytes | Self::Numbers(_) => None,
        }
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
                let text = tg_console::tokens::written(&held.tokenizer, prompt, written);
                // The tokens are below the model's vocabulary, of which a tokenizer may name fewer.
                text.map_err(|failure| OpenAiError::unavailable(format!("{:#}", failure.error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_text::TextTokenizer;

    use super::*;

    /// A tokenizer whose special tokens are found inside words, and which puts `<s>` before each text.
    const WORDS: &str = r#"{
        "added_tokens": [
            {"id": 4, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
            {"id": 5, "content": "</s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
        ],
        "model": {"type": "WordLevel", "vocab": {"user": 0, "hark": 1, "system": 2, "?": 3}, "unk_token": "?"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}}
    }"#;

    fn coding(template: Option<&str>) -> TextCoding {
        let template = template.map(|source| {
            let (begin, end) = ("<s>".to_owned(), "</s>".to_owned());
            ChatTemplate::read(source.to_owned(), begin, end).unwrap()
        });
        TextCoding::Tokenizer(Arc::new(HeldTokenizer {
            tokenizer: TextTokenizer::read(WORDS.as_bytes()).unwrap(),
            end: Some(5),
            template,
        }))
    }

    #[test]
    fn a_conversation_takes_the_form_of_its_model() {
        let turns = vec![
            ChatTurn::of("developer", "hark"),
            ChatTurn::of("user", "hark"),
        ];
        let asked = CompletionPrompt::Conversation(turns.clone());
        let form = "{{ bos_token }}{% for it in messages %}{{ it.role }} {{ it.content }}{{ eos_token }}{% endfor %}";
        let tokens = coding(Some(form)).tokens("messages", &asked, 6).unwrap();
        // The template writes the special tokens, and no further ones are added.
        assert_eq!(tokens, [4, 2, 1, 5, 0, 1, 5]);
        // Without a template: the text of a play, with what the tokenizer adds.
        let played = coding(None).tokens("messages", &asked, 6).unwrap();
        let text = CompletionPrompt::Text(play(&turns));
        assert_eq!(played, coding(None).tokens("prompt", &text, 6).unwrap());
        assert_eq!(played[0], 4);
        let refuses = "{{ raise_exception('Only user turns') }}";
        let error = coding(Some(refuses)).tokens("messages", &asked, 6);
        let error = error.unwrap_err();
        assert_eq!(
            (error.status, error.param.as_deref()),
            (400, Some("messages"))
        );
        assert!(error.message.ends_with("Only user turns"), "{error}");
    }
}
