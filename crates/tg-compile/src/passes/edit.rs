//! Reading and changing nodes.

use tg_float::{Attribute, DType, Data, FloatTensor, Graph, Node, ValueId, convert};

/// An integer attribute, or its default.
pub(crate) fn int(node: &Node, name: &str, default: i64) -> i64 {
    match node.attributes.get(name) {
        Some(Attribute::Int(value)) => *value,
        _ => default,
    }
}

/// A float attribute, or its default.
pub(crate) fn float(node: &Node, name: &str, default: f32) -> f32 {
    match node.attributes.get(name) {
        Some(Attribute::Float(value)) => *value,
        _ => default,
    }
}

/// A list of integers: an attribute or, in newer versions, a constant input.
pub(crate) fn ints(graph: &Graph, node: &Node, name: &str, input: usize) -> Option<Vec<i64>> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(values)) => Some(values.clone()),
        _ => {
            let value = (*node.inputs.get(input)?)?;
            convert::to_i64(graph.constants.get(&value)?.data())
        }
    }
}

/// A constant as floats.
pub(crate) fn floats_of(graph: &Graph, value: Option<ValueId>) -> Option<(&[usize], Vec<f32>)> {
    let tensor = graph.constants.get(&value?)?;
    Some((tensor.shape(), convert::to_f32(tensor.data())?))
}

/// The only element of a constant.
pub(crate) fn scalar_of(graph: &Graph, value: Option<ValueId>) -> Option<f64> {
    let tensor = graph.constants.get(&value?)?;
    if tensor.len() != 1 {
        return None;
    }
    convert::to_f64(tensor.data()).map(|values| values[0])
}

/// The input of a node, if it is given.
pub(crate) fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}

/// The first output of a node.
pub(crate) fn output(node: &Node) -> Option<ValueId> {
    node.outputs.first().copied().flatten()
}

/// How often a value is read, outputs of the graph counted.
pub(crate) fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.names.len()];
    let reads = graph.nodes.iter().flat_map(Node::reads);
    for value in reads.chain(graph.outputs.iter().copied()) {
        if let Some(count) = uses.get_mut(value.index()) {
            *count += 1;
        }
    }
    uses
}

/// Whether a node gives one value that is read, its first one.
pub(crate) fn gives_first_alone(graph: &Graph, node: &Node) -> bool {
    let uses = uses(graph);
    let others = node.outputs.iter().skip(1).flatten();
    output(node).is_some() && others.into_iter().all(|value| uses[value.index()] == 0)
}

/// A float constant under a name derived from a node's.
pub(crate) fn constant(
    graph: &mut Graph,
    name: &str,
    shape: Vec<usize>,
    values: Vec<f32>,
) -> ValueId {
    let tensor = FloatTensor::of(shape, values).expect("the values fill the shape");
    graph.constant(name, tensor)
}

/// Whether the elements of a constant matrix or kernel are read elsewhere, as they are or transposed: weights that a
/// file has once, which a pass that changes them for one of their readers would make two of.
pub(crate) fn is_tied(graph: &Graph, value: ValueId) -> bool {
    let uses = uses(graph);
    let read = |value: ValueId| uses.get(value.index()).copied().unwrap_or(0);
    let Some(tensor) = graph.constants.get(&value) else {
        return false;
    };
    let transposed = |other: &FloatTensor| match (tensor.shape(), tensor.data(), other.data()) {
        (&[rows, columns], Data::F32(own), Data::F32(values)) => {
            other.shape() == [columns, rows]
                && (0..rows).all(|row| {
                    let own = own[row * columns..][..columns].iter();
                    own.enumerate()
                        .all(|(column, value)| *value == values[column * rows + row])
                })
        }
        _ => false,
    };
    read(value) > 1
        || tensor.shape().len() > 1
            && graph.constants.iter().any(|(&other, own)| {
                other != value && read(other) > 0 && (own == tensor || transposed(own))
            })
}

/// A list of integers as a constant.
pub(crate) fn int_constant(graph: &mut Graph, name: &str, values: Vec<i64>) -> ValueId {
    graph.constant(name, FloatTensor::vector(values))
}

/// A node of ONNX's own domain with one output that is a fresh value; returns node and value.
pub(crate) fn fresh_node(
    graph: &mut Graph,
    name: &str,
    op: &str,
    version: i64,
    inputs: &[ValueId],
) -> (Node, ValueId) {
    let value = graph.fresh(name);
    (
        Node::new(name, op, version, inputs.to_vec(), vec![value]),
        value,
    )
}

/// Puts the nodes that `write` gives for a node in its place, node by node; they are not looked at again. Whether it gave any.
pub(crate) fn rewrite_each(
    graph: &mut Graph,
    mut write: impl FnMut(&mut Graph, &Node) -> Option<Vec<Node>>,
) -> bool {
    let mut changed = false;
    let mut index = 0;
    while index < graph.nodes.len() {
        let node = graph.nodes[index].clone();
        let Some(written) = write(graph, &node) else {
            index += 1;
            continue;
        };
        let count = written.len();
        graph.nodes.splice(index..=index, written);
        index += count;
        changed = true;
    }
    changed
}

/// An axis counted from the first one, of a number that may count from the end; `None` beyond them.
pub(crate) fn counted_axis(axis: i64, rank: usize) -> Option<usize> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(counted).ok().filter(|&axis| axis < rank)
}

/// An output of a node, if something reads it.
pub(crate) fn read_output(graph: &Graph, node: &Node, slot: usize) -> Option<ValueId> {
    let value = node.outputs.get(slot).copied().flatten()?;
    (uses(graph)[value.index()] > 0).then_some(value)
}

