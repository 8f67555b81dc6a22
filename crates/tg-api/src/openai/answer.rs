//! Answers of the completions.

use serde_json::{Map, Value, json};

use tg_sdk::dto::ModeDto;
use tg_types::digest::hex;

use super::port::{
    AnsweringEndpoint, Completion, CompletionChoice, TextLogprobs, TokenLogprob, WrittenLogprob,
};
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
        let object = match self.kind {
            CompletionKind::Text => "text_completion",
            CompletionKind::Chat => "chat.completion",
        };
        let choices = completion.choices.iter().enumerate();
        let choices: Vec<Value> = choices.map(|it| self.choice(it)).collect();
        let mut answer = self.part(object, &choices);
        answer["usage"] = usage(completion);
        answer["tensorgrid"] = stands_behind(completion);
        answer
    }

    fn choice(&self, (index, choice): (usize, &CompletionChoice)) -> Value {
        let text = choice.pieces.concat();
        let mut object = match self.kind {
            CompletionKind::Text => json!({ "text": text }),
            CompletionKind::Chat => {
                json!({ "message": { "role": "assistant", "content": text, "refusal": null } })
            }
        };
        object["index"] = json!(index);
        object["logprobs"] = self.logprobs(choice.logprobs.as_ref());
        object["finish_reason"] = json!(finish(choice));
        object
    }

    /// A piece of a choice of a streamed answer, after the role if it `is_first`.
    pub(super) fn piece(&self, (index, piece): (usize, &str), is_first: bool) -> Vec<Value> {
        let mut parts = Vec::new();
        if is_first {
            parts.extend(self.role(index));
        }
        parts.push(self.delta(index, piece));
        parts
    }

    /// The parts of a streamed answer after what was `sent` of each choice's text: the role, each piece, the ends, and the usage if it was
    /// asked for. Choices take turns.
    pub(super) fn parts(
        &self,
        completion: &Completion,
        with_usage: bool,
        sent: &[String],
    ) -> Vec<Value> {
        let choices = completion.choices.iter().enumerate();
        let mut left: Vec<_> = choices
            .map(|(index, choice)| {
                let sent = sent.get(index).map_or("", String::as_str);
                self.rest((index, choice), sent).into_iter()
            })
            .collect();
        let mut parts = Vec::new();
        loop {
            let before = parts.len();
            parts.extend(left.iter_mut().filter_map(Iterator::next));
            if parts.len() == before {
                break;
            }
        }
        if let Some(last) = parts.last_mut() {
            last["tensorgrid"] = stands_behind(completion);
        }
        if with_usage {
            let mut part = self.part(self.streamed(), &[]);
            part["usage"] = usage(completion);
            parts.push(part);
        }
        parts
    }

    /// The parts of one choice after what was `sent` of its text, its end among them.
    fn rest(&self, (index, choice): (usize, &CompletionChoice), sent: &str) -> Vec<Value> {
        let mut parts = Vec::new();
        if sent.is_empty() {
            parts.extend(self.role(index));
        }
        if choice.logprobs.is_some() && sent.is_empty() {
            // All at once, so that each token stands with the text that it is in.
            let mut part = self.delta(index, &choice.pieces.concat());
            part["choices"][0]["logprobs"] = self.logprobs(choice.logprobs.as_ref());
            parts.push(part);
        } else {
            parts.extend(unsent(choice, sent).map(|rest| self.delta(index, rest)));
        }
        let mut end = match self.kind {
            CompletionKind::Text => self.delta(index, ""),
            CompletionKind::Chat => self.chunk(index, &json!({ "delta": {} })),
        };
        end["choices"][0]["finish_reason"] = json!(finish(choice));
        parts.push(end);
        parts
    }

    const fn streamed(&self) -> &'static str {
        match self.kind {
            CompletionKind::Text => "text_completion",
            CompletionKind::Chat => "chat.completion.chunk",
        }
    }

    /// Who speaks, which a chat says before the first piece.
    fn role(&self, index: usize) -> Option<Value> {
        let role = json!({ "delta": { "role": "assistant", "content": "" } });
        (self.kind == CompletionKind::Chat).then(|| self.chunk(index, &role))
    }

    fn delta(&self, index: usize, text: &str) -> Value {
        match self.kind {
            CompletionKind::Text => self.chunk(index, &json!({ "text": text })),
            CompletionKind::Chat => self.chunk(index, &json!({ "delta": { "content": text } })),
        }
    }

    fn chunk(&self, index: usize, content: &Value) -> Value {
        let mut choice = content.clone();
        choice["index"] = json!(index);
        choice["logprobs"] = Value::Null;
        choice["finish_reason"] = Value::Null;
        self.part(self.streamed(), &[choice])
    }

    fn part(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    /// OpenAI's object of log probabilities, whose form is that of the route.
    fn logprobs(&self, logprobs: Option<&TextLogprobs>) -> Value {
        let Some(TextLogprobs { tokens, .. }) = logprobs else {
            return Value::Null;
        };
        match self.kind {
            CompletionKind::Chat => {
                let tokens: Vec<Value> = tokens.iter().map(chat_logprob).collect();
                json!({ "content": tokens, "refusal": null })
            }
            CompletionKind::Text => {
                let list = |of: fn(&WrittenLogprob) -> Value| tokens.iter().map(of).collect();
                let [texts, logprobs, offsets, top]: [Vec<Value>; 4] = [
                    list(|it| json!(it.token.text)),
                    list(|it| json!(it.token.logprob)),
                    list(|it| json!(it.offset)),
                    list(top_of_text),
                ];
                json!({
                    "tokens": texts, "token_logprobs": logprobs, "text_offset": offsets,
                    "top_logprobs": top,
                })
            }
        }
    }
}

