//! One operator on random tensors of random types: valid programs with attributes of all kinds.

use tg_exec::sample::Numbers;
use tg_ir::IntTensor;
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Relation, Softmax};
use tg_ir::{
    Axis, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise,
    Rescale, Shape, TensorId, View, Weights, Window,
};

/// Why conversions and constructors cannot fail here.
const DRAWN: &str = "what is drawn is within its limits";
const AXES: [Axis; 3] = [Axis::Rows, Axis::Columns, Axis::Channels];
const KINDS: [ElementType; 3] = [ElementType::I8, ElementType::I16, ElementType::I32];

/// One operator on random tensors: a valid program whose last node is the one under test.
pub(crate) struct Case {
    numbers: Numbers,
    nodes: Vec<Node>,
    layers: Vec<LinearWeights>,
    pub(crate) tensors: Vec<Option<IntTensor>>,
}

fn node(op: Op, shape: Shape) -> Node {
    Node {
        name: "node".to_owned(),
        op,
        shape,
        scale: 1.0,
    }
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            numbers: Numbers::new(seed),
            nodes: Vec::new(),
            layers: Vec::new(),
            tensors: vec![None],
        }
    }

    fn side(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.numbers.between(i64::from(low), i64::from(high))).expect(DRAWN)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        let last = u32::try_from(list.len()).expect(DRAWN) - 1;
        list[self.side(0, last) as usize]
    }

    fn flag(&mut self) -> bool {
        self.side(0, 1) == 1
    }

    /// Mostly small, sometimes at an end of the range.
    fn value(&mut self, low: i64, high: i64) -> i32 {
        let value = match self.side(0, 9) {
            0 => low,
            1 => high,
            2 => 0.clamp(low, high),
            _ => self.numbers.between(low, high),
        };
        i32::try_from(value).expect(DRAWN)
    }

    fn shape(&mut self, sides: [u32; 3]) -> Shape {
        let [height, width, channels] = sides.map(|side| self.side(1, side));
        Shape::new(height, width, channels)
    }

    /// A tensor of a type whose elements are at most `limit` in absolute value: nodes that could give it, and values.
    pub(crate) fn tensor(&mut self, kind: ElementType, shape: Shape, limit: i32) -> TensorId {
        let view = View::new(0, &[(u32::try_from(shape.elements()).expect(DRAWN), 0)]);
        let input = TensorId::INPUT;
        self.push(Op::View(op::Unary { input, how: view }), shape, None);
        let input = TensorId::of_node(self.nodes.len() - 1);
        let reach = i64::from(limit);
        let (low, high) = match kind {
            ElementType::I8 => (-reach.min(128), reach.min(127)),
            ElementType::I16 => {
                let end = i16::try_from(limit).expect(DRAWN);
                let mut how = Requantise::to_i8(
                    vec![Rescale::new(1, 2).expect(DRAWN)],
                    vec![0],
                    [-128, 127],
                    [0, 0],
                );
                how.clamp = [-end, end];
                how.output = ElementType::I16;
                self.push(Op::Requantise(op::Unary { input, how }), shape, None);
                (-reach, reach)
            }
            ElementType::I32 => {
                let op = Op::Add(op::Add {
                    inputs: vec![input],
                    multipliers: vec![1],
                    bias: (limit - 128).max(0),
                });
                self.push(op, shape, None);
                (-reach, reach)
            }
        };
        let values: Vec<i32> = (0..shape.elements())
            .map(|_| self.value(low, high))
            .collect();
        *self.tensors.last_mut().expect(DRAWN) = Some(IntTensor::of(kind, &values));
        TensorId::of_node(self.nodes.len() - 1)
    }

    /// A tensor of activations of any type and their limit.
    fn activations(&mut self, shape: Shape, limit: i32) -> TensorId {
        let kind = self.pick(&KINDS[..2]);
        let limit = if kind == ElementType::I8 { 128 } else { limit };
        self.tensor(kind, shape, limit)
    }

    /// A tensor of any type.
    fn any(&mut self, shape: Shape) -> TensorId {
        let kind = self.pick(&KINDS);
        self.of_kind(kind, shape)
    }

    fn of_kind(&mut self, kind: ElementType, shape: Shape) -> TensorId {
        let limit = [128, 32_767, 500_000_000][kind.bytes() / 2];
        self.tensor(kind, shape, limit)
    }

    pub(crate) fn push(&mut self, op: Op, shape: Shape, layer: Option<LinearWeights>) {
        self.nodes.push(node(op, shape));
        self.layers.extend(layer);
        self.tensors.push(None);
    }

    fn layer(&mut self, outputs: u32, reduction: usize) -> LinearWeights {
        let count = outputs as usize * reduction;
        let weights = (0..count).map(|_| i8::try_from(self.value(-127, 127)).expect(DRAWN));
        let weights = weights.collect();
        let bias = (0..outputs).map(|_| self.value(-8_290_687, 8_290_687));
        LinearWeights {
            weights,
            bias: bias.collect(),
        }
    }

    fn rows_of_weights(&mut self, count: usize) -> LinearWeights {
        let mut layer = self.layer(1, count);
        layer.bias.clear();
        layer
    }

    fn window(&mut self, spread: bool, wide: bool) -> Window {
        let kernel = [self.side(1, 3), self.side(1, 3)];
        let distance = if wide { 3 } else { 1 };
        let dilation = [self.side(1, distance), self.side(1, distance)];
        let spread = if spread {
            [self.side(1, 3), self.side(1, 3)]
        } else {
            [1; 2]
        };
        let mut window = Window::new(kernel, [self.side(1, 3), self.side(1, 3)], [0; 4]);
        window.dilation = dilation;
        window.spread = spread;
        let reach = window.reach();
        window.pads = [0, 1, 0, 1].map(|axis| self.side(0, reach[axis] - 1));
        window
    }

    fn rescale(&mut self, shift: [u32; 2]) -> Rescale {
        let multiplier = self.side(1, 32_767);
        Rescale::new(multiplier, self.side(shift[0], shift[1])).expect(DRAWN)
    }

    pub(crate) fn finish(self) -> (CompiledModel, Vec<Option<IntTensor>>) {
        let weights = Weights {
            layers: self.layers,
        };
        let program = Program {
            name: "case".to_owned(),
            input: InputSpec::scaled(Shape::vector(1), 1.0),
            nodes: self.nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        program.validate().expect(DRAWN);
        weights.check(&program).expect(DRAWN);
        (CompiledModel { program, weights }, self.tensors)
    }
}

