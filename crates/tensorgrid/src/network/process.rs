//! The settings of a validator's process, and what they lead to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tg_console::files;

use serde::{Deserialize, Serialize};
use tg_ledger::Genesis;
use tg_node::{ChainSource, ProofChecker, Seat, ValidatorConfig, ValidatorKey};
use tg_types::chain::Checkpoint;
use tg_types::{Decode as _, Digest, Wallet};

use super::settings::{self, settings};
use super::tls::{TlsPlace, TlsSettings};
use super::uplinks::HttpSource;
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, OrFail};

/// Most bytes of a genesis file.
const GENESIS_BYTES_MAX: u64 = 1 << 20;

/// What the API's setting says to have none.
const OFF: &str = "off";

settings! {
    /// Settings of a validator's process.
    ValidatorSettings {
        /// Settings of a TensorGrid validator: tensorgrid validator --config THIS_FILE
        ///
        /// The network's genesis. This path and those below count from the folder of this file.
        genesis: PathBuf,
        /// The key that signs votes and by which the other validators know this one.
        consensus_key: PathBuf,
        /// The key of this validator's account, which signs what it states to the ledger.
        account_key: PathBuf,
        /// A file whose first line is the passphrase of both keys. Leave it out if they have none.
        passphrase_file: Option<PathBuf>,
        /// Folder of the chain, the votes and the blobs. Never copy it to a second process that runs: a validator
        /// that votes twice breaks the network's bound on faults.
        data_dir: PathBuf,
        /// Where it listens for the other validators.
        listen: SocketAddr,
        /// Where its HTTP API listens, or "off". It has no login: keep it on loopback unless the network is closed.
        api: ApiSetting,
        /// A second address of the API, where it speaks TLS, with the two files below. Clients then say https.
        tls_listen: Option<SocketAddr>,
        /// File of the certificate in PEM, and after it those by which it is signed. It is read again when it changes.
        tls_certificate: Option<PathBuf>,
        /// File of the certificate's key in PEM.
        tls_key: Option<PathBuf>,
        /// GiB of the disk for models, inputs, outputs and proofs.
        blob_gib: u32,
        /// What is logged to the error stream, in the words of RUST_LOG, such as "info" or "tg_node=debug".
        log: Option<String>,
        /// APIs of nodes that a validator which is not of genesis asks for the chain until it has its seat. None of them is
        /// believed.
        sources: Option<Vec<String>>,
        /// A final block that somebody vouches for, as `tensorgrid checkpoint` prints it: HEIGHT:ID. A validator that is not of genesis
        /// needs it once if genesis is old, or if it was away for about as long as bonds answer for votes.
        checkpoint: Option<String>,
        /// Where each validator of genesis listens, by its public key: HOST:PORT with an IP address or a name, which is
        /// looked up for every connection. Where the others listen, the ledger says.
        seats: BTreeMap<String, String>,
    }
}

/// Where an API listens, if anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ApiSetting(pub(crate) Option<SocketAddr>);

impl FromStr for ApiSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == OFF {
            return Ok(Self(None));
        }
        let address = text.parse().map(Some).map(Self);
        address.map_err(|_| format!("{text:?} is neither an IP address with a port nor \"{OFF}\""))
    }
}

impl TryFrom<String> for ApiSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ApiSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str(OFF),
        }
    }
}

impl From<ApiSetting> for String {
    fn from(setting: ApiSetting) -> Self {
        setting.to_string()
    }
}

impl ValidatorSettings {
    /// Settings as they are when nothing else is said.
    pub(crate) fn usual() -> Self {
        Self {
            genesis: "../genesis.bin".into(),
            consensus_key: "consensus.key".into(),
            account_key: "account.key".into(),
            passphrase_file: None,
            data_dir: "data".into(),
            listen: SocketAddr::from(([0, 0, 0, 0], 7100)),
            api: ApiSetting(Some(SocketAddr::from(([127, 0, 0, 1], 7101)))),
            tls_listen: None,
            tls_certificate: None,
            tls_key: None,
            blob_gib: 16,
            log: None,
            sources: None,
            checkpoint: None,
            seats: BTreeMap::new(),
        }
    }

    /// Settings with an example of all, for whoever writes a file by hand.
    pub(crate) fn sample() -> Self {
        let seats = [
            ("01".repeat(32), "10.0.0.7:7100"),
            ("02".repeat(32), "validator-2.example.org:7100"),
        ];
        Self {
            seats: seats.map(|(key, address)| (key, address.to_owned())).into(),
            ..Self::usual()
        }
    }
}

/// What flags and variables of the environment say in place of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    /// Where it listens for the others.
    pub(crate) listen: Option<SocketAddr>,
    /// Where its API listens.
    pub(crate) api: Option<ApiSetting>,
    /// Where it speaks TLS.
    pub(crate) tls: Option<TlsPlace>,
    /// Folder of its data, from the folder of the process.
    pub(crate) data_dir: Option<PathBuf>,
    /// A final block that somebody vouches for.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What is logged.
    pub(crate) log: Option<String>,
}

/// All that a validator's process is started with.
#[derive(Debug)]
pub(crate) struct ValidatorProcess {
    /// The node.
    pub(crate) config: ValidatorConfig,
    /// The file of its key of votes.
    pub(crate) consensus_key: PathBuf,
    /// The validator's account.
    pub(crate) account: Wallet,
    /// Where its API listens, if anywhere.
    pub(crate) api: Option<SocketAddr>,
    /// Where it speaks TLS, if it does.
    pub(crate) tls: Option<TlsPlace>,
    /// Whom it asks for the chain until it has a seat.
    pub(crate) sources: Vec<Arc<dyn ChainSource>>,
    /// A final block that somebody vouches for, while it follows the chain.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What is logged.
    pub(crate) log: Option<String>,
}

