//! A grid behind an API: connecting, keys, and what the client's errors mean to a person.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tg_sdk::dto::{ModelDto, ModelStateDto};
use tg_sdk::jobs::{self, JobError};
use tg_sdk::{Client, ClientError, Signer};
use tg_types::{JobId, ModelId, SessionWallet, Wallet};

use super::connect_args::{API_USUAL, ApiArguments, KeyArguments};
use super::{networks, session_file};
use tg_console::accounts;
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, Outcome, say};
use tg_offline::bundled::BuiltIn;

/// No offer fits.
pub(crate) fn no_offer() -> Failure {
    Failure::new(
        Exit::Rejected,
        anyhow::anyhow!("no provider offers to run this model"),
    )
    .hint("start one with `tensorgrid provider --price 0.01`, or see `tensorgrid provider list`")
}

/// How a command ends by a failed call.
pub(crate) const fn exit_of_call(error: &ClientError) -> Exit {
    match error {
        ClientError::InvalidUrl { .. } | ClientError::NoRoots { .. } => Exit::Usage,
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => Exit::Unavailable,
        ClientError::WrongBlob { .. }
        | ClientError::OtherAnswer { .. }
        | ClientError::OtherNetwork { .. }
        | ClientError::BaseFee { .. } => Exit::Rejected,
        ClientError::Refused { status, .. } => match status {
            404 => Exit::NotFound,
            401 | 422 => Exit::Rejected,
            408 | 429 | 503 => Exit::Unavailable,
            _ => Exit::Failed,
        },
        ClientError::TooLarge { .. }
        | ClientError::ChunkNotRead { .. }
        | ClientError::Malformed { .. }
        | ClientError::Unreadable { .. } => Exit::Failed,
    }
}

/// A failed call, with the exit code and hint it deserves.
pub(crate) fn failure(error: ClientError) -> Failure {
    let (exit, hint) = (exit_of_call(&error), error.hint().to_owned());
    let failure = Failure::new(exit, error);
    if hint.is_empty() {
        failure
    } else {
        failure.hint(hint)
    }
}

/// Adds what was being done to a failed call.
pub(crate) trait Calling<T> {
    /// Fails with the call's exit code and hint, saying what was being done.
    fn calling(self, doing: &'static str) -> Result<T, Failure>;
}

impl<T> Calling<T> for Result<T, ClientError> {
    fn calling(self, doing: &'static str) -> Result<T, Failure> {
        self.map_err(|error| {
            let mut failure = failure(error);
            failure.error = failure.error.context(doing);
            failure
        })
    }
}

/// How a command ends by a step of a job that failed.
const fn exit_of_job(error: &JobError) -> Exit {
    match error {
        JobError::Call { source, .. } => exit_of_call(source),
        JobError::SeveralModels { .. } | JobError::DepositTold { .. } => Exit::Usage,
        JobError::NoModel { .. } => Exit::NotFound,
        JobError::NotKept(_) => Exit::Failed,
        JobError::NotEndpoint { .. }
        | JobError::Sealed { .. }
        | JobError::NoKeyAwaited { .. }
        | JobError::Seal { .. } => Exit::Usage,
        JobError::NotInBlock { .. } => Exit::Unavailable,
        JobError::NotActive { .. }
        | JobError::Check(_)
        | JobError::NotPaid { .. }
        | JobError::NoProof
        | JobError::OtherJob { .. }
        | JobError::OtherLease { .. }
        | JobError::NonceTaken { .. }
        | JobError::Dropped { .. }
        | JobError::Forfeited { .. } => Exit::Rejected,
    }
}

/// A step of a job that failed, as a person reads it.
pub(crate) trait OfJob<T> {
    /// Fails with the step's exit code and hint.
    fn of_job(self) -> Result<T, Failure>;
}

impl<T> OfJob<T> for Result<T, JobError> {
    fn of_job(self) -> Result<T, Failure> {
        self.map_err(|error| {
            let (exit, hint) = (exit_of_job(&error), error.hint());
            let failure = Failure::new(exit, error);
            match hint.as_str() {
                "" => failure,
                hint => failure.hint(hint),
            }
        })
    }
}

/// A client of the API that was named.
pub(crate) fn client(arguments: &ApiArguments) -> Result<Client, Failure> {
    Client::new(&arguments.api).calling("name the grid")
}

/// What a command that is suggested needs so that it reaches the same grid: nothing where that is the usual one, or the environment names it.
pub(crate) fn api_flag(client: &Client) -> String {
    let named = std::env::var("TENSORGRID_API").ok();
    flag_of(client.url(), named.as_deref())
}

fn flag_of(url: &str, named: Option<&str>) -> String {
    let is_reached = url == named.unwrap_or(API_USUAL).trim_end_matches('/');
    match is_reached {
        true => String::new(),
        false => format!(" --api {url}"),
    }
}

/// The wallet that was named: a key file, or an account of a development network.
pub(crate) async fn wallet(client: &Client, arguments: &KeyArguments) -> Result<Wallet, Failure> {
    if let Some(path) = &arguments.key {
        let passphrase = arguments.passphrase.passphrase_file.as_ref();
        let passphrase = Passphrase::read_optional(passphrase)?;
        let wallet = keys::read_wallet(path, passphrase.as_ref())?;
        pin(client, path).await?;
        return Ok(wallet);
    }
    let status = client.status().await.calling("ask the grid")?;
    if !status.development {
        let text = format!(
            "no key is named, and network {} has no development accounts",
            status.network
        );
        return Err(usage(text).hint("--key FILE or TENSORGRID_KEY names the key that signs"));
    }
    // Everybody has these keys: no lie of the API takes anything from anybody.
    client.believe();
    Ok(accounts::wallet(&arguments.account))
}

/// Signs with the key of a file for one network alone, which is kept beside it.
pub(crate) async fn pin(client: &Client, key: &Path) -> Outcome {
    let told = client.domain().await.calling("ask the grid")?;
    // Commands that sign at once with one key do so one after the other.
    let mut turn = key.as_os_str().to_owned();
    turn.push(".turn");
    client.sign_in_turn(turn.into());
    networks::remember(client.url(), key, &told)
}

/// The model of an id, the beginning of an id, or a name. What an API makes of a name is its word, so the id is said.
pub(crate) async fn model(client: &Client, name: &str) -> Result<ModelDto, Failure> {
    let model = listed(client, name).await?;
    if ModelId::from_hex(name).is_none() {
        say(format_args!("model {} is {}", model.name, model.id));
    }
    Ok(model)
}

/// The model of an id, the beginning of an id, or a name. `up` answers before its blocks have registered the models that are
/// built in: whoever asks for one of them in the grid's first blocks waits for it.
pub(crate) async fn listed(client: &Client, name: &str) -> Result<ModelDto, Failure> {
    let is_missing = |found: &Result<ModelDto, JobError>| match found {
        Ok(model) => model.state == ModelStateDto::Pending,
        Err(error) => matches!(error, JobError::NoModel { .. }),
    };
    let first = jobs::find_model(client, name).await;
    let is_built_in = BuiltIn::ALL.iter().any(|model| model.name() == name);
    if !(is_missing(&first) && is_built_in) {
        return first.of_job();
    }
    let until = Instant::now() + MODELS_REGISTERED;
    let mut is_told = false;
    loop {
        let found = jobs::find_model(client, name).await;
        let height = client.status().await.calling("ask the grid")?.height;
        if !is_missing(&found) || height > FIRST_BLOCKS || Instant::now() >= until {
            return found.of_job();
        }
        if !is_told {
            say("the grid has just started: waiting for its models ...");
            is_told = true;
        }
        tokio::time::sleep(MODELS_POLL).await;
    }
}

/// In how many blocks a grid that was just started registers its models; some five a second are made meanwhile.
const FIRST_BLOCKS: u64 = 60;

/// How long that may take on a busy machine.
const MODELS_REGISTERED: Duration = Duration::from_secs(20);

/// How often one looks.
const MODELS_POLL: Duration = Duration::from_millis(200);

/// A key that signs: an account's own, or a session key.
pub(crate) enum SigningKey {
    /// The account's own.
    Account(Wallet),
    /// A session key.
    Session(SessionWallet),
}

impl SigningKey {
    /// Who signs with it.
    pub(crate) const fn signer(&self) -> Signer<'_> {
        match self {
            Self::Account(wallet) => Signer::Account(wallet),
            Self::Session(wallet) => Signer::Session(wallet),
        }
    }
}

