//! What the compute that a group of classes can use is worth, and when that changes.

use crate::packing::table::{GroupValue, Tables};

/// Prices have at most this many bits.
pub const PRICE_BITS: u32 = 20;

/// A price of `1 << PRICE_UNIT_BITS` says that all of the cluster is usable.
pub const PRICE_UNIT_BITS: u32 = 10;

/// Usable compute of each group over the whole cluster, and the prices that follow from it.
///
/// A price is capacity over usable compute. Prices stand still until the usable compute of some group leaves the
/// interval of 1/2 to 3/2 of what it was when they were set; then all are set anew. So they are a function of the
/// anchors, which are part of the market's state, and not of how often anybody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceBook {
    /// Weighted usable compute of each group now.
    usable: Vec<i64>,
    /// The same when prices were last set.
    anchor: Vec<i64>,
    anchor_before: Vec<i64>,
    /// Within these bounds of `usable` the prices stand.
    bounds: Vec<[i64; 2]>,
    /// Where `usable` counts as this much at least: the price of a group that has nothing left is finite.
    floor: Vec<i64>,
    prices: Vec<u32>,
    prices_before: Vec<u32>,
    /// Weighted capacity of each group.
    capacity: Vec<i64>,
    epoch: u32,
}

impl PriceBook {
    /// Prices for `capacity_milli` thousandths of GPUs; `usable` is the sum over all machines.
    #[must_use]
    pub fn new(tables: &Tables, capacity_milli: u64, usable: Vec<i64>) -> Self {
        let capacity: Vec<i64> = tables
            .groups()
            .iter()
            .map(|group| {
                let product = u128::from(group.weight) * u128::from(capacity_milli);
                i64::try_from(product).unwrap_or(i64::MAX)
            })
            .collect();
        let floor = capacity
            .iter()
            .map(|it| (it >> (PRICE_BITS - PRICE_UNIT_BITS)) + 1)
            .collect();
        let mut book = Self {
            anchor_before: usable.clone(),
            anchor: usable.clone(),
            bounds: vec![[0, 0]; usable.len()],
            prices: vec![0; usable.len()],
            prices_before: Vec::new(),
            usable,
            floor,
            capacity,
            epoch: 0,
        };
        book.set_prices();
        book
    }

    /// The price of each group.
    #[must_use]
    pub fn prices(&self) -> &[u32] {
        &self.prices
    }

    /// What the prices were set from.
    #[must_use]
    pub fn anchor(&self) -> &[i64] {
        &self.anchor
    }

    /// What the prices were set from before the last change.
    #[must_use]
    pub fn anchor_before(&self) -> &[i64] {
        &self.anchor_before
    }

    /// How often prices were set.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Sets the prices that belong to `anchor`, for a book rebuilt from state; false if it is of another profile.
    pub fn restore_anchor(&mut self, anchor: &[i64]) -> bool {
        if anchor.len() != self.anchor.len() {
            return false;
        }
        self.anchor.copy_from_slice(anchor);
        self.set_prices();
        true
    }

    /// The least ratio of a price of one of `groups` to what it was before it was set last, at most 1, in fixed point
    /// with `bits` bits.
    #[must_use]
    pub fn ratio_min(&self, groups: &[u16], bits: u32) -> u64 {
        let ratios = groups.iter().filter_map(|group| {
            let group = usize::from(*group);
            let (now, before) = (self.prices.get(group)?, self.prices_before.get(group)?);
            (*before > 0).then(|| (u64::from(*now) << bits) / u64::from(*before))
        });
        ratios.min().unwrap_or(1 << bits).min(1 << bits)
    }

    /// One machine now offers `after` where it offered `before`.
    pub(crate) fn shift(&mut self, before: &[GroupValue], after: &[GroupValue]) {
        for (group, value) in before {
            self.usable[usize::from(*group)] -= value;
        }
        for (group, value) in after {
            self.usable[usize::from(*group)] += value;
        }
    }

    /// Whether prices stand where `usable` is usable for each group.
    pub(crate) fn stands(&self, usable: &[i64]) -> bool {
        let mut bounds = usable.iter().zip(&self.bounds);
        bounds.all(|(usable, [low, high])| usable >= low && usable <= high)
    }

    /// Sets prices anew if the usable compute of a group moved far enough; true if it did.
    pub(crate) fn settle(&mut self) -> bool {
        let moved = !self.stands(&self.usable);
        if moved {
            self.anchor_before.copy_from_slice(&self.anchor);
            self.anchor.copy_from_slice(&self.usable);
            self.set_prices();
        }
        moved
    }

    fn set_prices(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.prices_before.clone_from(&self.prices);
        for group in 0..self.anchor.len() {
            let base = self.anchor[group].max(self.floor[group]);
            let price = (i128::from(self.capacity[group]) << PRICE_UNIT_BITS) / i128::from(base);
            self.prices[group] = price.clamp(0, (1 << PRICE_BITS) - 1) as u32;
            let low = base - base / 2;
            self.bounds[group] = [
                if low <= self.floor[group] {
                    i64::MIN
                } else {
                    low
                },
                base.saturating_add(base / 2),
            ];
        }
    }
}
