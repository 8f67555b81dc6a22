//! Reals to the integers that a model takes, and its output's bytes to integers.

use crate::program::{Coding, InputSpec, Program};
use crate::shape::{ElementType, Shape};
use crate::tensor::IntTensor;

/// Why values are not an input of a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// Another number of values.
    #[error("the input has {got} values, the model takes {expected}")]
    Length {
        /// The model's.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// A value that is infinite or no number.
    #[error("the input's value at index {index} is not a finite number")]
    NotFinite {
        /// Where.
        index: usize,
    },
    /// A value that is no token.
    #[error(
        "the input has {value} at index {index}; the model takes whole numbers from 0 to {greatest}"
    )]
    Token {
        /// Where.
        index: usize,
        /// The value.
        value: f32,
        /// The greatest token.
        greatest: u32,
    },
}

/// The integers of real values in storage order, by the input's coding: scaled values
/// `clamp(floor(x / scale + 1/2), low, high)` in double precision, by one unit or by the channel's own, ranks among
/// thresholds, or tokens.
///
/// # Errors
/// If there are more or fewer values than the model takes, or one is no token where tokens are expected.
pub fn encode(spec: &InputSpec, reals: &[f32]) -> Result<IntTensor, EncodeError> {
    let expected = spec.shape.elements();
    if reals.len() != expected {
        return Err(EncodeError::Length {
            expected,
            got: reals.len(),
        });
    }
    Ok(match &spec.coding {
        Coding::Scaled(ElementType::I8) => IntTensor::I8(quantise(spec, reals)),
        Coding::Scaled(_) => {
            let narrow = |x: &f32| wide(scaled(spec.scale, *x));
            IntTensor::I16(reals.iter().map(narrow).collect())
        }
        Coding::PerChannel(units) => {
            let narrow = |(index, x): (usize, &f32)| wide(scaled(units[index % units.len()], *x));
            IntTensor::I16(reals.iter().enumerate().map(narrow).collect())
        }
        Coding::Ranks(thresholds) => {
            let rank = |(index, &x): (usize, &f32)| {
                let below = thresholds[index % thresholds.len()].partition_point(|&t| t < x);
                i16::try_from(below).expect("a feature has at most 32,767 thresholds")
            };
            IntTensor::I16(reals.iter().enumerate().map(rank).collect())
        }
        Coding::Tokens(vocabulary) => {
            let token = |(index, &value): (usize, &f32)| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_precision_loss,
                    reason = "a vocabulary is below 2^20; other values are refused"
                )]
                let (token, limit) = (value as i32, *vocabulary as f32);
                let whole = (0.0..limit).contains(&value) && value.fract() == 0.0;
                whole.then_some(token).ok_or(EncodeError::Token {
                    index,
                    value,
                    greatest: vocabulary - 1,
                })
            };
            let tokens = reals.iter().enumerate().map(token);
            IntTensor::I32(tokens.collect::<Result<_, _>>()?)
        }
    })
}

/// How many of these values, in storage order, lie beyond what a scaled coding reaches, so that [`encode`] cuts them off. A unit reaches as
/// far as the inputs that a program was calibrated on.
#[must_use]
pub fn cut_off(spec: &InputSpec, reals: &[f32]) -> usize {
    let ends = match &spec.coding {
        Coding::Scaled(ElementType::I8) => [-128.0, 127.0],
        Coding::Scaled(_) | Coding::PerChannel(_) => [f64::from(-i16::MAX), f64::from(i16::MAX)],
        Coding::Ranks(_) | Coding::Tokens(_) => return 0,
    };
    let channels = spec.shape.channels.max(1) as usize;
    let is_cut = |(index, x): &(usize, &f32)| {
        let units = scaled(spec.unit(index % channels), **x);
        units < ends[0] || units > ends[1]
    };
    reals.iter().enumerate().filter(is_cut).count()
}

/// Values that come without axes in storage order: an image comes channels first, as ONNX has it; a sequence (one column)
/// position by position, which is as it is stored.
///
/// # Errors
/// If there are more or fewer values than the shape has elements, or one is not finite.
pub fn in_storage_order(shape: Shape, reals: &[f32]) -> Result<Vec<f32>, EncodeError> {
    let (expected, got) = (shape.elements(), reals.len());
    if got != expected {
        return Err(EncodeError::Length { expected, got });
    }
    if let Some(index) = reals.iter().position(|value| !value.is_finite()) {
        return Err(EncodeError::NotFinite { index });
    }
    if shape.width == 1 {
        return Ok(reals.to_vec());
    }
    let order = channels_first(shape);
    Ok(order.iter().map(|&at| reals[at as usize]).collect())
}

/// Per element in storage order (row, column, channel) its index in an array of channels, rows and columns.
///
/// # Panics
/// If the shape has 2^32 pixels or more; one of a valid program has at most 2^26 elements.
#[must_use]
pub fn channels_first(shape: Shape) -> Vec<u32> {
    let pixels = u32::try_from(shape.pixels()).expect("a shape has at most 2^26 elements");
    let of_pixel = |pixel: u32| (0..shape.channels).map(move |channel| channel * pixels + pixel);
    (0..pixels).flat_map(of_pixel).collect()
}