/// A convolution: narrow or wide groups, all windows, i8 and i16, tiles cut at every side.
pub(crate) fn conv(case: &mut Case) {
    let wide = case.flag();
    let groups = case.pick(&[1, 1, 2, 3]);
    let channels = groups
        * if wide {
            case.pick(&[16, 32, 48])
        } else {
            case.side(1, 7)
        };
    let outputs = groups
        * if groups == 1 {
            case.side(1, 140)
        } else {
            case.side(1, 20)
        };
    let (is_point, pixels) = (case.flag(), case.side(4, 13));
    let shape = Shape::new(case.side(4, 9), pixels, channels);
    let window = if is_point {
        Window::new([1, 1], [1, 1], [0; 4])
    } else {
        case.window(true, true)
    };
    let Some([height, width]) = window.output(shape) else {
        return conv(case);
    };
    if height * width > 200 {
        return conv(case);
    }
    let input = case.activations(shape, 9_000);
    let reduction = window.positions() * (channels / groups) as usize;
    let layer = case.layer(outputs, reduction);
    let zero = i16::try_from(case.value(-128, 127)).expect(DRAWN);
    let op = Op::Conv(op::Conv {
        input,
        window,
        groups,
        zero,
    });
    case.push(op, Shape::new(height, width, outputs), Some(layer));
}

pub(crate) fn dense(case: &mut Case) {
    let shape = case.shape([3, 4, 90]);
    let input = case.activations(shape, 9_000);
    let outputs = case.side(1, 40);
    let layer = case.layer(outputs, shape.elements());
    case.push(
        Op::Dense(op::Dense { input }),
        Shape::vector(outputs),
        Some(layer),
    );
}

/// Every combination of i8 and i16, both orders of the right side, repeated matrices.
pub(crate) fn matmul(case: &mut Case) {
    let (groups, repeat) = (case.side(1, 2), case.side(1, 2));
    let depth = if case.flag() {
        16 * case.side(1, 9)
    } else {
        case.side(1, 140)
    };
    let (rows, columns) = (case.side(1, 140), case.side(1, 90));
    let transposed = case.flag();
    let left = case.activations(Shape::new(groups * repeat, rows, depth), 2_000);
    let right = if transposed {
        Shape::new(groups, columns, depth)
    } else {
        Shape::new(groups, depth, columns)
    };
    let right = case.activations(right, 2_000);
    let op = Op::MatMul(op::MatMul {
        inputs: [left, right],
        transposed,
    });
    case.push(op, Shape::new(groups * repeat, rows, columns), None);
}

