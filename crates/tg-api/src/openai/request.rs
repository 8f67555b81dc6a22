//! Requests of the OpenAI API, read to orders. What is not served is refused by its name; nothing is ignored but `user` and
//! `metadata`, which say nothing to the model.

use serde_json::{Map, Value};
use tg_sdk::dto::ModeDto;
use tg_types::Amount;

use super::error::OpenAiError;
use super::port::{CompletionOrder, CompletionPrompt};

/// A request, and how its answer is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) order: CompletionOrder,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

/// BodyFields that change nothing here.
const IGNORED: [&str; 4] = ["user", "metadata", "safety_identifier", "prompt_cache_key"];

/// BodyFields that are taken if they ask for nothing.
const NEUTRAL: [(&str, &[&str]); 14] = [
    ("n", &["1"]),
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("suffix", &["\"\""]),
    ("logprobs", &["false"]),
    ("top_logprobs", &[]),
    ("presence_penalty", &["0", "0.0"]),
    ("frequency_penalty", &["0", "0.0"]),
    ("logit_bias", &["{}"]),
    ("tools", &["[]"]),
    ("tool_choice", &["\"none\"", "\"auto\""]),
    ("response_format", &["{\"type\":\"text\"}"]),
    ("store", &["false"]),
    ("modalities", &["[\"text\"]"]),
];

/// The fields of a body, taken one by one: those that are left over are refused.
struct BodyFields(Map<String, Value>);

impl BodyFields {
    fn of(body: Value) -> Result<Self, OpenAiError> {
        match body {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(OpenAiError::invalid("body", "the body is a JSON object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, OpenAiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(OpenAiError::invalid(name, format!("`{name}` is a string"))),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, OpenAiError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(OpenAiError::invalid(
                name,
                format!("`{name}` is true or false"),
            )),
        }
    }

    fn number(&mut self, name: &str, range: [f64; 2], usual: f64) -> Result<f64, OpenAiError> {
        let Some(value) = self.take(name) else {
            return Ok(usual);
        };
        let number = value
            .as_f64()
            .filter(|it| (range[0]..=range[1]).contains(it));
        let [low, high] = range;
        number.ok_or_else(|| {
            OpenAiError::invalid(name, format!("`{name}` is a number from {low} to {high}"))
        })
    }

    fn count(&mut self, name: &str) -> Result<Option<u32>, OpenAiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let count = value.as_u64().and_then(|it| u32::try_from(it).ok());
        let count = count.filter(|it| *it > 0);
        count.map(Some).ok_or_else(|| {
            OpenAiError::invalid(name, format!("`{name}` is a whole number above 0"))
        })
    }

    /// Refuses what is left.
    fn finish(mut self) -> Result<(), OpenAiError> {
        IGNORED.iter().for_each(|name| {
            self.0.remove(*name);
        });
        for (name, neutral) in NEUTRAL {
            if let Some(value) = self.take(name)
                && !neutral.contains(&value.to_string().as_str())
            {
                return Err(OpenAiError::unsupported(name));
            }
        }
        self.0.retain(|_, value| !value.is_null());
        match self.0.keys().next() {
            Some(name) => Err(OpenAiError::unsupported(name)),
            None => Ok(()),
        }
    }
}

/// Reads a request of `/completions`.
pub(super) fn completion(body: Value) -> Result<Asked, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let prompt = match fields.take("prompt") {
        Some(Value::String(text)) => CompletionPrompt::Text(text),
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::String(text)] => CompletionPrompt::Text(text.clone()),
            items => tokens(items)?,
        },
        _ => {
            return Err(OpenAiError::invalid(
                "prompt",
                "`prompt` is a string or tokens",
            ));
        }
    };
    let tokens_max = fields.count("max_tokens")?.or(Some(16));
    asked(fields, prompt, tokens_max)
}

fn tokens(items: &[Value]) -> Result<CompletionPrompt, OpenAiError> {
    let token = |item: &Value| item.as_u64().and_then(|it| u32::try_from(it).ok());
    let tokens: Option<Vec<u32>> = items.iter().map(token).collect();
    tokens.map(CompletionPrompt::Tokens).ok_or_else(|| {
        OpenAiError::invalid(
            "prompt",
            "one prompt at a time: a string, or tokens as numbers",
        )
    })
}

