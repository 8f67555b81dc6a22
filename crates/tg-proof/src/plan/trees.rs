//! Decision trees: every branch decides, and each tree's one leaf agrees with all decisions on its way.
//!
//! Leaves are counted tree by tree from the left, a leaf that several branches lead to once for each. Then the leaves below a
//! branch are a run, and those above it the next. Per branch b and input: a bit s of `x <= threshold` (as a comparison shows it)
//! and the numbers F, G of marked leaves below and above it, which are sums of flags; `F (1 - s) + G s = 0`. One flag of each
//! tree is set. So all decisions on the way to the marked leaf lead to it, which no other leaf has. *Stops: another leaf, no
//! leaf, two leaves, a decision that does not hold.*

use super::LIMB_CLASS_LIMIT;
use super::PlanError;
use super::draft::{ColumnSet, Draft};
use super::stage::StageDraft;
use crate::algebra::field::{E, F, eq_prefix, eq_table};
use crate::algebra::layout::{TensorLayout, log2_ceil};
use crate::algebra::linear::{Along, Reading, Weights};
use crate::plan::staged::{Constraint, Linear, Mask, Public, Staged, coefficient};
use p3_field::PrimeCharacteristicRing;
use tg_ir::forest::{Child, Forest};
use tg_ir::{Program, TensorId};

/// Where the leaves of trees stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestShape {
    /// Per branch the leaves below it, `[0]..[1]`, and above it, `[1]..[2]`.
    pub ranges: Vec<[u32; 3]>,
    /// Per place of a leaf its tree and which leaf it is.
    pub places: Vec<(u32, u32)>,
    /// Per tree its first place.
    pub firsts: Vec<usize>,
    /// Bits of the difference of an input and a threshold.
    pub difference: u32,
}

/// The runs of a branch that was not reached yet.
const UNSEEN: [u32; 3] = [u32::MAX; 3];

enum Visit {
    Enter(Child),
    Middle(usize),
    Exit(usize),
}

impl ForestShape {
    /// The places of a forest; nothing if a branch is reached twice or never, or there is none.
    #[must_use]
    pub fn new(forest: &Forest, difference: u32) -> Option<Self> {
        // A forest has up to a million branches, which whoever registers it pays by the byte: nothing here is larger than it
        // has to be, and nothing grows.
        let mut ranges = vec![UNSEEN; forest.branches.len()];
        // A branch is entered once and leads to two.
        let mut places = Vec::with_capacity(forest.branches.len() + forest.roots.len());
        let mut firsts = Vec::with_capacity(forest.roots.len());
        for (tree, &root) in (0u32..).zip(&forest.roots) {
            firsts.push(places.len());
            let mut visits = vec![Visit::Enter(root)];
            while let Some(visit) = visits.pop() {
                match visit {
                    Visit::Enter(Child::Leaf(leaf)) => places.push((tree, leaf)),
                    Visit::Enter(Child::Branch(index)) => {
                        let index = index as usize;
                        if ranges[index] != UNSEEN {
                            return None;
                        }
                        ranges[index] = [places.len() as u32; 3];
                        let branch = &forest.branches[index];
                        visits.push(Visit::Exit(index));
                        visits.push(Visit::Enter(branch.above));
                        visits.push(Visit::Middle(index));
                        visits.push(Visit::Enter(branch.below));
                    }
                    Visit::Middle(index) => ranges[index][1] = places.len() as u32,
                    Visit::Exit(index) => ranges[index][2] = places.len() as u32,
                }
            }
        }
        let is_whole = !ranges.is_empty() && !ranges.contains(&UNSEEN);
        is_whole.then_some(Self {
            ranges,
            places,
            firsts,
            difference,
        })
    }

    /// The place that an input falls into in one tree.
    #[must_use]
    pub fn reached(&self, forest: &Forest, tree: usize, input: impl Fn(usize) -> i64) -> usize {
        let (mut at, mut place) = (forest.roots[tree], self.firsts[tree]);
        while let Child::Branch(index) = at {
            let branch = &forest.branches[index as usize];
            if input(usize::from(branch.feature)) <= i64::from(branch.threshold) {
                at = branch.below;
            } else {
                at = branch.above;
                place = self.ranges[index as usize][1] as usize;
            }
        }
        place
    }

    /// Per branch the sum of the values of all places below it, and above it.
    #[must_use]
    pub fn sums(&self, values: &[F]) -> [Vec<F>; 2] {
        let mut before = vec![F::ZERO];
        for &value in values {
            before.push(before[before.len() - 1] + value);
        }
        let between = |side: usize| {
            let ranges = self.ranges.iter();
            ranges
                .map(|range| before[range[side + 1] as usize] - before[range[side] as usize])
                .collect()
        };
        [between(0), between(1)]
    }
}

