//! What integers of an execution are within.

/// B = (p - 1) / 2 for the KoalaBear prime: the greatest absolute value that has one representative.
pub const FIELD_BOUND: i64 = 1_065_353_216;
/// Greatest absolute value of an i8 activation.
pub const ACTIVATION_MAX: i64 = 128;
/// Greatest absolute value of an i16 activation.
pub const WIDE_ACTIVATION_MAX: i64 = 32_767;

/// Weights lie in [-127, 127].
pub const WEIGHT_MAX: i32 = 127;
/// Digits of a bias: balanced base 255, each digit in the range of a weight, so that one range proof serves both.
pub const BIAS_DIGITS: usize = 3;
/// The base of the bias digits.
pub const BIAS_BASE: i32 = 255;
/// Greatest absolute value of a bias: (255^3 - 1) / 2.
pub const BIAS_MAX: i32 = (BIAS_BASE * BIAS_BASE * BIAS_BASE - 1) / 2;
