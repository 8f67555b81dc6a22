//! Decision trees.

use super::NodeCheck;
use super::read::ReadClaim;
use super::walk::Stated;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_prefix};
use crate::algebra::layout::log2_ceil;
use crate::algebra::linear::ReadShape;
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::plan::{FlagWeights, TreesPlan, branch_reading};
use crate::verify::messages::TreesProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Op;
use tg_ir::op;

impl<A: Arithmetic> Walk<'_, A> {
    /// The decisions, the input they read, and one sum over the flags of the leaves.
    pub(super) fn trees(
        &mut self,
        node: usize,
        trees: &TreesPlan,
        claim: &ClaimIn<A>,
        sent: Option<&TreesProof>,
    ) -> Result<(), NodeCheck> {
        let Op::Trees(op::Trees { input, forest }) = &self.program.nodes[node].op else {
            return Err(NodeCheck::Messages);
        };
        let from = self.plan.layouts[input.index()];
        let stage = &trees.decisions.elements;
        let vars = stage.layout.vars();
        let drawn = self.channel.draw_point(Theorem::Identities, vars);
        let anchors = self.anchored(stage, &drawn);
        let nothing = Stated {
            output: &A::Value::from(E::ZERO),
            sums: &[],
        };
        let decisions = sent.map(|sent| &sent.decisions);
        let (branches, values) = self.stage(stage, anchors.as_ref(), &nothing, decisions)?;
        let [value, below, above] = trees.shown.map(|shown| values[shown].clone());
        let work = PublicWork::tables((1 << stage.layout.channel_vars) + (1 << from.channel_vars));
        let reading = self.channel.public(work, |look| {
            let at = A::coordinates(look, &branches);
            Some(branch_reading(*input, from, forest, at))
        });
        let shape = ReadShape {
            inputs: vec![*input],
            summed: [false, true],
            unscaled: true,
        };
        // Stops: decisions about another input.
        let read = ReadClaim {
            shape: &shape,
            reading: reading.as_ref(),
            sum: value,
            failed: NodeCheck::Sources,
        };
        self.read(read, sent.map(|sent| &sent.read))?;

        let layout = trees.flags.layout;
        let roots = log2_ceil(trees.shape.firsts.len());
        let vars = layout.batch_vars + roots;
        let drawn = self.channel.draw_point(Theorem::Identities, vars);
        let powers = FlagWeights::POWERS;
        let beta = self.channel.draw(Theorem::Identities, powers);
        let sides = 8 * ((1u64 << stage.layout.channel_vars) + (1 << layout.channel_vars));
        let work = PublicWork::tables(sides + forest.leaves.len() as u64);
        let weights = self.channel.public(work, |look| {
            let points = [&claim.point, &branches, &drawn];
            let points = points.map(|point| A::coordinates(look, point));
            Some(FlagWeights::new(trees, forest, points, beta))
        });
        let (factors, constant) = weights.as_ref().map(FlagWeights::sum).unwrap_or_default();
        let sum = claim.value.clone() + below * factors[0] + above * factors[1];
        let sum = sum + A::Value::from(constant);
        let of_sum = SumShape {
            rounds: layout.vars(),
            degree: 2,
            theorem: Theorem::Sum,
        };
        let (at, last) = self
            .sumcheck(sent.map(|sent| &sent.leaves), of_sum, sum)
            .ok_or(NodeCheck::Addition)?;
        let flag = self.one(sent.map(|sent| &sent.flag))?;
        let (weight, covered) = self.channel.public(PublicWork::EQ, |look| {
            let at = A::coordinates(look, &at);
            let weight = weights.as_ref().map(|weights| weights.at(at));
            (
                weight.unwrap_or_default(),
                eq_prefix(at, trees.flags.covered),
            )
        });
        // Stops: other leaves than the marked ones, none or two of a tree, an output that is another sum of leaves.
        self.equal(last, flag.clone() * weight)
            .ok_or(NodeCheck::Addition)?;
        // Stops: a flag other than 0 and 1.
        let class = A::Value::from(covered);
        self.pull(trees.group, &at, layout.vars(), vec![flag, class]);
        Ok(())
    }
}
