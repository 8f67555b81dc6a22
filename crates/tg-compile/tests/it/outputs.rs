//! Graphs of several outputs as one program and one proof, each output in its own unit and type.

use crate::graphs::{Writer, rows};
use tg_compile::passes::KeptOutputs;
use tg_compile::{CompileError, CompileOptions, Compiled, LeftOut, OutputsError, compile_outputs};
use tg_exec::execute_tensor;
use tg_float::{Attribute, DType, Graph};
use tg_ir::coding::{encode, output_of};
use tg_ir::{Answer, CheckedProgram};
use tg_proof::{ExpectedStatement, verify};
use tg_prover::{ProveRequest, ProvingModel, prove};

/// An encoder: its hidden values, scores of two layers on top in other units, the class, and the input itself.
fn encoder() -> Graph {
    let mut writer = Writer::new(91);
    let x = writer.input("x", DType::F32, &[1, 8]);
    let w = writer.weights(&[8, 12]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let hidden = writer.node("Relu", &[y], &[]);
    let w = writer.weights(&[12, 5]);
    let boxes = writer.node("MatMul", &[hidden, w], &[]);
    let hundred = writer.scalar(100.0);
    let boxes = writer.node("Mul", &[boxes, hundred], &[]);
    let w = writer.weights(&[12, 3]);
    let scores = writer.node("MatMul", &[hidden, w], &[]);
    let scores = writer.node("Softmax", &[scores], &[]);
    let axis = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
    let class = writer.node("ArgMax", &[scores], &axis);
    let mut graph = writer.finish(class);
    graph.outputs.extend([hidden, boxes, scores, x]);
    graph
}

fn compiled(graph: &Graph, keep: KeptOutputs) -> Result<(Compiled, Vec<LeftOut>), CompileError> {
    let mut options = CompileOptions::default();
    options.prepare.keep = keep;
    let takes = |program: CheckedProgram<'_>| {
        let taken = tg_prover::provable(program);
        taken.map_err(|error| error.to_string())
    };
    let found = compile_outputs(
        graph,
        &options,
        &mut |_| Ok::<_, ()>(rows(5, 12, 8)),
        &takes,
    );
    found.map_err(|error| match error {
        OutputsError::Compile(error) => error,
        OutputsError::Calibration(()) => unreachable!("there are rows"),
    })
}

/// Decibels of each output over some rows.
fn measured(compiled: &Compiled) -> Vec<f64> {
    let program = &compiled.model.program;
    let mut powers = vec![[0.0, 1e-12]; program.outputs().len()];
    for row in rows(6, 9, 8) {
        let input = encode(&program.input, &row).unwrap();
        let trace = execute_tensor(&compiled.model, input).unwrap();
        let values = output_of(program, &trace.output_bytes()).unwrap();
        assert_eq!(values, trace.output_values());
        let floats = compiled.float_outputs(&row).unwrap();
        for (place, output) in Answer::all(program, &values).iter().enumerate() {
            let got = output.reals();
            assert_eq!(got.len(), floats[place].len());
            for (float, got) in floats[place].iter().zip(got) {
                powers[place][0] += f64::from(*float).powi(2);
                powers[place][1] += (f64::from(*float) - got).powi(2);
            }
        }
    }
    let decibels = powers
        .iter()
        .map(|[signal, noise]| 10.0 * (signal / noise).log10());
    decibels.collect()
}

#[test]
fn all_outputs_are_one_program_and_one_proof() {
    let graph = encoder();
    let (compiled, left) = compiled(&graph, KeptOutputs::All).unwrap();
    assert_eq!(left, []);
    let program = &compiled.model.program;
    assert_eq!(program.outputs().len(), 5);
    let signature = program.signature.as_ref().unwrap();
    let names = graph.outputs.iter().map(|&value| graph.name_of(value));
    assert!(names.eq(signature.outputs.iter().map(|port| port.name.as_str())));
    // Each in its own unit: nothing is lost to the others.
    let scales: Vec<f32> = signature.outputs.iter().map(|port| port.scale).collect();
    assert!(scales[2] > 10.0 * scales[3], "{scales:?}");
    let decibels = measured(&compiled);
    assert!(decibels[1..].iter().all(|&db| db > 30.0), "{decibels:?}");
    assert_eq!(compiled.report.outputs.len(), 5);

    let row = &rows(7, 1, 8)[0];
    let input = encode(&program.input, row).unwrap();
    let model = ProvingModel::of_checked(compiled.model.clone()).unwrap();
    let public = model.register().unwrap();
    let request = ProveRequest::of(vec![input]);
    let (file, traces) = prove(&model, request, &mut |_| ()).unwrap();
    assert_eq!(file.output, traces[0].output_bytes());
    assert_eq!(
        verify(&public, &file, &ExpectedStatement::default()),
        Ok(())
    );
}

