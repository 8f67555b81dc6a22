//! A node without a vote beside four validators, with sources that lie, hide and fail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tg_node::{
    BlobStore, ChainSource, Follower, FollowerConfig, NodeHandle, OpenError, SourceError,
    SourceFuture, SubmitError, WallClock,
};
use tg_types::chain::{
    BlockBytes, ChainPage, Checkpoint, CheckpointBlock, SeatChanges, SnapshotHead,
};
use tg_types::{BlockId, Digest, DurationMs, Heartbeat, Height, SignedTransaction, Transaction};

use crate::support::{Network, assert_agree, wait_for};

/// What a source does with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Honesty {
    Honest,
    /// Says that it has blocks, and gives none.
    Hides,
    /// Says that there is no block.
    HidesAll,
    /// One byte of a block is another.
    ChangesBlocks,
    /// Leaves out the first block of a page.
    LeavesOut,
    /// Blocks without what shows them.
    WithoutProof,
    /// The certificate of another block.
    OldCertificate,
    /// A snapshot with other balances.
    ForgesState,
    /// Does not answer.
    Silent,
}

/// A validator of this process as a source.
#[derive(Debug)]
struct Source {
    node: NodeHandle,
    honesty: Honesty,
    asked: AtomicUsize,
    handed: AtomicUsize,
    /// Whether its cable is out: calls do not end, and nothing says so.
    is_cut_off: AtomicBool,
}

impl Source {
    fn new(node: &NodeHandle, honesty: Honesty) -> Arc<Self> {
        Arc::new(Self {
            node: node.clone(),
            honesty,
            asked: AtomicUsize::new(0),
            handed: AtomicUsize::new(0),
            is_cut_off: AtomicBool::new(false),
        })
    }

    fn lie(&self, page: &mut ChainPage) {
        if page.blocks.is_empty() {
            return;
        }
        match self.honesty {
            Honesty::Hides => *page = ChainPage::empty(page.tip),
            Honesty::HidesAll => *page = ChainPage::empty(0),
            Honesty::ChangesBlocks => {
                let bytes = &mut page.blocks[0].0;
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Honesty::LeavesOut => drop(page.blocks.remove(0)),
            Honesty::WithoutProof => page.proof = ChainPage::empty(0).proof,
            Honesty::OldCertificate => {
                let (_, certificate) = self.node.certificate(1).unwrap().unwrap();
                page.proof.certificate = certificate;
                // With headers of its own.
                page.proof.headers.truncate(1);
                page.blocks = vec![BlockBytes(page.blocks.last().unwrap().0.clone()); 2];
            }
            Honesty::Honest | Honesty::ForgesState | Honesty::Silent => {}
        }
    }
}

/// A validator as a source that tells the truth.
pub(crate) fn honest_source(node: &NodeHandle) -> Arc<dyn ChainSource> {
    Source::new(node, Honesty::Honest)
}

impl ChainSource for Source {
    fn name(&self) -> &str {
        "a validator"
    }

    fn page(&self, from: u64, wait: Duration) -> SourceFuture<'_, ChainPage> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.honesty == Honesty::Silent {
                return Err(SourceError::Unreachable("silent".to_owned()));
            }
            let since = Instant::now();
            loop {
                if self.is_cut_off.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                let mut page = self.node.chain_page(from).unwrap().unwrap();
                self.lie(&mut page);
                if !page.blocks.is_empty() || since.elapsed() >= wait {
                    return Ok(page);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }

    fn seat_changes(&self, above: u64) -> SourceFuture<'_, SeatChanges> {
        Box::pin(async move { Ok(self.node.seat_changes(above).unwrap()) })
    }

