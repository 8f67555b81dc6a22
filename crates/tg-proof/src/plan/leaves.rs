//! Where the leaves of the fractional sums stand.

use super::PlanError;
use super::cost::LEAVES_MAX;
use super::draft::Draft;
use crate::algebra::layout::log2_ceil;
use std::ops::Range;
use tg_ir::Program;

/// A block of leaves of a fractional sum.
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

impl Draft {
    /// The readers' blocks of some witness tables, group by group.
    pub(super) fn reader_blocks(&self, tables: Range<usize>) -> Vec<(LeafBlock, usize)> {
        let groups = self.groups.iter().enumerate();
        let blocks = groups.flat_map(|(group, reader)| {
            let own = reader
                .witness
                .clone()
                .filter(|table| tables.contains(table));
            own.map(move |witness| (LeafBlock::Reader { group, witness }, witness))
        });
        blocks
            .map(|(block, witness)| (block, self.witness[witness].chunk.vars))
            .collect()
    }
}

/// Places blocks, largest first: every block is then aligned to its size. Gives log2 of the number of leaves too.
///
/// # Errors
/// [`PlanError::TooCostly`] if there are more than [`LEAVES_MAX`], which is charged to the last node.
pub(super) fn place(
    program: &Program,
    mut blocks: Vec<(LeafBlock, usize)>,
) -> Result<(Vec<PlacedBlock>, usize), PlanError> {
    let leaves = blocks.iter().map(|&(_, vars)| 1u64 << vars);
    let leaves = leaves.fold(0, u64::saturating_add);
    if leaves > LEAVES_MAX {
        let node = program.nodes.len() - 1;
        return Err(PlanError::TooCostly {
            node,
            name: program.nodes[node].name.clone(),
            what: "leaves of a fractional sum",
            cost: leaves,
            limit: LEAVES_MAX,
        });
    }
    blocks.sort_by_key(|&(_, vars)| std::cmp::Reverse(vars));
    let mut start = 0;
    let placed = blocks
        .into_iter()
        .map(|(block, vars)| {
            let placed = PlacedBlock { block, start, vars };
            start += 1 << vars;
            placed
        })
        .collect();
    Ok((placed, log2_ceil(start).max(1)))
}
