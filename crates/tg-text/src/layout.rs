//! What is looked at in a `tokenizer.json` before the library reads it.
//!
//! The library trusts its files: it makes room for what they say, and some of its parts multiply a text by what they replace it with.
//! So sizes, counts and growth are bounded here; what a part is and does is the library's.

use crate::charsmap::{self, REPLACEMENT_BYTES_MAX};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Largest `tokenizer.json` that is read: twice that of a vocabulary of 262,144 tokens.
pub const FILE_BYTES_MAX: usize = 64 << 20;
/// Most parts of a file together: normalisers, splitters, processors, decoders.
const PARTS_MAX: usize = 64;
/// Most elements of a list of a part.
const LIST_MAX: usize = 1_024;
/// Most pieces of a template, and most tokens of one of its names.
const TEMPLATE_MAX: usize = 64;
/// Most templates: each is applied to what the one before gave.
const TEMPLATES_MAX: usize = 2;
/// Most bytes of a text of a part: the longest pattern of a published tokenizer has about 1,500.
const PART_TEXT_MAX: usize = 8_192;
/// Most bytes of an added token and of a text of the model beside its vocabulary.
const TOKEN_BYTES_MAX: usize = 1_024;
/// Most characters of a word of WordPiece: its search takes their square.
const WORD_CHARS_MAX: u64 = 1_024;
/// How many times longer the parts of a file may make a text, in all.
const GROWTH_MAX: usize = 256;

/// Why a `tokenizer.json` is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Larger than is read.
    #[error("it has {bytes} bytes, at most {FILE_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not the JSON of a tokenizer.
    #[error(
        "it is not the JSON of a tokenizer; `tokenizer.save_pretrained(FOLDER)` of a fast tokenizer of transformers writes one"
    )]
    Json(#[source] serde_json::Error),
    /// A field whose value is not taken.
    #[error("its `{field}` {problem}")]
    Field {
        /// The field, with those it lies in.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// Parts that make a text too long.
    #[error("its parts may make a text more than {GROWTH_MAX} times longer")]
    Growth,
    /// Too many parts.
    #[error("it has more than {PARTS_MAX} normalisers, splitters, processors and decoders")]
    Parts,
}

/// The fields that are looked at; the vocabulary is the library's to read.
#[derive(Deserialize)]
struct FileLayout {
    #[serde(default)]
    added_tokens: Vec<AddedLayout>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelLayout,
}

/// A token beside the model's vocabulary.
#[derive(Deserialize)]
pub(crate) struct AddedLayout {
    pub(crate) id: u32,
    pub(crate) content: String,
}

#[derive(Deserialize)]
struct ModelLayout {
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    unk_token: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
    #[serde(default)]
    end_of_word_suffix: Value,
    #[serde(default)]
    max_input_chars_per_word: Value,
    #[serde(rename = "vocab")]
    _vocab: IgnoredAny,
}

/// Checks a file; the tokens that it adds to its model's.
pub(crate) fn check(bytes: &[u8]) -> Result<Vec<AddedLayout>, LayoutError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(LayoutError::TooLarge { bytes: bytes.len() });
    }
    let file: FileLayout = serde_json::from_slice(bytes).map_err(LayoutError::Json)?;
    check_model(&file.model)?;
    let long = |token: &&AddedLayout| token.content.len() > TOKEN_BYTES_MAX;
    if let Some(token) = file.added_tokens.iter().find(long) {
        let problem = format!(
            "names the token {} by more than {TOKEN_BYTES_MAX} bytes",
            token.id
        );
        return Err(field("added_tokens", problem));
    }
    let mut parts = PartLimits::default();
    for (name, value) in [
        ("normalizer", &file.normalizer),
        ("pre_tokenizer", &file.pre_tokenizer),
        ("post_processor", &file.post_processor),
    ] {
        parts.check(name, value)?;
    }
    // What is decoded was not normalised: its growth is its own.
    parts.growth = 1;
    parts.check("decoder", &file.decoder)?;
    Ok(file.added_tokens)
}

