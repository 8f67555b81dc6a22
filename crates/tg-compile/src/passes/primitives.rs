//! Operators that are short for others, written out: reductions of functions, sums and extremes of many, limits and slopes
//! that are computed, losses of the nearest kind. Every rule is the operator's own definition.

use super::Fact;
use super::edit::{
    Writer, counted_axis, float, gives_first_alone, input, int, ints, output, rewrite_each,
    scalar_of, uses,
};
use std::collections::BTreeMap;
use tg_float::{Attribute, DType, Data, FloatTensor, Graph, Node, ValueId, convert};
use tg_ir::op::{CONCAT_MAX, TERMS_MAX};

/// Most factors of a product along axes: it is a chain of products.
const FACTORS_MAX: usize = 64;

/// Rewrites every operator it knows; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| written(graph, node, facts))
}

fn written(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    if node.domain == "ai.onnx.ml" && node.op == "Binarizer" {
        return binarizer(graph, node, facts);
    }
    if !node.domain.is_empty() {
        return None;
    }
    if node.op == "Dropout" {
        return dropout(graph, node, facts);
    }
    if !gives_first_alone(graph, node) {
        return None;
    }
    let fact = facts.get(&output(node)?)?;
    match node.op.as_str() {
        "ReduceL1" | "ReduceL2" | "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp"
        | "ReduceProd" | "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" => {
            reduction(graph, node, facts)
        }
        "Sum" if node.inputs.len() > TERMS_MAX => grouped(graph, node, TERMS_MAX, None),
        "Concat" if node.inputs.len() > CONCAT_MAX => {
            let axis = Attribute::Int(int(node, "axis", 0));
            grouped(graph, node, CONCAT_MAX, Some(("axis", axis)))
        }
        "Mean" if node.inputs.len() > 1 => mean(graph, node),
        "Reciprocal" | "Div" => logistic(graph, node),
        "Mean" => Some(vec![renamed(node, "Identity")]),
        "Min" | "Max" if node.inputs.len() > 2 => chain(graph, node),
        "CastLike" => {
            let to = Attribute::Int(i64::from(fact.dtype.to_onnx()));
            let mut cast = renamed(node, "Cast").with("to", to);
            cast.inputs.truncate(1);
            Some(vec![cast])
        }
        "Clip" => clip(graph, node),
        "Hardmax" => hardmax(graph, node, facts),
        "IsNaN" | "IsInf" => never(graph, node, fact),
        "ArgMin" => arg_min(graph, node),
        "Xor" => differing(graph, node),
        "LpNormalization" => lp_normalization(graph, node, facts),
        "LRN" => local_response(graph, node, facts),
        _ => None,
    }
}

/// Elements as they are, and nothing dropped; in training only with a share of nothing.
fn dropout(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let training = match input(node, 2) {
        None => false,
        some => scalar_of(graph, some)? != 0.0,
    };
    let share = match input(node, 1) {
        None => 0.5,
        some => scalar_of(graph, some).unwrap_or(0.5),
    };
    if training && share != 0.0 {
        return None;
    }
    let x = input(node, 0)?;
    let used = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten()?;
        (uses(graph)[value.index()] > 0).then_some(value)
    };
    let mut all: Vec<(ValueId, ValueId)> = used(0).map(|value| (x, value)).into_iter().collect();
    if let Some(value) = used(1) {
        let fact = facts.get(&value)?;
        let count = tg_float::tensor::elements(&fact.shape)?;
        let data = convert::from_f64(&vec![1.0; count], fact.dtype, convert::CastMode::default())?;
        let mask = FloatTensor::new(fact.shape.clone(), data).ok()?;
        all.push((graph.constant(format!("{}.kept", node.name), mask), value));
    }
    Some(Writer::new(graph, &node.name).finish_all(all))
}

