//! Writes a graph.

use super::tensors;
use crate::graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
use crate::tensor::FloatTensor;
use tg_types::{Encode as _, Writer};

/// Where structure and elements go.
pub(super) struct Writers {
    pub(super) structure: Writer,
    pub(super) constants: Writer,
}

pub(super) fn graph(writers: &mut Writers, graph: &Graph) {
    let Graph {
        name,
        opsets,
        inputs,
        outputs,
        nodes,
        constants,
        names,
    } = graph;
    let writer = &mut writers.structure;
    writer.str(name);
    writer.count(opsets.len());
    for (domain, version) in opsets {
        writer.str(domain);
        writer.i64(*version);
    }
    writer.count(names.len());
    for name in names {
        writer.str(name);
    }
    writer.count(inputs.len());
    for own in inputs {
        input(writer, own);
    }
    writer.count(outputs.len());
    for &output in outputs {
        value(writer, output);
    }
    writer.count(constants.len());
    for (&own, constant) in constants {
        value(&mut writers.structure, own);
        tensor(writers, constant);
    }
    writers.structure.count(nodes.len());
    for own in nodes {
        node(writers, own);
    }
}

fn value(writer: &mut Writer, value: ValueId) {
    writer.count(value.index());
}

fn input(writer: &mut Writer, input: &Input) {
    let Input {
        value: own,
        name,
        dtype,
        shape,
    } = input;
    value(writer, *own);
    writer.str(name);
    writer.u8(dtype.map_or(0, tensors::code));
    writer.u8(u8::from(shape.is_some()));
    let Some(shape) = shape else { return };
    writer.count(shape.len());
    for axis in shape {
        match axis {
            Dim::Unknown => writer.u8(0),
            Dim::Known(size) => {
                writer.u8(1);
                writer.u64(*size as u64);
            }
            Dim::Named(name) => {
                writer.u8(2);
                writer.str(name);
            }
        }
    }
}

fn node(writers: &mut Writers, node: &Node) {
    let Node {
        name,
        domain,
        op,
        version,
        attributes,
        inputs,
        outputs,
    } = node;
    let writer = &mut writers.structure;
    writer.str(name);
    writer.str(domain);
    writer.str(op);
    writer.i64(*version);
    for operands in [inputs, outputs] {
        writer.count(operands.len());
        for operand in operands {
            operand.map(|value| value.index() as u32).encode(writer);
        }
    }
    writer.count(attributes.len());
    for (name, own) in attributes {
        writers.structure.str(name);
        attribute(writers, own);
    }
}

fn attribute(writers: &mut Writers, attribute: &Attribute) {
    let writer = &mut writers.structure;
    match attribute {
        Attribute::Other(kind) => {
            writer.u8(0);
            writer.i32(*kind);
        }
        Attribute::Float(value) => {
            writer.u8(1);
            writer.f32(*value);
        }
        Attribute::Int(value) => {
            writer.u8(2);
            writer.i64(*value);
        }
        Attribute::Text(bytes) => {
            writer.u8(3);
            writer.bytes(bytes);
        }
        Attribute::Tensor(own) => {
            writer.u8(4);
            tensor(writers, own);
        }
        Attribute::Graph(body) => {
            let Subgraph {
                graph: own,
                captures,
            } = &**body;
            writer.u8(5);
            writer.count(captures.len());
            for &capture in captures {
                writer.count(capture);
            }
            graph(writers, own);
        }
        Attribute::Floats(values) => {
            writer.u8(6);
            writer.count(values.len());
            for &value in values {
                writer.f32(value);
            }
        }
        Attribute::Ints(values) => {
            writer.u8(7);
            writer.seq(values);
        }
        Attribute::Texts(texts) => {
            writer.u8(8);
            writer.count(texts.len());
            for text in texts {
                writer.bytes(text);
            }
        }
        Attribute::Tensors(list) => {
            writer.u8(9);
            writer.count(list.len());
            for own in list {
                tensor(writers, own);
            }
        }
    }
}

/// Type and shape to the structure, elements to the constants.
fn tensor(writers: &mut Writers, tensor: &FloatTensor) {
    tensors::write_head(&mut writers.structure, tensor);
    tensors::write_elements(&mut writers.constants, tensor.data());
}
