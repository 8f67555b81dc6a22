//! Speed of whole models: `cargo bench -p tg-compile --bench models [-- FILTER] [--rows] [--graphs=FOLDER]`.
//!
//! The two architectures that `xtask/python/compare_ort.py` builds for onnxruntime, with random weights: ResNet-18 at
//! 1x3x224x224 with batch normalisation folded, and a transformer encoder (6 layers, width 384, 6 heads, 128
//! positions, the shape of MiniLM), in TGX-1. Speed does not depend on the weights. In TGF-1 the files themselves are
//! run, where `--graphs` says where that script has put them, and compared with its outputs. Output as in the benchmark
//! `kernels`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops where something is missing"
)]

use std::hint::black_box;
use std::path::Path;
use tg_exec::engine::values::Values;
use tg_exec::execute;
use tg_exec::kernels::{Cpu, SimdLevel};
use tg_exec::sample::Numbers;
use tg_float::tgf::{self, Budget, Engine};
use tg_ir::op::{self, Norm, Softmax};
use tg_ir::{
    Axis, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise,
    Rescale, Shape, TensorId, View, Weights, Window,
};
use tg_onnx::ReadLimits;

#[path = "report/mod.rs"]
mod report;

use report::Report;

fn main() {
    let report = Report::from_arguments();
    report.title();
    for (short, model) in [("resnet18", resnet18()), ("transformer", transformer())] {
        let model = model.checked().unwrap();
        let operations = 2.0 * multiplications(&model.program);
        let mut numbers = Numbers::new(9);
        let input: Vec<i8> = (0..model.program.input.shape.elements())
            .map(|_| numbers.activation())
            .collect();
        for cpu in report.cpus() {
            let (level, threads) = (cpu.level(), cpu.threads());
            let name = report.name(&format!("tgx1 {short}"), level);
            let mut engine = tg_exec::Engine::new(&model, cpu);
            let time = report.time(&name, || {
                black_box(engine.run(Values::I8(black_box(&input))).unwrap());
            });
            if let Some(time) = time {
                report.line(&name, threads, operations, time, None);
            }
            // Results never depend on level and threads.
            let output = engine.run(Values::I8(&input)).unwrap().to_tensor();
            let mut plain = tg_exec::Engine::new(
                &model,
                Cpu::with_level(SimdLevel::Avx2, 1).unwrap_or_default(),
            );
            assert_eq!(plain.run(Values::I8(&input)).unwrap().to_tensor(), output);
        }
        let name = format!("tgx1 {short} whole trace, prepared each time");
        let time = report.naive(&name, || {
            black_box(execute(&model, &input).unwrap());
        });
        if let Some(time) = time {
            report.line(&name, 1, operations, time, None);
        }
        if let Some(folder) = report.graphs() {
            float_tier(&report, folder, short, operations);
        }
    }
}

/// The same network as onnxruntime runs it.
fn float_tier(report: &Report, folder: &Path, model: &str, operations: f64) {
    let bytes = |end: &str| std::fs::read(folder.join(format!("{model}{end}"))).unwrap();
    let graph = tg_onnx::read(&bytes(".onnx"), None, &ReadLimits::default()).unwrap();
    let [x, y] = [".x.npy", ".y.npy"].map(|end| tg_float::npy::read_npy(&bytes(end)).unwrap());
    let budget = Budget::default();
    let once = tgf::run(&graph, &[&x], &budget).unwrap().remove(0);
    let numbers = |tensor: &tg_float::FloatTensor| tensor.values::<f32>().unwrap().to_vec();
    let (ours, theirs) = (numbers(&once), numbers(&y));
    let top = theirs.iter().fold(0f32, |top, value| top.max(value.abs()));
    let pairs = ours.iter().zip(&theirs);
    let error = pairs.fold(0f32, |worst, (a, b)| worst.max((a - b).abs())) / top;
    assert!(error < 1e-4, "{model}: {error} of the greatest output");
    for cpu in report.cpus() {
        let (level, threads) = (cpu.level(), cpu.threads());
        let name = report.name(&format!("tgf1 {model}"), level);
        let mut engine = Engine::new(graph.clone(), cpu);
        let time = report.time(&name, || {
            black_box(engine.run(black_box(&[&x]), &budget).unwrap());
        });
        if let Some(time) = time {
            report.line(&name, threads, operations, time, None);
        }
        // Results never depend on level and threads.
        assert_eq!(engine.run(&[&x], &budget).unwrap()[0], once);
    }
}

/// Multiply-adds of one run.
fn multiplications(program: &Program) -> f64 {
    let nodes = 0..program.nodes.len();
    nodes
        .map(|node| (program.reduction(node) * program.nodes[node].shape.elements()) as f64)
        .sum()
}

