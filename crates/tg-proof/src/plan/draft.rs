//! A plan while it is made: what gadgets add their columns, tables and readers to.

use super::PlanError;
use super::tables::{self, LIMB_CLASS_LIMIT, LookupTable};
use crate::algebra::layout::{Chunk, TENSOR_VARS_MAX, TensorLayout, WeightLayout};
use crate::argument::commitment::{CommitmentError, STACK_VARS_MAX};
use crate::plan::cost::{Added, VerifierCost};
use crate::plan::staged::Staged;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tg_ir::{ElementType, ExponentialTable, Program, SegmentTable, TensorId, bounds};
use tg_types::Digest;

/// One committed witness table: the columns of one chunk of one column set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessTable {
    /// The node.
    pub node: usize,
    /// Which of the node's column sets this is a chunk of, counted from 0.
    pub part: usize,
    /// The hypercube of the column set.
    pub layout: TensorLayout,
    /// The chunk.
    pub chunk: Chunk,
    /// Columns.
    pub columns: usize,
    /// Per opening besides the one of the lookup argument, the columns that are opened. The gadget leaves a point and the
    /// values for each.
    pub openings: Vec<Vec<usize>>,
}

impl WitnessTable {
    /// Cells of its columns.
    #[must_use]
    pub const fn cells(&self) -> u64 {
        (self.columns as u64) << self.chunk.column_vars()
    }
}

/// Columns over one hypercube, committed chunk by chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSet {
    /// The hypercube.
    pub layout: TensorLayout,
    /// The witness tables of its chunks.
    pub witness: Range<usize>,
    /// Rows that the chunks cover, padding included.
    pub covered: usize,
}

/// One reader of the lookup argument: a column over all chunks of a column set. A column may have several readers, each
/// with its own point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderGroup {
    /// The node.
    pub node: usize,
    /// The column within each of the witness tables.
    pub column: usize,
    /// Index of the lookup table.
    pub table: usize,
    /// Added to the committed value to give the position.
    pub offset: u32,
    /// The witness tables.
    pub witness: Range<usize>,
}

/// The relations of a gadget as data, and its columns.
#[derive(Debug)]
pub(super) struct Gadget {
    pub(super) staged: Staged,
    /// Columns per row, committed before the others.
    pub(super) row_columns: Option<ColumnSet>,
    /// Columns per element.
    pub(super) columns: ColumnSet,
}

/// A plan while it is made.
#[derive(Debug)]
pub(super) struct Draft {
    /// Per tensor its layout; index 0 is the input.
    pub(super) layouts: Vec<TensorLayout>,
    /// Per lookup table the segments it is made of, if it is the segment table of a requantisation.
    pub(super) segments: Vec<Option<SegmentTable>>,
    /// The lookup tables.
    pub(super) tables: Vec<LookupTable>,
    /// The limb tables among them, by their greatest class.
    pub(super) limbs: BTreeMap<u32, usize>,
    /// The witness tables in commitment order.
    pub(super) witness: Vec<WitnessTable>,
    /// The readers.
    pub(super) groups: Vec<ReaderGroup>,
    /// The weight layouts in node order.
    pub(super) weights: Vec<WeightLayout>,
    /// Per weight layout those that are tied to it, ascending.
    pub(super) tied_to: Vec<Vec<usize>>,
    /// Per node with weights the index of their layout.
    pub(super) weighted: BTreeMap<usize, usize>,
    /// What checking a proof costs.
    pub(super) cost: VerifierCost,
    /// Tables that several nodes may have, by what is in them.
    shared: BTreeMap<Digest, usize>,
    /// Exponentials that several nodes may have, by what they are made of: their table is made once.
    pub(super) exponentials: BTreeMap<Digest, (usize, Arc<ExponentialTable>)>,
    /// Per tensor the least and greatest value it can have.
    pub(super) intervals: Vec<[i64; 2]>,
    /// Types of all tensors' elements.
    pub(super) types: Vec<ElementType>,
    /// Per tensor the greatest absolute value it can have.
    pub(super) magnitudes: Vec<i64>,
}

