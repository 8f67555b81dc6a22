//! Computing tiles again.

use std::cell::Cell;

use tg_types::Digest;
use tg_types::leaves::LEAF_BYTES;

use super::draw::{TraceTile, bytes_of};
use super::opening::{TraceOpening, root};
use crate::bounds::intervals;
use crate::model::ExecutableModel;
use crate::program::Program;
use crate::scalar::{self, ElementValues};
use crate::shape::{ElementType, TensorId};
use crate::tensor::IntTensor;

/// What a provider says of a job.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionClaim<'a> {
    /// The input's integers.
    pub input: &'a IntTensor,
    /// The bytes of the outputs, one after the other.
    pub output: &'a [u8],
    /// What it committed to: the [`root`] over all nodes.
    pub trace: Digest,
}

/// Why an opening does not show what is claimed. Each is the provider's fault alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TileFault {
    /// There are not as many digests as nodes, or they do not give the commitment.
    #[error("the digests of the nodes' outputs are not those that the receipt commits to")]
    Trace,
    /// The answer is not what the execution ends with.
    #[error("the answer is not output {output} of the execution")]
    Output {
        /// Number of the output.
        output: usize,
    },
    /// A tensor is opened twice, out of order, or not as its digest has it.
    #[error("what is shown of tensor {tensor} is not of it")]
    Tensor {
        /// Index of the tensor.
        tensor: usize,
    },
    /// A leaf that a tile reads is not shown.
    #[error("leaf {leaf} of tensor {tensor} is needed and not shown")]
    Missing {
        /// Index of the tensor.
        tensor: usize,
        /// Index of the leaf.
        leaf: usize,
    },
    /// A leaf is shown that nothing reads.
    #[error("leaf {leaf} of tensor {tensor} is shown and not needed")]
    Surplus {
        /// Index of the tensor.
        tensor: usize,
        /// Index of the leaf.
        leaf: usize,
    },
    /// An element is no value that the program can give there.
    #[error(
        "element {element} of what is shown of tensor {tensor} is {value}, which no execution gives"
    )]
    Bounds {
        /// Index of the tensor.
        tensor: usize,
        /// Which of the elements that are shown.
        element: usize,
        /// Its value.
        value: i32,
    },
    /// An element is wrong.
    #[error("element {element} of node {node} is {expected}, not {got}")]
    Element {
        /// Index of the node.
        node: usize,
        /// Index of the tile among those of the node.
        leaf: usize,
        /// Index of the element.
        element: usize,
        /// What its operator gives.
        expected: i64,
        /// What was committed to.
        got: i32,
    },
}

/// Computes tiles of an execution again, from what is shown of it; gives the [`Checksum`] of what was computed. Total: whatever is
/// shown, the answer is this one or a fault. Takes a few nanoseconds for each of the tiles' multiply-adds, and hashes what is shown.
///
/// # Errors
/// The first fault found.
///
/// # Panics
/// If the input is none that the model takes, or a tile is none of the program's.
pub fn check(
    model: &ExecutableModel,
    claim: ExecutionClaim<'_>,
    tiles: &[TraceTile],
    opening: &TraceOpening,
) -> Result<Checksum, TileFault> {
    let program = &model.program;
    if opening.nodes.len() != program.nodes.len() || root(&opening.nodes) != claim.trace {
        return Err(TileFault::Trace);
    }
    claim.check_output(program, &opening.nodes)?;
    let shown = OpenedTrace::new(program, claim.input, opening)?;
    for tile in tiles {
        check_tile(model, *tile, &shown)?;
    }
    shown.check_surplus()?;
    Ok(shown.checksum.get())
}

/// Computes one tile of an execution again, from what is shown of all that were drawn: what decides whether it is wrong. Total, as
/// [`check`] is; what is shown besides is not looked at.
///
/// # Errors
/// The fault found. [`TileFault::Missing`] if the tile is none of the program's, or is not shown.
///
/// # Panics
/// If the input is none that the model takes.
pub fn check_one(
    model: &ExecutableModel,
    claim: ExecutionClaim<'_>,
    tile: TraceTile,
    opening: &TraceOpening,
) -> Result<(), TileFault> {
    let program = &model.program;
    if opening.nodes.len() != program.nodes.len() || root(&opening.nodes) != claim.trace {
        return Err(TileFault::Trace);
    }
    let shown = OpenedTrace::new(program, claim.input, opening)?;
    check_tile(model, tile, &shown)
}

