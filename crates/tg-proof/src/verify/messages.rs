//! What a prover sends, in the order the verifier absorbs it.

use crate::algebra::field::{E, EXTENSION_DEGREE};
use crate::argument::commitment::{Commitment, Opening, OpeningArgument};
pub use crate::argument::sumcheck::Sumcheck;
use crate::plan::cost::TABLE_ENTRIES_MAX;
use crate::plan::parts::Parts;
use crate::verify::wire;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tg_ir::program::NODES_MAX;
use tg_ir::signature::PORTS_MAX;
use tg_ir::weights::BIAS_DIGITS;

/// The proof of one inference. Which parts it has follows from the public model ([`Parts`]); its bytes are those of its
/// parts one after the other, without a word on which these are.
#[derive(Clone, Serialize, Deserialize)]
pub struct InferenceProof {
    /// Root of the witness columns, if there are some.
    #[serde(serialize_with = "bare")]
    pub witness: Option<Commitment>,
    /// Per node, from the last to the first.
    #[serde(deserialize_with = "node_proofs")]
    pub nodes: Vec<NodeProof>,
    /// The lookup argument, if there are witness columns.
    #[serde(serialize_with = "bare")]
    pub lookup: Option<LookupProof>,
    /// Opening of the witness, if there is one.
    #[serde(serialize_with = "bare")]
    pub witness_opening: Option<OpeningArgument>,
    /// Opening of the weights, if there are some.
    #[serde(serialize_with = "bare")]
    pub weights_opening: Option<OpeningArgument>,
    /// What follows if the witness is committed in several sections: `witness` and `witness_opening` are then those of
    /// the first.
    #[serde(skip)]
    pub sections: SectionProofs,
}

impl InferenceProof {
    /// Whether it has certain parts and no others.
    #[must_use]
    pub const fn has(&self, parts: Parts) -> bool {
        let witness = parts.witness.is_committed();
        self.witness.is_some() == witness
            && self.lookup.is_some() == witness
            && self.witness_opening.is_some() == witness
            && self.weights_opening.is_some() == parts.weights.is_committed()
    }
}

/// The messages of all nodes.
#[derive(Serialize, Deserialize)]
struct Nodes(#[serde(deserialize_with = "node_proofs")] Vec<NodeProof>);

/// Takes the messages of all nodes.
pub(crate) fn take_nodes(bytes: &mut &[u8]) -> Option<Vec<NodeProof>> {
    wire::take::<Nodes>(bytes).ok().map(|Nodes(nodes)| nodes)
}

/// What a proof has besides if its witness is committed in several sections.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct SectionProofs {
    /// Roots of the sections after the first.
    pub roots: Vec<Commitment>,
    /// Per witness table its columns at the last coordinates of the point drawn after the roots.
    pub anchors: Vec<Vec<E>>,
    /// Per section the sum of its readers' fractions.
    pub sums: Vec<SumProof>,
    /// The numerator of the sum of the tables' fractions, which [`LookupProof::gkr`] shows.
    pub tables: E,
    /// Openings of the sections after the first.
    pub openings: Vec<OpeningArgument>,
}

/// Fractions that add up to a fraction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SumProof {
    /// The fraction's numerator; its denominator is the root's.
    pub numerator: E,
    /// The fractional sum.
    pub gkr: FractionGkrProof<E>,
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
    /// Convolution or dense node.
    Products(ProductsProof),
    /// Public linear map.
    Map(ReadProof),
    /// Product of two tensors element by element.
    Mul(MulProof),
    /// Product of matrices.
    MatMul(MatMulProof),
    /// Parameters: the pieces of the weights at their parts of the claim's point.
    Parameter(Vec<E>),
    /// Embedding.
    Embed(EmbedProof),
    /// Requantisation.
    Requantise(RequantiseProof),
    /// Maximum.
    Maximum(MaximumProof),
    /// A gadget as data: a proof per stage.
    Staged(Vec<StageProof>),
    /// Embedding of computed tokens.
    Chosen(ChosenProof),
    /// Decision trees.
    Trees(TreesProof),
    /// An output that is not public.
    Output(OutputProof),
}

/// The committed columns of an output that is not public.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutputProof {
    /// The output at the point that was drawn first.
    pub value: E,
    /// That it is what the columns give.
    pub stage: StageProof,
}

