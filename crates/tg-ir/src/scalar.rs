//! The meaning of each operator, one output element at a time.
//!
//! This is what a dispute re-executes and what every fast executor is compared with. It is written to be read, not
//! to be fast.

use crate::op::{Axis, Extremum, Norm, Op, PROBABILITY_ONE, Ranked, Reduction, Relation, Softmax};
use crate::program::{Program, TensorId};
use crate::shape::Shape;
use crate::weights::{NodeWeights, Weights};
use crate::window::Window;

/// The tensors of an execution, widened to 32 bits; index 0 is the input.
pub type Tensors = [Vec<i32>];

/// Where an element lies.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    column: u32,
    channel: u32,
}

impl Place {
    fn of(shape: Shape, element: usize) -> Self {
        let channels = shape.channels as usize;
        let (pixel, channel) = (element / channels, element % channels);
        let narrow = |value: usize| u32::try_from(value).expect("an axis fits 32 bits");
        let width = shape.width as usize;
        Self {
            row: narrow(pixel / width),
            column: narrow(pixel % width),
            channel: narrow(channel),
        }
    }

    const fn with(mut self, axis: Axis, index: u32) -> Self {
        match axis {
            Axis::Rows => self.row = index,
            Axis::Columns => self.column = index,
            Axis::Channels => self.channel = index,
        }
        self
    }

    const fn along(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Rows => self.row,
            Axis::Columns => self.column,
            Axis::Channels => self.channel,
        }
    }
}

/// The tensors a node reads, by place.
struct Reads<'a> {
    program: &'a Program,
    tensors: &'a Tensors,
}

impl Reads<'_> {
    fn at(&self, tensor: TensorId, place: Place) -> i64 {
        let shape = self.program.shape(tensor);
        let pixel = place.row as usize * shape.width as usize + place.column as usize;
        i64::from(
            self.tensors[tensor.index()][pixel * shape.channels as usize + place.channel as usize],
        )
    }

    fn element(&self, tensor: TensorId, element: usize) -> i64 {
        i64::from(self.tensors[tensor.index()][element])
    }

    /// All channels of the pixel of a place.
    fn row(&self, tensor: TensorId, place: Place) -> Vec<i64> {
        (0..self.program.shape(tensor).channels)
            .map(|channel| self.at(tensor, Place { channel, ..place }))
            .collect()
    }
}

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
    let reads = Reads { program, tensors };
    let place = Place::of(program.nodes[node].shape, element);
    let layer = || {
        weights
            .of_node(program, node)
            .expect("a node with weights has some")
    };
    let value = match &program.nodes[node].op {
        Op::Conv { .. } => convolve(&reads, node, layer(), place),
        Op::Dense { input } => {
            let values = &tensors[input.index()];
            let layer = layer();
            let row = &layer.weights[element * values.len()..][..values.len()];
            let products = row
                .iter()
                .zip(values)
                .map(|(&weight, &value)| i64::from(weight) * i64::from(value));
            i64::from(layer.bias[element]) + products.sum::<i64>()
        }
        Op::MatMul { inputs, transposed } => multiply(&reads, *inputs, *transposed, place),
        Op::Parameter => i64::from(layer().weights[element]),
        Op::Embed { input, rows } => {
            let row = reads.at(
                *input,
                Place {
                    channel: 0,
                    ..place
                },
            );
            let row = usize::try_from(row.clamp(0, i64::from(*rows) - 1)).expect("clamped");
            let channels = program.nodes[node].shape.channels as usize;
            i64::from(layer().weights[row * channels + place.channel as usize])
        }
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => {
            let terms = inputs.iter().zip(multipliers);
            i64::from(*bias)
                + terms
                    .map(|(input, m)| reads.element(*input, element) * i64::from(*m))
                    .sum::<i64>()
        }
        Op::Mul { inputs } => reads.element(inputs[0], element) * reads.element(inputs[1], element),
        Op::Requantise { input, how } => {
            let rescale = how.pairs[usize::from(how.pair_of(place.channel as usize))];
            i64::from(how.output(rescale, reads.element(*input, element)))
        }
        Op::Trees { input, forest } => {
            let values = &tensors[input.index()];
            let leaf = |tree| forest.leaf(tree, |feature| values[feature]);
            let of = |tree| i64::from(forest.leaves[leaf(tree) * forest.outputs() + element]);
            i64::from(forest.bias[element]) + (0..forest.roots.len()).map(of).sum::<i64>()
        }
        op => without_weights(&reads, op, element, place),
    };
    i32::try_from(value).expect("the program's bounds keep every value in 32 bits")
}

