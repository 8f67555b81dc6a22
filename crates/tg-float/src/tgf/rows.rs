//! Sums over rows, and how an axis splits a tensor into rows.

use super::call::Call;
use super::error::OpError;
use super::machine::in_parts;
use super::real::Real;

/// Outer, normalised and inner size. Before version 13 everything from the axis on is one row.
pub(super) fn softmax_sizes(call: &Call<'_>) -> Result<[usize; 3], OpError> {
    let shape = call.input(0)?.shape();
    let old = call.node.version < 13;
    let axis = call.int("axis", if old { 1 } else { -1 })?;
    if old && usize::try_from(axis) == Ok(shape.len()) {
        return Ok([shape.iter().product(), 1, 1]);
    }
    if shape.is_empty() {
        return Ok([1, 1, 1]);
    }
    let axis = Call::axis(axis, shape.len())?;
    let outer = shape[..axis].iter().product();
    Ok(if old {
        [outer, shape[axis..].iter().product(), 1]
    } else {
        [outer, shape[axis], shape[axis + 1..].iter().product()]
    })
}

/// Rows whose sums run side by side: one sum must wait for itself at every step.
pub(super) const SIDE: usize = 8;

/// Sums over at most [`SIDE`] rows of `size` elements, each in ascending order from +0: `term` gets the number of the
/// row, its sum so far and the element.
#[allow(
    clippy::needless_range_loop,
    reason = "all rows are walked at one place, so that their sums run side by side"
)]
#[inline(always)]
pub(super) fn side_by_side<R: Real>(
    rows: &[R],
    size: usize,
    term: impl Fn(usize, R, R) -> R,
) -> [R; SIDE] {
    let mut sums = [R::ZERO; SIDE];
    if rows.len() == SIDE * size {
        let rows: [&[R]; SIDE] = std::array::from_fn(|row| &rows[row * size..][..size]);
        for k in 0..size {
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = term(row, *sum, rows[row][k]);
            }
        }
    } else {
        for (row, (sum, values)) in sums.iter_mut().zip(rows.chunks_exact(size)).enumerate() {
            for &value in values {
                *sum = term(row, *sum, value);
            }
        }
    }
    sums
}

/// Sums over rows of `size` elements, each in ascending order from +0.
pub(super) fn row_sums<R: Real>(
    values: &[R],
    size: usize,
    term: impl Fn(R, R) -> R + Sync,
) -> Vec<R> {
    let size = size.max(1);
    let mut sums = vec![R::ZERO; values.len() / size];
    in_parts(
        &mut sums,
        1,
        #[inline(always)]
        |first, sums| {
            let values = &values[first * size..][..sums.len() * size];
            for (sums, rows) in sums.chunks_mut(SIDE).zip(values.chunks(SIDE * size)) {
                let own = side_by_side(
                    rows,
                    size,
                    #[inline(always)]
                    |_, sum, value| term(sum, value),
                );
                sums.copy_from_slice(&own[..sums.len()]);
            }
        },
    );
    sums
}
