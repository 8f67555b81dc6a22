//! The turn of a process to sign with a key that others have too.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::MutexGuard;

/// How long another process may have its turn.
const TURN_MAX: Duration = Duration::from_secs(60);

/// Between two looks whether it is over.
const POLL: Duration = Duration::from_millis(20);

/// Held while something is signed and sent.
#[derive(Debug)]
pub(crate) struct SigningTurn<'a> {
    _own: MutexGuard<'a, ()>,
    /// Whoever is killed lets go of it.
    _file: Option<File>,
}

impl<'a> SigningTurn<'a> {
    pub(crate) const fn of(own: MutexGuard<'a, ()>, file: Option<File>) -> Self {
        Self {
            _own: own,
            _file: file,
        }
    }
}

/// A file, locked against other processes; nothing if it cannot be made, or another one holds it for a minute: then two may sign at once, and one of
/// them be refused.
pub(crate) async fn locked(path: &Path) -> Option<File> {
    let began = Instant::now();
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .ok()?;
    while began.elapsed() < TURN_MAX {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(POLL).await,
            Err(std::fs::TryLockError::Error(_)) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn one_has_its_turn_after_the_other() {
        let folder = std::env::temp_dir().join(format!("tg-turn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("key.turn");
        let first = locked(&path).await.unwrap();
        let waits = tokio::time::timeout(POLL * 5, locked(&path)).await;
        assert!(waits.is_err(), "the first one has its turn");
        drop(first);
        assert!(locked(&path).await.is_some());
        // Where nothing can be made there are no turns.
        assert!(locked(&folder.join("none/key.turn")).await.is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
