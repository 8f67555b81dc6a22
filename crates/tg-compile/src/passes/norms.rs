//! Layer and root-mean-square normalisation, recognised from the primitives that exporters write.

use super::Fact;
use super::edit::{VERSION, constant, input, int, ints, output, scalar_of};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Version of ONNX that has `RMSNormalization`.
const RMS_VERSION: i64 = 23;

/// Replaces each pattern by one node; whether there was any.
pub(super) fn fuse(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    let mut changed = false;
    for index in 0..graph.nodes.len() {
        if let Some(found) = find(graph, index, facts) {
            replace(graph, index, &found, facts);
            changed = true;
        }
    }
    changed
}

struct Found {
    value: ValueId,
    centred: bool,
    epsilon: f32,
}

struct Walk<'a> {
    graph: &'a Graph,
    producers: Vec<Option<usize>>,
}

impl<'a> Walk<'a> {
    /// The node of an operator that gives a value.
    fn node(&self, value: ValueId, op: &str) -> Option<&'a Node> {
        let index = self.producers.get(value.index()).copied().flatten()?;
        let node = &self.graph.nodes[index];
        node.is(op).then_some(node)
    }

    /// The value of which this is the mean over the last axis.
    fn mean_of(&self, value: ValueId, rank: usize) -> Option<ValueId> {
        let node = self.node(value, "ReduceMean")?;
        let axes = ints(self.graph, node, "axes", 1)?;
        let last = matches!(axes.as_slice(), [axis] if *axis == -1 || *axis == rank as i64 - 1);
        (last && int(node, "keepdims", 1) == 1).then(|| input(node, 0))?
    }

    /// The value of which this is the square.
    fn square_of(&self, value: ValueId) -> Option<ValueId> {
        if let Some(node) = self.node(value, "Pow") {
            let two = scalar_of(self.graph, input(node, 1)) == Some(2.0);
            return two.then(|| input(node, 0))?;
        }
        let node = self.node(value, "Mul")?;
        (input(node, 0) == input(node, 1)).then(|| input(node, 0))?
    }

    /// Of `1 / sqrt(v + epsilon)`: v and epsilon.
    fn root_of(&self, value: ValueId) -> Option<(ValueId, f32)> {
        let inverse = self.node(value, "Reciprocal")?;
        let root = self.node(input(inverse, 0)?, "Sqrt")?;
        let sum = self.node(input(root, 0)?, "Add")?;
        let [a, b] = [input(sum, 0)?, input(sum, 1)?];
        let found = match (
            scalar_of(self.graph, Some(a)),
            scalar_of(self.graph, Some(b)),
        ) {
            (None, Some(epsilon)) => (a, epsilon),
            (Some(epsilon), None) => (b, epsilon),
            _ => return None,
        };
        Some((found.0, found.1 as f32))
    }

    /// Of `x - mean(x)`: x.
    fn centred_of(&self, value: ValueId, rank: usize) -> Option<ValueId> {
        let node = self.node(value, "Sub")?;
        let from = input(node, 0)?;
        (self.mean_of(input(node, 1)?, rank)? == from).then_some(from)
    }
}

fn find(graph: &Graph, index: usize, facts: &BTreeMap<ValueId, Fact>) -> Option<Found> {
    let node = &graph.nodes[index];
    if !node.is("Mul") {
        return None;
    }
    let walk = Walk {
        graph,
        producers: graph.producers(),
    };
    let rank = facts.get(&output(node)?)?.shape.len();
    [(0, 1), (1, 0)].into_iter().find_map(|(numerator, root)| {
        let numerator = input(node, numerator)?;
        let (variance, epsilon) = walk.root_of(input(node, root)?)?;
        let squared = walk.square_of(walk.mean_of(variance, rank)?)?;
        let centred = walk.centred_of(numerator, rank);
        let centred_square = walk.centred_of(squared, rank);
        match (centred, centred_square) {
            (Some(value), Some(other)) if value == other => Some(Found {
                value,
                centred: true,
                epsilon,
            }),
            _ if numerator == squared => Some(Found {
                value: numerator,
                centred: false,
                epsilon,
            }),
            _ => None,
        }
    })
}

fn replace(graph: &mut Graph, index: usize, found: &Found, facts: &BTreeMap<ValueId, Fact>) {
    let channels = facts
        .get(&found.value)
        .and_then(|fact| fact.shape.last().copied())
        .unwrap_or(1);
    let name = graph.nodes[index].name.clone();
    let gain = constant(
        graph,
        &format!("{name}.gain"),
        vec![channels],
        vec![1.0; channels],
    );
    let mut inputs = vec![found.value, gain];
    let (op, version) = if found.centred {
        inputs.push(constant(
            graph,
            &format!("{name}.offset"),
            vec![channels],
            vec![0.0; channels],
        ));
        ("LayerNormalization", VERSION)
    } else {
        ("RMSNormalization", RMS_VERSION)
    };
    let outputs: Vec<ValueId> = graph.nodes[index].gives().collect();
    graph.nodes[index] = Node::new(&name, op, version, inputs, outputs)
        .with("axis", Attribute::Int(-1))
        .with("epsilon", Attribute::Float(found.epsilon));
}
