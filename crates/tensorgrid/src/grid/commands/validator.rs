//! `tensorgrid validator`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_api::{ApiConfig, ApiListener, ApiServer, GridPort};
use tg_node::{
    ChainSource, Follower, FollowerConfig, NodeHandle, OpenError, RunningValidator, Status,
    ValidatorConfig, spawn_validator,
};
use tg_sdk::Client;
use tg_types::Address;
use tg_types::chain::Checkpoint;

use super::{Signals, stopped_at_once};
use crate::grid::connect::Calling;
use crate::grid::embedded::{API_PATIENCE, Reporters};
use crate::grid::node_args::{CloudTableArguments, NameArguments, ValidatorArguments};
use crate::grid::port::NodePort;
use crate::grid::trust;
use crate::network::backup;
use crate::network::process::{Overrides, ValidatorProcess, ValidatorSettings, hold_key};
use crate::network::settings;
use crate::network::standing::{ValidatorState, needed};
use crate::network::tls::TlsPlace;
use crate::telemetry;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, line, say};
use tg_console::table::brief;

/// How often it looks where the validator stands.
const LOOK: Duration = Duration::from_millis(200);

/// How often it says so although nothing changed but heights.
const REPEAT: Duration = Duration::from_secs(60);

/// Runs a validator until a signal, copies what it has, or prints sample settings.
pub(crate) async fn run(arguments: &ValidatorArguments, as_json: bool) -> Outcome {
    let Some(file) = arguments.config.as_deref().filter(|_| !arguments.sample) else {
        let text = settings::render(&ValidatorSettings::sample())?;
        return Ok(line(text.trim_end())?);
    };
    if let Some(to) = &arguments.backup {
        let copied = backup::of_validator(file, &overrides(arguments), to)?;
        return backup::tell("validator", &copied, as_json);
    }
    let process = ValidatorProcess::load(file, &overrides(arguments))?;
    let _held_until_the_end = hold_key(&process.consensus_key)?;
    let _telemetry = telemetry::start(process.log.as_deref(), as_json)?;
    let genesis = process.config.genesis.id();
    let listen = process.config.listen;
    // First: a busy port is told before anything is opened.
    let api = match process.api {
        Some(address) => {
            let told = (&arguments.names, &arguments.clouds);
            Some(bind(address, process.tls, told).await?)
        }
        None => None,
    };
    let mut signals = Signals::new()?;
    let config = process.config;
    let checker = Arc::clone(&config.checker);
    let directory = config.directory.clone();
    let started = tokio::select! {
        started = start(config, process.account.address(), (process.sources, process.checkpoint)) => started?,
        () = signals.stop() => return Ok(()),
    };
    let hint = started
        .as_ref()
        .err()
        .map(|error| hint_of(error, &directory));
    let started = started.or_fail(Exit::Failed, "start the validator");
    let validator = started.map_err(|failure| match hint {
        Some(hint) if !hint.is_empty() => failure.hint(hint),
        _ => failure,
    })?;
    let node = validator.handle().clone();
    let _reporters = Reporters::start(&checker, [(node.clone(), process.account)]);
    let server = match api {
        Some((listener, config)) => Some(serve(listener, config, &node, &brief(genesis))?),
        None => None,
    };
    let url = server.as_ref().map(ApiServer::url);
    announce(&node, url.as_deref(), (genesis, listen), as_json)?;
    let ended = tokio::select! {
        ended = watch(&node, as_json) => ended,
        () = signals.stop() => Ok(()),
    };
    say("stopping; Ctrl-C again stops at once");
    let stopped = tokio::select! {
        stopped = stop(validator, server) => stopped,
        () = signals.stop() => Err(Failure::new(Exit::Failed, stopped_at_once())),
    };
    ended.and(stopped)
}

/// How often, and how many times, a validator that has followed looks whether its database is free.
const CLOSING_POLL: Duration = Duration::from_millis(100);
const CLOSING_POLLS: u32 = 100;