/// One stage of a gadget as data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageProof {
    /// Sum over the elements in use of output, constraints and sums.
    pub sumcheck: Sumcheck,
    /// The variables that are not public, at the final point.
    pub values: Vec<E>,
}

/// A convolution or dense node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProductsProof {
    /// The bias digits at the output channel's point.
    pub bias: [E; BIAS_DIGITS],
    /// Sum over kernel positions (or input pixels) and input channels, and over output channels if there are groups.
    pub products: Sumcheck,
    /// The pieces of the weights at their parts of the final point.
    pub weights: Vec<E>,
    /// The window products at the final point.
    pub reads: E,
    /// The input's part in them.
    pub read: ReadProof,
}

/// Public weights on the elements of some tensors.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReadProof {
    /// Sum over the fields that are not at a point, if there is one.
    pub sumcheck: Option<Sumcheck>,
    /// The tensors at the final point; none if the claim passes to one tensor unchanged.
    pub inputs: Vec<E>,
}

/// A product element by element.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MulProof {
    /// Sum over all elements of eq times both tensors.
    pub sumcheck: Sumcheck,
    /// Both tensors at the final point.
    pub factors: [E; 2],
}

/// A product of matrices.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MatMulProof {
    /// Sum over matrices, inputs of the batch and the inner index.
    pub products: Sumcheck,
    /// Both folded sides at the final point.
    pub factors: [E; 2],
    /// Where they come from.
    pub reads: [ReadProof; 2],
}

/// An embedding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EmbedProof {
    /// Sum over the vocabulary.
    pub sumcheck: Sumcheck,
    /// The pieces of the weights at their parts of the final point.
    pub weights: Vec<E>,
}

/// An embedding of computed tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChosenProof {
    /// Sum over the vocabulary, and the weights.
    pub rows: EmbedProof,
    /// The flags of the rows at the final point.
    pub chosen: E,
    /// Which row each token chooses.
    pub stages: Vec<StageProof>,
}

/// Decision trees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TreesProof {
    /// Over branches: decisions hold, and marked leaves agree with them.
    pub decisions: StageProof,
    /// The input that the branches read.
    pub read: ReadProof,
    /// Sum over the flags of the leaves: the output, the branches' marked leaves, one leaf per tree.
    pub leaves: Sumcheck,
    /// The flags at the final point.
    pub flag: E,
}

/// A requantisation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequantiseProof {
    /// Pulled base, class of the high limb, class of the low limb, high limb, low limb.
    pub pulled: [E; 5],
}

/// A maximum.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MaximumProof {
    /// The differences at the point, one per kernel position.
    pub differences: Vec<E>,
    /// The windows' elements.
    pub read: ReadProof,
    /// Per chunk, that some difference is zero.
    pub attained: Vec<AttainedProof>,
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
    /// The pushforwards of the tables.
    pub pushforwards: Pushforwards,
    /// The fractional sum.
    pub gkr: FractionGkrProof<E>,
    /// Per witness table the columns at their part of the final point.
    pub columns: Vec<Vec<E>>,
}

/// The pushforwards of all tables, as the plan has them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Pushforwards {
    /// Per table its pushforward.
    Clear(#[serde(deserialize_with = "pushforwards")] Vec<Pushforward>),
    /// A commitment to them.
    Committed(Box<CommittedPushforwards>),
    /// A hiding commitment to them, in a proof in zero knowledge.
    Hidden(Commitment),
}

/// Committed pushforwards, and what of them is shown after the fractional sum.
#[derive(Clone, Serialize, Deserialize)]
pub struct CommittedPushforwards {
    /// Root of their columns.
    pub root: Commitment,
    /// Sum of the pushforwards times the batched weights of all claims on them.
    pub sumcheck: Sumcheck,
    /// Per chunk the columns at their part of the final point.
    pub columns: Vec<[E; EXTENSION_DEGREE]>,
    /// Opening of the columns.
    pub opening: OpeningArgument,
}

impl std::fmt::Debug for CommittedPushforwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommittedPushforwards")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// The pushforward of a table, one value per entry. Entries that nobody reads have the value zero, which is left out of
/// the bytes: the wide ends of a segment table are hardly ever read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SparseValues", into = "SparseValues")]
pub struct Pushforward(pub Vec<E>);

