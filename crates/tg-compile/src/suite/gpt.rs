//! Transformers of tokens and of patches of images, lowered as `mixed` precision lowers them: 8 bits where weights or other
//! activations multiply, 16 for the stream between blocks, normalisations and probabilities.

use super::net::Net;
use super::net::square;
use crate::integer::attention::{EXPONENT_REACH, norm_of};
use tg_ir::IntTensor;
use tg_ir::op::{self, PROBABILITY_ONE, Softmax};
use tg_ir::requantise::TABLE_MAX;
use tg_ir::{
    Axis, Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Op, Requantise, Rescale,
    Shape, TensorId, View,
};

/// Clamp of the stream between blocks.
const STREAM_MAX: i16 = 16_383;
/// The rows of the vocabulary: a transformer's first node.
const EMBEDDING: TensorId = TensorId(1);
/// The stream's units in the embedding's: both embedding and places have 37 in standard deviation.
const STREAM_SHIFT: u32 = 5;

/// Sizes of a transformer that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterSizes {
    /// Blocks.
    pub layers: usize,
    /// Channels of the stream.
    pub channels: u32,
    /// Heads of attention, of which the channels are a multiple.
    pub heads: u32,
    /// Positions.
    pub window: u32,
    /// Tokens.
    pub vocabulary: u32,
}

/// Sizes of a transformer.
struct Sizes {
    name: &'static str,
    layers: usize,
    tokens: u32,
    /// Rows of the table of places, of which the first `tokens` are read.
    places: u32,
    vocabulary: u32,
    channels: u32,
    heads: u32,
    /// Whether a position sees those after it.
    sees_all: bool,
    output: Output,
}

/// What a transformer gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Every position's scores of the next token, by an output layer of its own.
    Scores,
    /// The last position's scores of the next token, by the weights of the embedding.
    LastScores,
    /// Every position's most likely next token, by the weights of the embedding.
    Likeliest,
    /// Every position's state, normalised.
    States,
    /// The first position's scores of so many classes.
    Classes(u32),
}

/// 4 layers, 64 tokens of 256.
pub(super) fn small(seed: u64) -> (CompiledModel, IntTensor) {
    let sizes = Sizes {
        name: "gpt-250k",
        layers: 4,
        tokens: 64,
        places: 64,
        vocabulary: 256,
        channels: 64,
        heads: 4,
        sees_all: false,
        output: Output::Scores,
    };
    transformer(&sizes, seed)
}

/// 1 layer, 8 tokens of 32.
pub(super) fn tiny(seed: u64) -> (CompiledModel, IntTensor) {
    let sizes = Sizes {
        name: "gpt-tiny",
        layers: 1,
        tokens: 8,
        places: 8,
        vocabulary: 32,
        channels: 16,
        heads: 2,
        sees_all: false,
        output: Output::Scores,
    };
    transformer(&sizes, seed)
}

/// Of any sizes, with the scores of the next token after each position.
pub(super) fn writer(sizes: &WriterSizes, seed: u64) -> (CompiledModel, IntTensor) {
    let &WriterSizes {
        layers,
        channels,
        heads,
        window,
        vocabulary,
    } = sizes;
    let sizes = Sizes {
        name: "gpt",
        layers,
        tokens: window,
        places: window,
        vocabulary,
        channels,
        heads,
        sees_all: false,
        output: Output::Scores,
    };
    transformer(&sizes, seed)
}

/// The shape of GPT-2 small: the scores of the next token after the last of so many.
pub(super) fn gpt2_scores(tokens: u32, seed: u64) -> (CompiledModel, IntTensor) {
    gpt2_of((tokens, Output::LastScores), seed)
}

/// The shape of GPT-2 small: the most likely next token after each of so many.
pub(super) fn gpt2_likeliest(tokens: u32, seed: u64) -> (CompiledModel, IntTensor) {
    gpt2_of((tokens, Output::Likeliest), seed)
}

fn gpt2_of((tokens, output): (u32, Output), seed: u64) -> (CompiledModel, IntTensor) {
    let sizes = Sizes {
        name: "gpt2-124m",
        layers: 12,
        tokens,
        places: 1_024,
        vocabulary: 50_257,
        channels: 768,
        heads: 12,
        sees_all: false,
        output,
    };
    transformer(&sizes, seed)
}