/// Convolutions and matrices of few results and many terms for each: a device divides the terms among its blocks.
pub(crate) fn long_product(case: &mut Case) {
    let (rows, columns) = (case.side(1, 80), case.side(1, 80));
    let depth = if case.flag() {
        16 * case.side(16, 64)
    } else {
        case.side(256, 1_024)
    };
    let shape = Shape::new(1, rows, depth);
    let input = case.activations(shape, 1_000);
    if case.flag() {
        let window = Window::new([1, case.side(1, rows.min(3))], [1, 1], [0; 4]);
        let layer = case.layer(columns, window.positions() * depth as usize);
        let [height, width] = window.output(shape).expect(DRAWN);
        let op = Op::Conv(op::Conv {
            input,
            window,
            groups: 1,
            zero: 0,
        });
        case.push(op, Shape::new(height, width, columns), Some(layer));
        return;
    }
    let transposed = case.flag();
    let right = if transposed {
        Shape::new(1, columns, depth)
    } else {
        Shape::new(1, depth, columns)
    };
    let right = case.activations(right, 1_000);
    let inputs = [input, right];
    let op = Op::MatMul(op::MatMul { inputs, transposed });
    case.push(op, Shape::new(1, rows, columns), None);
}

pub(crate) fn embed(case: &mut Case) {
    let shape = case.shape([6, 6, 1]);
    let rows = case.side(1, 100);
    let channels = case.side(1, 20);
    let input = match case.side(0, 2) {
        0 => case.tensor(ElementType::I8, shape, 128),
        1 => case.tensor(ElementType::I16, shape, 120),
        _ => case.tensor(ElementType::I32, shape, 150),
    };
    let layer = case.rows_of_weights((rows * channels) as usize);
    let op = Op::Embed(op::Embed { input, rows });
    case.push(
        op,
        Shape::new(shape.height, shape.width, channels),
        Some(layer),
    );
}

pub(crate) fn add(case: &mut Case) {
    let shape = case.shape([6, 6, 20]);
    let terms = case.side(1, 8);
    let mut inputs = Vec::new();
    let mut multipliers = Vec::new();
    for _ in 0..terms {
        let kind = case.pick(&KINDS);
        let (limit, factor) = [(128, 32_767), (3_000, 30_000), (4_000, 30_000)][kind.bytes() / 2];
        inputs.push(case.tensor(kind, shape, limit));
        let sign = if case.flag() { 1 } else { -1 };
        multipliers.push(sign * case.value(1, factor));
    }
    let bias = case.value(-100_000, 100_000);
    let op = Op::Add(op::Add {
        inputs,
        multipliers,
        bias,
    });
    case.push(op, shape, None);
}

pub(crate) fn requantise(case: &mut Case) {
    let shape = case.shape([5, 6, 30]);
    let input = case.any(shape);
    let pairs: Vec<Rescale> = (0..case.side(1, 16))
        .map(|_| case.rescale([2, 46]))
        .collect();
    let entries = if case.flag() { 1 } else { shape.channels };
    let last = u32::try_from(pairs.len()).expect(DRAWN) - 1;
    let channel_pairs = (0..entries).map(|_| u8::try_from(case.side(0, last)).expect(DRAWN));
    let mut how = Requantise::to_i8(pairs, channel_pairs.collect(), [-1_000, 1_000], [-128, 127]);
    how.zero = i16::try_from(case.value(-300, 300)).expect(DRAWN);
    if case.flag() {
        how.output = ElementType::I16;
        how.clamp = [-20_000, 32_767];
    }
    if case.flag() {
        let reach = case.side(0, 2_047);
        how.clamp = [
            -i16::try_from(reach).expect(DRAWN),
            i16::try_from(reach).expect(DRAWN),
        ];
        let limit = if how.output == ElementType::I16 {
            32_767
        } else {
            127
        };
        let table = (0..=2 * reach).map(|_| i16::try_from(case.value(-limit, limit)).expect(DRAWN));
        how.table = Some(table.collect());
    }
    case.push(Op::Requantise(op::Unary { input, how }), shape, None);
}

