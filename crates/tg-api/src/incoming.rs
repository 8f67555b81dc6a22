//! A body that arrives.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, Bytes, HttpBody};
use tokio::time::Instant;

use crate::config::ApiConfig;
use crate::connection::{Connection, Stage};
use crate::error::ApiError;

/// A body that arrives: bounded in size, and in time by its size.
pub(crate) struct IncomingBody<'a> {
    config: &'a ApiConfig,
    connection: &'a Connection,
    body: Body,
    limit: usize,
    received: usize,
    started: Instant,
}

impl<'a> IncomingBody<'a> {
    /// The body of a connection's request.
    pub(crate) fn new(
        config: &'a ApiConfig,
        connection: &'a Connection,
        body: Body,
        limit: usize,
    ) -> Self {
        connection.enter(Stage::Body);
        Self {
            config,
            connection,
            body,
            limit,
            received: 0,
            started: Instant::now(),
        }
    }

    /// Refuses a body by its declared length before anything is read.
    pub(crate) fn declared(&self, length: Option<usize>) -> Result<(), ApiError> {
        match length {
            Some(length) if length > self.limit => Err(ApiError::TooLarge { limit: self.limit }),
            _ => Ok(()),
        }
    }

    /// The next piece; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let patience = self.config.body_time_max;
            let until = self.started + patience + self.config.pace().time_of(self.received);
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let frame =
                tokio::time::timeout_at(until, frame)
                    .await
                    .map_err(|_| ApiError::TooSlow {
                        limit_s: patience.as_secs(),
                    })?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| ApiError::Invalid {
                what: "the body",
                detail: error.to_string(),
            })?;
            // Trailers are ignored.
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            self.connection.moved();
            self.received += piece.len();
            if self.received > self.limit {
                return Err(ApiError::TooLarge { limit: self.limit });
            }
            return Ok(Some(piece));
        }
    }
}
