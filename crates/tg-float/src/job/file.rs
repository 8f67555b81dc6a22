//! The files of a float model.

use super::limits::{
    MEMORY_MAX, NODE_RECORD_BYTES, OUTPUT_BYTES_MAX, TIER_VERSION, VALUE_RECORD_BYTES, WORK_MAX,
};
use crate::codec::limits::{CONSTANTS_BYTES_MAX, STRUCTURE_BYTES_MAX};
use crate::codec::{EncodedGraph, GraphDecodeError, decode, decode_structure, encode};
use crate::graph::{Attribute, Graph};
use crate::tgf::is_known;
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{
    Decode, DecodeError, Digest, Domain, Encode, ModelId, ProgramId, Reader, Writer, fields,
};

/// The first bytes of a public part.
const PUBLIC_MAGIC: &[u8; 4] = b"TGF\0";
/// The first bytes of a whole file.
const FILE_MAGIC: &[u8; 4] = b"TGFW";

/// What one run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatLimits {
    /// Units of work, 1 to [`WORK_MAX`]. A job on the model is priced by it, and pays for what was taken.
    pub work: u64,
    /// Bytes of values that are alive at a time, 1 to [`MEMORY_MAX`].
    pub memory: u64,
    /// Bytes of an input, 1 to 1 MiB.
    pub input: u32,
    /// Bytes of an output, at most [`OUTPUT_BYTES_MAX`].
    pub output: u32,
}

fields! { FloatLimits { work, memory, input, output } }

impl Default for FloatLimits {
    /// The most of each.
    fn default() -> Self {
        Self {
            work: WORK_MAX,
            memory: MEMORY_MAX,
            input: INPUT_BYTES_MAX,
            output: OUTPUT_BYTES_MAX,
        }
    }
}

/// Why bytes are no file of a float model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FloatFileError {
    /// They do not begin as one.
    #[error("the file is no float model: it does not begin with TGF")]
    Magic,
    /// They are of another version.
    #[error("the model is of version {got} of TGF-1, this is version {TIER_VERSION}")]
    Version {
        /// The version in the file.
        got: u16,
    },
    /// They cannot be read.
    #[error("read the file of the float model")]
    Decode(#[from] DecodeError),
    /// A limit of a run is outside its range.
    #[error("the limit of {field} is {got}, it may be {least} to {most}")]
    Limit {
        /// Of what.
        field: &'static str,
        /// What the file says.
        got: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The graph cannot be read.
    #[error(transparent)]
    Graph(#[from] GraphDecodeError),
    /// The constants are others than the public part names.
    #[error("the constants are not those that the public part names")]
    Constants,
    /// An operator that this tier does not execute.
    #[error("node `{node}` is the operator {op}{domain}, which TGF-1 does not execute")]
    Operator {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// Its domain, with "of", unless it is ONNX's own.
        domain: String,
    },
}

/// The public part of a float model: what its id covers.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicFloatModel {
    id: ProgramId,
    limits: FloatLimits,
    constants: Digest,
    constants_len: u64,
    structure: Vec<u8>,
    outline: Graph,
}

/// Whether bytes begin as the public part of a float model; no other public part does.
#[must_use]
pub fn is_public_float(bytes: &[u8]) -> bool {
    bytes.starts_with(PUBLIC_MAGIC)
}

/// Whether bytes begin as the whole file of a float model.
#[must_use]
pub fn is_float_file(bytes: &[u8]) -> bool {
    bytes.starts_with(FILE_MAGIC)
}

/// What stands after the version.
struct PublicBody {
    limits: FloatLimits,
    constants: Digest,
    constants_len: u64,
    structure: Vec<u8>,
}

impl Decode for PublicBody {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            limits: FloatLimits::decode(reader)?,
            constants: Digest::decode(reader)?,
            constants_len: reader.u64()?,
            structure: reader.bytes("structure", STRUCTURE_BYTES_MAX)?.to_vec(),
        })
    }
}

impl PublicFloatModel {
    /// Reads a public part and checks all that does not need the constants.
    ///
    /// # Errors
    /// [`FloatFileError`], with what is wrong.
    pub fn read(bytes: &[u8]) -> Result<Self, FloatFileError> {
        let rest = bytes.strip_prefix(PUBLIC_MAGIC);
        let rest = rest.ok_or(FloatFileError::Magic)?;
        let mut reader = Reader::new(rest);
        let got = reader.u16()?;
        if got != TIER_VERSION {
            return Err(FloatFileError::Version { got });
        }
        let body = PublicBody::decode(&mut reader)?;
        reader.finish()?;
        let PublicBody {
            limits,
            constants,
            constants_len,
            structure,
        } = body;
        check_limits(&limits, constants_len)?;
        let outline = decode_structure(&structure)?;
        check_operators(&outline)?;
        Ok(Self {
            id: ProgramId::new(*Digest::of(Domain::FloatProgram, bytes).as_bytes()),
            limits,
            constants,
            constants_len,
            structure,
            outline,
        })
    }

    /// The hash of the public part.
    #[must_use]
    pub const fn id(&self) -> ProgramId {
        self.id
    }

