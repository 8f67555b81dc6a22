//! Convolutions and dense nodes: products with committed weights.

use super::NodeCheck;
use super::read::ReadClaim;
use super::{BiasClaims, ClaimIn, Walk, WeightClaims};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_prefix};
use crate::algebra::linear::{ConvPoint, conv_reading, conv_shape};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::verify::messages::ProductsProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Op;
use tg_ir::op;
use tg_ir::weights::{BIAS_BASE, BIAS_DIGITS};

impl<A: Arithmetic> Walk<'_, A> {
    /// The sum over positions and input channels (and output channels if there are groups), then the window products as
    /// a public linear form of the input.
    pub(super) fn products(
        &mut self,
        node: usize,
        weights: usize,
        claim: &ClaimIn<A>,
        sent: Option<&ProductsProof>,
    ) -> Result<(), NodeCheck> {
        let (program, plan) = (self.program, self.plan);
        let layout = plan.layouts[node + 1];
        let (bias, sum) = self.unbiased(node, claim, sent.map(|sent| sent.bias.as_slice()))?;
        let weight_layout = &plan.weights[weights];
        let [output_vars, position_vars, input_vars] = weight_layout.axis_vars();
        let grouped =
            matches!(&program.nodes[node].op, Op::Conv(op::Conv { groups, .. }) if *groups > 1);
        let (summed, degree) = if grouped { (output_vars, 3) } else { (0, 2) };
        let of_sum = SumShape {
            rounds: summed + position_vars + input_vars,
            degree,
            theorem: Theorem::Products,
        };
        let (at, last) = self
            .sumcheck(sent.map(|sent| &sent.products), of_sum, sum)
            .ok_or(NodeCheck::Products)?;
        let count = weight_layout.pieces().len();
        let pieces = self.weight_list(sent.map(|sent| sent.weights.as_slice()), count)?;
        let reads = self.one(sent.map(|sent| &sent.reads))?;
        let (point, outputs, factor) = self.channel.public(PublicWork::EQ, |look| {
            let (_, _, outputs) = layout.split(A::coordinates(look, &claim.point));
            let at = A::coordinates(look, &at);
            let (point, factor) = if grouped {
                (at.to_vec(), eq(outputs, &at[..summed]))
            } else {
                ([outputs, at].concat(), E::ONE)
            };
            let outputs = A::point(look, outputs.to_vec());
            (A::point(look, point), outputs, factor)
        });
        let weight = self.combined_weights(weights, &point, &pieces);
        // Stops: accumulators that are not the products of the committed weights.
        let arithmetic = &mut self.channel.arithmetic;
        let product = arithmetic.weighed(&reads, &(weight * factor));
        self.equal(last, product).ok_or(NodeCheck::Products)?;
        self.weights[weights] = Some(WeightClaims {
            point,
            pieces,
            bias: Some(BiasClaims {
                point: outputs,
                digits: bias,
            }),
        });
        let (shape, work) = conv_shape(program, &plan.layouts, node);
        let made = self.channel.public(work, |look| {
            let (outputs, rest) = A::coordinates(look, &at).split_at(summed);
            let (positions, channels) = rest.split_at(position_vars);
            let at = ConvPoint {
                claim: A::coordinates(look, &claim.point),
                outputs: grouped.then_some(outputs),
                positions,
                channels,
            };
            Some(conv_reading(program, &plan.layouts, node, &at))
        });
        let (reading, constant) = made.unzip();
        let read = ReadClaim {
            shape: &shape,
            reading: reading.as_ref(),
            sum: reads - A::Value::from(constant.unwrap_or_default()),
            failed: NodeCheck::Sources,
        };
        self.read(read, sent.map(|sent| &sent.read))
    }

    /// The digits of the biases, and what is left of a claim without them.
    fn unbiased(
        &mut self,
        node: usize,
        claim: &ClaimIn<A>,
        sent: Option<&[E]>,
    ) -> Result<(Vec<A::Value>, A::Value), NodeCheck> {
        let layout = self.plan.layouts[node + 1];
        let bias = self.weight_array(sent, BIAS_DIGITS)?;
        let base = E::from_u32(BIAS_BASE.unsigned_abs());
        let value = bias
            .iter()
            .rev()
            .cloned()
            .fold(A::Value::from(E::ZERO), |value, digit| value * base + digit);
        let rows = self
            .channel
            .public(PublicWork::EQ.and(PublicWork::EQ), |look| {
                let (pixels, batch, _) = layout.split(A::coordinates(look, &claim.point));
                eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch)
            });
        Ok((bias, claim.value.clone() - value * rows))
    }
}
