//! `tensorgrid bench transfer`: blobs from one node to another, beside a bare stream of the same bytes.
//!
//! This process is the node that has the blobs: a grid of one validator with its API. A second process, which this one
//! starts, fetches them as a gateway does: chunk by chunk over HTTP into a store on disk, each chunk checked before the next
//! one is written. The bare stream goes from a file of this process over TCP into a file of a second one, unchecked, and is
//! synced to disk as a store is. Both are done three times in turn, and the median is told. Then the second process is killed in the middle of a blob and goes on, and a bit is flipped on
//! the way; a [`Wire`] between both counts the chunks that are asked for.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tg_api::ApiConfig;
use tg_node::limits::MODEL_BYTES_MAX;
use tg_node::{BlobStore, ChainSource as _};
use tg_sdk::dto::CloudPricesDto;
use tg_types::Digest;
use tg_types::chunks::CHUNK_BYTES;

use super::bench_wire::Wire;
use crate::cli::BenchTransferArguments;
use crate::grid::embedded::{EmbeddedGrid, EmbeddedOptions};
use crate::network::uplinks::HttpSource;
use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_offline::measure::{Moment, peak_memory_mib, reset_peak_memory};
use tg_offline::memory::MEMORY;
use tg_offline::scratch::ScratchFolder;

/// Room of the second process's store: all that it is asked to fetch.
const STORE_BYTES: u64 = 64 << 30;

/// How long half a blob may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often everything is sent each way; the median is told.
const RUNS: usize = 3;

/// Bytes that the bare stream reads and writes at once.
const PIECE_BYTES: usize = 1 << 20;

/// What one end of a transfer took.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct End {
    wall_ms: f64,
    cpu_ms: f64,
    peak_mib: f64,
    /// Why it broke off, if it did.
    failed: Option<String>,
}

impl End {
    /// What this process took since a moment.
    fn since(start: &Moment, failed: Option<String>) -> Self {
        let cost = start.cost();
        Self {
            wall_ms: cost.wall_ms,
            cpu_ms: cost.cpu_ms,
            peak_mib: peak_memory_mib().unwrap_or(0.0),
            failed,
        }
    }

    /// Everything must have come.
    fn whole(&self) -> Result<(), Failure> {
        self.failed
            .as_ref()
            .map_or(Ok(()), |text| Err(failed(text)))
    }
}

/// Both ends of a transfer; the receiver's time on the wall counts.
#[derive(Debug, Serialize)]
struct BothEnds {
    sender: End,
    receiver: End,
}

/// A transfer that was killed in the middle.
#[derive(Debug, Serialize)]
struct Killed {
    chunks: u64,
    /// Checked and on disk when it was killed.
    kept: u64,
    /// Asked for before.
    asked_before: u64,
    /// Asked for after it was started again.
    asked_after: u64,
}

impl Killed {
    /// Chunks that were on disk and came again.
    const fn sent_again(&self) -> u64 {
        (self.kept + self.asked_after).saturating_sub(self.chunks)
    }
}

/// A transfer in which a bit was flipped.
#[derive(Debug, Serialize)]
struct Flipped {
    /// The chunk of the bit.
    chunk: u64,
    /// Chunks on disk when it was refused.
    kept: u64,
    /// What was said.
    refusal: String,
}

/// Everything that is measured.
#[derive(Debug, Serialize)]
struct Transfers {
    mib: u64,
    blobs: usize,
    bare: BothEnds,
    product: BothEnds,
    killed: Killed,
    flipped: Flipped,
}

/// Measures, or is the second process.
pub(crate) async fn run(arguments: &BenchTransferArguments, as_json: bool) -> Outcome {
    let end = match (&arguments.receive, &arguments.bare, &arguments.into) {
        (Some(url), _, Some(into)) => receive(url, &arguments.blobs, into).await?,
        (None, Some(place), Some(into)) => receive_bare(*place, into)?,
        _ => return measure(arguments, as_json).await,
    };
    super::json_of(&end)
}

