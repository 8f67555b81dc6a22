//! The sections of a witness: what is committed together.
//!
//! A witness that one commitment holds is one section. A larger one is cut between its tables, in their order, so that a
//! prover needs memory for one section at a time.

use super::PlanError;
use super::{PlacedBlock, Plan, WeightUses};
use crate::commitment::{CommittedTable, STACK_VARS_MAX};
use std::ops::Range;
use tg_ir::Program;

/// Points at which each weight table is opened by the registration.
pub(crate) const REGISTRATION_BATCHES: usize = 3;

/// A run of witness tables that are committed together. If there are several, each has a fractional sum of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The witness tables.
    pub witness: Range<usize>,
    /// The leaves of its fractional sum, largest blocks first; none if it is the only section, whose readers stand in
    /// [`Plan::leaves`].
    pub leaves: Vec<PlacedBlock>,
    /// log2 of their number, padding included.
    pub leaf_vars: usize,
}

/// Most cells of a section that has more than one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionSize(usize);

/// What every prover and every verifier uses: as much as one commitment holds. A section half as large would take half the
/// memory (24 bytes a cell for its commitment, 44 for its fractional sum), but twice as many openings and sums of 200 kB.
impl Default for SectionSize {
    fn default() -> Self {
        Self(1 << STACK_VARS_MAX)
    }
}

impl SectionSize {
    /// Sections of at most so many cells. For tests and measurements: a proof with other sections than those of
    /// [`SectionSize::default`] is refused.
    #[must_use]
    pub const fn forced(cells: usize) -> Self {
        Self(cells)
    }
}

impl Plan {
    /// Cuts the witness into sections.
    pub(super) fn cut_witness(
        &mut self,
        program: &Program,
        size: SectionSize,
    ) -> Result<(), PlanError> {
        let cells = |table: &super::WitnessTable| table.columns << table.chunk.column_vars();
        let (mut first, mut own) = (0, 0);
        // Without columns nothing is committed: no section, not an empty one.
        let mut starts: Vec<usize> = self.looks_up().then_some(0).into_iter().collect();
        for (table, cells) in self.witness.iter().map(cells).enumerate() {
            if cells.saturating_add(own) > size.0 && table > first {
                starts.push(table);
                (first, own) = (table, 0);
            }
            own += cells;
        }
        for &start in &starts {
            let node = self.witness.get(start).map_or(0, |table| table.node);
            let node = node.min(program.nodes.len() - 1);
            self.cost.add_section(program, node)?;
        }
        let ends = starts.iter().skip(1).copied().chain([self.witness.len()]);
        let ranges = starts.iter().zip(ends);
        self.sections = ranges
            .map(|(&start, end)| Section {
                witness: start..end,
                leaves: Vec::new(),
                leaf_vars: 0,
            })
            .collect();
        Ok(())
    }

    /// Charges the openings of all commitments but hiding ones, which are opened at one point, and those of pushforwards,
    /// which have few tables.
    pub(super) fn charge_openings(&mut self, program: &Program) -> Result<(), PlanError> {
        let of = |tables: &[CommittedTable]| {
            let openings = tables.iter().map(|table| table.batches.len()).sum();
            [tables.len(), openings]
        };
        let weights = self.weight_tables(REGISTRATION_BATCHES, WeightUses::Each);
        let mut all = vec![of(&weights)];
        if !self.hidden {
            let sections = self.sections.iter();
            all.extend(sections.map(|section| of(&self.section_tables(section))));
        }
        for [tables, openings] in all {
            self.cost.add_opening(program, tables, openings)?;
        }
        Ok(())
    }

    /// The witness tables of a section as its commitment sees them: every column at the point of the fractional sum, and
    /// at the anchor's if there are several sections, then the gadget's openings.
    #[must_use]
    pub fn section_tables(&self, section: &Section) -> Vec<CommittedTable> {
        let points = 1 + usize::from(self.is_anchored());
        let table = |table: &super::WitnessTable| {
            let all: Vec<usize> = (0..table.columns).collect();
            let own = table.openings.iter().cloned();
            CommittedTable {
                vars: table.chunk.column_vars(),
                columns: table.columns,
                batches: vec![all; points].into_iter().chain(own).collect(),
            }
        };
        let tables = &self.witness[section.witness.clone()];
        tables.iter().map(table).collect()
    }

    /// Whether anything is committed of an execution, and looked up: programs of linear maps and products have neither
    /// columns nor a lookup argument.
    #[must_use]
    pub const fn looks_up(&self) -> bool {
        !self.witness.is_empty()
    }

    /// Whether the witness has an anchor: if there are several sections.
    #[must_use]
    pub const fn is_anchored(&self) -> bool {
        self.sections.len() > 1
    }

    /// Variables of the anchor's point: those of the longest column.
    #[must_use]
    pub fn anchor_vars(&self) -> usize {
        let columns = self.witness.iter().map(|table| table.chunk.column_vars());
        columns.max().unwrap_or_default()
    }
}
