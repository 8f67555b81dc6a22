//! The committed columns of an execution.

use crate::prove::ProveError;
use p3_field::PrimeCharacteristicRing;
use p3_matrix::dense::RowMajorMatrix;
use p3_sumcheck::layout::Table;
use tg_ir::segment::limb_position;
use tg_ir::{Op, Program, Requantise, TensorId, Window};
use tg_model::Tensor;
use tg_proof::field::F;
use tg_proof::plan::{NodePlan, Plan, WitnessTable};
use tg_proof::verify::padded_pair;

/// Per witness table its columns, as committed values.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    /// `columns[table][column][row]`.
    pub(crate) columns: Vec<Vec<Vec<u32>>>,
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
                let values = columns
                    .iter()
                    .flatten()
                    .map(|&value| F::from_u32(value))
                    .collect();
                Table::new(RowMajorMatrix::new(values, rows))
            })
            .collect()
    }
}

/// Segment and limb positions of one chunk.
fn requantise(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    how: &Requantise,
    tensors: &[Tensor],
) -> Result<Vec<Vec<u32>>, ProveError> {
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
    let values = tensors[input.index()].widened();
    let rows = 1 << table.chunk.column_vars();
    let [mut positions, mut highs, mut lows] =
        [vec![0u32; rows], vec![0u32; rows], vec![0u32; rows]];
    let columns = positions.iter_mut().zip(&mut highs).zip(&mut lows);
    for (row, ((position, high), low)) in columns.enumerate().take(table.chunk.rows()) {
        let index = table.chunk.start + row;
        let (pixel, channel) = (
            index >> layout.channel_vars,
            index & ((1 << layout.channel_vars) - 1),
        );
        let in_use = pixel < layout.pixels && channel < layout.channels;
        let value = if in_use {
            values[pixel * layout.channels + channel]
        } else {
            0
        };
        let found = segments
            .find(padded_pair(how, channel), value)
            .ok_or_else(|| ProveError::Range {
                node: program.nodes[table.node].name.clone(),
                value,
                range: how.range,
            })?;
        let segment = segments.segments()[found];
        let offset = value.wrapping_sub(segment.base).cast_unsigned();
        *position = found as u32;
        *high = limb_position(segment.class_high(), offset >> 8);
        *low = limb_position(segment.class_low(), offset & 255);
    }
    Ok(vec![positions, highs, lows])
}

/// Differences of one chunk, one column per kernel position.
fn maximum(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    input: TensorId,
    window: &Window,
    tensors: &[Tensor],
) -> Vec<Vec<u32>> {
    let layout = plan.layouts[table.node + 1];
    let shape = program.nodes[table.node].shape;
    let (values, maxima) = (
        tensors[input.index()].widened(),
        tensors[table.node + 1].widened(),
    );
    let mut columns = vec![vec![0u32; 1 << table.chunk.column_vars()]; table.columns];
    for (position, column) in columns.iter_mut().enumerate() {
        for (row, difference) in column.iter_mut().enumerate().take(table.chunk.rows()) {
            let index = table.chunk.start + row;
            let (pixel, channel) = (
                index >> layout.channel_vars,
                index & ((1 << layout.channel_vars) - 1),
            );
            if pixel >= layout.pixels {
                continue;
            }
            let in_use = channel < layout.channels;
            let (y, x) = (pixel as u32 / shape.width, pixel as u32 % shape.width);
            let source = window.source(program.shape(input), y, x, position);
            let value = match source {
                Some(source) if in_use => values[source * layout.channels + channel],
                Some(_) => 0,
                None => -128,
            };
            let greatest = if in_use {
                maxima[pixel * layout.channels + channel]
            } else {
                0
            };
            *difference = (greatest - value).cast_unsigned();
        }
    }
    columns
}
