//! Sums of integers with extension weights, with 64-bit lazy accumulation, on every core.

use p3_field::{BasedVectorSpace, PrimeCharacteristicRing, PrimeField32};
use p3_maybe_rayon::prelude::*;
use std::ops::Range;
use tg_proof::field::{E, EXTENSION_DEGREE, F};

/// Columns that one task folds: the accumulators of a task stay in the first cache.
const TASK_COLUMNS: usize = 512;
/// Products below which one task does all.
const TASK_PRODUCTS: usize = 1 << 14;

/// Elements of tensors. A coefficient of a weight is below 2^31.
pub(crate) trait Integer: Copy + Send + Sync + Into<i64> {
    /// Products with coefficients that a 64-bit accumulator holds beside a reduced sum.
    const TERMS: usize;
}

/// At most 2^7, so 2^24 products stay below 2^62.
impl Integer for i8 {
    const TERMS: usize = 1 << 24;
}

/// At most 2^15, so 2^16 products stay below 2^62.
impl Integer for i16 {
    const TERMS: usize = 1 << 16;
}

/// Below 2^16, so 2^15 products stay below 2^62.
impl Integer for u16 {
    const TERMS: usize = 1 << 15;
}

/// Committed cells are below 2^31, so one product stays below 2^62.
#[cfg(test)]
impl Integer for u32 {
    const TERMS: usize = 1;
}

/// At most 2^31, so one product stays below 2^62.
impl Integer for i32 {
    const TERMS: usize = 1;
}

/// The coefficients of an extension element as 32-bit integers (they are below 2^31).
pub(crate) fn coefficients(weight: E) -> [i32; EXTENSION_DEGREE] {
    let weight: &[F] = weight.as_basis_coefficients_slice();
    std::array::from_fn(|degree| weight[degree].as_canonical_u32().cast_signed())
}

fn element(sums: [i64; EXTENSION_DEGREE]) -> E {
    let prime = i64::from(F::ORDER_U32);
    E::from_basis_coefficients_fn(|degree| {
        F::from_u64(sums[degree].rem_euclid(prime).unsigned_abs())
    })
}

/// Sums of one range of columns.
#[derive(Debug)]
struct Sums {
    planes: [Vec<i64>; EXTENSION_DEGREE],
    /// Rows added since the sums were last reduced.
    rows: usize,
}

impl Sums {
    fn new(columns: usize) -> Self {
        Self {
            planes: std::array::from_fn(|_| vec![0; columns]),
            rows: 0,
        }
    }

    fn add<T: Integer>(&mut self, weight: [i32; EXTENSION_DEGREE], values: &[T]) {
        if self.rows == T::TERMS {
            let prime = i64::from(F::ORDER_U32);
            let sums = self.planes.iter_mut().flatten();
            sums.for_each(|sum| *sum %= prime);
            self.rows = 0;
        }
        self.rows += 1;
        let columns = values.len();
        let [a, b, c, d, e] = &mut self.planes;
        let planes = [a, b, c, d, e].map(|plane| &mut plane[..columns]);
        let [a, b, c, d, e] = planes;
        for column in 0..columns {
            let value: i64 = values[column].into();
            a[column] += i64::from(weight[0]) * value;
            b[column] += i64::from(weight[1]) * value;
            c[column] += i64::from(weight[2]) * value;
            d[column] += i64::from(weight[3]) * value;
            e[column] += i64::from(weight[4]) * value;
        }
    }

    fn finish(self) -> impl Iterator<Item = E> {
        let planes = self.planes;
        (0..planes[0].len())
            .map(move |column| element(std::array::from_fn(|degree| planes[degree][column])))
    }
}

/// `sum_j weights[j] * row(j)[column]` for every column of rows of `width` values; rows that are missing count as
/// zeros.
pub(crate) fn fold<'a, T: Integer + 'a>(
    width: usize,
    weights: &[E],
    row: impl Fn(usize) -> Option<&'a [T]> + Sync,
) -> Vec<E> {
    let coefficients: Vec<_> = weights.iter().map(|&weight| coefficients(weight)).collect();
    let step = if width * weights.len() <= TASK_PRODUCTS {
        width.max(1)
    } else {
        TASK_COLUMNS
    };
    let tasks: Vec<Range<usize>> = (0..width)
        .step_by(step)
        .map(|start| start..(start + step).min(width))
        .collect();
    let parts: Vec<Vec<E>> = tasks
        .into_par_iter()
        .map(|columns| {
            let mut sums = Sums::new(columns.len());
            for (index, &weight) in coefficients.iter().enumerate() {
                if let Some(values) = row(index) {
                    sums.add(weight, &values[columns.clone()]);
                }
            }
            sums.finish().collect()
        })
        .collect();
    parts.concat()
}

/// Weights as planes of coefficients, for many inner products with them.
#[derive(Debug)]
pub(crate) struct Dots {
    planes: [Vec<i32>; EXTENSION_DEGREE],
}

