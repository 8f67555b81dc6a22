//! The columns of gadgets as data: a row of cells per place of their hypercube.

use super::{Cell, TASK_ROWS, at, cell, compare, norm, ranks, softmax, trees, wide};
use crate::prove::ProveError;
use p3_maybe_rayon::prelude::*;
use std::ops::Range;
use tg_exec::IntTensor;
use tg_ir::{Op, Program, TensorId};
use tg_proof::layout::TensorLayout;
use tg_proof::plan::{ForestShape, GadgetKind, GadgetPlan, LIMB_CLASS_LIMIT, Plan, WitnessTable};

/// What a gadget's columns are computed from.
pub(super) struct Sources<'a> {
    pub(super) program: &'a Program,
    pub(super) plan: &'a Plan,
    pub(super) tensors: &'a [IntTensor],
    pub(super) node: usize,
    pub(super) layout: TensorLayout,
}

impl Sources<'_> {
    pub(super) fn op(&self) -> &Op {
        &self.program.nodes[self.node].op
    }

    /// An element of the node's first input.
    pub(super) fn input(&self, element: usize) -> i64 {
        self.input_of(0, element)
    }

    pub(super) fn input_of(&self, input: usize, element: usize) -> i64 {
        let input = self.op().inputs()[input];
        i64::from(at(&self.tensors[input.index()], element))
    }

    pub(super) fn output(&self, element: usize) -> i64 {
        let output = TensorId::of_node(self.node);
        i64::from(at(&self.tensors[output.index()], element))
    }

    /// The elements of a row (pixel and input), if it is in use.
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        let first = self.layout.element_at(row << self.layout.channel_vars)?;
        Some(first..first + self.layout.channels)
    }

    /// The pixel of a row.
    pub(super) const fn pixel(&self, row: usize) -> usize {
        row >> self.layout.batch_vars
    }
}

/// The columns of one chunk of a gadget.
pub(super) fn columns(
    program: &Program,
    plan: &Plan,
    gadget: &GadgetPlan,
    table: &WitnessTable,
    tensors: &[IntTensor],
) -> Result<Vec<Vec<Cell>>, ProveError> {
    let sources = Sources {
        program,
        plan,
        tensors,
        node: table.node,
        layout: plan.layouts[table.node + 1],
    };
    let of_rows = table.part == 0 && gadget.row_columns.is_some();
    match &gadget.kind {
        GadgetKind::Wide(segments) => {
            let filler = wide::Filler::new(&sources, segments);
            fill(table, |index, cells| filler.fill(index, cells))
        }
        GadgetKind::Norm(shape) => {
            let filler = norm::Filler::new(&sources, shape);
            if of_rows {
                return fill(table, |index, cells| {
                    filler.row(index, cells);
                    Ok(())
                });
            }
            fill(table, |index, cells| {
                filler.element(index, cells);
                Ok(())
            })
        }
        GadgetKind::Softmax(shape) => {
            let filler = softmax::Filler::new(&sources, shape);
            if of_rows {
                return fill(table, |index, cells| {
                    filler.row(index, cells);
                    Ok(())
                });
            }
            fill(table, |index, cells| filler.element(index, cells))
        }
        GadgetKind::Compare(shape) => fill(table, |index, cells| {
            compare::compared(&sources, shape, index, cells);
            Ok(())
        }),
        GadgetKind::Select(shape) => fill(table, |index, cells| {
            compare::selected(&sources, shape, index, cells);
            Ok(())
        }),
        GadgetKind::Chosen => fill(table, |index, cells| chosen(&sources, table, index, cells)),
        GadgetKind::Ranks(shape) => {
            let filler = ranks::Filler::new(&sources, shape);
            fill(table, |index, cells| {
                if of_rows {
                    filler.row(index, cells);
                } else {
                    filler.element(index, cells);
                }
                Ok(())
            })
        }
        GadgetKind::Greatest(shape) => {
            let filler = compare::Filler::new(&sources, shape);
            if of_rows {
                return fill(table, |index, cells| {
                    filler.row(index, cells);
                    Ok(())
                });
            }
            fill(table, |index, cells| {
                filler.element(index, cells);
                Ok(())
            })
        }
    }
}

