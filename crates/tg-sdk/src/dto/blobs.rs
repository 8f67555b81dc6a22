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
