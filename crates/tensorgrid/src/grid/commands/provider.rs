//! `tensorgrid provider` and `tensorgrid provider list`; `show` is elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_console::files;

use tg_provider::{
    AgentConfig, AgentEvent, ProvingWorker, RentPolicy, SessionChoice, Stage, serving_policy,
};
use tg_sdk::Client;
use tg_sdk::dto::{FaucetRequestDto, MachineDto};
use tg_types::{Address, Amount, Digest, Label, OfferTerms, Wallet};

use super::{Signals, provider_show, say_unproved, stopped_at_once, unproved_json};
use crate::grid::connect::{self, Calling};
use crate::grid::connect_args::ApiArguments;
use crate::grid::embedded::RunningAgent;
use crate::grid::machine::{self, Ask};
use crate::grid::node_args::{ProviderArguments, ProviderCommand};
use crate::grid::serving;
use crate::grid::session_file::{self, SessionSetting};
use crate::network::backup;
use crate::network::provider::ProviderSettings;
use crate::network::settings;
use tg_console::accounts;
use tg_console::keys::Passphrase;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::{Table, brief, short};
use tg_offline::execution;

/// How long play money may take to arrive.
const FAUCET_LIMIT: Duration = Duration::from_secs(30);

/// Becomes a provider, or says something of them.
pub(crate) async fn run(arguments: &ProviderArguments, as_json: bool) -> Outcome {
    match &arguments.command {
        Some(ProviderCommand::List(api)) => list(api, as_json).await,
        Some(ProviderCommand::Show(arguments)) => provider_show::run(arguments, as_json).await,
        Some(ProviderCommand::Status(arguments)) => provider_show::status(arguments, as_json).await,
        None if arguments.sample => {
            let text = settings::render(&ProviderSettings::sample())?;
            Ok(line(text.trim_end())?)
        }
        None => match (&arguments.config, &arguments.backup) {
            (Some(file), Some(to)) => {
                let copied = backup::of_provider(file, &arguments.key, to)?;
                backup::tell("provider", &copied, as_json)
            }
            _ => work(arguments, as_json).await,
        },
    }
}

async fn list(arguments: &ApiArguments, as_json: bool) -> Outcome {
    let client = connect::client(arguments)?;
    let offers = client.offers().await.calling("list the offers")?;
    if as_json {
        return unproved_json(&offers);
    }
    say_unproved(&client);
    let mut table = Table::new(&[
        "provider",
        "hardware",
        "price",
        "per Mmac",
        "GPUs",
        "memory",
        "region",
        "slots",
        "collateral",
        "accepted",
        "rejected",
        "late",
        "there",
    ]);
    for offer in offers {
        let reputation = &offer.reputation;
        table.row(vec![
            offer.provider.to_string(),
            offer.terms.hardware.clone(),
            // Of an offer for served models cards say what tokens cost.
            match offer.terms.memory_bytes {
                0 => "tokens".to_owned(),
                _ => short(offer.terms.price_base),
            },
            short(offer.terms.price_per_mmac),
            gpus(&offer.terms.machine),
            gib(offer.terms.machine.memory_mib),
            offer.terms.machine.region.to_string(),
            format!("{}/{}", offer.leases, offer.terms.slots),
            short(offer.terms.collateral_per_lease),
            reputation.accepted.to_string(),
            reputation.rejected.to_string(),
            (reputation.late + reputation.abandoned).to_string(),
            if offer.offline { "no" } else { "yes" }.to_owned(),
        ]);
    }
    Ok(line(table)?)
}

/// GPUs of a machine, all alike.
fn gpus(machine: &MachineDto) -> String {
    match machine.gpus {
        0 => "-".to_owned(),
        count => format!("{count} x {}, {}", machine.gpu, gib(machine.gpu_memory_mib)),
    }
}

/// MiB as whole GiB, rounded; nothing is said of what is 0.
fn gib(mib: u32) -> String {
    match mib {
        0 => "-".to_owned(),
        _ => format!("{} GiB", mib.saturating_add(512) / 1_024),
    }
}

