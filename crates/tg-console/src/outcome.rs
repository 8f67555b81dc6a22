//! How a command ends: its exit code, what it prints, and how errors look.

use std::fmt::Display;
use std::io::{self, Write};

/// Exit codes. They are part of the interface: scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Something failed.
    Failed = 1,
    /// The command line or a file given on it is wrong.
    Usage = 2,
    /// A proof, receipt or job was rejected.
    Rejected = 3,
    /// What was asked for does not exist.
    NotFound = 4,
    /// The grid cannot be reached.
    Unavailable = 5,
}

/// Why a command failed: an exit code, an error chain, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The error chain.
    pub error: anyhow::Error,
    /// What to do.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Whether the reader of our output went away, which is no failure.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        self.error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Writes the chain and the hint to the error stream.
    ///
    /// # Errors
    /// If the error stream is closed.
    pub fn report(&self, json: bool) -> io::Result<()> {
        let mut stream = io::stderr().lock();
        if json {
            let chain: Vec<String> = self.error.chain().map(ToString::to_string).collect();
            let value =
                serde_json::json!({ "error": chain, "hint": self.hint, "exit": self.exit as u8 });
            return writeln!(stream, "{value}");
        }
        writeln!(stream, "error: {:#}", self.error)?;
        match &self.hint {
            Some(hint) => writeln!(stream, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(Exit::Failed, error)
    }
}

/// What a command gives back.
pub type Outcome = Result<(), Failure>;

/// Adds an exit code and context to any error.
pub trait OrFail<T> {
    /// Fails with an exit code, saying what was being done.
    ///
    /// # Errors
    /// The failure.
    fn or_fail(self, exit: Exit, doing: impl Display + Send + Sync + 'static)
    -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrFail<T> for Result<T, E> {
    fn or_fail(
        self,
        exit: Exit,
        doing: impl Display + Send + Sync + 'static,
    ) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error.into().context(doing.to_string())))
    }
}

/// Prints one line of data.
///
/// # Errors
/// If the output is closed.
pub fn line(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a part of a line at once.
///
/// # Errors
/// If the output is closed.
pub fn part(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Prints one JSON document.
///
/// # Errors
/// If the output is closed.
pub fn json(value: &serde_json::Value) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{value:#}")
}

/// Says something to the person, not to the program that reads our output.
pub fn say(text: impl Display) {
    // A closed error stream is nobody to talk to.
    let _closed = writeln!(io::stderr().lock(), "{text}");
}
