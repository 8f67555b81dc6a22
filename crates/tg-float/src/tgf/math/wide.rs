//! The functions in binary64, from arithmetic, fused multiply-add and square root only.
//!
//! Used for `f64` tensors, and rounded once to `f32` for the functions that layers seldom need. Relative error at most
//! 2^-50 where the result is normal (tests), `pow` 2^-40.

use crate::tensor::NAN_F64;

/// ln 2: the first 32 bits, so that a multiple of it up to 2^20 is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
/// ln 2 - [`LN2_HIGH`].
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 3/2 * 2^52: adding it rounds to an integer, ties to even.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `value * 2^exponent` for |exponent| <= 2,044, rounded once.
#[inline(always)]
fn scale(value: f64, exponent: i64) -> f64 {
    let half = exponent >> 1;
    value * power_of_two(half) * power_of_two(exponent - half)
}

#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = 0.0;
    for coefficient in coefficients {
        sum = f64::mul_add(sum, x, coefficient);
    }
    sum
}

/// `(e^r - 1 - r) / r^2`, |r| <= 0.4.
#[inline(always)]
fn exp_tail(r: f64) -> f64 {
    polynomial(
        r,
        [
            1.0 / 87_178_291_200.0,
            1.0 / 6_227_020_800.0,
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
        ],
    )
}

/// e^x.
#[must_use]
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let clamped = x.clamp(-746.0, 710.0);
    let rounded = f64::mul_add(clamped, std::f64::consts::LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = f64::mul_add(-n, LN2_HIGH, clamped);
    let r = f64::mul_add(-n, LN2_LOW, r);
    let value = f64::mul_add(r * r, exp_tail(r), r) + 1.0;
    let result = scale(value, n as i64);
    if x.is_nan() { NAN_F64 } else { result }
}

/// e^x - 1.
#[must_use]
#[inline(always)]
pub fn exp_m1(x: f64) -> f64 {
    let near = f64::mul_add(x * x, exp_tail(x), x);
    let far = exp(x) - 1.0;
    if x == 0.0 {
        x
    } else if x.abs() < 0.4 {
        near
    } else {
        far
    }
}

/// Natural logarithm.
#[must_use]
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    // Subnormals are scaled into the normal range.
    let (scaled, shift) = if x < f64::MIN_POSITIVE {
        (x * 18_014_398_509_481_984.0, -54.0)
    } else {
        (x, 0.0)
    };
    let bits = scaled.to_bits();
    // The mantissa in [sqrt 1/2, sqrt 2).
    let offset = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (offset as i64) >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    let n = exponent as f64 + shift;
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let tail = polynomial(
        z,
        [
            2.0 / 23.0,
            2.0 / 21.0,
            2.0 / 19.0,
            2.0 / 17.0,
            2.0 / 15.0,
            2.0 / 13.0,
            2.0 / 11.0,
            2.0 / 9.0,
            2.0 / 7.0,
            2.0 / 5.0,
            2.0 / 3.0,
        ],
    );
    // ln m = f - (hfsq - s (hfsq + z tail)) keeps the leading term m - 1 exact.
    let f = mantissa - 1.0;
    let half_square = 0.5 * f * f;
    let correction = half_square - s * (half_square + z * tail);
    let result = f64::mul_add(n, LN2_HIGH, f - (correction - n * LN2_LOW));
    if x > 0.0 && x < f64::INFINITY {
        result
    } else if x == 0.0 {
        f64::NEG_INFINITY
    } else if x == f64::INFINITY {
        x
    } else {
        NAN_F64
    }
}

/// ln(1 + x).
#[must_use]
#[inline(always)]
pub fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let lost = if x > 1.0 {
        1.0 - (u - x)
    } else {
        x - (u - 1.0)
    };
    let result = ln(u) + lost / u;
    if x == 0.0 || x == f64::INFINITY {
        x
    } else if u == 0.0 {
        f64::NEG_INFINITY
    } else {
        result
    }
}

