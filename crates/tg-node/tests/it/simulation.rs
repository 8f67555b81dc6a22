//! The same validator on the deterministic runtime and a simulated network, with a faulty one among four.

use std::sync::Arc;
use std::time::Duration;

use commonware_consensus::simplex::elector::RoundRobin;
use commonware_consensus::simplex::mocks::{equivocator, relay::Relay};
use commonware_consensus::types::Epoch;
use commonware_cryptography::Sha256;
use commonware_p2p::simulated::{self, Link, Oracle};
use commonware_runtime::{Clock as _, Quota, Runner as _, Supervisor as _, deterministic};
use commonware_utils::{NZU32, NZUsize, Probability, probability};
use tg_node::engine::{self, Channels, Timers};
use tg_node::open::{self, Opening};
use tg_node::store::Location;
use tg_node::wire::channel;
use tg_node::{BlobStore, NodeHandle, Peer};
use tg_types::StateRoot;

use crate::support::{Network, NoEvidence, assert_agree};

type Sender = simulated::Sender<Peer, deterministic::Context>;
type Receiver = simulated::Receiver<Peer>;

/// What one run came to: compared between runs of the same seed.
#[derive(Debug, PartialEq, Eq)]
struct Result {
    auditor: String,
    heights: Vec<u64>,
    root: StateRoot,
    accused: usize,
}

const QUOTA: Quota = Quota::per_second(NZU32!(2_000));

/// Short timers: the simulated links are fast.
const TIMERS: Timers = Timers {
    leader: Duration::from_millis(600),
    certification: Duration::from_millis(900),
    retry: Duration::from_millis(900),
    skip: Duration::from_millis(2_000),
};

async fn channels(
    oracle: &Oracle<Peer, deterministic::Context>,
    peer: &Peer,
) -> Channels<Sender, Receiver> {
    let control = oracle.control(peer.clone());
    Channels {
        votes: control.register(channel::VOTES, QUOTA).await.unwrap(),
        certificates: control
            .register(channel::CERTIFICATES, QUOTA)
            .await
            .unwrap(),
        resolver: control.register(channel::RESOLVER, QUOTA).await.unwrap(),
        blocks: control.register(channel::BLOCKS, QUOTA).await.unwrap(),
        transactions: control
            .register(channel::TRANSACTIONS, QUOTA)
            .await
            .unwrap(),
    }
}

async fn link(
    oracle: &Oracle<Peer, deterministic::Context>,
    peers: &[Peer],
    success_rate: Probability,
) {
    for from in peers {
        for to in peers {
            if from != to {
                let link = Link {
                    latency: Duration::from_millis(10),
                    jitter: Duration::from_millis(5),
                    success_rate,
                };
                oracle
                    .add_link(from.clone(), to.clone(), link)
                    .await
                    .unwrap();
            }
        }
    }
}

/// Three honest validators and one that proposes different blocks to different peers, until the honest ones have
/// settled six transfers and made some blocks.
fn equivocator(seed: u64, blobs: &Arc<BlobStore>) -> Result {
    let network = Network::new(4);
    let blobs = blobs.clone();
    let config = deterministic::Config::new()
        .with_seed(seed)
        .with_timeout(Some(Duration::from_secs(120)));
    deterministic::Runner::new(config).start(|context| async move {
        let opened: Vec<_> = network
            .keys
            .iter()
            .map(|key| {
                open::open(Opening {
                    genesis: &network.genesis,
                    key: key.clone(),
                    location: Location::Memory,
                    blobs: blobs.clone(),
                    checker: Arc::new(NoEvidence),
                    timers: TIMERS,
                })
                .unwrap()
            })
            .collect();
        let peers: Vec<Peer> = opened.iter().map(|(_, parts)| parts.peer()).collect();
        let config = simulated::Config {
            max_size: tg_node::limits::MESSAGE_BYTES_MAX,
            max_peers_per_set: NZUsize!(4),
            disconnect_on_block: true,
            tracked_peer_sets: NZUsize!(1),
        };
        let (simulated, oracle) = simulated::Network::new_with_peers(
            context.child("network"),
            config,
            peers.clone(),
        )
        .await;
        simulated.start();
        link(&oracle, &peers, probability!(1.0)).await;
        let mut honest: Vec<NodeHandle> = Vec::new();
        for (index, (handle, parts)) in opened.into_iter().enumerate() {
            let peer = &peers[index];
            let channels = channels(&oracle, peer).await;
            let context = context.child("validator").with_attribute("index", index);
            if index == 3 {
                let config = equivocator::Config::<_, _, Sha256> {
                    scheme: parts.scheme(),
                    elector: RoundRobin::<Sha256>::default(),
                    epoch: Epoch::zero(),
                    relay: Arc::new(Relay::new()),
                };
                equivocator::Equivocator::new(context, config)
                    .start(channels.votes, channels.certificates);
            } else {
                engine::start(context, parts, channels, oracle.control(peer.clone()));
                honest.push(handle);
            }
        }
        for nonce in 0..6 {
            let handle = &honest[usize::try_from((nonce + seed) % 3).unwrap()];
            handle.submit(network.transfer(0, nonce)).await.unwrap();
            context.sleep(Duration::from_millis(150)).await;
        }
        let done = |handle: &NodeHandle| {
            network.nonce(&handle.snapshot().state, 0) == 6 && handle.status().height >= 8
        };
        while !honest.iter().all(done) {
            context.sleep(Duration::from_millis(50)).await;
        }
        let common = assert_agree(&honest);
        Result {
            auditor: context.auditor().state(),
            heights: honest.iter().map(|handle| handle.status().height).collect(),
            root: honest[0].block(common).unwrap().unwrap().header.state_root,
            accused: honest
                .iter()
                .filter(|handle| !handle.status().equivocators.is_empty())
                .count(),
        }
    })
}

#[test]
fn equivocator_100_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(BlobStore::open(folder.path(), 0).unwrap());
    let mut accused = 0;
    for seed in 0..100 {
        let first = equivocator(seed, &blobs);
        let second = equivocator(seed, &blobs);
        assert_eq!(first, second, "runs of seed {seed} differ");
        accused += first.accused;
    }
    // Whether an honest validator sees both halves of a lie depends on the schedule; over many seeds some do.
    assert!(accused > 0, "no honest validator ever saw an equivocation");
}
