//! The rescale as a public segment table.
//!
//! The prover never forms `x * m`: modulo a 31-bit prime that product admits wrong quotients. But `m` and `s` are
//! constants of the program, so `x -> z` is a step function. Its steps are covered by **segments**: every `x` in
//! `[base, base + 2^k)` maps to the same `z`. An accumulator is then proved by naming a segment and an offset below
//! `2^k`, split in a low limb below `2^min(k, 8)` and a high limb below `2^max(k - 8, 0)`:
//! `x = base + 256 * high + low`. Both limbs are positions in one public table of [`LIMB_TABLE_LEN`] entries.
//! Overlapping segments of one step are harmless: they name the same `z`.

use crate::requantise::Requantise;
use crate::rescale::Rescale;

/// Widest segment: two limbs of eight bits.
pub const SEGMENT_BITS_MAX: u32 = 16;
/// Most segments of one table.
pub const SEGMENTS_MAX: usize = 1 << 14;
/// Limb classes 0 to 8: class `c` admits the values below `2^c`.
pub const LIMB_CLASS_MAX: u32 = 8;
/// Entries of the limb table: `2^0 + ... + 2^8`.
pub const LIMB_TABLE_LEN: usize = (1 << (LIMB_CLASS_MAX + 1)) - 1;

/// The position of (`class`, `value`) in the limb table.
#[must_use]
pub const fn limb_position(class: u32, value: u32) -> u32 {
    debug_assert!(class <= LIMB_CLASS_MAX && value < 1 << class);
    (1 << class) - 1 + value
}

/// The (`class`, `value`) at a position of the limb table.
#[must_use]
pub const fn limb_entry(position: u32) -> (u32, u32) {
    let class = (position + 1).ilog2();
    (class, position + 1 - (1 << class))
}

/// One segment: `x` in `[base, base + 2^bits)` maps to `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The least accumulator of the segment.
    pub base: i32,
    /// log2 of its width.
    pub bits: u32,
    /// What every accumulator of the segment maps to.
    pub output: i16,
    /// Index of the (multiplier, shift) pair the segment belongs to.
    pub pair: u8,
}

impl Segment {
    /// The class of the low limb.
    #[must_use]
    pub fn class_low(&self) -> u32 {
        self.bits.min(8)
    }

    /// The class of the high limb.
    #[must_use]
    pub fn class_high(&self) -> u32 {
        self.bits.saturating_sub(8)
    }
}

/// Why no segment table exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The range of accumulators needs more segments than a table may have.
    #[error("the rescale needs more than {limit} segments for accumulators in [{low}, {high}]")]
    TooManySegments {
        /// The limit.
        limit: usize,
        /// Least accumulator.
        low: i32,
        /// Greatest accumulator.
        high: i32,
    },
}

/// All segments of one requantisation, grouped by pair, ascending by base within a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentTable {
    segments: Vec<Segment>,
    /// Where each pair's segments start; one more entry than pairs.
    starts: Vec<usize>,
}

impl SegmentTable {
    /// Covers every accumulator in the declared range of the requantisation, for each of its pairs.
    ///
    /// # Errors
    /// [`SegmentError::TooManySegments`].
    pub fn build(requantise: &Requantise) -> Result<Self, SegmentError> {
        Self::within(requantise, SEGMENTS_MAX)
    }

    /// The same with at most `limit` segments: no more are made.
    ///
    /// # Errors
    /// [`SegmentError::TooManySegments`].
    pub fn within(requantise: &Requantise, limit: usize) -> Result<Self, SegmentError> {
        let mut table = Self {
            segments: Vec::new(),
            starts: vec![0],
        };
        for (pair, rescale) in requantise.pairs.iter().enumerate() {
            let pair = u8::try_from(pair).expect("a requantisation has at most 16 pairs");
            table.cover_pair(requantise, *rescale, (pair, limit))?;
            table.starts.push(table.segments.len());
        }
        Ok(table)
    }

    /// The segments.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The position of the segment that holds `x` for a pair, or nothing if `x` is outside the declared range.
    #[must_use]
    pub fn find(&self, pair: u8, x: i32) -> Option<usize> {
        let start = *self.starts.get(usize::from(pair))?;
        let end = *self.starts.get(usize::from(pair) + 1)?;
        let position = start
            + self.segments[start..end]
                .partition_point(|segment| segment.base <= x)
                .checked_sub(1)?;
        let segment = &self.segments[position];
        (i64::from(x) < i64::from(segment.base) + (1i64 << segment.bits)).then_some(position)
    }

