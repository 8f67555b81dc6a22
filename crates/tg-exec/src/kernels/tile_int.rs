//! The innermost loops over integers: a few rows of activations times one to four panels of 16 columns, in registers.
//!
//! Both operands lie in groups of consecutive k. A group of a row is 2 or 4 bytes; a group of a panel holds the same
//! k for 16 columns. A row may be made of several runs (the rows of a convolution window) at the same distances in
//! every row.
//!
//! `vpdpbusd` multiplies unsigned by signed bytes, so activations are stored plus 128 and 128 times the sum of a
//! column is taken off again (in the numbers added at the end). All additions wrap; none saturates.

use super::SimdLevel;

/// Columns of a panel.
pub(super) const PANEL: usize = 16;
/// Most sums of a tile.
pub(super) const TILE_SUMS: usize = 384;
/// Most rows of a tile.
pub(super) const TILE_ROWS: usize = 12;

/// Bits of the operands of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 8 bits on both sides, and no number of the rows is negative: they are 0 to 127. Faster than [`Self::I8`] where the
    /// processor has no dot product of bytes.
    U7,
    /// 8 bits on both sides.
    I8,
    /// 16 bits on either side.
    I16,
}

/// How operands lie in memory, and which instructions multiply them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    /// Rows of `u8` (the activation plus 128) times `i8`, k by four; AVX-512 VNNI.
    Bytes,
    /// `i16` times `i16`, k by two; AVX-512 VNNI.
    WidePairs,
    /// Rows of `u8` of at most 127 times `i8`, k by four; AVX2.
    Naturals,
    /// `i16` times `i16`, k by two; AVX2.
    Pairs,
    /// `i16` times `i16`, one k at a time; plain Rust.
    Singles,
}

impl Lanes {
    pub(super) const fn of(level: SimdLevel, width: Width) -> Self {
        match (level, width) {
            (SimdLevel::Avx512Vnni, Width::U7 | Width::I8) => Self::Bytes,
            (SimdLevel::Avx512Vnni, Width::I16) => Self::WidePairs,
            (SimdLevel::Avx2, Width::U7) => Self::Naturals,
            (SimdLevel::Avx2, Width::I8 | Width::I16) => Self::Pairs,
            (SimdLevel::Scalar, _) => Self::Singles,
        }
    }

    /// The level whose instructions these are.
    pub(super) const fn level(self) -> SimdLevel {
        match self {
            Self::Bytes | Self::WidePairs => SimdLevel::Avx512Vnni,
            Self::Naturals | Self::Pairs => SimdLevel::Avx2,
            Self::Singles => SimdLevel::Scalar,
        }
    }

    /// Consecutive k of a group.
    pub(super) const fn group(self) -> usize {
        match self {
            Self::Bytes | Self::Naturals => 4,
            Self::WidePairs | Self::Pairs => 2,
            Self::Singles => 1,
        }
    }

    /// Bytes of one number of a panel.
    pub(super) const fn column_bytes(self) -> usize {
        match self {
            Self::Bytes | Self::Naturals => 1,
            Self::WidePairs | Self::Pairs | Self::Singles => 2,
        }
    }

    /// Bytes of a group of a panel: the same k for all its columns.
    pub(super) const fn panel_group_bytes(self) -> usize {
        self.group() * self.column_bytes() * PANEL
    }

    /// Bytes of one activation in a row.
    pub(super) const fn activation_bytes(self) -> usize {
        match self {
            Self::Bytes | Self::Naturals => 1,
            Self::WidePairs | Self::Pairs | Self::Singles => 2,
        }
    }

    /// What the operand adds to an activation.
    pub(super) const fn offset(self) -> i32 {
        match self {
            Self::Bytes => 128,
            Self::Naturals | Self::WidePairs | Self::Pairs | Self::Singles => 0,
        }
    }

    /// Panels to take at a time if that many are left.
    pub(super) const fn strip(self, left: usize) -> usize {
        match (self, left) {
            (Self::Bytes | Self::WidePairs, 0..=2) => left,
            (Self::Bytes | Self::WidePairs, 3 | 5 | 6 | 9) => 3,
            (Self::Bytes | Self::WidePairs, _) => 4,
            (Self::Naturals | Self::Pairs | Self::Singles, _) => 1,
        }
    }

