//! Streamed answers: server-sent events, assembled into the answer that a call without a stream gives.

use serde_json::{Map, Value, json};
use tg_types::ServedCall;

/// Bytes of one line of a stream, at most.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Choices of an answer, and entries of its lists with numbers, at most.
const ENTRIES_MAX: usize = 128;

/// How deep the objects of a piece are merged.
const DEPTH_MAX: u32 = 6;

/// Fields that are said once and not written on.
const SAID_ONCE: [&str; 6] = ["role", "id", "type", "name", "finish_reason", "object"];

/// Why a stream is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamFault(pub(super) &'static str);

/// Lines of a stream, as bytes come.
#[derive(Debug, Default)]
pub(super) struct EventLines(Vec<u8>);

/// What a line of a stream says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StreamEvent {
    /// A piece.
    Data(Value),
    /// The end.
    Done,
}

impl EventLines {
    /// Takes bytes and gives what is whole of them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, StreamFault> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.0.len() + part.len() > LINE_BYTES_MAX {
                return Err(StreamFault("a line of its stream is too long"));
            }
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.0);
                events.extend(event(&line)?);
            }
        }
        Ok(events)
    }
}

/// What a line says; nothing of comments, names and empty lines.
fn event(line: &[u8]) -> Result<Option<StreamEvent>, StreamFault> {
    let Some(data) = line.strip_prefix(b"data:") else {
        return Ok(None);
    };
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        return Ok(Some(StreamEvent::Done));
    }
    match serde_json::from_slice::<Value>(data) {
        Ok(value) if value.is_object() => Ok(Some(StreamEvent::Data(value))),
        Ok(_) | Err(_) => Err(StreamFault("a piece of its stream is no JSON object")),
    }
}

/// The answer that the pieces of a stream make.
#[derive(Debug, Default)]
pub(super) struct AssembledAnswer {
    head: Map<String, Value>,
    choices: Vec<Value>,
    usage: Option<Value>,
}

impl AssembledAnswer {
    /// Takes a piece; what of it callers read, if it has some.
    pub(super) fn take(&mut self, piece: Value) -> Result<Option<Value>, StreamFault> {
        let Value::Object(mut piece) = piece else {
            return Err(StreamFault("a piece of its stream is no JSON object"));
        };
        if piece.contains_key("error") {
            return Err(StreamFault("its stream ended with an error"));
        }
        if let Some(usage) = piece.remove("usage").filter(Value::is_object) {
            self.usage = Some(usage);
        }
        let Some(Value::Array(choices)) = piece.remove("choices") else {
            return Err(StreamFault("a piece of its stream has no `choices`"));
        };
        for name in ["id", "created", "system_fingerprint"] {
            if let Some(value) = piece.remove(name) {
                self.head.entry(name).or_insert(value);
            }
        }
        for choice in &choices {
            self.take_choice(choice)?;
        }
        Ok((!choices.is_empty()).then_some(Value::Array(choices)))
    }

    fn take_choice(&mut self, choice: &Value) -> Result<(), StreamFault> {
        let place = usize::try_from(choice["index"].as_u64().unwrap_or(0));
        let place = place.ok().filter(|place| *place < ENTRIES_MAX);
        let place = place.ok_or(StreamFault("it gives more choices than can be asked for"))?;
        while self.choices.len() <= place {
            let index = self.choices.len();
            self.choices.push(json!({ "index": index }));
        }
        merge(&mut self.choices[place], choice, DEPTH_MAX)
    }

    /// The answer as it would be without a stream, and how many tokens it says that there are.
    pub(super) fn whole(mut self, call: ServedCall) -> Value {
        for choice in &mut self.choices {
            let Some(fields) = choice.as_object_mut() else {
                continue;
            };
            fields.entry("finish_reason").or_insert(Value::Null);
            fields.entry("logprobs").or_insert(Value::Null);
            if call == ServedCall::Chat {
                let delta = fields.remove("delta").unwrap_or_else(|| json!({}));
                fields.insert("message".to_owned(), message(delta));
            }
        }
        let object = match call {
            ServedCall::Chat => "chat.completion",
            ServedCall::Completion | ServedCall::Embedding => "text_completion",
        };
        self.head.insert("object".to_owned(), json!(object));
        self.head
            .insert("choices".to_owned(), Value::Array(self.choices));
        if let Some(usage) = self.usage {
            self.head.insert("usage".to_owned(), usage);
        }
        Value::Object(self.head)
    }
}

/// A message of its deltas.
fn message(delta: Value) -> Value {
    let mut message = delta;
    if let Some(fields) = message.as_object_mut() {
        fields.entry("role").or_insert_with(|| json!("assistant"));
        let calls = fields.get_mut("tool_calls").and_then(Value::as_array_mut);
        let has_calls = calls.is_some();
        for call in calls.into_iter().flatten() {
            if let Some(call) = call.as_object_mut() {
                call.remove("index");
            }
        }
        let empty = if has_calls { Value::Null } else { json!("") };
        fields.entry("content").or_insert(empty);
    }
    message
}

