//! Constraints and ranges of gadgets as data have lies that each alone stops, and no change of columns that breaks none gives
//! another output.
//!
//! A search finds most lies. Those of `not_isolated.txt` it does not find: of some the relation follows from others (the sum
//! of exponentials and the distance to 32,767 from the row's equation, the range of a greatest element from its being one of
//! the elements), others are told by tests here and in `values`.

use super::models::{Case, Draft, set, window};
use super::relations::{Relation, Row};
use super::values::cases;
use crate::witness::Witness;
use std::fmt::Write;
use tg_exec::IntTensor;
use tg_ir::op::{self, Softmax};
use tg_ir::{ElementType, Op, Rescale, Shape, TensorId};
use tg_proof::VerifyError;
use tg_proof::error::{LookupCheck, NodeCheck};
use tg_proof::plan::{GadgetKind, GadgetPlan, NodePlan, NormShape, limb_classes};

fn last(case: &Case) -> (usize, &GadgetPlan) {
    let node = case.model.model.program.nodes.len() - 1;
    match &case.model.shape.plan.nodes[node] {
        NodePlan::Gadget(gadget) => (node, gadget),
        other => panic!("not a gadget: {other:?}"),
    }
}

fn widened(case: &Case) -> Vec<Vec<i32>> {
    case.trace
        .tensors()
        .iter()
        .map(IntTensor::widened)
        .collect()
}

fn rows<'a>(
    case: &'a Case,
    gadget: &'a GadgetPlan,
    tensors: &'a [Vec<i32>],
) -> impl Iterator<Item = Row<'a>> {
    let row = move |pixel| Row {
        plan: &case.model.shape.plan,
        staged: &gadget.staged,
        tensors,
        pixel,
    };
    (0..gadget.staged.elements.layout.pixels).map(row)
}

/// The most that a type holds.
fn most(case: &Case, node: usize) -> i64 {
    match case.trace.tensors()[node + 1].element_type() {
        ElementType::I8 => 127,
        ElementType::I16 => 32_767,
        ElementType::I32 => i64::from(i32::MAX),
    }
}

#[test]
fn every_relation_stops_a_lie_of_its_own() {
    let (mut missing, mut lies) = (String::new(), 0);
    for (name, case) in cases() {
        let (node, gadget) = last(&case);
        let (honest, values) = (case.witness(), widened(&case));
        let channels = case.model.shape.plan.layouts[node + 1].channels;
        for row in rows(&case, gadget, &values) {
            assert!(row.broken(&honest).is_empty(), "{name}");
        }
        let relations = rows(&case, gadget, &values).next().unwrap().relations();
        for target in relations {
            let found = rows(&case, gadget, &values).find_map(|row| {
                let within = |witness: &Witness| {
                    let outputs = row.outputs(witness);
                    outputs.iter().all(|value| value.abs() <= most(&case, node))
                };
                let witness = row.lie(&honest, target, &within)?;
                let outputs = row.outputs(&witness);
                Some((row.pixel, witness, outputs))
            });
            let Some((pixel, witness, outputs)) = found else {
                let _ = writeln!(missing, "{name}: {target:?}");
                continue;
            };
            let mut tensors = case.trace.tensors().to_vec();
            for (channel, value) in outputs.into_iter().enumerate() {
                let element = pixel * channels + channel;
                set(
                    &mut tensors[node + 1],
                    element,
                    i32::try_from(value).unwrap(),
                );
            }
            let verdict = case.verdict(&tensors, &witness);
            let expected = match target {
                Relation::Constraint { .. } => case.failed(node, NodeCheck::Relation),
                Relation::Entry { .. } => Err(VerifyError::Lookup(LookupCheck::Pulled)),
            };
            assert_eq!(verdict, expected, "{name}: {target:?}");
            lies += 1;
        }
    }
    assert_eq!(missing, include_str!("not_isolated.txt"), "{missing}");
    assert!(lies >= 150, "{lies}");
}

