//! Reads a graph.

use super::error::GraphDecodeError;
use super::limits::{
    ATTRIBUTES_MAX, DEPTH_MAX, LIST_MAX, NAME_BYTES_MAX, NODES_MAX, OPERANDS_MAX, OPSETS_MAX,
    PORTS_MAX, TEXT_BYTES_MAX, VALUES_MAX,
};
use super::tensors;
use crate::graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
use crate::tensor::{Data, FloatTensor, RANK_MAX};
use std::collections::BTreeMap;
use tg_types::{Decode as _, DecodeError, Reader};

/// Where structure and elements come from.
pub(super) struct Readers<'a> {
    pub(super) structure: Reader<'a>,
    /// Nothing where only the structure is read: tensors then are empty.
    pub(super) constants: Option<Reader<'a>>,
}

type Result<T, E = GraphDecodeError> = std::result::Result<T, E>;

impl From<DecodeError> for GraphDecodeError {
    /// Every reader here but that of elements is the structure's.
    fn from(error: DecodeError) -> Self {
        Self::Structure(error)
    }
}

pub(super) fn graph(readers: &mut Readers<'_>, depth: usize) -> Result<Graph> {
    if depth > DEPTH_MAX {
        return Err(GraphDecodeError::Depth);
    }
    let reader = &mut readers.structure;
    let name = name(reader)?;
    let opsets = opsets(reader)?;
    let count = reader.count("values", VALUES_MAX, 4)?;
    let names = (0..count)
        .map(|_| self::name(reader))
        .collect::<Result<_, _>>()?;
    let count = reader.count("inputs of a graph", PORTS_MAX, 10)?;
    let inputs = (0..count)
        .map(|_| input(reader))
        .collect::<Result<_, _>>()?;
    let count = reader.count("outputs of a graph", PORTS_MAX, 4)?;
    let outputs = (0..count)
        .map(|_| value(reader))
        .collect::<Result<_, _>>()?;
    let constants = constants(readers)?;
    let count = readers.structure.count("nodes", NODES_MAX, 36)?;
    let nodes = (0..count)
        .map(|_| node(readers, depth))
        .collect::<Result<_>>()?;
    let graph = Graph {
        name,
        opsets,
        inputs,
        outputs,
        nodes,
        constants,
        names,
    };
    graph.check().map_err(GraphDecodeError::Graph)?;
    Ok(graph)
}

fn name(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    Ok(reader.str("name", NAME_BYTES_MAX)?.to_owned())
}

fn value(reader: &mut Reader<'_>) -> Result<ValueId, DecodeError> {
    reader.u32().map(ValueId::new)
}

/// Refuses a key that does not follow the last one: keys ascend, so that a map has one encoding.
fn follow<K: Ord>(
    field: &'static str,
    last: Option<&K>,
    next: &K,
    place: usize,
) -> Result<(), DecodeError> {
    if last.is_some_and(|last| last >= next) {
        return Err(DecodeError::Invalid {
            field,
            value: place as u64,
        });
    }
    Ok(())
}

fn opsets(reader: &mut Reader<'_>) -> Result<BTreeMap<String, i64>, DecodeError> {
    let count = reader.count("operator sets", OPSETS_MAX, 12)?;
    let mut opsets = BTreeMap::new();
    for place in 0..count {
        let domain = name(reader)?;
        let last = opsets.last_key_value().map(|(domain, _)| domain);
        follow("order of operator sets", last, &domain, place)?;
        opsets.insert(domain, reader.i64()?);
    }
    Ok(opsets)
}

fn input(reader: &mut Reader<'_>) -> Result<Input, DecodeError> {
    let (value, name) = (value(reader)?, name(reader)?);
    let dtype = match reader.clone().u8()? {
        0 => {
            reader.u8()?;
            None
        }
        _ => Some(tensors::dtype(reader)?),
    };
    let shape = match reader.flag("whether an input's shape is known")? {
        false => None,
        true => {
            let count = reader.count("axes of an input", RANK_MAX, 1)?;
            Some((0..count).map(|_| axis(reader)).collect::<Result<_, _>>()?)
        }
    };
    Ok(Input {
        value,
        name,
        dtype,
        shape,
    })
}

fn axis(reader: &mut Reader<'_>) -> Result<Dim, DecodeError> {
    Ok(match reader.u8()? {
        0 => Dim::Unknown,
        1 => Dim::Known(tensors::size(reader)?),
        2 => Dim::Named(name(reader)?),
        tag => {
            return Err(DecodeError::Invalid {
                field: "axis of an input",
                value: tag.into(),
            });
        }
    })
}

