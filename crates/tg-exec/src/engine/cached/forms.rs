//! What is computed of each tensor at a step of a sequence: nothing, the step's slice, or all of it again.
//!
//! [`StepPlan::of`] follows the latest inputs through the program ([`tg_ir::causality`]) and proposes for each node a slice for each
//! step. An element that depends on later steps than its own is never known, and so is what reads it, so that the analysis of
//! the output says whether slices are enough: the scores that a causal mask hides are such elements, and nothing reads them.
//! Where they are not enough, nodes with such elements are computed whole at each step, and in the end those with elements that are known
//! before their step, too; then nothing is known later than it could be, which is right for every causal program.

use super::layout::StepLayout;
use tg_ir::causality::{self, NEVER, ZERO};
use tg_ir::op;
use tg_ir::{Axis, Op, Program, Shape, TensorId};

/// What is computed of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepForm {
    /// It is computed once.
    Constant,
    /// The slice of each step, once.
    Sliced(StepLayout),
    /// All of it at each step; the layout, if there is one, of which each step's slice is known after the step.
    Whole(Option<StepLayout>),
}

/// What a node reads of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepReading {
    /// The slice of the step.
    Slice(StepLayout),
    /// All of it.
    Whole,
    /// The step's slice and so many before it, filled up with a value.
    Window {
        layout: StepLayout,
        before: usize,
        fill: i16,
    },
}

/// How a node is computed.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub form: StepForm,
    /// For each of the operator's inputs.
    pub reads: Vec<StepReading>,
}

/// How a program is computed step by step.
#[derive(Debug)]
pub(super) struct StepPlan {
    /// Steps of a sequence.
    pub steps: usize,
    pub input: StepForm,
    pub nodes: Vec<Planned>,
}

impl StepPlan {
    /// For a program with one output whose rows are known after so many inputs each, or nothing.
    pub(super) fn of(program: &Program) -> Option<Self> {
        let steps = program.input.shape.pixels();
        let output = program.shape(program.output());
        let is_bounded = causality::bounded(program).is_ok();
        if program.outputs().len() > 1 || output.pixels() != steps || !is_bounded {
            return None;
        }
        [Slicing::Most, Slicing::Known, Slicing::Exact]
            .into_iter()
            .find_map(|slicing| StepPlanner::plan(program, slicing))
    }

    /// How a tensor is computed.
    pub(super) fn form(&self, tensor: TensorId) -> StepForm {
        let node = tensor.index().checked_sub(1);
        node.map_or(self.input, |node| self.nodes[node].form)
    }
}

/// Which tensors are computed in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slicing {
    /// All that can be, whether or not some elements of a slice are never known.
    Most,
    /// Those whose elements are all known after their step, some of them earlier.
    Known,
    /// Those whose elements are all known after their step and not earlier: nothing is known later than it could be.
    Exact,
}

struct StepPlanner<'a> {
    program: &'a Program,
    steps: usize,
    slicing: Slicing,
    forms: Vec<StepForm>,
    nodes: Vec<Planned>,
    /// Whether the rows of the output are known in time.
    in_time: bool,
}

impl<'a> StepPlanner<'a> {
    fn plan(program: &'a Program, slicing: Slicing) -> Option<StepPlan> {
        let steps = program.input.shape.pixels();
        let mut planner = Self {
            program,
            steps,
            slicing,
            forms: Vec::new(),
            nodes: Vec::new(),
            in_time: false,
        };
        causality::follow(program, &mut |tensor, latest| {
            planner.adjust(tensor, latest)
        });
        let Self {
            forms,
            nodes,
            in_time,
            ..
        } = planner;
        (in_time && matches!(forms[0], StepForm::Sliced(_))).then(|| StepPlan {
            steps,
            input: forms[0],
            nodes,
        })
    }

