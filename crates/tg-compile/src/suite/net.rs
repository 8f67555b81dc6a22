//! A network under construction, with the tensors of its calibration input.

use tg_exec::engine::run_node;
use tg_exec::kernels::Cpu;
use tg_exec::range;
use tg_exec::sample::Numbers;
use tg_ir::IntTensor;
use tg_ir::bounds::{self, FIELD_BOUND};
use tg_ir::op;
use tg_ir::{
    Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise,
    Rescale, Shape, TensorId, Tie, Weights, Window,
};

pub(super) const RELU: [i8; 2] = [0, 127];

/// A random input of a model.
#[must_use]
pub fn random_input(program: &Program, seed: u64) -> IntTensor {
    let mut numbers = Numbers::new(seed ^ 0x1d8e_4e27_c47d_124f);
    let reach = match &program.input.coding {
        Coding::Scaled(ElementType::I16) | Coding::PerChannel(_) => [-32_767, 32_767],
        Coding::Tokens(vocabulary) => [0, i64::from(*vocabulary) - 1],
        Coding::Scaled(_) => [-128, 127],
        Coding::Ranks(_) => [0, 0],
    };
    let value = |_| i32::try_from(numbers.between(reach[0], reach[1])).expect("small");
    let values: Vec<i32> = (0..program.input.shape.elements()).map(value).collect();
    IntTensor::of(program.input.element_type(), &values)
}

/// A square window with the same padding on all sides. A stride may leave the last padding unread.
pub(super) const fn square(kernel: u32, stride: u32, pad: u32) -> Window {
    Window::new([kernel; 2], [stride; 2], [pad; 4])
}

/// A network under construction.
pub(super) struct Net {
    pub(super) numbers: Numbers,
    pub(super) model: CompiledModel,
    cpu: Cpu,
    intervals: Vec<Vec<range::Interval>>,
    tensors: Vec<IntTensor>,
}

impl Net {
    pub(super) fn new(name: &str, input: Shape, seed: u64) -> Self {
        Self::of_input(name, InputSpec::scaled(input, 1.0 / 127.0), seed)
    }