/// The operators that compare, select and reduce.
fn without_weights(reads: &Reads<'_>, op: &Op, element: usize, place: Place) -> i64 {
    match op {
        Op::WindowSum { input, window } => in_window(reads, *input, window, place).sum(),
        Op::MaxPool { input, window } => in_window(reads, *input, window, place)
            .max()
            .expect("a valid window covers at least one pixel"),
        Op::Extremum { inputs, which } => {
            let [a, b] = inputs.map(|input| reads.element(input, element));
            match which {
                Extremum::Greater => a.max(b),
                Extremum::Lesser => a.min(b),
            }
        }
        Op::Compare { inputs, relation } => {
            let [a, b] = inputs.map(|input| reads.element(input, element));
            i64::from(match relation {
                Relation::Equal => a == b,
                Relation::Greater => a > b,
                Relation::GreaterOrEqual => a >= b,
            })
        }
        Op::Select { condition, inputs } => {
            let first = reads.element(*condition, element) != 0;
            reads.element(inputs[usize::from(!first)], element)
        }
        Op::Reduce {
            input,
            reduction,
            axis,
        } => {
            let length = reads.program.shape(*input).axis(*axis);
            let values = (0..length).map(|index| reads.at(*input, place.with(*axis, index)));
            match reduction {
                Reduction::Sum => values.sum(),
                Reduction::Greatest => values.max().expect("an axis is not empty"),
                Reduction::Least => values.min().expect("an axis is not empty"),
            }
        }
        Op::ArgMax { input } => ranking(&reads.row(*input, place))[0].0,
        Op::TopK { input, give } => {
            let (channel, value) = ranking(&reads.row(*input, place))[place.channel as usize];
            match give {
                Ranked::Values => value,
                Ranked::Channels => channel,
            }
        }
        Op::Softmax { input, how } => probability(how, &reads.row(*input, place), place),
        Op::Norm { input, how } => normalised(*how, &reads.row(*input, place), place.channel),
        op => moved(reads, op, element, place),
    }
}

/// The operators that move elements.
fn moved(reads: &Reads<'_>, op: &Op, element: usize, place: Place) -> i64 {
    match op {
        Op::View { input, view } => reads.element(*input, view.source(element)),
        Op::Concat { inputs, axis } => {
            let mut index = place.along(*axis);
            for input in inputs {
                let length = reads.program.shape(*input).axis(*axis);
                if index < length {
                    return reads.at(*input, place.with(*axis, index));
                }
                index -= length;
            }
            unreachable!("the output is as long as its parts together")
        }
        Op::Pad {
            input,
            before,
            value,
            ..
        } => {
            let shape = reads.program.shape(*input);
            let source = [Axis::Rows, Axis::Columns, Axis::Channels]
                .into_iter()
                .zip(before)
                .try_fold(place, |place, (axis, before)| {
                    let index = place.along(axis).checked_sub(*before)?;
                    (index < shape.axis(axis)).then(|| place.with(axis, index))
                });
            source.map_or(i64::from(*value), |place| reads.at(*input, place))
        }
        Op::Gather {
            input,
            axis,
            indices,
        } => {
            let index = indices[place.along(*axis) as usize];
            reads.at(*input, place.with(*axis, index))
        }
        _ => unreachable!("computed by the callers"),
    }
}

