//! Execution of a causal program step by step: what is final is kept.
//!
//! An element whose latest input is the t-th is final once t inputs are known ([`tg_ir::causality`]). [`CachedEngine`] computes
//! of each tensor the slice of the step alone, and keeps those that later steps read again: the keys and values of attention,
//! the last rows before a causal convolution. Nothing is known of attention here; rotary places, grouped queries and
//! convolutions gain as it does, and a node that no rule fits is computed whole at each step. The output's rows are bit for bit
//! those of an execution over the whole window.
//!
//! - [`layout`]: where steps lie in a tensor, and slices of them.
//! - [`forms`]: what is computed of each tensor.
//! - [`pass`]: the steps for so many rows at a time.

mod forms;
mod layout;
mod pass;

use super::context::Context;
use super::input::{ExecuteError, check_elements};
use super::prepare::Slots;
use super::step::Kernel;
use super::values::{Reads, Values, part};
use crate::kernels::{Cpu, Scratch};
use forms::{StepForm, StepPlan, StepReading};
use pass::{Kept, Pass, PassDraft};
use tg_ir::{CompiledModel, ExecutableModel, IntTensor, TensorId};

/// Rows that are computed together where so many are given.
const ROWS: usize = 64;

/// A causal model made ready to run step by step.
///
/// Memory: weights are packed once for single rows, and once more for `ROWS` at a time when so many are first given.
#[derive(Debug)]
pub struct CachedEngine {
    model: ExecutableModel,
    plan: StepPlan,
    cpu: Cpu,
    scratch: Scratch,
    kept: Kept,
    slots: Slots,
    single: Pass,
    several: Option<Pass>,
    /// Rows that are computed together where so many are given.
    rows: usize,
}

impl CachedEngine {
    /// Prepares a model, or gives nothing if the rows of its output are not known to be final after as many inputs, its
    /// input's pixels are not along one axis, it has several outputs, or finding out would take more than [`tg_ir::causality::bounded`] allows.
    ///
    /// Cost: that of [`tg_ir::causality::check`], up to three times, and that of packing the weights.
    ///
    /// # Panics
    /// Never, for a valid model.
    #[must_use]
    pub fn new(model: &ExecutableModel, cpu: Cpu) -> Option<Self> {
        Self::with_rows(model, cpu, ROWS)
    }

    /// The same with so many rows computed together, at least one.
    fn with_rows(model: &ExecutableModel, cpu: Cpu, rows: usize) -> Option<Self> {
        let plan = StepPlan::of(&model.program)?;
        let mut slots = Slots::default();
        let kept = kept(model, &plan, &cpu, &mut slots);
        let mut draft = PassDraft {
            plan: &plan,
            model,
            cpu: &cpu,
            kept: &kept,
            slots: &mut slots,
        };
        let single = draft.pass(1);
        Some(Self {
            model: model.clone(),
            plan,
            cpu,
            scratch: Scratch::new(),
            kept,
            slots,
            single,
            several: None,
            rows,
        })
    }

    /// Steps of a whole sequence.
    #[must_use]
    pub const fn window(&self) -> usize {
        self.plan.steps
    }

    /// Nodes that are computed whole at each step.
    #[must_use]
    pub fn whole_nodes(&self) -> usize {
        let nodes = self.plan.nodes.iter();
        nodes
            .filter(|node| matches!(node.form, StepForm::Whole(_)))
            .count()
    }

