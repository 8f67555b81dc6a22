//! Features of a table that reach differently far: each in a unit of its own.
//!
//! One unit for all features of an input leaves the one that reaches a thousandth of another with a few units. So the
//! input x is written as `x / s` with a power of two s for each feature, which lowering takes as what the program is given
//! ([`tg_ir::Coding::PerChannel`]). Offsets that are added before anything else are divided by s, and the factors or weights
//! behind them are multiplied by it: `(x - m) f = (x / s - m / s) (s f)`, and no float of the model changes by a bit.

use super::affine::absorb_gain;
use super::edit::{VERSION, constant, floats_of, fresh_node, input, int, is_tied, output, uses};
use super::{Fact, Prepared};
use std::collections::BTreeMap;
use tg_float::{DType, Graph, Node, ValueId};
use tg_ir::shape::AXIS_MAX;

/// The furthest feature reaches so many times as far as the nearest one, or all have one unit.
const RATIO_LEAST: f32 = 16.0;
/// Exponents of the powers of two: what is divided stays a normal number.
const EXPONENT_MAX: f32 = 60.0;

/// Where the powers of two of a reader of the input go.
enum FeatureReader {
    /// Into sums with a constant per feature, and then into weights.
    Weights { sums: Vec<usize>, at: usize },
    /// Into such sums, and then into a factor per feature.
    Factors { sums: Vec<usize>, at: usize },
}

/// Gives features units of their own if they reach differently far and everything that reads them can take that in; whether it
/// did. `peaks` has the greatest magnitude of each feature.
pub fn own_units(prepared: &mut Prepared, peaks: &[f32]) -> bool {
    let Prepared { graph, facts, .. } = prepared;
    let Some((x, readers)) = readers(graph, facts, peaks.len()) else {
        return false;
    };
    let Some(units) = units(peaks) else {
        return false;
    };
    let fact = facts[&x].clone();
    let divisors = constant(graph, "features.units", vec![units.len()], units.clone());
    let (division, divided) = fresh_node(graph, "features", "Div", VERSION, &[x, divisors]);
    for reader in &readers {
        let (FeatureReader::Weights { sums, at } | FeatureReader::Factors { sums, at }) = reader;
        for &sum in sums {
            change_constant(graph, sum, &units, |value, unit| value / unit);
        }
        match reader {
            FeatureReader::Weights { .. } => {
                let none = vec![0.0; units.len()];
                absorb_gain(graph, *at, &units, &none).expect("its weights were looked at");
            }
            FeatureReader::Factors { .. } if graph.nodes[*at].is("Div") => {
                change_constant(graph, *at, &units, |value, unit| value / unit);
            }
            FeatureReader::Factors { .. } => {
                change_constant(graph, *at, &units, |value, unit| value * unit);
            }
        }
        let first = sums.first().unwrap_or(at);
        for read in &mut graph.nodes[*first].inputs {
            if *read == Some(x) {
                *read = Some(divided);
            }
        }
    }
    graph.nodes.insert(0, division);
    facts.insert(divided, fact);
    graph.remove_dead();
    for (value, tensor) in &graph.constants {
        facts.entry(*value).or_insert_with(|| Fact {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        });
    }
    true
}

/// The division of a graph's one input by a power of two for each feature, if nothing else reads that input: the node, what it
/// gives, and the powers.
pub(crate) fn divided(graph: &Graph) -> Option<(usize, ValueId, Vec<f32>)> {
    let [only] = graph.inputs.as_slice() else {
        return None;
    };
    let x = only.value;
    let readers = graph.readers();
    let &[at] = readers.get(x.index())?.as_slice() else {
        return None;
    };
    let node = &graph.nodes[at];
    let (shape, units) = floats_of(graph, input(node, 1))?;
    let taken = node.is("Div")
        && input(node, 0) == Some(x)
        && !graph.outputs.contains(&x)
        && shape.len() == 1
        && units.iter().all(|&unit| is_power_of_two(unit))
        && units.iter().any(|&unit| unit != units[0]);
    taken.then_some((at, output(node)?, units))
}

fn is_power_of_two(unit: f32) -> bool {
    unit.is_normal() && unit > 0.0 && unit.to_bits().trailing_zeros() >= f32::MANTISSA_DIGITS - 1
}

/// The one input, if it is of features, and all that reads it.
fn readers(
    graph: &Graph,
    facts: &BTreeMap<ValueId, Fact>,
    features: usize,
) -> Option<(ValueId, Vec<FeatureReader>)> {
    let [only] = graph.inputs.as_slice() else {
        return None;
    };
    let (x, fact) = (only.value, facts.get(&only.value)?);
    let table = (1..=2).contains(&fact.shape.len())
        && fact.shape.last() == Some(&features)
        && (2..=AXIS_MAX as usize).contains(&features);
    if fact.dtype != DType::F32 || !table || graph.outputs.contains(&x) {
        return None;
    }
    let all = graph.readers();
    let indices = all.get(x.index())?.iter();
    let each = indices.map(|&at| reader(graph, facts, (x, &fact.shape), at));
    let each: Vec<FeatureReader> = each.collect::<Option<_>>()?;
    (!each.is_empty()).then_some((x, each))
}

