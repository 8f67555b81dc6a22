//! One entry per decoder of untrusted bytes: whatever the bytes, it returns.

use crate::fuse::fuse;
use crate::input::{self, Expected, Kind};
use crate::lower::{Naming, lower};
use crate::net::tgf::Budget;
use crate::net::{self, Data, Dim, ReadLimits};
use crate::onnx;
use tg_ir::Shape;

/// Graphs with larger values are only read: lowering them takes memory in proportion.
const ELEMENTS_MAX: usize = 1 << 16;

/// Reads an ONNX file; a good one is fused and lowered.
pub fn fuzz_onnx(bytes: &[u8]) {
    let Ok(graph) = onnx::read(bytes) else {
        return;
    };
    let Ok(graph) = fuse(graph) else {
        return;
    };
    let shapes = std::iter::once(&graph.input).chain(graph.nodes.iter().map(|node| &node.shape));
    if shapes
        .map(|shape| shape.iter().product::<usize>())
        .all(|elements| elements <= ELEMENTS_MAX)
    {
        let reach = vec![1.0; graph.nodes.len() + 1];
        if let Ok(lowered) = lower(&graph, &reach, Naming::default()) {
            let checked = lowered.model.weights.check(&lowered.model.program);
            assert!(checked.is_ok(), "a lowered model's weights are its own");
        }
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
