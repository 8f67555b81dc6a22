//! Server-sent events: a stream of what finalised blocks did.

use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::dto::EventDto;
use crate::error::ClientError;

/// Longest line of an event stream, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Cuts a byte stream into the `data` of server-sent events, whatever the pieces it comes in.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    data: String,
}

/// A line of the stream is longer than a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the event stream is longer than {LINE_BYTES_MAX} bytes")]
pub struct LineTooLong;

impl SseParser {
    /// Takes the next bytes and returns the events they complete.
    ///
    /// # Errors
    /// [`LineTooLong`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, LineTooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => events.extend(self.end_line()),
                b'\r' => {}
                _ if self.line.len() + self.data.len() >= LINE_BYTES_MAX => {
                    return Err(LineTooLong);
                }
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    /// Ends a line: a blank one ends an event.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then_some(data);
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = String::from_utf8_lossy(data);
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(&data));
        }
        None
    }
}

/// Events of finalised blocks, in order.
#[derive(Debug)]
pub struct EventStream {
    url: String,
    body: Incoming,
    parser: SseParser,
    ready: std::collections::VecDeque<String>,
}

impl EventStream {
    pub(crate) fn new(url: &str, body: Incoming) -> Self {
        Self {
            url: url.to_owned(),
            body,
            parser: SseParser::default(),
            ready: std::collections::VecDeque::new(),
        }
    }

    /// Waits for the next event; nothing when the server ended the stream.
    ///
    /// # Errors
    /// If the connection breaks or the server sends something else than events.
    pub async fn next(&mut self) -> Result<Option<EventDto>, ClientError> {
        loop {
            if let Some(json) = self.ready.pop_front() {
                let event =
                    serde_json::from_str(&json).map_err(|source| ClientError::Unreadable {
                        path: "/v1/events".to_owned(),
                        source,
                    })?;
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|source| self.broken(source))?;
            if let Some(bytes) = frame.data_ref() {
                let events = self.parser.push(bytes);
                self.ready
                    .extend(events.map_err(|source| self.broken(source))?);
            }
        }
    }

    fn broken(&self, source: impl std::error::Error + Send + Sync + 'static) -> ClientError {
        ClientError::Unreachable {
            url: self.url.clone(),
            source: Box::new(source),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(parser.push(piece.as_bytes()).unwrap());
        }
        assert_eq!(events, expected);
    }

    #[test]
    fn an_event_gives_its_data() {
        check(&["event: job\ndata: {\"a\":1}\n\n"], &["{\"a\":1}"]);
    }

    #[test]
    fn events_in_pieces_and_comments() {
        check(
            &[
                ": keep-alive\n\nda",
                "ta: 1\n",
                "\n",
                "data:2\r\n\r\n",
                "data: 3\n",
            ],
            &["1", "2"],
        );
    }

    #[test]
    fn data_of_several_lines() {
        check(&["data: a\ndata: b\n\n"], &["a\nb"]);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = SseParser::default();
        let flood = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(parser.push(&flood), Err(LineTooLong));
    }
}
