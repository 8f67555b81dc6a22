//! Gadgets as data: variables over the hypercube, the sumchecks of their stages, and what readers pull at their points.

use super::Walk;
use super::values::with_values;
use crate::channel::Channel;
use crate::relation::{Relation, Variable, prove};
use crate::witness::integer;
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use std::sync::Arc;
use tg_ir::TensorId;
use tg_proof::field::{E, F, eq_table, inner_product, signed};
use tg_proof::messages::StageProof;
use tg_proof::staged::{Anchors, Constraint, Linear, Public, Reading, Slot, Stage, Staged};
use tg_proof::verify::Claim;

/// A stage that was shown.
pub(super) struct PlayedStage {
    pub(super) messages: StageProof,
    /// Its variables that are sent, at the final point.
    pub(super) values: Vec<E>,
    /// The final point.
    pub(super) at: Vec<E>,
}

/// A linear form on one element.
fn linear_at(form: &Linear, variables: &[Variable], index: usize) -> F {
    let terms = form.terms.iter();
    terms.fold(form.constant, |sum, &(variable, factor)| {
        sum + variables[variable].at(index) * factor
    })
}

fn constraint_at(constraint: &Constraint, variables: &[Variable], index: usize) -> F {
    let products = constraint.products.iter();
    products.fold(
        linear_at(&constraint.linear, variables, index),
        |sum, [left, right]| {
            sum + linear_at(left, variables, index) * linear_at(right, variables, index)
        },
    )
}

