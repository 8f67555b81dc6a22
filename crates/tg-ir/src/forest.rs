//! Decision trees: the sum over trees of the leaf an input falls into.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Most branches of all trees of a node.
pub const BRANCHES_MAX: usize = 1 << 20;
/// Most leaf values of all trees of a node.
pub const LEAF_VALUES_MAX: usize = 1 << 22;
/// Most trees.
pub const TREES_MAX: usize = 1 << 14;

/// Most branches that an input may pass in all trees together.
pub const STEPS_MAX: u64 = 1 << 22;

/// Where a branch leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// Another branch, of a greater index than the one that leads to it.
    Branch(u32),
    /// A leaf.
    Leaf(u32),
}

/// One decision: `x[feature] <= threshold` goes to `below`, else to `above`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Input channel.
    pub feature: u16,
    /// Greatest value that goes below.
    pub threshold: i16,
    /// Where it goes then.
    pub below: Child,
    /// Where it goes otherwise.
    pub above: Child,
}

/// Trees whose leaves hold one value per output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    /// The root of each tree.
    pub roots: Vec<Child>,
    /// Branches of all trees.
    pub branches: Vec<Branch>,
    /// `[leaf][output]`.
    pub leaves: Vec<i32>,
    /// Added once per output; as many as outputs.
    pub bias: Vec<i32>,
}

impl Forest {
    /// Outputs.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// How many branches an input passes in all trees together, at most: several may lead to one branch. Branches must not lead back.
    pub(crate) fn steps(&self) -> u64 {
        let mut below = vec![0_u64; self.branches.len()];
        let of = |below: &[u64], child: Child| match child {
            Child::Leaf(_) => 0,
            Child::Branch(branch) => below[branch as usize],
        };
        for (index, branch) in self.branches.iter().enumerate().rev() {
            below[index] = 1 + of(&below, branch.below).max(of(&below, branch.above));
        }
        self.roots.iter().map(|&root| of(&below, root)).sum()
    }

    /// Whether all references are inside, no branch leads back, features are below `features`, and an input passes few enough branches.
    #[must_use]
    pub fn is_valid(&self, features: usize) -> bool {
        let outputs = self.outputs();
        if outputs == 0 || self.roots.is_empty() || !self.leaves.len().is_multiple_of(outputs) {
            return false;
        }
        let leaves = self.leaves.len() / outputs;
        let inside = |child: Child, from: usize| match child {
            Child::Branch(index) => (from..self.branches.len()).contains(&(index as usize)),
            Child::Leaf(index) => (index as usize) < leaves,
        };
        self.roots.iter().all(|&root| inside(root, 0))
            && self.branches.iter().enumerate().all(|(index, branch)| {
                usize::from(branch.feature) < features
                    && inside(branch.below, index + 1)
                    && inside(branch.above, index + 1)
            })
            && self.steps() <= STEPS_MAX
    }

    /// The leaf of one tree that an input falls into.
    #[must_use]
    pub fn leaf(&self, tree: usize, input: impl Fn(usize) -> i32) -> usize {
        let mut at = self.roots[tree];
        loop {
            match at {
                Child::Leaf(leaf) => return leaf as usize,
                Child::Branch(index) => {
                    let branch = &self.branches[index as usize];
                    let below = input(usize::from(branch.feature)) <= i32::from(branch.threshold);
                    at = if below { branch.below } else { branch.above };
                }
            }
        }
    }

    /// The greatest absolute value any output can take, not tight: leaves are counted once per tree.
    #[must_use]
    pub fn magnitude(&self) -> i64 {
        let greatest = |values: &[i32]| values.iter().map(|value| i64::from(*value).abs()).max();
        let trees = i64::try_from(self.roots.len()).unwrap_or(i64::MAX);
        trees
            .saturating_mul(greatest(&self.leaves).unwrap_or(0))
            .saturating_add(greatest(&self.bias).unwrap_or(0))
    }
}

