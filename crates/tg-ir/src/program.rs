//! Programs: a typed graph in single-assignment form, canonically serialised. The public part of a model.

use crate::bounds;
use crate::rescale::Rescale;
use crate::shape::{ElementType, Shape};
use crate::window::Window;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, ProgramId, domain::Domain};

/// Format version of the canonical encoding.
pub const PROGRAM_VERSION: u16 = 1;
/// Most nodes of a program.
pub const NODES_MAX: usize = 4_096;
/// Most bytes of a name.
pub const NAME_MAX: usize = 128;
/// Most (multiplier, shift) pairs of one requantisation: the calibrator clusters channels into a few.
pub const PAIRS_MAX: usize = 16;

/// A tensor of a program: 0 is the input, `i + 1` the output of node `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    /// The program's input.
    pub const INPUT: Self = Self(0);

    /// The output of a node.
    ///
    /// # Panics
    /// If the index does not fit 32 bits; a program has at most [`NODES_MAX`] nodes.
    #[must_use]
    pub fn of_node(node: usize) -> Self {
        Self(u32::try_from(node).expect("a program has few nodes") + 1)
    }

    /// As an index into a list that starts with the input.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the program expects as input, and how real values become integers.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSpec {
    /// Shape of one input.
    pub shape: Shape,
    /// Real value of one unit: `q = clamp(floor(x / scale + 1/2), -128, 127)`.
    pub scale: f32,
    /// Per channel of an 8-bit image: `x = (v / 255 - mean) / std`. Empty: `x = v / 255`.
    pub mean: Vec<f32>,
    /// See `mean`; of the same length.
    pub std: Vec<f32>,
}

/// Accumulators to activations: rescale, clamp, and an optional 256-entry table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requantise {
    /// The distinct rescales.
    pub pairs: Vec<Rescale>,
    /// Per channel the index of its pair, or one entry for all channels.
    pub channel_pairs: Vec<u8>,
    /// Least and greatest accumulator the segment table covers; the compiler proves that no input leaves it.
    pub range: [i32; 2],
    /// Least and greatest rescaled value.
    pub clamp: [i8; 2],
    /// Applied after the clamp: entry `y + 128`.
    pub table: Option<Vec<i8>>,
}

impl Requantise {
    /// The pair of a channel.
    #[must_use]
    pub fn pair_of(&self, channel: usize) -> u8 {
        if self.channel_pairs.len() == 1 {
            self.channel_pairs[0]
        } else {
            self.channel_pairs[channel]
        }
    }

    /// The activation of accumulator `x` under one of the rescales.
    #[must_use]
    pub fn output(&self, rescale: Rescale, x: i64) -> i8 {
        let [least, greatest] = self.clamp.map(i64::from);
        let y = i8::try_from(rescale.apply(x).clamp(least, greatest)).expect("clamped to 8 bits");
        match &self.table {
            None => y,
            Some(table) => table[usize::from(y.cast_unsigned() ^ 0x80)],
        }
    }
}

/// What a node computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Convolution: `acc[y, x, o] = bias[o] + sum over k, i of w[o, k, i] * in[source(y, x, k), i]`.
    Conv {
        /// An i8 tensor.
        input: TensorId,
        /// Kernel, stride, padding (zeros).
        window: Window,
    },
    /// Fully connected: `acc[o] = bias[o] + sum over pixels p, channels i of w[o, p, i] * in[p, i]`.
    Dense {
        /// An i8 tensor.
        input: TensorId,
    },
    /// Window sums per channel: `acc[y, x, c] = sum over k of in[source(y, x, k), c]`; an average is the requantised
    /// sum.
    WindowSum {
        /// An i8 tensor.
        input: TensorId,
        /// Kernel, stride, padding (zeros, counted).
        window: Window,
    },
    /// Weighted sum of two tensors: `acc = a * multipliers[0] + b * multipliers[1]`.
    Add {
        /// Two i8 tensors of one shape.
        inputs: [TensorId; 2],
        /// Factors, each in [1, 2^15).
        multipliers: [u32; 2],
    },
    /// Accumulators (or activations) to activations.
    Requantise {
        /// An i32 or i8 tensor.
        input: TensorId,
        /// How.
        how: Requantise,
    },
    /// Window maxima per channel; padding is skipped.
    MaxPool {
        /// An i8 tensor.
        input: TensorId,
        /// Kernel, stride, padding.
        window: Window,
    },
    /// A permutation of elements: output element `j` is input element `source[j]` (both in storage order).
    Permute {
        /// An i8 tensor.
        input: TensorId,
        /// One input index per output element, each exactly once.
        source: Vec<u32>,
    },
}

