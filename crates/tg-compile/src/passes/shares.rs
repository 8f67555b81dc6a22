//! Distributions written with the logarithm of a sum of exponentials, as the softmax that they are: a small share then has as
//! many digits as a large one.

use super::Fact;
use super::edit::{Writer, counted_axis, input, int, ints, output, rewrite_each};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Rewrites each pattern; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "Sub" => log_softmax(graph, node, facts),
        "Exp" => softmax(graph, node),
        _ => None,
    })
}

/// The node that gives a value.
fn producer(graph: &Graph, value: ValueId) -> Option<&Node> {
    let index = graph.producers().get(value.index()).copied().flatten()?;
    graph.nodes.get(index)
}

/// `x` less the logarithm of the sum of its exponentials along an axis.
fn log_softmax(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, mut sum) = (input(node, 0)?, input(node, 1)?);
    let own = facts.get(&x)?.shape.clone();
    let along = facts.get(&sum)?.shape.clone();
    let moves = ["Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten"];
    let reduced = loop {
        let node = producer(graph, sum)?;
        if node.is("ReduceLogSumExp") {
            break node;
        }
        if !moves.iter().any(|name| node.is(name)) {
            return None;
        }
        sum = input(node, 0)?;
    };
    let axes = ints(graph, reduced, "axes", 1)?;
    let &[axis] = axes.as_slice() else {
        return None;
    };
    let axis = counted_axis(axis, own.len())?;
    // The sums stand where they are taken: one for each place of the other axes.
    let mut one = own.clone();
    one[axis] = 1;
    let stands =
        along == one || own.iter().product::<usize>() == own[axis] && along.len() <= own.len();
    if input(reduced, 0)? != x || !stands || facts.get(&output(node)?)?.shape != own {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let how = [("axis", Attribute::Int(axis as i64))];
    let logs = writer.node("LogSoftmax", &[x], &how);
    Some(writer.finish(logs, output(node)?))
}

/// The exponential of the logarithm of a softmax.
fn softmax(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let logs = producer(graph, input(node, 0)?)?.clone();
    // Before version 13 the axes after the named one were taken together.
    if !logs.is("LogSoftmax") || logs.version < 13 {
        return None;
    }
    let axis = int(&logs, "axis", -1);
    let mut writer = Writer::new(graph, &node.name);
    let how = [("axis", Attribute::Int(axis))];
    let shares = writer.node("Softmax", &[input(&logs, 0)?], &how);
    Some(writer.finish(shares, output(node)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::passes::{PrepareOptions, prepare};
    use tg_float::tgf::{self, Budget};
    use tg_float::{Attribute, DType, Dim, FloatTensor, Graph, Input, Node};

    /// `exp(x - reshape(log(sum(exp(x)))))` along an axis, the sums under this shape.
    fn graph(shape: &[usize], axis: i64, sums: &[i64]) -> Graph {
        let mut graph = Graph::default();
        let [x, sum, stood, logs, y] = ["x", "sum", "stood", "logs", "y"].map(|n| graph.fresh(n));
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(shape.iter().map(|&size| Dim::Known(size)).collect()),
        });
        let reduce = Node::new("sum", "ReduceLogSumExp", 13, vec![x], vec![sum]);
        let reduce = reduce
            .with("axes", Attribute::Ints(vec![axis]))
            .with("keepdims", Attribute::Int(0));
        graph.append(reduce);
        let list = graph.constant("shape", FloatTensor::vector(sums.to_vec()));
        graph.append(Node::new(
            "stood",
            "Reshape",
            13,
            vec![sum, list],
            vec![stood],
        ));
        graph.append(Node::new("logs", "Sub", 13, vec![x, stood], vec![logs]));
        graph.append(Node::new("y", "Exp", 13, vec![logs], vec![y]));
        graph.outputs.push(y);
        graph
    }

    #[test]
    fn written_out_distributions_are_a_softmax() {
        for (shape, axis, sums, found) in [
            (&[1, 3][..], 1, &[-1, 1][..], true),
            (&[2, 3], 1, &[2, 1], true),
            (&[3, 2], 0, &[1, 2], true),
            (&[2, 2], 1, &[1, 2], false),
        ] {
            let graph = graph(shape, axis, sums);
            let prepared = prepare(graph.clone(), &PrepareOptions::default()).unwrap();
            let is = prepared.graph.nodes.iter().any(|node| node.is("Softmax"));
            assert_eq!(is, found, "{shape:?} {axis}");
            let values =
                (0..shape.iter().product::<usize>()).map(|i| i as f32 * 0.7 - 9.0 * (i % 2) as f32);
            let x = FloatTensor::of(shape.to_vec(), values.collect()).unwrap();
            let of = |graph: &Graph| {
                let outputs = tgf::run(graph, &[&x], &Budget::default()).unwrap();
                outputs[0].values::<f32>().unwrap().to_vec()
            };
            for (a, b) in of(&graph).iter().zip(of(&prepared.graph)) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
}