    /// The tile of most rows, at most `rows`, over a strip: its rows and its loop.
    pub(super) fn tile(self, strip: usize, rows: usize) -> (usize, Tile) {
        let choices: &[(usize, Tile)] = match (self, strip) {
            #[cfg(target_arch = "x86_64")]
            (Self::Bytes, 1) => x86::BYTES_1,
            #[cfg(target_arch = "x86_64")]
            (Self::Bytes, 2) => x86::BYTES_2,
            #[cfg(target_arch = "x86_64")]
            (Self::Bytes, 3) => x86::BYTES_3,
            #[cfg(target_arch = "x86_64")]
            (Self::Bytes, _) => x86::BYTES_4,
            #[cfg(target_arch = "x86_64")]
            (Self::WidePairs, 1) => x86::WIDE_PAIRS_1,
            #[cfg(target_arch = "x86_64")]
            (Self::WidePairs, 2) => x86::WIDE_PAIRS_2,
            #[cfg(target_arch = "x86_64")]
            (Self::WidePairs, 3) => x86::WIDE_PAIRS_3,
            #[cfg(target_arch = "x86_64")]
            (Self::WidePairs, _) => x86::WIDE_PAIRS_4,
            #[cfg(target_arch = "x86_64")]
            (Self::Naturals, _) => x86::NATURALS,
            #[cfg(target_arch = "x86_64")]
            (Self::Pairs, _) => x86::PAIRS,
            _ => SINGLES,
        };
        tallest(choices, rows)
    }
}

/// What a tile reads and writes.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    /// Rows start here plus their offset.
    pub a: *const u8,
    /// Byte offsets of the rows, one each.
    pub rows: &'a [usize; TILE_ROWS],
    /// Byte offsets of the runs of k in each row.
    pub segments: &'a [usize],
    /// Groups of a run.
    pub groups: usize,
    /// The first panel at the first group.
    pub b: *const u8,
    /// Bytes from a panel to the next.
    pub panel_stride: usize,
    /// Where the sums go: rows of `strip * 16`.
    pub sums: *mut i32,
}

