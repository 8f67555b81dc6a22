//! The graph: every node of the file, its constants, and how passes edit it.

use super::tensor::{DType, FloatTensor};
use std::collections::{BTreeMap, BTreeSet};

/// A value of a graph: an input, a constant or an output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);

impl ValueId {
    /// The value with this index.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its index in the graph's names.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Size of an axis as the file declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// Fixed.
    Known(usize),
    /// A symbol; equal symbols are equal sizes.
    Named(String),
    /// Not said.
    Unknown,
}

/// An input of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The value it gives.
    pub value: ValueId,
    /// Its name in the file.
    pub name: String,
    /// Its element type; `None` in a subgraph that does not say.
    pub dtype: Option<DType>,
    /// Its axes; `None` if the file does not say how many.
    pub shape: Option<Vec<Dim>>,
}

/// An attribute of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Bytes, mostly text.
    Text(Vec<u8>),
    /// A tensor.
    Tensor(FloatTensor),
    /// A subgraph.
    Graph(Box<Subgraph>),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<Vec<u8>>),
    /// Tensors.
    Tensors(Vec<FloatTensor>),
    /// A type or a sparse tensor (number of the attribute type in `onnx.proto`): no operator here reads it.
    Other(i32),
}

/// The body of an `If`, `Loop` or `Scan`.
///
/// Values of the enclosing graph that it reads are inputs of the node, after its own: the node's inputs
/// `captures[i]` are bound to the last inputs of `graph`, so that a pass sees every use.
#[derive(Debug, Clone, PartialEq)]
pub struct Subgraph {
    /// The body.
    pub graph: Graph,
    /// Per captured value, the index of the node's input that gives it.
    pub captures: Vec<usize>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name, or that of its first output if it has none.
    pub name: String,
    /// Domain of its operator; empty for ONNX's own.
    pub domain: String,
    /// Its operator.
    pub op: String,
    /// The version of its domain's operator set in force here: the operator means what its newest definition not
    /// newer than this says.
    pub version: i64,
    /// Its attributes; absent ones have the operator's default.
    pub attributes: BTreeMap<String, Attribute>,
    /// What it reads; `None` where an optional input is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it gives; `None` where an optional output is left out.
    pub outputs: Vec<Option<ValueId>>,
}

/// A graph. Nodes are in topological order: a node reads inputs, constants and outputs of earlier nodes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Version of each imported operator set, by domain.
    pub opsets: BTreeMap<String, i64>,
    /// What a caller gives, in order.
    pub inputs: Vec<Input>,
    /// What a caller gets, in order.
    pub outputs: Vec<ValueId>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The constants.
    pub constants: BTreeMap<ValueId, FloatTensor>,
    /// Name of each value, by its index.
    pub names: Vec<String>,
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A value without a name.
    #[error("the value {0} is not one of the graph's")]
    Unknown(usize),
    /// A value given twice.
    #[error("the value `{0}` is given twice")]
    Twice(String),
    /// A value that is read and that nothing gives before.
    #[error("node `{node}` ({op}) reads `{value}`, which nothing before it gives")]
    Order {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The value.
        value: String,
    },
    /// An output that nothing gives.
    #[error("nothing gives the output `{0}`")]
    Output(String),
    /// Nodes that read each other's results.
    #[error("node `{0}` reads a result that depends on its own")]
    Cycle(String),
}

impl Node {
    /// A node of ONNX's own domain without attributes.
    #[must_use]
    pub fn new(
        name: &str,
        op: &str,
        version: i64,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            domain: String::new(),
            op: op.to_owned(),
            version,
            attributes: BTreeMap::new(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: outputs.into_iter().map(Some).collect(),
        }
    }

    /// The same with an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, attribute: Attribute) -> Self {
        self.attributes.insert(name.to_owned(), attribute);
        self
    }

    /// The values it reads.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().flatten().copied()
    }

    /// The values it gives.
    pub fn gives(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.outputs.iter().flatten().copied()
    }

    /// Whether it is this operator of ONNX's own domain.
    #[must_use]
    pub fn is(&self, op: &str) -> bool {
        self.domain.is_empty() && self.op == op
    }
}