/// The integers of the outputs, of one inference or of several one after the other, from their bytes, see
/// [`crate::Answer::new`]; nothing if these are not whole inferences of the program.
#[must_use]
pub fn output_of(program: &Program, bytes: &[u8]) -> Option<Vec<i32>> {
    let mut values = Vec::new();
    let mut rest = bytes;
    let all = program.output_bytes();
    if !bytes.len().is_multiple_of(all) {
        return None;
    }
    let outputs = program.outputs().into_iter();
    let outputs: Vec<_> = outputs
        .map(|id| (program.element_type(id), program.shape(id).elements()))
        .collect();
    while !rest.is_empty() {
        for &(kind, elements) in &outputs {
            let (own, others) = rest.split_at_checked(elements * kind.bytes())?;
            values.extend(IntTensor::from_bytes(kind, own)?.widened());
            rest = others;
        }
    }
    Some(values)
}

fn scaled(unit: f32, x: f32) -> f64 {
    (f64::from(x) / f64::from(unit) + 0.5).floor()
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to 16 bits")]
fn wide(units: f64) -> i16 {
    let limit = f64::from(i16::MAX);
    units.clamp(-limit, limit) as i16
}

/// The integers of real values for an input of scaled i8: `clamp(floor(x / scale + 1/2), -128, 127)`.
#[must_use]
pub fn quantise(spec: &InputSpec, reals: &[f32]) -> Vec<i8> {
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 8 bits")]
    let narrow = |x: &f32| scaled(spec.scale, *x).clamp(-128.0, 127.0) as i8;
    reals.iter().map(narrow).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn quantising_rounds_half_up_and_saturates() {
        let spec = InputSpec::scaled(Shape::vector(1), 0.5);
        let check = |x: f32, q: i8| assert_eq!(quantise(&spec, &[x]), [q], "{x}");
        check(0.0, 0);
        check(0.24, 0);
        check(0.25, 1);
        check(-0.25, 0);
        check(-0.26, -1);
        check(63.5, 127);
        check(1e30, 127);
        check(-1e30, -128);
    }

    fn spec(shape: Shape, coding: Coding) -> InputSpec {
        InputSpec {
            coding,
            ..InputSpec::scaled(shape, 0.5)
        }
    }

    #[test]
    fn wide_inputs_are_rounded_and_clamped_to_sixteen_bits() {
        let spec = spec(Shape::vector(4), Coding::Scaled(ElementType::I16));
        let got = encode(&spec, &[100.0, -0.26, 1e9, -1e9]).unwrap();
        assert_eq!(got, IntTensor::I16(vec![200, -1, 32_767, -32_767]));
    }

    #[test]
    fn values_beyond_the_reach_are_counted() {
        let narrow = InputSpec::scaled(Shape::vector(5), 0.5);
        assert_eq!(cut_off(&narrow, &[63.5, -64.0, 0.0, 64.0, -64.5]), 2);
        let wide = spec(Shape::vector(3), Coding::Scaled(ElementType::I16));
        assert_eq!(cut_off(&wide, &[16_383.5, 16_384.0, -1e9]), 2);
        let channels = Coding::PerChannel(vec![0.5, 100.0]);
        let channels = spec(Shape::new(2, 1, 2), channels);
        assert_eq!(cut_off(&channels, &[20_000.0, 20_000.0, 0.0, -4e6]), 2);
        let tokens = spec(Shape::new(1, 1, 1), Coding::Tokens(10));
        assert_eq!(cut_off(&tokens, &[1e9]), 0);
    }

    #[test]
    fn channels_have_units_of_their_own() {
        let spec = spec(Shape::new(2, 1, 2), Coding::PerChannel(vec![0.5, 100.0]));
        assert!(spec.coding_is_valid());
        assert_eq!([spec.unit(0), spec.unit(1)], [0.5, 100.0]);
        let got = encode(&spec, &[100.0, 250.0, -1e9, -149.0]).unwrap();
        assert_eq!(got, IntTensor::I16(vec![200, 3, -32_767, -1]));
        for units in [
            vec![1.0],
            vec![1.0, 0.0],
            vec![1.0, -1.0],
            vec![1.0, f32::INFINITY],
        ] {
            let coding = Coding::PerChannel(units);
            let other = InputSpec {
                coding,
                ..spec.clone()
            };
            assert!(!other.coding_is_valid(), "{:?}", other.coding);
        }
    }

    #[test]
    fn ranks_count_the_thresholds_below() {
        let thresholds = vec![vec![-1.0, 0.0, 2.5], vec![]];
        let spec = spec(Shape::new(2, 1, 2), Coding::Ranks(thresholds));
        let got = encode(&spec, &[-1.0, 9.0, 2.6, -9.0]).unwrap();
        assert_eq!(got, IntTensor::I16(vec![0, 0, 3, 0]));
    }

    #[test]
    fn tokens_are_whole_numbers_of_the_vocabulary() {
        let spec = spec(Shape::new(3, 1, 1), Coding::Tokens(10));
        assert_eq!(
            encode(&spec, &[0.0, 9.0, 3.0]),
            Ok(IntTensor::I32(vec![0, 9, 3]))
        );
        for bad in [10.0, -1.0, 0.5, f32::NAN] {
            let refused = encode(&spec, &[0.0, bad, 1.0]).unwrap_err();
            assert!(refused.to_string().contains("from 0 to 9"), "{refused}");
        }
        let short = encode(&spec, &[0.0]).unwrap_err();
        assert_eq!(
            short,
            EncodeError::Length {
                expected: 3,
                got: 1
            }
        );
    }
}
