//! A disk in memory that loses what was not synced when power fails: for simulations of crashes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    /// What a reader sees.
    written: Vec<u8>,
    /// What is left after a power cut.
    synced: Vec<u8>,
    /// Where the two may differ.
    dirty: Vec<Range<usize>>,
}

impl MemoryDisk {
    /// What is found after a power cut: a disk with what was synced. The old one stays as it is, for whoever still writes
    /// to it.
    #[must_use]
    pub fn after_power_cut(&self) -> Self {
        let synced = self.content().synced.clone();
        Self(Arc::new(Mutex::new(Content {
            written: synced.clone(),
            synced,
            dirty: Vec::new(),
        })))
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.content().written.len();
        write!(f, "MemoryDisk({length} bytes)")
    }
}

/// The bytes of an access, if they lie on the disk.
fn range(offset: u64, length: usize, end: usize) -> io::Result<Range<usize>> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let range = start..start.saturating_add(length);
    if range.end > end {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(range)
}

impl StorageBackend for MemoryDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let range = range(offset, out.len(), content.written.len())?;
        out.copy_from_slice(&content.written[range]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length =
            usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut content = self.content();
        let old = content.written.len();
        content.written.resize(length, 0);
        content.dirty.push(old.min(length)..length);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        let Content {
            written,
            synced,
            dirty,
        } = &mut *content;
        synced.resize(written.len(), 0);
        for range in dirty.drain(..) {
            // The disk may have become shorter since.
            let range = range.start.min(written.len())..range.end.min(written.len());
            synced[range.clone()].copy_from_slice(&written[range]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.content();
        let range = range(offset, data.len(), content.written.len())?;
        content.written[range.clone()].copy_from_slice(data);
        content.dirty.push(range);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn bytes(disk: &MemoryDisk) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(disk.len().unwrap()).unwrap()];
        disk.read(0, &mut out).unwrap();
        out
    }

    #[test]
    fn what_was_not_synced_is_lost_in_a_power_cut_and_nothing_else() {
        let disk = MemoryDisk::default();
        disk.set_len(8).unwrap();
        disk.write(0, b"abcd").unwrap();
        disk.sync_data().unwrap();
        disk.write(2, b"XY").unwrap();
        disk.set_len(9).unwrap();
        assert_eq!(bytes(&disk), b"abXY\0\0\0\0\0");
        let after = disk.after_power_cut();
        assert_eq!(bytes(&after), b"abcd\0\0\0\0");
        // The old disk goes its own way.
        disk.sync_data().unwrap();
        assert_eq!(bytes(&after), b"abcd\0\0\0\0");
        assert_eq!(bytes(&disk.after_power_cut()), b"abXY\0\0\0\0\0");
        disk.set_len(3).unwrap();
        disk.sync_data().unwrap();
        assert_eq!(bytes(&disk.after_power_cut()), b"abX");
        assert!(disk.write(2, b"two").is_err());
        assert!(disk.read(3, &mut [0]).is_err());
    }
}
