//! Functions of one tree's answer as a tree with other leaves.
//!
//! What depends on the input through the answer of one tree alone takes one value for each leaf, whatever operators it is written
//! with: the value is computed here and put into the leaf. A choice of features before trees goes into their conditions.

use super::Fact;
use super::edit::{float_list, input, int, int_list, output};
use std::collections::{BTreeMap, BTreeSet};
use tg_float::tgf::{self, Budget};
use tg_float::{Attribute, DType, FloatTensor, Graph, Input, Node, ValueId, convert};

/// Most leaves of a tree whose functions are computed.
const LEAVES_MAX: usize = 4_096;
/// Most elements of a function's value.
const ELEMENTS_MAX: usize = 16;
/// What moves or compares values and loses nothing: for these alone no other tree is written.
const EXACT: [&str; 12] = [
    "ArgMax",
    "Cast",
    "Concat",
    "Flatten",
    "Gather",
    "Identity",
    "Neg",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Rewrites what it finds; whether there was anything.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    for index in 0..graph.nodes.len() {
        changed |= chosen_features(graph, index).is_some();
    }
    let mut index = 0;
    while index < graph.nodes.len() {
        if let Some(written) = functions(graph, index, facts) {
            let count = written.len();
            graph.nodes.splice(index + 1..=index, written);
            index += count;
            changed = true;
        }
        index += 1;
    }
    if changed {
        graph.remove_dead();
    }
    changed
}

fn is_trees(node: &Node) -> bool {
    node.domain == "ai.onnx.ml" && node.op == "TreeEnsembleRegressor"
}

/// Lets trees read the features themselves instead of those that a gather picks.
fn chosen_features(graph: &mut Graph, index: usize) -> Option<()> {
    let node = graph.nodes.get(index).filter(|node| is_trees(node))?;
    let from = input(node, 0)?;
    let pick = graph.producers().get(from.index()).copied().flatten()?;
    let pick = graph.nodes.get(pick).filter(|node| node.is("Gather"))?;
    let places = convert::to_i64(graph.constants.get(&input(pick, 1)?)?.data())?;
    if ![1, -1].contains(&int(pick, "axis", 0)) {
        return None;
    }
    let x = input(pick, 0)?;
    let own = |feature: &i64| {
        let place = places.get(usize::try_from(*feature).ok()?).copied();
        place.filter(|place| *place >= 0)
    };
    let Some(Attribute::Texts(modes)) = node.attributes.get("nodes_modes") else {
        return None;
    };
    let features = int_list(node, "nodes_featureids");
    if modes.len() != features.len() {
        return None;
    }
    let features = features.iter().zip(modes);
    // A leaf compares nothing.
    let features = features.map(|(feature, mode)| {
        if mode == b"LEAF" {
            Some(0)
        } else {
            own(feature)
        }
    });
    let features: Vec<i64> = features.collect::<Option<_>>()?;
    let node = graph.nodes.get_mut(index)?;
    node.inputs[0] = Some(x);
    let list = Attribute::Ints(features);
    node.attributes.insert("nodes_featureids".to_owned(), list);
    Some(())
}

/// The leaves of one tree, and what the tree answers at each.
struct TreeAnswers {
    leaves: Vec<i64>,
    tree: i64,
    values: Vec<Vec<f32>>,
}

