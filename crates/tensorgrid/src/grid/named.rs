//! What records name, as of a block.

use tokio::sync::Mutex;

/// What records name, as of the block that was asked about last.
///
/// Stops: calls for nonsense, each of which walks over all records: one does for each block.
#[derive(Debug, Default)]
pub(super) struct LatestNames<N>(Mutex<Option<(u64, N)>>);

impl<N: Default + Send + 'static> LatestNames<N> {
    /// Looks at what records name as of the block of a height or a later one; `walk` gives all that records of its state name, beside the event loop.
    pub(super) async fn look<T>(
        &self,
        height: u64,
        walk: impl FnOnce() -> N + Send + 'static,
        look: impl FnOnce(&N) -> T,
    ) -> T {
        let mut latest = self.0.lock().await;
        if let Some((at, names)) = &*latest
            && *at >= height
        {
            return look(names);
        }
        // The runtime stops: nobody waits for an answer.
        let names = tokio::task::spawn_blocking(walk).await.unwrap_or_default();
        let found = look(&names);
        *latest = Some((height, names));
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tg_types::Digest;

    use super::*;

    /// The attack: digests of nothing, one after the other and many at once.
    #[tokio::test]
    async fn records_are_walked_over_once_for_each_block() {
        let latest = LatestNames::<HashSet<Digest>>::default();
        let walks = Arc::new(AtomicUsize::new(0));
        let named = Digest::new([1; 32]);
        let contains = |height: u64, digest: Digest| {
            let (latest, walks) = (&latest, Arc::clone(&walks));
            async move {
                let walk = move || -> HashSet<Digest> {
                    walks.fetch_add(1, Ordering::Relaxed);
                    // From block 8 on nothing is named.
                    (height < 8).then_some(named).into_iter().collect()
                };
                latest
                    .look(height, walk, |names| names.contains(&digest))
                    .await
            }
        };
        assert!(contains(7, named).await);
        let (none, again) = tokio::join!(contains(7, Digest::new([2; 32])), contains(7, named));
        assert!(!none && again);
        assert_eq!(walks.load(Ordering::Relaxed), 1);
        assert!(!contains(8, named).await);
        // One that waited while the next block came.
        assert!(!contains(7, named).await);
        assert_eq!(walks.load(Ordering::Relaxed), 2);
    }
}
