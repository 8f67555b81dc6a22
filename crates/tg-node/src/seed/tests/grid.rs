//! Machines, a network that loses and reorders, and a chain that keeps logs: all drawn from one number.

use std::collections::{BTreeMap, VecDeque};

use commonware_p2p::Recipients;
use tg_types::{Decode as _, DurationMs, Encode as _, TimestampMs};

use crate::key::{ValidatorKey, peer, public_bytes};
use crate::peers::Peer;
use crate::seed::kept::KeptRound;
use crate::seed::{
    SeedEffect, SeedMachine, SeedPhase, SeedRefusal, SeedStanding, SeedView, check_dealing,
    key_of_dealings,
};
use crate::wire::SeedMessage;

pub(super) const NETWORK: [u8; 32] = [0x54; 32];

/// What a liar makes of a message before it goes out: none if nothing.
pub(super) type Tamper = fn(from: usize, to: usize, message: SeedMessage) -> Option<SeedMessage>;

/// Changes one bit of what a message says.
fn spoil(message: &mut SeedMessage) {
    match message {
        SeedMessage::Dealing { private, .. } => private.0[31] ^= 1,
        SeedMessage::Acknowledgement { signature, .. } => signature[40] ^= 1,
        SeedMessage::Partial { height, .. } => *height ^= 1,
    }
}

/// Whether a disk has what a message may only follow.
fn is_kept(disk: Option<&[u8]>, message: &SeedMessage) -> bool {
    let kept = disk.map(|disk| KeptRound::from_bytes(disk).unwrap());
    let kept = kept.filter(|kept| kept.number == message.round());
    match message {
        SeedMessage::Dealing { .. } => kept.is_some_and(|kept| kept.secret.is_some()),
        SeedMessage::Acknowledgement { signature, .. } => kept.is_some_and(|kept| {
            let mut received = kept.received.iter();
            received.any(|received| received.acknowledgement == *signature)
        }),
        SeedMessage::Partial { .. } => true,
    }
}

/// A message on its way.
#[derive(Clone)]
pub(super) struct Flight {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: Vec<u8>,
}

/// Validators, what is between them, and their chain.
pub(super) struct SeedGrid {
    pub(super) keys: Vec<ValidatorKey>,
    pub(super) machines: Vec<Option<SeedMachine>>,
    pub(super) disks: Vec<Option<Vec<u8>>>,
    pub(super) flights: VecDeque<Flight>,
    pub(super) sent: Vec<Flight>,
    /// Who dropped whose message, and why.
    pub(super) refusals: Vec<(usize, usize, SeedRefusal)>,
    pub(super) round: u64,
    pub(super) dealings: Vec<([u8; 32], Vec<u8>)>,
    pub(super) key: Option<[u8; 96]>,
    pub(super) wanted: Vec<u64>,
    pub(super) now: TimestampMs,
    /// Messages lost, of a hundred.
    pub(super) loss: u64,
    pub(super) tamper: Tamper,
    /// Who spoils what it sends, now and then.
    pub(super) lies: Vec<bool>,
    opened: TimestampMs,
    random: u64,
    starts: u8,
}

impl SeedGrid {
    pub(super) fn new(count: usize, seed: u64) -> Self {
        let mut grid = Self {
            keys: (0..count as u64).map(ValidatorKey::from_seed).collect(),
            machines: (0..count).map(|_| None).collect(),
            disks: vec![None; count],
            flights: VecDeque::new(),
            sent: Vec::new(),
            refusals: Vec::new(),
            round: 1,
            dealings: Vec::new(),
            key: None,
            wanted: Vec::new(),
            now: TimestampMs::new(1_000_000),
            loss: 0,
            tamper: |_, _, message| Some(message),
            lies: vec![false; count],
            opened: TimestampMs::new(1_000_000),
            random: seed.wrapping_mul(2).wrapping_add(1),
            starts: 0,
        };
        for place in 0..count {
            grid.start(place);
        }
        grid
    }

    /// Starts a validator, again or for the first time, from its disk.
    pub(super) fn start(&mut self, place: usize) {
        self.starts += 1;
        let mut machine = SeedMachine::new(
            NETWORK,
            &self.keys[place],
            [self.starts; 32],
            self.disks[place].as_deref(),
        );
        machine.view(&self.view(), self.now);
        self.machines[place] = Some(machine);
        self.settle(place);
    }

    /// Stops a validator; what is on its way to it is lost.
    pub(super) fn stop(&mut self, place: usize) {
        self.machines[place] = None;
        self.flights.retain(|flight| flight.to != place);
    }

    pub(super) fn participants(&self) -> Vec<[u8; 32]> {
        self.keys.iter().map(ValidatorKey::public).collect()
    }

    pub(super) fn peer(&self, place: usize) -> Peer {
        peer(&self.keys[place])
    }

    pub(super) fn logs(&self) -> Vec<Vec<u8>> {
        self.dealings.iter().map(|(_, log)| log.clone()).collect()
    }

    pub(super) fn view(&self) -> SeedView {
        SeedView {
            round: self.round,
            participants: self.participants(),
            phase: match self.key {
                Some(key) => SeedPhase::Ready {
                    key,
                    dealings: self.logs(),
                },
                None => SeedPhase::Dealing {
                    dealt: self.dealings.iter().map(|(dealer, _)| *dealer).collect(),
                },
            },
            wanted: self.wanted.clone(),
        }
    }

