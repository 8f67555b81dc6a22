//! Bytes of a blob on their way to a server, piece by piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// A body whose pieces come through a channel. One that ends early breaks the call off.
#[derive(Debug)]
pub(crate) struct UploadBody {
    pieces: mpsc::Receiver<Vec<u8>>,
    left: u64,
}

impl UploadBody {
    /// A body of `size` bytes.
    pub(crate) const fn new(size: u64, pieces: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { pieces, left: size }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = ready!(self.pieces.poll_recv(context));
        Poll::Ready(piece.map(|piece| {
            self.left = self.left.saturating_sub(piece.len() as u64);
            Ok(Frame::data(piece.into()))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
