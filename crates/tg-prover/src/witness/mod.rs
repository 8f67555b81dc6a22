//! The committed columns of an execution.

mod cell;
mod compare;
mod gadget;
mod input;
mod maximum;
mod norm;
mod ranks;
mod requantise;
mod softmax;
mod sources;
mod trees;
mod wide;

pub(crate) use cell::{Cell, integer};

use crate::error::ProveError;
use cell::TASK_ROWS;
use p3_field::PrimeCharacteristicRing;
use p3_matrix::dense::RowMajorMatrix;
use p3_maybe_rayon::prelude::*;
use p3_sumcheck::layout::Table;
use std::ops::Range;
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{Op, Program};
use tg_proof::field::F;
use tg_proof::plan::{NodePlan, Plan};

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
        tensors: &[IntTensor],
    ) -> Result<Self, ProveError> {
        let columns = plan
            .witness
            .iter()
            .map(|table| {
                if table.node >= program.nodes.len() {
                    return Ok(input::columns(program, plan, table, tensors));
                }
                match (&program.nodes[table.node].op, &plan.nodes[table.node]) {
                    (_, NodePlan::Gadget(gadget) | NodePlan::Chosen { gadget, .. }) => {
                        gadget::columns(program, plan, gadget, table, tensors)
                    }
                    (Op::Requantise(op::Unary { input, how }), _) => {
                        requantise::columns(program, plan, table, *input, how, tensors)
                    }
                    (_, NodePlan::Trees(trees)) => {
                        gadget::of_trees(program, plan, &trees.shape, table, tensors)
                    }
                    (op, NodePlan::Maximum { shape, .. }) => {
                        let input = op.inputs()[0];
                        Ok(maximum::columns(
                            program, plan, table, input, shape, tensors,
                        ))
                    }
                    _ => Ok(Vec::new()),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { columns })
    }

    /// Puts in the bytes that hide the tensors whose commitments a statement names, one list each.
    pub(crate) fn set_salts(&mut self, plan: &Plan, salts: &[Vec<u8>]) {
        let Some(own) = &plan.salts else { return };
        for table in own.columns.witness.clone() {
            let chunk = plan.witness[table].chunk;
            let rows = chunk.start..chunk.start + chunk.rows();
            for (column, salt) in self.columns[table].iter_mut().zip(salts) {
                for (cell, &byte) in column.iter_mut().zip(&salt[rows.clone()]) {
                    *cell = Cell::from(byte);
                }
            }
        }
    }

    /// The columns of some tables as field elements, one row of the matrix per column.
    pub(crate) fn tables_of(&self, tables: Range<usize>) -> Vec<Table<F>> {
        self.columns[tables]
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
