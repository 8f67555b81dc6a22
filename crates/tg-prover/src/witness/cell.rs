//! Committed values.

use tg_exec::IntTensor;

/// A committed value: a position in a table of at most 2^14 entries, or a difference of two bytes.
#[cfg(not(test))]
pub(crate) type Cell = u16;
/// Tests commit lies that no honest column holds.
#[cfg(test)]
pub(crate) type Cell = u32;

const _: () = assert!(tg_ir::segment::SEGMENTS_MAX <= 1 << 16);

/// Rows that one task fills.
pub(super) const TASK_ROWS: usize = 1 << 12;

/// An element of a tensor, widened.
pub(super) fn at(tensor: &IntTensor, element: usize) -> i32 {
    match tensor {
        IntTensor::I8(values) => i32::from(values[element]),
        IntTensor::I16(values) => i32::from(values[element]),
        IntTensor::I32(values) => values[element],
    }
}

/// A position or difference as a cell. Tensors that are no execution may have differences that are not within a byte;
/// what is committed for them is another value, and the proof will not verify.
#[cfg(not(test))]
pub(super) const fn cell(value: u32) -> Cell {
    value as Cell
}
#[cfg(test)]
pub(super) const fn cell(value: u32) -> Cell {
    value
}

/// A cell as an integer.
#[cfg(not(test))]
pub(crate) const fn integer(cell: Cell) -> u32 {
    cell as u32
}
#[cfg(test)]
pub(crate) const fn integer(cell: Cell) -> u32 {
    cell
}