impl TreeAnswers {
    fn read(node: &Node) -> Option<Self> {
        let plain = |name: &str, word: &[u8]| match node.attributes.get(name) {
            Some(Attribute::Text(text)) => text == word,
            _ => true,
        };
        let [trees, leaves, targets] =
            ["target_treeids", "target_nodeids", "target_ids"].map(|name| int_list(node, name));
        let weights = float_list(node, "target_weights");
        let count = usize::try_from(int(node, "n_targets", 1)).ok()?;
        let tree = *trees.first()?;
        let all = int_list(node, "nodes_treeids");
        let alone = trees.iter().chain(&all).all(|&other| other == tree);
        let even = [leaves.len(), targets.len(), weights.len()] == [trees.len(); 3];
        let bias = float_list(node, "base_values");
        let none = bias.iter().all(|&value| value == 0.0);
        if !alone || !even || !none || count > ELEMENTS_MAX {
            return None;
        }
        if !plain("post_transform", b"NONE") || !plain("aggregate_function", b"SUM") {
            return None;
        }
        let mut answers: BTreeMap<i64, Vec<f32>> = BTreeMap::new();
        for ((leaf, target), weight) in leaves.iter().zip(&targets).zip(&weights) {
            let own = answers.entry(*leaf).or_insert_with(|| vec![0.0; count]);
            *own.get_mut(usize::try_from(*target).ok()?)? += weight;
        }
        (answers.len() <= LEAVES_MAX).then(|| Self {
            tree,
            leaves: answers.keys().copied().collect(),
            values: answers.into_values().collect(),
        })
    }
}

/// Trees for what depends on a tree's answer alone and is read by something else.
fn functions(
    graph: &mut Graph,
    index: usize,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let node = graph
        .nodes
        .get(index)
        .filter(|node| is_trees(node))?
        .clone();
    let answer = output(&node)?;
    let shape = facts.get(&answer)?.shape.clone();
    let region = region(graph, answer);
    let exact = |at: &usize| EXACT.iter().any(|name| graph.nodes[*at].is(name));
    if region.iter().all(exact) {
        return None;
    }
    let ends = ends(graph, &region);
    let small = |value: &ValueId| {
        let fact = facts.get(value);
        fact.is_some_and(|fact| (1..=ELEMENTS_MAX).contains(&fact.shape.iter().product()))
    };
    if ends.is_empty() || !ends.iter().all(small) {
        return None;
    }
    let answers = TreeAnswers::read(&node)?;
    let values = computed(graph, (answer, &shape), (&region, &ends), &answers.values)?;
    let mut written = Vec::new();
    for (&end, values) in ends.iter().zip(values) {
        written.extend(tree(
            graph,
            &node,
            &answers,
            (end, &values),
            facts.get(&end)?,
        ));
    }
    // What gave these values before gives others, which nobody reads.
    for at in region {
        for slot in 0..graph.nodes[at].outputs.len() {
            let value = graph.nodes[at].outputs[slot];
            if value.is_some_and(|value| ends.contains(&value)) {
                let before = graph.fresh("replaced");
                graph.nodes[at].outputs[slot] = Some(before);
            }
        }
    }
    Some(written)
}

/// The nodes that read nothing but constants and what follows from a value.
fn region(graph: &Graph, answer: ValueId) -> Vec<usize> {
    let mut known = BTreeSet::from([answer]);
    let mut region = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut reads = node.reads().filter(|v| !graph.constants.contains_key(v));
        let follows = node.reads().any(|value| known.contains(&value))
            && reads.all(|value| known.contains(&value));
        let plain = node.domain.is_empty()
            && !["If", "Loop", "Scan", "Dropout"]
                .iter()
                .any(|name| node.is(name))
            && !node.op.starts_with("Random")
            && !node.is("Bernoulli")
            && !node.is("Multinomial");
        if follows && plain {
            known.extend(node.gives());
            region.push(index);
        }
    }
    region
}

/// Values of a region that are read outside it.
fn ends(graph: &Graph, region: &[usize]) -> Vec<ValueId> {
    let inside: BTreeSet<ValueId> = region
        .iter()
        .flat_map(|&at| graph.nodes[at].gives())
        .collect();
    let others = graph.nodes.iter().enumerate();
    let others = others.filter(|(at, _)| !region.contains(at));
    let read: BTreeSet<ValueId> = others
        .flat_map(|(_, node)| node.reads())
        .chain(graph.outputs.iter().copied())
        .collect();
    inside.intersection(&read).copied().collect()
}

