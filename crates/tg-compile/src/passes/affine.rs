//! Constants per channel into the weights around them: batch normalisations, factors and sums after a linear node,
//! gains and offsets of a normalisation into the linear nodes that read it.

use super::Fact;
use super::edit::{
    VERSION, constant, float, floats_of, fresh_node, input, int, is_tied, output, uses,
};
use std::collections::BTreeMap;
use tg_float::{Graph, Node, ValueId};

/// Folds what can be folded; whether anything was.
pub(super) fn fold(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = batch_norms(graph, facts);
    changed |= after_linear(graph, facts);
    changed |= into_norm(graph, facts);
    changed | out_of_norm(graph, facts)
}

/// Batch normalisations as a product and a sum per channel.
fn batch_norms(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        if graph.nodes[index].is("BatchNormalization")
            && let Some(nodes) = as_affine(graph, index, facts)
        {
            graph.nodes.splice(index..=index, nodes);
            changed = true;
        }
        index += 1;
    }
    changed
}

fn as_affine(
    graph: &mut Graph,
    index: usize,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<[Node; 2]> {
    let node = graph.nodes[index].clone();
    let [gain, offset, mean, variance] =
        [1, 2, 3, 4].map(|i| floats_of(graph, input(&node, i)).map(|(_, values)| values));
    let (gain, offset, mean, variance) = (gain?, offset?, mean?, variance?);
    if int(&node, "training_mode", 0) != 0 {
        return None;
    }
    let epsilon = float(&node, "epsilon", 1e-5);
    let rank = facts.get(&input(&node, 0)?)?.shape.len();
    let factors: Vec<f32> = gain
        .iter()
        .zip(&variance)
        .map(|(g, v)| (f64::from(*g) / (f64::from(*v) + f64::from(epsilon)).sqrt()) as f32)
        .collect();
    let sums: Vec<f32> = (0..factors.len())
        .map(|c| (f64::from(offset[c]) - f64::from(mean[c]) * f64::from(factors[c])) as f32)
        .collect();
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(first) = shape.first_mut() {
        *first = factors.len();
    }
    let a = constant(
        graph,
        &format!("{}.factor", node.name),
        shape.clone(),
        factors,
    );
    let b = constant(graph, &format!("{}.offset", node.name), shape, sums);
    let (product, value) = fresh_node(
        graph,
        &format!("{}.product", node.name),
        "Mul",
        VERSION,
        &[input(&node, 0)?, a],
    );
    let sum = Node::new(
        &node.name,
        "Add",
        VERSION,
        vec![value, b],
        vec![output(&node)?],
    );
    Some([product, sum])
}

/// A constant per channel: its values, one per channel, if it differs along one axis of the result at most.
fn per_channel(
    graph: &Graph,
    value: Option<ValueId>,
    result: &[usize],
    axis: usize,
) -> Option<Vec<f32>> {
    let (shape, values) = floats_of(graph, value)?;
    let missing = result.len().checked_sub(shape.len())?;
    let differs = |at: usize| at >= missing && shape[at - missing] != 1;
    if (0..result.len()).any(|at| at != axis && differs(at)) {
        return None;
    }
    Some(if values.len() == 1 {
        vec![values[0]; result[axis]]
    } else {
        values
    })
}

/// What a product or sum with a constant per channel multiplies or adds.
struct Step {
    value: ValueId,
    factors: Option<Vec<f32>>,
    sums: Option<Vec<f32>>,
}

fn step(graph: &Graph, node: &Node, result: &[usize], axis: usize) -> Option<Step> {
    if !node.domain.is_empty() || node.inputs.len() != 2 {
        return None;
    }
    let [a, b] = [input(node, 0)?, input(node, 1)?];
    let constant = |value| per_channel(graph, Some(value), result, axis);
    let (value, constants) = match (constant(a), constant(b)) {
        (None, Some(c)) => (a, c),
        (Some(c), None) if node.op != "Sub" && node.op != "Div" => (b, c),
        _ => return None,
    };
    let negated = |c: &f32| -c;
    let inverse = |c: &f32| 1.0 / c;
    let (factors, sums) = match node.op.as_str() {
        "Mul" => (Some(constants), None),
        "Div" => (Some(constants.iter().map(inverse).collect()), None),
        "Add" => (None, Some(constants)),
        "Sub" => (None, Some(constants.iter().map(negated).collect())),
        _ => return None,
    };
    Some(Step {
        value,
        factors,
        sums,
    })
}

/// The axis of a linear node's result that its bias runs along.
fn output_axis(node: &Node, rank: usize) -> Option<usize> {
    match node.op.as_str() {
        "Conv" | "ConvTranspose" => Some(1),
        "Gemm" => rank.checked_sub(1),
        _ => None,
    }
}

/// Products and sums after a convolution or Gemm into its weights and bias.
fn after_linear(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        if fold_step(graph, index, facts).is_some() {
            graph.nodes.remove(index);
            changed = true;
        } else {
            index += 1;
        }
    }
    changed
}

