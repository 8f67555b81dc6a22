//! Window maxima.

use super::Walk;
use crate::channel::Channel;
use crate::witness::{Cell, integer};
use crate::zero_product;
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use std::sync::Arc;
use tg_proof::field::{E, F, eq_table};
use tg_proof::layout::log2_ceil;
use tg_proof::linear::{Along, Reading, SourceMap, Weights};
use tg_proof::messages::{AttainedProof, MaximumProof};
use tg_proof::plan::{ColumnSet, LIMB_CLASS_LIMIT, MaximumShape};
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn maximum(
        &mut self,
        node: usize,
        shape: &MaximumShape,
        (first_group, columns): (usize, &ColumnSet),
        claim: &Claim,
        channel: &mut Channel,
    ) -> MaximumProof {
        let (plan, window) = (self.plan, &shape.window);
        let eq = eq_table(&claim.point);
        let point: Arc<[E]> = claim.point.as_slice().into();
        let values: Vec<E> = (first_group..first_group + shape.columns())
            .map(|group| self.read_columns(group, &point, &eq).pull(plan, group, 0))
            .collect();
        let sent = channel.send_all(&values);
        let limbs = values.chunks(shape.classes.len());
        let differences: Vec<E> = limbs.map(|own| shape.joined(own)).collect();
        let tau = eq_table(&channel.draw_point(log2_ceil(window.positions())));
        let (pixels, batch, channels) = plan.layouts[node + 1].split(&claim.point);
        let program = &self.model.model.program;
        let input = program.nodes[node].op.inputs()[0];
        let eq_pixels = eq_table(pixels);
        let map = SourceMap::new(program, node, input, window, tau.clone(), eq_pixels);
        let (sources, padding) = map.weights();
        let sum = shape.sum(&tau, padding, &claim.value, &differences);
        let weights = Weights::Fields {
            pixels: Along::Sum(sources),
            channels: Along::At(channels.to_vec()),
        };
        let read = self.read(&Reading::of(input, weights, batch), sum, channel);
        let attained = columns
            .witness
            .clone()
            .map(|table| self.attained(shape, table, channel))
            .collect();
        MaximumProof {
            differences: sent,
            read,
            attained,
        }
    }

    fn attained(
        &mut self,
        shape: &MaximumShape,
        table: usize,
        channel: &mut Channel,
    ) -> AttainedProof {
        let chunk = self.plan.witness[table].chunk;
        let drawn = channel.draw_point(chunk.vars);
        let columns = &self.witness.columns[table];
        let factors = columns.chunks(shape.classes.len()).map(|limbs| {
            let places = (0..).step_by(LIMB_CLASS_LIMIT as usize);
            let places: Vec<F> = places
                .map(|place| F::from_u64(1 << place))
                .take(limbs.len())
                .collect();
            let difference = |row: usize| {
                let limbs = limbs.iter().zip(&places);
                limbs
                    .map(|(limb, &place)| F::from_u32(integer(limb[row])) * place)
                    .sum::<F>()
            };
            let rows = (0..chunk.rows()).into_par_iter();
            rows.map(difference).collect()
        });
        let (sumcheck, at, values) = zero_product::prove(&drawn, factors.collect(), channel);
        let differences: Vec<E> = if shape.classes.len() == 1 {
            values
        } else {
            let weights = eq_table(&at);
            let at_point = |column: &Vec<Cell>| {
                let cells = column.par_iter().zip(&weights);
                cells
                    .map(|(&cell, &weight)| weight * F::from_u32(integer(cell)))
                    .sum()
            };
            columns.iter().map(at_point).collect()
        };
        let differences = channel.send_all(&differences);
        self.opened[table].push(at);
        AttainedProof {
            sumcheck,
            differences,
        }
    }
}
