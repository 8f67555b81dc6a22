//! Pages become the state: each block is shown to be final, stands on the one before, and is executed.

use std::sync::Arc;

use tg_ledger::State;
use tg_types::chain::{
    AnswerError, BlockHeader, ChainPage, Checkpoint, CheckpointBlock, CheckpointError,
    FinalityCertificate, HeadTooOld, NetworkTrust, SeatChanges, SnapshotHead, TrustRoot,
};
use tg_types::{BlockId, DurationMs, Encode as _, TimestampMs};

use super::source::SourceError;
use crate::chain::{self, Body, Executed, LastSnapshot};
use crate::core::Fatal;
use crate::handle::NodeStatus;
use crate::open;
use crate::store::{FinalBlock, OpenError, Store, StoreError};
use crate::term;

/// Why a page or a snapshot is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nothing shows that its last block is final.
    #[error("its last block is not shown to be final")]
    NotFinal(#[from] AnswerError),
    /// A block is malformed, or its body is not the one that its header commits to.
    #[error("block {place} is malformed")]
    Malformed {
        /// Its place in the page.
        place: usize,
    },
    /// A block is not the parent of the one after it, the last one is not the one that is shown, or blocks before it are missing.
    #[error("block {place} is not the one that should stand there")]
    Gap {
        /// Its place in the page.
        place: usize,
    },
    /// The state is not the one that the block leads to.
    #[error("the state is not that of its block")]
    State,
    /// The source does not say how the validators changed.
    #[error("the source does not say how the set of validators changed")]
    Source(#[from] SourceError),
    /// The chain is not that of the checkpoint.
    #[error("the chain is not that of the checkpoint")]
    Checkpoint(#[from] CheckpointError),
    /// The change of the set of validators could not be kept.
    #[error("keep the new set of validators")]
    Term(#[source] Box<OpenError>),
    /// This node must stop.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self::Fatal(error.into())
    }
}

/// Whom to trust for a block of a height, by the changes since genesis that a source shows, and those changes.
pub(super) type Learnt = (TrustRoot, Vec<(u64, Vec<u8>)>);

/// Follows changes of the set of validators, as long as they are before `height`.
pub(super) fn learn(
    (root, known): &mut Learnt,
    changes: &SeatChanges,
    height: u64,
) -> Result<bool, PageError> {
    for change in &changes.0 {
        let (next, at) = root.after(change)?;
        // Stops: a list that goes in circles.
        if at >= height || known.last().is_some_and(|(last, _)| at <= *last) {
            return Ok(false);
        }
        known.push((at, change.to_bytes()));
        *root = next;
    }
    Ok(!changes.0.is_empty())
}

/// A checkpoint that the chain must come to: what is below it is executed, and believed once it is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedCheckpoint {
    /// The block that somebody vouches for.
    pub(super) block: Checkpoint,
    /// When this node began to follow, by its own clock.
    pub(super) now: TimestampMs,
    /// How old a block may be to follow the chain from.
    pub(super) period: DurationMs,
}

impl AwaitedCheckpoint {
    /// Whether blocks, if the checkpoint's height is among them, are of its chain.
    fn check(&self, bodies: &[Body]) -> Result<(), CheckpointError> {
        let Self { block, now, period } = self;
        let Some(body) = bodies.iter().find(|it| it.height() == block.height.get()) else {
            return Ok(());
        };
        // Stops: a chain that seats signed whose bonds are returned.
        if body.id != block.block {
            return Err(CheckpointError::Block {
                height: block.height,
                expected: block.block,
                got: body.id,
            });
        }
        let header = &body.block.header;
        HeadTooOld::check((header.height, header.timestamp), *now, *period)?;
        Ok(())
    }

    /// The set that votes after it, by what a source says of it.
    pub(super) fn root(
        &self,
        trust: &NetworkTrust,
        told: &CheckpointBlock,
    ) -> Result<TrustRoot, CheckpointError> {
        let head = trust.begin_at(&self.block, told)?;
        head.check_age(self.now, self.period)?;
        Ok(head.root().clone())
    }
}

/// The chain as far as it was followed: on disk, without the loops around it. [`super::Follower`] asks for pages and takes them.
#[derive(Debug)]
pub struct FollowedChain {
    pub(super) root: TrustRoot,
    pub(super) store: Arc<Store>,
    pub(super) tip: Executed,
    pub(super) snapshot: LastSnapshot,
    /// The checkpoint that is still above, and what is too old to be one.
    pub(super) awaited: Option<AwaitedCheckpoint>,
    pub(super) node_status: Arc<NodeStatus>,
}

impl FollowedChain {
    /// The state after the newest block.
    #[must_use]
    pub const fn state(&self) -> &Arc<State> {
        &self.tip.state
    }

    /// Whether consensus could begin with what is here ([`crate::NodeHandle::can_begin_consensus`]).
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn can_begin_consensus(&self) -> Result<bool, StoreError> {
        let since = self.tip.state.seats().since.get();
        self.store.can_begin_consensus(since)
    }

    /// Takes a page as [`super::Follower`] does; the height that is there afterwards.
    ///
    /// # Errors
    /// [`PageError`]; nothing of the page is kept then.
    pub fn follow(&mut self, page: &ChainPage) -> Result<u64, PageError> {
        self.take(page)?;
        Ok(self.tip.height())
    }

    /// Executes the blocks of a page, keeps them and gives them back. Those that are final here already are left out, so that two
    /// pages may overlap. After an error nothing of the page is kept.
    pub(super) fn take(&mut self, page: &ChainPage) -> Result<Vec<Executed>, PageError> {
        let bodies = linked(&self.root, page)?;
        if let Some(awaited) = &self.awaited {
            awaited.check(&bodies)?;
        }
        let mut executed: Vec<Executed> = Vec::new();
        for body in &bodies {
            let parent = executed.last().unwrap_or(&self.tip);
            if body.height() <= parent.height() {
                continue;
            }
            if body.height() > parent.height() + 1 {
                return Err(PageError::Gap { place: 0 });
            }
            let known = self.node_status.executes_after(&parent.state);
            known.map_err(Fatal::from)?;
            // Shown to be final, and so is the parent here: one of them should not be.
            let broken = |reason| Fatal::FaultBound {
                id: body.id,
                reason,
            };
            if body.parent() != parent.id {
                return Err(broken("does not descend from the last final block").into());
            }
            let next = chain::execute(parent, body, self.node_status.signatures())
                .map_err(|_| broken("is not valid on its parent"))?;
            executed.push(next);
        }
        let (Some(newest), Some(last)) = (executed.last().cloned(), bodies.last()) else {
            return Ok(Vec::new());
        };
        // The certificate is that of the first header, which may be a block after the page.
        let certified = page.proof.headers.first().map_or(last.id, BlockHeader::id);
        let certificate = (certified, page.proof.certificate.as_slice());
        self.snapshot = chain::write_final(
            &self.store,
            &self.tip,
            &executed,
            certificate,
            self.snapshot,
        )?;
        self.tip = newest;
        let height = self.tip.height();
        self.awaited = self
            .awaited
            .take()
            .filter(|it| it.block.height.get() > height);
        if executed.iter().any(term::ends) {
            self.root = self.tip.state.trust_root().map_err(AnswerError::from)?;
            let genesis = self.root.genesis();
            open::present_term(&self.store, &self.tip, genesis)
                .map_err(|error| PageError::Term(Box::new(error)))?;
        }
        Ok(executed)
    }
}

/// The blocks of a page, each the parent of the next, the last of them shown to be final: so all of them are.
fn linked(root: &TrustRoot, page: &ChainPage) -> Result<Vec<Body>, PageError> {
    if page.blocks.is_empty() {
        return Ok(Vec::new());
    }
    // Stops: blocks that no quorum signed.
    let mut expected = page.proof.check(root)?.id();
    let mut bodies = Vec::with_capacity(page.blocks.len());
    for (place, bytes) in page.blocks.iter().enumerate().rev() {
        let body = Body::decode(&bytes.0).ok_or(PageError::Malformed { place })?;
        // Stops: a block that is not the one that the headers, or the block after it, lead to.
        if body.id != expected {
            return Err(PageError::Gap { place });
        }
        expected = body.parent();
        bodies.push(body);
    }
    bodies.reverse();
    Ok(bodies)
}

/// Writes a state to begin at into an empty store.
pub(super) fn begin_at(
    store: &Store,
    (root, changes): &Learnt,
    head: &SnapshotHead,
    state: &[u8],
) -> Result<u64, PageError> {
    let shown = head.proof.check(root)?;
    let body = Body::decode(&head.block.0).ok_or(PageError::Malformed { place: 0 })?;
    // Stops: a block that no quorum signed, with a state of the source's choice.
    if body.id != shown.id() {
        return Err(PageError::Gap { place: 0 });
    }
    // Stops: balances of the source's choice.
    let Some(restored) = chain::restore(&body, state) else {
        return Err(PageError::State);
    };
    let certificate = FinalityCertificate::read(&head.proof.certificate);
    let epoch = certificate.map_err(AnswerError::from)?.finality.epoch;
    if !changes.is_empty() {
        // The block at which the term began is not here: consensus would begin at a certificate of it.
        let since = restored.state.seats().since.get();
        let seats = chain::encode_seats(restored.state.validators());
        let (epoch, anchor) = match term::ends(&restored) {
            true => (epoch + 1, restored.id),
            false => (epoch, BlockId::default()),
        };
        store.put_changes(changes)?;
        store.enter_term(epoch, (since, anchor), &seats)?;
    }
    let is_certified = head.proof.headers.len() == 1;
    let block = FinalBlock {
        height: body.height(),
        id: *body.id.as_bytes(),
        bytes: head.block.0.clone(),
        certificate: is_certified.then(|| head.proof.certificate.clone()),
    };
    store.finalise(&[block], Some(state))?;
    Ok(body.height())
}
