//! Validators that have no seat yet: each follows the chain, from a node that clients would ask, as the process of a newcomer does, and
//! starts to vote with its folder once its account has a seat.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tg_node::store::Location;
use tg_node::{
    Beginning, BlobStore, ChainSource, FollowedChain, NodeHandle, SourceError, SourceFuture,
};
use tg_types::chain::{ChainPage, CheckpointBlock, SeatChanges, SnapshotHead};
use tg_types::{Address, Digest, Heartbeat, SignedTransaction, TimestampMs};

use super::SimWorld;
use crate::grid::now_ms;
use crate::plan::NewcomerPlan;

/// An honest node that is asked once: what it has now.
#[derive(Debug)]
pub(super) struct AskedNode(pub(super) NodeHandle);

/// What a node gives if its database fails, which a disk in memory does not.
fn failed(error: &tg_node::StoreError) -> SourceError {
    SourceError::Unreachable(error.to_string())
}

impl ChainSource for AskedNode {
    fn name(&self) -> &str {
        "a validator"
    }

    fn page(&self, from: u64, _: Duration) -> SourceFuture<'_, ChainPage> {
        Box::pin(async move {
            let page = self.0.chain_page(from).map_err(|it| failed(&it))?;
            let missing = || SourceError::Unreachable(format!("{from} is not shown"));
            page.ok_or_else(missing)
        })
    }

    fn snapshot(&self) -> SourceFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
        Box::pin(async move { self.0.chain_snapshot().map_err(|it| failed(&it)) })
    }

    fn seat_changes(&self, above: u64) -> SourceFuture<'_, SeatChanges> {
        Box::pin(async move { self.0.seat_changes(above).map_err(|it| failed(&it)) })
    }

    fn checkpoint(&self, height: u64) -> SourceFuture<'_, Option<CheckpointBlock>> {
        Box::pin(async move { self.0.checkpoint(Some(height)).map_err(|it| failed(&it)) })
    }

    fn submit(&self, _: SignedTransaction) -> SourceFuture<'_, ()> {
        Box::pin(async { Err(SourceError::Unreachable("not asked".to_owned())) })
    }

    fn heartbeat(&self, _: Heartbeat) -> SourceFuture<'_, ()> {
        Box::pin(async { Err(SourceError::Unreachable("not asked".to_owned())) })
    }

    fn blob(&self, _: Digest, _: u64, _: Arc<BlobStore>) -> SourceFuture<'_, bool> {
        Box::pin(async { Ok(false) })
    }
}

impl SimWorld {
    /// What is due of newcomers: one begins to follow, takes what is new, or starts to vote.
    pub(crate) async fn turn_newcomers(&mut self) {
        let founders = self.grid.plan.seats.len();
        let plans = self.grid.plan.seat_changes.newcomers.clone();
        let now = now_ms(&self.context);
        for (place, plan) in plans.iter().enumerate() {
            let index = founders + place;
            let seat = &self.seats[index];
            let has_begun = seat.following.is_some() || seat.place.sat.load(Ordering::Relaxed);
            let is_due = plan.is_some_and(|it| it.at_ms <= now && !it.is_silent);
            if is_due && !has_begun && !self.is_off(index) {
                self.begin_to_follow(index).await;
            } else if self.follow(index) {
                let seat = &mut self.seats[index];
                // Its database is closed before the validator opens it.
                seat.following = None;
                seat.place.sat.store(true, Ordering::Relaxed);
                self.grid
                    .line(&self.context, "world", &format!("seat{index} has a seat"));
                self.relink().await;
                self.power_on(index).await;
            }
        }
    }

