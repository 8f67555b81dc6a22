//! All tensors of one execution.

use tg_ir::tensor::top_class;
use tg_ir::{IntTensor, Program, TensorId};
use tg_types::Digest;

/// Every tensor of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    tensors: Vec<IntTensor>,
    /// Which of them the program gives.
    outputs: Vec<TensorId>,
}

impl Trace {
    /// The tensors of one execution of a program, the input first.
    ///
    /// # Panics
    /// If there are not as many as the program has.
    #[must_use]
    pub fn new(program: &Program, tensors: Vec<IntTensor>) -> Self {
        assert_eq!(
            tensors.len(),
            program.nodes.len() + 1,
            "a tensor of each node, and the input"
        );
        let outputs = program.outputs();
        Self { tensors, outputs }
    }

    /// A tensor of the program.
    ///
    /// # Panics
    /// If the program has no such tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &IntTensor {
        &self.tensors[id.index()]
    }

    /// All tensors; index 0 is the input, `i + 1` the output of node `i`.
    #[must_use]
    pub fn tensors(&self) -> &[IntTensor] {
        &self.tensors
    }

    /// The program's first output, the only one of most programs.
    #[must_use]
    pub fn output(&self) -> &IntTensor {
        self.tensor(self.outputs[0])
    }

    /// The program's outputs, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &IntTensor> {
        self.outputs.iter().map(|&id| self.tensor(id))
    }

    /// The outputs one after the other as bytes: one per activation, four (little-endian) per accumulator.
    #[must_use]
    pub fn output_bytes(&self) -> Vec<u8> {
        self.outputs().flat_map(IntTensor::to_bytes).collect()
    }

    /// The integers of the outputs one after the other, as [`tg_ir::Answer`] takes them.
    #[must_use]
    pub fn output_values(&self) -> Vec<i32> {
        self.outputs().flat_map(IntTensor::widened).collect()
    }

    /// The class with the greatest element of the first output; of equal ones the lowest index.
    ///
    /// # Panics
    /// Never: a valid program has at least one output element.
    #[must_use]
    pub fn top_class(&self) -> usize {
        top_class(&self.output().widened()).expect("an output has elements")
    }

    /// The root over all node outputs.
    ///
    /// Each node output is hashed by BLAKE3, which is itself a Merkle tree over contiguous leaves of 1 KiB, so that a
    /// leaf can be opened; [`tg_ir::tiles::root`] is over the nodes' digests in order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let nodes = self.tensors[1..].iter();
        let digests: Vec<Digest> = nodes
            .map(|tensor| Digest::of_blob(&tensor.to_bytes()))
            .collect();
        tg_ir::tiles::root(&digests)
    }
}