/// Decision trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreesPlan {
    /// The leaves.
    pub shape: ForestShape,
    /// The decisions: a stage over branches alone.
    pub decisions: Staged,
    /// Its columns.
    pub columns: ColumnSet,
    /// Variables of the stage: the input that a branch reads, and the marked leaves below and above it.
    pub shown: [usize; 3],
    /// The flags of the leaves.
    pub flags: ColumnSet,
    /// Their reader.
    pub group: usize,
}

impl Draft {
    pub(super) fn plan_trees(
        &mut self,
        program: &Program,
        node: usize,
        input: TensorId,
        forest: &Forest,
    ) -> Result<TreesPlan, PlanError> {
        let reach = forest.branches.iter().map(|b| i64::from(b.threshold).abs());
        let reach = self.magnitudes[input.index()] + reach.max().unwrap_or(0) + 1;
        let difference = i64::BITS - reach.leading_zeros();
        let shape = ForestShape::new(forest, difference).ok_or_else(|| {
            let why = "its trees share branches, or it has none";
            PlanError::unprovable(program, node, why)
        })?;
        let of = |channels: usize| TensorLayout {
            channels,
            channel_vars: log2_ceil(channels),
            ..self.layouts[input.index()]
        };
        let (branches, leaves) = (of(shape.ranges.len()), of(shape.places.len()));
        let mut draft = StageDraft::new(self, program, node, branches, Mask::ALL)?;
        let (of, linear) = (Linear::of, Constraint::linear);
        let shown: [usize; 3] = std::array::from_fn(|_| draft.variable());
        let [value, below, above] = shown;
        let thresholds = forest.branches.iter();
        let thresholds = thresholds.map(|branch| coefficient(branch.threshold.into()));
        let threshold = draft.public(Public::PerChannel(thresholds.collect()));
        let magnitude = Linear::limbs(&draft.limbs(difference), LIMB_CLASS_LIMIT);
        let decision = draft.limb(1);
        // Stops: a decision that does not hold.
        let signed = of(threshold).plus(value, -1).plus_form(&magnitude, 1);
        let signed = linear(signed.plus(decision, -1).and(1));
        draft.vanishes(signed.times(Linear::default().plus(decision, -2), magnitude));
        // Stops: a leaf that a decision on the way to it leads away from.
        let other = Linear::default().and(1).plus(decision, -1);
        let astray = Constraint::default().times(of(below), other);
        draft.vanishes(astray.times(of(above), of(decision)));
        let (elements, columns) = draft.finish(self, program, node)?;
        let flags = self.add_columns(program, node, leaves, 1, &[])?;
        let limbs = self.limb_table(program, node, LIMB_CLASS_LIMIT)?;
        let group = self.add_reader(program, node, (&flags, 0), (limbs, 1))?;
        Ok(TreesPlan {
            shape,
            decisions: Staged {
                rows: None,
                elements,
            },
            columns,
            shown,
            flags,
            group,
        })
    }
}

/// The input that branches read, at a point of input and branch.
#[must_use]
pub fn branch_reading(input: TensorId, layout: TensorLayout, forest: &Forest, at: &[E]) -> Reading {
    let (batch, branches) = at.split_at(layout.batch_vars);
    let mut channels = vec![E::ZERO; 1 << layout.channel_vars];
    for (branch, weight) in forest.branches.iter().zip(eq_table(branches)) {
        channels[usize::from(branch.feature)] += weight;
    }
    let weights = Weights::Fields {
        pixels: Along::At(Vec::new()),
        channels: Along::Sum(channels),
    };
    Reading::of(input, weights, batch)
}

/// The public weights of the flags in the one sum that shows the output, the marked leaves of the branches, and that each
/// tree has one: per part the point of the batch's inputs and a weight per place.
#[derive(Debug)]
pub struct FlagWeights {
    parts: [(Vec<E>, Vec<E>); 3],
    layout: TensorLayout,
    /// What the sum is besides the claims on output and branches.
    constant: E,
    beta: E,
}

impl FlagWeights {
    /// Highest power of the challenge.
    pub const POWERS: usize = 3;

