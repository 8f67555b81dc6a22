//! The one product of matrices that every linear operator calls.

use super::machine::{vectorised, with_scratch};
use super::real::{Real, Sizes};
use crate::kernels::{Bias, PackedF32, ProductF32, Right, gemm_f32};
use crate::tensor::FloatTensor;

/// A constant right factor made ready once, and what is added to each column of its products.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) right: PackedF32,
    pub(super) bias: Option<FloatTensor>,
}

/// With fewer rows than this the right factor is not worth packing.
pub(super) const ROWS_PACKED: usize = 3;

/// `out[i][j] = sum over ascending p of a[i][p] * b[p][j]`, all row-major: from +0, one fused multiply-add per step.
pub(super) fn product_f32(sizes: Sizes, a: &[f32], b: &[f32], out: &mut [f32]) {
    if sizes.m < ROWS_PACKED {
        few_rows(sizes, a, b, out);
        return;
    }
    let right = Right::Rows {
        values: b,
        stride: sizes.n,
    };
    let product = product(sizes, a, Bias::None);
    with_scratch(|cpu, scratch| gemm_f32(cpu, scratch, &product, &right, out, sizes.n));
}

pub(super) fn product<'a>(
    Sizes { m, n, k }: Sizes,
    a: &'a [f32],
    bias: Bias<'a>,
) -> ProductF32<'a> {
    ProductF32 {
        m,
        n,
        k,
        a: &a[..m * k],
        a_stride: k,
        bias,
    }
}

/// Elements that a packed right factor takes at most.
pub(super) const fn packed_elements(Sizes { n, k, .. }: Sizes) -> usize {
    n.saturating_add(16).saturating_mul(k)
}

/// The same in another type, or for few rows: a row of sums grows step by step.
pub(super) fn few_rows<R: Real>(sizes: Sizes, a: &[R], b: &[R], out: &mut [R]) {
    let Sizes { m, n, k } = sizes;
    vectorised(
        #[inline(always)]
        || {
            for row in 0..m {
                let out = &mut out[row * n..(row + 1) * n];
                out.fill(R::ZERO);
                for (p, &factor) in a[row * k..(row + 1) * k].iter().enumerate() {
                    for (out, &value) in out.iter_mut().zip(&b[p * n..(p + 1) * n]) {
                        *out = factor.fma(value, *out);
                    }
                }
                for out in out {
                    *out = out.canonical();
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_unpacked_products_are_bit_equal() {
        let numbers = |seed: u32, count: usize| -> Vec<f32> {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 8_388_608.0 - 1.0
            };
            (0..count).map(|_| next()).collect()
        };
        for (m, n, k) in [(3, 5, 7), (17, 33, 65), (4, 1, 100), (8, 16, 0)] {
            let (a, b) = (numbers(1, m * k), numbers(2, k * n));
            let (mut packed, mut plain) = (vec![0f32; m * n], vec![1f32; m * n]);
            product_f32(Sizes { m, n, k }, &a, &b, &mut packed);
            few_rows(Sizes { m, n, k }, &a, &b, &mut plain);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&packed), bits(&plain), "{m} {n} {k}");
        }
    }
}
