//! Orders jobs without a pause, in every way of checking, through every gateway.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::draw::SeededDraw;
use super::fleet::{Fleet, Participant};

/// Ways of checking: those of the story are drawn alike.
pub(crate) const MODES: [&str; 5] = ["none", "sync", "optimistic", "recompute", "proof"];

/// Pause of a generator between two orders.
const PAUSE: Duration = Duration::from_millis(1_500);

/// How long one command may take.
const COMMAND_MAX: Duration = Duration::from_secs(90);

/// Seconds that a job may take: longer than any fault of the run.
const DEADLINE_S: &str = "150";

/// Most that is paid: above what honest providers ask. The usual bound is twice what the third cheapest asks, and the three
/// cheapest cheat.
const PRICE_MAX: &str = "0.1";

/// A job whose order was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct AcknowledgedOrder {
    /// Its id.
    pub(crate) id: String,
    /// How it is checked.
    pub(crate) mode: &'static str,
}

/// What generators did.
#[derive(Debug, Default)]
pub(crate) struct OrderLog {
    /// Acknowledged ones.
    pub(crate) ordered: Vec<AcknowledgedOrder>,
    /// What was said instead of an acknowledgement.
    pub(crate) refused: Vec<String>,
}

/// Who orders: a program, a gateway and the key of an account of its own.
#[derive(Debug, Clone)]
pub(crate) struct Orderer {
    /// The program.
    pub(crate) binary: PathBuf,
    /// Its folder.
    pub(crate) root: PathBuf,
    /// Where it orders.
    pub(crate) url: String,
    /// What it signs with.
    pub(crate) key: PathBuf,
    /// What is shown is proved by: a gateway on another host is not believed.
    pub(crate) genesis: PathBuf,
    /// Its account.
    pub(crate) address: String,
}

impl Orderer {
    /// What a command prints as JSON.
    ///
    /// # Errors
    /// If it fails or takes too long.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(&self.root);
        command
            .env("TENSORGRID_API", &self.url)
            .env("TENSORGRID_KEY", &self.key)
            .env("TENSORGRID_GENESIS", &self.genesis)
            // Each keeps what it knows of the chain for itself.
            .env("TENSORGRID_TRUSTED", self.key.with_extension("trusted"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("start the program")?;
        let started = Instant::now();
        while child.try_wait()?.is_none() {
            if started.elapsed() > COMMAND_MAX {
                child.kill()?;
                child.wait()?;
                bail!("no answer in {} s", COMMAND_MAX.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", error.trim());
        serde_json::from_slice(&output.stdout).context("it prints JSON")
    }

    /// Orders a job, and gives its id.
    fn order(&self, mode: &str) -> Result<String> {
        let infer = [
            "infer",
            "mlp-digits",
            "examples/digit.json",
            "--yes",
            "--json",
            "--detach",
        ];
        let how = [
            "--verify",
            mode,
            "--deadline-s",
            DEADLINE_S,
            "--max-price",
            PRICE_MAX,
            "--attempts",
            "8",
        ];
        let told = self.ask(&[&infer[..], &how].concat())?;
        let id = told["job"].as_str().or(told["id"].as_str());
        id.map(str::to_owned)
            .with_context(|| format!("no id in {told}"))
    }
}

/// Threads that order until they are stopped.
#[derive(Debug)]
pub(crate) struct OrderLoad {
    orders: Arc<Mutex<OrderLog>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl OrderLoad {
    /// Begins to order.
    pub(crate) fn start(clients: Vec<Orderer>, seed: u64) -> Self {
        let orders = Arc::new(Mutex::new(OrderLog::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (index, client) in (1..).zip(clients) {
            let (orders, stop) = (Arc::clone(&orders), Arc::clone(&stop));
            let draw = SeededDraw::new(seed ^ index << 32);
            threads.push(thread::spawn(move || {
                generate(&client, draw, &orders, &stop);
            }));
        }
        Self {
            orders,
            stop,
            threads,
        }
    }

    /// How many orders were acknowledged until now.
    pub(crate) fn count(&self) -> usize {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.ordered.len()
    }

    /// Stops, and gives what was done.
    pub(crate) fn stop(self) -> OrderLog {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn generate(client: &Orderer, mut draw: SeededDraw, orders: &Mutex<OrderLog>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let drawn = usize::try_from(draw.below(MODES.len() as u64)).unwrap_or(0);
        let mode = MODES[drawn];
        let order = client.order(mode);
        let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
        match order {
            Ok(id) => orders.ordered.push(AcknowledgedOrder { id, mode }),
            Err(error) => orders
                .refused
                .push(format!("{mode} at {}: {error:#}", client.url)),
        }
        drop(orders);
        thread::sleep(PAUSE);
    }
}

/// The account that has the money of a new network, at the first gateway.
///
/// # Errors
/// If `network new` told of none.
pub(crate) fn first(fleet: &Fleet, root: &Path) -> Result<Orderer> {
    let told = |name: &str| {
        let value = fleet.told()["requestor"][name].as_str();
        value.context("network new told of a requestor")
    };
    let folder = fleet.told()["folder"].as_str();
    let folder = folder.context("network new told of a folder")?;
    Ok(Orderer {
        binary: fleet.binary().to_path_buf(),
        genesis: Path::new(folder).join("genesis.bin"),
        root: root.to_path_buf(),
        url: format!("http://{}", fleet.api(Participant::Gateway(0))),
        key: told("key")?.into(),
        address: told("address")?.to_owned(),
    })
}

/// A key of its own for each client after the first, with money of the first.
///
/// # Errors
/// If a key cannot be made or money is not moved.
pub(crate) fn fund(
    first: &Orderer,
    folder: &Path,
    (index, amount): (usize, &str),
    url: &str,
) -> Result<Orderer> {
    let key = folder.join(format!("client-{index}.key"));
    let file = key.to_str().context("a path of text")?;
    let told = first.ask(&["wallet", "new", file, "--no-encryption", "--json"])?;
    let address = told["address"].as_str();
    let address = address.context("a wallet has an address")?.to_owned();
    first.ask(&["transfer", &address, amount, "--yes", "--json"])?;
    Ok(Orderer {
        key,
        url: url.to_owned(),
        address,
        ..first.clone()
    })
}
