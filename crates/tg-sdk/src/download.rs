//! Bytes of a blob as they come.

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};

use crate::error::ClientError;
use crate::transport::Transport;

/// A blob on its way to this client.
#[derive(Debug)]
pub struct Download {
    transport: Transport,
    body: Incoming,
}

impl Download {
    pub(crate) const fn new(transport: Transport, body: Incoming) -> Self {
        Self { transport, body }
    }

    /// Its bytes, as the server says; nothing if it says none.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece; nothing after the last one.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the connection breaks, [`ClientError::Timeout`] if nothing comes for the time limit of the
    /// client.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let frame = self.transport.within(self.body.frame()).await?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|source| self.transport.unreachable(source))?;
            // Trailers say nothing here.
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
    }
}
