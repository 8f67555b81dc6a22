//! One entry per decoder of untrusted bytes: whatever the bytes, it returns.

use crate::compile::{CompileOptions, compile};
use crate::input::{self, Expected, Kind};
use tg_float::{Dim, FloatTensor, Graph, Input};
use tg_ir::Shape;

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

/// Reads a numpy file.
pub fn fuzz_npy(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Npy);
}

/// Reads an archive of numpy files.
pub fn fuzz_npz(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Npz);
}

/// Reads a JSON input.
pub fn fuzz_json(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Json);
}

/// Reads a PNG image.
pub fn fuzz_png(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Png);
}

fn fuzz_input(bytes: &[u8], kind: Kind) {
    for shape in [Shape::new(8, 8, 1), Shape::new(2, 3, 3), Shape::vector(4)] {
        let expected = Expected {
            shape,
            mean: &[],
            std: &[],
            numbers: shape.channels == 3,
            inputs: &[],
        };
        if let Ok(rows) = input::read(bytes, kind, expected) {
            let good = |row: &Vec<f32>| {
                row.len() == shape.elements() && row.iter().all(|value| value.is_finite())
            };
            assert!(rows.iter().all(good), "a row is finite and fills its shape");
        }
    }
}