/// Adds a piece to what was said: texts are written on, lists are added to, by number where their entries have one.
fn merge(into: &mut Value, piece: &Value, depth: u32) -> Result<(), StreamFault> {
    if depth == 0 {
        return Err(StreamFault("a piece of its stream is nested too deep"));
    }
    let (Some(fields), Some(piece)) = (into.as_object_mut(), piece.as_object()) else {
        return Err(StreamFault("its pieces do not fit together"));
    };
    for (name, value) in piece {
        if value.is_null() {
            continue;
        }
        let Some(before) = fields.get_mut(name).filter(|it| !it.is_null()) else {
            let entries = value.as_array().map_or(0, Vec::len);
            if entries > ENTRIES_MAX {
                return Err(StreamFault("a list in its stream is too long"));
            }
            fields.insert(name.clone(), value.clone());
            continue;
        };
        match (before, value) {
            (Value::String(before), Value::String(more)) if !SAID_ONCE.contains(&name.as_str()) => {
                before.push_str(more);
            }
            (Value::Array(before), Value::Array(more)) => merge_lists(before, more, depth)?,
            (before @ Value::Object(_), Value::Object(_)) => merge(before, value, depth - 1)?,
            (before, _) => *before = value.clone(),
        }
    }
    Ok(())
}

fn merge_lists(before: &mut Vec<Value>, more: &[Value], depth: u32) -> Result<(), StreamFault> {
    for entry in more {
        let number = entry["index"].as_u64();
        let known = number.and_then(|number| {
            let mut known = before.iter();
            known.position(|it| it["index"].as_u64() == Some(number))
        });
        match known {
            Some(place) => merge(&mut before[place], entry, depth - 1)?,
            None if number.is_some() && before.len() >= ENTRIES_MAX => {
                return Err(StreamFault("a list in its stream is too long"));
            }
            None => before.push(entry.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// What a stream says, given to the reader `step` bytes at a time.
    fn read(stream: &str, step: usize) -> Result<(Value, Vec<Value>, bool), StreamFault> {
        let (mut lines, mut answer) = (EventLines::default(), AssembledAnswer::default());
        let (mut pieces, mut done) = (Vec::new(), false);
        for bytes in stream.as_bytes().chunks(step) {
            for event in lines.take(bytes)? {
                match event {
                    StreamEvent::Done => done = true,
                    StreamEvent::Data(piece) => pieces.extend(answer.take(piece)?),
                }
            }
        }
        Ok((answer.whole(ServedCall::Chat), pieces, done))
    }

    #[test]
    fn a_stream_is_the_answer_in_pieces() {
        let stream = concat!(
            ": a comment\r\n\r\nevent: x\n",
            "data: {\"id\":\"a\",\"created\":5,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data:{\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\u{e9}\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"y\"},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
            "data: [DONE]\n\n",
        );
        for step in [1, 2, 7, 4_096] {
            let (whole, pieces, done) = read(stream, step).unwrap();
            assert_eq!(pieces.len(), 3);
            assert!(done);
            assert_eq!(
                whole,
                json!({
                    "id": "a", "created": 5, "object": "chat.completion",
                    "choices": [{
                        "index": 0, "finish_reason": "stop", "logprobs": null,
                        "message": {"role": "assistant", "content": "H\u{e9}y"},
                    }],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
                })
            );
        }
    }

    #[test]
    fn calls_of_tools_are_put_together() {
        let part = |value: Value| {
            format!(
                "data: {}\n",
                json!({"choices": [{"index": 0, "delta": value}]})
            )
        };
        let stream = [
            part(
                json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            ),
            part(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":"}}]})),
            part(
                json!({"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
            ),
            part(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
        ];
        let (whole, ..) = read(&stream.concat(), 64).unwrap();
        assert_eq!(
            whole["choices"][0]["message"],
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ]})
        );
    }

    #[test]
    fn what_is_no_stream_of_the_api_is_a_fault() {
        let deep = format!(
            "data: {}1{}\n",
            "{\"choices\":[{\"delta\":".to_owned() + &"{\"a\":".repeat(9),
            "}".repeat(9) + "}]}"
        );
        let twice = deep.repeat(2);
        let many = json!({"choices": [{"index": 500, "delta": {}}]});
        for wrong in [
            "data: rubbish\n",
            "data: 5\n",
            "data: {}\n",
            "data: {\"choices\":5}\n",
            "data: {\"choices\":[5]}\n",
            "data: {\"error\":{\"message\":\"no\"}}\n",
            &format!("data: {many}\n"),
            &twice,
            &"x".repeat(LINE_BYTES_MAX + 1),
        ] {
            assert!(
                read(wrong, 1 << 16).is_err(),
                "{}",
                &wrong[..wrong.len().min(60)]
            );
        }
        // Bytes of any kind give a stream or a fault.
        let mut seed = 7_u64;
        for _ in 0..500 {
            let mut noise = String::new();
            for _ in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let parts = [
                    "data:",
                    "{\"choices\":[",
                    "{\"index\":0,\"delta\":{",
                    "\"content\":\"a\"",
                    "}}",
                    "]}",
                    "\n",
                    ",",
                    "[DONE]",
                    "\u{e9}",
                ];
                noise.push_str(parts[(seed >> 33) as usize % parts.len()]);
            }
            let _read = read(&noise, 3);
        }
        // Of what is no line of data nothing is taken.
        assert!(read("rubbish\n<html>\n", 5).is_ok());
    }
}
