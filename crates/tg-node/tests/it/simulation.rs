//! The same validator on the deterministic runtime and a simulated network, with a faulty one among four.

use std::sync::Arc;
use std::time::Duration;

use commonware_consensus::simplex::elector::RoundRobin;
use commonware_consensus::simplex::mocks::{equivocator, relay::Relay};
use commonware_consensus::types::Epoch;
use commonware_cryptography::Sha256;
use commonware_p2p::Recipients;
use commonware_p2p::simulated::{self, Control, Link, Oracle, SplitOrigin, SplitTarget};
use commonware_runtime::{Clock as _, IoBuf, Quota, Runner as _, Supervisor as _, deterministic};
use commonware_utils::{NZU32, NZUsize, Probability, probability};
use tg_node::engine::{self, Channels, Parts, Timers};
use tg_node::open::{self, Opening};
use tg_node::store::Location;
use tg_node::wire::channel;
use tg_node::{BlobStore, NodeHandle, Peer, ValidatorKey};
use tg_types::StateRoot;

use crate::support::{Network, NoEvidence, assert_agree};

type Context = deterministic::Context;

/// The validator that lies.
const FAULTY: usize = 3;

/// How it lies.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The equivocator of commonware's mocks: two proposals for one view, without bodies.
    Equivocator,
    /// Two whole validators under one key, each sending its votes to its own part of the network: two valid blocks
    /// for one view.
    Twins,
}

/// What one run came to: compared between runs of the same seed.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    auditor: String,
    heights: Vec<u64>,
    views: Vec<u64>,
    root: StateRoot,
    accusers: usize,
}

const QUOTA: Quota = Quota::per_second(NZU32!(2_000));

/// Short timers: the simulated links are fast.
const TIMERS: Timers = Timers {
    leader: Duration::from_millis(600),
    certification: Duration::from_millis(900),
    retry: Duration::from_millis(900),
    skip: Duration::from_millis(2_000),
    busy: Duration::from_millis(100),
    idle: Duration::from_millis(300),
};

/// A simulated network of four and what is needed to open validators on it.
struct World {
    context: Context,
    network: Network,
    blobs: Arc<BlobStore>,
    oracle: Oracle<Peer, Context>,
    peers: Vec<Peer>,
}

impl World {
    async fn new(context: Context, blobs: Arc<BlobStore>) -> Self {
        let network = Network::new(4);
        let peers: Vec<Peer> = network
            .keys
            .iter()
            .map(|key| open(&network, key, &blobs, TIMERS).1.peer())
            .collect();
        let config = simulated::Config {
            max_size: tg_node::limits::MESSAGE_BYTES_MAX,
            max_peers_per_set: NZUsize!(4),
            disconnect_on_block: true,
            tracked_peer_sets: NZUsize!(1),
        };
        let (simulated, oracle) =
            simulated::Network::new_with_peers(context.child("network"), config, peers.clone())
                .await;
        simulated.start();
        let world = Self {
            context,
            network,
            blobs,
            oracle,
            peers,
        };
        world.link(probability!(1.0)).await;
        world
    }

    async fn link(&self, success_rate: Probability) {
        for from in &self.peers {
            for to in self.peers.iter().filter(|to| *to != from) {
                let link = Link {
                    latency: Duration::from_millis(10),
                    jitter: Duration::from_millis(5),
                    success_rate,
                };
                self.oracle
                    .add_link(from.clone(), to.clone(), link)
                    .await
                    .unwrap();
            }
        }
    }

    fn open(&self, index: usize) -> (NodeHandle, Parts) {
        open(
            &self.network,
            &self.network.keys[index],
            &self.blobs,
            TIMERS,
        )
    }

    fn control(&self, index: usize) -> Control<Peer, Context> {
        self.oracle.control(self.peers[index].clone())
    }

    fn context(&self, index: usize, side: &str) -> Context {
        self.context
            .child("validator")
            .with_attribute("index", index)
            .with_attribute("side", side)
    }

    async fn honest(&self, index: usize) -> NodeHandle {
        let (handle, parts) = self.open(index);
        let control = self.control(index);
        let register = |channel| control.register(channel, QUOTA);
        let channels = Channels {
            votes: register(channel::VOTES).await.unwrap(),
            certificates: register(channel::CERTIFICATES).await.unwrap(),
            resolver: register(channel::RESOLVER).await.unwrap(),
            blocks: register(channel::BLOCKS).await.unwrap(),
            transactions: register(channel::TRANSACTIONS).await.unwrap(),
        };
        engine::start(self.context(index, "only"), parts, channels, control);
        handle
    }

    async fn equivocator(&self, index: usize) {
        let control = self.control(index);
        let votes = control.register(channel::VOTES, QUOTA).await.unwrap();
        let certificates = control
            .register(channel::CERTIFICATES, QUOTA)
            .await
            .unwrap();
        let config = equivocator::Config::<_, _, Sha256> {
            scheme: self.open(index).1.scheme(),
            elector: RoundRobin::<Sha256>::default(),
            epoch: Epoch::zero(),
            relay: Arc::new(Relay::new()),
        };
        equivocator::Equivocator::new(self.context(index, "only"), config)
            .start(votes, certificates);
    }

