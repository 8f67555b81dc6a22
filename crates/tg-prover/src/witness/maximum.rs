//! The columns of a maximum or minimum of few elements.

use super::cell::{Cell, at, cell};
use p3_maybe_rayon::prelude::*;
use tg_exec::IntTensor;
use tg_ir::{Program, TensorId};
use tg_proof::plan::{LIMB_CLASS_LIMIT, MaximumShape, Plan, WitnessTable};

/// Differences of one chunk: per kernel position a column for each limb.
pub(super) fn columns(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    shape: &MaximumShape,
    tensors: &[IntTensor],
) -> Vec<Vec<Cell>> {
    let layout = plan.layouts[table.node + 1];
    let (from, to) = (program.shape(input), program.nodes[table.node].shape);
    let (values, extremes) = (&tensors[input.index()], &tensors[table.node + 1]);
    let inner = 1usize << layout.inner_vars();
    let width = layout.batch * layout.channels;
    // A chunk is cut at pixels, unless it is a whole small tensor.
    let start = table.chunk.start >> layout.inner_vars();
    let pixels = (table.chunk.rows() >> layout.inner_vars()).min(layout.pixels - start);
    let limbs = shape.classes.len();
    // A single limb of a difference below zero is a lie that tests commit; of several limbs, what they hold.
    let limb_of = |difference: i32, limb: usize| {
        let difference = difference.cast_unsigned();
        match limbs {
            1 => cell(difference),
            _ => {
                let rest = difference >> (LIMB_CLASS_LIMIT as usize * limb);
                cell(rest & ((1 << shape.classes[limb]) - 1))
            }
        }
    };
    let column = |column: usize| {
        let (position, limb) = (column / limbs, column % limbs);
        let mut cells: Vec<Cell> = vec![0; 1 << table.chunk.column_vars()];
        for (step, rows) in cells.chunks_exact_mut(inner).take(pixels).enumerate() {
            let pixel = start + step;
            let (y, x) = (pixel as u32 / to.width, pixel as u32 % to.width);
            let source = shape.window.source(from, y, x, position);
            if source.is_none() {
                // The maximum of padded channels is 0.
                rows.fill(limb_of(-shape.padding, limb));
            }
            for element in 0..width {
                let row = layout.index(0, element / layout.channels, element % layout.channels);
                let value =
                    source.map_or(shape.padding, |source| at(values, source * width + element));
                let extreme = at(extremes, pixel * width + element);
                let difference = if shape.least {
                    value - extreme
                } else {
                    extreme - value
                };
                rows[row] = limb_of(difference, limb);
            }
        }
        cells
    };
    (0..table.columns).into_par_iter().map(column).collect()
}
