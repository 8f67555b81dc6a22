//! Named tensors as a file: what a run is given, and its outputs.

use crate::codec::limits::{NAME_BYTES_MAX, PORTS_MAX};
use crate::codec::tensors;
use crate::graph::Graph;
use crate::tensor::FloatTensor;
use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

/// The first bytes of a file of tensors.
const MAGIC: &[u8; 4] = b"TGT\0";

/// Tensors with their names, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedTensors(pub Vec<(String, FloatTensor)>);

/// Why tensors are not the inputs of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamedTensorsError {
    /// They cannot be read.
    #[error("read the tensors")]
    Decode(#[from] DecodeError),
    /// The graph has others.
    #[error("the graph takes {expected}, the file has {got}")]
    Names {
        /// Names of the graph's inputs.
        expected: String,
        /// Names in the file.
        got: String,
    },
}

impl NamedTensors {
    /// Reads a file of tensors: the one encoding of them.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::from_bytes(bytes)
    }

    /// The tensors of a graph's inputs: all of them, by name, in the graph's order.
    ///
    /// # Errors
    /// If the names are others.
    pub fn inputs_of(&self, graph: &Graph) -> Result<Vec<&FloatTensor>, NamedTensorsError> {
        let expected = graph.inputs.iter().map(|input| input.name.as_str());
        let got = self.0.iter().map(|(name, _)| name.as_str());
        if !expected.clone().eq(got.clone()) {
            return Err(NamedTensorsError::Names {
                expected: listed(expected),
                got: listed(got),
            });
        }
        Ok(self.0.iter().map(|(_, tensor)| tensor).collect())
    }

    /// The values of a graph's outputs, with their names.
    #[must_use]
    pub fn outputs_of(graph: &Graph, values: Vec<FloatTensor>) -> Self {
        let names = graph.outputs.iter().map(|&value| graph.name_of(value));
        Self(names.map(str::to_owned).zip(values).collect())
    }

    /// The tensor of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FloatTensor> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, tensor)| tensor)
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => "no tensor".to_owned(),
        false => quoted.join(", "),
    }
}

/// `TGT\0`, a count, and for each tensor its name, element type, sizes and elements.
impl Encode for NamedTensors {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(MAGIC);
        writer.count(self.0.len());
        for (name, tensor) in &self.0 {
            writer.str(name);
            tensors::write_head(writer, tensor);
            tensors::write_elements(writer, tensor.data());
        }
    }
}

impl Decode for NamedTensors {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if magic != *MAGIC {
            return Err(DecodeError::Invalid {
                field: "beginning of a file of tensors",
                value: u32::from_le_bytes(magic).into(),
            });
        }
        let count = reader.count("tensors", PORTS_MAX, 9)?;
        let named = |_| {
            let name = reader.str("name of a tensor", NAME_BYTES_MAX)?.to_owned();
            let tensor = tensors::read_tensor(reader)?;
            Ok((name, tensor))
        };
        Ok(Self(
            (0..count).map(named).collect::<Result<_, DecodeError>>()?,
        ))
    }
}