impl Op {
    /// The operator's name in messages and reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::Dense { .. } => "Dense",
            Self::WindowSum { .. } => "WindowSum",
            Self::Add { .. } => "Add",
            Self::Requantise { .. } => "Requantise",
            Self::MaxPool { .. } => "MaxPool",
            Self::Permute { .. } => "Permute",
        }
    }

    /// The tensors the node reads.
    #[must_use]
    pub fn inputs(&self) -> Vec<TensorId> {
        match self {
            Self::Conv { input, window: _ }
            | Self::Dense { input }
            | Self::WindowSum { input, window: _ }
            | Self::Requantise { input, how: _ }
            | Self::MaxPool { input, window: _ }
            | Self::Permute { input, source: _ } => vec![*input],
            Self::Add {
                inputs,
                multipliers: _,
            } => inputs.to_vec(),
        }
    }

    /// The type of the node's output.
    #[must_use]
    pub const fn output_type(&self) -> ElementType {
        match self {
            Self::Conv { .. } | Self::Dense { .. } | Self::WindowSum { .. } | Self::Add { .. } => {
                ElementType::I32
            }
            Self::Requantise { .. } | Self::MaxPool { .. } | Self::Permute { .. } => {
                ElementType::I8
            }
        }
    }

    /// Whether the node has weights.
    #[must_use]
    pub const fn has_weights(&self) -> bool {
        matches!(self, Self::Conv { .. } | Self::Dense { .. })
    }
}

/// One node: its name in the source model, its operator, the shape it gives, and the real value of one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The name of the node in the imported file, for messages.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Shape of its output.
    pub shape: Shape,
    /// Real value of one unit of its output. Informative: execution never reads it.
    pub scale: f32,
}

/// The public part of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The model's name.
    pub name: String,
    /// What it takes.
    pub input: InputSpec,
    /// Nodes in an order in which every node reads earlier tensors only. The last one gives the output.
    pub nodes: Vec<Node>,
    /// BLAKE3 tree root of the weights' canonical encoding.
    pub weights_root: Digest,
}

