//! What an engine takes as an input.

use super::values::Values;
use tg_ir::{Coding, ElementType, Program};

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

/// Whether a tensor is an input of a program.
///
/// # Errors
/// [`ExecuteError`] says how they differ.
pub fn check_input(program: &Program, input: Values<'_>) -> Result<(), ExecuteError> {
    let elements = program.input.shape.elements();
    if program.input.element_type() == input.element_type() && input.len() != elements {
        return Err(ExecuteError::InputLength {
            expected: elements,
            got: input.len(),
        });
    }
    check_elements(program, input)
}

/// Whether pixels are ones that an input of a program may have.
pub(super) fn check_elements(program: &Program, input: Values<'_>) -> Result<(), ExecuteError> {
    let (expected, got) = (program.input.element_type(), input.element_type());
    if expected != got {
        return Err(ExecuteError::InputType { expected, got });
    }
    let shape = program.input.shape;
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
