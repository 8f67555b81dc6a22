//! Execution of one program many times: prepared once, then run without allocating.
//!
//! [`Engine::new`] packs weights, fuses each product, sum or weighted sum with the requantisation that alone reads
//! it, and gives every tensor a place that later tensors use again. [`Engine::run`] gives the output;
//! [`Engine::trace`] of an engine made by [`Engine::for_trace`] gives every tensor. Both are bit for bit what
//! [`tg_ir::scalar`] defines, at every [`Cpu`] level and for every number of threads.
//!
//! - [`values`]: tensors as the steps see them.
//! - `prepare`: a program as steps, and which of them are fused.
//! - `cached`: a causal program step by step.
//! - `step`: what one step computes, with a file for each family of operators as in `tg_ir::op`: `conv`, `dense` and
//!   `matmul` (on `linear`), `pool`, `arithmetic`, `requantise` and `comparison` (on `element`), `reduction`,
//!   `ranking`, `softmax`, `norm`, `movement`, `table`, `trees`.

mod arithmetic;
mod cached;
mod comparison;
mod context;
mod conv;
mod dense;
mod element;
pub(crate) mod input;
mod linear;
mod matmul;
mod movement;
mod norm;
mod pool;
mod prepare;
mod ranking;
mod reduction;
mod requantise;
mod softmax;
mod step;
mod table;
mod trees;
pub mod values;

use crate::kernels::{Cpu, Scratch};
use crate::trace::Trace;
pub use cached::CachedEngine;
use context::Context;
use input::{ExecuteError, check_input};
use prepare::Mode;
use step::Step;
use tg_ir::IntTensor;
use tg_ir::{CompiledModel, ExecutableModel, Program, TensorId};
use values::{Place, Reads, Values};

/// A model made ready to run.
#[derive(Debug)]
pub struct Engine {
    program: Program,
    cpu: Cpu,
    scratch: Scratch,
    steps: Vec<Step>,
    /// Memory, one tensor at a time each.
    slots: Vec<IntTensor>,
    /// Where each tensor of the program lies; none for those that are never written.
    places: Vec<Option<Place>>,
    mode: Mode,
}

impl Engine {
    /// Prepares a model for [`Self::run`].
    #[must_use]
    pub fn new(model: &ExecutableModel, cpu: Cpu) -> Self {
        Self::prepare(model, cpu, Mode::Output)
    }

    /// Prepares a model for [`Self::trace`]: nothing is fused and every tensor is kept.
    #[must_use]
    pub fn for_trace(model: &ExecutableModel, cpu: Cpu) -> Self {
        Self::prepare(model, cpu, Mode::Trace)
    }

    fn prepare(model: &CompiledModel, cpu: Cpu, mode: Mode) -> Self {
        let prepare::Prepared {
            steps,
            slots,
            places,
        } = prepare::prepare(model, &cpu, mode);
        Self {
            program: model.program.clone(),
            cpu,
            scratch: Scratch::new(),
            steps,
            slots,
            places,
            mode,
        }
    }

    /// The processor in use.
    #[must_use]
    pub const fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Steps of one run; fewer than the program's nodes where nodes are fused.
    #[must_use]
    pub const fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Bytes of memory for tensors.
    #[must_use]
    pub fn tensor_bytes(&self) -> usize {
        let bytes = |slot: &IntTensor| slot.len() * slot.element_type().bytes();
        self.slots.iter().map(bytes).sum()
    }

    /// The first output for one input, in storage order. Valid until the next run, as are the others ([`Self::outputs`]).
    ///
    /// # Errors
    /// If the input is not one that the model takes: its length, type or a value.
    ///
    /// # Panics
    /// Never, for a valid model.
    pub fn run(&mut self, input: Values<'_>) -> Result<Values<'_>, ExecuteError> {
        self.execute(input)?;
        let place = self.places[self.program.output().index()].expect("an output has a place");
        Ok(place.read(&self.slots))
    }

    /// All outputs of the last run, in order and in storage order.
    ///
    /// # Panics
    /// Never, for a valid model.
    pub fn outputs(&self) -> impl Iterator<Item = Values<'_>> {
        let outputs = self.program.outputs().into_iter();
        outputs.map(|id| {
            let place = self.places[id.index()].expect("an output has a place");
            place.read(&self.slots)
        })
    }

    /// Every tensor for one input.
    ///
    /// # Errors
    /// As [`Self::run`].
    ///
    /// # Panics
    /// If the engine was not made by [`Self::for_trace`].
    pub fn trace(&mut self, input: Values<'_>) -> Result<Trace, ExecuteError> {
        assert_eq!(self.mode, Mode::Trace, "an engine made for traces");
        self.execute(input)?;
        let tensors = (0..=self.program.nodes.len()).map(|index| {
            let place = self.places[index].expect("every tensor is kept");
            place.read(&self.slots).to_tensor()
        });
        Ok(Trace::new(&self.program, tensors.collect()))
    }

    /// Every tensor for one input, without copying any.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn into_trace(mut self, input: IntTensor) -> Result<Trace, ExecuteError> {
        assert_eq!(self.mode, Mode::Trace, "an engine made for traces");
        check_input(&self.program, Values::from(&input))?;
        // Nothing is freed for a trace, so every tensor has its own slot, in order.
        self.slots[0] = input;
        self.run_steps();
        Ok(Trace::new(&self.program, self.slots))
    }

    fn execute(&mut self, input: Values<'_>) -> Result<(), ExecuteError> {
        check_input(&self.program, input)?;
        if let Some(place) = self.places[TensorId::INPUT.index()] {
            place.write(&mut self.slots).copy_from(input);
        }
        self.run_steps();
        Ok(())
    }

    fn run_steps(&mut self) {
        for step in &mut self.steps {
            // The output leaves the slots while the step reads the others.
            let place = step.output;
            let empty = IntTensor::I8(Vec::new());
            let mut output = std::mem::replace(&mut self.slots[place.slot], empty);
            let mut context = Context {
                cpu: &self.cpu,
                scratch: &mut self.scratch,
                reads: Reads {
                    slots: &self.slots,
                    places: &self.places,
                },
            };
            step.run(&mut context, values::part(&mut output, place.elements));
            self.slots[place.slot] = output;
        }
    }
}

/// Computes one node from the tensors before it: for what puts a model together node by node, which is not checked yet.
///
/// # Panics
/// If the node or its weights are not well formed.
#[must_use]
pub fn run_node(model: &CompiledModel, cpu: &Cpu, node: usize, tensors: &[IntTensor]) -> IntTensor {
    let place = |slot: usize| {
        Some(Place {
            slot,
            elements: tensors[slot].len(),
        })
    };
    let places: Vec<Option<Place>> = (0..tensors.len()).map(place).collect();
    let id = TensorId::of_node(node);
    let elements = vec![0; model.program.shape(id).elements()];
    let mut output = IntTensor::of(model.program.element_type(id), &elements);
    let mut context = Context {
        cpu,
        scratch: &mut Scratch::new(),
        reads: Reads {
            slots: tensors,
            places: &places,
        },
    };
    let mut kernel = step::Kernel::new(model, cpu, node, None);
    kernel.run(&mut context, values::part(&mut output, elements.len()));
    output
}

#[cfg(test)]
mod tests;
