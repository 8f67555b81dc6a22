//! What a unit of capacity costs: prices that follow demand, tiers, and the usual maximum price of an order.
//!
//! Each block the controller compares what is used and waited for with a target share of the capacity and moves the
//! price by at most [`STEP_MAX_PPM`], in proportion to the distance. Within [`DEADBAND_PPM`] of the target it rests.
//! With demand whose elasticity is at most eight, a step of load is followed without oscillation: the gain is an
//! eighth, so each step takes away at most the distance to the target (a test runs it).

use std::collections::BTreeMap;

use tg_types::{Address, Amount};

/// Share of the capacity that should be used, in millionths.
pub const TARGET_PPM: u64 = 850_000;

/// Most that a price moves in one block, in millionths.
pub const STEP_MAX_PPM: u64 = 20_000;

/// Distance to the target at which the price rests, in millionths of the capacity.
pub const DEADBAND_PPM: u64 = 20_000;

/// The controller answers a distance with this part of it.
const GAIN_DIVISOR: u64 = 8;

/// The maximum price of an order that names none: twice what the `attempts`-th cheapest owner asks, or the dearest if
/// there are fewer. `asks` are those of the offers that could serve the order, with their owners.
///
/// An order may have so many leases, and an owner that fails one gets no other. So as long as fewer owners than that bid
/// under the others without serving, the next lease finds somebody within the price, and each of them costs the order
/// one start timeout and no more. It counts owners and not offers, because one owner may post many. Nobody can raise it
/// far either: the order goes to the cheapest that fits whatever its maximum is, and what stands above the cheapest
/// `attempts` owners counts for nothing. Twice, because prices move while the order waits.
///
/// ```
/// # use tg_market::pricing::usual_max_price;
/// # use tg_types::{Address, Amount};
/// let asks = [(1, 1), (2, 100), (3, 110), (4, 120)];
/// let asks = asks.map(|(owner, ask)| (Address::new([owner; 20]), Amount::new(ask)));
/// assert_eq!(usual_max_price(asks.into_iter(), 3), Some(Amount::new(220)));
/// ```
#[must_use]
pub fn usual_max_price(
    asks: impl Iterator<Item = (Address, Amount)>,
    attempts: u8,
) -> Option<Amount> {
    let mut owners: BTreeMap<Address, Amount> = BTreeMap::new();
    for (owner, ask) in asks {
        let least = owners.entry(owner).or_insert(ask);
        *least = ask.min(*least);
    }
    let mut asks: Vec<Amount> = owners.into_values().collect();
    asks.sort_unstable();
    asks.truncate(usize::from(attempts.max(1)));
    let ask = *asks.last()?;
    Some(ask.saturating_add(ask))
}

/// What a class of capacity sees in one block, in units of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Units there are.
    pub capacity: u64,
    /// Units in use.
    pub used: u64,
    /// Units waited for.
    pub queued: u64,
}

/// Price of a unit of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicPrice {
    price: Amount,
    low: Amount,
    high: Amount,
}

impl DynamicPrice {
    /// A price between `low` and `high`; one below `low` counts as `low`, and `high` below `low` as `low`.
    #[must_use]
    pub fn new(price: Amount, low: Amount, high: Amount) -> Self {
        let high = high.max(low);
        Self {
            price: price.clamp(low, high),
            low,
            high,
        }
    }

    /// The price now.
    #[must_use]
    pub const fn price(&self) -> Amount {
        self.price
    }

    /// Moves the price by one block's load. Without capacity it stays.
    pub fn step(&mut self, load: &Load) {
        if load.capacity == 0 {
            return;
        }
        let wanted = u128::from(load.used) + u128::from(load.queued);
        let wanted_ppm = wanted * 1_000_000 / u128::from(load.capacity);
        let wanted_ppm = u64::try_from(wanted_ppm).unwrap_or(u64::MAX);
        let distance = wanted_ppm.abs_diff(TARGET_PPM);
        if distance <= DEADBAND_PPM {
            return;
        }
        let step_ppm = (distance / GAIN_DIVISOR).min(STEP_MAX_PPM) as u32;
        let step = self.price.ppm_ceil(step_ppm).max(Amount::new(1));
        let moved = if wanted_ppm > TARGET_PPM {
            self.price.saturating_add(step)
        } else {
            self.price.saturating_sub(step)
        };
        self.price = moved.clamp(self.low, self.high);
    }
}

/// What a requestor may count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceTier {
    /// May be pushed out after a grace for a checkpoint.
    Spot,
    /// Runs until it is done.
    OnDemand,
    /// Paid for whether used or not.
    Reserved,
}

impl PriceTier {
    /// Price of this tier in millionths of the on-demand price.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        match self {
            Self::Spot => 400_000,
            Self::OnDemand => 1_000_000,
            Self::Reserved => 700_000,
        }
    }

    /// Price of a unit in this tier, rounded up.
    #[must_use]
    pub fn price(self, on_demand: Amount) -> Amount {
        on_demand.ppm_ceil(self.ppm())
    }
}