struct Builder {
    numbers: Numbers,
    input: Shape,
    nodes: Vec<Node>,
    layers: Vec<LinearWeights>,
}

impl Builder {
    fn new(input: Shape) -> Self {
        Self {
            numbers: Numbers::new(1),
            input,
            nodes: Vec::new(),
            layers: Vec::new(),
        }
    }

    fn shape(&self, id: TensorId) -> Shape {
        id.index()
            .checked_sub(1)
            .map_or(self.input, |node| self.nodes[node].shape)
    }

    fn push(&mut self, op: Op, shape: Shape) -> TensorId {
        self.nodes.push(Node {
            name: format!("node{}", self.nodes.len()),
            op,
            shape,
            scale: 1.0,
        });
        TensorId::of_node(self.nodes.len() - 1)
    }

    fn layer(&mut self, channels: u32, reduction: usize) {
        let mut weight = || i8::try_from(self.numbers.between(-127, 127)).unwrap();
        self.layers.push(LinearWeights {
            weights: (0..channels as usize * reduction)
                .map(|_| weight())
                .collect(),
            bias: (0..channels).map(|_| 0).collect(),
        });
    }

    /// Two rescales, given to the channels in turn; sums of `terms` random products reach about full scale.
    fn requantise(&mut self, input: TensorId, terms: usize, how: Finish) -> TensorId {
        let shape = self.shape(input);
        let factor = f64::from(how.reach) / (terms as f64).sqrt() / 5_500.0 / 2.0;
        let pairs = vec![
            Rescale::nearest(factor).unwrap(),
            Rescale::nearest(factor * 1.3).unwrap(),
        ];
        let how = Requantise {
            pairs,
            channel_pairs: (0..shape.channels).map(|c| u8::from(c % 2 == 1)).collect(),
            zero: 0,
            range: [-1_000_000_000, 1_000_000_000],
            clamp: how.clamp,
            table: how.table,
            output: how.output,
        };
        self.push(Op::Requantise(op::Unary { input, how }), shape)
    }

    fn conv(&mut self, input: TensorId, channels: u32, [kernel, stride]: [u32; 2]) -> TensorId {
        let shape = self.shape(input);
        let window = Window::new([kernel; 2], [stride; 2], [kernel / 2; 4]);
        let [height, width] = window.output(shape).unwrap();
        self.layer(channels, window.positions() * shape.channels as usize);
        self.push(Op::conv(input, window), Shape::new(height, width, channels))
    }

    fn finish(self, name: &str) -> CompiledModel {
        let weights = Weights {
            layers: self.layers,
        };
        let program = Program {
            name: name.to_owned(),
            input: InputSpec::scaled(self.input, 1.0),
            nodes: self.nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        program.validate().unwrap();
        weights.check(&program).unwrap();
        CompiledModel { program, weights }
    }
}

struct Finish {
    reach: i16,
    clamp: [i16; 2],
    table: Option<Vec<i16>>,
    output: ElementType,
}

impl Finish {
    const fn i8(clamp: [i16; 2]) -> Self {
        Self {
            reach: 127,
            clamp,
            table: None,
            output: ElementType::I8,
        }
    }

    const fn i16() -> Self {
        Self {
            reach: 16_000,
            clamp: [-32_767, 32_767],
            table: None,
            output: ElementType::I16,
        }
    }
}

fn resnet18() -> CompiledModel {
    const RELU: [i16; 2] = [0, 127];
    const PLAIN: [i16; 2] = [-128, 127];
    let mut net = Builder::new(Shape::new(224, 224, 3));
    let sums = net.conv(TensorId::INPUT, 64, [7, 2]);
    let stem = net.requantise(sums, 147, Finish::i8(RELU));
    let window = Window::new([3; 2], [2; 2], [1; 4]);
    let mut x = net.push(
        Op::MaxPool(op::MaxPool {
            input: stem,
            window,
        }),
        Shape::new(56, 56, 64),
    );
    for (stage, channels) in [64u32, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let inputs = net.shape(x).channels as usize;
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let sums = net.conv(x, channels, [3, stride]);
            let first = net.requantise(sums, 9 * inputs, Finish::i8(RELU));
            let sums = net.conv(first, channels, [3, 1]);
            let second = net.requantise(sums, 9 * channels as usize, Finish::i8(PLAIN));
            let skip = if stride == 2 {
                let sums = net.conv(x, channels, [1, 2]);
                net.requantise(sums, inputs, Finish::i8(PLAIN))
            } else {
                x
            };
            let shape = net.shape(second);
            let sum = net.push(Op::add([second, skip], [16_384, 12_000]), shape);
            x = net.requantise(sum, 20_000, Finish::i8(RELU));
        }
    }
    let window = Window::new([7; 2], [1; 2], [0; 4]);
    let sum = net.push(
        Op::WindowSum(op::WindowSum { input: x, window }),
        Shape::vector(512),
    );
    let mean = net.requantise(sum, 1, Finish::i8(RELU));
    net.layer(1_000, 512);
    net.push(Op::Dense(op::Dense { input: mean }), Shape::vector(1_000));
    net.finish("resnet18")
}