/// Offers this machine, or its servers, until Ctrl-C.
async fn work(arguments: &ProviderArguments, as_json: bool) -> Outcome {
    if arguments.serve.is_serving() {
        return serve(arguments, as_json).await;
    }
    // First: a device that is refused ends this before anything is promised.
    let device = execution::choose(arguments.device)?;
    machine::check_gpus(&arguments.machine, || tg_cuda::probe().devices.len())?;
    let (client, wallet) = account(arguments).await?;
    let ask = Ask {
        machine: arguments.machine.machine(&machine::found(device.gpu())),
        ..ask(arguments)
    };
    fund(&client, &wallet, &ask).await?;
    let mut terms = machine::terms(&ask);
    if let Some(gpu) = device.gpu() {
        let hardware = format!("{}, {}", gpu.name, terms.hardware.as_str());
        terms.hardware = Label::lossy(&hardware);
    }
    say(format_args!(
        "offering {} as {} for {} TGRID a job",
        terms.hardware.as_str(),
        wallet.address(),
        short(ask.price)
    ));
    let config = config(arguments, wallet.address(), terms)?;
    let worker = if arguments.masked {
        ProvingWorker::masking(files::entropy)
    } else {
        ProvingWorker::new()
    };
    let worker = Arc::new(worker.on(device));
    follow(
        RunningAgent::start(&client, wallet, worker, config),
        as_json,
    )
    .await
}

/// Serves models by servers of its own until Ctrl-C.
async fn serve(arguments: &ProviderArguments, as_json: bool) -> Outcome {
    // First: a server that is not there ends this before anything is promised.
    let servers = serving::checked(serving::configs(&arguments.serve)?).await?;
    let (client, wallet) = account(arguments).await?;
    let ask = Ask {
        slots: arguments.serve.accounts_at_once,
        throttle_mmac_per_s: None,
        ..ask(arguments)
    };
    fund(&client, &wallet, &ask).await?;
    for (config, upstream) in &servers {
        say(format_args!(
            "serving `{}` by {} as {} for {} TGRID a million tokens of prompts and {} of answers; nobody checks the answers",
            config.at.name.as_str(),
            upstream.url(),
            wallet.address(),
            short(config.prompt_price),
            short(config.completion_price)
        ));
    }
    let serving = serving::start(&client, &wallet, servers).await?;
    let config = AgentConfig {
        models: serving.models,
        gone: Some(serving.gone),
        ..config(arguments, wallet.address(), serving::terms(&ask))?
    };
    let worker = Arc::new(serving.worker);
    follow(
        RunningAgent::start(&client, wallet, worker, config),
        as_json,
    )
    .await
}

async fn account(arguments: &ProviderArguments) -> Result<(Client, Wallet), Failure> {
    let client = connect::client(&arguments.api)?;
    let passphrase = arguments.passphrase.passphrase_file.as_ref();
    let passphrase = Passphrase::read_optional(passphrase)?;
    let wallet = connect::key_file(&arguments.key, passphrase.as_ref())?;
    connect::pin(&client, &arguments.key).await?;
    Ok((client, wallet))
}

/// What the flags ask, of the processor alone.
fn ask(arguments: &ProviderArguments) -> Ask {
    Ask {
        price_per_mmac: arguments.price_per_mmac,
        price_per_gpu_second: arguments.price_per_gpu_second,
        pricing: arguments.machine.pricing(),
        slots: arguments.slots,
        throttle_mmac_per_s: arguments.throttle_mmac_per_s,
        ..Ask::of_processor(arguments.price, arguments.collateral)
    }
}

/// How long a provider that is told to stop stays for results that are still judged: a vote, or a challenge with its dispute.
const JUDGED: Duration = Duration::from_secs(600);

fn config(
    arguments: &ProviderArguments,
    account: Address,
    terms: OfferTerms,
) -> Result<AgentConfig, Failure> {
    let session = match &arguments.session.session {
        SessionSetting::Off => SessionChoice::Off,
        SessionSetting::Own => SessionChoice::Own(serving_policy(&terms)),
        SessionSetting::File(path) => SessionChoice::Given(session_file::read_of(path, account)?),
    };
    Ok(AgentConfig {
        session,
        throttle_mmac_per_s: arguments.throttle_mmac_per_s,
        rent: RentPolicy {
            per_day_max: arguments.rent_per_day_max,
            ..RentPolicy::default()
        },
        judged: JUDGED,
        parts: Some(parts_beside(&arguments.key)),
        ..AgentConfig::new(terms)
    })
}

/// `KEY.parts`: where chunks of models lie while they are pulled.
fn parts_beside(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".parts");
    name.into()
}

/// Tells what an agent does until Ctrl-C, and waits until it has finished what it started.
async fn follow(mut agent: RunningAgent, as_json: bool) -> Outcome {
    let mut signals = Signals::new()?;
    let mut stopping = false;
    loop {
        tokio::select! {
            event = agent.events.recv() => match event {
                Some(event) => tell(&event, as_json)?,
                // The agent ended.
                None => break,
            },
            () = signals.stop() => {
                if stopping {
                    return Err(Failure::new(Exit::Failed, stopped_at_once()));
                }
                stopping = true;
                say(
                    "stopping: withdrawing the offer and finishing what was started; results that are still judged, for up to 10 min, as who does not \
                     answer a challenge loses its collateral; Ctrl-C again stops at once",
                );
                agent.stop();
            }
        }
    }
    agent.ended().await
}

