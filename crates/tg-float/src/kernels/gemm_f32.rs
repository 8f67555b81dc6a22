//! Matrix products of tier TGF-1, the same bits at every level and for every number of threads.
//!
//! `out[i][j]` starts at +0, takes `a[i][k] b[k][j]` by one fused multiply-add for each k in ascending order, and its
//! bias last, by one addition. A NaN becomes `0x7fc0_0000`; subnormal numbers are kept.

use super::tile_f32::{self, PANEL, TILE_SUMS, Walk};
use std::ops::Range;
use tg_exec::kernels::memory::{Buffer, Scratch, Shared, of_thread};
use tg_exec::kernels::{Cpu, SimdLevel};

/// The one NaN of the tier.
pub const CANONICAL_NAN: f32 = f32::from_bits(0x7fc0_0000);
/// Every NaN as the one, whatever its bits.
///
/// Compared as integers: compilers hold the bits of a NaN that arithmetic gives to be arbitrary, and drop the choice
/// between two of them (`sqrt(-1)` stayed `0xffc0_0000` on x86).
#[must_use]
#[inline(always)]
pub const fn canonical(value: f32) -> f32 {
    if value.to_bits() << 1 > f32::INFINITY.to_bits() << 1 {
        CANONICAL_NAN
    } else {
        value
    }
}

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
    pub(super) fn check(&self, m: usize, n: usize) {
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
    run(cpu, product, panels, Shared::new(out), out_stride);
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
    run(cpu, product, panels, Shared::new(out), out_stride);
}

/// Products of one size: `out[i]` is `a[offsets[i][0]..]` times `b[offsets[i][1]..]`, all row-major (with `transposed`,
/// the right operands column by column). The threads share the products.
#[derive(Debug, Clone, Copy)]
pub struct BatchF32<'a> {
    /// Rows, columns and depth of each product.
    pub sizes: [usize; 3],
    /// The left operands.
    pub a: &'a [f32],
    /// The right operands.
    pub b: &'a [f32],
    /// Whether the right operands lie column by column.
    pub transposed: bool,
    /// Where the operands of each product begin.
    pub offsets: &'a [[usize; 2]],
}

/// Computes products of one size.
///
/// # Panics
/// If an operand is too short, or the output has not the size of all products.
pub fn gemm_f32_batch(cpu: &Cpu, scratch: &mut Scratch, batch: &BatchF32<'_>, out: &mut [f32]) {
    let BatchF32 {
        sizes: [m, n, k],
        a,
        b,
        transposed,
        offsets,
    } = *batch;
    assert_eq!(out.len(), offsets.len() * m * n, "room in the output");
    if out.is_empty() {
        return;
    }
    let (shared, buffers) = scratch.split(cpu.threads());
    // Rows of whole panels need not be packed.
    let in_place = !transposed && n.is_multiple_of(PANEL);
    let steps = shared.numbers_mut::<usize>(k);
    (0..k)
        .zip(steps.iter_mut())
        .for_each(|(p, step)| *step = p * n);
    let (steps, out) = (&*steps, Shared::new(out));
    cpu.pool().run(offsets.len(), &|thread, index| {
        let [i, j] = offsets[index];
        let right = &b[j..][..n * k];
        let mut buffer = of_thread(buffers, thread);
        let columns = if in_place {
            Columns::Listed {
                values: right,
                offsets: steps,
            }
        } else {
            let panels = buffer.numbers_mut(panels_length(n, k));
            let stride = if transposed { k } else { n };
            let right = if transposed {
                Right::Transposed {
                    values: right,
                    stride,
                }
            } else {
                Right::Rows {
                    values: right,
                    stride,
                }
            };
            fill(panels, n, k, &right);
            Columns::Panels(panels)
        };
        let tiles = Tiles {
            a: &a[i..][..m * k],
            a_stride: k,
            k,
            columns,
        };
        cpu.vectorised(
            #[inline(always)]
            || {
                tiles.run(
                    cpu.level(),
                    0..m,
                    0..n.div_ceil(PANEL),
                    |row, column, sums| {
                        let width = sums.len().min(n - column);
                        // SAFETY: each product is written by the one task that holds it.
                        let out = unsafe { out.part((index * m + row) * n + column, width) };
                        Bias::None.finish(row, column, sums, out);
                    },
                );
            },
        );
    });
}

/// Runs a product over panels, into `out[i * out_stride + j]`.
fn run(
    cpu: &Cpu,
    product: &ProductF32<'_>,
    panels: &[f32],
    out: Shared<'_, f32>,
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
    assert!((m - 1) * out_stride + n <= out.len(), "room in the output");
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
        let tiles = Tiles {
            a,
            a_stride,
            k,
            columns: Columns::Panels(panels),
        };
        let rows = row..m.min(row + block);
        cpu.vectorised(
            #[inline(always)]
            || {
                tiles.run(
                    cpu.level(),
                    rows,
                    panel..count.min(panel + part),
                    |row, column, sums| {
                        let width = sums.len().min(n - column);
                        // SAFETY: tasks hold disjoint rows or columns, and a tile's part of a row is its own.
                        let out = unsafe { out.part(row * out_stride + column, width) };
                        bias.finish(row, column, sums, out);
                    },
                );
            },
        );
    });
}

