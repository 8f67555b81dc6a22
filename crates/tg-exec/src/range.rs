//! What an accumulator can reach: interval arithmetic over the actual weights.
//!
//! [`tg_ir::bounds`] asks whether *any* admissible weights could leave the field; this module asks how far *these*
//! weights go, for every input in [-128, 127]. The compiler declares the result as the range of each requantisation,
//! so that its segment table is small and yet no input leaves it.

use tg_ir::op::{PROBABILITY_ONE, Ranked, Reduction};
use tg_ir::{
    Axis, Coding, CompiledModel, ElementType, InputSpec, NodeWeights, Op, Requantise, Shape,
    TensorId, Window,
};

/// Least and greatest value of one channel.
pub type Interval = [i64; 2];

const ACTIVATION: Interval = [-128, 127];

/// Per tensor (index 0 is the input) and channel, the least and greatest value that any input gives.
///
/// # Panics
/// If the model is not valid.
#[must_use]
pub fn intervals(model: &CompiledModel) -> Vec<Vec<Interval>> {
    let program = &model.program;
    let mut known = vec![of_input(&program.input)];
    for node in 0..program.nodes.len() {
        let layer = model.weights.of_node(program, node);
        let description = &program.nodes[node];
        let of = |id: &TensorId| (known[id.index()].as_slice(), program.shape(*id));
        let next = of_op(&description.op, description.shape, layer, of);
        known.push(next);
    }
    known
}

/// Per channel of an input, its least and greatest value.
#[must_use]
pub fn of_input(input: &InputSpec) -> Vec<Interval> {
    let channels = input.shape.channels as usize;
    match &input.coding {
        Coding::Scaled(ElementType::I8) => vec![ACTIVATION; channels],
        Coding::Scaled(_) => vec![[-32_767, 32_767]; channels],
        Coding::Ranks(thresholds) => thresholds
            .iter()
            .map(|list| [0, i64::try_from(list.len()).expect("few")])
            .collect(),
        Coding::Tokens(vocabulary) => vec![[0, i64::from(*vocabulary) - 1]; channels],
    }
}

/// The first node whose declared accumulator range does not hold all that its input can reach, with that reach.
///
/// # Panics
/// If the model is not valid.
#[must_use]
pub fn first_violation(model: &CompiledModel) -> Option<(usize, Interval)> {
    let known = intervals(model);
    let nodes = model.program.nodes.iter().enumerate();
    nodes.into_iter().find_map(|(node, description)| {
        let Op::Requantise { input, how } = &description.op else {
            return None;
        };
        let reach = hull(&known[input.index()]);
        let [low, high] = how.range.map(i64::from);
        (reach[0] < low || reach[1] > high).then_some((node, reach))
    })
}

/// The intervals of one operator's output, given its inputs'.
#[must_use]
pub fn of_op<'a>(
    op: &Op,
    output: Shape,
    layer: Option<NodeWeights<'_>>,
    of: impl Fn(&TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    let layer = || layer.expect("a node with weights has some");
    let channels = output.channels as usize;
    match op {
        Op::Conv {
            input,
            window,
            groups,
            zero,
        } => {
            let padding = is_padded(window).then(|| i64::from(*zero));
            linear(layer(), of(input).0, *groups as usize, padding)
        }
        Op::Dense { input } => linear(layer(), of(input).0, 1, None),
        Op::MatMul { inputs, .. } => {
            let [a, b] = [0, 1].map(|side| hull(of(&inputs[side]).0));
            let terms = i64::from(of(&inputs[0]).1.channels);
            let [low, high] = product(a, b);
            vec![[low * terms, high * terms]; channels]
        }
        Op::Parameter | Op::Embed { .. } => {
            let weights: Vec<Interval> =
                layer().weights.iter().map(|&w| [i64::from(w); 2]).collect();
            vec![hull(&weights); channels]
        }
        Op::WindowSum { input, window } => of(input)
            .0
            .iter()
            .map(|&interval| window_sum(interval, window))
            .collect(),
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => (0..channels)
            .map(|channel| {
                let terms = inputs.iter().zip(multipliers);
                terms.fold([i64::from(*bias); 2], |[low, high], (input, &m)| {
                    let [least, greatest] = product(of(input).0[channel], [i64::from(m); 2]);
                    [low + least, high + greatest]
                })
            })
            .collect(),
        Op::Mul { inputs } => (0..channels)
            .map(|channel| product(of(&inputs[0]).0[channel], of(&inputs[1]).0[channel]))
            .collect(),
        Op::Requantise { input, how } => {
            let channels = of(input).0.iter().enumerate();
            channels
                .map(|(channel, &interval)| requantised(how, channel, interval))
                .collect()
        }
        op => of_movement(op, output, of),
    }
}

