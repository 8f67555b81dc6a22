//! Random programs of linear and product operators: honest proofs verify.

use super::models::Draft;
use crate::{ModelError, ProveRequest, ProvingModel, prove};
use std::collections::BTreeSet;
use tg_exec::IntTensor;
use tg_ir::op::{self, Reduction};
use tg_ir::{Axis, Coding, CompiledModel, ElementType, Op, Shape, TensorId, View, Window};
use tg_proof::{ExpectedStatement, verify};
use tg_types::{Address, JobId};

const NAMES: (JobId, Address) = (JobId::new([3; 32]), Address::new([4; 20]));
const AXES: [Axis; 3] = [Axis::Rows, Axis::Columns, Axis::Channels];

/// A chain of random operators; second inputs are parameters or the chain itself.
struct Chain {
    draft: Draft,
    last: TensorId,
}

impl Chain {
    fn new(seed: u64) -> Self {
        let mut draft = Draft::new(seed, Shape::new(1, 1, 1));
        let mut side = |most: i64| u32::try_from(draft.numbers.between(1, most)).unwrap();
        let shape = Shape::new(side(5), side(5), side(6));
        let coding = match side(3) {
            1 => Coding::Scaled(ElementType::I16),
            2 => Coding::Tokens(11),
            _ => Coding::Scaled(ElementType::I8),
        };
        let shape = match coding {
            Coding::Tokens(_) => Shape::new(shape.height, shape.width, 1),
            _ => shape,
        };
        let mut chain = Self {
            draft: Draft::new(seed ^ 0x55, shape).coded(coding.clone()),
            last: TensorId::INPUT,
        };
        match coding {
            Coding::Tokens(_) => {
                let channels = chain.side(6);
                let op = Op::Embed(op::Embed {
                    input: TensorId::INPUT,
                    rows: 9,
                });
                let shape = Shape {
                    channels,
                    ..chain.shape()
                };
                chain.push(op, shape);
            }
            Coding::Scaled(ElementType::I16) => chain.narrow(),
            _ => {}
        }
        chain
    }

    fn side(&mut self, most: u32) -> u32 {
        u32::try_from(self.draft.numbers.between(1, i64::from(most))).unwrap()
    }

    fn below(&mut self, count: u32) -> u32 {
        self.side(count) - 1
    }

    fn shape(&self) -> Shape {
        self.draft.shape(self.last)
    }

    fn push(&mut self, op: Op, shape: Shape) {
        self.last = self.draft.push(op, shape);
    }

    fn narrow(&mut self) {
        let bits = [8, 8, 10][self.below(3) as usize];
        self.last = self.draft.narrowed(self.last, bits);
    }

    /// A parameter, or the chain itself.
    fn partner(&mut self) -> TensorId {
        if self.below(2) == 0 {
            self.last
        } else {
            let shape = self.shape();
            self.draft.push(Op::Parameter(op::Parameter), shape)
        }
    }