    /// Plans a tensor, and says from which step on its elements are known.
    fn adjust(&mut self, tensor: TensorId, latest: &mut [u32]) {
        let planned = self.planned(tensor, latest);
        if let StepForm::Sliced(layout) = planned.form {
            for (element, latest) in latest.iter_mut().enumerate() {
                let known = u32::try_from(layout.step(element, self.steps) + 1).expect("few steps");
                *latest = match *latest {
                    ZERO => ZERO,
                    latest if latest <= known => known,
                    _ => NEVER,
                };
            }
        }
        if tensor == self.program.output() {
            let channels = self.program.shape(tensor).channels as usize;
            let mut elements = latest.iter().enumerate();
            self.in_time = elements
                .all(|(element, &latest)| is_known(latest, element / channels + 1))
                && self.rows_follow(planned.form, channels);
        }
        self.forms.push(planned.form);
        if tensor != TensorId::INPUT {
            self.nodes.push(planned);
        }
    }

    /// Whether the slices of the output are its rows.
    fn rows_follow(&self, form: StepForm, channels: usize) -> bool {
        match form {
            StepForm::Sliced(layout) => {
                layout
                    == StepLayout {
                        outer: 1,
                        inner: channels,
                    }
            }
            StepForm::Whole(_) | StepForm::Constant => true,
        }
    }

    fn planned(&self, tensor: TensorId, latest: &[u32]) -> Planned {
        let shape = self.program.shape(tensor);
        let Some(node) = tensor.index().checked_sub(1) else {
            let inner = shape.channels as usize;
            let form = StepForm::Sliced(StepLayout { outer: 1, inner });
            let reads = Vec::new();
            let sliceable = StepLayout { outer: 1, inner }
                .axis(shape, self.steps)
                .is_some();
            let form = if sliceable {
                form
            } else {
                StepForm::Whole(None)
            };
            return Planned { form, reads };
        };
        let op = &self.program.nodes[node].op;
        let inputs = op.inputs();
        if inputs.iter().all(|&id| self.form(id) == StepForm::Constant) {
            let reads = vec![StepReading::Whole; inputs.len()];
            return Planned {
                form: StepForm::Constant,
                reads,
            };
        }
        let proposed = self.proposed(op, shape);
        if let Some((layout, reads)) = proposed
            && self.is_possible(&inputs, &reads, (shape, layout))
            && (self.slicing == Slicing::Most || self.is_known(latest, layout))
        {
            let form = StepForm::Sliced(layout);
            return Planned { form, reads };
        }
        let mut layouts = StepLayout::of_axes(shape, self.steps);
        let layout = layouts.find(|&layout| self.is_known(latest, layout));
        Planned {
            form: StepForm::Whole(layout),
            reads: vec![StepReading::Whole; inputs.len()],
        }
    }

    /// Whether each element is known after the step that has it, and not before if that is asked for.
    fn is_known(&self, latest: &[u32], layout: StepLayout) -> bool {
        let mut elements = latest.iter().enumerate();
        elements.all(|(element, &latest)| {
            let inputs = layout.step(element, self.steps) + 1;
            let early = latest != ZERO && (latest as usize) < inputs;
            is_known(latest, inputs) && !(early && self.slicing == Slicing::Exact)
        })
    }

    /// Whether slices have shapes, and a tensor is not read in two ways.
    fn is_possible(
        &self,
        inputs: &[TensorId],
        reads: &[StepReading],
        (shape, layout): (Shape, StepLayout),
    ) -> bool {
        let apart = |(input, reading): (&TensorId, &StepReading)| {
            let pairs = inputs.iter().zip(reads);
            pairs
                .filter(|(other, _)| *other == input)
                .any(|(_, other)| other != reading)
        };
        let shaped = |(&input, reading): (&TensorId, &StepReading)| match reading {
            StepReading::Slice(layout) | StepReading::Window { layout, .. } => {
                let own = self.form(input);
                let differs = matches!(own, StepForm::Sliced(own) if own != *layout);
                let axis = layout.axis(self.program.shape(input), self.steps);
                !differs && axis.is_some()
            }
            StepReading::Whole => true,
        };
        layout.axis(shape, self.steps).is_some()
            && !inputs.iter().zip(reads).any(apart)
            && inputs.iter().zip(reads).all(shaped)
    }

    fn form(&self, tensor: TensorId) -> StepForm {
        self.forms[tensor.index()]
    }

    /// The layout of the first input that has slices.
    fn layout_of(&self, inputs: &[TensorId]) -> Option<StepLayout> {
        inputs.iter().find_map(|&input| match self.form(input) {
            StepForm::Sliced(layout) | StepForm::Whole(Some(layout)) => Some(layout),
            StepForm::Constant | StepForm::Whole(None) => None,
        })
    }

