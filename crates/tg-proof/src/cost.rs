//! What checking a proof of a program may cost, declared by its shape alone and capped before anything is allocated.
//!
//! A program is written by whoever registers it, and every validator checks its proofs: a program that is cheap to
//! state and dear to verify is an attack. All figures follow from shapes and attributes; none needs a table.

use crate::error::PlanError;
use crate::layout::{TensorLayout, WeightLayout, log2_ceil};
use tg_ir::{Axis, Op, Program, TensorId, Window};

/// Most entries of all lookup tables together: some milliseconds of inner products. A proof carries one extension element
/// per entry that is read while these are few, see [`crate::plan::COMMITTED_FROM`].
pub const TABLE_ENTRIES_MAX: u64 = 1 << 18;
/// Most extension-field steps of one verification outside the openings: some tenths of a second of one core, and some
/// hundred MiB of equality tables at worst.
pub const STEPS_MAX: u64 = 1 << 24;
/// Most bytes of input and output together: they travel in the proof file.
pub const PUBLIC_BYTES_MAX: u64 = 1 << 20;
const _: () = assert!(PUBLIC_BYTES_MAX < crate::file::PROOF_FILE_MAX as u64);
/// Most sections that a witness is committed in. Each is a fractional sum and an opening: some milliseconds and a tenth
/// of a megabyte.
pub const SECTIONS_MAX: u64 = 16;

/// Most inputs of one proof.
pub const BATCH_MAX: usize = 1 << 10;

/// The cost of checking one proof of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifierCost {
    /// Entries of all lookup tables.
    pub table_entries: u64,
    /// Extension-field steps: kernel positions of windows, entries of equality tables, public elements.
    pub steps: u64,
    /// Bytes of input and output.
    pub public_bytes: u64,
    /// Sections that the witness is committed in.
    pub sections: u64,
}

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
        let mut cost = Self::default();
        let inputs = batch as u64;
        cost.public_bytes = inputs * program.input_bytes() as u64;
        cost.within(program, 0)?;
        cost.public_bytes += inputs * program.output_bytes() as u64;
        let output = TensorLayout::batched(program.shape(program.output()), batch);
        cost.steps = output.padded() as u64;
        cost.within(program, last)?;
        for node in 0..program.nodes.len() {
            cost.steps += steps(program, node, batch);
            cost.within(program, node)?;
        }
        Ok(cost)
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

    /// Adds steps of a node that follow from its plan.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if the steps so far are more than [`STEPS_MAX`].
    pub fn add_steps(
        &mut self,
        program: &Program,
        node: usize,
        steps: u64,
    ) -> Result<(), PlanError> {
        self.steps = self.steps.saturating_add(steps);
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

    fn within(&self, program: &Program, node: usize) -> Result<(), PlanError> {
        let Self {
            table_entries,
            steps,
            public_bytes,
            sections,
        } = *self;
        let figures = [
            ("lookup table entries", table_entries, TABLE_ENTRIES_MAX),
            ("verifier steps", steps, STEPS_MAX),
            ("bytes of input and output", public_bytes, PUBLIC_BYTES_MAX),
            ("sections of the witness", sections, SECTIONS_MAX),
        ];
        match figures.into_iter().find(|&(_, cost, limit)| cost > limit) {
            Some((what, cost, limit)) => Err(PlanError::TooCostly {
                node,
                name: program.nodes[node].name.clone(),
                what,
                cost,
                limit,
            }),
            None => Ok(()),
        }
    }
}

/// Steps of one node, an upper bound.
fn steps(program: &Program, node: usize, batch: usize) -> u64 {
    // Each reader of the program's input leaves a claim that is evaluated from the input's bytes.
    let reads = program.nodes[node].op.inputs();
    let claims = reads
        .iter()
        .filter(|&&input| input == TensorId::INPUT)
        .count() as u64;
    let input = TensorLayout::batched(program.shape(TensorId::INPUT), batch);
    gadget_steps(program, node, batch) + claims * input.padded() as u64
}

/// Steps of the linear and product gadgets, and of those that commit three columns.
fn gadget_steps(program: &Program, node: usize, batch: usize) -> u64 {
    let layout = |tensor: TensorId| TensorLayout::of(program.shape(tensor));
    let output = layout(TensorId::of_node(node));
    let window_steps = |input: TensorId, window: &Window| {
        let reads = output.pixels as u64 * window.positions() as u64;
        reads + (1 << layout(input).pixel_vars) + (1 << output.pixel_vars)
    };
    // An equality table of the output's field, weights on each input's, and their extension.
    let field_steps = |inputs: &[TensorId], vars: fn(&TensorLayout) -> usize| {
        let of = |tensor: &TensorId| 2u64 << vars(&layout(*tensor));
        inputs.iter().map(of).sum::<u64>() + (1u64 << vars(&output))
    };
    let pixels = |inputs: &[TensorId]| field_steps(inputs, |layout| layout.pixel_vars);
    let channels = |inputs: &[TensorId]| field_steps(inputs, |layout| layout.channel_vars);
    match &program.nodes[node].op {
        Op::Conv {
            input,
            window,
            groups,
            ..
        } => {
            let inputs = layout(*input).channels;
            window_steps(*input, window)
                + weight_steps(
                    output.channels,
                    window.positions(),
                    inputs / *groups as usize,
                )
                + 3 * (1u64 << layout(*input).channel_vars)
        }
        Op::Dense { input } => {
            let TensorLayout {
                pixels, channels, ..
            } = layout(*input);
            weight_steps(output.channels, pixels, channels)
        }
        Op::Parameter => weight_steps(output.pixels, 1, output.channels),
        Op::Embed { rows, .. } => {
            let tokens = output.pixels as u64 * batch as u64;
            let vars = log2_ceil(*rows as usize) as u64;
            weight_steps(*rows as usize, 1, output.channels) + tokens * (vars + 2)
        }
        Op::WindowSum { input, window } => window_steps(*input, window),
        Op::MaxPool { input, window } => 2 * window_steps(*input, window),
        Op::Requantise { .. } => 1 << log2_ceil(output.channels),
        // The plan looks at every pixel and every channel. A map that has a weight per element costs these too.
        Op::View { input, .. } | Op::Gather { input, .. } => {
            pixels(&[*input]) + channels(&[*input])
        }
        Op::Concat { inputs, axis } => match axis {
            Axis::Rows | Axis::Columns => pixels(inputs),
            Axis::Channels => channels(inputs),
        },
        Op::Pad { input, .. } => pixels(&[*input]) + channels(&[*input]),
        Op::Reduce { input, .. } => 2 * (pixels(&[*input]) + channels(&[*input])),
        Op::MatMul { inputs, .. } => pixels(inputs) + channels(inputs),
        // The others cost nothing or are refused by the plan.
        _ => 0,
    }
}

/// Two equality tables per axis, for weights and for biases, in the registration.
fn weight_steps(outputs: usize, positions: usize, inputs: usize) -> u64 {
    let axes = WeightLayout {
        outputs,
        positions,
        inputs,
        biased: true,
        tied: None,
    };
    4 * axes
        .axis_vars()
        .map(|vars| 1u64 << vars)
        .iter()
        .sum::<u64>()
}
