//! Products of two tensors, element by element.

use super::Walk;
use crate::channel::Channel;
use crate::sumcheck;
use tg_ir::TensorId;
use tg_proof::field::eq_table;
use tg_proof::messages::MulProof;
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn mul(
        &mut self,
        inputs: [TensorId; 2],
        claim: &Claim,
        channel: &mut Channel,
    ) -> MulProof {
        let [left, right] = inputs.map(|input| self.padded(input));
        let factors = [eq_table(&claim.point), left, right];
        let (sumcheck, point, [_, left, right]) = sumcheck::triple(factors, claim.value, channel);
        let factors = [left, right];
        let sent = channel.send(factors);
        for (input, value) in inputs.into_iter().zip(factors) {
            self.claim(input, point.clone(), value);
        }
        MulProof {
            sumcheck,
            factors: sent,
        }
    }
}
