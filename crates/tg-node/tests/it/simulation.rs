//! The same validator on the deterministic runtime and a simulated network, with a faulty one among four.

use std::sync::Arc;
use std::time::Duration;

use commonware_consensus::simplex::mocks::{equivocator, relay::Relay};
use commonware_consensus::types::Epoch;
use commonware_cryptography::Sha256;
use commonware_p2p::Recipients;
use commonware_p2p::simulated::{self, Control, Link, Oracle, SplitOrigin, SplitTarget};
use commonware_p2p::utils::mux::{Muxer, SubReceiver, SubSender};
use commonware_runtime::{Clock as _, IoBuf, Quota, Runner as _, Supervisor as _, deterministic};
use commonware_utils::{NZU32, NZUsize, Probability, probability};
use tg_node::engine::{self, Channels, Parts};
use tg_node::limits::Timers;
use tg_node::open::{self, Opening};
use tg_node::store::Location;
use tg_node::wire::channel;
use tg_node::{
    BlobStore, EvidenceChecker, History, NodeHandle, Peer, ProofChecker, ValidatorKey, WallClock,
};
use tg_types::{Digest, StateRoot, Transaction};

use crate::support::{Network, NoEvidence, assert_agree};
use crate::work::{input_bytes, public_bytes, registration, sample_order};

pub(crate) type Context = deterministic::Context;

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
pub(crate) struct World {
    pub(crate) context: Context,
    pub(crate) network: Network,
    /// The validators' stores; one for all where no blobs are used.
    blobs: Vec<Arc<BlobStore>>,
    checker: Arc<dyn EvidenceChecker>,
    /// The wall clock that all validators share.
    wall: WallClock,
    oracle: Oracle<Peer, Context>,
    peers: Vec<Peer>,
}

