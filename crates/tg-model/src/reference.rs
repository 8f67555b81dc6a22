//! The float reference: executes a float graph by the rules of tier TGF-1.
//!
//! Every dot product accumulates in ascending order of its terms (input channel, kernel row, kernel column) from +0,
//! one fused multiply-add per term; the bias is added last. The quantiser calibrates on it and is compared with it.

use crate::graph::{FloatGraph, FloatNode, FloatOp};
use crate::onnx::{image_shape, transposition};
use tg_ir::{Shape, Window};

/// Why a float graph cannot be executed on an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// An input of another length.
    #[error("the input has {got} values, the model takes {expected}")]
    InputLength {
        /// Elements of the input shape.
        expected: usize,
        /// Elements given.
        got: usize,
    },
    /// An input value that is a NaN or an infinity.
    #[error("the input value at index {index} is not finite")]
    InputNotFinite {
        /// Where.
        index: usize,
    },
    /// A node whose output left the range of an f32.
    #[error("node `{node}` gives a value that is not finite for this input")]
    NotFinite {
        /// The node.
        node: String,
    },
}

impl FloatGraph {
    /// Every value of the graph for one input (in the order of the file: channel, row, column); index 0 is the input.
    ///
    /// # Errors
    /// If the input has another length or a value that is not finite, or a node overflows.
    pub fn run(&self, input: &[f32]) -> Result<Vec<Vec<f32>>, ReferenceError> {
        let expected = self.input.iter().product();
        if input.len() != expected {
            return Err(ReferenceError::InputLength {
                expected,
                got: input.len(),
            });
        }
        if let Some(index) = input.iter().position(|value| !value.is_finite()) {
            return Err(ReferenceError::InputNotFinite { index });
        }
        let mut values = vec![input.to_vec()];
        for node in &self.nodes {
            let mut result = self.run_node(node, &values);
            if let Some([low, high]) = node.clamp {
                clip(&mut result, low, high);
            }
            if result.iter().any(|value| !value.is_finite()) {
                return Err(ReferenceError::NotFinite {
                    node: node.name.clone(),
                });
            }
            values.push(result);
        }
        Ok(values)
    }

    /// The output for one input.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn output(&self, input: &[f32]) -> Result<Vec<f32>, ReferenceError> {
        let mut values = self.run(input)?;
        Ok(values.swap_remove(self.output.0))
    }

    fn run_node(&self, node: &FloatNode, values: &[Vec<f32>]) -> Vec<f32> {
        let source = node.inputs[0];
        let input = values[source.0].as_slice();
        let image = || image_of(self.shape(source));
        let output = || image_of(&node.shape);
        match &node.op {
            FloatOp::Conv {
                window,
                weights,
                bias,
            } => convolve(input, image(), window, weights, bias, output()),
            FloatOp::Dense { weights, bias } => {
                let rows = weights.chunks_exact(input.len()).zip(bias);
                rows.map(|(row, bias)| dot(0.0, row.iter().zip(input)) + bias)
                    .collect()
            }
            FloatOp::Affine { scale, shift } => {
                let pixels = input.len() / scale.len();
                let channel = |index: usize| index / pixels % scale.len();
                let each = input.iter().enumerate();
                each.map(|(i, x)| x.mul_add(scale[channel(i)], shift[channel(i)]))
                    .collect()
            }
            FloatOp::Add => {
                let other = &values[node.inputs[1].0];
                input.iter().zip(other).map(|(a, b)| a + b).collect()
            }
            FloatOp::Clip { bounds } => {
                let mut result = input.to_vec();
                clip(&mut result, bounds[0], bounds[1]);
                result
            }
            FloatOp::MaxPool { window } => pool(input, image(), window, output(), |values| {
                values.fold(f32::NEG_INFINITY, f32::max)
            }),
            FloatOp::AveragePool { window } => {
                #[expect(clippy::cast_precision_loss, reason = "at most 64 x 64")]
                let positions = window.positions() as f32;
                pool(input, image(), window, output(), |values| {
                    values.fold(0.0, |sum, value| sum + value) / positions
                })
            }
            FloatOp::Reshape => input.to_vec(),
            FloatOp::Transpose { axes } => {
                let source = transposition(self.shape(source), axes);
                source.into_iter().map(|index| input[index]).collect()
            }
        }
    }
}

fn image_of(shape: &[usize]) -> Shape {
    image_shape(shape).expect("an imported convolution or pooling reads and gives images")
}

fn clip(values: &mut [f32], low: f32, high: f32) {
    for value in values {
        *value = value.max(low).min(high);
    }
}

/// The sum of products, ascending, one fused multiply-add per term.
fn dot<'a>(start: f32, terms: impl Iterator<Item = (&'a f32, &'a f32)>) -> f32 {
    terms.fold(start, |sum, (weight, value)| weight.mul_add(*value, sum))
}

