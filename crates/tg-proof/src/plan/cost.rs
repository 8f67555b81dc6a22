//! What checking a proof of a program may cost, declared by its shape alone and capped before anything is allocated.
//!
//! A program is written by whoever registers it, and every validator checks its proofs: a program that is cheap to
//! state and dear to verify is an attack. All figures follow from shapes and attributes; none needs a table. What follows
//! from shapes alone is added up before a plan is begun, columns, readers, terms and what planning itself looks at as the
//! plan grows, node by node, so that it never grows beyond a limit by more than one node. What the checks compute is then
//! counted by the walk itself over the finished plan ([ADR 14](../../../../docs/adr/0014-counted-by-the-walk.md)).

use crate::algebra::layout::WeightLayout;
use crate::plan::PlanError;
use tg_ir::{Op, Program, op};

/// Most bytes of a proof file.
pub const PROOF_FILE_MAX: usize = 1 << 22;
/// Most entries of all lookup tables together: some milliseconds of inner products. A proof carries one extension element
/// per entry that is read while these are few, see [`crate::plan::COMMITTED_FROM`].
pub const TABLE_ENTRIES_MAX: u64 = 1 << 18;
/// Most extension-field steps of one verification outside the openings: some tenths of a second of one core.
pub const STEPS_MAX: u64 = 1 << 24;
/// Most bytes of input and output together: they travel in the proof file.
pub const PUBLIC_BYTES_MAX: u64 = 1 << 20;
const _: () = assert!(PUBLIC_BYTES_MAX < PROOF_FILE_MAX as u64);
/// Most sections that a witness is committed in. Each is a fractional sum and an opening: some milliseconds and a tenth
/// of a megabyte.
pub const SECTIONS_MAX: u64 = 16;
/// Most leaves of one fractional sum: what a word of 32 bits counts, on every machine alike. A commitment holds 2^27 cells, and
/// few readers look at one of them.
pub const LEAVES_MAX: u64 = 1 << 31;
/// Most readers of the lookup argument. A proof sends at least two elements for each, so that more do not fit evidence;
/// GPT-2 has about a tenth of it.
pub const READERS_MAX: u64 = 1 << 15;
/// Most committed columns, counted once per chunk and opening: each is opened.
pub const COLUMNS_MAX: u64 = 1 << 16;
/// Most terms of all relations of gadgets.
pub const TERMS_MAX: u64 = 1 << 19;
/// Most claims on tensors: one per tensor that a node reads.
pub const CLAIMS_MAX: u64 = 1 << 15;
/// Most entries of value tables and exponentials that are looked at for the tables of segments made of them: some tens of
/// milliseconds.
pub const SCANNED_MAX: u64 = 1 << 22;
/// Most bytes that a plan and a verification hold at once, by the estimates below, which are above what the search of
/// `tg-node/examples/hardest` measures.
pub const MEMORY_MAX: u64 = 60 << 20;

/// Most inputs of one proof.
pub const BATCH_MAX: usize = 1 << 10;

/// Bytes of an extension element.
const EXTENSION: u64 = 20;
/// Bytes per reader: its group, its place in a stage, the point and the values it pulls.
const READER_BYTES: u64 = 900;
/// Bytes per column and opening: its place in both schedules, its claim.
const COLUMN_BYTES: u64 = 200;
/// Bytes per term of a relation.
const TERM_BYTES: u64 = 24;
/// Bytes per claim: a point of at most 26 coordinates, and a value.
const CLAIM_BYTES: u64 = 700;
/// Bytes per entry of a table: up to eight columns, the segment, the pushforward and its weight.
const ENTRY_BYTES: u64 = 100;
/// Bytes per byte of input and output: the file's, and elements of 32 bits in two orders.
const PUBLIC_BYTES: u64 = 10;
/// Bytes per branch of a tree: in the file and the program, its run of leaves, its threshold, its share of leaves.
const BRANCH_BYTES: u64 = 64;
/// Bytes per other entry of a list that an operator has: in the file, the program and the table made of it.
const LISTED_BYTES: u64 = 16;
/// Bytes of the largest file that is looked at, evidence or a registration, and of the messages in it.
const FILE_BYTES: u64 = 4 << 20;
/// Bytes per node: its operator, its plan, its messages.
const NODE_BYTES: u64 = 2_000;

