//! Decision trees.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_prefix};
use crate::algebra::layout::log2_ceil;
use crate::algebra::transcript::Challenger;
use crate::plan::staged::Anchors;
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
        claim: &Claim<A::Value>,
        proof: &TreesProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let TreesProof {
            decisions,
            read,
            leaves,
            flag,
        } = proof;
        let Op::Trees(op::Trees { input, forest }) = &self.program.nodes[node].op else {
            return Err(NodeCheck::Messages);
        };
        let stage = &trees.decisions.elements;
        let anchors = Anchors::one(stage, &self.draw_point(stage.layout.vars(), challenger));
        let nothing = A::Value::from(E::ZERO);
        let (branches, values) =
            self.stage(stage, &anchors, (&nothing, &[]), decisions, challenger)?;
        let [value, below, above] = trees.shown.map(|shown| values[shown].clone());
        let reading = branch_reading(*input, self.plan.layouts[input.index()], forest, &branches);
        // Stops: decisions about another input.
        self.read(&reading, value, read, NodeCheck::Sources, challenger)?;

        let layout = trees.flags.layout;
        let roots = log2_ceil(trees.shape.firsts.len());
        let drawn = self.draw_point(layout.batch_vars + roots, challenger);
        let beta = self.draw(FlagWeights::POWERS, challenger);
        let points = [claim.point.as_slice(), &branches, &drawn];
        let weights = FlagWeights::new(trees, forest, points, beta);
        let (factors, constant) = weights.sum();
        let sum = claim.value.clone() + below * factors[0] + above * factors[1];
        let sum = sum + A::Value::from(constant);
        let (at, last) = self
            .sumcheck(leaves, challenger, (layout.vars(), 2), sum)
            .ok_or(NodeCheck::Addition)?;
        let flag = self.absorb_one(*flag, challenger);
        // Stops: other leaves than the marked ones, none or two of a tree, an output that is another sum of leaves.
        self.equal(last, flag.clone() * weights.at(&at))
            .ok_or(NodeCheck::Addition)?;
        // Stops: a flag other than 0 and 1.
        let class = A::Value::from(eq_prefix(&at, trees.flags.covered));
        self.pull(trees.group, &at, vec![flag, class]);
        Ok(())
    }
}