/// The first 1,280 bits of 2/pi.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// 64 bits of 2/pi from bit `position` after the point.
fn two_over_pi(position: i64) -> u64 {
    let word = |index: i64| {
        let index = usize::try_from(index).ok();
        index
            .and_then(|index| TWO_OVER_PI.get(index))
            .copied()
            .unwrap_or(0)
    };
    let (index, shift) = (position.div_euclid(64), position.rem_euclid(64));
    if shift == 0 {
        word(index)
    } else {
        (word(index) << shift) | (word(index + 1) >> (64 - shift))
    }
}

/// Quadrant and rest in [-pi/4, pi/4] of a finite angle.
#[inline(always)]
fn reduce(x: f64) -> (i64, f64) {
    if x.abs() < 524_288.0 {
        let rounded = f64::mul_add(x, std::f64::consts::FRAC_2_PI, ROUNDER);
        let n = rounded - ROUNDER;
        let r = f64::mul_add(-n, 1.570_796_326_734_125_6, x);
        let r = f64::mul_add(-n, 6.077_100_506_303_966e-11, r);
        let r = f64::mul_add(-n, 2.022_266_248_795_950_6e-21, r);
        (n as i64, r)
    } else {
        reduce_large(x)
    }
}

/// Payne and Hanek: multiplies the mantissa with the bits of 2/pi that matter.
fn reduce_large(x: f64) -> (i64, f64) {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1075;
    let mantissa = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
    // x = mantissa * 2^exponent. Bits of 2/pi before `exponent - 2` only add multiples of four quadrants.
    let start = exponent - 2;
    let high = u128::from(two_over_pi(start));
    let middle = u128::from(two_over_pi(start + 64));
    let low = u128::from(two_over_pi(start + 128));
    // Fixed point: two bits of quadrant above 126 bits of fraction.
    let carry = (mantissa * low) >> 64;
    let product = mantissa
        .wrapping_mul(high)
        .wrapping_shl(64)
        .wrapping_add(mantissa.wrapping_mul(middle))
        .wrapping_add(carry);
    let mut quadrant = (product >> 126) as i64;
    let fraction = (product << 2) as i128;
    // As a signed number the fraction is in [-1/2, 1/2); a negative one belongs to the next quadrant.
    if fraction < 0 {
        quadrant += 1;
    }
    let turns = fraction as f64 * power_of_two(-128);
    let r = turns * std::f64::consts::FRAC_PI_2;
    if x < 0.0 {
        (-quadrant, -r)
    } else {
        (quadrant, r)
    }
}

#[inline(always)]
fn sin_near(r: f64) -> f64 {
    let z = r * r;
    let tail = polynomial(
        z,
        [
            1.0 / 355_687_428_096_000.0,
            -1.0 / 1_307_674_368_000.0,
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5_040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
        ],
    );
    f64::mul_add(r * z, tail, r)
}

#[inline(always)]
fn cos_near(r: f64) -> f64 {
    let z = r * r;
    let tail = polynomial(
        z,
        [
            1.0 / 20_922_789_888_000.0,
            -1.0 / 87_178_291_200.0,
            1.0 / 479_001_600.0,
            -1.0 / 3_628_800.0,
            1.0 / 40_320.0,
            -1.0 / 720.0,
            1.0 / 24.0,
        ],
    );
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + ((1.0 - w - half) + z * z * tail)
}

/// Sine.
#[must_use]
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    if !x.is_finite() {
        return NAN_F64;
    }
    let (quadrant, r) = reduce(x);
    let value = if quadrant & 1 == 0 {
        sin_near(r)
    } else {
        cos_near(r)
    };
    let value = if quadrant & 2 == 0 { value } else { -value };
    if x == 0.0 { x } else { value }
}

