//! Causal programs: output pixel t depends on the input's pixels up to t alone.
//!
//! For such a program one execution over a whole sequence says what the executions over each of its prefixes say: what a
//! language model gave while it wrote is what it gives on what it wrote. The analysis follows each element's latest input
//! pixel through the graph. It is conservative: a program it accepts is causal whatever its weights, one that hides the
//! future by large negative numbers instead of a mask is refused.
//!
//! Cost: one step per element of every tensor, for each node that reads it, and per window position; four bytes per element of the
//! tensors that are still to be read. Programs of more than [`STEPS_MAX`] steps, or that hold more than [`HELD_MAX`] elements, are
//! refused first.

use crate::op::latest::{Latest, Reads, greatest, later};
pub use crate::op::latest::{NEVER, ZERO};
use crate::program::{Program, TensorId};
use crate::shape::Shape;

/// Most steps of the analysis. GPT-2 with its whole window of 1,024 takes less than half as many.
///
/// A step of the programs that are used is a sequential read and a maximum, a nanosecond or less. The dearest that a program
/// of somebody's choice has are views that transpose (up to eight divisions for two steps) and windows (three for one), tens of
/// nanoseconds: counted so, and not measured, a hostile program takes a minute of one core, and [`HELD_MAX`] bounds its memory. Who pays for that is who
/// chose to read it: a client that orders or verifies a sequence, a gateway once for each model that it reads, one at a time, and a
/// provider up to four times for a model that it serves (this check, and three ways of keeping what is final). Registering a
/// model takes none of it. Validators look at orders of strangers' models: what asks them has bounds of its own, far lower
/// (`tg_proof::SEQUENCE_STEPS_MAX`, `tg_proof::ORDERED_STEPS_MAX`).
pub const STEPS_MAX: u64 = 1 << 31;

/// Most elements of tensors that the analysis holds at once: 1 GiB, of which GPT-2 with its whole window takes less than half,
/// nearly all of it for scores. An element is a step too, so that what has fewer steps than that never has too many.
pub const HELD_MAX: u64 = 1 << 28;

/// Why a program is not known to be causal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CausalityError {
    /// Looking takes too long.
    #[error("to find out takes {steps} steps, at most {STEPS_MAX} are taken")]
    TooLarge {
        /// Steps of the analysis.
        steps: u64,
    },
    /// Looking takes too much memory.
    #[error("to find out takes {held} elements of tensors at once, at most {HELD_MAX} are held")]
    TooWide {
        /// Most elements at once.
        held: u64,
    },
    /// Input and output are not sequences of one length.
    #[error("its input has {input} positions and its output {output}")]
    Positions {
        /// Pixels of the input.
        input: usize,
        /// Pixels of the output.
        output: usize,
    },
    /// An output depends on a later input.
    #[error("its output at position {output} may depend on its input at position {input}")]
    Future {
        /// Position of the output.
        output: usize,
        /// The latest position it may depend on.
        input: usize,
    },
}

/// Checks that every output pixel depends on the input's pixels up to its own alone.
///
/// # Errors
/// If that is not known.
///
/// # Panics
/// If the program is not valid.
pub fn check(program: &Program) -> Result<(), CausalityError> {
    let (input, output) = (program.input.shape, program.shape(program.output()));
    if input.pixels() != output.pixels() {
        return Err(CausalityError::Positions {
            input: input.pixels(),
            output: output.pixels(),
        });
    }
    bounded(program)?;
    let latest = latest_of_output(program);
    let channels = output.channels as usize;
    let mut rows = latest.chunks_exact(channels).enumerate();
    let late = rows.find_map(|(pixel, row)| {
        let latest = greatest(row) as usize;
        (latest > pixel + 1).then(|| (pixel, latest - 1))
    });
    late.map_or(Ok(()), |(output, input)| {
        Err(CausalityError::Future { output, input })
    })
}

