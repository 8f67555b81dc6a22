//! Window maxima.

use super::Walk;
use crate::channel::Channel;
use crate::sumcheck;
use crate::witness::integer;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_ir::Window;
use tg_proof::field::{E, eq_table};
use tg_proof::layout::log2_ceil;
use tg_proof::linear::{Along, Reading, SourceMap, Weights, maximum_sum};
use tg_proof::messages::{AttainedProof, MaximumProof};
use tg_proof::plan::ColumnSet;
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn maximum(
        &mut self,
        node: usize,
        window: &Window,
        (first_group, columns): (usize, &ColumnSet),
        claim: &Claim,
        channel: &mut Channel,
    ) -> MaximumProof {
        let (plan, positions) = (self.plan, window.positions());
        let eq = eq_table(&claim.point);
        let point: Arc<[E]> = claim.point.as_slice().into();
        let differences: Vec<E> = (first_group..first_group + positions)
            .map(|group| self.read_columns(group, &point, &eq).pull(plan, group, 0))
            .collect();
        let sent = channel.send_all(&differences);
        let tau = eq_table(&channel.draw_point(log2_ceil(positions)));
        let (pixels, batch, channels) = plan.layouts[node + 1].split(&claim.point);
        let program = &self.model.model.program;
        let input = program.nodes[node].op.inputs()[0];
        let eq_pixels = eq_table(pixels);
        let map = SourceMap::new(program, node, input, window, tau.clone(), eq_pixels);
        let (sources, padding) = map.weights();
        let sum = maximum_sum(&tau, padding, &claim.value, &differences);
        let weights = Weights::Fields {
            pixels: Along::Sum(sources),
            channels: Along::At(channels.to_vec()),
        };
        let read = self.read(&Reading::of(input, weights, batch), sum, channel);
        let attained = columns
            .witness
            .clone()
            .map(|table| self.attained(table, channel))
            .collect();
        MaximumProof {
            differences: sent,
            read,
            attained,
        }
    }

    fn attained(&mut self, table: usize, channel: &mut Channel) -> AttainedProof {
        let chunk = self.plan.witness[table].chunk;
        let drawn = channel.draw_point(chunk.vars);
        let mut factors = vec![eq_table(&drawn)];
        factors.extend(self.witness.columns[table].iter().map(|column| {
            column[..chunk.rows()]
                .iter()
                .map(|&value| E::from_u32(integer(value)))
                .collect::<Vec<_>>()
        }));
        let (sumcheck, at, values) = sumcheck::zero_product(factors, channel);
        let differences = channel.send_all(&values[1..]);
        self.opened[table].push(at);
        AttainedProof {
            sumcheck,
            differences,
        }
    }
}