/// The cost of checking one proof of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifierCost {
    /// Entries of all lookup tables.
    pub table_entries: u64,
    /// Extension-field steps: kernel positions of windows, entries of equality tables, public elements, leaves, claims,
    /// openings, tables of a commitment times openings.
    pub steps: u64,
    /// Bytes of input and output.
    pub public_bytes: u64,
    /// Sections that the witness is committed in.
    pub sections: u64,
    /// Readers of the lookup argument.
    pub readers: u64,
    /// Committed columns of witness and weights, once per chunk and opening.
    pub columns: u64,
    /// Terms of the relations of gadgets.
    pub terms: u64,
    /// Claims on tensors.
    pub claims: u64,
    /// Entries of value tables and exponentials that are looked at.
    pub scanned: u64,
    /// Extension elements that the dearest node needs at once.
    pub working: u64,
    /// Nodes.
    pub nodes: u64,
    /// Branches of trees.
    pub branches: u64,
    /// Other entries of lists that operators have.
    pub listed: u64,
}

/// What a part of a plan adds to the cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Added {
    /// Steps.
    pub(crate) steps: u64,
    /// Extension elements held at once.
    pub(crate) working: u64,
    /// Readers, and blocks of leaves, one per chunk of each.
    pub(crate) readers: [u64; 2],
    /// Columns, once per chunk and opening.
    pub(crate) columns: u64,
    /// Terms of relations.
    pub(crate) terms: u64,
    /// Entries looked at.
    pub(crate) scanned: u64,
}

impl Added {
    /// Steps over tables that are held at once.
    pub(crate) fn tables(entries: u64) -> Self {
        Self {
            steps: entries,
            working: entries,
            ..Self::default()
        }
    }
}

/// Steps per block of leaves: its place and its reader's point against the sum's.
const LEAF_STEPS: u64 = 64;
/// Steps per opened column or claim: `eq` of two points.
const OPENING_STEPS: u64 = 64;

/// Steps per table of a commitment and point that some table of it is opened at: the library absorbs the shapes of all
/// tables with each of these openings, 32 bytes a table.
const SHAPE_STEPS: u64 = 4;

impl VerifierCost {
    /// The cost of a valid program without its segment tables, each figure within its limit.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] names the first node with which a figure passes its limit.
    pub fn of(program: &Program) -> Result<Self, PlanError> {
        Self::batched(program, 1)
    }

    /// The cost of checking a proof about a batch of inputs.
    ///
    /// # Errors
    /// [`PlanError::Batch`] if it is empty or longer than [`BATCH_MAX`], and those of [`VerifierCost::of`].
    pub fn batched(program: &Program, batch: usize) -> Result<Self, PlanError> {
        if batch == 0 || batch > BATCH_MAX {
            return Err(PlanError::Batch {
                got: batch,
                limit: BATCH_MAX,
            });
        }
        let last = program.nodes.len() - 1;
        let mut cost = Self {
            nodes: program.nodes.len() as u64,
            ..Self::default()
        };
        let inputs = batch as u64;
        cost.public_bytes = inputs * program.input_bytes() as u64;
        cost.within(program, 0)?;
        cost.public_bytes += inputs * program.output_bytes() as u64;
        cost.within(program, last)?;
        for node in 0..program.nodes.len() {
            let op = &program.nodes[node].op;
            cost.claims += op.inputs().len() as u64;
            let [branches, listed] = lists(op);
            cost.branches += branches;
            cost.listed += listed;
            cost.add(program, node, weights(program, node))?;
        }
        Ok(cost)
    }

