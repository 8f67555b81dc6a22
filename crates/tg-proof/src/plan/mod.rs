//! What a program commits, looks up and opens. Prover and verifier derive it from the public program alone.
//!
//! A gadget takes what it needs while the plan is made: [`Plan::add_columns`] for committed columns over a hypercube of
//! its choice, [`Plan::limb_table`] and [`Plan::add_table`] for public tables, [`Plan::add_reader`] for a column that
//! looks one up. `linear` holds the linear and product gadgets, `value` those that commit a node's output, `refuse`
//! what is not proved.

mod chosen;
mod compare;
mod error;
mod input;
mod leaves;
mod linear;
mod maximum;
mod norm;
mod pushforwards;
mod refuse;
mod sections;
mod softmax;
mod stage;
mod tables;
mod topk;
mod trees;
mod value;
mod wide;

pub use compare::CompareShape;
pub use error::PlanError;
pub use input::{Digit, OUTPUT, SaltPlan, TensorCoding, TensorPlan};
pub use leaves::{LeafBlock, PlacedBlock};
pub use linear::MapPlan;
pub use maximum::{MAXIMUM_POSITIONS_MAX, MaximumShape};
pub use norm::{NORM_CARRY_BITS, NormShape, SQUARE_CARRY_BITS};
pub use pushforwards::{COMMITTED_FROM, PushforwardLayout};
pub(crate) use sections::REGISTRATION_BATCHES;
pub use sections::{Section, SectionSize};
pub use softmax::{
    PROBABILITY_BITS, SCORE_BITS, SOFTMAX_CARRY_BITS, SOFTMAX_CHANNELS_MAX, SOFTMAX_COUNT_BITS,
    SoftmaxShape,
};
pub use stage::limb_classes;
pub use tables::{LIMB_CLASS_LIMIT, LIMB_COLUMNS, LookupTable, SEGMENT_COLUMNS, limb_table_len};
pub use topk::{RANKS_MAX, RankShape};
pub use trees::{FlagWeights, ForestShape, TreesPlan, branch_reading};
pub use value::REQUANTISE_COLUMNS;

use crate::commitment::CommittedTable;
use crate::cost::{Added, VerifierCost};
use crate::layout::{Chunk, TensorLayout, WeightLayout};
use crate::modes::{Modes, Visibility};
use crate::staged::Staged;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tg_ir::op::{self, Reduction};
use tg_ir::weights::BIAS_DIGITS;
use tg_ir::{
    ElementType, ExponentialTable, Op, Program, SegmentTable, TensorId, WideTable, bounds,
};
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

/// What the walk over the nodes needs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePlan {
    /// A convolution, dense node, parameter or embedding of public tokens, with the index of its weights.
    Weighted {
        /// Index into [`Plan::weights`].
        weights: usize,
    },
    /// An embedding of computed tokens.
    Chosen {
        /// Index into [`Plan::weights`].
        weights: usize,
        /// Which row each token chooses.
        gadget: Box<GadgetPlan>,
    },
    /// A public linear map.
    Map(MapPlan),
    /// A product of two tensors.
    Product,
    /// A requantisation.
    Requantise {
        /// Index of its segment table among the lookup tables.
        table: usize,
        /// First of its three reader groups (segment, high limb, low limb).
        first_group: usize,
        /// Its columns.
        columns: ColumnSet,
    },
    /// Decision trees.
    Trees(Box<TreesPlan>),
    /// A gadget as data.
    Gadget(Box<GadgetPlan>),
    /// A maximum or minimum of few elements.
    Maximum {
        /// Of what.
        shape: MaximumShape,
        /// First of its reader groups, one per column.
        first_group: usize,
        /// Its columns.
        columns: ColumnSet,
    },
}

