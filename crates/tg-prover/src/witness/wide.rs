//! The columns of a requantisation by shifts.

use super::sources::Sources;
use crate::error::ProveError;
use tg_ir::op;
use tg_ir::wide::WIDE_LIMB_BITS;
use tg_ir::{Op, Requantise, WideTable};

pub(super) struct Filler<'a> {
    sources: &'a Sources<'a>,
    segments: &'a WideTable,
}

/// A position in the limb table.
const fn position(class: u32, value: u32) -> u32 {
    (1 << class) - 1 + value
}

impl<'a> Filler<'a> {
    pub(super) const fn new(sources: &'a Sources<'a>, segments: &'a WideTable) -> Self {
        Self { sources, segments }
    }

    fn how(&self) -> &Requantise {
        match self.sources.op() {
            Op::Requantise(op::Unary { how, .. }) => how,
            _ => unreachable!("the plan follows the program's operators"),
        }
    }

    /// Segment, step and the limbs of the rest.
    pub(super) fn fill(&self, index: usize, cells: &mut Vec<u32>) -> Result<(), ProveError> {
        let layout = self.sources.layout;
        let (found, step, rest) = match layout.element_at(index) {
            // Padding names the first segment: it is masked, but its limbs must have the segment's classes.
            None => (0, 0, 0),
            Some(element) => {
                let (how, value) = (self.how(), self.sources.input(element) as i32);
                let pair = how.pair_of(element % layout.channels);
                self.segments
                    .find(pair, value)
                    .ok_or_else(|| ProveError::Range {
                        node: self.sources.program.nodes[self.sources.node].name.clone(),
                        value,
                        range: how.range,
                    })?
            }
        };
        let segment = self.segments.segments()[found];
        let low = rest & ((1 << WIDE_LIMB_BITS) - 1);
        cells.push(found as u32);
        cells.push(position(segment.bits, step));
        cells.push(position(segment.class_low(), low));
        if self.segments.rest_limbs() == 2 {
            cells.push(position(segment.class_high(), rest >> WIDE_LIMB_BITS));
        }
        Ok(())
    }
}