pub(crate) fn pairwise(case: &mut Case) {
    let shape = case.shape([6, 6, 20]);
    match case.side(0, 3) {
        0 => {
            let first = case.activations(shape, 30_000);
            let inputs = [first, case.activations(shape, 30_000)];
            case.push(Op::Mul(op::Mul { inputs }), shape, None);
        }
        kind => {
            let element = case.pick(&KINDS);
            let inputs = [0; 2].map(|_: i32| case.of_kind(element, shape));
            let op = match kind {
                1 => Op::Extremum(op::Extremum {
                    inputs,
                    which: case.pick(&[Extreme::Greater, Extreme::Lesser]),
                }),
                2 => {
                    let all = [Relation::Equal, Relation::Greater, Relation::GreaterOrEqual];
                    let relation = case.pick(&all);
                    Op::Compare(op::Compare { inputs, relation })
                }
                _ => Op::Select(op::Select {
                    condition: case.tensor(ElementType::I8, shape, 2),
                    inputs,
                }),
            };
            case.push(op, shape, None);
        }
    }
}

pub(crate) fn pool(case: &mut Case) {
    let mut shape = case.shape([9, 9, 20]);
    shape.height += 4;
    shape.width += 4;
    let mut window = case.window(false, false);
    window.dilation = [case.side(1, 2), case.side(1, 2)];
    let [height, width] = window.output(shape).expect(DRAWN);
    let input = case.activations(shape, 32_767);
    let op = if case.flag() {
        Op::WindowSum(op::WindowSum { input, window })
    } else {
        Op::MaxPool(op::MaxPool { input, window })
    };
    case.push(op, Shape::new(height, width, shape.channels), None);
}

pub(crate) fn reduce(case: &mut Case) {
    let last = case.pick(&[3, 40, 600]);
    let shape = case.shape([6, 6, last]);
    let axis = case.pick(&AXES);
    let all = [Reduction::Sum, Reduction::Greatest, Reduction::Least];
    if case.flag() && case.flag() {
        let input = case.activations(shape, 32_767);
        case.push(Op::RunningSum(op::RunningSum { input, axis }), shape, None);
        return;
    }
    let reduction = case.pick(&all);
    let input = if reduction == Reduction::Sum {
        case.activations(shape, 32_767)
    } else {
        case.any(shape)
    };
    let op = Op::Reduce(op::Reduce {
        input,
        reduction,
        axis,
    });
    case.push(op, shape.with_axis(axis, 1), None);
}

pub(crate) fn rank(case: &mut Case) {
    let last = case.pick(&[3, 40, 300]);
    let shape = case.shape([4, 4, last]);
    let kind = case.pick(&KINDS);
    // Few values, so that there are ties.
    let input = if case.flag() {
        case.tensor(kind, shape, 3)
    } else {
        case.of_kind(kind, shape)
    };
    if case.flag() {
        case.push(
            Op::ArgMax(op::ArgMax { input }),
            shape.with_axis(Axis::Channels, 1),
            None,
        );
        return;
    }
    let k = case.side(1, shape.channels.min(30));
    let give = case.pick(&[Ranked::Values, Ranked::Channels]);
    case.push(
        Op::TopK(op::TopK { input, give }),
        shape.with_axis(Axis::Channels, k),
        None,
    );
}

pub(crate) fn softmax(case: &mut Case) {
    let last = case.pick(&[1, 12, 300]);
    let shape = case.shape([3, 9, last]);
    let input = case.any(shape);
    let length = case.side(1, 400);
    let mut table: Vec<u16> = (0..length)
        .map(|_| u16::try_from(case.value(0, 32_767)).expect(DRAWN))
        .collect();
    table[0] = table[0].max(1);
    let offset = case.side(0, 12);
    let how = Softmax {
        rescale: case.rescale([2, 40]),
        table,
        causal: case.flag().then_some(offset),
    };
    case.push(Op::Softmax(op::Unary { input, how }), shape, None);
}

pub(crate) fn norm(case: &mut Case) {
    let last = case.pick(&[1, 12, 300]);
    let shape = case.shape([3, 5, last]);
    let input = case.activations(shape, 20_000);
    let how = Norm {
        centred: case.flag(),
        epsilon: u64::from(case.side(0, 1 << 20)) << case.side(0, 13),
        precision: u8::try_from(case.side(0, 6)).expect(DRAWN),
        fraction: u8::try_from(case.side(0, 10)).expect(DRAWN),
    };
    case.push(Op::Norm(op::Unary { input, how }), shape, None);
}

