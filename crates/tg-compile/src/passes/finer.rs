//! Weights of 16 bits where 8 are too few: as two layers, the second of what the first one's rounding leaves.
//!
//! A sum of products that take each other away, such as a regression far from its origin or a Gaussian process, may be smaller
//! than what rounding its weights to 8 bits makes of it. `W = H + L`, where the elements of H are what the integers of a layer
//! hold exactly, and `x W = x H + x L`: the second sum is as small as that error, and a 16-bit sum of both is near.

use super::edit::{constant, floats_of, fresh_node, input, int, is_tied, output};
use super::{Fact, Prepared};
use crate::calibrate::Statistics;
use std::collections::BTreeMap;
use tg_float::{Graph, Node, ValueId};

/// A layer is written as two if its result has less than this many times the power of its weights' rounding: 34 dB.
const POWER_LEAST: f64 = 2_500.0;
/// Greatest integer of a weight.
const WEIGHT_MAX: f32 = 127.0;
/// Halvings of a layer's unit for outputs of smaller weights, as lowering has them in 16 bits.
const HALVINGS: i32 = 15;

/// The graph with layers whose weights need it written as two each; nothing if none does.
pub fn finer(prepared: &Prepared, statistics: &BTreeMap<ValueId, Statistics>) -> Option<Prepared> {
    let mut finer = prepared.clone();
    let Prepared { graph, facts, .. } = &mut finer;
    let mut index = 0;
    let mut changed = false;
    while index < graph.nodes.len() {
        match in_two(graph, index, facts, statistics) {
            Some(nodes) => {
                let result = output(&graph.nodes[index])?;
                let fact = facts.get(&result)?.clone();
                let given = nodes.iter().flat_map(Node::gives);
                facts.extend(given.map(|value| (value, fact.clone())));
                let count = nodes.len();
                graph.nodes.splice(index..=index, nodes);
                index += count;
                changed = true;
            }
            None => index += 1,
        }
    }
    for (value, tensor) in &graph.constants {
        facts.entry(*value).or_insert_with(|| Fact {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        });
    }
    graph.remove_dead();
    changed.then_some(finer)
}

/// A layer as two and their sum, if its weights need it.
fn in_two(
    graph: &mut Graph,
    at: usize,
    facts: &BTreeMap<ValueId, Fact>,
    statistics: &BTreeMap<ValueId, Statistics>,
) -> Option<Vec<Node>> {
    let node = graph.nodes[at].clone();
    let (x, weights, result) = (input(&node, 0)?, input(&node, 1)?, output(&node)?);
    let gemm = node.is("Gemm") && int(&node, "transA", 0) == 0;
    if !(gemm || node.is("MatMul")) || is_tied(graph, weights) || !facts.contains_key(&result) {
        return None;
    }
    let (shape, values) = floats_of(graph, Some(weights))?;
    let &[rows, columns] = shape else {
        return None;
    };
    let shape = shape.to_vec();
    let transposed = gemm && int(&node, "transB", 0) != 0;
    let (outputs, inner) = if transposed {
        (rows, columns)
    } else {
        (columns, rows)
    };
    let owner = |index: usize| {
        if transposed {
            index / columns
        } else {
            index % columns
        }
    };
    let units = units(&values, outputs, owner)?;
    let squares: f64 = units.iter().map(|&unit| f64::from(unit).powi(2)).sum();
    let rounding = squares / outputs as f64 / 12.0 * inner as f64 * statistics.get(&x)?.power();
    if statistics.get(&result)?.power() >= POWER_LEAST * rounding {
        return None;
    }
    let each = values.iter().enumerate();
    let high: Vec<f32> = each
        .map(|(index, &value)| {
            let unit = units[owner(index)];
            (value / unit).round().clamp(-WEIGHT_MAX, WEIGHT_MAX) * unit
        })
        .collect();
    let low = values.iter().zip(&high).map(|(all, high)| all - high);
    let low: Vec<f32> = low.collect();
    let layer = |graph: &mut Graph, part: &str, values: Vec<f32>| {
        let name = format!("{}.{part}", node.name);
        let weights = constant(graph, &name, shape.clone(), values);
        let value = graph.fresh(&name);
        let mut layer = Node {
            name,
            outputs: vec![Some(value)],
            ..node.clone()
        };
        layer.inputs[1] = Some(weights);
        (layer, value)
    };
    let (first, high) = layer(graph, "high", high);
    let (mut second, low) = layer(graph, "low", low);
    second.inputs.truncate(2);
    let name = format!("{}.both", node.name);
    let (mut sum, _) = fresh_node(graph, &name, "Add", super::edit::VERSION, &[high, low]);
    sum.outputs = vec![Some(result)];
    Some(vec![first, second, sum])
}

/// Per output the unit in which lowering holds its weights in 8 bits.
fn units(values: &[f32], outputs: usize, owner: impl Fn(usize) -> usize) -> Option<Vec<f32>> {
    let mut greatest = vec![0f32; outputs];
    for (index, value) in values.iter().enumerate() {
        let own = &mut greatest[owner(index)];
        *own = own.max(value.abs());
    }
    let most = greatest.iter().copied().fold(0f32, f32::max) / WEIGHT_MAX;
    if !(most.is_normal() && most * 0.5f32.powi(HALVINGS) > f32::MIN_POSITIVE) {
        return None;
    }
    let unit = |&greatest: &f32| {
        let fits = |halvings: &i32| most * 0.5f32.powi(*halvings) * WEIGHT_MAX >= greatest;
        most * 0.5f32.powi((0..=HALVINGS).rev().find(fits).unwrap_or(0))
    };
    Some(greatest.iter().map(unit).collect())
}