impl World {
    pub(crate) async fn new(
        context: Context,
        blobs: Vec<Arc<BlobStore>>,
        checker: Arc<dyn EvidenceChecker>,
        wall: WallClock,
    ) -> Self {
        let network = Network::new(4);
        let peers: Vec<Peer> = network
            .keys
            .iter()
            .map(|key| {
                let (blobs, checker) = (blobs[0].clone(), checker.clone());
                open(&network, key, (blobs, checker), (wall.clone(), TIMERS))
                    .1
                    .peer()
            })
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
            checker,
            wall,
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

    fn open(&self, index: usize, timers: Timers) -> (NodeHandle, Parts) {
        let blobs = self.blobs[index % self.blobs.len()].clone();
        open(
            &self.network,
            &self.network.keys[index],
            (blobs, self.checker.clone()),
            (self.wall.clone(), timers),
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

    pub(crate) async fn honest(&self, index: usize) -> NodeHandle {
        let (handle, parts) = self.open(index, TIMERS);
        let control = self.control(index);
        let register = |channel| control.register(channel, QUOTA);
        let channels = Channels {
            votes: register(channel::VOTES).await.unwrap(),
            certificates: register(channel::CERTIFICATES).await.unwrap(),
            resolver: register(channel::RESOLVER).await.unwrap(),
            blocks: register(channel::BLOCKS).await.unwrap(),
            transactions: register(channel::TRANSACTIONS).await.unwrap(),
            blobs: register(channel::BLOBS).await.unwrap(),
            seeds: register(channel::SEED).await.unwrap(),
        };
        engine::start(self.context(index, "only"), parts, channels, control);
        handle
    }

    /// A channel of consensus as the first epoch uses it.
    async fn first_epoch(
        &self,
        control: &Control<Peer, Context>,
        index: usize,
        number: u64,
    ) -> (
        SubSender<simulated::Sender<Peer, Context>>,
        SubReceiver<Peer>,
    ) {
        let (sender, receiver) = control.register(number, QUOTA).await.unwrap();
        let (muxer, mut channel) = Muxer::new(self.context(index, "epochs"), sender, receiver);
        muxer.start();
        channel.register(0).await.unwrap()
    }

    async fn equivocator(&self, index: usize) {
        let control = self.control(index);
        let votes = self.first_epoch(&control, index, channel::VOTES).await;
        let certificates = self
            .first_epoch(&control, index, channel::CERTIFICATES)
            .await;
        let parts = self.open(index, TIMERS).1;
        let config = equivocator::Config::<_, _, Sha256> {
            scheme: parts.scheme(),
            elector: parts.leaders(),
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
            channel::BLOBS,
            channel::SEED,
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
            let [
                votes,
                certificates,
                resolver,
                blocks,
                transactions,
                blobs,
                seeds,
            ] = <[_; 7]>::try_from(ports).unwrap();
            let channels = Channels {
                votes,
                certificates,
                resolver,
                blocks,
                transactions,
                blobs,
                seeds,
            };
            // Twins of one mind make the same block at the same time; these two differ in patience.
            let mut timers = TIMERS;
            if side == "second" {
                timers.busy += Duration::from_millis(7);
                timers.idle += Duration::from_millis(11);
            }
            let (_, parts) = self.open(index, timers);
            let parts = parts.in_partition(side);
            engine::start(self.context(index, side), parts, channels, control.clone());
        }
    }
}

fn open(
    network: &Network,
    key: &ValidatorKey,
    (blobs, checker): (Arc<BlobStore>, Arc<dyn EvidenceChecker>),
    (wall, timers): (WallClock, Timers),
) -> (NodeHandle, Parts) {
    open::open(Opening {
        genesis: &network.genesis,
        key: key.clone(),
        location: Location::Memory,
        blobs,
        checker,
        timers,
        history: History::New,
        wall,
        speaks: tg_ledger::PROTOCOL_VERSION,
        signatures: open::own_signatures(),
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
        let checker = Arc::new(NoEvidence);
        let world = World::new(context, vec![blobs], checker, WallClock::of_runtime()).await;
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
        punish(&world, &honest).await;
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

/// Shows the ledger what an honest validator saw, if one saw anything: the faulty one's stake is gone everywhere.
async fn punish(world: &World, honest: &[NodeHandle]) {
    let Some((handle, proof)) = honest
        .iter()
        .find_map(|handle| Some((handle, *handle.unpunished().first()?)))
    else {
        return;
    };
    assert_eq!(proof.seat, world.network.keys[FAULTY].public());
    assert_eq!(proof.check(&world.network.genesis.id()), Ok(()));
    let wallet = &world.network.wallets[2];
    let nonce = handle.snapshot().state.nonce(&wallet.address());
    let report = Transaction::ReportEquivocation { proof };
    let signed = wallet.sign(report, nonce, &world.network.genesis.domain);
    handle.submit(signed).await.unwrap();
    let stake = |handle: &NodeHandle| {
        let state = handle.snapshot().state.clone();
        let mut validators = state.validators().iter();
        let faulty = validators.find(|it| *it.key.as_bytes() == proof.seat);
        faulty.unwrap().stake
    };
    while !honest.iter().all(|handle| stake(handle).is_zero()) {
        world.context.sleep(Duration::from_millis(50)).await;
    }
    assert!(honest.iter().all(|handle| handle.unpunished().is_empty()));
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
fn twins_are_convicted_25_seeds() {
    let accusers = check(Fault::Twins, 25);
    assert!(accusers > 0, "nobody convicted the twins in 25 runs");
}

/// Runs four honest validators with stores of their own: the public part of a model is given to one of them, the input of
/// a job to two. Returns the auditor's word, so that runs of one seed can be compared.
fn fetch(seed: u64) -> String {
    let folders: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let open =
        |folder: &tempfile::TempDir| Arc::new(BlobStore::open(folder.path(), 1 << 30).unwrap());
    let stores: Vec<Arc<BlobStore>> = folders.iter().map(open).collect();
    let config = deterministic::Config::new()
        .with_seed(seed)
        .with_timeout(Some(Duration::from_secs(120)));
    deterministic::Runner::new(config).start(|context| async move {
        let checker = Arc::new(ProofChecker::default());
        let world = World::new(context, stores.clone(), checker, WallClock::of_runtime()).await;
        let mut handles = Vec::new();
        for index in 0..4 {
            handles.push(world.honest(index).await);
        }
        let send = |wallet: usize, what: Transaction| {
            let wallet = &world.network.wallets[wallet];
            handles[2].submit(wallet.sign(what, 0, &world.network.genesis.domain))
        };
        stores[1].put(&public_bytes(), 1 << 24).unwrap();
        send(0, registration()).await.unwrap();
        let is_active = |handle: &NodeHandle| {
            let state = &handle.snapshot().state;
            let mut models = state.models().iter();
            models.any(|model| matches!(model.state, tg_ledger::ModelState::Active(_)))
        };
        while !handles.iter().all(is_active) {
            world.context.sleep(Duration::from_millis(50)).await;
        }
        let input = Digest::of_blob(&input_bytes());
        for index in [0, 3] {
            stores[index].put(&input_bytes(), 1 << 20).unwrap();
        }
        let order = sample_order(&handles[2].snapshot().state);
        send(1, Transaction::SubmitJob { order }).await.unwrap();
        while !stores.iter().all(|store| store.contains(&input)) {
            world.context.sleep(Duration::from_millis(50)).await;
        }
        for store in &stores {
            let size = store.verified_size(&input).unwrap();
            assert_eq!(size, Some(input_bytes().len() as u64));
        }
        world.context.auditor().state()
    })
}

#[test]
fn an_input_given_to_two_of_four_comes_to_all_5_seeds() {
    for seed in 0..5 {
        assert_eq!(fetch(seed), fetch(seed), "runs of seed {seed} differ");
    }
}
