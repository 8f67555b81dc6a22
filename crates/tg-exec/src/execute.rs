//! Execution of a program: every tensor it computes, and their digest.

use crate::engine::Engine;
use crate::engine::values::Values;
use crate::kernels::Cpu;
use tg_ir::tensor::top_class;
use tg_ir::{Coding, CompiledModel, ElementType, IntTensor, Program, TensorId};
use tg_types::{Digest, domain::Domain};

/// Every tensor of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    tensors: Vec<IntTensor>,
}

impl Trace {
    /// The tensors of one execution, the input first.
    #[must_use]
    pub const fn from_tensors(tensors: Vec<IntTensor>) -> Self {
        Self { tensors }
    }

    /// A tensor of the program.
    ///
    /// # Panics
    /// If the program has no such tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &IntTensor {
        &self.tensors[id.index()]
    }

    /// All tensors; index 0 is the input, `i + 1` the output of node `i`.
    #[must_use]
    pub fn tensors(&self) -> &[IntTensor] {
        &self.tensors
    }

    /// The program's output.
    ///
    /// # Panics
    /// Never: a trace holds at least the input.
    #[must_use]
    pub fn output(&self) -> &IntTensor {
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
    /// An input of another type.
    #[error("the model takes an input of {expected:?} elements, got {got:?}")]
    InputType {
        /// The model's.
        expected: ElementType,
        /// The tensor's.
        got: ElementType,
    },
    /// An input element that the input's coding never gives.
    #[error(
        "the input has the value {value} at index {index}, which the model's input does not admit"
    )]
    InputValue {
        /// Where.
        index: usize,
        /// What.
        value: i32,
    },
}

/// Executes a model that takes 8-bit activations on one input (quantised, in storage order).
///
/// # Errors
/// If the input has another length than the model's input shape, or the model takes another type.
///
/// # Panics
/// As [`execute_tensor`].
pub fn execute(model: &CompiledModel, input: &[i8]) -> Result<Trace, ExecuteError> {
    execute_tensor(model, IntTensor::I8(input.to_vec()))
}

/// Executes a model on one input (quantised, in storage order).
///
/// # Errors
/// If the input is not one that the model takes: its length, type or a value.
///
/// # Panics
/// If the model is not valid: check it with [`Program::validate`] and [`tg_ir::Weights::check`], as
/// [`CompiledModel::read`] does.
pub fn execute_tensor(model: &CompiledModel, input: IntTensor) -> Result<Trace, ExecuteError> {
    Engine::for_trace(model, Cpu::default()).into_trace(input)
}

/// Whether a tensor is an input of a program.
pub fn check_input(program: &Program, input: Values<'_>) -> Result<(), ExecuteError> {
    let (expected, got) = (program.input.element_type(), input.element_type());
    if expected != got {
        return Err(ExecuteError::InputType { expected, got });
    }
    let shape = program.input.shape;
    if input.len() != shape.elements() {
        return Err(ExecuteError::InputLength {
            expected: shape.elements(),
            got: input.len(),
        });
    }
    if program.input.coding == Coding::Scaled(ElementType::I8) {
        // Every value of the type.
        return Ok(());
    }
    let channels = shape.channels as usize;
    let foreign = (0..input.len())
        .map(|index| (index, input.at(index)))
        .find(|&(index, value)| !program.input.admits(index % channels, value));
    match foreign {
        Some((index, value)) => Err(ExecuteError::InputValue { index, value }),
        None => Ok(()),
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
        let widened: Vec<Vec<i32>> = trace.tensors().iter().map(IntTensor::widened).collect();
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
                IntTensor::I8(values) => values[0] ^= 1,
                IntTensor::I16(values) => values[0] ^= 1,
                IntTensor::I32(values) => values[0] ^= 1,
            }
            assert_ne!(other.digest(), digest, "tensor {index}");
        }
    }
}