/// Cosine.
#[must_use]
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    if !x.is_finite() {
        return NAN_F64;
    }
    let (quadrant, r) = reduce(x);
    let value = if quadrant & 1 == 0 {
        cos_near(r)
    } else {
        sin_near(r)
    };
    if (quadrant + 1) & 2 == 0 {
        value
    } else {
        -value
    }
}

/// Tangent.
#[must_use]
pub fn tan(x: f64) -> f64 {
    if !x.is_finite() {
        return NAN_F64;
    }
    let (quadrant, r) = reduce(x);
    let (sin, cos) = (sin_near(r), cos_near(r));
    let value = if quadrant & 1 == 0 {
        sin / cos
    } else {
        -cos / sin
    };
    if x == 0.0 { x } else { value }
}

/// Arc tangents of multiples of 1/16.
const ARC_TANGENTS: [f64; 17] = [
    0.0,
    0.062_418_809_995_957_35,
    0.124_354_994_546_761_44,
    0.185_347_949_995_694_76,
    0.244_978_663_126_864_14,
    0.302_884_868_374_971_4,
    0.358_770_670_270_572_25,
    0.412_410_441_597_387_3,
    0.463_647_609_000_806_1,
    0.512_389_460_310_737_7,
    0.558_599_315_343_562_4,
    0.602_287_346_134_964_2,
    0.643_501_108_793_284_4,
    0.682_316_554_874_748_1,
    0.718_829_999_621_624_5,
    0.753_151_280_962_194_4,
    std::f64::consts::FRAC_PI_4,
];

/// Arc tangent.
#[must_use]
pub fn atan(x: f64) -> f64 {
    if x.is_nan() {
        return NAN_F64;
    }
    let magnitude = x.abs();
    let inverted = magnitude > 1.0;
    let small = if inverted { 1.0 / magnitude } else { magnitude };
    let index = ((small * 16.0).round_ties_even() as usize).min(16);
    let centre = index as f64 / 16.0;
    let t = (small - centre) / f64::mul_add(small, centre, 1.0);
    let z = t * t;
    let tail = polynomial(
        z,
        [
            1.0 / 13.0,
            -1.0 / 11.0,
            1.0 / 9.0,
            -1.0 / 7.0,
            1.0 / 5.0,
            -1.0 / 3.0,
        ],
    );
    let angle = ARC_TANGENTS[index] + f64::mul_add(t * z, tail, t);
    let angle = if inverted {
        std::f64::consts::FRAC_PI_2 - angle
    } else {
        angle
    };
    angle.copysign(x)
}

/// Arc sine.
#[must_use]
pub fn asin(x: f64) -> f64 {
    if x.abs() > 1.0 || x.is_nan() {
        return NAN_F64;
    }
    let adjacent = ((1.0 - x) * (1.0 + x)).sqrt();
    2.0 * atan(x / (1.0 + adjacent))
}

/// Arc cosine.
#[must_use]
pub fn acos(x: f64) -> f64 {
    if x.abs() > 1.0 || x.is_nan() {
        return NAN_F64;
    }
    2.0 * atan(((1.0 - x) / (1.0 + x)).sqrt())
}

/// Hyperbolic sine.
#[must_use]
pub fn sinh(x: f64) -> f64 {
    let magnitude = x.abs();
    let value = if magnitude < 22.0 {
        let less_one = exp_m1(magnitude);
        0.5 * (less_one + less_one / (less_one + 1.0))
    } else {
        // Half of the exponent first: e^x overflows before sinh x does.
        let half = exp(0.5 * magnitude);
        0.5 * half * half
    };
    if x.is_nan() {
        NAN_F64
    } else {
        value.copysign(x)
    }
}

/// Hyperbolic cosine.
#[must_use]
pub fn cosh(x: f64) -> f64 {
    let half = exp(0.5 * x.abs());
    let value = if x.abs() < 22.0 {
        let whole = exp(x.abs());
        0.5 * (whole + 1.0 / whole)
    } else {
        0.5 * half * half
    };
    if x.is_nan() { NAN_F64 } else { value }
}

