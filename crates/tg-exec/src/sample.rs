//! Random valid models: for property tests here and in the prover, and for benchmarks.

pub mod wide;

use crate::kernels::{Conv2d, Sliding};
use crate::range;
use tg_ir::op::{self, TypeRule};
use tg_ir::{
    CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise, Rescale,
    Shape, TensorId, View, Weights, Window,
};
use tg_types::draw::SplitMix64;

/// A stream of numbers from a seed.
#[derive(Debug, Clone)]
pub struct Numbers(SplitMix64);

impl Numbers {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number in `[low, high]`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "an interval has its ends in order");
        let width = u64::try_from(high - low).expect("not negative") + 1;
        low + i64::try_from(self.next() % width).expect("below the width")
    }

    pub(crate) fn side(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(i64::from(low), i64::from(high))).expect("between two u32")
    }

    /// An activation.
    ///
    /// # Panics
    /// Never.
    pub fn activation(&mut self) -> i8 {
        i8::try_from(self.between(-128, 127)).expect("in the range of i8")
    }
}

/// A small random valid model (every operator occurs over the seeds) and an input for it. Declared ranges are the
/// tightest that interval arithmetic proves.
#[must_use]
pub fn random_model(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut builder = Builder::new(seed);
    let nodes = builder.numbers.between(1, 7);
    for _ in 0..nodes {
        builder.push_some();
    }
    builder.finish()
}

/// Sizes of a small random convolution; some do not fit together.
#[must_use]
pub fn random_conv(numbers: &mut Numbers) -> Conv2d {
    let mut small = |low, high| usize::try_from(numbers.between(low, high)).expect("not negative");
    let sliding = Sliding {
        image: [small(1, 12), small(1, 12)],
        kernel: [small(1, 4), small(1, 4)],
        stride: [small(1, 3), small(1, 3)],
        pads: [small(0, 2), small(0, 2), small(0, 2), small(0, 2)],
        dilation: [small(1, 2), small(1, 3)],
        spread: [1, 1],
    };
    let groups = [1, 1, 2, 3][small(0, 3)];
    Conv2d {
        sliding,
        inputs: groups * small(1, 9),
        outputs: groups * small(1, 20),
        groups,
    }
}

struct Builder {
    numbers: Numbers,
    input: Shape,
    nodes: Vec<Node>,
    layers: Vec<LinearWeights>,
    intervals: Vec<Vec<range::Interval>>,
}

