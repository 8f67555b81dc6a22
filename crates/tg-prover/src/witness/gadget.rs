//! The columns of gadgets as data: a row of cells per place of their hypercube.

use super::cell::{Cell, TASK_ROWS, cell};
use super::sources::Sources;
use super::{compare, norm, ranks, softmax, trees, wide};
use crate::error::ProveError;
use p3_maybe_rayon::prelude::*;
use std::ops::Range;
use tg_exec::IntTensor;
use tg_ir::Program;
use tg_proof::plan::{ForestShape, GadgetKind, GadgetPlan, Plan, WitnessTable};

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
