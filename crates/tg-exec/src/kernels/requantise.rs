//! Integers to activations: `T[clamp(((x m + 2^(s-1)) >> s) + zero)]`.
//!
//! With T the greatest shift of a layer, but at least 32, the same rescaled value is `(x M + 2^(T-1)) >> T` for
//! `M = m 2^(T-s)`. If every M is below 2^31 the product has 63 bits, and the value is the high half of it, shifted
//! by T - 32: two multiplications for two lanes, no 64-bit shift. Layers whose M does not fit take the formula as it
//! stands. A table over 8-bit values is looked up 64 bytes at a time where the processor can.

use super::cpu::Cpu;
use super::memory::Shared;
use super::{SimdLevel, tile_int::PANEL};
use tg_ir::{ElementType, Requantise, Rescale};

/// Values of a byte.
const BYTE_VALUES: usize = 256;
/// Columns requantised at a time.
const WIDTH: usize = 64;

/// A [`Requantise`] made ready for many integers.
#[derive(Debug, Clone)]
pub struct Requantiser {
    rescales: Vec<Rescale>,
    uniform: bool,
    zero: i32,
    clamp: [i32; 2],
    table: Table,
    high: Option<HighHalf>,
}

#[derive(Debug, Clone)]
enum Table {
    None,
    /// Bytes to bytes: entry `y + 128`.
    Bytes(Box<[i8; BYTE_VALUES]>),
    /// Entry `y - clamp[0]`.
    Wide(Vec<i16>),
}

#[derive(Debug, Clone)]
struct HighHalf {
    /// M of each channel, and zeros so that a vector of 16 can be read from any channel and from the next.
    multipliers: Vec<i32>,
    /// T, at least 32.
    shift: u32,
}

/// Where activations go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    I8(*mut i8),
    I16(*mut i16),
}

impl Place {
    const fn at(self, offset: usize) -> Self {
        match self {
            Self::I8(out) => Self::I8(out.wrapping_add(offset)),
            Self::I16(out) => Self::I16(out.wrapping_add(offset)),
        }
    }
}

