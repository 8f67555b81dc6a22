//! `tensorgrid bench accounts`: what a ledger of very many accounts costs, beside one of 1,000.
//!
//! Two states are made of geneses in memory, which no file of a genesis could hold, and the same transfers are put into blocks and
//! applied on both. Then this process is a network of one validator with the large ledger, which makes blocks until it has a snapshot,
//! and serves it; a second process, which this one starts, begins at that snapshot as a gateway does, checks it, and follows until it
//! is as far as this one was. It has the same genesis, so it makes the state of that first, as every node does: with a genesis of a
//! usual size that takes nothing, so what it takes here is told apart.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tg_api::{ApiConfig, ApiListener, GridPort};
use tg_ledger::{
    Block, ConsensusKey, Genesis, Parameters, Proposal, State, Validator, apply_once,
    development_domain, propose_from,
};
use tg_node::limits::SNAPSHOT_INTERVAL;
use tg_node::{
    ChainSource, EmbeddedConfig, Follower, FollowerConfig, NodeHandle, ProofChecker, ValidatorKey,
    spawn_validators,
};
use tg_sdk::clock;
use tg_types::{
    Address, Amount, ChainDomain, CheckedSignatures, DurationMs, SignedTransaction, TimestampMs,
    Transaction, Wallet,
};

use crate::cli::BenchAccountsArguments;
use crate::grid::embedded::{API_PATIENCE, STAKE, UNBONDING};
use crate::grid::port::NodePort;
use crate::network::uplinks::HttpSource;
use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_offline::measure::{Moment, peak_memory_mib, reset_peak_memory};
use tg_offline::scratch::ScratchFolder;

/// Accounts of the small ledger.
const SMALL: usize = 1_000;

/// Accounts that send, each its part of the transfers.
const SENDERS: usize = 100;

/// What each of them has, for the fees of many transfers.
const FUNDS: Amount = Amount::from_tgrid(1_000);

/// What all others have.
const BALANCE: Amount = Amount::from_tgrid(1);

/// Transfers in one block: about what blocks of a grid under load have (`bench grid`), and a fifth of what gas has room for.
const BLOCK_TRANSFERS: usize = 100;

/// Time between blocks.
const BLOCK_TIME: DurationMs = DurationMs::new(100);

/// How long the first snapshot may take, and the join.
const PATIENCE: Duration = Duration::from_secs(900);

/// How often it is looked whether something has come.
const TICK: Duration = Duration::from_millis(10);

/// What a ledger takes: milliseconds of CPU for 1,000 transfers.
#[derive(Debug, Clone, Copy, Serialize)]
struct LedgerCost {
    /// To make blocks of them, with each signature looked at.
    propose_ms: f64,
    /// To apply those blocks, with each signature looked at.
    apply_ms: f64,
    /// To apply them when the signatures were looked at as the transfers arrived.
    apply_known_ms: f64,
}

