//! Provers that lie in one place and go on honestly after it: accumulators, segments, limbs, permutations, layers.

use super::models::{
    ADD, CONV, CONV_OUT, Case, DENSE, JOB, PERMUTE, PROVIDER, SECOND, SECOND_OUT, SUM, SUM_OUT,
    case, set,
};
use crate::clear::prove_witness;
use crate::witness::Witness;
use tg_exec::IntTensor;
use tg_ir::segment::{LIMB_CLASS_MAX, limb_entry, limb_position};
use tg_ir::{CompiledModel, Segment, SegmentTable};
use tg_proof::VerifyError;
use tg_proof::error::{LookupCheck, NodeCheck};
use tg_proof::field::F;
use tg_proof::plan::NodePlan;

#[test]
fn the_case_is_honest() {
    let case = case();
    assert_eq!(case.public.verify_registration(), Ok(()));
    assert_eq!(case.check(&case.file), Ok(()));
    assert_eq!(case.verdict(case.trace.tensors(), &case.witness()), Ok(()));
}

#[test]
fn wrong_accumulators_are_caught_at_their_node() {
    let case = case();
    for (node, check) in [
        (CONV, NodeCheck::Products),
        (SECOND, NodeCheck::Products),
        (ADD, NodeCheck::Addition),
        (SUM, NodeCheck::Sources),
        (DENSE, NodeCheck::Products),
    ] {
        let accumulator = case.trace.tensors()[node + 1].accumulators().unwrap()[3];
        for change in [1, -1, 40_000] {
            let tensors = case.tensors_with(node, 3, accumulator + change);
            let witness = case.witness_of(&tensors).unwrap();
            assert_eq!(
                case.verdict(&tensors, &witness),
                case.failed(node, check),
                "node {node} by {change}"
            );
        }
    }
}

#[test]
fn another_output_of_a_requantisation_is_caught_by_the_lookup() {
    let case = case();
    for node in [CONV_OUT, SECOND_OUT] {
        let honest = case.trace.tensors()[node + 1].widened()[7];
        let tensors = case.tensors_with(node, 7, if honest > 0 { honest - 1 } else { honest + 1 });
        // The columns show the true accumulators; the tensor that is read later is another.
        let witness = case.witness_of(&tensors).unwrap();
        assert_eq!(case.verdict(&tensors, &witness), pulled());
    }
}

const fn pulled() -> Result<(), VerifyError> {
    Err(VerifyError::Lookup(LookupCheck::Pulled))
}

fn segments(case: &Case, node: usize) -> &SegmentTable {
    let NodePlan::Requantise { table, .. } = case.model.shape.plan.nodes[node] else {
        panic!("not a requantisation");
    };
    case.model.shape.plan.segments[table].as_ref().unwrap()
}

/// The honest witness, the first table of a requantisation, and a row in use whose segment fits `wanted`.
fn honest_row(
    case: &Case,
    node: usize,
    wanted: impl Fn(&Segment, u32) -> bool,
) -> (Witness, usize, usize) {
    let witness = case.witness();
    let table = case.table_of(node);
    let segments = segments(case, node).segments();
    let columns = &witness.columns[table];
    let layout = case.model.shape.plan.layouts[node + 1];
    let row = (0..columns[0].len())
        .find(|&row| {
            let in_use = row & ((1 << layout.channel_vars) - 1) < layout.channels;
            let low = limb_entry(columns[2][row]).1;
            in_use && wanted(&segments[columns[0][row] as usize], low)
        })
        .expect("some row fits");
    (witness, table, row)
}

#[test]
fn a_neighbouring_segment_with_the_same_offset_moves_the_accumulator() {
    let case = case();
    let (mut witness, table, row) = honest_row(case, CONV_OUT, |segment, _| segment.bits >= 4);
    // A segment of the same output and width if there is one, so that only the accumulator differs.
    let segments = segments(case, CONV_OUT).segments();
    let honest = segments[witness.columns[table][0][row] as usize];
    let other = segments
        .iter()
        .position(|s| {
            s.base != honest.base
                && (s.output, s.bits, s.pair) == (honest.output, honest.bits, honest.pair)
        })
        .expect("a run is covered by two segments");
    witness.columns[table][0][row] = u32::try_from(other).unwrap();
    assert_eq!(
        case.verdict(case.trace.tensors(), &witness),
        case.failed(CONV, NodeCheck::Products)
    );
}