/// Reads a request of `/chat/completions`.
pub(super) fn chat(body: Value) -> Result<Asked, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let Some(Value::Array(messages)) = fields.take("messages") else {
        return Err(OpenAiError::invalid("messages", "`messages` is a list"));
    };
    let prompt = conversation(messages)?;
    let tokens_max = fields.count("max_completion_tokens")?;
    let tokens_max = tokens_max.or(fields.count("max_tokens")?);
    asked(fields, CompletionPrompt::Text(prompt), tokens_max)
}

/// Messages as the text of a play: each speaker's name in capitals, then what is said. The assistant speaks next.
fn conversation(messages: Vec<Value>) -> Result<String, OpenAiError> {
    let mut text = String::new();
    let invalid = |message: &str| OpenAiError::invalid("messages", message);
    if messages.is_empty() {
        return Err(invalid("there is no message"));
    }
    for message in messages {
        let mut fields = BodyFields::of(message)?;
        let role = fields.text("role")?.unwrap_or_default();
        if !["system", "developer", "user", "assistant"].contains(&role.as_str()) {
            return Err(invalid("a role is system, developer, user or assistant"));
        }
        let content = match fields.take("content") {
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => parts.into_iter().map(part).collect::<Result<_, _>>()?,
            _ => return Err(invalid("a message has text as its content")),
        };
        let name = fields.text("name")?.unwrap_or(role);
        fields.take("refusal");
        fields.finish()?;
        text.push_str(&format!("{}:\n{content}\n\n", name.to_uppercase()));
    }
    text.push_str("ASSISTANT:\n");
    Ok(text)
}

fn part(part: Value) -> Result<String, OpenAiError> {
    let mut fields = BodyFields::of(part)?;
    match fields.text("type")?.as_deref() {
        Some("text") => Ok(fields.text("text")?.unwrap_or_default()),
        other => Err(OpenAiError::unsupported(other.unwrap_or("type"))),
    }
}

/// What both kinds of requests share.
fn asked(
    mut fields: BodyFields,
    prompt: CompletionPrompt,
    tokens_max: Option<u32>,
) -> Result<Asked, OpenAiError> {
    let missing = || OpenAiError::invalid("model", "`model` is missing");
    let model = fields.text("model")?.ok_or_else(missing)?;
    let stream = fields.flag("stream")?;
    let stream_usage = match fields.take("stream_options") {
        None => false,
        Some(options) => {
            let mut options = BodyFields::of(options)?;
            let usage = options.flag("include_usage")?;
            options.take("include_obfuscation");
            options.finish()?;
            usage
        }
    };
    let temperature = fields.number("temperature", [0.0, 2.0], 1.0)?;
    let top_p = fields.number("top_p", [0.0, 1.0], 1.0)?;
    let seed =
        match fields.take("seed") {
            None => None,
            Some(value) => Some(value.as_i64().ok_or_else(|| {
                OpenAiError::invalid("seed", "`seed` is a whole number of 64 bits")
            })?),
        };
    let stop = stop(fields.take("stop"))?;
    let mut ours = match fields.take("tensorgrid") {
        None => BodyFields(Map::new()),
        Some(ours) => BodyFields::of(ours)?,
    };
    let (mode, max_price) = terms(&mut ours)?;
    let top_k = ours.count("top_k")?;
    ours.finish()?;
    fields.finish()?;
    Ok(Asked {
        order: CompletionOrder {
            model,
            prompt,
            tokens_max,
            temperature,
            top_p,
            top_k,
            seed,
            stop,
            mode,
            max_price,
        },
        stream,
        stream_usage,
    })
}

