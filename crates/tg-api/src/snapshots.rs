//! The state that newcomers begin at: one copy for all who read it, and few of different ages.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::ApiError;

/// How long a copy is given to who asks, before a newer state is looked for.
const FRESH: Duration = Duration::from_secs(5);

/// How old the newest copy may become while others are read to their end.
const OLD: Duration = Duration::from_secs(60);

/// Copies of different ages at one time: slow readers hold old ones. With so many the newest of them is given, however old it is: it can be
/// begun at as well, with more blocks to follow.
const COPIES_MAX: usize = 3;

// The oldest, which is ended, is not the newest, which is given.
const _: () = assert!(COPIES_MAX > 1);

/// Bytes of a copy that are handed to a connection at a time: between them a reader is told that it has to end.
const PIECE_BYTES: usize = 64 << 10;

/// The copies.
///
/// Stops: readers that take a state slowly, each of which held one of its own; and few of them that hold all there may be, so that the
/// newest grows old for everybody.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<SnapshotCopies>);

#[derive(Default)]
struct SnapshotCopies {
    newest: Option<(Instant, Arc<SnapshotCopy>)>,
    /// All that somebody still reads, the newest among them, the oldest first.
    read: Vec<Weak<SnapshotCopy>>,
}

/// A copy, which lives as long as its last reader.
struct SnapshotCopy {
    bytes: Vec<u8>,
    /// Whether its readers have to end.
    is_ended: AtomicBool,
}

/// A copy as the owner of what is sent of it.
struct SnapshotBytes(Arc<SnapshotCopy>);

impl AsRef<[u8]> for SnapshotBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// The body of a response that gives a copy. It fails where it is if the copy makes room for a newer one.
pub(crate) struct SnapshotBody {
    copy: Arc<SnapshotCopy>,
    rest: Bytes,
}

impl SnapshotBody {
    fn of(copy: &Arc<SnapshotCopy>) -> Self {
        Self {
            copy: Arc::clone(copy),
            rest: Bytes::from_owner(SnapshotBytes(Arc::clone(copy))),
        }
    }
}

impl Body for SnapshotBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { copy, rest } = self.get_mut();
        if rest.is_empty() {
            return Poll::Ready(None);
        }
        if copy.is_ended.load(Ordering::Relaxed) {
            let text = "the snapshot is old, and was read slowly: ask for the newest";
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, text))));
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Snapshots {
    /// The newest copy; `make` makes one of the state as it is now. Nothing if there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) async fn newest(
        &self,
        make: impl Future<Output = Result<Option<Vec<u8>>, ApiError>>,
    ) -> Result<Option<SnapshotBody>, ApiError> {
        let mut copies = self.0.lock().await;
        copies.read.retain(|it| it.strong_count() > 0);
        let is_full = copies.read.len() >= COPIES_MAX;
        if let Some((made, newest)) = &copies.newest
            && (is_full || made.elapsed() < FRESH)
        {
            if is_full && made.elapsed() >= OLD {
                // Its readers had longer than that. Whoever asks once they are gone gets a newer one.
                let oldest = copies.read.first().and_then(Weak::upgrade);
                if let Some(oldest) = oldest {
                    oldest.is_ended.store(true, Ordering::Relaxed);
                }
            }
            return Ok(Some(SnapshotBody::of(newest)));
        }
        let Some(bytes) = make.await? else {
            return Ok(None);
        };
        let made = Arc::new(SnapshotCopy {
            bytes,
            is_ended: AtomicBool::new(false),
        });
        copies.read.push(Arc::downgrade(&made));
        copies.newest = Some((Instant::now(), Arc::clone(&made)));
        Ok(Some(SnapshotBody::of(&made)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::future::poll_fn;

    use super::*;

    /// Asks for a copy, where the state has this one byte now.
    async fn ask(snapshots: &Snapshots, state: u8) -> SnapshotBody {
        let made = snapshots.newest(async { Ok(Some(vec![state])) }).await;
        made.unwrap().unwrap()
    }

    async fn grow_old(snapshots: &Snapshots, age: Duration) {
        let mut copies = snapshots.0.lock().await;
        let (made, _) = copies.newest.as_mut().unwrap();
        *made = made.checked_sub(age).unwrap();
    }

    async fn read(body: &mut SnapshotBody) -> Option<Result<Vec<u8>, io::ErrorKind>> {
        let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        let bytes = next.map(|it| it.map(|frame| frame.into_data().unwrap().to_vec()));
        bytes.map(|it| it.map_err(|error| error.kind()))
    }

    #[tokio::test]
    async fn readers_share_copies_of_which_there_are_few() {
        let snapshots = Snapshots::default();
        assert!(matches!(
            snapshots.newest(async { Ok(None) }).await,
            Ok(None)
        ));
        let first = ask(&snapshots, 1).await;
        let same = ask(&snapshots, 2).await;
        assert_eq!((first.rest[0], same.rest[0]), (1, 1));
        let mut held = vec![first];
        for state in 2..=COPIES_MAX as u8 {
            grow_old(&snapshots, FRESH).await;
            held.push(ask(&snapshots, state).await);
            assert_eq!(held.last().unwrap().rest[0], state);
        }
        // Old ones are all read still: no other is made.
        grow_old(&snapshots, FRESH).await;
        assert_eq!(ask(&snapshots, 9).await.rest[0], COPIES_MAX as u8);
        drop((held, same));
        assert_eq!(ask(&snapshots, 9).await.rest[0], 9);
    }

    #[tokio::test]
    async fn slow_readers_of_old_copies_make_room_for_a_new_one() {
        let snapshots = Snapshots::default();
        let mut held = vec![ask(&snapshots, 1).await];
        for state in 2..=COPIES_MAX as u8 {
            grow_old(&snapshots, FRESH).await;
            held.push(ask(&snapshots, state).await);
        }
        // A minute is not over: all may be read to their end.
        assert_eq!(ask(&snapshots, 9).await.rest[0], COPIES_MAX as u8);
        assert!(!held[0].copy.is_ended.load(Ordering::Relaxed));
        grow_old(&snapshots, OLD).await;
        assert_eq!(ask(&snapshots, 9).await.rest[0], COPIES_MAX as u8);
        let mut oldest = held.remove(0);
        assert_eq!(read(&mut oldest).await, Some(Err(io::ErrorKind::TimedOut)));
        // What the connection drops then.
        drop(oldest);
        assert_eq!(ask(&snapshots, 9).await.rest[0], 9);
        // The others are read to their end.
        for (state, mut body) in (2..).zip(held) {
            assert_eq!(read(&mut body).await, Some(Ok(vec![state])));
            assert!(body.is_end_stream());
            assert_eq!(read(&mut body).await, None);
        }
    }

    #[tokio::test]
    async fn a_copy_is_given_whole_and_in_pieces() {
        let state: Vec<u8> = (0..=u8::MAX).cycle().take(PIECE_BYTES * 2 + 5).collect();
        let snapshots = Snapshots::default();
        let made = snapshots.newest(async { Ok(Some(state.clone())) }).await;
        let mut body = made.unwrap().unwrap();
        assert_eq!(body.size_hint().exact(), Some(state.len() as u64));
        let mut got = Vec::new();
        while let Some(piece) = read(&mut body).await {
            got.push(piece.unwrap());
        }
        assert_eq!(got.len(), 3);
        assert_eq!(got.concat(), state);
    }
}