/// The columns of one chunk of decision trees: first those of the branches, then the flags of the leaves.
pub(super) fn of_trees(
    program: &Program,
    plan: &Plan,
    shape: &ForestShape,
    table: &WitnessTable,
    tensors: &[IntTensor],
) -> Result<Vec<Vec<Cell>>, ProveError> {
    let sources = Sources {
        program,
        plan,
        tensors,
        node: table.node,
        layout: plan.layouts[table.node + 1],
    };
    fill(table, |index, cells| {
        if let Some(element) = table.layout.element_at(index) {
            let place = (
                element / table.layout.channels,
                element % table.layout.channels,
            );
            match table.part {
                0 => trees::decision(&sources, shape, place, cells),
                _ => trees::flag(&sources, shape, place, cells),
            }
        }
        Ok(())
    })
}

/// Whether a token chooses a row of an embedding.
fn chosen(
    sources: &Sources<'_>,
    table: &WitnessTable,
    index: usize,
    cells: &mut Vec<u32>,
) -> Result<(), ProveError> {
    let Some(element) = table.layout.element_at(index) else {
        return Ok(());
    };
    let rows = table.layout.channels;
    let (token, row) = (sources.input(element / rows), element % rows);
    if !(0..rows as i64).contains(&token) {
        return Err(ProveError::Range {
            node: sources.program.nodes[sources.node].name.clone(),
            value: token as i32,
            range: [0, rows as i32 - 1],
        });
    }
    cells.push((token == row as i64).into());
    Ok(())
}

/// Fills the columns of a chunk place by place; a place that pushes nothing is zeros.
fn fill(
    table: &WitnessTable,
    place: impl Fn(usize, &mut Vec<u32>) -> Result<(), ProveError> + Sync,
) -> Result<Vec<Vec<Cell>>, ProveError> {
    let count = table.chunk.rows();
    let tasks: Vec<Range<usize>> = (0..count)
        .step_by(TASK_ROWS)
        .map(|start| start..(start + TASK_ROWS).min(count))
        .collect();
    let parts: Vec<Vec<Cell>> = tasks
        .into_par_iter()
        .map(|range| {
            let rows = range.len();
            let mut part = vec![0; rows * table.columns];
            let mut cells = Vec::with_capacity(table.columns);
            for (row, index) in range.enumerate() {
                cells.clear();
                place(table.chunk.start + index, &mut cells)?;
                debug_assert!(cells.is_empty() || cells.len() == table.columns);
                for (column, &value) in cells.iter().enumerate() {
                    part[column * rows + row] = cell(value);
                }
            }
            Ok(part)
        })
        .collect::<Result<_, ProveError>>()?;
    let padded = 1usize << table.chunk.column_vars();
    let columns = (0..table.columns).map(|column| {
        let mut all = Vec::with_capacity(padded);
        for part in &parts {
            let rows = part.len() / table.columns;
            all.extend_from_slice(&part[column * rows..][..rows]);
        }
        all.resize(padded, 0);
        all
    });
    Ok(columns.collect())
}

/// Appends the limbs of an integer that has `bits` bits if it is honest; of any other it is what the limbs hold.
pub(super) fn push_limbs(cells: &mut Vec<u32>, value: i128, bits: u32) {
    // Those of `limb_classes`, without a list: this runs for every cell.
    let (mut rest, mut left) = (value, bits);
    loop {
        let class = left.min(LIMB_CLASS_LIMIT);
        cells.push((rest & ((1 << class) - 1)) as u32);
        rest >>= 12;
        left -= class;
        if left == 0 {
            return;
        }
    }
}

/// As [`push_limbs`], of an integer in `[-2^(bits - 1), 2^(bits - 1))`.
pub(super) fn push_signed(cells: &mut Vec<u32>, value: i128, bits: u32) {
    push_limbs(cells, value + (1 << (bits - 1)), bits);
}