fn fold_step(graph: &mut Graph, index: usize, facts: &BTreeMap<ValueId, Fact>) -> Option<()> {
    let node = graph.nodes[index].clone();
    let result = output(&node)?;
    let linear_at = [0, 1].into_iter().find_map(|side| {
        let value = input(&node, side)?;
        let at = graph.producers().get(value.index()).copied().flatten()?;
        output_axis(&graph.nodes[at], 2).map(|_| at)
    })?;
    let linear = graph.nodes[linear_at].clone();
    let value = output(&linear)?;
    let shape = facts.get(&value)?.shape.clone();
    if facts.get(&result).is_some_and(|fact| fact.shape != shape) {
        return None;
    }
    let axis = output_axis(&linear, shape.len())?;
    let step = step(graph, &node, &shape, axis)?;
    let single = uses(graph)[value.index()] == 1;
    if !single || step.value != value || !graph.constants.contains_key(&input(&linear, 1)?) {
        return None;
    }
    if linear.op == "Gemm"
        && (float(&linear, "alpha", 1.0) != 1.0 || float(&linear, "beta", 1.0) != 1.0)
    {
        return None;
    }
    let outputs = shape[axis];
    let mut bias = match input(&linear, 2) {
        None => vec![0.0; outputs],
        some => per_channel(graph, some, &[1, outputs], 1)?,
    };
    let weights = input(&linear, 1)?;
    let mut inputs = linear.inputs.clone();
    if let Some(factors) = &step.factors {
        if is_tied(graph, weights) {
            return None;
        }
        let (shape, mut values) = {
            let (shape, values) = floats_of(graph, Some(weights))?;
            (shape.to_vec(), values)
        };
        scale_outputs(&linear, &shape, &mut values, factors)?;
        bias.iter_mut().zip(factors).for_each(|(b, f)| *b *= f);
        inputs[1] = Some(constant(
            graph,
            &format!("{}.weights", linear.name),
            shape,
            values,
        ));
    }
    if let Some(sums) = &step.sums {
        bias.iter_mut().zip(sums).for_each(|(b, s)| *b += s);
    }
    let bias = constant(graph, &format!("{}.bias", linear.name), vec![outputs], bias);
    inputs.resize(3, None);
    inputs[2] = Some(bias);
    graph.nodes[linear_at].inputs = inputs;
    graph.nodes[linear_at].outputs[0] = Some(result);
    Some(())
}

