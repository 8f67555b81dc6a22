//! The states after blocks above the last final one.

use tg_types::BlockId;

use super::machine::{Core, Fatal};
use super::tree::{Knowledge, Resolution};
use crate::chain::{self, Body, Executed};
use crate::limits::HEIGHT_EXECUTED_MAX;

impl Core {
    /// Executes the block named `id` and whatever lies between it and the last final block.
    pub(super) fn resolve(&mut self, id: BlockId) -> Result<Resolution, Fatal> {
        let mut above = Vec::new();
        let mut cursor = id;
        let mut parent = loop {
            if cursor == self.tip.id {
                break self.tip.clone();
            }
            if !self.load(&cursor)? {
                return Ok(Resolution::Missing(cursor));
            }
            let Some(node) = self.tree.nodes.get(&cursor) else {
                // The body is in the database at or below the final height, beside the final chain.
                return Ok(Resolution::Impossible);
            };
            match &node.knowledge {
                Knowledge::Executed(executed) => break executed.clone(),
                Knowledge::Invalid => return Ok(Resolution::Impossible),
                Knowledge::Body if node.body.height() > self.tip.height() + HEIGHT_EXECUTED_MAX => {
                    return Ok(Resolution::Ahead);
                }
                Knowledge::Body => {
                    above.push(cursor);
                    cursor = node.body.parent();
                }
            }
        };
        while let Some(next) = above.pop() {
            match self.execute(&parent, &next) {
                Some(executed) => parent = executed,
                None => return Ok(Resolution::Impossible),
            }
        }
        Ok(Resolution::Executed(parent))
    }

    fn execute(&mut self, parent: &Executed, id: &BlockId) -> Option<Executed> {
        let body = self.tree.body(id)?.clone();
        // Not invalid: this program does not know. It stops once the parent is final.
        if self.node_status.executes_after(&parent.state).is_err() {
            return None;
        }
        match chain::execute(parent, &body, self.node_status.signatures()) {
            Ok(executed) => {
                self.expect_evidence(&executed);
                self.tree.know(id, Knowledge::Executed(executed.clone()));
                Some(executed)
            }
            Err(error) => {
                tracing::warn!(%id, height = body.height(), %error, "block is invalid");
                self.tree.know(id, Knowledge::Invalid);
                None
            }
        }
    }

    /// Brings a body into the tree if it is here at all. Bodies at or below the final height stay outside.
    pub(super) fn load(&mut self, id: &BlockId) -> Result<bool, Fatal> {
        if self.tree.nodes.contains_key(id) {
            return Ok(true);
        }
        let Some(body) = self.stored(id)? else {
            return Ok(false);
        };
        if body.height() > self.tip.height() {
            self.tree.add(body, true);
        }
        Ok(true)
    }

    /// A body from the database.
    pub(super) fn stored(&self, id: &BlockId) -> Result<Option<Body>, Fatal> {
        let Some(bytes) = self.store.body(id.as_bytes())? else {
            return Ok(None);
        };
        Ok(Body::decode(&bytes).filter(|body| body.id == *id))
    }
}
