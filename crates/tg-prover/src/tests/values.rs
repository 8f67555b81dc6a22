//! Provers that lie about the columns of requantisations to 16 bits, normalisations, softmax and comparisons.

use super::models::{Case, Draft, window};
use crate::witness::Witness;
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Relation, Softmax};
use tg_ir::{Axis, ElementType, Op, Requantise, Rescale, Shape, TensorId, View};
use tg_proof::VerifyError;
use tg_proof::error::{LookupCheck, NodeCheck};
use tg_proof::plan::{GadgetKind, GadgetPlan, NodePlan};

const PRIME: i128 = (1 << 31) - (1 << 24) + 1;

/// A requantisation to 16 bits, the channels alternating between the shifts.
pub(super) fn wide(input: TensorId, shifts: &[u32], channels: u32, clamp: [i16; 2]) -> Op {
    let pairs = shifts
        .iter()
        .map(|&shift| Rescale::new(4, shift + 2).unwrap());
    let how = Requantise {
        pairs: pairs.collect(),
        channel_pairs: (0..channels)
            .map(|channel| (channel as usize % shifts.len()) as u8)
            .collect(),
        zero: 3,
        range: [-3_000_000, 3_000_000],
        clamp,
        table: None,
        output: ElementType::I16,
    };
    Op::Requantise(op::Unary { input, how })
}

/// Accumulators of a convolution over 5 or so channels, three pixels in a row.
fn draft(seed: u64, channels: u32) -> (Draft, TensorId, Shape) {
    let shape = Shape::new(2, 3, 4);
    let mut draft = Draft::new(seed, shape);
    let out = Shape::new(2, 3, channels);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), out);
    (draft, acc, out)
}

fn normalised(centred: bool, wide_input: bool) -> Case {
    let (mut draft, acc, shape) = draft(3, 7);
    let input = if wide_input {
        draft.push(wide(acc, &[1], 7, [-32_767, 32_767]), shape)
    } else {
        draft.requantise(acc, 22, [-128, 127])
    };
    let how = Norm {
        centred,
        epsilon: 1_000,
        precision: 2,
        fraction: 12,
    };
    draft.push(Op::Norm(op::Unary { input, how }), shape);
    Case::of(draft.finish())
}

/// Scores that are sums, and a table whose exponentials are large, so that rows sum to more than 2^16.
fn probabilities(causal: Option<u32>) -> Case {
    let (mut draft, input, shape) = draft(8, 5);
    let table = (0..40u16).map(|i| 32_767 - 500 * i).collect();
    let how = Softmax {
        rescale: Rescale::new(20_000, 25).unwrap(),
        table,
        causal,
    };
    draft.push(Op::Softmax(op::Unary { input, how }), shape);
    Case::of(draft.finish())
}

/// Two 8-bit tensors with some equal elements, and what compares them.
fn compared(op: impl Fn([TensorId; 2]) -> Op) -> Case {
    let (mut draft, acc, shape) = draft(5, 5);
    let a = draft.requantise(acc, 28, [-128, 127]);
    let b = draft.requantise(acc, 28, [-1, 2]);
    draft.push(op([a, b]), shape);
    Case::of(draft.finish())
}

fn along_channels(op: impl Fn(TensorId) -> Op) -> Case {
    let (mut draft, acc, shape) = draft(6, 5);
    let input = draft.requantise(acc, 29, [-2, 2]);
    draft.push(op(input), shape.with_axis(Axis::Channels, 1));
    Case::of(draft.finish())
}

/// The greatest `count` of five elements, some of them equal.
fn ranked(count: u32, give: Ranked) -> Case {
    let (mut draft, acc, shape) = draft(6, 5);
    let input = draft.requantise(acc, 28, [-2, 2]);
    let op = Op::TopK(op::TopK { input, give });
    draft.push(op, shape.with_axis(Axis::Channels, count));
    Case::of(draft.finish())
}

