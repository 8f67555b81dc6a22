//! Products of vectors and of transposed or computed matrices, slopes that are computed, averages of powers, and functions of
//! a value and a constant that differs from place to place, as what lowering knows.

use super::Fact;
use super::edit::{
    Writer, counted_axis, float, gives_first_alone, input, int, output, rewrite_each,
};
use std::collections::BTreeMap;
use tg_float::{Attribute, DType, FloatTensor, Graph, Node, ValueId, convert};

/// Most different constants of a function of two values: it is computed once for each.
const CONSTANTS_MAX: usize = 16;

/// Rewrites every such operator; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() || !gives_first_alone(graph, node) => None,
        "MatMul" => of_vectors(graph, node, facts),
        "Gemm" => general(graph, node, facts),
        "PRelu" => slope(graph, node, facts),
        "SwiGLU" => gated(graph, node),
        "LpPool" => averaged_powers(graph, node),
        "Pow" | "Mod" => by_constant(graph, node, facts),
        "ArgMax" | "ArgMin" if int(node, "select_last_index", 0) != 0 => {
            last_place(graph, node, facts)
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => everywhere(graph, node, facts),
        _ => None,
    })
}

/// A vector as a matrix of one row or column.
fn of_vectors(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (a, b, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let [left, right] = [a, b].map(|value| facts.get(&value).map(|fact| fact.shape.clone()));
    let (left, right, result) = (left?, right?, facts.get(&value)?.shape.clone());
    if left.len() != 1 && right.len() != 1 {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let a = if left.len() == 1 {
        writer.shaped(a, &[1, left[0]])
    } else {
        a
    };
    let b = if right.len() == 1 {
        writer.shaped(b, &[right[0], 1])
    } else {
        b
    };
    let product = writer.node("MatMul", &[a, b], &[]);
    let y = writer.shaped(product, &result);
    Some(writer.finish(y, value))
}

/// `alpha A B + beta C` where A is transposed, or B or C is no constant of the usual shape.
fn general(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (a, b, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let outputs = *facts.get(&value)?.shape.last()?;
    let weights = |value: ValueId| {
        let producer = graph.producers()[value.index()];
        graph.constants.contains_key(&value)
            || producer.is_some_and(|at| graph.nodes[at].is("DequantizeLinear"))
    };
    let bias = input(node, 2).is_none_or(|c| {
        let count = facts.get(&c).map_or(0, |fact| fact.shape.iter().product());
        let along = facts
            .get(&c)
            .is_some_and(|fact| fact.shape.last() == Some(&outputs));
        weights(c) && (count == 1 || count == outputs && along)
    });
    let transposed = int(node, "transA", 0) != 0;
    if !transposed && weights(b) && bias && !graph.constants.contains_key(&a) {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let a = if transposed {
        writer.transposed(a, &[1, 0])
    } else {
        a
    };
    let b = if int(node, "transB", 0) != 0 {
        writer.transposed(b, &[1, 0])
    } else {
        b
    };
    let mut y = writer.node("MatMul", &[a, b], &[]);
    let [alpha, beta] = ["alpha", "beta"].map(|name| float(node, name, 1.0));
    if alpha != 1.0 {
        y = writer.times(y, alpha);
    }
    if let Some(mut c) = input(node, 2) {
        if beta != 1.0 {
            c = writer.times(c, beta);
        }
        y = writer.node("Add", &[y, c], &[]);
    }
    Some(writer.finish(y, value))
}

/// `max(x, 0) + slope min(x, 0)`, unless the slope is a constant along one axis.
fn slope(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, slope, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let shape = &facts.get(&slope)?.shape;
    let long = shape.iter().filter(|&&size| size > 1).count();
    if graph.constants.contains_key(&slope) && long <= 1 {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let zero = writer.scalar(0.0);
    let above = writer.node("Relu", &[x], &[]);
    let below = writer.node("Min", &[x, zero], &[]);
    let scaled = writer.node("Mul", &[below, slope], &[]);
    let y = writer.node("Add", &[above, scaled], &[]);
    Some(writer.finish(y, value))
}

/// The second input, times the swish of the first.
fn gated(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (a, b, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let alpha = float(node, "alpha", 1.0);
    let mut writer = Writer::new(graph, &node.name);
    let bent = if alpha == 1.0 {
        a
    } else {
        writer.times(a, alpha)
    };
    let gate = writer.node("Sigmoid", &[bent], &[]);
    let swish = writer.node("Mul", &[a, gate], &[]);
    let y = writer.node("Mul", &[swish, b], &[]);
    Some(writer.finish(y, value))
}

/// A root of the sum of powers over windows: an average over whole windows, times their size.
fn averaged_powers(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let p = int(node, "p", 2) as f32;
    let Some(Attribute::Ints(kernel)) = node.attributes.get("kernel_shape") else {
        return None;
    };
    let positions = kernel.iter().product::<i64>() as f32;
    let mut attributes: Vec<(&str, Attribute)> = node
        .attributes
        .iter()
        .filter(|(name, _)| name.as_str() != "p")
        .map(|(name, attribute)| (name.as_str(), attribute.clone()))
        .collect();
    attributes.push(("count_include_pad", Attribute::Int(1)));
    let mut writer = Writer::new(graph, &node.name);
    let powers = raised(&mut writer, x, p);
    let averages = writer.node("AveragePool", &[powers], &attributes);
    let sums = writer.times(averages, positions);
    let y = rooted(&mut writer, sums, p);
    Some(writer.finish(y, value))
}

fn raised(writer: &mut Writer<'_>, x: ValueId, p: f32) -> ValueId {
    if p == 2.0 {
        return writer.node("Mul", &[x, x], &[]);
    }
    let magnitude = writer.node("Abs", &[x], &[]);
    if p == 1.0 {
        return magnitude;
    }
    let p = writer.scalar(p);
    writer.node("Pow", &[magnitude, p], &[])
}

fn rooted(writer: &mut Writer<'_>, sum: ValueId, p: f32) -> ValueId {
    if p == 1.0 {
        return sum;
    }
    if p == 2.0 {
        return writer.node("Sqrt", &[sum], &[]);
    }
    let p = writer.scalar(1.0 / p);
    writer.node("Pow", &[sum, p], &[])
}

/// Pools over all places of several images, of any number of axes, as reductions.
fn everywhere(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let small = shape.get(2..)?.iter().all(|&side| side <= 64);
    let plain = node.op != "GlobalLpPool" && shape[0] == 1 && small;
    if plain && (3..=4).contains(&shape.len()) {
        return None;
    }
    let axes: Vec<i64> = (2..shape.len() as i64).collect();
    let count: usize = shape[2..].iter().product();
    let mut writer = Writer::new(graph, &node.name);
    let keep = ("keepdims", Attribute::Int(1));
    let along = [("axes", Attribute::Ints(axes)), keep];
    let y = match node.op.as_str() {
        "GlobalAveragePool" => writer.node("ReduceMean", &[x], &along),
        "GlobalMaxPool" => writer.node("ReduceMax", &[x], &along),
        _ => {
            let p = int(node, "p", 2) as f32;
            let powers = raised(&mut writer, x, p);
            let mean = writer.node("ReduceMean", &[powers], &along);
            let sum = writer.times(mean, count as f32);
            rooted(&mut writer, sum, p)
        }
    };
    Some(writer.finish(y, value))
}

/// A function with a constant that has a few different elements: once for each, chosen from by place.
fn by_constant(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, constant, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let tensor = graph.constants.get(&constant)?;
    let (own, shape) = (tensor.shape().to_vec(), facts.get(&value)?.shape.clone());
    if tensor.len() == 1 || graph.constants.contains_key(&x) {
        return None;
    }
    let numbers = convert::to_f64(tensor.data())?;
    let dtype = tensor.dtype();
    let mut different: Vec<f64> = numbers.clone();
    different.sort_by(f64::total_cmp);
    different.dedup();
    if different.len() > CONSTANTS_MAX {
        return None;
    }
    let attributes: Vec<(&str, Attribute)> = node
        .attributes
        .iter()
        .map(|(name, attribute)| (name.as_str(), attribute.clone()))
        .collect();
    let mode = convert::CastMode::default();
    let mut writer = Writer::new(graph, &node.name);
    let whole = writer.expanded(x, &shape);
    let mut result = None;
    for number in different {
        let data = convert::from_f64(&[number], dtype, mode)?;
        let scalar = FloatTensor::new(Vec::new(), data).ok()?;
        let scalar = writer
            .graph
            .constant(format!("{}.constant", node.name), scalar);
        let y = writer.node(&node.op, &[whole, scalar], &attributes);
        result = Some(match result {
            None => y,
            Some(before) => {
                let places = numbers.iter().map(|&own| own == number).collect();
                let places = FloatTensor::new(own.clone(), tg_float::Data::Bool(places)).ok()?;
                let places = writer
                    .graph
                    .constant(format!("{}.places", node.name), places);
                writer.node("Where", &[places, y, before], &[])
            }
        });
    }
    Some(writer.finish(result?, value))
}

/// The last of equal extremes is the first one backwards.
fn last_place(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let shape = facts.get(&x)?.shape.clone();
    let axis = int(node, "axis", 0);
    let length = shape[counted_axis(axis, shape.len())?] as i64;
    let mut writer = Writer::new(graph, &node.name);
    let backwards: Vec<i64> = (0..length).rev().collect();
    let turned = writer.gathered(x, &backwards, axis);
    let along = ("axis", Attribute::Int(axis));
    let keep = ("keepdims", Attribute::Int(int(node, "keepdims", 1)));
    let place = writer.node(&node.op, &[turned], &[along, keep]);
    let place = writer.cast(place, DType::F32);
    let last = writer.scalar((length - 1) as f32);
    let place = writer.node("Sub", &[last, place], &[]);
    let place = writer.cast(place, facts.get(&value)?.dtype);
    Some(writer.finish(place, value))
}