/// Makes sure that the account can lock its collateral: on a development network the faucet gives it.
async fn fund(client: &Client, wallet: &Wallet, ask: &Ask) -> Outcome {
    let address = wallet.address();
    let lease = ask.collateral.get().saturating_mul(u128::from(ask.slots));
    // As much again for fees, and for the collateral that is lost by being late once.
    let needed = Amount::new(lease.saturating_mul(2)).saturating_add(Amount::from_tgrid(1));
    let balance = client
        .account(address)
        .await
        .calling("ask for the balance")?
        .balance;
    if balance >= needed {
        return Ok(());
    }
    let status = client.status().await.calling("ask the grid")?;
    if !status.development {
        let text = format!(
            "{address} has {} TGRID and needs {}",
            short(balance),
            short(needed)
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
            .hint("pay it, or lower --collateral or --slots"));
    }
    let amount = needed.saturating_sub(balance).min(accounts::FAUCET_MAX);
    say(format_args!(
        "asking the faucet of the development network for {} TGRID",
        short(amount)
    ));
    let request = FaucetRequestDto { address, amount };
    client.faucet(&request).await.calling("ask the faucet")?;
    let started = Instant::now();
    while client
        .account(address)
        .await
        .calling("ask for the balance")?
        .balance
        == balance
    {
        if started.elapsed() > FAUCET_LIMIT {
            let text = "the faucet's money did not arrive";
            return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Tells an event of the agent: a line for people, or one JSON object a line.
fn tell(event: &AgentEvent, as_json: bool) -> Outcome {
    let Some((kind, text)) = describe(event) else {
        return Ok(());
    };
    if as_json {
        // One object a line, so that a reader can follow.
        return Ok(line(serde_json::json!({ "event": kind, "text": text }))?);
    }
    say(text);

    Ok(())
}

/// Tells an event of a named agent of this process.
pub(crate) fn tell_as(name: &str, event: &AgentEvent) {
    if let Some((_, text)) = describe(event) {
        say(format_args!("{name}: {text}"));
    }
}

/// An event's kind and text; nothing for what would only be noise.
fn describe(event: &AgentEvent) -> Option<(&'static str, String)> {
    Some(match event {
        AgentEvent::Offered(offer) => ("offered", format!("the offer {} stands", brief(offer))),
        AgentEvent::Leased(lease) => {
            let text = format!(
                "lease {}: job {} for {} TGRID",
                brief(lease.id),
                brief(lease.job),
                short(lease.price)
            );
            ("leased", text)
        }
        AgentEvent::Working(lease, progress)
            if progress.permille == 0 && progress.stage != Stage::Pull =>
        {
            let text = format!("lease {}: {}", brief(lease), progress.stage);
            ("working", text)
        }
        AgentEvent::Working(..) => return None,
        AgentEvent::Executed {
            lease,
            elapsed_ms,
            on,
        } => {
            let text = format!(
                "lease {}: executed in {elapsed_ms} ms on {on}",
                brief(lease)
            );
            ("executed", text)
        }
        AgentEvent::Proved {
            lease,
            evidence,
            elapsed_ms,
        } => {
            let text = format!(
                "lease {}: proved in {elapsed_ms} ms, {} bytes",
                brief(lease),
                evidence.size
            );
            ("proved", text)
        }
        AgentEvent::Served(lease, count) => (
            "served",
            format!("lease {}: {count} requests answered", brief(lease)),
        ),
        AgentEvent::Submitted(lease, message) => {
            let text = format!("lease {}: submitted {message:?}", brief(lease)).to_lowercase();
            ("submitted", text)
        }
        AgentEvent::Ended(lease) => {
            let end = lease.end_text.clone().unwrap_or_else(|| "ended".to_owned());
            ("ended", format!("lease {}: {end}", brief(lease.id)))
        }
        AgentEvent::Left(lease, reason) => (
            "left",
            format!("lease {}: left, {reason:?}", brief(lease)).to_lowercase(),
        ),
        AgentEvent::Problem(text) => ("problem", format!("problem: {text}")),
        AgentEvent::RentPaid(kind, amount) => (
            "rent_paid",
            format!(
                "{} TGRID of rent paid for the {}",
                short(*amount),
                kind.as_str()
            ),
        ),
        AgentEvent::SessionKey(key) => ("session", signs(key.as_ref())),
        AgentEvent::Withdrawn => ("withdrawn", "the offer is withdrawn".to_owned()),
    })
}

/// Who signs for a provider's leases.
fn signs(session: Option<&Digest>) -> String {
    match session {
        Some(key) => format!("session key {} signs for its leases", brief(key)),
        None => "no session key is registered: the account's own key signs".to_owned(),
    }
}