    /// For the claim's point, the point of the branches, one drawn over inputs and trees, and a challenge.
    #[must_use]
    pub fn new(
        trees: &TreesPlan,
        forest: &Forest,
        [claim, branches, drawn]: [&[E]; 3],
        beta: E,
    ) -> Self {
        let TreesPlan { shape, flags, .. } = trees;
        let layout = flags.layout;
        let split = |at: &[E]| {
            let (batch, rest) = at.split_at(layout.batch_vars);
            (batch.to_vec(), eq_table(rest))
        };
        let [(claim, outputs), (own, branches), (drawn, roots)] =
            [claim, branches, drawn].map(split);
        let count = forest.outputs();
        let leaves = forest.leaves.chunks_exact(count).map(|values| {
            let terms = values.iter().zip(&outputs);
            terms
                .map(|(&value, &weight)| weight * F::from_i32(value))
                .sum()
        });
        let leaves: Vec<E> = leaves.collect();
        // Runs of leaves as what changes at their ends.
        let mut changes = vec![E::ZERO; shape.places.len() + 1];
        for (range, &weight) in shape.ranges.iter().zip(&branches) {
            let range = range.map(|end| end as usize);
            changes[range[0]] += weight * beta;
            changes[range[1]] += weight * (beta.square() - beta);
            changes[range[2]] -= weight * beta.square();
        }
        let runs = changes
            .iter()
            .take(shape.places.len())
            .scan(E::ZERO, |sum, &change| {
                *sum += change;
                Some(*sum)
            });
        let runs = runs.collect();
        let places = shape.places.iter();
        let outputs_of = places
            .clone()
            .map(|&(_, leaf)| leaves[leaf as usize])
            .collect();
        let of_trees = places
            .map(|&(tree, _)| beta.cube() * roots[tree as usize])
            .collect();
        let bias = forest.bias.iter().zip(&outputs);
        let bias: E = bias
            .map(|(&value, &weight)| weight * F::from_i32(value))
            .sum();
        let used: E = roots[..shape.firsts.len()].iter().copied().sum();
        let constant = beta.cube() * used * eq_prefix(&drawn, layout.batch)
            - bias * eq_prefix(&claim, layout.batch);
        Self {
            parts: [(claim, outputs_of), (own, runs), (drawn, of_trees)],
            layout,
            constant,
            beta,
        }
    }

    /// What the sum must be, given the output's claim and the branches' marked leaves, as multiples of these and a constant.
    #[must_use]
    pub fn sum(&self) -> ([E; 2], E) {
        ([self.beta, self.beta.square()], self.constant)
    }

    /// The weights over all inputs and places, padding included.
    #[must_use]
    pub fn table(&self) -> Vec<E> {
        let mut table = vec![E::ZERO; self.layout.padded()];
        for (batch, places) in &self.parts {
            let batch = eq_table(batch);
            let rows = table.chunks_exact_mut(1 << self.layout.channel_vars);
            for (row, &own) in rows.zip(&batch).take(self.layout.batch) {
                let cells = row.iter_mut().zip(places);
                cells.for_each(|(cell, &place)| *cell += own * place);
            }
        }
        table
    }

    /// Their extension at a point of input and place.
    #[must_use]
    pub fn at(&self, at: &[E]) -> E {
        let (batch, places) = at.split_at(self.layout.batch_vars);
        let (batch, places) = (eq_table(batch), eq_table(places));
        let parts = self.parts.iter().map(|(own, weights)| {
            let own = eq_table(own).into_iter().take(self.layout.batch);
            let inputs: E = own.zip(&batch).map(|(a, &b)| a * b).sum();
            let weights = weights.iter().zip(&places);
            inputs * weights.map(|(&a, &b)| a * b).sum::<E>()
        });
        parts.sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::forest::Branch;

    fn branch(below: Child, above: Child) -> Branch {
        Branch {
            feature: 0,
            threshold: 3,
            below,
            above,
        }
    }

    #[test]
    fn leaves_below_and_above_a_branch_are_runs() {
        let (b, l) = (Child::Branch, Child::Leaf);
        let mut forest = Forest {
            roots: vec![b(0), l(1), b(3)],
            branches: vec![
                branch(b(1), b(2)),
                branch(l(0), l(1)),
                branch(l(0), l(2)),
                branch(l(2), l(0)),
            ],
            leaves: vec![1, 2, 3],
            bias: vec![0],
        };
        let shape = ForestShape::new(&forest, 5).unwrap();
        assert_eq!(shape.ranges, [[0, 2, 4], [0, 1, 2], [2, 3, 4], [5, 6, 7]]);
        let places = [(0, 0), (0, 1), (0, 0), (0, 2), (1, 1), (2, 2), (2, 0)];
        assert_eq!(shape.places, places);
        assert_eq!(shape.firsts, [0, 4, 5]);
        assert_eq!(shape.reached(&forest, 0, |_| 3), 0);
        assert_eq!(shape.reached(&forest, 0, |_| 4), 3);
        assert_eq!(shape.reached(&forest, 1, |_| 4), 4);
        assert_eq!(shape.reached(&forest, 2, |_| 4), 6);
        // A branch that two lead to, one that nobody leads to, and none at all.
        forest.branches[0].above = b(1);
        assert_eq!(ForestShape::new(&forest, 5), None);
        forest.branches[0].above = l(1);
        assert_eq!(ForestShape::new(&forest, 5), None);
        forest.branches.clear();
        forest.roots = vec![l(0)];
        assert_eq!(ForestShape::new(&forest, 5), None);
    }
}
