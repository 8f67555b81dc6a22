//! Folding and fusing: scale-and-shift nodes into the linear node before them, clips into whatever computes them.

use crate::graph::{Fate, FloatGraph, FloatNode, FloatOp, Rebuilding, Value};
use crate::onnx::{ImportError, NodeReason, RefusedNode};

/// Folds every `Affine` node into the convolution or dense node it follows, and fuses every `Clip` that is the only
/// reader of a convolution, dense, sum or average.
///
/// # Errors
/// If a scale-and-shift node does not follow a linear node that nothing else reads.
pub fn fuse(graph: FloatGraph) -> Result<FloatGraph, ImportError> {
    let readers: Vec<usize> = (0..=graph.nodes.len())
        .map(|value| graph.readers(Value(value)))
        .collect();
    let sources: Vec<Option<Value>> = graph
        .nodes
        .iter()
        .map(|node| node.inputs.first().copied())
        .collect();
    let shapes: Vec<Vec<usize>> = (0..=graph.nodes.len())
        .map(|value| graph.shape(Value(value)).to_vec())
        .collect();
    let mut refused = None;
    let fused = graph.rebuilt(|index, state| {
        let alone = sources[index].is_some_and(|source| readers[source.0] == 1);
        let fate = fuse_node(state, alone);
        if matches!(fate, Fate::Keep)
            && let Some(node) = &state.current
            && matches!(node.op, FloatOp::Affine { .. })
            && refused.is_none()
        {
            refused = Some(ImportError::Node(Box::new(RefusedNode {
                node: node.name.clone(),
                operator: node.operator.clone(),
                inputs: sources[index]
                    .map(|source| shapes[source.0].clone())
                    .into_iter()
                    .collect(),
                reason: NodeReason::NotFoldable,
            })));
        }
        fate
    });
    refused.map_or(Ok(fused), Err)
}

/// What becomes of the node at hand; `alone` says that it is the only reader of its first input.
fn fuse_node(state: &mut Rebuilding, alone: bool) -> Fate {
    let Rebuilding { nodes, current, .. } = state;
    let Some(node) = current else {
        return Fate::Keep;
    };
    let input = node.inputs[0];
    let Some(before) = input.0.checked_sub(1).map(|index| &mut nodes[index]) else {
        return Fate::Keep;
    };
    if !alone {
        return Fate::Keep;
    }
    let fused = match &node.op {
        FloatOp::Affine { scale, shift } => fold_affine(before, scale, shift),
        FloatOp::Clip { bounds } => fuse_clip(before, *bounds),
        _ => false,
    };
    if fused {
        Fate::ReplaceBy(input)
    } else {
        Fate::Keep
    }
}

fn fold_affine(before: &mut FloatNode, scale: &[f32], shift: &[f32]) -> bool {
    if before.clamp.is_some() {
        return false;
    }
    let (FloatOp::Conv { weights, bias, .. } | FloatOp::Dense { weights, bias }) = &mut before.op
    else {
        return false;
    };
    let reduction = weights.len() / bias.len();
    for (channel, row) in weights.chunks_exact_mut(reduction).enumerate() {
        row.iter_mut().for_each(|weight| *weight *= scale[channel]);
        bias[channel] = bias[channel].mul_add(scale[channel], shift[channel]);
    }
    true
}

fn fuse_clip(before: &mut FloatNode, bounds: [f32; 2]) -> bool {
    let can_clamp = match before.op {
        FloatOp::Conv { .. }
        | FloatOp::Dense { .. }
        | FloatOp::Add
        | FloatOp::AveragePool { .. }
        | FloatOp::Clip { .. } => true,
        FloatOp::Affine { .. }
        | FloatOp::MaxPool { .. }
        | FloatOp::Reshape
        | FloatOp::Transpose { .. } => false,
    };
    if can_clamp {
        let [low, high] = before.clamp.unwrap_or([f32::NEG_INFINITY, f32::INFINITY]);
        before.clamp = Some([
            low.clamp(bounds[0], bounds[1]),
            high.clamp(bounds[0], bounds[1]),
        ]);
    }
    can_clamp
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn node(name: &str, op: FloatOp, inputs: &[usize]) -> FloatNode {
        FloatNode {
            name: name.to_owned(),
            operator: name.to_owned(),
            op,
            inputs: inputs.iter().map(|&i| Value(i)).collect(),
            shape: vec![1, 2],
            clamp: None,
        }
    }

    fn graph(nodes: Vec<FloatNode>) -> FloatGraph {
        FloatGraph {
            name: "g".to_owned(),
            input: vec![1, 2],
            output: Value(nodes.len()),
            nodes,
        }
    }

    fn dense() -> FloatOp {
        FloatOp::Dense {
            weights: vec![1.0, 2.0, 3.0, 4.0],
            bias: vec![0.5, -1.0],
        }
    }

    fn affine() -> FloatOp {
        FloatOp::Affine {
            scale: vec![2.0, -1.0],
            shift: vec![1.0, 0.25],
        }
    }

    const RELU: FloatOp = FloatOp::Clip {
        bounds: [0.0, f32::INFINITY],
    };

    #[test]
    fn scale_shift_and_clip_become_one_node() {
        let fused = fuse(graph(vec![
            node("dense", dense(), &[0]),
            node("bn", affine(), &[1]),
            node("relu", RELU, &[2]),
            node(
                "relu6",
                FloatOp::Clip {
                    bounds: [-1.0, 6.0],
                },
                &[3],
            ),
        ]))
        .unwrap();
        assert_eq!(fused.nodes.len(), 1);
        assert_eq!(fused.output, Value(1));
        assert_eq!(fused.nodes[0].clamp, Some([0.0, 6.0]));
        assert_eq!(
            fused.nodes[0].op,
            FloatOp::Dense {
                weights: vec![2.0, 4.0, -3.0, -4.0],
                bias: vec![2.0, 1.25]
            }
        );
    }

    #[test]
    fn a_value_that_others_read_is_not_changed() {
        let shared = graph(vec![
            node("dense", dense(), &[0]),
            node("relu", RELU, &[1]),
            node("add", FloatOp::Add, &[1, 2]),
        ]);
        assert_eq!(fuse(shared.clone()).unwrap(), shared);
    }

    #[test]
    fn a_scale_that_follows_no_linear_node_is_refused() {
        let check = |nodes: Vec<FloatNode>| {
            let refused = fuse(graph(nodes)).unwrap_err();
            let ImportError::Node(refused) = refused else {
                panic!("another error: {refused}");
            };
            assert_eq!(refused.node, "bn");
            assert_eq!(refused.reason, NodeReason::NotFoldable);
        };
        check(vec![node("bn", affine(), &[0])]);
        check(vec![
            node("dense", dense(), &[0]),
            node("relu", RELU, &[1]),
            node("bn", affine(), &[2]),
        ]);
        check(vec![
            node("dense", dense(), &[0]),
            node("bn", affine(), &[1]),
            node("add", FloatOp::Add, &[1, 2]),
        ]);
    }
}
