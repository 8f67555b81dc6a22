//! How long an honest order takes to be paid where an attacker has filled the market: through four validators in this
//! process that vote, with real block times.
//!
//! The market is that of `tg-ledger`'s example `crowd` (65,000 offers, 8,900 waiting orders, 1,000 gang orders), made by
//! blocks of one validator beside the network and put into the stores of all four as their last snapshot; consensus begins
//! there as it does after an operator's restart. Then honest orders come one after the other, for a machine in the one
//! region where no machine is the attacker's: whoever underbids and does not serve is another attack. The provider reacts
//! to each final block; the work itself takes no time, and no proof is made (mode `none`). In every block the attacker sends
//! what its shape says.
//!
//! `cargo run --release -p tg-node --example crowd [-- WORDS OF A SHAPE'S NAME]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    reason = "an example that measures, with parts of another one"
)]

#[path = "../../../tg-ledger/examples/crowd/chain.rs"]
mod chain;
#[path = "../../../tg-ledger/examples/crowd/crowd.rs"]
mod crowd;
#[path = "../../../tg-ledger/examples/crowd/shape.rs"]
mod shape;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crowd::Crowd;
use redb::{Database, TableDefinition};
use shape::{SHAPES, Shape};
use tg_ledger::{ConsensusKey, EvidenceTask, JobState, Outcome, Parameters, State, Validator};
use tg_node::{
    BlobStore, CheckError, EmbeddedConfig, EvidenceChecker, NodeHandle, ValidatorKey,
    spawn_validators,
};
use tg_types::{
    Amount, Digest, Encode as _, JobId, JobNeeds, LeaseId, Receipt, RegionSet, Tier, TimestampMs,
    Transaction, VerificationMode, Wallet, job_id,
};

/// Honest orders, one after the other.
const ORDERS: usize = 10;

/// Before the first order: validators connect, and the pause since the market was made is over.
const SETTLE: Duration = Duration::from_secs(30);

/// The tables of a validator's store that hold the chain.
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const BLOCKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
const HEIGHTS: TableDefinition<'_, [u8; 32], u64> = TableDefinition::new("heights");
const SNAPSHOTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshots");

#[derive(Debug)]
struct NoEvidence;

impl EvidenceChecker for NoEvidence {
    fn check(&self, task: &EvidenceTask, _: &BlobStore) -> Result<Outcome, CheckError> {
        panic!("no evidence was expected, got {task:?}");
    }
}

fn voters(keys: &[ValidatorKey]) -> Vec<Validator> {
    let mut voters: Vec<Validator> = keys
        .iter()
        .map(|key| Validator {
            address: Wallet::from_seed(&key.public()).address(),
            key: ConsensusKey::new(key.public()),
            stake: Amount::from_tgrid(1),
        })
        .collect();
    voters.sort_unstable_by_key(|voter| voter.address);
    voters
}

/// Puts the chain's last block and its state into a validator's store.
fn put_snapshot(path: &Path, crowd: &Crowd) {
    let block = crowd.chain.last.as_ref().unwrap();
    let height = block.header.height.get();
    let write = Database::create(path).unwrap().begin_write().unwrap();
    {
        let mut blocks = write.open_table(BLOCKS).unwrap();
        blocks.insert(height, block.to_bytes().as_slice()).unwrap();
        let mut heights = write.open_table(HEIGHTS).unwrap();
        heights.insert(*block.id().as_bytes(), height).unwrap();
        let mut snapshots = write.open_table(SNAPSHOTS).unwrap();
        let state = crowd.chain.state.to_bytes();
        snapshots.insert(height, state.as_slice()).unwrap();
        let mut meta = write.open_table(META).unwrap();
        let bytes = height.to_le_bytes();
        meta.insert("height", bytes.as_slice()).unwrap();
    }
    write.commit().unwrap();
}

fn state(handle: &NodeHandle) -> Arc<State> {
    handle.snapshot().state.clone()
}

/// An order that only the honest machine serves.
fn needs() -> JobNeeds {
    JobNeeds {
        regions: RegionSet::from_bits(1 << 2),
        ..Shape::honest_job()
    }
}