    /// A newcomer opens what it has of the chain. Its operator has the newest block as a checkpoint from whoever runs the node that is
    /// asked, since genesis may be too old.
    pub(super) async fn begin_to_follow(&mut self, index: usize) {
        let now = now_ms(&self.context);
        let Some((plan, node)) = self
            .asked(index)
            .filter(|(it, _)| it.at_ms <= now && !it.is_silent)
        else {
            return;
        };
        let checkpoint = node.checkpoint(None).ok().flatten();
        let checkpoint = checkpoint.map(|it| it.checkpoint());
        let seat = &self.seats[index];
        let beginning = Beginning {
            genesis: &self.genesis,
            validator: Some(seat.key.public()),
            location: Location::Disk(&seat.disk),
            snapshot: plan.snapshot,
            checkpoint: checkpoint.filter(|it| it.height.get() > 0),
            now: TimestampMs::new(now),
            speaks: seat.speaks,
        };
        let sources: [Arc<dyn ChainSource>; 1] = [Arc::new(AskedNode(node))];
        match FollowedChain::open(beginning, &sources).await {
            Ok(chain) => {
                let height = chain.state().head().height.get();
                let what = format!("seat{index} follows from {height}");
                self.grid.line(&self.context, "world", &what);
                self.seats[index].following = Some(chain);
            }
            Err(error) => self.stopped(index, &tg_types::with_sources(&error)),
        }
    }

    /// Takes what the node that a newcomer asks has; whether the newcomer has a seat.
    fn follow(&mut self, index: usize) -> bool {
        let Some((_, node)) = self.asked(index) else {
            return false;
        };
        let seat = &mut self.seats[index];
        let Some(chain) = &mut seat.following else {
            return false;
        };
        let next = chain.state().head().height.get() + 1;
        // Of blocks that were fetched from others only some are shown to be final: another turn shows more.
        let Ok(Some(page)) = node.chain_page(next) else {
            return false;
        };
        if let Err(error) = chain.follow(&page) {
            let what = tg_types::with_sources(&error);
            self.stopped(index, &what);
            return false;
        }
        let has_seat = chain.state().seat_of(&seat.account.address()).is_some();
        has_seat && chain.can_begin_consensus().unwrap_or(false)
    }

    /// A newcomer's plan, and the honest node that it asks.
    fn asked(&self, index: usize) -> Option<(NewcomerPlan, NodeHandle)> {
        let place = index.checked_sub(self.grid.plan.seats.len())?;
        let plan = (*self.grid.plan.seat_changes.newcomers.get(place)?)?;
        let node = self.grid.gateway(plan.gateway, now_ms(&self.context))?;
        Some((plan, node))
    }

    fn stopped(&mut self, index: usize, what: &str) {
        self.seats[index].following = None;
        let what = format!("seat{index} stops following: {what}");
        let at = now_ms(&self.context);
        self.grid.checks().violated("stopped", at, what);
    }

    /// Whether the last block that anybody has leaves a validator without a seat.
    pub(super) fn is_unseated(&self, index: usize) -> bool {
        let address = self.seats[index].account.address();
        let checks = self.grid.checks();
        let last = checks.last.as_ref();
        last.is_some_and(|state| state.seat_of(&address).is_none())
    }

    /// Validators that stopped because they have no seat, although they have one.
    pub(crate) fn wrongly_unseated(&self) -> Vec<usize> {
        let over = |index: &usize| self.seats[*index].place.is_over.load(Ordering::Relaxed);
        let stopped = (0..self.seats.len()).filter(over);
        stopped.filter(|index| !self.is_unseated(*index)).collect()
    }

    /// Newcomers that do not vote yet, and founders that are to leave and have not, by the last block; bonds that are not back.
    pub(crate) fn seats_to_change(&self) -> usize {
        let plan = &self.grid.plan.seat_changes;
        let founders = self.grid.plan.seats.len();
        let checks = self.grid.checks();
        let Some(state) = &checks.last else {
            return plan.newcomers.len() + plan.leavers.len();
        };
        let address = |index: usize| -> Address { self.seats[index].account.address() };
        let has_led = |index: usize| {
            let seat = state.seat_of(&address(index)).map(usize::from);
            let seat = seat.and_then(|it| state.seats().seats.get(it));
            seat.is_some_and(|it| !it.is_new)
        };
        let newcomers = plan.newcomers.iter().enumerate();
        let waiting = newcomers.filter(|(index, it)| match it {
            Some(plan) if plan.is_silent => state.seat_of(&address(founders + index)).is_none(),
            Some(_) => !has_led(founders + index),
            None => false,
        });
        let leavers = plan.leavers.iter().flatten();
        let sitting = leavers.filter(|it| state.seat_of(&address(it.seat)).is_some());
        waiting.count() + sitting.count() + state.seats().unbonding.len()
    }
}
