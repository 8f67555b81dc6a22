//! The public tables that readers look up.

use crate::algebra::field::{F, signed};
use crate::algebra::layout::log2_ceil;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use tg_ir::SegmentTable;
use tg_ir::segment::limb_entry;
use tg_types::Digest;

/// Columns of a limb table: value and class.
pub const LIMB_COLUMNS: usize = 2;
/// Columns of a segment table: base, output, class of the high limb, class of the low limb, pair.
pub const SEGMENT_COLUMNS: usize = 5;
/// Greatest class a limb table may admit: values below 2^12.
pub const LIMB_CLASS_LIMIT: u32 = 12;

/// A public table that readers look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupTable {
    /// Its columns, all of one length.
    pub columns: Vec<Vec<F>>,
}

impl LookupTable {
    /// A table of integers, column by column.
    #[must_use]
    pub fn of_integers(columns: Vec<Vec<i64>>) -> Self {
        let elements = |column: Vec<i64>| column.into_iter().map(signed).collect();
        Self {
            columns: columns.into_iter().map(elements).collect(),
        }
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns[0].len()
    }

    /// Whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is in it.
    pub(super) fn digest(&self) -> Digest {
        let mut bytes = (self.columns.len() as u64).to_le_bytes().to_vec();
        let entries = self.columns.iter().flatten();
        bytes.extend(entries.flat_map(|entry| entry.as_canonical_u32().to_le_bytes()));
        Digest::of_blob(&bytes)
    }

    /// Variables of its leaf block.
    #[must_use]
    pub fn vars(&self) -> usize {
        log2_ceil(self.len())
    }
}

/// Entries of the limb table whose greatest class is `class_max`: `2^0 + ... + 2^class_max`.
#[must_use]
pub const fn limb_table_len(class_max: u32) -> usize {
    (1 << (class_max + 1)) - 1
}

/// All (value, class) with value below 2^class, class by class, up to `class_max`. The tables of smaller classes are its
/// prefixes, so that [`tg_ir::segment::limb_position`] holds for all of them.
pub(super) fn limb_table(class_max: u32) -> LookupTable {
    let entries = (0..limb_table_len(class_max) as u32).map(limb_entry);
    let (classes, values) = entries
        .map(|(class, value)| (F::from_u32(class), F::from_u32(value)))
        .unzip();
    LookupTable {
        columns: vec![values, classes],
    }
}

/// The segments of a requantisation, and one of the pair of padded rows: 0 gives 0.
pub(super) fn segment_table(segments: &SegmentTable, pairs: usize) -> LookupTable {
    let column = |value: fn(&tg_ir::Segment) -> i64, padding: i64| {
        let values = segments.segments().iter().map(value);
        values.chain([padding]).collect()
    };
    LookupTable::of_integers(vec![
        column(|segment| i64::from(segment.base), 0),
        column(|segment| i64::from(segment.output), 0),
        column(|segment| i64::from(segment.class_high()), 0),
        column(|segment| i64::from(segment.class_low()), 0),
        column(|segment| i64::from(segment.pair), pairs as i64),
    ])
}
