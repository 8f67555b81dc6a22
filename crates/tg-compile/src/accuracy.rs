//! How often a compiled model is right, beside the float model it came from.

use crate::calibrate::CalibrationError;
use crate::compile::Compiled;
use tg_exec::engine::Engine;
use tg_exec::engine::values::Values;
use tg_exec::kernels::Cpu;
use tg_ir::coding;
use tg_ir::tensor::top_class;

/// Right answers of a float model and of the integer model compiled from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accuracy {
    /// Labelled samples.
    pub samples: usize,
    /// Of these, how many the float model classifies as labelled.
    pub float_right: usize,
    /// How many the integer model classifies as labelled.
    pub integer_right: usize,
    /// How many both give the same class.
    pub agree: usize,
}

impl Accuracy {
    /// Samples that the float model has right, less those that the integer model has right.
    #[must_use]
    pub const fn drop(&self) -> usize {
        self.float_right.saturating_sub(self.integer_right)
    }
}

/// Runs both models on labelled samples (reals in storage order, class).
///
/// # Errors
/// If a sample does not fit the model.
pub fn compare(
    compiled: &Compiled,
    samples: &[(Vec<f32>, usize)],
) -> Result<Accuracy, CalibrationError> {
    let spec = &compiled.model.program.input;
    let mut engine = Engine::new(&compiled.model, Cpu::new(1));
    let mut accuracy = Accuracy::default();
    for (index, (row, label)) in samples.iter().enumerate() {
        let integers = coding::encode(spec, row)
            .map_err(|source| CalibrationError::Encode { index, source })?;
        let float = compiled
            .float_output(row)
            .map_err(|source| CalibrationError::Input { index, source })?;
        let float = float_class(&float);
        let output = engine
            .run(Values::from(&integers))
            .expect("an encoded row is an input of the program")
            .to_tensor();
        let integer = top_class(&compiled.in_file_order(&output)).unwrap_or(0);
        accuracy.samples += 1;
        accuracy.float_right += usize::from(float == *label);
        accuracy.integer_right += usize::from(integer == *label);
        accuracy.agree += usize::from(integer == float);
    }
    Ok(accuracy)
}

/// The class with the greatest value; of equal ones the lowest index.
#[must_use]
pub fn float_class(values: &[f32]) -> usize {
    let better = |best: usize, index: usize| {
        if values[index] > values[best] {
            index
        } else {
            best
        }
    };
    (0..values.len()).reduce(better).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_take_the_lowest_class() {
        assert_eq!(float_class(&[0.5, 1.0, 1.0, -2.0]), 1);
        assert_eq!(float_class(&[]), 0);
    }

    #[test]
    fn a_gain_is_no_drop() {
        let accuracy = Accuracy {
            samples: 10,
            float_right: 8,
            integer_right: 9,
            agree: 9,
        };
        assert_eq!(accuracy.drop(), 0);
    }
}
