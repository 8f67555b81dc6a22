//! Units of work, taken before what they pay for is done.

use super::error::OpError;
use std::cell::Cell;

/// Units of a step: what a plain loop does for an element, about a nanosecond.
pub const STEP: u64 = 32;

/// Units of work that are left.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: u64,
    left: Cell<u64>,
}

impl Meter {
    pub(crate) const fn new(limit: u64) -> Self {
        Self {
            limit,
            left: Cell::new(limit),
        }
    }

    /// One of which units were taken before.
    pub(crate) const fn resumed(limit: u64, used: u64) -> Self {
        Self {
            limit,
            left: Cell::new(limit.saturating_sub(used)),
        }
    }

    /// Units that were taken; all of them once they did not suffice.
    pub(crate) const fn used(&self) -> u64 {
        self.limit - self.left.get()
    }

    /// Takes units, before what they pay for is done.
    pub(crate) fn charge(&self, units: u64) -> Result<(), OpError> {
        let left = self.left.get();
        match left.checked_sub(units) {
            Some(rest) => {
                self.left.set(rest);
                Ok(())
            }
            None => {
                self.left.set(0);
                Err(OpError::Work { units, left })
            }
        }
    }

    /// Refuses memory for more elements than there are units left: taking it is work too.
    pub(crate) fn admit(&self, count: usize) -> Result<(), OpError> {
        if count as u64 > self.left.get() {
            return self.charge(count as u64);
        }
        Ok(())
    }
}

/// A product of counts; the greatest number if it overflows.
pub(crate) fn product(counts: &[usize]) -> u64 {
    let times = |product: u64, &count: &usize| product.saturating_mul(count as u64);
    counts.iter().fold(1, times)
}

/// Comparisons for each of `count` elements that are sorted, about.
pub(crate) fn sort_depth(count: usize) -> usize {
    1 + count.checked_ilog2().unwrap_or(0) as usize
}
