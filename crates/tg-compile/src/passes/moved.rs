//! Operators that only move elements, whatever their attributes, as one gather of elements in a row: where each element
//! comes from is found by executing the operator on elements that tell who they are.
//!
//! An operator moves elements if each element of its result is one element of an input, or a constant, on every input. That
//! is asked of it on six inputs: places counted from 1 and numbers without pattern, twice, all of them also negated; a sum of
//! several elements, or a greatest one, is found out by them. Operators that lowering moves by strides stay as they are.

use super::Fact;
use super::edit::{Writer, gives_first_alone, ints, output, rewrite_each};
use std::collections::BTreeMap;
use tg_float::tgf::{self, Budget};
use tg_float::{Attribute, FloatTensor, Graph, Node, ValueId, convert};

/// Most elements of what is read and given: whole numbers of a float.
const ELEMENTS_MAX: usize = 1 << 22;

/// Rewrites every operator that moves elements and is none that lowering knows; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| {
        may_move(graph, node, facts)
            .then(|| gathered(graph, node, facts))
            .flatten()
    })
}

/// Whether an operator may be one that moves elements, and lowering does not move them by strides.
fn may_move(graph: &Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> bool {
    // What says where elements go must be constant: no execution shows what else it might say.
    let moved: &[usize] = match node.op.as_str() {
        "Scatter" | "ScatterElements" | "ScatterND" | "Pad" => &[0, 2],
        "TensorScatter" => &[0, 1],
        "OneHot" => &[2],
        "Where" => &[1, 2],
        _ => &[0],
    };
    let computed = |value: ValueId| !graph.constants.contains_key(&value);
    let steers = |(slot, value): (usize, &Option<ValueId>)| {
        !moved.contains(&slot) && value.is_some_and(computed)
    };
    if node.inputs.iter().enumerate().any(steers) || !gives_first_alone(graph, node) {
        return false;
    }
    if node.domain == "ai.onnx.ml" {
        return node.op == "ArrayFeatureExtractor";
    }
    if !node.domain.is_empty() {
        return false;
    }
    match node.op.as_str() {
        "ReverseSequence" | "Compress" | "CenterCropPad" | "GatherND" | "GatherElements"
        | "Scatter" | "ScatterElements" | "ScatterND" | "Trilu" | "MaxUnpool" | "TensorScatter"
        | "OneHot" | "EyeLike" | "Col2Im" | "GridSample" => true,
        "Resize" | "Upsample" => !is_repeated(node, facts),
        "Pad" => !plain_border(graph, node, facts),
        "Where" => chosen_by_constant(graph, node),
        _ => false,
    }
}

fn is_repeated(node: &Node, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let shape = |value: Option<ValueId>| facts.get(&value?).map(|fact| fact.shape.as_slice());
    let input = node.inputs.first().copied().flatten();
    match (shape(input), shape(output(node))) {
        (Some(from), Some(to)) => repeats(node, from, to),
        _ => true,
    }
}

/// Whether a resizing repeats each element equally often along every axis, which is a stride of 0: nearest neighbours by whole
/// factors. Where an element of the result lies between two, the modes differ in which they take.
pub(crate) fn repeats(node: &Node, from: &[usize], to: &[usize]) -> bool {
    let text = |name: &str, default: &[u8]| match node.attributes.get(name) {
        Some(Attribute::Text(text)) => text.clone(),
        _ => default.to_vec(),
    };
    let whole = from.len() == to.len()
        && from
            .iter()
            .zip(to)
            .all(|(&from, &to)| from > 0 && to % from == 0);
    let coordinates = text("coordinate_transformation_mode", b"half_pixel");
    let rounding = text("nearest_mode", b"round_prefer_floor");
    let plain = match (coordinates.as_slice(), rounding.as_slice()) {
        (b"asymmetric", b"floor")
        | (b"half_pixel", b"round_prefer_floor" | b"round_prefer_ceil") => true,
        // A factor of two lies between at halves only.
        (b"asymmetric", b"round_prefer_floor") => {
            from.iter().zip(to).all(|(from, to)| to / from <= 2)
        }
        _ => node.op == "Upsample" || node.version < 11,
    };
    whole && plain && text("mode", b"nearest") == b"nearest"
}

/// A border of constants around an image or along one axis, of widths that are not negative.
fn plain_border(graph: &Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let constant = match node.attributes.get("mode") {
        Some(Attribute::Text(text)) => text == b"constant",
        _ => true,
    };
    let computed = node.inputs.get(2).copied().flatten();
    if computed.is_some_and(|fill| !graph.constants.contains_key(&fill)) {
        return false;
    }
    let wide = ints(graph, node, "pads", 1).is_some_and(|pads| pads.iter().all(|&pad| pad >= 0));
    let axes = node.inputs.get(3).copied().flatten().is_some();
    let float = output(node).and_then(|value| facts.get(&value));
    constant && wide && !axes && float.is_some_and(|fact| fact.dtype.is_float())
}

/// A choice by a constant between values; masks of a softmax are for lowering.
fn chosen_by_constant(graph: &Graph, node: &Node) -> bool {
    let constant = |slot: usize| {
        let value = node.inputs.get(slot).copied().flatten()?;
        graph.constants.get(&value)
    };
    let masks = |slot: usize| {
        let values = constant(slot).and_then(|tensor| convert::to_f32(tensor.data()));
        values.is_some_and(|values| values.iter().any(|&value| value < -100.0))
    };
    constant(0).is_some() && !masks(1) && !masks(2)
}

/// Where an element of a result comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Origin {
    /// The element of all inputs one after the other.
    Element(usize),
    Constant(f64),
}

