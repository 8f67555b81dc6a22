//! The fields of a request's body. What is not served is refused by its name; nothing is ignored but `user` and its like, which
//! say nothing to the model.

use serde_json::{Map, Value};

use tg_types::Amount;

use super::error::OpenAiError;

/// Fields that change nothing here.
const IGNORED: [&str; 4] = ["user", "metadata", "safety_identifier", "prompt_cache_key"];

/// Fields that are taken if they ask for nothing.
const NEUTRAL: [(&str, &[&str]); 21] = [
    ("n", &["1"]),
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("suffix", &["\"\""]),
    ("logprobs", &["false"]),
    ("top_logprobs", &["0"]),
    ("presence_penalty", &["0", "0.0"]),
    ("frequency_penalty", &["0", "0.0"]),
    ("logit_bias", &["{}"]),
    ("tools", &["[]"]),
    ("tool_choice", &["\"none\"", "\"auto\""]),
    ("response_format", &["{\"type\":\"text\"}"]),
    ("store", &["false"]),
    ("modalities", &["[\"text\"]"]),
    ("include", &["[]"]),
    ("background", &["false"]),
    ("parallel_tool_calls", &["true", "false"]),
    ("reasoning", &["{}"]),
    ("service_tier", &["\"auto\"", "\"default\""]),
    ("text", &["{}", "{\"format\":{\"type\":\"text\"}}"]),
    ("truncation", &["\"disabled\""]),
];

/// The fields of a body, taken one by one: those that are left over are refused.
pub(super) struct BodyFields(Map<String, Value>);

impl BodyFields {
    /// No fields.
    pub(super) fn none() -> Self {
        Self(Map::new())
    }

    /// Of a JSON object.
    pub(super) fn of(body: Value) -> Result<Self, OpenAiError> {
        match body {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(OpenAiError::invalid("body", "the body is a JSON object")),
        }
    }

    /// A field, which is then taken; nothing if it is null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, OpenAiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(OpenAiError::invalid(name, format!("`{name}` is a string"))),
        }
    }

    /// True or false; false if it is absent.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, OpenAiError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(OpenAiError::invalid(
                name,
                format!("`{name}` is true or false"),
            )),
        }
    }

    /// A number of a range, or the usual one.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: [f64; 2],
        usual: f64,
    ) -> Result<f64, OpenAiError> {
        let Some(value) = self.take(name) else {
            return Ok(usual);
        };
        let number = value
            .as_f64()
            .filter(|it| (range[0]..=range[1]).contains(it));
        let [low, high] = range;
        number.ok_or_else(|| {
            OpenAiError::invalid(name, format!("`{name}` is a number from {low} to {high}"))
        })
    }

    /// A whole number above 0.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u32>, OpenAiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let count = value.as_u64().and_then(|it| u32::try_from(it).ok());
        let count = count.filter(|it| *it > 0);
        count.map(Some).ok_or_else(|| {
            OpenAiError::invalid(name, format!("`{name}` is a whole number above 0"))
        })
    }

    /// TGRID as a string.
    pub(super) fn amount(&mut self, name: &str) -> Result<Option<Amount>, OpenAiError> {
        let amount = self.text(name)?.map(|text| text.parse::<Amount>());
        amount.transpose().map_err(|_| {
            let field = format!("tensorgrid.{name}");
            OpenAiError::invalid(&field, format!("`{name}` is TGRID as a string"))
        })
    }

    /// Puts a field back.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// What is left.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.0
    }

    /// Refuses what is left.
    pub(super) fn finish(mut self) -> Result<(), OpenAiError> {
        IGNORED.iter().for_each(|name| {
            self.0.remove(*name);
        });
        for (name, neutral) in NEUTRAL {
            if let Some(value) = self.take(name)
                && !neutral.contains(&value.to_string().as_str())
            {
                return Err(OpenAiError::unsupported(name));
            }
        }
        self.0.retain(|_, value| !value.is_null());
        match self.0.keys().next() {
            Some(name) => Err(OpenAiError::unsupported(name)),
            None => Ok(()),
        }
    }
}
