//! Where the leaves of the fractional sum stand.

use super::Plan;
use crate::layout::log2_ceil;

/// A block of leaves of the fractional sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafBlock {
    /// One chunk of a reader.
    Reader {
        /// Index of the reader group.
        group: usize,
        /// Index of the witness table.
        witness: usize,
    },
    /// The pushforward of a table.
    Table {
        /// Index of the table.
        table: usize,
    },
}

/// Where a block of 2^vars leaves starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBlock {
    /// What the leaves are.
    pub block: LeafBlock,
    /// First leaf, a multiple of 2^vars.
    pub start: usize,
    /// log2 of the number of leaves.
    pub vars: usize,
}

impl Plan {
    /// Places all leaf blocks, largest first: every block is then aligned to its size.
    pub(super) fn place_leaves(&mut self) {
        let mut blocks = Vec::new();
        for (group, reader) in self.groups.iter().enumerate() {
            blocks.extend(reader.witness.clone().map(|witness| {
                (
                    LeafBlock::Reader { group, witness },
                    self.witness[witness].chunk.vars,
                )
            }));
        }
        blocks.extend(
            self.tables
                .iter()
                .enumerate()
                .map(|(table, entries)| (LeafBlock::Table { table }, entries.vars())),
        );
        blocks.sort_by_key(|&(_, vars)| std::cmp::Reverse(vars));
        let mut start = 0;
        self.leaves = blocks
            .into_iter()
            .map(|(block, vars)| {
                let placed = PlacedBlock { block, start, vars };
                start += 1 << vars;
                placed
            })
            .collect();
        self.leaf_vars = log2_ceil(start).max(1);
    }
}