/// The node with another operator.
fn renamed(node: &Node, op: &str) -> Node {
    Node {
        op: op.to_owned(),
        ..node.clone()
    }
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

/// The axes of a reduction, ascending; nothing if they are not constant. None of them if the node then does nothing.
fn reduced_axes(graph: &Graph, node: &Node, rank: usize) -> Option<Vec<usize>> {
    let given = match input(node, 1) {
        Some(_) => Some(ints(graph, node, "axes", 1)?),
        None => ints(graph, node, "axes", 1),
    };
    let given = given.unwrap_or_default();
    if given.is_empty() {
        let none = int(node, "noop_with_empty_axes", 0) != 0;
        return Some(if none {
            Vec::new()
        } else {
            (0..rank).collect()
        });
    }
    let mut axes: Vec<usize> = given
        .into_iter()
        .map(|axis| counted_axis(axis, rank))
        .collect::<Option<_>>()?;
    axes.sort_unstable();
    axes.dedup();
    Some(axes)
}

/// A reduction of a function of the elements as the function, a plain reduction and the function of that.
fn reduction(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let axes = reduced_axes(graph, node, shape.len())?;
    let plain = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"];
    if plain.contains(&node.op.as_str()) {
        // Lowering takes these; of no axes they do nothing.
        let mut same = renamed(node, "Identity");
        same.inputs.truncate(1);
        return axes.is_empty().then(|| vec![same]);
    }
    let result = facts.get(&value)?.shape.clone();
    let mut writer = Writer::new(graph, &node.name);
    let sum = |writer: &mut Writer<'_>, x: ValueId| {
        if axes.is_empty() {
            return x;
        }
        let list: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let list = writer.ints(&list);
        writer.node("ReduceSum", &[x, list], &[("keepdims", Attribute::Int(1))])
    };
    let reduced = match node.op.as_str() {
        "ReduceL1" => {
            let magnitudes = writer.node("Abs", &[x], &[]);
            sum(&mut writer, magnitudes)
        }
        "ReduceL2" | "ReduceSumSquare" => {
            let squares = writer.node("Mul", &[x, x], &[]);
            let sum = sum(&mut writer, squares);
            if node.op == "ReduceL2" {
                writer.node("Sqrt", &[sum], &[])
            } else {
                sum
            }
        }
        "ReduceLogSum" => {
            let sum = sum(&mut writer, x);
            writer.node("Log", &[sum], &[])
        }
        "ReduceLogSumExp" => log_sum_exp(&mut writer, x, &axes, sum),
        _ => product_along(&mut writer, x, &shape, &axes)?,
    };
    let shape = writer.ints(&sizes(&result));
    let reduced = writer.node("Reshape", &[reduced, shape], &[]);
    Some(writer.finish(reduced, value))
}