/// The values of a region's ends at each leaf, as floats.
fn computed(
    graph: &Graph,
    (answer, shape): (ValueId, &[usize]),
    (region, ends): (&[usize], &[ValueId]),
    leaves: &[Vec<f32>],
) -> Option<Vec<Vec<Vec<f32>>>> {
    let nodes: Vec<Node> = region.iter().map(|&at| graph.nodes[at].clone()).collect();
    let read: BTreeSet<ValueId> = nodes.iter().flat_map(Node::reads).collect();
    let constants = graph.constants.iter();
    let constants = constants.filter(|(value, _)| read.contains(value));
    let own = Graph {
        nodes,
        inputs: vec![Input {
            value: answer,
            name: graph.name_of(answer).to_owned(),
            dtype: Some(DType::F32),
            shape: None,
        }],
        outputs: ends.to_vec(),
        constants: constants
            .map(|(&value, tensor)| (value, tensor.clone()))
            .collect(),
        names: graph.names.clone(),
        opsets: graph.opsets.clone(),
        ..Graph::default()
    };
    let mut values = vec![Vec::with_capacity(leaves.len()); ends.len()];
    for leaf in leaves {
        let given = FloatTensor::of(shape.to_vec(), leaf.clone()).ok()?;
        let outputs = tgf::run(&own, &[&given], &Budget::default()).ok()?;
        for (values, output) in values.iter_mut().zip(&outputs) {
            let numbers = convert::to_f64(output.data())?;
            let floats: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
            let whole = output.dtype().is_float()
                || floats
                    .iter()
                    .zip(&numbers)
                    .all(|(&a, &b)| f64::from(a) == b);
            if !whole || floats.iter().any(|value| !value.is_finite()) {
                return None;
            }
            values.push(floats);
        }
    }
    Some(values)
}

