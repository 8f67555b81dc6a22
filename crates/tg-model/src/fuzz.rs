//! One entry per decoder of untrusted bytes: whatever the bytes, it returns.

use crate::compile::{CompileOptions, compile};
use crate::input::{self, Expected, Kind};
use crate::net::tgf::Budget;
use crate::net::{self, Data, Dim, ReadLimits, read};
use tg_ir::Shape;

/// Graphs with more constants or larger inputs are only read: executing them takes time in proportion.
const ELEMENTS_MAX: usize = 1 << 12;

/// Reads an ONNX file; a small one is compiled.
pub fn fuzz_onnx(bytes: &[u8]) {
    let Ok(graph) = read(bytes, None, &ReadLimits::default()) else {
        return;
    };
    let constants: usize = graph.constants.values().map(crate::net::Tensor::len).sum();
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => *size,
        Dim::Named(_) | Dim::Unknown => 1,
    };
    let input = |input: &crate::net::Input| {
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

/// Reads an ONNX file into the operator-level graph; a good one with small inputs is executed within a small budget.
pub fn fuzz_net(bytes: &[u8]) {
    let limits = ReadLimits {
        constant_bytes: 16 << 20,
        ..ReadLimits::default()
    };
    let Ok(graph) = net::read(bytes, None, &limits) else {
        return;
    };
    assert_eq!(
        graph.check(),
        Ok(()),
        "a graph that was read is well formed"
    );
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    for input in &graph.inputs {
        let (Some(dtype), Some(shape)) = (input.dtype, &input.shape) else {
            return;
        };
        let sizes: Vec<usize> = shape
            .iter()
            .map(|axis| match axis {
                Dim::Known(size) => *size,
                Dim::Named(_) | Dim::Unknown => 1,
            })
            .collect();
        let count = net::tensor::elements(&sizes).filter(|&count| count <= ELEMENTS_MAX);
        let Some(tensor) = count.map(|count| net::Tensor::new(sizes, Data::zeros(dtype, count)))
        else {
            return;
        };
        let Ok(tensor) = tensor else { return };
        inputs.push(tensor);
    }
    let budget = Budget {
        bytes: 4 << 20,
        iterations: 64,
    };
    let inputs: Vec<&net::Tensor> = inputs.iter().collect();
    if let Ok(outputs) = net::tgf::run(&graph, &inputs, &budget) {
        assert_eq!(outputs.len(), graph.outputs.len(), "every output is given");
    }
}

/// Reads a numpy file.
pub fn fuzz_npy(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Npy);
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
        };
        if let Ok(rows) = input::read(bytes, kind, expected) {
            let good = |row: &Vec<f32>| {
                row.len() == shape.elements() && row.iter().all(|value| value.is_finite())
            };
            assert!(rows.iter().all(good), "a row is finite and fills its shape");
        }
    }
}
