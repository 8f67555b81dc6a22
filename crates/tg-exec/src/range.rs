//! What an accumulator can reach: see [`tg_ir::range`], which a compiler declares ranges by and validators admit models by.

pub use tg_ir::range::{
    Interval, RangeError, Ranges, check, first_violation, hull, intervals, of_input, of_op,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{execute, sample};
    use proptest::prelude::*;
    use tg_ir::Op;
    use tg_ir::op;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn no_value_leaves_its_interval(seed in any::<u64>()) {
            let (model, input) = sample::random_model(seed);
            let known = intervals(&model);
            let trace = execute(&model.clone().checked().unwrap(), &input).unwrap();
            for (tensor, intervals) in trace.tensors().iter().zip(&known) {
                for (element, value) in tensor.widened().into_iter().enumerate() {
                    let [low, high] = intervals[element % intervals.len()];
                    prop_assert!((low..=high).contains(&i64::from(value)));
                }
            }
            prop_assert_eq!(first_violation(&model), None);
            prop_assert_eq!(check(&model), Ok(()));
        }

        /// Weights that come in parts of any length give what they give at once, also for groups, small windows and ties.
        #[test]
        fn parts_of_weights_give_the_same_intervals(seed in any::<u64>(), length in 1usize..300) {
            let (model, _) = sample::random_model(seed);
            let program = &model.program;
            let known = intervals(&model);
            let mut ranges = Ranges::new(program);
            for (node, expected) in known[1..].iter().enumerate() {
                let Some(layer) = model.weights.of_node(program, node) else {
                    prop_assert_eq!(ranges.pass(), Ok(()));
                    continue;
                };
                let mut rows = ranges.rows();
                let bytes: Vec<u8> = layer.weights.iter().map(|w| w.cast_unsigned()).collect();
                bytes.chunks(length).for_each(|part| rows.feed(part));
                layer.bias.chunks(length).for_each(|part| rows.add_biases(part.iter().copied()));
                prop_assert_eq!(ranges.pass_weighted(rows), Ok(()));
                prop_assert_eq!(ranges.last(), hull(expected));
            }
        }
    }

    /// Products of a window with groups, channel by channel, are those that the formula of a convolution gives.
    #[test]
    fn the_intervals_of_a_grouped_convolution_are_exact() {
        let mut numbers = sample::Numbers::new(7);
        for (groups, channels, outputs, side) in [
            (1, 3, 2, 3),
            (2, 4, 6, 3),
            (4, 4, 4, 1),
            (4, 4, 8, 5),
            (3, 9, 3, 2),
            (1, 600, 2, 2),
        ] {
            let known: Vec<Interval> = (0..channels)
                .map(|_| {
                    let low = numbers.between(-128, 127);
                    [low, numbers.between(low, 127)]
                })
                .collect();
            let (run, positions) = (channels / groups, side * side);
            let layer = tg_ir::LinearWeights {
                weights: (0..outputs * positions * run)
                    .map(|_| numbers.between(-127, 127) as i8)
                    .collect(),
                bias: (0..outputs).map(|at| at as i32 * 100).collect(),
            };
            let (side, op_groups) = (side as u32, groups as u32);
            let op = Op::Conv(op::Conv {
                input: tg_ir::TensorId::INPUT,
                window: tg_ir::Window::new([side; 2], [1; 2], [0; 4]),
                groups: op_groups,
                zero: 0,
            });
            let shapes = [channels, outputs].map(|c| tg_ir::Shape::new(side, side, c as u32));
            let got = of_op(&op, shapes[1], Some(layer.as_read()), |_| {
                (&known, shapes[0])
            });
            let row = positions * run;
            for (output, got) in got.iter().enumerate() {
                let first = output / (outputs / groups) * run;
                let weights = &layer.weights[output * row..(output + 1) * row];
                let ends = weights.iter().enumerate().map(|(at, &weight)| {
                    let ends = known[first + at % run].map(|end| end * i64::from(weight));
                    [ends[0].min(ends[1]), ends[0].max(ends[1])]
                });
                let bias = i64::from(layer.bias[output]);
                let sum = ends.fold([bias; 2], |[low, high], end| [low + end[0], high + end[1]]);
                assert_eq!(*got, sum, "{groups} {channels} {outputs} {output}");
            }
        }
    }

    /// A table need not be monotone: its extremes lie anywhere between.
    #[test]
    fn the_interval_of_a_table_is_that_of_its_entries() {
        let mut numbers = sample::Numbers::new(9);
        let table: Vec<i16> = (0..200)
            .map(|_| numbers.between(-128, 127) as i16)
            .collect();
        let how = tg_ir::Requantise {
            pairs: vec![tg_ir::Rescale::new(4, 2).unwrap()],
            channel_pairs: vec![0],
            zero: 0,
            range: [-1_000, 1_000],
            clamp: [-100, 99],
            table: Some(table.clone()),
            output: tg_ir::ElementType::I8,
        };
        let op = Op::Requantise(op::Unary {
            input: tg_ir::TensorId::INPUT,
            how,
        });
        let shape = tg_ir::Shape::vector(1);
        for _ in 0..500 {
            let low = numbers.between(-120, 110);
            let high = numbers.between(low, 130);
            let known = [[low, high]];
            let got = of_op(&op, shape, None, |_| (&known[..], shape));
            let [first, last] = [low, high].map(|y| (y.clamp(-100, 99) + 100) as usize);
            let entries = &table[first..=last];
            let ends = [entries.iter().min(), entries.iter().max()];
            assert_eq!(got, vec![ends.map(|end| i64::from(*end.unwrap()))]);
        }
    }

    /// The bound is reached: for each output channel of a dense node there is an input that attains either end.
    #[test]
    fn the_interval_of_a_dense_node_is_tight() {
        let layer = tg_ir::LinearWeights {
            weights: vec![3, -5, 0, 127, -127, 1],
            bias: vec![10, -7],
        };
        let got = {
            let dense = tg_ir::Op::Dense(op::Dense {
                input: tg_ir::TensorId::INPUT,
            });
            let known = [[-128, 127], [-128, 127], [-128, 127]];
            let (input, output) = (tg_ir::Shape::vector(3), tg_ir::Shape::vector(2));
            of_op(&dense, output, Some(layer.as_read()), |_| (&known, input))
        };
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
                    .any(|node| matches!(node.op, Op::Requantise(_)))
            })
            .unwrap();
        let mut narrowed = None;
        for (index, node) in model.program.nodes.iter_mut().enumerate() {
            if let Op::Requantise(op::Unary { how, .. }) = &mut node.op {
                how.range = [0, 0];
                narrowed = narrowed.or(Some(index));
            }
        }
        assert_eq!(first_violation(&model).map(|(node, _)| node), narrowed);
        let found = check(&model);
        let Err(RangeError::Left {
            node,
            range: [0, 0],
            ..
        }) = found
        else {
            panic!("{found:?}");
        };
        assert_eq!(Some(node), narrowed);
    }
}