/// The tree with these values at its leaves.
fn tree(
    graph: &mut Graph,
    node: &Node,
    answers: &TreeAnswers,
    (end, values): (ValueId, &[Vec<f32>]),
    fact: &Fact,
) -> Vec<Node> {
    let elements = values.first().map_or(1, Vec::len);
    let name = format!("{}.{}", node.name, end.index());
    let flat = graph.fresh(format!("{name}.leaves"));
    let x = node.inputs.first().copied().flatten();
    let mut written = Node::new(&name, &node.op, node.version, Vec::new(), vec![flat]);
    written.inputs = vec![x];
    node.domain.clone_into(&mut written.domain);
    for (name, attribute) in &node.attributes {
        if name.starts_with("nodes_") {
            written = written.with(name, attribute.clone());
        }
    }
    let each = answers.leaves.iter().zip(values);
    let (mut leaves, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (&leaf, values) in each {
        for (target, &value) in values.iter().enumerate() {
            leaves.push(leaf);
            targets.push(target as i64);
            weights.push(value);
        }
    }
    let written = written
        .with(
            "target_treeids",
            Attribute::Ints(vec![answers.tree; leaves.len()]),
        )
        .with("target_nodeids", Attribute::Ints(leaves))
        .with("target_ids", Attribute::Ints(targets))
        .with("target_weights", Attribute::Floats(weights))
        .with("n_targets", Attribute::Int(elements as i64));
    let mut writer = super::edit::Writer::new(graph, &name);
    let mut value = flat;
    if fact.dtype != DType::F32 {
        value = writer.cast(value, fact.dtype);
    }
    let value = writer.shaped(value, &fact.shape);
    let mut all = vec![written];
    all.extend(writer.finish(value, end));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::passes::{PrepareOptions, prepare};
    use tg_float::Dim;

    /// A tree of three leaves over the second and the last of three features.
    fn with_tree() -> (Graph, ValueId) {
        let mut graph = Graph::default();
        let [x, picked, answer] = ["x", "picked", "answer"].map(|name| graph.fresh(name));
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(vec![Dim::Known(1), Dim::Known(3)]),
        });
        let places = graph.constant("places", FloatTensor::vector(vec![2i64, 1]));
        let pick = Node::new("pick", "Gather", 13, vec![x, places], vec![picked]);
        graph.append(pick.with("axis", Attribute::Int(1)));
        let ints = |list: &[i64]| Attribute::Ints(list.to_vec());
        let modes = ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"];
        let modes = modes.map(|mode| mode.as_bytes().to_vec()).to_vec();
        let mut node = Node::new(
            "tree",
            "TreeEnsembleRegressor",
            3,
            vec![picked],
            vec![answer],
        );
        "ai.onnx.ml".clone_into(&mut node.domain);
        graph.append(
            node.with("nodes_treeids", ints(&[0; 5]))
                .with("nodes_nodeids", ints(&[0, 1, 2, 3, 4]))
                .with("nodes_featureids", ints(&[0, 0, 1, 0, 0]))
                .with("nodes_truenodeids", ints(&[1, 0, 3, 0, 0]))
                .with("nodes_falsenodeids", ints(&[2, 0, 4, 0, 0]))
                .with(
                    "nodes_values",
                    Attribute::Floats(vec![0.5, 0.0, -0.25, 0.0, 0.0]),
                )
                .with("nodes_modes", Attribute::Texts(modes))
                .with("target_treeids", ints(&[0; 3]))
                .with("target_nodeids", ints(&[1, 3, 4]))
                .with("target_ids", ints(&[0; 3]))
                .with("target_weights", Attribute::Floats(vec![1.0, 3.0, 4.0]))
                .with("n_targets", Attribute::Int(1)),
        );
        (graph, answer)
    }

    fn rows() -> Vec<FloatTensor> {
        let rows = [[9.0, 0.0, 0.4], [9.0, -1.0, 0.6], [9.0, 1.0, 0.6]];
        let of = |row: [f32; 3]| FloatTensor::of(vec![1, 3], row.to_vec()).unwrap();
        rows.map(of).to_vec()
    }

    #[test]
    fn a_function_of_a_tree_is_a_tree() {
        let (mut graph, answer) = with_tree();
        let [raised, sum, y, above] = ["raised", "sum", "y", "above"].map(|n| graph.fresh(n));
        let one = graph.constant("one", FloatTensor::vector(vec![2.5f32]));
        graph.append(Node::new("raised", "Exp", 13, vec![answer], vec![raised]));
        graph.append(Node::new("sum", "Add", 13, vec![raised, answer], vec![sum]));
        graph.append(Node::new("y", "Log", 13, vec![sum], vec![y]));
        graph.append(Node::new(
            "above",
            "Greater",
            13,
            vec![answer, one],
            vec![above],
        ));
        graph.outputs = vec![y, above];
        let prepared = prepare(graph.clone(), &PrepareOptions::default()).unwrap();
        let nodes = prepared.graph.nodes.iter();
        let ops: Vec<&str> = nodes.map(|node| node.op.as_str()).collect();
        assert_eq!(
            ops.iter().filter(|op| op.starts_with("Tree")).count(),
            2,
            "{ops:?}"
        );
        assert!(!ops.contains(&"Exp") && !ops.contains(&"Gather"), "{ops:?}");
        for row in rows() {
            let of = |graph: &Graph| tgf::run(graph, &[&row], &Budget::default()).unwrap();
            assert_eq!(of(&graph), of(&prepared.graph));
        }
    }

    #[test]
    fn a_tree_that_is_only_moved_stays_one() {
        let (mut graph, answer) = with_tree();
        let y = graph.fresh("y");
        graph.append(Node::new("y", "Neg", 13, vec![answer], vec![y]));
        graph.outputs = vec![y];
        let prepared = prepare(graph, &PrepareOptions::default()).unwrap();
        assert!(prepared.graph.nodes.iter().any(|node| node.is("Neg")));
    }
}