fn convolve(
    values: &[f32],
    input: Shape,
    window: &Window,
    weights: &[f32],
    bias: &[f32],
    output: Shape,
) -> Vec<f32> {
    let inputs = input.channels as usize;
    let positions = window.positions();
    let kernels = weights.chunks_exact(inputs * positions).zip(bias);
    let mut result = Vec::with_capacity(output.elements());
    for (kernel, bias) in kernels {
        for (row, column) in pixels(output) {
            let mut sum = 0.0;
            for (channel, plane) in kernel.chunks_exact(positions).enumerate() {
                let image = &values[channel * input.pixels()..(channel + 1) * input.pixels()];
                let inside = plane.iter().enumerate().filter_map(|(position, weight)| {
                    let source = window.source(input, row, column, position)?;
                    Some((weight, &image[source]))
                });
                sum = dot(sum, inside);
            }
            result.push(sum + bias);
        }
    }
    result
}

fn pool(
    values: &[f32],
    input: Shape,
    window: &Window,
    output: Shape,
    fold: impl Fn(&mut dyn Iterator<Item = f32>) -> f32,
) -> Vec<f32> {
    let mut result = Vec::with_capacity(output.elements());
    for image in values.chunks_exact(input.pixels()) {
        for (row, column) in pixels(output) {
            let mut inside = (0..window.positions())
                .filter_map(|position| window.source(input, row, column, position))
                .map(|source| image[source]);
            result.push(fold(&mut inside));
        }
    }
    result
}

fn pixels(shape: Shape) -> impl Iterator<Item = (u32, u32)> {
    (0..shape.height).flat_map(move |row| (0..shape.width).map(move |column| (row, column)))
}

/// The shape of a value as height, width and channels, channels innermost: `1xCxHxW` as an image, `1xAxB` as rows and
/// columns of one channel, `1xN` as a vector. Nothing for other shapes.
#[must_use]
pub fn storage_shape(shape: &[usize]) -> Option<Shape> {
    let axis = |size: usize| u32::try_from(size).ok();
    let stored = match *shape {
        [1, length] => Shape::vector(axis(length)?),
        [1, rows, columns] => Shape::new(axis(rows)?, axis(columns)?, 1),
        _ => image_shape(shape)?,
    };
    stored.is_valid().then_some(stored)
}

/// Per element in storage order (row, column, channel), its index in the order of the file.
#[must_use]
pub fn storage_order(shape: Shape) -> Vec<u32> {
    let pixels = u32::try_from(shape.pixels()).expect("a shape has at most 2^26 elements");
    (0..pixels)
        .flat_map(|pixel| (0..shape.channels).map(move |channel| channel * pixels + pixel))
        .collect()
}