/// The key that was named: a session key's file, or as [`wallet`].
pub(crate) async fn signing(
    client: &Client,
    arguments: &KeyArguments,
    session: Option<&Path>,
) -> Result<SigningKey, Failure> {
    match session {
        Some(path) => {
            let session = session_file::read(path)?;
            pin(client, path).await?;
            Ok(SigningKey::Session(session))
        }
        None => wallet(client, arguments).await.map(SigningKey::Account),
    }
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// Reads a key file, or makes one with a fresh key that only this user can read.
pub(crate) fn key_file(path: &Path, passphrase: Option<&Passphrase>) -> Result<Wallet, Failure> {
    if path.exists() {
        return keys::read_wallet(path, passphrase);
    }
    let wallet = keys::draw_wallet()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    keys::write(path, &wallet.secret(), passphrase)?;
    Ok(wallet)
}

/// The job of an id or the beginning of one.
pub(crate) async fn job(client: &Client, id: &str) -> Result<JobId, Failure> {
    if let Some(id) = JobId::from_hex(id) {
        return Ok(id);
    }
    let filter = tg_sdk::JobFilter {
        requestor: None,
        provider: None,
        mode: None,
        limit: Some(1_000),
    };
    let jobs = client.jobs(filter).await.calling("list the jobs")?;
    let begins = |job: JobId| id.len() >= 4 && job.to_string().starts_with(id);
    let mut found = jobs.iter().map(|job| job.id).filter(|&job| begins(job));
    match (found.next(), found.next()) {
        (Some(job), None) => Ok(job),
        (Some(_), Some(_)) => {
            Err(usage(format!("several jobs begin with {id}")).hint("give more digits of the id"))
        }
        (None, _) => Err(
            Failure::new(Exit::NotFound, anyhow::anyhow!("there is no job {id}"))
                .hint("`tensorgrid job list` shows the jobs"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_reaches_the_same_grid() {
        let other = "http://127.0.0.1:7171";
        for (url, named, flag) in [
            (API_USUAL, None, String::new()),
            (other, None, format!(" --api {other}")),
            (other, Some("http://127.0.0.1:7171/"), String::new()),
            (API_USUAL, Some(other), format!(" --api {API_USUAL}")),
        ] {
            assert_eq!(flag_of(url, named), flag, "{url} {named:?}");
        }
    }
}
