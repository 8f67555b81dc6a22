//! Rescale, the only requantisation of TGX-1: `y = (x * m + 2^(s-1)) >> s`, in 64 bits, arithmetic shift.
//!
//! This is Arm TOSA's single-round RESCALE with zero points 0 (round half up). `docs/PROTOCOL.md`, section TGX-1.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Multipliers are below 2^15, so that `x * m` fits 64 bits for every accumulator and 15-bit limbs suffice.
pub const MULTIPLIER_MAX: u32 = (1 << 15) - 1;
/// Smallest shift.
pub const SHIFT_MIN: u32 = 2;
/// Largest shift: `|x| m < 2^45`, so that any larger one rounds everything to 0.
pub const SHIFT_MAX: u32 = 46;

/// One multiplier and shift: a real factor of `multiplier / 2^shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rescale {
    multiplier: u32,
    shift: u32,
}

impl Rescale {
    /// A rescale by `multiplier / 2^shift`, or nothing if either is out of its range.
    #[must_use]
    pub const fn new(multiplier: u32, shift: u32) -> Option<Self> {
        if multiplier >= 1
            && multiplier <= MULTIPLIER_MAX
            && shift >= SHIFT_MIN
            && shift <= SHIFT_MAX
        {
            Some(Self { multiplier, shift })
        } else {
            None
        }
    }

    /// The multiplier `m`, in [1, 2^15).
    #[must_use]
    pub const fn multiplier(&self) -> u32 {
        self.multiplier
    }

    /// The shift `s`, in [2, 46].
    #[must_use]
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// The closest rescale to a positive real factor, or nothing if none is within a relative error of 2^-12.
    #[must_use]
    pub fn nearest(factor: f64) -> Option<Self> {
        (SHIFT_MIN..=SHIFT_MAX).rev().find_map(|shift| {
            let scaled = (factor * 2f64.powi(shift.cast_signed())).round();
            if !(1.0..=f64::from(MULTIPLIER_MAX)).contains(&scaled) {
                return None;
            }
            let error = (scaled / 2f64.powi(shift.cast_signed()) / factor - 1.0).abs();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within [1, 2^15)"
            )]
            let multiplier = scaled as u32;
            (error < 2f64.powi(-12)).then_some(Self { multiplier, shift })
        })
    }

    /// The rescaled value, not clamped.
    #[must_use]
    pub const fn apply(&self, x: i64) -> i64 {
        (x * self.multiplier as i64 + (1i64 << (self.shift - 1))) >> self.shift
    }

    /// The least `x` with `apply(x) >= y`.
    #[must_use]
    pub const fn threshold(&self, y: i64) -> i64 {
        let numerator = (y << self.shift) - (1i64 << (self.shift - 1));
        let m = self.multiplier as i64;
        numerator.div_euclid(m) + if numerator.rem_euclid(m) == 0 { 0 } else { 1 }
    }
}

impl Encode for Rescale {
    fn encode(&self, writer: &mut Writer) {
        let Self { multiplier, shift } = *self;
        writer.u32(multiplier);
        writer.u32(shift);
    }
}

impl Decode for Rescale {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (multiplier, shift) = (reader.u32()?, reader.u32()?);
        Self::new(multiplier, shift).ok_or(DecodeError::Invalid {
            field: "rescale",
            value: u64::from(multiplier) << 32 | u64::from(shift),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn threshold_is_the_least_preimage(m in 1u32..=MULTIPLIER_MAX, s in SHIFT_MIN..=32, y in -300i64..300) {
            let rescale = Rescale::new(m, s).expect("in range");
            let threshold = rescale.threshold(y);
            prop_assert!(rescale.apply(threshold) >= y);
            prop_assert!(rescale.apply(threshold - 1) < y);
        }

        #[test]
        fn nearest_is_close(factor in 1e-6f64..100.0) {
            let rescale = Rescale::nearest(factor).expect("representable");
            let back = f64::from(rescale.multiplier()) / 2f64.powi(rescale.shift().cast_signed());
            prop_assert!((back / factor - 1.0).abs() < 1e-3);
        }
    }
}
