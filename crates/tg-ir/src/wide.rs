//! Requantisation to 16 bits by a shift, as a public table of few segments.
//!
//! A step function of 2^16 steps has no [`SegmentTable`](crate::SegmentTable) of admissible length. If its multiplier is
//! a power of two, all its steps are 2^t wide, and one segment covers up to 2^12 of them: every `x` of a segment is
//! `base + 2^t step + rest` with `rest < 2^t`, and maps to `output + step`. Where the clamp is met a segment is any
//! `base + 2^r step + rest` with `rest < 2^r` that maps to `output` whatever the step. Step and rest are limbs of at most
//! 12 bits in the classes that the segment names.

use crate::limits::FIELD_BOUND;
use crate::requantise::Requantise;
use crate::rescale::Rescale;
use crate::segment::SEGMENTS_MAX;

/// Bits of a limb: a step, or half of a rest.
pub const WIDE_LIMB_BITS: u32 = 12;
/// Greatest shift: a rest of two limbs.
pub const WIDE_SHIFT_MAX: u32 = 2 * WIDE_LIMB_BITS;

/// One segment: `x = base + 2^scale step + rest`, `step < 2^bits`, `rest < 2^scale`, maps to `output + step`, or to
/// `output` if the clamp is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideSegment {
    /// The least accumulator of the segment.
    pub base: i32,
    /// log2 of the width of a step.
    pub scale: u32,
    /// log2 of the number of steps.
    pub bits: u32,
    /// What the first step maps to.
    pub output: i16,
    /// Whether all steps map to that: the clamp is met.
    pub clamped: bool,
    /// Index of the (multiplier, shift) pair.
    pub pair: u8,
}

impl WideSegment {
    /// The class of the rest's low limb.
    #[must_use]
    pub fn class_low(&self) -> u32 {
        self.scale.min(WIDE_LIMB_BITS)
    }

    /// The class of the rest's high limb.
    #[must_use]
    pub const fn class_high(&self) -> u32 {
        self.scale.saturating_sub(WIDE_LIMB_BITS)
    }

    /// One more than the greatest accumulator of the segment.
    const fn end(&self) -> i64 {
        self.base as i64 + (1 << (self.scale + self.bits))
    }
}

/// Why a requantisation has no such table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WideError {
    /// It has a value table.
    #[error("its value table needs more segments than are admitted")]
    Table,
    /// A multiplier is no power of two, or the shift is negative or too large.
    #[error("its factors are not powers of two from 2^-24 to 1")]
    Factor,
    /// Too many segments.
    #[error("its table of segments is too long")]
    TooMany,
    /// A segment at an end of the range leaves the field.
    #[error("its range is too close to the field bound")]
    Field,
}

/// All segments of a requantisation by shifts, ascending by base within a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideTable {
    segments: Vec<WideSegment>,
    starts: Vec<usize>,
    /// Limbs of a rest: 1 or 2.
    rest_limbs: u32,
}

/// The shift that a rescale is, if it is one.
#[must_use]
pub const fn shift_of(rescale: Rescale) -> Option<u32> {
    let (m, s) = (rescale.multiplier(), rescale.shift());
    if !m.is_power_of_two() {
        return None;
    }
    s.checked_sub(m.ilog2())
}

impl WideTable {
    /// Covers every accumulator in the declared range, for each pair.
    ///
    /// # Errors
    /// [`WideError`] says why there is no table.
    pub fn build(how: &Requantise) -> Result<Self, WideError> {
        if how.table.is_some() {
            return Err(WideError::Table);
        }
        let shifts = how.pairs.iter().map(|&rescale| {
            let shift = shift_of(rescale).filter(|&shift| shift <= WIDE_SHIFT_MAX);
            shift.ok_or(WideError::Factor)
        });
        let shifts: Vec<u32> = shifts.collect::<Result<_, _>>()?;
        let two = shifts.iter().any(|&shift| shift > WIDE_LIMB_BITS);
        let mut table = Self {
            segments: Vec::new(),
            starts: vec![0],
            rest_limbs: if two { 2 } else { 1 },
        };
        for (pair, shift) in (0..).zip(shifts) {
            table.cover_pair(how, shift, pair)?;
            table.starts.push(table.segments.len());
        }
        Ok(table)
    }

    /// The segments.
    #[must_use]
    pub fn segments(&self) -> &[WideSegment] {
        &self.segments
    }