    fn checkpoint(&self, height: u64) -> SourceFuture<'_, Option<CheckpointBlock>> {
        Box::pin(async move { Ok(self.node.checkpoint(Some(height)).unwrap()) })
    }

    fn snapshot(&self) -> SourceFuture<'_, Option<(SnapshotHead, Vec<u8>)>> {
        Box::pin(async move {
            let mut snapshot = self.node.chain_snapshot().unwrap();
            if let (Honesty::ForgesState, Some((_, state))) = (self.honesty, &mut snapshot) {
                // Somewhere in the accounts.
                let place = state.len() / 2;
                state[place] ^= 1;
            }
            Ok(snapshot)
        })
    }

    fn submit(&self, signed: SignedTransaction) -> SourceFuture<'_, ()> {
        Box::pin(async move {
            self.handed.fetch_add(1, Ordering::Relaxed);
            let withholds = [Honesty::Silent, Honesty::Hides, Honesty::HidesAll];
            if withholds.contains(&self.honesty) {
                return Ok(());
            }
            let submitted = self.node.submit(signed).await;
            submitted.map(drop).map_err(|error| SourceError::Refused {
                code: error.code().to_owned(),
                message: error.to_string(),
            })
        })
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> SourceFuture<'_, ()> {
        Box::pin(async move {
            self.node
                .heartbeat(heartbeat)
                .map_err(|error| SourceError::Unreachable(error.to_string()))
        })
    }

    fn blob(&self, digest: Digest, limit: u64, store: Arc<BlobStore>) -> SourceFuture<'_, bool> {
        Box::pin(async move {
            let Some(mut bytes) = self.node.blobs().get(&digest, limit).unwrap() else {
                return Ok(false);
            };
            if self.honesty != Honesty::Honest {
                bytes[0] ^= 1;
            }
            // Other bytes than those of the name are no answer.
            if Digest::of_blob(&bytes) != digest {
                return Err(SourceError::Unreachable("damaged".to_owned()));
            }
            let stored = store.put(&bytes, limit);
            stored
                .map(|_| true)
                .map_err(|error| SourceError::Unreachable(error.to_string()))
        })
    }
}

/// A follower of these sources that runs.
struct Running {
    node: NodeHandle,
    task: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(network: &Network, sources: &[Arc<Source>], snapshot: bool) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources.iter().cloned();
    let sources = sources.map(|it| it as Arc<dyn ChainSource>).collect();
    let directory = folder.path().to_owned();
    let mut config = FollowerConfig::new(network.genesis.clone(), directory, sources);
    config.snapshot = snapshot;
    config.wall = clock_of_genesis();
    let follower = Follower::open(config).await.unwrap();
    let node = follower.handle().clone();
    Running {
        node,
        task: tokio::spawn(follower.run()),
        _folder: folder,
    }
}

/// A clock at which the genesis of these tests is new.
pub(crate) fn clock_of_genesis() -> WallClock {
    WallClock::new(|_| UNIX_EPOCH)
}

/// Makes transfers until this height is final.
async fn grow(network: &Network, node: &NodeHandle, height: u64) {
    let mut nonce = network.nonce(&node.snapshot().state, 0);
    while node.status().height < height {
        node.submit(network.transfer(0, nonce)).await.unwrap();
        nonce += 1;
        wait_for(node, "a transfer", |state| network.nonce(state, 0) == nonce).await;
    }
}

async fn reach(node: &NodeHandle, height: u64) {
    wait_for(node, "the validators' height", |state| {
        state.head().height.get() >= height
    })
    .await;
}

#[tokio::test]
async fn a_follower_has_what_validators_have_and_hands_on_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let honest: Vec<_> = validators
        .handles()
        .map(|node| Source::new(node, Honesty::Honest))
        .collect();
    let follower = follow(&network, &honest, false).await;
    let mut blocks = follower.node.subscribe();
    let signed = network.transfer(0, 0);
    let id = follower.node.submit(signed.clone()).await.unwrap();
    wait_for(&follower.node, "its own transfer", |state| {
        network.nonce(state, 0) == 1
    })
    .await;
    let fate = follower.node.transaction_status(&id).unwrap();
    assert!(
        matches!(fate, tg_node::TransactionStatus::Final { .. }),
        "{fate:?}"
    );
    assert_eq!(blocks.recv().await.unwrap().block.header.height.get(), 1);
    // One in f + 1 = 2 is honest.
    let handed: Vec<usize> = honest
        .iter()
        .map(|it| it.handed.load(Ordering::Relaxed))
        .collect();
    assert_eq!(handed.iter().filter(|count| **count > 0).count(), 2);
    // What the ledger refuses is refused here.
    let error = follower.node.submit(signed).await.unwrap_err();
    assert!(matches!(error, SubmitError::Refused(_)), "{error:?}");
    let broke = tg_types::Wallet::from_seed(b"nobody");
    let transfer = Transaction::Transfer {
        to: broke.address(),
        amount: tg_types::Amount::new(1),
    };
    let error = follower
        .node
        .submit(broke.sign(transfer, 0, &network.genesis.domain))
        .await;
    assert!(matches!(error, Err(SubmitError::Refused(_))), "{error:?}");
    assert_agree(validators.handles().chain([&follower.node]));
    // It shows what it has: another can follow it.
    let height = follower.node.status().height;
    let second = Source::new(&follower.node, Honesty::Honest);
    let second = follow(&network, &[second], false).await;
    reach(&second.node, height).await;
    assert_agree([&follower.node, &second.node]);
    let shown = second.node.shown_final(height).unwrap().unwrap();
    let root = network.genesis.trust_root().unwrap();
    assert_eq!(shown.check(&root).unwrap().height.get(), height);
    validators.shutdown();
}

