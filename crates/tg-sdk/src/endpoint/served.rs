//! Requests of served models: a call of the OpenAI API inside the seal of an endpoint, and what tokens may be charged for it.
//!
//! Nobody can check how many tokens a text has for a model that only its provider has. What can be checked is how many it has at
//! most, from the request alone: a token of a prompt has at least one byte of the request's JSON, but for those that the form of a
//! conversation adds, and no more tokens are written than were asked for or fit into the context. Both sides take [`ServedRequest::bound`];
//! an answer that claims more is not owed. Of the answer itself a token has at least one byte of what it says ([`written_bytes`]).

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tg_types::{Amount, Decode as _, ServedCall, ServedCard, TokenUsage, fields};

/// Bytes of the JSON body of a request, at most.
pub const SERVED_BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes of the JSON body of an answer, at most: with its seal it fits into an answer of an endpoint.
pub const SERVED_ANSWER_BYTES_MAX: usize = 3 << 19;

/// Tokens that the form of a conversation may add to a prompt beside those of its bytes: marks of roles, a date, a standing
/// instruction.
pub const PROMPT_TOKENS_ADDED: u32 = 256;

/// Tokens of an answer that leave no bytes in it: where it ends, and where a part of another kind begins.
pub const ANSWER_TOKENS_ADDED: u32 = 64;

/// Most answers that one request may ask for.
pub const SERVED_CHOICES_MAX: u32 = 128;

/// A call of a served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRequest {
    /// What is called.
    pub call: ServedCall,
    /// Whether pieces are wanted as they come.
    pub stream: bool,
    /// The JSON body as the OpenAI API has it; its `model` is the provider's to say.
    pub body: Vec<u8>,
}

fields! {
    ServedRequest { call, stream: flag("stream"), body: bytes("body", SERVED_BODY_BYTES_MAX) }
}

/// What a provider's server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedAnswer {
    /// The status of HTTP: below 300 an answer, else its error, which costs nothing.
    pub status: u16,
    /// What is charged.
    pub usage: TokenUsage,
    /// The JSON body as the OpenAI API has it.
    pub body: Vec<u8>,
}

fields! { ServedAnswer { status, usage, body: bytes("body", SERVED_ANSWER_BYTES_MAX) } }

impl ServedAnswer {
    /// Whether it is an answer and no error.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }
}

/// Why an answer of a served model is not owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChargeError {
    /// It cannot be read, or the request cannot.
    #[error("the answer of a served model cannot be read")]
    Unreadable,
    /// More tokens are claimed than there can be.
    #[error(
        "the provider claims {} tokens of prompt and {} of answer, where there can be {} and {} at most",
        claimed.prompt, claimed.completion, bound.prompt, bound.completion
    )]
    Tokens {
        /// What is claimed.
        claimed: TokenUsage,
        /// What there can be.
        bound: TokenUsage,
    },
    /// The price is not that of the tokens.
    #[error("the provider asks {asked} TGRID for tokens that cost {due}")]
    Price {
        /// What is asked.
        asked: Amount,
        /// What its card says.
        due: Amount,
    },
}

/// What a request says of how much is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedTokens {
    /// Most tokens of each answer: the least of the limits that it names. Nothing if it names none.
    pub each: Option<u32>,
    /// Answers to each prompt.
    pub choices: u32,
    /// Prompts.
    pub prompts: u32,
}

impl AskedTokens {
    /// Reads them; nothing if a limit is no whole number above zero, or there are too many answers.
    #[must_use]
    pub fn of(body: &Value) -> Option<Self> {
        let fields = body.as_object()?;
        let mut each = None;
        for name in ["max_completion_tokens", "max_tokens"] {
            let limit = match fields.get(name) {
                None | Some(Value::Null) => continue,
                // Of servers that are given 0 some write without a limit.
                Some(limit) => limit.as_u64().filter(|it| *it > 0)?,
            };
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            each = Some(each.map_or(limit, |it: u32| it.min(limit)));
        }
        let prompts = match fields.get("prompt") {
            // Several texts, or several lists of tokens; one list of tokens is one prompt.
            Some(Value::Array(items)) if !items.first().is_some_and(Value::is_number) => {
                u32::try_from(items.len().max(1)).unwrap_or(u32::MAX)
            }
            _ => 1,
        };
        Some(Self {
            each,
            choices: choices(body)?,
            prompts,
        })
    }

    /// Most tokens that a request whose body has so many bytes, and its answer, can have.
    #[must_use]
    pub fn bound(self, (call, bytes): (ServedCall, usize), card: &ServedCard) -> TokenUsage {
        let Self {
            each,
            choices,
            prompts,
        } = self;
        let context = card.context;
        let prompt = u32::try_from(bytes).unwrap_or(u32::MAX);
        let prompt = prompt.saturating_add(PROMPT_TOKENS_ADDED);
        // Each prompt of an embedding or a completion has a context of its own.
        let prompt = match call {
            ServedCall::Chat => prompt.min(context),
            ServedCall::Completion => prompt.min(context.saturating_mul(prompts)),
            ServedCall::Embedding => prompt,
        };
        let completion = match call {
            ServedCall::Embedding => 0,
            ServedCall::Chat | ServedCall::Completion => {
                let each = each.map_or(context, |most| most.min(context));
                each.saturating_mul(choices).saturating_mul(prompts)
            }
        };
        TokenUsage { prompt, completion }
    }
}

