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
