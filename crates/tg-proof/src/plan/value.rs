//! Requantisations by segment tables: three committed columns.

use super::PlanError;
use super::draft::{ColumnSet, Draft, Gadget};
use super::tables;
use crate::plan::cost::Added;
use tg_ir::segment::{LIMB_CLASS_MAX, SEGMENTS_MAX};
use tg_ir::{ElementType, Program, Requantise, SegmentTable, WideTable};

/// Witness columns of a requantisation: segment, high limb, low limb.
pub const REQUANTISE_COLUMNS: usize = 3;
/// Segments up to which a 16-bit output that is a shift is proved by its segment table.
const SHORT_TABLE: usize = 1 << 9;
/// A requantisation with its columns.
#[derive(Debug)]
pub(super) enum ValuePlan {
    /// By a table of segments.
    Segments {
        table: usize,
        first_group: usize,
        columns: ColumnSet,
    },
    /// To 16 bits by shifts.
    Shifts(WideTable, Box<Gadget>),
}

impl Draft {
    pub(super) fn plan_requantise(
        &mut self,
        program: &Program,
        node: usize,
        how: &Requantise,
    ) -> Result<ValuePlan, PlanError> {
        // Without a value table every output is a segment, which is charged; with one, many may be joined.
        let entries = how.table.as_ref().map_or(0, Vec::len);
        let scanned = Added {
            scanned: (how.pairs.len() * entries) as u64,
            ..Added::default()
        };
        self.cost.add(program, node, scanned)?;
        let by_shifts = how.output == ElementType::I16 && WideTable::build(how).is_ok();
        // Its entries that are read travel in the proof: what goes by shifts has far fewer.
        let limit = if by_shifts { SHORT_TABLE } else { SEGMENTS_MAX };
        let Ok(segments) = SegmentTable::within(how, limit) else {
            let (segments, gadget) = self.plan_wide(program, node, how)?;
            return Ok(ValuePlan::Shifts(segments, Box::new(gadget)));
        };
        let limbs = self.limb_table(program, node, LIMB_CLASS_MAX)?;
        let entries = tables::segment_table(&segments, how.pairs.len());
        let table = self.add_table(program, node, entries)?;
        self.segments[table] = Some(segments);
        let columns = self.add_columns(
            program,
            node,
            self.layouts[node + 1],
            REQUANTISE_COLUMNS,
            &[],
        )?;
        let first_group = self.groups.len();
        for (column, table) in [table, limbs, limbs].into_iter().enumerate() {
            self.add_reader(program, node, (&columns, column), (table, 0))?;
        }
        Ok(ValuePlan::Segments {
            table,
            first_group,
            columns,
        })
    }
}