/// Sums one tile.
///
/// # Safety
/// The processor has the instructions; every group of every run of every row can be read, and of every panel; and
/// there is room for the sums.
pub(super) type Tile = unsafe fn(&Walk<'_>);

const SINGLES: &[(usize, Tile)] = &[(4, singles::<4>), (2, singles::<2>), (1, singles::<1>)];

/// # Safety
/// See [`Tile`].
unsafe fn singles<const ROWS: usize>(walk: &Walk<'_>) {
    let mut sums = [[0i32; PANEL]; ROWS];
    let mut b = walk.b;
    for &segment in walk.segments {
        for group in 0..walk.groups {
            // SAFETY: the caller vouches for the group of each row and of the panel.
            let (columns, values) = unsafe {
                let columns = b.cast::<[i16; PANEL]>().read_unaligned();
                let mut values = [0i32; ROWS];
                for (value, &row) in values.iter_mut().zip(walk.rows) {
                    let at = walk.a.add(row + segment + 2 * group);
                    *value = i32::from(at.cast::<i16>().read_unaligned());
                }
                b = b.add(2 * PANEL);
                (columns, values)
            };
            for (sums, value) in sums.iter_mut().zip(values) {
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = sum.wrapping_add(value.wrapping_mul(i32::from(column)));
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: the caller vouches for the room.
        unsafe {
            walk.sums
                .add(row * PANEL)
                .cast::<[i32; PANEL]>()
                .write_unaligned(*sums);
        }
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

    macro_rules! tiles {
        ($name:ident, $pairs:literal, $strip:literal, [$($rows:literal),*]) => {
            pub(super) const $name: &[(usize, Tile)] = &[$(($rows, wide::<$rows, $strip, $pairs>)),*];
        };
    }
    tiles!(BYTES_1, false, 1, [12, 8, 6, 4, 3, 2, 1]);
    tiles!(BYTES_2, false, 2, [12, 8, 6, 4, 3, 2, 1]);
    tiles!(BYTES_3, false, 3, [8, 6, 4, 3, 2, 1]);
    tiles!(BYTES_4, false, 4, [6, 4, 3, 2, 1]);
    tiles!(WIDE_PAIRS_1, true, 1, [12, 8, 6, 4, 3, 2, 1]);
    tiles!(WIDE_PAIRS_2, true, 2, [12, 8, 6, 4, 3, 2, 1]);
    tiles!(WIDE_PAIRS_3, true, 3, [8, 6, 4, 3, 2, 1]);
    tiles!(WIDE_PAIRS_4, true, 4, [6, 4, 3, 2, 1]);
    pub(super) const PAIRS: &[(usize, Tile)] = &[
        (6, pairs::<6>),
        (4, pairs::<4>),
        (3, pairs::<3>),
        (2, pairs::<2>),
        (1, pairs::<1>),
    ];
    pub(super) const NATURALS: &[(usize, Tile)] = &[
        (4, naturals::<4>),
        (3, naturals::<3>),
        (2, naturals::<2>),
        (1, naturals::<1>),
    ];

    /// Four bytes of a group at a time: as bytes, or as pairs of 16 bits.
    ///
    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn wide<const ROWS: usize, const STRIP: usize, const PAIRS: bool>(walk: &Walk<'_>) {
        let mut sums = [[_mm512_setzero_si512(); STRIP]; ROWS];
        let mut b = walk.b;
        // SAFETY: the caller vouches for every group read and for the room of the sums.
        unsafe {
            let mut rows = [walk.a; ROWS];
            for (row, &offset) in rows.iter_mut().zip(walk.rows) {
                *row = row.add(offset);
            }
            for &segment in walk.segments {
                for group in 0..walk.groups {
                    let mut columns = [_mm512_setzero_si512(); STRIP];
                    for (panel, columns) in columns.iter_mut().enumerate() {
                        *columns = _mm512_loadu_si512(b.add(panel * walk.panel_stride).cast());
                    }
                    for row in 0..ROWS {
                        let at = rows[row].add(segment + 4 * group);
                        let x = _mm512_set1_epi32(at.cast::<i32>().read_unaligned());
                        for panel in 0..STRIP {
                            let sum = &mut sums[row][panel];
                            *sum = if PAIRS {
                                _mm512_dpwssd_epi32(*sum, x, columns[panel])
                            } else {
                                _mm512_dpbusd_epi32(*sum, x, columns[panel])
                            };
                        }
                    }
                    b = b.add(4 * PANEL);
                }
            }
            for row in 0..ROWS {
                for panel in 0..STRIP {
                    let at = walk.sums.add((row * STRIP + panel) * PANEL);
                    _mm512_storeu_si512(at.cast(), sums[row][panel]);
                }
            }
        }
    }

    /// `vpmaddubsw` adds two products in 16 bits and would saturate: at most 2 * 127 * 128 = 32,512 fits.
    ///
    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx2")]
    unsafe fn naturals<const ROWS: usize>(walk: &Walk<'_>) {
        let ones = _mm256_set1_epi16(1);
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        let mut b = walk.b;
        // SAFETY: the caller vouches for every group read and for the room of the sums.
        unsafe {
            let mut rows = [walk.a; ROWS];
            for (row, &offset) in rows.iter_mut().zip(walk.rows) {
                *row = row.add(offset);
            }
            for &segment in walk.segments {
                for group in 0..walk.groups {
                    let low = _mm256_loadu_si256(b.cast());
                    let high = _mm256_loadu_si256(b.add(32).cast());
                    for row in 0..ROWS {
                        let at = rows[row].add(segment + 4 * group);
                        let x = _mm256_set1_epi32(at.cast::<i32>().read_unaligned());
                        for (sum, columns) in sums[row].iter_mut().zip([low, high]) {
                            let pairs = _mm256_maddubs_epi16(x, columns);
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                        }
                    }
                    b = b.add(4 * PANEL);
                }
            }
            for row in 0..ROWS {
                for half in 0..2 {
                    let at = walk.sums.add(row * PANEL + half * 8);
                    _mm256_storeu_si256(at.cast(), sums[row][half]);
                }
            }
        }
    }

    /// # Safety
    /// See [`Tile`].
    #[target_feature(enable = "avx2")]
    unsafe fn pairs<const ROWS: usize>(walk: &Walk<'_>) {
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        let mut b = walk.b;
        // SAFETY: the caller vouches for every group read and for the room of the sums.
        unsafe {
            let mut rows = [walk.a; ROWS];
            for (row, &offset) in rows.iter_mut().zip(walk.rows) {
                *row = row.add(offset);
            }
            for &segment in walk.segments {
                for group in 0..walk.groups {
                    let low = _mm256_loadu_si256(b.cast());
                    let high = _mm256_loadu_si256(b.add(32).cast());
                    for row in 0..ROWS {
                        let at = rows[row].add(segment + 4 * group);
                        let x = _mm256_set1_epi32(at.cast::<i32>().read_unaligned());
                        let [first, second] = &mut sums[row];
                        *first = _mm256_add_epi32(*first, _mm256_madd_epi16(x, low));
                        *second = _mm256_add_epi32(*second, _mm256_madd_epi16(x, high));
                    }
                    b = b.add(4 * PANEL);
                }
            }
            for row in 0..ROWS {
                for half in 0..2 {
                    let at = walk.sums.add(row * PANEL + half * 8);
                    _mm256_storeu_si256(at.cast(), sums[row][half]);
                }
            }
        }
    }
}

/// The first (tallest) of some tiles that has at most `rows` rows, or the last one: its rows and its loop.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn tallest<T: Copy>(tiles: &[(usize, T)], rows: usize) -> (usize, T) {
    let fits = tiles.iter().find(|(height, _)| *height <= rows);
    *fits.unwrap_or(&tiles[tiles.len() - 1])
}