impl LedgerCost {
    const fn rows(&self) -> [(&'static str, f64); 3] {
        [
            ("propose", self.propose_ms),
            ("apply", self.apply_ms),
            ("apply, signatures known", self.apply_known_ms),
        ]
    }
}

/// What a newcomer took to begin at a snapshot and to catch up.
#[derive(Debug, Serialize, Deserialize)]
struct NewcomerCost {
    /// From nothing until it is as far as the node was.
    wall_ms: f64,
    cpu_ms: f64,
    /// Of these, until the snapshot was read, checked and on disk.
    open_wall_ms: f64,
    open_cpu_ms: f64,
    peak_mib: f64,
    /// What the state of genesis alone took, which is in all of these too: a usual one has few accounts.
    genesis_wall_ms: f64,
    genesis_cpu_ms: f64,
    /// The height of the snapshot.
    height: u64,
}

/// A join as both processes saw it.
#[derive(Debug, Serialize)]
struct JoinCost {
    snapshot_bytes: usize,
    newcomer: NewcomerCost,
    node_cpu_ms: f64,
    node_peak_mib: f64,
}

/// All that is measured.
#[derive(Debug, Serialize)]
struct AccountsReport {
    small_accounts: usize,
    large_accounts: usize,
    transfers: usize,
    runs: u32,
    small: LedgerCost,
    large: LedgerCost,
    ledgers_peak_mib: f64,
    join: JoinCost,
}

/// Measures, or is the second process.
pub(crate) async fn run(arguments: &BenchAccountsArguments, as_json: bool) -> Outcome {
    if let (Some(url), Some(into)) = (&arguments.join, &arguments.into) {
        let joined = newcomer(arguments, url, into).await?;
        return super::json_of(&joined);
    }
    let founded = clock::now();
    let large_accounts = arguments.accounts as usize;
    let domain = development_domain();
    let transfers = transfers(arguments.transactions as usize, &domain);
    reset_peak_memory();
    say(format_args!(
        "{} transfers on {SMALL} and on {large_accounts} accounts, {} times each",
        transfers.len(),
        arguments.runs
    ));
    let measure = |count| {
        tokio::task::block_in_place(|| {
            ledger_cost(&genesis(count, founded), &transfers, arguments.runs)
        })
    };
    let (small, large) = (measure(SMALL)?, measure(large_accounts)?);
    let ledgers_peak_mib = peak_memory_mib().unwrap_or(0.0);
    let report = AccountsReport {
        small_accounts: SMALL,
        large_accounts,
        transfers: transfers.len(),
        runs: arguments.runs,
        small,
        large,
        ledgers_peak_mib,
        join: join(large_accounts, founded).await?,
    };
    tell(&report, as_json)
}

fn failed(text: &str) -> Failure {
    Failure::new(Exit::Failed, anyhow::anyhow!("{text}"))
}

/// An account that sends.
fn sender(index: usize) -> Wallet {
    accounts::wallet(&format!("bench sender {index}"))
}

/// Accounts of nobody; the first ones are the same however many there are.
fn others(count: usize) -> impl Iterator<Item = Address> {
    let mut state = 1_u64;
    (0..count).map(move |_| {
        let mut bytes = [0; 20];
        for part in bytes.chunks_mut(8) {
            // The steps of a 64-bit xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let length = part.len();
            part.copy_from_slice(&state.to_le_bytes()[..length]);
        }
        Address::new(bytes)
    })
}

/// Accounts beside the senders and the validator's own.
const fn rest_of(count: usize) -> usize {
    count - SENDERS - 1
}

/// A network of one validator with so many accounts.
fn genesis(count: usize, founded: TimestampMs) -> Genesis {
    let validator = accounts::wallet(&accounts::validator(0)).address();
    let senders = (0..SENDERS).map(|index| (sender(index).address(), FUNDS));
    let rest = others(rest_of(count)).map(|address| (address, BALANCE));
    let mut balances: Vec<(Address, Amount)> = senders
        .chain(std::iter::once((validator, FUNDS)))
        .chain(rest)
        .collect();
    balances.sort_unstable_by_key(|(address, _)| *address);
    Genesis {
        domain: development_domain(),
        parameters: Parameters {
            unbonding: UNBONDING,
            ..Parameters::development().wide_enough_for(1)
        },
        timestamp: founded,
        accounts: balances,
        validators: vec![Validator {
            address: validator,
            key: ConsensusKey::new(ValidatorKey::from_seed(0).public()),
            stake: STAKE,
        }],
    }
}

/// Transfers to accounts that both ledgers have.
fn transfers(count: usize, domain: &ChainDomain) -> Vec<SignedTransaction> {
    let senders: Vec<Wallet> = (0..SENDERS).map(sender).collect();
    let receivers: Vec<Address> = others(rest_of(SMALL)).collect();
    let transfer = |index: usize| {
        let transaction = Transaction::Transfer {
            to: receivers[index % receivers.len()],
            amount: Amount::new(1),
        };
        let nonce = (index / SENDERS) as u64;
        senders[index % SENDERS].sign(transaction, nonce, domain)
    };
    (0..count).map(transfer).collect()
}

/// The medians of runs on the state of a genesis.
fn ledger_cost(
    genesis: &Genesis,
    transfers: &[SignedTransaction],
    runs: u32,
) -> Result<LedgerCost, Failure> {
    let state = State::genesis(genesis).or_fail(Exit::Failed, "make a state")?;
    let mut costs = Vec::new();
    for _ in 0..runs {
        costs.push(run_once(&state, transfers)?);
    }
    let scale = 1e3 / transfers.len() as f64;
    let median = |of: fn(&LedgerCost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        scale * all.get(all.len() / 2).copied().unwrap_or(0.0)
    };
    Ok(LedgerCost {
        propose_ms: median(|it| it.propose_ms),
        apply_ms: median(|it| it.apply_ms),
        apply_known_ms: median(|it| it.apply_known_ms),
    })
}

/// Proposes and applies all transfers once: milliseconds of CPU.
fn run_once(state: &State, transfers: &[SignedTransaction]) -> Result<LedgerCost, Failure> {
    let known = CheckedSignatures::new(transfers.len());
    let start = Moment::now();
    let blocks = proposed(state, transfers, &known)?;
    let propose_ms = start.cost().cpu_ms;
    Ok(LedgerCost {
        propose_ms,
        apply_ms: applied(state, &blocks, &CheckedSignatures::none())?,
        apply_known_ms: applied(state, &blocks, &known)?,
    })
}

/// The transfers in blocks, one on the other.
fn proposed(
    state: &State,
    transfers: &[SignedTransaction],
    signatures: &CheckedSignatures,
) -> Result<Vec<Block>, Failure> {
    let proposer = state.validators().first().map(|it| it.address);
    let proposer = proposer.ok_or_else(|| failed("a genesis has a validator"))?;
    let mut blocks = Vec::new();
    let mut tip: Option<State> = None;
    for chunk in transfers.chunks(BLOCK_TRANSFERS) {
        let parent = tip.as_ref().unwrap_or(state);
        let time = parent.head().timestamp.saturating_add(BLOCK_TIME);
        let chosen: Vec<_> = chunk.to_vec();
        let mut candidates = chosen.into_iter();
        let proposal = Proposal::empty(proposer, time);
        let made = propose_from(parent, proposal, &mut candidates, signatures);
        let made = made.or_fail(Exit::Failed, "propose a block")?;
        if made.block.transactions.len() < chunk.len() {
            return Err(failed("a transfer has no place in its block"));
        }
        blocks.push(made.block);
        tip = Some(made.state);
    }
    Ok(blocks)
}

/// Applies the blocks: milliseconds of CPU.
fn applied(
    state: &State,
    blocks: &[Block],
    signatures: &CheckedSignatures,
) -> Result<f64, Failure> {
    let start = Moment::now();
    let mut tip: Option<State> = None;
    for block in blocks {
        let parent = tip.as_ref().unwrap_or(state);
        let next = apply_once(parent, block, signatures);
        let (next, _events) = next.or_fail(Exit::Failed, "apply a block")?;
        tip = Some(next);
    }
    Ok(start.cost().cpu_ms)
}

/// Runs the node that has the accounts, and the newcomer in a second process.
async fn join(accounts: usize, founded: TimestampMs) -> Result<JoinCost, Failure> {
    let folder = ScratchFolder::new()?;
    say("starting a node; its data are removed afterwards");
    let api = ApiConfig {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        ..ApiConfig::default()
    };
    let listener = ApiListener::bind(api.listen).await;
    let listener = listener.or_fail(Exit::Failed, "listen on loopback")?;
    let directory = folder.path().join("node");
    let started = tokio::task::spawn_blocking(move || {
        let key = ValidatorKey::from_seed(0);
        let checker = Arc::new(ProofChecker::default());
        let genesis = genesis(accounts, founded);
        let mut config = EmbeddedConfig::new(genesis, vec![key], directory, checker);
        // The first snapshot comes after some blocks, which nobody has to wait for.
        config.timers.idle = config.timers.busy;
        spawn_validators(config)
    })
    .await?;
    let validators = started.or_fail(Exit::Failed, "start a validator")?;
    let node = validators.handle(0).clone();
    let port = Arc::new(NodePort::alone(node.clone(), "bench".to_owned()));
    let server = listener.serve(port as Arc<dyn GridPort>, api);
    let snapshot_bytes = first_snapshot(&node).await?;
    let height = node.status().height;
    say(format_args!(
        "a newcomer begins at a snapshot of {} MB and follows to block {height}",
        snapshot_bytes / 1_000_000
    ));
    reset_peak_memory();
    let start = Moment::now();
    let (url, into) = (server.url(), folder.path().join("newcomer"));
    let newcomer = tokio::task::block_in_place(|| {
        let accounts = accounts.to_string();
        let (height, founded) = (height.to_string(), founded.get().to_string());
        second([&accounts, &url, &height, &founded], &into)
    })?;
    let (node_cpu_ms, node_peak_mib) = (start.cost().cpu_ms, peak_memory_mib().unwrap_or(0.0));
    server.stop(API_PATIENCE).await;
    tokio::task::spawn_blocking(move || validators.shutdown()).await?;
    Ok(JoinCost {
        snapshot_bytes,
        newcomer,
        node_cpu_ms,
        node_peak_mib,
    })
}

/// Waits for the first snapshot; its bytes.
async fn first_snapshot(node: &NodeHandle) -> Result<usize, Failure> {
    let since = Instant::now();
    loop {
        let status = node.status();
        // Read only once it may be there: it is large.
        if status.height > SNAPSHOT_INTERVAL {
            let read = tokio::task::block_in_place(|| node.chain_snapshot());
            if let Some((_, state)) = read.or_fail(Exit::Failed, "read the snapshot")? {
                return Ok(state.len());
            }
        }
        if let Some(reason) = status.stopped {
            return Err(failed(&format!("the node stopped by itself: {reason}")));
        }
        if since.elapsed() > PATIENCE {
            return Err(failed("the node made no snapshot"));
        }
        tokio::time::sleep(10 * TICK).await;
    }
}

/// Runs this program as the newcomer: accounts, address of the node, height, and time of genesis.
fn second(
    [accounts, url, height, founded]: [&str; 4],
    into: &Path,
) -> Result<NewcomerCost, Failure> {
    let doing = "measure in a second process";
    let program = std::env::current_exe().or_fail(Exit::Failed, "find this program")?;
    let mut command = Command::new(program);
    command.args(["--json", "bench", "accounts", "--accounts", accounts]);
    command.args(["--join", url, "--height", height, "--founded", founded]);
    command.arg("--into").arg(into);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command
        .spawn()
        .or_fail(Exit::Failed, "start a second process")?;
    let output = child.wait_with_output().or_fail(Exit::Failed, doing)?;
    serde_json::from_slice(&output.stdout).or_fail(Exit::Failed, doing)
}

/// Begins at a node's snapshot as a gateway does, and follows.
async fn newcomer(
    arguments: &BenchAccountsArguments,
    url: &str,
    into: &Path,
) -> Result<NewcomerCost, Failure> {
    let founded = TimestampMs::new(arguments.founded);
    let genesis = genesis(arguments.accounts as usize, founded);
    let start = Moment::now();
    let state = State::genesis(&genesis).or_fail(Exit::Failed, "make the state of genesis")?;
    let of_genesis = start.cost();
    drop(state);
    reset_peak_memory();
    let source = HttpSource::new(url).or_fail(Exit::Usage, "name the node")?;
    let sources = vec![Arc::new(source) as Arc<dyn ChainSource>];
    let config = FollowerConfig::new(genesis, into.to_owned(), sources);
    let start = Moment::now();
    let follower = Follower::open(config).await;
    let follower = follower.or_fail(Exit::Failed, "begin at a snapshot")?;
    let opened = start.cost();
    let node = follower.handle().clone();
    let height = node.status().height;
    if height == 0 {
        return Err(failed("the snapshot was not taken: it began at genesis"));
    }
    let running = tokio::spawn(follower.run());
    let since = Instant::now();
    while node.status().height < arguments.height {
        if let Some(reason) = node.status().stopped {
            return Err(failed(&format!("the newcomer stopped by itself: {reason}")));
        }
        if since.elapsed() > PATIENCE {
            return Err(failed("the newcomer does not catch up"));
        }
        tokio::time::sleep(TICK).await;
    }
    let joined = start.cost();
    running.abort();
    Ok(NewcomerCost {
        wall_ms: joined.wall_ms,
        cpu_ms: joined.cpu_ms,
        open_wall_ms: opened.wall_ms,
        open_cpu_ms: opened.cpu_ms,
        peak_mib: peak_memory_mib().unwrap_or(0.0),
        genesis_wall_ms: of_genesis.wall_ms,
        genesis_cpu_ms: of_genesis.cpu_ms,
        height,
    })
}

fn tell(report: &AccountsReport, as_json: bool) -> Outcome {
    if as_json {
        return super::json_of(report);
    }
    let AccountsReport {
        small_accounts,
        large_accounts,
        small,
        large,
        ledgers_peak_mib,
        join,
        ..
    } = report;
    line(format_args!(
        "{:<28}{small_accounts:>11} acc.{large_accounts:>11} acc.{:>8}",
        "CPU ms of 1,000 transfers", "ratio"
    ))?;
    for ((name, few), (_, many)) in small.rows().into_iter().zip(large.rows()) {
        let ratio = many / few.max(1e-9);
        line(format_args!(
            "{name:<28}{few:>16.1}{many:>16.1}{ratio:>8.2}"
        ))?;
    }
    line(format_args!(
        "medians of {} runs of {} transfers, peak {ledgers_peak_mib:.0} MiB; held to a ratio of 2",
        report.runs, report.transfers
    ))?;
    let JoinCost {
        snapshot_bytes,
        newcomer,
        node_cpu_ms,
        node_peak_mib,
    } = join;
    line(format_args!(
        "join over loopback: {:.2} s, {:.2} s of CPU, peak {:.0} MiB; held to 120 s",
        newcomer.wall_ms / 1e3,
        newcomer.cpu_ms / 1e3,
        newcomer.peak_mib
    ))?;
    line(format_args!(
        "of it until the snapshot of {snapshot_bytes} bytes (block {}) was read, checked and on disk: {:.2} s, {:.2} s of CPU",
        newcomer.height,
        newcomer.open_wall_ms / 1e3,
        newcomer.open_cpu_ms / 1e3
    ))?;
    line(format_args!(
        "of it the state of a genesis with all accounts, which a network does not have: {:.2} s, {:.2} s of CPU",
        newcomer.genesis_wall_ms / 1e3,
        newcomer.genesis_cpu_ms / 1e3
    ))?;
    line(format_args!(
        "the node that serves it meanwhile: {:.2} s of CPU, peak {node_peak_mib:.0} MiB",
        node_cpu_ms / 1e3
    ))?;
    Ok(())
}
