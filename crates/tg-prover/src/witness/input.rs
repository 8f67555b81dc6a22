//! The column of a committed input.

use super::{Cell, at, cell};
use tg_model::Tensor;
use tg_proof::plan::WitnessTable;

/// The column of one chunk: every element and 128; zeros where no element is.
pub(super) fn columns(table: &WitnessTable, input: &Tensor) -> Vec<Vec<Cell>> {
    let rows = table.chunk.start..table.chunk.start + table.chunk.rows();
    let mut column: Vec<Cell> = rows
        .map(|index| {
            let element = table.layout.element_at(index);
            // An input of another type than 8 bits is not hidden, see `Plan::hidden`.
            element.map_or(0, |element| cell((at(input, element) + 128) as u32))
        })
        .collect();
    column.resize(1 << table.chunk.column_vars(), 0);
    vec![column]
}
