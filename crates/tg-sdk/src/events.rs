//! Server-sent events: a stream of what finalised blocks did.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;

use crate::dto::EventDto;
use crate::error::ClientError;
use crate::transport::{Payload, Transport};

/// Where the events are.
const PATH: &str = "/v1/events";

/// Longest line of an event stream, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Wait before a stream that ended is opened again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How often in a row a stream is opened again without an event between.
const AGAIN_MAX: u32 = 10;

/// Cuts a byte stream into the `data` of server-sent events, whatever the pieces it comes in.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    data: String,
    id: Option<String>,
    last_id: Option<String>,
}

/// A message of an event stream that has data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its data, several lines of it in one.
    pub data: String,
    /// The last id that came before it or with it, with which a stream goes on after it.
    pub last_id: Option<String>,
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
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, LineTooLong> {
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

    /// The id of the last message that is complete, with which a stream goes on after it.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Forgets what is not complete, for the first bytes of another stream.
    pub fn begin_again(&mut self) {
        self.line.clear();
        self.data.clear();
        self.id = None;
    }

    /// Ends a line: a blank one ends an event.
    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            if let Some(id) = self.id.take() {
                self.last_id = Some(id);
            }
            let data = std::mem::take(&mut self.data);
            let last_id = self.last_id.clone();
            return (!data.is_empty()).then_some(SseEvent { data, last_id });
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = String::from_utf8_lossy(data);
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(&data));
        }
        if let Some(id) = line.strip_prefix(b"id:") {
            let id = String::from_utf8_lossy(id);
            self.id = Some(id.trim().to_owned());
        }
        None
    }
}

/// Events of finalised blocks, in order. A stream that breaks off is opened again after the last event that came; if the node does not keep what
/// was between, an event of kind `events_lost` says so, after which whoever follows a state asks for it.
#[derive(Debug)]
pub struct EventStream {
    transport: Transport,
    body: Incoming,
    parser: SseParser,
    ready: VecDeque<SseEvent>,
    /// The last id that came with the event that was given last.
    given: Option<String>,
    /// How often it was opened again since the last event.
    again: u32,
}

impl EventStream {
    /// Opens a stream that begins now, or after an event.
    pub(crate) async fn open(
        transport: Transport,
        after: Option<&str>,
    ) -> Result<Self, ClientError> {
        let body = opened(&transport, after).await?;
        Ok(Self {
            transport,
            body,
            parser: SseParser::default(),
            ready: VecDeque::new(),
            given: None,
            again: 0,
        })
    }

    /// The id of the event that [`EventStream::next`] gave last, or of where the stream begins: after it
    /// [`Client::events_after`](crate::Client::events_after) goes on. Nothing before the server said where it begins.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        match self.ready.is_empty() {
            true => self.parser.last_id(),
            false => self.given.as_deref(),
        }
    }

    /// Waits for the next event; nothing when the server ended the stream and it cannot be opened again where it ended.
    ///
    /// # Errors
    /// If the connection breaks and the server is not there again within seconds, or it sends something else than events.
    pub async fn next(&mut self) -> Result<Option<EventDto>, ClientError> {
        loop {
            if let Some(SseEvent { data, last_id }) = self.ready.pop_front() {
                self.given = last_id;
                let event = serde_json::from_str(&data);
                return event.map(Some).map_err(|source| ClientError::Unreadable {
                    path: PATH.to_owned(),
                    source,
                });
            }
            let ended = match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        let events = self.parser.push(bytes);
                        let events = events.map_err(|source| self.broken(source))?;
                        self.again = if events.is_empty() { self.again } else { 0 };
                        self.ready.extend(events);
                    }
                    continue;
                }
                Some(Err(source)) => Err(self.broken(source)),
                None => Ok(None),
            };
            // A server that gives no ids does not know where to go on.
            let Some(last) = self.parser.last_id().map(str::to_owned) else {
                return ended;
            };
            if self.again >= AGAIN_MAX {
                return ended;
            }
            self.open_again(&last).await?;
        }
    }

    /// Opens the stream again after an event, as often as may be.
    async fn open_again(&mut self, last: &str) -> Result<(), ClientError> {
        loop {
            self.again = self.again.saturating_add(1);
            tokio::time::sleep(AGAIN_AFTER).await;
            match opened(&self.transport, Some(last)).await {
                Ok(body) => {
                    self.body = body;
                    self.parser.begin_again();
                    return Ok(());
                }
                Err(error) if error.is_transient() && self.again < AGAIN_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn broken(&self, source: impl std::error::Error + Send + Sync + 'static) -> ClientError {
        ClientError::Unreachable {
            url: self.transport.base().to_owned(),
            source: Box::new(source),
        }
    }
}

/// The body of a stream that begins now, or after an event.
async fn opened(transport: &Transport, after: Option<&str>) -> Result<Incoming, ClientError> {
    let path = after.map_or_else(|| PATH.to_owned(), |id| format!("{PATH}?after={id}"));
    let answer = transport.open(Method::GET, &path, Payload::Empty).await?;
    Ok(answer.into_body())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn data(pushed: Result<Vec<SseEvent>, LineTooLong>) -> Vec<String> {
        pushed.unwrap().into_iter().map(|it| it.data).collect()
    }

    fn check(pieces: &[&str], expected: &[&str]) {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(data(parser.push(piece.as_bytes())));
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
    fn an_id_counts_once_its_message_is_complete() {
        let mut parser = SseParser::default();
        let mut check = |bytes: &[u8], expected: &[&str], last_id: &str| {
            assert_eq!(data(parser.push(bytes)), expected);
            assert_eq!(parser.last_id(), Some(last_id));
        };
        check(b"id: 7\n\n", &[], "7");
        check(b"data: 1\nid: 8-0\n", &[], "7");
        check(b"\ndata: 2\n\n", &["1", "2"], "8-0");
        check(b"data: 3\nid: 9-0\nda", &[], "8-0");
        // What was begun in a stream that broke off is not part of the next one.
        parser.begin_again();
        let next = parser.push(b"data: 3\nid: 9-1\n\n").unwrap();
        let last_id = Some("9-1".to_owned());
        let data = "3".to_owned();
        assert_eq!(next, [SseEvent { data, last_id }]);
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
