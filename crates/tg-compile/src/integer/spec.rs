//! What a program says of its input: type, unit, and how numbers are brought into it.

use super::form;
use super::lowering::{LowerOptions, Precision};
use crate::calibrate::Statistics;
use crate::passes::{Fact, Prepared};
use std::collections::BTreeMap;
use tg_float::ValueId;
use tg_ir::{Coding, ElementType, InputSpec, Shape};

/// Of several inputs one reaches so many times as far as another, or all have one unit.
const INPUT_RATIO_LEAST: f32 = 16.0;
/// Room that features with units of their own have over what was seen of the furthest.
const FEATURE_HEADROOM: f32 = 2.0;

/// Type, unit and normalisation of the program's input, from what the graph's inputs took on real rows.
pub(super) fn input_spec(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    shape: Shape,
) -> InputSpec {
    let inputs = &prepared.graph.inputs;
    let whole = |input: &tg_float::Input| prepared.facts[&input.value].dtype.is_integer();
    let natural = |input: &tg_float::Input| {
        statistics
            .get(&input.value)
            .is_none_or(|found| found.least >= 0.0)
    };
    let tokens = !inputs.is_empty()
        && inputs.iter().all(whole)
        && (inputs.iter().all(natural) || embedded(prepared));
    if let Some(thresholds) = super::trees::ranks(prepared) {
        return InputSpec {
            shape,
            coding: Coding::Ranks(thresholds),
            scale: 1.0,
            mean: Vec::new(),
            std: Vec::new(),
        };
    }
    let (coding, scale) = match inputs.as_slice() {
        [only] if let Some(units) = units_of_features(prepared, statistics, only) => {
            (Coding::PerChannel(units), 1.0)
        }
        _ if tokens => (Coding::Tokens(vocabulary(prepared, statistics)), 1.0),
        [only] if !whole(only) => {
            let (kind, scale) = coding_of_one(prepared, statistics, options, only);
            (Coding::Scaled(kind), scale)
        }
        all if let Some(units) = units_of_inputs(prepared, statistics, all, shape) => {
            (Coding::PerChannel(units), 1.0)
        }
        all => {
            let (kind, scale) = coding_of_all(prepared, statistics, options, all);
            (Coding::Scaled(kind), scale)
        }
    };
    let (mean, std) = if tokens {
        (Vec::new(), Vec::new())
    } else {
        (options.mean.clone(), options.std.clone())
    };
    InputSpec {
        shape,
        coding,
        scale,
        mean,
        std,
    }
}

/// Whether an input chooses rows of a constant table.
fn embedded(prepared: &Prepared) -> bool {
    let graph = &prepared.graph;
    graph.nodes.iter().any(|node| {
        let reads = |slot: usize| node.inputs.get(slot).copied().flatten();
        let constant = |value: ValueId| graph.constants.contains_key(&value);
        let given = |value: ValueId| graph.inputs.iter().any(|input| input.value == value);
        node.is("Gather") && reads(0).is_some_and(constant) && reads(1).is_some_and(given)
    })
}