/// Waits for the next final block in which `found` has an answer.
async fn wait<T>(handle: &NodeHandle, found: impl Fn(&State) -> Option<T>) -> T {
    loop {
        if let Some(it) = found(&state(handle)) {
            return it;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn send(crowd: &mut Crowd, handle: &NodeHandle, what: Transaction) -> Digest {
    let honest = crowd.honest;
    let signed = crowd.chain.sign(honest, what);
    let id = signed.id(crowd.chain.state.domain());
    handle.submit(signed).await.unwrap();
    Digest::new(*id.as_bytes())
}

/// One order to its payment: seconds until it was leased, and until it was paid.
async fn order(crowd: &mut Crowd, handle: &NodeHandle) -> (f64, f64) {
    let order = crowd.order_of(VerificationMode::None, needs());
    let order = tg_types::JobOrder {
        deadline: TimestampMs::new(state(handle).head().time.get() + 3_600_000),
        ..order
    };
    let receipt = Receipt {
        program: tg_types::ProgramId::new([0x10; 32]),
        model: order.model,
        input: order.input,
        output: Digest::new([0x41; 32]),
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    let begun = Instant::now();
    let honest = crowd.honest;
    let signed = crowd.chain.sign(honest, Transaction::SubmitJob { order });
    let job: JobId = job_id(signed.id(crowd.chain.state.domain()));
    handle.submit(signed).await.unwrap();
    let lease: LeaseId = wait(handle, |it| it.job(&job)?.live_lease()).await;
    let leased = begun.elapsed().as_secs_f64();
    send(crowd, handle, Transaction::StartLease { lease }).await;
    let running = |it: &State| (it.job(&job)?.state == JobState::Running).then_some(());
    wait(handle, running).await;
    send(crowd, handle, Transaction::CommitReceipt { lease, receipt }).await;
    let paid = |it: &State| (it.job(&job)?.state == JobState::Paid).then_some(());
    wait(handle, paid).await;
    (leased, begun.elapsed().as_secs_f64())
}

async fn measure(mut crowd: Crowd, handle: NodeHandle) {
    tokio::time::sleep(SETTLE).await;
    let mut times = Vec::new();
    for _ in 0..ORDERS {
        // What the attacker sends in a block; what finds no room or comes too early is refused.
        for signed in crowd.churn() {
            let _ = handle.submit(signed).await;
        }
        let height = handle.status().height;
        let (leased, paid) = order(&mut crowd, &handle).await;
        let blocks = handle.status().height - height;
        println!("leased after {leased:.1} s, paid after {paid:.1} s and {blocks} blocks");
        times.push(paid);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{}: paid after {:.1} s in the middle, {:.1} at most",
        crowd.shape.name,
        times[times.len() / 2],
        times[times.len() - 1]
    );
}

fn main() {
    let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let shape = SHAPES.iter().find(|it| it.name.contains(&words)).unwrap();
    let keys: Vec<ValidatorKey> = (0..4).map(ValidatorKey::from_seed).collect();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = u64::try_from(now.unwrap().as_millis()).unwrap();
    // The blocks that fill the market are 0.4 s apart.
    let begun = TimestampMs::new(now - 300_000);
    let mut crowd = Crowd::new(shape, voters(&keys), begun);
    crowd.fill();
    let waiting = crowd.chain.state.queued_jobs().count();
    let offers = crowd.chain.state.offers().len();
    println!("{}: {offers} offers, {waiting} orders wait", shape.name);
    assert_eq!(*crowd.chain.state.parameters(), Parameters::development());
    let directory = tempfile::tempdir().unwrap();
    let mut config = EmbeddedConfig::new(
        crowd.chain.genesis.clone(),
        keys,
        directory.path().to_path_buf(),
        Arc::new(NoEvidence),
    );
    spawn_validators(config.clone()).unwrap().shutdown();
    for index in 0..4 {
        let folder = directory.path().join(format!("validator-{index}"));
        put_snapshot(&folder.join("chain.redb"), &crowd);
    }
    config.new_epoch = true;
    let validators = spawn_validators(config).unwrap();
    let handle = validators.handle(0).clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(measure(crowd, handle));
    validators.shutdown();
}