/// The shape of BERT-base on 128 tokens.
pub(super) fn bert_base(seed: u64) -> (CompiledModel, IntTensor) {
    let sizes = Sizes {
        name: "bert-base",
        layers: 12,
        tokens: 128,
        places: 512,
        vocabulary: 30_522,
        channels: 768,
        heads: 12,
        sees_all: true,
        output: Output::States,
    };
    transformer(&sizes, seed)
}

/// The shape of ViT-Tiny on images of 224 x 224.
pub(super) fn vit_tiny(seed: u64) -> (CompiledModel, IntTensor) {
    let sizes = Sizes {
        name: "vit-tiny",
        layers: 12,
        tokens: 196,
        places: 196,
        vocabulary: 0,
        channels: 192,
        heads: 3,
        sees_all: true,
        output: Output::Classes(1_000),
    };
    let mut net = Net::new(sizes.name, Shape::new(224, 224, 3), seed);
    let sums = net.conv(TensorId::INPUT, sizes.channels, square(16, 16, 0));
    let input = net.requantise(sums, [-128, 127]);
    let how = View::transpose(&[sizes.tokens, sizes.channels], &[0, 1]);
    let shape = Shape::new(1, sizes.tokens, sizes.channels);
    let patches = net.push(Op::View(op::Unary { input, how }), shape, None);
    let stream = net.placed(patches, &sizes);
    blocks(net, stream, &sizes)
}

fn transformer(sizes: &Sizes, seed: u64) -> (CompiledModel, IntTensor) {
    let mut input = InputSpec::scaled(Shape::new(1, sizes.tokens, 1), 1.0);
    input.coding = Coding::Tokens(sizes.vocabulary);
    let mut net = Net::of_input(sizes.name, input, seed);
    let stream = net.embedded(sizes);
    blocks(net, stream, sizes)
}

/// The layers, and what is made of the last one's stream.
fn blocks(mut net: Net, mut stream: TensorId, sizes: &Sizes) -> (CompiledModel, IntTensor) {
    for _ in 0..sizes.layers {
        let mixed = net.attention(stream, sizes);
        stream = net.onward(stream, mixed);
        let normal = net.normalised(stream);
        let wide = net.conv(normal, 4 * sizes.channels, square(1, 1, 0));
        let wide = net.gelu(wide);
        let narrow = net.conv(wide, sizes.channels, square(1, 1, 0));
        stream = net.onward(stream, narrow);
    }
    match sizes.output {
        Output::Scores => {
            let normal = net.normalised(stream);
            net.conv(normal, sizes.vocabulary, square(1, 1, 0));
        }
        Output::LastScores => {
            let last = net.position(stream, sizes.tokens - 1);
            let normal = net.normalised(last);
            net.tied_conv(normal, EMBEDDING);
        }
        Output::States => {
            net.normalised(stream);
        }
        Output::Classes(classes) => {
            let first = net.position(stream, 0);
            let normal = net.normalised(first);
            net.conv(normal, classes, square(1, 1, 0));
        }
        Output::Likeliest => {
            let normal = net.normalised(stream);
            let input = net.tied_conv(normal, EMBEDDING);
            net.push(
                Op::ArgMax(op::ArgMax { input }),
                Shape::new(1, sizes.tokens, 1),
                None,
            );
        }
    }
    net.finish()
}

impl Net {
    /// Rows of the embedding, with the places, as the stream.
    fn embedded(&mut self, sizes: &Sizes) -> TensorId {
        let shape = Shape::new(1, sizes.tokens, sizes.channels);
        let op = Op::Embed(op::Embed {
            input: TensorId::INPUT,
            rows: sizes.vocabulary,
        });
        let layer = self.unbiased(sizes.vocabulary as usize * sizes.channels as usize);
        let rows = self.push(op, shape, Some(layer));
        self.placed(rows, sizes)
    }

    /// One position of the stream.
    fn position(&mut self, input: TensorId, at: u32) -> TensorId {
        let shape = self.model.program.shape(input);
        let op = Op::Gather(op::Gather {
            input,
            axis: Axis::Columns,
            indices: vec![at],
        });
        self.push(op, Shape::new(1, 1, shape.channels), None)
    }

