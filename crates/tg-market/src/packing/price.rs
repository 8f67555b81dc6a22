//! What the compute that a group of classes can use is worth, and how long that stands.

/// Prices have at most this many bits.
pub const PRICE_BITS: u32 = 20;

/// A price of `1 << PRICE_UNIT_BITS` says that all of the cluster is usable.
pub const PRICE_UNIT_BITS: u32 = 10;

/// The prices that follow from the usable compute of each group over the whole cluster.
///
/// A price is capacity over usable compute. Prices stand still until the usable compute of some group leaves the
/// interval of 1/2 to 3/2 of what it was when they were set; then all are set anew. So they are a function of what they
/// were set from, which is part of the market's state, and not of how often anybody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceBook {
    prices: Vec<u32>,
    /// Within these bounds of what is usable the prices stand.
    bounds: Vec<[i64; 2]>,
}

impl PriceBook {
    /// Prices for `capacity_milli` thousandths of GPUs, from the weight of each group and what is usable for it, summed over
    /// all machines.
    #[must_use]
    pub fn new(capacity_milli: u64, weights: impl Iterator<Item = u64>, usable: &[i64]) -> Self {
        let of_group = weights.zip(usable).map(|(weight, usable)| {
            let product = u128::from(weight) * u128::from(capacity_milli);
            let capacity = i64::try_from(product).unwrap_or(i64::MAX);
            // What counts at least: the price of a group that has nothing left is finite.
            let floor = (capacity >> (PRICE_BITS - PRICE_UNIT_BITS)) + 1;
            let base = (*usable).max(floor);
            let price = (i128::from(capacity) << PRICE_UNIT_BITS) / i128::from(base);
            let low = match base - base / 2 {
                low if low <= floor => i64::MIN,
                low => low,
            };
            let high = base.saturating_add(base / 2);
            (price.clamp(0, (1 << PRICE_BITS) - 1) as u32, [low, high])
        });
        let (prices, bounds) = of_group.unzip();
        Self { prices, bounds }
    }

    /// The price of each group.
    #[must_use]
    pub fn prices(&self) -> &[u32] {
        &self.prices
    }

    /// Whether prices stand where `usable` is usable for each group.
    #[must_use]
    pub fn stands(&self, usable: &[i64]) -> bool {
        let mut bounds = usable.iter().zip(&self.bounds);
        bounds.all(|(usable, [low, high])| usable >= low && usable <= high)
    }
}