/// Activations of one width.
#[derive(Debug)]
pub enum Activations<'a> {
    /// 8 bits.
    I8(&'a mut [i8]),
    /// 16 bits.
    I16(&'a mut [i16]),
}

impl Requantiser {
    /// Prepares for tensors of that many channels.
    ///
    /// # Panics
    /// If a table has not one entry for each value of the clamp or a channel has no pair: a valid program's have.
    #[must_use]
    pub fn new(how: &Requantise, channels: usize) -> Self {
        let uniform = how.channel_pairs.len() == 1;
        let width = if uniform {
            channels.max(WIDTH)
        } else {
            channels
        };
        let rescales: Vec<Rescale> = (0..width)
            .map(|channel| how.pairs[usize::from(how.pair_of(channel))])
            .collect();
        let high = HighHalf::new(&rescales);
        Self {
            rescales,
            uniform,
            zero: i32::from(how.zero),
            clamp: how.clamp.map(i32::from),
            table: Table::new(how),
            high,
        }
    }

    /// Channels that can be requantised.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.rescales.len()
    }

    /// Whether all channels share one rescale.
    #[must_use]
    pub const fn is_uniform(&self) -> bool {
        self.uniform
    }

    /// The activation of one integer.
    #[must_use]
    pub fn output(&self, channel: usize, x: i64) -> i16 {
        let y = self.index(self.rescales[channel], x);
        match &self.table {
            Table::None => y,
            Table::Bytes(table) => {
                i16::from(table[usize::from(y.wrapping_add(128).cast_unsigned())])
            }
            Table::Wide(table) => table[self.entry(y)],
        }
    }

    /// The clamped value.
    fn index(&self, rescale: Rescale, x: i64) -> i16 {
        let [least, greatest] = self.clamp.map(i64::from);
        let y = (rescale.apply(x) + i64::from(self.zero)).clamp(least, greatest);
        i16::try_from(y).expect("clamped to 16 bits")
    }

    fn entry(&self, y: i16) -> usize {
        usize::try_from(i32::from(y) - self.clamp[0]).expect("at least the least")
    }

    /// Requantises whole pixels of `channels` integers each.
    ///
    /// # Panics
    /// If the output has another length than the input, or the channels are not those this was made for.
    pub fn requantise(&self, cpu: &Cpu, sums: &[i32], channels: usize, out: Activations<'_>) {
        match out {
            Activations::I8(out) => {
                assert_eq!(sums.len(), out.len(), "one activation for each sum");
                let out = Shared::new(out);
                self.run(cpu, sums, channels, |at, count| {
                    Place::I8(out.start_of(at, count))
                });
            }
            Activations::I16(out) => {
                assert_eq!(sums.len(), out.len(), "one activation for each sum");
                let out = Shared::new(out);
                self.run(cpu, sums, channels, |at, count| {
                    Place::I16(out.start_of(at, count))
                });
            }
        }
    }

    /// Requantises whole pixels on the calling thread.
    ///
    /// # Panics
    /// As [`Self::requantise`].
    pub(crate) fn requantise_part(
        &self,
        cpu: &Cpu,
        sums: &[i32],
        channels: usize,
        out: Activations<'_>,
    ) {
        let (out, count) = match out {
            Activations::I8(out) => (Place::I8(out.as_mut_ptr()), out.len()),
            Activations::I16(out) => (Place::I16(out.as_mut_ptr()), out.len()),
        };
        assert_eq!(sums.len(), count, "one activation for each sum");
        // SAFETY: the output is as long as the sums and borrowed alone.
        unsafe { self.rows(cpu, sums, channels, out) };
    }

    /// Requantises sums to a place of the same length.
    fn run(
        &self,
        cpu: &Cpu,
        sums: &[i32],
        channels: usize,
        place: impl Fn(usize, usize) -> Place + Sync,
    ) {
        let width = if self.uniform { WIDTH } else { channels };
        let step = ((1 << 14) / width + 1) * width;
        cpu.pool().run(sums.len().div_ceil(step), &|_, task| {
            let sums = &sums[task * step..sums.len().min((task + 1) * step)];
            let out = place(task * step, sums.len());
            // SAFETY: tasks are disjoint ranges of the output, which is as long as the sums.
            unsafe { self.rows(cpu, sums, channels, out) };
        });
    }

    /// # Safety
    /// The output has as many elements as the sums, and nobody else reads or writes them meanwhile.
    unsafe fn rows(&self, cpu: &Cpu, sums: &[i32], channels: usize, out: Place) {
        let width = if self.uniform { WIDTH } else { channels };
        assert!(width <= self.channels(), "the channels of the layer");
        let whole = sums.len() / width * width;
        for (first, part) in [(0, &sums[..whole]), (whole, &sums[whole..])] {
            if part.is_empty() {
                continue;
            }
            let block = Block {
                sums: part,
                stride: width,
                rows: part.len().div_ceil(width),
                width: width.min(part.len()),
                base: &[],
            };
            // SAFETY: by the caller.
            unsafe { self.finish(cpu, &block, 0, out.at(first), width) };
        }
    }

    /// Requantises a block; column 0 of it is channel `column`, and row r goes to `out + r * stride`.
    ///
    /// # Safety
    /// The block's columns of each of its rows can be written, and nobody else reads or writes them meanwhile.
    pub(super) unsafe fn finish(
        &self,
        cpu: &Cpu,
        block: &Block<'_>,
        column: usize,
        out: Place,
        stride: usize,
    ) {
        block.check();
        assert!(
            column + block.width <= self.channels(),
            "the channels of the layer"
        );
        match (&self.table, out) {
            (Table::None, _) => {
                // SAFETY: by the caller.
                unsafe { self.clamp_block(cpu, block, column, out, stride) };
            }
            (Table::Bytes(table), Place::I8(start)) => {
                // SAFETY: by the caller.
                unsafe { self.clamp_block(cpu, block, column, out, stride) };
                for row in 0..block.rows {
                    // SAFETY: by the caller; the row was written above.
                    let row = unsafe { row_of(start.add(row * stride), block.width) };
                    look_up(cpu, table, row);
                }
            }
            (Table::Bytes(_), Place::I16(_)) => panic!("a table of bytes gives bytes"),
            (Table::Wide(table), _) => {
                // SAFETY: by the caller.
                unsafe { self.look_up_block(cpu, table, block, column, out, stride) };
            }
        }
    }

    /// # Safety
    /// As [`Self::finish`].
    unsafe fn look_up_block(
        &self,
        cpu: &Cpu,
        table: &[i16],
        block: &Block<'_>,
        column: usize,
        out: Place,
        stride: usize,
    ) {
        let mut indices = [0i16; WIDTH];
        for row in 0..block.rows {
            for first in (0..block.width).step_by(WIDTH) {
                let width = WIDTH.min(block.width - first);
                let part = Block {
                    sums: &block.sums[row * block.stride + first..][..width],
                    stride: width,
                    rows: 1,
                    width,
                    base: block.base.get(first..).unwrap_or(&[]),
                };
                let place = Place::I16(indices.as_mut_ptr());
                // SAFETY: the indices have room for `WIDTH`; the output by the caller.
                unsafe {
                    self.clamp_block(cpu, &part, column + first, place, WIDTH);
                    match out.at(row * stride + first) {
                        Place::I8(out) => {
                            for (out, &y) in row_of(out, width).iter_mut().zip(&indices) {
                                // The table of an 8-bit output holds 8-bit values.
                                *out = table[self.entry(y)] as i8;
                            }
                        }
                        Place::I16(out) => {
                            for (out, &y) in row_of(out, width).iter_mut().zip(&indices) {
                                *out = table[self.entry(y)];
                            }
                        }
                    }
                }
            }
        }
    }

    /// Rescales and clamps.
    ///
    /// # Safety
    /// As [`Self::finish`]; the block lies in its sums and the channels exist.
    unsafe fn clamp_block(
        &self,
        cpu: &Cpu,
        block: &Block<'_>,
        column: usize,
        out: Place,
        stride: usize,
    ) {
        match (cpu.level(), &self.high) {
            #[cfg(target_arch = "x86_64")]
            (SimdLevel::Avx512Vnni, Some(high)) => {
                let step = x86::Step::new(high, self.zero, self.clamp);
                // SAFETY: the level is available; the rest by the caller.
                unsafe { step.avx512(block, column, out, stride) }
            }
            #[cfg(target_arch = "x86_64")]
            (SimdLevel::Avx2, Some(high)) => {
                let step = x86::Step::new(high, self.zero, self.clamp);
                // SAFETY: the level is available; the rest by the caller.
                unsafe { step.avx2(block, column, out, stride) }
            }
            _ => {
                for row in 0..block.rows {
                    let sums = &block.sums[row * block.stride..][..block.width];
                    let indices = sums.iter().enumerate().map(|(index, &sum)| {
                        let sum = sum.wrapping_add(block.base_of(index));
                        self.index(self.rescales[column + index], i64::from(sum))
                    });
                    match out.at(row * stride) {
                        // SAFETY: by the caller.
                        Place::I8(out) => unsafe { row_of(out, block.width) }
                            .iter_mut()
                            .zip(indices)
                            .for_each(|(out, y)| *out = y as i8),
                        // SAFETY: by the caller.
                        Place::I16(out) => unsafe { row_of(out, block.width) }
                            .iter_mut()
                            .zip(indices)
                            .for_each(|(out, y)| *out = y),
                    }
                }
            }
        }
    }
}

