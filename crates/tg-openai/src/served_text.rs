//! Texts of served models for responses and batches, whose requests are read here and not passed through.

use serde_json::{Map, Value, json};
use tg_api::{
    ChoiceSender, Completion, CompletionChoice, CompletionOrder, CompletionPrompt, OpenAiError,
    PieceSender, ServedOrder, ServedReply, TextPiece,
};
use tg_sdk::dto::ModeDto;
use tg_types::ServedCall;
use tokio::sync::mpsc;

/// Most choices that are read of an answer: no request that is read here asks for more.
const CHOICES_READ: usize = 8;

/// The request that a provider's server is sent for an order.
pub(super) fn order_of(order: &CompletionOrder, stream: bool) -> Result<ServedOrder, OpenAiError> {
    let CompletionOrder {
        model,
        prompt,
        tokens_max,
        temperature,
        top_p,
        top_k,
        seed,
        stops,
        choices,
        logprobs,
        mode,
        max_price,
    } = order;
    if logprobs.is_some() {
        // Requests that are not in batches go through as they were written.
        return Err(OpenAiError::unsupported("logprobs"));
    }
    if *mode != ModeDto::None {
        let text = format!(
            "`{model}` is served by a provider's own server: nobody can check its answers; leave `verify` out, or say none"
        );
        return Err(OpenAiError::invalid("tensorgrid.verify", text));
    }
    let mut body = Map::new();
    let call = match prompt {
        CompletionPrompt::Text(text) => {
            body.insert("prompt".to_owned(), json!(text));
            ServedCall::Completion
        }
        CompletionPrompt::Tokens(tokens) => {
            body.insert("prompt".to_owned(), json!(tokens));
            ServedCall::Completion
        }
        CompletionPrompt::Conversation(turns) => {
            let messages = turns.iter().map(|turn| match &turn.name {
                Some(name) => {
                    json!({ "role": turn.role, "name": name, "content": turn.content })
                }
                None => json!({ "role": turn.role, "content": turn.content }),
            });
            body.insert("messages".to_owned(), messages.collect());
            ServedCall::Chat
        }
    };
    body.insert("temperature".to_owned(), json!(temperature));
    body.insert("top_p".to_owned(), json!(top_p));
    let fields = [
        ("max_tokens", tokens_max.map(|it| json!(it))),
        ("top_k", top_k.map(|it| json!(it))),
        ("seed", seed.map(|it| json!(it))),
        ("stop", (!stops.is_empty()).then(|| json!(stops))),
        ("n", (*choices > 1).then(|| json!(choices))),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    }
    Ok(ServedOrder {
        model: model.clone(),
        call,
        stream,
        body,
        max_price: *max_price,
        providers: Vec::new(),
    })
}

/// Where choices are sent so that their texts come to `pieces`.
pub(super) fn texts(pieces: PieceSender) -> ChoiceSender {
    let (sender, mut parts) = mpsc::unbounded_channel::<Value>();
    tokio::spawn(async move {
        while let Some(part) = parts.recv().await {
            for choice in part.as_array().into_iter().flatten() {
                let Some(index) = index_of(choice) else {
                    continue;
                };
                let text = choice_text(choice).unwrap_or_default().to_owned();
                let piece = TextPiece {
                    choice: index,
                    text,
                };
                if !piece.text.is_empty() && pieces.send(piece).is_err() {
                    return;
                }
            }
        }
    });
    sender
}

/// Which choice it is; nothing if it is none that could have been asked for.
fn index_of(choice: &Value) -> Option<usize> {
    let index = choice["index"].as_u64().unwrap_or(0);
    usize::try_from(index).ok().filter(|it| *it < CHOICES_READ)
}

/// The text of a choice, whole or in a piece.
fn choice_text(choice: &Value) -> Option<&str> {
    let texts = [
        &choice["delta"]["content"],
        &choice["message"]["content"],
        &choice["text"],
    ];
    texts.into_iter().find_map(Value::as_str)
}

/// What was written.
pub(super) fn completion_of(reply: &ServedReply) -> Completion {
    let none = Vec::new();
    let choices = reply.body["choices"].as_array().unwrap_or(&none);
    let mut choices: Vec<CompletionChoice> = choices
        .iter()
        .take(CHOICES_READ)
        .map(|it| choice_of(it, reply))
        .collect();
    if choices.is_empty() {
        choices.push(choice_of(&Value::Null, reply));
    }
    Completion {
        choices,
        prompt_tokens: reply.usage.prompt,
        written_tokens: reply.usage.completion,
        model: reply.model,
        unchecked: Some(reply.stands_behind()),
    }
}

/// A choice; all of them are paid by the one answer that they are in.
fn choice_of(choice: &Value, reply: &ServedReply) -> CompletionChoice {
    CompletionChoice {
        pieces: vec![choice_text(choice).unwrap_or_default().to_owned()],
        stopped: choice["finish_reason"] != "length",
        job: reply.job,
        price: reply.price,
        mode: ModeDto::None,
        proof_bytes: None,
        logprobs: None,
    }
}
