//! A grid behind an API: connecting, keys, and what the client's errors mean to a person.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tg_sdk::dto::{ModelDto, ModelStateDto};
use tg_sdk::{Client, ClientError};
use tg_types::{JobId, ModelId, Wallet};

use super::accounts;
use super::args::{ApiArguments, KeyArguments};
use crate::offline::files;
use crate::outcome::{Exit, Failure};

impl From<&ClientError> for Exit {
    fn from(error: &ClientError) -> Self {
        match error {
            ClientError::InvalidUrl { .. } => Self::Usage,
            ClientError::Unreachable { .. } | ClientError::Timeout { .. } => Self::Unavailable,
            ClientError::WrongBlob { .. } => Self::Rejected,
            ClientError::Refused { status, .. } => match status {
                404 => Self::NotFound,
                401 | 422 => Self::Rejected,
                408 | 429 | 503 => Self::Unavailable,
                _ => Self::Failed,
            },
            ClientError::TooLarge { .. } | ClientError::Unreadable { .. } => Self::Failed,
        }
    }
}

/// A failed call, with the exit code and hint it deserves.
pub(crate) fn failure(error: ClientError) -> Failure {
    let (exit, hint) = (Exit::from(&error), error.hint().to_owned());
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

/// How long a call is repeated that a busy grid refused.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// Repeats a call as long as the grid says that it is busy. For calls alone that change nothing when they are refused.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, ClientError> {
    let started = Instant::now();
    loop {
        let result = call().await;
        let busy = matches!(
            &result,
            Err(ClientError::Refused {
                status: 429 | 503,
                ..
            })
        );
        if !busy || started.elapsed() > BUSY_MAX {
            return result;
        }
        tokio::time::sleep(a_while()).await;
    }
}

/// Between 100 and 355 ms: many who were refused together do not come again together.
pub(crate) fn a_while() -> Duration {
    let mut drawn = [0];
    // Without a draw all wait equally long.
    let _ = getrandom::fill(&mut drawn);
    Duration::from_millis(100 + u64::from(drawn[0]))
}

/// A client of the API that was named.
pub(crate) fn client(arguments: &ApiArguments) -> Result<Client, Failure> {
    Client::new(&arguments.api).calling("name the grid")
}

/// The wallet that was named: a key file, or an account of a development network.
pub(crate) fn wallet(arguments: &KeyArguments) -> Result<Wallet, Failure> {
    match &arguments.key {
        Some(path) => read_key(path),
        None => Ok(accounts::wallet(&arguments.account)),
    }
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// Reads a key file: 64 hexadecimal digits.
fn read_key(path: &Path) -> Result<Wallet, Failure> {
    let wrong = || {
        usage(format!("{} is not a key file", path.display()))
            .hint("a key file holds 64 hexadecimal digits; `tensorgrid provider` makes one")
    };
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(
            Exit::Usage,
            anyhow::Error::from(error).context(format!("read the key {}", path.display())),
        )
    })?;
    let secret = tg_types::Digest::from_hex(text.trim()).ok_or_else(wrong)?;
    Wallet::from_secret(secret.as_bytes()).map_err(|_| wrong())
}

/// Reads a key file, or makes one with a fresh key that only this user can read.
pub(crate) fn key_file(path: &Path) -> Result<Wallet, Failure> {
    if path.exists() {
        return read_key(path);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| anyhow::anyhow!("draw a key: {error}"))?;
    let wallet = Wallet::from_secret(&secret).map_err(|_| anyhow::anyhow!("draw a key"))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    files::write_secret(path, &tg_types::Digest::new(secret).to_string())?;
    Ok(wallet)
}

/// The model of an id, the beginning of an id, or a name. Of several active ones of a name the oldest is taken.
pub(crate) async fn model(client: &Client, name: &str) -> Result<ModelDto, Failure> {
    if let Some(id) = ModelId::from_hex(name) {
        return client.model(id).await.calling("find the model");
    }
    let models = client.models().await.calling("list the models")?;
    let begins = |model: &&ModelDto| name.len() >= 6 && model.id.to_string().starts_with(name);
    let named = |model: &&ModelDto| model.name == name || begins(model);
    let active = |model: &&ModelDto| named(model) && model.state == ModelStateDto::Active;
    let found = models
        .iter()
        .find(active)
        .or_else(|| models.iter().find(named));
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        let known = if names.is_empty() {
            "the grid has no models; add one with `tensorgrid model add`".to_owned()
        } else {
            format!("the grid has: {}", names.join(", "))
        };
        Failure::new(
            Exit::NotFound,
            anyhow::anyhow!("there is no model {name:?}"),
        )
        .hint(known)
    })
}

/// The job of an id or the beginning of one.
pub(crate) async fn job(client: &Client, id: &str) -> Result<JobId, Failure> {
    if let Some(id) = JobId::from_hex(id) {
        return Ok(id);
    }
    let filter = tg_sdk::JobFilter {
        requestor: None,
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
