//! Normalisations as ones of the last axis with a constant gain, and what comes after them as products and sums: over several
//! axes, by groups of channels, with gains that are computed; the mean and the deviation that some also give.

use super::Fact;
use super::edit::{
    Writer, counted_axis, float, input, int, ints, output, read_output, rewrite_each, uses,
};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Rewrites every normalisation that lowering does not take as it is; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "LayerNormalization" | "RMSNormalization" => layer(graph, node, facts),
        "InstanceNormalization" => instance(graph, node, facts),
        "GroupNormalization" => group(graph, node, facts),
        "MeanVarianceNormalization" => mean_variance(graph, node, facts),
        "BatchNormalization" => batch(graph, node, facts),
        _ => None,
    })
}

/// Rows of the last axis normalised, without gain and offset.
fn rows(
    writer: &mut Writer<'_>,
    x: ValueId,
    length: usize,
    epsilon: f32,
    centred: bool,
) -> ValueId {
    let gain = writer.floats(&[length], vec![1.0; length]);
    if !centred {
        return writer.rms(x, gain, epsilon);
    }
    let offset = writer.floats(&[length], vec![0.0; length]);
    let attributes = [
        ("axis", Attribute::Int(-1)),
        ("epsilon", Attribute::Float(epsilon)),
    ];
    writer.node("LayerNormalization", &[x, gain, offset], &attributes)
}

/// A gain and an offset, where they are given, of the shape that a value is seen in.
fn affine(
    writer: &mut Writer<'_>,
    mut value: ValueId,
    constants: [Option<ValueId>; 2],
    shape: Option<&[usize]>,
) -> ValueId {
    for (constant, op) in constants.into_iter().zip(["Mul", "Add"]) {
        if let Some(constant) = constant {
            let constant = match shape {
                None => constant,
                Some(shape) => writer.shaped(constant, shape),
            };
            value = writer.node(op, &[value, constant], &[]);
        }
    }
    value
}

/// Over all axes from one on.
fn layer(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let shape = facts.get(&x)?.shape.clone();
    let rank = shape.len();
    let axis = counted_axis(int(node, "axis", -1), rank)?;
    let constants = [input(node, 1), input(node, 2)];
    let constant = |value: &ValueId| {
        let own = graph.constants.get(value);
        own.is_some_and(|own| own.len() == 1 || own.len() == shape[rank - 1])
    };
    let plain = axis + 1 == rank && constants.iter().flatten().all(constant);
    let read = |slot| read_output(graph, node, slot);
    let (value, mean, deviation) = (read(0), read(1), read(2));
    if plain && mean.is_none() && deviation.is_none() {
        return None;
    }
    let centred = node.op == "LayerNormalization";
    let epsilon = float(node, "epsilon", 1e-5);
    let length: usize = shape[axis..].iter().product();
    let matrix = [shape[..axis].iter().product(), length];
    let mut writer = Writer::new(graph, &node.name);
    let flat = writer.shaped(x, &matrix);
    let mut all = Vec::new();
    if let Some(value) = value {
        let normalised = rows(&mut writer, flat, length, epsilon, centred);
        let whole = writer.shaped(normalised, &shape);
        let y = affine(&mut writer, whole, constants, None);
        all.push((y, value));
    }
    moments(
        &mut writer,
        flat,
        epsilon,
        (mean, deviation),
        facts,
        &mut all,
    )?;
    Some(writer.finish_all(all))
}

/// The mean of each row, and one over its deviation.
fn moments(
    writer: &mut Writer<'_>,
    rows: ValueId,
    epsilon: f32,
    (mean, deviation): (Option<ValueId>, Option<ValueId>),
    facts: &BTreeMap<ValueId, Fact>,
    all: &mut Vec<(ValueId, ValueId)>,
) -> Option<()> {
    let along = [
        ("axes", Attribute::Ints(vec![-1])),
        ("keepdims", Attribute::Int(1)),
    ];
    let average = writer.node("ReduceMean", &[rows], &along);
    if let Some(value) = mean {
        let mean = writer.shaped(average, &facts.get(&value)?.shape);
        all.push((mean, value));
    }
    if let Some(value) = deviation {
        let centred = writer.node("Sub", &[rows, average], &[]);
        let squares = writer.node("Mul", &[centred, centred], &[]);
        let variance = writer.node("ReduceMean", &[squares], &along);
        let least = writer.scalar(epsilon);
        let sum = writer.node("Add", &[variance, least], &[]);
        let root = writer.node("Sqrt", &[sum], &[]);
        let inverse = writer.node("Reciprocal", &[root], &[]);
        let inverse = writer.shaped(inverse, &facts.get(&value)?.shape);
        all.push((inverse, value));
    }
    Some(())
}

/// Per channel of each image, with a gain or offset that is computed.
fn instance(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let constants = [input(node, 1), input(node, 2)];
    let constant = |value: &ValueId| graph.constants.contains_key(value);
    if constants.iter().flatten().all(constant) {
        return None;
    }
    let shape = facts.get(&input(node, 0)?)?.shape.clone();
    by_group(graph, node, &shape, *shape.get(1)?)
}

fn group(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let shape = facts.get(&input(node, 0)?)?.shape.clone();
    let groups = usize::try_from(int(node, "num_groups", 0)).ok()?;
    by_group(graph, node, &shape, groups)
}

