//! Several claims on one tensor become one.

use super::NodeCheck;
use super::{Claim, ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::verify::messages::NodeProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::TensorId;

impl<A: Arithmetic> Walk<'_, A> {
    /// The one claim on a tensor, merged if there are several.
    pub(super) fn single_claim(
        &mut self,
        tensor: TensorId,
        sent: Option<&NodeProof>,
    ) -> Result<ClaimIn<A>, NodeCheck> {
        let vars = self.plan.layouts[tensor.index()].vars();
        let mut claims = std::mem::take(&mut self.claims[tensor.index()]);
        // At the claim's point the tensor is what its node gives.
        self.channel.tally.charge(Theorem::Identities, vars);
        let merge = sent.map(|sent| sent.merge.as_ref());
        if claims.len() == 1 {
            // Stops: a merge that nothing checks.
            return match (merge.flatten(), claims.pop()) {
                (None, Some(claim)) => Ok(claim),
                _ => Err(NodeCheck::Messages),
            };
        }
        // Of none: an input that nobody reads. Its sum is zero, and ends in a claim at a drawn point.
        let merge = merge.map(|merge| merge.ok_or(NodeCheck::Messages));
        let merge = merge.transpose()?;
        let alpha = self.channel.draw(Theorem::Merge, claims.len());
        let powers: Vec<E> = alpha.powers().take(claims.len()).collect();
        let sum = claims
            .iter()
            .zip(&powers)
            .map(|(claim, &power)| claim.value.clone() * power)
            .sum();
        let shape = SumShape {
            rounds: vars,
            degree: 2,
            theorem: Theorem::Merge,
        };
        let (point, last) = self
            .sumcheck(merge.map(|merge| &merge.sumcheck), shape, sum)
            .ok_or(NodeCheck::Merge)?;
        let value = self.one(merge.map(|merge| &merge.value))?;
        let work = PublicWork::steps(PublicWork::EQ.steps * claims.len() as u64);
        let weight: E = self.channel.public(work, |look| {
            let point = A::coordinates(look, &point);
            let weights = claims.iter().zip(&powers);
            let weights = weights
                .map(|(claim, &power)| power * eq(A::coordinates(look, &claim.point), point));
            weights.sum()
        });
        // Stops: readers that read different tensors.
        self.equal(last, value.clone() * weight)
            .ok_or(NodeCheck::Merge)?;
        Ok(Claim { point, value })
    }
}
