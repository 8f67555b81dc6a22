//! Requests to write text, read to orders: completions, chat completions and responses.

use serde_json::{Value, json};
use tg_sdk::dto::ModeDto;
use tg_types::Amount;

use super::conversation::{ChatTurn, conversation};
use super::error::OpenAiError;
use super::fields::BodyFields;
use super::port::{CompletionOrder, CompletionPrompt};

/// Most strings that end a text, as OpenAI has it.
const STOPS_MAX: usize = 4;

/// Most bytes of one: each is looked for in all that was written.
const STOP_BYTES_MAX: usize = 1_024;

/// Most choices of a request: each is an order of its own, and all are at work at once.
const CHOICES_MAX: u32 = 8;

/// Most of the likeliest tokens that are listed beside a written one, as OpenAI has it: of completions, and of chat completions.
const LOGPROBS_MAX: [u32; 2] = [5, 20];

/// A request, and how its answer is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) order: CompletionOrder,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

/// A request of `/responses`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AskedResponse {
    pub(super) asked: Asked,
    /// The response that it follows.
    pub(super) previous: Option<String>,
    /// Instructions, which are said before the conversation.
    head: Option<ChatTurn>,
    /// What is said now.
    spoken: Vec<ChatTurn>,
    /// Whether the answer is kept to be asked for again.
    pub(super) store: bool,
    /// What the answer repeats of the request.
    pub(super) echo: Value,
}

/// Which of the two kinds of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionKind {
    Text,
    Chat,
}

/// How a result is checked, and what is paid at most.
pub(super) type Terms = (ModeDto, Option<Amount>);

/// Reads a request of either kind of completions.
pub(super) fn completion_of(kind: CompletionKind, body: Value) -> Result<Asked, OpenAiError> {
    match kind {
        CompletionKind::Text => completion(body),
        CompletionKind::Chat => chat(body),
    }
}

/// Reads a request of `/completions`.
fn completion(body: Value) -> Result<Asked, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let prompt = fields.take("prompt").unwrap_or_default();
    let mut prompts = prompts("prompt", prompt, 1)?;
    let prompt = prompts.swap_remove(0);
    let tokens_max = fields.count("max_tokens")?.or(Some(16));
    let choices = choices(&mut fields)?;
    // The best of as many as are wanted are all of them.
    if fields.count("best_of")?.is_some_and(|it| it != choices) {
        return Err(OpenAiError::unsupported("best_of"));
    }
    let logprobs = match fields.take("logprobs") {
        None | Some(Value::Bool(false)) => None,
        Some(value) => Some(listed("logprobs", &value, LOGPROBS_MAX[0])?),
    };
    let mut asked = asked(fields, prompt, tokens_max)?;
    (asked.order.choices, asked.order.logprobs) = (choices, logprobs);
    Ok(asked)
}

/// How many texts are wanted.
fn choices(fields: &mut BodyFields) -> Result<u32, OpenAiError> {
    let choices = match fields.take("n") {
        None => Some(1),
        Some(value) => value.as_u64().and_then(|it| u32::try_from(it).ok()),
    };
    let choices = choices.filter(|it| (1..=CHOICES_MAX).contains(it));
    choices.ok_or_else(|| {
        let message = format!("`n` is a whole number from 1 to {CHOICES_MAX}");
        OpenAiError::invalid("n", message)
    })
}

/// How many of the likeliest tokens a field wants listed.
fn listed(name: &str, value: &Value, most: u32) -> Result<u32, OpenAiError> {
    let count = value.as_u64().and_then(|it| u32::try_from(it).ok());
    count.filter(|it| *it <= most).ok_or_else(|| {
        let message = format!("`{name}` is a whole number from 0 to {most}");
        OpenAiError::invalid(name, message)
    })
}

/// Whether a chat wants log probabilities, and of how many tokens.
fn chat_logprobs(fields: &mut BodyFields) -> Result<Option<u32>, OpenAiError> {
    let wanted = fields.flag("logprobs")?;
    let top = match fields.take("top_logprobs") {
        None => 0,
        Some(value) => listed("top_logprobs", &value, LOGPROBS_MAX[1])?,
    };
    if top > 0 && !wanted {
        let message = "`top_logprobs` is given with `logprobs: true`";
        return Err(OpenAiError::invalid("top_logprobs", message));
    }
    Ok(wanted.then_some(top))
}

