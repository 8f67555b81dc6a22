//! What the provider shows of an execution.

use std::cell::Cell;

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::leaves::{LEAF_BYTES, OpenedLeaves};
use tg_types::{Digest, domain::Domain};

use super::draw::TraceTile;
use crate::model::ExecutableModel;
use crate::program::NODES_MAX;
use crate::scalar::{self, ElementValues};
use crate::shape::TensorId;
use crate::tensor::IntTensor;

/// The root over the outputs of all nodes, from the BLAKE3 digests of their bytes in order: what a receipt commits to.
#[must_use]
pub fn root(nodes: &[Digest]) -> Digest {
    let digests: Vec<u8> = nodes.iter().flat_map(|it| *it.as_bytes()).collect();
    Digest::of(Domain::Trace, &digests)
}

/// Tiles of an execution and all that they are computed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOpening {
    /// The digests of the outputs of all nodes, in order.
    pub(super) nodes: Vec<Digest>,
    /// Leaves of tensors, ascending by tensor; not of the input, which whoever checks has.
    pub(super) tensors: Vec<(TensorId, OpenedLeaves)>,
}

impl TraceOpening {
    /// Opens tiles of an execution: `tensors` is the input and the output of every node. Computes the tiles again, to find out
    /// what they read, and hashes every tensor that is read.
    ///
    /// # Panics
    /// If these are not the tensors of an execution of the model, or a tile is none of its.
    #[must_use]
    pub fn of(model: &ExecutableModel, tensors: &[IntTensor], tiles: &[TraceTile]) -> Self {
        let read = Recorder::of(tensors);
        for tile in tiles {
            let elements = tile.elements(&model.program);
            read.mark(tile.tensor(), elements.start, elements.len());
            read.compute(model, *tile);
        }
        let nodes = tensors[1..].iter();
        Self {
            nodes: nodes.map(|it| Digest::of_blob(&it.to_bytes())).collect(),
            tensors: read.opened(),
        }
    }

    /// Opens what a tile reads, and not the tile, of tensors that somebody else names.
    pub(super) fn of_reads(
        model: &ExecutableModel,
        tensors: &[IntTensor],
        tile: TraceTile,
    ) -> Self {
        let read = Recorder::of(tensors);
        read.compute(model, tile);
        Self {
            nodes: Vec::new(),
            tensors: read.opened(),
        }
    }

    /// The same leaves, of tensors of these names.
    pub(super) fn under(self, names: Vec<Digest>) -> Self {
        Self {
            nodes: names,
            ..self
        }
    }

    /// Writes the leaves without the names.
    pub(super) fn encode_tensors(&self, writer: &mut Writer) {
        writer.count(self.tensors.len());
        for (tensor, opened) in &self.tensors {
            tensor.encode(writer);
            opened.encode(writer);
        }
    }

    /// Reads leaves of at most so many tensors, of these names.
    pub(super) fn decode_tensors(
        reader: &mut Reader<'_>,
        nodes: Vec<Digest>,
        most: usize,
    ) -> Result<Self, DecodeError> {
        let count = reader.count("opened tensors", most, 4)?;
        let tensors = (0..count).map(|_| {
            let tensor = TensorId::decode(reader)?;
            Ok((tensor, OpenedLeaves::decode(reader)?))
        });
        let tensors = tensors.collect::<Result<_, _>>()?;
        Ok(Self { nodes, tensors })
    }
}

/// Notes which leaves are read: a bit for each leaf of each tensor, as an element is read some ten thousand times in some tiles.
struct Recorder<'a> {
    tensors: &'a [IntTensor],
    leaves: Vec<Vec<Cell<u64>>>,
}

impl<'a> Recorder<'a> {
    fn of(tensors: &'a [IntTensor]) -> Self {
        let words = |tensor: &IntTensor| {
            let bytes = tensor.len() * tensor.element_type().bytes();
            bytes.div_ceil(LEAF_BYTES).div_ceil(WORD)
        };
        Self {
            tensors,
            leaves: tensors
                .iter()
                .map(|it| vec![Cell::new(0); words(it)])
                .collect(),
        }
    }

    /// Computes a tile, to find out what it reads.
    fn compute(&self, model: &ExecutableModel, tile: TraceTile) {
        let (node, elements) = (tile.node as usize, tile.elements(&model.program));
        let values = scalar::elements(&model.program, &model.weights, node, elements, self);
        values.for_each(drop);
    }

    /// The leaves that were read, opened.
    fn opened(self) -> Vec<(TensorId, OpenedLeaves)> {
        let read = self.tensors[1..].iter().zip(&self.leaves[1..]).enumerate();
        let read = read.filter(|(_, (_, words))| words.iter().any(|it| it.get() != 0));
        let opened = read.map(|(node, (tensor, words))| {
            let opened = OpenedLeaves::of(&tensor.to_bytes(), marked(words));
            (TensorId::of_node(node), opened)
        });
        opened.collect()
    }

    fn mark(&self, tensor: TensorId, first: usize, count: usize) {
        if tensor == TensorId::INPUT || count == 0 {
            return;
        }
        let width = self.tensors[tensor.index()].element_type().bytes();
        let leaf = |element: usize| element * width / LEAF_BYTES;
        let words = &self.leaves[tensor.index()];
        for leaf in leaf(first)..=leaf(first + count - 1) {
            let word = &words[leaf / WORD];
            word.set(word.get() | 1 << (leaf % WORD));
        }
    }
}

/// Leaves of which a word has the bits.
const WORD: usize = u64::BITS as usize;

/// The leaves that are marked, ascending.
fn marked(words: &[Cell<u64>]) -> impl Iterator<Item = u32> + '_ {
    (0_u32..).zip(words).flat_map(|(at, word)| {
        let word = word.get();
        let bits = (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1);
        bits.map(move |bit| at * u64::BITS + bit)
    })
}

impl ElementValues for Recorder<'_> {
    fn value(&self, tensor: TensorId, element: usize) -> i32 {
        self.mark(tensor, element, 1);
        self.tensors[tensor.index()].value(element)
    }

    /// Which elements are read does not depend on sums of products.
    fn dot(&self, tensor: TensorId, first: usize, weights: &[i8]) -> i64 {
        self.mark(tensor, first, weights.len());
        0
    }
}

impl Encode for TraceOpening {
    fn encode(&self, writer: &mut Writer) {
        writer.seq(&self.nodes);
        self.encode_tensors(writer);
    }
}

impl Decode for TraceOpening {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count("digests of nodes", NODES_MAX, 32)?;
        let nodes = (0..count).map(|_| Digest::decode(reader));
        let nodes: Vec<Digest> = nodes.collect::<Result<_, _>>()?;
        let most = nodes.len();
        Self::decode_tensors(reader, nodes, most)
    }
}