    /// Adds the segments of one pair: one run of equal outputs after the other.
    fn cover_pair(
        &mut self,
        requantise: &Requantise,
        rescale: Rescale,
        pair: (u8, usize),
    ) -> Result<(), SegmentError> {
        let [low, high] = requantise.range;
        let end_of_range = i64::from(high) + 1;
        let mut start = i64::from(low);
        while start < end_of_range {
            let output = requantise.output(rescale, start);
            let mut end = self.next_step(requantise, rescale, start).min(end_of_range);
            while end < end_of_range && requantise.output(rescale, end) == output {
                end = self.next_step(requantise, rescale, end).min(end_of_range);
            }
            self.cover_run(requantise, start..end, output, pair)?;
            start = end;
        }
        Ok(())
    }

    /// The least accumulator above `x` whose clamped, rescaled value differs from that of `x`.
    fn next_step(&self, requantise: &Requantise, rescale: Rescale, x: i64) -> i64 {
        let zero = i64::from(requantise.zero);
        let y = rescale.apply(x) + zero;
        let [least, greatest] = requantise.clamp.map(i64::from);
        if y >= greatest {
            return i64::MAX;
        }
        rescale.threshold(y.max(least) + 1 - zero)
    }

    /// Covers `[run.start, run.end)` by segments of one width, the last one ending exactly at the run's end.
    fn cover_run(
        &mut self,
        requantise: &Requantise,
        run: std::ops::Range<i64>,
        output: i16,
        (pair, limit): (u8, usize),
    ) -> Result<(), SegmentError> {
        let width = u64::try_from(run.end - run.start).expect("a run is not empty");
        let bits = width.ilog2().min(SEGMENT_BITS_MAX);
        let step = 1i64 << bits;
        let mut base = run.start;
        loop {
            let last = base + step >= run.end;
            let clipped = if last { run.end - step } else { base };
            if self.segments.len() == limit {
                let [low, high] = requantise.range;
                return Err(SegmentError::TooManySegments { limit, low, high });
            }
            let base_i32 = i32::try_from(clipped).expect("a run lies within the range of an i32");
            self.segments.push(Segment {
                base: base_i32,
                bits,
                output,
                pair,
            });
            if last {
                return Ok(());
            }
            base += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requantise(
        pairs: Vec<Rescale>,
        range: [i32; 2],
        clamp: [i16; 2],
        table: Option<Vec<i16>>,
    ) -> Requantise {
        let channel_pairs = (0..pairs.len())
            .map(|pair| u8::try_from(pair).expect("few"))
            .collect();
        Requantise {
            pairs,
            channel_pairs,
            zero: 0,
            range,
            clamp,
            table,
            output: crate::ElementType::I8,
        }
    }

    #[test]
    fn limb_positions_and_entries_are_inverse() {
        let mut next = 0;
        for class in 0..=LIMB_CLASS_MAX {
            for value in 0..1 << class {
                assert_eq!(limb_position(class, value), next);
                assert_eq!(limb_entry(next), (class, value));
                next += 1;
            }
        }
        assert_eq!(next as usize, LIMB_TABLE_LEN);
    }

    /// Every accumulator of every segment agrees with the formula, and every accumulator of the range is found.
    fn check(requantise: &Requantise) {
        let table = SegmentTable::build(requantise).expect("small enough");
        for segment in table.segments() {
            let rescale = requantise.pairs[usize::from(segment.pair)];
            let last = i64::from(segment.base) + (1i64 << segment.bits) - 1;
            for x in [i64::from(segment.base), last] {
                assert_eq!(
                    requantise.output(rescale, x),
                    segment.output,
                    "{segment:?} at {x}"
                );
            }
        }
        let [low, high] = requantise.range;
        for pair in 0..requantise.pairs.len() {
            for x in (low..=high).step_by(7).chain([low, high]) {
                let position = table
                    .find(u8::try_from(pair).expect("few"), x)
                    .expect("covered");
                let segment = table.segments()[position];
                assert_eq!(usize::from(segment.pair), pair);
                assert_eq!(
                    segment.output,
                    requantise.output(requantise.pairs[pair], i64::from(x))
                );
            }
            assert_eq!(table.find(u8::try_from(pair).expect("few"), high + 1), None);
            assert_eq!(table.find(u8::try_from(pair).expect("few"), low - 1), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn tables_agree_with_the_formula(
            m in 1u32..(1 << 15), s in 8u32..30, low in -300_000i32..0, high in 1i32..300_000, relu in any::<bool>(),
        ) {
            let pairs = vec![Rescale::new(m, s).expect("in range"), Rescale::new(m, s + 1).expect("in range")];
            let clamp = if relu { [0, 127] } else { [-128, 127] };
            check(&requantise(pairs, [low, high], clamp, None));
        }

        #[test]
        fn value_tables_are_fused(seed in any::<u64>()) {
            let values = (0..256u64).map(|i| (seed.rotate_left(u32::try_from(i % 64).expect("small")) % 5) as i16).collect();
            let pairs = vec![Rescale::new(16_500, 22).expect("in range")];
            check(&requantise(pairs, [-100_000, 100_000], [-128, 127], Some(values)));
        }
    }
}
