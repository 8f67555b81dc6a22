//! The columns of a requantisation.

use super::cell::{Cell, TASK_ROWS, at, cell};
use crate::error::ProveError;
use p3_maybe_rayon::prelude::*;
use tg_exec::IntTensor;
use tg_ir::segment::limb_position;
use tg_ir::{Program, Requantise, TensorId};
use tg_proof::plan::{NodePlan, Plan, WitnessTable};

/// Segment and limb positions of one chunk.
pub(super) fn columns(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    how: &Requantise,
    tensors: &[IntTensor],
) -> Result<Vec<Vec<Cell>>, ProveError> {
    let NodePlan::Requantise {
        table: segments, ..
    } = &plan.nodes[table.node]
    else {
        return Ok(Vec::new());
    };
    let segments = plan.segments[*segments]
        .as_ref()
        .expect("a requantisation has a segment table");
    let layout = plan.layouts[input.index()];
    let values = &tensors[input.index()];
    let rows = 1 << table.chunk.column_vars();
    let mut columns: [Vec<Cell>; 3] = std::array::from_fn(|_| vec![0; rows]);
    let [positions, highs, lows] = columns
        .each_mut()
        .map(|column| column[..table.chunk.rows()].par_chunks_mut(TASK_ROWS));
    let tasks: Vec<_> = positions.zip(highs).zip(lows).collect();
    tasks
        .into_par_iter()
        .enumerate()
        .try_for_each(|(task, ((positions, highs), lows))| {
            let first = table.chunk.start + task * TASK_ROWS;
            let columns = positions.iter_mut().zip(highs).zip(lows);
            for (row, ((position, high), low)) in columns.enumerate() {
                let Some(element) = layout.element_at(first + row) else {
                    // The segment of padding stands last; its limbs are zero.
                    *position = cell(segments.segments().len() as u32);
                    continue;
                };
                let (channel, value) = (element % layout.channels, at(values, element));
                let found = segments.find(how.pair_of(channel), value).ok_or_else(|| {
                    ProveError::Range {
                        node: program.nodes[table.node].name.clone(),
                        value,
                        range: how.range,
                    }
                })?;
                let segment = segments.segments()[found];
                let offset = value.wrapping_sub(segment.base).cast_unsigned();
                *position = cell(found as u32);
                *high = cell(limb_position(segment.class_high(), offset >> 8));
                *low = cell(limb_position(segment.class_low(), offset & 255));
            }
            Ok::<(), ProveError>(())
        })?;
    Ok(columns.into())
}