pub(super) fn cases() -> Vec<(&'static str, Case)> {
    let (mut narrow, acc, shape) = draft(2, 5);
    narrow.push(wide(acc, &[3], 5, [-2_000, 900]), shape);
    let (mut several, acc, shape) = draft(2, 5);
    several.push(wide(acc, &[0, 5, 14], 5, [-900, 32_767]), shape);
    let reduce = |reduction| {
        move |input| {
            Op::Reduce(op::Reduce {
                input,
                reduction,
                axis: Axis::Channels,
            })
        }
    };
    let relation = |relation| move |inputs| Op::Compare(op::Compare { inputs, relation });
    let extremum = |which| move |inputs| Op::Extremum(op::Extremum { inputs, which });
    vec![
        ("wide, clamped", Case::of(narrow.finish())),
        ("wide, three shifts", Case::of(several.finish())),
        ("layer norm of 8 bits", normalised(true, false)),
        ("layer norm of 16 bits", normalised(true, true)),
        ("root mean square norm", normalised(false, false)),
        ("softmax", probabilities(None)),
        ("causal softmax", probabilities(Some(1))),
        ("greater", compared(extremum(Extreme::Greater))),
        ("lesser", compared(extremum(Extreme::Lesser))),
        ("equal", compared(relation(Relation::Equal))),
        ("above", compared(relation(Relation::Greater))),
        (
            "above or equal",
            compared(relation(Relation::GreaterOrEqual)),
        ),
        (
            "select",
            compared(|[a, b]| {
                Op::Select(op::Select {
                    condition: b,
                    inputs: [a, b],
                })
            }),
        ),
        ("greatest", along_channels(reduce(Reduction::Greatest))),
        ("least", along_channels(reduce(Reduction::Least))),
        (
            "channel",
            along_channels(|input| Op::ArgMax(op::ArgMax { input })),
        ),
        ("three greatest", ranked(3, Ranked::Values)),
        ("channels of three", ranked(3, Ranked::Channels)),
        ("one greatest", ranked(1, Ranked::Values)),
        ("all channels", ranked(5, Ranked::Channels)),
    ]
}

fn last(case: &Case) -> (usize, &GadgetPlan) {
    let node = case.model.model.program.nodes.len() - 1;
    match &case.model.shape.plan.nodes[node] {
        NodePlan::Gadget(gadget) => (node, gadget),
        other => panic!("not a gadget: {other:?}"),
    }
}

const fn pulled() -> Result<(), VerifyError> {
    Err(VerifyError::Lookup(LookupCheck::Pulled))
}

/// An honest proof verifies; every cell of every column in a row that is in use, changed in any of several ways, does not.
#[test]
fn every_wrong_cell_is_caught() {
    for (name, case) in cases() {
        assert_eq!(case.check(&case.file), Ok(()), "{name}");
        let (node, gadget) = last(&case);
        let causal = gadget.staged.elements.mask;
        let honest = case.witness();
        for (index, table) in case.model.shape.plan.witness.iter().enumerate() {
            if table.node != node {
                continue;
            }
            let in_use = |row: &usize| {
                let element = table.layout.element_at(table.chunk.start + row);
                element.is_some_and(|element| {
                    let (pixel, channel) = (
                        element / table.layout.channels,
                        element % table.layout.channels,
                    );
                    channel < causal.channels(&table.layout, pixel)
                })
            };
            // Equal elements are the greater and the lesser of both, whatever the bit says; and are equal whatever the
            // magnitude of what is not there.
            let differ = |row: &usize| {
                let cell = |column: usize| honest.columns[index][column][*row];
                match name {
                    "greater" | "lesser" => cell(0) != 0,
                    "equal" => cell(1) + cell(2) != 0,
                    _ => true,
                }
            };
            let rows = (0..table.chunk.rows()).filter(in_use).filter(differ);
            let rows: Vec<usize> = rows.collect();
            let Some((&first, &final_row)) = rows.first().zip(rows.last()) else {
                continue;
            };
            for column in 0..table.columns {
                for (row, change) in [(first, 1), (final_row, 1), (first, 5_000)] {
                    let mut witness = honest.clone();
                    let cell = &mut witness.columns[index][column][row];
                    *cell = if change == 1 {
                        *cell ^ 1
                    } else {
                        *cell + change
                    };
                    let verdict = case.verdict(case.trace.tensors(), &witness);
                    let place = format!("{name}: part {} column {column} {change}", table.part);
                    assert!(
                        verdict == pulled() || verdict == case.failed(node, NodeCheck::Relation),
                        "{place}: {verdict:?}"
                    );
                }
            }
        }
    }
}

