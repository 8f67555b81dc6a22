//! Validators on tokio: one thread, one commonware runtime and one TCP listener each.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use commonware_cryptography::ChaCha20Poly1305;
use commonware_p2p::authenticated::lookup;
use commonware_p2p::{Address, AddressableManager as _};
use commonware_runtime::{Quota, Runner as _, Spawner as _, Supervisor as _, tokio};
use commonware_stream::cups::{self, Cups};
use commonware_stream::sake::{self, Sake};
use commonware_utils::channel::oneshot;
use commonware_utils::ordered::Map;
use commonware_utils::{NZU32, NZUsize};

use crate::core::Peer;
use crate::engine::{self, Channels, Parts};
use crate::handle::NodeHandle;
use crate::key::{ValidatorKey, peer_of};
use crate::limits::{
    BLOB_QUOTA_PER_SECOND, CHANNEL_QUOTA_PER_SECOND, MESSAGE_BYTES_MAX, VALIDATORS_MAX,
};
use crate::open;
use crate::steady::Steady;
use crate::store::OpenError;
use crate::wire::channel;

mod config;
mod recovery;

pub use config::EmbeddedConfig;
use config::{CONSENSUS, create_folder};
use recovery::Opened;

/// How long a stopping validator may take to write what it has.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// One validator and the thread that runs it.
#[derive(Debug)]
struct Running {
    handle: NodeHandle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Validators of one network inside this process, connected over loopback TCP. Dropping it stops them.
#[derive(Debug)]
pub struct Validators {
    running: Vec<Running>,
    /// Held while the directory is in use.
    _lock: File,
}

/// Starts the validators of `config` in this process, each with its own database and blobs under the directory,
/// its own thread and its own TCP port on loopback; a blob that one of them lacks comes from another. Returns when all
/// have opened their data; blocks come a second or so later, when they have connected.
///
/// As many damaged or missing databases as the network has faults to spare are rebuilt from the other validators; a
/// damaged one is kept beside it as `chain.redb.damaged`.
///
/// # Errors
/// [`OpenError`] if the directory is in use, belongs to another network or format, or cannot be opened, or if so many
/// validators lost their data that the others are no quorum.
#[expect(
    clippy::needless_pass_by_value,
    reason = "whoever starts a network hands over what it is started with"
)]
pub fn spawn_validators(config: EmbeddedConfig) -> Result<Validators, OpenError> {
    let lock = lock_directory(&config.directory)?;
    let listeners = free_ports(config.keys.len())?;
    let addresses: Vec<([u8; 32], SocketAddr)> = config
        .keys
        .iter()
        .map(ValidatorKey::public)
        .zip(listeners.iter().map(|(_, address)| *address))
        .collect();
    let opened = recovery::open_all(&config)?;
    // The listeners kept the ports from being given twice; now the validators listen on them.
    drop(listeners);
    let mut running = Vec::new();
    for (index, opened) in opened.into_iter().enumerate() {
        running.push(run(index, opened, addresses.clone())?);
    }
    Ok(Validators {
        running,
        _lock: lock,
    })
}

impl Validators {
    /// The handle of the validator at `index`, in the order of the configured keys.
    ///
    /// # Panics
    /// If there is no such validator.
    #[must_use]
    pub fn handle(&self, index: usize) -> &NodeHandle {
        &self.running[index].handle
    }

    /// All handles, in the order of the configured keys.
    pub fn handles(&self) -> impl Iterator<Item = &NodeHandle> {
        self.running.iter().map(|running| &running.handle)
    }

    /// Stops one validator and waits until it has; the others go on.
    ///
    /// # Panics
    /// If there is no such validator.
    pub fn stop(&mut self, index: usize) {
        self.running[index].stop();
    }

    /// Stops all validators and waits until they have written what they had.
    pub fn shutdown(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        for running in &mut self.running {
            // A thread that ended by itself no longer listens.
            let _ = running.stop.take().map(|stop| stop.send(()));
        }
        for running in &mut self.running {
            running.stop();
        }
    }
}

impl Drop for Validators {
    fn drop(&mut self) {
        self.stop_all();
    }
}

impl Running {
    fn stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("thread of a validator panicked");
        }
    }
}

/// Runs one validator in a thread of its own. Whatever ends it, a panic of a library included, ends this validator only,
/// and its status says why.
fn run(
    index: usize,
    opened: Opened,
    addresses: Vec<([u8; 32], SocketAddr)>,
) -> Result<Running, OpenError> {
    let Opened {
        handle,
        parts,
        folder,
    } = opened;
    let (stop, stopped) = oneshot::channel();
    let (board, store) = (parts.board.clone(), parts.store.clone());
    let thread = std::thread::Builder::new()
        .name(format!("validator-{index}"))
        .spawn(move || {
            let config = tokio::Config::new()
                .with_storage_directory(folder.join(CONSENSUS))
                .with_worker_threads(2)
                .with_tcp_nodelay(Some(true));
            let data = folder.clone();
            let body = AssertUnwindSafe(|| {
                tokio::Runner::new(config).start(|context| {
                    validate(Steady::new(context), parts, (addresses, data), stopped)
                });
            });
            if let Err(panic) = std::panic::catch_unwind(body) {
                recovery::panicked(&*panic, &board, &store, &folder);
            }
        })
        .map_err(|source| OpenError::Thread { source })?;
    Ok(Running {
        handle,
        stop: Some(stop),
        thread: Some(thread),
    })
}