impl ServedRequest {
    /// Most tokens that this request and its answer can have; nothing if its body is none of the API.
    #[must_use]
    pub fn bound(&self, card: &ServedCard) -> Option<TokenUsage> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let asked = AskedTokens::of(&body)?;
        Some(asked.bound((self.call, self.body.len()), card))
    }

    /// The most that it costs; nothing if its body is none of the API.
    #[must_use]
    pub fn most(&self, card: &ServedCard) -> Option<Amount> {
        self.bound(card).map(|bound| card.price(bound))
    }
}

/// How many answers a request asks for; nothing if they are too many.
fn choices(body: &Value) -> Option<u32> {
    let asked = ["n", "best_of"].iter().map(|name| match &body[*name] {
        Value::Null => Some(1),
        count => count.as_u64().and_then(|it| u32::try_from(it).ok()),
    });
    let mut most = 1;
    for count in asked {
        most = most.max(count?);
    }
    (most <= SERVED_CHOICES_MAX).then_some(most)
}

/// Bytes of what the choices of an answer say: their texts, without the numbers of `logprobs`. Nothing if it is no answer of the API.
#[must_use]
pub fn written_bytes(answer: &[u8]) -> Option<usize> {
    let mut reader = serde_json::Deserializer::from_slice(answer);
    let bytes = TextBytes::Answer.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(bytes)
}

/// The most tokens that an answer can have, for what is in it.
#[must_use]
pub fn written_tokens_max(answer: &[u8]) -> u32 {
    let bytes = u32::try_from(written_bytes(answer).unwrap_or(0)).unwrap_or(u32::MAX);
    bytes.saturating_add(ANSWER_TOKENS_ADDED)
}

/// Counts bytes of texts as they are read: nothing of an answer is kept.
#[derive(Clone, Copy)]
enum TextBytes {
    /// Of the answer: its `choices` are looked at.
    Answer,
    /// Of its choices: everything is.
    Choices,
}

impl<'de> DeserializeSeed<'de> for TextBytes {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextBytes {
    type Value = usize;

    fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("an answer of the API")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_str<E>(self, text: &str) -> Result<usize, E> {
        Ok(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut all = 0_usize;
        while let Some(bytes) = items.next_element_seed(self)? {
            all = all.saturating_add(bytes);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let mut all = 0_usize;
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let is_read = match self {
                Self::Answer => name == "choices",
                Self::Choices => name != "logprobs",
            };
            if is_read {
                all = all.saturating_add(fields.next_value_seed(Self::Choices)?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(all)
    }
}

/// Whether an answer to `input` is charged as the card says, for no more tokens than there can be: by what was asked, and by what was
/// answered.
///
/// # Errors
/// What is wrong with it: nothing is owed then.
pub fn check_charge(
    card: &ServedCard,
    input: &[u8],
    output: &[u8],
    asked: Amount,
) -> Result<ServedAnswer, ChargeError> {
    let request = ServedRequest::from_bytes(input).ok();
    let bound = request.and_then(|it| it.bound(card));
    let bound = bound.ok_or(ChargeError::Unreadable)?;
    let answer = ServedAnswer::from_bytes(output).map_err(|_| ChargeError::Unreadable)?;
    let claimed = answer.usage;
    // Stops: a short answer that is charged as the longest that the request allows.
    let bound = TokenUsage {
        completion: bound.completion.min(written_tokens_max(&answer.body)),
        ..bound
    };
    if answer.is_success() && !claimed.is_within(bound) {
        return Err(ChargeError::Tokens { claimed, bound });
    }
    let due = match answer.is_success() {
        true => card.price(claimed),
        false => Amount::ZERO,
    };
    if asked > due {
        return Err(ChargeError::Price { asked, due });
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;
    use tg_types::{Address, Encode as _, Label, TimestampMs};

    fn card() -> ServedCard {
        ServedCard {
            provider: Address::new([7; 20]),
            name: Label::lossy("m"),
            context: 1_000,
            calls: 7,
            prompt_price: Amount::from_tgrid(1),
            completion_price: Amount::from_tgrid(2),
            issued: TimestampMs::ZERO,
        }
    }

    fn request(call: ServedCall, body: &Value) -> ServedRequest {
        ServedRequest {
            call,
            stream: false,
            body: body.to_string().into_bytes(),
        }
    }

    fn bound(call: ServedCall, body: &Value) -> Option<(u32, u32)> {
        let bound = request(call, body).bound(&card())?;
        Some((bound.prompt, bound.completion))
    }

    #[test]
    fn tokens_are_bounded_by_the_request_alone() {
        let chat = |body: Value| bound(ServedCall::Chat, &body);
        let short = json!({"messages": []});
        let length = short.to_string().len() as u32 + PROMPT_TOKENS_ADDED;
        assert_eq!(chat(short), Some((length, 1_000)));
        assert_eq!(chat(json!({"max_tokens": 7})).unwrap().1, 7);
        let both = json!({"max_tokens": 7, "max_completion_tokens": 5});
        assert_eq!(chat(both).unwrap().1, 5);
        assert_eq!(
            chat(json!({"max_tokens": 7_000_000_000_u64})).unwrap().1,
            1_000
        );
        assert_eq!(chat(json!({"max_tokens": 7, "n": 3})).unwrap().1, 21);
        assert_eq!(
            chat(json!({"messages": "x".repeat(5_000)})).unwrap().0,
            1_000
        );
        for wrong in [
            json!([]),
            json!({"n": 129}),
            json!({"n": -1}),
            json!(1),
            json!({"max_tokens": 0}),
            json!({"max_tokens": -1}),
            json!({"max_tokens": "9"}),
            json!({"max_completion_tokens": 0.5, "max_tokens": 9}),
        ] {
            assert_eq!(chat(wrong.clone()), None, "{wrong}");
        }
        let texts = json!({"prompt": ["a", "b", "c"], "max_tokens": 4});
        assert_eq!(bound(ServedCall::Completion, &texts).unwrap().1, 12);
        let tokens = json!({"prompt": [1, 2, 3], "max_tokens": 4});
        assert_eq!(bound(ServedCall::Completion, &tokens).unwrap().1, 4);
        let embedded = json!({"input": "abc", "max_tokens": 4});
        assert_eq!(bound(ServedCall::Embedding, &embedded).unwrap().1, 0);
    }

    /// A card of a stranger says how long its context is, and a request may name no limit: what bounds the charge is the answer.
    #[test]
    fn a_short_answer_is_not_charged_as_a_long_one() {
        let stranger = ServedCard {
            context: 1 << 24,
            ..card()
        };
        let input = request(ServedCall::Chat, &json!({"messages": []})).to_bytes();
        let charged = |body: &Value, completion| {
            let usage = TokenUsage {
                prompt: 1,
                completion,
            };
            let answer = ServedAnswer {
                status: 200,
                usage,
                body: body.to_string().into_bytes(),
            };
            check_charge(&stranger, &input, &answer.to_bytes(), stranger.price(usage)).is_ok()
        };
        let content = "ok, \u{e9}\"\n";
        let logprobs: Vec<Value> = (0..99)
            .map(|_| json!({"token": "far more than it says"}))
            .collect();
        let said = json!({
            "x": "far more than it says",
            "choices": [{
                "index": 0,
                "message": {"content": content, "tool_calls": [{"function": {"arguments": "{}"}}]},
                "logprobs": {"content": logprobs}, "finish_reason": null,
            }],
        });
        assert_eq!(
            written_bytes(said.to_string().as_bytes()),
            Some(content.len() + 2)
        );
        let most = u32::try_from(content.len()).unwrap() + 2 + ANSWER_TOKENS_ADDED;
        assert!(charged(&said, most));
        assert!(!charged(&said, most + 1));
        assert!(!charged(&said, 1 << 24));
        let long = json!({"choices": [{"message": {"content": "a".repeat(5_000)}}]});
        assert!(charged(&long, 5_000));
        for none in ["", "[", "{\"choices\":[}", "{} {}"] {
            assert_eq!(written_bytes(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn what_claims_more_than_there_can_be_is_not_owed() {
        let request = request(ServedCall::Chat, &json!({"max_tokens": 10}));
        let input = request.to_bytes();
        let most = request.bound(&card()).unwrap();
        let answer = |status, usage| ServedAnswer {
            status,
            usage,
            body: json!({"choices": [{"text": "0123456789"}]})
                .to_string()
                .into_bytes(),
        };
        let check =
            |answer: &ServedAnswer, asked| check_charge(&card(), &input, &answer.to_bytes(), asked);
        let honest = answer(200, most);
        let price = card().price(most);
        assert_eq!(check(&honest, price), Ok(honest.clone()));
        // A provider may ask for less.
        assert!(check(&honest, Amount::ZERO).is_ok());
        let above = Amount::new(price.get() + 1);
        let too_dear = ChargeError::Price {
            asked: above,
            due: price,
        };
        assert_eq!(check(&honest, above), Err(too_dear));
        for claimed in [
            TokenUsage {
                completion: 11,
                ..most
            },
            TokenUsage {
                prompt: most.prompt + 1,
                ..most
            },
        ] {
            let error = check(&answer(200, claimed), Amount::ZERO);
            assert_eq!(
                error,
                Err(ChargeError::Tokens {
                    claimed,
                    bound: most
                })
            );
        }
        // An error costs nothing, whatever it says of tokens.
        let failed = answer(400, most);
        assert!(check(&failed, Amount::ZERO).is_ok());
        assert!(check(&failed, Amount::new(1)).is_err());
        let rubbish = check_charge(&card(), &input, b"rubbish", Amount::ZERO);
        assert_eq!(rubbish, Err(ChargeError::Unreadable));
        let rubbish = check_charge(&card(), b"rubbish", &honest.to_bytes(), Amount::ZERO);
        assert_eq!(rubbish, Err(ChargeError::Unreadable));
    }
}
