//! Tensors that are committed weights themselves: parameters, and rows of embeddings.

use super::NodeCheck;
use super::{Claim, ClaimIn, Walk, WeightClaims};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_at, eq_prefix, eq_table};
use crate::algebra::layout::{TensorLayout, log2_ceil};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::plan::GadgetPlan;
use crate::verify::messages::{ChosenProof, EmbedProof};
use tg_ir::Op;
use tg_ir::op;

/// The row of a table of weights that a token names.
#[must_use]
pub fn token_row(token: i32, rows: usize) -> usize {
    usize::try_from(token).unwrap_or(0).min(rows - 1)
}

/// The end of a sum over the rows of a table: its point, what it must be there, and the table there.
struct TableEnd<A: Arithmetic> {
    at: A::Point,
    last: A::Value,
    table: A::Value,
}

impl<A: Arithmetic> Walk<'_, A> {
    /// A claim on a parameter is a claim on its weights; every input of the batch has the same.
    pub(super) fn parameter(
        &mut self,
        node: usize,
        weights: usize,
        claim: &ClaimIn<A>,
        sent: Option<&[E]>,
    ) -> Result<(), NodeCheck> {
        let count = self.plan.weights[weights].pieces().len();
        let pieces = self.weight_list(sent, count)?;
        let layout = self.plan.layouts[node + 1];
        let (point, used) = self.channel.public(PublicWork::EQ, |look| {
            let (pixels, batch, channels) = layout.split(A::coordinates(look, &claim.point));
            let point = A::point(look, [pixels, channels].concat());
            (point, eq_prefix(batch, layout.batch))
        });
        // Stops: other weights than the committed ones.
        let value = self.combined_weights(weights, &point, &pieces) * used;
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
        claim: &ClaimIn<A>,
        sent: Option<&EmbedProof>,
    ) -> Result<(), NodeCheck> {
        let Op::Embed(op::Embed { rows, .. }) = &self.program.nodes[node].op else {
            return Err(NodeCheck::Messages);
        };
        let TableEnd { at, last, table } = self.table_rows(node, weights, claim, sent)?;
        let (layout, input) = (self.plan.layouts[node + 1], self.input);
        let vars = log2_ceil(*rows as usize);
        let tokens = layout.pixels as u64 * layout.batch as u64;
        let work = PublicWork::steps(tokens * (vars as u64 + 2));
        let work = work.and(PublicWork::tables(2 << vars));
        let weight = self.channel.public(work, |look| {
            let at = A::coordinates(look, &at);
            let tokens = token_weights(layout, A::coordinates(look, &claim.point));
            let named = input.iter().zip(tokens);
            let named =
                named.map(|(&token, weight)| weight * eq_at(at, token_row(token, *rows as usize)));
            named.sum::<E>()
        });
        // Stops: rows of other tokens, or other weights.
        self.equal(last, table * weight).ok_or(NodeCheck::Weights)
    }

    /// `v = sum over rows t of O~(r_s, r_e, t) w~(t, r_c)`, O being 1 where a pixel's token is t.
    pub(super) fn embed_chosen(
        &mut self,
        node: usize,
        (weights, gadget): (usize, &GadgetPlan),
        claim: &ClaimIn<A>,
        sent: Option<&ChosenProof>,
    ) -> Result<(), NodeCheck> {
        let rows = sent.map(|sent| &sent.rows);
        let TableEnd { at, last, table } = self.table_rows(node, weights, claim, rows)?;
        let chosen = self.one(sent.map(|sent| &sent.chosen))?;
        // Stops: other weights.
        let product = self.channel.arithmetic.weighed(&chosen, &table);
        self.equal(last, product).ok_or(NodeCheck::Weights)?;
        let layout = self.plan.layouts[node + 1];
        let point = self.channel.public(PublicWork::default(), |look| {
            let (pixels, batch, _) = layout.split(A::coordinates(look, &claim.point));
            let at = A::coordinates(look, &at);
            A::point(look, [pixels, batch, at].concat())
        });
        let flags = Claim {
            point,
            value: chosen,
        };
        // Stops: rows of other tokens.
        let stages = sent.map(|sent| sent.stages.as_slice());
        self.staged(&gadget.staged, &flags, stages)
    }

    /// The sum over the rows of a table of weights.
    fn table_rows(
        &mut self,
        node: usize,
        weights: usize,
        claim: &ClaimIn<A>,
        sent: Option<&EmbedProof>,
    ) -> Result<TableEnd<A>, NodeCheck> {
        let layout = self.plan.layouts[node + 1];
        let weight_layout = &self.plan.weights[weights];
        let of_sum = SumShape {
            rounds: weight_layout.axis_vars()[0],
            degree: 2,
            theorem: Theorem::Sum,
        };
        let count = weight_layout.pieces().len();
        let (at, last) = self
            .sumcheck(sent.map(|sent| &sent.sumcheck), of_sum, claim.value.clone())
            .ok_or(NodeCheck::Weights)?;
        let pieces = self.weight_list(sent.map(|sent| sent.weights.as_slice()), count)?;
        let point = self.channel.public(PublicWork::default(), |look| {
            let (_, _, channels) = layout.split(A::coordinates(look, &claim.point));
            A::point(look, [A::coordinates(look, &at), channels].concat())
        });
        let table = self.combined_weights(weights, &point, &pieces);
        self.weights[weights] = Some(WeightClaims {
            point,
            pieces,
            bias: None,
        });
        Ok(TableEnd { at, last, table })
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