#[tokio::test]
async fn a_source_that_lies_is_left_for_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let node = validators.handle(0);
    grow(&network, node, 3).await;
    for honesty in [
        Honesty::ChangesBlocks,
        Honesty::LeavesOut,
        Honesty::WithoutProof,
        Honesty::OldCertificate,
        Honesty::Silent,
    ] {
        let liar = Source::new(node, honesty);
        // Alone it gets nowhere, and nothing false is shown.
        let alone = follow(&network, std::slice::from_ref(&liar), false).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(alone.node.status().height, 0, "{honesty:?}");
        assert!(alone.node.status().running, "{honesty:?}");
        assert!(liar.asked.load(Ordering::Relaxed) > 0);
        // Beside an honest one it costs a page.
        let liar = Source::new(node, honesty);
        let both = [liar, Source::new(validators.handle(1), Honesty::Honest)];
        let beside = follow(&network, &both, false).await;
        reach(&beside.node, 3).await;
        assert_agree([node, &beside.node]);
    }
    validators.shutdown();
}

#[tokio::test]
async fn a_source_that_hides_blocks_is_left_for_one_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    grow(&network, validators.handle(0), 6).await;
    for (nonce, honesty) in [(0, Honesty::Hides), (1, Honesty::HidesAll)] {
        let sources = [
            Source::new(validators.handle(0), honesty),
            Source::new(validators.handle(1), Honesty::Honest),
        ];
        let follower = follow(&network, &sources, false).await;
        reach(&follower.node, 6).await;
        // It takes transactions and keeps them; the other one hands them on.
        let transfer = network.transfer(1, nonce);
        follower.node.submit(transfer).await.unwrap();
        wait_for(&follower.node, "the transfer", |state| {
            network.nonce(state, 1) == nonce + 1
        })
        .await;
    }
    validators.shutdown();
}

#[tokio::test]
async fn a_source_that_is_cut_off_in_the_middle_of_a_call_is_left_soon() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let node = validators.handle(1);
    grow(&network, node, 2).await;
    let cut = Source::new(validators.handle(0), Honesty::Honest);
    let sources = [cut.clone(), Source::new(node, Honesty::Honest)];
    let follower = follow(&network, &sources, false).await;
    reach(&follower.node, 2).await;
    cut.is_cut_off.store(true, Ordering::Relaxed);
    let since = Instant::now();
    let height = node.status().height + 2;
    grow(&network, node, height).await;
    reach(&follower.node, height).await;
    // Two and a half seconds, and what a machine with other work adds; it was as long as the call.
    assert!(since.elapsed() < Duration::from_secs(8));
    // It is not asked again and again while others answer.
    let asked = cut.asked.load(Ordering::Relaxed);
    let height = node.status().height + 20;
    grow(&network, node, height).await;
    reach(&follower.node, height).await;
    assert!(cut.asked.load(Ordering::Relaxed) < asked + 10);
    validators.shutdown();
}

#[tokio::test]
async fn an_empty_follower_begins_at_a_snapshot_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let node = validators.handle(0);
    grow(&network, node, 40).await;
    let liar = Source::new(node, Honesty::ForgesState);
    let alone = follow(&network, std::slice::from_ref(&liar), true).await;
    // The forged one is refused, and the source's blocks since genesis are taken.
    assert_eq!(alone.node.snapshot().block.header.height.get(), 0);
    reach(&alone.node, 40).await;
    let sources = [liar, Source::new(node, Honesty::Honest)];
    let follower = follow(&network, &sources, true).await;
    reach(&follower.node, 40).await;
    assert!(
        follower.node.block(1).unwrap().is_none(),
        "began at genesis"
    );
    let (ours, theirs) = (follower.node.snapshot(), node.snapshot());
    let height = ours.block.header.height.min(theirs.block.header.height);
    assert!(height.get() >= 40);
    assert!(ours.state.money().is_conserved());
    assert_eq!(
        follower.node.block(height.get()).unwrap(),
        node.block(height.get()).unwrap()
    );
    // It serves what it has, and says what it has not.
    assert!(follower.node.chain_page(1).unwrap().is_none());
    assert!(
        !follower
            .node
            .chain_page(40)
            .unwrap()
            .unwrap()
            .blocks
            .is_empty()
    );
    let third = Source::new(&follower.node, Honesty::Honest);
    let third = follow(&network, &[third], true).await;
    reach(&third.node, 40).await;
    validators.shutdown();
}