    /// Bytes that a plan and a verification hold at once, an upper bound.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        let Self {
            table_entries,
            steps: _,
            public_bytes,
            sections: _,
            readers,
            columns,
            terms,
            claims,
            scanned: _,
            working,
            nodes,
            branches,
            listed,
        } = *self;
        FILE_BYTES
            + branches * BRANCH_BYTES
            + listed * LISTED_BYTES
            + table_entries * ENTRY_BYTES
            + public_bytes * PUBLIC_BYTES
            + readers * READER_BYTES
            + columns * COLUMN_BYTES
            + terms * TERM_BYTES
            + claims * CLAIM_BYTES
            + working * EXTENSION
            + nodes * NODE_BYTES
    }

    /// Adds a table of a node.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if the tables so far have more than [`TABLE_ENTRIES_MAX`] entries.
    pub fn add_table(
        &mut self,
        program: &Program,
        node: usize,
        entries: usize,
    ) -> Result<(), PlanError> {
        self.table_entries += entries as u64;
        self.within(program, node)
    }

    /// Adds what follows from the plan of a node.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if a figure passes its limit.
    pub(crate) fn add(
        &mut self,
        program: &Program,
        node: usize,
        added: Added,
    ) -> Result<(), PlanError> {
        let Added {
            steps,
            working,
            readers: [readers, leaves],
            columns,
            terms,
            scanned,
        } = added;
        let steps = steps
            .saturating_add(leaves * LEAF_STEPS)
            .saturating_add(columns * OPENING_STEPS)
            .saturating_add(terms);
        self.steps = self.steps.saturating_add(steps);
        self.working = self.working.max(working);
        self.readers += readers;
        self.columns += columns;
        self.terms += terms;
        self.scanned += scanned;
        self.within(program, node)
    }

    /// Counts a section of the witness that begins with a node's columns.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if there are more than [`SECTIONS_MAX`].
    pub fn add_section(&mut self, program: &Program, node: usize) -> Result<(), PlanError> {
        self.sections += 1;
        self.within(program, node)
    }

    /// Counts what the opening of a commitment with so many tables, opened so many times in all, absorbs beside its
    /// values.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if there are too many steps.
    pub(crate) fn add_opening(
        &mut self,
        program: &Program,
        tables: usize,
        openings: usize,
    ) -> Result<(), PlanError> {
        let shapes = (tables as u64).saturating_mul(openings as u64);
        let steps = shapes.saturating_mul(SHAPE_STEPS);
        self.steps = self.steps.saturating_add(steps);
        self.within(program, program.nodes.len() - 1)
    }

    fn within(&self, program: &Program, node: usize) -> Result<(), PlanError> {
        let figures = [
            (
                "lookup table entries",
                self.table_entries,
                TABLE_ENTRIES_MAX,
            ),
            ("verifier steps", self.steps, STEPS_MAX),
            (
                "bytes of input and output",
                self.public_bytes,
                PUBLIC_BYTES_MAX,
            ),
            ("sections of the witness", self.sections, SECTIONS_MAX),
            ("readers of tables", self.readers, READERS_MAX),
            ("openings of columns", self.columns, COLUMNS_MAX),
            ("terms of relations", self.terms, TERMS_MAX),
            ("claims on tensors", self.claims, CLAIMS_MAX),
            ("entries of value tables", self.scanned, SCANNED_MAX),
            ("bytes of a verifier's memory", self.memory(), MEMORY_MAX),
        ];
        match figures.into_iter().find(|&(_, cost, limit)| cost > limit) {
            Some((what, cost, limit)) => {
                // What is no node's is charged to the last.
                let node = node.min(program.nodes.len() - 1);
                Err(PlanError::TooCostly {
                    node,
                    name: program.nodes[node].name.clone(),
                    what,
                    cost,
                    limit,
                })
            }
            None => Ok(()),
        }
    }
}

/// Branches of trees, and entries of the other lists that an operator has.
fn lists(op: &Op) -> [u64; 2] {
    let [branches, listed] = match op {
        Op::Trees(op::Trees { forest, .. }) => [
            forest.branches.len(),
            forest.roots.len() + forest.leaves.len() + forest.bias.len(),
        ],
        Op::Gather(op::Gather { indices, .. }) => [0, indices.len()],
        Op::Requantise(op::Unary { how, .. }) => {
            let table = how.table.as_ref().map_or(0, Vec::len);
            [0, 4 * how.pairs.len() + how.channel_pairs.len() + table]
        }
        Op::Softmax(op::Unary { how, .. }) => [0, how.table.len()],
        _ => [0, 0],
    };
    [branches as u64, listed as u64]
}

/// Two equality tables per axis, for weights and for biases, in the registration; and every piece opened by registration
/// and inference.
fn weights(program: &Program, node: usize) -> Added {
    let Some([outputs, positions, inputs]) = program.weight_axes(node) else {
        return Added::default();
    };
    let biased = program.nodes[node].op.has_bias();
    let axes = WeightLayout {
        outputs,
        positions,
        inputs,
        biased,
        tied: None,
    };
    let tables = axes.axis_vars().map(|vars| 1u64 << vars);
    let tables = tables.iter().sum::<u64>();
    let bias = if biased { 3 } else { 0 };
    Added {
        steps: 4 * tables,
        working: 2 * tables,
        columns: 5 * (axes.pieces().len() as u64 + bias),
        ..Added::default()
    }
}
