//! A program as steps: what is fused, and where tensors lie.

use super::step::{Kernel, Step};
use super::values::Place;
use crate::kernels::Cpu;
use tg_ir::IntTensor;
use tg_ir::op;
use tg_ir::{CompiledModel, ElementType, Op, Program, TensorId};

/// What an engine keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The outputs.
    Output,
    /// Every tensor.
    Trace,
}

pub(super) struct Prepared {
    pub steps: Vec<Step>,
    pub slots: Vec<IntTensor>,
    pub places: Vec<Option<Place>>,
}

pub(super) fn prepare(model: &CompiledModel, cpu: &Cpu, mode: Mode) -> Prepared {
    let program = &model.program;
    let fused = match mode {
        Mode::Output => fused(program),
        Mode::Trace => vec![false; program.nodes.len()],
    };
    let last_use = last_uses(program, &fused, mode);
    let mut slots = Slots::default();
    let mut places: Vec<Option<Place>> = vec![None; program.nodes.len() + 1];
    places[0] = Some(slots.take(program.input.element_type(), program.input.shape.elements()));
    let mut steps = Vec::new();
    for node in 0..program.nodes.len() {
        if fused[node] {
            continue;
        }
        let id = TensorId::of_node(node);
        let elements = program.shape(id).elements();
        let output = slots.take(program.element_type(id), elements);
        places[id.index()] = Some(output);
        steps.push(Step {
            kernel: kernel_of(model, cpu, node, &fused),
            output,
        });
        for (tensor, place) in places.iter().enumerate() {
            if let Some(place) = place
                && last_use[tensor] == Some(node)
            {
                slots.free(*place);
            }
        }
    }
    Prepared {
        steps,
        slots: slots.memory,
        places,
    }
}

/// The kernel of a node, with the node before it if that is fused with it.
fn kernel_of(model: &CompiledModel, cpu: &Cpu, node: usize, fused: &[bool]) -> Kernel {
    let before = computed_by(&model.program, node, fused);
    match &model.program.nodes[node].op {
        Op::Requantise(op::Unary { how, .. }) if before != node => {
            Kernel::new(model, cpu, before, Some(how))
        }
        _ => Kernel::new(model, cpu, node, None),
    }
}

/// The node whose kernel gives a node's output: the one before it if that is fused with it.
pub(super) fn computed_by(program: &Program, node: usize, fused: &[bool]) -> usize {
    match &program.nodes[node].op {
        Op::Requantise(op::Unary { input, .. }) => {
            let before = input.index().checked_sub(1);
            before.filter(|&before| fused[before]).unwrap_or(node)
        }
        _ => node,
    }
}

/// Which nodes are computed together with the requantisation that alone reads them.
pub(super) fn fused(program: &Program) -> Vec<bool> {
    let mut readers = vec![0usize; program.nodes.len() + 1];
    for node in &program.nodes {
        for input in node.op.inputs() {
            readers[input.index()] += 1;
        }
    }
    let outputs = program.outputs().into_iter();
    outputs.for_each(|id| readers[id.index()] += 1);
    let mut fused = vec![false; program.nodes.len()];
    for node in &program.nodes {
        if let Op::Requantise(op::Unary { input, .. }) = &node.op
            && let Some(before) = input.index().checked_sub(1)
            && readers[input.index()] == 1
        {
            fused[before] = matches!(
                program.nodes[before].op,
                Op::Conv(_)
                    | Op::Dense(_)
                    | Op::MatMul(_)
                    | Op::WindowSum(_)
                    | Op::Add(_)
                    | Op::Mul(_)
            );
        }
    }
    fused
}

/// The last node that reads each tensor; none for those that are kept.
pub(super) fn last_uses(program: &Program, fused: &[bool], mode: Mode) -> Vec<Option<usize>> {
    let mut last = vec![None; program.nodes.len() + 1];
    if mode == Mode::Trace {
        return last;
    }
    // What a fused node reads is read when its requantisation runs.
    let mut runs_at: Vec<usize> = (0..program.nodes.len()).collect();
    for (node, description) in program.nodes.iter().enumerate() {
        if let Op::Requantise(op::Unary { input, .. }) = &description.op
            && let Some(before) = input.index().checked_sub(1)
            && fused[before]
        {
            runs_at[before] = node;
        }
    }
    for (node, description) in program.nodes.iter().enumerate() {
        // A tensor nobody reads is free once it is written.
        let own = &mut last[node + 1];
        *own = (*own).max(Some(runs_at[node]));
        for input in description.op.inputs() {
            let slot = &mut last[input.index()];
            *slot = (*slot).max(Some(runs_at[node]));
        }
    }
    let outputs = program.outputs().into_iter();
    outputs.for_each(|id| last[id.index()] = None);
    last
}

/// Memory that tensors of one type take turns in.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub memory: Vec<IntTensor>,
    free: Vec<usize>,
}

impl Slots {
    /// The free slot of the type that has to grow least, or a new one.
    pub(super) fn take(&mut self, kind: ElementType, elements: usize) -> Place {
        let fits = |&(_, &slot): &(usize, &usize)| self.memory[slot].element_type() == kind;
        let found = self
            .free
            .iter()
            .enumerate()
            .filter(fits)
            .min_by_key(|&(_, &slot)| self.memory[slot].len().abs_diff(elements));
        let slot = match found {
            Some((index, &slot)) => {
                self.free.swap_remove(index);
                slot
            }
            None => {
                self.memory.push(IntTensor::of(kind, &[]));
                self.memory.len() - 1
            }
        };
        match &mut self.memory[slot] {
            IntTensor::I8(values) => values.resize(values.len().max(elements), 0),
            IntTensor::I16(values) => values.resize(values.len().max(elements), 0),
            IntTensor::I32(values) => values.resize(values.len().max(elements), 0),
        }
        Place { slot, elements }
    }

    pub(super) fn free(&mut self, place: Place) {
        self.free.push(place.slot);
    }
}
