//! What a program commits, looks up and opens. Prover and verifier derive it from the public program alone.

use crate::commitment::CommittedTable;
use crate::cost::VerifierCost;
use crate::error::PlanError;
use crate::field::{F, signed};
use crate::layout::{Chunk, TensorLayout, WeightLayout, log2_ceil};
use p3_field::PrimeCharacteristicRing;
use std::ops::Range;
use tg_ir::segment::{LIMB_TABLE_LEN, limb_entry};
use tg_ir::weights::BIAS_DIGITS;
use tg_ir::{Coding, ElementType, Op, Program, Requantise, SegmentTable, TensorId};

/// Most kernel positions of a maximum that can be proved: the zero-check has one more degree than it has positions.
pub const MAXIMUM_POSITIONS_MAX: usize = 16;
/// Columns of the limb table: value and class.
pub const LIMB_COLUMNS: usize = 2;
/// Columns of a segment table: base, output, class of the high limb, class of the low limb, pair.
pub const SEGMENT_COLUMNS: usize = 5;
/// Witness columns of a requantisation: segment, high limb, low limb.
pub const REQUANTISE_COLUMNS: usize = 3;
/// A difference is looked up in the class of eight bits, whose entries start here.
pub const DIFFERENCE_OFFSET: u32 = 255;

/// A public table that readers look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupTable {
    /// Its columns, all of one length.
    pub columns: Vec<Vec<F>>,
}

impl LookupTable {
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

    /// Variables of its leaf block.
    #[must_use]
    pub fn vars(&self) -> usize {
        log2_ceil(self.len())
    }
}

/// One committed witness table: the columns of one chunk of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessTable {
    /// The node.
    pub node: usize,
    /// The chunk.
    pub chunk: Chunk,
    /// Columns.
    pub columns: usize,
}

/// One reader of the lookup argument: a column over all chunks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderGroup {
    /// The node.
    pub node: usize,
    /// The column within each of the node's witness tables.
    pub column: usize,
    /// Index of the lookup table.
    pub table: usize,
    /// Added to the committed value to give the position.
    pub offset: u32,
    /// The node's witness tables.
    pub witness: Range<usize>,
}

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

/// What the walk over the nodes needs of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePlan {
    /// A convolution or dense node, with the index of its weights.
    Linear {
        /// Index into [`Plan::weights`].
        weights: usize,
    },
    /// A linear map without weights.
    Free,
    /// A requantisation.
    Requantise {
        /// Index of its segment table among the lookup tables.
        table: usize,
        /// First of its three reader groups (segment, high limb, low limb).
        first_group: usize,
        /// Its witness tables.
        witness: Range<usize>,
    },
    /// A maximum.
    Maximum {
        /// First of its reader groups, one per kernel position.
        first_group: usize,
        /// Its witness tables.
        witness: Range<usize>,
    },
}