/// Multiplies the weights of each output channel.
fn scale_outputs(node: &Node, shape: &[usize], values: &mut [f32], factors: &[f32]) -> Option<()> {
    let inner: usize = shape.get(1..)?.iter().product();
    match node.op.as_str() {
        "Conv" => {
            for (row, factor) in values.chunks_exact_mut(inner).zip(factors) {
                row.iter_mut().for_each(|w| *w *= factor);
            }
        }
        // [in][out of the group][positions]
        "ConvTranspose" => {
            let groups = usize::try_from(int(node, "group", 1)).ok()?;
            let (outputs, positions) = (*shape.get(1)?, shape.get(2..)?.iter().product::<usize>());
            let per_group = shape[0] / groups.max(1);
            for (index, weight) in values.iter_mut().enumerate() {
                let group = index / (outputs * positions) / per_group;
                *weight *= factors[group * outputs + index / positions % outputs];
            }
        }
        _ if int(node, "transB", 0) != 0 => {
            for (row, factor) in values.chunks_exact_mut(inner).zip(factors) {
                row.iter_mut().for_each(|w| *w *= factor);
            }
        }
        _ => {
            for row in values.chunks_exact_mut(inner) {
                row.iter_mut().zip(factors).for_each(|(w, f)| *w *= f);
            }
        }
    }
    Some(())
}

fn is_norm(node: &Node) -> bool {
    node.is("LayerNormalization") || node.is("RMSNormalization")
}

/// Whether a normalisation is over the last axis alone.
pub(super) fn over_last(node: &Node, rank: usize) -> bool {
    let axis = int(node, "axis", -1);
    axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis + 1 == rank)
}

/// A product and a sum after a normalisation as its own gain and offset.
fn into_norm(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        if merge_into_norm(graph, index, facts).is_some() {
            graph.nodes.remove(index);
            changed = true;
        } else {
            index += 1;
        }
    }
    changed
}

fn merge_into_norm(graph: &mut Graph, index: usize, facts: &BTreeMap<ValueId, Fact>) -> Option<()> {
    let node = graph.nodes[index].clone();
    let producers = graph.producers();
    let norm_at = [0, 1].into_iter().find_map(|side| {
        let at = producers
            .get(input(&node, side)?.index())
            .copied()
            .flatten()?;
        is_norm(&graph.nodes[at]).then_some(at)
    })?;
    let norm = graph.nodes[norm_at].clone();
    let value = output(&norm)?;
    let shape = facts.get(&value)?.shape.clone();
    let axis = shape.len().checked_sub(1)?;
    let step = step(graph, &node, &shape, axis)?;
    let fits =
        uses(graph)[value.index()] == 1 && step.value == value && over_last(&norm, shape.len());
    let layer = norm.op == "LayerNormalization";
    if !fits || (step.sums.is_some() && !layer) {
        return None;
    }
    let channels = shape[axis];
    let read = |slot, default| match input(&norm, slot) {
        None => Some(vec![default; channels]),
        some => per_channel(graph, some, &[channels], 0),
    };
    let mut gain = read(1, 1.0)?;
    let mut offset = read(2, 0.0)?;
    if let Some(factors) = &step.factors {
        gain.iter_mut().zip(factors).for_each(|(g, f)| *g *= f);
        offset.iter_mut().zip(factors).for_each(|(o, f)| *o *= f);
    }
    if let Some(sums) = &step.sums {
        offset.iter_mut().zip(sums).for_each(|(o, s)| *o += s);
    }
    set_norm(graph, norm_at, gain, layer.then_some(offset));
    graph.nodes[norm_at].outputs[0] = output(&node);
    Some(())
}

pub(super) fn set_norm(graph: &mut Graph, at: usize, gain: Vec<f32>, offset: Option<Vec<f32>>) {
    let name = graph.nodes[at].name.clone();
    let channels = vec![gain.len()];
    let gain = constant(graph, &format!("{name}.gain"), channels.clone(), gain);
    let offset = offset.map(|o| constant(graph, &format!("{name}.offset"), channels, o));
    let node = &mut graph.nodes[at];
    node.inputs.truncate(1);
    node.inputs.push(Some(gain));
    if offset.is_some() {
        node.inputs.push(offset);
    }
}

