//! The steps of a plan made ready for so many rows at a time.

use super::forms::{StepForm, StepPlan, StepReading, sources};
use super::layout::{StepLayout, Stretch, fetch, store};
use crate::engine::context::Context;
use crate::engine::prepare::{self, Slots};
use crate::engine::step::Kernel;
use crate::engine::values::{Place, Reads, part};
use crate::kernels::{Cpu, Scratch};
use tg_ir::op;
use tg_ir::{CompiledModel, IntTensor, Op, Program, Shape, TensorId, View};

/// A slice copied from a whole tensor before a step reads it.
#[derive(Debug)]
struct SliceFetch {
    tensor: TensorId,
    from: Place,
    to: Place,
    layout: StepLayout,
    before: usize,
    fill: i16,
}

/// One computation.
#[derive(Debug)]
struct CachedStep {
    fetches: Vec<SliceFetch>,
    /// What is read elsewhere than where the pass has it.
    elsewhere: Vec<(TensorId, Place)>,
    kernel: Kernel,
    output: Place,
    /// Where the output's slice is kept.
    kept: Option<(StepLayout, Place)>,
}

/// All steps for so many rows.
#[derive(Debug)]
pub(super) struct Pass {
    pub rows: usize,
    steps: usize,
    input: Place,
    input_kept: Option<(StepLayout, Place)>,
    computed: Vec<CachedStep>,
    /// Where the slice of each tensor lies.
    places: Vec<Option<Place>>,
    /// The output's rows, or all of it.
    pub output: Place,
}

/// Where tensors lie that are kept between steps: constants, tensors computed whole, and slices that are read again.
pub(super) type Kept = Vec<Option<Place>>;

/// What a pass is made of.
pub(super) struct PassDraft<'a> {
    pub plan: &'a StepPlan,
    pub model: &'a CompiledModel,
    pub cpu: &'a Cpu,
    pub kept: &'a Kept,
    pub slots: &'a mut Slots,
}

/// Which nodes are computed together with the requantisation after them: as an engine does, where both are computed alike.
pub(super) fn fused(program: &Program, plan: &StepPlan) -> Vec<bool> {
    let mut fused = prepare::fused(program);
    for (node, description) in program.nodes.iter().enumerate() {
        if let Op::Requantise(op::Unary { input, .. }) = &description.op
            && let Some(before) = input.index().checked_sub(1)
            && plan.nodes[before].form != plan.nodes[node].form
        {
            fused[before] = false;
        }
        if plan.nodes[node].form == StepForm::Constant {
            fused[node] = false;
        }
    }
    fused
}