    pub(super) fn of_input(name: &str, input: InputSpec, seed: u64) -> Self {
        let intervals = range::of_input(&input);
        let program = Program {
            name: name.to_owned(),
            input,
            nodes: Vec::new(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        let values = random_input(&program, seed);
        Self {
            numbers: Numbers::new(seed),
            model: CompiledModel {
                program,
                weights: Weights { layers: Vec::new() },
            },
            cpu: Cpu::default(),
            intervals: vec![intervals],
            tensors: vec![values],
        }
    }

    pub(super) fn push(&mut self, op: Op, shape: Shape, layer: Option<LinearWeights>) -> TensorId {
        let node = self.model.program.nodes.len();
        let name = format!("{}{node}", op.name().to_lowercase());
        self.model.program.nodes.push(Node {
            name,
            op,
            shape,
            scale: 1.0,
        });
        self.model.weights.layers.extend(layer);
        let CompiledModel { program, weights } = &self.model;
        let read = weights.of_node(program, node);
        let next = range::of_op(&program.nodes[node].op, shape, read, |id| {
            (self.intervals[id.index()].as_slice(), program.shape(id))
        });
        self.intervals.push(next);
        let values = run_node(&self.model, &self.cpu, node, &self.tensors);
        self.tensors.push(values);
        TensorId::of_node(node)
    }

    /// Bell-shaped weights: the sum of four uniform numbers, 37 in standard deviation.
    pub(super) fn weights(&mut self, count: usize) -> Vec<i8> {
        let mut weight = || {
            let bits = self.numbers.next();
            let sum: i32 = (0..4)
                .map(|part| ((bits >> (16 * part)) & 0x3f) as i32 - 31)
                .sum();
            i8::try_from(sum.clamp(-127, 127)).expect("clamped to the range of weights")
        };
        (0..count).map(|_| weight()).collect()
    }

    /// Weights and biases.
    pub(super) fn layer(&mut self, outputs: u32, reduction: usize) -> LinearWeights {
        let weights = self.weights(outputs as usize * reduction);
        let bias = self.weights(outputs as usize);
        let bias = bias.into_iter().map(|bias| i32::from(bias) * 16).collect();
        LinearWeights { weights, bias }
    }

    pub(super) fn conv(&mut self, input: TensorId, channels: u32, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let layer = self.layer(channels, window.positions() * from.channels as usize);
        let shape = Shape::new(height, width, channels);
        self.push(Op::conv(input, window), shape, Some(layer))
    }

    /// A layer without a bias whose weights are those of the node that gives a tensor.
    pub(super) fn tied_conv(&mut self, input: TensorId, owner: TensorId) -> TensorId {
        let program = &mut self.model.program;
        let to = owner.0 - 1;
        let [outputs, ..] = program
            .weight_axes(to as usize)
            .expect("a node with weights");
        let shape = program.shape(input);
        let node = u32::try_from(program.nodes.len()).expect("a program has few nodes");
        program.ties.push(Tie { node, to });
        let layer = LinearWeights {
            weights: Vec::new(),
            bias: vec![0; outputs],
        };
        let channels = u32::try_from(outputs).expect("as many as an axis has");
        let op = Op::conv(input, Window::new([1; 2], [1; 2], [0; 4]));
        self.push(
            op,
            Shape::new(shape.height, shape.width, channels),
            Some(layer),
        )
    }

    pub(super) fn dense(&mut self, input: TensorId, channels: u32) -> TensorId {
        let layer = self.layer(channels, self.model.program.shape(input).elements());
        self.push(
            Op::Dense(op::Dense { input }),
            Shape::vector(channels),
            Some(layer),
        )
    }

    pub(super) fn conv_relu(&mut self, input: TensorId, channels: u32, window: Window) -> TensorId {
        let sums = self.conv(input, channels, window);
        self.requantise(sums, RELU)
    }

    pub(super) fn dense_relu(&mut self, input: TensorId, channels: u32) -> TensorId {
        let sums = self.dense(input, channels);
        self.requantise(sums, RELU)
    }

    pub(super) fn max_pool(&mut self, input: TensorId, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let shape = Shape::new(height, width, from.channels);
        self.push(Op::MaxPool(op::MaxPool { input, window }), shape, None)
    }

    pub(super) fn window_sum(&mut self, input: TensorId, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let shape = Shape::new(height, width, from.channels);
        self.push(Op::WindowSum(op::WindowSum { input, window }), shape, None)
    }

    pub(super) fn add(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let shape = self.model.program.shape(a);
        self.push(Op::add([a, b], [1 << 14; 2]), shape, None)
    }

    /// Maps three standard deviations of the calibration input's accumulators to 127.
    pub(super) fn requantise(&mut self, input: TensorId, clamp: [i8; 2]) -> TensorId {
        let factor = 127.0 / (3.0 * self.deviation(input).max(43.0));
        let rescale = Rescale::nearest(factor).expect("a factor below one");
        let how = Requantise::to_i8(vec![rescale], vec![0], self.range(input), clamp);
        let shape = self.model.program.shape(input);
        self.push(Op::Requantise(op::Unary { input, how }), shape, None)
    }

    /// The root mean square of a tensor of the calibration input.
    pub(super) fn deviation(&self, tensor: TensorId) -> f64 {
        let values = self.tensors[tensor.index()].widened();
        let square = |&value: &i32| f64::from(value) * f64::from(value);
        (values.iter().map(square).sum::<f64>() / values.len() as f64).sqrt()
    }

    /// What a tensor can be, zero included.
    pub(super) fn range(&self, tensor: TensorId) -> [i32; 2] {
        let mut range = range::hull(&self.intervals[tensor.index()]);
        if range.iter().any(|end| end.abs() > FIELD_BOUND / 2) {
            // Intervals know nothing of what a row of probabilities sums to; the program's bound does.
            let program = &self.model.program;
            let bound = bounds::magnitudes(program, tensor.index())[tensor.index()];
            range = range.map(|end| end.clamp(-bound, bound));
        }
        let range = range.map(|end| i32::try_from(end).expect("within the field bound"));
        [range[0].min(0), range[1].max(0)]
    }

    pub(super) fn finish(self) -> (CompiledModel, IntTensor) {
        let Self {
            mut model,
            mut tensors,
            ..
        } = self;
        let program = &mut model.program;
        program.weights_root = model.weights.root();
        debug_assert_eq!(program.element_type(program.output()), ElementType::I32);
        (model, tensors.swap_remove(0))
    }
}