impl ExecutionClaim<'_> {
    /// That the answer is what the outputs' nodes gave, whose names are these.
    ///
    /// # Errors
    /// [`TileFault::Output`].
    pub fn check_output(&self, program: &Program, nodes: &[Digest]) -> Result<(), TileFault> {
        let mut output = self.output;
        for (number, tensor) in program.outputs().into_iter().enumerate() {
            let fault = TileFault::Output { output: number };
            let bytes = usize::try_from(bytes_of(program, tensor)).map_err(|_| fault)?;
            let (this, later) = output.split_at_checked(bytes).ok_or(fault)?;
            // An output that is the input has no node.
            let node = tensor.index().checked_sub(1).and_then(|it| nodes.get(it));
            if node.is_some_and(|node| *node != Digest::of_blob(this)) {
                return Err(fault);
            }
            output = later;
        }
        match output {
            [] => Ok(()),
            _ => Err(TileFault::Output {
                output: program.outputs().len(),
            }),
        }
    }
}

fn check_tile(
    model: &ExecutableModel,
    tile: TraceTile,
    shown: &OpenedTrace,
) -> Result<(), TileFault> {
    let (program, node) = (&model.program, tile.node as usize);
    let elements = tile.elements(program);
    let values = scalar::elements(program, &model.weights, node, elements.clone(), shown);
    for (element, expected) in elements.zip(values) {
        let got = shown.committed(tile.tensor(), element);
        if let Some((tensor, leaf)) = shown.missing.get() {
            return Err(TileFault::Missing { tensor, leaf });
        }
        if expected != i64::from(got) {
            return Err(TileFault::Element {
                node,
                leaf: tile.leaf as usize,
                element,
                expected,
                got,
            });
        }
    }
    Ok(())
}

/// What a check of tiles computes beside its answer, so that whoever votes shows that it computed: 64 bits over all that the
/// operators read, in the order in which they do, and over each run of products weighted by place. The elements that an opening shows
/// are the plain sums, from which the weighted ones do not follow (`docs/PROTOCOL.md`, "Checksum of a check").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// With one more number. One to one in the number, and in what was before.
    const fn with(self, number: u64) -> Self {
        Self(
            (self.0 ^ number)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29),
        )
    }
}

/// What is shown of one tensor.
struct OpenedTensor {
    /// Elements of a leaf.
    in_leaf: usize,
    /// Whether sums of products over a leaf fit 32 bits.
    is_narrow: bool,
    /// Where each leaf begins in `values`, if it is shown, and whether it was read.
    leaves: Vec<Option<Cell<(usize, bool)>>>,
    values: Vec<i32>,
}

impl OpenedTensor {
    /// The elements from one on to the end of its leaf, if the leaf is shown.
    fn from(&self, element: usize) -> Result<&[i32], usize> {
        let (leaf, within) = (element / self.in_leaf, element % self.in_leaf);
        let Some(Some(place)) = self.leaves.get(leaf) else {
            return Err(leaf);
        };
        let (start, _) = place.get();
        place.set((start, true));
        let end = (start + self.in_leaf).min(self.values.len());
        self.values.get(start + within..end).ok_or(leaf)
    }
}

/// All that is shown of an execution: every value lies within the program's bounds.
pub(super) struct OpenedTrace {
    tensors: Vec<Option<OpenedTensor>>,
    /// The first leaf that was asked for and is not there: tensor and leaf.
    missing: Cell<Option<(usize, usize)>>,
    /// Of what was read and multiplied so far.
    checksum: Cell<Checksum>,
}

