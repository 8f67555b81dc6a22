//! Execution of a program: every tensor it computes, and their digest.

use crate::kernel;
use tg_ir::{CompiledModel, Op, Program, TensorId};
use tg_types::{Digest, domain::Domain};

/// The elements of a tensor, in storage order (row, column, channel).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tensor {
    /// Activations.
    I8(Vec<i8>),
    /// Accumulators.
    I32(Vec<i32>),
}

impl Tensor {
    /// The activations, or nothing if these are accumulators.
    #[must_use]
    pub fn activations(&self) -> Option<&[i8]> {
        match self {
            Self::I8(values) => Some(values),
            Self::I32(_) => None,
        }
    }

    /// The accumulators, or nothing if these are activations.
    #[must_use]
    pub fn accumulators(&self) -> Option<&[i32]> {
        match self {
            Self::I8(_) => None,
            Self::I32(values) => Some(values),
        }
    }

    /// The elements widened to 32 bits.
    #[must_use]
    pub fn widened(&self) -> Vec<i32> {
        match self {
            Self::I8(values) => values.iter().map(|&value| i32::from(value)).collect(),
            Self::I32(values) => values.clone(),
        }
    }

    /// One byte per activation, four (little-endian) per accumulator.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::I8(values) => values.iter().map(|value| value.cast_unsigned()).collect(),
            Self::I32(values) => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        }
    }
}

/// Every tensor of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    tensors: Vec<Tensor>,
}

impl Trace {
    /// A tensor of the program.
    ///
    /// # Panics
    /// If the program has no such tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// All tensors; index 0 is the input, `i + 1` the output of node `i`.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The program's output.
    ///
    /// # Panics
    /// Never: a trace holds at least the input.
    #[must_use]
    pub fn output(&self) -> &Tensor {
        self.tensors.last().expect("a trace holds the input")
    }

    /// The output as bytes: one per activation, four (little-endian) per accumulator.
    #[must_use]
    pub fn output_bytes(&self) -> Vec<u8> {
        self.output().to_bytes()
    }

    /// The class with the greatest output; of equal ones the lowest index.
    ///
    /// # Panics
    /// Never: a valid program has at least one output element.
    #[must_use]
    pub fn top_class(&self) -> usize {
        top_class(&self.output().widened()).expect("an output has elements")
    }

    /// The root over all node outputs.
    ///
    /// Each node output is hashed by BLAKE3, which is itself a Merkle tree over contiguous leaves of 1 KiB, so that a
    /// leaf can be opened; the root hashes the nodes' digests in order under [`Domain::Trace`].
    #[must_use]
    pub fn digest(&self) -> Digest {
        let roots: Vec<u8> = self.tensors[1..]
            .iter()
            .flat_map(|tensor| *Digest::of_blob(&tensor.to_bytes()).as_bytes())
            .collect();
        Digest::of(Domain::Trace, &roots)
    }
}

/// The index of the greatest value, the lowest one of equal values, or nothing for an empty list.
#[must_use]
pub fn top_class(values: &[i32]) -> Option<usize> {
    let greatest = values.iter().max()?;
    values.iter().position(|value| value == greatest)
}

/// Why a program cannot be executed on an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// An input of another length.
    #[error("the input has {got} values, the model takes {expected}")]
    InputLength {
        /// Elements of the input shape.
        expected: usize,
        /// Elements given.
        got: usize,
    },
}

/// Executes a model on one input (quantised, in storage order).
///
/// # Errors
/// If the input has another length than the model's input shape.
///
/// # Panics
/// If the model is not valid: check it with [`Program::validate`] and [`tg_ir::Weights::check`], as
/// [`CompiledModel::read`] does.
pub fn execute(model: &CompiledModel, input: &[i8]) -> Result<Trace, ExecuteError> {
    let program = &model.program;
    let expected = program.input.shape.elements();
    if input.len() != expected {
        return Err(ExecuteError::InputLength {
            expected,
            got: input.len(),
        });
    }
    let mut tensors = Vec::with_capacity(program.nodes.len() + 1);
    tensors.push(Tensor::I8(input.to_vec()));
    let mut layers = model.weights.layers.iter();
    for node in 0..program.nodes.len() {
        let layer = program.nodes[node]
            .op
            .has_weights()
            .then(|| layers.next().expect("each weighted node has its weights"));
        let tensor = run_node(program, node, layer, &tensors);
        tensors.push(tensor);
    }
    Ok(Trace { tensors })
}

