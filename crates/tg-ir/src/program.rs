//! Programs: a typed graph in single-assignment form, canonically serialised. The public part of a model.

use crate::limits;
use crate::op::{Op, TypeRule};
pub use crate::shape::TensorId;
use crate::shape::{AXIS_MAX, ElementType, Shape, Tensors};
use crate::signature::{PORTS_MAX, Signature};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, ProgramId, domain::Domain};

/// Format version of the canonical encoding of a program without ties.
pub const PROGRAM_VERSION: u16 = 2;
/// Format version of the canonical encoding of a program with ties.
pub const TIED_PROGRAM_VERSION: u16 = 3;
/// Format version of the canonical encoding of a program with a signature, tied or not.
pub const SIGNED_PROGRAM_VERSION: u16 = 4;
/// Format version of the canonical encoding of a program with several outputs, signed or not, tied or not.
pub const OUTPUTS_PROGRAM_VERSION: u16 = 5;
/// Format version of the canonical encoding of a program whose tokens are those of a named tokenizer, with or without the rest.
pub const TOKENIZER_PROGRAM_VERSION: u16 = 6;
/// Most nodes of a program.
pub const NODES_MAX: usize = 4_096;
/// Most bytes of a name.
pub const NAME_MAX: usize = 128;

/// How the values of an input become integers.
#[derive(Debug, Clone, PartialEq)]
pub enum Coding {
    /// Rounded multiples of [`InputSpec::scale`], as i8 or i16.
    Scaled(ElementType),
    /// Per channel the number of these ascending thresholds that lie below the value, as i16: all that decision
    /// trees ask of a feature.
    Ranks(Vec<Vec<f32>>),
    /// Indices below this number (a vocabulary), as i32.
    Tokens(u32),
    /// Rounded multiples of the channel's own unit, as i16: features of a table that reach differently far.
    PerChannel(Vec<f32>),
}

/// Most thresholds of one feature.
pub const THRESHOLDS_MAX: usize = 32_767;
/// Largest vocabulary.
pub const VOCABULARY_MAX: u32 = 1 << 20;

/// What the program expects as input, and how real values become integers.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSpec {
    /// Shape of one input.
    pub shape: Shape,
    /// How real values become integers.
    pub coding: Coding,
    /// Real value of one unit of a scaled input: `q = clamp(floor(x / scale + 1/2), low, high)`, the bounds being
    /// those of its type. 1 for other codings.
    pub scale: f32,
    /// Per channel of an 8-bit image: `x = (v / 255 - mean) / std`. Empty: `x = v / 255`.
    pub mean: Vec<f32>,
    /// See `mean`; of the same length.
    pub std: Vec<f32>,
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

/// Two nodes that read one tensor of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tie {
    /// Index of the node that has no weights of its own (a bias is its own).
    pub node: u32,
    /// Index of the earlier node whose weights it reads; that one is not tied itself.
    pub to: u32,
}

