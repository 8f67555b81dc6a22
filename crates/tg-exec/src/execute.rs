//! Execution of a program: every tensor it computes, and their digest.

use crate::engine::Engine;
pub use crate::engine::input::{ExecuteError, check_input};
use crate::kernels::Cpu;
pub use crate::trace::Trace;
use tg_ir::{ExecutableModel, IntTensor};

/// Executes a model that takes 8-bit activations on one input (quantised, in storage order).
///
/// # Errors
/// If the input has another length than the model's input shape, or the model takes another type.
pub fn execute(model: &ExecutableModel, input: &[i8]) -> Result<Trace, ExecuteError> {
    execute_tensor(model, IntTensor::I8(input.to_vec()))
}

/// Executes a model on one input (quantised, in storage order).
///
/// # Errors
/// If the input is not one that the model takes: its length, type or a value.
pub fn execute_tensor(model: &ExecutableModel, input: IntTensor) -> Result<Trace, ExecuteError> {
    Engine::for_trace(model, Cpu::default()).into_trace(input)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::sample;
    use proptest::prelude::*;
    use tg_ir::{CompiledModel, scalar};

    /// Every element of every tensor is what the scalar semantics say.
    fn check(model: &CompiledModel, input: &[i8]) {
        let trace = execute(&model.clone().checked().unwrap(), input).unwrap();
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
            execute(&model.checked().unwrap(), &input[1..]),
            Err(ExecuteError::InputLength {
                expected,
                got: expected - 1
            })
        );
    }

    #[test]
    fn the_digest_depends_on_every_tensor() {
        let (model, input) = sample::random_model(11);
        let model = model.checked().unwrap();
        let trace = execute(&model, &input).unwrap();
        let digest = trace.digest();
        for index in 1..trace.tensors().len() {
            let mut tensors = trace.tensors().to_vec();
            match &mut tensors[index] {
                IntTensor::I8(values) => values[0] ^= 1,
                IntTensor::I16(values) => values[0] ^= 1,
                IntTensor::I32(values) => values[0] ^= 1,
            }
            let other = Trace::new(&model.program, tensors);
            assert_ne!(other.digest(), digest, "tensor {index}");
        }
    }
}
