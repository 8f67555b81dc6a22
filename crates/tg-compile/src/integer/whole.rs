//! Which values are whole numbers whatever the input is: a unit of 1 keeps them exact, so that comparing them for equality
//! means what it means in floats.

use crate::passes::Prepared;
use std::collections::BTreeSet;
use tg_float::{Node, ValueId, convert};

/// Operators that give whole numbers of whole numbers.
const KEEPS: [&str; 33] = [
    "Abs",
    "Add",
    "Clip",
    "Concat",
    "CumSum",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gemm",
    "Identity",
    "MatMul",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Pad",
    "ReduceMax",
    "ReduceMin",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Sign",
    "Slice",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
];

/// The values of a graph that are of an integer type, of whole constants, rounded, or made of such ones.
pub(super) fn values(prepared: &Prepared) -> BTreeSet<ValueId> {
    let graph = &prepared.graph;
    let constants = graph.constants.iter().filter(|(_, tensor)| {
        let values = convert::to_f64(tensor.data());
        values.is_some_and(|values| values.iter().all(|value| value.fract() == 0.0))
    });
    let mut whole: BTreeSet<ValueId> = constants.map(|(value, _)| *value).collect();
    let typed = |value: &ValueId| {
        let fact = prepared.facts.get(value);
        fact.is_some_and(|fact| fact.dtype.is_integer() || fact.dtype == tg_float::DType::Bool)
    };
    whole.extend(graph.inputs.iter().map(|input| input.value).filter(typed));
    for node in &graph.nodes {
        let kept = rounds(node) || keeps(node) && node.reads().all(|value| whole.contains(&value));
        let gives: Vec<ValueId> = node.gives().filter(|value| kept || typed(value)).collect();
        whole.extend(gives);
    }
    whole
}

fn keeps(node: &Node) -> bool {
    let plain = |name: &str| match node.attributes.get(name) {
        Some(tg_float::Attribute::Float(value)) => value.fract() == 0.0,
        _ => true,
    };
    node.domain.is_empty()
        && (KEEPS.binary_search(&node.op.as_str()).is_ok()
            && ["alpha", "beta", "min", "max"].into_iter().all(plain)
            || node.is("Cast"))
}

/// Whether a node gives whole numbers of any reals.
fn rounds(node: &Node) -> bool {
    ["Floor", "Ceil", "Round", "Sign"]
        .iter()
        .any(|name| node.is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order() {
        assert!(KEEPS.is_sorted());
    }
}
