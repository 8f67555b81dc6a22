//! The models of the benchmark suite: known architectures with weights from a seed.
//!
//! Weights are bell-shaped and reach the ends of their range, as trained ones do; every requantisation is calibrated
//! on one random input, layer by layer, and declares the range that interval arithmetic proves.

use crate::engine::run_node;
use crate::execute::Tensor;
use crate::kernels::Cpu;
use crate::range;
use crate::sample::Numbers;
use tg_ir::{
    CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise, Rescale,
    Shape, TensorId, Weights, Window,
};

/// A model of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-32-10.
    Mlp,
    /// LeNet for 28 x 28 images without padding: two 5 x 5 convolutions of 6 and 16 channels, 120-84-10.
    LeNet,
    /// 32 x 32 x 3; 5 x 5 convolutions of 12 and 33 channels, each with a maximum over 2 x 2; 251-175-10.
    Cnn264k,
    /// 4 inputs, five hidden layers of 1,024, 3 outputs.
    Dense4M,
    /// VGG-16 for 32 x 32 images: thirteen 3 x 3 convolutions, five maxima, 512-512-10.
    Vgg16,
    /// ResNet-18 for 224 x 224 images.
    ResNet18,
}

impl Architecture {
    /// All of them, the smallest first.
    pub const ALL: [Self; 6] = [
        Self::Mlp,
        Self::LeNet,
        Self::Cnn264k,
        Self::Dense4M,
        Self::Vgg16,
        Self::ResNet18,
    ];

    /// What the tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mlp => "MLP 64-32-10",
            Self::LeNet => "LeNet-28",
            Self::Cnn264k => "CNN 264k",
            Self::Dense4M => "dense 4M",
            Self::Vgg16 => "VGG-16 CIFAR",
            Self::ResNet18 => "ResNet-18 224",
        }
    }

    /// The model of a seed, and the input it was calibrated on.
    #[must_use]
    pub fn model(self, seed: u64) -> (CompiledModel, Vec<i8>) {
        match self {
            Self::Mlp => mlp(seed),
            Self::LeNet => lenet(seed),
            Self::Cnn264k => cnn(seed),
            Self::Dense4M => dense(seed),
            Self::Vgg16 => vgg(seed),
            Self::ResNet18 => resnet(seed),
        }
    }
}

/// A random input of a model: bytes of an image, so not negative after the usual offset is taken off.
#[must_use]
pub fn random_input(program: &Program, seed: u64) -> Vec<i8> {
    let mut numbers = Numbers::new(seed ^ 0x1d8e_4e27_c47d_124f);
    (0..program.input.shape.elements())
        .map(|_| numbers.activation())
        .collect()
}

fn mlp(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("mlp", Shape::vector(64), seed);
    let hidden = net.dense_relu(TensorId::INPUT, 32);
    net.dense(hidden, 10);
    net.finish()
}

fn lenet(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("lenet", Shape::new(28, 28, 1), seed);
    let mut at = TensorId::INPUT;
    for channels in [6, 16] {
        at = net.conv_relu(at, channels, square(5, 1, 0));
        at = net.max_pool(at, square(2, 2, 0));
    }
    at = net.dense_relu(at, 120);
    at = net.dense_relu(at, 84);
    net.dense(at, 10);
    net.finish()
}

fn cnn(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("cnn-264k", Shape::new(32, 32, 3), seed);
    let mut at = TensorId::INPUT;
    for channels in [12, 33] {
        at = net.conv_relu(at, channels, square(5, 1, 0));
        at = net.max_pool(at, square(2, 2, 0));
    }
    at = net.dense_relu(at, 251);
    at = net.dense_relu(at, 175);
    net.dense(at, 10);
    net.finish()
}

fn dense(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("dense-4m", Shape::vector(4), seed);
    let mut at = TensorId::INPUT;
    for _ in 0..5 {
        at = net.dense_relu(at, 1_024);
    }
    net.dense(at, 3);
    net.finish()
}

