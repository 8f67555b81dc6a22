//! What a prover sends, in the order the verifier absorbs it.

use crate::commitment::{Commitment, Opening};
use crate::field::{E, F};
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use p3_sumcheck::generic_degree::GenericDegreeProof;
use serde::{Deserialize, Serialize};
use tg_ir::weights::BIAS_DIGITS;

/// A sumcheck: the claimed sum and, per round, the round polynomial without its value at 1.
pub type Sumcheck = GenericDegreeProof<F, E>;

/// The proof of one inference.
#[derive(Clone, Serialize, Deserialize)]
pub struct InferenceProof {
    /// Root of the witness columns.
    pub witness: Commitment,
    /// Per node, from the last to the first.
    pub nodes: Vec<NodeProof>,
    /// The lookup argument.
    pub lookup: LookupProof,
    /// Opening of the witness.
    pub witness_opening: Opening,
    /// Opening of the weights.
    pub weights_opening: Opening,
}

/// The messages of one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeProof {
    /// Present if the node's output has more than one claim.
    pub merge: Option<MergeProof>,
    /// The gadget.
    pub gadget: GadgetProof,
}

/// Several claims on one tensor become one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeProof {
    /// Sum of the tensor times the combined equality polynomials.
    pub sumcheck: Sumcheck,
    /// The tensor at the new point.
    pub value: E,
}

/// The messages of one gadget.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum GadgetProof {
    /// Convolution.
    Conv {
        /// The bias digits at the output channel's point.
        bias: [E; BIAS_DIGITS],
        /// Sum over kernel positions and input channels.
        products: Sumcheck,
        /// The weights at the final point.
        weight: E,
        /// The window products at the final point.
        reads: E,
        /// Sum over input pixels.
        sources: SourceProof,
    },
    /// Fully connected.
    Dense {
        /// The bias digits at the output channel's point.
        bias: [E; BIAS_DIGITS],
        /// Sum over input pixels and channels.
        products: Sumcheck,
        /// The weights at the final point.
        weight: E,
        /// The input at the final point.
        input: E,
    },
    /// Window sums.
    WindowSum {
        /// Sum over input pixels.
        sources: SourceProof,
    },
    /// Addition.
    Add {
        /// The two inputs at the point.
        inputs: [E; 2],
    },
    /// Requantisation.
    Requantise {
        /// Pulled base, class of the high limb, class of the low limb, high limb, low limb.
        pulled: [E; 5],
    },
    /// Maximum.
    Maximum {
        /// The differences at the point, one per kernel position.
        differences: Vec<E>,
        /// Sum over input pixels.
        sources: SourceProof,
        /// Per chunk, that some difference is zero.
        attained: Vec<AttainedProof>,
    },
    /// Permutation.
    Permute {
        /// Sum over the input's elements.
        sumcheck: Sumcheck,
        /// The input at the final point.
        input: E,
    },
}

/// Public weights on input pixels: the sum and the input at the final point.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceProof {
    /// Sum over input pixels.
    pub sumcheck: Sumcheck,
    /// The input at the final point.
    pub input: E,
}

/// The zero-check of one chunk of a maximum.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttainedProof {
    /// Sum of eq times the product of all differences.
    pub sumcheck: Sumcheck,
    /// The differences at the final point.
    pub differences: Vec<E>,
}

/// The lookup argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LookupProof {
    /// Per table its pushforward.
    pub pushforwards: Vec<Vec<E>>,
    /// The fractional sum.
    pub gkr: FractionGkrProof<E>,
    /// Per witness table the columns at their part of the final point.
    pub columns: Vec<Vec<E>>,
}

/// The proof that committed weights are in range and padding is zero.
#[derive(Clone, Serialize, Deserialize)]
pub struct RegistrationProof {
    /// How often each value in [-127, 127] occurs among the committed cells.
    pub multiplicities: Vec<u32>,
    /// The fractional sum.
    pub gkr: FractionGkrProof<E>,
    /// Per weight table its columns at their part of the final point.
    pub columns: Vec<Vec<E>>,
    /// Per weight table the zero-check of its padding.
    pub padding: Vec<PaddingProof>,
    /// Opening of the weights.
    pub opening: Opening,
}

/// The zero-check of one weight table's padding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaddingProof {
    /// Sum of the combined columns over padded cells.
    pub sumcheck: Sumcheck,
    /// The columns at the final point.
    pub columns: Vec<E>,
}

impl std::fmt::Debug for InferenceProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InferenceProof")
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RegistrationProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistrationProof")
            .field("tables", &self.columns.len())
            .finish_non_exhaustive()
    }
}

/// Reads a proof from its canonical bytes: it must encode back to the same bytes, so no proof has two encodings.
///
/// # Errors
/// Nothing more than that it is not canonical: the encoding is the library's.
pub fn decode<T: Serialize + for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let proof: T = postcard::from_bytes(bytes).ok()?;
    (encode(&proof) == bytes).then_some(proof)
}

/// The canonical bytes of a proof.
///
/// # Panics
/// Never: every type here serialises.
pub fn encode<T: Serialize>(proof: &T) -> Vec<u8> {
    postcard::to_allocvec(proof).expect("proof types serialise")
}
