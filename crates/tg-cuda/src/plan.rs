//! What a device is asked to do for one execution: memory laid out once, then kernels in order.
//!
//! A plan knows no device. A [`super::kernel_device::KernelDevice`] runs it: a GPU, or in tests the CPU, where the same
//! kernel text is compiled as C++.

use std::collections::BTreeSet;
use tg_ir::{Op, Program, TensorId, Weights};

/// Buffers start at multiples of this many bytes, and can be read up to the next one.
pub(crate) const ALIGNMENT: usize = 256;

/// Which tensors are still there after an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The output only; the memory of other tensors is used again.
    Output,
    /// All of them.
    Trace,
}

/// A device allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Region {
    /// Weights, tables, indices: written once.
    Constants,
    /// Tensors.
    Arena,
}

/// A place in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) region: Region,
    /// Bytes from the region's start.
    pub(crate) offset: usize,
}

/// The arguments of a kernel, laid out as its C structure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    /// Where an address stands, as an offset into a region.
    addresses: Vec<(usize, Region)>,
}

impl Arguments {
    /// A pointer; nothing is null.
    pub(crate) fn address(&mut self, address: Option<Address>) -> &mut Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        if let Some(Address { region, .. }) = address {
            self.addresses.push((self.bytes.len(), region));
        }
        let offset = address.map_or(0, |address| address.offset as u64);
        self.bytes.extend(offset.to_ne_bytes());
        self
    }

    /// 32-bit integers.
    pub(crate) fn words(&mut self, words: &[i32]) -> &mut Self {
        self.bytes
            .extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    /// The bytes with addresses for regions that start at `constants` and `arena`.
    pub(crate) fn bound(&self, constants: u64, arena: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        // A structure is as long as a multiple of its alignment.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for &(at, region) in &self.addresses {
            let base = match region {
                Region::Constants => constants,
                Region::Arena => arena,
            };
            let slot = &mut bytes[at..at + 8];
            let offset = u64::from_ne_bytes(std::array::from_fn(|i| slot[i]));
            slot.copy_from_slice(&(base + offset).to_ne_bytes());
        }
        bytes
    }
}

/// One kernel to run.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The node it computes (with a fused requantisation: the linear one).
    pub(crate) node: usize,
    pub(crate) kernel: &'static str,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) threads: u32,
    pub(crate) arguments: Arguments,
}

/// A node that a device has no kernel for: programs with such a node run on the CPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operator {operator} of node `{node}` has no kernel")]
pub struct NoKernel {
    /// The node's name.
    pub node: String,
    /// Its operator's.
    pub operator: &'static str,
}

/// A program laid out for a device.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Names and operators of the program's nodes.
    nodes: Vec<(String, &'static str)>,
    pub(crate) launches: Vec<Launch>,
    /// Contents of [`Region::Constants`].
    pub(crate) constants: Vec<u8>,
    /// Bytes of [`Region::Arena`].
    pub(crate) arena_bytes: usize,
    /// Memory for the time of one node: offsets and lengths in [`Region::Arena`].
    pub(crate) scratch: Vec<(usize, usize)>,
    /// Where tensors lie; nothing for those that are never stored. Unless all are kept, only those of the input (at the
    /// start) and the outputs (at the end) can be relied on.
    pub(crate) tensors: Vec<Option<Address>>,
}

impl Plan {
    /// Bytes of device memory: constants and tensors.
    pub(crate) fn bytes(&self) -> u64 {
        (self.constants.len() + self.arena_bytes) as u64
    }

    /// Says that a node's kernel is missing.
    pub(crate) fn no_kernel(&self, node: usize) -> NoKernel {
        let (name, operator) = &self.nodes[node];
        NoKernel {
            node: name.clone(),
            operator,
        }
    }
}

/// Memory that is handed out and taken back.
#[derive(Debug, Default)]
struct Arena {
    /// Offset and length of what is in use, in order.
    used: BTreeSet<(usize, usize)>,
    /// Bytes needed so far.
    bytes: usize,
}

impl Arena {
    /// The first gap that is long enough.
    fn reserve(&mut self, bytes: usize) -> usize {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        let mut at = 0;
        for &(offset, length) in &self.used {
            if offset - at >= bytes {
                break;
            }
            at = offset + length;
        }
        self.used.insert((at, bytes));
        self.bytes = self.bytes.max(at + bytes);
        at
    }

    pub(crate) fn release(&mut self, offset: usize) {
        let used = self.used.iter().find(|range| range.0 == offset).copied();
        if let Some(range) = used {
            self.used.remove(&range);
        }
    }
}

