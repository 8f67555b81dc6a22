//! Gateways: each starts, loses power and starts again as the plan says, and follows the chain from whatever seat has it.
//!
//! Pages come over the links between validators, as they are at the place of the validator beside which it stands. What else it asks once
//! when it starts, a checkpoint and a snapshot, is of a validator that clients would ask: its operator's.

use std::sync::Arc;

use tg_node::follow::PageError;
use tg_node::store::{Location, MemoryDisk};
use tg_node::{Beginning, ChainSource, Fatal, FollowedChain, NodeHandle, OpenError};
use tg_types::chain::{ChainPage, CheckpointError};
use tg_types::{TimestampMs, with_sources};

use super::SimWorld;
use super::newcomers::AskedNode;
use crate::gateways::PageRequest;
use crate::grid::now_ms;
use crate::plan::{GatewayPlan, SeatRole};

impl SimWorld {
    /// What is due of gateways: one loses power, starts, or does the next step of what it asks.
    pub(crate) async fn turn_gateways(&mut self) {
        let plans = self.grid.plan.gateways.clone();
        let now = now_ms(&self.context);
        for (index, plan) in plans.iter().enumerate() {
            let Some(plan) = plan.as_ref().filter(|it| it.at_ms <= now) else {
                continue;
            };
            let (cut_at, cut_ms) = plan.power_cut;
            if cut_at <= now && !self.gateways[index].was_cut {
                self.cut_gateway(index, plan);
            }
            if (cut_at..cut_at + cut_ms).contains(&now) {
                continue;
            }
            let gateway = &self.gateways[index];
            if gateway.chain.is_some() {
                self.ask_for_blocks(index, plan, now);
            } else if gateway.rests_until_ms <= now {
                self.start_gateway(index, plan, now).await;
            }
        }
    }

    /// A gateway loses power, and something of its disk.
    fn cut_gateway(&mut self, index: usize, plan: &GatewayPlan) {
        let gateway = &mut self.gateways[index];
        let height = gateway.height().unwrap_or(0);
        gateway.close(0);
        gateway.was_cut = true;
        gateway.disk = match plan.loses_chain {
            true => MemoryDisk::default(),
            false => gateway.disk.after_power_cut(),
        };
        self.grid.unfollowed(index);
        let lost = match plan.loses_chain {
            true => "chain-lost",
            false => "power-cut",
        };
        let what = format!("gateway{index} off at height {height}, {lost}");
        self.grid.line(&self.context, "world", &what);
    }

    /// A gateway opens what it has of the chain. Its operator has the newest block as a checkpoint from whoever runs the node that clients
    /// would ask, since what is on its disk may be too old.
    async fn start_gateway(&mut self, index: usize, plan: &GatewayPlan, now: u64) {
        let Some(node) = self.grid.gateway(plan.beside, now) else {
            return;
        };
        let told = node.checkpoint(None).ok().flatten();
        let checkpoint = told.map(|it| it.checkpoint());
        let gateway = &self.gateways[index];
        let beginning = Beginning {
            genesis: &self.genesis,
            validator: None,
            location: Location::Disk(&gateway.disk),
            snapshot: plan.snapshot,
            checkpoint: checkpoint.filter(|it| it.height.get() > 0),
            now: TimestampMs::new(now),
            speaks: gateway.speaks,
        };
        let sources: [Arc<dyn ChainSource>; 1] = [Arc::new(AskedNode(node))];
        let opened = FollowedChain::open(beginning, &sources).await;
        let gateway = &mut self.gateways[index];
        match opened {
            Ok(chain) => {
                let height = chain.state().head().height.get();
                gateway.chain = Some(chain);
                let what = format!("gateway{index} follows from {height}");
                self.grid.line(&self.context, "world", &what);
                self.show_followed(index);
            }
            // All validators stand still for so long that nobody has a block that is young enough: it is started again.
            Err(error @ OpenError::Old(_)) => {
                gateway.close(now);
                let what = format!("gateway{index} does not start: {}", with_sources(&error));
                self.grid.line(&self.context, "world", &what);
            }
            // It is started again with the new release.
            Err(error @ OpenError::Protocol(_)) => {
                gateway.close(now);
                gateway.speaks += 1;
                let what = format!("gateway{index} does not start: {error}");
                self.grid.line(&self.context, "world", &what);
            }
            Err(error) => {
                let what = with_sources(&error);
                self.gateway_failed(index, now, &what);
            }
        }
    }

