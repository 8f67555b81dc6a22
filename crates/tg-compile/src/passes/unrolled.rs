//! `Scan` step by step and `If` by its known condition: the bodies' nodes take the place of the node.

use super::Fact;
use super::edit::{Writer, input, int, rewrite_each};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, Subgraph, ValueId, convert};

/// Most nodes that one operator becomes.
const NODES_MAX: usize = 4_096;

/// Rewrites every `Scan`, and every `If` whose condition is constant; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "Scan" if node.version >= 9 => scan(graph, node, facts),
        "If" => branch(graph, node),
        _ => None,
    })
}

fn body<'a>(node: &'a Node, name: &str) -> Option<&'a Subgraph> {
    match node.attributes.get(name) {
        Some(Attribute::Graph(body)) => Some(body),
        _ => None,
    }
}

/// The nodes of a body for these inputs, behind what is written, and its results.
fn inlined(writer: &mut Writer<'_>, body: &Graph, inputs: &[ValueId]) -> Option<Vec<ValueId>> {
    if inputs.len() != body.inputs.len() {
        return None;
    }
    let mut names: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (input, &value) in body.inputs.iter().zip(inputs) {
        names.insert(input.value, value);
    }
    for (&value, tensor) in &body.constants {
        let own = writer.graph.constant(body.name_of(value), tensor.clone());
        names.insert(value, own);
    }
    for node in &body.nodes {
        let mut own = node.clone();
        own.name = writer.inner_name(&node.name);
        for value in own.inputs.iter_mut().flatten() {
            *value = *names.get(value)?;
        }
        for value in own.outputs.iter_mut().flatten() {
            let fresh = writer.graph.fresh(body.name_of(*value));
            names.insert(*value, fresh);
            *value = fresh;
        }
        writer.written.push(own);
    }
    let results = body.outputs.iter().map(|value| names.get(value).copied());
    results.collect()
}

/// The values of the enclosing graph that a body reads.
fn captured(node: &Node, body: &Subgraph) -> Option<Vec<ValueId>> {
    body.captures
        .iter()
        .map(|&slot| input(node, slot))
        .collect()
}

fn branch(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let condition = graph.constants.get(&input(node, 0)?)?;
    let holds = convert::to_f64(condition.data())?.first().copied()? != 0.0;
    let body = body(node, if holds { "then_branch" } else { "else_branch" })?;
    let inputs = captured(node, body)?;
    let mut writer = Writer::new(graph, &node.name);
    let results = inlined(&mut writer, &body.graph, &inputs)?;
    let gives = results.into_iter().zip(&node.outputs);
    let all = gives.filter_map(|(result, value)| Some((result, (*value)?)));
    let all = all.collect();
    Some(writer.finish_all(all))
}

/// One attribute of a list, an element per scanned input or output; zeros if it is not given.
fn each(node: &Node, name: &str, count: usize) -> Vec<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(values)) if values.len() == count => values.clone(),
        _ => vec![0; count],
    }
}

fn scan(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let body = body(node, "body")?;
    let scanned = usize::try_from(int(node, "num_scan_inputs", 0)).ok()?;
    let own = node.inputs.len().checked_sub(body.captures.len())?;
    let states = own.checked_sub(scanned).filter(|_| scanned > 0)?;
    let outputs = body.graph.outputs.len().checked_sub(states)?;
    let captured = captured(node, body)?;
    let axes = each(node, "scan_input_axes", scanned);
    let directions = each(node, "scan_input_directions", scanned);
    let first = &facts.get(&input(node, states)?)?.shape;
    let axis = if axes[0] < 0 {
        axes[0] + first.len() as i64
    } else {
        axes[0]
    };
    let steps = *first.get(usize::try_from(axis).ok()?)?;
    if let Some(mapped) = super::mapped::rewrite(graph, node, facts) {
        return Some(mapped);
    }
    if steps * body.graph.nodes.len() > NODES_MAX {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let mut values: Vec<ValueId> = (0..states)
        .map(|slot| input(node, slot))
        .collect::<Option<_>>()?;
    let mut collected: Vec<Vec<ValueId>> = vec![Vec::new(); outputs];
    for step in 0..steps {
        let mut inputs = values.clone();
        for slot in 0..scanned {
            let at = if directions[slot] == 0 {
                step
            } else {
                steps - 1 - step
            };
            let at = writer.graph.constant(
                format!("{}.step", node.name),
                tg_float::FloatTensor::scalar(at as i64),
            );
            let along = [("axis", Attribute::Int(axes[slot]))];
            inputs.push(writer.node("Gather", &[input(node, states + slot)?, at], &along));
        }
        inputs.extend(&captured);
        let mut results = inlined(&mut writer, &body.graph, &inputs)?.into_iter();
        values = results.by_ref().take(states).collect();
        for (list, part) in collected.iter_mut().zip(results) {
            list.push(part);
        }
    }
    let axes = each(node, "scan_output_axes", outputs);
    let directions = each(node, "scan_output_directions", outputs);
    for (slot, mut parts) in collected.into_iter().enumerate() {
        if directions[slot] != 0 {
            parts.reverse();
        }
        let at = writer.ints(&[axes[slot]]);
        let parts: Vec<ValueId> = parts
            .into_iter()
            .map(|part| writer.node("Unsqueeze", &[part, at], &[]))
            .collect();
        let along = [("axis", Attribute::Int(axes[slot]))];
        values.push(writer.node("Concat", &parts, &along));
    }
    let all = values.into_iter().zip(&node.outputs);
    let all = all
        .filter_map(|(result, value)| Some((result, (*value)?)))
        .collect();
    Some(writer.finish_all(all))
}
