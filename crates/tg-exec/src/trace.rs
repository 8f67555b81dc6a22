//! All tensors of one execution.

use tg_ir::tensor::top_class;
use tg_ir::{IntTensor, TensorId};
use tg_types::{Digest, domain::Domain};

/// Every tensor of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    tensors: Vec<IntTensor>,
}

impl Trace {
    /// The tensors of one execution, the input first.
    #[must_use]
    pub const fn from_tensors(tensors: Vec<IntTensor>) -> Self {
        Self { tensors }
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

    /// The program's output.
    ///
    /// # Panics
    /// Never: a trace holds at least the input.
    #[must_use]
    pub fn output(&self) -> &IntTensor {
        self.tensors.last().expect("a trace holds the input")
    }

    /// The output as bytes: one per activation, four (little-endian) per accumulator.
    #[must_use]
    pub fn output_bytes(&self) -> Vec<u8> {
        self.output().to_bytes()
    }

    /// The class with the greatest output; of equal ones the lowest index.
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
    /// leaf can be opened; the root hashes the nodes' digests in order under [`Domain::Trace`].
    #[must_use]
    pub fn digest(&self) -> Digest {
        let roots: Vec<u8> = self.tensors[1..]
            .iter()
            .flat_map(|tensor| *Digest::of_blob(&tensor.to_bytes()).as_bytes())
            .collect();
        Digest::of(Domain::Trace, &roots)
    }
}
