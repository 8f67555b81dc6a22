//! What a program commits, looks up and opens. Prover and verifier derive it from the public program alone.
//!
//! A gadget takes what it needs of a `Draft`: `add_columns` for committed columns over a hypercube of its choice,
//! `limb_table` and `add_table` for public tables, `add_reader` for a column that looks one up; a [`Plan`] is put together
//! of what they give. `linear` holds the linear and product gadgets, `value` those that commit a node's output, `refuse`
//! what is not proved.
//!
//! The third layer, on `crate::algebra` and `crate::argument`: beside the plan itself what it may cost, the gadgets
//! as data, and the commitment schemes that follow from it.

pub mod cost;
pub(crate) mod modes;
pub mod parts;
pub mod shape;
pub mod staged;

mod chosen;
mod compare;
mod draft;
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

pub use crate::algebra::linear::MapPlan;
pub use compare::CompareShape;
pub use draft::{ColumnSet, ReaderGroup, WitnessTable};
pub use error::PlanError;
pub use input::{Digit, PartPlan, SaltPlan, StatementTable, TensorCoding, TensorPlan};
pub use leaves::{LeafBlock, PlacedBlock};
pub use maximum::{MAXIMUM_POSITIONS_MAX, MaximumShape};
pub use norm::{NORM_CARRY_BITS, NormShape, SQUARE_CARRY_BITS};
pub use pushforwards::{COMMITTED_FROM, PushforwardLayout};
pub(crate) use sections::REGISTRATION_BATCHES;
pub use sections::{Section, SectionSize, WeightUses};
pub use softmax::{
    PROBABILITY_BITS, SCORE_BITS, SOFTMAX_CARRY_BITS, SOFTMAX_CHANNELS_MAX, SOFTMAX_COUNT_BITS,
    SoftmaxShape,
};
pub use stage::limb_classes;
pub use tables::{LIMB_CLASS_LIMIT, LIMB_COLUMNS, LookupTable, SEGMENT_COLUMNS, limb_table_len};
pub use topk::{RANKS_MAX, RankShape};
pub use trees::{FlagWeights, ForestShape, TreesPlan, branch_reading};
pub use value::REQUANTISE_COLUMNS;

use crate::algebra::layout::{TensorLayout, WeightLayout};
use crate::algebra::tally::WalkCount;
use crate::argument::commitment::CommittedTable;
use crate::plan::cost::VerifierCost;
use crate::plan::modes::{Modes, Visibility};
use crate::plan::staged::Staged;
use draft::{Draft, Gadget};
use input::StatementPlan;
use maximum::MaximumPlan;
use std::collections::BTreeMap;
use tg_ir::op::{self, Reduction};
use tg_ir::{Axis, CheckedProgram, Op, Program, SegmentTable, TensorId, WideTable};
use value::ValuePlan;

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

impl GadgetPlan {
    fn new(kind: GadgetKind, gadget: Gadget) -> Self {
        let Gadget {
            staged,
            row_columns,
            columns,
        } = gadget;
        Self {
            kind,
            staged,
            row_columns,
            columns,
        }
    }
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
    /// Per output in the program's order what is committed of it, if it is not public; an empty list if all are.
    pub outputs: Vec<Option<TensorPlan>>,
    /// What hides those of them whose commitments the statement names.
    pub salts: Option<SaltPlan>,
    /// What checking a proof costs.
    pub cost: VerifierCost,
    /// What the checks of a proof receive and draw, see [ADR 14](../../../../docs/adr/0014-counted-by-the-walk.md).
    pub counted: WalkCount,
}

impl Plan {
    /// A plan of a proof about a batch of inputs, whose walk is not counted yet.
    ///
    /// # Errors
    /// [`PlanError`] names the node that cannot be proved and why.
    pub(crate) fn uncounted(
        program: CheckedProgram<'_>,
        batch: usize,
        size: SectionSize,
    ) -> Result<Self, PlanError> {
        let (mut draft, nodes) = draft(program, batch, Visibility::Public)?;
        let mut sections = draft.cut_witness(&program, size)?;
        draft.charge_openings(&program, &sections)?;
        let leaves = draft.place_leaves(&program, &mut sections)?;
        let pushforwards = draft.pushforwards();
        Ok(Self {
            pushforwards,
            ..Self::of(draft, nodes, sections, leaves)
        })
    }

