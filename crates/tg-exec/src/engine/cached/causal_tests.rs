//! Random causal programs: attention, convolutions that reach back, running sums, shifts and whatever else leaves the future
//! out. What the execution step by step is compared on.

use crate::sample::Numbers;
use crate::sample::wide::Draft;
use tg_ir::op::{self, Extreme, Ranked};
use tg_ir::{
    Axis, Coding, CompiledModel, ElementType, InputSpec, IntTensor, Op, Shape, TensorId, View,
    Window, causality,
};

/// Tries per block: most proposals are valid and causal.
const TRIES: usize = 60;

/// A small random valid program of which each row of the output depends on the rows of the input up to its own, and an input.
///
/// # Panics
/// Never.
#[must_use]
pub(super) fn random_causal_program(seed: u64) -> (CompiledModel, IntTensor) {
    let mut numbers = Numbers::new(seed ^ 0x6361_7573_616c);
    let steps = numbers.side(2, 9);
    let tokens = numbers.between(0, 2) > 0;
    let channels = if tokens { 1 } else { 2 * numbers.side(1, 4) };
    let mut input = InputSpec::scaled(Shape::new(1, steps, channels), 1.0);
    if numbers.between(0, 5) == 0 {
        input.shape = Shape::new(steps, 1, channels);
    }
    input.coding = match (tokens, numbers.between(0, 1)) {
        (true, _) => Coding::Tokens(numbers.side(2, 9)),
        (false, 0) => Coding::Scaled(ElementType::I16),
        (false, _) => Coding::Scaled(ElementType::I8),
    };
    let mut causal = Causal {
        draft: Draft::new(numbers, input),
        steps,
        stream: TensorId::INPUT,
    };
    if tokens {
        let op = Op::Embed(op::Embed {
            input: TensorId::INPUT,
            rows: causal.draft.numbers.side(2, 9),
        });
        let shape = causal.shape().with_axis(Axis::Channels, 4);
        causal.stream = causal.push(op, shape).expect("rows of a table");
    }
    let blocks = causal.draft.numbers.between(1, 6);
    for _ in 0..blocks {
        causal.block();
    }
    causal.draft.finish()
}

struct Causal {
    draft: Draft,
    steps: u32,
    /// The last tensor that has a row for each step.
    stream: TensorId,
}

impl Causal {
    fn shape(&self) -> Shape {
        self.draft.shape(self.stream)
    }

    fn draw(&mut self, low: u32, high: u32) -> u32 {
        self.draft.numbers.side(low, high)
    }

    fn push(&mut self, op: Op, shape: Shape) -> Option<TensorId> {
        let pushed = self.draft.try_push(op, shape);
        pushed.then(|| self.draft.program.output())
    }

    /// Activations of a tensor.
    fn activations(&mut self, tensor: TensorId) -> Option<TensorId> {
        if self.draft.program.element_type(tensor) != ElementType::I32 {
            return Some(tensor);
        }
        let (op, shape) = self.draft.requantise_of(tensor);
        self.push(op, shape)
    }

    /// Appends something after which the program is causal; if nothing is found, a sum.
    fn block(&mut self) {
        let nodes = self.draft.program.nodes.len();
        for _ in 0..TRIES {
            let appended = self.propose().and_then(|tensor| self.activations(tensor));
            let program = &self.draft.program;
            if let Some(tensor) = appended
                && tensor == program.output()
                && causality::check(program).is_ok()
            {
                self.stream = tensor;
                return;
            }
            self.draft.truncate(nodes);
        }
        let sum = Op::add([self.stream; 2], [1, 1]);
        let shape = self.shape();
        let sum = self.push(sum, shape).expect("a sum of activations");
        self.stream = self.activations(sum).expect("a requantisation");
    }

    fn propose(&mut self) -> Option<TensorId> {
        let (input, shape) = (self.stream, self.shape());
        match self.draw(0, 11) {
            0 | 1 => self.convolution(),
            2..=4 => self.attention(),
            5 => {
                let axis = [Axis::Rows, Axis::Columns][usize::from(shape.height == 1)];
                self.push(Op::RunningSum(op::RunningSum { input, axis }), shape)
            }
            6 => self.shifted(),
            7 => {
                let constant = self.push(Op::Parameter(op::Parameter), shape)?;
                let which = Extreme::Greater;
                let inputs = [input, constant];
                let op = match self.draw(0, 2) {
                    0 => Op::Mul(op::Mul { inputs }),
                    1 => Op::Extremum(op::Extremum { inputs, which }),
                    _ => Op::Concat(op::Concat {
                        inputs: inputs.to_vec(),
                        axis: Axis::Channels,
                    }),
                };
                let doubled = matches!(op, Op::Concat(_));
                let channels = shape.channels * (1 + u32::from(doubled));
                self.push(op, shape.with_axis(Axis::Channels, channels))
            }
            8 => {
                let k = self.draw(1, shape.channels);
                let give = [Ranked::Values, Ranked::Channels][self.draw(0, 1) as usize];
                let shape = shape.with_axis(Axis::Channels, k);
                self.push(Op::TopK(op::TopK { input, give }), shape)
            }
            _ => {
                let (op, shape) = self.draft.propose();
                self.push(op, shape)
            }
        }
    }

