//! The counters of an endpoint's lease.

use tg_types::{Amount, TimestampMs, fields};

/// A minute in milliseconds.
const MINUTE_MS: u64 = 60_000;

/// What a provider of an endpoint is owed: time by the ledger's clock, answers by the requestor's vouchers. The lease's price is
/// that of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointMeter {
    /// What a minute costs, whatever is asked in it.
    pub minute: Amount,
    /// What the last voucher that was claimed says, of all answers so far.
    pub vouchers: Amount,
    /// How many answers that voucher counts.
    pub answered: u64,
    /// What was paid to the provider so far, for time and answers.
    pub paid: Amount,
    /// When the requestor took the job back, if it did: time after it is not paid.
    pub ends_at: Option<TimestampMs>,
}

impl EndpointMeter {
    /// One that counted nothing yet.
    #[must_use]
    pub const fn new(minute: Amount) -> Self {
        Self {
            minute,
            vouchers: Amount::ZERO,
            answered: 0,
            paid: Amount::ZERO,
            ends_at: None,
        }
    }

    /// What a provider that serves from `start` to `end` earned, with the vouchers that it claimed.
    #[must_use]
    pub fn earned(&self, start: TimestampMs, end: TimestampMs) -> Amount {
        let end = self.ends_at.map_or(end, |at| at.min(end));
        let served = end.saturating_since(start).get();
        let time = self.minute.checked_mul_div_ceil(served, MINUTE_MS);
        time.unwrap_or(Amount::MAX).saturating_add(self.vouchers)
    }
}

fields! { EndpointMeter { minute, vouchers, answered, paid, ends_at } }
