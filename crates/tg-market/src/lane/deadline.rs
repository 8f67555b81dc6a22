//! Deadline jobs: admitted means reserved, at a price that rises with what is reserved already.
//!
//! The price of a part of a machine rises exponentially with the parts that others reserved at that time,
//! `p(u) = low * (high / low)^(u / PARTS)` (the online primal-dual rule; with it, value lost to bad admissions is bounded by a
//! factor of about `ln(high / low) + 1`). Who is admitted pays that price, and the place is its own.

use tg_types::Amount;

/// Parts of a machine that the curve tells apart.
pub const PARTS: u32 = 64;

/// The price of a place on a machine of which `reserved` of [`PARTS`] are taken, between `low` (none) and `high` (all). More
/// than all counts as all, and `high` below `low` as `low`.
///
/// ```
/// # use tg_market::lane::deadline::{PARTS, reserved_price};
/// # use tg_types::Amount;
/// let price = |reserved| reserved_price(Amount::new(100), Amount::new(10_000), reserved);
/// assert_eq!(price(0), Amount::new(100));
/// assert_eq!(price(PARTS / 2), Amount::new(1_000));
/// ```
#[must_use]
pub fn reserved_price(low: Amount, high: Amount, reserved: u32) -> Amount {
    let high = high.max(low);
    let reserved = reserved.min(PARTS);
    // Halves the interval by geometric means, rounded down, until it ends at `reserved`.
    let (mut left, mut right) = ((0, low.get()), (PARTS, high.get()));
    while left.0 < reserved && reserved < right.0 {
        let middle = (left.0 + right.0) / 2;
        let mean = (middle, geometric_mean(left.1, right.1));
        match reserved < middle {
            true => right = mean,
            false => left = mean,
        }
    }
    let price = match reserved == left.0 {
        true => left.1,
        false => right.1,
    };
    Amount::new(price)
}

/// `floor(sqrt(left * right))`, between the two; both are shortened to 64 bits first.
fn geometric_mean(left: u128, right: u128) -> u128 {
    let shift = (128 - left.max(right).leading_zeros()).saturating_sub(63);
    (((left >> shift) * (right >> shift)).isqrt() << shift).clamp(left.min(right), left.max(right))
}