/// A gadget as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GadgetPlan {
    /// What its columns hold.
    pub kind: GadgetKind,
    /// Its relations.
    pub staged: Staged,
    /// Its columns per row, committed before the others.
    pub row_columns: Option<ColumnSet>,
    /// Its columns per element.
    pub columns: ColumnSet,
}

/// Which gadget, with what its columns are cut by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GadgetKind {
    /// A requantisation to 16 bits by shifts.
    Wide(WideTable),
    /// A normalisation.
    Norm(NormShape),
    /// A softmax.
    Softmax(SoftmaxShape),
    /// A greater or lesser element, or a relation.
    Compare(CompareShape),
    /// A selection.
    Select(CompareShape),
    /// The greatest or least element along channels, or its channel.
    Greatest(CompareShape),
    /// The greatest elements along channels in order, or their channels.
    Ranks(RankShape),
    /// Which row of an embedding each token chooses.
    Chosen,
}

/// The proof's shape for one program.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Per tensor its layout; index 0 is the input.
    pub layouts: Vec<TensorLayout>,
    /// Per node.
    pub nodes: Vec<NodePlan>,
    /// Per lookup table the segments it is made of, if it is the segment table of a requantisation.
    pub segments: Vec<Option<SegmentTable>>,
    /// The lookup tables.
    pub tables: Vec<LookupTable>,
    /// The limb tables among them, by their greatest class.
    pub limbs: BTreeMap<u32, usize>,
    /// The witness tables in commitment order.
    pub witness: Vec<WitnessTable>,
    /// The readers.
    pub groups: Vec<ReaderGroup>,
    /// The weight layouts in node order.
    pub weights: Vec<WeightLayout>,
    /// Per weight layout those that are tied to it, ascending.
    pub tied_to: Vec<Vec<usize>>,
    /// The sections of the witness, in order.
    pub sections: Vec<Section>,
    /// The leaves of the last fractional sum, largest blocks first: those of the tables, and of all readers if there is
    /// one section.
    pub leaves: Vec<PlacedBlock>,
    /// log2 of the number of leaves, padding included; zero without a lookup argument.
    pub leaf_vars: usize,
    /// Where the pushforwards stand if they are committed; else they are sent.
    pub pushforwards: Option<PushforwardLayout>,
    /// Whether proofs are in zero knowledge: what is committed is opened nowhere.
    pub hidden: bool,
    /// Whether values of the weights are hidden too: their messages are padded like the others.
    pub private_weights: bool,
    /// The committed input, if it is not public.
    pub input: Option<TensorPlan>,
    /// The committed output, if it is not public.
    pub output: Option<TensorPlan>,
    /// What hides those of them whose commitments the statement names.
    pub salts: Option<SaltPlan>,
    /// What checking a proof costs.
    pub cost: VerifierCost,
    /// Tables that several nodes may have, by what is in them.
    shared: BTreeMap<Digest, usize>,
    /// Exponentials that several nodes may have, by what they are made of: their table is made once.
    pub(crate) exponentials: BTreeMap<Digest, (usize, Arc<ExponentialTable>)>,
    /// Per tensor the least and greatest value it can have.
    pub(crate) intervals: Vec<[i64; 2]>,
    /// Types of all tensors' elements.
    pub(crate) types: Vec<ElementType>,
    /// Per tensor the greatest absolute value it can have.
    pub(crate) magnitudes: Vec<i64>,
}

/// At how many points the weights of an opening are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightUses {
    /// As often whoever reads them: the registration.
    Once,
    /// Once more for each further node that reads them: an inference.
    Each,
}

impl Plan {
    /// Derives the plan of a proof about one input.
    ///
    /// # Errors
    /// [`PlanError`] names the node that cannot be proved and why.
    pub fn new(program: &Program) -> Result<Self, PlanError> {
        Self::batched(program, 1)
    }

    /// Derives the plan of a proof about a batch of inputs.
    ///
    /// # Errors
    /// [`PlanError`] names the node that cannot be proved and why.
    pub fn batched(program: &Program, batch: usize) -> Result<Self, PlanError> {
        Self::sectioned(program, batch, SectionSize::default())
    }

