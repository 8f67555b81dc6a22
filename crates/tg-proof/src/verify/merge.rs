//! Several claims on one tensor become one.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq};
use crate::algebra::transcript::Challenger;
use crate::verify::messages::MergeProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::TensorId;

impl<A: Arithmetic> Walk<'_, A> {
    /// The one claim on a tensor, merged if there are several.
    pub(super) fn single_claim(
        &mut self,
        tensor: TensorId,
        merge: Option<&MergeProof>,
        challenger: &mut Challenger,
    ) -> Result<Claim<A::Value>, NodeCheck> {
        let mut claims = std::mem::take(&mut self.claims[tensor.index()]);
        match (claims.len(), merge) {
            (1, None) => Ok(claims.remove(0)),
            // Of none: an input that nobody reads. Its sum is zero, and ends in a claim at a drawn point.
            (0 | 2.., Some(proof)) => {
                let alpha = self.draw(claims.len(), challenger);
                let powers: Vec<E> = alpha.powers().take(claims.len()).collect();
                let sum = claims
                    .iter()
                    .zip(&powers)
                    .map(|(claim, &power)| claim.value.clone() * power)
                    .sum();
                let vars = self.plan.layouts[tensor.index()].vars();
                let (point, last) = self
                    .sumcheck(&proof.sumcheck, challenger, (vars, 2), sum)
                    .ok_or(NodeCheck::Merge)?;
                let value = self.absorb_one(proof.value, challenger);
                let weight: E = claims
                    .iter()
                    .zip(&powers)
                    .map(|(claim, &power)| power * eq(&claim.point, &point))
                    .sum();
                // Stops: readers that read different tensors.
                self.equal(last, value.clone() * weight)
                    .ok_or(NodeCheck::Merge)?;
                Ok(Claim { point, value })
            }
            _ => Err(NodeCheck::Messages),
        }
    }
}