/// Fetches blobs as a gateway does.
async fn receive(url: &str, blobs: &[Digest], into: &Path) -> Result<End, Failure> {
    let store = BlobStore::open(into, STORE_BYTES).or_fail(Exit::Failed, "open a store")?;
    let store = Arc::new(store);
    let source = HttpSource::new(url).or_fail(Exit::Usage, "name the node")?;
    let start = Moment::now();
    for digest in blobs {
        let fetched = source
            .blob(*digest, MODEL_BYTES_MAX, Arc::clone(&store))
            .await;
        let failed = match fetched {
            Ok(true) => continue,
            Ok(false) => format!("the node lacks {digest}"),
            Err(error) => error.to_string(),
        };
        return Ok(End::since(&start, Some(failed)));
    }
    Ok(End::since(&start, None))
}

/// Writes what comes over a connection to a file.
fn receive_bare(place: SocketAddr, into: &Path) -> Result<End, Failure> {
    let doing = "receive a bare stream";
    let mut stream = TcpStream::connect(place).or_fail(Exit::Failed, doing)?;
    let mut file = File::create(into).or_fail(Exit::Failed, doing)?;
    let start = Moment::now();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let length = stream.read(&mut buffer).or_fail(Exit::Failed, doing)?;
        if length == 0 {
            break;
        }
        file.write_all(&buffer[..length])
            .or_fail(Exit::Failed, doing)?;
    }
    file.sync_all().or_fail(Exit::Failed, doing)?;
    Ok(End::since(&start, None))
}

/// The node and its blobs.
struct Sender {
    grid: EmbeddedGrid,
    folder: ScratchFolder,
    blobs: Vec<Digest>,
}

async fn measure(arguments: &BenchTransferArguments, as_json: bool) -> Outcome {
    let folder = ScratchFolder::new()?;
    say("starting a node; its data are removed afterwards");
    let grid = EmbeddedGrid::start(EmbeddedOptions {
        directory: folder.path().join("grid"),
        api: ApiConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            ..ApiConfig::default()
        },
        tls: None,
        names: Vec::new(),
        clouds: CloudPricesDto::default(),
        validators: 1,
        repeat_macs: tg_ledger::REPEATED_MACS_USUAL,
        whole_run_macs: tg_ledger::WHOLE_RUN_MACS_USUAL,
        accounts: accounts::funded(1),
        openai_keys: None,
        tokenizers: None,
        new_epoch: false,
    })
    .await?;
    let bytes = u64::from(arguments.mib) << 20;
    let store = grid.nodes().next().map(|it| Arc::clone(it.blobs()));
    let store = store.ok_or_else(|| failed("a grid of one validator has a node"))?;
    let blobs = tokio::task::spawn_blocking(move || fill(&store, bytes)).await??;
    let sender = Sender {
        grid,
        folder,
        blobs,
    };
    say(format_args!(
        "{} MiB in {} blobs, which are at most {} MiB each",
        arguments.mib,
        sender.blobs.len(),
        MODEL_BYTES_MAX >> 20
    ));
    let transfers = tokio::task::block_in_place(|| sender.measure(arguments.mib.into()))?;
    sender.grid.stop().await?;
    tell(&transfers, as_json)
}

/// Puts blobs of so many bytes in all into a store, none of which a disk or a network could make smaller.
fn fill(store: &BlobStore, bytes: u64) -> Result<Vec<Digest>, Failure> {
    let mut blobs = Vec::new();
    let mut left = bytes;
    let mut state = 1_u64;
    while left > 0 {
        let size = left.min(MODEL_BYTES_MAX);
        let mut blob = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        while (blob.len() as u64) < size {
            // The steps of a 64-bit xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            blob.extend_from_slice(&state.to_le_bytes());
        }
        let stored = store.put(&blob, MODEL_BYTES_MAX);
        blobs.push(stored.or_fail(Exit::Failed, "store a blob")?);
        left -= size;
    }
    MEMORY.release();
    Ok(blobs)
}

