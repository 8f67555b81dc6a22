//! Elements that computed places choose: flags, one for each place that there is, that a product or a choice reads.

use super::Fact;
use super::edit::{Writer, counted_axis, gives_first_alone, input, int, output, rewrite_each};
use std::collections::BTreeMap;
use tg_float::{Attribute, DType, Graph, Node, ValueId, convert};

/// Most places that one is chosen from.
const PLACES_MAX: usize = 1 << 12;

/// Rewrites `Gather` by computed places, `GatherElements`, `OneHot` of computed places, and `TopK` of the least; whether
/// there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "TopK" if int(node, "largest", 1) == 0 => least(graph, node),
        _ if !gives_first_alone(graph, node) => None,
        "Gather" => gathered(graph, node, facts),
        "GatherElements" => elements(graph, node, facts),
        "OneHot" => flagged(graph, node, facts),
        _ => None,
    })
}

/// Places counted from the first of so many, of those that may count from the end.
fn from_start(writer: &mut Writer<'_>, places: ValueId, count: usize) -> ValueId {
    let [zero, all] = [0, count].map(|number| writer.ints(&[number as i64]));
    let below = writer.node("Less", &[places, zero], &[]);
    let later = writer.node("Add", &[places, all], &[]);
    writer.node("Where", &[below, later, places], &[])
}

/// Per place of a list of computed ones, which of so many it is: `[count][places]`; places may count from the end.
fn flags(writer: &mut Writer<'_>, chosen: ValueId, count: usize, places: usize) -> ValueId {
    let numbers = writer.cast(chosen, DType::I64);
    let column = writer.shaped(numbers, &[count, 1]);
    let column = from_start(writer, column, places);
    let list: Vec<i64> = (0..places as i64).collect();
    let list = writer.ints(&list);
    writer.node("Equal", &[column, list], &[])
}

