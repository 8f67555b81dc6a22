//! The models of the benchmark suite: known architectures with weights from a seed.
//!
//! Weights are bell-shaped and reach the ends of their range, as trained ones do; every requantisation is calibrated
//! on one random input, layer by layer, and declares the range that interval arithmetic proves.

mod gpt;
mod net;
mod recurrent;

pub use gpt::WriterSizes;
pub use net::random_input;
use net::{Net, RELU, square};
use tg_ir::IntTensor;
use tg_ir::{CompiledModel, Shape, TensorId};

/// A model of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 13-1: a linear regression.
    LinearRegression,
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
    /// A transformer that predicts the next of 256 characters after each of 64: 4 layers of 64 channels and 4 heads.
    Gpt250k,
    /// An LSTM of 128 states that reads 28 rows of 28 numbers, and a layer that gives scores of 10 classes after the last.
    Lstm,
    /// ViT-Tiny without its class token, for 224 x 224 images: 196 patches, 12 layers of 192 channels and 3 heads; the first
    /// patch's scores of 1,000 classes.
    VitTiny,
    /// BERT-base on 128 tokens: 12 layers of 768 channels and 12 heads, 110M parameters, normalised before each block as GPT-2
    /// is; the states after the last layer.
    BertBase,
    /// GPT-2 small on 16 tokens: 12 layers of 768 channels and 12 heads, 124M parameters, the embedding of its whole
    /// vocabulary, and an output layer with the embedding's weights. Its output is the most likely next token after each.
    Gpt2,
    /// The same on 512 tokens; its output is the scores of all tokens after the last one.
    Gpt2Of512,
}

impl Architecture {
    /// All of them, the smallest first.
    pub const ALL: [Self; 13] = [
        Self::LinearRegression,
        Self::Mlp,
        Self::LeNet,
        Self::Cnn264k,
        Self::Dense4M,
        Self::Vgg16,
        Self::ResNet18,
        Self::Gpt250k,
        Self::Lstm,
        Self::VitTiny,
        Self::BertBase,
        Self::Gpt2,
        Self::Gpt2Of512,
    ];

    /// What the tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinearRegression => "linear regression 13-1",
            Self::Mlp => "MLP 64-32-10",
            Self::LeNet => "LeNet-28",
            Self::Cnn264k => "CNN 264k",
            Self::Dense4M => "dense 4M",
            Self::Vgg16 => "VGG-16 CIFAR",
            Self::ResNet18 => "ResNet-18 224",
            Self::Gpt250k => "GPT 0.25M, 64 tokens",
            Self::Lstm => "LSTM 128, 28 steps",
            Self::VitTiny => "ViT-Tiny, 196 patches",
            Self::BertBase => "BERT-base 110M, 128 tokens",
            Self::Gpt2 => "GPT-2 124M, 16 tokens: next token after each",
            Self::Gpt2Of512 => "GPT-2 124M, 512 tokens: scores after the last",
        }
    }

    /// The model of a seed, and the input it was calibrated on.
    #[must_use]
    pub fn model(self, seed: u64) -> (CompiledModel, IntTensor) {
        match self {
            Self::LinearRegression => regression(seed),
            Self::Mlp => mlp(seed),
            Self::LeNet => lenet(seed),
            Self::Cnn264k => cnn(seed),
            Self::Dense4M => dense(seed),
            Self::Vgg16 => vgg(seed),
            Self::ResNet18 => resnet(seed),
            Self::Gpt250k => gpt::small(seed),
            Self::Lstm => recurrent::lstm(seed),
            Self::VitTiny => gpt::vit_tiny(seed),
            Self::BertBase => gpt::bert_base(seed),
            Self::Gpt2 => gpt::gpt2_likeliest(16, seed),
            Self::Gpt2Of512 => gpt::gpt2_scores(512, seed),
        }
    }
}

/// The least transformer: 1 layer of 16 channels and 2 heads over 8 tokens of 32, which gives a score for each. For tests.
#[must_use]
pub fn tiny_transformer(seed: u64) -> (CompiledModel, IntTensor) {
    gpt::tiny(seed)
}

/// A transformer that gives a score for each token after each position, with weights from a seed.
#[must_use]
pub fn writing_transformer(sizes: &WriterSizes, seed: u64) -> (CompiledModel, IntTensor) {
    gpt::writer(sizes, seed)
}

fn regression(seed: u64) -> (CompiledModel, IntTensor) {
    let mut net = Net::new("regression", Shape::vector(13), seed);
    net.dense(TensorId::INPUT, 1);
    net.finish()
}

fn mlp(seed: u64) -> (CompiledModel, IntTensor) {
    let mut net = Net::new("mlp", Shape::vector(64), seed);
    let hidden = net.dense_relu(TensorId::INPUT, 32);
    net.dense(hidden, 10);
    net.finish()
}

fn lenet(seed: u64) -> (CompiledModel, IntTensor) {
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

fn cnn(seed: u64) -> (CompiledModel, IntTensor) {
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

fn dense(seed: u64) -> (CompiledModel, IntTensor) {
    let mut net = Net::new("dense-4m", Shape::vector(4), seed);
    let mut at = TensorId::INPUT;
    for _ in 0..5 {
        at = net.dense_relu(at, 1_024);
    }
    net.dense(at, 3);
    net.finish()
}

fn vgg(seed: u64) -> (CompiledModel, IntTensor) {
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

fn resnet(seed: u64) -> (CompiledModel, IntTensor) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::{execute_tensor, range};

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
            (Architecture::Gpt250k, 237_184),
        ] {
            let (model, input) = architecture.model(7);
            model.program.validate().unwrap();
            model.weights.check(&model.program).unwrap();
            assert_eq!(parameters(&model), count, "{}", architecture.name());
            let model = model.checked().unwrap();
            let trace = execute_tensor(&model, input).unwrap();
            for (node, tensor) in model.program.nodes.iter().zip(&trace.tensors()[1..]) {
                let values = tensor.widened();
                let live = values.iter().filter(|&&value| value != 0).count();
                assert!(live * 4 > values.len(), "{} is all but zero", node.name);
            }
            assert_eq!(range::first_violation(&model), None);
            assert_eq!(range::check(&model), Ok(()));
        }
    }

    #[test]
    fn a_seed_gives_one_model() {
        let (model, input) = Architecture::LeNet.model(1);
        assert_eq!((model.clone(), input), Architecture::LeNet.model(1));
        assert_ne!(model, Architecture::LeNet.model(2).0);
    }
}
