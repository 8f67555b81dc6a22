//! What the provider shows of an execution.

use std::cell::RefCell;
use std::collections::BTreeSet;

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
        let program = &model.program;
        let read = Recorder {
            tensors,
            leaves: RefCell::new(vec![BTreeSet::new(); tensors.len()]),
        };
        for tile in tiles {
            let node = tile.node as usize;
            let elements = tile.elements(program);
            read.mark(tile.tensor(), elements.start, elements.len());
            let values = scalar::elements(program, &model.weights, node, elements, &read);
            values.for_each(drop);
        }
        let leaves = read.leaves.into_inner();
        let bytes: Vec<Vec<u8>> = tensors[1..].iter().map(IntTensor::to_bytes).collect();
        let opened = bytes.iter().zip(&leaves[1..]).enumerate();
        Self {
            nodes: bytes.iter().map(|bytes| Digest::of_blob(bytes)).collect(),
            tensors: opened
                .filter(|(_, (_, leaves))| !leaves.is_empty())
                .map(|(node, (bytes, leaves))| {
                    let opened = OpenedLeaves::of(bytes, leaves.iter().copied());
                    (TensorId::of_node(node), opened)
                })
                .collect(),
        }
    }
}

/// Notes which leaves are read.
struct Recorder<'a> {
    tensors: &'a [IntTensor],
    leaves: RefCell<Vec<BTreeSet<u32>>>,
}

impl Recorder<'_> {
    fn mark(&self, tensor: TensorId, first: usize, count: usize) {
        if tensor == TensorId::INPUT || count == 0 {
            return;
        }
        let width = self.tensors[tensor.index()].element_type().bytes();
        let leaf = |element: usize| {
            u32::try_from(element * width / LEAF_BYTES).expect("a tensor has at most 2^32 leaves")
        };
        let leaves = &mut self.leaves.borrow_mut()[tensor.index()];
        leaves.extend(leaf(first)..=leaf(first + count - 1));
    }
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
        let Self { nodes, tensors } = self;
        writer.seq(nodes);
        writer.count(tensors.len());
        for (tensor, opened) in tensors {
            tensor.encode(writer);
            opened.encode(writer);
        }
    }
}

impl Decode for TraceOpening {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count("digests of nodes", NODES_MAX, 32)?;
        let nodes = (0..count).map(|_| Digest::decode(reader));
        let nodes: Vec<Digest> = nodes.collect::<Result<_, _>>()?;
        let count = reader.count("opened tensors", nodes.len(), 4)?;
        let tensors = (0..count).map(|_| {
            let tensor = TensorId::decode(reader)?;
            Ok((tensor, OpenedLeaves::decode(reader)?))
        });
        Ok(Self {
            nodes,
            tensors: tensors.collect::<Result<_, _>>()?,
        })
    }
}