/// Texts and lists of tokens of a field: a string, a list of strings, tokens as numbers, or a list of such lists.
pub(super) fn prompts(
    name: &str,
    value: Value,
    most: usize,
) -> Result<Vec<CompletionPrompt>, OpenAiError> {
    let invalid = || {
        let several = match most {
            1 => String::new(),
            most => format!(", or a list of 1 to {most} of them"),
        };
        let message = format!("`{name}` is a string, or tokens as numbers{several}");
        OpenAiError::invalid(name, message)
    };
    let items = match value {
        Value::String(text) => return Ok(vec![CompletionPrompt::Text(text)]),
        Value::Array(items) => items,
        _ => return Err(invalid()),
    };
    if items.first().is_some_and(Value::is_number) {
        let tokens = tokens(&items).ok_or_else(invalid)?;
        return Ok(vec![CompletionPrompt::Tokens(tokens)]);
    }
    if items.is_empty() || items.len() > most {
        return Err(invalid());
    }
    let one = |item: Value| match item {
        Value::String(text) => Some(CompletionPrompt::Text(text)),
        Value::Array(items) => tokens(&items).map(CompletionPrompt::Tokens),
        _ => None,
    };
    let all: Option<Vec<CompletionPrompt>> = items.into_iter().map(one).collect();
    all.ok_or_else(invalid)
}

fn tokens(items: &[Value]) -> Option<Vec<u32>> {
    let token = |item: &Value| item.as_u64().and_then(|it| u32::try_from(it).ok());
    items.iter().map(token).collect()
}

/// Reads a request of `/chat/completions`.
fn chat(body: Value) -> Result<Asked, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let Some(Value::Array(messages)) = fields.take("messages") else {
        return Err(OpenAiError::invalid("messages", "`messages` is a list"));
    };
    let turns = conversation("messages", messages)?;
    let tokens_max = fields.count("max_completion_tokens")?;
    let tokens_max = tokens_max.or(fields.count("max_tokens")?);
    let (choices, logprobs) = (choices(&mut fields)?, chat_logprobs(&mut fields)?);
    let mut asked = asked(fields, CompletionPrompt::Conversation(turns), tokens_max)?;
    (asked.order.choices, asked.order.logprobs) = (choices, logprobs);
    Ok(asked)
}

/// Reads a request of `/responses`.
pub(super) fn response(body: Value) -> Result<AskedResponse, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let instructions = fields.text("instructions")?;
    let previous = fields.text("previous_response_id")?;
    let messages = match fields.take("input") {
        Some(Value::String(text)) => vec![json!({ "role": "user", "content": text })],
        Some(Value::Array(items)) => items,
        _ => {
            let message = "`input` is a string or a list of messages";
            return Err(OpenAiError::invalid("input", message));
        }
    };
    let spoken = conversation("input", messages)?;
    let head = instructions.as_ref();
    let head = head.map(|text| ChatTurn::of("system", text));
    let tokens_max = fields.count("max_output_tokens")?;
    let store = match fields.take("store") {
        None => true,
        Some(Value::Bool(store)) => store,
        Some(_) => return Err(OpenAiError::invalid("store", "`store` is true or false")),
    };
    let metadata = fields.take("metadata").unwrap_or_else(|| json!({}));
    // The fields of completions alone are none of responses.
    for name in ["stop", "seed"] {
        if fields.take(name).is_some() {
            return Err(OpenAiError::unsupported(name));
        }
    }
    let turns = head.iter().chain(&spoken).cloned().collect();
    let asked = asked(fields, CompletionPrompt::Conversation(turns), tokens_max)?;
    let order = &asked.order;
    let echo = json!({
        "previous_response_id": previous, "instructions": instructions, "max_output_tokens": tokens_max, "metadata": metadata,
        "model": order.model, "store": store, "temperature": order.temperature, "top_p": order.top_p,
    });
    Ok(AskedResponse {
        asked,
        previous,
        head,
        spoken,
        store,
        echo,
    })
}

impl AskedResponse {
    /// Goes on with a conversation; instructions of before do not hold any more.
    pub(super) fn follow(&mut self, before: &[ChatTurn]) {
        self.spoken.splice(..0, before.iter().cloned());
        let turns = self.head.iter().chain(&self.spoken).cloned().collect();
        self.asked.order.prompt = CompletionPrompt::Conversation(turns);
    }

    /// The conversation with its answer, for a response that follows.
    pub(super) fn said(&self, answer: &str) -> Vec<ChatTurn> {
        let answer = ChatTurn::answered(answer);
        self.spoken.iter().cloned().chain([answer]).collect()
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
    let stops = stops(fields.take("stop"))?;
    let mut ours = ours(&mut fields)?;
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
            stops,
            choices: 1,
            logprobs: None,
            mode,
            max_price,
        },
        stream,
        stream_usage,
    })
}

