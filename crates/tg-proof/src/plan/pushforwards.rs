//! How the pushforwards of the lookup tables travel: in clear, or committed.

use super::draft::Draft;
use super::tables::LookupTable;
use crate::algebra::field::EXTENSION_DEGREE;
use crate::algebra::layout::{COLUMN_VARS_MIN, Chunk, log2_ceil};
use crate::argument::commitment::CommittedTable;

/// Entries that may be read from which the pushforwards are committed. About half of them are, and these then take more
/// bytes in clear than a commitment with its opening. A public number, so that a proof has no choice.
pub const COMMITTED_FROM: usize = 1 << 12;

/// Where the committed pushforwards of all tables stand: one function on a hypercube, a table after the other, zero
/// beyond the last. Each of its chunks is five columns, one per coefficient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushforwardLayout {
    /// Per table its first entry.
    pub starts: Vec<usize>,
    /// Variables of the function.
    pub vars: usize,
    /// What is committed of it.
    pub chunks: Vec<Chunk>,
}

impl PushforwardLayout {
    /// The layout of tables with so many entries.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = usize>) -> Self {
        let (mut starts, mut end) = (Vec::new(), 0);
        for entries in entries {
            starts.push(end);
            end += entries;
        }
        let chunks = fewest_chunks(end);
        let covered = chunks.last().map_or(0, |last| last.start + last.rows());
        Self {
            starts,
            vars: log2_ceil(covered),
            chunks,
        }
    }

    /// The tables as the commitment sees them: a chunk's columns are opened once, at one point.
    #[must_use]
    pub fn tables(&self) -> Vec<CommittedTable> {
        let table = |chunk: &Chunk| CommittedTable {
            vars: chunk.column_vars(),
            columns: EXTENSION_DEGREE,
            batches: vec![(0..EXTENSION_DEGREE).collect()],
        };
        self.chunks.iter().map(table).collect()
    }
}

/// The fewest chunks whose columns need no larger commitment than the entries themselves.
fn fewest_chunks(entries: usize) -> Vec<Chunk> {
    let least = entries.next_multiple_of(1 << COLUMN_VARS_MIN);
    let cells = |rows: usize| (EXTENSION_DEGREE * rows).next_power_of_two();
    let of = |count: usize| {
        let (mut chunks, mut start) = (Vec::new(), 0);
        while start < entries {
            let rest = entries - start;
            let last = chunks.len() + 1 == count || rest <= 1 << COLUMN_VARS_MIN;
            let vars = if last {
                log2_ceil(rest).max(COLUMN_VARS_MIN)
            } else {
                rest.ilog2() as usize
            };
            chunks.push(Chunk { start, vars });
            start += 1 << vars;
        }
        chunks
    };
    let rows = |chunks: &[Chunk]| chunks.iter().map(Chunk::rows).sum();
    (1..)
        .map(of)
        .find(|chunks| cells(rows(chunks)) == cells(least) || rows(chunks) == least)
        .unwrap_or_default()
}

impl Draft {
    /// The layout of the pushforwards if they are committed.
    ///
    /// An entry that nobody reads costs nothing in clear, and a table is read at most as often as its readers have rows.
    pub(super) fn pushforwards(&self) -> Option<PushforwardLayout> {
        // The rows of all sections may be more than a word of 32 bits counts.
        let mut rows = vec![0usize; self.tables.len()];
        for reader in &self.groups {
            let tables = &self.witness[reader.witness.clone()];
            let read = &mut rows[reader.table];
            let own = tables.iter().map(|table| table.chunk.rows());
            *read = own.fold(*read, usize::saturating_add);
        }
        let read: usize = self
            .tables
            .iter()
            .zip(rows)
            .map(|(table, rows)| rows.min(table.len()))
            .sum();
        (read >= COMMITTED_FROM)
            .then(|| PushforwardLayout::of(self.tables.iter().map(LookupTable::len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every entry has a place of its own in exactly one chunk, whatever the tables' sizes.
    #[test]
    fn every_entry_has_a_place() {
        let lists = (1..3_000).map(|entries| vec![entries]);
        for entries in lists.chain([vec![511, 3, 700], vec![8_191, 1_000, 17, 33_000]]) {
            let layout = PushforwardLayout::of(entries.iter().copied());
            let mut next = 0;
            for (&start, &entries) in layout.starts.iter().zip(&entries) {
                assert_eq!(start, next);
                next += entries;
            }
            let mut covered = 0;
            for chunk in &layout.chunks {
                assert_eq!(chunk.start, covered);
                assert_eq!(covered % chunk.rows(), 0);
                covered += chunk.rows();
            }
            assert!(covered >= next && covered <= 1 << layout.vars);
            assert!(
                layout
                    .chunks
                    .iter()
                    .all(|chunk| chunk.vars >= COLUMN_VARS_MIN)
            );
            assert_eq!(layout.tables().len(), layout.chunks.len());
        }
    }
}
