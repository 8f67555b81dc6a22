//! A folder for what a benchmark writes: beside the user's files, since the temporary one may be memory.

use std::io;
use std::path::{Path, PathBuf};

/// A folder of its own in the current one, removed at the end.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes the folder.
    ///
    /// # Errors
    /// If it cannot be made, or is there.
    pub fn new() -> io::Result<Self> {
        let name = format!(".tensorgrid-bench-{}", std::process::id());
        let path = std::env::current_dir()?.join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed is left for whoever looks.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
