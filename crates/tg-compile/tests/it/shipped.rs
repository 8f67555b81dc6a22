//! The shipped models: compiled, compared with their floats, and pinned.

use std::fmt::Write as _;
use tg_compile::accuracy::{self, Accuracy};
use tg_compile::digits::{self, Digit};
use tg_compile::explain;
use tg_compile::{CompileOptions, Compiled, compile};
use tg_exec::execute;
use tg_float::Graph;
use tg_ir::coding;
use tg_onnx::{ReadLimits, read};
use tg_types::Digest;
use tg_types::codec::Encode;

const LENET: &[u8] = include_bytes!("../../../../models/lenet-digits.onnx");
const MLP: &[u8] = include_bytes!("../../../../models/mlp-digits.onnx");

fn graph(onnx: &[u8]) -> Graph {
    read(onnx, None, &ReadLimits::default()).unwrap()
}

type Image = fn(&Digit) -> Vec<f32>;

fn all_digits() -> Vec<Digit> {
    digits::read(include_bytes!("../../../../models/digits/digits.bin")).unwrap()
}

fn compiled(onnx: &[u8], image: Image) -> (Compiled, Accuracy) {
    let all = all_digits();
    let (unseen, seen): (Vec<Digit>, Vec<Digit>) = all.into_iter().partition(|d| d.unseen);
    let calibration: Vec<Vec<f32>> = seen.iter().take(256).map(image).collect();
    let compiled = compile(graph(onnx), &calibration, &CompileOptions::default());
    let compiled = compiled.unwrap();
    let samples: Vec<(Vec<f32>, usize)> = unseen
        .iter()
        .map(|digit| (image(digit), usize::from(digit.label)))
        .collect();
    let accuracy = accuracy::compare(&compiled, &samples).unwrap();
    (compiled, accuracy)
}

fn check_accuracy(accuracy: Accuracy, share: f64) {
    assert_eq!(accuracy.samples, 360);
    assert!(accuracy.float_right as f64 >= share * 360.0, "{accuracy:?}");
    assert!(
        accuracy.integer_right + 1 >= accuracy.float_right,
        "{accuracy:?}"
    );
    assert!(accuracy.agree >= 358, "{accuracy:?}");
}

#[test]
fn lenet_classifies_unseen_digits() {
    let (compiled, accuracy) = compiled(LENET, Digit::reals_28x28);
    check_accuracy(accuracy, 0.98);
    assert_eq!(explain::cost(&compiled.model.program).parameters, 44_426);
    assert_eq!(compiled.model.program.macs(), 281_640);
    let names: Vec<&str> = compiled
        .model
        .program
        .nodes
        .iter()
        .map(|n| n.op.name())
        .collect();
    assert_eq!(
        names,
        [
            "Conv",
            "Requantise",
            "MaxPool",
            "Conv",
            "Requantise",
            "MaxPool",
            "Dense",
            "Requantise",
            "Dense",
            "Requantise",
            "Dense"
        ]
    );
    assert!(
        compiled
            .report
            .layers
            .iter()
            .all(|layer| layer.snr_db > 30.0)
    );
}

#[test]
fn mlp_classifies_unseen_digits() {
    let (compiled, accuracy) = compiled(MLP, Digit::reals_8x8);
    check_accuracy(accuracy, 0.96);
    assert_eq!(explain::cost(&compiled.model.program).parameters, 2_410);
}

/// Compiling is a function of the file and the calibration, on every machine; so is executing.
#[test]
fn compiled_models_and_traces_are_pinned() {
    let mut lines = String::new();
    let models: [(&str, &[u8], Image); 2] = [
        ("lenet-digits", LENET, Digit::reals_28x28),
        ("mlp-digits", MLP, Digit::reals_8x8),
    ];
    for (name, onnx, image) in models {
        let (compiled, _) = compiled(onnx, image);
        let model = &compiled.model;
        let quantised = coding::quantise(&model.program.input, &image(&all_digits()[0]));
        let trace = execute(model, &quantised).unwrap();
        let file = Digest::of_blob(&model.to_bytes());
        writeln!(lines, "{name} file {file}").unwrap();
        writeln!(lines, "{name} program {}", model.program.id()).unwrap();
        writeln!(lines, "{name} trace {}", trace.digest()).unwrap();
        writeln!(lines, "{name} output {:?}", trace.output().widened()).unwrap();
    }
    assert_eq!(lines, include_str!("../data/compiled.txt"));
}

#[test]
fn a_missing_calibration_is_named() {
    let error = compile(graph(MLP), &[], &CompileOptions::default()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("at least one calibration input"),
        "{source}"
    );
}

#[test]
fn a_bad_normalisation_is_named() {
    let mlp = graph(MLP);
    let check = |mean: &[f32], std: &[f32]| {
        let options = CompileOptions {
            mean: mean.to_vec(),
            std: std.to_vec(),
            ..CompileOptions::default()
        };
        let error = compile(mlp.clone(), &[vec![0.5; 64]], &options).unwrap_err();
        assert!(
            error.to_string().contains("the image normalisation has"),
            "{error}"
        );
    };
    check(&[0.5], &[]);
    check(&[0.5, 0.5], &[0.5, 0.5]);
    check(&[0.5], &[0.0]);
    check(&[f32::NAN], &[1.0]);
}
