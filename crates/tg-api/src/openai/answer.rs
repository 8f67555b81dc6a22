//! Answers of the completions.

use serde_json::{Value, json};

use tg_sdk::dto::ModeDto;

use super::port::Completion;
use super::replay::AnswerId;
use super::request::CompletionKind;

/// What all parts of one answer share.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    kind: CompletionKind,
    /// The model as the request named it.
    model: String,
    id: String,
    created: u64,
}

impl Frame {
    pub(super) fn new(kind: CompletionKind, model: String, id: &AnswerId) -> Self {
        let prefix = match kind {
            CompletionKind::Text => "cmpl",
            CompletionKind::Chat => "chatcmpl",
        };
        Self {
            kind,
            model,
            id: format!("{prefix}-{}", id.name),
            created: id.created,
        }
    }

    /// The whole answer.
    pub(super) fn whole(&self, completion: &Completion) -> Value {
        let text = completion.pieces.concat();
        let finish = finish(completion);
        let (object, choice) = match self.kind {
            CompletionKind::Text => (
                "text_completion",
                json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }),
            ),
            CompletionKind::Chat => (
                "chat.completion",
                json!({
                    "index": 0, "logprobs": null, "finish_reason": finish,
                    "message": { "role": "assistant", "content": text, "refusal": null },
                }),
            ),
        };
        let mut answer = self.part(object, &[choice]);
        answer["usage"] = usage(completion);
        answer["tensorgrid"] = stands_behind(completion);
        answer
    }

    /// A piece of a streamed answer, after the role if it `is_first`.
    pub(super) fn piece(&self, piece: &str, is_first: bool) -> Vec<Value> {
        let mut parts = Vec::new();
        if is_first && self.kind == CompletionKind::Chat {
            parts.push(self.delta(&json!({ "role": "assistant", "content": "" }), None));
        }
        parts.push(match self.kind {
            CompletionKind::Text => self.text(piece, None),
            CompletionKind::Chat => self.delta(&json!({ "content": piece }), None),
        });
        parts
    }

    /// The parts of a streamed answer after what was `sent` of its text: the role, each piece, the end, and the usage if it was asked for.
    pub(super) fn parts(
        &self,
        completion: &Completion,
        with_usage: bool,
        sent: &str,
    ) -> Vec<Value> {
        let mut parts = Vec::new();
        if sent.is_empty() && self.kind == CompletionKind::Chat {
            parts.push(self.delta(&json!({ "role": "assistant", "content": "" }), None));
        }
        let mut skipped = sent.len();
        for piece in &completion.pieces {
            // What was sent ends between two letters.
            let rest = piece.get(skipped.min(piece.len())..).unwrap_or_default();
            skipped = skipped.saturating_sub(piece.len());
            if !rest.is_empty() {
                parts.extend(self.piece(rest, false));
            }
        }
        let finish = Some(finish(completion));
        let mut last = match self.kind {
            CompletionKind::Text => self.text("", finish),
            CompletionKind::Chat => self.delta(&json!({}), finish),
        };
        last["tensorgrid"] = stands_behind(completion);
        parts.push(last);
        if with_usage {
            let mut part = self.part(self.streamed(), &[]);
            part["usage"] = usage(completion);
            parts.push(part);
        }
        parts
    }

    const fn streamed(&self) -> &'static str {
        match self.kind {
            CompletionKind::Text => "text_completion",
            CompletionKind::Chat => "chat.completion.chunk",
        }
    }

    fn text(&self, text: &str, finish: Option<&str>) -> Value {
        let choice = json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish });
        self.part(self.streamed(), &[choice])
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> Value {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
        self.part(self.streamed(), &[choice])
    }

    fn part(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": choices,
        })
    }
}

const fn finish(completion: &Completion) -> &'static str {
    if completion.stopped { "stop" } else { "length" }
}

fn usage(completion: &Completion) -> Value {
    let [prompt, written] = [completion.prompt_tokens, completion.written_tokens];
    json!({
        "prompt_tokens": prompt, "completion_tokens": written,
        "total_tokens": prompt.saturating_add(written),
    })
}

/// What stands behind an answer.
pub(super) fn stands_behind(completion: &Completion) -> Value {
    let Completion {
        job,
        model,
        price,
        mode,
        proof_bytes,
        unchecked,
        ..
    } = completion;
    if let Some(unchecked) = unchecked {
        return unchecked.clone();
    }
    json!({
        "job": job.to_string(), "model": model.to_string(), "price": price.to_string(),
        "verify": mode, "proof_bytes": proof_bytes,
        // An endpoint has none: its provider signed the answer, and the grid holds nothing of it.
        "receipt": (*mode != ModeDto::Endpoint).then(|| format!("/v1/jobs/{job}/receipt")),
    })
}
