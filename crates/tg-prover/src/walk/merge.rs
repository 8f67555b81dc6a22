//! Merges several claims about one tensor into one.

use super::Walk;
use crate::channel::Channel;
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use tg_ir::TensorId;
use tg_proof::field::{E, eq_table};
use tg_proof::messages::MergeProof;
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn single_claim(
        &mut self,
        tensor: TensorId,
        channel: &mut Channel,
    ) -> (Claim, Option<MergeProof>) {
        let mut claims = std::mem::take(&mut self.claims[tensor.index()]);
        if claims.len() == 1 {
            return (claims.remove(0), None);
        }
        let alpha = channel.draw();
        let layout = self.plan.layouts[tensor.index()];
        let mut weights = vec![E::ZERO; 1 << layout.vars()];
        let mut sum = E::ZERO;
        for (claim, power) in claims.iter().zip(alpha.powers()) {
            sum += claim.value * power;
            for (weight, eq) in weights.iter_mut().zip(eq_table(&claim.point)) {
                *weight += power * eq;
            }
        }
        let values = self.padded(tensor);
        let (sumcheck, point, [value, _]) = sumcheck::product(values, weights, sum, channel);
        let [sent] = channel.send([value]);
        let proof = MergeProof {
            sumcheck,
            value: sent,
        };
        (Claim { point, value }, Some(proof))
    }
}
