//! Gadgets that commit columns for a node's output: requantisations and maxima.

use super::{NodePlan, Plan, tables};
use crate::error::PlanError;
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::{ElementType, Program, Requantise, SegmentTable, WideTable, Window};

/// Most kernel positions of a maximum that can be proved: the zero-check has one more degree than it has positions.
pub const MAXIMUM_POSITIONS_MAX: usize = 16;
/// Witness columns of a requantisation: segment, high limb, low limb.
pub const REQUANTISE_COLUMNS: usize = 3;
/// Segments up to which a 16-bit output that is a shift is proved by its segment table.
const SHORT_TABLE: usize = 1 << 9;
/// A difference is looked up in the class of eight bits, whose entries start here.
pub const DIFFERENCE_OFFSET: u32 = 255;

impl Plan {
    pub(super) fn plan_requantise(
        &mut self,
        program: &Program,
        node: usize,
        how: &Requantise,
    ) -> Result<NodePlan, PlanError> {
        let segments = SegmentTable::build(how).ok();
        let by_shifts = how.output == ElementType::I16 && WideTable::build(how).is_ok();
        let segments = match segments {
            // Its entries that are read travel in the proof: what goes by shifts has far fewer.
            Some(segments) if !by_shifts || segments.segments().len() <= SHORT_TABLE => segments,
            _ => return self.plan_wide(program, node, how),
        };
        let limbs = self.limb_table(program, node, LIMB_CLASS_MAX)?;
        let entries = tables::segment_table(&segments, how.pairs.len());
        let table = self.add_table(program, node, entries)?;
        self.segments[table] = Some(segments);
        let columns = self.add_columns(node, self.layouts[node + 1], REQUANTISE_COLUMNS, &[]);
        let first_group = self.groups.len();
        for (column, table) in [table, limbs, limbs].into_iter().enumerate() {
            self.add_reader(node, &columns, column, table, 0);
        }
        Ok(NodePlan::Requantise {
            table,
            first_group,
            columns,
        })
    }

    pub(super) fn plan_maximum(
        &mut self,
        program: &Program,
        node: usize,
        window: &Window,
    ) -> Result<NodePlan, PlanError> {
        let positions = window.positions();
        if positions > MAXIMUM_POSITIONS_MAX {
            let why = "a maximum over more than 16 elements";
            return Err(PlanError::unprovable(program, node, why));
        }
        let limbs = self.limb_table(program, node, LIMB_CLASS_MAX)?;
        // All differences once more, at the point of their zero-check.
        let openings = [(0..positions).collect()];
        let columns = self.add_columns(node, self.layouts[node + 1], positions, &openings);
        let first_group = self.groups.len();
        for column in 0..positions {
            self.add_reader(node, &columns, column, limbs, DIFFERENCE_OFFSET);
        }
        Ok(NodePlan::Maximum {
            first_group,
            columns,
        })
    }
}
