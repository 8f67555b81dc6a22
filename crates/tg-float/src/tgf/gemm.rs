//! A product of matrices within the budget of an operator's call.

use super::call::Call;
use super::error::OpError;
use super::machine::with_scratch;
use super::product::{ROWS_PACKED, few_rows, packed_elements, product};
use super::real::Sizes;
use crate::kernels::{Bias, Right, gemm_f32, gemm_f32_packed};
use crate::tensor::DType;

/// [`product_f32`](super::product::product_f32) of a right factor that is stored in either way, or prepared; the bias is
/// added last.
pub(super) fn multiply_f32(
    call: &Call<'_>,
    sizes: Sizes,
    a: &[f32],
    right: &Right<'_>,
    bias: Bias<'_>,
    out: &mut [f32],
) -> Result<(), OpError> {
    if let Some(prepared) = call.prepared {
        let product = product(sizes, a, bias);
        with_scratch(|cpu, _| gemm_f32_packed(cpu, &product, &prepared.right, out, sizes.n));
        return Ok(());
    }
    if let (Right::Rows { values, .. }, Bias::None) = (right, bias)
        && sizes.m < ROWS_PACKED
    {
        few_rows(sizes, a, values, out);
        return Ok(());
    }
    call.reserve(packed_elements(sizes), DType::F32)?;
    let product = product(sizes, a, bias);
    with_scratch(|cpu, scratch| gemm_f32(cpu, scratch, &product, right, out, sizes.n));
    call.release(packed_elements(sizes), DType::F32);
    Ok(())
}
