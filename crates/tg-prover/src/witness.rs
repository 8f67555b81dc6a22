//! The committed columns of an execution.

use crate::prove::ProveError;
use p3_field::PrimeCharacteristicRing;
use p3_matrix::dense::RowMajorMatrix;
use p3_maybe_rayon::prelude::*;
use p3_sumcheck::layout::Table;
use tg_ir::segment::limb_position;
use tg_ir::{Op, Program, Requantise, TensorId, Window};
use tg_model::Tensor;
use tg_proof::field::F;
use tg_proof::plan::{NodePlan, Plan, WitnessTable};
use tg_proof::verify::padded_pair;

/// A committed value: a position in a table of at most 2^14 entries, or a difference of two bytes.
#[cfg(not(test))]
pub(crate) type Cell = u16;
/// Tests commit lies that no honest column holds.
#[cfg(test)]
pub(crate) type Cell = u32;

const _: () = assert!(tg_ir::segment::SEGMENTS_MAX <= 1 << 16);

/// Rows that one task fills.
const TASK_ROWS: usize = 1 << 12;

/// Per witness table its columns, as committed values.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    /// `columns[table][column][row]`.
    pub(crate) columns: Vec<Vec<Vec<Cell>>>,
}

impl Witness {
    /// The columns that show an execution.
    ///
    /// # Errors
    /// If an accumulator lies outside the range of its segment table: the tensors are not an execution of the program.
    pub(crate) fn of(
        program: &Program,
        plan: &Plan,
        tensors: &[Tensor],
    ) -> Result<Self, ProveError> {
        let columns = plan
            .witness
            .iter()
            .map(|table| match &program.nodes[table.node].op {
                Op::Requantise { input, how } => {
                    requantise(program, plan, table, *input, how, tensors)
                }
                Op::MaxPool { input, window } => {
                    Ok(maximum(program, plan, table, *input, window, tensors))
                }
                _ => Ok(Vec::new()),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// The columns as field elements, one row of the matrix per column.
    pub(crate) fn tables(&self) -> Vec<Table<F>> {
        self.columns
            .iter()
            .map(|columns| {
                let rows = columns[0].len();
                let mut values = F::zero_vec(rows * columns.len());
                for (to, column) in values.chunks_exact_mut(rows).zip(columns) {
                    let tasks = to
                        .par_chunks_mut(TASK_ROWS)
                        .zip(column.par_chunks(TASK_ROWS));
                    tasks.for_each(|(to, from)| {
                        for (to, &value) in to.iter_mut().zip(from) {
                            *to = F::from_u32(integer(value));
                        }
                    });
                }
                Table::new(RowMajorMatrix::new(values, rows))
            })
            .collect()
    }
}

/// An element of a tensor, widened.
fn at(tensor: &Tensor, element: usize) -> i32 {
    match tensor {
        Tensor::I8(values) => i32::from(values[element]),
        Tensor::I16(values) => i32::from(values[element]),
        Tensor::I32(values) => values[element],
    }
}

/// A position or difference as a cell. Tensors that are no execution may have differences that are not within a byte;
/// what is committed for them is another value, and the proof will not verify.
#[cfg(not(test))]
const fn cell(value: u32) -> Cell {
    value as Cell
}
#[cfg(test)]
const fn cell(value: u32) -> Cell {
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

/// Segment and limb positions of one chunk.
fn requantise(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    how: &Requantise,
    tensors: &[Tensor],
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
                let index = first + row;
                let channel = index & ((1 << layout.channel_vars) - 1);
                let value = layout
                    .element_at(index)
                    .map_or(0, |element| at(values, element));
                let found = segments
                    .find(padded_pair(how, channel), value)
                    .ok_or_else(|| ProveError::Range {
                        node: program.nodes[table.node].name.clone(),
                        value,
                        range: how.range,
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

/// Differences of one chunk, one column per kernel position.
fn maximum(
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