#[tokio::test]
async fn blobs_are_fetched_when_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(4);
    let validators = network.start(folder.path());
    let digest = validators.handle(2).blobs().put(b"an input", 100).unwrap();
    let sources = [
        Source::new(validators.handle(1), Honesty::Honest),
        Source::new(validators.handle(2), Honesty::Hides),
        Source::new(validators.handle(2), Honesty::Honest),
    ];
    let follower = follow(&network, &sources, false).await;
    follower.node.needs_blob(digest);
    let since = Instant::now();
    while !follower.node.blobs().contains(&digest) {
        assert!(since.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let got = follower.node.blobs().get(&digest, 100).unwrap();
    assert_eq!(got.as_deref(), Some(&b"an input"[..]));
    validators.shutdown();
}

/// A follower of one honest source, so many days from now.
async fn begun(
    network: &Network,
    node: &NodeHandle,
    (checkpoint, days): (Option<Checkpoint>, u64),
    folder: &Path,
) -> Result<Follower, OpenError> {
    let sources: Vec<Arc<dyn ChainSource>> = vec![honest_source(node)];
    let genesis = network.genesis.clone();
    let mut config = FollowerConfig::new(genesis, folder.to_owned(), sources);
    config.checkpoint = checkpoint;
    config.wall = WallClock::new(move |now| now + Duration::from_secs(days * 24 * 3_600));
    Follower::open(config).await
}

/// The genesis of these tests is of 1970, so that nobody follows from it without a checkpoint.
#[tokio::test]
async fn an_old_chain_is_followed_from_a_checkpoint_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::new(4);
    network.genesis.parameters.unbonding = DurationMs::from_secs(4 * 24 * 3_600);
    let validators = network.start(folder.path());
    let node = validators.handle(0);
    grow(&network, node, 40).await;
    let own = |name: &str| folder.path().join(name);
    let old = begun(&network, node, (None, 0), &own("old")).await;
    assert!(matches!(old, Err(OpenError::Old(_))), "{old:?}");
    // Below the newest snapshot and above it; there is one every 32 blocks.
    for height in [5, 39] {
        let checkpoint = node.checkpoint(Some(height)).unwrap().unwrap().checkpoint();
        let name = format!("fits {height}");
        let follower = begun(&network, node, (Some(checkpoint), 0), &own(&name)).await;
        let follower = follower.unwrap();
        let handle = follower.handle().clone();
        assert!(handle.status().height > 0, "it began at a snapshot");
        let task = tokio::spawn(follower.run());
        reach(&handle, 40).await;
        assert!(handle.status().running);
        task.abort();
        task.await.unwrap_err();
        drop(handle);
        // From then on it knows a young block, until it was away for too long.
        drop(begun(&network, node, (None, 2), &own(&name)).await.unwrap());
        let old = begun(&network, node, (None, 4), &own(&name)).await;
        assert!(matches!(old, Err(OpenError::Old(_))), "{old:?}");
        // A checkpoint that its own blocks contradict.
        let other = Checkpoint {
            block: BlockId::new([7; 32]),
            ..checkpoint
        };
        let other = begun(&network, node, (Some(other), 2), &own(&name)).await;
        let kept = matches!(other, Err(OpenError::Checkpoint(_)));
        // What is below a snapshot is not here to compare.
        assert_eq!(kept, height == 39, "{other:?}");
    }
    // A checkpoint of another chain: the follower stops there, and says why.
    let block = BlockId::new([7; 32]);
    let height = Height::new(node.status().height + 3);
    let wrong = Checkpoint { height, block };
    let follower = begun(&network, node, (Some(wrong), 0), &own("wrong")).await;
    let follower = follower.unwrap();
    let handle = follower.handle().clone();
    let task = tokio::spawn(follower.run());
    grow(&network, node, height.get() + 1).await;
    wait_until_stopped(&handle).await;
    let reason = handle.status().stopped.unwrap();
    assert!(reason.contains("the checkpoint says"), "{reason}");
    assert!(handle.status().height < height.get());
    task.await.unwrap();
    validators.shutdown();
}

async fn wait_until_stopped(node: &NodeHandle) {
    let since = Instant::now();
    while node.status().stopped.is_none() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "it does not stop"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
