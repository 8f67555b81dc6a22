//! What running and proving a program takes, from the program alone: the facts that a grid matches, prices and times by.
//!
//! Multiply-adds alone say little of a program of comparisons, or of one that is cheap to run and dear to prove. All figures
//! are integers, so that every validator finds the same: none is measured.

use crate::algebra::layout::TensorLayout;
use crate::argument::commitment::Pcs;
use crate::plan::shape::ProofShape;
use crate::verify::size;
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};

/// What follows from a program about its runs and its proofs in clear, for one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Most bytes of a proof file, input and output included.
    pub proof_bytes: u64,
    /// Run: operations, as multiply-adds of 8 bits that take as long.
    pub run_work: u64,
    /// Prove: the same, without the run.
    pub prove_work: u64,
    /// Run: bytes of weights and of the tensors that are alive at once.
    pub run_memory: u64,
    /// Prove: bytes at the highest point, the model's commitment included.
    pub prove_memory: u64,
}

impl Facts {
    /// The facts of a program with its shape.
    #[must_use]
    pub fn of(program: &Program, shape: &ProofShape) -> Self {
        Self {
            proof_bytes: size::proof_file(program, shape),
            run_work: run_work(program),
            prove_work: prove_work(program, shape),
            run_memory: run_memory(program),
            prove_memory: prove_memory(program, shape, CELL),
        }
    }

    /// Run and proof together, as multiply-adds.
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.run_work.saturating_add(self.prove_work)
    }

    /// Bytes that running and proving take.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        if self.run_memory > self.prove_memory {
            self.run_memory
        } else {
            self.prove_memory
        }
    }
}

/// Multiply-adds of 8 bits that one core does in a nanosecond: the unit of work.
const PER_NANOSECOND: u64 = 20;

/// Operations of one run as multiply-adds. What is not one counts by the time that an element takes.
#[must_use]
pub fn run_work(program: &Program) -> u64 {
    let elements = |id: TensorId| program.shape(id).elements() as u64;
    let nodes = program.nodes.iter().enumerate();
    let works = nodes.map(|(node, description)| {
        let written = description.shape.elements() as u64;
        let inputs = description.op.inputs();
        let read: u64 = inputs.iter().map(|&id| elements(id)).sum();
        let macs = program.reduction(node) as u64 * written;
        macs + match &description.op {
            Op::Conv(_) | Op::Dense(_) | Op::MatMul(_) => written,
            Op::Parameter(op::Parameter) | Op::Embed(_) => 2 * written,
            Op::WindowSum(op::WindowSum { window, .. })
            | Op::MaxPool(op::MaxPool { window, .. }) => 10 * written * window.positions() as u64,
            Op::Requantise(_) | Op::ArgMax(_) | Op::Reduce(_) | Op::RunningSum(_) => {
                20 * (read + written)
            }
            Op::Softmax(_) | Op::Norm(_) => 200 * written,
            // A row is searched once per rank.
            Op::TopK(_) => 20 * read * u64::from(description.shape.channels.min(64)),
            // A tree is as deep as its branches allow: a load and a comparison each.
            Op::Trees(op::Trees { forest, .. }) => {
                let depth = u64::from(forest.branches.len().max(1).ilog2()) + 1;
                100 * forest.roots.len() as u64 * depth + written * forest.roots.len() as u64
            }
            _ => 10 * (read + written),
        }
    });
    works.fold(0, u64::saturating_add)
}

/// Bytes of weights and of the tensors that are alive at once in one run: a tensor is kept until its last reader is done,
/// an output to the end.
#[must_use]
pub fn run_memory(program: &Program) -> u64 {
    let types = program.element_types();
    let bytes = |tensor: usize| {
        let shape = program.shape(TensorId(tensor as u32));
        (shape.elements() * types[tensor].bytes()) as u64
    };
    let mut last_reader = vec![0; program.nodes.len() + 1];
    for (node, description) in program.nodes.iter().enumerate() {
        let inputs = description.op.inputs();
        inputs
            .iter()
            .for_each(|input| last_reader[input.index()] = node);
    }
    let mut ends = vec![Vec::new(); program.nodes.len()];
    let kept = &program.outputs;
    for (tensor, &reader) in last_reader.iter().enumerate().take(program.nodes.len()) {
        if kept.iter().all(|output| output.index() != tensor) {
            ends[reader].push(tensor);
        }
    }
    let (mut alive, mut most) = (bytes(0), bytes(0));
    for (node, done) in ends.into_iter().enumerate() {
        alive += bytes(node + 1);
        most = most.max(alive);
        alive -= done.into_iter().map(bytes).sum::<u64>();
    }
    let owners = (0..program.nodes.len()).filter(|&node| program.weights_owner(node) == node);
    let weights: usize = owners.map(|node| program.weights_of(node)).sum();
    most + weights as u64
}

/// Cells of a commitment.
fn cells(scheme: &Pcs) -> u64 {
    1 << scheme.num_variables()
}

