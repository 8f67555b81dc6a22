//! Nodes that do nothing, and the few ways of writing one thing that lowering sees as one.

use super::Fact;
use super::edit::{Writer, float, floats_of, input, int, ints, output, uses};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Removes nodes that pass on their input, writes divisions as products, and borders of several axes one after the other.
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
        if divides(graph, &graph.nodes[index], facts) {
            as_product(graph, index);
            changed = true;
        }
        if let Some(flat) = flat_softmax(&graph.nodes[index], facts) {
            let nodes = flattened(graph, index, &flat);
            graph.nodes.splice(index..=index, nodes);
            changed = true;
        }
        if let Some(pads) = borders(graph, &graph.nodes[index], facts) {
            let nodes = one_by_one(graph, index, &pads);
            graph.nodes.splice(index..=index, nodes);
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
        "Identity" => Some(first),
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
            let several = matches!(node.op.as_str(), "Concat" | "Sum" | "Max" | "Min");
            // What it does on other inputs is in the others of its own.
            let fixed = || {
                let mut others = node.reads().skip(1);
                others.all(|value| graph.constants.contains_key(&value))
            };
            let single = if several {
                node.inputs.len() == 1
            } else {
                fixed()
            };
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

/// A division by anything but one constant number.
fn divides(graph: &Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let floats = |value| {
        facts
            .get(&value)
            .is_some_and(|fact: &Fact| fact.dtype.is_float())
    };
    let several = |value: ValueId| {
        let constant = graph.constants.get(&value);
        constant.is_none_or(|tensor| tensor.len() > 1)
    };
    node.is("Div") && output(node).is_some_and(floats) && input(node, 1).is_some_and(several)
}

/// The shape of a softmax of an operator set before 13, which takes all axes from `axis` (by default 1) on as one.
fn flat_softmax(node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<usize>> {
    if !(node.is("Softmax") || node.is("LogSoftmax")) || node.version >= 13 {
        return None;
    }
    Some(facts.get(&input(node, 0)?)?.shape.clone())
}

/// Such a softmax as one over the last axis of a matrix.
fn flattened(graph: &mut Graph, index: usize, shape: &[usize]) -> Vec<Node> {
    let node = graph.nodes[index].clone();
    let (Some(value), Some(result)) = (input(&node, 0), output(&node)) else {
        return vec![node];
    };
    let axis = int(&node, "axis", 1);
    let axis = if axis < 0 {
        axis + shape.len() as i64
    } else {
        axis
    };
    let (before, after) = shape.split_at(usize::try_from(axis).map_or(0, |at| at.min(shape.len())));
    let sizes = |sizes: &[usize]| sizes.iter().map(|&size| size as i64).collect::<Vec<_>>();
    let last = [("axis", Attribute::Int(-1))];
    let mut writer = Writer::new(graph, &node.name);
    if after.len() == 1 {
        let y = writer.node(&node.op, &[value], &last);
        return writer.finish(y, result);
    }
    let matrix = [before, after].map(|axes| axes.iter().product::<usize>());
    let flat = writer.ints(&sizes(&matrix));
    let x = writer.node("Reshape", &[value, flat], &[]);
    let y = writer.node(&node.op, &[x], &last);
    let whole = writer.ints(&sizes(shape));
    let y = writer.node("Reshape", &[y, whole], &[]);
    writer.finish(y, result)
}

/// The pads of a constant border on several axes of a value that is not an image: lowering takes one axis at a time.
fn borders(graph: &Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<i64>> {
    let constant = match node.attributes.get("mode") {
        Some(Attribute::Text(text)) => text == b"constant",
        _ => true,
    };
    if !node.is("Pad") || !constant || node.inputs.get(3).is_some() {
        return None;
    }
    let pads = ints(graph, node, "pads", 1)?;
    let rank = facts.get(&output(node)?)?.shape.len();
    let sides = |axis: usize| Some([*pads.get(axis)?, *pads.get(rank + axis)?]);
    let padded = (0..rank).filter(|&axis| sides(axis).is_some_and(|pads| pads != [0, 0]));
    let image = rank == 4 && sides(0) == Some([0, 0]);
    (padded.count() > 1 && !image && pads.len() == 2 * rank).then_some(pads)
}

/// A border as one `Pad` per axis.
fn one_by_one(graph: &mut Graph, index: usize, pads: &[i64]) -> Vec<Node> {
    let node = graph.nodes[index].clone();
    let rank = pads.len() / 2;
    let (Some(mut value), Some(result)) = (input(&node, 0), output(&node)) else {
        return vec![node];
    };
    let mut writer = Writer::new(graph, &node.name);
    let fill = input(&node, 2).or_else(|| {
        let attribute = node.attributes.contains_key("value");
        attribute.then(|| writer.scalar(float(&node, "value", 0.0)))
    });
    for axis in (0..rank).filter(|axis| [pads[*axis], pads[rank + axis]] != [0, 0]) {
        let mut own = vec![0; 2 * rank];
        (own[axis], own[rank + axis]) = (pads[axis], pads[rank + axis]);
        let own = writer.ints(&own);
        value = {
            let inputs: Vec<ValueId> = [value, own].into_iter().chain(fill).collect();
            writer.node("Pad", &inputs, &[])
        };
    }
    writer.finish(value, result)
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