/// What was not sent of a choice's text, in pieces.
fn unsent<'a>(choice: &'a CompletionChoice, sent: &str) -> impl Iterator<Item = &'a str> {
    let mut skipped = sent.len();
    choice.pieces.iter().filter_map(move |piece| {
        // What was sent ends between two letters.
        let rest = piece.get(skipped.min(piece.len())..).unwrap_or_default();
        skipped = skipped.saturating_sub(piece.len());
        (!rest.is_empty()).then_some(rest)
    })
}

fn token_logprob(token: &TokenLogprob) -> Value {
    json!({ "token": token.text, "logprob": token.logprob, "bytes": token.bytes })
}

fn chat_logprob(written: &WrittenLogprob) -> Value {
    let mut object = token_logprob(&written.token);
    object["top_logprobs"] = written.top.iter().map(token_logprob).collect();
    object
}

/// The likeliest tokens by their texts, the written one among them, as OpenAI's completions have it. Of several with one text the
/// likeliest counts.
fn top_of_text(written: &WrittenLogprob) -> Value {
    if written.top.is_empty() {
        return json!({});
    }
    let mut top = Map::new();
    for token in written.top.iter().chain([&written.token]) {
        let place = top.entry(token.text.clone());
        place.or_insert_with(|| json!(token.logprob));
    }
    Value::Object(top)
}

const fn finish(choice: &CompletionChoice) -> &'static str {
    if choice.stopped { "stop" } else { "length" }
}

fn usage(completion: &Completion) -> Value {
    let [prompt, written] = [completion.prompt_tokens, completion.written_tokens];
    json!({
        "prompt_tokens": prompt, "completion_tokens": written,
        "total_tokens": prompt.saturating_add(written),
    })
}

/// What stands behind an answer: of one choice its job, of several what they cost together and the job of each.
pub(super) fn stands_behind(completion: &Completion) -> Value {
    if let Some(unchecked) = &completion.unchecked {
        return unchecked.clone();
    }
    let mut object = match completion.choices.as_slice() {
        [choice] => stands_behind_one(choice),
        choices => {
            let choices = choices.iter().enumerate().map(|(index, choice)| {
                let mut object = stands_behind_one(choice);
                object["index"] = json!(index);
                object
            });
            json!({ "price": completion.price().to_string(), "choices": choices.collect::<Vec<_>>() })
        }
    };
    object["model"] = json!(completion.model.to_string());
    let logprobs = completion
        .choices
        .iter()
        .find_map(|it| it.logprobs.as_ref());
    if let Some(TextLogprobs {
        among, vocabulary, ..
    }) = logprobs
    {
        object["logprobs"] = json!({ "among": among, "vocabulary": vocabulary });
    }
    object
}

