//! Inputs and shapes: what a caller gives, the outputs, every value's shape, and folding of constants.

use super::{Fact, KeptOutputs, PrepareError, PrepareOptions, zeros};
use std::collections::{BTreeMap, BTreeSet};
use tg_float::graph::Dim;
use tg_float::tgf::{self, Budget, RunError};
use tg_float::{FloatTensor, Graph, Node, ValueId, convert};
use tg_ir::signature::PORTS_MAX;

/// Inputs that the options give a value become constants, once their shapes are fixed.
pub(super) fn bind(graph: &mut Graph, options: &PrepareOptions) {
    let inputs = std::mem::take(&mut graph.inputs);
    for input in inputs {
        let bound = options.bind.get(&input.name).and_then(|&value| {
            let shape: Option<Vec<usize>> = input.shape.as_ref().map(|axes| {
                let size = |(index, dim): (usize, &Dim)| size_of(options, &input.name, index, dim);
                axes.iter()
                    .enumerate()
                    .map(|each| size(each).unwrap_or(1))
                    .collect()
            });
            let shape = shape?;
            let count = tg_float::tensor::elements(&shape)?;
            let mode = convert::CastMode::default();
            let data = convert::from_f64(&vec![value; count], input.dtype?, mode)?;
            FloatTensor::new(shape, data).ok()
        });
        match bound {
            Some(tensor) => {
                graph.constants.insert(input.value, tensor);
            }
            None => graph.inputs.push(input),
        }
    }
}

/// The size of an axis: declared, given by its name, or the batch of one.
fn size_of(
    options: &PrepareOptions,
    input: &str,
    index: usize,
    dim: &Dim,
) -> Result<usize, String> {
    let by_place = format!("{input}.{index}");
    let name = match dim {
        Dim::Known(size) if *size > 0 => return Ok(*size),
        Dim::Named(name) => name.clone(),
        Dim::Known(_) | Dim::Unknown => by_place.clone(),
    };
    let given = options
        .axes
        .get(&name)
        .or_else(|| options.axes.get(&by_place));
    match given {
        Some(&size) if size > 0 => Ok(size),
        _ if index == 0 => Ok(1),
        _ => Err(name),
    }
}

/// Keeps the outputs that are asked for.
pub(super) fn keep_outputs(graph: &mut Graph, keep: &KeptOutputs) -> Result<(), PrepareError> {
    match keep {
        KeptOutputs::All => {}
        KeptOutputs::Scores => {
            let output = graph.outputs.get(scores(graph)).copied();
            graph.outputs = output.into_iter().collect();
        }
        KeptOutputs::Named(names) => {
            let values = names.iter().map(|name| value_of(graph, name));
            graph.outputs = values.collect::<Result<_, _>>()?;
        }
    }
    match graph.outputs.len() {
        0 => return Err(PrepareError::Output(String::new())),
        1..=PORTS_MAX => {}
        more => return Err(PrepareError::Outputs(more)),
    }
    graph.remove_dead();
    Ok(())
}

/// The place of the first output that is no label: a classifier gives labels first and scores second.
#[must_use]
pub fn scores(graph: &Graph) -> usize {
    let producers = graph.producers();
    let scores = |value: &ValueId| !is_label(graph, &producers, *value);
    graph.outputs.iter().position(scores).unwrap_or(0)
}

/// An output, or a value on the way to one.
fn value_of(graph: &Graph, name: &str) -> Result<ValueId, PrepareError> {
    let inside = graph.nodes.iter().flat_map(Node::gives);
    let mut values = graph.outputs.iter().copied().chain(inside);
    let value = values.find(|&value| graph.name_of(value) == name);
    value.ok_or_else(|| PrepareError::Output(name.to_owned()))
}

/// Whether a value is the name or number of a class: the place of an extreme, or a classifier's first output, moved, converted
/// or looked up in a list.
fn is_label(graph: &Graph, producers: &[Option<usize>], mut value: ValueId) -> bool {
    let mut visited = BTreeSet::new();
    while visited.insert(value) {
        let Some(index) = producers.get(value.index()).copied().flatten() else {
            return false;
        };
        let node = &graph.nodes[index];
        let slot = match node.op.as_str() {
            "ArgMax" | "ArgMin" => return true,
            classifier if classifier.ends_with("Classifier") => {
                return node.domain == "ai.onnx.ml" && node.outputs.first() == Some(&Some(value));
            }
            "Cast" | "Reshape" | "Identity" | "Squeeze" | "Unsqueeze" | "Flatten"
            | "LabelEncoder" => 0,
            "ArrayFeatureExtractor" | "Gather" => 1,
            _ => return false,
        };
        match node.inputs.get(slot).copied().flatten() {
            Some(next) => value = next,
            None => return false,
        }
    }
    false
}

