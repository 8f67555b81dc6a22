//! The state that newcomers begin at: one copy for all who read it, and few of different ages.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::ApiError;

/// How long a copy is given to who asks, before a newer state is looked for.
const FRESH: Duration = Duration::from_secs(5);

/// Copies of different ages at one time: slow readers hold old ones. With so many the newest of them is given, however old it is: it can be
/// begun at as well, with more blocks to follow.
const COPIES_MAX: usize = 3;

/// The copies.
///
/// Stops: readers that take a state slowly, each of which held one of its own.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<SnapshotCopies>);

#[derive(Default)]
struct SnapshotCopies {
    newest: Option<(Instant, Arc<Vec<u8>>)>,
    /// All that somebody still reads, the newest among them.
    read: Vec<Weak<Vec<u8>>>,
}

/// A copy, which lives as long as its last reader.
struct SnapshotBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SnapshotBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
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
    ) -> Result<Option<Bytes>, ApiError> {
        let mut copies = self.0.lock().await;
        copies.read.retain(|it| it.strong_count() > 0);
        let is_full = copies.read.len() >= COPIES_MAX;
        if let Some((made, newest)) = &copies.newest
            && (is_full || made.elapsed() < FRESH)
        {
            return Ok(Some(Bytes::from_owner(SnapshotBytes(Arc::clone(newest)))));
        }
        let Some(made) = make.await? else {
            return Ok(None);
        };
        let made = Arc::new(made);
        copies.read.push(Arc::downgrade(&made));
        copies.newest = Some((Instant::now(), Arc::clone(&made)));
        Ok(Some(Bytes::from_owner(SnapshotBytes(made))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Asks for a copy, where the state has this one byte now.
    async fn ask(snapshots: &Snapshots, state: u8) -> Bytes {
        let made = snapshots.newest(async { Ok(Some(vec![state])) }).await;
        made.unwrap().unwrap()
    }

    async fn grow_old(snapshots: &Snapshots) {
        let mut copies = snapshots.0.lock().await;
        let (made, _) = copies.newest.as_mut().unwrap();
        *made = made.checked_sub(FRESH).unwrap();
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
        assert_eq!((first[0], same[0]), (1, 1));
        let mut held = vec![first];
        for state in 2..=COPIES_MAX as u8 {
            grow_old(&snapshots).await;
            held.push(ask(&snapshots, state).await);
            assert_eq!(held.last().unwrap()[0], state);
        }
        // Old ones are all read still: no other is made.
        grow_old(&snapshots).await;
        assert_eq!(ask(&snapshots, 9).await[0], COPIES_MAX as u8);
        drop((held, same));
        assert_eq!(ask(&snapshots, 9).await[0], 9);
    }
}
