//! Programs in 16 bits whose accumulators, axes or factors leave a proof little room: they have one, and their answers are near.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use tg_compile::integer::Precision;
use tg_float::{Attribute, DType, Graph, ValueId};

/// The program of 16 bits has a proof and is at least this far above the noise.
fn check(
    name: &str,
    shape: &[usize],
    least: f64,
    build: impl FnOnce(&mut Writer, ValueId) -> ValueId,
) {
    let mut writer = Writer::new(81);
    let x = writer.input("x", DType::F32, shape);
    let y = build(&mut writer, x);
    let graph: Graph = writer.finish(y);
    let inputs = rows(5, 8, shape.iter().product());
    let (compiled, snr) = measured(graph, &inputs, Precision::Bits16);
    if let Err(error) = tg_prover::provable(compiled.model.checked_program()) {
        panic!("{name}: {error}");
    }
    assert!(snr > least, "{name}: {snr:.1} dB");
}

#[test]
fn functions_of_long_sums_are_behind_a_shift() {
    for op in ["Tanh", "Sigmoid", "Erf"] {
        check(op, &[1, 64], 40.0, |writer, x| {
            let w = writer.weights(&[64, 8]);
            let sums = writer.node("MatMul", &[x, w], &[]);
            writer.node(op, &[sums], &[])
        });
    }
}

#[test]
fn channels_of_unrelated_factors_are_requantised_run_by_run() {
    check("factors", &[1, 5], 50.0, |writer, x| {
        let factors = writer.constant(&[5], vec![0.3, 1.7, 0.071, 2.9, 1.1]);
        let offsets = writer.constant(&[5], vec![0.5, -2.0, 0.01, 1.0, 0.0]);
        let scaled = writer.node("Mul", &[x, factors], &[]);
        let moved = writer.node("Add", &[scaled, offsets], &[]);
        writer.node("Mul", &[moved, moved], &[])
    });
}

#[test]
fn long_sums_are_compared_as_activations() {
    check("ArgMax", &[1, 64], 100.0, |writer, x| {
        let w = writer.weights(&[64, 6]);
        let sums = writer.node("MatMul", &[x, w], &[]);
        let far = writer.constant(&[6], vec![900.0, 0.0, -900.0, 300.0, 1.0, 2.0]);
        let sums = writer.node("Mul", &[sums, far], &[]);
        let how = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
        writer.node("ArgMax", &[sums], &how)
    });
}

#[test]
fn long_rows_are_normalised_of_fewer_units() {
    check(
        "InstanceNormalization",
        &[1, 2, 72, 72],
        35.0,
        |writer, x| {
            let gain = writer.constant(&[2], vec![1.5, 0.5]);
            let offset = writer.constant(&[2], vec![0.1, -0.2]);
            writer.node("InstanceNormalization", &[x, gain, offset], &[])
        },
    );
}

/// Each step of a recurrence has tables of its own, for which a proof has little room.
#[test]
fn many_tables_have_few_entries() {
    check("chain", &[1, 8], 35.0, |writer, x| {
        let mut state = x;
        for _ in 0..40 {
            let w = writer.weights(&[8, 8]);
            let sums = writer.node("MatMul", &[state, w], &[]);
            let gate = writer.node("Sigmoid", &[sums], &[]);
            let bent = writer.node("Tanh", &[sums], &[]);
            state = writer.node("Mul", &[gate, bent], &[]);
            state = writer.node("Add", &[state, x], &[]);
        }
        state
    });
}

/// Features of a table in units of their own, centred and scaled, as a standard scaler does it.
#[test]
fn any_number_of_channels_has_factors_of_its_own() {
    for (name, squared) in [("scaled", false), ("squared", true)] {
        check(name, &[1, 30], 40.0, |writer, x| {
            let factors = (0..30).map(|at| 0.4 * 1.09f32.powi(at)).collect();
            let factors = writer.constant(&[30], factors);
            let offsets = (0..30).map(|at| 0.3 * (at as f32).sin()).collect();
            let offsets = writer.constant(&[30], offsets);
            let moved = writer.node("Sub", &[x, offsets], &[]);
            let scaled = writer.node("Mul", &[moved, factors], &[]);
            if squared {
                return writer.node("Mul", &[scaled, scaled], &[]);
            }
            let w = writer.weights(&[30, 4]);
            let sums = writer.node("MatMul", &[scaled, w], &[]);
            writer.node("Add", &[sums, sums], &[])
        });
    }
}

/// A masked mean of rows: what is multiplied by flags is in its own unit, which is coarser than the one it would be given.
#[test]
fn a_finer_unit_than_the_accumulators_own_is_not_asked_for() {
    let mut writer = Writer::new(82);
    let x = writer.input("x", DType::F32, &[1, 10, 16]);
    let keeps = writer.input("keeps", DType::Bool, &[1, 10, 1]);
    let gain = writer.constant(&[16], vec![1.0; 16]);
    let offset = writer.constant(&[16], vec![0.0; 16]);
    let even = writer.node("LayerNormalization", &[x, gain, offset], &[]);
    let float = Attribute::Int(i64::from(DType::F32.to_onnx()));
    let flags = writer.node("Cast", &[keeps], &[("to", float)]);
    let kept = writer.node("Mul", &[even, flags], &[]);
    let axes = writer.ints(&[1]);
    let how = [("keepdims", Attribute::Int(0))];
    let sum = writer.node("ReduceSum", &[kept, axes], &how);
    let count = writer.node("ReduceSum", &[flags, axes], &how);
    let one = writer.scalar(1.0);
    let count = writer.node("Max", &[count, one], &[]);
    let mean = writer.node("Div", &[sum, count], &[]);
    let graph = writer.finish(mean);
    let flag = |(at, value): (usize, f32)| match at < 160 {
        true => value,
        false => f32::from(u8::from(value > -0.3)),
    };
    let inputs = rows(6, 8, 170).into_iter();
    let inputs: Vec<Vec<f32>> = inputs
        .map(|row| row.into_iter().enumerate().map(flag).collect())
        .collect();
    let (compiled, snr) = measured(graph, &inputs, Precision::Bits16);
    if let Err(error) = tg_prover::provable(compiled.model.checked_program()) {
        panic!("{error}");
    }
    assert!(snr > 40.0, "{snr:.1} dB");
}

/// Votes and, far below them, what tells equal votes apart: the sum has units of the votes, and the other term is read in them.
#[test]
fn a_term_of_far_finer_units_than_the_sum_keeps_its_meaning() {
    check("votes", &[1, 12], 40.0, |writer, x| {
        let zero = writer.scalar(0.0);
        let over = writer.node("Greater", &[x, zero], &[]);
        let float = Attribute::Int(i64::from(DType::F32.to_onnx()));
        let votes = writer.node("Cast", &[over], &[("to", float)]);
        let small = writer.scalar(1e-3);
        let small = writer.node("Mul", &[x, small], &[]);
        let bent = writer.node("Tanh", &[small], &[]);
        writer.node("Add", &[votes, bent], &[])
    });
}
