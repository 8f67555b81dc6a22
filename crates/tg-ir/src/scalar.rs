//! The meaning of each operator, one output element at a time.
//!
//! This is what a dispute re-executes and what every fast executor is compared with. It is written to be read, not
//! to be fast.

use crate::program::{Op, Program, TensorId};
use crate::weights::Weights;

/// The tensors of an execution, widened to 32 bits; index 0 is the input.
pub type Tensors = [Vec<i32>];

/// The value of one output element of a node.
///
/// `element` counts in storage order (row, column, channel). `tensors` holds every tensor the node reads.
///
/// # Panics
/// If the program is not valid, the weights are not its own, or a tensor is missing.
#[must_use]
pub fn element(
    program: &Program,
    weights: &Weights,
    node: usize,
    element: usize,
    tensors: &Tensors,
) -> i32 {
    let description = &program.nodes[node];
    let shape = description.shape;
    let channels = shape.channels as usize;
    let (pixel, channel) = (element / channels, element % channels);
    let (row, column) = (pixel as u32 / shape.width, pixel as u32 % shape.width);
    let read = |tensor: TensorId, pixel: usize, channel: usize| {
        i64::from(
            tensors[tensor.index()][pixel * program.shape(tensor).channels as usize + channel],
        )
    };
    let value = match &description.op {
        Op::Conv { input, window } => {
            let layer = weights
                .of_node(program, node)
                .expect("a convolution has weights");
            let inputs = program.shape(*input).channels as usize;
            let kernel = &layer.weights[channel * window.positions() * inputs..]
                [..window.positions() * inputs];
            let mut sum = i64::from(layer.bias[channel]);
            for position in 0..window.positions() {
                if let Some(source) = window.source(program.shape(*input), row, column, position) {
                    for i in 0..inputs {
                        sum += i64::from(kernel[position * inputs + i]) * read(*input, source, i);
                    }
                }
            }
            sum
        }
        Op::Dense { input } => {
            let layer = weights
                .of_node(program, node)
                .expect("a dense node has weights");
            let values = &tensors[input.index()];
            let row = &layer.weights[channel * values.len()..][..values.len()];
            let products = row
                .iter()
                .zip(values)
                .map(|(&weight, &value)| i64::from(weight) * i64::from(value));
            i64::from(layer.bias[channel]) + products.sum::<i64>()
        }
        Op::WindowSum { input, window } => (0..window.positions())
            .filter_map(|position| window.source(program.shape(*input), row, column, position))
            .map(|source| read(*input, source, channel))
            .sum(),
        Op::Add {
            inputs,
            multipliers,
        } => {
            let term = |i: usize| {
                i64::from(tensors[inputs[i].index()][element]) * i64::from(multipliers[i])
            };
            term(0) + term(1)
        }
        Op::Requantise { input, how } => {
            let rescale = how.pairs[usize::from(how.pair_of(channel))];
            i64::from(how.output(rescale, i64::from(tensors[input.index()][element])))
        }
        Op::MaxPool { input, window } => (0..window.positions())
            .filter_map(|position| window.source(program.shape(*input), row, column, position))
            .map(|source| read(*input, source, channel))
            .max()
            .expect("a valid window covers at least one pixel"),
        Op::Permute { input, source } => {
            i64::from(tensors[input.index()][source[element] as usize])
        }
    };
    i32::try_from(value).expect("the program's bounds keep every value in 32 bits")
}
