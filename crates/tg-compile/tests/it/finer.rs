//! Sums whose terms take each other away: weights of 16 bits where 8 leave less than their rounding.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use std::collections::BTreeMap;
use tg_compile::calibrate::{self, ReachRule, Statistics};
use tg_compile::integer::Precision;
use tg_compile::passes::{PrepareOptions, Prepared, finer, prepare};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};

const LENGTH: usize = 40;

/// Numbers around 1.
fn around(seed: u64) -> Vec<Vec<f32>> {
    let mut table = rows(seed, 12, LENGTH);
    for row in &mut table {
        row.iter_mut().for_each(|x| *x = 1.0 + *x / 50.0);
    }
    table
}

/// Products with weights whose sum over the inputs is almost 0 for each output, as a matrix or as its transpose.
fn cancelling(transposed: bool) -> Graph {
    let mut writer = Writer::new(51);
    let x = writer.input("x", DType::F32, &[1, LENGTH]);
    let outputs = 3;
    let mut weights = vec![vec![0f32; LENGTH]; outputs];
    for (output, row) in weights.iter_mut().enumerate() {
        let mut draw = || writer.numbers.between(-1000, 1000) as f32 / 1000.0;
        row.iter_mut().for_each(|w| *w = draw());
        let mean = row.iter().sum::<f32>() / LENGTH as f32;
        row.iter_mut()
            .for_each(|w| *w = (*w - mean) * 0.6f32.powi(output as i32));
    }
    let y = if transposed {
        let w = writer.constant(&[outputs, LENGTH], weights.concat());
        let bias = writer.constant(&[outputs], vec![0.1, -0.2, 0.05]);
        let how = [("transB", Attribute::Int(1))];
        writer.node("Gemm", &[x, w, bias], &how)
    } else {
        let columns = (0..LENGTH).flat_map(|k| weights.iter().map(move |row| row[k]));
        let w = writer.constant(&[LENGTH, outputs], columns.collect());
        writer.node("MatMul", &[x, w], &[])
    };
    writer.finish(y)
}

fn observed(graph: Graph, table: &[Vec<f32>]) -> (Prepared, BTreeMap<ValueId, Statistics>) {
    let prepared = prepare(graph, &PrepareOptions::default()).unwrap();
    let length = table[0].len();
    let tensor = |row: &Vec<f32>| vec![FloatTensor::of(vec![1, length], row.clone()).unwrap()];
    let inputs: Vec<Vec<FloatTensor>> = table.iter().map(tensor).collect();
    let statistics = calibrate::observe(&prepared.graph, &inputs, ReachRule::Greatest).unwrap();
    (prepared, statistics)
}

#[test]
fn sums_that_cancel_keep_their_digits() {
    for transposed in [false, true] {
        let (_, snr) = measured(cancelling(transposed), &around(52), Precision::Bits16);
        assert!(snr > 45.0, "{snr:.1} dB");
    }
}

/// Of a layer whose result is large nothing changes.
#[test]
fn other_layers_stay_one() {
    let mut writer = Writer::new(53);
    let x = writer.input("x", DType::F32, &[1, LENGTH]);
    let w = writer.weights(&[LENGTH, 5]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let (prepared, statistics) = observed(writer.finish(y), &rows(54, 12, LENGTH));
    assert_eq!(finer(&prepared, &statistics), None);
    let (prepared, statistics) = observed(cancelling(true), &around(55));
    let written = finer(&prepared, &statistics).unwrap();
    let operators: Vec<&str> = written.graph.nodes.iter().map(|n| n.op.as_str()).collect();
    assert_eq!(operators, ["Gemm", "Gemm", "Add"]);
}
