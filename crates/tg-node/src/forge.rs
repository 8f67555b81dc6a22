//! A hook with which simulations make a validator propose invalid blocks, to test that the others refuse them. The program
//! never sets it.

use tg_ledger::{Block, State};

/// Changes blocks that a validator built, before they are proposed.
pub trait BlockForger: std::fmt::Debug + Send + Sync {
    /// What is proposed in the place of a block that was built on a state; nothing if the block stays as it is.
    fn forge(&self, parent: &State, block: &Block) -> Option<Block>;
}
