//! How a command ends: its exit code, what it prints, and how errors look.

use std::borrow::Cow;
use std::fmt::Display;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::OnceLock;

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
    /// Ctrl-C, while something was waited for that goes on: 128 and the number of the signal, as shells have it.
    Interrupted = 130,
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
            return writeln!(stream, "{}", printable_json(&value.to_string()));
        }
        let text = format!("{:#}", self.error);
        writeln!(stream, "error: {}", printable(&text))?;
        match &self.hint {
            Some(hint) => writeln!(stream, "hint: {}", printable(hint)),
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

/// How much of a result is printed for people. JSON is always whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedDetail {
    /// What a person decides by: ids by their first and last digits, and no hashes.
    Brief,
    /// All ids and hashes, whole.
    Full,
}

/// What the command line asks for, as it holds for all that one process prints.
static DETAIL: OnceLock<PrintedDetail> = OnceLock::new();

/// Sets how much is printed, before a command runs; only the first call counts.
pub fn set_detail(detail: PrintedDetail) {
    let _first = DETAIL.get_or_init(|| detail);
}

/// How much is printed; brief if nobody said.
#[must_use]
pub fn detail() -> PrintedDetail {
    DETAIL.get().copied().unwrap_or(PrintedDetail::Brief)
}

/// Prints one line of data.
///
/// # Errors
/// If the output is closed.
pub fn line(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    writeln!(io::stdout().lock(), "{}", printable(&text))
}

/// Prints a part of a line at once.
///
/// # Errors
/// If the output is closed.
pub fn part(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let mut out = io::stdout().lock();
    write!(out, "{}", printable(&text))?;
    out.flush()
}

/// Prints one JSON document.
///
/// # Errors
/// If the output is closed.
pub fn json(value: &serde_json::Value) -> io::Result<()> {
    let text = format!("{value:#}");
    writeln!(io::stdout().lock(), "{}", printable_json(&text))
}

/// Says something to the person, not to the program that reads our output.
pub fn say(text: impl Display) {
    // A closed error stream is nobody to talk to.
    let text = text.to_string();
    let _closed = writeln!(io::stderr().lock(), "{}", printable(&text));
}

/// Whether a terminal does something else with a character than to show it: it moves the cursor, overwrites what stands there, or turns the
/// direction of text round.
const fn is_control(character: char) -> bool {
    matches!(
        character,
        '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A text as a terminal may have it: control characters but line feeds and tabs stand as `\u{1b}`. What is printed comes from grids, models
/// and files of others, and the program itself colours and moves nothing.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_control(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// The same of a JSON document, which stays the same document: such characters stand only in strings.
#[must_use]
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_control(character) {
            // Writing to a string does not fail; all of them are in the basic plane.
            true => {
                let _written = write!(shown, "\\u{:04x}", u32::from(character));
            }
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_says_moves_no_cursor() {
        let forged = "bad reason\x1b[8A\x1b[2Kjob 1 is paid\r\u{9b}2J\u{202e}drow\x07";
        let shown = printable(forged);
        assert!(!shown.contains(is_control), "{shown:?}");
        assert!(shown.starts_with("bad reason\\u{1b}[8A"), "{shown}");
        let plain = "a line\n\tand umlauts: äöü 東京";
        assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn a_json_document_stays_what_it_is() {
        let value = serde_json::json!({ "reason": "a\u{9b}2Jb\u{202e}c\x1b", "n": 1 });
        let text = format!("{value:#}");
        let shown = printable_json(&text);
        assert!(!shown.contains(is_control), "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
        assert_eq!(read, value);
    }
}