/// Outputs one off, the far ends, with the columns a liar would compute for them.
#[test]
fn another_output_is_caught() {
    for (name, case) in cases() {
        let (node, _) = last(&case);
        let honest = case.trace.tensors()[node + 1].widened();
        let most = match case.trace.tensors()[node + 1].element_type() {
            ElementType::I8 => 127,
            _ => 32_767,
        };
        for element in [0, honest.len() / 2, honest.len() - 1] {
            for other in [honest[element] + 1, honest[element] - 1, -most, most, 0] {
                if other == honest[element] || other.abs() > most {
                    continue;
                }
                let tensors = case.tensors_with(node, element, other);
                let witness = case.witness_of(&tensors).unwrap();
                let verdict = case.verdict(&tensors, &witness);
                assert_eq!(
                    verdict,
                    case.failed(node, NodeCheck::Relation),
                    "{name}: element {element} as {other}"
                );
            }
        }
    }
}

/// The table of a gadget's elements, the row of one, and the column after a number of columns.
fn cells(case: &Case, element: usize) -> (usize, usize) {
    let (node, gadget) = last(case);
    let table = gadget.columns.witness.start;
    let row = case.model.shape.plan.layouts[node + 1].index_of_element(element);
    assert!(row < case.model.shape.plan.witness[table].chunk.rows());
    (table, row)
}

fn set_limbs(witness: &mut Witness, (table, row): (usize, usize), first: usize, value: i128) {
    let mut rest = value;
    let mut column = first;
    while rest > 0 {
        witness.columns[table][column][row] = (rest & 0xfff) as u32;
        rest >>= 12;
        column += 1;
    }
}

/// `z S + rho = X + p` with z and rho in range: right modulo p, with honest columns for everything else.
#[test]
fn a_probability_right_modulo_p_only_is_caught_by_its_row() {
    let case = probabilities(None);
    let (node, gadget) = last(&case);
    let GadgetKind::Softmax(shape) = &gadget.kind else {
        panic!("not a softmax");
    };
    let Op::Softmax(op::Unary { how, .. }) = &case.model.model.program.nodes[node].op else {
        panic!("not a softmax");
    };
    let scores = case.trace.tensors()[node].widened();
    let greatest = *scores[..5].iter().max().unwrap();
    let exponential = |score: i32| i128::from(how.exponential(i64::from(greatest - score)));
    let sum: i128 = scores[..5].iter().map(|&score| exponential(score)).sum();
    let numerator = exponential(scores[0]) * 32_767 + sum / 2 + PRIME;
    let (quotient, rest) = (numerator / sum, numerator % sum);
    assert!(quotient < 1 << 15 && sum > 1 << 16);
    let tensors = case.tensors_with(node, 0, i32::try_from(quotient).unwrap());
    // What a row that hides it would have to be: only the element's own columns are replaced.
    let mut witness = case.witness();
    let place = cells(&case, 0);
    let first = if shape.table.has_high_limb() { 3 } else { 2 };
    let limbs = tg_proof::plan::limb_classes(shape.sum_bits).len();
    set_limbs(&mut witness, place, first, quotient);
    set_limbs(&mut witness, place, first + 2, rest);
    set_limbs(&mut witness, place, first + 2 + limbs, sum - 1 - rest);
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(node, NodeCheck::Relation)
    );
}

/// `z r + rho = X + j p` with z and rho in range: only the lowest limbs tell.
#[test]
fn a_quotient_right_modulo_p_only_is_caught_by_its_lowest_limbs() {
    let case = normalised(true, true);
    let (node, gadget) = last(&case);
    let GadgetKind::Norm(shape) = &gadget.kind else {
        panic!("not a normalisation");
    };
    let inputs: Vec<i128> = case.trace.tensors()[node].widened()[..7]
        .iter()
        .map(|&value| i128::from(value))
        .collect();
    let sum: i128 = inputs.iter().sum();
    let squares: i128 = inputs.iter().map(|x| x * x).sum();
    let radicand = (7 * squares - sum * sum + 1_000) << 4;
    let root = i128::from(tg_ir::op::root_above(radicand as i64));
    let honest = (7 * inputs[0] - sum) * (1 << 14) + root / 2;
    let reach = 1i128 << (shape.output - 1);
    let found = (-400..400i128).filter(|&j| j != 0).find_map(|j| {
        let numerator = honest + j * PRIME;
        let quotient = numerator.div_euclid(root);
        let within = (-reach..reach).contains(&quotient) && quotient.abs() < 32_767;
        within.then(|| (quotient, numerator.rem_euclid(root)))
    });
    let (quotient, rest) = found.expect("the root is small enough for such a quotient");
    let tensors = case.tensors_with(node, 0, i32::try_from(quotient).unwrap());
    let mut witness = case.witness();
    let place = cells(&case, 0);
    let [outputs, roots] =
        [shape.output, shape.root].map(|bits| tg_proof::plan::limb_classes(bits).len());
    set_limbs(&mut witness, place, 0, quotient + reach);
    set_limbs(&mut witness, place, outputs, rest);
    set_limbs(&mut witness, place, outputs + roots, root - 1 - rest);
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(node, NodeCheck::Relation)
    );
}

