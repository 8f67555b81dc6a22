//! What an accumulator can reach: interval arithmetic over the actual weights.
//!
//! [`tg_ir::bounds`] asks whether *any* admissible weights could leave the field; this module asks how far *these*
//! weights go, for every input in [-128, 127]. The compiler declares the result as the range of each requantisation,
//! so that its segment table is small and yet no input leaves it.

use tg_ir::{CompiledModel, LinearWeights, Op, Requantise, Shape, TensorId, Window};

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
    let mut known = vec![vec![ACTIVATION; program.input.shape.channels as usize]];
    for node in 0..program.nodes.len() {
        let layer = model.weights.of_node(program, node);
        let description = &program.nodes[node];
        let of = |id: &TensorId| (known[id.index()].as_slice(), program.shape(*id));
        let next = of_op(&description.op, description.shape, layer, of);
        known.push(next);
    }
    known
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
pub(crate) fn of_op<'a>(
    op: &Op,
    output: Shape,
    layer: Option<&LinearWeights>,
    of: impl Fn(&TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    match op {
        Op::Conv { input, window } => {
            let layer = layer.expect("a convolution has weights");
            linear(layer, of(input).0, is_padded(window))
        }
        Op::Dense { input } => linear(layer.expect("a dense node has weights"), of(input).0, false),
        Op::WindowSum { input, window } => of(input)
            .0
            .iter()
            .map(|&interval| window_sum(interval, window))
            .collect(),
        Op::Add {
            inputs: [a, b],
            multipliers: [m, n],
        } => {
            let (m, n) = (i64::from(*m), i64::from(*n));
            let pairs = of(a).0.iter().zip(of(b).0);
            pairs
                .map(|(a, b)| [a[0] * m + b[0] * n, a[1] * m + b[1] * n])
                .collect()
        }
        Op::Requantise { input, how } => {
            let channels = of(input).0.iter().enumerate();
            channels
                .map(|(channel, &interval)| requantised(how, channel, interval))
                .collect()
        }
        Op::MaxPool { input, .. } => of(input).0.to_vec(),
        Op::Permute { input, .. } => vec![hull(of(input).0); output.channels as usize],
    }
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
    window.pads != [0; 4]
}

/// Weights are ordered with the input channel innermost, for a convolution and a dense node alike.
fn linear(layer: &LinearWeights, inputs: &[Interval], padded: bool) -> Vec<Interval> {
    let inputs: Vec<Interval> = inputs
        .iter()
        .map(|&[low, high]| {
            if padded {
                [low.min(0), high.max(0)]
            } else {
                [low, high]
            }
        })
        .collect();
    let reduction = layer.weights.len() / layer.bias.len();
    let rows = layer.weights.chunks_exact(reduction).zip(&layer.bias);
    rows.map(|(row, &bias)| {
        let start = [i64::from(bias); 2];
        row.iter().zip(inputs.iter().cycle()).fold(
            start,
            |[low, high], (&weight, &[least, greatest])| {
                let ends = [i64::from(weight) * least, i64::from(weight) * greatest];
                [low + ends[0].min(ends[1]), high + ends[0].max(ends[1])]
            },
        )
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
    let ends = interval.map(|x| rescale.apply(x).clamp(clamp[0], clamp[1]));
    let Some(table) = &how.table else {
        return ends;
    };
    let entries = (ends[0]..=ends[1]).map(|y| {
        let index = usize::try_from(y + 128).expect("clamped to 8 bits");
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
        let layer = LinearWeights {
            weights: vec![3, -5, 0, 127, -127, 1],
            bias: vec![10, -7],
        };
        let got = linear(&layer, &[ACTIVATION; 3], false);
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