fn constants(readers: &mut Readers<'_>) -> Result<BTreeMap<ValueId, FloatTensor>> {
    let count = readers.structure.count("constants", VALUES_MAX, 9)?;
    let mut constants = BTreeMap::new();
    for place in 0..count {
        let own = value(&mut readers.structure)?;
        let last = constants.last_key_value().map(|(value, _)| value);
        follow("order of constants", last, &own, place)?;
        constants.insert(own, tensor(readers)?);
    }
    Ok(constants)
}

fn tensor(readers: &mut Readers<'_>) -> Result<FloatTensor> {
    let (dtype, shape) = tensors::read_head(&mut readers.structure)?;
    let Some(count) = tensors::count(&shape) else {
        return Err(GraphDecodeError::Shape { shape });
    };
    let Some(constants) = &mut readers.constants else {
        return Ok(FloatTensor::new(vec![0], Data::zeros(dtype, 0))
            .expect("an empty vector has no element"));
    };
    let data = tensors::read_elements(constants, dtype, count);
    let data = data.map_err(GraphDecodeError::Constants)?;
    FloatTensor::new(shape.clone(), data).map_err(|_| GraphDecodeError::Shape { shape })
}

fn operands(reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<Option<ValueId>>> {
    let count = reader.count(field, OPERANDS_MAX, 1)?;
    let operand = |_| Ok(Option::<u32>::decode(reader)?.map(ValueId::new));
    (0..count).map(operand).collect()
}

fn node(readers: &mut Readers<'_>, depth: usize) -> Result<Node> {
    let reader = &mut readers.structure;
    let (name, domain, op) = (name(reader)?, self::name(reader)?, self::name(reader)?);
    let version = reader.i64()?;
    let inputs = operands(reader, "inputs of a node")?;
    let outputs = operands(reader, "outputs of a node")?;
    let count = reader.count("attributes", ATTRIBUTES_MAX, 6)?;
    let mut attributes = BTreeMap::new();
    for place in 0..count {
        let key = self::name(&mut readers.structure)?;
        let last = attributes.last_key_value().map(|(key, _)| key);
        follow("order of attributes", last, &key, place)?;
        let own = attribute(readers, depth)?;
        if let Attribute::Graph(body) = &own {
            let missing = |&&index: &&usize| !matches!(inputs.get(index), Some(Some(_)));
            if let Some(&index) = body.captures.iter().find(missing) {
                return Err(GraphDecodeError::Capture { node: name, index });
            }
        }
        attributes.insert(key, own);
    }
    Ok(Node {
        name,
        domain,
        op,
        version,
        attributes,
        inputs,
        outputs,
    })
}

fn attribute(readers: &mut Readers<'_>, depth: usize) -> Result<Attribute> {
    let reader = &mut readers.structure;
    Ok(match reader.u8()? {
        0 => Attribute::Other(reader.i32()?),
        1 => Attribute::Float(f32::from_bits(reader.u32()?)),
        2 => Attribute::Int(reader.i64()?),
        3 => Attribute::Text(text(reader)?),
        4 => Attribute::Tensor(tensor(readers)?),
        5 => {
            let count = reader.count("values that a body reads", OPERANDS_MAX, 4)?;
            let capture = |_| Ok(reader.u32()? as usize);
            let captures = (0..count)
                .map(capture)
                .collect::<Result<_, DecodeError>>()?;
            let graph = graph(readers, depth + 1)?;
            Attribute::Graph(Box::new(Subgraph { graph, captures }))
        }
        6 => {
            let count = reader.count("floats of an attribute", LIST_MAX, 4)?;
            let float = |_| Ok(f32::from_bits(reader.u32()?));
            Attribute::Floats((0..count).map(float).collect::<Result<_, DecodeError>>()?)
        }
        7 => Attribute::Ints(reader.seq("integers of an attribute", LIST_MAX, 8)?),
        8 => {
            let count = reader.count("texts of an attribute", LIST_MAX, 4)?;
            Attribute::Texts((0..count).map(|_| text(reader)).collect::<Result<_, _>>()?)
        }
        9 => {
            let count = reader.count("tensors of an attribute", LIST_MAX, 5)?;
            Attribute::Tensors((0..count).map(|_| tensor(readers)).collect::<Result<_>>()?)
        }
        tag => {
            return Err(GraphDecodeError::Structure(DecodeError::Invalid {
                field: "attribute",
                value: tag.into(),
            }));
        }
    })
}

fn text(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    Ok(reader.bytes("text", TEXT_BYTES_MAX)?.to_vec())
}