    /// Both twins hear everything; votes of the first go to peers 0 and 1, those of the second to 1 and 2.
    async fn twins(&self, index: usize) {
        let control = self.control(index);
        let sides = [
            vec![self.peers[0].clone(), self.peers[1].clone()],
            vec![self.peers[1].clone(), self.peers[2].clone()],
        ];
        let (mut primary, mut secondary) = (Vec::new(), Vec::new());
        for number in [
            channel::VOTES,
            channel::CERTIFICATES,
            channel::RESOLVER,
            channel::BLOCKS,
            channel::TRANSACTIONS,
        ] {
            let (sender, receiver) = control.register(number, QUOTA).await.unwrap();
            let sides = sides.clone();
            let forward = move |from: SplitOrigin, to: &Recipients<Peer>, _: &IoBuf| {
                let side = match from {
                    SplitOrigin::Primary => &sides[0],
                    SplitOrigin::Secondary => &sides[1],
                };
                Some(match (number, to) {
                    (channel::VOTES, _) => Recipients::Some(side.clone()),
                    (_, to) => to.clone(),
                })
            };
            let (first, second) = sender.split_with(forward);
            let context = self
                .context(index, "split")
                .with_attribute("channel", number);
            let (heard_first, heard_second) = receiver.split_with(context, |_| SplitTarget::Both);
            primary.push((first, heard_first));
            secondary.push((second, heard_second));
        }
        for (side, ports) in [("first", primary), ("second", secondary)] {
            let [votes, certificates, resolver, blocks, transactions] =
                <[_; 5]>::try_from(ports).unwrap();
            let channels = Channels {
                votes,
                certificates,
                resolver,
                blocks,
                transactions,
            };
            // Twins of one mind make the same block at the same time; these two differ in patience.
            let mut timers = TIMERS;
            if side == "second" {
                timers.busy += Duration::from_millis(7);
                timers.idle += Duration::from_millis(11);
            }
            let key = &self.network.keys[index];
            let (_, parts) = open(&self.network, key, &self.blobs, timers);
            let parts = parts.in_partition(side);
            engine::start(self.context(index, side), parts, channels, control.clone());
        }
    }
}

fn open(
    network: &Network,
    key: &ValidatorKey,
    blobs: &Arc<BlobStore>,
    timers: Timers,
) -> (NodeHandle, Parts) {
    open::open(Opening {
        genesis: &network.genesis,
        key: key.clone(),
        location: Location::Memory,
        blobs: blobs.clone(),
        checker: Arc::new(NoEvidence),
        timers,
    })
    .unwrap()
}

/// Runs three honest validators and a faulty one until the honest ones have settled six transfers and made some
/// blocks; checks that they agree and conserve money.
fn run(seed: u64, fault: Fault, blobs: &Arc<BlobStore>) -> Outcome {
    let blobs = blobs.clone();
    let config = deterministic::Config::new()
        .with_seed(seed)
        .with_timeout(Some(Duration::from_secs(120)));
    deterministic::Runner::new(config).start(|context| async move {
        let world = World::new(context, blobs).await;
        let mut honest: Vec<NodeHandle> = Vec::new();
        for index in 0..FAULTY {
            honest.push(world.honest(index).await);
        }
        match fault {
            Fault::Equivocator => world.equivocator(FAULTY).await,
            Fault::Twins => world.twins(FAULTY).await,
        }
        for nonce in 0..6 {
            let handle = &honest[usize::try_from((nonce + seed) % 3).unwrap()];
            let transfer = world.network.transfer(0, nonce);
            handle.submit(transfer).await.unwrap();
            world.context.sleep(Duration::from_millis(150)).await;
        }
        let done = |handle: &NodeHandle| {
            let settled = world.network.nonce(&handle.snapshot().state, 0) == 6;
            settled && handle.status().height >= 8
        };
        while !honest.iter().all(done) {
            world.context.sleep(Duration::from_millis(50)).await;
        }
        let common = assert_agree(&honest);
        let faulty = world.network.keys[FAULTY].public();
        for handle in &honest {
            let accused = handle.status().equivocators;
            assert!(
                accused.iter().all(|key| *key == faulty),
                "an honest validator is accused by {:?}",
                handle.status()
            );
        }
        let statuses: Vec<_> = honest.iter().map(NodeHandle::status).collect();
        Outcome {
            auditor: world.context.auditor().state(),
            heights: statuses.iter().map(|status| status.height).collect(),
            views: statuses.iter().map(|status| status.view).collect(),
            root: honest[0].block(common).unwrap().unwrap().header.state_root,
            accusers: statuses
                .iter()
                .filter(|status| !status.equivocators.is_empty())
                .count(),
        }
    })
}

/// Runs each seed twice and returns how many honest validators convicted the faulty one, over all seeds.
fn check(fault: Fault, seeds: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(BlobStore::open(folder.path(), 0).unwrap());
    (0..seeds)
        .map(|seed| {
            let first = run(seed, fault, &blobs);
            let second = run(seed, fault, &blobs);
            assert_eq!(first, second, "runs of seed {seed} differ");
            // Every fourth view is led by the liar; a view of the equivocator's has no body and is lost.
            if matches!(fault, Fault::Equivocator) {
                let lost = |(height, view): (&u64, &u64)| view > height;
                assert!(
                    first.heights.iter().zip(&first.views).all(lost),
                    "seed {seed}"
                );
            }
            first.accusers
        })
        .sum()
}

#[test]
fn equivocator_100_seeds() {
    check(Fault::Equivocator, 100);
}

/// Two valid blocks for one view, both with bodies that everyone can get: peer 1 hears both twins vote.
#[test]
fn twins_25_seeds() {
    let accusers = check(Fault::Twins, 25);
    assert!(accusers > 0, "nobody convicted the twins in 25 runs");
}
