//! A provider with a server of its own: which models it serves, whether the server has them, and their cards on the grid.

use std::path::Path;
use std::time::Duration;
use tg_console::files;

use serde::Deserialize;
use tg_provider::{
    ServedUpstream, UpstreamClient, UpstreamConfig, UpstreamHealth, UpstreamUrl, UpstreamWorker,
};
use tg_sdk::dto::ModelStateDto;
use tg_sdk::{Client, Wallet, clock};
use tg_types::served::CARD_BYTES_MAX;
use tg_types::{Address, Amount, ModelId, OfferTerms, ServedCard, TimestampMs};
use tokio::sync::watch;

use super::connect::Calling as _;
use super::embedded::{ModelFiles, register, wait_until_active};
use super::machine::{self, Ask};
use super::serve_args::{CallArgument, ServeArguments};
use tg_console::outcome::{Exit, Failure, OrFail as _};

/// Bytes of a file with models, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a file with a key, at most.
const KEY_BYTES_MAX: u64 = 4 << 10;

/// Models that one provider serves, at most: each has a record on the grid.
const MODELS_MAX: usize = 64;

/// How often a card is registered that another account registered before.
const REGISTERED_MAX: u32 = 3;

/// A file with models to serve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeFile {
    model: Vec<ServeEntry>,
}

/// One of them; what it does not say the flags do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeEntry {
    name: String,
    url: String,
    model: Option<String>,
    prompt_price: Option<String>,
    completion_price: Option<String>,
    context: Option<u32>,
    calls: Option<Vec<CallArgument>>,
    at_once: Option<u16>,
    key_env: Option<String>,
    key_file: Option<std::path::PathBuf>,
}

/// What serves models: the worker and what its agent needs to know.
pub(crate) struct Serving {
    pub(crate) worker: UpstreamWorker,
    /// The models, by their cards.
    pub(crate) models: Vec<ModelId>,
    /// Why all servers are gone, if they are.
    pub(crate) gone: watch::Receiver<Option<String>>,
}

/// The models that flags and file name.
pub(crate) fn configs(arguments: &ServeArguments) -> Result<Vec<UpstreamConfig>, Failure> {
    let key = key(
        arguments.upstream_key_env.as_deref(),
        arguments.upstream_key_file.as_deref(),
    )?;
    let usual = |at: UpstreamUrl| UpstreamConfig {
        at,
        key: key.clone(),
        context: arguments.context,
        calls: arguments.calls.iter().map(|it| (*it).into()).collect(),
        prompt_price: arguments.prompt_price,
        completion_price: arguments.completion_price,
        at_once: arguments.at_once,
        silence: Duration::from_secs(arguments.upstream_timeout.into()),
    };
    let mut all: Vec<UpstreamConfig> = arguments.serve_openai.iter().cloned().map(usual).collect();
    if let Some(path) = &arguments.serve_config {
        let place = path.display().to_string();
        let bytes = files::read(path, FILE_BYTES_MAX)?;
        let text = String::from_utf8(bytes).or_fail(Exit::Usage, format!("read {place}"))?;
        let file: ServeFile =
            toml::from_str(&text).or_fail(Exit::Usage, format!("read {place}"))?;
        for entry in file.model {
            let folder = path.parent().unwrap_or(Path::new(""));
            let name = entry.name.clone();
            let config = of_entry(entry, folder, &usual);
            all.push(config.map_err(|mut failure| {
                failure.error = failure.error.context(format!("{place}, model `{name}`"));
                failure
            })?);
        }
    }
    if all.len() > MODELS_MAX {
        let text = format!(
            "{} models: a provider serves {MODELS_MAX} at most",
            all.len()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    for (index, config) in all.iter().enumerate() {
        if all[..index].iter().any(|it| it.at.name == config.at.name) {
            let text = format!("two models are named `{}`", config.at.name.as_str());
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
                "one name is one model of a provider; another provider may serve the same name",
            ));
        }
    }
    Ok(all)
}

fn of_entry(
    entry: ServeEntry,
    folder: &Path,
    usual: &dyn Fn(UpstreamUrl) -> UpstreamConfig,
) -> Result<UpstreamConfig, Failure> {
    let model = entry.model.as_deref().unwrap_or(&entry.name);
    let at = UpstreamUrl::new(&entry.name, &entry.url, model);
    let usual = usual(at.or_fail(Exit::Usage, "name the server")?);
    let price = |text: Option<String>, usual: Amount, field| match text {
        Some(text) => text.parse::<Amount>().or_fail(Exit::Usage, field),
        None => Ok(usual),
    };
    let file = entry.key_file.map(|path| folder.join(path));
    let own_key = key(entry.key_env.as_deref(), file.as_deref())?;
    Ok(UpstreamConfig {
        key: own_key.or(usual.key),
        context: entry.context.unwrap_or(usual.context),
        calls: match entry.calls {
            Some(calls) => calls.into_iter().map(Into::into).collect(),
            None => usual.calls,
        },
        prompt_price: price(entry.prompt_price, usual.prompt_price, "prompt_price")?,
        completion_price: price(
            entry.completion_price,
            usual.completion_price,
            "completion_price",
        )?,
        at_once: entry.at_once.unwrap_or(usual.at_once),
        silence: usual.silence,
        at: usual.at,
    })
}