impl ValidatorProcess {
    /// Reads the settings of a file and all that they name.
    pub(crate) fn load(file: &Path, overrides: &Overrides) -> Result<Self, Failure> {
        let settings: ValidatorSettings = settings::read(file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let genesis = read_genesis(&folder.join(&settings.genesis))?;
        let passphrase = settings.passphrase_file.map(|path| folder.join(path));
        let passphrase = Passphrase::read_optional(passphrase.as_ref())?;
        let path = folder.join(&settings.consensus_key);
        let secret = keys::read(&path, passphrase.as_ref())?;
        let doing = format!("{} holds no key of votes", path.display());
        let key = ValidatorKey::from_secret(&secret).or_fail(Exit::Usage, doing)?;
        let account = folder.join(&settings.account_key);
        let account = keys::read_wallet(&account, passphrase.as_ref())?;
        let sources = settings.sources.unwrap_or_default();
        check_account(&genesis, &key, &account, &sources)?;
        let doing = format!("{}: a source", file.display());
        let sources = sources.iter().map(|url| {
            let source = HttpSource::new(url).or_fail(Exit::Usage, doing.clone())?;
            Ok(Arc::new(source) as Arc<dyn ChainSource>)
        });
        let sources = sources.collect::<Result<Vec<_>, Failure>>()?;
        let data_dir = match &overrides.data_dir {
            Some(path) => path.clone(),
            None => folder.join(&settings.data_dir),
        };
        let named = settings.checkpoint.as_deref();
        let checkpoint = named_checkpoint(file, named, overrides.checkpoint)?;
        let tls = TlsSettings {
            listen: settings.tls_listen,
            certificate: settings.tls_certificate,
            key: settings.tls_key,
        };
        let tls = tls.place(file, overrides.tls.as_ref())?;
        let listen = overrides.listen.unwrap_or(settings.listen);
        let seats = seats(&settings.seats, file)?;
        let checker = Arc::new(ProofChecker::default());
        let mut config = ValidatorConfig::new(genesis, key, data_dir, (listen, seats), checker);
        config.blob_bytes_max = u64::from(settings.blob_gib) << 30;
        Ok(Self {
            config,
            consensus_key: path,
            account,
            api: overrides.api.unwrap_or(settings.api).0,
            tls,
            sources,
            checkpoint,
            log: overrides.log.clone().or(settings.log),
        })
    }
}

/// Takes the file of a key of votes for this process; the operating system gives it back when the process ends, however it ends. Commands that
/// only sign with the key read it all the same. Where files cannot be locked without being closed to readers, nothing is held.
///
/// Stops: two processes of one key with two data folders, which vote twice and lose the bond. Copies of the file are not seen.
pub(crate) fn hold_key(path: &Path) -> Result<Option<File>, Failure> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let doing = format!("lock {}", path.display());
    let file = File::open(path).or_fail(Exit::Usage, doing.clone())?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let text = format!("the key of votes {} is in use", path.display());
            Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)).hint(
                "another process runs this validator, perhaps with another data folder; stop it first: two of one key would vote twice, and lose \
                 the bond",
            ))
        }
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).or_fail(Exit::Failed, doing),
    }
}

/// The checkpoint that a flag names, or else the settings of a file.
pub(crate) fn named_checkpoint(
    file: &Path,
    setting: Option<&str>,
    named: Option<Checkpoint>,
) -> Result<Option<Checkpoint>, Failure> {
    if named.is_some() {
        return Ok(named);
    }
    let doing = format!("{}: checkpoint", file.display());
    setting
        .map(str::parse)
        .transpose()
        .or_fail(Exit::Usage, doing)
}

/// Reads a network's genesis.
pub(crate) fn read_genesis(path: &Path) -> Result<Genesis, Failure> {
    let bytes = files::read(path, GENESIS_BYTES_MAX)?;
    let doing = format!("{} is not a genesis", path.display());
    Genesis::from_bytes(&bytes).or_fail(Exit::Usage, doing)
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// The seats of the settings.
fn seats(seats: &BTreeMap<String, String>, file: &Path) -> Result<Vec<Seat>, Failure> {
    let one = |(key, address): (&String, &String)| {
        let public = Digest::from_hex(key).ok_or_else(|| {
            let text = format!(
                "{}: {key:?} is no public key of a validator",
                file.display()
            );
            usage(text).hint("a public key has 64 hexadecimal digits")
        })?;
        let doing = format!("{}: the address of validator {key}", file.display());
        let address = address.parse().or_fail(Exit::Usage, doing)?;
        Ok(Seat {
            public: *public.as_bytes(),
            address,
        })
    };
    seats.iter().map(one).collect()
}

/// Both keys are of one validator of genesis, or of one that joined later.
fn check_account(
    genesis: &Genesis,
    key: &ValidatorKey,
    account: &Wallet,
    sources: &[String],
) -> Result<(), Failure> {
    let own = key.public();
    let validators = genesis.validators.iter();
    let seat = validators.clone().find(|it| *it.key.as_bytes() == own);
    let Some(seat) = seat else {
        if !sources.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = validators
            .map(|it| Digest::new(*it.key.as_bytes()).to_string())
            .collect();
        let text = format!(
            "the key of votes {} is not one of this network's validators",
            Digest::new(own)
        );
        return Err(usage(text).hint(format!(
            "genesis has these: {}; is this the genesis and the key of one network? One that joined later names `sources`",
            keys.join(", ")
        )));
    };
    if seat.address != account.address() {
        let text = format!(
            "the account key is that of {}, this validator's account is {}",
            account.address(),
            seat.address
        );
        return Err(usage(text).hint("account_key names the file of the account's key"));
    }
    Ok(())
}