/// Gives every axis of every input its size.
pub(super) fn fix(graph: &mut Graph, options: &PrepareOptions) -> Result<(), PrepareError> {
    let read: BTreeSet<ValueId> = graph.nodes.iter().flat_map(Node::reads).collect();
    let outputs = graph.outputs.clone();
    graph
        .inputs
        .retain(|input| read.contains(&input.value) || outputs.contains(&input.value));
    for input in &mut graph.inputs {
        let Some(axes) = input.shape.as_mut().filter(|_| input.dtype.is_some()) else {
            return Err(PrepareError::Undeclared(input.name.clone()));
        };
        for (index, dim) in axes.iter_mut().enumerate() {
            let size =
                size_of(options, &input.name, index, dim).map_err(|name| PrepareError::Axis {
                    input: input.name.clone(),
                    axis: index,
                    name,
                })?;
            *dim = Dim::Known(size);
        }
    }
    Ok(())
}

/// The fixed type and shape of an input.
pub(crate) fn input_fact(input: &tg_float::Input) -> Option<Fact> {
    let axes = input.shape.as_ref()?.iter();
    let sizes = axes.map(|dim| match dim {
        Dim::Known(size) => Some(*size),
        Dim::Named(_) | Dim::Unknown => None,
    });
    Some(Fact {
        dtype: input.dtype?,
        shape: sizes.collect::<Option<_>>()?,
    })
}

/// Whether a pass may compute a node once and for all. Dequantised weights stay as the file has them: they are
/// integers already.
fn foldable(node: &Node) -> bool {
    const RANDOM: [&str; 6] = [
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    ];
    !RANDOM.contains(&node.op.as_str()) && !node.is("DequantizeLinear")
}

/// Replaces nodes whose inputs are constants by what they give.
pub(super) fn fold_constants(graph: &mut Graph) -> Result<(), PrepareError> {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        let constant = node
            .reads()
            .all(|value| graph.constants.contains_key(&value));
        if !constant || !foldable(&node) {
            graph.nodes.push(node);
            continue;
        }
        let inputs: Vec<Option<&FloatTensor>> = node
            .inputs
            .iter()
            .map(|input| input.and_then(|value| graph.constants.get(&value)))
            .collect();
        let results =
            tgf::evaluate(&node, &inputs, &Budget::default()).map_err(|source| RunError::Node {
                node: node.name.clone(),
                op: node.op.clone(),
                inputs: String::new(),
                source,
            })?;
        for (output, result) in node.outputs.iter().zip(results) {
            if let Some(output) = output {
                graph.constants.insert(*output, result);
            }
        }
    }
    Ok(())
}

/// Runs the graph on zeros: every value's type and shape. What follows from shapes alone becomes constant.
pub(super) fn infer(graph: &mut Graph) -> Result<BTreeMap<ValueId, Fact>, PrepareError> {
    let facts: Option<Vec<Fact>> = graph.inputs.iter().map(input_fact).collect();
    let inputs: Option<Vec<FloatTensor>> =
        facts.as_ref().and_then(|f| f.iter().map(zeros).collect());
    let (Some(facts), Some(inputs)) = (facts, inputs) else {
        let name = graph.inputs.first().map_or("", |input| input.name.as_str());
        return Err(PrepareError::Undeclared(name.to_owned()));
    };
    let given: Vec<&FloatTensor> = inputs.iter().collect();
    let mut values = tgf::run_all(graph, &given, &Budget::default())?;
    let fact = |tensor: &FloatTensor| Fact {
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
    };
    let mut known: BTreeMap<ValueId, Fact> = values
        .iter()
        .map(|(&id, tensor)| (id, fact(tensor)))
        .collect();
    known.extend(
        graph
            .constants
            .iter()
            .map(|(&id, tensor)| (id, fact(tensor))),
    );
    known.extend(
        graph
            .inputs
            .iter()
            .zip(facts)
            .map(|(input, fact)| (input.value, fact)),
    );
    let mut fixed: BTreeSet<ValueId> = graph.constants.keys().copied().collect();
    for node in &graph.nodes {
        let of_shapes = node.is("Shape") || node.is("Size");
        if foldable(node) && (of_shapes || node.reads().all(|value| fixed.contains(&value))) {
            for value in node.gives() {
                fixed.insert(value);
                if let Some(tensor) = values.remove(&value) {
                    graph.constants.insert(value, tensor);
                }
            }
        }
    }
    let constants = &graph.constants;
    graph
        .nodes
        .retain(|node| !node.gives().all(|value| constants.contains_key(&value)));
    graph.remove_dead();
    Ok(known)
}