/// Steps that the analysis of a valid program takes, from its shapes alone.
#[must_use]
pub fn steps(program: &Program) -> u64 {
    let elements = |shape: Shape| shape.elements() as u64;
    let of = |node: &crate::Node| {
        let inputs = node.op.inputs();
        let read: u64 = inputs.iter().map(|&id| elements(program.shape(id))).sum();
        elements(node.shape) + read + node.op.operator().positions_read(node.shape)
    };
    let nodes = program.nodes.iter().map(of);
    nodes.fold(elements(program.input.shape), u64::saturating_add)
}

/// Checks that the analysis of a valid program takes neither too long nor too much memory, from its shapes alone.
///
/// # Errors
/// [`CausalityError::TooLarge`] and [`CausalityError::TooWide`].
pub fn bounded(program: &Program) -> Result<(), CausalityError> {
    let steps = steps(program);
    // Stops: a program that takes whoever looks at it minutes.
    if steps > STEPS_MAX {
        return Err(CausalityError::TooLarge { steps });
    }
    let held = held(program);
    // Stops: one for which a machine runs out of memory.
    if held > HELD_MAX {
        return Err(CausalityError::TooWide { held });
    }
    Ok(())
}

/// Most elements of tensors that the analysis of a valid program holds at once, from its shapes alone. What an operator holds
/// beside them while it is looked at is no larger than its input.
#[must_use]
pub fn held(program: &Program) -> u64 {
    let elements = |tensor: TensorId| program.shape(tensor).elements() as u64;
    let mut readers = readers(program);
    let mut now = elements(TensorId::INPUT);
    let mut most = now;
    for (index, node) in program.nodes.iter().enumerate() {
        now += elements(TensorId::of_node(index));
        most = most.max(now);
        for input in node.op.inputs() {
            readers[input.index()] -= 1;
            if readers[input.index()] == 0 {
                now -= elements(input);
            }
        }
    }
    most
}

/// How many times each tensor is read.
fn readers(program: &Program) -> Vec<usize> {
    let mut readers = vec![0_usize; program.nodes.len() + 1];
    for node in &program.nodes {
        let inputs = node.op.inputs();
        inputs.iter().for_each(|input| readers[input.index()] += 1);
    }
    readers
}

/// Per element of the output, in storage order: 0 if it is a constant, or the latest input pixel that it may depend on, plus
/// one.
///
/// # Panics
/// If the program is not valid.
#[must_use]
pub fn latest_of_output(program: &Program) -> Vec<u32> {
    let mut latest = of_output(program);
    latest
        .iter_mut()
        .for_each(|latest| *latest = later(*latest, 0));
    latest
}

/// What each element of the output depends on.
fn of_output(program: &Program) -> Latest {
    follow(program, &mut |_, _| {})
}

/// Follows the latest input pixels through a valid program, and gives those of the last tensor. `adjust` sees each tensor's
/// elements in storage order as they are found, the input's first, and may replace what is found: the latest input pixel that
/// the element may depend on plus one, 0 for a constant, or [`ZERO`]. What it writes is what later nodes are told; [`NEVER`]
/// is passed on by all that reads it.
///
/// Cost: [`steps`], and what `adjust` takes.
///
/// # Panics
/// If the program is not valid.
pub fn follow(program: &Program, adjust: &mut dyn FnMut(TensorId, &mut [u32])) -> Vec<u32> {
    let mut readers = readers(program);
    let input = program.input.shape;
    let channels = input.channels as usize;
    let place = |element: usize| u32::try_from(element / channels + 1).expect("a small shape");
    let mut tensors = vec![(0..input.elements()).map(place).collect::<Latest>()];
    adjust(TensorId::INPUT, &mut tensors[0]);
    for (index, node) in program.nodes.iter().enumerate() {
        let reads = Reads {
            tensors: program,
            latest: &tensors,
        };
        let mut found = node.op.operator().latest(&reads, node.shape);
        debug_assert_eq!(found.len(), node.shape.elements(), "node {index}");
        adjust(TensorId::of_node(index), &mut found);
        tensors.push(found);
        for input in node.op.inputs() {
            readers[input.index()] -= 1;
            if readers[input.index()] == 0 {
                tensors[input.index()] = Latest::new();
            }
        }
    }
    tensors.pop().expect("the input is there")
}