    /// The same with sections of another size.
    ///
    /// # Errors
    /// Those of [`Plan::batched`].
    pub fn sectioned(
        program: &Program,
        batch: usize,
        size: SectionSize,
    ) -> Result<Self, PlanError> {
        let mut plan = Self::of_nodes(program, batch, Visibility::Public)?;
        plan.cut_witness(program, size)?;
        plan.charge_openings(program)?;
        plan.place_leaves();
        plan.pushforwards = plan.plan_pushforwards();
        Ok(plan)
    }

    /// Derives the plan of a proof in zero knowledge about a batch of inputs.
    ///
    /// # Errors
    /// Those of [`Plan::batched`], and [`PlanError::CommittedTensor`] for a tensor that is too large to be named by a
    /// commitment.
    pub fn hidden(program: &Program, batch: usize, modes: Modes) -> Result<Self, PlanError> {
        let mut plan = Self::of_nodes(program, batch, modes.input)?;
        plan.hidden = true;
        plan.plan_statement(program, modes)?;
        // What is hidden is committed as a whole, or refused by its commitment.
        plan.cut_witness(program, SectionSize::forced(usize::MAX))?;
        plan.charge_openings(program)?;
        plan.place_leaves();
        let entries = plan.tables.iter().map(LookupTable::len);
        let layout = plan.looks_up().then(|| PushforwardLayout::of(entries));
        plan.pushforwards = layout;
        Ok(plan)
    }

    /// The plan of all nodes.
    fn of_nodes(program: &Program, batch: usize, input: Visibility) -> Result<Self, PlanError> {
        program.validate()?;
        refuse::dead_nodes(program)?;
        refuse::deep_nodes(program, input)?;
        let cost = VerifierCost::batched(program, batch)?;
        let tensors = (0..=program.nodes.len()).map(|tensor| TensorId(tensor as u32));
        let mut plan = Self {
            layouts: tensors
                .map(|tensor| TensorLayout::batched(program.shape(tensor), batch))
                .collect(),
            nodes: Vec::new(),
            segments: Vec::new(),
            tables: Vec::new(),
            limbs: BTreeMap::new(),
            witness: Vec::new(),
            groups: Vec::new(),
            weights: Vec::new(),
            tied_to: Vec::new(),
            sections: Vec::new(),
            leaves: Vec::new(),
            leaf_vars: 0,
            pushforwards: None,
            hidden: false,
            private_weights: false,
            input: None,
            output: None,
            salts: None,
            cost,
            shared: BTreeMap::new(),
            exponentials: BTreeMap::new(),
            intervals: bounds::intervals(program),
            types: program.element_types(),
            magnitudes: bounds::magnitudes(program, program.nodes.len()),
        };
        for node in 0..program.nodes.len() {
            let node_plan = plan.plan_node(program, node, input)?;
            plan.nodes.push(node_plan);
        }
        Ok(plan)
    }

