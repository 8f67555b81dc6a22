//! The reader on untrusted bytes: whatever they are, it returns.

use crate::read::{ReadLimits, read};
use tg_float::{Data, Dim, FloatTensor, tensor, tgf};

/// Graphs with larger inputs are only read: executing them takes time in proportion.
const ELEMENTS_MAX: usize = 1 << 12;

/// Reads an ONNX file into the operator-level graph; a good one with small inputs is executed within a small budget.
pub fn fuzz_net(bytes: &[u8]) {
    let limits = ReadLimits {
        constant_bytes: 16 << 20,
        ..ReadLimits::default()
    };
    let Ok(graph) = read(bytes, None, &limits) else {
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
        let count = tensor::elements(&sizes).filter(|&count| count <= ELEMENTS_MAX);
        let Some(tensor) = count.map(|count| FloatTensor::new(sizes, Data::zeros(dtype, count)))
        else {
            return;
        };
        let Ok(tensor) = tensor else { return };
        inputs.push(tensor);
    }
    let budget = tgf::Budget {
        bytes: 4 << 20,
        iterations: 64,
        work: 1 << 32,
    };
    let inputs: Vec<&FloatTensor> = inputs.iter().collect();
    if let Ok(outputs) = tgf::run(&graph, &inputs, &budget) {
        assert_eq!(outputs.len(), graph.outputs.len(), "every output is given");
    }
}