/// The inputs that are computed, once each, and how many elements each has.
fn computed(
    graph: &Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<(ValueId, Fact)>> {
    let mut found: Vec<(ValueId, Fact)> = Vec::new();
    for value in node.reads() {
        let known = found.iter().any(|(other, _)| *other == value);
        if !known && !graph.constants.contains_key(&value) {
            found.push((value, facts.get(&value)?.clone()));
        }
    }
    Some(found)
}

fn gathered(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let inputs = computed(graph, node, facts)?;
    let value = output(node)?;
    let result = facts.get(&value)?.clone();
    let origins = origins(graph, node, &inputs, &result)?;
    let elements: usize = inputs.iter().map(|(_, fact)| elements(fact)).sum();
    let mut constants: Vec<f64> = Vec::new();
    let mut places = Vec::with_capacity(origins.len());
    for origin in origins {
        places.push(match origin {
            Origin::Element(at) => at as i64,
            Origin::Constant(wanted) => {
                let known = constants.iter().position(|&own| own == wanted);
                let at = known.unwrap_or_else(|| {
                    constants.push(wanted);
                    constants.len() - 1
                });
                (elements + at) as i64
            }
        });
    }
    let mut writer = Writer::new(graph, &node.name);
    let mut parts = Vec::new();
    for (value, _) in &inputs {
        let all = writer.ints(&[-1]);
        parts.push(writer.node("Reshape", &[*value, all], &[]));
    }
    if !constants.is_empty() {
        let data = convert::from_f64(&constants, result.dtype, convert::CastMode::default())?;
        let tensor = FloatTensor::new(vec![constants.len()], data).ok()?;
        parts.push(
            writer
                .graph
                .constant(format!("{}.border", node.name), tensor),
        );
    }
    let row = match parts.as_slice() {
        [only] => *only,
        _ => writer.node("Concat", &parts, &[("axis", Attribute::Int(0))]),
    };
    let places = writer.ints(&places);
    let picked = writer.node("Gather", &[row, places], &[("axis", Attribute::Int(0))]);
    let shape: Vec<i64> = result.shape.iter().map(|&size| size as i64).collect();
    let shape = writer.ints(&shape);
    let y = writer.node("Reshape", &[picked, shape], &[]);
    Some(writer.finish(y, value))
}

fn elements(fact: &Fact) -> usize {
    fact.shape.iter().product()
}

/// Where every element of the result comes from; nothing if one is none of the inputs' and no constant.
fn origins(
    graph: &Graph,
    node: &Node,
    inputs: &[(ValueId, Fact)],
    result: &Fact,
) -> Option<Vec<Origin>> {
    let count: usize = inputs.iter().map(|(_, fact)| elements(fact)).sum();
    let alike = inputs.iter().all(|(_, fact)| fact.dtype == result.dtype);
    if inputs.is_empty() || !alike || count.max(elements(result)) > ELEMENTS_MAX {
        return None;
    }
    let run = |number: &dyn Fn(usize) -> f64| executed(graph, node, inputs, number);
    let counted = run(&|at| (at + 1) as f64)?;
    let negated = run(&|at| -((at + 1) as f64))?;
    let mut origins = Vec::with_capacity(counted.len());
    for (&up, &down) in counted.iter().zip(&negated) {
        origins.push(if up == down && up.is_finite() {
            Origin::Constant(up)
        } else {
            let at = up as usize;
            let one = up == -down && up.fract() == 0.0 && (1..=count).contains(&at);
            one.then(|| Origin::Element(at - 1))?
        });
    }
    // Of either sign each: the least of an element and a constant is the element for half of all numbers.
    for (seed, sign) in [(1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0)] {
        let number = |at: usize| sign * pattern(at, seed);
        let got = run(&number)?;
        let expected = origins.iter().map(|origin| match *origin {
            Origin::Element(at) => number(at),
            Origin::Constant(value) => value,
        });
        if !got.iter().copied().eq(expected) {
            return None;
        }
    }
    Some(origins)
}

/// A whole number below 2^22 without pattern, of either sign.
fn pattern(at: usize, seed: u64) -> f64 {
    let mixed = (at as u64 + seed * 0x1000_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let magnitude = (mixed >> 42) as f64;
    if mixed & 1 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// What a node gives for inputs whose elements, one input after the other, are numbers of their places.
pub(super) fn executed(
    graph: &Graph,
    node: &Node,
    inputs: &[(ValueId, Fact)],
    number: &dyn Fn(usize) -> f64,
) -> Option<Vec<f64>> {
    let mut start = 0;
    let mut given: BTreeMap<ValueId, FloatTensor> = BTreeMap::new();
    for (value, fact) in inputs {
        let count = elements(fact);
        let values: Vec<f64> = (start..start + count).map(number).collect();
        let data = convert::from_f64(&values, fact.dtype, convert::CastMode::default())?;
        given.insert(*value, FloatTensor::new(fact.shape.clone(), data).ok()?);
        start += count;
    }
    let read = |value: &Option<ValueId>| {
        let value = (*value)?;
        given.get(&value).or_else(|| graph.constants.get(&value))
    };
    let read: Vec<Option<&FloatTensor>> = node.inputs.iter().map(read).collect();
    let results = tgf::evaluate(node, &read, &Budget::default()).ok()?;
    convert::to_f64(results.first()?.data())
}
