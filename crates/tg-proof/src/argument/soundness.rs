//! What an error is: the terms of a security report, and the theorem that folds are charged by.

use crate::algebra::field::E;
use crate::algebra::numbers::{exp2, log2, sqrt};
use p3_field::Field;

/// Least composed security of a proof and of a registration in bits.
pub const LEVEL: u32 = 100;

/// One source of error.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorTerm {
    /// What may go wrong.
    pub label: String,
    /// Where the bound comes from.
    pub source: &'static str,
    /// Minus log2 of its probability.
    pub bits: f64,
    /// The same with folds charged by the theorem before, [`BEFORE`]; for what is no fold it is the same.
    pub bits_before: f64,
}

impl ErrorTerm {
    /// What no fold is part of.
    pub(crate) const fn new(label: String, source: &'static str, bits: f64) -> Self {
        Self {
            label,
            source,
            bits,
            bits_before: bits,
        }
    }
}

/// The theorem that folds within the Johnson bound are charged by, which decides what is admitted.
pub const FOLDS: &str = "folds: ePrint 2026/2056 (DKT26), theorem 5.12, with the library's own extension from lines to curves";
/// The theorem that they were charged by before, for comparison.
pub const BEFORE: &str = "ePrint 2025/2055 (BCSS25), theorem 4.2";
/// What one challenge that combines two words of a code within the Johnson bound may get wrong under [`BEFORE`], as minus its
/// log2: `(2 t^5 + 3 t rho) / (3 rho^(3/2)) n + t / sqrt(rho)` of |E| challenges, for t = m + 1/2, m = 10, n places and the
/// rate rho, and the bit that the library keeps in reserve.
#[must_use]
pub fn combination_before(log_degree: usize, log_inv_rate: usize) -> f64 {
    let (t, rate) = (10.5f64, exp2(-(log_inv_rate as f64)));
    let root = sqrt(rate);
    let places = exp2((log_degree + log_inv_rate) as f64);
    let exceptions =
        (2.0 * t * t * t * t * t + 3.0 * t * rate) / (3.0 * rate * root) * places + t / root;
    field_bits() - log2(exceptions) - 1.0
}

/// log2 of the challenges that there are, rounded down.
pub(crate) fn field_bits() -> f64 {
    (E::bits() - 1) as f64
}