/// The proof's shape for one program.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Per tensor its layout; index 0 is the input.
    pub layouts: Vec<TensorLayout>,
    /// Per node.
    pub nodes: Vec<NodePlan>,
    /// Per requantisation the segment table, by lookup table index (entry 0, the limb table, has none).
    pub segments: Vec<Option<SegmentTable>>,
    /// The lookup tables; the first is the limb table.
    pub tables: Vec<LookupTable>,
    /// The witness tables in commitment order.
    pub witness: Vec<WitnessTable>,
    /// The readers.
    pub groups: Vec<ReaderGroup>,
    /// The weight layouts in node order.
    pub weights: Vec<WeightLayout>,
    /// The leaves of the fractional sum, largest blocks first.
    pub leaves: Vec<PlacedBlock>,
    /// log2 of the number of leaves, padding included.
    pub leaf_vars: usize,
    /// What checking a proof costs.
    pub cost: VerifierCost,
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
        program.validate()?;
        refuse_dead_nodes(program)?;
        let mut cost = VerifierCost::batched(program, batch)?;
        cost.table_entries = LIMB_TABLE_LEN as u64;
        let tensors = (0..=program.nodes.len()).map(|tensor| TensorId(tensor as u32));
        let mut plan = Self {
            layouts: tensors
                .map(|tensor| TensorLayout::batched(program.shape(tensor), batch))
                .collect(),
            nodes: Vec::new(),
            segments: vec![None],
            tables: vec![limb_table()],
            witness: Vec::new(),
            groups: Vec::new(),
            weights: Vec::new(),
            leaves: Vec::new(),
            leaf_vars: 0,
            cost,
        };
        for node in 0..program.nodes.len() {
            let node_plan = plan.plan_node(program, node)?;
            plan.nodes.push(node_plan);
        }
        plan.place_leaves();
        Ok(plan)
    }

    fn plan_node(&mut self, program: &Program, node: usize) -> Result<NodePlan, PlanError> {
        let unprovable = |why| PlanError::unprovable(program, node, why);
        refuse_unproved(program, node)?;
        let outputs = program.nodes[node].shape.channels as usize;
        Ok(match &program.nodes[node].op {
            Op::Conv { input, window, .. } => {
                let inputs = self.layouts[input.index()].channels;
                self.weights.push(WeightLayout {
                    outputs,
                    positions: window.positions(),
                    inputs,
                });
                NodePlan::Linear {
                    weights: self.weights.len() - 1,
                }
            }
            Op::Dense { input } => {
                let TensorLayout {
                    pixels, channels, ..
                } = self.layouts[input.index()];
                self.weights.push(WeightLayout {
                    outputs,
                    positions: pixels,
                    inputs: channels,
                });
                NodePlan::Linear {
                    weights: self.weights.len() - 1,
                }
            }
            Op::WindowSum { .. } | Op::Add { .. } | Op::View { .. } => NodePlan::Free,
            Op::Requantise { how, .. } => self.plan_requantise(program, node, how)?,
            Op::MaxPool { window, .. } => {
                if window.positions() > MAXIMUM_POSITIONS_MAX {
                    return Err(unprovable("a maximum over more than 16 elements"));
                }
                let witness = self.add_witness(node, window.positions());
                let first_group = self.groups.len();
                for column in 0..window.positions() {
                    let offset = DIFFERENCE_OFFSET;
                    self.groups.push(ReaderGroup {
                        node,
                        column,
                        table: 0,
                        offset,
                        witness: witness.clone(),
                    });
                }
                NodePlan::Maximum {
                    first_group,
                    witness,
                }
            }
            _ => return Err(unprovable("no proof of this operator exists yet")),
        })
    }

    fn plan_requantise(
        &mut self,
        program: &Program,
        node: usize,
        how: &Requantise,
    ) -> Result<NodePlan, PlanError> {
        let unprovable = |why| PlanError::unprovable(program, node, why);
        if !keeps_zero(how) {
            return Err(unprovable(
                "it does not map 0 to 0, which padded channels need",
            ));
        }
        let segments =
            SegmentTable::build(how).map_err(|_| unprovable("its segment table is too long"))?;
        self.cost.add_table(program, node, &segments)?;
        self.tables.push(segment_table(&segments));
        self.segments.push(Some(segments));
        let table = self.tables.len() - 1;
        let witness = self.add_witness(node, REQUANTISE_COLUMNS);
        let first_group = self.groups.len();
        for (column, table) in [table, 0, 0].into_iter().enumerate() {
            self.groups.push(ReaderGroup {
                node,
                column,
                table,
                offset: 0,
                witness: witness.clone(),
            });
        }
        Ok(NodePlan::Requantise {
            table,
            first_group,
            witness,
        })
    }

    fn add_witness(&mut self, node: usize, columns: usize) -> Range<usize> {
        let first = self.witness.len();
        let chunks = self.layouts[node + 1].chunks();
        self.witness
            .extend(chunks.into_iter().map(|chunk| WitnessTable {
                node,
                chunk,
                columns,
            }));
        first..self.witness.len()
    }

    /// Places all leaf blocks, largest first: every block is then aligned to its size.
    fn place_leaves(&mut self) {
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

    /// The witness tables as the commitment sees them: every column at the lookup point, differences also at the
    /// point of their zero-check.
    #[must_use]
    pub fn witness_tables(&self) -> Vec<CommittedTable> {
        self.witness
            .iter()
            .map(|table| {
                let all: Vec<usize> = (0..table.columns).collect();
                let maximum = matches!(self.nodes[table.node], NodePlan::Maximum { .. });
                let batches = if maximum {
                    vec![all.clone(), all]
                } else {
                    vec![all]
                };
                CommittedTable {
                    vars: table.chunk.column_vars(),
                    columns: table.columns,
                    batches,
                }
            })
            .collect()
    }

    /// The weight tables as the commitment sees them: per node the pieces of the weights and the bias digits, each opened
    /// `batches` times.
    #[must_use]
    pub fn weight_tables(&self, batches: usize) -> Vec<CommittedTable> {
        let table = |vars, columns: usize| CommittedTable {
            vars,
            columns,
            batches: vec![(0..columns).collect(); batches],
        };
        self.weights
            .iter()
            .flat_map(|layout| {
                let pieces = layout.pieces().into_iter();
                pieces
                    .map(|piece| table(piece.column_vars(), 1))
                    .chain([table(layout.bias_vars(), BIAS_DIGITS)])
            })
            .collect()
    }
}

