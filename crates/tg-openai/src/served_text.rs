//! Texts of served models for responses and batches, whose requests are read here and not passed through.

use serde_json::{Map, Value, json};
use tg_api::{
    ChoiceSender, Completion, CompletionOrder, CompletionPrompt, OpenAiError, PieceSender,
    ServedOrder, ServedReply,
};
use tg_sdk::dto::ModeDto;
use tg_types::ServedCall;
use tokio::sync::mpsc;

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
        mode,
        max_price,
    } = order;
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

/// Where choices are sent so that their text comes to `pieces`.
pub(super) fn texts(pieces: PieceSender) -> ChoiceSender {
    let (sender, mut choices) = mpsc::unbounded_channel::<Value>();
    tokio::spawn(async move {
        while let Some(choices) = choices.recv().await {
            let text = choice_text(&choices[0]).unwrap_or_default();
            if !text.is_empty() && pieces.send(text.to_owned()).is_err() {
                return;
            }
        }
    });
    sender
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
    let choice = &reply.body["choices"][0];
    Completion {
        pieces: vec![choice_text(choice).unwrap_or_default().to_owned()],
        prompt_tokens: reply.usage.prompt,
        written_tokens: reply.usage.completion,
        stopped: choice["finish_reason"] != "length",
        job: reply.job,
        model: reply.model,
        price: reply.price,
        mode: ModeDto::None,
        proof_bytes: None,
        unchecked: Some(reply.stands_behind()),
    }
}
