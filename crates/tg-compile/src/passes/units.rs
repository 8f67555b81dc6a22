//! `QuantizeLinear` and `DequantizeLinear` by their definition, where lowering has no use for the file's own integers: scales
//! that are computed, one per channel or block of what is computed, or for other than 8 bits.

use super::Fact;
use super::edit::{
    Writer, counted_axis, input, int, output, read_output, rewrite_each, scalar_of, uses,
};
use std::collections::BTreeMap;
use tg_float::{Attribute, DType, Graph, Node, ValueId};

/// Rewrites every such operator; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "QuantizeLinear" => quantised(graph, node, facts),
        "DequantizeLinear" => dequantised(graph, node, facts),
        "DynamicQuantizeLinear" => dynamic(graph, node, facts),
        _ => None,
    })
}

/// Least and greatest integer of a type.
fn ends(dtype: DType) -> Option<[f32; 2]> {
    Some(match dtype {
        DType::I8 => [-128.0, 127.0],
        DType::U8 => [0.0, 255.0],
        DType::I16 => [-32_768.0, 32_767.0],
        DType::U16 => [0.0, 65_535.0],
        DType::I4 => [-8.0, 7.0],
        DType::U4 => [0.0, 15.0],
        DType::I2 => [-2.0, 1.0],
        DType::U2 => [0.0, 3.0],
        _ => return None,
    })
}

/// A scale or zero point in the shape in which it goes with the values: one, one along an axis, or one a block.
fn along(
    writer: &mut Writer<'_>,
    node: &Node,
    value: ValueId,
    own: &[usize],
    shape: &[usize],
) -> Option<ValueId> {
    let count: usize = own.iter().product();
    if count == 1 {
        return Some(writer.shaped(value, &[]));
    }
    let axis = counted_axis(int(node, "axis", 1), shape.len())?;
    let block = usize::try_from(int(node, "block_size", 0)).ok()?;
    if block == 0 {
        let mut one = vec![1; shape.len()];
        one[axis] = count;
        return (count == shape[axis]).then(|| writer.shaped(value, &one));
    }
    // Each element of the scale for a block of values along the axis.
    let blocks = *own.get(axis)?;
    let mut apart = own.to_vec();
    apart.insert(axis + 1, 1);
    let mut repeated = own.to_vec();
    repeated.insert(axis + 1, block);
    let mut whole = own.to_vec();
    whole[axis] = blocks * block;
    let value = writer.shaped(value, &apart);
    let value = writer.expanded(value, &repeated);
    let value = writer.shaped(value, &whole);
    if blocks * block == shape[axis] {
        return Some(value);
    }
    let [from, to, axes] = [0, shape[axis] as i64, axis as i64].map(|end| writer.ints(&[end]));
    Some(writer.node("Slice", &[value, from, to, axes], &[]))
}

/// `clip(round(x / scale) + zero)`.
fn quantised(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, scale, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let result = facts.get(&value)?;
    let zero = input(node, 2);
    let known = scalar_of(graph, Some(scale)).is_some()
        && zero.is_none_or(|zero| scalar_of(graph, Some(zero)).is_some());
    if known && matches!(result.dtype, DType::I8 | DType::U8) {
        return None;
    }
    let [low, high] = ends(result.dtype)?;
    let own = facts.get(&scale)?.shape.clone();
    let zero = zero.map(|zero| Some((zero, facts.get(&zero)?.shape.clone())));
    let mut writer = Writer::new(graph, &node.name);
    let scale = along(&mut writer, node, scale, &own, &result.shape)?;
    let units = writer.node("Div", &[x, scale], &[]);
    let mut units = writer.node("Round", &[units], &[]);
    if let Some(zero) = zero {
        let (zero, own) = zero?;
        let zero = writer.cast(zero, DType::F32);
        let zero = along(&mut writer, node, zero, &own, &result.shape)?;
        units = writer.node("Add", &[units, zero], &[]);
    }
    let [low, high] = [low, high].map(|end| writer.scalar(end));
    let clipped = writer.node("Clip", &[units, low, high], &[]);
    let integers = writer.cast(clipped, result.dtype);
    Some(writer.finish(integers, value))
}

/// `(q - zero) * scale`.
fn dequantised(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (q, scale, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let constant = |value: ValueId| graph.constants.contains_key(&value);
    let given = graph.inputs.iter().any(|input| input.value == q);
    let one = scalar_of(graph, Some(scale)).is_some();
    if constant(scale) && (constant(q) || one && !given) && uses(graph)[value.index()] > 0 {
        let reads_output = graph.outputs.contains(&value);
        if !(constant(q) && reads_output) {
            return None;
        }
    }
    let fact = facts.get(&q)?.clone();
    let own = facts.get(&scale)?.shape.clone();
    let zero = input(node, 2).map(|zero| Some((zero, facts.get(&zero)?.shape.clone())));
    let mut writer = Writer::new(graph, &node.name);
    let mut units = writer.cast(q, DType::F32);
    if let Some(zero) = zero {
        let (zero, own) = zero?;
        let zero = writer.cast(zero, DType::F32);
        let zero = along(&mut writer, node, zero, &own, &fact.shape)?;
        units = writer.node("Sub", &[units, zero], &[]);
    }
    let scale = along(&mut writer, node, scale, &own, &fact.shape)?;
    let reals = writer.node("Mul", &[units, scale], &[]);
    Some(writer.finish(reals, value))
}

/// Integers from 0 to 255 over what the values reach, 0 among them; the scale and the zero point.
fn dynamic(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let axes = (0..facts.get(&x)?.shape.len() as i64).collect();
    let gives = [0, 1, 2].map(|slot| read_output(graph, node, slot));
    let mut writer = Writer::new(graph, &node.name);
    let along = [
        ("axes", Attribute::Ints(axes)),
        ("keepdims", Attribute::Int(0)),
    ];
    let [zero, top] = [0.0, 255.0].map(|end| writer.scalar(end));
    let least = writer.node("ReduceMin", &[x], &along);
    let least = writer.node("Min", &[least, zero], &[]);
    let greatest = writer.node("ReduceMax", &[x], &along);
    let greatest = writer.node("Max", &[greatest, zero], &[]);
    let span = writer.node("Sub", &[greatest, least], &[]);
    let scale = writer.times(span, 1.0 / 255.0);
    let below = writer.node("Neg", &[least], &[]);
    let start = writer.node("Div", &[below, scale], &[]);
    let start = writer.node("Clip", &[start, zero, top], &[]);
    let start = writer.node("Round", &[start], &[]);
    let units = writer.node("Div", &[x, scale], &[]);
    let units = writer.node("Round", &[units], &[]);
    let units = writer.node("Add", &[units, start], &[]);
    let units = writer.node("Clip", &[units, zero, top], &[]);
    let integers = writer.cast(units, DType::U8);
    let start = writer.cast(start, DType::U8);
    let all = [integers, scale, start].into_iter().zip(gives);
    Some(writer.finish_all(all.filter_map(|(y, value)| Some((y, value?))).collect()))
}
