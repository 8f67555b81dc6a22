//! Nodes that do nothing, and the few ways of writing one thing that lowering sees as one.

use super::Fact;
use super::edit::{floats_of, input, output, uses};
use crate::net::{Graph, Node, ValueId};
use std::collections::BTreeMap;

/// Removes nodes that pass on their input, and writes divisions as products.
pub(super) fn run(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        if let Some((from, to)) = passed_on(graph, &graph.nodes[index], facts) {
            graph.replace_uses(from, to);
            graph.nodes.remove(index);
            changed = true;
            continue;
        }
        if divides(graph, &graph.nodes[index]) {
            as_product(graph, index);
            changed = true;
        }
        index += 1;
    }
    changed | merge_products(graph)
}

/// The output of a node that gives one of its inputs, and that input.
fn passed_on(
    graph: &Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<(ValueId, ValueId)> {
    if !node.domain.is_empty() {
        return None;
    }
    let to = output(node)?;
    let first = input(node, 0)?;
    let same_shape = |value: ValueId| {
        let shapes = (facts.get(&value), facts.get(&to));
        matches!(shapes, (Some(a), Some(b)) if a.shape == b.shape)
    };
    let all = |value: Option<ValueId>, wanted: f32| {
        floats_of(graph, value).is_some_and(|(_, values)| values.iter().all(|&v| v == wanted))
    };
    let second = input(node, 1);
    let kept = match node.op.as_str() {
        "Identity" | "Dropout" => Some(first),
        "Cast" => {
            let floats = |value| {
                facts
                    .get(&value)
                    .is_some_and(|fact: &Fact| fact.dtype.is_float())
            };
            let same = facts.get(&first)?.dtype == facts.get(&to)?.dtype;
            (same || floats(first) && floats(to)).then_some(first)
        }
        "Expand" | "Tile" | "Pad" | "Slice" | "Concat" | "Sum" | "Max" | "Min" | "Resize" => {
            let single = node.inputs.len() == 1
                || !matches!(node.op.as_str(), "Concat" | "Sum" | "Max" | "Min");
            let moves = node.op == "Slice" && !forward(graph, node);
            (single && !moves && same_shape(first)).then_some(first)
        }
        "Add" if all(second, 0.0) && same_shape(first) => Some(first),
        "Add" if all(Some(first), 0.0) && second.is_some_and(same_shape) => second,
        "Sub" if all(second, 0.0) && same_shape(first) => Some(first),
        "Mul" | "Div" | "Pow" if all(second, 1.0) && same_shape(first) => Some(first),
        "Mul" if all(Some(first), 1.0) && second.is_some_and(same_shape) => second,
        "Where" if all(Some(first), 1.0) && second.is_some_and(same_shape) => second,
        "Where" if all(Some(first), 0.0) && input(node, 2).is_some_and(same_shape) => {
            input(node, 2)
        }
        _ => None,
    };
    kept.map(|kept| (to, kept))
}

/// Whether a slice goes forward.
fn forward(graph: &Graph, node: &Node) -> bool {
    input(node, 4).is_none_or(|steps| {
        floats_of(graph, Some(steps)).is_some_and(|(_, steps)| steps.iter().all(|&s| s > 0.0))
    })
}

fn divides(graph: &Graph, node: &Node) -> bool {
    node.is("Div") && input(node, 1).is_some_and(|value| !graph.constants.contains_key(&value))
}

/// `a / b` as `a * (1 / b)`.
fn as_product(graph: &mut Graph, index: usize) {
    let name = format!("{}.reciprocal", graph.nodes[index].name);
    let value = graph.fresh(name.clone());
    let node = &mut graph.nodes[index];
    let divisor = node.inputs[1]
        .replace(value)
        .expect("a division has a divisor");
    node.op = "Mul".to_owned();
    let version = node.version;
    graph.nodes.insert(
        index,
        Node::new(&name, "Reciprocal", version, vec![divisor], vec![value]),
    );
}

/// `x * c * d` with single readers as `x * (c d)`: a scale before a softmax is one factor then.
fn merge_products(graph: &mut Graph) -> bool {
    let uses = uses(graph);
    let producers = graph.producers();
    let mut changed = false;
    for index in 0..graph.nodes.len() {
        let Some((value, outer)) = scaled(graph, index) else {
            continue;
        };
        let Some(inner_index) = producers.get(value.index()).copied().flatten() else {
            continue;
        };
        if uses[value.index()] != 1 {
            continue;
        }
        let Some((source, inner)) = scaled(graph, inner_index) else {
            continue;
        };
        let name = format!("{}.factor", graph.nodes[index].name);
        let factor = super::edit::constant(graph, &name, Vec::new(), vec![outer * inner]);
        let node = &mut graph.nodes[index];
        node.op = "Mul".to_owned();
        node.inputs = vec![Some(source), Some(factor)];
        changed = true;
    }
    changed
}

/// A product with a scalar: the other factor, and the scalar.
fn scaled(graph: &Graph, index: usize) -> Option<(ValueId, f32)> {
    let node = &graph.nodes[index];
    let scalar = |value| {
        let (shape, values) = floats_of(graph, value)?;
        (values.len() == 1 && shape.len() <= 1).then(|| values[0])
    };
    let [a, b] = [input(node, 0)?, input(node, 1)?];
    let (value, factor) = match (node.op.as_str(), scalar(Some(a)), scalar(Some(b))) {
        ("Mul", None, Some(c)) => (a, c),
        ("Mul", Some(c), None) => (b, c),
        ("Div", None, Some(c)) => (a, 1.0 / c),
        _ => return None,
    };
    (node.domain.is_empty() && factor.is_finite()).then_some((value, factor))
}