impl Draft {
    /// A draft of a valid program that nothing is added to yet.
    ///
    /// # Errors
    /// If what follows from shapes alone costs too much, or a tensor of the batch has more than [`TENSOR_VARS_MAX`]
    /// variables.
    pub(super) fn new(program: &Program, batch: usize) -> Result<Self, PlanError> {
        let cost = VerifierCost::batched(program, batch)?;
        let tensors = (0..=program.nodes.len()).map(|tensor| TensorId(tensor as u32));
        let layouts = tensors.map(|tensor| TensorLayout::batched(program.shape(tensor), batch));
        let layouts: Vec<TensorLayout> = layouts.collect();
        check_vars(program, &layouts)?;
        Ok(Self {
            layouts,
            segments: Vec::new(),
            tables: Vec::new(),
            limbs: BTreeMap::new(),
            witness: Vec::new(),
            groups: Vec::new(),
            weights: Vec::new(),
            tied_to: Vec::new(),
            weighted: BTreeMap::new(),
            cost,
            shared: BTreeMap::new(),
            exponentials: BTreeMap::new(),
            intervals: bounds::intervals(program),
            types: program.element_types(),
            magnitudes: bounds::magnitudes(program, program.nodes.len()),
        })
    }

    /// Commits `columns` columns over a hypercube for a node. `openings` names, per opening besides the one of the lookup
    /// argument, the columns opened there; every chunk has all of them.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if the columns so far are too many, [`PlanError::Commitment`] if those of the largest chunk
    /// are more than one commitment holds.
    pub(super) fn add_columns(
        &mut self,
        program: &Program,
        node: usize,
        layout: TensorLayout,
        columns: usize,
        openings: &[Vec<usize>],
    ) -> Result<ColumnSet, PlanError> {
        let opened = columns + openings.iter().map(Vec::len).sum::<usize>();
        let chunks = layout.chunks();
        let added = Added {
            columns: (opened * chunks.len()) as u64,
            ..Added::default()
        };
        self.cost.add(program, node, added)?;
        // Stops: rows beyond the words of a machine. The first chunk is the largest, and the number of all rows is below
        // twice its own.
        let vars = chunks.first().map_or(0, Chunk::column_vars);
        let cells = (columns.max(1) as u64).saturating_mul(1 << vars);
        if cells > 1 << STACK_VARS_MAX {
            return Err(CommitmentError::TooLarge { cells }.into());
        }
        let first = self.witness.len();
        let part = self
            .witness
            .last()
            .filter(|table| table.node == node)
            .map_or(0, |table| table.part + 1);
        let covered = chunks.last().map_or(0, |chunk| chunk.start + chunk.rows());
        self.witness
            .extend(chunks.into_iter().map(|chunk| WitnessTable {
                node,
                part,
                layout,
                chunk,
                columns,
                openings: openings.to_vec(),
            }));
        Ok(ColumnSet {
            layout,
            witness: first..self.witness.len(),
            covered,
        })
    }

    /// Lets a column look up a table at `offset` plus its value; gives the index of the reader group.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if the readers so far are too many, [`PlanError::Unprovable`] if no row is read.
    pub(super) fn add_reader(
        &mut self,
        program: &Program,
        node: usize,
        (columns, column): (&ColumnSet, usize),
        (table, offset): (usize, u32),
    ) -> Result<usize, PlanError> {
        // Stops: values that are pulled and that no lookup argument shows.
        if columns.witness.is_empty() {
            let node = node.min(program.nodes.len() - 1);
            let why = "a reader of a table has no rows";
            return Err(PlanError::unprovable(program, node, why));
        }
        let added = Added {
            readers: [1, columns.witness.len() as u64],
            ..Added::default()
        };
        self.cost.add(program, node, added)?;
        self.groups.push(ReaderGroup {
            node,
            column,
            table,
            offset,
            witness: columns.witness.clone(),
        });
        Ok(self.groups.len() - 1)
    }

    /// Adds a public table and charges its entries to the verifier.
    pub(super) fn add_table(
        &mut self,
        program: &Program,
        node: usize,
        table: LookupTable,
    ) -> Result<usize, PlanError> {
        self.cost.add_table(program, node, table.len())?;
        self.tables.push(table);
        self.segments.push(None);
        Ok(self.tables.len() - 1)
    }

