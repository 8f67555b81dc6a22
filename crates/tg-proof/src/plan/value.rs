//! Requantisations by segment tables: three committed columns.

use super::{NodePlan, Plan, tables};
use crate::error::PlanError;
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::{ElementType, Program, Requantise, SegmentTable, WideTable};

/// Witness columns of a requantisation: segment, high limb, low limb.
pub const REQUANTISE_COLUMNS: usize = 3;
/// Segments up to which a 16-bit output that is a shift is proved by its segment table.
const SHORT_TABLE: usize = 1 << 9;
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
}