impl PassDraft<'_> {
    /// The pass for so many rows.
    pub(super) fn pass(&mut self, rows: usize) -> Pass {
        let program = &self.model.program;
        let plan = self.plan;
        let fused = fused(program, plan);
        let last_use = prepare::last_uses(program, &fused, prepare::Mode::Output);
        let mut sliced = self.sliced(rows);
        let mut places: Vec<Option<Place>> = vec![None; program.nodes.len() + 1];
        let input = self.place(TensorId::INPUT, rows, &mut places);
        let mut computed = Vec::new();
        for node in 0..program.nodes.len() {
            if fused[node] || plan.nodes[node].form == StepForm::Constant {
                continue;
            }
            let id = TensorId::of_node(node);
            let output = self.place(id, rows, &mut places);
            let step = self.step(&mut sliced, (node, &fused), (rows, output));
            for fetch in &step.fetches {
                self.slots.free(fetch.to);
            }
            computed.push(step);
            for (tensor, place) in places.iter().enumerate() {
                let form = plan.form(TensorId(u32::try_from(tensor).expect("few tensors")));
                if let (Some(place), StepForm::Sliced(_)) = (place, form)
                    && last_use[tensor] == Some(node)
                {
                    self.slots.free(*place);
                }
            }
        }
        let output = program.output();
        let output = match plan.form(output) {
            StepForm::Sliced(_) => places[output.index()].expect("it was computed"),
            _ => self.kept[output.index()].expect("it is kept"),
        };
        Pass {
            rows,
            steps: plan.steps,
            input,
            input_kept: self.kept_slice(TensorId::INPUT),
            computed,
            places,
            output,
        }
    }

    /// Where a tensor is written.
    fn place(&mut self, id: TensorId, rows: usize, places: &mut [Option<Place>]) -> Place {
        let place = match self.plan.form(id) {
            StepForm::Sliced(layout) => {
                let kind = self.model.program.element_type(id);
                self.slots.take(kind, layout.elements(rows))
            }
            _ => self.kept[id.index()].expect("a tensor computed whole is kept"),
        };
        places[id.index()] = Some(place);
        place
    }

    fn kept_slice(&self, id: TensorId) -> Option<(StepLayout, Place)> {
        match self.plan.form(id) {
            StepForm::Sliced(layout) => self.kept[id.index()].map(|place| (layout, place)),
            _ => None,
        }
    }

    /// The model with the shapes of slices.
    fn sliced(&self, rows: usize) -> CompiledModel {
        let mut sliced = self.model.clone();
        for index in 0..=sliced.program.nodes.len() {
            let id = TensorId(u32::try_from(index).expect("few tensors"));
            if let StepForm::Sliced(layout) = self.plan.form(id) {
                let whole = self.model.program.shape(id);
                let shape = layout.shape(whole, self.plan.steps, rows);
                set_shape(&mut sliced.program, id, shape.expect("planned as a slice"));
            }
        }
        sliced
    }

    fn step(
        &mut self,
        sliced: &mut CompiledModel,
        (node, fused): (usize, &[bool]),
        (rows, output): (usize, Place),
    ) -> CachedStep {
        let read_by = prepare::computed_by(&self.model.program, node, fused);
        let planned = &self.plan.nodes[read_by];
        let program = &self.model.program;
        let inputs = program.nodes[read_by].op.inputs();
        let (mut fetches, mut elsewhere) = (Vec::new(), Vec::new());
        let mut shapes = Vec::new();
        for (&tensor, &reading) in inputs.iter().zip(&planned.reads) {
            let whole = program.shape(tensor);
            shapes.push((tensor, sliced.program.shape(tensor)));
            let (layout, before, fill) = match reading {
                StepReading::Slice(layout) => (layout, 0, 0),
                StepReading::Window {
                    layout,
                    before,
                    fill,
                } => (layout, before, fill),
                StepReading::Whole => {
                    set_shape(&mut sliced.program, tensor, whole);
                    let place = self.kept[tensor.index()].expect("read whole");
                    if elsewhere.iter().all(|(known, _)| *known != tensor) {
                        elsewhere.push((tensor, place));
                    }
                    continue;
                }
            };
            let shape = layout.shape(whole, self.plan.steps, before + rows);
            set_shape(
                &mut sliced.program,
                tensor,
                shape.expect("planned as a slice"),
            );
            let is_there = before == 0 && matches!(self.plan.form(tensor), StepForm::Sliced(_));
            if is_there
                || fetches
                    .iter()
                    .any(|fetch: &SliceFetch| fetch.tensor == tensor)
            {
                continue;
            }
            let to = self
                .slots
                .take(program.element_type(tensor), layout.elements(before + rows));
            elsewhere.push((tensor, to));
            fetches.push(SliceFetch {
                tensor,
                from: self.kept[tensor.index()].expect("read again"),
                to,
                layout,
                before,
                fill,
            });
        }
        let kernel = self.kernel(sliced, (node, read_by), rows);
        for (tensor, shape) in shapes.into_iter().rev() {
            set_shape(&mut sliced.program, tensor, shape);
        }
        CachedStep {
            fetches,
            elsewhere,
            kernel,
            output,
            kept: self.kept_slice(TensorId::of_node(node)),
        }
    }

    /// The kernel of a node whose inputs have the shapes that it reads.
    fn kernel(
        &self,
        sliced: &mut CompiledModel,
        (node, read_by): (usize, usize),
        rows: usize,
    ) -> Kernel {
        let whole = self.model.program.nodes[read_by].op.clone();
        let planned = &self.plan.nodes[read_by];
        if let StepForm::Sliced(layout) = planned.form {
            let op = self.sliced_op(&whole, &planned.reads, (read_by, layout), rows);
            if let (Op::Gather(gather), Op::View(_) | Op::Gather(_)) = (&op, &whole) {
                // It picks among all elements of the slice, wherever they lie.
                let elements = sliced.program.shape(gather.input).elements();
                let elements = u32::try_from(elements).expect("a small shape");
                set_shape(&mut sliced.program, gather.input, Shape::vector(elements));
            }
            sliced.program.nodes[read_by].op = op;
        }
        let how = match &self.model.program.nodes[node].op {
            Op::Requantise(op::Unary { how, .. }) if node != read_by => Some(how),
            _ => None,
        };
        let mut kernel = Kernel::new(sliced, self.cpu, read_by, how);
        let read = match (&whole, planned.form, planned.reads.first()) {
            (Op::MatMul(op::MatMul { inputs, .. }), StepForm::Sliced(_), _) => {
                match self.plan.form(inputs[1]) {
                    StepForm::Sliced(layout) => Some((inputs[1], layout)),
                    _ => None,
                }
            }
            (Op::Softmax(softmax), StepForm::Sliced(_), Some(&StepReading::Slice(layout))) => {
                Some((softmax.input, layout))
            }
            _ => None,
        };
        if let Some((read, layout)) = read {
            let shape = self.model.program.shape(read);
            kernel.reads_steps(layout.axis(shape, self.plan.steps));
        }
        sliced.program.nodes[read_by].op = whole;
        kernel
    }

    /// A node's operator on slices.
    fn sliced_op(
        &self,
        op: &Op,
        reads: &[StepReading],
        (node, layout): (usize, StepLayout),
        rows: usize,
    ) -> Op {
        let program = &self.model.program;
        match (op, reads) {
            (Op::View(op::Unary { input, .. }) | Op::Gather(op::Gather { input, .. }), _) => {
                let [from, to] = [*input, TensorId::of_node(node)].map(|id| program.shape(id));
                let StepReading::Slice(read) = reads[0] else {
                    unreachable!("what is moved is read in slices")
                };
                let sources = sources(op, from, to).expect("a movement");
                let sources = of_slice(&sources, [layout, read], self.plan.steps, rows);
                match View::of_sources(&sources) {
                    Some(how) => Op::View(op::Unary { input: *input, how }),
                    None => Op::Gather(op::Gather {
                        input: *input,
                        axis: tg_ir::Axis::Channels,
                        indices: sources,
                    }),
                }
            }
            (Op::Conv(conv), [StepReading::Window { layout, .. }]) => {
                let shape = program.shape(conv.input);
                let axis = layout.axis(shape, self.plan.steps).expect("planned").0;
                let mut conv = conv.clone();
                conv.window.pads[axis as usize] = 0;
                Op::Conv(conv)
            }
            _ => op.clone(),
        }
    }
}

