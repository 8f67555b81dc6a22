//! A `Scan` whose states stay as they are is a function of each scanned row: written once for all rows.

use super::Fact;
use super::edit::{Writer, input, int, output};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, Subgraph, ValueId};

/// A value of the body for all rows at once.
#[derive(Debug, Clone)]
struct PerRow {
    value: ValueId,
    /// Axes that the body's value has; one more, before them, counts the rows if they differ.
    rank: usize,
    differs: bool,
}

/// The nodes that stand for the scan; none if a row's result depends on other rows, or an operator is not known to be one
/// that can be written for all rows.
pub(super) fn rewrite(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let Some(Attribute::Graph(body)) = node.attributes.get("body") else {
        return None;
    };
    let body: &Subgraph = body;
    let scanned = usize::try_from(int(node, "num_scan_inputs", 0)).ok()?;
    let states = (node.inputs.len().checked_sub(body.captures.len())?).checked_sub(scanned)?;
    let zero = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Ints(values)) => values.iter().all(|&value| value == 0),
        _ => true,
    };
    let plain = [
        "scan_input_axes",
        "scan_input_directions",
        "scan_output_axes",
        "scan_output_directions",
    ];
    if !plain.into_iter().all(zero) {
        return None;
    }
    let mut known = given(node, body, (states, scanned), facts)?;
    if !(0..states).all(|slot| is_kept(&body.graph, slot)) {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    for (&value, tensor) in &body.graph.constants {
        let own = writer
            .graph
            .constant(body.graph.name_of(value), tensor.clone());
        let rows = PerRow {
            value: own,
            rank: tensor.rank(),
            differs: false,
        };
        known.insert(value, rows);
    }
    for node in &body.graph.nodes {
        let rows = for_all_rows(&mut writer, node, &known)?;
        known.insert(output(node)?, rows);
    }
    let mut results = Vec::new();
    for (slot, value) in node.outputs.iter().enumerate() {
        let Some(value) = *value else { continue };
        let rows = known.get(body.graph.outputs.get(slot)?)?;
        if slot >= states && !rows.differs {
            return None;
        }
        results.push((rows.value, value));
    }
    Some(writer.finish_all(results))
}

/// The values of the body's inputs: states, rows of what is scanned, and what it reads of the enclosing graph.
fn given(
    node: &Node,
    body: &Subgraph,
    (states, scanned): (usize, usize),
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<BTreeMap<ValueId, PerRow>> {
    let rank = |value: ValueId| facts.get(&value).map(|fact| fact.shape.len());
    let mut known = BTreeMap::new();
    for (slot, given) in body.graph.inputs.iter().enumerate() {
        let outer = if slot < states + scanned {
            slot
        } else {
            *body.captures.get(slot - states - scanned)?
        };
        let value = input(node, outer)?;
        let differs = (states..states + scanned).contains(&slot);
        let rank = rank(value)?.checked_sub(usize::from(differs))?;
        let rows = PerRow {
            value,
            rank,
            differs,
        };
        known.insert(given.value, rows);
    }
    Some(known)
}

/// Whether a state leaves the body as it came.
fn is_kept(body: &Graph, slot: usize) -> bool {
    let Some(mut value) = body.outputs.get(slot).copied() else {
        return false;
    };
    let producers = body.producers();
    while let Some(at) = producers.get(value.index()).copied().flatten() {
        match body.nodes.get(at).filter(|node| node.is("Identity")) {
            Some(node) => match input(node, 0) {
                Some(from) => value = from,
                None => return false,
            },
            None => return false,
        }
    }
    body.inputs
        .get(slot)
        .is_some_and(|input| input.value == value)
}

/// A node of the body on all rows.
fn for_all_rows(
    writer: &mut Writer<'_>,
    node: &Node,
    known: &BTreeMap<ValueId, PerRow>,
) -> Option<PerRow> {
    const EACH: [&str; 17] = [
        "Abs", "Add", "Cast", "Div", "Exp", "Identity", "Log", "Max", "Min", "Mul", "Neg", "Pow",
        "Relu", "Sigmoid", "Sqrt", "Sub", "Tanh",
    ];
    if !node.domain.is_empty() || node.outputs.len() != 1 {
        return None;
    }
    let reads: Option<Vec<PerRow>> = node
        .reads()
        .map(|value| known.get(&value).cloned())
        .collect();
    let mut reads = reads?;
    let differs = reads.iter().any(|rows| rows.differs);
    if !differs {
        let inputs: Vec<ValueId> = reads.iter().map(|rows| rows.value).collect();
        let rank = match node.op.as_str() {
            op if EACH.contains(&op) => reads.iter().map(|rows| rows.rank).max()?,
            _ => return None,
        };
        let value = copied(writer, node, &inputs);
        return Some(PerRow {
            value,
            rank,
            differs,
        });
    }
    if EACH.contains(&node.op.as_str()) {
        let rank = reads.iter().map(|rows| rows.rank).max()?;
        for rows in &mut reads {
            if rows.differs && rows.rank < rank {
                // The axis of the rows stays the first one.
                let axes: Vec<i64> = (1..=(rank - rows.rank) as i64).collect();
                let axes = writer.ints(&axes);
                rows.value = writer.node("Unsqueeze", &[rows.value, axes], &[]);
            }
        }
        let inputs: Vec<ValueId> = reads.iter().map(|rows| rows.value).collect();
        let value = copied(writer, node, &inputs);
        return Some(PerRow {
            value,
            rank,
            differs,
        });
    }
    reduced(writer, node, reads.first()?, known)
}

/// A reduction of the body on all rows: its axes lie one further.
fn reduced(
    writer: &mut Writer<'_>,
    node: &Node,
    first: &PerRow,
    known: &BTreeMap<ValueId, PerRow>,
) -> Option<PerRow> {
    const SUMS: [&str; 7] = [
        "ReduceL1",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "ReduceSumSquare",
    ];
    if !SUMS.contains(&node.op.as_str()) {
        return None;
    }
    let axes = match (node.attributes.get("axes"), input(node, 1)) {
        (Some(Attribute::Ints(axes)), _) => axes.clone(),
        (_, Some(axes)) => {
            let own = known.get(&axes)?.value;
            let tensor = writer.graph.constants.get(&own)?;
            tg_float::convert::to_i64(tensor.data())?
        }
        _ => (0..first.rank as i64).collect(),
    };
    let axes: Vec<i64> = axes
        .iter()
        .map(|&axis| if axis < 0 { axis } else { axis + 1 })
        .collect();
    let keep = int(node, "keepdims", 1);
    let rank = if keep == 0 {
        first.rank.checked_sub(axes.len())?
    } else {
        first.rank
    };
    // The sum alone takes its axes as an input in the version that is written.
    let how = ("keepdims", Attribute::Int(keep));
    let value = if node.op == "ReduceSum" {
        let axes = writer.ints(&axes);
        writer.node("ReduceSum", &[first.value, axes], &[how])
    } else {
        let axes = ("axes", Attribute::Ints(axes));
        writer.node(&node.op, &[first.value], &[axes, how])
    };
    Some(PerRow {
        value,
        rank,
        differs: true,
    })
}

/// The same operator on other values.
fn copied(writer: &mut Writer<'_>, node: &Node, inputs: &[ValueId]) -> ValueId {
    let attributes: Vec<(&str, Attribute)> = node
        .attributes
        .iter()
        .map(|(name, attribute)| (name.as_str(), attribute.clone()))
        .collect();
    writer.node(&node.op, inputs, &attributes)
}