    #[expect(clippy::too_many_lines, reason = "one case per operator")]
    fn step(&mut self) {
        let (input, shape) = (self.last, self.shape());
        match self.below(12) {
            0 => self.convolution(),
            1 => {
                let outputs = self.side(7);
                self.push(Op::Dense(op::Dense { input }), Shape::vector(outputs));
            }
            2 | 3 => self.matrices(),
            4 => {
                let other = self.partner();
                self.push(
                    Op::Mul(op::Mul {
                        inputs: [input, other],
                    }),
                    shape,
                );
            }
            5 => {
                let inputs: Vec<TensorId> = (0..self.side(4)).map(|_| self.partner()).collect();
                let inputs = [vec![input], inputs].concat();
                let factor = |_| [3, -500, 32_767, -1][self.below(4) as usize];
                let multipliers = inputs.iter().map(factor).collect();
                let bias = i32::try_from(self.below(2_000)).unwrap() - 1_000;
                let op = Op::Add(op::Add {
                    inputs,
                    multipliers,
                    bias,
                });
                self.push(op, shape);
            }
            6 | 7 => self.view(),
            8 => {
                let axis = AXES[self.below(3) as usize];
                let (length, count) = (shape.axis(axis), self.side(6));
                let indices = (0..count).map(|_| self.below(length)).collect();
                let op = Op::Gather(op::Gather {
                    input,
                    axis,
                    indices,
                });
                self.push(op, shape.with_axis(axis, count));
            }
            9 => {
                let axis = AXES[self.below(3) as usize];
                let mut inputs = vec![input];
                if self.draft.element_type(input) == ElementType::I8 {
                    let length = self.side(3);
                    inputs.push(
                        self.draft
                            .push(Op::Parameter(op::Parameter), shape.with_axis(axis, length)),
                    );
                }
                inputs.push(input);
                let of = |id: &TensorId| self.draft.shape(*id).axis(axis);
                let length = inputs.iter().map(of).sum();
                self.push(
                    Op::Concat(op::Concat { inputs, axis }),
                    shape.with_axis(axis, length),
                );
            }
            10 => {
                let (before, after) = (
                    [0; 3].map(|_: u32| self.below(3)),
                    [0; 3].map(|_: u32| self.below(3)),
                );
                let shape = Shape::new(
                    shape.height + before[0] + after[0],
                    shape.width + before[1] + after[1],
                    shape.channels + before[2] + after[2],
                );
                let value = i16::try_from(self.below(9)).unwrap() - 4;
                let op = Op::Pad(op::Pad {
                    input,
                    before,
                    after,
                    value,
                });
                self.push(op, shape);
            }
            _ => {
                let axis = AXES[self.below(3) as usize];
                let op = Op::Reduce(op::Reduce {
                    input,
                    reduction: Reduction::Sum,
                    axis,
                });
                self.push(op, shape.with_axis(axis, 1));
            }
        }
        if self.draft.element_type(self.last) == ElementType::I32 {
            self.narrow();
        }
    }

    fn convolution(&mut self) {
        let (input, shape) = (self.last, self.shape());
        let divides = |groups: &u32| shape.channels.is_multiple_of(*groups);
        let choices: Vec<u32> = (1..=shape.channels).filter(divides).collect();
        let groups = choices[self.below(choices.len() as u32) as usize];
        let mut window = Window::new([1; 2], [self.side(2), self.side(2)], [0; 4]);
        for (axis, size) in [shape.height, shape.width].into_iter().enumerate() {
            window.spread[axis] = self.side(2);
            let room = (size - 1) * window.spread[axis] + 1;
            window.kernel[axis] = self.side(room.min(3));
            let gaps = window.kernel[axis] - 1;
            window.dilation[axis] = (1..=2).rev().find(|d| gaps * d < room).unwrap();
            window.pads[axis] = self.below(window.reach()[axis].min(3));
            window.pads[axis + 2] = self.below(window.reach()[axis].min(3));
        }
        if self.below(4) == 0 {
            window = Window::new([1; 2], [1; 2], [0; 4]);
        }
        let [height, width] = window.output(shape).unwrap();
        let outputs = groups * self.side(3);
        let zero = if self.draft.element_type(input) == ElementType::I8 {
            i16::try_from(self.below(200)).unwrap() - 100
        } else {
            0
        };
        let op = Op::Conv(op::Conv {
            input,
            window,
            groups,
            zero,
        });
        self.push(op, Shape::new(height, width, outputs));
    }