#[test]
fn quotients_right_modulo_p_only_have_no_limbs() {
    let case = case();
    let (honest, table, row) = honest_row(case, CONV_OUT, |_, _| true);
    let segments = segments(case, CONV_OUT).segments();
    let segment = segments[honest.columns[table][0][row] as usize];
    let (_, high) = limb_entry(honest.columns[table][1][row]);
    let (_, low) = limb_entry(honest.columns[table][2][row]);
    let accumulator = i64::from(segment.base) + i64::from(256 * high + low);
    // Every other segment gives the accumulator modulo p, with an offset far above its width.
    let prime = (1i64 << 31) - (1 << 24) + 1;
    for other in [0, segments.len() / 2, segments.len() - 1] {
        let offset = (accumulator - i64::from(segments[other].base)).rem_euclid(prime);
        if offset < 1 << segments[other].bits {
            continue;
        }
        let mut witness = honest.clone();
        let position = limb_position(LIMB_CLASS_MAX, 0);
        witness.columns[table][0][row] = u32::try_from(other).unwrap();
        witness.columns[table][1][row] = position + u32::try_from(offset >> 8).unwrap();
        witness.columns[table][2][row] = position + u32::try_from(offset & 255).unwrap();
        // No entry of the limb table gives such a limb, so that the accumulator that is pulled is another.
        assert_eq!(
            case.verdict(case.trace.tensors(), &witness),
            case.failed(CONV, NodeCheck::Products)
        );
    }
}

#[test]
fn an_accumulator_off_by_p_is_no_output() {
    let case = case();
    let value = case.trace.output().accumulators().unwrap()[2];
    let prime = i32::try_from((1i64 << 31) - (1 << 24) + 1).unwrap();
    let other = if value > 0 {
        value - prime
    } else {
        value + prime
    };
    let mut tensors = case.trace.tensors().to_vec();
    set(&mut tensors[DENSE + 1], 2, other);
    assert_eq!(
        case.verdict(&tensors, &case.witness()),
        Err(VerifyError::OutputBound { index: 2 })
    );
}

#[test]
fn a_wide_class_on_a_narrow_segment_is_caught_by_the_lookup() {
    let case = case();
    let (mut witness, table, row) = honest_row(case, SUM_OUT, |segment, _| segment.bits < 8);
    let (class, low) = limb_entry(witness.columns[table][2][row]);
    assert!(class < LIMB_CLASS_MAX);
    // The same value: even the accumulator is right.
    witness.columns[table][2][row] = limb_position(LIMB_CLASS_MAX, low);
    assert_eq!(case.verdict(case.trace.tensors(), &witness), pulled());
}

#[test]
fn an_offset_above_its_class_is_caught_by_the_lookup() {
    let case = case();
    let (mut witness, table, row) = honest_row(case, SUM_OUT, |segment, _| segment.bits < 8);
    let segments = segments(case, SUM_OUT).segments();
    let position = witness.columns[table][0][row] as usize;
    let (segment, below) = (segments[position], segments[position - 1]);
    assert_eq!(segment.pair, below.pair);
    let (_, low) = limb_entry(witness.columns[table][2][row]);
    // The accumulator, named from the segment below: a larger offset, another output.
    let offset = u32::try_from(segment.base - below.base).unwrap() + low;
    assert!(offset >= 1 << below.bits && offset < 256);
    witness.columns[table][0][row] -= 1;
    witness.columns[table][2][row] = limb_position(LIMB_CLASS_MAX, offset);
    let layout = case.model.shape.plan.layouts[SUM_OUT + 1];
    let (pixel, channel) = (
        row >> layout.channel_vars,
        row & ((1 << layout.channel_vars) - 1),
    );
    let element = pixel * layout.channels + channel;
    let tensors = case.tensors_with(SUM_OUT, element, i32::from(below.output));
    let mut lie = case.witness_of(&tensors).unwrap();
    lie.columns[table] = witness.columns[table].clone();
    assert_eq!(case.verdict(&tensors, &lie), pulled());
}