/// A product of the flags with the rows that are chosen from.
fn gathered(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (data, chosen, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let constant = |value: ValueId| graph.constants.contains_key(&value);
    let shape = facts.get(&data)?.shape.clone();
    let axis = counted_axis(int(node, "axis", 0), shape.len())?;
    // Rows of a table are an operator of their own.
    if constant(chosen) || constant(data) && axis == 0 {
        return None;
    }
    let picked = facts.get(&chosen)?.shape.clone();
    let count: usize = picked.iter().product();
    if count == 0 || shape[axis] == 0 || shape[axis] > PLACES_MAX {
        return None;
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.remove(axis);
    order.insert(0, axis);
    let rest: Vec<usize> = order[1..].iter().map(|&other| shape[other]).collect();
    let dtype = facts.get(&data)?.dtype;
    let mut writer = Writer::new(graph, &node.name);
    let data = if dtype.is_float() {
        data
    } else {
        writer.cast(data, DType::F32)
    };
    let apart = writer.transposed(data, &order);
    let rows = writer.shaped(apart, &[shape[axis], rest.iter().product()]);
    let flags = flags(&mut writer, chosen, count, shape[axis]);
    let float = if dtype.is_float() { dtype } else { DType::F32 };
    let flags = writer.cast(flags, float);
    let product = writer.node("MatMul", &[flags, rows], &[]);
    let whole = [picked.as_slice(), &rest].concat();
    let whole = writer.shaped(product, &whole);
    // The chosen axes go where the one was.
    let back: Vec<usize> = (0..axis)
        .map(|before| picked.len() + before)
        .chain(0..picked.len())
        .chain(picked.len() + axis..picked.len() + rest.len())
        .collect();
    let mut y = writer.transposed(whole, &back);
    if !dtype.is_float() {
        y = writer.cast(y, dtype);
    }
    Some(writer.finish(y, value))
}

/// Elements along an axis: of each row its own, so the places count on from row to row; rows that are all alike are one.
fn elements(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (data, chosen, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    if graph.constants.contains_key(&chosen) {
        return None;
    }
    let (shape, picked) = (
        facts.get(&data)?.shape.clone(),
        facts.get(&chosen)?.shape.clone(),
    );
    let axis = counted_axis(int(node, "axis", 0), shape.len())?;
    let others = |axes: &[usize]| -> Vec<usize> {
        let axes = axes.iter().enumerate().filter(|(at, _)| *at != axis);
        axes.map(|(_, size)| *size).collect()
    };
    if picked.len() != shape.len() || others(&picked) != others(&shape) {
        return None;
    }
    let (rows, size) = (others(&shape).iter().product::<usize>(), shape[axis]);
    let count: usize = picked.iter().product();
    let mut order: Vec<usize> = (0..shape.len()).filter(|other| *other != axis).collect();
    order.push(axis);
    let alike = graph
        .constants
        .get(&data)
        .filter(|_| axis + 1 == shape.len());
    let alike = alike.is_some_and(|tensor| {
        let first: Vec<usize> = (0..size).collect();
        let first = tensor.data().gather(&first);
        (1..rows).all(|row| {
            let own: Vec<usize> = (row * size..(row + 1) * size).collect();
            tensor.data().gather(&own) == first
        })
    });
    let places = if alike { size } else { rows * size };
    if count == 0 || places == 0 || places > PLACES_MAX {
        return None;
    }
    let mut back = vec![0; order.len()];
    for (at, &from) in order.iter().enumerate() {
        back[from] = at;
    }
    let moved: Vec<usize> = order.iter().map(|&from| picked[from]).collect();
    let mut writer = Writer::new(graph, &node.name);
    let apart = writer.transposed(data, &order);
    let mut row = writer.shaped(apart, &[rows * size]);
    let own = writer.transposed(chosen, &order);
    let mut chosen = writer.shaped(own, &[rows, count / rows]);
    if alike && rows > 1 {
        let first: Vec<i64> = (0..size as i64).collect();
        row = writer.gathered(row, &first, 0);
    } else if rows > 1 {
        // Places may count from the end of their own row.
        let numbers = writer.cast(chosen, DType::I64);
        let numbers = from_start(&mut writer, numbers, size);
        let starts: Vec<i64> = (0..rows).map(|row| (row * size) as i64).collect();
        let starts = writer.ints(&starts);
        let starts = writer.shaped(starts, &[rows, 1]);
        chosen = writer.node("Add", &[numbers, starts], &[]);
    }
    let found = writer.node("Gather", &[row, chosen], &[("axis", Attribute::Int(0))]);
    let whole = writer.shaped(found, &moved);
    let y = writer.transposed(whole, &back);
    Some(writer.finish(y, value))
}

/// One of two values by the flags.
fn flagged(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (chosen, depth, values) = (input(node, 0)?, input(node, 1)?, input(node, 2)?);
    let value = output(node)?;
    if graph.constants.contains_key(&chosen) {
        return None;
    }
    let places = *convert::to_f64(graph.constants.get(&depth)?.data())?.first()? as usize;
    let picked = facts.get(&chosen)?.shape.clone();
    let count: usize = picked.iter().product();
    let axis = counted_axis(int(node, "axis", -1), picked.len() + 1)?;
    if count == 0 || places == 0 || places > PLACES_MAX {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let flags = flags(&mut writer, chosen, count, places);
    let [off, on] = [0, 1].map(|at| {
        let own = writer.gathered(values, &[at], 0);
        writer.shaped(own, &[])
    });
    let y = writer.node("Where", &[flags, on, off], &[]);
    let whole = [picked.as_slice(), &[places]].concat();
    let whole = writer.shaped(y, &whole);
    let mut order: Vec<usize> = (0..picked.len()).collect();
    order.insert(axis, picked.len());
    let y = writer.transposed(whole, &order);
    Some(writer.finish(y, value))
}

/// The least elements are the greatest ones of the negatives.
fn least(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (x, k) = (input(node, 0)?, input(node, 1)?);
    let mut writer = Writer::new(graph, &node.name);
    let negative = writer.node("Neg", &[x], &[]);
    let mut greatest = node.clone();
    greatest.inputs = vec![Some(negative), Some(k)];
    greatest
        .attributes
        .insert("largest".to_owned(), Attribute::Int(1));
    let first = output(node);
    let found = first.map(|_| writer.graph.fresh(format!("{}.negative", node.name)));
    greatest.outputs[0] = found;
    writer.written.push(greatest);
    Some(match (found, first) {
        (Some(found), Some(value)) => {
            let y = writer.node("Neg", &[found], &[]);
            writer.finish(y, value)
        }
        _ => writer.written,
    })
}
