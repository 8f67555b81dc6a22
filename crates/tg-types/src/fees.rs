//! The maximum that a sender pays for gas, as in EIP-1559.
//!
//! Each kind of transaction takes a fixed amount of gas. In a block with base fee `b` its sender pays
//! `min(max_fee, b + max_tip)` for each unit: `b` is burned, the rest goes to the proposer. While `max_fee < b` the
//! transaction is invalid.

use crate::amount::Amount;
use crate::fields;

/// How many times the base fee of now a wallet offers: a block that the base fee outruns is at least 20 s away, since
/// the base fee doubles in 10 s at most.
const MAX_FEE_FACTOR: u64 = 4;

/// A wallet tips a part of this many of the base fee: enough to go before those who tip nothing.
const TIP_PART: u64 = 10;

/// The least base fee of a network with the usual parameters, in base units for each unit of gas. What a client offers on a
/// stranger's word is bounded by multiples of it.
pub const BASE_FEE_USUAL: Amount = Amount::new(50_000_000);

/// The highest tip that is offered when an API states the base fee without proof: 0.0005 TGRID for an order. A tip is never returned,
/// whatever the base fee is; the block's proposer gets it.
const TIP_MAX: u128 = 100 * BASE_FEE_USUAL.get();

/// The highest fee for each unit of gas, tip included, that is offered when an API states the base fee without proof: 0.64 TGRID for an
/// order. If the real base fee is lower the sender pays less; to keep it that high costs 64 TGRID a block.
const MAX_FEE_MAX: u128 = 128_000 * BASE_FEE_USUAL.get();

/// The base fee that an API states is higher than what is paid without asking the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the base fee is said to be {told} TGRID for each unit of gas; {most} is paid at most")]
pub struct BaseFeeTooHigh {
    /// The base fee that was stated.
    pub told: Amount,
    /// The highest that is paid.
    pub most: Amount,
}

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

    /// The same for a base fee that a stranger told: the tip is 100 times, the whole 128,000 times the least base fee of a usual network at
    /// most. Who answers a wallet may lie, and be the proposer that gets the tip.
    ///
    /// # Errors
    /// If the base fee that was told is above that: what is offered would not be taken, or the answer is a lie.
    ///
    /// ```
    /// use tg_types::{Amount, Fees, BASE_FEE_USUAL};
    ///
    /// let usual = Fees::from_told_base_fee(BASE_FEE_USUAL).unwrap();
    /// assert_eq!(usual, Fees::from_base_fee(BASE_FEE_USUAL));
    /// assert!(Fees::from_told_base_fee(Amount::from_tgrid(1)).is_err());
    /// ```
    pub fn from_told_base_fee(told: Amount) -> Result<Self, BaseFeeTooHigh> {
        let most = Amount::new(MAX_FEE_MAX);
        if told > most {
            return Err(BaseFeeTooHigh { told, most });
        }
        let Self {
            max_fee_per_gas,
            max_tip_per_gas,
        } = Self::from_base_fee(told);
        Ok(Self {
            max_fee_per_gas: max_fee_per_gas.min(most),
            max_tip_per_gas: max_tip_per_gas.min(Amount::new(TIP_MAX)),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_told_base_fee_moves_no_more_than_the_bound() {
        // What a lie could gain without the bound: a tenth of the base fee that it names.
        let told = Amount::new(MAX_FEE_MAX);
        let fees = Fees::from_told_base_fee(told).expect("it is the bound");
        assert_eq!(fees.max_tip_per_gas, Amount::new(TIP_MAX));
        assert_eq!(fees.max_fee_per_gas, told);
        let above = told.saturating_add(Amount::new(1));
        let refused = BaseFeeTooHigh {
            told: above,
            most: told,
        };
        assert_eq!(Fees::from_told_base_fee(above), Err(refused));
        // Up to there it is what wallets offer.
        let busy = BASE_FEE_USUAL.saturating_mul(1_000);
        assert_eq!(
            Fees::from_told_base_fee(busy),
            Ok(Fees::from_base_fee(busy))
        );
    }
}
