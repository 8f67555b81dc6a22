//! Float graphs against ONNX's own reference evaluator (`tests/data/make_onnx_cases.py`), and integer programs against
//! float graphs.

use tg_compile::integer::Precision;
use tg_compile::passes::{PrepareOptions, prepare};
use tg_compile::{CompileOptions, PrecisionChoice, compile, integer};
use tg_exec::sample::Numbers;
use tg_exec::{execute_tensor, range};
use tg_float::tgf::{Budget, run};
use tg_float::{FloatTensor, Graph};
use tg_ir::SegmentTable;
use tg_ir::coding;
use tg_ir::op;
use tg_onnx::{ReadLimits, read};

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    model: String,
    input: Vec<f32>,
    shape: Vec<usize>,
    output: Vec<f32>,
}

impl Case {
    fn graph(&self) -> Graph {
        read(&self.onnx(), None, &ReadLimits::default())
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    fn onnx(&self) -> Vec<u8> {
        let digits = self.model.as_bytes().chunks_exact(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(include_bytes!("../data/onnx_cases.json")).unwrap()
}

#[test]
fn the_float_graph_agrees_with_onnx() {
    for case in cases() {
        let prepared = prepare(case.graph(), &PrepareOptions::default()).unwrap();
        let declared = prepared.shape(prepared.graph.inputs[0].value).to_vec();
        let given = FloatTensor::of(declared, case.input.clone()).unwrap();
        let outputs = run(&prepared.graph, &[&given], &Budget::default()).unwrap();
        assert_eq!(outputs[0].shape(), case.shape, "{}", case.name);
        let got: &[f32] = outputs[0].values().unwrap();
        assert_eq!(got.len(), case.output.len());
        for (got, expected) in got.iter().zip(&case.output) {
            let error = (got - expected).abs();
            assert!(
                error <= 1e-5 * (1.0 + expected.abs()),
                "{}: {got} {expected}",
                case.name
            );
        }
    }
}

/// A wrong order of elements anywhere would leave noise as strong as the signal.
#[test]
fn the_integer_program_follows_the_float_graph() {
    let mut numbers = Numbers::new(5);
    for case in cases() {
        let graph = case.graph();
        let prepared = prepare(graph.clone(), &PrepareOptions::default()).unwrap();
        let (shape, _) = integer::input_order(&prepared).unwrap();
        let inputs: Vec<Vec<f32>> = (0..16)
            .map(|_| {
                let each = 0..shape.elements();
                each.map(|_| numbers.between(-1000, 1000) as f32 / 1000.0)
                    .collect()
            })
            .collect();
        let narrow = CompileOptions {
            precision: PrecisionChoice::Fixed(Precision::Bits8),
            ..CompileOptions::default()
        };
        let compiled = compile(graph, &inputs, &narrow)
            .unwrap_or_else(|e| panic!("{}: {e}: {:?}", case.name, std::error::Error::source(&e)));
        for layer in &compiled.report.layers {
            assert!(layer.snr_db > 25.0, "{}: {layer:?}", case.name);
        }
        let program = &compiled.model.program;
        program.validate().unwrap();
        assert_eq!(range::first_violation(&compiled.model), None);
        assert_eq!(range::check(&compiled.model), Ok(()));
        for node in &program.nodes {
            if let tg_ir::Op::Requantise(op::Unary { how, .. }) = &node.op {
                SegmentTable::build(how).unwrap();
            }
        }
        check_output(&compiled, &inputs, &case.name);
    }
}

/// The program's last tensor is the graph's output.
fn check_output(compiled: &tg_compile::Compiled, rows: &[Vec<f32>], name: &str) {
    let program = &compiled.model.program;
    let (mut signal, mut noise) = (0.0, 0.0);
    for row in rows {
        let encoded = coding::encode(&program.input, row).unwrap();
        let trace = execute_tensor(&compiled.model, encoded).unwrap();
        let floats = compiled.float_output(row).unwrap();
        let integers = compiled.in_file_order(trace.output());
        for (integer, float) in integers.into_iter().zip(floats) {
            let (integer, float) = (f64::from(integer), f64::from(float));
            signal += float * float;
            noise += (float - integer * compiled.output().scale).powi(2);
        }
    }
    assert!(
        noise < signal / 100.0,
        "{name}: signal {signal}, noise {noise}"
    );
}