/// An input in storage order (row, column, channel) as the file orders it (channel, row, column).
///
/// # Panics
/// If the input does not have the shape's number of elements.
#[must_use]
pub fn to_file_order(stored: &[f32], shape: Shape) -> Vec<f32> {
    assert_eq!(stored.len(), shape.elements(), "an input fills its shape");
    let mut result = vec![0.0; stored.len()];
    for (value, index) in stored.iter().zip(storage_order(shape)) {
        result[index as usize] = *value;
    }
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::graph::Value;
    use crate::sample::Numbers;
    use tg_ir::{CompiledModel, InputSpec, LinearWeights, Node, Op, Program, TensorId, Weights};

    fn graph(input: &[usize], op: FloatOp, shape: &[usize]) -> FloatGraph {
        FloatGraph {
            name: "one".to_owned(),
            input: input.to_vec(),
            nodes: vec![FloatNode {
                name: "node".to_owned(),
                operator: "Test".to_owned(),
                op,
                inputs: vec![Value::INPUT],
                shape: shape.to_vec(),
                clamp: None,
            }],
            output: Value(1),
        }
    }

    /// Ascending terms, one rounding each, bias last: another order or a separate product gives other bits.
    #[test]
    fn the_order_of_a_sum_is_fixed() {
        let small = 2f32.powi(-12);
        let weights = [-1.0, 1.0 + small];
        let values = [1.0 + 2.0 * small, 1.0 + small];
        let mut expected = 0.0f32;
        for (weight, value) in weights.iter().zip(values) {
            expected = weight.mul_add(value, expected);
        }
        expected += 0.25;
        let op = FloatOp::Dense {
            weights: weights.to_vec(),
            bias: vec![0.25],
        };
        let got = graph(&[1, 2], op, &[1, 1]).output(&values).unwrap();
        assert_eq!(got[0].to_bits(), expected.to_bits());
        let unfused: f32 = weights.iter().zip(values).map(|(w, v)| w * v).sum();
        assert_ne!(got[0].to_bits(), (unfused + 0.25).to_bits());
    }

    /// On small integers floats are exact, so an imported convolution (channels first) and a program's (channels last)
    /// give the same numbers, whatever the window.
    #[test]
    fn small_integers_agree_with_the_integer_executor() {
        let mut numbers = Numbers::new(21);
        for _ in 0..200 {
            let mut side = |low: i64, high: i64| u32::try_from(numbers.between(low, high)).unwrap();
            let input = Shape::new(side(1, 7), side(1, 7), side(1, 4));
            let kernel = [side(1, 3).min(input.height), side(1, 3).min(input.width)];
            let window = Window::new(
                kernel,
                [side(1, 3), side(1, 3)],
                [0, 1, 0, 1].map(|axis: usize| side(0, 2).min(kernel[axis] - 1)),
            );
            let outputs = side(1, 4);
            let [height, width] = window.output(input).unwrap();
            let output = Shape::new(height, width, outputs);
            let count = outputs as usize * window.positions() * input.channels as usize;
            let mut draw = |count: usize| -> Vec<i8> {
                let small = || i8::try_from(numbers.between(-9, 9)).unwrap();
                std::iter::repeat_with(small).take(count).collect()
            };
            let (weights, bias, x) = (draw(count), draw(outputs as usize), draw(input.elements()));
            check_convolution(input, &window, output, &weights, &bias, &x);
        }
    }

    fn check_convolution(
        input: Shape,
        window: &Window,
        output: Shape,
        weights: &[i8],
        bias: &[i8],
        x: &[i8],
    ) {
        let layer = LinearWeights {
            weights: weights.to_vec(),
            bias: bias.iter().map(|&b| i32::from(b)).collect(),
        };
        let weights_of_program = Weights {
            layers: vec![layer],
        };
        let model = CompiledModel {
            program: Program {
                name: String::new(),
                input: InputSpec::scaled(input, 1.0),
                nodes: vec![Node {
                    name: "conv".to_owned(),
                    op: Op::conv(TensorId::INPUT, *window),
                    shape: output,
                    scale: 1.0,
                }],
                weights_root: weights_of_program.root(),
            },
            weights: weights_of_program,
        };
        model.program.validate().unwrap();
        let integers = crate::execute(&model, x).unwrap().output().widened();

        let (positions, channels) = (window.positions(), input.channels as usize);
        let source = |index: usize| {
            let (kernel, rest) = (
                index / (positions * channels),
                index % (positions * channels),
            );
            let (channel, position) = (rest / positions, rest % positions);
            f32::from(weights[(kernel * positions + position) * channels + channel])
        };
        let op = FloatOp::Conv {
            window: *window,
            weights: (0..weights.len()).map(source).collect(),
            bias: bias.iter().map(|&b| f32::from(b)).collect(),
        };
        let axes =
            |shape: Shape| [1, shape.channels, shape.height, shape.width].map(|a| a as usize);
        let graph = graph(&axes(input), op, &axes(output));
        let stored: Vec<f32> = x.iter().map(|&v| f32::from(v)).collect();
        let floats = graph.output(&to_file_order(&stored, input)).unwrap();
        let order = storage_order(output);
        let floats: Vec<f32> = order.iter().map(|&i| floats[i as usize]).collect();
        let integers: Vec<f32> = integers.iter().map(|&v| v as f32).collect();
        assert_eq!(floats, integers, "{input:?} {window:?}");
    }

    #[test]
    fn orders_are_inverse() {
        let shape = Shape::new(2, 3, 4);
        let stored: Vec<f32> = (0..24u8).map(f32::from).collect();
        let file = to_file_order(&stored, shape);
        assert_eq!(file[..6], [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]);
        let back: Vec<f32> = storage_order(shape)
            .iter()
            .map(|&i| file[i as usize])
            .collect();
        assert_eq!(back, stored);
    }

    #[test]
    fn storage_shapes_are_vectors_and_images() {
        let check = |shape: &[usize], expected| assert_eq!(storage_shape(shape), expected);
        check(&[1, 10], Some(Shape::vector(10)));
        check(&[1, 4, 5], Some(Shape::new(4, 5, 1)));
        check(&[1, 3, 4, 5], Some(Shape::new(4, 5, 3)));
        check(&[2, 10], None);
        check(&[1, 0], None);
        check(&[1, 1 << 17], None);
        check(&[1, 1, 1, 1, 1], None);
    }

    #[test]
    fn bad_inputs_are_named() {
        let relu = FloatOp::Clip {
            bounds: [0.0, f32::INFINITY],
        };
        let graph = graph(&[1, 2], relu, &[1, 2]);
        let length = ReferenceError::InputLength {
            expected: 2,
            got: 3,
        };
        assert_eq!(graph.output(&[0.0; 3]), Err(length));
        let infinite = ReferenceError::InputNotFinite { index: 1 };
        assert_eq!(graph.output(&[0.0, f32::NEG_INFINITY]), Err(infinite));
        assert_eq!(graph.output(&[-1.0, 2.0]), Ok(vec![0.0, 2.0]));
    }
}