    /// The layout of a node's output and what it reads, if slices may do.
    fn proposed(&self, op: &Op, shape: Shape) -> Option<(StepLayout, Vec<StepReading>)> {
        let inputs = op.inputs();
        match op {
            Op::Add(_) | Op::Mul(_) | Op::Extremum(_) | Op::Compare(_) | Op::Select(_) => {
                let layout = self.layout_of(&inputs)?;
                Some((layout, vec![StepReading::Slice(layout); inputs.len()]))
            }
            Op::Requantise(op::Unary { input, how }) => {
                let layout = self.layout_of(&inputs)?;
                let (axis, _) = layout.axis(self.program.shape(*input), self.steps)?;
                let fits = how.channel_pairs.len() == 1 || axis != Axis::Channels;
                fits.then(|| (layout, vec![StepReading::Slice(layout)]))
            }
            Op::Norm(_) | Op::TopK(_) | Op::ArgMax(_) | Op::Embed(_) | Op::Softmax(_) => {
                self.by_row(op, inputs[0], shape)
            }
            Op::Conv(op::Conv {
                input,
                window,
                zero,
                ..
            }) => self.windows(*input, (window, *zero), shape),
            Op::MaxPool(op::MaxPool { input, window })
            | Op::WindowSum(op::WindowSum { input, window }) => {
                let (layout, reads) = self.windows(*input, (window, 0), shape)?;
                matches!(reads[0], StepReading::Slice(_)).then_some((layout, reads))
            }
            Op::MatMul(product) => self.product(product, shape),
            Op::View(_) | Op::Gather(_) => self.moved(op, inputs[0], shape),
            Op::Concat(op::Concat { axis, .. }) => self.beside(&inputs, &[*axis], shape),
            Op::Reduce(op::Reduce { axis, .. }) | Op::RunningSum(op::RunningSum { axis, .. }) => {
                self.beside(&inputs, &[*axis], shape)
            }
            Op::Pad(op::Pad { before, after, .. }) => {
                let all = [Axis::Rows, Axis::Columns, Axis::Channels];
                let padded = |&axis: &Axis| before[axis as usize] + after[axis as usize] > 0;
                let axes: Vec<Axis> = all.into_iter().filter(padded).collect();
                self.beside(&inputs, &axes, shape)
            }
            Op::Dense(_) | Op::Parameter(_) | Op::Trees(_) => None,
        }
    }

    /// Each pixel of the output of the same pixel of the input.
    fn by_row(
        &self,
        op: &Op,
        input: TensorId,
        shape: Shape,
    ) -> Option<(StepLayout, Vec<StepReading>)> {
        let read = self.layout_of(&[input])?;
        let (axis, repeat) = read.axis(self.program.shape(input), self.steps)?;
        let masked = matches!(op, Op::Softmax(op::Unary { how, .. }) if how.causal.is_some());
        let apart = masked && axis == Axis::Columns && shape.width as usize != self.steps;
        if axis == Axis::Channels || apart {
            return None;
        }
        let layout = StepLayout::along(shape, axis, repeat, self.steps)?;
        Some((layout, vec![StepReading::Slice(read)]))
    }

    /// Windows that reach back from each step.
    fn windows(
        &self,
        input: TensorId,
        (window, fill): (&tg_ir::Window, i16),
        shape: Shape,
    ) -> Option<(StepLayout, Vec<StepReading>)> {
        let read = self.layout_of(&[input])?;
        let (axis, repeat) = read.axis(self.program.shape(input), self.steps)?;
        let side = match axis {
            Axis::Rows => 0,
            Axis::Columns => 1,
            Axis::Channels => return None,
        };
        let before = window.reach()[side] - 1;
        let back = window.stride[side] == 1
            && window.spread[side] == 1
            && window.pads[side] == before
            && window.pads[side + 2] == 0;
        if !back || before > 0 && repeat != 1 {
            return None;
        }
        let layout = StepLayout::along(shape, axis, repeat, self.steps)?;
        let reading = match before {
            0 => StepReading::Slice(read),
            before => StepReading::Window {
                layout: read,
                before: before as usize,
                fill,
            },
        };
        Some((layout, vec![reading]))
    }

