//! Validators on tokio: one thread, one commonware runtime and one TCP listener each, alone or several in a process.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use commonware_cryptography::ChaCha20Poly1305;
use commonware_p2p::authenticated::lookup;
use commonware_p2p::{Address, AddressableManager};
use commonware_runtime::{Quota, Runner as _, Spawner as _, Supervisor as _, tokio};
use commonware_stream::cups::{self, Cups};
use commonware_stream::sake::{self, Sake};
use commonware_utils::channel::{mpsc, oneshot};
use commonware_utils::ordered::Map;
use commonware_utils::{NZU32, NZUsize};

use crate::engine::{self, Channels, Parts};
use crate::handle::{NodeHandle, NodeStatus};
use crate::key::peer_of;
use crate::limits::{
    BLOB_BURST, BLOB_QUOTA_PER_SECOND, CHANNEL_BURST, CHANNEL_QUOTA_PER_SECOND, MESSAGE_BYTES_MAX,
    VALIDATORS_MAX,
};
use crate::open;
use crate::peers::Peer;
use crate::steady::Steady;
use crate::store::OpenError;
use crate::term::{self, SeatedPeer};
use crate::wire::channel;

mod backup;
mod config;
mod recovery;
mod seat;

pub use backup::{back_up_folder, back_up_validator};
use config::CONSENSUS;
pub(crate) use config::lock_folder;
pub use config::{EmbeddedConfig, ValidatorConfig};
use recovery::Opened;
pub use recovery::create_validator;
pub use seat::{ParseSeatAddressError, Seat, SeatAddress};

/// How long a stopping validator may take to write what it has.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// One validator and the thread that runs it. Dropping it stops it.
#[derive(Debug)]
pub struct RunningValidator {
    handle: NodeHandle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Held while the folder is in use.
    lock: Option<File>,
}

/// Validators of one network inside this process, connected over loopback TCP. Dropping it stops them.
#[derive(Debug)]
pub struct Validators {
    running: Vec<RunningValidator>,
    /// Held while the directory is in use.
    _lock: File,
}

/// Starts one validator of a network whose others run elsewhere. It listens on an address of its own, dials the others
/// by name or address, and admits connections of validators of the present set and of the one before it only. Returns
/// when it has opened its data; blocks come when a quorum is connected.
///
/// A missing or damaged database is rebuilt from the others; if the journal of votes is missing too, the validator signs
/// nothing for a while ([`crate::voting`]). A validator that starts for the first time has an empty database, made by
/// [`create_validator`].
///
/// # Errors
/// [`OpenError`] if the folder is in use, belongs to another network, validator or format or cannot be opened, if the
/// address is taken, if the key is no validator of genesis or one of genesis has no address, or if the database is lost in
/// a network that cannot do without one validator.
#[expect(
    clippy::needless_pass_by_value,
    reason = "whoever starts a validator hands over what it is started with"
)]
pub fn spawn_validator(config: ValidatorConfig) -> Result<RunningValidator, OpenError> {
    let held = TcpListener::bind(config.listen).map_err(|source| OpenError::Listen {
        address: config.listen,
        source,
    })?;
    let opened = recovery::open_alone(&config)?;
    check_seats(&config, &opened.parts)?;
    // The listener kept the port while the data were opened; now the validator listens on it.
    drop(held);
    run(opened, &config)
}

/// Every other validator of genesis has an address in the settings, and the settings name nobody who is none. What the ledger has of others is
/// theirs to say: one that cannot be dialled is not reached, and keeps nobody from starting.
fn check_seats(config: &ValidatorConfig, parts: &Parts) -> Result<(), OpenError> {
    let hex = tg_types::digest::hex;
    let seated = term::seated(&parts.tip.state);
    let founders = config.genesis.validators.iter();
    let mut known: BTreeSet<[u8; 32]> = founders.map(|it| *it.key.as_bytes()).collect();
    known.extend(seated.iter().map(|it| it.public));
    if let Some(stranger) = config.seats.iter().find(|it| !known.contains(&it.public)) {
        let key = hex(&stranger.public);
        return Err(OpenError::NotAValidator { key });
    }
    let reached = dialled(&config.seats, &seated);
    let own = config.key.public();
    let mut others = seated.iter().filter(|it| it.public != own);
    let is_reached = |it: &&SeatedPeer| reached.iter().any(|seat| seat.public == it.public);
    for unreached in others.by_ref().filter(|it| !is_reached(it)) {
        let key = hex(&unreached.public);
        if unreached.endpoint.is_empty() {
            return Err(OpenError::NoAddress { key });
        }
        tracing::warn!(key, endpoint = %unreached.endpoint, "the endpoint of a validator is none, so it is not dialled");
    }
    Ok(())
}

