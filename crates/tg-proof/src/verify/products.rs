//! Convolutions and dense nodes: products with committed weights.

use super::NodeCheck;
use super::{Claim, Walk, WeightClaims};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_prefix};
use crate::algebra::linear::{ConvPoint, conv_reading};
use crate::algebra::transcript::Challenger;
use crate::verify::messages::ProductsProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Op;
use tg_ir::op;
use tg_ir::weights::BIAS_BASE;

impl<A: Arithmetic> Walk<'_, A> {
    /// The sum over positions and input channels (and output channels if there are groups), then the window products as
    /// a public linear form of the input.
    pub(super) fn products(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim<A::Value>,
        proof: &ProductsProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let ProductsProof {
            bias,
            products,
            weights: pieces,
            reads,
            read,
        } = proof;
        let layout = self.plan.layouts[node + 1];
        let (pixels, batch, outputs) = layout.split(&claim.point);
        let bias = self.absorb_weights(bias, challenger);
        let base = E::from_u32(BIAS_BASE.unsigned_abs());
        let bias_value = bias
            .iter()
            .rev()
            .cloned()
            .fold(A::Value::from(E::ZERO), |value, digit| value * base + digit);
        let rows = eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch);
        let sum = claim.value.clone() - bias_value * rows;
        let weight_layout = self.plan.weights[weights];
        let [output_vars, position_vars, input_vars] = weight_layout.axis_vars();
        let grouped = matches!(&self.program.nodes[node].op, Op::Conv(op::Conv { groups, .. }) if *groups > 1);
        let (summed, degree) = if grouped { (output_vars, 3) } else { (0, 2) };
        let rounds = summed + position_vars + input_vars;
        let (at, last) = self
            .sumcheck(products, challenger, (rounds, degree), sum)
            .ok_or(NodeCheck::Products)?;
        let pieces = self.absorb_weights(pieces, challenger);
        let reads = self.absorb_one(*reads, challenger);
        let (outputs_at, rest) = at.split_at(summed);
        let (point, factor) = if grouped {
            (at.clone(), eq(outputs, outputs_at))
        } else {
            ([outputs, &at].concat(), E::ONE)
        };
        let weight = weight_layout
            .combine(&point, &pieces)
            .ok_or(NodeCheck::Messages)?;
        // Stops: accumulators that are not the products of the committed weights.
        let product = self.arithmetic.weighed(&reads, &(weight * factor));
        self.equal(last, product).ok_or(NodeCheck::Products)?;
        self.weights[weights] = Some(WeightClaims {
            point,
            pieces,
            bias: Some((outputs.to_vec(), bias)),
        });
        let (positions, channels) = rest.split_at(position_vars);
        let at = ConvPoint {
            claim: &claim.point,
            outputs: grouped.then_some(outputs_at),
            positions,
            channels,
        };
        let (reading, constant) = conv_reading(self.program, &self.plan.layouts, node, &at);
        let sum = reads - A::Value::from(constant);
        self.read(&reading, sum, read, NodeCheck::Sources, challenger)
    }
}