/// A segment in which the clamp is met, named for an accumulator inside it, and the other way round.
#[test]
fn a_clamp_that_is_not_met_is_caught() {
    let (_, case) = cases().swap_remove(0);
    let (node, gadget) = last(&case);
    let GadgetKind::Wide(table) = &gadget.kind else {
        panic!("not a requantisation to 16 bits");
    };
    let segments = table.segments();
    let outputs = case.trace.tensors()[node + 1].widened();
    let inside = outputs.iter().position(|&z| z > -2_000 && z < 900).unwrap();
    let clamped = outputs.iter().position(|&z| z == 900).unwrap();
    for (element, other) in [
        (inside, segments.iter().rposition(|s| s.clamped).unwrap()),
        (inside, segments.iter().position(|s| s.clamped).unwrap()),
        (clamped, segments.iter().rposition(|s| !s.clamped).unwrap()),
    ] {
        let segment = segments[other];
        let accumulator = i128::from(case.trace.tensors()[node].widened()[element]);
        let offset = (accumulator - i128::from(segment.base)).rem_euclid(PRIME) as u32;
        let (step, rest) = (offset >> segment.scale, offset & ((1 << segment.scale) - 1));
        let shown = if segment.clamped { 0 } else { step % 4_096 };
        let lie = i32::from(segment.output) + shown as i32;
        let tensors = case.tensors_with(node, element, lie.clamp(-32_767, 32_767));
        let mut witness = case.witness();
        let (table, row) = cells(&case, element);
        let columns = &mut witness.columns[table];
        columns[0][row] = other as u32;
        columns[1][row] = (1 << segment.bits) - 1 + (step & ((1 << segment.bits) - 1));
        columns[2][row] = (1 << segment.class_low()) - 1 + rest;
        assert_eq!(
            case.verdict(&tensors, &witness),
            case.failed(node, NodeCheck::Relation)
        );
        // With the true step, beyond its class: the accumulator is right modulo p.
        witness.columns[table][1][row] = (1 << segment.bits) - 1 + step;
        let verdict = case.verdict(&tensors, &witness);
        assert!(
            verdict == pulled() || verdict == case.failed(node, NodeCheck::Relation),
            "{verdict:?}"
        );
    }
}

/// Another greatest score with its distances, exponentials and sum: nothing attains it.
#[test]
fn a_greatest_score_that_is_none_is_caught() {
    let case = probabilities(None);
    let (node, gadget) = last(&case);
    let rows = gadget.row_columns.as_ref().unwrap().witness.start;
    let honest = case.witness();
    for change in [1, 7] {
        let mut witness = honest.clone();
        witness.columns[rows][0][0] += change;
        assert_eq!(
            case.verdict(case.trace.tensors(), &witness),
            case.failed(node, NodeCheck::Relation)
        );
    }
}

