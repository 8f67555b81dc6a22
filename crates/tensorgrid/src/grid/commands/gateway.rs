//! `tensorgrid gateway`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_api::{ApiServer, GridPort};
use tg_node::{Follower, NodeHandle, OpenError, Status};
use tg_sdk::Client;
use tg_types::chain::CheckpointError;

use super::validator::bind;
use super::{Signals, stopped_at_once};
use crate::grid::blob;
use crate::grid::connect::Calling;
use crate::grid::descriptors;
use crate::grid::embedded::API_PATIENCE;
use crate::grid::node_args::GatewayArguments;
use crate::grid::port::NodePort;
use crate::grid::session_file::{self, SessionSetting};
use crate::grid::trust;
use crate::network::backup;
use crate::network::gateway::{GatewayOverrides, GatewayProcess, GatewaySettings};
use crate::network::settings;
use crate::network::standing::GatewayState;
use crate::telemetry;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, line, say};
use tg_console::table::brief;
use tg_openai::api_keys::ApiKeys;
use tg_openai::{OpenAiFolders, OpenAiOrders};

/// How often it looks where the gateway stands.
const LOOK: Duration = Duration::from_millis(200);

/// How often it says so although nothing changed but heights.
const REPEAT: Duration = Duration::from_secs(60);

/// Runs a gateway until a signal, copies what it has, or prints sample settings.
pub(crate) async fn run(arguments: &GatewayArguments, as_json: bool) -> Outcome {
    let Some(file) = arguments.config.as_deref().filter(|_| !arguments.sample) else {
        let text = settings::render(&GatewaySettings::sample())?;
        return Ok(line(text.trim_end())?);
    };
    if let Some(to) = &arguments.backup {
        let keys = arguments.openai_keys.as_deref();
        let copied = backup::of_gateway(file, &overrides(arguments), keys, to)?;
        return backup::tell("gateway", &copied, as_json);
    }
    let process = GatewayProcess::load(file, &overrides(arguments))?;
    let _telemetry = telemetry::start(process.log.as_deref(), as_json)?;
    let keys = arguments.openai_keys.as_deref();
    let keys = keys.map(|file| ApiKeys::open(Some(file))).transpose()?;
    let keys = keys.map(|keys| signing(keys, &process.session));
    let keys = keys.transpose()?;
    let genesis = process.genesis.id();
    // First: a busy port is told before anything is opened.
    let told = (&arguments.names, &arguments.clouds);
    let (listener, config) = bind(process.api, process.tls, told).await?;
    let config = descriptors::with_streams(config, process.streams)?;
    say("opening; an empty gateway takes a snapshot first");
    let own = process.follower.directory.join("openai");
    let follower = Follower::open(process.follower).await;
    let hint = follower.as_ref().err().map(hint_of);
    let follower = follower.or_fail(Exit::Failed, "start the gateway");
    let follower = follower.map_err(|failure| match hint {
        Some(hint) if !hint.is_empty() => failure.hint(hint),
        _ => failure,
    })?;
    let node = follower.handle().clone();
    let port = NodePort::gateway(node.clone(), brief(genesis), process.uplinks);
    let port = Arc::new(port);
    let server = listener.serve(Arc::clone(&port) as Arc<dyn GridPort>, config);
    let client = Client::new(&server.url())
        .calling("name the API")?
        .of_own_node();
    port.set_client(client.clone());
    if let Some(keys) = keys {
        let tokenizers = arguments.tokenizers.clone();
        let folders = OpenAiFolders { own, tokenizers };
        let orders = Arc::new(OpenAiOrders::new(client, keys, folders));
        orders.watch_models();
        port.set_orders(orders);
        let gone_on = server.go_on_with_batches();
        gone_on.or_fail(Exit::Failed, "go on with the batches of the OpenAI routes")?;
    }
    let following = tokio::spawn(follower.run());
    let sweeping = tokio::spawn(blob::sweep(node.clone()));
    let mut signals = Signals::new()?;
    announce(&node, &server, &genesis.to_string(), as_json)?;
    let ended = tokio::select! {
        ended = watch(&node, as_json) => ended,
        () = signals.stop() => Ok(()),
    };
    say("stopping; Ctrl-C again stops at once");
    let stopped = tokio::select! {
        () = server.stop(API_PATIENCE) => Ok(()),
        () = signals.stop() => Err(Failure::new(Exit::Failed, stopped_at_once())),
    };
    sweeping.abort();
    following.abort();
    // What it was writing is whole or not there. An aborted task ends with an error that says so.
    let _ = following.await;
    ended.and(stopped)
}

