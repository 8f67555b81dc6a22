//! Lies about maxima: too small, too large, from another window, in padding.

use super::models::{Case, Draft, POOL, case, window};
use super::values::wide;
use tg_ir::op::{self, Reduction};
use tg_ir::{Axis, ElementType, Op, Shape, TensorId, Window};
use tg_proof::VerifyError;
use tg_proof::error::{LookupCheck, NodeCheck};

/// Every element of every window is at most the maximum, by lookup; a smaller one has a negative difference.
#[test]
fn a_maximum_that_is_too_small_has_no_difference() {
    let case = case();
    for element in [0, 7, 44] {
        let honest = case.trace.tensors()[POOL + 1].widened()[element];
        let tensors = case.tensors_with(POOL, element, honest - 1);
        let witness = case.witness_of(&tensors).unwrap();
        assert_eq!(
            case.verdict(&tensors, &witness),
            case.failed(POOL, NodeCheck::Sources)
        );
    }
}

#[test]
fn a_maximum_that_is_too_small_with_a_zero_difference_reads_other_pixels() {
    let case = case();
    let honest = case.trace.tensors()[POOL + 1].widened()[7];
    let tensors = case.tensors_with(POOL, 7, honest - 1);
    let mut witness = case.witness_of(&tensors).unwrap();
    let table = case.table_of(POOL);
    let row = case.row(POOL, 1, 2);
    for column in &mut witness.columns[table] {
        // The differences that would be negative are said to be zero.
        if column[row] > 255 {
            column[row] = 0;
        }
    }
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(POOL, NodeCheck::Sources)
    );
}

#[test]
fn a_maximum_that_is_too_large_is_not_attained() {
    let case = case();
    for element in [0, 7, 44] {
        let honest = case.trace.tensors()[POOL + 1].widened()[element];
        let tensors = case.tensors_with(POOL, element, honest + 1);
        let witness = case.witness_of(&tensors).unwrap();
        assert_eq!(
            case.verdict(&tensors, &witness),
            case.failed(POOL, NodeCheck::Attained)
        );
    }
}

#[test]
fn a_maximum_of_another_window_is_refused() {
    let case = case();
    let maxima = case.trace.tensors()[POOL + 1].widened();
    let channels = 5;
    let (element, other) = (0..maxima.len())
        .flat_map(|element| {
            (element % channels..maxima.len())
                .step_by(channels)
                .map(move |o| (element, o))
        })
        .find(|&(element, other)| maxima[other] > maxima[element])
        .unwrap();
    let tensors = case.tensors_with(POOL, element, maxima[other]);
    let mut witness = case.witness_of(&tensors).unwrap();
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(POOL, NodeCheck::Attained)
    );
    // With the other window's differences it is attained, but its elements are not read from this one.
    let table = case.table_of(POOL);
    let [row, from] = [element, other].map(|e| case.row(POOL, e / channels, e % channels));
    for column in &mut witness.columns[table] {
        column[row] = column[from];
    }
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(POOL, NodeCheck::Sources)
    );
}

#[test]
fn differences_of_another_limb_class_are_caught_by_the_lookup() {
    let case = case();
    let table = case.table_of(POOL);
    let mut witness = case.witness();
    // Position 255 + value - 128 is (class 7, value): below the class whose entries are differences.
    let (column, row) = (0..9)
        .flat_map(|column| (0..32).map(move |row| (column, row)))
        .find(|&(column, row)| (1..128).contains(&witness.columns[table][column][row]))
        .unwrap();
    let value = witness.columns[table][column][row];
    let prime = (1 << 31) - (1 << 24) + 1;
    let position = tg_ir::segment::limb_position(7, value);
    witness.columns[table][column][row] = prime + position - 255;
    // The zero-check runs over another column than the differences that were pulled, but some other one is still zero.
    assert_eq!(
        case.verdict(case.trace.tensors(), &witness),
        Err(VerifyError::Lookup(LookupCheck::Pulled))
    );
}

#[test]
fn padded_rows_of_a_maximum_hide_nothing() {
    let case = case();
    let table = case.table_of(POOL);
    // Channel 5 of 8 does not exist.
    let row = case.row(POOL, 2, 5);
    let honest = case.witness();
    for change in [1, 200] {
        let mut witness = honest.clone();
        witness.columns[table][4][row] = change;
        assert_eq!(
            case.verdict(case.trace.tensors(), &witness),
            case.failed(POOL, NodeCheck::Sources)
        );
    }
    // Moving all of them moves the padded maximum itself.
    let mut witness = honest;
    for column in &mut witness.columns[table] {
        column[row] += 1;
    }
    assert!(case.verdict(case.trace.tensors(), &witness).is_err());
}

/// A stride above the kernel leaves pixels that no window covers; kernels of one position are copies.
#[test]
fn maxima_with_gaps_and_of_one_element_prove() {
    for (kernel, stride, pads) in [
        (2, 3, [0; 4]),
        (1, 2, [0; 4]),
        (1, 1, [0; 4]),
        (4, 1, [3, 3, 3, 3]),
    ] {
        let mut draft = Draft::new(11, Shape::new(5, 7, 3));
        let acc = draft.push(
            Op::conv(TensorId::INPUT, window(3, 1, [1; 4])),
            Shape::new(5, 7, 3),
        );
        let input = draft.requantise(acc, 23, [-128, 127]);
        let window = window(kernel, stride, pads);
        let [height, width] = window.output(Shape::new(5, 7, 3)).unwrap();
        draft.push(
            Op::MaxPool(op::MaxPool { input, window }),
            Shape::new(height, width, 3),
        );
        let case = Case::of(draft.finish());
        assert_eq!(
            case.check(&case.file),
            Ok(()),
            "kernel {kernel} stride {stride}"
        );
        let honest = case.trace.tensors()[3].widened();
        let element = honest.iter().position(|&value| value < 127).unwrap();
        let tensors = case.tensors_with(POOL, element, honest[element] + 1);
        let witness = case.witness_of(&tensors).unwrap();
        assert_eq!(
            case.verdict(&tensors, &witness),
            case.failed(POOL, NodeCheck::Attained)
        );
    }
}

