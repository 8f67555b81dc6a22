//! Small graphs for tests, written node by node.

use std::collections::BTreeMap;
use tg_exec::sample::Numbers;
use tg_float::graph::{Dim, Input, Node};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};

/// Writes nodes one after the other.
pub(crate) struct Writer {
    pub(crate) graph: Graph,
    pub(crate) numbers: Numbers,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            graph: Graph {
                opsets: BTreeMap::from([(String::new(), 17)]),
                ..Graph::default()
            },
            numbers: Numbers::new(seed),
        }
    }

    pub(crate) fn input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> ValueId {
        let value = self.graph.fresh(name);
        self.graph.inputs.push(Input {
            value,
            name: name.to_owned(),
            dtype: Some(dtype),
            shape: Some(shape.iter().map(|&size| Dim::Known(size)).collect()),
        });
        value
    }

    /// A node of ONNX's own domain; its first output.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        self.nodes(("", op), inputs, attributes, 1)[0]
    }

    /// A node of a domain with several outputs.
    pub(crate) fn nodes(
        &mut self,
        (domain, op): (&str, &str),
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Vec<ValueId> {
        let values: Vec<ValueId> = (0..outputs)
            .map(|slot| {
                self.graph
                    .fresh(format!("{op}{}.{slot}", self.graph.nodes.len()))
            })
            .collect();
        let name = self.graph.name_of(values[0]).to_owned();
        let mut node = Node::new(&name, op, 17, inputs.to_vec(), values.clone());
        node.domain = domain.to_owned();
        for (name, attribute) in attributes {
            node = node.with(name, attribute.clone());
        }
        self.graph.append(node);
        values
    }

    /// Constants in [-1, 1].
    pub(crate) fn weights(&mut self, shape: &[usize]) -> ValueId {
        let count = shape.iter().product();
        let numbers = &mut self.numbers;
        let values = (0..count)
            .map(|_| numbers.between(-1000, 1000) as f32 / 1000.0)
            .collect();
        self.constant(shape, values)
    }

    pub(crate) fn constant(&mut self, shape: &[usize], values: Vec<f32>) -> ValueId {
        let tensor = FloatTensor::of(shape.to_vec(), values).unwrap();
        self.graph.constant("weights", tensor)
    }

    pub(crate) fn scalar(&mut self, value: f32) -> ValueId {
        self.constant(&[], vec![value])
    }

    pub(crate) fn ints(&mut self, values: &[i64]) -> ValueId {
        self.graph
            .constant("ints", FloatTensor::vector(values.to_vec()))
    }

    /// Bytes with a sign or without.
    pub(crate) fn bytes(&mut self, shape: &[usize], signed: bool) -> ValueId {
        let count = shape.iter().product::<usize>();
        let numbers = &mut self.numbers;
        let tensor = if signed {
            let values = (0..count).map(|_| numbers.between(-127, 127) as i8);
            FloatTensor::of(shape.to_vec(), values.collect::<Vec<_>>())
        } else {
            let values = (0..count).map(|_| numbers.between(0, 255) as u8);
            FloatTensor::of(shape.to_vec(), values.collect::<Vec<_>>())
        };
        self.graph.constant("bytes", tensor.unwrap())
    }

    pub(crate) fn zero_point(&mut self, value: u8) -> ValueId {
        self.graph.constant("zero", FloatTensor::scalar(value))
    }

    /// The graph with this output.
    pub(crate) fn finish(mut self, output: ValueId) -> Graph {
        self.graph.outputs.push(output);
        self.graph
    }
}

/// Rows of numbers in [-1, 1].
pub(crate) fn rows(seed: u64, count: usize, length: usize) -> Vec<Vec<f32>> {
    let mut numbers = Numbers::new(seed);
    let mut row = || {
        (0..length)
            .map(|_| numbers.between(-1000, 1000) as f32 / 1000.0)
            .collect()
    };
    (0..count).map(|_| row()).collect()
}
