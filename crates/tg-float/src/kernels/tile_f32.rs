//! The innermost loops of tier TGF-1: each sum of a tile starts at +0 and takes one fused multiply-add for each k, in
//! ascending order. Only rows and columns are taken side by side.

use tg_exec::kernels::{SimdLevel, tallest};

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
    /// The columns of the first panel; those of the next lie `panel_stride` further.
    pub b: *const f32,
    pub panel_stride: usize,
    /// Where the columns of each k lie from `b` on. Not read by tiles over packed panels.
    pub offsets: *const usize,
    /// Where the sums go: rows of `strip * 16`.
    pub sums: *mut f32,
}

impl Walk {
    /// The 16 columns of a panel for one k: one after another in packed panels, else where the offsets say.
    ///
    /// # Safety
    /// There are that many panels and k.
    #[inline(always)]
    unsafe fn columns<const LISTED: bool>(&self, panel: usize, k: usize) -> *const f32 {
        // SAFETY: the caller vouches for the panel, and for an offset for each k.
        unsafe {
            let offset = if LISTED {
                self.offsets.add(k).read()
            } else {
                k * PANEL
            };
            self.b.add(panel * self.panel_stride + offset)
        }
    }
}

/// Sums one tile.
///
/// # Safety
/// The processor has the instructions, `k` numbers of every row and 16 columns for each k of every panel can be read,
/// and there is room for the sums.
pub(super) type Tile = unsafe fn(&Walk);

/// Panels to take at a time if that many are left: many beside a single row, whose sums would else wait for each
/// other.
pub(super) const fn strip(level: SimdLevel, rows: usize, left: usize) -> usize {
    match level {
        SimdLevel::Avx512Vnni if rows == 1 && left >= 8 => 8,
        SimdLevel::Avx512Vnni if left >= 2 => 2,
        _ => 1,
    }
}

/// The tile of most rows, at most `rows`, over a strip of panels (`LISTED`: whose columns lie where offsets say): its
/// rows and its loop.
pub(super) fn tile<const LISTED: bool>(
    level: SimdLevel,
    strip: usize,
    rows: usize,
) -> (usize, Tile) {
    let tiles = match (level, strip) {
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512Vnni, 1) => x86::Tiles::<LISTED>::WIDE_1,
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512Vnni, 2) => x86::Tiles::<LISTED>::WIDE_2,
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512Vnni, _) => x86::Tiles::<LISTED>::WIDE_8,
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx2, _) => x86::Tiles::<LISTED>::HALVES,
        _ => Plain::<LISTED>::TILES,
    };
    tallest(tiles, rows)
}

/// The loops in plain Rust.
struct Plain<const LISTED: bool>;

impl<const LISTED: bool> Plain<LISTED> {
    const TILES: &'static [(usize, Tile)] = &[
        (4, scalar::<4, LISTED>),
        (2, scalar::<2, LISTED>),
        (1, scalar::<1, LISTED>),
    ];
}

/// # Safety
/// See [`Tile`].
unsafe fn scalar<const ROWS: usize, const LISTED: bool>(walk: &Walk) {
    let mut sums = [[0f32; PANEL]; ROWS];
    for k in 0..walk.k {
        // SAFETY: the caller vouches for the numbers of each row and of the panel.
        let (columns, values) = unsafe {
            let columns = walk.columns::<LISTED>(0, k).cast::<[f32; PANEL]>().read();
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

    /// The loops by strip, tallest first.
    pub(super) struct Tiles<const LISTED: bool>;

    macro_rules! tiles {
        ($name:ident: $function:ident, $strip:literal, [$($rows:literal),*]) => {
            pub(super) const $name: &'static [(usize, Tile)] =
                &[$(($rows, $function::<$rows, $strip, LISTED>)),*];
        };
    }

    impl<const LISTED: bool> Tiles<LISTED> {
        tiles!(WIDE_1: wide, 1, [12, 8, 4, 3, 2, 1]);
        tiles!(WIDE_2: wide, 2, [12, 8, 6, 4, 3, 2, 1]);
        tiles!(WIDE_8: wide, 8, [1]);
        tiles!(HALVES: halves, 2, [6, 4, 3, 2, 1]);
    }

    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx512f")]
    unsafe fn wide<const ROWS: usize, const STRIP: usize, const LISTED: bool>(walk: &Walk) {
        let mut sums = [[_mm512_setzero_ps(); STRIP]; ROWS];
        // SAFETY: the caller vouches for every number read and for the room of the sums.
        unsafe {
            for k in 0..walk.k {
                let mut columns = [_mm512_setzero_ps(); STRIP];
                for (panel, columns) in columns.iter_mut().enumerate() {
                    *columns = _mm512_loadu_ps(walk.columns::<LISTED>(panel, k));
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

    /// One panel in parts of 8 columns each.
    ///
    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn halves<const ROWS: usize, const PARTS: usize, const LISTED: bool>(walk: &Walk) {
        let mut sums = [[_mm256_setzero_ps(); PARTS]; ROWS];
        // SAFETY: the caller vouches for every number read and for the room of the sums.
        unsafe {
            for k in 0..walk.k {
                let at = walk.columns::<LISTED>(0, k);
                let mut columns = [_mm256_setzero_ps(); PARTS];
                for (part, columns) in columns.iter_mut().enumerate() {
                    *columns = _mm256_loadu_ps(at.add(8 * part));
                }
                for row in 0..ROWS {
                    let x = _mm256_set1_ps(walk.a.add(row * walk.a_stride + k).read());
                    for part in 0..PARTS {
                        sums[row][part] = _mm256_fmadd_ps(x, columns[part], sums[row][part]);
                    }
                }
            }
            for row in 0..ROWS {
                for part in 0..PARTS {
                    _mm256_storeu_ps(walk.sums.add(row * PANEL + 8 * part), sums[row][part]);
                }
            }
        }
    }
}
