//! A TCP stream that does not wait for ever: a peer that takes its answer too slowly is let go.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::connection::Connection;

/// How slow a peer may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceLimit {
    /// How long it may keep the server waiting without moving a byte.
    pub(crate) patience: Duration,
    /// Bytes a second that it has to move beyond that.
    pub(crate) bytes_per_second: u64,
}

impl PaceLimit {
    /// The same with a least rate that is no lower than this.
    pub(crate) fn at_least(self, bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: self.bytes_per_second.max(bytes_per_second),
            ..self
        }
    }

    /// The time that moving `bytes` may take beyond the patience.
    pub(crate) fn time_of(&self, bytes: usize) -> Duration {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let per_second = self.bytes_per_second.max(1);
        Duration::from_millis(bytes.saturating_mul(1_000) / per_second)
    }
}

/// By how much a peer is behind the least rate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrears(Duration);

impl Arrears {
    /// By how much it is behind.
    pub(crate) const fn behind(self) -> Duration {
        self.0
    }

    /// Counts a wait of the server, and what the peer took then.
    pub(crate) fn count(&mut self, waited: Duration, bytes: usize, pace: PaceLimit) {
        let behind = self.0.saturating_add(waited);
        self.0 = behind.saturating_sub(pace.time_of(bytes));
    }
}

/// The stream of a connection. The time in which the peer took nothing is summed up, and what it takes pays it off at
/// the least rate; above the patience the stream fails.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    pace: PaceLimit,
    arrears: Arrears,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Socket {
    /// Guards a stream.
    pub(crate) const fn new(
        stream: TcpStream,
        connection: Arc<Connection>,
        pace: PaceLimit,
    ) -> Self {
        Self {
            stream,
            connection,
            pace,
            arrears: Arrears(Duration::ZERO),
            waiting: None,
        }
    }

    /// Accounts for a write's result.
    fn account(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let pace = self.pace.at_least(self.connection.rate_min());
        if let Poll::Ready(Ok(bytes)) = written {
            let waiting = self.waiting.take();
            let waited = waiting.map_or(Duration::ZERO, |(since, _)| since.elapsed());
            self.arrears.count(waited, bytes, pace);
            self.connection.moved();
            self.connection.fell_behind(self.arrears.behind());
            return match self.arrears.behind() > pace.patience {
                true => Poll::Ready(Err(too_slow())),
                false => Poll::Ready(Ok(bytes)),
            };
        }
        if written.is_pending() {
            let left = pace.patience.saturating_sub(self.arrears.behind());
            let (_, timer) = self
                .waiting
                .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Err(too_slow()));
        }
        written
    }
}

fn too_slow() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the peer reads its answer too slowly",
    )
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.account(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.account(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