    /// Limbs of a rest: 2 if a shift is above 12, else 1.
    #[must_use]
    pub const fn rest_limbs(&self) -> u32 {
        self.rest_limbs
    }

    /// Segment, step and rest of an accumulator for a pair, or nothing if it is outside the declared range.
    #[must_use]
    pub fn find(&self, pair: u8, x: i32) -> Option<(usize, u32, u32)> {
        let start = *self.starts.get(usize::from(pair))?;
        let end = *self.starts.get(usize::from(pair) + 1)?;
        let own = &self.segments[start..end];
        let index = own.partition_point(|s| s.base <= x).checked_sub(1)?;
        let segment = own[index];
        if i64::from(x) >= segment.end() {
            return None;
        }
        let offset = x.wrapping_sub(segment.base).cast_unsigned();
        let rest = offset & ((1 << segment.scale) - 1);
        Some((start + index, offset >> segment.scale, rest))
    }

    fn cover_pair(&mut self, how: &Requantise, shift: u32, pair: u8) -> Result<(), WideError> {
        let half = if shift == 0 { 0 } else { 1i64 << (shift - 1) };
        let zero = i64::from(how.zero);
        let [low, high] = how.clamp.map(i64::from);
        // The accumulators whose output is the least value, then those inside, then those of the greatest.
        let first_of = |output: i64| ((output - zero) << shift) - half;
        let (inside, above) = (first_of(low), first_of(high + 1));
        let [start, end] = [i64::from(how.range[0]), i64::from(how.range[1]) + 1];
        self.cover_clamped(start..end.min(inside), how.clamp[0], pair)?;
        if start.max(inside) < end.min(above) {
            let output_of = |x: i64| ((x + half) >> shift) + zero;
            let outputs = [output_of(start.max(inside)), output_of(end.min(above) - 1)];
            self.cover_steps(outputs, shift, first_of(0), pair)?;
        }
        self.cover_clamped(start.max(above)..end, how.clamp[1], pair)
    }

    /// Covers the steps of the outputs from the first to the last, the last segment ending exactly there. The first and
    /// the last step may reach out of the range.
    fn cover_steps(
        &mut self,
        [first, last]: [i64; 2],
        shift: u32,
        origin: i64,
        pair: u8,
    ) -> Result<(), WideError> {
        let bits = (last + 1 - first).ilog2().min(WIDE_LIMB_BITS);
        let mut step = first;
        while step <= last {
            let start = step.min(last + 1 - (1 << bits));
            self.push(WideSegment {
                base: i32::try_from((start << shift) + origin).map_err(|_| WideError::Field)?,
                scale: shift,
                bits,
                output: i16::try_from(start).expect("within the clamp"),
                clamped: false,
                pair,
            })?;
            step += 1 << bits;
        }
        Ok(())
    }

    /// Covers accumulators of one output by segments of one width, the last one ending exactly at the run's end.
    fn cover_clamped(
        &mut self,
        run: std::ops::Range<i64>,
        output: i16,
        pair: u8,
    ) -> Result<(), WideError> {
        if run.is_empty() {
            return Ok(());
        }
        let rest = self.rest_limbs * WIDE_LIMB_BITS;
        let width = (run.end - run.start).ilog2().min(rest + WIDE_LIMB_BITS);
        let mut base = run.start;
        while base < run.end {
            let start = base.min(run.end - (1 << width));
            self.push(WideSegment {
                base: i32::try_from(start).map_err(|_| WideError::Field)?,
                scale: width.min(rest),
                bits: width.saturating_sub(rest),
                output,
                clamped: true,
                pair,
            })?;
            base += 1 << width;
        }
        Ok(())
    }