impl Walk<'_> {
    /// A gadget of one or two stages.
    pub(super) fn staged(
        &mut self,
        staged: &Staged,
        claim: &Claim,
        channel: &mut Channel,
    ) -> Vec<StageProof> {
        let Staged { rows, elements } = staged;
        let element_values = self.variables(elements);
        let Some((rows, sums)) = rows else {
            let anchors = Anchors::one(elements, &claim.point);
            let claimed = (claim.value, [].as_slice());
            let proof = self.stage(elements, &element_values, &anchors, claimed, channel);
            return vec![proof.messages];
        };
        let mut row_values = self.variables(rows);
        for (&variable, sum) in sums.iter().zip(&elements.sums) {
            row_values[variable] = row_sums(elements, &element_values, sum);
        }
        let anchors = if rows.outputs.is_empty() {
            Anchors::one(rows, &channel.draw_point(rows.layout.vars()))
        } else {
            Anchors::one(rows, &claim.point)
        };
        let claimed = (claim.value, [].as_slice());
        let first = self.stage(rows, &row_values, &anchors, claimed, channel);
        let sent = rows.sent();
        let claims: Vec<E> = sums
            .iter()
            .map(|sum| {
                let place = sent.iter().position(|variable| variable == sum);
                first.values[place.expect("a sum is sent")]
            })
            .collect();
        let channels = channel.draw_point(elements.layout.channel_vars);
        let anchors = Anchors::after(&claim.point, &first.at, &channels);
        let claimed = (claim.value, claims.as_slice());
        let second = self.stage(elements, &element_values, &anchors, claimed, channel);
        vec![first.messages, second.messages]
    }

    /// One sumcheck and the readers at its point.
    pub(super) fn stage(
        &mut self,
        stage: &Stage,
        variables: &[Variable],
        anchors: &Anchors,
        (output, sums): (E, &[E]),
        channel: &mut Channel,
    ) -> PlayedStage {
        let alpha = channel.draw();
        let factors = stage.factors(alpha, &anchors.channels);
        let sum = stage.claimed(&factors, &output, sums);
        let relation = Relation::new(stage, variables, &factors, anchors);
        let (sumcheck, at) = prove(relation, stage.degree(), sum, channel);
        let values = self.values_at(stage, variables, &at);
        let sent = channel.send_all(&values);
        PlayedStage {
            messages: StageProof {
                sumcheck,
                values: sent,
            },
            values,
            at,
        }
    }

    /// All variables that are sent, at a point; readers read there and tensors are claimed there.
    fn values_at(&mut self, stage: &Stage, variables: &[Variable], at: &[E]) -> Vec<E> {
        let (row_point, _) = at.split_at(at.len() - stage.layout.channel_vars);
        let [eq, row_eq] = [eq_table(at), eq_table(row_point)];
        let [point, row_point]: [Arc<[E]>; 2] = [at.into(), row_point.into()];
        let mut values: Vec<Option<E>> = vec![None; stage.variables];
        for reading in &stage.readings {
            let (point, eq) = if reading.rows {
                (&row_point, &row_eq)
            } else {
                (&point, &eq)
            };
            let plan = self.plan;
            let read = self.read_columns(reading.group, point, eq);
            for (column, slot) in reading.slots.iter().enumerate() {
                if let Slot::Variable(variable) = *slot
                    && values[variable].is_none()
                {
                    values[variable] = Some(read.pull(plan, reading.group, column));
                }
            }
        }
        let sent = stage.sent().into_iter();
        let sent: Vec<(usize, E)> = sent
            .map(|variable| {
                let value = values[variable].unwrap_or_else(|| {
                    let variable = &variables[variable];
                    let eq = if variable.shift == 0 { &eq } else { &row_eq };
                    inner_product(&variable.values, eq)
                });
                (variable, value)
            })
            .collect();
        for &(variable, tensor) in &stage.tensors {
            let found = sent.iter().find(|&&(own, _)| own == variable);
            let (_, value) = found.expect("a tensor is sent");
            self.claim(tensor, at.to_vec(), *value);
        }
        sent.into_iter().map(|(_, value)| value).collect()
    }

    /// Every variable of a stage but the sums over the hypercube.
    pub(super) fn variables(&self, stage: &Stage) -> Vec<Variable> {
        let mut variables = vec![Variable::default(); stage.variables];
        for reading in &stage.readings {
            self.read_variables(stage, reading, &mut variables);
        }
        for &(variable, tensor) in &stage.tensors {
            variables[variable].values = self.tensor_values(tensor);
        }
        let layout = stage.layout;
        let channel = |index: usize| index & ((1 << layout.channel_vars) - 1);
        for (variable, public) in &stage.publics {
            let of = |index: usize| match public {
                Public::Channel => F::from_usize(channel(index)),
                Public::PerPixel(values) => {
                    let pixel = index >> layout.inner_vars();
                    values.get(pixel).copied().unwrap_or_default()
                }
                Public::PerChannel(values) => {
                    values.get(channel(index)).copied().unwrap_or_default()
                }
            };
            variables[*variable].values = (0..layout.padded()).into_par_iter().map(of).collect();
        }
        variables
    }

    /// What the entries that a column names give, for the variables that are not known yet.
    fn read_variables(&self, stage: &Stage, reading: &Reading, variables: &mut [Variable]) {
        let group = &self.plan.groups[reading.group];
        let shift = if reading.rows {
            stage.layout.channel_vars
        } else {
            0
        };
        for (column, slot) in reading.slots.iter().enumerate() {
            let Slot::Variable(variable) = *slot else {
                continue;
            };
            if !variables[variable].is_empty() {
                continue;
            }
            let entries = &self.plan.tables[group.table].columns[column];
            let mut values = F::zero_vec(stage.layout.padded() >> shift);
            for table in group.witness.clone() {
                let chunk = self.plan.witness[table].chunk;
                let cells = &self.witness.columns[table][group.column][..chunk.rows()];
                let own = &mut values[chunk.start..chunk.start + chunk.rows()];
                own.par_iter_mut().zip(cells).for_each(|(value, &cell)| {
                    let position = integer(cell) as usize + group.offset as usize;
                    *value = entries.get(position).copied().unwrap_or_default();
                });
            }
            variables[variable] = Variable { values, shift };
        }
    }

    fn tensor_values(&self, tensor: TensorId) -> Vec<F> {
        let layout = self.plan.layouts[tensor.index()];
        let mut values = F::zero_vec(layout.padded());
        let width = layout.channels;
        with_values!(self.tensor(tensor), elements => {
            let pixels = values.par_chunks_mut(1 << layout.inner_vars());
            pixels.zip(elements.par_chunks(layout.batch * width)).for_each(|(to, from)| {
                let rows = to.chunks_mut(1 << layout.channel_vars).zip(from.chunks(width));
                for (to, &value) in rows.flat_map(|(to, from)| to.iter_mut().zip(from)) {
                    *to = signed(i64::from(value));
                }
            });
        });
        values
    }
}

/// A sum along the channels in use, per row.
fn row_sums(stage: &Stage, variables: &[Variable], sum: &Constraint) -> Variable {
    let layout = stage.layout;
    let rows = 1usize << (layout.pixel_vars + layout.batch_vars);
    let values = (0..rows).into_par_iter().map(|row| {
        let (pixel, input) = (
            row >> layout.batch_vars,
            row & ((1 << layout.batch_vars) - 1),
        );
        if pixel >= layout.pixels || input >= layout.batch {
            return F::ZERO;
        }
        let first = row << layout.channel_vars;
        let used = first..first + stage.count(pixel);
        used.map(|index| constraint_at(sum, variables, index)).sum()
    });
    Variable {
        values: values.collect(),
        shift: 0,
    }
}