    /// A plan of a proof in zero knowledge about a batch of inputs, whose walk is not counted yet.
    ///
    /// # Errors
    /// Those of [`Plan::uncounted`], and [`PlanError::CommittedTensor`] for a tensor that is too large to be named by a
    /// commitment.
    pub(crate) fn uncounted_hidden(
        program: CheckedProgram<'_>,
        batch: usize,
        modes: Modes,
    ) -> Result<Self, PlanError> {
        let (mut draft, nodes) = draft(program, batch, modes.input)?;
        let StatementPlan {
            input,
            outputs,
            salts,
        } = draft.plan_statement(&program, modes)?;
        // What is hidden is committed as a whole, or refused by its commitment.
        let mut sections = draft.cut_witness(&program, SectionSize::WHOLE)?;
        // Hiding commitments are opened at one point.
        draft.charge_openings(&program, &[])?;
        let leaves = draft.place_leaves(&program, &mut sections)?;
        let plan = Self::of(draft, nodes, sections, leaves);
        let entries = plan.tables.iter().map(LookupTable::len);
        let pushforwards = plan.looks_up().then(|| PushforwardLayout::of(entries));
        Ok(Self {
            pushforwards,
            hidden: true,
            input,
            outputs,
            salts,
            ..plan
        })
    }

    /// A plan of nodes in the clear, without pushforwards.
    fn of(
        draft: Draft,
        nodes: Vec<NodePlan>,
        sections: Vec<Section>,
        (leaves, leaf_vars): (Vec<PlacedBlock>, usize),
    ) -> Self {
        let Draft {
            layouts,
            segments,
            tables,
            limbs,
            witness,
            groups,
            weights,
            tied_to,
            cost,
            ..
        } = draft;
        Self {
            layouts,
            nodes,
            segments,
            tables,
            limbs,
            witness,
            groups,
            weights,
            tied_to,
            sections,
            leaves,
            leaf_vars,
            pushforwards: None,
            hidden: false,
            private_weights: false,
            input: None,
            outputs: Vec::new(),
            salts: None,
            cost,
            counted: WalkCount::default(),
        }
    }

    /// The weight tables as the commitment sees them: per node the pieces of its own weights and the bias digits, each
    /// opened `batches` times, and the pieces once more for each node that is tied to them if `uses` says so.
    #[must_use]
    pub fn weight_tables(&self, batches: usize, uses: WeightUses) -> Vec<CommittedTable> {
        sections::weight_tables(&self.weights, &self.tied_to, batches, uses)
    }

    /// The witness tables of a section as its commitment sees them: every column at the point of the fractional sum, and
    /// at the anchor's if there are several sections, then the gadget's openings.
    #[must_use]
    pub fn section_tables(&self, section: &Section) -> Vec<CommittedTable> {
        section.tables(&self.witness, self.is_anchored())
    }

    /// What is committed of the input, if it is not public, then of each output, likewise; of none if all outputs are public.
    pub fn statement_tensors(&self) -> impl Iterator<Item = Option<&TensorPlan>> {
        std::iter::once(self.input.as_ref()).chain(self.outputs.iter().map(Option::as_ref))
    }