pub(crate) fn run_node(
    program: &Program,
    node: usize,
    layer: Option<&tg_ir::LinearWeights>,
    tensors: &[Tensor],
) -> Tensor {
    let description = &program.nodes[node];
    let output = description.shape;
    let activations = |id: TensorId| {
        tensors[id.index()]
            .activations()
            .expect("a valid program reads activations here")
    };
    let layer = || layer.expect("a linear node has weights");
    match &description.op {
        Op::Conv { input, window } => Tensor::I32(kernel::convolve(
            activations(*input),
            program.shape(*input),
            window,
            layer(),
            output,
        )),
        Op::Dense { input } => Tensor::I32(kernel::multiply(activations(*input), layer())),
        Op::WindowSum { input, window } => Tensor::I32(kernel::sum_windows(
            activations(*input),
            program.shape(*input),
            window,
            output,
        )),
        Op::Add {
            inputs,
            multipliers,
        } => Tensor::I32(kernel::add(inputs.map(activations), *multipliers)),
        Op::Requantise { input, how } => Tensor::I8(match &tensors[input.index()] {
            Tensor::I8(values) => kernel::requantise(values, how, output),
            Tensor::I32(values) => kernel::requantise(values, how, output),
        }),
        Op::MaxPool { input, window } => Tensor::I8(kernel::max_pool(
            activations(*input),
            program.shape(*input),
            window,
            output,
        )),
        Op::Permute { input, source } => {
            let values = activations(*input);
            Tensor::I8(source.iter().map(|&index| values[index as usize]).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::sample;
    use proptest::prelude::*;
    use tg_ir::scalar;

    /// Every element of every tensor is what the scalar semantics say.
    fn check(model: &CompiledModel, input: &[i8]) {
        let trace = execute(model, input).unwrap();
        let widened: Vec<Vec<i32>> = trace.tensors().iter().map(Tensor::widened).collect();
        for (node, description) in model.program.nodes.iter().enumerate() {
            let got = &widened[node + 1];
            assert_eq!(got.len(), description.shape.elements());
            for (element, &value) in got.iter().enumerate() {
                let expected =
                    scalar::element(&model.program, &model.weights, node, element, &widened);
                assert_eq!(
                    value, expected,
                    "node {node} {:?} element {element}",
                    description.op
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn agrees_with_the_scalar_semantics(seed in any::<u64>()) {
            let (model, input) = sample::random_model(seed);
            check(&model, &input);
        }
    }

    #[test]
    fn refuses_an_input_of_another_length() {
        let (model, input) = sample::random_model(3);
        let expected = input.len();
        assert_eq!(
            execute(&model, &input[1..]),
            Err(ExecuteError::InputLength {
                expected,
                got: expected - 1
            })
        );
    }

    #[test]
    fn the_digest_depends_on_every_tensor() {
        let (model, input) = sample::random_model(11);
        let trace = execute(&model, &input).unwrap();
        let digest = trace.digest();
        for index in 1..trace.tensors.len() {
            let mut other = trace.clone();
            match &mut other.tensors[index] {
                Tensor::I8(values) => values[0] ^= 1,
                Tensor::I32(values) => values[0] ^= 1,
            }
            assert_ne!(other.digest(), digest, "tensor {index}");
        }
    }

    #[test]
    fn ties_take_the_lowest_class() {
        assert_eq!(top_class(&[3, 9, -1, 9]), Some(1));
        assert_eq!(top_class(&[]), None);
    }
}
