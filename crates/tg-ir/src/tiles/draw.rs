//! Which tiles are computed again.

use std::collections::BTreeSet;
use std::ops::Range;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tg_types::leaves::{LEAF_BYTES, leaves_of};
use tg_types::{Digest, domain::Domain};

use crate::program::Program;
use crate::shape::TensorId;

/// A leaf of a node's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceTile {
    /// Index of the node.
    pub node: u32,
    /// Index of the leaf.
    pub leaf: u32,
}

impl TraceTile {
    /// The tensor that the tile is a part of.
    pub(super) fn tensor(self) -> TensorId {
        TensorId::of_node(self.node as usize)
    }

    /// The elements of the tile, in storage order.
    pub(super) fn elements(self, program: &Program) -> Range<usize> {
        let tensor = self.tensor();
        let in_leaf = LEAF_BYTES / program.element_type(tensor).bytes();
        let start = self.leaf as usize * in_leaf;
        start..(start + in_leaf).min(program.shape(tensor).elements())
    }
}

/// Bytes of a tensor.
pub(super) fn bytes_of(program: &Program, tensor: TensorId) -> u64 {
    program.shape(tensor).elements() as u64 * program.element_type(tensor).bytes() as u64
}

/// The tiles of each node's output.
fn of_nodes(program: &Program) -> impl Iterator<Item = u64> {
    let tensors = (0..program.nodes.len()).map(TensorId::of_node);
    tensors.map(|tensor| leaves_of(bytes_of(program, tensor)))
}

/// How many tiles an execution of a program has.
#[must_use]
pub fn count(program: &Program) -> u64 {
    of_nodes(program).sum()
}

/// Bytes of what all nodes of a program give in one execution.
#[must_use]
pub fn trace_bytes(program: &Program) -> u64 {
    let tensors = (0..program.nodes.len()).map(TensorId::of_node);
    tensors.map(|tensor| bytes_of(program, tensor)).sum()
}

/// How often all tiles of an execution look at values, at most, and one of them. What weights multiply is counted as multiply-adds instead.
#[must_use]
pub fn looks(program: &Program) -> (u64, u64) {
    let of = |node: usize| {
        let tensor = TensorId::of_node(node);
        let elements = program.shape(tensor).elements() as u64;
        let in_tile = (LEAF_BYTES / program.element_type(tensor).bytes()) as u64;
        let looks = program.looks(node);
        (
            elements.saturating_mul(looks),
            in_tile.min(elements).saturating_mul(looks),
        )
    };
    let nodes = (0..program.nodes.len()).map(of);
    nodes.fold((0, 0), |(all, most), (of_node, of_tile)| {
        (all.saturating_add(of_node), most.max(of_tile))
    })
}

/// The multiply-adds that computing tiles again takes.
#[must_use]
pub fn macs(program: &Program, tiles: &[TraceTile]) -> u64 {
    let of = |tile: &TraceTile| {
        let elements = tile.elements(program).len() as u64;
        elements * program.reduction(tile.node as usize) as u64
    };
    tiles.iter().map(of).sum()
}

/// Draws tiles of an execution, without replacement, each set of as many equally likely; all tiles if there are not more.
///
/// The words (64 bits, little-endian) are the ChaCha20 key stream (RFC 8439, nonce 0, from block 0) under the key
/// `BLAKE3(domain, challenge)`; a number below `n` is a word modulo `n` of those below `2^64 - (2^64 mod n)`; the set is Floyd's
/// (Bentley and Floyd, "A sample of brilliance", 1987). Ascending. Takes about 0.1 us a tile.
#[must_use]
pub fn draw(program: &Program, challenge: &Digest, tiles: u64) -> Vec<TraceTile> {
    let all = count(program);
    let drawn: BTreeSet<u64> = if tiles >= all {
        (0..all).collect()
    } else {
        let key = Digest::of(Domain::Tiles, challenge.as_bytes());
        let mut words = ChaCha20Rng::from_seed(*key.as_bytes());
        let mut drawn = BTreeSet::new();
        for last in all - tiles..all {
            let number = below(&mut words, last + 1);
            if !drawn.insert(number) {
                drawn.insert(last);
            }
        }
        drawn
    };
    placed(program, drawn)
}

/// A number below `n`, each equally likely.
fn below(words: &mut ChaCha20Rng, n: u64) -> u64 {
    // 2^64 mod n.
    let rest = n.wrapping_neg() % n;
    loop {
        let word = words.next_u64();
        if word <= u64::MAX - rest {
            return word % n;
        }
    }
}

/// The tiles with these numbers, which are ascending, counted over all nodes in order.
fn placed(program: &Program, numbers: BTreeSet<u64>) -> Vec<TraceTile> {
    let mut numbers = numbers.into_iter().peekable();
    let mut tiles = Vec::with_capacity(numbers.len());
    let (mut node, mut before) = (0, 0);
    for leaves in of_nodes(program) {
        while let Some(number) = numbers.next_if(|&number| number < before + leaves) {
            tiles.push(TraceTile {
                node,
                leaf: u32::try_from(number - before).expect("a tensor has at most 2^32 leaves"),
            });
        }
        node += 1;
        before += leaves;
    }
    tiles
}