/// Gain and offset of a normalisation into the weights of the linear nodes that alone read it.
fn out_of_norm(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        if is_norm(&graph.nodes[index]) {
            changed |= push_gain(graph, index, facts).is_some();
        }
        index += 1;
    }
    changed
}

fn push_gain(graph: &mut Graph, at: usize, facts: &BTreeMap<ValueId, Fact>) -> Option<()> {
    let norm = graph.nodes[at].clone();
    let value = output(&norm)?;
    let shape = &facts.get(&value)?.shape;
    let channels = *shape.last()?;
    let gain = per_channel(graph, input(&norm, 1), &[channels], 0)?;
    let offset = match input(&norm, 2) {
        None => vec![0.0; channels],
        some => per_channel(graph, some, &[channels], 0)?,
    };
    let plain = gain.iter().all(|&g| g == 1.0) && offset.iter().all(|&o| o == 0.0);
    if plain {
        return None;
    }
    let readers = linear_readers(graph, at, facts)?;
    for &reader in readers.iter().rev() {
        absorb_gain(graph, reader, &gain, &offset)?;
    }
    let layer = norm.op == "LayerNormalization";
    set_norm(
        graph,
        at,
        vec![1.0; channels],
        layer.then(|| vec![0.0; channels]),
    );
    Some(())
}

/// The nodes that read a normalisation over the last axis, if all of them multiply it by constant weights of their own.
pub(super) fn linear_readers(
    graph: &Graph,
    at: usize,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<usize>> {
    let norm = &graph.nodes[at];
    let value = output(norm).filter(|_| is_norm(norm))?;
    let rank = facts.get(&value)?.shape.len();
    let readers = graph.readers()[value.index()].clone();
    let linear = |&reader: &usize| {
        let node = &graph.nodes[reader];
        let weights = input(node, 1);
        let two = floats_of(graph, weights).is_some_and(|(shape, _)| shape.len() == 2);
        let reads = input(node, 0) == Some(value) && weights != Some(value);
        let gemm =
            node.is("Gemm") && int(node, "transA", 0) == 0 && float(node, "alpha", 1.0) == 1.0;
        let own = weights.is_some_and(|weights| !is_tied(graph, weights));
        reads && two && own && (node.is("MatMul") || gemm)
    };
    let taken = !graph.outputs.contains(&value)
        && !readers.is_empty()
        && readers.iter().all(linear)
        && over_last(norm, rank);
    taken.then_some(readers)
}

/// `(g x + o) W` as `x (g W) + o W`.
pub(super) fn absorb_gain(
    graph: &mut Graph,
    at: usize,
    gain: &[f32],
    offset: &[f32],
) -> Option<()> {
    let node = graph.nodes[at].clone();
    let (shape, mut values) = {
        let (shape, values) = floats_of(graph, input(&node, 1))?;
        (shape.to_vec(), values)
    };
    let transposed = node.op == "Gemm" && int(&node, "transB", 0) != 0;
    let outputs = if transposed { shape[0] } else { shape[1] };
    let columns = shape[1];
    let mut sums = vec![0f64; outputs];
    for (index, weight) in values.iter_mut().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let (k, out) = if transposed {
            (column, row)
        } else {
            (row, column)
        };
        sums[out] += f64::from(*weight) * f64::from(offset[k]);
        *weight *= gain[k];
    }
    let weights = constant(graph, &format!("{}.weights", node.name), shape, values);
    graph.nodes[at].inputs[1] = Some(weights);
    if sums.iter().all(|&sum| sum == 0.0) {
        return Some(());
    }
    let sums: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
    let bias = constant(graph, &format!("{}.offset", node.name), vec![outputs], sums);
    let value = graph.fresh(format!("{}.before", node.name));
    let result = graph.nodes[at].outputs[0].replace(value)?;
    let name = format!("{}.sum", node.name);
    let sum = Node::new(&name, "Add", VERSION, vec![value, bias], vec![result]);
    graph.nodes.insert(at + 1, sum);
    Some(())
}
