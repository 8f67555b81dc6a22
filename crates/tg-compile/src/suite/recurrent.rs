//! A recurrent network, which the compiler lowers as it lowers one of a file.

use crate::compile::{CompileOptions, PrecisionChoice, compile};
use crate::integer::Precision;
use tg_exec::sample::Numbers;
use tg_float::graph::{Dim, Input, Node};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::coding::encode;
use tg_ir::{CompiledModel, IntTensor};

/// Rows of an image, and their length.
const STEPS: usize = 28;
const STATES: usize = 128;
const CLASSES: usize = 10;
/// Inputs that it is calibrated on.
const ROWS: usize = 8;

/// Numbers at most so large.
fn floats(numbers: &mut Numbers, count: usize, most: f32) -> Vec<f32> {
    let mut one = || numbers.between(-1_000, 1_000) as f32 / 1_000.0 * most;
    (0..count).map(|_| one()).collect()
}

/// The model of a seed with activations of 8 bits, and an input.
pub(super) fn lstm(seed: u64) -> (CompiledModel, IntTensor) {
    let mut numbers = Numbers::new(seed);
    let graph = graph(&mut numbers);
    let rows: Vec<Vec<f32>> = (0..ROWS)
        .map(|_| floats(&mut numbers, STEPS * STEPS, 1.0))
        .collect();
    let options = CompileOptions {
        precision: PrecisionChoice::Fixed(Precision::Bits8),
        ..CompileOptions::default()
    };
    let compiled = compile(graph, &rows, &options).expect("an LSTM has a program");
    let input = encode(&compiled.model.program.input, &rows[0]).expect("a row is an input");
    (compiled.model.into_inner(), input)
}

fn graph(numbers: &mut Numbers) -> Graph {
    let mut graph = Graph {
        name: "lstm-128".to_owned(),
        ..Graph::default()
    };
    graph.opsets.insert(String::new(), 17);
    let x = graph.fresh("x");
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some([STEPS, 1, STEPS].map(Dim::Known).to_vec()),
    });
    let mut weights = |graph: &mut Graph, name: &str, shape: &[usize], most: f32| -> ValueId {
        let values = floats(numbers, shape.iter().product(), most);
        let tensor = FloatTensor::of(shape.to_vec(), values).expect("the values fill the shape");
        graph.constant(name, tensor)
    };
    // As PyTorch draws them.
    let most = 1.0 / (STATES as f32).sqrt();
    let read = weights(&mut graph, "W", &[1, 4 * STATES, STEPS], most);
    let kept = weights(&mut graph, "R", &[1, 4 * STATES, STATES], most);
    let bias = weights(&mut graph, "B", &[1, 8 * STATES], most);
    let head = weights(&mut graph, "head", &[CLASSES, STATES], most);
    let offset = weights(&mut graph, "offset", &[CLASSES], most);
    let last = graph.fresh("last");
    let mut node = Node::new("lstm", "LSTM", 14, vec![x, read, kept, bias], Vec::new());
    node.outputs = vec![None, Some(last)];
    let states = Attribute::Int(STATES as i64);
    graph.append(node.with("hidden_size", states));
    let shape = graph.constant("shape", FloatTensor::vector(vec![1i64, STATES as i64]));
    let flat = graph.fresh("flat");
    graph.append(Node::new(
        "flat",
        "Reshape",
        17,
        vec![last, shape],
        vec![flat],
    ));
    let scores = graph.fresh("scores");
    let node = Node::new("head", "Gemm", 17, vec![flat, head, offset], vec![scores]);
    graph.append(node.with("transB", Attribute::Int(1)));
    graph.outputs.push(scores);
    graph
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::execute_tensor;

    #[test]
    fn the_states_are_multiplied_at_every_step_and_the_scores_live() {
        let (model, input) = lstm(7);
        let model = model.checked().unwrap();
        let weights: usize = model
            .weights
            .layers
            .iter()
            .map(|layer| layer.weights.len())
            .sum();
        let own = 4 * STATES * (STEPS + STATES) + CLASSES * STATES;
        assert!((own..2 * own).contains(&weights), "{weights}");
        // The states before the first step are 0.
        let macs = 4 * STATES * (STEPS * STEPS + STATES * (STEPS - 1)) + CLASSES * STATES;
        assert_eq!(model.program.macs() as usize, macs);
        let scores = execute_tensor(&model, input).unwrap().output().widened();
        assert_eq!(scores.len(), CLASSES);
        let mut distinct = scores;
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > CLASSES / 2, "{distinct:?}");
    }
}