/// The public part of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The model's name.
    pub name: String,
    /// What it takes.
    pub input: InputSpec,
    /// Nodes in an order in which every node reads earlier tensors only.
    pub nodes: Vec<Node>,
    /// What it gives, in the order of the signature: 2 to 16 of its tensors, the last node's among them. Empty: the last node's
    /// alone. See [`Self::outputs`].
    pub outputs: Vec<TensorId>,
    /// Nodes that read the weights of another one, ascending.
    pub ties: Vec<Tie>,
    /// What its integers mean in the file that it was made from, if it was made from one.
    pub signature: Option<Signature>,
    /// BLAKE3 digest of the `tokenizer.json` that makes its tokens of text, if it was compiled with one. Beside the signature, since
    /// a program that generates has none.
    pub tokenizer: Option<Digest>,
    /// BLAKE3 tree root of the weights' canonical encoding.
    pub weights_root: Digest,
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
        let mut at = tensor;
        while let Some(node) = at.index().checked_sub(1) {
            match self.nodes[node].op.output_type() {
                TypeRule::Fixed(kind) => return kind,
                TypeRule::SameAs(input) => at = input,
            }
        }
        self.input.element_type()
    }

    /// What the program gives, in order: at least one tensor, and at most [`PORTS_MAX`].
    #[must_use]
    pub fn outputs(&self) -> Vec<TensorId> {
        if self.outputs.is_empty() {
            vec![self.last()]
        } else {
            self.outputs.clone()
        }
    }

    /// The first output, the only one of most programs.
    #[must_use]
    pub fn output(&self) -> TensorId {
        self.outputs.first().copied().unwrap_or_else(|| self.last())
    }

    /// The output of the last node.
    #[must_use]
    pub fn last(&self) -> TensorId {
        TensorId(u32::try_from(self.nodes.len()).expect("a program has few nodes"))
    }

    /// Bytes of one input in storage order: one, two or four (little-endian) per element.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.input.shape.elements() * self.input.element_type().bytes()
    }

    /// Bytes of the outputs for one input, one after the other in storage order: one, two or four (little-endian) per element.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        let outputs = self.outputs().into_iter();
        let bytes = outputs.map(|id| self.shape(id).elements() * self.element_type(id).bytes());
        // Of hostile programs, where an address has 32 bits.
        bytes.fold(0, usize::saturating_add)
    }

    /// Elements of the outputs for one input.
    #[must_use]
    pub fn output_elements(&self) -> usize {
        let outputs = self.outputs().into_iter();
        let elements = outputs.map(|id| self.shape(id).elements());
        elements.fold(0, usize::saturating_add)
    }

    /// Products of one output element of a node (0 for nodes that multiply nothing).
    #[must_use]
    pub fn reduction(&self, node: usize) -> usize {
        let operator = self.nodes[node].op.operator();
        operator.reduction(&|id| self.shape(id))
    }

    /// How often one output element of a node looks at values beside those that weights multiply, at most.
    #[must_use]
    pub fn looks(&self, node: usize) -> u64 {
        let operator = self.nodes[node].op.operator();
        operator.looks(&|id| self.shape(id))
    }

    /// Lengths of the axes of the weights that a node reads (biases not counted): `[out][position][in]` of a linear
    /// node (a position of a dense node is an input pixel), `[pixel][1][channel]` of parameters, `[row][1][channel]` of
    /// a table; nothing if it reads none.
    #[must_use]
    pub fn weight_axes(&self, node: usize) -> Option<[usize; 3]> {
        let Node { op, shape, .. } = &self.nodes[node];
        op.operator().weight_axes(*shape, &|id| self.shape(id))
    }

    /// Weights that a node reads, its own or those it is tied to (biases not counted).
    #[must_use]
    pub fn weights_of(&self, node: usize) -> usize {
        let axes = self.weight_axes(node);
        axes.map_or(0, |axes| axes.into_iter().product())
    }

    /// The node whose weights a node reads: itself if it is not tied.
    #[must_use]
    pub fn weights_owner(&self, node: usize) -> usize {
        let place = self
            .ties
            .binary_search_by_key(&node, |tie| tie.node as usize);
        place.map_or(node, |place| self.ties[place].to as usize)
    }

    /// Multiply-accumulates of one execution.
    #[must_use]
    pub fn macs(&self) -> u64 {
        (0..self.nodes.len())
            .map(|node| self.reduction(node) as u64 * self.nodes[node].shape.elements() as u64)
            .sum()
    }

    /// Types of the elements of all tensors, the input first: each is looked at once.
    ///
    /// # Panics
    /// If a node reads a later one; a valid program has none.
    #[must_use]
    pub fn element_types(&self) -> Vec<ElementType> {
        let mut types = vec![self.input.element_type()];
        for node in 0..self.nodes.len() {
            types.push(self.output_type(node, &types));
        }
        types
    }

    /// Type of a node's output, given those of all tensors before it.
    pub(crate) fn output_type(&self, node: usize, types: &[ElementType]) -> ElementType {
        match self.nodes[node].op.output_type() {
            TypeRule::Fixed(kind) => kind,
            TypeRule::SameAs(input) => types[input.index()],
        }
    }
}

impl InputSpec {
    /// An input of rounded i8 multiples of a scale, without image normalisation.
    #[must_use]
    pub const fn scaled(shape: Shape, scale: f32) -> Self {
        Self {
            shape,
            coding: Coding::Scaled(ElementType::I8),
            scale,
            mean: Vec::new(),
            std: Vec::new(),
        }
    }