/// A plan in the making.
pub(crate) struct Planner<'a> {
    pub(crate) program: &'a Program,
    pub(crate) weights: &'a Weights,
    pub(crate) multiprocessors: u32,
    keep: Keep,
    constants: Vec<u8>,
    arena: Arena,
    tensors: Vec<Option<Address>>,
    launches: Vec<Launch>,
    scratch: Vec<(usize, usize)>,
    /// Per tensor the nodes that read it, in order.
    readers: Vec<Vec<usize>>,
    /// Per node whether an output depends on it.
    needed: Vec<bool>,
    /// Per node whether an earlier launch has computed it already.
    done: Vec<bool>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        program: &'a Program,
        weights: &'a Weights,
        keep: Keep,
        multiprocessors: u32,
    ) -> Self {
        let count = program.nodes.len();
        let mut readers = vec![Vec::new(); count + 1];
        for (node, description) in program.nodes.iter().enumerate() {
            for input in description.op.inputs() {
                readers[input.index()].push(node);
            }
        }
        let mut needed = vec![keep == Keep::Trace; count];
        let outputs = program.outputs().into_iter();
        outputs
            .filter_map(|output| output.index().checked_sub(1))
            .for_each(|node| needed[node] = true);
        for node in (0..count).rev() {
            if needed[node] {
                let inputs = program.nodes[node].op.inputs();
                for node in inputs
                    .iter()
                    .filter_map(|input| input.index().checked_sub(1))
                {
                    needed[node] = true;
                }
            }
        }
        Self {
            program,
            weights,
            multiprocessors,
            keep,
            constants: Vec::new(),
            arena: Arena::default(),
            tensors: vec![None; count + 1],
            launches: Vec::new(),
            scratch: Vec::new(),
            readers,
            needed,
            done: vec![false; count],
        }
    }

    pub(crate) fn is_needed(&self, node: usize) -> bool {
        self.needed[node] && !self.done[node]
    }

    /// Memory for a tensor.
    pub(crate) fn reserve(&mut self, tensor: TensorId) -> Address {
        let bytes =
            self.program.shape(tensor).elements() * self.program.element_type(tensor).bytes();
        let address = Address {
            region: Region::Arena,
            offset: self.arena.reserve(bytes),
        };
        self.tensors[tensor.index()] = Some(address);
        address
    }

    /// Memory for the time of one node, in bytes. Later nodes may use it again: kernels run one after the other.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Address {
        let offset = self.arena.reserve(bytes);
        self.scratch.push((offset, bytes));
        if self.keep == Keep::Output {
            self.arena.release(offset);
        }
        Address {
            region: Region::Arena,
            offset,
        }
    }

    /// Where a tensor lies that an earlier launch has given.
    pub(crate) fn address(&self, tensor: TensorId) -> Option<Address> {
        self.tensors[tensor.index()]
    }

    /// Says that a node's output is a constant.
    pub(crate) fn place(&mut self, node: usize, address: Address) {
        self.tensors[node + 1] = Some(address);
    }

    /// Constant bytes.
    pub(crate) fn constant(&mut self, bytes: impl IntoIterator<Item = u8>) -> Address {
        let offset = self.constants.len();
        self.constants.extend(bytes);
        let end = self.constants.len().next_multiple_of(ALIGNMENT);
        self.constants.resize(end, 0);
        Address {
            region: Region::Constants,
            offset,
        }
    }

    /// The requantisation that is computed together with a linear node, if one reads it; and whether the sums are
    /// needed beside it. It counts as done.
    pub(crate) fn fuse(&mut self, node: usize) -> (Option<usize>, bool) {
        let readers = self.readers[node + 1].iter().copied();
        let readers: Vec<usize> = readers.filter(|&reader| self.needed[reader]).collect();
        let is_requantise =
            |reader: &usize| matches!(self.program.nodes[*reader].op, Op::Requantise(_));
        let fused = readers.iter().copied().find(is_requantise);
        if let Some(fused) = fused {
            self.done[fused] = true;
        }
        let given = self.program.outputs().contains(&TensorId::of_node(node));
        let sums = self.keep == Keep::Trace || fused.is_none() || readers.len() > 1 || given;
        (fused, sums)
    }

    pub(crate) fn push(&mut self, launch: Launch) {
        self.launches.push(launch);
    }

    /// Takes back the memory of tensors that nobody reads after a node.
    pub(crate) fn release(&mut self, node: usize) {
        if self.keep == Keep::Trace {
            return;
        }
        let outputs = self.program.outputs();
        let kept = |tensor: usize| outputs.iter().any(|output| output.index() == tensor);
        for tensor in 0..self.readers.len() {
            if self.readers[tensor].last() == Some(&node)
                && !kept(tensor)
                && let Some(Address {
                    region: Region::Arena,
                    offset,
                }) = self.tensors[tensor]
            {
                self.arena.release(offset);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Plan {
        self.constants.resize(self.constants.len() + ALIGNMENT, 0);
        let nodes = self.program.nodes.iter();
        Plan {
            nodes: nodes
                .map(|node| (node.name.clone(), node.op.name()))
                .collect(),
            launches: self.launches,
            scratch: self.scratch,
            constants: self.constants,
            arena_bytes: self.arena.bytes + ALIGNMENT,
            tensors: self.tensors,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::op;
    use tg_ir::{
        CompiledModel, InputSpec, LinearWeights, Node, Requantise, Rescale, Shape, TensorId, Window,
    };

    #[test]
    fn arguments_are_aligned_and_bound() {
        let mut arguments = Arguments::default();
        let address = |region, offset| Some(Address { region, offset });
        arguments.words(&[-1]).address(address(Region::Arena, 3));
        arguments
            .address(None)
            .address(address(Region::Constants, 5));
        arguments.words(&[7]);
        let bytes = arguments.bound(1_000, 2_000);
        let words: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        assert_eq!(words, [0xffff_ffff, 2_003, 0, 1_005, 7]);
        assert_eq!(bytes.len(), 40);
    }

    #[test]
    fn memory_is_handed_out_without_overlap_and_taken_back() {
        let mut arena = Arena::default();
        let first = [arena.reserve(1), arena.reserve(700), arena.reserve(256)];
        assert_eq!(first, [0, 256, 1_024]);
        arena.release(256);
        assert_eq!([arena.reserve(512), arena.reserve(300)], [256, 1_280]);
        assert_eq!(arena.reserve(200), 768);
        assert_eq!(arena.bytes, 1_792);
    }

    /// A chain of convolutions, each requantised.
    fn chain(length: u32) -> CompiledModel {
        let shape = Shape::new(8, 8, 16);
        let mut nodes = Vec::new();
        let mut layers = Vec::new();
        let push = |op, nodes: &mut Vec<Node>| {
            nodes.push(Node {
                name: "node".to_owned(),
                op,
                shape,
                scale: 1.0,
            });
        };
        for step in 0..length {
            let input = TensorId(2 * step);
            push(
                Op::conv(input, Window::new([1, 1], [1, 1], [0; 4])),
                &mut nodes,
            );
            layers.push(LinearWeights {
                weights: vec![1; 256],
                bias: vec![0; 16],
            });
            let rescale = Rescale::new(16_384, 18).unwrap();
            let how = Requantise::to_i8(vec![rescale], vec![0], [-2_048, 2_032], [-128, 127]);
            let input = TensorId(2 * step + 1);
            push(Op::Requantise(op::Unary { input, how }), &mut nodes);
        }
        let weights = Weights { layers };
        let program = Program {
            name: "chain".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        program.validate().unwrap();
        CompiledModel { program, weights }
    }

    #[test]
    fn requantisations_are_fused_and_memory_is_used_again() {
        let model = chain(10);
        let activations = 8 * 8 * 16;
        let output = Plan::of(&model, Keep::Output, 4).unwrap();
        assert_eq!(output.launches.len(), 10);
        assert_eq!(output.arena_bytes, 2 * activations + ALIGNMENT);
        assert_eq!(output.tensors[1], None, "sums are never stored");
        let trace = Plan::of(&model, Keep::Trace, 4).unwrap();
        assert_eq!(trace.launches.len(), 10);
        assert_eq!(trace.arena_bytes, (11 + 10 * 4) * activations + ALIGNMENT);
        assert!(trace.tensors.iter().all(Option::is_some));
    }

    #[test]
    fn what_the_output_does_not_read_is_left_out() {
        let mut model = chain(1);
        let shape = model.program.nodes[0].shape;
        for input in [2, 0] {
            model.program.nodes.push(Node {
                name: "maximum".to_owned(),
                op: Op::Extremum(op::Extremum {
                    inputs: [TensorId(input); 2],
                    which: tg_ir::op::Extreme::Greater,
                }),
                shape,
                scale: 1.0,
            });
        }
        assert_eq!(Plan::of(&model, Keep::Output, 4).unwrap().launches.len(), 1);
        assert_eq!(Plan::of(&model, Keep::Trace, 4).unwrap().launches.len(), 3);
    }
}