impl OpenedTrace {
    /// What an opening shows, if it is of the tensors of its names.
    pub(super) fn new(
        program: &Program,
        input: &IntTensor,
        opening: &TraceOpening,
    ) -> Result<Self, TileFault> {
        let bounds = intervals(program);
        let mut tensors: Vec<Option<OpenedTensor>> = Vec::new();
        tensors.resize_with(program.nodes.len() + 1, || None);
        tensors[0] = Some(OpenedTensor {
            in_leaf: input.len().max(1),
            is_narrow: false,
            leaves: vec![Some(Cell::new((0, true)))],
            values: input.widened(),
        });
        for (id, opened) in &opening.tensors {
            let tensor = id.index();
            let fault = TileFault::Tensor { tensor };
            let place = tensors.get_mut(tensor).ok_or(fault)?;
            let digest = opening.nodes.get(tensor.wrapping_sub(1)).ok_or(fault)?;
            if place.is_some() || !opened.are_of(digest, bytes_of(program, *id)) {
                return Err(fault);
            }
            let kind = program.element_type(*id);
            let elements = IntTensor::from_bytes(kind, opened.bytes()).ok_or(fault)?;
            let values = elements.widened();
            let [low, high] = bounds[tensor];
            let is_in = |&value: &i32| (low..=high).contains(&i64::from(value));
            if let Some(element) = values.iter().position(|value| !is_in(value)) {
                return Err(TileFault::Bounds {
                    tensor,
                    element,
                    value: values[element],
                });
            }
            let in_leaf = LEAF_BYTES / kind.bytes();
            let last = opened.leaves().last().map_or(0, |&last| last as usize);
            let mut leaves = vec![None; last + 1];
            for (number, &leaf) in opened.leaves().iter().enumerate() {
                leaves[leaf as usize] = Some(Cell::new((number * in_leaf, false)));
            }
            *place = Some(OpenedTensor {
                in_leaf,
                is_narrow: kind == ElementType::I8,
                leaves,
                values,
            });
        }
        Ok(Self {
            tensors,
            missing: Cell::new(None),
            checksum: Cell::default(),
        })
    }

    /// The elements of a tensor from one on to the end of its leaf; if they are not shown that is noted.
    fn from(&self, tensor: TensorId, element: usize) -> Option<(&OpenedTensor, &[i32])> {
        let shown = self.tensors.get(tensor.index()).and_then(Option::as_ref);
        let found = shown.map(|shown| (shown, shown.from(element)));
        match found {
            Some((shown, Ok(values))) => Some((shown, values)),
            Some((_, Err(leaf))) => self.lacks(tensor, leaf),
            None => self.lacks(tensor, 0),
        }
    }

    /// An element that is shown; 0 if it is not, which is noted.
    fn committed(&self, tensor: TensorId, element: usize) -> i32 {
        let found = self.from(tensor, element);
        found
            .and_then(|(_, values)| values.first().copied())
            .unwrap_or(0)
    }

    /// Whether something was asked for that is not shown.
    pub(super) fn is_lacking(&self) -> bool {
        self.missing.get().is_some()
    }

    /// Brings a number into the checksum.
    fn note(&self, number: u64) {
        self.checksum.set(self.checksum.get().with(number));
    }

    fn lacks<T>(&self, tensor: TensorId, leaf: usize) -> Option<T> {
        let first = self.missing.get().unwrap_or((tensor.index(), leaf));
        self.missing.set(Some(first));
        None
    }

    fn check_surplus(&self) -> Result<(), TileFault> {
        for (tensor, shown) in self.tensors.iter().enumerate() {
            let leaves = shown.iter().flat_map(|it| it.leaves.iter().enumerate());
            for (leaf, place) in leaves {
                if place.as_ref().is_some_and(|place| !place.get().1) {
                    return Err(TileFault::Surplus { tensor, leaf });
                }
            }
        }
        Ok(())
    }
}

impl ElementValues for OpenedTrace {
    fn value(&self, tensor: TensorId, element: usize) -> i32 {
        let value = self.committed(tensor, element);
        self.note(i64::from(value).cast_unsigned());
        value
    }

    fn dot(&self, tensor: TensorId, first: usize, weights: &[i8]) -> i64 {
        let (mut first, mut weights, mut sum) = (first, weights, 0);
        while !weights.is_empty() {
            let Some((shown, values)) = self.from(tensor, first) else {
                return 0;
            };
            let count = values.len().min(weights.len());
            let (now, later) = weights.split_at(count);
            let products = match shown.is_narrow {
                true => Products::narrow(&values[..count], now),
                false => Products::wide(&values[..count], now),
            };
            sum += products.sum;
            self.note(u64::from(products.weighted));
            first += count;
            weights = later;
        }
        sum
    }
}

/// Products in a block: the lanes of a vector.
const BLOCK: usize = 8;

/// Sums of one run of products of values and weights.
struct Products {
    sum: i64,
    /// Each product times its place in its block, counted from 1, and times the number of blocks from its own to the last; modulo
    /// 2^32. So a block takes one addition more than its sum.
    weighted: u32,
}