    /// Appends a segment. Every accumulator of it must be its own representative modulo p.
    fn push(&mut self, segment: WideSegment) -> Result<(), WideError> {
        if i64::from(segment.base) < -FIELD_BOUND || segment.end() - 1 > FIELD_BOUND {
            return Err(WideError::Field);
        }
        if self.segments.len() == SEGMENTS_MAX {
            return Err(WideError::TooMany);
        }
        self.segments.push(segment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use proptest::prelude::*;

    fn how(shifts: &[u32], zero: i16, range: [i32; 2], clamp: [i16; 2]) -> Requantise {
        let pairs = shifts.iter().map(|&shift| {
            let scaled = if shift < 2 { 2 } else { 0 };
            Rescale::new(1 << scaled, shift + scaled).expect("in range")
        });
        let pairs: Vec<Rescale> = pairs.collect();
        Requantise {
            channel_pairs: (0..pairs.len()).map(|pair| pair as u8).collect(),
            pairs,
            zero,
            range,
            clamp,
            table: None,
            output: ElementType::I16,
        }
    }

    /// Segment, step and rest of many accumulators give back the accumulator and the formula's output.
    fn check(how: &Requantise) {
        let table = WideTable::build(how).expect("it has a table");
        for segment in table.segments() {
            assert!(i64::from(segment.base) >= -FIELD_BOUND && segment.end() <= FIELD_BOUND + 1);
            let rescale = how.pairs[usize::from(segment.pair)];
            for step in [0, 1, (1i64 << segment.bits) / 2, (1 << segment.bits) - 1] {
                let step = step.min((1 << segment.bits) - 1);
                for rest in [0, (1i64 << segment.scale) - 1] {
                    let x = i64::from(segment.base) + (step << segment.scale) + rest;
                    let shown = if segment.clamped { 0 } else { step };
                    let output = i64::from(segment.output) + shown;
                    assert_eq!(i64::from(how.output(rescale, x)), output, "{segment:?} {x}");
                }
            }
        }
        let [low, high] = how.range.map(i64::from);
        let stride = ((high - low) / 5_000).max(1) as usize;
        for (pair, &rescale) in how.pairs.iter().enumerate() {
            for x in (low..=high).step_by(stride).chain([low, high]) {
                let x = i32::try_from(x).expect("in range");
                let (index, step, rest) = table.find(pair as u8, x).expect("covered");
                let segment = table.segments()[index];
                assert_eq!(usize::from(segment.pair), pair);
                assert!(step < 1 << segment.bits && rest < 1 << segment.scale);
                let back = i64::from(segment.base) + (i64::from(step) << segment.scale);
                assert_eq!(back + i64::from(rest), i64::from(x));
                let shown = if segment.clamped { 0 } else { step as i32 };
                let output = i32::from(how.output(rescale, i64::from(x)));
                assert_eq!(i32::from(segment.output) + shown, output);
            }
        }
    }

    #[test]
    fn clamps_met_and_not_met_and_several_shifts() {
        check(&how(&[0], 0, [-40_000, 40_000], [-32_767, 32_767]));
        check(&how(&[1, 5], -7, [-3_000, 100_000], [-300, 900]));
        check(&how(
            &[12],
            0,
            [-1_000_000_000, 1_000_000_000],
            [-32_767, 32_767],
        ));
        check(&how(
            &[9, 10, 11, 12],
            3,
            [-500_000_000, 300],
            [-32_767, 32_767],
        ));
        check(&how(&[24], 0, [-900_000_000, 900_000_000], [-20, 32_767]));
        check(&how(&[13], 0, [5, 5], [-32_767, 32_767]));
        check(&how(&[0, 24], 0, [-1_000_000_000, 1_000_000_000], [-3, 3]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn tables_agree_with_the_formula(
            shift in 0u32..=24, other in 0u32..=24, zero in -500i16..500, low in -900_000_000i32..900_000_000,
            width in 0i32..100_000_000, least in -32_767i16..30_000, span in 0u16..60_000,
        ) {
            let greatest = i16::try_from((i32::from(least) + i32::from(span)).min(32_767)).expect("i16");
            check(&how(&[shift, other], zero, [low, low + width], [least, greatest]));
        }
    }

    #[test]
    fn what_is_no_shift_is_refused() {
        let mut other = how(&[4], 0, [-100, 100], [-5, 5]);
        other.pairs[0] = Rescale::new(3, 4).expect("in range");
        assert_eq!(WideTable::build(&other), Err(WideError::Factor));
        other.pairs[0] = Rescale::new(8, 2).expect("in range");
        assert_eq!(WideTable::build(&other), Err(WideError::Factor));
        other.pairs[0] = Rescale::new(1, 25).expect("in range");
        assert_eq!(WideTable::build(&other), Err(WideError::Factor));
        let reach = FIELD_BOUND as i32;
        let ends = how(&[24], 0, [-reach, reach], [-100, 100]);
        assert_eq!(WideTable::build(&ends), Err(WideError::Field));
        let mut table = how(&[4], 0, [-100, 100], [0, 1]);
        table.table = Some(vec![0, 9]);
        assert_eq!(WideTable::build(&table), Err(WideError::Table));
    }
}
