//! Hugging Face folders as exact integer programs that have a proof: the tiny ones of `tg-pretrained`.

#![allow(clippy::print_stdout, reason = "decibels are read under --nocapture")]

use std::path::Path;
use tg_compile::{CompileOptions, Compiled, compile_outputs};
use tg_exec::execute_tensor;
use tg_exec::sample::Numbers;
use tg_float::{DType, Dim, Graph};
use tg_ir::coding::encode;
use tg_ir::{Answer, CheckedProgram};

/// Tokens of a sequence.
const LENGTH: usize = 7;
/// Least signal to noise of a program of a folder, in decibels.
const DECIBELS_MIN: f64 = 20.0;

/// Inputs of the graph's first kind: tokens of the vocabulary, or pictures.
fn samples(graph: &Graph, seed: u64, count: usize) -> Vec<Vec<f32>> {
    let mut numbers = Numbers::new(seed);
    let first = &graph.inputs[0];
    let known = |dim: &Dim| match dim {
        Dim::Known(size) => *size,
        Dim::Named(_) => LENGTH,
        Dim::Unknown => 1,
    };
    let elements: usize = first.shape.as_ref().unwrap().iter().map(known).product();
    let mut one = |_| match first.dtype {
        Some(DType::I64) => numbers.between(2, 23) as f32,
        _ => {
            (0..4)
                .map(|_| numbers.between(-100, 100) as f32)
                .sum::<f32>()
                / 100.0
        }
    };
    (0..count)
        .map(|_| (0..elements).map(&mut one).collect())
        .collect()
}

fn compiled(graph: &Graph) -> Compiled {
    let mut options = CompileOptions::default();
    options.prepare.axes.insert("sequence".to_owned(), LENGTH);
    for (name, value) in [("attention_mask", 1.0), ("token_type_ids", 0.0)] {
        if graph.inputs.iter().any(|input| input.name == name) {
            options.prepare.bind.insert(name.to_owned(), value);
        }
    }
    let takes = |program: CheckedProgram<'_>| {
        let taken = tg_prover::provable(program);
        taken.map_err(|error| error.to_string())
    };
    let mut calibration = |_: &_| Ok::<_, ()>(samples(graph, 5, 32));
    let (compiled, left_out) = compile_outputs(graph, &options, &mut calibration, &takes).unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    let report = &compiled.report;
    let mut unproved = report.left_out.iter();
    let taken = unproved.all(|(precision, _)| *precision != report.precision);
    assert!(taken, "{:?}", report.left_out);
    compiled
}

/// Decibels of the first output over samples that were not among the calibration.
fn decibels(graph: &Graph, compiled: &Compiled) -> f64 {
    let program = &compiled.model.program;
    let [mut signal, mut noise] = [0.0, 1e-12];
    for row in samples(graph, 6, 8) {
        let input = encode(&program.input, &row).unwrap();
        let trace = execute_tensor(&compiled.model, input).unwrap();
        let values = trace.output_values();
        let floats = compiled.float_outputs(&row).unwrap();
        let answer = Answer::new(program, &values);
        for (float, got) in floats[0].iter().zip(answer.reals()) {
            signal += f64::from(*float).powi(2);
            noise += (f64::from(*float) - got).powi(2);
        }
    }
    10.0 * (signal / noise).log10()
}

#[test]
fn folders_have_programs_with_proofs() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tg-pretrained/tests/data");
    let names = std::fs::read_dir(&data).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut poor = Vec::new();
    for name in names {
        let name = name.to_str().unwrap();
        let graph = tg_pretrained::read(&data.join(name)).unwrap().graph;
        let compiled = compiled(&graph);
        let found = decibels(&graph, &compiled);
        println!("{name}: {found:.1} dB, {:?}", compiled.report.precision);
        if found < DECIBELS_MIN {
            poor.push((name.to_owned(), found));
        }
    }
    assert!(poor.is_empty(), "{poor:?}");
}