impl Dots {
    pub(crate) fn new(weights: &[E]) -> Self {
        let coefficients: Vec<_> = weights.iter().map(|&weight| coefficients(weight)).collect();
        Self {
            planes: std::array::from_fn(|degree| {
                coefficients.iter().map(|weight| weight[degree]).collect()
            }),
        }
    }

    /// `sum_i weights[i] * values[i]`, over the shorter of both.
    pub(crate) fn dot<T: Integer>(&self, values: &[T]) -> E {
        let parts = values.chunks(T::TERMS).enumerate();
        parts
            .map(|(part, values)| {
                let mut sums = [0i64; EXTENSION_DEGREE];
                for (sum, plane) in sums.iter_mut().zip(&self.planes) {
                    let weights = plane.iter().skip(part * T::TERMS);
                    *sum = weights
                        .zip(values)
                        .map(|(&weight, &value)| i64::from(weight) * value.into())
                        .sum();
                }
                element(sums)
            })
            .sum()
    }

    /// One inner product per row of `width` values.
    pub(crate) fn dot_rows<T: Integer>(&self, width: usize, values: &[T]) -> Vec<E> {
        let rows = (TASK_PRODUCTS / width.max(1)).max(1);
        let parts: Vec<Vec<E>> = values
            .par_chunks(rows * width)
            .map(|rows| rows.chunks_exact(width).map(|row| self.dot(row)).collect())
            .collect();
        parts.concat()
    }
}

/// `sum_i weights[i] * values[i]` of one long column.
pub(crate) fn dot<T: Integer>(values: &[T], weights: &[E]) -> E {
    let step = TASK_PRODUCTS.min(T::TERMS);
    values
        .par_chunks(step)
        .zip(weights.par_chunks(step))
        .map(|(values, weights)| {
            let mut sums = [0i64; EXTENSION_DEGREE];
            for (&value, &weight) in values.iter().zip(weights) {
                let weight = coefficients(weight);
                for (sum, weight) in sums.iter_mut().zip(weight) {
                    *sum += i64::from(weight) * value.into();
                }
            }
            element(sums)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_exec::sample::Numbers;
    use tg_proof::field::signed;

    /// Sums of wide integers are reduced before they leave 64 bits.
    #[test]
    fn wide_sums_are_exact() {
        let mut numbers = Numbers::new(4);
        let rows = i16::TERMS + 3;
        let weight = E::from_basis_coefficients_fn(|_| -F::ONE);
        let weights = vec![weight; rows];
        let wide = vec![i16::MIN; rows];
        let expected = weight * signed(i64::from(i16::MIN)) * F::from_usize(rows);
        assert_eq!(dot(&wide, &weights), expected);
        assert_eq!(Dots::new(&weights).dot(&wide), expected);
        let folded = fold(1, &weights, |index| Some(&wide[index..=index]));
        assert_eq!(folded, [expected]);
        let values: Vec<i32> = (0..50).map(|_| numbers.next() as i32).collect();
        let terms = values.iter().map(|&v| weight * signed(i64::from(v)));
        let expected: E = terms.sum();
        assert_eq!(dot(&values, &weights), expected);
        assert_eq!(Dots::new(&weights).dot(&values), expected);
        let folded = fold(1, &weights[..50], |index| Some(&values[index..=index]));
        assert_eq!(folded, [expected]);
    }

    fn random(count: usize, numbers: &mut Numbers) -> (Vec<E>, Vec<i8>) {
        let weights = (0..count).map(|_| {
            E::from_basis_coefficients_fn(|_| F::from_u64(numbers.next() % u64::from(F::ORDER_U32)))
        });
        let weights = weights.collect();
        let values = (0..count * 700).map(|_| numbers.activation()).collect();
        (weights, values)
    }

    /// Folds and inner products are the sums they are said to be, at sizes around those of tasks.
    #[test]
    fn sums_are_exact() {
        let mut numbers = Numbers::new(3);
        for (rows, width) in [(1, 1), (3, 511), (70, 700), (5, 513), (100, 17)] {
            let (weights, values) = random(rows, &mut numbers);
            let row = |index: usize| (index % 7 != 2).then(|| &values[index * width..][..width]);
            let folded = fold(width, &weights, row);
            assert_eq!(folded.len(), width);
            for (column, &got) in folded.iter().enumerate() {
                let terms = (0..rows).filter_map(|index| {
                    row(index).map(|row| weights[index] * signed(i64::from(row[column])))
                });
                assert_eq!(got, terms.sum::<E>());
            }
            let dots = Dots::new(&weights);
            let by_row = dots.dot_rows(rows, &values[..rows * 40]);
            for (got, row) in by_row.into_iter().zip(values.chunks_exact(rows)) {
                let terms = weights.iter().zip(row);
                let expected: E = terms.map(|(&w, &v)| w * signed(i64::from(v))).sum();
                assert_eq!(got, expected);
                assert_eq!(dot(row, &weights), expected);
            }
        }
    }
}
