//! Conversations that a model goes on with.

use serde_json::Value;

use super::error::OpenAiError;
use super::fields::BodyFields;

/// Who speaks next.
const ASSISTANT: &str = "assistant";

/// What somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTurn {
    /// system, developer, user or assistant.
    pub role: String,
    /// The speaker's name, if one is given.
    pub name: Option<String>,
    /// What is said.
    pub content: String,
}

impl ChatTurn {
    /// A turn of a role without a name.
    #[must_use]
    pub fn of(role: &str, content: &str) -> Self {
        Self {
            role: role.to_owned(),
            name: None,
            content: content.to_owned(),
        }
    }

    /// What the assistant said.
    pub(super) fn answered(content: &str) -> Self {
        Self::of(ASSISTANT, content)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.role.len() + self.content.len() + self.name.as_ref().map_or(0, String::len)
    }
}

/// Turns as the text of a play, for models without a form of their own: each speaker's name in capitals, then what is said; the
/// assistant speaks next.
#[must_use]
pub fn play(turns: &[ChatTurn]) -> String {
    let mut text = String::new();
    for turn in turns {
        let name = turn.name.as_ref().unwrap_or(&turn.role).to_uppercase();
        text.push_str(&format!("{name}:\n{}\n\n", turn.content));
    }
    text + &ASSISTANT.to_uppercase() + ":\n"
}

/// Reads messages.
pub(super) fn conversation(
    field: &str,
    messages: Vec<Value>,
) -> Result<Vec<ChatTurn>, OpenAiError> {
    let invalid = |message: &str| OpenAiError::invalid(field, message);
    if messages.is_empty() {
        return Err(invalid("there is no message"));
    }
    let mut turns = Vec::with_capacity(messages.len());
    for message in messages {
        let mut fields = BodyFields::of(message)?;
        let role = fields.text("role")?.unwrap_or_default();
        if !["system", "developer", "user", ASSISTANT].contains(&role.as_str()) {
            return Err(invalid("a role is system, developer, user or assistant"));
        }
        let content = match fields.take("content") {
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => parts.into_iter().map(part).collect::<Result<_, _>>()?,
            _ => return Err(invalid("a message has text as its content")),
        };
        let name = fields.text("name")?;
        if fields.text("type")?.is_some_and(|kind| kind != "message") {
            return Err(OpenAiError::unsupported("type"));
        }
        // What messages of answers have.
        for name in ["refusal", "id", "status"] {
            fields.take(name);
        }
        fields.finish()?;
        turns.push(ChatTurn {
            role,
            name,
            content,
        });
    }
    Ok(turns)
}

fn part(part: Value) -> Result<String, OpenAiError> {
    let mut fields = BodyFields::of(part)?;
    match fields.text("type")?.as_deref() {
        Some("text" | "input_text" | "output_text") => {
            let text = fields.text("text")?.unwrap_or_default();
            // What parts of answers have.
            for name in ["annotations", "logprobs"] {
                fields.take(name);
            }
            fields.finish()?;
            Ok(text)
        }
        other => Err(OpenAiError::unsupported(other.unwrap_or("type"))),
    }
}
