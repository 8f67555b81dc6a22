//! The functions of TGF-1: polynomials in a fixed order, the same bits on every machine.
//!
//! The ones that layers run hot ([`exp`], [`ln`], [`tanh`], [`sigmoid`], [`erf`]) are computed in binary32; the others
//! in binary64 ([`wide`]) and rounded once. Errors against the exact value, held by the tests:
//!
//! | function | largest error (units in the last place) |
//! |---|---|
//! | `exp`, `ln`, `erf` | 1.5 |
//! | `tanh` | 2 |
//! | `sigmoid` | 2.5 |
//! | all others | 0.501 (`pow` 0.51) |

#[cfg(test)]
mod tests;
pub mod wide;

use crate::tensor::NAN_F32;

/// 3/2 * 2^23: adding it rounds to an integer, ties to even.
const ROUNDER: f32 = 12_582_912.0;

/// Wrapping, here and in [`exp`]: a check for overflow, which cannot occur, would keep loops from being vectorised.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

/// e^x.
#[must_use]
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity whatever x is.
    let low = if x < -104.0 { -104.0 } else { x };
    let clamped = if low > 89.0 { 89.0 } else { low };
    let rounded = f32::mul_add(clamped, std::f32::consts::LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = f32::mul_add(n, -0.693_359_4, clamped);
    let r = f32::mul_add(n, 2.121_944_4e-4, r);
    let mut tail = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        tail = f32::mul_add(tail, r, coefficient);
    }
    let value = f32::mul_add(tail, r * r, r) + 1.0;
    // Two factors, so that each is normal; only the last product rounds.
    let exponent = (rounded.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let exponent = if x.is_nan() { 0 } else { exponent };
    let half = exponent >> 1;
    let result = value * power_of_two(half) * power_of_two(exponent.wrapping_sub(half));
    if x.is_nan() { NAN_F32 } else { result }
}

/// Natural logarithm.
#[must_use]
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // The mantissa in [sqrt 1/2, sqrt 2).
    let exponent = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23));
    let n = exponent as f32 - if subnormal { 23.0 } else { 0.0 };
    let f = mantissa - 1.0;
    let z = f * f;
    let mut tail = 7.037_683_6e-2;
    for coefficient in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        tail = f32::mul_add(tail, f, coefficient);
    }
    let low = f32::mul_add(tail, f * z, n * -2.121_944_4e-4);
    let low = f32::mul_add(z, -0.5, low);
    let result = f32::mul_add(n, 0.693_359_4, f + low);
    let special = if x == 0.0 {
        f32::NEG_INFINITY
    } else if x == f32::INFINITY {
        f32::INFINITY
    } else {
        NAN_F32
    };
    if x > 0.0 && x < f32::INFINITY {
        result
    } else {
        special
    }
}

/// Hyperbolic tangent.
#[must_use]
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let far = 1.0 - 2.0 / (exp(magnitude + magnitude) + 1.0);
    let z = x * x;
    let mut tail = -5.704_988_7e-3;
    for coefficient in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        tail = f32::mul_add(tail, z, coefficient);
    }
    let near = f32::mul_add(tail, z * x, x).copysign(x);
    let result = if magnitude < 0.625 {
        near
    } else {
        far.copysign(x)
    };
    if x.is_nan() { NAN_F32 } else { result }
}

/// 1 / (1 + e^-x).
#[must_use]
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // e^-|x| never overflows, and the small side keeps its relative accuracy.
    let small = exp(-x.abs());
    let top = if x < 0.0 { small } else { 1.0 };
    let result = top / (1.0 + small);
    if x.is_nan() { NAN_F32 } else { result }
}

/// Error function.
#[must_use]
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let mut near = -5.967_617e-4;
    for coefficient in [
        4.991_194_2e-3,
        -2.676_813_5e-2,
        1.128_199_25e-1,
        -3.761_253_4e-1,
        1.283_791_7e-1,
    ] {
        near = f32::mul_add(near, s, coefficient);
    }
    let near = f32::mul_add(near, x, x);
    let high = f32::mul_add(-1.728_534_7e-5, t, 3.831_972_6e-4);
    let low = f32::mul_add(-3.883_964_4e-3, t, 2.425_462_2e-2);
    let mut far = f32::mul_add(high, s, low);
    for coefficient in [-1.067_778_8e-1, -6.348_467e-1, -1.287_175_1e-1] {
        far = f32::mul_add(far, t, coefficient);
    }
    let far = f32::mul_add(far, t, -t);
    let far = (1.0 - exp(far)).copysign(x);
    // Beyond 4 the result is 1; the polynomial is not asked there.
    let far = if t > 4.0 { 1f32.copysign(x) } else { far };
    let result = if t > 0.927_734_4 { far } else { near };
    if x.is_nan() { NAN_F32 } else { result }
}

macro_rules! rounded {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(x: f32) -> f32 {
            crate::convert::canonical(wide::$name(x.into()) as f32)
        }
    )*};
}

rounded! {
    /// e^x - 1.
    exp_m1;
    /// ln(1 + x).
    ln_1p;
    /// Sine.
    sin;
    /// Cosine.
    cos;
    /// Tangent.
    tan;
    /// Arc sine.
    asin;
    /// Arc cosine.
    acos;
    /// Arc tangent.
    atan;
    /// Hyperbolic sine.
    sinh;
    /// Hyperbolic cosine.
    cosh;
    /// Inverse hyperbolic sine.
    asinh;
    /// Inverse hyperbolic cosine.
    acosh;
    /// Inverse hyperbolic tangent.
    atanh;
}

/// x^y; squares, cubes, square roots and reciprocals are computed as such.
#[must_use]
#[inline]
pub fn pow(x: f32, y: f32) -> f32 {
    if y == 2.0 {
        return crate::convert::canonical(x * x);
    }
    if y == 3.0 {
        return crate::convert::canonical(x * x * x);
    }
    crate::convert::canonical(wide::pow(x.into(), y.into()) as f32)
}
