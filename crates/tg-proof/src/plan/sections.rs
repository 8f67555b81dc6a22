//! The sections of a witness: what is committed together.
//!
//! A witness that one commitment holds is one section. A larger one is cut between its tables, in their order, so that a
//! prover needs memory for one section at a time.

use super::PlanError;
use super::draft::{Draft, WitnessTable};
use super::leaves::{LeafBlock, PlacedBlock, place};
use crate::algebra::layout::WeightLayout;
use crate::argument::commitment::{CommittedTable, STACK_VARS_MAX};
use std::ops::Range;
use tg_ir::Program;
use tg_ir::weights::BIAS_DIGITS;

/// Points at which each weight table is opened by the registration.
pub(crate) const REGISTRATION_BATCHES: usize = 3;

/// A run of witness tables that are committed together. If there are several, each has a fractional sum of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The witness tables.
    pub witness: Range<usize>,
    /// The leaves of its fractional sum, largest blocks first; none if it is the only section, whose readers stand in
    /// [`super::Plan::leaves`].
    pub leaves: Vec<PlacedBlock>,
    /// log2 of their number, padding included.
    pub leaf_vars: usize,
}

/// Most cells of a section that has more than one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionSize(u64);

/// What every prover and every verifier uses: as much as one commitment holds. A section half as large would take half the
/// memory (24 bytes a cell for its commitment, 44 for its fractional sum), but twice as many openings and sums of 200 kB.
impl Default for SectionSize {
    fn default() -> Self {
        Self(1 << STACK_VARS_MAX)
    }
}

impl SectionSize {
    /// One section, whatever its size.
    pub(super) const WHOLE: Self = Self(u64::MAX);

    /// Sections of at most so many cells. For tests and measurements: a proof with other sections than those of
    /// [`SectionSize::default`] is refused.
    #[must_use]
    pub const fn forced(cells: usize) -> Self {
        Self(cells as u64)
    }
}

/// At how many points the weights of an opening are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightUses {
    /// As often whoever reads them: the registration.
    Once,
    /// Once more for each further node that reads them: an inference.
    Each,
}

/// The tables of weights as the commitment sees them, see [`super::Plan::weight_tables`].
pub(super) fn weight_tables(
    weights: &[WeightLayout],
    tied_to: &[Vec<usize>],
    batches: usize,
    uses: WeightUses,
) -> Vec<CommittedTable> {
    let table = |vars, columns: usize, batches: usize| CommittedTable {
        vars,
        columns,
        batches: vec![(0..columns).collect(); batches],
    };
    let tables = weights.iter().enumerate().flat_map(|(own, layout)| {
        let bias = layout
            .biased
            .then(|| table(layout.bias_vars(), BIAS_DIGITS, batches));
        let more = match uses {
            WeightUses::Once => 0,
            WeightUses::Each => tied_to[own].len(),
        };
        let pieces = layout.own_pieces().into_iter();
        pieces
            .map(move |piece| table(piece.column_vars(), 1, batches + more))
            .chain(bias)
    });
    tables.collect()
}

impl Section {
    /// Its tables as its commitment sees them, see [`super::Plan::section_tables`].
    pub(super) fn tables(&self, witness: &[WitnessTable], anchored: bool) -> Vec<CommittedTable> {
        let points = 1 + usize::from(anchored);
        let table = |table: &WitnessTable| {
            let all: Vec<usize> = (0..table.columns).collect();
            let own = table.openings.iter().cloned();
            CommittedTable {
                vars: table.chunk.column_vars(),
                columns: table.columns,
                batches: vec![all; points].into_iter().chain(own).collect(),
            }
        };
        let tables = &witness[self.witness.clone()];
        tables.iter().map(table).collect()
    }
}

impl Draft {
    /// Cuts the witness into sections.
    pub(super) fn cut_witness(
        &mut self,
        program: &Program,
        size: SectionSize,
    ) -> Result<Vec<Section>, PlanError> {
        let (mut first, mut own) = (0, 0u64);
        // Without columns nothing is committed: no section, not an empty one.
        let there = !self.witness.is_empty();
        let mut starts: Vec<usize> = there.then_some(0).into_iter().collect();
        for (table, cells) in self.witness.iter().map(WitnessTable::cells).enumerate() {
            if cells.saturating_add(own) > size.0 && table > first {
                starts.push(table);
                (first, own) = (table, 0);
            }
            own = own.saturating_add(cells);
        }
        for &start in &starts {
            let node = self.witness.get(start).map_or(0, |table| table.node);
            let node = node.min(program.nodes.len() - 1);
            self.cost.add_section(program, node)?;
        }
        let ends = starts.iter().skip(1).copied().chain([self.witness.len()]);
        let ranges = starts.iter().zip(ends);
        let sections = ranges.map(|(&start, end)| Section {
            witness: start..end,
            leaves: Vec::new(),
            leaf_vars: 0,
        });
        Ok(sections.collect())
    }

    /// Charges the openings of the weights and of the given sections: of all commitments but hiding ones, which are opened
    /// at one point, and those of pushforwards, which have few tables.
    pub(super) fn charge_openings(
        &mut self,
        program: &Program,
        sections: &[Section],
    ) -> Result<(), PlanError> {
        let of = |tables: &[CommittedTable]| {
            let openings = tables.iter().map(|table| table.batches.len()).sum();
            [tables.len(), openings]
        };
        let batches = REGISTRATION_BATCHES;
        let weights = weight_tables(&self.weights, &self.tied_to, batches, WeightUses::Each);
        let anchored = sections.len() > 1;
        let sections = sections.iter();
        let sections = sections.map(|section| of(&section.tables(&self.witness, anchored)));
        let all: Vec<_> = std::iter::once(of(&weights)).chain(sections).collect();
        for [tables, openings] in all {
            self.cost.add_opening(program, tables, openings)?;
        }
        Ok(())
    }

    /// Places the leaves of every sum: gives those of the last one, and log2 of their number.
    pub(super) fn place_leaves(
        &self,
        program: &Program,
        sections: &mut [Section],
    ) -> Result<(Vec<PlacedBlock>, usize), PlanError> {
        if self.witness.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let whole = sections.len() == 1;
        let all = 0..self.witness.len();
        let mut blocks = self.reader_blocks(if whole { all } else { 0..0 });
        let tables = self.tables.iter().enumerate();
        blocks.extend(tables.map(|(table, entries)| (LeafBlock::Table { table }, entries.vars())));
        if !whole {
            for section in sections {
                let blocks = self.reader_blocks(section.witness.clone());
                (section.leaves, section.leaf_vars) = place(program, blocks)?;
            }
        }
        place(program, blocks)
    }
}