#[test]
fn columns_that_break_nothing_give_one_output() {
    for (name, case) in cases() {
        let (_, gadget) = last(&case);
        let (honest, values) = (case.witness(), widened(&case));
        let mut shown = false;
        for row in rows(&case, gadget, &values) {
            let expected = row.outputs(&honest);
            for witness in row.others(&honest) {
                assert_eq!(row.outputs(&witness), expected, "{name}: another output");
                if !std::mem::replace(&mut shown, true) {
                    // What nothing of it breaks is a proof.
                    assert_eq!(
                        case.verdict(case.trace.tensors(), &witness),
                        Ok(()),
                        "{name}"
                    );
                }
            }
        }
    }
}

/// The quotient of an element in a row of other inputs, and its cells.
fn divided(shape: &NormShape, row: &[i32], epsilon: u64, own: i32) -> (i32, Vec<u32>) {
    let (k, f) = (shape.how.precision, shape.how.fraction);
    let n = row.len() as i64;
    let sum: i64 = row.iter().copied().map(i64::from).sum();
    let squares: i64 = row.iter().map(|&x| i64::from(x) * i64::from(x)).sum();
    let radicand = (n * squares - sum * sum + epsilon as i64) << (2 * k);
    let root = tg_ir::op::root_above(radicand);
    let numerator = ((n * i64::from(own) - sum) << (k + f)) + root / 2;
    let (quotient, rest) = (numerator.div_euclid(root), numerator.rem_euclid(root));
    let shifted = quotient + (1 << (shape.output - 1));
    let low = |value: i64| value & 0xfff;
    let carry = (low(shifted) * low(root) + low(rest) - low(root / 2)) >> 12;
    let mut cells = Vec::new();
    let mut put = |bits: u32, value: i64| {
        let limbs = 0..limb_classes(bits).len();
        cells.extend(limbs.map(|limb| (value >> (12 * limb) & 0xfff) as u32));
    };
    put(shape.output, shifted);
    put(shape.root, rest);
    put(shape.root, root - 1 - rest);
    put(12, carry);
    if shape.split {
        put(8, i64::from((own >> 8) + 128));
        put(8, i64::from(own & 255));
    }
    (i32::try_from(quotient).unwrap(), cells)
}

/// A normalisation on other inputs and with another epsilon, whose columns are put in place of the honest ones; elements whose
/// input differs divide what their true input asks for. Gives the columns and what is put out.
fn foreign(case: &Case, inputs: &[i32], epsilon: u64, halves: bool) -> (Witness, Vec<IntTensor>) {
    let (node, gadget) = last(case);
    let GadgetKind::Norm(shape) = &gadget.kind else {
        panic!("not a normalisation");
    };
    let (mut program, mut plan) = (
        case.model.model.program.clone(),
        case.model.shape.plan.clone(),
    );
    if let Op::Norm(op::Unary { how, .. }) = &mut program.nodes[node].op {
        how.epsilon = epsilon;
    }
    if let NodePlan::Gadget(gadget) = &mut plan.nodes[node]
        && let GadgetKind::Norm(shape) = &mut gadget.kind
    {
        shape.how.epsilon = epsilon;
    }
    let mut tensors = case.trace.tensors().to_vec();
    tensors[node] = IntTensor::of(tensors[node].element_type(), inputs);
    let all: Vec<Vec<i32>> = tensors.iter().map(IntTensor::widened).collect();
    let weights = &case.model.model.weights;
    let elements = 0..inputs.len();
    let outputs: Vec<i32> = elements
        .map(|element| tg_ir::scalar::element(&program, weights, node, element, &all))
        .collect();
    tensors[node + 1] = IntTensor::of(ElementType::I16, &outputs);
    let other = Witness::of(&program, &plan, &tensors).unwrap();
    let mut witness = case.witness();
    let layout = plan.layouts[node + 1];
    for (index, table) in plan.witness.iter().enumerate() {
        if table.node == node {
            witness.columns[index] = other.columns[index].clone();
        }
    }
    let honest = case.trace.tensors()[node].widened();
    let table = gadget.columns.witness.start;
    for element in (0..inputs.len()).filter(|&element| inputs[element] != honest[element]) {
        let row = &inputs[element / layout.channels * layout.channels..][..layout.channels];
        let (quotient, cells) = divided(shape, row, epsilon, honest[element]);
        set(&mut tensors[node + 1], element, quotient);
        let at = layout.index_of_element(element);
        // Without the halves, which come last, of which those of the other input stay.
        let kept = cells.len()
            - if halves {
                0
            } else {
                2 * usize::from(shape.split)
            };
        for (column, cell) in cells.into_iter().take(kept).enumerate() {
            witness.columns[table][column][at] = cell;
        }
    }
    tensors[node] = case.trace.tensors()[node].clone();
    (witness, tensors)
}