    /// Rows of 8 bits plus those of the places, as the stream.
    fn placed(&mut self, rows: TensorId, sizes: &Sizes) -> TensorId {
        let shape = Shape::new(1, sizes.tokens, sizes.channels);
        let layer = self.unbiased(sizes.places as usize * sizes.channels as usize);
        let all = Shape::new(1, sizes.places, sizes.channels);
        let mut places = self.push(Op::Parameter(op::Parameter), all, Some(layer));
        if sizes.places > sizes.tokens {
            let op = Op::Gather(op::Gather {
                input: places,
                axis: Axis::Columns,
                indices: (0..sizes.tokens).collect(),
            });
            places = self.push(op, shape, None);
        }
        let op = Op::add([rows, places], [1 << (STREAM_SHIFT + 2); 2]);
        let sum = self.push(op, shape, None);
        self.shifted(sum, 2)
    }

    /// Weights without biases.
    fn unbiased(&mut self, count: usize) -> LinearWeights {
        let (weights, bias) = (self.weights(count), Vec::new());
        LinearWeights { weights, bias }
    }

    /// A sum as the stream, without its last bits.
    fn shifted(&mut self, input: TensorId, bits: u32) -> TensorId {
        let how = Requantise {
            pairs: vec![Rescale::new(1 << 14, 14 + bits).expect("within its bounds")],
            channel_pairs: vec![0],
            zero: 0,
            range: self.range(input),
            clamp: [-STREAM_MAX, STREAM_MAX],
            table: None,
            output: ElementType::I16,
        };
        let shape = self.model.program.shape(input);
        self.push(Op::Requantise(op::Unary { input, how }), shape, None)
    }

    /// The stream plus what a block gives, in units a power of two apart: about a third of the stream.
    fn onward(&mut self, stream: TensorId, block: TensorId) -> TensorId {
        let ratio = 3.0 * self.deviation(block) / self.deviation(stream);
        let bits = ratio.log2().round().clamp(2.0, 13.0) as u32;
        let op = Op::add([stream, block], [1 << bits, 1]);
        let shape = self.model.program.shape(stream);
        let sum = self.push(op, shape, None);
        self.shifted(sum, bits)
    }

    /// The stream normalised, with a gain and an offset per channel, as accumulators.
    fn affine(&mut self, stream: TensorId) -> TensorId {
        let shape = self.model.program.shape(stream);
        let Ok(how) = norm_of(shape.channels, i64::from(STREAM_MAX), 1.0, true) else {
            unreachable!("few channels have a normalisation");
        };
        let op = Op::Norm(op::Unary { input: stream, how });
        let normal = self.push(op, shape, None);
        let mut layer = self.layer(shape.channels, 1);
        // Gains around 90.
        let weights = layer.weights.iter_mut();
        weights.for_each(|weight| *weight = *weight / 4 + 90);
        let op = Op::Conv(op::Conv {
            input: normal,
            window: square(1, 1, 0),
            groups: shape.channels,
            zero: 0,
        });
        self.push(op, shape, Some(layer))
    }

    fn normalised(&mut self, stream: TensorId) -> TensorId {
        let sums = self.affine(stream);
        self.requantise(sums, [-128, 127])
    }

    /// Self-attention of all heads, projected, as accumulators.
    fn attention(&mut self, stream: TensorId, sizes: &Sizes) -> TensorId {
        let &Sizes {
            tokens,
            channels,
            heads,
            ..
        } = sizes;
        let normal = self.normalised(stream);
        let each = channels / heads;
        let split = Shape::new(heads, tokens, each);
        let [queries, keys, values] = [(); 3].map(|()| {
            let sums = self.conv(normal, channels, square(1, 1, 0));
            let input = self.requantise(sums, [-128, 127]);
            let view = View::transpose(&[tokens, heads, each], &[1, 0, 2]);
            self.push(Op::View(op::Unary { input, how: view }), split, None)
        });
        let op = Op::MatMul(op::MatMul {
            inputs: [queries, keys],
            transposed: true,
        });
        let scores = self.push(op, Shape::new(heads, tokens, tokens), None);
        let probabilities = self.softmax(scores, sizes.sees_all);
        let op = Op::MatMul(op::MatMul {
            inputs: [probabilities, values],
            transposed: false,
        });
        let mixed = self.push(op, split, None);
        let input = self.requantise(mixed, [-128, 127]);
        let view = View::transpose(&[heads, tokens, each], &[1, 0, 2]);
        let joined = Shape::new(1, tokens, channels);
        let joined = self.push(Op::View(op::Unary { input, how: view }), joined, None);
        self.conv(joined, channels, square(1, 1, 0))
    }