/// Why a program is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The bytes are not a canonical program.
    #[error("the program cannot be read")]
    Decode(#[from] DecodeError),
    /// A program without nodes.
    #[error("the program has no nodes")]
    Empty,
    /// An input shape with an empty or too large axis.
    #[error("the program's input has the invalid shape {stated}")]
    BadInputShape {
        /// The stated shape.
        stated: Shape,
    },
    /// A node reads a tensor that does not come before it, or of the wrong type.
    #[error(
        "node {node} `{name}` reads tensor {tensor}, which is not an earlier tensor of the right type"
    )]
    BadInput {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The tensor.
        tensor: u32,
    },
    /// The stated shape is not what the operator gives.
    #[error(
        "node {node} `{name}` ({op}) states the shape {stated}, which its inputs and attributes do not give"
    )]
    BadShape {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The operator.
        op: &'static str,
        /// The stated shape.
        stated: Shape,
    },
    /// An attribute is outside its range.
    #[error("node {node} `{name}` ({op}) has an invalid {attribute}")]
    BadAttribute {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The operator.
        op: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// An accumulator could leave the field.
    #[error(transparent)]
    Bound(#[from] bounds::BoundError),
}

impl Program {
    /// BLAKE3 of the canonical encoding.
    #[must_use]
    pub fn id(&self) -> ProgramId {
        ProgramId::new(*Digest::of(Domain::Program, &self.to_bytes()).as_bytes())
    }

    /// Shape of a tensor.
    #[must_use]
    pub fn shape(&self, tensor: TensorId) -> Shape {
        if tensor == TensorId::INPUT {
            self.input.shape
        } else {
            self.nodes[tensor.index() - 1].shape
        }
    }

    /// Type of a tensor's elements.
    #[must_use]
    pub fn element_type(&self, tensor: TensorId) -> ElementType {
        if tensor == TensorId::INPUT {
            ElementType::I8
        } else {
            self.nodes[tensor.index() - 1].op.output_type()
        }
    }

    /// The program's output.
    #[must_use]
    pub fn output(&self) -> TensorId {
        TensorId(u32::try_from(self.nodes.len()).expect("a program has few nodes"))
    }

    /// Bytes of one output: one per i8 element, four (little-endian) per i32 element.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        let output = self.output();
        let width = match self.element_type(output) {
            ElementType::I8 => 1,
            ElementType::I32 => 4,
        };
        self.shape(output).elements() * width
    }

    /// Products of one output element of a node with weights (0 for the others).
    #[must_use]
    pub fn reduction(&self, node: usize) -> usize {
        match &self.nodes[node].op {
            Op::Conv { input, window } => window.positions() * self.shape(*input).channels as usize,
            Op::Dense { input } => self.shape(*input).elements(),
            Op::WindowSum { .. }
            | Op::Add { .. }
            | Op::Requantise { .. }
            | Op::MaxPool { .. }
            | Op::Permute { .. } => 0,
        }
    }

    /// Multiply-accumulates of one execution.
    #[must_use]
    pub fn macs(&self) -> u64 {
        (0..self.nodes.len())
            .map(|node| self.reduction(node) as u64 * self.nodes[node].shape.elements() as u64)
            .sum()
    }

    /// Checks that the graph is well formed, every shape is what its operator gives, every attribute is in range,
    /// and no accumulator can leave the field (whatever the weights: they are private).
    ///
    /// # Errors
    /// The first thing that is wrong, by node.
    pub fn validate(&self) -> Result<(), ProgramError> {
        if self.nodes.is_empty() {
            return Err(ProgramError::Empty);
        }
        if !self.input.shape.is_valid() {
            return Err(ProgramError::BadInputShape {
                stated: self.input.shape,
            });
        }
        for node in 0..self.nodes.len() {
            self.validate_inputs(node)?;
            let bad_shape = || {
                let Node {
                    name, op, shape, ..
                } = &self.nodes[node];
                ProgramError::BadShape {
                    node,
                    name: name.clone(),
                    op: op.name(),
                    stated: *shape,
                }
            };
            if !self.nodes[node].shape.is_valid() {
                return Err(bad_shape());
            }
            self.validate_attributes(node)?;
            if self.expected_shape(node) != Some(self.nodes[node].shape) {
                return Err(bad_shape());
            }
        }
        bounds::check(self)?;
        Ok(())
    }

    fn validate_inputs(&self, node: usize) -> Result<(), ProgramError> {
        let Node { name, op, .. } = &self.nodes[node];
        for input in op.inputs() {
            let earlier = input.index() <= node;
            let accumulators = earlier && self.element_type(input) == ElementType::I32;
            if !earlier || (accumulators && !matches!(op, Op::Requantise { .. })) {
                return Err(ProgramError::BadInput {
                    node,
                    name: name.clone(),
                    tensor: input.0,
                });
            }
        }
        Ok(())
    }

    fn validate_attributes(&self, node: usize) -> Result<(), ProgramError> {
        let Node {
            name, op, shape, ..
        } = &self.nodes[node];
        let bad = |attribute| ProgramError::BadAttribute {
            node,
            name: name.clone(),
            op: op.name(),
            attribute,
        };
        match op {
            Op::Conv { window, .. } | Op::WindowSum { window, .. } | Op::MaxPool { window, .. } => {
                if !window.is_valid() {
                    return Err(bad("window"));
                }
            }
            Op::Add { multipliers, .. } => {
                if multipliers
                    .iter()
                    .any(|m| !(1..=crate::rescale::MULTIPLIER_MAX).contains(m))
                {
                    return Err(bad("multiplier"));
                }
            }
            Op::Requantise { how, .. } => {
                let channels = shape.channels as usize;
                if how.pairs.is_empty() || how.pairs.len() > PAIRS_MAX {
                    return Err(bad("number of multiplier pairs"));
                }
                if !(how.channel_pairs.len() == 1 || how.channel_pairs.len() == channels)
                    || how
                        .channel_pairs
                        .iter()
                        .any(|&pair| usize::from(pair) >= how.pairs.len())
                {
                    return Err(bad("channel to multiplier map"));
                }
                if how.range[0] > how.range[1] || how.clamp[0] > how.clamp[1] {
                    return Err(bad("range"));
                }
                if how.table.as_ref().is_some_and(|table| table.len() != 256) {
                    return Err(bad("value table"));
                }
            }
            Op::Permute { source, .. } => {
                // A stated shape costs nothing to write down: its size is allocated only if the list has it.
                if source.len() != shape.elements() {
                    return Err(bad("permutation"));
                }
                let mut seen = vec![false; source.len()];
                let distinct = source.iter().all(|&index| {
                    seen.get_mut(index as usize)
                        .is_some_and(|seen| !std::mem::replace(seen, true))
                });
                if !distinct {
                    return Err(bad("permutation"));
                }
            }
            Op::Dense { .. } => {}
        }
        Ok(())
    }

    /// The shape an operator gives for its inputs; for a node with weights the output channels are its own to state.
    fn expected_shape(&self, node: usize) -> Option<Shape> {
        let stated = self.nodes[node].shape;
        match &self.nodes[node].op {
            Op::Conv { input, window } => window
                .output(self.shape(*input))
                .map(|[height, width]| Shape::new(height, width, stated.channels)),
            Op::WindowSum { input, window } | Op::MaxPool { input, window } => {
                let input = self.shape(*input);
                window
                    .output(input)
                    .map(|[height, width]| Shape::new(height, width, input.channels))
            }
            Op::Dense { .. } => Some(Shape::vector(stated.channels)),
            Op::Add { inputs: [a, b], .. } => {
                (self.shape(*a) == self.shape(*b)).then(|| self.shape(*a))
            }
            Op::Requantise { input, .. } => Some(self.shape(*input)),
            Op::Permute { input, .. } => {
                (self.shape(*input).elements() == stated.elements()).then_some(stated)
            }
        }
    }
}

