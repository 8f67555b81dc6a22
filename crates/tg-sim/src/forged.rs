//! Blocks that hostile leaders proposed and that do not hold, as the checks know them.

use std::collections::BTreeMap;

use tg_types::BlockId;

/// A block that does not hold, and who proposed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForgedBlock {
    /// The seat.
    pub(crate) seat: usize,
    /// The height for which it was built.
    pub(crate) height: u64,
    /// When, in milliseconds of the run.
    pub(crate) at_ms: u64,
    /// What is wrong with it.
    pub(crate) how: &'static str,
}

/// Those for whose height no block is final yet.
#[derive(Debug, Default)]
pub(crate) struct ForgedBlocks(BTreeMap<BlockId, ForgedBlock>);

impl ForgedBlocks {
    /// One is proposed.
    pub(crate) fn add(&mut self, id: BlockId, forged: ForgedBlock) {
        self.0.insert(id, forged);
    }

    /// One of this name, if it is one.
    pub(crate) fn get(&self, id: &BlockId) -> Option<ForgedBlock> {
        self.0.get(id).copied()
    }

    /// One that a message of consensus names: a vote has the name of its block, one to skip a view has none.
    pub(crate) fn named_in(&self, message: &[u8]) -> Option<(BlockId, ForgedBlock)> {
        let is_named = |id: &BlockId| message.windows(32).any(|it| it == id.as_bytes());
        let named = self.0.iter().find(|(id, _)| is_named(id));
        named.map(|(id, forged)| (*id, *forged))
    }

    /// Takes those out in the place of which another block is final, once one of this height is.
    pub(crate) fn take_refused(&mut self, height: u64) -> Vec<(BlockId, ForgedBlock)> {
        let is_past = |_: &BlockId, it: &mut ForgedBlock| it.height <= height;
        self.0.extract_if(.., is_past).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_block_is_known_in_a_vote_until_its_height_is_final() {
        let mut all = ForgedBlocks::default();
        let id = BlockId::new([7; 32]);
        let forged = ForgedBlock {
            seat: 3,
            height: 5,
            at_ms: 900,
            how: "wrong root",
        };
        all.add(id, forged);
        assert_eq!(all.get(&id), Some(forged));
        let vote = [&[0, 9][..], &[7; 32][..], &[1; 64][..]].concat();
        assert_eq!(all.named_in(&vote), Some((id, forged)));
        assert_eq!(all.named_in(&[7; 31]), None);
        assert_eq!(all.take_refused(4), []);
        assert_eq!(all.take_refused(5), [(id, forged)]);
        assert_eq!(all.named_in(&vote), None);
    }
}