fn vgg(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("vgg-16", Shape::new(32, 32, 3), seed);
    let mut at = TensorId::INPUT;
    for (channels, convolutions) in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)] {
        for _ in 0..convolutions {
            at = net.conv_relu(at, channels, square(3, 1, 1));
        }
        at = net.max_pool(at, square(2, 2, 0));
    }
    at = net.dense_relu(at, 512);
    net.dense(at, 10);
    net.finish()
}

fn resnet(seed: u64) -> (CompiledModel, Vec<i8>) {
    let mut net = Net::new("resnet-18", Shape::new(224, 224, 3), seed);
    let mut at = net.conv_relu(TensorId::INPUT, 64, square(7, 2, 3));
    at = net.max_pool(at, square(3, 2, 1));
    for (stage, channels) in [64, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let first = net.conv_relu(at, channels, square(3, stride, 1));
            let second = net.conv(first, channels, square(3, 1, 1));
            let second = net.requantise(second, [-128, 127]);
            let shortcut = if stride == 2 {
                let projected = net.conv(at, channels, square(1, 2, 0));
                net.requantise(projected, [-128, 127])
            } else {
                at
            };
            let sum = net.add(second, shortcut);
            at = net.requantise(sum, RELU);
        }
    }
    let sums = net.window_sum(at, square(7, 1, 0));
    at = net.requantise(sums, [-128, 127]);
    net.dense(at, 1_000);
    net.finish()
}

const RELU: [i8; 2] = [0, 127];

/// A square window with the same padding on all sides. A stride may leave the last padding unread.
const fn square(kernel: u32, stride: u32, pad: u32) -> Window {
    Window::new([kernel; 2], [stride; 2], [pad; 4])
}

/// A network under construction, with the tensors of its calibration input.
struct Net {
    numbers: Numbers,
    model: CompiledModel,
    cpu: Cpu,
    intervals: Vec<Vec<range::Interval>>,
    tensors: Vec<Tensor>,
}

impl Net {
    fn new(name: &str, input: Shape, seed: u64) -> Self {
        let program = Program {
            name: name.to_owned(),
            input: InputSpec::scaled(input, 1.0 / 127.0),
            nodes: Vec::new(),
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
            intervals: vec![vec![[-128, 127]; input.channels as usize]],
            tensors: vec![Tensor::I8(values)],
        }
    }

    fn push(&mut self, op: Op, shape: Shape, layer: Option<LinearWeights>) -> TensorId {
        let next = range::of_op(&op, shape, layer.as_ref(), |id| {
            (
                self.intervals[id.index()].as_slice(),
                self.model.program.shape(*id),
            )
        });
        self.intervals.push(next);
        let node = self.model.program.nodes.len();
        let name = format!("{}{node}", op.name().to_lowercase());
        self.model.program.nodes.push(Node {
            name,
            op,
            shape,
            scale: 1.0,
        });
        self.model.weights.layers.extend(layer);
        let values = run_node(&self.model, &self.cpu, node, &self.tensors);
        self.tensors.push(values);
        TensorId::of_node(node)
    }

    /// Bell-shaped weights: the sum of four uniform numbers, 37 in standard deviation.
    fn layer(&mut self, outputs: u32, reduction: usize) -> LinearWeights {
        let mut weight = || {
            let bits = self.numbers.next();
            let sum: i32 = (0..4)
                .map(|part| ((bits >> (16 * part)) & 0x3f) as i32 - 31)
                .sum();
            i8::try_from(sum.clamp(-127, 127)).expect("clamped to the range of weights")
        };
        let weights = (0..outputs as usize * reduction)
            .map(|_| weight())
            .collect();
        let bias = (0..outputs).map(|_| i32::from(weight()) * 16).collect();
        LinearWeights { weights, bias }
    }

    fn conv(&mut self, input: TensorId, channels: u32, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let layer = self.layer(channels, window.positions() * from.channels as usize);
        let shape = Shape::new(height, width, channels);
        self.push(Op::conv(input, window), shape, Some(layer))
    }

