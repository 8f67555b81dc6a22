//! Final blocks become the state. Only a `Finalization` of consensus makes a block, and its ancestors, final.

use tg_types::{BlockId, TimestampMs};

use super::machine::{Core, Effect, Fatal, Target};
use super::tree::Resolution;
use crate::canary::{NodeCanary, is_armed};
use crate::chain::{self, Executed};
use crate::key::public_bytes;
use crate::limits::{CATCH_UP_BLOCKS, SENDERS_LOOKED_AT_MAX};
use crate::term::{self, SeatTerm};

/// Finalisations that may wait for missing blocks. A newer one covers the older ones.
const TARGETS_MAX: usize = 64;

impl Core {
    /// Consensus finalised a block and so all its ancestors.
    pub(crate) fn finalised(&mut self, id: BlockId, certificate: Vec<u8>) {
        if self.targets.len() == TARGETS_MAX {
            self.targets.pop_front();
        }
        self.targets.push_back(Target {
            id,
            certificate,
            path: Vec::new(),
            cursor: id,
        });
    }

    pub(super) fn finalise(&mut self, now: TimestampMs) -> Result<(), Fatal> {
        let mut budget = CATCH_UP_BLOCKS;
        while let Some(mut target) = self.targets.pop_front() {
            match self.walk(&mut target)? {
                Walk::Missing(id) => {
                    self.want(id, now);
                    self.targets.push_front(target);
                    break;
                }
                Walk::Old => {}
                Walk::Ready => {
                    self.advance(&mut target, &mut budget, now)?;
                    if self.tip.id != target.id {
                        self.targets.push_front(target);
                        self.wake_at(now);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Follows the parents of a target down to the last final block.
    fn walk(&mut self, target: &mut Target) -> Result<Walk, Fatal> {
        while target.cursor != self.tip.id {
            let known = match self.tree.body(&target.cursor) {
                Some(body) => Some((body.height(), body.parent())),
                None => self
                    .stored(&target.cursor)?
                    .map(|body| (body.height(), body.parent())),
            };
            let Some((height, parent)) = known else {
                return Ok(Walk::Missing(target.cursor));
            };
            if height <= self.tip.height() {
                return self.old(target, height);
            }
            target.path.push(target.cursor);
            target.cursor = parent;
        }
        Ok(Walk::Ready)
    }

    /// A finalisation that leads to an old height: either it repeats what is final, or it contradicts it.
    fn old(&self, target: &Target, height: u64) -> Result<Walk, Fatal> {
        let stored = self.store.block(height)?;
        let same = stored
            .and_then(|bytes| chain::Body::decode(&bytes))
            .is_some_and(|body| body.id == target.cursor);
        // After a part of the way was executed, the rest starts above the last final block.
        if same && target.path.is_empty() {
            return Ok(Walk::Old);
        }
        Err(Fatal::FaultBound {
            id: target.id,
            reason: "does not descend from the last final block",
        })
    }

    /// Executes blocks of the way, oldest first, and writes them as final in one transaction. If a body of the way is gone, the
    /// way is walked again.
    fn advance(
        &mut self,
        target: &mut Target,
        budget: &mut usize,
        now: TimestampMs,
    ) -> Result<(), Fatal> {
        let mut executed: Vec<Executed> = Vec::new();
        while *budget > 0 {
            let parent = executed.last().unwrap_or(&self.tip);
            if self.node_status.executes_after(&parent.state).is_err() {
                break;
            }
            let Some(id) = target.path.pop() else {
                break;
            };
            *budget -= 1;
            match self.resolve(id)? {
                Resolution::Executed(block) => executed.push(block),
                // A later block of the same sender took its place since the way was walked.
                Resolution::Missing(_) => {
                    target.path.clear();
                    target.cursor = target.id;
                    break;
                }
                Resolution::Ahead | Resolution::Impossible => {
                    return Err(Fatal::FaultBound {
                        id,
                        reason: "is not valid on its parent",
                    });
                }
            }
        }
        let Some(last) = executed.last().cloned() else {
            return Ok(());
        };
        if !target.path.is_empty() {
            target.cursor = last.id;
        }
        self.write(&executed, target)?;
        self.tip = last;
        self.tree.prune(self.tip.height());
        let tip = self.tip.clone();
        self.mempool.prune(
            |sender| chain::standing(&tip.state, sender),
            |prepaid| tip.state.is_owed(prepaid),
            tip.state.base_fee(),
            now,
        );
        let checked = self.node_status.signatures();
        let holds = |signed: &_| tg_ledger::check_transaction(&tip.state, signed, checked);
        self.mempool.forget_refused(SENDERS_LOOKED_AT_MAX, holds);
        self.note_dropped();
        self.expect_evidence(&tip);
        self.evidence_queue.prune(tip.height());
        self.show_seeds(now);
        for block in &executed {
            self.node_status.publish(block);
        }
        // After what is final here was told: a program of another release goes on from it.
        self.node_status.executes_after(&self.tip.state)?;
        match executed.iter().find(|block| term::ends(block)) {
            Some(last) => {
                let mut term = SeatTerm::after(last, self.epoch + 1);
                if is_armed(NodeCanary::OldSet) {
                    term.seats = self.addresses.iter().map(|(key, it)| (*key, *it)).collect();
                }
                self.enter(term)
            }
            None => Ok(()),
        }
    }

    /// Begins a term. What consensus of the old one asked is not answered any more.
    fn enter(&mut self, term: SeatTerm) -> Result<(), Fatal> {
        let seats = chain::encode_seats(self.tip.state.validators());
        self.store.enter_term(term.epoch, term.anchor, &seats)?;
        if !term.has(&self.node_status.validator()) {
            return Err(Fatal::Unseated {
                height: term.anchor.0,
            });
        }
        tracing::info!(
            epoch = term.epoch,
            height = term.anchor.0,
            validators = term.seats.len(),
            "another set of validators votes"
        );
        self.epoch = term.epoch;
        self.anchor = term.anchor.1;
        self.addresses = term.addresses();
        let me = self.node_status.validator();
        let others = term.participants();
        let others = others.iter().filter(|peer| public_bytes(peer) != me);
        self.peers = others.cloned().collect();
        self.proposals.clear();
        self.votes.clear();
        self.targets.clear();
        self.outbox.push(Effect::Turn(term));
        Ok(())
    }

    /// Whether a block is the last of the present term, so that nothing stands on it before it is final.
    pub(super) fn ends_term(&self, block: &Executed) -> bool {
        term::ends(block) && block.id != self.anchor
    }

    fn write(&mut self, executed: &[Executed], target: &Target) -> Result<(), Fatal> {
        let certified = (target.id, target.certificate.as_slice());
        self.snapshot =
            chain::write_final(&self.store, &self.tip, executed, certified, self.snapshot)?;
        Ok(())
    }
}

enum Walk {
    /// The way is complete.
    Ready,
    /// A body is missing.
    Missing(BlockId),
    /// The target is final already.
    Old,
}