/// Hyperbolic tangent.
#[must_use]
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let less_one = exp_m1(2.0 * x.abs().min(32.0));
    let value = less_one / (less_one + 2.0);
    if x.is_nan() {
        NAN_F64
    } else {
        value.copysign(x)
    }
}

/// Inverse hyperbolic sine.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    let magnitude = x.abs();
    let value = if magnitude > 1e8 {
        ln(magnitude) + std::f64::consts::LN_2
    } else {
        let square = magnitude * magnitude;
        ln_1p(magnitude + square / (1.0 + (1.0 + square).sqrt()))
    };
    if x.is_nan() {
        NAN_F64
    } else {
        value.copysign(x)
    }
}

/// Inverse hyperbolic cosine.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 || x.is_nan() {
        NAN_F64
    } else if x > 1e8 {
        ln(x) + std::f64::consts::LN_2
    } else {
        let t = x - 1.0;
        ln_1p(t + (2.0 * t + t * t).sqrt())
    }
}

/// Inverse hyperbolic tangent.
#[must_use]
pub fn atanh(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude > 1.0 || x.is_nan() {
        return NAN_F64;
    }
    let value = 0.5 * ln_1p(2.0 * magnitude / (1.0 - magnitude));
    value.copysign(x)
}

/// Error function.
#[must_use]
pub fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if x.is_nan() {
        return NAN_F64;
    }
    let value = if magnitude < 3.0 {
        // All terms are positive: 2 x e^(-x^2) / sqrt(pi) * sum of (2 x^2)^n / (2n + 1)!!.
        let step = 2.0 * magnitude * magnitude;
        let (mut term, mut sum) = (1.0, 1.0);
        for n in 1..80u32 {
            term *= step / f64::from(2 * n + 1);
            sum += term;
        }
        magnitude * exp(-magnitude * magnitude) * sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        1.0 - erfc_far(magnitude)
    };
    value.copysign(x)
}

/// 1 - erf x for x >= 3, by the continued fraction.
fn erfc_far(x: f64) -> f64 {
    if x > 28.0 {
        return 0.0;
    }
    let mut fraction = 0.0;
    for n in (1..60u32).rev() {
        fraction = 0.5 * f64::from(n) / (x + fraction);
    }
    exp(-x * x) / ((x + fraction) * std::f64::consts::PI.sqrt())
}

/// x^y, as IEEE 754 defines its special cases. Squares, cubes, square roots and reciprocals are computed as such.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return NAN_F64;
    }
    if y == 1.0 {
        return x;
    }
    if y == 2.0 {
        return x * x;
    }
    if y == 3.0 {
        return x * x * x;
    }
    if y == 0.5 && x > 0.0 {
        return x.sqrt();
    }
    if y == -1.0 {
        return 1.0 / x;
    }
    let whole = y.round_ties_even() == y;
    if whole && y.abs() <= 64.0 && x.is_finite() && x != 0.0 {
        let power = whole_power(x, y.abs() as u32);
        return if y < 0.0 { 1.0 / power } else { power };
    }
    let odd = whole && y.abs() < 9_007_199_254_740_992.0 && (y as i64) & 1 == 1;
    if x < 0.0 && x.is_finite() && y.is_finite() && !whole {
        return NAN_F64;
    }
    let magnitude = x.abs();
    let value = if magnitude == 1.0 {
        1.0
    } else if magnitude == 0.0 || magnitude.is_infinite() || y.is_infinite() {
        if (magnitude < 1.0) == (y < 0.0) {
            f64::INFINITY
        } else {
            0.0
        }
    } else {
        exp(y * ln(magnitude))
    };
    if x.is_sign_negative() && odd {
        -value
    } else {
        value
    }
}

/// Squares and multiplies; exact as long as the products are.
fn whole_power(x: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, x, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        left >>= 1;
        if left > 0 {
            square *= square;
        }
    }
    result
}
