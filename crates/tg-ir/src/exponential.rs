//! The exponentials of a softmax as a public segment table over the distance to the greatest score.

use crate::op::Softmax;
use crate::segment::SEGMENTS_MAX;

/// Bits of a limb of the offset in a segment.
pub const EXPONENTIAL_LIMB_BITS: u32 = 12;

/// Distances `[base, base + 2^bits)` with one exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialSegment {
    /// The least distance.
    pub base: u32,
    /// log2 of the width, at most 24.
    pub bits: u32,
    /// The exponential.
    pub value: u16,
}

impl ExponentialSegment {
    /// The class of the offset's low limb.
    #[must_use]
    pub fn class_low(&self) -> u32 {
        self.bits.min(EXPONENTIAL_LIMB_BITS)
    }

    /// The class of the offset's high limb.
    #[must_use]
    pub const fn class_high(&self) -> u32 {
        self.bits.saturating_sub(EXPONENTIAL_LIMB_BITS)
    }
}

/// All distances from 0 to the greatest that can occur. The first segment is {0}, and no other holds 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExponentialTable {
    segments: Vec<ExponentialSegment>,
}

impl ExponentialTable {
    /// Covers the distances up to `reach`; nothing if that takes more than [`SEGMENTS_MAX`] segments.
    #[must_use]
    pub fn build(how: &Softmax, reach: u32) -> Option<Self> {
        let mut table = Self {
            segments: vec![ExponentialSegment {
                base: 0,
                bits: 0,
                value: how.exponential(0),
            }],
        };
        let last = how.table.len() as i64 - 1;
        let end = i64::from(reach) + 1;
        let mut start = 1i64;
        while start < end {
            let value = how.exponential(start);
            let mut next = start;
            while next < end && how.exponential(next) == value {
                let index = how.rescale.apply(next).min(last);
                next = if index == last {
                    end
                } else {
                    how.rescale.threshold(index + 1).min(end)
                };
            }
            let bits = (next - start).ilog2().min(2 * EXPONENTIAL_LIMB_BITS);
            let mut base = start;
            while base < next {
                let clipped = base.min(next - (1 << bits));
                if table.segments.len() == SEGMENTS_MAX {
                    return None;
                }
                table.segments.push(ExponentialSegment {
                    base: u32::try_from(clipped).expect("a distance"),
                    bits,
                    value,
                });
                base += 1 << bits;
            }
            start = next;
        }
        Some(table)
    }

    /// The segments, ascending.
    #[must_use]
    pub fn segments(&self) -> &[ExponentialSegment] {
        &self.segments
    }

    /// The segment that holds a distance, if it is covered.
    #[must_use]
    pub fn find(&self, distance: u32) -> Option<usize> {
        let after = self.segments.partition_point(|s| s.base <= distance);
        let index = after.checked_sub(1)?;
        let segment = self.segments[index];
        (distance - segment.base < 1 << segment.bits).then_some(index)
    }

    /// Whether an offset takes a high limb.
    #[must_use]
    pub fn has_high_limb(&self) -> bool {
        self.segments.iter().any(|segment| segment.class_high() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rescale;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn distances_have_the_exponential_of_the_formula(
            m in 1u32..(1 << 15), s in 2u32..40, length in 1usize..300, reach in 1u32..1_000_000_000, flat in 1usize..4,
        ) {
            let table = (0..length).map(|i| (32_767 >> (i / flat).min(15)) as u16).collect();
            let rescale = Rescale::new(m, s).expect("in range");
            let how = Softmax { rescale, table, causal: None };
            let Some(table) = ExponentialTable::build(&how, reach) else {
                // Only distances of very few steps a unit and a long tail take so many.
                prop_assert!(reach > 1 << 20);
                return Ok(());
            };
            let first = table.segments()[0];
            prop_assert_eq!((first.base, first.bits), (0, 0));
            for segment in &table.segments()[1..] {
                prop_assert!(segment.base >= 1 && segment.bits <= 24);
                for distance in [segment.base, segment.base + (1 << segment.bits) - 1] {
                    prop_assert!(distance <= reach);
                    prop_assert_eq!(how.exponential(distance.into()), segment.value);
                }
            }
            for distance in (0..=reach).step_by(reach as usize / 500 + 1).chain([reach]) {
                let found = table.find(distance).expect("covered");
                prop_assert_eq!(table.segments()[found].value, how.exponential(distance.into()));
            }
            prop_assert_eq!(table.find(reach + 1), None);
        }
    }
}
