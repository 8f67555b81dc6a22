//! What it would cost to check all products of a run by random sums modulo 2^61 - 1, with the whole trace opened, beside running it again
//! (`docs/adr/0041-short-runs-are-run-whole.md`): `RUSTFLAGS=-Ctarget-cpu=native cargo run --release -p tg-compile --example freivalds`.
#![allow(clippy::print_stdout, reason = "prints a table")]

use std::time::Instant;

use tg_compile::suite::Architecture;
use tg_exec::{IntTensor, execute_tensor};
use tg_ir::op::Op;
use tg_ir::{ExecutableModel, NodeWeights, Shape, TensorId, Window};

/// The prime 2^61 - 1.
const P: i128 = (1 << 61) - 1;

/// A number below the prime in two parts, so that products with small values stay in 64 bits while they are summed.
type Halves = (Vec<i64>, Vec<i64>);

/// Bits of the lower part.
const LOW: u32 = 31;

fn halves(values: impl Iterator<Item = i128>) -> Halves {
    let low = (1 << LOW) - 1;
    values
        .map(|it| ((it & low) as i64, (it >> LOW) as i64))
        .unzip()
}

/// The sum of products modulo the prime.
fn dot(values: &[i32], (low, high): (&[i64], &[i64])) -> i128 {
    let sum = |part: &[i64]| -> i64 {
        let pairs = values.iter().zip(part);
        pairs.map(|(x, v)| i64::from(*x) * v).sum()
    };
    i128::from(sum(low)) + (i128::from(sum(high)) << LOW)
}

/// Numbers below the prime that nobody knew before; here any will do.
fn random(count: usize) -> Vec<i128> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        i128::from(state) % P
    };
    (0..count).map(|_| next()).collect()
}

fn elements(tensor: &IntTensor) -> Vec<i32> {
    let bytes = tensor.to_bytes();
    match tensor.element_type().bytes() {
        1 => bytes.iter().map(|it| i32::from(it.cast_signed())).collect(),
        2 => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            pairs.map(|it| i32::from(i16::from_le_bytes(*it))).collect()
        }
        _ => {
            let fours = bytes.as_chunks::<4>().0.iter();
            fours.map(|it| i32::from_le_bytes(*it)).collect()
        }
    }
}

/// A product of a run: what is multiplied, by what, and what it gave.
struct Product<'a> {
    input: (Vec<i32>, Shape),
    /// Nothing where every pixel of the input is read for one output.
    window: Option<&'a Window>,
    zero: i128,
    layer: NodeWeights<'a>,
    output: (Vec<i32>, Shape),
}

impl<'a> Product<'a> {
    /// The product of a node, if it is one by weights; of convolutions in groups none are read.
    fn of(model: &'a ExecutableModel, tensors: &[IntTensor], node: usize) -> Option<Self> {
        let program = &model.program;
        let (input, window, zero) = match &program.nodes[node].op {
            Op::Conv(conv) if conv.groups == 1 => {
                (conv.input, Some(&conv.window), i128::from(conv.zero))
            }
            Op::Dense(dense) => (dense.input, None, 0),
            _ => return None,
        };
        let output = TensorId::of_node(node);
        let read = |id: TensorId| (elements(&tensors[id.index()]), program.shape(id));
        Some(Self {
            input: read(input),
            window,
            zero,
            layer: model.weights.of_node(program, node)?,
            output: read(output),
        })
    }

    /// Multiply-adds that the check takes.
    fn steps(&self) -> usize {
        let outputs = self.output.1.channels as usize;
        let (weights, gave) = (self.layer.weights.len(), self.output.0.len());
        weights + weights / outputs * (gave / outputs) + gave
    }

