//! Which operators may have a program of integers, asked before anything else is looked at: a file that has another one where
//! its inputs are read is refused by that node, not by a shape or an input that would not matter.

use super::PrepareError;
use std::collections::BTreeSet;
use tg_float::{Graph, Node, ValueId};

/// Operators of ONNX's own domain that a pass or lowering takes, with some inputs at least.
const TAKEN: [&str; 158] = [
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "AffineGrid",
    "And",
    "ArgMax",
    "ArgMin",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "CastLike",
    "CausalConvWithState",
    "Ceil",
    "Celu",
    "CenterCropPad",
    "Clip",
    "Col2Im",
    "Compress",
    "Concat",
    "ConstantOfShape",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "CumSum",
    "DFT",
    "DeformConv",
    "DepthToSpace",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "DynamicQuantizeLinear",
    "Einsum",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "EyeLike",
    "Flatten",
    "Floor",
    "GRU",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "Greater",
    "GreaterOrEqual",
    "GridSample",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "If",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "LinearAttention",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MatMul",
    "MatMulInteger",
    "Max",
    "MaxPool",
    "MaxUnpool",
    "Mean",
    "MeanVarianceNormalization",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "NegativeLogLikelihoodLoss",
    "Not",
    "OneHot",
    "Or",
    "PRelu",
    "Pad",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RMSNormalization",
    "RNN",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Resize",
    "ReverseSequence",
    "RotaryEmbedding",
    "Round",
    "Scan",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shape",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "Slice",
    "Softmax",
    "SoftmaxCrossEntropyLoss",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "SwiGLU",
    "Swish",
    "Tan",
    "Tanh",
    "TensorScatter",
    "ThresholdedRelu",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Upsample",
    "Where",
    "Xor",
];

/// Refuses the first node that has no program where it reads what a caller gives.
pub(super) fn check(graph: &Graph) -> Result<(), PrepareError> {
    let mut given: BTreeSet<ValueId> = graph.inputs.iter().map(|input| input.value).collect();
    for node in &graph.nodes {
        let first = node.reads().find(|value| given.contains(value));
        let Some(first) = first else {
            continue;
        };
        let computed = !graph.inputs.iter().any(|input| input.value == first);
        if !is_taken(node) {
            return Err(PrepareError::Operator {
                node: node.name.clone(),
                op: node.op.clone(),
                before: computed.then(|| graph.name_of(first).to_owned()),
            });
        }
        // Shapes are known whatever a caller gives.
        if !(node.is("Shape") || node.is("Size")) {
            given.extend(node.gives());
        }
    }
    Ok(())
}

fn is_taken(node: &Node) -> bool {
    match node.domain.as_str() {
        "" => TAKEN.binary_search(&node.op.as_str()).is_ok(),
        // Of other domains each pass and lowering says what it takes.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_float::{DType, Dim, Input};

    #[test]
    fn the_list_is_in_order() {
        assert!(TAKEN.is_sorted());
    }

    #[test]
    fn the_first_operator_without_a_program_is_named() {
        let mut graph = Graph::default();
        let [x, y, z] = ["x", "y", "z"].map(|name| graph.fresh(name));
        // A shape that is not known, and an input without an axis' size: neither is looked at.
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(vec![Dim::Unknown, Dim::Unknown]),
        });
        graph.append(Node::new("relu", "Relu", 17, vec![x], vec![y]));
        graph.append(Node::new("distinct", "Unique", 17, vec![y], vec![z]));
        graph.outputs.push(z);
        let mut options = crate::passes::PrepareOptions::default();
        let error = crate::passes::prepare(graph.clone(), &options).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`distinct` (Unique)") && text.contains("--keep y"),
            "{text}"
        );
        // And that is so.
        options.keep = crate::passes::KeptOutputs::Named(vec!["y".to_owned()]);
        options.axes.insert("x.1".to_owned(), 3);
        let prepared = crate::passes::prepare(graph, &options).unwrap();
        assert_eq!(prepared.graph.nodes[0].op, "Relu");
    }
}