    /// How many outputs are committed.
    #[must_use]
    pub fn committed_outputs(&self) -> usize {
        self.outputs.iter().flatten().count()
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

    /// log2 of the number of leaves of each sum: the sections', if there are several, then the last one's; none without a
    /// lookup argument.
    pub fn sum_vars(&self) -> impl Iterator<Item = usize> {
        let sections = self.sections.iter().filter(|_| self.sections.len() > 1);
        sections
            .map(|section| section.leaf_vars)
            .chain(self.looks_up().then_some(self.leaf_vars))
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

/// The draft and the plans of all nodes.
fn draft(
    program: CheckedProgram<'_>,
    batch: usize,
    input: Visibility,
) -> Result<(Draft, Vec<NodePlan>), PlanError> {
    let program = program.get();
    refuse::dead_nodes(program)?;
    refuse::deep_nodes(program, input)?;
    let mut draft = Draft::new(program, batch)?;
    let nodes = (0..program.nodes.len()).map(|node| plan_node(&mut draft, program, node, input));
    let nodes = nodes.collect::<Result<_, _>>()?;
    Ok((draft, nodes))
}

fn plan_node(
    draft: &mut Draft,
    program: &Program,
    node: usize,
    public: Visibility,
) -> Result<NodePlan, PlanError> {
    Ok(match &program.nodes[node].op {
        Op::Conv(_) | Op::Dense(_) | Op::Parameter(op::Parameter) => NodePlan::Weighted {
            weights: draft.plan_weights(program, node),
        },
        Op::Embed(op::Embed { input, rows }) => {
            let weights = draft.plan_weights(program, node);
            if *input == TensorId::INPUT && public == Visibility::Public {
                return Ok(NodePlan::Weighted { weights });
            }
            let gadget = draft.plan_chosen(program, node, (*input, *rows))?;
            let gadget = Box::new(GadgetPlan::new(GadgetKind::Chosen, gadget));
            NodePlan::Chosen { weights, gadget }
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
        | Op::RunningSum(_) => NodePlan::Map(draft.plan_map(program, node)?),
        Op::ArgMax(_)
        | Op::Reduce(op::Reduce {
            axis: Axis::Channels,
            ..
        }) => gadget(GadgetKind::Greatest, draft.plan_greatest(program, node)?),
        Op::Reduce(op::Reduce { input, .. }) | Op::MaxPool(op::MaxPool { input, .. }) => {
            maximum(draft.plan_maximum(program, node, *input)?)
        }
        Op::Mul(_) | Op::MatMul(_) => NodePlan::Product,
        Op::Requantise(op::Unary { how, .. }) => {
            requantised(draft.plan_requantise(program, node, how)?)
        }
        Op::Norm(op::Unary { how, .. }) => {
            gadget(GadgetKind::Norm, draft.plan_norm(program, node, how)?)
        }
        Op::Softmax(op::Unary { how, .. }) => {
            gadget(GadgetKind::Softmax, draft.plan_softmax(program, node, how)?)
        }
        Op::Extremum(_) | Op::Compare(_) => {
            gadget(GadgetKind::Compare, draft.plan_compare(program, node)?)
        }
        Op::Select(op::Select { condition, inputs }) => gadget(
            GadgetKind::Select,
            draft.plan_select(program, node, *condition, *inputs)?,
        ),
        Op::TopK(op::TopK { input, give }) => gadget(
            GadgetKind::Ranks,
            draft.plan_ranks(program, node, *input, *give)?,
        ),
        Op::Trees(op::Trees { input, forest }) => {
            NodePlan::Trees(Box::new(draft.plan_trees(program, node, *input, forest)?))
        }
    })
}

/// The plan of a requantisation.
fn requantised(plan: ValuePlan) -> NodePlan {
    match plan {
        ValuePlan::Segments {
            table,
            first_group,
            columns,
        } => NodePlan::Requantise {
            table,
            first_group,
            columns,
        },
        ValuePlan::Shifts(segments, shifts) => gadget(GadgetKind::Wide, (segments, *shifts)),
    }
}

/// The plan of a maximum of few elements.
fn maximum(plan: MaximumPlan) -> NodePlan {
    let MaximumPlan {
        shape,
        first_group,
        columns,
    } = plan;
    NodePlan::Maximum {
        shape,
        first_group,
        columns,
    }
}

/// The plan of a gadget as data.
fn gadget<S>(kind: impl FnOnce(S) -> GadgetKind, (shape, gadget): (S, Gadget)) -> NodePlan {
    NodePlan::Gadget(Box::new(GadgetPlan::new(kind(shape), gadget)))
}