    /// Type of the input's elements.
    #[must_use]
    pub const fn element_type(&self) -> ElementType {
        match self.coding {
            Coding::Scaled(kind) => kind,
            Coding::Ranks(_) | Coding::PerChannel(_) => ElementType::I16,
            Coding::Tokens(_) => ElementType::I32,
        }
    }

    /// Real value of one unit of a channel; 1 where integers stand for no multiples.
    ///
    /// # Panics
    /// If the input has no such channel.
    #[must_use]
    pub fn unit(&self, channel: usize) -> f32 {
        match &self.coding {
            Coding::Scaled(_) => self.scale,
            Coding::Ranks(_) | Coding::Tokens(_) => 1.0,
            Coding::PerChannel(units) => units[channel],
        }
    }

    /// The greatest absolute value of an input element.
    #[must_use]
    pub fn greatest(&self) -> i64 {
        match &self.coding {
            Coding::Scaled(ElementType::I8) => limits::ACTIVATION_MAX,
            Coding::Scaled(_) | Coding::Ranks(_) | Coding::PerChannel(_) => {
                limits::WIDE_ACTIVATION_MAX
            }
            Coding::Tokens(vocabulary) => i64::from(*vocabulary),
        }
    }

    /// Whether a value is one that the coding gives for a channel.
    #[must_use]
    pub fn admits(&self, channel: usize, value: i32) -> bool {
        match &self.coding {
            Coding::Scaled(ElementType::I8) => i8::try_from(value).is_ok(),
            Coding::Scaled(_) | Coding::PerChannel(_) => value.unsigned_abs() <= 32_767,
            Coding::Ranks(thresholds) => {
                usize::try_from(value).is_ok_and(|rank| rank <= thresholds[channel].len())
            }
            Coding::Tokens(vocabulary) => u32::try_from(value).is_ok_and(|v| v < *vocabulary),
        }
    }

    pub(crate) fn coding_is_valid(&self) -> bool {
        match &self.coding {
            Coding::Scaled(kind) => *kind != ElementType::I32,
            Coding::Ranks(thresholds) => {
                thresholds.len() == self.shape.channels as usize
                    && thresholds
                        .iter()
                        .all(|list| list.windows(2).all(|pair| pair[0] < pair[1]))
            }
            Coding::Tokens(vocabulary) => (1..=VOCABULARY_MAX).contains(vocabulary),
            Coding::PerChannel(units) => {
                let positive = |unit: &f32| *unit > 0.0 && unit.is_finite();
                units.len() == self.shape.channels as usize && units.iter().all(positive)
            }
        }
    }
}

impl Tensors for Program {
    fn shape(&self, tensor: TensorId) -> Shape {
        Self::shape(self, tensor)
    }

    fn is_probabilities(&self, tensor: TensorId) -> bool {
        let node = tensor.index().checked_sub(1);
        node.is_some_and(|node| matches!(self.nodes[node].op, Op::Softmax(_)))
    }
}

impl Encode for Program {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            name,
            input,
            nodes,
            outputs,
            ties,
            signature,
            tokenizer,
            weights_root,
        } = self;
        let several = !outputs.is_empty();
        writer.raw(b"TGP\0");
        writer.u16(match signature {
            _ if tokenizer.is_some() => TOKENIZER_PROGRAM_VERSION,
            _ if several => OUTPUTS_PROGRAM_VERSION,
            Some(_) => SIGNED_PROGRAM_VERSION,
            None if ties.is_empty() => PROGRAM_VERSION,
            None => TIED_PROGRAM_VERSION,
        });
        writer.str(name);
        input.encode(writer);
        writer.seq(nodes);
        let listed = several || tokenizer.is_some();
        if listed || signature.is_some() || !ties.is_empty() {
            writer.seq(ties);
        }
        if listed {
            writer.count(outputs.len());
            outputs.iter().for_each(|id| writer.u32(id.0));
            writer.count(usize::from(signature.is_some()));
        }
        if let Some(signature) = signature {
            signature.encode(writer);
        }
        if let Some(tokenizer) = tokenizer {
            tokenizer.encode(writer);
        }
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
        if !(PROGRAM_VERSION..=TOKENIZER_PROGRAM_VERSION).contains(&version) {
            return Err(DecodeError::Invalid {
                field: "program version",
                value: u64::from(version),
            });
        }
        let name = reader.str("program name", NAME_MAX)?.to_owned();
        let input = InputSpec::decode(reader)?;
        let nodes = reader.seq("nodes", NODES_MAX, 16)?;
        let ties = match version {
            PROGRAM_VERSION => Vec::new(),
            TIED_PROGRAM_VERSION => decode_ties(reader)?,
            _ => reader.seq("ties", NODES_MAX, 8)?,
        };
        let (outputs, signed) = match version {
            OUTPUTS_PROGRAM_VERSION | TOKENIZER_PROGRAM_VERSION => {
                let outputs = decode_outputs(reader, version)?;
                (outputs, reader.count("signatures", 1, 8)? > 0)
            }
            _ => (Vec::new(), version == SIGNED_PROGRAM_VERSION),
        };
        let signature = signed.then(|| Signature::decode(reader)).transpose()?;
        let named = version == TOKENIZER_PROGRAM_VERSION;
        let tokenizer = named.then(|| Digest::decode(reader)).transpose()?;
        Ok(Self {
            name,
            input,
            nodes,
            outputs,
            ties,
            signature,
            tokenizer,
            weights_root: Digest::decode(reader)?,
        })
    }
}

