//! What a sender pays for gas at most, as EIP-1559 has it.
//!
//! A transaction takes the gas of its kind. In a block with base fee `b` its sender pays `min(max_fee, b + max_tip)`
//! for each unit of gas: `b` is burned, the rest is the proposer's. It does not hold while `max_fee < b`.

use crate::amount::Amount;
use crate::fields;

/// How many times the base fee of now a wallet offers: a block that the base fee outruns is at least 20 s away, since
/// the base fee doubles in 10 s at most.
const MAX_FEE_FACTOR: u64 = 4;

/// A wallet tips a part of this many of the base fee: enough to go before those who tip nothing.
const TIP_PART: u64 = 10;

/// What a sender pays for each unit of gas at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fees {
    /// Base fee and tip together.
    pub max_fee_per_gas: Amount,
    /// The tip for the proposer.
    pub max_tip_per_gas: Amount,
}

impl Fees {
    /// Nothing: for kinds whose gas was paid before.
    pub const NONE: Self = Self::up_to(Amount::ZERO);

    /// For tests and networks labelled development, at 2,000 times their least base fee: a transfer costs 0.0021 TGRID at
    /// most. Wallets ask for the base fee and offer [`Fees::from_base_fee`].
    pub const DEVELOPMENT: Self = Self::up_to(Amount::new(100_000_000_000));

    /// A base fee up to `max_fee_per_gas`, and no tip.
    #[must_use]
    pub const fn up_to(max_fee_per_gas: Amount) -> Self {
        Self {
            max_fee_per_gas,
            max_tip_per_gas: Amount::ZERO,
        }
    }

    /// What a wallet offers while the base fee is `base_fee`: four times that, and a tenth of it as tip.
    #[must_use]
    pub const fn from_base_fee(base_fee: Amount) -> Self {
        Self {
            max_fee_per_gas: base_fee.saturating_mul(MAX_FEE_FACTOR),
            max_tip_per_gas: Amount::new(base_fee.get() / TIP_PART as u128),
        }
    }

    /// What of the offer is left for the proposer at a base fee; `None` if it is below the base fee.
    #[must_use]
    pub const fn tip(&self, base_fee: Amount) -> Option<Amount> {
        match self.max_fee_per_gas.checked_sub(base_fee) {
            Some(rest) if rest.get() < self.max_tip_per_gas.get() => Some(rest),
            Some(_) => Some(self.max_tip_per_gas),
            None => None,
        }
    }
}

fields! { Fees { max_fee_per_gas, max_tip_per_gas } }