    /// Whether the random sum over the outputs of each position is that of the inputs by the random sum of the weights.
    fn holds(&self) -> bool {
        let (output, shape) = &self.output;
        let (input, read) = &self.input;
        let outputs = shape.channels as usize;
        let r = random(outputs);
        let taps = self.layer.weights.len() / outputs;
        let (r_low, r_high) = halves(r.iter().copied());
        let mut sums = vec![(0_i64, 0_i64); taps];
        for (row, (low, high)) in self
            .layer
            .weights
            .chunks_exact(taps)
            .zip(r_low.iter().zip(&r_high))
        {
            for (sum, weight) in sums.iter_mut().zip(row) {
                sum.0 += i64::from(*weight) * low;
                sum.1 += i64::from(*weight) * high;
            }
        }
        let sums = sums
            .iter()
            .map(|it| i128::from(it.0) + (i128::from(it.1) << LOW));
        let sums: Vec<i128> = sums.map(|it| it.rem_euclid(P)).collect();
        let bias = self.layer.bias.iter().zip(&r);
        let bias: i128 = bias.map(|(bias, r)| i128::from(*bias) * r % P).sum();
        let channels = read.channels as usize;
        let padded: Vec<i128> = sums
            .chunks(channels)
            .map(|it| it.iter().sum::<i128>() % P * self.zero)
            .collect();
        let (low, high) = halves(sums.iter().copied());
        let at = |first: usize, taps: std::ops::Range<usize>| {
            let values = &input[first..first + taps.len()];
            dot(values, (&low[taps.clone()], &high[taps]))
        };
        let claimed = |place: usize| {
            let gave = &output[place * outputs..][..outputs];
            dot(gave, (&r_low, &r_high))
        };
        let columns = shape.width as usize;
        (0..output.len() / outputs).all(|place| {
            let expected = match self.window {
                None => at(0, 0..taps),
                Some(window) => {
                    let (row, column) = ((place / columns) as u32, (place % columns) as u32);
                    let one = |position: usize| {
                        let of = position * channels;
                        match window.source(*read, row, column, position) {
                            Some(source) => at(source * channels, of..of + channels),
                            None => padded[position],
                        }
                    };
                    (0..window.positions()).map(one).sum()
                }
            };
            (expected + bias - claimed(place)).rem_euclid(P) == 0
        })
    }
}

/// Seconds that something takes, the least of three.
fn seconds<T>(mut what: impl FnMut() -> T) -> (f64, T) {
    let mut one = || {
        let begin = Instant::now();
        let found = what();
        (begin.elapsed().as_secs_f64(), found)
    };
    let tries = [one(), one(), one()];
    let mut tries = tries.into_iter();
    let first = tries.next().expect("three");
    tries.fold(first, |a, b| if b.0 < a.0 { b } else { a })
}

fn main() {
    println!(
        "{:<22}{:>9}{:>12}{:>12}{:>9}{:>12}{:>12}{:>12}",
        "model", "Mmacs", "Mlooks", "run again", "Madds", "products", "hash", "trace, MB"
    );
    for architecture in [
        Architecture::LeNet,
        Architecture::Vgg16,
        Architecture::ResNet18,
        Architecture::Gpt250k,
        Architecture::VitTiny,
    ] {
        let (model, input) = architecture.model(1);
        let model = model.checked().expect("a model of the suite");
        let (run, trace) = seconds(|| execute_tensor(&model, input.clone()).expect("it runs"));
        let (hash, _) = seconds(|| trace.digest());
        let nodes = 0..model.program.nodes.len();
        let products = nodes.filter_map(|node| Product::of(&model, trace.tensors(), node));
        let products: Vec<Product<'_>> = products.collect();
        let (check, holds) = seconds(|| products.iter().all(Product::holds));
        assert!(holds, "an honest run");
        println!(
            "{:<22}{:>9.1}{:>12.1}{:>10.2}ms{:>9.1}{:>10.2}ms{:>10.2}ms{:>12.2}",
            format!("{architecture:?}"),
            model.program.macs() as f64 / 1e6,
            tg_ir::tiles::looks(&model.program).0 as f64 / 1e6,
            run * 1e3,
            products.iter().map(Product::steps).sum::<usize>() as f64 / 1e6,
            check * 1e3,
            hash * 1e3,
            tg_ir::tiles::trace_bytes(&model.program) as f64 / 1e6,
        );
    }
}
