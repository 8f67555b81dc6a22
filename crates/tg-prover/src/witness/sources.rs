//! What the columns of gadgets are computed from, and the limbs that are in them.

use super::cell::at;
use std::ops::Range;
use tg_exec::IntTensor;
use tg_ir::{Op, Program, TensorId};
use tg_proof::layout::TensorLayout;
use tg_proof::plan::{LIMB_CLASS_LIMIT, Plan};

/// What a gadget's columns are computed from.
pub(super) struct Sources<'a> {
    pub(super) program: &'a Program,
    pub(super) plan: &'a Plan,
    pub(super) tensors: &'a [IntTensor],
    pub(super) node: usize,
    pub(super) layout: TensorLayout,
}

impl Sources<'_> {
    pub(super) fn op(&self) -> &Op {
        &self.program.nodes[self.node].op
    }

    /// An element of the node's first input.
    pub(super) fn input(&self, element: usize) -> i64 {
        self.input_of(0, element)
    }

    pub(super) fn input_of(&self, input: usize, element: usize) -> i64 {
        let input = self.op().inputs()[input];
        i64::from(at(&self.tensors[input.index()], element))
    }

    pub(super) fn output(&self, element: usize) -> i64 {
        let output = TensorId::of_node(self.node);
        i64::from(at(&self.tensors[output.index()], element))
    }

    /// The elements of a row (pixel and input), if it is in use.
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        let first = self.layout.element_at(row << self.layout.channel_vars)?;
        Some(first..first + self.layout.channels)
    }

    /// The pixel of a row.
    pub(super) const fn pixel(&self, row: usize) -> usize {
        row >> self.layout.batch_vars
    }
}

/// Appends the limbs of an integer that has `bits` bits if it is honest; of any other it is what the limbs hold.
pub(super) fn push_limbs(cells: &mut Vec<u32>, value: i128, bits: u32) {
    // Those of `limb_classes`, without a list: this runs for every cell.
    let (mut rest, mut left) = (value, bits);
    loop {
        let class = left.min(LIMB_CLASS_LIMIT);
        cells.push((rest & ((1 << class) - 1)) as u32);
        rest >>= 12;
        left -= class;
        if left == 0 {
            return;
        }
    }
}

/// As [`push_limbs`], of an integer in `[-2^(bits - 1), 2^(bits - 1))`.
pub(super) fn push_signed(cells: &mut Vec<u32>, value: i128, bits: u32) {
    push_limbs(cells, value + (1 << (bits - 1)), bits);
}
