//! Public linear maps: a claim becomes claims on the tensors it is a public linear form of.

use super::{Claim, Walk, sumcheck};
use crate::commitment::Challenger;
use crate::error::NodeCheck;
use crate::field::E;
use crate::linear::{Reading, map_reading};
use crate::messages::ReadProof;
use crate::transcript::absorb;
use tg_ir::Op;

impl Walk<'_> {
    /// Checks that a public linear form of some tensors is `sum`, up to claims on these; `failed` if it is not.
    pub(super) fn read(
        &mut self,
        reading: &Reading,
        sum: E,
        proof: &ReadProof,
        failed: NodeCheck,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let ReadProof {
            sumcheck: rounds,
            inputs,
        } = proof;
        let vars: usize = reading.summed_vars(self.plan).iter().sum();
        let summed = reading.summed() != [false; 2];
        if reading.is_direct() {
            let term = &reading.terms[0];
            let (point, _) = reading.claim_of(self.plan, term, &[]);
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
            Some(rounds) => sumcheck(rounds, challenger, vars, 2, sum).ok_or(failed)?,
            None => (Vec::new(), sum),
        };
        absorb(challenger, inputs);
        let claims: Vec<(Vec<E>, E)> = reading
            .terms
            .iter()
            .map(|term| reading.claim_of(self.plan, term, &at))
            .collect();
        let total: E = claims.iter().zip(inputs).map(|((_, w), &v)| *w * v).sum();
        // Stops: other elements, or other factors, than the public map's.
        if last != total {
            return Err(failed);
        }
        for ((term, (point, _)), &value) in reading.terms.iter().zip(claims).zip(inputs) {
            self.claim(term.input, point, value);
        }
        Ok(())
    }

    /// A node that is a public linear map.
    pub(super) fn map(
        &mut self,
        node: usize,
        claim: &Claim,
        proof: &ReadProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let failed = match &self.program.nodes[node].op {
            Op::Add { .. } => NodeCheck::Addition,
            Op::WindowSum { .. } => NodeCheck::Sources,
            _ => NodeCheck::Permutation,
        };
        let (reading, constant) = map_reading(self.program, self.plan, node, &claim.point);
        self.read(&reading, claim.value - constant, proof, failed, challenger)
    }
}
