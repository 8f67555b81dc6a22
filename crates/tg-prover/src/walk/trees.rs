//! Decision trees.

use super::Walk;
use crate::channel::Channel;
use crate::relation::Variable;
use crate::sumcheck;
use crate::witness::integer;
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_ir::Op;
use tg_ir::op;
use tg_proof::field::{E, F, eq_table, signed};
use tg_proof::layout::log2_ceil;
use tg_proof::messages::TreesProof;
use tg_proof::plan::{FlagWeights, TreesPlan, branch_reading};
use tg_proof::staged::Anchors;
use tg_proof::verify::Claim;

impl Walk<'_> {
    pub(super) fn trees(
        &mut self,
        node: usize,
        trees: &TreesPlan,
        claim: &Claim,
        channel: &mut Channel,
    ) -> TreesProof {
        let Op::Trees(op::Trees { input, forest }) = &self.model.model.program.nodes[node].op
        else {
            unreachable!("the plan follows the program's operators");
        };
        let stage = &trees.decisions.elements;
        let flags = self.flags(trees);
        let mut variables = self.variables(stage);
        let from = self.plan.layouts[input.index()];
        let tensor = self.tensor(*input).widened();
        let branches = 1usize << stage.layout.channel_vars;
        let mut shown = [(); 3].map(|()| F::zero_vec(stage.layout.padded()));
        for own in 0..stage.layout.batch {
            let row = &flags[own << trees.flags.layout.channel_vars..];
            let [below, above] = trees.shape.sums(&row[..trees.shape.places.len()]);
            for (index, branch) in forest.branches.iter().enumerate() {
                let value = tensor[own * from.channels + usize::from(branch.feature)];
                let place = own * branches + index;
                shown[0][place] = signed(i64::from(value));
                shown[1][place] = below[index];
                shown[2][place] = above[index];
            }
        }
        for (variable, values) in trees.shown.into_iter().zip(shown) {
            variables[variable] = Variable::of(values);
        }
        let anchors = Anchors::one(stage, &channel.draw_point(stage.layout.vars()));
        let claimed = (E::ZERO, [].as_slice());
        let decisions = self.stage(stage, &variables, &anchors, claimed, channel);
        let at = decisions.at;
        let sent = stage.sent();
        let [value, below, above] = trees.shown.map(|shown| {
            let place = sent.iter().position(|&variable| variable == shown);
            decisions.values[place.expect("what a stage shows is sent")]
        });
        let read = self.read(&branch_reading(*input, from, forest, &at), value, channel);

        let layout = trees.flags.layout;
        let roots = log2_ceil(trees.shape.firsts.len());
        let drawn = channel.draw_point(layout.batch_vars + roots);
        let beta = channel.draw();
        let weights = FlagWeights::new(trees, forest, [&claim.point, &at, &drawn], beta);
        let (factors, constant) = weights.sum();
        let sum = claim.value + below * factors[0] + above * factors[1] + constant;
        let flags = flags.into_iter().map(E::from).collect();
        let (leaves, at, [flag, _]) = sumcheck::product(flags, weights.table(), sum, channel);
        let [sent] = channel.send([flag]);
        let point: Arc<[E]> = at.as_slice().into();
        self.read_columns(trees.group, &point, &eq_table(&at));
        TreesProof {
            decisions: decisions.messages,
            read,
            leaves,
            flag: sent,
        }
    }

    /// The flags of all inputs and places.
    fn flags(&self, trees: &TreesPlan) -> Vec<F> {
        let mut flags = F::zero_vec(trees.flags.layout.padded());
        for table in trees.flags.witness.clone() {
            let chunk = self.plan.witness[table].chunk;
            let cells = &self.witness.columns[table][0][..chunk.rows()];
            for (flag, &cell) in flags[chunk.start..].iter_mut().zip(cells) {
                *flag = F::from_u32(integer(cell));
            }
        }
        flags
    }
}