/// More than any token: the rows of the longest table, and what was seen.
fn vocabulary(prepared: &Prepared, statistics: &BTreeMap<ValueId, Statistics>) -> u32 {
    let graph = &prepared.graph;
    let inputs = graph.inputs.iter();
    let greatest = inputs
        .filter_map(|input| statistics.get(&input.value))
        .fold(0f32, |best, found| best.max(found.greatest));
    let tables = graph.nodes.iter().filter(|node| node.is("Gather"));
    let rows = tables.filter_map(|node| {
        let table = node.inputs.first().copied().flatten()?;
        graph.constants.get(&table)?.shape().first().copied()
    });
    let rows = rows.max().unwrap_or(1).max(greatest as usize + 1);
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// Type and unit of one input of reals.
fn coding_of_one(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    input: &tg_float::Input,
) -> (ElementType, f32) {
    let graph = &prepared.graph;
    if prepared.facts[&input.value].dtype == tg_float::DType::Bool {
        return (ElementType::I8, 1.0);
    }
    let readers = &graph.readers()[input.value.index()];
    let file = match readers.as_slice() {
        [only] if graph.nodes[*only].is("QuantizeLinear") => {
            let scale = graph.nodes[*only].inputs.get(1).copied().flatten();
            crate::passes::scalar_of(graph, scale)
        }
        _ => None,
    };
    let reach = statistics
        .get(&input.value)
        .map_or(0.0, |found| match options.precision {
            Precision::Bits8 => found.reach(options.reach),
            _ => found.greatest_magnitude(),
        });
    match (file, options.precision) {
        (Some(scale), _) => (ElementType::I16, scale as f32),
        (None, Precision::Bits16) => (ElementType::I16, unit(prepared, reach, 32_000.0)),
        (None, _) => (ElementType::I8, unit(prepared, reach, 127.0)),
    }
}

/// The unit of each feature where they have units of their own.
fn units_of_features(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    only: &tg_float::Input,
) -> Option<Vec<f32>> {
    let (_, divided, powers) = crate::passes::divided(&prepared.graph)?;
    if prepared.facts[&only.value].dtype != tg_float::DType::F32 {
        return None;
    }
    let reach = statistics
        .get(&divided)
        .map_or(0.0, Statistics::greatest_magnitude);
    let unit = unit(prepared, reach * FEATURE_HEADROOM, 32_000.0);
    Some(powers.iter().map(|power| power * unit).collect())
}

/// The unit of each element of several inputs that lie one after the other and reach differently far, such as a number of a
/// customer beside a share: each input has its own.
fn units_of_inputs(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    inputs: &[tg_float::Input],
    shape: Shape,
) -> Option<Vec<f32>> {
    let facts = || inputs.iter().map(|input| &prepared.facts[&input.value]);
    let elements = |fact: &Fact| fact.shape.iter().product::<usize>();
    let in_a_row = shape == Shape::vector(shape.channels)
        && facts().map(elements).sum::<usize>() == shape.channels as usize;
    let reach = |input: &tg_float::Input| {
        let found = statistics.get(&input.value);
        found.map_or(0.0, Statistics::greatest_magnitude)
    };
    let reached: Vec<f32> = inputs.iter().map(reach).collect();
    let greatest = reached.iter().copied().fold(0f32, f32::max);
    let seen = reached.iter().copied().filter(|&reach| reach > 0.0);
    let least = seen.fold(greatest, f32::min);
    if inputs.len() < 2 || !in_a_row || greatest < least * INPUT_RATIO_LEAST {
        return None;
    }
    let units = facts().zip(&reached).flat_map(|(fact, &reach)| {
        // Powers of two, so that whole numbers and halves are exact in each.
        let own = if fact.dtype.is_float() {
            form::unit(reach, 32_000.0).log2().ceil().exp2()
        } else {
            whole_unit(reach)
        };
        std::iter::repeat_n(own, elements(fact))
    });
    Some(units.collect())
}

/// The unit of whole numbers that reach so far: a power of two of which they are multiples.
fn whole_unit(reach: f32) -> f32 {
    form::unit(reach, 32_000.0).log2().ceil().min(0.0).exp2()
}

/// Type and unit of several inputs, or of integers that are no tokens: 8 bits where all are reals that reach about equally
/// far, else 16; a power of two where one of them is a whole number.
fn coding_of_all(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    inputs: &[tg_float::Input],
) -> (ElementType, f32) {
    let reach = |input: &tg_float::Input| {
        let found = statistics.get(&input.value);
        found.map_or(0.0, Statistics::greatest_magnitude)
    };
    let greatest = inputs.iter().map(reach).fold(0f32, f32::max);
    let least = inputs.iter().map(reach).fold(greatest, f32::min);
    let reals = inputs
        .iter()
        .all(|input| prepared.facts[&input.value].dtype.is_float());
    if !reals {
        return (ElementType::I16, whole_unit(greatest));
    }
    if options.precision == Precision::Bits8 && least * 2.0 >= greatest {
        return (ElementType::I8, unit(prepared, greatest, 127.0));
    }
    (ElementType::I16, unit(prepared, greatest, 32_000.0))
}

/// The unit of inputs that reach so far in so many units: a power of two in a graph that rounds reals, so that whole numbers and
/// halves, at which it jumps, are exact; that costs at most one bit.
fn unit(prepared: &Prepared, reach: f32, units: f32) -> f32 {
    let unit = form::unit(reach, units);
    let rounds = prepared.graph.nodes.iter().any(|node| {
        ["Floor", "Ceil", "Round", "Mod"]
            .iter()
            .any(|name| node.is(name))
            || (node.is("Cast") && becomes_whole(prepared, node))
    });
    if rounds {
        unit.log2().ceil().exp2()
    } else {
        unit
    }
}

/// Whether a node reads reals and gives integers.
fn becomes_whole(prepared: &Prepared, node: &tg_float::Node) -> bool {
    let is_float = |value: &ValueId| {
        let fact = prepared.facts.get(value);
        fact.is_some_and(|fact| fact.dtype.is_float())
    };
    let reads = node.inputs.iter().flatten().any(is_float);
    reads && !node.outputs.iter().flatten().all(is_float)
}