/// The key that a server wants.
fn key(variable: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let wrong = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let text = match (variable, file) {
        (Some(name), _) => std::env::var(name).map_err(|_| {
            wrong(format!(
                "the variable {name} of the environment, with the server's key, is not set"
            ))
        })?,
        (None, Some(path)) => {
            let bytes = files::read(path, KEY_BYTES_MAX)?;
            String::from_utf8(bytes)
                .map_err(|_| wrong(format!("the key in {} is no text", path.display())))?
        }
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => Err(wrong("the server's key is empty".to_owned())),
        key => Ok(Some(key.to_owned())),
    }
}

/// The offer of a provider that serves models: it asks for tokens alone, and has no memory for anything else.
pub(crate) fn terms(ask: &Ask) -> OfferTerms {
    OfferTerms {
        price_base: Amount::ZERO,
        price_per_mmac: Amount::ZERO,
        price_per_gpu_second: Amount::ZERO,
        memory_bytes: 0,
        modes: tg_types::ModeSet::of(&[tg_types::VerificationMode::Endpoint]),
        ..machine::terms(ask)
    }
}

/// Asks each server for its model, without anything being promised.
pub(crate) async fn checked(
    configs: Vec<UpstreamConfig>,
) -> Result<Vec<(UpstreamConfig, UpstreamClient)>, Failure> {
    let mut all = Vec::new();
    for config in configs {
        let client = UpstreamClient::new(&config);
        let client = client.or_fail(Exit::Usage, "take the server's key")?;
        let name = config.at.name.as_str();
        client
            .check(&config.at.model)
            .await
            .or_fail(Exit::Unavailable, format!("serve `{name}`"))
            .map_err(|failure| {
                failure.hint(
                    "start the server first; after # stands what the server calls the model (GET /v1/models lists it)",
                )
            })?;
        all.push((config, client));
    }
    Ok(all)
}

/// Registers the cards of models that are not on the grid as they are, and watches their servers.
pub(crate) async fn start(
    grid: &Client,
    wallet: &Wallet,
    servers: Vec<(UpstreamConfig, UpstreamClient)>,
) -> Result<Serving, Failure> {
    let mut served = Vec::new();
    let (mut models, mut healths) = (Vec::new(), Vec::new());
    let own = own_cards(grid, wallet.address()).await?;
    for (config, client) in servers {
        let card = card(grid, wallet, (&config, &own)).await?;
        let health = UpstreamHealth::watched(client.clone(), config.at.model.clone());
        models.push(card.model_id());
        healths.push(health.clone());
        served.push(ServedUpstream::new(&config, card, client, health));
    }
    Ok(Serving {
        worker: UpstreamWorker::new(served),
        models,
        gone: UpstreamHealth::all_gone(healths),
    })
}

/// The card of a model: the latest of its name, if it says the same, or else a new one.
async fn card(
    grid: &Client,
    wallet: &Wallet,
    (config, own): (&UpstreamConfig, &[ServedCard]),
) -> Result<ServedCard, Failure> {
    let now = clock::now().get();
    let of_name = own.iter().filter(|it| it.name == config.at.name);
    let latest = of_name.max_by_key(|it| it.issued);
    // Later than the one before, whatever this machine's clock says.
    let after = latest.map_or(0, |it| it.issued.get().saturating_add(1));
    let issued = TimestampMs::new(now.max(after));
    let fresh = config
        .card(wallet.address(), issued)
        .or_fail(Exit::Usage, format!("serve `{}`", config.at.name.as_str()))?;
    if let Some(latest) = latest {
        let same = ServedCard {
            issued: latest.issued,
            ..fresh.clone()
        };
        if same == *latest {
            return Ok(same);
        }
    }
    let id = fresh.model_id();
    let mut tries = 0;
    loop {
        tries += 1;
        let files = ModelFiles {
            id,
            public: fresh.file(),
            weights: fresh.file(),
        };
        register(grid, wallet, files, fresh.name.as_str()).await?;
        match wait_until_active(grid, id).await {
            Ok(_) => return Ok(fresh),
            Err(failure) if tries >= REGISTERED_MAX => return Err(failure),
            // Another account was faster with this card, which is refused for that, and can be registered again.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// The cards that a provider has on the grid.
async fn own_cards(grid: &Client, provider: Address) -> Result<Vec<ServedCard>, Failure> {
    let models = grid.models().await.calling("list the models")?;
    let mut cards = Vec::new();
    for model in models {
        if model.owner != provider || model.state != ModelStateDto::Active || !model.is_served() {
            continue;
        }
        let file = grid.blob(model.public_blob, CARD_BYTES_MAX).await;
        if let Ok(card) = ServedCard::read(&file.calling("read a card")?) {
            cards.push(card);
        }
    }
    Ok(cards)
}