#[test]
fn positions_outside_a_table_are_caught_by_the_lookup() {
    let case = case();
    let past = u32::try_from(segments(case, CONV_OUT).segments().len()).unwrap();
    for (column, position) in [
        (0, past),
        (1, 511),
        (2, 511),
        (0, u32::MAX >> 1),
        (2, 1 << 20),
    ] {
        let (mut witness, table, row) = honest_row(case, CONV_OUT, |_, _| true);
        witness.columns[table][column][row] = position;
        let verdict = case.verdict(case.trace.tensors(), &witness);
        assert!(
            matches!(
                verdict,
                Err(VerifyError::Lookup(_) | VerifyError::Node { .. })
            ),
            "column {column} at {position}: {verdict:?}"
        );
    }
}

#[test]
fn the_multiplier_of_another_channel_is_caught_by_the_lookup() {
    let case = case();
    let table = case.table_of(CONV_OUT);
    let segments = segments(case, CONV_OUT);
    let (pixel, channel) = (4, 2);
    let layout = case.model.shape.plan.layouts[CONV_OUT + 1];
    let element = pixel * layout.channels + channel;
    let accumulator = case.trace.tensors()[CONV + 1].accumulators().unwrap()[element];
    let other = segments.find(1, accumulator).unwrap();
    let segment = segments.segments()[other];
    let tensors = case.tensors_with(CONV_OUT, element, i32::from(segment.output));
    let mut witness = case.witness_of(&tensors).unwrap();
    let offset = u32::try_from(accumulator - segment.base).unwrap();
    let row = case.row(CONV_OUT, pixel, channel);
    witness.columns[table][0][row] = u32::try_from(other).unwrap();
    witness.columns[table][1][row] = limb_position(segment.class_high(), offset >> 8);
    witness.columns[table][2][row] = limb_position(segment.class_low(), offset & 255);
    assert_eq!(case.verdict(&tensors, &witness), pulled());
}

#[test]
fn padded_channels_hide_nothing() {
    let case = case();
    let table = case.table_of(CONV_OUT);
    let segments = segments(case, CONV_OUT);
    // Channel 6 of 8 does not exist: its segment is the one of padding, 0 to 0.
    let row = case.row(CONV_OUT, 3, 6);
    let honest = case.witness();
    let padding = segments.segments().len() as u32;
    assert_eq!(honest.columns[table][0][row], padding);
    let lies = |position: usize, value: i32| {
        let segment = segments.segments()[position];
        let offset = value.wrapping_sub(segment.base).cast_unsigned();
        let mut witness = honest.clone();
        witness.columns[table][0][row] = position as u32;
        witness.columns[table][1][row] = limb_position(segment.class_high(), offset >> 8);
        witness.columns[table][2][row] = limb_position(segment.class_low(), offset & 255);
        case.verdict(case.trace.tensors(), &witness)
    };
    // The right accumulator and output under a channel's pair: only the pair is another.
    let zero = segments.find(0, 0).unwrap();
    assert_eq!(segments.segments()[zero].output, 0);
    assert_eq!(lies(zero, 0), pulled());
    // An accumulator other than 0 that still rescales to 0.
    let products = case.failed(CONV, NodeCheck::Products);
    assert_eq!(lies(zero, 1), products);
    // An activation other than 0.
    let mut other = segments.segments().iter();
    let other = other.position(|s| s.output == 9 && s.pair == 0).unwrap();
    assert_eq!(lies(other, segments.segments()[other].base), products);
    // A limb beside the segment of padding.
    let mut witness = honest.clone();
    witness.columns[table][2][row] = limb_position(1, 1);
    assert_eq!(case.verdict(case.trace.tensors(), &witness), products);
    // The segment of padding on a row in use.
    let mut witness = honest.clone();
    witness.columns[table][0][case.row(CONV_OUT, 3, 2)] = padding;
    assert_eq!(case.verdict(case.trace.tensors(), &witness), products);
}

#[test]
fn a_wrong_permutation_is_caught_at_its_node() {
    let case = case();
    let mut tensors = case.trace.tensors().to_vec();
    let values = tensors[PERMUTE + 1].widened();
    let other = values.iter().position(|&value| value != values[0]).unwrap();
    set(&mut tensors[PERMUTE + 1], 0, values[other]);
    set(&mut tensors[PERMUTE + 1], other, values[0]);
    case.recompute(&mut tensors, PERMUTE + 1);
    let witness = case.witness_of(&tensors).unwrap();
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(PERMUTE, NodeCheck::Permutation)
    );
}

