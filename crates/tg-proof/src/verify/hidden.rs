//! The checks of a proof in zero knowledge: the walk and the lookup argument leave forms that must vanish, and one
//! challenge makes one statement about the commitments of them. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use super::{Walk, WeightClaims};
use crate::commitment::Challenger;
use crate::error::{LookupCheck, VerifyError};
use crate::field::E;
use crate::lookup::LookupMessages;
use crate::messages::{LookupProof, NodeProof};
use crate::plan::Plan;
use crate::pushforward::PushforwardWeights;
use crate::tape::{self, Form, ProductMessages, Secrets, Tape};
use crate::transcript::draw;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Program;

/// What a walk in zero knowledge is about.
#[derive(Debug, Clone, Copy)]
pub struct Walked<'a> {
    /// The program.
    pub program: &'a Program,
    /// The plan of its proofs in zero knowledge.
    pub plan: &'a Plan,
    /// The input, batched.
    pub input: &'a [i32],
    /// The output, batched.
    pub output: &'a [i32],
    /// The padded messages of the nodes.
    pub nodes: &'a [NodeProof],
    /// The padded messages of the lookup argument.
    pub lookup: &'a LookupProof,
}

/// What must hold of the commitments for a proof to be right.
#[derive(Debug)]
pub struct Obligations {
    /// What must vanish in the secrets alone.
    vanishing: Vec<Form>,
    /// Values that must be committed columns'.
    columns: Vec<ColumnObligation>,
    /// Per entry of the pushforwards' layout a weight, and what their sum must be.
    pushforwards: (Vec<E>, Form),
    /// The claims on the weights, which are public.
    pub weights: Vec<Option<WeightClaims>>,
}

/// A value that must be a committed column's at a point.
#[derive(Debug)]
struct ColumnObligation {
    /// The witness table.
    table: usize,
    /// The column within it.
    column: usize,
    /// The point, with as many coordinates as the chunk has variables.
    point: Vec<E>,
    /// The value.
    value: Form,
}

/// Plays the walk and the lookup argument over padded messages; gives what is left to show, and what the prover sends about
/// products. A prover calls it with its secrets before it sends anything.
///
/// # Errors
/// A check of public values that fails, or another number of messages than is padded.
pub fn walk(
    walked: &Walked<'_>,
    tape: Tape<'_>,
    challenger: &mut Challenger,
) -> Result<(Obligations, ProductMessages), VerifyError> {
    let plan = walked.plan;
    let mut walk = Walk::new(tape, walked.program, plan, walked.input);
    let lookup = LookupMessages {
        proof: walked.lookup,
        sums: (&[], E::ZERO),
    };
    let lookup = walk.check((walked.nodes, lookup), None, walked.output, challenger)?;
    let mut columns = Vec::new();
    let opened = std::mem::take(&mut walk.opened);
    let opened = opened.into_iter().zip(lookup.columns);
    for (index, (table, (opened, looked_up))) in plan.witness.iter().zip(opened).enumerate() {
        let at = &lookup.point[lookup.point.len() - table.chunk.vars..];
        for (column, value) in looked_up.into_iter().enumerate() {
            columns.push(ColumnObligation {
                table: index,
                column,
                point: at.to_vec(),
                value,
            });
        }
        for (names, claim) in table.openings.iter().zip(opened) {
            for (&column, value) in names.iter().zip(claim.values) {
                columns.push(ColumnObligation {
                    table: index,
                    column,
                    point: claim.point.clone(),
                    value,
                });
            }
        }
    }
    // One claim on the pushforwards by the powers of a challenge, then one on everything.
    let (Some(owed), Some(layout)) = (&lookup.pushforwards, &plan.pushforwards) else {
        return Err(VerifyError::Lookup(LookupCheck::Messages));
    };
    let weights = PushforwardWeights::new(plan, layout, &lookup.point, draw(challenger));
    let pushforwards = (weights.table(), weights.claimed(owed));
    let (vanishing, products) = walk.arithmetic.finish().ok_or(VerifyError::Secrets)?;
    let obligations = Obligations {
        vanishing,
        columns,
        pushforwards,
        weights: walk.weights,
    };
    Ok((obligations, products))
}

/// A public linear functional of what is committed, and its value.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Per secret its coefficient.
    pub secrets: Vec<E>,
    /// Witness table, column, point and coefficient of an evaluation.
    pub evaluations: Vec<(usize, usize, Vec<E>, E)>,
    /// Per entry of the pushforwards' layout its coefficient.
    pub pushforwards: Vec<E>,
    /// What they add up to.
    pub sum: E,
}

impl Obligations {
    /// Adds what must vanish if all triples are right.
    ///
    /// # Errors
    /// If not every triple is compared.
    pub fn compare(
        &mut self,
        secrets: Secrets,
        compared: &[[E; 2]],
        eta: E,
    ) -> Result<(), VerifyError> {
        let forms = tape::comparisons(secrets, compared, eta).ok_or(VerifyError::Secrets)?;
        self.vanishing.extend(forms);
        Ok(())
    }

    /// How many checks are batched.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.vanishing.len() + self.columns.len() + 1
    }

    /// All of them as one, by the powers of a challenge.
    #[must_use]
    pub fn batched(&self, secrets: Secrets, beta: E) -> Batch {
        let mut batch = Batch {
            secrets: vec![E::ZERO; secrets.count()],
            ..Batch::default()
        };
        let mut powers = beta.powers();
        let forms = self.vanishing.iter().zip(&mut powers);
        forms.for_each(|(form, power)| batch.add(form, power));
        for (claim, power) in self.columns.iter().zip(&mut powers) {
            let ColumnObligation {
                table,
                column,
                point,
                value,
            } = claim;
            batch.add(value, power);
            let evaluation = (*table, *column, point.clone(), -power);
            batch.evaluations.push(evaluation);
        }
        let (weights, sum) = &self.pushforwards;
        if let Some(power) = powers.next() {
            batch.add(sum, power);
            let weights = weights.iter().map(|&weight| -(weight * power));
            batch.pushforwards = weights.collect();
        }
        batch
    }
}

impl Batch {
    fn add(&mut self, form: &Form, power: E) {
        self.sum -= power * form.known;
        for &(secret, factor) in &form.terms {
            // The tape hands out no other secrets than there are.
            if let Some(sum) = self.secrets.get_mut(secret as usize) {
                *sum += power * factor;
            }
        }
    }
}