    /// Softmax of scores, of which each row sees all columns or those up to its own: a standard deviation is 3/2.
    fn softmax(&mut self, input: TensorId, sees_all: bool) -> TensorId {
        let unit = EXPONENT_REACH / (TABLE_MAX as f64 - 2.0);
        let factor = 1.5 / self.deviation(input).max(1.0) / unit;
        let entries = (EXPONENT_REACH / unit).ceil() as usize + 1;
        let one = f64::from(PROBABILITY_ONE);
        let entry = |i: usize| (one * (-(i as f64) * unit).exp()).round() as u16;
        let how = Softmax {
            rescale: Rescale::nearest(factor).expect("scores are wide"),
            table: (0..entries.min(TABLE_MAX)).map(entry).collect(),
            causal: (!sees_all).then_some(0),
        };
        let shape = self.model.program.shape(input);
        self.push(Op::Softmax(op::Unary { input, how }), shape, None)
    }

    /// Gelu through a table of 4,096 entries over four standard deviations.
    fn gelu(&mut self, input: TensorId) -> TensorId {
        let half = TABLE_MAX as i16 / 2;
        let unit = 4.0 / f64::from(half);
        let factor = 1.0 / self.deviation(input).max(1.0) / unit;
        let value = |i: i16| {
            let x = f64::from(i) * unit;
            let tanh = (0.797_884_56 * (x + 0.044_715 * x.powi(3))).tanh();
            (0.5 * x * (1.0 + tanh) * 127.0 / 4.0).round() as i16
        };
        let how = Requantise {
            pairs: vec![Rescale::nearest(factor).expect("a factor below one")],
            channel_pairs: vec![0],
            zero: 0,
            range: self.range(input),
            clamp: [-half, half - 1],
            table: Some((-half..half).map(value).collect()),
            output: ElementType::I8,
        };
        let shape = self.model.program.shape(input);
        self.push(Op::Requantise(op::Unary { input, how }), shape, None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::execute_tensor;
    use tg_ir::Tie;

    #[test]
    fn the_output_layer_has_the_weights_of_the_embedding() {
        for (output, rows) in [(Output::LastScores, 1), (Output::Likeliest, 8)] {
            let sizes = Sizes {
                name: "gpt-tiny",
                layers: 1,
                tokens: 8,
                places: 8,
                vocabulary: 32,
                channels: 16,
                heads: 2,
                sees_all: false,
                output,
            };
            let (CompiledModel { program, weights }, input) = transformer(&sizes, 3);
            program.validate().unwrap();
            weights.check(&program).unwrap();
            let [Tie { node, to: 0 }] = program.ties[..] else {
                panic!("{:?}", program.ties);
            };
            let table = &weights.layers[0].weights;
            let read = program.nodes[node as usize].op.inputs()[0];
            let model = CompiledModel {
                program: program.clone(),
                weights: weights.clone(),
            };
            let model = model.checked().unwrap();
            let trace = execute_tensor(&model, input).unwrap();
            let hidden = trace.tensors()[read.index()].widened();
            let scores = trace.tensors()[node as usize + 1].widened();
            assert_eq!(scores.len(), 32 * rows);
            for (scores, hidden) in scores.chunks(32).zip(hidden.chunks(16)) {
                for (score, row) in scores.iter().zip(table.chunks(16)) {
                    let products = row.iter().zip(hidden).map(|(&w, x)| i32::from(w) * x);
                    assert_eq!(*score, products.sum::<i32>());
                }
            }
            let greatest = scores.chunks(32).map(|row| {
                let first = row
                    .iter()
                    .max()
                    .and_then(|most| row.iter().position(|v| v == most));
                i32::try_from(first.unwrap()).unwrap()
            });
            let expected = match output {
                Output::Likeliest => greatest.collect(),
                _ => scores.clone(),
            };
            assert_eq!(trace.output().widened(), expected);
        }
    }
}
