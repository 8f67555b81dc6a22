//! The innermost loops of tier TGF-1: each sum of a tile starts at +0 and takes one fused multiply-add for each k, in
//! ascending order. Only rows and columns are taken side by side.

use super::SimdLevel;

/// Columns of a panel.
pub(super) const PANEL: usize = 16;
/// Most sums of a tile.
pub(super) const TILE_SUMS: usize = 384;

/// What a tile reads and writes.
#[derive(Debug)]
pub(super) struct Walk {
    /// The first row; the others follow at `a_stride`.
    pub a: *const f32,
    pub a_stride: usize,
    pub k: usize,
    /// The first panel: 16 numbers for each k; the next at `panel_stride`.
    pub b: *const f32,
    pub panel_stride: usize,
    /// Where the sums go: rows of `strip * 16`.
    pub sums: *mut f32,
}

/// Sums one tile.
///
/// # Safety
/// The processor has the instructions, `k` numbers of every row and `16 k` of every panel can be read, and there is
/// room for the sums.
pub(super) type Tile = unsafe fn(&Walk);

/// Panels to take at a time if that many are left.
pub(super) const fn strip(level: SimdLevel, left: usize) -> usize {
    match level {
        SimdLevel::Avx512Vnni if left >= 2 => 2,
        _ => 1,
    }
}

/// The tile of most rows, at most `rows`, over a strip: its rows and its loop.
pub(super) fn tile(level: SimdLevel, strip: usize, rows: usize) -> (usize, Tile) {
    let choices: &[(usize, Tile)] = match (level, strip) {
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512Vnni, 1) => x86::WIDE_1,
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512Vnni, _) => x86::WIDE_2,
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx2, _) => x86::HALVES,
        _ => SCALAR,
    };
    *choices
        .iter()
        .find(|(height, _)| *height <= rows)
        .unwrap_or(&choices[choices.len() - 1])
}

const SCALAR: &[(usize, Tile)] = &[(4, scalar::<4>), (2, scalar::<2>), (1, scalar::<1>)];

/// # Safety
/// See [`Tile`].
unsafe fn scalar<const ROWS: usize>(walk: &Walk) {
    let mut sums = [[0f32; PANEL]; ROWS];
    for k in 0..walk.k {
        // SAFETY: the caller vouches for the numbers of each row and of the panel.
        let (columns, values) = unsafe {
            let columns = walk.b.add(k * PANEL).cast::<[f32; PANEL]>().read();
            let mut values = [0f32; ROWS];
            for (row, value) in values.iter_mut().enumerate() {
                *value = walk.a.add(row * walk.a_stride + k).read();
            }
            (columns, values)
        };
        for (sums, value) in sums.iter_mut().zip(values) {
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = value.mul_add(column, *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: the caller vouches for the room.
        unsafe {
            walk.sums
                .add(row * PANEL)
                .cast::<[f32; PANEL]>()
                .write(*sums)
        };
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(
    clippy::needless_range_loop,
    reason = "tiles are indexed by row and panel; the compiler unrolls both loops"
)]
mod x86 {
    use super::{PANEL, Tile, Walk};
    use std::arch::x86_64::*;

    pub(super) const WIDE_1: &[(usize, Tile)] = &[
        (12, wide::<12, 1>),
        (8, wide::<8, 1>),
        (4, wide::<4, 1>),
        (3, wide::<3, 1>),
        (2, wide::<2, 1>),
        (1, wide::<1, 1>),
    ];
    pub(super) const WIDE_2: &[(usize, Tile)] = &[
        (12, wide::<12, 2>),
        (8, wide::<8, 2>),
        (6, wide::<6, 2>),
        (4, wide::<4, 2>),
        (3, wide::<3, 2>),
        (2, wide::<2, 2>),
        (1, wide::<1, 2>),
    ];
    pub(super) const HALVES: &[(usize, Tile)] = &[
        (6, halves::<6>),
        (4, halves::<4>),
        (3, halves::<3>),
        (2, halves::<2>),
        (1, halves::<1>),
    ];

    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx512f")]
    unsafe fn wide<const ROWS: usize, const STRIP: usize>(walk: &Walk) {
        let mut sums = [[_mm512_setzero_ps(); STRIP]; ROWS];
        // SAFETY: the caller vouches for every number read and for the room of the sums.
        unsafe {
            for k in 0..walk.k {
                let mut columns = [_mm512_setzero_ps(); STRIP];
                for (panel, columns) in columns.iter_mut().enumerate() {
                    *columns = _mm512_loadu_ps(walk.b.add(panel * walk.panel_stride + k * PANEL));
                }
                for row in 0..ROWS {
                    let x = _mm512_set1_ps(walk.a.add(row * walk.a_stride + k).read());
                    for panel in 0..STRIP {
                        sums[row][panel] = _mm512_fmadd_ps(x, columns[panel], sums[row][panel]);
                    }
                }
            }
            for row in 0..ROWS {
                for panel in 0..STRIP {
                    let at = walk.sums.add((row * STRIP + panel) * PANEL);
                    _mm512_storeu_ps(at, sums[row][panel]);
                }
            }
        }
    }

    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn halves<const ROWS: usize>(walk: &Walk) {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: the caller vouches for every number read and for the room of the sums.
        unsafe {
            for k in 0..walk.k {
                let low = _mm256_loadu_ps(walk.b.add(k * PANEL));
                let high = _mm256_loadu_ps(walk.b.add(k * PANEL + 8));
                for row in 0..ROWS {
                    let x = _mm256_set1_ps(walk.a.add(row * walk.a_stride + k).read());
                    let [first, second] = &mut sums[row];
                    *first = _mm256_fmadd_ps(x, low, *first);
                    *second = _mm256_fmadd_ps(x, high, *second);
                }
            }
            for row in 0..ROWS {
                for half in 0..2 {
                    _mm256_storeu_ps(walk.sums.add(row * PANEL + half * 8), sums[row][half]);
                }
            }
        }
    }
}