impl Products {
    /// Of values of 8 bits, of which a leaf has 1,024: no sum leaves 32 bits.
    fn narrow(values: &[i32], weights: &[i8]) -> Self {
        // What a vector would only slow down.
        if values.len() < BLOCK {
            return Self::wide(values, weights);
        }
        let (mut sums, mut stairs) = ([0_i32; BLOCK], [0_i32; BLOCK]);
        let (blocks, rest) = values.as_chunks::<BLOCK>();
        let (weights, last) = weights.as_chunks::<BLOCK>();
        let climb = |stairs: &mut [i32; BLOCK], sums: &[i32; BLOCK]| {
            for (stair, sum) in stairs.iter_mut().zip(sums) {
                *stair = stair.wrapping_add(*sum);
            }
        };
        for (block, weights) in blocks.iter().zip(weights) {
            for ((sum, &value), &weight) in sums.iter_mut().zip(block).zip(weights) {
                *sum += value * i32::from(weight);
            }
            climb(&mut stairs, &sums);
        }
        if !rest.is_empty() {
            for ((sum, &value), &weight) in sums.iter_mut().zip(rest).zip(last) {
                *sum += value * i32::from(weight);
            }
            climb(&mut stairs, &sums);
        }
        let by_place =
            |sum: i32, (&stair, place): (&i32, i32)| sum.wrapping_add(stair.wrapping_mul(place));
        Self {
            sum: i64::from(sums.iter().sum::<i32>()),
            weighted: stairs.iter().zip(1..).fold(0, by_place).cast_unsigned(),
        }
    }

    fn wide(values: &[i32], weights: &[i8]) -> Self {
        let (mut sum, mut weighted) = (0_i64, 0_i64);
        let blocks = values.chunks(BLOCK).zip(weights.chunks(BLOCK));
        for ((values, weights), to_last) in blocks.rev().zip(1_i64..) {
            let mut in_block = 0_i64;
            for ((&value, &weight), place) in values.iter().zip(weights).zip(1..) {
                let product = i64::from(value) * i64::from(weight);
                sum += product;
                in_block = in_block.wrapping_add(product.wrapping_mul(place));
            }
            weighted = weighted.wrapping_add(in_block.wrapping_mul(to_last));
        }
        Self {
            sum,
            weighted: low_half(weighted),
        }
    }
}

/// A number modulo 2^32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the rest is left out on purpose"
)]
const fn low_half(number: i64) -> u32 {
    number.cast_unsigned() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of `docs/PROTOCOL.md`.
    #[test]
    fn products_are_weighted_by_their_place() {
        let (values, weights) = ([3, -1, 2], [5, 4, -2]);
        for products in [
            Products::narrow(&values, &weights),
            Products::wide(&values, &weights),
        ] {
            assert_eq!((products.sum, products.weighted), (7, 4_294_967_291));
        }
        // Two blocks: those of the first count twice.
        let (values, weights) = ([1; 9], [1; 9]);
        let products = Products::narrow(&values, &weights);
        assert_eq!((products.sum, products.weighted), (9, 2 * 36 + 1));
        // The same sum by other products is seen.
        let other = Products::narrow(&[2, 3, -1], &[-2, 5, 4]);
        assert_eq!(other.sum, 7);
        assert_ne!(other.weighted, 4_294_967_291);
    }

    /// A leaf of the greatest products leaves no sum of 32 bits, and both ways weigh alike.
    #[test]
    fn narrow_and_wide_products_agree() {
        for count in (0..40).chain([511, LEAF_BYTES]) {
            let one = |place: usize| i32::try_from(place % 256).expect("small") - 128;
            let values: Vec<i32> = (0..count).map(one).collect();
            let weights = vec![-128; count];
            let (narrow, wide) = (
                Products::narrow(&values, &weights),
                Products::wide(&values, &weights),
            );
            assert_eq!((narrow.sum, narrow.weighted), (wide.sum, wide.weighted));
        }
    }

    #[test]
    fn a_checksum_is_one_to_one_in_each_number() {
        let of = |numbers: &[u64]| {
            let numbers = numbers.iter();
            numbers.fold(Checksum::default(), |sum, &number| sum.with(number))
        };
        assert_ne!(of(&[1, 2, 3]), of(&[1, 3, 2]));
        assert_ne!(of(&[1, 2, 3]), of(&[0, 2, 3]));
        assert_ne!(of(&[1, 2]), of(&[1, 2, 0]));
    }
}