impl Encode for Program {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            name,
            input,
            nodes,
            weights_root,
        } = self;
        writer.raw(b"TGP\0");
        writer.u16(PROGRAM_VERSION);
        writer.str(name);
        input.encode(writer);
        writer.seq(nodes);
        weights_root.encode(writer);
    }
}

impl Decode for Program {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if &magic != b"TGP\0" {
            return Err(DecodeError::Invalid {
                field: "program magic",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let version = reader.u16()?;
        if version != PROGRAM_VERSION {
            return Err(DecodeError::Invalid {
                field: "program version",
                value: u64::from(version),
            });
        }
        Ok(Self {
            name: reader.str("program name", NAME_MAX)?.to_owned(),
            input: InputSpec::decode(reader)?,
            nodes: reader.seq("nodes", NODES_MAX, 16)?,
            weights_root: Digest::decode(reader)?,
        })
    }
}

impl Encode for InputSpec {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            shape,
            scale,
            mean,
            std,
        } = self;
        shape.encode(writer);
        writer.f32(*scale);
        for list in [mean, std] {
            writer.count(list.len());
            list.iter().for_each(|&value| writer.f32(value));
        }
    }
}

impl Decode for InputSpec {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let shape = Shape::decode(reader)?;
        let scale = reader.f32("input scale")?;
        if scale <= 0.0 {
            return Err(DecodeError::Invalid {
                field: "input scale",
                value: u64::from(scale.to_bits()),
            });
        }
        let mut list = |field| {
            let count = reader.count(field, shape.channels as usize, 4)?;
            (0..count)
                .map(|_| reader.f32(field))
                .collect::<Result<Vec<_>, _>>()
        };
        let (mean, std) = (list("input mean")?, list("input std")?);
        let full = [0, shape.channels as usize];
        if !full.contains(&mean.len())
            || mean.len() != std.len()
            || std.iter().any(|&value| value <= 0.0)
        {
            return Err(DecodeError::Invalid {
                field: "input normalisation",
                value: mean.len() as u64,
            });
        }
        Ok(Self {
            shape,
            scale,
            mean,
            std,
        })
    }
}