/// Another root, another sum, another sum of squares and halves of another input, each with everything that follows from it.
#[test]
fn each_quantity_of_a_normalised_row_is_shown_by_a_relation_of_its_own() {
    for (name, case) in cases() {
        if !name.starts_with("layer norm") {
            continue;
        }
        let (node, gadget) = last(&case);
        let values = widened(&case);
        let split = name.ends_with("16 bits");
        let inputs = &values[node];
        let rows_of = |index| Relation::Constraint { rows: true, index };
        // Of the row stage: 2 is the sum, 3 (to 5 by halves) that of squares, the places of the equation follow.
        let places = if split { 6 } else { 4 };
        let mut turned = inputs.clone();
        let nonzero = |&value: &i32| value != 0 && value != -128;
        let nonzero = inputs.iter().position(nonzero).unwrap();
        turned[nonzero] = -turned[nonzero];
        let mut moved = inputs.clone();
        let step = if inputs[0] > inputs[1] { 1 } else { -1 };
        moved[0] -= step;
        moved[1] += step;
        let check = |inputs: &[i32], epsilon, halves, expected: &dyn Fn(Relation) -> bool| {
            let (witness, tensors) = foreign(&case, inputs, epsilon, halves);
            let broken = rows(&case, gadget, &values).flat_map(|row| row.broken(&witness));
            let broken: Vec<Relation> = broken.map(|broken| broken.relation).collect();
            assert!(!broken.is_empty(), "{name}");
            assert!(
                broken.iter().all(|&own| expected(own)),
                "{name}: {broken:?}"
            );
            let verdict = case.verdict(&tensors, &witness);
            assert_eq!(verdict, case.failed(node, NodeCheck::Relation), "{name}");
        };
        let place =
            |own| matches!(own, Relation::Constraint { rows: true, index } if index >= places);
        check(inputs, 9_000, true, &place);
        check(&turned, 1_000, true, &|own| {
            own == rows_of(2) || split && (3..6).any(|index| own == rows_of(index))
        });
        check(&moved, 1_000, true, &|own| {
            (3..places).any(|index| own == rows_of(index))
        });
        if split {
            let parts = Relation::Constraint {
                rows: false,
                index: 3,
            };
            check(&moved, 1_000, false, &|own| own == parts);
        }
    }
}

