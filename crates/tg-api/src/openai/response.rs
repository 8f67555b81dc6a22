//! The response object and the events of its stream.

use serde_json::{Map, Value, json};

use super::answer::stands_behind;
use super::error::OpenAiError;
use super::port::Completion;
use super::replay::AnswerId;
use super::stream::StreamPart;

/// What all views of one response share.
#[derive(Debug, Clone)]
pub(super) struct ResponseFrame {
    pub(super) id: String,
    item: String,
    created: u64,
    echo: Value,
}

impl ResponseFrame {
    /// `echo`: what is repeated of the request, a JSON object.
    pub(super) fn new(id: &AnswerId, echo: Value) -> Self {
        Self {
            id: format!("resp_{}", id.name),
            item: format!("msg_{}", id.name),
            created: id.created,
            echo,
        }
    }

    /// The whole answer.
    pub(super) fn whole(&self, completion: &Completion) -> Value {
        // As OpenAI has it: a limit leaves a response incomplete.
        let (status, details) = match completion.stopped() {
            true => ("completed", Value::Null),
            false => ("incomplete", json!({ "reason": "max_output_tokens" })),
        };
        let item = self.message(&completion.text(), status);
        let mut answer = self.object(status, &[item]);
        answer["incomplete_details"] = details;
        answer["usage"] = usage(completion);
        answer["tensorgrid"] = stands_behind(completion);
        answer
    }

    /// The events before the job has ended.
    pub(super) fn begins(&self) -> Vec<StreamPart> {
        let response = self.object("in_progress", &[]);
        let events = [
            ("response.created", json!({ "response": response })),
            ("response.in_progress", json!({ "response": response })),
        ];
        numbered(0, events.into())
    }

    /// The events of a job that has ended.
    pub(super) fn ends(&self, completion: &Completion) -> Vec<StreamPart> {
        let whole = self.whole(completion);
        let item = &whole["output"][0];
        let mut empty = self.message("", "in_progress");
        empty["content"] = json!([]);
        let at = |more: Value| {
            let mut event = json!({ "item_id": self.item, "output_index": 0, "content_index": 0 });
            merge(&mut event, more);
            event
        };
        let text_of = |piece: &String| {
            let delta = at(json!({ "delta": piece, "logprobs": [] }));
            ("response.output_text.delta", delta)
        };
        let text = completion.text();
        let mut events = vec![
            (
                "response.output_item.added",
                json!({ "output_index": 0, "item": empty }),
            ),
            (
                "response.content_part.added",
                at(json!({ "part": content("") })),
            ),
        ];
        let pieces = completion.choices.iter().take(1);
        events.extend(pieces.flat_map(|it| &it.pieces).map(text_of));
        let last = match completion.stopped() {
            true => "response.completed",
            false => "response.incomplete",
        };
        events.extend([
            (
                "response.output_text.done",
                at(json!({ "text": text, "logprobs": [] })),
            ),
            (
                "response.content_part.done",
                at(json!({ "part": content(&text) })),
            ),
            (
                "response.output_item.done",
                json!({ "output_index": 0, "item": item }),
            ),
            (last, json!({ "response": whole })),
        ]);
        numbered(self.begins().len(), events)
    }

    /// The event of a job that gave nothing.
    pub(super) fn fails(&self, error: &OpenAiError) -> Vec<StreamPart> {
        let mut response = self.object("failed", &[]);
        let code = match error.status {
            429 => "rate_limit_exceeded",
            400..=499 => "invalid_prompt",
            _ => "server_error",
        };
        response["error"] = json!({ "code": code, "message": error.message });
        let event = ("response.failed", json!({ "response": response }));
        numbered(self.begins().len(), vec![event])
    }

    fn object(&self, status: &str, output: &[Value]) -> Value {
        let mut object = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status,
            "background": false, "error": null, "incomplete_details": null, "output": output,
            "parallel_tool_calls": true,
            "reasoning": { "effort": null, "summary": null }, "text": { "format": { "type": "text" } },
            "tool_choice": "auto", "tools": [], "truncation": "disabled", "usage": null,
        });
        merge(&mut object, self.echo.clone());
        object
    }

    fn message(&self, text: &str, status: &str) -> Value {
        json!({
            "id": self.item, "type": "message", "status": status, "role": "assistant",
            "content": [content(text)],
        })
    }
}

fn content(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn usage(completion: &Completion) -> Value {
    let [prompt, written] = [completion.prompt_tokens, completion.written_tokens];
    json!({
        "input_tokens": prompt, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": written, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": prompt.saturating_add(written),
    })
}

/// Writes the fields of one object into another.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        let from: Map<String, Value> = from;
        into.extend(from);
    }
}

/// Events with their names and numbers.
fn numbered(first: usize, events: Vec<(&str, Value)>) -> Vec<StreamPart> {
    let with = |(index, (name, mut event)): (usize, (&str, Value))| {
        merge(
            &mut event,
            json!({ "type": name, "sequence_number": first + index }),
        );
        StreamPart::Event(event)
    };
    events.into_iter().enumerate().map(with).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::port::CompletionChoice;
    use super::*;
    use tg_sdk::dto::ModeDto;
    use tg_types::{Amount, Digest, JobId, ModelId};

    fn completion(stopped: bool) -> Completion {
        Completion {
            choices: vec![CompletionChoice {
                pieces: vec!["Who".to_owned(), " there?".to_owned()],
                stopped,
                job: JobId::new([1; 32]),
                price: Amount::ZERO,
                mode: ModeDto::None,
                proof_bytes: None,
                logprobs: None,
                endpoint: None,
            }],
            prompt_tokens: 3,
            written_tokens: 2,
            model: ModelId::new([2; 32]),
            unchecked: None,
        }
    }

    fn events(parts: Vec<StreamPart>) -> Vec<Value> {
        let event = |part| match part {
            StreamPart::Event(event) => event,
            other => panic!("{other:?}"),
        };
        parts.into_iter().map(event).collect()
    }

    #[test]
    fn a_stream_adds_up_to_the_whole_answer() {
        let id = AnswerId::of(&Digest::new([1; 32]));
        let frame = ResponseFrame::new(&id, json!({ "model": "m", "store": true }));
        let completion = completion(true);
        let all = [events(frame.begins()), events(frame.ends(&completion))].concat();
        for (index, event) in all.iter().enumerate() {
            assert_eq!(event["sequence_number"], index);
        }
        assert_eq!(all[0]["type"], "response.created");
        assert_eq!(all[0]["response"]["status"], "in_progress");
        let deltas = all
            .iter()
            .filter(|it| it["type"] == "response.output_text.delta");
        let text: String = deltas.map(|it| it["delta"].as_str().unwrap()).collect();
        let last = all.last().unwrap();
        assert_eq!(last["type"], "response.completed");
        assert_eq!(last["response"], frame.whole(&completion));
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], text);
        assert_eq!(last["response"]["usage"]["total_tokens"], 5);
        assert_eq!(last["response"]["model"], "m");
    }

    #[test]
    fn a_limit_leaves_it_incomplete_and_a_failure_says_why() {
        let id = AnswerId::of(&Digest::new([1; 32]));
        let frame = ResponseFrame::new(&id, json!({ "model": "m" }));
        let cut = events(frame.ends(&completion(false)));
        assert_eq!(cut.last().unwrap()["type"], "response.incomplete");
        let failed = events(frame.fails(&OpenAiError::unavailable("nobody".to_owned())));
        let response = &failed[0]["response"];
        assert_eq!(
            (&failed[0]["type"], &response["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        assert_eq!(response["error"]["message"], "nobody");
    }
}
