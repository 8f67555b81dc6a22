//! Places for requests of batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Requests of batches that are at work at once, of one key and of all.
const KEY_PLACES: usize = 4;
const PLACES: usize = 32;

/// Batches whose input is looked through at once: all of it is in memory meanwhile, and at a start all that are open begin.
const LOOKS: usize = 2;

/// Places for requests of batches that are at work at once: others find providers free, and no key takes the places of another.
#[derive(Debug)]
pub(crate) struct BatchPlaces {
    all: Arc<Semaphore>,
    looks: Semaphore,
    each: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A place of a key, and one of all.
#[derive(Debug)]
pub(super) struct BatchPlace {
    _places: [Option<OwnedSemaphorePermit>; 2],
}

impl Default for BatchPlaces {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(PLACES)),
            looks: Semaphore::new(LOOKS),
            each: Mutex::default(),
        }
    }
}

impl BatchPlaces {
    /// Waits for the turn to look through an input.
    pub(super) async fn look(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.looks.acquire().await.ok()
    }

    /// Waits for a place of a key.
    pub(super) async fn take(&self, caller: &str) -> BatchPlace {
        let own = {
            let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
            let own = each.entry(caller.to_owned());
            Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(KEY_PLACES))))
        };
        // Nobody closes them.
        let own = own.acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        BatchPlace {
            _places: [own, all],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_key_takes_no_place_of_another() {
        let places = BatchPlaces::default();
        let mut held = Vec::new();
        for _ in 0..KEY_PLACES {
            held.push(places.take("a").await);
        }
        let short = Duration::from_millis(20);
        assert!(tokio::time::timeout(short, places.take("a")).await.is_err());
        assert!(tokio::time::timeout(short, places.take("b")).await.is_ok());
        held.pop();
        assert!(tokio::time::timeout(short, places.take("a")).await.is_ok());
    }
}
