//! The columns of a maximum.

use super::{Cell, at, cell};
use p3_maybe_rayon::prelude::*;
use tg_ir::{Program, TensorId, Window};
use tg_model::Tensor;
use tg_proof::plan::{Plan, WitnessTable};

/// Differences of one chunk, one column per kernel position.
pub(super) fn columns(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    window: &Window,
    tensors: &[Tensor],
) -> Vec<Vec<Cell>> {
    let layout = plan.layouts[table.node + 1];
    let (from, shape) = (program.shape(input), program.nodes[table.node].shape);
    let (values, maxima) = (&tensors[input.index()], &tensors[table.node + 1]);
    let inner = 1usize << layout.inner_vars();
    let width = layout.batch * layout.channels;
    // A chunk is cut at pixels, unless it is a whole small tensor.
    let start = table.chunk.start >> layout.inner_vars();
    let pixels = (table.chunk.rows() >> layout.inner_vars()).min(layout.pixels - start);
    let column = |position: usize| {
        let mut column: Vec<Cell> = vec![0; 1 << table.chunk.column_vars()];
        for (step, rows) in column.chunks_exact_mut(inner).take(pixels).enumerate() {
            let pixel = start + step;
            let (y, x) = (pixel as u32 / shape.width, pixel as u32 % shape.width);
            let source = window.source(from, y, x, position);
            if source.is_none() {
                // The maximum of padded channels is 0, and padding counts as -128.
                rows.fill(128);
            }
            for element in 0..width {
                let row = layout.index(0, element / layout.channels, element % layout.channels);
                let value = source.map_or(-128, |source| at(values, source * width + element));
                let greatest = at(maxima, pixel * width + element);
                rows[row] = cell((greatest - value).cast_unsigned());
            }
        }
        column
    };
    (0..table.columns).into_par_iter().map(column).collect()
}
