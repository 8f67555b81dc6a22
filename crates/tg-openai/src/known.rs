//! The models that callers name, checked once, and what tokens are to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tg_api::openai::on_blocking_thread;
use tg_api::{ChatTurn, CompletionPrompt, OpenAiError, play};
use tg_ir::Generator;
use tg_sdk::dto::{ModelDto, ModelStateDto};
use tg_sdk::jobs::JobError;
use tg_sdk::verify::PUBLIC_MODEL_BYTES_MAX;
use tg_sdk::{CheckedModel, Client, ClientError, ModelId};
use tg_text::{ChatLine, ChatTemplate, TemplateError, Text, TextLength};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::refusal::of_job;
use super::tokenizers::{HeldTokenizer, Tokenizers};
use tg_console::tokens::takes_bytes;

/// Models that are kept checked.
const MODELS_KEPT: usize = 16;

/// Models that are checked at once: a check may take some hundred milliseconds of a processor.
const CHECKS_MAX: usize = 2;

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
    kept: Mutex<BTreeMap<ModelId, KeptModel>>,
    /// Who checks a model: others wait for it that ask for the same one, and nobody else.
    turns: Mutex<BTreeMap<ModelId, Arc<AsyncMutex<()>>>>,
    checks: Semaphore,
}

/// A model that was checked, and when it was asked for last.
#[derive(Debug)]
struct KeptModel {
    known: Arc<KnownModel>,
    used: Instant,
}

impl KnownModels {
    pub(super) fn new(client: Client, tokenizers: Arc<Tokenizers>) -> Self {
        Self {
            client,
            tokenizers,
            kept: Mutex::default(),
            turns: Mutex::default(),
            checks: Semaphore::new(CHECKS_MAX),
        }
    }

    /// The model of a name, checked when it is first asked for.
    pub(super) async fn find(
        &self,
        name: &str,
    ) -> Result<(ModelDto, Arc<KnownModel>), OpenAiError> {
        let listed = self.listed(name).await?;
        if let Some(known) = self.kept(listed.id) {
            return Ok((listed, known));
        }
        let turn = self.turn(listed.id);
        let _turn = turn.lock().await;
        // Whoever had the turn before may have checked it.
        if let Some(known) = self.kept(listed.id) {
            return Ok((listed, known));
        }
        let known = self.checked(&listed).await?;
        self.keep(listed.id, &known);
        Ok((listed, known))
    }

    /// The model of an id, the beginning of an id, or a name. No served one: they are asked in another way.
    async fn listed(&self, name: &str) -> Result<ModelDto, OpenAiError> {
        let away = |error: ClientError| match error.is_not_found() {
            true => OpenAiError::model(name),
            false => OpenAiError::unavailable(error.to_string()),
        };
        if let Some(id) = ModelId::from_hex(name) {
            return self.client.model(id).await.map_err(away);
        }
        let models = self.client.models().await.map_err(away)?;
        let chosen = program_of(&models, name).cloned();
        chosen.ok_or_else(|| OpenAiError::model(name))
    }