fn stands_behind_one(choice: &CompletionChoice) -> Value {
    let CompletionChoice {
        job,
        price,
        mode,
        proof_bytes,
        endpoint,
        pieces: _,
        stopped: _,
        logprobs: _,
    } = choice;
    let mut object = json!({
        "job": job.to_string(), "price": price.to_string(),
        "verify": mode, "proof_bytes": proof_bytes,
        // An endpoint has none: its provider signed the answer, and the grid holds nothing of it.
        "receipt": (*mode != ModeDto::Endpoint).then(|| format!("/v1/jobs/{job}/receipt")),
    });
    if let Some(endpoint) = endpoint {
        let AnsweringEndpoint {
            provider,
            lease,
            number,
            signature,
            unclaimed,
        } = endpoint;
        object["provider"] = json!(provider.to_string());
        object["lease"] = json!(lease.to_string());
        object["number"] = json!(number);
        object["signature"] = json!(format!("0x{}", hex(&signature.to_rsv())));
        object["unclaimed"] = json!(unclaimed.to_string());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_types::{Address, Amount, JobId, LeaseId, ModelId, Signature};

    fn choice(pieces: &[&str]) -> CompletionChoice {
        CompletionChoice {
            pieces: pieces.iter().map(|&it| it.to_owned()).collect(),
            stopped: false,
            job: JobId::new([1; 32]),
            price: Amount::new(3),
            mode: ModeDto::None,
            proof_bytes: None,
            logprobs: None,
            endpoint: None,
        }
    }

    fn completion(choices: Vec<CompletionChoice>) -> Completion {
        Completion {
            choices,
            prompt_tokens: 4,
            written_tokens: 6,
            model: ModelId::new([2; 32]),
            unchecked: None,
        }
    }

    fn frame(kind: CompletionKind) -> Frame {
        let id = AnswerId {
            name: "x".to_owned(),
            created: 1,
            order: 1,
        };
        Frame::new(kind, "m".to_owned(), &id)
    }

    fn listed() -> TextLogprobs {
        let token = |text: &str, logprob: f64| TokenLogprob {
            text: text.to_owned(),
            bytes: Some(text.as_bytes().to_vec()),
            logprob,
        };
        let written = |text, offset| WrittenLogprob {
            token: token(text, -2.0),
            offset,
            top: vec![token("t", -0.5), token("u", -1.0)],
        };
        TextLogprobs {
            tokens: vec![written("a", 0), written("b", 1)],
            among: 16,
            vocabulary: 256,
        }
    }

    #[test]
    fn several_choices_take_turns_and_cost_what_they_cost_together() {
        let completion = completion(vec![choice(&["a", "b"]), choice(&["c"])]);
        let chat = frame(CompletionKind::Chat);
        let whole = chat.whole(&completion);
        assert_eq!(whole["choices"][1]["message"]["content"], "c");
        let ours = &whole["tensorgrid"];
        assert_eq!(ours["price"], Amount::new(6).to_string());
        assert_eq!(ours["choices"][1]["index"], 1);
        assert!(ours["choices"][0]["job"].is_string() && ours["job"].is_null());
        let sent = ["a".to_owned(), String::new()];
        let parts = chat.parts(&completion, true, &sent);
        let of = |part: &Value| {
            (
                part["choices"][0]["index"].clone(),
                part["choices"][0]["delta"].clone(),
            )
        };
        let seen: Vec<_> = parts.iter().map(of).collect();
        let expected = [
            (json!(0), json!({"content": "b"})),
            (json!(1), json!({"role": "assistant", "content": ""})),
            (json!(0), json!({})),
            (json!(1), json!({"content": "c"})),
            (json!(1), json!({})),
            (Value::Null, Value::Null),
        ];
        assert_eq!(seen, expected);
        assert!(parts[4]["tensorgrid"].is_object() && parts[5]["usage"].is_object());
    }

    #[test]
    fn a_choice_of_an_endpoint_says_who_signed_it_and_what_is_unclaimed() {
        let by_job = choice(&["a"]);
        let by_it = CompletionChoice {
            mode: ModeDto::Endpoint,
            endpoint: Some(AnsweringEndpoint {
                provider: Address::new([4; 20]),
                lease: LeaseId::new([5; 32]),
                number: 6,
                signature: Signature {
                    r: [7; 32],
                    s: [8; 32],
                    y_parity: 1,
                },
                unclaimed: Amount::new(9),
            }),
            ..by_job.clone()
        };
        let whole = frame(CompletionKind::Text).whole(&completion(vec![by_it, by_job]));
        let [by_it, by_job] = [0_usize, 1].map(|index| &whole["tensorgrid"]["choices"][index]);
        let told = ["provider", "lease", "number", "signature", "unclaimed"];
        let expected = [
            json!(Address::new([4; 20]).to_string()),
            json!(LeaseId::new([5; 32]).to_string()),
            json!(6),
            json!(format!("0x{}{}1c", "07".repeat(32), "08".repeat(32))),
            json!(Amount::new(9).to_string()),
        ];
        assert_eq!(told.map(|field| by_it[field].clone()), expected);
        assert!(by_it["receipt"].is_null() && by_job["receipt"].is_string());
        // Of a job the receipt says all that.
        assert!(told.iter().all(|&field| by_job.get(field).is_none()));
    }

    #[test]
    fn log_probabilities_have_the_form_of_their_route() {
        let mut with = choice(&["ab"]);
        with.logprobs = Some(listed());
        let completion = completion(vec![with]);
        let chat = frame(CompletionKind::Chat).whole(&completion);
        let first = &chat["choices"][0]["logprobs"]["content"][0];
        assert_eq!(
            (
                &first["token"],
                &first["bytes"],
                &first["top_logprobs"][1]["token"]
            ),
            (&json!("a"), &json!([97]), &json!("u"))
        );
        assert_eq!(
            chat["tensorgrid"]["logprobs"],
            json!({"among": 16, "vocabulary": 256})
        );
        let text = frame(CompletionKind::Text).whole(&completion);
        assert_eq!(
            text["choices"][0]["logprobs"],
            json!({
                "tokens": ["a", "b"], "token_logprobs": [-2.0, -2.0], "text_offset": [0, 1],
                "top_logprobs": [{"t": -0.5, "u": -1.0, "a": -2.0}, {"t": -0.5, "u": -1.0, "b": -2.0}],
            })
        );
        let parts = frame(CompletionKind::Text).parts(&completion, false, &[]);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0]["choices"][0]["text"], "ab");
        assert_eq!(
            parts[0]["choices"][0]["logprobs"],
            text["choices"][0]["logprobs"]
        );
    }
}
