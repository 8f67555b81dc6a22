//! Matrix products of tier TGF-1, the same bits at every level and for every number of threads.
//!
//! `out[i][j]` starts at +0, takes `a[i][k] b[k][j]` by one fused multiply-add for each k in ascending order, and its
//! bias last, by one addition. A NaN becomes `0x7fc0_0000`; subnormal numbers are kept.

use super::cpu::Cpu;
use super::memory::{Buffer, Scratch, Shared};
use super::tile_f32::{self, PANEL, TILE_SUMS, Walk};

/// The one NaN of the tier.
pub const CANONICAL_NAN: f32 = f32::from_bits(0x7fc0_0000);
/// Bytes of rows that stay in the second-level cache while all columns pass.
const BLOCK_BYTES: usize = 256 << 10;

/// What is added last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bias<'a> {
    /// Nothing: no addition takes place.
    None,
    /// One number for each column.
    PerColumn(&'a [f32]),
    /// One number for each row.
    PerRow(&'a [f32]),
}

impl Bias<'_> {
    fn check(&self, m: usize, n: usize) {
        match self {
            Self::None => {}
            Self::PerColumn(bias) => assert!(bias.len() >= n, "a bias for each column"),
            Self::PerRow(bias) => assert!(bias.len() >= m, "a bias for each row"),
        }
    }
}

/// The left operand and the size of a product.
#[derive(Debug, Clone, Copy)]
pub struct ProductF32<'a> {
    /// Rows of the output.
    pub m: usize,
    /// Columns of the output.
    pub n: usize,
    /// Depth.
    pub k: usize,
    /// `a[i][k]` is at `i * a_stride + k`.
    pub a: &'a [f32],
    /// Elements from a row of a to the next.
    pub a_stride: usize,
    /// Added last.
    pub bias: Bias<'a>,
}

/// How the right operand is stored.
#[derive(Debug, Clone, Copy)]
pub enum Right<'a> {
    /// `b[k][j]` at `k * stride + j`.
    Rows {
        /// The elements.
        values: &'a [f32],
        /// Elements from a row to the next.
        stride: usize,
    },
    /// `b[k][j]` at `j * stride + k`.
    Transposed {
        /// The elements.
        values: &'a [f32],
        /// Elements from a column to the next.
        stride: usize,
    },
}

/// A right operand in panels of 16 columns; the same at every level.
#[derive(Debug, Clone, Default)]
pub struct PackedF32 {
    n: usize,
    k: usize,
    panels: Buffer,
}

impl PackedF32 {
    /// Packs a right operand of `n` columns and depth `k`.
    ///
    /// # Panics
    /// If its storage is too short.
    #[must_use]
    pub fn new(n: usize, k: usize, right: &Right<'_>) -> Self {
        let mut packed = Self::default();
        packed.pack(n, k, right);
        packed
    }

    /// Packs another right operand into the same memory.
    ///
    /// # Panics
    /// If its storage is too short.
    pub fn pack(&mut self, n: usize, k: usize, right: &Right<'_>) {
        (self.n, self.k) = (n, k);
        fill(self.panels.numbers_mut(panels_length(n, k)), n, k, right);
    }

    /// Columns.
    #[must_use]
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Depth.
    #[must_use]
    pub const fn k(&self) -> usize {
        self.k
    }
}

const fn panels_length(n: usize, k: usize) -> usize {
    n.div_ceil(PANEL) * PANEL * k
}

/// Writes panels of 16 columns, zeros beside the last column.
fn fill(panels: &mut [f32], n: usize, k: usize, right: &Right<'_>) {
    for (panel, target) in panels.chunks_exact_mut((PANEL * k).max(1)).enumerate() {
        let first = panel * PANEL;
        let width = PANEL.min(n - first);
        let (rows, _) = target.as_chunks_mut::<PANEL>();
        match *right {
            Right::Rows { values, stride } => {
                for (row, target) in rows.iter_mut().enumerate() {
                    let source = &values[row * stride + first..][..width];
                    match source.first_chunk::<PANEL>() {
                        Some(source) => *target = *source,
                        None => {
                            *target = [0.0; PANEL];
                            target[..width].copy_from_slice(source);
                        }
                    }
                }
            }
            Right::Transposed { values, stride } => {
                for lane in 0..PANEL {
                    if lane < width {
                        let column = &values[(first + lane) * stride..][..k];
                        for (row, &value) in rows.iter_mut().zip(column) {
                            row[lane] = value;
                        }
                    } else {
                        rows.iter_mut().for_each(|row| row[lane] = 0.0);
                    }
                }
            }
        }
    }
}

/// A product whose right operand is packed: `out[i * out_stride + j]`.
///
/// # Panics
/// If the operand has another size than the product says, or rows, biases or output are too short.
pub fn gemm_f32_packed(
    cpu: &Cpu,
    product: &ProductF32<'_>,
    b: &PackedF32,
    out: &mut [f32],
    out_stride: usize,
) {
    assert_eq!((b.n, b.k), (product.n, product.k), "the operand's size");
    let panels = b.panels.numbers(panels_length(b.n, b.k));
    run(cpu, product, panels, Shared::new(out), 0, out_stride);
}