/// The logarithm of the sum of exponentials, less the greatest element and with it again: no exponential is above 1.
fn log_sum_exp(
    writer: &mut Writer<'_>,
    x: ValueId,
    axes: &[usize],
    sum: impl Fn(&mut Writer<'_>, ValueId) -> ValueId,
) -> ValueId {
    let list = axes.iter().map(|&axis| axis as i64).collect();
    let along = [
        ("axes", Attribute::Ints(list)),
        ("keepdims", Attribute::Int(1)),
    ];
    let greatest = if axes.is_empty() {
        x
    } else {
        writer.node("ReduceMax", &[x], &along)
    };
    let below = writer.node("Sub", &[x, greatest], &[]);
    let raised = writer.node("Exp", &[below], &[]);
    let sum = sum(writer, raised);
    let logarithm = writer.node("Log", &[sum], &[]);
    writer.node("Add", &[logarithm, greatest], &[])
}

/// The product of the elements along axes, factor by factor.
fn product_along(
    writer: &mut Writer<'_>,
    x: ValueId,
    shape: &[usize],
    axes: &[usize],
) -> Option<ValueId> {
    let count: usize = axes.iter().map(|&axis| shape[axis]).product();
    if count == 0 || count > FACTORS_MAX {
        return None;
    }
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    let order: Vec<i64> = kept
        .chain(axes.iter().copied())
        .map(|axis| axis as i64)
        .collect();
    let apart = writer.node("Transpose", &[x], &[("perm", Attribute::Ints(order))]);
    let rows = shape.iter().product::<usize>() / count;
    let matrix = writer.ints(&sizes(&[rows, count]));
    let matrix = writer.node("Reshape", &[apart, matrix], &[]);
    let mut product = None;
    for at in 0..count {
        let at = writer.ints(&[at as i64]);
        let factor = writer.node("Gather", &[matrix, at], &[("axis", Attribute::Int(1))]);
        product = Some(match product {
            None => factor,
            Some(product) => writer.node("Mul", &[product, factor], &[]),
        });
    }
    product
}

/// A mean as a sum and a factor; a sum as sums of two.
fn mean(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let inputs: Vec<ValueId> = node.reads().collect();
    let mut writer = Writer::new(graph, &node.name);
    let mut sum = *inputs.first()?;
    for &other in &inputs[1..] {
        sum = writer.node("Add", &[sum, other], &[]);
    }
    let share = writer.scalar(1.0 / inputs.len() as f32);
    let mean = writer.node("Mul", &[sum, share], &[]);
    Some(writer.finish(mean, output(node)?))
}

/// An operator on many as the same on groups of at most so many.
fn grouped(
    graph: &mut Graph,
    node: &Node,
    most: usize,
    how: Option<(&str, Attribute)>,
) -> Option<Vec<Node>> {
    let how: Vec<(&str, Attribute)> = how.into_iter().collect();
    let mut values: Vec<ValueId> = node.reads().collect();
    let mut writer = Writer::new(graph, &node.name);
    while values.len() > 1 {
        let groups = values.chunks(most);
        let one = |group: &[ValueId]| match group {
            [single] => *single,
            several => writer.node(&node.op, several, &how),
        };
        values = groups.map(one).collect();
    }
    Some(writer.finish(*values.first()?, output(node)?))
}

/// `1 / (1 + exp(-x))`, whose exponential may be larger than any float where the result is not.
fn logistic(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let producers = graph.producers();
    let made = |value: ValueId, op: &str| {
        let node = &graph.nodes[producers.get(value.index()).copied().flatten()?];
        node.is(op).then_some(node)
    };
    let one = |value: Option<ValueId>| scalar_of(graph, value) == Some(1.0);
    let sum = match node.op.as_str() {
        "Div" if one(input(node, 0)) => input(node, 1)?,
        "Reciprocal" => input(node, 0)?,
        _ => return None,
    };
    let sum = made(sum, "Add")?;
    let exponential = match (input(sum, 0)?, input(sum, 1)?) {
        (term, other) if one(Some(other)) => term,
        (other, term) if one(Some(other)) => term,
        _ => return None,
    };
    let exponent = input(made(exponential, "Exp")?, 0)?;
    let minus = |value: Option<ValueId>| scalar_of(graph, value) == Some(-1.0);
    let x = match (made(exponent, "Neg"), made(exponent, "Mul")) {
        (Some(negated), _) => input(negated, 0),
        (_, Some(product)) if minus(input(product, 1)) => input(product, 0),
        (_, Some(product)) if minus(input(product, 0)) => input(product, 1),
        _ => None,
    }?;
    let mut writer = Writer::new(graph, &node.name);
    let y = writer.node("Sigmoid", &[x], &[]);
    Some(writer.finish(y, output(node)?))
}

/// An extreme of many as extremes of two.
fn chain(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let inputs: Vec<ValueId> = node.reads().collect();
    let mut writer = Writer::new(graph, &node.name);
    let mut extreme = *inputs.first()?;
    for &other in &inputs[1..] {
        extreme = writer.node(&node.op, &[extreme, other], &[]);
    }
    Some(writer.finish(extreme, output(node)?))
}

/// Limits that are computed: the greater of the least one, then the lesser of the greatest one.
fn clip(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let computed = |slot: usize| {
        let limit = input(node, slot)?;
        (!graph.constants.contains_key(&limit)).then_some(limit)
    };
    if computed(1).is_none() && computed(2).is_none() {
        return None;
    }
    let mut value = input(node, 0)?;
    let mut writer = Writer::new(graph, &node.name);
    for (slot, op) in [(1, "Max"), (2, "Min")] {
        if let Some(limit) = input(node, slot) {
            value = writer.node(op, &[value, limit], &[]);
        }
    }
    Some(writer.finish(value, output(node)?))
}

/// 1 at the first greatest element along an axis, 0 elsewhere.
fn hardmax(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let Fact { dtype, shape } = facts.get(&x)?.clone();
    let newest = node.version >= 13;
    let axis = counted_axis(int(node, "axis", if newest { -1 } else { 1 }), shape.len())?;
    let mut writer = Writer::new(graph, &node.name);
    // Before version 13 all axes from that one on are one.
    let rows: usize = shape[..axis].iter().product();
    let (x, axis, own) = if newest {
        (x, axis, shape.clone())
    } else {
        let flat = vec![rows, shape[axis..].iter().product()];
        let matrix = writer.ints(&sizes(&flat));
        (writer.node("Reshape", &[x, matrix], &[]), 1, flat)
    };
    let along = ("axis", Attribute::Int(axis as i64));
    let greatest = writer.node("ArgMax", &[x], &[along, ("keepdims", Attribute::Int(1))]);
    let mut places = vec![1; own.len()];
    places[axis] = own[axis];
    let list: Vec<i64> = (0..own[axis] as i64).collect();
    let list = FloatTensor::of(places, list).ok()?;
    let list = writer.graph.constant(format!("{}.places", node.name), list);
    let equal = writer.node("Equal", &[greatest, list], &[]);
    let to = Attribute::Int(i64::from(dtype.to_onnx()));
    let one = writer.node("Cast", &[equal], &[("to", to)]);
    let whole = writer.ints(&sizes(&shape));
    let one = writer.node("Reshape", &[one, whole], &[]);
    Some(writer.finish(one, value))
}

/// The integers of a program are numbers, and finite.
fn never(graph: &mut Graph, node: &Node, fact: &Fact) -> Option<Vec<Node>> {
    let count = tg_float::tensor::elements(&fact.shape)?;
    let none = FloatTensor::new(fact.shape.clone(), Data::zeros(DType::Bool, count)).ok()?;
    let name = format!("{}.never", node.name);
    let never = graph.constant(name, none);
    let writer = Writer::new(graph, &node.name);
    Some(writer.finish(never, output(node)?))
}

/// The place of the least element as that of the greatest negative one.
fn arg_min(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let name = format!("{}.negative", node.name);
    let negative = graph.fresh(name.clone());
    let version = node.version;
    let before = Node::new(&name, "Neg", version, vec![input(node, 0)?], vec![negative]);
    let mut after = renamed(node, "ArgMax");
    after.inputs[0] = Some(negative);
    Some(vec![before, after])
}

/// Either but not both: the two differ.
fn differing(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let mut writer = Writer::new(graph, &node.name);
    let equal = writer.node("Equal", &[input(node, 0)?, input(node, 1)?], &[]);
    let differ = writer.node("Not", &[equal], &[]);
    Some(writer.finish(differ, output(node)?))
}

/// 1 above a threshold, else 0.
fn binarizer(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let dtype = facts.get(&value)?.dtype;
    let mut writer = Writer::new(graph, &node.name);
    let threshold = writer.scalar(float(node, "threshold", 0.0));
    let above = writer.node("Greater", &[x, threshold], &[]);
    let one = writer.cast(above, dtype);
    Some(writer.finish(one, value))
}

/// Elements over the sum of magnitudes, or the root of the sum of squares, along an axis.
fn lp_normalization(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let axis = counted_axis(int(node, "axis", -1), shape.len())?;
    let mut writer = Writer::new(graph, &node.name);
    if int(node, "p", 2) == 1 {
        let magnitudes = writer.node("Abs", &[x], &[]);
        let axes = writer.ints(&[axis as i64]);
        let keep = [("keepdims", Attribute::Int(1))];
        let sum = writer.node("ReduceSum", &[magnitudes, axes], &keep);
        let least = writer.scalar(f32::MIN_POSITIVE);
        let sum = writer.node("Max", &[sum, least], &[]);
        let divided = writer.node("Div", &[x, sum], &[]);
        return Some(writer.finish(divided, value));
    }
    // x / sqrt(n mean(x^2)), the axis last.
    let mut order: Vec<i64> = (0..shape.len() as i64).collect();
    order.swap(axis, shape.len() - 1);
    let order = [("perm", Attribute::Ints(order))];
    let last = writer.node("Transpose", &[x], &order);
    let length = shape[axis];
    let gain = writer.floats(&[length], vec![1.0 / (length as f32).sqrt(); length]);
    let normalised = writer.rms(last, gain, 1e-12);
    let back = writer.node("Transpose", &[normalised], &order);
    Some(writer.finish(back, value))
}

/// `x / (bias + alpha / size * s)^beta`, s the sum of squares over neighbouring channels: products with a matrix of ones
/// about the diagonal.
fn local_response(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let (channels, rank) = (*shape.get(1)?, shape.len());
    let size = usize::try_from(int(node, "size", 1)).ok()?;
    let (before, after) = (size.checked_sub(1)? / 2, size / 2);
    let near = |from: usize, to: usize| to + before >= from && to <= from + after;
    let share = float(node, "alpha", 1e-4) / size as f32;
    let each = (0..channels).flat_map(|from| (0..channels).map(move |to| (from, to)));
    let band = each.map(|(from, to)| if near(to, from) { share } else { 0.0 });
    let band: Vec<f32> = band.collect();
    let mut writer = Writer::new(graph, &node.name);
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(1, rank - 1);
    let order = [("perm", Attribute::Ints(order))];
    let squares = writer.node("Mul", &[x, x], &[]);
    let last = writer.node("Transpose", &[squares], &order);
    let band = writer.floats(&[channels, channels], band);
    let sums = writer.node("MatMul", &[last, band], &[]);
    let sums = writer.node("Transpose", &[sums], &order);
    let bias = writer.scalar(float(node, "bias", 1.0));
    let sums = writer.node("Add", &[sums, bias], &[]);
    let exponent = writer.scalar(-float(node, "beta", 0.75));
    let factors = writer.node("Pow", &[sums, exponent], &[]);
    let scaled = writer.node("Mul", &[x, factors], &[]);
    Some(writer.finish(scaled, value))
}
