//! Window maxima: differences to every element of the window, none negative, one of them zero.

use super::NodeCheck;
use super::{Claim, ColumnClaim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_prefix, eq_table};
use crate::algebra::layout::log2_ceil;
use crate::algebra::linear::{Along, Reading, SourceMap, Weights};
use crate::algebra::transcript::Challenger;
use crate::plan::{ColumnSet, MaximumShape};
use crate::verify::messages::{AttainedProof, MaximumProof};
use p3_field::PrimeCharacteristicRing;

impl<A: Arithmetic> Walk<'_, A> {
    pub(super) fn maximum(
        &mut self,
        node: usize,
        shape: &MaximumShape,
        (first_group, columns): (usize, &ColumnSet),
        claim: &Claim<A::Value>,
        proof: &MaximumProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let MaximumProof {
            differences,
            read,
            attained,
        } = proof;
        let limbs = shape.classes.len();
        if differences.len() != shape.columns() {
            return Err(NodeCheck::Messages);
        }
        let values = self.arithmetic.absorb(differences, challenger);
        // Stops: a difference below zero, which lies in no limb table.
        let covered = eq_prefix(&claim.point, columns.covered);
        for (column, value) in values.iter().enumerate() {
            let class = E::from_u32(shape.classes[column % limbs]) * covered;
            let values = vec![value.clone(), A::Value::from(class)];
            self.pull(first_group + column, &claim.point, values);
        }
        let differences: Vec<A::Value> =
            values.chunks(limbs).map(|own| shape.joined(own)).collect();
        let window = &shape.window;
        let tau = eq_table(&self.draw_point(log2_ceil(window.positions()), challenger));
        let (pixels, batch, channels) = self.plan.layouts[node + 1].split(&claim.point);
        let input = self.program.nodes[node].op.inputs()[0];
        let eq_pixels = eq_table(pixels);
        let map = SourceMap::new(self.program, node, input, window, tau.clone(), eq_pixels);
        let (sources, padding) = map.weights();
        let sum = shape.sum(&tau, padding, &claim.value, &differences);
        let weights = Weights::Fields {
            pixels: Along::Sum(sources),
            channels: Along::At(channels.to_vec()),
        };
        let reading = Reading::of(input, weights, batch);
        self.read(&reading, sum, read, NodeCheck::Sources, challenger)?;
        self.attained(shape, columns, attained, challenger)
    }

    /// Some difference of every window is zero, chunk by chunk.
    fn attained(
        &mut self,
        shape: &MaximumShape,
        columns: &ColumnSet,
        proofs: &[AttainedProof],
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        if proofs.len() != columns.witness.len() {
            return Err(NodeCheck::Messages);
        }
        for (table, proof) in columns.witness.clone().zip(proofs) {
            let vars = self.plan.witness[table].chunk.vars;
            let drawn = self.draw_point(vars, challenger);
            let zero = A::Value::from(E::ZERO);
            let (at, last) = self
                .sumcheck(
                    &proof.sumcheck,
                    challenger,
                    (vars, shape.window.positions() + 1),
                    zero,
                )
                .ok_or(NodeCheck::Attained)?;
            if proof.differences.len() != shape.columns() {
                return Err(NodeCheck::Messages);
            }
            let values = self.arithmetic.absorb(&proof.differences, challenger);
            let differences = values.chunks(shape.classes.len());
            let differences: Vec<A::Value> = differences.map(|own| shape.joined(own)).collect();
            let (first, others) = differences.split_first().ok_or(NodeCheck::Messages)?;
            let product = others.iter().fold(first.clone(), |product, value| {
                self.arithmetic.product(&product, value)
            });
            // Stops: a maximum above every element of its window.
            self.equal(last, product * eq(&drawn, &at))
                .ok_or(NodeCheck::Attained)?;
            self.opened[table].push(ColumnClaim { point: at, values });
        }
        Ok(())
    }
}