    /// Rows of the left factor, with all of the right one.
    fn product(
        &self,
        product: &op::MatMul,
        shape: Shape,
    ) -> Option<(StepLayout, Vec<StepReading>)> {
        let [left, right] = product.inputs;
        let of_left = self.program.shape(left);
        let read = match self.form(left) {
            StepForm::Constant => StepLayout::along(of_left, Axis::Columns, 1, self.steps)?,
            _ => self.layout_of(&[left])?,
        };
        let (axis, repeat) = read.axis(of_left, self.steps)?;
        let one = self.form(right) == StepForm::Constant && self.program.shape(right).height == 1;
        let fits = axis == Axis::Columns || axis == Axis::Rows && one;
        let layout = fits.then(|| StepLayout::along(shape, axis, repeat, self.steps))??;
        Some((layout, vec![StepReading::Slice(read), StepReading::Whole]))
    }

    /// Elements moved within their step.
    fn moved(
        &self,
        op: &Op,
        input: TensorId,
        shape: Shape,
    ) -> Option<(StepLayout, Vec<StepReading>)> {
        let read = self.layout_of(&[input])?;
        let sources = sources(op, self.program.shape(input), shape)?;
        let step = |&source: &u32| read.step(source as usize, self.steps);
        if sources.first().map(step) != Some(0) {
            return None;
        }
        let inner = sources
            .iter()
            .take_while(|source| step(source) == 0)
            .count();
        if inner == 0 || !sources.len().is_multiple_of(inner * self.steps) {
            return None;
        }
        let outer = sources.len() / (inner * self.steps);
        let layout = StepLayout { outer, inner };
        // Every step moves as the first does.
        let apart = |(element, &source): (usize, &u32)| {
            let step = layout.step(element, self.steps);
            let first = element - step * inner;
            source as usize == sources[first] as usize + step * read.inner
        };
        let within = sources.iter().enumerate().all(apart);
        let starts = (0..outer).all(|part| {
            let first = part * inner * self.steps;
            sources[first..first + inner]
                .iter()
                .all(|source| step(source) == 0)
        });
        (within && starts).then(|| (layout, vec![StepReading::Slice(read)]))
    }

    /// What goes along axes that do not have the steps.
    fn beside(
        &self,
        inputs: &[TensorId],
        axes: &[Axis],
        shape: Shape,
    ) -> Option<(StepLayout, Vec<StepReading>)> {
        let first = inputs
            .iter()
            .find(|&&input| self.layout_of(&[input]).is_some())?;
        let layout = self.layout_of(&[*first])?;
        let (axis, repeat) = layout.axis(self.program.shape(*first), self.steps)?;
        if axes.contains(&axis) {
            return None;
        }
        let reads = inputs.iter().map(|&input| {
            let layout = StepLayout::along(self.program.shape(input), axis, repeat, self.steps)?;
            let differs = matches!(self.form(input), StepForm::Sliced(own) if own != layout);
            (!differs).then_some(StepReading::Slice(layout))
        });
        let reads: Option<Vec<StepReading>> = reads.collect();
        Some((StepLayout::along(shape, axis, repeat, self.steps)?, reads?))
    }
}

/// Whether an element is known after so many inputs.
fn is_known(latest: u32, inputs: usize) -> bool {
    latest == ZERO || latest as usize <= inputs
}

/// Which input element each output element of a movement is.
pub(super) fn sources(op: &Op, input: Shape, output: Shape) -> Option<Vec<u32>> {
    match op {
        Op::View(op::Unary { how, .. }) => Some(how.sources()),
        Op::Gather(op::Gather { axis, indices, .. }) => {
            let element = |element: usize| {
                let channels = output.channels as usize;
                let pixel = element / channels;
                let mut at = [
                    pixel / output.width as usize,
                    pixel % output.width as usize,
                    element % channels,
                ];
                at[*axis as usize] = indices[at[*axis as usize]] as usize;
                let [row, column, channel] = at;
                let pixel = row * input.width as usize + column;
                u32::try_from(pixel * input.channels as usize + channel).expect("a small shape")
            };
            Some((0..output.elements()).map(element).collect())
        }
        _ => None,
    }
}
