//! Folding integer matrices by extension weights, with 64-bit lazy accumulation.

use p3_field::{BasedVectorSpace, PrimeCharacteristicRing, PrimeField32};
use tg_proof::field::{E, EXTENSION_DEGREE, F};

/// `sum_i weight_i * row_i` over rows of 8-bit integers.
///
/// A coefficient is below 2^31 and a value below 2^8, so 2^24 rows fit a 64-bit accumulator.
#[derive(Debug)]
pub(crate) struct Fold {
    coefficients: [Vec<i64>; EXTENSION_DEGREE],
}

impl Fold {
    /// A sum of `columns` zeros.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            coefficients: std::array::from_fn(|_| vec![0; columns]),
        }
    }

    /// Adds `weight * values` from a column on.
    pub(crate) fn add(&mut self, from: usize, weight: E, values: &[i8]) {
        let weights: &[F] = weight.as_basis_coefficients_slice();
        for (sums, weight) in self.coefficients.iter_mut().zip(weights) {
            let weight = i64::from(weight.as_canonical_u32());
            for (sum, &value) in sums[from..from + values.len()].iter_mut().zip(values) {
                *sum += weight * i64::from(value);
            }
        }
    }

    /// The sums.
    pub(crate) fn finish(self) -> Vec<E> {
        let columns = self.coefficients[0].len();
        let prime = i64::from(F::ORDER_U32);
        (0..columns)
            .map(|column| {
                E::from_basis_coefficients_fn(|degree| {
                    F::from_u64(
                        self.coefficients[degree][column]
                            .rem_euclid(prime)
                            .unsigned_abs(),
                    )
                })
            })
            .collect()
    }
}

/// `sum_i weights[i] * values[i]`.
pub(crate) fn dot(values: &[i8], weights: &[E]) -> E {
    let mut sums = [0i64; EXTENSION_DEGREE];
    for (&value, weight) in values.iter().zip(weights) {
        let weight: &[F] = weight.as_basis_coefficients_slice();
        for (sum, weight) in sums.iter_mut().zip(weight) {
            *sum += i64::from(weight.as_canonical_u32()) * i64::from(value);
        }
    }
    let prime = i64::from(F::ORDER_U32);
    E::from_basis_coefficients_fn(|degree| {
        F::from_u64(sums[degree].rem_euclid(prime).unsigned_abs())
    })
}
