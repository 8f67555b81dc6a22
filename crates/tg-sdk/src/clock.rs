//! This machine's clock, in the ledger's unit.

use std::time::{SystemTime, UNIX_EPOCH};

use tg_types::TimestampMs;

/// The time by this machine's clock; 0 if it stands before 1970.
#[must_use]
pub fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = u64::try_from(since.unwrap_or_default().as_millis());
    TimestampMs::new(millis.unwrap_or(u64::MAX))
}
