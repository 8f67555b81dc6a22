//! Money: integer base units, 10^18 of which are one TGRID.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Decimal places of one TGRID.
const DECIMALS: usize = 18;

/// Base units of one TGRID.
const BASE_UNITS_PER_TGRID: u128 = 1_000_000_000_000_000_000;

/// Parts per million of a whole.
const PPM: u128 = 1_000_000;

/// An amount of money in base units. Arithmetic says what happens at the border: `checked_` or `saturating_`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(u128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The largest amount that can be written.
    pub const MAX: Self = Self(u128::MAX);

    /// An amount of base units.
    #[must_use]
    pub const fn new(base_units: u128) -> Self {
        Self(base_units)
    }

    /// An amount of whole TGRID.
    ///
    /// # Panics
    /// Never: 2^64 TGRID are fewer than 2^128 base units.
    #[must_use]
    pub const fn from_tgrid(tgrid: u64) -> Self {
        Self(tgrid as u128 * BASE_UNITS_PER_TGRID)
    }

    /// Base units.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` above [`Amount::MAX`].
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` below zero.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// The sum, at most [`Amount::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The product, at most [`Amount::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as u128))
    }

    /// `self * count / per`, rounded up, or `None` above [`Amount::MAX`] or if `per` is zero.
    #[must_use]
    pub const fn checked_mul_div_ceil(self, count: u64, per: u64) -> Option<Self> {
        if per == 0 {
            return None;
        }
        let (count, per) = (count as u128, per as u128);
        if per == 1 {
            return match self.0.checked_mul(count) {
                Some(product) => Some(Self(product)),
                None => None,
            };
        }
        if self.0 <= u64::MAX as u128 {
            // The product is below 2^128, so one division is enough.
            let product = self.0 * count;
            let whole = product / per;
            return Some(Self(whole + (product > whole * per) as u128));
        }
        // self = whole * per + rest, so the product is whole * count + rest * count / per, and the
        // second product has both factors below 2^64.
        let Some(whole) = (self.0 / per).checked_mul(count) else {
            return None;
        };
        match whole.checked_add(((self.0 % per) * count).div_ceil(per)) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }

    /// The given parts per million of the amount, rounded up. More than 10^6 parts count as 10^6.
    #[must_use]
    pub const fn ppm_ceil(self, parts: u32) -> Self {
        let parts = if parts as u128 > PPM {
            PPM
        } else {
            parts as u128
        };
        if parts == PPM {
            return self;
        }
        Self((self.0 / PPM) * parts + ((self.0 % PPM) * parts).div_ceil(PPM))
    }

    /// Splits into `count` equal shares and what is left over, or `None` if `count` is zero.
    #[must_use]
    pub const fn split(self, count: u32) -> Option<(Self, Self)> {
        if count == 0 {
            return None;
        }
        Some((Self(self.0 / count as u128), Self(self.0 % count as u128)))
    }
}

impl std::fmt::Display for Amount {
    /// Decimal TGRID without trailing zeros, for example `1.5` or `0.000001`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = self.0 / BASE_UNITS_PER_TGRID;
        let rest = self.0 % BASE_UNITS_PER_TGRID;
        if rest == 0 {
            return f.pad(&whole.to_string());
        }
        let digits = format!("{rest:0DECIMALS$}");
        f.pad(&format!("{whole}.{}", digits.trim_end_matches('0')))
    }
}

impl std::fmt::Debug for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Amount({self} TGRID)")
    }
}

/// Why a text is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseAmountError {
    /// Something else than digits around at most one point.
    #[error("an amount is written as decimal digits, for example 1.5")]
    NotDecimal,
    /// More decimal places than base units have.
    #[error("an amount has at most 18 decimal places, this one has {places}")]
    TooFine {
        /// How many places were given.
        places: usize,
    },
    /// More than can be written.
    #[error("an amount is at most 340282366920938463463.374607431768211455")]
    TooLarge,
}

impl std::str::FromStr for Amount {
    type Err = ParseAmountError;

    /// Reads decimal TGRID, for example `1.5`, exactly: nothing is rounded.
    fn from_str(text: &str) -> Result<Self, ParseAmountError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(ParseAmountError::NotDecimal);
        }
        if fraction.len() > DECIMALS {
            return Err(ParseAmountError::TooFine {
                places: fraction.len(),
            });
        }
        let whole: u128 = whole.parse().map_err(|_| ParseAmountError::TooLarge)?;
        let fraction: u128 = format!("{fraction:0<DECIMALS$}")
            .parse()
            .map_err(|_| ParseAmountError::NotDecimal)?;
        whole
            .checked_mul(BASE_UNITS_PER_TGRID)
            .and_then(|units| units.checked_add(fraction))
            .map(Self)
            .ok_or(ParseAmountError::TooLarge)
    }
}

impl Encode for Amount {
    fn encode(&self, writer: &mut Writer) {
        writer.u128(self.0);
    }
}

impl Decode for Amount {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.u128()?))
    }
}