    /// A convolution along the steps, that reaches back.
    fn convolution(&mut self) -> Option<TensorId> {
        let shape = self.shape();
        let (kernel, dilation) = (self.draw(1, 3), self.draw(1, 2));
        let before = (kernel - 1) * dilation;
        let (kernel, pads, dilation) = if shape.height == 1 {
            ([1, kernel], [0, before, 0, 0], [1, dilation])
        } else {
            ([kernel, 1], [before, 0, 0, 0], [dilation, 1])
        };
        let window = Window {
            dilation,
            ..Window::new(kernel, [1, 1], pads)
        };
        let op = Op::Conv(op::Conv {
            input: self.stream,
            window,
            groups: [1, shape.channels][self.draw(0, 1) as usize],
            zero: i16::from(self.draft.numbers.activation()),
        });
        let channels = shape.channels * self.draw(1, 2);
        self.push(op, shape.with_axis(Axis::Channels, channels.min(16)))
    }

    /// Each step the one before, the first a constant.
    fn shifted(&mut self) -> Option<TensorId> {
        let shape = self.shape();
        let axis = [Axis::Rows, Axis::Columns][usize::from(shape.height == 1)];
        let by = self.draw(1, 2).min(self.steps);
        let mut before = [0; 3];
        before[axis as usize] = by;
        let pad = Op::Pad(op::Pad {
            input: self.stream,
            before,
            after: [0; 3],
            value: i16::from(self.draft.numbers.activation()),
        });
        let input = self.push(pad, shape.with_axis(axis, self.steps + by))?;
        let indices = (0..self.steps).collect();
        let gather = op::Gather {
            input,
            axis,
            indices,
        };
        self.push(Op::Gather(gather), shape)
    }

    /// Causal attention with one or two heads of queries, which may share one of keys and values.
    fn attention(&mut self) -> Option<TensorId> {
        let (input, shape) = (self.stream, self.shape());
        let (steps, channels) = (self.steps, shape.channels);
        if shape.height != 1 || channels % 2 == 1 {
            return None;
        }
        let heads = self.draw(1, 2);
        let shared = self.draw(0, 1) == 0;
        let each = channels / heads;
        let transposed = self.draw(0, 1) == 0;
        let keys = if shared { 1 } else { heads };
        // Of shared ones the first channels.
        let view = |heads: u32| {
            let (all, each) = (channels.cast_signed(), each.cast_signed());
            View::new(0, &[(heads, each), (steps, all), (each.cast_unsigned(), 1)])
        };
        let across = |heads: u32| {
            let (all, each) = (channels.cast_signed(), each.cast_signed());
            View::new(0, &[(heads, each), (each.cast_unsigned(), 1), (steps, all)])
        };
        let mut moved = |how, shape| self.push(Op::View(op::Unary { input, how }), shape);
        let queries = moved(view(heads), Shape::new(heads, steps, each))?;
        let keyed = if transposed {
            moved(view(keys), Shape::new(keys, steps, each))?
        } else {
            moved(across(keys), Shape::new(keys, each, steps))?
        };
        let values = moved(view(keys), Shape::new(keys, steps, each))?;
        let scores = Op::MatMul(op::MatMul {
            inputs: [queries, keyed],
            transposed,
        });
        let scores = self.push(scores, Shape::new(heads, steps, steps))?;
        let Op::Softmax(mut softmax) = self.draft.softmax(scores) else {
            unreachable!("it proposes a softmax");
        };
        softmax.how.causal = Some(0);
        let weights = self.push(Op::Softmax(softmax), Shape::new(heads, steps, steps))?;
        let mixed = Op::MatMul(op::MatMul {
            inputs: [weights, values],
            transposed: false,
        });
        let mixed = self.push(mixed, Shape::new(heads, steps, each))?;
        let input = self.activations(mixed)?;
        let how = View::transpose(&[heads, steps, each], &[1, 0, 2]);
        self.push(Op::View(op::Unary { input, how }), shape)
    }
}