/// Starts the validator; one that has no seat yet, or missed the changes since it had one, follows the chain first.
async fn start(
    config: ValidatorConfig,
    account: Address,
    (sources, checkpoint): (Vec<Arc<dyn ChainSource>>, Option<Checkpoint>),
) -> Result<Result<RunningValidator, OpenError>, Failure> {
    let mut waits = 0;
    loop {
        let own = config.clone();
        let started = tokio::task::spawn_blocking(move || spawn_validator(own)).await?;
        // The page that was executed when this process ended to follow holds the database until it is written.
        if waits > 0 && matches!(&started, Err(OpenError::InUse { .. })) {
            waits -= 1;
            tokio::time::sleep(CLOSING_POLL).await;
            continue;
        }
        let is_seatless = matches!(&started, Err(OpenError::NotAValidator { .. }));
        if !is_seatless || sources.is_empty() {
            return Ok(started);
        }
        let follower = FollowerConfig {
            validator: Some(config.key.public()),
            checkpoint,
            blob_bytes_max: config.blob_bytes_max,
            ..FollowerConfig::new(
                config.genesis.clone(),
                config.directory.clone(),
                sources.clone(),
            )
        };
        say("opening; an empty validator takes a snapshot first");
        match Follower::open(follower).await {
            Ok(follower) => follow_until_seated(follower, &account).await?,
            Err(error) => return Ok(Err(error)),
        }
        waits = CLOSING_POLLS;
    }
}

