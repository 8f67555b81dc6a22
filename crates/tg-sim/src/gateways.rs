//! A gateway: a node without a vote that follows the chain on a disk of its own, page by page, from seats of which some may be hostile.
//!
//! The chain is that of production ([`FollowedChain`]); which seat is asked, and how long an answer takes, is decided here, as the loops of
//! production count with the clock of the process and not with that of the run.

use std::collections::BTreeMap;

use tg_ledger::PROTOCOL_VERSION;
use tg_node::FollowedChain;
use tg_node::store::MemoryDisk;
use tg_types::chain::ChainPage;

use crate::draw::SeedStream;

/// How long an answer is waited for, in milliseconds: what a source may wait for a block, and half a second.
const PATIENCE_MS: u64 = 2_500;

/// How long a seat that gave nothing is not asked, in milliseconds.
const PAUSE_MS: u64 = 4_000;

/// How long a message that was lost takes until it is sent again, in milliseconds: a gateway speaks TCP.
const RESENT_MS: u64 = 300;

/// How often it is sent again.
const RESENT_MAX: u32 = 4;

/// How long a gateway that stopped stays off, in milliseconds.
const OFF_MS: u64 = 1_000;

/// What a gateway waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageRequest {
    /// Nothing.
    Idle,
    /// What it asks is on the way to a seat.
    Sent {
        /// Which.
        seat: usize,
        /// When it is there, in milliseconds of the run.
        at_ms: u64,
    },
    /// The answer is on the way back.
    Given {
        /// Whose.
        seat: usize,
        /// When it is there.
        at_ms: u64,
        /// The answer.
        page: ChainPage,
    },
    /// None will come.
    Lost {
        /// Whose.
        seat: usize,
        /// Until when it is waited for.
        until_ms: u64,
    },
}

/// A gateway, and what is left of it while it does not run.
#[derive(Debug)]
pub(crate) struct SimGateway {
    pub(crate) disk: MemoryDisk,
    /// The chain while it runs.
    pub(crate) chain: Option<FollowedChain>,
    pub(crate) request: PageRequest,
    /// The newest version of the protocol that its program executes.
    pub(crate) speaks: u16,
    /// When it starts again after it stopped by itself.
    pub(crate) rests_until_ms: u64,
    /// Whether it lost power, as it does once.
    pub(crate) was_cut: bool,
    /// What is lost, how long the rest takes, and what hostile seats give.
    draw: SeedStream,
    /// The seat that is asked.
    source: usize,
    /// Until when seats that gave nothing are not asked.
    paused: BTreeMap<usize, u64>,
}

impl SimGateway {
    /// A gateway of a seed, with an empty disk.
    pub(crate) fn new(seed: u64, index: usize) -> Self {
        Self {
            disk: MemoryDisk::default(),
            chain: None,
            request: PageRequest::Idle,
            speaks: PROTOCOL_VERSION,
            rests_until_ms: 0,
            was_cut: false,
            draw: SeedStream::new(seed, &format!("gateway {index}")),
            source: index,
            paused: BTreeMap::new(),
        }
    }

    /// The height that it has.
    pub(crate) fn height(&self) -> Option<u64> {
        let chain = self.chain.as_ref()?;
        Some(chain.state().head().height.get())
    }

    /// The seat to ask now, of so many; nothing while all are left alone.
    pub(crate) fn source(&self, seats: usize, now: u64) -> Option<usize> {
        let mut in_turn = (0..seats).map(|it| (self.source + it) % seats);
        in_turn.find(|seat| self.paused.get(seat).is_none_or(|until| *until <= now))
    }

    /// A seat gave blocks: it is asked again.
    pub(crate) fn gave(&mut self, seat: usize) {
        self.source = seat;
        self.paused.remove(&seat);
    }

    /// A seat has nothing that is new: the next one may.
    pub(crate) const fn leaves(&mut self, seat: usize) {
        self.source = seat + 1;
    }

    /// A seat gave nothing, or what does not hold: it is left alone for a while.
    pub(crate) fn failed(&mut self, seat: usize, now: u64) {
        self.leaves(seat);
        self.paused.insert(seat, now + PAUSE_MS);
    }

    /// How long a message takes on a way with this delay, loss and jitter; nothing if it is lost too often.
    fn delay(&mut self, (latency_ms, loss_permille): (u64, u64), jitter_ms: u64) -> Option<u64> {
        let mut ms = latency_ms + self.draw.between(0, 2 * jitter_ms);
        for _ in 0..=RESENT_MAX {
            if !self.draw.chance(loss_permille) {
                return Some(ms);
            }
            ms += RESENT_MS;
        }
        None
    }

    /// Asks a seat, if there is a way to it.
    pub(crate) fn ask(&mut self, seat: usize, now: u64, way: Option<(u64, u64)>, jitter_ms: u64) {
        let delay = way.and_then(|way| self.delay(way, jitter_ms));
        self.request = match delay {
            Some(ms) => PageRequest::Sent {
                seat,
                at_ms: now + ms,
            },
            None => PageRequest::Lost {
                seat,
                until_ms: now + PATIENCE_MS,
            },
        };
    }