/// At least two outputs, or none where a tokenizer is named: a program of one output has an empty list or a version without.
fn decode_outputs(reader: &mut Reader<'_>, version: u16) -> Result<Vec<TensorId>, DecodeError> {
    let count = reader.count("outputs", PORTS_MAX, 4)?;
    let fits = match count {
        0 => version == TOKENIZER_PROGRAM_VERSION,
        count => count > 1,
    };
    if !fits {
        return Err(DecodeError::Invalid {
            field: "outputs",
            value: count as u64,
        });
    }
    (0..count).map(|_| Ok(TensorId(reader.u32()?))).collect()
}

/// At least one tie: a program without has the version without.
fn decode_ties(reader: &mut Reader<'_>) -> Result<Vec<Tie>, DecodeError> {
    let ties: Vec<Tie> = reader.seq("ties", NODES_MAX, 8)?;
    if ties.is_empty() {
        return Err(DecodeError::Invalid {
            field: "ties",
            value: 0,
        });
    }
    Ok(ties)
}

impl Encode for Tie {
    fn encode(&self, writer: &mut Writer) {
        let Self { node, to } = *self;
        writer.u32(node);
        writer.u32(to);
    }
}

impl Decode for Tie {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: reader.u32()?,
            to: reader.u32()?,
        })
    }
}

impl Encode for InputSpec {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            shape,
            coding,
            scale,
            mean,
            std,
        } = self;
        shape.encode(writer);
        coding.encode(writer);
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
        let coding = Coding::decode(reader)?;
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
            coding,
            scale,
            mean,
            std,
        })
    }
}

impl Encode for Coding {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Scaled(kind) => {
                writer.u8(0);
                kind.encode(writer);
            }
            Self::Ranks(thresholds) => {
                writer.u8(1);
                writer.count(thresholds.len());
                for list in thresholds {
                    writer.count(list.len());
                    list.iter().for_each(|&value| writer.f32(value));
                }
            }
            Self::Tokens(vocabulary) => {
                writer.u8(2);
                writer.u32(*vocabulary);
            }
            Self::PerChannel(units) => {
                writer.u8(3);
                writer.count(units.len());
                units.iter().for_each(|&unit| writer.f32(unit));
            }
        }
    }
}

impl Decode for Coding {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Scaled(ElementType::decode(reader)?)),
            1 => {
                let features = reader.count("features", AXIS_MAX as usize, 4)?;
                let mut list = || {
                    let count = reader.count("thresholds", THRESHOLDS_MAX, 4)?;
                    (0..count).map(|_| reader.f32("threshold")).collect()
                };
                let lists = (0..features).map(|_| list());
                Ok(Self::Ranks(lists.collect::<Result<_, DecodeError>>()?))
            }
            2 => Ok(Self::Tokens(reader.u32()?)),
            3 => {
                let channels = reader.count("input units", AXIS_MAX as usize, 4)?;
                let units = (0..channels).map(|_| reader.f32("input unit"));
                Ok(Self::PerChannel(units.collect::<Result<_, _>>()?))
            }
            other => Err(DecodeError::Invalid {
                field: "input coding",
                value: u64::from(other),
            }),
        }
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