/// Work of a proof beside the run, as multiply-adds. The factors are nanoseconds of one core as measured once.
fn prove_work(program: &Program, shape: &ProofShape) -> u64 {
    let plan = &shape.plan;
    let macs = program.macs();
    let weights: usize = (0..program.nodes.len())
        .map(|node| program.weights_of(node))
        .sum();
    let witness: u64 = shape.sections.iter().map(|(scheme, _)| cells(scheme)).sum();
    let leaves: u64 = plan.sum_vars().map(|vars| 1u64 << vars).sum();
    // A search for a nonce takes a millisecond, and there are a few.
    let opening = |cells: u64| 20 * cells + 4_000_000;
    // What is not held is committed again before its opening.
    let again = if plan.is_anchored() { 40 * witness } else { 0 };
    let pushforwards = shape.pushforwards.as_ref().map(|(scheme, _)| cells(scheme));
    let pushforwards = pushforwards.map_or(0, |cells| 80 * cells + opening(cells));
    let nanoseconds = macs / 16
        + 5 * weights as u64
        + 200_000 * plan.nodes.len() as u64
        + 48 * witness
        + 65 * leaves
        + pushforwards
        + if witness > 0 { opening(witness) } else { 0 }
        + again
        + shape
            .weights
            .as_ref()
            .map_or(0, |own| opening(cells(&own.scheme)));
    nanoseconds.saturating_mul(PER_NANOSECOND)
}

/// Bytes of a base field element and of an extension element.
const BASE: u64 = 4;
const EXTENSION: u64 = 20;
/// Bytes of a cell of a prover's columns.
const CELL: u64 = 2;
/// Bytes of a process that has done nothing yet.
const PROCESS: u64 = 12 << 20;

/// Bytes at the highest point of a proof, the model's commitment included, for a prover whose columns take `cell` bytes a
/// cell. A peak lies between half of it and five quarters.
#[must_use]
pub fn prove_memory(program: &Program, shape: &ProofShape, cell: u64) -> u64 {
    // The weights, their columns, and the tensors of the execution with their columns of positions.
    let owners = (0..program.nodes.len()).filter(|&node| program.weights_owner(node) == node);
    let weights: usize = owners.map(|node| 3 * program.weights_of(node)).sum();
    let tensors = shape.plan.layouts.iter().map(TensorLayout::padded);
    let tensors: u64 = tensors.map(|cells| cells as u64).sum();
    let tables = shape.plan.witness.iter();
    let columns = tables.map(|table| (table.columns as u64) << table.chunk.vars);
    let columns: u64 = columns.sum();
    // What each reader reads, entry by entry of its table.
    let readers = shape.plan.groups.iter();
    let read: usize = readers
        .map(|reader| shape.plan.tables[reader.table].len())
        .sum();
    let fixed = PROCESS + weights as u64 + 6 * tensors + cell * columns + EXTENSION * read as u64;
    let weights = shape.weights.as_ref().map(|own| &own.scheme);
    let pushforwards = shape.pushforwards.as_ref().map(|(scheme, _)| scheme);
    let weights_opening = weights.map_or(0, opening_bytes);
    let kept = weights.map_or(0, committed_bytes)
        + pushforwards.map_or(0, |scheme| committed_bytes(scheme) + opening_bytes(scheme));
    let most = |of: fn(&Pcs) -> u64| {
        let sections = shape.sections.iter().map(|(scheme, _)| of(scheme));
        sections.max().unwrap_or_default()
    };
    // Numerators and denominators above the leaves, layer by layer.
    let leaves = shape.plan.sum_vars().max().unwrap_or_default();
    let sum = (2 * EXTENSION) << leaves;
    let at_once = if shape.plan.is_anchored() {
        // One section at a time: its commitment and opening, or its columns and its sum.
        let columns = most(|scheme| BASE << scheme.num_variables());
        let opened = most(|scheme| committed_bytes(scheme) + opening_bytes(scheme));
        (columns + sum).max(opened).max(weights_opening)
    } else {
        // The commitment all the time, and the sum or an opening.
        most(committed_bytes) + sum.max(most(opening_bytes)).max(weights_opening)
    };
    fixed + kept + at_once
}

/// Bytes that a commitment keeps: columns, stacked polynomial, codeword and hashes of its rows.
#[must_use]
pub fn committed_bytes(scheme: &Pcs) -> u64 {
    let vars = scheme.num_variables();
    let rate = scheme.params().starting_log_inv_rate;
    let rows = 1u64 << (vars + rate - scheme.folding_schedule()[0]);
    ((2 * BASE) << vars) + (BASE << (vars + rate)) + 64 * rows
}

/// Bytes that an opening adds: a copy of columns and polynomial, the folded polynomial and its weights, its codeword.
#[must_use]
pub fn opening_bytes(scheme: &Pcs) -> u64 {
    let vars = scheme.num_variables();
    let first = scheme.folding_schedule()[0];
    let codeword = scheme.round_parameters().first().map_or(0, |round| {
        EXTENSION << (round.num_variables + round.log_inv_rate)
    });
    ((2 * BASE) << vars) + ((2 * EXTENSION) << (vars - first)) + 2 * codeword
}