fn convolve(reads: &Reads<'_>, node: usize, layer: NodeWeights<'_>, place: Place) -> i64 {
    let description = &reads.program.nodes[node];
    let Op::Conv {
        input,
        window,
        groups,
        zero,
    } = &description.op
    else {
        unreachable!("called for a convolution")
    };
    let shape = reads.program.shape(*input);
    let (inputs, outputs) = (shape.channels / groups, description.shape.channels / groups);
    let first = place.channel / outputs * inputs;
    let taps = window.positions() * inputs as usize;
    let kernel = &layer.weights[place.channel as usize * taps..][..taps];
    let mut sum = i64::from(layer.bias[place.channel as usize]);
    for (position, weights) in kernel.chunks_exact(inputs as usize).enumerate() {
        let source = window.source(shape, place.row, place.column, position);
        for (i, &weight) in (first..).zip(weights) {
            let value = source.map_or(i64::from(*zero), |source| {
                reads.element(*input, source * shape.channels as usize + i as usize)
            });
            sum += i64::from(weight) * value;
        }
    }
    sum
}

fn multiply(reads: &Reads<'_>, [left, right]: [TensorId; 2], transposed: bool, at: Place) -> i64 {
    let repeated = reads.program.shape(left).height / reads.program.shape(right).height;
    let inner = reads.program.shape(left).channels;
    let product = |k: u32| {
        let (column, channel) = if transposed {
            (at.channel, k)
        } else {
            (k, at.channel)
        };
        let row = at.row / repeated;
        let right = reads.at(
            right,
            Place {
                row,
                column,
                channel,
            },
        );
        reads.at(left, Place { channel: k, ..at }) * right
    };
    (0..inner).map(product).sum()
}

fn in_window<'a>(
    reads: &'a Reads<'a>,
    input: TensorId,
    window: &'a Window,
    place: Place,
) -> impl Iterator<Item = i64> + 'a {
    let shape = reads.program.shape(input);
    (0..window.positions())
        .filter_map(move |position| window.source(shape, place.row, place.column, position))
        .map(move |source| {
            reads.element(
                input,
                source * shape.channels as usize + place.channel as usize,
            )
        })
}

/// (channel, value) from the greatest value to the least, equal ones by channel.
fn ranking(row: &[i64]) -> Vec<(i64, i64)> {
    let mut ranked: Vec<(i64, i64)> = (0..).zip(row.iter().copied()).collect();
    ranked.sort_by_key(|&(channel, value)| (std::cmp::Reverse(value), channel));
    ranked
}

/// One probability of a row of scores.
#[must_use]
fn probability(how: &Softmax, row: &[i64], place: Place) -> i64 {
    let taking_part = how.causal.map_or(row.len(), |offset| {
        row.len().min(place.column as usize + offset as usize + 1)
    });
    let scores = &row[..taking_part];
    if place.channel as usize >= scores.len() {
        return 0;
    }
    let greatest = scores.iter().max().expect("at least the first takes part");
    let exponential = |score: i64| i64::from(how.exponential(greatest - score));
    let sum: i64 = scores.iter().map(|&score| exponential(score)).sum();
    let e = exponential(scores[place.channel as usize]);
    (e * i64::from(PROBABILITY_ONE) + sum / 2) / sum
}

/// One channel of a normalised row.
#[must_use]
fn normalised(how: Norm, row: &[i64], channel: u32) -> i64 {
    let n = row.len() as i64;
    let sum: i64 = if how.centred { row.iter().sum() } else { 0 };
    let squares: i64 = row.iter().map(|x| x * x).sum();
    let variance = n * squares - sum * sum + how.epsilon.cast_signed();
    let root = root_above(variance << (2 * how.precision));
    let centred = n * row[channel as usize] - sum;
    ((centred << (how.precision + how.fraction)) + root / 2).div_euclid(root)
}

/// The least integer r with `r^2 > v`, for v in [0, 2^62).
///
/// # Panics
/// If v is negative.
#[must_use]
pub fn root_above(v: i64) -> i64 {
    i64::try_from(v.cast_unsigned().isqrt()).expect("the root of 63 bits") + 1
}
