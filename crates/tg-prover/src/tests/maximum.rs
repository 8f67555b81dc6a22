//! Lies about maxima: too small, too large, from another window, in padding.

use super::models::{Case, Draft, POOL, case, window};
use tg_ir::{Op, Shape, TensorId};
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
        draft.push(Op::MaxPool { input, window }, Shape::new(height, width, 3));
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