/// Which element of an input's slice each element of the output's slice is.
fn of_slice(sources: &[u32], [to, from]: [StepLayout; 2], steps: usize, rows: usize) -> Vec<u32> {
    let element = |element: usize| {
        let (outer, row, inner) = (
            element / (to.inner * rows),
            element / to.inner % rows,
            element % to.inner,
        );
        let source = sources[(outer * steps + row) * to.inner + inner] as usize;
        let (outer, inner) = (source / (from.inner * steps), source % from.inner);
        u32::try_from((outer * rows + row) * from.inner + inner).expect("a small shape")
    };
    (0..to.elements(rows)).map(element).collect()
}

fn set_shape(program: &mut Program, tensor: TensorId, shape: Shape) {
    match tensor.index().checked_sub(1) {
        Some(node) => program.nodes[node].shape = shape,
        None => program.input.shape = shape,
    }
}

impl Pass {
    /// Where the rows of the input are written.
    pub(super) const fn input(&self) -> Place {
        self.input
    }

    /// Computes all tensors for the rows from `first` on, whose input was written.
    pub(super) fn run(
        &mut self,
        (cpu, scratch, slots): (&Cpu, &mut Scratch, &mut [IntTensor]),
        first: usize,
    ) {
        let stretch = Stretch {
            steps: self.steps,
            first,
            rows: self.rows,
        };
        keep(self.input_kept, stretch, self.input, slots);
        for step in &mut self.computed {
            for fetched in &step.fetches {
                let &SliceFetch {
                    from,
                    to,
                    layout,
                    before,
                    fill,
                    ..
                } = fetched;
                with_output(slots, to, |slots, out| {
                    let whole = from.read(slots);
                    fetch(
                        layout,
                        stretch,
                        (before, fill),
                        whole,
                        part(out, to.elements),
                    );
                });
            }
            swap(&mut step.elsewhere, &mut self.places);
            step.kernel.at(first, first + self.rows);
            let (kernel, place, places) = (&mut step.kernel, step.output, &self.places);
            with_output(slots, place, |slots, out| {
                let reads = Reads { slots, places };
                let mut context = Context {
                    cpu,
                    scratch,
                    reads,
                };
                kernel.run(&mut context, part(out, place.elements));
            });
            swap(&mut step.elsewhere, &mut self.places);
            keep(step.kept, stretch, step.output, slots);
        }
    }
}

/// Puts a slice where it is read again.
fn keep(
    kept: Option<(StepLayout, Place)>,
    stretch: Stretch,
    slice: Place,
    slots: &mut [IntTensor],
) {
    if let Some((layout, whole)) = kept {
        with_output(slots, whole, |slots, out| {
            let out = part(out, whole.elements);
            store(layout, stretch, slice.read(slots), out);
        });
    }
}

/// Exchanges where tensors are read; done twice, nothing is changed.
fn swap(elsewhere: &mut [(TensorId, Place)], places: &mut [Option<Place>]) {
    for (tensor, place) in elsewhere {
        let other = places[tensor.index()].replace(*place);
        // A tensor that has no slice is read elsewhere alone.
        *place = other.unwrap_or(*place);
    }
}

/// Runs something that writes one slot and reads the others.
fn with_output(
    slots: &mut [IntTensor],
    place: Place,
    run: impl FnOnce(&[IntTensor], &mut IntTensor),
) {
    let empty = IntTensor::I8(Vec::new());
    let mut output = std::mem::replace(&mut slots[place.slot], empty);
    run(slots, &mut output);
    slots[place.slot] = output;
}