/// Groups of channels normalised together; gains and offsets one per channel, or one per group.
fn by_group(graph: &mut Graph, node: &Node, shape: &[usize], groups: usize) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let (images, channels) = (*shape.first()?, *shape.get(1)?);
    let each = channels
        .checked_div(groups)
        .filter(|each| each * groups == channels)?;
    let per_group = node.op == "GroupNormalization" && node.version < 21;
    let length: usize = each * shape[2..].iter().product::<usize>();
    let mut writer = Writer::new(graph, &node.name);
    let flat = writer.shaped(x, &[images * groups, length]);
    let mut y = rows(
        &mut writer,
        flat,
        length,
        float(node, "epsilon", 1e-5),
        true,
    );
    let constants = [input(node, 1), input(node, 2)];
    if per_group {
        y = writer.shaped(y, &[images, groups, length]);
        y = affine(&mut writer, y, constants, Some(&[groups, 1]));
        y = writer.shaped(y, shape);
    } else {
        y = writer.shaped(y, shape);
        let mut along = vec![1; shape.len() - 1];
        along[0] = channels;
        y = affine(&mut writer, y, constants, Some(&along));
    }
    Some(writer.finish(y, value))
}

/// Over axes, without gain.
fn mean_variance(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let rank = shape.len();
    let axes = ints(graph, node, "axes", 1).unwrap_or_else(|| vec![0, 2, 3]);
    let counted =
        |&axis: &i64| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok();
    let axes: Vec<usize> = axes.iter().map(counted).collect::<Option<_>>()?;
    let kept = (0..rank).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let length: usize = axes
        .iter()
        .map(|&axis| shape.get(axis).copied().unwrap_or(1))
        .product();
    let moved: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let mut back = vec![0; rank];
    for (at, &axis) in order.iter().enumerate() {
        back[axis] = at;
    }
    let mut writer = Writer::new(graph, &node.name);
    let apart = writer.transposed(x, &order);
    let count: usize = shape.iter().product();
    let flat = writer.shaped(apart, &[count / length.max(1), length]);
    let y = rows(&mut writer, flat, length, 1e-9, true);
    let y = writer.shaped(y, &moved);
    let y = writer.transposed(y, &back);
    Some(writer.finish(y, value))
}

/// With statistics that are computed: `(x - mean) gain / sqrt(variance + epsilon) + offset`.
fn batch(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let all = [1, 2, 3, 4].map(|slot| input(node, slot));
    let constant = |value: &ValueId| graph.constants.contains_key(value);
    if int(node, "training_mode", 0) != 0 {
        return trained(graph, node, facts);
    }
    if all.iter().flatten().all(constant) {
        return None;
    }
    let [Some(gain), Some(offset), Some(mean), Some(variance)] = all else {
        return None;
    };
    let (x, value) = (input(node, 0)?, output(node)?);
    let rank = facts.get(&x)?.shape.len();
    let channels = facts.get(&gain)?.shape.first().copied()?;
    let mut along = vec![1; rank.checked_sub(1)?];
    *along.first_mut()? = channels;
    let mut writer = Writer::new(graph, &node.name);
    let [gain, offset, mean, variance] =
        [gain, offset, mean, variance].map(|value| writer.shaped(value, &along));
    let least = writer.scalar(float(node, "epsilon", 1e-5));
    let sum = writer.node("Add", &[variance, least], &[]);
    let root = writer.node("Sqrt", &[sum], &[]);
    let inverse = writer.node("Reciprocal", &[root], &[]);
    let factor = writer.node("Mul", &[gain, inverse], &[]);
    let centred = writer.node("Sub", &[x, mean], &[]);
    let scaled = writer.node("Mul", &[centred, factor], &[]);
    let y = writer.node("Add", &[scaled, offset], &[]);
    Some(writer.finish(y, value))
}

/// With the statistics of what is normalised, which also move the kept ones.
fn trained(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let all = [1, 2, 3, 4].map(|slot| input(node, slot));
    let [Some(gain), Some(offset), Some(mean), Some(variance)] = all else {
        return None;
    };
    let shape = facts.get(&x)?.shape.clone();
    let (rank, channels) = (shape.len(), *shape.get(1)?);
    let used = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten()?;
        (uses(graph)[value.index()] > 0).then_some(value)
    };
    let gives = [used(0), used(1), used(2)];
    let length = shape.iter().product::<usize>() / channels.max(1);
    let order: Vec<usize> = [1, 0].into_iter().chain(2..rank).collect();
    let moved: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let epsilon = float(node, "epsilon", 1e-5);
    let momentum = float(node, "momentum", 0.9);
    let mut writer = Writer::new(graph, &node.name);
    let apart = writer.transposed(x, &order);
    let flat = writer.shaped(apart, &[channels, length]);
    let mut results = Vec::new();
    if let Some(value) = gives[0] {
        let y = rows(&mut writer, flat, length, epsilon, true);
        let y = affine(
            &mut writer,
            y,
            [Some(gain), Some(offset)],
            Some(&[channels, 1]),
        );
        let y = writer.shaped(y, &moved);
        results.push((writer.transposed(y, &order), value));
    }
    let along = [
        ("axes", Attribute::Ints(vec![-1])),
        ("keepdims", Attribute::Int(1)),
    ];
    let average = writer.node("ReduceMean", &[flat], &along);
    let mut kept =
        |writer: &mut Writer<'_>, own: ValueId, before: ValueId, value: Option<ValueId>| {
            if let Some(value) = value {
                let own = writer.shaped(own, &[channels]);
                let (own, before) = (
                    writer.times(own, 1.0 - momentum),
                    writer.times(before, momentum),
                );
                results.push((writer.node("Add", &[own, before], &[]), value));
            }
        };
    kept(&mut writer, average, mean, gives[1]);
    let centred = writer.node("Sub", &[flat, average], &[]);
    let squares = writer.node("Mul", &[centred, centred], &[]);
    let own = writer.node("ReduceMean", &[squares], &along);
    kept(&mut writer, own, variance, gives[2]);
    Some(writer.finish_all(results))
}
