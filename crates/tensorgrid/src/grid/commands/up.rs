//! `tensorgrid up`: a grid that stays.

use std::sync::Arc;
use std::time::Duration;

use tg_api::ApiConfig;
use tg_provider::{AgentConfig, AgentEvent, ProvingWorker};
use tg_types::Amount;

use crate::grid::commands::{Signals, provider, stopped_at_once};
use crate::grid::descriptors;
use crate::grid::embedded::{
    EmbeddedGrid, EmbeddedOptions, RunningAgent, holds_grid, register_bundled,
};
use crate::grid::machine::{self, Ask};
use crate::grid::node_args::UpArguments;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::{accounts, table};
use tg_offline::bundled::BuiltIn;

/// Most providers in this process.
const PROVIDERS_MAX: usize = 6;

/// How long the grid waits for its providers' offers before it says that it is ready.
const OFFERS_STAND: Duration = Duration::from_secs(20);

/// Million multiply-accumulates a second of the slower of the embedded providers. They are the cheapest, so that they get the
/// orders of whoever tries the grid: a run of the built-in language model, 277 million, takes them three seconds.
const THROTTLE: u64 = 100;

/// Milli-TGRID a job, and the throttle if any, of each embedded provider.
const ASKS: [(u64, Option<u64>); PROVIDERS_MAX] = [
    (20, None),
    (15, Some(THROTTLE)),
    (30, None),
    (25, Some(THROTTLE)),
    (40, None),
    (35, Some(THROTTLE)),
];

/// Runs a grid until Ctrl-C.
pub(crate) async fn run(arguments: &UpArguments, as_json: bool) -> Outcome {
    let restarts = holds_grid(&arguments.data_dir);
    say(if restarts {
        "starting the grid where it stood ..."
    } else {
        "starting a new grid ..."
    });
    let api = ApiConfig {
        listen: arguments.listen,
        ..ApiConfig::default()
    };
    let grid = EmbeddedGrid::start(EmbeddedOptions {
        directory: arguments.data_dir.clone(),
        api: descriptors::with_streams(api, None)?,
        tls: arguments.tls.place(),
        names: arguments.names.allowed_host.clone(),
        clouds: arguments.clouds.told()?,
        validators: usize::from(arguments.validators),
        repeat_macs: arguments.repeat_macs,
        whole_run_macs: arguments.whole_run_macs,
        accounts: accounts::funded(PROVIDERS_MAX),
        openai_keys: arguments.openai_keys.clone(),
        tokenizers: arguments.tokenizers.clone(),
        new_epoch: arguments.new_epoch,
    })
    .await?;
    let mut signals = Signals::new()?;
    let mut agents = Vec::new();
    let served = tokio::select! {
        served = serve(&grid, arguments, as_json, &mut agents) => served,
        failure = grid.broken() => Err(failure),
        () = signals.stop() => Ok(()),
    };
    say("stopping; Ctrl-C again stops at once");
    let ended = tokio::select! {
        ended = stop(grid, agents) => ended,
        () = signals.stop() => Err(Failure::new(Exit::Failed, stopped_at_once())),
    };
    served.and(ended)
}

/// Registers the models, starts the providers and tells what they do. Ends only by failing.
async fn serve(
    grid: &EmbeddedGrid,
    arguments: &UpArguments,
    as_json: bool,
    agents: &mut Vec<RunningAgent>,
) -> Outcome {
    if !arguments.no_models {
        let registrar = accounts::wallet(accounts::REGISTRAR);
        for bundled in BuiltIn::ALL {
            let model = register_bundled(grid.client(), &registrar, bundled).await?;
            say(format_args!(
                "model {} is active as {}",
                model.name,
                table::brief(model.id)
            ));
        }
    }
    let worker = Arc::new(ProvingWorker::new());
    let (sender, mut events) = tokio::sync::mpsc::channel(1024);
    for (index, (millis, throttle)) in ASKS
        .iter()
        .take(usize::from(arguments.providers))
        .enumerate()
    {
        let name = accounts::provider(index);
        let terms = machine::terms(&Ask {
            price_per_mmac: milli_tgrid(1),
            throttle_mmac_per_s: *throttle,
            ..Ask::of_processor(milli_tgrid(*millis), Amount::from_tgrid(1))
        });
        let config = AgentConfig {
            throttle_mmac_per_s: *throttle,
            ..AgentConfig::new(terms)
        };
        let wallet = accounts::wallet(&name);
        let client = grid.client();
        let mut agent = RunningAgent::start(client, wallet, Arc::clone(&worker), config);
        let (_, empty) = tokio::sync::mpsc::channel(1);
        let mut told = std::mem::replace(&mut agent.events, empty);
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(event) = told.recv().await {
                // A full queue means that nobody reads the talk; the agent works on.
                let _ = sender.try_send((name.clone(), event));
            }
        });
        agents.push(agent);
    }
    let offering = tokio::time::timeout(OFFERS_STAND, async {
        let mut missing = agents.len();
        while missing > 0 {
            let Some((name, event)) = events.recv().await else {
                return;
            };
            missing -= usize::from(matches!(event, AgentEvent::Offered(_)));
            provider::tell_as(&name, &event);
        }
    });
    if offering.await.is_err() {
        say("not all offers stand yet; the providers go on trying");
    }
    announce(grid, arguments, as_json)?;
    while let Some((name, event)) = events.recv().await {
        provider::tell_as(&name, &event);
    }
    std::future::pending().await
}

/// The one line of data: the grid is ready.
fn announce(grid: &EmbeddedGrid, arguments: &UpArguments, as_json: bool) -> Outcome {
    if as_json {
        let ready = serde_json::json!({
            "ready": true,
            "api": grid.url(),
            "tls": grid.secure_address(),
            "network": "development",
            "data_dir": arguments.data_dir,
            "validators": arguments.validators,
            "providers": arguments.providers,
        });
        return Ok(line(ready)?);
    }
    let tls = grid.secure_address();
    let tls = tls.map_or_else(String::new, |at| format!(", TLS on {at}"));
    line(format_args!(
        "ready: {}{tls} (network development: play money, public keys)",
        grid.url()
    ))?;
    say("try: tensorgrid model list | tensorgrid infer lenet-digits INPUT | tensorgrid balance");
    Ok(())
}

/// Thousandths of a TGRID.
const fn milli_tgrid(millis: u64) -> Amount {
    Amount::new(millis as u128 * 1_000_000_000_000_000)
}

/// Stops the providers, which withdraw their offers and finish what they started, then the grid.
async fn stop(grid: EmbeddedGrid, mut agents: Vec<RunningAgent>) -> Outcome {
    for agent in &agents {
        agent.stop();
    }
    for agent in &mut agents {
        if let Err(failure) = agent.ended().await {
            say(format_args!("a provider ended with: {:#}", failure.error));
        }
    }
    grid.stop().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cheapest provider of a new grid took 277 seconds for one run of the language model, of the 300 that an order has: the
    /// README's `write` ended with the deadline, and the provider lost its collateral.
    #[test]
    fn the_throttled_providers_run_every_built_in_model_in_seconds() {
        for built_in in BuiltIn::ALL {
            let model = built_in.model().expect("a built-in model");
            let seconds = model.program.macs() / (THROTTLE * 1_000_000);
            assert!(seconds < 10, "{}: {seconds} s", built_in.name());
        }
    }
}