impl Table {
    fn new(how: &Requantise) -> Self {
        let Some(entries) = &how.table else {
            return Self::None;
        };
        let [least, greatest] = how.clamp;
        let span = usize::from(greatest.abs_diff(least)) + 1;
        assert_eq!(entries.len(), span, "an entry for each value of the clamp");
        if how.output != ElementType::I8 || least < -128 || greatest > 127 {
            return Self::Wide(entries.clone());
        }
        let mut bytes = [0i8; BYTE_VALUES];
        let first = usize::from(least.wrapping_add(128).cast_unsigned());
        for (slot, &entry) in bytes[first..].iter_mut().zip(entries) {
            *slot = i8::try_from(entry).expect("the table of an 8-bit output holds 8-bit values");
        }
        Self::Bytes(Box::new(bytes))
    }
}

impl HighHalf {
    fn new(rescales: &[Rescale]) -> Option<Self> {
        let greatest = rescales.iter().map(Rescale::shift).max()?;
        let shift = greatest.max(32);
        let multiplier = |rescale: &Rescale| {
            let wide = u64::from(rescale.multiplier()) << (shift - rescale.shift());
            i32::try_from(wide).ok()
        };
        let mut multipliers = rescales
            .iter()
            .map(multiplier)
            .collect::<Option<Vec<i32>>>()?;
        multipliers.resize(multipliers.len() + PANEL + 1, 0);
        Some(Self { multipliers, shift })
    }
}