/// Messages of a stage that are of another length, or moved, are refused.
#[test]
fn changed_messages_are_refused() {
    use tg_proof::messages::GadgetProof;
    let case = normalised(true, false);
    let (node, _) = last(&case);
    let stages = |proof: &mut tg_proof::messages::InferenceProof,
                  change: &dyn Fn(&mut Vec<tg_proof::messages::StageProof>)| {
        match &mut proof.nodes[0].gadget {
            GadgetProof::Staged(stages) => change(stages),
            other => panic!("not staged: {other:?}"),
        }
    };
    let node_error = |check| case.failed(node, check).unwrap_err();
    let shape = node_error(NodeCheck::Messages);
    let relation = node_error(NodeCheck::Relation);
    type Change<'a> = &'a dyn Fn(&mut Vec<tg_proof::messages::StageProof>);
    let changes: [(Change<'_>, &VerifyError); 6] = [
        (&|stages| stages.truncate(1), &shape),
        (&|stages| stages.clear(), &shape),
        (&|stages| stages.swap(0, 1), &relation),
        (&|stages| stages[0].values.truncate(3), &shape),
        (&|stages| stages[1].values.swap(0, 1), &relation),
        (&|stages| stages[0].values.swap(0, 1), &relation),
    ];
    for (index, (change, expected)) in changes.into_iter().enumerate() {
        let error = case.forged(|proof| stages(proof, change));
        assert_eq!(error, *expected, "change {index}");
    }
}

/// Half of a norm's channels are read, at a point whose first coordinate is not drawn: the others still make the row.
#[test]
fn elements_that_nobody_reads_are_checked_where_their_row_does() {
    let (mut draft, acc, shape) = draft(3, 8);
    let input = draft.push(wide(acc, &[1], 8, [-32_767, 32_767]), shape);
    let how = Norm {
        centred: true,
        epsilon: 1_000,
        precision: 2,
        fraction: 12,
    };
    let input = draft.push(Op::Norm(op::Unary { input, how }), shape);
    let view = View::new(0, &[(6, 8), (4, 1)]);
    draft.push(
        Op::View(op::Unary { input, how: view }),
        Shape::new(2, 3, 4),
    );
    let case = Case::of(draft.finish());
    assert_eq!(case.check(&case.file), Ok(()));
    let node = case.model.model.program.nodes.len() - 2;
    let NodePlan::Gadget(gadget) = &case.model.shape.plan.nodes[node] else {
        panic!("not a gadget");
    };
    let honest = case.witness();
    let (table, row) = (gadget.columns.witness.start, 8 + 6);
    for column in 0..honest.columns[table].len() {
        let mut witness = honest.clone();
        witness.columns[table][column][row] ^= 1;
        assert_eq!(
            case.verdict(case.trace.tensors(), &witness),
            case.failed(node, NodeCheck::Relation),
            "column {column}"
        );
    }
}

/// Of equal elements the later one, an element twice, an element left out: with the columns a liar would commit.
#[test]
fn another_choice_of_greatest_elements_is_caught() {
    let case = ranked(3, Ranked::Channels);
    let (node, _) = last(&case);
    let honest = case.trace.tensors()[node + 1].widened();
    let inputs = case.trace.tensors()[node].widened();
    let (mut swaps, mut lies) = (0, 0);
    for row in 0..honest.len() / 3 {
        let own = &inputs[5 * row..][..5];
        let ranks = &honest[3 * row..][..3];
        for first in 0..5 {
            for second in 0..5 {
                for third in 0..5 {
                    let lie = [first, second, third];
                    if lie == ranks {
                        continue;
                    }
                    // Every choice in the first row, and in all rows those that give the same values.
                    let values =
                        |ranks: &[i32]| ranks.iter().map(|&c| own[c as usize]).collect::<Vec<_>>();
                    let equal = values(&lie) == values(ranks);
                    swaps += u32::from(equal);
                    if row > 0 && !equal {
                        continue;
                    }
                    let mut tensors = case.trace.tensors().to_vec();
                    for (rank, channel) in lie.into_iter().enumerate() {
                        super::models::set(&mut tensors[node + 1], 3 * row + rank, channel);
                    }
                    let witness = case.witness_of(&tensors).unwrap();
                    let verdict = case.verdict(&tensors, &witness);
                    let expected = case.failed(node, NodeCheck::Relation);
                    assert_eq!(verdict, expected, "row {row}: {lie:?} for {ranks:?}");
                    lies += 1;
                }
            }
        }
    }
    assert!(swaps >= 10 && lies >= 124, "{swaps} {lies}");
}

/// Ranks of which some are read: at a point with coordinates that are not drawn.
#[test]
fn one_of_several_ranks_is_read() {
    for (count, give) in [(3, Ranked::Values), (4, Ranked::Channels)] {
        let (mut draft, acc, shape) = draft(6, 5);
        let input = draft.requantise(acc, 28, [-2, 2]);
        let all = shape.with_axis(Axis::Channels, count);
        let input = draft.push(Op::TopK(op::TopK { input, give }), all);
        let view = View::new(1, &[(6, count as i32)]);
        draft.push(
            Op::View(op::Unary { input, how: view }),
            shape.with_axis(Axis::Channels, 1),
        );
        let case = Case::of(draft.finish());
        assert_eq!(case.check(&case.file), Ok(()));
        let node = case.model.model.program.nodes.len() - 2;
        let honest = case.trace.tensors()[node + 1].widened();
        let element = count as usize + 1;
        let tensors = case.tensors_with(node, element, honest[element] - 1);
        let witness = case.witness_of(&tensors).unwrap();
        assert_eq!(
            case.verdict(&tensors, &witness),
            case.failed(node, NodeCheck::Relation)
        );
    }
}