impl Sender {
    fn measure(&self, mib: u64) -> Result<Transfers, Failure> {
        // In turn: a machine with other work is slow for both.
        let (mut bare, mut product) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            bare.push(self.bare()?);
            product.push(self.product()?);
        }
        Ok(Transfers {
            mib,
            blobs: self.blobs.len(),
            bare: median(bare)?,
            product: median(product)?,
            killed: self.killed()?,
            flipped: self.flipped()?,
        })
    }

    fn into(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The second process, which fetches blobs from a node.
    fn receiver(&self, url: &str, into: &Path, blobs: &[Digest]) -> Result<Child, Failure> {
        let mut command = second()?;
        command.args(["--receive", url, "--into"]).arg(into);
        command.args(blobs.iter().map(Digest::to_string));
        command
            .spawn()
            .or_fail(Exit::Failed, "start a second process")
    }

    /// The transfer as the product does it.
    fn product(&self) -> Result<BothEnds, Failure> {
        let into = self.into("product");
        reset_peak_memory();
        let start = Moment::now();
        let child = self.receiver(self.grid.client().url(), &into, &self.blobs)?;
        let receiver = ended(child)?;
        let sender = End::since(&start, None);
        receiver.whole()?;
        remove(&into)?;
        Ok(BothEnds { sender, receiver })
    }

    /// The same bytes over a bare connection.
    fn bare(&self) -> Result<BothEnds, Failure> {
        let doing = "send a bare stream";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_fail(Exit::Failed, doing)?;
        let place = listener.local_addr().or_fail(Exit::Failed, doing)?;
        let into = self.into("bare");
        let mut command = second()?;
        command
            .args(["--bare", &place.to_string(), "--into"])
            .arg(&into);
        let child = command
            .spawn()
            .or_fail(Exit::Failed, "start a second process")?;
        let (mut stream, _) = listener.accept().or_fail(Exit::Failed, doing)?;
        reset_peak_memory();
        let start = Moment::now();
        let mut buffer = vec![0; PIECE_BYTES];
        for blob in &self.blobs {
            let path = self.file_of(blob)?;
            let mut file = File::open(path).or_fail(Exit::Failed, doing)?;
            loop {
                let length = file.read(&mut buffer).or_fail(Exit::Failed, doing)?;
                if length == 0 {
                    break;
                }
                stream
                    .write_all(&buffer[..length])
                    .or_fail(Exit::Failed, doing)?;
            }
        }
        drop(stream);
        let sender = End::since(&start, None);
        let receiver = ended(child)?;
        fs::remove_file(&into)?;
        Ok(BothEnds { sender, receiver })
    }

    /// The file of a blob in the node's store.
    fn file_of(&self, blob: &Digest) -> Result<PathBuf, Failure> {
        let name = blob.to_string().trim_start_matches("0x").to_owned();
        let mut folders = vec![self.folder.path().join("grid")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|it| *it == *name) {
                    return Ok(path);
                }
            }
        }
        Err(failed(&format!("{blob} has no file")))
    }

    /// A transfer whose receiver is killed in the middle and started again.
    fn killed(&self) -> Result<Killed, Failure> {
        let (wire, blob, into) = (self.wire()?, self.blobs[0], self.into("killed"));
        let chunks = self.chunks_of(&blob)?;
        let mut child = self.receiver(&wire.url(), &into, &[blob])?;
        let started = Instant::now();
        while kept(&into, &blob) < chunks / 2 {
            if started.elapsed() > PATIENCE {
                return Err(failed("half a blob did not come in two minutes"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        child
            .kill()
            .or_fail(Exit::Failed, "kill the second process")?;
        child
            .wait()
            .or_fail(Exit::Failed, "kill the second process")?;
        let (kept, asked_before) = (kept(&into, &blob), wire.take_asked());
        let end = ended(self.receiver(&wire.url(), &into, &[blob])?)?;
        end.whole()?;
        remove(&into)?;
        Ok(Killed {
            chunks,
            kept,
            asked_before,
            asked_after: wire.take_asked(),
        })
    }

    /// A transfer in which a bit is flipped.
    fn flipped(&self) -> Result<Flipped, Failure> {
        let (wire, blob, into) = (self.wire()?, self.blobs[0], self.into("flipped"));
        let chunk = self.chunks_of(&blob)? / 2;
        wire.flip(chunk);
        let end = ended(self.receiver(&wire.url(), &into, &[blob])?)?;
        let kept = kept(&into, &blob);
        remove(&into)?;
        Ok(Flipped {
            chunk,
            kept,
            refusal: end.failed.unwrap_or_else(|| "NOT REFUSED".to_owned()),
        })
    }

    fn wire(&self) -> Result<Wire, Failure> {
        let url = self.grid.client().url().trim_start_matches("http://");
        let node = url
            .parse()
            .or_fail(Exit::Failed, "find the node's address")?;
        Wire::to(node).or_fail(Exit::Failed, "put a wire to the node")
    }

    fn chunks_of(&self, blob: &Digest) -> Result<u64, Failure> {
        let size = fs::metadata(self.file_of(blob)?)?.len();
        Ok(size.div_ceil(CHUNK_BYTES))
    }
}

fn failed(text: &str) -> Failure {
    Failure::new(Exit::Failed, anyhow::anyhow!("{text}"))
}

/// The run of the middle, by its time on the wall.
fn median(mut runs: Vec<BothEnds>) -> Result<BothEnds, Failure> {
    runs.sort_by(|one, other| one.receiver.wall_ms.total_cmp(&other.receiver.wall_ms));
    let middle = runs.len() / 2;
    let median = runs.into_iter().nth(middle);
    median.ok_or_else(|| failed("nothing was measured"))
}

/// This program as the second process.
fn second() -> Result<Command, Failure> {
    let program = std::env::current_exe().or_fail(Exit::Failed, "find this program")?;
    let mut command = Command::new(program);
    command.args(["--json", "bench", "transfer"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(command)
}

/// What the second process says in the end.
fn ended(child: Child) -> Result<End, Failure> {
    let doing = "measure in a second process";
    let output = child.wait_with_output().or_fail(Exit::Failed, doing)?;
    serde_json::from_slice(&output.stdout).or_fail(Exit::Failed, doing)
}

/// Whole chunks of a blob in the folder of one that is not complete.
fn kept(into: &Path, blob: &Digest) -> u64 {
    let name = blob.to_string().trim_start_matches("0x").to_owned();
    let file = fs::metadata(into.join("partial").join(name));
    file.map_or(0, |it| it.len() / CHUNK_BYTES)
}

fn remove(folder: &Path) -> Result<(), Failure> {
    fs::remove_dir_all(folder).or_fail(Exit::Failed, format!("remove {}", folder.display()))
}

fn tell(transfers: &Transfers, as_json: bool) -> Outcome {
    let Transfers {
        bare,
        product,
        killed,
        flipped,
        ..
    } = transfers;
    if as_json {
        return super::json_of(transfers);
    }
    line(format_args!(
        "{:<28}{:>9}{:>9}{:>14}{:>16}{:>16}",
        "", "s", "MiB/s", "CPU s, both", "peak MiB, from", "peak MiB, to"
    ))?;
    for (name, ends) in [
        ("bare TCP, file to file", bare),
        ("blobs, chunk by chunk", product),
    ] {
        let BothEnds { sender, receiver } = ends;
        let seconds = receiver.wall_ms / 1e3;
        line(format_args!(
            "{name:<28}{seconds:>9.2}{:>9.0}{:>14.2}{:>16.0}{:>16.0}",
            transfers.mib as f64 / seconds,
            (sender.cpu_ms + receiver.cpu_ms) / 1e3,
            sender.peak_mib,
            receiver.peak_mib
        ))?;
    }
    line(format_args!(
        "ratio of speeds: {:.2}",
        bare.receiver.wall_ms / product.receiver.wall_ms
    ))?;
    line(format_args!(
        "killed with {} of {} chunks on disk: {} asked for before, {} after; {} came again",
        killed.kept,
        killed.chunks,
        killed.asked_before,
        killed.asked_after,
        killed.sent_again()
    ))?;
    line(format_args!(
        "a bit of chunk {} flipped, with {} on disk: {}",
        flipped.chunk, flipped.kept, flipped.refusal
    ))?;
    Ok(())
}
