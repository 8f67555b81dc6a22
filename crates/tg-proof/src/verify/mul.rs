//! Products of two tensors, element by element.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::eq;
use crate::algebra::transcript::Challenger;
use crate::verify::messages::MulProof;
use tg_ir::TensorId;

impl<A: Arithmetic> Walk<'_, A> {
    /// `v = sum over x of eq(r, x) a(x) b(x)`.
    pub(super) fn mul(
        &mut self,
        node: usize,
        inputs: [TensorId; 2],
        claim: &Claim<A::Value>,
        proof: &MulProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let MulProof {
            sumcheck: rounds,
            factors,
        } = proof;
        let vars = self.plan.layouts[node + 1].vars();
        let (point, last) = self
            .sumcheck(rounds, challenger, (vars, 3), claim.value.clone())
            .ok_or(NodeCheck::Multiplication)?;
        let factors = self.arithmetic.absorb(factors, challenger);
        let product = self.arithmetic.product(&factors[0], &factors[1]);
        // Stops: a product of other elements.
        self.equal(last, product * eq(&claim.point, &point))
            .ok_or(NodeCheck::Multiplication)?;
        for (input, value) in inputs.into_iter().zip(factors) {
            self.claim(input, point.clone(), value);
        }
        Ok(())
    }
}