async fn validate(
    context: Steady<tokio::Context>,
    parts: Parts,
    (addresses, folder): (Vec<([u8; 32], SocketAddr)>, PathBuf),
    stopped: oneshot::Receiver<()>,
) {
    let board = parts.board.clone();
    let public = parts.key.public();
    let Some(listen) = addresses
        .iter()
        .find_map(|(key, address)| (*key == public).then_some(*address))
    else {
        return;
    };
    let handshake = Cups::<_, ChaCha20Poly1305>::new(
        Sake {
            signer: parts.key.private().clone(),
            synchrony_bound: Duration::from_secs(5),
            max_handshake_age: Duration::from_secs(10),
            version: sake::Version::V1,
        },
        cups::Version::V1,
    );
    let mut config = lookup::Config::local(
        handshake,
        &open::network_namespace(&parts),
        listen,
        NZUsize!(VALIDATORS_MAX),
        MESSAGE_BYTES_MAX,
        NZUsize!(1_024),
    );
    config.max_peers_per_set = parts.participants.len().try_into().unwrap_or(NZUsize!(1));
    config.tracked_peer_sets = NZUsize!(1);
    config.peer_connection_cooldown = Duration::from_millis(250);
    config.dial_frequency = Duration::from_millis(50);
    let (mut network, mut oracle) = lookup::Network::new(context.child("network"), config);
    oracle.track(0, peer_addresses(&addresses));
    let quota = Quota::per_second(NZU32!(CHANNEL_QUOTA_PER_SECOND));
    let channels = Channels {
        votes: network.register(channel::VOTES, quota),
        certificates: network.register(channel::CERTIFICATES, quota),
        resolver: network.register(channel::RESOLVER, quota),
        blocks: network.register(channel::BLOCKS, quota),
        transactions: network.register(channel::TRANSACTIONS, quota),
        blobs: network.register(
            channel::BLOBS,
            Quota::per_second(NZU32!(BLOB_QUOTA_PER_SECOND)),
        ),
    };
    let network = network.start();
    let validator = engine::start(context.child("validator"), parts, channels, oracle);
    commonware_macros::select! {
        _ = stopped => {
            // Tasks that do not end in time are aborted with the runtime; what they decided is on disk.
            let _ = context.child("stop").stop(0, Some(STOP_TIMEOUT)).await;
        },
        result = validator => match result {
            Ok(Ok(())) => board.stop("consensus ended"),
            Ok(Err(error)) => board.stop(&recovery::reason(&crate::report(&error), &folder)),
            Err(error) => board.stop(&crate::report(&error)),
        },
    }
    network.abort();
    board.update(|status| status.running = false);
}

fn peer_addresses(addresses: &[([u8; 32], SocketAddr)]) -> Map<Peer, Address> {
    Map::from_iter_dedup(addresses.iter().filter_map(|(public, address)| {
        let peer = peer_of(public).ok()?;
        Some((peer, Address::from(*address)))
    }))
}

/// Ports that validators take: below those that systems give to outgoing connections, which could take a port between
/// the end of its listener here and the validator's own.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Grids that this process has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Free ports on loopback with the listeners that hold them. Grids that start together look in different places.
fn free_ports(count: usize) -> Result<Vec<(TcpListener, SocketAddr)>, OpenError> {
    let started = STARTED.fetch_add(1, Ordering::Relaxed);
    let first = (std::process::id() as usize * 997 + started * 61) % PORTS.len();
    let mut candidates = PORTS.clone().chain(PORTS).skip(first).take(PORTS.len());
    let mut free = Vec::with_capacity(count);
    while free.len() < count {
        // With all of them taken, any port that the system gives.
        let port = candidates.next().unwrap_or(0);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        match TcpListener::bind(address).and_then(|it| it.local_addr().map(|at| (it, at))) {
            Ok(listener) => free.push(listener),
            Err(source) if port == 0 => {
                return Err(OpenError::Io {
                    action: "listen on",
                    path: address.to_string(),
                    source,
                });
            }
            Err(_) => {}
        }
    }
    Ok(free)
}

/// Takes the directory for this process; the operating system gives it back when the process ends, however it ends.
fn lock_directory(directory: &Path) -> Result<File, OpenError> {
    create_folder(directory)?;
    let path = directory.join("lock");
    let failed = |source| OpenError::Io {
        action: "lock",
        path: path.display().to_string(),
        source,
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: directory.display().to_string(),
        }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}
