//! References to files: evidence of a provider, and files of a dispute.

use tg_types::{Digest, fields};

/// Evidence that a provider named, or a file that was handed in in a dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Its content hash.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u32,
}

fields! { Evidence { digest, size } }