/// Pushforwards of no more entries together than all tables of a program may have. Stops: a few bytes of zeros for a list
/// that takes gigabytes, times as many lists as a proof has room for.
fn pushforwards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Pushforward>, D::Error> {
    struct Lists;
    impl<'de> Visitor<'de> for Lists {
        type Value = Vec<Pushforward>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the pushforwards of all tables")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut lists: A) -> Result<Self::Value, A::Error> {
            let (mut all, mut entries) = (Vec::new(), 0u64);
            while let Some(list) = lists.next_element::<SparseValues>()? {
                entries += u64::from(list.length);
                if entries > TABLE_ENTRIES_MAX {
                    return Err(A::Error::custom("more entries than tables have"));
                }
                all.push(Pushforward::try_from(list).map_err(A::Error::custom)?);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Lists)
}

/// Messages of no more nodes than a program has, input and output included: one takes far more memory than bytes.
pub(crate) fn node_proofs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<NodeProof>, D::Error> {
    struct Nodes;
    impl<'de> Visitor<'de> for Nodes {
        type Value = Vec<NodeProof>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the messages of all nodes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(node) = nodes.next_element()? {
                // Those of input, outputs and salts stand beside the nodes'.
                if all.len() == NODES_MAX + PORTS_MAX + 2 {
                    return Err(A::Error::custom("more messages than nodes"));
                }
                all.push(node);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Nodes)
}

/// A list with its zeros left out.
#[derive(Serialize, Deserialize)]
struct SparseValues {
    length: u32,
    /// Bit i of byte j: whether entry 8 j + i is other than zero.
    used: Vec<u8>,
    values: Vec<E>,
}

impl From<Pushforward> for SparseValues {
    fn from(Pushforward(all): Pushforward) -> Self {
        let mut used = vec![0u8; all.len().div_ceil(8)];
        let mut values = Vec::new();
        for (index, &value) in all.iter().enumerate() {
            if value != E::ZERO {
                used[index / 8] |= 1 << (index % 8);
                values.push(value);
            }
        }
        Self {
            length: u32::try_from(all.len()).unwrap_or(u32::MAX),
            used,
            values,
        }
    }
}

impl TryFrom<SparseValues> for Pushforward {
    type Error = &'static str;

    /// One list has one encoding: no zero is written, and no bit stands for an entry beyond the length.
    fn try_from(sparse: SparseValues) -> Result<Self, Self::Error> {
        let SparseValues {
            length,
            used,
            values,
        } = sparse;
        let length = length as usize;
        // Stops: a length that nothing but zeros stands behind.
        if length as u64 > TABLE_ENTRIES_MAX {
            return Err("more entries than tables have");
        }
        if used.len() != length.div_ceil(8) || values.contains(&E::ZERO) {
            return Err("no list has these bytes");
        }
        let mut values = values.into_iter();
        let mut all = Vec::with_capacity(length);
        for index in 0..used.len() * 8 {
            let bit = used[index / 8] >> (index % 8) & 1;
            let value = match bit {
                0 => E::ZERO,
                _ => values.next().ok_or("fewer values than entries")?,
            };
            if index < length {
                all.push(value);
            } else if bit == 1 {
                return Err("an entry beyond the length");
            }
        }
        match values.next() {
            Some(_) => Err("more values than entries"),
            None => Ok(Self(all)),
        }
    }
}

impl std::ops::Deref for Pushforward {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.0
    }
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

impl std::fmt::Debug for SectionProofs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SectionProofs")
            .field("sums", &self.sums.len())
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
/// Nothing is said about why it is not canonical: that is nobody's business but its sender's.
#[must_use]
pub fn decode<T: Serialize + for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let proof: T = wire::from_bytes(bytes).ok()?;
    (encode(&proof) == bytes).then_some(proof)
}

/// Takes a message if there is one.
pub(crate) fn take_if<T: for<'de> Deserialize<'de>>(
    there: bool,
    bytes: &mut &[u8],
) -> Option<Option<T>> {
    if there {
        wire::take(bytes).ok().map(Some)
    } else {
        Some(None)
    }
}

/// Reads an inference proof with certain parts from its canonical bytes. What concerns several sections follows the rest.
#[must_use]
pub fn decode_inference(bytes: &[u8], parts: Parts) -> Option<InferenceProof> {
    let mut rest = bytes;
    let witness = parts.witness.is_committed();
    let mut proof = InferenceProof {
        witness: take_if(witness, &mut rest)?,
        nodes: take_nodes(&mut rest)?,
        lookup: take_if(witness, &mut rest)?,
        witness_opening: take_if(witness, &mut rest)?,
        weights_opening: take_if(parts.weights.is_committed(), &mut rest)?,
        sections: SectionProofs::default(),
    };
    // Stops: sections of a witness that is not there.
    if !rest.is_empty() && !witness {
        return None;
    }
    if !rest.is_empty() {
        proof.sections = wire::from_bytes(rest).ok()?;
        // Stops: two encodings of a proof with one section.
        if proof.sections.sums.is_empty() {
            return None;
        }
    }
    (encode_inference(&proof) == bytes).then_some(proof)
}

/// The canonical bytes of an inference proof.
#[must_use]
pub fn encode_inference(proof: &InferenceProof) -> Vec<u8> {
    let mut bytes = encode(proof);
    if !proof.sections.sums.is_empty() {
        bytes.extend(encode(&proof.sections));
    }
    bytes
}

/// A message that is there, or no bytes: whether it is follows from the public model.
pub(crate) fn bare<T: Serialize, S: Serializer>(
    message: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match message {
        Some(message) => message.serialize(serializer),
        None => serializer.serialize_unit(),
    }
}

/// The canonical bytes of a proof: four bytes per field element.
///
/// # Panics
/// Never: every type here serialises.
#[must_use]
pub fn encode<T: Serialize>(proof: &T) -> Vec<u8> {
    wire::to_bytes(proof).expect("proof types serialise")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

    use super::*;

    /// Lists of zeros take a bit each in the bytes and 20 bytes in memory: their lengths are added up before one is made.
    #[test]
    fn lists_of_zeros_are_refused_by_their_lengths() {
        let list = |length: u32| {
            let zeros = SparseValues {
                length,
                used: vec![0; length.div_ceil(8) as usize],
                values: Vec::new(),
            };
            encode(&zeros)
        };
        let most = u32::try_from(TABLE_ENTRIES_MAX).unwrap();
        assert!(decode::<Pushforward>(&list(most)).is_some());
        assert!(decode::<Pushforward>(&list(most + 1)).is_none());
        let lists = |lengths: &[u32]| {
            let count = u32::try_from(lengths.len()).unwrap().to_le_bytes();
            let all: Vec<u8> = lengths.iter().flat_map(|&length| list(length)).collect();
            [&[0], count.as_slice(), &all].concat()
        };
        let start = std::time::Instant::now();
        assert!(decode::<Pushforwards>(&lists(&[most / 2; 2])).is_some());
        assert!(decode::<Pushforwards>(&lists(&[most / 2 + 1; 2])).is_none());
        assert!(decode::<Pushforwards>(&lists(&[most; 100])).is_none());
        assert!(start.elapsed() < std::time::Duration::from_secs(1));
    }

    #[test]
    fn a_pushforward_has_one_encoding_without_its_zeros() {
        for length in [0, 1, 7, 8, 9, 64, 65] {
            for step in 1..4 {
                let value = |index| E::from_usize(if index % step == 0 { index } else { 0 });
                let all = Pushforward((0..length).map(value).collect());
                let bytes = encode(&all);
                let used = all.iter().filter(|&&value| value != E::ZERO).count();
                assert_eq!(bytes.len(), 12 + length.div_ceil(8) + 20 * used);
                assert_eq!(decode::<Pushforward>(&bytes), Some(all));
            }
        }
        let honest = encode(&Pushforward(vec![E::ONE, E::ZERO, E::TWO]));
        for (place, byte) in [(0, 2), (0, 9), (8, 0b111), (8, 0b1), (8, 0b1100)] {
            let mut bytes = honest.clone();
            bytes[place] = byte;
            assert_eq!(decode::<Pushforward>(&bytes), None, "{place} {byte}");
        }
        // A zero that is written.
        let mut bytes = honest;
        let last = bytes.len() - 20;
        bytes[last..].fill(0);
        assert_eq!(decode::<Pushforward>(&bytes), None);
    }
}