pub(crate) fn movement(case: &mut Case) {
    let shape = case.shape([7, 7, 9]);
    let input = case.any(shape);
    let axis = case.pick(&AXES);
    match case.side(0, 3) {
        0 => {
            let sizes = [shape.height, shape.width, shape.channels];
            let order = case.pick(&[[2, 0, 1], [1, 0, 2], [2, 1, 0]]);
            let mut view = View::transpose(&sizes, &order);
            if case.flag() {
                // Flipped and repeated.
                let last = &mut view.axes[2];
                view.offset += (last.size - 1) * last.stride.cast_unsigned();
                last.stride = -last.stride;
                view.axes
                    .insert(1, tg_ir::view::ViewAxis { size: 2, stride: 0 });
            }
            let count = u32::try_from(view.elements().expect(DRAWN)).expect(DRAWN);
            case.push(
                Op::View(op::Unary { input, how: view }),
                Shape::vector(count),
                None,
            );
        }
        1 => {
            let kind = Program::element_type(&case.program(), input);
            let mut inputs = vec![input];
            let mut length = shape.axis(axis);
            for _ in 0..case.side(0, 3) {
                let other = shape.with_axis(axis, case.side(1, 5));
                length += other.axis(axis);
                inputs.push(case.of_kind(kind, other));
            }
            let op = Op::Concat(op::Concat { inputs, axis });
            case.push(op, shape.with_axis(axis, length), None);
        }
        2 => {
            let mut border = || [0; 3].map(|_: u32| case.side(0, 3));
            let (before, after) = (border(), border());
            let side = |i: usize, length: u32| length + before[i] + after[i];
            let out = Shape::new(
                side(0, shape.height),
                side(1, shape.width),
                side(2, shape.channels),
            );
            let value = i16::try_from(case.value(-128, 127)).expect(DRAWN);
            let op = Op::Pad(op::Pad {
                input,
                before,
                after,
                value,
            });
            case.push(op, out, None);
        }
        _ => {
            let last = shape.axis(axis) - 1;
            let indices: Vec<u32> = (0..case.side(1, 12)).map(|_| case.side(0, last)).collect();
            let out = shape.with_axis(axis, u32::try_from(indices.len()).expect(DRAWN));
            let op = Op::Gather(op::Gather {
                input,
                axis,
                indices,
            });
            case.push(op, out, None);
        }
    }
}

impl Case {
    /// The nodes so far, for questions about them.
    fn program(&self) -> Program {
        Program {
            name: String::new(),
            input: InputSpec::scaled(Shape::vector(1), 1.0),
            nodes: self.nodes.clone(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights::default().root(),
        }
    }
}

pub(crate) fn trees(case: &mut Case) {
    let features = case.side(1, 30);
    let input = case.activations(Shape::vector(features), 32_767);
    let (count, outputs, leaves) = (case.side(1, 300), case.side(1, 5), case.side(1, 50));
    let branches = case.side(1, 60);
    let child = |case: &mut Case, from: u32| {
        if from < branches && case.side(0, 3) > 0 {
            Child::Branch(case.side(from, branches - 1))
        } else {
            Child::Leaf(case.side(0, leaves - 1))
        }
    };
    let branches = (0..branches).map(|index| Branch {
        feature: u16::try_from(case.side(0, features - 1)).expect(DRAWN),
        threshold: i16::try_from(case.value(-200, 200)).expect(DRAWN),
        below: child(case, index + 1),
        above: child(case, index + 1),
    });
    let branches = branches.collect();
    let forest = Forest {
        roots: (0..count).map(|_| child(case, 0)).collect(),
        branches,
        leaves: (0..leaves * outputs)
            .map(|_| case.value(-1_000_000, 1_000_000))
            .collect(),
        bias: (0..outputs)
            .map(|_| case.value(-1_000_000, 1_000_000))
            .collect(),
    };
    case.push(
        Op::Trees(op::Trees { input, forest }),
        Shape::vector(outputs),
        None,
    );
}

/// The greatest sums that are admitted, of 8 and of 16 bits: nothing saturates on the way.
pub(crate) fn bounds(case: &mut Case) {
    let (kind, limit, depth) = if case.flag() {
        (ElementType::I8, 128, 65_022u32)
    } else {
        (ElementType::I16, 4_000, 2_064)
    };
    let input = case.tensor(kind, Shape::new(1, 2, depth), limit);
    let least = vec![-limit; 2 * depth as usize];
    case.tensors[input.index()] = Some(IntTensor::of(kind, &least));
    let layer = LinearWeights {
        weights: [vec![127; depth as usize], vec![-127; depth as usize]].concat(),
        bias: vec![-8_290_687, 8_290_687],
    };
    let op = Op::conv(input, Window::new([1, 1], [1, 1], [0; 4]));
    case.push(op, Shape::new(1, 2, 2), Some(layer));
}