impl Encode for Child {
    fn encode(&self, writer: &mut Writer) {
        let (tag, index) = match *self {
            Self::Branch(index) => (0, index),
            Self::Leaf(index) => (1, index),
        };
        writer.u8(tag);
        writer.u32(index);
    }
}

impl Decode for Child {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Branch(reader.u32()?)),
            1 => Ok(Self::Leaf(reader.u32()?)),
            other => Err(DecodeError::Invalid {
                field: "tree child",
                value: u64::from(other),
            }),
        }
    }
}

impl Encode for Branch {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            feature,
            threshold,
            below,
            above,
        } = *self;
        writer.u16(feature);
        writer.u16(threshold.cast_unsigned());
        below.encode(writer);
        above.encode(writer);
    }
}

impl Decode for Branch {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            feature: reader.u16()?,
            threshold: reader.u16()?.cast_signed(),
            below: Child::decode(reader)?,
            above: Child::decode(reader)?,
        })
    }
}

impl Encode for Forest {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            roots,
            branches,
            leaves,
            bias,
        } = self;
        writer.seq(roots);
        writer.seq(branches);
        for list in [leaves, bias] {
            writer.count(list.len());
            list.iter().for_each(|&value| writer.i32(value));
        }
    }
}

impl Decode for Forest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let roots = reader.seq("trees", TREES_MAX, 5)?;
        let branches = reader.seq("branches", BRANCHES_MAX, 14)?;
        let mut list = |field, limit| {
            let count = reader.count(field, limit, 4)?;
            (0..count)
                .map(|_| reader.i32())
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            roots,
            branches,
            leaves: list("leaf values", LEAF_VALUES_MAX)?,
            bias: list("tree outputs", crate::shape::AXIS_MAX as usize)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stump() -> Forest {
        Forest {
            roots: vec![Child::Branch(0), Child::Leaf(1)],
            branches: vec![Branch {
                feature: 1,
                threshold: -3,
                below: Child::Leaf(0),
                above: Child::Leaf(1),
            }],
            leaves: vec![10, -20],
            bias: vec![1],
        }
    }

    /// Stops: a file of megabytes that takes every validator minutes to run, as many trees share one long way down.
    #[test]
    fn trees_that_share_a_long_way_are_counted_as_often_as_they_take_it() {
        let long = |length: u32, trees: usize| Forest {
            roots: vec![Child::Branch(0); trees],
            branches: (1..=length)
                .map(|next| Branch {
                    feature: 0,
                    threshold: 0,
                    below: Child::Leaf(0),
                    above: match next == length {
                        true => Child::Leaf(0),
                        false => Child::Branch(next),
                    },
                })
                .collect(),
            leaves: vec![1],
            bias: vec![0],
        };
        assert_eq!(stump().steps(), 1);
        assert_eq!(long(1_000, 30).steps(), 30_000);
        assert!(long(1 << 12, 1 << 10).is_valid(1));
        assert!(!long((1 << 12) + 1, 1 << 10).is_valid(1));
    }

    #[test]
    fn the_threshold_itself_goes_below() {
        let forest = stump();
        assert_eq!(forest.leaf(0, |feature| [0, -3][feature]), 0);
        assert_eq!(forest.leaf(0, |feature| [0, -2][feature]), 1);
        assert_eq!(forest.leaf(1, |_| 0), 1);
        assert_eq!(forest.magnitude(), 41);
    }

    #[test]
    fn loops_and_missing_parts_are_refused() {
        assert!(stump().is_valid(2));
        assert!(!stump().is_valid(1));
        let mut looping = stump();
        looping.branches[0].above = Child::Branch(0);
        assert!(!looping.is_valid(2));
        let mut missing = stump();
        missing.roots[0] = Child::Leaf(2);
        assert!(!missing.is_valid(2));
        let mut ragged = stump();
        ragged.bias = vec![0, 0, 0];
        assert!(!ragged.is_valid(2));
    }
}