/// Whether every pair maps 0 to 0.
fn keeps_zero(how: &Requantise) -> bool {
    how.range[0] <= 0
        && how.range[1] >= 0
        && how.pairs.iter().all(|&rescale| how.output(rescale, 0) == 0)
}

/// What TGX-1 executes and TGP-1 does not prove yet, within the operators that have gadgets.
fn refuse_unproved(program: &Program, node: usize) -> Result<(), PlanError> {
    let unprovable = |why| Err(PlanError::unprovable(program, node, why));
    let op = &program.nodes[node].op;
    let wide = |tensor| program.element_type(tensor) == ElementType::I16;
    if program.input.coding != Coding::Scaled(ElementType::I8) {
        return unprovable("only inputs of 8 bits are proved yet");
    }
    if wide(TensorId::of_node(node)) {
        return unprovable("activations of 16 bits are not proved yet");
    }
    match op {
        Op::Conv {
            window,
            groups,
            zero,
            ..
        } if *groups != 1 || *zero != 0 || !window.is_plain() => {
            unprovable("groups, dilation, spread and padding other than 0 are not proved yet")
        }
        Op::WindowSum { window, .. } | Op::MaxPool { window, .. } if !window.is_plain() => {
            unprovable("dilation is not proved yet")
        }
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => {
            let plain = inputs.len() == 2
                && *bias == 0
                && multipliers.iter().all(|&m| m > 0)
                && inputs
                    .iter()
                    .all(|&input| program.element_type(input) == ElementType::I8);
            if plain {
                Ok(())
            } else {
                unprovable(
                    "only sums of two activation tensors with positive factors are proved yet",
                )
            }
        }
        _ => Ok(()),
    }
}

/// Every node must reach the output, or its columns would be bound to nothing.
fn refuse_dead_nodes(program: &Program) -> Result<(), PlanError> {
    let mut used = vec![false; program.nodes.len() + 1];
    used[program.output().index()] = true;
    for node in (0..program.nodes.len()).rev() {
        if !used[node + 1] {
            return Err(PlanError::unprovable(
                program,
                node,
                "nothing reads its output",
            ));
        }
        program.nodes[node]
            .op
            .inputs()
            .iter()
            .for_each(|input| used[input.index()] = true);
    }
    Ok(())
}

fn limb_table() -> LookupTable {
    let entries = (0..LIMB_TABLE_LEN as u32).map(limb_entry);
    let (classes, values) = entries
        .map(|(class, value)| (F::from_u32(class), F::from_u32(value)))
        .unzip();
    LookupTable {
        columns: vec![values, classes],
    }
}

fn segment_table(segments: &SegmentTable) -> LookupTable {
    let column = |value: fn(&tg_ir::Segment) -> i64| {
        segments
            .segments()
            .iter()
            .map(|s| signed(value(s)))
            .collect()
    };
    LookupTable {
        columns: vec![
            column(|segment| i64::from(segment.base)),
            column(|segment| i64::from(segment.output)),
            column(|segment| i64::from(segment.class_high())),
            column(|segment| i64::from(segment.class_low())),
            column(|segment| i64::from(segment.pair)),
        ],
    }
}