    /// The next step of what a gateway asks: it asks a seat, the seat answers, the answer is taken; all of them if all are due.
    fn ask_for_blocks(&mut self, index: usize, plan: &GatewayPlan, now: u64) {
        let jitter_ms = self.grid.plan.links.jitter_ms;
        let gateway = &self.gateways[index];
        let idle = gateway.request == PageRequest::Idle;
        if let Some(seat) = gateway.source(self.seats.len(), now).filter(|_| idle) {
            let way = self.way(plan.beside, seat);
            self.gateways[index].ask(seat, now, way, jitter_ms);
        }
        if let Some((seat, heard_ms)) = self.gateways[index].heard(now) {
            let page = self.page_of(index, seat);
            let way = self.way(seat, plan.beside);
            self.gateways[index].answered((seat, heard_ms), page, way, jitter_ms);
        }
        if let Some((seat, page)) = self.gateways[index].arrived(now) {
            self.take_page(index, seat, &page);
        }
    }

    /// What a seat gives a gateway that asks it for the block after its newest; nothing if nobody answers there.
    fn page_of(&mut self, index: usize, seat: usize) -> Option<ChainPage> {
        let next = self.gateways[index].height()? + 1;
        let node = self.answering(seat)?;
        // Of blocks that were fetched from others only some are shown to be final: another seat may show more.
        let page = node.chain_page(next).ok()?;
        let mut page = page.unwrap_or_else(|| ChainPage::empty(0));
        if self.seats[seat].role != SeatRole::Honest {
            self.gateways[index].damage(&mut page);
        }
        Some(page)
    }

    /// The node that answers for a seat, if one does. Hostile ones answer while they run, whatever else they do.
    fn answering(&self, seat: usize) -> Option<NodeHandle> {
        if self.seats[seat].role != SeatRole::Honest {
            return self.seats[seat].node.clone();
        }
        let mut nodes = self.grid.nodes().into_iter();
        let node = nodes.find(|(it, _)| *it == seat);
        node.map(|(_, node)| node)
    }

    /// A gateway takes a page, or refuses it.
    fn take_page(&mut self, index: usize, seat: usize, page: &ChainPage) {
        let now = now_ms(&self.context);
        let gateway = &mut self.gateways[index];
        let before = gateway.height();
        let Some(chain) = &mut gateway.chain else {
            return;
        };
        match chain.follow(page) {
            Ok(height) if Some(height) > before => {
                gateway.gave(seat);
                self.show_followed(index);
            }
            Ok(_) => gateway.leaves(seat),
            Err(error) => self.page_refused((index, seat), &error, now),
        }
    }

    /// A gateway does not take a page: it asks another seat, or stops, as that of production does.
    fn page_refused(&mut self, (index, seat): (usize, usize), error: &PageError, now: u64) {
        let why = with_sources(error);
        let gateway = &mut self.gateways[index];
        match error {
            // It is started again with the new release.
            PageError::Fatal(Fatal::Protocol(_)) => {
                gateway.close(now);
                gateway.speaks += 1;
                self.grid.unfollowed(index);
            }
            // What its operator named was too old already: it is started again with a newer one.
            PageError::Checkpoint(CheckpointError::Old(_)) => {
                gateway.close(now);
                self.grid.unfollowed(index);
            }
            PageError::Fatal(_) | PageError::Checkpoint(_) | PageError::Term(_) => {
                self.gateway_failed(index, now, &why);
            }
            _ if self.seats[seat].role == SeatRole::Honest => {
                let what = format!("it refuses what seat{seat} gives: {why}");
                self.gateway_failed(index, now, &what);
            }
            _ => gateway.failed(seat, now),
        }
        let what = format!("gateway{index} takes nothing of seat{seat}: {why}");
        self.grid.line(&self.context, "world", &what);
    }

    fn gateway_failed(&mut self, index: usize, now: u64, what: &str) {
        self.gateways[index].close(now);
        self.grid.unfollowed(index);
        let what = format!("gateway{index} stops: {what}");
        self.grid.checks().violated("stopped", now, what);
    }

    /// A gateway shows the state that it has to whoever asks it, and to the checks.
    fn show_followed(&self, index: usize) {
        if let Some(chain) = &self.gateways[index].chain {
            let state = Arc::clone(chain.state());
            self.grid.followed(&self.context, index, state);
        }
    }

    /// Gateways that have not come to a height.
    pub(crate) fn gateways_behind(&self, height: u64) -> Vec<usize> {
        let plans = self.grid.plan.gateways.iter().enumerate();
        let planned = plans.filter(|(_, it)| it.is_some());
        let behind = |index: &usize| self.gateways[*index].height() < Some(height);
        planned.map(|(index, _)| index).filter(behind).collect()
    }
}
