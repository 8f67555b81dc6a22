//! The content-addressed store: files on disk, named by the BLAKE3 digest of their bytes.
//!
//! A blob is written to a temporary file, synced and renamed, so that a name is only ever seen with all its bytes.
//! It is hashed again when it is read: a damaged file is reported, never served whole, and not held from then on, so
//! that the right bytes can be stored again. Sizes are capped per blob and in
//! total. The layout is `<root>/<first two hex digits>/<64 hex digits>`.

mod error;
mod incoming;
mod open_uploads;
mod partial;
mod pending;
mod reader;
mod space;
mod store;
mod sweep;
mod uploads;
mod writer;

pub use error::BlobError;
pub(crate) use incoming::Incoming;
pub(crate) use open_uploads::PausedBlob;
pub use partial::PartialBlob;
pub use pending::{Allowance, PENDING_TIME, PendingBlob};
pub use reader::BlobReader;
pub use space::DISK_RESERVE_BYTES_DEFAULT;
pub(crate) use space::free_bytes;
pub use store::BlobStore;
pub use uploads::UploadProgress;
pub use writer::{BlobWriter, Stored};