    /// Takes the inputs from step `first` on, where all before are as they were last given, and hands `each` the output's row
    /// of every one of them with its step.
    ///
    /// # Errors
    /// If the inputs are not ones that the model takes.
    ///
    /// # Panics
    /// If there are more of them than the window holds.
    pub fn extend(
        &mut self,
        first: usize,
        inputs: Values<'_>,
        each: &mut dyn FnMut(usize, Values<'_>),
    ) -> Result<(), ExecuteError> {
        let channels = self.model.program.input.shape.channels as usize;
        let count = inputs.len() / channels;
        assert!(first + count <= self.plan.steps, "within the window");
        check_elements(&self.model.program, inputs)?;
        let mut done = 0;
        while done < count {
            let left = count - done;
            // A few rows more than are given cost less than each by itself.
            let together = left > self.rows / 8 && first + done + self.rows <= self.plan.steps;
            let rows = if together { self.rows.min(left) } else { 1 };
            self.pass(first + done, inputs, (done, rows), each);
            done += rows;
        }
        Ok(())
    }

    fn pass(
        &mut self,
        first: usize,
        inputs: Values<'_>,
        (done, rows): (usize, usize),
        each: &mut dyn FnMut(usize, Values<'_>),
    ) {
        if rows > 1 && self.several.is_none() {
            let mut draft = PassDraft {
                plan: &self.plan,
                model: &self.model,
                cpu: &self.cpu,
                kept: &self.kept,
                slots: &mut self.slots,
            };
            self.several = Some(draft.pass(self.rows));
        }
        let pass = match &mut self.several {
            Some(several) if rows > 1 => several,
            _ => &mut self.single,
        };
        let program = &self.model.program;
        let channels = program.input.shape.channels as usize;
        let slots = &mut self.slots.memory;
        let place = pass.input();
        let mut elements = vec![0; place.elements];
        for (index, element) in elements[..rows * channels].iter_mut().enumerate() {
            *element = inputs.at(done * channels + index);
        }
        let rows_given = IntTensor::of(program.input.element_type(), &elements);
        place.write(slots).copy_from(Values::from(&rows_given));
        pass.run((&self.cpu, &mut self.scratch, slots), first);
        let width = program.shape(program.output()).channels as usize;
        let output = pass.output.read(slots);
        let start = match self.plan.form(program.output()) {
            StepForm::Sliced(_) => 0,
            _ => first,
        };
        for row in 0..rows {
            each(first + row, output.part((start + row) * width, width));
        }
    }
}

/// Places of what is kept between steps, with the constants computed.
fn kept(model: &CompiledModel, plan: &StepPlan, cpu: &Cpu, slots: &mut Slots) -> Kept {
    let program = &model.program;
    let fused = pass::fused(program, plan);
    let mut again = vec![false; program.nodes.len() + 1];
    for (node, planned) in plan.nodes.iter().enumerate() {
        for (input, reading) in program.nodes[node]
            .op
            .inputs()
            .into_iter()
            .zip(&planned.reads)
        {
            let sliced = matches!(plan.form(input), StepForm::Sliced(_));
            again[input.index()] |= !(sliced && matches!(reading, StepReading::Slice(_)));
        }
    }
    again[program.output().index()] |= !matches!(plan.form(program.output()), StepForm::Sliced(_));
    let mut kept: Kept = vec![None; program.nodes.len() + 1];
    for (index, place) in kept.iter_mut().enumerate() {
        let id = TensorId(u32::try_from(index).expect("few tensors"));
        let is_fused = index.checked_sub(1).is_some_and(|node| fused[node]);
        let whole = !matches!(plan.form(id), StepForm::Sliced(_)) && !is_fused;
        if again[index] && !is_fused || whole {
            *place = Some(slots.take(program.element_type(id), program.shape(id).elements()));
        }
    }
    let mut scratch = Scratch::new();
    for (node, planned) in plan.nodes.iter().enumerate() {
        if planned.form != StepForm::Constant {
            continue;
        }
        let place = kept[node + 1].expect("constants are kept");
        let mut output = std::mem::replace(&mut slots.memory[place.slot], empty());
        let mut context = Context {
            cpu,
            scratch: &mut scratch,
            reads: Reads {
                slots: &slots.memory,
                places: &kept,
            },
        };
        Kernel::new(model, cpu, node, None).run(&mut context, part(&mut output, place.elements));
        slots.memory[place.slot] = output;
    }
    kept
}

fn empty() -> IntTensor {
    IntTensor::I8(Vec::new())
}

#[cfg(test)]
mod causal_tests;
#[cfg(test)]
mod tests;