/// Follows the chain until the account has a seat and consensus could begin.
async fn follow_until_seated(follower: Follower, account: &Address) -> Outcome {
    let node = follower.handle().clone();
    let following = tokio::spawn(follower.run());
    let mut said: Option<Instant> = None;
    loop {
        let status = node.status();
        if let Some(reason) = &status.stopped {
            let text = format!("following the chain stopped: {reason}");
            return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)));
        }
        let state = node.snapshot().state.clone();
        let has_seat = state.seat_of(account).is_some();
        if has_seat && node.can_begin_consensus()? {
            say(format_args!("has a seat at height {}", status.height));
            break;
        }
        if said.is_none_or(|at| at.elapsed() >= REPEAT) {
            said = Some(Instant::now());
            let waits = state.seats().applicants.iter();
            let place = waits
                .map(|it| it.validator.address)
                .position(|it| it == *account);
            let height = status.height;
            say(match place {
                _ if has_seat => format!("has a seat; catching up at height {height}"),
                Some(before) => {
                    format!("waits for its seat, {before} before it; follows at height {height}")
                }
                None => format!(
                    "has no seat; follows at height {height}. `tensorgrid seat join` with {account} asks for one"
                ),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
    following.abort();
    // What it was writing is whole or not there. An aborted task ends with an error that says so.
    let _ = following.await;
    Ok(())
}

fn overrides(arguments: &ValidatorArguments) -> Overrides {
    Overrides {
        listen: arguments.listen,
        api: arguments.api_listen,
        tls: arguments.tls.place(),
        data_dir: arguments.data_dir.clone(),
        checkpoint: arguments.checkpoint,
        log: arguments.log.clone(),
    }
}

pub(super) async fn bind(
    listen: std::net::SocketAddr,
    tls: Option<TlsPlace>,
    (names, clouds): (&NameArguments, &CloudTableArguments),
) -> Result<(ApiListener, ApiConfig), Failure> {
    let clouds = clouds.told()?;
    let listener = ApiListener::bind(listen).await;
    let listener = listener
        .or_fail(Exit::Failed, format!("listen on {listen} for the API"))
        .map_err(|failure| {
            failure.hint("--api-listen or `api` in the settings names another address, or off")
        })?;
    let listener = match tls {
        Some(place) => place.take(listener).await?,
        None => listener,
    };
    let listener = listener.called(names.allowed_host.clone());
    let listener = listener.beside_clouds(clouds);
    let config = ApiConfig {
        listen,
        ..ApiConfig::default()
    };
    Ok((listener, config))
}

fn serve(
    listener: ApiListener,
    config: ApiConfig,
    node: &NodeHandle,
    network: &str,
) -> Result<ApiServer, Failure> {
    let port = Arc::new(NodePort::alone(node.clone(), network.to_owned()));
    let server = listener.serve(Arc::clone(&port) as Arc<dyn GridPort>, config);
    let client = Client::new(&server.url()).calling("name the API")?;
    port.set_client(client.of_own_node());
    Ok(server)
}

/// The one line of data at the start.
fn announce(
    node: &NodeHandle,
    api: Option<&str>,
    (genesis, listen): (tg_types::BlockId, std::net::SocketAddr),
    as_json: bool,
) -> Outcome {
    let status = node.status();
    let validator = tg_types::Digest::new(status.validator).to_string();
    if as_json {
        return Ok(line(serde_json::json!({
            "validator": validator,
            "network": genesis.to_string(),
            "listen": listen,
            "api": api,
            "height": status.height,
        }))?);
    }
    line(format_args!(
        "validator {} of network {} listens on {listen}, API {}",
        brief(&validator),
        brief(genesis),
        api.unwrap_or("off")
    ))?;
    Ok(())
}

/// Says where the validator stands whenever that changes. Ends when it stops by itself.
async fn watch(node: &NodeHandle, as_json: bool) -> Outcome {
    let mut height = node.status().height;
    let mut last_block = Instant::now();
    let mut told: Option<(ValidatorState, usize, Option<u64>, Instant)> = None;
    loop {
        let status = node.status();
        if status.height != height {
            (height, last_block) = (status.height, Instant::now());
        }
        if let Some(reason) = &status.stopped {
            let text = format!("the validator stopped by itself: {reason}");
            return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text))
                .hint("what was final is kept; mend the cause and start again"));
        }
        let standing = ValidatorState::of(&status, last_block.elapsed());
        let is_old = told.is_none_or(|(before, peers, abstains, at)| {
            before != standing
                || peers != status.peers
                || abstains != status.abstains_until
                || at.elapsed() >= REPEAT
        });
        if is_old {
            tell(standing, &status, as_json)?;
            told = Some((
                standing,
                status.peers,
                status.abstains_until,
                Instant::now(),
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn tell(standing: ValidatorState, status: &Status, as_json: bool) -> Outcome {
    if !as_json {
        say(standing.line(status));
        return Ok(());
    }
    // One object a line, so that a reader can follow.
    Ok(line(serde_json::json!({
        "state": standing.word(),
        "height": status.height,
        "peers": status.peers,
        "peers_needed": needed(status),
        "validators": status.validators,
        "peer_height": status.peer_height,
        "abstains_until": status.abstains_until,
        "text": standing.line(status),
    }))?)
}

/// Stops the API and then the validator, which writes what it has.
async fn stop(validator: RunningValidator, server: Option<ApiServer>) -> Outcome {
    if let Some(server) = server {
        server.stop(API_PATIENCE).await;
    }
    tokio::task::spawn_blocking(move || drop(validator)).await?;
    Ok(())
}

/// What to do about a validator that does not start.
fn hint_of(error: &OpenError, directory: &Path) -> String {
    let directory = directory.display();
    match error {
        OpenError::InUse { .. } => {
            "another process runs this validator, or has its folder; stop it first: two of one key would vote twice"
                .to_owned()
        }
        OpenError::Listen { .. } => {
            "--listen or `listen` in the settings names another address; the others dial the one in their seats".to_owned()
        }
        OpenError::OtherFormat { .. }
        | OpenError::OtherGenesis { .. }
        | OpenError::OtherValidator { .. } => {
            format!("{directory} is not this validator's: `data_dir` names another folder")
        }
        OpenError::NoAddress { .. } => {
            "`[seats]` in the settings needs an address for every validator whose address the ledger does not have".to_owned()
        }
        OpenError::NoQuorum { .. } => format!(
            "a network of fewer than 4 validators cannot do without one, so nobody can rebuild {directory}: restore it from a copy"
        ),
        OpenError::Floats(_) => "a library in this process may have changed how its threads round; else another machine must run it".to_owned(),
        OpenError::Old(_) => format!("{}; then once: --checkpoint HEIGHT:ID", trust::FRESH),
        error if error.is_damage() => {
            format!("nobody can rebuild {directory}: restore it from a copy")
        }
        _ => String::new(),
    }
}