#[test]
fn outputs_are_picked_by_name_in_the_order_that_is_asked_for() {
    let graph = encoder();
    let name = |place: usize| graph.name_of(graph.outputs[place]).to_owned();
    let named = vec![name(3), name(1)];
    let (two, left) = compiled(&graph, KeptOutputs::Named(named.clone())).unwrap();
    assert_eq!(left, []);
    let signature = two.model.program.signature.as_ref().unwrap();
    let got: Vec<&str> = signature
        .outputs
        .iter()
        .map(|port| port.name.as_str())
        .collect();
    assert_eq!(got, named);
    let (one, _) = compiled(&graph, KeptOutputs::Named(vec![name(3)])).unwrap();
    let program = &one.model.program;
    // One output is the last node, as it was before there were several.
    assert!(program.outputs.is_empty());
    let none = compiled(&graph, KeptOutputs::Named(vec!["none".to_owned()]));
    assert!(none.unwrap_err().to_string().contains("imported"));
}

/// Scores with a mask of minus infinity before a softmax: finite numbers in its place are the same softmax, and other scores.
#[test]
fn a_mask_in_scores_that_are_given_stays_as_it_is() {
    let mut writer = Writer::new(94);
    let x = writer.input("x", DType::F32, &[1, 8]);
    let masked = (0..8).map(|at| if at > 5 { f32::NEG_INFINITY } else { 0.0 });
    let mask = writer.constant(&[8], masked.collect());
    let scores = writer.node("Add", &[x, mask], &[]);
    let y = writer.node("Softmax", &[scores], &[]);
    let mut graph = writer.finish(y);
    graph.outputs.push(scores);
    let (kept, left) = compiled(&graph, KeptOutputs::All).unwrap();
    let signature = kept.model.program.signature.as_ref().unwrap();
    assert_eq!(signature.outputs[0].name, graph.name_of(y));
    let [LeftOut { name, reason }] = left.as_slice() else {
        panic!("{left:?}");
    };
    assert_eq!(name, graph.name_of(scores));
    assert!(reason.contains("not finite"), "{reason}");
}

/// Both outputs of a classifier: the scores as they are, and the number of the class, which is found in the same scores.
#[test]
fn scores_and_class_of_a_classifier_are_one_program() {
    let mut writer = Writer::new(93);
    let x = writer.input("x", DType::F32, &[1, 8]);
    let floats = |count: usize| {
        let values = (0..count).map(|at| (at * 37 % 19) as f32 / 9.0 - 1.0);
        Attribute::Floats(values.collect())
    };
    let attributes = [
        ("coefficients", floats(24)),
        ("intercepts", floats(3)),
        ("classlabels_ints", Attribute::Ints(vec![10, 20, 30])),
    ];
    let domain = ("ai.onnx.ml", "LinearClassifier");
    let given = writer.nodes(domain, &[x], &attributes, 2);
    let mut graph = writer.finish(given[0]);
    graph.outputs.push(given[1]);
    let (compiled, left) = compiled(&graph, KeptOutputs::All).unwrap();
    assert_eq!(left, []);
    let program = &compiled.model.program;
    for row in rows(6, 9, 8) {
        let input = encode(&program.input, &row).unwrap();
        let trace = execute_tensor(&compiled.model, input).unwrap();
        let values = trace.output_values();
        let [class, scores] = Answer::all(program, &values)[..] else {
            panic!("two outputs");
        };
        let scores = scores.reals();
        let greatest = (0..3).fold(
            0,
            |best, at| if scores[at] > scores[best] { at } else { best },
        );
        assert_eq!(class.reals(), [[10.0, 20.0, 30.0][greatest]]);
    }
}

#[test]
fn outputs_without_a_program_are_named_and_the_others_kept() {
    let mut writer = Writer::new(92);
    let x = writer.input("x", DType::F32, &[1, 8]);
    let w = writer.weights(&[8, 4]);
    let scores = writer.node("MatMul", &[x, w], &[]);
    let distinct = writer.node("Unique", &[scores], &[]);
    let halves = writer.node("Relu", &[scores], &[]);
    let mut graph = writer.finish(distinct);
    graph.outputs.extend([scores, halves]);
    let (kept, left) = compiled(&graph, KeptOutputs::All).unwrap();
    assert_eq!(kept.model.program.outputs().len(), 2);
    let [LeftOut { name, reason }] = left.as_slice() else {
        panic!("{left:?}");
    };
    assert_eq!(name, graph.name_of(distinct));
    assert!(reason.contains("Unique"), "{reason}");
    // Who asks for it by name is told why not.
    let named = KeptOutputs::Named(vec![name.clone()]);
    assert!(compiled(&graph, named).is_err());
}
