//! `tensorgrid wallet session new`, `list` and `revoke`.

use std::time::{Duration, Instant};

use tg_sdk::dto::SessionDto;
use tg_sdk::jobs::JobError;
use tg_sdk::text::FromText as _;
use tg_sdk::{Client, ClientError, clock, jobs};
use tg_types::{Address, Digest, DurationMs, SessionScope, SessionWallet, Transaction};

use super::json_of;
use crate::grid::account_args::{
    SessionCommand, SessionListArguments, SessionNewArguments, SessionRevokeArguments,
};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::session_file;
use tg_console::keys;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::{Table, short};

/// How long a transaction may take to be in a final block.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How often the account is asked.
const POLL: Duration = Duration::from_millis(150);

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// Runs a command about session keys.
pub(crate) async fn run(command: &SessionCommand, as_json: bool) -> Outcome {
    match command {
        SessionCommand::New(arguments) => new(arguments, as_json).await,
        SessionCommand::List(arguments) => list(arguments, as_json).await,
        SessionCommand::Revoke(arguments) => revoke(arguments, as_json).await,
    }
}

async fn new(arguments: &SessionNewArguments, as_json: bool) -> Outcome {
    let path = &arguments.file;
    if path.exists() {
        let text = format!("{} exists, and is left as it is", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("name another file"));
    }
    let scope = SessionScope::from_name(&arguments.scope).ok_or_else(|| {
        let text = format!("{:?} is no scope: serve or order", arguments.scope);
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    })?;
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let session = SessionWallet::from_secret(&keys::draw()?, wallet.address());
    // First: a key that is registered and lost would hold a place until it expires.
    session_file::write(path, &session)?;
    let status = client.status().await.calling("ask the grid")?;
    // Stops: a key that lasts for years, by a ledger time that only the API tells. It does not run ahead of clocks.
    let now = tg_types::TimestampMs::new(status.ledger_time_ms).min(clock::now());
    let lasts = DurationMs::new(u64::from(arguments.hours).saturating_mul(HOUR_MS));
    let register = Transaction::RegisterSessionKey {
        key: session.public(),
        scope,
        cap: arguments.cap,
        expires: now.saturating_add(lasts),
    };
    let sent = jobs::submit(&client, &wallet, &register, "register the session key").await;
    match &sent {
        Err(JobError::Call {
            source: ClientError::Refused { .. },
            ..
        }) => {
            // It is not registered.
            let _gone = std::fs::remove_file(path);
        }
        Err(_) => say(format_args!(
            "whether it is registered is not known: the key stays in {}, and `tensorgrid wallet session list` shows what is",
            path.display()
        )),
        Ok(_) => {}
    }
    sent.of_job()?;
    let key = Digest::new(session.public());
    let found = await_session(&client, wallet.address(), key, true).await?;
    if as_json {
        return json_of(&serde_json::json!({
            "file": path.display().to_string(), "account": wallet.address().to_string(), "session": found,
        }));
    }
    line(format_args!(
        "{key} signs what {} sends to {scope}, for at most {} TGRID and {} hours; its key is in {}",
        wallet.address(),
        short(arguments.cap),
        arguments.hours,
        path.display()
    ))?;
    say("`tensorgrid wallet session revoke` takes it back at once");
    Ok(())
}

async fn list(arguments: &SessionListArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let address = match &arguments.address {
        Some(text) => Address::from_text(text).ok_or_else(|| {
            let text = format!("{text:?} is not {}", Address::EXPECTED);
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        })?,
        None => connect::wallet(&client, &arguments.key).await?.address(),
    };
    let sessions = sessions(&client, address).await?;
    if as_json {
        return json_of(&sessions);
    }
    let mut table = Table::new(&[
        "key",
        "may",
        "at most",
        "spent",
        "at risk",
        "until (ledger ms)",
        "nonce",
    ]);
    for it in sessions {
        table.row(vec![
            it.key.to_string(),
            it.scope,
            short(it.cap),
            short(it.spent),
            short(it.at_risk),
            it.expires_ms.to_string(),
            it.nonce.to_string(),
        ]);
    }
    Ok(line(table)?)
}

async fn revoke(arguments: &SessionRevokeArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let key = match Digest::from_hex(&arguments.session) {
        Some(key) => key,
        None => Digest::new(session_file::read(arguments.session.as_ref())?.public()),
    };
    let revoke = Transaction::RevokeSessionKey {
        key: *key.as_bytes(),
    };
    let sent = jobs::submit(&client, &wallet, &revoke, "take the session key back").await;
    sent.of_job()?;
    await_session(&client, wallet.address(), key, false).await?;
    if as_json {
        return json_of(&serde_json::json!({ "revoked": key.to_string() }));
    }
    Ok(line(format_args!("{key} signs no longer"))?)
}

async fn sessions(client: &Client, account: Address) -> Result<Vec<SessionDto>, Failure> {
    let account = client
        .account(account)
        .await
        .calling("ask for the account")?;
    Ok(account.sessions)
}

/// Waits until an account has a key, or has it no more.
async fn await_session(
    client: &Client,
    account: Address,
    key: Digest,
    comes: bool,
) -> Result<Option<SessionDto>, Failure> {
    let sent = Instant::now();
    loop {
        let found = sessions(client, account).await?;
        let found = found.into_iter().find(|it| it.key == key);
        if found.is_some() == comes {
            return Ok(found);
        }
        if sent.elapsed() > WAIT_MAX {
            let text = "the transaction was taken and is in no block yet";
            return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
        }
        tokio::time::sleep(POLL).await;
    }
}
