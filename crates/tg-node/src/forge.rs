//! What makes a validator propose blocks that do not hold, so that simulations see that the others refuse them. Nothing of the program has one.

use tg_ledger::{Block, State};

/// Changes blocks that a validator built, before they are proposed.
pub trait BlockForger: std::fmt::Debug + Send + Sync {
    /// What is proposed in the place of a block that was built on a state; nothing if the block stays as it is.
    fn forge(&self, parent: &State, block: &Block) -> Option<Block>;
}
