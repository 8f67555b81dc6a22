//! Texts of served models for responses and batches, whose requests are read here and not passed through.

use serde_json::{Map, Value, json};
use tg_api::{
    AskedBody, ChoiceSender, Completion, CompletionChoice, CompletionOrder, CompletionPrompt,
    JsonLimit, OpenAiError, PieceSender, SentPiece, ServedOrder, ServedReply, TextPiece,
    limited_pieces, read_json,
};
use tg_sdk::dto::ModeDto;
use tg_types::{Amount, ServedCall};

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
        body: AskedBody::of(body),
        max_price: *max_price,
        providers: Vec::new(),
    })
}

/// Where choices are sent so that their texts come to `pieces`.
pub(super) fn texts(pieces: PieceSender) -> ChoiceSender {
    let (sender, mut parts) = limited_pieces::<Vec<u8>>();
    tokio::spawn(async move {
        while let Some(part) = parts.recv().await {
            let part = read_json::<Value>(&part, &JsonLimit::PIECE);
            let part = part.unwrap_or_default();
            for choice in part.as_array().into_iter().flatten() {
                let Some(index) = index_of(choice) else {
                    continue;
                };
                let text = choice_text(choice).unwrap_or_default().to_owned();
                let piece = TextPiece {
                    choice: index,
                    text,
                };
                if !piece.text.is_empty() && pieces.send(piece) == SentPiece::Unread {
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
    let body = reply.body.json();
    let choices = body["choices"].as_array().unwrap_or(&none);
    let mut choices: Vec<CompletionChoice> = choices
        .iter()
        .take(CHOICES_READ)
        .map(|it| choice_of(it, reply))
        .collect();
    if choices.is_empty() {
        choices.push(choice_of(&Value::Null, reply));
    }
    // One answer has all of them, and is paid once.
    choices[0].price = reply.price;
    Completion {
        choices,
        prompt_tokens: reply.usage.prompt,
        written_tokens: reply.usage.completion,
        model: reply.model,
        unchecked: Some(reply.stands_behind()),
    }
}

/// A choice of an answer, without what the answer cost.
fn choice_of(choice: &Value, reply: &ServedReply) -> CompletionChoice {
    CompletionChoice {
        pieces: vec![choice_text(choice).unwrap_or_default().to_owned()],
        stopped: choice["finish_reason"] != "length",
        job: reply.job,
        price: Amount::ZERO,
        mode: ModeDto::None,
        proof_bytes: None,
        logprobs: None,
        // What stands behind it says the provider.
        endpoint: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_api::ServedBody;
    use tg_types::{Address, JobId, ModelId, TokenUsage};

    fn body(body: &Value) -> ServedBody {
        ServedBody::read(body.to_string().as_bytes()).unwrap()
    }

    fn order(choices: u32, logprobs: Option<u32>) -> CompletionOrder {
        CompletionOrder {
            model: "m".to_owned(),
            prompt: CompletionPrompt::Text("p".to_owned()),
            tokens_max: Some(3),
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            seed: None,
            stops: Vec::new(),
            choices,
            logprobs,
            mode: ModeDto::None,
            max_price: None,
        }
    }

    #[test]
    fn several_choices_are_asked_for_at_once_and_paid_once() {
        let asked = order_of(&order(3, None), false).unwrap();
        assert_eq!(asked.body.json()["n"], 3);
        let single = order_of(&order(1, None), false).unwrap().body.json();
        assert!(single["n"].is_null(), "{single}");
        let refused = order_of(&order(1, Some(0)), false).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some("logprobs"));
        let reply = ServedReply {
            body: body(&json!({"choices": [
                {"index": 0, "text": "a", "finish_reason": "stop"},
                {"index": 1, "text": "b", "finish_reason": "length"},
            ]})),
            usage: TokenUsage {
                prompt: 2,
                completion: 6,
            },
            job: JobId::new([1; 32]),
            model: ModelId::new([2; 32]),
            provider: Address::new([3; 20]),
            price: Amount::new(7),
            prompt_price: Amount::ZERO,
            completion_price: Amount::ZERO,
            failed: Vec::new(),
        };
        let completion = completion_of(&reply);
        let texts: Vec<(String, bool)> = completion
            .choices
            .iter()
            .map(|it| (it.pieces.concat(), it.stopped))
            .collect();
        assert_eq!(texts, [("a".to_owned(), true), ("b".to_owned(), false)]);
        assert_eq!(completion.price(), Amount::new(7));
        assert_eq!(
            (completion.prompt_tokens, completion.written_tokens),
            (2, 6)
        );
        // An answer without choices is an empty text.
        let empty = ServedReply {
            body: body(&json!({})),
            ..reply
        };
        assert_eq!(completion_of(&empty).text(), "");
    }

    #[tokio::test]
    async fn pieces_go_to_their_choices() {
        let (sender, mut pieces) = limited_pieces();
        let parts = texts(sender);
        let send = |part: Value| {
            let sent = parts.send(part.to_string().into_bytes());
            assert_eq!(sent, SentPiece::Waits);
        };
        send(json!([{"index": 1, "delta": {"content": "b"}}, {"index": 0, "text": "a"}]));
        // What no request asks for is left out.
        send(json!([{"index": 8, "text": "c"}, {"index": -1}]));
        send(json!("no choices"));
        send(json!([{"text": "d"}]));
        drop(parts);
        let mut seen = Vec::new();
        while let Some(TextPiece { choice, text }) = pieces.recv().await {
            seen.push((choice, text));
        }
        let expected = [(1, "b"), (0, "a"), (0, "d")];
        assert_eq!(
            seen,
            expected.map(|(choice, text)| (choice, text.to_owned()))
        );
    }
}
