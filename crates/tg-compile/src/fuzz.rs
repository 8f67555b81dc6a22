//! Entries of fuzzing: whatever the graph, they return.

use crate::compile::{CompileOptions, compile};
use tg_float::{Dim, FloatTensor, Graph, Input};

/// Graphs with more constants or larger inputs are not compiled: it takes time in proportion.
const ELEMENTS_MAX: usize = 1 << 12;

/// Compiles a small graph, as read from an untrusted file.
pub fn fuzz_graph(graph: Graph) {
    let constants: usize = graph.constants.values().map(FloatTensor::len).sum();
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => *size,
        Dim::Named(_) | Dim::Unknown => 1,
    };
    let input = |input: &Input| {
        let axes = input.shape.iter().flatten();
        axes.fold(1usize, |product, dim| product.saturating_mul(size(dim)))
    };
    let inputs: usize = graph
        .inputs
        .iter()
        .map(input)
        .fold(0, usize::saturating_add);
    if constants > ELEMENTS_MAX || inputs > ELEMENTS_MAX || graph.nodes.len() > 64 {
        return;
    }
    if let Ok(compiled) = compile(graph, &[vec![0.5; inputs]], &CompileOptions::default()) {
        let model = &compiled.model;
        let checked = model.weights.check(&model.program);
        assert!(checked.is_ok(), "a lowered model's weights are its own");
    }
}
