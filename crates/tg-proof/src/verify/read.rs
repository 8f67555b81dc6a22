//! Public linear maps: a claim becomes claims on the tensors it is a public linear form of.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::E;
use crate::algebra::linear::Reading;
use crate::algebra::transcript::Challenger;
use crate::verify::messages::ReadProof;
use tg_ir::Op;

impl<A: Arithmetic> Walk<'_, A> {
    /// Checks that a public linear form of some tensors is `sum`, up to claims on these; `failed` if it is not.
    pub(super) fn read(
        &mut self,
        reading: &Reading,
        sum: A::Value,
        proof: &ReadProof,
        failed: NodeCheck,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let ReadProof {
            sumcheck: rounds,
            inputs,
        } = proof;
        let vars: usize = reading.summed_vars(&self.plan.layouts).iter().sum();
        let summed = reading.summed() != [false; 2];
        if reading.is_direct() {
            let term = &reading.terms[0];
            let (point, _) = reading.claim_of(&self.plan.layouts, term, &[]);
            self.claim(term.input, point, sum);
            return match (rounds, inputs.as_slice()) {
                (None, []) => Ok(()),
                _ => Err(NodeCheck::Messages),
            };
        }
        if inputs.len() != reading.terms.len() || rounds.is_some() != summed {
            return Err(NodeCheck::Messages);
        }
        let (at, last) = match rounds {
            Some(rounds) => self
                .sumcheck(rounds, challenger, (vars, 2), sum)
                .ok_or(failed)?,
            None => (Vec::new(), sum),
        };
        let inputs = self.arithmetic.absorb(inputs, challenger);
        let claims: Vec<(Vec<E>, E)> = reading
            .terms
            .iter()
            .map(|term| reading.claim_of(&self.plan.layouts, term, &at))
            .collect();
        let terms = claims.iter().zip(&inputs);
        let total = terms.map(|((_, weight), value)| value.clone() * *weight);
        let total: A::Value = total.sum();
        // Stops: other elements, or other factors, than the public map's.
        self.equal(last, total).ok_or(failed)?;
        for ((term, (point, _)), value) in reading.terms.iter().zip(claims).zip(inputs) {
            self.claim(term.input, point, value);
        }
        Ok(())
    }

    /// A node that is a public linear map.
    pub(super) fn map(
        &mut self,
        node: usize,
        claim: &Claim<A::Value>,
        proof: &ReadProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let failed = match &self.program.nodes[node].op {
            Op::Add(_) => NodeCheck::Addition,
            Op::WindowSum(_) => NodeCheck::Sources,
            _ => NodeCheck::Permutation,
        };
        let (reading, constant) = self.plan.map_reading(self.program, node, &claim.point);
        let sum = claim.value.clone() - A::Value::from(constant);
        self.read(&reading, sum, proof, failed, challenger)
    }
}
