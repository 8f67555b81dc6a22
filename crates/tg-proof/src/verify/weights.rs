//! Tensors that are committed weights themselves: parameters, and rows of embeddings.

use super::NodeCheck;
use super::{Claim, Walk, WeightClaims};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_at, eq_prefix, eq_table};
use crate::algebra::layout::TensorLayout;
use crate::algebra::transcript::Challenger;
use crate::plan::GadgetPlan;
use crate::verify::messages::{ChosenProof, EmbedProof};
use tg_ir::Op;
use tg_ir::op;

/// The row of a table of weights that a token names.
#[must_use]
pub fn token_row(token: i32, rows: usize) -> usize {
    usize::try_from(token).unwrap_or(0).min(rows - 1)
}

impl<A: Arithmetic> Walk<'_, A> {
    /// A claim on a parameter is a claim on its weights; every input of the batch has the same.
    pub(super) fn parameter(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim<A::Value>,
        pieces: &[E],
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let pieces = self.absorb_weights(pieces, challenger);
        let layout = self.plan.layouts[node + 1];
        let (pixels, batch, channels) = layout.split(&claim.point);
        let point = [pixels, channels].concat();
        let value = self.plan.weights[weights]
            .combine(&point, &pieces)
            .ok_or(NodeCheck::Messages)?;
        // Stops: other weights than the committed ones.
        let value = value * eq_prefix(batch, layout.batch);
        self.equal(claim.value.clone(), value)
            .ok_or(NodeCheck::Weights)?;
        self.weights[weights] = Some(WeightClaims {
            point,
            pieces,
            bias: None,
        });
        Ok(())
    }

    /// `v = sum over rows t of T(t) w~(t, r_c)`, T(t) being the weight of the pixels whose public token is t.
    pub(super) fn embed(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim<A::Value>,
        proof: &EmbedProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let Op::Embed(op::Embed { rows, .. }) = &self.program.nodes[node].op else {
            return Err(NodeCheck::Messages);
        };
        let (at, [last, value]) = self.table_rows(node, weights, claim, proof, challenger)?;
        let tokens = token_weights(self.plan.layouts[node + 1], &claim.point);
        let named = self.input.iter().zip(tokens);
        let weight: E = named
            .map(|(&token, weight)| weight * eq_at(&at, token_row(token, *rows as usize)))
            .sum();
        // Stops: rows of other tokens, or other weights.
        self.equal(last, value * weight).ok_or(NodeCheck::Weights)
    }

    /// `v = sum over rows t of O~(r_s, r_e, t) w~(t, r_c)`, O being 1 where a pixel's token is t.
    pub(super) fn embed_chosen(
        &mut self,
        node: usize,
        (weights, gadget): (usize, &GadgetPlan),
        claim: &Claim<A::Value>,
        proof: &ChosenProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let ChosenProof {
            rows,
            chosen,
            stages,
        } = proof;
        let (at, [last, value]) = self.table_rows(node, weights, claim, rows, challenger)?;
        let chosen = self.absorb_one(*chosen, challenger);
        // Stops: other weights.
        let product = self.arithmetic.weighed(&chosen, &value);
        self.equal(last, product).ok_or(NodeCheck::Weights)?;
        let (pixels, batch, _) = self.plan.layouts[node + 1].split(&claim.point);
        let flags = Claim {
            point: [pixels, batch, &at].concat(),
            value: chosen,
        };
        // Stops: rows of other tokens.
        self.staged(&gadget.staged, &flags, stages, challenger)
    }

    /// The sum over the rows of a table of weights: its point, and what it ends in beside the table there.
    fn table_rows(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim<A::Value>,
        proof: &EmbedProof,
        challenger: &mut Challenger,
    ) -> Result<(Vec<E>, [A::Value; 2]), NodeCheck> {
        let EmbedProof {
            sumcheck: rounds,
            weights: pieces,
        } = proof;
        let (_, _, channels) = self.plan.layouts[node + 1].split(&claim.point);
        let weight_layout = self.plan.weights[weights];
        let vars = weight_layout.axis_vars()[0];
        let (at, last) = self
            .sumcheck(rounds, challenger, (vars, 2), claim.value.clone())
            .ok_or(NodeCheck::Weights)?;
        let pieces = self.absorb_weights(pieces, challenger);
        let point = [&at, channels].concat();
        let value = weight_layout
            .combine(&point, &pieces)
            .ok_or(NodeCheck::Messages)?;
        self.weights[weights] = Some(WeightClaims {
            point,
            pieces,
            bias: None,
        });
        Ok((at, [last, value]))
    }
}

/// Per pixel and input of the batch, in storage order, its `eq`.
#[must_use]
pub fn token_weights(layout: TensorLayout, at: &[E]) -> Vec<E> {
    let (pixels, batch, _) = layout.split(at);
    let (pixels, batch) = (eq_table(pixels), eq_table(batch));
    let rows = pixels.iter().take(layout.pixels).flat_map(|&pixel| {
        let inputs = batch.iter().take(layout.batch);
        inputs.map(move |&input| pixel * input)
    });
    rows.collect()
}