/// A product: `out[i * out_stride + j]`. The right operand is packed into the scratch memory first.
///
/// # Panics
/// If an operand, the biases or the output are too short.
pub fn gemm_f32(
    cpu: &Cpu,
    scratch: &mut Scratch,
    product: &ProductF32<'_>,
    right: &Right<'_>,
    out: &mut [f32],
    out_stride: usize,
) {
    let length = panels_length(product.n, product.k);
    let panels = scratch.shared.numbers_mut(length);
    fill(panels, product.n, product.k, right);
    run(cpu, product, panels, Shared::new(out), 0, out_stride);
}

/// Sums of one tile; aligned so that whole vectors are stored.
#[repr(C, align(64))]
struct TileSums([f32; TILE_SUMS]);

/// Runs a product over panels, into `out[first + i * out_stride + j]`.
fn run(
    cpu: &Cpu,
    product: &ProductF32<'_>,
    panels: &[f32],
    out: Shared<'_, f32>,
    first: usize,
    out_stride: usize,
) {
    let ProductF32 {
        m,
        n,
        k,
        a,
        a_stride,
        bias,
    } = *product;
    if m == 0 || n == 0 {
        return;
    }
    assert!(
        (m - 1) * a_stride + k <= a.len(),
        "rows of the left operand"
    );
    assert_eq!(panels.len(), panels_length(n, k), "the right operand");
    assert!(
        first + (m - 1) * out_stride + n <= out.len(),
        "room in the output"
    );
    assert!(
        n <= out_stride || m == 1,
        "rows of the output do not overlap"
    );
    bias.check(m, n);
    let threads = cpu.threads();
    let mut block = (BLOCK_BYTES / (4 * k.max(1))).clamp(24, 1 << 12);
    if threads > 1 {
        block = block.min(m.div_ceil(2 * threads).max(24));
    }
    let block = block.next_multiple_of(24);
    let blocks = m.div_ceil(block);
    let count = n.div_ceil(PANEL);
    let parts = if threads > 1 && blocks < 2 * threads {
        count.div_ceil(2).min(2 * threads)
    } else {
        1
    };
    let part = count.div_ceil(parts);
    cpu.pool().run(blocks * parts, &|_, task| {
        let row = (task / parts) * block;
        let panel = (task % parts) * part;
        let job = Part {
            product,
            panels,
            out,
            first,
            out_stride,
        };
        // SAFETY: tasks hold disjoint rows or columns.
        unsafe {
            job.run(cpu, row..m.min(row + block), panel..count.min(panel + part));
        }
    });
}

/// A share of a product, for one thread. Bounds are checked where the parts are used.
pub(super) struct Part<'a> {
    pub product: &'a ProductF32<'a>,
    /// The right operand.
    pub panels: &'a [f32],
    pub out: Shared<'a, f32>,
    /// Where element (0, 0) goes.
    pub first: usize,
    pub out_stride: usize,
}

impl Part<'_> {
    /// Computes the tiles of some rows and panels.
    ///
    /// # Safety
    /// Nobody else reads or writes their elements of the output meanwhile.
    pub(super) unsafe fn run(
        &self,
        cpu: &Cpu,
        rows: std::ops::Range<usize>,
        panels: std::ops::Range<usize>,
    ) {
        let ProductF32 {
            m: _,
            n,
            k,
            a,
            a_stride,
            bias: _,
        } = *self.product;
        let level = cpu.level();
        assert!(
            rows.is_empty() || (rows.end - 1) * a_stride + k <= a.len(),
            "rows of the left operand"
        );
        assert!(
            panels.end * PANEL * k <= self.panels.len(),
            "the right operand"
        );
        let mut sums = TileSums([0.0; TILE_SUMS]);
        let mut panel = panels.start;
        while panel < panels.end {
            let strip = tile_f32::strip(level, panels.end - panel);
            let column = panel * PANEL;
            let width = (strip * PANEL).min(n - column);
            let mut row = rows.start;
            while row < rows.end {
                let (height, tile) = tile_f32::tile(level, strip, rows.end - row);
                let walk = Walk {
                    a: a[row * a_stride..].as_ptr(),
                    a_stride,
                    k,
                    b: self.panels[panel * PANEL * k..].as_ptr(),
                    panel_stride: PANEL * k,
                    sums: sums.0.as_mut_ptr(),
                };
                // SAFETY: the level is in use, so the processor has it; rows and panels were checked above; a tile
                // has at most `TILE_SUMS` sums.
                unsafe { tile(&walk) };
                for (index, sums) in sums.0.chunks_exact(strip * PANEL).take(height).enumerate() {
                    let first = self.first + (row + index) * self.out_stride + column;
                    // SAFETY: this tile's part of a row; disjoint by the caller.
                    let out = unsafe { self.out.part(first, width) };
                    self.finish(row + index, column, sums, out);
                }
                row += height;
            }
            panel += strip;
        }
    }

    fn finish(&self, row: usize, column: usize, sums: &[f32], out: &mut [f32]) {
        let canonical = |value: f32| if value.is_nan() { CANONICAL_NAN } else { value };
        match self.product.bias {
            Bias::None => {
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = canonical(sum);
                }
            }
            Bias::PerColumn(bias) => {
                for ((out, &sum), bias) in out.iter_mut().zip(sums).zip(&bias[column..]) {
                    *out = canonical(sum + bias);
                }
            }
            Bias::PerRow(bias) => {
                let bias = bias[row];
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = canonical(sum + bias);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "gemm_f32_tests.rs"]
mod tests;
