//! Why a proof is rejected. Every check has a stable code.

use crate::argument::hiding::HidingError;
use crate::verify::registration::RegistrationError;

/// What a node's messages can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCheck {
    /// The messages are not those of the node's operator, or of another length.
    Messages,
    /// Merging several claims on the output.
    Merge,
    /// Accumulators are the sum of products of weights and inputs.
    Products,
    /// Window products, sums or maxima read the right input pixels.
    Sources,
    /// An addition is the weighted sum of its inputs.
    Addition,
    /// Some difference of every maximum is zero.
    Attained,
    /// A public map moves or sums the right elements.
    Permutation,
    /// A product element by element is that of its factors.
    Multiplication,
    /// Parameters and rows of embeddings are the committed weights.
    Weights,
    /// Output, constraints and sums of a gadget hold on every element.
    Relation,
}

impl NodeCheck {
    /// The check in words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Messages => "message shape",
            Self::Merge => "claim merge",
            Self::Products => "product sumcheck (accumulators = weights x inputs + bias)",
            Self::Sources => "source sumcheck (windows read the right pixels)",
            Self::Addition => "addition",
            Self::Attained => "maximum attained",
            Self::Permutation => "public map (the right elements, moved or summed)",
            Self::Multiplication => "product sumcheck (element by element)",
            Self::Weights => "committed weights",
            Self::Relation => "relations of output and columns",
        }
    }
}

/// What the lookup argument can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupCheck {
    /// Lists of another length.
    Messages,
    /// A value that was not pulled from its table.
    Pulled,
    /// The fractional sum does not vanish.
    Sum,
    /// The leaves are not those of the committed columns.
    Leaves,
}

impl LookupCheck {
    /// The check in words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Messages => "lookup message shape",
            Self::Pulled => {
                "pulled values (segments, limbs and outputs come from the public tables)"
            }
            Self::Sum => "lookup sum",
            Self::Leaves => "lookup leaves (committed positions)",
        }
    }
}

/// Why a proof is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The proof's bytes are not canonical.
    #[error("the proof's bytes are not a canonical proof")]
    Encoding,
    /// The statement is about something else than expected.
    #[error("the proof states another {field} than expected")]
    Statement {
        /// The field.
        field: &'static str,
    },
    /// The model's weights are not shown to be in range.
    #[error("the model's registration does not verify")]
    Registration(#[from] RegistrationError),
    /// The program cannot be proved for so many inputs at once.
    #[error("a proof about {batch} inputs of this program is not admitted")]
    Batch {
        /// Inputs stated.
        batch: u32,
    },
    /// The input or output bytes are of another length than the program's.
    #[error("the {which} has {got} bytes, the program's has {expected}")]
    Length {
        /// Input or output.
        which: &'static str,
        /// By the program.
        expected: usize,
        /// In the file.
        got: usize,
    },
    /// The input or output bytes do not have the stated digest.
    #[error("the {which} bytes do not have the digest that the statement names")]
    Digest {
        /// Input or output.
        which: &'static str,
    },
    /// The file's commitment of a tensor is not canonical, or one of another type or length.
    #[error("the {which} commitment in the file is none of the program's {which}")]
    Commitment {
        /// Input or output.
        which: &'static str,
    },
    /// An input element that the input's coding does not give.
    #[error("input element {index} is not one that the input's coding gives")]
    InputCoding {
        /// Which.
        index: usize,
    },
    /// An output element outside the field bound.
    #[error("output element {index} is outside the field bound")]
    OutputBound {
        /// Which.
        index: usize,
    },
    /// The proof has another number of node messages.
    #[error("the proof has messages for {got} nodes, the program has {expected}")]
    Nodes {
        /// By the program.
        expected: usize,
        /// In the proof.
        got: usize,
    },
    /// A node's check failed.
    #[error("node {node} `{name}`: {} failed", check.describe())]
    Node {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// Which check.
        check: NodeCheck,
    },
    /// The public input is not what the first node read.
    #[error("the public input is not what the proof read")]
    Input,
    /// A proof in the clear about weights that are private.
    #[error("the model's weights are private: only proofs in zero knowledge are about them")]
    PrivateWeights,
    /// A proof in zero knowledge with another number of messages than was padded.
    #[error("the messages are not as many as the secrets that hide them")]
    Secrets,
    /// What must vanish in a proof in zero knowledge is not shown to.
    #[error("the checks behind the pads are not shown to hold")]
    Hidden(#[from] HidingError),
    /// The lookup argument failed.
    #[error("{} failed", .0.describe())]
    Lookup(LookupCheck),
    /// A commitment is not shown to open to the values that the proof used.
    #[error("the opening of the {which} commitment does not verify")]
    Opening {
        /// Witness, weights or pushforwards.
        which: &'static str,
    },
}

impl VerifyError {
    /// A stable number for receipts and APIs.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Encoding => 1,
            Self::Statement { .. } => 2,
            Self::Registration(error) => error.code(),
            Self::Length { .. } => 3,
            Self::Digest { .. } => 4,
            Self::OutputBound { .. } => 5,
            Self::Nodes { .. } => 6,
            Self::Input => 7,
            Self::Opening { .. } => 8,
            // 9 was the comparison of opened values, which an opening now has in itself.
            Self::Batch { .. } => 10,
            Self::InputCoding { .. } => 11,
            Self::Secrets => 12,
            Self::PrivateWeights => 15,
            Self::Commitment { .. } => 14,
            Self::Hidden(_) => 13,
            Self::Node { check, .. } => match check {
                NodeCheck::Messages => 20,
                NodeCheck::Merge => 21,
                NodeCheck::Products => 22,
                NodeCheck::Sources => 23,
                NodeCheck::Addition => 24,
                NodeCheck::Attained => 25,
                NodeCheck::Permutation => 26,
                NodeCheck::Multiplication => 27,
                NodeCheck::Weights => 28,
                NodeCheck::Relation => 29,
            },
            Self::Lookup(check) => match check {
                LookupCheck::Messages => 40,
                LookupCheck::Pulled => 41,
                LookupCheck::Sum => 42,
                LookupCheck::Leaves => 43,
            },
        }
    }

    /// The name of the check that failed.
    #[must_use]
    pub const fn check(&self) -> &'static str {
        match self {
            Self::Encoding => "canonical encoding",
            Self::Statement { .. } => "statement",
            Self::Registration(_) => "model registration",
            Self::Length { .. } => "input and output length",
            Self::Digest { .. } => "input and output digest",
            Self::OutputBound { .. } => "output bound",
            Self::Nodes { .. } => "number of nodes",
            Self::Input => "public input",
            Self::Opening { .. } => "commitment opening",
            Self::Batch { .. } => "batch size",
            Self::InputCoding { .. } => "input coding",
            Self::Secrets => "number of secrets",
            Self::PrivateWeights => "kind of weights",
            Self::Commitment { .. } => "tensor commitment",
            Self::Hidden(_) => "checks behind pads",
            Self::Node { check, .. } => check.describe(),
            Self::Lookup(check) => check.describe(),
        }
    }
}