/// The second convolution is skipped: its input is passed on as its output, with accumulators made up to match.
#[test]
fn a_skipped_layer_is_caught_at_its_node() {
    let case = case();
    let mut tensors = case.trace.tensors().to_vec();
    let segments = segments(case, SECOND_OUT);
    let passed: Vec<i32> = tensors[3]
        .widened()
        .iter()
        .map(|v| (*v).clamp(-100, 100))
        .collect();
    let made_up = passed
        .iter()
        .enumerate()
        .map(|(element, &value)| {
            let pair = u8::from(element % 5 % 2 == 1);
            let fits = |s: &&Segment| i32::from(s.output) == value && s.pair == pair;
            segments.segments().iter().find(fits).unwrap().base
        })
        .collect();
    tensors[SECOND + 1] = IntTensor::I32(made_up);
    case.recompute(&mut tensors, SECOND_OUT);
    assert_eq!(tensors[SECOND_OUT + 1].widened(), passed);
    let witness = case.witness_of(&tensors).unwrap();
    assert_eq!(
        case.verdict(&tensors, &witness),
        case.failed(SECOND, NodeCheck::Products)
    );
}

#[test]
fn other_weights_than_the_committed_ones_are_caught_by_the_opening() {
    let (model, input) = super::models::everything();
    let mut case = Case::of((model, input.clone()));
    let CompiledModel {
        program,
        mut weights,
    } = case.model.model.clone().into_inner();
    weights.layers[1].weights[17] ^= 1;
    let model = CompiledModel { program, weights }.checked().unwrap();
    let trace = tg_exec::execute(&model, &input).unwrap();
    case.model.model = model;
    let witness = case.witness_of(trace.tensors()).unwrap();
    let file = prove_witness(
        &case.model,
        trace.tensors(),
        &witness,
        (JOB, PROVIDER),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(
        case.check(&file),
        Err(VerifyError::Opening { which: "weights" })
    );
}

/// The committed columns say exactly what the executor computed.
#[test]
fn the_witness_is_the_executors_trace() {
    for seed in 0..200 {
        let (model, input) = tg_exec::sample::random_model(seed);
        let Ok(model) = crate::ProvingModel::new(model) else {
            continue;
        };
        let trace = tg_exec::execute(&model.model, &input).unwrap();
        check_columns(&model, trace.tensors());
    }
    check_columns(&case().model, case().trace.tensors());
}

fn check_columns(model: &crate::ProvingModel, tensors: &[IntTensor]) {
    let (program, plan) = (&model.model.program, &model.shape.plan);
    let witness = Witness::of(program, plan, tensors).unwrap();
    for (table, columns) in plan.witness.iter().zip(&witness.columns) {
        let layout = plan.layouts[table.node + 1];
        let outputs = tensors[table.node + 1].widened();
        let input = program.nodes[table.node].op.inputs()[0].index();
        for row in 0..table.chunk.rows() {
            let index = table.chunk.start + row;
            let (pixel, channel) = (
                index >> layout.channel_vars,
                index & ((1 << layout.channel_vars) - 1),
            );
            let in_use = pixel < layout.pixels && channel < layout.channels;
            let element = pixel * layout.channels + channel;
            let output = if in_use { outputs[element] } else { 0 };
            if let NodePlan::Requantise { table, .. } = plan.nodes[table.node] {
                let segments = plan.segments[table].as_ref().unwrap();
                if !in_use {
                    let padding = segments.segments().len() as u32;
                    let row = [0, 1, 2].map(|column: usize| columns[column][row]);
                    assert_eq!(row, [padding, 0, 0]);
                    continue;
                }
                let segment = segments.segments()[columns[0][row] as usize];
                let (class_high, high) = limb_entry(columns[1][row]);
                let (class_low, low) = limb_entry(columns[2][row]);
                assert_eq!(
                    (class_high, class_low),
                    (segment.class_high(), segment.class_low())
                );
                assert_eq!(i32::from(segment.output), output);
                let accumulator = segment.base + i32::try_from(256 * high + low).unwrap();
                assert_eq!(accumulator, tensors[input].widened()[element]);
            } else {
                let differences: Vec<u32> = columns.iter().map(|column| column[row]).collect();
                assert!(differences.iter().all(|&difference| difference < 256));
                assert!(differences.contains(&0));
            }
        }
    }
    let _: Vec<p3_sumcheck::layout::Table<F>> = witness.tables_of(0..plan.witness.len().min(1));
}