fn check_model(model: &ModelLayout) -> Result<(), LayoutError> {
    let ModelLayout {
        kind,
        dropout,
        unk_token,
        continuing_subword_prefix: prefix,
        end_of_word_suffix: suffix,
        max_input_chars_per_word: word,
        _vocab,
    } = model;
    let known = ["BPE", "WordPiece", "Unigram", "WordLevel"];
    if !known.contains(&kind.as_str().unwrap_or_default()) {
        let kind: String = kind.to_string().chars().take(64).collect();
        let problem = format!("is {kind}; BPE, WordPiece, Unigram and WordLevel are taken");
        return Err(field("model.type", problem));
    }
    if dropout.as_f64().is_some_and(|share| share != 0.0) {
        let problem = format!("is {dropout}: tokens would be drawn by chance; null is taken");
        return Err(field("model.dropout", problem));
    }
    if kind == "BPE" && prefix.as_str().is_some_and(|prefix| !prefix.is_empty()) {
        let problem = "is not empty: of BPE that is not taken".to_owned();
        return Err(field("model.continuing_subword_prefix", problem));
    }
    for (name, value) in [
        ("model.unk_token", unk_token),
        ("model.continuing_subword_prefix", prefix),
        ("model.end_of_word_suffix", suffix),
    ] {
        if value
            .as_str()
            .is_some_and(|text| text.len() > TOKEN_BYTES_MAX)
        {
            return Err(field(
                name,
                format!("has more than {TOKEN_BYTES_MAX} bytes"),
            ));
        }
    }
    if word.as_u64().is_some_and(|chars| chars > WORD_CHARS_MAX) {
        let problem = format!("is {word}; at most {WORD_CHARS_MAX} are taken");
        return Err(field("model.max_input_chars_per_word", problem));
    }
    Ok(())
}

fn field(field: &str, problem: String) -> LayoutError {
    let field = field.to_owned();
    LayoutError::Field { field, problem }
}

/// What the parts of a file come to so far.
struct PartLimits {
    parts: usize,
    templates: usize,
    growth: usize,
}

impl Default for PartLimits {
    fn default() -> Self {
        Self {
            parts: 0,
            templates: 0,
            growth: 1,
        }
    }
}

impl PartLimits {
    /// Checks a part, and those in it. JSON is at most 128 levels deep: its reader refuses more.
    fn check(&mut self, at: &str, value: &Value) -> Result<(), LayoutError> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) if text.len() > PART_TEXT_MAX => {
                Err(field(at, format!("has more than {PART_TEXT_MAX} bytes")))
            }
            Value::String(_) => Ok(()),
            Value::Array(items) if items.len() > LIST_MAX => {
                Err(field(at, format!("has more than {LIST_MAX} elements")))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.check(at, item)),
            Value::Object(fields) => {
                let kind = fields.get("type").and_then(Value::as_str);
                if let Some(kind) = kind {
                    self.part(at, kind, value)?;
                }
                for (name, value) in fields {
                    if name == "precompiled_charsmap" {
                        continue;
                    }
                    // A name may be as long as the file.
                    let name: String = name.chars().take(64).collect();
                    self.check(&format!("{at}.{name}"), value)?;
                }
                Ok(())
            }
        }
    }

    /// Checks what a part of this kind says.
    fn part(&mut self, at: &str, kind: &str, value: &Value) -> Result<(), LayoutError> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(LayoutError::Parts);
        }
        match kind {
            "Replace" => self.grow(replaced(value))?,
            "Precompiled" => {
                let table = value["precompiled_charsmap"].as_str().unwrap_or_default();
                if let Some(problem) = charsmap::problem(table) {
                    let at = format!("{at}.precompiled_charsmap");
                    return Err(field(&at, problem.to_owned()));
                }
                // Its longest texts stand for characters of three bytes.
                self.grow(REPLACEMENT_BYTES_MAX / 4)?;
            }
            "FixedLength" if value["length"].as_u64() == Some(0) => {
                return Err(field(&format!("{at}.length"), "is 0".to_owned()));
            }
            "TemplateProcessing" => self.template(at, value)?,
            _ => {}
        }
        Ok(())
    }

    fn grow(&mut self, times: usize) -> Result<(), LayoutError> {
        self.growth = self.growth.saturating_mul(times.max(1));
        if self.growth > GROWTH_MAX {
            return Err(LayoutError::Growth);
        }
        Ok(())
    }

    fn template(&mut self, at: &str, value: &Value) -> Result<(), LayoutError> {
        self.templates += 1;
        if self.templates > TEMPLATES_MAX {
            let problem = format!("has more than {TEMPLATES_MAX} templates");
            return Err(field(at, problem));
        }
        let long = |list: &Value| {
            list.as_array()
                .is_some_and(|list| list.len() > TEMPLATE_MAX)
        };
        let names = value["special_tokens"].as_object().into_iter().flatten();
        let mut lists = names.flat_map(|(_, name)| [&name["ids"], &name["tokens"]]);
        if long(&value["single"]) || long(&value["pair"]) || lists.any(long) {
            return Err(field(at, format!("has a list of more than {TEMPLATE_MAX}")));
        }
        Ok(())
    }
}

/// How many times longer a `Replace` may make a text.
fn replaced(value: &Value) -> usize {
    let content = value["content"].as_str().unwrap_or_default().len();
    match value["pattern"]["String"].as_str() {
        Some(pattern) if !pattern.is_empty() => content.div_ceil(pattern.len()),
        // A match may be empty, before each byte.
        _ => content + 1,
    }
}
