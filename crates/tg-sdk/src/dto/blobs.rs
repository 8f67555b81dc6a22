//! Content-addressed bytes.

use serde::{Deserialize, Serialize};
use tg_types::Digest;

use crate::text;

/// A blob that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BlobDto {
    /// BLAKE3 of its bytes.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// How far an upload in chunks has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadDto {
    /// BLAKE3 of the blob's bytes.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The chunk that is missing next, from 0 on; absent once the blob is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