/// The intervals of operators that compare, reduce and move.
#[expect(clippy::too_many_lines, reason = "one arm per operator")]
fn of_movement<'a>(
    op: &Op,
    output: Shape,
    of: impl Fn(&TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    let channels = output.channels as usize;
    let last = |shape: Shape| [0, i64::from(shape.channels) - 1];
    match op {
        Op::MaxPool { input, .. } => of(input).0.to_vec(),
        Op::Extremum { inputs, .. } | Op::Select { inputs, .. } => (0..channels)
            .map(|channel| hull(&[of(&inputs[0]).0[channel], of(&inputs[1]).0[channel]]))
            .collect(),
        Op::Compare { .. } => vec![[0, 1]; channels],
        Op::Reduce {
            input,
            reduction,
            axis,
        } => {
            let (known, shape) = of(input);
            let kept = match axis {
                Axis::Channels => vec![hull(known)],
                Axis::Rows | Axis::Columns => known.to_vec(),
            };
            let length = i64::from(shape.axis(*axis));
            match reduction {
                Reduction::Sum => kept
                    .iter()
                    .map(|&[low, high]| [low * length, high * length])
                    .collect(),
                Reduction::Greatest | Reduction::Least => kept,
            }
        }
        Op::ArgMax { input } => vec![last(of(input).1); channels],
        Op::TopK { input, give } => match give {
            Ranked::Values => vec![hull(of(input).0); channels],
            Ranked::Channels => vec![last(of(input).1); channels],
        },
        Op::Softmax { .. } => vec![[0, i64::from(PROBABILITY_ONE)]; channels],
        Op::Norm { how, .. } => {
            let reach = norm_reach(output.channels, how.fraction);
            vec![[-reach, reach]; channels]
        }
        Op::View { input, .. } => vec![hull(of(input).0); channels],
        Op::Concat {
            inputs,
            axis: Axis::Channels,
        } => inputs
            .iter()
            .flat_map(|input| of(input).0.to_vec())
            .collect(),
        Op::Concat { inputs, .. } => (0..channels)
            .map(|channel| {
                hull(
                    &inputs
                        .iter()
                        .map(|id| of(id).0[channel])
                        .collect::<Vec<_>>(),
                )
            })
            .collect(),
        Op::Pad { input, value, .. } => {
            let value = i64::from(*value);
            let [low, high] = hull(of(input).0);
            vec![[low.min(value), high.max(value)]; channels]
        }
        Op::Gather {
            input,
            axis: Axis::Channels,
            indices,
        } => indices
            .iter()
            .map(|&index| of(input).0[index as usize])
            .collect(),
        Op::Gather { input, .. } => of(input).0.to_vec(),
        Op::Trees { forest, .. } => vec![[-forest.magnitude(), forest.magnitude()]; channels],
        Op::Conv { .. }
        | Op::Dense { .. }
        | Op::MatMul { .. }
        | Op::Parameter
        | Op::Embed { .. }
        | Op::WindowSum { .. }
        | Op::Add { .. }
        | Op::Mul { .. }
        | Op::Requantise { .. } => unreachable!("the caller's"),
    }
}

/// A normalised value is below `sqrt(n) 2^f` before rounding.
fn norm_reach(channels: u32, fraction: u8) -> i64 {
    let square = u64::from(channels) << (2 * fraction);
    i64::try_from(square.isqrt()).expect("a small root") + 1
}

/// The products of two intervals.
fn product(a: Interval, b: Interval) -> Interval {
    let ends = [a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]].map(|end| [end; 2]);
    hull(&ends)
}

/// The smallest interval around several.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn hull(intervals: &[Interval]) -> Interval {
    let least = intervals.iter().map(|interval| interval[0]).min();
    let greatest = intervals.iter().map(|interval| interval[1]).max();
    [
        least.expect("a tensor has channels"),
        greatest.expect("a tensor has channels"),
    ]
}

fn is_padded(window: &Window) -> bool {
    window.pads != [0; 4] || window.spread != [1; 2]
}

