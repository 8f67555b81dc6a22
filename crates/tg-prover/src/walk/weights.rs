//! Parameters and rows of embeddings.

use super::Walk;
use crate::channel::Channel;
use crate::fold::{Dots, dot};
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Op;
use tg_ir::op;
use tg_proof::field::{E, eq_table};
use tg_proof::layout::WeightPiece;
use tg_proof::messages::{ChosenProof, EmbedProof};
use tg_proof::plan::GadgetPlan;
use tg_proof::verify::{Claim, token_row, token_weights};

impl Walk<'_> {
    /// The pieces of a node's weights at their parts of a point.
    pub(super) fn piece_values(&self, weights: usize, point: &[E]) -> Vec<E> {
        let layout = self.plan.weights[weights];
        let columns = &self.model.columns[self.plan.owner(weights)].pieces;
        let pieces = layout.pieces().into_iter().zip(columns);
        pieces
            .map(|(piece, column)| dot(column, &eq_table(&layout.piece_point(&piece, point).0)))
            .collect()
    }

    pub(super) fn parameter(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim,
        channel: &mut Channel,
    ) -> Vec<E> {
        let (pixels, _, channels) = self.plan.layouts[node + 1].split(&claim.point);
        let point = [pixels, channels].concat();
        let pieces = channel.send_weights(&self.piece_values(weights, &point));
        self.weights[weights] = Some((point, None));
        pieces
    }

    pub(super) fn embed_chosen(
        &mut self,
        node: usize,
        (weights, gadget): (usize, &GadgetPlan),
        claim: &Claim,
        channel: &mut Channel,
    ) -> ChosenProof {
        let (rows, at, chosen) = self.table_rows(node, weights, claim, channel);
        let [sent] = channel.send([chosen]);
        let (pixels, batch, _) = self.plan.layouts[node + 1].split(&claim.point);
        let flags = Claim {
            point: [pixels, batch, &at].concat(),
            value: chosen,
        };
        ChosenProof {
            rows,
            chosen: sent,
            stages: self.staged(&gadget.staged, &flags, channel),
        }
    }

    pub(super) fn embed(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim,
        channel: &mut Channel,
    ) -> EmbedProof {
        self.table_rows(node, weights, claim, channel).0
    }

    /// The sum over the rows of a table of weights: its messages, its point, and the weight of the tokens there.
    fn table_rows(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim,
        channel: &mut Channel,
    ) -> (EmbedProof, Vec<E>, E) {
        let layout = self.plan.layouts[node + 1];
        let (_, _, channels) = layout.split(&claim.point);
        let Op::Embed(op::Embed { input, rows }) = &self.model.model.program.nodes[node].op else {
            unreachable!("the plan follows the program's operators");
        };
        let vars = self.plan.weights[weights].axis_vars()[0];
        let mut tokens = vec![E::ZERO; 1 << vars];
        let named = self.tensor(*input).widened();
        for (token, weight) in named.into_iter().zip(token_weights(layout, &claim.point)) {
            tokens[token_row(token, *rows as usize)] += weight;
        }
        let row_sums = self.row_sums(weights, channels);
        let mut table = vec![E::ZERO; 1 << vars];
        for (piece, scale, sums) in &row_sums {
            for (sum, &value) in table[piece.start[0]..].iter_mut().zip(sums) {
                *sum += *scale * value;
            }
        }
        let (sumcheck, at, [_, chosen]) = sumcheck::product(table, tokens, claim.value, channel);
        let pieces: Vec<E> = row_sums
            .iter()
            .map(|(piece, _, sums)| {
                let eq = eq_table(&at[at.len() - piece.vars[0]..]);
                sums.iter().zip(eq).map(|(&sum, weight)| sum * weight).sum()
            })
            .collect();
        let pieces = channel.send_weights(&pieces);
        self.weights[weights] = Some(([&at, channels].concat(), None));
        let proof = EmbedProof {
            sumcheck,
            weights: pieces,
        };
        (proof, at, chosen)
    }

    /// Per piece of an embedding the weight of its channels, and its rows at its part of the channel's point.
    fn row_sums(&self, weights: usize, channels: &[E]) -> Vec<(WeightPiece, E, Vec<E>)> {
        let layout = self.plan.weights[weights];
        let columns = &self.model.columns[self.plan.owner(weights)].pieces;
        let pieces = layout.pieces().into_iter().zip(columns);
        pieces
            .map(|(piece, column)| {
                let vars = piece.vars[2];
                let (high, low) = channels.split_at(channels.len() - vars);
                let scale = tg_proof::field::eq_at(high, piece.start[2] >> vars);
                let used = &column[..piece.count[0] << vars];
                let sums = Dots::new(&eq_table(low)).dot_rows(1 << vars, used);
                (piece, scale, sums)
            })
            .collect()
    }
}