impl Builder {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let input = Shape::new(numbers.side(1, 9), numbers.side(1, 9), numbers.side(1, 5));
        Self {
            numbers,
            input,
            nodes: Vec::new(),
            layers: Vec::new(),
            intervals: vec![vec![[-128, 127]; input.channels as usize]],
        }
    }

    fn shape(&self, id: TensorId) -> Shape {
        id.index()
            .checked_sub(1)
            .map_or(self.input, |node| self.nodes[node].shape)
    }

    fn last(&self) -> TensorId {
        self.nodes
            .len()
            .checked_sub(1)
            .map_or(TensorId::INPUT, TensorId::of_node)
    }

    fn is_accumulators(&self) -> bool {
        self.nodes
            .last()
            .is_some_and(|node| node.op.output_type() == TypeRule::Fixed(ElementType::I32))
    }

    fn push(&mut self, op: Op, shape: Shape, layer: Option<LinearWeights>) {
        let shapes: Vec<Shape> = std::iter::once(self.input)
            .chain(self.nodes.iter().map(|node| node.shape))
            .collect();
        let read = layer.as_ref().map(LinearWeights::as_read);
        let next = range::of_op(&op, shape, read, |id| {
            (self.intervals[id.index()].as_slice(), shapes[id.index()])
        });
        self.intervals.push(next);
        self.layers.extend(layer);
        self.nodes.push(Node {
            name: format!("node{}", self.nodes.len()),
            op,
            shape,
            scale: 1.0,
        });
    }

    fn push_some(&mut self) {
        let input = self.last();
        if self.is_accumulators() {
            self.push_requantise(input);
            return;
        }
        let shape = self.shape(input);
        match self.numbers.between(0, 7) {
            0 | 1 => {
                let window = self.window(shape);
                let [height, width] = window.output(shape).expect("the window fits");
                let channels = self.numbers.side(1, 6);
                let reduction = window.positions() * shape.channels as usize;
                let layer = self.layer(channels, reduction);
                let output = Shape::new(height, width, channels);
                self.push(Op::conv(input, window), output, Some(layer));
            }
            2 => {
                let channels = self.numbers.side(1, 12);
                let layer = self.layer(channels, shape.elements());
                self.push(
                    Op::Dense(op::Dense { input }),
                    Shape::vector(channels),
                    Some(layer),
                );
            }
            kind @ (3 | 4) => {
                let window = self.window(shape);
                let [height, width] = window.output(shape).expect("the window fits");
                let output = Shape::new(height, width, shape.channels);
                let op = if kind == 3 {
                    Op::WindowSum(op::WindowSum { input, window })
                } else {
                    Op::MaxPool(op::MaxPool { input, window })
                };
                self.push(op, output, None);
            }
            5 => {
                let other = self.partner(input);
                let multipliers = [0; 2].map(|_: i32| self.numbers.side(1, 32_767).cast_signed());
                let op = Op::add([input, other], multipliers);
                self.push(op, shape, None);
            }
            6 => {
                let sizes = [shape.height, shape.width, shape.channels];
                let order = [[2, 0, 1], [1, 0, 2], [2, 1, 0]][self.numbers.side(0, 2) as usize];
                let view = View::transpose(&sizes, &order);
                let output = Shape::vector(u32::try_from(shape.elements()).expect("small"));
                self.push(Op::View(op::Unary { input, how: view }), output, None);
            }
            _ => self.push_requantise(input),
        }
    }

    /// Another activation tensor of the same shape, or the tensor itself.
    fn partner(&self, input: TensorId) -> TensorId {
        let earlier = (0..input.index()).map(|index| TensorId(u32::try_from(index).expect("few")));
        let fits = |&id: &TensorId| {
            let activations = id == TensorId::INPUT
                || self.nodes[id.index() - 1].op.output_type() != TypeRule::Fixed(ElementType::I32);
            activations && self.shape(id) == self.shape(input)
        };
        earlier.into_iter().find(fits).unwrap_or(input)
    }

    fn window(&mut self, input: Shape) -> Window {
        let mut axis = |size: u32| {
            let kernel = self.numbers.side(1, size.min(4));
            let pads = [0, 1].map(|_| self.numbers.side(0, (kernel - 1).min(2)));
            (kernel, self.numbers.side(1, 3), pads)
        };
        let (kernel_y, stride_y, pads_y) = axis(input.height);
        let (kernel_x, stride_x, pads_x) = axis(input.width);
        Window::new(
            [kernel_y, kernel_x],
            [stride_y, stride_x],
            [pads_y[0], pads_x[0], pads_y[1], pads_x[1]],
        )
    }

    fn layer(&mut self, channels: u32, reduction: usize) -> LinearWeights {
        let reach = self.numbers.between(1, 127);
        let mut draw = |reach: i64| self.numbers.between(-reach, reach);
        LinearWeights {
            weights: (0..channels as usize * reduction)
                .map(|_| i8::try_from(draw(reach)).expect("in [-127, 127]"))
                .collect(),
            bias: (0..channels)
                .map(|_| i32::try_from(draw(50_000)).expect("small"))
                .collect(),
        }
    }

    fn push_requantise(&mut self, input: TensorId) {
        let shape = self.shape(input);
        let channels = shape.channels as usize;
        let range = range::hull(&self.intervals[input.index()]);
        let reach = range[0].abs().max(range[1].abs()).max(1);
        // A shift that maps the reach to between 2^5 and 2^8, for a multiplier around 2^14.
        let shift = (reach.ilog2() + 14)
            .saturating_sub(self.numbers.side(5, 8))
            .max(8);
        let pairs: Vec<Rescale> = (0..self.numbers.side(1, 3))
            .map(|step| {
                let multiplier = self.numbers.side(1 << 13, (1 << 15) - 1);
                Rescale::new(multiplier, shift + step).expect("in range")
            })
            .collect();
        let last_pair = u32::try_from(pairs.len()).expect("few") - 1;
        let entries = if self.numbers.between(0, 1) == 0 {
            1
        } else {
            channels
        };
        let channel_pairs = (0..entries)
            .map(|_| u8::try_from(self.numbers.side(0, last_pair)).expect("few"))
            .collect();
        let clamp = [[-128, 127], [0, 127], [-100, 50]][self.numbers.side(0, 2) as usize];
        let table = (self.numbers.between(0, 3) == 0).then(|| {
            (clamp[0]..=clamp[1])
                .map(|_| i16::from(self.numbers.activation()))
                .collect()
        });
        let how = Requantise {
            pairs,
            channel_pairs,
            zero: 0,
            range: range.map(|end| i32::try_from(end).expect("within the field bound")),
            clamp,
            table,
            output: ElementType::I8,
        };
        self.push(Op::Requantise(op::Unary { input, how }), shape, None);
    }

    fn finish(mut self) -> (CompiledModel, Vec<i8>) {
        let weights = Weights {
            layers: self.layers,
        };
        let program = Program {
            name: "sample".to_owned(),
            input: InputSpec::scaled(self.input, 1.0 / 127.0),
            nodes: self.nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        let input = (0..self.input.elements())
            .map(|_| self.numbers.activation())
            .collect();
        (CompiledModel { program, weights }, input)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::collections::BTreeSet;
    use tg_ir::SegmentTable;
    use tg_types::codec::Encode;

    #[test]
    fn samples_are_valid_and_cover_every_operator() {
        let mut seen = BTreeSet::new();
        for seed in 0..300 {
            let (model, input) = random_model(seed);
            model.program.validate().unwrap();
            model.weights.check(&model.program).unwrap();
            assert_eq!(input.len(), model.program.input.shape.elements());
            assert_eq!(*CompiledModel::read(&model.to_bytes()).unwrap(), model);
            for node in &model.program.nodes {
                seen.insert(node.op.name());
                if let Op::Requantise(op::Unary { how, .. }) = &node.op {
                    SegmentTable::build(how).unwrap();
                }
            }
        }
        assert_eq!(seen.len(), 7);
    }
}
