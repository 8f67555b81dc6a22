//! References to files: evidence of a provider, and files of a dispute.

use tg_types::{Digest, fields};

/// Evidence of a provider, or a file that a side of a dispute submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Its content hash.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u32,
}

fields! { Evidence { digest, size } }
