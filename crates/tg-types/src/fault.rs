//! Whose fault an error is, which decides between a retry, a 4xx answer, a ban and an alarm; and how errors are displayed.

/// Who caused an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// This program broke its own rules: raise an alarm.
    Ours,
    /// Another node or a provider broke the protocol: drop, ban or slash it.
    Peer,
    /// Whoever signed the request asked for something that cannot be done: answer 4xx.
    Client,
    /// The machine or the network failed: retry.
    Environment,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Peer => "peer",
            Self::Client => "client",
            Self::Environment => "environment",
        })
    }
}

/// An error and what caused it, in one line: `read the key: permission denied`.
#[must_use]
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
