//! A graph under construction: operators of ONNX, in the version of [`VERSION`].

use tg_float::graph::{Attribute, Graph, Input, Node};
use tg_float::{DType, Dim, FloatTensor, ValueId};

/// The version of ONNX whose operators are written.
const VERSION: i64 = 23;
/// Elements of an axis up to its end.
const END: i64 = i64::MAX;

/// A graph under construction.
pub(crate) struct GraphWriter {
    pub(crate) graph: Graph,
}

impl GraphWriter {
    pub(crate) fn new(name: &str) -> Self {
        let mut graph = Graph {
            name: name.to_owned(),
            ..Graph::default()
        };
        graph.opsets.insert(String::new(), VERSION);
        Self { graph }
    }

    /// An input of the graph.
    pub(crate) fn input(&mut self, name: &str, dtype: DType, shape: Vec<Dim>) -> ValueId {
        let value = self.graph.fresh(name);
        self.graph.inputs.push(Input {
            value,
            name: name.to_owned(),
            dtype: Some(dtype),
            shape: Some(shape),
        });
        value
    }

    /// An input of whole numbers per item and position.
    pub(crate) fn tokens(&mut self, name: &str) -> ValueId {
        let axes = vec![Dim::Unknown, Dim::Named("sequence".to_owned())];
        self.input(name, DType::I64, axes)
    }

    /// An output of the graph, by its name.
    pub(crate) fn output(&mut self, name: &str, value: ValueId) {
        if let Some(slot) = self.graph.names.get_mut(value.index()) {
            name.clone_into(slot);
        }
        self.graph.outputs.push(value);
    }

    /// A node with one result.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.node_of(op, inputs, attributes)
    }

    /// A node with one result, some of whose inputs may be left out.
    pub(crate) fn node_of(
        &mut self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let name = format!("{op}_{}", self.graph.nodes.len());
        let value = self.graph.fresh(name.clone());
        let mut node = Node::new(&name, op, VERSION, Vec::new(), vec![value]);
        node.inputs = inputs;
        for (name, attribute) in attributes {
            node = node.with(name, attribute.clone());
        }
        self.graph.append(node);
        value
    }

    /// A constant.
    pub(crate) fn constant(&mut self, name: &str, tensor: FloatTensor) -> ValueId {
        self.graph.constant(name, tensor)
    }

    /// A constant of floats.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize], values: Vec<f32>) -> ValueId {
        let tensor = FloatTensor::of(shape.to_vec(), values);
        self.constant(name, tensor.expect("as many values as the shape has"))
    }

    /// One float.
    pub(crate) fn scalar(&mut self, value: f32) -> ValueId {
        self.constant("scalar", FloatTensor::scalar(value))
    }

    /// A list of whole numbers.
    pub(crate) fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant("ints", FloatTensor::vector(values.to_vec()))
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.node("Add", &[a, b], &[])
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.node("Mul", &[a, b], &[])
    }

    /// Another order of the axes.
    pub(crate) fn transposed(&mut self, x: ValueId, axes: &[i64]) -> ValueId {
        self.node(
            "Transpose",
            &[x],
            &[("perm", Attribute::Ints(axes.to_vec()))],
        )
    }

    /// Another shape; 0 keeps an axis.
    pub(crate) fn shaped(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        let shape = self.ints(shape);
        self.node("Reshape", &[x, shape], &[])
    }

    /// The elements `start` to `end` of an axis.
    pub(crate) fn slice(&mut self, x: ValueId, axis: i64, [start, end]: [i64; 2]) -> ValueId {
        let bounds = [start, end, axis].map(|bound| self.ints(&[bound]));
        self.node("Slice", &[x, bounds[0], bounds[1], bounds[2]], &[])
    }

    /// The first rows of a table, as many as there are positions in `ids`, from row `first` on.
    pub(crate) fn rows_of_positions(
        &mut self,
        table: ValueId,
        ids: ValueId,
        first: usize,
    ) -> ValueId {
        let table = match i64::try_from(first) {
            Ok(0) | Err(_) => table,
            Ok(first) => self.slice(table, 0, [first, END]),
        };
        let length = self.length(ids, 1);
        let [zero, axis] = [self.ints(&[0]), self.ints(&[0])];
        self.node("Slice", &[table, zero, length, axis], &[])
    }

    /// The length of an axis, as a list of one.
    pub(crate) fn length(&mut self, x: ValueId, axis: i64) -> ValueId {
        let bounds = [
            ("start", Attribute::Int(axis)),
            ("end", Attribute::Int(axis + 1)),
        ];
        self.node("Shape", &[x], &bounds)
    }

    /// The element of axis 1 at this place, without the axis.
    pub(crate) fn at(&mut self, x: ValueId, place: i64) -> ValueId {
        let index = self.constant("place", FloatTensor::scalar(place));
        self.node("Gather", &[x, index], &[("axis", Attribute::Int(1))])
    }
}
