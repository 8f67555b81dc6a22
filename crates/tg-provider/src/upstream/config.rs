//! Configuration of served models: the model, the address of its server, and the prices.

use std::time::Duration;

use tg_types::{Address, Amount, CardError, Label, ServedCall, ServedCard, TimestampMs};

/// Tokens of a context if nothing is said.
pub const CONTEXT_USUAL: u32 = 8_192;

/// Requests that a server is asked at once if nothing is said.
pub const AT_ONCE_USUAL: u16 = 16;

/// How long a server may say nothing if nothing is said: it may have to load the model first.
pub const SILENCE_USUAL: Duration = Duration::from_secs(300);

/// Where a model is served: `NAME=URL` or `NAME=URL#MODEL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    /// The name under which the grid has it.
    pub name: Label,
    /// The base of the API, without a slash at its end.
    pub url: String,
    /// What its server calls it.
    pub model: String,
}

/// Why a text names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    /// There is no name before `=`.
    #[error(
        "`{text}` names no model: write NAME=http://HOST:PORT/v1, or NAME=http://HOST:PORT/v1#MODEL (https too)"
    )]
    Name {
        /// What was given.
        text: String,
    },
    /// The name is none for the grid.
    #[error(
        "`{name}` is no name of a model: 1 to 64 bytes without control characters and spaces around"
    )]
    BadName {
        /// What was given.
        name: String,
    },
    /// The address is none.
    #[error("`{url}` is no address of a server: write http://HOST:PORT/v1 or https://HOST:PORT/v1")]
    Url {
        /// What was given.
        url: String,
    },
}

impl std::str::FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, rest) = parts.ok_or_else(|| UpstreamUrlError::Name {
            text: text.to_owned(),
        })?;
        let (url, model) = match rest.split_once('#') {
            Some((url, model)) if !model.is_empty() => (url, model),
            Some((url, _)) => (url, name),
            None => (rest, name),
        };
        Self::new(name, url, model)
    }
}

impl UpstreamUrl {
    /// A model that a server has under a name of its own.
    ///
    /// # Errors
    /// If the name or the address is none.
    pub fn new(name: &str, url: &str, model: &str) -> Result<Self, UpstreamUrlError> {
        let bad = || UpstreamUrlError::BadName {
            name: name.to_owned(),
        };
        let label = Label::new(name).map_err(|_| bad())?;
        if name.is_empty() || name.trim() != name {
            return Err(bad());
        }
        let base = url.trim_end_matches('/');
        let uri = base.parse::<hyper::Uri>().ok();
        let is_http = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some()
                && uri.query().is_none()
        });
        match is_http {
            true => Ok(Self {
                name: label,
                url: base.to_owned(),
                model: model.to_owned(),
            }),
            false => Err(UpstreamUrlError::Url {
                url: url.to_owned(),
            }),
        }
    }
}

/// A model that is served.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Where.
    pub at: UpstreamUrl,
    /// What its server wants as bearer, if it wants one.
    pub key: Option<String>,
    /// Tokens of prompt and answer together, at most.
    pub context: u32,
    /// What can be asked.
    pub calls: Vec<ServedCall>,
    /// Price of a million tokens of prompts.
    pub prompt_price: Amount,
    /// Price of a million tokens that are written.
    pub completion_price: Amount,
    /// Requests that its server is asked at once.
    pub at_once: u16,
    /// How long its server may say nothing before a request counts as lost.
    pub silence: Duration,
}

impl std::fmt::Debug for UpstreamConfig {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("UpstreamConfig");
        text.field("at", &self.at).field("context", &self.context);
        text.field("prompt_price", &self.prompt_price);
        text.field("completion_price", &self.completion_price);
        text.finish_non_exhaustive()
    }
}

impl UpstreamConfig {
    /// The card under which a provider registers it.
    ///
    /// # Errors
    /// If the grid does not take it.
    pub fn card(&self, provider: Address, issued: TimestampMs) -> Result<ServedCard, CardError> {
        let card = ServedCard {
            provider,
            name: self.at.name.clone(),
            context: self.context,
            calls: self.calls.iter().fold(0, |bits, it| bits | it.bit()),
            prompt_price: self.prompt_price,
            completion_price: self.completion_price,
            issued,
        };
        card.check()?;
        Ok(card)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_and_addresses_are_read() {
        let read = |text: &str| text.parse::<UpstreamUrl>();
        let both = read("llama-8b=http://127.0.0.1:8000/v1/#meta-llama/Llama-3.1-8B").unwrap();
        assert_eq!(both.name.as_str(), "llama-8b");
        assert_eq!(both.url, "http://127.0.0.1:8000/v1");
        assert_eq!(both.model, "meta-llama/Llama-3.1-8B");
        let one = read("m=http://localhost:11434/v1").unwrap();
        assert_eq!(one.model, "m");
        assert_eq!(read("m=http://localhost:11434/v1#").unwrap().model, "m");
        for wrong in [
            "http://localhost/v1",
            "=http://localhost/v1",
            "",
            "m",
            " m=http://localhost/v1",
            "m=ftp://example.org/v1",
            "m=localhost:8000",
            "m=http://localhost/v1?x=1",
            "m=http://",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&format!("{}=http://a/v1", "x".repeat(65))).is_err());
    }

    #[test]
    fn a_key_is_not_printed() {
        let config = UpstreamConfig {
            at: "m=http://localhost/v1".parse().unwrap(),
            key: Some("secret".to_owned()),
            context: 5,
            calls: vec![ServedCall::Chat],
            prompt_price: Amount::ZERO,
            completion_price: Amount::ZERO,
            at_once: 1,
            silence: SILENCE_USUAL,
        };
        assert!(!format!("{config:?}").contains("secret"));
        let card = config.card(Address::new([1; 20]), TimestampMs::ZERO);
        assert!(card.unwrap().serves(ServedCall::Chat));
    }
}