/// How the result is checked and what is paid at most, of the field `tensorgrid`.
fn terms(ours: &mut BodyFields) -> Result<(ModeDto, Option<Amount>), OpenAiError> {
    let mode = match ours.text("verify")?.as_deref() {
        None | Some("none") => ModeDto::None,
        Some("proof") => ModeDto::Proof,
        Some("recompute") => ModeDto::Recompute,
        Some("sync") => ModeDto::Sync,
        Some("optimistic") => ModeDto::Optimistic,
        Some(_) => {
            return Err(OpenAiError::invalid(
                "tensorgrid.verify",
                "`verify` is none, sync, optimistic, recompute or proof",
            ));
        }
    };
    let max_price = ours.text("max_price")?.map(|text| text.parse::<Amount>());
    let max_price = max_price.transpose().map_err(|_| {
        OpenAiError::invalid("tensorgrid.max_price", "`max_price` is TGRID as a string")
    })?;
    Ok((mode, max_price))
}

/// One byte: what is drawn is a token, and no text is looked for in what was written.
fn stop(value: Option<Value>) -> Result<Option<u8>, OpenAiError> {
    let text = match value {
        None => return Ok(None),
        Some(Value::String(text)) => text,
        Some(Value::Array(items)) => match items.as_slice() {
            [] => return Ok(None),
            [Value::String(text)] => text.clone(),
            _ => return Err(OpenAiError::unsupported("stop")),
        },
        Some(_) => return Err(OpenAiError::unsupported("stop")),
    };
    match text.as_bytes() {
        [byte] => Ok(Some(*byte)),
        _ => Err(OpenAiError::invalid(
            "stop",
            "`stop` is one string of one byte: the model stops at a token",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_is_a_play() {
        let asked = chat(json!({
            "model": "m", "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "name": "romeo", "content": [{"type": "text", "text": "Hark!"}]},
            ],
            "max_tokens": 5, "stream": true, "stream_options": {"include_usage": true}, "seed": -3,
            "stop": ["\n"], "user": "x", "n": 1, "logprobs": false, "temperature": 0,
            "tensorgrid": {"verify": "proof", "max_price": "1.5", "top_k": 4},
        }));
        let Asked {
            order,
            stream,
            stream_usage,
        } = asked.unwrap();
        let text = "SYSTEM:\nBe brief.\n\nROMEO:\nHark!\n\nASSISTANT:\n";
        assert_eq!(order.prompt, CompletionPrompt::Text(text.to_owned()));
        assert!(stream && stream_usage);
        assert_eq!((order.tokens_max, order.seed), (Some(5), Some(-3)));
        assert_eq!((order.stop, order.mode), (Some(b'\n'), ModeDto::Proof));
        assert_eq!((order.top_k, order.temperature), (Some(4), 0.0));
        assert_eq!(order.max_price, Some("1.5".parse().unwrap()));
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let base = json!({"model": "m", "prompt": "p"});
        assert!(completion(base.clone()).is_ok());
        for (name, value, param) in [
            ("n", json!(2), "n"),
            ("logprobs", json!(3), "logprobs"),
            ("tools", json!([{}]), "tools"),
            ("presence_penalty", json!(0.5), "presence_penalty"),
            ("prompt", json!(["a", "b"]), "prompt"),
            ("temperature", json!(3), "temperature"),
            ("temperature", json!("hot"), "temperature"),
            ("max_tokens", json!(0), "max_tokens"),
            ("max_tokens", json!(-1), "max_tokens"),
            ("stop", json!("ab"), "stop"),
            ("stop", json!(["a", "b"]), "stop"),
            ("stream", json!(1), "stream"),
            ("model", json!(null), "model"),
            ("reasoning_effort", json!("high"), "reasoning_effort"),
            (
                "tensorgrid",
                json!({"verify": "maybe"}),
                "tensorgrid.verify",
            ),
            (
                "tensorgrid",
                json!({"max_price": "x"}),
                "tensorgrid.max_price",
            ),
            ("tensorgrid", json!({"colour": 1}), "colour"),
            ("seed", json!(1.5), "seed"),
        ] {
            let mut body = base.clone();
            body[name] = value;
            let error = completion(body).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)));
        }
        assert!(completion(json!([])).is_err() && chat(json!({"model": "m"})).is_err());
        let image = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]});
        assert_eq!(chat(image).unwrap_err().param.as_deref(), Some("image_url"));
    }
}