    /// The index of a public table, which other gadgets may have added: layers of a model share their exponentials.
    pub(super) fn shared_table(
        &mut self,
        program: &Program,
        node: usize,
        table: LookupTable,
    ) -> Result<usize, PlanError> {
        let digest = table.digest();
        if let Some(&known) = self.shared.get(&digest) {
            return Ok(known);
        }
        let own = self.add_table(program, node, table)?;
        self.shared.insert(digest, own);
        Ok(own)
    }

    /// The table of all limbs with classes up to `class_max` (at most [`LIMB_CLASS_LIMIT`]), made on first use.
    pub(super) fn limb_table(
        &mut self,
        program: &Program,
        node: usize,
        class_max: u32,
    ) -> Result<usize, PlanError> {
        debug_assert!(class_max <= LIMB_CLASS_LIMIT);
        if let Some(&table) = self.limbs.get(&class_max) {
            return Ok(table);
        }
        let table = self.add_table(program, node, tables::limb_table(class_max))?;
        self.limbs.insert(class_max, table);
        Ok(table)
    }
}

/// Refuses a tensor whose rows a word of 32 bits does not count, on every machine alike.
fn check_vars(program: &Program, layouts: &[TensorLayout]) -> Result<(), PlanError> {
    let large = |layout: &TensorLayout| layout.vars() > TENSOR_VARS_MAX;
    let Some(tensor) = layouts.iter().position(large) else {
        return Ok(());
    };
    // The input is no node's, and is charged to the first.
    let node = tensor.saturating_sub(1);
    Err(PlanError::TooCostly {
        node,
        name: program.nodes[node].name.clone(),
        what: "variables of a tensor",
        cost: layouts[tensor].vars() as u64,
        limit: TENSOR_VARS_MAX as u64,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::{InputSpec, Node, Op, Shape, View, Weights, op};

    /// One element, repeated along rows and channels.
    fn spread(rows: u32, channels: u32) -> Program {
        let node = Node {
            name: "spread".to_owned(),
            op: Op::View(op::Unary {
                input: TensorId::INPUT,
                how: View::new(0, &[(rows, 0), (channels, 0)]),
            }),
            shape: Shape::new(rows, 1, channels),
            scale: 1.0,
        };
        Program {
            name: "spread".to_owned(),
            input: InputSpec::scaled(Shape::vector(1), 1.0),
            nodes: vec![node],
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        }
    }

    /// Columns of as many rows as wrap to none in 32 bits, and of the most that a commitment holds.
    #[test]
    fn columns_beyond_a_commitment_are_refused_by_the_plan() {
        let program = spread(4, 4);
        let mut draft = Draft::new(&program, 1).unwrap();
        let mut add = |layout, columns| draft.add_columns(&program, 0, layout, columns, &[]);
        let refused = |cells| PlanError::from(CommitmentError::TooLarge { cells });
        let layout = TensorLayout::batched(Shape::new(2_048, 1, 2_048), 1_024);
        assert_eq!(add(layout, 3).unwrap_err(), refused(3 << 32));
        let layout = TensorLayout::batched(Shape::new(2_048, 1, 2_048), 32);
        assert_eq!(add(layout, 3).unwrap_err(), refused(3 << 27));
        assert_eq!(add(layout, 1).unwrap().covered, 1 << 27);
        // Each chunk is a table of its own.
        let layout = TensorLayout::batched(Shape::new(3 << 10, 1, 2_048), 32);
        let added = add(layout, 1).unwrap();
        assert_eq!((added.witness.len(), added.covered), (2, 3 << 26));
    }

    #[test]
    fn a_reader_without_rows_is_refused() {
        let program = spread(4, 4);
        let mut draft = Draft::new(&program, 1).unwrap();
        let limbs = draft.limb_table(&program, 0, 3).unwrap();
        let layout = TensorLayout::of(Shape::new(4, 1, 4));
        let columns = draft.add_columns(&program, 0, layout, 1, &[]).unwrap();
        assert_eq!(
            draft.add_reader(&program, 0, (&columns, 0), (limbs, 0)),
            Ok(0)
        );
        let none = ColumnSet {
            witness: 0..0,
            ..columns
        };
        let refused = draft.add_reader(&program, 0, (&none, 0), (limbs, 0));
        assert!(
            matches!(refused, Err(PlanError::Unprovable { node: 0, .. })),
            "{refused:?}"
        );
    }
}