/// The fields of the field `tensorgrid`.
pub(super) fn ours(fields: &mut BodyFields) -> Result<BodyFields, OpenAiError> {
    let ours = fields.take("tensorgrid").map(BodyFields::of);
    Ok(ours.transpose()?.unwrap_or_else(BodyFields::none))
}

/// How the result is checked and what is paid at most, of the field `tensorgrid`.
pub(super) fn terms(ours: &mut BodyFields) -> Result<Terms, OpenAiError> {
    let mode = match ours.text("verify")?.as_deref() {
        None | Some("none") => ModeDto::None,
        Some("proof") => ModeDto::Proof,
        Some("recompute") => ModeDto::Recompute,
        Some("sync") => ModeDto::Sync,
        Some("optimistic") => ModeDto::Optimistic,
        Some("replicate") => ModeDto::Replicate,
        Some(_) => {
            return Err(OpenAiError::invalid(
                "tensorgrid.verify",
                "`verify` is none, sync, optimistic, replicate, recompute or proof",
            ));
        }
    };
    let max_price = ours.amount("max_price")?;
    Ok((mode, max_price))
}

/// Strings that end a text.
fn stops(value: Option<Value>) -> Result<Vec<String>, OpenAiError> {
    let items = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(text) => vec![text],
    };
    let text = |item: Value| match item {
        Value::String(text) => Some(text),
        _ => None,
    };
    let texts: Option<Vec<String>> = items.into_iter().map(text).collect();
    let fits = |text: &String| (1..=STOP_BYTES_MAX).contains(&text.len());
    let texts = texts.filter(|texts| texts.len() <= STOPS_MAX && texts.iter().all(fits));
    texts.ok_or_else(|| {
        let message = format!(
            "`stop` is a string or at most {STOPS_MAX} of them, each of 1 to {STOP_BYTES_MAX} bytes"
        );
        OpenAiError::invalid("stop", message)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::conversation::play;
    use super::*;
    use serde_json::json;

    fn played(prompt: &CompletionPrompt) -> String {
        match prompt {
            CompletionPrompt::Conversation(turns) => play(turns),
            other => panic!("{other:?}"),
        }
    }

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
        assert_eq!(played(&order.prompt), text);
        assert!(stream && stream_usage);
        assert_eq!((order.tokens_max, order.seed), (Some(5), Some(-3)));
        assert_eq!(order.stops, ["\n"]);
        assert_eq!(order.mode, ModeDto::Proof);
        assert_eq!((order.top_k, order.temperature), (Some(4), 0.0));
        assert_eq!(order.max_price, Some("1.5".parse().unwrap()));
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let base = json!({"model": "m", "prompt": "p"});
        assert!(completion(base.clone()).is_ok());
        for (name, value, param) in [
            ("n", json!(0), "n"),
            ("n", json!(9), "n"),
            ("n", json!("2"), "n"),
            ("best_of", json!(2), "best_of"),
            ("logprobs", json!(6), "logprobs"),
            ("logprobs", json!(true), "logprobs"),
            ("top_logprobs", json!(1), "top_logprobs"),
            ("tools", json!([{}]), "tools"),
            ("presence_penalty", json!(0.5), "presence_penalty"),
            ("prompt", json!(["a", "b"]), "prompt"),
            ("temperature", json!(3), "temperature"),
            ("temperature", json!("hot"), "temperature"),
            ("max_tokens", json!(0), "max_tokens"),
            ("max_tokens", json!(-1), "max_tokens"),
            ("stop", json!(""), "stop"),
            ("stop", json!(1), "stop"),
            ("stop", json!(["a", "b", "c", "d", "e"]), "stop"),
            ("stop", json!("x".repeat(1_025)), "stop"),
            ("prompt", json!([[1], [2]]), "prompt"),
            ("prompt", json!([1, -2]), "prompt"),
            ("prompt", json!([]), "prompt"),
            ("prompt", json!({}), "prompt"),
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

    #[test]
    fn choices_and_log_probabilities_are_bounded() {
        let of = |asked: Asked| (asked.order.choices, asked.order.logprobs);
        let text = |more: Value| {
            let mut body = json!({"model": "m", "prompt": "p"});
            merge(&mut body, more);
            completion(body)
        };
        assert_eq!(of(text(json!({})).unwrap()), (1, None));
        assert_eq!(
            of(text(json!({"n": 1, "logprobs": null})).unwrap()),
            (1, None)
        );
        let most = json!({"n": 8, "best_of": 8, "logprobs": 5});
        assert_eq!(of(text(most).unwrap()), (8, Some(5)));
        assert_eq!(of(text(json!({"logprobs": 0})).unwrap()), (1, Some(0)));
        let spoken = |more: Value| {
            let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "p"}]});
            merge(&mut body, more);
            chat(body)
        };
        let most = json!({"n": 2, "logprobs": true, "top_logprobs": 20});
        assert_eq!(of(spoken(most).unwrap()), (2, Some(20)));
        assert_eq!(of(spoken(json!({"logprobs": true})).unwrap()), (1, Some(0)));
        assert_eq!(of(spoken(json!({"top_logprobs": 0})).unwrap()), (1, None));
        for (more, param) in [
            (json!({"n": 9}), "n"),
            (json!({"logprobs": 3}), "logprobs"),
            (json!({"top_logprobs": 2}), "top_logprobs"),
            (
                json!({"logprobs": true, "top_logprobs": 21}),
                "top_logprobs",
            ),
            (
                json!({"logprobs": true, "top_logprobs": -1}),
                "top_logprobs",
            ),
        ] {
            let error = spoken(more).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)));
        }
    }

    fn merge(body: &mut Value, more: Value) {
        let Value::Object(more) = more else {
            panic!("fields")
        };
        for (name, value) in more {
            body[name.as_str()] = value;
        }
    }

    #[test]
    fn prompts_are_texts_and_tokens() {
        let text = |text: &str| CompletionPrompt::Text(text.to_owned());
        let tokens = |tokens: &[u32]| CompletionPrompt::Tokens(tokens.to_vec());
        let all = |value| prompts("input", value, 3).unwrap();
        assert_eq!(all(json!("a")), [text("a")]);
        assert_eq!(all(json!(["a", "b"])), [text("a"), text("b")]);
        assert_eq!(all(json!([1, 2])), [tokens(&[1, 2])]);
        assert_eq!(
            all(json!([[1, 2], [3], "a"])),
            [tokens(&[1, 2]), tokens(&[3]), text("a")]
        );
        for wrong in [
            json!(null),
            json!(["a"; 4].to_vec()),
            json!([["a"]]),
            json!([1, "a"]),
        ] {
            let error = prompts("input", wrong, 3).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("input"));
        }
        let stopped = completion(json!({"model": "m", "prompt": "p", "stop": ["ab", "c"]}));
        assert_eq!(stopped.unwrap().order.stops, ["ab", "c"]);
    }

    #[test]
    fn a_response_is_asked_by_a_text_or_messages() {
        let asked = response(json!({
            "model": "m", "instructions": "Be brief.", "max_output_tokens": 7,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hark!"}]},
                {"type": "message", "role": "assistant", "id": "x", "status": "completed",
                    "content": [{"type": "output_text", "text": "Who?", "annotations": []}]},
            ],
            "tensorgrid": {"verify": "proof"}, "metadata": {"a": "b"},
        }))
        .unwrap();
        let text = "SYSTEM:\nBe brief.\n\nUSER:\nHark!\n\nASSISTANT:\nWho?\n\nASSISTANT:\n";
        let order = &asked.asked.order;
        assert_eq!(played(&order.prompt), text);
        assert_eq!((order.tokens_max, order.mode), (Some(7), ModeDto::Proof));
        assert!(asked.store && asked.echo["metadata"]["a"] == "b");
        let said = asked.said("I.");
        let mut next =
            response(json!({"model": "m", "input": "Go.", "previous_response_id": "r"})).unwrap();
        assert_eq!(next.previous.as_deref(), Some("r"));
        next.follow(&said);
        let text =
            "USER:\nHark!\n\nASSISTANT:\nWho?\n\nASSISTANT:\nI.\n\nUSER:\nGo.\n\nASSISTANT:\n";
        let order = &next.asked.order;
        assert_eq!(played(&order.prompt), text);
        let base = json!({"model": "m", "input": "p"});
        assert!(
            !response(json!({"model": "m", "input": "p", "store": false}))
                .unwrap()
                .store
        );
        for (name, value, param) in [
            ("previous_response_id", json!(1), "previous_response_id"),
            ("tools", json!([{"type": "web_search"}]), "tools"),
            ("reasoning", json!({"effort": "low"}), "reasoning"),
            ("background", json!(true), "background"),
            ("conversation", json!("c"), "conversation"),
            ("text", json!({"format": {"type": "json_schema"}}), "text"),
            ("truncation", json!("auto"), "truncation"),
            ("stop", json!("a"), "stop"),
            ("store", json!("no"), "store"),
            ("max_tokens", json!(3), "max_tokens"),
            ("input", json!(3), "input"),
            ("input", json!([]), "input"),
            (
                "input",
                json!([{"role": "user", "content": [{"type": "input_image"}]}]),
                "input_image",
            ),
            ("input", json!([{"type": "function_call_output"}]), "input"),
        ] {
            let mut body = base.clone();
            body[name] = value;
            let error = response(body).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)));
        }
    }
}