/// Sums of some rows and columns of an output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// Row r starts at `r * stride`.
    pub sums: &'a [i32],
    pub stride: usize,
    pub rows: usize,
    /// Columns.
    pub width: usize,
    /// Added to every row (modulo 2^32): one number per column, or nothing at all.
    pub base: &'a [i32],
}

impl Block<'_> {
    fn check(&self) {
        assert!(
            self.rows > 0 && (self.rows - 1) * self.stride + self.width <= self.sums.len(),
            "the block lies in its sums"
        );
        assert!(
            self.base.is_empty() || self.base.len() >= self.width,
            "one number to add for each column"
        );
    }

    pub(super) fn base_of(&self, column: usize) -> i32 {
        self.base.get(column).copied().unwrap_or(0)
    }
}

/// # Safety
/// The elements exist and nobody else reads or writes them as long as the slice lives.
unsafe fn row_of<'a, T>(out: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts_mut(out, count) }
}

/// Replaces each value by its entry.
fn look_up(cpu: &Cpu, table: &[i8; BYTE_VALUES], values: &mut [i8]) {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_byte_tables() {
        // SAFETY: `has_byte_tables` says that the instructions exist.
        unsafe { x86::look_up_vbmi(table, values) };
        return;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = cpu;
    for value in values {
        *value = table[usize::from(value.cast_unsigned() ^ 0x80)];
    }
}

/// Maps activations through a table of 256 entries: entry `x + 128` for each value x.
///
/// # Panics
/// If the output has another length.
pub fn map_table(cpu: &Cpu, table: &[i8; BYTE_VALUES], values: &[i8], out: &mut [i8]) {
    out.copy_from_slice(values);
    look_up(cpu, table, out);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BYTE_VALUES, Block, HighHalf, Place};
    use std::arch::x86_64::*;

    /// Rescale, zero point and clamp of a layer.
    pub(super) struct Step<'a> {
        multipliers: &'a [i32],
        shift: u32,
        zero: i32,
        clamp: [i32; 2],
    }

    impl<'a> Step<'a> {
        pub(super) fn new(high: &'a HighHalf, zero: i32, clamp: [i32; 2]) -> Self {
            Self {
                multipliers: &high.multipliers,
                shift: high.shift,
                zero,
                clamp,
            }
        }

        /// # Safety
        /// The processor has the features; the block, `column + block.width` channels and the rows of the output
        /// exist.
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        pub(super) unsafe fn avx512(
            &self,
            block: &Block<'_>,
            column: usize,
            out: Place,
            stride: usize,
        ) {
            let round = _mm512_set1_epi64(1i64 << (self.shift - 1));
            let count = _mm_cvtsi32_si128((self.shift - 32).cast_signed());
            let zero = _mm512_set1_epi32(self.zero);
            let [least, greatest] = self.clamp.map(|end| _mm512_set1_epi32(end));
            for first in (0..block.width).step_by(16) {
                let lanes = (block.width - first).min(16);
                let mask = ((1u32 << lanes) - 1) as __mmask16;
                // SAFETY: `multipliers` has 17 more numbers than channels; masked lanes are not read; every row of
                // sums and outputs has `block.width` elements.
                unsafe {
                    let base = if block.base.is_empty() {
                        _mm512_setzero_si512()
                    } else {
                        _mm512_maskz_loadu_epi32(mask, block.base.as_ptr().add(first))
                    };
                    let multipliers = self.multipliers.as_ptr().add(column + first);
                    let even = _mm512_loadu_si512(multipliers.cast());
                    let odd = _mm512_loadu_si512(multipliers.add(1).cast());
                    for row in 0..block.rows {
                        let sums = block.sums.as_ptr().add(row * block.stride + first);
                        let x = _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, sums), base);
                        let low = _mm512_add_epi64(_mm512_mul_epi32(x, even), round);
                        let x = _mm512_srli_epi64::<32>(x);
                        let up = _mm512_add_epi64(_mm512_mul_epi32(x, odd), round);
                        let y = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64::<32>(low), up);
                        let y = _mm512_add_epi32(_mm512_sra_epi32(y, count), zero);
                        let y = _mm512_min_epi32(_mm512_max_epi32(y, least), greatest);
                        match out {
                            Place::I8(out) => {
                                let bytes = _mm512_cvtepi32_epi8(y);
                                let target = out.add(row * stride + first);
                                if lanes == 16 {
                                    _mm_storeu_si128(target.cast(), bytes);
                                } else {
                                    _mm_mask_storeu_epi8(target, mask, bytes);
                                }
                            }
                            Place::I16(out) => {
                                let words = _mm512_cvtepi32_epi16(y);
                                let target = out.add(row * stride + first);
                                _mm256_mask_storeu_epi16(target, mask, words);
                            }
                        }
                    }
                }
            }
        }

        /// # Safety
        /// As [`Self::avx512`].
        #[target_feature(enable = "avx2")]
        pub(super) unsafe fn avx2(
            &self,
            block: &Block<'_>,
            column: usize,
            out: Place,
            stride: usize,
        ) {
            let round = _mm256_set1_epi64x(1i64 << (self.shift - 1));
            let count = _mm_cvtsi32_si128((self.shift - 32).cast_signed());
            let zero = _mm256_set1_epi32(self.zero);
            let [least, greatest] = self.clamp.map(|end| _mm256_set1_epi32(end));
            for first in (0..block.width).step_by(8) {
                let lanes = (block.width - first).min(8);
                let mut base = [0i32; 8];
                for (lane, slot) in base.iter_mut().enumerate().take(lanes) {
                    *slot = block.base_of(first + lane);
                }
                // SAFETY: `multipliers` has 17 more numbers than channels; whole vectors are read only where 8
                // columns remain; every row of sums and outputs has `block.width` elements.
                unsafe {
                    let base = _mm256_loadu_si256(base.as_ptr().cast());
                    let multipliers = self.multipliers.as_ptr().add(column + first);
                    let even = _mm256_loadu_si256(multipliers.cast());
                    let odd = _mm256_loadu_si256(multipliers.add(1).cast());
                    for row in 0..block.rows {
                        let sums = block.sums.as_ptr().add(row * block.stride + first);
                        let x = if lanes == 8 {
                            _mm256_loadu_si256(sums.cast())
                        } else {
                            let mut some = [0i32; 8];
                            some.as_mut_ptr().copy_from_nonoverlapping(sums, lanes);
                            _mm256_loadu_si256(some.as_ptr().cast())
                        };
                        let x = _mm256_add_epi32(x, base);
                        let low = _mm256_add_epi64(_mm256_mul_epi32(x, even), round);
                        let x = _mm256_srli_epi64::<32>(x);
                        let up = _mm256_add_epi64(_mm256_mul_epi32(x, odd), round);
                        let y = _mm256_blend_epi32::<0xAA>(_mm256_srli_epi64::<32>(low), up);
                        let y = _mm256_add_epi32(_mm256_sra_epi32(y, count), zero);
                        let y = _mm256_min_epi32(_mm256_max_epi32(y, least), greatest);
                        let words = _mm_packs_epi32(
                            _mm256_castsi256_si128(y),
                            _mm256_extracti128_si256::<1>(y),
                        );
                        match out {
                            Place::I8(out) => {
                                let bytes = _mm_packs_epi16(words, words);
                                let bytes = _mm_cvtsi128_si64(bytes).to_le_bytes();
                                let target = out.add(row * stride + first);
                                target.copy_from_nonoverlapping(bytes.as_ptr().cast(), lanes);
                            }
                            Place::I16(out) => {
                                let mut some = [0i16; 8];
                                _mm_storeu_si128(some.as_mut_ptr().cast(), words);
                                let target = out.add(row * stride + first);
                                target.copy_from_nonoverlapping(some.as_ptr(), lanes);
                            }
                        }
                    }
                }
            }
        }
    }

    /// # Safety
    /// The processor has the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) unsafe fn look_up_vbmi(table: &[i8; BYTE_VALUES], values: &mut [i8]) {
        // SAFETY: the table has four vectors; masked bytes of the values are neither read nor written.
        unsafe {
            let entries = table.as_ptr();
            let quarter = |index: usize| _mm512_loadu_si512(entries.add(64 * index).cast());
            let quarters = [quarter(0), quarter(1), quarter(2), quarter(3)];
            for chunk in values.chunks_mut(64) {
                let mask = u64::MAX >> (64 - chunk.len());
                let x = _mm512_maskz_loadu_epi8(mask, chunk.as_ptr());
                // Entry x + 128: the top bit chooses the half, inverted.
                let index = _mm512_xor_si512(x, _mm512_set1_epi8(-128));
                let low = _mm512_permutex2var_epi8(quarters[0], index, quarters[1]);
                let up = _mm512_permutex2var_epi8(quarters[2], index, quarters[3]);
                let y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, up);
                _mm512_mask_storeu_epi8(chunk.as_mut_ptr(), mask, y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::sample::Numbers;

    fn random(
        numbers: &mut Numbers,
        channels: usize,
        shifts: [i64; 2],
        output: ElementType,
    ) -> Requantise {
        let pairs: Vec<Rescale> = (0..numbers.between(1, 4))
            .map(|_| {
                let multiplier = u32::try_from(numbers.between(1, 32_767)).unwrap();
                let shift = u32::try_from(numbers.between(shifts[0], shifts[1])).unwrap();
                Rescale::new(multiplier, shift).unwrap()
            })
            .collect();
        let entries = if numbers.between(0, 1) == 0 {
            1
        } else {
            channels
        };
        let last = i64::try_from(pairs.len()).unwrap() - 1;
        let has_table = numbers.between(0, 2) == 0;
        let (clamps, reach) = match (output, has_table) {
            (ElementType::I8, false) => ([[-128, 127], [0, 127], [-100, 50]], 127),
            (ElementType::I8, true) => ([[-128, 127], [5, 60], [-1_000, 900]], 127),
            (_, false) => ([[-32_767, 32_767], [0, 20_000], [-500, 4]], 32_767),
            (_, true) => ([[-2_000, 2_000], [-128, 127], [0, 0]], 32_767),
        };
        let clamp: [i16; 2] = clamps[usize::try_from(numbers.between(0, 2)).unwrap()];
        Requantise {
            channel_pairs: (0..entries)
                .map(|_| u8::try_from(numbers.between(0, last)).unwrap())
                .collect(),
            pairs,
            zero: i16::try_from(numbers.between(-100, 100)).unwrap(),
            range: [i32::MIN, i32::MAX],
            clamp,
            table: has_table.then(|| {
                (clamp[0]..=clamp[1])
                    .map(|_| i16::try_from(numbers.between(-reach, reach)).unwrap())
                    .collect()
            }),
            output,
        }
    }

    /// Sums of every size, the greatest included.
    fn some_sum(numbers: &mut Numbers) -> i32 {
        let bits = numbers.between(0, 31);
        let reach = (1i64 << bits) - 1;
        match numbers.between(0, 20) {
            0 => i32::MAX,
            1 => i32::MIN,
            _ => i32::try_from(numbers.between(-reach, reach)).unwrap(),
        }
    }

    #[test]
    fn every_level_gives_the_defined_activation() {
        let mut numbers = Numbers::new(5);
        for case in 0..400 {
            let channels = usize::try_from(numbers.between(1, 70)).unwrap();
            let pixels = usize::try_from(numbers.between(1, 9)).unwrap();
            // Usual shifts, small ones (no high half) and all of them.
            let shifts = [[17, 34], [2, 16], [2, 46], [33, 46]][case % 4];
            let output = [ElementType::I8, ElementType::I16][case / 4 % 2];
            let how = random(&mut numbers, channels, shifts, output);
            assert_eq!(how.invalid(channels), None);
            let sums: Vec<i32> = (0..pixels * channels)
                .map(|_| some_sum(&mut numbers))
                .collect();
            let expected: Vec<i16> = (0..sums.len())
                .map(|i| {
                    let rescale = how.pairs[usize::from(how.pair_of(i % channels))];
                    how.output(rescale, i64::from(sums[i]))
                })
                .collect();
            let prepared = Requantiser::new(&how, channels);
            assert_eq!(prepared.output(0, i64::from(sums[0])), expected[0]);
            for level in SimdLevel::available() {
                for threads in [1, 2] {
                    let cpu = Cpu::with_level(level, threads).unwrap();
                    let got: Vec<i16> = if output == ElementType::I8 {
                        let mut got = vec![0i8; sums.len()];
                        prepared.requantise(&cpu, &sums, channels, Activations::I8(&mut got));
                        got.into_iter().map(i16::from).collect()
                    } else {
                        let mut got = vec![0i16; sums.len()];
                        prepared.requantise(&cpu, &sums, channels, Activations::I16(&mut got));
                        got
                    };
                    assert_eq!(got, expected, "case {case} {level} {threads}");
                }
            }
        }
    }

    #[test]
    fn usual_layers_use_the_high_half_and_wide_factors_do_not() {
        let rescale = |m, s| Rescale::new(m, s).unwrap();
        assert!(HighHalf::new(&[rescale(32_767, 17), rescale(1, 32)]).is_some());
        assert!(HighHalf::new(&[rescale(32_767, 46), rescale(32_767, 31)]).is_some());
        assert!(HighHalf::new(&[rescale(32_767, 15)]).is_none());
        assert!(HighHalf::new(&[rescale(32_767, 46), rescale(32_767, 20)]).is_none());
    }

    #[test]
    fn tables_are_looked_up_at_every_length() {
        let mut numbers = Numbers::new(8);
        let table: [i8; 256] = std::array::from_fn(|_| numbers.activation());
        for length in [0, 1, 63, 64, 65, 300] {
            let values: Vec<i8> = (0..length).map(|_| numbers.activation()).collect();
            let expected: Vec<i8> = values
                .iter()
                .map(|&v| table[usize::try_from(i16::from(v) + 128).unwrap()])
                .collect();
            for level in SimdLevel::available() {
                let mut out = vec![0; length];
                map_table(
                    &Cpu::with_level(level, 1).unwrap(),
                    &table,
                    &values,
                    &mut out,
                );
                assert_eq!(out, expected, "{level} {length}");
            }
        }
    }
}