/// What a node that reads the input does with it.
fn reader(
    graph: &Graph,
    facts: &BTreeMap<ValueId, Fact>,
    (x, shape): (ValueId, &[usize]),
    mut at: usize,
) -> Option<FeatureReader> {
    let uses = uses(graph);
    let all = graph.readers();
    let mut sums = Vec::new();
    let mut read = x;
    loop {
        let node = &graph.nodes[at];
        if multiplies(graph, node, read, *shape.last()?) {
            return Some(FeatureReader::Weights { sums, at });
        }
        let result = output(node)?;
        let other = per_feature(graph, node, read, *shape.last()?)?;
        if facts.get(&result)?.shape != shape {
            return None;
        }
        match node.op.as_str() {
            "Mul" => return Some(FeatureReader::Factors { sums, at }),
            "Div" if other == 1 => return Some(FeatureReader::Factors { sums, at }),
            "Add" | "Sub" => sums.push(at),
            _ => return None,
        }
        let &[next] = all.get(result.index())?.as_slice() else {
            return None;
        };
        if uses[result.index()] != 1 {
            return None;
        }
        (read, at) = (result, next);
    }
}

/// Whether a node multiplies the features by weights of its own.
fn multiplies(graph: &Graph, node: &Node, x: ValueId, features: usize) -> bool {
    let (gemm, matmul) = (node.is("Gemm"), node.is("MatMul"));
    let weights = input(node, 1);
    let alone = input(node, 0) == Some(x) && node.reads().filter(|&read| read == x).count() == 1;
    let transposed = gemm && int(node, "transB", 0) != 0;
    let fits = floats_of(graph, weights)
        .is_some_and(|(shape, _)| shape.len() == 2 && shape[usize::from(transposed)] == features);
    let own = weights.is_some_and(|weights| !is_tied(graph, weights));
    (gemm && int(node, "transA", 0) == 0 || matmul) && alone && fits && own
}

/// Which of a node's two inputs is a constant with a number for each feature, or one for all, the other one being x.
fn per_feature(graph: &Graph, node: &Node, x: ValueId, features: usize) -> Option<usize> {
    if !node.domain.is_empty() || node.inputs.len() != 2 {
        return None;
    }
    let other = usize::from(input(node, 0) == Some(x));
    let (shape, values) = floats_of(graph, input(node, other))?;
    let last = shape.last().is_none_or(|&last| last == values.len());
    let fits = [1, features].contains(&values.len()) && last;
    (fits && input(node, 1 - other) == Some(x)).then_some(other)
}

/// Another constant for a node, with a number for each feature.
fn change_constant(graph: &mut Graph, at: usize, units: &[f32], change: fn(f32, f32) -> f32) {
    let node = graph.nodes[at].clone();
    let slot = (0..2).find(|&slot| floats_of(graph, input(&node, slot)).is_some());
    let slot = slot.expect("its constant was looked at");
    let (shape, values) = floats_of(graph, input(&node, slot)).expect("it is one");
    let mut shape = if shape.is_empty() {
        vec![1]
    } else {
        shape.to_vec()
    };
    if let Some(last) = shape.last_mut() {
        *last = units.len();
    }
    let values = values.iter().cycle().zip(units);
    let changed = values.map(|(&value, &unit)| change(value, unit)).collect();
    let name = format!("{}.features", node.name);
    graph.nodes[at].inputs[slot] = Some(constant(graph, &name, shape, changed));
}

/// The least power of two that each feature does not exceed, if they differ by far.
fn units(peaks: &[f32]) -> Option<Vec<f32>> {
    let seen = || peaks.iter().copied().filter(|peak| *peak > 0.0);
    let greatest = seen().fold(0f32, f32::max);
    let least = seen().fold(f32::INFINITY, f32::min);
    if greatest < least * RATIO_LEAST || !greatest.is_finite() || greatest == 0.0 {
        return None;
    }
    let power = |&peak: &f32| {
        // Of what was always 0 nothing is known.
        let peak = if peak > 0.0 { peak } else { greatest };
        peak.log2().ceil().clamp(-EXPONENT_MAX, EXPONENT_MAX).exp2()
    };
    Some(peaks.iter().map(power).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_two_where_features_differ() {
        assert_eq!(units(&[1.0, 15.0]), None);
        assert_eq!(units(&[0.0, 0.0]), None);
        assert_eq!(
            units(&[3.0, 2_500.0, 0.0]),
            Some(vec![4.0, 4_096.0, 4_096.0])
        );
        assert_eq!(units(&[0.05, 1.0]), Some(vec![0.0625, 1.0]));
        for unit in [1.0, 0.0625, 4_096.0] {
            assert!(is_power_of_two(unit));
        }
        for unit in [0.0, -2.0, 3.0, f32::INFINITY] {
            assert!(!is_power_of_two(unit), "{unit}");
        }
    }
}
