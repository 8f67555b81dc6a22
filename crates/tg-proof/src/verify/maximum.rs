//! Window maxima: differences to every element of the window, none negative, one of them zero.

use super::NodeCheck;
use super::read::ReadClaim;
use super::{ClaimIn, ColumnClaim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_prefix, eq_table};
use crate::algebra::layout::log2_ceil;
use crate::algebra::linear::{Along, ReadShape, Reading, SourceMap, Weights, window_tables};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::plan::{ColumnSet, MaximumShape};
use crate::verify::messages::{AttainedProof, MaximumProof};
use p3_field::PrimeCharacteristicRing;

impl<A: Arithmetic> Walk<'_, A> {
    pub(super) fn maximum(
        &mut self,
        node: usize,
        shape: &MaximumShape,
        (first_group, columns): (usize, &ColumnSet),
        claim: &ClaimIn<A>,
        sent: Option<&MaximumProof>,
    ) -> Result<(), NodeCheck> {
        let (program, plan) = (self.program, self.plan);
        let limbs = shape.classes.len();
        let values = sent.map(|sent| sent.differences.as_slice());
        let values = self.list(values, shape.columns())?;
        // Stops: a difference below zero, which lies in no limb table.
        let covered = self.channel.public(PublicWork::EQ, |look| {
            eq_prefix(A::coordinates(look, &claim.point), columns.covered)
        });
        let layout = plan.layouts[node + 1];
        for (column, value) in values.iter().enumerate() {
            let class = E::from_u32(shape.classes[column % limbs]) * covered;
            let values = vec![value.clone(), A::Value::from(class)];
            self.pull(first_group + column, &claim.point, layout.vars(), values);
        }
        let differences: Vec<A::Value> =
            values.chunks(limbs).map(|own| shape.joined(own)).collect();
        let window = &shape.window;
        let kappa = log2_ceil(window.positions());
        let drawn = self.channel.draw_point(Theorem::Identities, kappa);
        let input = program.nodes[node].op.inputs()[0];
        let work = window_tables(&plan.layouts, node, input, window);
        let made = self.channel.public(work, |look| {
            let tau = eq_table(A::coordinates(look, &drawn));
            let (pixels, batch, channels) = layout.split(A::coordinates(look, &claim.point));
            let eq_pixels = eq_table(pixels);
            let map = SourceMap::new(program, node, input, window, tau.clone(), eq_pixels);
            let (sources, padding) = map.weights();
            let weights = Weights::Fields {
                pixels: Along::Sum(sources),
                channels: Along::At(channels.to_vec()),
            };
            Some((Reading::of(input, weights, batch), (tau, padding)))
        });
        let (reading, weights) = made.unzip();
        let sum = match weights {
            Some((tau, padding)) => shape.sum(&tau, padding, &claim.value, &differences),
            None => claim.value.clone(),
        };
        let of_window = ReadShape {
            inputs: vec![input],
            summed: [true, false],
            unscaled: true,
        };
        let read = ReadClaim {
            shape: &of_window,
            reading: reading.as_ref(),
            sum,
            failed: NodeCheck::Sources,
        };
        self.read(read, sent.map(|sent| &sent.read))?;
        self.attained(shape, columns, sent.map(|sent| sent.attained.as_slice()))
    }

    /// Some difference of every window is zero, chunk by chunk.
    fn attained(
        &mut self,
        shape: &MaximumShape,
        columns: &ColumnSet,
        sent: Option<&[AttainedProof]>,
    ) -> Result<(), NodeCheck> {
        self.channel.tally.send(0, 1);
        if sent.is_some_and(|sent| sent.len() != columns.witness.len()) {
            return Err(NodeCheck::Messages);
        }
        for (index, table) in columns.witness.clone().enumerate() {
            let sent = sent.map(|sent| &sent[index]);
            let vars = self.plan.witness[table].chunk.vars;
            let drawn = self.channel.draw_point(Theorem::Identities, vars);
            let of_sum = SumShape {
                rounds: vars,
                degree: shape.window.positions() + 1,
                theorem: Theorem::Sum,
            };
            let zero = A::Value::from(E::ZERO);
            let (at, last) = self
                .sumcheck(sent.map(|sent| &sent.sumcheck), of_sum, zero)
                .ok_or(NodeCheck::Attained)?;
            let values = sent.map(|sent| sent.differences.as_slice());
            let values = self.list(values, shape.columns())?;
            let differences = values.chunks(shape.classes.len());
            let differences: Vec<A::Value> = differences.map(|own| shape.joined(own)).collect();
            let (first, others) = differences.split_first().ok_or(NodeCheck::Messages)?;
            let product = others.iter().fold(first.clone(), |product, value| {
                self.channel.arithmetic.product(&product, value)
            });
            let weight = self.channel.public(PublicWork::EQ, |look| {
                eq(A::coordinates(look, &drawn), A::coordinates(look, &at))
            });
            // Stops: a maximum above every element of its window.
            self.equal(last, product * weight)
                .ok_or(NodeCheck::Attained)?;
            self.opened[table].push(ColumnClaim { point: at, values });
        }
        Ok(())
    }
}