/// The columns of a right operand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Columns<'a> {
    /// Panels of 16 columns.
    Panels(&'a [f32]),
    /// For each k, column j at `offsets[k] + j`.
    Listed {
        values: &'a [f32],
        offsets: &'a [usize],
    },
}

impl Columns<'_> {
    /// Whether 16 columns can be read for each of `k` steps in that many panels.
    fn hold(&self, panels: usize, k: usize) -> bool {
        match self {
            Self::Panels(panel) => panels * PANEL * k <= panel.len(),
            Self::Listed { values, offsets } => {
                let furthest = offsets.iter().max().map_or(0, |&offset| offset);
                let room = values.len().checked_sub(panels * PANEL);
                offsets.len() == k && room.is_some_and(|room| furthest <= room)
            }
        }
    }
}

/// Sums of one tile; aligned so that whole vectors are stored.
#[repr(C, align(64))]
struct TileSums([f32; TILE_SUMS]);

/// A share of a product, for one thread.
pub(super) struct Tiles<'a> {
    pub a: &'a [f32],
    pub a_stride: usize,
    pub k: usize,
    pub columns: Columns<'a>,
}

impl Tiles<'_> {
    /// Sums the tiles of some rows and panels; `finish` gets parts of rows: the row, its first column, and the sums.
    #[inline(always)]
    pub(super) fn run(
        &self,
        level: SimdLevel,
        rows: Range<usize>,
        panels: Range<usize>,
        mut finish: impl FnMut(usize, usize, &[f32]),
    ) {
        if rows.is_empty() || panels.is_empty() {
            return;
        }
        assert!(
            (rows.end - 1) * self.a_stride + self.k <= self.a.len(),
            "rows of the left operand"
        );
        assert!(
            self.columns.hold(panels.end, self.k),
            "columns of the right operand"
        );
        let mut sums = TileSums([0.0; TILE_SUMS]);
        let mut panel = panels.start;
        while panel < panels.end {
            let strip = tile_f32::strip(level, rows.len(), panels.end - panel);
            let mut row = rows.start;
            while row < rows.end {
                // SAFETY: rows and panels were checked above, and the level is in use.
                let height = unsafe { self.tile(level, row..rows.end, panel, strip, &mut sums) };
                for (index, sums) in sums.0.chunks_exact(strip * PANEL).take(height).enumerate() {
                    finish(row + index, panel * PANEL, sums);
                }
                row += height;
            }
            panel += strip;
        }
    }

    /// Sums the first tile of some rows; how many rows it has.
    ///
    /// # Safety
    /// The processor has the level's instructions; the rows exist and the columns hold the panels of the strip.
    unsafe fn tile(
        &self,
        level: SimdLevel,
        rows: Range<usize>,
        panel: usize,
        strip: usize,
        sums: &mut TileSums,
    ) -> usize {
        let (height, tile, b, panel_stride, offsets) = match self.columns {
            Columns::Panels(panels) => {
                let (height, tile) = tile_f32::tile::<false>(level, strip, rows.len());
                let b = &panels[panel * PANEL * self.k..];
                (height, tile, b, PANEL * self.k, std::ptr::null())
            }
            Columns::Listed { values, offsets } => {
                let (height, tile) = tile_f32::tile::<true>(level, strip, rows.len());
                (
                    height,
                    tile,
                    &values[panel * PANEL..],
                    PANEL,
                    offsets.as_ptr(),
                )
            }
        };
        let walk = Walk {
            a: self.a[rows.start * self.a_stride..].as_ptr(),
            a_stride: self.a_stride,
            k: self.k,
            b: b.as_ptr(),
            panel_stride,
            offsets,
            sums: sums.0.as_mut_ptr(),
        };
        // SAFETY: by the caller; a tile has at most `TILE_SUMS` sums.
        unsafe { tile(&walk) };
        height
    }
}

impl Bias<'_> {
    /// Adds the bias of some columns of a row to their sums, the last operation; one NaN for all.
    #[inline(always)]
    pub(super) fn finish(&self, row: usize, column: usize, sums: &[f32], out: &mut [f32]) {
        match self {
            Self::None => {
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = canonical(sum);
                }
            }
            Self::PerColumn(bias) => {
                for ((out, &sum), bias) in out.iter_mut().zip(sums).zip(&bias[column..]) {
                    *out = canonical(sum + bias);
                }
            }
            Self::PerRow(bias) => {
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