    fn matrices(&mut self) {
        let (left, shape) = (self.last, self.shape());
        let transposed = self.below(2) == 0;
        if transposed && self.below(3) == 0 {
            // Each matrix times its own transpose.
            let shape = Shape::new(shape.height, shape.width, shape.width);
            let inputs = [left, left];
            return self.push(Op::MatMul(op::MatMul { inputs, transposed }), shape);
        }
        let divides = |repeats: &u32| shape.height.is_multiple_of(*repeats);
        let choices: Vec<u32> = (1..=shape.height).filter(divides).collect();
        let repeats = choices[self.below(choices.len() as u32) as usize];
        let columns = self.side(5);
        let right = if transposed {
            Shape::new(shape.height / repeats, columns, shape.channels)
        } else {
            Shape::new(shape.height / repeats, shape.channels, columns)
        };
        let right = self.draft.push(Op::Parameter(op::Parameter), right);
        let inputs = [left, right];
        let shape = Shape::new(shape.height, shape.width, columns);
        self.push(Op::MatMul(op::MatMul { inputs, transposed }), shape);
    }

    fn view(&mut self) {
        let (input, shape) = (self.last, self.shape());
        let sizes = [shape.height, shape.width, shape.channels];
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        let order = orders[self.below(6) as usize];
        let mut view = View::transpose(&sizes, &order);
        let mut offset = 0i64;
        for axis in &mut view.axes {
            match self.below(4) {
                0 => {
                    // Flipped.
                    offset += i64::from(axis.size - 1) * i64::from(axis.stride);
                    axis.stride = -axis.stride;
                }
                1 => axis.stride = 0,
                2 => {
                    // A slice.
                    let first = self.below(axis.size);
                    offset += i64::from(first) * i64::from(axis.stride);
                    axis.size = self.side(axis.size - first);
                }
                _ => {}
            }
        }
        view.offset = u32::try_from(offset).unwrap();
        let [height, width, channels] = [0, 1, 2].map(|axis: usize| view.axes[axis].size);
        let shape = if self.below(2) == 0 {
            Shape::new(height, width, channels)
        } else {
            Shape::new(1, height, width * channels)
        };
        self.push(Op::View(op::Unary { input, how: view }), shape);
    }
}

/// A random program that has weights and a requantisation.
pub(super) fn random_program(seed: u64) -> (CompiledModel, IntTensor) {
    let mut chain = Chain::new(seed);
    for _ in 0..chain.side(6) {
        chain.step();
    }
    let outputs = chain.side(5);
    let input = chain.last;
    chain.push(Op::Dense(op::Dense { input }), Shape::vector(outputs));
    chain.narrow();
    chain.draft.finish_tensor()
}

#[test]
fn random_linear_programs_prove_and_verify() {
    let mut seen = BTreeSet::new();
    let (mut proved, mut rejected) = (0, Vec::new());
    for seed in 0..160u64 {
        let (compiled, input) = random_program(seed);
        let ops: Vec<_> = compiled.program.nodes.iter().map(|n| n.op.name()).collect();
        let model = match ProvingModel::new(compiled) {
            Ok(model) => model,
            Err(ModelError::Plan(error)) => {
                rejected.push(error.to_string());
                continue;
            }
            Err(error) => {
                // A sum that could leave the field.
                rejected.push(error.to_string());
                continue;
            }
        };
        let public = model.register().unwrap();
        let count = 1 + (seed % 3) as usize * usize::from(seed % 5 == 0);
        let inputs = vec![input; count];
        let (file, _) = prove(
            &model,
            ProveRequest::of(inputs).named(NAMES.0, NAMES.1),
            &mut |_| {},
        )
        .unwrap();
        assert_eq!(
            verify(&public, &file, &ExpectedStatement::default()),
            Ok(()),
            "seed {seed}: {ops:?}"
        );
        seen.extend(ops);
        proved += 1;
    }
    assert!(proved >= 100, "{proved}: {rejected:?}");
    let all = [
        "Add",
        "Concat",
        "Conv",
        "Dense",
        "Embed",
        "Gather",
        "MatMul",
        "Mul",
        "Pad",
        "Parameter",
        "Reduce",
        "Requantise",
        "View",
    ];
    assert!(all.iter().all(|op| seen.contains(op)), "{seen:?}");
}