    fn dense(&mut self, input: TensorId, channels: u32) -> TensorId {
        let layer = self.layer(channels, self.model.program.shape(input).elements());
        self.push(Op::Dense { input }, Shape::vector(channels), Some(layer))
    }

    fn conv_relu(&mut self, input: TensorId, channels: u32, window: Window) -> TensorId {
        let sums = self.conv(input, channels, window);
        self.requantise(sums, RELU)
    }

    fn dense_relu(&mut self, input: TensorId, channels: u32) -> TensorId {
        let sums = self.dense(input, channels);
        self.requantise(sums, RELU)
    }

    fn max_pool(&mut self, input: TensorId, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let shape = Shape::new(height, width, from.channels);
        self.push(Op::MaxPool { input, window }, shape, None)
    }

    fn window_sum(&mut self, input: TensorId, window: Window) -> TensorId {
        let from = self.model.program.shape(input);
        let [height, width] = window.output(from).expect("the window fits");
        let shape = Shape::new(height, width, from.channels);
        self.push(Op::WindowSum { input, window }, shape, None)
    }

    fn add(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let shape = self.model.program.shape(a);
        self.push(Op::add([a, b], [1 << 14; 2]), shape, None)
    }

    /// Maps three standard deviations of the calibration input's accumulators to 127.
    fn requantise(&mut self, input: TensorId, clamp: [i8; 2]) -> TensorId {
        let values = self.tensors[input.index()].widened();
        let count = values.len() as f64;
        let square = |&value: &i32| f64::from(value) * f64::from(value);
        let deviation = (values.iter().map(square).sum::<f64>() / count).sqrt();
        let rescale =
            Rescale::nearest(127.0 / (3.0 * deviation.max(43.0))).expect("a factor below one");
        let range = range::hull(&self.intervals[input.index()])
            .map(|end| i32::try_from(end).expect("within the field bound"));
        let range = [range[0].min(0), range[1].max(0)];
        let how = Requantise::to_i8(vec![rescale], vec![0], range, clamp);
        let shape = self.model.program.shape(input);
        self.push(Op::Requantise { input, how }, shape, None)
    }

    fn finish(self) -> (CompiledModel, Vec<i8>) {
        let Self {
            mut model,
            mut tensors,
            ..
        } = self;
        let program = &mut model.program;
        program.weights_root = model.weights.root();
        debug_assert_eq!(program.element_type(program.output()), ElementType::I32);
        let input = match tensors.swap_remove(0) {
            Tensor::I8(values) => values,
            Tensor::I16(_) | Tensor::I32(_) => Vec::new(),
        };
        (model, input)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::execute;

    fn parameters(model: &CompiledModel) -> usize {
        let layers = model.weights.layers.iter();
        layers.map(|l| l.weights.len() + l.bias.len()).sum()
    }

    #[test]
    fn small_models_have_their_known_sizes_and_live_activations() {
        for (architecture, count) in [
            (Architecture::Mlp, 2_410),
            (Architecture::LeNet, 44_426),
            (Architecture::Cnn264k, 264_031),
        ] {
            let (model, input) = architecture.model(7);
            model.program.validate().unwrap();
            model.weights.check(&model.program).unwrap();
            assert_eq!(parameters(&model), count, "{}", architecture.name());
            let trace = execute(&model, &input).unwrap();
            for (node, tensor) in model.program.nodes.iter().zip(&trace.tensors()[1..]) {
                let values = tensor.widened();
                let live = values.iter().filter(|&&value| value != 0).count();
                assert!(live * 4 > values.len(), "{} is all but zero", node.name);
            }
            assert_eq!(range::first_violation(&model), None);
        }
    }

    #[test]
    fn a_seed_gives_one_model() {
        let (model, input) = Architecture::LeNet.model(1);
        assert_eq!((model.clone(), input), Architecture::LeNet.model(1));
        assert_ne!(model, Architecture::LeNet.model(2).0);
    }
}
