//! A claim about a whole execution, and what shows that it is wrong in one tile: how a dispute about a run ends without anybody
//! running it again.
//!
//! Whoever says that a result is wrong *claims* what every tile of a right execution is: the node of each leaf in the tree over its tensor
//! ([`TraceLeaves`], 32 bytes for each KiB). Whoever computed otherwise finds the first tile at which the two differ
//! ([`TraceLeaves::first_difference`]) and opens what that tile reads ([`ReadOpening`]): all of it lies in tensors before its own, in which
//! they agree. Everybody else computes this one tile again ([`is_refuted`]).
//!
//! What it shows. If a claim on an input is not the execution of the model on it, it has a first wrong tile, and whoever executed the model
//! opens what it reads: the claim is refuted. If it is the execution, no tile of it is other than what its operator gives on the claimed
//! tensors, which are fixed by their names up to a collision of BLAKE3: nothing refutes it. So whoever is right wins, whatever the other
//! one says.

use tg_types::Digest;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::leaves::{leaf_node, leaf_nodes, leaves_of, name_of_leaves};

use super::check::OpenedTrace;
use super::draw::{TraceTile, bytes_of};
use super::opening::TraceOpening;
use crate::model::ExecutableModel;
use crate::program::Program;
use crate::scalar;
use crate::shape::{ElementType, TensorId};
use crate::tensor::IntTensor;

/// Most leaves of a claim: of 450 MiB of tensors, so that it is within evidence of 16 MiB with an answer of 1 MiB.
pub const CLAIMED_LEAVES_MAX: usize = 460_800;

/// The nodes of all leaves of what all nodes of a program give, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLeaves(Vec<[u8; 32]>);

impl TraceLeaves {
    /// The leaves of an execution: `tensors` is the input and the output of every node. Hashes all of it once.
    #[must_use]
    pub fn of(tensors: &[IntTensor]) -> Self {
        let leaves = tensors[1..].iter();
        Self(leaves.flat_map(|it| leaf_nodes(&it.to_bytes())).collect())
    }

    /// The names of what all nodes give; nothing if these are not as many leaves as the program's nodes have. Hashes 64 bytes for each leaf.
    #[must_use]
    pub fn names(&self, program: &Program) -> Option<Vec<Digest>> {
        let mut rest = self.0.as_slice();
        let mut names = Vec::with_capacity(program.nodes.len());
        for node in 0..program.nodes.len() {
            let size = bytes_of(program, TensorId::of_node(node));
            let leaves = usize::try_from(leaves_of(size)).ok()?;
            let (now, later) = rest.split_at_checked(leaves)?;
            names.push(name_of_leaves(now, size)?);
            rest = later;
        }
        rest.is_empty().then_some(names)
    }

    /// The first tile, in the order of the program, at which two executions differ.
    #[must_use]
    pub fn first_difference(&self, other: &Self, program: &Program) -> Option<TraceTile> {
        let mut both = self.0.iter().zip(&other.0);
        let number = both.position(|(one, other)| one != other)? as u64;
        let mut before = 0;
        for node in 0..program.nodes.len() {
            let leaves = leaves_of(bytes_of(program, TensorId::of_node(node)));
            if number < before + leaves {
                let leaf = u32::try_from(number - before).ok()?;
                let node = u32::try_from(node).ok()?;
                return Some(TraceTile { node, leaf });
            }
            before += leaves;
        }
        None
    }

    /// The node of a tile; nothing if there is no such tile.
    fn node_of(&self, tile: TraceTile, program: &Program) -> Option<[u8; 32]> {
        let node = tile.node as usize;
        if node >= program.nodes.len() {
            return None;
        }
        let leaves = |node| leaves_of(bytes_of(program, TensorId::of_node(node)));
        if u64::from(tile.leaf) >= leaves(node) {
            return None;
        }
        let before: u64 = (0..node).map(leaves).sum();
        let place = usize::try_from(before + u64::from(tile.leaf)).ok()?;
        self.0.get(place).copied()
    }
}

/// What one tile is computed from, opened under the names that a claim gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOpening(TraceOpening);

impl ReadOpening {
    /// Opens what a tile of an execution reads: `tensors` is the input and the output of every node. Computes the tile, and hashes every
    /// tensor that it reads.
    ///
    /// # Panics
    /// If these are not the tensors of an execution of the model, or the tile is none of its.
    #[must_use]
    pub fn of(model: &ExecutableModel, tensors: &[IntTensor], tile: TraceTile) -> Self {
        Self(TraceOpening::of_reads(model, tensors, tile))
    }
}

impl Encode for ReadOpening {
    fn encode(&self, writer: &mut Writer) {
        self.0.encode_tensors(writer);
    }
}

impl Decode for ReadOpening {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let opening = TraceOpening::decode_tensors(reader, Vec::new(), crate::program::NODES_MAX)?;
        Ok(Self(opening))
    }
}

/// Most bytes that opening what one tile reads takes, whatever the tile: all tensors of the node that reads most, but the input.
#[must_use]
pub fn widest_reads(program: &Program) -> u64 {
    let of = |node: usize| {
        let mut read = program.nodes[node].op.inputs();
        read.sort_unstable();
        read.dedup();
        let read = read.into_iter().filter(|it| *it != TensorId::INPUT);
        read.map(|it| bytes_of(program, it)).sum()
    };
    (0..program.nodes.len()).map(of).max().unwrap_or(0)
}

/// Whether an opening shows that a claimed execution is wrong in one tile: what its operator gives on the claimed tensors is another leaf than
/// the claimed one. Total, whatever is claimed and shown. Takes a few nanoseconds for each multiply-add of the tile, and hashes what is
/// shown.
///
/// # Panics
/// If the input is none that the model takes.
#[must_use]
pub fn is_refuted(
    model: &ExecutableModel,
    input: &IntTensor,
    claimed: (&TraceLeaves, Vec<Digest>),
    tile: TraceTile,
    opening: ReadOpening,
) -> bool {
    let program = &model.program;
    let (leaves, names) = claimed;
    let Some(said) = leaves.node_of(tile, program) else {
        return false;
    };
    let ReadOpening(opening) = opening;
    let Ok(shown) = OpenedTrace::new(program, input, &opening.under(names)) else {
        return false;
    };
    let elements = tile.elements(program);
    let values = scalar::elements(
        program,
        &model.weights,
        tile.node as usize,
        elements,
        &shown,
    );
    let kind = program.element_type(tile.tensor());
    let bytes: Vec<u8> = values.flat_map(|value| stored(value, kind)).collect();
    // Stops: an opening that leaves out what the tile reads, and would have it computed from zeros.
    if shown.is_lacking() {
        return false;
    }
    leaf_node(&bytes, tile.leaf, bytes_of(program, tile.tensor())) != said
}

/// The bytes of an element.
fn stored(value: i64, kind: ElementType) -> impl Iterator<Item = u8> {
    value.to_le_bytes().into_iter().take(kind.bytes())
}

impl Encode for TraceLeaves {
    fn encode(&self, writer: &mut Writer) {
        writer.count(self.0.len());
        self.0.iter().for_each(|node| writer.raw(node));
    }
}

impl Decode for TraceLeaves {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count("claimed leaves", CLAIMED_LEAVES_MAX, 32)?;
        let nodes = (0..count).map(|_| reader.array());
        Ok(Self(nodes.collect::<Result<_, _>>()?))
    }
}