/// The API keys, with the session keys that sign their orders.
fn signing(keys: ApiKeys, session: &SessionSetting) -> Result<ApiKeys, Failure> {
    match session {
        SessionSetting::Off => Ok(keys),
        SessionSetting::Own => Ok(keys.with_sessions()),
        SessionSetting::File(path) => keys.with_session(session_file::read(path)?),
    }
}

fn overrides(arguments: &GatewayArguments) -> GatewayOverrides {
    GatewayOverrides {
        api: arguments.api_listen,
        tls: arguments.tls.place(),
        streams: arguments.streams,
        sources: arguments.source.clone(),
        data_dir: arguments.data_dir.clone(),
        checkpoint: arguments.checkpoint,
        session: arguments.session.session.clone(),
        log: arguments.log.clone(),
    }
}

/// The one line of data at the start.
fn announce(node: &NodeHandle, server: &ApiServer, genesis: &str, as_json: bool) -> Outcome {
    let (api, height) = (server.url(), node.status().height);
    if as_json {
        return Ok(line(serde_json::json!({
            "network": genesis,
            "api": api,
            "tls": server.secure_address(),
            "height": height,
        }))?);
    }
    let tls = server.secure_address();
    let tls = tls.map_or_else(String::new, |at| format!(" and TLS on {at}"));
    line(format_args!(
        "gateway of network {}, API {api}{tls}, height {height}",
        brief(genesis)
    ))?;
    Ok(())
}

/// Says where the gateway stands whenever that changes. Ends when it stops by itself.
async fn watch(node: &NodeHandle, as_json: bool) -> Outcome {
    let mut height = node.status().height;
    let mut last_block = Instant::now();
    let mut said: Option<(GatewayState, usize, Instant)> = None;
    loop {
        let status = node.status();
        if status.height != height {
            (height, last_block) = (status.height, Instant::now());
        }
        if let Some(reason) = &status.stopped {
            let text = format!("the gateway stopped by itself: {reason}");
            return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text))
                .hint("what was final is kept; mend the cause and start again"));
        }
        let standing = GatewayState::of(&status, last_block.elapsed());
        let is_new = said.is_none_or(|(before, peers, at)| {
            before != standing || peers != status.peers || at.elapsed() >= REPEAT
        });
        if is_new {
            report(standing, &status, as_json)?;
            said = Some((standing, status.peers, Instant::now()));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn report(standing: GatewayState, status: &Status, as_json: bool) -> Outcome {
    if !as_json {
        say(standing.line(status));
        return Ok(());
    }
    // One object a line, so that a reader can follow.
    Ok(line(serde_json::json!({
        "state": standing.word(),
        "height": status.height,
        "sources": status.peers,
        "source_height": status.peer_height,
        "text": standing.line(status),
    }))?)
}

/// What to do about a gateway that does not start.
fn hint_of(error: &OpenError) -> String {
    match error {
        OpenError::InUse { .. } => "another process has its folder; stop it first".to_owned(),
        OpenError::OtherFormat { .. }
        | OpenError::OtherGenesis { .. }
        | OpenError::OtherValidator { .. } => {
            "the folder is not this gateway's: `data_dir` names another".to_owned()
        }
        OpenError::Old(_) => format!("{}; then once: --checkpoint HEIGHT:ID", trust::FRESH),
        OpenError::Checkpoint(CheckpointError::Block { .. }) => {
            "either the checkpoint is of another chain, or this folder is: ask several for theirs, and if they agree, remove the data folder".to_owned()
        }
        error if error.is_damage() => {
            "keep the folder `openai` of its data folder, if there is one (files, batches and what keys have spent), and remove the rest: the sources \
             fill it again"
                .to_owned()
        }
        _ => String::new(),
    }
}