impl Encode for Node {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            name,
            op,
            shape,
            scale,
        } = self;
        writer.str(name);
        op.encode(writer);
        shape.encode(writer);
        writer.f32(*scale);
    }
}

impl Decode for Node {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.str("node name", NAME_MAX)?.to_owned(),
            op: Op::decode(reader)?,
            shape: Shape::decode(reader)?,
            scale: reader.f32("node scale")?,
        })
    }
}

impl Encode for Op {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Conv { input, window } => {
                writer.u8(0);
                writer.u32(input.0);
                window.encode(writer);
            }
            Self::Dense { input } => {
                writer.u8(1);
                writer.u32(input.0);
            }
            Self::WindowSum { input, window } => {
                writer.u8(2);
                writer.u32(input.0);
                window.encode(writer);
            }
            Self::Add {
                inputs,
                multipliers,
            } => {
                writer.u8(3);
                inputs.iter().for_each(|input| writer.u32(input.0));
                multipliers
                    .iter()
                    .for_each(|&multiplier| writer.u32(multiplier));
            }
            Self::Requantise { input, how } => {
                writer.u8(4);
                writer.u32(input.0);
                how.encode(writer);
            }
            Self::MaxPool { input, window } => {
                writer.u8(5);
                writer.u32(input.0);
                window.encode(writer);
            }
            Self::Permute { input, source } => {
                writer.u8(6);
                writer.u32(input.0);
                writer.count(source.len());
                source.iter().for_each(|&index| writer.u32(index));
            }
        }
    }
}

impl Decode for Op {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let input = TensorId(reader.u32()?);
        Ok(match tag {
            0 => Self::Conv {
                input,
                window: Window::decode(reader)?,
            },
            1 => Self::Dense { input },
            2 => Self::WindowSum {
                input,
                window: Window::decode(reader)?,
            },
            3 => Self::Add {
                inputs: [input, TensorId(reader.u32()?)],
                multipliers: [reader.u32()?, reader.u32()?],
            },
            4 => Self::Requantise {
                input,
                how: Requantise::decode(reader)?,
            },
            5 => Self::MaxPool {
                input,
                window: Window::decode(reader)?,
            },
            6 => {
                let count = reader.count("permutation", crate::shape::ELEMENTS_MAX as usize, 4)?;
                Self::Permute {
                    input,
                    source: (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?,
                }
            }
            _ => {
                return Err(DecodeError::Invalid {
                    field: "operator",
                    value: u64::from(tag),
                });
            }
        })
    }
}

impl Encode for Requantise {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            pairs,
            channel_pairs,
            range,
            clamp,
            table,
        } = self;
        writer.seq(pairs);
        writer.bytes(channel_pairs);
        range.iter().for_each(|&value| writer.i32(value));
        clamp
            .iter()
            .for_each(|&value| writer.u8(value.cast_unsigned()));
        match table {
            None => writer.u8(0),
            Some(table) => {
                writer.u8(1);
                writer.bytes(
                    &table
                        .iter()
                        .map(|value| value.cast_unsigned())
                        .collect::<Vec<_>>(),
                );
            }
        }
    }
}

impl Decode for Requantise {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let pairs = reader.seq("multiplier pairs", PAIRS_MAX, 8)?;
        let channel_pairs = reader
            .bytes("channel pairs", crate::shape::AXIS_MAX as usize)?
            .to_vec();
        let range = [reader.i32()?, reader.i32()?];
        let clamp = [reader.u8()?.cast_signed(), reader.u8()?.cast_signed()];
        let table = match reader.u8()? {
            0 => None,
            1 => Some(
                reader
                    .bytes("value table", 256)?
                    .iter()
                    .map(|value| value.cast_signed())
                    .collect(),
            ),
            other => {
                return Err(DecodeError::Invalid {
                    field: "value table flag",
                    value: u64::from(other),
                });
            }
        };
        Ok(Self {
            pairs,
            channel_pairs,
            range,
            clamp,
            table,
        })
    }
}
