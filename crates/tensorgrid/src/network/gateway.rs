//! The settings of a gateway's process, and what they lead to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tg_ledger::Genesis;
use tg_node::{ChainSource, FollowerConfig};
use tg_types::chain::Checkpoint;

use super::process::{named_checkpoint, read_genesis};
use super::settings::{self, settings};
use super::tls::{TlsPlace, TlsSettings};
use super::uplinks::{HttpSource, Uplinks};
use crate::grid::session_file::SessionSetting;
use tg_console::outcome::{Exit, Failure, OrFail};

settings! {
    /// Settings of a gateway's process.
    GatewaySettings {
        /// Settings of a TensorGrid gateway: tensorgrid gateway --config THIS_FILE
        ///
        /// The network's genesis, from someone you trust. This path and the one below count from the folder of this file.
        genesis: PathBuf,
        /// Folder of the chain and the blobs. It has no keys; if it is lost, it is filled again.
        data_dir: PathBuf,
        /// Where its HTTP API listens. It has no login: what it is asked costs it bounded work, what it is sent is signed.
        api: SocketAddr,
        /// A second address of the API, where it speaks TLS, with the two files below. Clients then say https.
        tls_listen: Option<SocketAddr>,
        /// File of the certificate in PEM, and after it those by which it is signed. It is read again when it changes.
        tls_certificate: Option<PathBuf>,
        /// File of the certificate's key in PEM.
        tls_key: Option<PathBuf>,
        /// Event streams at once (pages that watch, programs that listen), 10,000 at most, a quarter of them for one address. Each needs one of the
        /// descriptors that the process may have open: as many as these allow, if it is left out.
        streams: Option<u32>,
        /// APIs of validators or other gateways, the preferred one first. None of them is believed; with one more than
        /// may fail in the network, none can keep a transaction back.
        sources: Vec<String>,
        /// Whether an empty folder begins at a source's snapshot, which is checked; otherwise every block is executed.
        snapshot: bool,
        /// A final block that somebody vouches for, as `tensorgrid checkpoint` prints it: HEIGHT:ID. Needed once if the folder
        /// is empty and genesis is old, or if this gateway was away for about as long as bonds answer for votes.
        checkpoint: Option<String>,
        /// GiB of the disk for models, inputs, outputs and proofs.
        blob_gib: u32,
        /// Which session keys sign the orders of API keys: "own" (made, registered and replaced by itself), "off" (the accounts' keys sign), or the file
        /// of one of scope order; "own" if it is left out.
        session: Option<String>,
        /// What is logged to the error stream, in the words of RUST_LOG, such as "info" or "tg_node=debug".
        log: Option<String>,
    }
}

impl GatewaySettings {
    /// Settings as they are when nothing else is said.
    pub(crate) fn usual() -> Self {
        Self {
            genesis: "../genesis.bin".into(),
            data_dir: "data".into(),
            api: SocketAddr::from(([127, 0, 0, 1], 7070)),
            tls_listen: None,
            tls_certificate: None,
            tls_key: None,
            streams: None,
            sources: Vec::new(),
            snapshot: true,
            checkpoint: None,
            blob_gib: 16,
            session: None,
            log: None,
        }
    }

    /// Settings with an example of all, for whoever writes a file by hand.
    pub(crate) fn sample() -> Self {
        Self {
            sources: vec![
                "http://validator-1.example.org:7101".to_owned(),
                "http://10.0.0.7:7101".to_owned(),
            ],
            ..Self::usual()
        }
    }
}

/// What flags and variables of the environment say in place of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct GatewayOverrides {
    /// Where its API listens.
    pub(crate) api: Option<SocketAddr>,
    /// Where it speaks TLS.
    pub(crate) tls: Option<TlsPlace>,
    /// Event streams at once.
    pub(crate) streams: Option<u32>,
    /// The nodes that it asks, if any are named.
    pub(crate) sources: Vec<String>,
    /// Folder of its data, from the folder of the process.
    pub(crate) data_dir: Option<PathBuf>,
    /// A final block that somebody vouches for.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Which session keys sign the orders of API keys.
    pub(crate) session: Option<SessionSetting>,
    /// What is logged.
    pub(crate) log: Option<String>,
}

/// All that a gateway's process is started with.
#[derive(Debug)]
pub(crate) struct GatewayProcess {
    /// The network.
    pub(crate) genesis: Genesis,
    /// The node.
    pub(crate) follower: FollowerConfig,
    /// Where what clients send goes on to.
    pub(crate) uplinks: Arc<Uplinks>,
    /// Where its API listens.
    pub(crate) api: SocketAddr,
    /// Where it speaks TLS, if it does.
    pub(crate) tls: Option<TlsPlace>,
    /// Event streams at once; as many as descriptors allow, if it is not said.
    pub(crate) streams: Option<u32>,
    /// Which session keys sign the orders of API keys.
    pub(crate) session: SessionSetting,
    /// What is logged.
    pub(crate) log: Option<String>,
}

impl GatewayProcess {
    /// Reads the settings of a file and all that they name.
    pub(crate) fn load(file: &Path, overrides: &GatewayOverrides) -> Result<Self, Failure> {
        let settings: GatewaySettings = settings::read(file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let genesis = read_genesis(&folder.join(&settings.genesis))?;
        let data_dir = match &overrides.data_dir {
            Some(path) => path.clone(),
            None => folder.join(&settings.data_dir),
        };
        let tls = TlsSettings {
            listen: settings.tls_listen,
            certificate: settings.tls_certificate,
            key: settings.tls_key,
        };
        let tls = tls.place(file, overrides.tls.as_ref())?;
        let urls = match overrides.sources.as_slice() {
            [] => settings.sources,
            named => named.to_vec(),
        };
        if urls.is_empty() {
            let text = format!("{}: there is no source", file.display());
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
                .hint("`sources` or --source names the API of a validator or of another gateway"));
        }
        let sources = urls.iter().map(|url| HttpSource::new(url));
        let sources = sources.collect::<Result<Vec<_>, _>>();
        let sources = sources
            .or_fail(Exit::Usage, format!("{}: a source", file.display()))
            .map_err(|failure| failure.hint("a source is http://HOST:PORT or https://HOST:PORT"))?;
        let uplinks = Arc::new(Uplinks::new(&sources, genesis.validators.len()));
        let sources = sources.into_iter();
        let sources = sources.map(|it| Arc::new(it) as Arc<dyn ChainSource>);
        let mut follower = FollowerConfig::new(genesis.clone(), data_dir, sources.collect());
        follower.snapshot = settings.snapshot;
        let named = settings.checkpoint.as_deref();
        follower.checkpoint = named_checkpoint(file, named, overrides.checkpoint)?;
        follower.blob_bytes_max = u64::from(settings.blob_gib) << 30;
        let named = settings.session.as_deref().map(SessionSetting::of);
        let named = named.map(|it| it.placed(folder));
        let session = overrides.session.clone().or(named);
        Ok(Self {
            session: session.unwrap_or(SessionSetting::Own),
            genesis,
            follower,
            uplinks,
            api: overrides.api.unwrap_or(settings.api),
            tls,
            streams: overrides.streams.or(settings.streams),
            log: overrides.log.clone().or(settings.log),
        })
    }
}