    fn kept(&self, id: ModelId) -> Option<Arc<KnownModel>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get_mut(&id)?;
        found.used = Instant::now();
        Some(Arc::clone(&found.known))
    }

    fn turn(&self, id: ModelId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody waits for.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(id).or_default())
    }

    /// Fetches a model and checks it, which may take long.
    async fn checked(&self, listed: &ModelDto) -> Result<Arc<KnownModel>, OpenAiError> {
        let refused = |error: &JobError| of_job(error, &listed.name);
        if listed.state != ModelStateDto::Active {
            let why = listed.refusal.as_deref();
            let why = why.unwrap_or("validators still check it, or too few hold its files yet");
            return Err(refused(&JobError::NotActive {
                name: listed.name.clone(),
                state: listed.state,
                why: why.to_owned(),
            }));
        }
        let bytes = self.client.blob(listed.public_blob, PUBLIC_MODEL_BYTES_MAX);
        let bytes = bytes.await.map_err(|source| {
            let doing = "fetch the public model";
            refused(&JobError::Call { doing, source })
        })?;
        // Nobody closes it.
        let _check = self.checks.acquire().await.ok();
        let (id, name) = (listed.id, listed.name.clone());
        on_blocking_thread(move || {
            let model = CheckedModel::read(&bytes, id);
            let model = model.map_err(|error| of_job(&JobError::Check(error), &name))?;
            let generator = model.generator().ok();
            Ok(Arc::new(KnownModel { model, generator }))
        })
        .await
    }

    /// Keeps a model; of more than are kept the one goes that nobody asked for longest.
    fn keep(&self, id: ModelId, known: &Arc<KnownModel>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(known);
        let used = Instant::now();
        kept.insert(id, KeptModel { known, used });
        while kept.len() > MODELS_KEPT {
            let oldest = kept.iter().min_by_key(|(_, it)| it.used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                return;
            };
            kept.remove(&oldest);
        }
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

/// The program of a name or the beginning of an id, of models of which the oldest come first: the oldest active one.
fn program_of<'a>(models: &'a [ModelDto], name: &str) -> Option<&'a ModelDto> {
    let begins = |it: &ModelDto| name.len() >= 6 && it.id.to_string().starts_with(name);
    let named = |it: &&ModelDto| !it.is_served() && (it.name == name || begins(it));
    let active = |it: &&ModelDto| named(it) && it.state == ModelStateDto::Active;
    models
        .iter()
        .find(active)
        .or_else(|| models.iter().find(named))
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

    fn listed(id: u8, name: &str, tier: tg_types::Tier) -> ModelDto {
        ModelDto {
            id: ModelId::new([id; 32]),
            name: name.to_owned(),
            owner: tg_types::Address::new([id; 20]),
            state: ModelStateDto::Active,
            public_blob: tg_types::Digest::of_blob(&[id]),
            weights_blob: tg_types::Digest::of_blob(b"w"),
            registered_ms: u64::from(id),
            facts: Some(tg_sdk::dto::ModelFactsDto {
                program: tg_types::ProgramId::new([0; 32]),
                tier: tier.as_str().to_owned(),
                macs: 1,
                input_len: 1,
                output_len: 1,
                provable: false,
            }),
            refusal: None,
        }
    }

    /// A card of a program's name, older than the program.
    #[test]
    fn a_name_means_the_oldest_program_and_no_served_model() {
        let (served, program) = (tg_types::Tier::Served, tg_types::Tier::Tgx1);
        let models = [
            listed(1, "m", served),
            listed(2, "m", program),
            listed(3, "m", program),
        ];
        assert_eq!(program_of(&models, "m"), Some(&models[1]));
        assert_eq!(program_of(&models, "0x030303"), Some(&models[2]));
        assert_eq!(program_of(&models, "0x01010101"), None);
        assert_eq!(program_of(&models[..1], "m"), None);
    }

    /// A grid with models, which answers nothing when it is asked for the files of one of them.
    fn grid_that_stalls(models: Vec<ModelDto>, stalled: tg_types::Digest) -> Client {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let mut head = vec![0; 8 << 10];
                let length = stream.read(&mut head).unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                if head.contains(&stalled.to_string()) {
                    held.push(stream);
                    continue;
                }
                let asked = models
                    .iter()
                    .find(|it| head.contains(&format!("/v1/models/{}", it.id)));
                let (status, body) = match asked {
                    Some(model) => ("200 OK", serde_json::to_string(model).unwrap()),
                    None => ("404 Not Found", "{}".to_owned()),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        client
    }

    #[tokio::test]
    async fn a_model_that_does_not_come_holds_up_no_other() {
        let models = [1, 2].map(|id| listed(id, "m", tg_types::Tier::Tgx1));
        let [slow, quick] = models.clone();
        let client = grid_that_stalls(models.into(), slow.public_blob);
        let taken = tempfile::tempdir().unwrap();
        let tokenizers = Tokenizers::new(client.clone(), None, taken.path().to_owned());
        let known = Arc::new(KnownModels::new(client, Arc::new(tokenizers)));
        let waiting = {
            let known = Arc::clone(&known);
            tokio::spawn(async move { known.find(&slow.id.to_string()).await.map(|_| ()) })
        };
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let name = quick.id.to_string();
        let found = tokio::time::timeout(std::time::Duration::from_secs(30), known.find(&name));
        let found = found.await;
        // Its file is not there, which is said at once.
        assert!(found.unwrap().is_err());
        assert!(!waiting.is_finished());
        waiting.abort();
    }

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