    fn plan_node(
        &mut self,
        program: &Program,
        node: usize,
        public: Visibility,
    ) -> Result<NodePlan, PlanError> {
        match &program.nodes[node].op {
            Op::Conv(_) | Op::Dense(_) | Op::Parameter(op::Parameter) => {
                let weights = self.plan_weights(program, node);
                Ok(NodePlan::Weighted { weights })
            }
            Op::Embed(op::Embed { input, rows }) => {
                let weights = self.plan_weights(program, node);
                match *input {
                    TensorId::INPUT if public == Visibility::Public => {
                        Ok(NodePlan::Weighted { weights })
                    }
                    input => self.plan_chosen(program, node, (input, *rows), weights),
                }
            }
            Op::WindowSum(_)
            | Op::Add(_)
            | Op::View(_)
            | Op::Gather(_)
            | Op::Concat(_)
            | Op::Pad(_)
            | Op::Reduce(op::Reduce {
                reduction: Reduction::Sum,
                ..
            })
            | Op::RunningSum(_) => self.plan_map(program, node),
            Op::Reduce(op::Reduce { input, .. }) | Op::MaxPool(op::MaxPool { input, .. }) => {
                self.plan_maximum(program, node, *input)
            }
            Op::Mul(_) | Op::MatMul(_) => Ok(NodePlan::Product),
            Op::Requantise(op::Unary { how, .. }) => self.plan_requantise(program, node, how),
            Op::Norm(op::Unary { how, .. }) => self.plan_norm(program, node, how),
            Op::Softmax(op::Unary { how, .. }) => self.plan_softmax(program, node, how),
            Op::Extremum(_) | Op::Compare(_) => self.plan_compare(program, node),
            Op::Select(op::Select { condition, inputs }) => {
                self.plan_select(program, node, *condition, *inputs)
            }
            Op::ArgMax(_) => self.plan_greatest(program, node),
            Op::TopK(op::TopK { input, give }) => self.plan_ranks(program, node, *input, *give),
            Op::Trees(op::Trees { input, forest }) => {
                self.plan_trees(program, node, *input, forest)
            }
        }
    }

    /// Commits `columns` columns over a hypercube for a node. `openings` names, per opening besides the one of the lookup
    /// argument, the columns opened there; every chunk has all of them.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if the columns so far are too many.
    pub(crate) fn add_columns(
        &mut self,
        program: &Program,
        node: usize,
        layout: TensorLayout,
        columns: usize,
        openings: &[Vec<usize>],
    ) -> Result<ColumnSet, PlanError> {
        let opened = columns + openings.iter().map(Vec::len).sum::<usize>();
        let added = Added {
            columns: (opened * layout.chunks().len()) as u64,
            ..Added::default()
        };
        self.cost.add(program, node, added)?;
        let first = self.witness.len();
        let part = self
            .witness
            .last()
            .filter(|table| table.node == node)
            .map_or(0, |table| table.part + 1);
        let chunks = layout.chunks();
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
    /// [`PlanError::TooCostly`] if the readers so far are too many.
    pub(crate) fn add_reader(
        &mut self,
        program: &Program,
        node: usize,
        (columns, column): (&ColumnSet, usize),
        (table, offset): (usize, u32),
    ) -> Result<usize, PlanError> {
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
    pub(crate) fn add_table(
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
    pub(crate) fn shared_table(
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
    pub(crate) fn limb_table(
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

    /// The weight tables as the commitment sees them: per node the pieces of its own weights and the bias digits, each
    /// opened `batches` times, and the pieces once more for each node that is tied to them if `uses` says so.
    #[must_use]
    pub fn weight_tables(&self, batches: usize, uses: WeightUses) -> Vec<CommittedTable> {
        let table = |vars, columns: usize, batches: usize| CommittedTable {
            vars,
            columns,
            batches: vec![(0..columns).collect(); batches],
        };
        let tables = self.weights.iter().enumerate().flat_map(|(own, layout)| {
            let bias = layout
                .biased
                .then(|| table(layout.bias_vars(), BIAS_DIGITS, batches));
            let more = match uses {
                WeightUses::Once => 0,
                WeightUses::Each => self.tied_to[own].len(),
            };
            let pieces = layout.own_pieces().into_iter();
            pieces
                .map(move |piece| table(piece.column_vars(), 1, batches + more))
                .chain(bias)
        });
        tables.collect()
    }

    /// The weighted nodes that read the weights of one: itself, then those that are tied to it.
    pub fn readers_of(&self, owner: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(owner).chain(self.tied_to[owner].iter().copied())
    }

    /// The weighted node whose weights one reads.
    #[must_use]
    pub fn owner(&self, weights: usize) -> usize {
        self.weights[weights].tied.unwrap_or(weights)
    }
}
