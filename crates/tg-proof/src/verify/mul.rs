//! Products of two tensors, element by element.

use super::NodeCheck;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::eq;
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::verify::messages::MulProof;
use tg_ir::TensorId;

impl<A: Arithmetic> Walk<'_, A> {
    /// `v = sum over x of eq(r, x) a(x) b(x)`.
    pub(super) fn mul(
        &mut self,
        node: usize,
        inputs: [TensorId; 2],
        claim: &ClaimIn<A>,
        sent: Option<&MulProof>,
    ) -> Result<(), NodeCheck> {
        let shape = SumShape {
            rounds: self.plan.layouts[node + 1].vars(),
            degree: 3,
            theorem: Theorem::Sum,
        };
        let (point, last) = self
            .sumcheck(sent.map(|sent| &sent.sumcheck), shape, claim.value.clone())
            .ok_or(NodeCheck::Multiplication)?;
        let factors = self.array(sent.map(|sent| sent.factors.as_slice()), 2)?;
        let product = self.channel.arithmetic.product(&factors[0], &factors[1]);
        let weight = self.channel.public(PublicWork::EQ, |look| {
            eq(
                A::coordinates(look, &claim.point),
                A::coordinates(look, &point),
            )
        });
        // Stops: a product of other elements.
        self.equal(last, product * weight)
            .ok_or(NodeCheck::Multiplication)?;
        for (input, value) in inputs.into_iter().zip(factors) {
            self.claim(input, point.clone(), value);
        }
        Ok(())
    }
}