impl Graph {
    /// The name of a value; empty for one the graph does not have.
    #[must_use]
    pub fn name_of(&self, value: ValueId) -> &str {
        self.names.get(value.index()).map_or("", String::as_str)
    }

    /// A new value.
    ///
    /// # Panics
    /// If the graph already has 2^32 - 1 values.
    pub fn fresh(&mut self, name: impl Into<String>) -> ValueId {
        let index = u32::try_from(self.names.len()).expect("a graph has fewer than 2^32 values");
        self.names.push(name.into());
        ValueId(index)
    }

    /// A new constant.
    pub fn constant(&mut self, name: impl Into<String>, tensor: FloatTensor) -> ValueId {
        let value = self.fresh(name);
        self.constants.insert(value, tensor);
        value
    }

    /// Adds a node at the end.
    pub fn append(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Index of the node that gives each value; `None` for inputs and constants.
    #[must_use]
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.names.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for value in node.gives() {
                if let Some(producer) = producers.get_mut(value.index()) {
                    *producer = Some(index);
                }
            }
        }
        producers
    }

    /// Indices of the nodes that read each value, once per node; an output of the graph is not counted here.
    #[must_use]
    pub fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![Vec::new(); self.names.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for value in node.reads() {
                if let Some(list) = readers.get_mut(value.index())
                    && list.last() != Some(&index)
                {
                    list.push(index);
                }
            }
        }
        readers
    }

    /// Makes every reader of `from` (and an output of the graph) read `to`.
    pub fn replace_uses(&mut self, from: ValueId, to: ValueId) {
        for node in &mut self.nodes {
            for input in node.inputs.iter_mut().flatten() {
                if *input == from {
                    *input = to;
                }
            }
        }
        for output in &mut self.outputs {
            if *output == from {
                *output = to;
            }
        }
    }

    /// Removes nodes and constants that no output depends on; returns the number of nodes removed. Inputs stay.
    pub fn remove_dead(&mut self) -> usize {
        let mut live: BTreeSet<ValueId> = self.outputs.iter().copied().collect();
        let mut keep = vec![false; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if node.gives().any(|value| live.contains(&value)) {
                keep[index] = true;
                live.extend(node.reads());
            }
        }
        let before = self.nodes.len();
        let mut kept = keep.into_iter();
        self.nodes.retain(|_| kept.next().unwrap_or(true));
        self.constants.retain(|value, _| live.contains(value));
        before - self.nodes.len()
    }

    /// Sorts the nodes topologically; among those that are ready the earliest comes first, so that a sorted graph
    /// stays as it is.
    ///
    /// # Errors
    /// If nodes depend on each other in a circle.
    pub fn sort(&mut self) -> Result<(), GraphError> {
        let producers = self.producers();
        let readers = self.readers();
        let mut missing: Vec<usize> = self
            .nodes
            .iter()
            .map(|node| {
                let distinct: BTreeSet<ValueId> = node.reads().collect();
                let given = |value: &ValueId| producers.get(value.index()).copied().flatten();
                distinct.iter().filter_map(given).count()
            })
            .collect();
        let mut ready: BTreeSet<usize> = (0..missing.len()).filter(|&i| missing[i] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(index) = ready.pop_first() {
            order.push(index);
            let given: BTreeSet<ValueId> = self.nodes[index].gives().collect();
            for value in given {
                for &reader in &readers[value.index()] {
                    missing[reader] = missing[reader].saturating_sub(1);
                    if missing[reader] == 0 {
                        ready.insert(reader);
                    }
                }
            }
        }
        if order.len() < self.nodes.len() {
            let stuck = (0..missing.len()).find(|&index| missing[index] > 0);
            let name = stuck.map_or("", |index| self.nodes[index].name.as_str());
            return Err(GraphError::Cycle(name.to_owned()));
        }
        if !order.is_sorted() {
            let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes)
                .into_iter()
                .map(Some)
                .collect();
            self.nodes = order.iter().filter_map(|&i| nodes[i].take()).collect();
        }
        Ok(())
    }

    /// Checks that every value is given once, before it is read.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), GraphError> {
        let mut given = vec![false; self.names.len()];
        let mut give = |value: ValueId| match given.get_mut(value.index()) {
            None => Err(GraphError::Unknown(value.index())),
            Some(true) => Err(GraphError::Twice(self.name_of(value).to_owned())),
            Some(slot) => {
                *slot = true;
                Ok(())
            }
        };
        for input in &self.inputs {
            give(input.value)?;
        }
        for &value in self.constants.keys() {
            give(value)?;
        }
        let mut order: Vec<Option<usize>> = vec![None; self.names.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for value in node.gives() {
                give(value)?;
                order[value.index()] = Some(index);
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for value in node.reads() {
                let early = order.get(value.index()).copied().flatten();
                let known = given.get(value.index()).copied().unwrap_or(false);
                if !known || early.is_some_and(|producer| producer >= index) {
                    return Err(GraphError::Order {
                        node: node.name.clone(),
                        op: node.op.clone(),
                        value: self.name_of(value).to_owned(),
                    });
                }
            }
        }
        let unknown = |value: &&ValueId| !given.get(value.index()).copied().unwrap_or(false);
        match self.outputs.iter().find(unknown) {
            Some(&value) => Err(GraphError::Output(self.name_of(value).to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x -> a -> b -> out, c unused.
    fn chain() -> (Graph, [ValueId; 4]) {
        let mut graph = Graph::default();
        let x = graph.fresh("x");
        let a = graph.fresh("a");
        let b = graph.fresh("b");
        let c = graph.fresh("c");
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: None,
        });
        graph.outputs.push(b);
        graph.append(Node::new("a", "Neg", 13, vec![x], vec![a]));
        graph.append(Node::new("b", "Add", 13, vec![a, a], vec![b]));
        graph.append(Node::new("c", "Exp", 13, vec![a], vec![c]));
        (graph, [x, a, b, c])
    }

    #[test]
    fn dead_nodes_and_constants_go() {
        let (mut graph, [x, ..]) = chain();
        let unused = graph.constant("k", FloatTensor::scalar(1f32));
        assert_eq!(graph.check(), Ok(()));
        assert_eq!(graph.remove_dead(), 1);
        assert_eq!(graph.nodes.len(), 2);
        assert!(!graph.constants.contains_key(&unused));
        assert_eq!(graph.inputs[0].value, x);
        assert_eq!(graph.check(), Ok(()));
    }

    #[test]
    fn uses_are_replaced_everywhere() {
        let (mut graph, [x, a, b, _]) = chain();
        assert_eq!(graph.readers()[a.index()], [1, 2]);
        graph.replace_uses(a, x);
        assert_eq!(graph.readers()[x.index()], [0, 1, 2]);
        graph.replace_uses(b, a);
        assert_eq!(graph.outputs, [a]);
        assert_eq!(graph.producers()[a.index()], Some(0));
    }

    #[test]
    fn sorting_puts_producers_first_and_names_cycles() {
        let (mut graph, [x, a, b, _]) = chain();
        let sorted = graph.clone();
        graph.nodes.reverse();
        assert!(matches!(graph.check(), Err(GraphError::Order { .. })));
        assert_eq!(graph.sort(), Ok(()));
        assert_eq!(graph.check(), Ok(()));
        let mut same = sorted.clone();
        assert_eq!(same.sort(), Ok(()));
        assert_eq!(same, sorted);
        graph.nodes = vec![
            Node::new("p", "Add", 13, vec![x, b], vec![a]),
            Node::new("q", "Neg", 13, vec![a], vec![b]),
        ];
        assert_eq!(graph.sort(), Err(GraphError::Cycle("p".to_owned())));
    }

    #[test]
    fn broken_graphs_are_named() {
        let (graph, [_, a, ..]) = chain();
        let mut twice = graph.clone();
        twice.append(Node::new("again", "Neg", 13, vec![a], vec![a]));
        assert_eq!(twice.check(), Err(GraphError::Twice("a".to_owned())));
        let mut unknown = graph.clone();
        unknown.append(Node::new("z", "Neg", 13, vec![a], vec![ValueId::new(99)]));
        assert_eq!(unknown.check(), Err(GraphError::Unknown(99)));
        let mut output = graph;
        let nothing = output.fresh("nothing");
        output.outputs.push(nothing);
        assert_eq!(
            output.check(),
            Err(GraphError::Output("nothing".to_owned()))
        );
    }
}