#[test]
fn the_lookup_checks_have_the_codes_they_always_had() {
    let codes = [
        LookupCheck::Messages,
        LookupCheck::Pulled,
        LookupCheck::Sum,
        LookupCheck::Leaves,
    ]
    .map(|check| VerifyError::Lookup(check).code());
    assert_eq!(codes, [40, 41, 42, 43]);
}

/// What the elements that are compared are.
#[derive(Debug, Clone, Copy)]
enum Compared {
    Narrow,
    Wide,
    Sums,
}

fn extreme(compared: Compared, op: impl Fn(TensorId) -> Op) -> Case {
    let shape = Shape::new(5, 7, 3);
    let mut draft = Draft::new(11, shape);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(3, 1, [1; 4])), shape);
    let input = match compared {
        Compared::Narrow => draft.requantise(acc, 23, [-128, 127]),
        Compared::Wide => draft.push(wide(acc, &[3], 3, [-32_767, 32_767]), shape),
        Compared::Sums => acc,
    };
    let op = op(input);
    let shape = match &op {
        Op::MaxPool(op::MaxPool { window, .. }) => {
            let [height, width] = window.output(shape).unwrap();
            Shape::new(height, width, 3)
        }
        Op::Reduce(op::Reduce { axis, .. }) => shape.with_axis(*axis, 1),
        other => panic!("{}", other.name()),
    };
    draft.push(op, shape);
    Case::of(draft.finish())
}

/// Windows with dilation and of 16 bits; the greatest and the least along rows and columns, of all types.
fn extremes() -> Vec<(String, bool, Case)> {
    let spaced = Window {
        dilation: [2, 3],
        ..Window::new([2; 2], [1; 2], [1, 2, 1, 0])
    };
    let mut cases = Vec::new();
    for compared in [Compared::Narrow, Compared::Wide] {
        for window in [window(3, 2, [1; 4]), spaced] {
            let case = extreme(compared, |input| Op::MaxPool(op::MaxPool { input, window }));
            cases.push((format!("{compared:?} {window:?}"), false, case));
        }
    }
    for compared in [Compared::Narrow, Compared::Wide, Compared::Sums] {
        for reduction in [Reduction::Greatest, Reduction::Least] {
            for axis in [Axis::Rows, Axis::Columns] {
                let case = extreme(compared, |input| {
                    Op::Reduce(op::Reduce {
                        input,
                        reduction,
                        axis,
                    })
                });
                let name = format!("{compared:?} {reduction:?} {axis:?}");
                cases.push((name, reduction == Reduction::Least, case));
            }
        }
    }
    cases
}

#[test]
fn extremes_of_every_kind_are_caught_in_a_lie() {
    for (name, least, case) in extremes() {
        assert_eq!(case.check(&case.file), Ok(()), "{name}");
        let node = case.model.model.program.nodes.len() - 1;
        let honest = case.trace.tensors()[node + 1].widened();
        for element in [0, honest.len() / 2, honest.len() - 1] {
            for change in [1, -1, 60, -60] {
                let value = honest[element] + change;
                let most = match case.trace.tensors()[node + 1].element_type() {
                    ElementType::I8 => 127,
                    ElementType::I16 => 32_767,
                    ElementType::I32 => i32::MAX,
                };
                if value.abs() > most {
                    continue;
                }
                let tensors = case.tensors_with(node, element, value);
                let witness = case.witness_of(&tensors).unwrap();
                // Beyond all elements, or not the extreme one.
                let beyond = (change > 0) != least;
                let check = if beyond {
                    NodeCheck::Attained
                } else {
                    NodeCheck::Sources
                };
                let verdict = case.verdict(&tensors, &witness);
                assert_eq!(verdict, case.failed(node, check), "{name} by {change}");
            }
        }
    }
}

/// Any cell of any column, of elements and of padding.
#[test]
fn every_wrong_cell_of_extremes_is_caught() {
    for (name, _, case) in extremes() {
        let honest = case.witness();
        let node = case.model.model.program.nodes.len() - 1;
        let table = case.table_of(node);
        let rows = case.model.shape.plan.witness[table].chunk.rows();
        for column in 0..honest.columns[table].len() {
            // Every column in an element and in one of four other places, by a small and a large change in turn.
            let other = [rows / 2, rows - 1, 3, 1][column % 4];
            for (row, change) in [(0, 1 << (7 * (column % 2))), (other, 1 << 10)] {
                let mut witness = honest.clone();
                witness.columns[table][column][row] ^= change;
                let verdict = case.verdict(case.trace.tensors(), &witness);
                assert!(
                    matches!(
                        verdict,
                        Err(VerifyError::Node { .. } | VerifyError::Lookup(_))
                    ),
                    "{name}: column {column} row {row}: {verdict:?}"
                );
            }
        }
    }
}

/// More than sixteen elements are refused by name.
#[test]
fn long_reductions_are_refused() {
    let mut draft = Draft::new(3, Shape::new(17, 1, 2));
    let op = Op::Reduce(op::Reduce {
        input: TensorId::INPUT,
        reduction: Reduction::Greatest,
        axis: Axis::Rows,
    });
    let input = draft.push(op, Shape::new(1, 1, 2));
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(2));
    let error = crate::ProvingModel::new(draft.finish().0).err().unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("(Reduce)"), "{source}");
}