    /// The id under which the model is registered and ordered: its public part names its constants already.
    #[must_use]
    pub fn model_id(&self) -> ModelId {
        let mut writer = Writer::new();
        self.id.encode(&mut writer);
        writer.bytes(&[]);
        ModelId::new(*Digest::of(Domain::Model, &writer.into_bytes()).as_bytes())
    }

    /// What one run may take.
    #[must_use]
    pub const fn limits(&self) -> FloatLimits {
        self.limits
    }

    /// The graph without the elements of its tensors: inputs, outputs and nodes.
    #[must_use]
    pub const fn outline(&self) -> &Graph {
        &self.outline
    }

    /// The digest of the constants.
    #[must_use]
    pub const fn constants(&self) -> Digest {
        self.constants
    }

    /// Bytes of the constants.
    #[must_use]
    pub const fn constants_len(&self) -> u64 {
        self.constants_len
    }

    /// Bytes of memory that the model takes to be kept ready, about: the structure takes a few times its bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        // Texts take a few times their bytes too.
        2 * self.constants_len + 16 * self.structure.len() as u64
    }

    /// Most bytes of what a record of a run says of the nodes ([`super::trace::RunRecord`]).
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        let nodes = self.outline.nodes.iter();
        let values: usize = nodes.map(|it| it.gives().count()).sum();
        (NODE_RECORD_BYTES * self.outline.nodes.len() + VALUE_RECORD_BYTES * values) as u64
    }

    /// The graph with these constants.
    pub(super) fn graph(&self, constants: &[u8]) -> Result<Graph, FloatFileError> {
        let is_named = constants.len() as u64 == self.constants_len
            && Digest::of_blob(constants) == self.constants;
        if !is_named {
            return Err(FloatFileError::Constants);
        }
        Ok(decode(&self.structure, constants)?)
    }
}

fn check_limits(limits: &FloatLimits, constants_len: u64) -> Result<(), FloatFileError> {
    for (field, got, least, most) in [
        ("work", limits.work, 1, WORK_MAX),
        ("memory", limits.memory, 1, MEMORY_MAX),
        ("input", limits.input.into(), 1, INPUT_BYTES_MAX.into()),
        ("output", limits.output.into(), 0, OUTPUT_BYTES_MAX.into()),
        ("constants", constants_len, 0, CONSTANTS_BYTES_MAX as u64),
    ] {
        if got < least || got > most {
            return Err(FloatFileError::Limit {
                field,
                got,
                least,
                most,
            });
        }
    }
    Ok(())
}

/// Checks that every operator is executed by this tier, in bodies too: each of those has its cost.
fn check_operators(graph: &Graph) -> Result<(), FloatFileError> {
    for node in &graph.nodes {
        if !is_known(node) {
            let domain = match node.domain.as_str() {
                "" => String::new(),
                domain => format!(" of {domain}"),
            };
            return Err(FloatFileError::Operator {
                node: node.name.clone(),
                op: node.op.clone(),
                domain,
            });
        }
        for attribute in node.attributes.values() {
            if let Attribute::Graph(body) = attribute {
                check_operators(&body.graph)?;
            }
        }
    }
    Ok(())
}

/// The files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatModelFile {
    /// The public part: `TGF\0`, the version, the limits, digest and length of the constants, and the structure, counted.
    pub public: Vec<u8>,
    /// The whole file: `TGFW`, the public part, counted, and the constants.
    pub file: Vec<u8>,
}

impl FloatModelFile {
    /// The files of a graph.
    ///
    /// # Errors
    /// If the graph is not well formed, larger than a file may be, or has an operator that the tier does not execute.
    pub fn new(graph: &Graph, limits: FloatLimits) -> Result<Self, FloatFileError> {
        let EncodedGraph {
            structure,
            constants,
        } = encode(graph);
        let mut writer = Writer::new();
        writer.raw(PUBLIC_MAGIC);
        writer.u16(TIER_VERSION);
        limits.encode(&mut writer);
        Digest::of_blob(&constants).encode(&mut writer);
        writer.u64(constants.len() as u64);
        writer.bytes(&structure);
        let public = writer.into_bytes();
        PublicFloatModel::read(&public)?.graph(&constants)?;
        let mut writer = Writer::new();
        writer.raw(FILE_MAGIC);
        writer.bytes(&public);
        writer.raw(&constants);
        Ok(Self {
            public,
            file: writer.into_bytes(),
        })
    }

    /// Public part and constants of a whole file, neither checked.
    ///
    /// # Errors
    /// If the bytes do not begin as one.
    pub fn parts(file: &[u8]) -> Result<(&[u8], &[u8]), FloatFileError> {
        let rest = file.strip_prefix(FILE_MAGIC).ok_or(FloatFileError::Magic)?;
        let mut reader = Reader::new(rest);
        let public = reader.bytes("public part", super::limits::PUBLIC_BYTES_MAX as usize)?;
        let constants = reader.raw(reader.remaining())?;
        Ok((public, constants))
    }

    /// What stands in a whole file before the constants, given the public part.
    #[must_use]
    pub fn head(public: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(FILE_MAGIC);
        writer.bytes(public);
        writer.into_bytes()
    }
}