const WIDTH: u32 = 384;
const HEADS: u32 = 6;
const POSITIONS: u32 = 128;

/// One tensor per head, from positions by channels.
fn to_heads(net: &mut Builder, x: TensorId) -> TensorId {
    let head = WIDTH / HEADS;
    let view = View::transpose(&[POSITIONS, HEADS, head], &[1, 0, 2]);
    net.push(
        Op::View(op::Unary {
            input: x,
            how: view,
        }),
        Shape::new(HEADS, POSITIONS, head),
    )
}

fn attention(net: &mut Builder, x: TensorId) -> TensorId {
    let [q, k, v] = [0; 3].map(|_| {
        let sums = net.conv(x, WIDTH, [1, 1]);
        let values = net.requantise(sums, WIDTH as usize, Finish::i8([-128, 127]));
        to_heads(net, values)
    });
    let scores = net.push(
        Op::MatMul(op::MatMul {
            inputs: [q, k],
            transposed: true,
        }),
        Shape::new(HEADS, POSITIONS, POSITIONS),
    );
    let how = Softmax {
        rescale: Rescale::nearest(1.0 / 200.0).unwrap(),
        table: (0..1_024u16)
            .map(|step| (32_767.0 * (-f64::from(step) / 100.0).exp()) as u16)
            .collect(),
        causal: None,
    };
    let shape = net.shape(scores);
    let weights = net.push(Op::Softmax(op::Unary { input: scores, how }), shape);
    let head = WIDTH / HEADS;
    let mixed = net.push(
        Op::MatMul(op::MatMul {
            inputs: [weights, v],
            transposed: false,
        }),
        Shape::new(HEADS, POSITIONS, head),
    );
    let mixed = net.requantise(mixed, 1 << 16, Finish::i8([-128, 127]));
    let view = View::transpose(&[HEADS, POSITIONS, head], &[1, 0, 2]);
    let joined = net.push(
        Op::View(op::Unary {
            input: mixed,
            how: view,
        }),
        Shape::new(1, POSITIONS, WIDTH),
    );
    let sums = net.conv(joined, WIDTH, [1, 1]);
    net.requantise(sums, WIDTH as usize, Finish::i16())
}

fn feed_forward(net: &mut Builder, x: TensorId) -> TensorId {
    let sums = net.conv(x, 4 * WIDTH, [1, 1]);
    // GELU, as the table of the requantisation.
    let gelu = Finish {
        table: Some(
            (-128..=127i16)
                .map(|y| if y > 0 { y } else { y / 16 })
                .collect(),
        ),
        ..Finish::i8([-128, 127])
    };
    let hidden = net.requantise(sums, WIDTH as usize, gelu);
    let sums = net.conv(hidden, WIDTH, [1, 1]);
    net.requantise(sums, 4 * WIDTH as usize, Finish::i16())
}

fn normalise(net: &mut Builder, x: TensorId) -> TensorId {
    let shape = net.shape(x);
    let how = Norm {
        centred: true,
        epsilon: 10,
        precision: 4,
        fraction: 10,
    };
    let normal = net.push(Op::Norm(op::Unary { input: x, how }), shape);
    net.requantise(normal, 1, Finish::i8([-128, 127]))
}

fn transformer() -> CompiledModel {
    let shape = Shape::new(1, POSITIONS, WIDTH);
    let mut net = Builder::new(shape);
    let mut x = net.requantise(TensorId::INPUT, 1, Finish::i16());
    for _ in 0..6 {
        let blocks: [fn(&mut Builder, TensorId) -> TensorId; 2] = [attention, feed_forward];
        for block in blocks {
            let normal = normalise(&mut net, x);
            let change = block(&mut net, normal);
            let sum = net.push(Op::add([x, change], [16_000, 8_000]), shape);
            x = net.requantise(sum, 1 << 24, Finish::i16());
        }
    }
    let normal = normalise(&mut net, x);
    let reduction = tg_ir::op::Reduction::Sum;
    net.push(
        Op::Reduce(op::Reduce {
            input: normal,
            reduction,
            axis: Axis::Columns,
        }),
        Shape::vector(WIDTH),
    );
    net.finish("transformer")
}
