//! Logarithms, powers and roots that decide which programs are admitted and which parameters a proof has.
//!
//! The standard library's are the platform's, which may differ in the last digit: two validators would then derive other
//! parameters from one program. These are computed in software, the same everywhere.

/// log2 of a number.
pub(crate) fn log2(value: f64) -> f64 {
    libm::log2(value)
}

/// 2 to the power of a number.
pub(crate) fn exp2(value: f64) -> f64 {
    libm::exp2(value)
}

/// The root of a number.
pub(crate) fn sqrt(value: f64) -> f64 {
    libm::sqrt(value)
}

/// Minus log2 of a sum of errors, each given as minus its log2.
pub(crate) fn sum_bits(bits: impl Iterator<Item = f64>) -> f64 {
    -log2(bits.map(|bits| exp2(-bits)).sum::<f64>())
}