/// The bytes of a text attribute, or their default.
pub(crate) fn text<'a>(node: &'a Node, name: &str, default: &'a [u8]) -> &'a [u8] {
    match node.attributes.get(name) {
        Some(Attribute::Text(text)) => text,
        _ => default,
    }
}

/// A list of floats that an attribute has; empty if it has none.
pub(crate) fn float_list(node: &Node, name: &str) -> Vec<f32> {
    match node.attributes.get(name) {
        Some(Attribute::Floats(values)) => values.clone(),
        _ => Vec::new(),
    }
}

/// A list of integers that an attribute has; empty if it has none.
pub(crate) fn int_list(node: &Node, name: &str) -> Vec<i64> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(values)) => values.clone(),
        _ => Vec::new(),
    }
}

/// The versions at which the nodes that passes write are read.
pub(crate) const VERSION: i64 = 17;

/// Nodes that stand for another one, in order, before they are put into the graph.
pub(crate) struct Writer<'a> {
    pub(crate) graph: &'a mut Graph,
    name: String,
    pub(crate) written: Vec<Node>,
}

impl<'a> Writer<'a> {
    /// For a node of a name.
    pub(crate) fn new(graph: &'a mut Graph, name: &str) -> Self {
        Self {
            graph,
            name: name.to_owned(),
            written: Vec::new(),
        }
    }

    /// A node of ONNX's own domain, and its result.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let name = format!("{}.{}{}", self.name, op, self.written.len());
        let (mut node, value) = fresh_node(self.graph, &name, op, VERSION, inputs);
        for (name, attribute) in attributes {
            node = node.with(name, attribute.clone());
        }
        self.written.push(node);
        value
    }

    /// A constant of floats.
    pub(crate) fn floats(&mut self, shape: &[usize], values: Vec<f32>) -> ValueId {
        let name = format!("{}.constant", self.name);
        constant(self.graph, &name, shape.to_vec(), values)
    }

    /// A constant list of integers.
    pub(crate) fn ints(&mut self, values: &[i64]) -> ValueId {
        let name = format!("{}.constant", self.name);
        int_constant(self.graph, &name, values.to_vec())
    }

    /// Some elements along an axis.
    pub(crate) fn slice(
        &mut self,
        value: ValueId,
        axis: usize,
        from: usize,
        count: usize,
    ) -> ValueId {
        let ends = [from, from + count, axis].map(|end| self.ints(&[end as i64]));
        self.node("Slice", &[value, ends[0], ends[1], ends[2]], &[])
    }

    /// The result of the last node becomes a value that was there before.
    pub(crate) fn finish(mut self, result: ValueId, value: ValueId) -> Vec<Node> {
        let gives = self
            .written
            .iter_mut()
            .rev()
            .find(|node| node.outputs.first() == Some(&Some(result)));
        match gives {
            Some(node) => node.outputs[0] = Some(value),
            None => {
                let name = format!("{}.result", self.name);
                let node = Node::new(&name, "Identity", VERSION, vec![result], vec![value]);
                self.written.push(node);
            }
        }
        self.written
    }

    /// Rows of the last axis over the root of their mean square, times a gain per place.
    pub(crate) fn rms(&mut self, x: ValueId, gain: ValueId, epsilon: f32) -> ValueId {
        let attributes = [
            ("axis", Attribute::Int(-1)),
            ("epsilon", Attribute::Float(epsilon)),
        ];
        let value = self.node("RMSNormalization", &[x, gain], &attributes);
        if let Some(node) = self.written.last_mut() {
            // The first operator set that has it.
            node.version = 23;
        }
        value
    }

    /// A name for a node of the inside of another.
    pub(crate) fn inner_name(&self, name: &str) -> String {
        format!("{}.{name}{}", self.name, self.written.len())
    }

    /// The same elements under other axes.
    pub(crate) fn shaped(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let shape = self.ints(&sizes);
        self.node("Reshape", &[x, shape], &[])
    }

    /// With axes in another order.
    pub(crate) fn transposed(&mut self, x: ValueId, order: &[usize]) -> ValueId {
        let order = order.iter().map(|&axis| axis as i64).collect();
        self.node("Transpose", &[x], &[("perm", Attribute::Ints(order))])
    }

    /// One float.
    pub(crate) fn scalar(&mut self, value: f32) -> ValueId {
        self.floats(&[], vec![value])
    }

    /// The same elements in another type.
    pub(crate) fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        let to = Attribute::Int(i64::from(dtype.to_onnx()));
        self.node("Cast", &[x], &[("to", to)])
    }

    /// Repeated along axes of one.
    pub(crate) fn expanded(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let sizes = self.ints(&sizes);
        self.node("Expand", &[x, sizes], &[])
    }

    /// Elements along an axis at constant places.
    pub(crate) fn gathered(&mut self, x: ValueId, places: &[i64], axis: i64) -> ValueId {
        let places = self.ints(places);
        self.node("Gather", &[x, places], &[("axis", Attribute::Int(axis))])
    }

    /// A product with one number.
    pub(crate) fn times(&mut self, x: ValueId, factor: f32) -> ValueId {
        let factor = self.scalar(factor);
        self.node("Mul", &[x, factor], &[])
    }

    /// As [`Self::finish`], for several results.
    pub(crate) fn finish_all(mut self, results: Vec<(ValueId, ValueId)>) -> Vec<Node> {
        for (result, value) in results {
            let name = format!("{}.result", self.name);
            let node = Node::new(&name, "Identity", VERSION, vec![result], vec![value]);
            self.written.push(node);
        }
        self.written
    }
}
