//! The one matrix product that every linear operator calls.

use super::simd::vectorised;

/// Rows of `a` by columns of `b`, both row-major: `out[i][j] = bias[j] + sum over ascending p of a[i][p] * b[p][j]`,
/// the sum from +0 with one fused multiply-add per step, the bias added last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// Columns computed together.
const TILE: usize = 64;

pub(super) fn gemm_f32(sizes: Sizes, a: &[f32], b: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    let Sizes { m, n, k } = sizes;
    vectorised(
        #[inline(always)]
        || {
            for (row, out) in out.chunks_exact_mut(n.max(1)).take(m).enumerate() {
                let a = &a[row * k..(row + 1) * k];
                for start in (0..n).step_by(TILE) {
                    let width = TILE.min(n - start);
                    let mut sums = [0f32; TILE];
                    for (p, &factor) in a.iter().enumerate() {
                        let b = &b[p * n + start..p * n + start + width];
                        for (sum, &value) in sums.iter_mut().zip(b) {
                            *sum = factor.mul_add(value, *sum);
                        }
                    }
                    for (j, out) in out[start..start + width].iter_mut().enumerate() {
                        let sum = bias.map_or(sums[j], |bias| sums[j] + bias[start + j]);
                        *out = crate::net::convert::canonical(sum);
                    }
                }
            }
        },
    );
}

/// The same for `f64`.
pub(super) fn gemm_f64(sizes: Sizes, a: &[f64], b: &[f64], bias: Option<&[f64]>, out: &mut [f64]) {
    let Sizes { m, n, k } = sizes;
    for i in 0..m {
        for j in 0..n {
            let row = a[i * k..(i + 1) * k].iter().enumerate();
            let sum = row.fold(0.0, |sum, (p, a)| a.mul_add(b[p * n + j], sum));
            let sum = bias.map_or(sum, |bias| sum + bias[j]);
            out[i * n + j] = super::real::Real::canonical(sum);
        }
    }
}
