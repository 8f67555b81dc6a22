//! Integers less their zero point.

use super::call::Call;
use super::error::OpError;

/// An input less its zero point (input `zero`), which may be one per slice of `axis` (from the end if negative).
pub(super) fn centred(
    call: &Call<'_>,
    index: usize,
    zero: usize,
    axis: Option<i64>,
) -> Result<Vec<i64>, OpError> {
    let input = call.input(index)?;
    let mut values = call.integers(index)?;
    let Some(zeros) = call.optional_integers(zero)? else {
        return Ok(values);
    };
    if let [zero] = zeros.as_slice() {
        for value in &mut values {
            *value = value.wrapping_sub(*zero);
        }
        return Ok(values);
    }
    let axis = axis.ok_or_else(|| OpError::invalid("several zero points for one tensor"))?;
    let axis = Call::axis(axis, input.rank())?;
    let size = input.shape()[axis];
    let inner: usize = input.shape()[axis + 1..].iter().product();
    let per_matrix = zeros.len() > size && zeros.len() * inner.max(1) == values.len();
    if zeros.len() != size && !per_matrix {
        return Err(OpError::invalid("the zero points do not fit the axis"));
    }
    for (place, value) in values.iter_mut().enumerate() {
        let row = place / inner.max(1);
        *value = value.wrapping_sub(if per_matrix {
            zeros[row]
        } else {
            zeros[row % size]
        });
    }
    Ok(values)
}