/// `z S + rho = X + p`, and the row's distance to 32,767 follows: only its equation tells. Rows sum to so much that p / S is
/// within that distance.
#[test]
fn a_probability_right_modulo_p_only_breaks_the_equation_of_its_row_alone() {
    let mut draft = Draft::new(8, Shape::new(1, 1, 4));
    let shape = Shape::vector(80);
    let input = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    let how = Softmax {
        rescale: Rescale::new(20_000, 25).unwrap(),
        table: (0..40u16).map(|i| 32_767 - 500 * i).collect(),
        causal: None,
    };
    let op = Op::Softmax(op::Unary {
        input,
        how: how.clone(),
    });
    draft.push(op, shape);
    let case = Case::of(draft.finish());
    let (node, gadget) = last(&case);
    let GadgetKind::Softmax(shape) = &gadget.kind else {
        panic!("not a softmax");
    };
    let values = widened(&case);
    let greatest = *values[node].iter().max().unwrap();
    let exponential = |score: &i32| i64::from(how.exponential(i64::from(greatest - score)));
    let sum: i64 = values[node].iter().map(exponential).sum();
    let prime = (1i64 << 31) - (1 << 24) + 1;
    let limbs = limb_classes(shape.sum_bits).len();
    let (rows_at, first) = (
        gadget.row_columns.as_ref().unwrap().witness.start,
        if shape.table.has_high_limb() { 3 } else { 2 },
    );
    for element in [0, 33, 79] {
        let numerator = exponential(&values[node][element]) * 32_767 + sum / 2 + prime;
        let (quotient, rest) = (numerator / sum, numerator % sum);
        let off = quotient - i64::from(values[node + 1][element]);
        assert!(quotient < 1 << 15 && off < 1 << 11, "{off}");
        let mut witness = case.witness();
        let at = case.model.shape.plan.layouts[node + 1].index_of_element(element);
        let numbers = [
            (first, 2, quotient),
            (first + 2, limbs, rest),
            (first + 2 + limbs, limbs, sum - 1 - rest),
        ];
        for (column, count, value) in numbers {
            for limb in 0..count {
                let cell = u32::try_from(value >> (12 * limb) & 0xfff).unwrap();
                witness.columns[gadget.columns.witness.start][column + limb][at] = cell;
            }
        }
        // After the greatest score, the sum, its half, their parity and the number of others.
        let distance = &mut witness.columns[rows_at][3 + 2 * limbs + 2][0];
        *distance += u32::try_from(off).unwrap();
        assert!(*distance < 1 << 12);
        let broken = rows(&case, gadget, &values).flat_map(|row| row.broken(&witness));
        let broken: Vec<Relation> = broken.map(|broken| broken.relation).collect();
        let place = |own: &Relation| {
            matches!(
                own,
                Relation::Constraint {
                    rows: true,
                    index: 4..
                }
            )
        };
        assert!(!broken.is_empty() && broken.iter().all(place), "{broken:?}");
        let tensors = case.tensors_with(node, element, i32::try_from(quotient).unwrap());
        let verdict = case.verdict(&tensors, &witness);
        assert_eq!(verdict, case.failed(node, NodeCheck::Relation));
    }
}

/// The shift of another channel, with the segment, step and rest that the accumulator has there.
#[test]
fn the_shift_of_another_channel_breaks_the_pair_alone() {
    let (name, case) = cases().swap_remove(1);
    let (node, gadget) = last(&case);
    let (GadgetKind::Wide(table), Op::Requantise(op::Unary { how, .. })) =
        (&gadget.kind, &case.model.model.program.nodes[node].op)
    else {
        panic!("{name} is no requantisation to 16 bits");
    };
    let values = widened(&case);
    let layout = case.model.shape.plan.layouts[node + 1];
    let pair = Relation::Constraint {
        rows: false,
        index: 0,
    };
    let mut lies = 0;
    for element in 0..values[node].len() {
        let own = how.pair_of(element % layout.channels);
        for other in (0..3).filter(|&other| other != own) {
            let accumulator = values[node][element];
            let (index, step, rest) = table.find(other, accumulator).unwrap();
            let segment = table.segments()[index];
            let limb = |class: u32, value: u32| (1 << class) - 1 + value;
            let cells = [
                index as u32,
                limb(segment.bits, step),
                limb(segment.class_low(), rest & 0xfff),
                limb(segment.class_high(), rest >> 12),
            ];
            let mut witness = case.witness();
            let columns = &mut witness.columns[gadget.columns.witness.start];
            let at = layout.index_of_element(element);
            for (column, cell) in columns.iter_mut().zip(cells) {
                column[at] = cell;
            }
            let broken = rows(&case, gadget, &values).flat_map(|row| row.broken(&witness));
            let broken: Vec<Relation> = broken.map(|broken| broken.relation).collect();
            assert_eq!(broken, [pair], "element {element} as {other}");
            let rescale = how.pairs[usize::from(other)];
            let output = i32::from(how.output(rescale, i64::from(accumulator)));
            let tensors = case.tensors_with(node, element, output);
            let verdict = case.verdict(&tensors, &witness);
            assert_eq!(verdict, case.failed(node, NodeCheck::Relation));
            lies += 1;
        }
    }
    assert!(lies >= 40, "{lies}");
}
