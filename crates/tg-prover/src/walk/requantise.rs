//! Requantisations.

use super::Walk;
use crate::channel::Channel;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_ir::TensorId;
use tg_proof::field::{E, eq_table};
use tg_proof::messages::RequantiseProof;
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn requantise(
        &mut self,
        input: TensorId,
        first_group: usize,
        claim: Claim,
        channel: &mut Channel,
    ) -> RequantiseProof {
        let plan = self.plan;
        let eq = eq_table(&claim.point);
        let point: Arc<[E]> = claim.point.as_slice().into();
        let segment = self.read_columns(first_group, &point, &eq);
        let [base, class_high, class_low] =
            [0, 2, 3].map(|column| segment.pull(plan, first_group, column));
        let [high, low] = [first_group + 1, first_group + 2]
            .map(|group| self.read_columns(group, &point, &eq).pull(plan, group, 0));
        let pulled = channel.send([base, class_high, class_low, high, low]);
        let value = base + high * E::from_u32(256) + low;
        self.claim(input, claim.point, value);
        RequantiseProof { pulled }
    }
}
