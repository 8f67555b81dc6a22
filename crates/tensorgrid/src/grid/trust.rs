//! What is shown of a grid without trusting whoever answers.

use std::time::{SystemTime, UNIX_EPOCH};
use tg_console::files;

use tg_ledger::Genesis;
use tg_sdk::light::{FinalValue, LightError};
use tg_types::Decode;
use tg_types::chain::TrustRoot;

use super::args::TrustArguments;
use super::connect::Calling;
use tg_console::outcome::{Exit, Failure, OrFail};

/// Most bytes of a genesis file.
const GENESIS_BYTES_MAX: u64 = 64 << 20;

/// Answers that are older say so: blocks come every second or so.
const OLD_MS: u64 = 30_000;

/// What is trusted instead of the API, if a genesis was named.
pub(crate) fn root(arguments: &TrustArguments) -> Result<Option<TrustRoot>, Failure> {
    let Some(path) = &arguments.genesis else {
        return Ok(None);
    };
    let bytes = files::read(path, GENESIS_BYTES_MAX)?;
    let doing = format!("{} is not a genesis", path.display());
    let genesis = Genesis::from_bytes(&bytes).or_fail(Exit::Usage, doing)?;
    let doing = format!("{} is the genesis of no network", path.display());
    genesis.trust_root().or_fail(Exit::Usage, doing).map(Some)
}

/// Whose word an answer is, for people.
pub(crate) fn proved<T>(shown: &FinalValue<T>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
    let age = now.saturating_sub(shown.timestamp_ms);
    let old = match age {
        0..OLD_MS => String::new(),
        _ => format!(
            ", {} s ago: the API may be behind, or hide newer blocks",
            age / 1_000
        ),
    };
    format!("proved at height {}{old}", shown.height)
}

/// What an answer that shows nothing ends a command with.
pub(crate) fn checked<T>(shown: Result<T, LightError>, doing: &'static str) -> Result<T, Failure> {
    match shown {
        Ok(shown) => Ok(shown),
        Err(LightError::Client(error)) => Err(error).calling(doing),
        Err(error) => Err(
            Failure::new(Exit::Rejected, anyhow::Error::from(error)).hint(
                "the API forges its answers, or serves another network than that of the genesis",
            ),
        ),
    }
}
