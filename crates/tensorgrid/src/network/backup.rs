//! Copies of what a process needs to be started again, such as on another machine: a folder with its settings, and beside them all that
//! these name. What passphrases and certificates lie in is left where it is.

#[cfg(unix)]
use std::fs;
use std::path::{Path, PathBuf};
use tg_console::files;

use super::founding::make_empty;
use super::gateway::{GatewayOverrides, GatewayProcess, GatewaySettings};
use super::process::{Overrides, ValidatorProcess, ValidatorSettings};
use super::provider::ProviderSettings;
use super::settings::{self, Settings};
use crate::grid::networks;
use crate::grid::session_file::SessionSetting;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_openai::api_keys::spent_file;

/// Most bytes of a file that is not of a node's data.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Names within a copy.
const GENESIS: &str = "genesis.bin";
const CONSENSUS_KEY: &str = "consensus.key";
const ACCOUNT_KEY: &str = "account.key";
const DATA: &str = "data";

/// Copies a validator that does not run: settings, genesis, keys, chain and blobs, without its journal of votes.
pub(crate) fn of_validator(
    file: &Path,
    overrides: &Overrides,
    to: &Path,
) -> Result<PathBuf, Failure> {
    // First: what does not fit together is no copy to restore.
    let config = ValidatorProcess::load(file, overrides)?.config;
    let read: ValidatorSettings = settings::read(file)?;
    let (from, to) = (beside(file), empty(to)?);
    let data = to.join(DATA);
    let copied = tg_node::back_up_validator(&config.directory, &config.genesis, &config.key, &data);
    stopped(copied.or_fail(Exit::Failed, "copy the validator's data"))?;
    copy(&from.join(&read.genesis), &to.join(GENESIS))?;
    copy(&from.join(&read.consensus_key), &to.join(CONSENSUS_KEY))?;
    copy(&from.join(&read.account_key), &to.join(ACCOUNT_KEY))?;
    let settings = ValidatorSettings {
        genesis: GENESIS.into(),
        consensus_key: CONSENSUS_KEY.into(),
        account_key: ACCOUNT_KEY.into(),
        data_dir: DATA.into(),
        passphrase_file: left(&from, read.passphrase_file.as_deref())?,
        tls_certificate: left(&from, read.tls_certificate.as_deref())?,
        tls_key: left(&from, read.tls_key.as_deref())?,
        ..read
    };
    write(&settings, &to.join("validator.toml"))
}

/// Copies a gateway that does not run: settings, genesis, and what its OpenAI routes keep. Its chain comes from its sources.
pub(crate) fn of_gateway(
    file: &Path,
    overrides: &GatewayOverrides,
    keys: Option<&Path>,
    to: &Path,
) -> Result<PathBuf, Failure> {
    let data = GatewayProcess::load(file, overrides)?.follower.directory;
    let read: GatewaySettings = settings::read(file)?;
    let (from, to) = (beside(file), empty(to)?);
    if data.exists() {
        let copied = tg_node::back_up_folder(&data, "openai", &to.join(DATA));
        stopped(copied.or_fail(Exit::Failed, "copy what the OpenAI routes keep"))?;
    }
    copy(&from.join(&read.genesis), &to.join(GENESIS))?;
    if let Some(keys) = keys {
        let spent = spent_file(keys);
        for path in [keys, spent.as_path()] {
            // Nothing was spent yet, perhaps.
            if path.exists() {
                copy(path, &to.join(path.file_name().unwrap_or_default()))?;
            }
        }
    }
    let settings = GatewaySettings {
        genesis: GENESIS.into(),
        data_dir: DATA.into(),
        tls_certificate: left(&from, read.tls_certificate.as_deref())?,
        tls_key: left(&from, read.tls_key.as_deref())?,
        session: left_session(&from, read.session.as_deref())?,
        ..read
    };
    write(&settings, &to.join("gateway.toml"))
}

/// Copies a provider: settings, its key, and for which networks that signs. All else it has from the grid.
pub(crate) fn of_provider(file: &Path, key: &Path, to: &Path) -> Result<PathBuf, Failure> {
    let read = ProviderSettings::read(file)?;
    let to = empty(to)?;
    let copied = to.join(ACCOUNT_KEY);
    copy(key, &copied)?;
    let known = networks::beside(key);
    if known.exists() {
        copy(&known, &networks::beside(&copied))?;
    }
    let here = Path::new("");
    let settings = ProviderSettings {
        key: ACCOUNT_KEY.into(),
        passphrase_file: left(here, read.passphrase_file.as_deref())?,
        session: left_session(here, read.session.as_deref())?,
        serve_config: left(here, read.serve_config.as_deref())?,
        upstream_key_file: left(here, read.upstream_key_file.as_deref())?,
        ..read
    };
    write(&settings, &to.join("provider.toml"))
}

/// Says where the copy is, and how it is used.
pub(crate) fn tell(command: &str, file: &Path, as_json: bool) -> Outcome {
    if as_json {
        return Ok(line(serde_json::json!({ "config": file }))?);
    }
    line(format_args!("copied: {}", file.display()))?;
    say(format_args!(
        "it has the keys as they were: keep it as you keep them, and the file of their passphrase elsewhere\n\
         to start of it, never while the other runs: tensorgrid {command} --config {}",
        file.display()
    ));
    Ok(())
}

fn beside(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_path_buf()
}

/// The folder of the copy, from the root.
fn empty(to: &Path) -> Result<PathBuf, Failure> {
    let to = std::path::absolute(to)?;
    make_empty(&to)?;
    // What is copied was in folders that are closed to other users.
    #[cfg(unix)]
    fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(to)
}

/// What is left where it is, from the root.
fn left(from: &Path, path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let path = path.map(|path| std::path::absolute(from.join(path)));
    Ok(path.transpose()?)
}

/// The setting of a session key, whose file is left where it is, from the root.
fn left_session(from: &Path, session: Option<&str>) -> Result<Option<String>, Failure> {
    let session = session.map(|it| SessionSetting::of(it).placed(from).absolute());
    Ok(session.transpose()?.map(|it| it.to_string()))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    files::write_private(to, &files::read(from, FILE_BYTES_MAX)?)
}

fn write<S: Settings>(settings: &S, file: &Path) -> Result<PathBuf, Failure> {
    files::write(file, settings::render(settings)?.as_bytes())?;
    Ok(file.to_path_buf())
}

/// What to do where data could not be copied.
fn stopped(copied: Outcome) -> Outcome {
    copied.map_err(|failure| {
        failure.hint("stop the process first: what it writes meanwhile would be half in the copy; it may be started again afterwards")
    })
}