    /// Tells all what the state says.
    pub(super) fn publish(&mut self) {
        let view = self.view();
        for place in 0..self.machines.len() {
            if let Some(machine) = &mut self.machines[place] {
                machine.view(&view, self.now);
                self.settle(place);
            }
        }
    }

    pub(super) fn want(&mut self, heights: &[u64]) {
        self.wanted = heights.to_vec();
        self.publish();
    }

    pub(super) fn next_round(&mut self) {
        self.round += 1;
        self.dealings.clear();
        self.key = None;
        self.wanted.clear();
        self.opened = self.now;
        self.publish();
    }

    /// Delivers a message or lets time pass; the chain takes logs.
    pub(super) fn step(&mut self) {
        let count = self.flights.len() as u64;
        if count == 0 {
            self.now = self.now.saturating_add(DurationMs::new(100));
            for place in 0..self.machines.len() {
                self.settle(place);
            }
        } else {
            let place = usize::try_from(self.draw(count)).unwrap();
            let flight = self.flights.remove(place).unwrap();
            if self.draw(100) >= self.loss {
                self.deliver(&flight);
            }
        }
        self.take_logs();
    }

    pub(super) fn deliver(&mut self, flight: &Flight) {
        let from = self.peer(flight.from);
        let message = SeedMessage::from_bytes(&flight.bytes).unwrap();
        if let Some(machine) = &mut self.machines[flight.to] {
            machine.message(&from, &message);
            self.settle(flight.to);
        }
    }

    /// Steps until something holds.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if holds(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }

    /// Steps until the running ones have the key.
    pub(super) fn until_ready(&mut self) {
        self.until("a key", |grid| grid.key.is_some());
        self.publish();
    }

    /// Steps until all running ones have the seeds of all wanted heights, and gives them.
    pub(super) fn until_seeds(&mut self) -> BTreeMap<u64, [u8; 48]> {
        self.until("the seeds", |grid| {
            let mut running = grid.machines.iter().flatten();
            running.all(|machine| machine.signatures().len() == grid.wanted.len())
        });
        let mut running = self.machines.iter().flatten();
        let seeds = running.next().unwrap().signatures();
        for machine in running {
            assert_eq!(machine.signatures(), seeds);
        }
        seeds.into_iter().collect()
    }

    pub(super) fn standing(&self, place: usize) -> SeedStanding {
        self.machines[place].as_ref().unwrap().standing()
    }

    pub(super) fn quorum(&self) -> usize {
        self.keys.len() - (self.keys.len() - 1) / 3
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    /// Does what a machine wants done.
    pub(super) fn settle(&mut self, place: usize) {
        let Some(machine) = &mut self.machines[place] else {
            return;
        };
        machine.progress(self.now);
        let effects = machine.effects();
        for effect in effects {
            match effect {
                SeedEffect::Keep(bytes) => self.disks[place] = Some(bytes),
                SeedEffect::Refuse(peer, refusal) => {
                    let from = self.place(&peer);
                    self.refusals.push((place, from, refusal));
                }
                SeedEffect::Send(recipients, message) => {
                    let disk = self.disks[place].as_deref();
                    assert!(
                        is_kept(disk, &message),
                        "sent before it was kept: {message:?}"
                    );
                    let peers = match recipients {
                        Recipients::One(peer) => vec![peer],
                        Recipients::Some(peers) => peers,
                        Recipients::All => panic!("the seed goes to participants"),
                    };
                    for peer in peers {
                        let to = self.place(&peer);
                        let Some(mut message) = (self.tamper)(place, to, message.clone()) else {
                            continue;
                        };
                        if self.lies[place] && self.draw(2) == 0 {
                            spoil(&mut message);
                        }
                        let flight = Flight {
                            from: place,
                            to,
                            bytes: message.to_bytes(),
                        };
                        self.sent.push(flight.clone());
                        self.flights.push_back(flight);
                    }
                }
            }
        }
    }

    fn place(&self, peer: &Peer) -> usize {
        let public = public_bytes(peer);
        let mut keys = self.keys.iter();
        keys.position(|key| key.public() == public).unwrap()
    }

    /// The chain's part: logs that are usable, one of each dealer, until all are there or, five seconds on, n - f.
    fn take_logs(&mut self) {
        if self.key.is_some() {
            return;
        }
        let mut is_new = false;
        for machine in self.machines.iter().flatten() {
            let Some((round, log)) = machine.dealing() else {
                continue;
            };
            let participants: Vec<_> = self.keys.iter().map(ValidatorKey::public).collect();
            let dealer = check_dealing(&NETWORK, round, &participants, &log).unwrap();
            if round == self.round && self.dealings.iter().all(|(other, _)| *other != dealer) {
                self.dealings.push((dealer, log));
                is_new = true;
            }
        }
        let is_late = self.now.saturating_since(self.opened) >= DurationMs::new(5_000);
        let is_closed = self.dealings.len() == self.keys.len()
            || (is_late && self.dealings.len() >= self.quorum());
        if is_closed {
            let key = key_of_dealings(&NETWORK, self.round, &self.participants(), &self.logs());
            self.key = Some(key.unwrap());
        }
        if is_new || is_closed {
            self.publish();
        }
    }
}
