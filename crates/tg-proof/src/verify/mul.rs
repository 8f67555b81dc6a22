//! Products of two tensors, element by element.

use super::{Claim, Walk, sumcheck};
use crate::commitment::Challenger;
use crate::error::NodeCheck;
use crate::field::eq;
use crate::messages::MulProof;
use crate::transcript::absorb;
use tg_ir::TensorId;

impl Walk<'_> {
    /// `v = sum over x of eq(r, x) a(x) b(x)`.
    pub(super) fn mul(
        &mut self,
        node: usize,
        inputs: [TensorId; 2],
        claim: &Claim,
        proof: &MulProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let MulProof {
            sumcheck: rounds,
            factors,
        } = proof;
        let vars = self.plan.layouts[node + 1].vars();
        let (point, last) =
            sumcheck(rounds, challenger, vars, 3, claim.value).ok_or(NodeCheck::Multiplication)?;
        absorb(challenger, factors);
        // Stops: a product of other elements.
        if last != eq(&claim.point, &point) * factors[0] * factors[1] {
            return Err(NodeCheck::Multiplication);
        }
        for (input, &value) in inputs.into_iter().zip(factors) {
            self.claim(input, point.clone(), value);
        }
        Ok(())
    }
}
