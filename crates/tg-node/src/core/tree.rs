//! The tree of blocks above the last final one.

use std::collections::BTreeMap;

use tg_types::BlockId;

use crate::chain::{self, Body, Executed};
use crate::limits::BODIES_PER_PROPOSER_MAX;

/// What is known of a block.
#[derive(Debug)]
pub(super) enum Knowledge {
    /// Its body only.
    Body,
    /// It is valid on its parent.
    Executed(Executed),
    /// It is not valid on its parent, for ever.
    Invalid,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) body: Body,
    pub(super) knowledge: Knowledge,
    /// Whether the database has the body.
    pub(super) durable: bool,
    /// Who sent it unasked; counted against that sender.
    pub(super) sender: Option<[u8; 32]>,
}

/// Blocks that are not final.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<BlockId, Node>,
}

/// What a block's name leads to.
#[derive(Debug)]
pub(super) enum Resolution {
    /// The block was executed and is valid.
    Executed(Executed),
    /// This block, the one asked for or an ancestor of it, is not here.
    Missing(BlockId),
    /// The block is too far above the last final one to be executed now.
    Ahead,
    /// The block can never be part of the chain.
    Impossible,
}

impl Tree {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn body(&self, id: &BlockId) -> Option<&Body> {
        self.nodes.get(id).map(|node| &node.body)
    }

    /// Adds a body that nobody has voted for, which a peer sent, within that peer's share; none that is further above the last final height
    /// than `ahead`.
    pub(super) fn add_of(&mut self, body: Body, sender: [u8; 32], (tip, ahead): (u64, u64)) {
        let height = body.height();
        if height <= tip || height - tip > ahead || self.nodes.contains_key(&body.id) {
            return;
        }
        let mut of_sender: Vec<(u64, BlockId)> = self
            .nodes
            .values()
            .filter(|node| node.sender == Some(sender))
            .map(|node| (node.body.height(), node.body.id))
            .collect();
        if of_sender.len() >= BODIES_PER_PROPOSER_MAX {
            of_sender.sort_unstable();
            self.nodes.remove(&of_sender[0].1);
        }
        self.insert(body, Some(sender), false);
    }

    /// Forgets a body that is not on disk and was not executed.
    pub(super) fn forget(&mut self, id: &BlockId) {
        let is_nothing = |it: &Node| !it.durable && matches!(it.knowledge, Knowledge::Body);
        if self.nodes.get(id).is_some_and(is_nothing) {
            self.nodes.remove(id);
        }
    }

    /// Adds a body that was asked for, or read from the database.
    pub(super) fn add(&mut self, body: Body, durable: bool) {
        if !self.nodes.contains_key(&body.id) {
            self.insert(body, None, durable);
        }
    }

    /// Adds a block of this validator, executed as it was built.
    pub(super) fn add_executed(&mut self, executed: Executed) {
        self.insert(Body::from(&executed), None, true);
        self.know(&executed.id.clone(), Knowledge::Executed(executed));
    }

    /// Forgets blocks at or below the last final height.
    pub(super) fn prune(&mut self, tip: u64) {
        self.nodes.retain(|_, node| node.body.height() > tip);
    }

    /// Marks a body as durable and no longer on its sender's account. Returns its bytes if they must be written.
    pub(super) fn take_unwritten(&mut self, id: &BlockId) -> Option<(u64, Vec<u8>)> {
        let node = self.nodes.get_mut(id)?;
        node.sender = None;
        if std::mem::replace(&mut node.durable, true) {
            return None;
        }
        Some((node.body.height(), chain::encode(&node.body.block)))
    }

    pub(super) fn insert(&mut self, body: Body, sender: Option<[u8; 32]>, durable: bool) {
        self.nodes.insert(
            body.id,
            Node {
                body,
                knowledge: Knowledge::Body,
                durable,
                sender,
            },
        );
    }

    pub(super) fn know(&mut self, id: &BlockId, knowledge: Knowledge) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.knowledge = knowledge;
        }
    }
}