/// Where the seats are dialled: where the settings say, else where the ledger does. One whose address is none is left out.
fn dialled(settings: &[Seat], seated: &[SeatedPeer]) -> Vec<Seat> {
    let address = |it: &SeatedPeer| {
        let set = settings.iter().find(|seat| seat.public == it.public);
        set.map(|seat| seat.address.clone())
            .or_else(|| it.endpoint.parse().ok())
    };
    let all = seated.iter();
    all.filter_map(|it| {
        Some(Seat {
            public: it.public,
            address: address(it)?,
        })
    })
    .collect()
}

/// Starts the validators of `config` in this process, each as [`spawn_validator`] does, with its own database and blobs
/// under the directory, its own thread and its own TCP port on loopback; a blob that one of them lacks comes from another. Returns when all
/// have opened their data; blocks come a second or so later, when they have connected.
///
/// As many damaged or missing databases as the network has faults to spare are rebuilt from the other validators; a
/// damaged one is kept beside it as `chain.redb.damaged`. What one of them alone cannot know, all together do: whether the
/// network is new, and in which consensus epoch it is.
///
/// # Errors
/// [`OpenError`] if the directory is in use, belongs to another network or format, or cannot be opened, or if so many
/// validators lost their data that the others are no quorum.
#[expect(
    clippy::needless_pass_by_value,
    reason = "whoever starts a network hands over what it is started with"
)]
pub fn spawn_validators(config: EmbeddedConfig) -> Result<Validators, OpenError> {
    let lock = lock_folder(&config.directory)?;
    let listeners = free_ports(config.keys.len())?;
    let addresses: Vec<SocketAddr> = listeners.iter().map(|(_, address)| *address).collect();
    let validators = config.validators(&addresses);
    let opened = recovery::open_all(&config, &validators)?;
    // The listeners kept the ports from being given twice; now the validators listen on them.
    drop(listeners);
    let mut running = Vec::new();
    for (opened, validator) in opened.into_iter().zip(&validators) {
        running.push(run(opened, validator)?);
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
            running.order_stop();
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

impl RunningValidator {
    /// What the rest of the process sees of it.
    #[must_use]
    pub const fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Stops it and waits until it has written what it had. Its folder may be used again when no handle is left.
    pub fn stop(&mut self) {
        self.order_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("thread of a validator panicked");
        }
        self.lock = None;
    }

    fn order_stop(&mut self) {
        // A thread that ended by itself no longer listens.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

impl Drop for RunningValidator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where a validator listens, where it reaches the others, and where its data live.
struct Surroundings {
    listen: SocketAddr,
    seats: Vec<Seat>,
    folder: PathBuf,
}

/// Runs one validator in a thread of its own. Whatever ends it, a panic of a library included, ends this validator only,
/// and its status says why.
fn run(opened: Opened, config: &ValidatorConfig) -> Result<RunningValidator, OpenError> {
    let Opened {
        handle,
        parts,
        folder,
        lock,
    } = opened;
    let around = Surroundings {
        listen: config.listen,
        seats: config.seats.clone(),
        folder: folder.clone(),
    };
    let (stop, stopped) = oneshot::channel();
    let (node_status, store) = (parts.node_status.clone(), parts.store.clone());
    let thread = std::thread::Builder::new()
        .name(format!("validator-{}", config.listen.port()))
        .spawn(move || {
            let config = tokio::Config::new()
                .with_storage_directory(folder.join(CONSENSUS))
                .with_worker_threads(2)
                .with_tcp_nodelay(Some(true));
            let body = AssertUnwindSafe(|| {
                tokio::Runner::new(config)
                    .start(|context| validate(Steady::new(context), parts, around, stopped));
            });
            if let Err(panic) = std::panic::catch_unwind(body) {
                recovery::panicked(&*panic, &node_status, &store, &folder);
            }
        })
        .map_err(|source| OpenError::Thread { source })?;
    Ok(RunningValidator {
        handle,
        stop: Some(stop),
        thread: Some(thread),
        lock: Some(lock),
    })
}

async fn validate(
    context: Steady<tokio::Context>,
    mut parts: Parts,
    around: Surroundings,
    stopped: oneshot::Receiver<()>,
) {
    let Surroundings {
        listen,
        seats,
        folder,
    } = around;
    let node_status = parts.node_status.clone();
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
    // Those of the set before may still ask for what ended their term.
    config.max_peers_per_set = NZUsize!(VALIDATORS_MAX);
    config.tracked_peer_sets = NZUsize!(2);
    config.peer_connection_cooldown = Duration::from_millis(250);
    config.dial_frequency = Duration::from_millis(50);
    // A name says nothing about where its validator connects from, and whoever joins later may have one: the handshake
    // refuses strangers alone.
    config.bypass_ip_check = true;
    let (mut network, mut oracle) = lookup::Network::new(context.child("network"), config);
    let now = dialled(&seats, &term::seated(&parts.tip.state));
    oracle.track(parts.term.epoch, peer_addresses(&now));
    node_status.dials(endpoints(&now));
    let changes = parts.watch_seats();
    let dialling = context.child("seats").spawn({
        let (node_status, oracle, epoch) = (node_status.clone(), oracle.clone(), parts.term.epoch);
        move |_| dial(changes, seats, node_status, oracle, epoch)
    });
    let quota =
        Quota::per_second(NZU32!(CHANNEL_QUOTA_PER_SECOND)).allow_burst(NZU32!(CHANNEL_BURST));
    let channels = Channels {
        votes: network.register(channel::VOTES, quota),
        certificates: network.register(channel::CERTIFICATES, quota),
        resolver: network.register(channel::RESOLVER, quota),
        blocks: network.register(channel::BLOCKS, quota),
        transactions: network.register(channel::TRANSACTIONS, quota),
        blobs: network.register(
            channel::BLOBS,
            Quota::per_second(NZU32!(BLOB_QUOTA_PER_SECOND)).allow_burst(NZU32!(BLOB_BURST)),
        ),
        seeds: network.register(channel::SEED, quota),
    };
    let network = network.start();
    let validator = engine::start(context.child("validator"), parts, channels, oracle);
    commonware_macros::select! {
        _ = stopped => {
            // Tasks that do not end in time are aborted with the runtime; what they decided is on disk.
            let _ = context.child("stop").stop(0, Some(STOP_TIMEOUT)).await;
        },
        result = validator => match result {
            Ok(Ok(())) => node_status.stop("consensus ended"),
            Ok(Err(error)) => node_status.stop(&recovery::reason(&tg_types::with_sources(&error), &folder)),
            Err(error) => node_status.stop(&tg_types::with_sources(&error)),
        },
    }
    network.abort();
    dialling.abort();
    node_status.update(|status| status.running = false);
}

/// Dials the validators of each set that follows.
async fn dial<M: AddressableManager<PublicKey = Peer>>(
    mut changes: mpsc::Receiver<Vec<SeatedPeer>>,
    settings: Vec<Seat>,
    node_status: Arc<NodeStatus>,
    mut oracle: M,
    mut epoch: u64,
) {
    while let Some(seated) = changes.recv().await {
        epoch += 1;
        let now = dialled(&settings, &seated);
        oracle.track(epoch, peer_addresses(&now));
        node_status.dials(endpoints(&now));
    }
}

fn endpoints(seats: &[Seat]) -> impl Iterator<Item = ([u8; 32], String)> {
    let seats = seats.iter();
    seats.map(|seat| (seat.public, seat.address.to_string()))
}

fn peer_addresses(seats: &[Seat]) -> Map<Peer, Address> {
    Map::from_iter_dedup(seats.iter().filter_map(|seat| {
        let peer = peer_of(&seat.public).ok()?;
        Some((peer, seat.address.to_peer_address()))
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