/// Weights are ordered with the input channel of the group innermost, for a convolution and a dense node alike.
fn linear(
    layer: NodeWeights<'_>,
    inputs: &[Interval],
    groups: usize,
    padding: Option<i64>,
) -> Vec<Interval> {
    let inputs: Vec<Interval> = inputs
        .iter()
        .map(|&[low, high]| match padding {
            Some(zero) => [low.min(zero), high.max(zero)],
            None => [low, high],
        })
        .collect();
    let reduction = layer.weights.len() / layer.bias.len();
    let runs = inputs.chunks_exact(inputs.len() / groups);
    let outputs = layer.bias.len() / groups;
    let rows = layer.weights.chunks_exact(reduction).zip(layer.bias);
    let own: Vec<&[Interval]> = runs
        .flat_map(|run| std::iter::repeat_n(run, outputs))
        .collect();
    rows.zip(own)
        .map(|((row, &bias), inputs)| {
            let start = [i64::from(bias); 2];
            let terms = row.iter().zip(inputs.iter().cycle());
            terms.fold(start, |[low, high], (&weight, &interval)| {
                let [least, greatest] = product(interval, [i64::from(weight); 2]);
                [low + least, high + greatest]
            })
        })
        .collect()
}

fn window_sum([low, high]: Interval, window: &Window) -> Interval {
    let positions = i64::try_from(window.positions()).expect("a window is small");
    if is_padded(window) {
        [low.min(0) * positions, high.max(0) * positions]
    } else {
        [low * positions, high * positions]
    }
}

/// A rescale does not decrease, so its ends are the ends; a value table may, so all of its entries between are read.
fn requantised(how: &Requantise, channel: usize, interval: Interval) -> Interval {
    let rescale = how.pairs[usize::from(how.pair_of(channel))];
    let clamp = how.clamp.map(i64::from);
    let zero = i64::from(how.zero);
    let ends = interval.map(|x| (rescale.apply(x) + zero).clamp(clamp[0], clamp[1]));
    let Some(table) = &how.table else {
        return ends;
    };
    let entries = (ends[0]..=ends[1]).map(|y| {
        let index = usize::try_from(y - clamp[0]).expect("clamped");
        [i64::from(table[index]); 2]
    });
    hull(&entries.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{execute, sample};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn no_value_leaves_its_interval(seed in any::<u64>()) {
            let (model, input) = sample::random_model(seed);
            let known = intervals(&model);
            let trace = execute(&model, &input).unwrap();
            for (tensor, intervals) in trace.tensors().iter().zip(&known) {
                for (element, value) in tensor.widened().into_iter().enumerate() {
                    let [low, high] = intervals[element % intervals.len()];
                    prop_assert!((low..=high).contains(&i64::from(value)));
                }
            }
            prop_assert_eq!(first_violation(&model), None);
        }
    }

    /// The bound is reached: for each output channel of a dense node there is an input that attains either end.
    #[test]
    fn the_interval_of_a_dense_node_is_tight() {
        let layer = tg_ir::LinearWeights {
            weights: vec![3, -5, 0, 127, -127, 1],
            bias: vec![10, -7],
        };
        let got = linear(layer.as_read(), &[ACTIVATION; 3], 1, None);
        let extreme = |signs: [i64; 3], weights: [i64; 3], bias: i64| {
            bias + weights.iter().zip(signs).map(|(w, x)| w * x).sum::<i64>()
        };
        assert_eq!(got[0][0], extreme([-128, 127, 0], [3, -5, 0], 10));
        assert_eq!(got[0][1], extreme([127, -128, 0], [3, -5, 0], 10));
        assert_eq!(got[1][0], extreme([-128, 127, -128], [127, -127, 1], -7));
    }

    #[test]
    fn a_narrow_declared_range_is_found() {
        let (mut model, _) = (0..)
            .map(sample::random_model)
            .find(|(model, _)| {
                model
                    .program
                    .nodes
                    .iter()
                    .any(|node| matches!(node.op, Op::Requantise { .. }))
            })
            .unwrap();
        let mut narrowed = None;
        for (index, node) in model.program.nodes.iter_mut().enumerate() {
            if let Op::Requantise { how, .. } = &mut node.op {
                how.range = [0, 0];
                narrowed = narrowed.or(Some(index));
            }
        }
        assert_eq!(first_violation(&model).map(|(node, _)| node), narrowed);
    }
}
