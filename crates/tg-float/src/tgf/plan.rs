//! A graph as steps, and which values end after each.

use super::call::Entry;
use super::dispatch::lookup;
use super::fuse::{Group, groups};
use super::product::Prepared;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::kernels::{PackedF32, Right};
use crate::tensor::FloatTensor;
use std::collections::BTreeMap;

/// How often a plan is executed, and what of it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Once, for the outputs.
    Once,
    /// Once, for every value.
    EveryValue,
    /// Many times, for the outputs: constants are made ready.
    Often,
    /// Once, for the outputs, one node after the other in the order of the graph: what it takes, and where it fails, follows
    /// from the graph and its inputs alone.
    InOrder,
}

/// What one step does.
#[derive(Debug)]
pub(super) enum Step {
    /// Evaluates a node.
    Node {
        node: usize,
        /// The function of its operator, if it is known.
        entry: Option<Entry>,
        /// The node after it, where that is a bias it adds itself.
        added: Option<usize>,
        /// What it gives; the result of the node after it where that is a bias it adds itself.
        gives: Vec<Option<ValueId>>,
        prepared: Option<Box<Prepared>>,
    },
    /// Runs nodes that go element by element.
    Group(Group),
}

/// The steps of a graph.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// Per step, the values that nobody needs after it.
    pub(super) ends: Vec<Vec<ValueId>>,
}

impl Plan {
    pub(super) fn new(graph: &Graph, purpose: Purpose) -> Self {
        let mut biases = match purpose {
            Purpose::Often => biases(graph),
            Purpose::Once | Purpose::EveryValue | Purpose::InOrder => BTreeMap::new(),
        };
        let added: Vec<usize> = biases.values().map(|bias| bias.add).collect();
        let mut groups = match purpose {
            Purpose::EveryValue | Purpose::InOrder => Vec::new(),
            Purpose::Once | Purpose::Often => groups(graph, &added),
        };
        let inside: Vec<usize> = groups
            .iter()
            .flatten()
            .flat_map(|g| g.nodes.clone())
            .collect();
        let mut steps = Vec::with_capacity(graph.nodes.len());
        for (index, node) in graph.nodes.iter().enumerate() {
            if let Some(group) = groups.get_mut(index).and_then(Option::take) {
                steps.push(Step::Group(group));
            } else if !inside.contains(&index) && !added.contains(&index) {
                let bias = biases.remove(&index);
                let added = bias.as_ref().map(|bias| bias.add);
                let gives = graph.nodes[added.unwrap_or(index)].outputs.clone();
                let bias = bias.map(|bias| bias.tensor);
                let right = match purpose {
                    Purpose::Often => packed(graph, node),
                    Purpose::Once | Purpose::EveryValue | Purpose::InOrder => None,
                };
                steps.push(Step::Node {
                    node: index,
                    entry: lookup(node),
                    added,
                    gives,
                    prepared: right.map(|right| Box::new(Prepared { right, bias })),
                });
            }
        }
        let ends = match purpose {
            Purpose::EveryValue => vec![Vec::new(); steps.len()],
            Purpose::Once | Purpose::Often | Purpose::InOrder => ends(graph, &steps),
        };
        Self { steps, ends }
    }
}

/// Per step, the values whose last use it is; outputs have none.
fn ends(graph: &Graph, steps: &[Step]) -> Vec<Vec<ValueId>> {
    let mut last = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Node { node, gives, .. } => {
                let values = graph.nodes[*node]
                    .reads()
                    .chain(gives.iter().flatten().copied());
                last.extend(values.map(|value| (value, index)));
            }
            Step::Group(group) => {
                let given = group
                    .nodes
                    .iter()
                    .flat_map(|&node| graph.nodes[node].gives());
                let values = group.reads.iter().copied().chain(given);
                last.extend(values.map(|value| (value, index)));
            }
        }
    }
    for output in &graph.outputs {
        last.remove(output);
    }
    let mut ends = vec![Vec::new(); steps.len()];
    for (value, index) in last {
        ends[index].push(value);
    }
    ends
}

/// A constant that the node `add` adds to each column of a product that only it reads.
struct AddedBias {
    add: usize,
    tensor: FloatTensor,
}

/// The biases of products, by the product's node.
fn biases(graph: &Graph) -> BTreeMap<usize, AddedBias> {
    let (producers, readers) = (graph.producers(), graph.readers());
    let mut found = BTreeMap::new();
    for (add, node) in graph.nodes.iter().enumerate() {
        let &[Some(a), Some(b)] = node.inputs.as_slice() else {
            continue;
        };
        if !node.is("Add") || node.outputs.len() != 1 {
            continue;
        }
        for (product, bias) in [(a, b), (b, a)] {
            let producer = producers.get(product.index()).copied().flatten();
            let Some((producer, tensor)) = producer.zip(graph.constants.get(&bias)) else {
                continue;
            };
            let alone = readers[product.index()] == [add] && !graph.outputs.contains(&product);
            let columns = matrix(graph, &graph.nodes[producer]).map(|(_, [_, n])| n);
            let fits = graph.nodes[producer].is("MatMul")
                && tensor.values::<f32>().is_some()
                && columns.is_some_and(|columns| tensor.shape() == [columns]);
            if alone && fits && product != bias {
                let tensor = tensor.clone();
                found.insert(producer, AddedBias { add, tensor });
            }
        }
    }
    found
}

/// Least columns of a right factor that is packed: panels have 16, so a narrower one would take far more memory.
const COLUMNS_MIN: usize = 8;

/// The constant right factor of a product of `f32`, and its depth and columns.
fn matrix<'a>(graph: &'a Graph, node: &Node) -> Option<(Right<'a>, [usize; 2])> {
    if !node.is("MatMul") && !node.is("Gemm") {
        return None;
    }
    let tensor = graph
        .constants
        .get(&node.inputs.get(1).copied().flatten()?)?;
    let (values, &[rows, columns]) = (tensor.values::<f32>()?, tensor.shape()) else {
        return None;
    };
    let turned = match node.attributes.get("transB") {
        None => false,
        Some(Attribute::Int(flag)) => *flag != 0,
        Some(_) => return None,
    };
    let stride = columns;
    let (right, sizes) = if turned && node.is("Gemm") {
        (Right::Transposed { values, stride }, [columns, rows])
    } else {
        (Right::Rows { values, stride }, [rows, columns])
    };
    (sizes[0] > 0 && sizes[1] >= COLUMNS_MIN).then_some((right, sizes))
}

fn packed(graph: &Graph, node: &Node) -> Option<PackedF32> {
    let (right, [k, n]) = matrix(graph, node)?;
    Some(PackedF32::new(n, k, &right))
}
