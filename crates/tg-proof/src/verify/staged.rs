//! Gadgets as data: the sumchecks of their stages, and what each variable's value at the final point must be shown by.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_prefix};
use crate::algebra::transcript::Challenger;
use crate::plan::staged::{Anchors, Slot, Stage, Staged};
use crate::verify::messages::StageProof;
use p3_field::PrimeCharacteristicRing;

impl<A: Arithmetic> Walk<'_, A> {
    /// A gadget of one or two stages.
    pub(super) fn staged(
        &mut self,
        staged: &Staged,
        claim: &Claim<A::Value>,
        proofs: &[StageProof],
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let Staged { rows, elements } = staged;
        match (rows, proofs) {
            (None, [proof]) => {
                let anchors = Anchors::one(elements, &claim.point);
                self.stage(elements, &anchors, (&claim.value, &[]), proof, challenger)?;
            }
            (Some((rows, sums)), [first, second]) => {
                let anchors = if rows.outputs.is_empty() {
                    Anchors::one(rows, &self.draw_point(rows.layout.vars(), challenger))
                } else {
                    Anchors::one(rows, &claim.point)
                };
                let (at, values) =
                    self.stage(rows, &anchors, (&claim.value, &[]), first, challenger)?;
                let claims: Vec<A::Value> = sums.iter().map(|&sum| values[sum].clone()).collect();
                let channels = self.draw_point(elements.layout.channel_vars, challenger);
                let anchors = Anchors::after(&claim.point, &at, &channels);
                let claimed = (&claim.value, claims.as_slice());
                self.stage(elements, &anchors, claimed, second, challenger)?;
            }
            _ => return Err(NodeCheck::Messages),
        }
        Ok(())
    }

    /// One sumcheck; gives its point and all variables there.
    pub(super) fn stage(
        &mut self,
        stage: &Stage,
        anchors: &Anchors,
        (output, sums): (&A::Value, &[A::Value]),
        proof: &StageProof,
        challenger: &mut Challenger,
    ) -> Result<(Vec<E>, Vec<A::Value>), NodeCheck> {
        let relations = stage.own().count() + stage.sums.len();
        let alpha = self.draw(relations, challenger);
        let factors = stage.factors(alpha, &anchors.channels);
        let sum = stage.claimed(&factors, output, sums);
        let shape = (stage.layout.vars(), stage.degree());
        let (at, last) = self
            .sumcheck(&proof.sumcheck, challenger, shape, sum)
            .ok_or(NodeCheck::Relation)?;
        let sent = self.arithmetic.absorb(&proof.values, challenger);
        let values = stage.values(&sent, &at).ok_or(NodeCheck::Messages)?;
        let weigh = |needed: bool, anchor: &[E]| {
            let weight = needed.then(|| stage.weight_at(anchor, &at));
            weight.unwrap_or_default()
        };
        let own = anchors.constraints.as_ref().unwrap_or(&anchors.output);
        let weights = [
            weigh(!stage.outputs.is_empty(), &anchors.output),
            weigh(true, own),
            weigh(!stage.sums.is_empty(), &anchors.rows),
        ];
        // Stops: an output, a constraint or a sum that does not hold on some element.
        let combined = stage.combined(&factors, weights, &values, &mut self.arithmetic);
        self.equal(last, combined).ok_or(NodeCheck::Relation)?;
        self.bind(stage, &at, &values);
        Ok((at, values))
    }

    /// Every variable is what a table gives its reader, or a claim on a tensor.
    fn bind(&mut self, stage: &Stage, at: &[E], values: &[A::Value]) {
        for reading in &stage.readings {
            let kept = if reading.rows {
                at.len() - stage.layout.channel_vars
            } else {
                at.len()
            };
            let point = &at[..kept];
            let slots = reading.slots.iter().map(|slot| match *slot {
                Slot::Variable(variable) => values[variable].clone(),
                // Stops: a limb beyond its class.
                Slot::Class(class) => {
                    A::Value::from(E::from_u32(class) * eq_prefix(point, reading.covered))
                }
            });
            self.pull(reading.group, point, slots.collect());
        }
        for &(variable, tensor) in &stage.tensors {
            self.claim(tensor, at.to_vec(), values[variable].clone());
        }
    }
}