    /// The seat that hears now what it is asked, and when it heard it.
    pub(crate) const fn heard(&self, now: u64) -> Option<(usize, u64)> {
        match self.request {
            PageRequest::Sent { seat, at_ms } if at_ms <= now => Some((seat, at_ms)),
            _ => None,
        }
    }

    /// A seat answers, if it does and there is a way back.
    pub(crate) fn answered(
        &mut self,
        (seat, heard_ms): (usize, u64),
        page: Option<ChainPage>,
        way: Option<(u64, u64)>,
        jitter_ms: u64,
    ) {
        let delay = way.and_then(|way| self.delay(way, jitter_ms));
        self.request = match page.zip(delay) {
            Some((page, ms)) => PageRequest::Given {
                seat,
                at_ms: heard_ms + ms,
                page,
            },
            None => PageRequest::Lost {
                seat,
                until_ms: heard_ms + PATIENCE_MS,
            },
        };
    }

    /// The answer that is there now, and whose it is. After an answer that did not come its seat is left alone.
    pub(crate) fn arrived(&mut self, now: u64) -> Option<(usize, ChainPage)> {
        match std::mem::replace(&mut self.request, PageRequest::Idle) {
            PageRequest::Given { seat, at_ms, page } if at_ms <= now => Some((seat, page)),
            PageRequest::Lost { seat, until_ms } if until_ms <= now => {
                self.failed(seat, now);
                None
            }
            waits => {
                self.request = waits;
                None
            }
        }
    }

    /// It does not run any more: what it asked is forgotten.
    pub(crate) fn close(&mut self, now: u64) {
        self.chain = None;
        self.request = PageRequest::Idle;
        self.rests_until_ms = now + OFF_MS;
    }

    /// Every second answer of a hostile seat does not hold.
    pub(crate) fn damage(&mut self, page: &mut ChainPage) {
        if !self.draw.chance(500) {
            return;
        }
        match self.draw.between(0, 2) {
            0 => {
                if let Some(last) = page.blocks.last_mut() {
                    flip(&mut last.0, &mut self.draw);
                }
            }
            1 => flip(&mut page.proof.certificate, &mut self.draw),
            // Of one block there is none left, which is no lie.
            _ if page.blocks.is_empty() => {}
            _ => {
                page.blocks.remove(0);
            }
        }
    }
}

/// Changes a bit.
fn flip(bytes: &mut [u8], draw: &mut SeedStream) {
    if !bytes.is_empty() {
        let (at, bit) = (draw.index(bytes.len()), draw.between(0, 7));
        bytes[at] ^= 1_u8 << bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_that_gives_nothing_is_left_alone_and_asked_again_later() {
        let mut gateway = SimGateway::new(0, 1);
        assert_eq!(gateway.source(4, 0), Some(1));
        gateway.failed(1, 0);
        assert_eq!(gateway.source(4, 0), Some(2));
        gateway.leaves(2);
        gateway.leaves(3);
        assert_eq!(gateway.source(4, 0), Some(0));
        gateway.leaves(0);
        assert_eq!(gateway.source(4, PAUSE_MS - 1), Some(2));
        assert_eq!(gateway.source(4, PAUSE_MS), Some(1));
        for seat in 0..4 {
            gateway.failed(seat, PAUSE_MS);
        }
        assert_eq!(gateway.source(4, PAUSE_MS), None);
        gateway.gave(3);
        assert_eq!(gateway.source(4, PAUSE_MS), Some(3));
    }

    #[test]
    fn an_answer_comes_when_both_ways_are_over_and_never_where_there_is_none() {
        let mut gateway = SimGateway::new(0, 0);
        gateway.ask(2, 100, Some((10, 0)), 0);
        assert_eq!(gateway.heard(109), None);
        assert_eq!(gateway.heard(110), Some((2, 110)));
        let page = ChainPage::empty(7);
        gateway.answered((2, 110), Some(page.clone()), Some((30, 0)), 0);
        assert_eq!(gateway.arrived(139), None);
        assert_eq!(gateway.arrived(140), Some((2, page)));
        assert_eq!(gateway.request, PageRequest::Idle);
        gateway.gave(2);
        for way in [None, Some((10, 1_000))] {
            gateway.ask(2, 200, way, 0);
            assert_eq!(gateway.heard(u64::MAX), None);
            assert_eq!(gateway.arrived(199 + PATIENCE_MS), None);
            assert_eq!(gateway.source(4, 200), Some(2), "it is waited for");
            assert_eq!(gateway.arrived(200 + PATIENCE_MS), None);
            assert_eq!(gateway.source(4, 200 + PATIENCE_MS), Some(3));
            gateway.gave(2);
        }
    }

    #[test]
    fn a_message_that_is_lost_is_sent_again() {
        let mut gateway = SimGateway::new(0, 0);
        let delays = (0..1_000).map(|_| gateway.delay((10, 500), 0));
        let delays: Vec<Option<u64>> = delays.collect();
        let at = |ms: u64| delays.iter().filter(|it| **it == Some(ms)).count();
        assert!((400..600).contains(&at(10)), "{}", at(10));
        assert!((150..350).contains(&at(10 + RESENT_MS)));
        assert!(delays.contains(&None));
    }
}
